"""The characteristic words of a sense: more frequent near its uses than elsewhere."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log, sqrt

from elmore.uses.use import Use

_TELLING = log(2)  # at least twice as likely
_WINDOW = 10  # words to either side that belong to a use


def characteristic(
    uses: Sequence[Use], others: Sequence[Use], background: Mapping[str, int], n: int
) -> tuple[str, ...]:
    """Words that are more frequent near these uses than near the others, by log-odds with the word
    frequencies of the corpus as prior; the most certain first. Without others, than in the corpus.
    """
    here, there = _context(uses), _context(others) if others else Counter(background)
    odds = _log_odds(here, there, background)
    telling = [word for word, (ratio, _) in odds.items() if ratio > _TELLING and here[word] > 1]
    return tuple(sorted(telling, key=lambda word: (-odds[word][1], word))[:n])


def _context(uses: Sequence[Use]) -> Counter[str]:
    """For each word, the number of uses that have it near them."""
    counts: Counter[str] = Counter()
    for use in uses:
        near = use.words[max(0, use.position - _WINDOW) : use.position + _WINDOW + 1]
        counts.update({word for word in near if word.lower() != use.word.lower()})
    return Counter({word: n for word, n in counts.items() if any(c.isalpha() for c in word)})


def _log_odds(
    here: Counter[str], there: Counter[str], background: Mapping[str, int]
) -> dict[str, tuple[float, float]]:
    """The log-odds ratio of each word, and the same in standard deviations."""
    n_here, n_there = here.total(), there.total()
    weight = 2 * n_here  # of the prior, which lowers words that are frequent everywhere
    share = weight / max(1, sum(background.values()))
    odds = {}
    for word, count in here.items():
        prior = max(0.05, share * background.get(word, 0))
        ours, theirs = count + prior, there.get(word, 0) + prior
        ratio = log(ours / (n_here + weight - ours)) - log(theirs / (n_there + weight - theirs))
        odds[word] = ratio, ratio / sqrt(1 / ours + 1 / theirs)
    return odds
