/** train/setup: the way from a configuration to a plan. offload.c finds the folders of
 * an offload to disk. prepare.c sets model sizes, tokenizer and output directory from
 * files. layout.c copies every key that the planner uses into a zr_layout. choose.c chooses ZeRO stage, recompute
 * policy, micro-batches and offload if the configuration leaves them open. shares.c chooses the shares of an offload
 * and the order of micro-batches. */
#ifndef ZR_TRAIN_SETUP_SETUP_H
#define ZR_TRAIN_SETUP_SETUP_H

#include "base/text/text.h"
#include "train/family/family.h"
#include "zr/config.h"
#include "zr/plan.h"

/** Return the layout of a resolved configuration. limit_bytes is the part of memory.limit that is left for the arena.
 * The field is set only for activation_checkpointing.policy auto and for the copy of an asynchronous save, and is
 * otherwise 0. */
zr_layout zr__train_layout(const zr_config *config, int ranks);

/** Folders of a run's offload to disk. */
typedef struct zr__folders {
    char **path; /* array of n paths */
    int n;
} zr__folders;

/** List the folders of an offload to disk; the list is empty without one. Call zr__folders_free even after a failure.
 * Fail with ZR_ERR_CREATE if a path is not a folder in which files can be created. */
ZR_NODISCARD zr_status zr__train_folders(const zr_config *config, zr__folders *folders);
/** Return the free bytes of all folders together, or 0 if unknown. States are striped evenly over the folders. */
int64_t zr__folders_free_bytes(const zr__folders *folders);
void zr__folders_free(zr__folders *folders);

/** Write a note to `note` if a configured device of offload has no effect on this machine, otherwise "". */
#define ZR_OFFLOAD_NOTE_BYTES 256
void zr__train_offload_note(const zr_config *config, const zr_device_facts *facts, char note[ZR_OFFLOAD_NOTE_BYTES]);

/** Write in words which model states are stored in host memory, and which states and checkpoints on disk, such as
 * "optimizer states, gradients on disk". Write "" if all are on the device. */
void zr__train_offload_words(const zr_homes *home, const zr_memory *memory, char words[ZR_OFFLOAD_NOTE_BYTES]);

/** Return whether checkpoints are written asynchronously, during the next training steps. The keys checkpoint.async and
 * train.save_interval decide this. */
bool zr__train_saves_async(const zr_config *config);
/** Return whether activation_checkpointing.policy is auto without a memory.limit, which it needs. The caller then uses
 * zr__train_limit. */
bool zr__train_lacks_limit(const zr_config *config);
/** Set the samples of a micro-batch and the micro-batches of a training step. train_batch_size follows from them and
 * `ranks`. */
void zr__train_set_batch(zr_config *config, int ranks, int64_t rows, int64_t accum);
/** Return the name of a recompute policy in a configuration: "none", "unit", "selective", "auto" or "paper". */
const char *zr__recompute_name(zr_recompute recompute);

/** Rate of a slow disk in bytes/s, from which the time of the first checkpoint is estimated. */
#define ZR_TRAIN_DISK_BYTES_SEC 2e8

/** Plan the model of a resolved configuration. `layout` is the result of zr__train_layout, which the caller may have
 * changed. If the device has its own memory, layout->limit_bytes is computed again. */
ZR_NODISCARD zr_status zr__train_plan_layout(const zr_config *config, const zr_layout *layout,
                                             const zr_profile *profile, zr_plan **plan);

/** Plan a resolved configuration for a ZeRO stage. If `stage` is -1, use the configuration's stage. */
ZR_NODISCARD zr_status zr__train_plan(const zr_config *config, int ranks, int stage, const zr_profile *profile,
                                      zr_plan **plan);

/** Remove from a set all candidates whose value is more than `alike` times the least value in the set. left[i] tells
 * whether candidate i is in the set. Values are not negative. Call this once for each criterion, the most important one
 * first. */
void zr__keep_least(int n, const double *value, double alike, bool *left);

/** Micro-batches of the checkpoint from which a run resumes. `accum` is 0 for a new run. */
typedef struct zr__train_kept {
    int64_t rows, accum; /* samples of a micro-batch on each rank; micro-batches of a training step */
} zr__train_kept;

/** Degrees of offload to disk, in the order in which they are tried. Each degree of model states leaves less in memory
 * than the previous one, and moves more bytes. */
