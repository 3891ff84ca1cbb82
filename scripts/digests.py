"""Digests of what elmore computes and writes, to compare two versions bit by bit on one machine.

    PYTHONPATH=OLD/src python scripts/digests.py before.json
    PYTHONPATH=NEW/src python scripts/digests.py after.json
    python scripts/digests.py --compare before.json after.json

Each version needs its kernel built (`python -m elmore.engine.build_kernel`); without it int8 is
left out, and LSTMs have other digests, because PyTorch runs them. Other CPUs
and other versions of PyTorch have other digests too.
`--only vectors,stores` does some parts alone.

Arrays and files are kept as the beginning of their SHA-256; figures, texts and counts as they are.
Left out because they differ from run to run: seconds (logs, progress, tables), lock files and
TensorBoard's. Left out because wording may change: remarks and notes.
All of it happens in one fixed folder, because indexes and runs write down absolute paths.
"""

import argparse
import hashlib
import importlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402
from tests.before import answers, commands  # noqa: E402
from tests.before.answers import Answer, run  # noqa: E402

import elmore  # noqa: E402
from elmore import Elmo, ElmoreError, Embedder, Store  # noqa: E402
from elmore.search.index import Index  # noqa: E402

WORK = Path(tempfile.gettempdir()) / "elmore-digests"
SHIPPED = "small-en"
POSITIONS = 60
"""Of the small Transformers, marks counted."""
LSTMS = ["characters", "adaptive", "words", "dictionary", "spelling", "mixed"]


def found(*places: str) -> Any:
    """The first of some `module:name` that exists. Versions call a thing by different names: put
    a new name after the old one."""
    for place in places:
        module, _, name = place.partition(":")
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"none of {', '.join(places)}; add the new name in {__file__}")


def without_kernel(embedder: Any) -> Any:
    """The same model, run by PyTorch alone."""
    make = found("elmore.engine.runner:runner_for", "elmore.engine.engine:Engine")
    no_kernel = found("elmore.engine.kernel:NoKernel")
    reader = getattr(embedder, "reader", None) or embedder.speller
    runner = make(embedder.model, reader, kernel=no_kernel("PyTorch is asked for"))
    embedder.runner = embedder.engine = runner  # by its name now, and in the version before
    return embedder


# Sentences ----------------------------------------------------------------------------------------

_TEXTS = """
The river bank .
We sat on the bank of the river and watched the boats .
My bank account is empty .
the the the the the the
Buffalo buffalo Buffalo buffalo buffalo buffalo Buffalo buffalo
One
.
He could play the violin before he could read .
The play was sold out for weeks .
Plants turn light into sugar .
The plant makes engines for trucks .
In spring the river runs high .
The spring in the clock is broken .
She was n't there , was she ?
Dr. Smith 's "quoted" words -- and dashes - here ...
naïve café façade coöperate
Straße Größe Übermut
東京 は 日本 の 首都 です
今天 天气 很 好
мама мыла раму
שלום עולם
👩‍🔬 works with 🧪 and 😀
a/b c\\d e|f g&h <tag> [x] {y}
http://example.com/a?b=c&d=e#f user@example.com
3.14159 1,000,000 1e-10 -5 +7 50% $20 €30 №4
w0 w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12
w24 w23 w22 w21 w20
unknown zyxwvut qqqqqq w1 qqqqqq w1
<S> literal </S> <UNK> @@UNKNOWN@@ <bos> <eos> <pad> <oov>
UPPER lower MiXeD tItLe
antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis
It rained , it rained , and it rained again .
To be , or not to be , that is the question .
A B C D E F G H I J K L M N O P Q R S T U V W X Y Z
ﬁ ﬂ ﬀ ½ ² ™ ©
e\u0301 vs é ; n\u0303 vs ñ
zero\u200bwidth soft\u00adhyphen no\u00a0break
"""


