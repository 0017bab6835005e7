//TEST timeout=60
//MADE_UP
/* A made-up kind of step, a made-up stream and a made-up axis of the grid of ranks, known only to the tables
 * (tests/made_up/rows.sh), are planned, proved, priced, simulated, drawn and walked as all others are; and roles may
 * lack a unit. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/draw/picture.h"
#include "engine/walk.h"
#include "made_up/echo.h"
#include "support/tempdir.h"
#include "engine/trainer.h"
#include "plan/cost/cost.h"

enum { ACCUM = 2 };

static zr_layout layout_of(int stage, int ranks)
{
    zr_layout l = zr_layout_default();
    l.stage = stage;
    l.ranks = ranks;
    l.batch = 1;
    l.seq = 8;
    l.accum = ACCUM;
    l.train = true;
    l.optimizer = zr_adamw(0.9, 0.999, 1e-8, 0.1);
    return l;
}

static const zr_gpt2_config small = {.n_layer = 2,
                                     .n_head = 2,
                                     .n_embd = 16,
                                     .n_positions = 8,
                                     .vocab_size = 61,
                                     .layer_norm_epsilon = 1e-5,
                                     .initializer_range = 0.02};

static const zr_profile profile = {
    .facts = {.name = "test", .threads = 1, .panel_bytes = 1 << 20, .scratch_bytes = zr_device_cpu_scratch}};

static zr_plan *plan_of(const zr_layout *layout, bool echoes)
{
    zr_model model = zr_gpt2(&small);
    zr_plan *plan = NULL;
    made_up_echoes = echoes;
    if (zr_plan_create(&model, layout, &profile, &plan) != ZR_OK) fail_msg("plan: %s", zr_error_message());
    return plan;
}

static bool is_echo(const zr_step *step)
{
    return step->kind == ZR_STEP_ECHO;
}

static void test_planned(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        const zr_layout l = layout_of(stage, 4);
        zr_plan *with = plan_of(&l, true), *without = plan_of(&l, false);
        const zr_schedule *s = &with->schedule[ZR_SCHEDULE_TRAIN];
        int32_t echoes = 0, awaited = 0;
        int64_t bytes = 0;
        for (int32_t i = 0; i < s->n_steps; i++) {
            echoes += is_echo(&s->step[i]);
            if (!is_echo(&s->step[i])) continue;
            assert_int_equal(s->step[i].stream, ZR_STREAM_SIDE);
            assert_true(s->step[i].n_waits > 0); /* for the step that makes the gradient */
        }
        for (int32_t w = 0; w < s->n_waits; w++) awaited += is_echo(&s->step[s->wait[w].step]);
        assert_int_equal(echoes, with->n_units);
        assert_true(awaited > 0); /* by the step that next writes the gradient's bytes */
        assert_true(with->has_stream[ZR_STREAM_SIDE] && !without->has_stream[ZR_STREAM_SIDE]);
        assert_int_equal(s->n_steps, without->schedule[ZR_SCHEDULE_TRAIN].n_steps + echoes);
        for (int32_t u = 0; u < with->n_units; u++) bytes += with->persistent[made_up_echo_of(with, u)].bytes;
        const zr_space_memory *host = &with->memory.space[ZR_SPACE_HOST];
        assert_int_equal(host->category_bytes[ZR_CATEGORY_GRAD], bytes);
        assert_string_equal(zr_step_kind_name(ZR_STEP_ECHO), "echo");
        assert_string_equal(zr_stream_name(ZR_STREAM_SIDE), "side");
        zr_plan_destroy(&with);
        zr_plan_destroy(&without);
    }
}

/* Check that the proof applies to the made-up steps as to all others. */
static void test_proved(void **state)
{
    (void)state;
    const zr_layout l = layout_of(3, 4);
    zr_plan *plan = plan_of(&l, true);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    int32_t i = 0;
    while (!is_echo(&s->step[i])) i++;
    const int32_t n = s->step[i].n_waits;
    s->step[i].n_waits = 0;
    assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
    s->step[i].n_waits = n;
    int32_t lost = 0; /* waits for echoes, removed one at a time: the step's last wait takes its place */
    for (int32_t k = 0; k < s->n_steps; k++)
        for (int32_t w = 0; w < s->step[k].n_waits; w++) {
            zr_wait *wait = &s->wait[s->step[k].waits + w], *last = &s->wait[s->step[k].waits + s->step[k].n_waits - 1];
            const zr_wait had = *wait;
            if (!is_echo(&s->step[had.step])) continue;
            *wait = *last;
            s->step[k].n_waits--;
            assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
            s->step[k].n_waits++;
            *wait = had;
            lost++;
        }
    assert_true(lost > 0);
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    zr_use *use = &s->use[s->step[i].uses];
    use->range.first = use->range.count; /* past the end of its buffer */
    assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
    zr_plan_destroy(&plan);
}

