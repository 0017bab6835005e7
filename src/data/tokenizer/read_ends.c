/* Reads the post-processor: the tokens at the ends of a text. */
#include "data/tokenizer/read.h"

#include <string.h>

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

/* Return whether a step of a template is the text "A". */
static bool is_first_text(const json_t *text)
{
    const char *id = json_string_value(json_object_get(text, "id"));
    return id && strcmp(id, "A") == 0;
}

/* Refuse a second step that adds tokens. */
static zr_status begin_adding(const zr__reader *r, const zr__member *m)
{
    ZR_CHECK(r->bpe->ends.n_begin == 0 && r->bpe->ends.n_end == 0, ZR_ERR_DATA,
             "%s: %s: post_processor adds tokens in more than one step, which is not supported", r->file, m->place);
    return ZR_OK;
}

/* Read TemplateProcessing: a list with special tokens and, once, the text "A". */
static zr_status read_template(zr__reader *r, const zr__member *m)
{
    const json_t *told = m->its, *single = json_object_get(told, "single");
    bool before = true;
    ZR_TRY(begin_adding(r, m));
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *special = json_object_get(json_array_get(single, i), "SpecialToken");
        const json_t *text = json_object_get(json_array_get(single, i), "Sequence");
        ZR_CHECK(special || (before && is_first_text(text)), ZR_ERR_DATA,
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
static zr_status read_pair(zr__reader *r, const zr__member *m)
{
    zr__bpe_ends *ends = &r->bpe->ends;
    ZR_TRY(begin_adding(r, m));
    ZR_TRY(add_end(r, &ends->begin, &ends->n_begin, json_array_get(json_object_get(m->its, "cls"), 1)));
    return add_end(r, &ends->end, &ends->n_end, json_array_get(json_object_get(m->its, "sep"), 1));
}

/* Ignore ByteLevel: trim_offsets changes only positions, which zr does not report. */
static zr_status read_byte_level(zr__reader *r, const zr__member *m)
{
    (void)r;
    (void)m;
    return ZR_OK;
}

zr_status zr__read_post_processor(zr__reader *r, const json_t *root)
{
    static const zr__member_type types[] = {{"ByteLevel", read_byte_level},
                                            {"TemplateProcessing", read_template},
                                            {"RobertaProcessing", read_pair},
                                            {"BertProcessing", read_pair}};
    return zr__read_section(r, root, "post_processor", "processors", types, sizeof(types) / sizeof(types[0]));
}
