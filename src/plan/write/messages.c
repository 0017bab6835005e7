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

/* Write SENT for a message of a channel. */
static void write_sent(zr__writing *w, const zr__channel *c, int32_t message)
{
    const int32_t unit = zr_graph_value(w->list.graph, c->value)->unit, at = message % ZR_CHANNEL_DEPTH;
    zr_step *made = message_step(w, ZR_STEP_SENT, ZR_STREAM_SEND, unit, c->value, c->peer, c->sent[at]);
    made->micro = c->micro[at];
}

static zr__channel *find_channel(zr__writing *w, zr_value value, int32_t peer)
{
    for (int32_t i = 0; i < w->n_channels; i++)
        if (w->channel[i].value == value && w->channel[i].peer == peer) return &w->channel[i];
    if (!zr__grow(&w->list.status, (void **)&w->channel, w->n_channels, &w->channel_room, sizeof *w->channel))
        return NULL;
    w->channel[w->n_channels] = (zr__channel){.value = value, .peer = peer};
    return &w->channel[w->n_channels++];
}

void zr__write_send(zr__writing *w, const zr__run_of *of)
{
    zr__channel *c = find_channel(w, of->value, of->peer);
    const zr_use use = zr__place_input(w, of->value);
    if (!c) return;
    if (c->n >= ZR_CHANNEL_DEPTH) write_sent(w, c, c->n);
    (void)message_step(w, ZR_STEP_SEND, ZR_STREAM_SEND, of->unit, of->value, of->peer, use);
    c->sent[c->n % ZR_CHANNEL_DEPTH] = use;
    c->micro[c->n++ % ZR_CHANNEL_DEPTH] = w->list.micro;
}

zr_use zr__write_receive(zr__writing *w, int32_t run)
{
    zr__list *l = &w->list;
    const zr__run_of *of = &w->decided.program.run[run];
    const bool kept = w->decided.checkpoint[w->decided.made[run]];
    zr_use use = zr__use_value(l->graph, of->value, ZR_NONE, false, true);
    use.buffer = zr__list_buffer(l, ZR_SPACE_DEVICE, kept ? ZR_CATEGORY_CHECKPOINT : ZR_CATEGORY_ACT, of->unit,
                                 "received", zr_dtype_span(use.dtype, use.range.count));
    (void)message_step(w, ZR_STEP_RECV, ZR_STREAM_RECV, of->unit, of->value, of->peer, use);
    zr__list_pace(l, l->newest, w->ended[l->plan->layout.overlap]);
    (void)message_step(w, ZR_STEP_RECEIVED, ZR_STREAM_RECV, of->unit, of->value, of->peer, use);
    return use;
}

void zr__write_all_sent(zr__writing *w)
{
    for (int32_t i = 0; i < w->n_channels; i++) {
        const zr__channel *c = &w->channel[i];
        for (int32_t m = c->n > ZR_CHANNEL_DEPTH ? c->n - ZR_CHANNEL_DEPTH : 0; m < c->n; m++) write_sent(w, c, m);
    }
}
