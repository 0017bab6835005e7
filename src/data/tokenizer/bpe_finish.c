/* Byte-pair encoding: tables that are computed from a tokenizer's files after reading them. */
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/wordpiece.h"

#include <string.h>
#include <xxhash.h>

/* ---- cuts ------------------------------------------------------------------------------------ */

/* Return whether a text cannot be cut because of an added token. Texts are cut before white space or ZR__BPE_SPACE that
 * follows another character. An added token must not contain this combination, or depend on the text before it. */
static bool forbids_cuts(const zr__added *a)
{
    const int64_t space = sizeof(ZR__BPE_SPACE) - 1;
    if ((a->single_word && (unsigned char)a->text[0] <= ' ')) return true;
    for (int64_t b = 1; b < a->bytes; b++) {
        if ((unsigned char)a->text[b] <= ' ') return true;
        if (b + space <= a->bytes && memcmp(a->text + b, ZR__BPE_SPACE, (size_t)space) == 0) return true;
    }
    return false;
}

/* Return whether the changes prepend something to the text after an added token. */
static bool prepends(const zr__changes *changes)
{
    for (int i = 0; i < changes->n; i++) {
        const zr__change *c = &changes->change[i];
        if (!c->first && (c->kind == ZR__PREPEND || c->kind == ZR__PREPEND_ABSENT)) return true;
    }
    return false;
}

static void index_added(zr__bpe *bpe, zr__added_list *list)
{
    zr__added_index(list);
    for (int64_t i = 0; i < list->n; i++) {
        const zr__added *a = &list->added[i];
        bpe->uncut = bpe->uncut || forbids_cuts(a);
        if (a->rstrip || prepends(&bpe->normalizer) || prepends(&bpe->spaces))
            bpe->no_cut_behind[(unsigned char)a->text[a->bytes - 1]] = true;
    }
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Return whether a token begins or ends with ZR__BPE_SPACE. */
static bool has_space(const zr__bpe *bpe, int32_t token, bool at_end)
{
    const int64_t n = sizeof(ZR__BPE_SPACE) - 1, bytes = zr__bpe_bytes(bpe, token);
    const int64_t at = at_end ? bpe->begin[token + 1] - n : bpe->begin[token];
    return bytes >= n && memcmp(bpe->text + at, ZR__BPE_SPACE, (size_t)n) == 0;
}

/* Return whether a token stands for one byte, such as "<0x0A>". */
static bool is_of_byte(const zr__bpe *bpe, int32_t token)
{
    if (zr__bpe_bytes(bpe, token) != ZR__BPE_BYTE_NAME) return false;
    for (int byte = 0; byte < ZR__BPE_BYTES; byte++)
        if (bpe->byte_token[byte] == token) return true;
    return false;
}

/* Choose the pieces of BPE by characters. Pieces are words if no merge joins a token that ends with another character
 * to a token that begins with ZR__BPE_SPACE. Words are short and often repeated, so merging them is much faster. */
static void choose_pieces(zr__bpe *bpe)
{
    const int64_t n = sizeof(ZR__BPE_SPACE) - 1;
    bool words = zr__bpe_find(bpe, ZR__BPE_SPACE, n) >= 0, bytes = bpe->byte_fallback;
    for (int byte = 0; byte < ZR__BPE_BYTES; byte++) bytes = bytes && bpe->byte_token[byte] >= 0;
    bpe->lines_apart = bytes && zr__bpe_find(bpe, "\n", 1) < 0;
    for (int64_t i = 0; i <= bpe->merge_mask; i++) {
        int32_t left = 0, right = 0;
        if (!zr__bpe_merge_at(bpe, i, &left, &right)) continue;
        words = words && (has_space(bpe, left, true) || !has_space(bpe, right, false));
        bpe->lines_apart = bpe->lines_apart && !is_of_byte(bpe, left) && !is_of_byte(bpe, right);
    }
    if (bpe->pieces == ZR__PIECES_WHOLE && words) bpe->pieces = ZR__PIECES_WORDS;
    bpe->lines_apart = bpe->lines_apart && bpe->pieces == ZR__PIECES_WORDS && !bpe->ignore_merges;
    if (bpe->ignore_merges && bpe->pieces == ZR__PIECES_WORDS) bpe->pieces = ZR__PIECES_WHOLE;
}

/* Return whether a change only produces ZR__BPE_SPACE, which is a single token. */
static bool makes_spaces(const zr__change *c)
{
    const bool prepends = c->kind == ZR__PREPEND || c->kind == ZR__PREPEND_ABSENT;
    if (!prepends && (c->kind != ZR__REPLACE || strcmp(c->from, " ") != 0)) return false;
    return strcmp(c->to, ZR__BPE_SPACE) == 0;
}

/* Compute the maximum number of tokens of a text. Each added token has at least one byte, and something may be
 * prepended to the text after it. */
static void bound_tokens(zr__bpe *bpe)
{
    bool simple = bpe->by_character && !bpe->split && zr__bpe_find(bpe, ZR__BPE_SPACE, sizeof(ZR__BPE_SPACE) - 1) >= 0;
    int64_t more = 0, prepended = 0, growth = 1;
    const zr__changes *all[] = {&bpe->normalizer, &bpe->spaces};
    bpe->growth = 1;
    if (bpe->pieces == ZR__PIECES_BERT) return; /* zr__bert_add makes no more characters than there are bytes */
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < all[k]->n; i++) {
            simple = simple && makes_spaces(&all[k]->change[i]);
            prepended += all[k]->change[i].kind == ZR__PREPEND || all[k]->change[i].kind == ZR__PREPEND_ABSENT;
        }
        growth *= zr__changes_growth(all[k], &more);
    }
    if (bpe->split) {
        const int64_t split = zr__split_growth(bpe->split, bpe->by_character && !bpe->byte_fallback);
        growth *= split;
        more *= split;
    }
    bpe->more = simple ? prepended : more;
    bpe->growth = (simple ? 1 : growth) + bpe->more;
}

