//TEST timeout=120 long=more
/* Optimizers with trust ratios (zr_optimizer.trust). LAMB of each variant and LARS follow their formulas in double over
 * 20 steps. The norms are those of whole parameters, however these are cut into shards: all stages, layouts, homes of
 * states and numbers of threads give the same bits, and all numbers of ranks the same losses. */
#include "engine/layout_variants.h"
#include "support/long.h"

#include <math.h>
#include <pthread.h>

/* ---- the formulas ------------------------------------------------------------------------------ */

enum { TENSORS = 64, STEPS = 20, ELEMS = 8192 };

/* A parameter of the run, and its state as computed by the formulas. */
typedef struct tensor {
    const float *weight;
    int64_t n;
    double *w, *m, *v, *u;
} tensor;

/* An optimizer's rule in double, and the number of updates with a clamped ratio, with an unclamped one, and without a
 * norm. */
typedef struct rule {
    zr_lamb_variant variant;
    bool lars;
    zr_lamb_args lamb;
    double momentum, trust_coefficient, eps;
    int clamped, free, without_norm;
} rule;

static struct {
    zr_device_ops plain, checked;
    rule *rule;
    tensor tensor[TENSORS];
    int n;
    double memory[5 * ELEMS * TENSORS / 8];
    int64_t taken;
    double worst;
} truth;

