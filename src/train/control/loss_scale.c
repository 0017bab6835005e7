/* The loss scale of fp16: it falls after an overflow, and rises after steps without one. */
#include "train/control/control.h"

#include <math.h>

zr__loss_scaler zr__loss_scaler_create(const zr_config *config)
{
    if (!config->fp16) return (zr__loss_scaler){.scale = 1};
    const bool dynamic = config->scale.loss_scale == 0;
    return (zr__loss_scaler){
        .scale = dynamic ? ldexp(1, (int)config->scale.initial_scale_power) : config->scale.loss_scale,
        .min_scale = config->scale.min_loss_scale,
        .dynamic = dynamic,
        .consecutive_hysteresis = config->scale.consecutive_hysteresis,
        .window = config->scale.loss_scale_window,
        .hysteresis = config->scale.hysteresis,
        .last_overflow = -1,
        .hysteresis_left = config->scale.hysteresis,
    };
}

void zr__loss_scaler_update(zr__loss_scaler *scaler, bool overflow)
{
    if (!scaler->dynamic) return;
    if (overflow) {
        if (scaler->hysteresis_left <= 1)
            scaler->scale = fmax(scaler->scale / 2, scaler->min_scale);
        else
            scaler->hysteresis_left--;
        scaler->last_overflow = scaler->step;
    } else {
        const bool full_window = (scaler->step - scaler->last_overflow) % scaler->window == 0;
        if (full_window) scaler->scale *= 2;
        if (full_window || scaler->consecutive_hysteresis) scaler->hysteresis_left = scaler->hysteresis;
    }
    scaler->step++;
}
