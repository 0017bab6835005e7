#TEST timeout=240 mpi=1 build=tests/zr_fault
# Check checkpoints that are written during the next steps: the same bytes and losses, and the messages about them.
. tests/support/command.inc

i=0
while [ $i -lt 400 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 16, "dropout": 0.1},
 "data": {"train": "text.txt"}, "train_batch_size": 8,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "gradient_clipping": 1.0,
 "train": {"steps": 8, "threads": 1, "save_interval": 2, "keep_last": 9}}
END
train() { "$ZR" train c.json --train.output_dir="$@"; }
numbers() { sed 's/, "step_ms".*//' "$1/metrics.jsonl"; }
# Two runs have the same losses, and the same files of all checkpoints except for those that describe the run.
same() {
    numbers "$1" >a && numbers "$2" >b && [ -s a ] && cmp a b >&2 || return 1
    for dir in "$1"/step-*; do
        for file in model exp_avg exp_avg_sq; do
            cmp "$dir/$file.safetensors" "$2/${dir##*/}/$file.safetensors" >&2 || return 1
        done
    done
    [ "$(ls -d "$1"/step-* | wc -l)" = 4 ] && [ "$(ls -d "$2"/step-* | wc -l)" = 4 ] && "$ZR" verify "$2" >/dev/null
}
# Take the least memory.limit of a configuration, which leaves no room for a copy.
limit() {
    total=$("$ZR" plan c.json --checkpoint.async=false --json "$@" | sed 's/.*"states": [0-9]*, "total": \([0-9]*\).*/\1/')
    echo $((total + total * 3 / 100 + 50331648 + 2))
}
copied='written asynchronously, during the next steps, from a copy of .* a rank in the host'
in_place='written asynchronously, during the next step, .* a rank from where the states are'

for stage in 0 1 2 3; do
    for ranks in 1 2; do
        how="--ranks $ranks --zero_optimization.stage=$stage --gradient_accumulation_steps=$((stage % 2 + 1))"
        [ $stage = 2 ] && how="$how --bf16.enabled=true"
        [ $stage = 3 ] && how="$how --memory.layout=lean"
        rm -rf waits copy place
        check "stage $stage, $ranks ranks" train waits $how --checkpoint.async=false
        check "... from a copy" train copy $how --memory.limit=4GB
        check "... says so" grep -q "$copied" err
        check "... the same" same waits copy
        check "... in place" train place $how
        check "... says so" grep -q "$in_place" err
        check "... the same" same waits place
    done
done
mpirun=${ZR_MPIRUN-mpirun} # the test runner's launcher and its options, or empty
if [ -n "$mpirun" ] && command -v ${mpirun%% *} >/dev/null && "$ZR" info | grep -q '^transports .*mpi'; then
    if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
    export OMPI_MCA_rmaps_base_oversubscribe=1
    check "under mpirun" $mpirun -n 2 "$ZR" train c.json --train.output_dir=mpi --zero_optimization.stage=2 --memory.limit=4GB
    check "the same on threads" train threads --ranks 2 --zero_optimization.stage=2 --checkpoint.async=false
    check "... from a copy" same threads mpi
else
    skip "under mpirun" "no mpirun, or built without MPI"
fi

check "the plan says what is copied" "$ZR" plan c.json --json --memory.limit=4GB
check "... in bytes" grep -q '"save": {"from": "copy", "bytes": [0-9]*}' out
check "... and what there is no room for" "$ZR" plan c.json --json --memory.limit=$(limit)
check "... in bytes too" grep -q '"save": {"from": "states", "bytes": [0-9]*}' out
check "... and nothing is where nothing says that there is" "$ZR" plan c.json --json
check "... in bytes as well" grep -q '"save": {"from": "states", "bytes": [0-9]*}' out
check "... and for people" "$ZR" plan c.json --memory.limit=4GB
check "... in words" grep -q '^checkpoints: .* a rank, from a copy in the host.s memory, written asynchronously, during the next steps$' out
check "... with what training waits" grep -q '^  a disk that takes 200 MB/s needs .*; training waits ' out
check "... step by step" sh -c '"$0" plan c.json --schedule | grep -q "save .*where saved"' "$ZR"
check "and nothing where nothing is saved" sh -c '"$0" plan c.json --train.save_interval=0 --json' "$ZR"
check "... at all" sh -c '! grep -q save out'

