#!/usr/bin/env bash
# The ablation of "Unsupervised Pretraining for Sequence to Sequence Learning" on Multi30k, German to English, and
# summaries of e-mails. Stop it at any moment and run it again to go on.
#   runs/seq2seq.sh DATA [OUT]
# DATA holds mt/multi30k, lm/{wiki,novels}.*.txt.xz and summ/aeslc_*.jsonl.xz. LM_MINUTES (60) for each language model,
# SEEDS (3), EPOCHS (8; more for a share of the pairs).
set -euo pipefail
data=$1
out=${2:-runs/out/seq2seq}
minutes=${LM_MINUTES:-60}
seeds=${SEEDS:-3}
epochs=${EPOCHS:-8}
m30k=$data/mt/multi30k
export OMP_NUM_THREADS=1
mkdir -p "$out"

lm() {  # NAME VALID CORPUS...
  local name=$1 valid=$2
  shift 2
  elmore pretrain "$@" --valid "$valid" --recipe causal-laptop --minutes "$minutes" --set model.context.dim=256 \
    --set model.context.cell_dim=256 --output "$out/lm-$name" --resume
}
# German has no other text here than the German side of the pairs.
lm de "$m30k/val.de.xz" "$m30k/train.de.xz"
lm en "$m30k/val.en.xz" "$data/lm/wiki.train.txt.xz" "$data/lm/novels.train.txt.xz"

pairs() { echo "$m30k/$1.de.xz,$m30k/$1.en.xz"; }
# Two processes, one thread each, take the trainings of a comparison in turns.
compare() {
  local name=$1
  shift
  local command=(elmore compare "$@" --output "$out/$name")
  "${command[@]}" --quiet >/dev/null & local other=$!
  "${command[@]}" >/dev/null
  wait "$other"
  echo "## $name" && cat "$out/$name/table.md"
}
languages=(--source-lm "$out/lm-de" --target-lm "$out/lm-en")
files=(--train "$(pairs train)" --dev "$(pairs val)" --test "$(pairs test_2016_flickr)")
compare tenth translate --encoders none,encoder,decoder,both,both-no-lm-loss,both-no-softmax --fractions 0.1 \
  --seeds "$seeds" --epochs "$epochs" "${files[@]}" "${languages[@]}"
compare whole translate --encoders none,both --seeds 1 --epochs "$epochs" "${files[@]}" "${languages[@]}"

# One language model begins both sides of a summary.
files=(--train "$data/summ/aeslc_train.jsonl.xz" --dev "$data/summ/aeslc_dev.jsonl.xz"
  --test "$data/summ/aeslc_test.jsonl.xz")
languages=(--source-lm "$out/lm-en" --target-lm "$out/lm-en")
for copying in false true; do
  compare "aeslc-copy-$copying" summarize --encoders none,both --seeds 1 --epochs "$epochs" "${files[@]}" \
    "${languages[@]}" --set "task.copy_source=$copying"
done
