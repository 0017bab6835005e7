/* Writes the steps with which roles pass values to each other. Each value and receiving role has a channel, whose
 * messages have the order of the micro-batches. */
#include "plan/write/write.h"

static zr_step *message_step(zr__writing *w, zr_step_kind kind, zr_stream stream, int32_t unit, zr_value value,
                             int32_t peer, zr_use use)
{
    zr__list_use(&w->list, zr__list_step(&w->list, kind, stream, unit), use);
    zr_step *made = zr__list_newest(&w->list);
    made->value = value;
    made->peer = peer;
    return made;
}

/* Write SENT for the oldest message of a channel that has none. A channel's messages are those of the micro-batches 0,
 * 1,
 * ... */
static void write_sent(zr__writing *w, zr__messages *c)
{
    const int32_t unit = zr_graph_value(w->list.graph, c->value)->unit;
    zr_step *made = message_step(w, ZR_STEP_SENT, ZR_STREAM_SEND, unit, c->value, c->peer, c->use[c->n_sent]);
    made->micro = c->n_sent++;
}

/* Return the channel of a run SEND. */
static zr__messages *find_channel(zr__writing *w, int32_t run)
{
    const zr__run_of *of = &w->decided.program.run[run];
    for (int32_t i = 0; i < w->n_channels; i++)
        if (w->channel[i].value == of->value && w->channel[i].peer == of->peer) return &w->channel[i];
    if (!zr__grow(&w->list.status, (void **)&w->channel, w->n_channels, &w->channel_room, sizeof *w->channel))
        return NULL;
    zr__messages *made = &w->channel[w->n_channels++];
    *made = (zr__messages){.value = of->value, .peer = of->peer, .depth = w->decided.depth[run]};
    if (made->depth == 0) made->depth = w->decided.n_micros; /* no order of a pipeline: an evaluation */
    made->use = zr_alloc(sizeof *made->use * (size_t)w->decided.n_micros);
    if (!made->use) w->list.status = ZR_FAIL(ZR_ERR_MEMORY, "no memory to plan %d messages", w->decided.n_micros);
    return made->use ? made : NULL;
}

void zr__write_send(zr__writing *w, int32_t run)
{
    const zr__run_of *of = &w->decided.program.run[run];
    zr__messages *c = find_channel(w, run);
    if (!c) return;
    if (c->n >= c->depth) write_sent(w, c);
    c->use[c->n++] = zr__place_input(w, of->value);
    message_step(w, ZR_STEP_SEND, ZR_STREAM_SEND, of->unit, of->value, of->peer, c->use[c->n - 1])->rounds = c->depth;
}

zr_use zr__write_receive(zr__writing *w, int32_t run)
{
    zr__list *l = &w->list;
    const zr__run_of *of = &w->decided.program.run[run];
    const bool kept = w->decided.checkpoint[w->decided.made[run]];
    zr_use use = zr__use_value(l->graph, of->value, ZR_NONE, false, true);
    use.buffer = zr__list_buffer(l, ZR_SPACE_DEVICE, kept ? ZR_CATEGORY_CHECKPOINT : ZR_CATEGORY_ACT, of->unit,
                                 "received", zr_dtype_span(use.dtype, use.range.count));
    const int32_t depth = w->decided.depth[run] > 0 ? w->decided.depth[run] : w->decided.n_micros;
    message_step(w, ZR_STEP_RECV, ZR_STREAM_RECV, of->unit, of->value, of->peer, use)->rounds = depth;
    zr__list_pace(l, l->newest, w->ended[l->plan->layout.overlap]);
    (void)message_step(w, ZR_STEP_RECEIVED, ZR_STREAM_RECV, of->unit, of->value, of->peer, use);
    return use;
}

void zr__write_all_sent(zr__writing *w)
{
    for (int32_t i = 0; i < w->n_channels; i++)
        while (w->list.status == ZR_OK && w->channel[i].n_sent < w->channel[i].n) write_sent(w, &w->channel[i]);
}

void zr__end_channels(zr__writing *w)
{
    for (int32_t i = 0; i < w->n_channels; i++) zr_free(w->channel[i].use);
    zr_free(w->channel);
}
