#TEST build=tests/zr_stand_in,tests/bench_gpu_stand_in timeout=120
# Check that bench/gpu finds kernels that compute wrong results, that fault and that hang, names them, and goes on without
# them. The faults are planted in the stand-in of tests/cuda.
. tests/support/command.inc
ZR_SOURCE=${ZR_SOURCE:-$(dirname "$(dirname "$ZR")")}
tests=$(dirname "$ZR")/tests

if ! command -v python3 >/dev/null; then
    skip "bench/gpu" "no python3"
    echo "1..$n"
    exit
fi
mkdir bin
# What NVIDIA's debugger says about a kernel that hangs, and its checker about one that faults.
cat >bin/cuda-gdb <<'END'
#!/bin/sh
sleep 300 &
echo $! >>"$DIR/left"
echo '  Kernel Parent Dev Grid Status   SMs Mask   GridDim  BlockDim Invocation'
echo '*      0      -   0    2 Active 0x00ffffff (240,1,1) (128,1,1) (anonymous namespace)::make_dq<zr__bf16, 64>(zr__attention)'
echo '#0  make_dq<zr__bf16, 64> at src/device/cuda/kernels/attention_dx.cu:120'
END
cat >bin/compute-sanitizer <<'END'
#!/bin/sh
shift 2
"$@"
echo '========= Invalid __global__ write of size 4 bytes'
echo '=========     at softmax_rows+0x120 in softmax.cu:61'
echo '========= ERROR SUMMARY: 1 error'
END
printf '#!/bin/sh\necho "not ok 1 - rows; blocking $CUDA_LAUNCH_BLOCKING"\nexit 1\n' >bin/gpu_test_device_softmax
chmod +x bin/*
PATH=$DIR/bin:$PATH ZR=$tests/zr_stand_in BENCH_GPU=$tests/bench_gpu_stand_in GPU_TESTS=$DIR/bin/gpu_test_*
XDG_CACHE_HOME=$DIR/cache GPU_BROKEN=$DIR/broken.json
export DIR PATH ZR BENCH_GPU GPU_TESTS XDG_CACHE_HOME GPU_BROKEN
bench() { # FAULT PART ...
    planted=$1
    shift
    ZR_STAND_IN_FAULT=$planted "$ZR_SOURCE/bench/gpu" --no-build --tiny --out gpu.json "$@"
}
row() { grep -q "$1" out || { cat out >&2; return 1; }; }

# A fault, in a training step.
check "a kernel that faults" code 1 bench fault:layernorm smoke training bandwidth
check "... in a training step" row '^tiny fp32: 5 losses.* FAILED .*an illegal memory access'
check "... which it names" row 'step by step: in step [0-9]* of the schedule, layernorm of h.0; .*; from here on without layernorm$'
check "... is passed over at once" row '^tiny bf16: 5 losses.* skipped  *without layernorm, which failed: a training step, in the part smoke'
check "... and later" row '^the part training  *skipped  *without layernorm, .* it would have measured: FLOP/s of 124M'
check "... but other kernels are measured" row '^gelu_dx, bf16: share of a copy  *[0-9]'
check "... and not this one" row '^memory: layernorm  *skipped  *without layernorm'
check "in the next call" code 1 bench "" log
check "... it is known" row '^the part log  *skipped  *without layernorm, .* it would have measured: cuBLASLt'
check "... unless it is trusted" bench "" --trust layernorm log
check "... and then measured" row "products in cuBLASLt's log of one step  *[1-9]"
check "... but not forgotten" code 1 bench "" log
check "one that is trusted and fails" code 1 bench fault:optimizer,fault:layernorm --trust layernorm bandwidth
check "... is not tried again" test "$(grep -c '^memory: layernorm  *FAILED' out)" = 2
check "... and is still known, with the others" sh -c "grep -q '\"layernorm\"' broken.json && grep -q '\"optimizer\"' broken.json"

# A kernel that hangs.
rm broken.json
check "a kernel that hangs" code 1 bench hang:attention_dx smoke attention
check "... is asked where it stands" row '^tiny fp32: 5 losses.* FAILED .*not done within 8 s.*; cuda-gdb names the kernel make_dq'
check "... and passed over" row '^the part attention  *skipped  *without attention_dx, which failed: a training step, in the part smoke'
python3 - gpu.json <<'END' || touch late
import json, sys
assert json.load(open(sys.argv[1]))["details"]["part_sec"]["smoke"] < 21
END
check "... within the limit" test ! -e late
check "... with the answer among the logs" sh -c "tar xzOf gpu.tar.gz gpu-logs/train-smoke.hangs.log | grep -q attention_dx.cu:120"
check "... and nothing of it is left" sh -c 'test -s left && for pid in $(cat left); do ! grep -q "State:.[SR]" "/proc/$pid/status" || exit; done 2>/dev/null'
rm broken.json
check "one that hangs and one that faults by themselves" code 1 bench hang:embedding,fault:optimizer bandwidth
check "... are found" row '^memory: optimizer  *FAILED .*an illegal memory access .*; from here on without optimizer'
check "... both" row '^memory: embedding  *FAILED  *bench_gpu memory: hangs; cuda-gdb names the kernel make_dq; from here on without embedding'
check "... and passed over" test "$(grep -c '^skipped: bandwidth: memory: \(adamw\|embedding\)' out)" = 4
check "... by the others" row '^layernorm_dx, fp32: share of a copy  *[0-9]'

# A measurement for which there is no memory.
cat >bin/no-memory <<'END'
#!/bin/sh
printf '{"begins":"attention_dx"}\n{"begins":""}\n{"group":"attention", "what":"D 64, T 8192", "failed":true}\n'
echo 'bench_gpu: attention, D 64, T 8192: no memory' >&2
exit 1
END
chmod +x bin/no-memory
rm -f broken.json
check "no memory for a measurement" code 1 env BENCH_GPU="$DIR/bin/no-memory" "$ZR_SOURCE/bench/gpu" --no-build --tiny --out gpu.json attention
check "... is told" row '^attention: D 64, T 8192  *FAILED .*no memory$'
check "... and not a kernel's fault" test ! -e broken.json
check "... since no op has begun" sh -c "'$BENCH_GPU' --json --tiny cube | head -1 | grep -q '{\"begins\":\"\"}'"

# Wrong results: of a kernel beside another one, and of a test.
check "a kernel that computes nothing" code 1 bench wrong:attention attention
check "... is apart from the plain one" row '^D 16, T 32: attention: apart from the plain kernel .* MISSED .*; from here on without attention$'
check "... and not timed" row '^attention: D 16, T 16  *skipped  *without attention'
check "a test that fails" code 1 bench "" tests
check "... is repeated" row '^device_softmax .*MISSED .*: not ok 1 - rows; blocking ; step by step: the same; compute-sanitizer: 1 errors: Invalid __global__ write of size 4 bytes softmax_rows'
check "... as asked" sh -c "tar xzOf gpu.tar.gz gpu-logs/device_softmax.slowly.log | grep -q 'blocking 1'"
check "... and its kernel passed over" row '; from here on without softmax; see device_softmax'
echo "1..$n"
