//TEST timeout=60
#include <math.h>
#include <string.h>

#include "base/number/exact.h"
#include "device/device_levels.h"

#define N 9001 /* number of elements, more than one thread updates at a time */

typedef struct arrays {
    float weight[N], slot[2][N], grad[N];
    uint16_t param16[N], grad16[N];
    zr_dtype grad_dtype;
} arrays;

static arrays got, want;

static const zr_optimizer rules[] = {
    {.name = "adamw", .n_slots = 2, .hyper = {0.9, 0.95, 1e-8}, .weight_decay = 0.1},
    {.name = "adam", .n_slots = 2, .hyper = {0.8, 0.999, 1e-6}, .weight_decay = 0.01},
    {.name = "sgd", .n_slots = 0, .hyper = {0, 0}, .weight_decay = 0.01},
    {.name = "sgd", .n_slots = 1, .hyper = {0.9, 0}, .weight_decay = 0},
    {.name = "sgd", .n_slots = 1, .hyper = {0.9, 1}, .weight_decay = 0.01},
    {.name = "adamw", .n_slots = 2, .hyper = {0.9, 0.95, 1e-3, 1}, .weight_decay = 0.1},
    {.name = "lion", .n_slots = 1, .hyper = {0.9, 0.99}, .weight_decay = 0.1},
};
#define RULES (sizeof rules / sizeof *rules)

static void start(arrays *a)
{
    memset(a, 0, sizeof *a);
    fill(a->weight, N, 1);
}

static void next_grad(arrays *a, uint32_t step, zr_dtype dtype)
{
    fill(a->grad, N, 10 + step);
    a->grad_dtype = dtype;
    if (dtype != ZR_F32) narrow(a->grad16, dtype, a->grad, N);
}

static zr_update_args args_of(arrays *a, const zr_optimizer *o, int64_t first, int64_t n, int64_t step,
                              zr_dtype param_dtype)
{
    return (zr_update_args){.n = n,
                            .weight = a->weight + first,
                            .param16 = a->param16 + first,
                            .param_dtype = param_dtype,
                            .grad = a->grad_dtype == ZR_F32 ? (void *)(a->grad + first) : a->grad16 + first,
                            .grad_dtype = a->grad_dtype,
                            .slot = {a->slot[0] + first, a->slot[1] + first},
                            .grad_scale = 0.5f,
                            .lr = 0.01,
                            .weight_decay = o->weight_decay,
                            .step = step,
                            .hyper = o->hyper};
}

/* Update one element in double, by the formulas of the papers and PyTorch's documentation. */
static void reference(const zr_optimizer *o, int64_t step, double g, double *w, double *s0, double *s1)
{
    const double lr = 0.01, *h = o->hyper;
    g *= 0.5;
    if (o->n_slots == 2) {
        if (strcmp(o->name, "adamw") == 0)
            *w -= lr * o->weight_decay * *w;
        else
            g += o->weight_decay * *w;
        *s0 = h[0] * *s0 + (1 - h[0]) * g;
        *s1 = h[1] * *s1 + (1 - h[1]) * g * g;
        double m = *s0 / (h[3] ? 1 : 1 - pow(h[0], (double)step)), v = *s1 / (h[3] ? 1 : 1 - pow(h[1], (double)step));
        *w -= lr * m / (sqrt(v) + h[2]);
        return;
    }
    if (strcmp(o->name, "lion") == 0) {
        const double u = h[0] * *s0 + (1 - h[0]) * g;
        *w -= lr * ((u > 0) - (u < 0) + o->weight_decay * *w);
        *s0 = h[1] * *s0 + (1 - h[1]) * g;
        return;
    }
    g += o->weight_decay * *w;
    if (o->n_slots == 1) {
        *s0 = h[0] * *s0 + g;
        g = h[1] != 0 ? g + h[0] * *s0 : *s0;
    }
    *w -= lr * g;
}

