#TEST timeout=120
# Check that no output overwrites an input: pictures, standard output and run directories refuse inputs, under any name.
. tests/support/command.inc

i=0
while [ $i -lt 400 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cp text.txt val.txt
cat >c.json <<'END_OF_CONFIG'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16},
 "data": {"train": "text.txt", "val": "val.txt"}, "train_micro_batch_size_per_gpu": 2,
 "train": {"steps": 3, "threads": 1, "output_dir": "run"}}
END_OF_CONFIG
"$ZR" train c.json --quiet
init='--model={"init":"run/model"}'
mkdir kept
cp -r text.txt val.txt c.json run kept
same() { for f in text.txt val.txt c.json run; do diff -r $f kept/$f >&2 || return 1; done; }
says() { # PATTERN CODE COMMAND...: a message
    pattern=$1
    shift
    code "$@" && grep -q -e "$pattern" err.now || { echo "no \"$pattern\"" >&2; return 1; }
}

ln text.txt hard.svg && ln -s text.txt soft.svg && ln run/model/model.safetensors weights.svg
for f in text.txt ./val.txt c.json "$DIR/text.txt" hard.svg soft.svg weights.svg run/model/config.json; do
    check "a picture that would destroy $f" says 'would overwrite an input' 73 "$ZR" plan c.json "$init" --svg "$f"
    check "... before anything is printed" test ! -s out
done
echo 'my notes' >notes.txt
check "a picture over other files" says 'notes.txt exists and is not the expected kind of file' 73 "$ZR" plan c.json --svg notes.txt
check "a picture over a directory" code 73 "$ZR" plan c.json --svg run
check "a picture" "$ZR" plan c.json --svg new.svg
cp new.svg old.svg
check "... is overwritten by a picture" "$ZR" plan c.json --stage 1 --svg new.svg
check "... of its own" sh -c '! cmp -s new.svg old.svg && tail -n 1 new.svg | grep "</svg>"'
: >empty.svg
check "an empty file becomes a picture" "$ZR" plan c.json --svg empty.svg
cp c.json beside.svg.tmp && cp c.json plotted.svg.tmp
check "a picture beside its configuration, named as files that are not finished are" "$ZR" plan beside.svg.tmp --svg beside.svg
check "... and zr plot's" "$ZR" plot run -o plotted.svg
check "... touch nothing else" sh -c 'cmp c.json beside.svg.tmp && cmp c.json plotted.svg.tmp'
ln -s beside.svg linked.svg && "$ZR" plan c.json --stage 2 --svg linked.svg >/dev/null
check "a picture through a link" sh -c 'test -L linked.svg && "$0" plan c.json --stage 2 --svg new.svg && cmp new.svg beside.svg' "$ZR"
ln -s nowhere.svg dangling.svg
check "a picture through a link to nothing" says 'it is a link to a file that does not exist' 73 "$ZR" plan c.json --svg dangling.svg
check "... makes nothing" test ! -e nowhere.svg
[ ! -c /dev/full ] || check "a picture on a full disk" says 'could not be written completely' 74 "$ZR" plan c.json --svg /dev/full
mkfifo fifo.svg && { cat fifo.svg >through.svg & }
check "a picture into a named pipe" "$ZR" plan c.json --svg fifo.svg
wait $!
check "... comes out of it" grep -q '</svg>' through.svg
check "a picture into a pipe" sh -c '"$0" plan c.json --schedule --svg /dev/stdout | grep "</svg>"' "$ZR"

# FILE COMMAND...: run a command whose standard output is appended to FILE
into() { file=$1; shift; "$@" >>"$file"; }
for f in text.txt val.txt c.json hard.svg; do
    check "zr plan >>$f" says 'standard output would overwrite an input' 73 into $f "$ZR" plan c.json
done
check "zr train --json >>text.txt" says 'standard output' 73 into text.txt "$ZR" train c.json --json --train.output_dir=other
check "... before the run" test ! -e other
check "zr eval >>DATA" says 'the file val.txt' 73 into val.txt "$ZR" eval run --data val.txt
check "zr eval RUN >>WEIGHTS" says 'in the directory run;' 73 into run/model/model.safetensors "$ZR" eval run
check "zr generate RUN >>CONFIG" says 'in the directory run;' 73 into run/config.json "$ZR" generate run
check "nothing has changed" same
check "what is written beside a run" into run/loss.txt "$ZR" eval run
check "... may be written again" into run/loss.txt "$ZR" eval run

for f in config.json metrics.jsonl.tmp model.tmp; do
    mkdir in && cp c.json in/config.json && cp text.txt in/$f.text
    [ $f = config.json ] || mv in/$f.text in/$f
    name=in/$f
    [ $f = config.json ] || check "a run over its data: $f" says "would overwrite $name, which it reads" 73 \
        "$ZR" train c.json --data.train=$name --train.output_dir=in
    check "a run over its configuration" says 'would overwrite in/config.json, which it reads' 73 \
        "$ZR" train in/config.json --train.output_dir=./in/
    rm -r in
done
check "nothing has changed then either" sh -c 'cmp text.txt kept/text.txt && cmp c.json kept/c.json'
echo "1..$n"
