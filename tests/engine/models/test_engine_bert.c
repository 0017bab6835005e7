//TEST timeout=120 long=more
/* BERT in fp32 against traces that transformers and PyTorch computed in float64: losses of both terms, norms, and where
 * the trace has them gradients and final weights, over stages, ranks, micro-batches, tensor and sequence parallelism
 * and ways to recompute; with a sample and its padding in a row, and with several samples in a row. */
#include "golden_trace.h"
#include "support/long.h"

enum { MOST_PREDICTIONS = 24, MOST_SAMPLES = 4 };

static const zr_family *family;
static zr_model_config config;

/* The batches of a trace: of each step and row, tokens with segments, labels, and the label of the sample. */
static struct {
    int64_t T;
    int32_t token[GOLDEN_STEPS * GOLDEN_BATCH * GOLDEN_MOST_SEQ],
        segment[GOLDEN_STEPS * GOLDEN_BATCH * GOLDEN_MOST_SEQ], mask[GOLDEN_STEPS * GOLDEN_BATCH * GOLDEN_MOST_SEQ],
        label[GOLDEN_STEPS * GOLDEN_BATCH * GOLDEN_MOST_SEQ], next[GOLDEN_STEPS * GOLDEN_BATCH];
    double part[GOLDEN_STEPS][2]; /* the two means */
    int64_t in_row;               /* number of the trace's rows in a row of the run */
} batches;

static void read_batches(const char *dir)
{
    char path[5000];
    snprintf(path, sizeof path, "%s/batches.safetensors", dir);
    zr_safetensors *file = NULL;
    if (zr_safetensors_open(path, &file) != ZR_OK) fail_msg("%s", zr_error_message());
    struct {
        const char *name;
        int32_t *out;
        int64_t n;
    } parts[] = {{"input_ids", batches.token, batches.T},
                 {"token_type_ids", batches.segment, batches.T},
                 {"attention_mask", batches.mask, batches.T},
                 {"labels", batches.label, batches.T},
                 {"next_sentence_label", batches.next, 1}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const zr_safetensors_tensor *tensor = zr_safetensors_find(file, parts[i].name);
        assert_non_null(tensor);
        assert_int_equal(
            zr_safetensors_read_i32(file, tensor, 0, GOLDEN_STEPS * GOLDEN_BATCH * parts[i].n, parts[i].out), ZR_OK);
    }
    zr_safetensors_close(&file);
    json_t *expected = golden_read_expected(dir);
    for (size_t i = 0; i < GOLDEN_STEPS; i++)
        for (size_t k = 0; k < 2; k++)
            batches.part[i][k] =
                json_real_value(json_array_get(json_array_get(json_object_get(expected, "mlm_nsp"), i), k));
    json_decref(expected);
}

/* A row of the run while it is being filled. */
typedef struct row {
    int32_t *in[7]; /* the inputs, at this row */
    int64_t tokens, predictions, samples;
} row;

static void put_token(row *r, int64_t begin, int32_t token, int32_t segment)
{
    r->in[0][r->tokens] = token;
    r->in[1][r->tokens] = segment;
    r->in[6][r->tokens++] = (int32_t)begin;
}

/* Append a row of the trace, without its padding, unless it is the only one in the run's row: then its padding comes
 * last. A row with nothing but padding is no sample. */
static void append(row *r, int64_t at)
{
    const int64_t T = batches.T, begin = r->tokens;
    for (int64_t t = 0; t < T && batches.mask[at * T + t]; t++) {
        if (t == 0) {
            r->in[4][r->samples] = (int32_t)begin;
            r->in[5][r->samples++] = batches.next[at] < 0 ? -1 : batches.next[at];
        }
        if (batches.label[at * T + t] >= 0) {
            assert_true(r->predictions < golden.predictions);
            r->in[2][r->predictions] = (int32_t)r->tokens;
            r->in[3][r->predictions++] = batches.label[at * T + t];
        }
        put_token(r, begin, batches.token[at * T + t], batches.segment[at * T + t]);
    }
}

