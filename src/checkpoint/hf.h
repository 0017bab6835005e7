/* Hugging Face directories: file names, and reading and writing the config.json of every family of models. hf_config.c
 * has the common part, hf_<name>.c that of one family; weights.c and weights_write.c handle the files of weights. */
#ifndef ZR_CHECKPOINT_HF_H
#define ZR_CHECKPOINT_HF_H

#include "base/json/json.h"
#include "zr/checkpoint.h"

#include <stddef.h>

enum { ZR_HF_SHOWN_BYTES = 256 };

/** Names of the weight files in a directory. If there are several files, they are model-00001-of-00003.safetensors and
 * so on, listed in the index. */
#define ZR_WEIGHTS_SINGLE "model.safetensors"
#define ZR_WEIGHTS_INDEX "model.safetensors.index.json"
#define ZR_WEIGHTS_NAME_BYTES 64

/** An open config.json. */
typedef struct zr__hf_config {
    char file[ZR_HF_SHOWN_BYTES]; /* printable path, for messages */
    json_t *root;
} zr__hf_config;

/** An integer in a family's config.json: its key, its offset in the family's struct and its default in transformers. */
typedef struct zr__hf_integer {
    const char *key;
    size_t place; /* offset of an int64_t field, whose value must be in 1 to 2^31 - 1 */
    int64_t fallback;
} zr__hf_integer;

typedef struct zr__hf_real {
    const char *key;
    size_t place; /* offset of a double field */
    double fallback;
    double low, high; /* allowed range: low <= value < high */
} zr__hf_real;

typedef struct zr__hf_numbers {
    const zr__hf_integer *integer;
    const zr__hf_real *real;
    int integers, reals;
} zr__hf_numbers;

/** Open dir/config.json; close it after success. Errors: ZR_ERR_NOT_FOUND; ZR_ERR_DATA if it is not JSON. */
ZR_NODISCARD zr_status zr__hf_config_open(const char *dir, zr__hf_config *config);
void zr__hf_config_close(zr__hf_config *config);

/** Find which of n known families the file has. Fail with ZR_ERR_DATA naming its family and the known ones. */
ZR_NODISCARD zr_status zr__hf_config_type(const zr__hf_config *config, const char *const *known, int n, int *which);

/** Read all numbers into their fields of the struct `out`. Fail with ZR_ERR_DATA naming the first number out of
 * range. */
ZR_NODISCARD zr_status zr__hf_config_numbers(const zr__hf_config *config, const zr__hf_numbers *numbers, void *out);

/** Check a boolean for which zr supports only the value `wanted`; a missing key counts as `wanted`. `model` is the name
 * for messages, such as "GPT-2". */
ZR_NODISCARD zr_status zr__hf_config_bool(const zr__hf_config *config, const char *model, const char *key, bool wanted);

/** Add numbers to an object that will be written. Return nonzero if memory is short or a number is not finite. */
int zr__hf_set_integers(json_t *root, const zr__hf_numbers *numbers, const void *in);
int zr__hf_set_reals(json_t *root, const zr__hf_numbers *numbers, const void *in);

/** Write dir/config.json, with enough digits for all its real numbers, and replace an older file. */
ZR_NODISCARD zr_status zr__hf_config_write(const char *dir, const json_t *root, const zr__hf_numbers *numbers,
                                           const void *in);

#endif
