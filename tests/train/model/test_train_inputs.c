//TEST timeout=60
//LINK -Wl,--wrap=zr_alloc,--wrap=zr_free
/* The rows that a run reads: the arrays of each kind of samples, their sizes, and rows that are read ahead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/allocations.h"
#include "data/labelled.h"
#include "support/prepared.h"
#include "config/config.h"
#include "train/family/inputs.h"
#include "train/family/samples.h"
#include "train/setup/setup.h"

/* ---- rows ----------------------------------------------------------------------------------------- */

enum { T = 8, P = 3, S = 2 };

static const zr_layout layout = {.seq = T, .predictions = P, .samples = S, .documents = true};

/* The arrays of a row, in the order of the model's inputs, and their elements. The last is that of the documents. */
static const struct {
    zr_samples kind;
    int arrays;
    size_t member[8];
    int64_t elems[8];
    int term[8]; /* loss term whose targets an array holds, or -1 */
} kinds[] = {
#define AT(member) offsetof(zr__row, member)
    {ZR_SAMPLES_NEXT, 3, {AT(tokens), AT(targets), AT(documents)}, {T, T, T}, {-1, 0, -1}},
    {ZR_SAMPLES_PAIRS,
     7,
     {AT(tokens), AT(segments), AT(masked), AT(masked_targets), AT(first), AT(next), AT(documents)},
     {T, T, P, P, S, S, T},
     {-1, -1, -1, 0, -1, 1, -1}},
    {ZR_SAMPLES_LABELS,
     5,
     {AT(tokens), AT(segments), AT(first), AT(label), AT(documents)},
     {T, T, S, S, T},
     {-1, -1, -1, 0, -1}},
    {ZR_SAMPLES_ANSWERS, 4, {AT(tokens), AT(segments), AT(answer), AT(documents)}, {T, T, 2 * S, T}, {-1, -1, 0, -1}},
    {ZR_SAMPLES_MASKED,
     5,
     {AT(tokens), AT(segments), AT(masked), AT(masked_targets), AT(documents)},
     {T, T, P, P, T},
     {-1, -1, -1, 0, -1}},
    {ZR_SAMPLES_TAGS,
     5,
     {AT(tokens), AT(segments), AT(masked), AT(masked_targets), AT(documents)},
     {T, T, P, P, T},
     {-1, -1, -1, 0, -1}},
};

/* Check where the arrays of a row are, what padding is, and how many losses a row has and counts. */
static void rows_have_the_arrays_of_their_kind(void **state)
{
    (void)state;
    static int32_t memory[8][3 * T];
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        void *input[8];
        int64_t losses[2] = {0}, counted[2], want[2] = {0};
        for (int i = 0; i < 8; i++) input[i] = memory[i];
        const zr__row row = zr__row_at(kinds[k].kind, &layout, 2, input);
        int32_t *const *all = (int32_t *const *)&row;
        int there = 0;
        for (size_t m = 0; m < sizeof(row) / sizeof(*all); m++) there += all[m] != NULL;
        assert_int_equal(there, kinds[k].arrays);
        memset(memory, 7, sizeof(memory));
        zr__row_pad(&layout, &row);
        for (int i = 0; i < kinds[k].arrays; i++) {
            int32_t *const *at = (int32_t *const *)((const char *)&row + kinds[k].member[i]);
            const int64_t begin = 2 * kinds[k].elems[i];
            const int term = kinds[k].term[i];
            assert_ptr_equal(*at, memory[i] + begin);
            for (int64_t e = 0; e < 3 * T; e++) {
                const bool own = e >= begin && e < begin + kinds[k].elems[i];
                assert_int_equal(memory[i][e], own ? (term < 0 ? 0 : -1) : 0x07070707);
            }
            if (term < 0) continue;
            want[term] += kinds[k].elems[i];
            memory[i][begin] = 0; /* one target is there */
        }
        zr__row_losses(&layout, &row, losses);
        memcpy(counted, losses, sizeof(counted));
        zr__row_count(&layout, &row, counted);
        for (int t = 0; t < 2; t++) {
            assert_int_equal(losses[t], want[t]);
            assert_int_equal(counted[t], want[t] ? 1 : 0);
        }
        zr_layout without = layout;
        without.documents = false;
        assert_null(zr__row_at(kinds[k].kind, &without, 2, input).documents);
    }
}

