#TEST timeout=120
# Check pipeline parallelism from the command: the bits of one pipeline rank in every schedule, saved with one number of
# pipeline ranks and resumed with another.
. tests/support/command.inc

i=0
while [ $i -lt 300 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 5, "n_head": 2, "n_embd": 32, "n_positions": 32},
 "data": {"train": "text.txt", "val": "text.txt"}, "train_batch_size": 16, "gradient_accumulation_steps": 8,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "gradient_clipping": 0.5,
 "zero_optimization": {"stage": 2},
 "train": {"steps": 4, "threads": 1, "eval_interval": 2, "eval_batches": 2, "save_interval": 2, "output_dir": "one"}}
END
train() { # DIR RANKS PIPELINE SCHEDULE KEYS...
    dir=$1 ranks=$2 pipeline=$3 schedule=$4
    shift 4
    "$ZR" train c.json --ranks "$ranks" --quiet --parallel.pipeline="$pipeline" --parallel.schedule="$schedule" \
        --train.output_dir="$dir" "$@"
}
losses() { grep -o '"\(loss\|val_loss\|grad_norm\)":[^,}]*' "$1/metrics.jsonl"; }
alike() { same "$1" "$2" && losses "$1" >a && losses "$2" >b && cmp a b >&2; }
# resumed FROM KEYS...: go on after step 2 of a copy of a run, with other keys.
resumed() {
    rm -rf again && cp -r "$1" again && rm -rf again/step-00000004 again/model || return 1
    shift
    "$ZR" train again/config.json --resume --quiet "$@"
}

check "one rank" "$ZR" train c.json --quiet
n_run=0
for way in 1f1b gpipe interleaved breadth_first zb_h1 zb_v; do
    n_run=$((n_run + 1))
    check "$way: two pipeline ranks" train $way 2 2 $way --zero_optimization.stage=$((n_run % 4))
    check "... to the bit, evaluations too" alike one $way
    check "... planned is measured" as_planned $way
done
check "a tied table on two ranks" train apart 2 2 1f1b --parallel.tied_apart=true --zero_optimization.stage=1
check "... to the bit, evaluations too" alike one apart
check "... planned is measured" as_planned apart
check "two data-parallel ranks" train data 2 1 1f1b --gradient_accumulation_steps=4
check "two by two ranks" train grid 4 2 zb_h1 --gradient_accumulation_steps=4 --zero_optimization.stage=3
check "... to the bit" alike data grid
check "... planned is measured" as_planned grid
check "trust ratios, which the ranks of a role exchange, on two hosts" train hosts 4 2 1f1b --optimizer.type=Lamb \
    --gradient_accumulation_steps=4 --parallel.ranks_per_host=2
check "... planned is measured" as_planned hosts
check "checkpoints: every byte has a checksum" "$ZR" verify grid/step-00000002
check "saved from two pipeline ranks, resumed on three" resumed 1f1b --ranks 3 --parallel.pipeline=3
check "... to the bit" alike one again
check "... on one" resumed zb_v --ranks 1 --parallel.pipeline=1
check "... to the bit" alike one again
check "saved from one, resumed on two with chunks" resumed one --ranks 2 --parallel.pipeline=2 \
    --parallel.schedule=interleaved
check "... to the bit" alike one again
check "saved with the table on two ranks, resumed with it on one" resumed apart --ranks 2 \
    --parallel.tied_apart=false
check "... to the bit" alike one again
check "saved with the table on one, resumed on two of three" resumed gpipe --ranks 3 --parallel.pipeline=3 \
    --parallel.tied_apart=true --zero_optimization.stage=3
check "... to the bit" alike one again
check "saved while training waits" train waited 2 2 1f1b --checkpoint.async=false
check "... to the bit" alike one waited
check "generated from the weights" "$ZR" generate grid --prompt line --tokens 4
check "evaluated" "$ZR" eval grid --data text.txt

check "traced and timed" "$ZR" train c.json --ranks 2 --parallel.pipeline=2 --train.output_dir=traced --timings \
    --trace trace.json --trace-steps 2:2
check "... the steps of both roles" grep -q 'received *recv' err
check "... how long ranks wait for each other" grep -q 'values of pipeline ranks [0-9.]* m\?s (' err
for rank in 0 1; do check "... of rank $rank" grep -q '"cat":"recv", "pid":'$rank trace.json; done

check "a number that does not divide" fails 78 'parallel.pipeline: 2 does not divide the 3 ranks' train bad 3 2 1f1b
check "... with tensor parallelism" fails 78 'parallel.tensor x parallel.pipeline: 4 does not divide the 6 ranks' \
    train bad 6 2 1f1b --parallel.tensor=2
check "more stages than units" fails 78 'parallel.pipeline' train bad 8 8 1f1b
check "interleaved with micro-batches that P does not divide" fails 78 'must divide' \
    train bad 3 3 interleaved --gradient_accumulation_steps=4 --train_batch_size=8
check "chunks with 1f1b" fails 78 'interleaved and breadth_first have several' train bad 2 2 1f1b --parallel.chunks=2
check "two ranks for a table of the first and the last stage on one" fails 78 'leave parallel.tied_apart out' \
    train bad 2 2 zb_v --parallel.tied_apart=true
check "a plan says what travels" "$ZR" plan c.json --ranks 4 --parallel.pipeline=2 --parallel.tied_apart=true \
    --gradient_accumulation_steps=4
check "... of the gradient and of the parameters" \
    grep -q "head's rank passes on .* of the table's gradient a micro-batch, and receives .* a step" out
check "samples of text" fails 69 'run `zr generate` on a checkpoint' train bad 2 2 1f1b --train.sample_tokens=4
check "DeepSpeed's number of stages" fails 69 'here it is parallel.pipeline' train bad 2 1 1f1b --pipeline.stages=2
check "Megatron's option" fails 2 'in zr it is .*--parallel.pipeline' "$ZR" plan --pipeline-model-parallel-size 4
check "... after an equals sign" fails 78 'in zr it is parallel.pipeline' "$ZR" plan --pipeline_model_parallel_size=4
check "no folder was left" test ! -e bad
