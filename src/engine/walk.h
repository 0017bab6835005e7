/** engine, internal: the state of an engine, a running step, and the functions that files of this folder share. walk.c
 * issues the steps of a schedule to queues. bind.c binds the steps to memory. move.c runs steps that move units,
 * update.c and trust.c run steps that end a training step, disk.c moves states from and to disk, and save.c runs
 * asynchronous saves. */
#ifndef ZR_ENGINE_WALK_H
#define ZR_ENGINE_WALK_H

#include "base/core/core.h"
#include "comm/comm.h"
#include "engine/engine.h"
#include "store/store.h"

typedef struct zr__run {
    const zr_kernel *kernel; /* kernel of the op; NULL until the op is prepared */
    zr_kernel_args args;
} zr__run;

/* A schedule whose operands are bound to memory addresses. The operands are bound once, when the engine is created. */
typedef struct zr__bound {
    const zr_schedule *schedule;
    int32_t *run_of; /* for each RUN step: its index in `run` */
    zr__run *run;
    int32_t n_runs;
    zr_tensor *tensor;        /* operands and outputs of all RUN steps, in the order of the steps */
    void **input;             /* for each graph input: its address in host memory, for the current BATCH */
    bool inputs_apart;        /* whether only BATCH uses the host memory of the inputs */
    int32_t *take, *take_end; /* buffers whose lifetime begins at step i: take[take_end[i-1]] .. take[take_end[i]-1] */
    int32_t *give, *give_end; /* buffers whose lifetime ends at step i, in the format of `take` */
    int32_t *awaited;         /* for each step: its index in `mark`, or -1 if no other stream waits for the step */
    zr_mark *mark[2];         /* marks (events) at the ends of steps, in even ([0]) and odd ([1]) rounds */
} zr__bound;

/* Bytes received from other ranks: `traffic` in total, and `across` for each border that they crossed. Also the bytes
 * that COPY steps copied between spaces. */
typedef struct zr__moved {
    zr_traffic traffic, across[ZR_BORDERS];
    int64_t copied[ZR_SPACES][ZR_SPACES];
} zr__moved;

/* An asynchronous save of states. */
typedef struct zr__saving {
    zr_sink sink;
    bool prepared; /* whether zr__save_prepare was called */
    bool now;      /* whether the current training step issues the saving steps */
    /* whether the training step that issued the saving steps failed; the next training step must then drain the save */
    bool cut;
    _Atomic bool gone;                /* whether the engine is being destroyed, so that the sink gets no more data */
    int32_t next;                     /* index in the schedule from which saving steps are still to be issued */
    _Atomic int32_t left;             /* number of SAVE steps that have not ended; 0 if no save is in progress */
    bool error_kept[ZR_ERROR_LEVELS]; /* zr_engine.error_kept when the save was requested */
    zr__failure failed; /* first failure of the sink; while left > 0, only the saving queue may access it */
} zr__saving;

struct zr_engine {
    const zr_plan *plan;
    zr_device *device;
    zr_comm *comm;
    /* communicators of the groups whose ranks exchange anything; a group uses the one with index zr_group.same, and the
     * group of all ranks uses `comm` */
    zr_comm *group_comm[ZR_GROUPS];
    char *memory[ZR_SPACES];        /* memory of each space; NULL for STAGING, which only comm uses, and for DISK */
    void *block[ZR_SPACES];         /* allocations that contain `memory` */
    zr__store *store;               /* files that hold the space DISK; NULL if nothing is on disk */
    int64_t taken_bytes[ZR_SPACES]; /* bytes allocated in each space */
    int place[ZR_GROUPS];           /* number of this rank within each group */
    bool repeats;                   /* whether another rank before this one has the same rows and the same pieces */
    zr_queues queues;               /* queue of each stream; several streams may share a queue */
    zr_queue *queue[ZR_STREAMS];
    zr__bound bound[ZR_SCHEDULES];
    zr__run *ortho;                             /* kernels of the ops of zr_plan.ortho */
    struct zr__channel **channel[ZR_SCHEDULES]; /* channels to other roles, by zr_step.channel */
    struct zr__mail *mail;                      /* mailboxes of the channels, or NULL without other roles */
    int64_t messages_across[ZR_BORDERS];        /* bytes of messages that came across each border, in all walks */
    zr_runtime runtime;
    bool stale;      /* whether this rank's copies of other ranks' parameter shards are older than the last update */
    bool refresh;    /* whether the current training step gathers the stale parameters */
    bool failed;     /* whether a collective call failed on this rank alone (zr__lone) */
    bool debug_sync; /* whether each step waits for its own work on the device (ZR_DEBUG_SYNC) */
    /* whether calls that move units return when their work is in the stream of the comm queue (zr_comm_copier) */
    bool in_stream;
    bool stopped; /* whether a collective was aborted and may therefore still read and write memory */

