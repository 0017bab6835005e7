#TEST timeout=60
# `zr plan --system`: the table, JSON, what fits, refusals with a remedy.
. tests/support/command.inc

plan() { "$ZR" plan --quiet --preset llama3-8b --seq 4096 --ranks 4 "$@"; }
# row NAME PATTERN FILE: the line of a table that begins with NAME matches.
row() { grep -q "^  $1 .*$2" "$3" || { cat "$3" >&2; return 1; }; }

check 'a table beside zr' plan --system deepspeed --stage 3 --profile h100
check 'with three numbers' sh -c 'grep -q "^  allocated " out && grep -q "^  reserved .* to " out &&
    grep -q "^  nvidia-smi .* to .*; 1 communicator" out'
check 'with what fits' grep -q '^fits in 85.52 GB? yes, ' out
check 'with what is not proved' grep -q '^Not proved: ' out
check 'with the other ways of the system' sh -c '[ "$(grep -c "^  [0-3]  *\(none\|unit\) " out)" = 14 ]'

check 'a memory that is too small' plan --system deepspeed --stage 3 --memory 24GB
check 'is exceeded by so much' grep -q '^fits in 24.00 GB? no, [0-9.]* GB too much' out
check 'a memory between the least and the expected' plan --system deepspeed --stage 3 --memory 75GB
check 'is not enough, but nearly' grep -q '^fits in 75.00 GB? no, .* too much; at best it just fits' out
check 'the same as JSON' plan --system deepspeed --stage 3 --memory 24GB --json
check 'with its numbers' sh -c 'python3 -c "
import json
said = json.load(open(\"out\"))
assert said[\"fits\"] is False and said[\"spare\"] == said[\"limit\"] - said[\"nvidia_smi\"][\"bytes\"]
assert said[\"allocated\"] < said[\"reserved\"][\"bytes\"] < said[\"nvidia_smi\"][\"bytes\"]
parts = said[\"pipeline_ranks\"][0][\"parts\"]
assert abs(sum(parts.values()) / said[\"allocated\"] - 1) < 1e-6
assert said[\"options\"][\"reduce_bucket_size\"] == \"500000000\"
"'
check 'JSON with advice' plan --system ddp --memory 24GB --json --advice
check 'has the ways of the system, and zr' sh -c 'python3 -c "
import json
said = json.load(open(\"out\"))
assert [(way[\"stage\"], way[\"recompute\"]) for way in said[\"ways\"]] == [(0, \"none\"), (0, \"unit\")]
assert said[\"ways\"][0][\"allocated\"] == said[\"allocated\"] and said[\"zr_needs\"] > said[\"zr_allocated\"]
"'
check 'the fullest rank of a pipeline' plan --system megatron --stage 1 --parallel.pipeline=4 \
    --gradient_accumulation_steps=8 --with attention-backend=flash
check 'is named' grep -q 'pipeline rank 0 of 0 to 3 is the fullest' out
check 'options are shown' grep -q '^options: attention-backend=flash$' out
check 'what zr refuses is planned' plan --system megatron --stage 1 --parallel.pipeline=4 --parallel.tensor=1 \
    --gradient_accumulation_steps=8 --with num-virtual-stages-per-pipeline-rank=2
check 'zr itself is a system' sh -c '"$0" plan --quiet --preset gpt2-124m --json >a && "$0" plan --quiet \
    --preset gpt2-124m --system zr --json >b && cmp a b' "$ZR"

check 'recompute by an option' plan --system fsdp2 --with compile=model --with activation_checkpoint=selective
check '... is shown' grep -q 'stage 3, recompute selective$' out
check '... and not taken for the other ways' sh -c '
    awk "/^  3 *(none|unit) /{print \$4}" out | sort -u | wc -l | grep -qx 4'
check 'times of the other ways' plan --system fsdp2 --stage 3 --cluster 4xa100 --json --advice
check 'are those of runs of their own' sh -c 'python3 -c "
import json, sys
for way in json.load(open(\"out\"))[\"ways\"]:
    if way[\"offload\"] == \"none\":
        print(way[\"stage\"], way[\"recompute\"], repr(way[\"step_sec\"]))" >ways && [ "$(wc -l <ways)" = 4 ] &&
    while read -r stage policy sec; do
        "$0" simulate --quiet --preset llama3-8b --seq 4096 --batch 1 --ranks 4 --cluster 4xa100 --system fsdp2 --json \
            --stage $stage --activation_checkpointing.policy=$policy >one || exit 1
        python3 -c "
import json, sys
assert abs(json.load(open(\"one\"))[\"step_sec\"] / float(sys.argv[1]) - 1) < 1e-8" "$sec" || exit 1
    done <ways' "$ZR"
check 'a shape that zr lacks has no time' plan --system megatron --cluster 4xa100 --with ffn-hidden-size=1024
check 'and the output says why' grep -q "^step on 4xa100: not known: options of Megatron-LM such as ffn-hidden-size" out
check 'a host with too little memory' plan --system deepspeed --stage 3 --ranks 8 --cluster 8xa10 --preset llama3-70b \
    --zero_optimization.offload_optimizer.device=cpu --zero_optimization.offload_param.device=cpu \
    --activation_checkpointing.policy=unit --json
check 'does not fit' python3 -c "
import json
told = json.load(open('out'))
assert told['spare'] >= 0 and not told['fits'], told"
check 'no such system' fails 2 'there is no such system; did you mean "megatron"' plan --system megatro
check 'no such option' fails 2 'did you mean "overlap_comm"' plan --system deepspeed --with overlap_com=true
check 'a wrong value' fails 2 'wanted true or false' plan --system deepspeed --with overlap_comm=2
check 'an option without a system' fails 2 'give --system NAME too' plan --with overlap_comm=true
check 'a plan of zr alone' fails 2 'leave out --system ddp' plan --system ddp --schedule
check 'a stage that the system lacks' fails 69 'give --stage 0, or --system fsdp2' plan --system ddp --stage 3
check 'more ranks than devices' fails 78 'do not fit the 4 devices' plan --system deepspeed --cluster 4x4090 --ranks 8
check 'a pipeline with stage 3' fails 69 'give --stage 1, or --system fsdp2' plan --system deepspeed --stage 3 \
    --parallel.pipeline=2
echo "1..$n"
