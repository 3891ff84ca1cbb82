#!/usr/bin/env bash
# Features and fine-tuning in one table each, with language models of the same text and time: docs/finetuning.md. Stop it
# at any moment and run it again to go on. Some 15 core hours for the language models (LM_MINUTES=60 each), two at a time,
# and as long again for the comparisons. LM_MINUTES=0.3 SEEDS=1 tries the whole way first.
#   runs/finetuning.sh DATA [OUT]
# DATA holds lm/{wiki,novels}.*.txt.xz, zh/lm/wiki.*.txt.xz, tasks/sst5 and zh/ChnSentiCorp_htl_all.csv.xz; with
# weights/glove.*.npz there is a row of published vectors. LM_MINUTES (60), TUNE_EPOCHS (5) of the second stage, SEEDS (2),
# PRECISION (auto) of the language models, TUNE_PRECISION (float32) of the comparisons: bfloat16 where `elmore doctor` says
# that it is faster.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
data=$1
out=${2:-runs/out/finetuning}
minutes=${LM_MINUTES:-60}
tune_epochs=${TUNE_EPOCHS:-5}
seeds=${SEEDS:-2}
precision=${PRECISION:-auto}
tune_precision=${TUNE_PRECISION:-float32}
failed=0
export OMP_NUM_THREADS=1
# Ctrl-C stops all that is under way; trainings save where they are.
trap 'trap "" TERM; kill -TERM 0; wait; exit 130' INT TERM
mkdir -p "$out"

# One language -----------------------------------------------------------------------------------
# The texts of a task, one per line, without labels: what the second stage of ULMFiT reads.
write_texts() {  # TASK FILE TEXTS
  [ -f "$3" ] || python - "$@" <<'PYTHON'
import sys
from pathlib import Path
from elmore.tasks.recipes import find_task
task, train, texts = sys.argv[1:]
corpus = find_task(task).task.read(Path(train))
Path(texts).write_text("".join(" ".join(example.words) + "\n" for example in corpus.examples), encoding="utf-8")
PYTHON
}

# Words between spaces, a sentence per line: found once for all models. A line of a novel is a paragraph. BERT reads the
# text as it is, because it needs to know where documents end.
segment() {  # FILE WORDS
  [ -f "$2" ] && return
  python "$here/segment.py" --lines paragraph "$1" >"$2.partial"
  mv "$2.partial" "$2"
}

# All models read the same files for the same time, two of them at once, one thread each; static vectors read them five
# times. Tables of pieces begin from counts; the second stage is on the text of the task, and has the text of its
# development set for choosing. If one fails, the other queue goes on, and then the script ends.
models() {  # LANGUAGE TASK TRAIN DEV VALID CORPUS...
  local language=$1 task=$2 train=$3 dev=$4 valid=$5 to=$out/$1 words=() file name
  shift 5
  mkdir -p "$to"
  for file in "$@"; do
    name=$to/$(basename "${file%.txt*}").words
    segment "$file" "$name"
    words+=("$name")
  done
  segment "$valid" "$to/valid.words"
  write_texts "$task" "$train" "$to/task.txt"
  write_texts "$task" "$dev" "$to/task.dev.txt"
  lm() {  # NAME RECIPE SETTING...
    local name=$1 recipe=$2
    shift 2
    elmore pretrain "${words[@]}" --valid "$to/valid.words" --as-is --set reading.tokenize=false --recipe "$recipe" \
      --output "$to/$name" --resume --minutes "$minutes" --set precision="$precision" "$@"
  }
  second() {  # NAME
    elmore pretrain "$to/task.txt" --valid "$to/task.dev.txt" --as-is --set reading.tokenize=false --recipe ulmfit-tune \
      --from "$to/$1" --resume --epochs "$tune_epochs" --output "$to/$1-task" --set precision="$precision" \
      --set batches.pieces=2000 --set batches.longest=200
  }
  local counted=(--set table_start=static) bert=(--set instances.length=128) status=0
  # Chinese pieces are characters: some 6,000 of them, and longer rows.
  [ "$language" != zh ] || bert=(--set vocabulary.max_alphabet=6000 --set instances.length=256 --set rows=16)
  (
    elmore pretrain "${words[@]}" --as-is --recipe sgns --output "$to/sgns" --resume
    lm ulmfit ulmfit-laptop "${counted[@]}"
    second ulmfit
    lm lm-lstm causal-laptop
    lm elmo elmo-laptop
    lm context2vec context2vec-laptop
  ) & local one=$!
  (
    elmore pretrain "$@" --valid "$valid" --recipe bert-laptop --output "$to/bert" --resume --minutes "$minutes" \
      --set precision="$precision" "${bert[@]}"
    lm ulmfit-back ulmfit-laptop --set model.backward=true "${counted[@]}"
    second ulmfit-back
    lm gpt gpt-laptop "${counted[@]}"
    lm sa-lstm sa-lstm-laptop "${counted[@]}"
  ) & local two=$!
  wait "$one" || status=1
  wait "$two" || status=1
  return "$status"
}

