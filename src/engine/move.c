/*
 * Runs the steps that move a unit: casts and gathers of parameters, and reductions of gradients.
 *
 * During a collective, other ranks read and write this rank's memory. Therefore the device's pending work is finished
 * before each collective, unless the collective itself is work of the device's stream.
 */
#include "engine/walk.h"
#include "tensor/tensor.h"

zr_comm *zr__comm_of(const zr__running *r)
{
    return r->engine->group_comm[r->engine->plan->group[r->step->group].same];
}

/* Wait for the device's pending work. With one rank in the group no wait is needed, since the device works in order,
 * nor if the other ranks' accesses are work in the same stream. */
static zr_status finish_pending(const zr__running *r)
{
    return zr__comm_of(r)->size > 1 && !r->engine->in_stream ? r->device->ops->finish(r->device) : ZR_OK;
}

/* Index in `use` of the parameters that a CAST subtracts or adds, or of the errors that it adds and renews. */
enum { ADDED = 2 };

/* Return the random numbers by which a CAST rounds records. An element of a parameter has a number for each update, so
 * that every gather between two updates gives the same values. An element of a gradient has a number for each training
 * step, rank and level of the reduction. */
static zr_rounding rounding_of(const zr__running *r, bool gradient)
{
    const zr_engine *e = r->engine;
    const uint64_t rank = gradient ? (uint64_t)e->place[ZR_GROUP_DATA] : 0;
    const uint32_t kind = !gradient ? 0 : r->step->range.by.elems > 0 ? 2 : 1; /* parameters; level of gradients */
    return (zr_rounding){.rng = {.seed = e->runtime.seed,
                                 .purpose = ZR_RNG_ROUND,
                                 .stream = 3 * (uint32_t)r->step->unit + kind,
                                 .step = gradient ? e->runtime.step : (uint32_t)e->updates},
                         .first = rank << 44 | (uint64_t)zr__first(e, &r->step->range)};
}

/* Return the errors that a CAST of a gradient adds and renews. */
static zr_feedback feedback_of(const zr__running *r)
{
    const zr_engine *e = r->engine;
    const bool partial = e->plan->group[r->step->range.by.group].size > 1;
    return (zr_feedback){.error = zr__at(r, ADDED),
                         .anew = !e->error_kept[partial ? ZR_ERROR_PARTIAL : ZR_ERROR_WHOLE] ||
                                 e->step->step % e->plan->error_steps == 0,
                         .beta = (float)e->plan->error_beta,
                         .scale = (float)e->scale};
}

zr_status zr__cast(const zr__running *r)
{
    const bool encodes = zr_dtype_is_record(r->use[1].dtype);
    const bool gradient = r->bound->schedule->buffer[r->use[1].buffer].category == ZR_CATEGORY_GRAD;
    zr_rounding rounding;
    zr_feedback feedback;
    zr_casting casting = {.rounding = NULL};
    if (encodes && r->engine->plan->stochastic) {
        rounding = rounding_of(r, gradient);
        casting.rounding = &rounding;
    }
    if (r->step->n_uses > ADDED && !gradient) {
        casting.added = zr__at(r, ADDED);
        casting.added_dtype = r->use[ADDED].dtype;
        casting.sign = encodes ? -1 : 1;
    } else if (r->step->n_uses > ADDED && !r->engine->probing) { /* a probe leaves errors as they are */
        feedback = feedback_of(r);
        casting.feedback = &feedback;
    }
    return r->device->ops->cast(r->device, zr__at(r, 1), r->use[1].dtype, zr__at(r, 0), r->use[0].dtype, r->count,
                                &casting);
}

zr_status zr__gather(const zr__running *r)
{
    const zr_dtype dtype = r->use[1].dtype;
    const int64_t bytes = zr_dtype_span(dtype, r->count);
    if (zr__comm_of(r)->size == 1 && zr__at(r, 0) == zr__at(r, 1)) return ZR_OK;
    if (zr__comm_of(r)->size == 1) return r->device->ops->copy(r->device, zr__at(r, 1), zr__at(r, 0), bytes);
    ZR_TRY(finish_pending(r));
    return zr_comm_all_gather(zr__comm_of(r), zr__at(r, 0), zr__at(r, 1),
                              zr_dtype_span(dtype, r->use[1].range.by.elems), bytes);
}

/* ---- reductions ------------------------------------------------------------------------------ */

enum { SUMS = 2 }; /* index in `use` of accumulator 0, which holds the final sums; further accumulators follow */

/* A chunk: elements [first, first + count) of the bucket. */
typedef struct chunk {
    int64_t first, count;
} chunk;

