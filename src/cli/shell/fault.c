/* ZR_FAULT: failures that tests inject. The code is in every build, so that tests run the same program as users:
 * without a fault an allocation and a write cost one look at a number each, and a step nothing. */
#include "cli/shell/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const ways[] = {"kill", "stop", "hang"};
static const char *const phases[] = {"start",  "forward", "backward", "exchange", "update",
                                     "gather", "save",    "evaluate", "end"};

/* Fault at a place of a run. */
static struct {
    int way, rank, phase;
    int64_t step; /* 0: any */
} fault = {.way = -1};

/* Calls left until one fails; 0: no fault. The library's own calls come here too (--wrap, Makefile). */
static atomic_llong allocations, writes;
static long long slow_ms; /* milliseconds added to each write of a file's range */

static bool is_due(atomic_llong *left)
{
    return atomic_load_explicit(left, memory_order_relaxed) > 0 && atomic_fetch_sub(left, 1) == 1;
}

void *__real_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes)
{
    return is_due(&allocations) ? NULL : __real_zr_alloc(bytes);
}

bool cli_fault_allocation(void)
{
    return is_due(&allocations);
}

ssize_t __real_pwrite(int fd, const void *in, size_t bytes, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *in, size_t bytes, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *in, size_t bytes, off_t offset)
{
    if (slow_ms > 0) nanosleep(&(struct timespec){slow_ms / 1000, slow_ms % 1000 * 1000000}, NULL);
    if (!is_due(&writes)) return __real_pwrite(fd, in, bytes, offset);
    errno = EIO;
    return -1;
}

/* Fail writes to files only, not messages on stdout and stderr. */
ssize_t __real_write(int fd, const void *in, size_t bytes);
ssize_t __wrap_write(int fd, const void *in, size_t bytes);
ssize_t __wrap_write(int fd, const void *in, size_t bytes)
{
    if (fd <= STDERR_FILENO || !is_due(&writes)) return __real_write(fd, in, bytes);
    errno = EIO;
    return -1;
}

static int find(const char *const *words, int n, const char *word)
{
    while (n > 0 && strcmp(words[n - 1], word) != 0) n--;
    return n - 1;
}

zr_status cli_fault_read(void)
{
    char way[8] = "", phase[16] = "";
    long long step = 0, n = 0;
    int rank = 0, used = 0;
    const char *text = getenv("ZR_FAULT");
    if (!text || !*text) return ZR_OK;
    if (sscanf(text, "alloc:%18lld%n", &n, &used) == 1 && !text[used] && n > 0) {
        atomic_store(&allocations, n);
        return ZR_OK;
    }
    if (sscanf(text, "write:%18lld%n", &n, &used) == 1 && !text[used] && n > 0) {
        atomic_store(&writes, n);
        return ZR_OK;
    }
    if (sscanf(text, "slow:%18lld%n", &n, &used) == 1 && !text[used] && n > 0) {
        slow_ms = n;
        return ZR_OK;
    }
    bool read = sscanf(text, "%7[a-z]:%9d@%15[a-z]%n:%18lld%n", way, &rank, phase, &used, &step, &used) >= 3;
    fault.way = find(ways, sizeof(ways) / sizeof(ways[0]), way);
    fault.phase = find(phases, sizeof(phases) / sizeof(phases[0]), phase);
    fault.rank = rank;
    fault.step = step;
    ZR_CHECK(read && !text[used] && fault.way >= 0 && fault.phase >= 0, ZR_ERR_ARG,
             "ZR_FAULT is \"%s\"; it is for tests: (kill|stop|hang):RANK@PHASE[:STEP], PHASE one of start, forward, "
             "backward, exchange, update, gather, save, evaluate, end; alloc:N; write:N; slow:MS",
             text);
    return ZR_OK;
}

bool cli_fault_asked(void)
{
    return fault.way >= 0;
}

void cli_fault_reached(void *arg, int rank, const char *phase, int64_t step)
{
    (void)arg;
    if (rank != fault.rank || strcmp(phase, phases[fault.phase]) != 0 || (fault.step && step != fault.step)) return;
    if (strcmp(ways[fault.way], "kill") == 0) raise(SIGKILL);
    if (strcmp(ways[fault.way], "stop") == 0) raise(SIGSTOP);
    while (strcmp(ways[fault.way], "hang") == 0) sleep(1);
}
