"""Predictions as one HTML page, in colors and with brackets: without network or scripts, readable
in light and dark, on desktops and phones, and without the colors too.
"""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

from elmore.errors import ConfigError
from elmore.tasks.cluster_page import LEGEND, cluster_card
from elmore.tasks.coreference import Coreference
from elmore.tasks.html_page import html_page, theme
from elmore.tasks.propositions import CONTINUES, PREDICATE, Proposition, RoleSentence
from elmore.tasks.readers.coref import Clusters, Document
from elmore.tasks.semantic_roles import FoundRoles, SemanticRoles
from elmore.tasks.task import Task, Words

REFERS = "R-"
_NUMBERED = ("ARG0", "ARG1", "ARG2", "ARG3", "ARG4")
_MEANINGS = {
    "ARG0": "who does it", "ARG1": "whom or what it is done to", "ARG2": "to whom, with what, …",
    "ARG3": "from where, …", "ARG4": "to where, …", "ARGM-TMP": "when", "ARGM-LOC": "where",
    "ARGM-MNR": "how", "ARGM-CAU": "why", "ARGM-PRP": "what for", "ARGM-DIR": "which way",
    "ARGM-EXT": "how much", "ARGM-MOD": "modal verb", "ARGM-NEG": "negation",
    "ARGM-DIS": "discourse", "ARGM-ADV": "other adverbial", "ARGM-ADJ": "adjective",
    "ARGM-GOL": "for whom", "ARGM-LVB": "light verb", "ARGM-PRD": "as what",
    "ARGM-COM": "with whom",
}  # fmt: skip


Drawing = Callable[[Sequence[Any], Sequence[Any]], str]
"""Examples and predictions -> a page."""


def drawing_of(task: Task[Any, Any, Any]) -> Drawing:
    """How the predictions of a task are drawn."""
    match task:
        case SemanticRoles():
            return role_page
        case Coreference():
            return clusters_page
    raise ConfigError(f"No page is drawn of {task.kind}; expected a model of srl or coref.")


def role_page(examples: Sequence[RoleSentence], predictions: Sequence[FoundRoles]) -> str:
    pairs = zip(examples, predictions, strict=True)
    roles = [p.kind for f in predictions for q in f.propositions for p in q.pieces]
    cards = (role_card(example.words, found) for example, found in pairs)
    return page("Semantic roles", _legend(roles), cards)


def clusters_page(examples: Sequence[Document], predictions: Sequence[Clusters]) -> str:
    cards = (cluster_card(*pair) for pair in zip(examples, predictions, strict=True))
    return page("Clusters of mentions", LEGEND, cards)


def page(title: str, legend: str, cards: Iterable[str]) -> str:
    """The frame: a heading, what the colors mean, and a card for each text."""
    listed = "\n".join(cards)
    body = f'<p class="legend none">{legend}</p>\n<main>\n{listed}\n</main>\n'
    return html_page(title, _STYLE, body)


def role_card(words: Words, found: FoundRoles) -> str:
    """One line for each predicate; a sentence without predicates is shown as it is."""
    lines = [_line(words, proposition) for proposition in found.propositions]
    if not lines:
        return f'<section><p class="none">{escape(" ".join(words))}</p></section>'
    return f"<section>{''.join(lines)}</section>"


def _line(words: Words, found: Proposition) -> str:
    parts: list[str] = []
    done = 0
    for start, end, role in found.pieces:
        parts += [escape(word) for word in words[done:start]]
        parts.append(marked(" ".join(words[start:end]), role, _color(role), _meaning(role)))
        done = end
    rest = [escape(word) for word in words[done:]]
    name = escape(words[found.predicate])
    return f"<p><strong>{name}</strong>{' '.join([*parts, *rest])}</p>"


def marked(text: str, label: str, color: str, meaning: str = "") -> str:
    """Words between brackets, with their label, in a color."""
    title = f' title="{escape(meaning)}"' if meaning else ""
    return f'<span class="mark {color}"{title}><b>{escape(label)}</b> {escape(text)}</span>'


def _base(role: str) -> str:
    return role.removeprefix(CONTINUES).removeprefix(REFERS)


def _color(role: str) -> str:
    """A number for ARG0 … ARG4 (A0 … A4 in CoNLL-2005), and one for all modifiers."""
    base = _base(role)
    numbered = base if base in _NUMBERED else f"ARG{base[1:]}"
    if base == PREDICATE:
        return "v"
    return f"c{_NUMBERED.index(numbered)}" if numbered in _NUMBERED else f"c{len(_NUMBERED)}"


def _meaning(role: str) -> str:
    base = _base(role)
    if base not in _MEANINGS and base[:1] == "A":
        base = f"ARG{base[1:]}"
    return _MEANINGS.get(base, "")


def _legend(roles: Iterable[str]) -> str:
    known = sorted({_base(role) for role in roles} - {PREDICATE})
    told = [(role, _meaning(role)) for role in known if _meaning(role)]
    return " ".join(marked(meaning, role, _color(role)) for role, meaning in told)


_LIGHT = "#1f5fa8 #b34a12 #17713f #7443ab #a62a50 #5c6169".split()
_DARK = "#7db9f4 #f5a36c #6ad39c #c0a3ee #f48ba8 #aab1ba".split()


_STYLE = (
    theme(_LIGHT, _DARK)
    + "".join(f".c{n}{{--own:var(--c{n})}}" for n in range(len(_LIGHT)))
    + """
*{box-sizing:border-box}
body{margin:0 auto;padding:1.2rem 1rem 3rem;max-width:900px;background:var(--paper);
color:var(--ink);font:17px/2 system-ui,sans-serif}
h1{font-size:1.4rem;line-height:1.3;margin:0 0 .6rem}
.legend{font-size:.8rem;line-height:2;color:var(--muted);margin:0 0 1rem}
section{background:var(--card);border:1px solid var(--rule);border-radius:10px;
padding:.7rem 1rem;margin:0 0 .9rem;overflow-wrap:anywhere}
p{margin:.25rem 0;padding-left:7.5rem;text-indent:-7.5rem}
p>strong{display:inline-block;width:7.5rem;padding-right:.6rem;text-indent:0;color:var(--muted);
font-size:.85rem;font-weight:600;overflow:hidden;text-overflow:ellipsis;vertical-align:bottom}
p.none,p.text{padding-left:0;text-indent:0}
p.none{color:var(--muted)}
h2{font-size:1rem;line-height:1.4;margin:.2rem 0}p.text{margin-bottom:.8rem}
.mark{color:var(--own);background:color-mix(in srgb,var(--own) 11%,transparent);
border-radius:4px;padding:.12rem .1rem;box-decoration-break:clone;
-webkit-box-decoration-break:clone}
.mark::before{content:"["}.mark::after{content:"]"}
.mark b{font-size:.66em;white-space:nowrap;letter-spacing:.03em;vertical-align:.12em}
.v{--own:var(--ink);font-weight:700;background:color-mix(in srgb,var(--ink) 16%,transparent)}
@media(max-width:560px){p{padding-left:0;text-indent:0}p>strong{display:block;width:auto}}
"""
)
