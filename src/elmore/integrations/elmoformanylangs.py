"""A drop-in for code written against ELMoForManyLangs: change the import line, keep the rest.

    python -m elmore.integrations.elmoformanylangs test --input_format conll --input ud.conllu \\
        --model zhs.model --output_prefix out --output_format hdf5,txt --output_layer -1

One thing differs on purpose: no state is kept from batch to batch, unless `stateful=True` asks for
the old numbers. The original also shuffled its batches, so that its own numbers did not repeat.
"""

# L layers with the context-free one, n words, D vector dim
import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from elmore.embedder import Embedder as _Embedder
from elmore.embedding import Embedding, Vectors
from elmore.errors import ConfigError, ElmoreError, InputError
from elmore.files.atomic import atomic_file
from elmore.files.hdf5_file import hdf5_file
from elmore.files.text_file import read_lines
from elmore.integrations.allennlp_text import word_lists

InputFormat = Literal["plain", "conll", "conll_char", "conll_char_vi"]
_INPUTS = ("plain", "conll", "conll_char", "conll_char_vi")
_OUTPUTS = ("hdf5", "txt")
_AVERAGE, _ALL = -1, -2


class Embedder:
    """The model in a folder of ELMoForManyLangs, or in anything `elmore.Embedder.load` takes."""

    def __init__(self, model_dir: str | Path, batch_size: int = 64, *, stateful: bool = False):
        if batch_size < 1:
            raise ConfigError(f"batch_size is {batch_size}; expected 1 or more.")
        self.model_dir, self.batch_size = model_dir, batch_size
        self.embedder = _Embedder.load(model_dir)
        self._run = self.embedder.stateful() if stateful else None

    def sents2elmo(self, sents: Iterable[Iterable[str]], output_layer: int = -1) -> list[Vectors]:
        """For each sentence, a list of words, an array (n, D): of layer 0, 1 or 2, or of -1, the
        average of all. -2 is all layers, (L, n, D)."""
        sentences = word_lists(sents)
        self._check(output_layer)
        run = self.embedder.embed if self._run is None else self._carry_on
        return [_layer(embedding, output_layer) for embedding in run(sentences)]

    def _check(self, layer: int) -> None:
        n_layers = self.embedder.n_layers
        if not _ALL <= layer < n_layers:
            raise ConfigError(
                f"output_layer is {layer}; expected 0 to {n_layers - 1}, -1 for the average or -2 "
                "for all layers."
            )

    def _carry_on(self, sentences: list[list[str]]) -> list[Embedding]:
        """The longest sentences first, as the original orders its rows."""
        assert self._run is not None
        order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i]))
        found: dict[int, Embedding] = {}
        for start in range(0, len(order), self.batch_size):
            rows = order[start : start + self.batch_size]
            found.update(zip(rows, self._run.embed([sentences[i] for i in rows]), strict=True))
        return [found[i] for i in range(len(sentences))]


def read_input(path: str | Path, input_format: InputFormat = "plain") -> Iterator[list[str]]:
    """The sentences of a file as the `test` command reads it. `plain` is a sentence per line, its
    words split by tabs, or by spaces where there is no tab. The others are columns of CoNLL or
    CoNLL-U: whole words, their characters, or their syllables."""
    if input_format not in _INPUTS:
        raise ConfigError(f"input_format is {input_format!r}; expected {', '.join(_INPUTS)}.")
    if input_format == "plain":
        for line in read_lines(path):
            words = line.strip().split("\t") if "\t" in line.strip() else line.split()
            if words:
                yield words
        return
    for sentence in _columns(path):
        match input_format:
            case "conll":
                yield sentence
            case "conll_char":
                yield [character for word in sentence for character in word]
            case "conll_char_vi":
                yield [syllable for word in sentence for syllable in word.split()]


