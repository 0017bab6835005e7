//TEST timeout=120 long=more tsan=gpu seeds=200
/* linear_cross_entropy, linear_cross_entropy_dx: checked against double in one block and in several, and in one block
 * against the ops that hold all logits. */
#include "device/cpu/linear_cross_entropy_blocks.h"
#include "device/cpu/matmul.h"
#include "device/device_levels.h"
#include "graph/internal.h"
#include "device/kernel_check.h"
#include "support/long.h"

typedef struct size {
    int64_t B, T, V, C;
} size;

/* One block; several blocks of similar length, the last one shorter; several equal blocks. */
static const size sizes[] = {{1, 1, 3, 1}, {2, 3, 131, 57}, {2, 301, 131, 57}, {3, 512, 33, 19}, {1, 513, 1030, 8}};
#define N_SIZES (int)(sizeof sizes / sizeof *sizes)

typedef struct problem {
    size s;
    zr_dtype g;
    int64_t rows;
    void *x, *w, *b; /* b: bias, or NULL */
    bool late;       /* whether the device adds the bias after it has rounded the logits */
    int32_t *target;
    float *dlosses;
} problem;

static problem problem_make(size s, zr_dtype g)
{
    problem p = {.s = s, .g = g, .rows = s.B * s.T};
    p.x = array_random(g, p.rows * s.C, 2.0);
    p.w = array_random(g, s.V * s.C, 1.0);
    p.target = ids_random(p.rows, s.V);
    p.dlosses = array_random(ZR_F32, p.rows, 1.0);
    for (int64_t r = 2; r < p.rows; r += 7) p.target[r] = -100;
    return p;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Return the scratch for a block's logits and sums, followed by the packed operands of its products. */
static int64_t scratch_of(const problem *p, const zr_device *device, zr_dtype w, bool backward)
{
    const zr__head_layout l =
        zr__head_layout_make(p->rows, zr__head_block(&(zr_graph_spec){.dtype = p->g}, p->rows, p->s.V), p->s.V, p->s.C,
                             p->g, w, backward && p->b);
    const int64_t V = p->s.V, C = p->s.C;
    const zr_device_facts *facts = &device->profile.facts;
    int64_t bytes = zr__matmul_scratch(facts, l.rows, V, C, p->g, p->g);
    if (!backward) return l.panels + bytes;
    bytes = most(bytes, zr__matmul_scratch(facts, l.rows, C, V, p->g, p->g));
    bytes = most(bytes, zr__matmul_scratch(facts, V, C, l.rows, p->g, l.sum_in_dw ? w : ZR_F32));
    return l.panels + bytes;
}

/* Add the bias, if there is one, as the last operand. */
static void add_bias(kernel_call *call, const problem *p)
{
    if (!p->b) return;
    call->attr.i[2] = 1;
    call->in[call->n_in++] = tensor1(p->b, p->g, p->s.V);
}

static kernel_call forward_call(const problem *p, const zr_device *device, float *losses)
{
    const size s = p->s;
    kernel_call call = {.name = "linear_cross_entropy",
                        .attr.i[0] = zr__head_block(&(zr_graph_spec){.dtype = p->g}, p->rows, p->s.V),
                        .n_in = 3,
                        .n_out = 1};
    call.in[0] = tensor3(p->x, p->g, s.B, s.T, s.C);
    call.in[1] = tensor2(p->w, p->g, s.V, s.C);
    call.in[2] = tensor2(p->target, ZR_I32, s.B, s.T);
    call.out[0] = tensor2(losses, ZR_F32, s.B, s.T);
    call.scratch_bytes = scratch_of(p, device, ZR_F32, false);
    add_bias(&call, p);
    return call;
}

static kernel_call backward_call(const problem *p, const zr_device *device, void *dx, void *dw, zr_dtype w,
                                 float *losses)
{
    const size s = p->s;
    kernel_call call = {.name = "linear_cross_entropy_dx",
                        .attr.i[0] = zr__head_block(&(zr_graph_spec){.dtype = p->g}, p->rows, p->s.V),
                        .n_in = 4,
                        .n_out = 3};
    call.in[0] = tensor2(p->dlosses, ZR_F32, s.B, s.T);
    call.in[1] = tensor3(p->x, p->g, s.B, s.T, s.C);
    call.in[2] = tensor2(p->w, p->g, s.V, s.C);
    call.in[3] = tensor2(p->target, ZR_I32, s.B, s.T);
    call.out[0] = tensor3(dx, p->g, s.B, s.T, s.C);
    call.out[1] = tensor2(dw, w, s.V, s.C);
    call.out[2] = tensor2(losses, ZR_F32, s.B, s.T);
    call.scratch_bytes = scratch_of(p, device, w, true);
    add_bias(&call, p);
    if (!p->b) return call;
    call.out[3] = call.out[2];
    call.out[2] = tensor1(array_new(w, s.V), w, s.V);
    call.n_out = 4;
    return call;
}

static void run_on(zr_device *device, kernel_call call)
{
    zr_status status = kernel_run(device, &call);
    if (status != ZR_OK) fail_msg("%s: %s", call.name, zr_error_message());
}

/* Check that a call without the outputs dw and db gives the same bits of dx and, where the op makes them, losses.
 * `call` has run. */
static void check_alone(zr_device *device, kernel_call call)
{
    const zr_tensor made[2] = {call.out[0], call.n_out > 2 ? call.out[call.n_out - 1] : call.out[0]};
    zr_tensor again[2] = {made[0], made[1]};
    const int outs = call.n_out > 3 ? 2 : call.n_out - 1;
    for (int i = 0; i < outs; i++) {
        again[i].data = array_new(made[i].dtype, zr_shape_elems(&made[i].shape));
        call.out[i] = again[i];
    }
    call.n_out = outs;
    run_on(device, call);
    for (int i = 0; i < outs; i++)
        assert_memory_equal(again[i].data, made[i].data,
                            (size_t)(zr_shape_elems(&made[i].shape) * zr_dtype_bytes(made[i].dtype)));
}

/* ---- reference in double ---------------------------------------------------------------------- */

typedef struct truth {
    double *losses, *dx, *dw, *db;
} truth;

/* Return x rounded as if stored in dtype g. */
static double stored(zr_dtype g, double x)
{
    float place;
    array_set(&place, g, 0, x);
    return array_get(&place, g, 0);
}

static void truth_row(const problem *p, const double *x, const double *w, int64_t r, double *logits, const truth *t)
{
    const int64_t V = p->s.V, C = p->s.C, target = p->target[r];
    double sum = 0.0;
    for (int64_t v = 0; v < V; v++) {
        const double bias = p->b ? array_get(p->b, p->g, v) : 0.0;
        double dot = p->late ? 0.0 : bias;
        for (int64_t c = 0; c < C; c++) dot += x[r * C + c] * w[v * C + c];
        logits[v] = stored(p->g, dot) + (p->late ? bias : 0.0);
        sum += exp(logits[v]);
    }
    t->losses[r] = target < 0 ? 0.0 : log(sum) - logits[target];
    for (int64_t v = 0; v < V && target >= 0; v++) {
        double dlogit = stored(p->g, p->dlosses[r] * (exp(logits[v]) / sum - (v == target)));
        for (int64_t c = 0; c < C; c++) {
            t->dx[r * C + c] += dlogit * w[v * C + c];
            t->dw[v * C + c] += dlogit * x[r * C + c];
        }
        t->db[v] += dlogit;
    }
}

static truth truth_make(const problem *p)
{
    const int64_t nx = p->rows * p->s.C, nw = p->s.V * p->s.C;
    truth t = {doubles_new(p->rows), doubles_new(nx), doubles_new(nw), doubles_new(p->s.V)};
    const double *x = doubles_of(p->x, p->g, nx), *w = doubles_of(p->w, p->g, nw);
    double *logits = doubles_new(p->s.V);
    for (int64_t r = 0; r < p->rows; r++) truth_row(p, x, w, r, logits, &t);
    return t;
}

/* Return a tolerance: a logit between two 16-bit numbers may be rounded to either, which changes every value computed
 * from it. */
static double tolerance(zr_dtype g)
{
    return g == ZR_F32 ? 2e-6 : g == ZR_F16 ? 1e-3 : 8e-3;
}

static void check(zr_device *device, const problem *p, const truth *want, zr_dtype w)
{
    const int64_t nx = p->rows * p->s.C, nw = p->s.V * p->s.C;
    float *losses = array_new(ZR_F32, p->rows), *again = array_new(ZR_F32, p->rows);
    void *dx = array_new(p->g, nx), *dw = array_new(w, nw);
    run_on(device, forward_call(p, device, losses));
    assert_close("losses", losses, ZR_F32, want->losses, p->rows, tolerance(p->g));
    kernel_call backward = backward_call(p, device, dx, dw, w, again);
    run_on(device, backward);
    assert_memory_equal(again, losses, (size_t)p->rows * sizeof *losses);
    assert_close("dx", dx, p->g, want->dx, nx, tolerance(p->g));
    assert_close("dw", dw, w, want->dw, nw, tolerance(p->g));
    if (p->b) assert_close("db", backward.out[2].data, w, want->db, p->s.V, tolerance(p->g));
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t c = 0; c < p->s.C && p->target[r] < 0; c++)
            assert_true(losses[r] == 0.0f && array_get(dx, p->g, r * p->s.C + c) == 0.0);

    check_alone(device, backward);
    void *place = array_copy(p->x, p->g, nx), *dw_again = array_new(w, nw);
    backward.in[1].data = backward.out[0].data = place;
    backward.out[1].data = dw_again;
    run_on(device, backward);
    assert_memory_equal(place, dx, (size_t)(nx * zr_dtype_bytes(p->g)));
    assert_memory_equal(dw_again, dw, (size_t)(nw * zr_dtype_bytes(w)));
}

