"""Runs on threads: metrics, data from arrays and iterators, requests, failures."""
import gc
import json
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import zr
from conftest import keys
from zr import _command


def lines_of(directory):
    return [json.loads(line) for line in pathlib.Path(directory, "metrics.jsonl").read_text().splitlines()]


def losses(run):
    return [line["loss"] for line in run]


def start(data, name="run", steps=3, **more):
    return zr.train(data=data, steps=steps, output_dir=name, **keys(**more))


def test_metrics_and_results_are_those_of_the_files(tokens):
    seen = []
    run = start(tokens, callbacks=[lambda kind, values: seen.append((kind, values.get("step")))])
    lines = list(run)
    result = run.wait()
    assert lines == run.metrics == lines_of("run")
    assert run.losses == [line["loss"] for line in lines] and result.steps == 3
    report = json.loads(pathlib.Path("run/run.json").read_text())
    assert result.planned.to_dict() == report["planned"] and result.measured.to_dict() == report["measured"]
    assert seen == [("start", None), ("step", 1), ("step", 2), ("step", 3), ("saved", 3)]
    assert list(run) == lines[3:] and "done, step 3 of 3" in repr(run) and not run.running


@pytest.mark.parametrize("more", [{"ranks": 1}, {"ranks": 2, "stage": 3}])
def test_a_run_has_the_bits_of_the_command(more):
    with open("text.txt", "w") as out:
        out.write("the quick brown fox jumps over the lazy dog. " * 40)
    model = {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16}
    run = zr.train(model=model, data="text.txt", steps=2, seq=8, output_dir="own", **more)
    own = losses(run)
    words = [f"--{name}={value}" for name, value in more.items()]
    words += [f"--model.{name}={value}" for name, value in model.items()]
    subprocess.run([_command.path(), "train", "--data=text.txt", "--train.steps=2", "--seq=8",
                    "--train.output_dir=other", "--quiet", *words], check=True)  # fmt: skip
    assert own == [line["loss"] for line in lines_of("other")] and len(own) == 2
    theirs = zr.load("other")
    assert all(np.array_equal(theirs[name], array) for name, array in run.load().items())


def test_arrays_have_the_bits_of_the_same_tokens_in_a_file(tokens):
    stream = np.concatenate([tokens[:, :-1].reshape(-1), tokens[-1:, -1]])
    rows = np.stack([stream[i * 8 : i * 8 + 9] for i in range(40)])
    stream.astype("<i4").tofile("tokens.bin")
    from_array = losses(start(rows, "one"))
    file = {"train": "tokens.bin", "order": "sequential", "token_bytes": 4}
    from_file = losses(start(file, "two"))
    assert from_array == from_file


def test_all_forms_of_data_give_the_same_bits(tokens):
    pair = tokens[:, :-1], tokens[:, 1:]
    batches = [tokens[i * 4 : i * 4 + 4] for i in range(3)]

    class Tensor:  # what torch and JAX give
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **asked):
            return self.array.__dlpack__()

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    forms = {
        "array": tokens,
        "int64": tokens.astype(np.int64),
        "uint16": tokens.astype(np.uint16),
        "strided": np.asfortranarray(tokens),
        "pair": pair,
        "copies": (pair[0].copy(), pair[1].copy()),
        "list": batches,
        "generator": (b for b in batches),
        "pairs": [(b[:, :-1], b[:, 1:]) for b in batches],
        "dlpack": Tensor(tokens.copy()),
    }
    wanted = None
    for name, data in forms.items():
        got = losses(start(data, name))
        wanted = wanted or got
        assert got == wanted, name
    assert losses(start(tokens, "two", ranks=2, stage=2)) == pytest.approx(wanted, rel=1e-5)


def test_arrays_reach_the_library_without_a_copy(tokens):
    from zr import _batches

    for rows in (tokens, tokens[::2]):
        pair = _batches.pair_of(rows, "data")
        assert pair[0].ctypes.data == rows.ctypes.data and pair[1].ctypes.data == rows.ctypes.data + 4
        assert pair[0].strides == pair[1].strides == rows.strides


def test_an_iterator_that_waits_is_asked_by_one_rank_at_a_time(tokens):
    def batches():
        for i in range(6):
            time.sleep(0.02)
            yield tokens[i * 4 : i * 4 + 4]

    assert losses(start(batches(), "a", steps=6, ranks=4)) == losses(start(tokens, "b", steps=6, ranks=4))


