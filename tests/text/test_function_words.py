"""Which words can tell what a text is about."""

import pytest

from elmore.text.function_words import FUNCTION_WORDS, is_content


@pytest.mark.parametrize(
    "word",
    [
        "a",
        "I",
        "What",
        "the",
        "don't",
        "Don\u2019t",
        "n't",
        "Oh",
        "alas",
        "thou",
        "three",
        ".",
        "12",
        "的",
        "我们",
        "，",
        "(a",
        "money,",
        "",
    ],
)
def test_little_is_said_by(word: str):
    assert not is_content(word)


@pytest.mark.parametrize("word", ["river", "Money", "IT-department", "河", "苹果", "naïve", "Fluß"])
def test_much_is_said_by(word: str):
    assert is_content(word)


def test_the_list_has_no_doubles_and_no_capitals():
    assert all(word == word.lower() for word in FUNCTION_WORDS)