static double only_echoes(const zr__pricer *pricer, const zr_plan *plan, zr_schedule_kind kind, int32_t step)
{
    (void)pricer;
    return is_echo(&plan->schedule[kind].step[step]) ? 1 : 0;
}

static void test_priced_and_simulated(void **state)
{
    (void)state;
    zr_layout l = layout_of(3, 4);
    zr_plan *plan = plan_of(&l, true);
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    zr__pricer pricer = {.step_sec = only_echoes};
    zr_price price;
    assert_int_equal(zr__plans_price_by(&ZR__ALONE(plan), &pricer, &price), ZR_OK);
    /* echoes run one after the other, and the compute stream waits for them */
    assert_true(price.step_sec == ACCUM * plan->n_units);
    zr_profile rates = profile;
    rates.machine.memory_bytes_sec = 1e6;
    zr_step_time *time = calloc((size_t)s->n_steps, sizeof *time);
    assert_non_null(time);
    assert_int_equal(zr_plans_times(&ZR__ALONE(plan), &rates, (zr_step_time *[]){time}), ZR_OK);
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (!is_echo(&s->step[i])) continue;
        const double bytes = 4.0 * (double)s->step[i].range.count; /* bytes of the device's memory */
        assert_true(time[i].end_sec - time[i].begin_sec > 0.999 * bytes / 1e6);
        assert_true(time[i].end_sec - time[i].begin_sec < 1.001 * bytes / 1e6);
    }
    free(time);
    zr_cluster cluster;
    zr_simulation made;
    assert_int_equal(zr_cluster_read("dgx-h100x8", &cluster), ZR_OK);
    assert_int_equal(zr_simulate(&ZR__ALONE(plan), &cluster, NULL, &made, NULL), ZR_OK);
    assert_true(made.price.step_sec > 0);
    zr_plan_destroy(&plan);
}

static void test_drawn(void **state)
{
    (void)state;
    const zr_layout l = layout_of(2, 2);
    zr_plan *plan = plan_of(&l, true), *without = plan_of(&l, false);
    for (int with = 0; with < 2; with++) {
        cli_times times;
        assert_int_equal(cli_times_make(&ZR__ALONE(with ? plan : without), &profile, &times), ZR_OK);
        char *page = NULL;
        assert_int_equal(cli_picture_draw(&ZR__ALONE(with ? plan : without), &times, "made up", 1, &page), ZR_OK);
        cli_times_clear(&times);
        assert_int_equal(strstr(page, ">side<") != NULL, with);
        assert_int_equal(strstr(page, "copy to or from the host h.1") != NULL, with);
        svg_page_free(&page);
    }
    zr_plan_destroy(&plan);
    zr_plan_destroy(&without);
}

/* ---- walked ------------------------------------------------------------------------------------ */

/* Compare a gradient with its echo; with one rank and one micro-batch a step, the gradient is its own sum. */
static zr_status compare(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    const zr_engine *e = arg;
    const zr_buffer *echo = &e->plan->persistent[made_up_echo_of(e->plan, param->unit)];
    const float *at = (const float *)zr__buffer(e, echo) + param->unit_offset + first;
    ZR_CHECK(memcmp(at, in, sizeof(float) * (size_t)n) == 0, ZR_ERR_INTERNAL, "the echo of %s is another gradient",
             param->name);
    return ZR_OK;
}

static zr_status after(trainer *run, zr_engine *engine, zr_comm *comm)
{
    if (!made_up_echoes || run->layout.accum > 1 || comm->size > 1) return ZR_OK;
    *(int *)run->arg += 1;
    return zr_engine_read(engine, ZR_STATE_GRAD, compare, engine);
}

