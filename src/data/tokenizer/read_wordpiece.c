/* Reads WordPiece tokenizers: a tokenizer.json, or a vocab.txt with a tokenizer_config.json. */
#include "base/file/folder.h"
#include "base/text/text.h"
#include "data/tokenizer/read.h"
#include "data/tokenizer/wordpiece.h"

#include <string.h>

/* Largest model.max_input_chars_per_word; 100 in every known tokenizer. */
enum { MOST_CHARACTERS = 1 << 16, USUAL_CHARACTERS = 100 };

/* ---- tokenizer.json -------------------------------------------------------------------------- */

static zr_status read_prefix(const zr__reader *r, const json_t *in, const char *section, const char *key)
{
    const json_t *prefix = json_object_get(in, key);
    ZR_CHECK(json_is_string(prefix) && strcmp(json_string_value(prefix), ZR__WORDPIECE_PREFIX) == 0, ZR_ERR_DATA,
             "%s: %s.%s is %s, only \"" ZR__WORDPIECE_PREFIX "\" is supported", r->file, section, key,
             ZR_JSON_SHOWN(prefix));
    return ZR_OK;
}

static zr_status read_decoder(const zr__reader *r, const json_t *told)
{
    ZR_TRY(zr__read_type(r, told, "decoder", "WordPiece"));
    ZR_TRY(read_prefix(r, told, "decoder", "prefix"));
    r->bpe->tidies = json_is_true(json_object_get(told, "cleanup"));
    return ZR_OK;
}

static zr_status read_model(const zr__reader *r, const json_t *model)
{
    const json_t *unknown = json_object_get(model, "unk_token"),
                 *most = json_object_get(model, "max_input_chars_per_word");
    const char *name = json_string_value(unknown);
    zr__bpe *bpe = r->bpe;
    bpe->unknown = name ? zr__bpe_find(bpe, name, (int64_t)strlen(name)) : -1;
    ZR_CHECK(bpe->unknown >= 0, ZR_ERR_DATA, "%s: model.unk_token is %s, which is not in the vocabulary", r->file,
             ZR_JSON_SHOWN(unknown));
    bpe->most_characters = most ? json_integer_value(most) : USUAL_CHARACTERS;
    ZR_CHECK(bpe->most_characters >= 1 && bpe->most_characters <= MOST_CHARACTERS, ZR_ERR_DATA,
             "%s: model.max_input_chars_per_word is %s; it must be an integer from 1 to %d", r->file,
             ZR_JSON_SHOWN(most), MOST_CHARACTERS);
    return ZR_OK;
}

zr_status zr__read_wordpiece(zr__reader *r, const json_t *root)
{
    const json_t *model = json_object_get(root, "model");
    const zr__member normalizer = {.its = json_object_get(root, "normalizer"), .place = "normalizer"};
    ZR_TRY(zr__read_type(r, normalizer.its, normalizer.place, "BertNormalizer"));
    ZR_TRY(zr__read_bert_normalizer(r, &normalizer));
    ZR_TRY(zr__read_type(r, json_object_get(root, "pre_tokenizer"), "pre_tokenizer", "BertPreTokenizer"));
    ZR_TRY(read_prefix(r, model, "model", "continuing_subword_prefix"));
    ZR_TRY(read_decoder(r, json_object_get(root, "decoder")));
    r->bpe->by_character = true;
    r->bpe->pieces = ZR__PIECES_BERT;
    r->vocab = json_object_get(model, "vocab");
    r->added = json_object_get(root, "added_tokens");
    if (json_is_null(r->added)) r->added = NULL;
    ZR_TRY(zr__read_vocab(r));
    ZR_TRY(read_model(r, model));
    ZR_TRY(zr__bpe_take_merges(r->bpe, 0));
    ZR_TRY(zr__read_post_processor(r, root));
    r->bpe->ends.separator = -1;
    return zr__read_finish(r);
}

/* ---- vocab.txt ------------------------------------------------------------------------------- */

