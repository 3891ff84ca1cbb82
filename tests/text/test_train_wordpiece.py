"""WordPiece vocabularies: against a slow reference that counts all pairs again after every join."""

import itertools
import random
from collections import Counter

import pytest

from elmore.text.train_wordpiece import train_wordpiece

MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def slow(counts: dict[str, int], size: int, min_count: int) -> list[str]:
    words = {w: [w[0], *("##" + c for c in w[1:])] for w in counts}
    found = [*MARKS, *sorted({p for pieces in words.values() for p in pieces})]
    while len(found) < size:
        pairs: Counter[tuple[str, str]] = Counter()
        for w, pieces in words.items():
            for pair in itertools.pairwise(pieces):
                pairs[pair] += counts[w]
        pairs = Counter({p: n for p, n in pairs.items() if n >= min_count})
        if not pairs:
            break
        a, b = min(pairs, key=lambda p: (-pairs[p], p))
        new = a + b.removeprefix("##")
        for w, pieces in words.items():
            i, out = 0, []
            while i < len(pieces):
                if pieces[i : i + 2] == [a, b]:
                    out.append(new)
                    i += 2
                else:
                    out.append(pieces[i])
                    i += 1
            words[w] = out
        if new not in found:
            found.append(new)
    return found[:size]


@pytest.mark.parametrize("seed", range(20))
def test_equal_to_counting_anew(seed: int):
    rng = random.Random(seed)
    letters = "aab" if seed % 2 else "abcde"
    counts = {
        "".join(rng.choices(letters, k=rng.randint(1, 9))): rng.randint(1, 9) for _ in range(60)
    }
    assert train_wordpiece(counts, 70, MARKS) == slow(counts, 70, 2)


def test_a_small_example_by_hand():
    # (##o, ##w) and (l, ##o) occur 9 times each: the pair that sorts first wins, then (l, ##ow)
    counts = {"low": 7, "lower": 2, "new": 3}
    letters = ["##e", "##o", "##r", "##w", "l", "n"]
    expected = [*MARKS, *letters, "##ow", "low", "##ew", "new", "##er", "lower"]
    assert train_wordpiece(counts, 100, MARKS) == expected


def test_the_order_of_the_counts_does_not_matter():
    words = {f"word{i * 7919 % 100}": i % 5 + 1 for i in range(300)}
    backwards = dict(reversed(words.items()))
    assert train_wordpiece(words, 60, MARKS) == train_wordpiece(backwards, 60, MARKS)


def test_rare_characters_are_not_in_the_alphabet():
    found = train_wordpiece({"aa": 9, "ab": 5, "zz": 1}, 100, MARKS, max_alphabet=2)
    assert "z" not in found
    assert "aa" in found


def test_size_is_a_limit():
    assert len(train_wordpiece({"abcdefgh": 9}, 8, MARKS)) == 8
