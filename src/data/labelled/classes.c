#include "data/labelled/classes.h"

#include "base/core/grow.h"
#include "base/json/json.h"
#include "data/text/jsonl.h"
#include "data/text/kind.h"
#include "data/tokens/part.h"

#include <stdio.h>
#include <string.h>

enum { PART_BYTES = 1 << 20 };

/* Members of the records of labelled texts: the text, and the second text, which is optional in the first form. The
 * other forms are from GLUE's tasks. */
static const struct {
    const char *text, *pair;
    const char *shown, *members; /* for messages and notes */
} forms[] = {
    {"text", "text_pair", "{\"text\": TEXT, \"label\": LABEL}", NULL},
    {"sentence1", "sentence2", "{\"sentence1\": TEXT, \"sentence2\": TEXT, \"label\": LABEL}",
     "sentence1, sentence2, label"},
    {"question1", "question2", "{\"question1\": TEXT, \"question2\": TEXT, \"label\": LABEL}",
     "question1, question2, label"},
    {"premise", "hypothesis", "{\"premise\": TEXT, \"hypothesis\": TEXT, \"label\": LABEL}",
     "premise, hypothesis, label"},
    {"question", "sentence", "{\"question\": TEXT, \"sentence\": TEXT, \"label\": LABEL}", "question, sentence, label"},
    {"sentence", NULL, "{\"sentence\": TEXT, \"label\": LABEL}", "sentence, label"},
};
enum { FORMS = sizeof(forms) / sizeof(forms[0]) };

/* ---- one line -------------------------------------------------------------------------------- */

/* Return the form of a record: the first one whose members it has. */
static int form_of(const json_t *root)
{
    for (int i = 0; i < FORMS; i++) {
        const bool pair = i == 0 || !forms[i].pair || json_object_get(root, forms[i].pair);
        if (json_object_get(root, forms[i].text) && pair) return i;
    }
    return 0;
}

/* Read a text. A text that may be missing may also be null. If the text is bad, write the reason. */
static const char *read_text(const json_t *root, int form, const char *key, bool may_miss, char *reason)
{
    char members[160];
    const json_t *value = json_object_get(root, key);
    const bool missing = !value || json_is_null(value);
    if (!json_is_string(value) && !(may_miss && missing))
        snprintf(reason, ZR__REASON_BYTES, "\"%s\" is %s; expected a text, as in %s%s: the record has %s", key,
                 value ? "not a text" : "missing", forms[form].shown,
                 form > 0 ? ", the form of the file's first record" : " or GLUE's members, such as \"sentence\"",
                 zr__jsonl_members(root, members, sizeof(members)));
    return json_string_value(value);
}

/* Read a label. If it is bad, write the reason. */
static int32_t read_label(const zr_labelled_args *args, const json_t *root, char *reason)
{
    const json_t *value = json_object_get(root, "label");
    const int32_t label = zr__label_of(args, value);
    if (label >= 0) return label;
    const bool unknown = json_is_integer(value) && json_integer_value(value) == -1;
    snprintf(reason, ZR__REASON_BYTES, "\"label\" is %s; expected an integer from 0 to %lld%s%s", ZR_JSON_SHOWN(value),
             (long long)args->labels - 1,
             args->label_names ? " or the name of a label of the model" : ", since the labels have no names",
             json_is_real(value) ? " (zr classifies, and computes no regression, as for STS-B)"
             : unknown           ? " (GLUE's test data have no labels)"
                                 : "");
    return -1;
}

void zr__labelled_shorten(int64_t most, int64_t *a, int64_t *b)
{
    if (*b == ZR__NO_TEXT) {
        *a = *a < most ? *a : most;
        return;
    }
    int64_t *shorter = *a > *b ? b : a, *longer = shorter == a ? b : a;
    if (*a + *b <= most) return;
    if (*shorter > most / 2) *shorter = most / 2;
    *longer = most - *shorter;
}

