"""Every engine that can run here: PyTorch, and each compiled kernel the machine can execute."""

import torch

from elmore.checkpoint.checkpoint import Checkpoint
from elmore.engine.engine import Engine
from elmore.engine.kernel import Kernel, NoKernel, load_kernel
from elmore.engine.native_lstm import Precision
from elmore.kernel_files import kernel_paths
from elmore.models.layers import LayerStates
from elmore.nn.lstm import LSTMState
from elmore.text.batching import batch_words

KERNELS: dict[str, Kernel] = {
    name: kernel
    for name, path in kernel_paths().items()
    if path.is_file() and (kernel := load_kernel(name, path)) is not None
}
ENGINES = ["torch", *KERNELS]


def engine(checkpoint: Checkpoint, name: str, precision: Precision = "float32") -> Engine:
    kernel = KERNELS.get(name, NoKernel("PyTorch is asked for"))
    return Engine(checkpoint.model, checkpoint.speller(), precision=precision, kernel=kernel)


def by_module(
    checkpoint: Checkpoint, sentences: list[list[str]], state: LSTMState | None = None
) -> tuple[LayerStates, LSTMState | None]:
    """The model's own forward pass: what every engine must equal."""
    batch = batch_words(sentences, checkpoint.speller())
    tensors = [torch.from_numpy(a) for a in (batch.rows, batch.index, batch.lengths)]
    with torch.inference_mode():
        output = checkpoint.model(*tensors, state)
    return output.states.without_marks(), output.state
