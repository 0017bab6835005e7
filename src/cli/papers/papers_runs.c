/* The ZeRO papers' runs with their printed numbers: tables 4 to 8 of arXiv 1910.02054 v1 (Rajbhandari et al., ZeRO:
 * Memory Optimization Towards Training A Trillion Parameter Models), and the 48 runs in the appendix of the SC20
 * paper's artifact. A sample has 1,024 tokens in all runs. */
#include "cli/papers/papers.h"

#include <math.h>

/* Short names for use in the tables below. */
#define MEGATRON CLI_PAPERS_MEGATRON
#define ZERO_OS CLI_PAPERS_ZERO_OS
#define ZERO_1 CLI_PAPERS_ZERO_1
#define ZERO_2 CLI_PAPERS_ZERO_2
#define ZERO_3 CLI_PAPERS_ZERO_3
#define WHOLE CLI_PAPERS_WHOLE
#define PIECES CLI_PAPERS_PIECES
#define HOST CLI_PAPERS_HOST
#define SAMPLES CLI_PAPERS_SAMPLES
#define TFLOPS CLI_PAPERS_TFLOPS
#define COUNTS CLI_PAPERS_COUNTS
#define FITTED CLI_PAPERS_FITTED
#define SAME_RUN CLI_PAPERS_SAME_RUN
#define NO_SHAPE CLI_PAPERS_NO_SHAPE
#define NO_NUMBER CLI_PAPERS_NO_NUMBER
#define AT_LEAST CLI_PAPERS_AT_LEAST
#define TOO_LARGE CLI_PAPERS_TOO_LARGE

/* Table 1 gives the model states of 1T parameters on 1,024 GPUs, but no run. So the row "1T" has the shape of
 * Megatron-LM's 1T model (Narayanan et al. 2021), and the M of ZeRO's largest runs. */
