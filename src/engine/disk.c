/* Reads and writes the states of a rank that are on disk. COPY steps move buckets between disk and memory, as tasks of
 * their own queues. Between training steps, and in saves, states pass through a window in planned host memory:
 * consecutive elements are loaded into it, read or changed, and written back. */
#include "engine/walk.h"
#include "tensor/tensor.h"

#include <stdio.h>

/* ---- the store --------------------------------------------------------------------------------- */

/* Pin the range of memory that contains the buffers which the training schedule copies from and to disk. With small
 * pages, transfers then take less processor time. If the system refuses, transfers still work. */
static void pin_buffers(zr_engine *e)
{
    const zr_schedule *s = &e->plan->schedule[ZR_SCHEDULE_TRAIN];
    const zr_space space = e->plan->profile.facts.own_memory ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
    int64_t begin = INT64_MAX, end = 0;
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_use *use = &s->use[s->step[i].uses];
        for (int side = 0; side < 2 && s->step[i].kind == ZR_STEP_COPY; side++) {
            const zr_buffer *b = &s->buffer[use[side].buffer];
            if (s->buffer[use[!side].buffer].space != ZR_SPACE_DISK || b->space != space) continue;
            if (b->offset < begin) begin = b->offset;
            if (b->offset + b->bytes > end) end = b->offset + b->bytes;
        }
    }
    if (begin < end) (void)zr__store_pin(e->store, e->memory[space] + begin, end - begin);
}

zr_status zr__disk_create(zr_engine *e, const char *const *folder, int n_folders)
{
    const zr_plan *plan = e->plan;
    const int64_t bytes = plan->space_bytes[ZR_SPACE_DISK];
    if (bytes == 0) return ZR_OK;
    ZR_CHECK(folder && n_folders > 0, ZR_ERR_ARG,
             "the plan stores %lld bytes of each rank on disk, and no folder was given: call zr_engine_create_on with "
             "at least one folder",
             (long long)bytes);
    char owner[32];
    snprintf(owner, sizeof owner, "rank %d", e->comm->rank);
    const zr__store_config config = {.folder = folder,
                                     .n_folders = n_folders,
                                     .bytes = bytes,
                                     .block_bytes = plan->disk_block_bytes,
                                     .depth = plan->disk_depth,
                                     .passing = zr__result(e, plan->passing_disk),
                                     .owner = owner};
    ZR_TRY(zr__store_create(&config, &e->store));
    pin_buffers(e);
    e->taken_bytes[ZR_SPACE_DISK] = bytes;
    return ZR_OK;
}

/* Name a buffer on disk for messages, as in "optimizer states (fp32), state 2 of h.3". */
static const char *name_buffer(const zr_engine *e, const zr_buffer *buffer, char *text, size_t bytes)
{
    const zr_plan_unit *u = buffer->unit >= 0 ? &e->plan->unit[buffer->unit] : NULL;
    int slot = -1;
    for (int s = 0; u && s < u->n_slots; s++)
        if (u->slot[s].buffer != ZR_NONE && &e->plan->persistent[u->slot[s].buffer] == buffer) slot = s;
    const zr_graph *g = zr__any_graph(e->plan);
    const char *unit = u ? zr_graph_unit_info(g, buffer->unit)->name : NULL;
    char number[32] = "";
    if (slot >= 0) snprintf(number, sizeof number, ", state %d", slot + 1);
    snprintf(text, bytes, "%s%s%s%s", buffer->what, number, unit ? " of " : "", unit ? unit : "");
    return text;
}

enum { NAME_BYTES = ZR_NAME_MAX + 96 };

/* Read from the store. Several queues may read at the same time: the queue of FETCH, the queue of SAVE and, between
 * walks, the computing queue. */
static zr_status read_disk(zr_engine *e, const zr_buffer *buffer, int64_t at_byte, void *to, int64_t bytes)
{
    char name[NAME_BYTES];
    return zr__store_read(e->store, buffer->offset + at_byte, to, bytes, name_buffer(e, buffer, name, sizeof name));
}

