#include "data/pieces/split.h"

#include "base/text/text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* Limits of one match. MATCH_LIMIT bounds the backtracking steps. Natural text needs only a handful. With a higher
 * limit, some texts would take minutes, since every position may reach the limit. The other two are the initial and the
 * maximum size of the JIT stack. */
enum { MATCH_LIMIT = 10000000, STACK_LEAST_BYTES = 1 << 15, STACK_MOST_BYTES = 1 << 23 };

/* White space as Unicode defines it. PCRE2's \s has one more character (U+180E). */
#define SPACE_SET "\\t-\\r\\x{85}\\p{Z}"

struct zr__split {
    pcre2_general_context *memory; /* allocator of PCRE2 */
    pcre2_code *code[ZR__SPLIT_MOST];
    int n;
    const zr__scan *scan; /* hand-written code for the only expression, or NULL */
    const zr__classes *classes;
    bool gpt2; /* whether the only expression is GPT-2's */
    uint64_t hash;
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

/* ---- expressions ----------------------------------------------------------------------------- */

/* Translation of an expression from Oniguruma (Ruby), the syntax of tokenizer.json, to PCRE2. Only constructs with the
 * same meaning in both libraries are accepted. `bad` is the first construct that is not accepted. */
typedef struct translation {
    const char *at;
    zr__text out;
    bool in_set;
    char bad[32];
} translation;

static void refuse_construct(translation *t, int length)
{
    snprintf(t->bad, sizeof(t->bad), "%.*s", length, t->at);
}

static void copy_construct(translation *t, int length)
{
    zr__text_add(&t->out, "%.*s", length, t->at);
    t->at += length;
}

/* Return the length of a property at `at` if it is a short general category such as \p{Lu}, otherwise 0. Scripts are
 * refused because they depend on PCRE2's version. Long names are refused because some exist in only one library. */
static int category_bytes(const char *at)
{
    static const char known[] =
        " C Cc Cf Cn Co Cs L L& Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs ";
    int begin = at[3] == '^' ? 4 : 3, n = (int)strcspn(at + begin, "} ");
    char name[8];
    if (n < 1 || n > 2 || at[begin + n] != '}') return 0;
    snprintf(name, sizeof(name), " %.*s ", n, at + begin);
    return strstr(known, name) ? begin + n + 1 : 0;
}

static void translate_escape(translation *t)
{
    const char c = t->at[1];
    if (c == 's' || (c == 'S' && !t->in_set)) {
        zr__text_add(&t->out, t->in_set ? "%s" : c == 's' ? "[%s]" : "[^%s]", SPACE_SET);
        t->at += 2;
    } else if ((c == 'p' || c == 'P') && t->at[2] == '{') {
        const int n = category_bytes(t->at);
        if (n > 0)
            copy_construct(t, n);
        else
            refuse_construct(t, (int)strcspn(t->at, "}") + 1);
    } else if (c && strchr("rnt", c)) {
        copy_construct(t, 2);
    } else if (c && (unsigned char)c < 0x80 && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ", c)) {
        copy_construct(t, 2);
    } else {
        refuse_construct(t, 2);
    }
}

static void translate_in_set(translation *t)
{
    /* Nested sets and intersections of sets exist only in Oniguruma. */
    if (*t->at == '[' || (t->at[0] == '&' && t->at[1] == '&')) {
        refuse_construct(t, *t->at == '[' ? 1 : 2);
        return;
    }
    t->in_set = *t->at != ']';
    copy_construct(t, 1);
}

/* Return whether a caseless group is like the contractions in GPT-2's expression. Other groups are refused: in
 * Oniguruma alone, caseless "ss", "st", "ff", "fi" and "fl" also match a single character (U+00DF, U+FB06 ...). */
static bool is_plain_caseless(const char *at)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'|";
    size_t n = strspn(at, plain);
    for (size_t i = 0; i + 1 < n; i++) {
        int a = at[i] | 0x20, b = at[i + 1] | 0x20;
        if ((a == 's' && (b == 's' || b == 't')) || (a == 'f' && (b == 'f' || b == 'i' || b == 'l'))) return false;
    }
    return at[n] == ')';
}

static void translate_group(translation *t)
{
    static const char caseless[] = "(?i:";
    static const char *const known[] = {caseless, "(?:", "(?!", "(?="};
    if (strncmp(t->at, caseless, sizeof(caseless) - 1) == 0 && !is_plain_caseless(t->at + sizeof(caseless) - 1)) {
        refuse_construct(t, (int)strcspn(t->at, ")") + 1);
        return;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strncmp(t->at, known[i], strlen(known[i])) != 0) continue;
        copy_construct(t, (int)strlen(known[i]));
        return;
    }
    if (t->at[1] == '?' || t->at[1] == '*')
        refuse_construct(t, 4);
    else
        copy_construct(t, 1);
}

