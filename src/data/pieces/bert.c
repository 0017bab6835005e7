#include "data/pieces/bert.h"

#include "data/pieces/nfc.h"

#include <string.h>

/* Classes of characters. */
enum {
    OTHER,
    CONTROL,       /* dropped by `clean`; also U+0000 and U+FFFD */
    SPACE,         /* white space */
    MARK,          /* nonspacing mark (combining accent), dropped by `strip_accents` */
    PUNCTUATION,   /* a word of its own */
    CONTROL_SPACE, /* white space that `clean` drops */
};

/* Run-length code of the classes of characters, for zr__classes_make. */
static const uint16_t ranges[] = {
    /* bench/unicode_classes.py: begin */
    145,   34,    37,    18,    289,   18,    244,   160,   116,   416,   100,   416,   68,    97,    21,    417,
    18,    20,    80,    20,    48,    20,    16,    17,    128,   36,    48,    20,    48,    20,    47,    1024,
    1795,  224,   20,    128,   20,    4016,  83,    3360,  100,   656,   36,    96,    723,   20,    19,    20,
    35,    20,    35,    20,    19,    688,   36,    176,   97,    48,    36,    16,    36,    32,    179,   20,
    17,    16,    36,    688,   339,   160,   68,    32,    19,    1584,  20,    16,    115,   17,    16,    99,
    32,    35,    16,    67,    288,   228,   16,    17,    16,    19,    480,   435,   1456,  179,   928,   147,
    48,    52,    448,   67,    16,    147,   16,    51,    16,    83,    32,    244,   416,   51,    32,    20,
    2112,  515,   880,   19,    16,    19,    64,    131,   64,    19,    48,    115,   160,   35,    36,    160,
    20,    256,   19,    928,   19,    64,    67,    128,   19,    320,   35,    464,   35,    912,   19,    64,
    35,    64,    35,    32,    51,    48,    19,    480,   35,    48,    19,    176,   35,    912,   19,    64,
    83,    16,    35,    64,    19,    320,   35,    192,   20,    256,   19,    928,   19,    32,    19,    16,
    67,    128,   19,    128,   19,    176,   35,    480,   19,    976,   19,    192,   19,    800,   19,    976,
    51,    80,    51,    16,    67,    112,   35,    176,   35,    464,   19,    928,   19,    32,    19,    96,
    19,    80,    35,    320,   35,    464,   19,    1008,  67,    128,   19,    320,   35,    1632,  19,    112,
    51,    16,    19,    464,   20,    960,   19,    32,    115,   192,   131,   20,    160,   36,    1360,  19,
    32,    99,    16,    35,    176,   99,    864,   244,   16,    20,    48,    35,    432,   19,    16,    19,
    16,    19,    68,    816,   227,   16,    83,    20,    35,    80,    179,   16,    579,   144,   19,    144,
    84,    64,    36,    1312,  67,    16,    99,    16,    35,    32,    35,    176,   100,   128,   35,    64,
    51,    256,   67,    208,   19,    32,    35,    96,    19,    240,   19,    1488,  20,    47,    1552,  51,
    148,   2416,  20,    47,    1728,  36,    272,   18,    416,   36,    1248,  52,    576,   51,    464,   51,
    36,    432,   35,    480,   35,    1024,  35,    16,    115,   128,   19,    32,    179,   52,    16,    52,
    32,    19,    544,   180,   51,    17,    2464,  19,    1888,  51,    64,    35,    144,   19,    96,    51,
    128,   36,    3344,  35,    32,    19,    32,    36,    864,   19,    16,    115,   16,    19,    16,    19,
    32,    131,   96,    163,   32,    19,    512,   116,   16,    100,   32,    227,   1056,  67,    768,   19,
    16,    83,    16,    19,    80,    19,    368,   116,   160,   147,   192,   35,    512,   67,    32,    35,
    16,    51,    896,   19,    16,    35,    48,    19,    16,    51,    160,   68,    704,   131,   32,    35,
    48,    84,    992,   36,    1024,  132,   128,   51,    20,    211,   16,    115,   64,    19,    96,    19,
    48,    35,    3168,  867,   96,    67,    47,    178,   81,    388,   34,    81,    18,    324,   16,    212,
    16,    196,   18,    81,    16,    161,   208,   36,    224,   36,    1040,  211,   64,    19,    48,    195,
    47,    368,   68,    464,   36,    79,    976,   228,   1264,  36,    496,   164,   31,    2352,  356,   1008,
    68,    512,   36,    47,    3856,  51,    112,   68,    16,    36,    1792,  20,    224,   19,    1536,  515,
    756,   16,    308,   31,    3024,  18,    52,    64,    164,   32,    196,   160,   67,    32,    20,    192,
    20,    1456,  35,    80,    20,    1440,  20,    1871,  32,    36,    31,    208,   52,    1520,  19,    48,
    20,    163,   20,    496,   35,    1280,  35,    100,   31,    160,   19,    48,    19,    64,    19,    400,
    35,    1232,  68,    1216,  19,    144,   36,    256,   291,   96,    52,    16,    20,    656,   131,   36,
    368,   179,   208,   20,    512,   51,    768,   19,    32,    67,    32,    19,    64,    212,   256,   36,
    80,    19,    1072,  99,    32,    35,    32,    35,    192,   19,    128,   19,    240,   68,    448,   19,
    816,   19,    16,    51,    32,    35,    80,    35,    16,    19,    448,   36,    192,   35,    32,    36,
    64,    19,    3808,  19,    32,    19,    32,    20,    16,    19,    847,   288,   65521, 36881, 47,    480,
    19,    47,    496,   36,    3072,  259,   164,   96,    259,   564,   16,    228,   16,    20,    64,    20,
    16,    36,    2352,  17,    16,    52,    16,    100,   16,    68,    160,   36,    48,    36,    416,   52,
    16,    20,    432,   20,    16,    20,    16,    116,   2352,  49,    16,    17,    31,    32,    52,    4000,
    19,    3616,  19,    2384,  83,    576,   20,    768,   20,    31,    2528,  20,    47,    3696,  20,    3184,
    20,    496,   20,    3088,  51,    16,    35,    80,    67,    640,   51,    64,    19,    256,   148,   608,
    20,    1616,  35,    144,   116,   1056,  116,   1424,  68,    79,    1600,  19,    864,   243,   116,   784,
    51,    784,   67,    32,    35,    36,    17,    68,    992,   51,    576,   83,    16,    131,   176,   68,
    752,   19,    36,    160,   35,    832,   147,   96,    84,    51,    20,    208,   20,    16,    52,    1264,
    51,    32,    19,    16,    35,    100,   1712,  20,    848,   19,    48,    131,   336,   35,    928,   19,
    48,    19,    592,   115,   48,    83,    31,    992,   99,    16,    19,    64,    35,    16,    35,    32,
    20,    3760,  67,    96,    35,    16,    35,    372,   64,    35,    1360,  131,   32,    19,    16,    35,
    52,    1648,  19,    16,    19,    32,    99,    16,    19,    1616,  51,    32,    67,    16,    83,    256,
    52,    223,   784,   84,    1119,  3984,  36,    2048,  83,    20,    928,   115,   84,    128,   20,    79,
    1184,  67,    1247,  160,   35,    20,    65,    335,   3120,  51,    144,   129,   131,   32,    115,   480,
    67,    2368,  51,    127,   2992,  883,   64,    803,   128,   19,    224,   19,    32,    84,    240,   83,
    16,    243,   239,   512,   115,   49535, 672,   17,    480,   1537,  2048,  3843,  4079,  256,   65521, 65521,
    65521, 65521, 65521, 65521, 65521, 65521, 65521, 65521, 65521, 65521, 65521, 65521, 65521, 65521, 225,   32,
    65521, 65521, 65521, 65521, 65521, 65521, 65521, 65521, 65521, 65521, 65521, 65521, 65521, 65521, 65521, 65521,
    225,   32,
    /* bench/unicode_classes.py: end */
};

