#include "data/labelled/tags.h"

#include "base/json/json.h"
#include "base/text/text.h"
#include "data/files/stream.h"
#include "data/text/jsonl.h"
#include "data/text/kind.h"
#include "data/tokens/part.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FILE_BYTES = 1 << 30, PART_BYTES = 1 << 20, EXTRA = 2 }; /* EXTRA: the tokens [CLS] and [SEP] */

static const char wanted[] = "{\"tokens\": [WORD, ...], \"ner_tags\": [TAG, ...]}";

/* ---- sentences ------------------------------------------------------------------------------- */

static void begin_sentence(zr__tag_reader *r)
{
    r->sentence = (zr__labelled_sample){
        .a = r->list->tokens, .b_n = ZR__NO_TEXT, .label = -1, .begin = -1, .end = -1, .word = r->list->words};
}

/* Add a word. Its tag counts at its first token. A word without tokens, such as a control character, has no tag, and
 * tokens that do not fit into the row are cut off, as in transformers' run_ner. */
static zr_status add_word(zr__tag_reader *r, const char *word, int64_t bytes, int32_t tag)
{
    zr__labelled_sample *s = &r->sentence;
    const int64_t left = r->args->seq_length - EXTRA - s->a_n;
    int64_t n = 0;
    ZR_TRY(zr__labelled_encode(r->list, word, bytes, &n));
    if (n > 0 && left > 0) ZR_TRY(zr__labelled_add_word(r->list, (zr__labelled_word){s->a_n + 1, tag}));
    s->words += n > 0 && left > 0;
    s->cut |= n > left;
    if (n > left) n = left;
    s->a_n += (int32_t)n;
    return zr__labelled_add_tokens(r->list, r->list->encoded, n);
}

/* Add the sentence to the list, or take back its words if it belongs to another part of the data. */
static zr_status end_sentence(zr__tag_reader *r)
{
    const zr__labelled_sample *s = &r->sentence;
    if (s->a_n < 0) return ZR_OK;
    if (zr__part_has(&r->args->part, r->records++)) {
        ZR_TRY(zr__labelled_add(r->list, *s));
        r->cut += s->cut;
    } else {
        r->list->tokens = s->a;
        r->list->words = s->word;
    }
    r->sentence.a_n = -1;
    return ZR_OK;
}

/* ---- columns --------------------------------------------------------------------------------- */

/* A line of a file of columns. */
typedef struct columns_line {
    const char *word, *tag; /* first and last column */
    int64_t word_bytes, tag_bytes, columns;
} columns_line;

/* Divide a line at tabs if it has any, and otherwise at spaces. Spaces and tabs at its ends do not count. */
static columns_line divide(const char *line, int64_t n)
{
    columns_line out = {0};
    while (n > 0 && strchr(" \t\r", line[n - 1]) && line[n - 1]) n--;
    while (n > 0 && (*line == ' ' || *line == '\t')) line++, n--;
    const bool tabs = memchr(line, '\t', (size_t)n);
    for (int64_t at = 0, to; at < n; at = to + 1) {
        for (to = at; to < n && (tabs ? line[to] != '\t' : line[to] != ' ' && line[to] != '\t');) to++;
        if (to == at) continue; /* several spaces */
        if (out.columns++ == 0) {
            out.word = line + at;
            out.word_bytes = to - at;
        }
        out.tag = line + at;
        out.tag_bytes = to - at;
    }
    return out;
}

static zr_status refuse_columns(const zr__tag_reader *r, const char *path, int64_t number, const columns_line *line)
{
    char word[64], text[48];
    snprintf(text, sizeof(text), "%.*s", (int)(line->word_bytes < 40 ? line->word_bytes : 40), line->word);
    zr__text_escape(text, word, sizeof(word));
    ZR_CHECK(line->columns >= 2, ZR_ERR_DATA,
             "%s:%" PRId64 ": \"%s\" has no tag; write a word and its tag on each line, separated by a space or a tab "
             "(further columns may stand between them), and an empty line between sentences",
             ZR_SHOWN(path), number, word);
    return ZR_FAIL(ZR_ERR_DATA,
                   "%s:%" PRId64 ": the line of \"%s\" has %" PRId64 " columns, but line %" PRId64 " has %" PRId64
                   "; the last column is the tag, so each line needs the same columns",
                   ZR_SHOWN(path), number, word, line->columns, r->first_line, r->columns);
}

