#include "data/tokens/tokens.h"

#include "base/core/grow.h"
#include "base/number/sorted.h"
#include "data/tokens/cache.h"

#include <string.h>

enum { BLOCK = 64 }; /* number of tokens compared at once */

/* ---- which files are open -------------------------------------------------------------------- */

/* Close the least recently used file. */
static void close_oldest(zr__tokens *t)
{
    zr__open_shard *oldest = &t->open[0];
    for (int i = 1; i < t->n_open; i++)
        if (t->open[i].used < oldest->used) oldest = &t->open[i];
    zr__file_close(&t->shard[oldest->shard].file);
    *oldest = t->open[--t->n_open];
}

static void remember(zr__tokens *t, int64_t shard)
{
    if (t->n_open == ZR__OPEN_SHARDS) close_oldest(t);
    t->open[t->n_open++] = (zr__open_shard){shard, ++t->clock};
}

/* Open a file again. Keep the size and modification time of the first opening, so that a reader notices changes since
 * then. */
static zr_status open_again(zr__tokens *t, zr__file *file, const char *path)
{
    zr__file now;
    zr_status st = zr__file_open(path, false, &now);
    /* the process may have reached its limit on open files: close files and try again */
    for (; st != ZR_OK && t->n_open > 0; st = zr__file_open(path, false, &now)) close_oldest(t);
    if (st == ZR_ERR_NOT_FOUND) return ZR_FAIL(ZR_ERR_IO, "%s, while in use", zr_error_message());
    ZR_TRY(st);
    file->fd = now.fd;
    return ZR_OK;
}

static zr_status open_needed(zr__tokens *t, int64_t shard)
{
    zr__shard *s = &t->shard[shard];
    if (s->file.fd < 0) {
        ZR_TRY(open_again(t, &s->file, s->path));
        remember(t, shard);
        return ZR_OK;
    }
    for (int i = 0; i < t->n_open; i++)
        if (t->open[i].shard == shard) t->open[i].used = ++t->clock;
    return ZR_OK;
}

/* ---- make ------------------------------------------------------------------------------------ */

zr_status zr__tokens_create(int64_t shards, int64_t vocab_size, zr__tokens **tokens)
{
    zr__tokens *t = *tokens = zr_alloc(sizeof(*t));
    ZR_CHECK(t, ZR_ERR_MEMORY, "no memory for %zu bytes of token files", sizeof(*t));
    t->vocab_size = vocab_size;
    t->room = shards;
    t->shard = zr_alloc((size_t)shards * sizeof(*t->shard));
    ZR_CHECK(t->shard, ZR_ERR_MEMORY, "no memory for %lld token files", (long long)shards);
    return ZR_OK;
}

zr_status zr__tokens_add(zr__tokens *t, zr__opening *opening, const char *path)
{
    ZR_ASSERT(t->n < t->room);
    zr__shard *s = &t->shard[t->n];
    zr_status st = zr__shard_open(opening, path, s);
    /* The process may have reached its limit on open files: close files and try again. */
    if (st == ZR_ERR_IO && t->n_open > 0) {
        zr__shard_close(s);
        while (t->n_open > 0) close_oldest(t);
        st = zr__shard_open(opening, path, s);
    }
    if (st != ZR_OK) zr__shard_close(s);
    ZR_TRY(st);
    s->begin = t->all;
    t->all += s->tokens;
    t->total += s->tokens;
    t->bytes += s->file.bytes;
    s->first_document = t->all_documents;
    t->all_documents += s->documents;
    t->documents += s->documents;
    remember(t, t->n++);
    return ZR_OK;
}

void zr__tokens_free(zr__tokens **tokens)
{
    zr__tokens *t = *tokens;
    if (!t) return;
    for (int64_t i = 0; i < t->n; i++) zr__shard_close(&t->shard[i]);
    zr_free(t->shard);
    zr_free(t->range);
    zr_free(t);
    *tokens = NULL;
}

/* ---- read ------------------------------------------------------------------------------------ */

/* Return whether the shard holds the cached tokens of a text. */
static bool is_cached(const zr__shard *s)
{
    return strcmp(s->name, s->file.name) != 0;
}

static zr_status check_token(const zr__tokens *t, const zr__shard *s, int64_t position, uint32_t token)
{
    if (token < (uint64_t)t->vocab_size) return ZR_OK;
    const bool cached = is_cached(s);
    return ZR_FAIL(ZR_ERR_DATA, "%s: token %lld (byte %lld%s%s) is %u, which is not below vocab_size %lld (read as %s)",
                   s->name, (long long)position, (long long)(s->first_byte + position * s->token_bytes),
                   cached ? " of " : "", cached ? s->file.name : "", token, (long long)t->vocab_size, s->format);
}

