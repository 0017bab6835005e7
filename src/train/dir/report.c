#include "train/dir/report.h"

#include "base/core/core.h"
#include "base/json/json_write.h"
#include "plan/cost/cost.h"
#include "train/dir/metrics.h"
#include "train/measure/timings.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ZR__COPIED_BYTES = 32 };

static const char *const traffic_key[ZR_TRAFFIC_KINDS] = {[ZR_TRAFFIC_REDUCE_SCATTER] = "reduce_scatter",
                                                          [ZR_TRAFFIC_ALL_GATHER] = "all_gather",
                                                          [ZR_TRAFFIC_ALL_REDUCE] = "all_reduce",
                                                          [ZR_TRAFFIC_PIPELINE] = "pipeline"};

zr_report zr__report_planned(const zr_plans *plans)
{
    const zr_plan *plan = plans->role[0];
    const zr__totals totals = zr__plans_total(plans);
    zr_report report = {.params = plan->params,
                        .trained = plan->trained,
                        .ranks = plan->ranks,
                        .stage = plan->layout.stage,
                        .memory = totals.memory,
                        .traffic = totals.traffic,
                        .home = plan->layout.home,
                        .flops_model = totals.flops_model,
                        .flops_hardware = totals.flops_hardware};
    memcpy(report.across, totals.across, sizeof(report.across));
    memcpy(report.copied, totals.copied, sizeof(report.copied));
    return report;
}

zr_traffic zr__report_within(const zr_report *report, zr_border border)
{
    zr_traffic within = report->traffic;
    for (int kind = 0; kind < ZR_TRAFFIC_KINDS; kind++) {
        within.bytes[kind] -= report->across[border].bytes[kind];
        if (border == ZR_BORDER_GROUP) within.bytes[kind] -= report->across[ZR_BORDER_TENSOR].bytes[kind];
    }
    return within;
}

/** Return bytes / steps, the bytes per step. Fail with ZR_ERR_INTERNAL if there is a remainder. `what` names the bytes
 * in the message. */
static zr_status a_step(const char *what, int64_t bytes, int64_t steps, int64_t *one)
{
    ZR_CHECK(steps ? bytes % steps == 0 : bytes == 0, ZR_ERR_INTERNAL,
             "%s: %lld bytes in %lld steps is no whole number a step", what, (long long)bytes, (long long)steps);
    *one = steps ? bytes / steps : 0;
    return ZR_OK;
}

static zr_status traffic_a_step(const zr_traffic *all, int64_t steps, zr_traffic *one)
{
    for (int kind = 0; kind < ZR_TRAFFIC_KINDS; kind++)
        ZR_TRY(a_step(traffic_key[kind], all->bytes[kind], steps, &one->bytes[kind]));
    return ZR_OK;
}

/** Write the JSON key of copies between two spaces, such as "disk_to_device", to `key`. Return `key`. */
static const char *copied_key(int from, int to, char key[ZR__COPIED_BYTES])
{
    snprintf(key, ZR__COPIED_BYTES, "%s_to_%s", zr_space_name((zr_space)from), zr_space_name((zr_space)to));
    return key;
}

static zr_status copied_a_step(const zr_measured *measured, zr_report *report)
{
    char key[ZR__COPIED_BYTES];
    for (int from = 0; from < ZR_SPACES; from++)
        for (int to = 0; to < ZR_SPACES; to++)
            ZR_TRY(a_step(copied_key(from, to, key), measured->copied[from][to], measured->steps,
                          &report->copied[from][to]));
    return ZR_OK;
}

zr_status zr__report_measured(const zr_report *planned, const zr_measured *measured, zr_report *report)
{
    *report = *planned;
    report->memory = measured->memory;
    ZR_TRY(traffic_a_step(&measured->traffic, measured->steps, &report->traffic));
    for (int b = 0; b < ZR_BORDERS; b++)
        ZR_TRY(traffic_a_step(&measured->across[b], measured->steps, &report->across[b]));
    return copied_a_step(measured, report);
}

static void add_categories(zr__json_out *out, const int64_t category_bytes[ZR_CATEGORIES])
{
    for (int c = 0; c < ZR_CATEGORIES; c++) zr__json_add(out, zr__category_name((zr_category)c), category_bytes[c]);
}

/** Add the memory: the totals, and one object for each memory space in use. Staging memory counts in the device space,
 * as in the totals. */
static void add_memory(zr__json_out *out, const zr_memory *memory)
{
    zr__json_open(out, "memory", '{');
    add_categories(out, memory->category_bytes);
    zr__json_add(out, "states", memory->states_bytes, "total", memory->total_bytes);
    zr__json_open(out, "spaces", '{');
    for (int s = 0; s < ZR_SPACES; s++) {
        const zr_space_memory *space = &memory->space[s];
        const bool device = s == ZR_SPACE_DEVICE;
        if (space->total_bytes == 0 || s == ZR_SPACE_STAGING) continue;
        zr__json_open(out, zr_space_name((zr_space)s), '{');
        add_categories(out, device ? memory->category_bytes : space->category_bytes);
        zr__json_add(out, "total", device ? memory->total_bytes : space->total_bytes);
        zr__json_close(out, '}');
    }
    zr__json_close(out, '}');
    zr__json_close(out, '}');
}

static int64_t traffic_total(const zr_traffic *traffic)
{
    int64_t total = 0;
    for (int kind = 0; kind < ZR_TRAFFIC_KINDS; kind++) total += traffic->bytes[kind];
    return total;
}

