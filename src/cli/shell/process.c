/** Settings of the process that the command makes before it computes. The library does not make them, so that other
 * programs can decide on their own settings. */
#include "cli/shell/process.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Maximum number of bytes of a command line. No system passes more to a program. */
#define WORDS_BYTES ((size_t)8 << 20)

/** Read all words of this process's command line into `words`, a buffer of WORDS_BYTES bytes. Each word is followed by
 * a zero byte. Return the number of bytes, or 0 if the words are unknown. main's argv is not enough, because a loader
 * that runs the program removes the loader's own words from argv. */
static size_t read_words(char *words)
{
    size_t bytes = 0;
    ssize_t n = -1;
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    do {
        n = read(fd, words + bytes, WORDS_BYTES - bytes);
        if (n > 0) bytes += (size_t)n;
    } while (n > 0 || (n < 0 && errno == EINTR));
    close(fd);
    return n == 0 && bytes > 0 && words[bytes - 1] == '\0' ? bytes : 0;
}

/** Make a list of the words in the form that execv needs. Return NULL if memory is lacking. */
static char **list_words(char *words, size_t bytes)
{
    size_t n = 0;
    for (size_t at = 0; at < bytes; at += strlen(words + at) + 1) n++;
    char **list = zr_alloc((n + 1) * sizeof *list); /* set to zero, so that the list ends with NULL */
    if (!list) return NULL;
    n = 0;
    for (size_t at = 0; at < bytes; at += strlen(words + at) + 1) list[n++] = words + at;
    return list;
}

/** Shorten the spinning of libgomp's threads. At the end of every loop these threads spin for milliseconds before they
 * sleep. If other work shares the cores, spinning takes most of the time (measured: steps of a small model took 4 to
 * 10 times as long). libgomp reads its settings when it is loaded, before main. Therefore this function sets a short
 * spin and starts the program once again. It keeps a setting that the user made. If the program cannot be started
 * again, it continues unchanged. */
static void shorten_spins(void)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
    char *words = zr_alloc(WORDS_BYTES);
    size_t bytes = words ? read_words(words) : 0;
    char **list = bytes ? list_words(words, bytes) : NULL;
    if (list) {
        setenv("GOMP_SPINCOUNT", "10000", 1);
        execv("/proc/self/exe", list);
    }
    zr_free(list);
    zr_free(words);
}

void cli_set_process(void)
{
    shorten_spins();
#ifdef M_ARENA_MAX
    /* malloc reserves 64 MiB of addresses for each thread, so that threads need not wait for each other. If addresses
     * are limited (ulimit -v), the process would run out of addresses, so let all threads share one heap. */
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) mallopt(M_ARENA_MAX, 1);
#endif
}

void cli_leave_binding(void)
{
    cpu_set_t all;
    memset(&all, 0xff, sizeof(all));
    /* on failure the process and its threads stay bound */
    if (sched_setaffinity(0, sizeof(all), &all) != 0) return;
}

zr_status cli_ranks_run(int ranks, zr_status (*rank)(zr_comm *comm, void *arg), void *arg)
{
    zr_comm *comm = NULL;
    if (ranks > 1) return zr_comm_threads_run(ranks, rank, arg);
    ZR_TRY(zr_comm_create_self(&comm));
    zr_status st = rank(comm, arg);
    zr_comm_destroy(&comm);
    return st;
}
