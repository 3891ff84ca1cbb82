"""Files of BERT: every layout in which it is published, what is written, and what is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from elmore import Embedder
from elmore.checkpoint.bert import bert_checkpoint, bert_of
from elmore.checkpoint.bert_config import WordOptions, word_options
from elmore.checkpoint.bert_names import hugging_face_names, plain_name, tensorflow_name
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.sources import find_source, load, save
from elmore.checkpoint.tensor_bundle import TensorBundle
from elmore.checkpoint.wordpiece import read_wordpiece
from elmore.errors import ConfigError, ElmoreError, FormatError
from elmore.text.piece_reader import PieceReader
from elmore.text.wordpiece import WordPiece, WordPieceConfig
from tests.shared import SHARED, needs
from tests.tiny_bert import VOCABULARY, tiny_bert

FIXTURES = SHARED / "fixtures"
SENTENCES = ["we sat on the grassy bank .".split(), ["never", "seen"], []]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny BERT with both heads, saved."""
    save(tiny_bert(heads=True), tmp_path / "model")
    return tmp_path / "model"


def same_vectors(one: Checkpoint, other: Checkpoint) -> None:
    for a, b in zip(*(Embedder(c).embed(SENTENCES) for c in (one, other)), strict=True):
        np.testing.assert_array_equal(a.layers, b.layers)


