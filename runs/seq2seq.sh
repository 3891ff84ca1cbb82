#!/usr/bin/env bash
# The ablation of "Unsupervised Pretraining for Sequence to Sequence Learning" on Multi30k, German to English; a published
# figure from English to German; subject lines of e-mails, headlines of news, and Chinese to English: docs/seq2seq.md.
# Stop it at any moment and run it again to go on. While it compares, the same command in a second terminal shares the
# trainings; language models and the models that are kept have one process each.
#   runs/seq2seq.sh DATA [OUT]
# DATA holds mt/, summ/, lm/{wiki,novels}.train.txt.xz and zh/lm/wiki.train.txt.xz. LM_MINUTES (40) for the English
# language model, a quarter of it for the others; SEEDS (3) for a tenth of the pairs.
set -euo pipefail
data=$1
out=${2:-runs/out/seq2seq}
minutes=${LM_MINUTES:-40}
seeds=${SEEDS:-3}
here=$(cd "$(dirname "$0")" && pwd)
m30k=$data/mt/multi30k
export OMP_NUM_THREADS=1
mkdir -p "$out"
[ -f "$out/data/bbc.test.jsonl" ] || python "$here/split_seq2seq.py" "$data" "$out/data"

# Language models ----------------------------------------------------------------------------------
lm() {  # NAME MINUTES VALID CORPUS...
  local name=$1 minutes=$2 valid=$3
  shift 3
  elmore pretrain "$@" --valid "$valid" --recipe causal-laptop --minutes "$minutes" --set model.context.dim=256 \
    --set model.context.cell_dim=256 --output "$out/lm-$name" --resume
}
lm en "$minutes" "$m30k/val.en.xz" "$data/lm/wiki.train.txt.xz" "$data/lm/novels.train.txt.xz"
# German has no other text here than the German side of the pairs.
lm de "$((minutes / 4))" "$m30k/val.de.xz" "$m30k/train.de.xz"
cut -f 1 "$out/data/tatoeba.train.tsv" >"$out/data/tatoeba.train.zh"
cut -f 1 "$out/data/tatoeba.dev.tsv" >"$out/data/tatoeba.dev.zh"
lm zh "$((minutes / 4))" "$out/data/tatoeba.dev.zh" "$out/data/wiki.zh" "$out/data/tatoeba.train.zh"

# Comparisons --------------------------------------------------------------------------------------
compare() {  # NAME TASK ARGUMENT...
  local name=$1
  shift
  elmore compare "$@" --output "$out/$name" >/dev/null
  echo "## $name" && cat "$out/$name/table.md"
}
pairs() { echo "$m30k/$1.de.xz,$m30k/$1.en.xz"; }
files=(--train "$(pairs train)" --dev "$(pairs val)" --test "$(pairs test_2016_flickr)")
languages=(--source-lm "$out/lm-de" --target-lm "$out/lm-en")
# `compare` gives a tenth of the pairs three times the epochs and a third of the batch.
compare tenth translate --encoders none,encoder,decoder,both,both-no-lm-loss,both-no-softmax --fractions 0.1 \
  --seeds "$seeds" --epochs 3 --set batch=32 "${files[@]}" "${languages[@]}"
compare whole translate --encoders none,both --seeds 1 --epochs 8 "${files[@]}" "${languages[@]}"

# As the published small model: lower case, punctuation apart in the data and in the score, no pretraining.
pairs() { echo "$out/data/m30k.$1.en,$out/data/m30k.$1.de"; }
compare en-de translate --encoders none --seeds 1 --epochs 15 --set task.bleu_tokenize=none \
  --train "$(pairs train)" --dev "$(pairs val)" --test "$(pairs test_2016_flickr)"

# Chinese to English: models that are kept, five of their translations, and a picture of the attention.
tatoeba=$out/data/tatoeba
shuf -n 5 --random-source="$tatoeba.test.tsv" "$tatoeba.test.tsv" | cut -f 1 >"$tatoeba.five.zh"
for start in none both; do
  model=$out/tatoeba-$start
  resume=()
  [ -f "$model/config.json" ] && resume=(--resume)
  elmore task train translate --train "$tatoeba.train.tsv" --dev "$tatoeba.dev.tsv" --source-lm "$out/lm-zh" \
    --target-lm "$out/lm-en" --set task.from_lms="$start" --epochs 8 --output "$model" "${resume[@]}"
  elmore task evaluate translate --model "$model" --test "$tatoeba.test.tsv"
  elmore task predict translate "$tatoeba.five.zh" --model "$model" --attention --picture "$model.svg" \
    --output "$model.jsonl"
done

# One language model begins both sides of a summary.
languages=(--source-lm "$out/lm-en" --target-lm "$out/lm-en" --set task.longest_source=150)
summaries() {  # NAME EPOCHS FILES...
  local name=$1 epochs=$2
  shift 2
  compare "$name" summarize --encoders none,both --seeds 1 --epochs "$epochs" "$@" "${languages[@]}" \
    --set task.copy_source=false
  compare "$name-copy" summarize --encoders none,both --seeds 1 --epochs "$epochs" "$@" "${languages[@]}"
}
summaries aeslc 5 --train "$data/summ/aeslc_train.jsonl.xz" --dev "$data/summ/aeslc_dev.jsonl.xz" \
  --test "$data/summ/aeslc_test.jsonl.xz"
bbc=$out/data/bbc
summaries bbc 12 --train "$bbc.train.jsonl" --dev "$bbc.dev.jsonl" --test "$bbc.test.jsonl"
