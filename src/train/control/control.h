/**
 * train/control: values that can change at every step of training, namely the learning rate, the fp16 loss scale, the
 * gradient noise scale, and whether the run ends early. Each value depends only on the configuration and on earlier
 * steps. A checkpoint stores the state that a resumed run needs to continue them.
 */
#ifndef ZR_TRAIN_CONTROL_CONTROL_H
#define ZR_TRAIN_CONTROL_CONTROL_H

#include "zr/config.h"

/**
 * Return the learning rate of the next update. `updates` is the number of completed updates, without skipped steps.
 * `config` must be resolved.
 *
 * WarmupLR, WarmupDecayLR, WarmupCosineLR and OneCycle are DeepSpeed's schedules. In the first three, update u (from 0)
 * uses iteration i = u - 1, because DeepSpeed advances its scheduler after each update. The first updates are the
 * warm-up, in which a factor gamma rises from 0 towards 1:
 *
 *     W     = max(2, warmup_num_steps), the number of iterations of the warm-up
 *     gamma = 0 at the first update; then ln(i+1)/ln(W) if warmup_type is log, and i/W if it is linear
 *
 * With DeepSpeed's types log and linear gamma is 0 in the first two updates. With zr's own type linear_from_1, i = u,
 * W = max(1, warmup_num_steps) and gamma = (i+1)/W. The first update already changes the model, and the highest rate is
 * that of update W - 1.
 *
 * The learning rate is computed by these formulas:
 *
 *     min = warmup_min_lr, max = warmup_max_lr, lr = optimizer.params.lr, S = total_num_steps,
 *     r = warmup_min_ratio, c = cos_min_ratio
 *
 *     WarmupLR        i < W:         min + (max - min) gamma
 *                     i >= W:        max
 *     WarmupDecayLR   i < W:         min + (max - min) gamma
 *                     i >= W:        min + (max - min) max(0, (S-i)/max(1, S-W))
 *     WarmupCosineLR  first update:  0
 *                     i < W:         lr (r + (1-r) gamma)
 *                     i >= W:        lr (c + (1-c)(1 + cos(pi p))/2), where p = min(1, (i-W+1)/max(1, S-W))
 *     no schedule     every update:  lr
 *
 * The other schedules depend on u, and have no logarithmic warm-up. Here w = warmup_num_steps,
 * F = cycle_first_step_size, D = cycle_second_step_size, and k = (u - F - D) / decay_step_size, or 0 without decay:
 *
 *     WarmupExpDecayLR   u < w:       lr (u/w)^warmup_degree + lr_offset
 *                        u >= w:      lr decay_rate^((u-w)/decay_step) + lr_offset
 *     WarmupPolyDecayLR  u + 1 < w:   lr (u+1)/w
 *                        u + 1 >= w:  lr max(0, 1 - (u+1)/S)^decay_degree
 *     OneCycle           u <= F:      cycle_min_lr + (cycle_max_lr - cycle_min_lr) u/F
 *                        u <= F + D:  cycle_min_lr + (cycle_max_lr - cycle_min_lr) (F+D-u)/D
 *                        later:       cycle_min_lr / (1 + k decay_lr_rate)
 *
 * With a stair count c the quotients u/F and (F+D-u)/D of OneCycle are rounded down to multiples of 1/c.
 *
 * Sources: the schedule EE of the BERT example bing_bert of DeepSpeed; PolyWarmUpScheduler of NVIDIA's
 * DeepLearningExamples, which counts from 1; OneCycle of DeepSpeed.
 */
double zr__lr(const zr_config *config, int64_t updates);

/**
 * Loss scale of fp16, by which the loss is multiplied. An overflow is a gradient that is not finite. A step with an
 * overflow is skipped. If the key loss_scale is not 0, the scale is static: it always equals loss_scale.
 *
 * If the key is 0, the scale is dynamic. It starts at 2^initial_scale_power and is updated after each step by
 * DeepSpeed's rule. Here s is the number of the step, counted from 0 with skipped steps:
 *
 *     after an overflow:  if hysteresis_left > 1:  hysteresis_left -= 1
 *                         otherwise:               scale = max(scale / 2, min_loss_scale)
 *     without overflow:   if s - (last step with an overflow, or -1) is a multiple of loss_scale_window:
 *                                                  scale *= 2 and hysteresis_left = hysteresis
 *                         if consecutive_hysteresis is set:
 *                                                  hysteresis_left = hysteresis
 *
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

/** Return the initial scaler of a resolved configuration. Without fp16 its scale is always 1. */
zr__loss_scaler zr__loss_scaler_create(const zr_config *config);

