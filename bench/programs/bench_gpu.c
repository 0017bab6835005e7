/*
 * Speed of the GPU kernels. For memory-bound kernels, it is the bandwidth relative to a copy within the GPU's memory,
 * in the same run; for attention and matrix products, FLOP/s. A measurement covers many runs in a row, and begins and
 * ends with an idle GPU. The best of three measurements counts. Prints a table, or with --json one line for each
 * result.
 *
 *   build/bench/bench_gpu [--json] [--tiny] [--seconds S] [--without OP ...] [GROUP ...]
 *
 * The groups are memory, attention, apart (attention beside its plain kernel), cube, product and head. OP is an op that
 * must not run, for example because its kernel hangs: what needs it is left out. S is the length of each measurement in
 * seconds (0.1). --tiny selects small sizes, which only show that every kernel runs.
 */
#include <stdio.h>
#include <stdlib.h>

#include "gpu_rig.h"

enum { MOST_ROWS = 32, PIECES = 4 };

/** Sizes of arrays and models. `large` is the default, `tiny` is for --tiny. */
typedef struct sizes {
    int64_t elems; /* number of elements for ZeRO's steps, far more than a cache holds */
    int64_t batch, seq, width, vocab;
    int64_t attention_batch, heads, dim[2], attention_seq[2];
    int64_t long_seq, kv_heads, document; /* of further attentions: tokens, key-value heads, tokens of a document */
    int64_t cube, tokens, fp32_tokens, product_width[2];
} sizes;

static const sizes large = {.elems = (int64_t)64 << 20,
                            .batch = 128,
                            .seq = 1024,
                            .width = 768,
                            .vocab = 50257,
                            .attention_batch = 8,
                            .heads = 16,
                            .dim = {64, 128},
                            .attention_seq = {1024, 4096},
                            .long_seq = 8192,
                            .kv_heads = 4,
                            .document = 512,
                            .cube = 8192,
                            .tokens = 16384,
                            .fp32_tokens = 8192,
                            .product_width = {768, 1600}};
static const sizes tiny = {.elems = 5000,
                           .batch = 2,
                           .seq = 16,
                           .width = 32,
                           .vocab = 97,
                           .attention_batch = 1,
                           .heads = 2,
                           .dim = {16, 32},
                           .attention_seq = {16, 32},
                           .long_seq = 40,
                           .kv_heads = 1,
                           .document = 10,
                           .cube = 32,
                           .tokens = 32,
                           .fp32_tokens = 32,
                           .product_width = {16, 32}}; /* the same sizes as in bench/gpu_parts/gpu_measure.py */

typedef struct row {
    char what[64];
    double bytes, flops, sec, wanted; /* wanted: wanted bandwidth relative to the copy, or 0 for no target */
} row;

typedef struct bench {
    stand stand;
    const sizes *size;
    bool json;
    int n_groups;
    char **group;
    double copy_rate; /* best bandwidth of a copy so far, read and written bytes per second */
    row row[MOST_ROWS];
    int n_rows, n_failed;
} bench;

/* ---- results ----------------------------------------------------------------------------------- */

static void print_row(const bench *b, const char *group, const row *r)
{
    const bool memory = r->bytes > 0;
    const double rate = (memory ? r->bytes : r->flops) / r->sec, share = memory ? rate / b->copy_rate : 0;
    if (!b->json) {
        printf("%-44s %10.3f ms %9.1f %s", r->what, 1e3 * r->sec, rate * (memory ? 1e-9 : 1e-12),
               memory ? "GB/s" : "TFLOP/s");
        if (memory) printf("  %.2f of a copy", share);
        printf("%s\n", r->wanted > 0 ? share >= r->wanted ? ", as wanted" : ": NOT REACHED" : "");
        return;
    }
    printf("{\"group\":\"%s\", \"what\":\"%s\", \"sec\":%.6g, ", group, r->what, r->sec);
    printf(memory ? "\"bytes_per_sec\":%.6g, \"share_of_copy\":%.4g, " : "\"flops\":%.6g, \"flops_per_sec\":%.6g, ",
           memory ? rate : r->flops, memory ? share : rate);
    if (r->wanted > 0)
        printf("\"wanted\":%g}\n", r->wanted);
    else
        printf("\"wanted\":null}\n");
}