    /* Fields of the step in progress follow. */
    zr_schedule_kind kind; /* schedule of the current walk, or of the last walk */
    bool walked;           /* whether the last walk reached its end */
    bool failed_elsewhere; /* whether the walk stopped because a step waited for the comm queue, which had failed */
    /* `cut`: whether a step of the current walk has failed, if several threads walk a pipeline. `cause`: the first
     * failure, set by the thread that sets `cut` */
    _Atomic bool cut;
    zr__failure cause;
    zr_batch batch;
    zr_batch_fn batch_fn;
    void *batch_arg;
    const zr_step_args *step;
    /* first row of this rank's first micro-batch; number of rows from the first row of a micro-batch to the first row
     * of the next one. BATCH sets both */
    int64_t first_row, rows_apart;
    double scale; /* loss scale */
    /* number of losses of each term that count in the micro-batch that batch_fn fills (zr_batch.counted) */
    int64_t batch_counted[ZR_LOSS_TERMS];
    /* numbers of losses that count in this step's micro-batches so far, on this rank. Only BATCH changes them. NORM and
     * AGREE read them safely, because they wait for LOSS, which follows BATCH on the compute stream */
    int64_t counted[ZR_LOSS_TERMS];
    /* with several terms: number of losses of each term that count in the whole step, as zr_step_args.count gives it
     * before the first micro-batch. COUNT adds the numbers of the ranks */
    int64_t announced[ZR_LOSS_TERMS];
    int64_t micros; /* with several terms, number of micro-batches of a training step */
    /* with one term: number of losses in the global batch divided by the number of losses that count; 1 until NORM or
     * AGREE has computed it, or if no loss counts. With several terms: 1, because the loss seeds already contain the
     * factor */
    double per_counted;
    _Atomic int32_t updated;  /* number of units updated in this training step */
    bool probing;             /* whether a probe is in progress (a training step without updates) */
    zr__failure batch_failed; /* first failure of batch_fn in this walk */
    zr__failure count_failed; /* failure of zr_step_args.count in this step; all micro-batches of the step then fail */
    int64_t updates;          /* number of optimizer steps that were not skipped */
    /* whether the errors of gradients at a level are kept for the next step. Otherwise they are 0, whatever their
     * memory holds: at the start, and after a step that was skipped, whose gradients were lost */
    bool error_kept[ZR_ERROR_LEVELS];

    zr__watch_fn watch; /* NULL if the engine is not watched */
    void *watch_arg;

    zr_ledger ledger[ZR_SPACES];
    int64_t states_bytes;
    zr__moved moved;
    /* Bytes that COPY steps have copied between spaces in all walks, except copies of asynchronous saves. */
    _Atomic int64_t copied[ZR_SPACES][ZR_SPACES];
    _Atomic uint64_t parts; /* number of parts of states that were filled, read or saved so far; shown on the board */
    int64_t steps;
    zr__saving saving;
};

zr_status zr__bind(zr_engine *engine, zr_schedule_kind kind);
void zr__unbind(zr__bound *bound);

/* Return the address of a buffer (zr__buffer), or of an operand of a step on this rank (zr__use_at). If `use->each` is
 * set, the use covers the ranges of all ranks of a group. zr__use_at then returns the address of the first rank's
 * range. */
