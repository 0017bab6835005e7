#include "data/pieces/nfc.h"

#include <string.h>
#include <utf8proc.h>

/* Number of a character in the table: its canonical combining class, which is at most 240, or CHANGES if normalization
 * may replace it or compose it with an earlier character. A text may be divided before a character with the number 0.
 */
enum { CHANGES = 255, COMBINING = 256, FEW = 64, MOST_PER_BYTE = 6 /* characters, in any form */ };
/* Hangul vowels and final consonants (first character and number of characters). They compose with the character before
 * them. mark_parts does not find them, because Hangul syllables have no entry in the library's table of decompositions.
 */
enum { VOWEL = 0x1161, VOWELS = 21, FINAL = 0x11a8, FINALS = 27, SYLLABLE = 0xac00, SYLLABLES = 11172 };

#define OPTIONS (UTF8PROC_STABLE | UTF8PROC_COMPOSE)

/* Ranges of characters that combine with others in Unicode 16, but not in Unicode 9: first and last character. */
static const int32_t newer[][2] = {
    {0x7fd, 0x7fd},     {0x897, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xc3c, 0xc3c},
    {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x1715, 0x1715},   {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},
    {0xa82c, 0xa82c},   {0x10d24, 0x10d27}, {0x10d69, 0x10d6d}, {0x10eab, 0x10eac}, {0x10efc, 0x10eff},
    {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x113b8, 0x113d0},
    {0x113e1, 0x113e2}, {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11930, 0x11930}, {0x1193d, 0x1193e},
    {0x11943, 0x11943}, {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99},
    {0x11d42, 0x11d42}, {0x11d44, 0x11d45}, {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x1611e, 0x1612f},
    {0x16d63, 0x16d6a}, {0x16ff0, 0x16ff1}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae},
    {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}, {0x1e5ee, 0x1e5ef}};

/* Ranges of characters that decompose in Unicode 16, but not in Unicode 9: first and last character. */
static const int32_t newer_composed[][2] = {{0x105c9, 0x105c9}, {0x105e4, 0x105e4}, {0x11383, 0x11391},
                                            {0x113c5, 0x113c8}, {0x11938, 0x11938}, {0x16121, 0x16128},
                                            {0x16d68, 0x16d6a}};
/* The same for compatible decompositions. */
static const int32_t newer_compatible[][2] = {{0x32ff, 0x32ff},   {0xa7f1, 0xa7f4},   {0xab69, 0xab69},
                                              {0x10781, 0x107ba}, {0x1ccd6, 0x1ccf9}, {0x1e030, 0x1e06d},
                                              {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9}};
/* Ranges with the other marks that are in Unicode 16, but not in Unicode 9. */
static const int32_t newer_marks[][2] = {{0xafa, 0xaff},     {0xb55, 0xb55},     {0xc04, 0xc04},     {0xcf3, 0xcf3},
                                         {0xd00, 0xd00},     {0xd81, 0xd81},     {0xece, 0xece},     {0x180f, 0x180f},
                                         {0x1cf7, 0x1cf7},   {0xa8ff, 0xa8ff},   {0x11073, 0x11074}, {0x110c2, 0x110c2},
                                         {0x11145, 0x11146}, {0x111c9, 0x111c9}, {0x111ce, 0x111cf}, {0x11241, 0x11241},
                                         {0x11380, 0x113ff}, {0x11800, 0x1184f}, {0x11900, 0x11aaf}, {0x11d00, 0x11daf},
                                         {0x11ef3, 0x11f5f}, {0x13440, 0x1345f}, {0x16100, 0x1613f}, {0x16f4f, 0x16f4f},
                                         {0x16f7f, 0x16f87}, {0x16fe4, 0x16ff1}, {0x1cf00, 0x1cf4f}};

static bool is_in(int32_t c, const int32_t (*ranges)[2], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1]) return true;
    return false;
}
#define IS_IN(c, ranges) is_in(c, ranges, sizeof(ranges) / sizeof((ranges)[0]))

