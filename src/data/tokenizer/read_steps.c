/* Reads the steps of a tokenizer before and after byte-pair encoding. */
#include "base/text/text.h"
#include "data/tokenizer/read.h"

#include <string.h>

/* ---- normalizers ----------------------------------------------------------------------------- */

/* Return the text of a pattern {"String": text}, or NULL if the pattern has another form or the text is empty. */
static const char *string_of(const json_t *pattern)
{
    const char *text = json_string_value(json_object_get(pattern, "String"));
    return text && text[0] ? text : NULL;
}

static zr_status add_replace(const zr__reader *r, const json_t *told)
{
    const json_t *pattern = json_object_get(told, "pattern");
    const char *from = string_of(pattern), *to = json_string_value(json_object_get(told, "content"));
    ZR_CHECK(from, ZR_ERR_DATA, "%s: normalizer.Replace.pattern is %s, only {\"String\": \"text\"} is supported",
             r->file, ZR_JSON_SHOWN(pattern));
    ZR_CHECK(to, ZR_ERR_DATA, "%s: normalizer.Replace has no content", r->file);
    return zr__changes_add(&r->bpe->normalizer, ZR__REPLACE, from, to, r->file);
}

static zr_status add_normalizer(const zr__reader *r, const json_t *told)
{
    const char *prepended = json_string_value(json_object_get(told, "prepend"));
    if (zr__read_is(told, "NFC")) return zr__changes_add(&r->bpe->normalizer, ZR__NFC, NULL, NULL, r->file);
    if (zr__read_is(told, "Replace")) return add_replace(r, told);
    ZR_CHECK(zr__read_is(told, "Prepend"), ZR_ERR_DATA,
             "%s: normalizer is of type %s; only NFC, Prepend, Replace and Sequence are supported", r->file,
             ZR_JSON_SHOWN(json_object_get(told, "type")));
    ZR_CHECK(prepended && prepended[0], ZR_ERR_DATA, "%s: normalizer.Prepend has no prepend", r->file);
    return zr__changes_add(&r->bpe->normalizer, ZR__PREPEND, NULL, prepended, r->file);
}

static zr_status read_normalizer(const zr__reader *r, const json_t *told)
{
    if (!told || json_is_null(told)) return ZR_OK;
    if (!zr__read_is(told, "Sequence")) return add_normalizer(r, told);
    const json_t *steps = json_object_get(told, "normalizers");
    ZR_CHECK(json_is_array(steps), ZR_ERR_DATA, "%s: normalizer.normalizers is not a list", r->file);
    for (size_t i = 0; i < json_array_size(steps); i++) ZR_TRY(add_normalizer(r, json_array_get(steps, i)));
    return ZR_OK;
}

/* ---- byte-level pre-tokenizers --------------------------------------------------------------- */

zr_status zr__read_add_expression(zr__reader *r, const char *expression)
{
    ZR_CHECK(r->n_expressions < ZR__SPLIT_MOST, ZR_ERR_DATA, "%s: pre_tokenizer has more than %d regular expressions",
             r->file, ZR__SPLIT_MOST);
    r->expression[r->n_expressions++] = expression;
    return ZR_OK;
}

static zr_status read_byte_level(zr__reader *r, const json_t *told)
{
    const json_t *regex = json_object_get(told, "use_regex");
    ZR_TRY(zr__read_type(r, told, "pre_tokenizer", "ByteLevel"));
    ZR_TRY(zr__read_nothing(r, told, "pre_tokenizer.", "add_prefix_space"));
    if (!regex || json_is_true(regex)) ZR_TRY(zr__read_add_expression(r, ZR__SPLIT_GPT2));
    return ZR_OK;
}

