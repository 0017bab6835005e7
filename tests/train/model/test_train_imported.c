//TEST timeout=60
/* Imported weights: a Hugging Face directory whose losses and choices are known by formula. Evaluation, training and
 * the weights that training writes use its epsilon of the norms; among equally likely tokens the first are kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/hf_make.h"
#include "zr/checkpoint.h"
#include "zr/comm.h"
#include "zr/config.h"
#include "zr/run.h"

#include <math.h>

enum { C = 4, V = 256, T = 8, THE_TOKEN = 97 };

/* ---- the directory ------------------------------------------------------------------------------ */

/* Write a model whose weights are zero except for the table and the last norm, so that the norm's input is the token's
 * row of the table. */
static void write_model(const char *name, double epsilon, const float *table, const float *gain, const float *bias)
{
    const zr_gpt2_config hf = {1, 1, C, T, V, 0, 0, 0, epsilon, 0.02};
    const hf_tensor known[] = {
        {"transformer.wte.weight", table}, {"transformer.ln_f.weight", gain}, {"transformer.ln_f.bias", bias}};
    hf_make(name, &hf, known, 3);
}

/* ---- epsilon ------------------------------------------------------------------------------------ */

static float table[V][C];

static void fill_table(void)
{
    const zr_rng rng = {.seed = 3};
    for (int i = 0; i < V * C; i++) table[i / C][i % C] = (float)(zr_rng_uniform(&rng, (uint64_t)i) - 0.5);
}

/* Return the loss of predicting the token after itself, with gains of 1. */
static double loss_with(double epsilon)
{
    double mean = 0, square = 0, sum = 0, logit = 0;
    for (int c = 0; c < C; c++) mean += table[THE_TOKEN][c] / (double)C;
    for (int c = 0; c < C; c++) square += pow(table[THE_TOKEN][c] - mean, 2) / C;
    for (int v = 0; v < V; v++) {
        double dot = 0;
        for (int c = 0; c < C; c++) dot += (table[THE_TOKEN][c] - mean) / sqrt(square + epsilon) * table[v][c];
        sum += exp(dot);
        if (v == THE_TOKEN) logit = dot;
    }
    return log(sum) - logit;
}

