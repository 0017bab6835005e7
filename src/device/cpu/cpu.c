#include "device/cpu/cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/processor.h"
#include "device/device.h"
#include "device/queue.h"
#include "kernel_list.h"
#include "base/core/core.h"
#include "base/number/exact.h"

#define DECLARE_FAMILY(family, level) extern const zr_kernel zr__kernels_##family##_##level[];
/* Declare the tables of a level. Only kernels with matrix products are compiled for every level. All other kernels of
 * `level` are taken from the level `vector`; for example, v4amx takes them from v4. */
#define DECLARE_LEVEL(level, vector)                                                                                   \
    ZR_KERNEL_FAMILIES(DECLARE_FAMILY, level, vector)                                                                  \
    extern const zr__shards zr__shards_##vector;                                                                       \
    extern const zr__square_exact zr__square_exact_##vector;                                                           \
    extern const zr__normal_fn zr__normal_##vector;                                                                    \
    extern const zr__rule zr__rules_##vector[];                                                                        \
    extern const zr__panel_ops zr__panels_##level;                                                                     \
    extern const zr__peak_ops zr__peaks_##level;                                                                       \
    extern const bool zr__attention_is_narrow_##level;
ZR_KERNEL_LEVELS(DECLARE_LEVEL)

typedef struct level {
    const char *name;
    const zr_kernel *const *families; /* NULL-terminated array of kernel lists, one for each family of ops */
    const zr__shards *shards;
    const zr__square_exact *square_exact;
    const zr__normal_fn *normal;
    const zr__rule *rules;
    const zr__panel_ops *panels;
    const zr__peak_ops *peaks;
    const bool *attention_is_narrow; /* whether attention multiplies bf16 operands without widening them */
} level;

#define FAMILY_ENTRY(family, level) zr__kernels_##family##_##level,
#define LEVEL_FAMILIES(level, vector)                                                                                  \
    static const zr_kernel *const families_##level[] = {ZR_KERNEL_FAMILIES(FAMILY_ENTRY, level, vector) NULL};
ZR_KERNEL_LEVELS(LEVEL_FAMILIES)

