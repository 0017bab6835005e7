//TEST timeout=60 tsan=1
/* An engine's functions besides plain training: skipped steps, a user's own optimizer, engines side by side,
 * evaluation, parameters and gradients in and out. */
#include "support/dtype_array.h"
#include "plan/gpt2_sizes.h"
#include "trainer.h"
#include "base/number/exact.h"

#include <math.h>

/* ---- a gradient that is not finite ---- */

enum { BAD_STEP = 2, BAD_ROW = 3 };
static _Thread_local bool spoil; /* the rank's micro-batch holds the bad row */
static const char *spoiled_op;
static zr_kernel real[2], spoiling[2];

static int32_t spoiling_token(void *arg, int64_t step, int64_t row, int64_t t)
{
    (void)arg;
    if (t == 0 && row % 2 == 0) spoil = false;
    if (step == BAD_STEP && row == BAD_ROW) spoil = true;
    return (int32_t)((step * 31 + row * 7 + t * t) % 131);
}

static zr_status spoiling_run(const zr_kernel_args *args)
{
    ZR_TRY(real[0].run(args));
    const zr_tensor *out = &args->out[0];
    if (spoil && out->dtype == ZR_F32) ((float *)out->data)[zr_shape_elems(&out->shape) / 2] = INFINITY;
    if (spoil && out->dtype == ZR_BF16) ((uint16_t *)out->data)[zr_shape_elems(&out->shape) / 2] = 0x7fc0;
    return ZR_OK;
}

static void spoil_op(const char *op)
{
    zr_device_config plain = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    assert_int_equal(zr_device_create_cpu(&plain, &device), ZR_OK);
    spoiled_op = op;
    real[0] = *device->ops->kernel(device, op);
    spoiling[0] = real[0];
    spoiling[0].run = spoiling_run;
    zr_device_destroy(&device);
}

static trainer spoiled(int stage, int steps, zr_dtype dtype)
{
    trainer run = trainer_odd();
    run.layout.stage = stage;
    run.layout.ranks = 2;
    run.layout.accum = 2;
    run.layout.dtype = run.layout.wire_dtype = dtype;
    run.steps = steps;
    run.token = spoiling_token;
    return run;
}

/* Check that a bad gradient on one rank makes all ranks skip the step: weights and states stay, and its first tensor is
 * named. */
static void test_skip(void **state)
{
    (void)state;
    const struct {
        const char *op, *param;
    } cases[] = {{"embedding_dw", "transformer.wte.weight"}, {"position_dw", "transformer.wpe.weight"}};
    for (size_t c = 0; c < 2; c++)
        for (int stage = 0; stage <= 3; stage++)
            for (int bf16 = 0; bf16 <= 1; bf16++) {
                spoil_op(cases[c].op);
                zr_dtype dtype = bf16 ? ZR_BF16 : ZR_F32;
                trainer before = spoiled(stage, BAD_STEP, dtype), run = spoiled(stage, BAD_STEP + 1, dtype),
                        later = spoiled(stage, BAD_STEP + 2, dtype);
                run.kernels = later.kernels = spoiling;
                trainer_run(&before);
                trainer_run(&run);
                trainer_run(&later);
                assert_false(run.skipped[BAD_STEP - 1]);
                assert_true(run.skipped[BAD_STEP]);
                assert_false(isfinite(run.norm[BAD_STEP]));
                assert_true(isfinite(run.loss[BAD_STEP]));
                assert_int_equal(run.weights, before.weights);
                assert_false(later.skipped[BAD_STEP + 1]);
                assert_true(later.weights != before.weights);
                zr_graph_spec spec = {.mode = ZR_MODE_EVAL, .batch = 1, .seq = 1};
                zr_graph *g = NULL;
                assert_int_equal(zr_graph_create(&spec, &g), ZR_OK);
                zr_gpt2(&run.config).build(g, &run.config);
                assert_string_equal(zr_graph_param(g, run.bad_param[BAD_STEP])->name, cases[c].param);
                zr_graph_destroy(&g);
            }
}

/* ---- a user's own optimizer ---- */

