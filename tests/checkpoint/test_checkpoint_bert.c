//TEST timeout=20
/* Directories of BERT as different programs write them: names without the prefix, with the norms' names of TensorFlow,
 * with the decoder and its bias a second time and with position ids give the same model; the class and the labels of
 * config.json give the task; contradictions are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/golden.h"
#include "support/tempdir.h"
#include "base/text/text.h"
#include "checkpoint/checkpoint.h"
#include "zr/checkpoint.h"

#include <sys/stat.h>

enum { TENSORS_MOST = 64, NAME_BYTES = 128 };

static struct {
    zr_safetensors *from;
    const zr_family *family;
    zr_model_config config;
    zr__tensor_spec want[TENSORS_MOST];
    int64_t n;
} own;

/* Open the trace's model, and list the tensors that its graph wants. */
static void open_own(void)
{
    char dir[GOLDEN_DIR_BYTES], path[GOLDEN_DIR_BYTES + 40];
    snprintf(path, sizeof path, "%s/model", golden_own_dir("bert-odd", dir));
    if (zr_hf_read(path, &own.family, &own.config) != ZR_OK) fail_msg("%s", zr_error_message());
    snprintf(path, sizeof path, "%s/model/model.safetensors", dir);
    assert_int_equal(zr_safetensors_open(path, &own.from), ZR_OK);
    own.n = zr_safetensors_count(own.from);
    assert_true(own.n <= TENSORS_MOST);
    for (int64_t i = 0; i < own.n; i++) {
        const zr_safetensors_tensor *t = zr_safetensors_get(own.from, i);
        own.want[i] = (zr__tensor_spec){.name = t->name, .shape = {.ndim = t->ndim}};
        for (int d = 0; d < t->ndim; d++) own.want[i].shape.dim[d] = t->dim[d];
    }
}

/* A way to write the model. */
typedef struct form {
    bool bare;            /* names without "bert." */
    bool old;             /* gamma and beta */
    const char *bias;     /* name of the decoder's bias */
    const char *again[2]; /* a tensor and its second copy, by their names */
    float off;            /* added to the first element of the second copy */
    const char *more;     /* a further tensor, of zeros */
    const char *missing;  /* a tensor that is left out */
} form;

static void replace(char name[NAME_BYTES], const char *end, const char *by)
{
    if (zr__text_ends(name, end)) snprintf(name + strlen(name) - strlen(end), strlen(by) + 1, "%s", by);
}

static const char *spell(const form *f, const char *name, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "%s", f->bare && strncmp(name, "bert.", 5) == 0 ? name + 5 : name);
    if (f->old) replace(out, "LayerNorm.weight", "LayerNorm.gamma");
    if (f->old) replace(out, "LayerNorm.bias", "LayerNorm.beta");
    if (f->bias) replace(out, "cls.predictions.bias", f->bias);
    return out;
}

static void write_form(const form *f)
{
    static char name[TENSORS_MOST + 2][NAME_BYTES];
    zr__tensor_spec spec[TENSORS_MOST + 2];
    const char *source[TENSORS_MOST + 2];
    int64_t n = 0;
    for (int64_t i = 0; i < own.n; i++) {
        if (f->missing && strcmp(own.want[i].name, f->missing) == 0) continue;
        spec[n] = (zr__tensor_spec){spell(f, own.want[i].name, name[n]), own.want[i].shape};
        source[n++] = own.want[i].name;
        if (!f->again[0] || strcmp(own.want[i].name, f->again[0]) != 0) continue;
        spec[n] = (zr__tensor_spec){f->again[1], own.want[i].shape};
        source[n++] = own.want[i].name;
    }
    if (f->more) {
        spec[n] = (zr__tensor_spec){f->more, {2, {1, 48}}};
        source[n++] = NULL;
    }
    (void)mkdir(in_tempdir("d"), 0700);
    (void)remove(in_tempdir("d/model.safetensors"));
    assert_int_equal(zr__safetensors_create(in_tempdir("d/model.safetensors"), NULL, spec, n), ZR_OK);
    zr_safetensors *to = NULL;
    assert_int_equal(zr__safetensors_attach(in_tempdir("d/model.safetensors"), &to), ZR_OK);
    for (int64_t i = 0; i < n; i++) {
        static float value[4096];
        const zr_safetensors_tensor *at = zr_safetensors_find(to, spec[i].name);
        assert_true(at->elems <= 4096);
        if (!source[i]) continue;
        assert_int_equal(
            zr_safetensors_read_f32(own.from, zr_safetensors_find(own.from, source[i]), 0, at->elems, value), ZR_OK);
        if (f->again[1] && strcmp(spec[i].name, f->again[1]) == 0) value[0] += f->off;
        assert_int_equal(zr__safetensors_write(to, at, 0, at->elems, value), ZR_OK);
    }
    zr_safetensors_close(&to);
}

