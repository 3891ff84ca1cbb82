"""Raw text to words as in the Penn Treebank: clitics, quotes and final periods are separate words;
abbreviations, numbers, links and emoji stay whole. The text is never changed: a token is a slice
of it, and only white space is dropped. Time is linear in the length of any text.
"""

import re
import unicodedata
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from elmore.errors import ElmoreWarning

# Abbreviations that a name or a number follows: a period after them never ends a sentence.
TITLES = frozenset(
    "Mr Mrs Ms Mx Messrs Dr Drs Prof Rev Hon Gen Col Maj Capt Cpt Lt Sgt Cpl Pvt Cmdr Cdr Adm Brig "
    "Gov Sen Sens Rep Reps Pres Supt Insp Amb Msgr St Ste Mt Ft Mme Mmes Mlle Hr Fr Sra Srta Dña "
    "MR MRS MS DR PROF REV GEN COL CAPT LT SGT GOV SEN REP ST mr mrs ms dr prof lt sgt capt gov st "
    "vs Vs v cf Cf viz Viz eq Eq Fig Figs figs vol Vol vols Vols pp ca Nr Nrn Bd vgl Vgl".split()
)
ABBREVIATIONS = TITLES | frozenset(
    "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Thu Thur Thurs Fri "
    "jan feb sept oct nov dec Jr Sr Esq Bros Inc Ltd Corp Co Cos jr sr bros inc ltd corp co Cie "
    "Assn Dept dept Univ Ave Blvd Rd Hwy Mgr mgr Attn attn appt tel Tel ext "
    "Ala Ariz Ark Calif Colo Conn Del Fla Ga Ia Kan Ky La Md Mich Minn Mo Mont Neb Nev Okla Ore "
    "Pa Tenn Tex Va Vt Wis Wyo Penn "
    "etc Etc al ibid Ibid ed eds Eds trans approx est incl excl misc avg "
    "oz lb lbs ft sq hr hrs usw bzw evtl ggf inkl zzgl geb gest sog Str Abs pág núm".split()
)
# Also ordinary words, so abbreviations only before a number or a comma: "No. 5", "no."
AMBIGUOUS = frozenset(
    "No no Nos nos Art art fig Sat Sun Wed Mass Ill Wash Miss Ind Op op Sec sec Ch ch".split()
)
# These words are capitalized without being names: "vitamin C. It helps", "in the U.S. The law".
STARTERS = frozenset(
    "A After All Also An And Another Any As At Because Before But By Each Even Every For From Had "
    "He Her Here His How However I If In Is It Its Let Many More Most My No Nor Not Now Of On Once "
    "One Only Or Our She Since So Some Such That The Their Then There These They This Those Though "
    "Thus To Two Under Until Was We Were What When Where Which While Who Why With Yes Yet You "
    "Your".split()
)

HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
HIRAGANA = "\u3041-\u3096\u309d-\u309f"
KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
# jieba's time is quadratic in the length of a run: longer runs, which prose never has, are cut.
MAX_HAN = 128

_UNSPACED = re.compile(f"[{HAN}{HIRAGANA}{KATAKANA}]")

CHAR = rf"[^\W_{HAN}{HIRAGANA}{KATAKANA}]"
LETTER = rf"[^\W\d_{HAN}{HIRAGANA}{KATAKANA}]"

# The rest of a link: its stops only with more after them, its brackets only in pairs.
STOP = r".,;:!?'’‘*_~…"
NEVER = rf"\s<>()\"“”«»\[\]{{}}|\u3000-\u303f\uff00-\uff0f\uff1a-\uff1f{HAN}{HIRAGANA}{KATAKANA}"
LINK = rf"(?:[{STOP}]*+(?:[^{STOP}{NEVER}]|\([^{NEVER}]*+\)))++"
LABEL = r"[A-Za-z0-9][\w-]{0,62}+"

PICTURE = r"[\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
EMOJI = rf"{PICTURE}[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]*+"
RUNS = "|".join(rf"{re.escape(mark)}{{2,}}+" for mark in "-.=*_~#^+<>|$—–…。·•")

CLITICS = frozenset(["n't", "'re", "'ve", "'ll", "'em", "'s", "'d", "'m", "'n"])
ELISION = re.compile(  # French and Italian, before a small vowel: "l'eau", not "D'Angelo"
    r"(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quoiqu|d?all|dell|nell|sull|quell|un|y(?=.all\b))"
    r"['’](?=[aeiouyhàâäæèéêëìîïòôöœùûü])",
    re.IGNORECASE,
)
NEXT_WORD = re.compile(r"\s*+(\w{1,20}+)(\.?)")
NEXT_NUMBER = re.compile(r"\s*+\d|,")


