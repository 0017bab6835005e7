#TEST build=tests/zr_stand_in,tests/bench_gpu_stand_in timeout=180
# Check what bench/gpu does, not how fast: without a GPU, and on the stand-in of tests/cuda with tiny models.
. tests/command.inc
ZR_SOURCE=${ZR_SOURCE:-$(dirname "$(dirname "$ZR")")}
tests=$(dirname "$ZR")/tests

if ! command -v python3 >/dev/null; then
    skip "bench/gpu" "no python3"
    echo "1..$n"
    exit
fi
bench() { "$ZR_SOURCE/bench/gpu" --no-build --out gpu.json "$@"; }
# Stand-ins for NVIDIA's tools: one reports 400 MiB more during a run, the other reports no errors in any program.
mkdir bin
cat >bin/nvidia-smi <<'END'
#!/bin/sh
case "$*" in *-lms*) while echo 900; do sleep 0.05; done ;; *) echo 500 ;; esac
END
cat >bin/compute-sanitizer <<'END'
#!/bin/sh
tool=$2
shift 2
"$@" || exit
[ "$tool" = racecheck ] && echo "========= RACECHECK SUMMARY: 1 hazard displayed (${RACES:-0} errors, 1 warning)" ||
    echo "========= ERROR SUMMARY: 0 errors"
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

ZR=$tests/zr_stand_in BENCH_GPU=$tests/bench_gpu_stand_in GPU_TESTS=$DIR/bin/gpu_test_device_* XDG_CACHE_HOME=$DIR/cache
export ZR BENCH_GPU GPU_TESTS XDG_CACHE_HOME
check "no time" bench --tiny --limit 2 golden largest
check "... is said of each part" test "$(grep -c '^skipped: .*the part .* s are left' out)" = 2
check "all but PyTorch" bench --tiny tests sanitizers kernels training memory idle ranks golden largest
cp out table
row() { grep -q "$1" table || { grep "$2" table >&2; return 1; }; }
check "... tests are counted" row '^all tests  *1 passed .* ok .* 1 skipped' tests
check "... races as well" row '^racecheck: device_shards  *0 errors .* ok' racecheck
check "... the share of the peak" row '^small bf16, B 4, T 16: MFU  *[0-9]' MFU
check "... and of the rate of its products" row "share of its products.* rate  *[0-9]" products
check "... where the time goes" row 'where the time goes .*attention' where
check "... memory beside the plan" row '^big bf16, B 2: GPU memory beside the plan  *0.41[0-9] GB .* ok' beside
check "... the same bits" row 'to the bit  *the same .* ok' bit
check "... the processor's losses" test "$(grep -c 'apart from the processor .* ok ' table)" = 4
check "... idle time" row 'idle share  *[01]' idle
check "... the largest model learns" row '^3 layers, .*: the loss falls .* ok' falls
check "... and nothing is left out" grep -q ' 0 missed, 0 failed, 0 skipped$' table
check "... a document of the same rows" python3 - <<'END'
import json
told = json.load(open("gpu.json"))
parts = [row["part"] for row in told["rows"]]
assert sorted(set(parts)) == sorted("tests sanitizers kernels training memory idle ranks golden largest".split()), parts
assert told["details"]["timings"]["small bf16"]["kinds"] and len(told["details"]["kernels"]) > 40
END
check "an error of a race" code 1 env RACES=2 "$ZR_SOURCE/bench/gpu" --no-build --out gpu.json --tiny sanitizers
check "... is told" grep -q '^MISSED: sanitizers: racecheck' out
GPU_TESTS=$DIR/bin/gpu_test_*
check "a test that fails" code 1 bench --tiny tests
check "... is named" grep -q '^MISSED: tests: engine; .*not ok 2 - two' out
# The kit is packed from the same programs, and used in an empty folder.
if command -v ldd >/dev/null && command -v strip >/dev/null && command -v xz >/dev/null; then
    printf 'int main(void) { puts("1..1\\nok 1 - here"); }\n' >small.c
    check "a program as a test" sh -c "${CC:-gcc} -include stdio.h small.c -o bin/gpu_test_device_small"
    GPU_TESTS=$DIR/bin/gpu_test_device_small
    check "a kit" bench --tiny --kit kit.tar.xz
    check "... says how to use it" grep -q '3 programs and .* unpack it and run bench/gpu there' out
    mkdir unpacked && tar xJf kit.tar.xz -C unpacked
    in_kit() { env -u ZR -u BENCH_GPU -u GPU_TESTS -u ZR_SOURCE "$@"; }
    check "... unpacked" in_kit unpacked/bench/gpu --tiny --out kit.json tests golden
    check "... runs its programs" grep -q '^all tests  *1 passed .* of 1 programs' out
    check "... with its own libraries" test -f unpacked/lib/libjansson.so.4
    check "... and packs its logs" sh -c "tar tzf kit.tar.gz | grep -q 'gpu-logs/device_small.log'"
    check "... and the table" sh -c "tar xzOf kit.tar.gz gpu-logs/table.txt | grep -q '^golden: tiny fp32: apart'"
    sed -i 's/"glibc".*/"glibc": [9, 99/; /^  *[0-9]*,$/d; /^  *[0-9]*$/d' unpacked/kit.json
    check "... for a newer system" code 1 in_kit unpacked/bench/gpu --tiny tests
    check "... says so" grep -q 'needs glibc 9.99' err
else
    skip "a kit" "no ldd, strip or xz"
fi
echo "1..$n"