#define TABLE "bert.embeddings.word_embeddings.weight"
static const struct {
    form form;
    /* expected error message, or NULL; expected part of the note on unknown tensors, or NULL */
    const char *told, *note;
} forms[] = {
    {{0}, NULL, NULL},
    {{.bare = true}, NULL, NULL},
    {{.old = true}, NULL, NULL},
    {{.old = true, .bare = true, .bias = "cls.predictions.decoder.bias"}, NULL, NULL},
    {{.again = {"cls.predictions.bias", "cls.predictions.decoder.bias"}}, NULL, NULL},
    {{.again = {TABLE, "cls.predictions.decoder.weight"}}, NULL, NULL},
    {{.more = "bert.embeddings.position_ids"}, NULL, NULL},
    {{.bare = true, .more = "embeddings.position_ids"}, NULL, NULL},
    {{.more = "bert.embeddings.LayerNorm.delta"}, NULL, "LayerNorm.delta"},
    {{.again = {"cls.predictions.bias", "cls.predictions.decoder.bias"}, .off = 1},
     "cls.predictions.bias and cls.predictions.decoder.bias differ, but in the model they are one; keep the right one",
     NULL},
    {{.again = {TABLE, "cls.predictions.decoder.weight"}, .off = 1},
     "cls.predictions.decoder.weight and " TABLE " differ, but in the model they are one",
     NULL},
    {{.again = {"bert.embeddings.LayerNorm.bias", "bert.embeddings.LayerNorm.beta"}, .off = 1},
     "bert.embeddings.LayerNorm.bias and bert.embeddings.LayerNorm.beta differ",
     NULL},
    {{.missing = "bert.pooler.dense.bias"}, "bert.pooler.dense.bias: missing; expected shape (15)", NULL},
    {{.missing = "bert.pooler.dense.bias"}, "have the body of the model, but not this head", NULL},
    {{.old = true, .missing = "bert.embeddings.LayerNorm.bias"}, "bert.embeddings.LayerNorm.bias: missing", NULL},
};

/* Check that each tensor has the trace's values. */
static void check_values(const zr_weights *weights)
{
    static float got[4096], want[4096];
    for (int64_t i = 0; i < own.n; i++) {
        const zr_safetensors_tensor *t = zr_safetensors_find(own.from, own.want[i].name);
        assert_int_equal(zr_weights_read(weights, own.want[i].name, 0, t->elems, got), ZR_OK);
        assert_int_equal(zr_safetensors_read_f32(own.from, t, 0, t->elems, want), ZR_OK);
        assert_memory_equal(got, want, (size_t)t->elems * sizeof *got);
    }
}

static void test_forms(void **state)
{
    (void)state;
    open_own();
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char note[1024] = "";
        zr_weights *weights = NULL;
        write_form(&forms[i].form);
        if (zr_weights_open(in_tempdir("d"), &own.family->names, &weights) != ZR_OK)
            fail_msg("%zu: %s", i, zr_error_message());
        const zr_status st = zr__weights_check(weights, own.want, own.n, note, sizeof note);
        if (forms[i].told) {
            if (st != ZR_ERR_DATA || !strstr(zr_error_message(), forms[i].told))
                fail_msg("%zu: %d, %s", i, st, zr_error_message());
        } else {
            if (st != ZR_OK) fail_msg("%zu: %s", i, zr_error_message());
            check_values(weights);
            if (forms[i].note ? !strstr(note, forms[i].note) : *note != 0) fail_msg("%zu: note %s", i, note);
        }
        zr_weights_close(&weights);
    }
    zr_safetensors_close(&own.from);
}

/* ---- tasks ------------------------------------------------------------------------------------- */

