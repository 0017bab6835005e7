"""The runs of the papers beside zr's simulations. The rows are clusters, simulated runs, ratios, BERT-Large's training,
and the largest model and batch of C1 to C5. One set of constants prices all runs (src/simulate/clusters.c). The
constants were fitted to the four rows marked "fitted". No constant is tuned for a single row."""
import math
import statistics

from data import (APPENDIX, CLUSTERS, CONFIG_BATCH, CONFIG_GPUS, CONFIG_TENSOR, CONFIGS, DEEPSPEED, FEWEST_GPUS, KEPT_NAME,
                  KERNELS, MARK, MEAN, MEAN_ROWS, MINUTES, RATIOS, STAGE, STAGE_NAME, UNIT, V1)
from tables import percent
from zr import busy_sec, config_keys, simulate, simulate_phase

DGX2, AZURE = "dgx2x25", "azure-nc24rs-v3x8"


def row(source, table, label, what, paper, ours, mark, system="", **more):
    """Return a row: a printed number (0: not printed) beside zr's."""
    return {"source": source, "table": table, "row": label, "system": system, "what": what, "paper": paper or None,
            "zr": ours, "fitted": mark == "fitted", "counts": mark == "counts", "mark": MARK[mark], **more}


def memory(needed, there):
    """Return the members of a row for the bytes of a device that are needed, and that it has."""
    return {"memory_bytes": needed, "device_bytes": there, "fits": needed <= there}


def cluster_rows(zr):
    for name, label, nodes, gpus, gb in CLUSTERS:
        own = zr.size(name)
        for what, paper, ours in (("nodes", nodes, own["devices"] / own["host_devices"]),
                                  ("GPUs a node", gpus, own["host_devices"]),
                                  ("GB a GPU", gb, round(own["device_bytes"] / 1e9))):
            yield row("v1", "3", label, what, paper, ours, "untimed")


def run_row(source, run, made):
    system = {"megatron": "DDP" if run.tensor == 1 else "Megatron", "zero-os": "ZeRO-OS"}.get(
        run.system, STAGE_NAME[STAGE[run.system]])
    ours = made["samples_per_sec"] if run.unit == "samples" else made["tflops"]
    return row(source, run.table, run.label, UNIT[run.unit], run.paper, ours, run.mark, system + KEPT_NAME[run.kept],
               gpus=run.gpus, tensor=run.tensor, batch=run.batch,
               **memory(made["memory_bytes"], made["cluster"]["device_bytes"]), step_sec=made["step_sec"],
               product_sec=made["product_sec"], memory_sec=made["memory_sec"], exposed=made["exposed"],
               samples_per_sec=made["samples_per_sec"], tflops=made["tflops"])


def run_rows(zr, cluster, only):
    chosen = [(source, run) for source, runs in (("v1", V1), ("SC20", APPENDIX)) for run in runs
              if not only or run.table in only]
    made = [simulate(zr, run, cluster or (AZURE if run.table == "7" else DGX2)) for _, run in chosen]
    return [run_row(source, run, one()) for (source, run), one in zip(chosen, made)]


def find(rows, table, label, system, gpus=None):
    """Return the row of a simulated run. `system` begins its name."""
    return next(r for r in rows if (r["table"], r["row"]) == (table, label) and r["system"].startswith(system)
                and gpus in (None, r["gpus"]) and "step_sec" in r)


def mean_row(rows):
    """Return the mean TFLOP/s of ZeRO over the models from 8B to 100B."""
    ours = statistics.fmean(find(rows, "Fig2", label, "Pos+g")["zr"] for label in MEAN_ROWS)
    return row("SC20", "Fig2", "mean of 8B to 100B", "TFLOP/s", MEAN, ours, "counts", "Pos+g Pa", gpus=400)


def ratio_rows(rows):
    """Return the ratios of ZeRO-OS to Megatron in samples per second, or how many times fewer GPUs ZeRO-OS needs for
    the same throughput: that ratio times Megatron's number of GPUs over ZeRO's."""
    for table, label, fewer, paper in RATIOS:
        zero, other = (find(rows, table, label, system) for system in ("ZeRO-OS", "Megatron"))
        ours = zero["samples_per_sec"] / other["samples_per_sec"] * (other["gpus"] / zero["gpus"] if fewer else 1)
        yield row("v1", table, f"{label} ZeRO-OS/Megatron", "fewer GPUs" if fewer else "ratio", paper, ours, "same")


