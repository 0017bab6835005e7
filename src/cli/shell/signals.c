/* Signals that request a stop or a save. The handlers do only what a signal handler may: they record the signal and its
 * time, and write one line. */
#include "cli/shell/process.h"
#include "comm/comm.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_llong first_sec; /* time of the first SIGINT or SIGTERM, in whole seconds of the monotonic clock, plus 1;
                                  0 if none has come */
static atomic_bool stop_wanted, save_wanted;
static bool speaks, live;
static _Atomic enum { STARTING, TRAINING, ENDED } phase;
static zr_comm *_Atomic peers;
static int gone_code;

/* Write an answer to a signal as one line. If a line of progress is being redrawn, the answer replaces that line. */
static void write_answer(const char *what, const char *more)
{
    char line[160];
    size_t n = 0;
    const char *const parts[] = {live ? "\r\033[K" : "", "zr: ", what, more, "\n"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        for (const char *c = parts[i]; *c && n < sizeof(line); c++) line[n++] = *c;
    if (write(STDERR_FILENO, line, n) < 0) return; /* ignore a failure: stderr has no reader */
}

/* End this process if a process of another rank is gone. One of the remaining processes prints the reason, unless a
 * process has already reported why the job ends. */
static void end_without_peer(void)
{
    static const char what[] = "zr: the process of another rank is gone, and the launcher ends the run; nothing more "
                               "is saved\n";
    zr_comm *comm = atomic_load(&peers);
    if (!comm || (zr__comm_gone(comm) < 0 && !zr__comm_told(comm))) return;
    /* ignore that stderr has no reader */
    if (zr__comm_claim_telling(comm) && write(STDERR_FILENO, what, sizeof(what) - 1) < 0) errno = 0;
    _exit(gone_code);
}

/* Return whether a signal repeats an earlier request, which ends the process at once. A SIGTERM soon after the first
 * signal does not count as repeated, because launchers send SIGTERM to a process and to its group at the same time.
 * SIGUSR1 and SIGHUP, by which schedulers warn, do not count as a first request. So the SIGTERM that schedulers send
 * when the time is nearly over counts as the first request. */
static bool is_repeated(int number, long long sec)
{
    return number == SIGINT || (number == SIGTERM && sec >= 2);
}

/* Print how the process responds to the first signal. Under a launcher, do not answer a SIGTERM before training: a
 * launcher sends it to the other ranks of a failed run, and only one rank should report the failure. */
static void answer_first(int number, bool urges)
{
    const int now = atomic_load(&phase);
    if (!speaks || now == ENDED || (now == STARTING && number == SIGTERM && atomic_load(&peers))) return;
    if (now == STARTING)
        write_answer("stopping when training begins", urges ? "; once more: stop now" : "");
    else
        write_answer("stopping after this step, then saving", urges ? "; once more: stop now, unsaved" : "");
}

/* Handle a request to stop. Two threads may run this function at once. Therefore a single atomic number tells whether
 * and when the first SIGINT or SIGTERM came. */
static void on_signal(int number)
{
    struct timespec now;
    long long first = 0;
    int error = errno; /* errno of the interrupted code, restored at the end */
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
    speaks = speak;
    live = on_live_line;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&save.sa_mask);
    sigaction(SIGUSR2, &save, NULL);
    /* If SIGHUP is ignored, as under nohup, leave it ignored. */
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
