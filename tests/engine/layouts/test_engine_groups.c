//TEST timeout=200 tsan=1
/* Groups within the data-parallel ranks: states sharded over a few ranks and replicated across (MiCS), hierarchical
 * collectives, first within a host and then across, and a secondary copy of parameters within a host (hpZ). No grouping
 * changes a bit; memory and traffic follow the formulas, to the byte. */
#include "engine/layout_variants.h"

typedef struct grouping {
    const char *name;
    int shard, hpz; /* shard: whether `local` ranks form a shard group; hpz: whether they hold a secondary partition */
    bool hierarchical;
} grouping;

static const grouping groupings[] = {
    {"sharded within a group", 1, 0, false},
    {"hierarchical", 0, 0, true},
    {"hierarchical, sharded within a host", 1, 0, true},
    {"second partition", 0, 1, false},
    {"second partition, hierarchical", 0, 1, true},
};
enum { GROUPINGS = sizeof groupings / sizeof *groupings };

static bool regroup(zr_layout *l, const grouping *g, int local)
{
    if (g->hpz && l->stage != 3) return false;
    l->shard_ranks = g->shard * local;
    l->hpz_ranks = g->hpz * local;
    l->host_ranks = local * l->tensor;
    l->hierarchical = g->hierarchical;
    return true;
}

static void same_run(const trainer *flat, const trainer *run, const char *name)
{
    for (int i = 0; i < flat->steps; i++)
        if (memcmp(&flat->loss[i], &run->loss[i], sizeof flat->loss[i]) != 0 ||
            memcmp(&flat->norm[i], &run->norm[i], sizeof flat->norm[i]) != 0)
            fail_msg(
                "stage %d, %d ranks, %s, %lld micro-batches: step %d: loss %.17g and norm %.17g, flat %.17g and %.17g",
                run->layout.stage, run->layout.ranks, name, (long long)run->layout.accum, i, run->loss[i], run->norm[i],
                flat->loss[i], flat->norm[i]);
    if (run->weights != flat->weights) fail_msg("stage %d, %s: other weights", run->layout.stage, name);
}

/* Check that all groupings of a run, with `local` ranks on each host, give the results of the run without groups. */
static void compare_groupings(const trainer *flat, trainer base, int local)
{
    for (int g = 0; g < GROUPINGS; g++) {
        trainer run = base;
        if (!regroup(&run.layout, &groupings[g], local)) continue;
        trainer_run(&run);
        same_run(flat, &run, groupings[g].name);
    }
}

/* Compare the groupings at all stages. */
static void compare(trainer base, int local)
{
    for (base.layout.stage = 0; base.layout.stage <= 3; base.layout.stage++) {
        trainer flat = base;
        trainer_run(&flat);
        compare_groupings(&flat, base, local);
    }
}

static void test_four_as_two_by_two(void **state)
{
    (void)state;
    for (int accum = 1; accum <= 3; accum += 2)
        for (int half = 0; half < 2; half++) {
            trainer run = layout_trainer(4, half ? ZR_BF16 : ZR_F32, accum, 0.5);
            run.layout.reduce_bucket_elems = 700;
            run.layout.gather_bucket_elems = 350;
            run.layout.prefetch_elems = half;
            compare(run, 2);
        }
}

static void test_eight_as_two_by_four(void **state)
{
    (void)state;
    trainer run = layout_trainer(8, ZR_BF16, 2, 0.5);
    run.layout.wire_dtype = ZR_F32;
    run.steps = 2;
    compare(run, 4);
}

/* Check that groupings give the flat run's bits in the lean layout, where a unit's gradient is consumed as it arrives
 * and parameters are cast from their masters. */
static void test_lean(void **state)
{
    (void)state;
    for (int two_pass = 0; two_pass < 2; two_pass++) {
        trainer run = layout_trainer(4, ZR_BF16, 1, two_pass ? 0.5 : 0);
        run.layout.states = ZR_STATES_LEAN;
        run.layout.two_pass = two_pass;
        run.layout.recompute = ZR_RECOMPUTE_UNIT;
        compare(run, 2);
    }
}

