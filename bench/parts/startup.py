"""The time before the first step, more ranks than cores, and the demo."""
import json
import shutil

import measure

RANKS = 8


def beginning():
    """Measure the time to the end of the first step, and the start of the command alone, with bench_startup."""
    path = measure.OUT / "startup.json"
    path.write_text(json.dumps(measure.preset_config(stage=3, batch=1, seq=64, steps=6)))
    if why := no_room(RANKS):
        return measure.without("start-up", why, "<= 2")
    return measure.adopt_program(measure.OUT / "bench_startup", [path, "--ranks", RANKS])


def no_room(ranks):
    """Return why this number of ranks cannot run, or None if it can."""
    plan = measure.run_json([measure.ZR, "plan", measure.OUT / "startup.json", "--json", "--ranks", ranks], 60)
    needed, free = plan["memory"]["total"] * ranks, measure.info()["memory_available"]
    if needed < free:
        return None
    return measure.Missing(f"{ranks} ranks want {needed / 1e9:.0f} GB, {free / 1e9:.0f} GB are free")


def crowded(options):
    """Measure two and four times as many thread ranks as cores, with the same global batch."""
    cores, wanted = measure.CORES, ">= 0.7"
    rows, systems = 4 * cores, {}
    for ranks in (cores, 2 * cores, 4 * cores):
        systems[f"{ranks} ranks"] = lambda ranks=ranks: measure.zr_steps(
            ranks, stage=3, batch=rows // ranks, seq=64, steps=3 if options.quick else 6)
    if why := no_room(4 * cores):
        return measure.without(f"{4 * cores} ranks on {cores} cores", why, wanted)
    turns = measure.Turns(1 if options.quick else 2, systems)
    for times in (2, 4):
        turns.speed(f"GPT-2 124M, stage 3, T 64: {times * cores} ranks / {cores} ranks on {cores} cores",
                    f"{times * cores} ranks", f"{cores} ranks", wanted)
    return None


def demo():
    """Run scripts/demo on the Bible, with zr already built."""
    what, wanted = "scripts/demo", "<= 240"
    if not shutil.which("bible"):
        return measure.without(what, measure.Missing("no command bible; scripts/deps --demo installs it"), wanted)
    ended = measure.run([measure.ROOT / "scripts/demo"], 600, {"DEMO_DIR": None})
    return measure.result(what, round(ended.wall_sec), wanted, "s")


def main():
    options = measure.options()
    beginning()
    crowded(options)
    if not options.quick:
        demo()


main()
