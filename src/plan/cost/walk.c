/* Walks through the training schedules of all roles. Each role has one clock per stream. A role's list is walked until
 * a step needs what another role has not done yet: a message that comes or is taken, or an exchange between all ranks.
 * Any order in which roles take turns gives the same times, since a step waits for given steps of other roles. */
#include "plan/cost/walk.h"
#include "base/core/scope.h"

#include <math.h>
#include <string.h>

/* One execution of a step, or a part of it, with its begin and end in seconds. */
typedef struct ran {
    int32_t step, before; /* `before`: index in `ran` of the stream's previous entry, or -1 */
    bool roles;           /* whether it waits for other roles */
    double begin, end;
} ran;

/* The messages of a channel. Messages are numbered from 0, and the times of message n are in entry n % depth, since at
 * most `depth` messages are on their way. */
typedef struct channel {
    int64_t depth, begun, received, ended; /* numbers of messages: of SEND, RECEIVED and SENT so far */
    double *sent_at, *came_at;
} channel;

/* The walk through the list of one role. */
typedef struct walking {
    const zr_plan *plan;
    const zr_schedule *s;
    const zr__pricer *pricer;
    bool in_turn; /* whether the streams share one queue, except streams with their own thread (is_beside) */
    bool saves;   /* whether the training step saves states */
    int32_t at;   /* next step of the list */
    bool reached; /* whether `start` is known: the time at which the next step begins */
    double start;
    int64_t met;              /* number of exchanges between all ranks so far */
    double meets[2];          /* begin of the last two exchanges on this role, by the parity of their number */
    int64_t came;             /* number of exchanges between all ranks to which the role has come */
    double clock[ZR_STREAMS]; /* `clock[stream]`: time in seconds from which the stream is free */
    double busy[ZR_STREAMS];
    double bubble;
    ran *ran; /* executions of steps, in order */
    int32_t n_ran;
    int32_t last[ZR_STREAMS]; /* `last[stream]`: index in `ran` of the stream's last entry, or -1 */
    double rounds;            /* number of rounds that the walked round represents, because they take equally long */
    int32_t repeat;
    /* for each step: time in seconds at which it ends, in this round of REPEAT (`now`) and in the round before
     * (`before`), which is NULL in the first round */
    double *now, *before;
    double *room;         /* room for `before` */
    zr_step_time *time;   /* begin and end of each step in one round, or NULL if not wanted */
    channel **channel;    /* for each channel of the schedule: its messages, or NULL if the other role is absent */
    struct walking *role; /* all roles, n_roles in number */
    int32_t n_roles;
} walking;

/* ---- waits -------------------------------------------------------------------------------------- */

static void report_wait(walking *p, int32_t waiting, int32_t awaited, bool roles, double sec)
{
    if (sec <= 0 || (awaited < 0 && !roles)) return;
    if (roles) p->bubble += p->rounds * sec;
    if (p->pricer->waited)
        p->pricer->waited(p->pricer, p->plan, ZR_SCHEDULE_TRAIN, waiting, awaited, roles, p->rounds * sec);
}

/* Report a wait of the compute stream, from `from` to `until`, for the step `awaited` of `stream`. If several steps ran
 * on `stream` in this time, report the time of each separately. Idle time of `stream` counts for its next step. */
static void book_wait(walking *p, int32_t waiting, int32_t awaited, zr_stream stream, double from, double until)
{
    bool roles = false;
    for (int32_t i = p->last[stream]; i >= 0 && until > from; i = p->ran[i].before) {
        const ran *its = &p->ran[i];
        if (its->end > until) continue;
        const double ended = fmax(its->end, from), began = fmax(its->begin, from);
        if (awaited < 0 || its->step == awaited) awaited = its->step, roles = its->roles;
        report_wait(p, waiting, awaited, roles, until - ended);
        if (ended > began) awaited = its->step, roles = its->roles;
        report_wait(p, waiting, awaited, roles, ended - began);
        until = began;
    }
    report_wait(p, waiting, awaited, roles, until - from);
}

