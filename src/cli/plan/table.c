/** The table of stages 0 to 3 that `zr plan` and the banner of a run print: memory, traffic and FLOPs. This file also
 * prints the list of a schedule's steps. */
#include "base/text/text.h"
#include "cli/plan/table.h"
#include "cli/shell/message.h"
#include "train/dir/report.h"
#include "train/host/limits.h"
#include "train/setup/setup.h"

#include <stdio.h>
#include <inttypes.h>

const char *cli_category_words(zr_category category)
{
    static const char *const words[ZR_CATEGORIES] = {[ZR_CATEGORY_PARAM] = "parameters",
                                                     [ZR_CATEGORY_GRAD] = "gradients",
                                                     [ZR_CATEGORY_OPTIM] = "optimizer states",
                                                     [ZR_CATEGORY_ACT] = "activations",
                                                     [ZR_CATEGORY_CHECKPOINT] = "checkpoints",
                                                     [ZR_CATEGORY_BUFFER] = "staging buffers",
                                                     [ZR_CATEGORY_WORK] = "scratch"};
    return words[category];
}

const char *cli_recompute_name(zr_recompute recompute, int64_t every, char text[32])
{
    const char *name = zr__recompute_name(recompute);
    if (recompute == ZR_RECOMPUTE_UNIT && every > 1)
        snprintf(text, 32, "%s/%lld", name, (long long)every);
    else
        snprintf(text, 32, "%s", name);
    return text;
}

double cli_traffic_bytes(zr_traffic traffic)
{
    double sum = 0;
    for (int i = 0; i < ZR_TRAFFIC_KINDS; i++) sum += (double)traffic.bytes[i];
    return sum;
}

/** Print a row of the table: a name, and a cell for each stage. */
static void print_cells(FILE *out, const cli_table *table, bool color, const char *name, char cell[4][ZR_SIZE_BYTES])
{
    fprintf(out, "  %-22s", name);
    for (int stage = 0; stage < 4; stage++) {
        const bool mark = color && stage == table->chosen;
        fprintf(out, "%s%14s%s", mark ? CLI_BOLD : "", cell[stage], mark ? CLI_PLAIN : "");
    }
    fputc('\n', out);
}

static void print_stage_names(FILE *out, const cli_table *table, bool color)
{
    char cell[4][ZR_SIZE_BYTES];
    for (int stage = 0; stage < 4; stage++)
        snprintf(cell[stage], sizeof(cell[stage]), "%sstage %d", stage == table->chosen ? "* " : "", stage);
    print_cells(out, table, color, "memory per rank", cell);
}

static void print_fits(FILE *out, const cli_table *table)
{
    char name[48], cell[4][ZR_SIZE_BYTES];
    if (!table->memory_bytes) return;
    snprintf(name, sizeof(name), "fits in %s?", ZR_SIZE((double)table->memory_bytes));
    for (int stage = 0; stage < 4; stage++) {
        snprintf(cell[stage], sizeof(cell[stage]), "%s", table->planned[stage] ? table->fits[stage] : "-");
    }
    print_cells(out, table, false, name, cell);
}

/** Print a row of sizes. The expression `bytes` is evaluated for the report `r` of each stage. */
#define ROW(name, bytes)                                                                                               \
    do {                                                                                                               \
        char cell[4][ZR_SIZE_BYTES] = {"-", "-", "-", "-"};                                                            \
        for (int stage = 0; stage < 4; stage++) {                                                                      \
            const zr_report *r = &table->report[stage];                                                                \
            if (table->planned[stage]) zr__text_size((double)(bytes), cell[stage]);                                    \
        }                                                                                                              \
        print_cells(out, table, color, name, cell);                                                                    \
    } while (0)

/** Print a row for each kind of model states that the report of the chosen stage has in a space other than the
 * device. */
static void print_away_rows(FILE *out, const cli_table *table, bool color, zr_space space, const char *where)
{
    static const zr_category states[] = {ZR_CATEGORY_PARAM, ZR_CATEGORY_GRAD, ZR_CATEGORY_OPTIM};
    char name[48];
    for (int i = 0; i < 3; i++) {
        const zr_category c = states[i];
        if (table->report[table->chosen].memory.space[space].category_bytes[c] == 0) continue;
        snprintf(name, sizeof(name), "%s: %s", where, cli_category_words(c));
        ROW(name, r->memory.space[space].category_bytes[c]);
    }
}

/** Return whether any model states are offloaded to host memory. */
static bool states_on_host(const zr_homes *home)
{
    return home->param == ZR_SPACE_HOST || home->grad == ZR_SPACE_HOST || home->optim == ZR_SPACE_HOST;
}