/* Check that measured bytes equal planned bytes, and that weights and losses are bitwise equal to a run whose plan has
 * no echoes. */
static void test_walked(void **state)
{
    (void)state;
    int compared = 0;
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 1; ranks <= 2; ranks++)
            for (int accum = 1; accum <= ACCUM; accum++) {
                trainer run[2];
                for (int with = 0; with < 2; with++) {
                    run[with] = (trainer){.config = small, .layout = layout_of(stage, ranks), .steps = 3, .lr = 1e-2};
                    run[with].layout.accum = accum;
                    run[with].lanes = with && stage > 1;
                    run[with].after = after;
                    run[with].arg = &compared;
                    made_up_echoes = with;
                    trainer_run(&run[with]);
                }
                assert_true(run[0].weights == run[1].weights && run[0].loss[2] == run[1].loss[2]);
                assert_true(run[1].measured.memory.space[ZR_SPACE_HOST].category_bytes[ZR_CATEGORY_GRAD] > 0);
            }
    assert_int_equal(compared, 4);
}

/* ---- an axis ----------------------------------------------------------------------------------- */

/* Layouts of four data-parallel ranks or of two with two tensor-parallel ranks, in one or two levels. */
static zr_layout grid_layout(int stage, int way)
{
    zr_layout l = layout_of(stage, way == 1 ? 2 : 4);
    l.tensor = way == 1 ? 2 : 1;
    if (way >= 2) l.host_ranks = 2;
    l.hierarchical = way == 2;
    l.shard_ranks = way == 3 ? 2 : 0;
    l.micro_squares = true;
    const zr_lamb_args lamb = zr_lamb_defaults(ZR_LAMB_PAPER);
    if (way == 0) l.optimizer = zr_lamb(ZR_LAMB_PAPER, &lamb);
    return l;
}

enum { WAYS = 4 };

/* Check that each rank of the further axis has the states and moves the pieces of a rank without it, and that the proof
 * covers the axis. */
static void test_axis_planned(void **state)
{
    (void)state;
    for (int i = 0; i < 4 * WAYS; i++) {
        const zr_layout l = grid_layout(i / WAYS, i % WAYS);
        zr_plan *one = plan_of(&l, false);
        made_up_teams = 3;
        zr_plan *three = plan_of(&l, false);
        made_up_teams = 1;
        assert_int_equal(three->ranks, 3 * one->ranks);
        assert_int_equal(three->group[ZR_GROUP_ALL & ~ZR_GROUP_TEAM].size, one->ranks);
        assert_int_equal(three->memory.states_bytes, one->memory.states_bytes);
        for (int k = 0; k < ZR_TRAFFIC_KINDS; k++) {
            const bool numbers = k == ZR_TRAFFIC_ALL_REDUCE;
            const int64_t others = numbers ? one->ranks - 1 : 1, more = numbers ? three->ranks - 1 : 1;
            assert_int_equal(three->traffic.bytes[k] * others, one->traffic.bytes[k] * more);
        }
        assert_int_equal(zr_plan_check(three), ZR_OK);
        zr_schedule *s = &three->schedule[ZR_SCHEDULE_TRAIN];
        for (int32_t k = 0; k < s->n_steps; k++) {
            const int32_t group = s->step[k].group;
            if (s->step[k].kind == ZR_STEP_NORM) s->step[k].group = ZR_GROUP_ALL & ~ZR_GROUP_TEAM;
            if (s->step[k].kind == ZR_STEP_REDUCE_SCATTER && s->step[k].op < 0 && group != ZR_GROUP_SELF)
                s->step[k].group = group | ZR_GROUP_TEAM;
            if (s->step[k].group == group) continue;
            assert_int_equal(zr_plan_check(three), ZR_ERR_INTERNAL);
            s->step[k].group = group;
        }
        const int32_t step = three->axis_step[ZR_AXIS_TEAM];
        three->axis_step[ZR_AXIS_TEAM] = 1;
        assert_int_equal(zr_plan_check(three), ZR_ERR_INTERNAL);
        three->axis_step[ZR_AXIS_TEAM] = step;
        zr_cluster cluster;
        zr_simulation made;
        assert_int_equal(zr_cluster_read("dgx-h100x8", &cluster), ZR_OK);
        assert_int_equal(zr_simulate(&ZR__ALONE(three), &cluster, NULL, &made, NULL), ZR_OK);
        zr_plan_destroy(&one);
        zr_plan_destroy(&three);
    }
}

