/** The process: exit codes, ranks, signals, allocations, and injected faults for tests. */
#ifndef ZR_CLI_SHELL_PROCESS_H
#define ZR_CLI_SHELL_PROCESS_H

#include "zr/comm.h"
#include "zr/run.h"

/** Return the exit code of a status, as documented for users and scripts. */
int cli_exit_code(zr_status status);

/** Print the last failure, which only this rank has, and end all ranks of the launcher. The other ranks would wait for
 * this rank. */
void cli_end_world(zr_comm *comm, zr_status st);

/** Set up the compute libraries of this process before they compute. May start the program again, once. */
void cli_set_process(void);

/** Let this process use all processors. Launchers bind a rank to fewer processors than the share of the host that zr
 * promises. */
void cli_leave_binding(void);

/** Run ranks that are threads of this process. A single rank runs on the calling thread and uses the existing worker
 * threads. The returned status is as for zr_comm_threads_run. */
ZR_NODISCARD zr_status cli_ranks_run(int ranks, zr_status (*rank)(zr_comm *comm, void *arg), void *arg);

/** Reserve memory for a library whose allocation fails, and replace jansson's allocator. */
void cli_alloc_begin(void);

/** Check that no library lacked memory. If one did, return ZR_ERR_MEMORY: jansson may have left out a value, or taken a
 * text for invalid JSON. */
ZR_NODISCARD zr_status cli_alloc_check(void);

/** Hooks that let the test program fail on request (tests/fault/fault.c). All are NULL in zr itself. */
typedef struct cli_fault_hooks {
    zr_status (*begin)(void); /* called once before a command runs */
    bool (*allocation)(void); /* return whether this allocation of a library shall fail */
    void (*reached)(void *arg, int rank, const char *phase, int64_t step); /* an observer's `reached` */
} cli_fault_hooks;
extern cli_fault_hooks cli_faults;

/** Begin to catch signals. SIGINT, SIGTERM, SIGUSR1 and, unless ignored, SIGHUP request a stop. A second SIGINT ends
 * the process, and so does a SIGTERM some time after the first signal. SIGUSR2 requests a save. With `speak` the first
 * signal is answered at once by a message; `on_live_line` if the message replaces a line that is redrawn. */
void cli_signals_catch(bool speak, bool on_live_line);

/** Let a SIGTERM end this process at once, with exit code `code`, if another process of `comm` is gone or has reported
 * that the job ends. Launchers send SIGTERM in this case, and a checkpoint cannot be saved without the other process.
 * Call this with NULL before the communicator is destroyed. */
void cli_signals_peers(zr_comm *comm, int code);

/** Set whether training runs. Only during training, the answer to a signal names the step after which the run stops. */
void cli_signals_training(bool begins);

/** Return whether a signal has requested a stop. This is an observer's `stop`. */
bool cli_signals_asked(void *arg);

/** Return whether SIGUSR2 was received since the last call. This is an observer's `save`. */
bool cli_signals_save(void *arg);

#endif
