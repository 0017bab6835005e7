/**
 * config: what train and cli need beside zr/config.h: which keys were given and by whom, choices that are left open,
 * and notes for the user.
 *
 * A configuration is changed in this order: read.c loads it (read_stages); callers ask for open choices, a recipe or a
 * batch that stays (the functions "between loading and resolving" below) and give sizes (zr__config_set_sizes);
 * resolve.c settles the rest (zr_config_resolve); zr__train_choose makes the open choices; a run may still settle
 * memory.limit.
 */
#ifndef ZR_CONFIG_CONFIG_H
#define ZR_CONFIG_CONFIG_H

#include "zr/config.h"

/** Return whether the configuration was read from a file, which is then the first of zr__config_inputs. */
bool zr__config_from_file(const zr_config *config);

#define ZR_CONFIG_INPUTS 5
/** List the paths that a run with this configuration reads, up to a NULL: its own file, data.train, data.val,
 *  model.init (a directory). Borrowed. */
void zr__config_inputs(const zr_config *config, const char *path[ZR_CONFIG_INPUTS + 1]);

/** Return whether the user gave this key ("train.output_dir"), in the file or by an override; "auto" does not count.
 * That stays so when values are settled: memory.limit that a run finds, a resolved batch or a chosen stage is written
 * into its field alone, and the key is still not given. Only zr_config_set makes a key given, as an override would. */
bool zr__config_given(const zr_config *config, const char *key);

/** Return whether an override, and not the file, gave this key. */
bool zr__config_overridden(const zr_config *config, const char *key);

/** Choices that are left open, to be made so that memory.limit holds (zr__train_choose). */
typedef struct zr__config_open {
    bool stage;  /* zero_optimization.stage; until then 0 */
    bool policy; /* activation_checkpointing.policy; until then none */
    bool split;  /* split of a given train_batch_size into micro-batches; until then one micro-batch */
    bool batch;  /* train_micro_batch_size_per_gpu, and with it train_batch_size; until then one sample */
} zr__config_open;

/** Leave open all choices of zr__config_open that are not given, as `--memory` asks. Called between loading and
 *  resolving. */
void zr__config_leave_open(zr_config *config);

/** Have a model.preset train by a recipe for its size, where neither the file nor an override gives a key of optimizer
 *  or scheduler: AdamW with betas 0.9 and 0.95 and weight decay 0.1; lr as the model of nearest size in table 2.1 of
 *  Brown et al. 2020; a warm-up over a twentieth of train.steps, then a cosine down to a tenth; gradient_clipping 1
 *  where that is not given. zr_config_resolve fills it in, with a note; zr_config_to_json then has it. Between loading
 *  and resolving. */
void zr__config_take_recipe(zr_config *config);

/** Keep train_batch_size when a run is resumed: for a run's file that has all of the batch triple where the triple does
 *  not fit the present ranks. The other two stay where an override gives them; else the micro-batch stays, or the
 *  largest divisor of it that divides the samples of a rank, and the rest follows. Called between loading and
 *  resolving. */
void zr__config_go_on(zr_config *config);

/** Return the open choices: none without a given memory.limit. `split` is open also without zr__config_leave_open where
 *  train_batch_size is given and the two others of the batch triple are the literal "auto", as is
 *  activation_checkpointing.policy. */
zr__config_open zr__config_get_open(const zr_config *config);

/** Return whether any choice is open. */
bool zr__config_is_open(const zr_config *config);

/** Fill the sizes from `origin` ("preset gpt2-124m", a directory). A size of the file that differs is an
 *  error (CONFIG). */
ZR_NODISCARD zr_status zr__config_set_sizes(zr_config *config, const zr_config_sizes *sizes, const char *origin);

/** Hash the JSON of zr_config_to_json and the library's version (XXH3-64): equal on ranks with equal configurations. */
ZR_NODISCARD zr_status zr__config_hash(const zr_config *config, uint64_t *hash);

/** Add a notice, unless it is there already. */
ZR_NODISCARD zr_status zr__config_add_note(zr_config *config, const char *text);

#endif