/* Return whether dw has type `w` in this turn: fp32 or the operands' type. A short run checks only one of them. */
static bool takes(const problem *p, zr_dtype w, int turn)
{
    return is_long_run() || p->g == ZR_F32 || (w == ZR_F32) == (turn % 2 == 0);
}

/* Return whether a short run leaves out a type of a size. The stand-in for GPUs is slow and checks each size in one
 * type. */
static bool is_left_out(const level_pair *level, int turn, int dtype)
{
#ifdef ZR_GPU
    (void)level, (void)turn, (void)dtype;
    return false;
#else
    return !is_long_run() && level->one->profile.facts.own_memory && (turn + dtype) % N_DTYPES != 0;
#endif
}

/* Check losses and gradients. A short run checks a size and a type with one thread or with three, and on a GPU only
 * once. */
static void values(const level_pair *level)
{
    const bool gpu = level->one->profile.facts.own_memory;
    for (int i = 0; i < N_SIZES; i++)
        for (int d = 0; d < N_DTYPES; d++) {
            if (is_left_out(level, i, d) || !is_in_run()) continue;
            problem p = problem_make(sizes[i], dtypes[d]);
            if ((i + d) % 2 == 0) p.b = array_random(p.g, p.s.V, 3.0);
            p.late = gpu;
            truth want = truth_make(&p);
            zr_device *both[] = {level->one, level->three};
            for (int t = 0; t < 2; t++) {
                if (t != (gpu ? 0 : (i + d) / 2 % 2) && !is_long_run()) continue;
                if (takes(&p, ZR_F32, i + d + t)) check(both[t], &p, &want, ZR_F32);
                if (p.g != ZR_F32 && takes(&p, p.g, i + d + t)) check(both[t], &p, &want, p.g);
            }
            pool_clear();
        }
}

