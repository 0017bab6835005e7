#include "train/weights/eval_text.h"

#include <math.h>
#include <stdio.h>

/* Approximate number of tokens in a batch. A batch of this size makes matrix products efficient and takes little
 * memory. */
#define BATCH_TOKENS 1024

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
    ZR_TRY(zr__evaluate(loaded->engine, loaded->comm, &plan->layout, text, watch, &part));
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