/* Return whether an op may run. If not, report that the measurement is left out. */
static bool may_run(const bench *b, const char *group, const char *what, const char *op)
{
    const char *lost = left_out(&b->stand, op);
    if (!lost) return true;
    if (b->json)
        printf("{\"group\":\"%s\", \"what\":\"%s\", \"without\":\"%s\"}\n", group, what, lost);
    else
        printf("%s: left out, without %s\n", what, lost);
    return false;
}

/* Return whether the ops of a wish's graph may run. All graphs end in a loss. */
static bool graph_may_run(const bench *b, const char *group, const char *what, const char *kind)
{
    const bool head = strcmp(kind, "head") == 0; /* its products are those of linear */
    return may_run(b, group, what, head ? "linear_cross_entropy" : kind) &&
           may_run(b, group, what, head ? "linear" : "mean") && may_run(b, group, what, "fill");
}

/* Report a failed measurement. The other measurements continue. */
static void settle(bench *b, const char *group, const char *what, zr_status st)
{
    if (st == ZR_OK) return;
    b->n_failed++;
    fprintf(stderr, "bench_gpu: %s, %s: %s\n", group, what, zr_error_message());
    if (b->json) printf("{\"group\":\"%s\", \"what\":\"%s\", \"failed\":true}\n", group, what);
    fflush(stdout);
}

static const char *type_name(zr_dtype dtype)
{
    return dtype == ZR_BF16 ? "bf16" : "fp32";
}

/* Store the result of a memory-bound kernel. It is printed at the end of the group, when the best copy is known. */
static void keep_row(bench *b, const char *what, double bytes, double sec, double wanted)
{
    if (b->n_rows == MOST_ROWS) return;
    row *r = &b->row[b->n_rows++];
    *r = (row){.bytes = bytes, .sec = sec, .wanted = wanted};
    snprintf(r->what, sizeof r->what, "%s", what);
}

/* ---- ZeRO's own steps -------------------------------------------------------------------------- */

typedef struct arrays {
    float *x, *weight, *m, *v; /* (elems) */
    uint16_t *x16, *param16;
    zr_square *square; /* of the host */
    int64_t n;
} arrays;

static zr_status make_arrays(bench *b, arrays *a)
{
    const zr_device_ops *ops = b->stand.device->ops;
    const zr_rng rng = {.seed = 1, .purpose = ZR_RNG_INIT};
    const int64_t n = a->n = b->size->elems;
    void **f32[] = {(void **)&a->x, (void **)&a->weight, (void **)&a->m, (void **)&a->v};
    for (int i = 0; i < PIECES; i++) ZR_TRY(ops->alloc(b->stand.device, 4 * n, f32[i]));
    ZR_TRY(ops->alloc(b->stand.device, 2 * n, (void **)&a->x16));
    ZR_TRY(ops->alloc(b->stand.device, 2 * n, (void **)&a->param16));
    ZR_TRY(ops->alloc_host(b->stand.device, sizeof *a->square, (void **)&a->square));
    ops->normal(b->stand.device, &rng, 0, n, 0.02f, a->weight);
    ops->normal(b->stand.device, &rng, (uint64_t)n, n, 1e-3f, a->x);
    ZR_TRY(ops->cast(b->stand.device, a->x16, ZR_BF16, a->x, ZR_F32, n, NULL));
    return ZR_OK;
}

static void free_arrays(bench *b, arrays *a)
{
    const zr_device_ops *ops = b->stand.device->ops;
    void *all[] = {a->x, a->weight, a->m, a->v, a->x16, a->param16};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]) ops->free(b->stand.device, all[i]);
    if (a->square) ops->free_host(b->stand.device, a->square);
}

static zr_status run_copy(void *arg, zr_device *device)
{
    arrays *a = arg;
    return device->ops->copy(device, a->weight, a->x, 4 * a->n);
}

