#include "train/watch/hang.h"

#include "base/core/thread.h"
#include "comm/comm.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Constants of train.hang_timeout "auto". The limit of a step is AUTO_TIMES times the duration of the slowest of the
 * last LAST_STEPS steps, but at least AUTO_SEC seconds. */
enum { AUTO_SEC = 60, AUTO_TIMES = 10, LAST_STEPS = 16 };
#define STACK_BYTES ((size_t)256 << 10)
#define GONE_SEC 0.5   /* grace period in seconds for a launcher to end the job, before an ended process is reported */
#define ANOTHER_SEC 10 /* grace period in seconds for another process to end the job, before this process ends it */
#define PLACE_BYTES 512

/* Names, descriptions and time limits of the phases. The start has a higher limit than a step, because it reads whole
 * files and touches all memory for the first time. Saving, steps that wait for saving, and the end have higher limits,
 * because they may write gigabytes to a disk. */
static const struct {
    const char *name;
    const char *place; /* description in messages; the number of a step follows */
    int next;          /* 1 if that step is the next one, 0 if it is the last completed one */
    int times;         /* limit of the phase as a multiple of train.hang_timeout, the limit of a training step */
} phases[ZR__PHASES] = {
    {"start", "the start", 0, 5},        {"train", "training step", 1, 1},
    {"train", "training step", 1, 5},    {"evaluate", "evaluation after step", 0, 2},
    {"save", "saving after step", 0, 5}, {"end", "the end of the run, after step", 0, 5},
};

const char *zr__phase_name(zr__phase phase)
{
    return phases[phase].name;
}

/* Pack the phase and the number of completed steps into one number. The number is never 0, because 0 on a rank's board
 * means that the rank has not begun. */
uint64_t zr__phase_shown(zr__phase phase, int64_t steps)
{
    return (uint64_t)(phase + 1) << 56 | ((uint64_t)steps & (((uint64_t)1 << 56) - 1));
}

static zr__phase phase_on(const zr_comm_board *b)
{
    uint64_t phase = b->shown[ZR__PHASE_SHOWN] >> 56;
    return phase >= 1 && phase <= ZR__PHASES ? (zr__phase)(phase - 1) : ZR__PHASE_START;
}

static int64_t steps_on(const zr_comm_board *b)
{
    return (int64_t)(b->shown[ZR__PHASE_SHOWN] & (((uint64_t)1 << 56) - 1));
}

/* State of a rank, as its board (zr_comm_board) showed it when it was last read. */
typedef struct row {
    bool seen; /* whether the board can be read, because the rank is on this host */
    zr_comm_board board;
    double age_sec; /* seconds since the rank last made progress */
} row;

struct zr__hang {
    zr_comm *comm;
    const zr_observer *observer;
    int64_t given_sec; /* train.hang_timeout in seconds; 0 for "auto" */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool quit;
    double last_sec[LAST_STEPS];
    int64_t n_steps;
    _Atomic(const zr_plan *) plan;

    /* fields used only by the watching thread */
    row *rows;     /* array of n rows, one for each rank */
    int n, unseen; /* number of ranks; number of ranks on other hosts */
    bool warned;
    double gone_sec;    /* seconds since a process of this host was seen to have ended */
    double another_sec; /* grace period in seconds for another process to end the job; 0 until the limit is exceeded */
};

/* ---- limits ------------------------------------------------------------------------------------ */

/* Return the limit of a training step in seconds: the maximum time in which a rank may show no progress. Set *first to
 * whether no step has ended yet. */
static double step_limit(zr__hang *h, bool *first)
{
    double slowest = 0;
    pthread_mutex_lock(&h->lock);
    for (int i = 0; i < LAST_STEPS; i++) slowest = fmax(slowest, h->last_sec[i]);
    *first = h->n_steps == 0;
    pthread_mutex_unlock(&h->lock);
    return h->given_sec > 0 ? (double)h->given_sec : fmax(AUTO_SEC, AUTO_TIMES * slowest);
}

/* Return the limit of a phase in seconds. With "auto", the first step has the limit of the start phase, since no step
 * duration is known yet. */
static double limit_of(zr__hang *h, zr__phase phase)
{
    bool first;
    double sec = step_limit(h, &first);
    if (phase == ZR__PHASE_TRAIN && first && h->given_sec == 0) phase = ZR__PHASE_START;
    return sec * phases[phase].times;
}

