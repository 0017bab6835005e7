/** Files of the user's cache that hold measurements of this machine: machine.c its rates, launch_file.c its steps. */
#ifndef ZR_TRAIN_MACHINE_H
#define ZR_TRAIN_MACHINE_H

#include "base/json/json.h"
#include "zr/base.h"

enum { ZR__MACHINE_KEY_BYTES = 448 };

/** Write the key of this machine's measurements, all that they depend on: processor, cores, kernels and versions; or a
 * GPU's name and zr's version. */
void zr__machine_key(const zr_device_facts *facts, char key[ZR__MACHINE_KEY_BYTES]);

/** Write a document, an object whose member "machine" is the key, to <prefix>-<hash of the key>.json, atomically, and
 * free it. NULL: no memory. Failures as zr__rates_remember. */
ZR_NODISCARD zr_status zr__machine_remember(const char *prefix, const char *key, json_t *root);

/** Append to *list; without memory it becomes NULL. */
void zr__machine_append(json_t **list, json_t *value);

/** A reader of a document; false: it is damaged. */
typedef bool (*zr__machine_read_fn)(void *arg, const json_t *root);
/** Read a document back. ZR_ERR_NOT_FOUND: no document; ZR_ERR_DATA: it is damaged, or another key's. */
ZR_NODISCARD zr_status zr__machine_recall(const char *prefix, const char *key, zr__machine_read_fn read, void *arg);

#endif