static zr_status update(arrays *a, zr_device *device, zr_update_args args)
{
    const zr_optimizer adamw = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    args.n = a->n;
    args.weight = a->weight;
    args.slot[0] = a->m;
    args.slot[1] = a->v;
    args.grad_scale = 0.5f;
    args.lr = 1e-6;
    args.weight_decay = 0.1;
    args.step = 10;
    args.hyper = adamw.hyper;
    return device->ops->update(device, &adamw, &args);
}

static zr_status run_adamw(void *arg, zr_device *device)
{
    arrays *a = arg;
    return update(a, device, (zr_update_args){.grad = a->x, .grad_dtype = ZR_F32});
}

static zr_status run_adamw_mixed(void *arg, zr_device *device)
{
    arrays *a = arg;
    return update(
        a, device,
        (zr_update_args){.grad = a->x16, .grad_dtype = ZR_BF16, .param16 = a->param16, .param_dtype = ZR_BF16});
}

static zr_status run_square(void *arg, zr_device *device)
{
    arrays *a = arg;
    return device->ops->square(device, a->x, ZR_F32, a->n, false, 0, a->square);
}

static zr_status run_square_bf16(void *arg, zr_device *device)
{
    arrays *a = arg;
    return device->ops->square(device, a->x16, ZR_BF16, a->n, false, 0, a->square);
}

/* Sum the four quarters of an array. */
static zr_status run_sum(void *arg, zr_device *device)
{
    arrays *a = arg;
    const int64_t n = a->n / PIECES;
    const void *piece[] = {a->x, a->x + n, a->x + 2 * n, a->x + 3 * n};
    return device->ops->sum(device, a->weight, ZR_F32, false, piece, PIECES, ZR_F32, n);
}

static zr_status run_sum_bf16(void *arg, zr_device *device)
{
    arrays *a = arg;
    const int64_t n = a->n / PIECES;
    const void *piece[] = {a->x16, a->x16 + n, a->x16 + 2 * n, a->x16 + 3 * n};
    return device->ops->sum(device, a->param16, ZR_BF16, false, piece, PIECES, ZR_BF16, n);
}

static zr_status measure_copy(bench *b, arrays *a)
{
    double sec = 0;
    ZR_TRY(measure(&b->stand, run_copy, a, &sec));
    const double rate = 8.0 * (double)a->n / sec;
    if (rate > b->copy_rate) b->copy_rate = rate;
    return ZR_OK;
}

static zr_status measure_steps(bench *b, arrays *a)
{
    static const struct {
        const char *what, *op;
        double bytes; /* bytes moved for each element of the arrays */
        zr_status (*run)(void *arg, zr_device *device);
    } step[] = {
        {"adamw, fp32", "adamw", 28, run_adamw},      {"adamw, bf16 with masters", "adamw", 28, run_adamw_mixed},
        {"square, fp32", "square", 4, run_square},    {"square, bf16", "square", 2, run_square_bf16},
        {"sum of 4 pieces, fp32", "sum", 5, run_sum}, {"sum of 4 pieces, bf16", "sum", 2.5, run_sum_bf16},
    };
    *a->square = (zr_square){.bad = -1};
    for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
        double sec = 0;
        if (!may_run(b, "memory", step[i].what, step[i].op)) continue;
        ZR_TRY(measure_copy(b, a));
        tell_begin(&b->stand, step[i].op);
        ZR_TRY(measure(&b->stand, step[i].run, a, &sec));
        keep_row(b, step[i].what, step[i].bytes * (double)a->n, sec, 0.8);
    }
    return ZR_OK;
}

/* ---- graphs ------------------------------------------------------------------------------------ */

static zr_value param(zr_graph *graph, double std, zr_shape shape, const char *name)
{
    return zr_param(graph, (zr_init){ZR_INIT_NORMAL, std}, shape, "%s", name);
}

static zr_shape vector(int64_t n)
{
    return (zr_shape){1, {n}};
}

static zr_shape matrix(int64_t rows, int64_t cols)
{
    return (zr_shape){2, {rows, cols}};
}

/* An op to measure, and its sizes. Its operands are parameters, so that they get gradients. */
typedef struct wish {
    const char *kind;
    zr_dtype dtype;
    int64_t batch, seq, width, out_width, heads;
    int64_t kv_heads; /* of attention; 0 if all heads have their own keys and values */
    bool documents;
    int64_t vocab; /* of head */
} wish;

