#include "cli/report/report.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_OUT "report.html"

static const zr__output_kind html_kind = {"report", REPORT_HEAD, true};

/** Choose the output: one run's report goes into its directory, a report of several runs into this one. */
static zr_status default_out(const cli_args *args, char room[PATH_MAX], const char **out)
{
    if (*out) return ZR_OK;
    int n = args->n_operands == 1 ? snprintf(room, PATH_MAX, "%s/" DEFAULT_OUT, args->operand[0])
                                  : snprintf(room, PATH_MAX, DEFAULT_OUT);
    ZR_CHECK(n > 0 && n < PATH_MAX, ZR_ERR_CREATE, "the path %.60s... is too long; -o FILE names another",
             args->operand[0]);
    *out = room;
    return ZR_OK;
}

static zr_status write_all(const cli_args *args, const cli_report *report, const char *out, const char *const *inputs)
{
    char *html = NULL;
    size_t bytes = 0;
    zr_status st = cli_report_html(report, &html, &bytes);
    if (st == ZR_OK) st = zr__output_write(out, &html_kind, inputs, html, bytes);
    free(html); /* allocated by open_memstream, not by zr_alloc */
    if (st == ZR_OK && args->json) st = cli_report_json(stdout, report, out);
    if (st == ZR_OK && !args->json && !args->quiet) cli_report_text(stdout, report);
    if (st == ZR_OK && !args->quiet) cli_say("written into %s", out);
    return st;
}

static zr_status report_on(const cli_args *args, const char *out)
{
    int n = args->n_operands;
    zr_status st = ZR_OK;
    char(*room)[PATH_MAX] = zr_alloc((size_t)(n + 1) * PATH_MAX);
    const char *name[CLI_MAX_OPERANDS], *inputs[CLI_MAX_OPERANDS + 1] = {NULL};
    cli_report report = {0};
    ZR_CHECK(room, ZR_ERR_MEMORY, "no memory for %d runs", n);
    for (int i = 0; i < n; i++) inputs[i] = args->operand[i];
    ZR_TRY_GOTO(st, default_out(args, room[n], &out), done);
    ZR_TRY_GOTO(st, cli_check_stdout(inputs), done);
    cli_runs_name(args->operand, n, room, name);
    ZR_TRY_GOTO(st, cli_report_read(&report, args->operand, name, n), done);
    ZR_TRY_GOTO(st, zr__output_check(out, &html_kind, inputs), done);
    ZR_TRY_GOTO(st, write_all(args, &report, out, inputs), done);
done:
    cli_report_clear(&report);
    zr_free(room);
    return st;
}

static zr_status run(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    const char *out = NULL;
    const cli_option options[] = {{"out", CLI_TEXT, &out, 0, "FILE",
                                   "the page, also as -o FILE; without: " DEFAULT_OUT
                                   " in the run's directory, of several runs here"},
                                  {0}};
    cli_args args = {.command = command->name, .options = options, .max_operands = CLI_MAX_OPERANDS};
    (void)comm;
    ZR_TRY(cli_parse_runs(&args, command, argc, argv));
    if (args.help) return ZR_OK;
    return report_on(&args, out);
}

const cli_command cli_report_command = {
    .name = "report",
    .summary = "one HTML page of a run, or of several side by side",
    .usage = "zr report RUN... [-o FILE.html]",
    .examples = "  zr report runs/first                       prints a summary, writes runs/first/report.html\n"
                "  zr report runs/* -o all.html               curves over each other, and what differs\n"
                "  zr report runs/first --json                the same figures\n",
    .run = run,
};
