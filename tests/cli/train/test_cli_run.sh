#TEST timeout=180 mpi=1
# Check runs from end to end: their files, equal stages and transports, measured bytes as planned, stopping, MPI.
. tests/support/command.inc

same() { numbers "$1" >a && numbers "$2" >b && [ -s a ] && cmp a b >&2; }
# token_file FILE: write 20000 tokens below 128, as uint16.
token_file() {
    awk 'BEGIN { for (i = 0; i < 20000; i++) printf "%c%c", 1 + i % 127, 0 }' >"$1"
}
# The plan also has "layer", which is not measured.
as_planned() {
    "$ZR" plan c.json --ranks "$2" --zero_optimization.stage="$3" --json >whole || return 1
    sed 's/, "layer": {[^}]*}//' whole >plan
    part "$1" planned >a && part "$1" measured >b && cmp a plan >&2 && cmp a b >&2
}

i=0
while [ $i -lt 2000 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
tail -n 200 text.txt >val.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 32},
 "data": {"train": "text.txt", "val": "val.txt"}, "train_batch_size": 8,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "gradient_clipping": 1.0,
 "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 4, "warmup_max_lr": 0.01}},
 "train": {"steps": 40, "eval_interval": 20, "eval_batches": 2, "threads": 1, "output_dir": "run"}}
END

check "train on one rank" "$ZR" train c.json
check "... with steps and notes of 100 columns at most" awk '/^step|note:/ { n++ } length > 100 { exit 1 } END { exit n < 5 }' err
check "... and the commands that can follow in the last" sh -c 'tail -n 1 err | grep -qx "zr: next: zr generate run --prompt TEXT; zr eval run; zr report run"'
check "... with validation data, not a word of them" sh -c '! grep -q "no validation" err'
check "what a run leaves" test -f run/config.json -a -f run/run.json -a -f run/metrics.jsonl \
    -a -f run/model/config.json -a -f run/model/model.safetensors -a ! -e run/lock
check "a line a step and an evaluation" test "$(grep -c '"loss"' run/metrics.jsonl) $(grep -c val_loss run/metrics.jsonl)" = "40 2"
keys='{"step": "loss": "grad_norm": "lr": "tokens": "step_ms": "tokens_per_sec": "samples_per_sec": "tflops": "mfu": "skipped": "data_wait_ms":'
check "keys of a line" test "$(head -1 run/metrics.jsonl | sed 's/:[^,]*,* */: /g; s/ $//')" = "$keys"
check "the share of the peak is known" awk -F'"mfu":' '/"mfu"/ { split($2, v, ","); n += v[1] > 0 && v[1] <= 1 } END { exit n != 40 }' \
    run/metrics.jsonl
check "steps of hardly any arithmetic" "$ZR" train c.json --model.n_layer=1 --model.n_head=1 --model.n_embd=2 --data.seq_length=1 \
    --train_batch_size=1 --data.val=null --train.steps=20 --train.output_dir=tiny
check "... have a share of the peak that is not 0" sh -c 'grep -q "% of peak" err && ! grep " 0% of peak" err'
check "the loss falls" awk -F'"loss":' '/"loss"/ { split($2, v, ","); if (!first) first = v[1]; last = v[1] }
    END { exit !(last < 0.6 * first) }' run/metrics.jsonl
for s in 0 1 2 3; do
    check "train, 2 ranks, stage $s" "$ZR" train c.json --ranks 2 --quiet --zero_optimization.stage=$s --train.output_dir=s$s
    check "stage $s: planned and measured" as_planned s$s 2 $s
    [ $s = 0 ] || check "stage $s is stage 0, to the bit" same s0 s$s
    [ $s = 0 ] || check "stage $s: the same weights" cmp s0/model/model.safetensors s$s/model/model.safetensors
done
check "resolved configuration trains the same" "$ZR" train s2/config.json --ranks 2 --quiet --train.output_dir=again
check "... to the bit" same s2 again
check "more ranks than samples is refused" code 78 "$ZR" train c.json --ranks 16 --train.output_dir=many
check "continue from the weights" "$ZR" train c.json --quiet --model='{"init":"run/model"}' --train.steps=1 --train.output_dir=more
check "bf16" "$ZR" train c.json --ranks 2 --quiet --bf16.enabled=true --zero_optimization.stage=3 --train.output_dir=bf16

