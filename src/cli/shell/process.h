/** The process: exit codes, ranks, signals, allocations and faults of libraries. */
#ifndef ZR_CLI_SHELL_PROCESS_H
#define ZR_CLI_SHELL_PROCESS_H

#include "zr/comm.h"
#include "zr/run.h"

/** Return the exit code of a status, as docs and scripts know it. */
int cli_exit_code(zr_status status);

/** Say the last failure, of this rank alone, and end all ranks of the launcher: the others would wait for this one. */
void cli_end_world(zr_comm *comm, zr_status st);

/** Set up the compute libraries in this process, before they compute. May start the program again, once. */
void cli_set_process(void);

/** Let this process use all processors: launchers bind a rank to fewer than its share of the host, which zr promises.
 */
void cli_leave_binding(void);

/** Run ranks that are threads of this process. One rank runs on this thread, with the worker threads that exist
 * already. Returns as zr_comm_threads_run. */
ZR_NODISCARD zr_status cli_ranks_run(int ranks, zr_status (*rank)(zr_comm *comm, void *arg), void *arg);

/** Reserve memory for a library whose allocation fails, and take over jansson's allocations. */
void cli_alloc_begin(void);

/** Check that no library lacked memory. ZR_ERR_MEMORY: jansson then leaves out a value, or takes a text for no JSON. */
ZR_NODISCARD zr_status cli_alloc_check(void);

/** Hooks by which the program of tests fails on request (tests/fault/fault.c); all NULL in zr itself. */
typedef struct cli_fault_hooks {
    zr_status (*begin)(void); /* called once before a command runs */
    bool (*allocation)(void); /* return whether this allocation of a library is to fail */
    void (*reached)(void *arg, int rank, const char *phase, int64_t step); /* an observer's `reached` */
} cli_fault_hooks;
extern cli_fault_hooks cli_faults;

/** Catch signals from here on: SIGINT, SIGTERM, SIGUSR1 and, unless ignored, SIGHUP ask to stop; a second SIGINT, and
 * SIGTERM some time after the first signal, end the process. SIGUSR2 asks to save. `speak`: the first signal is
 * answered at once, over a line that is redrawn. */
void cli_signals_catch(bool speak, bool on_live_line);

/** Let a SIGTERM end this process at once, with `code`, when a process of this communicator is gone or has told that
 * the job ends: launchers then send one, and there is no peer to save with. NULL: no more; call it before the
 * communicator goes. */
void cli_signals_peers(zr_comm *comm, int code);

/** Tell that training begins or has ended: only in between is a signal answered with the step after which the run
 * stops. */
void cli_signals_training(bool begins);

/** Return whether a signal has asked to stop. An observer's `stop`. */
bool cli_signals_asked(void *arg);

/** Return whether SIGUSR2 was received since the last call. An observer's `save`. */
bool cli_signals_save(void *arg);

#endif
