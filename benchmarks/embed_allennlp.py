"""AllenNLP's side of the embedding benchmark: its `_ElmoBiLm`, unmodified, used as its
ElmoEmbedder did: batches of 64 sentences, all layers, marks removed. Runs in the environment of
`peers.sh`.
"""

# AllenNLP is not installed where mypy runs.
# mypy: disable-error-code="import-not-found, misc"
import json
import sys
import time
from typing import Any

import allennlp_shim  # noqa: F401  before anything of AllenNLP
import numpy as np
import torch
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids
from allennlp.nn.util import remove_sentence_boundaries
from embed_child import Job, take_turns
from numpy.typing import NDArray

_BATCH = 64


def main(job: Job) -> None:
    torch.set_num_threads(job.threads)
    start = time.perf_counter()
    bilm = _ElmoBiLm(f"{job.model}/options.json", f"{job.model}/weights.hdf5").eval()
    seconds = time.perf_counter() - start

    def embed(
        sentences: list[list[str]], options: dict[str, Any]
    ) -> list[NDArray[np.float32]] | None:
        bilm._elmo_lstm.stateful = not options.get("stateless", False)
        order = list(range(len(sentences)))
        if options.get("sorted"):
            order.sort(key=lambda i: -len(sentences[i]))
        done: dict[int, NDArray[np.float32]] = {}
        for first in range(0, len(order), _BATCH):
            batch = order[first : first + _BATCH]
            found = _embed(bilm, [sentences[i] for i in batch])
            if options.get("keep"):
                done.update(zip(batch, found, strict=True))
        return [done[i] for i in range(len(sentences))] if done else None

    take_turns(embed, job, seconds, {})


def _embed(bilm: Any, sentences: list[list[str]]) -> list[NDArray[np.float32]]:
    with torch.no_grad():
        output = bilm(batch_to_ids(sentences))
        layers = [
            remove_sentence_boundaries(layer, output["mask"])[0] for layer in output["activations"]
        ]
        stacked = torch.stack(layers, dim=1).numpy()  # (B, L, T, D)
    return [stacked[i, :, : len(words)].copy() for i, words in enumerate(sentences)]


if __name__ == "__main__":
    main(Job(**json.loads(sys.argv[1])))
