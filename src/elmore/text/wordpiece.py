"""WordPiece: a word as pieces of a fixed vocabulary, found greedily, longest first. The library
`tokenizers` does the work, so that pieces are those of every published BERT.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import Field

from elmore.config import Frozen
from elmore.errors import ConfigError, FormatError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER, VOCABULARY, TOKENIZER_CONFIG = "tokenizer.json", "vocab.txt", "tokenizer_config.json"
INSTALL = "pip install 'elmore[bert]'"
_MAX_KNOWN = 1_000_000  # distinct words whose pieces are kept

Pieces = tuple[int, ...]


class AddedPiece(Frozen):
    """A piece that is found in raw text before anything else, such as `[MASK]`."""

    id: int = Field(ge=0)
    content: str = Field(min_length=1)
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = True


class WordPieceConfig(Frozen):
    """How text is cleaned and split before pieces are looked up."""

    lowercase: bool
    strip_accents: bool | None = None
    """None: as `lowercase`."""
    clean_text: bool = True
    chinese_characters: bool = True
    """Whether each is a word of its own."""
    max_characters: int = Field(default=100, ge=1)
    """A longer word is unknown."""
    prefix: str = Field(default="##", min_length=1)
    """Of pieces that continue a word."""
    unknown: str = "[UNK]"
    begin: str = "[CLS]"
    end: str = "[SEP]"
    padding: str = "[PAD]"
    mask: str = "[MASK]"

    @property
    def marks(self) -> tuple[str, ...]:
        return self.padding, self.unknown, self.begin, self.end, self.mask


class WordPiece:
    """A vocabulary of pieces, and the tokenizer that finds them. The id of a piece is its place."""

    def __init__(
        self,
        vocabulary: Sequence[str],
        config: WordPieceConfig,
        added: Sequence[AddedPiece] = (),
    ):
        """`added` are found in raw text like the marks, which need not be among them."""
        self.vocabulary, self.config = tuple(vocabulary), config
        self.ids = {piece: i for i, piece in enumerate(self.vocabulary) if piece}
        if missing := [mark for mark in config.marks if mark not in self.ids]:
            raise FormatError(
                f"the vocabulary of {len(self.vocabulary):,} pieces lacks {', '.join(missing)}; "
                "expected the one the model was trained with"
            )
        by_content = {mark: AddedPiece(id=self.ids[mark], content=mark) for mark in config.marks}
        by_content |= {piece.content: piece for piece in added}
        self.added = sorted(by_content.values(), key=lambda piece: piece.id)
        self.padding, self.unknown, self.begin, self.end, self.mask = (
            self.ids[mark] for mark in config.marks
        )
        self._known: dict[str, Pieces] = {}

    def __len__(self) -> int:
        return len(self.vocabulary)

    def __getstate__(self) -> dict[str, Any]:
        """A copy in another process makes a tokenizer of its own."""
        return {k: v for k, v in self.__dict__.items() if k != "tokenizer"} | {"_known": {}}

    @cached_property
    def tokenizer(self) -> "Tokenizer":
        """Built at first use. Marks are not added by it."""
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise ConfigError(
                f"WordPiece needs the library `tokenizers`, which is not installed: {INSTALL}."
            ) from None
        try:
            return Tokenizer.from_str(self.json())
        except Exception as error:  # the library raises plain Exceptions
            raise FormatError(f"the vocabulary cannot be used ({error})") from None

    def pieces(self, words: Sequence[str]) -> list[Pieces]:
        """The pieces of each word, tokenized by itself. A word without any is unknown."""
        known = self._known
        if len(known) > _MAX_KNOWN:
            known = self._known = {}
        for word in words:
            if word not in known:
                known[word] = self._pieces(word)
        return [known[word] for word in words]

    def _pieces(self, word: str) -> Pieces:
        found = self.tokenizer.encode([encodable(word)], None, True, False)
        return tuple(found.ids) or (self.unknown,)

    def json(self) -> str:
        """As a tokenizer.json, the same text for the same vocabulary and config."""
        config, a, b = self.config, {"id": "A"}, {"id": "B"}
        begin = {"SpecialToken": {"id": config.begin, "type_id": 0}}
        ends = [{"SpecialToken": {"id": config.end, "type_id": i}} for i in (0, 1)]
        texts = [{"Sequence": {**which, "type_id": i}} for i, which in enumerate((a, b))]
        content = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [piece.model_dump() for piece in self.added],
            "normalizer": {
                "type": "BertNormalizer",
                "clean_text": config.clean_text,
                "handle_chinese_chars": config.chinese_characters,
                "strip_accents": config.strip_accents,
                "lowercase": config.lowercase,
            },
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [begin, texts[0], ends[0]],
                "pair": [begin, texts[0], ends[0], texts[1], ends[1]],
                "special_tokens": {
                    mark: {"id": mark, "ids": [self.ids[mark]], "tokens": [mark]}
                    for mark in (config.begin, config.end)
                },
            },
            "decoder": {"type": "WordPiece", "prefix": config.prefix, "cleanup": True},
            "model": {
                "type": "WordPiece",
                "unk_token": config.unknown,
                "continuing_subword_prefix": config.prefix,
                "max_input_chars_per_word": config.max_characters,
                "vocab": self.ids,
            },
        }
        return json.dumps(content, ensure_ascii=False)

    def files(self, max_positions: int) -> dict[str, bytes]:
        """Three files, so that both kinds of tokenizers of other libraries find theirs."""
        config = self.config
        settings: Mapping[str, Any] = {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": config.lowercase,
            "strip_accents": config.strip_accents,
            "tokenize_chinese_chars": config.chinese_characters,
            "model_max_length": max_positions,
            "unk_token": config.unknown,
            "cls_token": config.begin,
            "sep_token": config.end,
            "pad_token": config.padding,
            "mask_token": config.mask,
        }
        texts = {
            TOKENIZER: self.json(),
            VOCABULARY: "".join(f"{piece}\n" for piece in self.vocabulary),
            TOKENIZER_CONFIG: json.dumps(settings, indent=2, ensure_ascii=False) + "\n",
        }
        return {name: text.encode("utf-8", "surrogatepass") for name, text in texts.items()}


def encodable(word: str) -> str:
    """The same, with lone surrogates replaced by U+FFFD, which is dropped like control marks."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return word.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return word
