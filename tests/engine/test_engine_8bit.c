//TEST timeout=120
/* AdamW with moments in records of 8 bits: the same bits over stages, layouts, groups, homes, pipelines and, with sums
 * for any number of ranks, over ranks; also behind a resumption at another number and stage. Close to fp32 states. */
#include "engine/layout_variants.h"
#include "engine/layouts/all_states.h"
#include "support/long.h"

#include <math.h>

static trainer trainer_8bit(int ranks, zr_dtype dtype, int64_t accum, double clip)
{
    trainer run = layout_trainer(ranks, dtype, accum, clip);
    run.layout.optimizer = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    run.layout.optimizer.slot_records[0] = ZR_E4M3X256;
    run.layout.optimizer.slot_records[1] = ZR_E5M2X256;
    return run;
}

/* Return the same trainer with states in fp32, and the same units. */
static trainer in_fp32(const trainer *run)
{
    trainer plain = *run;
    plain.layout.optimizer = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    plain.layout.vectors_apart = true;
    return plain;
}

static void all_layouts(void **state)
{
    (void)state;
    const struct {
        int ranks;
        zr_dtype dtype;
        int64_t accum;
        double clip;
    } runs[] = {{1, ZR_F32, 1, 0.5}, {2, ZR_BF16, 2, 0.5}, {3, ZR_F32, 1, 0}, {4, ZR_F16, 2, 0.5}};
    const int shares = is_long_run() ? 1 : 5;
    for (int i = 0; i < 4; i++) {
        trainer run = trainer_8bit(runs[i].ranks, runs[i].dtype, runs[i].accum, runs[i].clip), plain = in_fp32(&run);
        trainer_run(&run);
        trainer_run(&plain);
        assert_true(run.weights != plain.weights && run.loss[0] == plain.loss[0]);
        layout_check(&run, i, shares);
    }
}

static void any_ranks(void **state)
{
    (void)state;
    trainer first = trainer_8bit(1, ZR_F32, 4, 0.5);
    first.layout.rank_free_sums = true;
    trainer_run(&first);
    for (int ranks = 1; ranks <= 4; ranks *= 2)
        for (int stage = 0; stage <= 3; stage++) {
            trainer run = first;
            run.layout.ranks = ranks;
            run.layout.accum = 4 / ranks;
            run.layout.stage = stage;
            trainer_run(&run);
            layout_assert_same(&first, &run, "any ranks");
        }
}

static void groups_and_pipelines(void **state)
{
    (void)state;
    trainer flat = trainer_8bit(4, ZR_BF16, 2, 0.5);
    trainer_run(&flat);
    for (int way = 0; way < 6; way++) {
        trainer run = flat;
        run.layout.stage = way < 3 ? way : 3;
        run.layout.host_ranks = 2;
        run.layout.hierarchical = way % 2 == 0;
        run.layout.shard_ranks = way == 2 || way == 3 ? 2 : 0;
        run.layout.hpz_ranks = way == 4 ? 2 : 0;
        trainer_run(&run);
        layout_assert_same(&flat, &run, "groups");
    }
    trainer first = trainer_8bit(2, ZR_F32, 4, 0.5);
    trainer_run(&first);
    for (int stage = 0; stage <= 3; stage += 3) {
        trainer run = first;
        run.layout.stage = stage;
        run.layout.pipeline = 2;
        run.layout.pipeline_schedule = stage ? ZR_PIPELINE_1F1B : ZR_PIPELINE_GPIPE;
        trainer_run(&run);
        layout_assert_same(&first, &run, "a pipeline");
    }
}

/* Check states in host memory and on disk, in several buckets and windows: a matrix has more elements than the smallest
 * bucket on disk. */
static void homes(void **state)
{
    (void)state;
    trainer first = trainer_8bit(2, ZR_BF16, 2, 0.5);
    trainer_run(&first);
    for (int stage = 0; stage <= 3; stage++) {
        trainer run = first;
        run.layout.stage = stage;
        run.layout.home.optim = stage % 2 ? ZR_SPACE_DISK : ZR_SPACE_HOST;
        run.layout.home.bucket_elems = 300;
        run.layout.save = stage == 1 ? ZR_SAVE_IN_PLACE : ZR_SAVE_NONE;
        trainer_run(&run);
        layout_assert_same(&first, &run, "homes");
    }
    trainer wide = trainer_8bit(1, ZR_BF16, 1, 0);
    wide.config.n_layer = 1;
    wide.config.n_head = 1;
    wide.config.n_embd = 448;
    wide.steps = 2;
    trainer_run(&wide);
    trainer disk = wide;
    disk.layout.stage = 1;
    disk.layout.home.optim = ZR_SPACE_DISK;
    disk.layout.home.bucket_elems = 1;
    disk.layout.save = ZR_SAVE_IN_PLACE;
    trainer_run(&disk);
    layout_assert_same(&wide, &disk, "buckets on disk");
}

/* ---- what is kept -------------------------------------------------------------------------------- */

/* Check that each of the moments of matrices of blocks takes 258 bytes for 256 elements, and that all others are as
 * they were. */
