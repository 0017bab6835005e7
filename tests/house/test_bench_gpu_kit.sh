#TEST build=tests/zr_stand_in timeout=120
# Check that bench/gpu --kit packs what bench/gpu needs: it is unpacked in an empty folder and used there, on the stand-in.
. tests/support/command.inc
ZR_SOURCE=${ZR_SOURCE:-$(dirname "$(dirname "$ZR")")}
tests=$(dirname "$ZR")/tests

mkdir bin
printf '#!/bin/sh\n' >bin/compute-sanitizer
printf '#!/bin/sh\necho 500\n' >bin/nvidia-smi
chmod +x bin/*
PATH=$DIR/bin:$PATH ZR=$tests/zr_stand_in XDG_CACHE_HOME=$DIR/cache GPU_BROKEN=$DIR/broken.json
export PATH ZR XDG_CACHE_HOME GPU_BROKEN
if command -v python3 >/dev/null && command -v ldd >/dev/null && command -v strip >/dev/null && command -v xz >/dev/null; then
    printf 'int main(void) { puts("1..1\\nok 1 - here"); }\n' >small.c
    check "a program as a test" sh -c "${CC:-gcc} -include stdio.h small.c -o bin/gpu_test_device_small"
    GPU_TESTS=$DIR/bin/gpu_test_device_small
    export GPU_TESTS
    check "a kit" env BENCH_GPU="$GPU_TESTS" "$ZR_SOURCE/bench/gpu" --no-build --tiny --kit kit.tar.xz
    check "... says how to use it" grep -q '3 programs and .*, compute-sanitizer, 3 runs .* unpack it and run bench/gpu there' out
    mkdir unpacked && tar xJf kit.tar.xz -C unpacked
    in_kit() { env -u ZR -u BENCH_GPU -u GPU_TESTS -u ZR_SOURCE "$@"; }
    check "... unpacked" in_kit unpacked/bench/gpu --tiny --out kit.json smoke tests
    check "... runs its programs" grep -q '^all tests  *1 passed .* of 1 programs' out
    check "... with its own libraries" test -f unpacked/lib/libjansson.so.4
    check "... and with the processor's losses" test "$(grep -c ": 5 losses, apart from the processor's .* ok " out)" = 3
    check "... brings a tool" test -x unpacked/tools/compute-sanitizer/compute-sanitizer
    check "... and packs its logs" sh -c "tar tzf kit.tar.gz | grep -q 'gpu-logs/device_small.log'"
    check "... and the table" sh -c "tar xzOf kit.tar.gz gpu-logs/table.txt | grep -q '^smoke: tiny fp32: 5 losses'"
    cp "$(dirname "$tests")/zr" unpacked/build/zr
    check "... where no GPU is" code 69 in_kit env CUDA_VISIBLE_DEVICES= PATH="${PATH#*:}" unpacked/bench/gpu --tiny first
    check "... names each library" sh -c "grep '^libraries: ' out | grep -q 'libjansson.so.4 in lib, '"
    check "... and each tool" grep -q '^tools: compute-sanitizer in .*/unpacked/tools/compute-sanitizer, ' out
    sed -i 's/"glibc".*/"glibc": [9, 99/; /^  *[0-9]*,$/d; /^  *[0-9]*$/d' unpacked/kit.json
    check "... for a newer system" code 1 in_kit unpacked/bench/gpu --tiny tests
    check "... says so" grep -q 'needs glibc 9.99' err
else
    skip "a kit" "no python3, ldd, strip or xz"
fi
echo "1..$n"
