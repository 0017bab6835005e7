/* Opens training data and finds the window of each sample. The data consist of one or more sources. A source is one or
 * several token files. Samples are drawn from the sources in proportion to their weights. */
#include "base/core/grow.h"
#include "base/paths/shards.h"
#include "base/text/text.h"
#include "data/samples/order.h"
#include "data/samples/samples.h"
#include "data/text/chat.h"
#include "data/tokens/tokens.h"
#include "zr/data.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct source {
    int64_t begin, tokens; /* index of the source's first token among the tokens of all sources; number of its tokens */
    int64_t windows, epoch_samples;
    bool apart; /* whether each sample is one document, or a row of whole documents */
    /* for rows of documents: number of each row's first document in the source, and the number of all documents; NULL
     * if each sample is one document */
    int64_t *row;
    int64_t row_room;       /* capacity of `row` */
    int64_t first_document; /* number of documents in the sources before this one */
    int64_t place, share; /* first position of the source in a block of ZR_DATA_MIX samples; number of its positions */
    uint64_t seed;
} source;

struct zr_data {
    char *path;
    zr__opening opening;
    zr__tokens *tokens;
    source *source;
    int64_t sources;
    int64_t windows, seq_length;
    zr_data_order order;
    uint64_t seed;
    unsigned char *stage; /* buffer for seq_length + 1 tokens, as stored in files */
    /* The current window: seq_length + 1 tokens, where ZR__IGNORED marks tokens that do not count for the loss. If
     * `documents` is set, seq_length indices follow, as zr_data_documents returns them. */
    int32_t *window;
    bool documents, read; /* read: whether a window has been read */
    bool held_out;        /* whether the data are the held-out part (zr_data_part) */
    /* cut: number of documents that are too long; lost: number of cut documents that have no target left */
    int64_t cut, lost;
    int64_t padding; /* number of padded tokens of all windows */
    char cut_note[ZR__NOTE_BYTES];
    char form_note[2 * ZR__NOTE_BYTES];
};

/* ---- sources --------------------------------------------------------------------------------- */

static zr_status same_kind(const zr__shard *first, const zr__shard *other)
{
    ZR_CHECK(strcmp(first->format, other->format) == 0, ZR_ERR_DATA,
             "%s is %s, but %s of the same source is %s; all files of a source must be of one kind", other->name,
             other->format, first->name, first->format);
    ZR_CHECK(other->tokens > 0, ZR_ERR_DATA, "%s: the file holds 0 tokens (%s); leave it out", other->name,
             other->format);
    return ZR_OK;
}

/* Begin a row with document number `document` of the source. *left receives the number of tokens for which the row has
 * space, including the last target. */
static zr_status begin_row(zr_data *d, source *to, int64_t document, int64_t *left)
{
    if (to->windows > 0 && *left > 0) d->padding += *left - 1; /* the last target is not a token of the sample */
    if (d->opening.args->packing == ZR_PACK_WHOLE) {
        ZR_GROW(to->row, to->row_room, to->windows + 2, "rows of documents");
        to->row[to->windows] = document;
        to->row[to->windows + 1] = document + 1;
    }
    to->windows++;
    *left = d->seq_length + 1;
    return ZR_OK;
}

/* Divide the documents of a source into samples: a sample is one document, or as many consecutive documents as fit.
 * Count the documents that are longer than a sample, and the padding. */
static zr_status divide_documents(zr_data *d, source *to)
{
    const bool whole = d->opening.args->packing == ZR_PACK_WHOLE;
    const int64_t documents = d->tokens->documents - to->first_document, room = d->seq_length + 1;
    int64_t left = 0;
    zr__document_place place;
    for (int64_t i = 0; i < documents; i++) {
        ZR_TRY(zr__tokens_document(d->tokens, to->first_document + i, &place));
        const bool cut = place.n > room;
        d->cut += cut;
        d->lost += cut && place.answer - place.first >= room;
        if (!whole || to->windows == 0 || place.n > left) ZR_TRY(begin_row(d, to, i, &left));
        if (to->row) to->row[to->windows] = i + 1;
        left = cut ? 0 : left - place.n;
    }
    if (left > 0) d->padding += left - 1;
    to->epoch_samples = to->windows;
    d->windows += to->windows;
    return ZR_OK;
}