/* Decompose a character into at most `room` parts. Return the number of parts. */
static int64_t decompose(int32_t c, bool compatible, int32_t *part, int64_t room)
{
    int bound = 0;
    const utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
    part[0] = c;
    if (IS_IN(c, newer_composed) || (compatible && IS_IN(c, newer_compatible))) return 1;
    return utf8proc_decompose_char(c, part, room, options, &bound);
}

int64_t zr__nfc_decompose(int32_t c, int32_t part[ZR__NFC_PARTS])
{
    return decompose(c, false, part, ZR__NFC_PARTS);
}

bool zr__nfc_is_newer(int32_t c)
{
    return IS_IN(c, newer) || IS_IN(c, newer_composed) || IS_IN(c, newer_compatible);
}

/* ---- the table ------------------------------------------------------------------------------- */

static bool is_composed(zr__unicode_form form)
{
    return form == ZR__FORM_C || form == ZR__FORM_KC;
}

static bool is_compatible(zr__unicode_form form)
{
    return form == ZR__FORM_KC || form == ZR__FORM_KD;
}

/* Return whether form C or KC replaces a character. */
static bool is_replaced(zr__unicode_form form, utf8proc_int32_t c)
{
    utf8proc_int32_t part[4 * ZR__NFC_PARTS];
    const int64_t n = decompose(c, is_compatible(form), part, 4 * ZR__NFC_PARTS);
    if (n < 1 || n > 4 * ZR__NFC_PARTS) return true;
    return utf8proc_normalize_utf32(part, n, OPTIONS) != 1 || part[0] != c;
}

/* Mark a character if form C or KC replaces it. Also mark each character of its canonical decomposition except the
 * first. */
static void mark_parts(zr__unicode_form form, uint8_t *number, utf8proc_int32_t c)
{
    utf8proc_int32_t part[ZR__NFC_PARTS];
    const int64_t n = zr__nfc_decompose(c, part);
    for (int64_t i = 1; i < n; i++) number[part[i]] = CHANGES;
    if (is_replaced(form, c)) number[c] = CHANGES;
}

static void mark_all(zr__unicode_form form, uint8_t *number)
{
    for (utf8proc_int32_t c = 0; c < ZR__CHARACTERS; c++) {
        const utf8proc_property_t *its = utf8proc_get_property(c);
        if (number[c] != CHANGES) number[c] = (uint8_t)its->combining_class;
        if (its->decomp_seqindex == UINT16_MAX || (its->decomp_type && !is_compatible(form))) continue;
        if (IS_IN(c, newer_composed) || IS_IN(c, newer_compatible)) continue;
        if (its->decomp_type || !is_composed(form))
            number[c] = CHANGES;
        else
            mark_parts(form, number, c);
    }
    for (size_t i = 0; i < sizeof(newer) / sizeof(newer[0]); i++)
        memset(number + newer[i][0], 0, (size_t)(newer[i][1] - newer[i][0] + 1));
    if (is_composed(form)) {
        memset(number + VOWEL, CHANGES, VOWELS);
        memset(number + FINAL, CHANGES, FINALS);
    } else {
        memset(number + SYLLABLE, CHANGES, SYLLABLES);
    }
}

zr_status zr__nfc_open(zr__unicode_form form, zr__classes **nfc)
{
    ZR_AUTO_FREE uint8_t *number = zr_alloc(ZR__CHARACTERS);
    ZR_CHECK(number, ZR_ERR_MEMORY, "no memory for a table of characters");
    mark_all(form, number);
    return zr__classes_of(number, nfc);
}

