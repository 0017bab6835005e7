/* Reads the steps of a tokenizer: lists of steps, normalizers and decoders. */
#include "base/text/text.h"
#include "data/tokenizer/read.h"

#include <stdio.h>
#include <string.h>

enum { NESTED_MOST = 8 /* maximum number of Sequences around a step */ };
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* ---- lists of steps -------------------------------------------------------------------------- */

/* Types of the steps of a section. */
typedef struct types {
    const char *list;
    const zr__member_type *type;
    size_t n;
} types;

static zr_status read_member(zr__reader *r, const types *t, const zr__member *m, int nested);

static zr_status read_list(zr__reader *r, const types *t, const zr__member *m, int nested)
{
    const json_t *steps = json_object_get(m->its, t->list);
    ZR_CHECK(json_is_array(steps), ZR_ERR_DATA, "%s: %s.%s is %s; expected a list of steps", r->file, m->place, t->list,
             ZR_JSON_SHOWN(steps));
    ZR_CHECK(nested < NESTED_MOST, ZR_ERR_DATA, "%s: %s is within %d others of the type Sequence, the limit is %d",
             r->file, m->place, nested, NESTED_MOST - 1);
    for (size_t i = 0; i < json_array_size(steps); i++) {
        zr__member inner = {.its = json_array_get(steps, i)};
        snprintf(inner.place, sizeof(inner.place), "%.*s.%s[%zu]", (int)sizeof(inner.place) - 48, m->place, t->list, i);
        ZR_TRY(read_member(r, t, &inner, nested + 1));
    }
    return ZR_OK;
}

static zr_status refuse_type(const zr__reader *r, const types *t, const zr__member *m)
{
    char known[512] = "";
    for (size_t i = 0, at = 0; i < t->n && at < sizeof(known); i++)
        at += (size_t)snprintf(known + at, sizeof(known) - at, "%s, ", t->type[i].type);
    return ZR_FAIL(ZR_ERR_DATA, "%s: %s is of type %s; supported are %sand Sequence", r->file, m->place,
                   ZR_JSON_SHOWN(json_object_get(m->its, "type")), known);
}

static zr_status read_member(zr__reader *r, const types *t, const zr__member *m, int nested)
{
    const json_t *type = json_object_get(m->its, "type");
    ZR_CHECK(json_is_string(type), ZR_ERR_DATA, "%s: %s has no type", r->file, m->place);
    if (zr__read_is(m->its, "Sequence")) return read_list(r, t, m, nested);
    for (size_t i = 0; i < t->n; i++)
        if (zr__read_is(m->its, t->type[i].type)) return t->type[i].read(r, m);
    return refuse_type(r, t, m);
}

zr_status zr__read_section(zr__reader *r, const json_t *root, const char *section, const char *list,
                           const zr__member_type *type, size_t n)
{
    const types t = {list, type, n};
    zr__member m = {.its = json_object_get(root, section)};
    snprintf(m.place, sizeof(m.place), "%s", section);
    return !m.its || json_is_null(m.its) ? ZR_OK : read_member(r, &t, &m, 0);
}

/* ---- settings of steps ----------------------------------------------------------------------- */

/* Fail because a setting has another form. */
static zr_status refuse_setting(const zr__reader *r, const zr__member *m, const char *key, const char *wanted)
{
    return ZR_FAIL(ZR_ERR_DATA, "%s: %s (%s): %s is %s; expected %s", r->file, m->place,
                   json_string_value(json_object_get(m->its, "type")), key, ZR_JSON_SHOWN(json_object_get(m->its, key)),
                   wanted);
}

zr_status zr__read_flag(const zr__reader *r, const zr__member *m, const char *key, bool *flag)
{
    const json_t *value = json_object_get(m->its, key);
    *flag = json_is_true(value);
    return json_is_boolean(value) ? ZR_OK : refuse_setting(r, m, key, "true or false");
}

/* Return the text of a value if it may be a setting, otherwise NULL. */
static const char *text_of(const json_t *value)
{
    const size_t n = json_string_length(value);
    return n > 0 && n <= ZR__READ_MOST_SETTING ? json_string_value(value) : NULL;
}

zr_status zr__read_text(const zr__reader *r, const zr__member *m, const char *key, const char **text)
{
    *text = text_of(json_object_get(m->its, key));
    return *text ? ZR_OK : refuse_setting(r, m, key, "a text that is not empty, of at most 16 KiB");
}

zr_status zr__read_character(const zr__reader *r, const zr__member *m, const char *key, const char **text)
{
    *text = text_of(json_object_get(m->its, key));
    const int64_t n = *text ? (int64_t)strlen(*text) : 0;
    return n > 0 && zr__text_utf8(*text, n) == n ? ZR_OK : refuse_setting(r, m, key, "one character");
}

zr_status zr__read_count(const zr__reader *r, const zr__member *m, const char *key, int64_t least, int64_t most,
                         int64_t *count)
{
    const json_t *value = json_object_get(m->its, key);
    char wanted[64];
    *count = json_integer_value(value);
    snprintf(wanted, sizeof(wanted), "an integer from %lld to %lld", (long long)least, (long long)most);
    return json_is_integer(value) && *count >= least && *count <= most ? ZR_OK : refuse_setting(r, m, key, wanted);
}

