"""Take the picture of a comparison that the documents show: the three plots of its page.

    python scripts/compare_picture.py FOLDER docs/images/compare-ner.png

Needs the extra `browser`, Pillow, and a Chromium.
"""

import argparse
from pathlib import Path

from playwright.sync_api import FloatRect, Page, sync_playwright
from screenshots import DESKTOP, optimised


def around(page: Page) -> FloatRect:
    """The box that the plots fill."""
    plots = [plot.bounding_box() for plot in page.locator("main > section:not(.wide)").all()]
    boxes = [box for box in plots if box is not None]
    left, top = min(box["x"] for box in boxes), min(box["y"] for box in boxes)
    right = max(box["x"] + box["width"] for box in boxes)
    bottom = max(box["y"] + box["height"] for box in boxes)
    return {"x": left, "y": top, "width": right - left, "height": bottom - top}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="what `elmore compare --output` has written")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    args = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=args.chromium)
        page = browser.new_page(**DESKTOP)
        page.goto((args.folder / "index.html").resolve().as_uri())
        args.picture.write_bytes(optimised(page.screenshot(full_page=True, clip=around(page))))
        browser.close()


if __name__ == "__main__":
    main()