static void expect_eval(const char *dir, double epsilon)
{
    const zr_eval_args args = {.data = in_tempdir("text"), .threads = 1};
    zr_eval_result result = {0};
    if (zr_eval_dir(in_tempdir(dir), &args, &result) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_float_equal(result.loss, loss_with(epsilon), 1e-5);
}

typedef struct job {
    zr_config *config;
    double loss; /* loss of the first step */
} job;

static void on_step(void *arg, const zr_train_step *step)
{
    ((job *)arg)->loss = step->loss;
}

static zr_status train(zr_comm *comm, void *arg)
{
    zr_train_result result = {0};
    const zr_observer observer = {.arg = arg, .step = on_step};
    return zr_train_run(((job *)arg)->config, comm, &observer, &result);
}

/* Check the loss of one training step, with rate 0, from the directory's weights. */
static void expect_trained(const char *key, double epsilon)
{
    char text[2048];
    job j = {0};
    snprintf(text, sizeof text,
             "{\"model\": {\"init\": \"%s/imported\"}, \"data\": {\"train\": \"%s/text\", \"tokenizer\": \"bytes\"},"
             " \"optimizer\": {\"params\": {\"lr\": 0}}, \"train\": {\"steps\": 1, \"eval_interval\": 0,"
             " \"threads\": 1, \"output_dir\": \"%s/run\"}}",
             tempdir, tempdir, tempdir);
    nftw(in_tempdir("run"), tempdir_unlink, 8, FTW_DEPTH | FTW_PHYS);
    if (zr_config_parse(text, strlen(text), "c.json", &key, key ? 1 : 0, &j.config) != ZR_OK ||
        zr_train_prepare(j.config, 1, 0) != ZR_OK || zr_comm_threads_run(1, train, &j) != ZR_OK)
        fail_msg("%s", zr_error_message());
    zr_config_destroy(&j.config);
    assert_float_equal(j.loss, loss_with(epsilon), 1e-5);
    expect_eval("run", epsilon); /* with the weights that training has written */
}

static void test_epsilon_of_an_imported_model(void **state)
{
    (void)state;
    const float ones[C] = {1, 1, 1, 1}, zeros[C] = {0};
    char text[40 * T];
    memset(text, THE_TOKEN, sizeof text);
    put_file("text", text, sizeof text);
    fill_table();
    assert_true(fabs(loss_with(0.2) - loss_with(1e-5)) > 0.01); /* the difference is visible */
    const double epsilon[] = {1e-5, 0.2, 0.7};
    for (int i = 0; i < 3; i++) {
        write_model("imported", epsilon[i], &table[0][0], ones, zeros);
        expect_eval("imported", epsilon[i]);
        expect_trained(NULL, epsilon[i]);
        expect_trained("model.layer_norm_epsilon=0.1", 0.1); /* epsilon from the key */
    }
}

/* ---- dropout ------------------------------------------------------------------------------------ */

/* Read a dropout probability of a model by its key. */
static double dropout_of(const zr_config *config, const char *key)
{
    const zr_field *field = zr_family_field(config->model.family, key);
    double rate;
    assert_non_null(field);
    memcpy(&rate, config->model.config.bytes + field->offset, sizeof rate);
    return rate;
}

/* A directory whose config.json has these members, a key of the configuration, the resulting dropout and the note, in
 * which @ stands for the directory. */
typedef struct dropped {
    const char *members, *key;
    struct {
        const char *key;
        double rate;
    } wanted[3];
    const char *note;
} dropped;

#define GPT2 "\"model_type\": \"gpt2\", \"n_head\": 2, \"n_embd\": 8"
#define BERT                                                                                                           \
    "\"model_type\": \"bert\", \"num_attention_heads\": 2, \"hidden_size\": 8, \"num_hidden_layers\": 1, "             \
    "\"intermediate_size\": 8"
#define PDROP(embd, resid, attn)                                                                                       \
    {                                                                                                                  \
        {"embd_pdrop", embd}, {"resid_pdrop", resid},                                                                  \
        {                                                                                                              \
            "attn_pdrop", attn                                                                                         \
        }                                                                                                              \
    }
#define PROB(hidden, attention)                                                                                        \
    {                                                                                                                  \
        {"hidden_dropout_prob", hidden},                                                                               \
        {                                                                                                              \
            "attention_probs_dropout_prob", attention                                                                  \
        }                                                                                                              \
    }
static const dropped directories[] = {
    {GPT2 ", \"embd_pdrop\": 0.0, \"resid_pdrop\": 0.0, \"attn_pdrop\": 0.0", NULL, PDROP(0, 0, 0), ""},
    {GPT2, NULL, PDROP(0.1, 0.1, 0.1),
     "model.embd_pdrop 0.1, model.resid_pdrop 0.1, model.attn_pdrop 0.1, the default of transformers, since "
     "@/config.json lacks it; "},
    {GPT2 ", \"embd_pdrop\": 0, \"resid_pdrop\": 0.2", NULL, PDROP(0, 0.2, 0.1),
     "model.resid_pdrop 0.2, from @; model.attn_pdrop 0.1, the default of transformers, since @/config.json lacks "
     "it; "},
    {GPT2, "model.dropout=0", PDROP(0, 0, 0), ""},
    {GPT2 ", \"attn_pdrop\": 0.2", "model.dropout=0.3", PDROP(0.3, 0.3, 0.3), ""},
    {GPT2 ", \"embd_pdrop\": 0.2, \"resid_pdrop\": 0.2, \"attn_pdrop\": 0.2", "model.attn_pdrop=0.3",
     PDROP(0.2, 0.2, 0.3), "model.embd_pdrop 0.2, model.resid_pdrop 0.2, from @; "},
    {GPT2 ", \"attn_pdrop\": 0.2, \"embd_pdrop\": 0, \"resid_pdrop\": 0", "model.attn_pdrop=auto", PDROP(0, 0, 0.2),
     "model.attn_pdrop 0.2, from @; "},
    {BERT ", \"hidden_dropout_prob\": 0.0, \"attention_probs_dropout_prob\": 0.0", NULL, PROB(0, 0), ""},
    {BERT, NULL, PROB(0.1, 0.1),
     "model.hidden_dropout_prob 0.1, model.attention_probs_dropout_prob 0.1, the default of transformers, since "
     "@/config.json lacks it; "},
    {BERT ", \"hidden_dropout_prob\": 0.2, \"attention_probs_dropout_prob\": 0.3, \"classifier_dropout\": 0.4",
     "model.hidden_dropout_prob=0", PROB(0, 0.3), "model.attention_probs_dropout_prob 0.3, from @; "},
    {BERT ", \"hidden_dropout_prob\": 0, \"attention_probs_dropout_prob\": 0, \"classifier_dropout\": 0.4, "
          "\"architectures\": [\"BertForSequenceClassification\"]",
     "model.task=sequence_classification",
     {{"hidden_dropout_prob", 0}, {"classifier_dropout", 0.4}},
     "model.classifier_dropout 0.4, from @; "},
    {"\"model_type\": \"llama\", \"attention_dropout\": 0.25",
     NULL,
     {{"attention_dropout", 0.25}},
     "model.attention_dropout 0.25, from @; "},
    {"\"model_type\": \"llama\", \"attention_dropout\": 0.25",
     "model.attention_dropout=0",
     {{"attention_dropout", 0}},
     ""},
    {"\"model_type\": \"qwen3\"", NULL, {{"attention_dropout", 0}}, ""},
};

/* Write a note with the directory in place of @. */
static void name_directory(const char *note, char *out, size_t bytes)
{
    size_t n = (size_t)snprintf(out, bytes, "dropout: ");
    for (; *note; note++)
        n += (size_t)snprintf(out + n, bytes - n, *note == '@' ? "%s/dropped" : "%.1s", *note == '@' ? tempdir : note);
    snprintf(out + n, bytes - n, "0 for these keys trains without");
}

/* Check the dropout of a configuration, and its note; "": no note. */
static void expect_dropout_of(const char *text, const char *key, const dropped *row, const char *note)
{
    char want[2048];
    zr_config *config = NULL;
    if (zr_config_parse(text, strlen(text), "c.json", &key, key ? 1 : 0, &config) != ZR_OK ||
        zr_train_prepare(config, 1, 0) != ZR_OK)
        fail_msg("%s", zr_error_message());
    for (int i = 0; i < 3 && row->wanted[i].key; i++)
        assert_true(dropout_of(config, row->wanted[i].key) == row->wanted[i].rate);
    name_directory(note, want, sizeof want);
    int found = 0;
    for (int i = 0; i < zr_config_notes(config); i++) {
        if (strncmp(zr_config_note(config, i), "dropout", strlen("dropout")) != 0) continue;
        assert_string_equal(zr_config_note(config, i), want);
        found++;
    }
    assert_int_equal(found, note[0] ? 1 : 0);
    if (row->note == note && note[0]) {
        char *own = NULL; /* as in the run's own config.json, from which it is resumed */
        assert_int_equal(zr_config_to_json(config, &own), ZR_OK);
        expect_dropout_of(own, NULL, row, "");
        zr_free(own);
    }
    zr_config_destroy(&config);
}

static void expect_dropout(const dropped *row)
{
    char text[1024];
    snprintf(text, sizeof text, "{%s}", row->members);
    mkdir(in_tempdir("dropped"), 0777);
    put_file("dropped/config.json", text, strlen(text));
    snprintf(text, sizeof text, "{\"model\": {\"init\": \"%s/dropped\"}, \"train\": {\"output_dir\": \"none\"}}",
             tempdir);
    expect_dropout_of(text, row->key, row, row->note);
}

static void test_dropout_of_an_imported_model(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) expect_dropout(&directories[i]);
}

