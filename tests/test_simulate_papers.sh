#TEST timeout=60
# `zr simulate --paper`: what the ZeRO papers measured beside what is simulated. Medians, quotients and orders.
set -u
n=0
result() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi; }
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
command -v python3 >/dev/null || { echo 'ok 1 # SKIP no python3'; exit 0; }
"$ZR" simulate --paper --json >"$tmp/papers.json"
result $? 'a JSON document'
"$ZR" simulate --paper >"$tmp/papers.txt"
result $? 'a table'

cat >"$tmp/check.py" <<'END'
import json, statistics, sys
rows = json.load(open(sys.argv[1]))
runs = [r for r in rows if r["what"] != "ratio"]
zr = {(r["table"], r["row"]): r["zr"] for r in runs}
off = lambda r: abs(r["zr"] / r["paper"] - 1)
figure = lambda name: [r for r in runs if r["table"] == name]

def shares():
    """Constants are fitted on at most a third of the rows with a printed number."""
    printed = [r for r in runs if r["paper"] and (r["counts"] or r["fitted"])]
    fitted = [r for r in printed if r["fitted"]]
    return 0 < 3 * len(fitted) <= len(printed)

def deviations():
    """What is reached: the median of rows that were not fitted below 14 %, nine of ten within 25 %."""
    others = [off(r) for r in runs if r["counts"]]
    return (len(others) >= 10 and statistics.median(others) < 0.14
            and sum(d <= 0.25 for d in others) >= 0.9 * len(others))

def quotients():
    all = [r for r in rows if r["what"] == "ratio"]
    return len(all) == 6 and all and max(map(off, all)) <= 0.25

def orders():
    """Who wins by more than 5 % in a table's unit, wins here; but for one that is known to fall short."""
    known = [("5", "40B ZeRO-OS", "20B ZeRO-OS")]
    pairs = 0
    for table in "5678":
        printed = [r for r in figure(table) if r["paper"] and r["mark"] != "shape not printed"]
        for a in printed:
            for b in printed:
                if a["paper"] > 1.05 * b["paper"]:
                    pairs += 1
                    if a["zr"] <= b["zr"] and (table, a["row"], b["row"]) not in known:
                        print("#", table, a["row"], a["zr"], "is no more than", b["row"], b["zr"])
                        return False
    return pairs > 40

def super_linear():
    """60B on 64 to 400 GPUs: more than 6.25 times the samples."""
    return zr["Fig3", "60B on 400 Pos+g Pa"] > 400 / 64 * zr["Fig3", "60B on 64 Pos+g Pa"]

def configurations():
    c = {k: zr["Fig8", k] for k in ("C1 60B Pos", "C2 60B Pos Pa", "C3 60B Pos+g", "C4 60B Pos+g Pa", "C5 60B Pos+g Pa+cpu")}
    return sorted(c, key=c.get) == ["C1 60B Pos", "C2 60B Pos Pa", "C3 60B Pos+g", "C5 60B Pos+g Pa+cpu", "C4 60B Pos+g Pa"]

def across_nodes():
    return 4 < zr["Fig2", "40B Megatron"] < 6

check = globals()[sys.argv[2]]
sys.exit(not check())
END
for what in shares deviations quotients orders super_linear configurations across_nodes; do
    python3 "$tmp/check.py" "$tmp/papers.json" $what >"$tmp/out" 2>&1
    rc=$?
    [ $rc = 0 ] || sed 's/^/# /' "$tmp/out"
    result $rc "$what"
done
grep -q '60B ZeRO-OS.*waits of .* would give' "$tmp/papers.txt"
result $? 'what a row beyond a quarter would take'