static void test_values(void **state)
{
    (void)state;
    for_every_level(values);
}

/* ---- the unfused ops -------------------------------------------------------------------------- */

static kernel_call pair_call(const char *name, int n_in, int64_t scratch)
{
    return (kernel_call){.name = name, .attr.i[0] = 1, .n_in = n_in, .n_out = 1, .scratch_bytes = scratch};
}

/* Check that linear and cross_entropy and their adjoints give identical numbers in one block. On a real GPU they differ
 * slightly, since rows of logits are farther apart in the scratch, and the library's products depend on that. */
static void unfused(const level_pair *level)
{
    if (!is_in_run()) return;
#ifdef ZR_GPU
    if (level->one->profile.facts.own_memory) return;
#endif
    for (int d = 0; d < N_DTYPES; d++) {
        problem p = problem_make((size){2, 43, 131, 57}, dtypes[d]);
        const size s = p.s;
        zr_device *device = level->three;
        const int64_t n = p.rows * s.V, nx = p.rows * s.C, nw = s.V * s.C, scratch = scratch_of(&p, device, p.g, true);
        float *losses = array_new(ZR_F32, p.rows), *lse = array_new(ZR_F32, p.rows), *got = array_new(ZR_F32, p.rows);
        void *logits = array_new(p.g, n), *dx = array_new(p.g, nx), *dw = array_new(p.g, nw);
        void *got_dx = array_new(p.g, nx), *got_dw = array_new(p.g, nw);
        const zr_tensor x = tensor3(p.x, p.g, s.B, s.T, s.C), w = tensor2(p.w, p.g, s.V, s.C);
        const zr_tensor l = tensor3(logits, p.g, s.B, s.T, s.V), target = tensor2(p.target, ZR_I32, s.B, s.T);
        kernel_call call[] = {pair_call("linear", 2, scratch), pair_call("cross_entropy", 2, 0),
                              pair_call("cross_entropy_dx", 4, 0), pair_call("linear_dw", 2, scratch),
                              pair_call("linear_dx", 2, scratch)};
        const zr_tensor in[][4] = {
            {x, w}, {l, target}, {tensor2(p.dlosses, ZR_F32, s.B, s.T), l, target, tensor2(lse, ZR_F32, s.B, s.T)},
            {x, l}, {l, w},
        };
        const zr_tensor out[] = {l, tensor2(losses, ZR_F32, s.B, s.T), l, tensor2(dw, p.g, s.V, s.C),
                                 tensor3(dx, p.g, s.B, s.T, s.C)};
        call[1].n_out = 2;
        call[1].out[1] = tensor2(lse, ZR_F32, s.B, s.T);
        for (int i = 0; i < 5; i++) {
            memcpy(call[i].in, in[i], sizeof in[i]);
            call[i].out[0] = out[i];
            run_on(device, call[i]);
        }
        const kernel_call backward = backward_call(&p, device, got_dx, got_dw, p.g, got);
        run_on(device, backward);
        check_alone(device, backward);
        assert_memory_equal(got, losses, (size_t)p.rows * sizeof *got);
        assert_memory_equal(got_dx, dx, (size_t)(nx * zr_dtype_bytes(p.g)));
        assert_memory_equal(got_dw, dw, (size_t)(nw * zr_dtype_bytes(p.g)));
        pool_clear();
    }
}

