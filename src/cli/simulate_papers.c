/*
 * What the ZeRO papers measured beside what zr simulates: tables 5 to 8 of arXiv 1910.02054 v1 (Rajbhandari et al.),
 * and the runs of the SC20 paper whose throughput is printed or whose order is. One set of constants prices all of them
 * (src/simulate/clusters.c); the four rows that they were fitted on are marked. Nothing is tuned for a row.
 */
#include "cli/simulate.h"

#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 1024, VOCABULARY = 50257 };

/* Memory that Megatron-LM of 2019, without fused kernels, reads and writes for each score (fp16), forward: the product
 * writes 2 bytes, division by sqrt(d), product with the mask, sum with the mask's and softmax read and write 2 each,
 * dropout reads and writes 2 and writes a byte of mask, the second product reads 2 (mpu/transformer.py of its v0.1). */
#define SCORES_BYTES 25

/* DeepSpeed's default: reduce_bucket_size, allgather_bucket_size. */
#define BUCKET_ELEMS 500000000

/* How they were run. Nothing overlapped but the fetches of stage 2. */
typedef enum runner {
    MEGATRON, /* data parallelism and tensor parallelism: stage 0 */
    ZERO_OS,  /* stage 1 as first built: all-reduce, one fused buffer */
    ZERO_1,   /* stage 1, C_B, M_D; SC20 */
    ZERO_2
} runner;
static const char *const runner_name[] = {"Megatron", "ZeRO-OS", "Pos", "Pos+g"};

typedef enum kept { WHOLE, PIECES, HOST } kept; /* checkpoints: P_a, P_a+cpu */
static const char *const kept_name[] = {"", " Pa", " Pa+cpu"};

/* Why a row counts in no median. */
typedef enum standing {
    COUNTS,
    FITTED,
    SAME_RUN, /* of a row that counts, in other units */
    NO_SHAPE, /* its configuration is not printed whole: one of the choices, or that of the SC20 appendix */
    NO_NUMBER /* its throughput is not printed */
} standing;
static const char *const mark_name[] = {"", "fitted", "same run", "shape not printed", "not printed"};

typedef enum unit { SAMPLES, TFLOPS } unit;
static const char *const unit_name[] = {"samples/s", "TFLOP/s a GPU"};

