//TEST timeout=60 tsan=1
/* Models of several loss terms: the loss is the sum of the terms, each the mean over its own losses that count in the
 * global batch, however ranks and micro-batches divide the batch. */
#include "engine/engine_truth.h"
#include "engine/layout_variants.h"
#include "base/number/exact.h"
#include "engine/terms_model.h"

static zr_model model;

/* ---- the means over the global batch ------------------------------------------------------------ */

/* Check that loss, terms, norm and gradients are right however the rows are divided, also if a rank has no loss of a
 * term, or if no loss of a term counts. */
static void test_truth(void **state)
{
    (void)state;
    static const truth_cut cut[] = {{1, 1, 6}, {1, 3, 2}, {2, 1, 3}, {3, 1, 2}, {3, 2, 1}};
    trainer run = terms_trainer(&model, 3, 1, 1);
    run.steps = 1;
    truth_check_cuts(&run, cut, sizeof cut / sizeof *cut);
    assert_in_range(run.term[0][0].counted, 6, 5 * run.layout.seq);
    assert_int_equal(run.term[0][1].counted, 4);
    assert_true(run.term[0][2].counted == 0 && run.term[0][2].loss == 0 && !run.skipped[0]);
    assert_int_equal(run.counted[0], run.term[0][0].counted + 4);
    run.layout.reduce_once = true;
    truth_check_cuts(&run, cut + 4, 1);
}

/* ---- independence of the layout ----------------------------------------------------------------- */

static void check_terms_same(const trainer *a, const trainer *b)
{
    for (int i = 0; i < a->steps; i++)
        for (int t = 0; t < terms_of(a); t++)
            assert_true(a->term[i][t].loss == b->term[i][t].loss && a->term[i][t].counted == b->term[i][t].counted);
}

static void test_layouts(void **state)
{
    (void)state;
    static const struct {
        int ranks;
        zr_dtype dtype;
        int64_t accum;
        double clip;
    } way[] = {{1, ZR_F32, 1, 0}, {2, ZR_F32, 2, 0.5}, {3, ZR_F32, 1, 0}, {2, ZR_BF16, 1, 0.5}, {2, ZR_F16, 3, 0}};
    for (int i = 0; i < 5; i++) {
        trainer want = terms_trainer(&model, 2 + i % 2, way[i].ranks, way[i].accum);
        want.layout.dtype = want.layout.wire_dtype = way[i].dtype;
        want.clip = way[i].clip;
        want.layout.norm_first = want.clip > 0;
        want.lanes = i == 1; /* one thread computes, and the other exchanges the numbers */
        if (way[i].dtype == ZR_F16) want.scaler.scale = 4096;
        trainer_run(&want);
        layout_check(&want, i, 7);
        if (way[i].accum == 1) continue;
        for (int order = ZR_ACCUM_LAYER; order <= ZR_ACCUM_AHEAD; order++) {
            trainer other = want;
            other.layout.accum_order = (zr_accum_order)order;
            other.layout.accum_ahead = 2;
            other.layout.stage = 3;
            trainer_run(&other);
            layout_assert_same(&want, &other, "another order");
            check_terms_same(&want, &other);
        }
    }
}

static void test_offload(void **state)
{
    (void)state;
    trainer want = terms_trainer(&model, 2, 2, 2);
    trainer_run(&want);
    for (int space = ZR_SPACE_HOST; space <= ZR_SPACE_DISK; space += ZR_SPACE_DISK - ZR_SPACE_HOST) {
        trainer away = want;
        away.layout.stage = 3;
        away.layout.home = (zr_homes){(zr_space)space, (zr_space)space, (zr_space)space, 1, 1, 64, 0, 0, 0};
        trainer_run(&away);
        layout_assert_same(&want, &away, zr_space_name((zr_space)space));
        check_terms_same(&want, &away);
    }
}