@dataclass(frozen=True, slots=True)
class Token:
    """A word and its place: `text == source[start:end]`."""

    text: str
    start: int
    end: int


def tokenize(text: str) -> list[Token]:
    """The words of `text` in order, each with its place."""
    return [Token(text[start:end], start, end) for start, end in _spans(text)]


def has_unspaced(text: str) -> bool:
    """Whether any of it is Chinese or Japanese, which are written without spaces."""
    return _UNSPACED.search(text) is not None


def words(text: str) -> list[str]:
    """The words of `text` alone; quicker than `tokenize`."""
    return [text[start:end] for start, end in _spans(text)]


def _spans(text: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for match in _unit_pattern().finditer(text):
        kind = match.lastgroup
        if kind is None:
            spans.append(match.span())
        elif kind == "han":
            spans += _segment(match)
        elif kind == "word":
            spans += _split_clitics(text, *match.span())
        elif _keeps_period(text, match, spans):
            spans.append(match.span())
        else:
            spans += _split_clitics(text, *match.span("word"))
            spans.append(match.span("period"))
    return spans


def _split_clitics(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Cut "should n't 've" at its clitics, and "l' eau" at its elision."""
    word = text[start:end]
    if "'" not in word and "’" not in word:
        return [(start, end)]
    tails: list[tuple[int, int]] = []
    while tail := _clitic_length(text, start, end):
        tails.append((end - tail, end))
        end -= tail
    if elided := ELISION.match(text, start, end):
        middle = elided.end()
        if text[middle].islower():
            return [(start, middle), (middle, end), *reversed(tails)]
    return [(start, end), *reversed(tails)]


def _clitic_length(text: str, start: int, end: int) -> int:
    """The length of the clitic that ends here, 0 if there is none or nothing is before it."""
    tail = text[max(start, end - 4) : end].lower().replace("’", "'")
    for length in (3, 2):
        if len(tail) > length and tail[-length:] in CLITICS:
            return length
    return 0


def _keeps_period(text: str, match: re.Match[str], before: list[tuple[int, int]]) -> bool:
    """Whether the period belongs to the word: it is an abbreviation or an initial."""
    word, end = match["word"], match.end()
    if len(word) == 1:
        return word.isalpha() and (word == "v" or _is_initial(text, word, end, before))
    if word in AMBIGUOUS:
        return NEXT_NUMBER.match(text, end) is not None
    return word in ABBREVIATIONS


def _is_initial(text: str, letter: str, end: int, before: list[tuple[int, int]]) -> bool:
    """Whether "X." is as in "J. Smith", "E. coli", "z. B." and "p. 5", not a sentence's end."""
    if before and before[-1][1] - before[-1][0] == 2 and text[before[-1][1] - 1] == ".":
        return True
    following = NEXT_WORD.match(text, end)
    if following is None:
        return False
    word, period = following.groups()
    if period and len(word) == 1 and word.isalpha():
        return True
    if letter.islower():
        return word[0].isdigit()
    return letter != "I" and word[0].isalpha() and word not in STARTERS


def _segment(match: re.Match[str]) -> list[tuple[int, int]]:
    spans, start = [], match.start()
    for word in _segmenter()(match["han"]):
        spans.append((start, start + len(word)))
        start += len(word)
    assert start == match.end("han"), "jieba must keep every character"
    spans[-1] = (spans[-1][0], match.end())  # marks after the run belong to its last word
    return spans


@cache
def _segmenter() -> Callable[[str], list[str]]:
    """jieba with its own dictionary, read straight from the package; without it, one character is
    one word.

    Its usual start would log to stderr, and read and write a cache in the temporary folder,
    which may be another user's or read-only. This way takes a second, once, and does neither.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its old string escapes, and pkg_resources
            import jieba
    except ImportError:
        warnings.warn(
            "The text has Chinese characters, and jieba, which finds the words, is not installed: "
            "each character becomes a word; for words: pip install 'elmore[zh]'.",
            ElmoreWarning,
            stacklevel=2,
        )
        return list
    segmenter = jieba.Tokenizer()
    segmenter.FREQ, segmenter.total = segmenter.gen_pfdict(segmenter.get_dict_file())
    segmenter.initialized = True
    cut: Callable[[str], list[str]] = segmenter.lcut
    return cut


def _marks() -> str:
    """A character class, without brackets, of all marks that belong to the character before."""
    codes = (*range(0x300, 0x1F000), *range(0xE0100, 0xE01F0))
    ranges = [[0xAD, 0xAD], [0x200C, 0x200D], [0x2060, 0x2060]]  # soft hyphen and joiners
    for code in codes:
        if unicodedata.category(chr(code))[0] != "M":
            continue
        if ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


def _word(marks: str) -> str:
    """A word with its inner hyphens, apostrophes and points: "well-known", "o'clock", "1,000.5"."""
    core = rf"{CHAR}++(?:[{marks}]++{CHAR}*+)*+"
    joiner = (
        rf"[-‐‑·׳״](?={CHAR})|_++(?={CHAR})|['’](?={LETTER})|\.(?=[a-zß-öø-ÿα-ωа-я])"
        r"|(?<=[A-Z])&(?=[A-Z])|(?<=\d)[.,:/](?=\d)"
    )
    return rf"{core}(?:(?:{joiner}){core})*+(?:-(?=\s(?:and|or|to|und|oder|bis|og|och)\b))?+"


@cache
def _unit_pattern() -> re.Pattern[str]:
    """One alternative per kind of unit, tried in order; the last takes any one character.

    Each is possessive or bounded, so that no character is scanned more than a few times.
    """
    marks = _marks()
    word = _word(marks)
    acronym = rf"{LETTER}\.(?:(?:-?{LETTER}\.)++(?:{LETTER}(?!\w))?+|{LETTER}(?!\w))(?![a-z0-9])"
    units = [
        # Most of English, at once: a plain word with nothing after it that might belong to it.
        r"(?=[CGLWcglw])(?i:can(?=not\b)|(?:gon|wan)(?=na\b)|got(?=ta\b)|(?:gim|lem)(?=me\b))",
        r"\d{1,2}+(?:[:.]\d\d)?+(?=[AaPp]\.?[Mm]\b)",
        rf"{CHAR}++(?=[\s;!?)\]\"”—]|[,:]\s|\Z)",
        rf"[,;()\[\]{{}}\"“”](?![{marks}])",
        # Links, addresses, handles, hashtags, tags.
        rf"(?:https?|ftp|file)://{LINK}|www\.{LINK}",
        rf"(?:[a-z0-9][a-z0-9-]{{0,62}}+\.){{1,6}}[a-z]{{2,24}}/{LINK}",
        rf"\w[\w.+%-]{{0,63}}+@(?:{LABEL}\.){{1,6}}[A-Za-z]{{2,24}}(?![\w-])",
        r"(?<![\w@])@\d*+[^\W\d]\w*+(?:\.[a-z0-9]\w*+)*+",
        rf"(?<!\w)#\d*+[^\W\d_][\w{marks}]*+",
        r"</?[A-Za-z][A-Za-z0-9]{0,15}+/?>",
        # Numbers with a sign or a leading point; a dollar's country.
        rf"(?:(?<!\S)|(?<=[(\[\"'“‘$£€¥=~]))(?:[-+−]\.?|\.)(?=\d){word}",
        r"(?:US|HK|NZ|NT|[ACS])\$(?=\d)",
        # Acronyms, degrees, "w/o", "C++".
        rf"(?:[A-Za-z]{{2,8}}+-)?+{acronym}(?:-{word})?+",
        r"Ph\.D\.?|[BMD]\.(?:Sc|Phil|Ed|Eng)\.?",
        r"[A-Za-z]/[A-Za-z](?![\w/])|[A-Za-z]\+\+",
        # All other words; clitics and the period are split off by code that has the word lists.
        rf"(?P<word>{word})(?P<period>\.(?!\.))?+",
        rf"(?P<han>[{HAN}]{{1,{MAX_HAN}}}+)[{marks}]*+",
        rf"[{HIRAGANA}][{HIRAGANA}ー{marks}]*+|[{KATAKANA}][{KATAKANA}{marks}]*+",
        # Apostrophes in front: 't was, 's, 'em, '90s, 'n'; two of them are a quote.
        r"['’‘](?i:t)(?=(?i:is|was|were|will|would|wo|ain)\b|\s)",
        r"['’‘](?i:s|re|ve|ll|d|m|em|til|cause|bout|\d\ds?)(?![\w'’])",
        r"['’‘][nN]['’](?!\w)|''|’’|``",
        # Emoji: flags, joined pictures, keys; old faces such as :-).
        rf"[\U0001f1e6-\U0001f1ff]{{2}}|{EMOJI}(?:\u200d{EMOJI})*+|[#*]\ufe0f?\u20e3",
        r"(?<!\S)[:;=][-^']?[()DPp](?!\w)",
        rf"[!?！？]++|{RUNS}|\S[{marks}]*+",
    ]
    return re.compile(rf"(?!\s)(?:{'|'.join(units)})")  # the guard skips spaces at once
