"""Take every screenshot of the explorer that the documents show, from a running `elmore serve`.

    python scripts/screenshots.py MODEL INDEX

Needs the extras `serve`, `search` and `browser`, Pillow, and a Chromium.
"""

import argparse
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

COLORS = 256  # a palette of them is a third of the bytes
MAX_BYTES = 300_000
DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}, "device_scale_factor": 1.5}
TABLET: dict[str, Any] = {**DESKTOP, "viewport": {"width": 1100, "height": 800}}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 800},
    "device_scale_factor": 2,
    "has_touch": True,
}

RIVER = "The boat was tied to the bank of the river ."
MONEY = "She opened an account at the bank ."
SENSES = {
    "bank": RIVER,
    "play": "Her new play opened at a theater in London .",
    "cell": "Each cell of the body has a nucleus .",
    "plant": "The plant has green leaves and white flowers .",
    "spring": "In the spring the snow melts .",
}


@dataclass(frozen=True)
class Shot:
    """One picture: a view of the page, what of it, and who looks."""

    name: str
    sentence: str = ""
    """Empty: the page as it is at first."""
    word: str = ""
    part: str = ""
    """A selector; empty is the whole page, "window" what is seen without scrolling."""
    more: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=lambda: DESKTOP)
    click: str = ""
    """A selector, clicked first."""

    @property
    def address(self) -> str:
        if not self.sentence:
            return ""
        words = self.sentence.split(" ")
        return "#" + urlencode({"words": self.sentence, "at": words.index(self.word), **self.more})


SHOTS = [
    Shot("explorer", RIVER, "bank"),
    Shot("explorer-play", SENSES["play"], "play"),
    Shot("explorer-words", part="window"),
    Shot("explorer-passage", RIVER, "bank", "#uses", click="#uses .use"),
    Shot("explorer-money", MONEY, "bank", "#near", settings=TABLET),
    Shot("explorer-compare", RIVER, "bank", "#compare", {"with-words": MONEY}),
    Shot("explorer-dark", SENSES["play"], "play", settings={**DESKTOP, "color_scheme": "dark"}),
    Shot(
        "explorer-phone", RIVER, "bank", "window",
        settings={**PHONE, "color_scheme": "dark", "locale": "zh-CN"},
    ),
    *(Shot(f"senses-{w}", text, w, "#senses", settings=TABLET) for w, text in SENSES.items()),
]  # fmt: skip


@contextmanager
def serving(model: str, index: Path, precision: str) -> Iterator[str]:
    """The address of a server that runs while the block does."""
    command = [sys.executable, "-m", "elmore", "serve", "--port", "0"]
    command += ["--model", model, "--index", str(index), "--precision", precision]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        said = ""
        for line in server.stderr:
            said += line
            if address := re.search(r"http://\S+", line):
                break
        else:
            sys.exit(f"the server did not start: {said}")
        try:
            yield address.group()
        finally:
            server.terminate()


def take(browser: Browser, address: str, shot: Shot) -> bytes:
    with browser.new_context(**{"locale": "en-GB", **shot.settings}) as context:
        page = context.new_page()
        page.goto(f"{address}/{shot.address}")
        for there in ("#map path",) if shot.sentence else ("#start .use", "#vocabulary .word"):
            page.locator(there).first.wait_for()
        page.wait_for_function("!document.querySelector('[aria-busy=true]')")
        if shot.click:
            page.locator(shot.click).first.click()
            page.locator(".passage .around").first.wait_for(state="attached")
        return _picture(page, shot.part)


def _picture(page: Page, part: str) -> bytes:
    match part:
        case "":
            return page.screenshot(full_page=True)
        case "window":
            return page.screenshot()
        case selector:
            return page.locator(selector).screenshot()


def optimised(png: bytes) -> bytes:
    """The same picture with a palette that covers rare colors too: a mark has few pixels."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    small = io.BytesIO()
    few = picture.quantize(COLORS, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    few.save(small, "PNG", optimize=True)
    return small.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="what `elmore serve --model` takes")
    parser.add_argument("index", type=Path, help="folder made by `elmore index`")
    parser.add_argument("--precision", default="float32", help="as the index was built")
    parser.add_argument("--only", nargs="*", help="names of pictures; default: all")
    parser.add_argument("--output", type=Path, default=Path("docs/images"))
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    with (
        serving(args.model, args.index, args.precision) as address,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=args.chromium)
        for shot in SHOTS if args.only is None else [s for s in SHOTS if s.name in args.only]:
            picture = optimised(take(browser, address, shot))
            assert len(picture) < MAX_BYTES, f"{shot.name} has {len(picture):,} bytes"
            (args.output / f"{shot.name}.png").write_bytes(picture)
            print(f"{shot.name}.png  {len(picture):,} bytes")
        browser.close()


if __name__ == "__main__":
    main()
