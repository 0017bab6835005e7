//TEST timeout=60
//LINK -Wl,--wrap=zr__pack
/* Memory and traffic of plans, against the papers' formulas (ZeRO sections 5 and 7). */
#include <stdlib.h>
#include <string.h>

#include "gpt2_sizes.h"
#include "plan/cost/cost.h"
#include "plan/list/list.h"
#include "plan_make.h"

static zr_profile profile = {
    .facts = {.name = "test", .threads = 1, .panel_bytes = 1 << 20, .scratch_bytes = zr_device_cpu_scratch}};

static zr_plan *plan_of(const zr_gpt2_config *config, const zr_layout *layout)
{
    return plan_gpt2(config, layout, &profile);
}

/* Check the bytes of model states at stages 0 to 3: 16P, 4P + 12P/N, 2P + 14P/N, 16P/N, with P the padded
 * parameters. */
static void test_states(void **state)
{
    (void)state;
    const int ranks[] = {1, 2, 3, 4, 6, 64};
    gpt2_sizes s = gpt2_count(&plan_small);
    for (int stage = 0; stage <= 3; stage++)
        for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
            int64_t N = ranks[i], P = gpt2_padded(&s, N);
            const int64_t want[] = {16 * P, 4 * P + 12 * P / N, 2 * P + 14 * P / N, 16 * P / N};
            zr_layout l = plan_layout(stage, ranks[i], ZR_BF16, 1);
            zr_plan *plan = plan_of(&plan_small, &l);
            assert_int_equal(plan->params, s.params);
            assert_int_equal(plan->padding_elems, P - s.params);
            assert_int_equal(plan->memory.states_bytes, want[stage]);
            zr_plan_destroy(&plan);
        }
}

/* Check that with several micro-batches the owner keeps fp32 sums, 4P/N bytes (at stage 0 all 4P), in addition to the
 * stage's other states. */
static void test_accumulators(void **state)
{
    (void)state;
    gpt2_sizes s = gpt2_count(&plan_small);
    int64_t N = 4, P = gpt2_padded(&s, N);
    const int64_t want[] = {2 * P + 2 * P + 4 * P + 12 * P, 2 * P + 2 * P + 4 * P / N + 12 * P / N,
                            2 * P + 4 * P / N + 12 * P / N, 2 * P / N + 4 * P / N + 12 * P / N};
    for (int stage = 0; stage <= 3; stage++) {
        zr_layout l = plan_layout(stage, (int)N, ZR_BF16, 3);
        zr_plan *plan = plan_of(&plan_small, &l);
        assert_int_equal(plan->memory.states_bytes, want[stage]);
        zr_plan_destroy(&plan);
    }
}

/* Check the bytes per parameter of other optimizers: K = 8 with momentum, 4 without (fp32 master included). */
static void test_optimizers(void **state)
{
    (void)state;
    gpt2_sizes s = gpt2_count(&plan_small);
    int64_t P = gpt2_padded(&s, 1);
    zr_layout l = plan_layout(0, 1, ZR_BF16, 1);
    l.optimizer = zr_sgd(0.9, false, 0);
    zr_plan *plan = plan_of(&plan_small, &l);
    assert_int_equal(plan->memory.category_bytes[ZR_CATEGORY_OPTIM], 8 * P);
    zr_plan_destroy(&plan);
    l.optimizer = zr_sgd(0, false, 0);
    plan = plan_of(&plan_small, &l);
    assert_int_equal(plan->memory.category_bytes[ZR_CATEGORY_OPTIM], 4 * P);
    zr_plan_destroy(&plan);
    l = plan_layout(0, 1, ZR_F32, 1);
    plan = plan_of(&plan_small, &l);
    assert_int_equal(plan->memory.states_bytes, (4 + 4 + 8) * P);
    zr_plan_destroy(&plan);
}