static zr_status read_split(zr__reader *r, const json_t *told)
{
    const json_t *regex = json_object_get(json_object_get(told, "pattern"), "Regex");
    const json_t *behavior = json_object_get(told, "behavior");
    ZR_TRY(zr__read_type(r, told, "pre_tokenizer before ByteLevel", "Split"));
    ZR_TRY(zr__read_nothing(r, told, "pre_tokenizer.Split.", "invert"));
    ZR_CHECK(json_is_string(regex), ZR_ERR_DATA,
             "%s: pre_tokenizer.Split.pattern is %s, only {\"Regex\": ...} is supported", r->file,
             ZR_JSON_SHOWN(json_object_get(told, "pattern")));
    ZR_CHECK(json_is_string(behavior) && strcmp(json_string_value(behavior), "Isolated") == 0, ZR_ERR_DATA,
             "%s: pre_tokenizer.Split.behavior is %s, only \"Isolated\" is supported", r->file,
             ZR_JSON_SHOWN(behavior));
    return zr__read_add_expression(r, json_string_value(regex));
}

static zr_status read_sequence(zr__reader *r, const json_t *told)
{
    const json_t *steps = json_object_get(told, "pretokenizers");
    const size_t n = json_array_size(steps);
    ZR_TRY(zr__read_type(r, told, "pre_tokenizer", "Sequence"));
    ZR_CHECK(n > 0, ZR_ERR_DATA, "%s: pre_tokenizer.pretokenizers must be a list that is not empty", r->file);
    for (size_t i = 0; i + 1 < n; i++) ZR_TRY(read_split(r, json_array_get(steps, i)));
    return read_byte_level(r, json_array_get(steps, n - 1));
}

/* ---- pre-tokenizers of characters ------------------------------------------------------------ */

/* Read Metaspace: spaces become ZR__BPE_SPACE, and one more ZR__BPE_SPACE may be put before the text. Without
 * prepend_scheme (old files), it is always put there, unless add_prefix_space is false. */
static zr_status read_metaspace(const zr__reader *r, const json_t *told)
{
    const json_t *replacement = json_object_get(told, "replacement"), *scheme = json_object_get(told, "prepend_scheme");
    zr__changes *spaces = &r->bpe->spaces;
    const char *word = json_string_value(replacement), *when = json_string_value(scheme);
    ZR_CHECK(word && strcmp(word, ZR__BPE_SPACE) == 0, ZR_ERR_DATA,
             "%s: pre_tokenizer.Metaspace.replacement is %s, only \"" ZR__BPE_SPACE "\" is supported", r->file,
             ZR_JSON_SHOWN(replacement));
    if (!when) when = json_is_false(json_object_get(told, "add_prefix_space")) ? "never" : "always";
    const bool first = strcmp(when, "first") == 0, never = strcmp(when, "never") == 0;
    ZR_CHECK(first || never || strcmp(when, "always") == 0, ZR_ERR_DATA,
             "%s: pre_tokenizer.Metaspace.prepend_scheme is %s; expected \"first\", \"always\" or \"never\"", r->file,
             ZR_JSON_SHOWN(scheme));
    r->bpe->pieces = json_is_false(json_object_get(told, "split")) ? ZR__PIECES_WHOLE : ZR__PIECES_EACH;
    ZR_TRY(zr__changes_add(spaces, ZR__REPLACE, " ", ZR__BPE_SPACE, r->file));
    if (!never) ZR_TRY(zr__changes_add(spaces, ZR__PREPEND_ABSENT, NULL, ZR__BPE_SPACE, r->file));
    if (!never) spaces->change[spaces->n - 1].first = first;
    return ZR_OK;
}

/* Return whether a pre-tokenizer has no effect, because it splits at spaces that the normalizer has already replaced.
 */
static bool splits_nothing(const zr__reader *r, const json_t *told)
{
    const char *at = string_of(json_object_get(told, "pattern"));
    const zr__changes *c = &r->bpe->normalizer;
    if (!zr__read_is(told, "Split") || !at || strcmp(at, " ") != 0 || c->n == 0) return false;
    const zr__change *last = &c->change[c->n - 1];
    return last->kind == ZR__REPLACE && strcmp(last->from, at) == 0 && !strchr(last->to, ' ');
}