static double norm_of(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

static double *take(int64_t n)
{
    assert_true(truth.taken + n <= (int64_t)(sizeof truth.memory / sizeof *truth.memory));
    truth.taken += n;
    return truth.memory + truth.taken - n;
}

static tensor *find_tensor(const zr_update_args *args)
{
    for (int i = 0; i < truth.n; i++)
        if (truth.tensor[i].weight == args->weight) return &truth.tensor[i];
    assert_true(truth.n < TENSORS);
    tensor *t = &truth.tensor[truth.n++];
    *t = (tensor){args->weight, args->n, take(args->n), take(args->n), take(args->n), take(args->n)};
    for (int64_t i = 0; i < t->n; i++) t->w[i] = args->weight[i];
    return t;
}

/* Update by LAMB as its three authors' fact sheets give it. */
static void lamb_truth(rule *r, tensor *t, const zr_update_args *args)
{
    const zr_lamb_args *a = &r->lamb;
    const double decay = args->weight_decay, k = (double)args->step;
    const double c1 = 1 - pow(a->beta1, k), c2 = 1 - pow(a->beta2, k);
    const bool moments = r->variant != ZR_LAMB_DEEPSPEED && a->bias_correction;
    for (int64_t i = 0; i < t->n; i++) {
        double g = (double)((const float *)args->grad)[i] * args->grad_scale;
        if (!a->adam_w_mode) g += decay * t->w[i];
        t->m[i] = a->beta1 * t->m[i] + (a->grad_averaging ? 1 - a->beta1 : 1) * g;
        t->v[i] = a->beta2 * t->v[i] + (1 - a->beta2) * g * g;
        const double m = moments ? t->m[i] / c1 : t->m[i], v = moments ? t->v[i] / c2 : t->v[i];
        t->u[i] = m / (a->eps_inside_sqrt ? sqrt(v + a->eps) : sqrt(v) + a->eps);
        if (a->adam_w_mode) t->u[i] += decay * t->w[i];
    }
    const double w = norm_of(t->w, t->n), u = norm_of(t->u, t->n);
    double ratio = w / u, lr = args->lr;
    if (r->variant == ZR_LAMB_DEEPSPEED) {
        const double bounded = fmin(fmax(ratio, a->min_coeff), a->max_coeff);
        *(bounded != ratio ? &r->clamped : &r->free) += 1;
        ratio = bounded;
        if (a->bias_correction) lr *= sqrt(c2) / c1;
    }
    if (w == 0 || u == 0) r->without_norm++;
    if (w == 0 || u == 0 || (r->variant == ZR_LAMB_NVIDIA && decay == 0 && !a->use_nvlamb)) ratio = 1;
    for (int64_t i = 0; i < t->n; i++) t->w[i] -= lr * ratio * t->u[i];
}

/* Update by LARS, algorithm 1 of its paper; the moments are in m. */
static void lars_truth(rule *r, tensor *t, const zr_update_args *args)
{
    for (int64_t i = 0; i < t->n; i++) t->u[i] = (double)((const float *)args->grad)[i] * args->grad_scale;
    const double w = norm_of(t->w, t->n), g = norm_of(t->u, t->n), decay = args->weight_decay;
    r->without_norm += w == 0 || g == 0;
    const double ratio = w == 0 || g == 0 ? 1 : r->trust_coefficient * w / (g + decay * w + r->eps);
    for (int64_t i = 0; i < t->n; i++) {
        t->m[i] = r->momentum * t->m[i] + args->lr * ratio * (t->u[i] + decay * t->w[i]);
        t->w[i] -= t->m[i];
    }
}

/* Update by the device, and compare with the formulas. The error is relative to the parameter's largest weight. */
static zr_status checked_update(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args)
{
    if (args->n == 0) return truth.plain.update(device, optimizer, args);
    tensor *t = find_tensor(args);
    (truth.rule->lars ? lars_truth : lamb_truth)(truth.rule, t, args);
    ZR_TRY(truth.plain.update(device, optimizer, args));
    double most = 1e-3, error = 0;
    for (int64_t i = 0; i < t->n; i++) {
        most = fmax(most, fabs(t->w[i]));
        error = fmax(error, fabs(t->w[i] - args->weight[i]));
    }
    truth.worst = fmax(truth.worst, error / most);
    return ZR_OK;
}

static void check_updates(trainer *run, zr_device *device)
{
    (void)run;
    truth.plain = *device->ops;
    truth.checked = truth.plain;
    truth.checked.update = checked_update;
    device->ops = &truth.checked;
}

/* Return a trainer of a very small model. On one rank each update is of a whole parameter. */
static trainer tiny(const zr_optimizer *optimizer)
{
    trainer run = trainer_odd();
    run.config.n_layer = 1;
    run.config.n_embd = 21;
    run.layout.optimizer = *optimizer;
    run.steps = STEPS;
    run.lr = 2e-3;
    return run;
}

static void follow(rule *r, const zr_optimizer *optimizer)
{
    memset(&truth, 0, sizeof truth);
    truth.rule = r;
    trainer run = tiny(optimizer);
    run.tune = check_updates;
    trainer_run(&run);
    assert_true(truth.n > 10 && r->without_norm > 0); /* the biases begin with zeros */
    if (truth.worst > 2e-6) fail_msg("%s differs from its formula by %g", optimizer->name, truth.worst);
}

static void test_lamb_formulas(void **state)
{
    (void)state;
    for (int i = 0; i < 9; i++) {
        rule r = {.variant = (zr_lamb_variant)(i % 3)};
        r.lamb = zr_lamb_defaults(r.variant);
        r.lamb.weight_decay = 0.01;
        if (i == 3) {
            r.lamb.min_coeff = 0.05;
            r.lamb.max_coeff = 0.3;
            r.lamb.eps_inside_sqrt = true;
            r.lamb.eps = 1e-5;
        }
        if (i == 6 || i == 5) r.lamb.bias_correction = false;
        if (i == 4) r.lamb.adam_w_mode = r.lamb.grad_averaging = false;
        if (i == 7) r.lamb.use_nvlamb = true;
        if (i == 8) r.lamb.beta1 = 0.5;
        const zr_optimizer lamb = zr_lamb(r.variant, &r.lamb);
        follow(&r, &lamb);
        assert_true(i != 3 || (r.clamped > 10 && r.free > 10));
    }
    /* Without arguments, the variants have their authors' hyperparameters. */
    const zr_optimizer deepspeed = zr_lamb(ZR_LAMB_DEEPSPEED, NULL), nvidia = zr_lamb(ZR_LAMB_NVIDIA, NULL);
    assert_true(deepspeed.weight_decay == 0 && deepspeed.hyper[2] == 1e-8 && deepspeed.hyper[4] == 10);
    assert_true(nvidia.weight_decay == 0.01 && nvidia.hyper[2] == 1e-6 && isinf(nvidia.hyper[4]));
}

static void test_lars_formula(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        rule r = {.lars = true, .momentum = i ? 0.9 : 0, .trust_coefficient = 0.02, .eps = 1e-8};
        const zr_optimizer lars = zr_lars(r.momentum, r.trust_coefficient, r.eps, 0.1);
        assert_int_equal(lars.n_slots, i);
        follow(&r, &lars);
    }
}

/* Check that a parameter with neither gradient nor weight decay has a direction of zeros: it does not change. */
static void test_zero_gradient(void **state)
{
    (void)state;
    zr_device_config plain = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    assert_int_equal(zr_device_create_cpu(&plain, &device), ZR_OK);
    const zr_optimizer rules[] = {zr_lamb(ZR_LAMB_DEEPSPEED, NULL), zr_lamb(ZR_LAMB_PAPER, NULL),
                                  zr_lars(0.9, 0.001, 1e-8, 0.1)};
    for (int k = 0; k < 3; k++) {
        float w[5] = {1, -2, 3, 0, 5}, g[5] = {0}, m[5] = {0}, v[5] = {0};
        zr_trust trust = {{.bad = -1}, {.bad = -1}};
        zr_update_args args = {.n = 5, .weight = w, .grad = g, .slot = {m, v}, .grad_scale = 1, .lr = 0.1, .step = 1};
        args.hyper = rules[k].hyper;
        assert_int_equal(device->ops->square_update(device, &rules[k], &args, false, 7, &trust), ZR_OK);
        assert_true(trust.weight.sum == 39 && trust.direction.sum == 0);
        args.norms = (zr_norms){sqrt(39), 0};
        assert_int_equal(device->ops->update(device, &rules[k], &args), ZR_OK);
        assert_true(w[0] == 1 && w[1] == -2 && w[2] == 3 && w[3] == 0 && w[4] == 5);
    }
    zr_optimizer none = zr_adamw(0.9, 0.999, 1e-8, 0);
    none.trust = true;
    zr_update_args args = {.hyper = none.hyper};
    assert_int_equal(device->ops->square_update(device, &none, &args, false, 0, &(zr_trust){0}), ZR_ERR_UNSUPPORTED);
    zr_device_destroy(&device);
}