#define LEVEL_ENTRY(level, vector)                                                                                     \
    {#level,                                                                                                           \
     families_##level,                                                                                                 \
     &zr__shards_##vector,                                                                                             \
     &zr__square_exact_##vector,                                                                                       \
     &zr__normal_##vector,                                                                                             \
     zr__rules_##vector,                                                                                               \
     &zr__panels_##level,                                                                                              \
     &zr__peaks_##level,                                                                                               \
     &zr__attention_is_narrow_##level},
static const level levels[] = {ZR_KERNEL_LEVELS(LEVEL_ENTRY)};
#define LEVELS ((int)(sizeof levels / sizeof *levels))

typedef struct cpu_device {
    zr_device base;
    const level *level;
} cpu_device;

/* ---- which level ----------------------------------------------------------------------------- */

const char *const *zr__cpu_levels(void)
{
#define LEVEL_NAME(level, vector) #level,
    static const char *const names[] = {ZR_KERNEL_LEVELS(LEVEL_NAME) NULL};
    return names;
}

bool zr__cpu_has(const char *name)
{
    const zr__processor here = zr__processor_here();
    return zr__processor_has(&here, name);
}

static const level *find_level(const char *name)
{
    for (int i = 0; i < LEVELS; i++)
        if (strcmp(levels[i].name, name) == 0) return &levels[i];
    return NULL;
}

const zr__panel_ops *zr__cpu_panels(const char *name)
{
    return find_level(name)->panels;
}

const zr__peak_ops *zr__cpu_peaks(const char *name)
{
    return find_level(name)->peaks;
}

static const level *best_level(void)
{
    const zr__processor here = zr__processor_here();
    for (int i = LEVELS - 1; i >= 0; i--)
        if (zr__processor_wants(&here, levels[i].name)) return &levels[i];
    return NULL;
}

/* Return the level that the environment variable ZR_KERNELS names, or NULL if it is not set. */
static const char *asked_level(void)
{
    const char *asked = getenv("ZR_KERNELS");
    return asked && *asked ? asked : NULL;
}

static zr_status check_level(const char *name)
{
    char known[64] = "";
    for (int i = 0; i < LEVELS; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", levels[i].name);
    ZR_CHECK(find_level(name), ZR_ERR_CONFIG, "ZR_KERNELS is \"%s\"; expected one of %s", name, known);
    const level *best = best_level();
    const zr__processor here = zr__processor_here();
    const char *lacks = zr__processor_lacks(&here, name);
    ZR_CHECK(!lacks, ZR_ERR_CONFIG, "ZR_KERNELS=%s: %s; the best level here is %s", name, lacks,
             best ? best->name : "it is below all levels that were built");
    return ZR_OK;
}

const char *zr_device_cpu_level(void)
{
    const char *asked = asked_level();
    const level *chosen = asked && zr__cpu_has(asked) ? find_level(asked) : best_level();
    return chosen ? chosen->name : "none";
}

/* ---- the table ------------------------------------------------------------------------------- */

static const level *level_of(const zr_device *device)
{
    return ((const cpu_device *)device)->level;
}

static void cpu_destroy(zr_device *device)
{
    zr_free(device);
}

/* Create a copy of the device for a queue's tasks. If the queue has its own thread, the copy computes with one thread,
 * otherwise with all threads of the device. */
static zr_status cpu_side(zr_device *device, const zr_queue_config *config, zr_device **side)
{
    cpu_device *cpu = zr_alloc(sizeof *cpu);
    ZR_CHECK(cpu, ZR_ERR_MEMORY, "no memory for a device's %zu bytes", sizeof *cpu);
    *cpu = *(const cpu_device *)device;
    if (config->runs == ZR_QUEUE_THREAD || config->runs == ZR_QUEUE_ISSUE) cpu->base.profile.facts.threads = 1;
    *side = &cpu->base;
    return ZR_OK;
}

static zr_status cpu_queue_create(zr_device *device, const zr_queue_config *config, zr_queue **queue)
{
    static const zr__queue_kind kind = {.side = cpu_side};
    return zr__queue_create(&kind, device, config, queue);
}

static zr_status cpu_alloc(zr_device *device, int64_t bytes, void **memory)
{
    (void)device;
    ZR_CHECK(bytes >= 0, ZR_ERR_ARG, "cannot allocate %lld bytes: the size must be 0 or more", (long long)bytes);
    *memory = zr_alloc(bytes > 0 ? (size_t)bytes : 1);
    ZR_CHECK(*memory, ZR_ERR_MEMORY, "no memory for %lld bytes", (long long)bytes);
    return ZR_OK;
}

static void cpu_free(zr_device *device, void *memory)
{
    (void)device;
    zr_free(memory);
}

/* Copy bytes. All threads share a large copy (4 MiB or more), because one thread cannot use the full memory bandwidth.
 */
static zr_status cpu_copy(zr_device *device, void *to, const void *from, int64_t bytes)
{
    enum { ALONE_BYTES = 4 << 20 };
    if (bytes < ALONE_BYTES || bytes % 4 != 0)
        memmove(to, from, (size_t)bytes);
    else
        level_of(device)->shards->cast(device->profile.facts.threads, to, ZR_F32, from, ZR_F32, bytes / 4, NULL);
    return ZR_OK;
}

static const zr_kernel *cpu_kernel(zr_device *device, const char *op)
{
    return zr__kernel_first(device->profile.facts.kernels, level_of(device)->families, op);
}

/* Return the scratch bytes of an op. The kernels of the lowest level compute them, because every processor can run
 * these kernels. The result holds for all levels, because their kernels have the same source. */
int64_t zr_device_cpu_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    const zr_kernel *kernel = zr__kernel_first(facts->kernels, levels[0].families, op->def->name);
    if (!zr__op_is_counted(graph, op)) return INT64_MAX / 64 * 64;
    return kernel && kernel->scratch_bytes ? kernel->scratch_bytes(facts, graph, op) : 0;
}

static zr_status check_float(const char *what, zr_dtype dtype)
{
    ZR_CHECK(zr_dtype_is_float(dtype), ZR_ERR_DTYPE, "%s is %s, wanted F32, BF16 or F16", what, zr_dtype_name(dtype));
    return ZR_OK;
}

static zr_status cpu_sum(zr_device *device, void *out, zr_dtype out_dtype, bool accumulate, const void *const *pieces,
                         int n_pieces, zr_dtype dtype, int64_t n)
{
    ZR_CHECK(n_pieces >= 1 && n_pieces <= ZR_SUM_PIECES, ZR_ERR_ARG,
             "the number of pieces to sum is %d; it must be 1 to %d", n_pieces, ZR_SUM_PIECES);
    if (!zr_dtype_is_record(dtype)) ZR_TRY(check_float("a piece to sum", dtype));
    ZR_TRY(check_float("a sum", out_dtype));
    ZR_CHECK(!accumulate || out_dtype == ZR_F32, ZR_ERR_DTYPE, "sums are accumulated in F32, not in %s",
             zr_dtype_name(out_dtype));
    level_of(device)->shards->sum(device->profile.facts.threads, out, out_dtype, accumulate, pieces, n_pieces, dtype,
                                  n);
    return ZR_OK;
}

static zr_status cpu_square(zr_device *device, const void *x, zr_dtype dtype, int64_t n, bool exact, int64_t first,
                            zr_square *square)
{
    const level *at = level_of(device);
    const int threads = device->profile.facts.threads;
    ZR_TRY(check_float("the operand of a sum of squares", dtype));
    if (exact)
        (*at->square_exact)(threads, x, dtype, n, &square->exact);
    else
        square->sum += at->shards->square_sum(threads, x, dtype, n);
    const bool finite = exact ? !square->exact.not_finite : isfinite(square->sum);
    const int64_t bad = finite || square->bad >= 0 ? -1 : at->shards->first_bad(x, dtype, n);
    if (bad >= 0) square->bad = first + bad;
    return ZR_OK;
}

/* Do nothing. The device is synchronous, so every operation has completed when its function returns. */
static zr_status cpu_finish(zr_device *device)
{
    (void)device;
    return ZR_OK;
}

/* Return a copy of `args` that updates only the elements [begin, end). */
static zr_update_args update_part(const zr_update_args *args, int64_t begin, int64_t end)
{
    zr_update_args part = *args;
    part.n = end - begin;
    if (part.weight) part.weight += begin;
    if (part.param16) part.param16 += begin;
    part.grad = (const char *)part.grad + begin * zr_dtype_bytes(args->grad_dtype);
    part.first += begin;
    for (int i = 0; i < ZR_OPTIMIZER_SLOTS; i++)
        if (part.slot[i]) part.slot[i] = (void *)((char *)part.slot[i] + zr_dtype_span(args->slot_dtype[i], begin));
    return part;
}

/* Number of elements in a grain. Each thread updates whole grains, because fewer elements are not worth waking a
 * thread. The result does not depend on the division among threads. */
#define UPDATE_GRAIN 4096

/* Find the rule and the direction of an optimizer: its own functions, or the device's kernels for its name. */
static zr_status find_rule(zr_device *device, const zr_optimizer *optimizer, zr__rule *rule)
{
    *rule = (zr__rule){optimizer->name, optimizer->rule, optimizer->direction};
    for (const zr__rule *built_in = level_of(device)->rules; !rule->update && built_in->name; built_in++)
        if (strcmp(built_in->name, optimizer->name) == 0) *rule = *built_in;
    ZR_CHECK(rule->update, ZR_ERR_UNSUPPORTED, "no rule for the optimizer \"%s\": use a built-in one or give it a rule",
             optimizer->name);
    ZR_CHECK(!optimizer->trust || rule->direction, ZR_ERR_UNSUPPORTED,
             "the optimizer \"%s\" has trust ratios but no direction: give it one (zr_optimizer.direction)",
             optimizer->name);
    return ZR_OK;
}

/* The blocks of a range of a shard, which begin at multiples of ZR_TRUST_BLOCK elements of the shard. */
typedef struct trust_blocks {
    const level *at;
    const zr_update_args *whole; /* the range */
    void (*direction)(const zr_update_args *args, float *out);
    int64_t skipped; /* number of elements of the first block that precede the range */
} trust_blocks;

/* Compute the direction of block `b` into `out`. Return update arguments that cover only the block's elements. */
static zr_update_args trust_block(const trust_blocks *t, int64_t b, float out[ZR_TRUST_BLOCK])
{
    const int64_t begin = b * ZR_TRUST_BLOCK - t->skipped, end = begin + ZR_TRUST_BLOCK;
    const zr_update_args part = update_part(t->whole, begin > 0 ? begin : 0, end < t->whole->n ? end : t->whole->n);
    t->direction(&part, out);
    return part;
}

/* Number of blocks whose sums are stored, and then added in order. */
#define TRUST_BATCH 256

static void trust_sums(const trust_blocks *t, int threads, int64_t blocks, zr_trust *trust)
{
    double weight[TRUST_BATCH], direction[TRUST_BATCH];
    for (int64_t batch = 0; batch < blocks; batch += TRUST_BATCH) {
        const int64_t count = blocks - batch < TRUST_BATCH ? blocks - batch : TRUST_BATCH;
#pragma omp parallel for num_threads(threads) schedule(static) if (count > 1)
        for (int64_t b = 0; b < count; b++) {
            float out[ZR_TRUST_BLOCK];
            const zr_update_args part = trust_block(t, batch + b, out);
            weight[b] = t->at->shards->square_sum(1, part.weight, ZR_F32, part.n);
            direction[b] = t->at->shards->square_sum(1, out, ZR_F32, part.n);
        }
        for (int64_t b = 0; b < count; b++) {
            trust->weight.sum += weight[b];
            trust->direction.sum += direction[b];
        }
    }
}

static void trust_exact(const trust_blocks *t, int threads, int64_t blocks, zr_trust *trust)
{
#pragma omp parallel num_threads(threads) if (blocks > 1)
    {
        zr_exact weight = {0}, direction = {0};
#pragma omp for schedule(static)
        for (int64_t b = 0; b < blocks; b++) {
            float out[ZR_TRUST_BLOCK];
            const zr_update_args part = trust_block(t, b, out);
            (*t->at->square_exact)(1, part.weight, ZR_F32, part.n, &weight);
            (*t->at->square_exact)(1, out, ZR_F32, part.n, &direction);
        }
#pragma omp critical
        {
            zr__exact_merge(&trust->weight.exact, &weight);
            zr__exact_merge(&trust->direction.exact, &direction);
        }
    }
}

static zr_status cpu_square_update(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args,
                                   bool exact, int64_t first, zr_trust *trust)
{
    zr__rule rule;
    ZR_TRY(find_rule(device, optimizer, &rule));
    ZR_TRY(check_float("a gradient", args->grad_dtype));
    if (args->n == 0) return ZR_OK;
    const trust_blocks t = {level_of(device), args, rule.direction, first % ZR_TRUST_BLOCK};
    const int64_t blocks = (t.skipped + args->n + ZR_TRUST_BLOCK - 1) / ZR_TRUST_BLOCK;
    const int threads = blocks < device->profile.facts.threads ? (int)blocks : device->profile.facts.threads;
    (exact ? trust_exact : trust_sums)(&t, threads, blocks, trust);
    return ZR_OK;
}

static zr_status cpu_update(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args)
{
    zr__rule rule;
    ZR_TRY(find_rule(device, optimizer, &rule));
    ZR_TRY(check_float("a gradient", args->grad_dtype));
    ZR_CHECK(!args->param16 || args->param_dtype == ZR_BF16 || args->param_dtype == ZR_F16, ZR_ERR_DTYPE,
             "the 16-bit copy of a parameter is %s, wanted BF16 or F16", zr_dtype_name(args->param_dtype));
    if (args->n == 0) return ZR_OK;
    const int64_t grains = (args->n + UPDATE_GRAIN - 1) / UPDATE_GRAIN;
    const int threads = grains < device->profile.facts.threads ? (int)grains : device->profile.facts.threads;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int t = 0; t < threads; t++) {
        int64_t begin = grains * t / threads * UPDATE_GRAIN, end = grains * (t + 1) / threads * UPDATE_GRAIN;
        const zr_update_args part = update_part(args, begin, end < args->n ? end : args->n);
        rule.update(&part);
    }
    return ZR_OK;
}

