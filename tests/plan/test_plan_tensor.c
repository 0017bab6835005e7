//TEST timeout=60
/* Tensor-parallel ranks: the traffic between them follows the formulas, and impossible layouts are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include <zr.h>

enum { B = 2, T = 24, H = 32, V = 61 };

/* Plan the layout `l`, which contains the recompute policy and the way to keep checkpoints. */
static zr_status plan_as(zr_layout l, int64_t layers, int tensor, int ranks, zr_plan **plan)
{
    const zr_gpt2_config config = {.n_layer = layers,
                                   .n_head = 8,
                                   .n_embd = H,
                                   .n_positions = T,
                                   .vocab_size = V,
                                   .layer_norm_epsilon = 1e-5,
                                   .initializer_range = 0.02};
    l.ranks = ranks;
    l.tensor = tensor;
    l.stage = 3;
    l.batch = B;
    l.seq = T;
    l.optimizer = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    zr_profile profile = {0};
    profile.facts.threads = 1;
    zr_model model = zr_gpt2(&config);
    return zr_plan_create(&model, &l, &profile, plan);
}

static zr_status plan_of(int64_t layers, int tensor, int ranks, zr_recompute recompute, zr_plan **plan)
{
    zr_layout l = zr_layout_default();
    l.recompute = recompute;
    return plan_as(l, layers, tensor, ranks, plan);
}

static int64_t within_layers(zr_layout l, int64_t layers, int tensor, int ranks)
{
    zr_plan *plan = NULL;
    if (plan_as(l, layers, tensor, ranks, &plan) != ZR_OK || zr_plan_check(plan) != ZR_OK)
        fail_msg("%d x %d: %s", ranks, tensor, zr_error_message());
    const zr_traffic *between = &plan->across[ZR_BORDER_TENSOR];
    assert_int_equal(between->bytes[ZR_TRAFFIC_ALL_REDUCE], 0);
    const int64_t bytes = between->bytes[ZR_TRAFFIC_REDUCE_SCATTER] + between->bytes[ZR_TRAFFIC_ALL_GATHER];
    zr_plan_destroy(&plan);
    return bytes;
}

/* Check traffic in units of (M-1)/M of b s h elements. A block's two sums forward and two backward, each a
 * reduce-scatter and a gather, are 8. A recomputed block does not repeat its last product, so that one sum is made
 * again: 10, or 12 where the last product is repeated too, as the papers count. In addition, the sum of the embedding's
 * parts and the sum of the head's gradient take 2 each, and each rank receives two numbers a token from each other
 * rank. A checkpoint kept in pieces is gathered once more, from the host's space or the device's: 1 each (ZeRO section
 * 7). */
static void traffic_is_the_formula(void **state)
{
    (void)state;
    static const struct {
        zr_recompute recompute;
        int64_t every, each, checkpoints; /* units of traffic, and checkpoints, per block */
    } policy[] = {{ZR_RECOMPUTE_NONE, 1, 8, 0},
                  {ZR_RECOMPUTE_SELECTIVE, 1, 8, 2},
                  {ZR_RECOMPUTE_UNIT, 1, 10, 1},
                  {ZR_RECOMPUTE_UNIT, 2, 10, 1},
                  {ZR_RECOMPUTE_PAPER, 1, 12, 1}};
    for (int tensor = 1; tensor <= 8; tensor *= 2)
        for (int ranks = 1; ranks <= 3; ranks++)
            for (int p = 0; p < 5; p++)
                for (int64_t layers = 1; layers <= 3; layers++) {
                    zr_layout l = zr_layout_default();
                    l.recompute = policy[p].recompute;
                    l.recompute_every = policy[p].every;
                    const int64_t value = (int64_t)B * T * H * 4 / tensor * (tensor - 1);
                    const int64_t head = (tensor - 1) * (int64_t)B * T * 2 * 4;
                    /* In each pair of units, the embedding included, the first unit's output is recomputed. */
                    const int64_t again = policy[p].every == 1 ? 0 : 2 * ((layers + 1) / 2) * value;
                    const int64_t whole = (policy[p].each * layers + 4) * value + head + again;
                    assert_int_equal(within_layers(l, layers, tensor, ranks), tensor == 1 ? 0 : whole);
                    if (l.recompute == ZR_RECOMPUTE_NONE) continue;
                    const int64_t kept = policy[p].every == 1 ? policy[p].checkpoints * layers : layers / 2;
                    l.partition_checkpoints = true;
                    assert_int_equal(within_layers(l, layers, tensor, ranks), tensor == 1 ? 0 : whole + kept * value);
                    l.checkpoint_home = ZR_SPACE_HOST;
                    assert_int_equal(within_layers(l, layers, tensor, ranks), tensor == 1 ? 0 : whole + kept * value);
                }
}

