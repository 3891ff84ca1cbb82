"""How an encoder is written."""

import pytest

from elmore.errors import ConfigError
from elmore.tasks.encoders.encoder import EncoderConfig
from elmore.tasks.encoders.names import Part, parts_of


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("none", [Part("none")]),
        ("bert:a/b", [Part("bert:a/b")]),
        ("bert:a/b+tune", [Part("bert:a/b", tune=True)]),
        ("small-en + last4", [Part("small-en", last=True)]),
        ("glove:x+m+tune", [Part("glove:x"), Part("m", tune=True)]),
        ("m+last4+glove:x+n", [Part("m", last=True), Part("glove:x"), Part("n")]),
        ("./tune+tune", [Part("./tune", tune=True)]),
    ],
)
def test_sources_are_followed_by_their_options(source: str, parts: list[Part]):
    assert parts_of(source) == parts


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("", "a part of it is empty"),
        ("bert:x++tune", "a part of it is empty"),
        ("tune", "begins with an option"),
        ("last4+m", "begins with an option"),
        ("none+tune", r"\+tune is for a model, not for 'none'"),
        ("glove:x+last4", r"\+last4 is for a model, not for 'glove:x'"),
        ("store:x+tune", r"\+tune is for a model, not for 'store:x'"),
        ("m+last4+tune", r"\+last4 is for a frozen model"),
    ],
)
def test_what_makes_no_sense_is_told(source: str, said: str):
    with pytest.raises(ConfigError, match=said):
        parts_of(source)


@pytest.mark.parametrize(
    ("source", "fine_tune", "tunes"),
    [
        ("bert:x", False, None), ("bert:x", True, "bert"), ("bert:x+tune", False, "bert"),
        ("lm:x", False, None), ("lm:x", True, "lm"), ("lm:x+tune", False, "lm"),
        ("x", True, None), ("x+tune", False, None), ("none", True, None),
    ],
)  # fmt: skip
def test_a_model_is_tuned_as_what_it_is_called(source: str, fine_tune: bool, tunes: str | None):
    assert EncoderConfig(source=source, fine_tune=fine_tune).tunes == tunes
