//TEST timeout=60
/* Quantised exchanges (ZeRO++: Wang et al. 2023) in plans of GPT-2: which units are quantised, the bytes of their
 * states, and the bytes that cross hosts, to the byte, with the scales. */
#include <string.h>

#include "gpt2_sizes.h"
#include "plan_make.h"

static const zr_gpt2_config gpt2_124m = {.n_layer = 12,
                                         .n_head = 12,
                                         .n_embd = 768,
                                         .n_positions = 1024,
                                         .vocab_size = 50257,
                                         .layer_norm_epsilon = 1e-5,
                                         .initializer_range = 0.02};

static zr_plan *plan_of(const zr_gpt2_config *config, const zr_layout *layout)
{
    zr_plan *plan = plan_gpt2(config, layout, &plan_profile);
    if (zr_plan_check(plan) != ZR_OK) fail_msg("%s", zr_error_message());
    return plan;
}

static int64_t pad(int64_t elems, int64_t multiple)
{
    return (elems + multiple - 1) / multiple * multiple;
}

/* Check that the matrices of blocks are quantised, each from a multiple of the block on, and nothing else. */
static void test_units(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++) {
        zr_layout l = plan_layout(3, ranks, ZR_BF16, 1);
        l.weight_records = ZR_I8X256;
        l.grad_records = ZR_I4X128;
        zr_plan *plan = plan_of(&plan_small, &l);
        const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
        int quantised = 0;
        for (int32_t i = 0; i < plan->n_units; i++) {
            const zr_unit_info *info = zr_graph_unit_info(g, i);
            const zr_plan_unit *u = &plan->unit[i];
            const bool block = strncmp(info->name, "h.", 2) == 0 && !strchr(info->name, ',');
            assert_int_equal(u->weight_records, block ? ZR_I8X256 : ZR_F32);
            assert_int_equal(u->grad_records, block ? ZR_I4X128 : ZR_F32);
            assert_int_equal(u->padded_elems, pad(info->elems, ranks * (block ? 256 : 32)));
            for (int32_t p = info->first_param; p < info->first_param + info->n_params && block; p++) {
                const zr_param_info *param = zr_graph_param(g, p);
                assert_true(param->shape.ndim == 2 && param->unit_offset % 256 == 0);
                quantised++;
            }
        }
        assert_int_equal(quantised, 4 * plan_small.n_layer);
        zr_plan_destroy(&plan);
    }
}

/* Check the bytes of states: a quantised unit has a master also in fp32, and at stage 3 no other parameters.
 * Differences take no more. */
static void test_states(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (int wide = 0; wide < 2; wide++) {
            const int64_t N = 4, e = wide ? 4 : 2;
            zr_layout l = plan_layout(stage, (int)N, wide ? ZR_F32 : ZR_BF16, 1);
            l.weight_records = ZR_I8X128;
            l.weight_differences = stage == 1;
            zr_plan *plan = plan_of(&plan_small, &l);
            int64_t want = 0;
            for (int32_t i = 0; i < plan->n_units; i++) {
                const zr_plan_unit *u = &plan->unit[i];
                const int64_t P = u->padded_elems, shard = P / N;
                const bool quantised = zr_dtype_is_record(u->weight_records);
                want += pad(e * (stage < 3 ? P : quantised ? 0 : shard), 64) + pad(e * (stage < 2 ? P : shard), 64);
                for (int k = wide && !quantised ? 1 : 0; k < 3; k++) want += pad(4 * (stage == 0 ? P : shard), 64);
            }
            assert_int_equal(plan->memory.states_bytes, want);
            zr_plan_destroy(&plan);
        }
}

/* Check the bytes across n hosts of g ranks, with hpZ: parameters cross once a step, and gradients once. With blocks of
 * 128 and two hosts a host receives 0.766 bytes for each quantised parameter, and others as they are. */