/* Ranges of Chinese characters. In BERT's own code one range begins with U+2B820; in the package `tokenizers`, as here,
 * it begins with U+2B920. */
static const uint32_t chinese[][2] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},  {0x20000, 0x2a6df},
                                      {0x2a700, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};

/* Action of normalization on a character, as the table stores it. The value CHANGE + i replaces the character by the
 * text of change[i]. */
enum { KEEP, DROP, TO_SPACE, APART, REORDER, CHANGE }; /* APART: between spaces */

enum {
    PAGE = 256,
    PAGES = 0x110000 / PAGE,
    MOST_PARTS = 2 * ZR__NFC_PARTS + 2, /* maximum number of characters that a character becomes */
    MOST_BYTES = 15,
    GROWTH = 5,      /* maximum factor by which the bytes of a text grow: a character of 2 bytes may become 10 */
    PLAIN = 0x30000, /* from this character on, no character is composed of others or has two cases */
    FEW = 64,
};

/* The text that replaces a character. */
typedef struct change {
    uint8_t bytes;
    char text[MOST_BYTES];
} change;

struct zr__bert {
    zr__bert_options options;
    zr__classes *classes;
    zr__classes *nfc;
    uint16_t place[PAGES];
    uint16_t (*page)[PAGE];
    change *change;
};