# ---- BERT-Large -----------------------------------------------------------------------------------


def divide(phase, gpus):
    """Return the samples of a micro-batch and the micro-batches of a GPU, for steps of about phase.batch samples of all
    GPUs, each micro-batch of at most phase.micro samples."""
    own = phase.batch / gpus
    accum = math.ceil(own / phase.micro)
    return math.floor(own / accum + 0.5), accum


def bert_rows(zr, cluster):
    kernels = [(phase, paper, divide(phase, FEWEST_GPUS)) for phase, paper in zip(DEEPSPEED.phases, KERNELS)]
    alone = [simulate_phase(zr, DEEPSPEED, phase, 1, *sizes, cluster) for phase, _, sizes in kernels]
    trained = [(recipe, gpus, minutes, [(p, divide(p, gpus)) for p in recipe.phases]) for recipe, gpus, minutes in MINUTES]
    steps = [[simulate_phase(zr, recipe, p, gpus, *sizes, cluster) for p, sizes in phases]
             for recipe, gpus, _, phases in trained]
    for (phase, paper, sizes), one in zip(kernels, alone):
        made = one.result()
        more = {"gpus": 1, "tensor": 1, "batch": sizes[0],
                **memory(made["memory_bytes"], made["cluster"]["device_bytes"]),
                "phases": [phase_member(phase, FEWEST_GPUS, sizes, made)]}
        for what, printed, ours, mark in (("samples/s", paper[0], made["samples_per_sec"], "apart"),
                                          ("TFLOP/s", paper[1], made["tflops"], "same")):
            yield row("DeepSpeed", "BERT-Large", f"T {phase.tokens}", what, printed, ours, mark, "DeepSpeed", **more)
    for (recipe, gpus, minutes, phases), made in zip(trained, steps):
        made = [one.result() for one in made]
        members = [phase_member(p, gpus, sizes, one) for (p, sizes), one in zip(phases, made)]
        yield row(recipe.system, "BERT-Large", "T 128 and 512", "minutes", minutes,
                  sum(p["steps"] * p["step_sec"] for p in members) / 60, "apart", recipe.system, gpus=gpus, tensor=1,
                  **memory(max(one["memory_bytes"] for one in made), made[0]["cluster"]["device_bytes"]),
                  phases=members)


def phase_member(phase, gpus, sizes, made):
    """Return a phase of a row: its division into steps, and the simulated step."""
    micro, accum = sizes
    return {"seq_length": phase.tokens, "micro_batch": micro, "accumulation": accum,
            "steps": phase.samples / (micro * accum * gpus), "step_sec": made["step_sec"],
            "exposed_sec": made["exposed_sec"]}


# ---- C1 to C5: the largest model, the largest batch -------------------------------------------------


def largest_rows(zr):
    """Return the largest model, and the largest batch of the 60B model, that a configuration of ZeRO-R fits, with the
    bytes that a GPU needs at the paper's size."""
    cases = [(c, batch, "zero-60b-75x8192x64" if batch else None, 128 if batch else CONFIG_GPUS,
              c.batch if batch else CONFIG_BATCH) for batch in (False, True) for c in CONFIGS]
    on = ["--cluster", DGX2]
    needs = [zr.ask("simulate", config_keys(c, size, model), gpus, *on) for c, _, model, gpus, size in cases]
    most = [zr.ask("plan", config_keys(c, size, model), gpus, *on, "--max", "batch" if batch else "layers")
            for c, batch, model, gpus, size in cases]
    for (c, batch, _, gpus, size), need, found in zip(cases, needs, most):
        need, found = need.result(), found.result()
        ours = found["max"]["train_micro_batch_size_per_gpu"] if batch else found["params"] / 1e9
        yield row("SC20", "Fig8" if batch else "Fig6", f"{c.name} {'batch of 60B' if batch else 'largest model'}",
                  "samples" if batch else "1e9 params", c.batch if batch else c.billion, ours, "untimed",
                  STAGE_NAME[c.stage] + KEPT_NAME[c.kept], gpus=gpus, tensor=CONFIG_TENSOR, batch=size,
                  **memory(need["needs"], need["cluster"]["device_bytes"]))


