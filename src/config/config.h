/**
 * config: functions that train and cli need besides zr/config.h. They tell which keys were given and by whom, leave
 * choices open, and add notes for the user.
 *
 * A configuration changes in this order. read.c loads it (read_stages). Callers request open choices, a recipe or a
 * fixed batch with the functions that are to be called between loading and resolving, and give sizes
 * (zr__config_set_sizes). resolve.c sets the remaining values (zr_config_resolve). zr__train_choose makes the open
 * choices. A run may still set memory.limit.
 */
#ifndef ZR_CONFIG_CONFIG_H
#define ZR_CONFIG_CONFIG_H

#include "zr/config.h"

/** Return whether the configuration was read from a file. The file is then the first path of zr__config_inputs. */
bool zr__config_from_file(const zr_config *config);

#define ZR_CONFIG_INPUTS 5
/** List the paths that a run with this configuration reads, followed by NULL: its own file, data.train, data.val, and
 * the directories model.init and data.tokenizer. The paths are borrowed. */
void zr__config_inputs(const zr_config *config, const char *path[ZR_CONFIG_INPUTS + 1]);

/** Return whether the user gave a key such as "train.output_dir" in the file or by an override. "auto" does not count.
 * Resolving does not change the result: a memory.limit that a run finds, a resolved batch or a chosen stage is written
 * only into its field. Only zr_config_set, like an override, makes a key given. */
bool zr__config_given(const zr_config *config, const char *key);

/** Return whether an override gave this key, not the file. */
bool zr__config_overridden(const zr_config *config, const char *key);

/** Choices that are left open. zr__train_choose makes them so that memory.limit holds. */
typedef struct zr__config_open {
    bool stage;  /* zero_optimization.stage is open; it is 0 until chosen */
    bool policy; /* activation_checkpointing.policy is open; it is "none" until chosen */
    bool split;  /* the split of a given train_batch_size into micro-batches is open; one micro-batch until chosen */
    bool batch;  /* train_micro_batch_size_per_gpu is open, and so is train_batch_size; one sample until chosen */
} zr__config_open;

/** Leave open all choices of zr__config_open that are not given, as `--memory` requests. Call this between loading and
 * resolving. */
void zr__config_leave_open(zr_config *config);

/** Train a model.preset by a recipe for its size, if neither the file nor an override gives a key of optimizer or
 * scheduler. The recipe: AdamW with betas 0.9 and 0.95 and weight decay 0.1; the lr of the model of nearest size in
 * table 2.1 of Brown et al. 2020; a warm-up over a twentieth of train.steps, then a cosine down to a tenth;
 * gradient_clipping 1 if it is not given. zr_config_resolve fills the recipe in and adds a note; zr_config_to_json then
 * includes it. Call this between loading and resolving. */
void zr__config_take_recipe(zr_config *config);

/** Keep train_batch_size when a run is resumed. This matters if the run's file gives the whole batch triple and the
 * triple does not fit the present number of ranks. The other two values are kept if an override gives them. Otherwise
 * the micro-batch is kept, or replaced by its largest divisor that divides the samples of a rank, and the last value
 * follows. Call this between loading and resolving. */
void zr__config_go_on(zr_config *config);

/** Return the open choices. No choice is open without a given memory.limit. Even without zr__config_leave_open, `split`
 * is open if train_batch_size is given and the other two values of the batch triple, and
 * activation_checkpointing.policy, are the literal "auto". */
zr__config_open zr__config_get_open(const zr_config *config);

/** Return whether any choice is open. */
bool zr__config_is_open(const zr_config *config);

/** Fill in the sizes of the model. `origin` names their source in messages ("preset gpt2-124m", or a directory). Return
 * ZR_ERR_CONFIG if the file gives a different size. */
ZR_NODISCARD zr_status zr__config_set_sizes(zr_config *config, const zr_config_sizes *sizes, const char *origin);

/** Hash the JSON of zr_config_to_json and the library's version (XXH3-64). Ranks with equal configurations get equal
 * hashes. */
ZR_NODISCARD zr_status zr__config_hash(const zr_config *config, uint64_t *hash);

/** Add a note, unless the same note exists. */
ZR_NODISCARD zr_status zr__config_add_note(zr_config *config, const char *text);

#endif
