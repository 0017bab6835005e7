#include "comm/barrier.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Number of polls before a wait sleeps. Polling takes about 50 us in total. This is longer than the ranks of a balanced
 * step wait for each other. It is shorter than the scheduler's time slice for another process. */
#define SPINS 1000

/* Lowest bit of `word`, set when a rank has left for good. Completing a barrier adds 2 to `word`, which never changes
 * this bit. */
#define LEFT 1u

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Sleep while *word equals `value`, for at most a quarter of a second. Return whether this time ran out.
 * FUTEX_PRIVATE_FLAG is not set, because the word may lie in memory that processes share. */
static bool sleep_while(_Atomic uint32_t *word, uint32_t value)
{
    const struct timespec most = {.tv_nsec = 250000000};
    return syscall(SYS_futex, word, FUTEX_WAIT, value, &most, NULL, 0) != 0 && errno == ETIMEDOUT;
}

static void wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Return whether waiting ranks may spin: each has a core, and OpenMP's threads may spin too. */
static bool may_spin(int host_ranks)
{
    const char *policy = getenv("OMP_WAIT_POLICY");
    if (policy && strcasecmp(policy, "passive") == 0) return false;
    return host_ranks <= sysconf(_SC_NPROCESSORS_ONLN);
}

void zr__barrier_init(zr__barrier *barrier, int size, int host_ranks)
{
    atomic_init(&barrier->word, 0);
    atomic_init(&barrier->arrived, 0);
    atomic_init(&barrier->leaver, 0);
    barrier->size = (uint32_t)size;
    barrier->spins = may_spin(host_ranks) ? SPINS : 0;
}

int zr__barrier_wait(zr__barrier *barrier, void (*late)(void *arg), void *arg)
{
    uint32_t entry = atomic_load_explicit(&barrier->word, memory_order_acquire);
    if (entry & LEFT) return (int)atomic_load_explicit(&barrier->leaver, memory_order_relaxed);

    if (atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_acq_rel) + 1 == barrier->size) {
        atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
        atomic_fetch_add_explicit(&barrier->word, 2, memory_order_release);
        wake_all(&barrier->word);
        return 0;
    }
    for (uint32_t looks = 0;; looks++) {
        uint32_t now = atomic_load_explicit(&barrier->word, memory_order_acquire);
        /* Check for completion before LEFT. A rank that completed this barrier may leave for good before this rank
         * polls again. */
        if ((now ^ entry) & ~LEFT) return 0;
        if (now & LEFT) return (int)atomic_load_explicit(&barrier->leaver, memory_order_relaxed);
        if (looks < barrier->spins)
            pause_cpu();
        else if (sleep_while(&barrier->word, now))
            late(arg);
    }
}

void zr__barrier_leave(zr__barrier *barrier, int rank)
{
    uint32_t none = 0;
    atomic_compare_exchange_strong(&barrier->leaver, &none, (uint32_t)rank + 1);
    atomic_fetch_or_explicit(&barrier->word, LEFT, memory_order_release);
    wake_all(&barrier->word);
}
