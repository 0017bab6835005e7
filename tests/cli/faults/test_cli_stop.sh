#TEST timeout=120 mpi=1 build=tests/zr_fault
# Check requests to stop or to save from outside: by signals, by a time limit, under a launcher, by the example scripts.
. tests/support/command.inc
ZR_SOURCE=${ZR_SOURCE:-$(dirname "$(dirname "$ZR")")}

i=0
while [ $i -lt 400 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16},
 "data": {"train": "text.txt"}, "train_batch_size": 8, "train": {"steps": 100000000, "threads": 1}}
END
wait_for() { await $pid "$@" >/dev/null; } # for the run that was started last
ends_with() { # CODE PID
    wait "$2"
    rc=$?
    [ $rc = "$1" ] || { echo "exit code $rc, wanted $1" >&2; return 1; }
}
one() { ls -d "$1"/step-*[0-9] 2>/dev/null | grep -q .; }

for ranks in 1 2; do
    dir=run$ranks
    "$ZR" train c.json --ranks $ranks --train.output_dir=$dir >$dir.out 2>$dir.err &
    pid=$!
    wait_for test -s $dir/metrics.jsonl
    kill -USR2 $pid
    check "$ranks ranks: SIGUSR2 saves" wait_for one $dir
    first=$(cat $dir/latest)
    lines=$(wc -l <$dir/metrics.jsonl)
    check "... the run goes on" wait_for sh -c "test \$(wc -l <$dir/metrics.jsonl) -gt $((lines + 5))"
    check "... and says so" grep -q 'zr: saving after this step, then going on' $dir.err
    kill -USR1 $pid
    check "SIGUSR1 stops it with 75" ends_with 75 $pid
    check "... with a newer checkpoint" test "$(cat $dir/latest)" '>' "$first"
    check "... that is whole" "$ZR" verify $dir
done
# Before training.
early() { # SIGNAL: of a run that stands still in its start
    ZR_FAULT=stop:0@start "$FAULTY" train c.json --train.output_dir=early$1 >early$1.out 2>early$1.err &
    pid=$!
    wait_for sh -c "ps -o stat= -p $pid | grep -q T" && kill -$1 $pid && kill -CONT $pid
}
check "SIGTERM before training" early TERM
check "... stops with 75" ends_with 75 $pid
check "... and is answered" grep -q 'zr: stopping when training begins; once more: stop now$' earlyTERM.err
check "... SIGINT" early INT
check "... stops with 75" ends_with 75 $pid
check "... and is answered" grep -q 'zr: stopping when training begins; once more: stop now$' earlyINT.err
check "it goes on for as long as it may" code 75 "$ZR" train c.json --train.output_dir=run1 --resume --max-time 3
check "... and says why it stops" grep -q 'another step and its checkpoint would exceed --max-time' err
check "... also at the end" sh -c 'tail -n 1 err | grep -q "stopped as --max-time asked after step"'
check "... with a checkpoint" sh -c '"$0" verify run1 && tail -n 1 err | grep -q "continue with --resume"' "$ZR"
check "a run that is done in time" "$ZR" train c.json --train.output_dir=short --train.steps=3 --max-time=2h
for time in x 0 3x 90m90m -1 '' 1s1h; do
    check "--max-time=$time" code 2 "$ZR" train c.json --max-time="$time"
done

# A warning signal, then the final one, which no handler can catch yet. A picture that cannot be drawn hides no message;
# a lock that belongs to another job by now is not removed.
mkdir -p warned/loss.svg
"$ZR" train c.json --train.output_dir=warned >warned.out 2>warned.err &
pid=$!
wait_for test -s warned/metrics.jsonl
echo 'host elsewhere, process 1' >other.lock
cp other.lock warned/lock
kill -STOP $pid && kill -USR1 $pid && kill -INT $pid && kill -CONT $pid
check "SIGINT after SIGUSR1 stops with 75" ends_with 75 $pid
check "... with a checkpoint" "$ZR" verify warned
check "... that the last line names" sh -c 'tail -n 1 warned.err | grep -q "the checkpoint is in .*continue with --resume"'
check "... beside a note on the picture" grep -q 'note: the picture of the loss is not drawn' warned.err
check "... and the lock is still the other job's" cmp other.lock warned/lock