/* Return the bit ZR__IGNORED of a stored token, which marks a token that the loss does not count. Return 0 if the file
 * marks no tokens. */
static uint32_t mark_of(const zr__shard *s, uint32_t token)
{
    return s->answers_only ? token & (uint32_t)ZR__IGNORED : 0;
}

static zr_status read_part(const zr__tokens *t, const zr__shard *s, int64_t first, int64_t n, unsigned char *stage,
                           int32_t *out)
{
    const int width = s->token_bytes;
    ZR_TRY(zr__file_read(&s->file, s->first_byte + first * width, stage, n * width, ZR_ERR_IO));
    ZR_TRY(zr__file_unchanged(&s->file)); /* check this after the read, to detect a change during the read */
    for (int64_t i = 0; i < n; i++) {
        const uint32_t token = (uint32_t)zr__le(stage + i * width, width), mark = mark_of(s, token);
        ZR_TRY(check_token(t, s, first + i, token & ~mark));
        out[i] = (int32_t)token;
    }
    return ZR_OK;
}

/* Find the range whose number at offset `at` (offsetof) is the last that is at most `number`. If everything is read,
 * return a range from 0. *end receives the number at which the next range begins, or `all` after the last range. */
static zr__token_range find_range(const zr__tokens *t, size_t at, int64_t number, int64_t all, int64_t *end)
{
    *end = all;
    if (!t->range) return (zr__token_range){0};
    const int64_t i = zr__sorted_below(t->range, t->ranges, sizeof(*t->range), at, number + 1) - 1;
    if (i + 1 < t->ranges) memcpy(end, (const char *)&t->range[i + 1] + at, sizeof(*end));
    return t->range[i];
}

/* Read n tokens of the files, beginning with number `first` of all their tokens. */
static zr_status read_files(zr__tokens *t, int64_t first, int64_t n, unsigned char *stage, int32_t *out)
{
    /* find the file with the first token: the last file that begins at or before this token */
    int64_t i = zr__sorted_below(t->shard, t->n, sizeof(zr__shard), offsetof(zr__shard, begin), first + 1) - 1;
    for (; n > 0; i++) {
        const zr__shard *s = &t->shard[i];
        const int64_t at = first - s->begin, left = s->tokens - at, some = n < left ? n : left;
        ZR_TRY(open_needed(t, i));
        ZR_TRY(read_part(t, s, at, some, stage, out));
        first += some;
        out += some;
        n -= some;
    }
    return ZR_OK;
}

zr_status zr__tokens_read(zr__tokens *t, int64_t first, int64_t n, unsigned char *stage, int32_t *out)
{
    ZR_ASSERT(first >= 0 && n >= 0 && first <= t->total - n);
    for (int64_t end, some; n > 0; first += some, out += some, n -= some) {
        const zr__token_range r = find_range(t, offsetof(zr__token_range, token), first, t->total, &end);
        some = end - first < n ? end - first : n;
        ZR_TRY(read_files(t, r.first + first - r.token, some, stage, out));
    }
    return ZR_OK;
}

/* ---- documents ------------------------------------------------------------------------------- */

/* Read n entries of a file's index, two numbers each; n is at most ZR__TOKENS_SIZES + 1. The file must be open. */
static zr_status read_index(const zr__shard *s, int64_t entry, int64_t n, int64_t *number)
{
    unsigned char stage[(ZR__TOKENS_SIZES + 1) * ZR__CACHE_DOCUMENT_BYTES];
    const int64_t index = s->first_byte + s->tokens * s->token_bytes;
    ZR_TRY(zr__file_read(&s->file, index + entry * ZR__CACHE_DOCUMENT_BYTES, stage, n * ZR__CACHE_DOCUMENT_BYTES,
                         ZR_ERR_IO));
    for (int64_t i = 0; i < 2 * n; i++) {
        number[i] = (int64_t)zr__le(stage + 8 * i, 8);
        ZR_CHECK(number[i] >= 0 && number[i] <= s->tokens, ZR_ERR_IO,
                 "%s: its index of documents is damaged; remove %s", s->name, s->file.name);
    }
    return zr__file_unchanged(&s->file);
}

/* Find document number `document` of the files. Its place is among all tokens of the files. */
static zr_status document_of_files(zr__tokens *t, int64_t document, zr__document_place *place)
{
    const int64_t i =
        zr__sorted_below(t->shard, t->n, sizeof(zr__shard), offsetof(zr__shard, first_document), document + 1) - 1;
    const zr__shard *s = &t->shard[i];
    const int64_t own = document - s->first_document, more = own + 1 < s->documents;
    int64_t number[4] = {0, 0, s->tokens, 0};
    ZR_TRY(open_needed(t, i));
    ZR_TRY(read_index(s, own, 1 + more, number));
    *place = (zr__document_place){s->begin + number[0], s->begin + number[1], number[2] - number[0]};
    ZR_CHECK(place->n >= 0, ZR_ERR_IO, "%s: its index of documents is damaged; remove %s", s->name, s->file.name);
    return ZR_OK;
}

