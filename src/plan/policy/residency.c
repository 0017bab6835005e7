/* The policy of offloading: model states may be stored in host memory or on disk instead of device memory
 * (zr_layout.home). All other files write steps as if an offloaded state could be used at its home. This file rewrites
 * each step that computes with an offloaded state: its operands are copied to the device before it, and the states that
 * it changes are copied home after it (ZeRO-Offload, Ren et al. 2021; ZeRO-Infinity, Rajbhandari et al. 2021).
 *
 * A step that updates or casts is cut into buckets of constant size. The buckets of all these steps form one sequence.
 * They take turns in a ring of few buffers, so that one bucket is computed while the next bucket is prefetched and the
 * previous bucket is written home, also at the border of two units. In the list, the copies of a bucket to the device
 * come directly after the bucket that used the same buffer before. Therefore copies run ahead until the ring is full: a
 * copy waits until its buffer has been copied home. This wait follows from the uses, like all others.
 *
 * Beside a device with its own memory, the host's processors update the units whose optimizer states are off the
 * device (stream HOST), except hidden matrices (zr_muon). States in host memory are then updated where they are. States
 * on disk pass through a ring in host memory. Gradients and parameters on the device have a ring there, too: a bucket's
 * gradient is copied to the host just before its update, since it is complete only then, and its parameters are copied
 * back after it (stream RETURN).
 *
 * Gradients that go home after a reduction take turns in a ring of their own. Its two buffers have the size of the
 * largest unit's part, since a reduction and a sum of squares take the whole part at once. On a device with its own
 * memory, all bytes from and to disk pass through host memory, in a ring as well. */
#include "plan/policy/policy.h"

/* ---- what is off the device -------------------------------------------------------------------- */

/* Return whether a buffer stores a model state of a unit. A gradient that is freed after its update counts only if
 * `transient` is true. */
static bool is_state(const zr__list *l, int32_t buffer, bool transient)
{
    if (buffer == ZR_NONE || (buffer >= l->plan->n_persistent && !transient)) return false;
    const zr_buffer *b = &l->schedule->buffer[buffer];
    const bool state =
        b->category == ZR_CATEGORY_PARAM || b->category == ZR_CATEGORY_GRAD || b->category == ZR_CATEGORY_OPTIM;
    return state && b->unit >= 0;
}

/* Return whether a buffer stores a model state outside device memory. */
static bool is_away(const zr__list *l, int32_t buffer)
{
    if (!is_state(l, buffer, false)) return false;
    const zr_space space = l->schedule->buffer[buffer].space;
    return space == ZR_SPACE_HOST || space == ZR_SPACE_DISK;
}

/* Return whether the host's processors run a step. */
static bool is_on_host(const zr__list *l, const zr_step *step)
{
    if (step->kind != ZR_STEP_UPDATE || !l->plan->profile.facts.own_memory) return false;
    const zr_plan_unit *u = &l->plan->unit[step->unit];
    if (u->orthogonal) return false; /* the directions are on the device, and so is the momentum's update */
    return is_away(l, u->master.buffer) || is_away(l, u->slot[0].buffer);
}

static zr_space space_of(const zr__list *l, const zr_use *use)
{
    return l->schedule->buffer[use->buffer].space;
}

/* Return whether bytes of an offloaded state pass through host memory between their home and the device. */
static bool is_passed(const zr__list *l, const zr_use *home)
{
    return space_of(l, home) == ZR_SPACE_DISK && l->plan->profile.facts.own_memory;
}

/* ---- rings ------------------------------------------------------------------------------------- */

/* The rings of a schedule. Each has separate buffers for the steps of a round, and for the steps after the last round.
 */
typedef enum ring_kind {
    RING_UPDATES, /* operands of SQUARE_UPDATE, DIRECTION, and of UPDATE on the device, in buckets */
    RING_HOST,    /* operands of UPDATE on the host's processors, in buckets */
    /* operands of CAST, in buckets. They have separate buffers, because the next unit is cast before this unit is
       updated, so that both can be prefetched while this unit computes */
    RING_CASTS,
    RING_PARTS,  /* gradients of steps that compute with a rank's whole part: reductions, SQUARE */
    RING_PASSED, /* parameters and gradients that only pass through host memory between disk and device */
    RINGS
} ring_kind;

/* An offloaded operand of a step. `column`: which buffer of a ring slot it uses. `fetched`, `stored`: the elements that
 * are copied from home and back. They cover the whole step; it is cut into buckets later. If `.buffer` is ZR_NONE,
 * nothing is copied. */
