#TEST timeout=120
# `zr plan --from` and `--emit`: files of other systems, read and written, and wrong ones.
. tests/support/command.inc

plan() { "$ZR" plan --quiet --profile h100 "$@"; }
# again FORMAT ARGUMENT...: what --emit writes is read as the same plan, and written again as the same file.
again() {
    format=$1
    shift
    rm -f first second
    plan --preset llama3.1-8b --seq 2048 --ranks 8 "$@" --emit "$format" -o first --json >planned &&
        plan --from first --emit "$format" -o second --json >read && cmp first second && python3 -c "
import json
planned, read = (json.load(open(name)) for name in ('planned', 'read'))
planned.pop('options'), read.pop('options')  # those of a file are all given, also where the plan had auto
assert planned == read, (planned, read)"
}

check 'DeepSpeed' again deepspeed --stage 2 --gradient_accumulation_steps=4 --with overlap_comm=true \
    --zero_optimization.offload_optimizer.device=cpu
check 'its file is JSON with what is expected' python3 -c "
import json
told = json.load(open('first'))
assert told['zero_optimization'] == {'stage': 2, 'overlap_comm': True, 'offload_optimizer': {'device': 'cpu'}}, told
assert told['train_batch_size'] == 32 and told['gradient_clipping'] == 1
assert any('nvidia-smi' in line for line in told['zr']['about'])"
check 'and a configuration of zr' sh -c '"$0" plan --quiet first --preset llama3.1-8b --ranks 8 --schedule >/dev/null' "$ZR"
check 'DeepSpeed, with quantised exchanges' again deepspeed --stage 3 --zero_optimization.zero_quantized_weights=true \
    --zero_optimization.zero_quantized_gradients=true --zero_optimization.zeropp_loco_param.reset_T=1024
check 'which it reads in its own section' python3 -c "
import json
told = json.load(open('first'))
assert told['zero_optimization']['zero_quantized_weights'] is told['zero_optimization']['zero_quantized_gradients'] is True
assert told['zero_optimization']['zeropp_loco_param']['reset_T'] == 1024, told
assert 'quantized' not in json.dumps(told['zr']), told['zr']"
check 'accelerate with FSDP2' again accelerate --stage 3 --activation_checkpointing.policy=unit --gradient_clipping=0
check 'accelerate with DeepSpeed' again accelerate --system deepspeed --stage 3 --zero_optimization.offload_param.device=cpu
check 'fully_shard' again fsdp2 --stage 2
check 'its file is Python' python3 -m py_compile first
check 'torchtitan' again torchtitan --stage 3 --parallel.tensor=2 --activation_checkpointing.policy=unit
check 'its lines say what is expected' grep -q '^# expected memory of a rank: allocated .* GB, reserved ' first
check 'Megatron-LM' again megatron --stage 1 --parallel.tensor=2 --parallel.pipeline=2 --parallel.schedule=interleaved \
    --parallel.chunks=4 --gradient_accumulation_steps=4 --with sequence-parallel=true
check 'its file is a shell script' bash -n first
check 'the Trainer' again trainer --stage 3 --activation_checkpointing.policy=unit

mkdir model
cat >model/config.json <<'EOF'
{"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 16, "num_hidden_layers": 8,
 "vocab_size": 32000, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "hidden_act": "silu"}
EOF
cat >ds.json <<'EOF'
{"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": true},
 "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": "auto", "reduce_bucket_size": 1e7}}
EOF
check 'a Trainer with a file of DeepSpeed, and a model without weights' plan --ranks 2 --json --from \
    '--per_device_train_batch_size 4 --bf16 --deepspeed ds.json --model_name_or_path model --model_max_length 512'
check 'is that run' python3 -c "
import json
told = json.load(open('out'))
assert told['system'] == 'deepspeed' and told['stage'] == 3
assert told['options']['stage3_param_persistence_threshold'] == '10240'
assert told['options']['reduce_bucket_size'] == '10000000'"
check 'options on the command line win' sh -c '"$0" plan --quiet --preset gpt2-124m --ranks 2 --from ds.json --with \
    reduce_bucket_size=5e6 --json | grep -q "\"reduce_bucket_size\": \"5000000\""' "$ZR"

check 'both types of 16 bit' fails 78 ' --from:1: fp16.enabled: it is true, and so is bf16.enabled.*(bf16)' plan --preset gpt2-124m --from '--bf16 True --fp16 True --optim adafactor'
echo '{"train_batch_size": 9, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 1}}' >odd.json
check 'a batch that does not divide' fails 78 'train_batch_size' plan --preset gpt2-124m --ranks 2 --from odd.json
echo '{"zero_optimization": {"stage": 1, "overlap_com": true}}' >slip.json
check 'a misspelt key of DeepSpeed' fails 78 '^zr: slip.json:1: .*did you mean zero_optimization.overlap_comm?' \
    plan --preset gpt2-124m --from slip.json
echo '{"zero_optimization": {"stage": 1}, "tensorboard": {"enabled": true}, "wandb": {"enabled": false}}' >board.json
check 'loggers have no effect' sh -c '"$0" plan --preset gpt2-124m --profile h100 --from board.json 2>&1 >/dev/null |
    grep -q "no effect on the plan: tensorboard.enabled, wandb.enabled"' "$ZR"
check 'a model that is none' fails 2 'names the model nosuch, which is neither a preset nor a directory' plan --from \
    '--per_device_train_batch_size 1 --bf16 --model_name_or_path nosuch'
check 'selective recompute of torchtitan' again torchtitan --stage 3 --with activation_checkpoint=selective
check 'recompute on the command line wins' sh -c '"$0" plan --quiet --from first --with activation_checkpoint=full \
    --profile h100 | grep -q "recompute unit"' "$ZR"
check 'stages of a rank by an option' again megatron --stage 1 --parallel.pipeline=2 --gradient_accumulation_steps=4 \
    --with num-virtual-stages-per-pipeline-rank=2
check 'no model' fails 2 'from names no model; give --preset NAME' plan --from ds.json
echo 'some words' >words
check 'no configuration' fails 78 'words:1: no configuration' plan --preset gpt2-124m --from words
check 'a model that torchtitan lacks' fails 69 'it has llama3.1-8b' plan --preset gpt2-124m --stage 3 --emit torchtitan
check 'a stage that Megatron-LM lacks' fails 69 'stage' plan --preset gpt2-124m --stage 3 --emit megatron
check 'AdamW8bit, which DeepSpeed lacks' fails 69 'which DeepSpeed does not have' \
    plan --preset gpt2-124m --optimizer.type=AdamW8bit --emit deepspeed
# optimizer_is TYPE NAME: the Trainer's name of an optimizer
optimizer_is() { plan --preset gpt2-124m --optimizer.type="$1" --emit trainer | grep -qx "optim: $2"; }
check "the Trainer's AdamW" optimizer_is AdamW adamw_torch_fused
check "the Trainer's AdamW8bit" optimizer_is AdamW8bit adamw_bnb_8bit
check "the Trainer's Lion" optimizer_is Lion lion_32bit
check 'a format that is none' fails 2 'expected one of deepspeed, accelerate' plan --preset gpt2-124m --emit nemo
check 'a system of another format' fails 2 'is for --system megatron' plan --preset gpt2-124m --system ddp --emit megatron
echo precious >kept
check 'another file is not overwritten' fails 73 kept plan --preset gpt2-124m --stage 1 --emit megatron -o kept
check 'and is as it was' grep -q precious kept
echo "1..$n"
