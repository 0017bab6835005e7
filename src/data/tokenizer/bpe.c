/* Byte-level BPE: encoding a text as tokens. */
#include "data/tokenizer/bpe.h"

#include "base/text/text.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum {
    NONE = -1,
    SHORT_BYTES = 128, /* maximum bytes of a piece that is merged without allocating memory */
    KEPT_LEAST = 64,   /* minimum number of slots in the hash table of merged pieces */
    KEPT_MOST = 1 << 15,
    KEPT_BYTES = 64, /* text bytes per slot of the hash table of merged pieces */
};
#define NEVER UINT32_MAX /* rank of a pair that has no merge */

typedef struct zr__bpe_merge {
    int32_t left, right; /* `left` is NONE in an empty slot */
    int32_t into;
    uint32_t rank;
} merge;

/* ---- tables ---------------------------------------------------------------------------------- */

static merge *merge_place(const zr__bpe *bpe, int32_t left, int32_t right)
{
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    int64_t slot = (int64_t)(pair * UINT64_C(0x9e3779b97f4a7c15) >> 32) & bpe->merge_mask;
    while (bpe->merges[slot].left != NONE && (bpe->merges[slot].left != left || bpe->merges[slot].right != right))
        slot = (slot + 1) & bpe->merge_mask;
    return &bpe->merges[slot];
}

static int64_t name_place(const zr__bpe *bpe, const char *text, int64_t bytes)
{
    int64_t slot = (int64_t)XXH3_64bits(text, (size_t)bytes) & bpe->name_mask;
    for (int32_t token = bpe->names[slot]; token != NONE; token = bpe->names[slot]) {
        if (zr__bpe_bytes(bpe, token) == bytes && !memcmp(bpe->text + bpe->begin[token], text, (size_t)bytes)) break;
        slot = (slot + 1) & bpe->name_mask;
    }
    return slot;
}

int32_t zr__bpe_find(const zr__bpe *bpe, const char *text, int64_t bytes)
{
    return bpe->names[name_place(bpe, text, bytes)];
}

/* Return the number of slots for a hash table of n entries: a power of two that is at least 2 n. */
static int64_t slots_for(int64_t n)
{
    int64_t slots = 16;
    while (slots < 2 * n) slots *= 2;
    return slots;
}

zr_status zr__bpe_take_tokens(zr__bpe *bpe, int64_t n, int64_t bytes)
{
    int64_t slots = slots_for(n);
    bpe->vocab = n;
    bpe->text = zr_alloc((size_t)bytes + 1);
    bpe->begin = zr_alloc((size_t)(n + 1) * sizeof(*bpe->begin));
    bpe->spelled = zr_alloc((size_t)n + 1);
    bpe->alone = zr_alloc((size_t)n + 1);
    bpe->names = zr_alloc((size_t)slots * sizeof(*bpe->names));
    ZR_CHECK(bpe->text && bpe->begin && bpe->spelled && bpe->alone && bpe->names, ZR_ERR_MEMORY,
             "no memory for a vocabulary of %lld tokens", (long long)n);
    bpe->name_mask = slots - 1;
    for (int64_t i = 0; i < slots; i++) bpe->names[i] = NONE;
    return ZR_OK;
}

void zr__bpe_name_tokens(zr__bpe *bpe)
{
    for (int32_t token = 0; token < bpe->vocab; token++)
        if (bpe->spelled[token])
            bpe->names[name_place(bpe, bpe->text + bpe->begin[token], zr__bpe_bytes(bpe, token))] = token;
}

zr_status zr__bpe_take_merges(zr__bpe *bpe, int64_t n)
{
    int64_t slots = slots_for(n);
    bpe->merges = zr_alloc((size_t)slots * sizeof(*bpe->merges));
    ZR_CHECK(bpe->merges, ZR_ERR_MEMORY, "no memory for %lld merges", (long long)n);
    bpe->merge_mask = slots - 1;
    for (int64_t i = 0; i < slots; i++) bpe->merges[i].left = NONE;
    return ZR_OK;
}

