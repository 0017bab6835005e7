/* The policy of offloading: model states may be stored in host memory instead of device memory (zr_layout.home). All
 * other files write steps as if an offloaded state could be used in host memory. This file splits each step that
 * computes with an offloaded state into buckets (ZeRO-Offload, Ren et al. 2021).
 *
 * Before a bucket's computation, its part of the states is copied to the device. Afterwards the states that the
 * computation writes are copied back. At most two buckets are on the device: one is computed while the next is
 * prefetched. */
#include "plan/policy/policy.h"

/* Maximum number of operands of a step. An update has eight: sums, master, four slots, parameters, verdict. */
enum { USES_MAX = 8 };

static zr_status check_homes_built(const zr_layout *l)
{
    ZR_CHECK(l->home.param == ZR_SPACE_DEVICE && l->home.grad == ZR_SPACE_DEVICE, ZR_ERR_UNSUPPORTED,
             "parameters in space \"%s\", gradients in \"%s\": \"device\" is built", zr_space_name(l->home.param),
             zr_space_name(l->home.grad));
    ZR_CHECK(l->home.optim == ZR_SPACE_DEVICE || l->home.optim == ZR_SPACE_HOST, ZR_ERR_UNSUPPORTED,
             "optimizer states in space \"%s\": \"device\" and \"host\" are built", zr_space_name(l->home.optim));
    return ZR_OK;
}

/* Return whether a buffer stores an optimizer state outside device memory, that is, an offloaded state. */
static bool is_away(const zr__list *l, int32_t buffer)
{
    if (buffer == ZR_NONE || buffer >= l->plan->n_persistent) return false;
    const zr_buffer *b = &l->plan->persistent[buffer];
    return b->category == ZR_CATEGORY_OPTIM && b->unit >= 0 && b->space != ZR_SPACE_DEVICE;
}

/* Return whether a step computes with an offloaded state. The result is false for COPY and SAVE, which access states in
 * host memory directly. */
static bool computes_away(const zr__list *l, const zr_step *step)
{
    bool away = false;
    if (step->kind == ZR_STEP_COPY || step->kind == ZR_STEP_SAVE) return false;
    for (int32_t u = step->uses; u < step->uses + step->n_uses; u++) away |= is_away(l, l->use[u].buffer);
    return away;
}

/* A step that is split into buckets. Each bucket has `elems` elements of the step's range; the last bucket may have
 * fewer. */
typedef struct cut {
    zr__list *l;
    zr__id id; /* id of the original step, which becomes the last bucket */
    zr_step step;
    zr_use use[USES_MAX];
    bool away[USES_MAX];
    int64_t elems;
    /* last compute step before the original step, for which the first two buckets' copies to the device wait */
    zr__id pace;
    /* place[bucket % 2][operand]: buffer on the device that holds the bucket of this operand */
    int32_t place[2][USES_MAX];
} cut;

static int64_t count_of(const cut *c, int64_t bucket)
{
    const int64_t left = c->step.range.count - bucket * c->elems;
    return left < c->elems ? left : c->elems;
}

/* Return a bucket's part of `range`, which is a range of the original step. */
static zr_range part_of(const cut *c, int64_t bucket, zr_range range)
{
    range.first += bucket * c->elems;
    range.count = count_of(c, bucket);
    return range;
}

/* Return the part of operand i of the original step that belongs to a bucket, in the buffer where the state is
 * stored. */
static zr_use at_home(const cut *c, int64_t bucket, int i)
{
    zr_use use = c->use[i];
    if (use.range.count == 0) return use; /* an operand that is a whole buffer is not split */
    use.range = part_of(c, bucket, use.range);
    return use;
}

/* Return the part of operand i of the original step that belongs to a bucket. For an offloaded state, return the
 * bucket's buffer on the device instead. */
static zr_use on_device(const cut *c, int64_t bucket, int i)
{
    zr_use use = at_home(c, bucket, i);
    if (!c->away[i]) return use;
    use.buffer = c->place[bucket % 2][i];
    use.range = (zr_range){.count = use.range.count};
    return use;
}

/* Write a COPY of a bucket of an offloaded state, from the state's home to the device or back. */
static zr__id copy_bucket(const cut *c, int64_t bucket, zr_use from, zr_use to)
{
    return zr__list_copy(c->l, ZR_STREAM_COPY, c->step.unit, part_of(c, bucket, c->step.range), from, to);
}

/* Write the copies of a bucket to the device. Each operand has two buffers on the device, for even and for odd buckets.
 * A bucket waits for the previous bucket that used the same buffer. */
