#!/usr/bin/env bash
# Make the throw-away environments in which the peers run. simple_elmo 0.9.2 has one with TensorFlow
# and the Keras it was written for (FOLDER-tf); AllenNLP 2.10.1's own modules run, unmodified,
# on the same torch as elmore. Its pinned dependencies are years old, so it comes without them and
# `allennlp_shim.py` stands in for what is then missing and never called here.
# Usage: benchmarks/peers.sh [FOLDER]   (default: $ELMORE_BENCH_ENV, else ~/.cache/elmore/bench-env)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-${ELMORE_BENCH_ENV:-${XDG_CACHE_HOME:-$HOME/.cache}/elmore/bench-env}}
python=${PYTHON:-python3}

test -x "$folder/bin/python" || "$python" -m venv "$folder"
# The same torch as elmore's; the other versions are AllenNLP's.
grep '^torch==' "$here/../constraints.txt" >"$folder/constraints.txt"
"$folder/bin/python" -m pip install --quiet --constraint "$folder/constraints.txt" \
    torch numpy scipy scikit-learn h5py nltk 'spacy<3.8' 'transformers<4.47' 'huggingface_hub<0.30' \
    'cached-path' dill base58 lmdb more-itertools termcolor overrides requests tqdm traitlets \
    tensorboardX sacremoses filelock conllu ftfy word2number py-rouge
"$folder/bin/python" -m pip install --quiet --no-deps allennlp==2.10.1 allennlp-models==2.10.1
test -x "$folder-tf/bin/python" || "$python" -m venv "$folder-tf"
"$folder-tf/bin/python" -m pip install --quiet simple_elmo==0.9.2 tensorflow-cpu tf_keras h5py
echo "$folder/bin/python" "$folder-tf/bin/python"
