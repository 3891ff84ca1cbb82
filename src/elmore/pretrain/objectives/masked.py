"""BERT's objective: predict masked pieces from all the others of their row, and whether the second
text of a row follows the first. `prepare` and `build` are what `pretrain/run.py` asks for.
"""

# N positions of all rows, R rows, M places to predict
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmore.checkpoint.bert import bert_checkpoint, bert_of, write_bert_files
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.sources import load
from elmore.checkpoint.wordpiece import read_vocabulary, read_wordpiece
from elmore.errors import ConfigError, InputError
from elmore.files.atomic import atomic_folder, remove
from elmore.models.bert import MASKED, NEXT, Bert, MaskedHead, next_head
from elmore.models.masked_model import MaskedLoss, MaskedModel, masked_loss
from elmore.nn.post_norm import RowAttention
from elmore.pretrain.config import Asked, MaskedConfig, Run, masked_config, rounding
from elmore.pretrain.masked_batches import MaskedBatch, MaskedBatches
from elmore.pretrain.masked_instances import Marks
from elmore.pretrain.neighbor_start import both_sides, look_at_neighbors
from elmore.pretrain.piece_corpus import PieceCorpus, write_texts
from elmore.pretrain.piece_start import start_table, write_piece_start
from elmore.pretrain.sentences import Counts
from elmore.text.piece_reader import PieceReader
from elmore.text.train_wordpiece import train_wordpiece
from elmore.text.wordpiece import VOCABULARY, WordPiece, WordPieceConfig
from elmore.train.loop import Loss, seed_step
from elmore.train.optimizer import Group, by_decay
from elmore.train.precision import Rounding, products_in
from elmore.train.world import World

TOKENIZER, CORPUS, VALID = "tokenizer", "pieces", "valid"
"""Folders of a run: the files of the tokenizer, and the texts as piece ids."""
_MUCH = 0.01
_VALID_SEED = 0  # held-out text is masked the same way every time


def prepare(
    asked: Asked, files: list[Path], counts: Counts, steps: int | None
) -> tuple[MaskedConfig, list[str]]:
    """The tokenizer, and the corpus as piece ids."""
    config, folder = masked_config(asked), asked.output
    source = None if asked.source is None else load(asked.source, heads=True)
    wordpiece = _wordpiece(asked, config, counts, source)
    config = _trained_config(config, len(wordpiece), source)
    texts = {CORPUS: files, VALID: [] if asked.valid is None else [asked.valid]}
    folder.mkdir(parents=True, exist_ok=True)
    remove(folder / TOKENIZER)  # of a run that ended before its first checkpoint
    with atomic_folder(folder / TOKENIZER) as beside:
        for name, content in wordpiece.files(config.model.max_positions).items():
            (beside / name).write_bytes(content)
    write_texts(asked, texts, wordpiece.pieces)
    corpus = PieceCorpus(folder / CORPUS)
    notes = _notes(wordpiece, corpus, config)
    if source is None and config.table_start == "static":
        shape = config.model.n_pieces, config.model.dim
        notes += write_piece_start(folder, corpus, shape, config.loop.seed)
    return config, notes


def _wordpiece(
    asked: Asked, config: MaskedConfig, counts: Counts, source: Checkpoint | None
) -> WordPiece:
    """The source's own, one with the vocabulary of a file, or one made from the corpus."""
    if source is not None:
        if asked.vocabulary is not None:
            raise ConfigError(f"{asked.source} has a vocabulary of its own; leave --vocabulary.")
        assert isinstance(source.reader, PieceReader)
        return source.reader.wordpiece
    wanted = config.vocabulary
    settings = WordPieceConfig(lowercase=wanted.lowercase)
    if asked.vocabulary is not None:
        return WordPiece(read_vocabulary(asked.vocabulary), settings)
    found = train_wordpiece(
        _plain_words(counts, settings),
        wanted.size,
        settings.marks,
        min_count=wanted.min_count,
        max_alphabet=wanted.max_alphabet,
    )
    if len(found) <= len(settings.marks):
        raise InputError("The corpus has no word from which a vocabulary could be made.")
    return WordPiece(found, settings)


def _plain_words(counts: Counts, settings: WordPieceConfig) -> Counter[str]:
    """Counts of what is left of words when they are cleaned and split at punctuation."""
    tokenizer = WordPiece(settings.marks, settings).tokenizer
    plain: Counter[str] = Counter()
    for word, n in counts.words.items():
        clean = tokenizer.normalizer.normalize_str(word)
        for part, _ in tokenizer.pre_tokenizer.pre_tokenize_str(clean):
            if len(part) <= settings.max_characters:
                plain[part] += n
    return plain


