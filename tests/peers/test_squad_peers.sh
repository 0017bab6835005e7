#TEST timeout=600 long=1
# Check that questions become the same samples as by transformers' squad_convert_examples_to_features, that answers are
# found as by its compute_predictions_logits, that labelled texts are cut as by tokenizers, and that tags and entities are
# those of run_ner.py and seqeval (tests/peers/squad.py).
# The packages come from PyPI into build/peers/squad; ZR_PEERS_SQUAD names another virtual environment that has them.
# transformers 5 no longer has these functions.
set -u
peers=${ZR_PEERS_SQUAD:-$ZR_SOURCE/build/peers/squad}
has_peers() { "$peers/bin/python" -c 'import seqeval, tokenizers, transformers.data.processors.squad' >/dev/null 2>&1; }
if ! has_peers; then
    echo "# installing transformers 4.57, tokenizers and seqeval into $peers"
    python3 -m venv "$peers" && "$peers/bin/pip" install -q transformers==4.57.6 tokenizers==0.22.2 numpy seqeval==1.2.2
fi
if ! has_peers; then
    echo "ok 1 - beside transformers # SKIP they could not be installed from PyPI into $peers"
    echo "1..1"
    exit 0
fi
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
HF_HUB_OFFLINE=1 "$peers/bin/python" -B "$ZR_SOURCE/tests/peers/squad.py" "$ZR_BUILD/libzr.so" "$tmp"
