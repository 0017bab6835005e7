//TEST timeout=60 tsan=1
/* The norm of the gradient, and the norms for trust ratios, are those of the numbers that are squared, to 1e-15. Sums
 * of a unit's shard are added exactly: norms for trust ratios have the same bits at every stage and in every group of
 * ranks. */
#include "base/number/exact.h"
#include "engine/layout_variants.h"

#include <math.h>
#include <pthread.h>

enum { MOST = 128 };

/* What the devices of all ranks have seen in a step. */
static struct {
    pthread_mutex_t lock;
    zr_device_ops plain, seeing;
    long double squares; /* of all gradients */
    zr_exact sums;       /* of the sums of squares of each unit's shards */
    zr_norms norms[MOST];
    int n;        /* number of different norms */
    double worst; /* largest relative error of a weight's norm, where a rank updates whole parameters */
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static long double squares_of(const float *x, int64_t n)
{
    long double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (long double)x[i] * x[i];
    return sum;
}

static zr_status seeing_square(zr_device *device, const void *x, zr_dtype dtype, int64_t n, bool exact, int64_t first,
                               zr_square *square)
{
    float wide[256];
    long double sum = 0;
    for (int64_t at = 0; at < n; at += 256) {
        const int64_t some = n - at < 256 ? n - at : 256;
        ZR_TRY(seen.plain.cast(device, wide, ZR_F32, (const char *)x + zr_dtype_span(dtype, at), dtype, some, NULL));
        sum += squares_of(wide, some);
    }
    ZR_TRY(seen.plain.square(device, x, dtype, n, exact, first, square));
    pthread_mutex_lock(&seen.lock);
    seen.squares += sum;
    zr__exact_add_double(&seen.sums, square->sum);
    pthread_mutex_unlock(&seen.lock);
    return ZR_OK;
}

static zr_status seeing_update(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args)
{
    const double weight = (double)sqrtl(squares_of(args->weight, args->n));
    int i = 0;
    pthread_mutex_lock(&seen.lock);
    while (i < seen.n && memcmp(&seen.norms[i], &args->norms, sizeof args->norms) != 0) i++;
    if (i == seen.n && i < MOST) seen.norms[seen.n++] = args->norms;
    if (weight > 0) seen.worst = fmax(seen.worst, fabs(args->norms.weight / weight - 1));
    pthread_mutex_unlock(&seen.lock);
    return seen.plain.update(device, optimizer, args);
}

static void see(trainer *run, zr_device *device)
{
    (void)run;
    pthread_mutex_lock(&seen.lock);
    if (device->ops != &seen.seeing) seen.plain = seen.seeing = *device->ops;
    seen.seeing.square = seeing_square;
    seen.seeing.update = seeing_update;
    device->ops = &seen.seeing;
    pthread_mutex_unlock(&seen.lock);
}

static void run_seeing(trainer *run)
{
    seen.squares = 0;
    seen.sums = (zr_exact){0};
    seen.n = 0;
    seen.worst = 0;
    run->steps = 1;
    run->tune = see;
    trainer_run(run);
    assert_in_range(seen.n, 1, MOST - 1);
}

static void test_gradient(void **state)
{
    (void)state;
    for (int i = 0; i < 80; i++) {
        trainer run = layout_trainer(i < 16 ? 1 << i % 3 : 4, i % 2 ? ZR_BF16 : ZR_F32, i < 12 ? 1 : 2, 0.5);
        run.seed = (uint64_t)i; /* a sum that is rounded too early is another one in a few percent of all runs */
        run.layout.stage = i / 2 % 4;
        run.layout.states = i % 3 == 1 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
        run.layout.rank_free_sums = i % 5 == 4;
        run.layout.tensor = i == 7 ? 2 : 1;
        run.config.n_head = 2;
        run.config.n_embd = 36;
        run_seeing(&run);
        const double want = (double)sqrtl(seen.squares);
        if (!(fabs(run.norm[0] - want) <= 1e-15 * want))
            fail_msg("layout %d: a norm of %.17g, wanted %.17g", i, run.norm[0], want);
        if (run.layout.rank_free_sums || run.layout.tensor > 1) continue; /* no sums, or several of one shard */
        assert_true(run.norm[0] == sqrt(zr__exact_value(&seen.sums)));
    }
}

static int compare_norms(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(zr_norms));
}

/* Check a run of LAMB: its norms have the same bits as those of the first run. */
static void check_trust(trainer run, zr_norms first[MOST], int *n)
{
    run_seeing(&run);
    qsort(seen.norms, (size_t)seen.n, sizeof *seen.norms, compare_norms);
    if (*n == 0) memcpy(first, seen.norms, sizeof seen.norms);
    if (*n == 0) *n = seen.n;
    if (seen.n != *n || memcmp(seen.norms, first, sizeof(zr_norms) * (size_t)*n) != 0)
        fail_msg("stage %d, %d ranks, %d in a group%s: other norms than at stage 0", run.layout.stage, run.layout.ranks,
                 run.layout.shard_ranks + run.layout.hpz_ranks, run.layout.hierarchical ? ", hierarchical" : "");
}

/* Check all stages and groups of 4 and 8 ranks. At stage 0 a rank updates whole parameters, from which the test
 * computes their norms. */
static void test_trust(void **state)
{
    (void)state;
    for (int ranks = 4; ranks <= 8; ranks *= 2) {
        zr_norms first[MOST];
        int n = 0;
        for (int stage = 0; stage <= 3; stage++)
            for (int way = 0; way < (stage == 3 ? 6 : 5); way++) {
                trainer run = layout_trainer(ranks, ranks == 8 ? ZR_BF16 : ZR_F32, 1, 0);
                run.config.n_layer = 2;
                run.layout.optimizer = zr_lamb(ZR_LAMB_DEEPSPEED, NULL);
                run.layout.stage = stage;
                run.layout.states = (stage + way) % 2 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
                run.layout.host_ranks = way == 3 ? ranks / 2 : 2;
                run.layout.hierarchical = way >= 2 && way <= 4;
                run.layout.shard_ranks = way == 1 || way == 4 ? 2 : 0;
                run.layout.hpz_ranks = way == 5 ? 2 : 0;
                check_trust(run, first, &n);
                if (stage == 0 && seen.worst > 1e-15) fail_msg("a weight's norm differs by %g", seen.worst);
            }
        assert_true(n > 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient),
        cmocka_unit_test(test_trust),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
