#include "data/pieces/split.h"

#include "base/text/text.h"
#include "data/pieces/expression.h"
#include "data/pieces/scripts.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>
#include <xxhash.h>

/* Limits of one match. MATCH_LIMIT bounds the backtracking steps. Natural text needs only a handful. With a higher
 * limit, some texts would take minutes, since every position may reach the limit. The other two are the initial and the
 * maximum size of the JIT stack. */
enum { MATCH_LIMIT = 10000000, STACK_LEAST_BYTES = 1 << 15, STACK_MOST_BYTES = 1 << 23 };

typedef struct step {
    zr__cut cut;  /* the step owns its text */
    bool changes; /* whether the step changes pieces instead of cutting them */
    zr__changes change;
    const zr__scan *scan; /* hand-written code for the expression, or NULL */
    pcre2_code *code;     /* compiled expression, or NULL */
} step;

/* Places where a text may be cut: nowhere, or before ASCII white space behind another character: only before blanks, or
 * also before line ends. */
typedef enum places { NO_PLACES, BEFORE_BLANKS, BEFORE_SPACES } places;

struct zr__split {
    const zr__classes *classes;
    zr__bert *bert;                /* tables for ZR__MATCH_PUNCTUATION and ZR__MATCH_BERT, or NULL */
    pcre2_general_context *memory; /* allocator of PCRE2; NULL if no step needs PCRE2 */
    step step[ZR__SPLIT_MOST];
    int n;
    places places;
    bool settled; /* whether no later step affects `places` */
};

/* ---- memory ----------------------------------------------------------------------------------- */

static _Thread_local bool lacked; /* whether an allocation has failed since the last reset */

static void *allocate_memory(PCRE2_SIZE bytes, void *arg)
{
    (void)arg;
    void *memory = zr_alloc(bytes);
    lacked |= !memory;
    return memory;
}

static void release_memory(void *memory, void *arg)
{
    (void)arg;
    zr_free(memory);
}

/* ---- steps ----------------------------------------------------------------------------------- */

zr_status zr__split_open(const zr__classes *classes, zr__split **split)
{
    *split = zr_alloc(sizeof(**split));
    ZR_CHECK(*split, ZR_ERR_MEMORY, "no memory to cut text into pieces");
    (*split)->classes = classes;
    return ZR_OK;
}

void zr__split_close(zr__split **split)
{
    if (!*split) return;
    for (int i = 0; i < (*split)->n; i++) {
        step *s = &(*split)->step[i];
        zr_free((char *)s->cut.text);
        zr__changes_free(&s->change);
        pcre2_code_free(s->code);
    }
    zr__bert_close(&(*split)->bert);
    pcre2_general_context_free((*split)->memory);
    zr_free(*split);
    *split = NULL;
}

/* Compile `text` in PCRE2's syntax. Messages show the original expression. */
static zr_status compile(pcre2_compile_context *context, const char *text, const char *expression, const char *where,
                         pcre2_code **code)
{
    int error = 0;
    uint32_t empty = 0;
    PCRE2_SIZE at = 0;
    PCRE2_UCHAR why[128] = "";
    lacked = false;
    *code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error, &at, context);
    ZR_CHECK(!lacked, ZR_ERR_MEMORY, "%s: no memory for the regular expression \"%s\"", where, ZR_SHOWN(expression));
    if (!*code) pcre2_get_error_message(error, why, sizeof(why));
    ZR_CHECK(*code, ZR_ERR_DATA, "%s: \"%s\" is not a valid regular expression: %s", where, ZR_SHOWN(expression),
             (const char *)why);
    (void)pcre2_pattern_info(*code, PCRE2_INFO_MATCHEMPTY, &empty);
    ZR_CHECK(!empty, ZR_ERR_DATA, "%s: the regular expression \"%s\" can match an empty text", where,
             ZR_SHOWN(expression));
    /* Ignore a failure: PCRE2 uses its interpreter if this processor has no JIT compiler or memory may not be
     * executable. */
    (void)pcre2_jit_compile(*code, PCRE2_JIT_COMPLETE);
    ZR_CHECK(!lacked, ZR_ERR_MEMORY, "%s: no memory to compile the regular expression \"%s\"", where,
             ZR_SHOWN(expression));
    return ZR_OK;
}

/* Return whether every piece of a step's known expression is a piece of the step. All text matches known expressions.
 */