/* Check traffic with sequence parallelism. A block's four sums become scatters and gathers, again 8, where gathered
 * values are kept for the backward pass; 2 more where they are gathered again (Korthikanti et al. 2022, section 4.2.2),
 * 3 more where the block is recomputed. Checkpoints are cut already. The embedding and the head take two each, as
 * before; each rank makes a part of the gradients of gains, biases and positions. */
static void traffic_of_tokens(void **state)
{
    (void)state;
    static const struct {
        zr_recompute recompute;
        zr_sequence sequence;
        int64_t each;
    } policy[] = {{ZR_RECOMPUTE_NONE, ZR_SEQUENCE_KEEP, 8},       {ZR_RECOMPUTE_NONE, ZR_SEQUENCE_REGATHER, 10},
                  {ZR_RECOMPUTE_SELECTIVE, ZR_SEQUENCE_KEEP, 10}, {ZR_RECOMPUTE_SELECTIVE, ZR_SEQUENCE_REGATHER, 10},
                  {ZR_RECOMPUTE_UNIT, ZR_SEQUENCE_KEEP, 11},      {ZR_RECOMPUTE_PAPER, ZR_SEQUENCE_KEEP, 12}};
    for (int tensor = 1; tensor <= 8; tensor *= 2)
        for (int ranks = 1; ranks <= 3; ranks++)
            for (int p = 0; p < 6; p++)
                for (int64_t layers = 1; layers <= 3; layers++)
                    for (int pieces = 0; pieces < 2; pieces++) {
                        zr_layout l = zr_layout_default();
                        l.recompute = policy[p].recompute;
                        l.sequence = policy[p].sequence;
                        l.partition_checkpoints = pieces;
                        const int64_t value = (int64_t)B * T * H * 4 / tensor * (tensor - 1);
                        const int64_t head = (tensor - 1) * (int64_t)B * T * 2 * 4;
                        const int64_t copied = (6 * layers + 2 + T) * H; /* elements that every rank holds */
                        const int64_t gradients = 2 * copied * 4 / tensor * (tensor - 1);
                        const int64_t whole = (policy[p].each * layers + 4) * value + head + gradients;
                        assert_int_equal(within_layers(l, layers, tensor, ranks), tensor == 1 ? 0 : whole);
                    }
}

/* Check the checkpoints that a rank keeps: 2 b s h L / M bytes in bf16, on the device or on the host; when they are on
 * the host, at most two units' checkpoints are back on the device at any time. */
