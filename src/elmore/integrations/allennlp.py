"""A drop-in for code written against AllenNLP's ELMo: change the import line, keep the rest.
Signatures, defaults, shapes and the mixes' parameter names are AllenNLP's. One thing differs by
default: no state is kept from call to call, unless `stateful=True` asks for the old numbers.
"""

# B sentences, T words, C character ids per word, L layers with the context-free one, D vector dim
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor, nn

from elmore.dump.config import DumpConfig
from elmore.dump.dump import dump
from elmore.embedder import Embedder
from elmore.embedding import Embedding, Vectors
from elmore.errors import ConfigError, InputError
from elmore.integrations.allennlp_bilm import ElmoBiLm, refuse_url
from elmore.models.bilm import without_marks
from elmore.models.layers import LayerStates
from elmore.text.byte_reader import ByteReader

MAX_CHARACTERS = 50
_EPS = 1e-13  # what AllenNLP adds to a variance since 1.0


class ElmoOutput(TypedDict):
    """What `Elmo` returns: one tensor per mix, and which places are words."""

    elmo_representations: list[Tensor]  # (B, T, D) each
    mask: Tensor  # (B, T), bool


def batch_to_ids(batch: Iterable[Iterable[str]], *, max_characters: int = MAX_CHARACTERS) -> Tensor:
    """Words -> character ids (B, T, C), 0 where there is no word.

    `max_characters` is for the few models whose options do not say 50.
    """
    sentences = _word_lists(batch)
    speller = ByteReader(max_characters)
    longest = max((len(words) for words in sentences), default=0)
    ids = np.zeros((len(sentences), longest, max_characters), dtype=np.int64)  # (B, T, C)
    for row, words in zip(ids, sentences, strict=True):
        row[: len(words)] = speller.spell(words)
    return torch.from_numpy(ids)


