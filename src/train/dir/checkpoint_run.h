/** The member "run" of a checkpoint's manifest: the run that wrote it, and all that a resumed run needs besides
 * tensors. */
#ifndef ZR_TRAIN_CHECKPOINT_RUN_H
#define ZR_TRAIN_CHECKPOINT_RUN_H

#include "train/control/control.h"
#include "zr/plan.h"

/** Fingerprint of a file of training or validation data. */
typedef struct zr__file_print {
    int64_t bytes; /* -1: no file */
    uint64_t hash; /* XXH3-64 of all bytes */
} zr__file_print;

#define ZR_TOKENIZER_BYTES 256
#define ZR_OPTIMIZER_BYTES 32

typedef struct zr__checkpoint_run {
    int64_t seed;
    int64_t updates; /* optimizer steps that changed weights */
    int64_t samples; /* samples of data.train consumed so far; the data go on after them */
    int64_t skipped, skipped_in_row;
    double loss;            /* loss of the last step; NaN: unknown, or not finite */
    zr__loss_scaler scaler; /* stored: scale; if dynamic, also step, last_overflow, hysteresis_left */
    zr__noise_scale noise;  /* steps 0: not measured */
    int64_t micro_batch_size, accumulation_steps; /* 0: zr__convert_dir wrote it, not a run */
    int ranks; /* 0: zr__convert_dir wrote it, not a run; its configuration has the model's keys only */
    char optimizer[ZR_OPTIMIZER_BYTES];
    zr__file_print train, val;
    char tokenizer[ZR_TOKENIZER_BYTES]; /* "": none, the data files hold tokens */
    char *config;                       /* the resolved configuration, JSON text; zr_free it */
} zr__checkpoint_run;

/** Return the struct as JSON text, zr_free it. `layout` is recorded for people: the layout of the run that wrote it. */
ZR_NODISCARD zr_status zr__checkpoint_run_print(const zr__checkpoint_run *run, const zr_layout *layout, char **json);

/** Read the struct back from the text; `where` names the text in messages. ZR_ERR_DATA names a member that is missing
 * or unusable. */
ZR_NODISCARD zr_status zr__checkpoint_run_read(const char *json, const char *where, zr__checkpoint_run *run);
void zr__checkpoint_run_clear(zr__checkpoint_run *run);

/** A callback for each key whose value differs: values as JSON, NULL where the key is missing. */
typedef zr_status (*zr__key_fn)(void *arg, const char *key, const char *was, const char *is);

/** Call fn for each key that differs between two resolved configurations, in the order of `now`. */
ZR_NODISCARD zr_status zr__checkpoint_config_differs(const char *then, const char *now, zr__key_fn fn, void *arg);

#endif
