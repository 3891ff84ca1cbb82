"""`scripts/check_site.py` finds links that lead nowhere, and no others."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_site.py"


def faults(site: Path) -> list[str]:
    spec = spec_from_file_location("check_site", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    found: list[str] = module.faults(site)
    return found


def test_good_links_pass_and_every_broken_one_is_named(tmp_path: Path):
    (tmp_path / "zh").mkdir()
    (tmp_path / "a b.png").touch()
    (tmp_path / "zh" / "index.html").write_text(
        '<h1 id="文">x</h1><a href="../index.html#top">x</a>'
    )
    good = '<p id="top"><img src="a%20b.png"><a href="zh/#文">x</a><a href="https://x.y/z">x</a>'
    (tmp_path / "index.html").write_text(good)
    assert faults(tmp_path) == []
    broken = '<a href="gone.html">x</a><a href="zh/#gone">x</a><img src="../out.png">'
    (tmp_path / "index.html").write_text(good + broken)
    assert faults(tmp_path) == [
        "index.html: gone.html: no such file",
        "index.html: zh/#gone: no such anchor",
        "index.html: ../out.png: leads out of the site",
    ]
