"""Tensor parallelism compared with ZeRO on the same ranks, ZeRO-R's checkpoints, and super-linear scaling (GPT-2 124M,
fp32)."""
import json

import measure
from measure import result, without

SEQ = 1024
SMALL_SEQ = 64  # with a small batch of short sequences, the update and the gathers take most of a step
LINEAR = "throughput of a rank, 2 ranks / 1, under the same limit of memory"
CHECKPOINTS = "activation_checkpointing"


def one_thread(config, **keys):
    config["train"]["threads"] = 1
    return config | keys


# ---- the same work on the same ranks (ZeRO, tables 6 and 8 in small) --------------------------------


def grid_train(data, tensor, steps, **keys):
    """Train with 4 rows per step on data x tensor ranks."""
    config = one_thread(measure.preset_config(1, 4 // data, SEQ, steps), parallel={"tensor": tensor}, **keys)
    return measure.train(config, (), data * tensor, ["--quiet"])


def grids(options):
    steps = 2 if options.quick else 4
    names = {(4, 1): "4 data-parallel ranks", (2, 2): "2 x 2", (1, 4): "4 ranks of a layer"}
    turns = measure.Turns(1 if options.quick else 2, {
        name: lambda grid=grid: grid_train(*grid, steps) for grid, name in names.items()})
    turns.speed("T 1024: 2 x 2 / 4 data-parallel ranks", names[2, 2], names[4, 1], ">= 0.8")
    turns.speed("T 1024: 4 ranks of a layer / 4 data-parallel ranks", names[1, 4], names[4, 1])


def checkpoints(options):
    steps = 2 if options.quick else 4
    unit = {"policy": "unit"}
    pieces = unit | {"partition_activations": True}
    kept = {"unit": unit, "P_a": pieces, "P_a+cpu": pieces | {"cpu_checkpointing": True}}
    turns = measure.Turns(1 if options.quick else 2, {
        name: lambda keys=keys: grid_train(2, 2, steps, **{CHECKPOINTS: keys}) for name, keys in kept.items()})
    turns.speed("2 x 2, recompute unit: P_a / whole checkpoints", "P_a", "unit", ">= 0.97")
    turns.speed("2 x 2, recompute unit: P_a+cpu / whole checkpoints", "P_a+cpu", "unit", ">= 0.9")


# ---- super-linear scaling (ZeRO, figure 3) -----------------------------------------------------------


def small_config(batch, steps=2):
    return one_thread(measure.preset_config(2, batch, SMALL_SEQ, steps))


def planned(ranks, *arguments):
    """Return the result of `zr plan` for the small configuration."""
    path = measure.OUT / "grid.json"
    path.write_text(json.dumps(small_config(1)))
    return measure.run_json([measure.ZR, "plan", path, "--ranks", ranks, "--json", "--quiet", *arguments], 120)


def largest_batch(ranks, limit_bytes):
    return planned(ranks, "--max", "batch", "--memory", limit_bytes)["max"]["train_micro_batch_size_per_gpu"]


def limited_run(ranks, batch, limit_bytes, steps):
    config = small_config(batch, steps) | {"memory": {"limit": limit_bytes}}
    return measure.train(config, (), ranks, ["--quiet"])


def super_linear(options):
    """Measure super-linear scaling. One rank has room for a few rows. Two ranks share the states, so that each has room
    for many rows."""
    steps = 3 if options.quick else 6
    try:
        limit = planned(1, "--max", "batch", "--memory", "2.2GB")["max"]["needs"]  # exactly the memory of that batch
        batch = {ranks: largest_batch(ranks, limit) for ranks in (1, 2)}
    except measure.Failed as error:
        return without(LINEAR, error, ">= 1.05")
    turns = measure.Turns(1 if options.quick else 3, {
        ranks: lambda ranks=ranks: limited_run(ranks, batch[ranks], limit, steps) for ranks in (1, 2)})
    if why := turns.why_not(1, 2):
        return without(LINEAR, why, ">= 1.05")
    rate = {ranks: batch[ranks] * SMALL_SEQ / turns.median_ms(ranks) * 1e3 for ranks in (1, 2)}
    return result(LINEAR, round(rate[2] / rate[1], 3), ">= 1.05", "x",
                  f"limit {limit / 1e9:.2f} GB a rank, stage 2, T {SMALL_SEQ}: a batch of {batch[1]} fits one rank, "
                  f"{batch[2]} a rank fit two, as each has half of the optimizer's states; {rate[1]:.0f} and "
                  f"{rate[2]:.0f} tokens/s a rank")


def main():
    options = measure.options()
    super_linear(options)
    grids(options)
    checkpoints(options)


main()
