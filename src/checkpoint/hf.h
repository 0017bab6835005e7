/* Hugging Face directories: names of files, and reading and writing the config.json of every family. hf_config.c has
 * the common part, hf_<name>.c a family's; weights.c and weights_write.c are the files of weights. */
#ifndef ZR_CHECKPOINT_HF_H
#define ZR_CHECKPOINT_HF_H

#include "base/json/json.h"
#include "zr/checkpoint.h"

#include <stddef.h>

enum { ZR_HF_SHOWN_BYTES = 256 };

/** Names of the files of weights in a directory. If there are several: model-00001-of-00003.safetensors ... */
#define ZR_WEIGHTS_SINGLE "model.safetensors"
#define ZR_WEIGHTS_INDEX "model.safetensors.index.json"
#define ZR_WEIGHTS_NAME_BYTES 64

/** A config.json being read. */
typedef struct zr__hf_config {
    char file[ZR_HF_SHOWN_BYTES]; /* printable */
    json_t *root;
} zr__hf_config;

/** A number of a family's config.json: its key, its offset in the family's struct and transformers' default. */
typedef struct zr__hf_integer {
    const char *key;
    size_t place; /* offset of an int64_t; values 1 to 2^31 - 1 */
    int64_t fallback;
} zr__hf_integer;

typedef struct zr__hf_real {
    const char *key;
    size_t place; /* offset of a double */
    double fallback;
    double low, high; /* low <= value < high */
} zr__hf_real;

typedef struct zr__hf_numbers {
    const zr__hf_integer *integer;
    const zr__hf_real *real;
    int integers, reals;
} zr__hf_numbers;

/** Open dir/config.json. ZR_ERR_NOT_FOUND; ZR_ERR_DATA: it is no JSON. Close it after success. */
ZR_NODISCARD zr_status zr__hf_config_open(const char *dir, zr__hf_config *config);
void zr__hf_config_close(zr__hf_config *config);

/** Find which of n families the file has. ZR_ERR_DATA naming its family and the known ones. */
ZR_NODISCARD zr_status zr__hf_config_type(const zr__hf_config *config, const char *const *known, int n, int *which);

/** Read all numbers into their fields. ZR_ERR_DATA naming the first that is out of range. */
ZR_NODISCARD zr_status zr__hf_config_numbers(const zr__hf_config *config, const zr__hf_numbers *numbers, void *out);

/** Check a boolean that zr supports in one state only; a missing one has that state. `model`: name for the message,
 * "GPT-2". */
ZR_NODISCARD zr_status zr__hf_config_bool(const zr__hf_config *config, const char *model, const char *key, bool wanted);

/** Add numbers to an object that will be written; not 0: no memory, or a number is not finite. */
int zr__hf_set_integers(json_t *root, const zr__hf_numbers *numbers, const void *in);
int zr__hf_set_reals(json_t *root, const zr__hf_numbers *numbers, const void *in);

/** Write dir/config.json with the digits that its reals need; an older file is replaced. */
ZR_NODISCARD zr_status zr__hf_config_write(const char *dir, const json_t *root, const zr__hf_numbers *numbers,
                                           const void *in);

#endif
