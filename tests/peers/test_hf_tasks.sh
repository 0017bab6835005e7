#TEST timeout=600 long=1
# Compare BERT with the heads of fine-tuning with transformers: losses, scores, training, new heads, and directories
# written again (tests/peers/tasks.py).
. tests/peers/peers.inc
need_transformers
beside tasks.py "$ZR" "$tmp"