typedef struct operand {
    int32_t column;
    zr_use home;                          /* the operand as the original step names it */
    zr_use fetched, stored;               /* elements that are copied to the device, and back home */
    zr_range fetched_range, stored_range; /* the same elements, as ranges of the unit */
    zr_when when;                         /* rounds in which the elements are copied to the device */
} operand;

/* A step with offloaded operands, which is cut into buckets; with RING_PARTS, one or more successive steps that compute
 * with the same states. */
typedef struct cut {
    zr__id first, last;
    zr_step step; /* copy of the first step before the rewrite */
    int64_t buckets;
    int32_t operands, n_operands; /* index in ring.operand of the first operand; number of operands */
} cut;

/* A bucket of a cut, and its number among all buckets of the ring. */
typedef struct bucket {
    int32_t cut;
    int64_t index, number;
} bucket;

typedef struct ring {
    zr__list *l;
    ring_kind kind;
    cut *cut;
    operand *operand;
    int32_t n_cuts, n_operands, n_columns;
    int64_t cut_room, operand_room;
    int64_t elems; /* elements of a bucket */
    int32_t slots;
    int32_t *place[2]; /* place[in_host][slot * n_columns + column]: buffers on the device (0) and in host memory (1) */
    int64_t *bytes;    /* for each column: bytes of one buffer */
    /* first bucket that is not yet copied from home; first bucket that is not yet copied from host memory to the device
     */
    bucket fetched, brought;
    zr__id pace; /* step for which the copies of the first buckets wait */
} ring;

/* Return whether the ring's steps compute or copy in host memory. */
static bool is_in_host(const ring *r)
{
    return r->kind == RING_HOST || r->kind == RING_PASSED;
}

/* Return whether a step of the ring needs a copy of a buffer, because it cannot use the buffer in its memory space. */
static bool is_elsewhere(const zr__list *l, ring_kind kind, int32_t buffer)
{
    if (kind != RING_HOST) return is_away(l, buffer);
    return is_state(l, buffer, true) && l->schedule->buffer[buffer].space != ZR_SPACE_HOST;
}

static zr_range part_of(const ring *r, const cut *c, int64_t index, zr_range range)
{
    if (r->kind == RING_PARTS) return range;
    const int64_t left = c->step.range.count - index * r->elems;
    range.first += index * r->elems;
    range.count = left < r->elems ? left : r->elems;
    return range;
}

static zr_use at_home(const ring *r, const cut *c, int64_t index, zr_use use)
{
    use.range = part_of(r, c, index, use.range);
    return use;
}

/* Return the elements of an operand that belong to a bucket, in the bucket's slot of the ring, on the device or in host
 * memory (`in_host`). */
static zr_use in_ring(const ring *r, const operand *o, const bucket *b, zr_use use, bool in_host)
{
    const int64_t at = b->number % r->slots * r->n_columns + o->column;
    int32_t *place = &r->place[in_host][at];
    if (*place == ZR_NONE)
        *place = zr__list_buffer(r->l, in_host ? ZR_SPACE_HOST : ZR_SPACE_DEVICE,
                                 r->l->schedule->buffer[o->home.buffer].category, -1, "states in passing",
                                 r->bytes[o->column]);
    use = at_home(r, &r->cut[b->cut], b->index, use);
    use.buffer = *place;
    if (r->kind != RING_PARTS) use.range = (zr_range){.count = use.range.count};
    return use;
}

static void next_bucket(const ring *r, bucket *b)
{
    b->number++;
    if (++b->index < r->cut[b->cut].buckets) return;
    b->index = 0;
    b->cut++;
}

static zr__id copy(const ring *r, const bucket *b, zr_range range, zr_use from, zr_use to)
{
    const cut *c = &r->cut[b->cut];
    const zr_space space = space_of(r->l, &to);
    const zr_stream stream = r->kind == RING_HOST && space == ZR_SPACE_DEVICE
                                 ? ZR_STREAM_RETURN
                                 : zr__copy_stream(space_of(r->l, &from), space);
    return zr__list_copy(r->l, stream, c->step.unit, part_of(r, c, b->index, range), from, to);
}

