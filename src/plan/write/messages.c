/* Writes the steps with which roles pass values to each other. Each value and receiving role has a channel, whose
 * messages have the order of the micro-batches. A unit that several roles hold has a channel from its owner to each of
 * the others, with one message: the part that a rank has updated. */
#include "plan/write/write.h"

static zr_step *message_step(zr__writing *w, zr_step_kind kind, int32_t unit, int32_t channel, zr_use use)
{
    const zr__messages *c = &w->channel[channel];
    const zr_stream stream = c->sends ? ZR_STREAM_SEND : ZR_STREAM_RECV;
    zr__list_use(&w->list, zr__list_step(&w->list, kind, stream, unit), use);
    zr_step *made = zr__list_newest(&w->list);
    made->value = c->value;
    made->peer = c->peer;
    made->channel = channel;
    made->stage = c->stage;
    made->action = c->action;
    made->when = c->when;
    return made;
}

/* Add a channel with room for `messages` messages. Return its number, or -1 after a failure. */
static int32_t add_channel(zr__writing *w, const zr__messages *channel, int32_t messages)
{
    if (!zr__grow(&w->list.status, (void **)&w->channel, w->n_channels, &w->channel_room, sizeof *w->channel))
        return -1;
    zr__messages *made = &w->channel[w->n_channels++];
    *made = *channel;
    made->use = zr_alloc(sizeof *made->use * (size_t)messages);
    if (!made->use) w->list.status = ZR_FAIL(ZR_ERR_MEMORY, "no memory to plan %d messages", messages);
    return made->use ? w->n_channels - 1 : -1;
}

/* Return the number of the channel of a run SEND or RECV, or -1 after a failure. */
static int32_t find_channel(zr__writing *w, int32_t run)
{
    const zr__run_of *of = &w->decided.program.run[run];
    const bool sends = of->role == ZR__SEND;
    for (int32_t i = 0; i < w->n_channels; i++)
        if (w->channel[i].value == of->value && w->channel[i].peer == of->peer && w->channel[i].sends == sends)
            return i;
    const int32_t depth = w->decided.depth[run], micros = w->decided.n_micros;
    const zr__messages channel = {.value = of->value,
                                  .unit = zr_graph_value(w->list.graph, of->value)->unit,
                                  .peer = of->peer,
                                  .depth = depth > 0 ? depth : micros, /* 0: an evaluation, which no pipeline orders */
                                  .sends = sends,
                                  .stage = w->list.stage,
                                  .action = w->list.action};
    return add_channel(w, &channel, micros);
}

/* Write SENT for the oldest message of a channel that has none. A channel has one message for each
 * micro-batch, in ascending order. The next op waits for SENT too: otherwise no later step would wait for it, and the
 * message's bytes could not be used again. */
static void write_sent(zr__writing *w, int32_t channel)
{
    zr__messages *c = &w->channel[channel];
    zr_step *made = message_step(w, ZR_STEP_SENT, c->unit, channel, c->use[c->n_sent]);
    made->micro = c->n_sent++;
    w->sent = w->list.newest;
}

void zr__write_send(zr__writing *w, int32_t run)
{
    const zr__run_of *of = &w->decided.program.run[run];
    const zr_use use = zr__place_input(w, of->value);
    const int32_t channel = find_channel(w, run);
    if (channel < 0) return;
    zr__messages *c = &w->channel[channel];
    if (c->n - c->n_sent >= c->depth) write_sent(w, channel);
    c->use[c->n++] = use;
    message_step(w, ZR_STEP_SEND, of->unit, channel, use)->rounds = c->depth;
}

zr_use zr__write_receive(zr__writing *w, int32_t run)
{
    zr__list *l = &w->list;
    const zr__run_of *of = &w->decided.program.run[run];
    const bool kept = w->decided.checkpoint[w->decided.made[run]];
    const int32_t channel = find_channel(w, run);
    zr_use use = zr__use_value(l->graph, of->value, ZR_NONE, false, true);
    if (channel < 0) return use;
    use.buffer = zr__list_buffer(l, ZR_SPACE_DEVICE, kept ? ZR_CATEGORY_CHECKPOINT : ZR_CATEGORY_ACT, of->unit,
                                 "received", zr_dtype_span(use.dtype, use.range.count));
    message_step(w, ZR_STEP_RECV, of->unit, channel, use)->rounds = w->channel[channel].depth;
    /* Receive while the action before computes, but not earlier, so that at most one value more is in memory. */
    zr__list_pace(l, l->newest, w->acted[l->plan->layout.overlap]);
    (void)message_step(w, ZR_STEP_RECEIVED, of->unit, channel, use);
    return use;
}

void zr__write_all_sent(zr__writing *w, int32_t channels)
{
    for (int32_t i = 0; i < channels; i++)
        while (w->list.status == ZR_OK && w->channel[i].n_sent < w->channel[i].n) write_sent(w, i);
    w->list.schedule->n_channels = w->n_channels;
}

/* Write SEND of a unit's part, or RECV and RECEIVED, to or from another role. */
static void pass_part(zr__writing *w, int32_t unit, int32_t peer, bool sends, zr_use part, zr_when when)
{
    const zr_graph *g = w->list.plan->graph[ZR_SCHEDULE_TRAIN]; /* the schedule FLUSH has none */
    const zr_value first = zr_graph_param(g, zr_graph_unit_info(g, unit)->first_param)->value;
    const zr__messages c = {.value = first, .unit = unit, .peer = peer, .depth = 1, .sends = sends, .when = when};
    const int32_t channel = add_channel(w, &c, 1);
    if (channel < 0) return;
    message_step(w, sends ? ZR_STEP_SEND : ZR_STEP_RECV, unit, channel, part)->rounds = 1;
    if (!sends) message_step(w, ZR_STEP_RECEIVED, unit, channel, part);
    if (sends) w->channel[channel].use[w->channel[channel].n++] = part;
}

/* All SENDs come first, so that no two roles wait for each other. */
void zr__write_copies(zr__writing *w, zr_when when)
{
    const zr_plan *plan = w->list.plan;
    for (int receives = 0; receives < 2; receives++)
        for (int32_t i = 0; i < plan->n_units && w->list.status == ZR_OK; i++) {
            const zr_plan_unit *u = &plan->unit[i];
            const uint64_t others = u->trains ? u->roles & ~(UINT64_C(1) << plan->layout.role) : 0;
            if (receives && u->copied)
                pass_part(w, i, u->owner, false, zr__use_state(&u->param, u->update, false, true), when);
            if (receives || others == 0) continue;
            const zr_use part = zr__write_updated_part(&w->list, i, when);
            for (int32_t role = 0; role < plan->layout.pipeline; role++)
                if (others >> role & 1) pass_part(w, i, role, true, part, when);
        }
}

void zr__end_channels(zr__writing *w)
{
    for (int32_t i = 0; i < w->n_channels; i++) zr_free(w->channel[i].use);
    zr_free(w->channel);
}
