/*
 * What the SC20 paper ran (Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models),
 * beside what zr plans for it: all 48 runs of the appendix of its artifact, and ZeRO-R's configurations C1 to C5 at
 * the largest models that the paper gives for them. Tensor parallelism is in both: the paper's formulas divide all
 * states by M, and a graph of degree M shows what the ranks have besides.
 */
#include "cli/cli.h"

#include <math.h>
#include <string.h>

enum { TOKENS = 1024, VOCABULARY = 50257 };

/* ---- bytes ------------------------------------------------------------------------------------ */

/* Model states of a rank by the paper: mixed precision, Adam (K = 12); M ranks share each layer. */
static double formula_bytes(double params, int stage, int tensor, int ranks)
{
    const double n = ranks, each[] = {16, 4 + 12 / n, 2 + 14 / n, 16 / n};
    return params * each[stage] / tensor;
}

/* What a rank's states would be smaller by if each tensor were once in a tensor-parallel group: norms, biases of rows
 * and positions are on all of its M ranks. Every element of a unit takes the same bytes. */
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

static double percent(double part, double whole)
{
    return 100 * part / whole;
}

/* For two decimals: what rounds to nothing has no sign. */
static double shown(double share)
{
    return fabs(share) < 0.005 ? 0 : share;
}

/* ---- the appendix ------------------------------------------------------------------------------ */

/* As the appendix has them, in its order; N is GPUs / M. Stages: its baseline has none; C1 and C2 are P_os, all others
 * P_os+g. All had 1,024 tokens a sample. */
static const struct run {
    const char *figure, *label;
    int stage, gpus, tensor, layers, hidden, heads, batch;
} runs[] = {
    {"Fig2", "1.5B", 2, 400, 1, 48, 1600, 16, 24},
    {"Fig2", "1.5B", 0, 400, 2, 48, 1600, 16, 16},
    {"Fig2", "8B", 2, 400, 4, 72, 3072, 24, 64},
    {"Fig2", "8B", 0, 400, 8, 72, 3072, 24, 8},
    {"Fig2", "20B", 2, 400, 4, 98, 4096, 32, 32},
    {"Fig2", "20B", 0, 400, 16, 98, 4096, 32, 4},
    {"Fig2", "40B", 2, 400, 4, 88, 6144, 32, 12},
    {"Fig2", "40B", 0, 384, 32, 88, 6144, 64, 4},
    {"Fig2", "60B", 2, 400, 16, 132, 6144, 32, 64},
    {"Fig2", "60B", 0, 384, 64, 132, 6144, 64, 4},
    {"Fig2", "80B", 2, 400, 16, 100, 8192, 64, 32},
    {"Fig2", "80B", 0, 384, 128, 100, 8192, 128, 4},
    {"Fig2", "100B", 2, 400, 16, 125, 8192, 64, 32},
    {"Fig2", "100B", 0, 384, 128, 125, 8192, 128, 2},
    {"Fig2", "120B", 2, 400, 16, 150, 8192, 64, 24},
    {"Fig2", "120B", 0, 384, 128, 150, 8192, 128, 2},
    {"Fig2", "140B", 2, 400, 16, 175, 8192, 64, 16},
    {"Fig2", "140B", 0, 384, 128, 175, 8192, 128, 2},
    {"Fig2", "170B", 2, 400, 16, 212, 8192, 64, 12},
    {"Fig2", "170B", 0, 256, 256, 212, 8192, 256, 2},
    {"Fig3", "60B", 2, 64, 16, 75, 8192, 32, 16},
    {"Fig3", "60B", 2, 128, 16, 75, 8192, 32, 48},
    {"Fig3", "60B", 2, 256, 16, 75, 8192, 32, 48},
    {"Fig3", "60B", 2, 400, 16, 75, 8192, 32, 64},
    {"MaxModel(C1)", "40B", 1, 400, 16, 50, 8192, 32, 16},
    {"MaxModel(C2)", "60B", 1, 400, 16, 132, 6144, 64, 16},
    {"MaxModel(C4)", "140B", 2, 400, 16, 175, 8192, 64, 16},
    {"MaxModel(C5)", "150B", 2, 400, 16, 187, 8192, 64, 16},
    {"MaxModel(C3)", "50B", 2, 400, 16, 62, 8192, 32, 16},
    {"CachedMem", "40B", 2, 400, 16, 50, 8192, 32, 16},
    {"CachedMem", "100B", 2, 400, 16, 125, 8192, 64, 32},
    {"Thrpt(C1)", "60B", 1, 128, 16, 75, 8192, 64, 2},
    {"Thrpt(C2)", "60B", 1, 128, 16, 75, 8192, 64, 4},
    {"Thrpt(C4)", "60B", 2, 128, 16, 75, 8192, 64, 32},
    {"Thrpt(C5)", "60B", 2, 128, 16, 75, 8192, 64, 32},
    {"Thrpt(C3)", "60B", 2, 128, 16, 75, 8192, 64, 8},
    {"Thrpt(C5)", "170B", 2, 400, 16, 212, 8192, 64, 12},
    {"NoMP", "1.5B", 2, 128, 1, 34, 1920, 16, 24},
    {"NoMP", "2.5B", 2, 128, 1, 54, 1920, 16, 24},
    {"NoMP", "4B", 2, 128, 1, 64, 2304, 24, 16},
    {"NoMP", "6B", 2, 128, 1, 52, 3072, 24, 12},
    {"NoMP", "8B", 2, 128, 1, 72, 3072, 24, 8},
    {"NoMP", "10B", 2, 128, 1, 50, 4096, 32, 6},
    {"NoMP", "11B", 2, 128, 1, 54, 4096, 32, 4},
    {"NoMP", "12B", 2, 128, 1, 58, 4096, 32, 4},
    {"NoMP", "13B", 2, 128, 1, 62, 4096, 32, 2},
    {"NoMP", "1.16B", 0, 128, 1, 24, 1920, 16, 8},
    {"NoMP", "1.38B", 0, 128, 1, 40, 1536, 16, 1},
};
enum { RUNS = sizeof runs / sizeof *runs };

