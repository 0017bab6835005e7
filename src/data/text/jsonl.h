/** Reads the object of a record. */
#ifndef ZR_DATA_JSONL_H
#define ZR_DATA_JSONL_H

#include "base/json/json.h"
#include "data/files/table.h"

#define ZR__REASON_BYTES 512

/** List the names of an object's members for a message, such as "\"prompt\", \"answer\"", or "no members". Return
 * `out`. */
const char *zr__jsonl_members(const json_t *object, char *out, size_t size);

/** Read the object of a record, a JSON text or a row of the table (one without columns for JSON). The caller frees it
 * with json_decref, also after an error. If the record is bad, `reason` says why, otherwise it is "". If it has only
 * white space, *root is NULL. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__jsonl_object(const zr__table *table, const char *record, int64_t bytes, json_t **root,
                                        char reason[ZR__REASON_BYTES]);

#endif