const char *zr__hang_limits(zr__hang *h, char text[ZR__LIMITS_BYTES])
{
    text[0] = '\0';
    if (!h || h->given_sec == 0) return text;
    snprintf(text, ZR__LIMITS_BYTES, "train.hang_timeout: %g s a step, %g s in an evaluation, %g s in start and saving",
             (double)h->given_sec, limit_of(h, ZR__PHASE_EVALUATE), limit_of(h, ZR__PHASE_START));
    return text;
}

/* ---- the position of a rank -------------------------------------------------------------------- */

/* Return the name of the first parameter that an op reads or whose gradient it computes. Without a parameter, return
 * the name of the op's unit, or "". */
static const char *tensor_of(const zr_graph *g, int32_t op)
{
    const zr_op *its = zr_graph_get_op(g, op);
    for (int32_t i = 0; i < its->n_in + its->n_out; i++) {
        const zr_value value = i < its->n_in ? its->in[i] : its->out[i - its->n_in];
        const int32_t param = value == ZR_NONE ? ZR_NONE : zr_graph_value(g, value)->param;
        if (param >= 0) return zr_graph_param(g, param)->name;
    }
    return its->unit >= 0 ? zr_graph_unit_info(g, its->unit)->name : "";
}

/* Return the world number of the rank for which the computing thread waits in a channel, or -1. With threads for the
 * messages it waits only when its last step has ended. A GPU's stream waits whatever the thread does. */
static int awaits_message(const zr_comm_board *b)
{
    const zr__engine_at at = zr__engine_shown(b->shown, ZR_SHOWN_COMPUTE);
    const uint64_t awaited = b->channel[1] ? b->channel[1] : b->channel[0];
    const bool free =
        (awaited & ZR__STREAM_AWAITS) || at.ended || at.kind == ZR_STEP_SENT || at.kind == ZR_STEP_RECEIVED;
    return at.walks && free ? (int)(awaited & ~ZR__STREAM_AWAITS) - 1 : -1;
}

/* Return the step that a rank runs, or for which it waits. If communication overlaps with computation, a waiting rank
 * waits for communication, so return the step of the thread that communicates. */
static zr__engine_at step_of(const zr_comm_board *b)
{
    int thread = ZR_SHOWN_COMPUTE;
    if (b->waits & 1)
        thread = ZR_SHOWN_COMM;
    else if (awaits_message(b) >= 0)
        thread = b->channel[1] ? ZR_SHOWN_RECV : ZR_SHOWN_SEND;
    const zr__engine_at at = zr__engine_shown(b->shown, thread);
    return at.walks ? at : zr__engine_shown(b->shown, ZR_SHOWN_COMPUTE);
}

/* Append a rank's current schedule step to `text`, for example ", step 34 of the schedule train (gather of h.3,
 * micro-batch 1)", or ", step 20 of the schedule train (received from role 0, cell 1F2)". */
static void add_schedule_step(const zr__hang *h, const zr_comm_board *b, char *text, size_t size)
{
    static const char *const names[ZR_SCHEDULES] = {[ZR_SCHEDULE_TRAIN] = "train",
                                                    [ZR_SCHEDULE_EVAL] = "eval",
                                                    [ZR_SCHEDULE_DECODE] = "decode",
                                                    [ZR_SCHEDULE_FLUSH] = "flush",
                                                    [ZR_SCHEDULE_FILL] = "fill"};
    const zr_plan *plan = h->plan;
    const zr__engine_at at = step_of(b);
    if (!at.walks || !plan || at.kind >= ZR_STEP_KINDS) return;
    const zr_graph *g = plan->graph[at.schedule];
    const bool runs = g && at.kind == ZR_STEP_RUN && at.about >= 0 && at.about < zr_graph_ops(g);
    const char *tensor = runs                                                 ? tensor_of(g, at.about)
                         : g && at.about >= 0 && at.about < zr_graph_units(g) ? zr_graph_unit_info(g, at.about)->name
                                                                              : "";
    char about[112] = "", cell[ZR__CELL_BYTES];
    if (at.peer >= 0)
        snprintf(about, sizeof(about), " %s role %d",
                 at.kind == ZR_STEP_SEND || at.kind == ZR_STEP_SENT ? "to" : "from", at.peer);
    else if (tensor[0])
        snprintf(about, sizeof(about), " of %s", tensor);
    snprintf(text, size, ", step %d of the schedule %s (%s%s, %s)", at.step, names[at.schedule],
             runs ? zr_graph_get_op(g, at.about)->def->name : zr_step_kind_name(at.kind), about,
             zr__engine_cell(at.stage, at.action, at.micro, cell));
}

