/* `zr simulate --paper`: zr's numbers beside the numbers of the ZeRO papers. The rows are clusters, simulated runs,
 * ratios, BERT-Large's training (papers_record.c), and the largest model and batch of C1 to C5. One set of constants
 * prices all runs (src/simulate/clusters.c). The constants were fitted to the four rows marked CLI_PAPERS_FITTED. No
 * constant is tuned for a single row. */
#include "cli/plan/profile.h"
#include "cli/papers/papers.h"
#include "cli/plan/max.h"
#include "cli/simulate/simulate.h"
#include "simulate/simulate.h"

#include <stdio.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

typedef struct clusters {
    zr_cluster dgx2, azure;
} clusters;

void cli_papers_add(cli_papers_rows *rows, const cli_papers_row *row, const char *format, ...)
{
    va_list list;
    cli_papers_row *one = &rows->row[rows->n++];
    *one = *row;
    va_start(list, format);
    (void)vsnprintf(one->label, sizeof(one->label), format, list);
    va_end(list);
}

/* ---- table 3: the clusters ---------------------------------------------------------------------- */

static void add_clusters(cli_papers_rows *rows, const clusters *c)
{
    const struct {
        const char *label;
        const zr_cluster *cluster;
        int nodes, gpus, gb;
    } all[] = {{"Azure NC24r v3", &c->azure, 8, 4, 16}, {"DGX-2H", &c->dgx2, 25, 16, 32}};
    for (int i = 0; i < 2; i++) {
        const zr_cluster *own = all[i].cluster;
        cli_papers_row row = {.source = "v1", .table = "3", .mark = CLI_PAPERS_NO_SPEED};
        row.unit = "nodes", row.paper = all[i].nodes, row.zr = (double)own->devices / own->host_devices;
        cli_papers_add(rows, &row, "%s", all[i].label);
        row.unit = "GPUs a node", row.paper = all[i].gpus, row.zr = own->host_devices;
        cli_papers_add(rows, &row, "%s", all[i].label);
        row.unit = "GB a GPU", row.paper = all[i].gb, row.zr = round((double)own->device.memory_bytes / 1e9);
        cli_papers_add(rows, &row, "%s", all[i].label);
    }
}

/* ---- runs ---------------------------------------------------------------------------------------- */

/* Change the simulation and the memory of ZeRO-OS's plan to those with one fused buffer for all gradients, which are
 * reduced after the backward pass. bench/baselines.py explains this formula, which is tested. */
static zr_status simulate_fused(cli_papers_row *row, const zr_plan *plan, const zr_cluster *cluster,
                                const zr_simulate_options *options)
{
    cli_papers_run run = *row->run;
    zr_simulation late;
    zr_plan *once = NULL;
    run.system = CLI_PAPERS_ZERO_OS_LATE;
    ZR_TRY(cli_papers_plan(&run, true, &cluster->device, &once));
    zr_status st = zr_simulate(once, cluster, options, &late, NULL);
    zr_plan_destroy(&once);
    ZR_TRY(st);
    const double kernel_bytes_sec = cluster->device.memory_bytes_sec * cluster->memory_share,
                 squares_sec = (double)plan->memory.category_bytes[ZR_CATEGORY_OPTIM] / 6 / kernel_bytes_sec,
                 latency_sec = cluster->link[cluster->n_links - 1].latency_sec * (plan->group[ZR_GROUP_DATA].size - 1),
                 waits_sec = late.exposed_sec[ZR_CAUSE_STAGE] + plan->n_units * latency_sec + squares_sec,
                 more_sec = waits_sec - row->made.exposed_sec[ZR_CAUSE_STAGE], had_sec = row->made.price.step_sec,
                 ratio = had_sec / (had_sec + more_sec);
    row->made.exposed_sec[ZR_CAUSE_STAGE] = waits_sec;
    row->made.price.step_sec += more_sec;
    row->made.price.exposed_sec += more_sec;
    row->made.samples_sec *= ratio;
    row->made.tokens_sec *= ratio;
    row->made.flops_sec *= ratio;
    row->made.mfu *= ratio;
    row->memory_bytes +=
        plan->memory.category_bytes[ZR_CATEGORY_PARAM] - plan->persistent[plan->staging[ZR_GROUP_DATA]].bytes;
    return ZR_OK;
}