const cli_papers_run cli_papers_v1[] = {
    {"4", "1.2B", MEGATRON, WHOLE, 32, 1, 40, 1536, 16, 8, TFLOPS, 0, NO_NUMBER},
    {"4", "1.5B", MEGATRON, WHOLE, 32, 1, 48, 1600, 16, 1, TFLOPS, 0, TOO_LARGE},
    {"4", "4B", ZERO_OS, WHOLE, 32, 1, 64, 2304, 24, 16, TFLOPS, 0, NO_NUMBER},
    {"4", "5.9B", ZERO_OS, WHOLE, 32, 1, 72, 2592, 32, 4, TFLOPS, 0, NO_NUMBER},
    {"5", "8B", ZERO_OS, WHOLE, 400, 4, 72, 3072, 24, 24, TFLOPS, 38, SAME_RUN},
    {"5", "20B", ZERO_OS, WHOLE, 400, 4, 111, 3808, 32, 8, TFLOPS, 27, SAME_RUN},
    {"5", "40B", ZERO_OS, WHOLE, 384, 8, 88, 6144, 32, 8, TFLOPS, 29, SAME_RUN},
    {"5", "60B", ZERO_OS, WHOLE, 384, 16, 132, 6144, 32, 8, TFLOPS, 20, NO_SHAPE},
    {"5", "80B", ZERO_OS, WHOLE, 400, 16, 112, 7680, 80, 8, TFLOPS, 17, NO_SHAPE},
    {"5", "100B", ZERO_OS, WHOLE, 400, 16, 317, 5120, 80, 4, TFLOPS, 7, COUNTS},
    {"5", "8B", MEGATRON, WHOLE, 400, 8, 72, 3072, 24, 8, TFLOPS, 23, SAME_RUN},
    {"5", "20B", MEGATRON, WHOLE, 400, 16, 111, 3808, 32, 4, TFLOPS, 9, SAME_RUN},
    {"5", "40B in nodes", MEGATRON, WHOLE, 384, 16, 88, 6144, 32, 1, TFLOPS, 0, TOO_LARGE},
    {"5", "60B in nodes", MEGATRON, WHOLE, 384, 16, 132, 6144, 32, 1, TFLOPS, 0, TOO_LARGE},
    {"5", "80B in nodes", MEGATRON, WHOLE, 400, 16, 112, 7680, 80, 1, TFLOPS, 0, TOO_LARGE},
    {"5", "100B in nodes", MEGATRON, WHOLE, 400, 16, 317, 5120, 80, 1, TFLOPS, 0, TOO_LARGE},
    {"5", "40B across nodes", MEGATRON, WHOLE, 384, 32, 88, 6144, 32, 4, TFLOPS, 4.92, SAME_RUN},
    {"5", "60B across nodes", MEGATRON, WHOLE, 384, 64, 132, 6144, 64, 4, TFLOPS, 6.34, NO_SHAPE},
    {"5", "80B across nodes", MEGATRON, WHOLE, 384, 128, 100, 8192, 128, 4, TFLOPS, 4.03, NO_SHAPE},
    {"5", "100B across nodes", MEGATRON, WHOLE, 384, 128, 125, 8192, 128, 2, TFLOPS, 2.49, NO_SHAPE},
    {"6", "8B", ZERO_OS, WHOLE, 400, 4, 72, 3072, 24, 24, SAMPLES, 210.8, FITTED},
    {"6", "8B", MEGATRON, WHOLE, 400, 8, 72, 3072, 24, 8, SAMPLES, 129.2, FITTED},
    {"6", "20B", ZERO_OS, WHOLE, 400, 4, 111, 3808, 32, 8, SAMPLES, 62.8, COUNTS},
    {"6", "20B", MEGATRON, WHOLE, 400, 16, 111, 3808, 32, 4, SAMPLES, 21.4, COUNTS},
    {"6", "40B", ZERO_OS, WHOLE, 384, 8, 88, 6144, 32, 8, SAMPLES, 31.77, COUNTS},
    {"6", "40B", MEGATRON, WHOLE, 384, 32, 88, 6144, 32, 4, SAMPLES, 5.38, FITTED},
    {"7", "1.5B", ZERO_OS, WHOLE, 32, 1, 48, 1600, 16, 8, SAMPLES, 40.2, FITTED},
    {"7", "1.5B", MEGATRON, WHOLE, 32, 4, 48, 1600, 16, 8, SAMPLES, 10.7, COUNTS},
    {"8", "8B", ZERO_OS, WHOLE, 240, 4, 72, 3072, 24, 24, SAMPLES, 129.9, COUNTS},
    {"8", "8B", MEGATRON, WHOLE, 400, 8, 72, 3072, 24, 8, SAMPLES, 129.2, SAME_RUN},
    {"8", "20B", ZERO_OS, WHOLE, 128, 4, 111, 3808, 32, 8, SAMPLES, 24.72, COUNTS},
    {"8", "20B", MEGATRON, WHOLE, 400, 16, 111, 3808, 32, 4, SAMPLES, 21.38, SAME_RUN},
    {"1", "1T", ZERO_3, PIECES, 1024, 16, 127, 25600, 160, 8, TFLOPS, 0, NO_NUMBER},
};
const int cli_papers_v1_n = sizeof(cli_papers_v1) / sizeof(*cli_papers_v1);

/* The data-parallel degree N is GPUs / M. The appendix's baseline is stage 0. C1 and C2 are P_os. All other ZeRO runs
 * are P_os+g. The appendix does not give the place of checkpoints for all runs. For a ZeRO run without a given place,
 * checkpoints are partitioned if M is above 1, and are on the host for 170B. */