def test_an_array_begins_again_after_its_last_row(tokens):
    long = np.concatenate([tokens[:6]] * 2)
    assert losses(start(tokens[:6], "a")) == losses(start(long, "b"))


def test_masked_targets_do_not_count(tokens):
    ids, targets = tokens[:, :-1], tokens[:, 1:].copy()
    targets[:, 4:] = -1
    changed = ids.copy()
    changed[:, 4:] = 0  # causal: later tokens change only losses that do not count
    assert losses(start((ids, targets), "a")) == losses(start((changed, targets), "b"))
    targets[:] = -1
    with pytest.raises(zr.DataError, match="no target counts in any of 3 steps"):
        start((ids, targets), "c").wait()


@pytest.mark.parametrize(
    "data, words",
    [
        (np.zeros((4, 8), np.int32), r"4 rows of 7 tokens.*expected 4 rows of 8"),
        (np.zeros((4, 9), np.float32), "dtype float32; expected integers"),
        (np.zeros(9, np.int32), r"shape \(9,\); expected two dimensions"),
        (np.full((4, 9), 2**40), "from 1099511627776 to 1099511627776"),
        ((np.zeros((4, 8), int), np.zeros((4, 7), int)), r"tokens have the shape \(4, 8\), but targets have \(4, 7\)"),
    ],
)
def test_a_bad_array_is_refused_before_the_run(data, words):
    with pytest.raises(zr.DataError, match=words):
        start(data)
    assert not os.path.exists("run")


def test_a_bad_batch_ends_the_run_with_its_place(tokens):
    good = tokens[:4]
    for name, bad, words in [
        ("rows", tokens[:3], "batch 1 of data has 3 rows of 8 tokens"),
        ("type", good.astype(float), "batch 1 of data has the dtype float64"),
        ("token", np.where(good == good[2, 3], 64, good), "token .* is 64, but the model has tokens 0 to 63"),
        ("low", good - 100, "is -.*, but the model has tokens 0 to 63"),
        ("end", None, "data ended after 1 batches"),
    ]:
        batches = [good] if bad is None else [good, bad, good]
        with pytest.raises(zr.DataError, match=words):
            start(batches, name, ranks=2).wait()
    assert losses(start(tokens, "after")) != []  # the process lives


def val_losses(run):
    return [line["val_loss"] for line in run if "val_loss" in line]


def test_all_forms_of_validation_data_give_the_loss_of_a_file(tokens):
    stream = np.concatenate([tokens[:16, :-1].reshape(-1), tokens[16, :1]])
    rows = np.stack([stream[i * 8 : i * 8 + 9] for i in range(16)])
    stream.astype("<i4").tofile("tokens.bin")
    train = {"train.eval_interval": 1, "train.eval_batches": 3}
    file = start(tokens, "file", val="tokens.bin", **train, **{"data.token_bytes": 4})
    wanted = val_losses(file)
    assert len(wanted) == 3 and file.metrics[-1]["val_tokens"] == 3 * 4 * 8

    def endless():
        while True:
            yield rows[:12].astype(np.int64)

    for name, val in {"array": rows, "pair": (rows[:, :-1], rows[:, 1:]), "list": [rows[:5], rows[5:]], "endless": endless()}.items():
        assert val_losses(start(tokens, name, val=val, **train)) == wanted, name
    assert val_losses(start(tokens, "ranks", val=rows, ranks=2, stage=2, **train)) == pytest.approx(wanted, rel=1e-5)
    assert val_losses(start(tokens, "all", val=rows, **{**train, "train.eval_batches": 0})) != wanted


def test_bad_validation_data_is_refused_before_the_run(tokens, caplog):
    for bad, words in [
        (tokens[:, :5], "val has 40 rows of 4 tokens.*expected 40 rows of 8"),
        ([tokens[:4], tokens[:4, :5]], "batch 1 of val has 4 rows of 4 tokens"),
        (iter(()), "val has no rows"),
        (tokens[:0], "the program gives 0 samples"),
        (tokens + 64, "sample 0 of the program: token 0 is"),
    ]:
        with pytest.raises(zr.DataError, match=words):
            start(tokens, val=bad, **{"train.eval_interval": 1}).wait()
    with pytest.raises(zr.ConfigError, match="data.val is x.txt, but the program gives samples"):
        start(tokens, "x", val=tokens, **{"data.val": "x.txt"}).wait()
    caplog.set_level(logging.INFO, logger="zr")
    start(tokens, "a", val=tokens, **{"train.eval_interval": 0}).wait()
    start(tokens, "b", **{"train.eval_batches": 3}).wait()
    notes = " ".join(record.message for record in caplog.records)
    assert "data.val has no effect" in notes and "there is no data.val" in notes


