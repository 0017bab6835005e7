/* Writes the lists of actions of pipeline schedules. A user's list is a row of a table (table.c). In all others each
 * stage runs each kind of action for the micro-batches 0, 1, ... in this order. A list is therefore a sequence of pairs
 * (kind, chunk), and the micro-batch of an action follows from how often its pair came before. */
#include "plan/program/pipeline.h"

#include <math.h>

zr__pipe zr__pipe_of(const zr_layout *l)
{
    /* without training there are no lists, and stages are where they would be without a table */
    const zr_pipe_table *table = l->pipeline_schedule == ZR_PIPELINE_TABLE && l->train ? l->pipeline_table : NULL;
    return (zr__pipe){l->pipeline_schedule, l->pipeline, l->chunks, (int32_t)l->accum, table};
}

bool zr__pipe_splits(const zr__pipe *p)
{
    bool splits = p->schedule == ZR_PIPELINE_ZB_H1 || p->schedule == ZR_PIPELINE_ZB_V;
    for (int32_t i = 0; p->table && i < p->table->rows * p->table->columns && !splits; i++)
        splits = p->table->cell[i].kind == ZR_PIPE_I;
    return splits;
}

int32_t zr__pipe_rank(const zr__pipe *p, int32_t stage)
{
    const zr_pipe_table *t = p->table;
    for (int32_t c = 0; t && c < t->columns; c++)
        for (int32_t r = 0; r < t->rows; r++) {
            const zr_pipe_action *cell = &t->cell[r * t->columns + c];
            if (cell->kind != ZR_PIPE_REST && cell->stage == stage) return r;
        }
    const bool back = p->schedule == ZR_PIPELINE_ZB_V && stage / p->ranks % 2 == 1;
    return back ? p->ranks - 1 - stage % p->ranks : stage % p->ranks;
}

int32_t zr__pipe_stage(const zr__pipe *p, int32_t rank, int32_t chunk)
{
    const bool back = p->schedule == ZR_PIPELINE_ZB_V && chunk % 2 == 1;
    return chunk * p->ranks + (back ? p->ranks - 1 - rank : rank);
}

/* Return whether a rank can have several chunks with a schedule. */
static bool has_chunks(zr_pipe_schedule schedule)
{
    return schedule == ZR_PIPELINE_INTERLEAVED || schedule == ZR_PIPELINE_BREADTH || schedule == ZR_PIPELINE_ZB_V;
}

int32_t zr__pipe_chunks(const zr_layout *l)
{
    const zr_pipe_table *table = l->pipeline_schedule == ZR_PIPELINE_TABLE ? l->pipeline_table : NULL;
    int32_t last = 0; /* stage of the table */
    if (l->pipeline == 1) return 1;
    if (!table) return has_chunks(l->pipeline_schedule) ? 2 : 1;
    for (int32_t i = 0; i < table->rows * table->columns; i++)
        if (table->cell[i].kind != ZR_PIPE_REST && table->cell[i].stage > last) last = table->cell[i].stage;
    return last / (l->pipeline > 0 ? l->pipeline : 1) + 1;
}

zr_status zr__pipe_check(const zr__pipe *p)
{
    if (p->schedule == ZR_PIPELINE_TABLE) return zr__pipe_check_table(p);
    ZR_CHECK(
        has_chunks(p->schedule) || p->chunks == 1, ZR_ERR_CONFIG,
        "parallel.chunks %d: this parallel.schedule has one chunk a rank; interleaved and breadth_first have several",
        p->chunks);
    ZR_CHECK(p->schedule != ZR_PIPELINE_INTERLEAVED || p->micros % p->ranks == 0, ZR_ERR_CONFIG,
             "parallel.schedule interleaved with gradient_accumulation_steps %d on %d pipeline ranks: the second "
             "(parallel.pipeline) must divide the first; breadth_first and 1f1b take any number",
             p->micros, p->ranks);
    ZR_CHECK(p->schedule != ZR_PIPELINE_ZB_V || p->chunks == 2, ZR_ERR_CONFIG,
             "parallel.schedule zb_v with parallel.chunks %d: it has 2 chunks a rank", p->chunks);
    ZR_CHECK(
        p->schedule != ZR_PIPELINE_ZB_V || p->micros >= 2 * p->ranks, ZR_ERR_CONFIG,
        "parallel.schedule zb_v with gradient_accumulation_steps %d on %d pipeline ranks: at least %d are needed, or "
        "parallel.schedule zb_h1",
        p->micros, p->ranks, 2 * p->ranks);
    return ZR_OK;
}

double zr__pipe_bubble(const zr__pipe *p)
{
    const bool splits = zr__pipe_splits(p),
               full = p->micros >= p->ranks || (p->schedule != ZR_PIPELINE_BREADTH && p->schedule != ZR_PIPELINE_ZB_H1);
    const double idle = (splits ? 1 : 3) * (p->ranks - 1), work = 3.0 * p->micros * p->chunks;
    return full && p->schedule != ZR_PIPELINE_TABLE ? idle / (work + idle) : NAN;
}

