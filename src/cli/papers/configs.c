/* `zr plan --configs`: the SC20 paper (Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion
 * Parameter Models) beside zr's plans. The runs are the 48 runs in the appendix of the paper's artifact, and ZeRO-R's
 * configurations C1 to C5 at the paper's largest models. M is the tensor-parallel degree. The paper's formulas divide
 * all states by M. In zr's plans some tensors are replicated on all M ranks. */
#include "base/json/json_write.h"
#include "cli/papers/papers.h"
#include "cli/plan/profile.h"
#include "train/setup/setup.h"

#include <stdio.h>
#include <string.h>

/* ---- bytes ------------------------------------------------------------------------------------ */

/* Return the bytes of a rank's model states by the paper's formula. The training uses mixed precision, Adam (K = 12)
 * and `tensor` tensor-parallel ranks. */
static double formula_bytes(double params, int stage, int tensor, int ranks)
{
    const double n = ranks, each[] = {16, 4 + 12 / n, 2 + 14 / n, 16 / n};
    return params * each[stage] / tensor;
}

/* Return how many bytes of a rank's model states are redundant copies. Norms, position embeddings and biases of
 * row-parallel layers are replicated on all M tensor-parallel ranks, though one copy would be enough. Assume that every
 * element needs the same number of bytes. */
static double copies_bytes(const zr_plan *plan)
{
    const zr_graph *graph = plan->graph[ZR_SCHEDULE_TRAIN];
    const double parts = plan->layout.tensor;
    double all = 0, copied = 0;
    for (int32_t u = 0; u < plan->n_units; u++) all += (double)plan->unit[u].padded_elems;
    for (int32_t p = 0; p < zr_graph_params(graph); p++) {
        const zr_param_info *param = zr_graph_param(graph, p);
        if (param->cut.parts == 0) copied += (double)zr_shape_elems(&param->shape);
    }
    return (double)plan->memory.states_bytes * copied * (parts - 1) / parts / all;
}

/* ---- the appendix ------------------------------------------------------------------------------ */

typedef struct planned_run {
    int ranks; /* data-parallel ranks */
    int64_t params;
    double states, formula, copies; /* bytes of a rank's model states: in zr's plan, by the paper's formula, and in
                                       redundant copies (copies_bytes) */
    /* Percentages of `formula`. `deviation`: difference of `states` without the copies from `formula`. `copies_part`:
     * size of the copies. */
    double deviation, copies_part;
} planned_run;

static zr_status plan_run(const cli_papers_run *r, const zr_profile *profile, planned_run *planned)
{
    zr_plan *plan = NULL;
    ZR_TRY(cli_papers_plan(r, false, &profile->machine, &plan));
    planned_run p = {.ranks = r->gpus / r->tensor,
                     .params = plan->params,
                     .states = (double)plan->memory.states_bytes,
                     .copies = copies_bytes(plan)};
    p.formula = formula_bytes((double)p.params, cli_papers_stage(r), r->tensor, p.ranks);
    p.deviation = cli_papers_percent(p.states - p.copies, p.formula);
    p.copies_part = 100 * p.copies / p.formula;
    *planned = p;
    zr_plan_destroy(&plan);
    return ZR_OK;
}

static const char *system_of(const cli_papers_run *r)
{
    return r->system == CLI_PAPERS_MEGATRON ? "Baseline" : "ZeRO";
}

static void print_planned_runs(FILE *out, const planned_run planned[CLI_PAPERS_APPENDIX])
{
    fprintf(out,
            "The %d runs of the appendix of ZeRO's artifact (SC20): model states of one rank\n"
            "in GB (1e9 bytes), Adam, fp16, layout paper; N data-parallel ranks x M that\n"
            "share each layer; B samples a micro-batch; vocabulary %d, padded to M\n"
            "zr: planned; paper: its formula; %%: zr against paper, each tensor counted once;\n"
            "copies: what is added, as each of the M ranks has norms, biases of rows and\n"
            "positions whole: zr = paper x (1 + %% + copies)\n",
            CLI_PAPERS_APPENDIX, CLI_PAPERS_VOCABULARY);
    const char *figure = "";
    fprintf(out, "\n%14s stage GPUs   N   M %13s  B %7s%8s%7s%7s\n", "", "shape", "zr", "paper", "%", "copies");
    for (int i = 0; i < CLI_PAPERS_APPENDIX; i++) {
        const cli_papers_run *r = &cli_papers_appendix[i];
        const planned_run *p = &planned[i];
        char shape[40];
        if (strcmp(figure, r->table) != 0) fprintf(out, "%s\n", r->table);
        figure = r->table;
        snprintf(shape, sizeof(shape), "%dx%dx%d", r->layers, r->hidden, r->heads);
        fprintf(out, "%-5s %-8s %5d %4d %3d %3d %13s %2d %7.2f%8.2f%+7.2f%+7.2f\n", r->label, system_of(r),
                cli_papers_stage(r), r->gpus, p->ranks, r->tensor, shape, r->batch, p->states / 1e9, p->formula / 1e9,
                cli_papers_rounded(p->deviation), cli_papers_rounded(p->copies_part));
    }
}