static void print_memory_rows(FILE *out, const cli_table *table, bool color)
{
    enum { PARAM = ZR_CATEGORY_PARAM, OPTIM = ZR_CATEGORY_OPTIM, CHECKPOINT = ZR_CATEGORY_CHECKPOINT };
    const zr_memory *chosen = &table->report[table->chosen].memory;
    const int64_t *on_host = chosen->space[ZR_SPACE_HOST].category_bytes;
    for (int c = 0; c < ZR_CATEGORIES; c++)
        if (c != CHECKPOINT || chosen->category_bytes[c] > 0)
            ROW(cli_category_words((zr_category)c), r->memory.category_bytes[c]);
    ROW("model states", r->memory.states_bytes);
    ROW("total (peaks differ)", r->memory.total_bytes);
    if (on_host[CHECKPOINT] > 0) ROW("on host: checkpoints", r->memory.space[ZR_SPACE_HOST].category_bytes[CHECKPOINT]);
    if (states_on_host(&table->report[table->chosen].home))
        print_away_rows(out, table, color, ZR_SPACE_HOST, "host");
    else if (on_host[PARAM] + on_host[OPTIM] > 0)
        ROW("on host: saved copy", r->memory.space[ZR_SPACE_HOST].category_bytes[PARAM] +
                                       r->memory.space[ZR_SPACE_HOST].category_bytes[OPTIM]);
    print_away_rows(out, table, color, ZR_SPACE_DISK, "disk");
    if (chosen->space[ZR_SPACE_DISK].category_bytes[CHECKPOINT] > 0)
        ROW("disk: checkpoints", r->memory.space[ZR_SPACE_DISK].category_bytes[CHECKPOINT]);
}

static void print_traffic_rows(FILE *out, const cli_table *table, bool color)
{
    static const char *const words[ZR_TRAFFIC_KINDS] = {[ZR_TRAFFIC_REDUCE_SCATTER] = "reduce-scatter",
                                                        [ZR_TRAFFIC_ALL_GATHER] = "all-gather",
                                                        [ZR_TRAFFIC_ALL_REDUCE] = "all-reduce (scalars)",
                                                        [ZR_TRAFFIC_PIPELINE] = "pipeline (values)"};
    const zr_traffic *across = table->report[table->chosen].across;
    for (int kind = 0; kind < ZR_TRAFFIC_KINDS; kind++) ROW(words[kind], r->traffic.bytes[kind]);
    ROW("total", cli_traffic_bytes(r->traffic));
    if (cli_traffic_bytes(across[ZR_BORDER_GROUP]) > 0) {
        ROW("of it within groups", cli_traffic_bytes(zr__report_within(r, ZR_BORDER_GROUP)));
        ROW("of it across groups", cli_traffic_bytes(r->across[ZR_BORDER_GROUP]));
    }
    if (cli_traffic_bytes(across[ZR_BORDER_TENSOR]) > 0) {
        ROW("of it for ZeRO", cli_traffic_bytes(zr__report_within(r, ZR_BORDER_TENSOR)));
        ROW("of it within layers", cli_traffic_bytes(r->across[ZR_BORDER_TENSOR]));
    }
    if (cli_traffic_bytes(across[ZR_BORDER_HOST]) > 0)
        ROW("of it across hosts", cli_traffic_bytes(r->across[ZR_BORDER_HOST]));
}

int64_t cli_read_from_disk(const zr_report *report)
{
    int64_t sum = 0;
    for (int to = 0; to < ZR_SPACES; to++) sum += report->copied[ZR_SPACE_DISK][to];
    return sum;
}

int64_t cli_written_to_disk(const zr_report *report)
{
    int64_t sum = 0;
    for (int from = 0; from < ZR_SPACES; from++) sum += report->copied[from][ZR_SPACE_DISK];
    return sum;
}

/** Print the bytes that a rank copies from and to disk and, with offloaded states, from and to host memory. */
static void print_copied_rows(FILE *out, const cli_table *table, bool color)
{
    const zr_report *chosen = &table->report[table->chosen];
    const bool disk = cli_read_from_disk(chosen) + cli_written_to_disk(chosen) > 0;
    const bool host = chosen->copied[ZR_SPACE_HOST][ZR_SPACE_DEVICE] > 0;
    if (!disk && !host) return;
    fprintf(out, "  copied per rank and step\n");
    if (disk) {
        ROW("read from disk", cli_read_from_disk(r));
        ROW("written to disk", cli_written_to_disk(r));
    }
    if (host) {
        ROW("host to device", r->copied[ZR_SPACE_HOST][ZR_SPACE_DEVICE]);
        ROW("device to host", r->copied[ZR_SPACE_DEVICE][ZR_SPACE_HOST]);
    }
}

