/** train/setup: makes a plan from a configuration. offload.c finds the folders of an offload to disk. prepare.c sets
 * model sizes, tokenizer and output directory from files. layout.c copies every key that the planner uses into a
 * zr_layout. train/choose chooses keys that a configuration leaves open. */
#ifndef ZR_TRAIN_SETUP_SETUP_H
#define ZR_TRAIN_SETUP_SETUP_H

#include "base/text/text.h"
#include "train/family/family.h"

/** Complete a loaded configuration of a run to resume, before zr_train_prepare. Keep its batch (zr__config_go_on), and
 * the optimizer and scheduler with which the run began, if the file gives none. If the file is the run's own
 * config.json, set train.output_dir to the file's present directory. Fail with ZR_ERR_ARG without train.output_dir. */
ZR_NODISCARD zr_status zr__train_go_on(zr_config *config);

/** For a task with labels, set model.label_names to the names that data.train has, and model.num_labels to their
 * number, unless the configuration or model.init gives them. Add a note. Numeric labels set only model.num_labels.
 * Texts that cannot be read change nothing, because their reader has the better message. Fail with ZR_ERR_CONFIG if
 * model.num_labels contradicts the names. */
ZR_NODISCARD zr_status zr__settle_labels(zr_config *config);

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

/** If a configured device of offload has no effect on this machine, write a note to `note`; if not, write "". */
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
/** Return the name of a recompute policy in a configuration: "none", "unit", "selective", "auto", "paper" or "keep". */
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

/** Plan all roles of a resolved configuration in the same way. The caller clears `plans`, even after an error. */
ZR_NODISCARD zr_status zr__train_plans(const zr_config *config, int ranks, int stage, const zr_profile *profile,
                                       zr_plans *plans);

/** Degrees of offload to the host's memory or to disk, in the order in which they are tried. Each degree of model
 * states leaves less in memory than the previous one, and moves more bytes. */
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

/** Kinds of states that an offload moves, as bits. Gradients go where the optimizer states go. */
enum { ZR__KIND_PARAM = 1, ZR__KIND_CHECKPOINT = 2, ZR__KIND_OPTIM = 4, ZR__KINDS = 7 };

/** Return the kinds that a degree of offload moves. */
unsigned zr__offload_kinds(zr__offload offload);
/** Offload the kinds of states that a degree moves to `device`, except the kinds in `on_host`, which go to host memory.
 * Do not offload other model states. The folders do not change, nor does the place of activation checkpoints if the
 * degree does not move them. */
void zr__train_set_offload(zr_config *config, zr__offload offload, zr_config_home device, unsigned on_host);
/** Return a degree of offload without its activation checkpoints, which is a degree of model states. */
zr__offload zr__train_offload_states(zr__offload offload);
/** Write the keys that zr__train_set_offload sets, in words for messages, to `text`. Return `text`. */
#define ZR_OFFLOAD_KEYS_BYTES 160
const char *zr__train_offload_keys(zr__offload offload, zr_config_home device, unsigned on_host,
                                   char text[ZR_OFFLOAD_KEYS_BYTES]);
/** Return whether the configuration leaves both devices of offload open. */
bool zr__train_offload_open(const zr_config *config);
/** Return the number of degrees of offload that may be tried for a configuration. If the configuration gives the place
 * of activation checkpoints, the degrees do not change it. */
int zr__train_offload_degrees(const zr_config *config);
#endif
