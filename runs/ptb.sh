#!/usr/bin/env bash
# Penn Treebank perplexity with the recipe in ptb.py. Resumes where it stopped; about an hour on one core.
#   runs/ptb.sh FOLDER-WITH-ptb.{train,valid,test}.txt[.xz] [RUN-FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
data=$1
run=${2:-runs/out/ptb}
text() { ls "$data"/ptb."$1".txt "$data"/ptb."$1".txt.xz 2>/dev/null | head -n 1; }
elmore pretrain "$(text train)" --output "$run" --valid "$(text valid)" --recipe "$here/ptb.py:ptb" --resume
# The published figures are of one continuous text, state carried from sentence to sentence.
elmore evaluate "$run" "$(text test)" --carry-state
