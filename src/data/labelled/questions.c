#include "data/labelled/questions.h"

#include "base/core/grow.h"
#include "base/json/json_stream.h"
#include "data/labelled/words.h"
#include "data/files/stream.h"
#include "data/text/kind.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokens/part.h"

#include <stdio.h>
#include <string.h>

enum { FILE_BYTES = 1 << 30 };

/* A file that is being read. */
typedef struct reading {
    zr__questions *questions;
    const char *name;                           /* path of the file */
    zr__words words;                            /* words of the paragraph that is being read */
    const zr__json_place *article, *paragraphs; /* places of the article that is being read and of its paragraphs */
    bool found;                                 /* whether the wanted list ("data" or "paragraphs") has been found */
    int64_t context;                            /* offset in questions->strings of the paragraph's text */
    int64_t token;                              /* index in the list of the paragraph's first token */
} reading;

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Fail for a value at `place`; the message says what was `wanted`. `value` is NULL if it is missing. */
static zr_status refuse(const reading *r, const zr__json_place *place, const json_t *value, const char *wanted)
{
    char message[256];
    ZR_AUTO_FREE char *text = NULL;
    size_t bytes = 0;
    snprintf(message, sizeof(message), "%s; expected %s", ZR_JSON_SHOWN(value), wanted);
    ZR_TRY(zr__json_read_most(r->name, FILE_BYTES, &text, &bytes)); /* only to find line and column of the place */
    const char *begin = text;
    zr__json_skip_mark(&begin, &bytes);
    return zr__json_fail(begin, bytes, r->name, place, ZR_ERR_DATA, message);
}

static zr_status read_text(const reading *r, const json_t *object, const zr__json_place *parent, const char *key,
                           const char **text)
{
    const zr__json_place place = {parent, key, 0};
    const json_t *value = json_object_get(object, key);
    *text = json_string_value(value);
    return *text ? ZR_OK : refuse(r, &place, value, "a text");
}

typedef zr_status (*element_fn)(reading *r, const json_t *element, const zr__json_place *place);

/* Call `read` for each object of a list. */
static zr_status read_list(reading *r, const json_t *object, const zr__json_place *parent, const char *key,
                           element_fn read)
{
    const zr__json_place place = {parent, key, 0};
    const json_t *list = json_object_get(object, key);
    if (!json_is_array(list)) return refuse(r, &place, list, "a list, as in the files of SQuAD");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const zr__json_place its = {&place, NULL, i};
        const json_t *element = json_array_get(list, i);
        if (!json_is_object(element)) return refuse(r, &its, element, "an object");
        ZR_TRY(read(r, element, &its));
    }
    return ZR_OK;
}

/* ---- one question ---------------------------------------------------------------------------- */

/* Append a text to the strings. *at receives its offset. */
static zr_status add_string(zr__questions *q, const char *text, int64_t *at)
{
    *at = (int64_t)q->strings.length;
    zr__text_append(&q->strings, text, strlen(text) + 1);
    ZR_CHECK(!q->strings.failed, ZR_ERR_MEMORY, "no memory for %lld bytes of texts", (long long)*at);
    return ZR_OK;
}

/* Read an answer. *text is borrowed; *start is the number of characters before the answer. */
static zr_status read_answer(const reading *r, const json_t *list, const zr__json_place *parent, size_t i,
                             const char **text, int64_t *start)
{
    const zr__json_place place = {parent, NULL, i}, start_place = {&place, "answer_start", 0};
    const json_t *answer = json_array_get(list, i), *at = json_object_get(answer, "answer_start");
    if (!json_is_object(answer))
        return refuse(r, &place, answer, "an object {\"text\": TEXT, \"answer_start\": NUMBER}");
    ZR_TRY(read_text(r, answer, &place, "text", text));
    if (!json_is_integer(at)) return refuse(r, &start_place, at, "the number of characters before the answer");
    *start = json_integer_value(at);
    return ZR_OK;
}

/* Read all answers of a question. *text and *start receive the text and the place of the first answer; they do not
 * change if the question has none. */