const cli_papers_run cli_papers_appendix[CLI_PAPERS_APPENDIX] = {
    {"Fig2", "1.5B", ZERO_2, WHOLE, 400, 1, 48, 1600, 16, 24, TFLOPS, 0, NO_NUMBER},
    {"Fig2", "1.5B", MEGATRON, WHOLE, 400, 2, 48, 1600, 16, 16, TFLOPS, 0, NO_NUMBER},
    {"Fig2", "8B", ZERO_2, PIECES, 400, 4, 72, 3072, 24, 64, TFLOPS, 0, NO_NUMBER},
    {"Fig2", "8B", MEGATRON, WHOLE, 400, 8, 72, 3072, 24, 8, TFLOPS, 0, NO_NUMBER},
    {"Fig2", "20B", ZERO_2, PIECES, 400, 4, 98, 4096, 32, 32, TFLOPS, 0, NO_NUMBER},
    {"Fig2", "20B", MEGATRON, WHOLE, 400, 16, 98, 4096, 32, 4, TFLOPS, 0, NO_NUMBER},
    {"Fig2", "40B", ZERO_2, PIECES, 400, 4, 88, 6144, 32, 12, TFLOPS, 0, NO_NUMBER},
    {"Fig2", "40B", MEGATRON, WHOLE, 384, 32, 88, 6144, 64, 4, TFLOPS, 5, SAME_RUN},
    {"Fig2", "60B", ZERO_2, PIECES, 400, 16, 132, 6144, 32, 64, TFLOPS, 0, NO_NUMBER},
    {"Fig2", "60B", MEGATRON, WHOLE, 384, 64, 132, 6144, 64, 4, TFLOPS, 0, NO_NUMBER},
    {"Fig2", "80B", ZERO_2, PIECES, 400, 16, 100, 8192, 64, 32, TFLOPS, 0, NO_NUMBER},
    {"Fig2", "80B", MEGATRON, WHOLE, 384, 128, 100, 8192, 128, 4, TFLOPS, 0, NO_NUMBER},
    {"Fig2", "100B", ZERO_2, PIECES, 400, 16, 125, 8192, 64, 32, TFLOPS, 0, NO_NUMBER},
    {"Fig2", "100B", MEGATRON, WHOLE, 384, 128, 125, 8192, 128, 2, TFLOPS, 0, NO_NUMBER},
    {"Fig2", "120B", ZERO_2, PIECES, 400, 16, 150, 8192, 64, 24, TFLOPS, 0, NO_NUMBER},
    {"Fig2", "120B", MEGATRON, WHOLE, 384, 128, 150, 8192, 128, 2, TFLOPS, 0, NO_NUMBER},
    {"Fig2", "140B", ZERO_2, PIECES, 400, 16, 175, 8192, 64, 16, TFLOPS, 0, NO_NUMBER},
    {"Fig2", "140B", MEGATRON, WHOLE, 384, 128, 175, 8192, 128, 2, TFLOPS, 0, NO_NUMBER},
    {"Fig2", "170B", ZERO_2, HOST, 400, 16, 212, 8192, 64, 12, TFLOPS, 0, NO_NUMBER},
    {"Fig2", "170B", MEGATRON, WHOLE, 256, 256, 212, 8192, 256, 2, TFLOPS, 0, NO_NUMBER},
    {"Fig3", "60B", ZERO_2, PIECES, 64, 16, 75, 8192, 32, 16, TFLOPS, 0, NO_NUMBER},
    {"Fig3", "60B", ZERO_2, PIECES, 128, 16, 75, 8192, 32, 48, TFLOPS, 0, NO_NUMBER},
    {"Fig3", "60B", ZERO_2, PIECES, 256, 16, 75, 8192, 32, 48, TFLOPS, 0, NO_NUMBER},
    {"Fig3", "60B", ZERO_2, PIECES, 400, 16, 75, 8192, 32, 64, TFLOPS, 0, NO_NUMBER},
    {"MaxModel(C1)", "40B", ZERO_1, WHOLE, 400, 16, 50, 8192, 32, 16, TFLOPS, 0, NO_NUMBER},
    {"MaxModel(C2)", "60B", ZERO_1, PIECES, 400, 16, 132, 6144, 64, 16, TFLOPS, 0, NO_NUMBER},
    {"MaxModel(C4)", "140B", ZERO_2, PIECES, 400, 16, 175, 8192, 64, 16, TFLOPS, 0, NO_NUMBER},
    {"MaxModel(C5)", "150B", ZERO_2, HOST, 400, 16, 187, 8192, 64, 16, TFLOPS, 0, NO_NUMBER},
    {"MaxModel(C3)", "50B", ZERO_2, WHOLE, 400, 16, 62, 8192, 32, 16, TFLOPS, 0, NO_NUMBER},
    {"CachedMem", "40B", ZERO_2, PIECES, 400, 16, 50, 8192, 32, 16, TFLOPS, 0, NO_NUMBER},
    {"CachedMem", "100B", ZERO_2, PIECES, 400, 16, 125, 8192, 64, 32, TFLOPS, 0, NO_NUMBER},
    {"Thrpt(C1)", "60B", ZERO_1, WHOLE, 128, 16, 75, 8192, 64, 2, TFLOPS, 0, NO_NUMBER},
    {"Thrpt(C2)", "60B", ZERO_1, PIECES, 128, 16, 75, 8192, 64, 4, TFLOPS, 0, NO_NUMBER},
    {"Thrpt(C4)", "60B", ZERO_2, PIECES, 128, 16, 75, 8192, 64, 32, TFLOPS, 0, NO_NUMBER},
    {"Thrpt(C5)", "60B", ZERO_2, HOST, 128, 16, 75, 8192, 64, 32, TFLOPS, 0, NO_NUMBER},
    {"Thrpt(C3)", "60B", ZERO_2, WHOLE, 128, 16, 75, 8192, 64, 8, TFLOPS, 0, NO_NUMBER},
    {"Thrpt(C5)", "170B", ZERO_2, HOST, 400, 16, 212, 8192, 64, 12, TFLOPS, 0, NO_NUMBER},
    {"NoMP", "1.5B", ZERO_2, WHOLE, 128, 1, 34, 1920, 16, 24, TFLOPS, 0, NO_NUMBER},
    {"NoMP", "2.5B", ZERO_2, WHOLE, 128, 1, 54, 1920, 16, 24, TFLOPS, 0, NO_NUMBER},
    {"NoMP", "4B", ZERO_2, WHOLE, 128, 1, 64, 2304, 24, 16, TFLOPS, 0, NO_NUMBER},
    {"NoMP", "6B", ZERO_2, WHOLE, 128, 1, 52, 3072, 24, 12, TFLOPS, 0, NO_NUMBER},
    {"NoMP", "8B", ZERO_2, WHOLE, 128, 1, 72, 3072, 24, 8, TFLOPS, 0, NO_NUMBER},
    {"NoMP", "10B", ZERO_2, WHOLE, 128, 1, 50, 4096, 32, 6, TFLOPS, 0, NO_NUMBER},
    {"NoMP", "11B", ZERO_2, WHOLE, 128, 1, 54, 4096, 32, 4, TFLOPS, 0, NO_NUMBER},
    {"NoMP", "12B", ZERO_2, WHOLE, 128, 1, 58, 4096, 32, 4, TFLOPS, 0, NO_NUMBER},
    {"NoMP", "13B", ZERO_2, WHOLE, 128, 1, 62, 4096, 32, 2, TFLOPS, 40, AT_LEAST},
    {"NoMP", "1.16B", MEGATRON, WHOLE, 128, 1, 24, 1920, 16, 8, TFLOPS, 0, NO_NUMBER},
    {"NoMP", "1.38B", MEGATRON, WHOLE, 128, 1, 40, 1536, 16, 1, TFLOPS, 0, NO_NUMBER},
};

