/* The rows of training batches, which a thread may read ahead. */
#include "train/family/samples.h"

#include "data/samples/ahead.h"

#include <string.h>

/* Maximum memory of the rows of a micro-batch, and of the rows of a step that must all be read before it. */
#define MOST_BATCH_BYTES ((int64_t)4 << 20)
#define MOST_STEP_BYTES ((int64_t)64 << 20)

enum { MOST_INPUTS = 8 };

struct zr__rows_ahead {
    zr__samples *samples;
    const zr_layout *layout;
    int inputs;
    int64_t width[MOST_INPUTS], numbers; /* number of elements of a row in each input, and in all inputs together */
    int32_t *window;                     /* buffer for a row */
    zr__ahead *ahead;                    /* or NULL */
};

static int64_t row_width(const zr_plan *plan, int32_t input)
{
    const zr_graph *graph = plan->graph[ZR_SCHEDULE_TRAIN];
    return zr_shape_elems(&zr_graph_value(graph, zr_graph_input(graph, input))->type.shape) / plan->layout.batch;
}

int64_t zr__rows_ahead_room(const zr_plan *plan, int64_t *bytes)
{
    const int32_t inputs = zr_graph_inputs(plan->graph[ZR_SCHEDULE_TRAIN]);
    const int64_t step = plan->layout.batch * plan->layout.accum;
    int64_t row = 0, room = plan->layout.batch;
    for (int32_t i = 0; i < inputs; i++) row += row_width(plan, i) * (int64_t)sizeof(int32_t);
    if (room > MOST_BATCH_BYTES / row) room = MOST_BATCH_BYTES / row;
    if (plan->terms > 1) room = step <= MOST_STEP_BYTES / row ? step : 0;
    *bytes = room * row;
    return room;
}

/* Return a row whose arrays lie one after the other in a window. */
static zr__row row_in(const zr__rows_ahead *a, int32_t *window)
{
    void *input[MOST_INPUTS];
    for (int i = 0; i < a->inputs; i++) {
        input[i] = window;
        window += a->width[i];
    }
    return zr__row_at(a->samples->kind, a->layout, 0, input);
}

static zr_status read_window(void *arg, int64_t sample, int32_t *window)
{
    const zr__rows_ahead *a = arg;
    const zr__row row = row_in(a, window);
    return zr__samples_read(a->samples, sample, &row);
}

zr_status zr__rows_ahead_create(zr__samples *samples, const zr_plan *plan, int64_t room, zr__rows_ahead **ahead)
{
    zr__rows_ahead *a = zr_alloc(sizeof(*a));
    ZR_CHECK(a, ZR_ERR_MEMORY, "no memory for %zu bytes to read data ahead", sizeof(*a));
    *a = (zr__rows_ahead){.samples = samples, .layout = &plan->layout};
    *ahead = a;
    a->inputs = zr_graph_inputs(plan->graph[ZR_SCHEDULE_TRAIN]);
    ZR_ASSERT(a->inputs <= MOST_INPUTS);
    for (int i = 0; i < a->inputs; i++) a->numbers += a->width[i] = row_width(plan, i);
    a->window = zr_alloc((size_t)a->numbers * sizeof(*a->window));
    ZR_CHECK(a->window, ZR_ERR_MEMORY, "no memory for a row of %lld numbers", (long long)a->numbers);
    return room > 0 ? zr__ahead_create(read_window, a, room, a->numbers, &a->ahead) : ZR_OK;
}

void zr__rows_ahead_destroy(zr__rows_ahead **ahead)
{
    if (!*ahead) return;
    zr__ahead_destroy(&(*ahead)->ahead);
    zr_free((*ahead)->window);
    zr_free(*ahead);
    *ahead = NULL;
}

void zr__rows_ahead_want(zr__rows_ahead *a, int64_t first, int64_t stride)
{
    if (a->ahead) zr__ahead_want(a->ahead, &(zr__ahead_order){first, a->layout->batch, stride});
}

/* Copy the row of a sample into a->window. Read it now if it was not read ahead. If `keeps` is true, the row stays in
 * memory for a later call. */
static zr_status take(zr__rows_ahead *a, int64_t sample, bool keeps)
{
    bool there = false;
    if (a->ahead) ZR_TRY(zr__ahead_take(a->ahead, sample, keeps, a->window, &there));
    return there ? ZR_OK : read_window(a, sample, a->window);
}

zr_status zr__rows_ahead_read(zr__rows_ahead *a, int64_t index, int64_t row, void *const *input)
{
    ZR_TRY(take(a, index, false));
    const int32_t *from = a->window;
    for (int i = 0; i < a->inputs; i++) {
        memcpy((int32_t *)input[i] + row * a->width[i], from, (size_t)a->width[i] * sizeof(*from));
        from += a->width[i];
    }
    return ZR_OK;
}

zr_status zr__rows_ahead_count(zr__rows_ahead *a, int64_t index, int64_t *counted)
{
    ZR_TRY(take(a, index, true));
    const zr__row row = row_in(a, a->window);
    zr__row_count(a->layout, &row, counted);
    return ZR_OK;
}
