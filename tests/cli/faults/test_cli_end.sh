#TEST timeout=120
# Check the files of a run at its end: the checkpoint of its last step, from which it can be trained longer; weights
# that no resume replaces by earlier ones; nothing written through a link. Check the messages when the disk is full.
. tests/support/command.inc

i=0
while [ $i -lt 400 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 16, "dropout": 0.1},
 "data": {"train": "text.txt"}, "train_batch_size": 8, "gradient_clipping": 1.0,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "train": {"steps": 8, "eval_interval": 0, "threads": 1}}
END
train() { dir=$1; shift; "$ZR" train c.json --train.output_dir="$dir" "$@"; }

check "a run without save_interval" train run
check "... has a checkpoint of its last step" test "$(ls run | tr '\n' ' ')" = "config.json latest loss.svg metrics.jsonl model run.json step-00000008 "
check "... says so" grep -q 'step 8 .*saved step-00000008' err
check "it is trained longer" train run --resume --train.steps=14
check "... going on after its last step" grep -q 'goes on after step 8 of 14' err
train whole --quiet --train.steps=14 >out 2>err
check "... as if it had been so long from the start" same run whole
check "the run's own configuration keeps the key" grep -q '"save_end": *true' run/config.json

check "train.save_end false" train none --train.save_end=false
check "... leaves no checkpoint" test ! -e none/step-00000008 -a ! -e none/latest -a -f none/model/model.safetensors
check "... so it is not trained longer" code 73 train none --resume --train.steps=14
check "... but with save_interval it has one" train both --quiet --train.save_end=false --train.save_interval=5
check "... of the last step too" test -d both/step-00000005 -a -d both/step-00000008

check "train.save_model false" train bare --train.save_model=false
check "... leaves no model/" test "$(ls bare | tr '\n' ' ')" = "config.json latest loss.svg metrics.jsonl run.json step-00000008 "
check "... and says so" grep -q 'no model/ was written' err
check "... its checkpoint has the weights" "$ZR" eval bare --data text.txt --quiet
check "... and it is trained longer, to weights" train bare --quiet --resume --train.steps=14 --train.save_model=true
check "... as if it had been so long from the start" same bare whole
check "... which a run without them keeps" train bare --quiet --resume --train.steps=16 --train.save_model=false
check "... as they were" diff -r bare/model whole/model
train nothing --quiet --train.save_model=false --train.save_end=false >out 2>err
check "without a checkpoint too it leaves nothing" test "$(ls nothing | tr '\n' ' ')" = "config.json loss.svg metrics.jsonl run.json "
check "... to read" fails 66 'no model/ in it, which is written when a run ends (unless train.save_model is false)' \
    "$ZR" generate nothing --prompt line
check "... but to report" "$ZR" report nothing
check "... and to plot" "$ZR" plot nothing -o plot.svg
check "a run of these that fails" code 74 sh -c 'ulimit -f 20; exec "$0" train c.json --quiet --train.output_dir=failed \
    --train.save_model=false --train.save_end=false --train.steps=600' "$ZR"
check "... says that it saves nothing" grep -q 'the weights after step 600 are not saved, since train.save_model is false' err

# The best of evaluations that improve and get worse again, also when a run is resumed after the best one.
head -n 30 text.txt | tr a-m n-z >val.txt
best() { "$ZR" train c.json --quiet --data.val=val.txt --train.eval_interval=2 --train.keep_best=true --train.save_interval=8 "$@"; }
losses() { sed -n 's/.*"val_loss":\([^,]*\),.*/\1/p' "$1/metrics.jsonl"; }
of_best() { "$ZR" eval "$1/best" --data val.txt --json | sed -n 's/.*"loss": *\([^,}]*\).*/\1/p'; }
check "the best weights are kept" best --train.steps=40 --train.output_dir=bests
lowest=$(losses bests | sort -g | head -n 1)
check "... of an evaluation that is not the last" test "$lowest" != "$(losses bests | tail -n 1)"
check "... and have its loss" test "$(of_best bests | cut -c1-7)" = "$(echo "$lowest" | cut -c1-7)"
cp -r bests/best best.kept
check "a run that goes on and gets no better" best --resume --train.steps=44 --train.output_dir=bests
check "... leaves them" sh -c 'test "$1" = "$2" && diff -r best.kept bests/best' - "$lowest" "$(losses bests | sort -g | head -n 1)"
# A run that is stopped after its best evaluation, and resumed from before it, to an evaluation with a higher loss.
check "a run that is best at its 2nd evaluation of three" best --train.steps=14 --train.save_interval=2 --train.keep_last=9 \
    --train.output_dir=rewound