static void add_runs_json(zr__json_out *json, const planned_run planned[CLI_PAPERS_APPENDIX])
{
    zr__json_open(json, "runs", '[');
    for (int i = 0; i < CLI_PAPERS_APPENDIX; i++) {
        const cli_papers_run *r = &cli_papers_appendix[i];
        const planned_run *p = &planned[i];
        zr__json_break(json, "\n  ");
        zr__json_open(json, NULL, '{');
        zr__json_add(json, "figure", r->table, "label", r->label, "system", system_of(r), "stage", cli_papers_stage(r),
                     "gpus", r->gpus, "tensor", r->tensor);
        zr__json_add(json, "ranks", p->ranks, "layers", r->layers, "hidden", r->hidden, "heads", r->heads, "batch",
                     r->batch, "params", p->params);
        zr__json_add_as(json, "states", "%.0f", p->states);
        zr__json_add_as(json, "formula", "%.0f", p->formula);
        zr__json_add_as(json, "deviation_percent", "%.4f", p->deviation);
        zr__json_add_as(json, "copies", "%.0f", p->copies);
        zr__json_add_as(json, "copies_percent", "%.4f", p->copies_part);
        zr__json_close(json, '}');
    }
    zr__text_add(&json->text, "\n");
    zr__json_close(json, ']');
}

/* ---- C1 to C5 ---------------------------------------------------------------------------------- */

enum { GPUS = 400, BATCH = 16 };

typedef struct planned_preset {
    zr_model_sizes sizes;
    bool in_pieces, on_host; /* `in_pieces`: whether checkpoints are partitioned (P_a); `on_host`: whether they are on
                                the host (P_a+cpu) */
    int64_t params, checkpoint, host, total;
    double states, copies, paper_states, paper_checkpoint; /* bytes of a rank */
    double deviation; /* deviation of zr's states from the paper's states, percent */
    char reason[128]; /* reason why zr's states are larger than the paper's */
} planned_preset;

static void compare_preset(const cli_papers_preset *c, const zr_plan *plan, planned_preset *p)
{
    const double paper_params = 1e9 * c->largest_billion;
    /* The paper keeps the 16-bit input of each block as a checkpoint. P_a divides these inputs by M. P_a+cpu puts the
     * inputs on the host. */
    const double inputs = 2.0 * BATCH * CLI_PAPERS_TOKENS * (double)p->sizes.width * (double)p->sizes.layers;
    const double checkpoints = p->in_pieces ? inputs / CLI_PAPERS_TENSOR : inputs;
    const zr_memory *m = &plan->memory;
    p->params = plan->params;
    p->checkpoint = m->category_bytes[ZR_CATEGORY_CHECKPOINT];
    p->host = m->space[ZR_SPACE_HOST].category_bytes[ZR_CATEGORY_CHECKPOINT];
    p->total = m->total_bytes;
    p->states = (double)m->states_bytes;
    p->copies = copies_bytes(plan);
    p->paper_states = formula_bytes(paper_params, c->stage, CLI_PAPERS_TENSOR, GPUS / CLI_PAPERS_TENSOR);
    p->paper_checkpoint = p->on_host ? 0 : checkpoints;
    p->deviation = cli_papers_percent(p->states, p->paper_states);
    snprintf(p->reason, sizeof(p->reason),
             "%+.2f %% as the paper's %g billion parameters are %.2f, %+.2f %% for copies",
             cli_papers_percent((double)p->params, paper_params), c->largest_billion, (double)p->params / 1e9,
             100 * p->copies / p->paper_states);
}

static zr_status plan_preset(const cli_papers_preset *c, const zr_profile *profile, planned_preset *planned)
{
    zr_config *config = NULL;
    zr_plan *plan = NULL;
    ZR_TRY(cli_papers_preset_config(c, NULL, GPUS, BATCH, &config));
    *planned = (planned_preset){.sizes = zr_config_sizes(config),
                                .in_pieces = c->kept != CLI_PAPERS_WHOLE,
                                .on_host = c->kept == CLI_PAPERS_HOST};
    zr_status st = zr__train_plan(config, GPUS, -1, profile, &plan);
    if (st == ZR_OK) compare_preset(c, plan, planned);
    zr_plan_destroy(&plan);
    zr_config_destroy(&config);
    return st;
}