class ScalarMix(nn.Module):
    """γ Σ softmax(w)_j h_j, each w_j a parameter of its own as in AllenNLP's checkpoints."""

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool = False,
        initial_scalar_parameters: Sequence[float] | None = None,
        trainable: bool = True,
    ):
        super().__init__()
        initial = [0.0] * mixture_size
        if initial_scalar_parameters is not None:
            initial = [float(w) for w in initial_scalar_parameters]
        if len(initial) != mixture_size:
            raise ConfigError(f"{len(initial)} mix weights given for {mixture_size} layers.")
        self.mixture_size = mixture_size
        self.do_layer_norm = do_layer_norm
        self.scalar_parameters = nn.ParameterList(
            nn.Parameter(torch.tensor([w]), requires_grad=trainable) for w in initial
        )
        self.gamma = nn.Parameter(torch.tensor([1.0]), requires_grad=trainable)

    def forward(self, tensors: Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """Tensors of one shape (..., D) -> their mix; `mask` (...) is for the layer norm alone."""
        if len(tensors) != self.mixture_size:
            raise ConfigError(f"{len(tensors)} tensors given to a mix of {self.mixture_size}.")
        if self.do_layer_norm:
            if mask is None:
                raise ConfigError("do_layer_norm=True needs the mask: call mix(tensors, mask).")
            tensors = [_normalize(tensor, mask.bool()) for tensor in tensors]
        weights = torch.softmax(torch.cat(list(self.scalar_parameters)), dim=0)  # (L,)
        mixed: Tensor = self.gamma * torch.tensordot(weights, torch.stack(list(tensors)), dims=1)
        return mixed  # (..., D)


class Elmo(nn.Module):
    """Character ids -> one or several mixes of the biLM's layers, from one pass.

    As AllenNLP's, with these notes:

    - `options_file` may be None where `weight_file` is anything `elmore.Embedder.load` takes.
    - `stateful=False` gives a sentence the same vectors whatever was read before. With True each
      row goes on from what the same row of the last batch left, as AllenNLP always did: for
      getting old numbers again.
    - `vocab_to_cache` saves no time here, since a batch's distinct words are spelled once anyway.
      Where `inputs` are given they are read, and `word_inputs` need only agree with them; with
      `inputs=None` the ids in `word_inputs` index `vocab_to_cache`, whose place 0 is padding.
    - `module`, instead of the two files, is anything that is called and answers as `ElmoBiLm`:
      (inputs, word_inputs) -> {"activations", "mask"}, `num_layers`, `get_output_dim()`.
    - In a state dict the mixes are named as AllenNLP's (`scalar_mix_0.gamma`, …); the biLM's
      tensors have elmore's names, under `_elmo_lstm.`.
    """

    def __init__(
        self,
        options_file: str | Path | None,
        weight_file: str | Path | None,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Sequence[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        module: nn.Module | None = None,
        *,
        stateful: bool = False,
    ):
        super().__init__()
        if num_output_representations < 1:
            raise ConfigError(
                f"num_output_representations is {num_output_representations}; expected 1 or more."
            )
        if (module is None) == (weight_file is None):
            raise ConfigError("Give Elmo a weight_file or a module: one of the two, not both.")
        if module is not None and (options_file is not None or vocab_to_cache or stateful):
            raise ConfigError("module comes with its own options, vocabulary and state: pass none.")
        self._elmo_lstm: Any = module
        if weight_file is not None:
            self._elmo_lstm = ElmoBiLm(
                options_file, weight_file, requires_grad, vocab_to_cache, stateful=stateful
            )
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._dropout = nn.Dropout(dropout)
        self._mix_names = [f"scalar_mix_{k}" for k in range(num_output_representations)]
        for name in self._mix_names:
            mix = ScalarMix(
                self._elmo_lstm.num_layers,
                do_layer_norm=do_layer_norm,
                initial_scalar_parameters=scalar_mix_parameters,
                trainable=scalar_mix_parameters is None,
            )
            self.add_module(name, mix)

    def get_output_dim(self) -> int:
        dim: int = self._elmo_lstm.get_output_dim()
        return dim

    def forward(self, inputs: Tensor | None, word_inputs: Tensor | None = None) -> ElmoOutput:
        """inputs (B, T, C); dimensions before these are folded into B and come back."""
        leading = _leading(inputs, word_inputs)
        output = self._elmo_lstm(_fold(inputs, 3), _fold(word_inputs, 2))
        layers, mask = output["activations"], output["mask"]
        # Normalized with the marks, as in the original; marks are dropped after that.
        mixed = torch.stack([getattr(self, name)(layers, mask) for name in self._mix_names])
        states = LayerStates(mixed, mask)
        if not self._keep_sentence_boundaries:
            states = without_marks(states)
        vectors = [self._dropout(mix) for mix in states.layers]
        return {
            "elmo_representations": [v.reshape(*leading, *v.shape[1:]) for v in vectors],
            "mask": states.mask.reshape(*leading, states.mask.shape[1]),
        }


class ElmoEmbedder:
    """Words in, NumPy layers out, one batch at a time.

    As AllenNLP's, but the two files must be named; `options_file` may be None where `weight_file`
    is anything `elmore.Embedder.load` takes. By default a sentence's vectors depend on that
    sentence alone. With `stateful=True` each row of a batch goes on from what the same row of the
    last batch left, as AllenNLP always did: for getting old numbers again.
    """

    def __init__(
        self,
        options_file: str | Path | None,
        weight_file: str | Path,
        cuda_device: int = -1,
        *,
        stateful: bool = False,
    ):
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
        sentences = _word_lists(batch)
        # The original does not run a batch without words, so the state of the rows stays.
        if self._run is None or not any(sentences):
            return self.embedder.embed(sentences)
        return self._run.embed(sentences)


def _normalize(tensor: Tensor, mask: Tensor) -> Tensor:
    """By one mean and one variance over every number of every real word of the batch."""
    kept = tensor[mask]  # (words, D)
    return (tensor - kept.mean()) / torch.sqrt(kept.var(correction=0) + _EPS)


def _leading(inputs: Tensor | None, word_inputs: Tensor | None) -> torch.Size:
    if inputs is not None:
        return inputs.shape[:-2]
    return torch.Size() if word_inputs is None else word_inputs.shape[:-1]


def _fold(tensor: Tensor | None, n_dims: int) -> Tensor | None:
    """Merge the first dimensions if there are more than `n_dims`."""
    if tensor is None or tensor.dim() <= n_dims:
        return tensor
    return tensor.reshape(-1, *tensor.shape[1 - n_dims :])


def _word_lists(batch: Iterable[Iterable[str]]) -> list[list[str]]:
    """The sentences as lists, or an error if they are not lists of words."""
    sentences: list[list[str]] = []
    for i, sentence in enumerate(batch):
        if isinstance(sentence, str):
            raise InputError(
                f"Sentence {i} is a string; expected a list of words: text.split(), or list(text) "
                "where each character is a word."
            )
        sentences.append(list(sentence))
        for j, word in enumerate(sentences[-1]):
            if not isinstance(word, str):
                kind = type(word).__name__
                raise InputError(f"Sentence {i}, word {j} is a {kind}; expected a string.")
    return sentences
