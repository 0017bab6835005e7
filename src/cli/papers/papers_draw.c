/* Pictures of the papers, drawn from simulated numbers: the scaling of a 60B model from 64 to 400 GPUs, throughput by
 * model size, and the minutes in which BERT-Large was trained. */
#include "cli/draw/lines.h"
#include "cli/papers/papers.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 4, PLACES = 10 };

typedef struct papers_picture {
    cli_lines lines;
    double y[LINES * PLACES];
    bool hollow[LINES * PLACES];
} papers_picture;

static void set_value(papers_picture *p, int line, int at, const cli_papers_row *row, double value)
{
    p->y[line * p->lines.n_x + at] = value;
    p->hollow[line * p->lines.n_x + at] = row && row->memory_bytes > row->limit_bytes;
}

/* Draw the scaling of the 60B model from 64 to 400 GPUs, beside linear scaling from 64 GPUs. With `all`, draw the total
 * FLOP/s of all GPUs, otherwise the FLOP/s of each GPU. */
static void draw_scaling(papers_picture *p, const cli_papers_rows *rows, bool all)
{
    static const char *const gpus[] = {"64", "128", "256", "400"};
    static const char *const names[] = {"zr, Pos+g with Pa", "perfect linear from 64"};
    p->lines.title = all ? "60B on 64 to 400 GPUs: PFLOP/s of all" : "60B on 64 to 400 GPUs: TFLOP/s of each";
    p->lines.y_name = all ? "PFLOP/s of all GPUs" : "TFLOP/s of a GPU";
    p->lines.x_name = "GPUs";
    p->lines.x = gpus;
    p->lines.n_x = sizeof(gpus) / sizeof(*gpus);
    p->lines.name = names;
    p->lines.n = 2;
    double first = 0;
    for (int i = 0; i < p->lines.n_x; i++) {
        const int n = atoi(gpus[i]);
        const cli_papers_row *row = cli_papers_find(rows, "Fig3", "60B", CLI_PAPERS_ZERO_2, n);
        const double scale = all ? n / 1e15 : 1 / 1e12;
        if (i == 0) first = row->made.flops_sec;
        set_value(p, 0, i, row, row->made.flops_sec * scale);
        set_value(p, 1, i, NULL, first * scale);
    }
}

/* Draw the TFLOP/s of a GPU by model size, for ZeRO and for Megatron-LM. */
static void draw_models(papers_picture *p, const cli_papers_rows *rows)
{
    static const char *const names[] = {"zr, ZeRO (Pos+g)", "zr, Megatron-LM", "SC20, ZeRO: 38 for 8B to 100B",
                                        "SC20, Megatron-LM: 5 at 40B"};
    static const char *const sizes[] = {"1.5", "8", "20", "40", "60", "80", "100", "120", "140", "170"};
    p->lines.title = "Up to 400 GPUs: TFLOP/s of each over the size of a model";
    p->lines.y_name = "TFLOP/s of a GPU";
    p->lines.x_name = "billion parameters (SC20, figure 2)";
    p->lines.x = sizes;
    p->lines.n_x = PLACES;
    p->lines.name = names;
    p->lines.n = LINES;
    for (int i = 0; i < PLACES; i++) {
        char label[8];
        snprintf(label, sizeof(label), "%sB", sizes[i]);
        const cli_papers_row *zero = cli_papers_find(rows, "Fig2", label, CLI_PAPERS_ZERO_2, 0),
                             *other = cli_papers_find(rows, "Fig2", label, CLI_PAPERS_MEGATRON, 0);
        const double size = atof(sizes[i]);
        set_value(p, 0, i, zero, zero->zr);
        set_value(p, 1, i, other, other->zr);
        set_value(p, 2, i, NULL, size >= 8 && size <= 100 ? 38 : NAN);
        set_value(p, 3, i, NULL, other->paper > 0 ? other->paper : NAN);
    }
}

/* Draw the minutes of BERT-Large's training by the number of GPUs, printed and simulated, for both systems. */
static void draw_record(papers_picture *p, const cli_papers_rows *rows)
{
    static const char *const systems[] = {"DeepSpeed", "NVIDIA"};
    static const char *const names[] = {"zr, DeepSpeed", "zr, NVIDIA", "DeepSpeed, May 2020", "NVIDIA, 2019"};
    static const char *const gpus[] = {"16", "64", "256", "1024", "1472"};
    p->lines.title = "Pre-training of BERT-Large on V100: minutes";
    p->lines.y_name = "minutes";
    p->lines.x_name = "GPUs";
    p->lines.x = gpus;
    p->lines.n_x = sizeof(gpus) / sizeof(*gpus);
    p->lines.name = names;
    p->lines.n = LINES;
    p->lines.from_zero = false;
    for (int i = 0; i < LINES * p->lines.n_x; i++) p->y[i] = NAN;
    for (int i = 0; i < rows->n; i++) {
        const cli_papers_row *row = &rows->row[i];
        const int line = strcmp(row->system, systems[0]) != 0;
        if (row->n_phases < CLI_PAPERS_PHASES) continue;
        for (int at = 0; at < p->lines.n_x; at++) {
            if (row->gpus != atoi(gpus[at])) continue;
            set_value(p, line, at, row, row->zr);
            set_value(p, line + 2, at, NULL, row->paper);
        }
    }
}

zr_status cli_papers_check_plot(const char *name)
{
    static const char *const plots[] = {"models", "60b-total", "60b-each", "bert"};
    bool known = false;
    for (size_t i = 0; i < sizeof(plots) / sizeof(*plots); i++) known |= strcmp(name, plots[i]) == 0;
    ZR_CHECK(known, ZR_ERR_ARG, "--plot %s: with --paper models, 60b-total, 60b-each or bert was wanted", name);
    return ZR_OK;
}

zr_status cli_papers_draw(const char *path, const char *name, const cli_papers_rows *rows)
{
    const char *const inputs[] = {NULL};
    const bool all = strcmp(name, "60b-total") == 0, models = strcmp(name, "models") == 0,
               record = strcmp(name, "bert") == 0;
    papers_picture p = {.lines = {.hollow_words = "hollow: zr's plan needs more memory", .from_zero = true}};
    ZR_TRY(cli_papers_check_plot(name));
    p.lines.y = p.y;
    p.lines.hollow = p.hollow;
    if (models)
        draw_models(&p, rows);
    else if (record)
        draw_record(&p, rows);
    else
        draw_scaling(&p, rows, all);
    return cli_lines_write(&p.lines, path, inputs);
}