static bool is_whole(const zr__cut *cut)
{
    return (cut->behavior == ZR__ISOLATED && !cut->invert) || (cut->behavior == ZR__REMOVED && cut->invert);
}

static zr_status take_expression(zr__split *split, step *s, const char *where)
{
    ZR_AUTO_FREE char *text = NULL;
    const bool scripts = s->cut.kind == ZR__MATCH_SCRIPT;
    s->scan = !scripts && is_whole(&s->cut) ? zr__scan_find(s->cut.text) : NULL;
    if (s->scan) return ZR_OK;
    ZR_TRY(scripts ? zr__scripts_expression(&text) : zr__expression_translate(s->cut.text, where, &text));
    if (!split->memory) split->memory = pcre2_general_context_create(allocate_memory, release_memory, NULL);
    pcre2_compile_context *context = split->memory ? pcre2_compile_context_create(split->memory) : NULL;
    ZR_CHECK(context, ZR_ERR_MEMORY, "%s: no memory for regular expressions", where);
    const zr_status st = compile(context, text, scripts ? text : s->cut.text, where, &s->code);
    pcre2_compile_context_free(context);
    return st;
}

/* Return whether a step has the same pieces if a text is cut before white space, except that a piece may be cut there.
 */
static bool is_neutral(const step *s)
{
    const bool apart = s->cut.kind == ZR__MATCH_DIGIT || s->cut.kind == ZR__MATCH_PUNCTUATION;
    return !s->changes && apart && !s->cut.invert && s->cut.behavior != ZR__WITH_NEXT;
}

/* Return where the pieces of a step always end. */
static places places_of(const step *s)
{
    if (s->changes) return NO_PLACES;
    if (s->scan) return zr__scan_joins_lines(s->scan) ? BEFORE_BLANKS : BEFORE_SPACES;
    const bool spaces =
        s->cut.kind == ZR__MATCH_SPACE || s->cut.kind == ZR__MATCH_WORDS || s->cut.kind == ZR__MATCH_BERT;
    return spaces && s->cut.behavior == ZR__REMOVED ? BEFORE_SPACES : NO_PLACES;
}

static zr_status append(zr__split *split, step **s, const char *where)
{
    ZR_CHECK(split->n < ZR__SPLIT_MOST, ZR_ERR_DATA, "%s: more than %d steps", where, ZR__SPLIT_MOST);
    *s = &split->step[split->n++];
    return ZR_OK;
}

static void settle_places(zr__split *split, const step *s)
{
    if (split->settled || is_neutral(s)) return;
    split->places = places_of(s);
    split->settled = true;
}

zr_status zr__split_add(zr__split *split, zr__cut cut, const char *where)
{
    step *s = NULL;
    ZR_TRY(append(split, &s, where));
    s->cut = cut;
    s->cut.text = NULL;
    if (cut.text) ZR_TRY(zr__text_copy(cut.text, strlen(cut.text), (char **)&s->cut.text));
    if (cut.kind == ZR__MATCH_EXPRESSION || cut.kind == ZR__MATCH_SCRIPT) ZR_TRY(take_expression(split, s, where));
    if ((cut.kind == ZR__MATCH_PUNCTUATION || cut.kind == ZR__MATCH_BERT) && !split->bert)
        ZR_TRY(zr__bert_open((zr__bert_options){0}, &split->bert));
    settle_places(split, s);
    return ZR_OK;
}

zr_status zr__split_add_change(zr__split *split, zr__change_kind kind, const char *from, const char *to, bool first,
                               const char *where)
{
    step *s = NULL;
    ZR_TRY(append(split, &s, where));
    s->changes = true;
    ZR_TRY(zr__changes_add(&s->change, kind, from, to, where));
    s->change.change[0].first = first;
    settle_places(split, s);
    const int64_t growth = zr__split_growth(split, false);
    ZR_CHECK(growth <= ZR__GROWTH_MOST, ZR_ERR_DATA,
             "%s: this step and the steps before it may make %lld bytes of one byte of text; the limit is %d", where,
             (long long)growth, ZR__GROWTH_MOST);
    return ZR_OK;
}