typedef struct planned_run {
    int64_t params;
    double states, formula, copies; /* bytes of a rank */
} planned_run;

static int ranks_of(const struct run *r)
{
    return r->gpus / r->tensor;
}

static double run_deviation(const planned_run *p)
{
    return percent(p->states - p->copies - p->formula, p->formula);
}

static zr_status plan_run(const struct run *r, planned_run *planned)
{
    const zr_gpt2_config sizes = {.n_layer = r->layers,
                                  .n_head = r->heads,
                                  .n_embd = r->hidden,
                                  .n_positions = TOKENS,
                                  .vocab_size = VOCABULARY,
                                  .layer_norm_epsilon = 1e-5,
                                  .initializer_range = 0.02};
    const zr_profile profile = {.facts = {.name = "none", .threads = 1}}; /* states need no scratch */
    zr_model model = zr_gpt2(&sizes);
    zr_layout layout = ZR_LAYOUT_INIT;
    zr_plan *plan = NULL;
    layout.ranks = ranks_of(r);
    layout.tensor = r->tensor;
    layout.stage = r->stage;
    layout.dtype = layout.wire_dtype = ZR_F16;
    layout.batch = r->batch;
    layout.seq = TOKENS;
    layout.eval = false;
    layout.recompute = ZR_RECOMPUTE_UNIT;
    layout.optimizer = zr_adamw(0.9, 0.999, 1e-8, 0);
    ZR_TRY(zr_plan_create(&model, &layout, &profile, &plan));
    *planned = (planned_run){.params = plan->params,
                             .states = (double)plan->memory.states_bytes,
                             .formula = formula_bytes((double)plan->params, r->stage, r->tensor, ranks_of(r)),
                             .copies = copies_bytes(plan)};
    zr_plan_destroy(&plan);
    return ZR_OK;
}

static const char *system_of(const struct run *r)
{
    return r->stage == 0 ? "Baseline" : "ZeRO";
}