/* Return the time at which all streams except SAVE are free. A save may continue beyond the end of the training
 * step. */
static double all_streams_free(const walking *p)
{
    double free_at = 0;
    for (int i = 0; i < ZR_STREAMS; i++)
        if (i != ZR_STREAM_SAVE) free_at = fmax(free_at, p->clock[i]);
    return free_at;
}

/* Return whether a stream has a thread of its own on every device, or shares the queue of COMPUTE. */
static bool is_beside(int stream)
{
    return stream == ZR_STREAM_SAVE || stream == ZR_STREAM_FETCH || stream == ZR_STREAM_STORE ||
           stream == ZR_STREAM_HOST || stream == ZR_STREAM_RETURN || stream == ZR_STREAM_SEND ||
           stream == ZR_STREAM_RECV;
}

/* ---- one step ----------------------------------------------------------------------------------- */

/* Advance all streams of a queue to the latest clock among them. If in_turn is true, one thread runs the steps of the
 * shared queue, and also issues the steps of the other streams. A step of another stream can then begin only after this
 * thread has issued it. */
static void advance_queues(walking *p, int32_t index)
{
    const int8_t *of = p->pricer->queues.of;
    int latest[ZR_STREAMS]; /* `latest[queue]`: stream of the queue with the latest clock */
    for (int i = 0; i < ZR_STREAMS; i++) {
        if (of[i] == i) latest[i] = i;
        if (p->clock[i] > p->clock[latest[of[i]]]) latest[of[i]] = i;
    }
    const int last = latest[ZR_STREAM_COMPUTE];
    book_wait(p, index, ZR_NONE, (zr_stream)last, p->clock[ZR_STREAM_COMPUTE], p->clock[last]);
    for (int i = 0; i < ZR_STREAMS; i++) p->clock[i] = p->clock[latest[of[i]]];
    for (int i = 0; i < ZR_STREAMS; i++)
        if (p->in_turn && is_beside(i)) p->clock[i] = fmax(p->clock[i], p->clock[ZR_STREAM_COMPUTE]);
}

/* Return the time at which a step may begin. Its stream must be free, and the steps for which it waits must have
 * ended. */
static double begin_of(walking *p, int32_t index)
{
    const zr_schedule *s = p->s;
    const zr_step *step = &s->step[index];
    const double ready = p->clock[step->stream];
    double start = ready;
    int32_t awaited = -1;
    for (int32_t w = step->waits; w < step->waits + step->n_waits; w++) {
        const double *its = s->wait[w].before ? p->before : p->now;
        if (!its || its[s->wait[w].step] <= start) continue;
        start = its[s->wait[w].step];
        awaited = s->wait[w].step;
    }
    if (step->stream == ZR_STREAM_COMPUTE && awaited >= 0)
        book_wait(p, index, awaited, s->step[awaited].stream, ready, start);
    return start;
}

/* Record that step `index` occupies its stream from `begin` to `end`. */
static void record(walking *p, int32_t index, bool roles, double begin, double end)
{
    const zr_stream stream = p->s->step[index].stream;
    p->ran[p->n_ran] = (ran){index, p->last[stream], roles, begin, end};
    p->last[stream] = p->n_ran++;
    p->clock[stream] = end;
}

static bool asks_all_roles(const walking *p, const zr_step *step)
{
    return p->n_roles > 1 && zr_step_traits_of(step->kind).move == ZR_MOVE_SCALARS && step->group & ZR_GROUP_PIPELINE;
}

/* Return the messages of a step's channel, or NULL if it has none. */
static channel *channel_of(const walking *p, const zr_step *step)
{
    return step->channel < 0 || p->n_roles == 1 ? NULL : p->channel[step->channel];
}

/* Set *until to the time until which the next step waits for other roles, and return true; or return false if this is
 * not known yet. */
