/* Creates and destroys engines. Also defines the calls that walk through a schedule or report measured bytes. */
#include "engine/walk.h"
#include "base/core/core.h"
#include "base/number/exact.h"
#include "base/text/text.h"
#include "comm/comm.h"
#include "plan/cost/cost.h"
#include "plan/list/place.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

/* Allocate this rank's memory. The allocation may fail on some ranks and succeed on others. If states are on disk,
 * align the memory as transfers from and to disk need it. The bytes before the aligned address are not counted. */
static zr_status take_memory(zr_engine *e)
{
    const zr_plan *plan = e->plan;
    const zr_device_ops *ops = e->device->ops;
    const zr_space spaces[] = {ZR_SPACE_DEVICE, ZR_SPACE_HOST};
    const int64_t spare = plan->space_bytes[ZR_SPACE_DISK] > 0 ? ZR_DISK_ALIGN : 0;
    for (int i = 0; i < 2; i++) {
        const zr_space space = spaces[i];
        void *memory = NULL;
        int64_t before = zr__alloc_taken(), bytes = plan->space_bytes[space];
        ZR_TRY((space == ZR_SPACE_HOST ? ops->alloc_host : ops->alloc)(e->device, bytes + spare, &memory));
        e->block[space] = memory;
        e->memory[space] = memory;
        if (spare > 0) e->memory[space] += (spare - (uintptr_t)memory % (uintptr_t)spare) % (uintptr_t)spare;
        e->taken_bytes[space] = zr__alloc_taken() - before - spare;
        /* Use the planned bytes in the two cases in which zr__alloc_taken is wrong: for an allocation of 0 bytes it
         * reports 1 byte, and for memory of a device nothing. */
        if (bytes == 0 || e->taken_bytes[space] <= 0) e->taken_bytes[space] = bytes;
    }
    for (int32_t g = 0; g < ZR_GROUPS; g++) e->place[g] = zr__plan_place(plan, g, e->comm->rank);
    return ZR_OK;
}

/* Return how to configure the queue of the stream `first`, which other streams may share. Collectives and transfers
 * from and to files need a queue with a thread, since they block. Other work is only issued to the device. Computation
 * waits for collectives, so the device prefers their work. */
static zr_queue_config config_of(const zr_engine *e, zr_stream first)
{
    /* Capacities of queues: COMM_TASKS is greater than the number of tasks that can be pending. When BESIDE_TASKS tasks
     * are pending, the next one waits. */
    enum { COMM_TASKS = 1024, BESIDE_TASKS = 256 };
    const bool receives_apart = zr_queues_apart(&e->queues, ZR_STREAM_RECV);
    switch (first) {
    case ZR_STREAM_COMPUTE:
        /* If values come from other roles while this one computes, this thread must not compute: it issues the next
         * RECV meanwhile. A GPU computes without it. */
        return receives_apart && !e->plan->profile.facts.own_memory
                   ? (zr_queue_config){.runs = ZR_QUEUE_HOST, .most = COMM_TASKS}
                   : (zr_queue_config){.runs = ZR_QUEUE_AT_ONCE};
    case ZR_STREAM_COMM:
        return (zr_queue_config){
            .runs = e->in_stream ? ZR_QUEUE_ISSUE : ZR_QUEUE_THREAD, .most = COMM_TASKS, .urgent = true};
    case ZR_STREAM_SEND:
    case ZR_STREAM_RECV: /* in the order of streams no call waits for a message, so a thread would have nothing to do */
        return (zr_queue_config){.runs = e->in_stream ? ZR_QUEUE_STREAM : ZR_QUEUE_THREAD, .most = BESIDE_TASKS};
    case ZR_STREAM_SAVE: /* twice the number of SAVE steps, since each wait is a task too */
        return (zr_queue_config){.runs = ZR_QUEUE_THREAD, .most = 2 * zr__count_puts(e->plan)};
    case ZR_STREAM_FETCH:
    case ZR_STREAM_STORE:
    case ZR_STREAM_RETURN: /* a separate thread, because its copies wait for updates; otherwise the walking thread would
                              wait */
        return (zr_queue_config){.runs = ZR_QUEUE_THREAD, .most = BESIDE_TASKS};
    case ZR_STREAM_HOST:
        return (zr_queue_config){.runs = ZR_QUEUE_HOST, .most = BESIDE_TASKS};
    default:
        return (zr_queue_config){.runs = ZR_QUEUE_STREAM};
    }
}

/* Create the queues. Some streams share the queue of another stream. */
static zr_status take_queues(zr_engine *e)
{
    const bool own_memory = e->plan->profile.facts.own_memory;
    e->queues = zr__plan_queues(e->plan, zr__comm_overlaps(e->comm, own_memory));
    e->in_stream = own_memory && zr__comm_process_ranks(e->comm) < e->comm->size;
    for (int s = 0; s < ZR_STREAMS; s++) {
        const int first = e->queues.of[s];
        const zr_queue_config config = config_of(e, (zr_stream)first);
        if (first == s) ZR_TRY(e->device->ops->queue_create(e->device, &config, &e->queue[s]));
        e->queue[s] = e->queue[first];
    }
    return ZR_OK;
}

