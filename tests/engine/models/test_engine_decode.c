//TEST timeout=60 tsan=1
//LINK -Wl,--wrap=zr_alloc
/* Evaluation and decoding: alone and between training steps, at every stage, in every number type, with parameters kept
 * or cast from their masters; and an engine that cannot be created on one rank. */
#include "support/dtype_array.h"
#include "engine/trainer.h"
#include "base/number/exact.h"

#include <math.h>

enum { MOST_RANKS = 3 };

static _Thread_local int64_t refused_bytes; /* bytes of an allocation that fails on this rank */
void *__real_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes)
{
    return refused_bytes && (int64_t)bytes == refused_bytes ? NULL : __real_zr_alloc(bytes);
}

/* The losses of each rank's row: as a whole, and token by token with the cache. */
typedef struct sums {
    double whole[MOST_RANKS], decoded[MOST_RANKS];
} sums;

static zr_status evaluate(trainer *run, zr_engine *engine, zr_comm *comm)
{
    zr_batch batch = {.step = 5, .first_row = comm->rank};
    zr_exact sum = {0};
    ZR_TRY(zr_engine_eval(engine, &batch, trainer_batch, run, &sum));
    ((sums *)run->arg)->whole[comm->rank] = zr__exact_value(&sum);
    return ZR_OK;
}

static zr_status evaluate_and_decode(trainer *run, zr_engine *engine, zr_comm *comm)
{
    double sum = 0;
    for (int64_t t = 0; t < run->layout.seq; t++) {
        zr_tensor logits;
        ZR_TRY(zr_engine_decode(engine, trainer_token(run, 5, comm->rank, t), t, &logits));
        int64_t V = run->config.vocab_size;
        ZR_CHECK(zr_shape_elems(&logits.shape) == V, ZR_ERR_INTERNAL, "the output has %lld elements",
                 (long long)zr_shape_elems(&logits.shape));
        double total = 0;
        for (int64_t v = 0; v < V; v++) total += exp(array_get(logits.data, logits.dtype, v));
        sum += log(total) - array_get(logits.data, logits.dtype, trainer_token(run, 5, comm->rank, t + 1));
    }
    ((sums *)run->arg)->decoded[comm->rank] = sum;
    zr_tensor none;
    ZR_CHECK(zr_engine_decode(engine, 0, run->layout.seq, &none) == ZR_ERR_ARG, ZR_ERR_INTERNAL,
             "a token beyond the cache was taken");
    return evaluate(run, engine, comm);
}

static trainer decoder(int stage, int ranks, zr_dtype dtype)
{
    trainer run = trainer_odd();
    run.layout.stage = stage;
    run.layout.ranks = ranks;
    run.layout.dtype = run.layout.wire_dtype = dtype;
    run.layout.batch = 1;
    run.layout.decode_len = run.layout.seq;
    run.config.embd_pdrop = 0.5; /* must have no effect */
    run.steps = 3;
    run.clip = 0; /* lets lean keep no gradient */
    return run;
}

/* Return a lean run in which the small last unit is kept whole and the others are cast while they are gathered. */
static trainer lean_decoder(int stage, int ranks, zr_dtype dtype)
{
    trainer run = decoder(stage, ranks, dtype);
    run.layout.states = ZR_STATES_LEAN;
    run.layout.persist_elems = 100;
    run.layout.recompute = ZR_RECOMPUTE_UNIT;
    return run;
}

/* Check that decoding token by token gives the loss of the whole row, and, between two training steps, leaves no trace
 * in training. */
static void test_between_steps(void **state)
{
    (void)state;
    for (int d = 0; d < N_DTYPES; d++)
        for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
            for (int stage = 0; stage <= 3; stage++) {
                sums s = {{0}, {0}}, cast = {{0}, {0}};
                trainer run = decoder(stage, ranks, dtypes[d]), plain = run;
                trainer lean = lean_decoder(stage, ranks, dtypes[d]);
                run.after_first = lean.after_first = evaluate_and_decode;
                run.arg = &s;
                lean.arg = &cast;
                trainer_run(&plain);
                trainer_run(&run);
                trainer_run(&lean);
                assert_memory_equal(run.loss, plain.loss, sizeof run.loss);
                assert_memory_equal(lean.loss, plain.loss, sizeof run.loss);
                assert_int_equal(run.weights, plain.weights);
                assert_memory_equal(&cast, &s, sizeof s);
                for (int r = 0; r < ranks; r++) {
                    assert_true(s.whole[r] > 0);
                    assert_float_equal(s.decoded[r], s.whole[r], (dtypes[d] == ZR_F32 ? 1e-5 : 5e-3) * s.whole[r]);
                }
            }
}

/* Check that a plan without training, which may have no masters, has the same parameters at every stage. */
static void test_without_training(void **state)
{
    (void)state;
    for (int d = 0; d < N_DTYPES; d++)
        for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
            for (int stage = 0; stage <= 3; stage++) {
                sums trained = {{0}, {0}}, alone = {{0}, {0}};
                trainer run = lean_decoder(stage, ranks, dtypes[d]);
                run.steps = 0;
                run.after = evaluate_and_decode;
                run.arg = &trained;
                trainer_run(&run);
                run.layout.train = false;
                run.arg = &alone;
                trainer_run(&run);
                assert_memory_equal(&alone, &trained, sizeof alone);
            }
}

/* ---- an engine that cannot be created ---- */

static zr_status create_short_of_memory(zr_comm *comm, void *arg)
{
    trainer *run = arg;
    zr_model model = trainer_model(run);
    zr_device_config wanted = ZR_DEVICE_CONFIG_INIT;
    ZR_AUTO(zr_device_destroy) zr_device *device = NULL;
    ZR_AUTO(zr_plan_destroy) zr_plan *plan = NULL;
    ZR_AUTO(zr_engine_destroy) zr_engine *engine = NULL;
    ZR_TRY(zr_device_create_cpu(&wanted, &device));
    ZR_TRY(zr_plan_create(&model, &run->layout, &device->profile, &plan));
    refused_bytes = comm->rank == 1 ? plan->space_bytes[ZR_SPACE_DEVICE] : 0;
    const zr_status st = zr_engine_create(plan, device, comm, run->seed, &engine);
    refused_bytes = 0;
    ZR_CHECK(st == ZR_ERR_MEMORY && !engine, ZR_ERR_INTERNAL, "rank %d: %s: %s", comm->rank, zr_status_text(st),
             zr_error_message());
    ZR_CHECK(comm->rank == 1 || strncmp(zr_error_message(), "rank 1: ", 8) == 0, ZR_ERR_INTERNAL, "%s",
             zr_error_message());
    ZR_TRY(zr_engine_create(plan, device, comm, run->seed, &engine)); /* the ranks are still in step */
    return zr_engine_fill(engine, ZR_STATE_PARAM, NULL, NULL);
}

/* Check that, if one rank cannot allocate its arena, all ranks fail with its error, and none waits while creating the
 * staging memory. */
static void test_one_rank_short_of_memory(void **state)
{
    (void)state;
    trainer run = decoder(2, 3, ZR_F32);
    if (zr_comm_threads_run(3, create_short_of_memory, &run) != ZR_OK) fail_msg("%s", zr_error_message());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_between_steps),
        cmocka_unit_test(test_without_training),
        cmocka_unit_test(test_one_rank_short_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
