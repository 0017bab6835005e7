#TEST alone=1 timeout=120 mpi=1 long=more
# Check `zr info --bench`: one document with possible rates, remembered for `zr plan` and `zr train`, and notes instead
# of errors where they cannot be remembered. No speed is tested, only relations between rates. A long run measures all
# models, without --quick.
. tests/support/command.inc

quick=--quick
[ -z "${ZR_LONG-}" ] || quick=

XDG_CACHE_HOME=$DIR/cache
export XDG_CACHE_HOME
small="--preset gpt2-124m --batch 1 --seq 16"
says() { # PATTERN COMMAND...: on stderr
    pattern=$1
    shift
    "$@" 2>message >said && grep -q -- "$pattern" message || { cat message >&2; return 1; }
}
# Print the first number of a JSON key in a file.
number() { tr ',{}' '\n\n\n' <"$2" | sed -n "s/^ *\"$1\": *\([-0-9.e+]*\)\$/\1/p" | head -n 1; }
plan() { "$ZR" plan --preset gpt2-124m --ranks 2 "$@"; }

check "before: nothing is measured" sh -c "$ZR info | grep -q '^measured *nothing yet'"
check "... and a plan says what to do" sh -c "$ZR plan --preset gpt2-124m --ranks 2 --quiet | tr '\n' ' ' |
    grep -q 'Run .zr info --bench. once'"
check "the memory of one rank is not known either" sh -c "$ZR plan --preset gpt2-124m --quiet | tr '\n' ' ' |
    grep -q 'memory is not known. Run .zr info --bench. once'"
check "no step is simulated either" fails 66 'run .zr info --bench.' "$ZR" simulate --preset gpt2-124m --cluster this \
    --ranks 2 --batch 1 --seq 64
check "no time without the link" sh -c "$ZR plan --preset gpt2-124m --ranks 2 --quiet --json --advice |
    grep -q '\"time\": {\"step_sec\": null'"

check "it measures" "$ZR" info --bench $quick --json --quiet $small
cp out bench.json
check "... and says nothing of it" test ! -s err
if command -v python3 >/dev/null; then
    check "one whole document" python3 - bench.json <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
top = next(l for l in d["levels"] if l["level"] == d["level"])
assert d["threads"] >= 1 and len(d["levels"]) >= 1
for l in d["levels"]:
    assert l["fma_f32_flops"] > 0 and l["fma_f32_all_flops"] > 0, l
# A library may be faster than zr's own loops, by instructions that they do not use. Then its rate is the peak, and the
# document says so.
def reached(dtype):
    return [s["flops_per_sec"] for s in d["shapes"] if s["dtype"] == dtype] + [d[f"matmul_{dtype}_flops"] or 0]
for dtype, loop in (("f32", "fma_f32_all_flops"), ("bf16", "dot_bf16_all_flops")):
    peak = d["peak"][dtype]
    if dtype == "bf16" and not d["matmul_bf16_flops"]:
        assert peak == {"flops": None, "of": None}, peak
        continue
    best = max(reached(dtype))
    assert 0 < best <= peak["flops"] == max(best, top[loop] or 0), peak
    assert peak["of"] == ("library" if best > (top[loop] or 0) else "registers"), peak
for key in ("triad_bytes_sec", "triad_thread_bytes_sec", "link_bytes_sec", "link_alone_bytes_sec"):
    assert d[key] > 0, key
assert {s["what"] for s in d["shapes"]} >= {"h.*.mlp.c_fc " + p for p in ("forward", "dx", "dw")}
f32 = [s for s in d["shapes"] if s["dtype"] == "f32"]
assert all(s["part"] == 1 for s in f32) # 16 rows
bound = sum(s["count"] * 2 * s["m"] * s["n"] * s["k"] / s["flops_per_sec"] for s in f32)
assert abs(bound / d["bound_sec"]["f32"] - 1) < 1e-6 and 0 < d["rest_flops_share"] < 1
END
else
    skip "one whole document" "no python3 to read it"
    check "registers have a rate" awk -v f="$(number fma_f32_flops bench.json)" 'BEGIN { exit !(f > 0) }'
fi

