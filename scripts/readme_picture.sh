#!/usr/bin/env bash
# README's picture: one word without context and in context. Needs the extra plot.
#   scripts/readme_picture.sh [WORD]
set -euo pipefail
cd "$(dirname "$0")/.."
elmore demo --word "${1:-bank}" --plot docs/uses.png > /dev/null
