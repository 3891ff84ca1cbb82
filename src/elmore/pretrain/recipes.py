"""Recipes: functions that return a whole config. A variant calls one and changes a field; a file of
your own works too: `--recipe my_runs.py:name`. Overrides `a.b=c` are strict.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from elmore.errors import ConfigError
from elmore.models.bert import BertConfig
from elmore.models.bilm import BiLMConfig
from elmore.models.causal import CausalConfig
from elmore.models.context2vec import Context2vecConfig
from elmore.nn.awd_lstm import AWDConfig
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.gpt import GPTConfig
from elmore.nn.lstm import LSTMConfig
from elmore.nn.softmax import SampledSoftmaxConfig
from elmore.nn.transformer import TransformerConfig
from elmore.pretrain.batches import RowsConfig, SentencesConfig
from elmore.pretrain.config import (
    AnyConfig,
    AutoencoderConfig,
    CausalRunConfig,
    Context2vecRunConfig,
    LinesConfig,
    MaskedConfig,
    PieceVocabularyConfig,
    PretrainConfig,
    SubwordConfig,
    VocabularyConfig,
)
from elmore.pretrain.masked_instances import InstancesConfig
from elmore.pretrain.sentences import ReadingConfig
from elmore.pretrain.static_config import GloveConfig, SgnsConfig
from elmore.train.loop import LoopConfig
from elmore.train.optimizer import AdagradConfig, AdamWConfig
from elmore.train.schedule import (
    CosineSchedule,
    LinearSchedule,
    NoamSchedule,
    OneCycleSchedule,
    SlantedSchedule,
)


def _published(dim: int, cell_dim: int, n_highway: int) -> PretrainConfig:
    """bilm-tf's training of the 2018 models, at the given size."""
    return PretrainConfig(
        model=BiLMConfig(
            words=CharCNNConfig(dim=dim, n_highway=n_highway),
            context=LSTMConfig(dim=dim, cell_dim=cell_dim, dropout=0.1),
        ),
        softmax=SampledSoftmaxConfig(n_samples=8192),
        batches=RowsConfig(rows=128, steps=20),
        loop=LoopConfig(
            optimizer=AdagradConfig(lr=0.2, initial_accumulator=1.0), clip=10.0, loss_scale=20.0
        ),
        epochs=10,
        output_dropout=0.1,
    )


def elmo_small() -> PretrainConfig:
    """2×1024, projected to 128: 13.6M parameters."""
    return _published(dim=128, cell_dim=1024, n_highway=1)


def elmo_medium() -> PretrainConfig:
    """2×2048, projected to 256: 28.0M parameters."""
    return _published(dim=256, cell_dim=2048, n_highway=1)


def elmo_original() -> PretrainConfig:
    """2×4096, projected to 512: 93.6M parameters."""
    return _published(dim=512, cell_dim=4096, n_highway=2)


def elmo_transformer() -> PretrainConfig:
    """AllenNLP's bidirectional_language_model.jsonnet."""
    return PretrainConfig(
        model=BiLMConfig(
            words=CharCNNConfig(dim=512, n_highway=2, layer_norm=True),
            context=TransformerConfig(
                dim=512, ff_dim=2048, n_layers=6, n_heads=8, dropout=0.1, input_dropout=0.1
            ),
        ),
        softmax=SampledSoftmaxConfig(n_samples=8192),
        batches=SentencesConfig(words=2000, max_words=400),
        vocabulary=VocabularyConfig(min_count=3),
        loop=LoopConfig(
            optimizer=AdamWConfig(lr=1.0), schedule=NoamSchedule(dim=512, warmup=6000), clip=None
        ),
        epochs=10,
        output_dropout=0.1,
    )


def elmo_laptop() -> PretrainConfig:
    """The best model for an hour on two cores: small filters, cosine to the end of the time."""
    return PretrainConfig(
        model=BiLMConfig(
            words=CharCNNConfig(
                dim=128, n_highway=1, filters=((1, 32), (2, 64), (3, 128), (4, 128), (5, 160))
            ),
            context=LSTMConfig(dim=128, cell_dim=512, dropout=0.1),
        ),
        softmax=SampledSoftmaxConfig(n_samples=2048),
        batches=SentencesConfig(words=1600, max_words=100),
        reading=ReadingConfig(buffer=20_000),
        vocabulary=VocabularyConfig(min_count=3, max_size=50_000),
        loop=LoopConfig(
            minutes=60,
            optimizer=AdamWConfig(lr=3e-3, betas=(0.9, 0.99), weight_decay=0.01),
            schedule=CosineSchedule(warmup=200),
            clip=1.0,
        ),
        softmax_start="static",
    )


