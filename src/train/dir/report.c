#include "train/dir/report.h"
#include "zr/engine.h"
#include "zr/plan.h"
#include "zr/run.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *const traffic_key[ZR_TRAFFIC_KINDS] = {[ZR_TRAFFIC_REDUCE_SCATTER] = "reduce_scatter",
                                                          [ZR_TRAFFIC_ALL_GATHER] = "all_gather",
                                                          [ZR_TRAFFIC_ALL_REDUCE] = "all_reduce"};

zr_report zr__report_planned(const zr_plan *plan)
{
    zr_report report = {.params = plan->params,
                        .trained = plan->trained,
                        .ranks = plan->ranks,
                        .stage = plan->layout.stage,
                        .memory = plan->memory,
                        .traffic = plan->traffic,
                        .flops_model = plan->flops_model,
                        .flops_hardware = plan->flops_hardware};
    memcpy(report.across, plan->across, sizeof(report.across));
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

/** Divide the traffic of all steps by their number; ZR_ERR_INTERNAL where it does not divide evenly. */
static zr_status a_step(const zr_traffic *all, int64_t steps, zr_traffic *one)
{
    for (int kind = 0; kind < ZR_TRAFFIC_KINDS; kind++) {
        int64_t bytes = all->bytes[kind];
        ZR_CHECK(steps ? bytes % steps == 0 : bytes == 0, ZR_ERR_INTERNAL,
                 "%s: %lld bytes in %lld steps is no whole number a step", traffic_key[kind], (long long)bytes,
                 (long long)steps);
        one->bytes[kind] = steps ? bytes / steps : 0;
    }
    return ZR_OK;
}

zr_status zr__report_measured(const zr_plan *plan, const zr_measured *measured, zr_report *report)
{
    *report = zr__report_planned(plan);
    report->memory = measured->memory;
    ZR_TRY(a_step(&measured->traffic, measured->steps, &report->traffic));
    for (int b = 0; b < ZR_BORDERS; b++) ZR_TRY(a_step(&measured->across[b], measured->steps, &report->across[b]));
    return ZR_OK;
}

static int set_categories(json_t *object, const int64_t category_bytes[ZR_CATEGORIES])
{
    int failed = object ? 0 : -1;
    for (int c = 0; c < ZR_CATEGORIES; c++)
        failed |= json_object_set_new(object, zr_category_name((zr_category)c), json_integer(category_bytes[c]));
    return failed;
}

/** Add the spaces in use, one object each. The device's numbers include its staging memory, like the numbers of the
 * object itself. */
static int set_spaces(json_t *object, const zr_memory *memory)
{
    json_t *all = json_object();
    int failed = json_object_set_new(object, "spaces", all);
    for (int s = 0; s < ZR_SPACES; s++) {
        const zr_space_memory *space = &memory->space[s];
        const bool device = s == ZR_SPACE_DEVICE;
        if (space->total_bytes == 0 || s == ZR_SPACE_STAGING) continue;
        json_t *one = json_object();
        failed |= json_object_set_new(all, zr_space_name((zr_space)s), one);
        failed |= set_categories(one, device ? memory->category_bytes : space->category_bytes);
        failed |= json_object_set_new(one, "total", json_integer(device ? memory->total_bytes : space->total_bytes));
    }
    return failed;
}

static json_t *memory_json(const zr_memory *memory)
{
    json_t *object = json_object();
    int failed = set_categories(object, memory->category_bytes);
    failed |= json_object_set_new(object, "states", json_integer(memory->states_bytes));
    failed |= json_object_set_new(object, "total", json_integer(memory->total_bytes));
    failed |= set_spaces(object, memory);
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static int64_t total_of(const zr_traffic *traffic)
{
    int64_t total = 0;
    for (int kind = 0; kind < ZR_TRAFFIC_KINDS; kind++) total += traffic->bytes[kind];
    return total;
}

static int set_traffic(json_t *object, const zr_traffic *traffic)
{
    int failed = object ? 0 : -1;
    for (int kind = 0; kind < ZR_TRAFFIC_KINDS; kind++)
        failed |= json_object_set_new(object, traffic_key[kind], json_integer(traffic->bytes[kind]));
    return failed | json_object_set_new(object, "total", json_integer(total_of(traffic)));
}

/** Add a part of the traffic under its own name. */
static int set_part(json_t *object, const char *name, const zr_traffic *part)
{
    json_t *own = json_object();
    int failed = json_object_set_new(object, name, own);
    return failed | set_traffic(own, part);
}

static json_t *traffic_json(const zr_report *report)
{
    const zr_traffic *groups = &report->across[ZR_BORDER_GROUP], *hosts = &report->across[ZR_BORDER_HOST],
                     *layers = &report->across[ZR_BORDER_TENSOR];
    json_t *object = json_object();
    int failed = set_traffic(object, &report->traffic);
    if (total_of(groups) > 0) {
        const zr_traffic within = zr__report_within(report, ZR_BORDER_GROUP);
        failed |= set_part(object, "within", &within);
        failed |= set_part(object, "across", groups);
    }
    if (total_of(layers) > 0) {
        const zr_traffic data = zr__report_within(report, ZR_BORDER_TENSOR);
        failed |= set_part(object, "data", &data);
        failed |= set_part(object, "tensor", layers);
    }
    if (total_of(hosts) > 0) failed |= set_part(object, "across_hosts", hosts);
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

/** Return FLOPs as an integer, or as a real where they may exceed one. */
static json_t *flops_json(double flops)
{
    return flops < 0x1p62 ? json_integer((json_int_t)flops) : json_real(flops);
}

zr_status zr__report_json(const zr_report *report, char **json)
{
    *json = NULL;
    json_t *root = json_pack("{s:I, s:i, s:i, s:o, s:o, s:{s:o, s:o}}", "params", (json_int_t)report->params, "ranks",
                             report->ranks, "stage", report->stage, "memory", memory_json(&report->memory), "traffic",
                             traffic_json(report), "flops", "model", flops_json(report->flops_model), "hardware",
                             flops_json(report->flops_hardware));
    if (report->trained < report->params) json_object_set_new(root, "trained", json_integer(report->trained));
    char *text = root ? json_dumps(root, 0) : NULL;
    json_decref(root);
    ZR_CHECK(text, ZR_ERR_MEMORY, "no memory for a report");
    size_t bytes = strlen(text) + 1;
    *json = zr_alloc(bytes);
    if (*json) memcpy(*json, text, bytes);
    free(text);
    ZR_CHECK(*json, ZR_ERR_MEMORY, "no memory for a report of %zu bytes", bytes);
    return ZR_OK;
}
