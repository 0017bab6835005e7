/** cli/papers: the ZeRO papers' runs and printed numbers, beside zr's numbers. papers_runs.c has the papers' data.
 * papers_plan.c plans the papers' systems with zr. papers.c prints `zr plan --table1` and `--table2`. configs.c prints
 * `zr plan --configs`. For `zr simulate --paper`, simulate_papers.c makes rows, papers_print.c prints the rows and
 * papers_draw.c draws them. */
#ifndef ZR_CLI_PAPERS_H
#define ZR_CLI_PAPERS_H

#include "zr/simulate.h"
#include "zr/config.h"
#include "zr/plan.h"

#include <stdio.h>

/** System that trained a run. */
typedef enum cli_papers_system {
    CLI_PAPERS_MEGATRON,     /* stage 0: plain data parallelism (DDP) and, with M above 1, tensor parallelism */
    CLI_PAPERS_ZERO_OS,      /* first version of stage 1: with all-reduce and one fused buffer */
    CLI_PAPERS_ZERO_OS_LATE, /* stage 1 with two micro-batches, whose gradients are reduced once (simulate_fused) */
    CLI_PAPERS_ZERO_1,       /* stage 1 of the SC20 paper: with constant-size buffers (C_B) and defragmentation (M_D) */
    CLI_PAPERS_ZERO_2,
    CLI_PAPERS_ZERO_3
} cli_papers_system;

/** Place of activation checkpoints: whole on each rank, partitioned among ranks (P_a), or partitioned on the host
 * (P_a+cpu). */
typedef enum cli_papers_kept { CLI_PAPERS_WHOLE, CLI_PAPERS_PIECES, CLI_PAPERS_HOST } cli_papers_kept;

/** Role of a printed number in the comparison with zr. CLI_PAPERS_COUNTS: the number enters the median deviation.
 * CLI_PAPERS_FITTED: zr's constants were fitted to the number. Any other mark is the reason why the number does not
 * count. */
typedef enum cli_papers_mark {
    CLI_PAPERS_COUNTS,
    CLI_PAPERS_FITTED,
    CLI_PAPERS_SAME_RUN,  /* the number repeats the result of another row */
    CLI_PAPERS_NO_SHAPE,  /* the paper does not print the whole shape; zr takes the appendix's shape or an assumed shape
                           */
    CLI_PAPERS_NO_NUMBER, /* the paper does not print the throughput */
    CLI_PAPERS_AT_LEAST,  /* the paper prints a lower bound instead of a number */
    CLI_PAPERS_TOO_LARGE, /* the run ran out of memory in the paper */
    CLI_PAPERS_APART,     /* the number is not of the ZeRO papers and enters a median of its own */
    CLI_PAPERS_NO_SPEED   /* the number is about devices or memory, not about speed */
} cli_papers_mark;

typedef enum cli_papers_unit { CLI_PAPERS_SAMPLES, CLI_PAPERS_TFLOPS } cli_papers_unit;

typedef struct cli_papers_run {
    const char *table, *label; /* `table` is the number of a table or, in the appendix, the name of a figure */
    cli_papers_system system;
    cli_papers_kept kept;
    int gpus, tensor, layers, hidden, heads, batch;
    cli_papers_unit unit;
    double printed; /* the paper's number, or 0 if not printed */
    cli_papers_mark mark;
} cli_papers_run;

/** Runs of arXiv 1910.02054 v1: tables 4 to 8, and the model of a trillion parameters on 1,024 GPUs. */
extern const cli_papers_run cli_papers_v1[];
extern const int cli_papers_v1_n;
/** The runs in the appendix of the SC20 paper's artifact, in the appendix's order. */
#define CLI_PAPERS_APPENDIX 48
extern const cli_papers_run cli_papers_appendix[CLI_PAPERS_APPENDIX];

/** DeepSpeed's default for reduce_bucket_size and allgather_bucket_size, in elements. */
#define CLI_PAPERS_BUCKET_ELEMS 500000000
int cli_papers_stage(const cli_papers_run *run);
/** Return the profile of a rank on a V100 with the memory and rates of `device`. */
zr_profile cli_papers_profile(const zr_machine *device);
/** Plan a run as its system trained it, with the scratch memory and rates of `device`. If `padded`, pad the vocabulary
 * as Megatron-LM did, to a multiple of 128 on each tensor-parallel rank. Free the plan with zr_plan_destroy. */
ZR_NODISCARD zr_status cli_papers_plan(const cli_papers_run *run, bool padded, const zr_machine *device,
                                       zr_plan **plan);

/** Ratio of ZeRO-OS to Megatron, for two runs of a table. Without `gpus`, the ratio compares samples per second. With
 * `gpus`, the ratio tells how many times fewer GPUs ZeRO-OS needs for the same throughput. */
typedef struct cli_papers_ratio {
    const char *table, *label;
    bool gpus;
    double printed;
} cli_papers_ratio;
#define CLI_PAPERS_RATIOS 6
extern const cli_papers_ratio cli_papers_ratios[CLI_PAPERS_RATIOS];

/** A configuration of ZeRO-R, C1 to C5. The configurations differ in the stage and in the place of checkpoints. zr's
 * constant-size buffers replace the paper's C_B, and zr's memory map replaces M_D. */
