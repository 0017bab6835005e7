#TEST timeout=120 mpi=1
# Check `zr train --sweep`: runs in folders of their own, the table and the page, mistakes that are found before any run,
# runs that fail, and a sweep that is stopped and goes on.
. tests/support/command.inc

i=0
while [ $i -lt 300 ]; do echo "line $i of a small text" >>text.txt; i=$((i + 1)); done
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 32, "dropout": 0},
 "data": {"train": "text.txt", "val": 0.1}, "train_batch_size": 4,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
 "train": {"steps": 6, "eval_interval": 2, "eval_batches": 2, "threads": 1}}
END
sweep() { "$ZR" train c.json --train.output_dir="$@"; }
lr='--sweep optimizer.params.lr=1e-3,1e-2'
column() { cut -d, -f"$2" "$1" | tail -n +2 | tr '\n' ' '; } # FILE NUMBER

check "a sweep of two keys" sweep two $lr --sweep train.seed=1,2
cp out two.csv
cp err two.err
check "... prints a row for each combination" test "$(column two.csv 1-2 | tr ',' ' ')" = "1e-3 1 1e-3 2 1e-2 1 1e-2 2 "
check "... with the columns" grep -qx 'optimizer.params.lr,train.seed,steps,loss,val_loss,val_step,tokens_per_sec,wall_sec,run,error' two.csv
check "... in folders named by their values" test "$(cd two && ls -d *=* | tr '\n' ' ')" = "lr=1e-2,seed=1 lr=1e-2,seed=2 lr=1e-3,seed=1 lr=1e-3,seed=2 "
check "... each like a run alone" sh -c '"$0" train c.json --quiet --train.seed=2 --optimizer.params.lr=1e-2 --train.output_dir=alone &&
    cmp alone/model/model.safetensors "two/lr=1e-2,seed=2/model/model.safetensors"' "$ZR"
check "... whose losses are in the table" python3 - <<'END'
import csv, json
for row in csv.DictReader(open("two.csv")):
    lines = [json.loads(line) for line in open(row["run"] + "/metrics.jsonl")]
    vals = {line["val_loss"]: line["step"] for line in lines if "val_loss" in line}
    assert abs(float(row["loss"]) - [line["loss"] for line in lines if "loss" in line][-1]) < 1e-7, row
    assert abs(float(row["val_loss"]) - min(vals)) < 1e-7 and int(row["val_step"]) == vals[min(vals)], row
    assert row["steps"] == "6" and row["error"] == "" and float(row["wall_sec"]) > 0, row
END
check "... and says which run it is" grep -q 'zr: run 3 of 4, lr=1e-2,seed=1: two/lr=1e-2,seed=1' two.err
check "... and draws all of them in one page" sh -c 'grep -q "zr report" two/report.html && for run in two/*=*; do
    grep -q "${run#two/}" two/report.html || exit 1; done'
check "... which tells what differs" grep -q 'optimizer.params.lr' two/report.html
check "a sweep that is there" fails 73 'two/lr=1e-3,seed=1 holds a run; go on with the sweep (--resume), give another' \
    sweep two $lr --sweep train.seed=1,2
before=$(cat two/*=*/metrics.jsonl)
check "... with --resume" sweep two $lr --sweep train.seed=1,2 --resume
check "... skips what has finished" test "$(grep -c 'skipped, because it has finished' err)" = 4
check "... trains nothing" test "$before" = "$(cat two/*=*/metrics.jsonl)"
check "... and prints the same table" cmp two.csv out
check "... and trains what is new" sweep two $lr --sweep train.seed=1,2,3 --resume
check "... alone" test "$(grep -c 'skipped' err) $(ls -d two/*=* | wc -l)" = "4 6"
check "... and goes on to more steps" sweep two $lr --sweep train.seed=1 --resume --train.steps=8
check "... in those runs" test "$(column out 3)" = "8 8 "
check "... but mixes no configurations" fails 78 'two/lr=1e-3,seed=2 holds a finished run with another train_batch_size, which is now 8' \
    sweep two $lr --sweep train.seed=2 --resume --train_batch_size=8
check "JSON" sh -c '"$0" train c.json --train.output_dir=two '"$lr"' --sweep train.seed=1,2,3 --resume --train.steps=6 --quiet --json >json ||
    "$0" train c.json --train.output_dir=js '"$lr"' --quiet --json >json' "$ZR"
check "... is a list" python3 -c 'import json; rows = json.load(open("json")); assert len(rows) == 2 and rows[0]["optimizer.params.lr"] == 1e-3 and rows[1]["error"] is None, rows'