# Two processes, one thread each, take the trainings of a comparison in turns. One that fails is told of, and the others go
# on. The shares of labels are of sentences: phrases have labels too, but not every way could use them.
compare() {  # NAME TASK ARGUMENT...
  local name=$1
  shift
  local command=(elmore compare "$@" --seeds "$seeds" --output "$out/$name" --cache "$out/cache"
    --set precision="$tune_precision" --set epochs=12 --set tuning.epochs=6 --set encoder.gpt.epochs=6)
  [ "$1" != sst ] || command+=(--set task.phrases=false)
  "${command[@]}" --quiet >/dev/null & local other=$!
  "${command[@]}" >/dev/null || true  # the other one may have all that is left
  wait "$other" || true
  "${command[@]}" --quiet >/dev/null || failed=1  # nothing is left, or it is tried again
  echo "## $name" && cat "$out/$name/table.md" || failed=1
}

# Everything; then the rows of 2015 (the last state alone, everything at one rate from the first step on), and a GPT without
# the loss of the text.
ways() {  # NAME TASK MODELS ARGUMENT...
  local name=$1 task=$2 to=$3 glove
  shift 3
  local all="none,glove:$to/sgns,$to/context2vec,$to/elmo,$to/elmo+tune"
  all+=",lm:$to/ulmfit-task,lm:$to/ulmfit+tune,lm:$to/ulmfit-task+tune,lm:$to/ulmfit-back-task+tune"
  all+=",lm:$to/ulmfit-task+tune+lm:$to/ulmfit-back-task+tune,gpt:$to/gpt+tune,bert:$to/bert+tune"
  for glove in "$data"/weights/glove.*.npz; do
    if [ "$task" = sst ] && [ -f "$glove" ]; then all+=",glove:$glove"; fi
  done
  compare "$name" "$task" --encoders "$all" "$@"
  compare "$name-2015" "$task" --encoders "lm:$to/lm-lstm+tune,lm:$to/sa-lstm+tune" "$@" --set encoder.lm.pooling=last \
    --set encoder.lm.gradual=false --set encoder.lm.floor_rate=1 --set encoder.lm.norm=false --set encoder.lm.lr=0.001 \
    --set encoder.lm.schedule.kind=constant --set encoder.lm.betas='[0.9,0.999]' --set encoder.lm.clip=1
  compare "$name-gpt-alone" "$task" --encoders "gpt:$to/gpt+tune" "$@" --set encoder.gpt.lm_weight=0
}

# English: sentences ------------------------------------------------------------------------------
sst=$data/tasks/sst5
models en sst "$sst/train.txt.xz" "$sst/dev.txt.xz" "$data/lm/wiki.valid.txt.xz" "$data"/lm/{wiki,novels}.train.txt.xz
files=(--train "$sst/train.txt.xz" --dev "$sst/dev.txt.xz" --test "$sst/test.txt.xz")
ways sst sst "$out/en" "${files[@]}" --fractions 0.1,1

# ULMFiT without each of its three tricks; the whole method is in the table above.
without() {  # NAME SETTING...
  local name=$1 settings=() setting
  shift
  for setting in "$@"; do settings+=(--set "$setting"); done
  compare "sst-without-$name" sst --encoders "lm:$out/en/ulmfit-task+tune" "${files[@]}" --fractions 0.1 "${settings[@]}"
}
# The rates that take the place of each trick are those whose mean over layers, or over time, is about the same.
without rates encoder.lm.floor_rate=1 encoder.lm.lr=0.003
without slanted encoder.lm.schedule.kind=constant encoder.lm.lr=0.005
without gradual encoder.lm.gradual=false

# Chinese: reviews of some 100 words ----------------------------------------------------------------
# The file has all positive reviews first: shuffled once, a tenth for choosing the epoch, a fifth for the test.
if [ ! -f "$out/reviews.train.jsonl" ]; then
  python - "$data/zh/ChnSentiCorp_htl_all.csv.xz" "$out/reviews" <<'PYTHON'
import csv, json, lzma, random, sys
source, target = sys.argv[1:]
with lzma.open(source, "rt", encoding="utf-8", newline="") as file:
    rows = [{"text": row["review"], "label": row["label"]} for row in csv.DictReader(file)]
random.Random(1).shuffle(rows)
a, b = len(rows) * 7 // 10, len(rows) * 8 // 10
for name, part in {"dev": rows[a:b], "test": rows[b:], "train": rows[:a]}.items():
    with open(f"{target}.{name}.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in part)
PYTHON
fi
models zh classify "$out/reviews.train.jsonl" "$out/reviews.dev.jsonl" "$data/zh/lm/wiki.valid.txt.xz" "$data/zh/lm/wiki.train.txt.xz"
ways reviews classify "$out/zh" --train "$out/reviews.train.jsonl" --dev "$out/reviews.dev.jsonl" \
  --test "$out/reviews.test.jsonl" --fractions 0.1
exit "$failed"
