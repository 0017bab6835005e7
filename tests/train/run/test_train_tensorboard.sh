#TEST timeout=600 long=1
# Check that TensorBoard's own reader accepts the event files of a run, and of one that was resumed from an earlier
# step. TensorBoard comes from PyPI into build/peers/tensorboard; ZR_TENSORBOARD names another virtual environment that
# has it.
peers=${ZR_TENSORBOARD:-$ZR_SOURCE/build/peers/tensorboard}
. tests/support/command.inc
has_reader() { "$peers/bin/python" -c 'import tensorboard' >/dev/null 2>&1; }
if ! has_reader; then
    echo "# installing TensorBoard into $peers"
    python3 -m venv "$peers" && "$peers/bin/pip" install -q tensorboard
fi
if ! has_reader; then
    skip "beside TensorBoard" "it could not be installed from PyPI into $peers"
    echo "1..$n"
    exit 0
fi
i=0
while [ $i -lt 100 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 8}, "data": {"train": "text.txt", "val": "text.txt"},
 "train_batch_size": 4, "train": {"steps": 7, "eval_interval": 3, "eval_batches": 1, "threads": 1, "save_interval": 4,
 "tensorboard": true, "output_dir": "run"}}
END
cat >read.py <<'END'
import json, sys, struct
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator("run", size_guidance={"scalars": 0})
events.Reload()
single = lambda x: struct.unpack("f", struct.pack("f", x))[0]
wanted = {}
for line in open("run/metrics.jsonl"):
    numbers = json.loads(line)
    step = numbers.pop("step")
    for name, x in numbers.items():
        tag = "val/" + name[4:] if name.startswith("val_") else "train/" + name
        wanted.setdefault(tag, []).append((step, x))
found = {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
close = lambda a, b: a[0] == b[0] and abs(a[1] - single(b[1])) <= 1e-6 * abs(b[1])
ok = found.keys() == wanted.keys() and all(
    len(found[tag]) == len(wanted[tag]) and all(map(close, found[tag], wanted[tag])) for tag in wanted)
steps = [s for s, _ in found.get("train/loss", [])]
print(sorted(found), steps)
sys.exit(not (ok and steps == list(range(1, int(sys.argv[1]) + 1))))
END
check "a run" "$ZR" train c.json --quiet
check "... its reader finds what metrics.jsonl has" "$peers/bin/python" -B read.py 7
rm -r run/step-00000007 run/model run/run.json
check "going on from step 4" "$ZR" train c.json --quiet --resume --train.steps=9
check "... each step is there once" "$peers/bin/python" -B read.py 9
check "... in two files" test "$(ls run | grep -c tfevents)" = 2
echo "1..$n"
