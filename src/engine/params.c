/*
 * Parameters in and out: initialisation, loading and saving pass by the fp32 masters where they live,
 * in pieces, so that none of them needs more memory than the plan.
 */
#include "engine/internal.h"

#include <math.h>
#include <string.h>

enum { PIECE = 16384 };

/* The model's own initial values (zr_init): a function of seed and element alone. */
static void initial(const zr_engine *e, const zr_param_info *param, int64_t first, int64_t n, float *out)
{
    zr_rng rng = {.seed = e->runtime.seed, .purpose = ZR_RNG_INIT};
    if (param->init.kind == ZR_INIT_NORMAL) {
        uint64_t element = (uint64_t)(param->first + first);
        e->device->ops->normal(e->device, &rng, element, n, (float)param->init.std, out);
        return;
    }
    for (int64_t i = 0; i < n; i++) out[i] = param->init.kind == ZR_INIT_ONE ? 1.0f : 0.0f;
}

/* Elements of a unit whose values this rank sets: with masters what it updates, else what it holds. */
static zr__range owned(const zr_engine *e, int32_t unit)
{
    bool shard = e->plan->layout.train ? e->plan->shard_optim : e->plan->unit[unit].gathered;
    return shard ? zr__shard(e, unit) : (zr__range){0, e->plan->unit[unit].padded_elems};
}

/* The fp32 home of an element: its master, in fp32 the parameter itself, NULL when there is none. */
static float *home(const zr_engine *e, int32_t unit, int64_t element)
{
    const zr_plan *p = e->plan;
    const zr_plan_unit *u = &p->unit[unit];
    if (u->master != ZR_NONE) return (float *)zr__element(e, u->master, p->shard_optim, unit, element, ZR_F32);
    if (p->layout.dtype == ZR_F32) return (float *)zr__element(e, u->param, u->gathered, unit, element, ZR_F32);
    return NULL;
}

static zr_status fill_param(zr_engine *e, const zr_param_info *param, zr__range own, zr_fill_fn fn, void *arg)
{
    const zr_plan *p = e->plan;
    int64_t begin = param->unit_offset, end = begin + zr_shape_elems(&param->shape);
    if (begin < own.first) begin = own.first;
    if (end > own.end) end = own.end;
    float piece[PIECE];
    for (int64_t at = begin; at < end;) {
        float *place = home(e, param->unit, at);
        int64_t n = place && !fn ? end - at : PIECE;
        if (n > end - at) n = end - at;
        float *out = place ? place : piece;
        if (fn)
            ZR_TRY(fn(arg, param, at - param->unit_offset, n, out));
        else
            initial(e, param, at - param->unit_offset, n, out);
        const zr_plan_unit *u = &p->unit[param->unit];
        if (p->layout.dtype != ZR_F32 && u->param != ZR_NONE) {
            char *rounded = zr__element(e, u->param, u->gathered, param->unit, at, p->layout.dtype);
            ZR_TRY(e->device->ops->cast(e->device, rounded, p->layout.dtype, out, ZR_F32, n));
        }
        at += n;
    }
    return ZR_OK;
}

static const zr_graph *any_graph(const zr_plan *plan)
{
    return plan->graph[ZR_TRAIN]  ? plan->graph[ZR_TRAIN]
           : plan->graph[ZR_EVAL] ? plan->graph[ZR_EVAL]
                                  : plan->graph[ZR_DECODE];
}

zr_status zr_engine_fill(zr_engine *e, zr_fill_fn fn, void *arg)
{
    const zr_graph *g = any_graph(e->plan);
    zr_status st = ZR_OK;
    for (int32_t i = 0; i < zr_graph_params(g) && st == ZR_OK; i++) {
        const zr_param_info *param = zr_graph_param(g, i);
        st = fill_param(e, param, owned(e, param->unit), fn, arg);
    }
    ZR_TRY(zr_comm_agree(e->comm, st)); /* a rank that cannot read its part must not leave the others waiting */
    e->stale = true;
    zr_traffic counted = e->traffic; /* start-up is not a step's traffic */
    ZR_TRY(zr_engine_flush(e));
    e->traffic = counted;
    return ZR_OK;
}

/* Pass elements [first, end) of a parameter that lie in `dtype` at `x` to fn as fp32 divided by `scale`, in pieces. */
static zr_status pass(const zr_engine *e, const zr_param_info *param, int64_t first, int64_t end, const char *x,
                      zr_dtype dtype, double scale, zr_read_fn fn, void *arg)
{
    float piece[PIECE];
    for (int64_t at = first; at < end; at += PIECE) {
        int64_t n = end - at < PIECE ? end - at : PIECE;
        const float *in = (const float *)(x + (at - first) * zr_dtype_bytes(dtype));
        if (dtype != ZR_F32 || scale != 1) {
            ZR_TRY(e->device->ops->cast(e->device, piece, ZR_F32, in, dtype, n));
            for (int64_t i = 0; i < n && scale != 1; i++) piece[i] = (float)(piece[i] / scale);
            in = piece;
        }
        ZR_TRY(fn(arg, param, at - param->unit_offset, n, in));
    }
    return ZR_OK;
}

static zr_status read_all(zr_engine *e, bool gradients, zr_read_fn fn, void *arg)
{
    const zr_plan *p = e->plan;
    const zr_graph *g = any_graph(p);
    for (int32_t i = 0; i < zr_graph_params(g); i++) {
        const zr_param_info *param = zr_graph_param(g, i);
        zr__range shard = zr__shard(e, param->unit);
        int64_t begin = param->unit_offset, end = begin + zr_shape_elems(&param->shape);
        if (begin < shard.first) begin = shard.first;
        if (end > shard.end) end = shard.end;
        if (begin >= end) continue;
        const char *x = (const char *)home(e, param->unit, begin);
        zr_dtype dtype = ZR_F32;
        const zr_plan_unit *u = &p->unit[param->unit];
        if (gradients) {
            zr__sums sums = zr__gradient_sums(e, param->unit, p->sum_f32 ? u->accum : u->grad);
            x = zr__sums_at(&sums, begin);
            dtype = sums.dtype;
        } else if (!x) {
            x = zr__element(e, u->param, u->gathered, param->unit, begin, p->layout.dtype);
            dtype = p->layout.dtype;
        }
        ZR_TRY(pass(e, param, begin, end, x, dtype, gradients ? e->scale : 1, fn, arg));
    }
    return ZR_OK;
}

zr_status zr_engine_read(zr_engine *e, zr_read_fn fn, void *arg)
{
    ZR_CHECK(fn, ZR_ERR_ARG, "zr_engine_read: no function to pass parameters to");
    return read_all(e, false, fn, arg);
}

zr_status zr_engine_read_grad(zr_engine *e, zr_read_fn fn, void *arg)
{
    ZR_CHECK(fn, ZR_ERR_ARG, "zr_engine_read_grad: no function to pass gradients to");
    ZR_CHECK(e->steps > 0, ZR_ERR_STATE, "there is no gradient before the first step");
    ZR_CHECK(!e->plan->consume_grad, ZR_ERR_STATE,
             "the layout lean has used up the gradient; plan with ZR_STATES_PAPER to read it");
    return read_all(e, true, fn, arg);
}
