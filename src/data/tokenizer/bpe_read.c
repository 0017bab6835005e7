/* Reads a tokenizer from the files of a Hugging Face directory. Settings that zr's byte-level BPE does not support are
 * refused, with a message that names the setting. */
#include "base/file/folder.h"
#include "base/json/json.h"
#include "base/text/text.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/tokenizer.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { SHOWN = 96, FILE_MOST_BYTES = 128 << 20 };

typedef struct reader {
    zr__bpe *bpe;
    char file[PATH_MAX];  /* printable path of the current file, for messages */
    const json_t *vocab;  /* JSON object from names to tokens */
    const json_t *merges; /* JSON array of merges, or NULL if they are in merges.txt */
    const json_t *added;  /* JSON array of added tokens, or NULL */
    bool two_files; /* whether the files are vocab.json and merges.txt, which list no added tokens; ZR_END_OF_TEXT then
                       counts as added */
    const char *expression[ZR__SPLIT_MOST];
    int n_expressions;
} reader;

static zr_status read_json(reader *r, const char *path, json_t **root)
{
    char *text = NULL;
    size_t bytes = 0;
    zr_status st = ZR_OK;
    zr__text_escape(path, r->file, sizeof(r->file));
    ZR_TRY_GOTO(st, zr__json_read_most(path, FILE_MOST_BYTES, &text, &bytes), done);
    ZR_TRY_GOTO(st, zr__json_parse_most(text, bytes, FILE_MOST_BYTES, path, root), done);
done:
    zr_free(text);
    /* A tokenizer's files count as data, not as configuration. */
    return st == ZR_ERR_CONFIG ? ZR_FAIL(ZR_ERR_DATA, "%s", zr_error_message()) : st;
}

/* ---- what is not supported ------------------------------------------------------------------- */

