#TEST timeout=240 mpi=1
# Check stopping, killing and resuming from the command: the files that stay, messages, refusals.
. tests/support/command.inc

i=0
while [ $i -lt 400 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
tail -n 60 text.txt >val.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 16, "dropout": 0.1},
 "data": {"train": "text.txt", "val": "val.txt"}, "train_batch_size": 8,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "gradient_clipping": 1.0,
 "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 4, "warmup_max_lr": 0.01}},
 "train": {"steps": 24, "eval_interval": 6, "eval_batches": 2, "threads": 1, "save_interval": 6, "keep_last": 2}}
END
train() { "$ZR" train c.json --train.output_dir="$@"; }
# Print what does not depend on time: step, loss, norm, rate, tokens; evaluations completely.
numbers() { sed 's/, "step_ms".*//' "$1/metrics.jsonl"; }
steps_of() { (cd "$1" && ls -d step-* | tr '\n' ' '); }
# Of the newest checkpoint; `latest` may still name the one before when a run is killed.
newest() { ls -d "$1"/step-* | sed -n 's/.*step-0*\([0-9][0-9]*\)$/\1/p' | sort -n | tail -n 1; }
has_lines() { [ -f "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]; }

check "a run that is not disturbed" train whole --ranks 2
check "... keeps its last two checkpoints" test "$(steps_of whole)" = "step-00000018 step-00000024 "
check "... of which latest names the newer" test "$(cat whole/latest)" = step-00000024
check "... and says what it saved" grep -q 'step 6 .*saved step-00000006' err
check "a checkpoint evaluates as the run does" sh -c '"$0" eval whole --json >1 && "$0" eval whole/step-00000024 --data val.txt --json >2 &&
    test "$(cut -d, -f1 1)" = "$(cut -d, -f1 2)"' "$ZR"

# No number of ranks makes a batch of 10 from micro-batches of 4 and 7 accumulation steps, so it is refused with
# --resume too.
sed 's/"train_batch_size": 8/"train_batch_size": 10, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 7/' c.json >triple.json
check "a batch that no number of ranks makes" code 78 "$ZR" train triple.json --train.output_dir=triple --resume --quiet
check "... of which nothing is left" test ! -e triple
# A run that is killed by a signal that no process can catch writes nothing more.
kill_after() { # DIR LINES ARGUMENTS
    dir=$1 after=$2
    shift 2
    "$ZR" train c.json --quiet --train.output_dir="$dir" "$@" >out 2>err &
    pid=$!
    await $pid has_lines "$dir/metrics.jsonl" "$after"
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
}
# A long run, so that the kill comes before its end; later runs have the steps of `whole`.
kill_after killed 9 --ranks 2 --train.steps=100000
check "a killed run leaves its lock" test -f killed/lock
if [ -s /etc/machine-id ]; then
    cp killed/lock lock.kept
    sed -i 's/machine [0-9a-f]*/machine 00000000deadbeef/' killed/lock
    check "that of another machine with this host's name is not taken over" code 73 train killed --resume
    cp lock.kept killed/lock
else
    skip "that of another machine with this host's name is not taken over" "no /etc/machine-id"
fi
steps=$(newest killed)
check "... and a checkpoint" test $steps -ge 6
check "it goes on" train killed --ranks 2 --resume --train.steps=$((steps + 6))
check "... taking over the lock" grep -q 'took over the lock of the directory from a process that no longer exists (host .*, process [0-9]*)' err
check "... from the newest checkpoint" grep -q "goes on after step $steps of" err
check "... says which key has changed" grep -q "changed since the checkpoint: train.steps was 100000, and is now $((steps + 6))" err
check "... and leaves no lock" test ! -e killed/lock -a ! -e killed/model.tmp
check "the run that is not disturbed, as long" train longer --ranks 2 --quiet --train.steps=$((steps + 6))
check "... is the same text, and the same weights" same longer killed

check "no run yet" train none --resume --train.steps=6
check "... says so" grep -q 'there is no checkpoint in none yet: the run starts at step 0' err
kill_after early 2 --train.save_interval=0 --train.steps=100000
check "a run that was killed without a checkpoint starts again" train early --resume --train.steps=24
check "... and says so" grep -q 'there is no checkpoint in early yet' err
check "... its metrics are cut" test "$(grep -c '"loss"' early/metrics.jsonl) $(grep -c val_loss early/metrics.jsonl)" = "24 4"
train one --quiet >out 2>err
check "... as if it had never been killed" same one early

check "from another folder, by the run's own configuration" sh -c 'mkdir -p elsewhere && cd elsewhere &&
    "$0" train ../whole/config.json --resume --ranks 2 --train.steps=30' "$ZR"
check "... it goes on in its own directory" test -d whole/step-00000030 -a ! -e elsewhere/whole
cp -r whole fewer
check "on another number of ranks, by the run's own configuration" "$ZR" train fewer/config.json --resume --train.steps=34
check "... its batch stays, and what follows from it is said" grep -q 'train_batch_size: still 8, on 1 rank with train_micro_batch_size_per_gpu 4 and gradient_accumulation_steps 2' err
check "... and how many ranks it had" grep -q 'changed since the checkpoint: the number of ranks was 2, and is now 1' err
check "... where they do not divide it, too" code 78 "$ZR" train whole/config.json --resume --ranks 3 --train.steps=34
check "... with what is wanted" grep -q 'a resumed run keeps its 8 (it had 2 ranks), which is not a multiple of 3 ranks' err
check "a directory that is no run" sh -c 'mkdir -p foreign && echo "{}" >foreign/config.json && ! "$0" train c.json --resume \
    --train.output_dir=foreign' "$ZR"
check "... is left as it is" test "$(cat foreign/config.json) $(ls foreign)" = "{} config.json"
check "without --resume a run is not touched" code 73 train whole
check "... and --resume is named" grep -q -- '--resume' err

cp -r whole damaged
printf x | dd of=damaged/step-00000030/model.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
check "a damaged checkpoint, and later weights than the one before" code 73 train damaged --ranks 2 --resume --train.steps=36
check "... are not replaced" sh -c 'grep -q "holds weights after step 30 (model), .* step-00000024: " err && diff -r whole/model damaged/model'
rm -r damaged/model
check "a damaged checkpoint" train damaged --ranks 2 --resume --train.steps=36
check "... is passed over, with the reason" grep -q 'step-00000030 is skipped: .*model.safetensors' err
check "... for the one before" grep -q 'goes on after step 24 of 36' err
check "... is not removed, but renamed" cmp damaged/step-00000030.old/exp_avg.safetensors whole/step-00000030/exp_avg.safetensors
check "... and it is said" grep -q 'step 30: the directory that had the name of this checkpoint is kept as .*step-00000030.old' err
check "... beside the last two" test "$(steps_of damaged)" = "step-00000030 step-00000030.old step-00000036 "
check "the whole one" train whole --ranks 2 --resume --quiet --train.steps=36
check "... ends in the same" same whole damaged
check "at another number of ranks and stage" train whole --ranks 4 --resume --zero_optimization.stage=3 --train.steps=42
check "... says what has changed" sh -c 'grep -q "zero_optimization.stage was 0, and is now 3" err && grep -q "number of ranks was 2, and is now 4" err'
check "another model" code 78 train whole --resume --model.n_layer=3 --train.steps=48
check "other data" code 65 train whole --resume --data.train=val.txt --train.steps=48
check "... names both" grep -q 'data.train: the file has .* when step-00000042 was written' err
check "fewer steps than are done" code 78 train whole --resume --train.steps=12

# A copy of the checkpoints alone, without the other files of the run.
mkdir copied
cp -r whole/step-00000036 whole/step-00000042 copied
check "copied checkpoints are not overwritten" code 73 train copied
check "... they are named" grep -q 'a checkpoint is there' err
check "... but gone on from" train copied --resume --train.steps=43 --train.keep_last=9
check "... with metrics of their own" test "$(steps_of copied) $(grep -c '"loss"' copied/metrics.jsonl)" = \
    "step-00000036 step-00000042 step-00000043  1"

cp -r copied unkept
rm unkept/step-00000042/manifest.json
check "one that is not whole" train unkept --resume --train.steps=44 --train.keep_last=2
check "... does not count as kept" test "$(steps_of unkept)" = "step-00000042 step-00000043 step-00000044 "

cp -r copied unreadable
chmod 000 unreadable/step-00000043/manifest.json
bare="" # root reads everything, but for this
[ "$(id -u)" != 0 ] || bare="setpriv --bounding-set=-dac_override,-dac_read_search"
if $bare true 2>/dev/null && ! $bare cat unreadable/step-00000043/manifest.json >cat.out 2>&1; then
    check "a checkpoint that cannot be read now" code 74 $bare "$ZR" train c.json --resume --train.output_dir=unreadable --train.steps=44
    check "... is not passed over" sh -c 'grep -q "step-00000043/manifest.json: cannot open: Permission denied" err && ! grep -q "is skipped: " err'
else
    skip "a checkpoint that cannot be read now" "root reads everything, and no setpriv"
fi

cp -r copied pointless
rm pointless/latest
mkdir pointless/latest
check "a run whose latest cannot be written" train pointless --resume --train.steps=44 --train.keep_last=1
check "... says so" grep -q 'note: the checkpoint of step 44 is written, but latest could not be: ' err
check "... and has the checkpoint, and removed older ones" test "$(steps_of pointless)" = "step-00000044 "

for weights in model model.tmp model.old; do
    mkdir -p "ended.$weights/$weights"
    cp whole/metrics.jsonl "ended.$weights"
    cp whole/model/model.safetensors "ended.$weights/$weights"
    check "weights without a checkpoint ($weights) are not written over" code 73 train "ended.$weights" --resume
    check "... they are named" grep -q "its weights ($weights" err
    check "... and as they were" cmp "ended.$weights/$weights/model.safetensors" whole/model/model.safetensors
done

"$ZR" train c.json --quiet --train.output_dir=stopped --train.steps=100000 --train.save_interval=0 >out 2>err &
pid=$!
await $pid has_lines stopped/metrics.jsonl 3
kill -TERM $pid
wait $pid
check "a run that is asked to stop ends with 75" test $? = 75
check "... and evaluates" "$ZR" eval stopped
steps=$(newest stopped)
check "... goes on" train stopped --resume --train.steps=$((steps + 2)) --train.save_interval=0
check "... to the end" sh -c 'test -f stopped/model/model.safetensors && test "$(grep -c "\"loss\"" stopped/metrics.jsonl)" = '$((steps + 2))

ln -s /etc/passwd step-link 2>/dev/null
check "links in the place of checkpoints" sh -c 'cp -r whole linked && rm -r linked/step-00000036 && ln -s ../whole/step-00000036 linked/step-00000036 &&
    mv linked/step-00000042/model.safetensors m && ln -s ../../m linked/step-00000042/model.safetensors &&
    ! "$0" train c.json --train.output_dir=linked --resume --train.steps=48' "$ZR"
check "... are not followed" grep -q 'none of its 2 checkpoints is complete' err

if [ "$(id -u)" = 0 ] && mkdir small && mount -t tmpfs -o size=160k tmpfs small 2>/dev/null; then
    check "a disk without room for checkpoints ends with 74" code 74 train small/run --train.save_interval=4
    check "... after all steps, with the weights" test "$(grep -c '"loss"' small/run/metrics.jsonl)" = 24 -a -f small/run/model/model.safetensors
    check "... and says so, and leaves no half of one" sh -c 'grep -q "note: the checkpoint of step .* could not be written; training goes on" err &&
        ! ls small/run | grep -q tmp'
    umount small
else
    skip "a disk without room for checkpoints" "a small file system needs root"
fi

mpirun=${ZR_MPIRUN-mpirun} # the test runner's launcher and its options, or empty
if [ -n "$mpirun" ] && command -v ${mpirun%% *} >/dev/null && "$ZR" info | grep -q '^transports .*mpi'; then
    if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
    export OMPI_MCA_rmaps_base_oversubscribe=1
    $mpirun -n 2 sh -c 'echo $$ >pid.$$; exec "$@"' sh "$ZR" train c.json --quiet --zero_optimization.stage=2 \
        --train.steps=100000 --train.output_dir=mpi >out 2>err &
    pid=$!
    await $pid has_lines mpi/metrics.jsonl 9
    kill -KILL "$(cat pid.* | tail -n 1)"
    wait $pid
    steps=$(newest mpi)
    check "mpirun: a rank is killed, and the run goes on" $mpirun -n 2 "$ZR" train c.json --resume \
        --zero_optimization.stage=2 --train.steps=$((steps + 6)) --train.output_dir=mpi
    train threads --ranks 2 --quiet --train.steps=$((steps + 6)) >out 2>err
    check "... as if it had not been killed" same threads mpi
    if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
        mkdir -p shared
        check "mpirun: ranks with other directories of that name" code 73 $mpirun -n 1 "$ZR" train c.json \
            --train.output_dir="$DIR/shared/run" : -n 1 unshare -m sh -c 'mount -t tmpfs tmpfs "$0" && exec "$@"' "$DIR/shared" \
            "$ZR" train c.json --train.output_dir="$DIR/shared/run"
        check "... are refused, hosts named" grep -q 'on host .* is not the directory of that name on host ' err
        check "... and nothing is left" test -z "$(ls -A shared/run 2>/dev/null)"
        check "mpirun: the same, going on" code 73 $mpirun -n 1 "$ZR" train c.json --resume --train.steps=100 \
            --train.output_dir="$DIR/mpi" : -n 1 unshare -m sh -c 'mount -t tmpfs tmpfs "$0" && exec "$@"' "$DIR/mpi" \
            "$ZR" train c.json --resume --train.steps=100 --train.output_dir="$DIR/mpi"
    else
        skip "mpirun: ranks with other directories of that name" "a mount namespace needs root"
    fi
else
    skip "mpirun" "no MPI"
fi
echo "1..$n"
