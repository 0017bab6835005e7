//TEST timeout=300 tsan=1 mpi=1 long=more
/* "loss" and "grad_norm" of metrics.jsonl are the same text at every stage, bucket size and transport, and in a second
 * run. */
#include "support/cli_run.h"
#include "support/known_rates.h"
#include "support/long.h"

enum { STEPS = 4 };

/* Collect the numbers as written: the text between "key": and the next comma. */
static void numbers(const char *run, char *text, size_t size)
{
    char path[600], line[2000];
    size_t used = 0;
    snprintf(path, sizeof path, "%s/%s/metrics.jsonl", cli_dir, run);
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("no %s", path);
    int steps = 0;
    while (fgets(line, sizeof line, f)) {
        const char *loss = strstr(line, "\"loss\":"), *norm = strstr(line, "\"grad_norm\":");
        if (!loss) continue;
        assert_non_null(norm);
        used += (size_t)snprintf(text + used, size - used, "%.*s %.*s\n", (int)strcspn(loss, ","), loss,
                                 (int)strcspn(norm, ","), norm);
        steps++;
    }
    fclose(f);
    assert_int_equal(steps, STEPS);
}

static void run(const char *name, int ranks, bool mpi, const char *options)
{
    int rc = cli_shell("%s %s train '%s/config.json' --quiet %s %s --train.output_dir='%s/%s'",
                       cli_launcher(mpi, ranks), cli_zr(), cli_dir, cli_ranks(mpi, ranks), options, cli_dir, name);
    if (rc != 0) {
        cli_print_log();
        fail_msg("%s (%s) ended with %d", name, options, rc);
    }
    cli_check_accounts(name);
}

static void same(const char *first, const char *other, const char *what)
{
    char a[4000], b[4000];
    numbers(first, a, sizeof a);
    numbers(other, b, sizeof b);
    if (strcmp(a, b) != 0) fail_msg("%s:\n%sagainst\n%s", what, b, a);
}

static void write_config(void)
{
    char config[2000];
    cli_write_text();
    snprintf(config, sizeof config,
             "{\"model\": {\"type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 3, \"n_embd\": 57, \"n_positions\": 24, "
             "\"vocab_size\": 256, \"dropout\": 0.1},"
             " \"data\": {\"train\": \"%s/text\", \"seq_length\": 23}, \"train_micro_batch_size_per_gpu\": 2, "
             "\"gradient_clipping\": 1.0,"
             " \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 1e-3}}, \"train\": {\"steps\": %d, "
             "\"threads\": 1}}",
             cli_dir, STEPS);
    cli_write("config.json", config);
}

static void test_bits(void **state)
{
    (void)state;
    write_config();
    bool mpirun = cli_have_mpirun();
    if (!mpirun) print_message("# no mpirun: threads only\n");
    static const char *const bucket[] = {"1", "1000", "\"auto\"", "100000000"};
    int n = 0; /* number of groups of runs; each group has all stages and bucket sizes and both transports */
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int accum = 1; accum <= 4; accum += 3)
            for (int bf16 = 0; bf16 <= 1; bf16++, n++) {
                char first[40] = "";
                if (!is_long_run() && (ranks + accum + bf16) % 2) continue; /* a short run covers all pairs of values */
                for (int stage = 0; stage <= 3; stage++) {
                    char name[40], options[400];
                    snprintf(name, sizeof name, "run%d-%d", n, stage);
                    const char *size = bucket[(n / 2 + stage) % 4];
                    snprintf(options, sizeof options,
                             "--zero_optimization.stage=%d --gradient_accumulation_steps=%d --bf16.enabled=%s "
                             "--zero_optimization.reduce_bucket_size=%s "
                             "--zero_optimization.allgather_bucket_size=%s",
                             stage, accum, bf16 ? "true" : "false", size, size);
                    run(name, ranks, mpirun && (n / 2 + stage / 2) % 2, options);
                    if (stage == 0)
                        snprintf(first, sizeof first, "%s", name);
                    else
                        same(first, name, options);
                }
            }
}

static void test_second_run(void **state)
{
    (void)state;
    write_config();
    run("again1", 2, false, "--zero_optimization.stage=2");
    run("again2", 2, false, "--zero_optimization.stage=2");
    same("again1", "again2", "a second run");
    if (!cli_have_mpirun()) return;
    run("again3", 2, true, "--zero_optimization.stage=2");
    same("again1", "again3", "mpirun");
}

static int setup(void **state)
{
    char cache[300];
    int failed = cli_setup(state);
    snprintf(cache, sizeof cache, "%s/cache", cli_dir);
    return failed || set_rates(cache) ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits), cmocka_unit_test(test_second_run)};
    return cmocka_run_group_tests(tests, setup, cli_teardown);
}
