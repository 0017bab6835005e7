#TEST timeout=600 long=1
# BERT beside transformers: losses, training, and directories written again (tests/peers/bert.py).
. tests/peers.inc
need_transformers
beside bert.py "$ZR" "$tmp"