/* Special tokens of BERT, and their keys in tokenizer_config.json. */
static const struct {
    const char *key, *name;
} specials[] = {{"pad_token", "[PAD]"},
                {"unk_token", "[UNK]"},
                {"cls_token", "[CLS]"},
                {"sep_token", "[SEP]"},
                {"mask_token", "[MASK]"}};
enum { SPECIALS = sizeof(specials) / sizeof(specials[0]) };

/* Add the token of line `line`, counted from 0. */
static zr_status add_line(const zr__reader *r, const char *text, size_t n, json_int_t line, json_t *vocab)
{
    const long long number = (long long)line + 1;
    char shown[ZR_SHOWN_BYTES];
    ZR_CHECK(n > 0, ZR_ERR_DATA, "%s: line %lld is empty; each line must have a token", r->file, number);
    ZR_CHECK(!memchr(text, '\0', n), ZR_ERR_DATA, "%s: line %lld has a NUL byte", r->file, number);
    json_t *name = json_stringn(text, n);
    const char *key = json_string_value(name);
    const json_t *earlier = name ? json_object_get(vocab, key) : NULL;
    const bool put = name && !earlier && json_object_set_new(vocab, key, json_integer(line)) == 0;
    zr__text_escape(name ? key : "", shown, sizeof(shown));
    json_decref(name);
    ZR_CHECK(key, ZR_ERR_DATA, "%s: line %lld is not UTF-8", r->file, number);
    ZR_CHECK(!earlier, ZR_ERR_DATA, "%s: line %lld repeats the token \"%s\" of line %lld", r->file, number, shown,
             (long long)json_integer_value(earlier) + 1);
    ZR_CHECK(put, ZR_ERR_MEMORY, "%s: no memory for the token of line %lld", r->file, number);
    return ZR_OK;
}

/* Read the tokens of a vocab.txt, one on each line, into an object with names and their numbers. */
static zr_status read_lines(const zr__reader *r, const char *text, size_t bytes, json_t *vocab)
{
    const char *at = text, *end = text + bytes;
    for (json_int_t line = 0; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        size_t n = (size_t)(stop - at);
        if (n > 0 && at[n - 1] == '\r') n--;
        ZR_TRY(add_line(r, at, n, line, vocab));
        at = stop + 1;
    }
    return ZR_OK;
}

/* Return the name of a special token as tokenizer_config.json has it: a text, or an object with the text. */
static const char *special_of(const json_t *config, int i)
{
    const json_t *told = json_object_get(config, specials[i].key), *content = json_object_get(told, "content");
    const char *name = json_string_value(content ? content : told);
    return name ? name : specials[i].name;
}

/* Check the settings of tokenizer_config.json that change how vocab.txt tokenizes. */
static zr_status check_config(const zr__reader *r, const json_t *config)
{
    const json_t *told = json_object_get(config, "tokenizer_class"),
                 *basic = json_object_get(config, "do_basic_tokenize");
    const char *name = json_string_value(told);
    ZR_CHECK(!told || json_is_null(told) ||
                 (name && (strcmp(name, "BertTokenizer") == 0 || strcmp(name, "BertTokenizerFast") == 0)),
             ZR_ERR_DATA, "%s: tokenizer_class is %s; with a vocab.txt only BertTokenizer is supported", r->file,
             ZR_JSON_SHOWN(told));
    ZR_CHECK(!basic || json_is_true(basic), ZR_ERR_DATA, "%s: do_basic_tokenize is %s, which is not supported", r->file,
             ZR_JSON_SHOWN(basic));
    ZR_TRY(zr__read_nothing(r, config, "", "never_split"));
    for (int i = 0; i < SPECIALS; i++)
        ZR_CHECK(strcmp(special_of(config, i), specials[i].name) == 0, ZR_ERR_DATA,
                 "%s: %s is \"%s\"; with a vocab.txt only \"%s\" is supported", r->file, specials[i].key,
                 ZR_SHOWN(special_of(config, i)), specials[i].name);
    return ZR_OK;
}

