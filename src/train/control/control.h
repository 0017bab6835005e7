/**
 * train/control: numbers that steer training from step to step: the learning rate, fp16's loss scale and the gradient
 * noise scale. Each is a function of the configuration and of earlier steps. A checkpoint stores their states.
 */
#ifndef ZR_TRAIN_CONTROL_CONTROL_H
#define ZR_TRAIN_CONTROL_CONTROL_H

#include "zr/config.h"

/**
 * Return the learning rate of the next update, after `updates` completed updates (skipped steps do not count).
 *
 * The schedules are DeepSpeed's. Its scheduler starts before its first iteration and advances after each update. So the
 * update with number u (from 0) uses iteration i = u - 1, and the first update uses the value before the start:
 *
 *     gamma(i) = ln(i+1)/ln(W)  or  i/W               for i < W = max(2, warmup_num_steps)
 *     WarmupLR:       min + (max - min) gamma(i), then max;                              before the start: min
 *     WarmupDecayLR:  min + (max - min) gamma(i),
 *                     then min + (max - min) max(0, (S-i)/max(1, S-W));                  before the start: min
 *     WarmupCosineLR: lr (r + (1-r) gamma(i)), then lr (c + (1-c)(1 + cos(pi p))/2),
 *                     p = min(1, (i-W+1)/max(1, S-W));                                   before the start: 0
 *
 * with S = total_num_steps, r = warmup_min_ratio, c = cos_min_ratio, lr = optimizer.params.lr. "Then" means for i >= W.
 * `config` must be resolved.
 */
double zr__lr(const zr_config *config, int64_t updates);

/**
 * Loss scale of fp16, updated by DeepSpeed's rule. A dynamic scale starts at 2^initial_scale_power. After step s (from
 * 0; skipped steps count too) the rule is:
 *
 *     after an overflow:  if hysteresis_left > 1:  hysteresis_left -= 1
 *                         otherwise:               scale = max(scale / 2, min_loss_scale)
 *     without overflow:   if s - (last step with an overflow, or -1) is a multiple of loss_scale_window:
 *                                                  scale *= 2 and hysteresis_left = hysteresis
 *                         if consecutive_hysteresis is set:
 *                                                  hysteresis_left = hysteresis
 *
 * If the key loss_scale is not 0, the scale is loss_scale and never changes. Steps with an overflow are skipped in any
 * case. Source: DeepSpeed's documentation of its configuration, "FP16 training options".
 */
typedef struct zr__loss_scaler {
    double scale;
    double min_scale;
    bool dynamic;
    bool consecutive_hysteresis;
    int64_t window, hysteresis;
    int64_t step, last_overflow, hysteresis_left;
} zr__loss_scaler;

/** Return the initial scaler of a resolved configuration. Without fp16 its scale is always 1. */
zr__loss_scaler zr__loss_scaler_create(const zr_config *config);

/** Update the scale after a step, for the next step. `overflow` tells whether the gradient of the completed step was
 * not finite, so that the step was skipped. */
void zr__loss_scaler_update(zr__loss_scaler *scaler, bool overflow);

/** Minimum number of averaged steps for which zr__noise_scale_value returns a number. */
#define ZR_NOISE_SCALE_STEPS 10
#define ZR_NOISE_SCALE_BYTES 320

/**
 * Running estimate of the simple noise scale tr(S) / |G|^2. G is the true gradient, and S the covariance of the
 * gradient of one token (or of one sample). Batches larger than the noise scale hardly pay. A step that knows the
 * gradients of batches of two sizes b < B gives the estimates
 *
 *     |G|^2 ~ (B |g_B|^2 - b |g_b|^2) / (B - b)        tr(S) ~ (|g_b|^2 - |g_B|^2) / (1/b - 1/B)
 *
 * Both estimates are unbiased but vary much. So each is averaged over steps (a new estimate has a weight of 1/100)
 * before the quotient is computed. Initialise with zeros. Source: McCandlish et al. 2018, "An Empirical Model of
 * Large-Batch Training", appendix A.1.
 */
typedef struct zr__noise_scale {
    double gradient, trace; /* averages of |G|^2 and tr(S); in the first steps too small, by a factor that both share */
    int64_t steps;          /* number of steps in the averages */
} zr__noise_scale;

/** Add a step to the averages. `small_square` is the mean of |g|^2 over the step's micro-batches of `small` tokens
 * (zr_step_result.micro_square). `big_square` is |g|^2 of the step's whole batch of `big` tokens, where `big` >
 * `small`. Ignore a step whose estimates are not finite. */
void zr__noise_scale_add(zr__noise_scale *noise, double small_square, double small, double big_square, double big);

/** Return the noise scale in tokens, the unit of the sizes passed to zr__noise_scale_add. Return NaN before
 * ZR_NOISE_SCALE_STEPS steps, and while an average is not positive. */
double zr__noise_scale_value(const zr__noise_scale *noise);

/** Write a line that compares the noise scale with the batch size of a step, both in tokens, and return `out`. Training
 * to a given loss with batches of B tokens takes 1 + scale/B times the minimum number of steps, and 1 + B/scale times
 * the minimum number of tokens (section 2 of McCandlish et al.). */
char *zr__noise_scale_words(double scale, int64_t batch, char out[ZR_NOISE_SCALE_BYTES]);

#endif
