/** The process: its exit codes, ranks, signals and allocations, and injected faults for tests. */
#ifndef ZR_CLI_SHELL_PROCESS_H
#define ZR_CLI_SHELL_PROCESS_H

#include "zr/comm.h"
#include "zr/run.h"

/** Return the exit code for a status, as documented for users and scripts. */
int cli_exit_code(zr_status status);

/** Print the last failure, which only this rank has, and end all ranks of the launcher, because the other ranks would
 * wait for this rank. */
void cli_end_world(zr_comm *comm, zr_status st);

/** Set up the compute libraries of this process before they compute. The function may start the program again, but
 * only once. */
void cli_set_process(void);

/** Let this process use all processors of the host. zr promises each rank a share of the host, but a launcher may bind
 * the rank to fewer processors. */
void cli_leave_binding(void);

/** Run ranks that are threads of this process. A single rank runs on the calling thread, and uses the worker threads
 * that already exist. Return the status as zr_comm_threads_run does. */
ZR_NODISCARD zr_status cli_ranks_run(int ranks, zr_status (*rank)(zr_comm *comm, void *arg), void *arg);

/** Reserve memory for the case that an allocation of a library fails, and replace the allocator of jansson. */
void cli_alloc_begin(void);

/** Check that no library has lacked memory. Otherwise return ZR_ERR_MEMORY: jansson may have left out a value, or
 * taken a text for invalid JSON. */
ZR_NODISCARD zr_status cli_alloc_check(void);

/** Hooks by which the test program makes zr fail on request (tests/fault/fault.c). In zr itself, all hooks are NULL. */
typedef struct cli_fault_hooks {
    zr_status (*begin)(void); /* called once, before a command runs */
    bool (*allocation)(void); /* returns whether to make this allocation of a library fail */
    void (*reached)(void *arg, int rank, const char *phase, int64_t step); /* called as an observer's `reached` */
} cli_fault_hooks;
extern cli_fault_hooks cli_faults;

/** Begin to catch signals. SIGINT, SIGTERM, SIGUSR1 and, unless it is ignored, SIGHUP request a stop. A second SIGINT
 * ends the process, and so does a SIGTERM some time after the first signal. SIGUSR2 requests a save. With `speak`,
 * answer the first signal at once with a message. Set `on_live_line` if the message replaces a line that is
 * redrawn. */
void cli_signals_catch(bool speak, bool on_live_line);

/** Make a SIGTERM end this process at once, with exit code `code`, if another process of `comm` is gone or has
 * reported that the job ends. In this case launchers send SIGTERM, and a checkpoint cannot be saved without the other
 * process. Call this function with NULL before the communicator is destroyed. */
void cli_signals_peers(zr_comm *comm, int code);

/** Set whether training is in progress. During training, the answer to a signal is that the run stops after the
 * current step. */
void cli_signals_training(bool begins);

/** Return whether a signal has requested a stop. Callback for an observer's `stop`. */
bool cli_signals_asked(void *arg);

/** Return whether SIGUSR2 was received since the last call. Callback for an observer's `save`. */
bool cli_signals_save(void *arg);

#endif
