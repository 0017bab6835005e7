/** The files of a tokenizer, in the format of a Hugging Face directory. */
#ifndef ZR_TRAIN_TOKENIZER_FILES_H
#define ZR_TRAIN_TOKENIZER_FILES_H

#include "zr/base.h"

/** Write tokenizer.json and tokenizer_config.json into `dir`. `json` is the text of tokenizer.json.
 * tokenizer_config.json tells the package transformers the class of the tokenizer. `end_of_text` tells whether the
 * tokenizer has the token <|endoftext|>. Errors: ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__tokenizer_files_write(const char *dir, const char *json, bool end_of_text);

/** Copy the files of the tokenizer `name` (zr_tokenizer_open) into `dir`, unchanged. If `name` is "bytes", write the
 * files of an equivalent tokenizer. If `name` is NULL, do nothing. Fail with ZR_ERR_NOT_FOUND or ZR_ERR_DATA if the
 * tokenizer has no usable files. Other errors: ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__tokenizer_files_copy(const char *name, const char *dir);

/** Copy all tokenizer files from the directory `from` into `dir`, unchanged and unchecked. Fail with ZR_ERR_DATA if a
 * file is too large for a tokenizer. Other errors: ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__tokenizer_files_take(const char *from, const char *dir);
/** Copy generation_config.json from the directory `from` into `dir`, unless `dir` has one. If `all` is set and `from`
 * has a tokenizer, copy all tokenizer files instead. Errors: as zr__tokenizer_files_take. */
ZR_NODISCARD zr_status zr__tokenizer_files_add(const char *from, const char *dir, bool all);
/** Return whether `dir` has at least one file of a tokenizer. */
bool zr__tokenizer_files_any(const char *dir);

/** Remove the tokenizer files in `dir`. If the directory `like` is not NULL, remove only files that have the same
 * content in `like`. */
void zr__tokenizer_files_remove(const char *dir, const char *like);

#endif
