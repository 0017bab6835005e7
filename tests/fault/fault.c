/* Failures that tests inject by the variable ZR_FAULT. The program zr_fault is the command's own objects with this one,
 * which fills the hooks cli_faults and stands between the program and its allocations and writes (--wrap, Makefile):
 *
 *     (kill|stop|hang):RANK@PHASE[:STEP]   a rank, when it comes to a phase, or in a pipeline to a cell such as 1B3;
 *                                          STEP: of that training step alone
 *     alloc:N, write:N                     the N-th allocation or write of the process fails
 *     slow:MS                              each write of a file's range takes MS milliseconds longer */
#include "cli/shell/process.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const ways[] = {"kill", "stop", "hang"};
static const char *const phases[] = {"start",  "forward", "backward", "exchange", "update",
                                     "gather", "save",    "evaluate", "end"};

/* Fault at a place of a run. */
static struct {
    int way, rank;
    char phase[24]; /* as zr_observer.reached names it */
    int64_t step;   /* 0: any */
} fault = {.way = -1};

/* Calls left until one fails; 0: no fault. */
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

static bool library_lacks_memory(void)
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

static int index_of(const char *const *words, int n, const char *word)
{
    while (n > 0 && strcmp(words[n - 1], word) != 0) n--;
    return n - 1;
}

/* Fail a rank, as an observer's `reached`. */
static void fail_rank(void *arg, int rank, const char *phase, int64_t step)
{
    (void)arg;
    if (rank != fault.rank || strcmp(phase, fault.phase) != 0 || (fault.step && step != fault.step)) return;
    if (strcmp(ways[fault.way], "kill") == 0) raise(SIGKILL);
    if (strcmp(ways[fault.way], "stop") == 0) raise(SIGSTOP);
    while (strcmp(ways[fault.way], "hang") == 0) sleep(1);
}

/* Read "NAME:N" with N above 0. */
static bool read_count(const char *text, const char *name, long long *n)
{
    const size_t length = strlen(name);
    int used = 0;
    return strncmp(text, name, length) == 0 && sscanf(text + length, ":%18lld%n", n, &used) == 1 &&
           !text[length + (size_t)used] && *n > 0;
}

static zr_status read_fault(void)
{
    char way[8] = "", phase[16] = "";
    long long step = 0, n = 0;
    int rank = 0, used = 0;
    const char *text = getenv("ZR_FAULT");
    if (!text || !*text) return ZR_OK;
    if (read_count(text, "alloc", &n)) {
        atomic_store(&allocations, n);
    } else if (read_count(text, "write", &n)) {
        atomic_store(&writes, n);
    } else if (read_count(text, "slow", &n)) {
        slow_ms = n;
    } else {
        bool read = sscanf(text, "%7[a-z]:%9d@%15[a-zA-Z0-9]%n:%18lld%n", way, &rank, phase, &used, &step, &used) >= 3;
        fault.way = index_of(ways, sizeof(ways) / sizeof(ways[0]), way);
        int stage = 0, micro = 0, length = 0;
        const bool cell = sscanf(phase, "%4d%*1[FBIW]%4d%n", &stage, &micro, &length) == 2 && !phase[length];
        const bool known = cell || index_of(phases, sizeof(phases) / sizeof(phases[0]), phase) >= 0;
        snprintf(fault.phase, sizeof fault.phase, "%s%s", cell ? "cell " : "", phase);
        fault.rank = rank;
        fault.step = step;
        ZR_CHECK(
            read && !text[used] && fault.way >= 0 && known, ZR_ERR_ARG,
            "ZR_FAULT is \"%s\"; (kill|stop|hang):RANK@PHASE[:STEP], alloc:N, write:N or slow:MS was wanted, PHASE "
            "one of start, forward, backward, exchange, update, gather, save, evaluate, end, or a cell such as 1B3",
            text);
        cli_faults.reached = fail_rank;
    }
    return ZR_OK;
}

__attribute__((constructor)) static void fill_hooks(void)
{
    cli_faults.begin = read_fault;
    cli_faults.allocation = library_lacks_memory;
}
