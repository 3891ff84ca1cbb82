"""A step of BERT's pretraining beside transformers' BertForPreTraining in a plain PyTorch loop with
AdamW: the same batches, sizes and rates, no dropout, turns taken one after the other in one run.
Writes results/bert_train.json and results/bert_train.md; --write-docs copies the table into
docs/performance.md.

    python benchmarks/bert_train.py --text FILE       # a sentence a line, blank lines between texts
"""

import argparse
import json
import os
import pickle
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from bert import write_docs
from bert_train_child import SIDES
from embed import Child
from embed_child import Job
from train import machine

from elmore.pretrain.config import Asked
from elmore.pretrain.masked_batches import MaskedBatches
from elmore.pretrain.masked_instances import Marks
from elmore.pretrain.objectives.masked import CORPUS, TOKENIZER, prepare
from elmore.pretrain.piece_corpus import PieceCorpus
from elmore.pretrain.recipes import RECIPES
from elmore.pretrain.sentences import count_words

HERE = Path(__file__).resolve().parent
MARKS = ("<!-- bert training: begin -->", "<!-- bert training: end -->")