# On a disk that takes a quarter of a second for each write, training continues, because a copy is written.
# Print the time of the longest step after step S, in ms.
longest() {
    sed -n 's/.*"step": *\([0-9]*\),.*"step_ms": *\([0-9]*\).*/\1 \2/p' "$1/metrics.jsonl" |
        awk -v s="$2" '$1 > s && $2 > m { m = $2 } END { print m + 0 }'
}
check "a slow disk" env ZR_FAULT=slow:250 "$FAULTY" train c.json --train.output_dir=slow --train.steps=5 --memory.limit=4GB
check "... no step waits for it" test "$(longest slow 2)" -lt 1000
check "... but the next checkpoint, which says so" grep -q 'the checkpoint of step 4 waits for that of step 2, which is still being written' err
check "... and all are there" sh -c 'test "$(ls -d slow/step-* | wc -l)" = 3 && "$0" verify slow' "$ZR"
check "in place" env ZR_FAULT=slow:250 "$FAULTY" train c.json --train.output_dir=slower --train.steps=3
check "... the step behind which it is written waits" test "$(longest slower 2)" -ge 1000

# If a run is killed during a write, the checkpoint before counts; here there is none.
check "a run that is not disturbed" train plain
check "killed while a checkpoint is written" code 137 sh -c 'ZR_FAULT=slow:500 "$0" train c.json --train.output_dir=killed --train.steps=9999 --train.save_interval=30 --memory.limit=4GB --quiet >out 2>err &
    pid=$!
    while [ ! -f killed/metrics.jsonl ] || [ "$(wc -l <killed/metrics.jsonl)" -lt 45 ]; do kill -0 $pid || exit 1; sleep 0.05; done
    kill -KILL $pid; wait $pid' "$FAULTY"
check "... it is not there" sh -c 'test -d killed/step-00000030.tmp && test ! -e killed/step-00000030'
check "... and the run starts again" train killed --resume --train.steps=8 --train.save_interval=2
check "... to the same end" sh -c 'test ! -e killed/step-00000030.tmp && cmp killed/model/model.safetensors plain/model/model.safetensors'

# A write that fails during a later step.
check "a disk that fails" code 74 env ZR_FAULT=write:10 "$FAULTY" train c.json --train.output_dir=fails
check "... is noted" grep -q 'the checkpoint of step [0-9]* could not be written; training goes on' err
check "... and what is there is whole" "$ZR" verify fails

check "a stop while one is written" code 75 sh -c 'ZR_FAULT=slow:300 "$0" train c.json --train.output_dir=stops --train.steps=9999 --train.save_interval=20 --memory.limit=4GB --quiet &
    pid=$!
    while [ ! -f stops/metrics.jsonl ] || [ "$(wc -l <stops/metrics.jsonl)" -lt 25 ]; do kill -0 $pid || exit 1; sleep 0.05; done
    kill -TERM $pid; wait $pid' "$FAULTY"
check "... leaves both" sh -c 'test -d stops/step-00000020 && test "$(ls -d stops/step-* | wc -l)" = 2 && "$0" verify stops' "$ZR"

check "a trace shows the stream" train traced --trace t.json --trace-steps 3:3 --memory.limit=4GB
if command -v python3 >/dev/null; then
    check "... with all that was written" python3 - <<'END'
import json
events = json.load(open("t.json"))["traceEvents"]
saves = [e for e in events if e.get("cat") == "save"]
copies = [e for e in events if e.get("cat") == "copy"]
names = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
assert len(saves) == len(copies) == 12, (len(saves), len(copies))
assert names == ["compute", "comm", "copy", "save"], names
assert all(e["args"]["training_step"] == 3 for e in saves)
first = min(e["ts"] for e in saves)
assert all(c["ts"] + c["dur"] <= first for c in copies)
END
else
    skip "... with all that was written" "no python3 to read it"
fi
echo "1..$n"
