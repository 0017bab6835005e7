/* Mean losses of an engine or of stored weights over the windows of a file. */
#include "train/evaluate/evaluate.h"

#include "base/number/exact.h"
#include "plan/list/place.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Approximate number of tokens in a batch. A batch of this size makes matrix products efficient and takes little
 * memory. */
#define BATCH_TOKENS 1024

typedef struct reader {
    const zr__eval_text *text;
    const zr_layout *layout;
    zr__eval_part *part;
} reader;

/* Read a window, and count the targets that the loss does not ignore. */
static zr_status read_counted(const reader *r, int64_t window, const zr__row *row)
{
    ZR_TRY(r->text->read(r->text->source, window, row));
    zr__row_losses(r->layout, row, r->part->counted);
    zr__row_count(r->layout, row, r->part->counted);
    return ZR_OK;
}

static zr_status read_rows(void *arg, const zr_batch *batch, void *const *input)
{
    reader *r = arg;
    const zr__eval_text *text = r->text;
    for (int64_t b = 0; b < r->layout->batch; b++) {
        const int64_t window = batch->first_row + b;
        const zr__row row = zr__row_at(text->kind, r->layout, b, input);
        if (window < text->windows && r->part->data == ZR_OK) r->part->data = read_counted(r, window, &row);
        if (window >= text->windows || r->part->data != ZR_OK) zr__row_pad(r->layout, &row);
    }
    return ZR_OK;
}

zr_status zr__evaluate(zr_engine *engine, zr_comm *comm, const zr_plan *plan, const zr__eval_text *text,
                       const zr__eval_watch *watch, zr__eval_part *part)
{
    const zr_layout *layout = &plan->layout;
    reader r = {.text = text, .layout = layout, .part = part};
    int64_t rows = layout->batch * layout->ranks, windows = text->windows;
    *part = (zr__eval_part){0};
    for (int64_t first = 0; first < windows; first += rows) {
        zr_batch batch = {.first_row = first + zr__plan_place(plan, ZR_GROUP_DATA, comm->rank) * layout->batch};
        ZR_TRY(zr_engine_eval(engine, &batch, read_rows, &r, part->sum));
        if (watch)
            ZR_TRY(zr_comm_agree(comm, watch->done(watch->arg, first + rows < windows ? first + rows : windows)));
    }
    /* Ranks with the same rows compute the same losses, so only the first of them adds its losses. In a pipeline each
     * role has its own losses, but all read the same targets. */
    if (!zr__plan_first_of_rows(plan, comm->rank)) memset(part->counted, 0, sizeof(part->counted));
    if (zr__plan_place(plan, ZR_GROUP_ALL & ~(ZR_GROUP_DATA | ZR_GROUP_PIPELINE), comm->rank) > 0)
        memset(part->sum, 0, sizeof(part->sum));
    return ZR_OK;
}

/** Compute the mean loss of one term. Collective. */
static zr_status mean_of_term(zr_comm *comm, const zr_exact *sum, int64_t counted, zr_term_result *mean)
{
    enum { N = ZR_EXACT_LIMBS + 1 };
    _Static_assert(N <= ZR_COMM_SCALARS, "a part travels in one call");
    double mine[N];
    zr_exact total = {0};
    zr__exact_pack(sum, mine);
    mine[ZR_EXACT_LIMBS] = (double)counted;
    ZR_TRY(zr_comm_scalars(comm, mine, N, NULL));
    mean->counted = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        const double *other = comm->table + (size_t)N * (size_t)rank;
        zr__exact_unpack(&total, other);
        mean->counted += (int64_t)other[ZR_EXACT_LIMBS];
    }
    mean->loss = mean->counted > 0 ? zr__exact_value(&total) / (double)mean->counted : 0.0;
    return ZR_OK;
}

zr_status zr__evaluate_mean(zr_comm *comm, const zr__eval_part *part, int terms, zr__eval_mean *mean)
{
    mean->loss = 0;
    for (int t = 0; t < terms; t++) {
        ZR_TRY(mean_of_term(comm, &part->sum[t], part->counted[t], &mean->term[t]));
        mean->loss += mean->term[t].loss;
    }
    return ZR_OK;
}

void zr__eval_note(zr_eval_result *result, const char *text)
{
    const size_t used = strlen(result->note);
    snprintf(result->note + used, sizeof(result->note) - used, "%s%s", used && text[0] ? "; " : "", text);
}

int64_t zr__eval_batch_rows(int64_t seq)
{
    return seq < BATCH_TOKENS ? BATCH_TOKENS / seq : 1;
}

zr_status zr__evaluate_text(zr__loaded *loaded, zr_layout *layout, const zr__eval_text *text,
                            const zr__eval_watch *watch, int threads, const char *path, zr_eval_result *result)
{
    zr__eval_part part;
    zr__eval_mean mean;
    ZR_TRY(zr__load_start(loaded, layout, threads));
    const zr_plan *plan = loaded->plan;
    ZR_TRY(zr__evaluate(loaded->engine, loaded->comm, plan, text, watch, &part));
    ZR_TRY(part.data);
    ZR_TRY(zr__evaluate_mean(loaded->comm, &part, plan->terms, &mean));
    ZR_CHECK(isfinite(mean.loss), ZR_ERR_DIVERGED,
             "the loss of these weights on this file is %g, which is not finite: the weights cannot be used",
             mean.loss);
    snprintf(result->data, sizeof(result->data), "%s", path);
    result->loss = mean.loss;
    result->tokens = mean.term[0].counted;
    result->perplexity = exp(mean.term[0].loss);
    result->params = plan->params;
    result->seq = layout->seq;
    result->terms = plan->terms > 1 || text->kind != ZR_SAMPLES_NEXT ? plan->terms : 0;
    for (int t = 0; t < result->terms; t++) {
        const char *name = zr_graph_loss_name(plan->graph[ZR_SCHEDULE_EVAL], t);
        snprintf(result->term[t].name, sizeof(result->term[t].name), "%s", name);
        result->term[t].loss = mean.term[t].counted > 0 ? mean.term[t].loss : NAN;
        result->term[t].counted = mean.term[t].counted;
    }
    return ZR_OK;
}
