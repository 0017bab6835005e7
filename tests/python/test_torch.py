"""Tensors of torch as batches, weights and states; both libraries in one process."""
import os
import subprocess
import sys

import numpy as np
import pytest
import zr
from conftest import MODEL, keys, need

torch = need("torch")


def losses(data, name, **more):
    return [line["loss"] for line in zr.train(data=data, steps=3, output_dir=name, **keys(**more)) if "loss" in line]


def test_tensors_give_the_bits_of_arrays(tokens):
    from torch.utils.data import DataLoader, TensorDataset

    whole = torch.from_numpy(tokens.copy())
    twice = torch.repeat_interleave(whole, 2, dim=1)
    forms = {
        "int32": whole,
        "int64": whole.long(),
        "uint8": whole.to(torch.uint8),
        "transposed": whole.t().contiguous().t(),
        "strided": twice[:, ::2],
        "pair": (whole[:, :-1], whole[:, 1:].long()),
        "list": list(whole[:12].split(4)),
        "loader": DataLoader(TensorDataset(whole[:, :-1], whole[:, 1:]), batch_size=4),
    }
    wanted = losses(tokens, "array")
    for name, data in forms.items():
        assert losses(data, name) == wanted, name


def test_a_batch_is_not_copied_on_its_way_to_the_library(tokens):
    from zr import _batches

    whole = torch.from_numpy(tokens.copy())
    pair = _batches.pair_of(whole, "data")
    assert pair[0].ctypes.data == whole.data_ptr() and pair[1].ctypes.data == whole.data_ptr() + 4


class OnGpu:  # what a tensor on a GPU says, without one
    def __dlpack__(self, **asked):
        raise AssertionError("asked for its memory")

    def __dlpack_device__(self):
        return 2, 0


@pytest.mark.parametrize("bad, words", [
    (torch.zeros(4, 9), "data has the dtype float32; expected integers"),
    (torch.zeros(4, 9, requires_grad=True), "data is a torch.Tensor that cannot be read as an array: .*grad"),
    (torch.zeros(4, 9, dtype=torch.bfloat16), "data is a torch.Tensor that cannot be read as an array: "),
    (torch.zeros(4, 9, dtype=torch.bool), "data has the dtype bool; expected integers"),
    (torch.zeros(4, 9, dtype=torch.int32, device="meta"), "data is a torch.Tensor that cannot be read as an array: "),
    (torch.zeros(4, 9, dtype=torch.int32).to_sparse(), "data is a torch.Tensor that cannot be read as an array: "),
    (torch.zeros(4, 8, dtype=torch.int32), "4 rows of 7 tokens.*expected 4 rows of 8"),
    (torch.full((4, 9), 2**40), "from 1099511627776 to 1099511627776"),
    (OnGpu(), r"data is a test_torch.OnGpu .*another device \(DLPack's type 2\); copy it to the CPU first"),
])  # fmt: skip
def test_a_tensor_that_is_no_batch_is_refused(bad, words):
    with pytest.raises(zr.DataError, match=words):
        losses(bad, "run")
    assert not os.path.exists("run")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch has no GPU here")
def test_a_tensor_on_a_gpu_is_refused(tokens):
    with pytest.raises(zr.DataError, match="copy it to the CPU first"):
        losses(torch.from_numpy(tokens.copy()).cuda(), "run")


def test_loaded_weights_become_tensors_without_a_copy(tokens):
    losses(tokens, "run")
    arrays = zr.load("run")
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}  # a warning would fail
    name = "transformer.wte.weight"
    assert tensors[name].data_ptr() == arrays[name].ctypes.data
    tensors[name][0, 0] = 7  # stays in this process
    assert arrays[name][0, 0] == 7 and zr.load("run")[name][0, 0] != 7


def test_a_step_of_torchs_adamw_from_the_middle_of_its_training(tokens):
    rule = {"lr": 1e-2, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}
    how = {"model": MODEL, "optimizer": {"type": "AdamW", "params": rule}, "gradient_clipping": 0.0}
    start = zr.reference_step(None, tokens[:4], **how).weights
    params = {name: torch.nn.Parameter(torch.from_numpy(array.copy())) for name, array in start.items()}
    groups = [{"params": [p], "weight_decay": 0.1 if p.ndim > 1 else 0.0} for p in params.values()]
    optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95), eps=1e-8)
    for i in range(4):
        states = {s: {n: optimizer.state[p][s] for n, p in params.items()} for s in ("exp_avg", "exp_avg_sq")} if i else None
        batch = tokens[4 * i : 4 * i + 4]
        did = zr.reference_step({n: p.detach() for n, p in params.items()}, batch, states=states, updates=i, ranks=2, stage=3, **how)
        for name, p in params.items():
            p.grad = torch.from_numpy(did.gradients[name].copy())
        optimizer.step()
        for name, p in params.items():
            np.testing.assert_allclose(did.weights[name], p.detach(), atol=2e-6, err_msg=f"step {i + 1}: {name}")
    with pytest.raises(zr.DataError, match="weights: transformer.* is a torch.* that cannot be read as an array: .*grad"):
        zr.reference_step(params, tokens[:4], **how)


ORDER = """
import {first}, {second}
import sys
import numpy as np
sys.path.insert(0, {tests!r})
from conftest import keys
x = torch.linspace(-1, 1, 512 * 512).reshape(512, 512)
wanted, threads = x @ x, torch.get_num_threads()
data = np.arange(40 * 9, dtype=np.int32).reshape(40, 9) % 64
run = zr.train(data=data, steps=3, output_dir=sys.argv[1], **keys(ranks=2, **{{"train.threads": 2}}))
lines = []
for line in run:
    assert torch.equal(x @ x, wanted)  # while zr trains
    lines.append(line)
loss = torch.nn.functional.cross_entropy(x, torch.zeros(512, dtype=torch.long))
assert torch.equal(x @ x, wanted) and torch.get_num_threads() == threads
print([line["loss"] for line in lines])
"""


def test_both_orders_of_imports_in_one_process():
    said = {}
    for first, second in (("torch", "zr"), ("zr", "torch"), ("zr", "zr")):
        program = ORDER.format(first=first, second=second, tests=os.path.dirname(__file__))
        if first == second:  # without torch
            program = "\n".join(line for line in program.splitlines() if "torch" not in line)
        done = subprocess.run([sys.executable, "-c", program, first + second], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        said[first + second] = done.stdout
    assert said["torchzr"] == said["zrtorch"] == said["zrzr"] and "[4." in said["zrzr"]
