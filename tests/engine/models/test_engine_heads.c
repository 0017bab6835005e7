//TEST timeout=60 long=more
/* The heads with which BERT is fine-tuned, in fp32, against traces that transformers and PyTorch computed in float64:
 * losses and norms over stages, ranks, micro-batches, tensor and sequence parallelism and ways to recompute, with one
 * sample and with several samples in a row. */
#include "golden_trace.h"

static const zr_family *family;
static zr_model_config config;

/* The batches of a trace: of each step and row, tokens with segments, and a label, the first and the last token of an
 * answer, or a target of some tokens. */
static struct {
    int64_t T, targets; /* tokens of a sample, and targets: 1 or 2, or T if tokens have targets */
    int32_t token[GOLDEN_STEPS * GOLDEN_BATCH * GOLDEN_MOST_SEQ],
        segment[GOLDEN_STEPS * GOLDEN_BATCH * GOLDEN_MOST_SEQ], mask[GOLDEN_STEPS * GOLDEN_BATCH * GOLDEN_MOST_SEQ],
        target[2][GOLDEN_STEPS * GOLDEN_BATCH], label[GOLDEN_STEPS * GOLDEN_BATCH * GOLDEN_MOST_SEQ];
    int64_t in_row; /* number of samples in a row of the run */
} batches;

static void read_part(zr_safetensors *file, const char *name, int64_t n, int32_t *out)
{
    const zr_safetensors_tensor *tensor = zr_safetensors_find(file, name);
    assert_non_null(tensor);
    assert_int_equal(zr_safetensors_read_i32(file, tensor, 0, GOLDEN_STEPS * GOLDEN_BATCH * n, out), ZR_OK);
}

static void read_batches(const char *dir)
{
    char path[5000];
    snprintf(path, sizeof path, "%s/batches.safetensors", dir);
    zr_safetensors *file = NULL;
    if (zr_safetensors_open(path, &file) != ZR_OK) fail_msg("%s", zr_error_message());
    read_part(file, "input_ids", batches.T, batches.token);
    read_part(file, "token_type_ids", batches.T, batches.segment);
    read_part(file, "attention_mask", batches.T, batches.mask);
    const zr_samples kind = zr_family_samples(family, &config);
    const bool answers = kind == ZR_SAMPLES_ANSWERS, tokens = kind == ZR_SAMPLES_MASKED || kind == ZR_SAMPLES_TAGS;
    batches.targets = tokens ? batches.T : 1 + answers;
    if (tokens)
        read_part(file, "labels", batches.T, batches.label);
    else
        read_part(file, answers ? "start_positions" : "labels", 1, batches.target[0]);
    if (answers) read_part(file, "end_positions", 1, batches.target[1]);
    zr_safetensors_close(&file);
}

/* Fill a row of the run with samples of the trace, without their padding, and then with padding. */
static void fill_row(int32_t *const in[5], int64_t step, int64_t index)
{
    const int64_t T = batches.T, targets = batches.targets;
    int32_t *first = targets == 1 ? in[2] : NULL, *target = targets == 1 ? in[3] : in[2];
    int32_t *documents = targets == 1 ? in[4] : in[3];
    int64_t n = 0;
    for (int64_t k = 0; k < batches.in_row; k++) {
        const int64_t at = step * GOLDEN_BATCH + index * batches.in_row + k, begin = n;
        if (first) first[k] = (int32_t)begin;
        for (int64_t c = 0; c < targets; c++) {
            const int32_t value = batches.target[c][at];
            target[k * targets + c] = value < 0 ? -1 : value + (int32_t)(targets == 1 ? 0 : begin);
        }
        for (int64_t t = 0; t < T && batches.mask[at * T + t]; t++) {
            in[0][n] = batches.token[at * T + t];
            in[1][n] = batches.segment[at * T + t];
            documents[n++] = (int32_t)begin;
        }
    }
    for (int64_t t = n; t < golden.T; t++) {
        in[0][t] = in[1][t] = 0;
        documents[t] = (int32_t)n;
    }
}