static void test_borders(void **state)
{
    (void)state;
    for (int n = 2; n <= 4; n *= 2)
        for (int64_t accum = 1; accum <= 3; accum += 2) {
            const int64_t g = 8, N = n * g;
            zr_layout l = plan_layout(3, (int)N, ZR_BF16, accum);
            l.weight_records = ZR_I8X128;
            l.grad_records = ZR_I4X128;
            l.reduce_once = accum > 1;
            l.host_ranks = l.hpz_ranks = (int)g;
            l.hierarchical = true;
            zr_plan *plan = plan_of(&gpt2_124m, &l);
            int64_t gathered = 0, reduced = 0, quantised = 0, rest = 0;
            for (int32_t i = 0; i < plan->n_units; i++) {
                const zr_plan_unit *u = &plan->unit[i];
                const int64_t piece = u->padded_elems / N;
                const bool records = zr_dtype_is_record(u->weight_records);
                *(records ? &quantised : &rest) += u->padded_elems;
                gathered += (n - 1) * (records ? piece / 128 * 130 : 2 * piece);
                reduced += (n - 1) * (records ? piece / 128 * 66 : 4 * piece); /* partial sums are in fp32 */
            }
            const zr_traffic *hosts = &plan->across[ZR_BORDER_HOST];
            assert_int_equal(hosts->bytes[ZR_TRAFFIC_ALL_GATHER], gathered);
            assert_int_equal(hosts->bytes[ZR_TRAFFIC_REDUCE_SCATTER], reduced);
            assert_int_equal(quantised, 12 * 12 * 768 * 768);
            if (n == 2) assert_int_equal(g * (gathered + reduced), quantised * 196 / 256 + g * (2 + 4) * (rest / N));
            zr_plan_destroy(&plan);
        }
}

/* Check the bytes of differences across n hosts of g ranks, and on one: parameters are gathered once a step, at 0.516
 * bytes each. With two hosts a host receives 0.258 bytes for each quantised parameter. */
static void test_differences(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n *= 2)
        for (int stage = 1; stage <= 2; stage++) {
            const int64_t g = 4, N = n * g;
            zr_layout l = plan_layout(stage, (int)N, ZR_BF16, 1);
            l.weight_records = ZR_I4X128;
            l.weight_differences = true;
            l.host_ranks = n > 1 ? (int)g : 0;
            l.hierarchical = n > 1;
            zr_plan *plan = plan_of(&gpt2_124m, &l);
            int64_t all = 0, across = 0, quantised = 0, rest = 0;
            for (int32_t i = 0; i < plan->n_units; i++) {
                const zr_plan_unit *u = &plan->unit[i];
                const int64_t piece = u->padded_elems / N, bytes = u->differs ? piece / 128 * 66 : 2 * piece;
                assert_true(u->differs == zr_dtype_is_record(u->weight_records));
                *(u->differs ? &quantised : &rest) += u->padded_elems;
                all += (N - 1) * bytes;
                across += (n - 1) * bytes;
            }
            assert_int_equal(plan->traffic.bytes[ZR_TRAFFIC_ALL_GATHER], all);
            assert_int_equal(plan->across[ZR_BORDER_HOST].bytes[ZR_TRAFFIC_ALL_GATHER], across);
            assert_int_equal(quantised, 12 * 12 * 768 * 768);
            if (n == 2) assert_int_equal(g * across, quantised * 33 / 128 + g * 2 * (rest / N));
            zr_plan_destroy(&plan);
        }
}

/* Check that buckets are cut at multiples of the block: a bucket of one element moves one block of each shard. */
static void test_buckets(void **state)
{
    (void)state;
    zr_layout l = plan_layout(3, 4, ZR_F32, 1);
    l.weight_records = ZR_I8X256;
    l.grad_records = ZR_I8X128;
    l.gather_bucket_elems = l.reduce_bucket_elems = 1;
    zr_plan *plan = plan_of(&plan_small, &l);
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int moves = 0;
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        if (step->bucket_elems == 0) continue;
        const bool records = zr_dtype_is_record(s->use[step->uses].dtype);
        assert_int_equal(step->bucket_elems, records ? 256 : 32);
        moves += records;
    }
    assert_int_equal(moves, 3 * plan_small.n_layer); /* two gathers and a reduction of each block */
    zr_plan_destroy(&plan);
}

