/* Hugging Face directories: names of files, and the record of a directory that weights came from. hf_config.c reads and
 * writes config.json, weights.c and weights_write.c handle the files of weights, and hf_source.c the record. */
#ifndef ZR_CHECKPOINT_HF_H
#define ZR_CHECKPOINT_HF_H

#include "base/json/json.h"
#include "checkpoint/checkpoint.h"

/** Names of the weight files in a directory. If there are several files, they are model-00001-of-00003.safetensors and
 * so on, listed in the index. */
#define ZR_WEIGHTS_SINGLE "model.safetensors"
#define ZR_WEIGHTS_INDEX "model.safetensors.index.json"

struct zr__hf_source {
    json_t *keys;  /* config.json, without ZR_HF_FILES_KEY */
    json_t *files; /* for each file of weights, an object with the type of each tensor, as in safetensors; empty if the
                      files are unknown */
};

/** Return whether a name stays inside the directory. An index must not refer to files elsewhere, such as /etc/passwd.
 */
bool zr__hf_stays_inside(const char *name);

/** Place of a tensor in the directory: its file, its name there and its type. */
typedef struct zr__hf_place {
    const char *file, *name;
    zr_dtype dtype;
} zr__hf_place;

/** Write the i-th spelling of a tensor's name to `out`: the name itself, then those that some files have
 * (zr_hf_names.spelled). Return false after the last. */
bool zr__hf_spelling(const zr_hf_names *names, const char *tensor, int i, char out[ZR_FILE_NAME_BYTES]);

/** Find a tensor of the model in any spelling, with and without the family's prefix. Return false if the source does
 * not have it. */
bool zr__hf_source_find(const zr__hf_source *source, const zr_hf_names *names, const char *tensor, zr__hf_place *place);

#endif
