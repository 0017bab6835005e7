#TEST timeout=240
# The commands of README and guide work as they are written, one after the other, in an empty folder with two texts.
. tests/command.inc
ZR_SOURCE=${ZR_SOURCE:-$(dirname "$(dirname "$ZR")")}

mkdir build && ln -s "$ZR" build/zr
awk 'BEGIN { for (i = 0; i < 3000; i++) print "line " i " of a book, made for this test" }' >book.txt
# section FILE HEADING: the lines between it and the next heading
section() { awk -v heading="## $2" '/^## / { on = $0 == heading } on' "$1"; }
# What the reader types: behind four spaces, without the words to its right.
commands() { sed -n 's/^    //p' | sed 's/   .*//; s/  *# .*//' | grep -E '^(build/zr|mpirun|head|tail|size=)'; }
mpirun=${ZR_MPIRUN-mpirun}
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
export OMPI_MCA_rmaps_base_oversubscribe=1 OMP_NUM_THREADS=1
# follow NAME: the commands in the file `lines`, each of which must end with 0
follow() {
    commands <lines >todo
    [ -s todo ] || check "$1: there are commands" false
    while IFS= read -r line <&3; do
        case $line in
        mpirun*)
            if [ -z "$mpirun" ] || ! "$ZR" info | grep -q '^transports .*mpi'; then skip "$line" "no MPI"; continue; fi
            line="$mpirun ${line#mpirun }" ;;
        size=*) eval "$line"; export size; continue ;;
        esac
        check "$1: $line" sh -c "$line"
    done 3<todo
}

section "$ZR_SOURCE/README.md" Train >train.md
awk '/^```json/ { on = 1; next } /^```/ { on = 0 } on' train.md >whole.json
check "README has a configuration" test -s whole.json
# As long as it takes: fewer steps.
sed 's/"steps": [0-9]*/"steps": 3/; s/"total_num_steps": [0-9]*/"total_num_steps": 3/; s/"eval_interval": [0-9]*/"eval_interval": 3/
     s/"warmup_num_steps": [0-9]*/"warmup_num_steps": 1/' whole.json >config.json
check "... that plans as it is" "$ZR" plan whole.json --ranks 2
head -c 60000 book.txt >train.txt && tail -c 4000 book.txt >val.txt
cp train.md lines && follow README
section "$ZR_SOURCE/README.md" "What a stage saves" | grep 'config.json' >lines
follow README
rm -rf runs train.txt val.txt
section "$ZR_SOURCE/docs/guide.md" "Train on a text of your own" >lines
follow guide
section "$ZR_SOURCE/docs/guide.md" "Plan before you train" | grep 'config.json' >lines
follow guide
section "$ZR_SOURCE/docs/operations.md" "Look at what is there" >lines
follow operations

# Runs that nobody named a directory for, all at once.
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