char *zr__buffer(const zr_engine *engine, const zr_buffer *buffer);
char *zr__use_at(const zr_engine *engine, const zr_schedule *schedule, const zr_use *use);
/* Return the index of a range's first element on this rank. */
int64_t zr__first(const zr_engine *engine, const zr_range *range);
/* Return the address of a result in host memory. `index` is the index of a persistent buffer. */
void *zr__result(const zr_engine *engine, int32_t index);

/* ---- the walk (walk.c) ------------------------------------------------------------------------- */

/* Walk through a schedule once. Then wait for all queues except the queue of SAVE. */
zr_status zr__walk(zr_engine *engine, zr_schedule_kind kind);
/* Make the longest call of each kind in each communicator of processes with GPUs, so that NCCL takes its memory now and
 * not during training. Call this when the engine is bound, before states are filled: it moves zeros. */
zr_status zr__make_first_calls(zr_engine *engine);
/* Return the status of a collective call of the engine. If the status is a failure that other ranks do not return too,
 * note that this rank has failed alone. All ranks return ZR_ERR_DIVERGED and ZR_ERR_STOPPED together. */
zr_status zr__lone(zr_engine *engine, zr_status st);
/* In a training step of several loss terms, ask the caller (zr_step_args.count) for this rank's numbers of losses that
 * count. COUNT then adds the numbers of all ranks. */
zr_status zr__count_ahead(zr_engine *engine);
/* Show on the board that a step begins, or that it has ended (shown.c); or that no walk is in progress. */
void zr__show_step(zr_engine *engine, const zr_step *step, int64_t micro, int32_t index, bool ended);
void zr__show_nothing(zr_engine *engine);
/* Run a task on the compute queue. Wait until it has ended. */
zr_status zr__call(zr_engine *engine, zr_status (*run)(void *arg, zr_device *device, int64_t index), void *arg);

/* A running step, and the device of its stream's queue. */
typedef struct zr__running {
    zr_engine *engine;
    const zr__bound *bound;
    const zr_step *step;
    const zr_use *use;
    zr_device *device;
    int64_t micro;
    /* first element, relative to the step's range, and number of elements that the step processes; if the step moves a
     * unit, these are the elements of the current bucket */
    int64_t first, count;
} zr__running;

/* Return the address of operand `use` of the step. If the step moves a unit, return the address of the operand's
 * current bucket. */
char *zr__at(const zr__running *r, int use);

/* Increase the board's counter ZR_ENGINE_MOVED, which counts parts of model states that were filled, read or saved. */
void zr__moved_part(zr_engine *engine);
/* Gather the parameters again, where gathered ones stay, without counting the traffic. Collective. */
zr_status zr__gather_anew(zr_engine *engine);

/* Elements [begin, end) of a unit. */
typedef struct zr__span {
    int64_t begin, end;
} zr__span;
/* Return the elements of a unit that lie in both a parameter and a range of the unit. */
zr__span zr__meet(const zr_engine *engine, const zr_param_info *param, const zr_range *range);
/* Return the index within the whole parameter of a unit's element on this rank, or -1 if the element is padding. On
 * entry *n is the number of elements wanted. On return *n is the number of elements that are contiguous in the whole
 * parameter. */
int64_t zr__whole_of(const zr_engine *engine, const zr_param_info *param, int64_t element, int64_t *n);
/* Return the number of elements of other ranks before this rank's errors of a parameter (ZR_STATE_ERROR). Return 0 for
 * any other state. */
int64_t zr__elements_before(const zr_engine *e, const zr_param_info *param, int state);
/* Return whether this rank's elements of a parameter count in sums over all ranks and in files. Of the ranks that hold
 * and compute the same elements, only the first counts. */
bool zr__counts(const zr_engine *engine, const zr_param_info *param);
/* Return the elements of a parameter that this rank passes to callers and sinks, within a range of its unit. For a cut
 * parameter, each tensor-parallel rank gets its own piece. For any other parameter, only the first tensor-parallel rank
 * gets elements. The result is empty if begin >= end. */
