#include "data/pieces/normalize.h"

#include "data/pieces/split.h"
#include "data/pieces/symbols.h"

#include <string.h>
#include <xxhash.h>

/* Maximum factors by which changes increase the bytes of a text. */
enum { CANONICAL_GROWTH = 3, COMPATIBLE_GROWTH = 11, CASE_GROWTH = 2, BERT_GROWTH = 4 };

/* Refuse changes that let texts grow too much. */
static zr_status check_growth(const zr__changes *changes, const char *where)
{
    int64_t more = 0;
    const int64_t growth = zr__changes_growth(changes, &more);
    ZR_CHECK(growth <= ZR__GROWTH_MOST && more <= ZR__GROWTH_MOST, ZR_ERR_DATA,
             "%s: the normalizer may make %lld bytes of one byte of text and put %lld bytes before a text; the limit "
             "for each is %d",
             where, (long long)growth, (long long)more, ZR__GROWTH_MOST);
    return ZR_OK;
}

/* Compile the regular expression of a change. The behavior, which replacing ignores, excludes hand-written code. */
static zr_status open_match(zr__change *c, const char *where)
{
    ZR_TRY(zr__split_open(NULL, &c->match));
    return zr__split_add(c->match, (zr__cut){.kind = ZR__MATCH_EXPRESSION, .behavior = ZR__CONTIGUOUS, .text = c->from},
                         where);
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
    if (kind == ZR__REPLACE_MATCH) return open_match(c, where);
    return kind <= ZR__NORMAL_KD ? zr__nfc_open((zr__unicode_form)kind, &c->table) : ZR_OK;
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
        zr__classes_close(&changes->change[i].table);
        zr__split_close(&changes->change[i].match);
    }
    zr__bert_close(&changes->bert);
    *changes = (zr__changes){.n = 0};
}

/* Return the maximum number of bytes that a change makes of one byte of text, without prepended bytes. */
static int64_t growth_of(const zr__change *c)
{
    int64_t times = 1;
    if (c->kind <= ZR__NORMAL_KD) times = c->kind <= ZR__NORMAL_D ? CANONICAL_GROWTH : COMPATIBLE_GROWTH;
    if (c->kind == ZR__BERT) times = BERT_GROWTH;
    if (c->kind == ZR__LOWERCASE) times = CASE_GROWTH;
    if (c->kind == ZR__REPLACE) times = (int64_t)((strlen(c->to) + strlen(c->from) - 1) / strlen(c->from));
    if (c->kind == ZR__REPLACE_MATCH) times = (int64_t)strlen(c->to);
    return times < 1 ? 1 : times;
}

/* Return whether a change may put characters into a text that a normal form replaces. */
static bool adds_forms(const zr__change *c)
{
    bool adds = false;
    for (const char *at = c->to; at && *at; at++) adds = adds || (unsigned char)*at >= 0x80;
    return adds;
}

int64_t zr__changes_growth(const zr__changes *changes, int64_t *more)
{
    int64_t growth = 1, forms = 1; /* a text that is in one normal form grows no more by the next */
    for (int i = 0; i < changes->n; i++) {
        const zr__change *c = &changes->change[i];
        int64_t times = growth_of(c);
        if (c->kind <= ZR__NORMAL_KD) {
            const int64_t most = times > forms ? times : forms;
            times = (most + forms - 1) / forms;
            forms = most;
        } else if (adds_forms(c)) {
            forms = 1;
        }
        growth *= times;
        *more *= times;
        if (c->kind == ZR__PREPEND || c->kind == ZR__PREPEND_ABSENT) *more += (int64_t)strlen(c->to);
    }
    return growth;
}

/* Return whether a replacement neither makes nor removes a place to cut: it replaces one character by a text without
 * white space at its ends. Spaces may become U+2581, before which such tokenizers cut. */
static bool keeps_cuts(const zr__change *c)
{
    const int64_t from = (int64_t)strlen(c->from), to = (int64_t)strlen(c->to);
    const bool one = zr__text_utf8(c->from, from) == from;
    if (strcmp(c->from, " ") == 0) return to == 3 && !zr__split_solid_before(c->to, to);
    return one && to > 0 && (unsigned char)c->from[0] > ' ' && (unsigned char)c->to[0] > ' ' &&
           zr__split_solid_before(c->to, to);
}

bool zr__changes_keep_cuts(const zr__changes *changes)
{
    for (int i = 0; i < changes->n; i++) {
        const zr__change *c = &changes->change[i];
        const bool keeps = c->kind <= ZR__LOWERCASE || c->kind == ZR__PREPEND || c->kind == ZR__PREPEND_ABSENT ||
                           c->kind == ZR__BERT || (c->kind == ZR__REPLACE && keeps_cuts(c));
        if (!keeps) return false;
    }
    return true;
}

static uint64_t hash_text(const char *text, uint64_t seed)
{
    return XXH3_64bits_withSeed(text ? text : "", text ? strlen(text) + 1 : 0, seed);
}