static bool find_release(walking *p, double *until)
{
    const zr_step *step = &p->s->step[p->at];
    const channel *c = channel_of(p, step);
    *until = p->start;
    for (int32_t r = 0; asks_all_roles(p, step) && r < p->n_roles; r++) {
        if (p->role[r].came <= p->met) return false;
        *until = fmax(*until, p->role[r].meets[p->met % 2]);
    }
    if (c && step->kind == ZR_STEP_RECEIVED) {
        if (c->begun <= c->received) return false;
        *until = fmax(*until, c->sent_at[c->received % c->depth]);
    }
    if (c && step->kind == ZR_STEP_SENT) {
        if (c->received <= c->ended) return false;
        *until = fmax(*until, c->came_at[c->ended % c->depth]);
    }
    return true;
}

/* Tell other roles what a step has done. */
static void tell_roles(walking *p, const zr_step *step, double end)
{
    channel *c = channel_of(p, step);
    p->met += asks_all_roles(p, step);
    if (!c) return;
    if (step->kind == ZR_STEP_SEND) c->sent_at[c->begun++ % c->depth] = end;
    if (step->kind == ZR_STEP_RECEIVED) c->came_at[c->received++ % c->depth] = end;
    if (step->kind == ZR_STEP_SENT) c->ended++;
}

/* Skip a step that does not run in this round. */
static void skip(walking *p, int32_t i)
{
    const zr_step *step = &p->s->step[i];
    /* A step that waits for a skipped ZR_WHEN_LATER step may begin as soon as the stream of the skipped step is free.
     */
    const double now = p->clock[step->stream];
    const bool goes_on = zr_when_asked(step->when) && p->before;
    p->now[i] = goes_on ? p->before[i] : step->when == ZR_WHEN_LATER ? now : 0;
    if (p->time) p->time[i] = (zr_step_time){now, now};
}

/* Walk through the next step. Return false if it waits for a step that another role has not reached yet. */
static bool make_step(walking *p)
{
    const int32_t i = p->at;
    const zr_step *step = &p->s->step[i];
    if (!p->reached) {
        advance_queues(p, i);
        if (!zr_when_runs(step->when, p->before != NULL, true, p->saves)) {
            skip(p, i);
            p->at++;
            return true;
        }
        p->start = begin_of(p, i);
        p->reached = true;
        if (asks_all_roles(p, step)) p->meets[p->came++ % 2] = p->start;
    }
    double until;
    if (!find_release(p, &until)) return false;
    const double takes = p->pricer->step_sec(p->pricer, p->plan, ZR_SCHEDULE_TRAIN, i), end = until + takes;
    /* The time of a message counts as a wait for its sender. */
    const bool received = step->kind == ZR_STEP_RECEIVED;
    if (until > p->start && !received) record(p, i, true, p->start, until);
    record(p, i, received, received ? p->start : until, end);
    p->now[i] = end;
    p->busy[step->stream] += takes;
    if (p->time) p->time[i] = (zr_step_time){p->start, end};
    tell_roles(p, step, end);
    p->reached = false;
    p->at++;
    return true;
}

/* ---- rounds ------------------------------------------------------------------------------------- */

/* Walk through the second round, and extrapolate its duration to the later rounds, which take equally long. Roles have
 * one round. */
static void walk_again(walking *p)
{
    const int32_t repeat = p->repeat, stop = p->at - 1;
    const zr_step *step = p->s->step;
    const double more = (double)(step[repeat].rounds - 1);
    const walking before = *p;
    p->before = p->now;
    p->now = p->room;
    p->rounds = more;
    for (p->at = repeat; p->at <= stop;) (void)make_step(p);
    p->rounds = 1;
    for (int32_t i = repeat; i <= stop; i++) { /* shift each step's end from the second round to the last round */
        if (zr_when_asked(step[i].when)) continue;
        p->now[i] += (more - 1) * (p->clock[step[i].stream] - before.clock[step[i].stream]);
    }
    for (int32_t i = before.n_ran; i < p->n_ran; i++) {
        const zr_stream stream = step[p->ran[i].step].stream;
        const double later = (more - 1) * (p->clock[stream] - before.clock[stream]);
        p->ran[i].begin += later;
        p->ran[i].end += later;
    }
    for (int i = 0; i < ZR_STREAMS; i++) {
        p->busy[i] = before.busy[i] + more * (p->busy[i] - before.busy[i]);
        p->clock[i] = before.clock[i] + more * (p->clock[i] - before.clock[i]);
    }
    p->before = NULL;
}