/* Check that with reproducible "world", 1, 2 and 4 ranks give the same bits. */
static void test_any_ranks(void **state)
{
    (void)state;
    trainer one = terms_trainer(&model, 3, 1, 4);
    one.layout.rank_free_sums = one.layout.micro_squares = true;
    trainer_run(&one);
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        trainer run = one;
        run.layout.ranks = ranks;
        run.layout.accum = 4 / ranks;
        run.layout.stage = ranks - 1;
        run.lanes = ranks == 2;
        trainer_run(&run);
        layout_assert_same(&one, &run, "more ranks");
        check_terms_same(&one, &run);
        assert_memory_equal(one.micro, run.micro, sizeof one.micro);
    }
}

/* Check that tensor-parallel ranks have the same losses, which count once. */
static void test_shared_layers(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        trainer whole = terms_trainer(&model, 2, 2, 1);
        whole.layout.optimizer = zr_sgd(0, false, 0); /* unlike Adam's, SGD's steps are as long as the gradient */
        whole.layout.rank_free_sums = way & 1;
        whole.layout.states = way & 2 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
        trainer_run(&whole);
        trainer run = whole;
        run.layout.tensor = 2;
        trainer_run(&run);
        for (int i = 0; i < run.steps; i++) {
            assert_float_equal(run.norm[i], whole.norm[i], 1e-4 * whole.norm[i]);
            for (int t = 0; t < 2; t++) {
                assert_float_equal(run.term[i][t].loss, whole.term[i][t].loss, 1e-5 * whole.loss[i]);
                assert_int_equal(run.term[i][t].counted, whole.term[i][t].counted);
            }
        }
    }
}

/* ---- traffic ------------------------------------------------------------------------------------ */

/* Check that the numbers of losses take one more exchange of a few bytes, and that nothing changes with one term. (The
 * trainer compares planned and counted bytes.) */
static void test_traffic(void **state)
{
    (void)state;
    for (int terms = 1; terms <= 3; terms++)
        for (int rank_free = 0; rank_free <= 1; rank_free++) {
            trainer run = terms_trainer(&model, terms, 4, 2);
            run.layout.rank_free_sums = rank_free;
            run.layout.micro_squares = true;
            run.steps = 1;
            trainer_run(&run);
            const int norm = (3 + terms - 1) * ZR_EXACT_LIMBS + 2, count = terms > 1 ? terms : 0;
            assert_int_equal(run.traffic.bytes[ZR_TRAFFIC_ALL_REDUCE], 3 * 8 * (norm + count));
        }
}

/* ---- evaluation and probes ---------------------------------------------------------------------- */

static zr_status evaluate(trainer *run, zr_engine *engine, zr_comm *comm)
{
    zr_exact sum[ZR_LOSS_TERMS];
    memset(sum, 0, sizeof sum);
    for (int64_t i = 0; i < 2; i++) {
        const zr_batch batch = {.first_row = 2 * i + comm->rank};
        ZR_TRY(zr_engine_eval(engine, &batch, terms_batch, run, sum));
    }
    double mine[3], *all = run->arg;
    for (int t = 0; t < 3; t++) mine[t] = zr__exact_value(&sum[t]);
    return zr_comm_scalars(comm, mine, 3, comm->rank == 0 ? all : NULL);
}

/* Check that an evaluation adds the losses of each term, as does a step with a learning rate of 0. */
static void test_evaluation(void **state)
{
    (void)state;
    double sum[6] = {0};
    trainer run = terms_trainer(&model, 3, 2, 2);
    run.steps = 1;
    run.lr = 0;
    run.after = evaluate;
    run.arg = sum;
    trainer_run(&run);
    for (int t = 0; t < 3; t++) {
        const double want = run.term[0][t].loss * (double)run.term[0][t].counted;
        assert_float_equal(sum[t] + sum[3 + t], want, 1e-9);
        assert_true((t < 2) == (want > 0));
    }
}

static zr_status probe_second_step(trainer *run, zr_engine *engine, zr_comm *comm)
{
    const zr_step_args args = {.step = 1, .batch = terms_batch, .count = terms_count, .arg = run};
    zr_step_result found = {0};
    ZR_TRY(zr__engine_probe(engine, &args, &found));
    if (comm->rank == 0) *(zr_step_result *)run->arg = found;
    return ZR_OK;
}

