/** Declarations that tiers.c (tiers of memory), search.c (candidates of a tier) and list.c (list of stages and
 * policies) share. */
#ifndef ZR_TRAIN_CHOOSE_SEARCH_H
#define ZR_TRAIN_CHOOSE_SEARCH_H

#include "train/choose/choose.h"

#define ZR__SLACK 0.02 /* assumed relative error of the estimated times and bytes of policy auto */

/** A search, or a list that is being made. */
typedef struct zr__searching {
    const zr__question *q;
    zr__choices *found;
    zr_profile rates; /* rates by which candidates are compared */
    zr__way base;     /* the configuration's way, with the homes of the tier that is tried */
    int64_t limit;    /* bytes of a rank, or 0 for no limit */
    bool any_policy;
    bool alone;       /* whether only ways with the least memory are tried (zr__search_least) */
    bool tiers;       /* whether states may be offloaded to host memory; only if the device has its own memory */
    zr__tried *least; /* the candidate that may_fit planned last */
    bool hopeless[ZR__OFFLOADS]; /* degrees of offload that cannot fit, or need the same memory as a lower degree */
    int64_t stages[2];           /* first and last stage to try */
    /* Candidates for policy auto, with lower bounds of their times; 0 if tried. */
    struct zr__mixed {
        zr__way way;
        double bound;
    } * mixed;
    int64_t n_mixed, mixed_room;
    zr__tried guess[ZR_RECOMPUTE_KEEP + 1]; /* candidates whose needs and times are predicted instead of planned */
} zr__searching;

void zr__search_begin(zr__searching *s, const zr__question *q, zr__choices *found);
/** Plan a candidate. If its sizes overflow or its settings exclude each other, set *tried to NULL and succeed. For
 * example, all-reduce excludes stage 3, and the noise scale excludes a single micro-batch. */
ZR_NODISCARD zr_status zr__try_way(zr__searching *s, const zr__way *w, zr__tried **tried);

/** Return the tensor-parallel degree to try after `tensor`, or the first if this is 0, with the pipeline of a way.
 * Return 0 after the last. */
int64_t zr__search_next_degree(const zr__searching *s, const zr__way *w, int64_t tensor);
/** Return whether any candidate fits. */
bool zr__search_fits(const zr__searching *s);
/** Return whether a candidate fits, or exceeds the limit by at most ZR__SLACK. Then it may fit with policy auto, in
 * which several units can share a checkpoint. */
bool zr__search_nearly_fits(const zr__searching *s, const zr__tried *t);
/** Try all candidates with the homes and the buckets of s->base, except policy auto, which zr__search_mixed tries. */
ZR_NODISCARD zr_status zr__search_all(zr__searching *s);
/** Try policy auto on the candidates of zr__search_all in the order of the lower bounds of their times. Stop when no
 * other candidate can be faster than the fastest one so far. */
ZR_NODISCARD zr_status zr__search_mixed(zr__searching *s);
/** Vary the further keys of the fastest candidate of each kind of states, if any are free. */
ZR_NODISCARD zr_status zr__search_refine(zr__searching *s);

#endif
