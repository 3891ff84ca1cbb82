#!/usr/bin/env bash
# Features and fine-tuning in one table each, with language models of the same text and time: docs/finetuning.md. Stop it
# at any moment and run it again to go on. About 18 core hours for the language models (LM_MINUTES=60 each), and as long
# again for the comparisons.
#   runs/finetuning.sh DATA [OUT]
# DATA holds lm/{wiki,novels}.*.txt.xz, zh/lm/wiki.*.txt.xz, tasks/sst5 and zh/ChnSentiCorp_htl_all.csv.xz; with
# weights/glove.*.npz there is a row of published vectors. LM_MINUTES (60), TUNE_EPOCHS (5) of the second stage, SEEDS (2).
set -euo pipefail
data=$1
out=${2:-runs/out/finetuning}
minutes=${LM_MINUTES:-60}
tune_epochs=${TUNE_EPOCHS:-5}
seeds=${SEEDS:-2}
export OMP_NUM_THREADS=1
mkdir -p "$out"

# One language -----------------------------------------------------------------------------------
# The texts of a task, one per line, without labels: what the second stage of ULMFiT reads.
write_texts() {  # TASK TRAIN TEXTS
  [ -f "$3" ] || python - "$@" <<'PYTHON'
import sys
from pathlib import Path
from elmore.tasks.recipes import find_task
task, train, texts = sys.argv[1:]
corpus = find_task(task).task.read(Path(train))
Path(texts).write_text("".join(" ".join(example.words) + "\n" for example in corpus.examples), encoding="utf-8")
PYTHON
}

# All models read the same files for the same time; the second stage is on the text of the task.
models() {  # LANGUAGE TASK TRAIN VALID CORPUS...
  local task=$2 train=$3 valid=$4 to=$out/$1
  shift 4
  mkdir -p "$to"
  local reading=(--set reading.tokenize=true --set reading.lines=sentence --resume)
  local timed=(--minutes "$minutes" "${reading[@]}" --valid "$valid")
  elmore pretrain "$@" --recipe sgns --output "$to/sgns" --minutes "$minutes" "${reading[@]}"
  elmore pretrain "$@" --recipe context2vec-laptop --output "$to/context2vec" "${timed[@]}"
  elmore pretrain "$@" --recipe ulmfit-laptop --output "$to/ulmfit" "${timed[@]}"
  elmore pretrain "$@" --recipe ulmfit-laptop --set model.backward=true --output "$to/ulmfit-back" "${timed[@]}"
  elmore pretrain "$@" --recipe causal-laptop --output "$to/lm-lstm" "${timed[@]}"
  elmore pretrain "$@" --recipe sa-lstm-laptop --output "$to/sa-lstm" "${timed[@]}"
  elmore pretrain "$@" --recipe elmo-laptop --output "$to/elmo" "${timed[@]}"
  elmore pretrain "$@" --recipe gpt-laptop --output "$to/gpt" "${timed[@]}"
  elmore pretrain "$@" --recipe bert-laptop --output "$to/bert" "${timed[@]}"
  write_texts "$task" "$train" "$to/task.txt"
  for name in ulmfit ulmfit-back; do
    elmore pretrain "$to/task.txt" --recipe ulmfit-tune --from "$to/$name" --epochs "$tune_epochs" --output "$to/$name-task" \
      --set batches.pieces=2000 --set batches.longest=200 "${reading[@]}"
  done
}

# Two processes, one thread each, take the trainings of a comparison in turns.
compare() {  # NAME TASK ARGUMENT...
  local name=$1
  shift
  local command=(elmore compare "$@" --seeds "$seeds" --set epochs=8 --output "$out/$name" --cache "$out/cache")
  "${command[@]}" --quiet >/dev/null & local other=$!
  "${command[@]}" >/dev/null
  wait "$other"
  echo "## $name" && cat "$out/$name/table.md"
}

# Everything; then the rows of 2015 (the last state alone, everything at one rate from the first step on), and a GPT without
# the loss of the text.
ways() {  # NAME TASK MODELS ARGUMENT...
  local name=$1 task=$2 to=$3
  shift 3
  local all="none,glove:$to/sgns,$to/context2vec,$to/elmo,$to/elmo+tune"
  all+=",lm:$to/ulmfit-task,lm:$to/ulmfit+tune,lm:$to/ulmfit-task+tune,lm:$to/ulmfit-back-task+tune"
  all+=",lm:$to/ulmfit-task+tune+lm:$to/ulmfit-back-task+tune,gpt:$to/gpt+tune,bert:$to/bert+tune"
  compare "$name" "$task" --encoders "$all" "$@"
  compare "$name-2015" "$task" --encoders "lm:$to/lm-lstm+tune,lm:$to/sa-lstm+tune" "$@" --set encoder.lm.pooling=last \
    --set encoder.lm.gradual=false --set encoder.lm.floor_rate=1 --set encoder.lm.norm=false --set encoder.lm.lr=0.001 \
    --set encoder.lm.schedule.kind=constant
  compare "$name-gpt-alone" "$task" --encoders "gpt:$to/gpt+tune" "$@" --set encoder.gpt.lm_weight=0
}

# English: sentences ------------------------------------------------------------------------------
sst=$data/tasks/sst5
models en sst "$sst/train.txt.xz" "$data/lm/wiki.valid.txt.xz" "$data"/lm/{wiki,novels}.train.txt.xz
files=(--train "$sst/train.txt.xz" --dev "$sst/dev.txt.xz" --test "$sst/test.txt.xz")
ways sst sst "$out/en" "${files[@]}" --fractions 0.1,1
for glove in "$data"/weights/glove.*.npz; do
  [ -f "$glove" ] && compare sst-static sst --encoders "none,glove:$glove" "${files[@]}" --fractions 0.1,1
done

# ULMFiT without each of its three tricks; the whole method is in the table above.
without() {
  compare "sst-without-$1" sst --encoders "lm:$out/en/ulmfit-task+tune" "${files[@]}" --fractions 0.1 --set "$2"
}
without rates encoder.lm.floor_rate=1
without slanted encoder.lm.schedule.kind=constant
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
models zh classify "$out/reviews.train.jsonl" "$data/zh/lm/wiki.valid.txt.xz" "$data/zh/lm/wiki.train.txt.xz"
ways reviews classify "$out/zh" --train "$out/reviews.train.jsonl" --dev "$out/reviews.dev.jsonl" \
  --test "$out/reviews.test.jsonl" --fractions 0.1