static void fill_row(row *r, int64_t step, int64_t index)
{
    for (int64_t k = 0; k < batches.in_row; k++) append(r, step * GOLDEN_BATCH + index * batches.in_row + k);
    const int64_t padding = r->tokens;
    while (r->tokens < golden.T) put_token(r, padding, 0, 0);
    for (int64_t k = r->predictions; k < golden.predictions; k++) r->in[2][k] = 0, r->in[3][k] = -1;
    for (int64_t k = r->samples; k < golden.samples; k++) r->in[4][k] = 0, r->in[5][k] = -1;
}

static zr_status read_rows(const trainer *run, const zr_batch *batch, void *const *input)
{
    static _Thread_local int32_t spare[7][2 * GOLDEN_MOST_SEQ];
    const int64_t width[7] = {golden.T,       golden.T, golden.predictions, golden.predictions, golden.samples,
                              golden.samples, golden.T};
    for (int64_t b = 0; b < run->layout.batch; b++) {
        row r = {0};
        for (int i = 0; i < 7; i++) r.in[i] = input ? (int32_t *)input[i] + b * width[i] : spare[i];
        fill_row(&r, batch->step, batch->first_row + b);
        batch->counted[0] -= golden.predictions - r.predictions;
        for (int64_t k = 0; k < golden.samples; k++) batch->counted[1] -= r.in[5][k] < 0;
    }
    return ZR_OK;
}

static zr_status fill_batch(void *arg, const zr_batch *batch, void *const *input)
{
    return read_rows(arg, batch, input);
}

static zr_status count_batch(void *arg, const zr_batch *batch)
{
    return read_rows(arg, batch, NULL);
}

/* Return whether a parameter is a bias of keys. It shifts all scores of a query alike, so its gradient is 0. */
static bool is_key_bias(const char *name)
{
    return strstr(name, ".self.key.bias") != NULL;
}

static bool is_noise(const char *name, int64_t i, int64_t n)
{
    (void)i, (void)n;
    return is_key_bias(name);
}

static void check_terms(const trainer *run)
{
    for (int i = 0; i < GOLDEN_STEPS; i++)
        for (int k = 0; k < 2; k++)
            if (!(fabs(run->term[i][k].loss - batches.part[i][k]) <= 2e-5 * batches.part[i][k]))
                fail_msg("%s: step %d, term %d: loss %.9g, wanted %.9g", golden.dir, i, k, run->term[i][k].loss,
                         batches.part[i][k]);
}

/* Check rows of `in_row` rows of the trace. */
static void check_rows(int64_t in_row)
{
    batches.in_row = in_row;
    golden.batch = GOLDEN_BATCH / in_row;
    golden.T = batches.T * in_row;
    golden.predictions = MOST_PREDICTIONS;
    golden.samples = in_row;
    golden_check_layouts(zr_family_sizes(family, &config).heads, check_terms);
}

/* ---- logits ------------------------------------------------------------------------------------ */

/* Build the model with the losses of masked tokens as its output. */
static void build_losses(zr_graph *g, const void *settings)
{
    zr_model model = zr_family_model(family, settings);
    model.build(g, settings);
    zr_graph_output(g, zr_graph_get_loss_term(g, 0));
}

/* Fill in the trace's first row, with each token of the vocabulary in turn as the target at position *arg. */
static zr_status fill_place(void *arg, const zr_batch *batch, void *const *input)
{
    row r = {0};
    (void)batch;
    for (int i = 0; i < 7; i++) r.in[i] = input[i];
    batches.in_row = 1;
    golden.predictions = GOLDEN_MOST_SEQ;
    append(&r, 0);
    while (r.tokens < batches.T) put_token(&r, r.samples ? r.tokens : 0, 0, 0);
    for (int64_t v = 0; v < zr_family_sizes(family, &config).vocabulary; v++) {
        r.in[2][v] = *(const int32_t *)arg;
        r.in[3][v] = (int32_t)v;
    }
    return ZR_OK;
}

/* Evaluate the first sample once for each of its tokens. Row t of `out` receives the output for token t, of each token
 * of the vocabulary as the target. */
