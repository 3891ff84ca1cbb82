"""Words from raw text: a table of conventions, laws over any Unicode, time on hostile input, and
the share of agreement with a treebank's own words."""

import lzma
import subprocess
import sys
import tempfile
import time
import unicodedata
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmore.errors import ElmoreWarning
from elmore.text import tokenize as module
from elmore.text.tokenize import Token, tokenize, words

EWT = Path(__file__).resolve().parents[2] / "../shared/data/tasks/pos_ud_ewt"

# Text, and its words with a space between: a token never holds one.
CASES = [
    # clitics
    ("She didn't.", "She did n't ."),
    ("She didn’t.", "She did n’t ."),
    ("DON'T! It's", "DO N'T ! It 's"),
    ("can't won't ain't", "ca n't wo n't ai n't"),
    ("it's we're I've he'll she'd I'm", "it 's we 're I 've he 'll she 'd I 'm"),
    ("shouldn't've", "should n't 've"),
    ("I'd've gone", "I 'd 've gone"),
    ("my mother-in-law's car", "my mother-in-law 's car"),
    ("the 1990's", "the 1990 's"),
    ("dogs' tails and James' hat", "dogs ' tails and James ' hat"),
    ("the (USA)'s and \"Time\"'s", "the ( USA ) 's and \" Time \" 's"),
    ("I cannot, Cannot CANNOT", "I can not , Can not CAN NOT"),
    ("gonna gotta wanna gimme lemme", "gon na got ta wan na gim me lem me"),
    ("cannots Gotham wannabe", "cannots Gotham wannabe"),
    ("'Tis so, ’twas so", "'T is so , ’t was so"),
    ("y'all d'you", "y' all d' you"),
    ("let 'em go", "let 'em go"),
    ("rock 'n' roll in the '90s", "rock 'n' roll in the '90s"),
    ("five o'clock, O'Brien, ma'am", "five o'clock , O'Brien , ma'am"),
    ("did n't it 's can not", "did n't it 's can not"),
    # quotes
    ('He said, "Stop."', 'He said , " Stop . "'),
    ("“Stop,” he said.", "“ Stop , ” he said ."),
    ("‘Well!’ thought Alice", "‘ Well ! ’ thought Alice"),
    ("'hello' world", "' hello ' world"),
    ("``quoted''", "`` quoted ''"),
    ("„Ja“, «oui»", "„ Ja “ , « oui »"),
    # periods
    ("Mr. and Mrs. Smith met Dr. Jones.", "Mr. and Mrs. Smith met Dr. Jones ."),
    ("MR. SMITH", "MR. SMITH"),
    ("in the U.S. and U.K.-based", "in the U.S. and U.K.-based"),
    ("non-U.S. firms", "non-U.S. firms"),
    ("fruit, e.g. figs, i.e. these", "fruit , e.g. figs , i.e. these"),
    ("on Jan. 5, at 5 p.m.", "on Jan. 5 , at 5 p.m."),
    ("J. R. R. Tolkien and J.K. Rowling", "J. R. R. Tolkien and J.K. Rowling"),
    ("E. coli on p. 5", "E. coli on p. 5"),
    ("So did I. Mary left.", "So did I . Mary left ."),
    ("Take vitamin C. It helps.", "Take vitamin C . It helps ."),
    ("No. 5 says no.", "No. 5 says no ."),
    ("a Ph.D. in art", "a Ph.D. in art"),
    ("Acme Inc.'s shares", "Acme Inc. 's shares"),
    ("the end.Next", "the end . Next"),
    ("Wait... what? Really?!", "Wait ... what ? Really ?!"),
    ("Hm… yes.", "Hm … yes ."),
    # numbers
    ("It costs $1,000.50.", "It costs $ 1,000.50 ."),
    ("US$5 or £3 or 5€", "US$ 5 or £ 3 or 5 €"),
    ("pi is 3.14, not .5 or -2", "pi is 3.14 , not .5 or -2"),
    ("50% of 1.000,50", "50 % of 1.000,50"),
    ("10:30, 10:30am, 5pm", "10:30 , 10:30 am , 5 pm"),
    ("1/2/2020 or 2020-01-31", "1/2/2020 or 2020-01-31"),
    ("the 20th, 1980s, 5¼-inch", "the 20th , 1980s , 5¼-inch"),
    ("1, 2,3", "1 , 2,3"),
    # hyphens, dashes, brackets, marks
    ("a well-known T-shirt", "a well-known T-shirt"),
    ("first- and second-year", "first- and second-year"),
    ("yes--no—maybe – so", "yes -- no — maybe – so"),
    ("(see [1] {x})", "( see [ 1 ] { x } )"),
    ("_very_ snake_case", "_ very _ snake_case"),
    ("AT&T and R&D, salt&pepper", "AT&T and R&D , salt & pepper"),
    ("he/she w/o I/O", "he / she w/o I/O"),
    ("C++ and <unk>", "C++ and <unk>"),
    ("***** == !!!", "***** == !!!"),
    ("a:b; c", "a : b ; c"),
    # links and their kin
    ("See http://a.com/x?y=1.", "See http://a.com/x?y=1 ."),
    ("(https://en.org/wiki/A_(b)), ok", "( https://en.org/wiki/A_(b) ) , ok"),
    ("at www.foo.org/a, foo.com", "at www.foo.org/a , foo.com"),
    ("example.com/path!", "example.com/path !"),
    ("Mail a.b+c@d-e.co.uk.", "Mail a.b+c@d-e.co.uk ."),
    ("@bob_1: #fun #1", "@bob_1 : #fun # 1"),
    ("nice :) ok", "nice :) ok"),
    # emoji
    ("👍🏽ok👨‍👩‍👧!", "👍🏽 ok 👨‍👩‍👧 !"),
    ("🇫🇷🇩🇪 ❤️ 1️⃣ 🏳️‍🌈", "🇫🇷 🇩🇪 ❤️ 1️⃣ 🏳️‍🌈"),
    # other languages
    ("L’eau, c'est l'homme; aujourd'hui", "L’ eau , c' est l' homme ; aujourd'hui"),
    ("D'Angelo, d'Artagnan", "D'Angelo , d'Artagnan"),
    ("dell'arte, ¿qué?", "dell' arte , ¿ qué ?"),
    ("z. B. Ein- und Ausgang", "z. B. Ein- und Ausgang"),
    ("«Да», — А. С. Пушкин", "« Да » , — А. С. Пушкин"),
    ("cafe\u0301s na\u0131\u0308ve", "cafe\u0301s na\u0131\u0308ve"),
    ("यह हिन्दी है।", "यह हिन्दी है ।"),
    ("한국어는 재미있다.", "한국어는 재미있다 ."),
    ("テレビをみる。", "テレビ をみる 。"),
    ("col·lecció co\u00adoperate", "col·lecció co\u00adoperate"),
    # nothing much
    ("", ""),
    (" \t\n\u3000\x1c", ""),
    ("a\0b", "a \0 b"),
    ("\ud800x", "\ud800 x"),
]