static zr_status read_answers(const reading *r, const json_t *qa, const zr__json_place *parent, zr__question *question,
                              const char **text, int64_t *start)
{
    const zr__json_place place = {parent, "answers", 0}, impossible_place = {parent, "is_impossible", 0};
    const json_t *list = json_object_get(qa, "answers"), *impossible = json_object_get(qa, "is_impossible");
    if (impossible && !json_is_boolean(impossible)) return refuse(r, &impossible_place, impossible, "true or false");
    r->questions->may_lack |= impossible != NULL;
    if (json_is_true(impossible))
        return json_is_array(list) && json_array_size(list) == 0
                   ? ZR_OK
                   : refuse(r, &place, list, "[], since is_impossible is true");
    if (!json_is_array(list) || json_array_size(list) == 0)
        return refuse(r, &place, list, "a list of at least one answer, or \"is_impossible\": true (SQuAD 2.0)");
    question->answers = (int64_t)json_array_size(list);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *its_text = NULL;
        int64_t its_start = 0, at = 0;
        ZR_TRY(read_answer(r, list, &place, i, &its_text, &its_start));
        ZR_TRY(add_string(r->questions, its_text, &at));
        if (i > 0) continue;
        question->answer = at;
        *text = its_text;
        *start = its_start;
    }
    return ZR_OK;
}

/* Append the samples of a question, one for each window of the text. `a` has the tokens of the question. [first, last]
 * are the tokens of the answer, or -1. If the question has no answer, or the window does not contain it, the answer is
 * [CLS]. */
static zr_status add_windows(const reading *r, const zr__labelled_sample *a, int64_t first, int64_t last,
                             zr__question *question)
{
    zr__questions *q = r->questions;
    const int64_t most = q->seq_length - a->a_n - 3, all = zr__words_tokens(&r->words);
    question->sample = q->list->samples;
    for (int64_t start = 0; start < all; start += q->stride) {
        const int64_t n = all - start < most ? all - start : most;
        const bool inside = first >= start && last < start + n;
        zr__labelled_sample sample = *a;
        sample.b = r->token + start;
        sample.b_n = (int32_t)n;
        if (first >= 0 || question->answers == 0) {
            sample.begin = inside ? (int32_t)(zr__labelled_second(a) + first - start) : 0;
            sample.end = inside ? (int32_t)(zr__labelled_second(a) + last - start) : 0;
        }
        ZR_TRY(zr__labelled_add(q->list, sample));
        if (start + n == all) break;
    }
    question->samples = q->list->samples - question->sample;
    return ZR_OK;
}

/* Tokenize a question, and cut it to most_query tokens. *a receives a sample whose first text is the cut question. */
static zr_status add_query(zr__questions *q, const char *text, zr__labelled_sample *a)
{
    int64_t n = 0;
    ZR_TRY(zr__labelled_encode(q->list, text, (int64_t)strlen(text), &n));
    q->cut += n > q->most_query;
    if (n > q->most_query) n = q->most_query;
    *a = (zr__labelled_sample){
        .a = q->list->tokens, .a_n = (int32_t)n, .b_n = ZR__NO_TEXT, .label = -1, .begin = -1, .end = -1};
    return zr__labelled_add_tokens(q->list, q->list->encoded, n);
}

static void note_lost(const reading *r, const char *id)
{
    zr__questions *q = r->questions;
    char name[72], shown[40];
    if (q->lost++ > 0) return;
    snprintf(q->first_lost, sizeof(q->first_lost), "%s, question %s", zr__text_escape(r->name, name, sizeof(name)),
             zr__text_escape(id, shown, sizeof(shown)));
}