static zr_status papers_add_run(cli_papers_rows *rows, const char *source, const cli_papers_run *run,
                                const zr_cluster *on)
{
    static const char *const unit[] = {[CLI_PAPERS_SAMPLES] = "samples/s", [CLI_PAPERS_TFLOPS] = "TFLOP/s"};
    const zr_simulate_options options = {.scores_bytes = CLI_PAPERS_SCORES_BYTES,
                                         .product_multiple = CLI_PAPERS_PRODUCT_MULTIPLE,
                                         .copies_hold = true,
                                         .comm_beside = true};
    zr_cluster cluster = *on;
    cli_papers_row row = {.source = source,
                          .table = run->table,
                          .unit = unit[run->unit],
                          .gpus = run->gpus,
                          .tensor = run->tensor,
                          .batch = run->batch,
                          .paper = run->printed,
                          .mark = run->mark,
                          .limit_bytes = cluster.device.memory_bytes,
                          .run = run};
    zr_plan *plan = NULL;
    zr__cluster_widen(&cluster, run->gpus);
    ZR_TRY(cli_papers_plan(run, true, &cluster.device, &plan));
    zr_status st = zr_simulate(plan, &cluster, &options, &row.made, NULL);
    row.memory_bytes = plan->memory.total_bytes;
    if (st == ZR_OK && run->system == CLI_PAPERS_ZERO_OS) st = simulate_fused(&row, plan, &cluster, &options);
    zr_plan_destroy(&plan);
    ZR_TRY(st);
    row.zr = run->unit == CLI_PAPERS_SAMPLES ? row.made.samples_sec : row.made.flops_sec / 1e12;
    const char *system = cli_papers_stage_name[cli_papers_stage(run)];
    if (run->system == CLI_PAPERS_MEGATRON) system = run->tensor == 1 ? "DDP" : "Megatron";
    if (run->system == CLI_PAPERS_ZERO_OS) system = "ZeRO-OS";
    snprintf(row.system, sizeof(row.system), "%s%s", system, cli_papers_kept_name[run->kept]);
    cli_papers_add(rows, &row, "%s", run->label);
    return ZR_OK;
}

static zr_status papers_add_runs(cli_papers_rows *rows, const clusters *c)
{
    for (int i = 0; i < cli_papers_v1_n; i++) {
        const cli_papers_run *run = &cli_papers_v1[i];
        const bool azure = strcmp(run->table, "7") == 0;
        ZR_TRY(papers_add_run(rows, "v1", run, azure ? &c->azure : &c->dgx2));
    }
    for (int i = 0; i < CLI_PAPERS_APPENDIX; i++)
        ZR_TRY(papers_add_run(rows, "SC20", &cli_papers_appendix[i], &c->dgx2));
    return ZR_OK;
}

const cli_papers_row *cli_papers_find(const cli_papers_rows *rows, const char *table, const char *label,
                                      cli_papers_system system, int gpus)
{
    for (int i = 0; i < rows->n; i++) {
        const cli_papers_row *r = &rows->row[i];
        if (r->run && r->run->system == system && strcmp(r->table, table) == 0 && strcmp(r->label, label) == 0 &&
            (gpus == 0 || r->gpus == gpus))
            return r;
    }
    return NULL;
}

/* ---- ratios and means ---------------------------------------------------------------------------- */

/* Add the mean TFLOP/s of ZeRO over the models from 8B to 100B. The SC20 paper prints only this mean: 15 PFLOP/s, or 38
 * TFLOP/s per GPU. */
static void add_mean(cli_papers_rows *rows)
{
    static const char *const labels[] = {"8B", "20B", "40B", "60B", "80B", "100B"};
    enum { N = sizeof(labels) / sizeof(*labels) };
    cli_papers_row row = {.source = "SC20",
                          .table = "Fig2",
                          .unit = "TFLOP/s",
                          .system = "Pos+g Pa",
                          .gpus = 400,
                          .paper = 38,
                          .mark = CLI_PAPERS_COUNTS};
    for (int i = 0; i < N; i++) row.zr += cli_papers_find(rows, "Fig2", labels[i], CLI_PAPERS_ZERO_2, 0)->zr / N;
    cli_papers_add(rows, &row, "mean of 8B to 100B");
}

/* Add the ratios of ZeRO-OS to Megatron in samples per second. With `gpus`, multiply a ratio by Megatron's number of
 * GPUs over ZeRO's. The product tells how many times fewer GPUs ZeRO needs for the same throughput. */
