/**
 * train/setup: steps from a configuration to a plan. prepare.c sets model sizes, tokenizer and output directory from
 * files. layout.c copies every key that the planner uses into a zr_layout. choose.c chooses stage, recompute policy and
 * micro-batches if the configuration leaves them open.
 */
#ifndef ZR_TRAIN_SETUP_SETUP_H
#define ZR_TRAIN_SETUP_SETUP_H

#include "train/family/family.h"
#include "zr/config.h"
#include "zr/plan.h"

/** Return the layout of a resolved configuration. Its limit_bytes is the part of memory.limit that is left for the
 * arena, or 0 without a memory.limit. This limit applies to activation_checkpointing.policy auto and to the copy of an
 * asynchronous save. */
zr_layout zr__train_layout(const zr_config *config, int ranks);

/** Return whether checkpoints are written asynchronously, during the next steps, according to the keys checkpoint.async
 * and train.save_interval. */
bool zr__train_saves_async(const zr_config *config);
/** Return whether activation_checkpointing.policy is auto, which needs a memory.limit, but none is given. The caller
 * then uses zr__train_limit. */
bool zr__train_lacks_limit(const zr_config *config);
/** Set the samples of a micro-batch, the micro-batches of a step, and train_batch_size, which follows from these
 * numbers and `ranks`. */
void zr__train_set_batch(zr_config *config, int ranks, int64_t rows, int64_t accum);
/** Return the name of a recompute policy in a configuration: "none", "unit", "selective", "auto" or "paper". */
const char *zr__recompute_name(zr_recompute recompute);

/** Rate of a slow disk in bytes/s, from which the time of the first checkpoint is estimated. */
#define ZR_TRAIN_DISK_BYTES_SEC 2e8

/** Plan the model of a resolved configuration with `layout`, the result of zr__train_layout, which the caller may have
 * modified. layout->limit_bytes is recomputed if the device has its own memory. */
ZR_NODISCARD zr_status zr__train_plan_layout(const zr_config *config, const zr_layout *layout,
                                             const zr_profile *profile, zr_plan **plan);

/** Plan a resolved configuration with the given stage or, if `stage` is -1, with the configuration's stage. */
ZR_NODISCARD zr_status zr__train_plan(const zr_config *config, int ranks, int stage, const zr_profile *profile,
                                      zr_plan **plan);

/** Remove candidates from the set `left`, a subset of n candidates, if their value is more than `alike` times the least
 * value in the set. Values are not negative. Call this once for each criterion, beginning with the most important
 * criterion. */
void zr__keep_least(int n, const double *value, double alike, bool *left);

/** Micro-batches of the checkpoint from which a run resumes. For a new run, accum is 0. */
typedef struct zr__train_kept {
    int64_t rows, accum; /* samples of a micro-batch on each rank; micro-batches of a step */
} zr__train_kept;

/** Hardware that a configuration is to run on. */
typedef struct zr__train_target {
    int ranks;
    const zr_profile *profile; /* profile of the device for which plans are made */
    /** Function that prices a plan for this device. If NULL, zr_plan_price is used, with the profile's rates. */
    zr_status (*price)(void *arg, const zr_plan *plan, zr_price *price);
    void *arg;
} zr__train_target;

/** Choose the keys that a resolved configuration leaves open (zr__config_get_open): the ZeRO stage, recompute policy
 * and micro-batches that fit memory.limit (zr__rank_bytes) and take the least time per token, as priced by the target.
 * Among candidates within 1 % of the best time, take the lowest stage, then the fewest micro-batches if the number of
 * samples is given, else the fewest samples. If nothing fits, take the candidate with the least memory. If the profile
 * lacks a rate that is needed, assume usual ratios of products, memory and link. If only the micro-batches are open and
 * rates are unknown, take the fewest FLOPs, then the least traffic.
 *
 * At most 65536 micro-batches are tried. The result depends only on configuration and target, including its rates.
 * `kept` is used if it fits, and always if the number of samples is open. `note` receives a description of the choice,
 * or "" if nothing was open. Errors are those of zr__train_plan, if nothing can be planned, and those of `price`. */
#define ZR_TRAIN_NOTE_BYTES 320
ZR_NODISCARD zr_status zr__train_choose(zr_config *config, const zr__train_target *target, zr__train_kept kept,
                                        char note[ZR_TRAIN_NOTE_BYTES]);

#endif