# ---- mistakes, before anything runs
no() { # WHAT CODE PATTERN OPTION...
    what=$1 want=$2 pattern=$3
    shift 3
    check "$what" fails "$want" "$pattern" sweep none "$@"
}
no "an unknown key" 2 '--sweep optimizer.params.rl: unknown key; did you mean optimizer.params.lr' --sweep optimizer.params.rl=1,2
no "an unknown value" 78 '--sweep lr=high: command line: optimizer.params.lr: found "high", wanted a number' --sweep optimizer.params.lr=1e-3,high
no "an empty value" 2 'a value is empty' --sweep optimizer.params.lr=1e-3,
no "a value given twice" 2 'the value 1e-3 is given twice' --sweep optimizer.params.lr=1e-3,1e-3
no "a key given twice" 2 '--sweep gives values for optimizer.params.lr twice' $lr $lr
no "a key given elsewhere" 2 'train.seed is given, but --sweep varies it' --train.seed=3 --sweep train.seed=1,2
no "a combination that cannot be" 78 '--sweep train_batch_size=3' --ranks 2 --sweep train_batch_size=4,3
no "folders" 2 '--sweep train.output_dir: each run gets a folder of its own' --sweep train.output_dir=a,b
no "a trace" 2 '--trace is for one run, and --sweep starts several' $lr --trace trace.json
check "no folder" fails 2 '--sweep needs train.output_dir' "$ZR" train c.json $lr
mkdir page && echo mine >page/report.html
check "a file in the way of the page" fails 73 'page/report.html' sweep page $lr
check "... and nothing has run" test ! -e none -a ! -e runs -a "$(ls page)" = report.html

# ---- failures
check "a run that fails" sweep failing --sweep data.train=text.txt,none.txt --data.val=null
check "... is in the table" grep -q 'failing/data_train=none.txt\|failing/train=none.txt,".*none.txt' out
check "... beside the others" test "$(column out 2)" = "6  "
check "... and is counted" grep -q '1 of 2 runs failed' err
check "no run that succeeds" fails 66 'none of the 2 runs has succeeded; the first: .*none.txt' sweep failed --sweep data.train=none.txt,no.txt --data.val=null

# ---- ranks
check "a sweep of ranks" sweep ranks --sweep ranks=1,2
check "... has other runs" test "$(part ranks/ranks=2 params)$(grep -o '"ranks":[0-9]*' ranks/ranks=2/run.json | head -n 1)" = \
    "$(part ranks/ranks=1 params)"'"ranks":2'
if [ -n "${ZR_MPIRUN:-}" ]; then
    check "a sweep under a launcher" $ZR_MPIRUN -n 2 "$ZR" train c.json --train.output_dir=mpi $lr
    check "... has a row each" test "$(column out 2)" = "6 6 "
    check "... skips what has finished" sh -c '$1 -n 2 "$0" train c.json --train.output_dir=mpi '"$lr"' --resume 2>err.mpi >/dev/null && test "$(grep -c skipped err.mpi)" = 2' "$ZR" "$ZR_MPIRUN"
    check "... but no ranks" fails 2 'the launcher started 2 ranks' $ZR_MPIRUN -n 2 "$ZR" train c.json --train.output_dir=none --sweep ranks=1,2
fi

# ---- stop and go on
"$ZR" train c.json --train.output_dir=stopped $lr --train.steps=1000000 --quiet >/dev/null 2>stop.err &
pid=$!
has_lines() { [ -f "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]; }
await $pid has_lines stopped/lr=1e-3/metrics.jsonl 5
kill -INT $pid
wait $pid
rc=$?
check "^C" test $rc = 75
check "... stops the whole sweep" sh -c 'grep -q "the sweep was stopped in run 1 of 2, lr=1e-3; the same command with --resume goes on" stop.err && test ! -e stopped/lr=1e-2'
steps=$(($(ls -d stopped/lr=1e-3/step-* | sed 's/.*step-0*//' | tail -n 1) + 3))
check "... goes on" sweep stopped $lr --train.steps=$steps --resume
check "... with both runs" test "$(column out 2)" = "$steps $steps "
check "a sweep that is not stopped" sweep whole $lr --train.steps=$steps --quiet
check "... has the same weights" sh -c 'for run in lr=1e-3 lr=1e-2; do cmp whole/$run/model/model.safetensors stopped/$run/model/model.safetensors || exit 1; done'
echo "1..$n"