static void checkpoints_are_kept_in_pieces(void **state)
{
    (void)state;
    const int64_t value = (int64_t)B * T * H * 2;
    for (int tensor = 1; tensor <= 8; tensor *= 2)
        for (int64_t layers = 2; layers <= 6; layers += 4)
            for (int way = 0; way < 4; way++) {
                zr_plan *plan = NULL;
                zr_layout l = zr_layout_default();
                l.dtype = l.wire_dtype = ZR_BF16;
                l.recompute = ZR_RECOMPUTE_UNIT;
                l.partition_checkpoints = true;
                l.checkpoint_home = way % 2 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
                l.overlap = way / 2;
                assert_int_equal(plan_as(l, layers, tensor, 1, &plan), ZR_OK);
                const int64_t *device = plan->memory.space[ZR_SPACE_DEVICE].category_bytes,
                              *host = plan->memory.space[ZR_SPACE_HOST].category_bytes;
                assert_int_equal(device[ZR_CATEGORY_CHECKPOINT], way % 2 ? 0 : layers * value / tensor);
                assert_int_equal(host[ZR_CATEGORY_CHECKPOINT], way % 2 ? layers * value / tensor : 0);
                const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
                int alive = 0, most = 0, fetched = 0;
                for (int32_t i = 0; i < s->n_steps; i++)
                    for (int32_t b = 0; b < s->n_buffers; b++) {
                        if (strcmp(s->buffer[b].what, "fetched checkpoint") != 0) continue;
                        fetched += s->buffer[b].first_step == i;
                        alive += s->buffer[b].first_step == i;
                        if (alive > most) most = alive;
                        alive -= s->buffer[b].last_step == i;
                    }
                assert_int_equal(fetched, way % 2 || tensor > 1 ? layers : 0);
                assert_in_range(most, 0, 2);
                zr_plan_destroy(&plan);
            }
}

/* Return the uses of the first COPY to the host's space (`away`) or from it. */
static zr_use *copied(zr_schedule *s, bool away)
{
    for (int32_t i = 0; i < s->n_steps; i++) {
        zr_use *use = &s->use[s->step[i].uses];
        if (s->step[i].kind == ZR_STEP_COPY && s->buffer[use[away].buffer].space == ZR_SPACE_HOST) return use;
    }
    fail_msg("no copy");
    return NULL;
}

/* Check that the proof notices checkpoint pieces that go to a wrong place. */
static void checkpoints_astray_are_seen(void **state)
{
    (void)state;
    for (int fault = 0; fault < 9; fault++) {
        zr_plan *plan = NULL;
        zr_layout l = zr_layout_default();
        l.recompute = ZR_RECOMPUTE_UNIT;
        l.partition_checkpoints = true;
        l.checkpoint_home = fault >= 3 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
        assert_int_equal(plan_as(l, 3, 2, 1, &plan), ZR_OK);
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        int32_t gather[4], n = 0;
        for (int32_t i = 0; i < s->n_steps && n < 4; i++) {
            const zr_step *step = &s->step[i];
            const zr_op *op = step->op < 0 ? NULL : zr_graph_get_op(plan->graph[ZR_SCHEDULE_TRAIN], step->op);
            if (step->kind == ZR_STEP_GATHER && op && op->def->join == ZR_JOIN_NONE) gather[n++] = i;
        }
        assert_int_equal(n, 3);
        zr_step *first = &s->step[gather[0]], *second = &s->step[gather[1]];
        if (fault == 0) s->use[first->uses].buffer = s->use[second->uses].buffer; /* another unit's checkpoint */
        if (fault == 1) first->group = ZR_GROUP_DATA;
        if (fault == 2) first->op = second->op;
        if (fault == 3) s->use[first->uses].buffer = s->use[first->uses + 1].buffer = s->use[second->uses].buffer;
        if (fault == 4) copied(s, true)->range.count--;
        if (fault == 5) copied(s, true)->range.first++;
        if (fault == 6) copied(s, false)->range.count--;
        if (fault == 7) copied(s, false)->dtype = ZR_BF16;
        if (fault == 8) s->use[first->uses].range.outer = (zr_stride){-1, ZR_GROUP_TENSOR};
        if (zr_plan_check(plan) != ZR_ERR_INTERNAL) fail_msg("fault %d is not seen", fault);
        zr_plan_destroy(&plan);
    }
}

