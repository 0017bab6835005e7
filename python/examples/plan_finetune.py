"""Will a fine-tune of Llama-3-8B fit 8 A100, and which way to do it is the fastest?

    python plan_finetune.py [picture.svg]
"""

import sys

import zr

setting = {"preset": "llama3-8b", "cluster": "dgx-a100x8", "ranks": 8, "seq": 4096}

print("stage  bytes/rank  fits  tokens/s  bound by")
for stage in range(4):
    way = zr.simulate(**setting, stage=stage, batch=1, activation_checkpointing={"policy": "unit"})
    print(f"{stage:5}  {way.memory.total / 1e9:7.1f} GB  {way.fits!s:5} {way.tokens_per_sec:8.0f}  {way.bound_by}")

found = zr.search(**setting)
print(f"\nthe fastest of {len(found)} ways: {found.best.tokens_per_sec:.0f} tokens/s, MFU {found.best.mfu:.1%}")
print(found.best.keys.to_dict())

plan = zr.plan(found.best.config.to_dict(), **{k: v for k, v in setting.items() if k != "cluster"})
print(f"its memory: states {plan.memory.states / 1e9:.1f} GB, activations {plan.memory.act / 1e9:.1f} GB")
if len(sys.argv) > 1:
    with open(sys.argv[1], "w") as picture:
        picture.write(plan.svg())