/* ---- bits -------------------------------------------------------------------------------------- */

static zr_optimizer optimizer_of(int i)
{
    return i % 2 ? zr_lars(0.9, 0.02, 1e-8, 0.1) : zr_lamb(i % 4 ? ZR_LAMB_NVIDIA : ZR_LAMB_DEEPSPEED, NULL);
}

/* Check all stages and layouts, with optimizer states on the device and in host memory. */
static void test_layouts(void **state)
{
    (void)state;
    static const struct {
        int ranks;
        zr_dtype dtype;
        int64_t accum;
        double clip;
        bool away, exact;
    } way[] = {{1, ZR_F32, 1, 0, false, false}, {2, ZR_BF16, 1, 0, false, false}, {3, ZR_F16, 1, 0.5, true, false},
               {2, ZR_F32, 3, 1, true, false},  {4, ZR_BF16, 1, 0, true, true},   {3, ZR_F32, 1, 0, false, false}};
    const int shares = is_long_run() ? 1 : 4;
    for (int i = 0; i < 6; i++) {
        trainer want = layout_trainer(way[i].ranks, way[i].dtype, way[i].accum, way[i].clip);
        want.layout.optimizer = optimizer_of(i);
        want.layout.rank_free_sums = way[i].exact;
        want.lanes = i % 2;
        trainer_run(&want);
        if (way[i].away) {
            want.layout.home.optim = ZR_SPACE_HOST;
            want.layout.home.bucket_elems = 352; /* rounded up to a block of the sums of squares */
        }
        layout_check(&want, i, shares);
    }
}

/* Check units of several buckets. Their squares are the same in one piece and in buckets, from memory or from disk,
 * with one thread and with several. */
static void test_buckets(void **state)
{
    (void)state;
    for (int exact = 0; exact <= 1; exact++)
        for (int ranks = 1; ranks <= 2; ranks++) {
            trainer want = trainer_odd();
            want.config.n_layer = 1;
            want.layout.optimizer = optimizer_of(0);
            want.layout.ranks = ranks;
            want.layout.rank_free_sums = exact;
            want.steps = 2;
            trainer_run(&want);
            for (int i = 0; i < 4; i++) {
                trainer got = want;
                got.threads = i == 1 ? 3 : 1;
                got.layout.stage = i;
                const zr_space home = i == 0 ? ZR_SPACE_HOST : i == 1 ? ZR_SPACE_DEVICE : ZR_SPACE_DISK;
                got.layout.home = (zr_homes){.optim = home, .param_share = 1, .optim_share = 1, .bucket_elems = 4096};
                if (i == 3) got.layout.home.param = got.layout.home.grad = home;
                trainer_run(&got);
                layout_assert_same(&want, &got, "in buckets");
            }
        }
}

/* Check refusals: a rank's part of states on disk must begin with a block. */
static void test_refused(void **state)
{
    (void)state;
    trainer run = trainer_odd();
    const zr_model model = trainer_model(&run);
    const zr_profile profile = {
        .facts = {.name = "test", .threads = 1, .panel_bytes = 1 << 16, .scratch_bytes = zr_device_cpu_scratch}};
    zr_plan *plan = NULL;
    run.layout.ranks = 2;
    run.layout.optimizer = zr_lamb(ZR_LAMB_PAPER, NULL);
    run.layout.home.optim = ZR_SPACE_DISK;
    assert_int_equal(zr_plan_create(&model, &run.layout, &profile, &plan), ZR_ERR_UNSUPPORTED);
    assert_non_null(strstr(zr_error_message(), "at stage 0 with the trust ratios of lamb"));
    run.layout.home.optim = ZR_SPACE_DEVICE;
    run.layout.tile_elems = 64;
    assert_int_equal(zr_plan_create(&model, &run.layout, &profile, &plan), ZR_ERR_UNSUPPORTED);
    assert_non_null(strstr(zr_error_message(), "(memory.tile_elems 64) with the trust ratios of lamb"));
    run.layout = zr_layout_default();
    run.layout.seq = 17;
    run.layout.optimizer = zr_sgd(0, false, 0);
    run.layout.optimizer.trust = true;
    run.layout.optimizer.rule = (void (*)(const zr_update_args *))1;
    assert_int_equal(zr_plan_create(&model, &run.layout, &profile, &plan), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "a rule, but no direction"));
}