check "eval of a run" "$ZR" eval run --json
check "... has the keys" grep -q '"loss":.*"perplexity":.*"bits_per_byte":' out
check "eval of the weights" "$ZR" eval run/model --data val.txt
token_file good.bin
check "train on tokens" "$ZR" train c.json --quiet --data.train=good.bin --data.val=null --model.vocab_size=300 --train.steps=1 \
    --train.output_dir=tokens
next() { tail -n 1 err | grep -qx "zr: next: $1" || { cat err; return 1; }; }
check "... which cannot write, nor says so" "$ZR" train c.json --data.train=good.bin --data.val=null --model.vocab_size=300 \
    --train.steps=1 --train.output_dir="Ann's kens" --train.save_end=false
check "... and what can follow" grep -qxF "zr: next: zr eval \$'Ann\'s kens' --data FILE; zr report \$'Ann\'s kens'" err
check "... without validation data, which is said" grep -q 'note: no validation data (data.val) is given' err
check "without model/" "$ZR" train c.json --train.steps=1 --train.eval_interval=0 --train.save_model=false --train.output_dir=unsaved
check "... what can follow reads the checkpoint" next "zr generate unsaved --prompt TEXT; zr eval unsaved; zr report unsaved"
check "without weights or checkpoint" "$ZR" train c.json --train.steps=1 --train.eval_interval=0 --train.save_model=false \
    --train.save_end=false --train.output_dir=nothing
check "... only a report can follow" next "zr report nothing"
check "no evaluations are said" grep -q 'note: train.eval_interval is 0' err
check "... they evaluate" "$ZR" eval tokens --data good.bin
check "... a text does not: its tokens are unknown" code 69 "$ZR" eval tokens --data val.txt
check "train for longer" "$ZR" train c.json --quiet --train.steps=300 --train.eval_interval=0 --train.output_dir=long
check "generate" "$ZR" generate long --prompt 'line 1' --tokens 60 --temperature 0
check "... what it has learnt" grep -q 'of a small text' out
cp out first
check "the likeliest of one" "$ZR" generate long --prompt 'line 1' --tokens 60 --top-k 1
check "... is the likeliest" cmp first out
check "generate again" "$ZR" generate long --prompt 'line 1' --tokens 60 --temperature 0
check "... the same" cmp first out
check "a moved run" mv run moved
check "... still evaluates" "$ZR" eval moved

check "a learning rate that diverges ends the run" code 80 "$ZR" train c.json --quiet --optimizer.type=SGD --scheduler=null \
    --optimizer.params='{"lr":1e30}' --gradient_clipping=0 --train.output_dir=nan
check "... and leaves no weights" test ! -e nan/model -a ! -e nan/model.tmp -a ! -e nan/lock
# limit each file to $1 blocks of 512 or 1024 bytes
full() { (ulimit -f $1; shift; "$ZR" train c.json --model.n_embd=8 --model.n_layer=1 --train.steps=400 --train.eval_interval=0 "$@"); }
check "a disk without room for the weights" code 74 full 12 --train.output_dir=none
check "... is found before the first step" sh -c '! grep -q ^step err && grep -q "no space on the disk for .* bytes" err && test -z "$(ls -A none)"'
check "a disk that fills while training" code 74 full 40 --train.output_dir=full --trace full.json
cp err full.err
check "... says what is lost" grep -q 'the weights after step 400 are in full/model; metrics.jsonl lacks [0-9]* lines' err
check "... says so, in one note each" sh -c 'grep -q "the trace ends early: full.json" err && test "$(grep -c "metrics.jsonl cannot" err)" = 1'
check "... leaves the weights whole" sh -c 'test -f full/model/config.json -a ! -e full/lock -a ! -e full/model.tmp'
check "... which evaluate" "$ZR" eval full
check "... and whole lines" sh -c 'test -s full/metrics.jsonl && test -z "$(tail -c 1 full/metrics.jsonl)" || { ls -l full; tail -c 300 full/metrics.jsonl; cat full.err; exit 1; } >&2'
check "... and a trace that ends early" test "$(tail -n 1 full.json)" = "]}"
small() { (ulimit -v 1000000; "$ZR" train c.json --quiet --model.n_embd=1024 --model.n_layer=24 --train.output_dir=small); }
case $(basename "$(dirname "$ZR")") in
address* | thread*) skip "memory that is not there" "sanitizers need address space of their own" ;;
*)
    check "memory that is not there" code 71 small
    check "... is asked for before anything is created" test ! -e small
    ;;
