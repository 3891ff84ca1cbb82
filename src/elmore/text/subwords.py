"""What a causal model reads and writes: text as numbered pieces, and back again. Byte pairs keep
every character; whole words have an id each, and what is not among them is unknown.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from elmore.config import Foreign, valid
from elmore.errors import ConfigError, FormatError
from elmore.small_files import read_small
from elmore.text.train_byte_pairs import byte_characters, train_byte_pairs
from elmore.text.vocabulary import VOCABULARY, Vocabulary
from elmore.text.wordpiece import TOKENIZER_CONFIG, Pieces, encodable

if TYPE_CHECKING:
    from tokenizers import Tokenizer

VOCAB_JSON, MERGES = "vocab.json", "merges.txt"
BEGIN, END = "<s>", "</s>"
MARKS = (BEGIN, END)
"""No text can look like one: letters and signs are never in one piece."""
INSTALL = "pip install 'elmore[generate]'"
_MAX_KNOWN = 1_000_000  # distinct words whose pieces are kept
_MAX_BYTES = 1 << 26
_SPACE = " "


class Subwords(Protocol):
    """From words to ids, and from ids to text."""

    begin: int
    end: int

    def __len__(self) -> int: ...

    def pieces(self, words: Sequence[str]) -> list[Pieces]:
        """The ids of each word; at least one."""

    def text(self, ids: Sequence[int]) -> str:
        """As it is written: words with single spaces between them. Marks are left out."""

    def piece(self, i: int) -> str:
        """How a piece is shown to people."""

    def n_bytes(self, i: int) -> int:
        """Of the text of a piece, without the space before it."""

    def unknown(self, word: str) -> bool:
        """Whether the word looks like any other unknown one."""

    def files(self) -> dict[str, bytes]: ...


class BytePairsConfig(Foreign):
    """tokenizer_config.json of a GPT-2, as far as it matters here."""

    bos_token: str
    eos_token: str
    add_prefix_space: bool = False
    """Whether the first word of a text has a space before it too."""


_OURS = BytePairsConfig(bos_token=BEGIN, eos_token=END, add_prefix_space=True)


class BytePairs:
    """Pieces of bytes. A word is read with a space before it: in our own models every word, in
    GPT-2 every word but the first of a text."""

    def __init__(
        self,
        vocabulary: Sequence[str],
        merges: Sequence[tuple[str, str]],
        config: BytePairsConfig = _OURS,
    ):
        self.config, self.vocabulary = config, tuple(vocabulary)
        self.merges = [(first, second) for first, second in merges]
        self.ids = {piece: i for i, piece in enumerate(self.vocabulary)}
        if len(self.ids) != len(self.vocabulary):
            raise FormatError("a piece is listed twice; list each once")
        made = (piece for a, b in self.merges for piece in (a + b, a, b))
        marks = config.bos_token, config.eos_token
        for piece in (*marks, *byte_characters(), *made):
            if piece not in self.ids:
                raise FormatError(f"the vocabulary lacks {piece!r}; expected the model's own")
        self.begin, self.end = (self.ids[mark] for mark in marks)
        self._bytes = {character: byte for byte, character in enumerate(byte_characters())}
        self._known: dict[str, Pieces] = {}

    @classmethod
    def trained(cls, counts: Mapping[str, int], size: int, min_count: int = 2) -> "BytePairs":
        """From counts of words: at most `size` pieces."""
        splitter = cls([*MARKS, *byte_characters()], []).tokenizer.pre_tokenizer
        parts: Counter[str] = Counter()
        for word, n in counts.items():
            for part, _ in splitter.pre_tokenize_str(_SPACE + encodable(word)):
                parts[part] += n
        return cls(*train_byte_pairs(parts, size, MARKS, min_count=min_count))

    def __len__(self) -> int:
        return len(self.vocabulary)

    def __getstate__(self) -> dict[str, Any]:
        """A copy in another process makes a tokenizer of its own."""
        return {k: v for k, v in self.__dict__.items() if k != "tokenizer"} | {"_known": {}}

    @cached_property
    def tokenizer(self) -> "Tokenizer":
        try:
            from tokenizers import Tokenizer
            from tokenizers.models import BPE
            from tokenizers.pre_tokenizers import ByteLevel
        except ImportError:
            raise ConfigError(
                f"Byte pairs need the library `tokenizers`, which is not installed: {INSTALL}."
            ) from None
        found = Tokenizer(BPE(vocab=self.ids, merges=self.merges))
        found.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=True)
        return found

    def pieces(self, words: Sequence[str]) -> list[Pieces]:
        """Words are cut apart before pieces are looked up, so each can be read by itself."""
        if len(self._known) > _MAX_KNOWN:
            self._known = {}
        spaced = [_SPACE + word for word in words]
        if spaced and not self.config.add_prefix_space:
            spaced[0] = words[0] or _SPACE  # every word has a piece
        for word in spaced:
            if word not in self._known:
                self._known[word] = tuple(self.tokenizer.encode(encodable(word)).ids)
        return [self._known[word] for word in spaced]

    def text(self, ids: Sequence[int]) -> str:
        marks = (self.begin, self.end)
        characters = "".join(self.vocabulary[i] for i in ids if i not in marks)
        found = bytes(self._bytes[character] for character in characters)
        return found.decode("utf-8", "replace").removeprefix(_SPACE)

    def piece(self, i: int) -> str:
        """A space is shown as ▁, half a character as U+FFFD."""
        if i in (self.begin, self.end):
            return self.vocabulary[i]
        found = bytes(self._bytes[character] for character in self.vocabulary[i])
        return found.decode("utf-8", "replace").replace(_SPACE, "▁")

    def n_bytes(self, i: int) -> int:
        return len(self.vocabulary[i].removeprefix("Ġ"))  # a character of a piece is a byte

    def unknown(self, word: str) -> bool:
        del word  # every byte has a piece
        return False

    def files(self) -> dict[str, bytes]:
        """As GPT-2 has them."""
        merges = "".join(f"{first} {second}\n" for first, second in self.merges)
        vocabulary = json.dumps(self.ids, ensure_ascii=False) + "\n"
        found = {VOCAB_JSON: vocabulary, MERGES: f"#version: 0.2\n{merges}"}
        own = {} if self.config == _OURS else {TOKENIZER_CONFIG: self.settings()}
        return {name: text.encode() for name, text in found.items()} | own

    def settings(self) -> bytes:
        """tokenizer_config.json; a folder without it is read as we do."""
        settings = {"tokenizer_class": "GPT2Tokenizer", **self.config.model_dump()}
        settings["unk_token"] = self.config.eos_token
        return (json.dumps(settings, indent=2, ensure_ascii=False) + "\n").encode()


class WholeWords:
    """A vocabulary of words between `<S>` and `</S>`; other words are `<UNK>`."""

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        self.begin, self.end = vocabulary.begin, vocabulary.end

    def __len__(self) -> int:
        return len(self.vocabulary)

    def pieces(self, words: Sequence[str]) -> list[Pieces]:
        return [(self.vocabulary.id(word),) for word in words]

    def text(self, ids: Sequence[int]) -> str:
        marks = (self.begin, self.end)
        return _SPACE.join(self.vocabulary.words[i] for i in ids if i not in marks)

    def piece(self, i: int) -> str:
        return self.vocabulary.words[i]

    def n_bytes(self, i: int) -> int:
        return len(self.vocabulary.words[i].encode())

    def unknown(self, word: str) -> bool:
        return word not in self.vocabulary

    def files(self) -> dict[str, bytes]:
        return {VOCABULARY: "".join(self.vocabulary.lines()).encode()}


def read_subwords(folder: Path) -> Subwords:
    """The ones whose files are in a folder."""
    if (folder / VOCAB_JSON).is_file():
        known = (folder / TOKENIZER_CONFIG).is_file()
        names = (VOCAB_JSON, MERGES, *([TOKENIZER_CONFIG] if known else []))
        return parse_subwords({name: read_small(folder / name, _MAX_BYTES) for name in names})
    return WholeWords(Vocabulary.read(folder / VOCABULARY))


def parse_subwords(files: Mapping[str, bytes], where: str = "") -> Subwords:
    """The same from the contents of the files, by their names."""
    if VOCAB_JSON not in files:
        words = files.get(VOCABULARY, b"").decode("utf-8", "replace").splitlines()
        return WholeWords(Vocabulary(words))
    try:
        ids = json.loads(files[VOCAB_JSON])
        if not isinstance(ids, dict) or sorted(ids.values()) != list(range(len(ids))):
            raise FormatError(f"{VOCAB_JSON} is not a list of pieces numbered from 0")
        merges = parse_merges(files[MERGES].decode().splitlines())
        config = _OURS
        if TOKENIZER_CONFIG in files:
            with valid(TOKENIZER_CONFIG):
                config = BytePairsConfig.model_validate(json.loads(files[TOKENIZER_CONFIG]))
        return BytePairs(sorted(ids, key=ids.__getitem__), merges, config)
    except FormatError as error:
        raise FormatError(f"{where or VOCAB_JSON}: {error}.") from None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise FormatError(f"{where or VOCAB_JSON}: cannot be read ({error!s:.200}).") from None


def parse_merges(lines: Sequence[str]) -> list[tuple[str, str]]:
    """The lines of merges.txt."""
    found: list[tuple[str, str]] = []
    for n, line in enumerate(lines):
        if not line or (n == 0 and line.startswith("#version")):
            continue
        if len(pair := line.split(" ")) != 2:
            raise FormatError(f"the merge {line[:40]!r} is not two pieces")
        found.append((pair[0], pair[1]))
    return found
