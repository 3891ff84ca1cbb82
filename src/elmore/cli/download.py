"""`elmore download`: published models into the cache, before they are needed."""

from typing import Annotated

import typer

from elmore.cli.options import Quiet


def download(
    names: Annotated[
        list[str], typer.Argument(help="Names that `elmore models` lists, or hf:owner/name.")
    ],
    accept_changed: Annotated[
        bool,
        typer.Option("--accept-changed", help="Take a file that differs from its first download."),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Download published models and verify them; a stopped download is continued."""
    from elmore.published.download import download as fetch
    from elmore.published.hub import HUB, hub_folder

    for name in names:
        if name.startswith(HUB):
            folder = hub_folder(name)
        else:
            folder = fetch(name, accept_changed=accept_changed).folder
        print(folder)