/* Check the bytes of errors: 1.016 bytes for each element of a rank's whole gradient, and, in two levels, of its
 * partial sums. They are the same at every stage, and there are none on one rank. */
static void test_errors(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 1; ranks <= 4; ranks += 3)
            for (int host = 0; host <= ranks / 2; host++) { /* ranks of a host; 0: one level */
                zr_layout l = plan_layout(stage, ranks, ZR_BF16, 1);
                l.grad_records = ZR_I4X128;
                l.host_ranks = host;
                l.hierarchical = host > 0;
                zr_plan *plain = plan_of(&plan_small, &l);
                l.error_steps = 1024;
                zr_plan *plan = plan_of(&plan_small, &l);
                int64_t want = 0;
                for (int32_t i = 0; i < plan->n_units && ranks > 1; i++) {
                    const int64_t P = plan->unit[i].padded_elems;
                    if (!zr_dtype_is_record(plan->unit[i].grad_records)) continue;
                    want += pad(P / 128 * 130, 64) + (host > 1 ? pad(P / host / 128 * 130, 64) : 0);
                }
                assert_true(ranks == 1 || want > 0);
                assert_int_equal(plan->memory.states_bytes - plain->memory.states_bytes, want);
                assert_int_equal(plan->memory.category_bytes[ZR_CATEGORY_GRAD] -
                                     plain->memory.category_bytes[ZR_CATEGORY_GRAD],
                                 want);
                assert_memory_equal(&plan->traffic, &plain->traffic, sizeof plan->traffic);
                zr_plan_destroy(&plain);
                zr_plan_destroy(&plan);
            }
}

/* ---- faults ------------------------------------------------------------------------------------ */

/* Return the first step of a kind that makes records (`made`) or reads them. */
static zr_step *step_of(zr_plan *plan, zr_step_kind kind, bool made)
{
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    for (int32_t i = 0; i < s->n_steps; i++) {
        zr_step *step = &s->step[i];
        if (step->kind == kind && zr_dtype_is_record(s->use[step->uses + made].dtype)) return step;
    }
    fail_msg("no step %s", zr_step_kind_name(kind));
    return NULL;
}

static void expect_broken(const zr_plan *plan, const char *text)
{
    assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
    if (!strstr(zr_error_message(), text)) fail_msg("\"%s\" does not say \"%s\"", zr_error_message(), text);
}

/* Check that the proof notices records of the wrong elements, units or types. */
static void test_faults(void **state)
{
    (void)state;
    for (int stage = 1; stage <= 3; stage += 2) {
        zr_layout l = plan_layout(stage, 2, ZR_BF16, 1);
        l.weight_records = ZR_I8X128;
        l.grad_records = ZR_I4X128;
        zr_plan *plan = plan_of(&plan_small, &l);
        zr_use *use = plan->schedule[ZR_SCHEDULE_TRAIN].use;
        zr_step *encode = step_of(plan, ZR_STEP_CAST, true), *decode = step_of(plan, ZR_STEP_CAST, false);
        use[encode->uses + 1].range.by.elems -= 128; /* other blocks than those that this rank updates */
        expect_broken(plan, "writes elements of unit");
        use[encode->uses + 1].range.by.elems += 128;
        use[encode->uses + 1].dtype = ZR_E4M3X128;
        expect_broken(plan, "another");
        use[encode->uses + 1].dtype = ZR_I8X128;
        use[decode->uses].dtype = ZR_I8X256;
        expect_broken(plan, "another");
        use[decode->uses].dtype = ZR_I8X128;
        const int32_t target = use[decode->uses + 1].buffer;
        use[decode->uses + 1].buffer = plan->unit[0].param.buffer; /* into another unit */
        assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
        use[decode->uses + 1].buffer = target;
        zr_use *pieces = &use[step_of(plan, ZR_STEP_GATHER, false)->uses + 1];
        const zr_use gathered = *pieces;
        pieces->buffer = target; /* records, taken for parameters */
        pieces->dtype = ZR_BF16;
        expect_broken(plan, "gathers I8X128 as BF16");
        *pieces = gathered;
        zr_step *reduce = step_of(plan, ZR_STEP_REDUCE_SCATTER, false);
        const zr_use records = use[reduce->uses];
        use[reduce->uses].dtype = ZR_BF16;
        assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
        use[reduce->uses] = records;
        plan->unit[0].grad_records = ZR_I4X128; /* a gradient that should be quantised, and is not */
        expect_broken(plan, "reduces unit 0 as BF16");
        plan->unit[0].grad_records = ZR_F32;
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        zr_plan_destroy(&plan);
    }
}

