/* Byte-pair encoding: the tables of a tokenizer, and the merging of a piece. */
#include "base/text/text.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/wordpiece.h"

#include <string.h>
#include <xxhash.h>

enum { NONE = -1, SHORT_BYTES = 128 /* maximum bytes of a piece that is merged without allocating memory */ };
#define NEVER UINT32_MAX /* rank of a pair that has no merge */

typedef struct zr__bpe_merge {
    int32_t left, right; /* left: NONE in an empty slot of the hash table */
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

static int64_t name_place(const zr__bpe *bpe, const char *text, int64_t bytes, uint64_t hash)
{
    int64_t slot = (int64_t)hash & bpe->name_mask;
    for (int32_t token = bpe->names[slot]; token != NONE; token = bpe->names[slot]) {
        if (zr__bpe_bytes(bpe, token) == bytes && !memcmp(bpe->text + bpe->begin[token], text, (size_t)bytes)) break;
        slot = (slot + 1) & bpe->name_mask;
    }
    return slot;
}

int32_t zr__bpe_find_hashed(const zr__bpe *bpe, const char *text, int64_t bytes, uint64_t hash)
{
    return bpe->names[name_place(bpe, text, bytes, hash)];
}

int32_t zr__bpe_find(const zr__bpe *bpe, const char *text, int64_t bytes)
{
    return zr__bpe_find_hashed(bpe, text, bytes, XXH3_64bits(text, (size_t)bytes));
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
    bpe->special = zr_alloc((size_t)n + 1);
    bpe->alone = zr_alloc((size_t)n + 1);
    bpe->names = zr_alloc((size_t)slots * sizeof(*bpe->names));
    ZR_CHECK(bpe->text && bpe->begin && bpe->spelled && bpe->special && bpe->alone && bpe->names, ZR_ERR_MEMORY,
             "no memory for a vocabulary of %lld tokens", (long long)n);
    bpe->name_mask = slots - 1;
    for (int64_t i = 0; i < slots; i++) bpe->names[i] = NONE;
    return ZR_OK;
}

void zr__bpe_name_tokens(zr__bpe *bpe)
{
    for (int32_t token = 0; token < bpe->vocab; token++) {
        const char *name = bpe->text + bpe->begin[token];
        const int64_t bytes = zr__bpe_bytes(bpe, token);
        if (bpe->spelled[token]) bpe->names[name_place(bpe, name, bytes, XXH3_64bits(name, (size_t)bytes))] = token;
    }
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

bool zr__bpe_merge_at(const zr__bpe *bpe, int64_t slot, int32_t *left, int32_t *right)
{
    *left = bpe->merges[slot].left;
    *right = bpe->merges[slot].right;
    return *left != NONE;
}

uint64_t zr__bpe_merges_hash(const zr__bpe *bpe)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i <= bpe->merge_mask; i++)
        if (bpe->merges[i].left != NONE) sum += XXH3_64bits(&bpe->merges[i], sizeof(bpe->merges[i]));
    return sum;
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

/* Append a symbol to the piece. */
static inline void put_symbol(merger *m, int32_t *n, int32_t token)
{
    m->at[*n] = (symbol){.token = token, .before = *n - 1, .behind = *n + 1};
    ++*n;
}

/* Append the tokens of the bytes of a character that is not in the vocabulary. Return false if a byte has no token. */
static bool put_bytes(merger *m, int32_t *n, const char *character, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++)
        if (m->bpe->byte_token[(unsigned char)character[i]] == NONE) return false;
    for (int64_t i = 0; i < bytes; i++) put_symbol(m, n, m->bpe->byte_token[(unsigned char)character[i]]);
    return true;
}

/* Divide a piece into characters, or into bytes, some without a token. As in the package `tokenizers`, the token for an
 * unknown character is appended only when the next character of the vocabulary follows, but byte tokens are appended at
 * once. */
static int32_t put_characters(merger *m, const char *piece, int32_t bytes)
{
    const zr__bpe *bpe = m->bpe;
    int32_t n = 0;
    bool waits = false;
    for (int64_t i = 0, length = 0; i < bytes; i += length) {
        length = bpe->by_character ? zr__text_utf8(piece + i, bytes - i) : 1;
        if (length == 0) length = 1;
        const int32_t token =
            bpe->by_character ? zr__bpe_find(bpe, piece + i, length) : bpe->byte_token[(unsigned char)piece[i]];
        if (token == NONE && bpe->byte_fallback && put_bytes(m, &n, piece + i, length)) continue;
        if (waits && (token != NONE || !bpe->fuse_unk)) put_symbol(m, &n, bpe->unknown);
        waits = token == NONE && bpe->unknown != NONE;
        if (token != NONE) put_symbol(m, &n, token);
    }
    if (waits) put_symbol(m, &n, bpe->unknown);
    return n;
}

static int32_t put_symbols(merger *m, const char *piece, int32_t bytes)
{
    int32_t n = 0;
    if (m->bpe->by_character || m->bpe->lacks_bytes) return put_characters(m, piece, bytes);
    for (int32_t i = 0; i < bytes; i++) put_symbol(m, &n, m->bpe->byte_token[(unsigned char)piece[i]]);
    return n;
}

static int64_t merge_all(merger *m, const char *piece, int32_t bytes, int32_t *tokens)
{
    const int32_t symbols = put_symbols(m, piece, bytes);
    int64_t n = 0;
    if (symbols == 0) return 0;
    m->at[symbols - 1].behind = NONE;
    for (int32_t i = 0; i < symbols; i++) find_merge(m, i);
    while (m->n_heap > 0) {
        uint64_t key = heap_pop(m);
        int32_t i = (int32_t)(uint32_t)key;
        if (m->at[i].rank == key >> 32) merge_at(m, i);
    }
    for (int32_t i = 0; i != NONE; i = m->at[i].behind) tokens[n++] = m->at[i].token;
    return n;
}

/* Maximum number of heap entries. At first, every symbol adds an entry. Every merge adds at most two. There are fewer
 * merges than symbols. */
#define HEAP_ROOM(bytes) (3 * (bytes))

zr_status zr__bpe_merge_piece(const zr__bpe *bpe, const char *piece, int64_t bytes, int32_t *tokens, int64_t *n)
{
    symbol few[SHORT_BYTES];
    uint64_t few_keys[HEAP_ROOM(SHORT_BYTES)];
    merger m = {bpe, few, few_keys, 0};
    ZR_AUTO_FREE char *memory = NULL;
    if (bpe->pieces == ZR__PIECES_BERT) return zr__wordpiece_word(bpe, piece, bytes, tokens, n);
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
    return ZR_OK;
}