def sentences() -> list[list[str]]:
    """Some sixty: plain, odd, empty, long, and with words that no model reads whole."""
    plain = [line.split(" ") for line in _TEXTS.strip().split("\n")]
    odd: list[list[str]] = [
        [], [""], [" "], ["\u3000"], ["\x00\x07"], ["\ud800"], ["a\ud800b", "c"],
        ["\n", "\t", "\r"],
        ["x" * 300], ["x" * 300, "y" * 49, "z" * 50, "q" * 51], ["ü" * 30], ["東" * 40, "京"],
        ["word with spaces", "an other"], [], ["The", "river", "bank", "."], ["a"], ["a", "b"],
        [f"w{i % 25}" for i in range(45)], [f"word{i % 17}" for i in range(150)],
        ["long"] * 64, ["even"] * 65, [chr(0x100 + i) for i in range(80)], ["é"] * 3,
    ]  # fmt: skip
    return plain + odd


# Digests ------------------------------------------------------------------------------------------


def short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def digested(value: Any) -> Any:
    """Arrays and tensors become digests, wherever they stand."""
    if isinstance(value, torch.Tensor):
        value = value.to_dense() if value.is_sparse else value
        value = value.detach().float().numpy() if value.dtype == torch.bfloat16 else value
        value = value if isinstance(value, np.ndarray) else value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        return answers.digest_array(value)[:16]
    if isinstance(value, dict):
        return {str(key): digested(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [digested(inner) for inner in value]
    return value


def without_seconds(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_seconds(v) for k, v in value.items() if k != "seconds"}
    if isinstance(value, list | tuple):
        return [without_seconds(inner) for inner in value]
    return value


def files(folder: Path, *patterns: str) -> dict[str, str]:
    return {name: full[:16] for name, full in answers.digest_files(folder, *patterns).items()}


def weights(folder: Path) -> dict[str, str]:
    """Every tensor below a folder, under the names of the version before."""
    return {
        f"{path.relative_to(folder)} {answers.old_name(name)}": answers.digest_array(array)[:16]
        for path in sorted(folder.rglob("*.safetensors"))
        for name, array in sorted(load_file(path).items())
    }


def by_file_name(found: dict[str, str]) -> dict[str, str]:
    return {name.removeprefix("heads/"): value for name, value in sorted(found.items())}


def gradients(module: torch.nn.Module) -> dict[str, Any]:
    named = {name.replace("model.", "bilm."): p.grad for name, p in module.named_parameters()}
    return {name: None if grad is None else digested(grad) for name, grad in named.items()}


# Parts --------------------------------------------------------------------------------------------


def fixtures() -> Answer:
    """The fixtures of tests/before, opened and gone on with."""
    told: Answer = {}
    for group, name in answers.CASES:
        fresh()
        told[f"{group}/{name}"] = digested(answers.answer(group, name))
    return told


def vectors() -> Answer:
    """Every model by every engine: together, alone, in small batches, in a stream, with state."""
    told: Answer = {}
    for name in [SHIPPED, *commands.MODELS]:
        source = name if name == SHIPPED else f"models/{name}"
        plain = Embedder.load(source, device="cpu")
        told[name] = {
            "fingerprint": plain.fingerprint,
            "size": [plain.n_layers, plain.dim],
            "float32": embedded(plain),
            "PyTorch": embedded(without_kernel(Embedder.load(source, device="cpu"))),
        }
        try:
            quantized = Embedder.load(source, device="cpu", precision="int8")
        except ElmoreError:
            continue  # a Transformer, or no kernel
        told[name]["int8"] = {"fingerprint": quantized.fingerprint, **embedded(quantized)}
    return told


def embedded(embedder: Any) -> Answer:
    given = sentences()
    if embedder.model.config.context.kind == "transformer":
        given = [words for words in given if len(words) <= POSITIONS - 2]
    strings = [" ".join(words) for words in given]
    told: Answer = {
        "together": [digested(e.layers) for e in embedder.embed(given)],
        "alone": digested([embedder.embed([words])[0].layers for words in given]),
        "small batches": digested([e.layers for e in embedder.embed(given, batch_words=40)]),
        "stream": digested([e.layers for e in embedder.stream(iter(given), batch_words=30)]),
        "strings": [[e.words, e.spans, digested(e.layers)] for e in embedder.embed(strings[:40])],
    }
    one = embedder.embed(given[:1])[0]
    told["reduced"] = digested([one.top, one.average, one.mix([0.3] * len(one.layers), 2.0)])
    try:
        with embedder.stateful() as stateful:
            batches = [given[:5], given[5:8], given[8:15], given[15:17]]
            told["stateful"] = digested(
                [e.layers for batch in batches for e in stateful.embed(batch)]
            )
    except ElmoreError:
        pass  # a Transformer has no state
    return told


def elmo() -> Answer:
    """The trainable use: forward and gradients, frozen and fine-tuned."""
    told: Answer = {}
    given = [words for words in sentences()[:14] if words]
    for name in [SHIPPED, "characters", "transformer", "words", "dictionary"]:
        source = name if name == SHIPPED else f"models/{name}"
        for fine_tune in (False, True):
            for layer_norm in (False, True):
                torch.manual_seed(3)
                module = Elmo.load(
                    source, n_mixes=2, fine_tune=fine_tune, layer_norm=layer_norm, dropout=0.3
                )
                module.eval()
                calm = module(given)
                module.train()
                torch.manual_seed(4)
                mixed = module(given)
                weight = torch.arange(module.dim) / module.dim
                sum((v * weight).square().mean() for v in mixed.vectors).backward()
                told[f"{name} fine_tune={fine_tune} layer_norm={layer_norm}"] = {
                    "eval": digested([*calm.vectors, calm.mask]),
                    "train": digested(mixed.vectors),
                    "gradients": gradients(module),
                    "state": list(module.state_dict()),
                }
    return told


def stores() -> Answer:
    """Bytes on disk of every choice; merged, exported and put to use."""
    told: Answer = {}
    write_many()
    for source in ("models/characters", "models/transformer"):
        mix = "mix:0.2,0.8" if source.endswith("transformer") else "mix:0.2,0.5,0.3"
        for keep in ("all", "top", "average", "0,1", mix, "pca:5"):
            for precision in ("float32", "float16", "int8"):
                folder = Path("filled") / f"{Path(source).name} {keep} {precision}"
                folder.parent.mkdir(exist_ok=True)
                how = ["--model", source, "--keep", keep, "--precision", precision, "--quiet"]
                run("store", "fill", "many.txt", str(folder), *how)
                once = files(folder)
                run("store", "fill", "data/lines.txt", str(folder), *how)
                again = [digested(e.layers) for e in Store.open(folder)]
                told[folder.name] = {"once": once, "twice": files(folder), "vectors": again}
    one = "filled/characters all float16"
    run("store", "fill", "data/uses.txt", "filled/other", "--model", "models/characters",
        "--precision", "float16", "--quiet")  # fmt: skip
    run("store", "merge", one, "filled/other", "filled/merged", "--quiet")
    told["merged"] = files(Path("filled/merged"))
    for ending in ("hdf5", "parquet", "arrow"):
        run("store", "export", one, f"filled/exported.{ending}", "--quiet")
        told[f"exported {ending}"] = files(Path("filled"), f"exported.{ending}")
    return told


def indexes() -> Answer:
    """Bytes on disk after a build and after changes; neighbors, senses, maps."""
    told: Answer = {}
    for name in ("characters", "transformer"):
        embedder = Embedder.load(f"models/{name}", device="cpu")
        for keep in ("mix", "all", "1"):
            for precision in ("float32", "float16", "int8"):
                told[f"{name} {keep} {precision}"] = index(embedder, name, keep, precision)
    return told


def index(embedder: Embedder, name: str, keep: str, precision: str) -> Answer:
    folder = f"built/{name}-{keep}-{precision}"
    Path("built").mkdir(exist_ok=True)
    run("index", "data/uses.txt", "data/ner-sentences.txt", "--model", f"models/{name}", "--output",
        folder, "--words", "0", "--uses", "30", "--keep", keep, "--vectors", precision,
        "--quiet")  # fmt: skip
    told: Answer = {"built": files(Path(folder))}
    it = Index.open(folder, embedder)
    told |= answers.searched(it) | {"maps": [answers_map(it, word) for word in ("bank", "the")]}
    it.add([["the", "bank", "of", "the", "new", "river"], ["ball", "and", "play"], ["the"]])
    told["added"] = files(Path(folder))
    it.delete([list(it.uses("money")[0].words), ["the"]])
    told["deleted"] = files(Path(folder))
    it.compact()
    told["compacted"] = files(Path(folder))
    return told | {f"then {k}": v for k, v in answers.searched(it).items()}


def answers_map(it: Index, word: str) -> Answer:
    places = it.map(word)
    return {"points": places.points, "senses": places.senses.tolist()}


def dumps() -> Answer:
    """Files of vectors in every format and way."""
    told: Answer = {}
    write_many()
    ways: dict[str, list[str]] = {
        "all": [], "top": ["--layers", "top"], "average": ["--layers", "average"],
        "numbers": ["--layers", "0,1"], "stateful": ["--stateful", "--batch-sentences", "5"],
        "raw text": ["--tokenize"], "small batches": ["--batch-words", "20"],
        "sentence keys": ["--use-sentence-keys"], "no map": ["--forget-sentences"],
    }  # fmt: skip
    for ending in ("hdf5", "npz", "jsonl"):
        for way, options in ways.items():
            if (way, ending) == ("sentence keys", "jsonl"):
                continue
            path = Path(f"{way.replace(' ', '-')}.{ending}")
            run("embed", "many.txt", str(path), "--model", "models/characters", "--quiet", *options)
            told[path.name] = {
                "bytes": short(path.read_bytes()),
                **digested(answers.read_dump(path)),
            }
    run("embed", "many.txt", "shipped.npz", "--model", SHIPPED, "--quiet")
    told["shipped"] = digested(answers.read_dump(Path("shipped.npz")))
    return told


def evaluate() -> Answer:
    """Perplexities."""
    told: Answer = {}
    for name in commands.WITH_SOFTMAX:
        for text in ("data/valid.txt", "data/lines.txt"):
            source = f"models/{name}"
            told[f"{name} {text}"] = [
                run("evaluate", source, text),
                run("evaluate", source, text, "--per-sentence"),
                run("evaluate", source, text, "--carry-state") if name in LSTMS else None,
            ]
    return told


def converted() -> Answer:
    """Models written as HDF5, and read again."""
    told: Answer = {}
    for name in ("characters", "words", "mixed"):
        Path(name).mkdir()
        run("convert", f"models/{name}", f"{name}/weights.hdf5")
        told[name] = [files(Path(name)), Embedder.load(f"{name}/weights.hdf5").fingerprint]
    for name, source in commands.FOREIGN.items():
        if name in commands.FOREIGN_KEPT:
            run("convert", f"foreign/{source}", f"native-{name}")
            told[source] = files(Path(f"native-{name}"))
    return told


def pretraining() -> Answer:
    """Every kind of run from its first step to its last: weights, optimizer, log."""
    told: Answer = {}
    more = {
        "raw text": [*commands.RUNS["sentences"], "--tokenize"],
        "bfloat16": [*commands.RUNS["sentences"], "--set", 'precision="bfloat16"'],
        "epochs": [*commands.RUNS["rows"], "--epochs", "0.5"],
    }
    for name, command in {**commands.RUNS, **more}.items():
        folder = Path("fresh") / name.replace(" ", "-")
        run(*command, "--output", str(folder))
        last = answers.newest(folder)
        training = torch.load(last / "training.pt", map_location="cpu", weights_only=True)
        told[name] = {
            "checkpoint": by_file_name(weights(last)),
            "texts": files(last, "*.txt"),
            "config": answers.native_config(last),
            "training": digested(without_seconds(training)),
            "log": log(folder),
            "start": files(folder, "softmax-start.safetensors"),
            "vocabulary": files(folder, "vocab.txt"),
            "fingerprint": Embedder.load(folder).fingerprint,
        }
    return told


def log(folder: Path) -> list[Any]:
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [without_seconds(json.loads(line)) for line in lines]


def tasks() -> Answer:
    """Every task with several encoders, two epochs each."""
    told: Answer = {}
    for name, command in {**commands.TASKS, **more_tasks()}.items():
        folder = Path("trained") / name.replace("/", "-")
        run(*command, "--epochs", "2", "--output", str(folder))
        found_here = answers.task_answers(commands.task_name(command), folder)
        told[name] = {"weights": weights(folder), "log": log(folder), **digested(found_here)}
    return told


def more_tasks() -> dict[str, list[str]]:
    """The tasks again with encoders that the fixtures do not have."""
    by_task = {commands.task_name(command): command for command in commands.TASKS.values()}
    static, store = "glove:data/glove.txt", "store:stores/mix-int8"
    told: dict[str, list[str]] = {}
    for task, command in by_task.items():
        plain = [part for part in command if part != "--fine-tune"]
        for encoder in ("none", static, SHIPPED, f"{static}+models/spelling"):
            told[f"{task} {encoder}"] = [*plain, "--encoder", encoder]
        told[f"{task} cached"] = [*plain, "--encoder", "models/characters", "--cache", "cache"]
        told[f"{task} tuned"] = [*plain, "--encoder", "models/transformer", "--fine-tune"]
    told[f"ner {store}"] = [*commands.TASKS["ner-none"], "--encoder", store]
    return told


def comparison() -> Answer:
    """The table of a whole comparison."""
    run(*commands.COMPARE, "--output", "compared", "--seeds", "2")
    outcomes = sorted(Path("compared/results").glob("*.json"))
    return {
        **answers.compared(Path("compared")),
        "outcomes": {
            path.name: without_seconds(json.loads(path.read_text(encoding="utf-8")))
            for path in outcomes
        },
    }


def meaning() -> Answer:
    """Word senses, Word-in-Context and layer probes, on a few sentences."""
    known = [("the", "bank", "near", "river"), ("my", "bank", "has", "money")] * 3
    keys = ["bank%1:17:01::", "bank%1:14:00::"]
    rows = []
    for i, words in enumerate(known):
        tokens = [sense_token(word, keys[i % 2]) for word in (*words, f"x{i}")]
        rows.append(json.dumps({"tokens": tokens}))
    write("semcor.jsonl", rows)
    for name in ("semeval2007", "senseval2"):
        write_senses(name, [(("a", "bank", "and", name), keys[0]), (("money", "bank"), keys[1])])
    pairs = [
        "bank\tN\t1-1\tthe bank near river\tmy bank has money",
        "play\tN\t0-1\tplay it\ta play",
    ]
    write("wic.data.txt", pairs * 3)
    write("wic.gold.txt", ["F", "T"] * 3)
    told: Answer = {}
    for encoder in ("models/characters", "glove:data/glove.txt", SHIPPED):
        common = ["--encoder", encoder, "--json", "table.json", "--quiet"]
        sense_files = ["--semcor", "semcor.jsonl", "--sets", "*.data.xml"]
        tagged = ["--train", "data/pos-train.conllu", "--test", "data/pos-test.conllu"]
        for name, options in {
            "wsd": sense_files,
            "wic": ["--train", "wic.data.txt", "--test", "wic.data.txt"],
            "probes": [*tagged, *sense_files],
        }.items():
            run("task", "evaluate", name, *options, *common)
            table = json.loads(Path("table.json").read_text(encoding="utf-8"))
            told[f"{name} {encoder}"] = table
    return told


def sense_token(word: str, key: str) -> list[str | None]:
    """A word of SemCor as JSON lines have it."""
    return [word, "bank", None, key, None] if word == "bank" else [word, None, None, None, None]


def write_senses(name: str, uses: Iterable[tuple[tuple[str, ...], str]]) -> None:
    """A test set in the unified layout."""
    xml, gold = ["<corpus>"], []
    for number, (words, key) in enumerate(uses):
        at = f'<instance id="t{number}" lemma="bank" pos="NOUN">bank</instance>'
        inner = [at if word == "bank" else f"<wf>{word}</wf>" for word in words]
        xml += ["<sentence>", *inner, "</sentence>"]
        gold.append(f"t{number} {key}")
    write(f"{name}.data.xml", [*xml, "</corpus>"])
    write(f"{name}.gold.key.txt", gold)


def demo() -> Answer:
    """What `elmore demo --json` says, of the shipped model and of a small one."""
    return {
        "shipped": json.loads(run("demo", "--json")),
        "characters": json.loads(run("demo", "--json", "--model", "models/characters")),
    }


PARTS: dict[str, Callable[[], Answer]] = {
    "fixtures": fixtures,
    "vectors": vectors,
    "elmo": elmo,
    "stores": stores,
    "indexes": indexes,
    "dumps": dumps,
    "evaluate": evaluate,
    "converted": converted,
    "pretraining": pretraining,
    "tasks": tasks,
    "comparison": comparison,
    "meaning": meaning,
    "demo": demo,
}

# Running ------------------------------------------------------------------------------------------


def fresh() -> None:
    """A new copy of the fixtures to work in."""
    os.chdir(WORK.parent)
    shutil.rmtree(WORK, ignore_errors=True)
    os.chdir(answers.copied(WORK))


def write_many() -> None:
    """many.txt: those of the sentences that a line can hold and every model can read."""
    lines = [" ".join(words) for words in sentences() if len(words) <= POSITIONS - 2]
    write("many.txt", [line for line in lines if line.isprintable()])


def write(name: str, lines: list[str]) -> None:
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def differences(before: Any, after: Any, path: str = "") -> list[str]:
    """Where two files part ways."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = list({**before, **after})
        pairs = [(f"{path}/{name}", before.get(name), after.get(name)) for name in names]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [(f"{path}[{i}]", *two) for i, two in enumerate(zip(before, after, strict=True))]
    else:
        shown = f"{path}: {json.dumps(before)[:80]} became {json.dumps(after)[:80]}"
        return [] if before == after else [shown]
    return [line for name, b, a in pairs for line in differences(b, a, name)]


def compare_files(before: Path, after: Path) -> int:
    both = [json.loads(path.read_text(encoding="utf-8")) for path in (before, after)]
    found_here = differences(*both)
    for line in found_here[:200]:
        print(line)
    print(f"{len(found_here)} differences")
    return 1 if found_here else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, nargs="+")
    parser.add_argument("--compare", action="store_true", help="Compare two files.")
    parser.add_argument("--only", default=",".join(PARTS), help="Parts, by commas.")
    given = parser.parse_args()
    if given.compare:
        return compare_files(*given.output)
    torch.set_num_threads(1)
    output = given.output[0].resolve()
    print(f"of {elmore.__file__}", file=sys.stderr)
    told: Answer = {}
    for name in given.only.split(","):
        begin = time.monotonic()
        fresh()
        told[name] = digested(PARTS[name]())
        print(f"{name}: {time.monotonic() - begin:.1f} s", file=sys.stderr)
    os.chdir(WORK.parent)
    shutil.rmtree(WORK)
    output.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