static void cpu_populate(zr_device *device, void *memory, int64_t bytes)
{
    (void)device;
    zr__alloc_populate(memory, bytes);
}

static zr_status cpu_fill(zr_device *device, void *x, int byte, int64_t bytes)
{
    const int64_t piece = (int64_t)1 << 20;
#pragma omp parallel for num_threads(device->profile.facts.threads) schedule(static) if (bytes > piece)
    for (int64_t first = 0; first < bytes; first += piece)
        memset((char *)x + first, byte, (size_t)(bytes - first < piece ? bytes - first : piece));
    return ZR_OK;
}

static zr_status cpu_cast(zr_device *device, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n,
                          const zr_casting *casting)
{
    ZR_TRY(zr__check_cast(out_dtype, dtype, casting));
    level_of(device)->shards->cast(device->profile.facts.threads, out, out_dtype, in, dtype, n, casting);
    return ZR_OK;
}

static zr_status cpu_total(zr_device *device, const float *x, int64_t n, zr_exact *sum)
{
    (void)device;
    zr__exact_add(sum, x, n);
    return ZR_OK;
}

static void cpu_normal(zr_device *device, const zr_rng *rng, uint64_t first, int64_t n, float std, float *out)
{
    (*level_of(device)->normal)(device->profile.facts.threads, rng, first, n, std, out);
}

