/** What the search (search.c) and the list of stages and policies (list.c) share. */
#ifndef ZR_TRAIN_CHOOSE_SEARCH_H
#define ZR_TRAIN_CHOOSE_SEARCH_H

#include "train/choose/choose.h"

/** A search, or a list that is being made. */
typedef struct zr__searching {
    const zr__question *q;
    zr__choices *found;
    zr_profile rates; /* rates by which candidates are compared */
    zr__way base;     /* the configuration's way, with the homes of the tier that is tried */
    int64_t limit;    /* bytes of a rank, or 0 for no limit */
    bool any_policy;
    bool tiers;           /* whether states can be in the host's memory, which is not the device's */
    zr__tried *least;     /* the candidate that may_fit planned last */
    bool hopeless[ZR__OFFLOADS]; /* degrees of offload that move too little, or no more than a lesser degree */
    int64_t stages[2]; /* first and last stage to try */
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

#endif
