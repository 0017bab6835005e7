/* The fp32 states of a run's whole model: reading them from an engine and filling another engine with them. */
#ifndef ALL_STATES_H
#define ALL_STATES_H

#include "engine/trainer.h"

enum { ELEMS = 1 << 17, SLOTS = 2 };

/* All states of a model, by element. */
typedef struct states {
    float state[1 + SLOTS][ELEMS];
    int64_t updates;
} states;

static inline zr_status take(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    memcpy((float *)arg + param->first + first, in, sizeof(float) * (size_t)n);
    return ZR_OK;
}

static inline zr_status give(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out)
{
    memcpy(out, (const float *)arg + param->first + first, sizeof(float) * (size_t)n);
    return ZR_OK;
}

static inline int number_of(int s)
{
    return s == 0 ? ZR_STATE_PARAM : ZR_STATE_SLOT + s - 1;
}

/* Read the states of an engine into run->arg, a `states`. A hook of trainer.h. */
static inline zr_status take_all(trainer *run, zr_engine *engine, zr_comm *comm)
{
    states *to = run->arg;
    for (int s = 0; s <= SLOTS; s++) ZR_TRY(zr_engine_read(engine, number_of(s), take, to->state[s]));
    if (comm->rank == 0) to->updates = zr_engine_updates(engine);
    return ZR_OK;
}

/* Fill an engine with the states in run->arg and resume at their number of updates. A hook of trainer.h. */
static inline zr_status give_all(trainer *run, zr_engine *engine, zr_comm *comm)
{
    states *from = run->arg;
    (void)comm;
    for (int s = 0; s <= SLOTS; s++) ZR_TRY(zr_engine_fill(engine, number_of(s), give, from->state[s]));
    return zr_engine_resume(engine, from->updates);
}

#endif