def test_an_exception_of_the_iterator_is_raised(tokens):
    def batches():
        yield tokens[:4]
        raise KeyError("no more")

    run = start(batches(), ranks=2)
    with pytest.raises(KeyError, match="no more"):
        list(run)
    assert len(run.metrics) >= 1
    with pytest.raises(KeyError):
        run.wait()


def test_an_exception_of_a_callback_is_raised(tokens):
    def callback(kind, values):
        if kind == "step" and values["step"] == 2:
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        start(tokens, steps=1000, callbacks=[callback]).wait()
    assert os.path.isdir("run/step-00000002")


@pytest.mark.parametrize("wait", [lambda run: run.wait(), list])
def test_a_callback_that_waits_for_its_run_is_refused(tokens, wait):
    made, started = [], threading.Event()

    def callback(kind, values):
        started.wait(10)
        wait(made[0])

    made.append(start(tokens, callbacks=[callback]))
    started.set()
    with pytest.raises(zr.ArgumentError, match="cannot wait for its own run"):
        made[0].wait()


def test_a_callback_asks_for_a_checkpoint(tokens):
    made, started = [], threading.Event()

    def callback(kind, values):
        started.wait(10)
        if (kind, values.get("step")) == ("step", 1):
            made[0].checkpoint()

    made.append(start(tokens, callbacks=[callback]))
    started.set()
    made[0].wait()
    assert os.path.isdir("run/step-00000001")


def test_arguments_that_are_no_data_and_no_functions_are_refused(tokens):
    for wrong, words in [({"val": 0.1}, r"val is 0.1; expected a path, a dict of keys such as \{'val': ...\}"),
                         ({"callbacks": [3]}, r"callbacks has 3; expected functions")]:  # fmt: skip
        with pytest.raises(zr.ArgumentError, match=words):
            start(tokens, **wrong)


def test_a_run_stops_saves_and_resumes(tokens):
    whole = losses(start(tokens, "whole", steps=6))
    run = start(tokens, steps=6, callbacks=[lambda kind, values: values.get("step") == 2])
    with pytest.raises(zr.Stopped, match="stopped on request after step 2 of 6"):
        run.wait()
    again = zr.resume("run", data=tokens)
    assert again.output_dir == "run"
    assert losses(again) == whole[2:]
    begun = zr.resume("run", data=(tokens[i * 4 : i * 4 + 4] for i in range(6, 8)), steps=8)
    assert losses(begun) == losses(start(tokens, "longer", steps=8))[6:] or len(begun.losses) == 2
    with pytest.raises(zr.ConfigError, match="data.train is missing"):
        zr.resume("run", steps=9).wait()


def test_a_checkpoint_on_request(tokens):
    with start(tokens, steps=100000) as run:
        next(iter(run))
        run.checkpoint()
        saved = [name for name in os.listdir("run") if name.startswith("step-")]
        assert len(saved) >= 1
        run.stop()
    with pytest.raises(zr.Stopped):
        run.wait()


def test_leaving_a_block_by_an_exception_stops_the_run(tokens):
    with pytest.raises(LookupError):
        with start(tokens, steps=100000) as run:
            next(iter(run))
            raise LookupError
    assert not run.running


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np, zr
sys.path.insert(0, {tests!r})
from conftest import keys
data = np.arange(40 * 9, dtype=np.int32).reshape(40, 9) % 64
run = zr.train(data=data, steps=10**7, output_dir="run", **keys(ranks=2))
next(iter(run))
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored in the background
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    {wait}
except KeyboardInterrupt:
    print("interrupted", run.running, [n for n in os.listdir("run") if n.startswith("step-")] != [])