/* Create a communicator for each group whose ranks exchange anything. All ranks create them in the same order, and
 * agree on the status of each creation. */
static zr_status take_comms(zr_engine *e)
{
    const zr_plan *plan = e->plan;
    for (int32_t g = 0; g < ZR_GROUPS; g++) {
        if (!plan->group[g].exchanges) continue;
        /* ranks with the same color form a group; the color is the rank of the group's first member */
        const int color = e->comm->rank - zr__plan_member(plan, g, e->place[g]);
        if (plan->group[g].size == plan->ranks)
            e->group_comm[g] = e->comm;
        else
            ZR_TRY(zr_comm_split(e->comm, color, e->place[g], &e->group_comm[g]));
    }
    return ZR_OK;
}

static zr_status copy_on(void *device, void *to, const void *from, int64_t bytes)
{
    return ((zr_device *)device)->ops->copy(device, to, from, bytes);
}

static zr_status finish_on(void *device)
{
    return ((zr_device *)device)->ops->finish(device);
}

static zr_comm_copier copier_of(const zr_engine *e, zr_stream stream)
{
    zr_device *device = e->queue[stream]->device;
    return (zr_comm_copier){copy_on, finish_on, device, device->stream, e->in_stream};
}

/* If the processor cannot access the device's memory, let the device of the comm queue copy memory between ranks. Each
 * call of zr__comm_copy_with waits for ranks of other processes. Therefore all ranks agree on each call's status. No
 * rank then begins the next group's call after another rank has failed. */
static zr_status take_copies(zr_engine *e)
{
    const zr_comm_copier copier = copier_of(e, ZR_STREAM_COMM);
    if (!e->device->profile.facts.own_memory) return ZR_OK;
    /* Make the device's GPU current in this thread. NCCL creates its communicator on the current GPU. */
    ZR_TRY(zr_comm_agree(e->comm, finish_on(e->device)));
    for (int32_t g = 0; g < ZR_GROUPS; g++) {
        zr_comm *comm = e->group_comm[g];
        if (!comm) continue;
        const bool moves = comm->size == 1 || e->plan->staging[g] != ZR_NONE;
        ZR_TRY(zr_comm_agree(e->comm, moves ? zr__comm_copy_with(comm, &copier) : ZR_OK));
    }
    return ZR_OK;
}

/* Let ranks that are threads access each other's device memory, or fail if their devices cannot. A sum asks for access
 * to the devices of its pieces, even if it has no elements. */
static zr_status reach_peers(zr_engine *e)
{
    const int ranks = e->comm->size;
    double mine = 0; /* address of this rank's memory, as the bytes of a double */
    if (!e->plan->profile.facts.own_memory || e->in_stream || ranks == 1) return ZR_OK;
    memcpy(&mine, &e->memory[ZR_SPACE_DEVICE], sizeof(char *));
    ZR_AUTO_FREE const void **pieces = zr_alloc(sizeof *pieces * (size_t)ranks);
    zr_status st = pieces ? ZR_OK : ZR_FAIL(ZR_ERR_MEMORY, "no memory for the addresses of %d ranks", ranks);
    ZR_TRY(zr_comm_agree(e->comm, st));
    ZR_TRY(zr_comm_scalars(e->comm, &mine, 1, NULL));
    for (int r = 0; r < ranks; r++) memcpy(&pieces[r], &e->comm->table[r], sizeof *pieces);
    st = e->device->ops->sum(e->device, e->memory[ZR_SPACE_DEVICE], ZR_F32, false, pieces, ranks, ZR_F32, 0);
    return zr_comm_agree(e->comm, st);
}

/* Check that each host has room for the staging memory of all groups of its ranks together. */
static zr_status check_room(const zr_engine *e)
{
    const zr_plan *plan = e->plan;
    zr_comm *comm[ZR_GROUPS];
    int64_t bytes[ZR_GROUPS];
    int n = 0;
    for (int32_t g = 0; g < ZR_GROUPS; g++) {
        const int64_t wanted = plan->staging[g] == ZR_NONE ? 0 : plan->persistent[plan->staging[g]].bytes;
        if (wanted == 0 || e->group_comm[g]->staging_bytes >= wanted) continue;
        comm[n] = e->group_comm[g];
        bytes[n++] = wanted;
    }
    return zr__comm_room(e->comm, comm, bytes, n);
}

/* Allocate the staging memory. All ranks agree on the status of each collective call. Otherwise ranks of a group
 * without room would return, and the other ranks would wait for them. Engines with the same communicator share its
 * staging memory. */