/* Return the address of a chunk in accumulator d. The final sums are in accumulator 0. */
static float *accumulator(const zr__running *r, chunk s, int d)
{
    return (float *)zr__at(r, SUMS + d) + s.first;
}

static zr_status merge_trees(const zr__running *r, chunk s, int into)
{
    const void *upper = accumulator(r, s, into + 1);
    return r->device->ops->sum(r->device, accumulator(r, s, into), ZR_F32, true, &upper, 1, ZR_F32, s.count);
}

/* Add a micro-batch's sum over ranks as a leaf of a binary tree over micro-batches. Each accumulator holds one finished
 * subtree. There is one accumulator for each 1 in the binary form of the number of micro-batches so far, and
 * accumulator 0 holds the largest. Two subtrees of equal size are merged immediately. After the last micro-batch the
 * remaining subtrees are merged, smallest first. The device adds the ranks' pieces in the same tree. Therefore the sum
 * does not depend on how samples are divided among ranks and micro-batches. */
static zr_status sum_rank_free(const zr__running *r, chunk s, const void *const *pieces, int n_pieces)
{
    int64_t micro = r->micro;
    bool odd = micro & 1;
    int top = __builtin_popcountll((unsigned long long)micro) - odd;
    ZR_TRY(
        r->device->ops->sum(r->device, accumulator(r, s, top), ZR_F32, odd, pieces, n_pieces, r->use->dtype, s.count));
    for (int64_t ones = micro >> 1; odd && (ones & 1); ones >>= 1) ZR_TRY(merge_trees(r, s, --top));
    while (micro == r->step->rounds - 1 && top > 0) ZR_TRY(merge_trees(r, s, --top));
    return ZR_OK;
}

static int64_t elems_in(zr_dtype dtype, int64_t bytes)
{
    return bytes / zr_dtype_bytes(dtype) * zr__dtype_grain(dtype);
}

static zr_status sum_chunk(const zr__running *r, int64_t first_byte, int64_t bytes, const void *const *pieces)
{
    const zr_use *sums = &r->use[SUMS];
    const zr_dtype wire = r->use->dtype;
    int n_pieces = r->step->nccl ? 1 : r->engine->plan->group[r->step->group].size;
    chunk s = {elems_in(wire, first_byte), elems_in(wire, bytes)};
    if (r->step->rank_free_sums) return sum_rank_free(r, s, pieces, n_pieces);
    char *place = zr__at(r, SUMS) + zr_dtype_span(sums->dtype, s.first);
    return r->device->ops->sum(r->device, place, sums->dtype, r->step->adds && r->micro > 0, pieces, n_pieces, wire,
                               s.count);
}

/* Add the same chunk of all ranks' pieces. Wait for the device before returning, since the pieces are valid only during
 * this call, or in the order of the stream. */
static zr_status sum_arrived(void *arg, int64_t first_byte, int64_t bytes, const void *const *pieces)
{
    const zr__running *r = arg;
    ZR_TRY(sum_chunk(r, first_byte, bytes, pieces));
    return finish_pending(r);
}

/* Reduce-scatter with NCCL. The sum over ranks overwrites this rank's piece of the gradient. If the sums over
 * micro-batches have a separate buffer, add the piece to them. */
static zr_status reduce_nccl(const zr__running *r)
{
    const int64_t count = r->count;
    char *gradient = zr__at(r, 0);
    const void *mine = gradient + r->engine->place[r->step->group] * zr_dtype_span(r->use->dtype, count);
    ZR_TRY(zr_comm_reduce_scatter(zr__comm_of(r), gradient, r->use->dtype, count));
    if (mine == zr__at(r, SUMS)) return ZR_OK;
    return sum_chunk(r, 0, zr_dtype_span(r->use->dtype, count), &mine);
}

zr_status zr__reduce(const zr__running *r)
{
    zr__running running = *r;
    const zr_dtype wire = r->use->dtype;
    /* grain: bytes of an element, which a chunk must not cut */
    const int64_t bytes = zr_dtype_span(wire, r->count), grain = zr_dtype_bytes(wire);
    if (r->engine->plan->group[r->step->group].size == 1) {
        const void *mine = zr__at(r, 0);
        return sum_chunk(r, 0, bytes, &mine);
    }
    ZR_TRY(finish_pending(r));
    if (r->step->nccl) return reduce_nccl(r);
    return zr_comm_exchange(zr__comm_of(r), zr__at(r, 0), zr_dtype_span(wire, r->use->range.by.elems), bytes, grain,
                            sum_arrived, &running);
}
