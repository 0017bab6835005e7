#include "train/metrics.h"

#include "base/text.h"

#include <math.h>
#include <stdio.h>

/** As a JSON number; JSON has none for what is not finite. */
static const char *number(double x, char out[ZR_NUMBER_BYTES])
{
    return isfinite(x) ? zr__text_g9(x, out) : "null";
}

int zr__metrics_step(const zr_train_step *step, char line[ZR_LINE_BYTES])
{
    char n[11][ZR_NUMBER_BYTES], scale[64] = "", noise[64] = "";
    if (step->loss_scale > 0.0)
        snprintf(scale, sizeof(scale), ", \"loss_scale\":%s", zr__text_shortest(step->loss_scale, n[9]));
    if (step->noise) snprintf(noise, sizeof(noise), ", \"noise_scale_tokens\":%s", number(step->noise_scale, n[10]));
    return snprintf(line, ZR_LINE_BYTES,
                    "{\"step\":%lld, \"loss\":%s, \"grad_norm\":%s, \"lr\":%s, \"tokens\":%lld, \"step_ms\":%s, "
                    "\"tokens_per_sec\":%s, \"samples_per_sec\":%s, \"tflops\":%s, \"mfu\":%s, \"skipped\":%lld, "
                    "\"data_wait_ms\":%s%s%s}\n",
                    (long long)step->step, number(step->loss, n[0]), number(step->grad_norm, n[1]),
                    number(step->lr, n[2]), (long long)step->tokens, number(1e3 * step->step_sec, n[3]),
                    number(step->tokens_per_sec, n[4]), number(step->samples_per_sec, n[5]), number(step->tflops, n[6]),
                    number(step->mfu, n[7]), (long long)step->skipped, number(1e3 * step->data_wait_sec, n[8]), scale,
                    noise);
}

int zr__metrics_eval(const zr_train_eval *eval, char line[ZR_LINE_BYTES])
{
    char loss[ZR_NUMBER_BYTES];
    return snprintf(line, ZR_LINE_BYTES, "{\"step\":%lld, \"val_loss\":%s, \"val_tokens\":%lld}\n",
                    (long long)eval->step, number(eval->val_loss, loss), (long long)eval->val_tokens);
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
    ZR_TRY_GOTO(st, zr_report_json(&result->planned, &planned), done);
    ZR_TRY_GOTO(st, zr_report_json(&result->measured, &measured), done);
    if (timings) ZR_TRY_GOTO(st, zr_timings_json(timings, &timed), done);
    zr__text_add(&text, "{\"params\":%lld, \"ranks\":%d,\n \"planned\":%s,\n \"measured\":%s,\n",
                 (long long)result->planned.params, result->planned.ranks, planned, measured);
    zr__text_add(&text,
                 " \"peak_rss_bytes\":%lld, \"promised_rss_bytes\":%lld, \"wall_sec\":%s,\n \"build\":\"zr %s, %s, %s, "
                 "compiler %s\",\n",
                 (long long)result->peak_rss_bytes, (long long)result->promised_rss_bytes,
                 number(result->wall_sec, wall), zr_version(), zr_device_cpu_level(), zr_device_cpu_matmul(),
                 __VERSION__);
    zr__text_add(
        &text, " \"transport\":\"%s\", \"threads\":%d, \"steps\":%lld, \"skipped\":%lld, \"loss\":%s, \"val_loss\":%s",
        info->comm->transport, info->threads, (long long)result->steps, (long long)result->skipped,
        number(result->loss, loss), number(result->val_loss, val));
    if (info->config->train.noise_scale) {
        zr_noise_scale_words(result->noise_scale, info->config->train_batch_size * info->plan->layout.seq, words);
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
