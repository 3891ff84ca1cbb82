"""Write tiny TensorFlow checkpoints, to test the reader that does without TensorFlow.

Run by hand in a throw-away environment (`pip install tensorflow-cpu`; last run with 2.21.0):
    python scripts/write_tensor_bundle.py tests/checkpoint/data/tf_bundle
writes `bilm` (the variables of a bilm-tf training run, in two data files), `dtypes` (one tensor of
each type) and `partitioned` (one tensor stored in slices). Every value follows from `wave`. With
`--blocks N` a fourth folder, `blocks`, of N variables makes the index long: TensorFlow starts a
second block after 256 KiB, around N = 12000; not for committing.
Give a relative folder: TensorFlow writes an absolute one into the `checkpoint` files.
"""

from __future__ import annotations

import argparse
import zlib
from pathlib import Path

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
STEP = 1234

LSTM = {"kernel": (6, 16), "bias": (16,), "projection/kernel": (4, 3)}
BILM_SHAPES: dict[str, tuple[int, ...]] = {
    "lm/char_embed": (261, 2),
    "lm/CNN/W_cnn_0": (1, 1, 2, 3),
    "lm/CNN/b_cnn_0": (3,),
    "lm/CNN/W_cnn_1": (1, 2, 2, 4),
    "lm/CNN/b_cnn_1": (4,),
    "lm/CNN_high_0/W_carry": (7, 7),
    "lm/CNN_high_0/b_carry": (7,),
    "lm/CNN_high_0/W_transform": (7, 7),
    "lm/CNN_high_0/b_transform": (7,),
    "lm/CNN_proj/W_proj": (7, 3),
    "lm/CNN_proj/b_proj": (3,),
    **{
        f"lm/RNN_{d}/rnn/multi_rnn_cell/cell_{layer}/lstm_cell/{part}": shape
        for d in (0, 1)
        for layer in (0, 1)
        for part, shape in LSTM.items()
    },
    "lm/softmax/W": (20, 3),
    "lm/softmax/b": (20,),
}
DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "bool", "string")


def wave(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Fixed values a name and a shape decide: sixty-fourths, exact in every float type."""
    start, step = divmod(zlib.crc32(name.encode()), 97)
    flat = np.arange(np.prod(shape, dtype=int)) * (step + 1) + start
    return (flat % 101 - 50).reshape(shape) / 64


def bilm_values() -> dict[str, np.ndarray]:
    values: dict[str, np.ndarray] = {"global_step": np.array(STEP, np.int64)}
    for name, shape in BILM_SHAPES.items():
        for full_name in (name, f"{name}/Adagrad"):
            values[full_name] = wave(full_name, shape).astype(np.float32)
    return values


def dtype_values() -> dict[str, tf.Tensor]:
    values = {name: tf.cast(wave(name, (3, 5)) * 64, name) for name in DTYPES if name != "string"}
    return values | {
        "string": tf.constant(["not", "numbers"]),
        "scalar": tf.constant(0.5),
        "empty": tf.zeros((0, 4)),
    }


def save(folder: Path, variables: list[tf.Variable], *, sharded: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with v1.Session(config=v1.ConfigProto(device_count={"CPU": 2})) as session:
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver(variables, sharded=sharded)
        saver.save(session, str(folder / "model.ckpt"), STEP, write_meta_graph=False)


def write_bilm(folder: Path) -> None:
    with tf.Graph().as_default():
        variables = []
        for name, value in bilm_values().items():
            with tf.device("/cpu:1" if "softmax" in name else "/cpu:0"):
                variables.append(v1.Variable(value, name=name, use_resource=False))
        save(folder, variables, sharded=True)


def write_dtypes(folder: Path) -> None:
    with tf.Graph().as_default():
        values = dtype_values()
        save(folder, [v1.Variable(value, name=name) for name, value in values.items()])


def write_partitioned(folder: Path) -> None:
    with tf.Graph().as_default():
        v1.get_variable(
            "table",
            shape=(6, 2),
            initializer=v1.zeros_initializer(),
            partitioner=v1.fixed_size_partitioner(3),
            use_resource=False,
        )
        save(folder, v1.global_variables())


def write_blocks(folder: Path, count: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"a/rather/long/variable/name/number_{n:06}" for n in range(count)]
    tf.raw_ops.SaveV2(
        prefix=str(folder / f"model.ckpt-{STEP}"),
        tensor_names=names,
        shape_and_slices=[""] * count,
        tensors=[tf.constant(wave(name, (2,)), tf.float32) for name in names],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Write tiny TensorFlow checkpoints for the tests.")
    parser.add_argument("folder", type=Path, help="where the folders go; made if absent")
    parser.add_argument("--blocks", type=int, default=0, help="variables in `blocks` (0: none)")
    args = parser.parse_args()
    write_bilm(args.folder / "bilm")
    write_dtypes(args.folder / "dtypes")
    write_partitioned(args.folder / "partitioned")
    if args.blocks:
        write_blocks(args.folder / "blocks", args.blocks)
    for path in sorted(args.folder.glob("*/*")):
        print(f"{path.stat().st_size:>9,}  {path}")


if __name__ == "__main__":
    main()
