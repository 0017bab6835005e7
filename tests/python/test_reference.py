"""Exact steps against the formula in numpy, and against a run."""
import numpy as np
import pytest
import zr
from conftest import MODEL, keys


def step(tokens, **more):
    return zr.reference_step(more.pop("weights", None), tokens, model=MODEL, **{"optimizer": "SGD", **more})


def test_a_step_has_the_bits_of_a_run(tokens):
    run = zr.train(data=tokens, steps=2, output_dir="run", bf16={"enabled": False}, optimizer={"type": "AdamW"}, **keys())
    list(run)
    own = step([tokens[:4], tokens[4:8]], optimizer="AdamW", batch=1)
    assert [float(f"{loss:.9g}") for loss in own.losses] == run.losses
    written = run.load()
    for name, array in own.weights.items():
        np.testing.assert_array_equal(array, written[name], name)


@pytest.mark.parametrize("layout", [{"stage": s, "ranks": 2} for s in range(4)] + [
    {"ranks": 2, "parallel.tensor": 2}, {"ranks": 2, "parallel.pipeline": 2, "batch": 2}, {"batch": 1}])  # fmt: skip
def test_every_layout_gives_the_same_values(tokens, layout):
    one = step(tokens[:4], optimizer={"type": "AdamW", "params": {"lr": 1e-2}})
    other = step(tokens[:4], optimizer={"type": "AdamW", "params": {"lr": 1e-2}}, **layout)
    assert other.loss == pytest.approx(one.loss, rel=1e-6)
    assert other.grad_norm == pytest.approx(one.grad_norm, rel=1e-5)
    assert one.weights.keys() == other.weights.keys() == other.gradients.keys() == other.states["exp_avg"].keys()
    for name, array in one.gradients.items():
        np.testing.assert_allclose(other.gradients[name], array, atol=1e-6, err_msg=name)
        np.testing.assert_allclose(other.states["exp_avg"][name], 0.1 * array, atol=1e-6)


def test_sgd_is_its_formula_and_gradients_are_before_clipping(tokens):
    start = step(tokens[:4], optimizer={"type": "SGD", "params": {"lr": 0}}).weights
    for clip in (0, 0.1):
        did = step(tokens[:4], weights=start, optimizer={"type": "SGD", "params": {"lr": 0.5}}, gradient_clipping=clip)
        norm = np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in did.gradients.values()))
        assert did.grad_norm == pytest.approx(norm, rel=1e-6) and norm > 0.1
        scale = min(1, clip / norm) if clip else 1
        for name, array in did.weights.items():
            np.testing.assert_allclose(array, start[name] - 0.5 * scale * did.gradients[name], atol=2e-7, err_msg=name)


RULES = {
    "AdamW": {},
    "Adam": {"weight_decay": 0.1},
    "SGD": {"momentum": 0.9},
    "Lamb": {},
    "Lars": {"momentum": 0.9},
    "Muon": {},
    "Lion": {},
    "AdamW8bit": {},
}


@pytest.mark.parametrize("rule", RULES)
def test_a_step_from_given_states_is_the_next_step_of_a_training(tokens, rule):
    how = {"optimizer": {"type": rule, "params": {"lr": 1e-2, **RULES[rule]}}, "ranks": 2}
    whole = step([tokens[:4], tokens[4:8], tokens[8:12]], stage=2, **how)
    first = step([tokens[:4], tokens[4:8]], stage=1, **how)
    names = {"SGD": ["momentum_buffer"], "Lion": ["exp_avg"], "Lars": ["momentum_buffer"], "Muon": ["exp_avg", "exp_avg_sq", "momentum_buffer"]}
    assert first.updates == 2 and sorted(first.states) == names.get(rule, ["exp_avg", "exp_avg_sq"])
    last = step(tokens[8:12], weights=first.weights, states=first.states, updates=2, stage=3, **how)
    assert last.losses == whole.losses[2:] and last.updates == 3
    for name, array in whole.weights.items():
        np.testing.assert_array_equal(last.weights[name], array, name)
    for state, arrays in whole.states.items():
        for name, array in arrays.items():
            np.testing.assert_array_equal(last.states[state][name], array, f"{state} {name}")
    halved = {state: {n: a / 2 for n, a in of.items()} for state, of in first.states.items()}
    other = step(tokens[8:12], weights=first.weights, states=halved, updates=2, stage=3, **how)
    assert any(not np.array_equal(other.weights[name], array) for name, array in last.weights.items())


