"""The explorer in a real browser, on a real server with a real index of a small random model.

Needs a Chromium that is installed already, as Debian's is; playwright downloads none here.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from elmore.embedder import Embedder

# All else is imported where it is used: a conftest cannot be skipped when an extra is absent.
if TYPE_CHECKING:
    from elmore.search.index import Index
    from tests.serve.page.visitor import Page

CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture(scope="package")
def index(tiny_embedder: Embedder, tmp_path_factory: pytest.TempPathFactory) -> "Index":
    from elmore.search.index import Index
    from tests.serve.page.visitor import CORPUS

    folder = tmp_path_factory.mktemp("explorer") / "index"
    return Index.build(CORPUS, tiny_embedder, folder, keep="all")


@pytest.fixture(scope="package")
def serve(tiny_embedder: Embedder) -> Iterator[Callable[..., str]]:
    """Start a server with this index and these settings; it runs until the tests are done."""
    from elmore.serve.app import create_app
    from elmore.serve.config import ServeConfig
    from tests.serve.running import running

    with ExitStack() as stack:

        def start(index: "Index | None", **settings: Any) -> str:
            config = ServeConfig.model_validate(settings)
            app = create_app(tiny_embedder, index=index, name="tiny", config=config)
            return stack.enter_context(running(app))

        yield start


@pytest.fixture(scope="package")
def address(serve: Callable[..., str], index: "Index") -> str:
    return serve(index)


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    if not CHROMIUM.exists():
        pytest.skip(f"no browser at {CHROMIUM}")
    from playwright.sync_api import sync_playwright

    from tests.serve.page.visitor import PATIENCE, expect

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Callable[..., "Page"]]:
    """Open the page as somebody with these browser settings; nothing may reach the console, but
    with `refused` the browser's own lines about answers that were meant to fail."""
    from tests.serve.page.visitor import PATIENCE, expect

    seen: list[str] = []

    def open_page(
        hash: str = "", *, at: str = address, refused: bool = False, **settings: Any
    ) -> "Page":
        def note(text: str) -> None:
            if not (refused and text.startswith("Failed to load resource")):
                seen.append(text)

        context = stack.enter_context(browser.new_context(**{"locale": "en-GB", **settings}))
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("console", lambda said: said.type in ("error", "warning") and note(said.text))
        page.on("pageerror", lambda error: note(str(error)))
        page.goto(f"{at}/{hash}")
        expect(page.locator("#about:not(:empty), dialog[open]")).to_be_visible()
        return page

    with ExitStack() as stack:
        yield open_page
    assert seen == []
