/** Finds the text in a line of a .jsonl file. */
#ifndef ZR_DATA_JSONL_H
#define ZR_DATA_JSONL_H

#include "base/json/json.h"

#define ZR__REASON_BYTES 512

/** List the names of an object's members for a message, such as "\"prompt\", \"answer\"", or "no members". Return
 * `out`. */
const char *zr__jsonl_members(const json_t *object, char *out, size_t size);

/** Read the object in a line, which the caller frees with json_decref, also after an error. If the line is bad,
 * `reason` says why; `wanted` is the form of a good object in this message. Otherwise `reason` is "". *blank receives
 * whether the line has only white space; *root is then NULL. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__jsonl_object(const char *line, int64_t bytes, const char *wanted, json_t **root, bool *blank,
                                        char reason[ZR__REASON_BYTES]);

/** Find the text of a line. The text belongs to *root, which the caller frees with json_decref, also after an error
 * (*root may be NULL). If the line is bad, *text is NULL and `reason` says why; key_named is the key's name in this
 * message, and `forms` says which records are read (NULL for texts only). A line of only white space has the text "".
 * Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__jsonl_text(const char *line, int64_t bytes, const char *key, const char *key_named,
                                      const char *forms, json_t **root, const char **text, int64_t *text_bytes,
                                      char reason[ZR__REASON_BYTES]);

#endif
