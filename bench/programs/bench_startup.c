/*
 * Start-up time of `zr train`: the time from exec to the end of the first step, less the median time of a step. For
 * comparison, the time in which the same number of threads touches as many bytes as the plan has. Both measurements
 * begin after a pause: a host may reclaim free memory of a virtual machine, which then gets its pages slowly, and both
 * measurements must be affected equally.
 *
 *     build/bench/bench_startup CONFIG.json --ranks 8 [--key=value ...]
 *
 * train.steps must be at least 5. The documentation promises the start-up time for stage 3.
 *
 * Prints one JSON line for each promise: {"what", "value", "wanted", "ok"}.
 */
#include <zr.h>

#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 3, STEPS = 256, PAUSE_SEC = 5, RANKS = 1024, VERSIONS = 21, WORDS = 64 };

typedef struct startup {
    double beyond_sec; /* time to the end of the first step, less a median step */
    double step_sec;
    int ranks;
    int64_t total_bytes; /* planned bytes of a rank */
} startup;

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static void die(const char *what)
{
    fprintf(stderr, "bench_startup: %s\n", what);
    exit(1);
}

/* Start argv[0] with a pipe as its standard output (fd 1) or standard error (fd 2). */
static pid_t spawn(char *const *argv, int fd, FILE **out)
{
    int end[2];
    if (pipe(end) != 0) die("no pipe");
    pid_t child = fork();
    if (child < 0) die("no process");
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        dup2(null, 2);
        dup2(end[1], fd);
        close(end[0]);
        close(end[1]);
        execv(argv[0], argv);
        _exit(127);
    }
    close(end[1]);
    *out = fdopen(end[0], "r");
    return child;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

/* Run a training command. Store the time at which each step's line is printed, as a waiting user sees it. */
static int step_times(char *const *argv, double at[STEPS])
{
    FILE *err;
    char line[4096];
    int n = 0, status = 0;
    pid_t child = spawn(argv, 2, &err);
    while (fgets(line, sizeof line, err))
        if (strncmp(line, "step ", 5) == 0 && n < STEPS) at[n++] = zr_clock_sec();
    fclose(err);
    waitpid(child, &status, 0);
    if (status != 0 || n < 5) die("zr train failed, or took fewer than 5 steps");
    return n;
}

static void read_plan(const char *dir, startup *s)
{
    char path[4096], text[8192];
    snprintf(path, sizeof path, "%s/run.json", dir);
    FILE *file = fopen(path, "r");
    if (!file) die("no run.json");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *ranks = strstr(text, "\"ranks\":"), *total = strstr(text, "\"total\":");
    if (!ranks || !total) die("run.json without its plan");
    s->ranks = atoi(ranks + 8);
    s->total_bytes = atoll(total + 8);
    if (s->ranks < 1 || s->ranks > RANKS) die("more ranks than this program has threads");
}

static startup measure(char *const *argv, const char *dir)
{
    startup s;
    double at[STEPS], step[STEPS], begin = zr_clock_sec();
    int n = step_times(argv, at);
    for (int i = 1; i < n; i++) step[i - 1] = at[i] - at[i - 1];
    s.step_sec = median(step, n - 1);
    s.beyond_sec = at[0] - begin - s.step_sec;
    read_plan(dir, &s);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return s;
}

static void *touch(void *arg)
{
    const int64_t bytes = *(const int64_t *)arg, page = 4096;
    char *memory = zr_alloc((size_t)bytes); /* allocated as for a rank */
    for (int64_t i = 0; memory && i < bytes; i += page) ((volatile char *)memory)[i] = 1;
    return memory;
}

/* Return the time in which the threads of all ranks touch their memory. It is freed only at the end, so that no thread
 * gets pages that another has touched. */
static double touch_sec(const startup *s)
{
    static pthread_t thread[RANKS];
    static void *memory[RANKS];
    int64_t bytes = s->total_bytes;
    double begin = zr_clock_sec();
    for (int r = 0; r < s->ranks; r++)
        if (pthread_create(&thread[r], NULL, touch, &bytes) != 0) die("no thread");
    for (int r = 0; r < s->ranks; r++) pthread_join(thread[r], &memory[r]);
    double sec = zr_clock_sec() - begin;
    for (int r = 0; r < s->ranks; r++) {
        if (!memory[r]) die("no memory");
        zr_free(memory[r]);
    }
    return sec;
}

static double version_sec(char *zr)
{
    char *const argv[] = {zr, "--version", NULL};
    double sec[VERSIONS];
    for (int i = 0; i < VERSIONS; i++) {
        FILE *out;
        int status;
        double begin = zr_clock_sec();
        pid_t child = spawn(argv, 1, &out);
        waitpid(child, &status, 0);
        sec[i] = zr_clock_sec() - begin;
        fclose(out);
        if (status != 0) die("zr --version failed");
    }
    return median(sec, VERSIONS);
}

static void promise(const char *what, double value, double wanted)
{
    printf("{\"what\":\"%s\", \"value\":%.4g, \"wanted\":%g, \"ok\":%s}\n", what, value, wanted,
           value <= wanted ? "true" : "false");
}

int main(int argc, char **argv)
{
    char zr[4096], dir[] = "/tmp/zr-startup-XXXXXX", output[64], *words[WORDS] = {zr, "train"};
    double ratio[ROUNDS];
    const char *slash = strrchr(argv[0], '/');
    if (argc < 2 || argc > WORDS - 6) die("usage: bench_startup CONFIG.json [options of zr train]");
    if (!mkdtemp(dir)) die("no directory in /tmp");
    snprintf(zr, sizeof zr, "%.*s../zr", slash ? (int)(slash + 1 - argv[0]) : 0, argv[0]);
    snprintf(output, sizeof output, "--train.output_dir=%s/run", dir);
    int n = 2;
    for (int i = 1; i < argc; i++) words[n++] = argv[i];
    words[n++] = "--steps_per_print=1";
    words[n] = output;
    for (int round = 0; round < ROUNDS; round++) {
        sleep(PAUSE_SEC);
        startup s = measure(words, output + strlen("--train.output_dir="));
        sleep(PAUSE_SEC);
        double touched = touch_sec(&s);
        ratio[round] = s.beyond_sec / touched;
        fprintf(stderr, "beyond the first step %.3f s, touching %d x %lld bytes %.3f s, a step %.3f s\n", s.beyond_sec,
                s.ranks, (long long)s.total_bytes, touched, s.step_sec);
    }
    rmdir(dir);
    promise("start-up beyond the first step / touching its memory", median(ratio, ROUNDS), 2);
    promise("zr --version, seconds", version_sec(zr), 0.01);
    return 0;
}
