/** The files of a tokenizer as a Hugging Face directory has them. */
#ifndef ZR_TRAIN_TOKENIZER_FILES_H
#define ZR_TRAIN_TOKENIZER_FILES_H

#include "zr/base.h"

/** Into `dir`: a tokenizer.json of this text, and a tokenizer_config.json by which the package transformers knows what
 * it is. `end_of_text`: <|endoftext|> is one of its tokens. ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__tokenizer_files_write(const char *dir, const char *json, bool end_of_text);

/** Into `dir`: the files of the tokenizer of that name (zr_tokenizer_open), as they are in its directory; for "bytes"
 * files that give the same tokens. NULL: none. ZR_ERR_NOT_FOUND, ZR_ERR_DATA: it has none; ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__tokenizer_files_copy(const char *name, const char *dir);

/** Into `dir`: those files of a tokenizer that `from` has, as they are, whatever is in them. ZR_ERR_DATA: one is larger
 * than any tokenizer's; ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__tokenizer_files_take(const char *from, const char *dir);
/** Has it any? */
bool zr__tokenizer_files_any(const char *dir);

/** Those files in `dir` go; with `like`, another directory, only what is there as well with the same bytes. */
void zr__tokenizer_files_remove(const char *dir, const char *like);

#endif
