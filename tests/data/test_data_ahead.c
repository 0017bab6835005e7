//TEST timeout=60 tsan=1
/* Samples that a thread reads ahead, in the order of their use: blocks with gaps between them, without end; samples
 * that are only looked at first; another order in between; failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "data/samples/ahead.h"

enum { ROOM = 6, NUMBERS = 3, NONE = -1 };

/* A source that records which samples are read. */
typedef struct source {
    atomic_int reading;
    _Atomic int64_t reads, last;
    int64_t fails; /* sample that cannot be read, or NONE */
} source;

static zr_status read_numbers(void *arg, int64_t sample, int32_t *window)
{
    source *s = arg;
    if (atomic_fetch_add(&s->reading, 1) > 0) return ZR_FAIL(ZR_ERR_INTERNAL, "two threads read");
    for (int i = 0; i < NUMBERS; i++) window[i] = (int32_t)(NUMBERS * sample + i);
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    s->last = sample;
    s->reads++;
    atomic_fetch_sub(&s->reading, 1);
    return sample == s->fails ? ZR_FAIL(ZR_ERR_IO, "sample %lld is lost", (long long)sample) : ZR_OK;
}

static zr__ahead *start(source *s)
{
    zr__ahead *ahead = NULL;
    *s = (source){.last = NONE, .fails = NONE};
    assert_int_equal(zr__ahead_create(read_numbers, s, ROOM, NUMBERS, &ahead), ZR_OK);
    return ahead;
}

/* Take a sample, or with `keeps` only look at it. Check that it is in memory if `wanted`, and is not otherwise. */
static void take(zr__ahead *ahead, int64_t sample, bool keeps, bool wanted)
{
    int32_t window[NUMBERS] = {0};
    bool there = !wanted;
    assert_int_equal(zr__ahead_take(ahead, sample, keeps, window, &there), ZR_OK);
    assert_int_equal(there, wanted);
    for (int i = 0; there && i < NUMBERS; i++) assert_int_equal(window[i], NUMBERS * sample + i);
}

/* Wait until the thread has read `n` samples. */
static void await_reads(const source *s, int64_t n)
{
    while (s->reads < n) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* Check steps of two micro-batches of three rows, on one of four ranks. The caller looks at all rows of a step before
 * it takes the first one. Each row, also of the next step, is read once. */
static void steps(void **state)
{
    (void)state;
    source s;
    zr__ahead *ahead = start(&s);
    const zr__ahead_order order = {5, 3, 12};
    zr__ahead_want(ahead, &order);
    for (int64_t step = 0; step < 20; step++) {
        for (int64_t i = 0; i < ROOM; i++) take(ahead, 5 + 24 * step + i / 3 * 12 + i % 3, true, true);
        for (int64_t micro = 0; micro < 2; micro++) {
            const int64_t first = 5 + 24 * step + 12 * micro;
            for (int64_t i = 0; i < 3; i++) take(ahead, first + i, false, true);
            zr__ahead_want(ahead, &(zr__ahead_order){first + 12, 3, 12});
        }
        await_reads(&s, (step + 2) * ROOM);
        assert_int_equal(s.last, 5 + 24 * (step + 1) + 14);
    }
    assert_int_equal(s.reads, 21 * ROOM);
    zr__ahead_destroy(&ahead);
}

/* Check that the request of a sample out of order stops the thread, and that the caller must read this sample itself.
 * Afterwards a new order may begin. */
static void out_of_order(void **state)
{
    (void)state;
    source s;
    zr__ahead *ahead = start(&s);
    take(ahead, 0, false, false);
    zr__ahead_want(ahead, &(zr__ahead_order){0, 2, 4});
    take(ahead, 1, false, true);
    const int64_t others[] = {0, 2, 3, -1, 100}; /* dropped; in gaps of the order; before the first; not yet read */
    for (int i = 0; i < 5; i++) {
        take(ahead, others[i], false, false);
        assert_int_equal(s.reading, 0);
        take(ahead, 4, false, false); /* the thread has stopped */
        zr__ahead_want(ahead, &(zr__ahead_order){0, 2, 4});
        take(ahead, 1, false, true);
    }
    zr__ahead_want(ahead, &(zr__ahead_order){4, 3, 4}); /* blocks of another size */
    take(ahead, 6, false, true);
    zr__ahead_destroy(&ahead);
}

/* Check that a failure is reported for the sample that could not be read, not before, and another order begins without
 * it. */
static void failures(void **state)
{
    (void)state;
    source s;
    zr__ahead *ahead = start(&s);
    int32_t window[NUMBERS];
    bool there = false;
    s.fails = 3;
    zr__ahead_want(ahead, &(zr__ahead_order){0, 2, 2});
    for (int64_t i = 0; i < 3; i++) take(ahead, i, false, true);
    assert_int_equal(zr__ahead_take(ahead, 3, false, window, &there), ZR_ERR_IO);
    assert_non_null(strstr(zr_error_message(), "sample 3 is lost"));
    zr__ahead_want(ahead, &(zr__ahead_order){4, 2, 2});
    for (int64_t i = 4; i < 20; i++) take(ahead, i, false, true);
    zr__ahead_destroy(&ahead);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps), cmocka_unit_test(out_of_order),
                                       cmocka_unit_test(failures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
