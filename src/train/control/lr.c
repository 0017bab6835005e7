/* Learning-rate schedules, as functions of the number of updates. */
#include "train/control/control.h"

#include <math.h>

/* Return the factor of WarmupExpDecayLR for update `t`. */
static double warmup_exp(const zr_config *config, int64_t t)
{
    const int64_t warmup = config->scheduler.warmup_num_steps;
    if (t < warmup) return pow((double)t / (double)warmup, config->scheduler.warmup_degree);
    return pow(config->scheduler.decay_rate, (double)(t - warmup) / config->scheduler.decay_step);
}

/* Return the factor of WarmupPolyDecayLR for update `t`, from 1. */
static double warmup_poly(const zr_config *config, int64_t t)
{
    const int64_t warmup = config->scheduler.warmup_num_steps, total = config->scheduler.total_num_steps;
    if (t < warmup) return (double)t / (double)warmup;
    return t < total ? pow(1.0 - (double)t / (double)total, config->scheduler.decay_degree) : 0.0;
}

/* Return part / whole, rounded down to a whole number of stairs. */
static double stairs_of(int64_t part, int64_t whole, int64_t stairs)
{
    if (stairs == 0) return (double)part / (double)whole;
    return floor((double)part * (double)stairs / (double)whole) / (double)stairs;
}

static double one_cycle(const zr_config *config, int64_t t)
{
    const double low = config->scheduler.cycle_min_lr, high = config->scheduler.cycle_max_lr;
    const int64_t rise = config->scheduler.first_step_size, fall = config->scheduler.second_step_size,
                  size = config->scheduler.decay_step_size, after = t - rise - fall;
    if (t <= rise) return low + (high - low) * stairs_of(t, rise, config->scheduler.first_stair_count);
    if (after <= 0) return low + (high - low) * stairs_of(-after, fall, config->scheduler.second_stair_count);
    return size == 0 ? low : low / (1.0 + config->scheduler.decay_lr_rate * ((double)after / (double)size));
}

double zr__lr(const zr_config *config, int64_t updates)
{
    const double low = config->scheduler.warmup_min_lr, high = config->scheduler.warmup_max_lr;
    const double start = config->scheduler.warmup_min_ratio, floor_ratio = config->scheduler.cos_min_ratio;
    const bool from_1 = config->scheduler.warmup_type == ZR_WARMUP_FROM_1;
    const int64_t shortest = from_1 ? 1 : 2, wanted = config->scheduler.warmup_num_steps;
    const int64_t warmup = wanted > shortest ? wanted : shortest;
    const int64_t total = config->scheduler.total_num_steps, span = total - warmup > 1 ? total - warmup : 1;
    const int64_t i = from_1 ? updates : updates - 1;
    const bool rising = i < warmup;
    double gamma = 0.0;
    if (from_1)
        gamma = (double)(i + 1) / (double)warmup;
    else if (i >= 0 && rising)
        gamma = config->scheduler.warmup_type == ZR_WARMUP_LOG ? log((double)i + 1.0) / log((double)warmup)
                                                               : (double)i / (double)warmup;
    switch (config->scheduler.type) {
    case ZR_SCHEDULER_WARMUP:
        return rising ? low + (high - low) * gamma : high;
    case ZR_SCHEDULER_WARMUP_DECAY:
        return low + (high - low) * (rising ? gamma : fmax(0.0, (double)(total - i) / (double)span));
    case ZR_SCHEDULER_WARMUP_COSINE: {
        const double progress = fmin(1.0, (double)(i - warmup + 1) / (double)span);
        const double wave = (1.0 + cos(acos(-1.0) * progress)) / 2.0;
        if (i < 0) return 0.0;
        return config->optimizer.lr *
               (rising ? start + (1.0 - start) * gamma : fmax(0.0, floor_ratio + (1.0 - floor_ratio) * wave));
    }
    case ZR_SCHEDULER_WARMUP_EXP:
        return config->optimizer.lr * warmup_exp(config, updates) + config->scheduler.lr_offset;
    case ZR_SCHEDULER_WARMUP_POLY:
        return config->optimizer.lr * warmup_poly(config, updates + 1);
    case ZR_SCHEDULER_ONE_CYCLE:
        return one_cycle(config, updates);
    case ZR_SCHEDULER_NONE:
        break;
    }
    return config->optimizer.lr;
}