/* Update by Lion (Chen et al. 2023) as a user would write it, in double precision. */
static void own_lion(const zr_update_args *a)
{
    const double b1 = a->hyper[0], b2 = a->hyper[1];
    for (int64_t i = 0; i < a->n; i++) {
        float g =
            a->grad_dtype == ZR_BF16 ? zr_f32_from_bf16(((const uint16_t *)a->grad)[i]) : ((const float *)a->grad)[i];
        g *= a->grad_scale;
        double c = b1 * a->slot[0][i] + (1 - b1) * g;
        a->slot[0][i] = (float)(b2 * a->slot[0][i] + (1 - b2) * g);
        a->weight[i] = (float)(a->weight[i] - a->lr * ((c > 0) - (c < 0) + a->weight_decay * a->weight[i]));
        if (a->param16) a->param16[i] = zr_bf16_from_f32(a->weight[i]);
    }
}

static void test_own_optimizer(void **state)
{
    (void)state;
    trainer first = trainer_odd();
    first.layout.optimizer =
        (zr_optimizer){.name = "own", .n_slots = 1, .hyper = {0.9, 0.99}, .weight_decay = 0.1, .rule = own_lion};
    first.layout.ranks = 2;
    first.layout.dtype = first.layout.wire_dtype = ZR_BF16;
    first.lr = 1e-3;
    first.steps = 8;
    gpt2_sizes sizes = gpt2_count(&first.config);
    for (int stage = 0; stage <= 3; stage++) {
        trainer run = first;
        run.layout.stage = stage;
        trainer_run(&run);
        if (stage == 0)
            assert_int_equal(run.planned.category_bytes[ZR_CATEGORY_OPTIM], 8 * gpt2_padded(&sizes, 2)); /* K = 8 */
        if (stage == 0) first = run;
        assert_memory_equal(run.loss, first.loss, sizeof run.loss);
        assert_int_equal(run.weights, first.weights);
    }
}

/* Return a token of rows that are the same at every step, so that the loss falls at once. */
static int32_t same_token(void *arg, int64_t step, int64_t row, int64_t t)
{
    (void)arg;
    (void)step;
    return (int32_t)((row * 7 + t * t) % 131);
}

/* Check that the built-in optimizers train, each differently, and each the same at every stage. */
static void test_built_in_optimizers(void **state)
{
    (void)state;
    const zr_optimizer optimizers[] = {
        zr_adamw(0.9, 0.95, 1e-8, 0.1), zr_adam(0.9, 0.95, 1e-8, 0.1), zr_sgd(0, false, 0),
        zr_sgd(0.9, false, 1e-4),       zr_sgd(0.9, true, 0),          zr_lion(0.9, 0.99, 0.1)};
    uint64_t weights[6];
    for (int o = 0; o < 6; o++)
        for (int stage = 0; stage <= 3; stage += 3) {
            trainer run = trainer_odd();
            run.layout.optimizer = optimizers[o];
            run.layout.ranks = 2;
            run.layout.stage = stage;
            run.lr = o == 5 ? 1e-3 : o < 2 ? 1e-2 : 0.1;
            run.steps = 6;
            run.token = same_token;
            trainer_run(&run);
            assert_true(run.loss[5] < run.loss[0]);
            if (stage == 0) weights[o] = run.weights;
            assert_int_equal(run.weights, weights[o]);
            for (int other = 0; other < o; other++) assert_true(weights[other] != weights[o]);
        }
}

static void test_unknown_optimizer(void **state)
{
    (void)state;
    trainer run = trainer_odd();
    run.steps = 0; /* reported before any step */
    run.layout.optimizer = (zr_optimizer){.name = "shampoo", .n_slots = 1};
    assert_int_equal(zr_comm_threads_run(1, trainer_rank, &run), ZR_ERR_UNSUPPORTED);
    assert_non_null(strstr(zr_error_message(), "shampoo"));
}

/* ---- a user's own kernel ---- */

enum { OWN_SCRATCH = 100000 };
static const zr_kernel *gelu;

static int64_t own_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    (void)facts;
    (void)graph;
    (void)op;
    return OWN_SCRATCH;
}

