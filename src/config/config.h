/**
 * config: functions that train and cli need besides zr/config.h. They tell which keys were given and where, leave
 * choices to the planner, and add notes for the user.
 *
 * A configuration changes in this order. read.c loads it (read_stages). Callers may then leave choices open, ask for a
 * recipe or a fixed batch, and take the model's settings from elsewhere (zr__config_adopt). resolve.c sets the
 * remaining values (zr_config_resolve). zr__train_choose makes the open choices. A run may still set memory.limit.
 */
#ifndef ZR_CONFIG_CONFIG_H
#define ZR_CONFIG_CONFIG_H

#include "zr/config.h"

/** Return the share of data.train that data.val holds out, or 0 if data.val is missing or names files. */
double zr__config_val_share(const zr_config *config);

/** Return whether the configuration was read from a file. If so, the file is the first path of zr__config_inputs. */
bool zr__config_from_file(const zr_config *config);

#define ZR_CONFIG_INPUTS 6
/** List the paths that a run with this configuration reads, followed by NULL: the configuration's own file, data.train,
 * data.val, and the directories model.init and data.tokenizer. The paths are borrowed. */
void zr__config_inputs(const zr_config *config, const char *path[ZR_CONFIG_INPUTS + 1]);

/** Return whether the user gave a key such as "train.output_dir", in the file or by an override, with a value other
 * than "auto". Resolving does not change the result: values that a run finds or chooses (memory.limit, a batch, a
 * stage) are written only into the fields. zr_config_set makes a key given, as an override does. */
bool zr__config_given(const zr_config *config, const char *key);

/** Return whether the value of this key was given by an override and not by the file. */
bool zr__config_overridden(const zr_config *config, const char *key);

/** Choices that the configuration leaves open. zr__train_choose makes them so that the run stays within
 * memory.limit. */
typedef struct zr__config_open {
    bool stage;  /* whether zero_optimization.stage is open; until it is chosen, its value is 0 */
    bool policy; /* whether activation_checkpointing.policy is open; until it is chosen, its value is "none" */
    /* whether the split of train_batch_size into micro-batches is open; until it is chosen, each rank's samples form
     * one micro-batch */
    bool split;
    /* whether train_micro_batch_size_per_gpu and train_batch_size are open; until they are chosen, a micro-batch has
     * one sample */
    bool batch;
    /* `host`: whether an offload to the host's memory is open. `offload`: whether an offload to disk is open. Until one
     * is chosen, nothing is offloaded. With `host`, smaller buckets and less overlap are open too, if nothing fits
     * without them. */
    bool host, offload;
    /* Whether the shares of an offload are open (ratio "auto"); until they are chosen, they are 1. */
    bool optim_ratio, param_ratio;
    /* whether zero_quantized_weights and zero_quantized_gradients are open ("auto"); until they are chosen, nothing is
     * quantised */
    bool weights, gradients;
    bool order; /* whether train.accumulation_order is open ("auto"); until it is chosen, its value is "micro" */
} zr__config_open;

/** Leave open every choice of zr__config_open whose key is not given, as the option `--memory` requests. Call this
 * between loading and resolving. */
void zr__config_leave_open(zr_config *config);

/** Leave the offload to disk open, unless a device of offload is given, as the option `--disk` requests. A rank may use
 * `bytes` bytes on disk. Call this between loading and resolving. */
void zr__config_offer_disk(zr_config *config, int64_t bytes);
/** Return the bytes of zr__config_offer_disk, or 0 if it was not called. */
int64_t zr__config_disk_bytes(const zr_config *config);

/** Use a recipe for the keys of optimizer, scheduler and gradient_clipping that are not given: with model.preset the
 * recipe for its size, with model.init the recipe for fine-tuning. A section to which the file gives a type stays as
 * written. If the file gives an optimizer with a type and no scheduler, the run has no scheduler. Values "auto" always
 * come from the recipe. The recipe is AdamW with betas 0.9 and 0.95, weight decay 0.1 and gradient_clipping 1. The lr
 * of a preset is zr_preset.lr, or the lr of the model with the nearest size in table 2.1 of Brown et al. 2020. The lr
 * of fine-tuning is 2e-5. A linear warm-up over a twentieth of train.steps, counted from 1, is followed by a cosine
 * down to a tenth of the lr. zr_config_resolve sets these values and adds a note that lists them; zr_config_to_json
 * then includes them. Call this between loading and resolving. */
void zr__config_take_recipe(zr_config *config);

/** Copy from `run`, the configuration of a resumed run, the keys of optimizer, scheduler and gradient_clipping that are
 * not given. Sections that the file writes with a type do not change. Call this between loading and resolving. */
ZR_NODISCARD zr_status zr__config_keep_rule(zr_config *config, const zr_config *run);

