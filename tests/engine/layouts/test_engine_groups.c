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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_as_two_by_two),
        cmocka_unit_test(test_eight_as_two_by_four),
        cmocka_unit_test(test_lean),
        cmocka_unit_test(test_world),
        cmocka_unit_test(test_shared_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