static json_t *setting(const json_t *config, const char *key, json_t *otherwise)
{
    json_t *told = json_object_get(config, key);
    if (!told) return otherwise;
    json_decref(otherwise);
    return json_incref(told);
}

/* Make the tokenizer.json of a vocabulary. `vocab` and `added` are released. */
static json_t *whole_of(const json_t *config, json_t *vocab, json_t *added, json_int_t cls, json_int_t sep)
{
    return json_pack("{s:o, s:{s:s, s:b, s:o, s:o, s:o}, s:{s:s}, s:{s:s, s:[s,I], s:[s,I]}, s:{s:s, s:s, s:b}, "
                     "s:{s:s, s:s, s:s, s:i, s:o}}",
                     "added_tokens", added, "normalizer", "type", "BertNormalizer", "clean_text", 1,
                     "handle_chinese_chars", setting(config, "tokenize_chinese_chars", json_true()), "strip_accents",
                     setting(config, "strip_accents", json_null()), "lowercase",
                     setting(config, "do_lower_case", json_true()), "pre_tokenizer", "type", "BertPreTokenizer",
                     "post_processor", "type", "BertProcessing", "sep", "[SEP]", sep, "cls", "[CLS]", cls, "decoder",
                     "type", "WordPiece", "prefix", ZR__WORDPIECE_PREFIX, "cleanup", 1, "model", "type", "WordPiece",
                     "unk_token", "[UNK]", "continuing_subword_prefix", ZR__WORDPIECE_PREFIX,
                     "max_input_chars_per_word", USUAL_CHARACTERS, "vocab", vocab);
}

static zr_status take_lines(zr__reader *r, const json_t *config, json_t *vocab)
{
    json_int_t number[SPECIALS] = {0};
    for (int i = 0; i < SPECIALS; i++) {
        const json_t *its = json_object_get(vocab, specials[i].name);
        ZR_CHECK(its, ZR_ERR_DATA, "%s: there is no token %s", r->file, specials[i].name);
        number[i] = json_integer_value(its);
    }
    json_t *added = json_array();
    for (int i = 0; i < SPECIALS; i++)
        json_array_append_new(added,
                              json_pack("{s:s, s:I, s:b}", "content", specials[i].name, "id", number[i], "special", 1));
    json_auto_t *root = whole_of(config, json_incref(vocab), added, number[2], number[3]);
    ZR_CHECK(root, ZR_ERR_MEMORY, "%s: no memory for a vocabulary", r->file);
    return zr__read_wordpiece(r, root);
}

zr_status zr__read_vocab_lines(zr__reader *r, const char *dir)
{
    char path[PATH_MAX];
    ZR_AUTO_FREE char *text = NULL;
    size_t bytes = 0;
    json_auto_t *config = NULL, *vocab = json_object();
    ZR_CHECK(zr__path_is_in(dir, "tokenizer_config.json"), ZR_ERR_NOT_FOUND,
             "the directory %s has a vocab.txt and neither a tokenizer.json nor a tokenizer_config.json; only "
             "\"do_lower_case\" in a tokenizer_config.json says whether letters are made lower case, for example "
             "{\"tokenizer_class\": \"BertTokenizer\", \"do_lower_case\": true} for an uncased vocabulary",
             ZR_SHOWN(dir));
    ZR_CHECK(!zr__path_is_in(dir, "added_tokens.json"), ZR_ERR_DATA,
             "%s: added_tokens.json is supported only beside a tokenizer.json, which is missing", ZR_SHOWN(dir));
    ZR_TRY(zr__path_of_input(path, dir, "tokenizer_config.json"));
    ZR_TRY(zr__read_config(r, path, &config));
    ZR_TRY(check_config(r, config));
    ZR_TRY(zr__path_of_input(path, dir, "vocab.txt"));
    ZR_TRY(zr__read_file(r, path, &text, &bytes));
    ZR_TRY(read_lines(r, text, bytes, vocab));
    return take_lines(r, config, vocab);
}