static void accounts(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        trainer run = trainer_8bit(4, ZR_BF16, 1, 0.5);
        run.config.n_layer = 2;
        run.config.n_embd = 96; /* padding is small */
        trainer plain = in_fp32(&run);
        const zr_model model = trainer_model(&run);
        zr_device *device = NULL;
        zr_plan *plan = NULL;
        run.layout.stage = plain.layout.stage = stage;
        run.steps = plain.steps = 1;
        trainer_run(&run);
        trainer_run(&plain);
        assert_int_equal(zr_device_create_cpu(&(zr_device_config){.threads = 1}, &device), ZR_OK);
        if (zr_plan_create(&model, &run.layout, &device->profile, &plan) != ZR_OK) fail_msg("%s", zr_error_message());
        const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
        int64_t spared = 0;
        for (int32_t u = 0; u < plan->n_units; u++) {
            const zr_plan_unit *unit = &plan->unit[u];
            const zr_param_info *param = zr_graph_param(g, zr_graph_unit_info(g, u)->first_param);
            const bool matrices = strstr(param->name, ".h.") && param->shape.ndim > 1;
            assert_int_equal(unit->slot[0].dtype, matrices ? ZR_E4M3X256 : ZR_F32);
            assert_int_equal(unit->slot[1].dtype, matrices ? ZR_E5M2X256 : ZR_F32);
            if (matrices) spared += 2 * (4 * unit->update.count - unit->update.count / 256 * 258);
        }
        /* units in records are padded to whole ones */
        const int64_t less =
            plain.planned.category_bytes[ZR_CATEGORY_OPTIM] - run.planned.category_bytes[ZR_CATEGORY_OPTIM];
        assert_true(spared > 0);
        assert_in_range(less, spared - spared / 20, spared + spared / 20);
        zr_plan_destroy(&plan);
        zr_device_destroy(&device);
    }
}

/* ---- resumed ------------------------------------------------------------------------------------- */

static int32_t same_token(void *arg, int64_t step, int64_t row, int64_t t)
{
    (void)arg, (void)step;
    return (int32_t)((row * 7 + t * t) % 131);
}

/* Check that states which are read by element, and filled at another number of ranks and stage, go on with the same
 * bits: what was decoded is encoded again without a change. */
static void resumed(void **state)
{
    (void)state;
    static states kept, again;
    trainer whole = trainer_8bit(1, ZR_F32, 4, 0.5);
    whole.layout.rank_free_sums = true;
    whole.token = same_token;
    whole.config.embd_pdrop = whole.config.resid_pdrop = whole.config.attn_pdrop = 0;
    whole.steps = 6;
    trainer half = whole;
    half.steps = 3;
    half.arg = &kept;
    half.after = take_all;
    trainer_run(&half);
    trainer_run(&whole);
    for (int i = 0; i < 4; i++) {
        trainer run = half;
        run.layout.ranks = 1 << i % 3;
        run.layout.accum = 4 / run.layout.ranks;
        run.layout.stage = 3 - i;
        run.before = give_all;
        run.arg = &kept;
        run.after = NULL;
        trainer_run(&run);
        for (int k = 0; k < 3; k++) assert_true(run.loss[k] == whole.loss[3 + k]);
        assert_int_equal(run.weights, whole.weights);
        run.arg = &again; /* filled and read, without a step */
        again = kept;
        run.after = take_all;
        run.steps = 0;
        trainer_run(&run);
        assert_memory_equal(&again, &kept, sizeof kept);
    }
}

/* ---- it learns ----------------------------------------------------------------------------------- */

/* Check that losses stay near those with fp32 states, where the loss falls from 4.9 to below 2. */
static void learns(void **state)
{
    (void)state;
    trainer run = trainer_8bit(1, ZR_F32, 1, 1.0);
    run.token = same_token;
    run.config.embd_pdrop = run.config.resid_pdrop = run.config.attn_pdrop = 0;
    run.steps = TRAINER_STEPS;
    trainer plain = in_fp32(&run);
    trainer_run(&run);
    trainer_run(&plain);
    for (int i = 0; i < run.steps; i++)
        if (fabs(run.loss[i] - plain.loss[i]) > 0.05) fail_msg("step %d: %g, %g", i, run.loss[i], plain.loss[i]);
    if (!(run.loss[run.steps - 1] < 0.5 * run.loss[0])) fail_msg("%g, %g", run.loss[0], run.loss[run.steps - 1]);
}

/* ---- refused ------------------------------------------------------------------------------------- */

static void refused(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        trainer run = trainer_8bit(1, ZR_F32, 1, 0);
        zr_optimizer *o = &run.layout.optimizer;
        if (i == 0) *o = (zr_optimizer){.name = "adam", .n_slots = 2, .slot_records = {ZR_E4M3X256, ZR_E5M2X256}};
        if (i == 1) o->slot_records[1] = ZR_F32;
        if (i == 2) o->slot_records[0] = ZR_I8X256;
        if (i == 3) o->slot_records[1] = ZR_E5M2X128;
        assert_int_equal(zr_comm_threads_run(1, trainer_rank, &run), ZR_ERR_UNSUPPORTED);
        assert_non_null(strstr(zr_error_message(), "\"adamw\" is built, with E4M3 for the first"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_layouts), cmocka_unit_test(any_ranks), cmocka_unit_test(groups_and_pipelines),
        cmocka_unit_test(homes),       cmocka_unit_test(accounts),  cmocka_unit_test(resumed),
        cmocka_unit_test(learns),      cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
