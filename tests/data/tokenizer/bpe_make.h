/* Small byte-level BPE tokenizers for tests, as the text of their files. */
#ifndef BPE_MAKE_H
#define BPE_MAKE_H

#include <stdlib.h>

#include "base/text/text.h"
#include "data/tokenizer/bpe.h"
#include "zr/base.h"

static inline void bpe_put_symbol(zr__text *text, unsigned char byte)
{
    uint32_t c = zr__bpe_symbol(byte);
    if (c == '"' || c == '\\')
        zr__text_add(text, "\\%c", (char)c);
    else if (c < 0x80)
        zr__text_add(text, "%c", (char)c);
    else
        zr__text_add(text, "%c%c", (char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f)));
}

/* Return a vocabulary as a JSON object: all 256 bytes, each a token with the byte's value, followed by `more` (for
 * example "\"ab\": 256"). The caller frees it with zr_free. */
static inline char *bpe_vocab(const char *more)
{
    zr__text text = {0};
    char *out = NULL;
    zr__text_add(&text, "{");
    for (int byte = 0; byte < 256; byte++) {
        zr__text_add(&text, byte ? ", \"" : "\"");
        bpe_put_symbol(&text, (unsigned char)byte);
        zr__text_add(&text, "\": %d", byte);
    }
    zr__text_add(&text, "%s%s}", more[0] ? ", " : "", more);
    if (zr__text_take(&text, &out) != ZR_OK) abort();
    return out;
}

#define BPE_BYTE_LEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}"

/* Return a tokenizer.json; the caller frees it with zr_free. `sections` adds to the document: "" or, for example,
 * "\"normalizer\": null, ". */
static inline char *bpe_json(const char *sections, const char *pre_tokenizer, const char *model, const char *more,
                             const char *merges)
{
    zr__text text = {0};
    char *out = NULL, *vocab = bpe_vocab(more);
    zr__text_add(&text, "{%s\"pre_tokenizer\": %s, \"model\": {%s, \"vocab\": %s, \"merges\": %s}}", sections,
                 pre_tokenizer, model, vocab, merges);
    zr_free(vocab);
    if (zr__text_take(&text, &out) != ZR_OK) abort();
    return out;
}

#endif
