"""`elmore models`: which models can be loaded by name, and which of them are here already."""

import json
from typing import Annotated, Any

import typer


def models(
    cached: Annotated[
        bool, typer.Option("--cached", help="Only what is in the cache or included.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare cached files with their first download.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the models that can be loaded by name, and the sizes of those in the cache."""
    from elmore.published.cache import cache_folder

    found = [row for row in _included() + _published(verify) if row["bytes"] or not cached]
    if as_json:
        print(json.dumps({"cache": str(cache_folder()), "models": found}, ensure_ascii=False))
        return
    for row in found:
        print(f"{row['name']:<28}{_size(row):<16}{row['about']}")
    print(f"cache: {cache_folder()}")


def _included() -> list[dict[str, Any]]:
    from elmore.published.catalog import shipped

    return [
        {
            "name": folder.name,
            "about": "included in elmore",
            "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
            "complete": True,
        }
        for folder in shipped()
    ]


def _published(verify: bool) -> list[dict[str, Any]]:
    from elmore.published.download import in_cache

    rows = []
    for here in in_cache():
        complete = not here.missing()
        if complete and verify:
            here.check(thoroughly=True)
        about = here.model.about
        rows.append(
            {"name": here.model.name, "about": about, "bytes": here.size(), "complete": complete}
        )
    return rows


def _size(row: dict[str, Any]) -> str:
    if not row["bytes"]:
        return "-"
    return f"{row['bytes'] / 1e6:,.1f} MB" + ("" if row["complete"] else " (part)")