/* ---- numbers of ranks -------------------------------------------------------------------------- */

static trainer over(int ranks, int pieces, bool exact)
{
    trainer run = trainer_odd();
    run.config.n_head = pieces > 1 ? 2 : 3;
    run.config.n_embd = pieces > 1 ? 36 : 57;
    run.layout.ranks = ranks;
    run.layout.tensor = pieces;
    run.layout.batch = exact ? 1 : 6 / ranks;
    run.layout.accum = exact ? 4 / ranks : 1;
    run.layout.optimizer = zr_lamb(ZR_LAMB_DEEPSPEED, NULL);
    run.layout.rank_free_sums = exact;
    run.steps = 6;
    run.lr = 1e-2;
    return run;
}

static void test_ranks(void **state)
{
    (void)state;
    trainer one = over(1, 1, true);
    trainer_run(&one);
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        trainer more = over(ranks, 1, true);
        more.layout.stage = ranks == 2 ? 3 : 1;
        trainer_run(&more);
        layout_assert_same(&one, &more, "sums for any number of ranks");
    }
    trainer want = over(1, 1, false), got = over(3, 1, false);
    got.layout.stage = 2;
    trainer_run(&want);
    trainer_run(&got);
    for (int i = 0; i < want.steps; i++) assert_float_equal(got.loss[i], want.loss[i], 2e-6 * want.loss[i]);
}

/* Check that a norm is of the whole parameter, although a tensor-parallel rank may have only a piece. With a large eps,
 * norms that are too large by a common factor do not cancel out. */
static void test_tensor(void **state)
{
    (void)state;
    trainer want = over(1, 2, false);
    want.layout.tensor = 1;
    want.layout.optimizer = zr_lars(0.9, 0.5, 1, 0.1);
    trainer_run(&want);
    trainer first = over(2, 2, false);
    first.layout.optimizer = want.layout.optimizer;
    trainer_run(&first);
    for (int i = 0; i < want.steps; i++) assert_float_equal(first.loss[i], want.loss[i], 2e-6 * want.loss[i]);
    for (int stage = 1; stage <= 3; stage++) {
        trainer got = first;
        got.layout.stage = stage;
        got.layout.states = stage == 3 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
        got.layout.norm_first = true;
        trainer_run(&got);
        layout_assert_same(&first, &got, "tensor-parallel ranks");
    }
}

/* ---- a rule of one's own ----------------------------------------------------------------------- */

/* Update by LARS without momentum, as a user may write it. */
static void own_rule(const zr_update_args *args)
{
    const double w = args->norms.weight, g = args->norms.direction;
    const double ratio = w == 0 || g == 0 ? 1 : args->hyper[1] * w / (g + args->weight_decay * w + args->hyper[2]);
    const float step = (float)(args->lr * ratio), decay = (float)args->weight_decay;
    for (int64_t i = 0; i < args->n; i++)
        args->weight[i] = fmaf(-step, fmaf(decay, args->weight[i], ((const float *)args->grad)[i] * args->grad_scale),
                               args->weight[i]);
}

static void own_direction(const zr_update_args *args, float *out)
{
    for (int64_t i = 0; i < args->n; i++) out[i] = ((const float *)args->grad)[i] * args->grad_scale;
}

static void test_own_rule(void **state)
{
    (void)state;
    const zr_optimizer lars = zr_lars(0, 0.02, 1e-8, 0.1);
    trainer want = tiny(&lars), got;
    want.steps = 4;
    want.layout.ranks = 2;
    want.layout.stage = 2;
    trainer_run(&want);
    got = want;
    got.layout.optimizer.rule = own_rule;
    got.layout.optimizer.direction = own_direction;
    trainer_run(&got);
    for (int i = 0; i < want.steps; i++) assert_float_equal(got.loss[i], want.loss[i], 1e-6 * want.loss[i]);
    got.layout.stage = 3;
    trainer again = got;
    trainer_run(&again);
    got.layout.stage = 0;
    trainer_run(&got);
    layout_assert_same(&got, &again, "a rule of one's own");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lamb_formulas), cmocka_unit_test(test_lars_formula), cmocka_unit_test(test_zero_gradient),
        cmocka_unit_test(test_layouts),       cmocka_unit_test(test_buckets),      cmocka_unit_test(test_refused),
        cmocka_unit_test(test_ranks),         cmocka_unit_test(test_tensor),       cmocka_unit_test(test_own_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