static zr_status write_disk(zr_engine *e, const zr_buffer *buffer, int64_t at_byte, const void *from, int64_t bytes)
{
    char name[NAME_BYTES];
    return zr__store_write(e->store, buffer->offset + at_byte, from, bytes, name_buffer(e, buffer, name, sizeof name));
}

zr_status zr__disk_copy(const zr__running *r)
{
    const zr_schedule *s = r->bound->schedule;
    const zr_use *from = &r->use[0], *to = &r->use[1];
    const bool reads = s->buffer[from->buffer].space == ZR_SPACE_DISK;
    const zr_use *away = reads ? from : to;
    const zr_buffer *buffer = &s->buffer[away->buffer];
    const int64_t at = zr_dtype_span(away->dtype, zr__first(r->engine, &away->range)),
                  bytes = zr_dtype_span(from->dtype, from->range.count);
    return reads ? read_disk(r->engine, buffer, at, zr__at(r, 1), bytes)
                 : write_disk(r->engine, buffer, at, zr__at(r, 0), bytes);
}

/* ---- windows ----------------------------------------------------------------------------------- */

static bool is_on_disk(const zr_engine *e, const zr_state *state)
{
    return state->buffer != ZR_NONE && e->plan->persistent[state->buffer].space == ZR_SPACE_DISK;
}

zr__window zr__window_of(const zr_engine *e, zr_plan_window which)
{
    const zr_plan *plan = e->plan;
    if (plan->windows == ZR_NONE) return (zr__window){0};
    return (zr__window){.memory = (char *)zr__result(e, plan->windows) + which * plan->window_bytes,
                        .bytes = plan->window_bytes};
}

/* Return how many elements of a type fit into a window. If a state has more elements, the next window must begin at a
 * block of the disk. */
static int64_t room_of(const zr__window *w, zr_dtype dtype)
{
    const int64_t grain = zr__dtype_grain(dtype), elems = w->bytes / zr_dtype_bytes(dtype) * grain,
                  blocks = ZR_DISK_ALIGN / 2 * grain;
    return grain > 1 && elems > blocks ? elems - elems % blocks : elems;
}

int64_t zr__window_meet(const zr_engine *e, const zr__window *w, const zr_state *state, int64_t element, int64_t n)
{
    if (!is_on_disk(e, state)) return n;
    const int64_t room = room_of(w, state->dtype), left = room - (element - zr__first(e, &state->range)) % room;
    return n < left ? n : left;
}

static int64_t window_byte(const zr__window *w)
{
    return zr_dtype_span(w->state->dtype, w->first);
}

zr_status zr__window_close(zr_engine *e, zr__window *w)
{
    if (!w->changed) return ZR_OK;
    w->changed = false;
    return write_disk(e, &e->plan->persistent[w->state->buffer], window_byte(w), w->memory,
                      zr_dtype_span(w->state->dtype, w->count));
}

zr_status zr__window_open(zr_engine *e, zr__window *w, const zr_state *state, int64_t element, bool changes, char **at)
{
    const int64_t index = element - zr__first(e, &state->range);
    if (!is_on_disk(e, state)) {
        *at = zr__buffer(e, &e->plan->persistent[state->buffer]) + zr_dtype_span(state->dtype, index);
        return ZR_OK;
    }
    const int64_t room = room_of(w, state->dtype);
    const int64_t first = index / room * room;
    if (w->state != state || w->first != first) {
        const int64_t left = state->range.count - first;
        ZR_TRY(zr__window_close(e, w));
        *w = (zr__window){.memory = w->memory, .bytes = w->bytes};
        ZR_TRY(read_disk(e, &e->plan->persistent[state->buffer], zr_dtype_span(state->dtype, first), w->memory,
                         zr_dtype_span(state->dtype, left < room ? left : room)));
        w->state = state;
        w->first = first;
        w->count = left < room ? left : room;
    }
    w->changed |= changes;
    *at = w->memory + zr_dtype_span(state->dtype, index - first);
    return ZR_OK;
}

const char *zr__engine_transfers(const zr_engine *engine, bool *direct)
{
    if (!engine->store) return NULL;
    const zr__store_facts facts = zr__store_facts_of(engine->store);
    *direct = facts.direct;
    return facts.transfers;
}
