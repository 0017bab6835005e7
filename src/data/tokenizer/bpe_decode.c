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

/* ---- texts that are not UTF-8 ------------------------------------------------------------------ */

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

/* ---- steps ----------------------------------------------------------------------------------- */

/* A list of texts, concatenated: text number i ends at end[i]. */
typedef struct words {
    zr__text all;
    int64_t *end, n;
} words;

static void words_free(words *w)
{
    zr__text_clear(&w->all);
    zr_free(w->end);
}

static void end_word(words *w)
{
    w->end[w->n++] = (int64_t)w->all.length;
}

/* Append a text in which each `from` is `to`. */
static void add_replaced(zr__text *out, const char *text, int64_t bytes, const char *from, const char *to)
{
    const size_t n = strlen(from);
    const char *end = text + bytes;
    for (const char *at; (at = memmem(text, (size_t)(end - text), from, n)); text = at + n) {
        zr__text_append(out, text, (size_t)(at - text));
        zr__text_append(out, to, strlen(to));
    }
    zr__text_append(out, text, (size_t)(end - text));
}

/* Append the bytes of consecutive byte tokens as a text. If together they are not UTF-8, append a U+FFFD for each byte
 * instead, each a text. */
static void add_bytes(words *out, zr__text *run)
{
    const int64_t bytes = (int64_t)run->length;
    int64_t at = 0;
    for (int64_t n = 1; at < bytes && n > 0; at += n) n = zr__text_utf8(run->data + at, bytes - at);
    if (bytes > 0 && at == bytes) {
        zr__text_append(&out->all, run->data, run->length);
        end_word(out);
    }
    for (int64_t i = 0; at < bytes && i < bytes; i++) {
        zr__text_append(&out->all, invalid, sizeof(invalid) - 1);
        end_word(out);
    }
    out->all.failed |= run->failed;
    run->length = 0;
}

/* Join the bytes of consecutive byte tokens. If `inside`, each byte is a text of its own. */
static void join_bytes(const words *in, bool inside, words *out)
{
    zr__text run = {0};
    for (int64_t i = 0, from = 0; i < in->n; from = in->end[i++]) {
        const int byte = byte_named(in->all.data + from, in->end[i] - from);
        const char one = (char)byte;
        if (byte >= 0 && !inside) {
            zr__text_append(&run, &one, 1);
            continue;
        }
        add_bytes(out, &run);
        zr__text_append(&out->all, byte >= 0 ? &one : in->all.data + from, byte >= 0 ? 1 : (size_t)(in->end[i] - from));
        end_word(out);
    }
    add_bytes(out, &run);
    zr__text_clear(&run);
}

static void add_stripped(const zr__saying *s, const char *text, int64_t bytes, zr__text *out)
{
    const int64_t n = (int64_t)strlen(s->from);
    int64_t from = 0, to = bytes;
    for (int64_t i = 0; i < s->start && from + n <= bytes && memcmp(text + from, s->from, (size_t)n) == 0; i++)
        from += n;
    for (int64_t i = 0; i < s->stop && to - n >= from && memcmp(text + to - n, s->from, (size_t)n) == 0; i++) to -= n;
    zr__text_append(out, text + from, (size_t)(to - from));
}

/* Apply a step to each text by itself. `inside`: whether other texts precede and follow each text. */
static void change_each(const zr__saying *s, const words *in, bool inside, words *out)
{
    for (int64_t i = 0, from = 0; i < in->n; from = in->end[i++]) {
        const char *text = in->all.data + from;
        const int64_t bytes = in->end[i] - from;
        const bool first = i == 0 && !inside, last = i == in->n - 1 && !inside;
        if (s->kind == ZR__SAY_SPACED && !first) zr__text_append(&out->all, " ", 1);
        if (s->kind == ZR__SAY_STRIP)
            add_stripped(s, text, bytes, &out->all);
        else if (s->kind == ZR__SAY_SPACED)
            zr__text_append(&out->all, text, (size_t)bytes);
        else if (s->kind == ZR__SAY_METASPACE)
            add_replaced(&out->all, text, bytes, s->from, first && s->start ? "" : " ");
        else
            add_replaced(&out->all, text, bytes, s->from, s->kind == ZR__SAY_REPLACE ? s->to : last ? "" : " ");
        end_word(out);
    }
}

/* Apply the decoder to a list of texts. If `inside`, decode each by itself as within a longer list, so that nothing is
 * left out at its ends. */
