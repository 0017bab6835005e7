#include "train/dir/metrics.h"

#include "base/json/json_write.h"
#include "device/device.h"
#include "train/control/control.h"
#include "train/dir/report.h"
#include "train/measure/timings.h"

#include <math.h>
#include <stdio.h>

/** For a model with several loss terms, append the loss of each term to a list of n scalars, and return the new length
 * of the list. */
static int add_terms(int terms, const zr_train_term *term, zr__scalar *scalar, int n)
{
    for (int t = 0; t < terms; t++) scalar[n++] = (zr__scalar){term[t].name, term[t].loss, .exact = false};
    return n;
}

int zr__metrics_step_scalars(const zr_train_step *step, zr__scalar scalar[ZR_SCALARS])
{
    const zr__scalar all[] = {
        {"loss", step->loss, .exact = false},
        {"grad_norm", step->grad_norm, .exact = false},
        {"lr", step->lr, .exact = false},
        {"tokens", (double)step->tokens, .exact = true},
        {"step_ms", 1e3 * step->step_sec, .exact = false},
        {"tokens_per_sec", step->tokens_per_sec, .exact = false},
        {"samples_per_sec", step->samples_per_sec, .exact = false},
        {"tflops", step->tflops, .exact = false},
        {"mfu", step->mfu, .exact = false},
        {"skipped", (double)step->skipped, .exact = true},
        {"data_wait_ms", 1e3 * step->data_wait_sec, .exact = false},
        {"loss_scale", step->loss_scale, .exact = true, .absent = step->loss_scale <= 0},
        {"noise_scale_tokens", step->noise_scale, .exact = false, .absent = !step->noise},
        {"adamw_lr", step->adamw_lr, .exact = false, .absent = !step->muon},
    };
    enum { ALL = sizeof(all) / sizeof(all[0]) };
    _Static_assert(ALL + ZR_LOSS_TERMS <= ZR_SCALARS, "raise ZR_SCALARS");
    int n = 0;
    for (int i = 0; i < ALL; i++)
        if (!all[i].absent) scalar[n++] = all[i];
    return add_terms(step->terms, step->term, scalar, n);
}

int zr__metrics_eval_scalars(const zr_train_eval *eval, zr__scalar scalar[ZR_SCALARS])
{
    scalar[0] = (zr__scalar){"loss", eval->val_loss, .exact = true}; /* a resumed run reads it */
    scalar[1] = (zr__scalar){"tokens", (double)eval->val_tokens, .exact = true};
    return add_terms(eval->terms, eval->term, scalar, 2);
}

int zr__metrics_line(int64_t step, const char *prefix, const zr__scalar *scalar, int n,
                     char line[ZR_METRICS_LINE_BYTES])
{
    /* The line is written without allocating memory, since an allocation could fail in any step. */
    int used = snprintf(line, ZR_METRICS_LINE_BYTES, "{\"step\":%lld", (long long)step);
    for (int i = 0; i < n; i++) {
        const double x = scalar[i].value;
        used += snprintf(line + used, ZR_METRICS_LINE_BYTES - (size_t)used, ", \"%s%s\":%s", prefix, scalar[i].name,
                         !isfinite(x)      ? "null"
                         : scalar[i].exact ? ZR_SHORTEST(x)
                                           : ZR_G9(x));
    }
    return used + snprintf(line + used, ZR_METRICS_LINE_BYTES - (size_t)used, "}\n");
}

/** Close the JSON object, add a newline and return the text. */
static zr_status end_document(zr__json_out *out, char **json)
{
    zr__json_close(out, '}');
    zr__text_add(&out->text, "\n");
    return zr__text_take(&out->text, json);
}

zr_status zr__metrics_sample(int64_t step, const char *text, int64_t bytes, char **line)
{
    zr__json_out out = {0};
    zr__json_open(&out, NULL, '{');
    zr__json_add(&out, "step", step);
    zr__json_add_bytes(&out, "sample", text, bytes);
    return end_document(&out, line);
}

void zr__metrics_add_best(zr__json_out *out, const zr_config *config, const zr_train_result *result)
{
    if (config->train.keep_best && result->best_step > 0)
        zr__json_add(out, "best_val_loss", result->best_val_loss, "best_step", result->best_step);
    if (config->train.patience > 0) zr__json_add_bool(out, "stopped_early", result->stopped_early);
}

static void add_results(zr__json_out *out, const zr_train_info *info, const zr_train_result *result)
{
    char build[512], words[ZR_NOISE_SCALE_BYTES];
    zr__json_break(out, "\n ");
    zr__json_add(out, "peak_rss_bytes", result->peak_rss_bytes, "promised_rss_bytes", result->promised_rss_bytes,
                 "wall_sec", result->wall_sec);
    snprintf(build, sizeof(build), "zr %s, %s, %s, compiler %s", zr_version(), zr_device_cpu_level(),
             zr__device_cpu_matmul(), __VERSION__);
    zr__json_break(out, "\n ");
    zr__json_add(out, "build", build);
    zr__json_break(out, "\n ");
    zr__json_add(out, "transport", info->comm->transport, "threads", info->threads, "steps", result->steps, "skipped",
                 result->skipped, "loss", result->loss, "val_loss", result->val_loss);
    zr__metrics_add_best(out, info->config, result);
    if (!info->config->train.noise_scale) return;
    zr__noise_scale_words(result->noise_scale, info->config->train_batch_size * info->plan->layout.seq, words);
    zr__json_break(out, "\n ");
    zr__json_add(out, "noise_scale_tokens", result->noise_scale, "noise_scale", words);
}

zr_status zr__metrics_run(const zr_train_info *info, const zr_train_result *result, const zr_timings *timings,
                          char **json)
{
    ZR_AUTO_FREE char *planned = NULL, *measured = NULL, *timed = NULL;
    zr__json_out out = {0};
    ZR_TRY(zr__report_json(&result->planned, &planned));
    ZR_TRY(zr__report_json(&result->measured, &measured));
    if (timings) ZR_TRY(zr__timings_json(timings, &timed));
    zr__json_open(&out, NULL, '{');
    zr__json_add(&out, "params", result->planned.params, "ranks", result->planned.ranks);
    zr__json_break(&out, "\n ");
    zr__json_add_json(&out, "planned", planned);
    zr__json_break(&out, "\n ");
    zr__json_add_json(&out, "measured", measured);
    add_results(&out, info, result);
    if (timed) {
        zr__json_break(&out, "\n ");
        zr__json_add_json(&out, "timings", timed);
    }
    return end_document(&out, json);
}