def embed_file(
    model: str | Path,
    input_path: str | Path,
    output_prefix: str,
    *,
    input_format: InputFormat = "plain",
    output_format: str = "hdf5",
    output_layer: str = "-1",
) -> list[Path]:
    """The `test` command: the vectors of every distinct sentence in files `PREFIX.lyLAYER.FORMAT`,
    which are returned. In HDF5 a sentence's key is its words joined by tabs, `.` and `/` spelled
    out."""
    embedder = Embedder(model)
    layers, formats = _numbers(output_layer), output_format.split(",")
    for layer in layers:
        embedder._check(layer)
    if unknown := [name for name in formats if name not in _OUTPUTS]:
        raise ConfigError(f"output_format is {unknown[0]!r}; expected hdf5, txt or both: hdf5,txt.")
    kinds = [(layer, name) for layer in layers for name in formats]
    paths = [Path(f"{output_prefix}.ly{layer}.{name}") for layer, name in kinds]
    sentences = {_key(words): words for words in read_input(input_path, input_format)}
    found = embedder.embedder.stream(sentences.items(), key=lambda item: item[1])
    with ExitStack() as stack:
        writers = [
            (layer, _writer(stack, path, name))
            for (layer, name), path in zip(kinds, paths, strict=True)
        ]
        for (key, words), embedding in found:
            for layer, write in writers:
                write(key, words, _layer(embedding, layer))
    return paths


def _writer(stack: ExitStack, path: Path, name: str):  # type: ignore[no-untyped-def]
    beside = stack.enter_context(atomic_file(path))
    if name == "hdf5":
        file, _ = stack.enter_context(hdf5_file(beside))
        return lambda key, _, vectors: file.create_dataset(key, data=vectors)
    text = stack.enter_context(beside.open("w", encoding="utf-8"))

    def write(_: str, words: list[str], vectors: Vectors) -> None:
        for word, row in zip(words, vectors, strict=True):
            text.write("\t".join([word, *(f"{number:.8f}" for number in row)]) + "\n")
        text.write("\n")

    return write


def _layer(embedding: Embedding, layer: int) -> Vectors:
    if layer == _AVERAGE:
        return embedding.average
    chosen: Vectors = embedding.layers if layer == _ALL else embedding.layers[layer]
    return chosen


def _key(words: list[str]) -> str:
    return "\t".join(words).replace(".", "$period$").replace("/", "$backslash$")


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"output_layer is {text!r}; expected numbers such as -1 or 0,1,2."
        ) from None


def _columns(path: str | Path) -> Iterator[list[str]]:
    """Words are in the second column; ranges (`3-4`) and empty nodes (`3.1`) are left out."""
    words: list[str] = []
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split("\t")
        if not line.strip():
            if words:
                yield words
            words = []
        elif not line.startswith("#"):
            if len(fields) < 2:
                raise InputError(
                    f"{path}, line {number}: one column ({line[:40]!r}); expected CoNLL-U: a "
                    "number, a tab and the word. For a sentence per line use plain."
                )
            if "-" not in fields[0] and "." not in fields[0]:
                words.append(fields[1])
    if words:
        yield words


def main(arguments: list[str] | None = None) -> int:
    """The `test` command; errors are one line, and the exit code is 2."""
    parser = argparse.ArgumentParser(prog="python -m elmore.integrations.elmoformanylangs")
    parser.add_argument("command", choices=["test"])
    parser.add_argument("--input", required=True, help="the file with sentences")
    parser.add_argument("--input_format", choices=_INPUTS, default="plain")
    parser.add_argument("--model", required=True, help="the folder of the model")
    parser.add_argument("--output_prefix", required=True, help="files are PREFIX.lyLAYER.FORMAT")
    parser.add_argument("--output_format", default="hdf5", help="hdf5, txt, or hdf5,txt")
    parser.add_argument("--output_layer", default="-1", help="numbers; -1 is the average")
    parser.add_argument("--batch_size", type=int, default=1, help="not needed; for old scripts")
    parser.add_argument("--gpu", type=int, default=-1, help="not needed; for old scripts")
    given = parser.parse_args(arguments)
    try:
        embed_file(
            given.model,
            given.input,
            given.output_prefix,
            input_format=given.input_format,
            output_format=given.output_format,
            output_layer=given.output_layer,
        )
    except ElmoreError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