static zr_status take_staging(zr_engine *e)
{
    const zr_plan *plan = e->plan;
    _Static_assert(ZR_STAGING_LEAST >= ZR_COMM_STAGING_LEAST, "the plan gives comm what it wants at least");
    ZR_TRY(check_room(e));
    for (int32_t g = 0; g < ZR_GROUPS; g++) {
        zr_comm *comm = e->group_comm[g];
        if (!comm) continue;
        const int64_t bytes = plan->staging[g] == ZR_NONE ? 0 : plan->persistent[plan->staging[g]].bytes;
        const bool enough = comm->staging_bytes >= bytes;
        void *staging = NULL;
        ZR_TRY(zr_comm_agree(e->comm, enough ? ZR_OK : zr_comm_staging(comm, bytes, &staging)));
        e->taken_bytes[ZR_SPACE_STAGING] += enough ? bytes : comm->staging_taken_bytes;
    }
    return ZR_OK;
}

/* Return the route of the channel of a step SEND or RECV. A role's peer in another role is the rank that has the same
 * place on all other axes. The id contains the number of the engine, so that no two engines of the communicator share a
 * channel. All ranks create their engines in the same order. */
static zr__route route_of(const zr_engine *e, zr_schedule_kind kind, const zr_step *step)
{
    const zr_plan *plan = e->plan;
    const zr_use *use = &plan->schedule[kind].use[step->uses];
    const int me = e->comm->rank, first = me - zr__plan_member(plan, ZR_GROUP_PIPELINE, e->place[ZR_GROUP_PIPELINE]),
              peer = first + zr__plan_member(plan, ZR_GROUP_PIPELINE, step->peer);
    const bool sends = step->kind == ZR_STEP_SEND;
    return (zr__route){.from = sends ? me : peer,
                       .to = sends ? peer : me,
                       .walk = kind,
                       .id = e->comm->engines << 36 | (uint64_t)kind << 32 | (uint32_t)step->value,
                       .bytes = zr_dtype_span(use->dtype, use->range.count),
                       .depth = (int)step->rounds};
}

/* Open this rank's ends of all channels to other roles. */
static zr_status open_channels(zr_engine *e)
{
    for (int k = 0; k < ZR_SCHEDULES; k++) {
        const zr_schedule *s = &e->plan->schedule[k];
        e->channel[k] = zr_alloc(sizeof(zr__channel *) * (size_t)(s->n_channels + 1));
        ZR_CHECK(e->channel[k], ZR_ERR_MEMORY, "no memory for %d channels", s->n_channels);
        for (int32_t i = 0; i < s->n_steps; i++) {
            const zr_step *step = &s->step[i];
            if (step->channel < 0 || e->channel[k][step->channel]) continue;
            const zr__route route = route_of(e, (zr_schedule_kind)k, step);
            const zr_comm_copier copier = copier_of(e, step->stream);
            ZR_TRY(zr__comm_channel(e->comm, e->mail, &route, e->device->profile.facts.own_memory ? &copier : NULL,
                                    &e->channel[k][step->channel]));
        }
    }
    return ZR_OK;
}

static zr_status take_channels(zr_engine *e)
{
    _Static_assert(ZR__MESSAGES_HEAD == ZR__MAILBOX_HEAD, "the plan counts the heads of mailboxes");
    if (e->plan->group[ZR_GROUP_PIPELINE].size == 1) return ZR_OK;
    int64_t bytes = 0;
    ZR_TRY(zr_comm_agree(e->comm, zr__messages_bytes(e->plan, &bytes)));
    ZR_TRY(zr__comm_mail(e->comm, bytes, &e->mail));
    e->taken_bytes[ZR_SPACE_STAGING] += zr__mail_taken(e->mail);
    zr__ledger_take(&e->ledger[ZR_SPACE_STAGING], ZR_CATEGORY_BUFFER, zr__mail_taken(e->mail));
    const zr_status st = zr_comm_agree(e->comm, open_channels(e));
    e->comm->engines++;
    ZR_TRY(st);
    return e->in_stream ? zr__comm_connect(e->mail, e->memory[ZR_SPACE_DEVICE]) : ZR_OK;
}

/* Check that each device that runs updates has the optimizer's rule, and that each device that runs SQUARE_UPDATE can
 * compute its direction (zr_optimizer.direction). */
