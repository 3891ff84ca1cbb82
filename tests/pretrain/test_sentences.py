"""The stream of sentences: complete, shuffled, shared among processes, and exact to go back to."""

import gzip
from itertools import islice
from pathlib import Path

import pytest

from elmore.errors import InputError
from elmore.pretrain.sentences import (
    Block,
    Position,
    ReadingConfig,
    SentenceStream,
    read_sentences,
)


def shards(folder: Path, sizes: list[int]) -> list[Path]:
    """Files of one-word sentences that say where they stand: `2.17` is line 17 of file 2."""
    paths = []
    for i, size in enumerate(sizes):
        paths.append(folder / f"shard{i}.txt")
        paths[-1].write_text("".join(f"{i}.{n}\n" for n in range(size)))
    return paths


def stream(
    files: list[Path], block: int = 1, buffer: int = 4, together: int = 4, **more
) -> SentenceStream:
    config = ReadingConfig(block=block, buffer=buffer, together=together)
    return SentenceStream(files, config, **{"seed": (1,), **more})


def words(blocks: list[Block]) -> list[str]:
    return [word for block in blocks for sentence in block for word in sentence]


def everything(files: list[Path]) -> list[str]:
    return [line for path in files for line in path.read_text().split()]


def test_every_sentence_comes_once_an_epoch(tmp_path: Path):
    files = shards(tmp_path, [7, 12, 3])
    blocks = stream(files)
    for _ in range(3):
        assert sorted(words(list(islice(blocks, 22)))) == sorted(everything(files))


def test_the_order_depends_on_the_seed_and_on_the_epoch(tmp_path: Path):
    files = shards(tmp_path, [20, 20])
    one = stream(files)
    first, second = (words(list(islice(one, 40))) for _ in range(2))
    other = words(list(islice(stream(files, seed=(2,)), 40)))
    again = words(list(islice(stream(files), 40)))
    assert first == again
    assert first != everything(files)
    assert first != second
    assert first != other


def test_a_buffer_of_one_keeps_the_order_of_the_text(tmp_path: Path):
    files = shards(tmp_path, [5, 6])
    assert words(list(islice(stream(files, buffer=1), 22))) == 2 * everything(files)


def test_files_are_read_side_by_side_each_as_often_as_it_is_long(tmp_path: Path):
    files = shards(tmp_path, [100, 300])
    half = words(list(islice(stream(files), 200)))
    assert 35 <= sum(word.startswith("0.") for word in half) <= 65  # a quarter of them


def test_one_file_at_a_time_if_so_asked(tmp_path: Path):
    files = shards(tmp_path, [30, 30])
    first = words(list(islice(stream(files, together=1), 30)))
    assert len({word.split(".")[0] for word in first}) == 1


def test_blocks_stay_together_in_their_order(tmp_path: Path):
    files = shards(tmp_path, [10])
    blocks = list(islice(stream(files, block=4), 3))
    expected = [["0.0", "0.1", "0.2", "0.3"], ["0.4", "0.5", "0.6", "0.7"], ["0.8", "0.9"]]
    assert sorted(words([block]) for block in blocks) == expected


@pytest.mark.parametrize("together", [1, 2, 4])
@pytest.mark.parametrize("buffer", [1, 4, 100])
@pytest.mark.parametrize(("rank", "n_ranks"), [(0, 1), (1, 2), (2, 4)])
def test_from_every_position_the_stream_goes_on_the_same(
    tmp_path: Path, together: int, buffer: int, rank: int, n_ranks: int
):
    files = shards(tmp_path, [7, 1, 9])
    share = {"rank": rank, "n_ranks": n_ranks, "together": together, "buffer": buffer, "block": 2}
    whole = stream(files, **share)
    positions, blocks = [whole.position], []
    for _ in range(30):  # several epochs
        blocks.append(next(whole))
        positions.append(whole.position)
    for i, position in enumerate(positions[:24]):
        resumed = stream(files, start=position, **share)
        assert resumed.position == position
        assert list(islice(resumed, 6)) == blocks[i : i + 6]


@pytest.mark.parametrize("n_ranks", [2, 3, 5])  # as many files, and more processes than files
def test_processes_share_the_corpus_and_overlap_nowhere(tmp_path: Path, n_ranks: int):
    files = shards(tmp_path, [8, 11, 9])
    found = []
    for rank in range(n_ranks):
        mine = stream(files, rank=rank, n_ranks=n_ranks)
        for block in mine:
            if mine.position.epoch > 0:
                break
            found += words([block])
    assert sorted(found) == sorted(everything(files))


def test_blank_lines_are_no_sentences_and_compressed_files_are_read(tmp_path: Path):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"a b\n\n  \nc\n"))
    assert list(read_sentences(path, ReadingConfig())) == [["a", "b"], ["c"]]


def test_raw_text_is_split_into_sentences_and_words(tmp_path: Path):
    path = tmp_path / "text.txt"
    path.write_text("We sat down. It rained!\n")
    found = list(read_sentences(path, ReadingConfig(tokenize=True)))
    assert found == [["We", "sat", "down", "."], ["It", "rained", "!"]]


def test_a_corpus_without_a_sentence_is_an_error_not_an_endless_search(tmp_path: Path):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n")
    with pytest.raises(InputError, match="no sentence found"):
        next(stream([empty]))


def test_a_position_past_the_last_block_of_an_epoch_begins_the_next(tmp_path: Path):
    files = shards(tmp_path, [3])
    resumed = stream(files, start=Position(epoch=0, shard=0, block=3))
    assert sorted(words(list(islice(resumed, 3)))) == everything(files)
    assert resumed.position.epoch == 1