static const char *write_place(const zr__hang *h, const zr_comm_board *b, char text[PLACE_BYTES])
{
    const zr__phase phase = phase_on(b);
    const long long steps = steps_on(b);
    int n = snprintf(text, PLACE_BYTES, "%s", phases[phase].place);
    if (phase != ZR__PHASE_START) n += snprintf(text + n, PLACE_BYTES - (size_t)n, " %lld", steps + phases[phase].next);
    add_schedule_step(h, b, text + n, PLACE_BYTES - (size_t)n);
    return text;
}

void zr__hang_append(char *text, size_t size, const char *what, int64_t number)
{
    char digits[24];
    size_t at = strlen(text), n = 0;
    for (; *what && at + 1 < size; what++) text[at++] = *what;
    for (; number >= 0 && (n == 0 || number > 0); number /= 10) digits[n++] = (char)('0' + number % 10);
    while (n > 0 && at + 1 < size) text[at++] = digits[--n];
    text[at] = '\0';
}

void zr__hang_where(const zr_comm_board *b, char *text, size_t size)
{
    const zr__phase phase = phase_on(b);
    const zr__engine_at at = step_of(b);
    zr__hang_append(text, size, " in ", -1);
    zr__hang_append(text, size, phases[phase].place, -1);
    if (phase != ZR__PHASE_START) zr__hang_append(text, size, " ", steps_on(b) + phases[phase].next);
    if (!at.walks) return;
    zr__hang_append(text, size, ", step ", at.step);
    zr__hang_append(text, size, " of the schedule", -1);
    if (!at.action) return;
    zr__hang_append(text, size, ", cell ", at.stage);
    zr__hang_append(text, size, (char[]){at.action, '\0'}, at.micro);
}

/* ---- the stuck rank ---------------------------------------------------------------------------- */

static void look_at_boards(zr__hang *h, double sec)
{
    h->unseen = 0;
    for (int r = 0; r < h->n; r++) {
        row *at = &h->rows[r];
        zr_comm_board b = {0};
        at->seen = zr__comm_look(h->comm, r, &b);
        h->unseen += !at->seen;
        bool moved = b.waits != at->board.waits || memcmp(b.shown, at->board.shown, sizeof(b.shown)) != 0;
        at->age_sec = moved ? 0 : at->age_sec + sec;
        at->board = b;
    }
}

static bool waits(const zr__hang *h, int rank)
{
    const zr_comm_board *b = &h->rows[rank].board;
    return (b->waits & 1) || awaits_message(b) >= 0;
}

/* Return the rank for which a rank waits, or -1 if the rank does not wait, or if nobody knows for which it waits. */
static int awaited_by(const zr__hang *h, int rank)
{
    const zr_comm_board *b = &h->rows[rank].board;
    return b->waits & 1 ? (int)b->awaited - 1 : awaits_message(b);
}

/* Follow from a rank to the rank for which it waits, and so on. Return the last rank whose board can be read. If ranks
 * wait for each other, return one of them. */
static int follow(const zr__hang *h, int rank)
{
    for (int i = 0, next; i < h->n && (next = awaited_by(h, rank)) >= 0 && h->rows[next].seen; i++) rank = next;
    return rank;
}

/* Return how well `end`, the result of follow, explains why `rank` makes no progress. 3: `rank` waits, and `end` works.
 * 2: `end` waits for a known rank. 1: `rank` works itself. 0: `end` waits for an unknown rank. */
static int explains(const zr__hang *h, int rank, int end)
{
    if (!waits(h, rank)) return 1;
    return !waits(h, end) ? 3 : awaited_by(h, end) >= 0 ? 2 : 0;
}

/* Return the rank for which the others wait in the end. Of ranks that explain this equally well, return the rank whose
 * last progress is oldest. Return -1 if no board can be read. */