static uint64_t hash_cut(const step *s, uint64_t hash)
{
    const zr__cut *cut = &s->cut;
    const int64_t told[] = {cut->kind, cut->behavior, cut->invert, cut->length};
    if (cut->text) hash = XXH3_64bits_withSeed(cut->text, strlen(cut->text), hash);
    const bool plain = cut->kind == ZR__MATCH_EXPRESSION && cut->behavior == ZR__ISOLATED && !cut->invert;
    return plain ? hash : XXH3_64bits_withSeed(told, sizeof(told), hash);
}

/* The version of Unicode matters only to PCRE2, because the tables of classes are part of zr. */
uint64_t zr__split_hash(const zr__split *split)
{
    static const char scans[] = "scan 1";
    char unicode[32] = "";
    (void)pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, unicode);
    uint64_t hash = split->memory ? XXH3_64bits(unicode, strlen(unicode)) : XXH3_64bits(scans, sizeof(scans));
    for (int i = 0; i < split->n; i++) {
        const step *s = &split->step[i];
        hash = s->changes ? zr__changes_hash(&s->change, hash) : hash_cut(s, hash);
    }
    return hash;
}

int64_t zr__split_growth(const zr__split *split, bool characters)
{
    int64_t growth = 1;
    for (int i = 0; i < split->n && growth <= ZR__GROWTH_MOST; i++) {
        const zr__changes *changes = &split->step[i].change;
        int64_t more = 0; /* bytes prepended to a piece, which has at least one byte */
        const int64_t times = zr__changes_growth(changes, &more);
        growth *= characters ? 1 + (more > 0) : times + more;
    }
    return growth;
}

bool zr__split_moves(const zr__split *split)
{
    for (int i = 0; i < split->n; i++)
        if (split->step[i].changes) return true;
    return false;
}

/* ---- matches --------------------------------------------------------------------------------- */

/* Working memory of a step, and the piece that it cuts. */
typedef struct level {
    zr__matcher *matcher;
    const char *text;
    zr__begins begins;
    pcre2_match_data *found;
    zr__changing changing;
} level;

struct zr__matcher {
    const zr__split *split;
    const char *text; /* the present range, and its position in the whole text, for messages */
    int64_t text_at, text_bytes;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    level level[ZR__SPLIT_MOST];
    zr__split_fn fn;
    void *arg;
};

/* A range of a text. */
typedef struct range {
    int64_t from, to;
} range;

/* Find the first match at or after `at` in text[0, bytes). Without a match, leave *found unchanged. */
typedef zr_status (*find_fn)(const zr__matcher *m, int number, const char *text, int64_t at, int64_t bytes,
                             range *found);

static zr_status find_expression(const zr__matcher *m, int number, const char *text, int64_t at, int64_t bytes,
                                 range *found)
{
    pcre2_match_data *data = m->level[number].found;
    const int rc = pcre2_match(m->split->step[number].code, (PCRE2_SPTR)text, (PCRE2_SIZE)bytes, (PCRE2_SIZE)at,
                               PCRE2_NO_UTF_CHECK, data, m->context);
    if (rc == PCRE2_ERROR_NOMATCH) return ZR_OK;
    const bool inside = text >= m->text && text <= m->text + m->text_bytes; /* if not, a step has changed the text */
    ZR_CHECK(rc >= 0, rc == PCRE2_ERROR_NOMEMORY ? ZR_ERR_MEMORY : ZR_ERR_DATA,
             "the tokenizer's regular expression failed at byte %lld of the text (PCRE2 error %d)",
             (long long)(m->text_at + (inside ? text + at - m->text : 0)), rc);
    const PCRE2_SIZE *its = pcre2_get_ovector_pointer(data);
    *found = (range){(int64_t)its[0], (int64_t)its[1]};
    return ZR_OK;
}

static zr_status find_text(const zr__matcher *m, int number, const char *text, int64_t at, int64_t bytes, range *found)
{
    const char *wanted = m->split->step[number].cut.text;
    const size_t n = strlen(wanted);
    const char *its = memmem(text + at, (size_t)(bytes - at), wanted, n);
    if (its) *found = (range){its - text, its - text + (int64_t)n};
    return ZR_OK;
}

/* Find the first character for which `is` holds. */
static zr_status find_character(const zr__matcher *m, bool (*is)(const zr__split *split, uint32_t c), const char *text,
                                int64_t at, int64_t bytes, range *found)
{
    for (int64_t n = 1; at < bytes; at += n) {
        if (!is(m->split, zr__character_at((const unsigned char *)text + at, &n))) continue;
        *found = (range){at, at + n};
        break;
    }
    return ZR_OK;
}