# ---- what is in the way of the weights of a run that goes on
check "a run whose model/ is moved away" "$ZR" train c.json --train.output_dir=moved --train.steps=2 --train.save_interval=1
mv moved/model elsewhere && ln -s ../elsewhere moved/model
cp elsewhere/model.safetensors kept.safetensors
check "... behind a link" "$ZR" train c.json --train.output_dir=moved --resume --train.steps=3 --train.save_interval=1
check "... stays what it was" cmp kept.safetensors elsewhere/model.safetensors
check "... with its config.json" test -s elsewhere/config.json
check "... beside new weights" test -d moved/model -a ! -L moved/model -a -s moved/model/model.safetensors
check "... the link is gone" test ! -L moved/model.old
for place in model.old model.old.2 model.old.3; do
    echo $place >moved/model/tokenizer.json
    steps=$((${steps:-3} + 1))
    check "a foreign file in model/" "$ZR" train c.json --train.output_dir=moved --resume --train.steps=$steps --train.save_interval=1
    check "... is kept in $place" sh -c "echo $place | cmp - moved/$place/tokenizer.json"
    check "... which is said" grep -q "it is kept in .*moved/$place\$" err
    check "... beside new weights" sh -c '! cmp -s moved/model/tokenizer.json moved/'$place'/tokenizer.json \
        && test -s moved/model/model.safetensors'
done

# ---- the example scripts, with launchers that only tell what they are asked
mkdir bin
cat >bin/launch <<'END'
#!/bin/sh
echo "${0##*/} $*" >>calls
n=$(wc -l <calls)
code=$(echo $CODES | cut -d' ' -f$n)
exit ${code:-0}
END
printf '#!/bin/sh\necho "scontrol $*" >>calls\n' >bin/scontrol
chmod +x bin/*
cp bin/launch bin/srun && cp bin/launch bin/mpirun
slurm="$ZR_SOURCE/examples/slurm.sh" requeue="$ZR_SOURCE/examples/mpirun-requeue.sh"
with() { rm -f calls; PATH="$DIR/bin:$PATH" "$@"; }
check "slurm.sh is a script" sh -n "$slurm"
check "mpirun-requeue.sh is a script" sh -n "$requeue"
check "a run that is done" with env CODES=0 SLURM_JOB_ID=7 sh "$slurm" c.json out
check "... was started with --resume" grep -q '^srun .*zr train c.json --train.output_dir=out --resume' calls
check "... once" test "$(wc -l <calls)" = 1
check "a run that was stopped" with env CODES=75 SLURM_JOB_ID=7 sh "$slurm" c.json out
check "... is put into the queue again" grep -qx 'scontrol requeue 7' calls
check "a run that cannot go on" code 78 with env CODES=78 SLURM_JOB_ID=7 sh "$slurm" c.json out
check "... is not" test "$(wc -l <calls)" = 1
check "mpirun: stopped, then done" with env CODES="75 75 0" sh "$requeue" 2 c.json out
check "... was started three times" test "$(grep -c '^mpirun -n 2 .*zr train c.json --train.output_dir=out --resume' calls)" = 3
check "mpirun: a rank that is lost is started again" with env CODES="83 137 0" sh "$requeue" 2 c.json out
check "... not for ever" code 83 with env CODES="83 83 83 83 83 83 83 83" sh "$requeue" 2 c.json out
check "... but a few times" test "$(wc -l <calls)" = 4
check "mpirun: stopping again and again without a step" code 75 with env CODES="75 75 75 75 75 75" sh "$requeue" 2 c.json out
check "... ends too" test "$(wc -l <calls)" = 4
check "mpirun: a fault of the configuration is not" code 78 with env CODES=78 sh "$requeue" 2 c.json out
check "... started again" test "$(wc -l <calls)" = 1

mpirun=${ZR_MPIRUN-mpirun}
if [ -z "$mpirun" ] || ! "$ZR" info | grep -q '^transports .*mpi'; then
    skip "under mpirun" "no MPI"
elif "$ZR" info | grep -q MPICH; then
    skip "under mpirun" "the launcher of MPICH does not pass SIGUSR2 on"
else
    if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
    export OMPI_MCA_rmaps_base_oversubscribe=1
    MPIRUN="$mpirun" ZR="$ZR" sh "$requeue" 2 c.json mpi >mpi.out 2>mpi.err &
    pid=$!
    wait_for test -s mpi/metrics.jsonl
    kill -USR2 $pid
    check "SIGUSR2 to mpirun-requeue.sh saves" wait_for one mpi
    lines=$(wc -l <mpi/metrics.jsonl)
    check "... the run goes on" wait_for sh -c "test \$(wc -l <mpi/metrics.jsonl) -gt $((lines + 5))"
    kill -TERM $pid
    check "SIGTERM to mpirun-requeue.sh stops the run with 75" ends_with 75 $pid
    check "... with a checkpoint" "$ZR" verify mpi
    check "... once" test "$(grep -c 'stopped on request' mpi.err)" = 1
fi
echo "1..$n"