static zr_status check_rule(const zr_engine *e)
{
    const zr_plan *plan = e->plan;
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    zr_device *checked[3] = {NULL}; /* updates, updates of orthogonal units, and squares */
    for (int32_t i = 0; i < s->n_steps; i++) {
        zr_device *device = e->queue[s->step[i].stream]->device;
        const bool squares = s->step[i].kind == ZR_STEP_SQUARE_UPDATE;
        if (s->step[i].kind != ZR_STEP_UPDATE && !squares) continue;
        const zr_plan_unit *unit = &plan->unit[s->step[i].unit];
        const zr_optimizer *optimizer = zr_plan_optimizer(plan, unit);
        const int which = squares ? 2 : unit->orthogonal;
        if (device == checked[which]) continue;
        const zr_update_args nothing = {.grad_dtype = ZR_F32, .hyper = optimizer->hyper};
        zr_trust trust = {{.bad = -1}, {.bad = -1}};
        if (squares)
            ZR_TRY(device->ops->square_update(device, optimizer, &nothing, false, 0, &trust));
        else
            ZR_TRY(device->ops->update(device, optimizer, &nothing));
        checked[which] = device;
    }
    return ZR_OK;
}

static zr_status prepare_engine(zr_engine *e)
{
    const zr_plan *plan = e->plan;
    ZR_TRY(check_rule(e));
    for (int32_t b = 0; b < plan->n_persistent; b++) {
        const zr_buffer *buffer = &plan->persistent[b];
        const zr_category c = buffer->category;
        zr__ledger_take(&e->ledger[buffer->space], c, buffer->bytes);
        bool state = c == ZR_CATEGORY_PARAM || c == ZR_CATEGORY_GRAD || c == ZR_CATEGORY_OPTIM;
        if (state && buffer->space == ZR_SPACE_DEVICE) e->states_bytes += buffer->bytes;
    }
    for (int k = 0; k < ZR_SCHEDULES; k++) ZR_TRY(zr__bind(e, (zr_schedule_kind)k));
    return zr__ortho_bind(e);
}

/* Read the environment variable ZR_DEBUG_SYNC. */
static zr_status ask_sync(zr_engine *e)
{
    const char *asked = getenv("ZR_DEBUG_SYNC");
    if (!asked || !*asked) return ZR_OK;
    ZR_CHECK(strcmp(asked, "0") == 0 || strcmp(asked, "1") == 0, ZR_ERR_CONFIG,
             "ZR_DEBUG_SYNC is \"%s\"; expected 1 (wait for the device behind each step) or 0", ZR_SHOWN(asked));
    e->debug_sync = *asked == '1';
    return ZR_OK;
}

/* Check that the plan is for this rank's device and for the ranks of `comm`. */
static zr_status check_plan(const zr_plan *plan, const zr_device *device, const zr_comm *comm)
{
    ZR_CHECK(plan->ranks == comm->size, ZR_ERR_CONFIG, "the plan is for %d ranks, the communicator has %d", plan->ranks,
             comm->size);
    ZR_CHECK(zr__plan_is_for(plan, comm->rank), ZR_ERR_CONFIG,
             "the plan is not for the role of rank %d: it has role %d", comm->rank,
             zr__plan_place(plan, ZR_GROUP_PIPELINE, comm->rank));
    ZR_CHECK(zr__device_facts_same(&plan->profile.facts, &device->profile.facts), ZR_ERR_CONFIG,
             "the plan was made for \"%s\", the device is \"%s\": plan with the device's profile",
             plan->profile.facts.name, device->profile.facts.name);
    return ZR_OK;
}

zr_status zr_engine_create(const zr_plan *plan, zr_device *device, zr_comm *comm, uint64_t seed, zr_engine **engine)
{
    return zr_engine_create_on(plan, device, comm, seed, NULL, 0, engine);
}

zr_status zr_engine_create_on(const zr_plan *plan, zr_device *device, zr_comm *comm, uint64_t seed,
                              const char *const *folder, int n_folders, zr_engine **engine)
{
    ZR_CHECK(plan && device && comm && engine, ZR_ERR_ARG, "zr_engine_create: a NULL argument");
    zr_engine *e = zr_alloc(sizeof *e);
    zr_status st = e ? ZR_OK : ZR_FAIL(ZR_ERR_MEMORY, "no memory for an engine");
    if (e) {
        e->plan = plan;
        e->device = device;
        e->comm = comm;
        e->runtime.seed = seed;
        e->runtime.place = zr__plan_place(plan, ZR_GROUP_TENSOR, comm->rank);
        e->repeats =
            zr__plan_place(plan, ZR_GROUP_ALL & ~(ZR_GROUP_DATA | ZR_GROUP_TENSOR | ZR_GROUP_PIPELINE), comm->rank) > 0;
        st = check_plan(plan, device, comm);
        if (st == ZR_OK) st = ask_sync(e);
        if (st == ZR_OK) st = take_memory(e);
        if (st == ZR_OK) st = zr__disk_create(e, folder, n_folders);
        if (st == ZR_OK) st = take_queues(e);
    }
    st = zr_comm_agree(comm, st);
    if (st == ZR_OK) st = take_comms(e);
    if (st == ZR_OK) st = take_copies(e);
    if (st == ZR_OK) st = take_staging(e);
    if (st == ZR_OK) st = take_channels(e);
    if (st == ZR_OK) st = reach_peers(e);
    if (st == ZR_OK) st = zr_comm_agree(comm, prepare_engine(e));
    if (st == ZR_OK) st = zr_comm_agree(comm, zr__make_first_calls(e));
    if (st != ZR_OK) {
        zr_engine_destroy(&e);
        return zr_error_frame(st, __func__, __FILE__, __LINE__);
    }
    *engine = e;
    return ZR_OK;
}

