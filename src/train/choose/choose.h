/** train/choose: chooses the configuration to train with. A question (zr__question) says which keys are free. tiers.c
 * goes through the tiers of memory. search.c enumerates the candidates of a tier, and leaves out those that cannot fit
 * or win. way.c has the keys of a candidate, and trial.c plans and prices it. prefer.c has the order of preference,
 * list.c the list of stages and policies. choose.c asks the question of a configuration's open keys. quantised.c
 * chooses whether exchanges are quantised, shares.c shares of an offload and the order of micro-batches. `zr train
 * --memory`, `zr plan` and `zr simulate --search` only print the result. */
#ifndef ZR_TRAIN_CHOOSE_CHOOSE_H
#define ZR_TRAIN_CHOOSE_CHOOSE_H

#include "base/core/core.h"
#include "plan/cost/cost.h"
#include "train/setup/setup.h"
#include "zr/run.h"
#include "zr/simulate.h"

struct json_t;
struct zr__train_target;
struct zr__trial;

/* ---- one trial ---------------------------------------------------------------------------------- */

/** zr__try for another system, with the parameters of zr__try. It refuses what the system cannot do (zr__refused). */
typedef zr_status zr__trying(const struct zr__train_target *target, const zr_config *config, struct zr__trial *made,
                             zr_plans *plans);

/** Hardware on which a configuration is to run. */
typedef struct zr__train_target {
    int ranks;
    int host_ranks;            /* ranks of a full host, or 0 if all ranks are on one host */
    int64_t disk_bytes;        /* bytes on disk that a rank may use, or 0 without a limit */
    bool any_disk;             /* whether a disk is assumed where the configuration names no folder */
    int64_t memory_bytes;      /* bytes of memory that a rank can use without a memory.limit, or 0 if unknown */
    int64_t host_bytes;        /* bytes of a host's memory, or 0 if unknown */
    const zr_profile *profile; /* profile of the device for which plans are made */
    const zr_profile *rates;   /* rates by which candidates are compared, or NULL for those of `profile` */
    /* Cluster on which steps are simulated, with its options; without a cluster the profile's rates price a plan. */
    const zr_cluster *cluster;
    const zr_simulate_options *options;
    /* Unless it is NULL, zr__try calls this function, which plans and prices runs of another training system, described
     * by `other`. So zr__search finds the fastest possibility of that system. */
    zr__trying *trying;
    const void *other;
} zr__train_target;

/** A configuration that has been planned and priced. */
typedef struct zr__trial {
    zr_report report;
    zr_simulation simulation; /* without a cluster, only its `price` is set */
    int64_t params;
    int64_t needs_bytes; /* bytes that a rank needs (zr__rank_needs); of another system, what nvidia-smi shows */
    int64_t host_bytes;  /* bytes of host memory that all ranks of one host need together */
    int64_t disk_bytes;  /* bytes of a rank on disk */
    /* Largest of three fractions: needs_bytes of the rank's limit, host_bytes of a host's memory, and disk_bytes of the
     * disk. A fraction without a limit is 0. `fits`: whether `share` is at most 1. */
    double share;
    bool fits;
    bool recomputes;      /* whether any activations are recomputed */
    zr__fullest fullest;  /* the step with the most memory in use */
    int32_t roles;        /* number of roles */
    int32_t fullest_role; /* the role whose ranks need the most memory */
    /* part of a step in which a pipeline rank is idle by the schedule's formula (zr__pipe_bubble), or NAN */
    double formula_bubble;
    zr__copied_bytes copied; /* with parallel.tied_apart: what travels for the table */
    /* Place of checkpoints as planned; policy auto may choose another place than requested. */
    bool pieces;
    zr_space home;
} zr__trial;

/** Return the memory limit of a rank: memory.limit or, if it is not given, memory_bytes of the target. */
int64_t zr__limit_of(const zr__train_target *target, const zr_config *config);
/** Plan and price a resolved configuration. Unless `plans` is NULL, set *plans to the plans, which the caller clears.
 * Without `plans`, a pipeline with many micro-batches is priced by its plans with two smaller numbers of micro-batches:
 * the memory is that of the larger plan, and times, traffic and FLOPs, which grow linearly, are extrapolated. Return
 * the errors of zr__train_plans and zr_simulate. */
