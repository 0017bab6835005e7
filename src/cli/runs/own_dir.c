/* The directory of a run if the user gave no directory. Its name is runs/<model>-<time>. If that directory exists, a
 * number is added: runs/<model>-<time>-2, then -3 and so on. */
#include "cli/runs/runs.h"

#include <stdio.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_OF_A_SECOND 1000

/** Write the path of the directory with a number: "dir" for 1, "dir-2" for 2, and so on. */
static void number_dir(const char *dir, int number, char path[256])
{
    snprintf(path, 256, number > 1 ? "%s-%d" : "%s", dir, number);
}

/** Create the first directory of dir, dir-2, dir-3 ... that does not exist yet, and set *number to its number. mkdir is
 * atomic, so two processes never create the same directory. */
static zr_status make_free(const char *dir, int *number)
{
    char path[256];
    snprintf(path, sizeof(path), "%.*s", (int)strcspn(dir, "/"), dir);
    const bool parent = mkdir(path, 0777) == 0 || errno == EEXIST;
    for (*number = 1; parent && *number <= MOST_OF_A_SECOND; ++*number) {
        number_dir(dir, *number, path);
        if (mkdir(path, 0777) == 0) return ZR_OK;
        if (errno != EEXIST) break;
    }
    return ZR_FAIL(ZR_ERR_CREATE, "cannot make the directory %s: %s; name another with --train.output_dir=DIR", path,
                   strerror(errno));
}

zr_status cli_own_dir_make(zr_config *config, zr_comm *comm)
{
    char path[256];
    int number = 0;
    zr_status st = ZR_OK;
    if (!comm || comm->rank == 0) st = make_free(config->train.output_dir, &number);
    if (comm) ZR_TRY(zr_comm_agree(comm, st));
    ZR_TRY(st);
    if (comm) {
        double mine = number;
        ZR_TRY(zr_comm_scalars(comm, &mine, 1, NULL));
        number = (int)comm->table[0];
    }
    number_dir(config->train.output_dir, number, path);
    st = zr_config_set(config, "train.output_dir", path);
    return comm ? zr_comm_agree(comm, st) : st;
}

void cli_own_dir_drop(const zr_config *config)
{
    char parent[256];
    const char *dir = config->train.output_dir;
    if (rmdir(dir) != 0) return; /* rmdir keeps a directory in which the run has written files */
    snprintf(parent, sizeof(parent), "%.*s", (int)strcspn(dir, "/"), dir);
    rmdir(parent); /* rmdir keeps a parent that contains other runs */
}
