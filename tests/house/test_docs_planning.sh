#TEST timeout=120 long=more
# Run the commands of the pages on planning, simulation and memory as they are written.
. tests/house/docs.inc

printf '%s\n' '{"model": {"n_layer": 2, "n_embd": 64, "n_head": 2}, "data": {"seq_length": 64}}' >config.json
# Files of other systems.
mkdir -p DIR
printf '%s\n' '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "rms_norm_eps": 1e-5,
 "max_position_embeddings": 4096, "rope_theta": 10000.0, "tie_word_embeddings": false}' >DIR/config.json
printf '%s\n' '{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 3},
 "bf16": {"enabled": true}}' >ds_config.json
printf '%s\n' 'distributed_type: FSDP' 'num_processes: 4' 'mixed_precision: bf16' 'fsdp_config:' '  fsdp_version: 2' \
    '  fsdp_reshard_after_forward: true' >accelerate.yaml
"$ZR" plan --preset llama3-8b --ranks 8 --emit megatron -o train_llama.sh --quiet
for page in planning simulate memory; do follow $page <"$ZR_SOURCE/docs/$page.md"; done
check "a picture" grep -q '^<svg' step.svg
check "a table" grep -q '^ranks,stage,step_sec' lines.csv
echo "1..$n"
