#include "train/dir/metrics.h"

#include "base/text/text.h"
#include "device/device.h"
#include "train/dir/report.h"
#include "train/measure/timings.h"
#include "train/control/control.h"
#include "zr/run.h"

#include <math.h>
#include <stdio.h>

/** Return x as JSON: a number, or "null" where it is not finite. */
static const char *number(double x, char out[ZR_NUMBER_BYTES])
{
    return isfinite(x) ? zr__text_g9(x, out) : "null";
}

int zr__metrics_step_scalars(const zr_train_step *step, zr__scalar scalar[ZR_SCALARS])
{
    int n = 0;
    scalar[n++] = (zr__scalar){"loss", step->loss, false};
    scalar[n++] = (zr__scalar){"grad_norm", step->grad_norm, false};
    scalar[n++] = (zr__scalar){"lr", step->lr, false};
    scalar[n++] = (zr__scalar){"tokens", (double)step->tokens, true};
    scalar[n++] = (zr__scalar){"step_ms", 1e3 * step->step_sec, false};
    scalar[n++] = (zr__scalar){"tokens_per_sec", step->tokens_per_sec, false};
    scalar[n++] = (zr__scalar){"samples_per_sec", step->samples_per_sec, false};
    scalar[n++] = (zr__scalar){"tflops", step->tflops, false};
    scalar[n++] = (zr__scalar){"mfu", step->mfu, false};
    scalar[n++] = (zr__scalar){"skipped", (double)step->skipped, true};
    scalar[n++] = (zr__scalar){"data_wait_ms", 1e3 * step->data_wait_sec, false};
    if (step->loss_scale > 0.0) scalar[n++] = (zr__scalar){"loss_scale", step->loss_scale, true};
    if (step->noise) scalar[n++] = (zr__scalar){"noise_scale_tokens", step->noise_scale, false};
    return n;
}

int zr__metrics_eval_scalars(const zr_train_eval *eval, zr__scalar scalar[ZR_SCALARS])
{
    int n = 0;
    scalar[n++] = (zr__scalar){"loss", eval->val_loss, false};
    scalar[n++] = (zr__scalar){"tokens", (double)eval->val_tokens, true};
    return n;
}

static int write_line(int64_t step, const char *prefix, const zr__scalar *scalar, int n, char line[ZR_LINE_BYTES])
{
    char text[ZR_NUMBER_BYTES];
    int used = snprintf(line, ZR_LINE_BYTES, "{\"step\":%lld", (long long)step);
    for (int i = 0; i < n; i++) {
        const double x = scalar[i].value;
        used += snprintf(line + used, ZR_LINE_BYTES - (size_t)used, ", \"%s%s\":%s", prefix, scalar[i].name,
                         scalar[i].exact ? zr__text_shortest(x, text) : number(x, text));
    }
    return used + snprintf(line + used, ZR_LINE_BYTES - (size_t)used, "}\n");
}

int zr__metrics_step(const zr_train_step *step, char line[ZR_LINE_BYTES])
{
    zr__scalar scalar[ZR_SCALARS];
    return write_line(step->step, "", scalar, zr__metrics_step_scalars(step, scalar), line);
}

int zr__metrics_eval(const zr_train_eval *eval, char line[ZR_LINE_BYTES])
{
    zr__scalar scalar[ZR_SCALARS];
    return write_line(eval->step, "val_", scalar, zr__metrics_eval_scalars(eval, scalar), line);
}

zr_status zr__metrics_sample(int64_t step, const char *text, int64_t bytes, char **line)
{
    zr__text out = {0};
    zr__text_add(&out, "{\"step\":%lld, \"sample\":", (long long)step);
    zr__text_add_json(&out, text, bytes);
    zr__text_add(&out, "}\n");
    return zr__text_take(&out, line);
}

zr_status zr__metrics_run(const zr_train_info *info, const zr_train_result *result, const zr_timings *timings,
                          char **json)
{
    char *planned = NULL, *measured = NULL, *timed = NULL, wall[ZR_NUMBER_BYTES], loss[ZR_NUMBER_BYTES],
         val[ZR_NUMBER_BYTES], noise[ZR_NUMBER_BYTES], words[ZR_NOISE_SCALE_BYTES];
    zr__text text = {0};
    zr_status st = ZR_OK;
    ZR_TRY_GOTO(st, zr__report_json(&result->planned, &planned), done);
    ZR_TRY_GOTO(st, zr__report_json(&result->measured, &measured), done);
    if (timings) ZR_TRY_GOTO(st, zr__timings_json(timings, &timed), done);
    zr__text_add(&text, "{\"params\":%lld, \"ranks\":%d,\n \"planned\":%s,\n \"measured\":%s,\n",
                 (long long)result->planned.params, result->planned.ranks, planned, measured);
    zr__text_add(&text,
                 " \"peak_rss_bytes\":%lld, \"promised_rss_bytes\":%lld, \"wall_sec\":%s,\n \"build\":\"zr %s, %s, %s, "
                 "compiler %s\",\n",
                 (long long)result->peak_rss_bytes, (long long)result->promised_rss_bytes,
                 number(result->wall_sec, wall), zr_version(), zr_device_cpu_level(), zr__device_cpu_matmul(),
                 __VERSION__);
    zr__text_add(
        &text, " \"transport\":\"%s\", \"threads\":%d, \"steps\":%lld, \"skipped\":%lld, \"loss\":%s, \"val_loss\":%s",
        info->comm->transport, info->threads, (long long)result->steps, (long long)result->skipped,
        number(result->loss, loss), number(result->val_loss, val));
    if (info->config->train.noise_scale) {
        zr__noise_scale_words(result->noise_scale, info->config->train_batch_size * info->plan->layout.seq, words);
        zr__text_add(&text, ",\n \"noise_scale_tokens\":%s, \"noise_scale\":\"%s\"", number(result->noise_scale, noise),
                     words);
    }
    if (timed) zr__text_add(&text, ",\n \"timings\":%s", timed);
    zr__text_add(&text, "}\n");
    ZR_TRY_GOTO(st, zr__text_take(&text, json), done);
done:
    zr__text_clear(&text);
    zr_free(planned);
    zr_free(measured);
    zr_free(timed);
    return st;
}