static void print_runs(FILE *out, const planned_run planned[RUNS])
{
    fprintf(out,
            "The %d runs of the appendix of ZeRO's artifact (SC20): model states of one rank\n"
            "in GB (1e9 bytes), Adam, fp16, layout paper; N data-parallel ranks x M that\n"
            "share each layer; B samples a micro-batch; vocabulary %d, padded to M\n"
            "zr: planned; paper: its formula; %%: zr against paper, each tensor counted once;\n"
            "copies: what is added, as each of the M ranks has norms, biases of rows and\n"
            "positions whole: zr = paper x (1 + %% + copies)\n",
            RUNS, VOCABULARY);
    const char *figure = "";
    fprintf(out, "\n%14s stage GPUs   N   M %13s  B %7s%8s%7s%7s\n", "", "shape", "zr", "paper", "%", "copies");
    for (int i = 0; i < RUNS; i++) {
        const struct run *r = &runs[i];
        const planned_run *p = &planned[i];
        char shape[40];
        if (strcmp(figure, r->figure) != 0) fprintf(out, "%s\n", r->figure);
        figure = r->figure;
        snprintf(shape, sizeof(shape), "%dx%dx%d", r->layers, r->hidden, r->heads);
        fprintf(out, "%-5s %-8s %5d %4d %3d %3d %13s %2d %7.2f%8.2f%+7.2f%+7.2f\n", r->label, system_of(r), r->stage,
                r->gpus, ranks_of(r), r->tensor, shape, r->batch, p->states / 1e9, p->formula / 1e9,
                shown(run_deviation(p)), shown(percent(p->copies, p->formula)));
    }
}

static void print_runs_json(FILE *out, const planned_run planned[RUNS])
{
    fprintf(out, "\"runs\": [");
    for (int i = 0; i < RUNS; i++) {
        const struct run *r = &runs[i];
        const planned_run *p = &planned[i];
        fprintf(out,
                "%s\n  {\"figure\": \"%s\", \"label\": \"%s\", \"system\": \"%s\", \"stage\": %d, \"gpus\": %d, "
                "\"tensor\": %d, \"ranks\": %d, \"layers\": %d, \"hidden\": %d, \"heads\": %d, \"batch\": %d, "
                "\"params\": %lld, \"states\": %.0f, \"formula\": %.0f, \"deviation_percent\": %.4f, "
                "\"copies\": %.0f, \"copies_percent\": %.4f}",
                i ? "," : "", r->figure, r->label, system_of(r), r->stage, r->gpus, r->tensor, ranks_of(r), r->layers,
                r->hidden, r->heads, r->batch, (long long)p->params, p->states, p->formula, run_deviation(p), p->copies,
                percent(p->copies, p->formula));
    }
    fprintf(out, "\n]");
}

/* ---- C1 to C5 ---------------------------------------------------------------------------------- */

enum { GPUS = 400, TENSOR = 16, BATCH = 16 };

/* ZeRO-R is in the keys: constant buffers (C_B) are zr's own, memory defragmentation (M_D) is the memory map; what
 * differs is the stage, whether checkpoints are partitioned over the M ranks (P_a), whether they are on the host. */
static const struct preset {
    const char *name;
    int stage;
    bool partitions, host; /* P_a; P_a+cpu */
    double paper_billion;  /* parameters, as the paper rounds them */
} presets[] = {
    {"C1", 1, false, false, 40}, {"C2", 1, true, false, 60}, {"C3", 2, false, false, 50},
    {"C4", 2, true, false, 140}, {"C5", 2, true, true, 150},
};
enum { PRESETS = sizeof presets / sizeof *presets };

typedef struct planned_preset {
    zr_config_sizes sizes;
    int64_t params, checkpoint, host, total;
    double states, copies; /* bytes of a rank */
} planned_preset;

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

