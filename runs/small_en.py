"""The recipe of `small-en`, the English model that is to come in the box: six million parameters
and some six hours on two cores. Sentences are read by themselves, as they will be embedded.
"""

from elmore.models.bilm import BiLMConfig
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMConfig
from elmore.nn.softmax import SampledSoftmaxConfig
from elmore.pretrain.batches import SentencesConfig
from elmore.pretrain.config import PretrainConfig, VocabularyConfig
from elmore.pretrain.sentences import ReadingConfig
from elmore.train.loop import LoopConfig
from elmore.train.optimizer import AdamWConfig
from elmore.train.schedule import CosineSchedule


def small_en() -> PretrainConfig:
    return PretrainConfig(
        model=BiLMConfig(
            words=CharCNNConfig(
                dim=192,
                n_highway=1,
                max_characters=30,
                filters=((1, 32), (2, 64), (3, 128), (4, 128), (5, 160)),
            ),
            context=LSTMConfig(dim=192, cell_dim=768),
        ),
        softmax=SampledSoftmaxConfig(n_samples=2048),
        batches=SentencesConfig(words=2048, max_words=80),
        reading=ReadingConfig(tokenize=True, buffer=20_000),
        vocabulary=VocabularyConfig(max_size=30_000),
        loop=LoopConfig(
            steps=16_000,
            optimizer=AdamWConfig(lr=3e-3, betas=(0.9, 0.99), weight_decay=0.01),
            schedule=CosineSchedule(warmup=200, floor=0.04),
            clip=1.0,
            checkpoint_minutes=5.0,
        ),
        output_dropout=0.0,
        softmax_start="static",
        valid_words=20_000,
    )
