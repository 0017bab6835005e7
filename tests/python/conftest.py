import numpy as np
import pytest

MODEL = {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 64, "n_positions": 8}


def keys(**more):
    """Keys of a small run of 4 samples per step, without a schedule."""
    return {"model": MODEL, "train_batch_size": 4, "train": {"threads": 1}, **more}


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def tokens():
    return np.random.default_rng(7).integers(0, 64, (40, 9), dtype=np.int32)
