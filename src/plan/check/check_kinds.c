/* Part of the proof of a plan: the proof's own tables of step kinds, and of the rounds in which steps run. The code
 * that writes plans has separate tables (zr_step_traits_of, zr_when_runs). */
#include "plan/check/check.h"

bool zr__gathers(const zr_step *step)
{
    return step->kind == ZR_STEP_GATHER || step->kind == ZR_STEP_GATHER_GRAD || step->kind == ZR_STEP_GATHER_DIRECTION;
}

bool zr__scatters(const zr_step *step)
{
    return step->kind == ZR_STEP_SCATTER_DIRECTION;
}

bool zr__passes(const zr_step *step)
{
    return step->kind == ZR_STEP_SEND || step->kind == ZR_STEP_SENT || step->kind == ZR_STEP_RECV ||
           step->kind == ZR_STEP_RECEIVED;
}

bool zr__reduces(const zr_step *step)
{
    return step->kind == ZR_STEP_REDUCE_SCATTER;
}

bool zr__asks_all(const zr_step *step)
{
    return step->kind == ZR_STEP_NORM || step->kind == ZR_STEP_AGREE || step->kind == ZR_STEP_COUNT ||
           step->kind == ZR_STEP_TRUST;
}

bool zr__computes(const zr_step *step)
{
    return step->kind == ZR_STEP_RUN || step->kind == ZR_STEP_ZERO || step->kind == ZR_STEP_CAST ||
           step->kind == ZR_STEP_SQUARE || step->kind == ZR_STEP_SQUARE_MICRO || step->kind == ZR_STEP_UPDATE ||
           step->kind == ZR_STEP_SQUARE_UPDATE || step->kind == ZR_STEP_DIRECTION || step->kind == ZR_STEP_ORTHO ||
           zr__gathers(step) || zr__reduces(step) || zr__scatters(step);
}

bool zr__takes_gradient(const zr_step *step)
{
    const bool used = step->kind == ZR_STEP_SQUARE_MICRO || step->kind == ZR_STEP_SQUARE ||
                      step->kind == ZR_STEP_UPDATE || step->kind == ZR_STEP_SQUARE_UPDATE ||
                      step->kind == ZR_STEP_DIRECTION || zr__reduces(step);
    return used && step->unit >= 0 && step->op < 0;
}

bool zr__adds_to_sums(const zr_step *step, bool later)
{
    return step->kind == ZR_STEP_LOSS || (step->kind == ZR_STEP_SQUARE_MICRO && later);
}

bool zr__runs(const zr_step *step, bool first, bool stale, bool asked)
{
    switch (step->when) {
    case ZR_WHEN_STALE:
        return first && stale;
    case ZR_WHEN_FIRST:
        return first;
    case ZR_WHEN_LATER:
        return !first;
    case ZR_WHEN_SAVE:
        return first && asked;
    case ZR_WHEN_ALWAYS:
        break;
    }
    return true;
}