ZR_NODISCARD zr_status zr__try(const zr__train_target *target, const zr_config *config, zr__trial *made,
                               zr_plans *plans);
/** Return the number of ranks on a full host. */
int zr__ranks_on_host(const zr__train_target *target);
/** Set the largest share of a trial, and whether it fits, from the bytes that it needs. */
void zr__trial_share(const zr__train_target *target, const zr_config *config, zr__trial *made);
/** Return whether a status means that the planner or the simulator refused a configuration. Any other failure ends the
 * command. */
bool zr__refused(zr_status st);

/* ---- candidates --------------------------------------------------------------------------------- */

/** Keys of buckets and overlap. They change only how a training step moves data. The other members of a zr__way change
 * what is computed or stored. */
typedef struct zr__moves {
    int64_t bucket_elems;             /* size of buckets in elements, or 0 to keep the configured sizes */
    int64_t prefetch_elems;           /* elements prefetched at stage 3, or -1 to keep the configured number */
    zr_config_switch overlap, levels; /* zero_optimization.overlap_comm, collectives.hierarchical */
    bool once;                        /* whether gradient_reduction is "step" */
} zr__moves;

/** A candidate: values of all keys that a question may leave free. */
typedef struct zr__way {
    zr_config_home device; /* home of the states of `offload`; ZR_HOME_NONE to keep the configured homes */
    zr__offload offload;
    unsigned on_host; /* with ZR_HOME_NVME: kinds of states (ZR__KINDS), as bits, that are in host memory instead */
    int64_t stage, tensor, pipeline;
    zr_pipe_schedule schedule; /* with chunks, matters only with a pipeline */
    int64_t chunks;            /* stages of a pipeline rank, or 0 for the schedule's own number */
    int64_t mics, hpz;         /* ranks of a MiCS group, or -1 for none; ranks of an hpZ group, or 1 for none */
    zr_recompute policy;
    int64_t every; /* spacing of checkpoints in units, with ZR_RECOMPUTE_UNIT */
    /* Place of activation checkpoints: whether they are partitioned (P_a), and their home. */
    bool pieces;
    zr_config_offload kept;
    zr__moves moves;
    int64_t rows, accum; /* samples of a micro-batch on each rank; micro-batches of a training step */
} zr__way;

/** Degrees to which two ways are alike. Each value also requires everything that the earlier values require. */
typedef enum zr__likeness {
    ZR__ALIKE_STATES, /* the same kind of states: stage, tensor and pipeline parallelism, and groups of ranks */
    ZR__ALIKE_HOMES,  /* the same offload */
    ZR__ALIKE_POLICY, /* the same recompute and, if there are checkpoints, the same place for them */
    ZR__ALIKE_ALL     /* the same buckets, overlap, schedule of a pipeline and micro-batches */
} zr__likeness;
bool zr__way_alike(const zr__way *a, const zr__way *b, zr__likeness likeness);
/** Return whether `b` equals `a`, or `a` with further kinds of states offloaded. */
bool zr__way_spares(const zr__way *a, const zr__way *b);
/** Remove activation checkpoints from a way's offload. Call this if the way's policy stores no checkpoints. */
void zr__way_drop_checkpoints(zr__way *way);
/** Return the number of further keys (zr__free) that differ between a way and a configuration. With `accum`, the number
 * of micro-batches of a step counts as such a key. */
int zr__way_further(const zr__way *way, const zr_config *config, bool accum);
/** Return the keys of a configuration as a way. */
zr__way zr__way_of(const zr_config *config);
/** Set the keys of a way in a configuration. */
void zr__way_set(const zr__way *way, int ranks, zr_config *config);
/** Return an object with the keys that differ between the configuration `given` and a configuration with a way, such as
 * {"zero_optimization.stage": 1}. With `usual`, stage, policy and micro-batches are members in any case, and the memory
 * limit if policy auto depends on it. Return NULL if memory is short. */
struct json_t *zr__way_keys(const zr__way *way, const zr_config *config, const zr_config *given, int ranks, bool usual);
/** Add the keys of zr__way_keys to `text` as command-line options, "--zero_optimization.stage=1 ...", with `before` in
 * front of each. */
void zr__way_options(const zr__way *way, const zr_config *config, const zr_config *given, int ranks, bool usual,
                     const char *before, zr__text *text);