static void fetch_bucket(cut *c, int64_t bucket)
{
    for (int i = 0; i < c->step.n_uses; i++) {
        if (!c->away[i]) continue;
        const int64_t bytes = zr_dtype_span(c->use[i].dtype, count_of(c, bucket));
        if (bucket < 2)
            c->place[bucket][i] =
                zr__list_buffer(c->l, ZR_SPACE_DEVICE, ZR_CATEGORY_OPTIM, c->step.unit, "states on the device", bytes);
        const zr__id copy = copy_bucket(c, bucket, at_home(c, bucket, i), on_device(c, bucket, i));
        zr__list_pace_as(c->l, copy, c->id);
        zr__list_pace(c->l, copy, bucket < 2 ? c->pace : ZR_NONE);
    }
}

static void store_bucket(const cut *c, int64_t bucket)
{
    for (int i = 0; i < c->step.n_uses; i++)
        if (c->away[i] && c->use[i].writes)
            (void)copy_bucket(c, bucket, on_device(c, bucket, i), at_home(c, bucket, i));
}

/* Write the step that computes one bucket. For the last bucket, change the original step instead of inserting a new
 * one. */
static void compute_bucket(const cut *c, int64_t bucket, bool last)
{
    zr__list *l = c->l;
    if (l->status != ZR_OK) return;
    if (last) {
        for (int i = 0; i < c->step.n_uses; i++) l->use[c->step.uses + i] = on_device(c, bucket, i);
        l->step[c->id].range = part_of(c, bucket, c->step.range);
        return;
    }
    const zr__id id = zr__list_step(l, c->step.kind, c->step.stream, c->step.unit);
    zr_step *made = zr__list_newest(l);
    *made = c->step;
    made->range = part_of(c, bucket, c->step.range);
    made->uses = l->n_uses;
    made->n_uses = 0;
    for (int i = 0; i < c->step.n_uses; i++) zr__list_use(l, id, on_device(c, bucket, i));
    zr__list_pace_as(l, id, c->id);
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

/* Return how many elements of a rank's part the step processes at a time: that part's share of a bucket. This is the
 * bucket size of gradient reductions (rounded up, see zr_plan_bucket_elems) divided by the number of parts of the unit,
 * but at most the whole part. */
static int64_t bucket_elems(const zr_plan *plan, const zr_step *step)
{
    const int64_t parts = plan->unit[step->unit].padded_elems / step->range.count;
    const int64_t elems = zr_plan_bucket_elems(plan->layout.reduce_bucket_elems, (int)parts) / parts;
    return elems < step->range.count ? elems : step->range.count;
}

static void cut_up(zr__list *l, zr__id id)
{
    cut c = {.l = l, .id = id, .step = l->step[id], .pace = computed_before(l, id)};
    const zr__id behind = l->link[id].next;
    if (c.step.n_uses > USES_MAX || c.step.unit < 0 || c.step.range.count == 0) {
        l->status = ZR_FAIL(ZR_ERR_INTERNAL, "a step %s of %d operands cannot be cut into buckets",
                            zr_step_kind_name(c.step.kind), c.step.n_uses);
        return;
    }
    c.elems = bucket_elems(l->plan, &c.step);
    const int64_t n = (c.step.range.count - 1) / c.elems + 1;
    for (int i = 0; i < c.step.n_uses; i++) {
        c.use[i] = l->use[c.step.uses + i];
        c.away[i] = is_away(l, c.use[i].buffer);
    }
    zr__list_seek(l, id);
    l->when = c.step.when;
    fetch_bucket(&c, 0);
    for (int64_t k = 0; k < n && l->status == ZR_OK; k++) {
        if (k + 1 < n) fetch_bucket(&c, k + 1);
        compute_bucket(&c, k, k + 1 == n);
        if (k + 1 == n) zr__list_seek(l, behind);
        store_bucket(&c, k);
    }
    zr__list_seek(l, ZR_NONE);
    l->when = ZR_WHEN_ALWAYS;
}

static void cut_steps_away(zr__list *l)
{
    if (l->plan->layout.home.optim == ZR_SPACE_DEVICE) return;
    for (zr__id id = l->first, next; id != ZR_NONE && l->status == ZR_OK; id = next) {
        next = l->link[id].next;
        if (computes_away(l, &l->step[id])) cut_up(l, id);
    }
}

const zr__policy zr__policy_residency = {.check = check_homes_built, .rewrite = cut_steps_away};
