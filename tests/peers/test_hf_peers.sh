#TEST timeout=600 long=1
# Check that transformers and tokenizers read zr's files and zr theirs, with the same logits, tokens and perplexity
# (tests/peers/hf.py).
. tests/peers/peers.inc
need_transformers
need_logits
beside hf.py "$ZR" "$logits" "$tmp" ${ZR_SHARED:+"$ZR_SHARED"}
