/* `zr report`: write an HTML page about one or several runs, and print a summary. */
#include "cli/shell/args.h"
#include "cli/shell/help.h"
#include "cli/shell/message.h"
#include "cli/report/report.h"

#include <stdio.h>

#define DEFAULT_OUT "report.html"

/** Write the HTML page, and print the numbers of the page as JSON or text. */
static zr_status write_report(const cli_args *args, const cli_report *report, const char *out)
{
    ZR_TRY(cli_report_write(report, out, args->operand));
    if (args->json) ZR_TRY(cli_report_json(stdout, report, out));
    if (!args->json && !args->quiet) cli_report_terminal(stdout, report);
    if (!args->quiet) cli_say("wrote %s", out);
    return ZR_OK;
}

static zr_status report_on(const cli_args *args, const char *out)
{
    const int n = args->n_operands;
    ZR_AUTO_FREE char(*room)[PATH_MAX] = zr_alloc((size_t)(n + 1) * PATH_MAX);
    const char *name[CLI_MAX_OPERANDS];
    ZR_AUTO(cli_report_clear) cli_report report = {0};
    ZR_CHECK(room, ZR_ERR_MEMORY, "no memory for %d runs", n);
    /* By default write the page into the run's directory. For several runs, write it into the working directory. */
    if (!out) {
        const int length = n == 1 ? snprintf(room[n], PATH_MAX, "%s/" DEFAULT_OUT, args->operand[0])
                                  : snprintf(room[n], PATH_MAX, DEFAULT_OUT);
        out = room[n];
        ZR_CHECK(length > 0 && length < PATH_MAX, ZR_ERR_CREATE, "the path %.60s... is too long; -o FILE names another",
                 args->operand[0]);
    }
    ZR_TRY(cli_check_stdout(args->operand));
    cli_runs_name(args->operand, n, room, name);
    ZR_TRY(cli_report_read(&report, args->operand, name, n));
    ZR_TRY(zr__output_check(out, &cli_report_kind, args->operand));
    return write_report(args, &report, out);
}

static zr_status run_report(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    const char *out = NULL;
    const cli_option options[] = {{"out", CLI_TEXT, &out, 0, "FILE",
                                   "HTML file to write, also -o FILE [" DEFAULT_OUT
                                   " in the run's directory; for several runs, in this directory]"},
                                  {0}};
    cli_args args = {.command = command->name, .options = options, .max_operands = CLI_MAX_OPERANDS};
    (void)comm;
    ZR_TRY(cli_parse_operands(&args, command, "the directory of a run, or several", argc, argv));
    if (args.help) return ZR_OK;
    return report_on(&args, out);
}

const cli_command cli_report_command = {
    .name = "report",
    .summary = "write an HTML page about a run, or about several side by side",
    .usage = "zr report RUN... [-o FILE.html]",
    .examples = "  zr report runs/first                       print a summary, write runs/first/report.html\n"
                "  zr report runs/* -o all.html               compare runs: curves in one chart, and what differs\n"
                "  zr report runs/first --json                print the same figures as JSON\n",
    .run = run_report,
};