/* Check the sizes that follow from a configuration, and those of weights alone. */
static void sizes_of_rows_follow_from_keys(void **state)
{
    (void)state;
    static const struct {
        int64_t seq, query, stride;
    } usual[] = {{512, 64, 128}, {174, 43, 128}, {173, 43, 63}, {100, 25, 36}, {8, 2, 1}, {3, 1, 1}};
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
        zr_labelled_args args = {.seq_length = usual[i].seq};
        zr__labelled_keys(NULL, &args);
        assert_true(args.samples == 1 && !args.skip_bad_lines);
        assert_int_equal(args.max_query_length, usual[i].query);
        assert_int_equal(args.doc_stride, usual[i].stride);
    }
    assert_int_equal(zr__pairs_predictions(128), 20); /* 0.15 of the tokens, rounded up */
    assert_int_equal(zr__pairs_predictions(512), 77);
    assert_int_equal(zr__pairs_predictions(20), 3);
    assert_int_equal(zr__pairs_predictions(21), 4);
    zr_pairs_args pairs = {.seq_length = 128};
    zr__pairs_keys(NULL, &pairs);
    assert_true(pairs.predictions == 20 && pairs.samples == 1 && !pairs.whole_words);
    assert_true(pairs.masked_lm_prob == 0.15 && pairs.short_seq_prob == 0.1);
    zr_labelled_args labelled = {.seq_length = 128};
    zr_config *c =
        load("{\"model\": {\"type\": \"bert\", \"task\": \"question_answering\"}, \"data\": {\"max_samples\": 2,"
             " \"doc_stride\": 9, \"max_query_length\": 11}}");
    zr__labelled_keys(c, &labelled);
    assert_true(labelled.samples == 2 && !labelled.skip_bad_lines);
    assert_true(labelled.doc_stride == 9 && labelled.max_query_length == 11);
    zr_config_destroy(&c);
    c = load("{\"model\": {\"type\": \"bert\", \"task\": \"sequence_classification\"},"
             " \"data\": {\"bad_lines\": \"skip\"}}");
    zr__labelled_keys(c, &labelled);
    assert_true(labelled.samples == 1 && labelled.skip_bad_lines);
    zr_config_destroy(&c);
    c = load("{\"model\": {\"type\": \"bert\"}, \"data\": {\"max_predictions\": 5, \"max_samples\": 3,"
             " \"masked_lm_prob\": 0.25, \"short_seq_prob\": 0.5, \"whole_words\": true}}");
    zr__pairs_keys(c, &pairs);
    assert_true(pairs.predictions == 5 && pairs.samples == 3 && pairs.whole_words);
    assert_true(pairs.masked_lm_prob == 0.25 && pairs.short_seq_prob == 0.5);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        const zr_samples kind = kinds[k].kind;
        zr_layout l = {.seq = 128};
        zr__samples_layout(kind, c, &l);
        assert_int_equal(l.documents, kind != ZR_SAMPLES_NEXT);
        const bool masked = kind == ZR_SAMPLES_PAIRS || kind == ZR_SAMPLES_MASKED;
        assert_int_equal(l.predictions, masked ? 5 : kind == ZR_SAMPLES_TAGS ? 128 : 0);
        assert_int_equal(l.samples, kind == ZR_SAMPLES_NEXT ? 0 : 3);
    }
    zr_config_destroy(&c);
}

/* ---- samples and rows read ahead ------------------------------------------------------------------------ */

