#TEST timeout=120
# Published speed of runs on A100 and H100 beside `zr simulate`: medians of each kind of run, and nine of ten of them.
. tests/command.inc
SOURCE=${ZR_SOURCE:-$OLDPWD}
command -v python3 >/dev/null || { echo 'ok 1 # SKIP no python3'; exit 0; }
published() { python3 "$SOURCE/bench/published.py" --zr "$ZR" "$@"; }
rows() { # FILE OPTION...
    file=$1
    shift
    published --json "$@" >"$file"
}

cat >check.py <<'END_CHECK'
import json, statistics, sys
KINDS = {("a100", "one host"): 36, ("a100", "many hosts"): 10, ("h100", "one host"): 13, ("h100", "many hosts"): 9}
rows = json.load(open(sys.argv[2]))
kinds = {kind: [row for row in rows if tuple(row["kind"]) == kind] for kind in KINDS}
ratios = lambda some: [row["ratio"] for row in some]
median = lambda some: abs(statistics.median(ratios(some)) - 1)

def complete():
    return len(rows) == 68 and all(len(kinds[kind]) == n for kind, n in KINDS.items())

def half():
    """No more than half of a kind was fitted, rounded up."""
    return all(2 * sum(row["fitted"] for row in some) <= len(some) + 1 for some in kinds.values())

def medians():
    print("#", [round(median(some), 3) for some in kinds.values()])
    return all(median(some) <= 0.1 for some in kinds.values())

def held_out():
    return all(median([row for row in some if not row["fitted"]]) <= 0.1 for some in kinds.values())

def nine_of_ten():
    within = [sum(abs(ratio - 1) <= 0.3 for ratio in ratios(some)) / len(some) for some in kinds.values()]
    print("#", within)
    return min(within) >= 0.9

def far():
    """Of each kind the median is off by more."""
    return all(median(some) > 0.1 for some in kinds.values())

def same():
    other = json.load(open(sys.argv[3]))
    return all(abs(a["ratio"] / b["ratio"] - 1) < 1e-9 for a, b in zip(rows, other))

sys.exit(not globals()[sys.argv[1]]())
END_CHECK
is() { python3 check.py "$@"; }

check "with zr's plans" rows zr.json
check "... all runs" is complete zr.json
check "... half of them fitted" is half zr.json
check "... medians within 10 %" is medians zr.json
check "... of those held out, too" is held_out zr.json
check "... nine of ten within 30 %" is nine_of_ten zr.json
check "with plans as those runs had" rows fsdp.json --plan fsdp
check "... medians within 10 %" is medians fsdp.json
check "... of those held out, too" is held_out fsdp.json
check "... nine of ten within 30 %" is nine_of_ten fsdp.json
volta="product_share=0.8 product_half_size=32 attention_share=0.64"
for generation in ampere hopper; do for each in $volta; do set -- "$@" "$generation.$each"; done; done
check "with the constants of V100s" rows volta.json "$@"
check "... not" is far volta.json

# The constants that docs/simulate.md names are those of the clusters.
documented() {
    set --
    for generation in ampere hopper; do
        line=$(grep "^| $generation |" "$SOURCE/docs/simulate.md") || return 1
        for each in product_share:3 product_half_size:4 attention_share:5 memory_share:6 link_share:7 network_sec:9; do
            value=$(echo "$line" | cut -d'|' -f"${each#*:}" | tr -d ' *')
            set -- "$@" "$generation.${each%:*}=$value"
        done
    done
    rows documented.json "$@" && is same zr.json documented.json
}
check "constants as documented" documented
check "residuals as a table" prints '^h100, many hosts, held out: median' published
check "an unknown constant" fails 2 'GENERATION.KEY=VALUE' published hopper.product=1
echo "1..$n"
