/* Tokenizers: "bytes", and the tokenizers of bpe.h. */
#include "data/tokenizer/tokenizer.h"

#include "base/text/text.h"
#include "data/tokenizer/bpe.h"
#include "zr/data.h"

#include <string.h>
#include <xxhash.h>

enum { ZR__TOKEN_MOST = 64 }; /* maximum bytes of a text for zr_tokenizer_token */

struct zr_tokenizer {
    bool is_bytes;
    char *name;
    int64_t vocab;
    uint64_t hash;
    zr__bpe bpe; /* tables of a BPE tokenizer; unused by "bytes" */
};

/* ---- bytes ----------------------------------------------------------------------------------- */

static zr_status bytes_encode(const char *text, int64_t bytes, int32_t *tokens, int64_t room, int64_t *n)
{
    ZR_CHECK(bytes <= room, ZR_ERR_ARG, "there is too little room for %lld tokens: %lld", (long long)bytes,
             (long long)room);
    for (int64_t i = 0; i < bytes; i++) tokens[i] = (unsigned char)text[i];
    *n = bytes;
    return ZR_OK;
}

static const char *text_of_byte(int32_t token)
{
/* Texts of the 256 byte tokens, in four rows of 64. They are stored because callers borrow the text of a token. */
#define ROW4(i) (char)(i), (char)((i) + 1), (char)((i) + 2), (char)((i) + 3)
#define ROW16(i) ROW4(i), ROW4((i) + 4), ROW4((i) + 8), ROW4((i) + 12)
#define ROW64(i) ROW16(i), ROW16((i) + 16), ROW16((i) + 32), ROW16((i) + 48)
    static const char all[ZR__BYTES_VOCAB] = {ROW64(0), ROW64(64), ROW64(128), ROW64(192)};
#undef ROW64
#undef ROW16
#undef ROW4
    return &all[token];
}

zr_status zr__tokenizer_bytes_json(char **json)
{
    char text[ZR__BYTES_VOCAB];
    int64_t end[ZR__BYTES_VOCAB];
    for (int i = 0; i < ZR__BYTES_VOCAB; i++) {
        text[i] = (char)i;
        end[i] = i + 1;
    }
    const zr__bpe_told told = {.text = text, .end = end, .tokens = ZR__BYTES_VOCAB};
    return zr__bpe_print(&told, json);
}

/* ---- the object ------------------------------------------------------------------------------ */

static zr_status open_into(zr_tokenizer *tokenizer, const char *name)
{
    ZR_TRY(zr__text_copy(name, strlen(name), &tokenizer->name));
    tokenizer->is_bytes = strcmp(name, "bytes") == 0;
    if (tokenizer->is_bytes) {
        tokenizer->vocab = ZR__BYTES_VOCAB;
        tokenizer->hash = XXH3_64bits(name, strlen(name)); /* the name alone determines the tokens, so hash the name */
        return ZR_OK;
    }
    ZR_TRY(zr__bpe_read(name, &tokenizer->bpe));
    tokenizer->vocab = tokenizer->bpe.vocab;
    tokenizer->hash = tokenizer->bpe.hash;
    return ZR_OK;
}

zr_status zr_tokenizer_open(const char *name, zr_tokenizer **tokenizer)
{
    ZR_AUTO(zr_tokenizer_close) zr_tokenizer *opened = zr_alloc(sizeof(*opened));
    ZR_CHECK(opened, ZR_ERR_MEMORY, "no memory for %zu bytes of a tokenizer", sizeof(*opened));
    ZR_TRY(open_into(opened, name));
    *tokenizer = ZR_TAKE(opened);
    return ZR_OK;
}

void zr_tokenizer_close(zr_tokenizer **tokenizer)
{
    if (!*tokenizer) return;
    zr__bpe_free(&(*tokenizer)->bpe);
    zr_free((*tokenizer)->name);
    zr_free(*tokenizer);
    *tokenizer = NULL;
}

const char *zr_tokenizer_name(const zr_tokenizer *tokenizer)
{
    return tokenizer->name;
}

int64_t zr_tokenizer_vocab(const zr_tokenizer *tokenizer)
{
    return tokenizer->vocab;
}

uint64_t zr_tokenizer_hash(const zr_tokenizer *tokenizer)
{
    return tokenizer->hash;
}

zr_status zr__tokenizer_encode(const zr_tokenizer *tokenizer, const char *text, int64_t bytes, bool continues,
                               int32_t *tokens, int64_t room, int64_t *n)
{
    ZR_CHECK(bytes >= 0 && room >= 0, ZR_ERR_ARG, "cannot tokenize %lld bytes into room for %lld tokens",
             (long long)bytes, (long long)room);
    return tokenizer->is_bytes ? bytes_encode(text, bytes, tokens, room, n)
                               : zr__bpe_encode(&tokenizer->bpe, text, bytes, continues, tokens, room, n);
}

zr_status zr_tokenizer_encode(const zr_tokenizer *tokenizer, const char *text, int64_t bytes, int32_t *tokens,
                              int64_t room, int64_t *n)
{
    return zr__tokenizer_encode(tokenizer, text, bytes, false, tokens, room, n);
}

