#TEST timeout=900 long=1
# Compare models of the Llama kind with transformers: logits, greedy tokens, trained weights, and directories written
# again (tests/peers/families.py).
. tests/peers/peers.inc
need_transformers
need_logits
beside families.py "$ZR" "$logits" "$tmp" "${ZR_MPIRUN:-}"
