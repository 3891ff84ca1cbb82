#!/usr/bin/env bash
# The English model that comes with the package, from Wikipedia and novels. Resumes where it stopped;
# 35 minutes on two cores and 65 on one. `scripts/ship.py` puts it into the package.
#   runs/small-en.sh FOLDER-WITH-{wiki,novels}.{train,valid,test}.txt[.xz] [RUN-FOLDER]; wikitext2.test too
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
data=$1
run=${2:-runs/out/small-en}
text() { ls "$data/$1.$2.txt" "$data/$1.$2.txt.xz" 2>/dev/null | head -n 1; }
corpus=("$(text wiki train)" "$(text novels train)")
elmore pretrain "${corpus[@]}" --output "$run.first" \
  --valid "$(text wiki valid)" --recipe "$here/small_en.py:small_en" --resume
elmore pretrain "${corpus[@]}" --output "$run" --from "$run.first" \
  --valid "$(text wiki valid)" --recipe "$here/small_en.py:small_en_further" --resume
elmore evaluate "$run" "$(text wiki test)" --tokenize
elmore evaluate "$run" "$(text novels test)" --tokenize
elmore evaluate "$run" "$(text wikitext2 test)" --no-tokenize
