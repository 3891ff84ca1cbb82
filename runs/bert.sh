#!/usr/bin/env bash
# A BERT pretrained here, and one that was published, beside each other: the tables of docs/results.md, "BERT". Stop it at
# any moment and run it again to go on; about six hours of core time.
#   runs/bert.sh DATA PUBLISHED [OUT]
# DATA holds lm/{wiki2015,wiki,novels,eltec}.train and tasks/; PUBLISHED is a folder with a BERT, here all-MiniLM-L6-v2.
# MINUTES (90) of two cores for the pretraining; SEEDS (2) of every comparison; PRECISION (float32) of the fine-tuning,
# bfloat16 where `elmore doctor` says that it is faster.
set -euo pipefail
data=$1
published=$2
out=${3:-runs/out/bert}
seeds=${SEEDS:-2}
minutes=${MINUTES:-90}
precision=${PRECISION:-float32}
tasks=$data/tasks
own=$out/bert-laptop
mkdir -p "$out"

if [ ! -f "$out/pretrained" ]; then
  OMP_NUM_THREADS=2 elmore pretrain "$data"/lm/{wiki2015,wiki,novels,eltec}.train.txt.xz --output "$own" --resume \
    --valid "$data/lm/wiki2015.valid.txt.xz" --recipe bert-laptop --minutes "$minutes"
  touch "$out/pretrained"
fi
export OMP_NUM_THREADS=1
failed=0
# Ctrl-C stops all that is under way; trainings save where they are.
trap 'trap "" TERM; kill -TERM 0; wait; exit 130' INT TERM

# SNLI's development pairs are the training set here; their last tenth chooses the epoch.
if [ ! -f "$out/snli.dev.txt" ]; then
  xz -dc "$tasks/pairs/snli/dev.txt.xz" >"$out/snli.all.txt"
  pairs=$(wc -l <"$out/snli.all.txt")
  head -n $((pairs - pairs / 10)) "$out/snli.all.txt" >"$out/snli.train.txt"
  tail -n $((pairs / 10)) "$out/snli.all.txt" >"$out/snli.dev.txt"
fi

# Frozen: a mix of all layers below the task's own model, with `small-en` beside them. Tuned: a linear layer on top, all of
# BERT trained. Two processes, one thread each, take the trainings of a comparison in turns.
compare() {  # TASK ENCODERS HOW ARGUMENT...
  local name=$1 encoders=$2 how=$3
  shift 3
  local command=(elmore compare "$name" --encoders "$encoders" --seeds "$seeds" --output "$out/$name.$how" "$@")
  "${command[@]}" --quiet >/dev/null & local other=$!
  "${command[@]}" >/dev/null || true  # the other one may have all that is left
  wait "$other" || true
  "${command[@]}" --quiet >/dev/null || failed=1  # nothing is left, or it is tried again
  echo "## $name, $how" && cat "$out/$name.$how/table.md" || failed=1
}
both() {  # TASK FILES...
  local name=$1
  shift
  compare "$name" "small-en,bert:$own,bert:$published" frozen --epochs 8 --cache "$out/cache" "$@"
  compare "$name" "bert:$own+tune,bert:$published+tune" tuned --epochs 3 --set precision="$precision" "$@"
}
both ner --train "$tasks/ner_conll2003/eng.train.xz" --dev "$tasks/ner_conll2003/eng.testa.xz" \
  --test "$tasks/ner_conll2003/eng.testb.xz"
both pos --train "$tasks/pos_ud_ewt/en_ewt-ud-train.conllu.xz" --dev "$tasks/pos_ud_ewt/en_ewt-ud-dev.conllu.xz" \
  --test "$tasks/pos_ud_ewt/en_ewt-ud-test.conllu.xz"
both sst --train "$tasks/sst5/train.txt.xz" --dev "$tasks/sst5/dev.txt.xz" --test "$tasks/sst5/test.txt.xz"
both entailment --train "$out/snli.train.txt" --dev "$out/snli.dev.txt" --test "$tasks/pairs/snli/test.txt.xz"

# Word senses, by layer, with pieces averaged.
for bert in "$own" "$published"; do
  mean=$out/mean.$(basename "$bert")
  [ -d "$mean" ] || elmore convert "$bert" "$mean" --pieces mean
  elmore demo --model "$mean" --json >"$mean.demo.json"
  elmore task evaluate wic --encoder "$mean" --json "$mean.wic.json" --train "$tasks/wic/train.data.txt.xz" \
    --train "$tasks/wic/dev.data.txt.xz" --test "$tasks/wic/test.data.txt.xz"
  elmore task evaluate wsd --encoder "$mean" --json "$mean.wsd.json" --semcor "$tasks/wsd/semcor3.0_*.jsonl.xz" \
    --sets "$tasks/wsd/*.data.xml.xz"
done
exit "$failed"