static void train_on(trainer *run, int32_t teams, int32_t near)
{
    made_up_echoes = false;
    made_up_teams = teams;
    made_up_near = near;
    const zr_status st = zr_comm_threads_run(run->layout.ranks * run->layout.tensor * teams, trainer_rank, run);
    made_up_teams = 1;
    made_up_near = -1;
    if (st != ZR_OK) fail_msg("%d teams, unit %d near: %s", teams, near, zr_error_message());
}

static void same_run(const trainer *a, const trainer *b)
{
    for (int i = 0; i < a->steps; i++)
        assert_true(a->loss[i] == b->loss[i] && a->norm[i] == b->norm[i] && a->micro[i] == b->micro[i]);
    assert_true(a->weights == b->weights);
}

/* Check that ranks along the further axis, which do the same, change no bit, and are counted once. */
static void test_axis_walked(void **state)
{
    (void)state;
    for (int i = 0; i < 4 * WAYS; i++) {
        trainer run[2];
        for (int more = 0; more < 2; more++) {
            run[more] = (trainer){
                .config = small, .layout = grid_layout(i / WAYS, i % WAYS), .steps = 3, .lr = 1e-2, .clip = 0.5};
            train_on(&run[more], more ? 2 : 1, -1);
        }
        same_run(&run[0], &run[1]);
    }
}

/* Check that units of one plan may be sharded over different groups. */
static void test_unit_near(void **state)
{
    (void)state;
    for (int stage = 1; stage <= 3; stage++) {
        trainer run[2];
        for (int near = 0; near < 2; near++) {
            run[near] =
                (trainer){.config = small, .layout = grid_layout(stage, 2), .steps = 3, .lr = 1e-2, .clip = 0.5};
            train_on(&run[near], 1, near ? 1 : -1);
        }
        same_run(&run[0], &run[1]);
        assert_true(run[1].planned.states_bytes > run[0].planned.states_bytes);
    }
}

/* ---- roles ------------------------------------------------------------------------------------- */

static int32_t reads; /* the table that the role reads */

/* Build a model of two tables of different width, each a unit, of which a role reads one. */
static void build_tables(zr_graph *g, const void *config)
{
    (void)config;
    const zr_shape tokens = {2, {zr_graph_get_spec(g)->batch, zr_graph_get_spec(g)->seq}};
    zr_value table[2];
    for (int i = 0; i < 2; i++) {
        zr_graph_unit(g, i ? "second" : "first");
        table[i] =
            zr_param(g, (zr_init){ZR_INIT_NORMAL, 0.5}, (zr_shape){2, {small.vocab_size, i ? 24 : 16}}, "t%d", i);
    }
    zr_value x = zr_input(g, "x", ZR_I32, tokens), y = zr_input(g, "y", ZR_I32, tokens);
    zr_value h = zr_embedding(g, x, table[reads]);
    zr_graph_losses(g, zr_cross_entropy(g, zr_linear(g, h, table[reads], ZR_NONE, true), y));
}

static const zr_model tables = {.name = "tables", .build = build_tables};

/* Without decay, a table that is not read does not change. */
static zr_layout role_layout(int stage, int way)
{
    zr_layout l = grid_layout(stage, way);
    zr_lamb_args lamb = zr_lamb_defaults(ZR_LAMB_PAPER);
    lamb.weight_decay = 0;
    l.optimizer = way == 0 ? zr_lamb(ZR_LAMB_PAPER, &lamb) : zr_adamw(0.9, 0.999, 1e-8, 0);
    if (way == 0 && stage == 3) l.hpz_ranks = 2;
    if (way == 1) l.save = ZR_SAVE_COPY;
    if (way == 2) l.dtype = l.wire_dtype = ZR_BF16;
    if (way == 3) l.save = ZR_SAVE_IN_PLACE;
    return l;
}

/* Train a role. With `lacks`, the role does not hold the table that it does not read. */
static trainer train_role(int stage, int way, int32_t role, bool lacks, double lr)
{
    trainer run = {
        .config = small, .model = &tables, .layout = role_layout(stage, way), .steps = 3, .lr = lr, .clip = 0.5};
    reads = role;
    made_up_lacked = lacks ? !role : -1;
    train_on(&run, 1, -1);
    made_up_lacked = -1;
    return run;
}

