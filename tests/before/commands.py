"""The command lines that made the fixtures, without their output folder. Pure data: nothing here
imports elmore, so that every version can be given the same commands. All paths are relative to the
fixtures' own folder, and the commands run in it.
"""

import json
from typing import Any

ROOT = "/tmp/elmore-before"
"""Where the fixtures were made. A pretraining run keeps absolute paths in its run.json; whoever
goes on with a copy puts the copy's own folder in the place of this one."""

Command = list[str]


def _set(**settings: Any) -> Command:
    """`--set name=value` for each; two underscores stand for a dot."""
    pairs = [f"{name.replace('__', '.')}={json.dumps(value)}" for name, value in settings.items()]
    return [part for pair in pairs for part in ("--set", pair)]


# Pretraining --------------------------------------------------------------------------------------

_CHARACTERS = {
    "kind": "characters", "dim": 6, "char_dim": 3, "filters": [[1, 3], [2, 5]], "n_highway": 1,
    "max_characters": 12,
}  # fmt: skip
_LSTM = {"kind": "lstm", "dim": 6, "cell_dim": 8, "dropout": 0.1}
_TRANSFORMER = {
    "kind": "transformer", "dim": 6, "ff_dim": 10, "n_layers": 1, "n_heads": 2, "dropout": 0.1,
    "input_dropout": 0.1, "max_positions": 60,
}  # fmt: skip
_MODELS = {
    "lstm": {"words": _CHARACTERS, "context": _LSTM},
    "transformer": {"words": _CHARACTERS, "context": _TRANSFORMER},
    # 25 words of the corpus and three marks
    "words": {"words": {"kind": "words", "n_words": 28, "dim": 6}, "context": _LSTM},
}
_SOFTMAXES = {
    "full": {"kind": "full"},
    "sampled": {"kind": "sampled", "n_samples": 8},
    "adaptive": {"kind": "adaptive", "cutoffs": [8, 16], "div_value": 2.0},
}
_ROWS = {"kind": "rows", "rows": 3, "steps": 6, "forget": 0.1}
_SENTENCES = {"kind": "sentences", "words": 40, "max_words": 12}
_ADAGRAD = {"kind": "adagrad", "lr": 0.2, "initial_accumulator": 1.0}
_ADAMW = {
    "kind": "adamw", "lr": 0.002, "betas": [0.9, 0.99], "eps": 1e-8, "weight_decay": 0.01,
}  # fmt: skip
_LOOP = {
    "minutes": None, "loss_scale": 1.0, "clip": 1.0, "accumulate": 1, "seed": 1, "log_steps": 1,
    "checkpoint_minutes": 60.0, "valid_steps": None, "keep": 1,
    "schedule": {"kind": "constant", "warmup": 0},
}  # fmt: skip


def _pretrain(
    model: str, softmax: str, batches: dict[str, Any], loop: dict[str, Any], **others: Any
) -> Command:
    """Every section is said in full, so that no recipe's defaults matter."""
    settings = {
        "model": _MODELS[model],
        "softmax": _SOFTMAXES[softmax],
        "batches": batches,
        "reading": {"block": 3, "buffer": 10, "together": 2},
        "vocabulary": {"min_count": 1, "max_size": None},
        "loop": {**_LOOP, **loop},
        "epochs": None,
        "output_dropout": 0.1,
        "precision": "float32",
        "softmax_start": "random",
        "softmax_first": 0,
        "valid_words": 60,
        **others,
    }
    files = ["data/corpus-0.txt", "data/corpus-1.txt"]
    return ["pretrain", *files, "--recipe", "elmo-small", "--quiet", *_set(**settings)]


RUNS: dict[str, Command] = {
    "rows": _pretrain(
        "lstm", "sampled", _ROWS, {"steps": 8, "optimizer": _ADAGRAD, "loss_scale": 6.0}
    ),
    "sentences": _pretrain(
        "lstm", "full", _SENTENCES,
        {
            "steps": 10, "optimizer": _ADAMW, "schedule": {"kind": "cosine", "warmup": 3},
            "accumulate": 2, "log_steps": 4,
        },
    ),
    "transformer": _pretrain(
        "transformer", "sampled", _SENTENCES,
        {
            "steps": 8, "optimizer": {**_ADAMW, "lr": 0.2, "eps": 1e-4}, "clip": None,
            "schedule": {"kind": "noam", "dim": 6, "warmup": 20},
        },
    ),
    "adaptive": _pretrain("lstm", "adaptive", _ROWS, {"steps": 8, "optimizer": _ADAGRAD}),
    "words": [
        *_pretrain(
            "words", "full", _ROWS,
            {
                "steps": 8, "optimizer": {**_ADAGRAD, "lr": 0.5}, "valid_steps": 2,
                "schedule": {"kind": "plateau", "warmup": 0, "drop": 0.5},
            },
        ),
        "--valid", "data/valid.txt",
    ],
    "static": _pretrain(
        "lstm", "sampled", _SENTENCES, {"steps": 8, "optimizer": _ADAMW}, softmax_start="static"
    ),
    "from-mixed": [
        *_pretrain(
            "lstm", "full", _SENTENCES, {"steps": 10, "optimizer": _ADAMW}, softmax_first=6
        ),
        "--from", "models/mixed",
    ],
    "from-dictionary": [
        *_pretrain("lstm", "sampled", _ROWS, {"steps": 8, "optimizer": _ADAGRAD}, softmax_first=2),
        "--from", "models/dictionary",
    ],
}  # fmt: skip
STOPS = {
    "rows": 3, "sentences": 4, "transformer": 3, "adaptive": 3, "words": 3, "static": 3,
    "from-mixed": 2, "from-dictionary": 3,
}  # fmt: skip
"""The step after whose report a run was told to stop; it takes one step more, and saves."""