/* Write the steps that copy a bucket from its home. */
static void fetch_bucket(const ring *r, const bucket *b)
{
    const cut *c = &r->cut[b->cut];
    for (int32_t i = c->operands; i < c->operands + c->n_operands && r->l->status == ZR_OK; i++) {
        const operand *o = &r->operand[i];
        if (o->fetched.buffer == ZR_NONE || space_of(r->l, &o->home) == ZR_SPACE_DEVICE) continue;
        r->l->when = o->when;
        const zr_use from = at_home(r, c, b->index, o->fetched),
                     to = in_ring(r, o, b, o->fetched, is_passed(r->l, &from));
        const zr__id id = copy(r, b, o->fetched_range, from, to);
        if (b->number < r->slots) zr__list_pace(r->l, id, r->pace);
    }
}

/* Write the steps that copy a bucket from host memory, where it has arrived from disk, to the device. If the host's
 * processors update it, copy from the device to host memory instead. */
static void bring_bucket(const ring *r, const bucket *b)
{
    const cut *c = &r->cut[b->cut];
    for (int32_t i = c->operands; i < c->operands + c->n_operands && r->l->status == ZR_OK; i++) {
        const operand *o = &r->operand[i];
        const bool down = space_of(r->l, &o->home) == ZR_SPACE_DEVICE, up = !is_in_host(r) && is_passed(r->l, &o->home);
        if (o->fetched.buffer == ZR_NONE || !(down || up)) continue;
        r->l->when = o->when;
        (void)copy(r, b, o->fetched_range,
                   down ? at_home(r, c, b->index, o->fetched) : in_ring(r, o, b, o->fetched, true),
                   in_ring(r, o, b, o->fetched, down));
    }
}

static void store_bucket(const ring *r, const bucket *b)
{
    const cut *c = &r->cut[b->cut];
    for (int32_t i = c->operands; i < c->operands + c->n_operands && r->l->status == ZR_OK; i++) {
        const operand *o = &r->operand[i];
        if (o->stored.buffer == ZR_NONE) continue;
        r->l->when = c->step.when;
        zr_use from = in_ring(r, o, b, o->stored, is_in_host(r));
        if (is_passed(r->l, &o->home) && !is_in_host(r)) {
            const zr_use passed = in_ring(r, o, b, o->stored, true);
            (void)copy(r, b, o->stored_range, from, passed);
            from = passed;
        }
        (void)copy(r, b, o->stored_range, from, at_home(r, c, b->index, o->stored));
    }
}

/* Return whether a cut writes elements home that a later cut of the ring fetches. */
static bool feeds(const ring *r, const cut *c, const cut *later)
{
    for (int32_t i = c->operands; i < c->operands + c->n_operands; i++)
        for (int32_t k = later->operands; k < later->operands + later->n_operands && c != later; k++)
            if (r->operand[i].stored.buffer != ZR_NONE && r->operand[i].stored.buffer == r->operand[k].fetched.buffer)
                return true;
    return false;
}

/* Write the copies from home of all buckets for which the ring has room after the bucket `done` is computed and written
 * home. Stop at a bucket that needs elements which a bucket before it will write. With `done` NULL, write the copies of
 * the first buckets. */
static void fetch_ahead(ring *r, const bucket *done)
{
    const int64_t end = r->slots + (done ? done->number + 1 : 0);
    for (; r->fetched.cut < r->n_cuts && r->fetched.number < end; next_bucket(r, &r->fetched)) {
        for (int32_t c = done ? done->cut : 0; c < r->fetched.cut; c++) {
            const bool open = !done || c > done->cut || done->index + 1 < r->cut[c].buckets;
            if (open && feeds(r, &r->cut[c], &r->cut[r->fetched.cut])) return;
        }
        fetch_bucket(r, &r->fetched);
    }
}

/* Replace the operands of a step by their buffers in the ring for one bucket. `from` are the step's original uses. */
static void set_uses(const ring *r, const bucket *b, const zr_use *from, int32_t at, int32_t n)
{
    const cut *c = &r->cut[b->cut];
    for (int32_t u = 0; u < n; u++) {
        zr_use use = from[u];
        const operand *o = NULL;
        for (int32_t i = c->operands; i < c->operands + c->n_operands; i++)
            if (r->operand[i].home.buffer == use.buffer) o = &r->operand[i];
        if (o)
            use = in_ring(r, o, b, use, is_in_host(r));
        else if (use.range.count > 0)
            use = at_home(r, c, b->index, use);
        r->l->use[at + u] = use;
    }
}

/* Return whether a step belongs to a ring. Steps that read states at their homes do not: SAVE, and a COPY that begins a
 * save or a gather or that copies a gradient home. On a device with its own memory, a COPY from or to disk belongs to
 * RING_PASSED, because its bytes pass through host memory. */