static void test_unfused(void **state)
{
    (void)state;
    for_every_level(unfused);
}

/* ---- a split vocabulary ----------------------------------------------------------------------- */

/* The inputs of rank `place` of `ranks`: rows of w followed by padding rows, which hold numbers like tokens' rows. */
typedef struct part {
    problem p; /* with the part's V */
    int64_t all, place;
} part;

static part part_make(const problem *whole, int64_t ranks, int64_t place)
{
    const int64_t V = (whole->s.V + ranks - 1) / ranks, C = whole->s.C;
    part made = {.p = *whole, .all = whole->s.V, .place = place};
    made.p.s.V = V;
    made.p.w = array_random(whole->g, V * C, 1.0);
    for (int64_t i = 0; i < V * C && place * V * C + i < whole->s.V * C; i++)
        array_set(made.p.w, whole->g, i, array_get(whole->w, whole->g, place * V * C + i));
    return made;
}

static kernel_call part_call(const part *a, const zr_device *device, float *out)
{
    kernel_call call = forward_call(&a->p, device, out);
    call.name = "linear_cross_entropy_part";
    call.attr.i[1] = a->all;
    call.attr.i[3] = a->p.s.V;
    call.runtime.place = a->place;
    call.out[0] = tensor3(out, ZR_F32, a->p.s.B, a->p.s.T, 2);
    return call;
}

static kernel_call part_dx_call(const part *a, const zr_device *device, float *lse, void *dx, void *dw, zr_dtype w)
{
    kernel_call call = backward_call(&a->p, device, dx, dw, w, NULL);
    call.name = "linear_cross_entropy_part_dx";
    call.attr.i[1] = a->all;
    call.attr.i[3] = a->p.s.V;
    call.runtime.place = a->place;
    call.n_in = 5;
    call.n_out = 2;
    memmove(call.in + 2, call.in + 1, 3 * sizeof *call.in);
    call.in[1] = tensor2(lse, ZR_F32, a->p.s.B, a->p.s.T);
    return call;
}

static kernel_call join_call(const problem *p, int64_t ranks, float *all, float *losses, float *lse)
{
    const size s = p->s;
    kernel_call call = {.name = "linear_cross_entropy_join", .attr.i[1] = s.V, .n_in = 4, .n_out = 2};
    call.in[0] = (zr_tensor){all, ZR_F32, {4, {ranks, s.B, s.T, 2}}};
    call.in[1] = tensor3(p->x, p->g, s.B, s.T, s.C);
    call.in[2] = tensor2(p->w, p->g, s.V, s.C);
    call.in[3] = tensor2(p->target, ZR_I32, s.B, s.T);
    call.out[0] = tensor2(losses, ZR_F32, s.B, s.T);
    call.out[1] = tensor2(lse, ZR_F32, s.B, s.T);
    return call;
}