/* Walk through a role's list until a step waits for another role, or to the end. Return whether there was a step. */
static bool go_on(walking *p)
{
    const int32_t from = p->at;
    while (p->at < p->s->n_steps && make_step(p)) {
        const zr_step *step = &p->s->step[p->at - 1];
        if (step->kind == ZR_STEP_REPEAT) p->repeat = p->at - 1;
        if (step->kind == ZR_STEP_END && p->s->step[p->repeat].rounds > 1 && !p->time) walk_again(p);
    }
    return p->at > from;
}

/* ---- all roles ---------------------------------------------------------------------------------- */

/* Return role r's first step that receives the value of a SEND step of role `from`. The plans have it
 * (zr__plans_fit). */
static const zr_step *receiver_of(const walking *p, const zr_step *send, int32_t from)
{
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        const zr_step *step = &p->s->step[i];
        if (step->kind == ZR_STEP_RECV && step->value == send->value && step->peer == from) return step;
    }
    return NULL;
}

/* Connect the channels of all roles. `pool` has an entry for each channel that sends, and `time` two numbers for each
 * message that may be on its way. */
static zr_status connect(walking *role, int32_t n, channel *pool, double *time)
{
    for (int32_t r = 0; r < n; r++)
        for (int32_t i = 0; i < role[r].s->n_steps; i++) {
            const zr_step *step = &role[r].s->step[i];
            if (step->kind != ZR_STEP_SEND || role[r].channel[step->channel]) continue;
            walking *to = &role[step->peer];
            const zr_step *other = receiver_of(to, step, r);
            ZR_CHECK(other, ZR_ERR_INTERNAL, "role %d does not receive value %d of role %d", step->peer, step->value,
                     r);
            *pool = (channel){.depth = step->rounds, .sent_at = time, .came_at = time + step->rounds};
            time += 2 * step->rounds;
            role[r].channel[step->channel] = to->channel[other->channel] = pool++;
        }
    return ZR_OK;
}

/* Memory of a walk. */
typedef struct rooms {
    walking *role;
    double *end;
    ran *ran;
    channel **of, *channel;
    double *time;
} rooms;

static void rooms_free(rooms *m)
{
    zr_free(m->role);
    zr_free(m->end);
    zr_free(m->ran);
    zr_free(m->of);
    zr_free(m->channel);
    zr_free(m->time);
}