const char *zr__nfc_version(void)
{
    return utf8proc_unicode_version();
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Return the number of the character at text[at], and its length in *n; 0 bytes for a byte that is not UTF-8. */
static unsigned number_at(const zr__classes *nfc, const char *text, int64_t at, int64_t bytes, int64_t *n)
{
    *n = zr__text_utf8(text + at, bytes - at);
    if (*n < 2) return 0;
    return zr__class_at(nfc, (const unsigned char *)text + at, n);
}

/* A stretch of text that normalization may change: text[from, to). Before and after it, text may be divided. */
typedef struct stretch {
    int64_t from, to;
} stretch;

static bool has_ascii(const char *text)
{
    uint64_t eight = 0;
    memcpy(&eight, text, sizeof(eight));
    return !(eight & UINT64_C(0x8080808080808080));
}

/* Find the first stretch at or after `at`. The text must be divisible at `at`. Return false if there is none. */
static bool find_stretch(const zr__classes *nfc, const char *text, int64_t at, int64_t bytes, stretch *found)
{
    unsigned last = 0;
    int64_t n = 0;
    found->from = at;
    for (; at<bytes; at += n> 0 ? n : 1) {
        if (at + 8 <= bytes && has_ascii(text + at)) {
            found->from = at + 7;
            n = 8;
            last = 0;
            continue;
        }
        const unsigned number = number_at(nfc, text, at, bytes, &n);
        if (number == 0) found->from = n > 0 ? at : at + 1;
        if (number == CHANGES || (number > 0 && number < last)) break;
        last = number;
    }
    if (at >= bytes) return false;
    do {
        at += n;
    } while (at < bytes && number_at(nfc, text, at, bytes, &n) > 0);
    found->to = at;
    return true;
}

bool zr__nfc_is(const zr__classes *nfc, const char *text, int64_t bytes)
{
    stretch found;
    return !find_stretch(nfc, text, 0, bytes, &found);
}

int zr__nfc_class(const zr__classes *nfc, int32_t c)
{
    const int number = (int)zr__class_of(nfc, (uint32_t)c);
    return number == CHANGES ? utf8proc_get_property(c)->combining_class : number;
}

/* Sort characters stably by combining class. `room` has space for n characters. */
static void order_marks(const zr__classes *nfc, int32_t *c, int64_t n, int32_t *room)
{
    int64_t count[COMBINING + 1] = {0};
    for (int64_t i = 0; i < n; i++) count[zr__nfc_class(nfc, c[i]) + 1]++;
    for (int v = 0; v < COMBINING; v++) count[v + 1] += count[v];
    for (int64_t i = 0; i < n; i++) room[count[zr__nfc_class(nfc, c[i])]++] = c[i];
    memcpy(c, room, (size_t)n * sizeof(*c));
}

void zr__nfc_order(const zr__classes *nfc, int32_t *c, int64_t n, int32_t *room)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t end = i;
        bool ordered = true;
        for (; end < n && zr__nfc_class(nfc, c[end]) > 0; end++)
            ordered = ordered && (end == i || zr__nfc_class(nfc, c[end - 1]) <= zr__nfc_class(nfc, c[end]));
        if (!ordered) order_marks(nfc, c + i, end - i, room);
        if (end > i) i = end - 1;
    }
}

/* Normalize a stretch and append it. `c` and `room` have space for MOST_PER_BYTE characters per byte. */
static void normalize(zr__unicode_form form, const zr__classes *nfc, const char *text, int64_t bytes, int32_t *c,
                      int32_t *room, zr__text *out)
{
    int64_t n = 0, length = 0;
    for (int64_t at = 0; at < bytes; at += length) {
        const uint32_t its = zr__character_at((const unsigned char *)text + at, &length);
        n += decompose((int32_t)its, is_compatible(form), c + n, MOST_PER_BYTE * bytes - n);
    }
    zr__nfc_order(nfc, c, n, room);
    if (is_composed(form)) n = utf8proc_normalize_utf32(c, n, OPTIONS);
    for (int64_t i = 0; i < n; i++) {
        char utf8[4];
        zr__text_append(out, utf8, (size_t)zr__character_put(c[i], utf8));
    }
}

