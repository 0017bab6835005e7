/* Byte-pair encoding: encoding a text as tokens. */
#include "data/tokenizer/bpe.h"

#include <string.h>
#include <xxhash.h>

enum {
    NONE = -1,
    KEPT_LEAST = 64, /* minimum number of slots in the hash table of merged pieces */
    KEPT_MOST = 1 << 15,
    KEPT_BYTES = 64, /* text bytes per slot of the hash table of merged pieces */
};

/* A piece that was merged before, and the range of its tokens in the output. */
typedef struct kept {
    const char *piece;
    int64_t bytes, token, n;
} kept;

/* Memory for a normalized text whose merged pieces are cached. */
typedef struct held {
    struct held *next;
    char text[];
} held;

typedef struct encoder {
    const zr__bpe *bpe;
    zr__matcher *matcher;
    const char *text; /* the whole text */
    int32_t *tokens;
    int64_t room, n;
    kept *kept; /* hash table of merged pieces; a new piece overwrites an old piece in the same slot */
    int64_t kept_mask;
    bool moves; /* whether the memory of pieces is overwritten (zr__split_moves) */
    zr__changing normalizing, spacing;
    held *held;
    int64_t at; /* position in the whole text, for messages */
} encoder;

static zr_status put_ids(encoder *e, const int32_t *tokens, int64_t n)
{
    ZR_CHECK(n <= e->room - e->n, ZR_ERR_ARG, "the text has more than %lld tokens, for which there is room",
             (long long)e->room);
    memcpy(e->tokens + e->n, tokens, (size_t)n * sizeof(*tokens));
    e->n += n;
    return ZR_OK;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Merge a piece, and append its tokens to the output. If the output has space for one token per byte, the tokens are
 * written there directly. */
static zr_status put_merged(encoder *e, const char *piece, int64_t bytes)
{
    int64_t n = 0;
    if (bytes <= e->room - e->n) {
        ZR_TRY(zr__bpe_merge_piece(e->bpe, piece, bytes, e->tokens + e->n, &n));
        e->n += n;
        return ZR_OK;
    }
    ZR_AUTO_FREE int32_t *apart = zr_alloc((size_t)bytes * sizeof(*apart));
    ZR_CHECK(apart, ZR_ERR_MEMORY, "no memory for the tokens of a piece of text of %lld bytes", (long long)bytes);
    ZR_TRY(zr__bpe_merge_piece(e->bpe, piece, bytes, apart, &n));
    return put_ids(e, apart, n);
}

/* Cache a piece whose memory is overwritten. Without memory for a copy, the piece is merged again next time. */
static zr_status keep_copy(kept *k, const char *piece, int64_t bytes, int64_t token, int64_t n)
{
    zr_free((char *)k->piece);
    *k = (kept){NULL, 0, 0, 0};
    char *copy = zr_alloc((size_t)bytes);
    if (!copy) return ZR_OK;
    memcpy(copy, piece, (size_t)bytes);
    *k = (kept){copy, bytes, token, n};
    return ZR_OK;
}

static zr_status put_piece(void *arg, const char *piece, int64_t bytes)
{
    encoder *e = arg;
    const zr__bpe *bpe = e->bpe;
    const uint64_t hash = XXH3_64bits(piece, (size_t)bytes);
    int32_t whole = zr__bpe_find_hashed(bpe, piece, bytes, hash);
    if (whole != NONE && (bpe->alone[whole] || bpe->ignore_merges)) return put_ids(e, &whole, 1);
    if (!e->kept) return put_merged(e, piece, bytes);
    kept *k = &e->kept[(int64_t)hash & e->kept_mask];
    if (k->bytes == bytes && memcmp(k->piece, piece, (size_t)bytes) == 0) return put_ids(e, e->tokens + k->token, k->n);
    int64_t first = e->n;
    ZR_TRY(put_merged(e, piece, bytes));
    if (e->moves) return keep_copy(k, piece, bytes, first, e->n - first);
    *k = (kept){piece, bytes, first, e->n - first};
    return ZR_OK;
}

static bool is_space(const char *text, int64_t at, int64_t bytes)
{
    const int64_t n = sizeof(ZR__BPE_SPACE) - 1;
    return at >= 0 && at + n <= bytes && memcmp(text + at, ZR__BPE_SPACE, (size_t)n) == 0;
}

/* Return the end of the piece that begins at `at`, for BPE by characters. */
static int64_t piece_end(const zr__bpe *bpe, const char *text, int64_t at, int64_t bytes)
{
    const int64_t space = sizeof(ZR__BPE_SPACE) - 1;
    if (bpe->pieces == ZR__PIECES_WHOLE) return bytes;
    if (bpe->lines_apart && text[at] == '\n') return at + 1;
    for (int64_t i = at + 1; i < bytes; i++) {
        if (text[i] == '\n' && bpe->lines_apart) return i;
        if (text[i] != ZR__BPE_SPACE[0] || !is_space(text, i, bytes)) continue;
        if (bpe->pieces == ZR__PIECES_EACH || i - at < space || !is_space(text, i - space, bytes)) return i;
    }
    return bytes;
}

static zr_status put_words(encoder *e, const char *text, int64_t bytes)
{
    zr__bert_word word = {0, 0};
    if (e->bpe->pieces == ZR__PIECES_BERT) {
        while (zr__bert_next(e->bpe->normalizer.bert, text, bytes, &word))
            ZR_TRY(put_piece(e, text + word.from, word.to - word.from));
        return ZR_OK;
    }
    for (int64_t at = 0, end = 0; at < bytes; at = end) {
        end = piece_end(e->bpe, text, at, bytes);
        ZR_TRY(put_piece(e, text + at, end - at));
    }
    return ZR_OK;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Copy a changed text if its pieces may be cached, since the next text overwrites it. */
static zr_status hold_text(encoder *e, zr__changed *changed, const char *original)
{
    if (!e->kept || changed->text == original || changed->bytes == 0) return ZR_OK;
    held *h = zr_alloc(sizeof(*h) + (size_t)changed->bytes);
    ZR_CHECK(h, ZR_ERR_MEMORY, "no memory for a normalized text of %lld bytes", (long long)changed->bytes);
    memcpy(h->text, changed->text, (size_t)changed->bytes);
    h->next = e->held;
    e->held = h;
    changed->text = h->text;
    return ZR_OK;
}

/* Encode a text without added tokens. */
static zr_status put_plain(encoder *e, const char *text, int64_t bytes, zr__begins begins)
{
    zr__changed changed;
    if (e->matcher) return zr__matcher_cut(e->matcher, text, bytes, begins, e->at);
    ZR_TRY(zr__changes_apply(&e->bpe->spaces, text, bytes, begins, &e->spacing, &changed));
    ZR_TRY(hold_text(e, &changed, text));
    return put_words(e, changed.text, changed.bytes);
}

/* Encode a text that may contain added tokens of the second search. */
static zr_status put_stretch(encoder *e, const char *original, int64_t original_bytes, zr__begins begins)
{
    zr__added_search search = {0, 0};
    zr__added_found found;
    zr__changed x;
    ZR_TRY(zr__changes_apply(&e->bpe->normalizer, original, original_bytes, begins, &e->normalizing, &x));
    ZR_TRY(hold_text(e, &x, original));
    for (int64_t done = 0; done < x.bytes; done = search.done) {
        const bool any = zr__added_next(&e->bpe->later, e->bpe->classes, x.text, x.bytes, &search, &found);
        const int64_t end = any ? found.from : x.bytes;
        if (done < end) ZR_TRY(put_plain(e, x.text + done, end - done, done == 0 ? begins : ZR__BEHIND));
        if (!any) break;
        ZR_TRY(put_ids(e, &found.added->token, 1));
    }
    return ZR_OK;
}

/* Encode a text. Added tokens divide it into stretches, which are encoded as separate texts. */
static zr_status put_text(encoder *e, const char *text, int64_t bytes, zr__begins begins)
{
    zr__added_search search = {0, 0};
    zr__added_found found;
    for (int64_t done = 0; done < bytes; done = search.done) {
        const bool any = zr__added_next(&e->bpe->added, e->bpe->classes, text, bytes, &search, &found);
        const int64_t end = any ? found.from : bytes;
        e->at = done;
        if (done < end) ZR_TRY(put_stretch(e, text + done, end - done, done == 0 ? begins : ZR__BEHIND));
        if (!any) break;
        ZR_TRY(put_ids(e, &found.added->token, 1));
    }
    return ZR_OK;
}

static void close_encoder(encoder *e)
{
    zr__matcher_close(&e->matcher);
    zr__changing_free(&e->normalizing);
    zr__changing_free(&e->spacing);
    for (held *h = e->held; h; h = e->held) {
        e->held = h->next;
        zr_free(h);
    }
    for (int64_t i = 0; e->kept && e->moves && i <= e->kept_mask; i++) zr_free((char *)e->kept[i].piece);
    zr_free(e->kept);
}

zr_status zr__bpe_encode(const zr__bpe *bpe, const char *text, int64_t bytes, bool continues, int32_t *tokens,
                         int64_t room, int64_t *n)
{
    encoder e = {.bpe = bpe, .text = text, .tokens = tokens, .room = room};
    int64_t pieces = KEPT_LEAST;
    while (pieces < KEPT_MOST && pieces < bytes / KEPT_BYTES) pieces *= 2;
    if (bytes > KEPT_LEAST * KEPT_BYTES)
        e.kept =
            zr_alloc((size_t)pieces * sizeof(*e.kept)); /* this table is optional; without it, encoding is slower */
    e.kept_mask = pieces - 1;
    e.moves = bpe->split && zr__split_moves(bpe->split);
    zr_status st = bpe->split ? zr__matcher_open(bpe->split, put_piece, &e, &e.matcher) : ZR_OK;
    if (st == ZR_OK) st = put_text(&e, text, bytes, continues ? ZR__CONTINUES : ZR__WHOLE_BEGIN);
    close_encoder(&e);
    *n = e.n;
    return st;
}

/* ---- cuts ------------------------------------------------------------------------------------ */

/* Return the offset of the last space after a character that is certainly neither white space nor the character that
 * replaces spaces. In BPE by characters, no merge crosses this place if pieces are words. In WordPiece no word contains
 * white space, so a line end is also a place to cut. */
static int64_t word_cut(const zr__bpe *bpe, const char *text, int64_t from, int64_t bytes)
{
    if (bpe->pieces == ZR__PIECES_WHOLE) return 0;
    const bool line_ends = bpe->pieces == ZR__PIECES_BERT;
    for (int64_t at = bytes - 1; at > 0 && at >= from; at--)
        if ((text[at] == ' ' || (line_ends && text[at] == '\n')) && zr__split_solid_before(text, at)) return at;
    return 0;
}

int64_t zr__bpe_cut(const zr__bpe *bpe, const char *text, int64_t from, int64_t bytes)
{
    if (bpe->uncut) return 0;
    for (int64_t at = bytes; at > 0;) {
        at = bpe->split ? zr__split_cut(bpe->split, text, from, at) : word_cut(bpe, text, from, at);
        if (at > 0 && !bpe->no_cut_behind[(unsigned char)text[at - 1]]) return at;
    }
    return 0;
}