esac
for f in nowhere/t.json . /dev/full; do
    check "a trace that cannot be made: $f" code 73 "$ZR" train c.json --ranks 2 --trace $f --train.output_dir=traced
    check "... before a run is" test ! -e traced/config.json -a ! -e traced/metrics.jsonl -a ! -e traced/lock
done
same_files() { cmp text.txt text.kept && cmp val.txt val.kept && cmp c.json c.kept && cmp s0/metrics.jsonl metrics.kept; }
for f in text.txt val.txt c.json s0/metrics.jsonl; do cp $f "$(basename ${f%.*}).kept"; done
ln text.txt hard && ln -s text.txt soft && mkdir own && ln -s own alias && ln -s own/run.json dangling
for f in text.txt ./val.txt c.json hard soft dangling s0/metrics.jsonl s0/model/model.safetensors \
    own/metrics.jsonl own/config.json own/run.json own/run.json.tmp own/model own/lock ./own/../own//run.json alias/run.json; do
    check "a trace that would destroy $f" code 73 "$ZR" train c.json --ranks 2 --trace $f --train.output_dir=own
    check "... is refused before a run is" test -z "$(ls -A own)"
done
check "... and nothing has changed" same_files
"$ZR" train c.json --quiet --train.steps=1 --train.output_dir=old --trace old.json
check "a trace that is the data" code 73 "$ZR" train c.json --data.train=old.json --data.format=text --trace old.json --train.output_dir=own
check "an older trace is overwritten" "$ZR" train c.json --quiet --train.steps=2 --train.output_dir=own --trace old.json
check "... with the new one" grep -q '"training_step":2' old.json
check "steps of a trace, and no trace" code 2 "$ZR" train c.json --trace-steps 1:2 --train.output_dir=traced
check "... the wrong way round" code 2 "$ZR" train c.json --trace t.json --trace-steps 3:2 --train.output_dir=traced
check "... of none of the run's steps" code 2 "$ZR" train c.json --train.steps=6 --trace t.json --trace-steps 7:9 --train.output_dir=traced
check "... says so, and leaves nothing" sh -c 'grep -q "the run has only 6 steps" err && test ! -e t.json -a ! -e traced/lock -a ! -e traced/metrics.jsonl'
check "... of the last one" "$ZR" train c.json --train.steps=1 --trace t.json --trace-steps 1:9 --train.output_dir=last
check "... one step is no steps" sh -c 'grep -q "^zr: 1 step in " err && grep -q "\"training_step\":1," t.json'
check "timings" "$ZR" train c.json --ranks 2 --zero_optimization.stage=3 --train.output_dir=traced --timings --trace traced/t.json
check "... a table of at most 100 columns" awk '/^where the time goes/ { on = 1 } on && length > 100 { exit 1 } END { exit !on }' err
check "... the same numbers" same s3 traced
"$ZR" train c.json --ranks 2 --quiet --train.steps=1000000 --train.eval_interval=0 --train.output_dir=stop --trace stop.json >out 2>stop.err &
pid=$!
await $pid test -s stop/metrics.jsonl
check "a second job in the directory" code 73 "$ZR" train c.json --train.output_dir=stop
kill -TERM $pid
wait $pid
check "SIGTERM stops with 75" test $? = 75
check "... with a whole trace" test "$(tail -n 1 stop.json)" = "]}"
check "... and writes a checkpoint" test -f stop/latest -a -f "stop/$(cat stop/latest)/manifest.json" -a ! -e stop/lock \
    -a ! -e stop/model -a ! -e stop/model.tmp
check "... and says how to go on" grep -q "the checkpoint is in stop/$(cat stop/latest), continue with --resume" stop.err

