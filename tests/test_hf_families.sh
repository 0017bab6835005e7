#TEST timeout=900 long=1
# Models of the Llama kind beside transformers: logits, greedy tokens, trained weights, and directories written again
# (tests/peers/families.py). transformers comes from PyPI as for test_hf_peers.sh; ZR_PEERS names a virtual environment
# that has it.
set -u
peers=${ZR_PEERS:-$ZR_SOURCE/build/peers/hf}
has_peers() { "$peers/bin/python" -c 'import numpy, safetensors, tokenizers, torch, transformers' >/dev/null 2>&1; }
if ! has_peers; then
    echo "# installing transformers, tokenizers and PyTorch into $peers"
    python3 -m venv "$peers" && "$peers/bin/pip" install -q torch==2.15.0 transformers==5.23.0 tokenizers==0.23.3 numpy==2.4.6
fi
if ! has_peers; then
    echo "ok 1 - beside transformers # SKIP it could not be installed from PyPI into $peers"
    echo "1..1"
    exit 0
fi
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
make -s -C "$ZR_SOURCE" "${ZR_BUILD#"$ZR_SOURCE"/}/examples/logits" || { echo "not ok 1 - examples/logits.c is built"; exit 1; }
HF_HUB_OFFLINE=1 "$peers/bin/python" -B "$ZR_SOURCE/tests/peers/families.py" "$ZR" "$ZR_BUILD/examples/logits" "$tmp" "${ZR_MPIRUN:-}"
