/** The files of a tokenizer, in the format of a Hugging Face directory. */
#ifndef ZR_TRAIN_TOKENIZER_FILES_H
#define ZR_TRAIN_TOKENIZER_FILES_H

#include "zr/base.h"

/** Write into `dir` a tokenizer.json with the text `json`, and a tokenizer_config.json, which tells the package
 * transformers the tokenizer's class. `end_of_text` tells whether <|endoftext|> is one of its tokens. Errors:
 * ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__tokenizer_files_write(const char *dir, const char *json, bool end_of_text);

/** Copy the files of the tokenizer `name` (zr_tokenizer_open) into `dir`, unchanged. For "bytes", write files of an
 * equivalent tokenizer; for NULL, do nothing. Fail with ZR_ERR_NOT_FOUND or ZR_ERR_DATA if the tokenizer has no usable
 * files. Other errors: ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__tokenizer_files_copy(const char *name, const char *dir);

/** Copy all tokenizer files in the directory `from` into `dir`, unchanged and unchecked. Fail with ZR_ERR_DATA if a
 * file is larger than any tokenizer's file. Other errors: ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__tokenizer_files_take(const char *from, const char *dir);
/** Return whether `dir` has any tokenizer file. */
bool zr__tokenizer_files_any(const char *dir);

/** Remove the tokenizer files in `dir`. If `like` is not NULL, remove only files that exist with the same content in
 * the directory `like`. */
void zr__tokenizer_files_remove(const char *dir, const char *like);

#endif