best_step() { sed -n 's/^{"step":\([0-9]*\), "val_loss":.*/\1/p' "$1/best/trained.json"; }
at=$(best_step rewound)
check "... says which step it is" test "$(sed -n "s/^{\"step\":$at, \"val_loss\":\([^,]*\),.*/\1/p" rewound/metrics.jsonl)" = \
    "$(losses rewound | sort -g | head -n 1)"
before=$((at - 4))
rm -rf rewound/model rewound/run.json
for step in rewound/step-*; do [ "$step" = "rewound/step-$(printf %08d $before)" ] || rm -r "$step"; done
cp -r rewound/best best.kept2
cp -r rewound killed && cp -r rewound between && cp -r rewound unnamed && cp -r rewound away
check "to go on from before the best, and not as far" best --resume --train.steps=$((at - 2)) --train.output_dir=rewound
check "... leaves it" diff -r best.kept2 rewound/best
mv killed/best killed/best.old && cp -r best.kept2 killed/best.tmp
sed -i 's/"val_loss":[^}]*/"val_loss":99/' killed/best.old/trained.json
check "a run that was killed between two names of best/" best --resume --train.steps=$((at - 2)) --train.output_dir=killed
check "... has it again" diff -r best.kept2 killed/best
check "... and no other" test ! -e killed/best.tmp -a ! -e killed/best.old
mv unnamed/best unnamed/best.old
check "... or before the second" best --resume --train.steps=$((at - 2)) --train.output_dir=unnamed
check "... too" diff -r best.kept2 unnamed/best
cp -r best.kept2 between/best.tmp && sed -i 's/"val_loss":[^}]*/"val_loss":99/' between/best/trained.json
check "... or before the first" best --resume --train.steps=$((at - 2)) --train.output_dir=between
check "... has the lower one" diff -r best.kept2 between/best
rm -r away/best
check "a run that goes on without a best/" "$ZR" train c.json --data.val=val.txt --train.eval_interval=2 --train.keep_best=true \
    --resume --train.steps=$((at - 2)) --train.output_dir=away
check "... says so" grep -q 'there is no best/ yet' err
check "... and begins it" test "$(best_step away)" = $((at - 2))
check "keep_best without an evaluation" fails 78 'train.keep_best: .*(there is no data.val)' "$ZR" train c.json --train.keep_best=true
check "... or with an interval of 0" fails 78 'train.keep_best: .*(train.eval_interval is 0)' "$ZR" train c.json \
    --data.val=val.txt --train.keep_best=true
if [ "$(id -u)" = 0 ] && mkdir best.small && mount -t tmpfs -o size=100k tmpfs best.small 2>/dev/null; then
    check "a disk without room for the best" code 74 best --train.steps=40 --train.save_end=false --train.save_interval=0 \
        --train.output_dir=best.small/run
    check "... is said, and the run goes on" grep -q 'note: the best weights so far, of step [0-9]*, could not be written: ' err
    check "... to its last weights" test -f best.small/run/model/model.safetensors
    umount best.small
else
    skip "a disk without room for the best" "a small file system needs root"
fi

# Weights of step 14, and no later checkpoint than that of step 8.
train later --quiet >out 2>err
check "a run that goes on and leaves weights alone" train later --quiet --resume --train.steps=14 --train.save_end=false
cp -r later kept
for steps in 10 14 20; do
    check "to go on from before its weights, to step $steps" code 73 train later --resume --train.steps=$steps
    check "... is refused, with what to do" said_once 'holds weights after step 14 (model), .*step-00000008: .*Move model elsewhere'
    check "... and changes nothing" diff -r kept later
done
# Weights keep their own step, whatever happened to run.json.
rm later/run.json && rm -r kept && cp -r later kept
check "without run.json it is refused too" code 73 train later --resume --train.steps=10
check "... and changes nothing" diff -r kept later
mv later/model/trained.json trained
check "weights of which nothing says the step" code 73 train later --resume --train.steps=10
check "... are taken for later ones" said_once 'of an unknown step (model), .*Move model elsewhere'
echo '{"steps":8}' >later/run.json
cp -r later earlier
check "... but run.json does, as of earlier versions" train earlier --resume --train.steps=10
mv trained later/model/trained.json
check "... and not where the weights say it" code 73 train later --resume --train.steps=10
cp -r run lines && head -n 5 run/metrics.jsonl >lines/metrics.jsonl
check "a run whose last lines were lost" train lines --resume --train.steps=16
check "... says which" grep -q 'metrics.jsonl lacks the lines of steps 6 to 14' err
mv later/model later.model
check "with the weights elsewhere it goes on" train later --resume --train.steps=10
check "... from the checkpoint" grep -q 'goes on after step 8 of 10' err