/* Find the samples of a source if each sample has whole documents (data.packing one or whole). */
static zr_status set_documents(zr_data *d, const zr__source_shards *files, source *to)
{
    const char *packing = d->opening.args->packing == ZR_PACK_WHOLE ? "whole" : "one";
    const zr__shard *shard = &d->tokens->shard[files->first];
    for (int64_t i = 0; i < files->n; i++)
        ZR_CHECK(
            shard[i].lines, ZR_ERR_UNSUPPORTED,
            "%s (%s): records are needed (data.packing %s), and this file has none; give .jsonl, .json or .csv, or "
            "data.packing documents%s%s",
            shard[i].name, shard[i].format, packing, d->opening.note[0] ? "; " : "", d->opening.note);
    ZR_CHECK(d->tokens->documents > to->first_document, ZR_ERR_DATA,
             "%s%s (%s): no record has a text; give records with one", shard->name,
             files->n > 1 ? " and the files after it" : "", shard->format);
    return divide_documents(d, to);
}

/* Divide the files that a source has, and check that the part has at least a sample. */
static zr_status take_part(zr_data *d, const zr__source_shards *files, source *to)
{
    const zr_data_part *part = &d->opening.args->part;
    const zr__shard *first = &d->tokens->shard[files->first];
    if (part->share == 0) return ZR_OK;
    ZR_TRY(zr__tokens_divide(d->tokens, files->first, part));
    to->tokens = d->tokens->total - to->begin;
    const zr__part_size records = {.name = first->name,
                                   .unit = "records",
                                   .has = d->tokens->documents - to->first_document,
                                   .all = d->tokens->all_documents - first->first_document,
                                   .least = 1};
    const zr__part_size tokens = {.name = first->name,
                                  .unit = "tokens",
                                  .has = to->tokens,
                                  .all = d->tokens->all - first->begin,
                                  .least = d->seq_length + 1};
    if (first->lines) ZR_TRY(zr__part_check(part, &records));
    return to->apart ? ZR_OK : zr__part_check(part, &tokens);
}

static zr_status add_source(zr_data *d, const zr__shards *shards, int64_t s)
{
    const zr__source_shards *from = &shards->source[s];
    source *to = &d->source[s];
    to->begin = d->tokens->total;
    to->first_document = d->tokens->documents;
    to->seed = s == 0 ? d->seed : zr__hash_join(d->seed, (uint64_t)s);
    for (int64_t i = from->first; i < from->first + from->n; i++) {
        ZR_TRY(zr__tokens_add(d->tokens, &d->opening, shards->path[i]));
        if (from->n > 1) ZR_TRY(same_kind(&d->tokens->shard[from->first], &d->tokens->shard[i]));
    }
    to->tokens = d->tokens->total - to->begin;
    const zr__shard *first = &d->tokens->shard[from->first];
    const zr_data_packing packing = d->opening.args->packing;
    to->apart = packing == ZR_PACK_ONE || packing == ZR_PACK_WHOLE || (packing == ZR_PACK_AUTO && first->answers_only);
    ZR_TRY(take_part(d, from, to));
    if (to->apart) return set_documents(d, from, to);
    ZR_CHECK(to->tokens > d->seq_length, ZR_ERR_DATA,
             "%s%s: only %lld tokens (%s); at least %lld are needed (seq_length %lld and one more)", first->name,
             from->n > 1 ? " and the files after it" : "", (long long)to->tokens, first->format,
             (long long)d->seq_length + 1, (long long)d->seq_length);
    to->windows = (to->tokens - 1) / d->seq_length;
    int64_t shuffled = (to->tokens - d->seq_length) / d->seq_length;
    to->epoch_samples = d->order == ZR_SEQUENTIAL ? to->windows : shuffled > 1 ? shuffled : 1;
    d->windows += to->windows;
    return ZR_OK;
}

/* Return the source with the largest remainder: its exact share of a block minus the samples that it already has. If
 * several remainders are equal, return the first source. */
static int64_t most_wanting(const zr_data *d, const zr__shards *shards, double sum)
{
    int64_t most = 0;
    double wanting = -1;
    for (int64_t s = 0; s < d->sources; s++) {
        const double left = shards->source[s].weight / sum * ZR_DATA_MIX - (double)d->source[s].share;
        if (left > wanting) most = s;
        if (left > wanting) wanting = left;
    }
    return most;
}

