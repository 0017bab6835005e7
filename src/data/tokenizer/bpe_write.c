/* Printing a tokenizer as a tokenizer.json. A merge is written as "a b", which every version of the package
 * tokenizers reads. */
#include "base/text/text.h"
#include "data/tokenizer/bpe.h"

/* Add a token's name, a symbol for each byte. Only ASCII symbols need JSON escapes. */
static void add_name(zr__text *out, const zr__bpe_told *told, int64_t token)
{
    for (int64_t i = token ? told->end[token - 1] : 0; i < told->end[token]; i++) {
        const uint32_t c = zr__bpe_symbol((unsigned char)told->text[i]);
        if (c >= 0x80)
            zr__text_add(out, "%c%c", (char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f)));
        else
            zr__text_add(out, c == '"' || c == '\\' ? "\\%c" : "%c", (char)c);
    }
}

static void add_vocab(zr__text *out, const zr__bpe_told *told)
{
    for (int64_t token = 0; token < told->tokens; token++) {
        zr__text_add(out, token ? ",\n   \"" : "\n   \"");
        add_name(out, told, token);
        zr__text_add(out, "\": %lld", (long long)token);
    }
    if (told->end_of_text) zr__text_add(out, ",\n   \"" ZR_END_OF_TEXT "\": %lld", (long long)told->tokens);
}

static void add_merges(zr__text *out, const zr__bpe_told *told)
{
    for (int64_t i = 0; i < told->n_merges; i++) {
        zr__text_add(out, i ? ",\n   \"" : "\n   \"");
        add_name(out, told, told->merges[i].left);
        zr__text_add(out, " ");
        add_name(out, told, told->merges[i].right);
        zr__text_add(out, "\"");
    }
}

zr_status zr__bpe_print(const zr__bpe_told *told, char **json)
{
    zr__text out = {0};
    zr__text_add(&out, "{\n \"version\": \"1.0\",\n \"truncation\": null,\n \"padding\": null,\n \"added_tokens\": [");
    if (told->end_of_text)
        zr__text_add(&out,
                     "\n  {\"id\": %lld, \"content\": \"" ZR_END_OF_TEXT "\", \"single_word\": false, \"lstrip\": "
                     "false, \"rstrip\": false, \"normalized\": false, \"special\": true}\n ",
                     (long long)told->tokens);
    zr__text_add(&out,
                 "],\n \"normalizer\": null,\n"
                 " \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "
                 "\"use_regex\": true},\n"
                 " \"post_processor\": null,\n"
                 " \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, "
                 "\"use_regex\": true},\n"
                 " \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
                 "\"continuing_subword_prefix\": null,\n  \"end_of_word_suffix\": null, \"fuse_unk\": false, "
                 "\"byte_fallback\": false, \"ignore_merges\": false,\n  \"vocab\": {");
    add_vocab(&out, told);
    zr__text_add(&out, "\n  },\n  \"merges\": [");
    add_merges(&out, told);
    zr__text_add(&out, "%s]\n }\n}\n", told->n_merges ? "\n  " : "");
    ZR_TRY(zr__text_take(&out, json));
    return ZR_OK;
}