# A link at the name of an output is not followed: it may lead to a file of another user.
mkdir victim
for f in config.json model.safetensors model.safetensors.tmp; do echo "of somebody else" >victim/$f; done
cp -r victim victim.kept
train linked --quiet >out 2>err
ln -s ../victim linked/model.tmp
check "a link in the place of model.tmp" train linked --resume --train.steps=10
check "... is not followed" diff -r victim.kept victim
check "... and replaced" test -f linked/model/model.safetensors -a ! -e linked/model.tmp -a ! -L linked/model
ln victim/config.json linked/metrics.hard && mv linked/metrics.jsonl metrics.kept && mv linked/metrics.hard linked/metrics.jsonl
check "a hard link in the place of metrics.jsonl" code 73 train linked --resume --train.steps=12
check "... is refused" said_once 'metrics.jsonl has 2 hard links, .*replace it with a copy'
check "... and not written" diff -r victim.kept victim
cp metrics.kept linked/copy && mv linked/copy linked/metrics.jsonl
check "a copy does" train linked --quiet --resume --train.steps=12

# Metrics that do not fit on the disk: the file ends after 52 kB, and the last bytes, an incomplete line, are ignored.
train long --quiet --train.steps=20 >out 2>err
cp long/metrics.jsonl history
truncate -s 53248 long/metrics.jsonl
rm long/run.json && mkdir -p long/run.json/taken # so that run.json cannot be written either
check "a file that takes no line more" code 74 sh -c 'ulimit -f 104; exec "$0" train c.json --quiet --train.output_dir=long --resume \
    --train.steps=600' "$ZR"
check "... keeps what it had" cmp -n "$(wc -c <history)" history long/metrics.jsonl
check "... and whole lines up to the bound" sh -c 'test -z "$(tail -c 1 long/metrics.jsonl)" && test "$(wc -l <long/metrics.jsonl)" -gt 100'
check "... is said at once, without notes too" test "$(grep -c 'note: metrics.jsonl cannot be written: .*; its lines are kept in memory' err)" = 1
check "... and at the end, as a loss" grep -q 'metrics.jsonl lacks [0-9]* lines that could not be written: ' err
check "... beside what else could not be written" grep -q 'run.json.*metrics.jsonl lacks' err
check "... with the weights of the last step" grep -q 'the weights after step 600 are in long/model' err

"$ZR" train c.json --quiet --train.output_dir=gone --train.steps=3000 >out 2>err &
pid=$!
await $pid test -s gone/metrics.jsonl
rm -r gone
wait $pid
rc=$?
check "a directory that is removed while the run trains" test $rc = 74
check "... is said, with where the weights are" grep -q 'the weights after step 3000 are in gone/model.*metrics.jsonl was removed' err
check "... and they are there" test -f gone/model/model.safetensors

if [ "$(id -u)" = 0 ] && mkdir small && mount -t tmpfs -o size=100k tmpfs small 2>/dev/null; then
    check "a disk with room for the weights alone" train small/run --quiet
    check "... has them" test -f small/run/model/model.safetensors -a ! -e small/run/step-00000008 -a ! -e small/run/latest
    check "... and no half of a checkpoint" sh -c '! ls small/run | grep -q tmp'
    check "... which is said" grep -q 'note: the checkpoint of step 8 could not be written (.*); the weights are written without it' err
    rm -r small/run
    check "... fails where the checkpoint was asked for" code 74 train small/run --quiet --train.save_end=true
    check "... with the weights" test -f small/run/model/model.safetensors
    rm -r small/run
    check "... or where nothing else has the weights" code 74 train small/run --quiet --train.save_model=false
    check "... which it says" grep -q 'could not be written (.*); no weights are saved (train.save_model)' err
    rm -r small/run
    check "... and a smaller disk does for a run without weights" sh -c 'mount -o remount,size=32k small && exec "$0" train c.json \
        --quiet --train.output_dir=small/run --train.save_model=false --train.save_end=false' "$ZR"
    umount small
else
    skip "a disk with room for the weights alone" "a small file system needs root"
fi
echo "1..$n"
