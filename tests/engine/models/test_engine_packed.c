//TEST timeout=120 long=more
/* Models of the Llama kind in fp32 on rows of several documents, with and without padding, against traces that
 * tests/golden/make_packed.py computed in float64, one document at a time: losses and norms over stages, ranks,
 * micro-batches, tensor and sequence parallelism, and ways to recompute. */
#include "golden_trace.h"
#include "support/long.h"

enum { MOST_DOCUMENTS = GOLDEN_MOST_SEQ };

/* lengths of each row's documents in tokens, ended by 0 */
static int64_t lengths[GOLDEN_STEPS][GOLDEN_BATCH][MOST_DOCUMENTS + 1];

static void read_lengths(const char *dir)
{
    json_t *expected = golden_read_expected(dir), *steps = json_object_get(expected, "documents");
    memset(lengths, 0, sizeof lengths);
    for (size_t s = 0; s < GOLDEN_STEPS; s++)
        for (size_t b = 0; b < GOLDEN_BATCH; b++) {
            const json_t *row = json_array_get(json_array_get(steps, s), b);
            int64_t all = 0;
            assert_in_range(json_array_size(row), 1, MOST_DOCUMENTS);
            for (size_t d = 0; d < json_array_size(row); d++)
                all += lengths[s][b][d] = json_integer_value(json_array_get(row, d));
            assert_in_range(all, 1, golden.T);
        }
    json_decref(expected);
}

/* Fill row b of a micro-batch. The padding is one more document. Neither it nor the last token of a document has a
 * target. */
static void fill_row(const zr_batch *batch, int64_t b, void *const *input)
{
    const int64_t T = golden.T, row = batch->first_row + b;
    int32_t *token = (int32_t *)input[0] + b * T, *target = (int32_t *)input[1] + b * T;
    int32_t *begin = (int32_t *)input[2] + b * T;
    for (int64_t t = 0, d = 0, first = 0; t < T; t++) {
        const int64_t n = lengths[batch->step][row][d];
        const bool counts = n > 0 && t + 1 < first + n;
        token[t] = golden_token(NULL, batch->step, row, t);
        target[t] = counts ? golden_token(NULL, batch->step, row, t + 1) : -1;
        begin[t] = (int32_t)first;
        *batch->counted -= !counts;
        if (t + 1 == first + n) first = t + 1, d++;
    }
}

static zr_status fill_batch(void *arg, const zr_batch *batch, void *const *input)
{
    const trainer *run = arg;
    for (int64_t b = 0; b < run->layout.batch; b++) fill_row(batch, b, input);
    return ZR_OK;
}

static void check_trace(const char *name, const char *base)
{
    char dir[GOLDEN_DIR_BYTES], base_dir[GOLDEN_DIR_BYTES], path[5000];
    const zr_family *family = NULL;
    zr_model_config config;
    golden_open(golden_own_dir(base, base_dir));
    zr_safetensors_close(&golden.grads); /* gradients of the base trace, which belong to other steps */
    zr_safetensors_close(&golden.last);
    golden_numbers(golden_own_dir(name, dir), golden.loss, golden.norm);
    golden.dir = dir;
    read_lengths(dir);
    snprintf(path, sizeof path, "%s/model", base_dir);
    if (zr_hf_read(path, &family, &config) != ZR_OK) fail_msg("%s", zr_error_message());
    golden.model = zr_family_model(family, &config);
    golden.fill = fill_batch;
    golden.documents = true;
    golden_check_layouts(zr_family_sizes(family, &config).heads, NULL);

    static const zr_recompute policy[] = {ZR_RECOMPUTE_SELECTIVE, ZR_RECOMPUTE_UNIT, ZR_RECOMPUTE_PAPER};
    zr_graph *g = golden_graph();
    for (int i = 0; i < 3; i++)
        for (int stage = 0; stage <= 3; stage++) {
            if (stage != i + 1 && !is_long_run()) continue;
            trainer run = golden_trainer(stage, 2, 1);
            run.layout.recompute = policy[i];
            golden_check(&run, g);
        }
    if (!is_long_run()) golden_check_tensor(2, 3, 2, false, g); /* the long run has all stages */
    zr_graph_destroy(&g);
    golden_close();
}

static void test_traces(void **state)
{
    (void)state;
    check_trace("packed-llama", "llama-scaled");
    check_trace("packed-qwen2", "qwen2-window");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_traces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
