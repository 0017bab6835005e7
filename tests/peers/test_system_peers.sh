#TEST timeout=3600 long=1
# Check that DDP, FSDP2 and DeepSpeed allocate what `zr plan --system` plans (tests/peers/systems.py): at the peak and
# between steps of two ranks on this processor, within 5 %.
. tests/peers/peers.inc
need_peers configs "deepspeed, torch, transformers" torch==2.15.0 numpy pyyaml transformers==5.24.0 \
    accelerate==1.15.0 megatron-core==0.16.1 deepspeed==0.19.8
beside systems.py "$ZR" "$tmp"