static zr_status prepare(const zr_plans *plans, const zr__pricer *pricer, bool saves, zr_step_time *const *time,
                         rooms *m)
{
    size_t steps = 0, channels = 0, messages = 0;
    for (int32_t r = 0; r < plans->n; r++) {
        const zr_schedule *s = &plans->role[r]->schedule[ZR_SCHEDULE_TRAIN];
        ZR_CHECK(plans->role[r]->graph[ZR_SCHEDULE_TRAIN], ZR_ERR_STATE,
                 "this plan has no training step to price: set zr_layout.train");
        steps += (size_t)s->n_steps + 1;
        channels += (size_t)s->n_channels;
        for (int32_t i = 0; plans->n > 1 && i < s->n_steps; i++)
            if (s->step[i].kind == ZR_STEP_SEND && s->step[i].micro == 0) messages += (size_t)s->step[i].rounds;
    }
    /* Room for two entries of every step: steps of REPEAT are walked for at most two rounds, and a step that waits for
     * other roles has two entries. */
    *m = (rooms){.role = zr_alloc(sizeof *m->role * (size_t)plans->n),
                 .end = zr_alloc(sizeof *m->end * 2 * steps),
                 .ran = zr_alloc(sizeof *m->ran * 2 * steps),
                 .of = zr_alloc(sizeof *m->of * (channels + 1)),
                 .channel = zr_alloc(sizeof *m->channel * (channels + 1)),
                 .time = zr_alloc(sizeof *m->time * (2 * messages + 1))};
    ZR_CHECK(m->role && m->end && m->ran && m->of && m->channel && m->time, ZR_ERR_MEMORY,
             "no memory to price %zu steps", steps);
    size_t before = 0, of = 0;
    for (int32_t r = 0; r < plans->n; r++) {
        const zr_schedule *s = &plans->role[r]->schedule[ZR_SCHEDULE_TRAIN];
        walking *p = &m->role[r];
        *p = (walking){.plan = plans->role[r],
                       .s = s,
                       .pricer = pricer,
                       .in_turn = true,
                       .saves = saves,
                       .ran = m->ran + 2 * before,
                       .now = m->end + 2 * before,
                       .room = m->end + 2 * before + s->n_steps + 1,
                       .rounds = 1,
                       .time = time ? time[r] : NULL,
                       .channel = m->of + of,
                       .role = m->role,
                       .n_roles = plans->n};
        for (int i = 0; i < ZR_STREAMS; i++) {
            p->last[i] = ZR_NONE;
            p->in_turn &= is_beside(i) || !zr_queues_apart(&pricer->queues, (zr_stream)i);
        }
        before += (size_t)s->n_steps + 1;
        of += (size_t)s->n_channels;
    }
    return plans->n > 1 ? connect(m->role, plans->n, m->channel, m->time) : ZR_OK;
}

/* Report what the compute stream waits for after its last step: the stream whose transfers continue, and other roles.
 */
static void end_role(walking *p, double step_sec)
{
    const double own = all_streams_free(p);
    for (int i = 0; i < ZR_STREAMS; i++)
        if (i != ZR_STREAM_COMPUTE && i != ZR_STREAM_SAVE && p->clock[i] == own) {
            book_wait(p, ZR_NONE, ZR_NONE, (zr_stream)i, p->clock[ZR_STREAM_COMPUTE], p->clock[i]);
            break;
        }
    report_wait(p, ZR_NONE, ZR_NONE, true, step_sec - own);
}

zr_status zr__walk_roles(const zr_plans *plans, const zr__pricer *pricer, bool saves, zr_step_time *const *time,
                         zr__walked *walked)
{
    ZR_AUTO(rooms_free) rooms m = {0};
    *walked = (zr__walked){0};
    ZR_TRY(prepare(plans, pricer, saves, time, &m));
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t r = 0; r < plans->n; r++) moved |= go_on(&m.role[r]);
    }
    for (int32_t r = 0; r < plans->n; r++) {
        const walking *p = &m.role[r];
        ZR_CHECK(p->at == p->s->n_steps, ZR_ERR_INTERNAL, "role %d waits forever in step %d (%s)", r, p->at,
                 zr_step_kind_name(p->s->step[p->at].kind));
        walked->step_sec = fmax(walked->step_sec, all_streams_free(p));
        if (p->busy[ZR_STREAM_COMPUTE] > m.role[walked->busiest].busy[ZR_STREAM_COMPUTE]) walked->busiest = r;
        walked->save_sec = fmax(walked->save_sec, p->busy[ZR_STREAM_SAVE]);
    }
    for (int32_t r = 0; r < plans->n; r++) end_role(&m.role[r], walked->step_sec);
    memcpy(walked->busy, m.role[walked->busiest].busy, sizeof walked->busy);
    walked->bubble_sec = m.role[walked->busiest].bubble;
    return ZR_OK;
}