/* Check that the proof notices a gradient that is cast without its errors or with others, or not once, and other errors
 * that are saved. */
static void test_error_faults(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        zr_layout l = plan_layout(stage, 4, ZR_BF16, 1);
        l.grad_records = ZR_I4X128;
        l.error_steps = 1024;
        l.host_ranks = 2;
        l.hierarchical = true;
        l.save = ZR_SAVE_IN_PLACE;
        zr_plan *plan = plan_of(&plan_small, &l);
        zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        zr_step *cast[2] = {NULL}, *save = NULL; /* the casts of a unit at both levels, and a save of its errors */
        for (int32_t i = 0; i < s->n_steps && !cast[1]; i++)
            if (s->step[i].kind == ZR_STEP_CAST) cast[cast[0] != NULL] = &s->step[i];
        for (int32_t i = 0; i < s->n_steps; i++)
            if (s->step[i].kind == ZR_STEP_SAVE && s->step[i].slot == ZR_SLOT_ERROR) save = &s->step[i];
        assert_true(cast[1] && cast[0]->unit == cast[1]->unit && save);
        for (int level = 0; level < 2; level++) {
            zr_use *error = &s->use[cast[level]->uses + 2];
            const zr_use had = *error;
            assert_int_equal(error->buffer, plan->unit[cast[level]->unit].error[level].buffer);
            assert_int_equal(error->dtype, ZR_I8X128);
            cast[level]->n_uses = 2;
            expect_broken(plan, "are not renewed");
            cast[level]->n_uses = 3;
            error->writes = false;
            expect_broken(plan, "without its errors");
            *error = had;
            error->range.first += 128;
            assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
            *error = had;
            error->buffer = s->use[cast[!level]->uses + 2].buffer;
            assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
            *error = had;
        }
        save->slot++; /* as other errors */
        expect_broken(plan, "is not the own shard of the state");
        save->slot--;
        cast[0]->range.count -= 128;
        for (int i = 0; i < 3; i++) s->use[cast[0]->uses + i].range.count -= 128;
        assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
        cast[0]->range.count += 128;
        for (int i = 0; i < 3; i++) s->use[cast[0]->uses + i].range.count += 128;
        cast[0]->when = ZR_WHEN_FIRST;
        expect_broken(plan, "once a training step");
        cast[0]->when = ZR_WHEN_ALWAYS;
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        zr_plan_destroy(&plan);
    }
}

/* Check that the proof notices differences to other parameters, and differences that are added twice, or never. */
static void test_faults_of_differences(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 2; stage++) {
        zr_layout l = plan_layout(stage, 2, ZR_BF16, 1);
        l.weight_records = ZR_I4X128;
        l.weight_differences = true;
        zr_plan *plan = plan_of(&plan_small, &l);
        zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        zr_step *encode = step_of(plan, ZR_STEP_CAST, true), *decode = step_of(plan, ZR_STEP_CAST, false);
        zr_step *cast[] = {encode, decode};
        for (int i = 0; i < 2; i++) {
            zr_use *old = &s->use[cast[i]->uses + 2];
            const zr_use had = *old;
            cast[i]->n_uses = 2; /* the master itself, or an overwritten parameter */
            expect_broken(plan, "casts something else than differences");
            cast[i]->n_uses = 3;
            old->buffer = plan->unit[0].param.buffer;
            assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
            *old = had;
            old->range.by.elems += stage > 0 && i == 0 ? 128 : 0;
            old->range.first += stage > 0 && i == 0 ? 0 : 128;
            assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
            *old = had;
        }
        const zr_schedule *flush = &plan->schedule[ZR_SCHEDULE_FLUSH];
        zr_step *added = flush->step, *other;
        while (added->kind != ZR_STEP_CAST || zr_dtype_is_record(flush->use[added->uses + 1].dtype)) added++;
        for (other = added + 1; other->kind != ZR_STEP_CAST;) other++; /* of the next unit */
        const zr_step was = *other, had = *added;
        *other = *added; /* a difference that is added twice */
        expect_broken(plan, "reads buffer parameters,");
        *other = was;
        *added = (zr_step){.kind = ZR_STEP_ZERO, .stream = had.stream, .unit = -1, .op = -1, .channel = -1};
        expect_broken(plan, "is not brought up to date by a flush");
        *added = had;
        zr_schedule *fill = &plan->schedule[ZR_SCHEDULE_FILL];
        int gathers = 0;
        for (int32_t i = 0; i < fill->n_steps; i++) gathers += fill->step[i].kind == ZR_STEP_GATHER;
        assert_int_equal(gathers, stage > 0 ? plan->n_units : 0);
        assert_int_equal(gathers, fill->n_steps); /* and no casts */
        if (gathers > 0) {
            fill->step[1].range.count -= 32; /* a part that is not filled on other ranks */
            assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
            fill->step[1].range.count += 32;
        }
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        zr_plan_destroy(&plan);
    }
}