static int find_stuck(const zr__hang *h)
{
    int found = -1, best = -1;
    for (int r = 0; r < h->n; r++) {
        if (!h->rows[r].seen) continue;
        const int end = follow(h, r), well = explains(h, r, end);
        if (well < best || (well == best && h->rows[end].age_sec <= h->rows[found].age_sec)) continue;
        found = end;
        best = well;
    }
    return found;
}

/* Return whether the stuck rank must be on another host, because `stuck` waits for a rank whose board cannot be read.
 * Without other hosts, return false. */
static bool is_elsewhere(const zr__hang *h, int stuck)
{
    const int next = awaited_by(h, stuck);
    return waits(h, stuck) && (next < 0 ? h->unseen > 0 : !h->rows[next].seen);
}

/* Return whether this process must print the warning. All processes of a host see the same boards, but only one prints
 * the warning: the process of the host's first rank that is not the stuck rank. */
static bool is_mine_to_warn(const zr__hang *h, int stuck)
{
    int first = -1;
    for (int r = h->n - 1; r >= 0; r--)
        if (h->rows[r].seen && r != stuck) first = r;
    return first < 0 || first == h->comm->rank || h->rows[first].board.process == h->comm->board->process;
}

/* ---- messages ---------------------------------------------------------------------------------- */

static void tell_of_ranks(const zr__hang *h)
{
    char line[PLACE_BYTES + 128], where[PLACE_BYTES];
    for (int r = 0; r < h->n; r++) {
        const row *at = &h->rows[r];
        if (!at->seen) continue;
        char whom[32] = "";
        if (awaited_by(h, r) >= 0) snprintf(whom, sizeof(whom), " for rank %d", awaited_by(h, r));
        snprintf(line, sizeof(line), "rank %d %s%s in %s, for %.1f s", r, waits(h, r) ? "waits" : "works", whom,
                 write_place(h, &at->board, where), at->age_sec);
        h->observer->hang(h->observer->arg, ZR_HANG_RANK, line);
    }
}

static void tell_hang(const zr__hang *h, zr_hang_event event, int stuck, bool elsewhere, double limit)
{
    char line[2 * PLACE_BYTES], where[PLACE_BYTES];
    const row *at = &h->rows[stuck];
    write_place(h, &at->board, where);
    const int awaited = awaited_by(h, stuck);
    int n; /* length of the text */
    if (!elsewhere && awaited < 0)
        n = snprintf(line, sizeof(line), "rank %d has been stuck for %.1f s in %s", stuck, at->age_sec, where);
    else if (!elsewhere)
        n = snprintf(line, sizeof(line), "ranks wait for each other: rank %d for rank %d, for %.1f s in %s", stuck,
                     awaited, at->age_sec, where);
    else if (awaited >= 0)
        n = snprintf(line, sizeof(line), "rank %d%s has not come for %.1f s, for which rank %d waits in %s", awaited,
                     h->unseen > 1 ? ", or one that it waits for itself," : "", at->age_sec, stuck, where);
    else
        n = snprintf(line, sizeof(line), "ranks of other hosts have not come for %.1f s, for which rank %d waits in %s",
                     at->age_sec, stuck, where);
    if (event == ZR_HANG_WARNING)
        snprintf(line + n, sizeof(line) - (size_t)n, "; after %g s the run ends", limit);
    else
        snprintf(line + n, sizeof(line) - (size_t)n, ". The run ends (train.hang_timeout; the limit here is %g s)",
                 limit);
    if (event == ZR_HANG_OVER) tell_of_ranks(h);
    h->observer->hang(h->observer->arg, event, line);
}

/* Report a process of this host that ended before its rank completed the run. */
static void check_gone(zr__hang *h, double sec)
{
    char line[2 * PLACE_BYTES], where[PLACE_BYTES];
    int gone = zr__comm_gone(h->comm);
    h->gone_sec = gone < 0 ? 0 : h->gone_sec + sec;
    if (h->gone_sec < GONE_SEC || !zr__comm_claim_telling(h->comm)) return;
    const zr_comm_board *b = &h->rows[gone].board;
    snprintf(line, sizeof(line), "rank %d is gone (process %lld), in %s. The run ends", gone, (long long)b->process,
             write_place(h, b, where));
    tell_of_ranks(h);
    h->observer->hang(h->observer->arg, ZR_HANG_GONE, line);
}