/* Return whether a value is missing or has no effect: null, false, 0 or "". */
static bool is_nothing(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_number(value) && json_number_value(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

static zr_status want_nothing(const reader *r, const json_t *in, const char *section, const char *key)
{
    const json_t *value = json_object_get(in, key);
    ZR_CHECK(is_nothing(value), ZR_ERR_DATA, "%s: %s%s is %s, which is not supported", r->file, section, key,
             ZR_JSON_SHOWN(value));
    return ZR_OK;
}

static zr_status want_type(const reader *r, const json_t *in, const char *section, const char *wanted)
{
    const json_t *type = json_object_get(in, "type");
    ZR_CHECK(json_is_string(type), ZR_ERR_DATA, "%s: %s has no type", r->file, section);
    ZR_CHECK(strcmp(json_string_value(type), wanted) == 0, ZR_ERR_DATA, "%s: %s is of type %s, only %s is supported",
             r->file, section, ZR_JSON_SHOWN(type), wanted);
    return ZR_OK;
}

/* Check that the model is BPE. Older files give no type, and are BPE if they have merges. */
static zr_status want_bpe(const reader *r, const json_t *model)
{
    bool has_both = json_is_object(json_object_get(model, "vocab")) && json_is_array(json_object_get(model, "merges"));
    if (has_both && !json_object_get(model, "type")) return ZR_OK;
    return want_type(r, model, "model", "BPE");
}

/* ---- pre-tokenizers -------------------------------------------------------------------------- */

static zr_status add_expression(reader *r, const char *expression)
{
    ZR_CHECK(r->n_expressions < ZR__SPLIT_MOST, ZR_ERR_DATA, "%s: pre_tokenizer has more than %d regular expressions",
             r->file, ZR__SPLIT_MOST);
    r->expression[r->n_expressions++] = expression;
    return ZR_OK;
}

static zr_status read_byte_level(reader *r, const json_t *told)
{
    const json_t *regex = json_object_get(told, "use_regex");
    ZR_TRY(want_type(r, told, "pre_tokenizer", "ByteLevel"));
    ZR_TRY(want_nothing(r, told, "pre_tokenizer.", "add_prefix_space"));
    if (!regex || json_is_true(regex)) ZR_TRY(add_expression(r, ZR__SPLIT_GPT2));
    return ZR_OK;
}

static zr_status read_split(reader *r, const json_t *told)
{
    const json_t *regex = json_object_get(json_object_get(told, "pattern"), "Regex");
    const json_t *behavior = json_object_get(told, "behavior");
    ZR_TRY(want_type(r, told, "pre_tokenizer before ByteLevel", "Split"));
    ZR_TRY(want_nothing(r, told, "pre_tokenizer.Split.", "invert"));
    ZR_CHECK(json_is_string(regex), ZR_ERR_DATA,
             "%s: pre_tokenizer.Split.pattern is %s, only {\"Regex\": ...} is supported", r->file,
             ZR_JSON_SHOWN(json_object_get(told, "pattern")));
    ZR_CHECK(json_is_string(behavior) && strcmp(json_string_value(behavior), "Isolated") == 0, ZR_ERR_DATA,
             "%s: pre_tokenizer.Split.behavior is %s, only \"Isolated\" is supported", r->file,
             ZR_JSON_SHOWN(behavior));
    return add_expression(r, json_string_value(regex));
}

static zr_status read_pre_tokenizer(reader *r, const json_t *told)
{
    const json_t *steps = json_object_get(told, "pretokenizers");
    size_t n = json_array_size(steps);
    ZR_CHECK(json_is_object(told), ZR_ERR_DATA, "%s: there is no pre_tokenizer; only byte-level BPE is supported",
             r->file);
    if (!steps) return read_byte_level(r, told);
    ZR_TRY(want_type(r, told, "pre_tokenizer", "Sequence"));
    ZR_CHECK(n > 0, ZR_ERR_DATA, "%s: pre_tokenizer.pretokenizers must be a list that is not empty", r->file);
    for (size_t i = 0; i + 1 < n; i++) ZR_TRY(read_split(r, json_array_get(steps, i)));
    return read_byte_level(r, json_array_get(steps, n - 1));
}

/* ---- the vocabulary -------------------------------------------------------------------------- */

/* Token names, indexed by token number. They come from the vocabulary and from the list of added tokens. */
typedef struct names {
    const char **name;
    int64_t *bytes;
    bool *raw; /* whether the token is an added token; its name is then its literal text */
    int64_t n, all_bytes;
} names;

static zr_status token_of(const reader *r, const json_t *value, const char *name, int64_t n, int32_t *token)
{
    ZR_CHECK(json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) < n, ZR_ERR_DATA,
             "%s: token \"%s\" is %s; the %lld tokens must be numbered 0 to %lld without a gap", r->file,
             ZR_SHOWN(name), ZR_JSON_SHOWN(value), (long long)n, (long long)n - 1);
    *token = (int32_t)json_integer_value(value);
    return ZR_OK;
}

static zr_status note_name(const reader *r, names *all, int32_t token, const char *name, size_t bytes)
{
    ZR_CHECK(bytes > 0, ZR_ERR_DATA, "%s: token %d has an empty name", r->file, token);
    ZR_CHECK(!all->name[token], ZR_ERR_DATA, "%s: \"%s\" and \"%s\" are both token %d", r->file,
             ZR_SHOWN(all->name[token]), ZR_SHOWN(name), token);
    all->name[token] = name;
    all->bytes[token] = (int64_t)bytes;
    all->all_bytes += (int64_t)bytes;
    return ZR_OK;
}

static zr_status note_added(const reader *r, names *all, const json_t *added)
{
    const json_t *content = json_object_get(added, "content");
    const char *name = json_string_value(content);
    int32_t token = 0;
    ZR_CHECK(name, ZR_ERR_DATA, "%s: added_tokens: a token has no content", r->file);
    ZR_TRY(token_of(r, json_object_get(added, "id"), name, all->n, &token));
    bool again = all->raw[token] && strcmp(all->name[token], name) == 0;
    if (!again && !json_object_get(r->vocab, name)) ZR_TRY(note_name(r, all, token, name, json_string_length(content)));
    ZR_CHECK(all->name[token] && strcmp(all->name[token], name) == 0, ZR_ERR_DATA,
             "%s: added_tokens: \"%s\" is token %d here, but another token in the vocabulary", r->file, ZR_SHOWN(name),
             token);
    ZR_TRY(want_nothing(r, added, "added_tokens.", "single_word"));
    ZR_TRY(want_nothing(r, added, "added_tokens.", "lstrip"));
    ZR_TRY(want_nothing(r, added, "added_tokens.", "rstrip"));
    if (again) return ZR_OK; /* the first entry of a token takes effect */
    all->raw[token] = true;
    r->bpe->added[r->bpe->n_added++] = (zr__bpe_added){token, json_is_true(json_object_get(added, "normalized"))};
    return ZR_OK;
}

/* Count the added tokens that are not in the vocabulary. An added token may be listed twice. */
static zr_status count_new(const reader *r, int64_t *n)
{
    json_t *seen = json_object();
    bool kept = seen;
    for (size_t i = 0; i < json_array_size(r->added); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(r->added, i), "content"));
        if (name && !json_object_get(r->vocab, name)) kept = json_object_set_new(seen, name, json_null()) == 0 && kept;
    }
    *n = (int64_t)json_object_size(seen);
    json_decref(seen);
    ZR_CHECK(kept, ZR_ERR_MEMORY, "%s: no memory for added tokens", r->file);
    return ZR_OK;
}

