/* Reads Mistral's tekken.json: byte-level BPE without a list of merges. Any pair whose concatenation is a token may be
 * merged, in the order of the tokens' ranks. Special tokens come before all other tokens. */
#include "data/tokenizer/read.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 64, BEGIN_OF_TEXT = 1, END_OF_TEXT = 2 };

/* Names of the first special tokens, for files that do not list them. */
static const char *const usual[] = {"<unk>",
                                    "<s>",
                                    "</s>",
                                    "[INST]",
                                    "[/INST]",
                                    "[AVAILABLE_TOOLS]",
                                    "[/AVAILABLE_TOOLS]",
                                    "[TOOL_RESULTS]",
                                    "[/TOOL_RESULTS]",
                                    "[TOOL_CALLS]",
                                    "[IMG]",
                                    "<pad>",
                                    "[IMG_BREAK]",
                                    "[IMG_END]",
                                    "[PREFIX]",
                                    "[MIDDLE]",
                                    "[SUFFIX]",
                                    "[SYSTEM_PROMPT]",
                                    "[/SYSTEM_PROMPT]",
                                    "[TOOL_CONTENT]"};

/* Contents of a tekken.json. */
typedef struct tekken {
    const json_t *vocab;   /* array of tokens, which are not special */
    const json_t *special; /* array of special tokens, or NULL */
    int64_t n, n_special;  /* number of all tokens; number of special tokens */
} tekken;

/* ---- the vocabulary -------------------------------------------------------------------------- */

