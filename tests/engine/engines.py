"""Every engine that can run here: PyTorch, and each compiled kernel the machine can execute."""

import torch

from elmore.checkpoint.bilm import bilm_of
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.engine.kernel import Kernel, NoKernel, load_kernel
from elmore.engine.native_lstm import Precision
from elmore.engine.runner import Runner, runner_for
from elmore.kernel_files import kernel_paths
from elmore.models.bilm import without_marks
from elmore.models.layers import LayerStates
from elmore.nn.lstm import LSTMState

KERNELS: dict[str, Kernel] = {
    name: kernel
    for name, path in kernel_paths().items()
    if path.is_file() and (kernel := load_kernel(name, path)) is not None
}
ENGINES = ["torch", *KERNELS]


def engine(checkpoint: Checkpoint, name: str, precision: Precision = "float32") -> Runner:
    kernel = KERNELS.get(name, NoKernel("PyTorch is asked for"))
    return runner_for(
        checkpoint.model, checkpoint.need_reader(), precision=precision, kernel=kernel
    )


def by_module(
    checkpoint: Checkpoint, sentences: list[list[str]], state: LSTMState | None = None
) -> tuple[LayerStates, LSTMState | None]:
    """The model's own forward pass: what every engine must equal."""
    batch = checkpoint.need_reader().read(sentences)
    tensors = [torch.from_numpy(a) for a in (batch.spelled, batch.index, batch.lengths)]
    with torch.inference_mode():
        output = bilm_of(checkpoint).run(*tensors, state)
    return without_marks(output.states), output.state
