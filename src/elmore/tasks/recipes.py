"""Tasks by name: functions that return a whole config, with the settings of published models where
these are known. `--set a.b=c` changes a setting; the pretrained vectors are chosen separately.
"""

from collections.abc import Callable

from elmore.errors import ConfigError
from elmore.tasks.classification import Classification
from elmore.tasks.encoders.encoder import EncoderConfig
from elmore.tasks.entailment import Entailment
from elmore.tasks.fit_config import FitConfig
from elmore.tasks.question_answering import QuestionAnswering
from elmore.tasks.tagging import ConlluLayout, Tagging


def ner() -> FitConfig:
    """biLSTM and CRF over the last of CoNLL's columns."""
    return FitConfig(task=Tagging())


def chunking() -> FitConfig:
    """The same model: chunks are spans, as entities are."""
    return ner()


def taglm() -> FitConfig:
    """Spans as in TagLM: two layers, and the biLM's vectors join after the first."""
    return FitConfig(task=Tagging(n_layers=2, late_after=1), encoder=EncoderConfig(join="late"))


def pos() -> FitConfig:
    """Parts of speech (UPOS) of CoNLL-U files."""
    return FitConfig(task=Tagging(layout=ConlluLayout(), spans=False))


def sst() -> FitConfig:
    """One label per sentence: the roots of sentiment trees."""
    return FitConfig(task=Classification())


def entailment() -> FitConfig:
    """Two sentences and a label, by ESIM; a biLM joins at the RNN's input and output."""
    return FitConfig(task=Entailment(), encoder=EncoderConfig(join="both"))


def qa() -> FitConfig:
    """Answers within a paragraph (SQuAD 1.1), by attention flow; a biLM joins as in entailment."""
    return FitConfig(task=QuestionAnswering(), encoder=EncoderConfig(join="both"))


RECIPES: dict[str, Callable[[], FitConfig]] = {
    recipe.__name__: recipe for recipe in (ner, chunking, taglm, pos, sst, entailment, qa)
}


def find_task(name: str) -> FitConfig:
    """A task of ours by name."""
    if name not in RECIPES:
        raise ConfigError(f"No task {name!r} to train; expected one of {', '.join(RECIPES)}.")
    return RECIPES[name]()