static int sixth(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Decode base64. `out` has space for 3 bytes per 4 characters. Return the number of bytes, or -1. */
static int64_t decode_base64(const char *text, char *out)
{
    size_t n = strlen(text), bytes = 0;
    if (n % 4 != 0) return -1;
    while (n > 0 && text[n - 1] == '=') n--;
    uint32_t bits = 0;
    int have = 0;
    for (size_t i = 0; i < n; i++) {
        const int value = sixth(text[i]);
        if (value < 0) return -1;
        bits = bits << 6 | (uint32_t)value;
        have += 6;
        if (have < 8) continue;
        have -= 8;
        out[bytes++] = (char)(bits >> have);
    }
    return (int64_t)bytes;
}

/* Write the name of a special token to `name`. */
static zr_status special_name(const zr__reader *r, const tekken *t, int64_t token, char name[NAME_BYTES])
{
    const json_t *told = json_array_get(t->special, (size_t)token), *rank = json_object_get(told, "rank");
    const char *its = json_string_value(json_object_get(told, "token_str"));
    const int64_t n_usual = sizeof(usual) / sizeof(usual[0]);
    ZR_CHECK(!told || (json_is_integer(rank) && json_integer_value(rank) == token && its && its[0]), ZR_ERR_DATA,
             "%s: special_tokens has %s at place %lld; expected this rank, and a token_str", r->file,
             ZR_JSON_SHOWN(told), (long long)token);
    if (!t->special && token < n_usual) its = usual[token];
    if (its)
        snprintf(name, NAME_BYTES, "%s", its);
    else
        snprintf(name, NAME_BYTES, "<SPECIAL_%lld>", (long long)token);
    return ZR_OK;
}

static zr_status add_special(const zr__reader *r, const tekken *t, int32_t token, int64_t *at)
{
    char name[NAME_BYTES];
    zr__bpe *bpe = r->bpe;
    ZR_TRY(special_name(r, t, token, name));
    bpe->begin[token] = *at;
    bpe->special[token] = true;
    memcpy(bpe->text + *at, name, strlen(name));
    *at += (int64_t)strlen(name);
    return zr__read_add_token(r, (zr__added){.token = token, .special = true}, name, strlen(name));
}

static zr_status add_token(const zr__reader *r, const tekken *t, int32_t token, int64_t *at)
{
    zr__bpe *bpe = r->bpe;
    const json_t *told = json_array_get(t->vocab, (size_t)(token - t->n_special));
    const json_t *rank = json_object_get(told, "rank");
    const char *text = json_string_value(json_object_get(told, "token_bytes"));
    ZR_CHECK(json_is_integer(rank) && json_integer_value(rank) == token - t->n_special, ZR_ERR_DATA,
             "%s: vocab: rank %s at place %lld; the ranks must be in order", r->file, ZR_JSON_SHOWN(rank),
             (long long)(token - t->n_special));
    const int64_t bytes = text ? decode_base64(text, bpe->text + *at) : -1;
    ZR_CHECK(bytes > 0, ZR_ERR_DATA, "%s: vocab: the token_bytes of rank %lld are not base64", r->file,
             (long long)(token - t->n_special));
    bpe->begin[token] = *at;
    bpe->spelled[token] = true;
    *at += bytes;
    return ZR_OK;
}

static int64_t count_bytes(const tekken *t)
{
    int64_t bytes = t->n_special * NAME_BYTES;
    for (int64_t i = 0; i < t->n - t->n_special; i++)
        bytes += (int64_t)json_string_length(json_object_get(json_array_get(t->vocab, (size_t)i), "token_bytes"));
    return bytes;
}

static zr_status add_tokens(const zr__reader *r, const tekken *t)
{
    zr__bpe *bpe = r->bpe;
    int64_t at = 0;
    ZR_TRY(zr__bpe_take_tokens(bpe, t->n, count_bytes(t)));
    bpe->added.added = zr_alloc((size_t)(t->n_special + 1) * sizeof(zr__added));
    ZR_CHECK(bpe->added.added, ZR_ERR_MEMORY, "%s: no memory for %lld special tokens", r->file,
             (long long)t->n_special);
    for (int32_t token = 0; token < t->n; token++)
        ZR_TRY(token < t->n_special ? add_special(r, t, token, &at) : add_token(r, t, token, &at));
    bpe->begin[t->n] = at;
    zr__bpe_name_tokens(bpe);
    for (int byte = 0; byte < ZR__BPE_BYTES; byte++) {
        const char text = (char)byte;
        bpe->byte_token[byte] = zr__bpe_find(bpe, &text, 1);
        ZR_CHECK(bpe->byte_token[byte] >= 0, ZR_ERR_DATA, "%s: vocab has no token for byte %d", r->file, byte);
    }
    return ZR_OK;
}

/* ---- merges ---------------------------------------------------------------------------------- */

/* Count the pairs of tokens whose concatenation is a token. If `add`, add them as merges. */
static int64_t find_pairs(zr__bpe *bpe, bool add)
{
    int64_t n = 0;
    for (int32_t token = 0; token < bpe->vocab; token++) {
        const char *text = bpe->text + bpe->begin[token];
        const int64_t bytes = bpe->spelled[token] ? zr__bpe_bytes(bpe, token) : 0;
        for (int64_t i = 1; i < bytes; i++) {
            const int32_t left = zr__bpe_find(bpe, text, i), right = zr__bpe_find(bpe, text + i, bytes - i);
            if (left < 0 || right < 0) continue;
            n++;
            if (add) zr__bpe_merge(bpe, left, right, token, (uint32_t)token);
        }
    }
    return n;
}

/* ---- the file -------------------------------------------------------------------------------- */

static zr_status read_sizes(const zr__reader *r, const json_t *root, tekken *t)
{
    const json_t *config = json_object_get(root, "config"), *n = json_object_get(config, "default_vocab_size");
    const json_t *n_special = json_object_get(config, "default_num_special_tokens");
    t->vocab = json_object_get(root, "vocab");
    t->special = json_object_get(root, "special_tokens");
    if (json_is_null(t->special)) t->special = NULL;
    ZR_CHECK(json_is_array(t->vocab), ZR_ERR_DATA, "%s: vocab is not a list", r->file);
    ZR_CHECK(!t->special || json_is_array(t->special), ZR_ERR_DATA, "%s: special_tokens is not a list", r->file);
    t->n = json_is_integer(n) ? json_integer_value(n) : -1;
    t->n_special = json_is_integer(n_special) ? json_integer_value(n_special) : -1;
    ZR_CHECK(t->n_special > END_OF_TEXT && t->n_special < t->n &&
                 t->n - t->n_special <= (int64_t)json_array_size(t->vocab) &&
                 (int64_t)json_array_size(t->special) <= t->n_special,
             ZR_ERR_DATA,
             "%s: config has default_vocab_size %s and default_num_special_tokens %s, and the file %zu tokens and %zu "
             "special ones: these do not fit each other",
             r->file, ZR_JSON_SHOWN(n), ZR_JSON_SHOWN(n_special), json_array_size(t->vocab),
             json_array_size(t->special));
    return ZR_OK;
}

/* Add the tokens at the ends of documents: documents begin with "<s>", as in the package mistral-common, and are
 * separated by "</s>". */
static zr_status add_ends(zr__bpe *bpe)
{
    bpe->ends.begin = zr_alloc(sizeof(*bpe->ends.begin));
    ZR_CHECK(bpe->ends.begin, ZR_ERR_MEMORY, "no memory for the tokens of documents");
    bpe->ends.begin[0] = BEGIN_OF_TEXT;
    bpe->ends.n_begin = 1;
    bpe->ends.separator = END_OF_TEXT;
    return ZR_OK;
}

static zr_status take_tekken(zr__reader *r, const json_t *root)
{
    tekken t = {0};
    const json_t *pattern = json_object_get(json_object_get(root, "config"), "pattern");
    zr__bpe *bpe = r->bpe;
    ZR_CHECK(json_is_string(pattern), ZR_ERR_DATA, "%s: config.pattern is %s; expected a regular expression", r->file,
             ZR_JSON_SHOWN(pattern));
    ZR_TRY(zr__read_take_expression(r, json_string_value(pattern)));
    ZR_TRY(read_sizes(r, root, &t));
    bpe->ignore_merges = true;
    bpe->unknown = -1;
    ZR_TRY(add_tokens(r, &t));
    ZR_TRY(zr__bpe_take_merges(bpe, find_pairs(bpe, false)));
    (void)find_pairs(bpe, true);
    ZR_TRY(add_ends(bpe));
    return zr__read_finish(r);
}

zr_status zr__read_tekken(zr__reader *r, const char *path)
{
    json_auto_t *root = NULL;
    r->has_zeros = true;
    ZR_TRY(zr__read_json(r, path, &root));
    return take_tekken(r, root);
}
