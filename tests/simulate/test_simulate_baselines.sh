#TEST timeout=60
# Compare the formulas for baselines that zr does not plan (bench/baselines.py) with the numbers of the schedules with
# which zr once planned them: bytes must be equal, and times differ by at most 0.005 %.
. tests/support/command.inc
SOURCE=${ZR_SOURCE:-$OLDPWD}
command -v python3 >/dev/null || { echo 'ok 1 # SKIP no python3'; exit 0; }
export SOURCE

cat >check.py <<'END_CHECK'
import json, os, subprocess, sys
sys.path.insert(0, os.environ["SOURCE"] + "/bench")
import baselines
recorded = json.load(open(os.environ["SOURCE"] + "/tests/simulate/simulate_baselines.json"))

def simulate(case, stage, micros=1, *keys):
    words = [os.environ["ZR"], "simulate", *case["args"], *recorded["args"], f"--stage={stage}",
             f"--gradient_accumulation_steps={micros}", *keys, "--json", "--quiet"]
    return json.loads(subprocess.run(words, check=True, capture_output=True).stdout)

def near(got, want):
    if abs(got / want - 1) > 5e-5: print("#", got, "but the schedule gave", want)
    return abs(got / want - 1) <= 5e-5

def traffic(plain, want):
    got, want = plain["traffic"], want["traffic"]
    moved = all(got[kind] == want[kind] for kind in ("reduce_scatter", "all_gather"))
    return moved and got["all_reduce"] * 4 == want["all_reduce"] * 42  # numbers for a norm: 4 then, 42 now

def fused():
    same = len(recorded["cases"]) >= 6
    for case in recorded["cases"]:
        want, ranks = case["fused"], case["ranks"]
        plain = simulate(case, 1, 1, "--collectives.reduce=all_reduce")
        late = simulate(case, 1, 2, "--gradient_reduction=step")
        same &= traffic(plain, want) and baselines.fused_bytes(plain, ranks) == want["memory_bytes"]
        sec = baselines.fused_sec(plain, late, ranks, case["units"], case["message_sec"],
                                  case["memory_bytes_sec"])
        same &= near(sec, want["step_sec"])
        same &= want["step_sec"] > plain["step_sec"]  # the formula has something to add
    return same

def in_turn():
    same, seen = True, set()
    for case in recorded["cases"]:
        for want in case["in_turn"]:
            plain = simulate(case, want["stage"], 1, "--zero_optimization.overlap_comm=false")
            same &= traffic(plain, want) and plain["memory"]["total"] == want["memory_bytes"]
            same &= near(baselines.in_turn_sec(plain, case["ranks"], case["gpus"], case["units"], case["message_sec"],
                                               want["gathers"], want["reduces"]), want["step_sec"])
            seen.add((want["stage"], want["gathers"], want["reduces"]))
    return same and len(seen) == 6

sys.exit(not {"fused": fused, "in_turn": in_turn}[sys.argv[1]]())
END_CHECK

check "one fused buffer for the gradients, reduced after the backward pass" python3 check.py fused
check "broadcasts and reductions for one owner after the other" python3 check.py in_turn
echo "1..$n"