/** Open a JSON object and add the bytes of each kind of traffic; the caller closes the object. */
static void open_traffic(zr__json_out *out, const char *key, const zr_traffic *traffic)
{
    zr__json_open(out, key, '{');
    for (int kind = 0; kind < ZR_TRAFFIC_KINDS; kind++) zr__json_add(out, traffic_key[kind], traffic->bytes[kind]);
    zr__json_add(out, "total", traffic_total(traffic));
}

static void add_traffic(zr__json_out *out, const char *key, const zr_traffic *traffic)
{
    open_traffic(out, key, traffic);
    zr__json_close(out, '}');
}

/** Add the spaces in which offloaded states are stored, and the space of checkpoints if it is the disk. Without
 * offload, add nothing. */
static void add_offload(zr__json_out *out, const zr_homes *home, const zr_memory *memory)
{
    const bool checkpoints = memory->space[ZR_SPACE_DISK].category_bytes[ZR_CATEGORY_CHECKPOINT] > 0;
    const bool states =
        home->param != ZR_SPACE_DEVICE || home->grad != ZR_SPACE_DEVICE || home->optim != ZR_SPACE_DEVICE;
    if (!states && !checkpoints) return;
    zr__json_open(out, "offload", '{');
    zr__json_add(out, "param", zr_space_name(home->param), "grad", zr_space_name(home->grad), "optim",
                 zr_space_name(home->optim), "param_ratio", home->param_share, "optim_ratio", home->optim_share);
    if (checkpoints) zr__json_add(out, "checkpoints", "disk");
    zr__json_close(out, '}');
}

/** Add the bytes copied between memory spaces, if any are copied. */
static void add_copied(zr__json_out *out, const zr_report *report)
{
    char key[ZR__COPIED_BYTES];
    bool any = false;
    for (int i = 0; i < ZR_SPACES * ZR_SPACES; i++) {
        const int from = i / ZR_SPACES, to = i % ZR_SPACES;
        if (report->copied[from][to] == 0) continue;
        if (!any) zr__json_open(out, "copied", '{');
        any = true;
        zr__json_add(out, copied_key(from, to, key), report->copied[from][to]);
    }
    if (any) zr__json_close(out, '}');
}

/** Add two objects for a border: the traffic that does not cross it, and the traffic that crosses it. Add nothing if no
 * traffic crosses the border. */
static void add_border(zr__json_out *out, const zr_report *report, zr_border border, const char *inside,
                       const char *across)
{
    if (traffic_total(&report->across[border]) == 0) return;
    const zr_traffic within = zr__report_within(report, border);
    add_traffic(out, inside, &within);
    add_traffic(out, across, &report->across[border]);
}

/** Add a number of FLOPs as an integer, or as a real number if it may exceed the range of an integer. */
static void add_flops(zr__json_out *out, const char *key, double flops)
{
    json_auto_t *json = flops < 0x1p62 ? json_integer((json_int_t)flops) : json_real(flops);
    char *text = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;
    if (!text) out->text.failed = true;
    zr__json_add_json(out, key, text);
    free(text);
}

zr_status zr__report_json(const zr_report *report, char **json)
{
    const zr_traffic *hosts = &report->across[ZR_BORDER_HOST];
    zr__json_out out = {.spaced = true};
    zr__json_open(&out, NULL, '{');
    zr__json_add(&out, "params", report->params, "ranks", report->ranks, "stage", report->stage);
    add_memory(&out, &report->memory);
    open_traffic(&out, "traffic", &report->traffic);
    add_border(&out, report, ZR_BORDER_GROUP, "within", "across");
    add_border(&out, report, ZR_BORDER_TENSOR, "data", "tensor");
    if (traffic_total(hosts) > 0) add_traffic(&out, "across_hosts", hosts);
    zr__json_close(&out, '}');
    add_offload(&out, &report->home, &report->memory);
    add_copied(&out, report);
    zr__json_open(&out, "flops", '{');
    add_flops(&out, "model", report->flops_model);
    add_flops(&out, "hardware", report->flops_hardware);
    zr__json_close(&out, '}');
    if (report->trained < report->params) zr__json_add(&out, "trained", report->trained);
    zr__json_close(&out, '}');
    return zr__text_take(&out.text, json);
}

zr_status zr__result_json(const zr_config *config, const zr_train_result *result, const zr_timings *timings,
                          char **json)
{
    ZR_AUTO_FREE char *planned = NULL, *measured = NULL, *timed = NULL;
    zr__json_out out = {0};
    ZR_TRY(zr__report_json(&result->planned, &planned));
    ZR_TRY(zr__report_json(&result->measured, &measured));
    if (timings) ZR_TRY(zr__timings_json(timings, &timed));
    zr__json_open(&out, NULL, '{');
    zr__json_add(&out, "output_dir", config->train.output_dir, "steps", result->steps, "skipped", result->skipped,
                 "loss", result->loss, "val_loss", result->val_loss, "wall_sec", result->wall_sec);
    zr__metrics_add_best(&out, config, result);
    zr__json_add(&out, "peak_rss_bytes", result->peak_rss_bytes, "promised_rss_bytes", result->promised_rss_bytes);
    zr__json_add_json(&out, "planned", planned);
    zr__json_add_json(&out, "measured", measured);
    if (timed) zr__json_add_json(&out, "timings", timed);
    zr__json_close(&out, '}');
    return zr__text_take(&out.text, json);
}
