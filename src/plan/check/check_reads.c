/* Part of the proof of a plan: checks that every byte that a step reads has been written before. "Before" means earlier
 * in the list of steps, since check_order.c proves that conflicting uses have this order.
 *
 * The first byte of a range may differ between ranks: it is a stride times the rank's number in a group. Written bytes
 * are recorded for each combination of strides, as a set of byte ranges ("stretches"). The union of the ranges that all
 * members of a group write is recorded without the stride over this group, so the number of records does not grow with
 * the number of ranks. */
#include "base/core/grow.h"
#include "base/number/sorted.h"
#include "plan/check/check.h"

#include <string.h>

/* Distance in bytes between the ranges of consecutive members of a group. `each`: whether the use covers the ranges of
 * all members and not only this rank's range. */
typedef struct stride {
    int64_t bytes;
    int32_t group;
    bool each;
} stride;

/* A range of bytes of a buffer, with at most two strides. The strides are sorted by group. */
typedef struct spot {
    int32_t buffer;
    bool summed; /* whether the bytes are sums over all ranks instead of this rank's own values */
    bool old;    /* whether the bytes are parameters to which no difference has been added since the last update */
    int n_strides;
    stride by[2];
    int64_t begin, end;
} spot;

typedef struct stretch {
    int64_t begin, end;
} stretch;

/* The bytes of a buffer that were written with one combination of strides, the strides of `at`. `stretch` lists them as
 * disjoint ranges in ascending order, with gaps between the ranges. */
typedef struct written {
    spot at; /* only its fields buffer, summed, old, n_strides and by are used */
    stretch *stretch;
    int32_t n, next; /* `next`: index in state.list of the next entry for the same buffer, or -1 */
    int64_t room;
} written;

typedef struct state {
    const zr__proof *p;
    written *list;
    int32_t n, *newest; /* `newest[buffer]`: index in `list` of the buffer's newest entry, or -1 */
    int64_t room;
} state;

/* ---- spots ------------------------------------------------------------------------------------- */

static void add_stride(const zr_plan *plan, spot *at, zr_stride by, zr_dtype dtype, bool each)
{
    if (by.elems == 0 || plan->group[by.group].size == 1) return;
    const stride its = {zr_dtype_span(dtype, by.elems), by.group, each};
    bool first = at->n_strides == 1 && its.group < at->by[0].group;
    if (first) at->by[1] = at->by[0];
    at->by[first ? 0 : at->n_strides] = its;
    at->n_strides++;
}

static spot spot_of(const zr__proof *p, const zr_use *use, bool summed)
{
    spot at = {.buffer = use->buffer, .summed = summed, .end = p->s->buffer[use->buffer].bytes};
    if (use->range.count == 0) return at;
    at.begin = zr_dtype_span(use->dtype, use->range.first);
    at.end = at.begin + zr_dtype_span(use->dtype, use->range.count);
    add_stride(p->plan, &at, use->range.by, use->dtype, use->each);
    add_stride(p->plan, &at, use->range.outer, use->dtype, false);
    return at;
}

/* Return the spot without its stride i, extended over the ranges of all members of that stride's group. */
static spot along(const zr_plan *plan, spot at, int i)
{
    at.end += (plan->group[at.by[i].group].size - 1) * at.by[i].bytes;
    if (i == 0) at.by[0] = at.by[1];
    at.n_strides--;
    return at;
}

static bool same_strides(const spot *a, const spot *b)
{
    bool same = a->summed == b->summed && a->old == b->old && a->n_strides == b->n_strides;
    for (int i = 0; same && i < a->n_strides; i++)
        same = a->by[i].bytes == b->by[i].bytes && a->by[i].group == b->by[i].group && a->by[i].each == b->by[i].each;
    return same;
}

static written *find_written(const state *k, const spot *at)
{
    for (int32_t i = k->newest[at->buffer]; i >= 0; i = k->list[i].next)
        if (same_strides(&k->list[i].at, at)) return &k->list[i];
    return NULL;
}

/* ---- what is written --------------------------------------------------------------------------- */

/* Return the index of the first stretch that ends at or after a byte. */
static int32_t first_behind(const written *w, int64_t byte)
{
    return (int32_t)zr__sorted_below(w->stretch, w->n, sizeof(stretch), offsetof(stretch, end), byte);
}

