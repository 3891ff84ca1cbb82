"""A document's clusters as HTML: every mention in brackets, with the number and the color of its
cluster; below, the clusters as lists. Mentions may be inside of others.
"""

from collections import defaultdict
from collections.abc import Sequence
from html import escape

from elmore.tasks.readers.coref import Clusters, Document

LEGEND = "A mention is in brackets, with the number of its cluster; clusters of one have no number."
N_COLORS = 5
ALONE = f"c{N_COLORS}"
_SHOWN = 8  # different mentions of a cluster in its list


def cluster_card(document: Document, clusters: Clusters) -> str:
    """The text, and its clusters from the largest on."""
    ordered = sorted(clusters, key=lambda cluster: (-len(cluster), cluster))
    text = _marked_text(document, ordered)
    lists = [_list(document, cluster, n) for n, cluster in enumerate(ordered) if len(cluster) > 1]
    return f"<section><h2>{escape(document.name)}</h2>{text}{''.join(lists)}</section>"


def _color(n: int, cluster: Sequence[object]) -> str:
    return f"c{n % N_COLORS}" if len(cluster) > 1 else ALONE


def _marked_text(document: Document, ordered: Sequence[Sequence[tuple[int, int]]]) -> str:
    opens: dict[int, list[tuple[int, str]]] = defaultdict(list)
    closes: dict[int, int] = defaultdict(int)
    for n, cluster in enumerate(ordered):
        label = f"<b>{n + 1}</b> " if len(cluster) > 1 else ""
        for first, last in cluster:
            mark = f'<span class="mark {_color(n, cluster)}">{label}'
            opens[first].append((last, mark))
            closes[last] += 1
    parts, at = [], 0
    for sentence in document.sentences:
        words = []
        for word in sentence:
            outer_first = sorted(opens[at], key=lambda mark: -mark[0])
            begin = "".join(mark for _, mark in outer_first)
            words.append(f"{begin}{escape(word)}{'</span>' * closes[at]}")
            at += 1
        parts.append(" ".join(words))
    return f'<p class="text">{" ".join(parts)}</p>'


def _list(document: Document, cluster: Sequence[tuple[int, int]], n: int) -> str:
    words = document.words
    texts = list(dict.fromkeys(" ".join(words[a : b + 1]) for a, b in cluster))
    more = ", …" if len(texts) > _SHOWN else ""
    named = escape(", ".join(texts[:_SHOWN]) + more)
    number = f'<span class="mark {_color(n, cluster)}"><b>{n + 1}</b></span>'
    return f"<p><strong>{number} × {len(cluster)}</strong>{named}</p>"