/* Return the seconds of a step on a machine that takes time only for records, in COMM and COMPUTE together. */
static double coding_sec(const zr_plan *plan, zr_record_rate weights, zr_record_rate grads)
{
    zr_price price;
    const zr_profile profile = {.machine = {.records = {weights, grads}}}; /* of int8, of int4 */
    assert_int_equal(zr_plans_price(&(zr_plans){.role = {(zr_plan *)plan}, .n = 1}, &profile, &price), ZR_OK);
    return price.comm_sec + price.compute_sec;
}

/* Check that the time of a step includes what encoding and decoding take: each rank encodes its part of a unit for each
 * gather, and decodes the unit; it encodes its gradient, and decodes its part of the gradients of all ranks. */
static void test_coding(void **state)
{
    (void)state;
    enum { RANKS = 4, RATE = 1000 };
    zr_layout l = plan_layout(3, RANKS, ZR_BF16, 1);
    l.weight_records = ZR_I8X128;
    l.grad_records = ZR_I4X256;
    for (int random = 0; random < 2; random++) {
        l.stochastic = random;
        zr_plan *plan = plan_of(&plan_small, &l);
        const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        double gathered = 0, reduced = 0;
        for (int32_t i = 0; i < s->n_steps; i++) {
            const zr_plan_unit *u = &plan->unit[s->step[i].unit > 0 ? s->step[i].unit : 0];
            if (s->step[i].kind == ZR_STEP_GATHER && zr_dtype_is_record(u->weight_records))
                gathered += (double)u->padded_elems;
        }
        for (int32_t u = 0; u < plan->n_units; u++)
            if (zr_dtype_is_record(plan->unit[u].grad_records)) reduced += (double)plan->unit[u].padded_elems;
        assert_true(gathered >= 2 * reduced - 1 && reduced > 0); /* forward and backward */
        const zr_record_rate none = {0}, decode = {.decode = RATE},
                             encode =
                                 random ? (zr_record_rate){.encode_random = RATE} : (zr_record_rate){.encode = RATE},
                             other =
                                 random ? (zr_record_rate){.encode = RATE} : (zr_record_rate){.encode_random = RATE};
        assert_float_equal(coding_sec(plan, encode, none), gathered / RANKS / RATE, 1e-9 * gathered);
        assert_float_equal(coding_sec(plan, decode, none), gathered / RATE, 1e-9 * gathered);
        assert_float_equal(coding_sec(plan, none, encode), reduced / RATE, 1e-9 * reduced);
        assert_float_equal(coding_sec(plan, none, decode), reduced / RATE, 1e-9 * reduced);
        assert_true(coding_sec(plan, none, none) == 0 && coding_sec(plan, other, other) == 0);
        zr_plan_destroy(&plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_borders),
        cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_error_faults),
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_faults_of_differences),
        cmocka_unit_test(test_coding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