void cli_table_print(FILE *out, const cli_table *table, bool color)
{
    const zr_report *report = &table->report[table->chosen];
    print_stage_names(out, table, color);
    print_memory_rows(out, table, color);
    print_fits(out, table);
    fprintf(out, "  traffic per rank and step\n");
    print_traffic_rows(out, table, color);
    print_copied_rows(out, table, color);
    fprintf(out, "  one step of all ranks: %sFLOP of the model, %sFLOP computed\n", ZR_AMOUNT(report->flops_model),
            ZR_AMOUNT(report->flops_hardware));
}

void cli_table_fill(cli_table *table, const zr_config *config, const zr_plans *chosen)
{
    const zr_plan *one = chosen->role[0];
    table->chosen = (int)config->zero.stage;
    for (int stage = 0; stage < 4; stage++) {
        ZR_AUTO(zr__plans_clear) zr_plans other = {0};
        bool made = stage == table->chosen;
        if (!made && zr__train_plans(config, one->ranks, stage, &one->profile, &other) != ZR_OK) continue;
        table->report[stage] = zr__report_planned(made ? chosen : &other);
        table->planned[stage] = true;
    }
}

static void print_waits(FILE *out, const zr_schedule *schedule, const zr_step *step)
{
    for (int32_t w = 0; w < step->n_waits; w++) {
        const zr_wait *wait = &schedule->wait[step->waits + w];
        fprintf(out, "%s%s%s%" PRId32, w ? "," : "  waits ", wait->before ? "before:" : "", wait->pace ? "pace:" : "",
                wait->step);
    }
}

/** Print a step's group, unless it is the rank alone or all data-parallel ranks. */
static void print_group(FILE *out, const zr_plan *plan, int32_t group)
{
#define AXIS_NAME(name, text, rows) text,
    static const char *const axis[] = {ZR_AXIS_LIST(AXIS_NAME)};
#undef AXIS_NAME
    if (group == ZR_GROUP_SELF || plan->group[group].same == plan->group[ZR_GROUP_DATA].same) return;
    fprintf(out, group == ZR_GROUP_ALL ? "  group all" : "  group");
    for (int a = 0; a < ZR_AXES && group != ZR_GROUP_ALL; a++)
        if (group >> a & 1) fprintf(out, " %s", axis[a]);
}

/** Print the group, number of rounds and condition of a step. Skip properties that the step does not have. */
static void print_conditions(FILE *out, const zr_plan *plan, const zr_step *step)
{
    static const char *const when[] = {[ZR_WHEN_STALE] = "  where stale",
                                       [ZR_WHEN_FIRST] = "  first round",
                                       [ZR_WHEN_LATER] = "  later rounds",
                                       [ZR_WHEN_SAVE] = "  where saved"};
    print_group(out, plan, step->group);
    if (step->kind == ZR_STEP_REPEAT) fprintf(out, " %" PRId64 " rounds", step->rounds);
    const bool reduces = zr_step_traits_of(step->kind).move == ZR_MOVE_REDUCE;
    const bool of_micro = step->kind == ZR_STEP_BATCH || step->op >= 0 || step->micro > 0 || reduces;
    if (plan->rounds < plan->layout.accum && of_micro) fprintf(out, "  micro-batch %" PRId32, step->micro + 1);
    if (step->replay) fprintf(out, "  again");
    if (step->nccl) fprintf(out, "  by NCCL");
    if (step->kind == ZR_STEP_LOSS && plan->terms > 1)
        fprintf(out, "  of %s", zr_graph_loss_name(plan->graph[ZR_SCHEDULE_TRAIN], step->term));
    if (step->when != ZR_WHEN_ALWAYS) fputs(when[step->when], out);
}

void cli_schedule_print(FILE *out, const zr_plan *plan)
{
    const zr_schedule *schedule = &plan->schedule[ZR_SCHEDULE_TRAIN];
    const zr_graph *graph = plan->graph[ZR_SCHEDULE_TRAIN];
    for (int32_t i = 0; i < schedule->n_steps; i++) {
        const zr_step *step = &schedule->step[i];
        const char *unit = step->unit >= 0 ? zr_graph_unit_info(graph, step->unit)->name : "";
        fprintf(out, "%5" PRId32 " %-7s %-11s %-12s", i, zr_stream_name(step->stream), zr_step_kind_name(step->kind),
                unit);
        if (step->op >= 0) fprintf(out, " %-18s", zr_graph_get_op(graph, step->op)->def->name);
        if (step->unit >= 0 && step->range.count > 0)
            fprintf(out, " elements %" PRId64 "+%" PRId64, step->range.first, step->range.count);
        if (zr_step_buckets(step) > 1)
            fprintf(out, " in %" PRId64 " buckets of %" PRId64, zr_step_buckets(step), step->bucket_elems);
        print_conditions(out, plan, step);
        print_waits(out, schedule, step);
        fputc('\n', out);
    }
}
