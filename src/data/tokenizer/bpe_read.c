/* Reads a tokenizer from the files of a Hugging Face directory. */
#include "base/file/folder.h"
#include "base/text/text.h"
#include "data/tokenizer/read.h"
#include "data/tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Replace each "\\u0000" by "\\u0001", since the JSON library refuses character 0. */
static void replace_zeros(char *text, size_t bytes)
{
    static const char zero[] = "\\u0000";
    const size_t n = sizeof(zero) - 1;
    char *end = text + bytes;
    for (char *at = text; (at = memmem(at, (size_t)(end - at), zero, n)); at += n) at[n - 1] = '1';
}

/* Function that parses a text of at most `most` bytes: zr__json_parse_most or zr__json_parse_reals. */
typedef zr_status (*parse_fn)(const char *text, size_t bytes, size_t most, const char *name, json_t **root);

zr_status zr__read_file(zr__reader *r, const char *path, char **text, size_t *bytes)
{
    zr__text_escape(path, r->file, sizeof(r->file));
    return zr__json_read_most(path, ZR__READ_MOST_BYTES, text, bytes); /* reads any text */
}

static zr_status read_json(zr__reader *r, const char *path, parse_fn parse, json_t **root)
{
    ZR_AUTO_FREE char *text = NULL;
    size_t bytes = 0;
    ZR_TRY(zr__read_file(r, path, &text, &bytes));
    if (r->has_zeros) replace_zeros(text, bytes);
    return parse(text, bytes, ZR__READ_MOST_BYTES, path, root);
}

zr_status zr__read_json(zr__reader *r, const char *path, json_t **root)
{
    return read_json(r, path, zr__json_parse_most, root);
}

zr_status zr__read_config(zr__reader *r, const char *path, json_t **config)
{
    return read_json(r, path, zr__json_parse_reals, config);
}

/* ---- what is not supported ------------------------------------------------------------------- */

bool zr__read_is(const json_t *in, const char *type)
{
    const char *its = json_string_value(json_object_get(in, "type"));
    return its && strcmp(its, type) == 0;
}

