/** Files in the user's cache with measurements of this machine. machine.c stores the machine's rates. train/launch
 * stores measured training steps. */
#ifndef ZR_TRAIN_MACHINE_H
#define ZR_TRAIN_MACHINE_H

#include "base/json/json.h"

enum { ZR__MACHINE_KEY_BYTES = 448 };

/** Write the key of this machine's measurements to `key`. The key is a text with all facts on which the measurements
 * depend: processor, cores, kernels and versions, or a GPU's name and zr's version. */
void zr__machine_key(const zr_device_facts *facts, char key[ZR__MACHINE_KEY_BYTES]);

/** Write the document `root` to the file <prefix>-<hash of the key>.json, atomically, and free `root`. The member
 * "machine" of `root` is the key. If `root` is NULL, fail with ZR_ERR_MEMORY. Other errors are the same as in
 * zr__rates_remember. */
ZR_NODISCARD zr_status zr__machine_remember(const char *prefix, const char *key, json_t *root);

/** Append a value to *list. If memory runs out, free the list and set *list to NULL. */
void zr__machine_append(json_t **list, json_t *value);

/** Function that reads a document. Returns false if the document is damaged. */
typedef bool (*zr__machine_read_fn)(void *arg, const json_t *root);
/** Find the document of a key and pass it to `read`. Fail with ZR_ERR_NOT_FOUND if there is no document, or with
 * ZR_ERR_DATA if the document is damaged or has a different key. */
ZR_NODISCARD zr_status zr__machine_recall(const char *prefix, const char *key, zr__machine_read_fn read, void *arg);

#endif
