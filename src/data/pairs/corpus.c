#include "data/pairs/corpus.h"

#include "base/core/grow.h"
#include "data/samples/samples.h"
#include "data/tokenizer/tokenizer.h"

#include <string.h>

/* ---- the tokenizer --------------------------------------------------------------------------- */

static zr_status open_tokenizer(const zr_pairs_args *args, zr__corpus *c)
{
    bool is_text;
    /* Report a missing data file before a missing tokenizer. */
    if (!args->tokenizer) ZR_TRY(zr__data_look(args->path, args->as_text, &is_text, NULL, 0));
    ZR_CHECK(args->tokenizer, ZR_ERR_CONFIG,
             "no tokenizer is given, but sentence pairs are made of texts; give data.tokenizer");
    ZR_TRY(zr_tokenizer_open(args->tokenizer, &c->opening.tokenizer));
    ZR_TRY(zr__tokenizer_special(c->opening.tokenizer, "[CLS]", &c->cls));
    ZR_TRY(zr__tokenizer_special(c->opening.tokenizer, "[SEP]", &c->sep));
    ZR_TRY(zr__tokenizer_special(c->opening.tokenizer, "[MASK]", &c->mask));
    c->vocab = (int32_t)zr_tokenizer_vocab(c->opening.tokenizer);
    c->continues = zr_alloc((size_t)c->vocab);
    ZR_CHECK(c->continues, ZR_ERR_MEMORY, "no memory for %d tokens", c->vocab);
    for (int32_t token = 0; token < c->vocab; token++) {
        const char *text = NULL;
        int64_t bytes = 0;
        ZR_TRY(zr_tokenizer_decode(c->opening.tokenizer, token, &text, &bytes));
        c->continues[token] = bytes > 2 && memcmp(text, "##", 2) == 0;
    }
    return ZR_OK;
}

/* ---- sentences ------------------------------------------------------------------------------- */

/* Begin a document at a token. If the last document has no sentence, or is not in the part, replace it. */
static zr_status begin_document(zr__corpus *c, int64_t token)
{
    const zr__corpus_document *last = c->documents > 0 ? &c->document[c->documents - 1] : NULL;
    const bool has_text = last && last->sentence < c->sentences;
    if (has_text && !zr__part_has(&c->part, c->all_documents++)) c->sentences = last->sentence;
    if (last && last->sentence == c->sentences) c->documents--;
    ZR_GROW(c->document, c->document_room, c->documents + 2, "documents of a text");
    c->document[c->documents++] = (zr__corpus_document){c->sentences, token};
    return ZR_OK;
}

static zr_status add_sentence(zr__corpus *c, int64_t tokens)
{
    for (int64_t n; tokens > 0; tokens -= n) {
        n = tokens < UINT16_MAX ? tokens : UINT16_MAX;
        ZR_GROW(c->length, c->length_room, c->sentences + 1, "sentences of a text");
        c->length[c->sentences++] = (uint16_t)n;
    }
    return ZR_OK;
}

static zr_status read_sentences(zr__corpus *c, int64_t shard)
{
    const zr__shard *s = &c->tokens->shard[shard];
    int64_t size[ZR__TOKENS_SIZES], token = s->begin;
    ZR_TRY(begin_document(c, token));
    for (int64_t i = 0, n; i < s->documents; i += n) {
        n = s->documents - i < ZR__TOKENS_SIZES ? s->documents - i : ZR__TOKENS_SIZES;
        ZR_TRY(zr__tokens_sizes(c->tokens, shard, i, n, size));
        for (int64_t k = 0; k < n; k++) {
            if (size[k] == 0) ZR_TRY(begin_document(c, token));
            ZR_TRY(add_sentence(c, size[k]));
            token += size[k];
        }
    }
    return ZR_OK;
}

/* ---- the object ------------------------------------------------------------------------------ */

static zr_status open_files(const zr__shards *files, const zr_pairs_args *args, zr__corpus *c)
{
    ZR_TRY(zr__tokens_create(files->n, args->vocab_size, &c->tokens));
    for (int64_t i = 0; i < files->n; i++) {
        ZR_TRY(zr__tokens_add(c->tokens, &c->opening, files->path[i]));
        ZR_TRY(read_sentences(c, i));
    }
    ZR_TRY(begin_document(c, c->tokens->total)); /* the end of the last document */
    c->documents--;
    ZR_CHECK(c->documents > 0 || !args->single, ZR_ERR_DATA, "%s%s: there is no text", c->tokens->shard->name,
             files->n > 1 ? " and the files after it" : "");
    const zr__part_size size = {.name = c->tokens->shard->name,
                                .unit = "documents",
                                .has = c->documents,
                                .all = c->all_documents,
                                .least = args->single ? 1 : 2};
    ZR_TRY(zr__part_check(&c->part, &size));
    ZR_CHECK(c->documents >= 2 || args->single, ZR_ERR_DATA,
             "%s%s: %lld document%s; at least 2 are needed, because half of the sentence pairs are from two documents; "
             "put a blank line between documents",
             c->tokens->shard->name, files->n > 1 ? " and the files after it" : "", (long long)c->documents,
             c->documents == 1 ? "" : "s");
    return ZR_OK;
}

zr_status zr__corpus_open(const zr_pairs_args *args, const zr__shards *files, zr__corpus *c)
{
    const zr_data_args its = {.path = args->path,
                              .vocab_size = args->vocab_size,
                              .seq_length = args->seq_length,
                              .as_text = args->as_text,
                              .cache_dir = args->cache_dir,
                              .cache_is_whole = args->cache_is_whole,
                              .progress = args->progress,
                              .arg = args->arg};
    c->opening.args = &its;
    c->opening.sentences = true;
    c->part = args->part;
    zr_status st = open_tokenizer(args, c);
    if (st == ZR_OK) st = open_files(files, args, c);
    c->opening.args = NULL; /* the caller may free `args` after this call */
    return st;
}

void zr__corpus_close(zr__corpus *c)
{
    zr__tokens_free(&c->tokens);
    zr_tokenizer_close(&c->opening.tokenizer);
    zr_free(c->length);
    zr_free(c->document);
    zr_free(c->continues);
    *c = (zr__corpus){.length = NULL};
}

int64_t zr__corpus_bytes(const zr__corpus *c)
{
    return c->length_room * (int64_t)sizeof(*c->length) + c->document_room * (int64_t)sizeof(*c->document) + c->vocab;
}