void zr_engine_destroy(zr_engine **engine)
{
    if (!engine || !*engine) return;
    zr_engine *e = *engine;
    const zr_device_ops *ops = e->device->ops;
    zr__failure cause = {0};
    e->saving.gone = true;
    zr__failure_note(&cause, ZR_ERR_INTERNAL); /* the last failure may be why the engine is destroyed */
    /* Cancel all queues before waiting for any queue, since queues may wait for each other. */
    for (int pass = 0; pass < 3; pass++)
        for (int s = 0; s < ZR_STREAMS; s++) {
            if (e->queues.of[s] != s || !e->queue[s]) continue;
            if (pass == 0) ops->cancel(e->queue[s]);
            /* Keep the message of the first failure, since every later call to a GPU with a fault fails too. */
            if (pass == 1 && ops->sync(e->queue[s]) != ZR_OK) (void)!zr__failure_tell(&cause);
            if (pass == 2) ops->queue_destroy(e->queue[s]);
        }
    for (int k = 0; k < ZR_SCHEDULES; k++) zr__unbind(&e->bound[k]);
    zr__ortho_unbind(e);
    for (int k = 0; k < ZR_SCHEDULES; k++) {
        for (int32_t c = 0; e->channel[k] && c < e->plan->schedule[k].n_channels; c++)
            zr__channel_close(e->channel[k][c]);
        zr_free(e->channel[k]);
    }
    zr__comm_end_mail(&e->mail);
    zr__store_destroy(&e->store); /* no queue uses it any more */
    /* Do not free memory that an aborted collective may still read or write. The collective may go on until the process
     * or MPI ends. */
    bool in_use = e->stopped && (e->comm->concurrent || !zr__engine_serial(e));
    if (e->device->profile.facts.own_memory) (void)!zr__comm_copy_with(e->comm, NULL);
    for (int32_t g = 0; g < ZR_GROUPS; g++)
        if (e->group_comm[g] != e->comm) zr_comm_destroy(&e->group_comm[g]);
    if (e->block[ZR_SPACE_DEVICE] && !in_use) ops->free(e->device, e->block[ZR_SPACE_DEVICE]);
    if (e->block[ZR_SPACE_HOST] && !in_use) ops->free_host(e->device, e->block[ZR_SPACE_HOST]);
    if (e->failed) (void)!zr__failure_tell(&cause); /* NCCL's end on a rank that has stopped is another failure */
    zr_free(e);
    *engine = NULL;
}

/* Add the current traffic counts of all communicators, and the counts of copies, to e->moved if `sign` is 1. Subtract
 * them if it is -1. */
static void count_traffic(zr_engine *e, int sign)
{
    for (int from = 0; from < ZR_SPACES; from++)
        for (int to = 0; to < ZR_SPACES; to++) e->moved.copied[from][to] += sign * e->copied[from][to];
    for (int32_t g = 0; g < ZR_GROUPS; g++)
        for (int k = 0; k < ZR_TRAFFIC_KINDS && e->group_comm[g]; k++) {
            const int64_t bytes = e->group_comm[g]->traffic.bytes[k];
            /* All-reduces exchange scalars among all ranks, or those of a role (TRUST), even if g is TENSOR: this group
             * may have their communicator. */
            const int32_t asked = e->group_comm[g] == e->comm ? ZR_GROUP_ALL : ZR_GROUP_ALL & ~ZR_GROUP_PIPELINE,
                          group = k == ZR_TRAFFIC_ALL_REDUCE ? asked : g;
            e->moved.traffic.bytes[k] += sign * bytes;
            for (int b = 0; b < ZR_BORDERS && k != ZR_TRAFFIC_PIPELINE; b++)
                e->moved.across[b].bytes[k] +=
                    sign * zr__plan_across(e->plan, group, (zr_border)b, e->comm->rank, bytes);
        }
    for (int b = 0; b < ZR_BORDERS; b++) e->moved.across[b].bytes[ZR_TRAFFIC_PIPELINE] += sign * e->messages_across[b];
}

/* Walk through a schedule and count its traffic. If the walk fails, restore the counts. */
static zr_status walk_counted(zr_engine *e, zr_schedule_kind kind)
{
    const zr__moved before = e->moved;
    count_traffic(e, -1);
    zr_status st = zr__walk(e, kind);
    count_traffic(e, 1);
    if (st != ZR_OK) e->moved = before;
    return st;
}

