#TEST timeout=240 long=more
# Run the commands of README and guide as they are written, one after the other, in an empty folder with two texts.
# Commands that take minutes, or that need more than this machine has (Slurm, downloads), are listed, and in a long run
# executed where that is possible.
ZR_SOURCE=${ZR_SOURCE:-$PWD}
. tests/support/command.inc

mkdir build && ln -s "$ZR" build/zr
awk 'BEGIN { for (i = 0; i < 800; i++) print "line " i " of a book, made for this test" }' >book.txt
# section FILE HEADING: the lines between it and the next heading
section() { awk -v heading="## $2" '/^## / { on = $0 == heading } on' "$1"; }
# Print the commands: the lines indented by four spaces, without the comments to their right.
commands() { sed -n 's/^    //p' | sed 's/   .*//; s/  *# .*//' | grep -E '^(build/zr|mpirun|srun|head|tail|size=)'; }
mpirun=${ZR_MPIRUN-mpirun}
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
export OMPI_MCA_rmaps_base_oversubscribe=1 OMP_NUM_THREADS=1
# follow NAME [alone]: run the commands in the file `lines`, each of which must end with 0; alone: no later section
# needs their results
follow() {
    commands <lines >todo
    [ -s todo ] || check "$1: there are commands" false
    while IFS= read -r line <&3; do
        [ "${2-}" != alone ] || rm -rf runs
        echo "$line" >>followed
        case $line in
        srun*) skip "$line" "Slurm is not here"; continue ;;
        *" info --bench"* | *" train --preset "*)
            if [ -z "${ZR_LONG-}" ]; then skip "$line" "minutes: in the long run"; continue; fi
            case $line in *train*) line="$line --train.steps=1" ;; esac ;;
        *--train.steps=20000*) line=${line%20000}6 ;; # as config.json, below
        *" train --model.init=DIR "*) line="$line --train.steps=2" ;;
        *" train bert.json "*) line="$line --train.steps=1" ;;
        *" --max layers --memory 2GB") [ "${ZR_LONG-}" ] || line="${line%2GB}200MB" ;;
        *" --preset llama3-8b --memory 24GB --disk 500GB")
            [ "${ZR_LONG-}" ] || line="build/zr plan --preset gpt2-124m --memory 1GB --disk 500GB" ;;
        *" --chat "*) line="$line --chat-template chatml" ;;
        *" train config.json --data book.txt --ranks 2") line="$line --train.steps=3" ;; # of `zr init`
        mpirun*)
            if [ -z "$mpirun" ] || ! "$ZR" info | grep -q '^transports .*mpi'; then skip "$line" "no MPI"; continue; fi
            line="$mpirun ${line#mpirun }" ;;
        size=*) eval "$line"; export size; continue ;;
        esac
        check "$1: $line" timeout 600 sh -c "$line"
    done 3<todo
}

# A directory with weights and tokenizer, and lines for its training.
sed 's/<|endoftext|>/<|im_start|>/' "$ZR_SOURCE/tests/tokenizers/qwen2.json" >tokenizer.json
check "a directory with weights" build/zr train --model.type=qwen2 --model.num_hidden_layers=1 --model.hidden_size=32 \
    --model.num_attention_heads=2 --data book.txt --data.tokenizer=tokenizer.json --seq 32 --train.steps=1 --train.output_dir=made --quiet
mv made/model DIR
awk 'BEGIN { for (i = 0; i < 50; i++) printf "{\"prompt\": \"line %d \", \"completion\": \"of a book\"}\n", i }' >talks.jsonl
cp talks.jsonl more.jsonl

# Texts with a WordPiece tokenizer, and ready rows, for an encoder.
mkdir wordpiece
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' line of a book , made for this test >wordpiece/vocab.txt
echo '{"do_lower_case": true}' >wordpiece/tokenizer_config.json
awk '{ print } NR % 5 == 0 { print "" }' book.txt >sentences.txt
python3 - <<'END_PYTHON'
import json, struct
rows = [[2] + [7 + i % 50 for i in range(127)] for _ in range(8)]
labels = [[9 if i % 8 == 7 else -100 for i in range(128)] for _ in range(8)]
part = [struct.pack("<1024i", *sum(part, [])) for part in (rows, labels)]
head = json.dumps({name: {"dtype": "I32", "shape": [8, 128], "data_offsets": [4096 * i, 4096 * (i + 1)]}
                   for i, name in enumerate(["input_ids", "labels"])}).encode()