/* Divide the ZR_DATA_MIX samples of a block among the sources by weight. Each source gets the integer part of its exact
 * share. The samples that are left go to the sources with the largest remainders. */
static zr_status share_block(zr_data *d, const zr__shards *shards)
{
    double sum = 0;
    int64_t given = 0, place = 0;
    for (int64_t s = 0; s < d->sources; s++) sum += shards->source[s].weight;
    ZR_CHECK(isfinite(sum), ZR_ERR_CONFIG,
             "%s and others: the sum of their weights, %g, is too large; give smaller weights", d->tokens->shard->name,
             sum);
    for (int64_t s = 0; s < d->sources; s++) {
        d->source[s].share = (int64_t)(shards->source[s].weight / sum * ZR_DATA_MIX);
        given += d->source[s].share;
    }
    for (; given < ZR_DATA_MIX; given++) d->source[most_wanting(d, shards, sum)].share++;
    for (int64_t s = 0; s < d->sources; s++) {
        const source *one = &d->source[s];
        ZR_CHECK(one->share > 0, ZR_ERR_CONFIG,
                 "%s: its weight, %g of %g in all, gives it less than one sample in %d; raise the weight, or leave the "
                 "file out",
                 d->tokens->shard[shards->source[s].first].name, shards->source[s].weight, sum, ZR_DATA_MIX);
        d->source[s].place = place;
        place += one->share;
    }
    return ZR_OK;
}

/* Find a sample's source, and the sample's index within that source. */
static zr_status find_source(const zr_data *d, int64_t sample, const source **found, int64_t *own)
{
    const int64_t block = sample / ZR_DATA_MIX;
    *found = d->source;
    *own = sample;
    if (d->sources == 1) return ZR_OK;
    ZR_CHECK(block <= UINT32_MAX, ZR_ERR_ARG,
             "sample %lld is in block %lld; the number of the block must be below 2^32", (long long)sample,
             (long long)block);
    const int64_t place = zr__order_mix(d->seed, (uint32_t)block, ZR_DATA_MIX, sample % ZR_DATA_MIX);
    while (place >= (*found)->place + (*found)->share) ++*found;
    *own = block * (*found)->share + place - (*found)->place;
    return ZR_OK;
}

/* Write a note about skipped lines. If no line was skipped, keep an earlier note about a suspicious text. */
static void note_skipped(zr_data *d)
{
    const zr__shard *first = NULL;
    int64_t lines = 0, files = 0;
    char others[48] = "";
    for (int64_t i = 0; i < d->tokens->n; i++) {
        const zr__shard *s = &d->tokens->shard[i];
        if (!first && s->skipped_lines > 0) first = s;
        files += s->skipped_lines > 0;
        lines += s->skipped_lines;
    }
    if (files > 1) snprintf(others, sizeof(others), " and others (%lld files)", (long long)files);
    if (first)
        snprintf(d->opening.note, sizeof(d->opening.note), "%s%s: %lld bad lines left out; the first is line %lld",
                 first->name, others, (long long)lines, (long long)first->first_skipped);
}

/* Write a note about documents that are longer than a sample. */
static void note_cut(zr_data *d)
{
    char lost[96] = "";
    if (d->lost > 0) snprintf(lost, sizeof(lost), "; %lld of these lose their whole answer", (long long)d->lost);
    if (d->cut > 0)
        snprintf(d->cut_note, sizeof(d->cut_note),
                 "%s: %lld of %lld documents are longer than data.seq_length %lld and are cut at their end%s",
                 d->tokens->shard->name, (long long)d->cut, (long long)d->tokens->documents, (long long)d->seq_length,
                 lost);
}

/* Print a number with commas between groups of three digits. */
static const char *with_commas(int64_t number, char out[32])
{
    char digits[24];
    const int n = snprintf(digits, sizeof(digits), "%lld", (long long)number);
    int used = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = '\0';
    return out;
}

