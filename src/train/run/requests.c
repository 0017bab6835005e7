/** Handling of requests to a run in training: to stop, to save a checkpoint, or to end by a given time. */
#include "train/run/run.h"

#include "train/run/save_files.h"

/** Return whether the run would exceed observer->end_sec if it trained for `sec` more seconds and then wrote a
 * checkpoint. The write time is the time of the last checkpoint. Before the first checkpoint, assume a slow disk. */
static bool too_late(const zr__run *r, double sec)
{
    double save_sec = (r->saving.sec > 0.0 ? r->saving.sec : zr__state_bytes(r->plan) / ZR_TRAIN_DISK_BYTES_SEC) *
                      (r->saving.now ? 2 : 1);
    return r->ranks.observer->end_sec > 0.0 && zr_clock_sec() + sec + save_sec > r->ranks.observer->end_sec;
}

static bool asks_to_stop(const zr_observer *observer)
{
    return observer->stop && observer->stop(observer->arg);
}

zr_status zr__run_stop_asked(void *run)
{
    zr__run *r = run;
    bool asked = asks_to_stop(r->ranks.observer);
    r->training.out_of_time = !asked && too_late(r, 0.0);
    return asked || r->training.out_of_time ? ZR_FAIL(ZR_ERR_STOPPED, "asked to stop") : ZR_OK;
}

zr_status zr__run_asked(zr__run *r)
{
    enum { STOP, TIME, SAVE, WRITING, QUESTIONS };
    const zr_observer *observer = r->ranks.observer;
    int64_t asked[QUESTIONS] = {[STOP] = asks_to_stop(r->ranks.observer),
                                [TIME] = too_late(r, r->training.step_sec),
                                [SAVE] = observer->save && observer->save(observer->arg),
                                [WRITING] = !zr_engine_saved(r->engine)};
    ZR_TRY(zr__run_most(&r->ranks, asked, QUESTIONS));
    if (asked[WRITING] == 0) ZR_TRY(zr__run_save_end(r));
    r->training.out_of_time = !asked[STOP] && asked[TIME];
    if (r->training.out_of_time)
        zr__run_note(&r->ranks, "the run stops here, because another step and its checkpoint would exceed --max-time");
    if (asked[STOP] || asked[TIME]) return ZR_FAIL(ZR_ERR_STOPPED, "asked to stop");
    return asked[SAVE] ? zr__run_save(r) : ZR_OK;
}
