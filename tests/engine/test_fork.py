"""A process that forks after vectors were computed: the child computes the same ones."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from elmore.embedder import Embedder

SCRIPT = """
import multiprocessing, sys
import numpy as np, torch
from elmore import Embedder

torch.set_num_threads(2)
elmo = Embedder.load(sys.argv[1])
sentences = [["My", "bank", "account"] * 20] * 64

def embed(_):
    torch.ones(2_000, 2_000).exp().sum()  # large enough for torch to take its threads
    return elmo.embed(sentences)[0].layers

expected = embed(None)
with multiprocessing.get_context("fork").Pool(2) as pool:
    for found in pool.map(embed, range(2)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
print("same")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork on Windows")
def test_a_child_forked_while_a_thread_embeds_does_not_wait_for_it(tiny_model: Path):
    elmo = Embedder.load(tiny_model, device="cpu")
    elmo.embed([["a"]])
    with elmo.runner._lock:  # as by another thread that is embedding now
        child = os.fork()
        if not child:
            signal.alarm(120)
            elmo.embed([["My", "bank"]])
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork on Windows")
def test_a_forked_child_embeds_too(tiny_model: Path):
    command = [sys.executable, "-c", SCRIPT, str(tiny_model)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "same\n", done.stderr
