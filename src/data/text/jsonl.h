/** The text in a line of a .jsonl file. */
#ifndef ZR_DATA_JSONL_H
#define ZR_DATA_JSONL_H

#include "base/json/json.h"

/** Limit of a line in bytes; a longer line is a bad one. */
#define ZR__LINE_BYTES ((int64_t)16 << 20)

#define ZR__REASON_BYTES 192

/** Read the text of a line, borrowed from *root (json_decref it, also after an error; NULL is fine). *text NULL: the
 * line is bad, and `reason` says why, naming the key as key_named. A line of white space alone has the text "".
 * ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__jsonl_text(const char *line, int64_t bytes, const char *key, const char *key_named,
                                      json_t **root, const char **text, int64_t *text_bytes,
                                      char reason[ZR__REASON_BYTES]);

#endif