static void check_reference(zr_device *device)
{
    static const int64_t steps[] = {1, 2, 3, 1000000}; /* also late steps, where the bias corrections are 1 */
    for (size_t r = 0; r < RULES; r++) {
        start(&got);
        start(&want);
        for (int k = 0; k < 4; k++) {
            const int64_t step = steps[k];
            next_grad(&got, (uint32_t)k, dtypes[k % N_DTYPES]);
            const zr_dtype param_dtype = k % 2 ? ZR_BF16 : ZR_F16;
            zr_update_args args = args_of(&got, &rules[r], 0, N, step, param_dtype);
            memcpy(&want, &got, sizeof got);
            assert_int_equal(device->ops->update(device, &rules[r], &args), ZR_OK);
            for (int64_t i = 0; i < N; i++) {
                double w = want.weight[i], s0 = want.slot[0][i], s1 = want.slot[1][i];
                reference(&rules[r], step, got.grad[i], &w, &s0, &s1);
                assert_true(fabs(got.weight[i] - w) <= 4e-7 * (fabs(w) + 0.05));
                assert_true(fabs(got.slot[0][i] - s0) <= 4e-7 * (fabs(s0) + 0.5));
                assert_true(fabs(got.slot[1][i] - s1) <= 4e-7 * (fabs(s1) + 0.05));
                uint16_t stored;
                array_set(&stored, param_dtype, 0, got.weight[i]);
                assert_int_equal(got.param16[i], stored);
            }
        }
    }
}

/* Check that an update in three ranges, cut at odd places, gives the bits of one update. */
static void check_cuts(zr_device *device)
{
    static const int64_t sizes[] = {1, 63, 64, 65, 1023};
    for (size_t r = 0; r < RULES; r++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            const int64_t cut[] = {0, 3, 3 + sizes[s], N};
            const zr_dtype dtype = s % 2 ? ZR_BF16 : ZR_F16;
            start(&got);
            next_grad(&got, 1, dtype);
            memcpy(&want, &got, sizeof got);
            zr_update_args args = args_of(&want, &rules[r], 0, N, 1, dtype);
            assert_int_equal(device->ops->update(device, &rules[r], &args), ZR_OK);
            for (int c = 0; c < 3; c++) {
                args = args_of(&got, &rules[r], cut[c], cut[c + 1] - cut[c], 1, dtype);
                assert_int_equal(device->ops->update(device, &rules[r], &args), ZR_OK);
            }
            assert_memory_equal(&got, &want, sizeof got);
        }
    }
}

/* Check that LAMB and LARS give the same bits when an update is made in ranges, with 16-bit and fp32 gradients, and
 * that their squares do if the ranges begin at blocks. The squares are of the weights and of the direction that the
 * update applies. */
static void check_trust(zr_device *device)
{
    static const int64_t cuts[] = {0, 5, 5 + ZR_TRUST_BLOCK, N}, shard = 2 * ZR_TRUST_BLOCK - 5;
    zr_lamb_args settings = zr_lamb_defaults(ZR_LAMB_NVIDIA);
    settings.adam_w_mode = settings.grad_averaging = false;
    const zr_optimizer trusting[] = {zr_lamb(ZR_LAMB_DEEPSPEED, NULL), zr_lamb(ZR_LAMB_NVIDIA, &settings),
                                     zr_lars(0.9, 0.01, 1e-8, 0.1), zr_lars(0, 0.01, 1e-8, 0)};
    for (int r = 0; r < 4; r++)
        for (int exact = 0; exact <= 1; exact++) {
            const zr_optimizer *o = &trusting[r];
            start(&want);
            next_grad(&want, 2, dtypes[r % N_DTYPES]);
            memcpy(&got, &want, sizeof got);
            zr_trust whole = {{.bad = -1}, {.bad = -1}}, parts = whole;
            zr_update_args args = args_of(&want, o, 0, N, 2, ZR_BF16);
            args.lr = -1; /* rate -1: an update adds the computed direction */
            assert_int_equal(device->ops->square_update(device, o, &args, exact, shard, &whole), ZR_OK);
            assert_memory_equal(&got, &want, sizeof got);
            for (int c = 0; c < 3; c++) {
                zr_update_args part = args_of(&got, o, cuts[c], cuts[c + 1] - cuts[c], 2, ZR_BF16);
                assert_int_equal(device->ops->square_update(device, o, &part, exact, shard + cuts[c], &parts), ZR_OK);
            }
            assert_memory_equal(&whole, &parts, sizeof whole);
            args.norms = (zr_norms){2, 3};
            assert_int_equal(device->ops->update(device, o, &args), ZR_OK);
            double weight = 0, moved = 0;
            for (int64_t i = 0; i < N; i++) {
                const double d = (double)want.weight[i] - got.weight[i];
                weight += (double)got.weight[i] * got.weight[i];
                moved += d * d;
            }
            const double w = exact ? zr__exact_value(&whole.weight.exact) : whole.weight.sum;
            const double u = exact ? zr__exact_value(&whole.direction.exact) : whole.direction.sum;
            assert_true(fabs(w - weight) <= 1e-12 * weight);
            /* LAMB's ratio is 2/3. LARS's direction is the gradient, and its ratio also contains weight decay, so it is
             * left out */
            double ratio = 2.0 / 3;
            if (r == 0) ratio *= sqrt(1 - pow(0.999, 2)) / (1 - pow(0.9, 2));
            if (r == 3) ratio = 0.01 * 2 / (3 + 1e-8);
            if (r != 2) assert_true(fabs(moved - ratio * ratio * u) <= 2e-5 * moved);
            for (int c = 0; c < 3; c++) {
                zr_update_args part = args_of(&got, o, cuts[c], cuts[c + 1] - cuts[c], 2, ZR_BF16);
                part.lr = args.lr;
                part.norms = args.norms;
                assert_int_equal(device->ops->update(device, o, &part), ZR_OK);
            }
            assert_memory_equal(&got, &want, sizeof got);
        }
}

