#!/usr/bin/env bash
# The ablation of "Unsupervised Pretraining for Sequence to Sequence Learning" on Multi30k, German to English; a published
# figure from English to German; subject lines of e-mails, headlines of news, and Chinese to English: docs/seq2seq.md.
# Stop it at any moment and run it again to go on. While it compares, the same command in a second terminal shares the
# trainings; language models and the models that are kept have one process each.
#   runs/seq2seq.sh DATA [OUT]
# DATA holds mt/, summ/, lm/{wiki,novels}.train.txt.xz and zh/lm/wiki.train.txt.xz. LM_MINUTES (15) for the English
# language model, about a quarter of it for German and half for Chinese; SEEDS (3) for a tenth of the pairs; PRECISION
# (bfloat16; float32 on CPUs without it).
set -euo pipefail
data=$1
out=${2:-runs/out/seq2seq}
minutes=${LM_MINUTES:-15}
seeds=${SEEDS:-3}
here=$(cd "$(dirname "$0")" && pwd)
m30k=$data/mt/multi30k
export OMP_NUM_THREADS=1
mkdir -p "$out"
split=$out/data
[ -f "$split/aeslc.train.txt" ] || python "$here/split_seq2seq.py" "$data" "$split"

# Language models ----------------------------------------------------------------------------------
lm() {  # NAME MINUTES PIECES VALID CORPUS...
  local name=$1 minutes=$2 pieces=$3 valid=$4
  shift 4
  elmore pretrain "$@" --valid "$valid" --recipe causal-laptop --minutes "$minutes" --set model.context.dim=256 \
    --set model.context.cell_dim=256 --set vocabulary.size="$pieces" --set loop.valid_steps=200 \
    --output "$out/lm-$name" --resume
}
on() {  # NAME FROM EPOCHS VALID CORPUS: goes on with text of the task
  elmore pretrain "$5" --from "$out/lm-$2" --valid "$4" --recipe causal-laptop --epochs "$3" \
    --set loop.optimizer.lr=1e-3 --set loop.valid_steps=100 --output "$out/lm-$1" --resume
}
lm en "$minutes" 4000 "$m30k/val.en.xz" "$data/lm/wiki.train.txt.xz" "$data/lm/novels.train.txt.xz"
on captions en 5 "$m30k/val.en.xz" "$m30k/train.en.xz"
# German has no other text here than the German side of the pairs.
lm de "$(((minutes + 3) / 4))" 4000 "$m30k/val.de.xz" "$m30k/train.de.xz"
on mail en 2 "$split/aeslc.dev.txt" "$split/aeslc.train.txt"
on news en 2 "$split/bbc.dev.txt" "$split/bbc.train.txt"
lm zh-wiki "$((minutes / 2))" 6000 "$split/tatoeba.dev.zh" "$split/wiki.zh"
on zh zh-wiki 3 "$split/tatoeba.dev.zh" "$split/tatoeba.train.zh"
on short en 3 "$split/tatoeba.dev.en" "$split/tatoeba.train.en"

# Comparisons --------------------------------------------------------------------------------------
settings=(--set lr=1.5e-3 --set halve_after=1 --set warmup_steps=200 --set precision="${PRECISION:-bfloat16}"
  --set task.n_below=1 --set task.dropout=0.3)
compare() {  # NAME TASK ARGUMENT...
  local name=$1
  shift
  elmore compare "$@" "${settings[@]}" --output "$out/$name" >/dev/null
  echo "## $name" && cat "$out/$name/table.md"
}
pairs() { echo "$m30k/$1.de.xz,$m30k/$1.en.xz"; }
files=(--train "$(pairs train)" --dev "$(pairs val)" --test "$(pairs test_2016_flickr)" --set batch=80)
languages=(--source-lm "$out/lm-de" --target-lm "$out/lm-captions")
# `compare` gives a tenth of the pairs three times the epochs and a third of the batch.
compare tenth translate --encoders none,encoder,decoder,both,both-no-lm-loss,both-no-softmax --fractions 0.1 \
  --seeds "$seeds" --epochs 9 "${files[@]}" "${languages[@]}"
compare tenth-wiki translate --encoders both,both-no-lm-loss --fractions 0.1 --seeds 1 --epochs 9 "${files[@]}" \
  --source-lm "$out/lm-de" --target-lm "$out/lm-en"
compare whole translate --encoders none,both --seeds 1 --epochs 6 "${files[@]}" "${languages[@]}"

# As the published small model: lower case, punctuation apart in the data and in the score, no pretraining.
pairs() { echo "$split/m30k.$1.en,$split/m30k.$1.de"; }
compare en-de translate --encoders none --seeds 1 --epochs 12 --set batch=80 --set task.bleu_tokenize=none \
  --train "$(pairs train)" --dev "$(pairs val)" --test "$(pairs test_2016_flickr)"

# Chinese to English: models that are kept, five of their translations, and a picture of the attention.
tatoeba=$split/tatoeba
shuf -n 5 --random-source="$tatoeba.test.tsv" "$tatoeba.test.tsv" | cut -f 1 >"$tatoeba.five.zh"
for start in none both; do
  model=$out/tatoeba-$start
  resume=()
  [ -f "$model/config.json" ] && resume=(--resume)
  elmore task train translate --train "$tatoeba.train.tsv" --dev "$tatoeba.dev.tsv" --source-lm "$out/lm-zh" \
    --target-lm "$out/lm-short" --set task.from_lms="$start" --epochs 8 --set batch=80 "${settings[@]}" \
    --output "$model" "${resume[@]}"
  elmore task evaluate translate --model "$model" --test "$tatoeba.test.tsv"
  elmore task predict translate "$tatoeba.five.zh" --model "$model" --attention --picture "$model.svg" \
    --output "$model.jsonl"
done

# One language model begins both sides of a summary.
summaries() {  # NAME LM EPOCHS ARGUMENT...
  local name=$1 lm=$out/lm-$2 epochs=$3
  shift 3
  local more=(--seeds 1 --epochs "$epochs" --source-lm "$lm" --target-lm "$lm" --set task.longest_source=150)
  compare "$name" summarize --encoders none,both "$@" "${more[@]}" --set task.copy_source=false
  compare "$name-copy" summarize --encoders both "$@" "${more[@]}"
}
settings+=(--set lr=1e-3)
bbc=$split/bbc
summaries bbc news 10 --train "$bbc.train.jsonl" --dev "$bbc.dev.jsonl" --test "$bbc.test.jsonl"
summaries aeslc mail 2 --train "$data/summ/aeslc_train.jsonl.xz" --dev "$data/summ/aeslc_dev.jsonl.xz" \
  --test "$data/summ/aeslc_test.jsonl.xz" --set cosine=true
