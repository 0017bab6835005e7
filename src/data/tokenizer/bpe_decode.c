/* Byte-pair encoding: the text of tokens. */
#include "base/text/text.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/wordpiece.h"

#include <string.h>

static const char invalid[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Return the byte of a token such as "<0x0A>", or -1. */
static int byte_named(const char *name, int64_t bytes)
{
    int byte = 0;
    if (bytes != ZR__BPE_BYTE_NAME || memcmp(name, "<0x", 3) != 0 || name[5] != '>') return -1;
    for (int i = 3; i < 5; i++) {
        const char *digits = "0123456789ABCDEF0123456789abcdef", *digit = strchr(digits, name[i]);
        if (!name[i] || !digit) return -1;
        byte = byte * 16 + (int)(digit - digits) % 16;
    }
    return byte;
}

/* Append a name in which each ZR__BPE_SPACE is a space. */
static void add_spaced(zr__text *out, const char *name, int64_t bytes)
{
    const size_t n = sizeof(ZR__BPE_SPACE) - 1;
    const char *end = name + bytes;
    for (const char *at; (at = memmem(name, (size_t)(end - name), ZR__BPE_SPACE, n)); name = at + n) {
        zr__text_append(out, name, (size_t)(at - name));
        zr__text_append(out, " ", 1);
    }
    zr__text_append(out, name, (size_t)(end - name));
}

/* Append the text of a token. The text of an added token that is searched for in normalized text is normalized too. */
static void say_token(const zr__bpe *bpe, int32_t token, const zr__added *added, zr__text *said)
{
    const char *name = bpe->text + bpe->begin[token];
    const int byte = byte_named(name, zr__bpe_bytes(bpe, token));
    const char one = (char)byte;
    if (added)
        add_spaced(said, added->text, added->bytes);
    else if (byte >= 0)
        zr__text_append(said, &one, 1);
    else
        add_spaced(said, name, zr__bpe_bytes(bpe, token));
}

zr_status zr__bpe_say_tokens(zr__bpe *bpe)
{
    zr__text said = {0};
    const zr__added **added = zr_alloc((size_t)bpe->vocab * sizeof(*added));
    bpe->said_begin = zr_alloc((size_t)(bpe->vocab + 1) * sizeof(*bpe->said_begin));
    const bool made = added && bpe->said_begin;
    for (int64_t i = 0; made && i < bpe->later.n; i++) added[bpe->later.added[i].token] = &bpe->later.added[i];
    for (int32_t token = 0; made && token < bpe->vocab; token++) {
        say_token(bpe, token, added[token], &said);
        bpe->said_begin[token + 1] = (int64_t)said.length;
    }
    zr_free(added);
    ZR_CHECK(made, ZR_ERR_MEMORY, "no memory for the texts of %lld tokens", (long long)bpe->vocab);
    return zr__text_take(&said, &bpe->said);
}

/* ---- several tokens -------------------------------------------------------------------------- */

/* Return whether `byte` may be byte number i (from 1) of a UTF-8 character whose first byte is `lead`. */
static bool may_follow(unsigned char lead, int64_t i, unsigned char byte)
{
    unsigned char low = 0x80, high = 0xbf;
    if (i == 1 && lead == 0xe0) low = 0xa0;
    if (i == 1 && lead == 0xf0) low = 0x90;
    if (i == 1 && lead == 0xed) high = 0x9f;
    if (i == 1 && lead == 0xf4) high = 0x8f;
    return byte >= low && byte <= high;
}

/* Return the number of leading bytes of an invalid text that one U+FFFD replaces: the longest incomplete character, or
 * one byte. */
static int64_t invalid_bytes(const unsigned char *text, int64_t bytes)
{
    const unsigned char lead = text[0];
    const int64_t length = lead >= 0xf0 && lead < 0xf5 ? 4 : lead >= 0xe0 && lead < 0xf0 ? 3 : lead >= 0xc2 ? 2 : 1;
    int64_t n = 1;
    if (lead >= 0xf5) return 1;
    while (n < length && n < bytes && may_follow(lead, n, text[n])) n++;
    return n;
}

void zr__bpe_add_lossy(zr__text *out, const char *text, int64_t bytes)
{
    int64_t begin = 0;
    for (int64_t at = 0, n = 0; at < bytes; at += n) {
        n = zr__text_utf8(text + at, bytes - at);
        if (n > 0) continue;
        zr__text_append(out, text + begin, (size_t)(at - begin));
        zr__text_append(out, invalid, sizeof(invalid) - 1);
        n = invalid_bytes((const unsigned char *)text + at, bytes - at);
        begin = at + n;
    }
    zr__text_append(out, text + begin, (size_t)(bytes - begin));
}

/* Append the bytes of consecutive byte tokens. If together they are not UTF-8, replace each byte by U+FFFD. */
static void add_bytes(zr__text *out, const zr__text *run)
{
    const int64_t bytes = (int64_t)run->length;
    int64_t at = 0;
    for (int64_t n = 1; at < bytes && n > 0; at += n) n = zr__text_utf8(run->data + at, bytes - at);
    if (at == bytes) zr__text_append(out, run->data ? run->data : "", run->length);
    for (int64_t i = 0; at < bytes && i < bytes; i++) zr__text_append(out, invalid, sizeof(invalid) - 1);
}

static void decode_bytes(const zr__bpe *bpe, const int32_t *tokens, int64_t n, bool special, zr__text *out)
{
    zr__text all = {0};
    for (int64_t i = 0; i < n; i++)
        if (special || !bpe->special[tokens[i]])
            zr__text_append(&all, bpe->text + bpe->begin[tokens[i]], (size_t)zr__bpe_bytes(bpe, tokens[i]));
    if (all.data) zr__bpe_add_lossy(out, all.data, (int64_t)all.length);
    out->failed |= all.failed;
    zr__text_clear(&all);
}

static void decode_characters(const zr__bpe *bpe, const int32_t *tokens, int64_t n, bool special, zr__text *out)
{
    zr__text run = {0};
    for (int64_t i = 0; i < n; i++) {
        const int32_t token = tokens[i];
        const char *said = bpe->said + bpe->said_begin[token];
        const size_t bytes = (size_t)(bpe->said_begin[token + 1] - bpe->said_begin[token]);
        if (bpe->special[token] && !special) continue;
        if (byte_named(bpe->text + bpe->begin[token], zr__bpe_bytes(bpe, token)) >= 0) {
            zr__text_append(&run, said, bytes);
            continue;
        }
        add_bytes(out, &run);
        run.length = 0;
        zr__text_append(out, said, bytes);
    }
    add_bytes(out, &run);
    if (bpe->strip_first && out->length > 0 && out->data[0] == ' ') zr__text_drop(out, 1);
    out->failed |= run.failed;
    zr__text_clear(&run);
}

zr_status zr__bpe_decode(const zr__bpe *bpe, const int32_t *tokens, int64_t n, bool special, char **text,
                         int64_t *bytes)
{
    zr__text out = {0};
    if (bpe->pieces == ZR__PIECES_BERT)
        zr__wordpiece_say(bpe, tokens, n, special, &out);
    else if (bpe->by_character)
        decode_characters(bpe, tokens, n, special, &out);
    else
        decode_bytes(bpe, tokens, n, special, &out);
    *bytes = (int64_t)out.length;
    return zr__text_take(&out, text);
}