/* Check that with sums independent of the number of ranks, groupings of four ranks give the bits of two ranks. */
static void test_world(void **state)
{
    (void)state;
    trainer two = layout_trainer(2, ZR_F32, 4, 0.5), four = layout_trainer(4, ZR_F32, 2, 0.5);
    two.layout.rank_free_sums = four.layout.rank_free_sums = true;
    two.layout.stage = four.layout.stage = 2;
    trainer_run(&two);
    compare_groupings(&two, four, 2);
}

/* Check tensor parallelism: groups consist of ranks with the same part of each layer. Two hosts have four ranks each:
 * two data-parallel ranks of two tensor-parallel ranks. */
static void test_shared_layers(void **state)
{
    (void)state;
    for (int accum = 1; accum <= 2; accum++) {
        trainer run = layout_trainer(4, accum == 1 ? ZR_F32 : ZR_BF16, accum, 0.5);
        run.config.n_head = 2;
        run.config.n_embd = 24;
        run.layout.tensor = 2;
        run.layout.batch = 2;
        run.layout.sequence = accum == 1 ? ZR_SEQUENCE_OFF : ZR_SEQUENCE_KEEP;
        run.steps = 2;
        compare(run, 2);
    }
}

/* ---- creation that fails on one rank ------------------------------------------------------------ */

/* A transport whose rank 1 has no room for the staging memory of one of its groups. */
static _Thread_local zr_comm_ops failing;
static _Thread_local const zr_comm_ops *working;
static _Thread_local int asked; /* number of groups for which this rank has asked for staging memory */

typedef struct creation {
    trainer run;
    int fails_at;
    zr_status status[4];
    char text[4][256];
} creation;

static _Thread_local const creation *made_for;

static zr_status staging_once(zr_comm *comm, int64_t bytes)
{
    const bool fails = comm->world_ranks[comm->rank] == 1 && asked++ == made_for->fails_at;
    return fails ? ZR_FAIL(ZR_ERR_MEMORY, "no room for group %d", made_for->fails_at) : working->staging(comm, bytes);
}

static zr_status split_failing(zr_comm *comm, const struct zr__group *group, zr_comm **sub)
{
    ZR_TRY(working->split(comm, group, sub));
    (*sub)->ops = &failing;
    return ZR_OK;
}

static zr_status create_only(zr_comm *comm, void *arg)
{
    creation *c = arg;
    const zr_device_config wanted = {1, NULL, 0};
    const zr_model model = trainer_model(&c->run);
    zr_device *device = NULL;
    zr_plan *plan = NULL;
    zr_engine *engine = NULL;
    made_for = c;
    asked = 0;
    working = comm->ops;
    failing = *working;
    failing.split = split_failing;
    failing.staging = staging_once;
    ZR_TRY(zr_device_create_cpu(&wanted, &device));
    ZR_TRY(zr_plan_create(&model, &c->run.layout, &device->profile, &plan));
    comm->ops = &failing;
    c->status[comm->rank] = trainer_engine(&c->run, plan, device, comm, &engine);
    snprintf(c->text[comm->rank], sizeof c->text[0], "%s", zr_error_message());
    comm->ops = working;
    zr_engine_destroy(&engine);
    zr_plan_destroy(&plan);
    zr_device_destroy(&device);
    return ZR_OK;
}

/* Check that all ranks return the failure of one rank, also ranks of other groups, none of which waits for others: two
 * tensor-parallel ranks in each of two data-parallel groups, then all ranks. */
static void test_failed_creation(void **state)
{
    (void)state;
    for (int at = 0; at < 4; at++) {
        creation c = {.run = trainer_odd(), .fails_at = at};
        c.run.config.n_head = 4;
        c.run.config.n_embd = 32;
        c.run.config.vocab_size = 132;
        c.run.layout.ranks = c.run.layout.tensor = 2;
        assert_int_equal(zr_comm_threads_run(4, create_only, &c), ZR_OK);
        for (int r = 0; r < 4; r++) {
            assert_int_equal(c.status[r], at < 3 ? ZR_ERR_MEMORY : ZR_OK);
            if (at < 3) assert_non_null(strstr(c.text[r], "no room for group"));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_as_two_by_two),
        cmocka_unit_test(test_eight_as_two_by_four),
        cmocka_unit_test(test_lean),
        cmocka_unit_test(test_world),
        cmocka_unit_test(test_shared_layers),
        cmocka_unit_test(test_failed_creation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
