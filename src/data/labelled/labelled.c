/* Opens labelled texts and questions, and reads their rows. */
#include "data/labelled/labelled.h"

#include "base/file/file.h"
#include "base/paths/shards.h"
#include "base/text/text.h"
#include "data/labelled/classes.h"
#include "data/labelled/tags.h"
#include "data/samples/order.h"
#include "data/samples/rows.h"
#include "data/samples/samples.h"
#include "data/tokens/part.h"

#include <stdio.h>
#include <string.h>

enum { GROUP = 256, NOTE_BYTES = 320 }; /* GROUP: number of samples that are packed together */

struct zr_labelled {
    char *path;
    zr_labelled_args args;
    zr_tokenizer *tokenizer;
    zr__shards files;
    zr__labelled_list list;
    zr__questions questions;
    zr__found_texts found; /* counts of .jsonl files */
    int64_t records;       /* number of records, or of paragraphs of questions, of all parts */
    int64_t *in_group;     /* buffer for the numbers of the samples of a group */
    int32_t *in_row;       /* buffer for the samples of a row, as indices in their group */
    int64_t *number;       /* buffer for the numbers of the samples of a row */
    zr__rows rows;
    char note[NOTE_BYTES], cut[NOTE_BYTES];
    zr_labelled_info info;
};

/* ---- the source of rows ---------------------------------------------------------------------- */

static zr_status divide(void *arg, uint32_t epoch, int64_t group, int64_t *n)
{
    const zr_labelled *l = arg;
    const int64_t all = l->list.samples, first = group * GROUP;
    *n = all - first < GROUP ? all - first : GROUP;
    for (int64_t i = 0; i < *n; i++)
        l->in_group[i] =
            l->args.order == ZR_SHUFFLED ? zr__order_permute(l->args.seed, epoch, all, first + i) : first + i;
    return ZR_OK;
}

static void measure(void *arg, int64_t i, int64_t *tokens, int64_t *predictions)
{
    const zr_labelled *l = arg;
    *tokens = zr__labelled_length(&l->list.sample[l->in_group[i]]);
    *predictions = 0;
}

static zr_status open_rows(zr_labelled *l)
{
    const int64_t S = l->args.samples;
    const zr__rows_source source = {.groups = (l->list.samples + GROUP - 1) / GROUP,
                                    .tokens = l->args.seq_length,
                                    .samples = S,
                                    .divide = divide,
                                    .measure = measure,
                                    .arg = l};
    l->in_group = zr_alloc(GROUP * sizeof(*l->in_group));
    l->in_row = zr_alloc((size_t)S * sizeof(*l->in_row));
    l->number = zr_alloc((size_t)S * sizeof(*l->number));
    ZR_CHECK(l->in_group && l->in_row && l->number, ZR_ERR_MEMORY, "no memory for a row of %lld samples", (long long)S);
    return zr__rows_open(&source, &l->rows);
}

/* ---- files ----------------------------------------------------------------------------------- */

static zr_status read_classes(zr_labelled *l)
{
    ZR_AUTO(zr__class_reader_free) zr__class_reader reader = {.args = &l->args, .list = &l->list};
    char first[128] = "", name[100];
    for (int64_t i = 0; i < l->files.n; i++) {
        ZR_AUTO(zr__file_close) zr__file file = {.fd = -1};
        zr__found_texts found = {0};
        ZR_TRY(zr__file_open(l->files.path[i], false, &file));
        ZR_TRY(zr__classes_read(&reader, &file, l->files.path[i], &found));
        if (l->found.skipped_lines == 0 && found.skipped_lines > 0)
            snprintf(first, sizeof(first), "%s:%lld", zr__text_escape(l->files.path[i], name, sizeof(name)),
                     (long long)found.first_skipped);
        l->found.skipped_lines += found.skipped_lines;
        l->found.documents += found.documents;
    }
    l->info.documents = l->list.samples;
    l->records = reader.records;
    l->info.skipped_lines = l->found.skipped_lines;
    l->info.cut_documents = reader.cut;
    if (reader.members)
        snprintf(l->note, sizeof(l->note), "%s: records of %s%s", zr__text_escape(l->files.path[0], name, sizeof(name)),
                 reader.members, l->found.skipped_lines > 0 ? "; " : "");
    const size_t used = strlen(l->note);
    if (l->found.skipped_lines > 0)
        snprintf(l->note + used, sizeof(l->note) - used, "%lld bad lines left out; the first is %s",
                 (long long)l->found.skipped_lines, first);
    if (reader.cut > 0)
        snprintf(l->cut, sizeof(l->cut), "%lld of %lld texts have more tokens than a row and were cut",
                 (long long)reader.cut, (long long)l->info.documents);
    return ZR_OK;
}

