/**
 * train/control: numbers that steer training from step to step: the learning rate, fp16's loss scale, the gradient
 * noise scale. They are functions of the configuration and of earlier steps; a checkpoint keeps their states.
 */
#ifndef ZR_TRAIN_CONTROL_CONTROL_H
#define ZR_TRAIN_CONTROL_CONTROL_H

#include "zr/config.h"

/**
 * Learning rate of the next update, after `updates` updates were done (skipped steps do not count).
 *
 * DeepSpeed's schedules: the scheduler starts before its first iteration and moves on after each update, so
 * the update with number u (from 0) uses iteration i = u - 1, and u = 0 the value before the start:
 *
 *     gamma(i) = ln(i+1)/ln(W)  or  i/W               i < W = max(2, warmup_num_steps)
 *     WarmupLR:       min + (max - min) gamma(i), then max;                              before: min
 *     WarmupDecayLR:  the same, then min + (max - min) max(0, (S-i)/max(1, S-W));        before: min
 *     WarmupCosineLR: lr (r + (1-r) gamma(i)), then lr (c + (1-c)(1 + cos(pi p))/2),
 *                     p = min(1, (i-W+1)/max(1, S-W));                                   before: 0
 *
 * with S = total_num_steps, r = warmup_min_ratio, c = cos_min_ratio, lr = optimizer.params.lr.
 * `config` must be resolved.
 */
double zr__lr(const zr_config *config, int64_t updates);

/**
 * fp16's scale of the loss, by DeepSpeed's rule. It starts at 2^initial_scale_power. After step s (from 0), skipped
 * ones counted:
 *
 *     overflow:  hysteresis_left > 1:  hysteresis_left -= 1
 *                otherwise:            scale = max(scale / 2, min_loss_scale)
 *     none:      (s - last step with an overflow, or -1) a multiple of loss_scale_window:
 *                                      scale *= 2 and hysteresis_left = hysteresis
 *                consecutive_hysteresis: hysteresis_left = hysteresis after every such step
 *
 * loss_scale not 0: that scale, never changed. Overflows are skipped either way.
 * Source: DeepSpeed's documentation of its configuration, "FP16 training options".
 */
typedef struct zr__loss_scaler {
    double scale;
    double min_scale;
    bool dynamic;
    bool consecutive_hysteresis;
    int64_t window, hysteresis;
    int64_t step, last_overflow, hysteresis_left;
} zr__loss_scaler;

/** Return the scaler of a resolved configuration: scale 1 and static without fp16. */
zr__loss_scaler zr__loss_scaler_create(const zr_config *config);

/** Set the next step's scale after a step that used scaler->scale. overflow: its gradient was not finite, and the step
 *  was skipped. */
void zr__loss_scaler_update(zr__loss_scaler *scaler, bool overflow);

/** Steps before the noise scale counts as known. */
#define ZR_NOISE_SCALE_STEPS 10
#define ZR_NOISE_SCALE_BYTES 320

/**
 * The simple noise scale tr(S) / |G|^2, with G the true gradient and S the covariance of one token's (or one sample's):
 * the batch up to which a larger one pays. Of a step with gradients of batches of two sizes b < B,
 *
 *     |G|^2 ~ (B |g_B|^2 - b |g_b|^2) / (B - b)        tr(S) ~ (|g_b|^2 - |g_B|^2) / (1/b - 1/B)
 *
 * Both estimates are unbiased and vary much, so each is averaged over steps (a new one counts a hundredth) before the
 * quotient is taken. Zero-initialise.
 * Source: McCandlish et al. 2018, "An Empirical Model of Large-Batch Training", appendix A.1.
 */
typedef struct zr__noise_scale {
    double gradient, trace; /* the averages of |G|^2 and tr(S), too small by the same factor in the first steps */
    int64_t steps;          /* steps in the averages */
} zr__noise_scale;

/** Add a step: `small_square` is the mean of |g|^2 over its micro-batches of `small` tokens each
 *  (zr_step_result.micro_square), `big_square` |g|^2 of the whole batch of `big` > `small` tokens. A step with a number
 *  that is not finite is ignored. */
void zr__noise_scale_add(zr__noise_scale *noise, double small_square, double small, double big_square, double big);

/** Return the noise scale in tokens, where the sizes were. NaN: not known, before ZR_NOISE_SCALE_STEPS steps or while
 *  an average is not positive. */
double zr__noise_scale_value(const zr__noise_scale *noise);

/** Write a line that compares the noise scale with the batch of a step, both in tokens; return `out`. A batch of B
 *  takes 1 + scale/B times the fewest steps that lead to a loss, and 1 + B/scale times the fewest tokens (section 2
 *  there). */
char *zr__noise_scale_words(double scale, int64_t batch, char out[ZR_NOISE_SCALE_BYTES]);

#endif
