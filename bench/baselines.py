"""Step times and memory of baselines of the ZeRO papers that zr does not plan, from those of plans that zr makes.

- C_B off (fused): one buffer for the gradients of the whole model, reduced after the whole backward pass. ZeRO-OS, the
  first version of stage 1, trained in this way, with an all-reduce.
- in turn: a collective that serves one owner of a shard after the other: a broadcast from each owner instead of an
  all-gather, and a reduction to each owner instead of a reduce-scatter.

zr could once plan both. tests/simulate_baselines.json has the numbers of those schedules, and
tests/test_simulate_baselines.sh compares the formulas with them: bytes are equal, times differ by at most 0.005 %.

`plain` and `late` are documents of `zr simulate --json`. `ranks` are the data-parallel ranks and `gpus` all ranks.
`units` are the units of the model: a decoder's layers and two more. `message_sec` is the latency of the slowest link
between the ranks. A collective is a ring, of ranks - 1 messages.
"""


def staging_bytes(ranks):
    """Bytes of a GPU's staging memory for `ranks` data-parallel ranks, if a bucket is at least half as large."""
    return max(64 << 20, ranks * (128 << 10))


def fused_bytes(plain, ranks):
    """Bytes of a rank's device memory with one fused buffer, at stages 0 and 1, where gradients are whole anyway. The
    buffer has the size of the 16-bit gradients, which is that of the 16-bit parameters. It replaces staging memory."""
    memory = plain["memory"]
    return memory["total"] + memory["param"] - staging_bytes(ranks)


def fused_sec(plain, late, ranks, units, message_sec, memory_bytes_sec):
    """Seconds of a step with one fused buffer, at stage 1 with an all-reduce of 16-bit gradients.

    `plain` has the same all-reduce, without the buffer. `late` has two micro-batches a step, whose gradients are
    reduce-scattered once, after the last backward pass ("gradient_reduction": "step"). They are then sums in fp32, of
    twice as many bytes, so a reduce-scatter moves what an all-reduce of 16-bit gradients moves. The compute stream
    thus waits as long as with the fused buffer, but for two terms. An all-reduce is two collectives a unit, not one.
    And the squares of 16-bit gradients, computed while other units are reduced, read two bytes an element less, at
    `memory_bytes_sec`, the rate that kernels reach. An element of a shard has twelve bytes of optimizer states."""
    late_sec = late["exposed"]["stage"] + units * (ranks - 1) * message_sec
    squares_sec = 2 * plain["memory"]["optim"] / 12 / memory_bytes_sec
    return plain["step_sec"] - plain["exposed"]["stage"] + late_sec + squares_sec


def in_turn_sec(plain, ranks, gpus, units, message_sec, gathers, reduces):
    """Seconds of a step whose gathers (`gathers`), reductions (`reduces`) or both serve the ranks in turn, at stages 1
    and 2 with 16-bit gradients and without overlap ("overlap_comm": false), where the collectives of all units are in
    one call each.

    `plain` has the usual collectives. Half of its waits for them are gathers, half reductions, besides the messages of
    the norm to all GPUs. Each broadcast moves one rank's piece, the all-gather the pieces of all ranks but one. Each
    reduction to an owner moves the pieces of all ranks but one, like the whole reduce-scatter."""
    each = (plain["exposed"]["stage"] - (gpus - 1) * message_sec) / 2
    latency = (ranks - 1) * message_sec
    sec = plain["step_sec"]
    if gathers:
        sec += (each - units * latency) * ranks / (ranks - 1) + units * ranks * latency - each
    if reduces:
        sec += each * (ranks - 1)
    return sec