open("rows.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + part[0] + part[1])
END_PYTHON

# The first screen of README: the lines before its first heading.
awk '/^## / { exit } { print }' "$ZR_SOURCE/README.md" >lines
check "README begins with commands" test "$(commands <lines | wc -l)" -ge 3
follow "README's first screen"
rm -rf runs config.json

section "$ZR_SOURCE/README.md" Train >train.md
awk '/^```json/ { on = 1; next } /^```/ { on = 0 } on' train.md >whole.json
check "README has a configuration" test -s whole.json
# A shortened run: fewer steps, of a smaller model.
sed 's/"steps": [0-9]*/"steps": 3/; s/"total_num_steps": [0-9]*/"total_num_steps": 3/; s/"eval_interval": [0-9]*/"eval_interval": 3/
     s/"warmup_num_steps": [0-9]*/"warmup_num_steps": 1/; s/"n_layer": [0-9]*/"n_layer": 2/; s/"n_embd": [0-9]*/"n_embd": 64/' whole.json >config.json
check "... that plans as it is" "$ZR" plan whole.json --ranks 2
head -c 20000 book.txt >train.txt && tail -c 4000 book.txt >val.txt
cp train.md lines && follow README
section "$ZR_SOURCE/README.md" "What a stage saves" >lines
follow README
rm -rf runs train.txt val.txt
guide() { # HEADING [alone]
    section "$ZR_SOURCE/docs/guide.md" "$1" >lines
    follow "guide, $1" "${2-}"
}
guide "Train on a text of your own"
guide "Start from Hugging Face's weights"
guide "Measure and try weights"
check "a second run" build/zr train config.json --quiet --train.output_dir=runs/second
guide "What a run leaves"
guide "Plan before you train"
guide "Several ranks" alone
guide "Stop, and go on"
guide "How large a batch pays" alone
sed 's/"steps": [0-9]*/"steps": 9/; s/"train_micro_batch_size_per_gpu": [0-9]*/"train_micro_batch_size_per_gpu": 1/' config.json >longer.json
mv config.json shorter.json && mv longer.json config.json
guide "Where the time goes" alone
mv shorter.json config.json
guide "Measure the machine"
section "$ZR_SOURCE/docs/operations.md" "Go on" | sed 's|^    zr |    build/zr |' >lines
follow operations alone
sed 's|^    zr |    build/zr |; s|/local_nvme|.|' "$ZR_SOURCE/docs/offload.md" >lines
follow offload alone
# Every page that has commands is run here.
grep -hE '^    (build/zr|zr|mpirun|srun) ' "$ZR_SOURCE/README.md" "$ZR_SOURCE/docs/guide.md" |
    sed 's/^    //; s/   .*//; s/  *# .*//' | sort >said
sort followed >done
check "every command of README and guide was followed" sh -c 'comm -23 said done >missed; cat missed; [ -s said ] && [ ! -s missed ]'
rm -rf runs exported shards

# Files that pages name exist: sources, and for built files their sources.
there() { # FOLDER NAME, which may be a pattern; a built test comes from any folder of tests
    case $2 in build/tests/*) there "$1" "tests/*/${2##*/}" || there "$1" "tests/*/*/${2##*/}"; return ;; esac
    for end in '' .c .h .cc; do
        for found in "$1"/${2#build/}$end; do [ ! -e "$found" ] || return 0; done
    done
    return 1
}
grep -ohE '(^|[ (`"])(src|tests|scripts|bench|examples|docs|include|build/bench|build/tests)/[A-Za-z0-9_./*-]*[A-Za-z0-9_*/]' \
    "$ZR_SOURCE"/*.md "$ZR_SOURCE"/docs/*.md | sed 's/^[ (`"]//' | grep -vE '_$|\.(json|svg)$|/gpu_test_|/zr_fault$|^src/(device|graph/ops|device/cpu/kernels)/$' |
    sort -u >names
check "there are names of files" test "$(wc -l <names)" -gt 50
while IFS= read -r name; do there "$ZR_SOURCE" "$name" || echo "$name"; done <names >missing
check "... each of which is there" sh -c 'cat missing; [ ! -s missing ]'
cp "$ZR_SOURCE/docs/models.md" models.md
check "the table of presets is current" sh -c '"$0/scripts/presets" build/zr models.md && cmp models.md "$0/docs/models.md"' "$ZR_SOURCE"
section "$ZR_SOURCE/docs/operations.md" "Look at what is there" >lines
follow operations

# Several runs at once without a given directory.
sed 's/, "output_dir": "[^"]*"//' config.json >unnamed.json
check "a run without a name that cannot start" code 66 "$ZR" train unnamed.json --data.train=nope.txt
mv runs named
check "... leaves no directory" code 66 "$ZR" train unnamed.json --data.train=nope.txt --ranks 2
check "... at all" test ! -e runs
for i in 1 2 3 4; do
    ("$ZR" train unnamed.json --quiet --train.steps=1 2>>failed; echo $? >>codes) &
    pids="${pids-} $!"
done
wait $pids
check "four runs at once" test "$(sort -u codes)" = 0 -a ! -s failed
check "... have four directories" test "$(ls -d runs/gpt2-*/model | wc -l)" = 4
check "... that their configurations name" sh -c 'for d in runs/*; do grep -q "\"output_dir\": *\"$d\"" $d/config.json || exit 1; done'
if [ -n "$mpirun" ] && "$ZR" info | grep -q '^transports .*mpi'; then
    (cd runs && ls) >before
    check "two processes" $mpirun -n 2 "$ZR" train unnamed.json --quiet --train.steps=1
    check "... have one directory" test "$(ls runs | wc -l)" = 5
fi
echo "1..$n"