/** Keep train_batch_size when a run is resumed. This matters if the run's file gives all three keys of the batch
 * triple, and they do not fit the current number of ranks. If an override gives train_micro_batch_size_per_gpu or
 * gradient_accumulation_steps, that value is kept too. Otherwise the micro-batch is kept, or reduced to its largest
 * divisor that divides the samples of a rank. The third key is computed from the other two. Call this between loading
 * and resolving. */
void zr__config_go_on(zr_config *config);

/** Return the open choices. Members before optim_ratio can be open only if memory.limit is given. Even without
 * zr__config_leave_open, `split` is open if train_batch_size is given and three keys are "auto":
 * train_micro_batch_size_per_gpu, gradient_accumulation_steps and activation_checkpointing.policy. `offload` is open if
 * no device of offload is given, and either zr__config_offer_disk was called, or nvme_path is given with
 * zr__config_leave_open or with offload_optimizer.device "auto". */
zr__config_open zr__config_get_open(const zr_config *config);

/** Return whether any choice is open. */
bool zr__config_is_open(const zr_config *config);

/** Take the settings of the model from a preset or a directory, except keys that are given, and except the dropout of a
 * preset. `settings` is the struct of the configuration's family. `origin` names their source in messages: "preset
 * gpt2-124m", or a directory. Return ZR_ERR_CONFIG if the file gives a different value for a setting on which shapes
 * depend. */
ZR_NODISCARD zr_status zr__config_adopt(zr_config *config, const zr_model_config *settings, const char *origin);

/** Return whether a key gives a dropout probability: its own key, or the key for all dropouts of the family
 * (model.dropout of GPT-2). */
bool zr__config_gives_dropout(const zr_config *config, const zr_field *field);

/** Return the key of the model with this meaning (zr_field.means), such as "model.n_embd" for "width". */
const char *zr__config_key_of(const zr_config *config, const char *means);

/** Return the samples on which the model is trained, which its task determines. */
zr_samples zr__config_samples(const zr_config *config);
/** Return whether samples have labels, of texts or of words. */
static inline bool zr__samples_have_labels(zr_samples kind)
{
    return kind == ZR_SAMPLES_LABELS || kind == ZR_SAMPLES_TAGS;
}
/** Return whether samples have masked tokens, which zr_pairs_open makes. */
static inline bool zr__samples_are_masked(zr_samples kind)
{
    return kind == ZR_SAMPLES_PAIRS || kind == ZR_SAMPLES_MASKED;
}

/** Maximum number of stages of parallel.pipeline_units. It equals ZR_ROLES * ZR_CHUNKS of zr/layout.h, which this layer
 * cannot include. */
enum { ZR_CONFIG_UNITS = 4032 };
/** Read a value of parallel.pipeline_units into `units`, which has room for ZR_CONFIG_UNITS numbers. Return their
 * number, 0 for "auto", or -1 if the text has another form. */
int zr__config_units(const char *text, int32_t *units);
/** Return the key of zr that an option of Megatron-LM or torchtitan corresponds to, with what to write, or NULL. `path`
 * is the option's name without dashes before it, which may stand in sections. */
const char *zr__config_instead(const char *path);

enum { ZR__FOREIGN_BYTES = 128 };
/** Return the first key of the data or of a task that is not at its default and has no effect on any kind of samples in
 * the set `samples` (bit i: zr_samples i), or NULL. `why` receives the reason. */
const char *zr__config_foreign_key(const zr_config *config, unsigned samples, char why[ZR__FOREIGN_BYTES]);

struct json_t;
/** Return a JSON object with the keys whose values differ between two configurations. Members are named by the keys'
 * paths and have the values of `to`. train_batch_size is left out, since it follows from other keys. Keys of the list
 * `shown`, which ends with NULL, are members even if they do not differ. Return NULL if memory is short. */
struct json_t *zr__config_changes(const zr_config *from, const zr_config *to, const char *const *shown);

/** Compute the XXH3-64 hash of the JSON of zr_config_to_json and of the library's version. Ranks with equal
 * configurations get equal hashes. */
ZR_NODISCARD zr_status zr__config_hash(const zr_config *config, uint64_t *hash);

/** Add a note, unless a note with the same text exists. */
ZR_NODISCARD zr_status zr__config_note(zr_config *config, const char *format, ...) ZR_PRINTF(2, 3);

/** Return whether a directory's config.json is a configuration of zr, and not a model's: it has keys of zr, and no
 * model_type. */
bool zr__config_is_own(const char *dir);

/** Set the sizes of the model (zr_config_sizes). */
void zr__config_resize(zr_config *config, const zr_model_sizes *sizes);

/** Write an example configuration file with comments that explain its keys. The model is the preset `preset`, or a
 * small model of the family `type`. If both are NULL, it is a small GPT-2. `type` is not used with a preset. Free *text
 * with zr_free. Error: ZR_ERR_NOT_FOUND if the name is unknown. */
ZR_NODISCARD zr_status zr__config_example(const char *type, const char *preset, char **text);

#endif
