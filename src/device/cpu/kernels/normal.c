/* Normal random numbers, for the initial values of parameters. */
#include "base/number/normal.h"
#include "device/cpu/cpu.h"
#include "device/cpu/shared/level.h"

#define SHARE 16384 /* minimum number of elements for which waking a thread is worthwhile */

static void normal(int threads, const zr_rng *rng, uint64_t first, int64_t n, float std, float *out)
{
    const int team = (int)zr__min64(threads, n / SHARE + 1);
#pragma omp parallel for num_threads(team) schedule(static) if (team > 1)
    for (int t = 0; t < team; t++) {
        int64_t begin, end;
        zr__share(n, ZR__NORMAL_GROUP, t, team, &begin, &end);
        zr__normal(rng, first + (uint64_t)begin, end - begin, std, out + begin);
    }
}

const zr__normal_fn ZR_LEVEL_NAME(zr__normal) = normal;
const zr_kernel ZR_LEVEL_NAME(zr__kernels_normal)[] = {{0}};