static bool belongs(const zr__list *l, ring_kind kind, const zr_step *step)
{
    const bool updates =
        step->kind == ZR_STEP_UPDATE || step->kind == ZR_STEP_SQUARE_UPDATE || step->kind == ZR_STEP_DIRECTION;
    const ring_kind its = is_on_host(l, step)          ? RING_HOST
                          : updates                    ? RING_UPDATES
                          : step->kind == ZR_STEP_CAST ? RING_CASTS
                                                       : RING_PARTS;
    const zr_use *use = &l->use[step->uses];
    bool away = false;
    if (step->kind == ZR_STEP_COPY)
        for (int side = 0; side < 2 && kind == RING_PASSED && step->when != ZR_WHEN_SAVE; side++)
            away |= is_away(l, use[side].buffer) && is_passed(l, &use[side]) &&
                    space_of(l, &use[!side]) == ZR_SPACE_DEVICE && use[!side].buffer >= 0;
    if (step->kind == ZR_STEP_COPY) return away;
    if (step->kind == ZR_STEP_SAVE || kind != its) return false;
    for (int32_t u = 0; u < step->n_uses; u++) away |= is_away(l, use[u].buffer);
    return away; /* an update on the host always has optimizer states off the device */
}

/* Write the step that computes a bucket. For the last bucket, change the original step instead of inserting a new
 * one. */
static void compute_bucket(const ring *r, const bucket *b)
{
    enum { USES_MAX = 64 };
    zr__list *l = r->l;
    const cut *c = &r->cut[b->cut];
    const bool last = b->index + 1 == c->buckets;
    zr_use from[USES_MAX];
    zr__id id = c->first;
    l->when = c->step.when;
    if (!last) {
        id = zr__list_step(l, c->step.kind, c->step.stream, c->step.unit);
        zr_step *made = zr__list_newest(l);
        *made = c->step;
        made->uses = l->n_uses;
        made->n_uses = 0;
        for (int32_t u = 0; u < c->step.n_uses; u++) zr__list_use(l, id, l->use[c->step.uses + u]);
        zr__list_pace_as(l, id, c->first);
    }
    for (bool more = true; more && l->status == ZR_OK; id = l->link[id].next) {
        zr_step *step = &l->step[id];
        more = last && id != c->last;
        if (more && !belongs(l, r->kind, step))
            continue; /* a step between the reductions of two micro-batches stays as it is */
        if (step->n_uses > USES_MAX) {
            l->status = ZR_FAIL(ZR_ERR_INTERNAL, "a step %s of %d operands cannot be rewritten",
                                zr_step_kind_name(step->kind), step->n_uses);
            return;
        }
        for (int32_t u = 0; u < step->n_uses; u++) from[u] = l->use[step->uses + u];
        step->range = part_of(r, c, b->index, step->range);
        if (r->kind == RING_PASSED) step->stream = ZR_STREAM_COPY;
        if (r->kind == RING_HOST) step->stream = ZR_STREAM_HOST;
        set_uses(r, b, from, step->uses, step->n_uses);
        if (!more) return;
    }
}

/* ---- the steps of a ring ----------------------------------------------------------------------- */

static bool gathers(const zr_step *step)
{
    return step->kind == ZR_STEP_GATHER_GRAD;
}

static bool reduces(const zr_step *step)
{
    return step->kind == ZR_STEP_REDUCE_SCATTER;
}

/* Return the elements that are copied for a step's u-th use, and set *range to their range in the unit. They belong to
 * this rank or, if the use is of all ranks' elements (zr_use.each), to all ranks of the group. */
static zr_use copied_use(const zr__list *l, const zr_step *step, int32_t u, zr_range *range)
{
    const zr_use use = l->use[step->uses + u];
    const zr_state *sums = &l->plan->unit[step->unit].sums;
    const zr_stride by = step->range.by;
    *range = step->range;
    if (!use.each) return use;
    *range = (zr_range){.count = by.elems * l->plan->group[by.group].size, .by = step->range.outer};
    return zr__use_state(sums, *range, false, false);
}

static bool is_larger(const zr_use *a, const zr_use *b)
{
    return b->buffer == ZR_NONE || a->range.count > b->range.count;
}

/* Add a step's offloaded operands to the newest cut. Of the steps of a cut, only the first decides which elements are
 * fetched. */