static zr_status note_all(const reader *r, names *all)
{
    const char *name;
    json_t *value;
    int32_t token = 0;
    json_object_foreach((json_t *)r->vocab, name, value)
    {
        ZR_TRY(token_of(r, value, name, all->n, &token));
        ZR_TRY(note_name(r, all, token, name, strlen(name)));
    }
    for (size_t i = 0; i < json_array_size(r->added); i++) ZR_TRY(note_added(r, all, json_array_get(r->added, i)));
    value = r->two_files ? json_object_get(r->vocab, ZR_END_OF_TEXT) : NULL;
    if (value) {
        token = (int32_t)json_integer_value(value);
        all->raw[token] = true;
        r->bpe->added[r->bpe->n_added++] = (zr__bpe_added){.token = token};
    }
    return ZR_OK;
}

/* Convert the names of all tokens to bytes. Every token has a name here, because n distinct tokens from 0 to n-1 leave
 * no gap. */
static zr_status spell_all(const reader *r, const names *all)
{
    zr__bpe *bpe = r->bpe;
    int64_t at = 0;
    ZR_TRY(zr__bpe_take_tokens(bpe, all->n, all->all_bytes));
    for (int64_t token = 0; token < all->n; token++) {
        bpe->begin[token] = at;
        int64_t bytes = zr__bpe_spell(all->name[token], all->bytes[token], bpe->text + at);
        bpe->spelled[token] = bytes >= 0 && json_object_get(r->vocab, all->name[token]);
        if (bytes < 0 || all->raw[token]) {
            bytes = all->bytes[token];
            bpe->spelled[token] = bpe->spelled[token] && !memcmp(bpe->text + at, all->name[token], (size_t)bytes);
            memcpy(bpe->text + at, all->name[token], (size_t)bytes);
        }
        at += bytes;
    }
    bpe->begin[all->n] = at;
    zr__bpe_name_tokens(bpe);
    for (int byte = 0; byte < ZR__BPE_BYTES; byte++) {
        const char text = (char)byte;
        bpe->byte_token[byte] = zr__bpe_find(bpe, &text, 1);
        ZR_CHECK(bpe->byte_token[byte] >= 0, ZR_ERR_DATA,
                 "%s: the vocabulary has no token for byte %d (U+%04X) that is not an added one", r->file, byte,
                 (unsigned)zr__bpe_symbol((unsigned char)byte));
    }
    return ZR_OK;
}

static zr_status read_vocab(const reader *r)
{
    ZR_CHECK(json_is_object(r->vocab) && json_object_size(r->vocab) > 0, ZR_ERR_DATA,
             "%s: there is no vocabulary; expected an object with names and their token numbers", r->file);
    ZR_CHECK(!r->added || json_is_array(r->added), ZR_ERR_DATA, "%s: added_tokens is not a list", r->file);
    int64_t n = 0;
    ZR_TRY(count_new(r, &n));
    n += (int64_t)json_object_size(r->vocab);
    names all = {.n = n};
    all.name = zr_alloc((size_t)n * sizeof(*all.name));
    all.bytes = zr_alloc((size_t)n * sizeof(*all.bytes));
    all.raw = zr_alloc((size_t)n);
    r->bpe->added = zr_alloc((json_array_size(r->added) + 1) * sizeof(*r->bpe->added));
    zr_status st = ZR_OK;
    if (!all.name || !all.bytes || !all.raw || !r->bpe->added)
        st = ZR_FAIL(ZR_ERR_MEMORY, "%s: no memory for %lld tokens", r->file, (long long)n);
    if (st == ZR_OK) st = note_all(r, &all);
    if (st == ZR_OK) st = spell_all(r, &all);
    zr_free(all.name);
    zr_free(all.bytes);
    zr_free(all.raw);
    return st;
}