/* Write a note about the forms of records: how many records of each form there are, and in which files. */
static void note_forms(zr_data *d)
{
    const zr__shard *all = d->tokens->shard;
    size_t used = 0;
    for (int64_t i = 0; i < d->tokens->n && used < sizeof(d->form_note); i++) {
        int64_t files = 0, records = 0, first = i;
        char others[48] = "", number[32];
        for (int64_t k = 0; k < d->tokens->n; k++) {
            if (strcmp(all[k].said, all[i].said) != 0) continue;
            if (k < first) first = k;
            files++;
            records += all[k].documents;
        }
        if (!all[i].said[0] || first < i) continue;
        if (files > 1) snprintf(others, sizeof(others), " and %lld more", (long long)files - 1);
        used += (size_t)snprintf(d->form_note + used, sizeof(d->form_note) - used, "%s%s%s: %s record%s of %s",
                                 used ? "; " : "", all[i].name, others, with_commas(records, number),
                                 records == 1 ? "" : "s", all[i].said);
    }
}

/* ---- the object ------------------------------------------------------------------------------ */

static zr_status open_sources(zr_data *d, const zr__shards *shards)
{
    d->sources = shards->sources;
    d->source = zr_alloc((size_t)d->sources * sizeof(*d->source));
    ZR_CHECK(d->source, ZR_ERR_MEMORY, "no memory for %lld sources of data", (long long)d->sources);
    ZR_TRY(zr__tokens_create(shards->n, d->opening.args->vocab_size, &d->tokens));
    for (int64_t s = 0; s < d->sources; s++) ZR_TRY(add_source(d, shards, s));
    ZR_TRY(share_block(d, shards));
    note_skipped(d);
    note_cut(d);
    note_forms(d);
    return ZR_OK;
}

/* Return the number of elements of a window of seq_length tokens. */
static int64_t window_numbers(int64_t seq_length, bool documents)
{
    return seq_length + 1 + (documents ? seq_length : 0);
}

static zr_status open_into(zr_data *d, const zr_data_args *args)
{
    ZR_AUTO(zr__shards_free) zr__shards shards = {0};
    const size_t tokens = (size_t)d->seq_length + 1;
    ZR_TRY(zr__text_copy(args->path, strlen(args->path), &d->path));
    if (args->tokenizer) ZR_TRY(zr_tokenizer_open(args->tokenizer, &d->opening.tokenizer));
    ZR_TRY(zr__shards_find(args->path, &shards));
    ZR_TRY(open_sources(d, &shards));
    d->stage = zr_alloc(tokens * sizeof(uint32_t)); /* a file stores a token in at most 4 bytes */
    d->window = zr_alloc((size_t)window_numbers(d->seq_length, d->documents) * sizeof(*d->window));
    ZR_CHECK(d->stage && d->window, ZR_ERR_MEMORY, "no memory to read %zu tokens of %s", tokens,
             d->tokens->shard->name);
    return ZR_OK;
}

zr_status zr__data_args_check(const char *path, int64_t vocab_size, int64_t seq_length, int64_t least,
                              zr_data_order order)
{
    ZR_CHECK(path, ZR_ERR_ARG, "no path of data was given");
    ZR_CHECK(vocab_size >= 1 && vocab_size <= INT32_MAX, ZR_ERR_ARG,
             "vocab_size is %lld; it must be from 1 to 2147483647", (long long)vocab_size);
    ZR_CHECK(seq_length >= least && seq_length < INT32_MAX, ZR_ERR_ARG,
             "seq_length is %lld; it must be from %lld to 2147483646", (long long)seq_length, (long long)least);
    ZR_CHECK(order == ZR_SEQUENTIAL || order == ZR_SHUFFLED, ZR_ERR_ARG, "%d is not a valid order of samples",
             (int)order);
    return ZR_OK;
}