static bool is_white(const zr__split *split, uint32_t c)
{
    return zr__class_of(split->classes, c) == ZR__SPACE;
}

/* Return whether a character is a number, by Unicode 17. The classes are of version 16. */
static bool is_digit(const zr__split *split, uint32_t c)
{
    return ZR__NUMBERS >> zr__class_of(split->classes, c) & 1 || (c >= 0x11de0 && c <= 0x11de9) ||
           (c >= 0x16ff4 && c <= 0x16ff6);
}

static bool is_punctuation(const zr__split *split, uint32_t c)
{
    return zr__bert_is_punctuation(split->bert, c);
}

static zr_status find_space(const zr__matcher *m, int number, const char *text, int64_t at, int64_t bytes, range *found)
{
    (void)number;
    return find_character(m, is_white, text, at, bytes, found);
}

static zr_status find_digit(const zr__matcher *m, int number, const char *text, int64_t at, int64_t bytes, range *found)
{
    (void)number;
    return find_character(m, is_digit, text, at, bytes, found);
}

static zr_status find_punctuation(const zr__matcher *m, int number, const char *text, int64_t at, int64_t bytes,
                                  range *found)
{
    (void)number;
    return find_character(m, is_punctuation, text, at, bytes, found);
}

/* Find the expression \w+|[^\w\s]+. */
static zr_status find_words(const zr__matcher *m, int number, const char *text, int64_t at, int64_t bytes, range *found)
{
    unsigned set = 0;
    (void)number;
    for (int64_t n = 1; at < bytes; at += n) {
        const unsigned its = ZR__BIT(zr__class_at(m->split->classes, (const unsigned char *)text + at, &n));
        if (set == 0 && its == ZR__BIT(ZR__SPACE)) continue;
        if (set == 0) {
            set = its & ZR__WORDS ? ZR__WORDS : ~(ZR__WORDS | ZR__BIT(ZR__SPACE));
            found->from = at;
        }
        if (!(its & set)) break;
        found->to = at + n;
    }
    return ZR_OK;
}

static zr_status find_bert(const zr__matcher *m, int number, const char *text, int64_t at, int64_t bytes, range *found)
{
    zr__bert_word word = {at, at};
    (void)number;
    if (zr__bert_next(m->split->bert, text, bytes, &word)) *found = (range){word.from, word.to};
    return ZR_OK;
}

static zr_status find_length(const zr__matcher *m, int number, const char *text, int64_t at, int64_t bytes,
                             range *found)
{
    int64_t n = 1, left = m->split->step[number].cut.length;
    for (found->from = at; at < bytes && left > 0; at += n, left--)
        (void)zr__character_at((const unsigned char *)text + at, &n);
    found->to = at;
    return ZR_OK;
}

static const find_fn finds[ZR__MATCH_KINDS] = {
    [ZR__MATCH_EXPRESSION] = find_expression,
    [ZR__MATCH_SCRIPT] = find_expression,
    [ZR__MATCH_TEXT] = find_text,
    [ZR__MATCH_SPACE] = find_space,
    [ZR__MATCH_DIGIT] = find_digit,
    [ZR__MATCH_PUNCTUATION] = find_punctuation,
    [ZR__MATCH_WORDS] = find_words,
    [ZR__MATCH_BERT] = find_bert,
    [ZR__MATCH_LENGTH] = find_length,
};

/* ---- pieces ---------------------------------------------------------------------------------- */

/* A match, or the text between two matches. */
typedef struct part {
    int64_t from, to;
    bool match;
} part;

/* Return whether a part belongs to the same piece as the part before it. */
static bool joins(zr__behavior behavior, bool before, bool match)
{
    switch (behavior) {
    case ZR__ISOLATED:
    case ZR__REMOVED:
        return false;
    case ZR__CONTIGUOUS:
        return match == before;
    case ZR__WITH_PREVIOUS:
        return match && !before;
    case ZR__WITH_NEXT:
        return !match && before;
    }
    return false;
}

static zr_status enter(zr__matcher *m, int number, const char *text, int64_t bytes, zr__begins begins);

