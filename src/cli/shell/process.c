/** Process settings that the command changes before it computes. The library does not change them, so that other
 * programs can choose their own settings. */
#include "cli/shell/process.h"

#include "base/core/scope.h"

#include <stdio.h>
#include <malloc.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Size of the buffer for a command line, in bytes. No system allows a longer command line. */
#define WORDS_BYTES ((size_t)8 << 20)

/** Read all words of this process's command line into `words`, a buffer of WORDS_BYTES bytes. A zero byte ends each
 * word. Return the number of bytes, or 0 on failure. main's argv may be incomplete: if a loader such as ld.so was
 * started with the program, argv lacks the loader's words. */
static size_t read_words(char *words)
{
    FILE *in = fopen("/proc/self/cmdline", "re");
    if (!in) return 0;
    const size_t bytes = fread(words, 1, WORDS_BYTES, in);
    const bool whole = !ferror(in) && bytes > 0 && words[bytes - 1] == '\0';
    fclose(in);
    return whole ? bytes : 0;
}

/** Return the words as a list for execv, or NULL if memory is lacking. The list points into `words`. */
static char **list_words(char *words, size_t bytes)
{
    size_t n = 0;
    for (size_t at = 0; at < bytes; at += strlen(words + at) + 1) n++;
    char **list = zr_alloc((n + 1) * sizeof *list); /* set to zero, so that the list ends with NULL */
    n = 0;
    for (size_t at = 0; list && at < bytes; at += strlen(words + at) + 1) list[n++] = words + at;
    return list;
}

/** Shorten the spinning of libgomp's threads. After every loop the threads spin for milliseconds before they sleep. If
 * other processes share the cores, spinning makes steps of a small model 4 to 10 times as long (measured). libgomp
 * reads its settings when it is loaded, before main. Therefore set a short spin and start the program once again. Keep
 * a setting that the user made. If the restart fails, continue unchanged. */
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
    /* malloc reserves 64 MiB of addresses per thread, so that threads do not wait for each other. If addresses are
     * limited (ulimit -v), let all threads share one heap, so that addresses do not run out. */
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) mallopt(M_ARENA_MAX, 1);
#endif
}

void cli_leave_binding(void)
{
    cpu_set_t all;
    memset(&all, 0xff, sizeof(all));
    /* on failure the process stays bound */
    if (sched_setaffinity(0, sizeof(all), &all) != 0) return;
}

zr_status cli_ranks_run(int ranks, zr_status (*rank)(zr_comm *comm, void *arg), void *arg)
{
    ZR_AUTO(zr_comm_destroy) zr_comm *comm = NULL;
    if (ranks > 1) return zr_comm_threads_run(ranks, rank, arg);
    ZR_TRY(zr_comm_create_self(&comm));
    return rank(comm, arg);
}
