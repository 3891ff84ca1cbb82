"""Two real processes over gloo: gradients of every kind add up, and two halves of a batch take the
step that the whole takes alone. One pair of processes works everything out; the tests look at it.
"""

import multiprocessing
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from elmore.checkpoint.checkpoint import TrainedOn
from elmore.models.bilm import BiLM
from elmore.models.language_model import LanguageModel
from elmore.nn.softmax import (
    AdaptiveSoftmaxConfig,
    FullSoftmaxConfig,
    SampledSoftmaxConfig,
    SoftmaxConfig,
    build_softmax,
)
from elmore.pretrain.batches import RowBatch, sentence_batch
from elmore.pretrain.objectives.bilm import BiLMObjective
from elmore.text.byte_reader import ByteReader
from elmore.text.vocabulary import Vocabulary
from elmore.train.loop import Loop, LoopConfig
from elmore.train.optimizer import AdagradConfig, AdamWConfig, OptimizerConfig
from elmore.train.run_folder import RunFolder
from elmore.train.world import World
from tests.pretrain.tiny_runs import LSTM, TRANSFORMER, loopback

WORDS = [f"w{i}" for i in range(25)]
VOCABULARY = Vocabulary(["<S>", "</S>", "<UNK>", *WORDS])
SPELLER = ByteReader(12)
STEPS, ROWS, T = 4, 4, 5
# An eps above rounding: Adam divides by it, and makes a whole step of a gradient that is rounding.
ADAMW = AdamWConfig(lr=1e-2, weight_decay=0.1, eps=1e-5)


@dataclass(frozen=True)
class Case:
    """One way to train, in whole batches or in halves."""

    batches: str
    softmax: SoftmaxConfig
    optimizer: OptimizerConfig
    softmax_first: int = 0


CASES = {
    "rows, sampled, Adagrad": Case("rows", SampledSoftmaxConfig(n_samples=6), AdagradConfig()),
    "rows, full, AdamW": Case("rows", FullSoftmaxConfig(), ADAMW),
    # Not AdamW: an attention's key bias has no gradient but rounding, which Adam would blow up.
    "sentences, sampled, Adagrad": Case(
        "sentences", SampledSoftmaxConfig(n_samples=6), AdagradConfig()
    ),
    "rows, adaptive, AdamW": Case(
        "rows", AdaptiveSoftmaxConfig(cutoffs=(4, 12), div_value=2.0), ADAMW
    ),
    "the softmax first": Case("rows", FullSoftmaxConfig(), ADAMW, softmax_first=STEPS),
}


class Given:
    """Batches made beforehand, of which each process takes its rows."""

    def __init__(self, kind: str, rank: int, n_ranks: int):
        rng, self.speller, self.batches = np.random.default_rng(0), SPELLER, []
        mine = slice(rank * ROWS // n_ranks, (rank + 1) * ROWS // n_ranks)
        for _ in range(STEPS):
            if kind == "rows":
                index = rng.integers(25, size=(2, T, ROWS))
                targets = rng.integers(28, size=(2, T, ROWS))
                self.batches.append(
                    RowBatch(SPELLER.spell(WORDS), index[..., mine], targets[..., mine])
                )
            else:
                lengths = rng.integers(1, 9, size=ROWS)
                text = [[WORDS[i] for i in rng.integers(25, size=n)] for n in lengths]
                self.batches.append(sentence_batch(text[mine], SPELLER, VOCABULARY))

    def __iter__(self) -> Any:
        return iter(self.batches)

    def state(self) -> None:
        return None


def trained(case: Case, folder: Path, world: World) -> dict[str, Tensor]:
    """The weights after all steps."""
    torch.manual_seed(3)
    config = LSTM if case.batches == "rows" else TRANSFORMER
    still = {"dropout": 0.0} | ({} if case.batches == "rows" else {"input_dropout": 0.0})
    config = config.model_copy(update={"context": config.context.model_copy(update=still)})
    model = LanguageModel(BiLM(config), build_softmax(case.softmax, len(VOCABULARY), 8))
    given: Any = Given(case.batches, world.rank, world.size)
    first = case.softmax_first
    read = TrainedOn(tokenize=False, carry_state=case.batches == "rows")
    objective = BiLMObjective(
        model, given, VOCABULARY, [], trained_on=read, softmax_first=first
    )  # fmt: skip
    folder.mkdir(exist_ok=True)
    loop = LoopConfig(steps=STEPS, optimizer=case.optimizer, clip=1.0)
    Loop(objective, loop, RunFolder(folder, keep=loop.keep), world).run()
    return {name: p.detach() for name, p in model.named_parameters()}


def gradients(world: World) -> list[Tensor]:
    """A whole tensor, rows, one that only the second process has, and one that none has."""
    whole, rows = nn.Parameter(torch.zeros(2, 3)), nn.Parameter(torch.zeros(6, 2))
    one, none = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(4))
    whole.grad = torch.full((2, 3), 1.0 + world.rank)
    places = torch.tensor([[[0, 2, 2]], [[2, 5, 1]]][world.rank])[:, : 3 - world.rank]
    values = torch.ones(places.shape[1], 2) * (10.0 ** (world.rank + 1))
    rows.grad = torch.sparse_coo_tensor(places, values, (6, 2), check_invariants=True)
    one.grad = torch.arange(4.0) if world.rank == 1 else None
    world.sum_gradients([whole, rows, one, none])
    assert none.grad is None
    return [p.grad.to_dense() for p in (whole, rows, one) if p.grad is not None]