/** A candidate with the results of planning it. */
typedef struct zr__tried {
    zr__way way;
    int64_t number; /* order in which candidates were planned */
    zr__trial made;
    bool fits;
    /* whether it fits, but was planned only to find out whether any candidate can fit; `fits` is set when it is tried
     * itself */
    bool bound;
    double sec, traffic; /* seconds per token (FLOPs per token if zr__choices.timed is false); bytes per token */
    int further;         /* number of further keys (zr__free) that differ from the configuration */
} zr__tried;

/* ---- the question ------------------------------------------------------------------------------- */

/** Keys that a question leaves free. */
typedef struct zr__free {
    /* The usual keys. `split`: the split of train_batch_size into micro-batches; `batch`: the size of a micro-batch,
     * and thus train_batch_size; `pieces`: P_a, with tensor parallelism; `host`, `disk`: offload to host memory, to
     * disk; `kept`: whether an offload may include activation checkpoints */
    bool stage, policy, split, batch, pieces, host, disk, kept;
    /* Keys that save memory at the cost of overlap (zr__light), tried only if nothing fits the device otherwise. */
    bool lighter;
    /* The further keys, which are changed only if that saves more time than ZR__TIE. `groups`: MiCS and hpZ; `places`:
     * checkpoints in the host's memory; `accum`: micro-batches of a step; `pipeline`: number of pipeline ranks, as long
     * as states stay on the device; `schedule`: schedule and chunks of a pipeline */
    bool tensor, pipeline, schedule, groups, every, places, accum, buckets, prefetch, overlap, levels, once;
} zr__free;

/** Choices that a resumed run keeps from its checkpoint. `accum` is 0 for a new run. */
typedef struct zr__train_kept {
    int64_t rows, accum; /* samples of a micro-batch on each rank; micro-batches of a training step */
    bool quantised[2];   /* whether weights and gradients are quantised */
} zr__train_kept;

typedef struct zr__question {
    const zr_config *config; /* resolved; has the values of all keys that are not free */
    const zr__train_target *target;
    zr__free free;
    zr__train_kept kept;
    int64_t step_tokens; /* maximum number of tokens of a step over all ranks, or 0 for no limit */
    bool shares;         /* whether shares of an offload are open, so that less may be put on disk */
} zr__question;

/** Memory tiers, in the order in which they are tried. A tier is tried only if nothing fits without it. */
typedef enum zr__tier {
    ZR__TIER_DEVICE,  /* homes as configured */
    ZR__TIER_LIGHTER, /* homes as configured, with less overlap and smaller buckets (zr__free.lighter) */
    ZR__TIER_HOST,    /* states, then also checkpoints, in host memory */
    ZR__TIER_DISK,    /* states, then also checkpoints, on disk */
    ZR__TIERS
} zr__tier;

/** Result of a search. Release it with zr__choices_clear. */
typedef struct zr__choices {
    zr__tried **tried; /* all planned candidates, n in number, in the order of planning */
    int64_t n, room;
    zr__tried **listed; /* the candidates of zr__choices_list, n_listed in number, in the order of the list */
    int64_t n_listed, listed_room;
    zr__tried *best;        /* the candidate that is preferred, or NULL if none fits */
    double fastest;         /* the least zr__tried.sec of the candidates that fit */
    const zr__tried *least; /* the candidate that comes nearest to fitting, with the least zr__trial.share, or NULL if
                               none could be planned */
    zr__tier tier;          /* tier of `best` */
    /* `timed`: whether tried.sec is in seconds; `usual`: whether assumed rates replace unknown rates; `usual_disk`:
     * whether the rates of the disk are assumed; `keeps`: whether the micro-batches are those of zr__question.kept */
    bool timed, usual, usual_disk, keeps;
    zr__failure refused; /* status and message of the first candidate that could not be planned */
} zr__choices;

/** Ways to save memory at the cost of overlap. Each value also applies all earlier values. */
typedef enum zr__light {
    ZR__LIGHT_NONE,     /* as configured */
    ZR__LIGHT_PREFETCH, /* stage3_prefetch_bucket_size 0: no prefetch at stage 3 */
    ZR__LIGHT_OVERLAP,  /* overlap_comm false: only one unit and one gradient are in flight at a time */
    ZR__LIGHT_BUCKETS,  /* buckets of at most zr__light_elems elements */
    ZR__LIGHTS
} zr__light;
/** Return the bucket size for ZR__LIGHT_BUCKETS, in elements. */
int64_t zr__light_elems(const zr_config *config);
void zr__lighten(zr__way *way, zr__light light, const zr_config *config);
/** Give a way the keys that need the least memory at its stage: recompute unit and ZR__LIGHT_BUCKETS. */
void zr__way_least(zr__way *way, const zr_config *config);
/** Return the zr__light that a way has. */
zr__light zr__light_of(const zr__way *way);

