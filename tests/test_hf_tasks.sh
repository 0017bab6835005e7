#TEST timeout=600 long=1
# BERT with the heads of fine-tuning beside transformers: losses, scores, training, new heads, and directories written
# again (tests/peers/tasks.py).
. tests/peers.inc
need_transformers
beside tasks.py "$ZR" "$tmp"
