#TEST build=tests/zr_stand_in,tests/bench_gpu_stand_in timeout=180
# Check what bench/gpu does, not how fast: without a GPU, and on the stand-in of tests/cuda with tiny models.
. tests/support/command.inc
ZR_SOURCE=${ZR_SOURCE:-$(dirname "$(dirname "$ZR")")}
tests=$(dirname "$ZR")/tests

if ! command -v python3 >/dev/null; then
    skip "bench/gpu" "no python3"
    echo "1..$n"
    exit
fi
bench() { "$ZR_SOURCE/bench/gpu" --no-build --out gpu.json "$@"; }
# Stand-ins for NVIDIA's tools: one reports 400 MiB more during a run, one reports no errors in any program, and one runs
# a program and then tells of two of the eight kernels.
mkdir bin
cat >bin/nvidia-smi <<'END'
#!/bin/sh
case "$*" in *-lms*) while echo 900; do sleep 0.3; done ;; *) echo 500 ;; esac
END
cat >bin/compute-sanitizer <<'END'
#!/bin/sh
tool=$2
shift 2
"$@" || exit
[ "$tool" = racecheck ] && echo "========= RACECHECK SUMMARY: 1 hazard displayed (${RACES:-0} errors, 1 warning)" ||
    echo "========= ERROR SUMMARY: 0 errors"
END
cat >bin/ncu <<'END'
#!/bin/sh
if [ "$1" = --import ]; then
    echo '"ID","Kernel Name","launch__registers_per_thread","gpu__time_duration.sum"'
    echo '"","","register/thread","us"'
    echo '"0","forward(zr__attention)","128","1,234.50"'
    echo '"1","void norm_rows<float, 1>(norm<float>)","32","7"'
    exit
fi
while [ "$1" != "$ZR" ]; do shift; done
exec "$@"
END
printf '#!/bin/sh\necho "1..2\nok 1 - one\nok 2 - two # SKIP"\n' >bin/gpu_test_device_shards
printf '#!/bin/sh\necho "1..2\nok 1 - one\nnot ok 2 - two"\nexit 1\n' >bin/gpu_test_engine
chmod +x bin/*
PATH=$DIR/bin:$PATH
export PATH

check "a part that is none" code 2 bench nonsense
check "no GPU" code 69 env ZR="$ZR" CUDA_VISIBLE_DEVICES= "$ZR_SOURCE/bench/gpu" --no-build
check "... is one line" test "$(wc -l <err)" = 1
check "... that says why" grep -q '^bench/gpu: no GPU: .' err
check "... and what would be measured" grep -q '^    torch  *[0-9]* s  zr / PyTorch' out
check "the limits of the calls" "$ZR_SOURCE/bench/gpu" --list
# The sum of the limits of a call's parts, and of its start and end, is the limit of the call.
limits() {
    awk '/^[a-z]+: / { call = $1; all[call] = $2; sum[call] = $6 + $10; if (call != "otherwise:") total += $2 }
         /^    / { sum[call] += $2 }
         END { for (c in all) if (sum[c] != all[c]) bad = 1; exit !(all["first:"] <= 300 && all["second:"] <= 300 &&
               all["third:"] <= 120 && total > 600 && total <= 720 && !bad) }' out || { cat out >&2; return 1; }
}
check "... are 300, 300 and 120 s at most" limits

ZR=$tests/zr_stand_in BENCH_GPU=$tests/bench_gpu_stand_in GPU_TESTS=$DIR/bin/gpu_test_device_* XDG_CACHE_HOME=$DIR/cache
export ZR BENCH_GPU GPU_TESTS XDG_CACHE_HOME GPU_BROKEN=$DIR/broken.json
check "no time" bench --tiny --limit 2 golden largest
check "... is said of each part" test "$(grep -c '^skipped: .*the part .* s are left' out)" = 2
check "all but PyTorch and Nsight" bench --tiny tests sanitizers products attention bandwidth log training memory idle ranks golden largest
cp out table
row() { grep -q "$1" table || { grep "$2" table >&2; return 1; }; }
check "... tests are counted" row '^all tests  *1 passed .* ok .* 1 skipped' tests
check "... races as well" row '^racecheck: device_shards  *0 errors .* ok' racecheck
check "... the share of the peak" row '^small bf16, B 4, T 16: MFU  *[0-9]' MFU
check "... and of the rate of its products" row "share of its products.* rate  *[0-9]" products
check "... where the time goes" row 'where the time goes .*attention' where
check "... memory beside the plan" row '^big bf16, B 2: GPU memory beside the plan  *0.41[0-9] GB .* ok' beside
check "... the same bits" row 'of the stages, to the bit  *the same .* ok' bit
check "... of a pipeline" row 'of one rank, to the bit  *the same .* ok' bit
check "... the processor's losses" test "$(grep -c 'apart from the processor .* ok ' table)" = 4
check "... attention beside the plain one" test "$(grep -c 'apart from the plain kernel .* ok ' table)" = 10
check "... with few heads of keys" row '^attention bf16, D 32, T 32, 1 KV heads  *[0-9]' KV
check "... with documents" row '^attention bf16, D 16, T 32, documents of 10  *[0-9]' documents
check "... the head at a padded vocabulary" row '^bf16, head, width 16, V 97: .* / padded  *[0-9]' padded
check "... the log of cuBLASLt" row "products in cuBLASLt's log of one step  *[1-9]" cuBLASLt
check "... idle time" row 'idle share  *[01]' idle
check "... the largest model learns" row '^3 layers, .*: the loss falls .* ok' falls
check "... and nothing is left out" grep -q ' 0 missed, 0 failed, 0 skipped$' table
check "... a document of the same rows" python3 - <<'END'
import json
told = json.load(open("gpu.json"))
parts = [row["part"] for row in told["rows"]]
wanted = "tests sanitizers products attention bandwidth log training memory idle ranks golden largest"
assert sorted(set(parts)) == sorted(wanted.split()), parts
assert told["details"]["timings"]["small bf16"]["kinds"] and len(told["details"]["kernels"]) > 40
END
GPU_TESTS=$DIR/bin/gpu_test_*
check "failures" code 1 env RACES=2 "$ZR_SOURCE/bench/gpu" --no-build --out gpu.json --tiny tests profile sanitizers
check "... of a test are named" grep -q '^MISSED: tests: engine; .*not ok 2 - two' out
check "... races as well" grep -q '^MISSED: sanitizers: racecheck' out
check "Nsight Compute: a kernel's time" grep -q '^attention (forward)  *1234 us .*128 registers' out
check "... of a template" grep -q '^layernorm (norm_rows)  *7 us ' out
check "... and what it did not see" test "$(grep -c '^FAILED: profile: .*saw no second launch' out)" = 6
echo "1..$n"
