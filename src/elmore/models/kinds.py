"""Which kinds of model there are: a config says its `kind`, and one `match` builds the model."""

from elmore.config import Frozen
from elmore.models.bert import Bert, BertConfig
from elmore.models.bilm import BiLM, BiLMConfig
from elmore.models.causal import Causal, CausalConfig
from elmore.models.context2vec import Context2vec, Context2vecConfig
from elmore.models.layers import LayerModel
from elmore.models.static_table import StaticConfig, StaticTable

ModelConfig = BiLMConfig | BertConfig | CausalConfig | StaticConfig | Context2vecConfig
"""A union by `kind`. Folders of version 1 name no kind: they are biLMs."""


def build(config: ModelConfig) -> LayerModel:
    """With fresh weights."""
    match config:
        case BiLMConfig():
            return BiLM(config)
        case BertConfig():
            return Bert(config)
        case CausalConfig():
            return Causal(config)
        case StaticConfig():
            return StaticTable(config)
        case Context2vecConfig():
            return Context2vec(config)


def identity(config: Frozen) -> bytes:
    """The config as a fingerprint sees it: without the `kind` of a biLM, new in version 2."""
    left_out = {"kind"} if isinstance(config, BiLMConfig) else None
    return config.model_dump_json(exclude=left_out).encode()
