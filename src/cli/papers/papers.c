/* Tables 1 and 2 of the ZeRO paper (Rajbhandari et al., arXiv 1910.02054 v1) beside zr's plans. The paper's numbers are
 * stored as printed, some rounded and some truncated. zr's numbers are plans of a chain of matrices with the same
 * number of parameters. */
#include "base/json/json_write.h"
#include "cli/papers/papers.h"

#include <stdio.h>

/* Find the bytes of a rank's model states with mixed precision and Adam. Each unit has one bucket, which keeps the
 * schedule short. */
static zr_status states_bytes(const zr_chain_config *chain, int stage, int tensor, int ranks, int64_t *bytes)
{
    zr_model model = zr_chain(chain);
    zr_layout layout = zr_layout_default();
    /* The profile has no scratch memory, because only model states are counted. */
    zr_profile profile = {.facts = {.name = "none", .threads = 1}};
    zr_plan *plan = NULL;
    layout.ranks = ranks;
    layout.tensor = tensor;
    layout.stage = stage;
    layout.dtype = layout.wire_dtype = ZR_BF16;
    layout.states = ZR_STATES_PAPER;
    layout.reduce_bucket_elems = layout.gather_bucket_elems = chain->rows * chain->cols;
    layout.eval = false;
    layout.optimizer = zr_adamw(0.9, 0.999, 1e-8, 0);
    ZR_TRY(zr_plan_create(&model, &layout, &profile, &plan));
    *bytes = plan->memory.states_bytes;
    zr_plan_destroy(&plan);
    return ZR_OK;
}

static zr_status end_table_json(zr__json_out *json, FILE *out)
{
    zr__text_add(&json->text, "\n");
    zr__json_close(json, ']');
    zr__json_close(json, '}');
    return zr__json_write(json, out);
}

/* ---- table 1: gigabytes of a rank ------------------------------------------------------------- */

enum { SIZES = 3, DEGREES = 6, STAGES = 3 };

static const struct {
    const char *label;
    zr_chain_config chain;
} size_of[SIZES] = {
    {"7.5B", {75, 10000, 10000}},
    {"128B", {125, 32000, 32000}},
    {"1T", {100, 100000, 100000}},
};

static const struct {
    int ranks;
    double printed_gb[SIZES][STAGES];
} table1[DEGREES] = {
    {1, {{120, 120, 120}, {2048, 2048, 2048}, {16000, 16000, 16000}}},
    {4, {{52.5, 41.3, 30}, {896, 704, 512}, {7000, 5500, 4000}}},
    {16, {{35.6, 21.6, 7.5}, {608, 368, 128}, {4750, 2875, 1000}}},
    {64, {{31.4, 16.6, 1.88}, {536, 284, 32}, {4187, 2218, 250}}},
    {256, {{30.4, 15.4, 0.47}, {518, 263, 8}, {4046, 2054, 62.5}}},
    {1024, {{30.1, 15.1, 0.12}, {513, 257, 2}, {4011, 2013, 15.6}}},
};

static void print_table1(FILE *out, int64_t bytes[SIZES][DEGREES][STAGES])
{
    fprintf(out, "ZeRO, table 1: model states of one of N ranks in GB (1e9 bytes), Adam, bf16\n"
                 "zr: planned, layout paper; paper: as printed, rounded or cut off\n");
    for (int i = 0; i < SIZES; i++) {
        fprintf(out, "\n%6s", size_of[i].label);
        for (int s = 0; s < STAGES; s++) fprintf(out, "%24s", cli_papers_stage_name[s + 1]);
        fprintf(out, "\n     N");
        for (int s = 0; s < STAGES; s++) fprintf(out, "%9s%7s%8s", "zr", "paper", "%");
        for (int n = 0; n < DEGREES; n++) {
            fprintf(out, "\n%6d", table1[n].ranks);
            for (int s = 0; s < STAGES; s++) {
                double ours = (double)bytes[i][n][s] / 1e9, printed = table1[n].printed_gb[i][s];
                fprintf(out, "%9.6g%7g%+8.2f", ours, printed, cli_papers_rounded(cli_papers_percent(ours, printed)));
            }
        }
        fputc('\n', out);
    }
}

static zr_status print_table1_json(FILE *out, int64_t bytes[SIZES][DEGREES][STAGES])
{
    zr__json_out json = {.spaced = true};
    zr__json_open(&json, NULL, '{');
    zr__json_add(&json, "table", 1);
    zr__json_open(&json, "rows", '[');
    for (int at = 0; at < SIZES * DEGREES * STAGES; at++) {
        const int i = at / (DEGREES * STAGES), n = at / STAGES % DEGREES, s = at % STAGES;
        const zr_chain_config *c = &size_of[i].chain;
        const double printed = table1[n].printed_gb[i][s];
        zr__json_break(&json, "\n  ");
        zr__json_open(&json, NULL, '{');
        zr__json_add(&json, "params", c->units * c->rows * c->cols, "ranks", table1[n].ranks, "stage", s + 1, "states",
                     bytes[i][n][s]);
        zr__json_add_as(&json, "paper_gb", "%g", printed);
        zr__json_add_as(&json, "deviation_percent", "%.4f", cli_papers_percent((double)bytes[i][n][s] / 1e9, printed));
        zr__json_close(&json, '}');
    }
    return end_table_json(&json, out);
}

