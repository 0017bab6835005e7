#TEST timeout=900 long=1
# Compare random combinations of a tokenizer's steps with the package tokenizers (tests/peers/steps.py).
. tests/peers/peers.inc
need_peers steps "numpy, tokenizers" tokenizers==0.23.3 numpy==2.4.6
beside steps.py "$ZR_BUILD/libzr.so" "$tmp"
