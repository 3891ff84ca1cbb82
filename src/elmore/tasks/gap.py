"""GAP answered by a trained model of coreference. The pronoun refers to a name if one cluster has
the pronoun and a mention of the name: the name itself, or a mention that overlaps it and ends with
the same word ("coach Ann Lee" and "Lee" for "Ann Lee"; not "Lee's house", not "Ann Lee and Bo").
"""

from collections.abc import Iterable
from pathlib import Path

from elmore.errors import ConfigError
from elmore.tasks.coreference import Coreference
from elmore.tasks.model import ExampleWatch, TaskModel
from elmore.tasks.readers.coref import Clusters, Mention
from elmore.tasks.readers.gap import GapText, read_gap
from elmore.tasks.scorers.gap import GapScore, Referents, score_gap
from elmore.uses.use_vectors import unwatched


def evaluate_gap(
    model: TaskModel, path: Path, watch: ExampleWatch = unwatched
) -> tuple[GapScore, dict[str, Referents]]:
    """The score of a model on a file of GAP, and its answers."""
    if not isinstance(model.task, Coreference):
        raise ConfigError(f"A model for {model.task.kind}; GAP needs a model for coref.")
    texts = read_gap(path)
    found = model.predict([text.document for text in texts], watch)
    answers = {
        text.id: referents(text, clusters) for text, clusters in zip(texts, found, strict=True)
    }
    return score_gap({text.id: text.gold for text in texts}, answers), answers


def referents(text: GapText, clusters: Clusters) -> Referents:
    """A pronoun that is no mention refers to neither."""
    own = [cluster for cluster in clusters if text.pronoun in cluster]
    mentions = [mention for cluster in own for mention in cluster]
    return Referents(_names(text.a, mentions), _names(text.b, mentions))


def _names(name: Mention, mentions: Iterable[Mention]) -> bool:
    return any(last == name[1] for _, last in mentions)