/* Check that a sum is made in the place of its operand and needs no bytes of its own. */
static void sums_are_made_in_place(void **state)
{
    (void)state;
    zr_plan *plan = NULL;
    int sums = 0;
    assert_int_equal(plan_of(2, 2, 1, ZR_RECOMPUTE_NONE, &plan), ZR_OK);
    const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    for (int32_t o = 0; o < zr_graph_ops(g); o++) {
        const zr_op *op = zr_graph_get_op(g, o);
        if (strcmp(op->def->name, "tensor_sum") != 0) continue;
        const zr_use *in = &s->value[op->in[0]], *out = &s->value[op->out[0]];
        assert_int_equal(in->buffer, out->buffer);
        assert_true(in->range.first == out->range.first);
        sums++;
    }
    assert_true(sums >= 2 * 4);
    zr_plan_destroy(&plan);
}

/* Return the first GATHER of an op whose join is `join`. */
static int32_t gather_of(const zr_plan *plan, zr_join join)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        const zr_op *op = step->op < 0 ? NULL : zr_graph_get_op(plan->graph[ZR_SCHEDULE_TRAIN], step->op);
        if (step->kind == ZR_STEP_GATHER && op && op->def->join == join) return i;
    }
    fail_msg("no gather");
    return ZR_NONE;
}

static void expect_refused(const zr_plan *plan, const char *text)
{
    assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
    if (!strstr(zr_error_message(), text)) fail_msg("\"%s\" does not say \"%s\"", zr_error_message(), text);
}

/* Give a buffer more bytes, at an offset where there is room for them. */
static void widen(zr_plan *plan, int32_t buffer)
{
    zr_buffer *b = &plan->schedule[ZR_SCHEDULE_TRAIN].buffer[buffer];
    b->bytes += 64;
    b->offset = plan->space_bytes[ZR_SPACE_DEVICE];
    plan->space_bytes[ZR_SPACE_DEVICE] += 1 << 16;
}

/* Check that the proof refuses a GATHER of more elements than all ranks together have of a checkpoint, and a GATHER of
 * sums that does not begin where the sums were made. */
static void gathers_of_something_else_are_seen(void **state)
{
    (void)state;
    zr_plan *plan = NULL;
    zr_layout l = zr_layout_default();
    l.recompute = ZR_RECOMPUTE_UNIT;
    l.partition_checkpoints = true;
    assert_int_equal(plan_as(l, 2, 2, 1, &plan), ZR_OK);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    zr_step *step = &s->step[gather_of(plan, ZR_JOIN_NONE)];
    zr_use *use = &s->use[step->uses];
    const zr_use before[] = {use[0], use[1]};
    widen(plan, use[0].buffer);
    widen(plan, use[1].buffer);
    step->range.count++;
    use[0].range.count++;
    use[1].range.count++;
    use[1].range.by.elems++;
    expect_refused(plan, "elements of value");
    use[0] = before[0];
    use[1] = before[1];
    step->range.count--;
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    use = &s->use[s->step[gather_of(plan, ZR_JOIN_SUM)].uses];
    widen(plan, use[0].buffer);
    use[0].range.first += 16;
    expect_refused(plan, "gathers sums that the step before did not make");
    use[0].range.first -= 16;
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    zr_plan_destroy(&plan);
}

/* Remove the GATHER that ends the n-th sum over ranks of parts of a gradient, and return the number of sums. */
static int unfinish(zr_plan *plan, int which)
{
    const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int n = 0;
    for (int32_t i = 0; i < s->n_steps; i++) {
        zr_step *step = &s->step[i];
        const zr_op *op = step->op < 0 ? NULL : zr_graph_get_op(g, step->op);
        if (!op || op->def->join != ZR_JOIN_SUM || step->kind != ZR_STEP_GATHER || n++ != which) continue;
        step->kind = ZR_STEP_ZERO;
        step->op = ZR_NONE;
        step->group = ZR_GROUP_SELF;
        step->range.count = step->n_uses = 0;
    }
    return n;
}

/* Check that the proof notices a gradient whose parts, one made by each rank, are not summed. */
static void unfinished_gradients_are_seen(void **state)
{
    (void)state;
    int n = 1, fault = 0;
    for (; fault < n; fault++) {
        zr_plan *plan = NULL;
        zr_layout l = zr_layout_default();
        l.sequence = ZR_SEQUENCE_KEEP;
        assert_int_equal(plan_as(l, 2, 2, 2, &plan), ZR_OK);
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        n = unfinish(plan, fault);
        if (zr_plan_check(plan) != ZR_ERR_INTERNAL)
            fail_msg("gradient %d is not finished, and that is not seen", fault);
        zr_plan_destroy(&plan);
    }
    assert_int_equal(n, 6 * 2 + 2 + 1);
}