static zr_status preset_config(const struct preset *c, zr_config **config)
{
    char shape[96], stage[96], parts[96], host[96], tensor[96], batch[96], tokens[96];
    snprintf(shape, sizeof(shape), "model.preset=\"zero-c%c\"", c->name[1]);
    snprintf(stage, sizeof(stage), "zero_optimization.stage=%d", c->stage);
    snprintf(parts, sizeof(parts), "activation_checkpointing.partition_activations=%s", truth(c->partitions));
    snprintf(host, sizeof(host), "activation_checkpointing.cpu_checkpointing=%s", truth(c->host));
    snprintf(tensor, sizeof(tensor), "parallel.tensor=%d", TENSOR);
    snprintf(batch, sizeof(batch), "train_micro_batch_size_per_gpu=%d", BATCH);
    snprintf(tokens, sizeof(tokens), "data.seq_length=%d", TOKENS);
    const char *const keys[] = {shape,
                                stage,
                                parts,
                                host,
                                tensor,
                                batch,
                                tokens,
                                "gradient_accumulation_steps=1",
                                "activation_checkpointing.policy=\"unit\"",
                                "collectives.buffer=\"constant\"",
                                "fp16.enabled=true",
                                "memory.layout=\"paper\"",
                                "optimizer.type=\"AdamW\""};
    ZR_TRY(zr_config_load(NULL, keys, sizeof(keys) / sizeof(keys[0]), config));
    zr_status st = zr_train_prepare(*config, GPUS, 0);
    if (st != ZR_OK) zr_config_destroy(config);
    return st;
}

static zr_status plan_preset(const struct preset *c, const zr_profile *profile, planned_preset *planned)
{
    zr_config *config = NULL;
    zr_plan *plan = NULL;
    ZR_TRY(preset_config(c, &config));
    zr_status st = zr_train_plan(config, GPUS, -1, profile, &plan);
    if (st == ZR_OK) {
        const zr_memory *m = &plan->memory;
        *planned = (planned_preset){.sizes = config->model.sizes,
                                    .params = plan->params,
                                    .checkpoint = m->category_bytes[ZR_CATEGORY_CHECKPOINT],
                                    .host = m->space[ZR_SPACE_HOST].category_bytes[ZR_CATEGORY_CHECKPOINT],
                                    .total = m->total_bytes,
                                    .states = (double)m->states_bytes,
                                    .copies = copies_bytes(plan)};
    }
    zr_plan_destroy(&plan);
    zr_config_destroy(&config);
    return st;
}

static double paper_states(const struct preset *c)
{
    return formula_bytes(1e9 * c->paper_billion, c->stage, TENSOR, GPUS / TENSOR);
}

/* The input of each block, 16 bits; on the device or, with P_a+cpu, on the host. */
static double paper_checkpoints(const struct preset *c, const planned_preset *p)
{
    const double all = 2.0 * BATCH * TOKENS * (double)p->sizes.n_embd * (double)p->sizes.n_layer;
    return c->partitions ? all / TENSOR : all;
}

/* Why the planned states are more than the paper's. */
static const char *states_reason(const struct preset *c, const planned_preset *p, char text[128])
{
    const double paper = 1e9 * c->paper_billion;
    snprintf(text, 128, "%+.2f %% as the paper's %g billion parameters are %.2f, %+.2f %% for copies",
             percent((double)p->params - paper, paper), c->paper_billion, (double)p->params / 1e9,
             percent(p->copies, paper_states(c)));
    return text;
}

/* Why the planned checkpoints are more; "": they are not. */
static const char *checkpoints_reason(const struct preset *c, const planned_preset *p)
{
    const bool whole = c->partitions && (double)(p->checkpoint + p->host) > 2 * paper_checkpoints(c, p);
    return whole ? "each of the M ranks has whole checkpoints: P_a has no effect in this plan" : "";
}

static double preset_deviation(const struct preset *c, const planned_preset *p)
{
    return percent(p->states - paper_states(c), paper_states(c));
}

