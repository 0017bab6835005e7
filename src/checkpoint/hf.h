/* What the parts of a Hugging Face directory share, and what the config.json of each family is read and written with.
 */
#ifndef ZR_CHECKPOINT_HF_H
#define ZR_CHECKPOINT_HF_H

#include "base/json.h"
#include "zr/checkpoint.h"

#include <stddef.h>

enum { ZR_HF_SHOWN_BYTES = 256 };

/** The names that the files of weights have in a directory. Of several: model-00001-of-00003.safetensors. */
#define ZR_WEIGHTS_SINGLE "model.safetensors"
#define ZR_WEIGHTS_INDEX "model.safetensors.index.json"
#define ZR_WEIGHTS_NAME_BYTES 64

/** dir/name, zr_free it. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__hf_path(const char *dir, const char *name, char **path);

/** A config.json that is being read. */
typedef struct zr__hf_config {
    char file[ZR_HF_SHOWN_BYTES]; /* printable */
    json_t *root;
} zr__hf_config;

/** Names, places and transformers' defaults of a family's numbers. */
typedef struct zr__hf_integer {
    const char *key;
    size_t place; /* of an int64_t; 1 to 2^31 - 1 */
    int64_t fallback;
} zr__hf_integer;

typedef struct zr__hf_real {
    const char *key;
    size_t place; /* of a double */
    double fallback;
    double low, high; /* low <= value < high */
} zr__hf_real;

typedef struct zr__hf_numbers {
    const zr__hf_integer *integer;
    const zr__hf_real *real;
    int integers, reals;
} zr__hf_numbers;

/** ZR_ERR_NOT_FOUND; ZR_ERR_DATA: it is no JSON. Close it after success. */
ZR_NODISCARD zr_status zr__hf_config_open(const char *dir, zr__hf_config *config);
void zr__hf_config_close(zr__hf_config *config);

/** Which of n families is it? ZR_ERR_DATA naming what it is and what was wanted. */
ZR_NODISCARD zr_status zr__hf_config_type(const zr__hf_config *config, const char *const *known, int n, int *which);

/** All numbers, to their places. ZR_ERR_DATA naming the first that is out of its range. */
ZR_NODISCARD zr_status zr__hf_config_numbers(const zr__hf_config *config, const zr__hf_numbers *numbers, void *out);

/** A boolean that zr knows in one state only; absent means that state. `model`: for the message, "GPT-2". */
ZR_NODISCARD zr_status zr__hf_config_bool(const zr__hf_config *config, const char *model, const char *key, bool wanted);

/** Text of a value for a message; returns `text`. */
const char *zr__hf_show(const json_t *value, char text[ZR_HF_SHOWN_BYTES]);

/** Add numbers to an object that will be written; not 0: no memory, or one is not finite. */
int zr__hf_set_integers(json_t *root, const zr__hf_numbers *numbers, const void *in);
int zr__hf_set_reals(json_t *root, const zr__hf_numbers *numbers, const void *in);

/** Write dir/config.json in as many digits as its reals need; an older one is replaced. */
ZR_NODISCARD zr_status zr__hf_config_write(const char *dir, const json_t *root, const zr__hf_numbers *numbers,
                                           const void *in);

#endif