static void print_planned_presets(FILE *out, const planned_preset planned[CLI_PAPERS_PRESETS])
{
    char kind[16], shape[40];
    fprintf(out,
            "\nZeRO-R's C1 to C5 at the paper's largest models: N = %d, M = %d, B = %d x %d\n"
            "tokens, fp16, layout paper, recompute unit; GB (1e9 bytes) of one rank\n"
            "P_a: partition_activations; cpu: cpu_checkpointing, they are then on the host\n\n"
            "%46s%25s\n   %-9s%12s%7s%8s%7s%9s%8s%8s%8s\n",
            GPUS / CLI_PAPERS_TENSOR, CLI_PAPERS_TENSOR, BATCH, CLI_PAPERS_TOKENS, "model states", "checkpoints",
            "stage", "shape", "zr", "paper", "%", "zr", "paper", "host", "total");
    for (int i = 0; i < CLI_PAPERS_PRESETS; i++) {
        const cli_papers_preset *c = &cli_papers_presets[i];
        const planned_preset *p = &planned[i];
        snprintf(kind, sizeof(kind), "%d%s%s", c->stage, p->in_pieces ? " P_a" : "", p->on_host ? "+cpu" : "");
        snprintf(shape, sizeof(shape), "%lldx%lldx%lld", (long long)p->sizes.layers, (long long)p->sizes.width,
                 (long long)p->sizes.heads);
        fprintf(out, "%s %-9s%12s%7.2f%8.2f%+7.2f%9.2f%8.2f%8.2f%8.2f\n", c->name, kind, shape, p->states / 1e9,
                p->paper_states / 1e9, p->deviation, (double)p->checkpoint / 1e9, p->paper_checkpoint / 1e9,
                (double)p->host / 1e9, (double)p->total / 1e9);
    }
    fprintf(out, "\ntotal: with a block's gradient and activations, and staging buffers\nWhy zr is above the paper:\n");
    for (int i = 0; i < CLI_PAPERS_PRESETS; i++) {
        fprintf(out, "%s %s\n", cli_papers_presets[i].name, planned[i].reason);
    }
}

static void add_presets_json(zr__json_out *json, const planned_preset planned[CLI_PAPERS_PRESETS])
{
    zr__json_break(json, "\n");
    zr__json_open(json, "presets", '[');
    for (int i = 0; i < CLI_PAPERS_PRESETS; i++) {
        const cli_papers_preset *c = &cli_papers_presets[i];
        const planned_preset *p = &planned[i];
        zr__json_break(json, "\n  ");
        zr__json_open(json, NULL, '{');
        zr__json_add(json, "name", c->name, "stage", c->stage);
        zr__json_add_bool(json, "partition_activations", p->in_pieces);
        zr__json_add_bool(json, "cpu_checkpointing", p->on_host);
        zr__json_add(json, "tensor", CLI_PAPERS_TENSOR, "ranks", GPUS / CLI_PAPERS_TENSOR, "batch", BATCH, "layers",
                     p->sizes.layers, "hidden", p->sizes.width, "heads", p->sizes.heads);
        zr__json_add(json, "params", p->params);
        zr__json_add_as(json, "paper_params", "%.0f", 1e9 * c->largest_billion);
        zr__json_add_as(json, "states", "%.0f", p->states);
        zr__json_add_as(json, "paper_states", "%.0f", p->paper_states);
        zr__json_add_as(json, "deviation_percent", "%.4f", p->deviation);
        zr__json_add_as(json, "copies", "%.0f", p->copies);
        zr__json_add(json, "checkpoint", p->checkpoint, "host_checkpoint", p->host);
        zr__json_add_as(json, "paper_checkpoint", "%.0f", p->paper_checkpoint);
        zr__json_add(json, "total", p->total, "reason", p->reason);
        zr__json_close(json, '}');
    }
    zr__text_add(&json->text, "\n");
    zr__json_close(json, ']');
}

zr_status cli_papers_configs(FILE *out, bool as_json)
{
    planned_run planned[CLI_PAPERS_APPENDIX];
    planned_preset made[CLI_PAPERS_PRESETS];
    zr_profile profile; /* profile of the paper's device, which determines the scratch memory in the plan */
    ZR_TRY(cli_profile("v100-dgx2", &profile));
    for (int i = 0; i < CLI_PAPERS_APPENDIX; i++) ZR_TRY(plan_run(&cli_papers_appendix[i], &profile, &planned[i]));
    for (int i = 0; i < CLI_PAPERS_PRESETS; i++) ZR_TRY(plan_preset(&cli_papers_presets[i], &profile, &made[i]));
    if (!as_json) {
        print_planned_runs(out, planned);
        print_planned_presets(out, made);
        return ZR_OK;
    }
    zr__json_out json = {.spaced = true};
    zr__json_open(&json, NULL, '{');
    add_runs_json(&json, planned);
    add_presets_json(&json, made);
    zr__json_close(&json, '}');
    return zr__json_write(&json, out);
}