/* Insert a stretch, merged with all stretches that it touches. Set *joined to the merged stretch. */
static zr_status insert_stretch(written *w, int64_t begin, int64_t end, stretch *joined)
{
    const int32_t at = first_behind(w, begin);
    int32_t stop = at;
    *joined = (stretch){begin, end};
    for (; stop < w->n && w->stretch[stop].begin <= end; stop++) {
        if (w->stretch[stop].begin < joined->begin) joined->begin = w->stretch[stop].begin;
        if (w->stretch[stop].end > joined->end) joined->end = w->stretch[stop].end;
    }
    ZR_GROW(w->stretch, w->room, w->n + 1, "ranges to check");
    memmove(w->stretch + at + 1, w->stretch + stop, (size_t)(w->n - stop) * sizeof *w->stretch);
    w->stretch[at] = *joined;
    w->n += 1 - (stop - at);
    return ZR_OK;
}

static zr_status written_entry(state *k, const spot *at, written **w)
{
    *w = find_written(k, at);
    if (*w) return ZR_OK;
    ZR_GROW(k->list, k->room, k->n + 1, "buffers to check");
    *w = &k->list[k->n];
    **w = (written){.at = *at, .next = k->newest[at->buffer]};
    k->newest[at->buffer] = k->n++;
    return ZR_OK;
}

static zr_status note_spot(state *k, spot at)
{
    written *w;
    stretch joined;
    if (at.begin >= at.end) return ZR_OK;
    ZR_TRY(written_entry(k, &at, &w));
    ZR_TRY(insert_stretch(w, at.begin, at.end, &joined));
    at.begin = joined.begin;
    at.end = joined.end;
    /* if the ranges of consecutive members touch, the ranges of all members are one stretch */
    for (int i = 0; i < at.n_strides; i++)
        if (at.by[i].each && at.end - at.begin >= at.by[i].bytes) return note_spot(k, along(k->p->plan, at, i));
    return ZR_OK;
}

/* Return whether all bytes of a spot are written. First search the record with the spot's strides. Then search the
 * missing bytes in the records that cover the ranges of all members of a group. */
static bool is_written(const state *k, const spot *at)
{
    const written *w = find_written(k, at);
    int64_t from = at->begin;
    for (int32_t i = w ? first_behind(w, from + 1) : 0; from < at->end; i++) {
        bool more = w && i < w->n && w->stretch[i].begin < at->end;
        spot gap = *at;
        gap.begin = from;
        gap.end = more ? w->stretch[i].begin : at->end;
        bool there = gap.begin >= gap.end;
        for (int s = 0; s < at->n_strides && !there; s++) {
            const spot wide = along(k->p->plan, gap, s);
            there = is_written(k, &wide);
        }
        if (!there) return false;
        from = more ? w->stretch[i].end : at->end;
    }
    return true;
}

/* ---- what is there at the beginning ------------------------------------------------------------ */

static zr_status note_whole(state *k, int32_t buffer, bool old)
{
    const int64_t end = buffer == ZR_NONE ? 0 : k->p->s->buffer[buffer].bytes;
    return note_spot(k, (spot){.buffer = buffer, .old = old, .end = end});
}

/* Mark the bytes of a unit's parameters as already written when the schedule begins. With `stale`, every rank stores
 * the whole unit, but has only the updates of its own part, or only this part is filled: mark only this part. A copy of
 * another role's unit then has no updates yet, nor has a unit whose updated parameters are in its master and pass as
 * records. Differences are added to the parameters before the update. */
static zr_status note_params(state *k, const zr_plan_unit *u, bool stale)
{
    const zr_plan *plan = k->p->plan;
    bool others = plan->shards_optim && plan->moves && !u->gathered;
    const bool records = u->trains && zr_dtype_is_record(u->weight_records) && k->p->kind != ZR_SCHEDULE_FILL;
    if (stale && records && u->differs) return note_whole(k, u->param.buffer, true);
    if (stale && (u->copied || records)) return ZR_OK;
    if (!stale || !others || u->param.buffer == ZR_NONE) return note_whole(k, u->param.buffer, false);
    const zr_use own = {.buffer = u->param.buffer, .dtype = u->param.dtype, .range = u->update};
    return u->update.count == 0 ? ZR_OK : note_spot(k, spot_of(k->p, &own, false));
}

/* In a persistent buffer of a whole gradient, mark the gaps between the parameters as written from the beginning: they
 * are always zero, and no op writes them. */
static zr_status note_gaps(state *k, int32_t unit)
{
    const zr_graph *g = k->p->graph;
    const zr_unit_info *info = zr_graph_unit_info(g, unit);
    const zr_plan_unit *u = &k->p->plan->unit[unit];
    if (u->grad.buffer == ZR_NONE || k->p->plan->shards_grad) return ZR_OK;
    const zr_dtype dtype = u->grad.dtype;
    int64_t end = 0;
    for (int32_t i = info->first_param; i < info->first_param + info->n_params; i++) {
        const zr_param_info *param = zr_graph_param(g, i);
        if (param->grad == ZR_NONE) continue;
        ZR_TRY(note_spot(
            k, (spot){.buffer = u->grad.buffer, .begin = end, .end = zr_dtype_span(dtype, param->unit_offset)}));
        end = zr_dtype_span(dtype, param->unit_offset + zr_shape_elems(&param->shape));
    }
    return note_spot(k, (spot){.buffer = u->grad.buffer, .begin = end, .end = zr_dtype_span(dtype, u->padded_elems)});
}