/* Check the sum of all ranks' dx, and each rank's rows of dw; padding has no gradient. */
static void check_part_gradients(zr_device *device, const problem *p, const truth *want, int64_t ranks, float *lse,
                                 zr_dtype w)
{
    const int64_t nx = p->rows * p->s.C, C = p->s.C, V = (p->s.V + ranks - 1) / ranks;
    void *dx = array_new(p->g, nx), *dw = array_new(w, V * C);
    float *sum = array_new(ZR_F32, nx);
    memset(sum, 0, (size_t)nx * sizeof *sum);
    for (int64_t m = 0; m < ranks; m++) {
        const part a = part_make(p, ranks, m);
        double *want_dw = doubles_new(V * C);
        for (int64_t i = 0; i < V * C && m * V * C + i < p->s.V * C; i++) want_dw[i] = want->dw[m * V * C + i];
        run_on(device, part_dx_call(&a, device, lse, dx, dw, w));
        for (int64_t i = 0; i < nx; i++) sum[i] += (float)array_get(dx, p->g, i);
        for (int64_t i = 0; i < V * C; i++)
            if (m * V * C + i >= p->s.V * C) assert_true(array_get(dw, w, i) == 0.0);
        assert_close("dw of a part", dw, w, want_dw, V * C, tolerance(p->g));
        check_alone(device, part_dx_call(&a, device, lse, dx, dw, w));
    }
    assert_close("dx of all parts", sum, ZR_F32, want->dx, nx, 2 * tolerance(p->g));
}

static void check_parts(zr_device *device, const problem *p, const truth *want, int64_t ranks, int turn)
{
    float *all = array_new(ZR_F32, ranks * p->rows * 2), *losses = array_new(ZR_F32, p->rows),
          *lse = array_new(ZR_F32, p->rows);
    for (int64_t m = 0; m < ranks; m++) {
        const part a = part_make(p, ranks, m);
        run_on(device, part_call(&a, device, all + m * p->rows * 2));
    }
    run_on(device, join_call(p, ranks, all, losses, lse));
    assert_close("losses of all parts", losses, ZR_F32, want->losses, p->rows, tolerance(p->g));
    if (takes(p, ZR_F32, turn)) check_part_gradients(device, p, want, ranks, lse, ZR_F32);
    if (p->g != ZR_F32 && takes(p, p->g, turn)) check_part_gradients(device, p, want, ranks, lse, p->g);
}

/* Check a whole vocabulary; parts with padding in the last; a rank with nothing but padding; several blocks. */
static void parts(const level_pair *level)
{
    if (!is_in_run()) return;
    static const struct {
        size s;
        int64_t ranks;
    } cut[] = {{{2, 3, 131, 57}, 1}, {{2, 3, 131, 57}, 5}, {{2, 3, 9, 5}, 4}, {{2, 301, 67, 9}, 3}};
    for (int i = 0; i < 4; i++)
        for (int d = 0; d < N_DTYPES; d++) {
            problem p = problem_make(cut[i].s, dtypes[d]);
            truth want = truth_make(&p);
            check_parts(level->three, &p, &want, cut[i].ranks, i + d);
            pool_clear();
        }
}

static void test_parts(void **state)
{
    (void)state;
    for_every_level(parts);
}

/* Check more rows than a GPU computes logits for at a time: three blocks, the last one shorter. */
static void long_blocks(const level_pair *level)
{
    if (!is_in_run()) return;
    for (int d = 0; d < N_DTYPES && level->one->profile.facts.own_memory; d++) {
        if (dtypes[d] == ZR_F16 && !is_long_run()) continue; /* kernels are the same for both 16-bit types */
        problem p = problem_make((size){1, 4133, 7, 3}, dtypes[d]);
        truth want = truth_make(&p);
        if (takes(&p, ZR_F32, d)) check(level->one, &p, &want, ZR_F32);
        if (p.g != ZR_F32 && takes(&p, p.g, d)) check(level->one, &p, &want, p.g);
        pool_clear();
    }
}

static void test_long_blocks(void **state)
{
    (void)state;
    for_every_level(long_blocks);
}

