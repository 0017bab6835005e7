/* Runs the command from a C test: a scratch folder, training runs under threads or mpirun, and their metrics. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static char cli_dir[256];

static inline int cli_setup(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(cli_dir, sizeof cli_dir, "%s/zr-test-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(cli_dir) ? 0 : -1;
}

static inline int cli_teardown(void **state)
{
    (void)state;
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'", cli_dir);
    return system(command);
}

/* Return the path of the command, quoted for a shell. */
static inline const char *cli_zr(void)
{
    static char word[2100];
    const char *zr = getenv("ZR");
    snprintf(word, sizeof word, "'%s'", zr ? zr : "build/zr");
    return word;
}

/* Run a shell command and return its exit code; its output goes to cli_dir/log. */
static inline int cli_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline int cli_shell(const char *format, ...)
{
    char command[8192];
    int used = snprintf(command, sizeof command, "exec >'%s/log' 2>&1 </dev/null; ", cli_dir);
    va_list args;
    va_start(args, format);
    vsnprintf(command + used, sizeof command - (size_t)used, format, args);
    va_end(args);
    int rc = system(command);
    return WIFEXITED(rc) ? WEXITSTATUS(rc) : 128 + WTERMSIG(rc);
}

static inline void cli_print_log(void)
{
    char path[300], line[1000];
    snprintf(path, sizeof path, "%s/log", cli_dir);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) print_message("# %s", line);
    if (f) fclose(f);
}

static inline void cli_write(const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", cli_dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* Write cli_dir/text: 20 kB of lines that differ and yet repeat words. */
static inline void cli_write_text(void)
{
    char text[20000];
    size_t used = 0;
    for (int i = 0; used < sizeof text - 40; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%d bottles and %d cans; ", i * i, i % 7);
    cli_write("text", text);
}

/* Return the launcher to put before "zr train" for N ranks; cli_ranks returns the arguments to put after it. */
static inline const char *cli_launcher(bool mpi, int ranks)
{
    static char text[200];
    const char *extra = getenv("ZR_MPIRUN"); /* the test runner's mpirun and its options */
    if (!mpi) return "";
    snprintf(text, sizeof text, "%s -n %d", extra ? extra : "mpirun --allow-run-as-root --oversubscribe --bind-to none",
             ranks);
    return text;
}

static inline const char *cli_ranks(bool mpi, int ranks)
{
    static char text[40];
    snprintf(text, sizeof text, mpi || ranks == 1 ? " " : "--ranks %d", ranks);
    return text;
}

static inline bool cli_have_mpirun(void)
{
    const char *launcher = getenv("ZR_MPIRUN");
    if (launcher && !*launcher) return false; /* the test runner asks for no launcher */
    return system("command -v mpirun >/dev/null 2>&1") == 0 &&
           cli_shell("%s info | grep -q '^transports.*mpi'", cli_zr()) == 0;
}

/* Return the number `key` of step line `line` (from 0) of a run's metrics.jsonl; other lines are not counted. */
static inline double cli_metric(const char *run, int line, const char *key)
{
    char path[600], text[2000];
    snprintf(path, sizeof path, "%s/%s/metrics.jsonl", cli_dir, run);
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("no %s", path);
    double value = 0;
    bool found = false;
    for (int i = 0; !found && fgets(text, sizeof text, f);) {
        json_t *object = json_loads(text, 0, NULL);
        if (!object) fail_msg("%s is not JSON: %s", path, text);
        if (json_object_get(object, "loss") && i++ == line) {
            value = json_number_value(json_object_get(object, key));
            found = true;
        }
        json_decref(object);
    }
    fclose(f);
    if (!found) fail_msg("%s has no step line %d", path, line);
    return value;
}

/* Check that `planned` and `measured` in a run's run.json are the same JSON. */
static inline void cli_check_accounts(const char *run)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s/run.json", cli_dir, run);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    json_t *planned = json_object_get(root, "planned"), *measured = json_object_get(root, "measured");
    assert_true(json_object_size(planned) >= 6);
    if (!json_equal(planned, measured)) fail_msg("%s: planned is not measured", path);
    json_decref(root);
}

#endif
