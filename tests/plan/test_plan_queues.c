//TEST timeout=60
/* Queues of streams: which streams share a queue, by device and layout. */
#include <string.h>

#include "plan_make.h"
#include "plan/cost/cost.h"

/* Check whether COMM, COPY, SAVE, and both HOST and RETURN have queues of their own; false: the compute stream's
 * queue. */
static void check_queues(const zr_plan *plan, bool exchanges_overlap, bool comm, bool copy, bool save, bool host)
{
    const zr_queues got = zr__plan_queues(plan, exchanges_overlap);
    const bool want[ZR_STREAMS] = {[ZR_STREAM_COMM] = comm,
                                   [ZR_STREAM_COPY] = copy,
                                   [ZR_STREAM_SAVE] = save,
                                   [ZR_STREAM_HOST] = host,
                                   [ZR_STREAM_RETURN] = host};
    for (int s = 0; s < ZR_STREAMS; s++) {
        assert_int_equal(got.of[s], want[s] ? s : ZR_STREAM_COMPUTE);
        assert_int_equal(zr_queues_apart(&got, (zr_stream)s), want[s]);
    }
}

static void by_device_and_layout(void **state)
{
    (void)state;
    for (int apart = 0; apart <= 1; apart++)
        for (int overlap = 0; overlap <= 1; overlap++)
            /* 1: checkpoints; 2: saves, from a copy; 3: saves, in place; 4: optimizer states */
            for (int moves = 0; moves <= 4; moves++) {
                zr_profile profile = plan_profile;
                zr_layout l = plan_layout(3, 2, ZR_F32, 1);
                profile.facts.own_memory = apart;
                l.overlap = overlap;
                l.recompute = ZR_RECOMPUTE_UNIT;
                l.checkpoint_home = moves == 1 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
                l.save = moves == 2 ? ZR_SAVE_COPY : moves == 3 ? ZR_SAVE_IN_PLACE : ZR_SAVE_NONE;
                l.home.optim = moves == 4 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
                zr_plan *plan = plan_gpt2(&plan_small, &l, &profile);
                const bool copy = apart && moves != 0 && moves != 3, save = moves == 2 || moves == 3;
                check_queues(plan, false, false, copy, save, apart && moves == 4);
                check_queues(plan, true, overlap, copy, save, apart && moves == 4);
                zr_plan_destroy(&plan);
            }
}

/* Check that values of pipelines have queues where exchanges have one. */
static void of_pipelines(void **state)
{
    (void)state;
    for (int overlap = 0; overlap <= 1; overlap++) {
        zr_layout l = plan_layout(1, 1, ZR_F32, 4);
        l.pipeline = 2;
        l.overlap = overlap;
        zr_plan *plan = plan_gpt2(&plan_small, &l, &plan_profile);
        for (int exchanges = 0; exchanges <= 1; exchanges++) {
            const zr_queues got = zr__plan_queues(plan, exchanges);
            const zr_stream streams[] = {ZR_STREAM_COMM, ZR_STREAM_SEND, ZR_STREAM_RECV};
            for (int i = 0; i < 3; i++)
                assert_int_equal(got.of[streams[i]], overlap && exchanges ? streams[i] : ZR_STREAM_COMPUTE);
        }
        zr_plan_destroy(&plan);
    }
}

/* Check that streams without a queue of their own run in turn with the compute stream. */
static void tables(void **state)
{
    (void)state;
    const zr_queues none = zr__queues_of(false, false, false), zeros = {{0}};
    assert_memory_equal(&none, &zeros, sizeof none);
    for (int i = 0; i < 8; i++) {
        const zr_queues queues = zr__queues_of(i & 1, i & 2, i & 4);
        for (int s = 0; s < ZR_STREAMS; s++) {
            const bool own =
                (s == ZR_STREAM_COMM && i & 1) || (s == ZR_STREAM_COPY && i & 2) || (s == ZR_STREAM_SAVE && i & 4);
            assert_int_equal(queues.of[s], own ? s : ZR_STREAM_COMPUTE);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_device_and_layout), cmocka_unit_test(of_pipelines),
                                       cmocka_unit_test(tables)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