void zr__bpe_merge(zr__bpe *bpe, int32_t left, int32_t right, int32_t into, uint32_t rank)
{
    *merge_place(bpe, left, right) = (merge){left, right, into, rank};
}

/* ---- merging --------------------------------------------------------------------------------- */

/* A token of a piece during merging. Tokens that are not merged away form a doubly linked list. */
typedef struct symbol {
    int32_t token, before, behind;
    int32_t into;  /* token that results from a merge with the next symbol */
    uint32_t rank; /* rank of that merge; NEVER if there is no merge or this symbol is merged away */
} symbol;

/* State of merging one piece, with a heap of the possible merges. The upper half of a heap key is the merge's rank, the
 * lower half is the index of its left symbol. A later merge may make an entry invalid. The entry then stays in the
 * heap, and is later ignored because its rank differs from the rank of its symbol. */
typedef struct merger {
    const zr__bpe *bpe;
    symbol *at;
    uint64_t *heap;
    int64_t n_heap;
} merger;

static void heap_push(merger *m, uint64_t key)
{
    int64_t i = m->n_heap++;
    for (; i > 0 && m->heap[(i - 1) / 2] > key; i = (i - 1) / 2) m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = key;
}

static uint64_t heap_pop(merger *m)
{
    uint64_t top = m->heap[0], last = m->heap[--m->n_heap];
    int64_t i = 0;
    for (int64_t child = 1; child < m->n_heap; child = 2 * i + 1) {
        if (child + 1 < m->n_heap && m->heap[child + 1] < m->heap[child]) child++;
        if (m->heap[child] >= last) break;
        m->heap[i] = m->heap[child];
        i = child;
    }
    m->heap[i] = last;
    return top;
}

/* Find the merge of symbol i with the next symbol. If there is one, add it to the heap. */
static void find_merge(merger *m, int32_t i)
{
    symbol *s = &m->at[i];
    s->rank = NEVER;
    if (s->behind == NONE) return;
    const merge *found = merge_place(m->bpe, s->token, m->at[s->behind].token);
    if (found->left == NONE) return;
    s->rank = found->rank;
    s->into = found->into;
    heap_push(m, (uint64_t)s->rank << 32 | (uint32_t)i);
}

static void merge_at(merger *m, int32_t i)
{
    symbol *s = &m->at[i], *gone = &m->at[s->behind];
    s->token = s->into;
    s->behind = gone->behind;
    gone->rank = NEVER;
    if (s->behind != NONE) m->at[s->behind].before = i;
    find_merge(m, i);
    if (s->before != NONE) find_merge(m, s->before);
}

static int64_t merge_all(merger *m, const char *piece, int32_t bytes, int32_t *tokens)
{
    int64_t n = 0;
    for (int32_t i = 0; i < bytes; i++) {
        m->at[i] = (symbol){.token = m->bpe->byte_token[(unsigned char)piece[i]], .before = i - 1, .behind = i + 1};
        if (i + 1 == bytes) m->at[i].behind = NONE;
    }
    for (int32_t i = 0; i < bytes; i++) find_merge(m, i);
    while (m->n_heap > 0) {
        uint64_t key = heap_pop(m);
        int32_t i = (int32_t)(uint32_t)key;
        if (m->at[i].rank == key >> 32) merge_at(m, i);
    }
    for (int32_t i = 0; i != NONE; i = m->at[i].behind) tokens[n++] = m->at[i].token;
    return n;
}

/* Maximum number of heap entries. Every symbol adds one at first, and every merge adds at most two. There are fewer
 * merges than symbols. */
#define HEAP_ROOM(bytes) (3 * (bytes))

/* Compute the tokens of a piece by merges alone, without looking up the whole piece. `tokens` needs space for `bytes`
 * tokens. */
