#include "cli/draw/curve.h"
#include "cli/draw/svg.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_OUT "loss.svg"

/** Write the path of a run's metrics: the operand is a run's directory, or the file itself. */
static zr_status metrics_of(const char *run, char path[PATH_MAX])
{
    struct stat info;
    bool is_dir = stat(run, &info) == 0 && S_ISDIR(info.st_mode);
    int n = snprintf(path, PATH_MAX, "%s%s", run, is_dir ? "/metrics.jsonl" : "");
    ZR_CHECK(n > 0 && n < PATH_MAX, ZR_ERR_NOT_FOUND, "the path %.60s... is too long", run);
    return ZR_OK;
}

static zr_status read_run(const char *run, cli_curve *curve)
{
    char path[PATH_MAX], shown[512];
    ZR_TRY(metrics_of(run, path));
    ZR_TRY(cli_curve_read(curve, path, true));
    zr__text_escape(path, shown, sizeof(shown));
    ZR_CHECK(curve->last_step || curve->bad_lines == 0, ZR_ERR_DATA,
             "%s: line %lld is not one of a run's metrics; zr plot takes directories of runs, or their metrics.jsonl",
             shown, (long long)curve->first_bad);
    if (curve->bad_lines)
        cli_say("note: %s: %lld line%s left out, the first of them line %lld", shown, (long long)curve->bad_lines,
                curve->bad_lines == 1 ? "" : "s", (long long)curve->first_bad);
    if (!curve->last_step) cli_say("note: %s: no step yet", shown);
    return ZR_OK;
}

static void print_series(const char *key, const curve_series *s)
{
    char last[ZR_NUMBER_BYTES], best[ZR_NUMBER_BYTES];
    printf(", \"%s\":{\"last\":%s, \"lowest\":%s}", key, s->per ? cli_json_number(s->last, last) : "null",
           s->per ? cli_json_number(s->best, best) : "null");
}

static void print_json(const char *out, const char *const *run, cli_curve *const *curve, int n)
{
    printf("{\"file\":");
    cli_json_print(stdout, out, (int64_t)strlen(out));
    printf(", \"runs\":[");
    for (int i = 0; i < n; i++) {
        printf("%s\n {\"run\":", i ? "," : "");
        cli_json_print(stdout, run[i], (int64_t)strlen(run[i]));
        printf(", \"first_step\":%lld, \"last_step\":%lld, \"skipped\":%lld, \"left_out\":%lld",
               (long long)curve[i]->first_step, (long long)curve[i]->last_step, (long long)curve[i]->skipped,
               (long long)curve[i]->bad_lines);
        print_series("loss", &curve[i]->loss);
        print_series("val_loss", &curve[i]->val);
        putchar('}');
    }
    printf("]}\n");
}

static zr_status check_out(const char *out, const char *const *inputs)
{
    ZR_TRY(cli_check_stdout(inputs));
    ZR_TRY(zr__output_check(out, &cli_svg_kind, inputs));
    return ZR_OK;
}

static zr_status plot(const cli_args *args, const char *out)
{
    int n = args->n_operands;
    zr_status st = ZR_OK;
    char *svg = NULL, (*room)[PATH_MAX] = zr_alloc((size_t)n * PATH_MAX);
    size_t bytes = 0;
    const char *name[CLI_MAX_OPERANDS], *inputs[CLI_MAX_OPERANDS + 1] = {NULL};
    cli_curve *curve[CLI_MAX_OPERANDS] = {NULL};
    for (int i = 0; i < n; i++) inputs[i] = args->operand[i];
    ZR_TRY_GOTO(st, check_out(out, inputs), done);
    for (int i = 0; i < n; i++) {
        curve[i] = zr_alloc(sizeof(*curve[i]));
        if (!curve[i] || !room) ZR_TRY_GOTO(st, ZR_FAIL(ZR_ERR_MEMORY, "no memory for %d runs", n), done);
        ZR_TRY_GOTO(st, read_run(args->operand[i], curve[i]), done);
    }
    cli_runs_name(args->operand, n, room, name);
    ZR_TRY_GOTO(st, cli_curve_draw(curve, name, n, &svg, &bytes), done);
    ZR_TRY_GOTO(st, zr__output_write(out, &cli_svg_kind, inputs, svg, bytes), done);
    if (args->json) print_json(out, args->operand, curve, n);
    if (!args->quiet) cli_say("drawn into %s", out);
done:
    for (int i = 0; i < n; i++) zr_free(curve[i]);
    zr_free(room);
    free(svg); /* allocated by open_memstream, not by zr_alloc */
    return st;
}

static zr_status run(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    const char *out = DEFAULT_OUT;
    const cli_option options[] = {
        {"out", CLI_TEXT, &out, 0, "FILE", "the picture, also as -o FILE; " DEFAULT_OUT " without"}, {0}};
    cli_args args = {.command = command->name, .options = options, .max_operands = CLI_MAX_OPERANDS};
    (void)comm;
    ZR_TRY(cli_parse_runs(&args, command, argc, argv));
    if (args.help) return ZR_OK;
    return plot(&args, out);
}

const cli_command cli_plot = {
    .name = "plot",
    .summary = "loss, validation and learning rate of runs as a picture",
    .usage = "zr plot RUN... [-o FILE.svg]",
    .examples = "  zr plot runs/first\n"
                "  zr plot runs/* -o all.svg\n",
    .run = run,
};