static void test_traffic(void **state)
{
    (void)state;
    const int ranks[] = {1, 2, 3, 6, 16};
    const int64_t buckets[] = {1, 1000, ZR_DEFAULT_BUCKET_ELEMS};
    gpt2_sizes s = gpt2_count(&plan_small);
    for (int stage = 0; stage <= 3; stage++)
        for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
            for (int64_t accum = 1; accum <= 4; accum += 3)
                for (int bf16 = 0; bf16 <= 1; bf16++)
                    for (int b = 0; b < 3; b++) {
                        zr_layout l = plan_layout(stage, ranks[i], bf16 ? ZR_BF16 : ZR_F32, accum);
                        l.reduce_bucket_elems = l.gather_bucket_elems = buckets[b];
                        zr_plan *plan = plan_of(&plan_small, &l);
                        zr_traffic want = gpt2_traffic(&s, stage, ranks[i], accum, bf16 ? 2 : 4, bf16 ? 2 : 4);
                        for (int k = 0; k < ZR_TRAFFIC_KINDS; k++)
                            assert_int_equal(plan->traffic.bytes[k], want.bytes[k]);
                        zr_plan_destroy(&plan);
                    }
}

/* Check that the staging memory holds two buckets, or a part of two large ones, whatever the model: constant-size
 * buffers (C_B). */
static void test_stage(void **state)
{
    (void)state;
    zr_layout l = plan_layout(2, 3, ZR_F32, 1);
    l.reduce_bucket_elems = l.gather_bucket_elems = 1000; /* 1000 is rounded up to 1056 = 11 x 96 */
    zr_plan *plan = plan_of(&plan_small, &l);
    assert_int_equal(zr__plan_bucket_elems(1000, 3, ZR_SHARD_ALIGN), 1056);
    assert_int_equal(plan->memory.category_bytes[ZR_CATEGORY_BUFFER], 2 * 4 * 1056);
    assert_int_equal(plan->memory.total_bytes, plan->space_bytes[ZR_SPACE_DEVICE] + 2 * 4 * 1056);
    zr_plan_destroy(&plan);
    l.reduce_bucket_elems = l.gather_bucket_elems = ZR_DEFAULT_BUCKET_ELEMS;
    zr_gpt2_config large = plan_small;
    large.vocab_size = 1 << 20;
    l.ranks = 64;
    plan = plan_of(&large, &l);
    assert_int_equal(plan->memory.category_bytes[ZR_CATEGORY_BUFFER], 64 * 128 << 10);
    zr_plan_destroy(&plan);
}

/* Check that at stage 3 without prefetch at most one segment's units are whole, and with prefetch at most two. */
static void test_live_parameters(void **state)
{
    (void)state;
    gpt2_sizes s = gpt2_count(&plan_small);
    int64_t N = 6, shards = gpt2_padded(&s, N) / N;
    int64_t last = gpt2_pad(s.embedding, N) + gpt2_pad(s.final, N), block = gpt2_pad(s.block, N);
    for (int ahead = 0; ahead <= 1; ahead++) {
        zr_layout l = plan_layout(3, (int)N, ZR_F32, 1);
        l.prefetch_elems = ahead;
        zr_plan *plan = plan_of(&plan_small, &l);
        int64_t whole = ahead ? (last + block > 2 * block ? last + block : 2 * block) : (last > block ? last : block);
        assert_int_equal(plan->memory.category_bytes[ZR_CATEGORY_PARAM], 4 * (shards + whole));
        zr_plan_destroy(&plan);
    }
}

/* Check that a unit stays whole when all its parameters are smaller than the threshold and the unit fits the limit for
 * whole units; here the last norm, of 2 x 57 elements. */