static zr_status note_beginning(state *k, bool stale)
{
    const zr_plan *plan = k->p->plan;
    for (int32_t i = 0; i < plan->n_units; i++) {
        const zr_plan_unit *u = &plan->unit[i];
        ZR_TRY(note_params(k, u, stale));
        ZR_TRY(note_whole(k, u->master.buffer, false));
        for (int s = 0; s < ZR_OPTIMIZER_SLOTS; s++) ZR_TRY(note_whole(k, u->slot[s].buffer, false));
        /* the engine takes errors for 0 where none are kept from the step before (zr_feedback.anew) */
        for (int s = 0; s < ZR_ERROR_LEVELS; s++) ZR_TRY(note_whole(k, u->error[s].buffer, false));
        if (k->p->kind == ZR_SCHEDULE_TRAIN) ZR_TRY(note_gaps(k, i));
    }
    for (int32_t b = 0; b < plan->n_persistent && k->p->kind == ZR_SCHEDULE_DECODE; b++)
        if (plan->persistent[b].category == ZR_CATEGORY_ACT) ZR_TRY(note_whole(k, b, false)); /* key-value caches */
    return ZR_OK;
}

/* ---- steps ------------------------------------------------------------------------------------- */

/* Return whether a step's i-th use reads bytes that earlier steps must have written. The result is false for scratch,
 * since the step itself writes it before reading it, and for the target of a move. For sums of gradients or of
 * micro-batches' squares it is true only from the second micro-batch on (`later`), because the first micro-batch
 * overwrites the buffer of the sums.
 */
static bool reads_written(const zr_step *step, int i, const zr_use *use, bool later)
{
    bool works = use->writes && use->range.count == 0 && !zr__adds_to_sums(step, later);
    bool moved = i > 0 && (zr__gathers(step) || zr__scatters(step) || (zr__reduces(step) && !(step->adds && later)));
    return use->reads && !works && !moved;
}

/* Return whether a use holds sums over all ranks or over several micro-batches. With reduce_once, the accumulators of
 * one rank do not count as sums. */
static bool is_summed(const zr_plan *plan, const zr_step *step, int i)
{
    const bool directed = step->unit >= 0 && plan->unit[step->unit].orthogonal; /* whether an update reads directions */
    bool applied = step->kind == ZR_STEP_SQUARE || (step->kind == ZR_STEP_UPDATE && !directed) ||
                   step->kind == ZR_STEP_SQUARE_UPDATE || step->kind == ZR_STEP_DIRECTION;
    const bool own = plan->reduce_once && plan->group[step->group].size == 1;
    /* Sums of an op's outputs over tensor-parallel ranks do not count, because the next gather reads them as ordinary
     * values. */
    if (zr__reduces(step)) return i > 0 && step->op < 0 && !own && (plan->moves || plan->sum_f32);
    return step->kind == ZR_STEP_GATHER_GRAD || (applied && i == 0 && (plan->moves || plan->sum_f32));
}

/* Forget the old parameters in a buffer: once differences are added to them, no others are made or added. */
static void forget_old(state *k, int32_t buffer)
{
    for (int32_t i = k->newest[buffer]; i >= 0; i = k->list[i].next)
        if (k->list[i].at.old) k->list[i].n = 0;
}

static zr_status check_step_reads(state *k, int32_t index, bool later)
{
    const zr_step *step = &k->p->s->step[index];
    const zr_use *use = k->p->s->use + step->uses;
    const bool copies = step->kind == ZR_STEP_COPY || step->kind == ZR_STEP_CAST;
    bool sums_copied = false; /* whether the step copies summed gradients, or casts them */
    for (int i = 0; i < step->n_uses; i++) {
        if (use[i].buffer == ZR_NONE || !reads_written(step, i, &use[i], later)) continue;
        spot at = spot_of(k->p, &use[i], is_summed(k->p->plan, step, i));
        /* differences are to the parameters of the step before */
        at.old = step->kind == ZR_STEP_CAST && i == 2 && k->p->s->buffer[use[i].buffer].category == ZR_CATEGORY_PARAM;
        bool there = is_written(k, &at);
        /* the input of a reduction may already be sums over fewer ranks; a copy of sums counts as sums */
        if (i == 0 && (zr__reduces(step) || copies)) {
            at.summed = true;
            const bool sums = is_written(k, &at);
            sums_copied = sums && copies;
            there |= sums;
        }
        ZR_CHECK(there, ZR_ERR_INTERNAL,
                 "step %d reads buffer %s, of which nothing has written all of the bytes from %lld to %lld", index,
                 k->p->s->buffer[at.buffer].what, (long long)at.begin, (long long)at.end);
    }
    if (step->kind == ZR_STEP_CAST) forget_old(k, use[1].buffer);
    for (int i = 0; i < step->n_uses; i++) {
        if (use[i].buffer == ZR_NONE || !use[i].writes) continue;
        ZR_TRY(note_spot(k, spot_of(k->p, &use[i], sums_copied || is_summed(k->p->plan, step, i))));
    }
    return ZR_OK;
}

