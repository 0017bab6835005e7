/* Prints a tokenizer as tokenizer.json. A merge is written as "a b", because every version of the package `tokenizers`
 * can read this form. */
#include "base/json/json_write.h"
#include "data/tokenizer/bpe.h"

/* Append a token's name, which has one symbol for each byte. */
static void add_name(zr__text *name, const zr__bpe_told *told, int64_t token)
{
    for (int64_t i = token ? told->end[token - 1] : 0; i < told->end[token]; i++) {
        const uint32_t c = zr__bpe_symbol((unsigned char)told->text[i]);
        const char two[] = {(char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f))}, one = (char)c;
        zr__text_append(name, c < 0x80 ? &one : two, c < 0x80 ? 1 : 2);
    }
}

zr_status zr__bpe_print(const zr__bpe_told *told, char **json)
{
    zr__json_out out = {.spaced = true};
    ZR_AUTO(zr__text_clear) zr__text name = {0};
    zr__text_add(&out.text,
                 "{\n \"version\": \"1.0\",\n \"truncation\": null,\n \"padding\": null,\n \"added_tokens\": [");
    if (told->end_of_text)
        zr__text_add(&out.text,
                     "\n  {\"id\": %lld, \"content\": \"" ZR_END_OF_TEXT "\", \"single_word\": false, \"lstrip\": "
                     "false, \"rstrip\": false, \"normalized\": false, \"special\": true}\n ",
                     (long long)told->tokens);
    zr__text_add(&out.text,
                 "],\n \"normalizer\": null,\n"
                 " \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "
                 "\"use_regex\": true},\n"
                 " \"post_processor\": null,\n"
                 " \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, "
                 "\"use_regex\": true},\n"
                 " \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
                 "\"continuing_subword_prefix\": null,\n  \"end_of_word_suffix\": null, \"fuse_unk\": false, "
                 "\"byte_fallback\": false, \"ignore_merges\": false,\n  \"vocab\": {");
    for (int64_t token = 0; token < told->tokens; token++) {
        zr__text_drop(&name, name.length);
        add_name(&name, told, token);
        zr__json_break(&out, "\n   ");
        zr__json_add(&out, name.data, token);
    }
    zr__json_break(&out, "\n   ");
    if (told->end_of_text) zr__json_add(&out, ZR_END_OF_TEXT, told->tokens);
    zr__text_add(&out.text, "\n  },\n  \"merges\": [");
    out.more = false;
    for (int64_t i = 0; i < told->n_merges; i++) {
        zr__text_drop(&name, name.length);
        add_name(&name, told, told->merges[i].left);
        zr__text_append(&name, " ", 1);
        add_name(&name, told, told->merges[i].right);
        zr__json_break(&out, "\n   ");
        zr__json_add(&out, NULL, name.data);
    }
    zr__text_add(&out.text, "%s]\n }\n}\n", told->n_merges ? "\n  " : "");
    out.text.failed |= name.failed;
    return zr__text_take(&out.text, json);
}