zr__span zr__passed(const zr_engine *engine, const zr_param_info *param, const zr_range *range);

/* Return a unit's state. Its buffer is ZR_NONE if this rank does not store the state. */
const zr_state *zr__engine_state(const zr_plan *plan, int32_t unit, int state);
/* Return a graph of the plan, for its parameters and units, which all graphs have. */
const zr_graph *zr__any_graph(const zr_plan *plan);

/* Return the communicator of a step's group (move.c). */
zr_comm *zr__comm_of(const zr__running *r);

/* Run the steps that move a unit (move.c). */
zr_status zr__cast(const zr__running *r);
zr_status zr__gather(const zr__running *r);
zr_status zr__reduce(const zr__running *r);

/* Run the steps at the end of a unit or of a training step (update.c). */
zr_status zr__square(const zr__running *r);
zr_status zr__count(const zr__running *r);
zr_status zr__agree(const zr__running *r);
zr_status zr__norm(const zr__running *r);
zr_status zr__update(const zr__running *r);
zr_status zr__square_update(const zr__running *r);
/* Compute directions of hidden matrices, and make them orthogonal (ortho.c). zr__ortho_bind prepares the kernels. */
zr_status zr__direction(const zr__running *r);
zr_status zr__ortho(const zr__running *r);
zr_status zr__ortho_bind(zr_engine *engine);
void zr__ortho_unbind(zr_engine *engine);
/* Add all ranks' squares for trust ratios (trust.c). */
zr_status zr__trust(const zr__running *r);

/* ---- states on disk (disk.c) -------------------------------------------------------------------- */

/* Create the store of a plan that has bytes on disk. */
zr_status zr__disk_create(zr_engine *engine, const char *const *folder, int n_folders);
/* Run a COPY step from or to the space DISK. */
zr_status zr__disk_copy(const zr__running *r);

/* Window: consecutive elements of a state on disk that are in host memory. A window begins at a multiple of its size,
 * so elements that are used in ascending order are read from disk once, and written once. */
typedef struct zr__window {
    char *memory;
    int64_t bytes;         /* size of `memory` */
    const zr_state *state; /* state whose elements are in the window; NULL if it is empty */
    int64_t first, count;  /* range of the elements in the window; index 0 is the first element that the rank stores */
    bool changed;          /* whether the elements must be written back */
} zr__window;

/* Return an empty window in its planned memory. */
zr__window zr__window_of(const zr_engine *engine, zr_plan_window which);
/* Return how many of n elements of a unit's state, from `element` on, fit into one window. Return n for a state that is
 * not on disk, since it needs no window. */
int64_t zr__window_meet(const zr_engine *engine, const zr__window *window, const zr_state *state, int64_t element,
                        int64_t n);
/* Set *at to the address of an element of a unit's state that this rank stores. If the state is on disk, move the
 * window to the element first. `changes`: whether the caller writes elements. Call this in a task. */
zr_status zr__window_open(zr_engine *engine, zr__window *window, const zr_state *state, int64_t element, bool changes,
                          char **at);
/* Write a window's elements to disk if they have changed. */
zr_status zr__window_close(zr_engine *engine, zr__window *window);

/* ---- saving (save.c) --------------------------------------------------------------------------- */

/* Make the queue of a ZR_WHEN_SAVE step wait for the steps on which the step depends. Then issue the step. `alone`:
 * whether no walk is in progress, so that the step waits only for other ZR_WHEN_SAVE steps. */
zr_status zr__issue_saving(zr_engine *engine, int32_t step, bool alone);
/* Run a SAVE step, as a task of the saving queue. */
zr_status zr__engine_put(void *engine, zr_device *device, int64_t step);
/* Return the number of SAVE steps of a plan. */
int32_t zr__count_puts(const zr_plan *plan);
/* Issue tasks to the saving queue that populate the pages of the host buffers that SAVE steps read. They run during the
 * first training step, so that the first save has no page faults. */
zr_status zr__save_prepare(zr_engine *engine);
/* Issue the remaining saving steps. Wait until the save has ended. */
zr_status zr__save_drain(zr_engine *engine);

#endif
