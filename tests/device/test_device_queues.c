//TEST timeout=60 tsan=1
/* Queues of the processor: one that runs at once and two with threads; their order, waits and failures. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <string.h>

#include "zr/device.h"
#include "zr/base.h"

#ifdef __SANITIZE_THREAD__
enum { ROUNDS = 300 };
#else
enum { ROUNDS = 6000 };
#endif
enum { AT_ONCE, FIRST, SECOND, QUEUES, EACH = 4 };

typedef struct queues {
    zr_device *device;
    const zr_device_ops *ops;
    zr_queue *queue[QUEUES];
    _Atomic int64_t ran;  /* tasks of the first queue */
    _Atomic int64_t late; /* tasks that began too early */
} queues;

static int set_up(void **state)
{
    static queues q;
    memset(&q, 0, sizeof q);
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    config.threads = 1;
    assert_int_equal(zr_device_create_cpu(&config, &q.device), ZR_OK);
    q.ops = q.device->ops;
    for (int i = 0; i < QUEUES; i++) {
        zr_queue_config wanted = {.runs = i == AT_ONCE ? ZR_QUEUE_AT_ONCE : ZR_QUEUE_THREAD, .most = 8};
        assert_int_equal(q.ops->queue_create(q.device, &wanted, &q.queue[i]), ZR_OK);
    }
    *state = &q;
    return 0;
}

static int tear_down(void **state)
{
    queues *q = *state;
    for (int i = 0; i < QUEUES; i++) q->ops->queue_destroy(q->queue[i]);
    zr_device_destroy(&q->device);
    return 0;
}

static void spin(double sec)
{
    const double begin = zr_clock_sec();
    while (zr_clock_sec() - begin < sec) continue;
}

/* Run as a task of the first queue, and count it as late if it is out of order. */
static zr_status count(void *arg, zr_device *device, int64_t index)
{
    (void)device;
    queues *q = arg;
    spin(10e-6);
    if (atomic_fetch_add(&q->ran, 1) != index) atomic_fetch_add(&q->late, 1);
    return ZR_OK;
}

/* Run as a task that must not begin before `index` tasks of the first queue have ended. */
static zr_status behind(void *arg, zr_device *device, int64_t index)
{
    (void)device;
    queues *q = arg;
    if (atomic_load(&q->ran) < index) atomic_fetch_add(&q->late, 1);
    return ZR_OK;
}

static zr_status breaks(void *arg, zr_device *device, int64_t index)
{
    (void)arg;
    (void)device;
    return ZR_FAIL(ZR_ERR_IO, "task %d fails", (int)index);
}

static zr_status issue(queues *q, int queue, zr_status (*run)(void *arg, zr_device *device, int64_t index),
                       int64_t index)
{
    const zr_task task = {.run = run, .arg = q, .index = index};
    return q->ops->issue(q->queue[queue], &task);
}

/* Check that a queue's thread and the issuing thread sleep for different tasks of one queue, and both are woken, in
 * either order. */
static void test_two_sleepers(void **state)
{
    queues *q = *state;
    for (int64_t round = 0; round < ROUNDS; round++) {
        zr_mark mark[EACH];
        for (int i = 0; i < EACH; i++) {
            assert_int_equal(issue(q, FIRST, count, round * EACH + i), ZR_OK);
            mark[i] = q->ops->mark(q->queue[FIRST]);
        }
        const int64_t near = round % 2, far = 2 + round / 2 % 2; /* alternate longer and shorter sleeps */
        const int64_t theirs = round / 4 % 2 ? far : near, mine = round / 4 % 2 ? near : far;
        assert_int_equal(q->ops->await(q->queue[SECOND], mark[theirs]), ZR_OK);
        assert_int_equal(issue(q, SECOND, behind, round * EACH + theirs + 1), ZR_OK);
        spin((double)(round % 41) * 1e-6); /* end before or after the wake-up */
        assert_int_equal(q->ops->await(q->queue[AT_ONCE], mark[mine]), ZR_OK);
        assert_int_equal(issue(q, AT_ONCE, behind, round * EACH + mine + 1), ZR_OK);
    }
    for (int i = 0; i < QUEUES; i++) assert_int_equal(q->ops->sync(q->queue[i]), ZR_OK);
    assert_int_equal(atomic_load(&q->ran), ROUNDS * EACH);
    assert_int_equal(atomic_load(&q->late), 0);
}

/* Check that after a failure nothing runs in the queue or in queues that wait for it; sync reports the failure once and
 * clears it. */
static void test_failure(void **state)
{
    queues *q = *state;
    assert_int_equal(issue(q, FIRST, count, 0), ZR_OK);
    assert_int_equal(issue(q, FIRST, breaks, 7), ZR_OK);
    (void)issue(q, FIRST, count, 1); /* may or may not see the failure */
    const zr_mark mark = q->ops->mark(q->queue[FIRST]);
    assert_int_equal(q->ops->await(q->queue[SECOND], mark), ZR_OK);
    assert_int_equal(issue(q, SECOND, behind, INT64_MAX), ZR_OK);
    assert_int_equal(q->ops->await(q->queue[AT_ONCE], mark), ZR_ERR_IO);
    assert_non_null(strstr(zr_error_message(), "task 7 fails"));
    assert_int_equal(q->ops->sync(q->queue[SECOND]), ZR_ERR_IO);
    assert_non_null(strstr(zr_error_message(), "task 7 fails"));
    assert_int_equal(q->ops->sync(q->queue[FIRST]), ZR_ERR_IO);
    assert_non_null(strstr(zr_error_message(), "task 7 fails"));
    for (int i = 0; i < QUEUES; i++) assert_int_equal(q->ops->sync(q->queue[i]), ZR_OK);
    assert_int_equal(atomic_load(&q->ran), 1);
    assert_int_equal(atomic_load(&q->late), 0);
    assert_int_equal(issue(q, FIRST, count, 1), ZR_OK);
    assert_int_equal(q->ops->sync(q->queue[FIRST]), ZR_OK);
    assert_int_equal(atomic_load(&q->ran), 2);
}

/* Check that a cancelled queue has no failure of its own, and a queue that waits for it gets an error. */
static void test_cancel(void **state)
{
    queues *q = *state;
    q->ops->cancel(q->queue[FIRST]);
    assert_int_equal(issue(q, FIRST, count, 0), ZR_OK);
    assert_int_equal(q->ops->await(q->queue[AT_ONCE], q->ops->mark(q->queue[FIRST])), ZR_ERR_PEER);
    assert_int_equal(q->ops->sync(q->queue[FIRST]), ZR_OK);
    assert_int_equal(atomic_load(&q->ran), 0);
    assert_int_equal(issue(q, FIRST, count, 0), ZR_OK);
    assert_int_equal(q->ops->sync(q->queue[FIRST]), ZR_OK);
    assert_int_equal(atomic_load(&q->ran), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_two_sleepers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failure, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cancel, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