/* Check that the schedule has written the results that the caller reads after the schedule. After a flush or a fill
 * these are also the copies of other roles' units, and units whose parameters pass as records. */
static zr_status check_results(const state *k)
{
    const zr__proof *p = k->p;
    const bool flushes = p->kind == ZR_SCHEDULE_FLUSH || p->kind == ZR_SCHEDULE_FILL;
    for (int32_t u = 0; u < p->plan->n_units && flushes; u++) {
        const zr_plan_unit *unit = &p->plan->unit[u];
        const zr_state *param = &unit->param;
        const zr_use all = {.buffer = param->buffer, .dtype = param->dtype, .range.count = param->range.count};
        const bool renewed = unit->copied || (zr_dtype_is_record(unit->weight_records) && !unit->gathered);
        const spot whole = renewed ? spot_of(p, &all, false) : (spot){0};
        ZR_CHECK(!renewed || is_written(k, &whole), ZR_ERR_INTERNAL, "unit %d is not brought up to date by a flush", u);
    }
    spot at = {.buffer = p->plan->verdict, .end = sizeof(zr_verdict)};
    if (p->kind == ZR_SCHEDULE_DECODE) {
        const zr_type *type = &zr_graph_value(p->graph, zr_graph_get_output(p->graph))->type;
        at = (spot){.buffer = p->plan->output, .end = zr_dtype_span(type->dtype, zr_shape_elems(&type->shape))};
    }
    bool wanted = p->kind == ZR_SCHEDULE_TRAIN || p->kind == ZR_SCHEDULE_DECODE;
    ZR_CHECK(!wanted || is_written(k, &at), ZR_ERR_INTERNAL,
             "buffer %s has a result of the schedule, but nothing has written it", p->s->buffer[at.buffer].what);
    return ZR_OK;
}

/* ---- rounds ------------------------------------------------------------------------------------ */

static void forget_written(state *k, int32_t first_buffer)
{
    for (int32_t i = 0; i < k->n; i++)
        if (k->list[i].at.buffer >= first_buffer) k->list[i].n = 0;
}

/* Check a training step, with two rounds if it has several. Further rounds need no check, because they find the same
 * bytes written as the second. */
static zr_status check_run_reads(state *k, bool stale, bool asked)
{
    const zr__proof *p = k->p;
    bool later = false;
    forget_written(k, 0);
    ZR_TRY(note_beginning(k, stale));
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        if (i == p->end && p->times > p->s->n_steps && !later) {
            later = true;
            i = p->repeat;
            forget_written(k, p->plan->n_persistent); /* transient buffers are empty at the beginning of a round */
        } else if (zr__runs(&p->s->step[i], !(later && i < p->end), stale, asked)) {
            ZR_TRY(check_step_reads(k, i, later || p->s->step[i].micro > 0));
        }
    }
    return check_results(k);
}

zr_status zr__check_reads(const zr__proof *p)
{
    state k = {.p = p, .newest = zr_alloc(sizeof *k.newest * (size_t)(p->s->n_buffers + 1))};
    ZR_CHECK(k.newest, ZR_ERR_MEMORY, "no memory to check %d buffers", p->s->n_buffers);
    for (int32_t b = 0; b < p->s->n_buffers; b++) k.newest[b] = -1;
    const bool stale = p->kind != ZR_SCHEDULE_EVAL && p->kind != ZR_SCHEDULE_DECODE;
    zr_status st = check_run_reads(&k, stale, true);
    if (st == ZR_OK && p->has_when[ZR_WHEN_SAVE]) st = check_run_reads(&k, stale, false);
    if (st == ZR_OK && p->has_when[ZR_WHEN_STALE]) st = check_run_reads(&k, false, true);
    for (int32_t i = 0; i < k.n; i++) zr_free(k.list[i].stretch);
    zr_free(k.list);
    zr_free(k.newest);
    return st;
}