zr_status zr__tokens_document(zr__tokens *t, int64_t document, zr__document_place *place)
{
    int64_t end;
    ZR_ASSERT(document >= 0 && document < t->documents);
    const zr__token_range r = find_range(t, offsetof(zr__token_range, document), document, t->documents, &end);
    ZR_TRY(document_of_files(t, r.first_document + document - r.document, place));
    place->first += r.token - r.first;
    place->answer += r.token - r.first;
    return ZR_OK;
}

zr_status zr__tokens_sizes(zr__tokens *t, int64_t shard, int64_t first, int64_t n, int64_t *size)
{
    const zr__shard *s = &t->shard[shard];
    const bool more = first + n < s->documents;
    int64_t number[2 * (ZR__TOKENS_SIZES + 1)];
    ZR_ASSERT(n <= ZR__TOKENS_SIZES && first + n <= s->documents);
    ZR_TRY(open_needed(t, shard));
    ZR_TRY(read_index(s, first, n + more, number));
    if (!more) number[2 * n] = s->tokens;
    for (int64_t i = 0; i < n; i++) {
        size[i] = number[2 * (i + 1)] - number[2 * i];
        ZR_CHECK(size[i] >= 0, ZR_ERR_IO, "%s: its index of documents is damaged; remove %s", s->name, s->file.name);
    }
    return ZR_OK;
}

/* Find the document of a token of the files. */
static zr_status find_in_files(zr__tokens *t, int64_t token, int64_t *begin, int64_t *end)
{
    const int64_t i = zr__sorted_below(t->shard, t->n, sizeof(zr__shard), offsetof(zr__shard, begin), token + 1) - 1;
    const zr__shard *s = &t->shard[i];
    int64_t low = 0, high = s->documents, number[2];
    *begin = s->begin;
    *end = s->begin + s->tokens;
    if (s->documents == 0) return ZR_OK;
    ZR_TRY(open_needed(t, i));
    /* The document is in [low, high). Each step halves this range. */
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        ZR_TRY(read_index(s, middle, 1, number));
        if (s->begin + number[0] > token) {
            high = middle;
            *end = s->begin + number[0];
        } else {
            low = middle;
            *begin = s->begin + number[0];
        }
    }
    return ZR_OK;
}

zr_status zr__tokens_find_document(zr__tokens *t, int64_t token, int64_t *begin, int64_t *end)
{
    int64_t next;
    const zr__token_range r = find_range(t, offsetof(zr__token_range, token), token, t->total, &next);
    ZR_TRY(find_in_files(t, r.first + token - r.token, begin, end));
    *begin += r.token - r.first;
    *end += r.token - r.first;
    if (*begin < r.token) *begin = r.token;
    if (*end > next) *end = next;
    return ZR_OK;
}

/* ---- a part ---------------------------------------------------------------------------------- */

/* Add tokens [first, end) of the files, which begin with document number `document` of the files, and have n. */
static zr_status add_range(zr__tokens *t, int64_t first, int64_t end, int64_t document, int64_t n)
{
    if (end == first && n == 0) return ZR_OK;
    ZR_GROW(t->range, t->range_room, t->ranges + 1, "parts of data");
    t->range[t->ranges++] = (zr__token_range){t->total, t->documents, first, document};
    t->total += end - first;
    t->documents += n;
    return ZR_OK;
}

/* Add the records of the files from the document `from` on that are in the part. */
static zr_status divide_records(zr__tokens *t, int64_t from, int64_t token, const zr_data_part *part)
{
    zr__document_place place;
    int64_t next = from;
    for (int64_t block = 0;; block++) {
        const int64_t held = from + zr__part_record(part->share, block);
        if (held >= t->all_documents) break;
        ZR_TRY(document_of_files(t, held, &place));
        ZR_TRY(part->held_out ? add_range(t, place.first, place.first + place.n, held, 1)
                              : add_range(t, token, place.first, next, held - next));
        token = place.first + place.n;
        next = held + 1;
    }
    return part->held_out ? ZR_OK : add_range(t, token, t->all, next, t->all_documents - next);
}

