#include "data/pieces/normalize.h"

#include <string.h>
#include <xxhash.h>

enum { NFC_GROWTH = 3 }; /* maximum factor by which NFC increases the bytes of a text */

/* Maximum size in bytes of the replacement of one byte of text, and of a prefix put before a text. Known tokenizers
 * need less than 20. Without a limit, a few replacements in a row could turn a short text into gigabytes. */
enum { GROWTH_MOST = 64 };

/* Refuse changes that let texts grow too much. */
static zr_status check_growth(const zr__changes *changes, const char *where)
{
    int64_t more = 0;
    const int64_t growth = zr__changes_growth(changes, &more);
    ZR_CHECK(growth <= GROWTH_MOST && more <= GROWTH_MOST, ZR_ERR_DATA,
             "%s: the normalizer may make %lld bytes of one byte of text and put %lld bytes before a text; the limit "
             "for each is %d",
             where, (long long)growth, (long long)more, GROWTH_MOST);
    return ZR_OK;
}

zr_status zr__changes_add(zr__changes *changes, zr__change_kind kind, const char *from, const char *to,
                          const char *where)
{
    ZR_CHECK(changes->n < ZR__CHANGES_MOST, ZR_ERR_DATA, "%s: more than %d steps", where, ZR__CHANGES_MOST);
    zr__change *c = &changes->change[changes->n++];
    *c = (zr__change){.kind = kind};
    if (from) ZR_TRY(zr__text_copy(from, strlen(from), &c->from));
    if (to) ZR_TRY(zr__text_copy(to, strlen(to), &c->to));
    ZR_TRY(check_growth(changes, where));
    return kind == ZR__NFC && !changes->nfc ? zr__nfc_open(&changes->nfc) : ZR_OK;
}

zr_status zr__changes_add_bert(zr__changes *changes, zr__bert_options options, const char *where)
{
    ZR_ASSERT(!changes->bert);
    ZR_TRY(zr__changes_add(changes, ZR__BERT, NULL, NULL, where));
    return zr__bert_open(options, &changes->bert);
}

void zr__changes_free(zr__changes *changes)
{
    for (int i = 0; i < changes->n; i++) {
        zr_free(changes->change[i].from);
        zr_free(changes->change[i].to);
    }
    zr__classes_close(&changes->nfc);
    zr__bert_close(&changes->bert);
    *changes = (zr__changes){.n = 0};
}

int64_t zr__changes_growth(const zr__changes *changes, int64_t *more)
{
    int64_t growth = 1;
    for (int i = 0; i < changes->n; i++) {
        const zr__change *c = &changes->change[i];
        int64_t times = c->kind == ZR__NFC ? NFC_GROWTH : 1;
        if (c->kind == ZR__REPLACE) times = (int64_t)((strlen(c->to) + strlen(c->from) - 1) / strlen(c->from));
        if (times < 1) times = 1;
        growth *= times;
        *more *= times;
        if (c->kind == ZR__PREPEND || c->kind == ZR__PREPEND_ABSENT) *more += (int64_t)strlen(c->to);
    }
    return growth;
}

static uint64_t hash_text(const char *text, uint64_t seed)
{
    return XXH3_64bits_withSeed(text ? text : "", text ? strlen(text) + 1 : 0, seed);
}

uint64_t zr__changes_hash(const zr__changes *changes, uint64_t seed)
{
    uint64_t hash = seed;
    for (int i = 0; i < changes->n; i++) {
        const zr__change *c = &changes->change[i];
        const int told[2] = {c->kind, c->first};
        hash = XXH3_64bits_withSeed(told, sizeof(told), hash);
        hash = hash_text(c->to, hash_text(c->from, hash));
    }
    if (changes->bert) {
        const int options = zr__bert_number(changes->bert);
        hash = XXH3_64bits_withSeed(&options, sizeof(options), hash);
    }
    return changes->nfc || changes->bert ? hash_text(zr__nfc_version(), hash) : hash;
}

/* ---- changing -------------------------------------------------------------------------------- */

static void replace(const zr__change *c, zr__changed text, zr__text *out)
{
    const size_t n = strlen(c->from), to = strlen(c->to);
    const char *at = text.text, *end = at + text.bytes;
    for (const char *found; (found = memmem(at, (size_t)(end - at), c->from, n)); at = found + n) {
        zr__text_append(out, at, (size_t)(found - at));
        zr__text_append(out, c->to, to);
    }
    zr__text_append(out, at, (size_t)(end - at));
}

static bool begins_with(zr__changed text, const char *with)
{
    const size_t n = strlen(with);
    return text.bytes >= (int64_t)n && memcmp(text.text, with, n) == 0;
}

/* Return whether a change has an effect on a text. */
static bool has_effect(const zr__changes *changes, const zr__change *c, zr__changed text, zr__begins begins)
{
    switch (c->kind) {
    case ZR__NFC:
        return !zr__nfc_is(changes->nfc, text.text, text.bytes);
    case ZR__REPLACE:
        return memmem(text.text, (size_t)text.bytes, c->from, strlen(c->from));
    case ZR__BERT:
        return true;
    case ZR__PREPEND:
    case ZR__PREPEND_ABSENT:
        break;
    }
    if (begins == ZR__CONTINUES || (c->first && begins != ZR__WHOLE_BEGIN)) return false;
    return text.bytes > 0 && (c->kind == ZR__PREPEND || !begins_with(text, c->to));
}

static zr_status apply(const zr__changes *changes, const zr__change *c, zr__changed text, zr__text *out)
{
    out->length = 0;
    if (c->kind == ZR__NFC) return zr__nfc_add(changes->nfc, text.text, text.bytes, out);
    if (c->kind == ZR__BERT) return zr__bert_add(changes->bert, text.text, text.bytes, out);
    if (c->kind == ZR__REPLACE) {
        replace(c, text, out);
    } else {
        zr__text_append(out, c->to, strlen(c->to));
        zr__text_append(out, text.text, (size_t)text.bytes);
    }
    ZR_CHECK(!out->failed, ZR_ERR_MEMORY, "no memory to normalize %lld bytes of text", (long long)text.bytes);
    return ZR_OK;
}

zr_status zr__changes_apply(const zr__changes *changes, const char *text, int64_t bytes, zr__begins begins,
                            zr__changing *work, zr__changed *changed)
{
    int turn = 0;
    *changed = (zr__changed){text, bytes};
    for (int i = 0; i < changes->n; i++) {
        const zr__change *c = &changes->change[i];
        if (!has_effect(changes, c, *changed, begins)) continue;
        zr__text *out = &work->text[turn];
        ZR_TRY(apply(changes, c, *changed, out));
        *changed = (zr__changed){out->data ? out->data : "", (int64_t)out->length};
        turn = 1 - turn;
    }
    return ZR_OK;
}

void zr__changing_free(zr__changing *work)
{
    zr__text_clear(&work->text[0]);
    zr__text_clear(&work->text[1]);
}