static zr_status read_pre_tokenizer(zr__reader *r, const json_t *told)
{
    zr__bpe *bpe = r->bpe;
    const bool none = !told || json_is_null(told) || splits_nothing(r, told);
    bpe->by_character = none || zr__read_is(told, "Metaspace");
    bpe->pieces = bpe->by_character ? ZR__PIECES_WHOLE : ZR__PIECES_SPLIT;
    if (none) return ZR_OK;
    if (bpe->by_character) return read_metaspace(r, told);
    ZR_TRY(json_object_get(told, "pretokenizers") ? read_sequence(r, told) : read_byte_level(r, told));
    ZR_CHECK(
        r->n_expressions > 0, ZR_ERR_DATA,
        "%s: pre_tokenizer.use_regex is false and there is no Split: text that is not cut into pieces is not supported",
        r->file);
    return ZR_OK;
}

/* ---- decoders -------------------------------------------------------------------------------- */

static bool is_text(const json_t *in, const char *key, const char *wanted)
{
    const char *text = json_string_value(json_object_get(in, key));
    return text && strcmp(text, wanted) == 0;
}

static bool replaces_spaces(const json_t *step)
{
    const char *from = string_of(json_object_get(step, "pattern"));
    return zr__read_is(step, "Replace") && from && strcmp(from, ZR__BPE_SPACE) == 0 && is_text(step, "content", " ");
}

static bool strips_first(const json_t *step)
{
    return zr__read_is(step, "Strip") && is_text(step, "content", " ") &&
           json_integer_value(json_object_get(step, "start")) == 1 &&
           json_integer_value(json_object_get(step, "stop")) == 0;
}

/* Read the decoder of BPE by characters. */
static zr_status read_character_decoder(const zr__reader *r, const json_t *told)
{
    const json_t *step = json_object_get(told, "decoders");
    const size_t n = json_array_size(step);
    bool known = zr__read_is(told, "Sequence") && (n == 3 || n == 4) && replaces_spaces(json_array_get(step, 0)) &&
                 zr__read_is(json_array_get(step, 1), "ByteFallback") && zr__read_is(json_array_get(step, 2), "Fuse");
    r->bpe->strip_first = n == 4 && strips_first(json_array_get(step, 3));
    known = known && (n == 3 || r->bpe->strip_first);
    ZR_CHECK(
        known, ZR_ERR_DATA,
        "%s: decoder is of type %s%s; without a byte-level pre_tokenizer only a Sequence of Replace (\"" ZR__BPE_SPACE
        "\" by \" \"), ByteFallback, Fuse and perhaps Strip (\" \", start 1, stop 0) is supported",
        r->file, ZR_JSON_SHOWN(json_object_get(told, "type")),
        zr__read_is(told, "Sequence") ? " with other steps" : "");
    return ZR_OK;
}

static zr_status read_decoder(const zr__reader *r, const json_t *told)
{
    if (r->bpe->by_character) return read_character_decoder(r, told);
    return !told || json_is_null(told) ? ZR_OK : zr__read_type(r, told, "decoder", "ByteLevel");
}

zr_status zr__read_steps(zr__reader *r, const json_t *root)
{
    ZR_TRY(read_normalizer(r, json_object_get(root, "normalizer")));
    ZR_TRY(read_pre_tokenizer(r, json_object_get(root, "pre_tokenizer")));
    return read_decoder(r, json_object_get(root, "decoder"));
}

/* ---- post-processors ------------------------------------------------------------------------- */

enum { ENDS_MOST = 64 }; /* largest number of tokens before or after a text; up to 4 in known tokenizers */

/* Append a token to a list of tokens: those at the beginning of documents, or those at their end. */
static zr_status add_end(const zr__reader *r, int32_t **tokens, int64_t *n, const json_t *id)
{
    const json_int_t token = json_is_integer(id) ? json_integer_value(id) : -1;
    ZR_CHECK(token >= 0 && token < r->bpe->vocab, ZR_ERR_DATA,
             "%s: post_processor has token %s, which is not one of the %lld tokens", r->file, ZR_JSON_SHOWN(id),
             (long long)r->bpe->vocab);
    ZR_CHECK(*n < ENDS_MOST, ZR_ERR_DATA, "%s: post_processor puts more than %d tokens at one end of a text, the limit",
             r->file, ENDS_MOST);
    int32_t *more = zr_alloc((size_t)(*n + 1) * sizeof(*more));
    ZR_CHECK(more, ZR_ERR_MEMORY, "%s: no memory for the tokens of post_processor", r->file);
    if (*n > 0) memcpy(more, *tokens, (size_t)*n * sizeof(*more));
    more[(*n)++] = (int32_t)token;
    zr_free(*tokens);
    *tokens = more;
    return ZR_OK;
}