zr_status zr__read_pattern(const zr__reader *r, const zr__member *m, bool *regex, const char **text)
{
    const json_t *pattern = json_object_get(m->its, "pattern");
    const char *plain = text_of(json_object_get(pattern, "String"));
    *text = plain ? plain : text_of(json_object_get(pattern, "Regex"));
    *regex = !plain;
    const bool one = json_object_size(pattern) == 1 && *text;
    return one ? ZR_OK : refuse_setting(r, m, "pattern", "{\"String\": text} or {\"Regex\": text}");
}

/* ---- normalizers ----------------------------------------------------------------------------- */

static zr_status add_change(zr__reader *r, const zr__member *m, zr__change_kind kind, const char *from, const char *to)
{
    char where[sizeof(r->file) + sizeof(m->place) + 2];
    snprintf(where, sizeof(where), "%s: %s", r->file, m->place);
    return zr__changes_add(&r->bpe->normalizer, kind, from, to, where);
}

static zr_status read_form(zr__reader *r, const zr__member *m)
{
    static const char *const names[] = {"NFC", "NFD", "NFKC", "NFKD"};
    int form = 0;
    while (!zr__read_is(m->its, names[form])) form++;
    return add_change(r, m, (zr__change_kind)(ZR__NORMAL_C + form), NULL, NULL);
}

static zr_status read_lowercase(zr__reader *r, const zr__member *m)
{
    return add_change(r, m, ZR__LOWERCASE, NULL, NULL);
}

static zr_status read_strip_accents(zr__reader *r, const zr__member *m)
{
    return add_change(r, m, ZR__STRIP_ACCENTS, NULL, NULL);
}

static zr_status read_strip(zr__reader *r, const zr__member *m)
{
    bool left = false, right = false;
    ZR_TRY(zr__read_flag(r, m, "strip_left", &left));
    ZR_TRY(zr__read_flag(r, m, "strip_right", &right));
    if (left) ZR_TRY(add_change(r, m, ZR__STRIP_LEFT, NULL, NULL));
    return right ? add_change(r, m, ZR__STRIP_RIGHT, NULL, NULL) : ZR_OK;
}

static zr_status read_content(const zr__reader *r, const zr__member *m, const char **content)
{
    const json_t *value = json_object_get(m->its, "content");
    *content = json_string_value(value);
    ZR_CHECK(*content && json_string_length(value) <= ZR__READ_MOST_SETTING, ZR_ERR_DATA,
             "%s: %s (Replace): content is %s; expected a text of at most 16 KiB", r->file, m->place,
             ZR_JSON_SHOWN(value));
    return ZR_OK;
}

static zr_status read_replace(zr__reader *r, const zr__member *m)
{
    const char *from = NULL, *to = NULL;
    bool regex = false;
    ZR_TRY(zr__read_pattern(r, m, &regex, &from));
    ZR_TRY(read_content(r, m, &to));
    return add_change(r, m, regex ? ZR__REPLACE_MATCH : ZR__REPLACE, from, to);
}

static zr_status read_prepend(zr__reader *r, const zr__member *m)
{
    const char *text = NULL;
    ZR_TRY(zr__read_text(r, m, "prepend", &text));
    return add_change(r, m, ZR__PREPEND, NULL, text);
}

zr_status zr__read_bert_normalizer(zr__reader *r, const zr__member *m)
{
    const json_t *strip = json_object_get(m->its, "strip_accents");
    zr__bert_options options = {0};
    ZR_CHECK(!r->bpe->normalizer.bert, ZR_ERR_DATA, "%s: %s: a second BertNormalizer is not supported", r->file,
             m->place);
    ZR_TRY(zr__read_flag(r, m, "clean_text", &options.clean));
    ZR_TRY(zr__read_flag(r, m, "handle_chinese_chars", &options.chinese));
    ZR_TRY(zr__read_flag(r, m, "lowercase", &options.lowercase));
    options.strip_accents = options.lowercase;
    if (strip && !json_is_null(strip)) ZR_TRY(zr__read_flag(r, m, "strip_accents", &options.strip_accents));
    return zr__changes_add_bert(&r->bpe->normalizer, options, r->file);
}

static const zr__member_type normalizers[] = {
    {"NFC", read_form},
    {"NFD", read_form},
    {"NFKC", read_form},
    {"NFKD", read_form},
    {"Lowercase", read_lowercase},
    {"StripAccents", read_strip_accents},
    {"Strip", read_strip},
    {"Replace", read_replace},
    {"Prepend", read_prepend},
    {"BertNormalizer", zr__read_bert_normalizer},
};

/* ---- decoders -------------------------------------------------------------------------------- */

