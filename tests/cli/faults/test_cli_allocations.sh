#TEST timeout=400 long=more build=tests/zr_fault
# Check the exit code and the message of every command when one allocation fails, at every place, in zr, jansson, PCRE2
# or oneDNN: exit code 71 and one message that says so, or success. Files that a run had written stay. A long run tests
# each of the first thousand places and later ones in steps of 1 %, a short run some of them.
. tests/support/command.inc
ZR=$FAULTY
i=0
while [ $i -lt 100 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
awk '{ printf "{\"text\": \"%s\"}\n", $0 }' text.txt >text.jsonl
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 8},
 "data": {"train": "text.txt", "val": "text.txt"}, "train_micro_batch_size_per_gpu": 2,
 "train": {"steps": 2, "eval_interval": 2, "eval_batches": 1, "threads": 1, "save_interval": 1, "output_dir": "run"}}
END
sed 's/"n_embd": 8/"n_embd": 32/; s/"train_micro/"bf16": {"enabled": true}, "train_micro/' c.json >narrow.json
export XDG_CACHE_HOME="$DIR/cache" OMP_NUM_THREADS=1
"$ZR" train c.json --quiet || exit 1
numbers run >lines

# each NAME PLACES COMMAND...: run the command once for each place, and let the allocation with that number fail. `also`
# prints any other fault.
also() { :; }
each() {
    name=$1 places=$2 bad='' told=0 fine=0 at=0
    shift 2
    rm -rf made
    "$@" >whole 2>err.now </dev/null || bad=" without a failure: $? $(head -n 1 err.now)"
    [ -z "${ZR_LONG-}" ] || places=every
    while [ "$places" != '' ] && [ $fine -lt 60 ] && [ $at -lt 1000000 ]; do
        case $places in
        every) at=$((at + 1 + (at >= 1000) * at / 100)) ;;
        *) at=${places%% *} && places=${places#"$at"} && places=${places# } ;;
        esac
        rm -rf made
        ZR_FAULT=alloc:$at "$@" >out.now 2>err.now </dev/null
        rc=$?
        grep '^zr: ' err.now | grep -v '^zr: note: ' >errors
        case $rc in
        0)  fine=$((fine + 1))
            cmp -s whole out.now || bad="$bad $at: other output;" ;;
        71) told=$((told + 1)) fine=0
            [ "$(wc -l <errors)" = 1 ] || bad="$bad $at: $(wc -l <errors) messages;"
            grep -q 'memory\|[0-9] bytes' errors || bad="$bad $at: $(head -n 1 errors);" ;;
        *)  bad="$bad $at: code $rc;" ;;
        esac
        bad="$bad$(also)"
    done
    [ $told -gt 2 ] || bad="$bad hardly one has failed"
    n=$((n + 1))
    if [ -z "$bad" ]; then echo "ok $n - $name ($told)"; else echo "not ok $n - $name"; echo "#$bad" | cut -c1-2000; fi
}
some='1 2 3 5 8 13 21 34 55 89 144 233 377'
few='5 21 89 233 377' # for a command that begins as the one before it
each "inspect" "$some 590" "$ZR" inspect run
each "inspect, JSON" "4 40 400" "$ZR" inspect run --json
each "verify" "$some 610 987 1597" "$ZR" verify run
each "generate" "$some 610 1452 1463 1554 1806 2000" "$ZR" generate run --prompt line --tokens 4
each "plan" "$some 1661 2146" "$ZR" plan c.json --memory 8GB --profile zen3
each "plan, JSON" "4 40 110" "$ZR" plan c.json --json
each "simulate" "$some" "$ZR" simulate c.json --cluster dgx-h100x8 --ranks 8
each "simulate, JSON" "$few" "$ZR" simulate c.json --cluster dgx-h100x8 --ranks 8 --json
each "simulate --sweep" "$some 610 987" "$ZR" simulate c.json --cluster dgx-h100x8 --ranks 8 \
    --sweep zero_optimization.stage=1,3 --json
each "simulate --search" "$some 1600" "$ZR" simulate c.json --cluster dgx-h100x8 --ranks 4 --search --quiet \
    --parallel.tensor=1 --zero_optimization.stage=2 --activation_checkpointing.policy=none

# An output has its final name only if it is complete.
also() { [ $rc = 0 ] || [ ! -e made ] || echo " $at: something is left;"; }
each "convert" "$some 610 987 1597 2584" "$ZR" convert run made
"$ZR" convert run whole-hf --quiet
"$ZR" convert whole-hf shards --to hf --shard-size 2kB --dtype bf16 --quiet
each "convert several files" "$some 610 987" "$ZR" convert shards made --to hf
each "convert several files to a run" "$few 610 894 900 903 987" "$ZR" convert shards made --to run
each "tokenize" "4 5 6 7 8 9 10 11 12 13 14" "$ZR" tokenize --tokenizer bytes text.txt -o made
each "tokenize, JSON lines" "$few" "$ZR" tokenize --tokenizer bytes text.jsonl -o made
each "tokenize --train" "$some 610 987 1300" "$ZR" tokenize --train 300 text.txt -o made --quiet
"$ZR" tokenize --train 300 text.txt -o learned.json --quiet
each "tokenize, by regular expressions" "$few 610 $(seq -s " " 1284 1312)" "$ZR" tokenize --tokenizer learned.json text.txt -o made
known=$ZR_SOURCE/tests/tokenizers
each "tokenize, by characters" "$few 610 987 2584 $(seq -s " " 3160 5 3260)" "$ZR" tokenize --tokenizer \
    "$known/llama2.json" text.txt -o made
each "tokenize, normalized" "$few 610 987 $(seq -s " " 1400 5 1500)" "$ZR" tokenize --tokenizer "$known/qwen2.json" \
    text.txt -o made
each "tokenize, by tekken.json" "$few 610 987 2584 4181 $(seq -s " " 4340 5 4400)" "$ZR" tokenize --tokenizer \
    "$known/tekken_own.json" text.txt -o made

# A resumed run keeps its lines and checkpoints.
also() {
    [ ! -d made ] || numbers made | cmp -s -n "$(wc -c <lines)" lines - || echo " $at: lines are lost;"
    [ ! -d made ] || "$ZR" verify made >verified 2>&1 || echo " $at: $(tail -n 1 verified);"
}
goes_on() { cp -r run made && "$ZR" train "$1" --quiet --resume --train.output_dir=made --train.steps=4; }
sed 's/text.txt/text.jsonl/g' c.json >lines.json
rm -rf made
"$ZR" train lines.json --quiet --train.output_dir=made || exit 1 # its tokens are in the cache
cached() { # a failed allocation does not count as damage of the cached tokens
    at=500 step=20 # by 20 places as long as the configuration is read
    while [ $at -lt 1500 ]; do
        rm -rf made
        ZR_FAULT=alloc:$at "$ZR" train lines.json --quiet --train.steps=1 --train.output_dir=made >out.now 2>err.now
        rc=$?
        ! grep 'tokenized again' err.now || return 1
        ! grep 'no memory .* to read .*\.tokens' err.now || return $((rc != 71))
        [ $step = 1 ] || grep -q 'resolved configuration' err.now || { at=$((at - step)) step=1; }
        at=$((at + step))
    done
    return 1
}
check "want of memory is no damage of tokens in the cache" cached
rm -rf made
each "train" "$some 610 987 1596 2583 4179 5005 7961 7963 7965 7967" goes_on c.json
also() { :; }
each "train in bf16" "$some 610 987 1597 2584 4181 6765 10946" "$ZR" train narrow.json --quiet --train.output_dir=made
echo "1..$n"
