#TEST build=tests/zr_stand_in timeout=60
# The stand-in of tests/cuda sees order: small kernels and streams with planted faults, each found by its name, and the
# same ones without, in which nothing is found. The thread sanitizer finds races within a launch, seeds those of streams.
. tests/support/command.inc
if [ -n "${SAN-}" ]; then
    skip "planted faults are found" "this build has a sanitizer already"
    exit
fi
cat >planted.cu <<'END_CODE'
#include <stdio.h>
#include <string>
#include "device/cuda/launch.h"

static bool planted;
static cudaStream_t stream, other;

/* Each thread writes its place and reads that of a neighbour, `far` threads away. */
template <bool WARP> __global__ void neighbours(int *out, int far, bool meets)
{
    ZR_SHARED_ARRAY(int, shared, [64]);
    const int own = (int)threadIdx.x;
    shared[own] = own;
    if (meets && WARP) __syncwarp();
    if (meets && !WARP) __syncthreads();
    const int word = __shfl_sync(ZR__ALL_LANES, own, own % 32); /* a shuffle orders no memory */
    out[(int)blockIdx.x * 64 + own] = shared[(word + far) % 64];
}

__global__ void count(int *sum, bool atomic)
{
    if (atomic)
        atomicAdd(sum, 1);
    else if (threadIdx.x == 0)
        *sum += 1;
}

__global__ void read_again(int *out, int turns)
{
    ZR_SHARED_ARRAY(int, shared, [1]);
    for (int i = 0; i < turns; i++) {
        if (threadIdx.x == 0) shared[0] = i;
        __syncthreads();
        out[threadIdx.x] += shared[0];
        if (turns < 9) __syncthreads(); /* all have read it before it is written again */
    }
}

__global__ void copy_four(zr__chunk *to, const char *from, int64_t i)
{
    *to = *(const zr__chunk *)(from + i);
}

__global__ void set(int *x, int value)
{
    *x = value;
}

__global__ void add(int *x, const int *y)
{
    *x += *y;
}

/* Tell by which turns the warps of blocks come. */
__global__ void tell(int times)
{
    for (int i = 0; i < times; i++) {
        if (threadIdx.x % 32 == 0) printf("%u.%u ", blockIdx.x, threadIdx.x / 32);
        __syncthreads();
    }
}

int main(int, char **args)
{
    int *x, result = 0;
    const std::string what = args[1];
    planted = args[2];
    cudaEvent_t event;
    cudaMalloc((void **)&x, 1 << 16);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, 0);
    cudaMemsetAsync(x, 0, 1 << 16, stream);
    cudaStreamSynchronize(stream);
    if (what == "syncwarp") ZR_LAUNCH(stream, neighbours<true>, 2, 32, 0, x, 1, !planted);
    if (what == "syncthreads") ZR_LAUNCH(stream, neighbours<false>, 2, 64, 0, x, 32, !planted);
    if (what == "again") ZR_LAUNCH(stream, read_again, 1, 64, 0, x, planted ? 9 : 2);
    if (what == "atomic") ZR_LAUNCH(stream, count, 8, 32, 0, x, !planted);
    if (what == "aligned") ZR_LAUNCH(stream, copy_four, 1, 1, 0, (zr__chunk *)x, (const char *)x, planted ? 20 : 16);
    if (what == "turns") ZR_LAUNCH(stream, tell, 4, 64, 0, 2);
    if (what == "event") {
        ZR_LAUNCH(stream, set, 1, 1, 0, x, 1);
        cudaEventRecord(event, stream);
        if (!planted) cudaStreamWaitEvent(other, event, 0);
        ZR_LAUNCH(other, add, 1, 1, 0, x + 1, x);
        cudaStreamSynchronize(stream); /* so that a late stream does its work in the right order */
        cudaStreamSynchronize(other);
    }
    if (what == "reused") { /* other reads x before stream sets it anew */
        ZR_LAUNCH(other, add, 1, 1, 0, x + 1, x + 2);
        cudaEventRecord(event, other);
        if (!planted) cudaStreamWaitEvent(stream, event, 0);
        ZR_LAUNCH(stream, set, 1, 1, 0, x + 2, 7);
        cudaStreamSynchronize(other);
        cudaStreamSynchronize(stream);
    }
    cudaStreamSynchronize(stream);
    cudaMemcpyAsync(&result, x + 1, sizeof result, cudaMemcpyDefault, stream);
    cudaStreamSynchronize(stream);
    if (what == "event" || what == "reused") return result != (what == "event");
    return 0;
}
END_CODE
ar rcs stand_in.a "$ZR_BUILD"/obj/stand_in/*.o
compile() { # OUT FLAGS...
    out=$1
    shift
    g++ -std=c++20 -g -O1 -Wall -Wextra -Werror "$@" -I"$ZR_SOURCE/tests/cuda" -I"$ZR_SOURCE/include" -I"$ZR_SOURCE/src" -I"$ZR_BUILD/obj" \
        -x c++ planted.cu -x none stand_in.a -o "$out" -lpthread
}
check "planted faults compile" compile plain -fsanitize=alignment -fsanitize-undefined-trap-on-error
check "... under the thread sanitizer" compile watched -fsanitize=thread

TSAN_OPTIONS=halt_on_error=0:exitcode=66
export TSAN_OPTIONS
races() { fails 66 'ThreadSanitizer: data race' ./watched "$1" planted && grep -q " in .*$2" message; }
ends() { # COMMAND...: by a signal
    "$@"
    [ $? -gt 128 ]
}
for each in syncwarp:neighbours syncthreads:neighbours again:read_again atomic:count; do
    fault=${each%:*}
    check "no race: $fault" ./watched "$fault"
    check "a race without it: $fault" races "$fault" "${each#*:}"
done
check "aligned" ./plain aligned
check "not aligned: the program ends" ends ./plain aligned planted

seeds() { # COMMAND...: how many of 20 seeds it fails with
    failed=0 seed=1
    while [ $seed -le 20 ]; do
        ZR_STAND_IN_SEED=$seed "$@" >/dev/null 2>&1 || failed=$((failed + 1))
        seed=$((seed + 1))
    done
    echo $failed
}
for fault in event reused; do
    check "a wait between streams, with every seed: $fault" test "$(seeds ./plain $fault)" = 0
    check "... not seen without a seed if it is missing" ./plain $fault planted
    check "... but with some" test "$(seeds ./plain $fault planted)" -gt 0
done
turns() { ZR_STAND_IN_SEED=$1 ./plain turns >"$2"; }
turns 3 a && turns 3 b && turns 4 c
check "the same seed, the same turns of blocks and warps" cmp a b
check "another seed, other turns" code 1 cmp -s a c
check "a seed that is no number" fails 2 'ZR_STAND_IN_SEED is "x"; give a number from 1 on' env ZR_STAND_IN_SEED=x ./plain turns