/* Return the bytes of reduce-scatters and gathers, in all (bytes[0]) and within layers (bytes[1]), for C1's shape in
 * fp16 with `layers` blocks, each recomputed. */
static void wide_traffic(int64_t layers, int tensor, int ranks, double bytes[2])
{
    zr_gpt2_config config;
    zr_layout l = zr_layout_default();
    zr_plan *plan = NULL;
    zr_profile profile = {0};
    assert_int_equal(zr_gpt2_preset("zero-c1", &config), ZR_OK);
    config.n_layer = layers;
    profile.facts.threads = 1;
    l.ranks = ranks;
    l.tensor = tensor;
    l.stage = 3;
    l.dtype = l.wire_dtype = ZR_F16;
    l.batch = 16;
    l.seq = 1024;
    l.recompute = ZR_RECOMPUTE_PAPER;
    l.optimizer = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    zr_model model = zr_gpt2(&config);
    assert_int_equal(zr_plan_create(&model, &l, &profile, &plan), ZR_OK);
    const int64_t *all = plan->traffic.bytes, *within = plan->across[ZR_BORDER_TENSOR].bytes;
    bytes[0] = (double)(all[ZR_TRAFFIC_REDUCE_SCATTER] + all[ZR_TRAFFIC_ALL_GATHER]);
    bytes[1] = (double)(within[ZR_TRAFFIC_REDUCE_SCATTER] + within[ZR_TRAFFIC_ALL_GATHER]);
    zr_plan_destroy(&plan);
}

/* Check the traffic against stage 3 on the same 16 ranks, for which the papers have b s / (3 h): 12 b s h a block
 * against 3 times each of its 12 h^2 parameters. For blocks alone that is exact except for norms and biases (13 h), for
 * the model except for embedding and head. */
static void volume_against_stage_3(void **state)
{
    (void)state;
    const double paper = 16.0 * 1024 / (3 * 8192);
    double tensor[2], fewer_tensor[2], zero[2], fewer_zero[2];
    wide_traffic(50, 16, 1, tensor);
    wide_traffic(49, 16, 1, fewer_tensor);
    wide_traffic(50, 1, 16, zero);
    wide_traffic(49, 1, 16, fewer_zero);
    assert_true(zero[1] == 0 && tensor[1] > 0);
    const double blocks = (tensor[1] - fewer_tensor[1]) / (zero[0] - fewer_zero[0]);
    const double model = tensor[1] / zero[0];
    if (fabs(blocks / paper - 1) > 0.0005) fail_msg("blocks: %g of stage 3, the papers %g", blocks, paper);
    if (fabs(model / paper - 1) > 0.015) fail_msg("the model: %g of stage 3, the papers %g", model, paper);
}

/* Check that parameters are the whole model's, that a rank has 1/M of each cut parameter, and that the FLOPs of all
 * ranks are the model's plus the head's second computation of its logits. */
