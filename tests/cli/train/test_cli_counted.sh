#TEST timeout=60
# Check that the loss of a training step is the mean over the targets that count, as val_loss is, and that a step
# without any such target updates nothing.
. tests/support/command.inc

python3 - <<'END_PYTHON'
import json
def write(name, pairs):
    with open(name, "w") as file:
        file.writelines(json.dumps({"prompt": p, "completion": c}) + "\n" for p, c in pairs)
write("pairs.jsonl", [("say " + "ab" * i, "cd" * (9 - i) ** (1 + i % 2)) for i in range(1, 9)])
write("some.jsonl", [("a", "bc"), ("no room for an answer", "b"), ("b", "cd"), ("and here is none either", "c")])
write("nothing.jsonl", [("no room for an answer", "b")] * 4)
END_PYTHON
cat >c.json <<'END_CONFIG'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 128},
 "data": {"train": "pairs.jsonl", "val": "pairs.jsonl"}, "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2,
 "optimizer": {"params": {"lr": 0.01}},
 "train": {"steps": 3, "eval_interval": 3, "threads": 1, "output_dir": "first"}}
END_CONFIG
train() { "$ZR" train c.json "$@"; }
# the_same RUN: check that the loss of the run's first step equals val_loss of the run `first`, whose weights it starts
# from.
the_same() {
    python3 - "$1" <<'END_PYTHON'
import json, sys
def lines(run): return [json.loads(line) for line in open(f"{run}/metrics.jsonl")]
want = [line["val_loss"] for line in lines("first") if "val_loss" in line][0]
loss = lines(sys.argv[1])[0]["loss"]
assert abs(loss - want) < 1e-5 * want, f"a training loss of {loss}, a val_loss of {want}"
END_PYTHON
}
next() { # RUN OPTION...
    run=$1
    shift
    train --model.init=first/model --train.steps=1 --train.eval_interval=0 --train.output_dir="$run" "$@" && the_same "$run"
}
check "a run on prompts" train --quiet
check "... the next step's loss is its val_loss" next one
check "... on two ranks" next two --ranks 2 --zero_optimization.stage=3
check "... without accumulation" next whole --train_micro_batch_size_per_gpu=8
check "... with sums that do not depend on ranks" next world --train.reproducible=world --ranks 2
check "... tokens are all tokens of the step" grep -q '"tokens":1024,' one/metrics.jsonl

# with one line in each step, the second and the fourth step have no target that counts
few() {
    train --data.train=some.jsonl --data.order=sequential --data.seq_length=16 --train_batch_size=1 \
        --train_micro_batch_size_per_gpu=1 --train.steps=4 --train.eval_interval=0 "$@"
}
nothing_in_two() { # RUN
    python3 - "$1" <<'END_PYTHON'
import json, sys
line = [json.loads(line) for line in open(f"{sys.argv[1]}/metrics.jsonl")]
assert [one["loss"] is None for one in line] == [False, True, False, True], line
assert [one["skipped"] for one in line] == [0, 1, 1, 2] and line[1]["grad_norm"] == 0, line
assert len({one.get("loss_scale") for one in line}) == 1, line
run = json.load(open(f"{sys.argv[1]}/run.json"))
assert run["loss"] == line[2]["loss"] and run["skipped"] == 2, run
END_PYTHON
}
check "steps without targets" few --train.output_dir=lean
check "... one note" test "$(grep -c 'step 2 updated nothing, because no target of it counts' err)" = 1
check "... nor another" test "$(grep -c 'updated nothing' err)" = 1
check "... in metrics.jsonl" nothing_in_two lean
check "... layout paper, two ranks that share the layers" few --train.output_dir=paper --memory.layout=paper --parallel.tensor=2 --ranks 2
check "... in metrics.jsonl" nothing_in_two paper
check "... the loss scale stays" few --train.output_dir=half --fp16.enabled=true --fp16.hysteresis=1 --fp16.initial_scale_power=8
check "... in metrics.jsonl" nothing_in_two half
check "a run whose last step comes after a stop" few --train.output_dir=halves --train.steps=3
check "... goes on, though no target of that step counts" few --train.output_dir=halves --resume
check "... to the same end" same lean halves
over="--fp16.enabled=true --fp16.initial_scale_power=34 --train.save_interval=1"
check "one that stopped after a step that overflowed" few --train.output_dir=over --train.steps=1 $over
check "... goes on" few --train.output_dir=over --train.steps=2 $over --resume
check "a run without any target that counts" fails 65 'nothing.jsonl: no target counts in any of 4 steps' \
    few --train.output_dir=nothing --data.train=nothing.jsonl
check "... leaves neither weights nor a checkpoint, to train further" sh -c '! ls nothing | grep -q "^step-\|^model\|^latest"'

echo "1..$n"
