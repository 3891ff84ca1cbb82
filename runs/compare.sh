#!/usr/bin/env bash
# With and without ELMo on seven tasks, and word senses: the tables of docs/results.md. Stop it at any moment and run it
# again to go on; about two hours on two cores (SEEDS=1 for a third of that).
#   runs/compare.sh DATA [OUT] [MODEL]
# DATA holds tasks/{ner_conll2003,pos_ud_ewt,sst5,pairs/snli,squad,srl_ewt_propbank,coref_litbank,wsd,wic} and weights/glove.*.npz.
set -euo pipefail
data=$1
out=${2:-runs/out/compare}
model=${3:-small-en}
seeds=${SEEDS:-3}
tasks=$data/tasks
glove=glove:$(ls "$data"/weights/glove.*.npz | head -n 1)
cached=(--cache "$out/cache")  # every sentence is embedded once, whatever task, seed or encoder
export OMP_NUM_THREADS=1
mkdir -p "$out"

# Two processes, one thread each, take the trainings of a comparison in turns.
compare() {
  local name=$1 status=0
  shift
  local command=(elmore compare "$name" --encoders "none,$glove,$glove+$model" --seeds "$seeds"
    --output "$out/$name" "${cached[@]}" "$@")
  "${command[@]}" --quiet >/dev/null & local other=$!
  "${command[@]}" >/dev/null || status=$?
  wait "$other" || status=$?
  echo "## $name" && cat "$out/$name/table.md"
  return "$status"
}

# SNLI's development pairs are the training set here; their last tenth chooses the epoch.
if [ ! -f "$out/snli.dev.txt" ]; then
  xz -dc "$tasks/pairs/snli/dev.txt.xz" >"$out/snli.all.txt"
  pairs=$(wc -l <"$out/snli.all.txt")
  head -n $((pairs - pairs / 10)) "$out/snli.all.txt" >"$out/snli.train.txt"
  tail -n $((pairs / 10)) "$out/snli.all.txt" >"$out/snli.dev.txt"
fi

failed=0
compare ner --epochs 10 --fractions 0.01,0.1,1 --train "$tasks/ner_conll2003/eng.train.xz" \
  --dev "$tasks/ner_conll2003/eng.testa.xz" --test "$tasks/ner_conll2003/eng.testb.xz" || failed=1
compare pos --epochs 10 --train "$tasks/pos_ud_ewt/en_ewt-ud-train.conllu.xz" \
  --dev "$tasks/pos_ud_ewt/en_ewt-ud-dev.conllu.xz" \
  --test "$tasks/pos_ud_ewt/en_ewt-ud-test.conllu.xz" || failed=1
compare sst --epochs 8 --train "$tasks/sst5/train.txt.xz" --dev "$tasks/sst5/dev.txt.xz" \
  --test "$tasks/sst5/test.txt.xz" || failed=1
compare entailment --epochs 10 --train "$out/snli.train.txt" --dev "$out/snli.dev.txt" \
  --test "$tasks/pairs/snli/test.txt.xz" || failed=1
compare qa --epochs 5 --train "$tasks/squad/squad1.1-dev-split.train.json.xz" \
  --dev "$tasks/squad/squad1.1-dev-split.dev.json.xz" \
  --test "$tasks/squad/squad1.1-dev-split.test.json.xz" || failed=1

# A training takes about four minutes of one core per epoch.
compare srl --epochs 3 --set lr=0.002 \
  --train "$tasks/srl_ewt_propbank/train.jsonl.xz" --dev "$tasks/srl_ewt_propbank/dev.jsonl.xz" \
  --test "$tasks/srl_ewt_propbank/test.jsonl.xz" || failed=1

# One core reads all documents once in about 70 s.
compare coref --epochs 8 --train "$tasks/coref_litbank/train.conll.xz" \
  --dev "$tasks/coref_litbank/dev.conll.xz" --test "$tasks/coref_litbank/test.conll.xz" || failed=1

# Word senses need no training: static vectors and the model, one beside the other.
senses() {
  local name=$1 encoder=$2
  shift 2
  local table
  table=$out/$name.$(basename "${encoder%%:*}")
  [ -f "$table.md" ] && return
  elmore task evaluate "$name" --encoder "$encoder" --json "$table.json" "${cached[@]}" \
    "$@" >"$table.tmp" &&
    mv "$table.tmp" "$table.md"
}
wsd=(--semcor "$tasks/wsd/semcor3.0_*.jsonl.xz" --sets "$tasks/wsd/*.data.xml.xz")
wic=(--train "$tasks/wic/train.data.txt.xz" --train "$tasks/wic/dev.data.txt.xz"
  --test "$tasks/wic/test.data.txt.xz")
pos=(--train "$tasks/pos_ud_ewt/en_ewt-ud-train.conllu.xz"
  --test "$tasks/pos_ud_ewt/en_ewt-ud-test.conllu.xz")
all_senses() {
  senses wsd "$1" "${wsd[@]}" && senses wic "$1" "${wic[@]}" &&
    senses probes "$1" "${pos[@]}" "${wsd[@]}"
}
all_senses "$glove" & other=$!
all_senses "$model" || failed=1
wait "$other" || failed=1
for table in "$out"/{wsd,wic,probes}.*.md; do echo "## $(basename "$table" .md)" && cat "$table"; done
exit "$failed"