static zr_value forward(zr_graph *g, const wish *w, const sizes *size)
{
    const zr_shape tokens = matrix(w->batch, w->seq), rows = {3, {w->batch, w->seq, w->width}};
    if (strcmp(w->kind, "embedding") == 0) {
        zr_value ids = zr_input(g, "ids", ZR_I32, tokens);
        return zr_embedding(g, ids, param(g, 0.02, matrix(size->vocab, w->width), "table"));
    }
    zr_value x = param(g, 1.0, rows, "x");
    if (strcmp(w->kind, "layernorm") == 0)
        return zr_layernorm(g, x, param(g, 1.0, vector(w->width), "gain"), param(g, 1.0, vector(w->width), "bias"),
                            1e-5);
    if (strcmp(w->kind, "gelu") == 0) return zr_gelu(g, x);
    if (strcmp(w->kind, "attention") == 0) {
        const zr_attention_spec spec = {.heads = w->heads, .kv_heads = w->kv_heads ? w->kv_heads : w->heads};
        return zr_attend(g, x, ZR_NONE, ZR_NONE, &spec);
    }
    if (strcmp(w->kind, "head") == 0)
        return zr_linear_cross_entropy(g, x, param(g, 0.02, matrix(w->vocab, w->width), "w"),
                                       zr_input(g, "targets", ZR_I32, tokens));
    return zr_linear(g, x, param(g, 0.02, matrix(w->width, w->out_width), "w"), ZR_NONE, false);
}

static zr_status rig_create(const bench *b, const wish *w, rig *r)
{
    const zr_graph_spec spec = {.mode = ZR_MODE_TRAIN,
                                .batch = w->batch,
                                .seq = w->seq,
                                .dtype = w->dtype,
                                .grad_dtype = w->dtype,
                                .documents = w->documents,
                                .head_bytes = zr_graph_head_bytes(&b->stand.device->profile.facts)};
    r->stand = &b->stand;
    tell_begin(&b->stand, ""); /* if there is no memory, the op before is not to blame */
    ZR_TRY(zr_graph_create(&spec, &r->graph));
    zr_graph_unit(r->graph, "bench");
    zr_value y = forward(r->graph, w, b->size);
    const zr_value_info *made = zr_graph_value(r->graph, y);
    const bool are_losses = made && made->type.dtype == ZR_F32 && strcmp(w->kind, "head") == 0;
    zr_graph_losses(r->graph, are_losses ? y : zr_mean(r->graph, y, ZR_F32));
    ZR_TRY(rig_start(r));
    return ZR_OK;
}

/* ---- what memory bounds ------------------------------------------------------------------------ */

typedef struct bound {
    const char *name;
    double wanted;
} bound;

static zr_status measure_bound(bench *b, arrays *a, rig *r, const wish *w, const bound *op)
{
    char what[64];
    ZR_TRY(rig_create(b, w, r));
    for (; op->name; op++) {
        double sec = 0;
        zr_cost cost = {0};
        ZR_TRY(measure_copy(b, a));
        ZR_TRY(measure_node(r, op->name, &sec, &cost));
        snprintf(what, sizeof what, "%s, %s", op->name, type_name(w->dtype));
        keep_row(b, what, cost.bytes, sec, op->wanted);
    }
    return ZR_OK;
}

static void measure_ops(bench *b, arrays *a, zr_dtype dtype)
{
    static const bound layernorm[] = {{"layernorm", 0.8}, {"layernorm_dx", 0.8}, {"layernorm_dw", 0}, {NULL, 0}};
    static const bound gelu[] = {{"gelu", 0.8}, {"gelu_dx", 0.8}, {NULL, 0}};
    static const bound embedding[] = {{"embedding", 0.8}, {"embedding_dw", 0}, {NULL, 0}};
    static const bound *const ops[] = {layernorm, gelu, embedding};
    const sizes *s = b->size;
    for (int i = 0; i < 3; i++) {
        const bool wide = ops[i] == gelu;
        const wish w = {.kind = ops[i]->name,
                        .dtype = dtype,
                        .batch = wide ? s->batch / 2 : s->batch,
                        .seq = s->seq,
                        .width = wide ? 4 * s->width : s->width};
        rig r = {0};
        if (!graph_may_run(b, "memory", w.kind, w.kind)) continue;
        settle(b, "memory", w.kind, measure_bound(b, a, &r, &w, ops[i]));
        rig_clear(&r);
    }
}

