"""FLOP/s of PyTorch's matrix product on all cores, the best of five, as one JSON object."""
import json
import time

import torch

SIZE = 3072
peak = {}
for name, dtype in {"fp32": torch.float32, "bf16": torch.bfloat16}.items():
    a, b = torch.randn(2, SIZE, SIZE).to(dtype)
    times = []
    for _ in range(6):
        start = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - start)
    peak[name] = 2 * SIZE**3 / min(times[1:])
print(json.dumps(peak))
