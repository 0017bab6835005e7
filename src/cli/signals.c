/* Signals that ask a run to stop. The handler does what a handler may: it notes the time, and writes one line. */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_llong first_sec; /* when the first one came, on the monotonic clock; 0: none has */
static bool speaks, live;
static zr_comm *_Atomic peers;
static int gone_code;

static void say_at_once(bool again)
{
    static const char clear[] = "\r\033[K", what[] = "zr: stopping after this step, then saving",
                      more[] = "; once more: stop now, unsaved";
    char line[sizeof(clear) + sizeof(what) + sizeof(more)];
    size_t n = 0;
    if (live) memcpy(line, clear, n = sizeof(clear) - 1);
    memcpy(line + n, what, sizeof(what) - 1);
    n += sizeof(what) - 1;
    if (again) memcpy(line + n, more, sizeof(more) - 1);
    if (again) n += sizeof(more) - 1;
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0) return; /* nobody reads */
}

/* One of those that are left says so, unless it has been told why the job ends. */
static void end_without_peer(void)
{
    static const char what[] = "zr: the process of another rank is gone, and the launcher ends the run; nothing more "
                               "is saved\n";
    zr_comm *comm = atomic_load(&peers);
    if (!comm || (zr_comm_gone(comm) < 0 && !zr_comm_told(comm))) return;
    if (zr_comm_first(comm) && write(STDERR_FILENO, what, sizeof(what) - 1) < 0) errno = 0; /* nobody reads */
    _exit(gone_code);
}

/* Launchers send SIGTERM to a process and to its group: twice at once is once. */
static bool is_repeated(int number, long long sec)
{
    return number == SIGINT || (number == SIGTERM && sec >= 2);
}

/* Two threads may be in it at once: who counts as the first, and when that was, is one number. */
static void on_signal(int number)
{
    struct timespec now;
    long long first = 0;
    int error = errno; /* of the code that is interrupted */
    if (number == SIGTERM) end_without_peer();
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (atomic_compare_exchange_strong(&first_sec, &first, now.tv_sec + 1)) {
        if (speaks) say_at_once(number == SIGINT || number == SIGTERM);
    } else if (is_repeated(number, now.tv_sec + 1 - first)) {
        signal(number, SIG_DFL);
        raise(number);
    }
    errno = error;
}

void cli_signals_catch(bool say, bool on_live_line)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
    speaks = say;
    live = on_live_line;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    /* Under nohup it is ignored, and stays so. */
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, NULL);
}

void cli_signals_peers(zr_comm *comm, int code)
{
    gone_code = code;
    atomic_store(&peers, comm);
}

bool cli_signals_asked(void *arg)
{
    (void)arg;
    return atomic_load(&first_sec) > 0;
}
