#TEST timeout=600 long=1
# Check that peft reads the adapters that zr trains, and zr those of peft, with the same logits and losses
# (tests/peers/adapters.py).
. tests/peers/peers.inc
need_peers peft "numpy, peft, torch, transformers" torch==2.15.0 transformers==5.23.0 peft==0.21.2 numpy==2.4.6
need_logits
beside adapters.py "$ZR" "$logits" "$tmp"