/* Count the traffic of the schedule FLUSH, for a failed walk that has done the same. */
static void count_flush(zr_engine *e)
{
    const zr_schedule *s = &e->plan->schedule[ZR_SCHEDULE_FLUSH];
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        const zr_use *use = &s->use[step->uses];
        const int64_t bytes = zr__wire_bytes(e->plan, s, step);
        const zr_traffic_kind kind = zr_step_traits_of(step->kind).traffic;
        if (step->kind == ZR_STEP_COPY)
            e->moved.copied[s->buffer[use[0].buffer].space][s->buffer[use[1].buffer].space] +=
                zr_dtype_span(use->dtype, use->range.count);
        if (bytes == 0) continue;
        e->moved.traffic.bytes[kind] += bytes;
        for (int b = 0; b < ZR_BORDERS; b++)
            e->moved.across[b].bytes[kind] +=
                step->channel < 0 ? zr__plan_across(e->plan, step->group, (zr_border)b, e->comm->rank, bytes)
                                  : zr__plan_peer_beyond(e->plan, e->comm->rank, step->peer, (zr_border)b) * bytes;
    }
}

/* Clear the sums to which LOSS adds, and return them, one for each term. */
static zr_exact *clear_loss(zr_engine *e)
{
    zr_exact *loss = zr__result(e, e->plan->loss);
    memset(loss, 0, sizeof *loss * (size_t)e->plan->terms);
    return loss;
}

zr_status zr_engine_flush(zr_engine *e)
{
    if (!e->stale) return ZR_OK;
    e->stale = false;
    return e->bound[ZR_SCHEDULE_FLUSH].schedule ? walk_counted(e, ZR_SCHEDULE_FLUSH) : ZR_OK;
}

zr_status zr__gather_anew(zr_engine *e)
{
    const bool fill = e->bound[ZR_SCHEDULE_FILL].schedule;
    const zr__moved before = e->moved; /* traffic at start-up does not count as a training step's traffic */
    e->stale = !fill;
    ZR_TRY(fill ? walk_counted(e, ZR_SCHEDULE_FILL) : zr_engine_flush(e));
    e->moved = before;
    return ZR_OK;
}

static zr_status begin_step(zr_engine *e, const zr_step_args *args)
{
    e->scale = args->loss_scale > 0 ? args->loss_scale : 1;
    e->step = args;
    e->batch_fn = args->batch;
    e->batch_arg = args->arg;
    e->batch.step = e->runtime.step = args->step;
    e->runtime.loss_seed[0] =
        (float)(1.0 / e->plan->losses[0] * e->scale); /* with several terms, COUNT sets the seeds */
    memset(e->counted, 0, sizeof e->counted);
    e->per_counted = 1;
    clear_loss(e);
    *(zr_verdict *)zr__result(e, e->plan->verdict) = (zr_verdict){.bad_param = -1, .skipped = e->probing};
    e->updated = 0;
    return zr__count_ahead(e);
}

static zr_step_result result_of(const zr_engine *e)
{
    const zr_verdict *v = zr__result(e, e->plan->verdict);
    zr_step_result result = {.loss = v->loss,
                             .grad_norm = v->grad_norm,
                             .skipped = v->skipped,
                             .bad_param = v->bad_param,
                             .micro_square = v->micro_square};
    for (int t = 0; t < e->plan->terms; t++) {
        result.term[t] = (zr_term_result){v->term[t], v->counted[t]};
        result.counted += v->counted[t];
    }
    return result;
}

static zr_status check_step_args(const zr_engine *e, const zr_step_args *args, const zr_step_result *result)
{
    const zr_plan *plan = e->plan;
    ZR_CHECK(plan->graph[ZR_SCHEDULE_TRAIN], ZR_ERR_STATE, "the plan has no training schedule: set zr_layout.train");
    ZR_CHECK(args && args->batch && result, ZR_ERR_ARG, "zr_engine_step: a NULL argument");
    ZR_CHECK(args->clip >= 0, ZR_ERR_ARG, "clipping to %g: wanted 0 (none) or a positive norm", args->clip);
    ZR_CHECK(args->loss_scale == 0 || args->loss_scale >= FLT_MIN, ZR_ERR_ARG,
             "a loss scale of %g: wanted 0 (none), or at least %g, by which gradients can be divided", args->loss_scale,
             FLT_MIN);
    ZR_CHECK(args->clip == 0 || plan->norm_first, ZR_ERR_STATE,
             "clipping to %g with a plan that updates before the norm is known: set zr_layout.norm_first", args->clip);
    return ZR_OK;
}

/* Return the failure of this rank's batch function, or else the walk's status. Other ranks only see a loss that is not
 * finite. */
static zr_status batch_failure(const zr_engine *e, zr_status walked)
{
    if (e->batch_failed.status == ZR_OK || (walked != ZR_OK && walked != ZR_ERR_DIVERGED)) return walked;
    return zr__failure_tell(&e->batch_failed);
}

