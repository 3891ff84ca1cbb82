"""`scripts/ship.py` on a run of a second: halved, small enough, described truly, found by name."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from elmore.checkpoint import sources
from elmore.checkpoint.bilm import bilm_checkpoint
from elmore.embedder import Embedder
from elmore.errors import FormatError, InputError
from elmore.models.lens import Lens
from elmore.pretrain.run import pretrain
from elmore.published import catalog
from tests.pretrain.tiny_runs import corpus, sentences

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "ship.py"
FIGURES: dict[str, Any] = {
    "summary": "A model of a second.",
    "language": "en",
    "licence": "CC0",
    "corpora": [{"name": "circles", "words": 1234, "licence": "none needed"}],
    "perplexities": [
        {"text": "more", "forward": 10.04, "backward": 12, "average": 11, "outside": 0.025}
    ],
    "machine": "one core",
    "remake": "runs/it.sh",
    "limits": ["It knows nothing."],
}


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    if not SCRIPT.exists():
        pytest.skip("scripts/ship.py is part of a checkout only")
    spec = spec_from_file_location("ship", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["ship"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["ship"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ship")
    files = corpus(folder / "text")
    config = sentences()
    short = {"steps": 8, "valid_steps": 2, "checkpoint_minutes": 10.0}
    loop = config.loop.model_copy(update=short)
    config = config.model_copy(update={"loop": loop})
    pretrain(files, folder / "run", config, valid=files[0])
    return folder / "run"


def figures(script: ModuleType, **changes: Any) -> Any:
    return script.Figures(**{**FIGURES, **changes})


def test_a_run_becomes_a_name_with_the_same_vectors(
    script: ModuleType, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    target = tmp_path / "pretrained" / "tiny-xx"
    script.ship(run, target, figures(script), "Do as you like.")
    names = {path.name for path in target.iterdir()}
    assert names == {
        "config.json", "model.safetensors", "heads", "vocab.txt", "LICENSE",
        "MODEL_CARD.md",
    }  # fmt: skip
    for file in ("model.safetensors", "heads/softmax.safetensors"):
        assert {t.dtype for t in load_file(target / file).values()} == {torch.float16}
    assert (target / "LICENSE").read_text() == "Do as you like."
    monkeypatch.setattr(catalog, "files", lambda _: tmp_path)
    (a,), (b,) = (Embedder.load(x).embed([["w1", "w2", "w3"]]) for x in (run, "tiny-xx"))
    np.testing.assert_allclose(a.layers, b.layers, atol=5e-3)
    assert not np.array_equal(a.layers, b.layers)
    assert 0 < script.difference(run, target, "en") < 0.01


def test_a_softmax_that_does_not_fit_is_rounded_to_int8(
    script: ModuleType, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    sizes = iter([script.LIMIT + 1, script.LIMIT])  # of a model that is large enough to gain
    monkeypatch.setattr(script, "size", lambda _: next(sizes))
    script.ship(run, tmp_path / "int8", figures(script), "")
    stored = load_file(tmp_path / "int8" / "heads" / "softmax.safetensors")
    assert stored["rows"].dtype == torch.int8
    assert "softmax" in sources.load(tmp_path / "int8", heads=True).heads
    assert "vectors, not perplexities" not in (tmp_path / "int8" / "MODEL_CARD.md").read_text()


def test_what_does_not_fit_goes_without_its_softmax_or_not_at_all(
    script: ModuleType, run: Path, tmp_path: Path
):
    script.ship(run, tmp_path / "all", figures(script), "")
    whole = script.size(tmp_path / "all")
    script.ship(run, tmp_path / "less", figures(script), "", whole - 1)
    names = {path.name for path in (tmp_path / "less").iterdir()}
    assert names == {"config.json", "model.safetensors", "LICENSE", "MODEL_CARD.md"}
    assert "vectors, not perplexities" in (tmp_path / "less" / "MODEL_CARD.md").read_text()
    with pytest.raises(InputError, match=r"takes [\d,]+ bytes, more than 5,000\."):
        script.ship(run, tmp_path / "none", figures(script), "", 5_000)
    assert not (tmp_path / "none").exists()


def test_the_card_says_what_the_run_and_the_figures_say(
    script: ModuleType, run: Path, tmp_path: Path
):
    script.ship(run, tmp_path / "m", figures(script), "")
    card = (tmp_path / "m" / "MODEL_CARD.md").read_text()
    assert "| circles | 1,234 | none needed |" in card
    assert "| more | 10.0 | 12.0 | 11.0 | 2.5% |" in card
    assert "- It knows nothing." in card
    words = (run / "vocab.txt").read_text().splitlines()
    assert (
        f"| words it learned to predict | {len(words):,}; others are read by their characters |"
        in card
    )
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert f"{log[-1]['step']:,} steps, {log[-1]['words'] / 2:,.0f} words seen" in card
    last = [line for line in log if "valid_average" in line][-1]
    assert f"| {last['step']} | {int(last['words'] / 2):,} | {last['valid_average']:.1f} |" in card


def test_words_found_beforehand_and_further_sections(script: ModuleType, run: Path, tmp_path: Path):
    given = figures(script, segmented=True, sections={"Lens": "It has none."})
    script.ship(run, tmp_path / "m", given, "")
    trained = sources.load(tmp_path / "m").trained_on
    assert trained is not None
    assert trained.tokenize
    assert not sources.load(run).trained_on.tokenize
    assert "## Lens\n\nIt has none.\n\n## Limits" in (tmp_path / "m" / "MODEL_CARD.md").read_text()


def test_the_lens_of_a_copy_comes_along_in_float16(script: ModuleType, run: Path, tmp_path: Path):
    checkpoint = sources.load(run)
    dim = checkpoint.model.dim
    lens = Lens((1,), np.full((dim, dim), 0.1, np.float32), np.zeros(dim, np.float32), "a toy")
    sources.save(replace(checkpoint, lens=lens), tmp_path / "copy")
    script.ship(run, tmp_path / "m", figures(script), "", lens=tmp_path / "copy")
    found = sources.load(tmp_path / "m").lens
    assert found is not None
    assert (found.layers, found.about) == ((1,), "a toy")
    np.testing.assert_array_equal(found.weight, np.float32(np.float16(0.1)))


def test_a_long_curve_is_thinned_to_a_dozen_with_both_ends(script: ModuleType):
    log = [{"step": i, "words": 10 * i, "valid_average": 1000.0 - i} for i in range(500)]
    found = script.curve([*log, {"step": 500, "words": 5000, "loss": 1.0}])
    assert [(s.step, s.words, s.perplexity) for s in (found[0], found[-1])] == [
        (0, 0, 1000.0), (499, 4990, 501.0),
    ]  # fmt: skip
    assert len(found) == 12
    assert script.curve([]) == []


def test_numbers_beyond_float16_are_refused(script: ModuleType, run: Path):
    checkpoint = sources.load(run)
    first = next(checkpoint.model.parameters())
    first.data[0] = 1e5
    with pytest.raises(FormatError, match="too large for float16"):
        script.halved(bilm_checkpoint(checkpoint.model))


def test_wrong_figures_are_named(script: ModuleType, tmp_path: Path):
    path = tmp_path / "figures.json"
    path.write_text(json.dumps({**FIGURES, "perplexities": [{"text": "more"}]}))
    with pytest.raises(
        InputError, match=r"figures\.json: perplexities\.0\.forward: Field required"
    ):
        script.read_figures(path)
