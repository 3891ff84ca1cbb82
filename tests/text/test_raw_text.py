"""Raw text is told from words separated by spaces, in many languages, and never the reverse."""

import lzma
import re
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from elmore.text.raw_text import Raw, judge
from tests.shared import SHARED, needs

RAW = {
    "English": "When the boat came in, nobody waited; the harbor was empty. Why? We went home!",
    "German": "Als das Boot kam, wartete niemand; der Hafen war leer. Warum? Wir gingen heim!",
    "French": "Quand le bateau arriva, personne n'attendait ; le port, lui, était vide. Hélas!",
    "Russian": "Когда пришла лодка, никто не ждал; гавань была пуста. Почему? Мы ушли!",
    "Greek": "Όταν ήρθε η βάρκα, κανείς δεν περίμενε, το λιμάνι ήταν άδειο. Φύγαμε!",
    "Korean": "배가 들어왔을 때, 아무도 기다리지 않았다. 왜? 항구는 비어 있었고, 우리는 갔다!",
    "Arabic": "عندما جاء القارب، لم ينتظر أحد؛ كان الميناء فارغا. لماذا؟",
    "Hindi": "जब नाव आई, कोई इंतज़ार नहीं कर रहा था। बंदरगाह खाली था।",
    "Chinese": "船来的时候，没有人在等；港口是空的。为什么？我们回家了！",
    "Japanese": "船が来たとき、誰も待っていなかった。港は空っぽだった。なぜ？",
    "unpunctuated Chinese": "船来的时候没有人在等港口是空的我们回家了",
    "verse": "Tyger Tyger, burning bright,\nIn the forests of the night;\nWhat hand or eye,",
}
WORDS = {
    "Penn Treebank": "mr. <unk> is chairman of <unk> n.v. the dutch publishing group in the u.s.",
    "news": "Inc. said its net rose 3 % , to $ 1,000.5 ; analysts at Smith & Co. were wrong .",
    "headlines": "Yahoo ! sues rival\nstocks fall again on Wall St.\nwhat the budget means for you",
    "German": "Am 3. Mai kam Dr. Meier z. B. nach St. Gallen , usw. , und ging am 4. wieder .",
    "French": "l' eau d' aujourd'hui , c' est -à- dire celle qu' on boit , est bonne !",
    "Chinese": "船 来 的 时候 ， 没有 人 在 等 ； 港口 是 空 的 。 中华人民共和国 成立 了",
    "Japanese": "船 が 来 た とき 、 誰 も 待っ て い なかっ た 。 コンピューター",
    "characters": "船 来 的 时 候 没 有 人 在 等",
    "tagged": "The/at jury/nn ,/, which/wdt said/vbd ,/, ``/`` yes/uh ''/'' ./.",
    "tweets": "@user lol !!! so true :) #yes http://t.co/x ... u.s. vs. uk",
    "speech": "so uh I said to him you know it's not like that at all",
    "one word": "bank",
    "Chinese names": "中华人民共和国\n北京\n毛泽东",
    "nothing": "\n \n",
}


@pytest.mark.parametrize("name", RAW)
def test_raw_text_is_evident_when_there_is_enough_of_it(name: str):
    lines = RAW[name].split("\n")
    assert judge(lines * 12).raw is Raw.EVIDENT
    assert judge(lines).raw is not Raw.NO
    assert judge(lines * 12).example in RAW[name]


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("times", [1, 50])
def test_words_are_never_taken_for_raw_text(name: str, times: int):
    assert judge(WORDS[name].split("\n") * times) == (Raw.NO, "")


def test_a_few_lines_are_only_likely():
    assert judge(["My bank account."]).raw is Raw.LIKELY
    assert judge(["Hello, world.", "How are you?"]).raw is Raw.LIKELY
    assert judge(["今天天气很好。"]).raw is Raw.LIKELY


def test_a_few_slips_in_many_words_are_none():
    assert judge(["words separated by spaces are read as they are"] * 50 + ["Well, yes"]) == (
        Raw.NO,
        "",
    )


@pytest.mark.parametrize("unit", ["a", "我", "a,", "a.", ")", "我)", " ,", "\u0301"])
def test_time_is_linear(unit: str):
    began = time.process_time()
    judge([unit * (1 << 18)])
    assert time.process_time() - began < 5


# Real corpora -------------------------------------------------------------------------------------

TOKENIZED = ["lm/ptb.train.txt", "lm/wikitext2.valid.txt", "lm/wikitext2-raw.wiki.valid.raw"]
COLUMNS = ["tasks/ner_conll2003/eng.train", "tasks/chunk_conll2000/train.txt"]
UNTOKENIZED = [
    *("lm/wiki.train.txt", "lm/novels.train.txt", "lm/wiki2015.valid.txt", "lm/eltec.valid.txt"),
    *(
        "zh/lm/wiki.valid.txt",
        "zh/lm/docs.valid.txt",
        "mt/multi30k/train.de",
        "tasks/pairs/rte/train.txt",
    ),
]


def first_lines(name: str, n: int = 1000) -> list[str]:
    with lzma.open(SHARED / "data" / f"{name}.xz", "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in islice(file, n)]


def parts(lines: list[str]) -> Iterator[list[str]]:
    """All lines, and every few of them."""
    yield lines
    for size in (1, 5, 50):
        yield from (lines[i : i + size] for i in range(0, len(lines), size))


@needs("data", "lm")
@pytest.mark.parametrize("name", TOKENIZED)
def test_tokenized_corpora_pass_whole_and_in_part(name: str):
    assert {judge(some).raw for some in parts(first_lines(name))} == {Raw.NO}


@needs("data", "tasks")
@pytest.mark.parametrize("name", COLUMNS)
def test_the_words_of_annotated_corpora_pass(name: str):
    sentences = re.split(r"\n\s*\n", "\n".join(first_lines(name, 20_000)))
    lines = [" ".join(row.split()[0] for row in one.splitlines() if row) for one in sentences]
    assert {judge(some).raw for some in parts(lines)} == {Raw.NO}


@needs("data", "lm")
def test_the_words_of_brown_and_of_the_peoples_daily_pass():
    for name in ("lm/brown.tagged.txt", "zh/people_daily_199801.pos.txt"):
        lines = [
            " ".join(word.rsplit("/", 1)[0] for word in line.split()) for line in first_lines(name)
        ]
        assert {judge(some).raw for some in parts(lines)} == {Raw.NO}


@needs("data", "lm")
@pytest.mark.parametrize("name", UNTOKENIZED)
def test_raw_corpora_are_refused(name: str):
    assert judge(first_lines(name)).raw is Raw.EVIDENT


def test_the_examples_of_this_project_are_words():
    text = Path(__file__).resolve().parents[2] / "examples" / "harbor.txt"
    assert judge(text.read_text(encoding="utf-8").splitlines()).raw is Raw.NO
