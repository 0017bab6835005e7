"""The SC20 paper (Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models) beside zr's
plans: the 48 runs in the appendix of its artifact, and ZeRO-R's C1 to C5 at the paper's largest models. The paper's
formulas divide all states by M, the tensor-parallel degree. In zr's plans some tensors are replicated on all M ranks.
"""
from data import APPENDIX, CONFIG_BATCH, CONFIG_GPUS, CONFIG_TENSOR, CONFIGS, STAGE, TOKENS, VOCABULARY
from tables import percent, shown
from zr import config_keys, system_keys

CLUSTER = ["--cluster", "dgx2x25"]
RANKS = CONFIG_GPUS // CONFIG_TENSOR


def formula_bytes(params, stage, tensor, ranks):
    """Return the bytes of a rank's model states by the paper's formula: mixed precision, and Adam (K = 12)."""
    return params * (16, 4 + 12 / ranks, 2 + 14 / ranks, 16 / ranks)[stage] / tensor


def copies_bytes(plan, tensor):
    """Return how many bytes of a rank's model states are redundant copies: norms, position embeddings and biases of
    row-parallel layers are whole on all M ranks, though one copy would be enough. Every element needs the same number
    of bytes."""
    copied = plan.get("replicated", {}).get("params", 0)
    held = (plan["params"] - copied) / tensor + copied
    return plan["memory"]["states"] * copied * (tensor - 1) / tensor / held


def run_row(run, plan):
    ranks, states, copies = run.gpus // run.tensor, plan["memory"]["states"], copies_bytes(plan, run.tensor)
    formula = formula_bytes(plan["params"], STAGE[run.system], run.tensor, ranks)
    return {"figure": run.table, "label": run.label, "system": "Baseline" if run.system == "megatron" else "ZeRO",
            "stage": STAGE[run.system], "gpus": run.gpus, "tensor": run.tensor, "ranks": ranks, "layers": run.layers,
            "hidden": run.hidden, "heads": run.heads, "batch": run.batch, "params": plan["params"], "states": states,
            "formula": formula, "deviation_percent": percent(states - copies, formula), "copies": copies,
            "copies_percent": 100 * copies / formula}


def config_row(config, plan, shape):
    layers, hidden, heads = shape
    states, copies, params = plan["memory"]["states"], copies_bytes(plan, CONFIG_TENSOR), 1e9 * config.billion
    # The paper keeps the 16-bit input of each block as a checkpoint. P_a divides these inputs by M. P_a+cpu puts the
    # inputs on the host.
    inputs = 2 * CONFIG_BATCH * TOKENS * hidden * layers
    formula = formula_bytes(params, config.stage, CONFIG_TENSOR, RANKS)
    return {"name": config.name, "stage": config.stage, "partition_activations": config.kept != "whole",
            "cpu_checkpointing": config.kept == "host", "tensor": CONFIG_TENSOR, "ranks": RANKS, "batch": CONFIG_BATCH,
            "layers": layers, "hidden": hidden, "heads": heads, "params": plan["params"], "paper_params": params,
            "states": states, "paper_states": formula, "deviation_percent": percent(states, formula), "copies": copies,
            "checkpoint": plan["memory"]["checkpoint"],
            "host_checkpoint": plan["memory"]["spaces"]["host"]["checkpoint"],
            "paper_checkpoint": {"whole": inputs, "pieces": inputs / CONFIG_TENSOR, "host": 0}[config.kept],
            "total": plan["memory"]["total"],
            "reason": f"{percent(plan['params'], params):+.2f} % as the paper's {config.billion} billion parameters are "
                      f"{plan['params'] / 1e9:.2f}, {100 * copies / formula:+.2f} % for copies"}


def rows(zr):
    plans = [zr.ask("plan", system_keys(run, False), run.gpus, *CLUSTER) for run in APPENDIX]
    largest = [zr.ask("plan", config_keys(c, CONFIG_BATCH), CONFIG_GPUS, *CLUSTER) for c in CONFIGS]
    # the shapes of the appendix's runs MaxModel(C1) to MaxModel(C5), which the presets zero-c1 to zero-c5 have
    shapes = {run.table[9:11]: (run.layers, run.hidden, run.heads) for run in APPENDIX if run.table.startswith("Max")}
    return {"runs": [run_row(run, plan.result()) for run, plan in zip(APPENDIX, plans)],
            "presets": [config_row(c, plan.result(), shapes[c.name]) for c, plan in zip(CONFIGS, largest)]}


def runs_text(made):
    out = [f"The {len(made)} runs of the appendix of ZeRO's artifact (SC20): model states of one rank",
           "in GB (1e9 bytes), Adam, fp16, layout paper; N data-parallel ranks x M that",
           f"share each layer; B samples a micro-batch; vocabulary {VOCABULARY}, padded to M",
           "zr: planned; paper: its formula; %: zr against paper, each tensor counted once;",
           "copies: what is added, as each of the M ranks has norms, biases of rows and",
           "positions whole: zr = paper x (1 + % + copies)", "",
           f"{'':14} stage GPUs   N   M {'shape':>13}  B {'zr':>7}{'paper':>8}{'%':>7}{'copies':>7}"]
    figure = None
    for r in made:
        out += [] if r["figure"] == figure else [r["figure"]]
        figure = r["figure"]
        shape = f"{r['layers']}x{r['hidden']}x{r['heads']}"
        out.append(f"{r['label']:5} {r['system']:8} {r['stage']:5} {r['gpus']:4} {r['ranks']:3} {r['tensor']:3} "
                   f"{shape:>13} {r['batch']:2} {r['states'] / 1e9:7.2f}{r['formula'] / 1e9:8.2f}"
                   f"{shown(r['deviation_percent']):>7}{shown(r['copies_percent']):>7}")
    return out


def text(made):
    out = runs_text(made["runs"])
    out += ["", f"ZeRO-R's C1 to C5 at the paper's largest models: N = {RANKS}, M = {CONFIG_TENSOR}, "
                f"B = {CONFIG_BATCH} x {TOKENS}",
            "tokens, fp16, layout paper, recompute unit; GB (1e9 bytes) of one rank",
            "P_a: partition_activations; cpu: cpu_checkpointing, they are then on the host", "",
            f"{'model states':>46}{'checkpoints':>25}",
            f"   {'stage':9}{'shape':>12}{'zr':>7}{'paper':>8}{'%':>7}{'zr':>9}{'paper':>8}{'host':>8}{'total':>8}"]
    for r in made["presets"]:
        kind = f"{r['stage']}{' P_a' * r['partition_activations']}{'+cpu' * r['cpu_checkpointing']}"
        shape = f"{r['layers']}x{r['hidden']}x{r['heads']}"
        out.append(f"{r['name']} {kind:9}{shape:>12}{r['states'] / 1e9:7.2f}{r['paper_states'] / 1e9:8.2f}"
                   f"{r['deviation_percent']:+7.2f}{r['checkpoint'] / 1e9:9.2f}{r['paper_checkpoint'] / 1e9:8.2f}"
                   f"{r['host_checkpoint'] / 1e9:8.2f}{r['total'] / 1e9:8.2f}")
    out += ["", "total: with a block's gradient and activations, and staging buffers", "Why zr is above the paper:"]
    return "\n".join(out + [f"{r['name']} {r['reason']}" for r in made["presets"]])
