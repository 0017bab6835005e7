/* Name the runs that a command line gives, and refuse folders that are not runs. */
#include "base/text/text.h"
#include "cli/report/report.h"
#include "config/config.h"

#include <stdio.h>
#include <glob.h>
#include <string.h>
#include <unistd.h>

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

/** Return whether a folder contains folders that are runs. */
static bool holds_runs(const char *dir)
{
    char pattern[PATH_MAX];
    glob_t found = {0};
    const int n = snprintf(pattern, sizeof(pattern), "%s/*/metrics.jsonl", dir);
    const bool any = n < PATH_MAX && glob(pattern, GLOB_NOSORT, NULL, &found) == 0;
    globfree(&found);
    return any;
}

zr_status cli_refuse_run(const char *dir)
{
    const char *shown = ZR_SHOWN(dir), *why = "neither metrics.jsonl nor run.json is in it";
    ZR_CHECK(access(dir, F_OK) == 0, ZR_ERR_NOT_FOUND, "%s is not there", shown);
    ZR_CHECK(!zr__config_is_own(dir), ZR_ERR_NOT_FOUND,
             "%s is not the directory of a run: %s; its config.json is a configuration of zr (`zr train "
             "%s/config.json` makes a run of it)",
             shown, why, ZR_WORD(dir));
    ZR_CHECK(!holds_runs(dir), ZR_ERR_NOT_FOUND, "%s is not the directory of a run: %s; the folders in it are: %s/*",
             shown, why, shown);
    return ZR_FAIL(ZR_ERR_NOT_FOUND, "%s is not the directory of a run: %s", shown, why);
}