static void add_ratios(cli_papers_rows *rows)
{
    for (int i = 0; i < CLI_PAPERS_RATIOS; i++) {
        const cli_papers_ratio *r = &cli_papers_ratios[i];
        const cli_papers_row *zero = cli_papers_find(rows, r->table, r->label, CLI_PAPERS_ZERO_OS, 0),
                             *other = cli_papers_find(rows, r->table, r->label, CLI_PAPERS_MEGATRON, 0);
        cli_papers_row row = {.source = "v1",
                              .table = r->table,
                              .unit = r->gpus ? "fewer GPUs" : "ratio",
                              .paper = r->printed,
                              .zr = zero->made.samples_sec / other->made.samples_sec,
                              .mark = CLI_PAPERS_SAME_RUN};
        if (r->gpus) row.zr *= (double)other->gpus / zero->gpus;
        cli_papers_add(rows, &row, "%s ZeRO-OS/Megatron", r->label);
    }
}

/* ---- C1 to C5: the largest model, the largest batch ------------------------------------------------ */

/* Add the largest model, or the largest batch of the 60B model, that a configuration of ZeRO-R fits. Also add the bytes
 * that a GPU needs at the paper's size. */
static zr_status add_largest(cli_papers_rows *rows, const cli_papers_preset *preset, const zr_profile *profile,
                             cli_max_what what)
{
    const bool batch = what == CLI_MAX_BATCH;
    cli_papers_row row = {.source = "SC20",
                          .table = batch ? "Fig8" : "Fig6",
                          .unit = batch ? "samples" : "1e9 params",
                          .gpus = batch ? 128 : 400,
                          .tensor = CLI_PAPERS_TENSOR,
                          .batch = batch ? preset->batch : 16,
                          .paper = batch ? preset->batch : preset->largest_billion,
                          .limit_bytes = profile->machine.memory_bytes,
                          .mark = CLI_PAPERS_NO_SPEED};
    const cli_target target = {.ranks = row.gpus, .profile = *profile, .limit_bytes = row.limit_bytes};
    zr_config *config = NULL;
    ZR_TRY(cli_papers_preset_config(preset, batch ? "zero-60b-75x8192x64" : NULL, row.gpus, row.batch, &config));
    cli_max max = {.what = what, .config = config, .target = &target};
    zr_status st = cli_max_needs(&max, batch ? row.batch : zr_config_sizes(config).layers, &row.memory_bytes);
    if (st == ZR_OK) st = cli_max_find(&max);
    zr_config_destroy(&config);
    ZR_TRY(st);
    row.zr = batch ? (double)max.n : max.params / 1e9;
    snprintf(row.system, sizeof(row.system), "%s%s", cli_papers_stage_name[preset->stage],
             cli_papers_kept_name[preset->kept]);
    cli_papers_add(rows, &row, batch ? "%s batch of 60B" : "%s largest model", preset->name);
    return ZR_OK;
}

/* ---- all ------------------------------------------------------------------------------------------ */

static zr_status fill_rows(cli_papers_rows *rows, const char *cluster)
{
    clusters c;
    zr_profile profile;
    ZR_TRY(zr_cluster_read(cluster ? cluster : "dgx2x25", &c.dgx2));
    ZR_TRY(zr_cluster_read(cluster ? cluster : "azure-nc24rs-v3x8", &c.azure));
    rows->elsewhere = cluster != NULL;
    if (!cluster) add_clusters(rows, &c);
    ZR_TRY(papers_add_runs(rows, &c));
    add_mean(rows);
    add_ratios(rows);
    ZR_TRY(cli_papers_add_record(rows, &c.dgx2));
    if (cluster) return ZR_OK;
    ZR_TRY(cli_profile("v100-dgx2", &profile));
    for (int i = 0; i < CLI_PAPERS_PRESETS; i++)
        ZR_TRY(add_largest(rows, &cli_papers_presets[i], &profile, CLI_MAX_LAYERS));
    for (int i = 0; i < CLI_PAPERS_PRESETS; i++)
        ZR_TRY(add_largest(rows, &cli_papers_presets[i], &profile, CLI_MAX_BATCH));
    return ZR_OK;
}

zr_status cli_simulate_papers(const cli_simulate_options *o, bool json)
{
    if (o->plot) ZR_TRY(cli_papers_check_plot(o->plot)); /* before it takes seconds */
    cli_papers_rows *rows = zr_alloc(sizeof(*rows));
    ZR_CHECK(rows, ZR_ERR_MEMORY, "no memory for the papers' rows");
    zr_status st = fill_rows(rows, o->cluster);
    if (st == ZR_OK && o->svg) st = cli_papers_draw(o->svg, o->plot, rows);
    if (st == ZR_OK && json)
        st = cli_papers_print_json(stdout, rows);
    else if (st == ZR_OK)
        cli_papers_print(stdout, rows);
    zr_free(rows);
    return st;
}