/* ---- merges ---------------------------------------------------------------------------------- */

/* Find a token by its name in a merge. For messages, `number` is the number of the merge, or the line in merges.txt,
 * from 1. */
static zr_status token_named(const reader *r, const char *name, size_t bytes, int64_t number, int32_t *token)
{
    char *spelled = zr_alloc(bytes + 1), shown[SHOWN];
    ZR_CHECK(spelled, ZR_ERR_MEMORY, "%s: no memory for a name of %zu bytes", r->file, bytes);
    int64_t n = zr__bpe_spell(name, (int64_t)bytes, spelled);
    *token = n > 0 ? zr__bpe_find(r->bpe, spelled, n) : -1;
    memcpy(spelled, name, bytes);
    spelled[bytes] = '\0';
    bool added = *token < 0 && json_object_get(r->vocab, spelled);
    zr__text_escape(spelled, shown, sizeof(shown));
    zr_free(spelled);
    ZR_CHECK(*token >= 0, ZR_ERR_DATA, "%s: merge %lld: \"%s\" is %s", r->file, (long long)number, shown,
             added ? "an added token, which stands for its name as it is; that merges make it too is not supported"
                   : "not a token of the vocabulary");
    return ZR_OK;
}

static zr_status add_merge(const reader *r, const char *left, size_t n_left, const char *right, size_t n_right,
                           int64_t number, uint32_t rank)
{
    int32_t a = 0, b = 0, into = 0;
    char *both = zr_alloc(n_left + n_right + 1);
    ZR_CHECK(both, ZR_ERR_MEMORY, "%s: no memory for a name", r->file);
    memcpy(both, left, n_left);
    memcpy(both + n_left, right, n_right);
    zr_status st = token_named(r, left, n_left, number, &a);
    if (st == ZR_OK) st = token_named(r, right, n_right, number, &b);
    if (st == ZR_OK) st = token_named(r, both, n_left + n_right, number, &into);
    if (st == ZR_OK) zr__bpe_merge(r->bpe, a, b, into, rank);
    zr_free(both);
    return st;
}

/* Add a merge written as "a b". */
static zr_status add_spaced(const reader *r, const char *text, size_t bytes, int64_t number, uint32_t rank)
{
    char cut[SHOWN];
    const char *space = memchr(text, ' ', bytes);
    size_t n = space ? (size_t)(space - text) : 0;
    snprintf(cut, sizeof(cut), "%.*s", (int)(bytes < SHOWN ? bytes : SHOWN),
             text); /* only `bytes` bytes belong to this merge */
    ZR_CHECK(n > 0 && n + 1 < bytes && !memchr(space + 1, ' ', bytes - n - 1), ZR_ERR_DATA,
             "%s: merge %lld is \"%s\"; expected two names with a space between them", r->file, (long long)number,
             ZR_SHOWN(cut));
    return add_merge(r, text, n, space + 1, bytes - n - 1, number, rank);
}

static zr_status read_merges(const reader *r)
{
    ZR_CHECK(json_is_array(r->merges), ZR_ERR_DATA, "%s: model.merges is not a list", r->file);
    size_t n = json_array_size(r->merges);
    ZR_TRY(zr__bpe_take_merges(r->bpe, (int64_t)n));
    for (size_t i = 0; i < n; i++) {
        const json_t *m = json_array_get(r->merges, i), *a = json_array_get(m, 0), *b = json_array_get(m, 1);
        int64_t number = (int64_t)i + 1;
        bool pair = json_array_size(m) == 2 && json_is_string(a) && json_is_string(b);
        ZR_CHECK(pair || json_is_string(m), ZR_ERR_DATA, "%s: merge %lld is neither \"a b\" nor [\"a\", \"b\"]",
                 r->file, (long long)number);
        if (pair)
            ZR_TRY(add_merge(r, json_string_value(a), json_string_length(a), json_string_value(b),
                             json_string_length(b), number, (uint32_t)i));
        else
            ZR_TRY(add_spaced(r, json_string_value(m), json_string_length(m), number, (uint32_t)i));
    }
    return ZR_OK;
}