/* ---- one character --------------------------------------------------------------------------- */

static bool is_chinese(uint32_t c)
{
    for (size_t i = 0; i < sizeof(chinese) / sizeof(chinese[0]); i++)
        if (c >= chinese[i][0] && c <= chinese[i][1]) return true;
    return false;
}

/* Append a character that has already been decomposed and not dropped, in lower case if wanted. */
static int64_t put_part(const zr__bert *b, int32_t c, int32_t *out)
{
    if (b->options.lowercase && c < PLAIN) return zr__lower(c, out);
    out[0] = c;
    return 1;
}

/* Compute the characters that replace a single character. *reorder receives whether its place may depend on its
 * neighbours: it has a combining class and is not dropped. */
static int64_t spell(const zr__bert *b, uint32_t c, int32_t out[MOST_PARTS], bool *reorder)
{
    const unsigned its = zr__class_of(b->classes, c);
    const bool apart = b->options.chinese && is_chinese(c);
    int32_t part[ZR__NFC_PARTS] = {(int32_t)c}, spare[2];
    int64_t n = 0, parts = 1;
    *reorder = false;
    if (b->options.clean && (its == CONTROL || its == CONTROL_SPACE)) return 0;
    if (b->options.clean && its == SPACE) {
        out[0] = ' ';
        return 1;
    }
    if (b->options.strip_accents && c < PLAIN) parts = zr__nfc_decompose((int32_t)c, part);
    if (apart) out[n++] = ' ';
    for (int64_t i = 0; i < parts; i++) {
        if (b->options.strip_accents && zr__class_of(b->classes, (uint32_t)part[i]) == MARK) continue;
        if (b->options.strip_accents && zr__nfc_class(b->nfc, part[i]) > 0) *reorder = true;
        const int64_t more = put_part(b, part[i], spare);
        memcpy(out + n, spare, (size_t)more * sizeof(*out));
        n += more;
    }
    if (apart) out[n++] = ' ';
    return n;
}

/* ---- the tables ------------------------------------------------------------------------------ */

/* Return the action for a character. If it is a change, store the change in *to. */
static uint16_t look_up(const zr__bert *b, uint32_t c, change *to)
{
    int32_t out[MOST_PARTS];
    bool reorder = false;
    const int64_t n = spell(b, c, out, &reorder);
    *to = (change){0};
    if (reorder) return REORDER;
    if (n == 0) return DROP;
    if (n == 1 && out[0] == (int32_t)c) return KEEP;
    if (n == 1 && out[0] == ' ') return TO_SPACE;
    if (n == 3 && out[0] == ' ' && out[1] == (int32_t)c && out[2] == ' ') return APART;
    for (int64_t i = 0; i < n; i++) to->bytes += (uint8_t)zr__character_put(out[i], to->text + to->bytes);
    return CHANGE;
}

