"""A model that reads words by a dictionary, from scratch: the dictionary is made from the corpus,
the tables fit it, and with `softmax_start=static` the words' own vectors are counted too.
"""

from pathlib import Path

import pytest
import torch

from elmore.checkpoint.sources import find_source, load
from elmore.config import override
from elmore.embedder import Embedder
from elmore.errors import ConfigError
from elmore.models.bilm import BiLMConfig
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMConfig
from elmore.nn.word_char import WordCharConfig
from elmore.pretrain.config import PretrainConfig
from elmore.pretrain.objectives.bilm_start import dictionary_of
from elmore.pretrain.recipes import find_recipe
from elmore.pretrain.run import pretrain
from elmore.text.character_classes import character_classes
from elmore.text.dictionary_reader import CHARACTER_MARKS, DictionaryReader, read_dictionary
from elmore.text.vocabulary import MARKS, Vocabulary
from tests.pretrain import tiny_runs
from tests.pretrain.tiny_runs import corpus, logged, weights

ROOT = Path(__file__).resolve().parents[2]
SPELLED = CharCNNConfig(
    n_characters=14, char_dim=4, filters=((1, 4), (2, 8)), n_highway=0, max_characters=8,
    dim=12, project=False,
)  # fmt: skip
WORDS = WordCharConfig(characters=SPELLED, n_words=20, word_dim=8, dim=8)


def recipe(*settings: str) -> PretrainConfig:
    """28 words in the vocabulary, of which 20 have vectors of their own."""
    model = BiLMConfig(words=WORDS, context=LSTMConfig(dim=8, cell_dim=12, dropout=0.1))
    config = tiny_runs.sentences().model_copy(update={"model": model})
    quiet = ["loop.checkpoint_minutes=60", "loop.steps=4", "loop.log_steps=1", "epochs=null"]
    return override(config, [*quiet, 'loop.schedule={"kind": "constant"}', *settings])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return corpus(tmp_path_factory.mktemp("text"))


@pytest.mark.parametrize("start", ["random", "static"])
def test_it_pretrains_resumes_exactly_and_embeds(start: str, files: list[Path], tmp_path: Path):
    config = recipe(f"softmax_start={start}")
    pretrain(files, tmp_path / "whole", config)
    pretrain(files, tmp_path / "halves", override(config, ["loop.steps=2"]))
    pretrain(files, tmp_path / "halves", config, resume=True)
    assert logged(tmp_path / "halves") == logged(tmp_path / "whole")
    assert weights(tmp_path / "halves") == weights(tmp_path / "whole")
    known, unknown = Embedder.load(tmp_path / "whole").embed([["w1", "w2"], ["never", "w2"]])
    assert known.layers.shape == (3, 2, 16)
    assert (known.layers[0, 0] != unknown.layers[0, 0]).any()


def test_tables_are_as_long_as_the_dictionary(files: list[Path], tmp_path: Path):
    pretrain(files, tmp_path / "run", recipe())
    words = load(tmp_path / "run").model.config.words
    assert (words.n_words, words.characters.n_characters) == (20, 14)
    roomy = ["model.words.n_words=1000", "model.words.characters.n_characters=200"]
    pretrain(files, tmp_path / "roomy", recipe(*roomy))
    words = load(tmp_path / "roomy").model.config.words
    # w and ten digits, the letters of <bos>, <eos> and <oov>, and six marks
    assert (words.n_words, words.characters.n_characters) == (28, 6 + 11 + len("<bose>v"))


def test_a_dictionary_has_the_first_words_and_the_most_frequent_characters():
    vocabulary = Vocabulary(["<UNK>", "<S>", "</S>", "aab", "abc", "a", "xyz"])
    config = WORDS.model_copy(update={"n_words": 6})
    found = dictionary_of(vocabulary, config)
    assert found.words == {"<bos>": 1, "<eos>": 2, "<oov>": 0, "aab": 3, "abc": 4, "a": 5}
    assert len(found.characters) == SPELLED.n_characters
    assert {"a", "b", "o", "s"} <= set(found.characters)
    assert found.spell(["<S>", "xyz", "abc"])[:, 0].tolist() == [1, 0, 4]
    spelling = config.model_copy(update={"n_words": 0, "word_dim": 0})
    assert dictionary_of(vocabulary, spelling).words is None


def test_with_classes_the_characters_are_the_corpus_s_own(tmp_path: Path):
    """Also those of words outside the vocabulary; a resumed run has the same table."""
    text = tmp_path / "text.txt"
    text.write_text("一 二 一 二 三四\n" * 30, encoding="utf-8")
    room = len(CHARACTER_MARKS) + len(character_classes())
    config = recipe(
        "model.words.classes=true", f"model.words.characters.n_characters={room + 3}",
        "vocabulary.max_size=5", "loop.steps=1",
    )  # fmt: skip
    pretrain([text], tmp_path / "run", config)
    pretrain([text], tmp_path / "run", override(config, ["loop.steps=2"]), resume=True)
    reader = load(tmp_path / "run").reader
    assert isinstance(reader, DictionaryReader)
    assert reader.words is not None
    assert "三四" not in reader.words
    assert list(reader.characters)[room:] == ["一", "三", "二"]
    assert set(character_classes()) <= set(reader.characters)


def test_marks_beyond_the_table_are_refused():
    vocabulary = Vocabulary(["a", "b", "<S>", "</S>", "<UNK>"])
    with pytest.raises(ConfigError, match="n_words is 4, but <S>, </S>, <UNK> are not among"):
        dictionary_of(vocabulary, WORDS.model_copy(update={"n_words": 4}))


def test_counted_vectors_are_what_words_and_softmax_start_from(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("elmore.pretrain.static_start._SPARE", 0)
    still = ["softmax_start=static", "loop.steps=1", "loop.optimizer.lr=1e-30"]
    pretrain(files, tmp_path / "run", recipe(*still))
    found = load(tmp_path / "run", heads=True)
    state, rows = found.model.state_dict(), found.heads["softmax"].weight[:20]
    cosines = torch.cosine_similarity(state["words.embed.weight"], rows)
    torch.testing.assert_close(cosines, torch.ones(20))
    torch.testing.assert_close(state["words.project.weight"][:, :8], torch.eye(8))
    lengths = state["words.embed.weight"].square().mean(1).sqrt()
    torch.testing.assert_close(lengths, torch.full((20,), 0.5))


def test_word_vectors_of_another_width_than_the_softmax_cannot_start_from_it():
    with pytest.raises(ConfigError, match=r"softmax_start=static needs model\.words\.word_dim=8"):
        recipe("softmax_start=static", "model.words.word_dim=5")


def test_the_dictionary_of_small_en_is_what_its_recipe_makes_of_its_words():
    shipped = find_source("small-en").path
    listed = read_dictionary(shipped / "words.txt", 30_000)
    words = sorted(listed, key=lambda word: listed[word])
    assert words[:3] == ["<bos>", "<eos>", "<oov>"]
    vocabulary = Vocabulary([*MARKS, *words[3:]])
    recipe = find_recipe(str(ROOT / "runs" / "small_en.py") + ":small_en")
    assert isinstance(recipe.model.words, WordCharConfig)
    for name, content in dictionary_of(vocabulary, recipe.model.words).files().items():
        assert (shipped / name).read_bytes() == content