/* Read merges, one per line. The first line may give the version of the format, as "#version: 0.2", and is then
 * skipped. */
static zr_status read_merge_lines(const reader *r, const char *text, size_t bytes)
{
    static const char version[] = "#version";
    uint32_t rank = 0;
    int64_t lines = 1;
    for (size_t i = 0; i < bytes; i++) lines += text[i] == '\n';
    ZR_TRY(zr__bpe_take_merges(r->bpe, lines));
    for (int64_t number = 1; bytes > 0; number++) {
        const char *end = memchr(text, '\n', bytes);
        size_t n = end ? (size_t)(end - text) : bytes, whole = end ? n + 1 : n;
        if (n > 0 && text[n - 1] == '\r') n--;
        bool told = n >= sizeof(version) - 1 && strncmp(text, version, sizeof(version) - 1) == 0;
        if (n > 0 && !(told && number == 1)) ZR_TRY(add_spaced(r, text, n, number, rank++));
        text += whole;
        bytes -= whole;
    }
    return ZR_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Compute the remaining tables for encoding, after vocabulary and merges are read. */
static zr_status finish_bpe(const reader *r)
{
    ZR_TRY(zr__split_open(r->expression, r->n_expressions, r->file, &r->bpe->split));
    return zr__bpe_finish(r->bpe);
}

static zr_status take_tokenizer(reader *r, const json_t *root)
{
    static const char *const none[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"};
    const json_t *model = json_object_get(root, "model"), *decoder = json_object_get(root, "decoder");
    ZR_CHECK(json_is_object(model), ZR_ERR_DATA, "%s: there is no model", r->file);
    ZR_TRY(want_bpe(r, model));
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) ZR_TRY(want_nothing(r, model, "model.", none[i]));
    ZR_TRY(want_nothing(r, root, "", "normalizer"));
    ZR_TRY(read_pre_tokenizer(r, json_object_get(root, "pre_tokenizer")));
    ZR_CHECK(r->n_expressions > 0, ZR_ERR_DATA,
             "%s: pre_tokenizer.use_regex is false and there is no Split: text that is not cut into pieces is not "
             "supported",
             r->file);
    if (json_is_object(decoder)) ZR_TRY(want_type(r, decoder, "decoder", "ByteLevel"));
    r->bpe->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    r->vocab = json_object_get(model, "vocab");
    r->merges = json_object_get(model, "merges");
    r->added = json_object_get(root, "added_tokens");
    if (json_is_null(r->added)) r->added = NULL;
    ZR_TRY(read_vocab(r));
    ZR_TRY(read_merges(r));
    return finish_bpe(r);
}

static zr_status read_tokenizer(reader *r, const char *path)
{
    json_t *root = NULL;
    ZR_TRY(read_json(r, path, &root));
    zr_status st = take_tokenizer(r, root);
    json_decref(root);
    return st;
}

/* Refuse the kind of BPE that marks the end of a word by "</w>" in token names. */
static zr_status refuse_word_ends(const reader *r)
{
    static const char end[] = "</w>";
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)r->vocab, name, value)
    {
        ZR_CHECK(!zr__text_ends(name, end), ZR_ERR_DATA,
                 "%s: the name \"%s\" ends with %s, so this is not byte-level BPE, the only supported kind", r->file,
                 ZR_SHOWN(name), end);
    }
    return ZR_OK;
}

static zr_status take_two_files(reader *r, const char *merges_path)
{
    char *text = NULL;
    size_t bytes = 0;
    ZR_TRY(refuse_word_ends(r));
    ZR_TRY(read_vocab(r));
    zr__text_escape(merges_path, r->file, sizeof(r->file));
    /* zr__json_read_most reads any text, not only JSON. */
    zr_status st = zr__json_read_most(merges_path, FILE_MOST_BYTES, &text, &bytes);
    if (st == ZR_OK) st = read_merge_lines(r, text, bytes);
    zr_free(text);
    if (st == ZR_ERR_CONFIG) st = ZR_FAIL(ZR_ERR_DATA, "%s", zr_error_message());
    ZR_TRY(st);
    return finish_bpe(r);
}