/* Return whether a value is missing or has no effect: null, false, 0 or "". */
static bool is_nothing(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_number(value) && json_number_value(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

zr_status zr__read_nothing(const zr__reader *r, const json_t *in, const char *section, const char *key)
{
    const json_t *value = json_object_get(in, key);
    ZR_CHECK(is_nothing(value), ZR_ERR_DATA, "%s: %s%s is %s, which is not supported", r->file, section, key,
             ZR_JSON_SHOWN(value));
    return ZR_OK;
}

zr_status zr__read_type(const zr__reader *r, const json_t *in, const char *section, const char *wanted)
{
    const json_t *type = json_object_get(in, "type");
    ZR_CHECK(json_is_string(type), ZR_ERR_DATA, "%s: %s has no type", r->file, section);
    ZR_CHECK(strcmp(json_string_value(type), wanted) == 0, ZR_ERR_DATA, "%s: %s is of type %s, only %s is supported",
             r->file, section, ZR_JSON_SHOWN(type), wanted);
    return ZR_OK;
}

/* Check that the model is BPE. Older files give no type, and are BPE if they have merges. */
static zr_status want_bpe(const zr__reader *r, const json_t *model)
{
    bool has_both = json_is_object(json_object_get(model, "vocab")) && json_is_array(json_object_get(model, "merges"));
    const json_t *type = json_object_get(model, "type");
    if (has_both && !type) return ZR_OK;
    ZR_CHECK(!type || zr__read_is(model, "BPE"), ZR_ERR_DATA,
             "%s: model is of type %s, only BPE and WordPiece are supported", r->file, ZR_JSON_SHOWN(type));
    return zr__read_type(r, model, "model", "BPE");
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Compute the remaining tables for encoding, after vocabulary and merges are read. */
zr_status zr__read_finish(const zr__reader *r)
{
    if (!r->bpe->classes) ZR_TRY(zr__classes_open(&r->bpe->classes));
    return zr__bpe_finish(r->bpe);
}

/* Return the token that tokenizer_config.json names as the end of a text, to separate documents. Return -1 if
 * ZR_END_OF_TEXT is an added token, or if no token is named. */
static int32_t separator_of(const zr__reader *r)
{
    for (size_t i = 0; i < json_array_size(r->added); i++) {
        const char *content = json_string_value(json_object_get(json_array_get(r->added, i), "content"));
        if (content && strcmp(content, ZR_END_OF_TEXT) == 0) return -1;
    }
    return r->end_of_text[0] ? zr__read_find(r, r->end_of_text) : -1;
}

/* Read the settings for characters outside the vocabulary. Byte-level BPE needs them only if it lacks the tokens of
 * bytes; `tokenizers` then drops these bytes unless there is an unknown token. */
static zr_status read_unknown(const zr__reader *r, const json_t *model)
{
    const json_t *told = json_object_get(model, "unk_token");
    const char *name = json_string_value(told);
    zr__bpe *bpe = r->bpe;
    bpe->unknown = -1;
    for (int byte = 0; byte < ZR__BPE_BYTES && !bpe->by_character; byte++)
        bpe->lacks_bytes = bpe->lacks_bytes || bpe->byte_token[byte] < 0;
    if (!bpe->by_character && !bpe->lacks_bytes) return ZR_OK;
    bpe->byte_fallback = json_is_true(json_object_get(model, "byte_fallback"));
    bpe->fuse_unk = json_is_true(json_object_get(model, "fuse_unk"));
    ZR_CHECK(!bpe->byte_fallback || bpe->by_character, ZR_ERR_DATA,
             "%s: model.byte_fallback is true in a byte-level vocabulary that lacks bytes, which is not supported",
             r->file);
    if (!name) return ZR_OK;
    const json_t *token = json_object_get(r->vocab, name);
    ZR_CHECK(token, ZR_ERR_DATA, "%s: model.unk_token is %s, which is not in the vocabulary", r->file,
             ZR_JSON_SHOWN(told));
    bpe->unknown = (int32_t)json_integer_value(token);
    return ZR_OK;
}

static zr_status take_tokenizer(zr__reader *r, const json_t *root)
{
    static const char *const none[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix"};
    const json_t *model = json_object_get(root, "model");
    ZR_CHECK(json_is_object(model), ZR_ERR_DATA, "%s: there is no model", r->file);
    if (zr__read_is(model, "WordPiece")) return zr__read_wordpiece(r, root);
    ZR_TRY(want_bpe(r, model));
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) ZR_TRY(zr__read_nothing(r, model, "model.", none[i]));
    ZR_TRY(zr__read_steps(r, root));
    r->bpe->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    r->vocab = json_object_get(model, "vocab");
    r->merges = json_object_get(model, "merges");
    r->added = json_object_get(root, "added_tokens");
    if (json_is_null(r->added)) r->added = NULL;
    ZR_TRY(zr__read_vocab(r));
    ZR_TRY(read_unknown(r, model));
    ZR_TRY(zr__read_merges(r));
    ZR_TRY(zr__read_post_processor(r, root));
    r->bpe->ends.separator = separator_of(r);
    return zr__read_finish(r);
}

/* Read the name of the token that ends a text from a tokenizer_config.json beside a tokenizer.json, if it names one.
 * The value is a text, or an object with the text in `content`. zr needs nothing else from the file, so a damaged file
 * is ignored. */
static zr_status find_end(zr__reader *r, const char *path)
{
    char dir[PATH_MAX], own[PATH_MAX];
    json_auto_t *config = NULL;
    zr__path_parent(path, dir);
    if (!zr__path_is_in(dir, "tokenizer_config.json")) return ZR_OK;
    ZR_TRY(zr__path_of_input(own, dir, "tokenizer_config.json"));
    const zr_status st = zr__read_config(r, own, &config);
    if (st == ZR_ERR_DATA) return ZR_OK;
    ZR_TRY(st);
    const json_t *told = json_object_get(config, "eos_token"), *content = json_object_get(told, "content");
    const char *name = json_string_value(content ? content : told);
    if (name) snprintf(r->end_of_text, sizeof(r->end_of_text), "%s", name);
    return ZR_OK;
}

static zr_status read_tokenizer(zr__reader *r, const char *path)
{
    json_auto_t *root = NULL;
    ZR_TRY(find_end(r, path));
    ZR_TRY(zr__read_json(r, path, &root));
    return take_tokenizer(r, root);
}

/* Refuse the kind of BPE that marks the end of a word by "</w>" in token names. */
static zr_status refuse_word_ends(const zr__reader *r)
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

static zr_status read_two_files(zr__reader *r, const char *vocab_path, const char *merges_path)
{
    json_auto_t *root = NULL;
    ZR_AUTO_FREE char *text = NULL;
    size_t bytes = 0;
    ZR_TRY(zr__read_json(r, vocab_path, &root));
    r->vocab = root;
    r->two_files = true;
    r->bpe->unknown = r->bpe->ends.separator = -1;
    ZR_TRY(zr__read_take_expression(r, ZR__SPLIT_GPT2));
    ZR_TRY(refuse_word_ends(r));
    ZR_TRY(zr__read_vocab(r));
    ZR_TRY(zr__read_want_bytes(r));
    ZR_TRY(zr__read_file(r, merges_path, &text, &bytes));
    ZR_TRY(zr__read_merge_lines(r, text, bytes));
    return zr__read_finish(r);
}

/* Refuse settings of tokenizer_config.json that change how vocab.json and merges.txt tokenize. */
static zr_status check_config(const zr__reader *r, const json_t *config)
{
    const json_t *told = json_object_get(config, "tokenizer_class");
    const char *name = json_string_value(told), *token;
    json_t *added;
    bool gpt2 = name && (strcmp(name, "GPT2Tokenizer") == 0 || strcmp(name, "GPT2TokenizerFast") == 0);
    ZR_CHECK(gpt2 || !told || json_is_null(told), ZR_ERR_DATA,
             "%s: tokenizer_class is %s; without a tokenizer.json only GPT2Tokenizer is supported", r->file,
             ZR_JSON_SHOWN(told));
    ZR_TRY(zr__read_nothing(r, config, "", "add_prefix_space"));
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
static zr_status check_beside(zr__reader *r, const char *dir)
{
    char path[PATH_MAX];
    json_auto_t *config = NULL;
    ZR_TRY(zr__path_of_input(path, dir, "added_tokens.json"));
    ZR_CHECK(!zr__path_is_in(dir, "added_tokens.json"), ZR_ERR_DATA,
             "%s: added tokens are supported only in a tokenizer.json, which is missing", ZR_SHOWN(path));
    if (!zr__path_is_in(dir, "tokenizer_config.json")) return ZR_OK;
    ZR_TRY(zr__path_of_input(path, dir, "tokenizer_config.json"));
    ZR_TRY(zr__read_config(r, path, &config));
    return check_config(r, config);
}

/* Fail because a directory has no files of a tokenizer that zr can read. */
static zr_status refuse_directory(const char *path)
{
    ZR_CHECK(!zr__path_is_in(path, "tokenizer.model"), ZR_ERR_NOT_FOUND,
             "the directory %s has a tokenizer.model (SentencePiece), which is not supported, and no tokenizer.json; "
             "make one with the package transformers: python -c \"from transformers import AutoTokenizer as A; "
             "A.from_pretrained('%s').save_pretrained('%s')\"",
             ZR_SHOWN(path), ZR_SHOWN(path), ZR_SHOWN(path));
    return ZR_FAIL(ZR_ERR_NOT_FOUND,
                   "the directory %s has neither a tokenizer.json nor a vocab.json, a vocab.txt or a tekken.json",
                   ZR_SHOWN(path));
}

static zr_status read_directory(zr__reader *r, const char *path)
{
    char own[PATH_MAX], merges[PATH_MAX];
    ZR_TRY(zr__path_of_input(own, path, "tokenizer.json"));
    if (zr__path_is_in(path, "tokenizer.json")) return read_tokenizer(r, own);
    ZR_TRY(zr__path_of_input(own, path, "tekken.json"));
    if (zr__path_is_in(path, "vocab.txt") && !zr__path_is_in(path, "vocab.json")) return zr__read_vocab_lines(r, path);
    if (!zr__path_is_in(path, "vocab.json"))
        return zr__path_is_in(path, "tekken.json") ? zr__read_tekken(r, own) : refuse_directory(path);
    ZR_TRY(check_beside(r, path));
    ZR_TRY(zr__path_of_input(own, path, "vocab.json"));
    ZR_TRY(zr__path_of_input(merges, path, "merges.txt"));
    return read_two_files(r, own, merges);
}

bool zr__tokenizer_is_tekken(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strncmp(slash ? slash + 1 : path, "tekken", 6) == 0;
}

static zr_status read_path(zr__reader *r, const char *path)
{
    struct stat info;
    ZR_CHECK(stat(path, &info) == 0, ZR_ERR_NOT_FOUND,
             "there is no tokenizer \"%s\"; give \"bytes\", or a directory with tokenizer.json, with vocab.json and "
             "merges.txt, with vocab.txt and tokenizer_config.json, or with tekken.json",
             ZR_SHOWN(path));
    if (S_ISDIR(info.st_mode)) return read_directory(r, path);
    return zr__tokenizer_is_tekken(path) ? zr__read_tekken(r, path) : read_tokenizer(r, path);
}

bool zr__tokenizer_is_in(const char *dir)
{
    return zr__path_is_in(dir, "tokenizer.json") || zr__path_is_in(dir, "tekken.json") ||
           (zr__path_is_in(dir, "vocab.json") && zr__path_is_in(dir, "merges.txt")) ||
           (zr__path_is_in(dir, "vocab.txt") && zr__path_is_in(dir, "tokenizer_config.json"));
}

zr_status zr__bpe_read(const char *path, zr__bpe *bpe)
{
    ZR_AUTO_FREE zr__reader *r = zr_alloc(sizeof(*r));
    ZR_CHECK(r, ZR_ERR_MEMORY, "no memory to read a tokenizer");
    *bpe = (zr__bpe){0};
    r->bpe = bpe;
    return read_path(r, path);
}
