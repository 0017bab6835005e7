/* The gradient noise scale (McCandlish et al. 2018), from the square norms of small and big batches. */
#include "train/control/control.h"

#include "base/text/text.h"

#include <math.h>
#include <stdio.h>

/* Weight of a new step in the moving averages. The averages therefore cover about the last 100 steps. */
#define WEIGHT 0.01
/* Maximum ratio of two batch sizes that count as about equal. */
#define ABOUT 2.0

void zr__noise_scale_add(zr__noise_scale *noise, double small_square, double small, double big_square, double big)
{
    const double gradient = (big * big_square - small * small_square) / (big - small);
    const double trace = (small_square - big_square) / (1 / small - 1 / big);
    if (!isfinite(gradient) || !isfinite(trace)) return;
    /* Both averages begin at zero, so in the first steps both are too small by the same factor, which cancels in their
     * quotient. */
    noise->gradient += WEIGHT * (gradient - noise->gradient);
    noise->trace += WEIGHT * (trace - noise->trace);
    noise->steps++;
}

double zr__noise_scale_value(const zr__noise_scale *noise)
{
    if (noise->steps < ZR_NOISE_SCALE_STEPS || noise->gradient <= 0 || noise->trace <= 0) return NAN;
    return noise->trace / noise->gradient;
}

char *zr__noise_scale_words(double scale, int64_t batch, char out[ZR_NOISE_SCALE_BYTES])
{
    const double more = scale / (double)batch;
    if (!isfinite(scale)) {
        snprintf(out, ZR_NOISE_SCALE_BYTES,
                 "the gradient noise scale is not known yet: it needs %d steps and a mean gradient that is clearly "
                 "above the noise",
                 ZR_NOISE_SCALE_STEPS);
        return out;
    }
    const char *advice = more > ABOUT       ? "a larger batch would take fewer steps for few more tokens"
                         : 1 / more > ABOUT ? "a smaller batch would take fewer tokens for few more steps"
                                            : "larger batches save few steps, smaller ones few tokens";
    snprintf(out, ZR_NOISE_SCALE_BYTES,
             "critical batch about %s tokens (gradient noise scale), a step has %s: %.2g times the fewest steps and "
             "%.2g times the fewest tokens; %s",
             ZR_SHORTEST(round(scale)), ZR_SHORTEST((double)batch), 1 + more, 1 + 1 / more, advice);
    return out;
}