const cli_papers_ratio cli_papers_ratios[CLI_PAPERS_RATIOS] = {
    {"6", "8B", false, 1.63},   {"6", "20B", false, 2.93}, {"6", "40B", false, 5.9},
    {"7", "1.5B", false, 3.75}, {"8", "8B", true, 1.7},    {"8", "20B", true, 3.1},
};

const cli_papers_preset cli_papers_presets[CLI_PAPERS_PRESETS] = {
    {"C1", 1, WHOLE, 40, 2},    {"C2", 1, PIECES, 60, 4}, {"C3", 2, WHOLE, 50, 8},
    {"C4", 2, PIECES, 140, 32}, {"C5", 2, HOST, 150, 32},
};

const char *const cli_papers_stage_name[] = {"baseline", "Pos", "Pos+g", "Pos+g+p"};
const char *const cli_papers_kept_name[] = {[WHOLE] = "", [PIECES] = " Pa", [HOST] = " Pa+cpu"};

double cli_papers_percent(double ours, double printed)
{
    return 100 * (ours / printed - 1);
}

double cli_papers_rounded(double percent)
{
    return fabs(percent) < 0.005 ? 0 : percent;
}

int cli_papers_stage(const cli_papers_run *run)
{
    static const int stage[] = {
        [MEGATRON] = 0, [ZERO_OS] = 1, [CLI_PAPERS_ZERO_OS_LATE] = 1, [ZERO_1] = 1, [ZERO_2] = 2, [ZERO_3] = 3};
    return stage[run->system];
}
