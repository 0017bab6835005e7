#include "train/control/control.h"

#include <math.h>

/** Return the warm-up factor, from 0 to 1, at iteration i < W. */
static double gamma_of(zr_config_warmup type, int64_t i, int64_t warmup)
{
    return type == ZR_WARMUP_LOG ? log((double)i + 1.0) / log((double)warmup) : (double)i / (double)warmup;
}

static double linear_decay(int64_t i, int64_t warmup, int64_t total)
{
    int64_t span = total - warmup > 1 ? total - warmup : 1;
    return fmax(0.0, (double)(total - i) / (double)span);
}

static double cosine_ratio(int64_t i, int64_t warmup, int64_t total, double floor_ratio)
{
    int64_t span = total - warmup > 1 ? total - warmup : 1;
    double progress = fmin(1.0, (double)(i - warmup + 1) / (double)span);
    double wave = (1.0 + cos(acos(-1.0) * progress)) / 2.0;
    return fmax(0.0, floor_ratio + (1.0 - floor_ratio) * wave);
}

double zr__lr(const zr_config *config, int64_t updates)
{
    zr_config_scheduler type = config->scheduler.type;
    double low = config->scheduler.warmup_min_lr, high = config->scheduler.warmup_max_lr;
    int64_t warmup = config->scheduler.warmup_num_steps > 2 ? config->scheduler.warmup_num_steps : 2;
    int64_t total = config->scheduler.total_num_steps;
    int64_t i = updates - 1;
    bool rising = i < warmup;
    double gamma = i >= 0 && rising ? gamma_of(config->scheduler.warmup_type, i, warmup) : 0.0;

    switch (type) {
    case ZR_SCHEDULER_WARMUP:
        return rising ? low + (high - low) * gamma : high;
    case ZR_SCHEDULER_WARMUP_DECAY:
        return low + (high - low) * (rising ? gamma : linear_decay(i, warmup, total));
    case ZR_SCHEDULER_WARMUP_COSINE: {
        double start = config->scheduler.warmup_min_ratio;
        if (i < 0) return 0.0;
        return config->optimizer.lr * (rising ? start + (1.0 - start) * gamma
                                              : cosine_ratio(i, warmup, total, config->scheduler.cos_min_ratio));
    }
    case ZR_SCHEDULER_NONE:
        break;
    }
    return config->optimizer.lr;
}