"""


@pytest.mark.parametrize("wait", ["run.wait()", "list(run)"])
def test_ctrl_c_stops_with_a_checkpoint(wait):
    program = INTERRUPTED.format(tests=os.path.dirname(__file__), wait=wait)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "interrupted False True\n", done.stderr


def test_an_exception_of_the_program_ends_the_run_at_exit():
    program = INTERRUPTED.format(tests=os.path.dirname(__file__), wait="raise LookupError('own')")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "LookupError: own" in done.stderr and done.returncode == 1


def test_a_forked_process_is_told_to_spawn(tokens):
    list(start(tokens))
    pid = os.fork()
    if pid == 0:
        try:
            start(tokens, "forked")
        except zr.Error as failure:
            os._exit(7 if "spawn" in str(failure) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_two_runs_at_once(tokens):
    alone = losses(start(tokens, "alone"))
    runs = [start(tokens, f"run{i}") for i in range(2)]
    assert [losses(run) for run in runs] == [alone, alone]


def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc")
def test_memory_is_given_back(tokens):
    def many(n):
        for i in range(n):
            with pytest.raises(zr.DataError):
                start(tokens[:, :5])  # makes a configuration
            if i % 10 == 0:
                zr.load("run")
        gc.collect()
        return resident()

    start(tokens).wait()
    long = bool(os.environ.get("ZR_LONG"))
    first = many(50)
    assert many(950 if long else 100) - first < 4 << 20

    def runs(n):
        for i in range(n):
            zr.reference_step(None, tokens[:4], model=keys()["model"], optimizer="AdamW", train={"threads": 1})
            if i % 10 == 0:
                list(start(tokens, f"run{i}", val=tokens[:4], **{"train.save_model": False, "train.save_end": False}))
                shutil.rmtree(f"run{i}")
        gc.collect()
        return resident()

    first = runs(10)
    assert runs(500 if long else 20) - first < 4 << 20


def test_evaluate_generate_save_and_load(tokens):
    with open("text.txt", "w") as out:
        out.write("a small text, again and again. " * 60)
    model = {**keys()["model"], "vocab_size": 256, "n_positions": 16}
    run = zr.train(data="text.txt", model=model, train_batch_size=4, steps=4, output_dir="run",
                   **{"data.val": "text.txt", "train.eval_interval": 2})  # fmt: skip
    assert [sorted(line)[-1] for line in run if "val_loss" in line] == ["val_tokens"] * 2
    evaluated = run.evaluate()
    assert evaluated.loss == pytest.approx(run.metrics[-1]["val_loss"], rel=1e-4) and evaluated.tokens > 0
    text = run.generate("a sm", tokens=12, seed=3)
    assert text == zr.generate("run", "a sm", tokens=12, seed=3) and text != run.generate("a sm", tokens=12, seed=4)
    pieces = list(run.generate("a sm", tokens=12, seed=3, stream=True))
    assert "".join(pieces) == text and len(pieces) > 1
    endless = run.generate("a sm", tokens=10**9, stream=True)
    assert next(endless) and endless.close() is None  # which ends the command
    with pytest.raises(zr.ArgumentError, match="--top-p is 7"):
        next(run.generate(top_p=7, stream=True))
    run.save("exported")
    arrays = zr.load("exported")
    assert all(np.array_equal(arrays[name], array) for name, array in run.load().items()) and len(arrays) == 28
    assert arrays["transformer.wte.weight"].shape == (256, 16)
    run.save("small", dtype="bf16")
    small = zr.load("small")
    assert small["transformer.wte.weight"].dtype == np.float32
    np.testing.assert_allclose(small["transformer.wte.weight"], arrays["transformer.wte.weight"], rtol=1e-2)
    arrays["transformer.wte.weight"][0, 0] = 7  # stays in this process
    assert zr.load("exported")["transformer.wte.weight"][0, 0] != 7
    with pytest.raises(zr.NotFound, match="nothing has no model.safetensors"):
        zr.load("nothing")


def test_data_of_a_file_and_of_the_program_exclude_each_other(tokens):
    with pytest.raises(zr.ConfigError, match="data.train is x.txt, but the program gives samples"):
        start(tokens, **{"data.train": "x.txt"}).wait()
    with pytest.raises(zr.Unsupported, match="data.packing whole packs the documents of files"):
        start(tokens, **{"data.packing": "whole"}).wait()
    with pytest.raises(zr.ArgumentError, match="ranks is 0"):
        start(tokens, ranks=0)


def test_warnings_and_notes_of_a_run_are_logged(tokens, caplog):
    caplog.set_level(logging.INFO, logger="zr")
    start(tokens, gradient_clipping=1.0, **{"data.loss_on": "all"}).wait()
    assert any("loss_on has no effect" in record.message for record in caplog.records)
