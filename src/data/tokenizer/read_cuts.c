/* Reads the pre-tokenizer. */
#include "base/text/text.h"
#include "data/tokenizer/read.h"

#include <stdio.h>
#include <string.h>

/* ---- steps ----------------------------------------------------------------------------------- */

typedef char where_text[PATH_MAX + 192];

static const char *where(const zr__reader *r, const zr__member *m, where_text out)
{
    snprintf(out, sizeof(where_text), "%s: %s", r->file, m->place);
    return out;
}

static zr_status add_change(zr__reader *r, const zr__member *m, zr__change_kind kind, const char *from, const char *to,
                            bool first)
{
    where_text out;
    return zr__split_add_change(r->bpe->split, kind, from, to, first, where(r, m, out));
}

/* Add a step that cuts. If it follows ByteLevel, it sees the characters that represent bytes. */
static zr_status add_cut(zr__reader *r, const zr__member *m, zr__cut cut)
{
    where_text out;
    const bool symbols = !r->bpe->by_character && !r->symbols;
    if (symbols) ZR_TRY(add_change(r, m, ZR__SYMBOLS, NULL, NULL, false));
    r->symbols = r->symbols || symbols;
    return zr__split_add(r->bpe->split, cut, where(r, m, out));
}

/* Add a step that puts a text before each piece, or only before a whole text. */
static zr_status add_prefix(zr__reader *r, const zr__member *m, const char *text, bool first)
{
    ZR_CHECK(!r->prepends, ZR_ERR_DATA, "%s: %s: a second step that puts \"%s\" before text is not supported", r->file,
             m->place, ZR_SHOWN(text));
    r->prepends = true;
    return add_change(r, m, ZR__PREPEND_ABSENT, NULL, text, first);
}

static zr_status open_split(const zr__reader *r)
{
    ZR_TRY(zr__classes_open(&r->bpe->classes));
    return zr__split_open(r->bpe->classes, &r->bpe->split);
}

zr_status zr__read_take_expression(zr__reader *r, const char *expression)
{
    ZR_TRY(open_split(r));
    return zr__split_add(r->bpe->split, (zr__cut){.kind = ZR__MATCH_EXPRESSION, .text = expression}, r->file);
}

/* ---- settings -------------------------------------------------------------------------------- */

