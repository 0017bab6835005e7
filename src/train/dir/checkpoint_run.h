/** The record "run" in a checkpoint's manifest, which describes the run that wrote the checkpoint. The record has
 * everything that a resumed run needs, except the tensors. */
#ifndef ZR_TRAIN_CHECKPOINT_RUN_H
#define ZR_TRAIN_CHECKPOINT_RUN_H

#include "train/control/control.h"
#include "zr/plan.h"

/** Size and hash of the training or validation data, or of the base of adapters, to detect that they have changed. */
typedef struct zr__file_print {
    int64_t bytes; /* size in bytes; -1 if the run has no files of this kind */
    uint64_t hash; /* XXH3-64 hash of all bytes */
} zr__file_print;

/** The prints of the data, and of the weights of model.init if checkpoints have only adapters. */
typedef struct zr__input_prints {
    zr__file_print train, val, base;
} zr__input_prints;

#define ZR_TOKENIZER_BYTES 256
#define ZR_OPTIMIZER_BYTES 32

typedef struct zr__checkpoint_run {
    int64_t seed;
    int64_t updates; /* number of training steps that updated the weights */
    int64_t samples; /* number of samples of data.train used so far; a resumed run begins with the next sample */
    int64_t skipped, skipped_in_row;
    double loss; /* loss of the last step; NaN if unknown or not finite */
    /* loss scaler; the JSON has `scale` and, if the scale is dynamic, `step`, `last_overflow` and `hysteresis_left` */
    zr__loss_scaler scaler;
    zr__early_stop early; /* evaluations before the checkpoint, which may be written before its own step is evaluated */
    zr__noise_scale noise; /* averages for the gradient noise scale; noise.steps is 0 if the noise was not measured */
    /* samples per micro-batch, and micro-batches per step; both 0 in a checkpoint that zr__convert_dir wrote */
    int64_t micro_batch_size, accumulation_steps;
    /* number of ranks; 0 in a checkpoint that zr__convert_dir wrote, whose `config` has only the model's keys */
    int ranks;
    /* if gradients are quantised: number of ranks that sum them, and of those of a first level (a host), or 0 for one
     * level. Values depend on both. 0 and 0 for other runs */
    int summing_ranks, near_ranks;
    bool quantised[2]; /* whether weights and gradients are quantised; false in a checkpoint of zr__convert_dir */
    char optimizer[ZR_OPTIMIZER_BYTES];
    zr__input_prints prints;
    /* name or path of the tokenizer; "" if the data files contain tokens and need no tokenizer */
    char tokenizer[ZR_TOKENIZER_BYTES];
    char *config; /* the resolved configuration as JSON text; zr_free it */
} zr__checkpoint_run;

/** Set run->summing_ranks and near_ranks to those of a layout. */
void zr__checkpoint_run_sums(zr__checkpoint_run *run, const zr_layout *layout);

/** Return the record as JSON text; zr_free it. `layout` is the layout of the run that writes the checkpoint. The JSON
 * includes the layout only for human readers. */
ZR_NODISCARD zr_status zr__checkpoint_run_print(const zr__checkpoint_run *run, const zr_layout *layout, char **json);

/** Read the record from JSON text. `where` names the text in error messages. Fail with ZR_ERR_DATA, naming the member,
 * if a member is missing or unusable. Call zr__checkpoint_run_clear even after a failure. */
ZR_NODISCARD zr_status zr__checkpoint_run_read(const char *json, const char *where, zr__checkpoint_run *run);
void zr__checkpoint_run_clear(zr__checkpoint_run *run);

/** Callback for a key whose value differs between two configurations. `was` is the old value and `is` the new value,
 * both as JSON. A value is NULL if its configuration lacks the key. */
typedef zr_status (*zr__key_fn)(void *arg, const char *key, const char *was, const char *is);

/** Call `fn` for each key whose value differs between two resolved configurations. First come the keys of `now`, in
 * their order, then the keys that only `then` has. */
ZR_NODISCARD zr_status zr__checkpoint_config_differs(const char *then, const char *now, zr__key_fn fn, void *arg);

#endif
