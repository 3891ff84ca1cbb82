"""A use as text."""

from elmore.uses.use import Use


def test_a_snippet_and_a_sentence_read_like_text():
    words = tuple("In the oasis they grow the fig , the date and olives .".split())
    use = Use(words, words.index("date"))
    assert use.word == "date"
    assert use.sentence == "In the oasis they grow the fig, the date and olives."
    assert use.snippet(1) == "… the date and …"
    assert use.marked("<", ">") == "In the oasis they grow the fig, the <date> and olives."
    assert Use(("The", "batsman", "'s", "bat"), 3).snippet(1) == "… 's bat"


def test_a_use_may_be_several_words():
    use = Use(("He", "took", "off", "at", "noon"), 1, n_words=2)
    assert (use.word, use.span) == ("took off", (1, 3))
    assert use.marked("<", ">") == "He <took off> at noon"