# Models -------------------------------------------------------------------------------------------

TRAINED = {"characters": "sentences", "adaptive": "adaptive", "transformer": "transformer"}
TRAINED |= {"words": "words"}
"""Native folders made from a finished run."""
FOREIGN = {"dictionary": "manylangs", "spelling": "manylangs-without-words", "mixed": "task"}
FOREIGN |= {"foreign-transformer": "transformer"}
"""Native folders made from foreign/…."""
FOREIGN_KEPT = ["dictionary", "mixed"]
"""Those whose foreign files are kept too."""
MODELS = [*TRAINED, *FOREIGN]
WITH_SOFTMAX = [*TRAINED, "foreign-transformer"]

# Stores, indexes, dumps ---------------------------------------------------------------------------

_STORE_MODEL = ["--model", "models/characters", "--quiet"]
STORES: dict[str, Command] = {
    "all-float16": [*_STORE_MODEL, "--precision", "float16"],
    "mix-int8": [
        *_STORE_MODEL, "--keep", "mix:0.2,0.5,0.3", "--gamma", "1.5", "--precision", "int8",
    ],
    "pca-float32": [*_STORE_MODEL, "--keep", "pca:5"],
}  # fmt: skip
"""To be put after `store fill TEXT FOLDER`."""

_INDEX = ["index", "data/uses.txt", "--model", "models/characters", "--quiet"]
INDEXES: dict[str, Command] = {
    "mix": [*_INDEX, "--words", "0", "--uses", "9"],
    "layers": [*_INDEX, "--words", "0", "--uses", "9", "--keep", "all", "--vectors", "float32"],
    "unfinished": [*_INDEX, "--words", "12", "--uses", "20", "--vectors", "float16"],
}
INDEX_STOP = 15
"""Sentences after which the unfinished build was told to stop."""

_EMBED = ["embed", "data/lines.txt"]
_EMBED_HOW = ["--model", "models/characters", "--batch-words", "4", "--quiet"]
DUMPS: dict[str, tuple[Command, Command]] = {
    "all.hdf5": (_EMBED, _EMBED_HOW),
    "top.npz": (_EMBED, [*_EMBED_HOW, "--layers", "top"]),
    "some.jsonl": (_EMBED, [*_EMBED_HOW, "--layers", "0,2"]),
    "unfinished.hdf5": (_EMBED, _EMBED_HOW),
}
"""What stands before and after the name of the file."""
DUMP_STOP = 7
"""Lines that were read before the unfinished dump was told to stop."""

# Tasks --------------------------------------------------------------------------------------------

_STATIC, _MODEL, _STORE = "glove:data/glove.txt", "models/characters", "store:stores/all-float16"
_OWN = {"encoder__own": {"word_dim": 4, "char_dim": 3, "filters": [[2, 4]]}}
_DATA = {
    "ner": "txt", "taglm": "txt", "pos": "conllu", "sst": "trees", "entailment": "tsv", "qa": "json"
}  # fmt: skip


def data_of(task: str, part: str) -> str:
    """The file of a task's examples: part is train, dev, test or plain."""
    kind = {"taglm": "ner"}.get(task, task)
    ending = "txt" if part == "plain" and task not in ("qa", "entailment") else _DATA[task]
    return f"data/{kind}-{part}.{ending}"


def _train(task: str, encoder: str, *, epochs: int = 6, **settings: Any) -> Command:
    given = {"batch": 4, "lr": 0.04, "task__hidden": 6, "task__dropout": 0.1, **_OWN, **settings}
    files = ["--train", data_of(task, "train"), "--dev", data_of(task, "dev")]
    options = ["--encoder", encoder, "--epochs", str(epochs), "--quiet"]
    return ["task", "train", task, *files, *options, *_set(**given)]


TASKS: dict[str, Command] = {
    "ner-none": _train("ner", "none", epochs=6),
    "ner-static-model": _train("ner", f"{_STATIC}+{_MODEL}", epochs=4, encoder__tune_static=True),
    "ner-store": _train("ner", _STORE, epochs=5, encoder__mix_l2=0.01),
    "taglm-late": _train("taglm", _MODEL),
    "ner-fine-tune": [*_train("ner", _MODEL, epochs=5), "--fine-tune"],
    "pos-dictionary": _train("pos", "models/dictionary", epochs=1),
    "sst-model": _train("sst", _MODEL, epochs=2),
    "entailment-both": _train("entailment", f"{_STATIC}+{_MODEL}", epochs=1),
    "qa-both": _train("qa", "models/transformer", epochs=1),
    "ner-stopped": _train("ner", f"{_STATIC}+{_MODEL}", epochs=5, encoder__join="both"),
    "sst-fine-tune-stopped": [*_train("sst", "models/words", epochs=5), "--fine-tune"],
}
TASK_STOPS = {"ner-stopped": 2, "sst-fine-tune-stopped": 2}
"""Epochs after which a run was stopped."""

COMPARE: Command = [
    "compare", "ner", "--encoders", f"none,{_STATIC},{_STATIC}+{_MODEL},{_STORE}",
    "--train", data_of("ner", "train"), "--dev", data_of("ner", "dev"),
    "--test", data_of("ner", "test"), "--fractions", "0.5,1", "--seeds", "1", "--epochs", "4",
    "--quiet", *_set(batch=4, lr=0.04, task__hidden=6, task__dropout=0.1, **_OWN),
]  # fmt: skip
COMPARE_STOP = (6, 2)
"""The training, and in it the epoch, after which the comparison was stopped."""


def task_name(command: Command) -> str:
    return command[2]
