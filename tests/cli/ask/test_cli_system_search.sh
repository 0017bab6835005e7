#TEST timeout=120
# `zr simulate --search --system`: the fastest possibility of another system. What is found is within 2 % of the fastest of
# all combinations, and its keys make the same plan.
. tests/support/command.inc

model='--preset gpt2-350m --seq 1024'
on8() { "$ZR" simulate --quiet $model --cluster 2x4xa10 --ranks 8 "$@"; }

# found SYSTEM STAGES TENSORS BATCHES OPTION...: search, compare with all combinations, and paste the keys.
found() {
    system=$1 stages=$2 tensors=$3 batches=$4
    shift 4
    on8 --system "$system" --search --json "$@" >search.json || return 1
    rm -f all.*.csv
    for policy in none selective unit; do
        on8 --system "$system" --sweep stage=$stages --sweep tensor=$tensors --sweep batch=$batches \
            --activation_checkpointing.policy=$policy "$@" >all.$policy.csv 2>message || grep -q 'none of the' message ||
            return 1
    done
    python3 - <<'END' || return 1
import csv, glob, json
rows = [row for name in glob.glob("all.*.csv") for row in csv.DictReader(open(name)) if row["fits"] == "true"]
best = json.load(open("search.json"))[0]
fastest = max(float(row["samples_per_sec"]) for row in rows)
print("wanted", fastest, "found", best["samples_per_sec"], best["keys"])
assert best["fits"] and best["samples_per_sec"] * 1.02 >= fastest * (1 - 1e-7)
END
    pasted "$system" "$@"
}
# pasted SYSTEM OPTION...: the keys of the way that was found make the same plan.
pasted() {
    system=$1
    shift
    keys=$(python3 -c 'import json
for key, value in json.load(open("search.json"))[0]["keys"].items():
    print("--%s=%s" % (key, value if isinstance(value, str) else json.dumps(value)))')
    on8 --system "$system" --json "$@" $keys >one.json || return 1
    python3 - <<'END'
import json
found, one = json.load(open("search.json"))[0], json.load(open("one.json"))
for name in "step_sec", "samples_per_sec", "needs", "memory_bytes", "host_bytes", "fits":
    assert found[name] == one[name], (name, found[name], one[name], found["keys"])
END
}
check 'DeepSpeed' found deepspeed 0,1,2,3 1,2 1,2,4,8,16
check 'FSDP2 of torchtitan' found fsdp2 2,3 1,2,4 1,2,4,8,16 --with compile=model
check 'DDP' found ddp 0 1 1,2,4,8
check 'the Trainer' found trainer 0,2,3 1 1,2,4,8
check 'nanotron' found nanotron 0,1 1,2,4 1,2,4,8
check 'Megatron-LM' found megatron 0,1 1,2,4 1,2,4,8 --with sequence-parallel=true --with overlap-grad-reduce=true
cp search.json all.json
check 'what it lacks is left out' python3 -c "
import json
ways = [way['keys'] for way in json.load(open('all.json'))]
assert {key['zero_optimization.stage'] for key in ways} <= {0, 1}
assert not any('offload' in name for key in ways for name in key)
free = json.load(open('all.json'))[0]['question']['free']
assert free == ['zero_optimization.stage', 'activation_checkpointing.policy', 'train_micro_batch_size_per_gpu',
                'parallel.tensor'], free"
check 'also what DDP lacks' sh -c '"$0" simulate --quiet --preset gpt2-350m --cluster 2x4xa10 --ranks 8 --batch 2 \
    --system ddp --search --json | python3 -c "
import json, sys
assert json.load(sys.stdin)[0][\"question\"][\"free\"] == [\"activation_checkpointing.policy\"]"' "$ZR"
check 'recompute that an option gives is kept' sh -c '"$0" simulate --quiet --preset gpt2-350m --cluster 2x4xa10 --ranks 8 \
    --batch 2 --system fsdp2 --search --json --with activation_checkpoint=full >given.json && python3 -c "
import json
ways = json.load(open(\"given.json\"))
assert \"activation_checkpointing.policy\" not in ways[0][\"question\"][\"free\"]
assert {way[\"keys\"][\"activation_checkpointing.policy\"] for way in ways} == {\"unit\"}"' "$ZR"

# a large model: pipelines, stages of a rank, offload
large() { model='--preset llama3-8b --seq 2048' && "$@"; }
check 'pipelines of Megatron-LM' large on8 --search --json --system megatron --train_batch_size=32
cp out search.json
check 'have keys that make the same plan' large pasted megatron --train_batch_size=32
check 'and more than one rank' python3 -c "
import json
keys = json.load(open('search.json'))[0]['keys']
assert keys.get('parallel.pipeline', 1) * keys.get('parallel.tensor', 1) > 1, keys"
check 'offload of DeepSpeed' large on8 --search --json --system deepspeed --tensor 1 --batch 1
cp out search.json
check 'has keys that make the same plan' large pasted deepspeed --tensor 1 --batch 1
check 'in host memory' python3 -c "
import json
best = json.load(open('search.json'))[0]
assert best['keys']['zero_optimization.offload_optimizer.device'] == 'cpu' and best['host_bytes'] > 0"
check 'as text' large prints '^  --zero_optimization.stage=' on8 --search --system deepspeed --tensor 1 --batch 1
check 'with the number that decides' grep -q 'nvidia-smi stage tensor' printed
check 'with what is not proved, and how to write it' sh -c \
    'tr "\n" " " <printed | grep -q "not proved: .* --emit deepspeed . accelerate writes the way"'
check 'one more command writes it' sh -c '"$0" plan --quiet --preset llama3-8b --seq 2048 --cluster 2x4xa10 --ranks 8 --tensor 1 --batch 1 \
    --system deepspeed $1 --emit deepspeed -o ds.json --json >planned &&
    python3 -c "
import json
plan, found = json.load(open(\"planned\")), json.load(open(\"search.json\"))[0]
assert plan[\"nvidia_smi\"][\"bytes\"] == found[\"needs\"] and abs(plan[\"step_sec\"] / found[\"step_sec\"] - 1) < 1e-8"' \
    "$ZR" "$keys"
check 'nothing fits' fails 71 'nothing fits; stage 0 with recompute .* for nvidia-smi of a device' large on8 --search --system ddp
check 'zr is a system' sh -c '
    for system in "" "--system zr"; do
        "$0" simulate --quiet --preset gpt2-124m --cluster a10 --ranks 2 --batch 4 --search $system || exit 1
    done >both && [ "$(sort both | uniq -u | wc -l)" = 0 ]' "$ZR"
check 'selective recompute takes time, less than that of blocks' sh -c '
    for policy in none selective full; do
        "$0" simulate --quiet --preset gpt2-350m --cluster 2x4xa10 --ranks 8 --batch 4 --system fsdp2 --json \
            --with activation_checkpoint=$policy >$policy.json || exit 1
    done
    python3 -c "
import json
none, some, full = (json.load(open(name + \".json\"))[\"step_sec\"] for name in (\"none\", \"selective\", \"full\"))
assert none < some < full, (none, some, full)"' "$ZR"
check 'a system that is none' fails 2 'there is no such system' on8 --search --system fsdp3
check 'without a cluster of GPUs' fails 2 'leave out --cluster this' "$ZR" simulate --quiet --preset gpt2-124m --ranks 1 \
    --cluster this --system ddp --search
echo "1..$n"