typedef struct cli_papers_preset {
    const char *name;
    int stage;
    cli_papers_kept kept;
    double largest_billion; /* billions of parameters of the largest model, as rounded in figure 6 */
    int batch;              /* samples of a micro-batch for the 60B model on 128 GPUs, from figure 8 */
} cli_papers_preset;
#define CLI_PAPERS_PRESETS 5
extern const cli_papers_preset cli_papers_presets[CLI_PAPERS_PRESETS];
enum { CLI_PAPERS_TENSOR = 16, CLI_PAPERS_TOKENS = 1024, CLI_PAPERS_VOCABULARY = 50257 };

/** Create the resolved configuration of a preset, as the command line would create it. `model` is the name of a model
 * that zr knows. If `model` is NULL, use the largest model that the paper gives for the preset. */
ZR_NODISCARD zr_status cli_papers_preset_config(const cli_papers_preset *preset, const char *model, int gpus, int batch,
                                                zr_config **config);

/** Return by how many percent zr's number differs from the paper's number. */
double cli_papers_percent(double ours, double printed);
/** Return `percent`, or 0 if it rounds to zero at two decimals, so that "-0.00" is never printed. */
double cli_papers_rounded(double percent);
/** Names of the stages, from "baseline" to "Pos+g+p". Names of the places of checkpoints: "", " Pa" and " Pa+cpu". */
extern const char *const cli_papers_stage_name[4], *const cli_papers_kept_name[3];

/* ---- `zr simulate --paper` ----------------------------------------------------------------------- */

/** A phase of BERT-Large's training: how zr divides its steps, and the simulated step. */
typedef struct cli_papers_phase {
    int tokens, micro, accum; /* tokens of a sample, samples of a micro-batch, micro-batches of a step on a GPU */
    double steps, step_sec, exposed_sec;
    int64_t memory_bytes;
} cli_papers_phase;
#define CLI_PAPERS_PHASES 2

/** Bytes that attention reads and writes per fp16 score in the forward pass of Megatron-LM v0.1 (2019,
 * mpu/transformer.py), which has no fused kernels. The first product writes 2. The division by sqrt(d), the product
 * with the mask, the sum with the mask and the softmax each read 2 and write 2. Dropout reads 2, writes 2, and writes 1
 * for its mask. The second product reads 2. */
#define CLI_PAPERS_SCORES_BYTES 25

/** Before version 11, cuBLAS used a V100's tensor cores for fp16 products only if all sizes were multiples of 8
 * (NVIDIA, mixed precision training guide). Other fp16 products run at the rate of fp32, because PyTorch sums them in
 * fp32. */
#define CLI_PAPERS_PRODUCT_MULTIPLE 8

/** A number printed in a paper, beside zr's number. */
typedef struct cli_papers_row {
    const char *source, *table, *unit;
    char label[40], system[24];
    int gpus, tensor, batch; /* 0 if not applicable */
    double paper, zr;        /* `paper`: the printed number, or 0 if the paper does not print it; `zr`: zr's number */
    cli_papers_mark mark;
    /* Bytes of a device: `memory_bytes` are needed, `limit_bytes` are available. Both are 0 if nothing was planned. */
    int64_t memory_bytes, limit_bytes;
    const cli_papers_run *run; /* simulated run, whose result is `made`; NULL if no run was simulated */
    zr_simulation made;
    /* `n_phases` simulated phases of BERT-Large's training; n_phases is 0 in other rows */
    cli_papers_phase phase[CLI_PAPERS_PHASES];
    int n_phases;
} cli_papers_row;
#define CLI_PAPERS_ROWS 128

typedef struct cli_papers_rows {
    cli_papers_row row[CLI_PAPERS_ROWS];
    int n;
    bool elsewhere; /* whether the user gave another cluster than the papers', so that deviations mean nothing */
} cli_papers_rows;

/** Add a row with a label. */
void cli_papers_add(cli_papers_rows *rows, const cli_papers_row *row, const char *format, ...) ZR_PRINTF(3, 4);
/** Add BERT-Large's rows: the speed of one V100, and the minutes of whole trainings. */
ZR_NODISCARD zr_status cli_papers_add_record(cli_papers_rows *rows, const zr_cluster *on);
/** Return the row of a simulated run, or NULL if no row matches. If `gpus` is 0, any number of GPUs matches. */
const cli_papers_row *cli_papers_find(const cli_papers_rows *rows, const char *table, const char *label,
                                      cli_papers_system system, int gpus);
void cli_papers_print(FILE *out, const cli_papers_rows *rows);
ZR_NODISCARD zr_status cli_papers_print_json(FILE *out, const cli_papers_rows *rows);
/** Check that `name` is one of the papers' pictures. Otherwise fail with a message that lists the pictures. */
ZR_NODISCARD zr_status cli_papers_check_plot(const char *name);
/** Draw one of the papers' pictures into a file. cli_papers_check_plot must accept `name`. */
ZR_NODISCARD zr_status cli_papers_draw(const char *path, const char *name, const cli_papers_rows *rows);

/** Print table 1 or table 2 of the ZeRO paper, zr's numbers and the deviations. Print aligned text or one JSON
 * document. */
ZR_NODISCARD zr_status cli_papers_table1(FILE *out, bool json);
ZR_NODISCARD zr_status cli_papers_table2(FILE *out, bool json);

/** Print zr's plans beside the numbers of the SC20 paper, for the runs of the appendix and for C1 to C5. Print aligned
 * text or one JSON document. */
ZR_NODISCARD zr_status cli_papers_configs(FILE *out, bool json);

#endif
