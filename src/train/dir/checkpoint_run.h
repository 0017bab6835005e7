/** "run" of a checkpoint's manifest: what a run needs to go on, beside the tensors, and the run that wrote it. */
#ifndef ZR_TRAIN_CHECKPOINT_RUN_H
#define ZR_TRAIN_CHECKPOINT_RUN_H

#include "zr/train.h"

/** A file that is trained or evaluated on. */
typedef struct zr__file_print {
    int64_t bytes; /* -1: there is none */
    uint64_t hash; /* XXH3-64 of all of them */
} zr__file_print;

#define ZR_TOKENIZER_BYTES 256
#define ZR_OPTIMIZER_BYTES 32

typedef struct zr__checkpoint_run {
    int64_t seed;
    int64_t updates; /* optimizer steps that changed weights */
    int64_t samples; /* of data.train that were consumed: where in the data it goes on */
    int64_t skipped, skipped_in_row;
    double loss;                                  /* of the last step, NaN: none, or not finite */
    zr_loss_scaler scaler;                        /* of a dynamic one: scale, step, last_overflow, hysteresis_left */
    zr_noise_scale noise;                         /* steps 0: none was measured */
    int64_t micro_batch_size, accumulation_steps; /* 0: no run wrote it */
    int ranks; /* 0: no run wrote it, but zr_convert; of the configuration it knows the model alone */
    char optimizer[ZR_OPTIMIZER_BYTES];
    zr__file_print train, val;
    char tokenizer[ZR_TOKENIZER_BYTES]; /* "": none, the data are tokens */
    char *config;                       /* the resolved configuration, JSON text; zr_free it */
} zr__checkpoint_run;

/** As JSON text, zr_free it. `layout` is what wrote it, for people. */
ZR_NODISCARD zr_status zr__checkpoint_run_print(const zr__checkpoint_run *run, const zr_layout *layout, char **json);

/** Back from the text; `where` stands for it in messages. ZR_ERR_DATA naming a member that is missing or of no use. */
ZR_NODISCARD zr_status zr__checkpoint_run_read(const char *json, const char *where, zr__checkpoint_run *run);
void zr__checkpoint_run_clear(zr__checkpoint_run *run);

/** Told of each key that is not as it was: values as JSON, NULL where the key is not there. */
typedef zr_status (*zr__key_fn)(void *arg, const char *key, const char *was, const char *is);

/** Call fn for each key that differs between two resolved configurations, in the order of `now`. */
ZR_NODISCARD zr_status zr__checkpoint_config_differs(const char *then, const char *now, zr__key_fn fn, void *arg);

#endif
