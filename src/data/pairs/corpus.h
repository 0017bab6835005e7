/** The sentences of text files: their lengths are in memory, and their tokens in the cache of tokenized texts. */
#ifndef ZR_DATA_PAIRS_CORPUS_H
#define ZR_DATA_PAIRS_CORPUS_H

#include "base/paths/shards.h"
#include "data/tokens/tokens.h"

/** A document: the indices of its first sentence and of its first token in the corpus. */
typedef struct zr__corpus_document {
    int64_t sentence, token;
} zr__corpus_document;

typedef struct zr__corpus {
    zr__opening opening;
    zr__tokens *tokens;
    uint16_t *length; /* number of tokens of each sentence; a longer sentence is stored as several sentences */
    int64_t length_room, sentences;
    zr__corpus_document *document; /* array of documents + 1 */
    int64_t document_room, documents;
    zr_data_part part;
    int64_t all_documents;  /* number of documents of all parts */
    int32_t cls, sep, mask; /* tokens [CLS], [SEP] and [MASK] */
    int32_t vocab;          /* number of tokens of the tokenizer */
    bool *continues;        /* for each token: whether it continues a word (a word piece after the first) */
} zr__corpus;

/** Tokenize texts, and read the lengths of their sentences. Call zr__corpus_close even after a failure. Errors: as
 * zr_pairs_open. */
ZR_NODISCARD zr_status zr__corpus_open(const zr_pairs_args *args, const zr__shards *files, zr__corpus *corpus);
void zr__corpus_close(zr__corpus *corpus);

/** Return the bytes of memory that the corpus holds. */
int64_t zr__corpus_bytes(const zr__corpus *corpus);

#endif