/** Answer a question: plan candidates, tier by tier, until one fits, and prefer one of them. A training step has at
 * most 65536 micro-batches of at most 65536 samples. The answer depends only on the question. Errors are those of
 * zr__try, but a candidate that is refused is only left out. */
ZR_NODISCARD zr_status zr__search(const zr__question *question, zr__choices *found);
/** Find out whether any candidate fits. For the homes of each tier, plan only the candidate with the least memory. Stop
 * at the first candidate that fits, found->best. `failed` is a bit set of homes to leave out. Homes that do not fit are
 * added to it, since a larger model or batch does not fit them either. Clear `found` even after a failure. */
ZR_NODISCARD zr_status zr__search_least(const zr__question *question, uint64_t *failed, zr__choices *found);
void zr__choices_clear(zr__choices *found);
/** Plan the stages 0 to 3, each with every recompute policy and place of checkpoints, with the configured micro-batches
 * and homes, and with less overlap where a policy does not fit otherwise. List them in `found`, which is empty before.
 * With `spacings`, add recompute unit with a checkpoint at every 2nd, 3rd ... unit. With `own`, plan and list only the
 * configuration's own way. */
ZR_NODISCARD zr_status zr__choices_list(const zr__question *question, bool own, bool spacings, zr__choices *found);
/** List a candidate of `found`, unless it is listed. */
ZR_NODISCARD zr_status zr__list_add(zr__choices *found, zr__tried *tried);
/** Return the index of a way in the list, or -1. */
int64_t zr__list_find(const zr__choices *found, const zr__way *way);

/* ---- order of preference ------------------------------------------------------------------------ */

/** Two candidates are equally fast (a tie) if their seconds per token differ at most by this factor. */
#define ZR__TIE 1.02

/**
 * Choose among candidates that fit, which are all of one tier. Prefer in this order:
 *
 *   1. the least time per token: all candidates within ZR__TIE of the fastest are ties. Without rates: the fewest
 *      FLOPs, then the least traffic
 *   2. the fewest changed further keys (zr__free: `tensor` and the members after it)
 *   3. the lowest stage
 *   4. the least recompute: none, keep, selective, unit, auto; then the fewest offloaded states; activation checkpoints
 *      that stay on the device; checkpoints that are not partitioned between tensor-parallel ranks; the fewest changes
 *      of buckets and overlap (zr__light)
 *   5. the fewest micro-batches, then the fewest samples of a micro-batch
 *
 * So the choice is at most 2 % slower than the fastest candidate. A further key is changed only if every candidate that
 * changes fewer of them is more than 2 % slower than the fastest. Set found->best. */
void zr__prefer(zr__choices *found);
/** Return whether a candidate that a search has found is a tie of the best: it fits, and is within ZR__TIE of the
 * fastest. */
bool zr__is_tie(const zr__choices *found, const zr__tried *t);
/** Return the tie to name after `last`, or NULL after the last tie. If `last` is NULL, return the first. The fastest
 * ties come first; equally fast ties are ordered by memory. Leave out a tie that is neither faster nor smaller than the
 * best candidate or an earlier tie, or that differs from it by less than 0.1 % in time and memory. Name each
 * combination of stage, policy and tensor parallelism once. */
const zr__tried *zr__next_tie(const zr__choices *found, const zr__tried *last);
/** Add the ties of zr__next_tie and what each costs to `text`, after the word `before`: "ties within 2 %: stage 1 with
 * recompute keep and 2 x 1 samples (0.7 % faster, 6.00 GB more a rank)". Name at most three, and count the others. Add
 * nothing without ties. */
