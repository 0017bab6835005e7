#TEST timeout=600 long=1
# transformers and tokenizers read what zr writes and zr what they write, with the same logits, tokens and perplexity
# (tests/peers/hf.py).
. tests/peers.inc
need_transformers
need_logits
beside hf.py "$ZR" "$logits" "$tmp" ${ZR_SHARED:+"$ZR_SHARED"}
