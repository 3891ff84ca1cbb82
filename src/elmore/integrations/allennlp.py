"""A drop-in for code written against AllenNLP's ELMo: change the import line, keep the rest.
Signatures, defaults, shapes and names in state dicts are AllenNLP's. One thing differs by default:
no state is kept from call to call, unless `stateful=True` asks for the old numbers.
"""

# B sentences, T words, L layers with the context-free one, D vector dim
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from torch import Tensor

from elmore.dump.config import DumpConfig
from elmore.dump.dump import dump
from elmore.embedder import Embedder
from elmore.embedding import Embedding, Vectors
from elmore.errors import ConfigError, ElmoreError, InputError
from elmore.integrations.allennlp_bilm import CharacterEncoder, ElmoBiLm, load_bilm, refuse_url
from elmore.integrations.allennlp_elmo import Elmo, ElmoOutput, ScalarMix
from elmore.integrations.allennlp_embedders import (
    BidirectionalLanguageModelTokenEmbedder,
    ElmoTokenEmbedder,
    remove_sentence_boundaries,
)
from elmore.integrations.allennlp_text import (
    ELMoTokenCharactersIndexer,
    batch_to_ids,
    word_lists,
)
from elmore.models.layers import LayerStates

__all__ = [
    "BidirectionalLanguageModelTokenEmbedder",
    "ConfigurationError",
    "ELMoTokenCharactersIndexer",
    "Elmo",
    "ElmoBiLm",
    "ElmoEmbedder",
    "ElmoOutput",
    "ElmoTokenEmbedder",
    "ScalarMix",
    "batch_to_ids",
    "remove_sentence_boundaries",
]

_ElmoBiLm = ElmoBiLm
ConfigurationError = ElmoreError
"""AllenNLP's name of what its code catches: here every error that elmore raises on purpose."""


class _ElmoCharacterEncoder(CharacterEncoder):
    """The part of a model that spells words, from its files."""

    def __init__(
        self,
        options_file: str | Path | None,
        weight_file: str | Path,
        requires_grad: bool = False,
    ):
        super().__init__(load_bilm(options_file, weight_file))
        self.words.requires_grad_(requires_grad)


class ElmoEmbedder:
    """Words in, NumPy layers out, one batch at a time.

    As AllenNLP's, but the model must be named: `options_file` may be None where `weight_file` is
    anything `elmore.Embedder.load` takes, such as "elmo-original". By default a sentence's
    vectors depend on that sentence alone. With `stateful=True` each row of a batch goes on from
    what the same row of the last batch left, as AllenNLP always did: for getting old numbers again.
    """

    def __init__(
        self,
        options_file: str | Path | None = None,
        weight_file: str | Path | None = None,
        cuda_device: int = -1,
        *,
        stateful: bool = False,
    ):
        if weight_file is None:
            raise ConfigError(
                "ElmoEmbedder() of AllenNLP chose a model by itself; here it must be named. Write "
                "ElmoEmbedder(None, 'elmo-original') for the same model (downloaded once), "
                "ElmoEmbedder(None, 'small-en') for the model that is in elmore, or two paths."
            )
        refuse_url(options_file, weight_file)
        device = "cpu" if cuda_device < 0 else f"cuda:{cuda_device}"
        self.embedder = Embedder.load(weight_file, options=options_file, device=device)
        self._run = self.embedder.stateful() if stateful else None

    def batch_to_embeddings(self, batch: Iterable[Iterable[str]]) -> tuple[Tensor, Tensor]:
        """All layers (B, L, T, D), zero where there is no word, and the mask (B, T)."""
        embedder, found = self.embedder, self.embed_batch(batch)
        states = LayerStates.padded(found, embedder.n_layers, embedder.dim)
        layers = states.layers.transpose(0, 1).contiguous()
        return layers.to(embedder.device), states.mask.to(embedder.device)

    def embed_sentence(self, sentence: Iterable[str]) -> Vectors:
        """One sentence -> (L, n, D)."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Iterable[Iterable[str]]) -> list[Vectors]:
        """(L, n, D) for each sentence; an empty one has n = 0."""
        return [e.layers for e in self._embed(batch)]

    def embed_sentences(
        self, sentences: Iterable[Iterable[str]], batch_size: int = 64
    ) -> Iterator[Vectors]:
        """The same one after another, in order, never more than a batch ahead of the reader."""
        source = iter(sentences)
        while batch := list(islice(source, batch_size)):
            yield from self.embed_batch(batch)

    def embed_file(
        self,
        input_file: Iterable[str],
        output_file_path: str | Path,
        output_format: str = "all",
        batch_size: int = 64,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """One sentence per line, words split by spaces -> a new HDF5 file in AllenNLP's layout.

        A blank line has no words, where AllenNLP stopped. `batch_size` matters only to a
        stateful embedder; the rows of a file start without state.
        """
        if isinstance(input_file, str | Path):
            raise InputError(f"input_file is a name; expected the open file: open({input_file!r}).")
        config = DumpConfig(
            layers=output_format,
            stateful=self._run is not None,
            batch_sentences=batch_size,
            forget_sentences=forget_sentences,
            use_sentence_keys=use_sentence_keys,
        )
        dump(self.embedder, (line.strip() for line in input_file), output_file_path, config)

    def _embed(self, batch: Iterable[Iterable[str]]) -> list[Embedding]:
        sentences = word_lists(batch)
        # The original does not run a batch without words, so the state of the rows stays.
        if self._run is None or not any(sentences):
            return self.embedder.embed(sentences)
        return self._run.embed(sentences)