def work(folder: Path, environment: dict[str, str]) -> None:
    """What each of the two processes does."""
    os.environ.update(environment)
    torch.set_num_threads(1)
    world = World()
    rank = world.rank
    found = {
        "gradients": gradients(world),
        "mean": world.mean(1.0 + 4.0 * rank, torch.device("cpu")),
        "gathered": world.gather({"rank": rank}),
        "trained": {name: trained(case, folder / name, world) for name, case in CASES.items()},
    }
    torch.save(found, folder / f"{rank}.pt")
    world.close()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the first and the second process have found."""
    folder = tmp_path_factory.mktemp("pair")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["elmore.pretrain.run", "torch.utils.tensorboard"])
    processes = [context.Process(target=work, args=(folder, e), daemon=True) for e in loopback(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=120)
        assert process.exitcode == 0
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


def test_gradients_add_up_over_processes(pair: list[dict[str, Any]]):
    for found in pair:
        whole, rows, one = found["gradients"]
        assert torch.equal(whole, torch.full((2, 3), 3.0))
        assert rows[:, 0].tolist() == [10.0, 0.0, 120.0, 0.0, 0.0, 100.0]
        assert torch.equal(one, torch.arange(4.0))


def test_means_are_the_same_everywhere_and_the_first_process_gathers(pair: list[dict[str, Any]]):
    assert [found["mean"] for found in pair] == [3.0, 3.0]
    assert pair[0]["gathered"] == [{"rank": 0}, {"rank": 1}]


@pytest.mark.parametrize("name", CASES)
def test_two_processes_at_half_the_batch_take_the_same_steps_as_one(
    name: str, pair: list[dict[str, Any]], tmp_path: Path
):
    alone = trained(CASES[name], tmp_path, World())
    for weight, expected in alone.items():
        first, second = (found["trained"][name][weight] for found in pair)
        assert torch.equal(first, second), f"{weight}: the processes have drifted apart"
        torch.testing.assert_close(first, expected, rtol=0, atol=1e-6)


def test_while_the_softmax_learns_first_nothing_else_moves_not_even_by_decay(
    pair: list[dict[str, Any]], tmp_path: Path
):
    torch.manual_seed(3)
    before = BiLM(LSTM).state_dict()
    after = pair[0]["trained"]["the softmax first"]
    for name, weight in before.items():
        assert torch.equal(after[f"bilm.{name}"], weight)


def test_a_world_of_one_is_the_identity():
    world = World()
    assert (world.size, world.rank, world.first) == (1, 0, True)
    assert world.sum([1.0, 2.0], torch.device("cpu")) == [1.0, 2.0]
    assert world.mean(7.0, torch.device("cpu")) == 7.0
    assert world.gather("it") == ["it"]
