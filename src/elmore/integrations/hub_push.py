"""A model to the Hugging Face Hub, in the format that elmore loads it from again."""

from pathlib import Path

from elmore.errors import ConfigError
from elmore.published.cache import OFFLINE, is_offline
from elmore.published.hub import HUB, hub_api, hub_name, told


def push(folder: Path, target: str, *, private: bool = False) -> str:
    """Upload a model's folder to `owner/name`, or to a branch of it with `@branch`. Returns the
    address of the commit."""
    name = hub_name(f"{HUB}{target.removeprefix(HUB)}")
    if is_offline():
        raise ConfigError(f"{name}: cannot be uploaded while {OFFLINE} is set.")
    api = hub_api()
    with told(name):
        api.create_repo(name.repo, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=name.repo,
            folder_path=folder,
            revision=name.revision,
            commit_message="Upload with elmore",
        )
    return str(commit.commit_url)
