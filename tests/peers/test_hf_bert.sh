#TEST timeout=600 long=1
# Compare BERT with transformers: losses, training, and directories written again (tests/peers/bert.py).
. tests/peers/peers.inc
need_transformers
beside bert.py "$ZR" "$tmp"
