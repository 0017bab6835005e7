#TEST build=tests/zr_stand_in timeout=180
# Check GPUs from the command, on the stand-in of tests/cuda: a CPU's losses except for rounding, the same bits at all
# stages, checkpoints loaded on the other device, and the messages where there is no GPU.
. tests/support/command.inc
GPU=$(dirname "$ZR")/tests/zr_stand_in

near() { # A B: losses, validation losses and norms within 2e-4 of each other
    grep -o '"\(loss\|val_loss\|grad_norm\)":[^,}]*' "$1/metrics.jsonl" | cut -d: -f2 >a
    grep -o '"\(loss\|val_loss\|grad_norm\)":[^,}]*' "$2/metrics.jsonl" | cut -d: -f2 >b
    [ -s a ] && paste a b | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 2e-4 * $1) exit 1 }'
}

i=0
while [ $i -lt 300 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 1, "n_embd": 32, "n_positions": 32},
 "data": {"train": "text.txt", "val": "text.txt"}, "train_batch_size": 4,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "gradient_clipping": 0.5,
 "zero_optimization": {"stage": 3},
 "train": {"steps": 4, "threads": 1, "eval_interval": 2, "eval_batches": 2, "save_interval": 2, "output_dir": "processor"}}
END
train() { # COMMAND DIR RANKS KEYS...
    command=$1 dir=$2 ranks=$3
    shift 3
    "$command" train c.json --ranks "$ranks" --quiet --train.output_dir="$dir" "$@"
}

check "GPUs are listed" "$GPU" info
check "... by name and memory" grep -q '^gpu 1  *stand-in 1, compute capability 8.0, 8.59 GB' out
check "... and their library of products" grep -q '^libraries .*, cuBLASLt 13\.[0-9.]*, jansson' out
check "... as a device" grep -q '^devices  *cpu, cuda$' out
check "... as JSON" sh -c "'$GPU' info --json | grep -q '\"matmul\":\"cuBLASLt 13\.'"
check "... with GPUs" sh -c "'$GPU' info --json | grep -q '\"gpus\":\[{\"gpu\":0, \"name\":\"stand-in 0\"'"
check "on a processor" train "$ZR" processor 1 --device=cpu
check "on a GPU, which is taken where there is one" train "$GPU" gpu 1
check "... the losses of the processor, but for rounding" near processor gpu
check "... planned is measured" as_planned gpu
for stage in 0 2; do
    check "2 ranks, stage $stage" train "$GPU" gpu-$stage 2 --zero_optimization.stage=$stage
done
if command -v python3 >/dev/null; then
    cat >lanes.py <<'END_PYTHON'
import json, sys
events = [e for e in json.load(open("trace.json"))["traceEvents"] if e.get("ph") == "X" and e["pid"] == 0]
lane = lambda tid: [(e["ts"], e["ts"] + e["dur"]) for e in events if e["tid"] == tid]
both = sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in lane(0) for b in lane(1))
assert lane(0) and lane(1) and (both > 0) == (sys.argv[1] == "beside"), both
END_PYTHON
    check "exchanges go on while a GPU computes" train "$GPU" beside 2 --trace trace.json
    check "... as the trace shows" python3 lanes.py beside
    check "... not without overlap_comm" train "$GPU" in-turn 2 --trace trace.json --zero_optimization.overlap_comm=false
    check "... as it shows too" python3 lanes.py in-turn
else
    skip "exchanges go on while a GPU computes" "no python3"
fi
check "2 ranks, stage 3" train "$GPU" gpu-3 2 --timings
check "... times that add up" sh -c "sed -n 's/.*\"step_ms\":\([0-9.]*\).*/\1/p' gpu-3/run.json | grep -q '[1-9]'"
for stage in 0 2; do check "... the bits of stage $stage" same gpu-3 gpu-$stage; done
check "... near one rank's" near gpu gpu-3
check "a run of a processor goes on on a GPU" train "$GPU" processor 2 --resume --device=cuda --train.steps=6
check "a run of a GPU goes on on a processor" train "$ZR" gpu 2 --resume --device=cpu --train.steps=6
check "... to the same losses, but for rounding" near processor gpu
check "evaluated on a GPU" sh -c "head -n 20 text.txt >few.txt && '$GPU' eval processor --data few.txt --json >a"
check "... and, though a GPU trained it, on a processor" sh -c "'$ZR' eval processor --data few.txt --json >b"
check "... to the same loss" sh -c "cat a b | sed 's/.*\"loss\":\([0-9.]*\).*/\1/' | awk 'NR == 1 { x = \$1 } END { d = x - \$1; if (d < 0) d = -d; exit !(NR == 2 && d <= 2e-4 * x) }'"
check "generated on a GPU" sh -c "'$GPU' generate processor --prompt 'line 7' --tokens 5 --temperature 0 >a"
check "... what the processor generates" sh -c "'$ZR' generate processor --prompt 'line 7' --tokens 5 --temperature 0 >b; cmp a b"
check "too little memory on a GPU" code 71 train "$GPU" none 1 --memory.limit=900MB
check "... in its words" grep -q 'needs .* of GPU memory per rank .* but memory.limit is 900.00 MB' err
# A plan for a GPU by name has the bytes and choices of a plan on the GPU, also under a limit.
planned_alike() { # KEYS...
    "$ZR" plan c.json --ranks 2 --profile h100 --quiet --json "$@" >named && "$GPU" plan c.json --ranks 2 --quiet --json "$@" >own &&
        cmp named own >&2 && "$ZR" plan c.json --ranks 2 --device=cpu --quiet --json "$@" >other && ! cmp -s named other
}
for stage in 0 3; do check "planned for a GPU by name as on it, stage $stage" planned_alike --stage $stage; done
sizes="--model.n_embd=64 --model.n_layer=6 --batch 8 --bf16.enabled=true"
auto="--memory.limit=1080MB --activation_checkpointing.policy=auto" # --memory may also offload, by the rates of each
recomputes() { planned_alike $sizes $auto --train_batch_size=null && "$ZR" plan c.json --ranks 2 --profile h100 --quiet --json $sizes --train_batch_size=null --memory.limit=2GB \
    --activation_checkpointing.policy=auto >all && ! cmp -s named all; }