int64_t zr_tokenizer_room(const zr_tokenizer *tokenizer, int64_t bytes)
{
    return tokenizer->is_bytes ? bytes : tokenizer->bpe.growth * bytes + tokenizer->bpe.more;
}

int32_t zr_tokenizer_token(const zr_tokenizer *tokenizer, const char *text)
{
    int32_t tokens[8 * ZR__TOKEN_MOST];
    int64_t n = 0, bytes = (int64_t)strlen(text), room = sizeof(tokens) / sizeof(tokens[0]);
    /* Encode the text as the continuation of another text, so that no space is prepended. */
    if (bytes > ZR__TOKEN_MOST || zr__tokenizer_encode(tokenizer, text, bytes, true, tokens, room, &n) != ZR_OK)
        return -1;
    return n == 1 ? tokens[0] : -1;
}

zr_status zr__tokenizer_special(const zr_tokenizer *tokenizer, const char *name, int32_t *token)
{
    *token = zr_tokenizer_token(tokenizer, name);
    ZR_CHECK(*token >= 0, ZR_ERR_CONFIG,
             "the tokenizer %s has no special token %s, which the samples of an encoder need; give a tokenizer such as "
             "BERT's",
             ZR_SHOWN(zr_tokenizer_name(tokenizer)), name);
    return ZR_OK;
}

const char *zr__tokenizer_special_text(const zr_tokenizer *tokenizer, int64_t i)
{
    const zr__added_list *lists[] = {&tokenizer->bpe.added, &tokenizer->bpe.later};
    for (int k = 0; k < 2 && !tokenizer->is_bytes; k++)
        for (int64_t at = 0; at < lists[k]->n; at++)
            if (lists[k]->added[at].special && i-- == 0) return lists[k]->added[at].text;
    return NULL;
}

const zr__bert *zr__tokenizer_bert(const zr_tokenizer *tokenizer)
{
    return tokenizer->bpe.pieces == ZR__PIECES_BERT ? tokenizer->bpe.normalizer.bert : NULL;
}

zr_tokenizer_ends zr_tokenizer_get_ends(const zr_tokenizer *tokenizer)
{
    const zr__bpe_ends *ends = &tokenizer->bpe.ends;
    const int32_t end = zr_tokenizer_token(tokenizer, ZR_END_OF_TEXT);
    if (tokenizer->is_bytes) return (zr_tokenizer_ends){.separator = -1};
    return (zr_tokenizer_ends){.begin = ends->begin,
                               .n_begin = ends->n_begin,
                               .end = ends->end,
                               .n_end = ends->n_end,
                               .separator = end >= 0 ? end : ends->separator};
}

int32_t zr__tokenizer_separator(const zr_tokenizer *tokenizer)
{
    const zr_tokenizer_ends ends = zr_tokenizer_get_ends(tokenizer);
    if (ends.separator < 0) return ZR__NO_SEPARATOR;
    return ends.n_end > 0 && ends.end[ends.n_end - 1] == ends.separator ? -1 : ends.separator;
}

int64_t zr__tokenizer_cut(const zr_tokenizer *tokenizer, const char *text, int64_t from, int64_t bytes)
{
    if (tokenizer->is_bytes) return bytes > from && bytes > 0 ? bytes - 1 : 0;
    return zr__bpe_cut(&tokenizer->bpe, text, from, bytes);
}

zr_status zr_tokenizer_decode(const zr_tokenizer *tokenizer, int32_t token, const char **text, int64_t *bytes)
{
    const zr__bpe *bpe = &tokenizer->bpe;
    ZR_CHECK(token >= 0 && token < tokenizer->vocab, ZR_ERR_ARG, "token %d is outside the vocabulary of %lld", token,
             (long long)tokenizer->vocab);
    if (tokenizer->is_bytes) {
        *text = text_of_byte(token);
        *bytes = 1;
    } else if (bpe->said) {
        *text = bpe->said + bpe->said_begin[token];
        *bytes = bpe->said_begin[token + 1] - bpe->said_begin[token];
    } else {
        *text = bpe->text + bpe->begin[token];
        *bytes = zr__bpe_bytes(bpe, token);
    }
    return ZR_OK;
}

zr_status zr_tokenizer_text(const zr_tokenizer *tokenizer, const int32_t *tokens, int64_t n, bool special, char **text,
                            int64_t *bytes)
{
    for (int64_t i = 0; i < n; i++)
        ZR_CHECK(tokens[i] >= 0 && tokens[i] < tokenizer->vocab, ZR_ERR_ARG,
                 "token %d at position %lld is outside the vocabulary of %lld", tokens[i], (long long)i,
                 (long long)tokenizer->vocab);
    if (!tokenizer->is_bytes) return zr__bpe_decode(&tokenizer->bpe, tokens, n, special, text, bytes);
    zr__text all = {0}, out = {0};
    for (int64_t i = 0; i < n; i++) zr__text_append(&all, text_of_byte(tokens[i]), 1);
    if (all.data) zr__bpe_add_lossy(&out, all.data, (int64_t)all.length);
    out.failed |= all.failed;
    zr__text_clear(&all);
    *bytes = (int64_t)out.length;
    return zr__text_take(&out, text);
}