/* ---- equal logits ------------------------------------------------------------------------------- */

static zr_status count(void *arg, const char *text, int64_t bytes)
{
    assert_int_equal(bytes, 1);
    ((int *)arg)[(unsigned char)text[0]]++;
    return ZR_OK;
}

/* Draw 300 tokens among the k likeliest, and count each. */
static void draw(int64_t k, double temperature, int counts[V])
{
    const zr_generate_args args = {.prompt = "A",
                                   .prompt_bytes = 1,
                                   .tokens = 300,
                                   .temperature = temperature,
                                   .top_k = k,
                                   .seed = 11,
                                   .threads = 1};
    memset(counts, 0, sizeof(int) * V);
    if (zr_generate(in_tempdir("equals"), &args, count, counts) != ZR_OK) fail_msg("%s", zr_error_message());
}

static int kinds(const int counts[V])
{
    int n = 0;
    for (int v = 0; v < V; v++) n += counts[v] > 0;
    return n;
}

/* Check draws among equal logits. Logits do not depend on the token: 2 for B, 1 for D, M, X and Z, 0 for all others. */
static void test_equal_logits(void **state)
{
    (void)state;
    static float rows[V][C];
    const float zeros[C] = {0}, first[C] = {1};
    int counts[V];
    memset(rows, 0, sizeof rows);
    rows['B'][0] = 2;
    rows['D'][0] = rows['M'][0] = rows['X'][0] = rows['Z'][0] = 1;
    write_model("equals", 1e-5, &rows[0][0], zeros, first);
    draw(1, 1, counts);
    assert_int_equal(counts['B'], 300);
    draw(0, 0, counts); /* the likeliest token */
    assert_int_equal(counts['B'], 300);
    for (int64_t k = 2; k <= 5; k++) { /* the first of equally likely tokens */
        const int among[] = {'B', 'D', 'M', 'X', 'Z'};
        draw(k, 1, counts);
        assert_int_equal(kinds(counts), k);
        for (int64_t i = 0; i < k; i++) assert_true(counts[among[i]] > 0);
    }
    draw(7, 1, counts); /* two tokens with logit 0: the first two */
    assert_int_equal(kinds(counts), 7);
    assert_true(counts[0] > 0 && counts[1] > 0);
    draw(V, 1, counts);
    assert_true(kinds(counts) > 30);
    const double bad[] = {INFINITY, NAN, -1};
    for (int i = 0; i < 3; i++) {
        const zr_generate_args args = {
            .prompt = "A", .prompt_bytes = 1, .tokens = 1, .temperature = bad[i], .threads = 1};
        assert_int_equal(zr_generate(in_tempdir("equals"), &args, count, counts), ZR_ERR_ARG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epsilon_of_an_imported_model),
        cmocka_unit_test(test_dropout_of_an_imported_model),
        cmocka_unit_test(test_equal_logits),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
