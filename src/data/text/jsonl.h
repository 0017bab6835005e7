/** Finds the text in a line of a .jsonl file. */
#ifndef ZR_DATA_JSONL_H
#define ZR_DATA_JSONL_H

#include "base/json/json.h"

/** Maximum length of a line in bytes. A longer line counts as bad. */
#define ZR__LINE_BYTES ((int64_t)16 << 20)

#define ZR__REASON_BYTES 192

/** Find the text of a line. The text belongs to *root, which the caller frees with json_decref, also after an error
 * (*root may be NULL). If the line is bad, *text is NULL and `reason` says why; key_named is the key's name in this
 * message. A line of only white space has the text "". Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__jsonl_text(const char *line, int64_t bytes, const char *key, const char *key_named,
                                      json_t **root, const char **text, int64_t *text_bytes,
                                      char reason[ZR__REASON_BYTES]);

#endif