static void test_probe(void **state)
{
    (void)state;
    zr_step_result found = {0};
    trainer run = terms_trainer(&model, 2, 2, 1);
    run.after_first = probe_second_step;
    run.arg = &found;
    trainer_run(&run);
    assert_true(found.loss == run.loss[1] && found.grad_norm == run.norm[1]);
    assert_memory_equal(found.term, run.term[1], 2 * sizeof *found.term);
}

/* ---- callbacks that fail ------------------------------------------------------------------------ */

static zr_status count_other(void *arg, const zr_batch *batch)
{
    ZR_TRY(terms_count(arg, batch));
    if (batch->step == 1 && batch->first_row == 3) batch->counted[1]++;
    return ZR_OK;
}

static zr_status count_too_many(void *arg, const zr_batch *batch)
{
    (void)arg;
    batch->counted[1]++;
    return ZR_OK;
}

static zr_status count_nothing(void *arg, const zr_batch *batch)
{
    (void)arg;
    return batch->step == 1 ? ZR_FAIL(ZR_ERR_DATA, "the row is lost") : terms_count(arg, batch);
}

/* Check that a count callback that fails, or whose number differs from the batches' own, ends the run before the
 * update, with a message about the cause. */
static void test_failures(void **state)
{
    (void)state;
    static const struct {
        zr_count_fn count;
        zr_status status;
        const char *says;
    } way[] = {
        {count_other, ZR_ERR_ARG, "losses classes of this rank's micro-batches count, but zr_step_args.count said"},
        {count_too_many, ZR_ERR_ARG, "says that 13 losses classes of its micro-batch count; it must be 0 to 12"},
        {count_nothing, ZR_ERR_DATA, "the row is lost"},
        {NULL, ZR_ERR_ARG, "but zr_step_args.count said 24 before the step"},
    };
    for (int i = 0; i < 4; i++)
        for (int lean = 0; lean <= 1; lean++) {
            trainer run = terms_trainer(&model, 2, 2, lean ? 1 : 2);
            run.layout.states = lean ? ZR_STATES_LEAN : ZR_STATES_PAPER;
            run.count = way[i].count;
            const char *says = lean && !way[i].count ? "but zr_step_args.count said 12 before the step" : way[i].says;
            if (lean && i == 0) continue; /* only one rank fails; the other reports that training diverged */
            assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), way[i].status);
            if (!strstr(zr_error_message(), says)) fail_msg("\"%s\" is not in: %s", says, zr_error_message());
        }
}

/* ---- the proof ---------------------------------------------------------------------------------- */

static int32_t step_of(const zr_schedule *s, zr_step_kind kind, int32_t from)
{
    for (int32_t i = from; i < s->n_steps; i++)
        if (s->step[i].kind == kind) return i;
    return -1;
}

static void broken(const zr_plan *plan, const char *what)
{
    if (zr_plan_check(plan) != ZR_ERR_INTERNAL) fail_msg("the proof accepts %s", what);
}