static zr_status read_tags(zr_labelled *l)
{
    zr__tag_reader reader = {.args = &l->args, .list = &l->list};
    for (int64_t i = 0; i < l->files.n; i++) {
        ZR_AUTO(zr__file_close) zr__file file = {.fd = -1};
        ZR_TRY(zr__file_open(l->files.path[i], false, &file));
        ZR_TRY(zr__tags_read(&reader, &file, l->files.path[i], &l->found));
        if (l->args.progress) l->args.progress(l->args.arg, file.bytes, file.bytes);
    }
    l->info.documents = l->list.samples;
    l->records = reader.records;
    l->info.cut_documents = reader.cut;
    if (reader.cut > 0)
        snprintf(l->cut, sizeof(l->cut), "%lld of %lld sentences have more tokens than a row and lost their end",
                 (long long)reader.cut, (long long)l->list.samples);
    return ZR_OK;
}

static zr_status read_questions(zr_labelled *l)
{
    zr__questions *q = &l->questions;
    ZR_TRY(zr__questions_open(&l->args, &l->list, q));
    for (int64_t i = 0; i < l->files.n; i++) {
        ZR_TRY(zr__questions_read(q, l->files.path[i]));
        if (l->args.progress) l->args.progress(l->args.arg, q->read, l->info.bytes);
    }
    l->info.documents = q->n;
    l->records = q->paragraphs;
    l->info.lost_answers = q->lost;
    l->info.cut_documents = q->cut;
    if (q->lost > 0)
        snprintf(l->note, sizeof(l->note),
                 "%lld question%s %s: the answer is not at answer_start in its text; the first is %s",
                 (long long)q->lost, q->lost == 1 ? "" : "s", q->every ? "without a loss" : "left out", q->first_lost);
    if (q->cut > 0)
        snprintf(l->cut, sizeof(l->cut), "%lld of %lld questions have more than %lld tokens and were cut",
                 (long long)q->cut, (long long)q->n, (long long)q->most_query);
    return ZR_OK;
}

/* Open each file once to check that it is a file, and add the sizes of all files. */
static zr_status find_files(zr_labelled *l)
{
    ZR_TRY(zr__shards_find(l->args.path, &l->files));
    ZR_CHECK(!l->files.weighted, ZR_ERR_UNSUPPORTED,
             "%s: labelled samples are not drawn from several sources with weights; give one list of files",
             ZR_SHOWN(l->files.path[0]));
    for (int64_t i = 0; i < l->files.n; i++) {
        zr__file file;
        ZR_TRY(zr__file_open(l->files.path[i], false, &file));
        l->info.bytes += file.bytes;
        zr__file_close(&file);
    }
    l->info.files = l->files.n;
    return ZR_OK;
}

static zr_status open_tokenizer(zr_labelled *l)
{
    ZR_CHECK(l->args.tokenizer, ZR_ERR_CONFIG,
             "no tokenizer is given, but samples are made of texts; give data.tokenizer");
    ZR_TRY(zr_tokenizer_open(l->args.tokenizer, &l->tokenizer));
    const int64_t vocab = zr_tokenizer_vocab(l->tokenizer);
    ZR_CHECK(l->args.vocab_size >= vocab, ZR_ERR_CONFIG,
             "the tokenizer \"%s\" needs a vocab_size of at least %lld, but it is %lld; give model.vocab_size %lld or "
             "more, or the tokenizer that belongs to the model (the vocab_size of existing weights cannot change)",
             ZR_SHOWN(l->args.tokenizer), (long long)vocab, (long long)l->args.vocab_size, (long long)vocab);
    return zr__labelled_list_open(l->tokenizer, &l->list);
}

/* ---- the object ------------------------------------------------------------------------------ */