/* ---- tiles -------------------------------------------------------------------------------------- */

/* Make a call on tile m of `tiles`, which are parts of one rank. */
static kernel_call tile_of(kernel_call call, int64_t V, int64_t tiles, int64_t m)
{
    const int64_t i[] = {tiles * V, m * V, m, tiles};
    memcpy(call.attr.i + 3, i, sizeof i);
    call.runtime.place = 0;
    return call;
}

/* Check the gradients of tiles, from the last tile to the first: the sums of dx, alternately in place and in another
 * array, and dw, both alone and together with dx. */
static void check_tile_gradients(zr_device *device, const problem *p, const truth *want, int64_t tiles, float *lse,
                                 zr_dtype w)
{
    const int64_t nx = p->rows * p->s.C, C = p->s.C, V = (p->s.V + tiles - 1) / tiles;
    float *sum[] = {array_new(ZR_F32, nx), array_new(ZR_F32, nx)};
    void *dw = array_new(w, V * C);
    int now = 0;
    for (int64_t m = tiles - 1; m >= 0; m--) {
        const part a = part_make(p, tiles, m);
        const int next = m % 2 ? now : 1 - now;
        double *want_dw = doubles_new(V * C);
        for (int64_t i = 0; i < V * C && m * V * C + i < p->s.V * C; i++) want_dw[i] = want->dw[m * V * C + i];
        kernel_call call = tile_of(part_dx_call(&a, device, lse, sum[next], dw, w), V, tiles, m);
        call.out[0].dtype = ZR_F32;
        call.in[5] = tensor3(sum[now], ZR_F32, p->s.B, p->s.T, C);
        call.n_in = m + 1 < tiles ? 6 : 5;
        run_on(device, call);
        assert_close("dw of a tile", dw, w, want_dw, V * C, tolerance(p->g));
        now = next;
        call.name = "linear_cross_entropy_part_dw";
        call.attr.i[7] = 1;
        call.out[0] = call.out[1];
        call.n_in = 5;
        call.n_out = 1;
        memset(dw, 0xff, (size_t)(V * C * zr_dtype_bytes(w)));
        run_on(device, call);
        assert_close("dw alone", dw, w, want_dw, V * C, tolerance(p->g));
    }
    assert_close("dx of all tiles", sum[now], ZR_F32, want->dx, nx, tolerance(p->g));
}

static void check_tiles(zr_device *device, const problem *p, const truth *want, int64_t tiles, int turn)
{
    const int64_t V = (p->s.V + tiles - 1) / tiles;
    float *all[] = {array_new(ZR_F32, tiles * p->rows * 2), array_new(ZR_F32, tiles * p->rows * 2)};
    float *losses = array_new(ZR_F32, p->rows), *lse = array_new(ZR_F32, p->rows);
    int now = 0;
    for (int64_t m = 0; m < tiles; m++) {
        const part a = part_make(p, tiles, m);
        const int next = m % 2 ? now : 1 - now;
        kernel_call call = tile_of(part_call(&a, device, all[next]), V, tiles, m);
        call.out[0] = tensor3(all[next], ZR_F32, tiles * p->s.B, p->s.T, 2);
        call.in[3] = tensor3(all[now], ZR_F32, tiles * p->s.B, p->s.T, 2);
        call.n_in = m > 0 ? 4 : 3;
        run_on(device, call);
        now = next;
    }
    kernel_call join = join_call(p, tiles, all[now], losses, lse);
    join.in[0] = tensor3(all[now], ZR_F32, tiles * p->s.B, p->s.T, 2);
    run_on(device, join);
    assert_close("losses of all tiles", losses, ZR_F32, want->losses, p->rows, tolerance(p->g));
    if (takes(p, ZR_F32, turn)) check_tile_gradients(device, p, want, tiles, lse, ZR_F32);
    if (p->g != ZR_F32 && takes(p, p->g, turn)) check_tile_gradients(device, p, want, tiles, lse, p->g);
}

/* Check one tile; tiles with padding in the last; several blocks. */
static void tiles(const level_pair *level)
{
    if (!is_in_run()) return;
    static const struct {
        size s;
        int64_t tiles;
    } cut[] = {{{2, 3, 131, 57}, 5}, {{2, 3, 9, 5}, 1}, {{2, 301, 67, 9}, 3}};
    for (int i = 0; i < 3; i++)
        for (int d = 0; d < N_DTYPES; d++) {
            problem p = problem_make(cut[i].s, dtypes[d]);
            truth want = truth_make(&p);
            check_tiles(level->three, &p, &want, cut[i].tiles, i + d);
            pool_clear();
        }
}