check "it is remembered" sh -c "$ZR info | grep -q '^measured *[0-9.]* GFLOP/s'"
check "... in JSON" sh -c "$ZR info --json | grep -q '\"rates\":{\"f32_flops\":[1-9]'"
check "steps of thread ranks are remembered" sh -c "ls cache/zr/steps-*.json | wc -l |
    awk -v n=\$(grep -c '\"transport\":\"threads\"' bench.json) '{ exit !(\$1 == n && n >= 2) }'"
# simulated WORDS...: check that a step of two ranks takes time, that it exchanges data, and that both ranks' samples
# count.
simulated() {
    "$ZR" simulate --preset gpt2-124m --cluster this --ranks 2 --batch 1 --seq 64 --quiet --json "$@" >this.json &&
        awk -v s="$(number step_sec this.json)" -v e="$(number exposed_sec this.json)" \
            -v n="$(number samples_per_sec this.json)" \
            'BEGIN { exit !(s > 0 && e > 0 && e < s && n * s > 1.99 && n * s < 2.01) }'
}
check "the simulator prices by them" simulated
check "... but no launch that was not measured" fails 66 'measured of 2 ranks of mpi on 2 hosts' "$ZR" simulate \
    --preset gpt2-124m --cluster this --ranks 2 --batch 1 --parallel.ranks_per_host=1
check "--transport is for this machine" fails 2 'cluster this' "$ZR" simulate --preset gpt2-124m --cluster dgx1v \
    --ranks 2 --batch 1 --transport mpi
plan --quiet --json --advice >timed.json
check "a plan of two ranks now has times" awk -v s="$(number step_sec timed.json)" -v c="$(number comm_sec timed.json)" \
    'BEGIN { exit !(s > 0 && c > 0) }'
check "... and says by what rates" sh -c "$ZR plan --preset gpt2-124m --ranks 2 --quiet | tr '\n' ' ' |
    grep -q 'matrix products the rates of their sizes, for the rest peak rates'"
check "the plan itself is the same" sh -c "$ZR plan --preset gpt2-124m --ranks 2 --schedule >with &&
    XDG_CACHE_HOME=$DIR/empty $ZR plan --preset gpt2-124m --ranks 2 --schedule >without && cmp with without"

cp -r cache kept
for file in cache/zr/machine-*.json; do echo '{' >"$file"; done
check "a damaged file is a note" says 'note: .*machine-' "$ZR" info
check "... and nothing is measured" sh -c "$ZR info 2>/dev/null | grep -q '^measured *nothing yet'"
check "... nor does a plan read it" sh -c "$ZR plan --preset gpt2-124m --ranks 2 --quiet | tr '\n' ' ' |
    grep -q 'memory and link are not known'"
: >plain
check "text, with no place to remember: numbers and a note" says 'note: the measurements could not be stored: ' \
    env XDG_CACHE_HOME="$DIR/plain" "$ZR" info --bench $quick $small
check "... and no share above 100 %" awk '/^ .*%/ { while (match($0, /[0-9]+ %/)) {
    n++; bad += substr($0, RSTART, RLENGTH) + 0 > 100; $0 = substr($0, RSTART + RLENGTH) } } END { exit bad || !n }' said
check "options of --bench alone" code 2 "$ZR" info --batch 2
check "... --quick too" code 2 "$ZR" info --quick
check "an unknown shape" code 2 "$ZR" info --bench --preset gpt2-125m --quiet
if [ -n "${ZR_MPIRUN-}" ]; then
    check "under a launcher info is as ever" sh -c "$ZR_MPIRUN -n 2 $ZR info | grep -c '^kernels' | grep -qx 1"
    rm -r cache && mv kept cache
    check "... and --bench is of its ranks" sh -c "$ZR_MPIRUN -n 2 $ZR info --bench $quick --json --quiet >launch.json"
    check "... one launch" sh -c "grep -c transport launch.json | grep -qx 1 &&
        grep -q '\"transport\":\"mpi\", \"ranks\":2, \"hosts\":1' launch.json"
    check "... by which the simulator prices" simulated --transport mpi
    check "ranks that differ in what they measure" code 78 $ZR_MPIRUN -n 1 "$ZR" info : -n 1 "$ZR" info --bench
else
    skip "under a launcher" "no mpirun"
fi
echo "1..$n"