def _bert(n_layers: int, dim: int) -> MaskedConfig:
    """The published sizes and settings: 256 rows of 128 pieces, a million steps."""
    return MaskedConfig(
        model=BertConfig(n_layers=n_layers, dim=dim, n_heads=dim // 64, ff_dim=4 * dim),
        vocabulary=PieceVocabularyConfig(size=30_522),
        loop=MaskedConfig().loop.model_copy(update={"steps": 1_000_000}),
    )


def bert_tiny() -> MaskedConfig:
    """2×128: 4.4M parameters."""
    return _bert(2, 128)


def bert_mini() -> MaskedConfig:
    """4×256: 11.2M parameters."""
    return _bert(4, 256)


def bert_small() -> MaskedConfig:
    """4×512: 28.8M parameters."""
    return _bert(4, 512)


def bert_medium() -> MaskedConfig:
    """8×512: 41.4M parameters."""
    return _bert(8, 512)


def bert_base() -> MaskedConfig:
    """12×768: 109.5M parameters."""
    return _bert(12, 768)


def bert_laptop() -> MaskedConfig:
    """For an hour or some hours on two cores: 4×256, 8,000 pieces, 5.4M parameters."""
    return MaskedConfig(
        model=BertConfig(
            n_layers=4, dim=256, n_heads=4, ff_dim=1024, dropout=0.0, attention_dropout=0.0
        ),
        instances=InstancesConfig(length=128),
        rows=32,
        table_start="static",
        attention_start="neighbors",
        vocabulary=PieceVocabularyConfig(size=8_000),
        loop=LoopConfig(
            minutes=60,
            optimizer=AdamWConfig(lr=1e-3, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01),
            schedule=LinearSchedule(warmup=0.05),
            clip=1.0,
        ),
    )


def _causal_lstm(dim: int, cell_dim: int, n_layers: int = 1, dropout: float = 0.1) -> CausalConfig:
    return CausalConfig(
        context=LSTMConfig(
            dim=dim, cell_dim=cell_dim, n_layers=n_layers, cell_clip=None, proj_clip=None,
            dropout=dropout,
        )
    )  # fmt: skip


def causal_original() -> CausalRunConfig:
    """The language model of "Unsupervised Pretraining for Sequence to Sequence Learning": 4096
    cells projected to 1024, one layer, a softmax of its own. Adam at 5e-5, as its later training
    has it; the paper does not say what the language model itself was trained with."""
    return CausalRunConfig(
        model=_causal_lstm(1024, 4096, dropout=0.2).model_copy(update={"tied": False}),
        batches=LinesConfig(pieces=6400, longest=600),
        vocabulary=SubwordConfig(size=90_000),
        loop=LoopConfig(optimizer=AdamWConfig(lr=5e-5), clip=5.0),
        epochs=10,
        output_dropout=0.2,
    )


def causal_laptop() -> CausalRunConfig:
    """For an hour on two cores: one layer of 512, 8,000 pieces."""
    return CausalRunConfig(
        model=_causal_lstm(512, 512),
        table_start="static",
        loop=CausalRunConfig().loop.model_copy(update={"minutes": 60.0}),
    )


def causal_transformer() -> CausalRunConfig:
    """A decoder-only Transformer for an hour on two cores: four blocks of 256."""
    return CausalRunConfig(
        model=CausalConfig(
            context=TransformerConfig(
                dim=256, ff_dim=1024, n_layers=4, n_heads=4, dropout=0.0, input_dropout=0.0,
                max_positions=1024,
            )
        ),
        loop=CausalRunConfig().loop.model_copy(update={"minutes": 60.0}),
    )  # fmt: skip


def gpt_laptop() -> CausalRunConfig:
    """A small GPT-2 for an hour on two cores: four blocks of 256. `elmore convert` writes it as a
    folder of Hugging Face."""
    return CausalRunConfig(
        model=_gpt(256, n_layers=4, n_heads=4, max_positions=512, dropout=0.0),
        batches=LinesConfig(pieces=2000, longest=200),
        attention_start="neighbors",
        loop=CausalRunConfig().loop.model_copy(update={"minutes": 60.0}),
        output_dropout=0.0,
    )


def gpt_base() -> CausalRunConfig:
    """The smallest GPT-2, trained as the first GPT was: 12 blocks of 768, 64 rows of 512 pieces, a
    cosine after 2,000 steps. Rows are lines here, and pieces in a batch as many."""
    return CausalRunConfig(
        model=_gpt(768, n_layers=12, n_heads=12, max_positions=1024, dropout=0.1),
        batches=LinesConfig(pieces=64 * 512, longest=511),
        vocabulary=SubwordConfig(size=40_000),
        loop=LoopConfig(
            optimizer=AdamWConfig(lr=2.5e-4, weight_decay=0.01),
            schedule=CosineSchedule(warmup=2000),
            clip=1.0,
        ),
        epochs=100,
        output_dropout=0.0,
    )


def _gpt(
    dim: int, *, n_layers: int, n_heads: int, max_positions: int, dropout: float
) -> CausalConfig:
    """As a GPT-2 folder can hold it: no biases in the softmax, no mark before a text."""
    context = GPTConfig(
        dim=dim, ff_dim=4 * dim, n_layers=n_layers, n_heads=n_heads, max_positions=max_positions,
        dropout=dropout, attention_dropout=dropout, input_dropout=dropout,
    )  # fmt: skip
    return CausalConfig(context=context, softmax_bias=False, mark=False)


def sgns() -> SgnsConfig:
    """Static vectors by skip-grams with negative samples, at gensim's defaults: 100 numbers."""
    return SgnsConfig()


def context2vec() -> Context2vecRunConfig:
    """The published sizes: words of 300 read, LSTMs of 600, vectors of 600; ten words drawn."""
    return Context2vecRunConfig()


def context2vec_laptop() -> Context2vecRunConfig:
    """The same for an hour on two cores: words of 128 read, LSTMs of 256, vectors of 256."""
    return Context2vecRunConfig(
        model=Context2vecConfig(word_dim=128, hidden=256, dim=256),
        vocabulary=VocabularyConfig(min_count=3, max_size=50_000),
        loop=LoopConfig(
            minutes=60,
            optimizer=AdamWConfig(lr=2e-3, betas=(0.9, 0.99)),
            schedule=LinearSchedule(warmup=0.02),
            clip=5.0,
        ),
        epochs=None,
    )


def glove() -> GloveConfig:
    """Static vectors by GloVe's counts, at its paper's settings: 100 numbers."""
    return GloveConfig()


_LINES = ReadingConfig(tokenize=True, lines="sentence")
"""Lines as the tasks read texts: split into words, each line by itself."""


def ulmfit() -> CausalRunConfig:
    """ULMFiT's AWD-LSTM for general text: 400, 1150, 1150, 400. The paper gives the sizes, and the
    settings of the later stages; the rate here is that of the next stage. Two differences: pieces
    are byte pairs, so that no word is unknown in any stage, and every line is read by itself."""
    return CausalRunConfig(
        model=CausalConfig(context=AWDConfig()),
        batches=LinesConfig(pieces=64 * 70, longest=400),
        reading=_LINES,
        vocabulary=SubwordConfig(size=30_000),
        loop=LoopConfig(
            optimizer=AdamWConfig(lr=4e-3, betas=(0.8, 0.99), weight_decay=1e-3),
            schedule=OneCycleSchedule(),
            clip=0.3,
        ),
        epochs=14,
        output_dropout=0.1,
        large_states=2.0,
        sudden_states=1.0,
    )


def ulmfit_tune() -> CausalRunConfig:
    """ULMFiT's second stage, for `--from` a model of `ulmfit` and the text of the task: a slanted
    triangle, and each layer 2.6 times slower than the one above."""
    return ulmfit().model_copy(
        update={
            "loop": LoopConfig(
                optimizer=AdamWConfig(lr=4e-3, betas=(0.7, 0.99), weight_decay=1e-7),
                schedule=SlantedSchedule(),
                clip=0.3,
            ),
            "floor_rate": 1 / 2.6,
            "epochs": 15,
        }
    )


def ulmfit_laptop() -> CausalRunConfig:
    """The same for an hour on two cores: 256, 512, 512, 256, 8,000 pieces, and little dropout,
    because an hour's text is hardly read twice."""
    awd = AWDConfig(
        dim=256, hidden_dim=512, input_dropout=0.05, embed_dropout=0.0, weight_dropout=0.1,
        hidden_dropout=0.05,
    )  # fmt: skip
    return CausalRunConfig(
        model=CausalConfig(context=awd),
        batches=LinesConfig(pieces=2000, longest=200),
        reading=_LINES,
        loop=LoopConfig(
            minutes=60,
            optimizer=AdamWConfig(lr=4e-3, betas=(0.9, 0.99), weight_decay=0.01),
            schedule=OneCycleSchedule(),
            clip=1.0,
        ),
        output_dropout=0.05,
    )


def sa_lstm() -> AutoencoderConfig:
    """The sequence autoencoder of "Semi-supervised Sequence Learning": one layer of 1024. Its table
    has 1024 columns instead of 512, as here the softmax is tied to it."""
    return AutoencoderConfig(
        model=_causal_lstm(1024, 1024, dropout=0.0),
        batches=LinesConfig(pieces=256 * 70, longest=400),
        reading=_LINES,
        vocabulary=SubwordConfig(size=30_000),
        loop=LoopConfig(optimizer=AdamWConfig(lr=1e-3), clip=1.0, steps=100_000),
    )


def sa_lstm_laptop() -> AutoencoderConfig:
    """The same for an hour on two cores: one layer of 512, 8,000 pieces."""
    return AutoencoderConfig(
        model=_causal_lstm(512, 512),
        reading=_LINES,
        loop=CausalRunConfig().loop.model_copy(update={"minutes": 60.0}),
    )


RECIPES: dict[str, Callable[[], AnyConfig]] = {
    "elmo-small": elmo_small,
    "elmo-medium": elmo_medium,
    "elmo-original": elmo_original,
    "elmo-transformer": elmo_transformer,
    "elmo-laptop": elmo_laptop,
    "bert-tiny": bert_tiny,
    "bert-mini": bert_mini,
    "bert-small": bert_small,
    "bert-medium": bert_medium,
    "bert-base": bert_base,
    "bert-laptop": bert_laptop,
    "causal-original": causal_original,
    "causal-laptop": causal_laptop,
    "causal-transformer": causal_transformer,
    "gpt-laptop": gpt_laptop,
    "gpt-base": gpt_base,
    "sgns": sgns,
    "glove": glove,
    "context2vec": context2vec,
    "context2vec-laptop": context2vec_laptop,
    "ulmfit": ulmfit,
    "ulmfit-tune": ulmfit_tune,
    "ulmfit-laptop": ulmfit_laptop,
    "sa-lstm": sa_lstm,
    "sa-lstm-laptop": sa_lstm_laptop,
}


def find_recipe(name: str) -> AnyConfig:
    """A recipe of ours by name, or `file.py:function`."""
    if name in RECIPES:
        return RECIPES[name]()
    file, _, function = name.rpartition(":")
    if not file.endswith(".py"):
        names = ", ".join(RECIPES)
        raise ConfigError(f"No recipe {name!r}; expected one of {names}, or my_runs.py:name.")
    config = _from_file(Path(file), function)
    kinds = (
        PretrainConfig, MaskedConfig, CausalRunConfig, SgnsConfig, GloveConfig,
        Context2vecRunConfig,
    )  # fmt: skip
    if not isinstance(config, kinds):
        expected = "one of " + ", ".join(kind.__name__ for kind in kinds)
        raise ConfigError(f"{name} returned a {type(config).__name__}; expected {expected}.")
    return config


def _from_file(path: Path, function: str) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise ConfigError(f"{path}: no such file; a recipe is written my_runs.py:name.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(getattr(module, function, None)):
        raise ConfigError(f"{path}: no function {function!r} there.")
    return getattr(module, function)()