/* Overwrite all of the requested scratch, so that any other data placed there is spoiled. */
static zr_status own_run(const zr_kernel_args *args)
{
    ZR_CHECK(args->scratch, ZR_ERR_INTERNAL, "no scratch");
    memset(args->scratch, 0xff, OWN_SCRATCH);
    return gelu->run(args);
}

/* Check that a user kernel's scratch is planned, and nothing else is placed there meanwhile. */
static void test_own_scratch(void **state)
{
    (void)state;
    static const zr_kernel kernels[] = {{"gelu", .run = own_run, .scratch_bytes = own_scratch}, {0}};
    zr_device_config plain = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    assert_int_equal(zr_device_create_cpu(&plain, &device), ZR_OK);
    gelu = device->ops->kernel(device, "gelu");
    zr_device_destroy(&device);
    for (int stage = 0; stage <= 3; stage++) {
        trainer run = trainer_odd(), own;
        run.layout.stage = stage;
        run.layout.ranks = 2;
        own = run;
        own.kernels = kernels;
        trainer_run(&run);
        trainer_run(&own);
        assert_true(own.planned.category_bytes[ZR_CATEGORY_WORK] >= OWN_SCRATCH);
        assert_memory_equal(own.loss, run.loss, sizeof run.loss);
        assert_int_equal(own.weights, run.weights);
    }
}

static void destroy_devices(zr_device *(*device)[2])
{
    for (int i = 0; i < 2; i++) zr_device_destroy(&(*device)[i]);
}

/* Check that a plan for the device's own kernels is refused with other kernels, for whose scratch it has no room. */
static zr_status run_other_kernels(zr_comm *comm, void *arg)
{
    static const zr_kernel kernels[] = {{"gelu", .run = own_run, .scratch_bytes = own_scratch}, {0}};
    const trainer *run = arg;
    zr_device_config wanted[] = {{.threads = 1}, {.threads = 1, .kernels = kernels}};
    ZR_AUTO(destroy_devices) zr_device *device[2] = {NULL, NULL};
    ZR_AUTO(zr_plan_destroy) zr_plan *plan = NULL;
    ZR_AUTO(zr_engine_destroy) zr_engine *engine = NULL;
    zr_model model = trainer_model(run);
    for (int i = 0; i < 2; i++) ZR_TRY(zr_device_create_cpu(&wanted[i], &device[i]));
    ZR_TRY(zr_plan_create(&model, &run->layout, &device[0]->profile, &plan));
    return zr_engine_create(plan, device[1], comm, 1, &engine);
}

static void test_other_kernels(void **state)
{
    (void)state;
    trainer run = trainer_odd();
    assert_int_equal(zr_comm_threads_run(1, run_other_kernels, &run), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "plan with the device's profile"));
}

/* ---- engines side by side ---- */

typedef struct pair {
    trainer a, b;
} pair;

static void destroy_plans(zr_plan *(*plan)[2])
{
    for (int i = 0; i < 2; i++) zr_plan_destroy(&(*plan)[i]);
}

static void destroy_engines(zr_engine *(*engine)[2])
{
    for (int i = 0; i < 2; i++) zr_engine_destroy(&(*engine)[i]);
}

static zr_status two_engines(zr_comm *comm, void *arg)
{
    pair *p = arg;
    trainer *run[2] = {&p->a, &p->b};
    ZR_AUTO(destroy_devices) zr_device *device[2] = {NULL, NULL};
    ZR_AUTO(destroy_plans) zr_plan *plan[2] = {NULL, NULL};
    ZR_AUTO(destroy_engines) zr_engine *engine[2] = {NULL, NULL};
    zr_device_config wanted = ZR_DEVICE_CONFIG_INIT;
    for (int i = 0; i < 2; i++) {
        zr_model model = zr_gpt2(&run[i]->config);
        ZR_TRY(zr_device_create_cpu(&wanted, &device[i]));
        ZR_TRY(zr_plan_create(&model, &run[i]->layout, &device[i]->profile, &plan[i]));
        ZR_TRY(zr_engine_create(plan[i], device[i], comm, run[i]->seed, &engine[i]));
        ZR_TRY(zr_engine_fill(engine[i], ZR_STATE_PARAM, NULL, NULL));
    }
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < 2; i++) {
            zr_step_args args = {
                .step = s, .lr = run[i]->lr, .clip = run[i]->clip, .batch = trainer_batch, .arg = run[i]};
            zr_step_result result;
            ZR_TRY(zr_engine_step(engine[i], &args, &result));
            if (comm->rank == 0) run[i]->loss[s] = result.loss;
        }
    return ZR_OK;
}

