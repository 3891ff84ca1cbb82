"""The recipe of `small-zh`, the Chinese model that comes with the package: simplified Chinese,
words found by jieba beforehand (runs/segment.py), each sentence read by itself. A word is read by a
vector of its own, which starts from counts of the corpus, and by its characters. A character that
is not among the 6,148 most frequent falls into a class.

Smaller than `small-en` (512 cells instead of 768, 128 dimensions instead of 192), so that a core
reads nearly twice as many words per hour (docs/results.md, "What a word of training costs").
"""

from elmore.models.bilm import BiLMConfig
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMConfig
from elmore.nn.softmax import SampledSoftmaxConfig
from elmore.nn.word_char import WordCharConfig
from elmore.pretrain.batches import SentencesConfig
from elmore.pretrain.config import PretrainConfig, VocabularyConfig
from elmore.pretrain.sentences import ReadingConfig
from elmore.train.loop import LoopConfig
from elmore.train.optimizer import AdamWConfig
from elmore.train.schedule import CosineSchedule

DIM, VOCABULARY = 128, 36_000


def small_zh() -> PretrainConfig:
    return PretrainConfig(
        model=BiLMConfig(
            words=WordCharConfig(
                characters=CharCNNConfig(
                    n_characters=6_250,
                    char_dim=32,
                    filters=((1, 64), (2, 96), (3, 64)),
                    n_highway=0,
                    max_characters=20,
                    dim=224,
                    project=False,
                ),
                n_words=VOCABULARY,
                word_dim=DIM,
                dim=DIM,
                classes=True,
            ),
            context=LSTMConfig(dim=DIM, cell_dim=512),
        ),
        softmax=SampledSoftmaxConfig(n_samples=2048),
        batches=SentencesConfig(words=2048, max_words=80),
        reading=ReadingConfig(as_is=True, buffer=20_000),
        vocabulary=VocabularyConfig(min_count=1, max_size=VOCABULARY),
        loop=LoopConfig(
            steps=4_053,
            optimizer=AdamWConfig(lr=3e-3, betas=(0.9, 0.99), weight_decay=0.01),
            schedule=CosineSchedule(warmup=200, floor=0.02),
            clip=1.0,
            checkpoint_minutes=5.0,
        ),
        output_dropout=0.0,
        softmax_start="static",
        valid_words=20_000,
    )