static void add_operands(ring *r, const zr_step *step)
{
    zr__list *l = r->l;
    cut *c = &r->cut[r->n_cuts - 1];
    const int32_t before = c->n_operands;
    for (int32_t u = 0; u < step->n_uses && l->status == ZR_OK; u++) {
        const zr_use use = l->use[step->uses + u];
        if (!is_elsewhere(l, r->kind, use.buffer)) continue;
        operand *o = NULL;
        for (int32_t i = 0; i < c->n_operands; i++)
            if (r->operand[c->operands + i].home.buffer == use.buffer) o = &r->operand[c->operands + i];
        if (!o) {
            if (!zr__grow(&l->status, (void **)&r->operand, r->n_operands, &r->operand_room, sizeof *r->operand))
                return;
            o = &r->operand[r->n_operands++];
            const int32_t column = r->kind == RING_PARTS ? c->n_operands : u;
            *o = (operand){.column = column, .home = use, .when = step->when};
            o->fetched.buffer = o->stored.buffer = ZR_NONE;
            c->n_operands++;
            if (column >= r->n_columns) r->n_columns = column + 1;
        }
        zr_range range;
        const zr_use all = copied_use(l, step, u, &range);
        /* Which old values to fetch: for an update on the device, those of its outputs too, since it may leave elements
         * unchanged (on the host it writes every element of an output that it does not read); for a reduction, the
         * sums, except in the first micro-batch; for a gather, only this rank's elements. */
        const bool adds = reduces(step) && u > 0 && step->adds;
        bool reads = (use.reads && !(gathers(step) && u > 0)) || r->kind == RING_UPDATES;
        if (adds) reads = l->plan->rounds > 1 || step->micro > 0;
        const bool fetched = reads && &r->operand[c->operands + before] <= o;
        if (fetched && is_larger(&all, &o->fetched)) {
            o->fetched = all;
            o->fetched_range = range;
            if (adds && l->plan->rounds > 1) o->when = ZR_WHEN_LATER;
        }
        if (use.writes && !(reduces(step) && u == 0) && is_larger(&all, &o->stored)) {
            o->stored = all;
            o->stored_range = range;
        }
    }
}

/* Add a step to the ring. With RING_PARTS, a step that follows the previous cut and has the same operands joins this
 * cut. The reductions of several micro-batches in a round (ZR_ACCUM_LAYER) also join, so that the sums are written home
 * once. */
static void add_cut(ring *r, zr__id id)
{
    zr__list *l = r->l;
    const zr_step *step = &l->step[id];
    cut *newest = r->n_cuts > 0 ? &r->cut[r->n_cuts - 1] : NULL;
    const bool joins = r->kind == RING_PARTS && newest && step->unit == newest->step.unit &&
                       (l->link[id].prev == newest->last || (step->micro > 0 && reduces(step)));
    if (joins) {
        newest->last = id;
        add_operands(r, step);
        return;
    }
    if (!zr__grow(&l->status, (void **)&r->cut, r->n_cuts, &r->cut_room, sizeof *r->cut)) return;
    r->cut[r->n_cuts++] = (cut){.first = id, .last = id, .step = *step, .buckets = 1, .operands = r->n_operands};
    if (r->kind != RING_PARTS && step->range.count > r->elems) r->elems = step->range.count;
    add_operands(r, step);
}

/* Find the size of the ring's buffers, and the number of buckets of each cut. */
static zr_status size_ring(ring *r)
{
    const zr_homes *home = &r->l->plan->layout.home;
    r->slots = home->buckets;
    /* A rank's part may be large, so this ring has only two buffers: a step computes with one while the other is copied
     * from or to its home. */
    if (r->kind == RING_PARTS && r->slots > 2) r->slots = 2;
    if (r->elems > home->bucket_elems) r->elems = home->bucket_elems;
    const size_t places = (size_t)r->slots * (size_t)r->n_columns;
    r->place[0] = zr_alloc(sizeof(int32_t) * (2 * places + 1));
    r->bytes = zr_alloc(sizeof(int64_t) * (size_t)(r->n_columns + 1));
    ZR_CHECK(r->place[0] && r->bytes, ZR_ERR_MEMORY, "no memory for a ring of %zu buffers", places);
    r->place[1] = r->place[0] + places;
    for (size_t i = 0; i < 2 * places; i++) r->place[0][i] = ZR_NONE;
    for (int32_t k = 0; k < r->n_cuts; k++) {
        cut *c = &r->cut[k];
        if (r->kind != RING_PARTS) c->buckets = (c->step.range.count - 1) / r->elems + 1;
        for (int32_t i = c->operands; i < c->operands + c->n_operands; i++) {
            const operand *o = &r->operand[i];
            const int64_t count = part_of(r, c, 0, c->step.range).count;
            const int64_t bytes = r->kind == RING_PARTS ? r->l->plan->persistent[o->home.buffer].bytes
                                                        : zr_dtype_span(o->home.dtype, count);
            if (bytes > r->bytes[o->column]) r->bytes[o->column] = bytes;
        }
    }
    return ZR_OK;
}