static void print_presets(FILE *out, const planned_preset planned[PRESETS])
{
    char text[128], shape[40];
    fprintf(out,
            "\nZeRO-R's C1 to C5 at the paper's largest models: N = %d, M = %d, B = %d x %d\n"
            "tokens, fp16, layout paper, recompute unit; GB (1e9 bytes) of one rank\n"
            "P_a: partition_activations; cpu: cpu_checkpointing, they are then on the host\n\n"
            "%46s%25s\n   %-9s%12s%7s%8s%7s%9s%8s%8s%8s\n",
            GPUS / TENSOR, TENSOR, BATCH, TOKENS, "model states", "checkpoints", "stage", "shape", "zr", "paper", "%",
            "zr", "paper", "host", "total");
    for (int i = 0; i < PRESETS; i++) {
        const struct preset *c = &presets[i];
        const planned_preset *p = &planned[i];
        char kind[16];
        snprintf(kind, sizeof(kind), "%d%s%s", c->stage, c->partitions ? " P_a" : "", c->host ? "+cpu" : "");
        snprintf(shape, sizeof(shape), "%lldx%lldx%lld", (long long)p->sizes.n_layer, (long long)p->sizes.n_embd,
                 (long long)p->sizes.n_head);
        fprintf(out, "%s %-9s%12s%7.2f%8.2f%+7.2f%9.2f%8.2f%8.2f%8.2f\n", c->name, kind, shape, p->states / 1e9,
                paper_states(c) / 1e9, preset_deviation(c, p), (double)p->checkpoint / 1e9,
                c->host ? 0 : paper_checkpoints(c, p) / 1e9, (double)p->host / 1e9, (double)p->total / 1e9);
    }
    fprintf(out, "\ntotal: with a block's gradient and activations, and staging buffers\nWhy zr is above the paper:\n");
    for (int i = 0; i < PRESETS; i++) {
        const char *why = checkpoints_reason(&presets[i], &planned[i]);
        fprintf(out, "%s %s\n", presets[i].name, states_reason(&presets[i], &planned[i], text));
        if (*why) fprintf(out, "   %s\n", why);
    }
}

static void print_presets_json(FILE *out, const planned_preset planned[PRESETS])
{
    char text[128];
    fprintf(out, "\"presets\": [");
    for (int i = 0; i < PRESETS; i++) {
        const struct preset *c = &presets[i];
        const planned_preset *p = &planned[i];
        const char *why = checkpoints_reason(c, p);
        fprintf(out,
                "%s\n  {\"name\": \"%s\", \"stage\": %d, \"partition_activations\": %s, \"cpu_checkpointing\": %s, "
                "\"tensor\": %d, \"ranks\": %d, \"batch\": %d, \"layers\": %lld, \"hidden\": %lld, \"heads\": %lld, "
                "\"params\": %lld, \"paper_params\": %.0f, \"states\": %.0f, \"paper_states\": %.0f, "
                "\"deviation_percent\": %.4f, \"copies\": %.0f, \"checkpoint\": %lld, \"host_checkpoint\": %lld, "
                "\"paper_checkpoint\": %.0f, \"total\": %lld, \"reason\": \"%s%s%s\"}",
                i ? "," : "", c->name, c->stage, truth(c->partitions), truth(c->host), TENSOR, GPUS / TENSOR, BATCH,
                (long long)p->sizes.n_layer, (long long)p->sizes.n_embd, (long long)p->sizes.n_head,
                (long long)p->params, 1e9 * c->paper_billion, p->states, paper_states(c), preset_deviation(c, p),
                p->copies, (long long)p->checkpoint, (long long)p->host, c->host ? 0 : paper_checkpoints(c, p),
                (long long)p->total, states_reason(c, p, text), *why ? "; " : "", why);
    }
    fprintf(out, "\n]");
}

zr_status cli_papers_configs(FILE *out, bool json)
{
    planned_run planned[RUNS];
    planned_preset made[PRESETS];
    zr_profile profile; /* of what the paper ran on: scratch is counted by its facts */
    ZR_TRY(cli_profile("v100-dgx2", &profile));
    for (int i = 0; i < RUNS; i++) ZR_TRY(plan_run(&runs[i], &planned[i]));
    for (int i = 0; i < PRESETS; i++) ZR_TRY(plan_preset(&presets[i], &profile, &made[i]));
    if (json) {
        fputc('{', out);
        print_runs_json(out, planned);
        fputs(",\n", out);
        print_presets_json(out, made);
        fputs("}\n", out);
    } else {
        print_runs(out, planned);
        print_presets(out, made);
    }
    return ZR_OK;
}