static void memory(bench *b)
{
    arrays a = {0};
    zr_status st = make_arrays(b, &a);
    settle(b, "memory", "arrays", st);
    if (st == ZR_OK) {
        settle(b, "memory", "ZeRO's steps", measure_steps(b, &a));
        measure_ops(b, &a, ZR_F32);
        measure_ops(b, &a, ZR_BF16);
        settle(b, "memory", "copy", measure_copy(b, &a));
        const double bytes = 8.0 * (double)a.n;
        const row copy = {.what = "copy within the GPU", .bytes = bytes, .sec = bytes / b->copy_rate};
        print_row(b, "memory", &copy);
        for (int i = 0; i < b->n_rows; i++) print_row(b, "memory", &b->row[i]);
    }
    free_arrays(b, &a);
}

/* ---- what arithmetic bounds -------------------------------------------------------------------- */

/* Measure the ops named in `op`, which ends with NULL. `share` is the fraction of an op's FLOPs (zr_cost) that is
 * computed. */
static zr_status measure_flops(const bench *b, rig *r, const wish *w, const char *group, const char *name, double share,
                               const char *const *op)
{
    ZR_TRY(rig_create(b, w, r));
    for (; *op; op++) {
        row told = {.wanted = 0};
        zr_cost cost;
        ZR_TRY(measure_node(r, *op, &told.sec, &cost));
        told.flops = share * cost.flops;
        snprintf(told.what, sizeof told.what, "%s, %s: %s", type_name(w->dtype), name, *op);
        print_row(b, group, &told);
        fflush(stdout);
    }
    return ZR_OK;
}

static void tell_flops(bench *b, const wish *w, const char *group, const char *name, double share,
                       const char *const *op)
{
    rig r = {0};
    if (!graph_may_run(b, group, name, w->kind)) return;
    settle(b, group, name, measure_flops(b, &r, w, group, name, share, op));
    rig_clear(&r);
}

/* Describe an attention of one of the sizes. The last three are long, share key-value heads, or have documents. */
enum { ATTENTIONS = 7, LONG = 4, SHARED = 5, DOCUMENTS = 6 };
static wish attention_wish(const sizes *s, int which, char name[48])
{
    const int64_t dim = s->dim[which < LONG ? which / 2 : which != DOCUMENTS];
    const int64_t seq = which == LONG ? s->long_seq : s->attention_seq[which < LONG ? which % 2 : 1];
    const int64_t kv_heads = which == SHARED ? s->kv_heads : s->heads;
    int n = snprintf(name, 48, "D %lld, T %lld", (long long)dim, (long long)seq);
    if (which == SHARED) snprintf(name + n, (size_t)(48 - n), ", %lld KV heads", (long long)kv_heads);
    if (which == DOCUMENTS) snprintf(name + n, (size_t)(48 - n), ", documents of %lld", (long long)s->document);
    return (wish){.kind = "attention",
                  .dtype = ZR_BF16,
                  .batch = s->attention_batch,
                  .seq = seq,
                  .width = (s->heads + 2 * kv_heads) * dim,
                  .heads = s->heads,
                  .kv_heads = kv_heads,
                  .documents = which == DOCUMENTS};
}

/* Measure attention. The causal mask leaves half of the FLOPs that the papers count, and documents the share that their
 * length has of a row. */
static void attention(bench *b)
{
    static const char *const op[] = {"attention", "attention_dx", NULL};
    for (int i = 0; i < ATTENTIONS; i++) {
        char name[48];
        const wish w = attention_wish(b->size, i, name);
        const double share = w.documents ? 0.5 * (double)b->size->document / (double)w.seq : 0.5;
        tell_flops(b, &w, "attention", name, share, op);
    }
}

/* ---- the fast attention beside the plain one --------------------------------------------------- */

