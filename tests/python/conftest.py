import os

import numpy as np
import pytest

MODEL = {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 64, "n_positions": 8}


def keys(**more):
    """Keys of a small run of 4 samples per step, without a schedule."""
    return {"model": MODEL, "train_batch_size": 4, "train": {"threads": 1}, **more}


def need(module):
    """Import a large package, or skip the file: if it is absent, and in the short run of scripts/test."""
    if os.environ.get("ZR_LONG") == "":
        pytest.skip(f"{module} in the long run; scripts/test --long", allow_module_level=True)
    return pytest.importorskip(module, reason=f"{module} is absent")


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def tokens():
    return np.random.default_rng(7).integers(0, 64, (40, 9), dtype=np.int32)