uint64_t zr__changes_hash(const zr__changes *changes, uint64_t seed)
{
    uint64_t hash = seed;
    bool unicode = changes->bert;
    for (int i = 0; i < changes->n; i++) {
        const zr__change *c = &changes->change[i];
        const int told[2] = {c->kind, c->first};
        hash = XXH3_64bits_withSeed(told, sizeof(told), hash);
        hash = hash_text(c->to, hash_text(c->from, hash));
        unicode = unicode || c->kind <= ZR__STRIP_ACCENTS;
        if (c->match) hash ^= zr__split_hash(c->match);
    }
    if (changes->bert) {
        const int options = zr__bert_number(changes->bert);
        hash = XXH3_64bits_withSeed(&options, sizeof(options), hash);
    }
    return unicode ? hash_text(zr__nfc_version(), hash) : hash;
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

/* Return whether a change may have an effect on a text. */
static bool has_effect(const zr__change *c, zr__changed text, zr__begins begins)
{
    if (c->table) return !zr__nfc_is(c->table, text.text, text.bytes);
    if (c->kind == ZR__REPLACE) return memmem(text.text, (size_t)text.bytes, c->from, strlen(c->from));
    if (c->kind != ZR__PREPEND && c->kind != ZR__PREPEND_ABSENT) return true;
    if (begins == ZR__CONTINUES || (c->first && begins != ZR__WHOLE_BEGIN)) return false;
    return text.bytes > 0 && (c->kind == ZR__PREPEND || !begins_with(text, c->to));
}

static void add_lower(zr__changed text, zr__text *out)
{
    for (int64_t at = 0, n = 1; at < text.bytes; at += n) {
        int32_t lower[2] = {0};
        char utf8[8];
        int64_t bytes = 0;
        n = zr__text_utf8(text.text + at, text.bytes - at);
        if (n > 0) {
            const int32_t c = (int32_t)zr__character_at((const unsigned char *)text.text + at, &n);
            for (int64_t i = 0, parts = zr__lower(c, lower); i < parts; i++)
                bytes += zr__character_put(lower[i], utf8 + bytes);
        }
        zr__text_append(out, n > 0 ? utf8 : text.text + at, n > 0 ? (size_t)bytes : 1);
        if (n == 0) n = 1;
    }
}

static void add_without_marks(zr__changed text, zr__text *out)
{
    int64_t begin = 0;
    for (int64_t at = 0, n = 1; at < text.bytes; at += n) {
        n = zr__text_utf8(text.text + at, text.bytes - at);
        if (n == 0) n = 1;
        if (n == 1 || !zr__is_mark((int32_t)zr__character_at((const unsigned char *)text.text + at, &n))) continue;
        zr__text_append(out, text.text + begin, (size_t)(at - begin));
        begin = at + n;
    }
    zr__text_append(out, text.text + begin, (size_t)(text.bytes - begin));
}

/* Append a text without the white space at one end. */
static void add_stripped(zr__changed text, bool left, zr__text *out)
{
    int64_t from = 0, to = text.bytes, solid = 0;
    for (int64_t at = 0, n = 1; at < text.bytes; at += n) {
        n = zr__text_utf8(text.text + at, text.bytes - at);
        if (n == 0) n = 1;
        const bool white = n > 0 && ((unsigned char)text.text[at] < 0x80 || n > 1) &&
                           zr__is_white(zr__character_at((const unsigned char *)text.text + at, &n));
        if (white) continue;
        if (solid == 0) from = at;
        solid = at + n;
    }
    if (solid == 0) return;
    if (left)
        zr__text_append(out, text.text + from, (size_t)(to - from));
    else
        zr__text_append(out, text.text, (size_t)solid);
}

static void add_symbols(zr__changed text, zr__text *out)
{
    for (int64_t at = 0; at < text.bytes; at++) {
        char utf8[4];
        zr__text_append(out, utf8,
                        (size_t)zr__character_put((int32_t)zr__bpe_symbol((unsigned char)text.text[at]), utf8));
    }
}

/* Append the bytes that the characters of a text represent. The text consists of such characters. */
static zr_status add_spelled(zr__changed text, zr__text *out)
{
    ZR_AUTO_FREE char *spelled = zr_alloc((size_t)text.bytes + 1);
    const int64_t n = spelled ? zr__bpe_spell(text.text, text.bytes, spelled) : 0;
    ZR_CHECK(spelled, ZR_ERR_MEMORY, "no memory for %lld bytes of text", (long long)text.bytes);
    ZR_ASSERT(n >= 0);
    zr__text_append(out, spelled, (size_t)n);
    return ZR_OK;
}

static zr_status apply(const zr__changes *changes, const zr__change *c, zr__changed text, zr__text *out)
{
    out->length = 0;
    switch (c->kind) {
    case ZR__NORMAL_C:
    case ZR__NORMAL_D:
    case ZR__NORMAL_KC:
    case ZR__NORMAL_KD:
        return zr__nfc_add((zr__unicode_form)c->kind, c->table, text.text, text.bytes, out);
    case ZR__BERT:
        return zr__bert_add(changes->bert, text.text, text.bytes, out);
    case ZR__REPLACE_MATCH:
        return zr__split_replace(c->match, text.text, text.bytes, c->to, out);
    case ZR__SPELL:
        return add_spelled(text, out);
    case ZR__REPLACE:
        replace(c, text, out);
        break;
    case ZR__LOWERCASE:
        add_lower(text, out);
        break;
    case ZR__STRIP_ACCENTS:
        add_without_marks(text, out);
        break;
    case ZR__STRIP_LEFT:
    case ZR__STRIP_RIGHT:
        add_stripped(text, c->kind == ZR__STRIP_LEFT, out);
        break;
    case ZR__SYMBOLS:
        add_symbols(text, out);
        break;
    case ZR__PREPEND:
    case ZR__PREPEND_ABSENT:
        zr__text_append(out, c->to, strlen(c->to));
        zr__text_append(out, text.text, (size_t)text.bytes);
        break;
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
        if (!has_effect(c, *changed, begins)) continue;
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
