"""Gold and predicted tags, from two files in CoNLL columns or from one in conlleval's layout."""

from itertools import zip_longest
from pathlib import Path

from elmore.errors import InputError
from elmore.tasks.readers.column_blocks import Block, column_blocks
from elmore.tasks.spans import is_span_tag

Tags = tuple[str, ...]


def read_compared_tags(gold: Path, predicted: Path | None = None) -> tuple[list[Tags], list[Tags]]:
    """The tags of every sentence, gold and predicted. With one file, they are its last two
    columns; with two, the last column of each, and the words must be the same."""
    first = _blocks(gold, columns=2 if predicted is not None else 3)
    if predicted is None:
        pairs = [(_tags(block, -2), _tags(block, -1)) for block in first]
    else:
        second = _blocks(predicted, columns=2)
        pairs = [_compared(*both, gold, predicted) for both in zip_longest(first, second)]
    return [tags for tags, _ in pairs], [tags for _, tags in pairs]


def _blocks(path: Path, columns: int) -> list[Block]:
    blocks = list(column_blocks(path))
    if not blocks:
        raise InputError(f"{path}: no sentence found; expected one word and its tag per line.")
    for block in blocks:
        if block.width < columns:
            raise InputError(
                f"{block.where()}: {block.width} columns; expected {columns} or more: a word, "
                f"{'its tag' if columns == 2 else 'its tag and the predicted one'}."
            )
    return blocks


def _tags(block: Block, column: int) -> Tags:
    tags = block.column(column)
    for i, tag in enumerate(tags):
        if not is_span_tag(tag):
            raise InputError(
                f"{block.where(i)}: the tag {tag!r}; expected O, or B-, I-, E- or S- and a kind."
            )
    return tags


def _compared(
    gold: Block | None, found: Block | None, gold_path: Path, path: Path
) -> tuple[Tags, Tags]:
    if gold is None or found is None:
        longer, shorter = (found, gold_path) if gold is None else (gold, path)
        assert longer is not None
        raise InputError(f"{longer.where()}: {shorter} ends before this sentence.")
    words, others = gold.column(0), found.column(0)
    for i, (word, other) in enumerate(zip_longest(words, others)):
        if word != other:
            raise InputError(
                f"{found.where(i)}: {_said(other)}, but {gold.where(i)} has {_said(word)}; "
                "expected the same words in both files."
            )
    return _tags(gold, -1), _tags(found, -1)


def _said(word: str | None) -> str:
    return "the sentence ends" if word is None else f"the word {word[:40]!r}"