/** Update the scale for the next step. `overflow` tells whether the completed step was skipped because its gradient was
 * not finite. */
void zr__loss_scaler_update(zr__loss_scaler *scaler, bool overflow);

/** Minimum number of steps in the averages. With fewer steps, zr__noise_scale_value returns NaN. */
#define ZR_NOISE_SCALE_STEPS 10
#define ZR_NOISE_SCALE_BYTES 320

/**
 * Running estimate of the gradient noise scale tr(S) / |G|^2. G is the true gradient, and S is the covariance of the
 * gradient of a single token (or sample). Increasing the batch beyond the noise scale saves few training steps. A step
 * computes gradients g_b and g_B for two batch sizes b < B, and from them the estimates
 *
 *     |G|^2 ~ (B |g_B|^2 - b |g_b|^2) / (B - b)        tr(S) ~ (|g_b|^2 - |g_B|^2) / (1/b - 1/B)
 *
 * Both estimates are unbiased but noisy. Each is therefore replaced by a moving average over steps, in which a new
 * value has the weight 1/100. The noise scale is the quotient of the averages. Initialise the struct with zeros.
 * Source: McCandlish et al. 2018, "An Empirical Model of Large-Batch Training", appendix A.1.
 */
typedef struct zr__noise_scale {
    double gradient, trace; /* averages of |G|^2 and tr(S); in the first steps both are too small by the same factor */
    int64_t steps;          /* number of steps in the averages */
} zr__noise_scale;

/** Add one step to the averages. `small_square` is the mean of |g|^2 over micro-batches of `small` tokens each
 * (zr_step_result.micro_square). `big_square` is |g|^2 of the whole batch of `big` tokens, where big > small. Ignore
 * the step if an estimate is not finite. */
void zr__noise_scale_add(zr__noise_scale *noise, double small_square, double small, double big_square, double big);

/** Return the noise scale in tokens, the unit of the sizes passed to zr__noise_scale_add. Return NaN before
 * ZR_NOISE_SCALE_STEPS steps, or if an average is not positive. */
double zr__noise_scale_value(const zr__noise_scale *noise);

/** Write one line that compares the noise scale with the batch size of a step, and return `out`. Both numbers are in
 * tokens. Training to a given loss with batches of B tokens takes (1 + scale/B) times the minimum number of steps
 * and (1 + B/scale) times the minimum number of tokens (section 2 of McCandlish et al.). */
char *zr__noise_scale_words(double scale, int64_t batch, char out[ZR_NOISE_SCALE_BYTES]);

/**
 * Evaluations of a run, which tell whether it ends early. An evaluation is better if its val_loss is lower than the
 * last better evaluation's by more than train.early_stopping_threshold; so slow progress adds up until it counts. The
 * run ends when train.early_stopping_patience evaluations in a row were not better. Initialise the struct with zeros.
 */
typedef struct zr__early_stop {
    int64_t step;      /* step of the last evaluation; 0 before the first */
    int64_t best_step; /* step of the last better evaluation; 0 before the first */
    int64_t since;     /* number of evaluations after it */
    double best;       /* its val_loss */
} zr__early_stop;

/** Add an evaluation, unless its step was the last to be added. A val_loss that is not finite is not better. */
void zr__early_stop_add(zr__early_stop *evaluations, int64_t step, double val_loss, double threshold);
/** Return whether the run ends. */
bool zr__early_stop_is_due(const zr__early_stop *evaluations, const zr_config *config);
#define ZR_EARLY_STOP_BYTES 320
/** Write one line on why the run ends, and return `out`. */
char *zr__early_stop_words(const zr__early_stop *evaluations, const zr_config *config, char out[ZR_EARLY_STOP_BYTES]);

#endif