static void test_tiles(void **state)
{
    (void)state;
    for_every_level(tiles);
}

/* ---- hits --------------------------------------------------------------------------------------- */

/* Fill x with integers from -most to `most`, so that logits are exact in every type, and often equal. */
static void fill_integers(void *x, zr_dtype g, int64_t n, int64_t most)
{
    for (int64_t i = 0; i < n; i++) array_set(x, g, i, (double)(rand() % (2 * most + 1) - most));
}

/* Make a problem of integers whose targets are often the largest logit, the first or the last of several equal ones.
 * wanted[r] receives whether the target of row r is the first largest one. Row 1 has no target, and row 3 a NaN. */
static problem integers_make(size s, zr_dtype g, bool bias, float *wanted)
{
    problem p = problem_make(s, g);
    double *logit = doubles_new(s.V);
    if (bias) p.b = array_random(g, s.V, 1.0);
    fill_integers(p.x, g, p.rows * s.C, 1);
    fill_integers(p.w, g, s.V * s.C, 2);
    if (bias) fill_integers(p.b, g, s.V, 1);
    for (int64_t r = 0; r < p.rows; r++) {
        int64_t first = 0, last = 0;
        for (int64_t v = 0; v < s.V; v++) {
            logit[v] = bias ? array_get(p.b, g, v) : 0;
            for (int64_t c = 0; c < s.C; c++)
                logit[v] += array_get(p.x, g, r * s.C + c) * array_get(p.w, g, v * s.C + c);
            if (logit[v] > logit[first]) first = v;
            if (logit[v] >= logit[last]) last = v;
        }
        p.target[r] = (int32_t)(r % 3 == 0 ? first : r % 3 == 1 ? last : rand() % s.V);
        if (r == 1) p.target[r] = -1;
        if (r == 3) array_set(p.x, g, r * s.C, NAN);
        wanted[r] = p.target[r] == first && r != 3;
    }
    return p;
}

/* Check losses and hits of a vocabulary in parts, on ranks or in tiles, beside the losses without hits. */
static void check_part_hits(zr_device *device, const problem *p, int64_t parts, bool tiled, const float *wanted)
{
    const int64_t V = (p->s.V + parts - 1) / parts, rows = p->rows;
    float *pairs = array_new(ZR_F32, parts * rows * 2), *all = array_new(ZR_F32, parts * rows * 3);
    float *losses = array_new(ZR_F32, rows), *again = array_new(ZR_F32, rows), *lse = array_new(ZR_F32, rows),
          *hits = array_new(ZR_F32, rows);
    for (int64_t m = 0; m < parts; m++) {
        const part a = part_make(p, parts, m);
        kernel_call call = part_call(&a, device, pairs + (tiled ? 0 : m * rows * 2));
        if (tiled) call = tile_of(call, V, parts, m);
        if (tiled) call.out[0].shape.dim[0] = parts * p->s.B;
        run_on(device, call);
        call.out[0].data = all + (tiled ? 0 : m * rows * 3);
        call.out[0].shape.dim[2] = 3;
        run_on(device, call);
    }
    kernel_call join = join_call(p, parts, pairs, losses, lse);
    run_on(device, join);
    join.in[0] = (zr_tensor){all, ZR_F32, {4, {parts, p->s.B, p->s.T, 3}}};
    join.out[0].data = again;
    join.out[2] = tensor2(hits, ZR_F32, p->s.B, p->s.T);
    join.n_out = 3;
    run_on(device, join);
    assert_memory_equal(again, losses, (size_t)rows * sizeof *losses);
    assert_memory_equal(hits, wanted, (size_t)rows * sizeof *hits);
}

/* Check hits of a whole vocabulary, with the same losses as without hits, and of parts. */
static void check_hits(zr_device *device, const problem *p, const float *wanted)
{
    const int64_t rows = p->rows;
    float *losses = array_new(ZR_F32, rows), *again = array_new(ZR_F32, rows), *got = array_new(ZR_F32, rows);
    kernel_call call = forward_call(p, device, losses);
    run_on(device, call);
    call.out[0].data = again;
    call.out[1] = tensor2(got, ZR_F32, p->s.B, p->s.T);
    call.n_out = 2;
    run_on(device, call);
    assert_memory_equal(again, losses, (size_t)rows * sizeof *losses);
    assert_memory_equal(got, wanted, (size_t)rows * sizeof *got);
    for (int64_t parts = 1; parts <= 4 && !p->b; parts += 3) {
        check_part_hits(device, p, parts, false, wanted);
        check_part_hits(device, p, parts, true, wanted);
    }
}