/* ---- states in records --------------------------------------------------------------------------- */

enum { IN_RECORDS = 5 * 256 + 77, WHOLE_RECORDS = 6 };

/* The states of AdamW in records. Behind the last element are zeros. */
typedef struct coded {
    uint8_t state[2][WHOLE_RECORDS * 258];
} coded;

static const zr_dtype kinds[] = {ZR_E4M3X256, ZR_E5M2X256};

static void encode(zr_device *device, coded *to, float x[2][N])
{
    memset(to, 0, sizeof *to);
    for (int s = 0; s < 2; s++)
        assert_int_equal(device->ops->cast(device, to->state[s], kinds[s], x[s], ZR_F32, IN_RECORDS, NULL), ZR_OK);
}

static void decode(zr_device *device, float x[2][N], const coded *from)
{
    for (int s = 0; s < 2; s++)
        assert_int_equal(device->ops->cast(device, x[s], ZR_F32, from->state[s], kinds[s], IN_RECORDS, NULL), ZR_OK);
}

/* Update elements [first, first + n) of `a`, with states in records. `first` begins a record. */
static void update_coded(zr_device *device, arrays *a, coded *c, const zr_optimizer *o, int64_t first, int64_t n,
                         int64_t step)
{
    zr_update_args args = args_of(a, o, first, n, step, ZR_BF16);
    for (int s = 0; s < 2; s++) {
        args.slot[s] = (void *)(c->state[s] + zr_dtype_span(kinds[s], first));
        args.slot_dtype[s] = kinds[s];
    }
    args.rng = (zr_rng){.seed = 5, .purpose = ZR_RNG_STATES, .stream = 3, .step = (uint32_t)step};
    args.first = first;
    assert_int_equal(device->ops->update(device, o, &args), ZR_OK);
}

/* Check that an update is that of fp32 states with the decoded values; that the new states are rounded to a neighbour,
 * never to 0, and are encoded again without a change; and that ranges do not matter. */