/* Copy the result of an op to the host as fp32. The caller frees *out. */
static zr_status fetch(rig *r, const char *name, float **out, int64_t *n)
{
    zr_device *device = r->stand->device;
    const node *at = find(r, name);
    ZR_CHECK(at, ZR_ERR_INTERNAL, "the graph has no op %s", name);
    void *wide = NULL;
    *n = zr_shape_elems(&at->out[0].shape);
    *out = zr_alloc((size_t)*n * sizeof **out);
    ZR_CHECK(*out, ZR_ERR_MEMORY, "no memory for a result of %lld elements", (long long)*n);
    ZR_TRY(device->ops->alloc(device, 4 * *n, &wide));
    zr_status st = device->ops->cast(device, wide, ZR_F32, at->out[0].data, at->out[0].dtype, *n, NULL);
    if (st == ZR_OK) st = device->ops->copy(device, *out, wide, 4 * *n);
    device->ops->free(device, wide);
    return st;
}

/* Return the root mean square of a - b, relative to the one of b; infinity if it is not a number. */
static double distance(const float *a, const float *b, int64_t n)
{
    double off = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        off += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        all += (double)b[i] * b[i];
    }
    return off >= 0 && all > 0 ? sqrt(off / all) : INFINITY;
}

static zr_status compare_op(const bench *b, rig *fast, rig *plain, const char *size, const char *op)
{
    float *mine = NULL, *theirs = NULL;
    int64_t n = 0;
    zr_status st = fetch(fast, op, &mine, &n);
    if (st == ZR_OK) st = fetch(plain, op, &theirs, &n);
    const double apart = st == ZR_OK ? distance(mine, theirs, n) : 0;
    zr_free(mine);
    zr_free(theirs);
    ZR_TRY(st);
    if (b->json)
        printf("{\"group\":\"apart\", \"what\":\"%s: %s\", \"apart\":%.4g}\n", size, op, fmin(apart, 1e9));
    else
        printf("%-44s %.2e of the plain kernel's\n", op, apart);
    return ZR_OK;
}

/* Run attention in bf16 and, with the same operands, in fp32, which has only the plain kernels. */
static zr_status compare(const bench *b, rig *fast, rig *plain, wish w, const char *size)
{
    zr_device *device = b->stand.device;
    ZR_TRY(rig_create(b, &w, fast));
    w.dtype = ZR_F32;
    ZR_TRY(rig_create(b, &w, plain));
    for (int32_t p = 0; p < zr_graph_params(plain->graph); p++) {
        const zr_value value = zr_graph_param(plain->graph, p)->value;
        const int64_t n = zr_shape_elems(&zr_graph_value(plain->graph, value)->type.shape);
        ZR_TRY(device->ops->cast(device, plain->data[value], ZR_F32, fast->data[value], ZR_BF16, n, NULL));
    }
    ZR_TRY(do_task(&b->stand, run_all, plain));
    ZR_TRY(compare_op(b, fast, plain, size, "attention"));
    return compare_op(b, fast, plain, size, "attention_dx");
}

static void apart(bench *b)
{
    for (int i = 1; i < ATTENTIONS; i += i == 1 ? 2 : 1) { /* the long sizes */
        char name[48];
        wish w = attention_wish(b->size, i, name);
        rig fast = {0}, plain = {0};
        w.batch = 1;
        if (!graph_may_run(b, "apart", name, w.kind)) continue;
        settle(b, "apart", name, compare(b, &fast, &plain, w, name));
        rig_clear(&fast);
        rig_clear(&plain);
    }
}

/* ---- products ---------------------------------------------------------------------------------- */

static const char *const linear_ops[] = {"linear", "linear_dx", "linear_dw", NULL};

static void cube(bench *b)
{
    static const zr_dtype dtype[] = {ZR_BF16, ZR_F32};
    const int64_t n = b->size->cube;
    for (int d = 0; d < 2; d++) {
        const wish w = {.kind = "linear", .dtype = dtype[d], .batch = 1, .seq = n, .width = n, .out_width = n};
        tell_flops(b, &w, "cube", "cube", 1.0, linear_ops);
    }
}

/* Measure the products of a training step of GPT-2 with this width. */
static const char *const head_ops[] = {"linear_cross_entropy_dx", NULL};

