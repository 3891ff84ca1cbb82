"""`elmore push`: a model to the Hugging Face Hub."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from elmore.cli.card import Data, Language, License, described
from elmore.cli.options import OptionsFile, Source


def push(
    source: Source,
    target: Annotated[str, typer.Argument(help="owner/name on the Hub, or owner/name@branch.")],
    private: Annotated[
        bool, typer.Option("--private", help="Make a new repository private.")
    ] = False,
    license: License = None,
    language: Language = None,
    data: Data = None,
    options: OptionsFile = None,
) -> None:
    """Upload a model with its card to the Hugging Face Hub; log in first with `hf auth login`."""
    from elmore.checkpoint.sources import load, save
    from elmore.integrations.hub_push import push as upload
    from elmore.integrations.model_card import CardFacts
    from elmore.published.hub import HUB, hub_api, hub_name

    hub_api()  # before the model, which may take a while to load
    name = hub_name(f"{HUB}{target.removeprefix(HUB)}")
    facts = CardFacts(name=f"{HUB}{name.repo}", license=license, language=language, data=data)
    with tempfile.TemporaryDirectory(prefix="elmore-push-") as place:
        folder = Path(place) / "model"
        written = save(load(source, options=options, heads=True), folder)
        text = described(source, facts, options, written)
        (folder / "README.md").write_text(text, encoding="utf-8")
        print(upload(folder, target, private=private))