def _trained_config(config: MaskedConfig, n_pieces: int, source: Checkpoint | None) -> MaskedConfig:
    """With the sizes of the source or of the vocabulary."""
    model = config.model.model_copy(update={"n_pieces": n_pieces})
    if source is not None:
        drop = {"dropout": model.dropout, "attention_dropout": model.attention_dropout}
        model = bert_of(source).config.model_copy(update=drop)
        if config.instances.next_sentence and not (model.pooler and model.n_segments > 1):
            raise ConfigError(
                "The model to start from has no pooler or only one segment; add "
                "--set instances.next_sentence=false."
            )
    if config.instances.length > model.max_positions:
        raise ConfigError(
            f"instances.length is {config.instances.length}, but the model has "
            f"{model.max_positions} positions."
        )
    return config.model_copy(update={"model": model})


def _notes(wordpiece: WordPiece, corpus: PieceCorpus, config: MaskedConfig) -> list[str]:
    notes = [f"{corpus.n_pieces:,} pieces in {len(corpus):,} documents, {len(wordpiece):,} kinds."]
    if len(corpus) == 1 and config.instances.next_sentence:
        notes.append(
            "The corpus is one document, so random second texts are from the same one; expected "
            "blank lines between documents."
        )
    unknown = corpus.counts(len(wordpiece))[wordpiece.unknown] / max(1, corpus.n_pieces)
    if unknown > _MUCH:
        notes.append(
            f"{unknown:.1%} of the pieces are unknown ([UNK]): the vocabulary does not fit. "
            "A new run with --set vocabulary.max_alphabet=6000 knows more characters (Chinese)."
        )
    return notes


def resumed_config(run: Run, asked: Asked) -> MaskedConfig:
    """The model's sizes and its start are the run's; a vocabulary that is given must be too."""
    config, kept = masked_config(asked), asked.output / TOKENIZER / VOCABULARY
    if asked.vocabulary is not None and read_vocabulary(asked.vocabulary) != read_vocabulary(kept):
        raise ConfigError(f"{asked.vocabulary}: not the vocabulary of {asked.output}; omit it.")
    was, now = masked_config(run), config.model
    if run.source is not None:
        drop = {"dropout": now.dropout, "attention_dropout": now.attention_dropout}
        now = was.model.model_copy(update=drop)
    else:
        now = now.model_copy(update={"n_pieces": was.model.n_pieces})
    starts = {"table_start": was.table_start, "attention_start": was.attention_start}
    return config.model_copy(update={"model": now, **starts})


def steps_per_epoch(run: Run) -> float:
    """About: how many pieces a word has is not known before the run."""
    config = masked_config(run)
    return 1.3 * run.words / (config.rows * config.instances.length)


def build(run: Run, folder: Path, world: World, newest: Path | None) -> "MaskedObjective":
    config = masked_config(run)
    torch.manual_seed(config.loop.seed)  # every process begins with the same numbers
    wordpiece, _ = read_wordpiece(folder / TOKENIZER, config.model.n_pieces)
    at = newest or run.source
    model = _start(config, None if at is None else load(at, heads=True))
    if at is None and config.table_start == "static":
        start_table(model.bert.embed.pieces.weight, model.masked.bias, folder)
    if at is None and config.attention_start == "neighbors":
        embed, sides = model.bert.embed, both_sides(config.model.n_heads)
        attention = model.bert.blocks[0].attention
        assert isinstance(attention, RowAttention)
        look_at_neighbors(embed.positions, embed.pieces, attention.qkv, sides)
    for p in model.parameters():
        p.data = p.data.clone()  # not mapped from a file
    marks = marks_of(wordpiece, config.model.n_pieces)
    return MaskedObjective(
        model.requires_grad_(True).train().to(world.device()),
        MaskedBatches(
            PieceCorpus(folder / CORPUS),
            config.instances,
            marks,
            config.rows,
            seed=config.loop.seed,
            rank=world.rank,
            n_ranks=world.size,
        ),
        wordpiece,
        held_out(folder / VALID, config, marks) if run.valid else [],
        precision=rounding(run),
        seed=config.loop.seed,
        rank=world.rank,
    )


