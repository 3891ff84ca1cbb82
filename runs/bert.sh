#!/usr/bin/env bash
# A BERT pretrained here, and one that was published, beside each other: the tables of docs/results.md, "BERT". Stop it at
# any moment and run it again to go on; about six hours of core time. While it compares, the same command in a second
# terminal shares the trainings.
#   runs/bert.sh DATA PUBLISHED [OUT]
# DATA holds lm/{wiki2015,wiki,novels,eltec}.train and tasks/; PUBLISHED is a folder with a BERT, here all-MiniLM-L6-v2.
# MINUTES (90) of two cores for the pretraining; SEEDS (2) of every comparison.
set -euo pipefail
data=$1
published=$2
out=${3:-runs/out/bert}
seeds=${SEEDS:-2}
minutes=${MINUTES:-90}
tasks=$data/tasks
own=$out/bert-laptop
mkdir -p "$out"

if [ ! -f "$out/pretrained" ]; then
  OMP_NUM_THREADS=2 elmore pretrain "$data"/lm/{wiki2015,wiki,novels,eltec}.train.txt.xz --output "$own" --resume \
    --valid "$data/lm/wiki2015.valid.txt.xz" --recipe bert-laptop --minutes "$minutes"
  touch "$out/pretrained"
fi
export OMP_NUM_THREADS=1

# SNLI's development pairs are the training set here; their last tenth chooses the epoch.
if [ ! -f "$out/snli.dev.txt" ]; then
  xz -dc "$tasks/pairs/snli/dev.txt.xz" >"$out/snli.all.txt"
  pairs=$(wc -l <"$out/snli.all.txt")
  head -n $((pairs - pairs / 10)) "$out/snli.all.txt" >"$out/snli.train.txt"
  tail -n $((pairs / 10)) "$out/snli.all.txt" >"$out/snli.dev.txt"
fi

# Frozen: a mix of all layers below the task's own model, as with ELMo. Tuned: a linear layer on top, all of BERT trained.
compare() {
  local name=$1
  shift
  for bert in "$own" "$published"; do
    local label
    label=$name.$(basename "$bert")
    elmore compare "$name" --encoders "bert:$bert" --epochs 8 --seeds "$seeds" --cache "$out/cache" \
      --output "$out/$label.frozen" "$@"
    elmore compare "$name" --encoders "bert:$bert+tune" --epochs 3 --seeds "$seeds" --output "$out/$label.tuned" "$@"
  done
}
compare ner --train "$tasks/ner_conll2003/eng.train.xz" --dev "$tasks/ner_conll2003/eng.testa.xz" \
  --test "$tasks/ner_conll2003/eng.testb.xz"
compare pos --train "$tasks/pos_ud_ewt/en_ewt-ud-train.conllu.xz" --dev "$tasks/pos_ud_ewt/en_ewt-ud-dev.conllu.xz" \
  --test "$tasks/pos_ud_ewt/en_ewt-ud-test.conllu.xz"
compare sst --train "$tasks/sst5/train.txt.xz" --dev "$tasks/sst5/dev.txt.xz" --test "$tasks/sst5/test.txt.xz"
compare entailment --train "$out/snli.train.txt" --dev "$out/snli.dev.txt" --test "$tasks/pairs/snli/test.txt.xz"

# Word senses, by layer, with pieces averaged.
elmore convert "$published" "$out/mean" --pieces mean
elmore task evaluate wic --encoder "$out/mean" --json "$out/wic.json" --train "$tasks/wic/train.data.txt.xz" \
  --train "$tasks/wic/dev.data.txt.xz" --test "$tasks/wic/test.data.txt.xz"
elmore task evaluate wsd --encoder "$out/mean" --json "$out/wsd.json" --semcor "$tasks/wsd/semcor3.0_*.jsonl.xz" \
  --sets "$tasks/wsd/*.data.xml.xz"