def rewrite(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    save_file(change(load_file(folder / "model.safetensors")), folder / "model.safetensors")


def configure(folder: Path, file: str = "config.json", **changed: Any) -> None:
    path = folder / file
    options = json.loads(path.read_text("utf-8")) | changed
    path.write_text(json.dumps({k: v for k, v in options.items() if v is not ...}), "utf-8")


# Names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("distil", [False, True])
def test_every_tensor_has_a_name_of_its_own(distil: bool):
    changed = {"n_segments": 0, "pooler": False} if distil else {}
    made = tiny_bert(heads=True, n_layers=12, **changed)
    ours = [*made.model.state_dict()]
    ours += [f"{name}.{key}" for name, head in made.heads.items() for key in head.state_dict()]
    family: Any = "distilbert" if distil else "bert"
    theirs = [name for one in ours for name in hugging_face_names(one, family)]
    assert len(set(theirs)) == len(theirs) == len(ours) + 2 * 2 * 12  # q, k, v are three there


@needs("fixtures", "bert-tf")
def test_every_tensorflow_variable_is_known():
    """The model, its heads, and nothing else but what the optimizer keeps."""
    bundle = TensorBundle.open(FIXTURES / "bert-tf" / "bert_model.ckpt")
    read = load(FIXTURES / "bert" / "old-names", heads=True)
    ours = [*read.model.state_dict()]
    ours += [f"{name}.{key}" for name, head in read.heads.items() for key in head.state_dict()]
    theirs = {tensorflow_name(n)[0] for one in ours for n in hugging_face_names(one, "bert")}
    kept = {n for n in bundle.names if not n.endswith(("/adam_m", "/adam_v"))} - {"global_step"}
    assert theirs == kept


def test_old_names_of_norms_are_renamed_only_where_they_are_norms():
    assert plain_name("bert.embeddings.LayerNorm.gamma") == "embeddings.LayerNorm.weight"
    assert plain_name("cls.predictions.transform.LayerNorm.beta").endswith("LayerNorm.bias")
    for name in (
        "gamma",
        "classifier.gamma",
        "LayerNorm.gamma_2",
        "MyLayerNorm.beta",
        "betas.bias",
    ):
        assert plain_name(name) == name


# Layouts ------------------------------------------------------------------------------------------


def test_a_folder_is_read_back(folder: Path):
    made, read = tiny_bert(heads=True), load(folder, heads=True)
    assert find_source(folder).format == "bert"
    assert bert_of(read).config == bert_of(made).config
    assert read.fingerprint() == made.fingerprint()
    assert {*read.heads} == {"mlm", "nsp"}
    for name, head in made.heads.items():
        for key, tensor in head.state_dict().items():
            assert torch.equal(read.heads[name].state_dict()[key], tensor)
    assert not load(folder).heads
    same_vectors(made, read)


def test_written_again_it_is_the_same_bytes(folder: Path, tmp_path: Path):
    save(load(folder, heads=True), tmp_path / "again")
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(path.name for path in (tmp_path / "again").iterdir())
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def old_names(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in tensors.items()
    }
    table = tensors["bert.embeddings.word_embeddings.weight"]
    return renamed | {
        "cls.predictions.decoder.weight": table.clone(),
        "bert.embeddings.position_ids": torch.arange(24).unsqueeze(0),
    }


def without_prefix(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    bare = {n.removeprefix("bert."): t for n, t in tensors.items()}
    return {n: t for n, t in bare.items() if not n.startswith("cls.")}


def second_name_of_the_bias(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    bias = tensors.pop("cls.predictions.bias")
    return tensors | {"cls.predictions.decoder.bias": bias}


def half(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.half() for name, tensor in tensors.items()}


@pytest.mark.parametrize("old", [True, False], ids=["old torch file", "new torch file"])
@pytest.mark.parametrize("change", [dict, old_names, without_prefix, second_name_of_the_bias])
def test_files_of_torch_are_read(folder: Path, change: Any, old: bool):
    expected = load(folder, heads=True)
    tensors = change(load_file(folder / "model.safetensors"))
    torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=not old)
    (folder / "model.safetensors").unlink()
    read = load(folder, heads=True)
    assert read.fingerprint() == expected.fingerprint()
    if change is not without_prefix:
        assert torch.equal(read.heads["mlm"].bias, expected.heads["mlm"].bias)  # type: ignore[arg-type]


@pytest.mark.parametrize("change", [old_names, without_prefix, second_name_of_the_bias])
def test_other_names_in_safetensors_are_read(folder: Path, change: Any):
    expected = load(folder)
    rewrite(folder, change)
    assert load(folder, heads=True).fingerprint() == expected.fingerprint()


def test_half_precision_becomes_float32(folder: Path):
    rewrite(folder, half)
    weights = bert_of(load(folder)).embed.pieces.weight
    assert weights.dtype == torch.float32
    assert torch.equal(weights, weights.half().float())


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_weights_in_parts_are_read(folder: Path, name: str):
    expected, tensors = load(folder), load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    places = {}
    for k in range(3):
        part = f"{name.split('.')[0]}-{k + 1:05}-of-00003.{name.split('.')[1]}"
        mine = {n: t for i, (n, t) in enumerate(sorted(tensors.items())) if i % 3 == k}
        save_file(mine, folder / part) if "safe" in name else torch.save(mine, folder / part)
        places |= dict.fromkeys(mine, part)
    index = folder / f"{name}.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    assert load(folder).fingerprint() == expected.fingerprint()
    for wrong in ("../elsewhere.safetensors", "/etc/passwd", "absent.safetensors", ""):
        index.write_text(json.dumps({"weight_map": places | {"x": wrong}}))
        with pytest.raises(FormatError, match="which is not beside it"):
            load(folder)


def test_a_model_without_pooler_is_read(folder: Path):
    rewrite(
        folder, lambda ts: {n: t for n, t in ts.items() if "pooler" not in n and "seq" not in n}
    )
    read = load(folder, heads=True)
    assert not bert_of(read).config.pooler
    assert {*read.heads} == {"mlm"}
    with torch.no_grad():
        assert read.model(read.need_reader().read(SENTENCES)).pooled is None


def test_heads_of_tasks_are_kept(folder: Path, tmp_path: Path):
    classifier = {"classifier.weight": torch.randn(3, 12), "classifier.bias": torch.randn(3)}
    rewrite(folder, lambda ts: {n: t for n, t in ts.items() if "cls" not in n} | classifier)
    labels = {"0": "O", "1": "B", "2": "I"}
    configure(folder, architectures=["BertForTokenClassification"], id2label=labels)
    read = load(folder, heads=True)
    assert {*read.heads} == {"classifier"}
    save(read, tmp_path / "again")
    options = json.loads((tmp_path / "again" / "config.json").read_text())
    assert options["architectures"] == ["BertForTokenClassification"]
    assert options["id2label"] == labels
    again = load_file(tmp_path / "again" / "model.safetensors")
    assert torch.equal(again["classifier.weight"], classifier["classifier.weight"])


def test_a_tensor_that_belongs_to_no_head_is_noted(folder: Path):
    rewrite(folder, lambda ts: ts | {"temperature": torch.ones(1)})
    assert load(folder, heads=True).notes == ("not read: temperature.",)
    assert load(folder).fingerprint() == tiny_bert().fingerprint()


def test_the_first_module_of_sentence_transformers_may_have_a_folder(folder: Path, tmp_path: Path):
    outer = tmp_path / "outer"
    shutil.move(folder, outer / "0_Transformer")
    (outer / "config.json").write_text('{"__version__": {"sentence_transformers": "2.0"}}')
    modules = [{"idx": 0, "path": "0_Transformer"}, {"idx": 1, "path": "1_Pooling"}]
    (outer / "modules.json").write_text(json.dumps(modules))
    assert load(outer).fingerprint() == tiny_bert().fingerprint()
    modules[0]["path"] = "../outer/0_Transformer"
    (outer / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ElmoreError):
        load(outer)


def test_a_checkpoint_of_a_run_is_found(folder: Path, tmp_path: Path):
    steps = tmp_path / "run" / "checkpoints"
    steps.mkdir(parents=True)
    shutil.copytree(folder, steps / "step-000010")
    shutil.copytree(folder, steps / "step-000020")
    (tmp_path / "run" / "best").write_text("step-000010\n")
    assert find_source(tmp_path / "run").path == steps / "step-000010"
    assert load(tmp_path / "run").fingerprint() == tiny_bert().fingerprint()


def test_an_electra_with_embeddings_of_its_own_size_is_a_bert(folder: Path):
    rewrite(folder, lambda ts: {
        n.replace("bert.", "electra."): t
        for n, t in ts.items() if "cls" not in n and "pooler" not in n
    })  # fmt: skip
    configure(folder, model_type="electra", embedding_size=12)
    same_vectors(load(folder), tiny_bert(pooler=False))
    configure(folder, embedding_size=8)
    with pytest.raises(FormatError, match="ELECTRA has embeddings of 8, not 12"):
        load(folder)


def test_transformers_reads_an_electra_alike(tmp_path: Path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    made = tiny_bert(pooler=False)
    config = transformers.ElectraConfig(
        vocab_size=len(VOCABULARY), embedding_size=12, hidden_size=12, num_hidden_layers=2,
        num_attention_heads=3, intermediate_size=20, max_position_embeddings=24,
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = transformers.ElectraModel(config).eval()
    theirs.save_pretrained(tmp_path / "model")
    for name, content in made.need_reader().files().items():
        (tmp_path / "model" / name).write_bytes(content)
    ids = torch.arange(5, 15)
    with torch.no_grad():
        wanted = theirs(ids[None], output_hidden_states=True).hidden_states
        found = bert_of(load(tmp_path / "model")).run(ids, torch.zeros_like(ids), np.array([10]))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b[0], rtol=0, atol=1e-5)


@needs("fixtures", "bert-tf")
def test_a_tensorflow_checkpoint_is_the_model_in_torch(tmp_path: Path):
    source, words = FIXTURES / "bert-tf", WordOptions(lowercase=True)
    expected = load(FIXTURES / "bert" / "old-names", heads=True)
    for name in (source, source / "bert_model.ckpt", source / "bert_model.ckpt.index"):
        assert find_source(name).format == "bert-tf"
        same_vectors(load(name, words=words), expected)
    save(load(source, heads=True, words=words), tmp_path / "model")
    again = load(tmp_path / "model", heads=True)
    assert again.fingerprint() == expected.fingerprint()
    assert {*again.heads} == {"mlm", "nsp"}


@needs("fixtures", "bert-tf")
def test_the_case_is_asked_for_where_nothing_says_it():
    with pytest.raises(ConfigError, match="no capital letters: probably --lowercase"):
        load(FIXTURES / "bert-tf")
    cased = load(FIXTURES / "bert-tf", words=WordOptions(lowercase=False))
    reader = cased.need_reader()
    assert isinstance(reader, PieceReader)
    assert not reader.wordpiece.config.lowercase


# Options ------------------------------------------------------------------------------------------


def test_how_pieces_become_words_is_part_of_the_model(folder: Path, tmp_path: Path):
    first, mean = (load(folder, words=word_options(pieces=p)) for p in ("first", "mean"))
    assert first.fingerprint() != mean.fingerprint()
    (a,), (b,) = (Embedder(c).embed([["the", "grassy"]]) for c in (first, mean))
    np.testing.assert_array_equal(a.layers[:, 0], b.layers[:, 0])  # one piece
    assert np.abs(a.layers[:, 1] - b.layers[:, 1]).max() > 0.05
    save(mean, tmp_path / "mean")
    assert load(tmp_path / "mean").fingerprint() == mean.fingerprint()
    assert Embedder.load(tmp_path / "mean", pieces="first").fingerprint == first.fingerprint()


def test_options_of_pieces_are_checked(folder: Path):
    with pytest.raises(ConfigError, match="pieces is 'last'; expected 'first' or 'mean'"):
        Embedder.load(folder, pieces="last")
    for given in ({"pieces": "mean"}, {"lowercase": True}):
        with pytest.raises(ConfigError, match="this one reads whole words"):
            Embedder.load("small-en", **given)


@pytest.mark.parametrize("settings", [
    {"do_lower_case": False}, {"do_lower_case": True}, {"strip_accents": False},
    {"strip_accents": True, "do_lower_case": False}, {"tokenize_chinese_chars": False}, {},
])  # fmt: skip
@pytest.mark.parametrize("whole", [True, False], ids=["tokenizer.json", "vocab.txt"])
def test_settings_beside_the_vocabulary_mean_what_they_mean_to_transformers(
    folder: Path, settings: dict[str, Any], whole: bool
):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    given = {"do_lower_case": True} | settings
    (folder / "tokenizer_config.json").write_text(json.dumps(given))
    if not whole:
        (folder / "tokenizer.json").unlink()
    ours, notes = read_wordpiece(folder, len(VOCABULARY))
    theirs = transformers.BertTokenizerFast.from_pretrained(folder)
    assert not notes
    for text in ("The Grassy bänk", "tHE", "東京の river", "é"):
        assert ours.tokenizer.encode(text).ids == theirs(text)["input_ids"], text


def test_lowercasing_by_sentence_transformers_is_seen(folder: Path):
    configure(folder, "tokenizer_config.json", do_lower_case=False)
    reader = load(folder).need_reader()
    assert isinstance(reader, PieceReader)
    assert not reader.wordpiece.config.lowercase
    (folder / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    reader = load(folder).need_reader()
    assert isinstance(reader, PieceReader)
    assert reader.wordpiece.config.lowercase


def test_padding_and_cutting_in_a_tokenizer_file_are_ignored(folder: Path):
    expected = load(folder).fingerprint()
    padding = {
        "strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
        "pad_type_id": 0, "pad_token": "[PAD]",
    }  # fmt: skip
    cut = {"max_length": 4, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    configure(folder, "tokenizer.json", padding=padding, truncation=cut)
    assert load(folder).fingerprint() == expected


def test_added_pieces_are_read_from_both_kinds_of_files(folder: Path, tmp_path: Path):
    n = len(VOCABULARY)
    rewrite(folder, lambda ts: ts | {
        "bert.embeddings.word_embeddings.weight": torch.randn(n + 1, 12),
        "cls.predictions.bias": torch.zeros(n + 1),
    })  # fmt: skip
    configure(folder, vocab_size=n + 1)
    (folder / "tokenizer.json").unlink()
    (folder / "added_tokens.json").write_text(json.dumps({"<new>": n}))
    old = load(folder, heads=True)
    save(old, tmp_path / "again")  # as a tokenizer.json
    for read in (old, load(tmp_path / "again")):
        reader = read.need_reader()
        assert isinstance(reader, PieceReader)
        assert reader.wordpiece.pieces(["<new>"]) == [(n,)]
    assert load(tmp_path / "again").fingerprint() == old.fingerprint()


# Refusals: one line each --------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "said"), [
    ("roberta", "RoBERTa counts positions from 2"), ("albert", "ALBERT shares one layer"),
    ("modernbert", "ModernBERT has rotary positions"), ("xlm-roberta", "XLM-RoBERTa"),
    ("deberta-v2", "DeBERTa"), ("mpnet", "MPNet"), ("gptj", "GPT-J has rotary"),
    ("t5", "its model_type is 't5'"), ("nomic_bert", "Nomic BERT"), ("xlnet", "XLNet"),
])  # fmt: skip
def test_other_models_are_refused_by_name(folder: Path, kind: str, said: str):
    configure(folder, model_type=kind)
    with pytest.raises(FormatError, match=said):
        load(folder)


@pytest.mark.parametrize(("changed", "said"), [
    ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
    ({"position_embedding_type": "alibi"}, "'alibi'; expected a BERT"),
    ({"is_decoder": True}, "it is a decoder"),
    ({"hidden_act": "silu"}, "hidden_act: Input should be 'gelu'"),
    ({"hidden_size": 13}, "is not divisible by n_heads=3"),
    ({"hidden_size": ...}, "hidden_size: Field required"),
    ({"hidden_size": "12"}, "hidden_size: Input should be a valid integer"),
    ({"num_hidden_layers": 3}, "calls for 3 layers"),
    ({"num_hidden_layers": 10**9}, "n_layers: Input should be less than or equal to 256"),
    ({"num_hidden_layers": 1}, "contains 'encoder.layer.1"),
    ({"max_position_embeddings": 512}, "position_embeddings.weight' is float32 of shape"),
    ({"max_position_embeddings": 4}, "max_positions"),
    ({"vocab_size": 10**15}, "word_embeddings.weight' is float32 of shape"),
    ({"type_vocab_size": 1}, "token_type_embeddings.weight' is float32 of shape"),
    ({"elmore_pieces": "last"}, "elmore_pieces: Input should be 'first' or 'mean'"),
])  # fmt: skip
def test_wrong_configs_are_refused(folder: Path, changed: dict[str, Any], said: str):
    configure(folder, **changed)
    with pytest.raises(FormatError, match=said) as refused:
        load(folder)
    assert "\n" not in str(refused.value)


def drop(name: str) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    return lambda ts: {n: t for n, t in ts.items() if n != name}


@pytest.mark.parametrize(("change", "said"), [
    (drop("bert.encoder.layer.0.output.dense.bias"), "output.dense.bias' is missing"),
    (lambda ts: ts | {"bert.encoder.layer.0.x": torch.ones(1)}, "contains 'encoder.layer.0.x'"),
    (lambda ts: ts | {"embeddings.LayerNorm.bias": torch.ones(12)}, "has two tensors called"),
    (lambda ts: ts | {"bert.pooler.dense.bias": torch.full((12,), torch.nan)}, "NaN or infinite"),
    (lambda ts: ts | {"cls.predictions.bias": torch.full((len(VOCABULARY),), torch.inf)}, "'mlm'"),
    (lambda ts: ts | {"bert.pooler.dense.bias": torch.ones(12).long()}, "is int64 of shape"),
    (lambda ts: ts | {"cls.predictions.decoder.weight": torch.ones(len(VOCABULARY), 12)},
     "is not the table of pieces"),
    (lambda ts: {n: t for n, t in ts.items() if "pooler" not in n}, "has no pooler|but no pooler"),
])  # fmt: skip
def test_wrong_weights_are_refused(folder: Path, change: Any, said: str):
    rewrite(folder, change)
    with pytest.raises(FormatError, match=said) as refused:
        load(folder, heads=True)
    assert "\n" not in str(refused.value)


def test_missing_files_are_named(folder: Path):
    (folder / "tokenizer.json").rename(folder / "t")
    (folder / "vocab.txt").rename(folder / "v")
    with pytest.raises(FormatError, match=r"a BERT needs tokenizer.json or vocab.txt"):
        load(folder)
    (folder / "t").rename(folder / "tokenizer.json")
    (folder / "model.safetensors").unlink()
    with pytest.raises(FormatError, match=r"Looked for model.safetensors and pytorch_model.bin"):
        load(folder)


def vocabulary(folder: Path, pieces: list[str]) -> None:
    (folder / "tokenizer.json").unlink(missing_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), "utf-8")


def test_a_vocabulary_of_another_length_is_refused(folder: Path):
    n = len(VOCABULARY)
    for pieces in (VOCABULARY[:-1], VOCABULARY[:9], [*VOCABULARY, "more"]):
        vocabulary(folder, list(pieces))
        with pytest.raises(FormatError, match=rf"{len(pieces)} pieces, but .* has {n} rows"):
            load(folder)


def test_a_table_that_is_rounded_up_is_noted(folder: Path):
    n = -(-len(VOCABULARY) // 8) * 8 + 8
    made = tiny_bert(n_pieces=n)
    shutil.rmtree(folder)
    save(made, folder)
    extra = n - len(VOCABULARY)
    assert load(folder).notes == (
        f"the table of pieces has {extra} rows more than the vocabulary.",
    )


@pytest.mark.parametrize(("content", "said"), [
    ({"model": {"type": "Unigram", "vocab": []}}, "model.type: Input should be 'WordPiece'"),
    ({"model": {"type": "WordPiece", "vocab": {"a": 10**12}}}, "'a' has the id 1000000000000"),
    ({"model": {"type": "WordPiece", "vocab": {"a": -1}}}, "'a' has the id -1"),
    ({"model": {"type": "WordPiece", "vocab": {"a": 0}}}, r"lacks \[PAD\]"),
    ({"normalizer": {"type": "Replace", "pattern": {"Regex": "(a+)+$"}}}, "'BertNormalizer'"),
    ({"normalizer": None}, "normalizer: Input should be a valid dictionary"),
    ({"pre_tokenizer": {"type": "ByteLevel"}}, "'BertPreTokenizer'"),
    ({"added_tokens": [{"id": 10**6, "content": "x"}]}, "'x' has the id 1000000"),
    ({"added_tokens": [{"id": 0}]}, "content: Field required"),
])  # fmt: skip
def test_other_tokenizers_are_refused(folder: Path, content: dict[str, Any], said: str):
    configure(folder, "tokenizer.json", **content)
    with pytest.raises(FormatError, match=said) as refused:
        load(folder)
    assert "\n" not in str(refused.value)
    assert "tokenizer.json" in str(refused.value)


def test_other_tokenizer_classes_of_a_vocabulary_are_refused(folder: Path):
    (folder / "tokenizer.json").unlink()
    configure(folder, "tokenizer_config.json", tokenizer_class="BertJapaneseTokenizer")
    with pytest.raises(FormatError, match="its tokenizer is a BertJapaneseTokenizer"):
        load(folder)
    configure(folder, "tokenizer_config.json", tokenizer_class=..., do_lower_case="yes")
    with pytest.raises(FormatError, match="do_lower_case is 'yes'; expected true or false"):
        load(folder)


def test_vocabularies_that_are_not_text_are_refused(folder: Path):
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_bytes(b"[PAD]\n\xff\xfe\n")
    with pytest.raises(FormatError, match="not UTF-8"):
        load(folder)


def test_windows_line_ends_are_read(folder: Path):
    expected = load(folder).fingerprint()
    (folder / "tokenizer.json").unlink()
    text = (folder / "vocab.txt").read_bytes()
    (folder / "vocab.txt").write_bytes(text.replace(b"\n", b"\r\n"))
    assert load(folder).fingerprint() == expected


def test_a_bert_is_not_written_as_hdf5(tmp_path: Path):
    with pytest.raises(ElmoreError, match="The model is a Bert; expected a bidirectional"):
        save(tiny_bert(), tmp_path / "weights.hdf5")


def test_marks_of_other_names_are_read(tmp_path: Path):
    names = {
        "[CLS]": "<s>",
        "[SEP]": "</s>",
        "[PAD]": "<pad>",
        "[UNK]": "<unk>",
        "[MASK]": "<mask>",
    }
    pieces = [names.get(piece, piece) for piece in VOCABULARY]
    config = WordPieceConfig(
        lowercase=True, begin="<s>", end="</s>", padding="<pad>", unknown="<unk>", mask="<mask>"
    )
    made = bert_checkpoint(bert_of(tiny_bert()), WordPiece(pieces, config))
    save(made, tmp_path / "model")
    assert load(tmp_path / "model").fingerprint() == made.fingerprint()
