"""simple_elmo's side of the embedding benchmark: its `ElmoModel`, unmodified, batches of 64
sentences, all layers. Runs in the TensorFlow environment of `peers.sh`, on the old Keras, without
which it does not start.
"""

# simple_elmo is not installed where mypy runs.
# mypy: disable-error-code="import-not-found, misc"
import json
import os
import sys
import time
from typing import Any

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # before TensorFlow
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
from embed_child import Job, take_turns
from numpy.typing import NDArray
from simple_elmo import ElmoModel

_BATCH = 64


def main(job: Job) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(job.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    start = time.perf_counter()
    model = ElmoModel()
    model.load(job.model, max_batch_size=_BATCH)
    model.get_elmo_vectors([["the"]], layers="all")  # with its warm-up, the state's, here only
    seconds = time.perf_counter() - start

    def embed(
        sentences: list[list[str]], options: dict[str, Any]
    ) -> list[NDArray[np.float32]] | None:
        order = list(range(len(sentences)))
        if options.get("sorted"):
            order.sort(key=lambda i: -len(sentences[i]))
        # One call: each makes a session of its own, and cuts its texts into batches itself.
        found = model.get_elmo_vectors([sentences[i] for i in order], warmup=False, layers="all")
        if not options.get("keep"):
            return None
        done: dict[int, NDArray[np.float32]] = {}
        for i, layers in zip(order, found, strict=True):  # (L, T, D), zeros after the end
            done[i] = np.asarray(layers[:, : len(sentences[i])], dtype=np.float32)
        return [done[i] for i in range(len(sentences))]

    take_turns(embed, job, seconds, {})


if __name__ == "__main__":
    main(Job(**json.loads(sys.argv[1])))