def test_states_that_lack_something_are_refused_with_their_place(tokens):
    one = step(tokens[:4], optimizer="AdamW")
    name = "transformer.h.1.ln_1.weight"
    short = {n: a for n, a in one.states["exp_avg_sq"].items() if n != name}
    for states, words in [
        (None, r"states\['exp_avg'\] is missing; a step after other updates needs it"),
        ({**one.states, "exp_avg_sq": short}, rf"states\['exp_avg_sq'\] has 0 arrays for {name}"),
    ]:
        with pytest.raises(zr.DataError, match=words):
            step(tokens[:4], weights=one.weights, states=states, updates=1, optimizer="AdamW", ranks=2)
    with pytest.raises(zr.ArgumentError, match="states are given, but updates is 0"):
        step(tokens[:4], weights=one.weights, states=one.states, optimizer="AdamW")
    with pytest.raises(zr.ArgumentError, match="updates is 1, but weights is None"):
        step(tokens[:4], states=one.states, updates=1, optimizer="AdamW")
    with pytest.raises(zr.ArgumentError, match="updates is -1"):
        step(tokens[:4], weights=one.weights, states=one.states, updates=-1, optimizer="AdamW")


def test_weights_may_lack_or_have_the_prefix_of_names(tokens):
    start = step(tokens[:4], optimizer={"type": "SGD", "params": {"lr": 0}}).weights
    short = {name.removeprefix("transformer."): array for name, array in start.items()}
    assert step(tokens[:4], weights=short).losses == step(tokens[:4], weights=start).losses
    changed = {**start, "transformer.wte.weight": start["transformer.wte.weight"] * 2}
    assert step(tokens[:4], weights=changed).loss != step(tokens[:4], weights=start).loss


def test_a_directory_gives_weights_and_model(tokens):
    run = zr.train(data=tokens, steps=2, output_dir="run", **keys())
    list(run)
    run.save("exported")
    from_directory = zr.reference_step("exported", tokens[:4], optimizer="SGD")
    assert from_directory.losses == step(tokens[:4], weights=zr.load("exported")).losses


def test_bad_input_is_refused_with_its_place(tokens):
    start = step(tokens[:4]).weights
    name = "transformer.h.1.ln_1.weight"
    with pytest.raises(zr.DataError, match=f"{name} has 3 elements of shape .*; expected 16"):
        step(tokens[:4], weights={**start, name: np.zeros(3)}, ranks=2)
    with pytest.raises(zr.DataError, match=f"weights has 0 arrays for {name}"):
        step(tokens[:4], weights={n: a for n, a in start.items() if n != name})
    with pytest.raises(zr.DataError, match="sample 1 of the program: token 2 is 99"):
        bad = tokens[:4].copy()
        bad[1, 2] = 99
        step(bad, ranks=2)
    with pytest.raises(zr.DataError, match="batch 1 of data has 3 rows"):
        step([tokens[:4], tokens[:3]])
    with pytest.raises(zr.DataError, match="batches is empty"):
        step([])
    with pytest.raises(zr.ConfigError, match="optimizer.params.learning: unknown key"):
        step(tokens[:4], optimizer={"type": "SGD", "params": {"learning": 1}})


def test_a_step_that_is_not_finite_is_skipped(tokens):
    start = step(tokens[:4]).weights
    name = "transformer.wte.weight"
    did = step(tokens[:4], weights={**start, name: np.full_like(start[name], np.inf)}, gradient_clipping=1.0)
    assert np.isnan(did.loss) and did.skipped == [True]


def test_lean_keeps_no_gradients(tokens):
    did = step(tokens[:4], **{"memory.layout": "lean"})
    assert did.gradients == {} and did.losses == step(tokens[:4]).losses
    assert "Reference(updates=1, losses=[" in repr(did) and did.skipped == [False] and did.lrs[0] > 0


def test_arrays_that_do_not_fit_are_refused(tokens, caplog):
    did = step(tokens[:4], optimizer="AdamW")
    name = "transformer.h.0.mlp.c_fc.weight"
    again = {"weights": did.weights, "optimizer": "AdamW", "states": did.states, "updates": 1}
    for wrong, words in [
        ({"weights": {**did.weights, name: did.weights[name].T}}, r"weights: .*c_fc.weight has the shape \(64, 16\)"),
        ({"weights": {**did.weights, name: did.weights[name] * 1j}}, "c_fc.weight has the dtype complex64"),
        ({"weights": {**did.weights, name: did.weights[name].astype(int)}}, "c_fc.weight has the dtype int64"),
        ({"optimizer": "Lion"}, r"states\['exp_avg_sq'\] is not a state of this optimizer, which has exp_avg"),
        ({"states": [did.states]}, "states is a list; expected a dict"),
        ({"updates": 1.5}, "updates is 1.5; expected an integer"),
    ]:
        with pytest.raises((zr.DataError, zr.ArgumentError), match=words):
            step(tokens[:4], **{**again, **wrong})
    caplog.set_level("INFO", logger="zr")
    step(tokens[:4], **{**again, "weights": {**did.weights, "lm_head.bias": np.zeros(3)}})
    assert "weights that the model does not have are left out: lm_head.bias" in caplog.text
