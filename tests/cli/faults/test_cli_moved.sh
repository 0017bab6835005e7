#TEST timeout=120
# Check that a run finds its inputs from any directory and after it has moved, and that binary files are not trained on
# as text.
. tests/support/command.inc

i=0
mkdir -p project/data
while [ $i -lt 400 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >project/data/text.txt
tail -n 100 project/data/text.txt >project/data/val.txt
cat >project/c.json <<'END_OF_CONFIG'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16},
 "data": {"train": "data/text.txt", "val": "data/val.txt"}, "train_micro_batch_size_per_gpu": 2,
 "train": {"steps": 3, "threads": 1, "output_dir": "runs/one"}}
END_OF_CONFIG
says() { # PATTERN CODE COMMAND...: a message
    pattern=$1
    shift
    code "$@" && grep -q -e "$pattern" err.now || { echo "no \"$pattern\"" >&2; return 1; }
}
at() { (cd "$1" && shift && "$@"); } # DIR COMMAND...
(cd project && "$ZR" train c.json --quiet)
first=$(at project "$ZR" eval runs/one | grep '^loss')
evals() { test "$(at "$1" "$ZR" eval "$2" | grep '^loss')" = "$first"; } # DIR RUN: as at first

mkdir elsewhere
for i in 1 2 3 4; do echo "another text of the same name, which is not the one that was meant"; done >elsewhere/val.txt
mkdir elsewhere/data && cp elsewhere/val.txt elsewhere/data/
check "eval from elsewhere" evals elsewhere "$DIR/project/runs/one"
check "... by a relative path" evals elsewhere ../project/runs/one
check "... from within" evals project/runs/one .
check "train its configuration from elsewhere" at elsewhere "$ZR" train ../project/runs/one/config.json --quiet \
    --train.output_dir=two
check "... the same losses" sh -c 'cut -d, -f1-3 project/runs/one/metrics.jsonl | grep loss >a;
    cut -d, -f1-3 elsewhere/two/metrics.jsonl | grep loss | cmp - a'
check "... on a text that is named here, not its namesake there" at elsewhere "$ZR" train ../project/runs/one/config.json \
    --quiet --data.train=val.txt --data.val=data/val.txt --train.output_dir=here
check "... which it says" grep -q "\"val\": \"data/val.txt\"" elsewhere/here/config.json
check "... for one that is not here neither" code 66 at elsewhere "$ZR" train ../project/runs/one/config.json \
    --data.train=data/text.txt --train.output_dir=none
check "... and that run evaluates from anywhere" evals project ../elsewhere/two
mv project/runs/one project/runs/renamed
check "a renamed run" evals elsewhere ../project/runs/renamed
mv project/runs/renamed project/runs/one
mv project moved
check "all of it moved" evals elsewhere ../moved/runs/one
mv moved/runs/one moved/runs/renamed
check "... and renamed" evals elsewhere ../moved/runs/renamed
mkdir alone && mv moved/runs/renamed alone/run && mv moved/data/val.txt alone/
check "the data beside the run" evals elsewhere ../alone/run
mv alone/val.txt alone/run/
check "the data in the run" evals elsewhere ../alone/run
check "... which training says" sh -c 'cp moved/data/text.txt alone/run && cd elsewhere &&
    "$0" train ../alone/run/config.json --train.output_dir=again 2>&1 |
    grep "note: data.train: data/text.txt no longer exists where the run read it; using .*/alone/run/text.txt"' "$ZR"
rm alone/run/val.txt alone/run/text.txt
rm -r elsewhere/data elsewhere/val.txt
check "the data is nowhere" says "data.val: $DIR/project/data/val.txt does not exist, and neither does a copy beside the run in $DIR/alone/run" \
    66 at elsewhere "$ZR" eval ../alone/run
check "... for training" says "$DIR/project/data/text.txt: cannot open" 66 \
    at elsewhere "$ZR" train ../alone/run/config.json --train.output_dir=three
check "a path that leads nowhere is shown whole" says "nope.txt: cannot open: .* (in $DIR/elsewhere)" 66 \
    at elsewhere "$ZR" eval ../alone/run --data nope.txt
check "... of a configuration" says "nope.json: cannot open: .* (in $DIR)" 66 "$ZR" train nope.json

cp moved/data/text.txt text.txt
sed 's/data.text.txt/text.txt/; s/"val": "data.val.txt"/"val": null/; s/runs.one/made/' moved/c.json >c.json
head -c 3000 text.txt >part
# kind NAME WHAT BYTES [MESSAGE]: check data.train with a file that begins with these bytes
kind() {
    { printf "$3"; cat part; } >"$1"
    check "$2 is no text" says "^zr: $1: ${4:-its format is $2, which zr cannot read}" 65 \
        "$ZR" train c.json --data.train="$1"
}
kind a.gz gzip '\037\213\010' 'its compressed data (gzip) are damaged before byte'
kind a.zip zip 'PK\003\004'
kind a.npz zip 'PK\003\004'
kind a.zst zstd '\050\265\057\375' 'its compressed data (zstd) are damaged before byte'
kind a.xz xz '\3757zXZ\000'
kind a.bz2 bzip2 'BZh'
kind a.npy npy '\223NUMPY'
kind a.parquet Parquet 'PAR1'
kind a.pdf PDF '%%PDF-'
kind a.arrow Arrow 'ARROW1'
kind a.h5 HDF5 '\211HDF\r\n'
kind a.txt UTF-16 '\377\376'
kind a.safetensors safetensors '\020\000\000\000\000\000\000\000{"a'
kind npy.bin npy '\223NUMPY'
kind zip.bin zip 'PK\003\004'
check "... for validation neither" code 65 "$ZR" train c.json --data.val=a.gz
check "... nor to evaluate" code 65 "$ZR" eval alone/run --data a.npy
{ printf '\037\213\010\010'; cat part; } >tokens.bin
check "tokens may begin so" "$ZR" train c.json --quiet --data.train=tokens.bin --train.steps=1 --train.output_dir=t1 --model.vocab_size=65536
awk 'BEGIN { for (i = 0; i < 3000; i++) printf "%c%c", 1 + i % 127, 0 }' >tokens.dat
check "numbers are no text" says 'tokens.dat: this is not a text: of 6000 bytes from byte 0 on, 3000 are NUL' 65 "$ZR" train c.json --data.train=tokens.dat
check "nothing was created" test ! -e made
{ cat text.txt; printf 'a\000b'; cat text.txt; } >nul.txt
check "a NUL" "$ZR" train c.json --data.train=nul.txt --train.steps=1 --train.output_dir=t2
check "... is told" grep -q 'note: nul.txt: byte [0-9]* is NUL, which texts do not contain' err
{ cat text.txt; printf 'caf\351 '; cat text.txt; } >latin.txt
check "what is not UTF-8" "$ZR" train c.json --data.train=latin.txt --train.steps=1 --train.output_dir=t3
check "... is told" grep -q "note: latin.txt: byte $(($(wc -c <text.txt) + 3)) is not UTF-8" err
i=0
while [ $i -lt 30000 ]; do printf '日本語é'; i=$((i + 1)); done >utf8.txt
check "UTF-8" "$ZR" train c.json --data.train=utf8.txt --train.steps=1 --train.output_dir=t4
check "... is not spoken of" sh -c '! grep utf8.txt: err'
echo "1..$n"