/* ---- the hash -------------------------------------------------------------------------------- */

static uint64_t hash_more(uint64_t hash, const void *data, size_t bytes)
{
    return XXH3_64bits_withSeed(data, bytes, hash);
}

static uint64_t hash_added(uint64_t hash, const zr__added_list *list)
{
    for (int64_t i = 0; i < list->n; i++) {
        const zr__added *a = &list->added[i];
        const int32_t told[] = {a->token, a->later, a->single_word, a->lstrip, a->rstrip};
        hash = hash_more(hash_more(hash, told, sizeof(told)), a->text, (size_t)a->bytes);
    }
    return hash_more(hash, &list->n, sizeof(list->n));
}

static uint64_t hash_ends(uint64_t hash, const zr__bpe_ends *ends)
{
    const int64_t told[] = {ends->n_begin, ends->n_end, ends->separator};
    if (ends->n_begin > 0) hash = hash_more(hash, ends->begin, (size_t)ends->n_begin * sizeof(*ends->begin));
    if (ends->n_end > 0) hash = hash_more(hash, ends->end, (size_t)ends->n_end * sizeof(*ends->end));
    return hash_more(hash, told, sizeof(told));
}

/* Compute the tokenizer's hash from everything that affects tokens. */
static void hash_all(zr__bpe *bpe)
{
    const int32_t told[] = {bpe->ignore_merges, bpe->by_character, bpe->byte_fallback,
                            bpe->fuse_unk,      bpe->unknown,      (int32_t)bpe->pieces};
    uint64_t hash = bpe->split ? zr__split_hash(bpe->split) : 0;
    const uint64_t merges = zr__bpe_merges_hash(bpe);
    hash = hash_more(hash, bpe->begin, (size_t)(bpe->vocab + 1) * sizeof(*bpe->begin));
    hash = hash_more(hash, bpe->text, (size_t)bpe->begin[bpe->vocab]);
    hash = hash_more(hash, bpe->spelled, (size_t)bpe->vocab);
    hash = hash_more(hash, bpe->byte_token, sizeof(bpe->byte_token));
    hash = hash_more(hash, told, sizeof(told));
    hash = hash_more(hash, &merges, sizeof(merges));
    if (bpe->pieces == ZR__PIECES_BERT) hash = hash_more(hash, &bpe->most_characters, sizeof(bpe->most_characters));
    hash = zr__changes_hash(&bpe->spaces, zr__changes_hash(&bpe->normalizer, hash));
    hash = hash_added(hash_added(hash, &bpe->added), &bpe->later);
    bpe->hash = hash_ends(hash, &bpe->ends);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Compute bpe->alone: find the tokens whose names, when merged, give exactly the token itself. */
static zr_status find_alone(zr__bpe *bpe)
{
    int64_t longest = 1;
    for (int32_t token = 0; token < bpe->vocab; token++)
        if (zr__bpe_bytes(bpe, token) > longest) longest = zr__bpe_bytes(bpe, token);
    ZR_AUTO_FREE int32_t *tokens = zr_alloc((size_t)longest * sizeof(*tokens));
    ZR_CHECK(tokens, ZR_ERR_MEMORY, "no memory for a tokenizer");
    for (int32_t token = 0; token < bpe->vocab; token++) {
        int64_t n = 0;
        if (!bpe->spelled[token]) continue;
        ZR_TRY(zr__bpe_merge_piece(bpe, bpe->text + bpe->begin[token], zr__bpe_bytes(bpe, token), tokens, &n));
        bpe->alone[token] = n == 1 && tokens[0] == token;
    }
    return ZR_OK;
}

zr_status zr__bpe_finish(zr__bpe *bpe)
{
    if (bpe->pieces == ZR__PIECES_BERT) zr__wordpiece_finish(bpe);
    if (!bpe->ignore_merges) ZR_TRY(find_alone(bpe));
    bpe->uncut = !zr__changes_keep_cuts(&bpe->normalizer);
    if (bpe->by_character && bpe->pieces != ZR__PIECES_BERT) {
        choose_pieces(bpe);
        ZR_TRY(zr__bpe_say_tokens(bpe));
    }
    index_added(bpe, &bpe->added);
    index_added(bpe, &bpe->later);
    bound_tokens(bpe);
    hash_all(bpe);
    return ZR_OK;
}

void zr__bpe_free(zr__bpe *bpe)
{
    zr__split_close(&bpe->split);
    zr__classes_close(&bpe->classes);
    zr__changes_free(&bpe->normalizer);
    zr__changes_free(&bpe->spaces);
    zr__added_free(&bpe->added);
    zr__added_free(&bpe->later);
    zr_free(bpe->text);
    zr_free(bpe->begin);
    zr_free(bpe->spelled);
    zr_free(bpe->special);
    zr_free(bpe->alone);
    zr_free(bpe->said);
    zr_free(bpe->said_begin);
    for (int i = 0; i < bpe->n_saying; i++) {
        zr_free(bpe->saying[i].from);
        zr_free(bpe->saying[i].to);
    }
    zr_free(bpe->names);
    zr_free(bpe->merges);
    zr_free(bpe->ends.begin);
    zr_free(bpe->ends.end);
    *bpe = (zr__bpe){0};
}