static zr_status merge_piece(const zr__bpe *bpe, const char *piece, int64_t bytes, int32_t *tokens, int64_t *n)
{
    symbol few[SHORT_BYTES];
    uint64_t few_keys[HEAP_ROOM(SHORT_BYTES)];
    merger m = {bpe, few, few_keys, 0};
    char *memory = NULL;
    ZR_CHECK(bytes <= INT32_MAX, ZR_ERR_DATA, "the text has %lld bytes without a place to split them; the limit is %d",
             (long long)bytes, INT32_MAX);
    if (bytes > SHORT_BYTES) {
        size_t keys = HEAP_ROOM((size_t)bytes) * sizeof(*m.heap);
        memory = zr_alloc(keys + (size_t)bytes * sizeof(*m.at));
        ZR_CHECK(memory, ZR_ERR_MEMORY, "no memory for a piece of text of %lld bytes", (long long)bytes);
        m.heap = (uint64_t *)(void *)memory;
        m.at = (symbol *)(void *)(memory + keys);
    }
    *n = merge_all(&m, piece, (int32_t)bytes, tokens);
    zr_free(memory);
    return ZR_OK;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* A piece that was merged before: its range in the text, and the range of its tokens in the output. */
typedef struct kept {
    int64_t at, bytes, token, n;
} kept;

typedef struct encoder {
    const zr__bpe *bpe;
    zr__matcher *matcher;
    const char *text;
    int32_t *tokens;
    int64_t room, n;
    kept *kept; /* hash table of merged pieces; a new piece overwrites an old piece in the same slot */
    int64_t kept_mask;
} encoder;

static zr_status put_ids(encoder *e, const int32_t *tokens, int64_t n)
{
    ZR_CHECK(n <= e->room - e->n, ZR_ERR_ARG, "the text has more than %lld tokens, for which there is room",
             (long long)e->room);
    memcpy(e->tokens + e->n, tokens, (size_t)n * sizeof(*tokens));
    e->n += n;
    return ZR_OK;
}

/* Merge a piece, and append its tokens to the output. If the output has space for one token per byte, the tokens are
 * written there directly. */
static zr_status put_merged(encoder *e, const char *piece, int64_t bytes)
{
    int64_t n = 0;
    if (bytes <= e->room - e->n) {
        ZR_TRY(merge_piece(e->bpe, piece, bytes, e->tokens + e->n, &n));
        e->n += n;
        return ZR_OK;
    }
    int32_t *apart = zr_alloc((size_t)bytes * sizeof(*apart));
    ZR_CHECK(apart, ZR_ERR_MEMORY, "no memory for the tokens of a piece of text of %lld bytes", (long long)bytes);
    zr_status st = merge_piece(e->bpe, piece, bytes, apart, &n);
    if (st == ZR_OK) st = put_ids(e, apart, n);
    zr_free(apart);
    return st;
}

static zr_status put_piece(void *arg, const char *piece, int64_t bytes)
{
    encoder *e = arg;
    const zr__bpe *bpe = e->bpe;
    int32_t whole = zr__bpe_find(bpe, piece, bytes);
    if (whole != NONE && (bpe->alone[whole] || bpe->ignore_merges)) return put_ids(e, &whole, 1);
    if (!e->kept) return put_merged(e, piece, bytes);
    kept *k = &e->kept[(int64_t)XXH3_64bits(piece, (size_t)bytes) & e->kept_mask];
    if (k->bytes == bytes && memcmp(e->text + k->at, piece, (size_t)bytes) == 0)
        return put_ids(e, e->tokens + k->token, k->n);
    int64_t first = e->n;
    ZR_TRY(put_merged(e, piece, bytes));
    *k = (kept){piece - e->text, bytes, first, e->n - first};
    return ZR_OK;
}

/* Return the first added token in the text, or NULL. If several begin at the same byte, return the longest. */
static const zr__bpe_added *next_added(const zr__bpe *bpe, bool later, const char *text, int64_t bytes, int64_t *at)
{
    for (*at = 0; *at < bytes; ++*at) {
        if (!bpe->begins[(unsigned char)text[*at]]) continue;
        for (int64_t i = 0; i < bpe->n_added; i++) {
            const zr__bpe_added *a = &bpe->added[i];
            int64_t length = zr__bpe_bytes(bpe, a->token);
            if (a->later == later && length <= bytes - *at &&
                memcmp(bpe->text + bpe->begin[a->token], text + *at, (size_t)length) == 0)
                return a;
        }
    }
    return NULL;
}

/* Encode a text. Added tokens divide it into stretches, which are encoded as separate texts. */
static zr_status put_text(encoder *e, bool later, const char *text, int64_t bytes)
{
    while (bytes > 0) {
        int64_t plain = bytes, length = 0;
        const zr__bpe_added *a = e->bpe->n_added ? next_added(e->bpe, later, text, bytes, &plain) : NULL;
        if (!later && e->bpe->has_later)
            ZR_TRY(put_text(e, true, text, plain));
        else if (plain > 0)
            ZR_TRY(zr__matcher_cut(e->matcher, text, plain));
        if (a) {
            length = zr__bpe_bytes(e->bpe, a->token);
            ZR_TRY(put_ids(e, &a->token, 1));
        }
        text += plain + length;
        bytes -= plain + length;
    }
    return ZR_OK;
}

zr_status zr__bpe_encode(const zr__bpe *bpe, const char *text, int64_t bytes, int32_t *tokens, int64_t room, int64_t *n)
{
    encoder e = {.bpe = bpe, .text = text, .tokens = tokens, .room = room};
    int64_t pieces = KEPT_LEAST;
    while (pieces < KEPT_MOST && pieces < bytes / KEPT_BYTES) pieces *= 2;
    if (bytes > KEPT_LEAST * KEPT_BYTES)
        e.kept = zr_alloc((size_t)pieces * sizeof(*e.kept)); /* optional: without this table, encoding is slower */
    e.kept_mask = pieces - 1;
    zr_status st = zr__matcher_open(bpe->split, text, put_piece, &e, &e.matcher);
    if (st == ZR_OK) st = put_text(&e, false, text, bytes);
    zr__matcher_close(&e.matcher);
    zr_free(e.kept);
    *n = e.n;
    return st;
}

int64_t zr__bpe_cut(const zr__bpe *bpe, const char *text, int64_t from, int64_t bytes)
{
    return bpe->spaced ? 0 : zr__split_cut(bpe->split, text, from, bytes);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int longer_first(const void *a, const void *b, void *arg)
{
    const zr__bpe *bpe = arg;
    const zr__bpe_added *x = a, *y = b;
    int64_t n = zr__bpe_bytes(bpe, x->token), m = zr__bpe_bytes(bpe, y->token);
    return n != m ? (n < m) - (n > m) : (x->token > y->token) - (x->token < y->token);
}

static void order_added(zr__bpe *bpe)
{
    if (bpe->n_added) qsort_r(bpe->added, (size_t)bpe->n_added, sizeof(*bpe->added), longer_first, bpe);
    for (int64_t i = 0; i < bpe->n_added; i++) {
        const char *text = bpe->text + bpe->begin[bpe->added[i].token];
        bpe->begins[(unsigned char)text[0]] = true;
        bpe->has_later = bpe->has_later || bpe->added[i].later;
        for (int64_t b = 1; b < zr__bpe_bytes(bpe, bpe->added[i].token); b++)
            bpe->spaced = bpe->spaced || (unsigned char)text[b] <= ' ';
    }
}

static uint64_t hash_more(uint64_t hash, const void *data, size_t bytes)
{
    return XXH3_64bits_withSeed(data, bytes, hash);
}

/* Compute the tokenizer's hash. The table of merges has an arbitrary order, so each merge is hashed by itself and the
 * hashes are added. */
static void hash_all(zr__bpe *bpe)
{
    uint64_t hash = zr__split_hash(bpe->split), sum = 0;
    hash = hash_more(hash, bpe->begin, (size_t)(bpe->vocab + 1) * sizeof(*bpe->begin));
    hash = hash_more(hash, bpe->text, (size_t)bpe->begin[bpe->vocab]);
    hash = hash_more(hash, bpe->spelled, (size_t)bpe->vocab);
    hash = hash_more(hash, &bpe->ignore_merges, sizeof(bpe->ignore_merges));
    for (int64_t i = 0; i <= bpe->merge_mask; i++)
        if (bpe->merges[i].left != NONE) sum += XXH3_64bits(&bpe->merges[i], sizeof(bpe->merges[i]));
    hash = hash_more(hash, &sum, sizeof(sum));
    for (int64_t i = 0; i < bpe->n_added; i++) {
        const int32_t told[2] = {bpe->added[i].token, bpe->added[i].later};
        hash = hash_more(hash, told, sizeof(told));
    }
    bpe->hash = hash;
}

zr_status zr__bpe_finish(zr__bpe *bpe)
{
    int64_t longest = 1;
    for (int32_t token = 0; token < bpe->vocab; token++)
        if (zr__bpe_bytes(bpe, token) > longest) longest = zr__bpe_bytes(bpe, token);
    int32_t *tokens = zr_alloc((size_t)longest * sizeof(*tokens));
    ZR_CHECK(tokens, ZR_ERR_MEMORY, "no memory for a tokenizer");
    zr_status st = ZR_OK;
    for (int32_t token = 0; token < bpe->vocab && st == ZR_OK; token++) {
        int64_t n = 0;
        if (!bpe->spelled[token]) continue;
        st = merge_piece(bpe, bpe->text + bpe->begin[token], zr__bpe_bytes(bpe, token), tokens, &n);
        bpe->alone[token] = n == 1 && tokens[0] == token;
    }
    zr_free(tokens);
    ZR_TRY(st);
    order_added(bpe);
    hash_all(bpe);
    return ZR_OK;
}

void zr__bpe_free(zr__bpe *bpe)
{
    zr__split_close(&bpe->split);
    zr_free(bpe->text);
    zr_free(bpe->begin);
    zr_free(bpe->spelled);
    zr_free(bpe->alone);
    zr_free(bpe->names);
    zr_free(bpe->merges);
    zr_free(bpe->added);
    *bpe = (zr__bpe){0};
}

/* ---- symbols --------------------------------------------------------------------------------- */

/* Bytes that are not printable are in three ranges: 0 to 32, 127 to 160, and 173. */
enum { OTHERS_LOW = 33, OTHERS_HIGH = 67, HIGH_FIRST = 127, HIGH_LAST = 160, SOFT_HYPHEN = 173 };

uint32_t zr__bpe_symbol(unsigned char byte)
{
    if (byte < OTHERS_LOW) return ZR__BPE_BYTES + byte;
    if (byte == SOFT_HYPHEN) return ZR__BPE_BYTES + OTHERS_HIGH;
    if (byte < HIGH_FIRST || byte > HIGH_LAST) return byte;
    return ZR__BPE_BYTES + OTHERS_LOW + (uint32_t)(byte - HIGH_FIRST);
}

/* Return the byte that a character represents in token names, or NONE if it represents no byte. */
static int byte_of(uint32_t character)
{
    if (character < ZR__BPE_BYTES) return zr__bpe_symbol((unsigned char)character) == character ? (int)character : NONE;
    int other = (int)character - ZR__BPE_BYTES;
    if (other < OTHERS_LOW) return other;
    if (other < OTHERS_HIGH) return other - OTHERS_LOW + HIGH_FIRST;
    return other == OTHERS_HIGH ? SOFT_HYPHEN : NONE;
}

int64_t zr__bpe_spell(const char *name, int64_t n, char *out)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < n; bytes++) {
        int64_t length = zr__text_utf8(name + i, n - i);
        unsigned char lead = (unsigned char)name[i];
        uint32_t character = length == 2 ? (lead & 0x1fu) << 6 | ((unsigned char)name[i + 1] & 0x3fu) : lead;
        int byte = length == 1 || length == 2 ? byte_of(character) : NONE;
        if (byte == NONE) return NONE;
        out[bytes] = (char)byte;
        i += length;
    }
    return bytes;
}