/* Check hits with one block and several, with a last part that is only padding (9 tokens in four parts), and with a NaN
 * among the logits of each row. */
static void hits(const level_pair *level)
{
    static const size sizes_of[] = {{2, 3, 131, 5}, {2, 3, 9, 5}, {1, 9, 2100, 3}, {2, 301, 67, 4}};
    for (int i = 0; i < 4; i++)
        for (int d = 0; d < N_DTYPES; d++) {
            if (is_left_out(level, i, d) || !is_in_run()) continue;
            const size s = sizes_of[i];
            float *wanted = array_new(ZR_F32, s.B * s.T);
            const problem p = integers_make(s, dtypes[d], d % 2 == i % 2, wanted);
            check_hits(level->three, &p, wanted);
            for (int64_t r = 0; r < p.rows; r++) {
                wanted[r] = 0;
                if (p.target[r] == s.V / 2) p.target[r] = 0;
            }
            array_set(p.w, p.g, s.V / 2 * s.C, NAN);
            if (i < 2) check_hits(level->three, &p, wanted);
            pool_clear();
        }
}

static void test_hits(void **state)
{
    (void)state;
    for_every_level(hits);
}

/* ---- errors ----------------------------------------------------------------------------------- */

static void bad_targets(const level_pair *level)
{
    problem p = problem_make((size){2, 301, 131, 57}, ZR_F32);
    float *losses = array_new(ZR_F32, p.rows), *dx = array_new(ZR_F32, p.rows * 57), *dw = array_new(ZR_F32, 131 * 57);
    p.target[p.rows - 1] = 131; /* in the last block */
    kernel_call call = forward_call(&p, level->three, losses);
    assert_int_equal(kernel_run(level->three, &call), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "target 131 at row 1, position 300 "));
    call = backward_call(&p, level->three, dx, dw, ZR_F32, losses);
    assert_int_equal(kernel_run(level->three, &call), ZR_ERR_DATA);
}

static void test_bad_targets(void **state)
{
    (void)state;
    for_every_level(bad_targets);
}

/* Check that a gradient of a type which no product of the operands gives is computed as a sum in fp32. */
static void other_types(const level_pair *level)
{
    problem p = problem_make((size){1, 5, 11, 3}, ZR_F32);
    float losses[5], dx[15];
    uint16_t dw[33];
    kernel_call call = backward_call(&p, level->one, dx, dw, ZR_BF16, losses);
    run_on(level->one, call);
    const truth want = truth_make(&p);
    assert_close("dw", dw, ZR_BF16, want.dw, 33, 2e-6);
}

static void test_other_types(void **state)
{
    (void)state;
    for_every_level(other_types);
}

/* ---- levels of the library -------------------------------------------------------------------- */

static const char *program; /* path of this program, to run it again: /proc may be absent */

static void test_forced(void **state)
{
    (void)state;
    each_level_again(program);
}

static void test_under_cap(void **state)
{
    (void)state;
    level_pair pair = {NULL, NULL};
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    assert_int_equal(zr_device_create_cpu(&config, &pair.one), ZR_OK);
    config.threads = 3;
    assert_int_equal(zr_device_create_cpu(&config, &pair.three), ZR_OK);
    values(&pair);
    unfused(&pair);
    zr_device_destroy(&pair.one);
    zr_device_destroy(&pair.three);
}

int main(int argc, char **argv)
{
    program = argc ? argv[0] : "";
    const struct CMUnitTest forced[] = {cmocka_unit_test(test_under_cap)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),      cmocka_unit_test(test_unfused), cmocka_unit_test(test_bad_targets),
        cmocka_unit_test(test_other_types), cmocka_unit_test(test_forced),  cmocka_unit_test(test_parts),
        cmocka_unit_test(test_long_blocks), cmocka_unit_test(test_tiles),   cmocka_unit_test(test_hits),
    };
    if (getenv("ZR_KERNELS")) return cmocka_run_group_tests(forced, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