static zr_status add_sample(zr__class_reader *r, const char *text, const char *pair, int32_t label)
{
    zr__labelled_list *list = r->list;
    int64_t a = 0, b = ZR__NO_TEXT;
    ZR_TRY(zr__labelled_encode(list, text, (int64_t)strlen(text), &a));
    ZR_GROW(r->first, r->first_room, a, "tokens of a text");
    if (a > 0) memcpy(r->first, list->encoded, (size_t)a * sizeof(*r->first));
    if (pair) ZR_TRY(zr__labelled_encode(list, pair, (int64_t)strlen(pair), &b));
    const int64_t all = a + b;
    zr__labelled_shorten(r->args->seq_length - (pair ? 3 : 2), &a, &b);
    r->cut += a + b < all;
    const zr__labelled_sample sample = {.a = list->tokens,
                                        .b = list->tokens + a,
                                        .a_n = (int32_t)a,
                                        .b_n = (int32_t)b,
                                        .label = label,
                                        .begin = -1,
                                        .end = -1};
    ZR_TRY(zr__labelled_add_tokens(list, r->first, a));
    if (pair) ZR_TRY(zr__labelled_add_tokens(list, list->encoded, b));
    return zr__labelled_add(list, sample);
}

/* Read a record; a zr__record_fn. */
static zr_status read_record(const void *of, void *arg, const json_t *root, int64_t *bytes, char *reason)
{
    zr__class_reader *r = arg;
    (void)of;
    *bytes = 0;
    if (r->names) return zr__label_note(r->names, json_object_get(root, "label"));
    if (r->form < 0) r->form = form_of(root);
    const int form = r->form;
    const char *text = read_text(root, form, forms[form].text, false, reason), *second = forms[form].pair;
    const char *pair = reason[0] || !second ? NULL : read_text(root, form, second, form == 0, reason);
    const int32_t label = reason[0] ? -1 : read_label(r->args, root, reason);
    if (reason[0]) return ZR_OK;
    *bytes = 1 + (int64_t)strlen(text); /* a sample without text counts, too */
    if (!zr__part_has(&r->args->part, r->records++)) return ZR_OK;
    return add_sample(r, text, pair, label);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Find how the records of a file follow each other. A file without records is read as lines, and every line is bad. */
static zr_status find_shape(const zr__file *file, const char *path, zr__shape *shape)
{
    ZR_TRY(zr__data_refuse_kind(file, false));
    ZR_TRY(zr__shape_find(file, path, shape, NULL, 0));
    if (*shape == ZR__SHAPE_TEXT) *shape = ZR__SHAPE_LINES;
    return ZR_OK;
}

zr_status zr__classes_read(zr__class_reader *r, const zr__file *file, const char *path, zr__found_texts *found)
{
    zr__parts parts = {.file = file,
                       .usual_bytes = PART_BYTES,
                       .most_bytes = INT64_MAX,
                       .record = read_record,
                       .skip_bad_lines = r->args->skip_bad_lines,
                       .remedy = "use data.bad_lines \"skip\" to skip such records"};
    ZR_AUTO(zr__part_free) zr__part part = {0};
    r->form = -1;
    ZR_TRY(find_shape(file, path, &parts.shape));
    zr_status st = zr__parts_begin(&parts);
    while (st == ZR_OK && !parts.ended) {
        st = zr__part_read(&parts, &part);
        if (st == ZR_OK) zr__part_run(&parts, &part, NULL, r);
        if (st == ZR_OK) st = zr__part_take(&parts, &part, found);
        if (r->args->progress) r->args->progress(r->args->arg, zr__parts_done(&parts), file->bytes);
    }
    zr__parts_end(&parts);
    if (st == ZR_OK && r->form > 0) r->members = forms[r->form].members;
    return st;
}

void zr__class_reader_free(zr__class_reader *r)
{
    zr_free(r->first);
    r->first = NULL;
}