/* Fill the table. If its arrays are NULL, only count its changes and pages. */
static void fill(zr__bert *b, int64_t *changes, int64_t *pages)
{
    uint16_t page[PAGE], last = UINT16_MAX;
    *changes = *pages = 0;
    for (uint32_t p = 0; p < PAGES; p++) {
        bool plain = true;
        for (uint32_t i = 0; i < PAGE; i++) {
            const uint32_t c = p * PAGE + i;
            change to;
            page[i] = c >= 0xd800 && c < 0xe000 ? DROP : look_up(b, c, &to);
            if (page[i] == CHANGE && b->change) b->change[*changes] = to;
            if (page[i] == CHANGE) page[i] = (uint16_t)(CHANGE + (*changes)++);
            plain = plain && page[i] == page[0];
        }
        /* Neighbouring pages with the same single action share one page of the table. */
        const bool same = plain && last == page[0];
        if (!same && b->page) memcpy(b->page[*pages], page, sizeof(page));
        *pages += !same;
        b->place[p] = (uint16_t)(*pages - 1);
        last = plain ? page[0] : UINT16_MAX;
    }
}

zr_status zr__bert_open(zr__bert_options options, zr__bert **bert)
{
    int64_t changes = 0, pages = 0;
    zr__bert *b = *bert = zr_alloc(sizeof(*b));
    ZR_CHECK(b, ZR_ERR_MEMORY, "no memory for tables of characters");
    b->options = options;
    ZR_TRY(zr__classes_make(ranges, sizeof(ranges) / sizeof(ranges[0]), &b->classes));
    ZR_TRY(zr__nfc_open(ZR__FORM_C, &b->nfc));
    fill(b, &changes, &pages);
    ZR_ASSERT(changes + CHANGE < UINT16_MAX);
    b->page = zr_alloc((size_t)pages * sizeof(*b->page));
    b->change = zr_alloc((size_t)(changes + 1) * sizeof(*b->change));
    ZR_CHECK(b->page && b->change, ZR_ERR_MEMORY, "no memory for tables of characters");
    fill(b, &changes, &pages);
    return ZR_OK;
}

void zr__bert_close(zr__bert **bert)
{
    if (!*bert) return;
    zr__classes_close(&(*bert)->classes);
    zr__classes_close(&(*bert)->nfc);
    zr_free((*bert)->page);
    zr_free((*bert)->change);
    zr_free(*bert);
    *bert = NULL;
}

int zr__bert_number(const zr__bert *bert)
{
    const zr__bert_options *o = &bert->options;
    return o->clean | o->chinese << 1 | o->strip_accents << 2 | o->lowercase << 3;
}

/* ---- normalizing ----------------------------------------------------------------------------- */

/* Decompose a run of marks, which begins at a character that must be reordered and includes all following characters
 * with a combining class. Return the end of the run; *n receives the number of characters in c. */
static int64_t gather_run(const zr__bert *b, const char *text, int64_t at, int64_t bytes, int32_t *c, int64_t *n)
{
    const int64_t from = at;
    for (int64_t length = 0; at < bytes; at += length) {
        int32_t part[ZR__NFC_PARTS];
        length = zr__text_utf8(text + at, bytes - at);
        if (length == 0) break;
        const uint32_t its = zr__character_at((const unsigned char *)text + at, &length);
        const unsigned class = zr__class_of(b->classes, its);
        if (b->options.clean && (class == CONTROL || class == CONTROL_SPACE)) continue;
        const int64_t parts = zr__nfc_decompose((int32_t)its, part);
        if (at > from && zr__nfc_class(b->nfc, part[0]) == 0) break;
        if (c) memcpy(c + *n, part, (size_t)parts * sizeof(*c));
        *n += parts;
    }
    return at;
}