static zr_status put_part(zr__matcher *m, int number, const char *text, part its, zr__begins begins)
{
    const bool removed = its.match && m->split->step[number].cut.behavior == ZR__REMOVED;
    if (removed || its.to == its.from) return ZR_OK;
    return enter(m, number + 1, text + its.from, its.to - its.from, its.from == 0 ? begins : ZR__BEHIND);
}

/* Append a part to the piece `held`, or put that piece and hold the part. */
static zr_status add_part(zr__matcher *m, int number, const char *text, part its, zr__begins begins, part *held)
{
    if (its.to == its.from) return ZR_OK;
    if (held->to > held->from && joins(m->split->step[number].cut.behavior, held->match, its.match)) {
        held->to = its.to;
        held->match = its.match;
        return ZR_OK;
    }
    ZR_TRY(put_part(m, number, text, *held, begins));
    *held = its;
    return ZR_OK;
}

/* Cut valid UTF-8 into pieces by step `number`. */
static zr_status cut_level(zr__matcher *m, int number, const char *text, int64_t bytes, zr__begins begins)
{
    const zr__cut *cut = &m->split->step[number].cut;
    part held = {0, 0, false};
    for (int64_t at = 0; at < bytes;) {
        range found = {bytes, bytes};
        ZR_TRY(finds[cut->kind](m, number, text, at, bytes, &found));
        ZR_TRY(add_part(m, number, text, (part){at, found.from, cut->invert}, begins, &held));
        ZR_TRY(add_part(m, number, text, (part){found.from, found.to, !cut->invert}, begins, &held));
        at = found.to;
    }
    return put_part(m, number, text, held, begins);
}

static zr_status put_scanned(void *arg, const char *piece, int64_t bytes)
{
    const level *l = arg;
    const int number = (int)(l - l->matcher->level);
    return enter(l->matcher, number + 1, piece, bytes, piece == l->text ? l->begins : ZR__BEHIND);
}

/* Hand valid UTF-8 to step `number`, or to the matcher's function after the last step. */
static zr_status enter(zr__matcher *m, int number, const char *text, int64_t bytes, zr__begins begins)
{
    if (number == m->split->n) return m->fn(m->arg, text, bytes);
    const step *s = &m->split->step[number];
    level *l = &m->level[number];
    if (s->changes) {
        zr__changed changed;
        ZR_TRY(zr__changes_apply(&s->change, text, bytes, begins, &l->changing, &changed));
        return changed.bytes > 0 ? enter(m, number + 1, changed.text, changed.bytes, begins) : ZR_OK;
    }
    if (!s->scan) return cut_level(m, number, text, bytes, begins);
    l->text = text;
    l->begins = begins;
    const bool last = number + 1 == m->split->n;
    return zr__scan_run(s->scan, m->split->classes, text, bytes, last ? m->fn : put_scanned, last ? m->arg : l);
}

/* Return how many bytes at the beginning are valid UTF-8. ASCII is checked eight bytes at a time. */
static int64_t valid_bytes(const char *text, int64_t bytes)
{
    int64_t i = 0, n = 1;
    while (i < bytes && n > 0) {
        uint64_t eight = ~UINT64_C(0);
        if (i + 8 <= bytes) memcpy(&eight, text + i, 8);
        n = eight & UINT64_C(0x8080808080808080) ? zr__text_utf8(text + i, bytes - i) : 8;
        i += n;
    }
    return i;
}

zr_status zr__matcher_cut(zr__matcher *m, const char *text, int64_t bytes, zr__begins begins, int64_t at)
{
    m->text = text;
    m->text_at = at;
    m->text_bytes = bytes;
    while (bytes > 0) {
        int64_t n = valid_bytes(text, bytes);
        if (n > 0)
            ZR_TRY(enter(m, 0, text, n, text == m->text ? begins : ZR__BEHIND));
        else
            ZR_TRY(m->fn(m->arg, text, 1));
        text += n > 0 ? n : 1;
        bytes -= n > 0 ? n : 1;
    }
    return ZR_OK;
}

