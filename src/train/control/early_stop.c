/* The end of a run whose validation loss does not fall any more. */
#include "train/control/control.h"

#include "base/text/text.h"

#include <math.h>
#include <stdio.h>

void zr__early_stop_add(zr__early_stop *e, int64_t step, double val_loss, double threshold)
{
    const bool better = isfinite(val_loss) && (e->best_step == 0 || val_loss < e->best - threshold);
    if (step == e->step) return;
    e->step = step;
    e->since = better ? 0 : e->since + 1;
    if (!better) return;
    e->best = val_loss;
    e->best_step = step;
}

bool zr__early_stop_is_due(const zr__early_stop *e, const zr_config *config)
{
    return config->train.patience > 0 && e->since >= config->train.patience;
}

char *zr__early_stop_words(const zr__early_stop *e, const zr_config *config, char out[ZR_EARLY_STOP_BYTES])
{
    char best[80] = "finite", more[48] = "";
    if (e->best_step > 0)
        snprintf(best, sizeof(best), "lower than the %s of step %lld", ZR_G9(e->best), (long long)e->best_step);
    if (e->best_step > 0 && config->train.threshold > 0)
        snprintf(more, sizeof(more), " by more than %s", ZR_SHORTEST(config->train.threshold));
    snprintf(out, ZR_EARLY_STOP_BYTES,
             "the run ends after step %lld of %lld: val_loss was not %s%s in %lld evaluation%s in a row "
             "(train.early_stopping_patience %lld)",
             (long long)e->step, (long long)config->train.steps, best, more, (long long)e->since,
             e->since == 1 ? "" : "s", (long long)config->train.patience);
    return out;
}
