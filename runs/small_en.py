"""The recipe of `small-en`, the English model that comes with the package. Each sentence is read by
itself, as it will be embedded. A word is read by a vector of its own and by its spelling: on so
little text, spelling alone takes far longer to learn what a word is about (docs/results.md).

Two runs: `small_en` starts from vectors counted from the corpus, `small_en_further` from where the
first one ended. Of the weights in the package, the first run was on Wikipedia alone, with words
and vectors counted from both texts.
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

DIM, VOCABULARY = 192, 30_000


def small_en() -> PretrainConfig:
    return PretrainConfig(
        model=BiLMConfig(
            words=WordCharConfig(
                characters=CharCNNConfig(
                    n_characters=160,
                    filters=((1, 32), (2, 32), (3, 64), (4, 64), (5, 64)),
                    n_highway=0,
                    max_characters=30,
                    dim=256,
                    project=False,
                ),
                n_words=VOCABULARY,
                word_dim=DIM,
                dim=DIM,
            ),
            context=LSTMConfig(dim=DIM, cell_dim=768),
        ),
        softmax=SampledSoftmaxConfig(n_samples=2048),
        batches=SentencesConfig(words=2048, max_words=80),
        reading=ReadingConfig(tokenize=True, buffer=20_000),
        vocabulary=VocabularyConfig(min_count=1, max_size=VOCABULARY),
        loop=LoopConfig(
            steps=3_848,
            optimizer=AdamWConfig(lr=3e-3, betas=(0.9, 0.99), weight_decay=0.01),
            schedule=CosineSchedule(warmup=200, floor=0.04),
            clip=1.0,
            checkpoint_minutes=5.0,
        ),
        output_dropout=0.0,
        softmax_start="static",
        valid_words=20_000,
    )


def small_en_further() -> PretrainConfig:
    """The same model, trained further: up to a lower rate, and down again."""
    first = small_en()
    loop = first.loop.model_copy(
        update={
            "steps": 4_400,
            "optimizer": AdamWConfig(lr=2e-3, betas=(0.9, 0.99), weight_decay=0.01),
            "schedule": CosineSchedule(warmup=100, floor=0.03),
        }
    )
    return first.model_copy(update={"loop": loop})
