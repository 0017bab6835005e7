"""Attention as the sequence grows, T 256 ... 8192: memory must be linear, time quadratic. Draws attention.svg."""
import json
import math

import measure
from measure import result


def timed(rounds, longest):
    """Return {T: (sec, memory_bytes)}, with the shortest time of all rounds for each T. Rounds run one after the
    other."""
    best = {}
    for number in range(rounds):
        ended = measure.run([measure.OUT / "bench_attention", longest, measure.CORES], 900, {"GOMP_SPINCOUNT": "10000"})
        for text in ended.stdout.splitlines():
            told = json.loads(text)
            sec = min(told["sec"], best.get(told["T"], (math.inf,))[0])
            best[told["T"]] = (sec, told["memory_bytes"])
        measure.progress(f"round {number + 1}: " + ", ".join(f"T {t}: {sec:.3f} s" for t, (sec, _) in best.items()))
    return best


def exponent(points):
    """Return the exponent of y ~ x**exponent, by a least-squares fit of the logarithms."""
    x, y = [math.log(p) for p, _ in points], [math.log(q) for _, q in points]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)


# ---- the plot ------------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, TOP, GAP = 360, 280, 70, 60, 100
INK, CURVE, GUIDE = "#222", "#1f5fa8", "#b5651d"


class Panel:
    """One log-log plot. `power` is the exponent of the straight line that is drawn beside the points."""

    def __init__(self, left, title, points, power, label):
        self.left, self.title, self.points, self.power, self.label = left, title, points, power, label
        values = [y for _, y in points]
        self.low, self.high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        self.first, self.last = math.log2(points[0][0]) - 0.3, math.log2(points[-1][0]) + 0.3

    def x(self, t):
        return self.left + WIDTH * (math.log2(t) - self.first) / (self.last - self.first)

    def y(self, value):
        return TOP + HEIGHT * (self.high - math.log10(value)) / (self.high - self.low)

    def axes(self):
        yield f'<text x="{self.left}" y="{TOP - 12}" font-weight="bold">{self.title}</text>'
        yield (f'<rect x="{self.left}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="{INK}" '
               'stroke-width="0.8"/>')
        for t, _ in self.points:
            yield f'<text x="{self.x(t):.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{t}</text>'
        for power in range(self.low, self.high + 1):
            y = self.y(10**power)
            yield f'<line x1="{self.left}" x2="{self.left + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
            yield f'<text x="{self.left - 6}" y="{y + 4:.1f}" text-anchor="end">{self.label(10**power)}</text>'
        middle = self.left + WIDTH / 2
        yield f'<text x="{middle}" y="{TOP + HEIGHT + 38}" text-anchor="middle">T, tokens of a sequence</text>'

    def curves(self):
        last_t, last_y = self.points[-1]
        first_t = next(t for t, _ in self.points if last_y * (t / last_t)**self.power >= 10**self.low)
        start = last_y * (first_t / last_t)**self.power
        yield (f'<line x1="{self.x(first_t):.1f}" y1="{self.y(start):.1f}" x2="{self.x(last_t):.1f}" '
               f'y2="{self.y(last_y):.1f}" stroke="{GUIDE}" stroke-dasharray="5 4"/>')
        corners = " ".join(f"{self.x(t):.1f},{self.y(y):.1f}" for t, y in self.points)
        yield f'<polyline points="{corners}" fill="none" stroke="{CURVE}" stroke-width="2"/>'
        for t, y in self.points:
            yield f'<circle cx="{self.x(t):.1f}" cy="{self.y(y):.1f}" r="3.5" fill="{CURVE}"/>'

    def key(self, slope):
        """Draw the key at the lower right, where no rising curve is."""
        left, y = self.left + 150, TOP + HEIGHT - 34
        yield f'<line x1="{left}" x2="{left + 28}" y1="{y - 4}" y2="{y - 4}" stroke="{CURVE}" stroke-width="2"/>'
        yield f'<text x="{left + 34}" y="{y}">T to the power {slope:.2f}</text>'
        yield (f'<line x1="{left}" x2="{left + 28}" y1="{y + 14}" y2="{y + 14}" stroke="{GUIDE}" '
               'stroke-dasharray="5 4"/>')
        yield f'<text x="{left + 34}" y="{y + 18}">proportional to {("T", "T²")[self.power - 1]}</text>'


def seconds(value):
    return f"{value:g} s" if value >= 1 else f"{value * 1e3:g} ms"


def megabytes(value):
    return f"{value / 1e6:g} MB"


def plot(path, times, memory, slopes, processor):
    panels = [(Panel(LEFT, "Time", times, 2, seconds), slopes[0]),
              (Panel(LEFT + WIDTH + GAP, "Memory", memory, 1, megabytes), slopes[1])]
    total, height = LEFT + 2 * WIDTH + GAP + 20, TOP + HEIGHT + 50
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{height}" font-family="sans-serif" '
             f'font-size="12" fill="{INK}">', f'<rect width="{total}" height="{height}" fill="white"/>',
             f'<text x="{LEFT}" y="22" font-size="14">Causal attention, forward and backward: 12 heads of 64, one row, '
             f'fp32, {measure.CORES} threads, {processor}</text>']
    for panel, slope in panels:
        lines += [*panel.axes(), *panel.curves(), *panel.key(slope)]
    path.write_text("\n".join([*lines, "</svg>", ""]))


def main():
    options = measure.options()
    best = timed(1 if options.quick else 3, 4096 if options.quick else 8192)
    times, memory = [(t, sec) for t, (sec, _) in best.items()], [(t, size) for t, (_, size) in best.items()]
    upper = len(times) // 2
    slopes = exponent(times[upper:]), exponent(memory[upper:])
    told = measure.info()
    path = measure.OUT / "attention.svg"
    plot(path, times, memory, slopes, f"{told['processor']} ({told['kernels']})")
    span = f"T {times[upper][0]} ... {times[-1][0]}, "
    drawn = f"plot: {path.relative_to(measure.ROOT)}"
    result("time grows with T to the power of", round(slopes[0], 3), "1.7 .. 2.1", "",
           f"{span}{times[-1][1]:.3f} s at the last; {drawn}")
    result("memory grows with T to the power of", round(slopes[1], 3), "<= 1.1", "",
           f"{span}{memory[-1][1] / 1e6:.1f} MB at the last")


main()