static zr_status read_behavior(const zr__reader *r, const zr__member *m, zr__behavior *behavior)
{
    static const char *const names[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"};
    const char *name = json_string_value(json_object_get(m->its, "behavior"));
    for (int i = 0; name && i < (int)(sizeof(names) / sizeof(names[0])); i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *behavior = (zr__behavior)i;
        return ZR_OK;
    }
    return ZR_FAIL(ZR_ERR_DATA,
                   "%s: %s (%s): behavior is %s; expected \"Isolated\", \"Removed\", \"Contiguous\", "
                   "\"MergedWithPrevious\" or \"MergedWithNext\"",
                   r->file, m->place, json_string_value(json_object_get(m->its, "type")),
                   ZR_JSON_SHOWN(json_object_get(m->its, "behavior")));
}

/* Read the settings of Metaspace. Without prepend_scheme (old files), the replacement is always prepended, unless
 * add_prefix_space is false. */
zr_status zr__read_metaspace(const zr__reader *r, const zr__member *m, zr__read_scheme *scheme)
{
    const json_t *told = json_object_get(m->its, "prepend_scheme"), *split = json_object_get(m->its, "split");
    const char *when = json_string_value(told);
    ZR_TRY(zr__read_character(r, m, "replacement", &scheme->replacement));
    if (!told) when = json_is_false(json_object_get(m->its, "add_prefix_space")) ? "never" : "always";
    scheme->first = when && strcmp(when, "first") == 0;
    scheme->prepends = scheme->first || (when && strcmp(when, "always") == 0);
    ZR_CHECK(scheme->prepends || (when && strcmp(when, "never") == 0), ZR_ERR_DATA,
             "%s: %s (Metaspace): prepend_scheme is %s; expected \"first\", \"always\" or \"never\"", r->file, m->place,
             ZR_JSON_SHOWN(told));
    scheme->splits = true;
    return split ? zr__read_flag(r, m, "split", &scheme->splits) : ZR_OK;
}

/* ---- types ----------------------------------------------------------------------------------- */

static zr_status read_byte_level(zr__reader *r, const zr__member *m)
{
    bool prefix = false, regex = true;
    ZR_CHECK(r->bpe->by_character, ZR_ERR_DATA, "%s: %s: a second ByteLevel is not supported", r->file, m->place);
    if (json_object_get(m->its, "add_prefix_space")) ZR_TRY(zr__read_flag(r, m, "add_prefix_space", &prefix));
    if (json_object_get(m->its, "use_regex")) ZR_TRY(zr__read_flag(r, m, "use_regex", &regex));
    if (prefix) ZR_TRY(add_prefix(r, m, " ", false));
    if (regex) ZR_TRY(add_cut(r, m, (zr__cut){.kind = ZR__MATCH_EXPRESSION, .text = ZR__SPLIT_GPT2}));
    r->bpe->by_character = false;
    return ZR_OK;
}

static zr_status read_split(zr__reader *r, const zr__member *m)
{
    zr__cut cut = {.kind = ZR__MATCH_EXPRESSION};
    bool regex = false;
    ZR_TRY(zr__read_pattern(r, m, &regex, &cut.text));
    ZR_TRY(read_behavior(r, m, &cut.behavior));
    if (json_object_get(m->its, "invert")) ZR_TRY(zr__read_flag(r, m, "invert", &cut.invert));
    if (!regex) cut.kind = ZR__MATCH_TEXT;
    return add_cut(r, m, cut);
}

static zr_status read_digits(zr__reader *r, const zr__member *m)
{
    bool each = false;
    ZR_TRY(zr__read_flag(r, m, "individual_digits", &each));
    return add_cut(r, m, (zr__cut){.kind = ZR__MATCH_DIGIT, .behavior = each ? ZR__ISOLATED : ZR__CONTIGUOUS});
}

static zr_status read_punctuation(zr__reader *r, const zr__member *m)
{
    zr__cut cut = {.kind = ZR__MATCH_PUNCTUATION};
    if (json_object_get(m->its, "behavior")) ZR_TRY(read_behavior(r, m, &cut.behavior));
    return add_cut(r, m, cut);
}

static zr_status read_whitespace(zr__reader *r, const zr__member *m)
{
    return add_cut(r, m, (zr__cut){.kind = ZR__MATCH_WORDS, .behavior = ZR__REMOVED, .invert = true});
}

static zr_status read_whitespace_split(zr__reader *r, const zr__member *m)
{
    return add_cut(r, m, (zr__cut){.kind = ZR__MATCH_SPACE, .behavior = ZR__REMOVED});
}

static zr_status read_delimiter(zr__reader *r, const zr__member *m)
{
    zr__cut cut = {.kind = ZR__MATCH_TEXT, .behavior = ZR__REMOVED};
    ZR_TRY(zr__read_character(r, m, "delimiter", &cut.text));
    return add_cut(r, m, cut);
}

static zr_status read_scripts(zr__reader *r, const zr__member *m)
{
    return add_cut(r, m, (zr__cut){.kind = ZR__MATCH_SCRIPT, .behavior = ZR__REMOVED, .invert = true});
}

static zr_status read_bert(zr__reader *r, const zr__member *m)
{
    return add_cut(r, m, (zr__cut){.kind = ZR__MATCH_BERT, .behavior = ZR__REMOVED, .invert = true});
}

static zr_status read_length(zr__reader *r, const zr__member *m)
{
    zr__cut cut = {.kind = ZR__MATCH_LENGTH};
    ZR_TRY(zr__read_count(r, m, "length", 1, INT32_MAX, &cut.length));
    return add_cut(r, m, cut);
}

/* Return whether a normalizer may remove the beginning of a text. */
static bool may_remove(const zr__changes *changes)
{
    for (int i = 0; i < changes->n; i++) {
        const zr__change *c = &changes->change[i];
        if (c->kind == ZR__STRIP_LEFT || c->kind == ZR__STRIP_ACCENTS || c->kind == ZR__BERT) return true;
        if ((c->kind == ZR__REPLACE || c->kind == ZR__REPLACE_MATCH) && !c->to[0]) return true;
    }
    return false;
}

/* Check that Metaspace knows the first piece. The package finds it by its place in the original text, which begins
 * later if a normalizer removes the beginning. */
static zr_status check_first(const zr__reader *r, const zr__member *m, const zr__read_scheme *scheme)
{
    ZR_CHECK(!scheme->first || !may_remove(&r->bpe->normalizer), ZR_ERR_DATA,
             "%s: %s (Metaspace): prepend_scheme \"first\" with a normalizer that may remove text is not supported",
             r->file, m->place);
    return ZR_OK;
}

/* Read Metaspace within a Sequence, or with another replacement than ZR__BPE_SPACE. */
static zr_status read_metaspace(zr__reader *r, const zr__member *m)
{
    zr__read_scheme scheme;
    ZR_TRY(zr__read_metaspace(r, m, &scheme));
    ZR_CHECK(r->bpe->by_character, ZR_ERR_DATA, "%s: %s: Metaspace after ByteLevel is not supported", r->file,
             m->place);
    ZR_TRY(check_first(r, m, &scheme));
    ZR_TRY(add_change(r, m, ZR__REPLACE, " ", scheme.replacement, false));
    if (scheme.prepends) ZR_TRY(add_prefix(r, m, scheme.replacement, scheme.first));
    return scheme.splits
               ? add_cut(r, m, (zr__cut){.kind = ZR__MATCH_TEXT, .behavior = ZR__WITH_NEXT, .text = scheme.replacement})
               : ZR_OK;
}

static const zr__member_type types[] = {
    {"ByteLevel", read_byte_level},
    {"Split", read_split},
    {"Digits", read_digits},
    {"Punctuation", read_punctuation},
    {"Whitespace", read_whitespace},
    {"WhitespaceSplit", read_whitespace_split},
    {"CharDelimiterSplit", read_delimiter},
    {"UnicodeScripts", read_scripts},
    {"BertPreTokenizer", read_bert},
    {"FixedLength", read_length},
    {"Metaspace", read_metaspace},
};

/* ---- pieces of SentencePiece ----------------------------------------------------------------- */

/* Return whether a pre-tokenizer has no effect, because it splits at spaces that the normalizer has already replaced.
 */
static bool splits_nothing(const zr__reader *r, const json_t *told)
{
    const char *at = json_string_value(json_object_get(json_object_get(told, "pattern"), "String"));
    const zr__changes *c = &r->bpe->normalizer;
    if (!zr__read_is(told, "Split") || !at || strcmp(at, " ") != 0 || c->n == 0) return false;
    const zr__change *last = &c->change[c->n - 1];
    return last->kind == ZR__REPLACE && strcmp(last->from, at) == 0 && !strchr(last->to, ' ');
}

/* Read Metaspace with ZR__BPE_SPACE. Its pieces are found without a split, which is faster. */
static zr_status take_metaspace(const zr__reader *r, const zr__read_scheme *scheme)
{
    zr__changes *spaces = &r->bpe->spaces;
    r->bpe->pieces = scheme->splits ? ZR__PIECES_EACH : ZR__PIECES_WHOLE;
    ZR_TRY(zr__changes_add(spaces, ZR__REPLACE, " ", ZR__BPE_SPACE, r->file));
    if (!scheme->prepends) return ZR_OK;
    ZR_TRY(zr__changes_add(spaces, ZR__PREPEND_ABSENT, NULL, ZR__BPE_SPACE, r->file));
    spaces->change[spaces->n - 1].first = scheme->first;
    return ZR_OK;
}

zr_status zr__read_cuts(zr__reader *r, const json_t *root)
{
    zr__member m = {.its = json_object_get(root, "pre_tokenizer"), .place = "pre_tokenizer"};
    zr__bpe *bpe = r->bpe;
    zr__read_scheme scheme = {0};
    bpe->by_character = true;
    bpe->pieces = ZR__PIECES_WHOLE;
    if (!m.its || json_is_null(m.its) || splits_nothing(r, m.its)) return ZR_OK;
    if (zr__read_is(m.its, "Metaspace")) ZR_TRY(zr__read_metaspace(r, &m, &scheme));
    if (scheme.replacement && strcmp(scheme.replacement, ZR__BPE_SPACE) == 0) {
        ZR_TRY(check_first(r, &m, &scheme));
        return take_metaspace(r, &scheme);
    }
    bpe->pieces = ZR__PIECES_SPLIT;
    ZR_TRY(open_split(r));
    ZR_TRY(zr__read_section(r, root, "pre_tokenizer", "pretokenizers", types, sizeof(types) / sizeof(types[0])));
    return r->symbols ? add_change(r, &m, ZR__SPELL, NULL, NULL, false) : ZR_OK;
}