/* A kind of samples: its reader, the names of its format and of a sample, and the unit in which a share is held out. */
static const struct {
    zr_status (*read)(zr_labelled *l);
    const char *format, *sample, *unit;
} kinds[] = {[ZR_LABELLED_CLASSES] = {read_classes, "jsonl with labels", "text with a label", "records"},
             [ZR_LABELLED_ANSWERS] = {read_questions, "SQuAD", "question with its answer", "paragraphs with questions"},
             [ZR_LABELLED_TAGS] = {read_tags, "sentences with tags", "sentence with tags", "sentences"}};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static zr_status open_labelled(zr_labelled *l)
{
    const zr__epoch *e = NULL;
    ZR_TRY(find_files(l));
    ZR_TRY(open_tokenizer(l));
    ZR_TRY(kinds[l->args.kind].read(l));
    const zr__part_size size = {.name = ZR_SHOWN(l->files.path[0]),
                                .unit = kinds[l->args.kind].unit,
                                .has = l->list.samples > 0,
                                .all = l->records,
                                .least = 1};
    if (l->records > 0) ZR_TRY(zr__part_check(&l->args.part, &size));
    ZR_CHECK(l->list.samples > 0, ZR_ERR_DATA, "%s%s: there is no %s%s%s", ZR_SHOWN(l->files.path[0]),
             l->files.n > 1 ? " and the files after it" : "", kinds[l->args.kind].sample, l->note[0] ? "; " : "",
             l->note);
    ZR_TRY(open_rows(l));
    ZR_TRY(zr__rows_epoch(&l->rows, 0, &e));
    l->info.format = kinds[l->args.kind].format;
    l->info.rows = e->begin[l->rows.source.groups].row;
    l->info.samples = l->list.samples;
    l->info.tokens = e->tokens;
    l->info.filled = (double)e->tokens / ((double)l->info.rows * (double)l->args.seq_length);
    /* The caller may free this memory after the call. */
    l->args.path = l->args.tokenizer = NULL;
    l->args.label_names = NULL;
    l->args.progress = NULL;
    return ZR_OK;
}

static zr_status check_args(const zr_labelled_args *args)
{
    const int64_t T = args->seq_length, S = args->samples;
    ZR_TRY(zr__data_args_check(args->path, args->vocab_size, T, 5, args->order));
    ZR_CHECK((unsigned)args->kind < KINDS, ZR_ERR_ARG, "%d is not a kind of labelled samples", (int)args->kind);
    ZR_CHECK(S >= 1 && S <= T, ZR_ERR_ARG, "samples is %lld; it must be from 1 to seq_length %lld", (long long)S,
             (long long)T);
    ZR_CHECK(
        args->kind != ZR_LABELLED_TAGS || args->label_names, ZR_ERR_CONFIG,
        "the labels have no names, but tags have; give model.label_names, or id2label in config.json of the model");
    ZR_CHECK(args->kind == ZR_LABELLED_ANSWERS || (args->labels >= 1 && args->labels <= INT32_MAX), ZR_ERR_ARG,
             "labels is %lld; it must be from 1 to 2147483647", (long long)args->labels);
    ZR_CHECK(args->doc_stride >= 0 && args->max_query_length >= 0, ZR_ERR_ARG,
             "doc_stride is %lld and max_query_length %lld; they must be at least 1, or 0 for the default",
             (long long)args->doc_stride, (long long)args->max_query_length);
    return ZR_OK;
}

zr_status zr_labelled_open(const zr_labelled_args *args, zr_labelled **labelled)
{
    ZR_TRY(check_args(args));
    ZR_AUTO(zr_labelled_close) zr_labelled *l = zr_alloc(sizeof(*l));
    ZR_CHECK(l, ZR_ERR_MEMORY, "no memory for %zu bytes of labelled samples", sizeof(*l));
    *l = (zr_labelled){.args = *args};
    ZR_TRY(zr__text_copy(args->path, strlen(args->path), &l->path));
    ZR_TRY(open_labelled(l));
    *labelled = ZR_TAKE(l);
    return ZR_OK;
}

void zr_labelled_close(zr_labelled **labelled)
{
    zr_labelled *l = *labelled;
    if (!l) return;
    zr__rows_close(&l->rows);
    zr__questions_free(&l->questions);
    zr__labelled_list_free(&l->list);
    zr_tokenizer_close(&l->tokenizer);
    zr__shards_free(&l->files);
    zr_free(l->in_group);
    zr_free(l->in_row);
    zr_free(l->number);
    zr_free(l->path);
    zr_free(l);
    *labelled = NULL;
}

zr_labelled_info zr_labelled_get_info(const zr_labelled *l)
{
    zr_labelled_info info = l->info;
    info.path = l->path;
    info.note = l->note;
    info.cut = l->cut;
    info.memory_bytes = (int64_t)sizeof(*l) + zr__labelled_list_bytes(&l->list) + zr__questions_bytes(&l->questions) +
                        zr__rows_bytes(&l->rows);
    return info;
}

zr_status zr__labelled_check(const zr_labelled *l, uint64_t *hash, zr_progress_fn fn, void *arg)
{
    uint64_t all = 0;
    int64_t read = 0;
    /* Read the files only for the hash: zr_labelled_open has already checked them. */
    for (int64_t i = 0; hash && i < l->files.n; i++) {
        ZR_AUTO(zr__file_close) zr__file file = {.fd = -1};
        uint64_t its = 0;
        ZR_TRY(zr__file_open(l->files.path[i], false, &file));
        ZR_TRY(zr__file_pass(&file, NULL, NULL, &its));
        all = i == 0 ? its : zr__hash_join(all, its);
        read += file.bytes;
        if (fn) fn(arg, read, l->info.bytes);
    }
    if (hash) *hash = zr__hash_join(all, zr__labelled_list_hash(&l->list));
    return ZR_OK;
}

