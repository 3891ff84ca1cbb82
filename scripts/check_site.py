"""Checks every link of a built site: `python scripts/check_site.py build/site`. The generator
checks links between pages; this also checks pictures, raw HTML, and what theme and API add."""

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page names, and what it links to."""

    def __init__(self, path: Path):
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.ids.add(value)
            if name in ("href", "src") and value:
                self.links.append(value)


read_page = cache(Page)


def fault(link: str, page: Path, site: Path) -> str | None:
    """What is wrong with a link of a page, if anything."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None if parts.scheme in ("https", "http", "data") else "unknown kind of link"
    target = page if not parts.path else (page.parent / unquote(parts.path)).resolve()
    if not target.is_relative_to(site):
        return "leads out of the site"
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return "no such file"
    if parts.fragment and target.suffix == ".html":
        known = read_page(target).ids | {"__top"}
        return None if unquote(parts.fragment) in known else "no such anchor"
    return None


def faults(site: Path) -> list[str]:
    """One line for each broken link; 404.html is skipped, as its links begin at the site's root."""
    site = site.resolve()
    return [
        f"{page.relative_to(site)}: {link}: {wrong}"
        for page in sorted(site.rglob("*.html"))
        if page.name != "404.html"
        for link in dict.fromkeys(read_page(page).links)
        if (wrong := fault(link, page, site))
    ]


if __name__ == "__main__":
    site = Path(sys.argv[1])
    found = faults(site)
    print("\n".join(found) or f"{len(list(site.rglob('*.html')))} pages, no broken link")
    sys.exit(1 if found else 0)