/* Print the names of labels for a message, at most a few. */
static const char *print_names(const zr_labelled_args *args, char *out, size_t size)
{
    enum { MOST = 12 };
    size_t used = 0;
    out[0] = '\0';
    for (int64_t i = 0; i < args->labels && i < MOST && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", ZR_SHOWN(args->label_names[i]));
    if (args->labels > MOST && used < size) snprintf(out + used, size - used, ", ...");
    return out;
}

#define TAG_REMEDY                                                                                                     \
    "correct the file, or name all labels: in model.label_names, or for weights alone in id2label of their "           \
    "config.json"

/* Note or look up the tag of a line. */
static zr_status take_tag(const zr__tag_reader *r, const char *path, int64_t number, const columns_line *line,
                          int32_t *tag)
{
    char names[512];
    json_auto_t *label = json_stringn(line->tag, (size_t)line->tag_bytes);
    *tag = -1;
    ZR_CHECK(label && strlen(json_string_value(label)) == (size_t)line->tag_bytes, ZR_ERR_DATA,
             "%s:%" PRId64 ": the tag in the last column is not UTF-8", ZR_SHOWN(path), number);
    if (r->names) return zr__label_note(r->names, label);
    *tag = zr__label_of(r->args, label);
    ZR_CHECK(*tag >= 0, ZR_ERR_DATA,
             "%s:%" PRId64 ": the tag %s is none of the %lld labels of the model: %s; " TAG_REMEDY, ZR_SHOWN(path),
             number, ZR_SHOWN(json_string_value(label)), (long long)r->args->labels,
             print_names(r->args, names, sizeof(names)));
    return ZR_OK;
}

static zr_status read_line(zr__tag_reader *r, const char *path, int64_t number, const char *text, int64_t n)
{
    static const char document[] = "-DOCSTART-"; /* CoNLL's line between documents */
    const columns_line line = divide(text, n);
    const bool between = line.columns == 0 || (line.word_bytes == sizeof(document) - 1 &&
                                               memcmp(line.word, document, sizeof(document) - 1) == 0);
    int32_t tag = -1;
    if (between) return end_sentence(r);
    if (line.columns < 2 || (r->columns > 0 && line.columns != r->columns))
        return refuse_columns(r, path, number, &line);
    if (r->columns == 0) r->first_line = number;
    r->columns = line.columns;
    ZR_TRY(take_tag(r, path, number, &line, &tag));
    if (r->names) return ZR_OK;
    if (r->sentence.a_n < 0) begin_sentence(r);
    return add_word(r, line.word, line.word_bytes, tag);
}

static zr_status read_columns(zr__tag_reader *r, const zr__file *file, const char *path)
{
    zr__packing packing;
    ZR_TRY(zr__packing_of(file, &packing));
    ZR_CHECK(packing == ZR__UNPACKED, ZR_ERR_DATA, "%s: columns are not read from compressed files; unpack it",
             file->name);
    ZR_CHECK(file->bytes <= FILE_BYTES, ZR_ERR_DATA, "%s: the file is larger than %d bytes, the limit; divide it",
             file->name, FILE_BYTES);
    ZR_AUTO_FREE char *text = zr_alloc((size_t)file->bytes + 1);
    ZR_CHECK(text, ZR_ERR_MEMORY, "no memory for the %" PRId64 " bytes of %s", file->bytes, file->name);
    ZR_TRY(zr__file_read(file, 0, text, file->bytes, ZR_ERR_DATA));
    int64_t number = 1;
    for (int64_t at = zr__shape_mark(text, file->bytes), to; at < file->bytes; at = to + 1, number++) {
        const char *end = memchr(text + at, '\n', (size_t)(file->bytes - at));
        to = end ? end - text : file->bytes;
        ZR_TRY(read_line(r, path, number, text + at, to - at));
    }
    return end_sentence(r);
}

/* ---- records --------------------------------------------------------------------------------- */

/* Return the list of tags of a record. */
static const json_t *tags_of(const json_t *root)
{
    static const char *const keys[] = {"ner_tags", "tags", "labels"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (json_object_get(root, keys[i])) return json_object_get(root, keys[i]);
    return NULL;
}

/* Check a record; if it is bad, write the reason. */
static void check_record(const zr__tag_reader *r, const json_t *root, char *reason)
{
    char members[160];
    const json_t *words = json_object_get(root, "tokens"), *tags = tags_of(root);
    const size_t n = json_array_size(words);
    if (words && tags && (!json_is_array(words) || !json_is_array(tags)))
        snprintf(reason, ZR__REASON_BYTES, "the %s are not a list; expected %s",
                 json_is_array(words) ? "tags" : "tokens", wanted);
    else if (!words || !tags)
        snprintf(reason, ZR__REASON_BYTES, "expected a list of words and one of tags, as in %s: the record has %s",
                 wanted, zr__jsonl_members(root, members, sizeof(members)));
    else if (json_array_size(tags) != n)
        snprintf(reason, ZR__REASON_BYTES,
                 "the number of words is %zu, but that of tags is %zu; expected a tag for each word", n,
                 json_array_size(tags));
    for (size_t i = 0; i < n && !reason[0]; i++) {
        const json_t *tag = json_array_get(tags, i);
        if (!json_is_string(json_array_get(words, i)))
            snprintf(reason, ZR__REASON_BYTES, "word %zu is not a text", i + 1);
        else if (!r->names && zr__label_of(r->args, tag) < 0)
            snprintf(reason, ZR__REASON_BYTES,
                     "tag %zu is %s, which is none of the %lld labels of the model; if it is right, name all labels "
                     "(model.label_names)",
                     i + 1, ZR_JSON_SHOWN(tag), (long long)r->args->labels);
    }
}

/* Read a record; a zr__record_fn. */
static zr_status read_record(const void *of, void *arg, const json_t *root, int64_t *bytes, char *reason)
{
    zr__tag_reader *r = arg;
    (void)of;
    *bytes = 0;
    check_record(r, root, reason);
    if (reason[0]) return ZR_OK;
    const json_t *words = json_object_get(root, "tokens"), *tags = tags_of(root);
    if (!r->names) begin_sentence(r);
    for (size_t i = 0; i < json_array_size(words); i++) {
        const json_t *word = json_array_get(words, i), *tag = json_array_get(tags, i);
        ZR_TRY(r->names ? zr__label_note(r->names, tag)
                        : add_word(r, json_string_value(word), (int64_t)json_string_length(word),
                                   zr__label_of(r->args, tag)));
    }
    *bytes = 1 + (int64_t)json_array_size(words); /* a sentence without words counts, too */
    return end_sentence(r);
}

/* ---- files ----------------------------------------------------------------------------------- */

zr_status zr__tags_read(zr__tag_reader *r, const zr__file *file, const char *path, zr__found_texts *found)
{
    zr__parts parts = {.file = file,
                       .usual_bytes = PART_BYTES,
                       .most_bytes = INT64_MAX,
                       .record = read_record,
                       .remedy = "correct the file"};
    ZR_AUTO(zr__part_free) zr__part part = {0};
    r->columns = 0;
    r->sentence.a_n = -1;
    ZR_TRY(zr__data_refuse_kind(file, false));
    ZR_TRY(zr__shape_find(file, path, &parts.shape, NULL, 0));
    const bool records =
        parts.shape == ZR__SHAPE_LINES || parts.shape == ZR__SHAPE_VALUES || parts.shape == ZR__SHAPE_ARRAY;
    if (!records) return read_columns(r, file, path); /* even if it is named like a table, such as words.tsv */
    zr_status st = zr__parts_begin(&parts);
    while (st == ZR_OK && !parts.ended) {
        st = zr__part_read(&parts, &part);
        if (st == ZR_OK) zr__part_run(&parts, &part, NULL, r);
        if (st == ZR_OK) st = zr__part_take(&parts, &part, found);
    }
    zr__parts_end(&parts);
    return st;
}
