"""Pictures of the papers from simulated rows: throughput by model size, the scaling of a 60B model from 64 to 400 GPUs,
and the minutes in which BERT-Large was trained."""
import math
from html import escape

from runs import find

COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"]
DARK, GREY, GRID = "#1f2933", "#52606d", "#e4e8ed"
LEFT, TOP, WIDTH, HEIGHT = 88, 96, 690, 380


def scaling(rows, of_all):
    """Draw the scaling of the 60B model, beside linear scaling from 64 GPUs: FLOP/s of all GPUs or of each."""
    gpus = [64, 128, 256, 400]
    made = [find(rows, "Fig3", "60B", "Pos+g", n) for n in gpus]
    scale = [n / 1e3 if of_all else 1 for n in gpus]
    lines = {"zr, Pos+g with Pa": [(r["tflops"] * s, r["fits"]) for r, s in zip(made, scale)],
             "perfect linear from 64": [(made[0]["tflops"] * s, True) for s in scale]}
    unit = "PFLOP/s of all" if of_all else "TFLOP/s of each"
    return picture(f"60B on 64 to 400 GPUs: {unit}", "PFLOP/s of all GPUs" if of_all else "TFLOP/s of a GPU", "GPUs",
                   gpus, lines, from_zero=True)


def models(rows):
    """Draw the TFLOP/s of a GPU by model size, for ZeRO and for Megatron-LM."""
    sizes = [1.5, 8, 20, 40, 60, 80, 100, 120, 140, 170]
    zero, other = ([find(rows, "Fig2", f"{size:g}B", system) for size in sizes] for system in ("Pos+g", "Megatron"))
    lines = {"zr, ZeRO (Pos+g)": [(r["zr"], r["fits"]) for r in zero],
             "zr, Megatron-LM": [(r["zr"], r["fits"]) for r in other],
             "SC20, ZeRO: 38 for 8B to 100B": [(38 if 8 <= size <= 100 else None, True) for size in sizes],
             "SC20, Megatron-LM: 5 at 40B": [(r["paper"], True) for r in other]}
    return picture("Up to 400 GPUs: TFLOP/s of each over the size of a model", "TFLOP/s of a GPU",
                   "billion parameters (SC20, figure 2)", sizes, lines, from_zero=True)


def record(rows):
    """Draw the minutes of BERT-Large's training by the number of GPUs, printed and simulated, for both systems."""
    gpus, lines = [16, 64, 256, 1024, 1472], {}
    for key, words in (("zr", ("zr, DeepSpeed", "zr, NVIDIA")), ("paper", ("DeepSpeed, May 2020", "NVIDIA, 2019"))):
        for system, name in zip(("DeepSpeed", "NVIDIA"), words):
            made = {r["gpus"]: r for r in rows if r["what"] == "minutes" and r["system"] == system}
            lines[name] = [(made[n][key], key == "paper" or made[n]["fits"]) if n in made else (None, True)
                           for n in gpus]
    return picture("Pre-training of BERT-Large on V100: minutes", "minutes", "GPUs", gpus, lines, from_zero=False)


PLOTS = {"models": models, "60b-total": lambda rows: scaling(rows, True), "60b-each": lambda rows: scaling(rows, False),
         "bert": record}


# ---- one picture ----------------------------------------------------------------------------------


def ticks(low, high, log):
    """Return the places of an axis's numbers: 1, 2 and 5 of each power of ten, or five to ten even steps from 0."""
    if log:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        return [t for p in powers for t in (10**p, 2 * 10**p, 5 * 10**p) if low <= t <= high]
    step = next(s for p in range(-3, 6) for s in (10**p, 2 * 10**p, 5 * 10**p) if high / s <= 8)
    return [k * step for k in range(int(high / step) + 1)]


def picture(title, y_name, x_name, xs, lines, from_zero):
    """Return an SVG of lines over the same x values, which have a logarithmic axis if they reach over a factor of 8. A
    value is (y or None, whether zr's plan fits the GPU). With from_zero the y axis is linear from 0, otherwise
    logarithmic."""
    ys = [y for line in lines.values() for y, _ in line if y is not None]
    low, high = (0, max(ys) * 1.05) if from_zero else (min(ys) / 1.25, max(ys) * 1.25)
    log_x = xs[-1] / xs[0] >= 8
    room = (xs[-1] / xs[0]) ** 0.04 if log_x else 0.04 * (xs[-1] - xs[0])
    x0, x1 = (xs[0] / room, xs[-1] * room) if log_x else (xs[0] - room, xs[-1] + room)

    def part(value, start, end, log):
        return math.log(value / start) / math.log(end / start) if log else (value - start) / (end - start)

    def at_x(x):
        return round(LEFT + WIDTH * part(x, x0, x1, log_x), 2)

    def at_y(y):
        return round(TOP + HEIGHT * (1 - part(y, low, high, not from_zero)), 2)

    out = []

    def text(x, y, words, size=12, anchor="start", more=""):
        out.append(f'<text x="{x}" y="{y}" font-size="{size}" fill="{DARK}" text-anchor="{anchor}"{more}>'
                   f"{escape(words)}</text>")

    def rule(x, y, to_x, to_y, color):
        out.append(f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="{color}"/>')

    bottom, right = TOP + HEIGHT, LEFT + WIDTH
    text(LEFT, 32, title, 17, more=' font-weight="700"')
    for i, name in enumerate(lines):
        x, y = LEFT + 345 * (i // 2), 54 + 19 * (i % 2)
        rule(x, y, x + 26, y, COLORS[i])
        text(x + 33, y + 4, name, 13)
    for tick in ticks(low, high, not from_zero):
        rule(LEFT, at_y(tick), right, at_y(tick), GRID)
        text(LEFT - 8, at_y(tick) + 4, f"{tick:g}", anchor="end")
    free = 0
    for x in xs:  # leave out a number that would overlap the one before
        rule(at_x(x), TOP, at_x(x), bottom, GRID)
        half = 3.8 * len(f"{x:g}")
        if at_x(x) - half >= free:
            text(at_x(x), bottom + 19, f"{x:g}", anchor="middle")
            free = at_x(x) + half + 6
    rule(LEFT, TOP, LEFT, bottom, GREY)
    rule(LEFT, bottom, right, bottom, GREY)
    text(22, TOP + HEIGHT // 2, y_name, 13, "middle", f' transform="rotate(-90 22 {TOP + HEIGHT // 2})"')
    text(LEFT + WIDTH // 2, bottom + 40, x_name, 13, "middle")
    for color, (name, line) in zip(COLORS, lines.items()):
        points = [(at_x(x), at_y(y), fits) for x, (y, fits) in zip(xs, line) if y is not None]
        out.append(f'<polyline points="{" ".join(f"{x},{y}" for x, y, _ in points)}" fill="none" stroke="{color}" '
                   f'stroke-width="1.8"><title>{escape(name)}</title></polyline>')
        out += [f'<circle cx="{x}" cy="{y}" r="3.4" stroke="{color}" stroke-width="1.6" '
                f'fill="{color if fits else "#ffffff"}"/>' for x, y, fits in points]
    if not all(fits for line in lines.values() for _, fits in line):
        text(LEFT, bottom + 64, "hollow: zr's plan needs more memory")
    body = "\n".join(out)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {bottom + 76}" width="800" '
            f'height="{bottom + 76}" font-family="DejaVu Sans, Verdana, Helvetica, sans-serif">\n'
            f"<title>{escape(title)}</title>\n"
            f'<rect width="800" height="{bottom + 76}" fill="#ffffff"/>\n{body}\n</svg>\n')