FRAGMENTS = [
    *"aZ09.,:;'’‘\"()[]{}-_@#&/\\!?$%+<>=*~^|…—– \n",
    *"\u00a0\u0301\u200d\ufe0f\0\x1f\ud83d中々かカーé한",
    *["http://", "www.", "a@b.co", "n't", "'s", "Mr.", "J.", "U.S.", "cannot", "👍🏽", "👨‍", "🇫"],
]
ANY_TEXT = st.text(st.characters(), max_size=60) | st.lists(
    st.sampled_from(FRAGMENTS) | st.characters(), max_size=60
).map("".join)

HOSTILE = [
    *["a", "A", "1", ".", "'", "é\u0301", "\u0301", "\0", "\ud800", "👨‍", "🇫", "か"],
    *["a.", "A.", "Aa.", "a-", "a+", "a_", "a'", "a's", "1,", "1:", "'t", "@a", "#1", "a@", "a@a."],
    *["http://", "www.(", "http://a(", "<a", "a.b/", "J. ", "No. ", "I. ", "A.\n\n", "a- "],
]


def is_lawful(text: str, tokens: list[Token]) -> bool:
    """No character but white space is lost, and every token is where it says."""
    in_place = all(token.text == text[token.start : token.end] for token in tokens)
    in_order = all(a.end <= b.start for a, b in pairwise(tokens))
    whole = all(token.text and not any(map(str.isspace, token.text)) for token in tokens)
    kept = "".join(token.text for token in tokens) == "".join(text.split())
    return in_place and in_order and whole and kept


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_splits_as_the_treebank_would(text: str, expected: str) -> None:
    assert words(text) == expected.split(" ") if expected else words(text) == []


@pytest.mark.parametrize("text", [text for text, _ in CASES])
def test_tokens_are_the_words_with_their_places(text: str) -> None:
    tokens = tokenize(text)
    assert [token.text for token in tokens] == words(text)
    assert is_lawful(text, tokens)


@settings(max_examples=500, deadline=None)
@given(ANY_TEXT)
def test_loses_nothing_of_any_text(text: str) -> None:
    pytest.importorskip("jieba", reason="random text has Chinese characters")
    assert is_lawful(text, tokenize(text))


