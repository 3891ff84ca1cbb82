"""The objective of a sequence autoencoder (2015): write each line again from the state in which
reading it has ended. Encoder and decoder share their weights, so the folder of a run is a causal
model, which `lm:DIR+tune` takes. All but the model is as in objectives/causal.py.
"""

from pathlib import Path

from elmore.models.autoencoder import Autoencoder
from elmore.pretrain.config import Run
from elmore.pretrain.objectives import causal
from elmore.pretrain.objectives.causal import CausalObjective
from elmore.pretrain.objectives.causal import prepare as prepare
from elmore.pretrain.objectives.causal import resumed_config as resumed_config
from elmore.pretrain.objectives.causal import steps_per_epoch as steps_per_epoch
from elmore.train.world import World


def build(run: Run, folder: Path, world: World, newest: Path | None) -> CausalObjective:
    return causal.build(run, folder, world, newest, kind=Autoencoder)
