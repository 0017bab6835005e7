//TEST timeout=400 needs=/proc/self mpi=1 long=more
/* The resident memory of a GPT-2 run (124M in the long run) is as the interface promises: a process's own anonymous
 * memory and its own window bytes stay within 1.03 x the sum of `total` over its ranks + 48 MiB, from initialization to
 * the saved model, including checkpoints. Measured from outside the process. */
#include "support/cli_run.h"
#include "support/long.h"

#include <dirent.h>
#include <sys/types.h>
#include <unistd.h>

enum { MAX_PROCESSES = 16 };

/* Return whether a process is "zr train" with our output directory. */
static bool is_ours(long pid, const char *run)
{
    char path[64], text[8192];
    snprintf(path, sizeof path, "/proc/%ld/cmdline", pid);
    FILE *f = fopen(path, "r");
    if (!f) return false;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    const char *name = strrchr(text, '/');
    if (strcmp(name ? name + 1 : text, "zr") != 0) return false;
    for (size_t i = 0; i < n; i += strlen(text + i) + 1)
        if (strstr(text + i, run)) return true;
    return false;
}

static int64_t anonymous_bytes(long pid)
{
    char path[64], line[200];
    long long kib = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) sscanf(line, "RssAnon: %lld kB", &kib);
    if (f) fclose(f);
    return (int64_t)kib * 1024;
}

/* Start a run and watch its processes until it ends; return the highest anonymous memory of any process. */
static int64_t watch(const char *command, const char *run, int *rc)
{
    int64_t highest = 0;
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    while (waitpid(child, rc, WNOHANG) == 0) {
        DIR *proc = opendir("/proc");
        for (struct dirent *d = proc ? readdir(proc) : NULL; d; d = readdir(proc)) {
            long pid = strtol(d->d_name, NULL, 10);
            if (pid <= 1 || !is_ours(pid, run)) continue;
            int64_t now = anonymous_bytes(pid);
            if (now > highest) highest = now;
        }
        if (proc) closedir(proc);
        usleep(20000); /* a step of this model takes far longer, and each look costs time */
    }
    return highest;
}

#define BF16 "--bf16.enabled=true "
#define FP16 "--fp16.enabled=true "
#define PAPER "--memory.layout=paper "   /* lean is the default */
#define CONSUME "--gradient_clipping=0 " /* lean then keeps no gradient */
#define TWO_PASS "--memory.norm=two_pass "
#define UNIT "--activation_checkpointing.policy=unit "
#define SAVE "--train.save_interval=1 "
#define SELECTIVE "--activation_checkpointing.policy=selective "

/* Runs that cover every stage, type, layout and recompute policy, in one process and in two; few runs, because each
 * takes seconds. The runs of the short test cover all values as well. */
static const struct {
    int ranks;
    bool mpi;
    int stage;
    bool small; /* another model, of a few million parameters */
    bool brief; /* in the short run */
    const char *options;
} runs[] = {
    {24, false, 3, true, true, SAVE}, /* memory per thread counts most here */
    {1, false, 0, false, false, PAPER},
    {1, false, 3, false, false, BF16 CONSUME UNIT},
    {1, false, 2, false, true, FP16 TWO_PASS SELECTIVE},
    {1, false, 0, false, true, BF16 "--gradient_accumulation_steps=2"},
    {2, false, 3, false, true, CONSUME UNIT},
    {2, false, 3, false, false, FP16 UNIT},
    {2, true, 0, false, false, FP16},
    {2, true, 1, false, true, PAPER SELECTIVE SAVE},
    {2, true, 3, false, false, BF16 CONSUME UNIT},
};

static void check(int i)
{
    int ranks = runs[i].ranks;
    bool mpi = runs[i].mpi;
    char run[400], command[4000], path[600];
    snprintf(run, sizeof run, "%s/run-%d", cli_dir, i);
    snprintf(command, sizeof command,
             "exec %s %s train '%s/%s.json' --quiet %s --zero_optimization.stage=%d %s "
             "--train.output_dir='%s' >'%s/log' 2>&1",
             cli_launcher(mpi, ranks), cli_zr(), cli_dir, runs[i].small ? "small" : "large", cli_ranks(mpi, ranks),
             runs[i].stage, runs[i].options, run, cli_dir);
    int rc = 0;
    int64_t highest = watch(command, run, &rc);
    if (rc != 0) {
        cli_print_log();
        fail_msg("stage %d %s ended with %d", runs[i].stage, runs[i].options, rc);
    }
    snprintf(path, sizeof path, "%s/run.json", run);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    json_t *memory = json_object_get(json_object_get(root, "planned"), "memory");
    int64_t total = json_integer_value(json_object_get(memory, "total")), own = mpi ? 1 : ranks;
    int64_t window = mpi ? json_integer_value(json_object_get(memory, "buffer")) : 0;
    int64_t limit = (int64_t)(1.03 * (double)(own * total)) + (48 << 20);
    int64_t reported = json_integer_value(json_object_get(root, "peak_rss_bytes"));
    print_message("# %d ranks %s stage %d %s: %lld MiB seen, %lld reported, %lld promised\n", ranks,
                  mpi ? "mpi" : "threads", runs[i].stage, runs[i].options, (long long)(highest + window) >> 20,
                  (long long)reported >> 20, (long long)limit >> 20);
    assert_true(total > 0 && highest + window > own * total / 2); /* the run was observed while training */
    if (highest + window > limit)
        fail_msg("%lld bytes are above the promised %lld", (long long)(highest + window), (long long)limit);
    if (reported > limit)
        fail_msg("run.json says %lld bytes, above the promised %lld", (long long)reported, (long long)limit);
    json_decref(root);
    cli_shell("rm -rf '%s'", run);
}

static void write_config(const char *name, const char *model, int batch, int seq, int steps)
{
    char config[2000];
    snprintf(
        config, sizeof config,
        "{\"model\": {%s}, \"data\": {\"train\": \"%s/text\", \"seq_length\": %d},"
        " \"train_micro_batch_size_per_gpu\": %d, \"gradient_clipping\": 1.0, \"optimizer\": {\"type\": \"AdamW\", "
        "\"params\": {\"lr\": 1e-4}},"
        " \"train\": {\"steps\": %d}}",
        model, cli_dir, seq, batch, steps);
    cli_write(name, config);
}

static void test_rss(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    print_message("# skipped: the sanitizer's own memory would be counted\n");
    skip();
#endif
    cli_write_text();
    /* The short run's model is the smallest one for which a copy of the gradient, or of the embedding in fp32, exceeds
     * the limit, since the limit's constant part of 48 MiB is large compared with a small model. */
    write_config("large.json",
                 is_long_run() ? "\"preset\": \"gpt2-124m\""
                               : "\"type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 768, \"n_head\": 12, "
                                 "\"n_positions\": 1024, \"vocab_size\": 30000",
                 1, 64, 1);
    write_config("small.json",
                 "\"type\": \"gpt2\", \"n_layer\": 1, \"n_embd\": 512, \"n_head\": 8, \"n_positions\": 256, "
                 "\"vocab_size\": 256",
                 is_long_run() ? 4 : 1, is_long_run() ? 256 : 128, is_long_run() ? 4 : 2);
    bool mpirun = cli_have_mpirun();
    if (!mpirun) print_message("# no mpirun: threads only\n");
    for (int i = 0; i < (int)(sizeof runs / sizeof *runs); i++)
        if ((mpirun || !runs[i].mpi) && (runs[i].brief || is_long_run())) check(i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rss)};
    return cmocka_run_group_tests(tests, cli_setup, cli_teardown);
}