def test_every_character_survives_alone_and_between_letters() -> None:
    pytest.importorskip("jieba", reason="some characters are Chinese")
    every = [chr(code) for code in range(0x3000)] + [chr(c) for c in range(0x3000, 0x110000, 97)]
    for text in ("a".join(every), " ".join(every)):
        assert is_lawful(text, tokenize(text))


@settings(max_examples=200, deadline=None)
@given(st.text("aeioué", min_size=1, max_size=8), st.text("\u0301\u0327\u20dd", max_size=4))
def test_combining_marks_stay_with_their_letter(letters: str, marks: str) -> None:
    assert words(letters + marks + "n") == [letters + marks + "n"]


def test_composed_and_decomposed_text_split_alike() -> None:
    text = "L’été à Ürümqi: «déjà vu», naïveté—Dvořák’s Größe."
    apart = unicodedata.normalize("NFD", text)
    assert [unicodedata.normalize("NFC", word) for word in words(apart)] == words(text)


def test_english_words_split_again_are_the_same_words() -> None:
    once = words("\"I can't,\" said Mr. J. Doe's dog; it's 50% off (U.S. $5.50) -- isn't it?")
    assert words(" ".join(once)) == once


@pytest.mark.parametrize("unit", HOSTILE, ids=ascii)
def test_time_is_linear_on_hostile_text(unit: str) -> None:
    for size, seconds in [(10_000, 1.0), (100_000, 8.0)]:  # measured: 0.02 and 0.3 at most
        text = unit * (size // len(unit))
        began = time.process_time()
        tokens = tokenize(text)
        assert time.process_time() - began < seconds
        assert is_lawful(text, tokens)


@pytest.mark.parametrize("unit", ["a", "a.", "Aa.", "a+", "http://a("])
def test_a_megabyte_without_a_space_takes_seconds(unit: str) -> None:
    began = time.process_time()
    words(unit * (1_000_000 // len(unit)))
    assert time.process_time() - began < 20  # a quadratic scan would take hours


def test_splits_chinese_into_words() -> None:
    pytest.importorskip("jieba")
    assert words("我们坐在河岸上，看iPhone手机。") == (
        "我们 坐在 河岸 上 ， 看 iPhone 手机 。".split()
    )


def test_long_chinese_runs_take_linear_time() -> None:
    pytest.importorskip("jieba")
    words("我")  # the dictionary is read outside the clock
    began = time.process_time()
    assert "".join(words("的" * 50_000)) == "的" * 50_000
    assert time.process_time() - began < 10  # in one piece: minutes


def test_a_variation_selector_stays_with_its_chinese_character() -> None:
    pytest.importorskip("jieba")
    assert words("葛\U000e0100城")[0] == "葛\U000e0100"


def test_without_jieba_chinese_is_split_into_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    module._segmenter.cache_clear()
    try:
        with pytest.warns(ElmoreWarning, match=r"pip install 'elmore\[zh\]'"):
            found = words("An apple (苹果) a day.")
        assert found == "An apple ( 苹 果 ) a day .".split()
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # once is enough
            assert words("hello 你好テレビ") == ["hello", "你", "好", "テレビ"]
    finally:
        module._segmenter.cache_clear()


def test_jieba_is_silent_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jieba")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    module._segmenter.cache_clear()
    assert words("你好") == ["你好"]
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_jieba_is_not_loaded_for_text_without_chinese() -> None:
    code = "import sys; from elmore.text.tokenize import words; words('hi かな'); "
    code += "sys.exit('jieba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def treebank_sentences(path: Path) -> Iterator[tuple[str, list[str]]]:
    text, gold = "", list[str]()
    for line in lzma.decompress(path.read_bytes()).decode().splitlines(keepends=True):
        if line.startswith("# text = "):
            text, gold = line[9:].rstrip("\n"), []
        elif line[0].isdigit() and line.split("\t")[0].isdigit():
            gold.append(line.split("\t")[1])
        elif line == "\n" and "".join(gold) == "".join(text.split()):
            yield text, gold


def test_agrees_with_a_treebank_of_the_web() -> None:
    """The treebank also splits hyphens and slashes, and mends "dont": so not all of it."""
    path = EWT / "en_ewt-ud-dev.conllu.xz"
    if not path.exists():
        pytest.skip("the UD English Web Treebank is not here")
    shared = n_gold = n_ours = 0
    for text, gold in treebank_sentences(path):
        ends = 0
        gold_spans = {(ends, ends := ends + len(word)) for word in gold}
        ends = 0
        our_spans = {(ends, ends := ends + len(word)) for word in words(text)}
        shared += len(gold_spans & our_spans)
        n_gold += len(gold_spans)
        n_ours += len(our_spans)
    assert n_gold > 20_000
    assert shared / n_ours > 0.985
    assert shared / n_gold > 0.975
