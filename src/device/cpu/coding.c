/* Measurement of the rates at which casts make and read records: the fastest of several passes over arrays that do not
 * fit into a core's own caches, as units of a large model. */
#include "device/cpu/cpu.h"

#include "base/core/scope.h"
#include "tensor/tensor.h"

enum { ELEMS = 1 << 21, PASSES = 3 };

typedef struct arrays {
    float *elems;
    void *records;
} arrays;

/* Kinds of casts, in the order of the members of zr_record_rates. */
enum { ENCODE, ENCODE_RANDOM, DECODE, CASTS };

static double elems_sec(const zr__shards *shards, const arrays *a, zr_dtype dtype, int kind, int threads)
{
    const zr_rounding rounding = {.rng = {.purpose = ZR_RNG_ROUND}};
    const zr_casting at_random = {.rounding = &rounding};
    double best = 0;
    for (int pass = 0; pass <= PASSES; pass++) { /* the first pass warms up */
        const double begin = zr_clock_sec();
        if (kind == DECODE)
            shards->cast(threads, a->elems, ZR_F32, a->records, dtype, ELEMS, NULL);
        else
            shards->cast(threads, a->records, dtype, a->elems, ZR_F32, ELEMS, kind == ENCODE ? NULL : &at_random);
        const double sec = zr_clock_sec() - begin;
        if (pass == 1 || (pass > 1 && sec < best)) best = sec;
    }
    return best > 0 ? ELEMS / best : 0;
}

zr_status zr__cpu_coding(const zr__shards *shards, zr__normal_fn normal, int threads,
                         zr_record_rates rates[ZR_RECORD_CODES])
{
    const zr_rng rng = {.purpose = ZR_RNG_INIT};
    ZR_AUTO_FREE float *elems = zr_alloc(ELEMS * sizeof(*elems));
    ZR_AUTO_FREE void *records = zr_alloc((size_t)zr_dtype_span(ZR_I8X128, ELEMS));
    ZR_CHECK(elems && records, ZR_ERR_MEMORY, "no memory for %d elements, which measuring casts takes", ELEMS);
    const arrays a = {elems, records};
    normal(threads, &rng, 0, ELEMS, 1, elems);
    for (int codes = 0; codes < ZR_RECORD_CODES; codes++) {
        const zr_dtype dtype = (zr_dtype)(ZR_I8X128 + 2 * codes);
        zr_rate rate[CASTS];
        for (int kind = 0; kind < CASTS; kind++)
            rate[kind] = (zr_rate){elems_sec(shards, &a, dtype, kind, 1), elems_sec(shards, &a, dtype, kind, threads)};
        rates[codes] = (zr_record_rates){rate[ENCODE], rate[ENCODE_RANDOM], rate[DECODE]};
    }
    return ZR_OK;
}
