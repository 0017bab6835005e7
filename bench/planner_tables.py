"""What bench/planner.py and bench/planner_steps.py share: their arguments, the numbers of a row, and tables."""
import argparse
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]


def number(row, key, otherwise=0):
    return int(float(row[key])) if row[key] else otherwise


def arguments(text, rows):
    """Return a parser for a program with this description, whose rows are by default in the file `rows` of facts."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    shared = pathlib.Path(os.environ.get("ZR_SHARED", ROOT / "../shared"))
    parser.add_argument("--zr", default=str(ROOT / "build/zr"))
    parser.add_argument("--rows", default=str(shared / "facts" / rows))
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("-v", dest="verbose", action="store_true")
    return parser


def print_table(head, lines, markdown, signed=()):
    """Print lines of cells below a head. Real numbers are shares, those in the columns `signed` with a sign."""
    texts = [[f"{100 * cell:{'+' if i in signed else ''}.1f} %" if isinstance(cell, float) else str(cell)
              for i, cell in enumerate(line)] for line in lines]
    if markdown:
        print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
        for text in texts:
            print("| " + " | ".join(text) + " |")
        return
    widths = [max(len(line[i]) for line in [head] + texts) for i in range(len(head))]
    for line in [head] + texts:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
