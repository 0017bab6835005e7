/** Functions for the process of the command: exit codes, ranks, signals, allocators of libraries, and faults that tests
 * inject. */
#ifndef ZR_CLI_SHELL_PROCESS_H
#define ZR_CLI_SHELL_PROCESS_H

#include "zr/comm.h"

/** Return the exit code for a status, as listed in the manual. */
int cli_exit_code(zr_status status);

/** Print this rank's last failure, and end all ranks of the launcher. Call this function if only this rank failed,
 * because the other ranks would wait for it. */
void cli_end_world(zr_comm *comm, zr_status st);

/** Change process settings for the compute libraries. Call this function before they compute. It may restart the
 * program once. */
void cli_set_process(void);

/** Let this process use all processors of the host. A launcher may bind each rank to one processor, but zr gives each
 * rank a share of the whole host. */
void cli_leave_binding(void);

/** Run `rank` on ranks that are threads of this process. A single rank runs on the calling thread, with the worker
 * threads that already exist. Return the status that zr_comm_threads_run returns. */
ZR_NODISCARD zr_status cli_ranks_run(int ranks, zr_status (*rank)(zr_comm *comm, void *arg), void *arg);

/** Set up the allocators of libraries: reserve memory for a failed allocation, and replace jansson's allocator. */
void cli_alloc_begin(void);

/** Check that all allocations of libraries have succeeded. Return ZR_ERR_MEMORY if one failed, because jansson may then
 * have left out a value or rejected valid JSON. */
ZR_NODISCARD zr_status cli_alloc_check(void);

/** Hooks by which a test program injects faults (tests/fault/fault.c). In zr itself all hooks are NULL. */
typedef struct cli_fault_hooks {
    zr_status (*begin)(void); /* called once before a command runs */
    bool (*allocation)(void); /* returns whether the current allocation of a library must fail */
    /* Callback zr_observer.reached, called when a rank enters a phase. The test program can end the rank in this phase.
     * */
    void (*reached)(void *arg, int rank, const char *phase, int64_t step);
} cli_fault_hooks;
extern cli_fault_hooks cli_faults;

/** Install the signal handlers. SIGINT, SIGTERM, SIGUSR1 and SIGHUP request a stop. SIGHUP stays ignored if it was
 * ignored before. SIGUSR2 requests a save. A second SIGINT ends the process at once. A second SIGTERM ends it at once
 * if it comes at least 2 seconds after the first SIGINT or SIGTERM. With `speak`, print a message for the first signal.
 * Set `on_live_line` if the message must replace a redrawn line. */
void cli_signals_catch(bool speak, bool on_live_line);

/** Make a SIGTERM end this process at once, with exit code `code`, if another process of `comm` has died or has
 * reported the end of the job. Launchers then send SIGTERM to the remaining processes, which cannot save a checkpoint
 * without the dead process. Call this function with NULL before the communicator is destroyed. */
void cli_signals_peers(zr_comm *comm, int code);

/** Set whether training is in progress. During training, a signal's message says that the run stops after the current
 * step. */
void cli_signals_training(bool begins);

/** Return whether a signal has requested a stop. Callback for an observer's `stop`. */
bool cli_signals_asked(void *arg);

/** Return whether SIGUSR2 was received since the last call. Callback for an observer's `save`. */
bool cli_signals_save(void *arg);

#endif
