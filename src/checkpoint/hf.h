/* Hugging Face directories: file names, and reading and writing config.json for every family of models. hf_config.c has
 * the code that all families share, and hf_<name>.c has the code of one family. weights.c and weights_write.c handle
 * the files of weights. */
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
    size_t place; /* offset of an int64_t field; its value must be in 1 to 2^31 - 1 */
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

/** Open dir/config.json. After success, call zr__hf_config_close. Errors: ZR_ERR_NOT_FOUND; ZR_ERR_DATA if the file is
 * not JSON. */
ZR_NODISCARD zr_status zr__hf_config_open(const char *dir, zr__hf_config *config);
void zr__hf_config_close(zr__hf_config *config);

/** Set *which to the index of the file's family in `known`, a list of n families. If the family is not in the list,
 * fail with ZR_ERR_DATA; the message names the family and the list. */
ZR_NODISCARD zr_status zr__hf_config_type(const zr__hf_config *config, const char *const *known, int n, int *which);

/** Read all numbers into their fields of the struct `out`. Fail with ZR_ERR_DATA naming the first number out of
 * range. */
ZR_NODISCARD zr_status zr__hf_config_numbers(const zr__hf_config *config, const zr__hf_numbers *numbers, void *out);

/** Check a boolean for which zr supports only the value `wanted`. A missing key counts as `wanted`. `model` is the
 * model's name for messages, such as "GPT-2". */
ZR_NODISCARD zr_status zr__hf_config_bool(const zr__hf_config *config, const char *model, const char *key, bool wanted);

/** Add numbers to a JSON object that will be written. Return nonzero if memory is short or a number is not finite. */
int zr__hf_set_integers(json_t *root, const zr__hf_numbers *numbers, const void *in);
int zr__hf_set_reals(json_t *root, const zr__hf_numbers *numbers, const void *in);

/** Write dir/config.json, replacing an older file. Real numbers get enough digits to read back as the same number. */
ZR_NODISCARD zr_status zr__hf_config_write(const char *dir, const json_t *root, const zr__hf_numbers *numbers,
                                           const void *in);

#endif
