#TEST timeout=1800 long=1
# Check that the parsers of DeepSpeed, accelerate, transformers, megatron-core and torchtitan accept the configurations
# that `zr plan --emit` writes (tests/peers/configs.py). ZR_PLANS is the number of random plans of each.
. tests/peers/peers.inc
need_peers configs "accelerate, deepspeed, megatron.core, torch, transformers, yaml" torch==2.15.0 numpy pyyaml \
    transformers==5.24.0 accelerate==1.15.0 megatron-core==0.16.1 deepspeed==0.19.8
# torchtitan has many dependencies: configs.py says if it cannot be imported.
[ -n "${ZR_PEERS-}" ] || "$peers/bin/pip" install -q torchtitan==0.3.0
beside configs.py "$ZR" "$tmp" "$ZR_SOURCE/tests/peers/megatron_options.txt"
