#TEST timeout=400 long=more
# Let one file system call fail, at every place of a new run and of a resumed one. Lines of metrics.jsonl and records of
# events that were there must stay, model/ must hold complete weights of one step, checkpoints must be complete or
# missing, and the run must resume to the result of an undisturbed run. A long run tests every place, a short one some
# of them.
here=$PWD/tests
. tests/support/command.inc
if [ -n "${SAN-}" ]; then echo "ok 1 # SKIP a library is preloaded, which sanitizers want to be themselves"; exit 0; fi

${CC:-cc} -shared -fPIC -O1 -o faults.so "$here/preload/fs_faults.c" -ldl || exit 1
i=0
while [ $i -lt 100 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 8},
 "data": {"train": "text.txt", "val": "text.txt"}, "train_batch_size": 4,
 "train": {"steps": 6, "eval_interval": 3, "eval_batches": 1, "threads": 1, "save_interval": 2, "keep_best": true,
           "tensorboard": true, "output_dir": "run"}}
END
export XDG_CACHE_HOME="$DIR/cache"
mkdir runs
cp c.json text.txt runs
cd runs || exit 1
sums() { cksum "$1/model.safetensors" 2>/dev/null | cut -d' ' -f1,2; }
events() { cat "$1"/events.out.tfevents.* | wc -c; } # the records' values differ between runs, but not their length
numbers() { sed 's/, "step_ms".*//; s/,* "val_tokens".*//' "$1/metrics.jsonl"; }

# The files of undisturbed runs.
"$ZR" train c.json --quiet || exit 1
mv run early
sums early/model >early.sum
cp -r early run
"$ZR" train c.json --quiet --resume --train.steps=10 || exit 1
mv run late
sums late/model >late.sum
numbers early >early.numbers
numbers late >late.numbers
events early >early.events
events late >late.events

run() { # CALL AT ERROR COMMAND...: with one call that fails
    FS_FAULT_CALL=$1 FS_FAULT_AT=$2 FS_FAULT_ERROR=$3 FS_FAULT_UNDER=$DIR/runs/$where FS_FAULT_LOG=$DIR/log
    export FS_FAULT_CALL FS_FAULT_AT FS_FAULT_ERROR FS_FAULT_UNDER FS_FAULT_LOG
    shift 3
    rm -f "$DIR/log"
    LD_PRELOAD=$DIR/faults.so "$ZR" train c.json --quiet "$@" >out 2>err
    rc=$?
    failed=$(sed -n 's/^failures //p' "$DIR/log" | sort -n | tail -n 1)
}

# Print the fault of a disturbed run's files, if there is any.
wrong() { # BEFORE AFTER SUM: the numbers of metrics.jsonl before the run, and of it and the weights' sum after a whole one
    case $rc in
    0 | 65 | 66 | 71 | 73 | 74) ;;
    *) echo "exit code $rc" && return ;;
    esac
    [ $rc = 0 ] || grep -q '^zr: .' err || { echo "exit code $rc without a message" && return; }
    if [ -s "$1" ]; then
        numbers run >now
        cmp -s -n "$(wc -c <"$1")" "$1" now || { echo "metrics.jsonl has lost lines" && return; }
    fi
    numbers run >now 2>/dev/null
    [ $rc != 0 ] || cmp -s "$2" now || { echo "exit code 0, and lines of metrics.jsonl are missing" && return; }
    [ $rc != 0 ] || events run | cmp -s "${2%.numbers}.events" - || { echo "exit code 0, and records of events are missing" && return; }
    if [ -e run/model ] && ! sums run/model | cmp -s early.sum - && ! sums run/model | cmp -s late.sum -; then
        echo "model/ has other weights than of step 6 or 10" && return
    fi
    [ $rc != 0 ] || sums run/model | cmp -s "$3" - || { echo "exit code 0, and model/ has not the last weights" && return; }
    for step in run/step-????????; do
        [ ! -d "$step" ] || "$ZR" verify "$step" >verified 2>&1 || { echo "$step: $(tail -n 1 verified)" && return; }
    done
    rm -f run/lock
    "$ZR" train c.json --quiet --resume --train.steps=10 >out.again 2>err.again
    again=$?
    case $again in
    0) sums run/model | cmp -s late.sum - || echo "going on ends in other weights" ;;
    73) grep -q 'holds weights after step' err.again || echo "going on: $(tail -n 1 err.again)" ;;
    *) echo "going on ends with $again: $(tail -n 1 err.again)" ;;
    esac
}

every=150
[ -z "${ZR_LONG-}" ] || every=1
sweep() { # NAME BEFORE AFTER SUM STEPS OPTION...: each call of each kind, in a run that `prepare` has made ready
    name=$1 before=$2 after=$3 sum=$4 steps=$5
    shift 5
    prepare
    run count 0 EIO --train.steps="$steps" "$@"
    cp "$DIR/log" counted
    [ "$where" = run ] || name="$name, ${where#run/}"
    for kind in "open EIO" "write EIO" "write ENOSPC" "write short" "write EINTR" "fsync EIO" "rename EIO" "unlink EIO" \
        "ftruncate EIO" "fallocate ENOSPC" "mkdir ENOSPC"; do
        call=${kind% *} error=${kind#* } bad= tried=0
        most=$(sed -n "s/^$call //p" counted | sort -n | tail -n 1)
        at=$((1 + (most - 1) % every / 2))
        while [ $at -le "$most" ]; do
            prepare
            run "$call" $at "$error" --train.steps="$steps" "$@"
            [ "${failed:-0}" = 0 ] || tried=$((tried + 1))
            why=$(wrong "$before" "$after" "$sum")
            [ -z "$why" ] || bad="$bad
# $call $at $error: $why: $(tail -n 1 err)"
            at=$((at + every))
        done
        n=$((n + 1))
        if [ "$most" = 0 ]; then n=$((n - 1))
        elif [ -n "$bad" ] || [ $tried = 0 ]; then echo "not ok $n - $name, $call $error ($tried of $most)$bad"
        else echo "ok $n - $name, $call $error ($tried of $most)"; fi
    done
}
for where in run run/metrics.jsonl "run/events.out.tfevents.*"; do
    prepare() { rm -rf run; }
    [ $every = 40 ] || sweep "a run that begins" /dev/null early.numbers early.sum 6
    prepare() { rm -rf run && cp -r early run; }
    sweep "a run that goes on" early.numbers late.numbers late.sum 10 --resume
    every=1
    [ -n "${ZR_LONG-}" ] || every=3                        # of metrics.jsonl
    [ -n "${ZR_LONG-}" ] || [ "$where" = run ] || every=40 # of events, where a run goes on
done
echo "1..$n"
