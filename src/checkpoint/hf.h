/* Hugging Face directories: names of files, and the record of a directory that weights came from. hf_config.c reads and
 * writes config.json, hf_task.c the task in it, weights.c and weights_write.c handle the files of weights, and
 * hf_source.c the record. */
#ifndef ZR_CHECKPOINT_HF_H
#define ZR_CHECKPOINT_HF_H

#include "base/json/json.h"
#include "checkpoint/checkpoint.h"

/** Names of the weight files in a directory. If there are several files, they are model-00001-of-00003.safetensors and
 * so on, listed in the index. */
#define ZR_WEIGHTS_SINGLE "model.safetensors"
#define ZR_WEIGHTS_INDEX "model.safetensors.index.json"

struct zr__hf_source {
    json_t *keys; /* config.json, without ZR_HF_FILES_KEY */
    /* for each file of weights, an object with the type of each tensor, as in safetensors; empty if the files are
     * unknown */
    json_t *files;
};

/** Return whether a name stays inside the directory. An index must not refer to files elsewhere, such as /etc/passwd.
 */
bool zr__hf_stays_inside(const char *name);

/** Place of a tensor in the directory: its file, its name there and its type. */
typedef struct zr__hf_place {
    const char *file, *name;
    zr_dtype dtype;
} zr__hf_place;

/** Write the i-th spelling of a tensor's name to `out`: first the name itself, then the spellings that only some files
 * use (zr_hf_names.spelled). Return false after the last. */
bool zr__hf_spelling(const zr_hf_names *names, const char *tensor, int i, char out[ZR_FILE_NAME_BYTES]);

/** Function that looks a name up exactly as it is spelled. It returns whether the name was found. */
typedef bool (*zr__hf_look_fn)(void *arg, const char *name);
/** _as: look up a name with and without the family's prefix and, for a factor of LoRA, with the prefix of adapters.
 * _any: look up each spelling of a tensor's name in this way. Return whether `look` found it. */
bool zr__hf_look_as(const zr_hf_names *names, const char *name, zr__hf_look_fn look, void *arg);
bool zr__hf_look_any(const zr_hf_names *names, const char *tensor, zr__hf_look_fn look, void *arg);

/** Find a tensor of the model in any spelling. Return false if the source does not have it. */
bool zr__hf_source_find(const zr__hf_source *source, const zr_hf_names *names, const char *tensor, zr__hf_place *place);

/* ---- tasks and labels (hf_task.c) ----------------------------------------------------------------------------- */

/** Set the fields that mean "task" and "labels" from `architectures`, and from id2label or num_labels. Fail with
 * ZR_ERR_DATA, naming `file`, if the class of transformers is neither a task of the family nor one of its bodies. Do
 * nothing for a family with one task. */
ZR_NODISCARD zr_status zr__hf_read_task(const char *file, const json_t *root, const zr_family *family,
                                        zr_model_config *config);

/** Add id2label and label2id for a model with labels, unless `root` already names this number of labels. For a model of
 * another task, remove the keys of labels unless they name two labels, the default of transformers. Return nonzero on
 * failure. */
int zr__hf_write_labels(json_t *root, const zr_family *family, const zr_model_config *config);

#endif