static zr_status add_stretch(zr__unicode_form form, const zr__classes *nfc, const char *text, int64_t bytes,
                             zr__text *out)
{
    int32_t few[2 * MOST_PER_BYTE * FEW], *c = few;
    const int64_t most = MOST_PER_BYTE * bytes;
    if (bytes > FEW) c = zr_alloc(2 * (size_t)most * sizeof(*c));
    ZR_CHECK(c, ZR_ERR_MEMORY, "no memory to normalize %lld bytes of text", (long long)bytes);
    normalize(form, nfc, text, bytes, c, c + most, out);
    if (c != few) zr_free(c);
    return ZR_OK;
}

zr_status zr__nfc_add(zr__unicode_form form, const zr__classes *nfc, const char *text, int64_t bytes, zr__text *out)
{
    int64_t at = 0;
    for (stretch s; find_stretch(nfc, text, at, bytes, &s); at = s.to) {
        zr__text_append(out, text + at, (size_t)(s.from - at));
        ZR_TRY(add_stretch(form, nfc, text + s.from, s.to - s.from, out));
    }
    zr__text_append(out, text + at, (size_t)(bytes - at));
    ZR_CHECK(!out->failed, ZR_ERR_MEMORY, "no memory to normalize %lld bytes of text", (long long)bytes);
    return ZR_OK;
}

/* ---- characters ------------------------------------------------------------------------------ */

/* Ranges of upper case letters added after Unicode 15: first and last letter, step between letters, and difference
 * between lower and upper case. */
static const struct {
    int32_t first, last, step, lower;
} newer_upper[] = {{0x1c89, 0x1c89, 1, 1},      {0xa7cb, 0xa7cb, 1, 0x264 - 0xa7cb},
                   {0xa7cc, 0xa7ce, 2, 1},      {0xa7d2, 0xa7d4, 2, 1},
                   {0xa7da, 0xa7da, 1, 1},      {0xa7dc, 0xa7dc, 1, 0x19b - 0xa7dc},
                   {0x10d50, 0x10d65, 1, 0x20}, {0x16ea0, 0x16eb8, 1, 0x1b}};

int64_t zr__lower(int32_t c, int32_t lower[2])
{
    lower[0] = utf8proc_tolower(c);
    lower[1] = 0x307;
    for (size_t i = 0; i < sizeof(newer_upper) / sizeof(newer_upper[0]); i++)
        if (c >= newer_upper[i].first && c <= newer_upper[i].last &&
            (c - newer_upper[i].first) % newer_upper[i].step == 0)
            lower[0] = c + newer_upper[i].lower;
    return c == 0x130 ? 2 : 1; /* a capital I with a dot becomes i and a combining dot */
}

int32_t zr__upper(int32_t c)
{
    /* ranges with characters whose upper case is several characters, or differs from their title case */
    static const int32_t longer[][2] = {{0xdf, 0xdf},     {0x149, 0x149},  {0x1c4, 0x1cc}, {0x1f0, 0x1f3},
                                        {0x390, 0x390},   {0x3b0, 0x3b0},  {0x587, 0x587}, {0x1e96, 0x1e9a},
                                        {0x1f50, 0x1ffc}, {0xfb00, 0xfb17}};
    for (size_t i = 0; i < sizeof(longer) / sizeof(longer[0]); i++)
        if (c >= longer[i][0] && c <= longer[i][1]) return -1;
    return utf8proc_toupper(c);
}

bool zr__is_mark(int32_t c)
{
    const utf8proc_category_t category = utf8proc_category(c);
    const bool mark = category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
    return (mark && !IS_IN(c, newer) && !IS_IN(c, newer_marks)) || c == 0x1cf2 || c == 0x1cf3;
}

bool zr__is_printable(int32_t c)
{
    const utf8proc_category_t category = utf8proc_category(c);
    return c == ' ' ||
           (category != UTF8PROC_CATEGORY_CN && (category < UTF8PROC_CATEGORY_ZS || category > UTF8PROC_CATEGORY_CO));
}