#define CLASSIFIES "\"architectures\": [\"BertForSequenceClassification\"]"
#define ANSWERS "\"architectures\": [\"BertForQuestionAnswering\"]"
static const struct {
    const char *type, *members; /* model_type and further members of config.json */
    int samples;
    int64_t labels;
    const char *told; /* expected error message, or NULL */
} tasks[] = {
    {"bert", "\"architectures\": [\"BertForPreTraining\"]", ZR_SAMPLES_PAIRS, 0, NULL},
    {"bert", "\"architectures\": [\"BertForMaskedLM\"]", ZR_SAMPLES_MASKED, 0, NULL},
    {"bert",
     "\"architectures\": [\"BertForTokenClassification\"], \"id2label\": {\"0\": \"O\", \"1\": \"B\", \"2\": \"I\"}",
     ZR_SAMPLES_TAGS, 3, NULL},
    {"bert-preln", "\"architectures\": [\"BertPreLNForTokenClassification\"], \"num_labels\": 4", ZR_SAMPLES_TAGS, 4,
     NULL},
    {"bert", "\"architectures\": [\"BertModel\"], \"num_labels\": 1", ZR_SAMPLES_PAIRS, 0, NULL},
    {"bert", "\"architectures\": null", ZR_SAMPLES_PAIRS, 0, NULL},
    {"bert", ANSWERS, ZR_SAMPLES_ANSWERS, 0, NULL},
    {"bert", ANSWERS ", \"id2label\": {\"0\": \"a\"}", ZR_SAMPLES_ANSWERS, 0, NULL},
    {"bert", CLASSIFIES, ZR_SAMPLES_LABELS, 2, NULL},
    {"bert", CLASSIFIES ", \"num_labels\": 4", ZR_SAMPLES_LABELS, 4, NULL},
    {"bert", CLASSIFIES ", \"num_labels\": null, \"id2label\": {\"1\": \"a\", \"0\": \"b\", \"2\": \"A\"}",
     ZR_SAMPLES_LABELS, 3, NULL},
    {"bert-preln", "\"architectures\": [\"BertPreLNForSequenceClassification\"], \"num_labels\": 3", ZR_SAMPLES_LABELS,
     3, NULL},
    {"bert-preln", "\"architectures\": [\"BertPreLNForQuestionAnswering\"]", ZR_SAMPLES_ANSWERS, 0, NULL},
    {"bert-preln", "\"architectures\": [\"BertPreLNForPreTraining\"]", ZR_SAMPLES_PAIRS, 0, NULL},
    {"bert-preln", CLASSIFIES, 0, 0,
     "architectures is BertForSequenceClassification; wanted BertPreLNForPreTraining, "
     "BertPreLNForSequenceClassification, BertPreLNForQuestionAnswering, BertPreLNForMaskedLM or "
     "BertPreLNForTokenClassification"},
    {"bert", "\"architectures\": [\"BertForMultipleChoice\"]", 0, 0,
     "architectures is BertForMultipleChoice; wanted BertForPreTraining, BertForSequenceClassification, "
     "BertForQuestionAnswering, BertForMaskedLM or BertForTokenClassification"},
    {"roberta", "\"architectures\": [\"RobertaForMaskedLM\"]", 0, 0, "model_type is \"roberta\"; expected \"gpt2\""},
    {"roberta", "\"architectures\": [\"RobertaForMaskedLM\"]", 0, 0,
     "RoBERTa is not read as BERT, since its positions"},
    {"xlm-roberta", "\"architectures\": null", 0, 0, "its tokens are of SentencePiece"},
    {"distilbert", "\"architectures\": null", 0, 0, "DistilBERT is not read as BERT, since it has no segments"},
    {"bert", CLASSIFIES ", \"num_labels\": 1", 0, 0, "the number of labels is 1 (num_labels)"},
    {"bert", CLASSIFIES ", \"num_labels\": 2.5", 0, 0, "num_labels is not an integer"},
    {"bert", CLASSIFIES ", \"id2label\": {\"0\": \"a\"}", 0, 0, "the number of labels is 1 (id2label)"},
    {"bert", CLASSIFIES ", \"id2label\": {\"0\": \"a\", \"2\": \"b\"}", 0, 0,
     "id2label has 2 members, but no name for label 1"},
    {"bert", CLASSIFIES ", \"id2label\": {\"0\": \"a\", \"1\": 2}", 0, 0, "no name for label 1"},
    {"bert", CLASSIFIES ", \"id2label\": [\"a\", \"b\"]", 0, 0, "id2label is not an object"},
    {"bert", CLASSIFIES ", \"id2label\": {\"0\": \"yes\", \"1\": \"no\", \"2\": \"yes\"}", 0, 0,
     "d/config.json: id2label has the name yes for label 0 and for label 2; give each label a name of its own"},
};

static void test_tasks(void **state)
{
    (void)state;
    (void)mkdir(in_tempdir("d"), 0700);
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        const zr_family *family = NULL;
        zr_model_config config;
        FILE *file = fopen(in_tempdir("d/config.json"), "w");
        assert_non_null(file);
        fprintf(file,
                "{\"model_type\": \"%s\", \"hidden_size\": 8, \"num_attention_heads\": 2, \"num_hidden_layers\": 1, "
                "\"intermediate_size\": 16, \"max_position_embeddings\": 16, \"vocab_size\": 30, %s}",
                tasks[i].type, tasks[i].members);
        assert_int_equal(fclose(file), 0);
        const zr_status st = zr_hf_read(in_tempdir("d"), &family, &config);
        if (tasks[i].told) {
            if (st != ZR_ERR_DATA || !strstr(zr_error_message(), tasks[i].told))
                fail_msg("%zu: %d, %s", i, st, zr_error_message());
            continue;
        }
        if (st != ZR_OK) fail_msg("%zu: %s", i, zr_error_message());
        const zr_samples samples = zr_family_samples(family, &config);
        int64_t labels = 0;
        if (samples == ZR_SAMPLES_LABELS || samples == ZR_SAMPLES_TAGS)
            memcpy(&labels, config.bytes + zr_family_meaning(family, "labels")->offset, sizeof labels);
        if ((int)samples != tasks[i].samples || labels != tasks[i].labels)
            fail_msg("%zu: %s is a task of samples %d with %lld labels", i, tasks[i].members, (int)samples,
                     (long long)labels);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms), cmocka_unit_test(test_tasks)};
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