def rows(zr, cluster, only):
    """Return all rows. With another cluster than the papers', return only rows of runs, and with `only` only the
    simulated runs of these tables."""
    runs = run_rows(zr, cluster, only)
    if only:
        return runs
    made = [*([] if cluster else cluster_rows(zr)), *runs, mean_row(runs), *ratio_rows(runs)]
    return [*made, *bert_rows(zr, cluster or DGX2), *([] if cluster else largest_rows(zr))]


# ---- text ----------------------------------------------------------------------------------------


def row_text(r):
    """Return the line of a row."""
    paper = f"{'>' if r['mark'] == MARK['least'] else ''}{r['paper']:.4g}" if r["paper"] else "-"
    paper = "OOM" if r["mark"] == MARK["oom"] else paper
    off = f"{percent(r['zr'], r['paper']):+.1f}" if r["paper"] else ""
    gb = f"{r['memory_bytes'] / 1e9:.1f}{' ' if r['fits'] else '!'}" if "memory_bytes" in r else ""
    counts = [r.get(key, "") for key in ("gpus", "tensor", "batch")]
    return (f"{r['table']:12} {r['row']:20} {r['system']:12} {counts[0]:>4} {counts[1]:>3} {counts[2]:>2} {paper:>7} "
            f"{r['zr']:7.4g} {off:>6} {r['what']:11} {gb:>6} {r['mark']}")


def median_text(rows, marks, words):
    """Return the median and the largest absolute deviation of the rows with these marks."""
    off = [abs(percent(r["zr"], r["paper"])) for r in rows if r["mark"] in [MARK[m] for m in marks]]
    return f"{len(off)} {words}: median deviation {statistics.median(off):.1f} %, largest {max(off):.1f} %"


def reason_text(r):
    """Explain a row that deviates from the paper by more than 25 %, or a run that fits in zr's plan but was out of
    memory in the paper: name the exposed communication, or the further bytes, that would give the paper's result.
    Return None for other rows."""
    far = r["paper"] and abs(percent(r["zr"], r["paper"])) > 25
    only_papers = r["mark"] == MARK["oom"] and r["fits"]
    if r["mark"] in (MARK["same"], MARK["least"], MARK["apart"]) or not (far or only_papers):
        return None
    head = f"{r['table']}, {r['row']} {r['system']}: "
    if only_papers or "step_sec" not in r:
        taken, there = r["memory_bytes"] / 1e9, r["device_bytes"] / 1e9
        run = "step_sec" in r
        return (f"{head}the paper's {'run' if run else 'size'} takes {taken:.1f} of {there:.1f} GB in zr's plan;\n"
                f"  its program's {there - taken:.1f} GB more would give the "
                f"paper's {'end' if run else 'number'}")
    step, busy = r["step_sec"] * r["zr"] / r["paper"], busy_sec(r)
    waits = r["step_sec"] - busy
    text = f"{head}the paper's step took {step:.1f} s; zr's kernels take {busy:.1f} s\n  and it waits {waits:.1f} s; "
    if step > busy:
        return f"{text}waits of {step - busy:.1f} s would give the paper's number"
    return f"{text}the kernels alone would have to be {busy / step:.2f} times as fast"


def text(rows, elsewhere):
    """Return the rows as text. `elsewhere`: the user gave another cluster or fewer rows, so that medians mean
    nothing."""
    out = ["The ZeRO papers' numbers beside zr's, with one set of constants for all",
           "table: of arXiv 1910.02054 v1 (1 to 8), or of SC20, as its appendix calls the figure; M: ranks that",
           "share each layer; B: samples of a micro-batch; %: zr against the paper; TFLOP/s: of a GPU; GB: what",
           "zr's plan takes of a GPU, !: more than it has; fitted: constants were; -: not printed; >: at least",
           "BERT-Large: by DeepSpeed (2020) and NVIDIA (2019); apart: with a median of its own",
           "Times of GPUs are computed: zr has not yet run on a GPU.", "",
           "table        row                  system       GPUs   M  B   paper      zr      % unit            GB"]
    out += [row_text(r) for r in rows]
    if elsewhere:
        return "\n".join(out)
    out += ["", median_text(rows, ["counts"], "rows that count and were not fitted"),
            median_text(rows, ["counts", "fitted"], "with those that were fitted"),
            median_text(rows, ["apart"], "rows of BERT-Large, none of which was fitted"), "",
            "What it would take where a row is off by more than a quarter:"]
    return "\n".join(out + [reason for reason in map(reason_text, rows) if reason])
