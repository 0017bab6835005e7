#TEST timeout=600 long=1
# peft reads the adapters that zr trains, and zr the adapters of peft, with the same logits and losses
# (tests/peers/adapters.py). peft and transformers come from PyPI into build/peers/peft; ZR_PEERS names another virtual
# environment that has them.
set -u
peers=${ZR_PEERS:-$ZR_SOURCE/build/peers/peft}
has_peers() { "$peers/bin/python" -c 'import numpy, peft, torch, transformers' >/dev/null 2>&1; }
if ! has_peers; then
    echo "# installing peft, transformers and PyTorch into $peers"
    python3 -m venv "$peers" && "$peers/bin/pip" install -q torch==2.15.0 transformers==5.23.0 peft==0.21.2 numpy==2.4.6
fi
if ! has_peers; then
    echo "ok 1 - beside peft # SKIP it could not be installed from PyPI into $peers"
    echo "1..1"
    exit 0
fi
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
make -s -C "$ZR_SOURCE" "${ZR_BUILD#"$ZR_SOURCE"/}/examples/logits" || { echo "not ok 1 - examples/logits.c is built"; exit 1; }
HF_HUB_OFFLINE=1 "$peers/bin/python" -B "$ZR_SOURCE/tests/peers/adapters.py" "$ZR" "$ZR_BUILD/examples/logits" "$tmp"