zr_status cli_papers_table1(FILE *out, bool json)
{
    int64_t bytes[SIZES][DEGREES][STAGES];
    for (int i = 0; i < SIZES; i++)
        for (int n = 0; n < DEGREES; n++)
            for (int s = 0; s < STAGES; s++)
                ZR_TRY(states_bytes(&size_of[i].chain, s + 1, 1, table1[n].ranks, &bytes[i][n][s]));
    if (json) return print_table1_json(out, bytes);
    print_table1(out, bytes);
    return ZR_OK;
}

/* ---- table 2: the largest model --------------------------------------------------------------- */

enum { ROWS = 5, LIMIT_GB = 32 };

static const struct {
    int tensor, ranks; /* `tensor`: tensor-parallel degree (M); `ranks`: data-parallel degree (N) */
    double printed_billion[4];
} table2[ROWS] = {
    {1, 64, {2, 7.6, 14.4, 128}},     {2, 64, {4, 15.2, 28.8, 256}},      {4, 64, {8, 30.4, 57.6, 500}},
    {8, 64, {16, 60.8, 115.2, 1000}}, {16, 64, {32, 121.6, 230.4, 2000}},
};

/* Find the number of parameters, in billions, of the largest chain of matrices whose states fit LIMIT_GB. The search
 * tries only multiples of 16,000 x M parameters. */
static zr_status largest_billion(int stage, int tensor, int ranks, double *billion)
{
    zr_chain_config chain = {.units = 20, .rows = 800}; /* zr_chain requires `rows` to be a multiple of M */
    int64_t fits = 0, beyond = 0, bytes;
    while (beyond == 0 || beyond - fits > 1) {
        const int64_t part = beyond == 0 ? 2 * fits + 1 : fits + (beyond - fits) / 2;
        chain.cols = part * tensor;
        ZR_TRY(states_bytes(&chain, stage, tensor, ranks, &bytes));
        if (bytes <= LIMIT_GB * 1000000000LL)
            fits = part;
        else
            beyond = part;
    }
    *billion = (double)(chain.units * chain.rows * fits * tensor) / 1e9;
    return ZR_OK;
}

/* Print a row for each stage and a column for each tensor-parallel degree. Two degrees fit side by side in 80
 * columns. */
static void print_table2(FILE *out, double billion[ROWS][4])
{
    enum { ABREAST = 2 };
    fprintf(out,
            "ZeRO, table 2: the largest model whose states fit %d GB (1e9 bytes) a rank,\n"
            "in billions of parameters; M tensor-parallel parts of 64 data-parallel ranks\n"
            "zr: planned, layout paper, bf16, Adam; paper: as printed, above M = 1 its\n"
            "rounded first row times M; %%: zr against paper\n",
            LIMIT_GB);
    for (int first = 0; first < ROWS; first += ABREAST) {
        const int end = first + ABREAST < ROWS ? first + ABREAST : ROWS;
        fprintf(out, "\n%10s", "");
        for (int r = first; r < end; r++) {
            char degree[24];
            snprintf(degree, sizeof(degree), "M = %d", table2[r].tensor);
            fprintf(out, "%27s", degree);
        }
        fprintf(out, "\n%10s", "");
        for (int r = first; r < end; r++) fprintf(out, "%11s%9s%7s", "zr", "paper", "%");
        for (int s = 0; s < 4; s++) {
            fprintf(out, "\n%-10s", cli_papers_stage_name[s]);
            for (int r = first; r < end; r++) {
                double ours = billion[r][s], printed = table2[r].printed_billion[s];
                fprintf(out, "%11.5g%9g%+7.2f", ours, printed, cli_papers_rounded(cli_papers_percent(ours, printed)));
            }
        }
        fputc('\n', out);
    }
}

static zr_status print_table2_json(FILE *out, double billion[ROWS][4])
{
    zr__json_out json = {.spaced = true};
    zr__json_open(&json, NULL, '{');
    zr__json_add(&json, "table", 2, "memory", LIMIT_GB * 1000000000LL);
    zr__json_open(&json, "rows", '[');
    for (int at = 0; at < ROWS * 4; at++) {
        const int r = at / 4, s = at % 4;
        const double ours = billion[r][s], printed = table2[r].printed_billion[s];
        zr__json_break(&json, "\n  ");
        zr__json_open(&json, NULL, '{');
        zr__json_add(&json, "tensor", table2[r].tensor, "ranks", table2[r].ranks, "stage", s);
        zr__json_add_as(&json, "paper_params", "%.0f", 1e9 * printed);
        zr__json_add_as(&json, "params", "%.0f", 1e9 * ours);
        zr__json_add_as(&json, "deviation_percent", "%.4f", cli_papers_percent(ours, printed));
        zr__json_close(&json, '}');
    }
    return end_table_json(&json, out);
}

zr_status cli_papers_table2(FILE *out, bool json)
{
    double billion[ROWS][4];
    for (int r = 0; r < ROWS; r++)
        for (int s = 0; s < 4; s++) ZR_TRY(largest_billion(s, table2[r].tensor, table2[r].ranks, &billion[r][s]));
    if (json) return print_table2_json(out, billion);
    print_table2(out, billion);
    return ZR_OK;
}