/* Return the step before which the first buckets are fetched. In a round it is the first step that computes with them,
 * so that their buffers are occupied as late as possible. After the last round, it is the earliest step after all
 * changes to offloaded states. */
static zr__id find_begin(const ring *r, bool after_end)
{
    const zr__list *l = r->l;
    zr__id id = r->cut[0].first;
    for (bool fixed = !after_end; !fixed;) {
        const zr__id prev = l->link[id].prev;
        const zr_step *step = &l->step[prev];
        fixed = step->kind == ZR_STEP_END;
        for (int32_t u = step->uses; u < step->uses + step->n_uses; u++)
            fixed |= l->use[u].writes && is_away(l, l->use[u].buffer);
        if (!fixed) id = prev;
    }
    return id;
}

/* Return the last compute step before the step `id`, or ZR_NONE if no compute step precedes it. */
static zr__id computed_before(const zr__list *l, zr__id id)
{
    for (id = l->link[id].prev; id != ZR_NONE; id = l->link[id].prev) {
        const zr_step *step = &l->step[id];
        const bool runs = step->kind != ZR_STEP_REPEAT && step->kind != ZR_STEP_END;
        if (runs && step->stream == ZR_STREAM_COMPUTE) break;
    }
    return id;
}

/* Rewrite all steps that use a ring's state, so that they use the ring's buffers. */
static void turn_ring(ring *r, bool after_end)
{
    zr__list *l = r->l;
    const zr__id begin = find_begin(r, after_end);
    r->pace = computed_before(l, begin);
    zr__list_seek(l, begin);
    fetch_ahead(r, NULL);
    for (bucket b = {0}; b.cut < r->n_cuts && l->status == ZR_OK; next_bucket(r, &b)) {
        const cut *c = &r->cut[b.cut];
        if (b.index == 0) zr__list_seek(l, c->first);
        /* copy the next bucket to the device while this one is computed; copy only this one to the host, since the
         * gradient of the next one may not be complete */
        const int64_t ahead = r->kind == RING_HOST ? 0 : 1;
        for (; r->brought.number < r->fetched.number && r->brought.number <= b.number + ahead;
             next_bucket(r, &r->brought))
            bring_bucket(r, &r->brought);
        compute_bucket(r, &b);
        if (b.index + 1 == c->buckets) zr__list_seek(l, l->link[c->last].next);
        store_bucket(r, &b);
        fetch_ahead(r, &b);
    }
    zr__list_seek(l, ZR_NONE);
    l->when = ZR_WHEN_ALWAYS;
}

/* Rewrite the steps of a ring from the step `id` to the end of its section of the list. Return the first step of the
 * next section, or ZR_NONE. */
static zr__id rewrite_section(zr__list *l, ring_kind kind, zr__id id, bool after_end)
{
    ring r = {.l = l, .kind = kind};
    for (bool ends = false; id != ZR_NONE && !ends && l->status == ZR_OK; id = l->link[id].next) {
        ends = l->step[id].kind == ZR_STEP_END;
        if (belongs(l, kind, &l->step[id])) add_cut(&r, id);
    }
    if (r.n_cuts > 0 && l->status == ZR_OK) l->status = size_ring(&r);
    if (r.n_cuts > 0 && l->status == ZR_OK) turn_ring(&r, after_end);
    zr_free(r.cut);
    zr_free(r.operand);
    zr_free(r.place[0]);
    zr_free(r.bytes);
    return id;
}

static void rewrite_rings(zr__list *l)
{
    const zr_homes *home = &l->plan->layout.home;
    if (home->param == ZR_SPACE_DEVICE && home->grad == ZR_SPACE_DEVICE && home->optim == ZR_SPACE_DEVICE) return;
    for (int kind = 0; kind < RINGS; kind++) {
        zr__id rest = rewrite_section(l, (ring_kind)kind, l->first, false);
        if (rest != ZR_NONE && l->status == ZR_OK) (void)rewrite_section(l, (ring_kind)kind, rest, true);
    }
}

const zr__policy zr__policy_residency = {.rewrite = rewrite_rings};