static void evaluate_places(const zr_model *model, float *out)
{
    const int64_t V = zr_family_sizes(family, &config).vocabulary;
    zr_layout layout = zr_layout_default();
    zr_device *device = NULL;
    zr_plan *plan = NULL;
    zr_comm *comm = NULL;
    zr_engine *engine = NULL;
    layout.seq = batches.T, layout.documents = true, layout.predictions = V, layout.samples = 1;
    layout.train = false, layout.eval = true;
    assert_int_equal(zr_device_create_cpu(&(zr_device_config)ZR_DEVICE_CONFIG_INIT, &device), ZR_OK);
    if (zr_plan_create(model, &layout, &device->profile, &plan) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_int_equal(zr_comm_create_self(&comm), ZR_OK);
    assert_int_equal(zr_engine_create(plan, device, comm, 1, &engine), ZR_OK);
    assert_int_equal(zr_engine_fill(engine, ZR_STATE_PARAM, golden_fill, NULL), ZR_OK);
    for (int32_t t = 0; t < batches.T && batches.mask[t]; t++) {
        static zr_exact sums[ZR_LOSS_TERMS];
        const zr_batch batch = {0};
        if (zr_engine_eval(engine, &batch, fill_place, &t, sums) != ZR_OK) fail_msg("%s", zr_error_message());
        const zr_value output = zr_graph_get_output(plan->graph[ZR_SCHEDULE_EVAL]);
        assert_int_equal(zr_engine_value(engine, ZR_SCHEDULE_EVAL, output, out + t * V), ZR_OK);
    }
    zr_engine_destroy(&engine);
    zr_comm_destroy(&comm);
    zr_plan_destroy(&plan);
    zr_device_destroy(&device);
}

/* Check that the logits of a token are the trace's, from the loss of each target, which is the logarithm of the sum of
 * exponentials less the target's logit. */
static void check_logits(int32_t t, int64_t V, const float *want, const float *loss)
{
    double sum = 0, largest = 0;
    for (int64_t v = 0; v < V; v++) {
        sum += exp(want[v]);
        largest = fmax(largest, fabs(want[v]));
    }
    for (int64_t v = 0; v < V; v++)
        if (!(fabs(log(sum) - want[v] - loss[v]) <= 1e-5 * largest))
            fail_msg("logit %lld of token %d: off by %g", (long long)v, (int)t, log(sum) - want[v] - loss[v]);
}

/* Check the losses of all targets of the first sample beside the trace's logits, if it has them, and that the model's
 * own output marks the target with the least loss, that is the largest logit. */
static void check_first_sample(void)
{
    static float want[GOLDEN_MOST_SEQ * 256], loss[GOLDEN_MOST_SEQ * 256], hits[GOLDEN_MOST_SEQ * 256];
    const int64_t V = zr_family_sizes(family, &config).vocabulary;
    const zr_model losses = {.name = "bert", .build = build_losses, .config = &config},
                   own = zr_family_model(family, &config);
    assert_true(V <= 256);
    evaluate_places(&losses, loss);
    evaluate_places(&own, hits);
    if (golden.logits)
        assert_int_equal(zr_safetensors_read_f32(golden.logits, zr_safetensors_find(golden.logits, "logits"), 0,
                                                 batches.T * V, want),
                         ZR_OK);
    for (int32_t t = 0; t < batches.T && batches.mask[t]; t++) {
        const float *at = loss + t * V;
        int64_t best = 0;
        if (golden.logits) check_logits(t, V, want + t * V, at);
        for (int64_t v = 1; v < V; v++)
            if (at[v] < at[best]) best = v;
        for (int64_t v = 0; v < V; v++) assert_true(hits[t * V + v] == (v == best));
    }
}

static void check_trace(const char *dir, bool packs)
{
    char model[5000];
    snprintf(model, sizeof model, "%s/model", dir);
    if (zr_hf_read(model, &family, &config) != ZR_OK) fail_msg("%s", zr_error_message());
    golden.model = zr_family_model(family, &config);
    golden.noise = is_noise;
    golden.vanishes = is_key_bias;
    golden.fill = fill_batch;
    golden.count = count_batch;
    golden_open_tensors(dir);
    batches.T = golden.T;
    read_batches(dir);
    check_rows(1);
    if (packs) check_rows(2);
    check_first_sample();
    golden_close();
}

static void test_traces(void **state)
{
    (void)state;
    static const char *const own[] = {"bert-odd", "bert-one", "bert-empty", "bert-heads", "bert-preln"};
    char dir[GOLDEN_DIR_BYTES];
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) check_trace(golden_own_dir(own[i], dir), true);
    if (golden_larger_dir("bert-tiny", dir)) check_trace(dir, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_traces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