zr_status zr__tokens_divide(zr__tokens *t, int64_t shard, const zr_data_part *part)
{
    const zr__shard *s = &t->shard[shard];
    const int64_t all = t->all - s->begin, held = (int64_t)(part->share * (double)all + 0.5), at = t->all - held;
    t->total -= all;
    t->documents -= t->all_documents - s->first_document;
    if (s->lines) return divide_records(t, s->first_document, s->begin, part);
    return part->held_out ? add_range(t, at, t->all, 0, 0) : add_range(t, s->begin, at, 0, 0);
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Define a function that returns whether any token is at least `limit`. Blocks of constant length let the compiler
 * vectorise it. */
#define DEFINE_ANY_ABOVE(type)                                                                                         \
    static bool any_above_##type(const type *token, int64_t n, type limit)                                             \
    {                                                                                                                  \
        int64_t i = 0;                                                                                                 \
        type above = 0;                                                                                                \
        for (; i + BLOCK <= n && !above; i += BLOCK)                                                                   \
            for (int j = 0; j < BLOCK; j++) above |= (type)(token[i + j] >= limit);                                    \
        for (; i < n; i++) above |= (type)(token[i] >= limit);                                                         \
        return above;                                                                                                  \
    }
DEFINE_ANY_ABOVE(uint8_t)
DEFINE_ANY_ABOVE(uint16_t)
DEFINE_ANY_ABOVE(uint32_t)

/* Return whether no check is needed, since every value of the token type is below vocab_size. */
static bool all_are_tokens(const zr__tokens *t, const zr__shard *s)
{
    return t->vocab_size >> 8 * s->token_bytes;
}

static bool any_outside(const zr__tokens *t, const zr__shard *s, const unsigned char *tokens, int64_t n)
{
    int64_t limit = t->vocab_size;
    if (s->answers_only) return true; /* the caller looks at each token */
    if (all_are_tokens(t, s)) return false;
    if (s->token_bytes == 1) return any_above_uint8_t(tokens, n, (uint8_t)limit);
    if (s->token_bytes == 2) return any_above_uint16_t((const uint16_t *)(const void *)tokens, n, (uint16_t)limit);
    return any_above_uint32_t((const uint32_t *)(const void *)tokens, n, (uint32_t)limit);
}

typedef struct whole {
    const zr__tokens *tokens;
    const zr__shard *shard;
    int64_t before; /* bytes of the files before the current one */
    zr_progress_fn fn;
    void *arg;
} whole;

/* Check a piece of a file. Lengths of pieces and of the header are multiples of the token size. */
static zr_status check_piece(void *arg, int64_t at, const void *piece, int64_t bytes)
{
    const whole *w = arg;
    const zr__shard *s = w->shard;
    int width = s->token_bytes;
    int64_t skipped = at < s->first_byte ? s->first_byte - at : 0;
    const unsigned char *tokens = (const unsigned char *)piece + skipped;
    int64_t n = (bytes - skipped) / width, first = (at + skipped - s->first_byte) / width;
    if (n > s->tokens - first) n = s->tokens > first ? s->tokens - first : 0; /* an index may follow the tokens */
    bool outside = any_outside(w->tokens, s, tokens, n);
    for (int64_t i = 0; outside && i < n; i++) {
        const uint32_t token = (uint32_t)zr__le(tokens + i * width, width);
        ZR_TRY(check_token(w->tokens, s, first + i, token & ~mark_of(s, token)));
    }
    if (w->fn) w->fn(w->arg, w->before + at + bytes, w->tokens->bytes);
    return ZR_OK;
}

/* Check the tokens of a file. If cached tokens were read when the file was opened, do not read them again. */
static zr_status check_shard(zr__tokens *t, int64_t i, whole *w, bool hashed, uint64_t *hash)
{
    const zr__shard *s = w->shard = &t->shard[i];
    const bool cached = is_cached(s);
    if (!hashed && !cached && all_are_tokens(t, s)) return ZR_OK;
    *hash = s->hash;
    ZR_TRY(open_needed(t, i));
    if (cached && s->checked) return zr__file_unchanged(&s->file);
    /* Do not hash the header of a cache file, so that a run may resume with a cache file of another format version. */
    ZR_TRY(zr__file_pass_from(&s->file, cached ? s->first_byte : 0, check_piece, w, hashed || cached ? hash : NULL));
    ZR_CHECK(!cached || *hash == s->hash, ZR_ERR_DATA,
             "%s: its tokens in the cache are damaged; remove %s to have it tokenized again", s->name, s->file.name);
    return ZR_OK;
}

zr_status zr__tokens_check(zr__tokens *t, uint64_t *hash, zr_progress_fn fn, void *arg)
{
    whole w = {.tokens = t, .fn = fn, .arg = arg};
    for (int64_t i = 0; i < t->n; i++) {
        uint64_t its = 0;
        ZR_TRY(check_shard(t, i, &w, hash != NULL, &its));
        if (hash) *hash = i == 0 ? its : zr__hash_join(*hash, its);
        w.before += w.shard->file.bytes;
    }
    return ZR_OK;
}