/* Append a step of the decoder of BPE by characters. */
static zr_status add_saying(const zr__reader *r, const zr__member *m, zr__saying saying, const char *from,
                            const char *to)
{
    zr__bpe *bpe = r->bpe;
    ZR_CHECK(bpe->n_saying < ZR__SAYING_MOST, ZR_ERR_DATA, "%s: %s: more than %d steps", r->file, m->place,
             ZR__SAYING_MOST);
    zr__saying *s = &bpe->saying[bpe->n_saying++];
    *s = saying;
    s->from = s->to = NULL;
    if (from) ZR_TRY(zr__text_copy(from, strlen(from), &s->from));
    return to ? zr__text_copy(to, strlen(to), &s->to) : ZR_OK;
}

/* Return how many bytes the replacements of the decoder, and one more, may make of one byte of text. */
static size_t said_growth(const zr__bpe *bpe, const char *from, const char *to)
{
    size_t growth = strlen(to) / strlen(from) + 1;
    for (int i = 0; i < bpe->n_saying && growth <= ZR__GROWTH_MOST; i++) {
        const zr__saying *s = &bpe->saying[i];
        if (s->kind == ZR__SAY_REPLACE && strlen(s->to) > strlen(s->from))
            growth *= strlen(s->to) / strlen(s->from) + 1;
    }
    return growth;
}

static zr_status say_replace(zr__reader *r, const zr__member *m)
{
    const char *from = NULL, *to = NULL;
    bool regex = false;
    ZR_TRY(zr__read_pattern(r, m, &regex, &from));
    ZR_TRY(read_content(r, m, &to));
    ZR_CHECK(!regex, ZR_ERR_DATA, "%s: %s (Replace): pattern has a Regex; in a decoder only a String is supported",
             r->file, m->place);
    const size_t growth = said_growth(r->bpe, from, to);
    ZR_CHECK(growth <= ZR__GROWTH_MOST, ZR_ERR_DATA,
             "%s: %s (Replace): this step and those before it may make %zu bytes of one byte of text; the limit is %d",
             r->file, m->place, growth, ZR__GROWTH_MOST);
    return add_saying(r, m, (zr__saying){.kind = ZR__SAY_REPLACE}, from, to);
}

static zr_status say_bytes(zr__reader *r, const zr__member *m)
{
    return add_saying(r, m, (zr__saying){.kind = ZR__SAY_BYTES}, NULL, NULL);
}

static zr_status say_fuse(zr__reader *r, const zr__member *m)
{
    return add_saying(r, m, (zr__saying){.kind = ZR__SAY_FUSE}, NULL, NULL);
}

static zr_status say_strip(zr__reader *r, const zr__member *m)
{
    zr__saying strip = {.kind = ZR__SAY_STRIP};
    const char *content = NULL;
    ZR_TRY(zr__read_character(r, m, "content", &content));
    ZR_TRY(zr__read_count(r, m, "start", 0, INT32_MAX, &strip.start));
    ZR_TRY(zr__read_count(r, m, "stop", 0, INT32_MAX, &strip.stop));
    return add_saying(r, m, strip, content, NULL);
}

static zr_status say_metaspace(zr__reader *r, const zr__member *m)
{
    zr__read_scheme scheme;
    ZR_TRY(zr__read_metaspace(r, m, &scheme));
    return add_saying(r, m, (zr__saying){.kind = ZR__SAY_METASPACE, .start = scheme.prepends}, scheme.replacement,
                      NULL);
}

static zr_status say_suffix(zr__reader *r, const zr__member *m)
{
    const char *suffix = NULL;
    ZR_TRY(zr__read_text(r, m, "suffix", &suffix));
    return add_saying(r, m, (zr__saying){.kind = ZR__SAY_SUFFIX}, suffix, NULL);
}

/* Ignore ByteLevel and Fuse, since byte-level BPE has the bytes of tokens anyway. */
static zr_status say_byte_level(zr__reader *r, const zr__member *m)
{
    (void)r;
    (void)m;
    return ZR_OK;
}

static zr_status read_decoder(zr__reader *r, const json_t *root)
{
    static const zr__member_type bytes[] = {{"ByteLevel", say_byte_level}, {"Fuse", say_byte_level}};
    static const zr__member_type characters[] = {{"Replace", say_replace},     {"ByteFallback", say_bytes},
                                                 {"Fuse", say_fuse},           {"Strip", say_strip},
                                                 {"Metaspace", say_metaspace}, {"BPEDecoder", say_suffix}};
    static const zr__member none = {.place = "decoder"};
    const json_t *told = json_object_get(root, "decoder");
    if (!r->bpe->by_character) return zr__read_section(r, root, "decoder", "decoders", bytes, COUNT(bytes));
    if (!told || json_is_null(told)) return add_saying(r, &none, (zr__saying){.kind = ZR__SAY_SPACED}, NULL, NULL);
    return zr__read_section(r, root, "decoder", "decoders", characters, COUNT(characters));
}

zr_status zr__read_steps(zr__reader *r, const json_t *root)
{
    ZR_TRY(zr__read_section(r, root, "normalizer", "normalizers", normalizers, COUNT(normalizers)));
    ZR_TRY(zr__read_cuts(r, root));
    return read_decoder(r, root);
}