/* Check that two engines of one communicator, with different models and stages, do not disturb each other. */
static void test_two_engines(void **state)
{
    (void)state;
    pair p = {trainer_odd(), trainer_odd()};
    p.a.layout.ranks = p.b.layout.ranks = 2;
    p.a.steps = p.b.steps = 3;
    p.a.layout.stage = 3;
    p.b.layout.stage = 1;
    p.b.config.n_layer = 1;
    p.b.config.vocab_size = 300;
    trainer a = p.a, b = p.b;
    trainer_run(&a);
    trainer_run(&b);
    assert_int_equal(zr_comm_threads_run(2, two_engines, &p), ZR_OK);
    assert_memory_equal(a.loss, p.a.loss, 3 * sizeof(double));
    assert_memory_equal(b.loss, p.b.loss, 3 * sizeof(double));
}

/* ---- evaluation ---- */

static zr_status evaluate(trainer *run, zr_engine *engine, zr_comm *comm)
{
    zr_batch batch = {.step = 0, .first_row = comm->rank * run->layout.batch};
    zr_exact exact = {0};
    ZR_TRY(zr_engine_eval(engine, &batch, trainer_batch, run, &exact));
    double all[8], sum = zr__exact_value(&exact);
    ZR_TRY(zr_comm_scalars(comm, &sum, 1, all));
    if (comm->rank == 0) {
        double total = 0;
        for (int r = 0; r < comm->size; r++) total += all[r];
        *(double *)run->arg = total / (double)(run->layout.batch * run->layout.seq * comm->size);
    }
    return ZR_OK;
}

/* Check that evaluating the batch of the first step before any update gives the first loss, and evaluation between
 * steps changes nothing. */
static void test_evaluation(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        double value;
        trainer run = trainer_odd(), plain;
        run.layout.stage = stage;
        run.layout.ranks = 2;
        plain = run;
        run.after_first = evaluate;
        run.arg = &value;
        trainer_run(&run);
        trainer_run(&plain);
        assert_memory_equal(run.loss, plain.loss, sizeof run.loss);
        assert_int_equal(run.weights, plain.weights);
        trainer start = plain;
        start.steps = 0;
        start.after = evaluate;
        start.arg = &value;
        trainer_run(&start);
        assert_float_equal(value, plain.loss[0], 1e-6);
    }
}

/* ---- filling and reading parameters and gradients ---- */

static float value_of(int64_t element)
{
    return (float)(element % 1009) * 0.37f - 150.0f;
}

static zr_status give(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out)
{
    (void)arg;
    for (int64_t i = 0; i < n; i++) out[i] = value_of(param->first + first + i);
    return ZR_OK;
}

/* The number of elements read, over all ranks. */
typedef struct reading {
    zr_dtype dtype; /* the type that values were rounded to */
    _Atomic int64_t elems;
} reading;

static zr_status compare(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    reading *r = arg;
    uint32_t bits;
    for (int64_t i = 0; i < n; i++) {
        array_set(&bits, r->dtype, 0, value_of(param->first + first + i));
        ZR_CHECK(in[i] == array_get(&bits, r->dtype, 0), ZR_ERR_INTERNAL, "element %lld of %s is %g",
                 (long long)(first + i), param->name, (double)in[i]);
    }
    r->elems += n;
    return ZR_OK;
}

static zr_status read_back(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)comm;
    return zr_engine_read(engine, ZR_STATE_PARAM, compare, run->arg);
}

/* Check that values filled in are read back, each element once: from fp32 masters where they exist, otherwise as
 * rounded values. */
