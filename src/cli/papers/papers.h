/** cli/papers: the ZeRO papers' runs and printed numbers beside zr's. papers_runs.c has the papers' data, papers_plan.c
 * its systems as layouts of zr. `zr plan --table1, --table2` are papers.c, `zr plan --configs` is configs.c;
 * `zr simulate --paper` is simulate_papers.c, which makes the rows, papers_print.c and papers_draw.c. */
#ifndef ZR_CLI_PAPERS_H
#define ZR_CLI_PAPERS_H

#include "zr/simulate.h"
#include "zr/config.h"
#include "zr/plan.h"

#include <stdio.h>

/** System that trained a run. Nothing overlapped but the fetches of stage 2. */
typedef enum cli_papers_system {
    CLI_PAPERS_MEGATRON, /* stage 0: data parallelism (DDP), with M above 1 also tensor parallelism */
    CLI_PAPERS_ZERO_OS,  /* stage 1 as first built: all-reduce, one fused buffer */
    CLI_PAPERS_ZERO_1,   /* stage 1, C_B, M_D; SC20 */
    CLI_PAPERS_ZERO_2,
    CLI_PAPERS_ZERO_3
} cli_papers_system;

/** Checkpoints of activations: whole on each rank, in pieces (P_a), in pieces on the host (P_a+cpu). */
typedef enum cli_papers_kept { CLI_PAPERS_WHOLE, CLI_PAPERS_PIECES, CLI_PAPERS_HOST } cli_papers_kept;

/** Meaning of a printed number. Only COUNTS is in the median; constants were fitted on FITTED. */
typedef enum cli_papers_mark {
    CLI_PAPERS_COUNTS,
    CLI_PAPERS_FITTED,
    CLI_PAPERS_SAME_RUN,  /* the run of a row that counts, in other units */
    CLI_PAPERS_NO_SHAPE,  /* the configuration is not printed whole: the shape is a choice, or the appendix's */
    CLI_PAPERS_NO_NUMBER, /* the throughput is not printed */
    CLI_PAPERS_AT_LEAST,  /* the paper prints a bound, no number */
    CLI_PAPERS_TOO_LARGE, /* the run was out of memory */
    CLI_PAPERS_NO_SPEED   /* devices or memory: no speed */
} cli_papers_mark;

typedef enum cli_papers_unit { CLI_PAPERS_SAMPLES, CLI_PAPERS_TFLOPS } cli_papers_unit;

typedef struct cli_papers_run {
    const char *table, *label; /* a table's number, or a figure as the appendix calls it */
    cli_papers_system system;
    cli_papers_kept kept;
    int gpus, tensor, layers, hidden, heads, batch;
    cli_papers_unit unit;
    double printed; /* 0: not printed */
    cli_papers_mark mark;
} cli_papers_run;

/** arXiv 1910.02054 v1, tables 4 to 8, and its trillion parameters on 1,024 GPUs. */
extern const cli_papers_run cli_papers_v1[];
extern const int cli_papers_v1_n;
/** The runs of the appendix of the SC20 paper's artifact, in its order. */
#define CLI_PAPERS_APPENDIX 48
extern const cli_papers_run cli_papers_appendix[CLI_PAPERS_APPENDIX];

int cli_papers_stage(const cli_papers_run *run);
/** Plan a run as its system trained it, with the scratch memory and rates of `device`. `padded`: pad the vocabulary as
 * Megatron-LM did, to a multiple of 128 on each tensor-parallel rank. Free with zr_plan_destroy. */
ZR_NODISCARD zr_status cli_papers_plan(const cli_papers_run *run, bool padded, const zr_machine *device,
                                       zr_plan **plan);

/** Ratio of two runs of a table, ZeRO-OS over Megatron: of their samples a second or, with `gpus`, of the GPUs at equal
 * throughput. */
typedef struct cli_papers_ratio {
    const char *table, *label;
    bool gpus;
    double printed;
} cli_papers_ratio;
#define CLI_PAPERS_RATIOS 6
extern const cli_papers_ratio cli_papers_ratios[CLI_PAPERS_RATIOS];

/** ZeRO-R's C1 to C5. C_B is zr's own, M_D the memory map; the presets differ in stage and place of checkpoints. */
typedef struct cli_papers_preset {
    const char *name;
    int stage;
    cli_papers_kept kept;
    double largest_billion; /* parameters, as the paper rounds them: figure 6 */
    int batch;              /* samples of a micro-batch of 60B on 128 GPUs: figure 8 */
} cli_papers_preset;
#define CLI_PAPERS_PRESETS 5
extern const cli_papers_preset cli_papers_presets[CLI_PAPERS_PRESETS];
enum { CLI_PAPERS_TENSOR = 16, CLI_PAPERS_TOKENS = 1024, CLI_PAPERS_VOCABULARY = 50257 };

/** Make a preset's settled configuration, as the command line would make it. `model`: a model that zr knows by name;
 * NULL: the largest model that the paper gives for the preset. */
ZR_NODISCARD zr_status cli_papers_preset_config(const cli_papers_preset *preset, const char *model, int gpus, int batch,
                                                zr_config **config);

/** Return zr's number over the paper's, as a deviation in percent. */
double cli_papers_percent(double ours, double printed);
/** Return a percentage for two decimals: a share that rounds to zero has no sign. */
double cli_papers_rounded(double percent);
/** Names of stages, "baseline" to "Pos+g+p", and of the places of checkpoints, "", " Pa" and " Pa+cpu". */
extern const char *const cli_papers_stage_name[4], *const cli_papers_kept_name[3];

/* ---- `zr simulate --paper` ----------------------------------------------------------------------- */

/** A number of the papers beside zr's. */
typedef struct cli_papers_row {
    const char *source, *table, *unit;
    char label[40], system[24];
    int gpus, tensor, batch; /* 0: not applicable */
    double paper, zr;        /* paper 0: not printed */
    cli_papers_mark mark;
    int64_t memory_bytes, limit_bytes; /* bytes of a device: planned, available; 0: not planned */
    const cli_papers_run *run;         /* NULL: no run was simulated; otherwise `made` is its simulation */
    zr_simulation made;
} cli_papers_row;
#define CLI_PAPERS_ROWS 128

typedef struct cli_papers_rows {
    cli_papers_row row[CLI_PAPERS_ROWS];
    int n;
    bool elsewhere; /* on another cluster than the papers': deviations say nothing */
} cli_papers_rows;

/** Return the row of a simulated run, NULL if there is no match; gpus 0: any number. */
const cli_papers_row *cli_papers_find(const cli_papers_rows *rows, const char *table, const char *label,
                                      cli_papers_system system, int gpus);
void cli_papers_print(FILE *out, const cli_papers_rows *rows);
ZR_NODISCARD zr_status cli_papers_print_json(FILE *out, const cli_papers_rows *rows);
/** Draw one of the papers' pictures into a file. ZR_ERR_ARG with the names of the pictures. */
ZR_NODISCARD zr_status cli_papers_draw(const char *path, const char *name, const cli_papers_rows *rows);

/** Print tables 1 and 2 of the ZeRO paper beside zr's plans, with the deviation; as aligned text or one JSON document.
 */
ZR_NODISCARD zr_status cli_papers_table1(FILE *out, bool json);
ZR_NODISCARD zr_status cli_papers_table2(FILE *out, bool json);

/** Print the run configurations of the SC20 paper's appendix, and C1 to C5, in the same way. */
ZR_NODISCARD zr_status cli_papers_configs(FILE *out, bool json);

#endif