/* Return the length of a construct such as "{3}?" at `at`, or 0 if `at` begins with another construct. */
static int fixed_then_question(const char *at)
{
    int n = *at == '{' ? (int)strspn(at + 1, "0123456789") : 0;
    return n > 0 && at[n + 1] == '}' && at[n + 2] == '?' ? n + 3 : 0;
}

static void translate_outside(translation *t)
{
    if (*t->at == '[') {
        t->in_set = true;
        copy_construct(t, t->at[1] == '^' ? 2 : 1);
        if (*t->at == ']') refuse_construct(t, 1);
    } else if (*t->at == '(') {
        translate_group(t);
    } else if (*t->at == '^' || *t->at == '$') {
        /* Oniguruma matches the beginning or end of a line, PCRE2 the beginning or end of the text. */
        refuse_construct(t, 1);
    } else if ((t->at[0] == '}' && t->at[1] == '+') || (t->at[0] == '{' && t->at[1] == ',')) {
        /* The libraries differ: "}+" is either greedy or possessive, and "{," is either a count from 0 or plain text.
         */
        refuse_construct(t, 2);
    } else if (fixed_then_question(t->at) > 0) {
        /* In Oniguruma this is an optional repetition, in PCRE2 an exact repetition. */
        refuse_construct(t, fixed_then_question(t->at));
    } else {
        copy_construct(t, 1);
    }
}

static zr_status translate(const char *expression, const char *where, char **out)
{
    translation t = {.at = expression};
    while (*t.at && !t.bad[0]) {
        if (*t.at == '\\')
            translate_escape(&t);
        else if (t.in_set)
            translate_in_set(&t);
        else
            translate_outside(&t);
    }
    if (t.bad[0]) {
        zr__text_clear(&t.out);
        return ZR_FAIL(ZR_ERR_DATA, "%s: \"%s\" in the regular expression \"%s\" is not supported", where,
                       ZR_SHOWN(t.bad), ZR_SHOWN(expression));
    }
    return zr__text_take(&t.out, out);
}

static zr_status compile(pcre2_compile_context *context, const char *expression, const char *where, pcre2_code **code)
{
    char *translated = NULL;
    int error = 0;
    uint32_t empty = 0;
    PCRE2_SIZE at = 0;
    PCRE2_UCHAR why[128] = "";
    ZR_TRY(translate(expression, where, &translated));
    lacked = false;
    *code = pcre2_compile((PCRE2_SPTR)translated, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error, &at, context);
    zr_free(translated);
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

static zr_status compile_all(zr__split *split, const char *const *expression, int n, const char *where)
{
    char unicode[32] = "";
    zr_status st = ZR_OK;
    split->memory = pcre2_general_context_create(allocate_memory, release_memory, NULL);
    pcre2_compile_context *context = split->memory ? pcre2_compile_context_create(split->memory) : NULL;
    ZR_CHECK(context, ZR_ERR_MEMORY, "%s: no memory for regular expressions", where);
    (void)pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, unicode);
    split->hash = XXH3_64bits(unicode, strlen(unicode));
    for (; split->n < n && st == ZR_OK; split->n++) {
        split->hash = XXH3_64bits_withSeed(expression[split->n], strlen(expression[split->n]), split->hash);
        st = compile(context, expression[split->n], where, &split->code[split->n]);
    }
    pcre2_compile_context_free(context);
    split->gpt2 = n == 1 && strcmp(expression[0], ZR__SPLIT_GPT2) == 0;
    return st;
}

/* The hash needs no version of Unicode here, because the table of classes is part of zr. */
static void take_scan(zr__split *split, const zr__scan *scan, const char *expression, const zr__classes *classes)
{
    static const char kind[] = "scan 1";
    split->scan = scan;
    split->classes = classes;
    split->hash = XXH3_64bits_withSeed(expression, strlen(expression), XXH3_64bits(kind, sizeof(kind)));
}

zr_status zr__split_open(const char *const *expression, int n, const zr__classes *classes, const char *where,
                         zr__split **split)
{
    ZR_CHECK(n >= 1 && n <= ZR__SPLIT_MOST, ZR_ERR_DATA, "%s: there are %d regular expressions; 1 to %d are supported",
             where, n, ZR__SPLIT_MOST);
    const zr__scan *scan = n == 1 && classes ? zr__scan_find(expression[0]) : NULL;
    ZR_AUTO(zr__split_close) zr__split *made = zr_alloc(sizeof(*made));
    ZR_CHECK(made, ZR_ERR_MEMORY, "no memory for regular expressions");
    if (scan)
        take_scan(made, scan, expression[0], classes);
    else
        ZR_TRY(compile_all(made, expression, n, where));
    *split = ZR_TAKE(made);
    return ZR_OK;
}