/* Normalize a run of marks. Return its end. */
static int64_t add_run(const zr__bert *b, const char *text, int64_t at, int64_t bytes, zr__text *out)
{
    int32_t few[2 * FEW], *c = few, lower[2];
    int64_t n = 0;
    const int64_t end = gather_run(b, text, at, bytes, NULL, &n);
    if (n > FEW) c = zr_alloc(2 * (size_t)n * sizeof(*c));
    out->failed |= !c;
    if (!c) return end;
    const int64_t count = n;
    n = 0;
    (void)gather_run(b, text, at, bytes, c, &n);
    zr__nfc_order(b->nfc, c, n, c + count);
    for (int64_t i = 0; i < n; i++) {
        char utf8[8];
        int64_t length = 0;
        if (zr__class_of(b->classes, (uint32_t)c[i]) == MARK) continue;
        const int64_t more = put_part(b, c[i], lower);
        for (int64_t k = 0; k < more; k++) length += zr__character_put(lower[k], utf8 + length);
        zr__text_append(out, utf8, (size_t)length);
    }
    if (c != few) zr_free(c);
    return end;
}

/* Append normalized text up to the first character that must be reordered. Return the position of this character. */
static int64_t add_plain(const zr__bert *b, const char *text, int64_t at, int64_t bytes, zr__text *out)
{
    char piece[4096 + MOST_BYTES];
    size_t n = 0;
    for (int64_t length = 1; at < bytes; at += length) {
        uint32_t c = (unsigned char)text[at];
        length = 1;
        if (c >= 0x80 && (length = zr__text_utf8(text + at, bytes - at)) == 0) {
            length = 1;
            c = 0xfffd;
        } else if (c >= 0x80) {
            c = zr__character_at((const unsigned char *)text + at, &length);
        }
        const uint16_t what = b->page[b->place[c / PAGE]][c % PAGE];
        if (what == REORDER) break;
        if (what == KEEP) {
            memcpy(piece + n, text + at, (size_t)length);
            n += (size_t)length;
        } else if (what == TO_SPACE) {
            piece[n++] = ' ';
        } else if (what == APART) {
            piece[n] = piece[n + 1 + (size_t)length] = ' ';
            memcpy(piece + n + 1, text + at, (size_t)length);
            n += 2 + (size_t)length;
        } else if (what >= CHANGE) {
            memcpy(piece + n, b->change[what - CHANGE].text, MOST_BYTES);
            n += b->change[what - CHANGE].bytes;
        }
        if (n < sizeof(piece) - MOST_BYTES) continue;
        zr__text_append(out, piece, n);
        n = 0;
    }
    zr__text_append(out, piece, n);
    return at;
}

zr_status zr__bert_add(const zr__bert *bert, const char *text, int64_t bytes, zr__text *out)
{
    for (int64_t at = 0; at < bytes;) {
        at = add_plain(bert, text, at, bytes, out);
        if (at < bytes) at = add_run(bert, text, at, bytes, out);
    }
    ZR_CHECK(!out->failed, ZR_ERR_MEMORY, "no memory to normalize %lld bytes of text", (long long)bytes);
    return ZR_OK;
}

/* ---- words ----------------------------------------------------------------------------------- */

bool zr__bert_is_punctuation(const zr__bert *b, uint32_t c)
{
    return zr__class_of(b->classes, c) == PUNCTUATION;
}

bool zr__bert_next(const zr__bert *b, const char *text, int64_t bytes, zr__bert_word *word)
{
    const unsigned char *at = (const unsigned char *)text;
    bool inside = false;
    for (int64_t i = word->to, length = 1; i < bytes; i += length) {
        const bool valid = at[i] < 0x80 || zr__text_utf8(text + i, bytes - i) > 0;
        const unsigned its = valid ? zr__class_at(b->classes, at + i, &length) : OTHER;
        if (!valid) length = 1;
        const bool ends = its == SPACE || its == CONTROL_SPACE || its == PUNCTUATION;
        if (ends && inside) {
            word->to = i;
            return true;
        }
        if (!inside) word->from = i;
        if (its == PUNCTUATION) {
            word->to = i + length;
            return true;
        }
        inside = !ends;
    }
    word->to = bytes;
    return inside;
}