static zr_status read_two_files(reader *r, const char *vocab_path, const char *merges_path)
{
    json_t *root = NULL;
    ZR_TRY(read_json(r, vocab_path, &root));
    r->vocab = root;
    r->two_files = true;
    ZR_TRY(add_expression(r, ZR__SPLIT_GPT2));
    zr_status st = take_two_files(r, merges_path);
    json_decref(root);
    return st;
}

/* Refuse settings of tokenizer_config.json that change how vocab.json and merges.txt tokenize. */
static zr_status check_config(const reader *r, const json_t *config)
{
    const json_t *told = json_object_get(config, "tokenizer_class");
    const char *name = json_string_value(told), *token;
    json_t *added;
    bool gpt2 = name && (strcmp(name, "GPT2Tokenizer") == 0 || strcmp(name, "GPT2TokenizerFast") == 0);
    ZR_CHECK(gpt2 || !told || json_is_null(told), ZR_ERR_DATA,
             "%s: tokenizer_class is %s; without a tokenizer.json only GPT2Tokenizer is supported", r->file,
             ZR_JSON_SHOWN(told));
    ZR_TRY(want_nothing(r, config, "", "add_prefix_space"));
    json_object_foreach(json_object_get(config, "added_tokens_decoder"), token, added)
    {
        const json_t *content = json_object_get(added, "content");
        ZR_CHECK(json_is_string(content) && strcmp(json_string_value(content), ZR_END_OF_TEXT) == 0, ZR_ERR_DATA,
                 "%s: added_tokens_decoder has %s; without a tokenizer.json only \"%s\" is supported", r->file,
                 ZR_JSON_SHOWN(content), ZR_END_OF_TEXT);
    }
    return ZR_OK;
}

/* Check the other files in the directory. vocab.json and merges.txt are read like GPT-2's files, so no other file may
 * require something else. */
static zr_status check_beside(reader *r, const char *dir)
{
    char path[PATH_MAX];
    json_t *config = NULL;
    ZR_TRY(zr__path_of_input(path, dir, "added_tokens.json"));
    ZR_CHECK(!zr__path_is_in(dir, "added_tokens.json"), ZR_ERR_DATA,
             "%s: added tokens are supported only in a tokenizer.json, which is missing", ZR_SHOWN(path));
    if (!zr__path_is_in(dir, "tokenizer_config.json")) return ZR_OK;
    ZR_TRY(zr__path_of_input(path, dir, "tokenizer_config.json"));
    ZR_TRY(read_json(r, path, &config));
    zr_status st = check_config(r, config);
    json_decref(config);
    return st;
}

static zr_status read_path(reader *r, const char *path)
{
    char own[PATH_MAX], merges[PATH_MAX];
    struct stat info;
    ZR_CHECK(stat(path, &info) == 0, ZR_ERR_NOT_FOUND,
             "there is no tokenizer \"%s\"; give \"bytes\", or a directory with tokenizer.json or with vocab.json and "
             "merges.txt",
             ZR_SHOWN(path));
    if (!S_ISDIR(info.st_mode)) return read_tokenizer(r, path);
    ZR_TRY(zr__path_of_input(own, path, "tokenizer.json"));
    if (zr__path_is_in(path, "tokenizer.json")) return read_tokenizer(r, own);
    ZR_CHECK(zr__path_is_in(path, "vocab.json"), ZR_ERR_NOT_FOUND,
             "the directory %s has neither a tokenizer.json nor a vocab.json", ZR_SHOWN(path));
    ZR_TRY(check_beside(r, path));
    ZR_TRY(zr__path_of_input(own, path, "vocab.json"));
    ZR_TRY(zr__path_of_input(merges, path, "merges.txt"));
    return read_two_files(r, own, merges);
}

bool zr__tokenizer_is_in(const char *dir)
{
    return zr__path_is_in(dir, "tokenizer.json") ||
           (zr__path_is_in(dir, "vocab.json") && zr__path_is_in(dir, "merges.txt"));
}

zr_status zr__bpe_read(const char *path, zr__bpe *bpe)
{
    reader *r = zr_alloc(sizeof(*r));
    ZR_CHECK(r, ZR_ERR_MEMORY, "no memory to read a tokenizer");
    *bpe = (zr__bpe){0};
    r->bpe = bpe;
    zr_status st = read_path(r, path);
    zr_free(r);
    return st;
}
