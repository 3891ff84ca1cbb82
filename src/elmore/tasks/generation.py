"""Tasks whose answer is text: translation and summaries, by sequence to sequence from two language
models. `from_lms` says what is taken from these; the model is in models/seq2seq.py.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from elmore.checkpoint.causal import causal_of, subwords_of
from elmore.checkpoint.sources import load
from elmore.errors import ConfigError, FormatError
from elmore.models.causal import CausalConfig
from elmore.nn.beam_search import SearchConfig
from elmore.nn.lstm import LSTMConfig
from elmore.tasks.encoded import Dims
from elmore.tasks.generation_config import GenerationConfig
from elmore.tasks.generation_head import GenerationHead, GenerationState, Output, tokens_of
from elmore.tasks.readers.texts import Text, read_sources, read_texts
from elmore.tasks.scorers.generated_text import bleu_score, lead, rouge_score
from elmore.tasks.task import Corpus, Score, Words
from elmore.text.subwords import BytePairs, Subwords


class Translate(GenerationConfig):
    """One text becomes another."""

    share_inputs: ClassVar = False

    kind: Literal["translate"] = "translate"

    def read(self, path: Path, *, training: bool = False) -> Corpus[Text]:
        return read_texts(path)

    def read_plain(self, path: Path) -> Corpus[Text]:
        return read_sources(path)

    def inputs(self, example: Text) -> Sequence[Words]:
        """Encoders need a word: a blank line, whose output is empty, has one that no one sees."""
        return (tokens_of(example.source) or (".",),)

    def start(self, examples: Sequence[Text]) -> GenerationState:
        start = self.started()
        source, target = (_language_model(lm) for lm in (self.source_lm, self.target_lm))
        if source is None or target is None:
            given = source or target
            subwords = given[1] if given else self._joint(examples)
            dim = given[0].dim if given else self.dim
            context = LSTMConfig(dim=dim, cell_dim=dim, n_layers=1, cell_clip=None, proj_clip=None)
            new = CausalConfig(n_pieces=len(subwords), context=context)
            source, target = (lm or (new, subwords, "") for lm in (source, target))
        if self.copy_source:
            _one_vocabulary(source[1], target[1])
        config = target[0]
        if start.decoder and not start.softmax:
            config = config.model_copy(update={"tied": False})  # only the softmax is new
        return GenerationState(
            source=source[0],
            target=config,
            source_files=_texts(source[1]),
            target_files=_texts(target[1]),
            fingerprints=(source[2], target[2]),
        )

    def _joint(self, examples: Sequence[Text]) -> Subwords:
        counts: Counter[str] = Counter()
        for example in examples:
            counts.update(example.source)
            counts.update(example.references[0].split())
        return BytePairs.trained(counts, self.vocabulary)

    def head(self, state: GenerationState, dims: Dims) -> GenerationHead:
        return GenerationHead(self, state, dims)

    def score(self, examples: Sequence[Text], predictions: Sequence[Output]) -> Score:
        outputs = [output.text for output in predictions]
        references = [example.references for example in examples]
        return bleu_score(outputs, references, self.bleu_tokenize, self.bleu_lowercase)

    def shown(self, example: Text, prediction: Output) -> dict[str, Any]:
        return {"source": " ".join(example.source), **prediction.shown()}


class Summarize(Translate):
    """A long text becomes a short one in the same language; pieces may be copied."""

    kind: Literal["summarize"] = "summarize"  # type: ignore[assignment]
    copy_source: bool = True
    longest_source: int = Field(default=400, ge=1)
    search: SearchConfig = SearchConfig(max_ratio=None, max_length=60, no_repeat=3)

    def score(self, examples: Sequence[Text], predictions: Sequence[Output]) -> Score:
        """ROUGE, and beside it that of the first words of each text."""
        references = [example.references for example in examples]
        found = rouge_score([output.text for output in predictions], references)
        words = [len(own[0].split()) for own in references]
        n = max(1, round(sum(words) / max(1, len(words))))
        first = rouge_score([lead(example.source, n) for example in examples], references)
        figures = " / ".join(f"{value:.2f}" for value in first.figures.values())
        note = f"the first {n} words of each text have ROUGE-1/2/L {figures}"
        return Score(found.figures, (*found.notes, note))


def lm_fingerprints(task: object) -> tuple[str, ...]:
    """Of the language models that a task is given; none for tasks of other kinds."""
    if not isinstance(task, GenerationConfig):
        return ()
    given = (task.source_lm, task.target_lm)
    return tuple(found[2] for lm in given if (found := _language_model(lm)) is not None)


def _language_model(source: str | None) -> tuple[CausalConfig, Subwords, str] | None:
    if source is None:
        return None
    checkpoint = load(source)
    try:
        config = causal_of(checkpoint).config
    except FormatError as error:
        raise ConfigError(f"{source}: {error}") from None
    if not config.has_state:
        raise ConfigError(f"{source}: a Transformer; expected a language model by an LSTM.")
    if config.backward:
        raise ConfigError(f"{source}: reads backward; expected a model that reads forward.")
    return config, subwords_of(checkpoint), checkpoint.fingerprint()


def _texts(subwords: Subwords) -> dict[str, str]:
    return {name: content.decode() for name, content in subwords.files().items()}


def _one_vocabulary(source: Subwords, target: Subwords) -> None:
    if source.files() != target.files():
        pieces = [{lm.piece(i) for i in range(len(lm))} for lm in (source, target)]
        n = len(pieces[0] & pieces[1])
        raise ConfigError(
            f"Copying needs one vocabulary, but the source's has {len(source):,} pieces and the "
            f"target's {len(target):,}, {n:,} of them the same; train one language model with "
            "--vocabulary of the other, or use --set task.copy_source=false."
        )