static const struct row {
    const char *source, *table, *label;
    runner runner;
    kept kept;
    bool azure;
    int gpus, tensor, layers, hidden, heads, batch;
    unit unit;
    double printed; /* 0: not printed */
    standing mark;
} rows[] = {
    {"v1", "5", "8B", ZERO_OS, WHOLE, false, 400, 4, 72, 3072, 24, 24, TFLOPS, 38, SAME_RUN},
    {"v1", "5", "20B", ZERO_OS, WHOLE, false, 400, 4, 111, 3808, 32, 8, TFLOPS, 27, SAME_RUN},
    {"v1", "5", "40B", ZERO_OS, WHOLE, false, 384, 8, 88, 6144, 32, 8, TFLOPS, 29, SAME_RUN},
    {"v1", "5", "60B", ZERO_OS, WHOLE, false, 384, 16, 132, 6144, 32, 8, TFLOPS, 20, NO_SHAPE},
    {"v1", "5", "80B", ZERO_OS, WHOLE, false, 400, 16, 112, 7680, 80, 8, TFLOPS, 17, NO_SHAPE},
    {"v1", "5", "100B", ZERO_OS, WHOLE, false, 400, 16, 317, 5120, 80, 4, TFLOPS, 7, COUNTS},
    {"v1", "5", "8B", MEGATRON, WHOLE, false, 400, 8, 72, 3072, 24, 8, TFLOPS, 23, SAME_RUN},
    {"v1", "5", "20B", MEGATRON, WHOLE, false, 400, 16, 111, 3808, 32, 4, TFLOPS, 9, SAME_RUN},
    {"v1", "5", "40B across nodes", MEGATRON, WHOLE, false, 384, 32, 88, 6144, 32, 4, TFLOPS, 4.92, SAME_RUN},
    {"v1", "5", "60B across nodes", MEGATRON, WHOLE, false, 384, 64, 132, 6144, 64, 4, TFLOPS, 6.34, NO_SHAPE},
    {"v1", "5", "80B across nodes", MEGATRON, WHOLE, false, 384, 128, 100, 8192, 128, 4, TFLOPS, 4.03, NO_SHAPE},
    {"v1", "5", "100B across nodes", MEGATRON, WHOLE, false, 384, 128, 125, 8192, 128, 2, TFLOPS, 2.49, NO_SHAPE},
    {"v1", "6", "8B", ZERO_OS, WHOLE, false, 400, 4, 72, 3072, 24, 24, SAMPLES, 210.8, FITTED},
    {"v1", "6", "8B", MEGATRON, WHOLE, false, 400, 8, 72, 3072, 24, 8, SAMPLES, 129.2, FITTED},
    {"v1", "6", "20B", ZERO_OS, WHOLE, false, 400, 4, 111, 3808, 32, 8, SAMPLES, 62.8, COUNTS},
    {"v1", "6", "20B", MEGATRON, WHOLE, false, 400, 16, 111, 3808, 32, 4, SAMPLES, 21.4, COUNTS},
    {"v1", "6", "40B", ZERO_OS, WHOLE, false, 384, 8, 88, 6144, 32, 8, SAMPLES, 31.77, COUNTS},
    {"v1", "6", "40B", MEGATRON, WHOLE, false, 384, 32, 88, 6144, 32, 4, SAMPLES, 5.38, FITTED},
    {"v1", "7", "1.5B", ZERO_OS, WHOLE, true, 32, 1, 48, 1600, 16, 8, SAMPLES, 40.2, FITTED},
    {"v1", "7", "1.5B", MEGATRON, WHOLE, true, 32, 4, 48, 1600, 16, 8, SAMPLES, 10.7, COUNTS},
    {"v1", "8", "8B on 240", ZERO_OS, WHOLE, false, 240, 4, 72, 3072, 24, 24, SAMPLES, 129.9, COUNTS},
    {"v1", "8", "8B", MEGATRON, WHOLE, false, 400, 8, 72, 3072, 24, 8, SAMPLES, 129.2, SAME_RUN},
    {"v1", "8", "20B on 128", ZERO_OS, WHOLE, false, 128, 4, 111, 3808, 32, 8, SAMPLES, 24.72, COUNTS},
    {"v1", "8", "20B", MEGATRON, WHOLE, false, 400, 16, 111, 3808, 32, 4, SAMPLES, 21.38, SAME_RUN},
    {"SC20", "Fig2", "1.5B", ZERO_2, WHOLE, false, 400, 1, 48, 1600, 16, 24, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig2", "8B", ZERO_2, PIECES, false, 400, 4, 72, 3072, 24, 64, TFLOPS, 38, COUNTS},
    {"SC20", "Fig2", "20B", ZERO_2, PIECES, false, 400, 4, 98, 4096, 32, 32, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig2", "40B", ZERO_2, PIECES, false, 400, 4, 88, 6144, 32, 12, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig2", "60B", ZERO_2, PIECES, false, 400, 16, 132, 6144, 32, 64, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig2", "80B", ZERO_2, PIECES, false, 400, 16, 100, 8192, 64, 32, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig2", "100B", ZERO_2, PIECES, false, 400, 16, 125, 8192, 64, 32, TFLOPS, 38, COUNTS},
    {"SC20", "Fig2", "120B", ZERO_2, PIECES, false, 400, 16, 150, 8192, 64, 24, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig2", "140B", ZERO_2, PIECES, false, 400, 16, 175, 8192, 64, 16, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig2", "170B", ZERO_2, HOST, false, 400, 16, 212, 8192, 64, 12, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig2", "1.5B", MEGATRON, WHOLE, false, 400, 2, 48, 1600, 16, 16, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig2", "8B", MEGATRON, WHOLE, false, 400, 8, 72, 3072, 24, 8, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig2", "20B", MEGATRON, WHOLE, false, 400, 16, 98, 4096, 32, 4, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig2", "40B", MEGATRON, WHOLE, false, 384, 32, 88, 6144, 64, 4, TFLOPS, 5, SAME_RUN},
    {"SC20", "Fig2", "60B", MEGATRON, WHOLE, false, 384, 64, 132, 6144, 64, 4, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig2", "80B", MEGATRON, WHOLE, false, 384, 128, 100, 8192, 128, 4, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig2", "100B", MEGATRON, WHOLE, false, 384, 128, 125, 8192, 128, 2, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig2", "120B", MEGATRON, WHOLE, false, 384, 128, 150, 8192, 128, 2, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig2", "140B", MEGATRON, WHOLE, false, 384, 128, 175, 8192, 128, 2, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig2", "170B", MEGATRON, WHOLE, false, 256, 256, 212, 8192, 256, 2, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig3", "60B on 64", ZERO_2, PIECES, false, 64, 16, 75, 8192, 32, 16, SAMPLES, 0, NO_NUMBER},
    {"SC20", "Fig3", "60B on 128", ZERO_2, PIECES, false, 128, 16, 75, 8192, 32, 48, SAMPLES, 0, NO_NUMBER},
    {"SC20", "Fig3", "60B on 256", ZERO_2, PIECES, false, 256, 16, 75, 8192, 32, 48, SAMPLES, 0, NO_NUMBER},
    {"SC20", "Fig3", "60B on 400", ZERO_2, PIECES, false, 400, 16, 75, 8192, 32, 64, SAMPLES, 0, NO_NUMBER},
    {"SC20", "Fig8", "C1 60B", ZERO_1, WHOLE, false, 128, 16, 75, 8192, 64, 2, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig8", "C2 60B", ZERO_1, PIECES, false, 128, 16, 75, 8192, 64, 4, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig8", "C3 60B", ZERO_2, WHOLE, false, 128, 16, 75, 8192, 64, 8, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig8", "C4 60B", ZERO_2, PIECES, false, 128, 16, 75, 8192, 64, 32, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig8", "C5 60B", ZERO_2, HOST, false, 128, 16, 75, 8192, 64, 32, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig8", "C5 170B", ZERO_2, HOST, false, 400, 16, 212, 8192, 64, 12, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig4", "1.5B no MP", ZERO_2, WHOLE, false, 128, 1, 34, 1920, 16, 24, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig4", "2.5B no MP", ZERO_2, WHOLE, false, 128, 1, 54, 1920, 16, 24, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig4", "4B no MP", ZERO_2, WHOLE, false, 128, 1, 64, 2304, 24, 16, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig4", "6B no MP", ZERO_2, WHOLE, false, 128, 1, 52, 3072, 24, 12, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig4", "8B no MP", ZERO_2, WHOLE, false, 128, 1, 72, 3072, 24, 8, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig4", "10B no MP", ZERO_2, WHOLE, false, 128, 1, 50, 4096, 32, 6, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig4", "11B no MP", ZERO_2, WHOLE, false, 128, 1, 54, 4096, 32, 4, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig4", "12B no MP", ZERO_2, WHOLE, false, 128, 1, 58, 4096, 32, 4, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig4", "13B no MP", ZERO_2, WHOLE, false, 128, 1, 62, 4096, 32, 2, TFLOPS, 40, COUNTS},
    {"SC20", "Fig4", "1.16B no MP", MEGATRON, WHOLE, false, 128, 1, 24, 1920, 16, 8, TFLOPS, 0, NO_NUMBER},
    {"SC20", "Fig4", "1.38B no MP", MEGATRON, WHOLE, false, 128, 1, 40, 1536, 16, 1, TFLOPS, 0, NO_NUMBER},
};
enum { ROWS = sizeof(rows) / sizeof(*rows) };

/* Quotients of two rows of a table that the paper prints: of their samples a second or, where it compares GPUs, of the
 * GPUs at equal throughput. */
static const struct ratio {
    const char *table, *label;
    int zero, other; /* rows */
    bool gpus;
    double printed;
} ratios[] = {
    {"6", "8B ZeRO-OS / Megatron", 12, 13, false, 1.63},      {"6", "20B ZeRO-OS / Megatron", 14, 15, false, 2.93},
    {"6", "40B ZeRO-OS / Megatron", 16, 17, false, 5.9},      {"7", "1.5B ZeRO-OS / Megatron", 18, 19, false, 3.75},
    {"8", "8B Megatron's GPUs / ZeRO-OS", 20, 13, true, 1.7}, {"8", "20B Megatron's GPUs / ZeRO-OS", 22, 15, true, 3.1},
};
enum { RATIOS = sizeof(ratios) / sizeof(*ratios) };

typedef struct outcome {
    double zr, samples_sec;
    double step_sec, exposed_sec;
    int64_t total_bytes;
    bool fits;
} outcome;

/* ---- one row ----------------------------------------------------------------------------------- */

static zr_layout layout_of(const struct row *r)
{
    static const int stage[] = {0, 1, 1, 2};
    zr_layout l = ZR_LAYOUT_INIT;
    l.ranks = r->gpus / r->tensor;
    l.tensor = r->tensor;
    l.stage = stage[r->runner];
    l.dtype = l.wire_dtype = ZR_F16;
    l.batch = r->batch;
    l.seq = TOKENS;
    l.eval = false;
    l.overlap = false;
    l.norm_first = true;
    l.recompute = ZR_RECOMPUTE_PAPER;
    l.reduce_bucket_elems = l.gather_bucket_elems = BUCKET_ELEMS;
    l.fused_buffer = r->runner == ZERO_OS;
    if (r->runner == ZERO_OS) l.reduce = ZR_REDUCE_ALL_REDUCE;
    l.partition_checkpoints = r->kept != WHOLE;
    l.offload_checkpoints = r->kept == HOST;
    l.optimizer = zr_adamw(0.9, 0.999, 1e-8, 0);
    return l;
}

static zr_status plan_row(const struct row *r, const zr_cluster *cluster, zr_plan **plan)
{
    const zr_gpt2_config sizes = {.n_layer = r->layers,
                                  .n_head = r->heads,
                                  .n_embd = r->hidden,
                                  .n_positions = TOKENS,
                                  .vocab_size = VOCABULARY,
                                  .layer_norm_epsilon = 1e-5,
                                  .initializer_range = 0.02};
    const zr_model model = zr_gpt2(&sizes);
    const zr_layout layout = layout_of(r);
    zr_profile profile = {.facts = {.name = "V100", .threads = 1, .apart = true}};
    profile.machine = cluster->device;
    ZR_TRY(zr_plan_create(&model, &layout, &profile, plan));
    return ZR_OK;
}

static zr_status simulate_row(const struct row *r, const zr_cluster *cluster, outcome *made)
{
    const zr_simulate_options options = {.scores_bytes = SCORES_BYTES, .copies_hold = true};
    zr_plan *plan = NULL;
    zr_simulation s;
    ZR_TRY(plan_row(r, cluster, &plan));
    zr_status st = zr_simulate(plan, cluster, &options, &s, NULL);
    if (st == ZR_OK)
        *made = (outcome){.zr = r->unit == SAMPLES ? s.samples_sec : s.flops_sec / 1e12,
                          .samples_sec = s.samples_sec,
                          .step_sec = s.price.step_sec,
                          .exposed_sec = s.price.exposed_sec,
                          .total_bytes = plan->memory.total_bytes,
                          .fits = plan->memory.total_bytes <= cluster->device.memory_bytes};
    zr_plan_destroy(&plan);
    return st;
}

static zr_status simulate_all(outcome made[ROWS])
{
    zr_cluster dgx2, azure;
    ZR_TRY(zr_cluster_read("dgx2x25", &dgx2));
    ZR_TRY(zr_cluster_read("azure-nc24rs-v3x8", &azure));
    for (int i = 0; i < ROWS; i++) ZR_TRY(simulate_row(&rows[i], rows[i].azure ? &azure : &dgx2, &made[i]));
    return ZR_OK;
}

/* Of GPUs: as many as ZeRO would need for the other's throughput. */
static double ratio_of(const struct ratio *r, const outcome made[ROWS])
{
    const double speed = made[r->zero].samples_sec / made[r->other].samples_sec;
    return r->gpus ? speed * rows[r->other].gpus / rows[r->zero].gpus : speed;
}

static double percent(double ours, double printed)
{
    return 100 * (ours / printed - 1);
}

/* ---- text -------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of the rows that count, without those that constants were fitted on. */
static int deviations(const outcome made[ROWS], double all[ROWS])
{
    int n = 0;
    for (int i = 0; i < ROWS; i++)
        if (rows[i].mark == COUNTS) all[n++] = fabs(percent(made[i].zr, rows[i].printed));
    qsort(all, (size_t)n, sizeof(*all), by_size);
    return n;
}

static void print_row(FILE *out, const struct row *r, const outcome *o)
{
    char ran_by[32], printed[16] = "-", deviation[16] = "";
    snprintf(ran_by, sizeof(ran_by), "%s%s", runner_name[r->runner], kept_name[r->kept]);
    if (r->printed > 0) {
        snprintf(printed, sizeof(printed), "%.4g", r->printed);
        snprintf(deviation, sizeof(deviation), "%+.1f", percent(o->zr, r->printed));
    }
    fprintf(out, "%-4s %-18s %-13s %4d %3d %2d %8s %8.4g %7s %-9.9s %s%s\n", r->table, r->label, ran_by, r->gpus,
            r->tensor, r->batch, printed, o->zr, deviation, unit_name[r->unit], mark_name[r->mark],
            o->fits ? "" : " (zr's plan needs more memory)");
}

/* A row beyond a quarter: what waits would have to be. */
static void print_reason(FILE *out, const struct row *r, const outcome *o)
{
    const double step = o->step_sec * o->zr / r->printed, busy = o->step_sec - o->exposed_sec;
    if (r->printed == 0 || r->mark == SAME_RUN || fabs(percent(o->zr, r->printed)) <= 25) return;
    fprintf(out, "%s %s, table %s: the paper's step took %.1f s; zr's kernels take %.1f s and it waits %.1f s; ",
            r->label, runner_name[r->runner], r->table, step, busy, o->exposed_sec);
    if (step > busy)
        fprintf(out, "waits of %.1f s would give the paper's number\n", step - busy);
    else
        fprintf(out, "the kernels alone would have to be %.2f times as fast\n", busy / step);
}

static void print_text(FILE *out, const outcome made[ROWS])
{
    double all[ROWS];
    fputs("The ZeRO papers' runs beside what zr simulates, with one set of constants for all\n"
          "table: of arXiv 1910.02054 v1 (5 to 8), or the SC20 paper's figure; M: ranks that share each\n"
          "layer; B: samples of a micro-batch; fitted: constants were; %: zr against the paper\n\n"
          "table row              system        GPUs   M  B    paper       zr       %\n",
          out);
    for (int i = 0; i < ROWS; i++) print_row(out, &rows[i], &made[i]);
    fputs("\nQuotients                              paper     zr       %\n", out);
    for (int i = 0; i < RATIOS; i++)
        fprintf(out, "%-4s %-32s %6.3g %6.3g %+7.1f\n", ratios[i].table, ratios[i].label, ratios[i].printed,
                ratio_of(&ratios[i], made), percent(ratio_of(&ratios[i], made), ratios[i].printed));
    const int n = deviations(made, all);
    fprintf(out, "\n%d rows that count and were not fitted: median deviation %.1f %%, largest %.1f %%\n", n,
            n % 2 ? all[n / 2] : (all[n / 2 - 1] + all[n / 2]) / 2, all[n - 1]);
    for (int i = 0; i < ROWS; i++) print_reason(out, &rows[i], &made[i]);
}

/* ---- JSON -------------------------------------------------------------------------------------- */

static json_t *entry(const char *source, const char *table, const char *row, const char *what, double paper, double zr,
                     standing mark)
{
    json_t *one = json_object();
    (void)json_object_set_new(one, "source", json_string(source));
    (void)json_object_set_new(one, "table", json_string(table));
    (void)json_object_set_new(one, "row", json_string(row));
    (void)json_object_set_new(one, "what", json_string(what));
    (void)json_object_set_new(one, "paper", paper > 0 ? json_real(paper) : json_null());
    (void)json_object_set_new(one, "zr", json_real(zr));
    (void)json_object_set_new(one, "fitted", json_boolean(mark == FITTED));
    (void)json_object_set_new(one, "counts", json_boolean(mark == COUNTS));
    (void)json_object_set_new(one, "mark", json_string(mark_name[mark]));
    return one;
}

static zr_status print_json(FILE *out, const outcome made[ROWS])
{
    json_t *all = json_array();
    char label[64], *text = NULL;
    for (int i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        snprintf(label, sizeof(label), "%s %s%s", r->label, runner_name[r->runner], kept_name[r->kept]);
        json_t *one = entry(r->source, r->table, label, unit_name[r->unit], r->printed, made[i].zr, r->mark);
        (void)json_object_set_new(one, "fits", json_boolean(made[i].fits));
        (void)json_array_append_new(all, one);
    }
    for (int i = 0; i < RATIOS; i++)
        (void)json_array_append_new(all, entry("v1", ratios[i].table, ratios[i].label, "ratio", ratios[i].printed,
                                               ratio_of(&ratios[i], made), SAME_RUN));
    zr_status st = zr__json_print(all, &text);
    json_decref(all);
    ZR_TRY(st);
    fprintf(out, "%s\n", text);
    zr_free(text);
    return ZR_OK;
}

zr_status cli_simulate_papers(FILE *out, bool json)
{
    outcome *made = zr_alloc(ROWS * sizeof(*made));
    ZR_CHECK(made, ZR_ERR_MEMORY, "no memory for the papers' rows");
    zr_status st = simulate_all(made);
    if (st == ZR_OK && json) st = print_json(out, made);
    if (st == ZR_OK && !json) print_text(out, made);
    zr_free(made);
    return st;
}