void zr__add_ties(const zr__choices *found, const char *before, zr__text *text);
/** Return the tokens of a step of a way, over all ranks. */
int64_t zr__way_tokens(const zr__way *way, const zr_config *config, int ranks);
/** Set `keys` to the names of the keys that a question leaves free for a way, and return their number. */
#define ZR__FREE_KEYS 23
int zr__question_keys(const zr__question *question, const zr__way *way, const char *keys[ZR__FREE_KEYS]);
/** Add the question to `text`: memory, tokens per step and the free keys. */
void zr__add_question(const zr__question *question, const zr__way *way, zr__text *text);
/** Add the bytes of host memory and disk that an offload takes to `text`: "24.13 GB of host memory a rank, 96.53 GB a
 * host". */
void zr__add_away(const zr__train_target *target, const zr__trial *made, zr__text *text);

/** Key of zr__free.pieces. */
#define ZR__PIECES_KEY "activation_checkpointing.partition_activations"
/** Key of zr__free.places. */
#define ZR__PLACE_KEY "activation_checkpointing.cpu_checkpointing"

/* ---- open keys of a run ------------------------------------------------------------------------- */

/** Return whether the place of activation checkpoints is free: no key gives it. */
bool zr__place_is_free(const zr_config *config);
/** Return the question of a configuration's open keys (zr__config_get_open). The disk is free if states may leave the
 * device, and a folder is given or a disk is assumed. */
zr__question zr__question_of(const zr_config *config, const zr__train_target *target);
/** Choose values for the keys that a resolved configuration leaves open, and set them. Then choose quantised exchanges
 * (zr__choose_quantised), the order of micro-batches and the shares of an offload (zr__train_choose_shares). If the
 * size of a micro-batch is open, a resumed run keeps the size in `kept`. If only the split into micro-batches is open,
 * the split of `kept` is used if it fits. If nothing fits, take the candidate with the least memory. `note` gets a
 * description of the choice, or "" if nothing was open. Unless it is NULL, `found` gets the results of the search;
 * clear it with zr__choices_clear. If nothing can be planned, return the error of the first candidate. */
#define ZR_TRAIN_NOTE_BYTES 2048
ZR_NODISCARD zr_status zr__train_choose(zr_config *config, const zr__train_target *target, zr__train_kept kept,
                                        zr__choices *found, char note[ZR_TRAIN_NOTE_BYTES]);

/** Choose zero_quantized_weights and zero_quantized_gradients, if they are "auto": true if the step is more than 1 %
 * shorter by the target's rates, and fits. A resumed run keeps the values in `kept`. If a rate is unknown, also a
 * processor's rate of encoding or decoding, choose false. Add a description to `text`. */
ZR_NODISCARD zr_status zr__choose_quantised(zr_config *config, const zr__train_target *target, zr__train_kept kept,
                                            zr__text *text);
/** If zero_quantized_weights or zero_quantized_gradients is given as true, and the step is shorter without them by the
 * target's rates, add a note to `text`. */
ZR_NODISCARD zr_status zr__note_quantised(const zr_config *config, const zr__train_target *target, zr__text *text);
/** Return whether a step can be timed: on a cluster, or if the target's profile has the rates of products, of memory
 * and, with several ranks, of the link. */
bool zr__is_timed(const zr_config *config, const zr__train_target *target);

/** Choose the order of micro-batches and the shares of an offload, if they are "auto" (`order`, `optim_ratio` and
 * `param_ratio` of zr__config_get_open). Call this when the other keys are chosen. Add a description to `text`.
 *
 * Take the order "layer" if it fits and its step is shorter by the target's rates. With memory.limit, take the smallest
 * shares that fit. The share of the parameters is reduced first, since parameters move more often. Without a limit,
 * take the largest share whose copies prolong a step by at most 1 %, but at least the share that the target's memory
 * requires. If a rate is unknown, take 1. Shares change by whole units, and have the fewest possible digits. */
ZR_NODISCARD zr_status zr__train_choose_shares(zr_config *config, const zr__train_target *target, zr__text *text);

/** Describe in words the least offload with which a configuration that does not fit `limit_bytes` would fit, with its
 * keys and bytes: "zero_optimization.offload_optimizer.device nvme ... (1.2 GB a rank, and 3.4 GB on disk)". Write ""
 * if no offload fits, or if the configuration already gives a device. */
#define ZR_OFFLOAD_REMEDY_BYTES 512
void zr__train_offload_remedy(const zr_config *config, const zr__train_target *target, int64_t limit_bytes,
                              char remedy[ZR_OFFLOAD_REMEDY_BYTES]);

#endif