def _start(config: MaskedConfig, source: Checkpoint | None) -> MaskedModel:
    """New weights, or those of a checkpoint; a head that it lacks is new."""
    bert = Bert(config.model)
    heads = {} if source is None else source.heads
    if source is not None:
        bert.load_state_dict(bert_of(source).state_dict())
    masked = heads.get(MASKED, MaskedHead(config.model))
    following = heads.get(NEXT, next_head(config.model)) if config.instances.next_sentence else None
    assert isinstance(masked, MaskedHead)
    assert following is None or isinstance(following, nn.Linear)
    return MaskedModel(bert, masked, following)


def marks_of(wordpiece: WordPiece, n_pieces: int) -> Marks:
    """For a model that may have more pieces than the vocabulary."""
    continues = np.array([piece.startswith("##") for piece in wordpiece.vocabulary])
    continues = np.pad(continues, (0, n_pieces - len(continues)))
    return Marks(wordpiece.begin, wordpiece.end, wordpiece.mask, continues)


def held_out(folder: Path, config: MaskedConfig, marks: Marks) -> list[MaskedBatch]:
    """The first rows of one pass, masked once and for all."""
    corpus = PieceCorpus(folder)
    batches = MaskedBatches(corpus, config.instances, marks, config.rows, seed=_VALID_SEED)
    found: list[MaskedBatch] = []
    for batch in batches:
        if batches.epoch or sum(len(b.lengths) for b in found) >= config.valid_rows:
            break
        found.append(batch)
    return found


class MaskedObjective:
    """The mean loss of the masked pieces plus that of the pairs, as in the original."""

    higher_is_better = False  # the loss of the masked pieces

    def __init__(
        self,
        model: MaskedModel,
        batches: MaskedBatches,
        wordpiece: WordPiece,
        valid: list[MaskedBatch],
        *,
        precision: Rounding = "float32",
        seed: int = 1,
        rank: int = 0,
    ):
        self.module: nn.Module = model
        self.model, self.batches, self.wordpiece, self.valid = model, batches, wordpiece, valid
        self.device = next(model.parameters()).device
        self.precision, self.seed, self.rank = precision, seed, rank
        self._next = iter(batches)

    def groups(self) -> list[Group]:
        return by_decay(self.module, list(self.module.parameters()))

    def begin(self, step: int, done: float) -> None:
        seed_step(self.seed, step, self.rank)

    def next_loss(self, rng: np.random.Generator) -> Loss:
        batch = next(self._next)
        found, count = self._loss(batch), len(batch.targets)
        weight = count / len(batch.lengths)  # so that the mean over places has the mean over rows
        parts = {"mlm": found.pieces.item(), "mlm_accuracy": float(found.right_pieces)}
        total = found.pieces
        if found.following is not None:
            total = total + weight * found.following
            parts["nsp"] = weight * found.following.item()
            parts["nsp_accuracy"] = weight * found.right_following
        return Loss(total, count, parts)

    def _loss(self, batch: MaskedBatch) -> MaskedLoss:
        ids, segments, begins, places, targets, random_next = self._tensors(
            batch.ids, batch.segments, batch.begins, batch.places, batch.targets, batch.random_next
        )
        with products_in(self.precision, self.device):
            predicted = self.model(ids, segments, batch.lengths, begins, places)
        return masked_loss(predicted, targets, random_next)

    def _tensors(self, *arrays: Any) -> list[Tensor]:
        return [torch.from_numpy(array).to(self.device) for array in arrays]

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        if not self.valid:
            return {}
        sums = dict.fromkeys(("mlm", "mlm_accuracy"), 0.0)
        if self.model.following is not None:
            sums |= dict.fromkeys(("nsp", "nsp_accuracy"), 0.0)
        for batch in self.valid:
            found = self._loss(batch)
            sums["mlm"] += found.pieces.item()
            sums["mlm_accuracy"] += found.right_pieces
            if found.following is not None:
                sums["nsp"] += found.following.item()
                sums["nsp_accuracy"] += found.right_following
        n_places = sum(len(batch.targets) for batch in self.valid)
        n_rows = sum(len(batch.lengths) for batch in self.valid)
        return {k: v / (n_places if k.startswith("mlm") else n_rows) for k, v in sums.items()}

    def untrained(self) -> str | None:
        return None

    def state(self) -> Any:
        return self.batches.state()

    def restore(self, state: Any) -> None:
        self.batches.restore(state)
        self._next = iter(self.batches)

    def save(self, folder: Path) -> None:
        model = self.model
        heads: dict[str, nn.Module] = {MASKED: model.masked}
        if model.following is not None:
            heads[NEXT] = model.following
        write_bert_files(bert_checkpoint(model.bert, self.wordpiece, heads=heads), folder)