zr_status zr_data_open_with(const zr_data_args *args, zr_data **out)
{
    ZR_TRY(zr__data_args_check(args->path, args->vocab_size, args->seq_length, 1, args->order));
    ZR_CHECK(args->token_bytes == 0 || args->token_bytes == 2 || args->token_bytes == 4, ZR_ERR_ARG,
             "token_bytes is %d; it must be 2 or 4, or 0 for the default", args->token_bytes);
    ZR_CHECK(args->loss_on >= ZR_LOSS_ON_ANSWERS && args->loss_on <= ZR_LOSS_ON_ALL, ZR_ERR_ARG,
             "%d is not a valid choice of targets", (int)args->loss_on);
    ZR_CHECK(args->packing >= ZR_PACK_AUTO && args->packing <= ZR_PACK_WHOLE, ZR_ERR_ARG, "%d is not a valid packing",
             (int)args->packing);
    ZR_AUTO(zr_data_close) zr_data *data = zr_alloc(sizeof(*data));
    ZR_CHECK(data, ZR_ERR_MEMORY, "no memory for %zu bytes of a data file", sizeof(*data));
    *data = (zr_data){.opening = {.args = args},
                      .seq_length = args->seq_length,
                      .order = args->order,
                      .seed = args->seed,
                      .documents = args->documents,
                      .held_out = args->part.share > 0 && args->part.held_out};
    ZR_TRY(open_into(data, args));
    data->opening.args = NULL; /* the caller may free args after this call */
    *out = ZR_TAKE(data);
    return ZR_OK;
}

zr_status zr_data_open(const char *path, const char *tokenizer, int64_t vocab_size, int64_t seq_length,
                       zr_data_order order, uint64_t seed, zr_data **out)
{
    const zr_data_args args = {.path = path,
                               .tokenizer = tokenizer,
                               .vocab_size = vocab_size,
                               .seq_length = seq_length,
                               .order = order,
                               .seed = seed};
    return zr_data_open_with(&args, out);
}

void zr_data_close(zr_data **data)
{
    if (!*data) return;
    zr__tokens_free(&(*data)->tokens);
    zr_tokenizer_close(&(*data)->opening.tokenizer);
    for (int64_t s = 0; (*data)->source && s < (*data)->sources; s++) zr_free((*data)->source[s].row);
    zr_free((*data)->source);
    zr_free((*data)->path);
    zr_free((*data)->stage);
    zr_free((*data)->window);
    zr_free(*data);
    *data = NULL;
}

zr_status zr__data_look(const char *path, bool as_text, bool *text, char *note, size_t size)
{
    ZR_AUTO(zr__shards_free) zr__shards shards = {0};
    char its[ZR__NOTE_BYTES] = "", first[ZR__NOTE_BYTES] = "";
    *text = false;
    ZR_TRY(zr__shards_find(path, &shards));
    for (int64_t i = 0; i < shards.n; i++) {
        bool one = false;
        zr__shape shape;
        ZR_TRY(zr__shard_is_text(shards.path[i], as_text, &one, &shape, its, sizeof(its)));
        if (!first[0]) memcpy(first, its, sizeof(first));
        *text = *text || one;
    }
    if (note) snprintf(note, size, "%s", first);
    return ZR_OK;
}

zr_data_info zr_data_get_info(const zr_data *data)
{
    zr_data_info info = {.path = data->path,
                         .format = data->tokens->shard->format,
                         .note = data->opening.note,
                         .cut = data->cut_note,
                         .form = data->form_note,
                         .made_again = data->opening.made_again,
                         .files = data->tokens->n,
                         .sources = data->sources,
                         .bytes = data->tokens->bytes,
                         .tokens = data->tokens->total,
                         .documents = data->tokens->documents,
                         .cut_documents = data->cut,
                         .lost_documents = data->lost,
                         .windows = data->windows,
                         .epoch_samples = data->source->epoch_samples};
    int64_t text_bytes = 0;
    for (int64_t i = 0; i < data->tokens->n; i++) {
        const zr__shard *s = &data->tokens->shard[i];
        text_bytes = text_bytes < 0 || s->text_bytes < 0 ? -1 : text_bytes + s->text_bytes;
        info.skipped_lines += s->skipped_lines;
        info.answers_only |= s->answers_only;
    }
    for (int64_t s = 0; data->sources > 1 && s < data->sources; s++) {
        const source *one = &data->source[s];
        const int64_t samples = (one->epoch_samples + one->share - 1) / one->share * ZR_DATA_MIX;
        if (s == 0 || samples > info.epoch_samples) info.epoch_samples = samples;
    }
    info.filled = 1 - (double)data->padding / ((double)data->windows * (double)data->seq_length);
    info.bytes_per_token = text_bytes > 0 ? (double)text_bytes / (double)data->tokens->all : 0;
    return info;
}

