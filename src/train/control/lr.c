#include "train/control/control.h"

#include <math.h>

double zr__lr(const zr_config *config, int64_t updates)
{
    const double low = config->scheduler.warmup_min_lr, high = config->scheduler.warmup_max_lr;
    const double start = config->scheduler.warmup_min_ratio, floor_ratio = config->scheduler.cos_min_ratio;
    const int64_t warmup = config->scheduler.warmup_num_steps > 2 ? config->scheduler.warmup_num_steps : 2;
    const int64_t total = config->scheduler.total_num_steps, span = total - warmup > 1 ? total - warmup : 1;
    const int64_t i = updates - 1;
    const bool rising = i < warmup;
    double gamma = 0.0;
    if (i >= 0 && rising)
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
    case ZR_SCHEDULER_NONE:
        break;
    }
    return config->optimizer.lr;
}