/* Fill a row of the run whose tokens have targets. Return the number of targets. */
static int64_t fill_places(int32_t *const in[5], int64_t step, int64_t index)
{
    const int64_t T = batches.T;
    int64_t n = 0, places = 0;
    for (int64_t k = 0; k < batches.in_row; k++) {
        const int64_t at = step * GOLDEN_BATCH + index * batches.in_row + k, begin = n;
        for (int64_t t = 0; t < T && batches.mask[at * T + t]; t++, n++) {
            in[0][n] = batches.token[at * T + t];
            in[1][n] = batches.segment[at * T + t];
            in[4][n] = (int32_t)begin;
            if (batches.label[at * T + t] < 0) continue;
            in[2][places] = (int32_t)n;
            in[3][places++] = batches.label[at * T + t];
        }
    }
    for (int64_t t = n; t < golden.T; t++) in[0][t] = in[1][t] = 0, in[4][t] = (int32_t)n;
    for (int64_t k = places; k < golden.T; k++) in[2][k] = 0, in[3][k] = -1;
    return places;
}

static zr_status fill_batch(void *arg, const zr_batch *batch, void *const *input)
{
    const trainer *run = arg;
    const int64_t S = golden.samples, targets = batches.targets;
    const int64_t width[2][5] = {{golden.T, golden.T, S, S, golden.T}, {golden.T, golden.T, 2 * S, golden.T}};
    for (int64_t b = 0; b < run->layout.batch; b++) {
        int32_t *in[5] = {0};
        if (targets == batches.T) { /* each array has an element for each token */
            for (int i = 0; i < 5; i++) in[i] = (int32_t *)input[i] + b * golden.T;
            batch->counted[0] -= golden.T - fill_places(in, batch->step, batch->first_row + b);
            continue;
        }
        for (int i = 0; i < (targets == 1 ? 5 : 4); i++) in[i] = (int32_t *)input[i] + b * width[targets - 1][i];
        fill_row(in, batch->step, batch->first_row + b);
        for (int64_t i = 0; i < S * targets; i++) batch->counted[0] -= in[targets == 1 ? 3 : 2][i] < 0;
    }
    return ZR_OK;
}

/* Return whether the exact gradient of a parameter is 0: a bias of keys, or of starts and ends, shifts all scores of a
 * softmax alike. */
static bool vanishes(const char *name)
{
    return strstr(name, ".self.key.bias") || strcmp(name, "qa_outputs.bias") == 0;
}

static bool is_noise(const char *name, int64_t i, int64_t n)
{
    (void)i, (void)n;
    return vanishes(name);
}

static void open_trace(const char *dir)
{
    char model[5000];
    snprintf(model, sizeof model, "%s/model", dir);
    if (zr_hf_read(model, &family, &config) != ZR_OK) fail_msg("%s", zr_error_message());
    golden.model = zr_family_model(family, &config);
    golden.noise = is_noise;
    golden.vanishes = vanishes;
    golden.fill = fill_batch;
    golden_open_tensors(dir);
    batches.T = golden.T;
    read_batches(dir);
}

/* Put `in_row` samples into a row of the run. */
static void set_rows(int64_t in_row)
{
    batches.in_row = golden.samples = in_row;
    golden.batch = GOLDEN_BATCH / in_row;
    golden.T = batches.T * in_row;
    golden.predictions = batches.targets == batches.T ? golden.T : 0;
}

/* Check that losses and norms have the same bits at each stage and however activations are recomputed, and that packed
 * rows have the losses of single samples within 2e-6. */
static void check_bits(void)
{
    static trainer first[2];
    for (int64_t in_row = 1; in_row <= 2; in_row++) {
        trainer *one = &first[in_row - 1];
        set_rows(in_row);
        for (int stage = 0; stage <= 3; stage++) {
            trainer run = golden_trainer(stage, 2, 1);
            run.layout.recompute = stage % 2 ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_NONE;
            trainer_run(&run);
            if (stage == 0) *one = run;
            for (int i = 0; i < GOLDEN_STEPS; i++)
                assert_true(run.loss[i] == one->loss[i] && run.norm[i] == one->norm[i]);
        }
    }
    for (int i = 0; i < GOLDEN_STEPS; i++)
        assert_true(fabs(first[1].loss[i] - first[0].loss[i]) <= 2e-6 * first[0].loss[i]);
}

static void test_traces(void **state)
{
    (void)state;
    static const char *const own[] = {"bert-classify", "bert-answer", "bert-masked", "bert-tags"};
    char dir[GOLDEN_DIR_BYTES];
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        open_trace(golden_own_dir(own[i], dir));
        for (int64_t in_row = 1; in_row <= 2; in_row++) {
            set_rows(in_row);
            golden_check_layouts(zr_family_sizes(family, &config).heads, NULL);
        }
        check_bits();
        golden_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_traces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