/* Check that rows that are made ahead are those that are read when they are wanted, and that counting keeps them. */
static void expect_same_rows(const char *config, zr_samples kind)
{
    zr_config *c = prepared("%s", config);
    const zr_profile profile = {0};
    zr_plan *plan = NULL;
    zr__samples direct, ahead;
    zr__rows_ahead *rows = NULL;
    int64_t bytes = 0;
    if (zr__train_plan(c, 1, -1, &profile, &plan) != ZR_OK) fail_msg("%s", zr_error_message());
    if (zr__samples_open(c, false, true, NULL, NULL, &direct) != ZR_OK ||
        zr__samples_open(c, false, true, NULL, NULL, &ahead) != ZR_OK)
        fail_msg("%s", zr_error_message());
    assert_int_equal(direct.kind, kind);
    assert_true(zr__samples_are_open(&direct));
    const int32_t inputs = zr_graph_inputs(plan->graph[ZR_SCHEDULE_TRAIN]);
    const int64_t batch = plan->layout.batch, most = zr__rows_ahead_room(plan, &bytes);
    int64_t row_bytes = 0, width[8];
    for (int32_t i = 0; i < inputs; i++) {
        const zr_graph *graph = plan->graph[ZR_SCHEDULE_TRAIN];
        width[i] = zr_shape_elems(&zr_graph_value(graph, zr_graph_input(graph, i))->type.shape) / batch;
        row_bytes += width[i] * (int64_t)sizeof(int32_t);
    }
    assert_int_equal(most, batch);
    assert_int_equal(bytes, batch * row_bytes);
    assert_int_equal(zr__rows_ahead_create(&ahead, plan, most, &rows), ZR_OK);
    zr__rows_ahead_want(rows, 1, 3);
    int32_t *mine[8], *its[8];
    for (int32_t i = 0; i < inputs; i++) {
        mine[i] = calloc((size_t)(batch * width[i]), sizeof(int32_t));
        its[i] = calloc((size_t)(batch * width[i]), sizeof(int32_t));
    }
    for (int64_t step = 0; step < 3; step++) {
        for (int64_t r = 0; r < batch; r++) {
            const int64_t index = 1 + 3 * step + r;
            int64_t left[2] = {0}, counted[2] = {0};
            const zr__row row = zr__row_at(kind, &plan->layout, r, (void *const *)mine);
            assert_int_equal(zr__samples_read(&direct, index, &row), ZR_OK);
            zr__row_count(&plan->layout, &row, counted);
            assert_int_equal(zr__rows_ahead_count(rows, index, left), ZR_OK);
            assert_memory_equal(left, counted, sizeof(left));
            assert_int_equal(zr__rows_ahead_read(rows, index, r, (void *const *)its), ZR_OK);
        }
        for (int32_t i = 0; i < inputs; i++)
            assert_memory_equal(its[i], mine[i], (size_t)(batch * width[i]) * sizeof(int32_t));
    }
    for (int32_t i = 0; i < inputs; i++) {
        free(mine[i]);
        free(its[i]);
    }
    zr__rows_ahead_destroy(&rows);
    zr__rows_ahead_destroy(&rows);
    zr__samples_close(&direct);
    zr__samples_close(&ahead);
    assert_false(zr__samples_are_open(&direct));
    zr_plan_destroy(&plan);
    zr_config_destroy(&c);
}

static void rows_made_ahead_are_the_rows(void **state)
{
    (void)state;
    char text[2000], config[2048];
    for (size_t i = 0; i < sizeof(text); i++) text[i] = (char)('a' + i * i % 23);
    put_file("text", text, sizeof(text));
    snprintf(config, sizeof(config),
             "{\"model\": {\"n_layer\": 1, \"n_head\": 1, \"n_embd\": 8, \"n_positions\": 16}, \"device\": \"cpu\","
             " \"train_micro_batch_size_per_gpu\": 3,"
             " \"data\": {\"train\": \"%s/text\", \"tokenizer\": \"bytes\", \"seq_length\": 16}}",
             tempdir);
    expect_same_rows(config, ZR_SAMPLES_NEXT);
    snprintf(config, sizeof(config),
             "{\"model\": {\"type\": \"bert\", \"task\": \"sequence_classification\", \"num_hidden_layers\": 1,"
             " \"num_attention_heads\": 1, \"hidden_size\": 8, \"max_position_embeddings\": 32, \"vocab_size\": 155},"
             " \"device\": \"cpu\", \"train_micro_batch_size_per_gpu\": 3,"
             " \"data\": {\"train\": \"%s\", \"tokenizer\": \"%s\", \"seq_length\": 32, \"max_samples\": 2}}",
             write_file("numbers.jsonl", "{\"text\": \"the\", \"label\": 0}\n{\"text\": \"the the\", \"label\": 1}\n"
                                         "{\"text\": \"the the the\", \"label\": 0}\n"),
             in_squad(""));
    expect_same_rows(config, ZR_SAMPLES_LABELS);
}

/* Check the memory of the rows of a step with two loss terms, which are counted before it. */
static void rows_of_a_step_are_bounded(void **state)
{
    (void)state;
    static const int64_t accum[] = {1, 4, 100000};
    const zr_profile profile = {0};
    for (int i = 0; i < 3; i++) {
        zr_config *c = prepared("{\"model\": {\"type\": \"bert\", \"num_hidden_layers\": 1, \"num_attention_heads\": 1,"
                                " \"hidden_size\": 8, \"max_position_embeddings\": 32, \"vocab_size\": 155},"
                                " \"device\": \"cpu\", \"train_micro_batch_size_per_gpu\": 3,"
                                " \"data\": {\"seq_length\": 32, \"max_predictions\": 5, \"max_samples\": 2}}");
        zr_plan *plan = NULL;
        int64_t bytes = 0;
        if (zr__train_plan(c, 1, -1, &profile, &plan) != ZR_OK) fail_msg("%s", zr_error_message());
        plan->layout.accum = accum[i];
        const int64_t row = (3 * 32 + 2 * 5 + 2 * 2) * 4, rows = i < 2 ? 3 * accum[i] : 0; /* 132 MB are too many */
        assert_int_equal(zr__rows_ahead_room(plan, &bytes), rows);
        assert_int_equal(bytes, rows * row);
        zr_plan_destroy(&plan);
        zr_config_destroy(&c);
    }
}

