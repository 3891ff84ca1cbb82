"""A recipe of one's own, for `elmore pretrain … --recipe examples/tiny.py:tiny`: seconds to train,
and everything in it the real thing but the size."""

from elmore.models.bilm import BiLMConfig
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMConfig
from elmore.nn.softmax import FullSoftmaxConfig
from elmore.pretrain.batches import SentencesConfig
from elmore.pretrain.config import PretrainConfig, VocabularyConfig
from elmore.train.loop import LoopConfig
from elmore.train.optimizer import AdamWConfig
from elmore.train.schedule import CosineSchedule


def tiny() -> PretrainConfig:
    return PretrainConfig(
        model=BiLMConfig(
            words=CharCNNConfig(
                char_dim=8, filters=((1, 8), (2, 16), (3, 32)), n_highway=1, dim=32
            ),
            context=LSTMConfig(dim=32, cell_dim=64, dropout=0.1),
        ),
        softmax=FullSoftmaxConfig(),
        batches=SentencesConfig(words=600),
        vocabulary=VocabularyConfig(min_count=1),
        loop=LoopConfig(
            steps=120, optimizer=AdamWConfig(lr=1e-2), schedule=CosineSchedule(warmup=20), clip=1.0
        ),
    )