static void test_proof(void **state)
{
    (void)state;
    const zr_profile profile = {
        .facts = {.name = "test", .threads = 1, .panel_bytes = 1 << 20, .scratch_bytes = zr_device_cpu_scratch}};
    for (int way = 0; way < 4; way++) {
        trainer run = terms_trainer(&model, 2, 2, way & 1 ? 3 : 1);
        run.layout.states = way == 2 ? ZR_STATES_LEAN : ZR_STATES_PAPER; /* AGREE */
        if (way == 3) run.layout.accum_order = ZR_ACCUM_LAYER;
        if (way == 1) run.layout.optimizer = zr_lamb(ZR_LAMB_DEEPSPEED, NULL); /* TRUST */
        zr_plan *plan = NULL;
        assert_int_equal(zr_plan_create(&model, &run.layout, &profile, &plan), ZR_OK);
        zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        const int32_t count = step_of(s, ZR_STEP_COUNT, 0);
        assert_true(count > 0 && step_of(s, ZR_STEP_COUNT, count + 1) < 0);
        int seeds = 0, losses = 0;
        for (int32_t i = 0; i < s->n_steps; i++) {
            zr_step *step = &s->step[i];
            const bool seed = step->kind == ZR_STEP_RUN &&
                              zr_graph_get_op(plan->graph[ZR_SCHEDULE_TRAIN], step->op)->def->reads_seeds;
            seeds += seed;
            losses += step->kind == ZR_STEP_LOSS;
            if (!seed && step->kind != ZR_STEP_NORM && step->kind != ZR_STEP_AGREE) continue;
            step->n_uses--;
            broken(plan, "a step that does not read the numbers");
            step->n_uses++;
            if (!seed) continue;
            for (int32_t w = 0; w < step->n_waits; w++)
                if (s->wait[step->waits + w].step == count) {
                    const int32_t n = step->n_waits;
                    step->n_waits = 0;
                    broken(plan, "a gradient that does not wait for the numbers");
                    step->n_waits = n;
                    seeds += 100;
                    break;
                }
        }
        const int micros = way == 3 ? 3 : 1;
        assert_int_equal(seeds % 100, 2 * micros);
        assert_true(seeds > 100); /* a wait was broken */
        assert_int_equal(losses, 2 * micros);
        zr_step *loss = &s->step[step_of(s, ZR_STEP_LOSS, 0)];
        loss->term = 1 - loss->term;
        broken(plan, "the losses of another term");
        loss->term = 1 - loss->term;
        s->step[count].when = ZR_WHEN_ALWAYS;
        broken(plan, "numbers that are exchanged in each round");
        s->step[count].when = ZR_WHEN_FIRST;
        s->step[count].kind = ZR_STEP_NORM;
        broken(plan, "numbers that are not exchanged");
        s->step[count].kind = ZR_STEP_COUNT;
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        zr_plan_destroy(&plan);
    }
}

/* ---- declarations ------------------------------------------------------------------------------- */

static void test_declarations(void **state)
{
    (void)state;
    static const struct {
        const char *first, *second;
        zr_status status;
        const char *says;
    } way[] = {{"a", "a", ZR_ERR_STATE, "already named"},
               {"a", "b", ZR_ERR_STATE, "already named"}, /* the same losses */
               {"a b", NULL, ZR_ERR_ARG, "letters, digits and underscores"},
               {"", NULL, ZR_ERR_ARG, "letters, digits and underscores"}};
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        const zr_graph_spec spec = {.mode = ZR_MODE_EVAL, .batch = 1, .seq = 4};
        zr_graph *g = NULL;
        assert_int_equal(zr_graph_create(&spec, &g), ZR_OK);
        zr_graph_unit(g, "all");
        const zr_shape shape = {2, {1, 4}};
        zr_value x = zr_embedding(g, zr_input(g, "tokens", ZR_I32, shape),
                                  zr_param(g, (zr_init){ZR_INIT_ONE, 0}, (zr_shape){2, {8, 8}}, "table"));
        zr_value losses = zr_cross_entropy(g, x, zr_input(g, "targets", ZR_I32, shape));
        zr_graph_loss_term(g, way[i].first, losses);
        if (way[i].second) zr_graph_loss_term(g, way[i].second, losses);
        assert_int_equal(zr_graph_finish(g), way[i].status);
        assert_non_null(strstr(zr_error_message(), way[i].says));
        zr_graph_destroy(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_truth),      cmocka_unit_test(test_layouts),       cmocka_unit_test(test_offload),
        cmocka_unit_test(test_any_ranks),  cmocka_unit_test(test_shared_layers), cmocka_unit_test(test_traffic),
        cmocka_unit_test(test_evaluation), cmocka_unit_test(test_probe),         cmocka_unit_test(test_failures),
        cmocka_unit_test(test_proof),      cmocka_unit_test(test_declarations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