static zr_status read_question(reading *r, const json_t *qa, const zr__json_place *place)
{
    zr__questions *q = r->questions;
    zr__question question = {.text = r->context, .token = r->token};
    zr__labelled_sample a;
    const char *id = NULL, *query = NULL, *answer = NULL;
    int64_t start = 0, first = -1, last = -1;
    bool found = false;
    const size_t strings = q->strings.length;
    ZR_TRY(read_text(r, qa, place, "id", &id));
    ZR_TRY(read_text(r, qa, place, "question", &query));
    ZR_TRY(add_string(q, id, &question.id));
    ZR_TRY(read_answers(r, qa, place, &question, &answer, &start));
    if (answer) ZR_TRY(zr__words_answer(&r->words, q->list, answer, start, &found, &first, &last));
    if (answer && !found) note_lost(r, id);
    if (answer && !found && !q->every) {
        q->strings.length = strings;
        return ZR_OK;
    }
    ZR_TRY(add_query(q, query, &a));
    ZR_TRY(add_windows(r, &a, first, last, &question));
    ZR_GROW(q->question, q->room, q->n + 1, "questions");
    q->question[q->n++] = question;
    return ZR_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

static zr_status read_paragraph(reading *r, const json_t *paragraph, const zr__json_place *place)
{
    zr__questions *q = r->questions;
    const char *context = NULL;
    if (!zr__part_has(&q->part, q->paragraphs++)) return ZR_OK;
    ZR_TRY(read_text(r, paragraph, place, "context", &context));
    ZR_TRY(zr__words_divide(&r->words, q->list, context));
    ZR_TRY(add_string(q, context, &r->context));
    r->token = q->list->tokens;
    ZR_TRY(zr__labelled_add_tokens(q->list, r->words.token, zr__words_tokens(&r->words)));
    return read_list(r, paragraph, place, "qas", read_question);
}

static zr_status read_one_paragraph(void *arg, zr__json_stream *stream, const char *key, size_t index)
{
    reading *r = arg;
    const zr__json_place place = {r->paragraphs, NULL, index};
    json_auto_t *paragraph = NULL;
    (void)key;
    ZR_TRY(zr__json_stream_value(stream, &paragraph));
    return json_is_object(paragraph) ? read_paragraph(r, paragraph, &place) : refuse(r, &place, paragraph, "an object");
}

/* If the member has the key `wanted`, read its list by calling `element` for each element. Skip any other member. */
static zr_status read_member(reading *r, zr__json_stream *stream, const zr__json_place *place, const char *wanted,
                             zr__json_stream_fn element)
{
    char c = '\0';
    json_auto_t *value = NULL;
    const bool is_wanted = strcmp(place->key, wanted) == 0;
    ZR_TRY(zr__json_stream_peek(stream, &c));
    r->found = r->found || is_wanted;
    if (is_wanted && c == '[') return zr__json_stream_each(stream, c, element, r);
    ZR_TRY(zr__json_stream_value(stream, &value));
    return is_wanted ? refuse(r, place, value, "a list, as in the files of SQuAD") : ZR_OK;
}

static zr_status read_article_member(void *arg, zr__json_stream *stream, const char *key, size_t index)
{
    reading *r = arg;
    const zr__json_place place = {r->article, key, 0};
    (void)index;
    r->paragraphs = &place;
    return read_member(r, stream, &place, "paragraphs", read_one_paragraph);
}

/* Fail if a list has not been found in the object at `parent`. */
static zr_status want_list(const reading *r, const zr__json_place *parent, const char *key)
{
    const zr__json_place place = {parent, key, 0};
    return r->found ? ZR_OK : refuse(r, &place, NULL, "a list, as in the files of SQuAD");
}

static zr_status read_article(void *arg, zr__json_stream *stream, const char *key, size_t index)
{
    static const zr__json_place top = {0};
    reading *r = arg;
    const zr__json_place data = {&top, "data", 0}, place = {&data, NULL, index};
    json_auto_t *value = NULL;
    char c = '\0';
    (void)key;
    ZR_TRY(zr__json_stream_peek(stream, &c));
    if (c == '{') {
        r->article = &place;
        r->found = false;
        ZR_TRY(zr__json_stream_each(stream, c, read_article_member, r));
        ZR_TRY(want_list(r, &place, "paragraphs"));
        r->found = true; /* the file has the list "data", to which this article belongs */
        return ZR_OK;
    }
    ZR_TRY(zr__json_stream_value(stream, &value));
    return refuse(r, &place, value, "an object");
}

static zr_status read_root_member(void *arg, zr__json_stream *stream, const char *key, size_t index)
{
    static const zr__json_place top = {0};
    const zr__json_place place = {&top, key, 0};
    (void)index;
    return read_member(arg, stream, &place, "data", read_article);
}

/* Read the file paragraph by paragraph. */
static zr_status read_stream(reading *r, zr__json_stream *stream)
{
    const zr__json_place top = {0};
    ZR_CHECK(stream->file.bytes <= FILE_BYTES, ZR_ERR_DATA, "%s: the file is larger than %d bytes, the limit",
             stream->file.name, FILE_BYTES);
    zr__packing packing;
    ZR_TRY(zr__data_refuse_kind(&stream->file, false));
    ZR_TRY(zr__packing_of(&stream->file, &packing));
    ZR_CHECK(packing == ZR__UNPACKED, ZR_ERR_DATA, "%s: questions are not read from compressed files; unpack it",
             stream->file.name);
    r->questions->read += stream->file.bytes;
    ZR_TRY(zr__json_stream_each(stream, '{', read_root_member, r));
    ZR_TRY(want_list(r, &top, "data"));
    return zr__json_stream_end(stream);
}

/* Fail with a message that has the position of the error, for which the whole file must be parsed. */
static zr_status refuse_file(const char *path)
{
    ZR_AUTO_FREE char *text = NULL;
    size_t bytes = 0;
    json_auto_t *root = NULL;
    ZR_TRY(zr__json_read_most(path, FILE_BYTES, &text, &bytes));
    ZR_TRY(zr__json_parse_most(text, bytes, FILE_BYTES, path, &root));
    return ZR_FAIL(ZR_ERR_DATA, "%s: %s", ZR_SHOWN(path),
                   json_is_object(root) ? "the file cannot be read paragraph by paragraph"
                                        : "expected an object with a list \"data\", as in the files of SQuAD");
}

zr_status zr__questions_read(zr__questions *q, const char *path)
{
    reading r = {.questions = q, .name = path};
    zr__json_stream stream;
    zr_status st = zr__json_stream_open(path, &stream);
    if (st == ZR_OK) st = read_stream(&r, &stream);
    if (st != ZR_OK && stream.broken) st = refuse_file(path);
    zr__json_stream_close(&stream);
    zr__words_free(&r.words);
    return st;
}

/* ---- the object ------------------------------------------------------------------------------ */

zr_status zr__questions_open(const zr_labelled_args *args, zr__labelled_list *list, zr__questions *q)
{
    *q = (zr__questions){.list = list,
                         .seq_length = args->seq_length,
                         .stride = args->doc_stride > 0 ? args->doc_stride : 128,
                         .most_query = args->max_query_length > 0 ? args->max_query_length : 64,
                         .every = args->every_question,
                         .part = args->part};
    const int64_t left = q->seq_length - q->most_query - 3;
    ZR_CHECK(zr__tokenizer_bert(list->tokenizer), ZR_ERR_UNSUPPORTED,
             "the tokenizer %s is not one of BERT's (BertNormalizer, WordPiece), which answers need",
             ZR_SHOWN(zr_tokenizer_name(list->tokenizer)));
    ZR_CHECK(
        q->stride <= left, ZR_ERR_CONFIG,
        "data.doc_stride is %lld, but beside a question of data.max_query_length %lld tokens and 3 special tokens, "
        "a row of %lld tokens has %lld left for a window, so that windows would leave gaps; give a smaller "
        "doc_stride or max_query_length, or a larger data.seq_length",
        (long long)q->stride, (long long)q->most_query, (long long)q->seq_length, (long long)(left > 0 ? left : 0));
    return ZR_OK;
}

void zr__questions_free(zr__questions *q)
{
    zr__text_clear(&q->strings);
    zr_free(q->question);
    *q = (zr__questions){.list = NULL};
}

int64_t zr__questions_bytes(const zr__questions *q)
{
    return q->strings.room + q->room * (int64_t)sizeof(*q->question);
}
