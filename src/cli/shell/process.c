/** Settings of the command's own process before it computes; a program that uses the library decides for itself. */
#include "cli/shell/process.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Bytes of a command line at most: no system hands more to a program. */
#define WORDS_BYTES ((size_t)8 << 20)

/** Read all words of this process's command line, each with its end, into room for WORDS_BYTES; return their bytes, 0
 * when they are not known. main's words do not do: a loader that was given the program as an argument has removed its
 * own. */
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

/** List the words as execv wants them; NULL without memory. */
static char **list_words(char *words, size_t bytes)
{
    size_t n = 0;
    for (size_t at = 0; at < bytes; at += strlen(words + at) + 1) n++;
    char **list = zr_alloc((n + 1) * sizeof *list); /* zeroed: NULL last */
    if (!list) return NULL;
    n = 0;
    for (size_t at = 0; at < bytes; at += strlen(words + at) + 1) list[n++] = words + at;
    return list;
}

/** Shorten libgomp's spin. Its threads spin at the end of every loop for milliseconds before they sleep; where other
 * work shares the cores, most of the time is lost to that (measured: steps of a small model 4 to 10 times as long).
 * libgomp reads its settings when it is loaded, before main: so set a short spin and start again, once. A user's own
 * setting stands; where the program cannot be started again it goes on as it is. */
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
    /* malloc sets 64 MiB of addresses aside for each thread, so that threads do not wait for each other. Where
     * addresses are limited (ulimit -v), that leaves none: all threads share one heap. */
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) mallopt(M_ARENA_MAX, 1);
#endif
}

void cli_leave_binding(void)
{
    cpu_set_t all;
    memset(&all, 0xff, sizeof(all));
    if (sched_setaffinity(0, sizeof(all), &all) != 0) return; /* then the binding stays, and threads follow it */
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