check "... what policy auto computes again under a limit" recomputes
check "... and what fits: its total and 1.07 GB" sh -c "'$ZR' plan c.json --profile h100 --quiet --memory 1074MB | grep -q '^  fits in 1.07 GB?[- ]*no\$' &&
    '$ZR' plan c.json --profile h100 --quiet --memory 1100MB | grep -q '^  fits in 1.10 GB?  *yes  *yes  *yes  *yes\$'"
largest() {
    whole=--activation_checkpointing.policy=none # one of many choices, which take long
    "$ZR" plan c.json --profile h100 --quiet --json --max layers --memory 1085MB $whole >max.json || return 1
    most=$(sed 's/.*"model.n_layer": \([0-9]*\).*/\1/' max.json)
    grep -q '"next_needs": 10[0-9]*' max.json && rm -rf largest &&
        keys=$(python3 -c 'import json
for key, value in json.load(open("max.json"))["max"]["keys"].items():
    print(f"--{key}={json.dumps(value) if isinstance(value, bool) else value}")') &&
        train "$GPU" largest 1 $keys $whole --memory.limit=1085MB --model.n_layer="$most" --train.steps=1 &&
        code 71 train "$GPU" none 1 $keys $whole --memory.limit=1085MB --model.n_layer="$((most + 1))"
}
check "the most layers train, one more does not start" largest
without_products() { ZR_STAND_IN_LACKS=cuBLASLt "$GPU" train c.json --train.output_dir=without --train.steps=1 --device=auto; }
check "GPUs without cuBLASLt: auto takes the processor" without_products
check "... and says why" grep -q 'the GPUs of this machine are not used: cuBLASLt, .* cannot be loaded' err
# A kernel's fault is noticed by a later step, or with ZR_DEBUG_SYNC by its own.
faulty() { # FAULT SYNC RANKS KEYS...
    fault=$1 sync=$2 ranks=$3
    shift 3
    rm -rf faulty
    ZR_STAND_IN_FAULT=$fault ZR_DEBUG_SYNC=$sync train "$GPU" faulty "$ranks" --train.steps=1 "$@"
}
check "a kernel's fault" code 74 faulty fault:layernorm 0 1
check "... is not of the step that waits" sh -c "grep -q 'an illegal memory access .*(step [0-9]* of the schedule, ' err && ! grep -q 'schedule, layernorm' err"
check "... with ZR_DEBUG_SYNC=1" code 74 faulty fault:layernorm 1 1
check "... it is of its own" grep -q 'an illegal memory access .*(step [0-9]* of the schedule, layernorm of h.0)$' err
check "... and of one that is no op, in a queue with a thread" code 74 faulty fault:optimizer 1 2
check "... too" grep -q 'an illegal memory access .*(step [0-9]* of the schedule, update of ' err
check "a kernel that hangs" code 82 faulty hang:attention_dx 1 1 --train.hang_timeout=2
check "... is named by its step" grep -q 'stuck .*, step [0-9]* of the schedule train (attention_dx of ' err
check "ZR_DEBUG_SYNC=1" env ZR_DEBUG_SYNC=1 "$GPU" train c.json --ranks 2 --quiet --timings --train.output_dir=in-sync
check "... changes no bit" same gpu-3 in-sync
check "ZR_DEBUG_SYNC=yes" code 78 faulty none:none yes 1
check "... is refused" grep -q 'ZR_DEBUG_SYNC is "yes"; expected 1 .* or 0' err
alike() { "$ZR" plan c.json --parallel.tensor=2 --ranks 2 --quiet --activation_checkpointing.policy=$1 --activation_checkpointing.partition_activations=true; }
for policy in none keep; do check "partitioned checkpoints need some: $policy" fails 78 "policy is $policy" alike $policy; done
check "no GPU" code 69 train "$ZR" none 1 --device=cuda
check "... is said so" grep -q 'no GPU: ' err
check "a device that is none" code 78 train "$ZR" none 1 --device=tpu
check "... is named with those there are" grep -q 'device: .*auto.*cpu.*cuda' err
echo "1..$n"
