/** The files of a tokenizer as a Hugging Face directory has them. */
#ifndef ZR_TRAIN_TOKENIZER_FILES_H
#define ZR_TRAIN_TOKENIZER_FILES_H

#include "zr/base.h"

/** Write to `dir` a tokenizer.json with the text `json`, and a tokenizer_config.json from which the package
 * transformers knows the tokenizer's class. `end_of_text`: <|endoftext|> is one of its tokens. ZR_ERR_CREATE,
 * ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__tokenizer_files_write(const char *dir, const char *json, bool end_of_text);

/** Copy the files of the tokenizer `name` (zr_tokenizer_open) to `dir`, unchanged; for "bytes" write files that give
 * the same tokens. NULL: copy nothing. ZR_ERR_NOT_FOUND, ZR_ERR_DATA: the tokenizer has no files; ZR_ERR_CREATE,
 * ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__tokenizer_files_copy(const char *name, const char *dir);

/** Copy the tokenizer files that `from` has to `dir`, unchanged and unchecked. ZR_ERR_DATA: one is larger than any
 * tokenizer's; ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__tokenizer_files_take(const char *from, const char *dir);
/** Return whether `dir` has any tokenizer file. */
bool zr__tokenizer_files_any(const char *dir);

/** Remove the tokenizer files in `dir`; with `like`, only files that the directory `like` has with the same bytes. */
void zr__tokenizer_files_remove(const char *dir, const char *like);

#endif