static void check_ranks(zr__hang *h, double sec)
{
    look_at_boards(h, sec);
    check_gone(h, sec);
    int stuck = find_stuck(h);
    if (stuck < 0) return;
    const row *at = &h->rows[stuck];
    bool elsewhere = is_elsewhere(h, stuck);
    double limit = limit_of(h, phase_on(&at->board));
    if (at->age_sec < limit / 2) h->warned = false;
    if (at->age_sec >= limit / 2 && !h->warned) {
        h->warned = true;
        if (is_mine_to_warn(h, stuck)) tell_hang(h, ZR_HANG_WARNING, stuck, elsewhere, limit);
    }
    /* If the stuck rank is on another host, wait until a process of that host has reported, since it has more
     * information. */
    double later = elsewhere ? 2 + 0.1 * limit + fmin(5, 0.1 * h->comm->rank) : 0;
    if (at->age_sec < limit + later + h->another_sec) return;
    if (h->another_sec > 0 || zr__comm_claim_telling(h->comm)) tell_hang(h, ZR_HANG_OVER, stuck, elsewhere, limit);
    h->another_sec = ANOTHER_SEC;
}

/* ---- the thread -------------------------------------------------------------------------------- */

/* Sleep for `sec` seconds. Return false if the thread must stop watching. */
static bool doze(zr__hang *h, double sec)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + (int64_t)(sec * 1e9);
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&h->lock);
    while (!h->quit && pthread_cond_timedwait(&h->ended, &h->lock, &until) != ETIMEDOUT) continue;
    bool goes_on = !h->quit;
    pthread_mutex_unlock(&h->lock);
    return goes_on;
}

/* Check the ranks periodically. Count only the time in which this thread runs, so that a suspended job (^Z, a
 * scheduler) or a busy host does not look like a hang. */
static void *watch_ranks(void *arg)
{
    zr__hang *h = arg;
    bool first;
    const double period = fmax(0.02, fmin(1, step_limit(h, &first) / 40));
    double before = zr_clock_sec();
    while (doze(h, period)) {
        double now = zr_clock_sec(), sec = now - before;
        before = now;
        check_ranks(h, fmin(sec, 2 * period));
    }
    return NULL;
}

static void free_hang(zr__hang *h)
{
    pthread_cond_destroy(&h->ended);
    pthread_mutex_destroy(&h->lock);
    zr_free(h->rows);
    zr_free(h);
}

zr_status zr__hang_create(const zr_config *config, zr_comm *comm, const zr_observer *observer, zr__hang **hang)
{
    bool watched = comm->rank > 0 && zr__comm_process_ranks(comm) > 1;
    *hang = NULL;
    if (!observer->hang || watched) return ZR_OK;
    zr__hang *h = zr_alloc(sizeof(*h));
    ZR_CHECK(h, ZR_ERR_MEMORY, "no memory to watch for hangs");
    h->comm = comm;
    h->observer = observer;
    h->given_sec = config->train.hang_timeout;
    h->n = comm->n_boards;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&h->ended, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&h->lock, NULL);
    h->rows = zr_alloc((size_t)h->n * sizeof(*h->rows));
    const int error = h->rows ? zr__thread_start(&h->thread, STACK_BYTES, watch_ranks, h) : ENOMEM;
    if (error != 0) free_hang(h);
    ZR_CHECK(error == 0, ZR_ERR_MEMORY, "cannot watch for hangs, which takes a thread and some memory: %s",
             strerror(error));
    *hang = h;
    return ZR_OK;
}

void zr__hang_destroy(zr__hang **hang)
{
    zr__hang *h = *hang;
    if (!h) return;
    pthread_mutex_lock(&h->lock);
    h->quit = true;
    pthread_cond_signal(&h->ended);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    free_hang(h);
    *hang = NULL;
}

void zr__hang_plan(zr__hang *h, const zr_plan *plan)
{
    if (h) h->plan = plan;
}

void zr__hang_took(zr__hang *h, double sec)
{
    if (!h) return;
    pthread_mutex_lock(&h->lock);
    h->last_sec[h->n_steps++ % LAST_STEPS] = sec;
    pthread_mutex_unlock(&h->lock);
}