void zr__split_close(zr__split **split)
{
    if (!*split) return;
    for (int i = 0; i < ZR__SPLIT_MOST; i++) pcre2_code_free((*split)->code[i]);
    pcre2_general_context_free((*split)->memory);
    zr_free(*split);
    *split = NULL;
}

uint64_t zr__split_hash(const zr__split *split)
{
    return split->hash;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

struct zr__matcher {
    const zr__split *split;
    const char *text; /* the present range, and its position in the whole text, for messages */
    int64_t text_at;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    pcre2_match_data *found[ZR__SPLIT_MOST];
    zr__split_fn fn;
    void *arg;
};

static zr_status cut_level(zr__matcher *m, int level, const char *text, int64_t bytes);

static zr_status hand_on(zr__matcher *m, int level, const char *text, int64_t bytes)
{
    if (bytes == 0) return ZR_OK;
    return level + 1 < m->split->n ? cut_level(m, level + 1, text, bytes) : m->fn(m->arg, text, bytes);
}

/* Cut valid UTF-8 into pieces by the expressions from number `level` on. */
static zr_status cut_level(zr__matcher *m, int level, const char *text, int64_t bytes)
{
    pcre2_match_data *found = m->found[level];
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(found);
    for (int64_t at = 0; at < bytes;) {
        int rc = pcre2_match(m->split->code[level], (PCRE2_SPTR)text, (PCRE2_SIZE)bytes, (PCRE2_SIZE)at,
                             PCRE2_NO_UTF_CHECK, found, m->context);
        if (rc == PCRE2_ERROR_NOMATCH) return hand_on(m, level, text + at, bytes - at);
        ZR_CHECK(rc >= 0, rc == PCRE2_ERROR_NOMEMORY ? ZR_ERR_MEMORY : ZR_ERR_DATA,
                 "the tokenizer's regular expression failed at byte %lld of the text (PCRE2 error %d)",
                 (long long)(m->text_at + (text + at - m->text)), rc);
        int64_t begin = (int64_t)range[0], end = (int64_t)range[1];
        ZR_TRY(hand_on(m, level, text + at, begin - at));
        ZR_TRY(hand_on(m, level, text + begin, end - begin));
        at = end;
    }
    return ZR_OK;
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

static zr_status cut_valid(zr__matcher *m, const char *text, int64_t bytes)
{
    const zr__split *split = m->split;
    return split->scan ? zr__scan_run(split->scan, split->classes, text, bytes, m->fn, m->arg)
                       : cut_level(m, 0, text, bytes);
}

zr_status zr__matcher_cut(zr__matcher *m, const char *text, int64_t bytes, int64_t at)
{
    m->text = text;
    m->text_at = at;
    while (bytes > 0) {
        int64_t n = valid_bytes(text, bytes);
        if (n > 0)
            ZR_TRY(cut_valid(m, text, n));
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
    if (m->split->scan) return true;
    m->context = pcre2_match_context_create(m->split->memory);
    /* the stack is NULL if PCRE2 was built without its JIT compiler, which alone needs the stack */
    m->stack = pcre2_jit_stack_create(STACK_LEAST_BYTES, STACK_MOST_BYTES, m->split->memory);
    if (!m->context) return false;
    pcre2_set_match_limit(m->context, MATCH_LIMIT);
    pcre2_jit_stack_assign(m->context, NULL, m->stack);
    for (int i = 0; i < m->split->n; i++) m->found[i] = pcre2_match_data_create(1, m->split->memory);
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
    for (int i = 0; i < ZR__SPLIT_MOST; i++) pcre2_match_data_free(m->found[i]);
    pcre2_jit_stack_free(m->stack);
    pcre2_match_context_free(m->context);
    zr_free(m);
    *matcher = NULL;
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
 * white space is safe for GPT-2's expression and the expressions of scan.h: the white space begins a piece, and only
 * alternatives for white space have a lookahead. For the expressions of scan.h, leave out line ends, because they may
 * belong to the piece before them. */
int64_t zr__split_cut(const zr__split *split, const char *string, int64_t from, int64_t bytes)
{
    const unsigned char *text = (const unsigned char *)string;
    if (!split->gpt2 && !split->scan) return 0;
    for (int64_t at = bytes - 1; at > 0 && at >= from; at--) {
        const bool line_end = text[at] == '\r' || text[at] == '\n';
        if (is_space(text[at]) && !(line_end && split->scan) && zr__split_solid_before(string, at)) return at;
    }
    return 0;
}