typedef enum zr__offload {
    ZR__OFFLOAD_NONE,
    ZR__OFFLOAD_OPTIM, /* optimizer states and fp32 masters */
    ZR__OFFLOAD_GRAD,  /* also gradients that outlive their reduction */
    ZR__OFFLOAD_PARAM, /* also parameters; only at stage 3 */
    /* Activation checkpoints, first alone, then together with each degree of model states: ZR__OFFLOAD_CHECKPOINTS +
       ZR__OFFLOAD_OPTIM, and so on. */
    ZR__OFFLOAD_CHECKPOINTS,
    ZR__OFFLOADS = 2 * ZR__OFFLOAD_CHECKPOINTS
} zr__offload;

/** Set the devices of a configuration's offload. The folders do not change. If the degree leaves activation checkpoints
 * on the device, their place does not change either. */
void zr__train_set_offload(zr_config *config, zr__offload offload, zr_config_home device);
/** Return a degree of offload without its activation checkpoints, which is a degree of model states. */
zr__offload zr__train_offload_states(zr__offload offload);
/** Write the keys that set a degree of offload to `device`, in words for messages, to `text`. Return `text`. */
#define ZR_OFFLOAD_KEYS_BYTES 160
const char *zr__train_offload_keys(zr__offload offload, zr_config_home device, char text[ZR_OFFLOAD_KEYS_BYTES]);
/** Return whether the configuration leaves both devices of offload open. */
bool zr__train_offload_open(const zr_config *config);
/** Return the number of degrees of offload that may be tried for a configuration. If the configuration gives the place
 * of activation checkpoints, the degrees do not change it. */
int zr__train_offload_degrees(const zr_config *config);
/** Describe in words the least offload with which a configuration that does not fit `limit_bytes` would fit, with its
 * keys and bytes: "zero_optimization.offload_optimizer.device nvme ... (1.2 GB a rank, and 3.4 GB on disk)". Write ""
 * if no offload fits, or if the configuration already gives a device. */
#define ZR_OFFLOAD_REMEDY_BYTES 512
void zr__train_offload_remedy(const zr_config *config, int ranks, const zr_profile *profile, int64_t limit_bytes,
                              char remedy[ZR_OFFLOAD_REMEDY_BYTES]);

/** Hardware on which a configuration is to run. */
typedef struct zr__train_target {
    int ranks;
    int64_t disk_bytes;        /* bytes on disk that a rank may use, or 0 without a limit */
    int64_t memory_bytes;      /* bytes of memory that a rank can use without a memory.limit, or 0 if unknown */
    const zr_profile *profile; /* profile of the device for which plans are made */
    /** Function that prices a plan for this target. If the function is NULL, zr_plan_price is used, with the profile's
     * rates. */
    zr_status (*price)(void *arg, const zr_plan *plan, zr_price *price);
    void *arg;
} zr__train_target;

/** Choose values for the keys that a resolved configuration leaves open (zr__config_get_open): ZeRO stage, recompute
 * policy, micro-batches and offload. Take the values that fit memory.limit (zr__rank_bytes) and have the least time per
 * token, as priced by the target. Among candidates within 1 % of the best time, take the lowest stage. Then take the
 * fewest micro-batches if the number of samples is given, else the fewest samples. If nothing fits, take the candidate
 * with the least memory.
 *
 * If the profile lacks a rate that is needed, usual ratios of products, memory and link are assumed. If only the
 * micro-batches are open and rates are unknown, take the fewest FLOPs, then the least traffic.
 *
 * If the offload is open, take the first degree of offload with which a candidate fits.
 *
 * Then choose the order of micro-batches and the shares of an offload, if they are open (zr__train_choose_shares).
 *
 * At most 65536 micro-batches are tried. The result depends only on the configuration and the target with its rates.
 * If the number of samples is open, its value in `kept` is used. If only the micro-batches are open, `kept` is used if
 * it fits. `note` gets a description of the choice, or
 * "" if nothing was open. If nothing can be planned, return the error of zr__train_plan. Other errors are errors of
 * `price`. */
#define ZR_TRAIN_NOTE_BYTES 1024
ZR_NODISCARD zr_status zr__train_choose(zr_config *config, const zr__train_target *target, zr__train_kept kept,
                                        char note[ZR_TRAIN_NOTE_BYTES]);

/** Choose the order of micro-batches and the shares of an offload, if they are "auto" (`order`, `optim_ratio` and
 * `param_ratio` of zr__config_get_open). Call this when the other keys are chosen. Add a description to `text`.
 *
 * Take the order "layer" if it fits and its step is shorter by the target's rates. With memory.limit, take the smallest
 * shares that fit. The share of the parameters is reduced first, since parameters move more often. Without a limit,
 * take the largest share whose copies prolong a step by at most 1 %, but at least the share that the target's memory
 * requires. If a rate is unknown, take 1. Shares change by whole units, and have the fewest possible digits. */
ZR_NODISCARD zr_status zr__train_choose_shares(zr_config *config, const zr__train_target *target, zr__text *text);

#endif
