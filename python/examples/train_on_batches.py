"""Train a small Llama on batches that the program makes: the model learns to continue arithmetic progressions.

    python train_on_batches.py [STEPS]
"""

import sys
import tempfile

import numpy as np
import zr

ROWS, SEQ, TOKENS = 32, 32, 128
model = {"type": "llama", "vocab_size": TOKENS, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
         "num_attention_heads": 2, "max_position_embeddings": SEQ}  # fmt: skip


def batches(seed=0):
    """Give for each step ROWS sequences a, a+d, a+2d ... of SEQ+1 tokens."""
    draw = np.random.default_rng(seed)
    while True:
        begin, distance = draw.integers(TOKENS, size=(ROWS, 1)), draw.integers(1, 9, size=(ROWS, 1))
        yield ((begin + distance * np.arange(SEQ + 1)) % TOKENS).astype(np.int32)


steps = int(sys.argv[1]) if len(sys.argv) > 1 else 300
with tempfile.TemporaryDirectory() as folder:
    run = zr.train(model=model, data=batches(), steps=steps, seq=SEQ, ranks=2, stage=2, train_batch_size=ROWS, batch=16,
                   optimizer={"type": "AdamW", "params": {"lr": 3e-3}}, output_dir=f"{folder}/run")  # fmt: skip
    for line in run:
        if line["step"] % 50 == 0 or line["step"] in (1, steps):
            print(f"step {line['step']:4}  loss {line['loss']:.3f}  {line['tokens_per_sec']:.0f} tokens/s")
    result = run.wait()
    print(f"{result.steps} steps in {result.wall_sec:.1f} s; a rank had {result.measured.memory.total / 1e6:.1f} MB")
    weights = run.load()
    print(f"{len(weights)} arrays, such as model.norm.weight {weights['model.norm.weight'].shape}")
