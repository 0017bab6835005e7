/** The member "run" of a checkpoint's manifest. It describes the run that wrote the checkpoint, and has everything
 * except tensors that a resumed run needs. */
#ifndef ZR_TRAIN_CHECKPOINT_RUN_H
#define ZR_TRAIN_CHECKPOINT_RUN_H

#include "train/control/control.h"
#include "zr/plan.h"

/** Fingerprint of a file of training or validation data. */
typedef struct zr__file_print {
    int64_t bytes; /* -1 if there is no file */
    uint64_t hash; /* XXH3-64 of all bytes */
} zr__file_print;

#define ZR_TOKENIZER_BYTES 256
#define ZR_OPTIMIZER_BYTES 32

typedef struct zr__checkpoint_run {
    int64_t seed;
    int64_t updates; /* number of training steps that updated the weights */
    int64_t samples; /* number of samples of data.train used so far; a resumed run continues with the next sample */
    int64_t skipped, skipped_in_row;
    double loss;            /* loss of the last step; NaN if unknown or not finite */
    zr__loss_scaler scaler; /* a checkpoint has `scale`; if dynamic, also `step`, `last_overflow`, `hysteresis_left` */
    zr__noise_scale noise;  /* noise.steps is 0 if the noise was not measured */
    int64_t micro_batch_size, accumulation_steps; /* 0 in a checkpoint that zr__convert_dir wrote */
    int ranks; /* 0 in a checkpoint that zr__convert_dir wrote; `config` then has only the model's keys */
    char optimizer[ZR_OPTIMIZER_BYTES];
    zr__file_print train, val;
    char tokenizer[ZR_TOKENIZER_BYTES]; /* "" if the data files hold tokens and no tokenizer is needed */
    char *config;                       /* the resolved configuration as JSON text; zr_free it */
} zr__checkpoint_run;

/** Return the struct as JSON text; zr_free it. `layout` is the layout of the run that writes the checkpoint. The JSON
 * includes it for people only. */
ZR_NODISCARD zr_status zr__checkpoint_run_print(const zr__checkpoint_run *run, const zr_layout *layout, char **json);

/** Read the struct from JSON text. `where` names the text in error messages. Fail with ZR_ERR_DATA, naming the member,
 * if a member is missing or unusable. */
ZR_NODISCARD zr_status zr__checkpoint_run_read(const char *json, const char *where, zr__checkpoint_run *run);
void zr__checkpoint_run_clear(zr__checkpoint_run *run);

/** Callback for a key whose value differs between two configurations. `was` and `is` are its old and new value as JSON,
 * or NULL if a configuration lacks the key. */
typedef zr_status (*zr__key_fn)(void *arg, const char *key, const char *was, const char *is);

/** Call fn for each key whose value differs between the resolved configurations `then` and `now`: first for the keys of
 * `now` in their order, then for the keys that only `then` has. */
ZR_NODISCARD zr_status zr__checkpoint_config_differs(const char *then, const char *now, zr__key_fn fn, void *arg);

#endif
