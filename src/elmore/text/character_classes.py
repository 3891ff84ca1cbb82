"""Classes for the characters that a dictionary does not list: by script or kind, and within each by
code point. Words spelled with unlisted characters then differ, and a name in Cyrillic still differs
from an emoji. A dictionary that lists no classes has one `<oov>` for them all.
"""

import unicodedata

_BUCKETS = 8
_SCRIPTS = {
    "CJK": "han",
    "HIRAGANA": "kana",
    "KATAKANA": "kana",
    "HANGUL": "hangul",
    "LATIN": "latin",
    "GREEK": "greek",
    "CYRILLIC": "cyrillic",
}  # fmt: skip
_KINDS = {"L": "letter", "M": "mark", "N": "number", "P": "punctuation", "S": "symbol"}
_OTHER = "other"


def character_class(character: str) -> str:
    """`<han:3>`, `<symbol:0>` …"""
    script = unicodedata.name(character, "").split(" ", 1)[0]
    kind = _SCRIPTS.get(script) or _KINDS.get(unicodedata.category(character)[0], _OTHER)
    return f"<{kind}:{ord(character) % _BUCKETS}>"


def character_classes() -> list[str]:
    """All of them, in a fixed order."""
    kinds = dict.fromkeys([*_SCRIPTS.values(), *_KINDS.values(), _OTHER])
    return [f"<{kind}:{bucket}>" for kind in kinds for bucket in range(_BUCKETS)]