static void facts_of_samples_are_told(void **state)
{
    (void)state;
    char text[2000];
    zr__samples samples = {.kind = ZR_SAMPLES_NEXT};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof(text); i++) text[i] = (char)('a' + i * i % 23);
    put_file("text", text, sizeof(text));
    zr_config *c = prepared("{\"model\": {\"n_layer\": 1, \"n_head\": 1, \"n_embd\": 8, \"n_positions\": 16},"
                            " \"data\": {\"train\": \"%s/text\", \"tokenizer\": \"bytes\", \"cache_dir\": \"%s/own\"}}",
                            tempdir, tempdir);
    zr_data_args args = {0};
    zr__data_keys(c, &args);
    assert_string_equal(args.cache_dir, c->data.cache_dir);
    assert_string_equal(args.tokenizer, "bytes");
    assert_int_equal(zr__samples_open(c, false, true, NULL, NULL, &samples), ZR_OK);
    assert_int_equal(zr__samples_info(&samples).tokens, 2000);
    assert_int_equal(zr__samples_memory_bytes(&samples), 0);
    assert_false(zr__samples_take_time(&samples));
    assert_int_equal(zr__samples_check(&samples, &hash, NULL, NULL), ZR_OK);
    assert_true(hash != 0);
    zr__samples_close(&samples);
    zr_config_destroy(&c);

    /* texts of encoders: the cache is in the folder that is named */
    static const char *const words[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "old", "bridge"};
    (void)mkdir(in_tempdir("words"), 0777);
    FILE *f = fopen(in_tempdir("words/vocab.txt"), "w");
    for (int i = 0; i < 8; i++) fprintf(f, "%s\n", words[i]);
    fclose(f);
    const char *const cased = "{\"tokenizer_class\": \"BertTokenizer\", \"do_lower_case\": true}";
    put_file("words/tokenizer_config.json", cased, strlen(cased));
    put_file("pairs.txt", "the old\nbridge\n\nold\nthe bridge\n", strlen("the old\nbridge\n\nold\nthe bridge\n"));
    c = prepared("{\"model\": {\"type\": \"bert\", \"num_hidden_layers\": 1, \"num_attention_heads\": 1,"
                 " \"hidden_size\": 8, \"max_position_embeddings\": 32, \"vocab_size\": 8},"
                 " \"data\": {\"train\": \"%s/pairs.txt\", \"tokenizer\": \"%s/words\", \"cache_dir\": \"%s/pairs\"}}",
                 tempdir, tempdir, tempdir);
    assert_int_equal(access(in_tempdir("pairs"), F_OK), -1);
    if (zr__samples_open(c, false, true, NULL, NULL, &samples) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_int_equal(access(in_tempdir("pairs"), F_OK), 0);
    assert_int_equal(samples.kind, ZR_SAMPLES_PAIRS);
    const zr_data_info info = zr__samples_info(&samples);
    assert_true(info.documents == 2 && info.tokens == 6 && info.sources == 1 && info.files == 1);
    assert_string_equal(info.format, "text");
    assert_true(info.windows == info.epoch_samples && info.windows > 0);
    assert_int_equal(zr__samples_memory_bytes(&samples), zr_pairs_get_info(samples.pairs).memory_bytes);
    assert_true(zr__samples_take_time(&samples)); /* samples are made of sentences */
    zr__samples_close(&samples);
    zr_config_destroy(&c);
}
static void all_memory_is_freed(void **state)
{
    (void)state;
    assert_int_equal(alloc_live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_the_arrays_of_their_kind), cmocka_unit_test(sizes_of_rows_follow_from_keys),
        cmocka_unit_test(rows_made_ahead_are_the_rows),       cmocka_unit_test(rows_of_a_step_are_bounded),
        cmocka_unit_test(facts_of_samples_are_told),          cmocka_unit_test(all_memory_is_freed),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