static zr_status say_words(const zr__bpe *bpe, words *w, bool inside)
{
    bool fused = false;
    for (int i = 0; i < bpe->n_saying && w->n > 0; i++) {
        const zr__saying *s = &bpe->saying[i];
        fused = fused || s->kind == ZR__SAY_FUSE;
        if (!w->all.data) zr__text_append(&w->all, "", 0);
        if (fused && inside && (s->kind == ZR__SAY_FUSE || s->kind == ZR__SAY_STRIP)) continue;
        if (s->kind == ZR__SAY_FUSE) {
            w->end[0] = (int64_t)w->all.length;
            w->n = 1;
            continue;
        }
        ZR_AUTO(words_free) words out = {.end = zr_alloc((size_t)w->n * sizeof(*out.end))};
        ZR_CHECK(out.end && !w->all.failed, ZR_ERR_MEMORY, "no memory for the text of %lld tokens", (long long)w->n);
        if (s->kind == ZR__SAY_BYTES)
            join_bytes(w, inside, &out);
        else
            change_each(s, w, inside, &out);
        const words old = *w;
        *w = out;
        out = old;
    }
    return ZR_OK;
}

/* Find the added tokens that are searched for in normalized text. Their texts are normalized too. */
static zr_status find_later(const zr__bpe *bpe, const zr__added ***added)
{
    *added = zr_alloc((size_t)bpe->vocab * sizeof(**added));
    ZR_CHECK(*added, ZR_ERR_MEMORY, "no memory for the texts of %lld tokens", (long long)bpe->vocab);
    for (int64_t i = 0; i < bpe->later.n; i++) (*added)[bpe->later.added[i].token] = &bpe->later.added[i];
    return ZR_OK;
}

/* Append the name of a token, or the text that `added` has for it. `added` may be NULL. */
static void add_name(const zr__bpe *bpe, int32_t token, const zr__added *const *added, words *w)
{
    const zr__added *its = added ? added[token] : NULL;
    if (its)
        zr__text_append(&w->all, its->text, (size_t)its->bytes);
    else
        zr__text_append(&w->all, bpe->text + bpe->begin[token], (size_t)zr__bpe_bytes(bpe, token));
    end_word(w);
}

zr_status zr__bpe_say_tokens(zr__bpe *bpe)
{
    ZR_AUTO_FREE const zr__added **added = NULL;
    ZR_AUTO(words_free) words w = {.end = zr_alloc((size_t)bpe->vocab * sizeof(*w.end))};
    bpe->said_begin = zr_alloc((size_t)(bpe->vocab + 1) * sizeof(*bpe->said_begin));
    ZR_CHECK(w.end && bpe->said_begin, ZR_ERR_MEMORY, "no memory for the texts of %lld tokens", (long long)bpe->vocab);
    ZR_TRY(find_later(bpe, &added));
    for (int32_t token = 0; token < bpe->vocab; token++) add_name(bpe, token, added, &w);
    ZR_TRY(say_words(bpe, &w, true));
    memcpy(bpe->said_begin + 1, w.end, (size_t)bpe->vocab * sizeof(*w.end));
    return zr__text_take(&w.all, &bpe->said);
}

/* ---- several tokens -------------------------------------------------------------------------- */

/* Decode tokens. The names of byte-level BPE are the bytes of the text. */
static zr_status decode_tokens(const zr__bpe *bpe, const int32_t *tokens, int64_t n, bool special, zr__text *out)
{
    ZR_AUTO_FREE const zr__added **added = NULL;
    ZR_AUTO(words_free) words w = {.end = zr_alloc((size_t)(n > 0 ? n : 1) * sizeof(*w.end))};
    ZR_CHECK(w.end, ZR_ERR_MEMORY, "no memory for the text of %lld tokens", (long long)n);
    if (bpe->later.n > 0) ZR_TRY(find_later(bpe, &added));
    for (int64_t i = 0; i < n; i++)
        if (special || !bpe->special[tokens[i]]) add_name(bpe, tokens[i], added, &w);
    ZR_TRY(say_words(bpe, &w, false));
    if (!bpe->by_character && w.all.data)
        zr__bpe_add_lossy(out, w.all.data, (int64_t)w.all.length);
    else
        zr__text_append(out, w.all.data ? w.all.data : "", w.all.length);
    out->failed |= w.all.failed;
    return ZR_OK;
}

zr_status zr__bpe_decode(const zr__bpe *bpe, const int32_t *tokens, int64_t n, bool special, char **text,
                         int64_t *bytes)
{
    zr__text out = {0};
    zr_status st = ZR_OK;
    if (bpe->pieces == ZR__PIECES_BERT)
        zr__wordpiece_say(bpe, tokens, n, special, &out);
    else
        st = decode_tokens(bpe, tokens, n, special, &out);
    if (st != ZR_OK) zr__text_clear(&out);
    ZR_TRY(st);
    *bytes = (int64_t)out.length;
    return zr__text_take(&out, text);
}
