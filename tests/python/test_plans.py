"""Plans, simulations and searches are those of the command."""
import json
import os
import pathlib
import subprocess

import pytest
import zr
from zr import _command


def command(*words):
    return subprocess.run([_command.path(), *words], capture_output=True, check=True).stdout.decode()


def test_plan_is_that_of_the_command():
    plan = zr.plan(preset="gpt2-124m", ranks=4, stage=2, cluster="dgx-a100x8")
    words = "plan --preset gpt2-124m --ranks 4 --stage 2 --cluster dgx-a100x8".split()
    assert plan.to_dict() == json.loads(command(*words, "--json"))
    assert repr(plan) == command(*words, "--color=never")
    assert plan.memory.total == plan["memory"]["total"] == plan.to_dict()["memory"]["total"]
    assert "total" in dir(plan.memory) and "memory" in plan
    with pytest.raises(AttributeError, match="no memori; it has params, ranks"):
        plan.memori


def test_a_picture_is_that_of_the_command():
    plan = zr.plan(preset="gpt2-124m", ranks=2, stage=3, cluster="dgx-a100x8")
    command(*"plan --preset gpt2-124m --ranks 2 --stage 3 --cluster dgx-a100x8 --json --svg own.svg".split())
    assert plan._repr_svg_() == pathlib.Path("own.svg").read_text()


def test_config_as_dict_file_and_keywords():
    config = {"model": {"type": "gpt2", "n_layer": 2}, "zero_optimization": {"stage": 1}}
    with open("c.json", "w") as out:
        json.dump(config, out)
    plans = [zr.plan(config, ranks=2), zr.plan("c.json", ranks=2), zr.plan({"model": config["model"]}, ranks=2, stage=1)]
    assert plans[0] == plans[1] == plans[2] and plans[0].stage == 1
    assert zr.plan(config, ranks=2, zero_optimization={"stage": 3}).stage == 3
    assert zr.plan(config, ranks=2, **{"zero_optimization.stage": 3}).stage == 3


def test_simulation_and_search_are_those_of_the_command():
    words = "simulate --preset llama3-8b --cluster dgx-h100x8 --ranks 64 --stage 3".split()
    simulation = zr.simulate(preset="llama3-8b", cluster="dgx-h100x8", ranks=64, stage=3)
    assert simulation.to_dict() == json.loads(command(*words, "--json"))
    assert repr(simulation) == command(*words)
    found = zr.search(preset="gpt2-124m", cluster="dgx-h100x8", ranks=8, batch=4)
    words = "simulate --preset gpt2-124m --cluster dgx-h100x8 --ranks 8 --batch 4 --search --json".split()
    assert found.to_list() == json.loads(command(*words)) and len(found) > 1
    assert found.best.fits and f"Search({len(found)} ways; best: " in repr(found)
    assert [way.step_sec for way in found][0] == found[0].step_sec


@pytest.mark.parametrize(
    "kind, base, words, call",
    [
        (zr.ArgumentError, ValueError, "no preset \"gpt2-12m\"", lambda: zr.plan(preset="gpt2-12m")),
        (zr.ConfigError, ValueError, "did you mean train.steps", lambda: zr.plan({"train": {"step": 1}}, ranks=1)),
        (zr.NotFound, FileNotFoundError, "none.json", lambda: zr.plan("none.json")),
        (zr.MemoryLimit, MemoryError, "nothing fits",
         lambda: zr.search(preset="gpt2-124m", cluster="dgx-h100x8", ranks=1, memory="1MB", batch=1, stage=0)),
        (zr.Unsupported, NotImplementedError, "at most 4096 layers", lambda: zr.plan(model={"n_layer": 5000})),
    ],
)  # fmt: skip
def test_failures_have_the_class_of_their_status(kind, base, words, call):
    with pytest.raises(kind, match=words) as caught:
        call()
    assert isinstance(caught.value, base) and isinstance(caught.value, zr.Error)
    assert caught.value.code == kind.code and not str(caught.value).startswith("zr: ")


def test_notes_are_logged(caplog):
    caplog.set_level("INFO", logger="zr")
    zr.plan(preset="gpt2-124m", ranks=1)
    assert any(record.name == "zr" and "training recipe" in record.message for record in caplog.records)


def test_version_is_that_of_the_command():
    assert zr.version() == zr.__version__ and zr.version() in command("--version")
    assert os.path.exists(os.path.join(os.path.dirname(zr.__file__), "py.typed"))