/* Check that two roles train the tables that they hold to the bits that roles with both tables give, that they fill,
 * save and read each table once together, and that they need less memory. */
static void test_roles_walked(void **state)
{
    (void)state;
    for (int i = 0; i < 4 * WAYS; i++) {
        const trainer begin = train_role(i / WAYS, i % WAYS, 0, false, 0);
        uint64_t apart = begin.weights, both = 0;
        for (int32_t role = 0; role < 2; role++) {
            const trainer all = train_role(i / WAYS, i % WAYS, role, false, 1e-2),
                          part = train_role(i / WAYS, i % WAYS, role, true, 1e-2);
            for (int s = 0; s < part.steps; s++)
                assert_true(part.loss[s] == all.loss[s] && part.norm[s] == all.norm[s]);
            assert_true(part.loss[2] != part.loss[0]);
            assert_true(part.planned.states_bytes < all.planned.states_bytes);
            apart += part.weights;
            both += all.weights;
        }
        assert_true(apart == both);
    }
}

/* Check that the proof refuses a role that reads the unit which it lacks. */
static void test_roles_proved(void **state)
{
    (void)state;
    for (int i = 0; i < 4 * WAYS; i++) {
        const zr_layout l = role_layout(i / WAYS, i % WAYS);
        zr_plan *plan = NULL;
        reads = made_up_lacked = i % 2;
        const zr_status made = zr_plan_create(&tables, &l, &profile, &plan); /* debug builds prove it here */
        made_up_lacked = -1;
        assert_int_equal(made == ZR_OK ? zr_plan_check(plan) : made, ZR_ERR_INTERNAL);
        assert_non_null(strstr(zr_error_message(), "which this role does not hold"));
        zr_plan_destroy(&plan);
    }
}

/* Check a role's plan: facts of the model are those of all roles, and the unit that the role lacks has no bytes. */
static void test_roles_planned(void **state)
{
    (void)state;
    for (int i = 0; i < 4 * WAYS; i++) {
        const zr_layout l = role_layout(i / WAYS, i % WAYS);
        zr_plan *role[2] = {NULL};
        for (int32_t r = 0; r < 2; r++) {
            reads = r;
            made_up_lacked = !r;
            assert_int_equal(zr_plan_create(&tables, &l, &profile, &role[r]), ZR_OK);
            made_up_lacked = -1;
            assert_int_equal(zr_plan_check(role[r]), ZR_OK);
            assert_true(role[r]->unit[r].held && !role[r]->unit[!r].held && role[r]->unit[!r].own.count == 0);
            for (int32_t b = 0; b < role[r]->n_persistent; b++) assert_true(role[r]->persistent[b].unit != !r);
        }
        for (int32_t p = 0; p < 2; p++) {
            const zr_param_info *a = zr_graph_param(role[0]->graph[ZR_SCHEDULE_TRAIN], p),
                                *b = zr_graph_param(role[1]->graph[ZR_SCHEDULE_TRAIN], p);
            assert_true(strcmp(a->name, b->name) == 0 && a->first == b->first && a->unit == b->unit);
        }
        assert_true(role[0]->params == role[1]->params && role[0]->trained == role[1]->trained);
        assert_true(role[0]->memory.states_bytes < role[1]->memory.states_bytes);
        const zr_plans plans = {.role = {role[0], role[1]}, .n = 2};
        assert_ptr_equal(zr__fullest_role(&plans), role[1]);
        assert_true(zr__plans_total(&plans).flops_model == role[0]->flops_model + role[1]->flops_model);
        for (int32_t r = 0; r < 2; r++) zr_plan_destroy(&role[r]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planned),
        cmocka_unit_test(test_proved),
        cmocka_unit_test(test_priced_and_simulated),
        cmocka_unit_test(test_drawn),
        cmocka_unit_test(test_walked),
        cmocka_unit_test(test_axis_planned),
        cmocka_unit_test(test_axis_walked),
        cmocka_unit_test(test_unit_near),
        cmocka_unit_test(test_roles_planned),
        cmocka_unit_test(test_roles_proved),
        cmocka_unit_test(test_roles_walked),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
