#!/usr/bin/env bash
# Installs elmore for another Python, in an environment of its own, and runs a part of the tests.
# Usage: scripts/try_python.sh PYTHON [--lowest]
# --lowest takes the oldest versions that pyproject.toml allows, except torch's, whose old builds
# for the CPU are hard to find.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
extras=(bert generate zh zst arrow plot search serve hub)
constraints=constraints.txt
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$python" -m venv "$place/env"
if [[ ${2:-} == --lowest ]]; then
  constraints=$place/lowest.txt
  "$place/env/bin/python" -m pip install --quiet uv
  grep '^torch==' constraints.txt >"$place/torch.txt"
  "$place/env/bin/uv" pip compile pyproject.toml --quiet --resolution lowest-direct \
    --constraint "$place/torch.txt" "${extras[@]/#/--extra=}" --output-file "$constraints"
fi
"$place/env/bin/python" -m pip install --quiet --no-compile --constraint "$constraints" \
  ".[$(IFS=,; echo "${extras[*]}")]" pytest hypothesis httpx
"$place/env/bin/elmore" doctor
PYTHONPATH= "$place/env/bin/python" -m pytest -p no:cacheprovider -m "not slow" \
  tests/text tests/dump tests/store/test_store.py tests/checkpoint/test_hdf5.py \
  tests/checkpoint/test_native.py tests/checkpoint/test_bert.py tests/test_embedder.py \
  tests/search/test_index.py tests/serve/test_routes.py tests/cli/test_main.py \
  tests/cli/test_embed.py tests/cli/test_options.py tests/test_front_door.py
