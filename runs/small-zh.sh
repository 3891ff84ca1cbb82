#!/usr/bin/env bash
# The Chinese model that comes with the package, from Wikipedia and technical documentation. The words
# are found once, by jieba; the training resumes where it stopped. `scripts/ship.py` puts it into the
# package.
#   runs/small-zh.sh FOLDER-WITH-{wiki,docs}.train-AND-wiki.{valid,test}.txt[.xz] [RUN-FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
data=$1
run=${2:-runs/out/small-zh}
text() { ls "$data/$1.txt" "$data/$1.txt.xz" 2>/dev/null | head -n 1; }
words=$run.words
mkdir -p "$words"
for name in wiki.train docs.train wiki.valid; do
  if [ ! -e "$words/$name.txt" ]; then
    python "$here/segment.py" "$(text "$name")" > "$words/$name.partial"
    mv "$words/$name.partial" "$words/$name.txt"
  fi
done
elmore pretrain "$words/wiki.train.txt" "$words/docs.train.txt" --output "$run" \
  --valid "$words/wiki.valid.txt" --recipe "$here/small_zh.py:small_zh" --resume
if [ ! -e "$run.lens" ]; then
  elmore lens "$run" "$words/wiki.train.txt" --as-is --words 300000 --output "$run.lens"
fi
elmore evaluate "$run" "$(text wiki.test)" --tokenize
elmore demo --model "$run.lens"
