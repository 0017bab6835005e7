#include "zr/train.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *const traffic_key[ZR_TRAFFIC_KINDS] = {[ZR_TRAFFIC_REDUCE_SCATTER] = "reduce_scatter",
                                                          [ZR_TRAFFIC_ALL_GATHER] = "all_gather",
                                                          [ZR_TRAFFIC_ALL_REDUCE] = "all_reduce"};

zr_report zr_report_planned(const zr_plan *plan)
{
    return (zr_report){.params = plan->params,
                       .ranks = plan->layout.ranks,
                       .stage = plan->layout.stage,
                       .memory = plan->memory,
                       .traffic = plan->traffic,
                       .across = plan->across,
                       .flops_model = plan->flops_model,
                       .flops_hardware = plan->flops_hardware};
}

/** Of all steps what one of them moves. */
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

zr_status zr_report_measured(const zr_plan *plan, const zr_measured *measured, zr_report *report)
{
    *report = zr_report_planned(plan);
    report->memory = measured->memory;
    ZR_TRY(a_step(&measured->traffic, measured->steps, &report->traffic));
    return a_step(&measured->across, measured->steps, &report->across);
}

static int set_categories(json_t *object, const int64_t category_bytes[ZR_CATEGORIES])
{
    int failed = object ? 0 : -1;
    for (int c = 0; c < ZR_CATEGORIES; c++)
        failed |= json_object_set_new(object, zr_category_name((zr_category)c), json_integer(category_bytes[c]));
    return failed;
}

/** The spaces that are used, side by side. */
static json_t *spaces_json(const zr_memory *memory)
{
    json_t *all = json_object();
    int failed = all ? 0 : -1;
    for (int s = 0; s < ZR_SPACES; s++) {
        const zr_space_memory *space = &memory->space[s];
        if (space->total_bytes == 0) continue;
        json_t *object = json_object();
        failed |= set_categories(object, space->category_bytes);
        failed |= json_object_set_new(object, "total", json_integer(space->total_bytes));
        failed |= json_object_set_new(all, zr_space_name((zr_space)s), object);
    }
    if (!failed) return all;
    json_decref(all);
    return NULL;
}

static json_t *memory_json(const zr_memory *memory)
{
    json_t *object = json_object();
    int failed = set_categories(object, memory->category_bytes);
    failed |= json_object_set_new(object, "states", json_integer(memory->states_bytes));
    failed |= json_object_set_new(object, "total", json_integer(memory->total_bytes));
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

static json_t *traffic_json(const zr_traffic *traffic)
{
    json_t *object = json_object();
    int failed = object ? 0 : -1;
    for (int kind = 0; kind < ZR_TRAFFIC_KINDS; kind++)
        failed |= json_object_set_new(object, traffic_key[kind], json_integer(traffic->bytes[kind]));
    failed |= json_object_set_new(object, "total", json_integer(total_of(traffic)));
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

/** FLOPs are whole; a real only where they may exceed an integer. */
static json_t *flops_json(double flops)
{
    return flops < 0x1p62 ? json_integer((json_int_t)flops) : json_real(flops);
}

zr_status zr_report_json(const zr_report *report, char **json)
{
    *json = NULL;
    json_t *root =
        json_pack("{s:I, s:i, s:i, s:o, s:o, s:{s:o, s:o}, s:o}", "params", (json_int_t)report->params, "ranks",
                  report->ranks, "stage", report->stage, "memory", memory_json(&report->memory), "traffic",
                  traffic_json(&report->traffic), "flops", "model", flops_json(report->flops_model), "hardware",
                  flops_json(report->flops_hardware), "spaces", spaces_json(&report->memory));
    if (root && total_of(&report->across) > 0) json_object_set_new(root, "across", traffic_json(&report->across));
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
