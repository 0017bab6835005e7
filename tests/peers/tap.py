"""TAP lines, and calls of zr, whose path is the first argument of the program."""
import subprocess
import sys

count = 0


def check(name, holds, told=""):
    global count
    count += 1
    print(f"{'ok' if holds else 'not ok'} {count} - {name}{f' ({told})' if told else ''}", flush=True)


def compare(name, find, *args):
    """Check that `find`, which returns what differs, or "" or None, finds nothing. Its RuntimeError differs, too."""
    try:
        why = find(*args)
    except RuntimeError as error:
        why = str(error)
    check(name, not why)
    if why:
        print(f"# {why}"[:2000], flush=True)


def skip(name, why):
    global count
    count += 1
    print(f"ok {count} - {name} # SKIP {why}", flush=True)


def end():
    print(f"1..{count}")


def zr(*words, before=()):
    """Return the standard output of zr; `before` is a launcher, such as mpirun with its options."""
    ended = subprocess.run([*before, sys.argv[1], *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True)
    if ended.returncode != 0:
        raise RuntimeError(f"zr {' '.join(map(str, words))}: exit {ended.returncode}: {ended.stderr.decode()}")
    return ended.stdout
