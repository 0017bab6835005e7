/* Shows the steps of a walk on the rank's board, for reports about hangs and deaths. Ranks of other roles have other
 * schedules, so the board says itself what a step does. */
#include "engine/walk.h"

#include <stdio.h>

/* The first of each thread's two numbers has these bits, from the highest down: 1 that is set during a walk, 1 that is
 * set when the step has ended, 3 for the schedule, 27 for the micro-batch, 32 for the step. The second has 6 for the
 * kind, 8 for the action, 12 for the stage, 8 for the peer, 30 for the op or the unit. */
enum { MICRO_BITS = 27, STEP_BITS = 32, KIND_AT = 58, ACTION_AT = 50, STAGE_AT = 38, PEER_AT = 30 };
#define ENDED_BIT ((uint64_t)1 << 62)

static uint64_t low(uint64_t number, int bits)
{
    return number & (((uint64_t)1 << bits) - 1);
}

/* Return the thread that runs a stream's steps. Return -1 for streams whose steps are not shown: the compute step that
 * waits for such a step is shown instead. */
static int thread_of(const zr_engine *e, zr_stream stream)
{
    const bool apart = zr_queues_apart(&e->queues, stream);
    switch (stream) {
    case ZR_STREAM_FETCH:
    case ZR_STREAM_STORE:
    case ZR_STREAM_HOST:
    case ZR_STREAM_RETURN:
        return -1;
    case ZR_STREAM_COMM:
        return apart ? ZR_SHOWN_COMM : ZR_SHOWN_COMPUTE;
    case ZR_STREAM_SEND:
        return apart ? ZR_SHOWN_SEND : ZR_SHOWN_COMPUTE;
    case ZR_STREAM_RECV:
        return apart ? ZR_SHOWN_RECV : ZR_SHOWN_COMPUTE;
    default:
        return ZR_SHOWN_COMPUTE;
    }
}

void zr__show_step(zr_engine *e, const zr_step *step, int64_t micro, int32_t index, bool ended)
{
    const int thread = thread_of(e, step->stream);
    if (thread < 0) return;
    const int32_t about = step->kind == ZR_STEP_RUN ? step->op : step->unit;
    const uint64_t at = (uint64_t)1 << 63 | (ended ? ENDED_BIT : 0) | (uint64_t)e->kind << (MICRO_BITS + STEP_BITS) |
                        low((uint64_t)micro, MICRO_BITS) << STEP_BITS | (uint32_t)index;
    const uint64_t what = (uint64_t)step->kind << KIND_AT | (uint64_t)(unsigned char)step->action << ACTION_AT |
                          low((uint64_t)step->stage, 12) << STAGE_AT | (uint64_t)(step->peer + 1) << PEER_AT |
                          low((uint64_t)(about + 1), PEER_AT);
    zr__comm_show(e->comm, ZR_ENGINE_SHOWN + 2 * thread, at);
    if (!ended) zr__comm_show(e->comm, ZR_ENGINE_SHOWN + 2 * thread + 1, what);
}

void zr__show_nothing(zr_engine *e)
{
    for (int thread = 0; thread < ZR_SHOWN_THREADS; thread++) zr__comm_show(e->comm, ZR_ENGINE_SHOWN + 2 * thread, 0);
}

zr__engine_at zr__engine_shown(const uint64_t *shown, int thread)
{
    _Static_assert(ZR_SCHEDULES <= 8 && ZR_STEP_KINDS <= 64 && ZR_ROLES < 255 && ZR_ROLES * ZR_CHUNKS < 4096,
                   "the bits are enough");
    const uint64_t at = shown[ZR_ENGINE_SHOWN + 2 * thread], what = shown[ZR_ENGINE_SHOWN + 2 * thread + 1];
    return (zr__engine_at){.walks = at >> 63,
                           .ended = (at & ENDED_BIT) != 0,
                           .schedule = (zr_schedule_kind)low(at >> (MICRO_BITS + STEP_BITS), 3),
                           .micro = (int64_t)low(at >> STEP_BITS, MICRO_BITS),
                           .step = (int32_t)(at & INT32_MAX),
                           .kind = (zr_step_kind)(what >> KIND_AT),
                           .action = (char)low(what >> ACTION_AT, 8),
                           .stage = (int32_t)low(what >> STAGE_AT, 12),
                           .peer = (int32_t)low(what >> PEER_AT, 8) - 1,
                           .about = (int32_t)low(what, PEER_AT) - 1};
}

const char *zr__engine_cell(int32_t stage, char action, int64_t micro, char text[ZR__CELL_BYTES])
{
    if (action)
        snprintf(text, ZR__CELL_BYTES, "cell %d%c%lld", stage, action, (long long)micro);
    else
        snprintf(text, ZR__CELL_BYTES, "micro-batch %lld", (long long)micro + 1);
    return text;
}