mpirun=${ZR_MPIRUN-mpirun} # the test runner's launcher and its options, or empty
if [ -n "$mpirun" ] && command -v ${mpirun%% *} >/dev/null && "$ZR" info | grep -q '^transports .*mpi'; then
    if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
    export OMPI_MCA_rmaps_base_oversubscribe=1
    check "mpirun -n 2" $mpirun -n 2 "$ZR" train c.json --quiet --zero_optimization.stage=2 --train.output_dir=mpi
    check "... is as 2 threads, to the bit" same mpi s2
    check "... planned and measured" as_planned mpi 2 2
    check "mpirun: --ranks is an error" code 2 $mpirun -n 2 "$ZR" train c.json --ranks 2
    check "mpirun: data missing" code 66 $mpirun -n 2 "$ZR" train c.json --data.train=nope --train.output_dir=mpi2
    check "... said once" said_once nope
    check "mpirun: other options on a rank" code 78 $mpirun -n 1 "$ZR" train c.json --train.output_dir=mpi2 : \
        -n 1 "$ZR" train c.json --train.output_dir=mpi2 --train.steps=7
    if ZR_KERNELS=v3 "$ZR" info >/dev/null 2>&1; then
        levels() { $mpirun -n 1 env ZR_KERNELS=v2 "$ZR" train c.json --train.steps=1 "$@" : \
            -n 1 env ZR_KERNELS=v3 "$ZR" train c.json --train.steps=1 "$@"; }
        check "mpirun: another processor level on a rank" levels --zero_optimization.stage=1 --train.output_dir=mpi5
        check "... is noted" grep -q 'note: rank 0 uses the kernels v2 and rank 1 uses v3' err
        check "... with copies that both update" code 78 levels --zero_optimization.stage=0 --train.output_dir=mpi6
        check "... says what would do" grep -q 'kernels v2 and rank 1 uses v3, .*copies.* set ZR_KERNELS' err
        check "... and creates nothing" test ! -e mpi6
    else
        skip "mpirun: another processor level on a rank" "this processor has no level v3"
    fi
    check "mpirun: an option that one rank does not know" code 2 $mpirun -n 1 "$ZR" train c.json --train.output_dir=mpi2 : \
        -n 1 "$ZR" train c.json --bogus
    check "... says which rank" grep -q 'rank 1: unknown option --bogus' err
    version=$("$ZR" --version | sed 's/zr //; s/\./\\./g')
    # only the first digit, since the linker may use the end of the version for other strings, such as "1.0"
    LC_ALL=C sed "s/$version/9${version#?}/g" "$ZR" >other && chmod +x other
    check "mpirun: another version on a rank" code 78 $mpirun -n 1 "$ZR" train c.json --train.output_dir=mpi2 : \
        -n 1 ./other train c.json --train.output_dir=mpi2
    check "... nothing was created" test ! -e mpi2
    # the command's own shell, so that one of the processes can be asked
    $mpirun -n 2 sh -c 'echo $$ >pid.$$; exec "$@"' sh "$ZR" train c.json --train.steps=1000000 --train.eval_interval=0 \
        --train.output_dir=mpistop >out 2>err &
    pid=$!
    await $pid test -s mpistop/metrics.jsonl
    kill -TERM "$(cat pid.* | tail -n 1)"
    wait $pid
    check "mpirun: SIGTERM for one rank stops all with 75" test $? = 75
    check "... and there is a checkpoint" test -f "mpistop/$(cat mpistop/latest)/manifest.json" -a ! -e mpistop/lock \
        -a ! -e mpistop/model.tmp
    check "... which evaluates" "$ZR" eval mpistop
    mkdir bad touched && token_file bad/good.bin && token_file touched/good.bin
    cp c.json touched/
    tokens='--data.train=good.bin --data.val=null --model.vocab_size=300 --train.steps=1000000'
    $mpirun -n 1 "$ZR" train c.json --quiet $tokens --train.output_dir="$DIR/mpi4" : \
        -n 1 -wdir "$DIR/touched" "$ZR" train c.json --quiet $tokens --train.output_dir="$DIR/mpi4" >out 2>err &
    pid=$!
    await $pid test -s mpi4/metrics.jsonl
    touch touched/good.bin
    wait $pid
    check "mpirun: a file that changes on one rank ends all with 74" test $? = 74
    check "... and the weights are saved" test -f mpi4/model/config.json -a ! -e mpi4/lock -a ! -e mpi4/model.tmp
    printf '\347\003' | dd of=bad/good.bin bs=1 seek=20238 conv=notrunc 2>/dev/null # token 10119, between the spot checks
    cp c.json bad/
    tokens='--data.train=good.bin --data.val=good.bin --model.vocab_size=300 --train.eval_batches=0 --train.steps=200'
    check "mpirun: bad data on one rank" code 65 $mpirun -n 1 "$ZR" train c.json --quiet $tokens \
        --train.output_dir="$DIR/mpi3" : -n 1 -wdir "$DIR/bad" "$ZR" train c.json --quiet $tokens --train.output_dir="$DIR/mpi3"
    check "... said once, with rank and place" said_once '^zr: rank 1: good.bin: token 10119 '
else
    skip "mpirun" "no mpirun, or built without MPI"
fi
echo "1..$n"