static void cpu_measure(zr_device *device, zr_dtype dtype)
{
    const zr_device_facts *facts = &device->profile.facts;
    zr_machine *machine = &device->profile.machine;
    const zr__peak_ops *peaks = level_of(device)->peaks;
    bool bf16 = dtype == ZR_BF16;        /* fp16 has the rate of fp32, since its operands are widened to fp32 */
    if (bf16 && !facts->bf16_products) { /* without bf16 instructions, bf16 operands are widened to fp32, so bf16 has
                                            the rate of fp32 */
        machine->flops_bf16 = 0.0;
        return;
    }
    double registers = zr__cpu_register_flops(bf16 ? peaks->dot_bf16 : peaks->fma_f32, 1).one * facts->threads;
    double product = zr__cpu_peak_flops(level_of(device)->panels, facts->threads, bf16 ? ZR_BF16 : ZR_F32);
    *(bf16 ? &machine->flops_bf16 : &machine->flops_f32) = registers > product ? registers : product;
}

static zr_status cpu_bench(zr_device *device, zr_rates *rates)
{
    const int threads = device->profile.facts.threads;
    *rates = (zr_rates){.threads = threads};
    for (int i = 0; i < LEVELS && rates->n_levels < ZR_PEAKS; i++) {
        if (!zr__cpu_has(levels[i].name)) continue;
        zr_peak *peak = &rates->level[rates->n_levels++];
        peak->fma_f32 = zr__cpu_register_flops(levels[i].peaks->fma_f32, threads);
        peak->dot_bf16 = zr__cpu_register_flops(levels[i].peaks->dot_bf16, threads);
        snprintf(peak->level, sizeof peak->level, "%s", levels[i].name);
        if (&levels[i] == level_of(device)) rates->peak = *peak;
    }
    const zr__panel_ops *panels = level_of(device)->panels;
    rates->matmul_f32 = zr__cpu_peak_flops(panels, threads, ZR_F32);
    if (device->profile.facts.bf16_products) rates->matmul_bf16 = zr__cpu_peak_flops(panels, threads, ZR_BF16);
    ZR_TRY(zr__cpu_bandwidth(level_of(device)->peaks, threads, &rates->triad, &rates->link));
    return zr__cpu_coding(level_of(device)->shards, *level_of(device)->normal, threads, rates->records);
}

