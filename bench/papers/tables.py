"""Tables 1 and 2 of the ZeRO paper (arXiv 1910.02054 v1) beside zr's plans: mixed precision and Adam, and a model of
the same number of parameters (zr.states_keys)."""
from concurrent.futures import ThreadPoolExecutor

from data import SIZES, STAGE_NAME, TABLE1, TABLE2, TABLE2_BYTES, TABLE2_RANKS
from zr import Failed, states_keys


def percent(ours, printed):
    """Return by how many percent zr's number differs from the paper's."""
    return 100 * (ours / printed - 1)


def shown(value):
    """Return a percentage as +1.23, without a sign before zeros."""
    return f"{value if abs(value) >= 0.005 else 0.0:+.2f}"


def plan_states(zr, params, stage, tensor, ranks):
    """Return the future plan of a model's states."""
    # A machine of any size; only the states are read.
    return zr.ask("plan", states_keys(params, stage, tensor), ranks * tensor, "--cluster",
                  zr.cluster("dgx2x25", ranks * tensor))


def table1(zr):
    cells = [(params, ranks, stage, printed) for i, (_, params) in enumerate(SIZES)
             for ranks, row in TABLE1.items() for stage, printed in enumerate(row[i], 1)]
    plans = [plan_states(zr, params, stage, 1, ranks) for params, ranks, stage, _ in cells]
    rows = []
    for (params, ranks, stage, printed), plan in zip(cells, plans):
        plan = plan.result()
        states = plan["memory"]["states"]
        rows.append({"params": plan["params"], "ranks": ranks, "stage": stage, "states": states, "paper_gb": printed,
                     "deviation_percent": percent(states / 1e9, printed)})
    return {"table": 1, "rows": rows}


def text1(made):
    out = ["ZeRO, table 1: model states of one of N ranks in GB (1e9 bytes), Adam, bf16",
           "zr: planned, layout paper; paper: as printed, rounded or cut off"]
    cells = iter(made["rows"])
    for label, _ in SIZES:
        out += ["", f"{label:>6}" + "".join(f"{name:>24}" for name in STAGE_NAME[1:]),
                "     N" + 3 * f"{'zr':>9}{'paper':>7}{'%':>8}"]
        for ranks in TABLE1:
            row = [next(cells) for _ in range(3)]
            out.append(f"{ranks:6}" + "".join(f"{c['states'] / 1e9:9.6g}{c['paper_gb']:7g}"
                                              f"{shown(c['deviation_percent']):>8}" for c in row))
    return "\n".join(out)


def largest(zr, stage, tensor, near):
    """Return the largest number of parameters whose states fit TABLE2_BYTES, to two of a million. States grow with the
    parameters, up to the rounding to whole shards."""
    plan = plan_states(zr, near, stage, tensor, TABLE2_RANKS).result()
    near = plan["params"] * TABLE2_BYTES / plan["memory"]["states"]
    tried = [plan_states(zr, near * (1 + part), stage, tensor, TABLE2_RANKS) for part in (-1e-6, 1e-6)]
    fits, beyond = (plan.result() for plan in tried)
    if not fits["memory"]["states"] <= TABLE2_BYTES < beyond["memory"]["states"]:
        raise Failed(f"table 2: no largest model at stage {stage}, M = {tensor}, near {near:.4g} parameters")
    return fits["params"]


def table2(zr):
    cells = [(tensor, stage, 1e9 * printed) for tensor, row in TABLE2.items() for stage, printed in enumerate(row)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda cell: largest(zr, cell[1], cell[0], cell[2]), cells))
    rows = [{"tensor": tensor, "ranks": TABLE2_RANKS, "stage": stage, "paper_params": round(printed), "params": params,
             "deviation_percent": percent(params, printed)} for (tensor, stage, printed), params in zip(cells, found)]
    return {"table": 2, "memory": TABLE2_BYTES, "rows": rows}


def text2(made):
    out = [f"ZeRO, table 2: the largest model whose states fit {TABLE2_BYTES // 10**9} GB (1e9 bytes) a rank,",
           f"in billions of parameters; M tensor-parallel parts of {TABLE2_RANKS} data-parallel ranks",
           "zr: planned, layout paper, bf16, Adam; paper: as printed, above M = 1 its",
           "rounded first row times M; %: zr against paper"]
    degrees = list(TABLE2)
    for first in range(0, len(degrees), 2):  # two fit side by side in 80 columns
        abreast = degrees[first:first + 2]
        out += ["", " " * 10 + "".join(f"{f'M = {tensor}':>27}" for tensor in abreast),
                " " * 10 + f"{'zr':>11}{'paper':>9}{'%':>7}" * len(abreast)]
        for stage, name in enumerate(STAGE_NAME):
            cells = [r for tensor in abreast for r in made["rows"] if (r["tensor"], r["stage"]) == (tensor, stage)]
            out.append(f"{name:10}" + "".join(f"{c['params'] / 1e9:11.5g}{c['paper_params'] / 1e9:9g}"
                                              f"{shown(c['deviation_percent']):>7}" for c in cells))
    return "\n".join(out)