static zr_status add_special(const zr__reader *r, const json_t *told, const char *name, bool before)
{
    zr__bpe_ends *ends = &r->bpe->ends;
    const json_t *ids =
        json_object_get(json_object_get(json_object_get(told, "special_tokens"), name ? name : ""), "ids");
    ZR_CHECK(json_is_array(ids), ZR_ERR_DATA, "%s: post_processor.special_tokens has no ids of \"%s\"", r->file,
             ZR_SHOWN(name ? name : ""));
    for (size_t i = 0; i < json_array_size(ids); i++)
        ZR_TRY(before ? add_end(r, &ends->begin, &ends->n_begin, json_array_get(ids, i))
                      : add_end(r, &ends->end, &ends->n_end, json_array_get(ids, i)));
    return ZR_OK;
}

/* Read TemplateProcessing: a list with special tokens and, once, the text "A". */
static zr_status read_template(const zr__reader *r, const json_t *told)
{
    const json_t *single = json_object_get(told, "single");
    bool before = true;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *special = json_object_get(json_array_get(single, i), "SpecialToken");
        const json_t *text = json_object_get(json_array_get(single, i), "Sequence");
        ZR_CHECK(special || (before && is_text(text, "id", "A")), ZR_ERR_DATA,
                 "%s: post_processor.single has %s; expected special tokens and the sequence A once", r->file,
                 ZR_JSON_SHOWN(json_array_get(single, i)));
        if (special)
            ZR_TRY(add_special(r, told, json_string_value(json_object_get(special, "id")), before));
        else
            before = false;
    }
    ZR_CHECK(!before, ZR_ERR_DATA, "%s: post_processor.single does not contain the sequence A", r->file);
    return ZR_OK;
}

/* Read RobertaProcessing or BertProcessing: one token before the text and one after it, each as [name, number]. */
static zr_status read_pair(const zr__reader *r, const json_t *told)
{
    zr__bpe_ends *ends = &r->bpe->ends;
    ZR_TRY(add_end(r, &ends->begin, &ends->n_begin, json_array_get(json_object_get(told, "cls"), 1)));
    return add_end(r, &ends->end, &ends->n_end, json_array_get(json_object_get(told, "sep"), 1));
}

static zr_status read_processor(const zr__reader *r, const json_t *told)
{
    if (zr__read_is(told, "ByteLevel"))
        return ZR_OK; /* trim_offsets changes only positions, which zr does not report */
    ZR_CHECK(r->bpe->ends.n_begin == 0 && r->bpe->ends.n_end == 0, ZR_ERR_DATA,
             "%s: post_processor adds tokens in more than one step, which is not supported", r->file);
    if (zr__read_is(told, "TemplateProcessing")) return read_template(r, told);
    ZR_CHECK(zr__read_is(told, "RobertaProcessing") || zr__read_is(told, "BertProcessing"), ZR_ERR_DATA,
             "%s: post_processor is of type %s; only ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing "
             "and Sequence are supported",
             r->file, ZR_JSON_SHOWN(json_object_get(told, "type")));
    return read_pair(r, told);
}

zr_status zr__read_post_processor(zr__reader *r, const json_t *told)
{
    if (!told || json_is_null(told)) return ZR_OK;
    if (!zr__read_is(told, "Sequence")) return read_processor(r, told);
    const json_t *steps = json_object_get(told, "processors");
    ZR_CHECK(json_is_array(steps), ZR_ERR_DATA, "%s: post_processor.processors is not a list", r->file);
    for (size_t i = 0; i < json_array_size(steps); i++) ZR_TRY(read_processor(r, json_array_get(steps, i)));
    return ZR_OK;
}
