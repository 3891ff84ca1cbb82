"""The Penn Treebank recipe: a small character biLM against the 92.3 of the 2016 character-CNN LSTM.

Rows read runs of 200 consecutive sentences, because that figure too is of one continuous text.
"""

from elmore.models.bilm import BiLMConfig
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMConfig
from elmore.nn.softmax import SampledSoftmaxConfig
from elmore.pretrain.batches import RowsConfig
from elmore.pretrain.config import PretrainConfig, VocabularyConfig
from elmore.pretrain.sentences import ReadingConfig
from elmore.train.loop import LoopConfig
from elmore.train.optimizer import AdamWConfig
from elmore.train.schedule import CosineSchedule


def ptb() -> PretrainConfig:
    return PretrainConfig(
        model=BiLMConfig(
            words=CharCNNConfig(
                dim=256,
                n_highway=1,
                max_characters=24,
                filters=((1, 32), (2, 64), (3, 96), (4, 128), (5, 128), (6, 128)),
            ),
            context=LSTMConfig(dim=256, cell_dim=640, dropout=0.3),
        ),
        softmax=SampledSoftmaxConfig(n_samples=2000),
        batches=RowsConfig(rows=48, steps=24, forget=0.05),
        reading=ReadingConfig(block=200, buffer=1000),
        vocabulary=VocabularyConfig(min_count=1),
        loop=LoopConfig(
            optimizer=AdamWConfig(lr=2.5e-3, betas=(0.9, 0.99), weight_decay=0.05),
            schedule=CosineSchedule(warmup=300, floor=0.01),
            clip=0.5,
            checkpoint_minutes=4.0,
            valid_steps=420,
        ),
        epochs=8,
        output_dropout=0.3,
        softmax_start="static",
        valid_words=None,
    )
