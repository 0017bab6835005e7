#TEST timeout=120
# Compare published speeds of runs on A100 and H100 with `zr simulate`: the median and the 90 % range of each kind of
# run; Llama models.
. tests/support/command.inc
SOURCE=${ZR_SOURCE:-$OLDPWD}
command -v python3 >/dev/null || { echo 'ok 1 # SKIP no python3'; exit 0; }
published() { python3 "$SOURCE/bench/published.py" --zr "$ZR" "$@"; }
rows() { # FILE OPTION...
    file=$1
    shift
    published --json "$@" >"$file"
}

cat >check.py <<'END_CHECK'
import collections, json, statistics, sys
FSDP = {("a100", "one host"): 36, ("a100", "many hosts"): 10, ("h100", "one host"): 13, ("h100", "many hosts"): 9}
KINDS = FSDP | {("a100", "llm.c"): 2, ("h100", "llm.c"): 1}
LLAMA = {("a100", "Llama, titan"): 6, ("a100", "Llama, ibm"): 4, ("h100", "Llama, titan"): 2,
         ("h100", "Llama, compile"): 2, ("h100", "Llama, ibm"): 2}
rows = json.load(open(sys.argv[2]))
kinds = {kind: [row for row in rows if tuple(row["kind"]) == kind] for kind in KINDS}
ratios = lambda some: [row["ratio"] for row in some]
median = lambda some: abs(statistics.median(ratios(some)) - 1)

def complete():
    counted = all(len(kinds[kind]) == n for kind, n in KINDS.items())
    return counted and len([row for row in rows if not row["model"]]) == 71

def llama():
    """Runs of Llama models, none of which was fitted: all within 25 %, half of them within 10 %."""
    some = [row for row in rows if row["model"]]
    print("#", [round(ratio - 1, 3) for ratio in ratios(some)])
    counted = collections.Counter(tuple(row["kind"]) for row in some) == LLAMA
    far = sorted(abs(ratio - 1) for ratio in ratios(some))
    return counted and not any(row["fitted"] for row in some) and far[-1] <= 0.25 and statistics.median(far) <= 0.1

def compiled():
    """zr gains from fused ops what torch.compile gains, within 5 %."""
    def speeds(system, member):
        return [float(row[member]) for row in rows if row["system"] == system and row["gpu"] == "h100_96gb"]
    gain = lambda member: [a / b for a, b in zip(speeds("compile", member), speeds("titan", member))]
    print("#", gain("zr"), gain("tokens_per_sec_gpu"))
    return all(abs(a / b - 1) <= 0.05 for a, b in zip(gain("zr"), gain("tokens_per_sec_gpu")))

def half():
    """At most half of a kind of FSDP runs was fitted, rounded up."""
    return all(2 * sum(row["fitted"] for row in kinds[kind]) <= len(kinds[kind]) + 1 for kind in FSDP)

def medians():
    print("#", [round(median(some), 3) for some in kinds.values()])
    return all(median(some) <= 0.1 for some in kinds.values())

def held_out():
    return all(median([row for row in kinds[kind] if not row["fitted"]]) <= 0.1 for kind in FSDP)

def fused():
    """The speed of each run of llm.c is within 10 %."""
    print("#", [row["ratio"] for row in rows if row["system"] == "llm.c"])
    return all(abs(row["ratio"] - 1) <= 0.1 for row in rows if row["system"] == "llm.c")

def nine_of_ten():
    within = [sum(abs(ratio - 1) <= 0.3 for ratio in ratios(some)) / len(some) for some in kinds.values()]
    print("#", within)
    return min(within) >= 0.9

def far():
    """The median of each kind is off by more than 10 %."""
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
check "... llm.c's runs within 10 %" is fused zr.json
check "... Llama models" is llama zr.json
check "... and torch.compile" is compiled zr.json
check "with plans as FSDP's runs had" rows fsdp.json --plan fsdp
check "... medians within 10 %" is medians fsdp.json
check "... of those held out, too" is held_out fsdp.json
check "... nine of ten within 30 %" is nine_of_ten fsdp.json
for each in product_share=0.64 attention_share=0.36; do set -- "$@" "ampere.$each"; done
for each in product_share=0.78 attention_share=0.54; do set -- "$@" "hopper.$each"; done
check "... Llama models" is llama fsdp.json
check "with the constants of the other generation" rows other.json "$@"
check "... medians are off by more than 10 %" is far other.json

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
check "residuals as a table" prints '^h100, Llama, titan, held out: median' published
check "... of GPT shapes" prints '^h100, many hosts, held out: median' published
check "an unknown constant" fails 2 'GENERATION.KEY=VALUE' published hopper.product=1
echo "1..$n"