static void check_in_records(zr_device *device)
{
    static const int64_t cuts[] = {0, 256, 4 * 256, IN_RECORDS};
    static float x[2][N], again[2][N];
    coded start_states, states, parts;
    for (int k = 0; k < 3; k++) {
        start(&got);
        next_grad(&got, (uint32_t)k, dtypes[k % N_DTYPES]);
        fill(x[0], N, 20);
        fill(x[1], N, 21);
        for (int64_t i = 0; i < N; i++) {
            const float wide = expf(8 * x[1][i]); /* elements of very different sizes */
            x[0][i] *= wide;
            x[1][i] = wide * wide;
        }
        encode(device, &start_states, x);
        decode(device, got.slot, &start_states);
        memcpy(&want, &got, sizeof got);
        zr_update_args args = args_of(&want, &rules[0], 0, IN_RECORDS, 7, ZR_BF16);
        assert_int_equal(device->ops->update(device, &rules[0], &args), ZR_OK);
        arrays pieces = got;
        states = parts = start_states;
        update_coded(device, &got, &states, &rules[0], 0, IN_RECORDS, 7);
        assert_memory_equal(got.weight, want.weight, sizeof got.weight);
        assert_memory_equal(got.param16, want.param16, sizeof got.param16);
        for (int c = 0; c < 3; c++) update_coded(device, &pieces, &parts, &rules[0], cuts[c], cuts[c + 1] - cuts[c], 7);
        assert_memory_equal(pieces.weight, want.weight, sizeof got.weight);
        assert_memory_equal(&parts, &states, sizeof states);
        decode(device, again, &states);
        for (int64_t i = 0; i < IN_RECORDS; i++) {
            float most[2] = {0};
            for (int64_t j = i / 256 * 256; j < IN_RECORDS && j < i / 256 * 256 + 256; j++)
                for (int s = 0; s < 2; s++) most[s] = fmaxf(most[s], fabsf(want.slot[s][j]));
            const double m = want.slot[0][i], v = want.slot[1][i];
            /* half a unit of 3 bits; a unit of 2 bits; and the rounded scale */
            assert_true(fabs(again[0][i] - m) <= fabs(m) * 0.067 + 1.01 * most[0] / 448 * 0x1p-10);
            assert_true(fabs(again[1][i] - v) <= v * 0.26 + 1.01 * most[1] / 57344 * 0x1p-16 && again[1][i] > 0);
        }
        encode(device, &parts, again);
        assert_memory_equal(&parts, &states, sizeof states);
    }
}

/* Check that second moments which change by less than a unit follow these changes in the mean, the largest one of a
 * record too, and that those which are too small for their record do not become 0. */
static void check_decays(zr_device *device)
{
    enum { STEPS = 300 };
    static float x[2][N], now[2][N];
    coded states;
    const zr_optimizer slow = {.name = "adamw", .n_slots = 2, .hyper = {0.9, 0.999, 1e-8}};
    double mean = 0, largest = 0;
    start(&got);
    got.grad_dtype = ZR_F32; /* gradients of 0 */
    fill(x[1], N, 22);
    for (int64_t i = 0; i < N; i++) x[1][i] = i % 256 == 100 ? 4 : i % 256 == 7 ? 1e-30f : 1.5f + x[1][i];
    memset(x[0], 0, sizeof x[0]);
    encode(device, &states, x);
    decode(device, x, &states);
    for (int k = 1; k <= STEPS; k++) update_coded(device, &got, &states, &slow, 0, IN_RECORDS, k);
    decode(device, now, &states);
    for (int64_t i = 0; i < IN_RECORDS; i++) {
        assert_true(now[1][i] > 0 && now[0][i] == 0);
        if (i % 256 == 100)
            largest += now[1][i] / x[1][i] / 5;
        else if (i % 256 != 7)
            mean += now[1][i] / x[1][i] / (IN_RECORDS - 11);
    }
    assert_true(fabs(mean - pow(0.999, STEPS)) < 0.02);
    assert_true(fabs(largest - pow(0.999, STEPS)) < 0.1);
}

/* Check against torch.optim.AdamW by hand: lr 0.1, betas (0.9, 0.999), eps 1e-8, weight_decay 0.5, weight 2, gradients
 * 3 and -1 give 2*0.95 - 0.1 = 1.8; then m = 0.17, v = 0.009991, 1.8*0.95 - 0.1 * (0.17/0.19) / sqrt(0.009991/0.001999)
 * = 1.66997843 */
