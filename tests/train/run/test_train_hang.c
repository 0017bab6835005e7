//TEST timeout=30 tsan=1
/* The time limits of a rank in each phase, and which rank is blamed for a hang. test_cli_hang.sh tests the messages of
 * the command. */
#include "train/watch/hang.c"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static double limit_after(int64_t given_sec, int64_t steps, double slowest_sec, zr__phase phase)
{
    zr__hang h = {.given_sec = given_sec, .n_steps = steps, .lock = PTHREAD_MUTEX_INITIALIZER};
    h.last_sec[3] = slowest_sec;
    return limit_of(&h, phase);
}

/* Check the limits: the given time, or ten times the slowest of the last steps and at least a minute. */
static void limits(void **state)
{
    (void)state;
    static const int times[ZR__PHASES] = {5, 1, 5,
                                          2, 5, 5}; /* start, step, step that saves too, evaluation, save, end */
    for (int p = 0; p < ZR__PHASES; p++) {
        assert_true(limit_after(7, 0, 0, (zr__phase)p) == 7 * times[p]);
        assert_true(limit_after(7, 9, 100, (zr__phase)p) == 7 * times[p]);
        assert_true(limit_after(0, 9, 1, (zr__phase)p) == 60 * times[p]);
        assert_true(limit_after(0, 9, 100, (zr__phase)p) == 1000 * times[p]);
    }
}

/* Check that the first step has the limit of the start phase, because no step has been timed yet. */
static void first_step(void **state)
{
    (void)state;
    assert_true(limit_after(0, 0, 0, ZR__PHASE_TRAIN) == 300);
    assert_true(limit_after(0, 1, 2, ZR__PHASE_TRAIN) == 60);
    assert_true(limit_after(7, 0, 0, ZR__PHASE_TRAIN) == 7);
}

/* ---- planted hangs ----------------------------------------------------------------------------- */

enum { RANKS = 4 };

/* A hang of four ranks. Rank r first meets the other rank of its pair near[r] times, a millisecond apart. Then it waits
 * for its pair (PAIR), for its neighbours in a chain (CHAIN: ranks 1 and 2), or for all ranks (ALL). Or it works, until
 * the hang has been reported (STUCK). So does a rank whose GPU waits for a message of the next rank (STREAM). */
typedef enum place { STUCK, STREAM, PAIR, CHAIN, ALL } place;

typedef struct planted {
    int near[RANKS];
    place place[RANKS];
    const char *said;      /* what is said of the hang */
    const char *of[RANKS]; /* what is said of each rank */
} planted;

static struct {
    const planted *hang;
    zr_comm *comm;
    _Atomic bool over;
    int rows;
    char said[2 * PLACE_BYTES], of[RANKS][2 * PLACE_BYTES];
} told;

/* Keep what is said of a hang. At its end let the stuck rank go on, or cancel ranks that wait for each other. */
static void hear(void *arg, zr_hang_event event, const char *line)
{
    (void)arg;
    if (event == ZR_HANG_RANK && told.rows < RANKS) snprintf(told.of[told.rows++], sizeof told.of[0], "%s", line);
    if (event != ZR_HANG_OVER || told.over) return;
    snprintf(told.said, sizeof told.said, "%s", line);
    zr__comm_cancel(told.comm);
    told.over = true;
}

static void doze_ms(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static zr_status plant(zr_comm *comm, void *arg)
{
    const planted *p = arg;
    const zr_config config = {.train.hang_timeout = 1};
    const zr_observer observer = {.hang = hear};
    zr_comm *pair = NULL, *chain = NULL;
    zr__hang *watch = NULL;
    if (comm->rank == 0) told.comm = comm;
    ZR_TRY(zr_comm_split(comm, comm->rank / 2, comm->rank, &pair));
    ZR_TRY(zr_comm_split(comm, comm->rank % 3 == 0 ? 1 : 2, comm->rank, &chain));
    ZR_TRY(zr__hang_create(&config, comm, &observer, &watch));
    zr__comm_show(comm, ZR__PHASE_SHOWN, zr__phase_shown(ZR__PHASE_TRAIN, 0));
    zr_status st = ZR_OK;
    for (int i = 0; i < p->near[comm->rank]; i++) {
        st = zr_comm_barrier(pair);
        doze_ms();
    }
    zr_comm *const where[] = {[PAIR] = pair, [CHAIN] = chain, [ALL] = comm};
    const place its = p->place[comm->rank];
    if (its == STREAM) {
        comm->board->channel[1] = ZR__STREAM_AWAITS | (uint64_t)(1 + comm->rank + 1);
        zr__comm_show(comm, ZR_ENGINE_SHOWN, (uint64_t)1 << 63); /* a step that has not ended */
    }
    if (st == ZR_OK && its != STUCK && its != STREAM) st = zr_comm_barrier(where[its]);
    while (!told.over) doze_ms();
    zr__hang_destroy(&watch);
    zr_comm_destroy(&chain);
    zr_comm_destroy(&pair);
    return st;
}

static void planted_hangs(void **state)
{
    (void)state;
    static const planted hangs[] = {
        /* rank 1 has begun most waits */
        {{99, 99, 1, 1},
         {PAIR, STUCK, ALL, ALL},
         "rank 1 has been stuck for ",
         {"rank 0 waits for rank 1 ", "rank 1 works ", "rank 2 waits for rank ", "rank 3 waits for rank "}},
        /* rank 3 waits for rank 2, which waits for rank 1 */
        {{9, 9, 2, 2},
         {ALL, STUCK, CHAIN, PAIR},
         "rank 1 has been stuck for ",
         {"rank 0 waits for rank ", "rank 1 works ", "rank 2 waits for rank 1 ", "rank 3 waits for rank 2 "}},
        /* ranks 1 and 2 meet in different groups */
        {{3, 3, 1, 1},
         {ALL, CHAIN, PAIR, CHAIN},
         "ranks wait for each other: rank ",
         {"rank 0 waits for rank ", "rank 1 waits for rank 2 ", "rank 2 waits for rank 3 ",
          "rank 3 waits for rank 0 "}},
        /* rank 3 has worked longer than rank 1, but nobody waits for it */
        {{99, 99, 0, 0},
         {PAIR, STUCK, CHAIN, STUCK},
         "rank 1 has been stuck for ",
         {"rank 0 waits for rank 1 ", "rank 1 works ", "rank 2 waits for rank 1 ", "rank 3 works "}},
        /* the stream of rank 0 waits for rank 1, which waits for rank 2 */
        {{0, 0, 0, 0},
         {STREAM, CHAIN, STUCK, ALL},
         "rank 2 has been stuck for ",
         {"rank 0 waits for rank 1 ", "rank 1 waits for rank 2 ", "rank 2 works ", "rank 3 waits for rank "}},
    };
    for (size_t i = 0; i < sizeof hangs / sizeof *hangs; i++) {
        memset(&told, 0, sizeof told);
        assert_int_equal(zr_comm_threads_run(RANKS, plant, (void *)&hangs[i]), ZR_ERR_PEER);
        if (strncmp(told.said, hangs[i].said, strlen(hangs[i].said)) != 0)
            fail_msg("hang %zu: \"%s\" is no \"%s\"", i, told.said, hangs[i].said);
        for (int r = 0; r < RANKS; r++)
            if (strncmp(told.of[r], hangs[i].of[r], strlen(hangs[i].of[r])) != 0)
                fail_msg("hang %zu: \"%s\" is no \"%s\"", i, told.of[r], hangs[i].of[r]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(limits), cmocka_unit_test(first_step),
                                       cmocka_unit_test(planted_hangs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
