/* Tokenizers behind one table of functions; bytes is the only one. */
#include "zr/data.h"

#include <string.h>
#include <xxhash.h>

struct zr_tokenizer {
    const char *name;
    int64_t vocab;
    uint64_t hash;
    zr_status (*encode)(const char *text, int64_t bytes, int32_t *tokens, int64_t room, int64_t *n);
    void (*decode)(int32_t token, const char **text, int64_t *bytes); /* token is in the vocabulary */
};

enum { BYTES_VOCAB = 256 };

static zr_status bytes_encode(const char *text, int64_t bytes, int32_t *tokens, int64_t room, int64_t *n)
{
    ZR_CHECK(bytes <= room, ZR_ERR_ARG, "%lld tokens need as much room, have %lld", (long long)bytes, (long long)room);
    for (int64_t i = 0; i < bytes; i++) tokens[i] = (unsigned char)text[i];
    *n = bytes;
    return ZR_OK;
}

static void bytes_decode(int32_t token, const char **text, int64_t *bytes)
{
/* The text of a token is borrowed, so all 256 have a place: four rows of 64. */
#define ROW4(i) (char)(i), (char)((i) + 1), (char)((i) + 2), (char)((i) + 3)
#define ROW16(i) ROW4(i), ROW4((i) + 4), ROW4((i) + 8), ROW4((i) + 12)
#define ROW64(i) ROW16(i), ROW16((i) + 16), ROW16((i) + 32), ROW16((i) + 48)
    static const char all[BYTES_VOCAB] = {ROW64(0), ROW64(64), ROW64(128), ROW64(192)};
#undef ROW64
#undef ROW16
#undef ROW4
    *text = &all[token];
    *bytes = 1;
}

static const zr_tokenizer bytes_tokenizer = {
    .name = "bytes", .vocab = BYTES_VOCAB, .encode = bytes_encode, .decode = bytes_decode};

zr_status zr_tokenizer_open(const char *name, zr_tokenizer **tokenizer)
{
    zr_tokenizer *opened;
    ZR_CHECK(strcmp(name, bytes_tokenizer.name) == 0, ZR_ERR_UNSUPPORTED,
             "tokenizer \"%s\" is not built; this version has \"bytes\" (token files need no tokenizer)", name);
    opened = zr_alloc(sizeof(*opened));
    ZR_CHECK(opened, ZR_ERR_MEMORY, "%zu bytes for a tokenizer", sizeof(*opened));
    *opened = bytes_tokenizer;
    opened->hash = XXH3_64bits(name, strlen(name)); /* the name says all of it */
    *tokenizer = opened;
    return ZR_OK;
}

void zr_tokenizer_close(zr_tokenizer **tokenizer)
{
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

zr_status zr_tokenizer_encode(const zr_tokenizer *tokenizer, const char *text, int64_t bytes, int32_t *tokens,
                              int64_t room, int64_t *n)
{
    ZR_CHECK(bytes >= 0 && room >= 0, ZR_ERR_ARG, "%lld bytes into room for %lld tokens", (long long)bytes,
             (long long)room);
    ZR_TRY(tokenizer->encode(text, bytes, tokens, room, n));
    return ZR_OK;
}

zr_status zr_tokenizer_decode(const zr_tokenizer *tokenizer, int32_t token, const char **text, int64_t *bytes)
{
    ZR_CHECK(token >= 0 && token < tokenizer->vocab, ZR_ERR_ARG, "token %d is outside the vocabulary of %lld", token,
             (long long)tokenizer->vocab);
    tokenizer->decode(token, text, bytes);
    return ZR_OK;
}