int64_t zr__data_memory_bytes(const zr_data *data)
{
    return data->tokens->range_room * (int64_t)sizeof(*data->tokens->range);
}

zr_status zr__data_check(const zr_data *data, uint64_t *hash, zr_progress_fn fn, void *arg)
{
    ZR_TRY(zr__tokens_check(data->tokens, hash, fn, arg));
    for (int64_t s = 0; hash && data->sources > 1 && s < data->sources; s++) {
        const source *one = &data->source[s];
        *hash = zr__hash_join(zr__hash_join(*hash, (uint64_t)one->tokens), (uint64_t)one->share);
    }
    return ZR_OK;
}

/* ---- windows --------------------------------------------------------------------------------- */

static void hand_over(zr_data *data, int32_t *tokens, int32_t *targets)
{
    const int32_t *window = data->window;
    data->read = true;
    for (int64_t i = 0; i < data->seq_length; i++) {
        tokens[i] = window[i] & ~ZR__IGNORED;
        targets[i] = window[i + 1] < 0 ? -1 : window[i + 1];
    }
}

/* Find where documents begin in the window of tokens [first, first + T). */
static zr_status find_documents(const zr_data *d, int64_t first, int32_t *begin)
{
    int64_t from = 0, end = first;
    for (int64_t i = 0; i < d->seq_length; i++) {
        if (first + i >= end) ZR_TRY(zr__tokens_find_document(d->tokens, first + i, &from, &end));
        begin[i] = from > first ? (int32_t)(from - first) : 0;
    }
    return ZR_OK;
}

static zr_status read_window(const zr_data *d, int64_t first, int32_t *window)
{
    ZR_TRY(zr__tokens_read(d->tokens, first, d->seq_length + 1, d->stage, window));
    return d->documents ? find_documents(d, first, window + d->seq_length + 1) : ZR_OK;
}

/* Record in a window that its tokens [from, to) are one document. */
static void mark_document(const zr_data *d, int64_t from, int64_t to, int32_t *window)
{
    const int64_t T = d->seq_length;
    for (int64_t i = from; d->documents && i < to && i < T; i++) window[T + 1 + i] = (int32_t)from;
}

/* Read the documents of a row into a window, and pad it. The first token of a document is no target, because no token
 * before it is in its document. A document has no tokens if the tokenizer drops all of its characters. */
static zr_status read_row(const zr_data *d, const source *from, int64_t row, int32_t *window)
{
    const int64_t T = d->seq_length, end = from->row ? from->row[row + 1] : row + 1;
    int64_t used = 0;
    zr__document_place place;
    for (int64_t i = from->row ? from->row[row] : row; i < end; i++) {
        ZR_TRY(zr__tokens_document(d->tokens, from->first_document + i, &place));
        const int64_t left = T + 1 - used, n = place.n < left ? place.n : left;
        ZR_TRY(zr__tokens_read(d->tokens, place.first, n, d->stage, window + used));
        if (n > 0) window[used] |= ZR__IGNORED;
        mark_document(d, used, used + n, window);
        used += n;
    }
    for (int64_t i = used; i <= T; i++) window[i] = ZR__IGNORED;
    mark_document(d, used, T, window);
    return ZR_OK;
}

/* Find a sample's source, and the number of its window within the source. `offset` receives the first token of window
 * 0. */
static zr_status find_window(const zr_data *data, int64_t sample, const source **from, int64_t *window, int64_t *offset)
{
    int64_t own = 0;
    ZR_CHECK(sample >= 0, ZR_ERR_ARG, "the sample number is %lld; it must be at least 0", (long long)sample);
    ZR_TRY(find_source(data, sample, from, &own));
    const source *s = *from;
    int64_t epoch = own / s->epoch_samples;
    *window = own % s->epoch_samples;
    *offset = 0;
    if (data->order == ZR_SEQUENTIAL) return ZR_OK;
    ZR_CHECK(epoch <= UINT32_MAX, ZR_ERR_ARG, "sample %lld is in epoch %lld; the epoch must be below 2^32",
             (long long)sample, (long long)epoch);
    int64_t room = s->tokens - data->seq_length; /* number of offsets at which a window can begin */
    if (!s->apart)
        *offset = zr__order_offset(s->seed, (uint32_t)epoch, room < data->seq_length ? room : data->seq_length);
    *window = zr__order_permute(s->seed, (uint32_t)epoch, s->epoch_samples, *window);
    return ZR_OK;
}

