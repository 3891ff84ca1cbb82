"""AllenNLP's side of the training benchmark: its LanguageModel over its character CNN, with its
Transformer or with its ElmoLstm (which it never trains itself), its sampled softmax, reader,
batch samplers and optimisers, unmodified. Runs in the environment of `peers.sh`.
"""

# AllenNLP is not installed where mypy runs.
# mypy: disable-error-code="import-not-found, misc"
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

import allennlp_shim  # noqa: F401  before anything of AllenNLP
import numpy as np
import torch
from allennlp.data import Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.data.samplers import BucketBatchSampler, MaxTokensBatchSampler
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer, SingleIdTokenIndexer
from allennlp.data.tokenizers import WhitespaceTokenizer
from allennlp.modules.elmo_lstm import ElmoLstm
from allennlp.modules.seq2seq_encoders import Seq2SeqEncoder
from allennlp.modules.seq2vec_encoders import CnnHighwayEncoder
from allennlp.modules.text_field_embedders import BasicTextFieldEmbedder
from allennlp.modules.token_embedders import Embedding, EmptyEmbedder, TokenCharactersEncoder
from allennlp.training.learning_rate_schedulers import NoamLR
from allennlp.training.optimizers import AdagradOptimizer, DenseSparseAdam
from allennlp_models.lm.dataset_readers import SimpleLanguageModelingDatasetReader
from allennlp_models.lm.models import LanguageModel
from allennlp_models.lm.modules.seq2seq_encoders import BidirectionalLanguageModelTransformer
from torch import Tensor
from train_child import Case, Job, Turns

_FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
_CLIP = 10.0


class LstmContext(Seq2SeqEncoder):
    """ElmoLstm in the place of a contextualizer: its top layer, at elmo-small's sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = ElmoLstm(
            input_size=128,
            hidden_size=128,
            cell_size=1024,
            num_layers=2,
            requires_grad=True,
            memory_cell_clip_value=3.0,
            state_projection_clip_value=3.0,
        )

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        layers: Tensor = self.lstm(inputs, mask)  # (L, B, T, 2P)
        return layers[-1]

    def get_input_dim(self) -> int:
        return 128

    def get_output_dim(self) -> int:
        return 256

    def is_bidirectional(self) -> bool:
        return True


def build(case: Case, vocabulary: Any) -> Any:
    """The model of the recipe's name, with the recipe's numbers."""
    lstm = case.recipe == "elmo-small"
    dim = 128 if lstm else 512
    spelling = CnnHighwayEncoder(
        embedding_dim=16,
        filters=_FILTERS,
        num_highway=1 if lstm else 2,
        projection_dim=dim,
        do_layer_norm=not lstm,
    )
    characters = Embedding(embedding_dim=16, num_embeddings=262)
    # The LSTM has no dropout on its input of its own
    spelled = TokenCharactersEncoder(characters, spelling, dropout=0.1 if lstm else 0.0)
    context = (
        LstmContext()
        if lstm
        else BidirectionalLanguageModelTransformer(
            input_dim=512, hidden_dim=2048, num_layers=6, dropout=0.1, input_dropout=0.1
        )
    )
    return LanguageModel(
        vocabulary,
        BasicTextFieldEmbedder({"tokens": EmptyEmbedder(), "token_characters": spelled}),
        context,
        dropout=0.1,
        num_samples=8192,
        sparse_embeddings=case.peer_sparse,
        bidirectional=True,
    )


def batches(job: Job, vocabulary: Any) -> Iterator[Any]:
    """Without end, each epoch anew; the sentences stay in memory, read and indexed once."""
    indexers = {"tokens": SingleIdTokenIndexer(), "token_characters": ELMoTokenCharactersIndexer()}
    reader = SimpleLanguageModelingDatasetReader(
        WhitespaceTokenizer(), indexers, 400, start_tokens=["<S>"], end_tokens=["</S>"]
    )
    path = str(job.folder / "sentences.txt")
    loader = MultiProcessDataLoader(reader, path, quiet=True, **batching(job.case))
    loader.index_with(vocabulary)
    while True:
        yield from loader


def batching(case: Case) -> dict[str, Any]:
    if case.peer_words is not None:
        return {"batch_sampler": MaxTokensBatchSampler(case.peer_words, sorting_keys=["source"])}
    if case.peer_sorted:
        return {"batch_sampler": BucketBatchSampler(case.peer_sentences, sorting_keys=["source"])}
    return {"batch_size": case.peer_sentences, "shuffle": True, "drop_last": True}


class Trainer:
    """A step as AllenNLP's own trainer takes it, without its bars and logs."""

    def __init__(self, job: Job):
        folder = job.folder / "allennlp-vocabulary"
        vocabulary = Vocabulary.from_files(str(folder))
        self.model = build(job.case, vocabulary).train()
        self.batches = batches(job, vocabulary)
        named = list(self.model.named_parameters())
        self.adagrad = job.case.recipe == "elmo-small"
        self.optimizer: Any
        self.schedule: Any = None
        if self.adagrad:
            self.optimizer = AdagradOptimizer(named, lr=0.2, initial_accumulator_value=1.0)
        else:
            self.optimizer = DenseSparseAdam(named, lr=1.0)
            self.schedule = NoamLR(self.optimizer, model_size=512, warmup_steps=6000)
        self.n_steps = 0

    def step(self) -> tuple[int, float, float]:
        """Words predicted, their mean loss, and the seconds it took to get the batch."""
        started = time.perf_counter()
        batch = next(self.batches)
        reading = time.perf_counter() - started
        self.optimizer.zero_grad()
        out = self.model(source=batch["source"])
        out["loss"].backward()
        if self.adagrad:
            clip(self.model.parameters())
        self.n_steps += 1
        if self.schedule is not None:
            self.schedule.step_batch(self.n_steps)
        self.optimizer.step()
        return int(out["batch_weight"]), out["loss"].item(), reading


def clip(parameters: Iterator[torch.nn.Parameter]) -> None:
    """AllenNLP's trainer calls torch's clip, which cannot take sparse gradients: they go free."""
    whole = [p for p in parameters if p.grad is not None and not p.grad.is_sparse]
    torch.nn.utils.clip_grad_norm_(whole, _CLIP)


def turn(trainer: Trainer, n_steps: int) -> tuple[int, float, float]:
    """Words, mean loss and seconds of reading, over some steps."""
    taken = [trainer.step() for _ in range(n_steps)]
    n_words = sum(words for words, _, _ in taken)
    loss = sum(words * loss for words, loss, _ in taken) / n_words
    return n_words, loss, sum(reading for _, _, reading in taken)


def main(job: Job) -> None:
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002  AllenNLP's sampler draws from it
    torch.manual_seed(1)
    trainer, turns = Trainer(job), Turns()
    turns.done(*turn(trainer, job.warm_up))
    while turns.wait():
        turns.done(*turn(trainer, job.steps))


if __name__ == "__main__":
    main(Job.read(sys.argv[1]))