static bool prepare_matcher(zr__matcher *m)
{
    lacked = false;
    for (int i = 0; i < m->split->n; i++) m->level[i].matcher = m;
    if (!m->split->memory) return true;
    m->context = pcre2_match_context_create(m->split->memory);
    /* the stack is NULL if PCRE2 was built without its JIT compiler, which alone needs the stack */
    m->stack = pcre2_jit_stack_create(STACK_LEAST_BYTES, STACK_MOST_BYTES, m->split->memory);
    if (!m->context) return false;
    pcre2_set_match_limit(m->context, MATCH_LIMIT);
    pcre2_jit_stack_assign(m->context, NULL, m->stack);
    for (int i = 0; i < m->split->n; i++)
        if (m->split->step[i].code) m->level[i].found = pcre2_match_data_create(1, m->split->memory);
    return !lacked;
}

zr_status zr__matcher_open(const zr__split *split, zr__split_fn fn, void *arg, zr__matcher **matcher)
{
    zr__matcher *m = zr_alloc(sizeof(*m));
    if (m) *m = (zr__matcher){.split = split, .fn = fn, .arg = arg};
    bool made = m && prepare_matcher(m);
    *matcher = m;
    if (!made) zr__matcher_close(matcher);
    ZR_CHECK(made, ZR_ERR_MEMORY, "no memory to match text");
    return ZR_OK;
}

void zr__matcher_close(zr__matcher **matcher)
{
    zr__matcher *m = *matcher;
    if (!m) return;
    for (int i = 0; i < ZR__SPLIT_MOST; i++) {
        pcre2_match_data_free(m->level[i].found);
        zr__changing_free(&m->level[i].changing);
    }
    pcre2_jit_stack_free(m->stack);
    pcre2_match_context_free(m->context);
    zr_free(m);
    *matcher = NULL;
}

static zr_status replace_valid(zr__matcher *m, const char *text, int64_t bytes, const char *to, zr__text *out)
{
    for (int64_t at = 0; at < bytes;) {
        range found = {bytes, bytes};
        ZR_TRY(finds[m->split->step[0].cut.kind](m, 0, text, at, bytes, &found));
        zr__text_append(out, text + at, (size_t)(found.from - at));
        if (found.to > found.from) zr__text_append(out, to, strlen(to));
        at = found.to;
    }
    return ZR_OK;
}

zr_status zr__split_replace(const zr__split *split, const char *text, int64_t bytes, const char *to, zr__text *out)
{
    ZR_AUTO(zr__matcher_close) zr__matcher *m = NULL;
    ZR_TRY(zr__matcher_open(split, NULL, NULL, &m));
    m->text = text;
    m->text_bytes = bytes;
    while (bytes > 0) {
        const int64_t n = valid_bytes(text, bytes), all = n > 0 ? n : 1;
        if (n > 0)
            ZR_TRY(replace_valid(m, text, n, to, out));
        else
            zr__text_append(out, text, 1);
        text += all;
        bytes -= all;
    }
    ZR_CHECK(!out->failed, ZR_ERR_MEMORY, "no memory to replace matches in a text");
    return ZR_OK;
}

/* ---- cuts ------------------------------------------------------------------------------------ */

static bool is_space(unsigned char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* White space beyond ASCII begins with the bytes C2, E1, E2 or E3 80 80. Any character that begins with these bytes
 * counts as possible white space. */
bool zr__split_solid_before(const char *string, int64_t at)
{
    const unsigned char *text = (const unsigned char *)string;
    if (at < 1 || text[at - 1] < 0x80) return at >= 1 && !is_space(text[at - 1]);
    if (at >= 2 && text[at - 2] == 0xc2) return false;
    if (at < 3) return true;
    const unsigned char *lead = text + at - 3;
    return lead[0] != 0xe1 && lead[0] != 0xe2 && !(lead[0] == 0xe3 && lead[1] == 0x80 && lead[2] == 0x80);
}

/* Return the offset of the last ASCII white space that follows a character other than white space. A cut before this
 * white space is safe for the expressions of scan.h: the white space begins a piece, and only alternatives for white
 * space have a lookahead. Leave out line ends if they may belong to the piece before them. */
int64_t zr__split_cut(const zr__split *split, const char *string, int64_t from, int64_t bytes)
{
    const unsigned char *text = (const unsigned char *)string;
    if (split->places == NO_PLACES) return 0;
    for (int64_t at = bytes - 1; at > 0 && at >= from; at--) {
        const bool line_end = text[at] == '\r' || text[at] == '\n';
        if (is_space(text[at]) && !(line_end && split->places == BEFORE_BLANKS) && zr__split_solid_before(string, at))
            return at;
    }
    return 0;
}
