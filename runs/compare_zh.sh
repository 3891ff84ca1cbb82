#!/usr/bin/env bash
# With and without small-zh on Chinese tasks, and word senses: the Chinese tables of docs/results.md. Stop it at any moment
# and run it again to go on (SEEDS=1 for a third of the time).
#   runs/compare_zh.sh DATA [OUT] [MODEL]
# DATA holds zh/{ner_weibo,ner_dh_msra.txt.xz,ChnSentiCorp_htl_all.csv.xz} and tasks/{squad/cmrc2018.*.json.xz,mclwic}.
set -euo pipefail
data=$1
out=${2:-runs/out/compare-zh}
model=${3:-small-zh}
seeds=${SEEDS:-3}
here=$(cd "$(dirname "$0")" && pwd)
export OMP_NUM_THREADS=1
mkdir -p "$out"
[ -e "$out/cmrc.dev.json" ] || python "$here/split_zh.py" "$data" "$out"

compare() {
  local name=$1 task=$2
  shift 2
  elmore compare "$task" --encoders "none,$model" --output "$out/$name" --cache "$out/cache" "$@" >/dev/null
  echo "## $name" && cat "$out/$name/table.md"
}

failed=0
weibo=$data/zh/ner_weibo
compare weibo ner --seeds "$seeds" --epochs 10 --train "$weibo/train.conll.xz" --dev "$weibo/dev.conll.xz" \
  --test "$weibo/test.conll.xz" || failed=1
compare hotel classify --seeds "$seeds" --epochs 5 --train "$out/hotel.train.csv" --dev "$out/hotel.dev.csv" \
  --test "$out/hotel.test.csv" || failed=1
compare msra ner --seeds "$seeds" --epochs 5 --fractions 0.1 --train "$out/msra.train.txt" \
  --dev "$out/msra.dev.txt" --test "$out/msra.test.txt" || failed=1
compare cmrc qa --seeds 1 --epochs 5 --train "$out/cmrc.train.json" --dev "$out/cmrc.dev.json" \
  --test "$data/tasks/squad/cmrc2018.dev.json.xz" || failed=1
echo "## MCL-WiC"
elmore task evaluate wic --encoder "$model" --train "$data/tasks/mclwic/dev.zh-zh.jsonl.xz" \
  --test "$data/tasks/mclwic/test.zh-zh.jsonl.xz" --json "$out/mclwic.json" || failed=1
exit "$failed"
