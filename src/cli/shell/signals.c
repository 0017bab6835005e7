/* Signals that request a stop or a save. The handlers are async-signal-safe: they record the signal and its time, and
 * write one line. */
#include "cli/shell/process.h"
#include "comm/comm.h"
#include "train/watch/hang.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* time of the first SIGINT or SIGTERM, in whole seconds of the monotonic clock, plus 1; 0 before the first */
static atomic_llong first_sec;
static atomic_bool stop_wanted, save_wanted;
static bool speaks, live;
static _Atomic enum { STARTING, TRAINING, ENDED } phase;
static zr_comm *_Atomic peers;
static int gone_code;

/* Write one line in answer to a signal. The line replaces the redrawn line of progress, if there is one. */
static void write_answer(const char *what, const char *more)
{
    char line[160];
    size_t n = 0;
    const char *const parts[] = {live ? "\r\033[K" : "", "zr: ", what, more, "\n"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        for (const char *c = parts[i]; *c && n < sizeof(line); c++) line[n++] = *c;
    if (write(STDERR_FILENO, line, n) < 0) return; /* ignore a failure, because stderr may be closed */
}

/* End this process if the process of another rank has died, or if a process has already reported why the job ends. If
 * nobody has reported a reason, one of the remaining processes prints a message. */
static void end_without_peer(void)
{
    char what[400] = "zr: rank ";
    zr_comm_board board;
    zr_comm *comm = atomic_load(&peers);
    const int gone = comm ? zr__comm_gone(comm) : -1;
    if (!comm || (gone < 0 && !zr__comm_told(comm))) return;
    if (zr__comm_claim_telling(comm) && zr__comm_look(comm, gone, &board)) {
        zr__hang_append(what, sizeof(what), "", gone);
        zr__hang_append(what, sizeof(what), " is gone,", -1);
        zr__hang_where(&board, what, sizeof(what));
        zr__hang_append(what, sizeof(what), ", and the launcher ends the run; nothing more is saved\n", -1);
        if (write(STDERR_FILENO, what, strlen(what)) < 0) errno = 0; /* ignored, because stderr may be closed */
    }
    _exit(gone_code);
}

/* Return whether a signal ends the process at once, because it repeats a request to stop. `sec` is the time since the
 * first SIGINT or SIGTERM. A SIGTERM within 2 seconds does not count, because launchers send SIGTERM to a process and
 * again to its group. Schedulers warn with SIGUSR1 or SIGHUP, and send SIGTERM later. The warning does not count as a
 * first request, so this SIGTERM does not end the process at once. */
static bool is_repeated(int number, long long sec)
{
    return number == SIGINT || (number == SIGTERM && sec >= 2);
}

/* Print how the process responds to the first signal. Under a launcher, stay silent for a SIGTERM before training. When
 * a rank fails, launchers send SIGTERM to the other ranks, and only one rank should report the failure. */
static void answer_first(int number, bool urges)
{
    const int now = atomic_load(&phase);
    if (!speaks || now == ENDED || (now == STARTING && number == SIGTERM && atomic_load(&peers))) return;
    if (now == STARTING)
        write_answer("stopping when training begins", urges ? "; once more: stop now" : "");
    else
        write_answer("stopping after this step, then saving", urges ? "; once more: stop now, unsaved" : "");
}

/* Handle a request to stop. Two threads may run this handler at once. Therefore one atomic number tells both whether
 * and when the first SIGINT or SIGTERM came. */
static void on_signal(int number)
{
    struct timespec now;
    long long first = 0;
    int error = errno; /* errno of the interrupted code, which is restored at the end */
    if (number == SIGTERM) end_without_peer();
    clock_gettime(CLOCK_MONOTONIC, &now);
    bool urges = number == SIGINT || number == SIGTERM, news = !atomic_exchange(&stop_wanted, true);
    if (urges) news = atomic_compare_exchange_strong(&first_sec, &first, now.tv_sec + 1);
    if (news) {
        answer_first(number, urges);
    } else if (urges && is_repeated(number, now.tv_sec + 1 - first)) {
        signal(number, SIG_DFL);
        raise(number);
    }
    errno = error;
}

static void on_save(int number)
{
    int error = errno;
    (void)number;
    const int now = atomic_load(&phase);
    if (!atomic_exchange(&save_wanted, true) && speaks && now != ENDED)
        write_answer(now == STARTING ? "saving after the first step" : "saving after this step", ", then going on");
    errno = error;
}

void cli_signals_catch(bool speak, bool on_live_line)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
    struct sigaction save = {.sa_handler = on_save, .sa_flags = SA_RESTART};
    atomic_store(&phase, STARTING);
    speaks = speak;
    live = on_live_line;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&save.sa_mask);
    sigaction(SIGUSR2, &save, NULL);
    /* Leave SIGHUP ignored if it is ignored, as nohup does. */
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, NULL);
}

void cli_signals_peers(zr_comm *comm, int code)
{
    gone_code = code;
    atomic_store(&peers, comm);
}

void cli_signals_training(bool begins)
{
    atomic_store(&phase, begins ? TRAINING : ENDED);
}

bool cli_signals_asked(void *arg)
{
    (void)arg;
    return atomic_load(&stop_wanted);
}

bool cli_signals_save(void *arg)
{
    (void)arg;
    return atomic_exchange(&save_wanted, false);
}