static void parts_add_up(void **state)
{
    (void)state;
    zr_plan *one = NULL;
    assert_int_equal(plan_of(2, 1, 1, ZR_RECOMPUTE_NONE, &one), ZR_OK);
    for (int tensor = 2; tensor <= 8; tensor *= 2) {
        zr_plan *plan = NULL;
        assert_int_equal(plan_of(2, tensor, 1, ZR_RECOMPUTE_NONE, &plan), ZR_OK);
        const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN], *whole = one->graph[ZR_SCHEDULE_TRAIN];
        assert_int_equal(plan->ranks, tensor);
        assert_true(plan->params == one->params);
        for (int32_t p = 0; p < zr_graph_params(g); p++) {
            const zr_param_info *part = zr_graph_param(g, p), *all = zr_graph_param(whole, p);
            assert_true(zr_shape_equal(&part->whole, &all->shape));
            const int64_t most = part->cut.parts ? (zr_shape_elems(&all->shape) + tensor - 1) / tensor + H : 0;
            assert_true(part->cut.parts == 0 ? zr_shape_equal(&part->shape, &all->shape)
                                             : zr_shape_elems(&part->shape) <= most);
        }
        const int64_t padded = (V + tensor - 1) / tensor * tensor;
        const double logits = 2.0 * B * T * H * (double)padded, more = 2.0 * 3 * B * T * H * (double)(padded - V);
        assert_true(plan->flops_model == one->flops_model + more);
        assert_true(plan->flops_hardware == plan->flops_model + logits);
        zr_plan_destroy(&plan);
    }
    zr_plan_destroy(&one);
}

/* Check that every element of a whole parameter is on one rank, in its place. */
static void every_element_has_a_place(void **state)
{
    (void)state;
    for (int64_t tensor = 1; tensor <= 8; tensor *= 2) {
        const zr_graph_spec spec = {
            .mode = ZR_MODE_EVAL, .batch = 1, .seq = 1, .dtype = ZR_F32, .grad_dtype = ZR_F32, .tensor = tensor};
        const zr_cut cut[] = {{0, 1}, {1, 1}, {1, 3}, {0, 2}};
        const zr_shape shape[] = {{2, {13, 3}}, {2, {3, 16}}, {2, {2, 48}}, {3, {16, 2, 3}}};
        for (int c = 0; c < 4; c++) {
            zr_graph *g = NULL;
            char seen[256] = {0};
            int64_t n = zr_shape_elems(&shape[c]), found = 0;
            assert_int_equal(zr_graph_create(&spec, &g), ZR_OK);
            zr_graph_unit(g, "u");
            zr_value w = zr_param_cut(g, (zr_init){ZR_INIT_ZERO, 0}, shape[c], cut[c], "w");
            assert_true(w != ZR_NONE);
            const int64_t own = zr_shape_elems(&zr_graph_param(g, 0)->shape);
            for (int64_t place = 0; place < tensor; place++)
                for (int64_t at = 0, run; at < own; at += run) {
                    const int64_t first = zr_param_place(g, 0, place, at, own - at < 5 ? own - at : 5, &run);
                    assert_in_range(run, 1, 5);
                    for (int64_t i = 0; first >= 0 && i < run; i++, found++) {
                        assert_in_range(first + i, 0, n - 1);
                        assert_int_equal(seen[first + i]++, 0);
                    }
                }
            assert_int_equal(found, n);
            zr_graph_destroy(&g);
        }
    }
}

static void refused(int64_t layers, int tensor, int ranks, const char *why)
{
    zr_plan *plan = NULL;
    assert_true(plan_of(layers, tensor, ranks, ZR_RECOMPUTE_NONE, &plan) != ZR_OK);
    if (!strstr(zr_error_message(), why)) fail_msg("\"%s\" does not say \"%s\"", zr_error_message(), why);
}

static void what_is_not_a_layout_is_refused(void **state)
{
    (void)state;
    refused(2, 0, 1, "0 tensor-parallel ranks: at least one");
    refused(2, 3, 1, "n_head 8 cannot be shared by 3 tensor-parallel ranks (parallel.tensor): 1, 2, 4, 8 would do");
    refused(2, 16, 1, "n_head 8 cannot be shared by 16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_made_in_place),
        cmocka_unit_test(gathers_of_something_else_are_seen),
        cmocka_unit_test(unfinished_gradients_are_seen),
        cmocka_unit_test(traffic_is_the_formula),
        cmocka_unit_test(traffic_of_tokens),
        cmocka_unit_test(checkpoints_are_kept_in_pieces),
        cmocka_unit_test(checkpoints_astray_are_seen),
        cmocka_unit_test(volume_against_stage_3),
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(every_element_has_a_place),
        cmocka_unit_test(what_is_not_a_layout_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