static void test_fill_and_read(void **state)
{
    (void)state;
    for (int d = 0; d < N_DTYPES; d++)
        for (int stage = 0; stage <= 3; stage++)
            for (int way = 0; way < 4; way++) { /* paper; lean; lean, small units whole; no training */
                trainer run = trainer_odd();
                gpt2_sizes sizes = gpt2_count(&run.config);
                reading r = {.dtype = way == 3 ? dtypes[d] : ZR_F32};
                run.steps = 0;
                run.layout.ranks = 1 + (d + stage + way) % 3;
                run.layout.stage = stage;
                run.layout.dtype = run.layout.wire_dtype = dtypes[d];
                run.layout.states = way > 0 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
                run.layout.persist_elems = way == 2 ? 100 : 0;
                run.layout.train = way != 3;
                run.fill = give;
                run.after = read_back;
                run.arg = &r;
                trainer_run(&run);
                assert_int_equal(r.elems, sizes.params);
            }
}

static zr_status add_gradient(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    uint64_t sum = 0;
    ZR_TRY(trainer_hash(&sum, param, first, n, in));
    *(_Atomic uint64_t *)arg += sum;
    return ZR_OK;
}

static zr_status read_gradient(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)comm;
    return zr_engine_read(engine, ZR_STATE_GRAD, add_gradient, run->arg);
}

/* Check that the lean layout keeps the gradient where its norm must be known first; reading the gradient in other cases
 * is an error. The loss scale is divided out again; as a power of two it changes no bit. */
static void test_gradient_of_lean(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (int64_t accum = 1; accum <= 2; accum++) {
            _Atomic uint64_t paper = 0, lean = 0;
            trainer run = trainer_odd();
            run.steps = 1;
            run.layout.ranks = 2;
            run.layout.stage = stage;
            run.layout.accum = accum;
            run.layout.norm_first = true;
            run.after = read_gradient;
            run.arg = &paper;
            trainer_run(&run);
            run.layout.states = ZR_STATES_LEAN;
            run.scaler.scale = 256;
            run.arg = &lean;
            trainer_run(&run);
            assert_true(paper == lean && paper != 0);
            if (accum > 1) continue;
            run.layout.norm_first = false;
            run.clip = 0;
            assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_STATE);
            assert_non_null(strstr(zr_error_message(), "lean has consumed the gradient"));
        }
}

/* A rank that cannot read its part of the initial values tells all others, and none is left waiting for it. */
typedef struct unread {
    trainer run;
    _Atomic int told; /* number of ranks that received the cause */
} unread;

static _Thread_local int filling_rank;

static zr_status fill_but_not_on_rank_1(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out)
{
    (void)arg, (void)param, (void)first;
    ZR_CHECK(filling_rank != 1, ZR_ERR_DATA, "no such tensor");
    memset(out, 0, sizeof *out * (size_t)n);
    return ZR_OK;
}

static zr_status fill_on_ranks(zr_comm *comm, void *arg)
{
    unread *u = arg;
    filling_rank = comm->rank;
    zr_status st = trainer_rank(comm, &u->run);
    u->told += st == ZR_ERR_DATA && strstr(zr_error_message(), "no such tensor") != NULL;
    return st;
}

static void test_unread_values(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        unread u = {.run = trainer_odd()};
        u.run.layout.stage = stage;
        u.run.layout.ranks = 3;
        u.run.fill = fill_but_not_on_rank_1;
        assert_int_equal(zr_comm_threads_run(3, fill_on_ranks, &u), ZR_ERR_DATA);
        assert_int_equal(u.told, 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unread_values),     cmocka_unit_test(test_skip),
        cmocka_unit_test(test_own_optimizer),     cmocka_unit_test(test_built_in_optimizers),
        cmocka_unit_test(test_unknown_optimizer), cmocka_unit_test(test_two_engines),
        cmocka_unit_test(test_own_scratch),       cmocka_unit_test(test_other_kernels),
        cmocka_unit_test(test_evaluation),        cmocka_unit_test(test_fill_and_read),
        cmocka_unit_test(test_gradient_of_lean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