zr_status zr_engine_step(zr_engine *e, const zr_step_args *args, zr_step_result *result)
{
    ZR_TRY(check_step_args(e, args, result));
    if (e->saving.cut) ZR_TRY(zr__lone(e, zr__save_drain(e)));
    if (!e->saving.prepared) ZR_TRY(zr__lone(e, zr__save_prepare(e)));
    ZR_TRY(begin_step(e, args));
    e->refresh = e->stale;
    e->saving.now = e->saving.left > 0 && e->saving.next == 0;
    /* true even if the optimizer step will be skipped, so that every training step moves the same bytes */
    e->stale = true;
    zr_status st = walk_counted(e, ZR_SCHEDULE_TRAIN);
    e->saving.cut = e->saving.now && st != ZR_OK;
    e->saving.now = false;
    /* Whether the training step failed before it updated anything. Parameters are up to date then: no step ends in this
     * way before its first round has brought them up to date. */
    const bool whole = (st == ZR_ERR_STOPPED || st == ZR_ERR_DIVERGED) && e->updated == 0;
    if (whole) e->stale = false;
    if (whole && e->refresh) count_flush(e);
    *result = result_of(e);
    if (st == ZR_OK && !result->skipped) e->updates++;
    /* a step that was asked to stop has cast no gradient */
    for (int i = 0; i < ZR_ERROR_LEVELS && st != ZR_ERR_STOPPED; i++)
        e->error_kept[i] = st == ZR_OK && !result->skipped;
    if (st == ZR_OK) e->steps++;
    if (st != ZR_OK) result->skipped = whole;
    return batch_failure(e, st);
}

int64_t zr_engine_updates(const zr_engine *e)
{
    return e->updates;
}

zr_status zr_engine_resume(zr_engine *e, int64_t updates)
{
    ZR_CHECK(updates >= 0, ZR_ERR_ARG, "zr_engine_resume: %lld updates; wanted 0 or more", (long long)updates);
    ZR_CHECK(e->steps == 0, ZR_ERR_STATE, "zr_engine_resume must be called before the first step; %lld steps are done",
             (long long)e->steps);
    e->updates = updates;
    return e->plan->stochastic ? zr__gather_anew(e) : ZR_OK; /* the number of updates decides how they round */
}

zr_status zr__engine_probe(zr_engine *e, const zr_step_args *args, zr_step_result *result)
{
    ZR_TRY(check_step_args(e, args, result));
    ZR_TRY(zr_engine_flush(e));
    e->probing = true;
    e->refresh = false;
    zr_status st = begin_step(e, args);
    if (st == ZR_OK) st = zr__walk(e, ZR_SCHEDULE_TRAIN);
    e->probing = false;
    *result = result_of(e);
    return batch_failure(e, st);
}

zr_status zr_engine_eval(zr_engine *e, const zr_batch *batch, zr_batch_fn fn, void *arg, zr_exact *sum)
{
    ZR_CHECK(e->bound[ZR_SCHEDULE_EVAL].schedule, ZR_ERR_STATE,
             "the plan has no evaluation schedule: set zr_layout.eval");
    ZR_CHECK(batch && fn && sum, ZR_ERR_ARG, "zr_engine_eval: a NULL argument");
    ZR_TRY(zr_engine_flush(e));
    e->batch = *batch;
    e->batch_fn = fn;
    e->batch_arg = arg;
    e->runtime.step = batch->step;
    zr_exact *loss = clear_loss(e);
    ZR_TRY(batch_failure(e, zr__walk(e, ZR_SCHEDULE_EVAL)));
    for (int t = 0; t < e->plan->terms; t++) zr__exact_merge(&sum[t], &loss[t]);
    return ZR_OK;
}

/* Write the token into the only input of a decode graph. */
static zr_status give_token(void *arg, const zr_batch *batch, void *const *input)
{
    (void)batch;
    *(int32_t *)input[0] = *(const int32_t *)arg;
    return ZR_OK;
}

zr_status zr_engine_decode(zr_engine *e, int32_t token, int64_t position, zr_tensor *output)
{
    const zr_plan *plan = e->plan;
    ZR_CHECK(e->bound[ZR_SCHEDULE_DECODE].schedule, ZR_ERR_STATE,
             "the plan has no decode schedule: set zr_layout.decode_len");
    ZR_CHECK(position >= 0 && position < plan->decode_len, ZR_ERR_ARG, "position %lld outside the cache of %lld tokens",
             (long long)position, (long long)plan->decode_len);
    ZR_TRY(zr_engine_flush(e));
    e->runtime.position = position;
    e->batch_fn = give_token;
    e->batch_arg = &token;
    zr_status st = zr__walk(e, ZR_SCHEDULE_DECODE);
    e->runtime.position = 0;
    ZR_TRY(st);
    const zr_graph *g = plan->graph[ZR_SCHEDULE_DECODE];
    const zr_type *type = &zr_graph_value(g, zr_graph_get_output(g))->type;
    *output = (zr_tensor){zr__result(e, plan->output), type->dtype, type->shape};
    return ZR_OK;
}

