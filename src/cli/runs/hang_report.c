/* Response of a command to ranks that hang or have died: print a message, and end the job. */
#include "cli/runs/runs.h"
#include "cli/shell/message.h"
#include "cli/shell/process.h"
#include "zr/run.h"

#include <signal.h>
#include <unistd.h>

/* Seconds after which this process exits if the job has not ended. zr_comm_abort asks MPI to end the job, and MPI may
 * hang too. */
enum { ABORT_SEC = 10 };

static int ends_with;

static void on_alarm(int number)
{
    (void)number;
    _exit(ends_with);
}

/* End the job without joining the threads of this process, because they may hang. */
static void end_job(zr_comm *comm, int code)
{
    ends_with = code;
    if (comm) {
        signal(SIGALRM, on_alarm);
        alarm(ABORT_SEC);
        zr_comm_abort(comm, code);
    }
    _exit(code);
}

void cli_hang(void *arg, zr_hang_event event, const char *line)
{
    const cli_progress *progress = arg;
    if (event == ZR_HANG_WARNING && progress->quiet) return;
    cli_progress_end(progress);
    cli_say("%s", line);
    if (event == ZR_HANG_OVER) end_job(progress->comm, cli_exit_code(ZR_ERR_HANG));
    if (event == ZR_HANG_GONE) end_job(progress->comm, cli_exit_code(ZR_ERR_PEER));
}
