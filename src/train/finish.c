/** What every part of a training run uses, and its end: saved weights, and what was measured. */
#include "train/run.h"

#include "train/export.h"
#include "train/host.h"
#include "train/metrics.h"

#include <math.h>
#include <string.h>

/* ---- between ranks ---------------------------------------------------------------------------- */

void zr__run_note(const zr__run *r, const char *text)
{
    if (r->comm->rank == 0 && r->observer->note) r->observer->note(r->observer->arg, text);
}

/** `st` comes out of a call that agreed on it: every rank has it, unless it says that ranks cannot agree. */
zr_status zr__run_agreed(zr__run *r, zr_status st)
{
    r->result->agreed = st != ZR_ERR_PEER && st != ZR_ERR_COMM && st != ZR_ERR_HANG && st != ZR_ERR_INTERNAL;
    return st;
}

zr_status zr__run_agree(zr__run *r, zr_status mine)
{
    return zr__run_agreed(r, zr_comm_agree(r->comm, mine));
}

/** Each of n numbers becomes its highest over the ranks. */
zr_status zr__run_highest(zr__run *r, double *number, int n)
{
    const double *all = r->comm->table;
    ZR_TRY(zr__run_agreed(r, zr_comm_scalars(r->comm, number, n, r->comm->table)));
    for (int i = 0; i < n * r->comm->size; i++) number[i % n] = fmax(number[i % n], all[i]);
    return ZR_OK;
}

/** The type that this rank's matrix products are made in: fp16 is always widened. */
zr_dtype zr__run_dtype(const zr__run *r)
{
    return r->plan->layout.dtype == ZR_BF16 && r->device->profile.bf16_products ? ZR_BF16 : ZR_F32;
}

/** 0: not measured. */
double zr__run_peak_flops(const zr__run *r)
{
    const zr_profile *profile = &r->device->profile;
    return zr__run_dtype(r) == ZR_BF16 ? profile->flops_bf16 : profile->flops_f32;
}

/* ---- end -------------------------------------------------------------------------------------- */

/** Highest over the processes: own anonymous memory, and own window bytes where ranks are processes. */
static zr_status measure_peak(zr__run *r)
{
    double mine = (double)zr__host_peak_bytes();
    if (mine >= 0.0 && strcmp(r->comm->transport, "mpi") == 0) mine += (double)r->plan->stage_bytes;
    ZR_TRY(zr__run_highest(r, &mine, 1));
    r->result->peak_rss_bytes = (int64_t)mine;
    return ZR_OK;
}

/** What was taken and moved, the highest rank's: each rank has counted its own. */
static zr_status measure_ranks(zr__run *r)
{
    enum { MEMORY = sizeof(zr_memory) / sizeof(int64_t), N = MEMORY + ZR_TRAFFIC_KINDS };
    _Static_assert(N <= ZR_COMM_SCALARS, "a report travels in one call");
    zr_measured measured;
    zr_report *report = &r->result->measured;
    int64_t bytes[N];
    double number[N];
    zr_engine_measured(r->engine, &measured);
    ZR_TRY(zr__run_agree(r, zr_report_measured(r->plan, &measured, report)));
    memcpy(bytes, &report->memory, sizeof(report->memory));
    memcpy(bytes + MEMORY, report->traffic.bytes, sizeof(report->traffic.bytes));
    for (int i = 0; i < N; i++) number[i] = (double)bytes[i];
    ZR_TRY(zr__run_highest(r, number, N));
    for (int i = 0; i < N; i++) bytes[i] = (int64_t)number[i];
    memcpy(&report->memory, bytes, sizeof(report->memory));
    memcpy(report->traffic.bytes, bytes + MEMORY, sizeof(report->traffic.bytes));
    return ZR_OK;
}

static void compare_with_plan(zr__run *r)
{
    const zr_report *planned = &r->result->planned, *measured = &r->result->measured;
    if (memcmp(&planned->memory, &measured->memory, sizeof(planned->memory)) != 0 ||
        memcmp(&planned->traffic, &measured->traffic, sizeof(planned->traffic)) != 0) {
        zr__run_note(r, "measured memory or traffic is not what was planned (run.json has both): please report this");
    }
}

static zr_status collect_timings(zr__run *r)
{
    const zr_profile *profile = &r->device->profile;
    if (!r->watch.timings) return ZR_OK;
    ZR_TRY(zr__run_agreed(r, zr__timings_collect(r->watch.timings, r->comm, &r->timings)));
    r->timings.peak_flops = zr__run_peak_flops(r);
    r->timings.peak_f32_flops = profile->flops_f32;
    r->timings.peak_memory_bytes_sec = profile->memory_bytes_sec;
    r->timings.peak_link_bytes_sec = profile->link_bytes_sec;
    if (r->comm->rank == 0) r->observer->timings(r->observer->arg, &r->timings);
    return ZR_OK;
}

static zr_status write_run_json(zr__run *r)
{
    char *json = NULL;
    if (r->comm->rank != 0) return ZR_OK;
    ZR_TRY(zr__metrics_run(&r->info, r->result, r->watch.timings ? &r->timings : NULL, &json));
    zr_status st = zr__run_dir_write(&r->dir, "run.json", json);
    zr_free(json);
    return st;
}

zr_status zr__run_finish(zr__run *r, double begin)
{
    char dir[PATH_MAX];
    r->result->agreed = false;
    ZR_TRY(zr_engine_flush(r->engine));
    ZR_TRY(measure_ranks(r));
    ZR_TRY(zr__run_agree(r, zr__path_join(dir, r->config->train.output_dir, "model")));
    ZR_TRY(zr__run_agreed(r, zr__export(dir, &r->model, r->plan, r->engine, r->comm)));
    r->result->saved = true;
    ZR_TRY(collect_timings(r));
    ZR_TRY(measure_peak(r));
    r->result->wall_sec = zr_clock_sec() - begin;
    ZR_TRY(zr__run_agree(r, write_run_json(r)));
    if (r->comm->rank == 0) compare_with_plan(r);
    return ZR_OK;
}