static void products_of(bench *b, zr_dtype dtype, int64_t width, int64_t tokens)
{
    const struct {
        const char *name;
        int64_t in, out;
    } product[] = {{"c_attn", width, 3 * width},
                   {"attn.c_proj", width, width},
                   {"c_fc", width, 4 * width},
                   {"mlp.c_proj", 4 * width, width}};
    char name[48];
    wish w = {.kind = "linear", .dtype = dtype, .batch = 1, .seq = tokens};
    for (int i = 0; i < 4; i++) {
        w.width = product[i].in;
        w.out_width = product[i].out;
        snprintf(name, sizeof name, "width %lld, %s", (long long)width, product[i].name);
        tell_flops(b, &w, "product", name, 1.0, linear_ops);
    }
    w.kind = "head";
    w.width = width;
    w.vocab = b->size->vocab;
    snprintf(name, sizeof name, "width %lld, head", (long long)width);
    tell_flops(b, &w, "product", name, 1.0, head_ops);
}

static void product(bench *b)
{
    const sizes *s = b->size;
    products_of(b, ZR_BF16, s->product_width[0], s->tokens);
    products_of(b, ZR_BF16, s->product_width[1], s->tokens);
    products_of(b, ZR_F32, s->product_width[0], s->fp32_tokens);
}

/* Measure the head of GPT-2's vocabulary, and of the next multiple of 64, for which libraries have faster kernels. */
static void head(bench *b)
{
    const sizes *s = b->size;
    for (int i = 0; i < 4; i++) {
        char name[48];
        const int64_t vocab = i % 2 ? (s->vocab + 63) / 64 * 64 : s->vocab;
        const wish w = {.kind = "head",
                        .dtype = ZR_BF16,
                        .batch = 1,
                        .seq = s->tokens,
                        .width = s->product_width[i / 2],
                        .vocab = vocab};
        snprintf(name, sizeof name, "head, width %lld, V %lld", (long long)w.width, (long long)vocab);
        tell_flops(b, &w, "head", name, 1.0, head_ops);
    }
}

/* ---- main -------------------------------------------------------------------------------------- */

static bool wanted(const bench *b, const char *group)
{
    for (int i = 0; i < b->n_groups; i++)
        if (strcmp(b->group[i], group) == 0) return true;
    return b->n_groups == 0;
}

static zr_status run_groups(bench *b)
{
    const zr_queue_config queue = {.runs = ZR_QUEUE_AT_ONCE};
    ZR_TRY(b->stand.device->ops->queue_create(b->stand.device, &queue, &b->stand.queue));
    if (!b->json) printf("%s\n", b->stand.device->profile.facts.name);
    if (wanted(b, "memory")) memory(b);
    if (wanted(b, "attention")) attention(b);
    if (wanted(b, "apart")) apart(b);
    if (wanted(b, "cube")) cube(b);
    if (wanted(b, "product")) product(b);
    if (wanted(b, "head")) head(b);
    b->stand.device->ops->queue_destroy(b->stand.queue);
    return ZR_OK;
}

static int run(bench *b)
{
    const zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    zr_status st = zr_device_create_cuda(&config, &b->stand.device);
    if (st == ZR_OK) {
        settle(b, "all", "queue", run_groups(b));
        zr_device_destroy(&b->stand.device);
        return b->n_failed > 0;
    }
    fprintf(stderr, "bench_gpu: %s\n", zr_error_message());
    return st == ZR_ERR_UNSUPPORTED ? 69 : 1;
}

int main(int argc, char **argv)
{
    const char *without[64];
    bench b = {.size = &large, .stand = {.target_sec = 0.1, .without = without}, .group = argv};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            b.json = b.stand.tells = true;
        else if (strcmp(argv[i], "--tiny") == 0)
            b.size = &tiny;
        else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            b.stand.target_sec = atof(argv[++i]);
        else if (strcmp(argv[i], "--without") == 0 && i + 1 < argc && b.stand.n_without < 64)
            without[b.stand.n_without++] = argv[++i];
        else
            b.group[b.n_groups++] = argv[i]; /* move the group to the front of argv */
    }
    b.stand.vocab = b.size->vocab;
    b.stand.document = b.size->document;
    return run(&b);
}
