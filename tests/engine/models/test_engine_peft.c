//TEST timeout=120
/* Low-rank adapters against traces that peft computed in float64 (tests/golden/lora.py): losses and norms of ten steps,
 * from an adapter directory that peft wrote, over stages, ranks, micro-batches, and tensor and sequence parallelism. */
#include "golden_trace.h"
#include "train/family/adapter.h"
#include "train/family/inputs.h"

static void check(trainer run, const char *name)
{
    run.fill = zr__weights_fill;
    run.lr = 1e-2;
    run.after = run.after_first = NULL;
    trainer_run(&run);
    for (int i = 0; i < GOLDEN_STEPS; i++)
        if (!(fabs(run.loss[i] - golden.loss[i]) <= 2e-5 * golden.loss[i] &&
              fabs(run.norm[i] - golden.norm[i]) <= 2e-4 * golden.norm[i]))
            fail_msg("%s, stage %d, %d x %d ranks, step %d: loss %.9g, norm %.9g; wanted %.9g, %.9g", name,
                     run.layout.stage, run.layout.ranks, run.layout.tensor, i, run.loss[i], run.norm[i], golden.loss[i],
                     golden.norm[i]);
}

static void check_trace(const char *name, const char *base)
{
    char dir[GOLDEN_DIR_BYTES], base_dir[GOLDEN_DIR_BYTES], adapter[5000], base_of[4096] = "", note[256];
    zr__family_model model;
    zr_weights *weights = NULL;
    golden_open(golden_own_dir(base, base_dir));
    golden_numbers(golden_own_dir(name, dir), golden.loss, golden.norm);
    snprintf(adapter, sizeof adapter, "%s/adapter", dir);
    if (zr__adapter_open(adapter, base_of, &model, &weights, note, sizeof note) != ZR_OK)
        fail_msg("%s", zr_error_message());
    assert_string_equal(note, "");
    golden.model = zr__family_builder(&model);
    for (int stage = 0; stage <= 3; stage++)
        for (int way = 0; way < 5; way++) {
            trainer run = golden_trainer(stage, 1 + stage % 2, way == 2 ? 2 : 1);
            run.fill_arg = weights;
            run.layout.tensor = way > 2 ? 2 : 1;
            run.layout.sequence = way == 4 ? ZR_SEQUENCE_KEEP : ZR_SEQUENCE_OFF;
            run.layout.recompute = way == 1 ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_NONE;
            check(run, name);
        }
    zr_weights_close(&weights);
    golden_close();
}

static void test_traces(void **state)
{
    (void)state;
    check_trace("lora-llama", "llama-scaled");
    check_trace("lora-gpt2", "gpt2-tiny");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_traces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