/* A list while it is written. */
typedef struct writing {
    const zr__pipe *pipe;
    int32_t rank, n;
    zr_pipe_action *list;
    int32_t next[ZR_PIPE_W + 1][ZR_CHUNKS]; /* for each kind and chunk: its next micro-batch */
} writing;

static void act(writing *w, zr_pipe_kind kind, int32_t chunk)
{
    w->list[w->n++] = (zr_pipe_action){kind, zr__pipe_stage(w->pipe, w->rank, chunk), w->next[kind][chunk]++};
}

/* Run an action for all micro-batches for which it has not run yet. */
static void act_rest(writing *w, zr_pipe_kind kind, int32_t chunk)
{
    while (w->next[kind][chunk] < w->pipe->micros) act(w, kind, chunk);
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static void copy_row(writing *w)
{
    const zr_pipe_table *t = w->pipe->table;
    for (int32_t c = 0; c < t->columns; c++)
        if (t->cell[w->rank * t->columns + c].kind != ZR_PIPE_REST) w->list[w->n++] = t->cell[w->rank * t->columns + c];
}

/* Run all forward passes chunk by chunk, then all backward passes. With one chunk this is GPipe. */
static void breadth_first(writing *w)
{
    for (int32_t c = 0; c < w->pipe->chunks; c++) act_rest(w, ZR_PIPE_F, c);
    for (int32_t c = w->pipe->chunks - 1; c >= 0; c--) act_rest(w, ZR_PIPE_B, c);
}

/* Run `ahead` forward passes, then a forward and a backward pass in turn. With P ranks, each
 * chunk runs P micro-batches before the next chunk takes its turn. If `split`, the backward pass is split: W begins
 * `waits` micro-batches after I. */
static void one_by_one(writing *w, int32_t ahead, bool split, int32_t waits)
{
    const int32_t ranks = w->pipe->ranks, chunks = w->pipe->chunks, all = w->pipe->micros * chunks;
    for (int32_t i = 0; i < all + ahead; i++) {
        const int32_t back = i - ahead;
        if (i < all) act(w, ZR_PIPE_F, i / ranks % chunks);
        if (back >= 0) act(w, split ? ZR_PIPE_I : ZR_PIPE_B, chunks - 1 - back / ranks % chunks);
        if (split && back >= waits) act(w, ZR_PIPE_W, 0);
    }
    if (split) act_rest(w, ZR_PIPE_W, 0);
}

/* Run I and W of the next micro-batch of a chunk. */
static void act_backward(writing *w, int32_t chunk)
{
    act(w, ZR_PIPE_I, chunk);
    act(w, ZR_PIPE_W, chunk);
}

/* A rank runs forward passes of its first chunk until the first micro-batch comes back to its second chunk. Then it
 * runs both chunks in turn, and leaves the last W for the time when it would wait. If F, I and W take the same time, a
 * rank is idle only before its first and behind its last action: together as long as P - 1 actions. */
static void zero_bubble_v(writing *w)
{
    const int32_t micros = w->pipe->micros, near = w->pipe->ranks - w->rank;
    for (int32_t k = 0; k < 2 * near - 1; k++) act(w, ZR_PIPE_F, 0);
    for (int32_t k = 0; k < w->rank; k++) act(w, ZR_PIPE_F, 1), act(w, ZR_PIPE_F, 0);
    for (int32_t k = 0; k < near; k++) act(w, ZR_PIPE_F, 1), act_backward(w, 1);
    while (w->next[ZR_PIPE_F][1] < micros) {
        if (w->next[ZR_PIPE_F][0] < micros) act(w, ZR_PIPE_F, 0);
        act_backward(w, 0);
        act(w, ZR_PIPE_F, 1);
        act_backward(w, 1);
    }
    for (int32_t k = 0; k < w->rank; k++) act(w, ZR_PIPE_I, 0), act(w, ZR_PIPE_I, 1);
    for (int32_t k = 0; k < near; k++) act_backward(w, 0);
    act_rest(w, ZR_PIPE_W, 1);
    act_rest(w, ZR_PIPE_W, 0);
}

int32_t zr__pipe_list(const zr__pipe *p, int32_t rank, zr_pipe_action *list)
{
    writing w = {.pipe = p, .rank = rank, .list = list};
    const int32_t behind = p->ranks - 1 - rank, all = p->micros * p->chunks;
    switch (p->schedule) {
    case ZR_PIPELINE_GPIPE:
    case ZR_PIPELINE_BREADTH:
        breadth_first(&w);
        break;
    case ZR_PIPELINE_1F1B:
        one_by_one(&w, least(behind, all), false, 0);
        break;
    case ZR_PIPELINE_INTERLEAVED:
        one_by_one(&w, least(2 * behind + (p->chunks - 1) * p->ranks, all), false, 0);
        break;
    case ZR_PIPELINE_ZB_H1:
        one_by_one(&w, least(behind, all), true, rank);
        break;
    case ZR_PIPELINE_ZB_V:
        zero_bubble_v(&w);
        break;
    case ZR_PIPELINE_TABLE:
        copy_row(&w);
        break;
    }
    return w.n;
}