static void test_persistence(void **state)
{
    (void)state;
    const struct {
        int64_t elems, model_elems;
        bool gathered;
    } cases[] = {{57, 0, true}, {58, 0, false}, {58, 113, true}, {58, 114, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zr_layout l = plan_layout(3, 2, ZR_F32, 1);
        l.persist_elems = cases[i].elems;
        l.persist_model_elems = cases[i].model_elems;
        zr_plan *plan = plan_of(&plan_small, &l);
        assert_int_equal(plan->unit[plan->n_units - 1].gathered, cases[i].gathered);
        zr_plan_destroy(&plan);
    }
}

/* Check the states of models with 1.5 billion and with a trillion parameters on 1,024 ranks. */
static void test_large(void **state)
{
    (void)state;
    zr_gpt2_config config[2];
    assert_int_equal(zr_gpt2_preset("gpt2-1.5b", &config[0]), ZR_OK);
    config[1] = config[0];
    config[1].n_layer = 128;
    config[1].n_head = 160;
    config[1].n_embd = 25600;
    const int64_t params[] = {1557611200, 1007988403200};
    for (int i = 0; i < 2; i++)
        for (int stage = 0; stage <= 3; stage++) {
            gpt2_sizes s = gpt2_count(&config[i]);
            zr_layout l = plan_layout(stage, 1024, ZR_BF16, 1);
            l.seq = 1024;
            zr_plan *plan = plan_of(&config[i], &l);
            assert_int_equal(plan->params, params[i]);
            int64_t P = gpt2_padded(&s, 1024);
            const int64_t want[] = {16 * P, 4 * P + 12 * P / 1024, 2 * P + 14 * P / 1024, 16 * P / 1024};
            assert_int_equal(plan->memory.states_bytes, want[stage]);
            zr_plan_destroy(&plan);
        }
}

/* Counts of the work that planning does; a test compares them instead of its time. */
typedef struct work {
    int64_t steps, waits, uses, buffers, looks;
} work;

static work done;
/* ---- the memory map ---------------------------------------------------------------------------- */

static bool places_wanted; /* whether to check every map against the definition of first fit */

/* Return whether every use of a happens before the first write of b. */
static bool ends_before(const zr__order *o, const zr_buffer *a, const zr_buffer *b)
{
    const zr__touched *last = &o->touched[a - o->schedule->buffer];
    for (int s = 0; s < ZR_STREAMS; s++) {
        const int32_t first = o->clock[b->first_step][s];
        if (last->read[s] > first || last->written[s] > first) return false;
    }
    return true;
}

static int by_size(const void *x, const void *y)
{
    const zr_buffer *a = *(const zr_buffer *const *)x, *b = *(const zr_buffer *const *)y;
    if (a->space != b->space) return a->space < b->space ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return a < b ? -1 : 1;
}

/* Check the packing: buffers are placed largest first, each at the lowest offset where no buffer lies that may be alive
 * at the same time. */
static void expect_first_fit(const zr__order *o)
{
    const zr_schedule *s = o->schedule;
    const int32_t n = s->n_buffers - o->plan->n_persistent;
    const zr_buffer **list = calloc((size_t)n + 1, sizeof *list);
    assert_non_null(list);
    for (int32_t i = 0; i < n; i++) list[i] = &s->buffer[o->plan->n_persistent + i];
    qsort(list, (size_t)n, sizeof *list, by_size);
    for (int32_t i = 0; i < n; i++) {
        int64_t lowest = o->plan->persistent_bytes[list[i]->space];
        for (int32_t k = 0; k < i; k++) {
            const zr_buffer *other = list[k];
            const bool meets = other->space == list[i]->space && other->offset < lowest + list[i]->bytes &&
                               other->offset + other->bytes > lowest;
            if (!meets || ends_before(o, other, list[i]) || ends_before(o, list[i], other)) continue;
            lowest = other->offset + other->bytes;
            k = -1; /* check all others again, because they are not ordered by offset */
        }
        assert_int_equal(list[i]->offset, lowest);
    }
    free(list);
}

zr_status __real_zr__pack(const zr__order *order, zr__packed *packed);
zr_status __wrap_zr__pack(const zr__order *order, zr__packed *packed);
zr_status __wrap_zr__pack(const zr__order *order, zr__packed *packed)
{
    zr_status st = __real_zr__pack(order, packed);
    done.looks += packed->looks;
    if (places_wanted && st == ZR_OK) expect_first_fit(order);
    return st;
}

static work work_of(int stage, bool lean, int64_t layers)
{
    zr_gpt2_config config = plan_small;
    config.n_layer = layers;
    zr_layout l = plan_layout(stage, 4, ZR_BF16, 1);
    if (lean) {
        l.states = ZR_STATES_LEAN;
        l.recompute = ZR_RECOMPUTE_UNIT;
        l.recompute_every = 1;
    }
    done = (work){0};
    zr_plan *plan = plan_of(&config, &l);
    for (int k = 0; k < ZR_SCHEDULES; k++) {
        done.steps += plan->schedule[k].n_steps;
        done.waits += plan->schedule[k].n_waits;
        done.uses += plan->schedule[k].n_uses;
        done.buffers += plan->schedule[k].n_buffers;
    }
    zr_plan_destroy(&plan);
    return done;
}

/* Check that a model four times as deep has at most four times the schedule, and that few buffers are compared one by
 * one: where all activations are kept, whole blocks of buffers tell that a buffer goes above them. */
static void test_work(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (int lean = 0; lean <= 1; lean++) {
            work one = work_of(stage, lean, 64), four = work_of(stage, lean, 256);
            assert_in_range(four.steps, 1, 4 * one.steps);
            assert_in_range(four.waits, 1, 4 * one.waits);
            assert_in_range(four.uses, 1, 4 * one.uses);
            assert_in_range(four.buffers, 1, 4 * one.buffers);
            assert_in_range(four.looks, four.buffers, 16 * one.looks);
            assert_in_range(four.looks, 1, 400 * four.buffers);
            if (stage == 0 && lean) assert_in_range(four.looks, 1, 200 * four.buffers);
            if (stage == 3) assert_in_range(four.looks, 1, 200 * four.buffers);
        }
}

/* Check the model FLOPs of a step: 72 B L s h^2 (1 + s/(6h) + V/(12 L h)), as the papers count. */
static void test_flops(void **state)
{
    (void)state;
    zr_gpt2_config config;
    assert_int_equal(zr_gpt2_preset("gpt2-124m", &config), ZR_OK);
    zr_layout l = plan_layout(2, 8, ZR_BF16, 4);
    l.batch = 2;
    l.seq = 1024;
    zr_plan *plan = plan_of(&config, &l);
    double rows = 8 * 4 * 2, s = 1024, h = 768, L = 12, V = 50257;
    double want = 72 * rows * L * s * h * h * (1 + s / (6 * h) + V / (12 * L * h));
    assert_float_equal(plan->flops_model, want, 1e-9 * want);
    zr_plan_destroy(&plan);
}

/* Check first fit with deep models, whose buffers lie in several slices and many blocks. */
static void test_first_fit(void **state)
{
    (void)state;
    places_wanted = true;
    for (int stage = 0; stage <= 3; stage += 3)
        for (int lean = 0; lean <= 1; lean++) (void)work_of(stage, lean, 40);
    places_wanted = false;
}

/* Check the rounds in which a step of the schedule runs. */
static void test_rounds(void **state)
{
    (void)state;
    static const struct {
        zr_when when;
        bool stale, saves;
        int64_t runs[3]; /* runs in the first round, in a later one, and in four rounds */
    } want[] = {{ZR_WHEN_ALWAYS, false, false, {1, 1, 4}}, {ZR_WHEN_STALE, true, false, {1, 0, 1}},
                {ZR_WHEN_STALE, false, true, {0, 0, 0}},   {ZR_WHEN_FIRST, false, false, {1, 0, 1}},
                {ZR_WHEN_LATER, true, true, {0, 1, 3}},    {ZR_WHEN_SAVE, false, true, {1, 0, 1}},
                {ZR_WHEN_SAVE, true, false, {0, 0, 0}}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_int_equal(zr_when_runs(want[i].when, 0, want[i].stale, want[i].saves), want[i].runs[0]);
        assert_int_equal(zr_when_runs(want[i].when, 2, want[i].stale, want[i].saves), want[i].runs[1]);
        assert_int_equal(zr_when_rounds(want[i].when, 4, want[i].stale, want[i].saves), want[i].runs[2]);
    }
}

/* ---- GPUs --------------------------------------------------------------------------------------- */

/* Check the bytes that a GPT-2 block moves outside matrix products and attention, per token and unit of width, if it
 * recomputes nothing. docs/gpu.md shows these numbers. */
static void test_block_bytes(void **state)
{
    (void)state;
    const struct {
        const char *op;
        double bytes; /* sum over all ops of this name in the block */
    } want[] = {{"layernorm", 8},  {"add", 12},         {"gelu", 16},        {"gelu_dx", 24},
                {"linear_db", 18}, {"layernorm_dw", 8}, {"layernorm_dx", 16}};
    const zr_gpt2_config wide = {
        .n_layer = 3, .n_head = 32, .n_embd = 4096, .n_positions = 64, .vocab_size = 131, .layer_norm_epsilon = 1e-5};
    zr_layout l = plan_layout(0, 1, ZR_BF16, 1);
    l.recompute = ZR_RECOMPUTE_KEEP;
    l.seq = 64;
    zr_plan *plan = plan_of(&wide, &l);
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    double all = 0, wanted = 0;
    for (size_t w = 0; w < sizeof want / sizeof *want; w++) {
        double bytes = 0;
        for (int32_t i = 0; i < s->n_steps; i++) {
            if (s->step[i].kind != ZR_STEP_RUN || s->step[i].unit != 2) continue;
            const zr_step_cost cost = zr__plan_step_cost(plan, ZR_SCHEDULE_TRAIN, i);
            const char *name = zr_graph_get_op(plan->graph[ZR_SCHEDULE_TRAIN], s->step[i].op)->def->name;
            if (strcmp(name, want[w].op) == 0) bytes += cost.memory_bytes;
            if (w == 0 && cost.flops == 0) all += cost.memory_bytes;
        }
        assert_float_equal(bytes / (64 * 4096), want[w].bytes, 0.02 * want[w].bytes);
        wanted += want[w].bytes;
    }
    assert_float_equal(all / (64 * 4096), wanted, 0.02 * wanted);
    zr_plan_destroy(&plan);
}

/* Check the rows for which the head computes logits at a time: 512 MiB of logits on GPUs, otherwise 512 rows, whatever
 * the memory limit. */
static void test_head_blocks(void **state)
{
    (void)state;
    const struct {
        const char *profile;
        zr_dtype dtype;
        int64_t rows;
    } want[] = {
        {"h100", ZR_BF16, 4096}, {"v100-dgx2", ZR_F16, 4096}, {"a100-40gb", ZR_F32, 2352}, {"zen3", ZR_F32, 512}};
    const zr_gpt2_config config = {
        .n_layer = 1, .n_head = 1, .n_embd = 32, .n_positions = 16384, .vocab_size = 50257, .layer_norm_epsilon = 1e-5};
    for (size_t w = 0; w < sizeof want / sizeof *want; w++)
        for (int limited = 0; limited <= 1; limited++) {
            zr_layout l = plan_layout(0, 1, want[w].dtype, 1);
            l.seq = 16384;
            l.limit_bytes = limited ? 1000000 : 0;
            zr_profile named;
            assert_int_equal(zr_profile_named(want[w].profile, &named), ZR_OK);
            zr_plan *plan = plan_gpt2(&config, &l, &named);
            const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
            int found = 0;
            for (int32_t i = 0; i < zr_graph_ops(g); i++) {
                const zr_op *op = zr_graph_get_op(g, i);
                if (strcmp(op->def->name, "linear_cross_entropy_dx") != 0) continue;
                assert_int_equal(op->attr.i[0], want[w].rows);
                found++;
            }
            assert_int_equal(found, 1);
            zr_plan_destroy(&plan);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_fit),   cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_states),      cmocka_unit_test(test_accumulators),
        cmocka_unit_test(test_optimizers),  cmocka_unit_test(test_traffic),
        cmocka_unit_test(test_stage),       cmocka_unit_test(test_live_parameters),
        cmocka_unit_test(test_persistence), cmocka_unit_test(test_large),
        cmocka_unit_test(test_work),        cmocka_unit_test(test_flops),
        cmocka_unit_test(test_block_bytes), cmocka_unit_test(test_head_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
