/* `zr plot`: draw losses and learning rates of runs as an SVG picture. */
#include "cli/shell/args.h"
#include "cli/shell/help.h"
#include "cli/shell/message.h"
#include "base/json/json_write.h"
#include "cli/report/report.h"

#include <stdio.h>
#include <math.h>
#include <sys/stat.h>

#define DEFAULT_OUT "loss.svg"

/** Read the metrics of a run. `run` is the path of its directory or of its metrics file. */
static zr_status read_metrics_of(const char *run, cli_curve *curve)
{
    char path[PATH_MAX];
    struct stat info;
    const bool is_dir = stat(run, &info) == 0 && S_ISDIR(info.st_mode);
    const int n = snprintf(path, PATH_MAX, "%s%s", run, is_dir ? "/metrics.jsonl" : "");
    ZR_CHECK(n > 0 && n < PATH_MAX, ZR_ERR_NOT_FOUND, "the path %.60s... is too long", run);
    if (is_dir && stat(path, &info) != 0) return cli_refuse_run(run);
    ZR_TRY(cli_curve_read(curve, path, true));
    ZR_CHECK(curve->last_step || curve->bad_lines == 0, ZR_ERR_DATA,
             "%s: line %lld holds no metrics; `zr plot` needs the directory of a run, or its metrics.jsonl",
             ZR_SHOWN(path), (long long)curve->first_bad);
    if (curve->bad_lines)
        cli_say("note: %s: %lld unreadable line%s left out, first at line %lld", ZR_SHOWN(path),
                (long long)curve->bad_lines, curve->bad_lines == 1 ? "" : "s", (long long)curve->first_bad);
    if (!curve->last_step) cli_say("note: %s: no step has been completed yet", ZR_SHOWN(path));
    return ZR_OK;
}

static void add_losses(zr__json_out *json, const char *key, const curve_series *s)
{
    zr__json_open(json, key, '{');
    zr__json_add(json, "last", s->per ? s->last : NAN, "lowest", s->per ? s->best : NAN);
    zr__json_close(json, '}');
}

static zr_status print_plot_json(const char *out, const char *const *run, cli_curve *const *curve, int n)
{
    zr__json_out json = {0};
    zr__json_add(&json, "file", out);
    zr__json_open(&json, "runs", '[');
    for (int i = 0; i < n; i++) {
        zr__json_break(&json, "\n ");
        zr__json_open(&json, NULL, '{');
        zr__json_add(&json, "run", run[i], "first_step", curve[i]->first_step, "last_step", curve[i]->last_step,
                     "skipped", curve[i]->skipped, "left_out", curve[i]->bad_lines);
        add_losses(&json, "loss", &curve[i]->series[CLI_LOSS]);
        add_losses(&json, "val_loss", &curve[i]->series[CLI_VAL]);
        zr__json_close(&json, '}');
    }
    zr__json_close(&json, ']');
    return zr__json_write(&json, stdout);
}

static zr_status plot_runs(const cli_args *args, const char *out)
{
    const int n = args->n_operands;
    const char *name[CLI_MAX_OPERANDS];
    ZR_AUTO(svg_page_free) char *svg = NULL;
    size_t bytes = 0;
    ZR_AUTO_FREE char(*room)[PATH_MAX] = zr_alloc((size_t)n * PATH_MAX);
    ZR_AUTO_FREE cli_curve *curves = zr_alloc((size_t)n * sizeof(*curves));
    cli_curve *curve[CLI_MAX_OPERANDS];
    ZR_TRY(cli_check_stdout(args->operand));
    ZR_TRY(zr__output_check(out, &cli_svg_kind, args->operand));
    ZR_CHECK(curves && room, ZR_ERR_MEMORY, "no memory for %d runs", n);
    for (int i = 0; i < n; i++) ZR_TRY(read_metrics_of(args->operand[i], curve[i] = &curves[i]));
    cli_runs_name(args->operand, n, room, name);
    ZR_TRY(cli_curve_draw(curve, name, n, &svg, &bytes));
    ZR_TRY(zr__output_write(out, &cli_svg_kind, args->operand, svg, bytes));
    if (args->json) ZR_TRY(print_plot_json(out, args->operand, curve, n));
    if (!args->quiet) cli_say("wrote %s", out);
    return ZR_OK;
}

static zr_status run_plot(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    const char *out = DEFAULT_OUT;
    const cli_option options[] = {
        {"out", CLI_TEXT, &out, 0, "FILE", "SVG file to write, also -o FILE [" DEFAULT_OUT "]"}, {0}};
    cli_args args = {.command = command->name, .options = options, .max_operands = CLI_MAX_OPERANDS};
    (void)comm;
    ZR_TRY(cli_parse_operands(&args, command, "the directory of a run, or several", argc, argv));
    if (args.help) return ZR_OK;
    return plot_runs(&args, out);
}

const cli_command cli_plot = {
    .name = "plot",
    .summary = "draw loss, validation loss and learning rate of runs as an SVG picture",
    .usage = "zr plot RUN... [-o FILE.svg]",
    .examples = "  zr plot runs/first\n"
                "  zr plot runs/* -o all.svg\n",
    .run = run_plot,
};
