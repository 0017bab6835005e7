/**
 * train/setup: from a configuration to a plan. prepare.c settles sizes, tokenizer and directory from files,
 * layout.c copies every key that the planner knows into zr_layout, choose.c takes stage, recompute policy and
 * micro-batches where they are left open.
 */
#ifndef ZR_TRAIN_SETUP_SETUP_H
#define ZR_TRAIN_SETUP_SETUP_H

#include "train/family/family.h"
#include "zr/config.h"
#include "zr/plan.h"

/** Return the layout of a resolved configuration. Its limit_bytes, for activation_checkpointing.policy auto and for the
 *  copy of an asynchronous save, is the part of memory.limit that is left for the arena; 0 without a memory.limit. */
zr_layout zr__train_layout(const zr_config *config, int ranks);

/** Return whether checkpoints are written asynchronously, during the next steps (checkpoint.async,
 *  train.save_interval). */
bool zr__train_saves_async(const zr_config *config);
/** Return whether activation_checkpointing.policy auto needs a memory.limit that is not given: it is then
 *  zr__train_limit. */
bool zr__train_lacks_limit(const zr_config *config);
/** Set the samples of a micro-batch and the micro-batches of a step, and train_batch_size for these ranks. */
void zr__train_set_batch(zr_config *config, int ranks, int64_t rows, int64_t accum);
/** Return a policy's name in a configuration: "none", "unit", "selective", "auto" or "paper". */
const char *zr__recompute_name(zr_recompute recompute);

/** Rate of a slow disk, bytes/s, by which the time of a checkpoint is estimated before one was written. */
#define ZR_TRAIN_DISK_BYTES_SEC 2e8

/** Plan the model of a resolved configuration with a layout derived from its zr__train_layout; the limit is computed
 *  anew for a device that has memory of its own. */
ZR_NODISCARD zr_status zr__train_plan_layout(const zr_config *config, const zr_layout *layout,
                                             const zr_profile *profile, zr_plan **plan);

/** Plan a resolved configuration. stage -1: the configuration's. */
ZR_NODISCARD zr_status zr__train_plan(const zr_config *config, int ranks, int stage, const zr_profile *profile,
                                      zr_plan **plan);

/** Keep, of the n candidates that are `left`, those whose value is at most `alike` times their least. Values are
 *  not negative. Called for one criterion after another it picks by each in turn. */
void zr__keep_least(int n, const double *value, double alike, bool *left);

/** Micro-batches of a resumed run; accum 0: the run is new. */
typedef struct zr__train_kept {
    int64_t rows, accum; /* samples of a micro-batch on each rank, micro-batches of a step */
} zr__train_kept;

/** Hardware that a configuration is to run on. */
typedef struct zr__train_target {
    int ranks;
    const zr_profile *profile; /* profile of the device that plans are made for */
    /** Price a plan for that device; NULL: zr_plan_price, by the profile's rates. */
    zr_status (*price)(void *arg, const zr_plan *plan, zr_price *price);
    void *arg;
} zr__train_target;

/** Settle the choices that a resolved configuration leaves open (zr__config_get_open): the ZeRO stage, recompute policy
 *  and micro-batches that fit memory.limit (zr__rank_bytes) and take the least time for each token, as the target
 *  prices it. Among candidates within 1 % of the best time the lowest stage is taken; among these the fewest
 *  micro-batches where the samples are given, else the fewest samples. Where nothing fits, the candidate with the least
 *  memory is taken. Where a profile lacks a rate that counts, usual proportions of products, memory and link stand for
 *  it; where micro-batches alone are open, the candidate with the fewest FLOPs is taken, then with the least traffic.
 *
 *  At most 65536 micro-batches are tried. The result depends on configuration and target alone, rates included. kept:
 *  stays where it fits, and always where the number of samples is open. `note` tells the choice, "" where nothing was
 *  open. Errors: of zr__train_plan, where nothing can be planned, and of `price`. */
#define ZR_TRAIN_NOTE_BYTES 320
ZR_NODISCARD zr_status zr__train_choose(zr_config *config, const zr__train_target *target, zr__train_kept kept,
                                        char note[ZR_TRAIN_NOTE_BYTES]);

#endif