static const zr_device_ops cpu_ops = {
    .destroy = cpu_destroy,
    .queue_create = cpu_queue_create,
    .queue_destroy = zr__queue_destroy,
    .issue = zr__queue_issue,
    .mark = zr__queue_mark,
    .await = zr__queue_await,
    .sync = zr__queue_sync,
    .cancel = zr__queue_cancel,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .alloc_host = cpu_alloc,
    .free_host = cpu_free,
    .finish = cpu_finish,
    .note = cpu_finish,
    .reach = cpu_finish,
    .copy = cpu_copy,
    .kernel = cpu_kernel,
    .sum = cpu_sum,
    .square = cpu_square,
    .square_update = cpu_square_update,
    .update = cpu_update,
    .fill = cpu_fill,
    .populate = cpu_populate,
    .cast = cpu_cast,
    .total = cpu_total,
    .normal = cpu_normal,
    .measure = cpu_measure,
    .bench = cpu_bench,
};

/* ---- creation -------------------------------------------------------------------------------- */

zr_status zr__device_create_cpu_level(const zr_device_config *config, const char *name, zr_device **device)
{
    ZR_CHECK(config->threads >= 0, ZR_ERR_CONFIG, "the number of threads is %d; it must be 0 (one thread) or more",
             config->threads);
    ZR_TRY(check_level(name));
    ZR_CHECK(
        !find_level(name)->panels->bf16_products || find_level(name)->panels->tiles || zr__onednn_has_bf16(),
        ZR_ERR_CONFIG,
        "the processor's level is %s, but oneDNN is kept below it in this process (by an earlier ZR_KERNELS, or by "
        "the program): lift that, or set ZR_KERNELS to a lower level",
        name);
    cpu_device *cpu = zr_alloc(sizeof *cpu);
    ZR_CHECK(cpu, ZR_ERR_MEMORY, "no memory for a device's %zu bytes", sizeof *cpu);
    cpu->level = find_level(name);
    cpu->base.ops = &cpu_ops;
    zr_device_facts *facts = &cpu->base.profile.facts;
    snprintf(facts->name, sizeof facts->name, "this machine (%s)", name);
    facts->threads = config->threads ? config->threads : 1;
    facts->bf16_products = cpu->level->panels->bf16_products;
    facts->tiles = cpu->level->panels->tiles;
    facts->narrow_attention = *cpu->level->attention_is_narrow;
    facts->panel_bytes = ZR__PANEL_BYTES;
    facts->kernels = config->kernels;
    facts->scratch_bytes = zr_device_cpu_scratch;
    *device = &cpu->base;
    return ZR_OK;
}

zr_status zr_device_create_cpu(const zr_device_config *config, zr_device **device)
{
    const char *asked = asked_level();
    const level *best = best_level();
    ZR_CHECK(best, ZR_ERR_UNSUPPORTED, "this processor has none of the levels that were built (lowest: %s)",
             levels[0].name);
    if (asked) {
        ZR_TRY(check_level(asked));
        ZR_TRY(zr__onednn_cap(asked));
    }
    ZR_TRY(zr__device_create_cpu_level(config, asked ? asked : best->name, device));
    return ZR_OK;
}