const zr__questions *zr__labelled_questions(const zr_labelled *l)
{
    return l->args.kind == ZR_LABELLED_ANSWERS ? &l->questions : NULL;
}

const zr__labelled_word *zr__labelled_words(const zr_labelled *l, int64_t sample, int64_t *n)
{
    *n = l->list.sample[sample].words;
    return l->list.word + l->list.sample[sample].word;
}

zr_status zr__labelled_names(const char *path, zr_labelled_kind kind, bool skip_bad_lines, zr__label_names *names)
{
    ZR_AUTO(zr__shards_free) zr__shards files = {0};
    const zr_labelled_args args = {.skip_bad_lines = skip_bad_lines};
    *names = (zr__label_names){.seen = json_object(), .most = -1};
    ZR_CHECK(names->seen, ZR_ERR_MEMORY, "no memory for names of labels");
    ZR_TRY(zr__shards_find(path, &files));
    for (int64_t i = 0; i < files.n; i++) {
        ZR_AUTO(zr__file_close) zr__file file = {.fd = -1};
        zr__found_texts found = {0};
        zr__class_reader classes = {.args = &args, .names = names};
        zr__tag_reader tags = {.args = &args, .names = names};
        ZR_TRY(zr__file_open(files.path[i], false, &file));
        ZR_TRY(kind == ZR_LABELLED_TAGS ? zr__tags_read(&tags, &file, files.path[i], &found)
                                        : zr__classes_read(&classes, &file, files.path[i], &found));
    }
    return zr__label_names_sort(names);
}

int64_t zr__labelled_row_samples(const zr_labelled *l)
{
    return l->args.samples;
}

/* ---- rows ------------------------------------------------------------------------------------ */

zr_status zr__labelled_samples(zr_labelled *l, int64_t row, int64_t *found, int64_t *n)
{
    uint32_t epoch = 0;
    int64_t own = 0, first = 0;
    ZR_TRY(zr__rows_find(&l->rows, l->args.order, l->args.seed, row, &epoch, &own));
    ZR_TRY(zr__rows_samples(&l->rows, epoch, own, l->in_row, n, &first));
    for (int64_t i = 0; i < *n; i++) found[i] = l->in_group[l->in_row[i]];
    return ZR_OK;
}

/* Write element i of the row's arrays for samples. If the row has fewer samples, `sample` is NULL. */
static void write_place(const zr__labelled_sample *sample, int64_t i, int64_t at, const zr_labelled_row *out)
{
    const int32_t first = (int32_t)at;
    if (out->first) out->first[i] = sample ? first : 0;
    if (out->label) out->label[i] = sample ? sample->label : -1;
    if (!out->answer) return;
    const bool has = sample && sample->begin >= 0;
    out->answer[2 * i] = has ? first + sample->begin : -1;
    out->answer[2 * i + 1] = has ? first + sample->end : -1;
}

/* Write the tagged words of a sample that begins at index `at`. *n is the number of words of the row so far. */
static void write_words(const zr_labelled *l, const zr__labelled_sample *sample, int64_t at, const zr_labelled_row *out,
                        int64_t *n)
{
    for (int64_t i = 0; i < sample->words; i++, ++*n) {
        const zr__labelled_word *word = &l->list.word[sample->word + i];
        if (out->words) out->words[*n] = (int32_t)at + word->token;
        if (out->tags) out->tags[*n] = word->tag;
    }
}

zr_status zr_labelled_read(zr_labelled *l, int64_t row, const zr_labelled_row *out)
{
    int64_t n = 0, at = 0, words = 0;
    ZR_TRY(zr__labelled_samples(l, row, l->number, &n));
    for (int64_t i = 0; i < l->args.samples; i++) {
        const zr__labelled_sample *sample = i < n ? &l->list.sample[l->number[i]] : NULL;
        write_place(sample, i, at, out);
        if (!sample) continue;
        zr__labelled_write(&l->list, sample, at, out);
        write_words(l, sample, at, out, &words);
        at += zr__labelled_length(sample);
    }
    for (int64_t i = at; i < l->args.seq_length; i++) {
        if (out->tokens) out->tokens[i] = 0;
        if (out->segments) out->segments[i] = 0;
        if (out->documents) out->documents[i] = (int32_t)at;
    }
    for (; words < l->args.seq_length; words++) {
        if (out->words) out->words[words] = 0;
        if (out->tags) out->tags[words] = -1;
    }
    return ZR_OK;
}