/* Arguments of a task that copies a value to host memory. */
typedef struct reading {
    const char *from;
    void *to;
    int64_t bytes;
} reading;

static zr_status read_value(void *arg, zr_device *device, int64_t index)
{
    (void)index;
    const reading *r = arg;
    return device->ops->copy(device, r->to, r->from, r->bytes);
}

typedef struct extent {
    zr_space space;
    int64_t begin, end;
} extent;

static extent extent_of(const zr_schedule *s, const zr_use *use)
{
    const zr_buffer *b = &s->buffer[use->buffer];
    const int64_t begin = b->offset + zr_dtype_span(use->dtype, use->range.first);
    return (extent){b->space, begin, begin + zr_dtype_span(use->dtype, use->range.count)};
}

static bool overlaps(const extent *a, const extent *b)
{
    return a->space == b->space && a->begin < b->end && b->begin < a->end;
}

/* Return whether the value's bytes have been overwritten: by a later buffer that shares the bytes, or by a later value
 * in the same buffer. */
static bool is_taken_over(const zr_schedule *s, const zr_graph *g, zr_value value)
{
    const zr_use *use = &s->value[value];
    const extent own = extent_of(s, use);
    for (int32_t i = 0; i < s->n_buffers; i++) {
        const zr_buffer *b = &s->buffer[i];
        const extent its = {b->space, b->offset, b->offset + b->bytes};
        if (i != use->buffer && b->first_step > s->buffer[use->buffer].first_step && overlaps(&own, &its)) return true;
    }
    for (zr_value v = 0; v < zr_graph_values(g); v++) {
        if (v == value || s->value[v].buffer != use->buffer) continue;
        const extent its = extent_of(s, &s->value[v]);
        if (zr_graph_value(g, v)->producer > zr_graph_value(g, value)->producer && overlaps(&own, &its)) return true;
    }
    return false;
}

zr_status zr_engine_value(zr_engine *e, zr_schedule_kind kind, zr_value value, void *out)
{
    static const char *const walk[ZR_SCHEDULES] = {"zr_engine_step", "zr_engine_eval", "zr_engine_decode", "", ""};
    static const char *const name[ZR_SCHEDULES] = {"train", "eval", "decode", "flush", "fill"};
    ZR_CHECK((unsigned)kind < ZR_SCHEDULES, ZR_ERR_ARG, "no schedule %d", (int)kind);
    const zr_schedule *s = e->bound[kind].schedule;
    const zr_graph *g = e->plan->graph[kind];
    ZR_CHECK(s && g && value >= 0 && value < zr_graph_values(g), ZR_ERR_ARG,
             "no value %d in the plan's %s schedule; wanted one of its graph (zr_plan.graph), such as "
             "zr_graph_get_output gives where the model calls zr_graph_output",
             value, name[kind]);
    const zr_use *use = &s->value[value];
    ZR_CHECK(use->buffer != ZR_NONE, ZR_ERR_ARG,
             "value %d has no place of its own: it is a parameter (use zr_engine_read), or of an op that is not run",
             value);
    ZR_CHECK(e->walked && e->kind == kind, ZR_ERR_STATE,
             "value %d of the %s schedule has not been computed: call %s just before", value, name[kind], walk[kind]);
    ZR_CHECK(!is_taken_over(s, g, value), ZR_ERR_STATE,
             "value %d of the %s schedule is not there any more: later ones have its bytes; have the model name it "
             "(zr_graph_output), and it stays",
             value, name[kind]);
    reading r = {zr__use_at(e, s, use), out, zr_dtype_span(use->dtype, use->range.count)};
    return zr__call(e, read_value, &r);
}

void zr_engine_measured(const zr_engine *e, zr_measured *measured)
{
    memset(measured, 0, sizeof *measured);
    zr_memory *m = &measured->memory;
    for (int s = 0; s < ZR_SPACES; s++) {
        memcpy(m->space[s].category_bytes, e->ledger[s].peak_bytes, sizeof e->ledger[s].peak_bytes);
        m->space[s].total_bytes = e->taken_bytes[s];
    }
    m->states_bytes = e->states_bytes;
    zr__memory_sum(m);
    measured->traffic = e->moved.traffic;
    memcpy(measured->across, e->moved.across, sizeof measured->across);
    memcpy(measured->copied, e->moved.copied, sizeof measured->copied);
    measured->steps = e->steps;
}

bool zr__engine_serial(const zr_engine *e)
{
    return !zr_queues_apart(&e->queues, ZR_STREAM_COMM);
}

bool zr__engine_failed(const zr_engine *e)
{
    return e->failed;
}

void zr__engine_watch(zr_engine *e, zr__watch_fn fn, void *arg)
{
    e->watch = fn;
    e->watch_arg = arg;
}