static zr_status read_sample(const zr_data *data, int64_t sample, int32_t *window)
{
    const source *from;
    int64_t i = 0, offset = 0;
    ZR_TRY(find_window(data, sample, &from, &i, &offset));
    if (from->apart) return read_row(data, from, i, window);
    return read_window(data, from->begin + offset + i * data->seq_length, window);
}

zr_status zr__data_locate(const zr_data *data, int64_t sample, int64_t *first_token)
{
    const source *from;
    int64_t i = 0, offset = 0;
    zr__document_place place;
    ZR_TRY(find_window(data, sample, &from, &i, &offset));
    const int64_t document = from->first_document + (from->row ? from->row[i] : i);
    if (from->apart) ZR_TRY(zr__tokens_document(data->tokens, document, &place));
    *first_token = from->apart ? place.first : from->begin + offset + i * data->seq_length;
    return ZR_OK;
}

zr_status zr_data_sample(zr_data *data, int64_t sample, int32_t *tokens, int32_t *targets)
{
    ZR_TRY(read_sample(data, sample, data->window));
    hand_over(data, tokens, targets);
    return ZR_OK;
}

zr_status zr_data_read(zr_data *data, int64_t first, int64_t n, int32_t *tokens)
{
    ZR_CHECK(first >= 0 && n >= 0 && n <= data->seq_length + 1 && first <= data->tokens->total - n, ZR_ERR_ARG,
             "cannot read %lld tokens from token %lld on: there are %lld tokens, and at most %lld can be read at once",
             (long long)n, (long long)first, (long long)data->tokens->total, (long long)data->seq_length + 1);
    ZR_TRY(zr__tokens_read(data->tokens, first, n, data->stage, tokens));
    for (int64_t i = 0; i < n; i++) tokens[i] &= ~ZR__IGNORED;
    return ZR_OK;
}

zr_status zr__data_document(const zr_data *data, int64_t document, int32_t **tokens, int64_t *room, int64_t *n)
{
    zr__document_place place;
    ZR_CHECK(document >= 0 && document < data->tokens->documents, ZR_ERR_ARG,
             "there is no record %lld: the data has %lld records", (long long)document + 1,
             (long long)data->tokens->documents);
    ZR_TRY(zr__tokens_document(data->tokens, document, &place));
    ZR_AUTO_FREE unsigned char *stage = zr_alloc((size_t)place.n * sizeof(**tokens) + 1);
    ZR_CHECK(stage, ZR_ERR_MEMORY, "no memory for a record of %lld tokens", (long long)place.n);
    ZR_GROW(*tokens, *room, place.n, "tokens of a record");
    *n = place.n;
    return zr__tokens_read(data->tokens, place.first, place.n, stage, *tokens);
}

zr_status zr_data_window(zr_data *data, int64_t window, int32_t *tokens, int32_t *targets)
{
    const source *from = data->source;
    ZR_CHECK(window >= 0 && window < data->windows, ZR_ERR_ARG, "there is no window %lld: the data has %lld windows",
             (long long)window, (long long)data->windows);
    /* An evaluation may read only the first windows, which must come from all parts of the data. */
    if (data->held_out) window = zr__order_permute(0, 0, data->windows, window);
    for (; window >= from->windows; from++) window -= from->windows;
    ZR_TRY(from->apart ? read_row(data, from, window, data->window)
                       : read_window(data, from->begin + window * data->seq_length, data->window));
    hand_over(data, tokens, targets);
    return ZR_OK;
}

zr_status zr_data_documents(const zr_data *data, int32_t *begin)
{
    ZR_CHECK(data->documents, ZR_ERR_STATE, "%s: it was opened without zr_data_args.documents", data->path);
    ZR_CHECK(data->read, ZR_ERR_STATE, "%s: no sample has been read yet", data->path);
    memcpy(begin, data->window + data->seq_length + 1, (size_t)data->seq_length * sizeof(*begin));
    return ZR_OK;
}