static void check_by_hand(zr_device *device)
{
    const zr_optimizer adamw = {.name = "adamw", .n_slots = 2, .hyper = {0.9, 0.999, 1e-8}};
    const zr_optimizer sgd = {.name = "sgd", .n_slots = 1, .hyper = {0.5, 1}};
    float w = 2, m = 0, v = 0, g = 3;
    zr_update_args args = {.n = 1,
                           .weight = &w,
                           .grad = &g,
                           .slot = {&m, &v},
                           .grad_scale = 1,
                           .lr = 0.1,
                           .weight_decay = 0.5,
                           .step = 1,
                           .hyper = adamw.hyper};
    assert_int_equal(device->ops->update(device, &adamw, &args), ZR_OK);
    assert_true(fabsf(w - 1.8f) < 3e-7f);
    g = -1;
    args.step = 2;
    assert_int_equal(device->ops->update(device, &adamw, &args), ZR_OK);
    assert_true(fabs(w - (1.71 - 0.1 * (0.17 / 0.19) / sqrt(0.009991 / 0.001999))) < 3e-7);

    /* Nesterov: v = 0.5*4 + 2 = 4; w = 1 - 0.25 * (2 + 0.5*4) = 0, exact in binary. */
    w = 1;
    m = 4;
    g = 2;
    args.lr = 0.25;
    args.weight_decay = 0;
    args.hyper = sgd.hyper;
    assert_int_equal(device->ops->update(device, &sgd, &args), ZR_OK);
    assert_true(w == 0 && m == 4);

    /* Lion: u = 0.5*1 + 0.5*(-1) = 0 moves nothing, m = 0.75 - 0.25 = 0.5; then u = 0.25 - 1 and w = 0.75*0.75 + 0.25
     */
    const zr_optimizer lion = {.name = "lion", .n_slots = 1, .hyper = {0.5, 0.75}};
    w = m = 1;
    g = -1;
    args.weight_decay = 1;
    args.hyper = lion.hyper;
    assert_int_equal(device->ops->update(device, &lion, &args), ZR_OK);
    assert_true(w == 0.75f && m == 0.5f);
    g = -2;
    assert_int_equal(device->ops->update(device, &lion, &args), ZR_OK);
    assert_true(w == 0.8125f && m == -0.125f);
}

static void own_rule(const zr_update_args *args)
{
    for (int64_t i = 0; i < args->n; i++) args->weight[i] += (float)args->lr * ((const float *)args->grad)[i] + 1;
}

static void check_own_rule(zr_device *device)
{
    const zr_optimizer mine = {.name = "mine", .rule = own_rule}, unknown = {.name = "none such"};
    start(&got);
    start(&want);
    next_grad(&got, 1, ZR_F32);
    zr_update_args args = args_of(&got, &mine, 0, N, 1, ZR_BF16);
    assert_int_equal(device->ops->update(device, &mine, &args), ZR_OK);
    for (int64_t i = 0; i < N; i++) assert_true(got.weight[i] == want.weight[i] + (0.01f * got.grad[i] + 1));
    assert_int_equal(device->ops->update(device, &unknown, &args), ZR_ERR_UNSUPPORTED);
    assert_non_null(strstr(zr_error_message(), "none such"));
}

/* Check that a 16-bit copy of another type is refused before anything is written. */
static void check_param_dtype(zr_device *device)
{
    start(&got);
    start(&want);
    zr_update_args args = args_of(&got, &rules[0], 0, N, 1, ZR_F32);
    assert_int_equal(device->ops->update(device, &rules[0], &args), ZR_ERR_DTYPE);
    assert_non_null(strstr(zr_error_message(), "copy of a parameter is F32"));
    assert_memory_equal(&got, &want, sizeof got);
}

#define EACH(name)                                                                                                     \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        each_device(check_##name);                                                                                     \
    }
EACH(reference)
EACH(cuts)
EACH(by_hand)
EACH(trust)
EACH(in_records)
EACH(decays)
EACH(own_rule)
EACH(param_dtype)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference),  cmocka_unit_test(test_cuts),
                                       cmocka_unit_test(test_by_hand),    cmocka_unit_test(test_trust),
                                       cmocka_unit_test(test_own_rule),   cmocka_unit_test(test_param_dtype),
                                       cmocka_unit_test(test_in_records), cmocka_unit_test(test_decays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
