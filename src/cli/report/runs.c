/* Parse and name the runs of a command line. */
#include "cli/shell/help.h"
#include "cli/report/report.h"

#include <stdio.h>
#include <string.h>

zr_status cli_parse_runs(cli_args *args, const cli_command *command, int argc, char **argv)
{
    ZR_TRY(cli_parse(args, argc, argv));
    if (args->help) ZR_TRY(cli_help(command, args));
    ZR_CHECK(args->help || args->n_operands > 0, ZR_ERR_ARG,
             "zr %s needs the directory of a run, or several; `zr %s --help` has examples", command->name,
             command->name);
    return ZR_OK;
}

void cli_runs_name(const char *const *run, int n, char (*room)[PATH_MAX], const char **name)
{
    size_t common = 0;
    for (int i = 0; i < n; i++) {
        snprintf(room[i], PATH_MAX, "%s", run[i]);
        for (size_t end = strlen(room[i]); end > 1 && room[i][end - 1] == '/';) room[i][--end] = '\0';
    }
    for (size_t at = 0; n > 1 && room[0][at]; at++) {
        bool same = true;
        for (int i = 1; i < n; i++) same &= room[i][at] == room[0][at];
        if (!same) break;
        if (room[0][at] == '/') common = at + 1;
    }
    for (int i = 0; i < n; i++) name[i] = room[i][common] ? room[i] + common : room[i];
}
