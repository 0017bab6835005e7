/* Print the papers' numbers beside zr's numbers, as text and as JSON. */
#include "base/json/json.h"
#include "cli/papers/papers.h"
#include "cli/plan/target.h"
#include "cli/simulate/simulate.h"
#include "simulate/simulate.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>

static const char *const mark_name[] = {[CLI_PAPERS_COUNTS] = "",
                                        [CLI_PAPERS_FITTED] = "fitted",
                                        [CLI_PAPERS_SAME_RUN] = "same run",
                                        [CLI_PAPERS_NO_SHAPE] = "shape not printed",
                                        [CLI_PAPERS_NO_NUMBER] = "not printed",
                                        [CLI_PAPERS_AT_LEAST] = "a bound",
                                        [CLI_PAPERS_TOO_LARGE] = "out of memory",
                                        [CLI_PAPERS_APART] = "apart",
                                        [CLI_PAPERS_NO_SPEED] = "not timed"};

static bool is_too_large(const cli_papers_row *r)
{
    return r->memory_bytes > r->limit_bytes;
}

/* ---- text ---------------------------------------------------------------------------------------- */

static void print_papers_row(FILE *out, const cli_papers_row *r)
{
    char printed[16] = "-", deviation[16] = "", memory[16] = "";
    if (r->mark == CLI_PAPERS_TOO_LARGE) snprintf(printed, sizeof(printed), "OOM");
    if (r->paper > 0) {
        snprintf(printed, sizeof(printed), "%s%.4g", r->mark == CLI_PAPERS_AT_LEAST ? ">" : "", r->paper);
        snprintf(deviation, sizeof(deviation), "%+.1f", cli_papers_percent(r->zr, r->paper));
    }
    if (r->memory_bytes > 0)
        snprintf(memory, sizeof(memory), "%.1f%s", (double)r->memory_bytes / 1e9, is_too_large(r) ? "!" : " ");
    /* With precision 0, printf prints the number 0 as blanks. */
    fprintf(out, "%-12s %-20s %-12s %4.0d %3.0d %2.0d %7s %7.4g %6s %-11s %6s %s\n", r->table, r->label, r->system,
            r->gpus, r->tensor, r->batch, printed, r->zr, deviation, r->unit, memory, mark_name[r->mark]);
}

static int by_deviation(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Print the median and the largest absolute deviation of the rows with one of two marks. */
static void print_median(FILE *out, const cli_papers_rows *rows, cli_papers_mark mark, cli_papers_mark other,
                         const char *words)
{
    double all[CLI_PAPERS_ROWS];
    int n = 0;
    for (int i = 0; i < rows->n; i++) {
        const cli_papers_row *r = &rows->row[i];
        if (r->mark == mark || r->mark == other) all[n++] = fabs(cli_papers_percent(r->zr, r->paper));
    }
    qsort(all, (size_t)n, sizeof(*all), by_deviation);
    fprintf(out, "%d %s: median deviation %.1f %%, largest %.1f %%\n", n, words,
            n % 2 ? all[n / 2] : (all[n / 2 - 1] + all[n / 2]) / 2, all[n - 1]);
}

/* Explain a row that deviates from the paper by more than 25 %, or a run that fits in zr's plan but was out of memory
 * in the paper. Print the exposed communication, or the additional bytes, that would give the paper's result. */
static void print_papers_reason(FILE *out, const cli_papers_row *r)
{
    const bool far = r->paper > 0 && fabs(cli_papers_percent(r->zr, r->paper)) > 25;
    const bool only_papers = r->mark == CLI_PAPERS_TOO_LARGE && !is_too_large(r);
    if (r->mark == CLI_PAPERS_SAME_RUN || r->mark == CLI_PAPERS_AT_LEAST || r->mark == CLI_PAPERS_APART ||
        (!far && !only_papers))
        return;
    fprintf(out, "%s, %s %s: ", r->table, r->label, r->system);
    if (only_papers || !r->run) {
        const double taken = (double)r->memory_bytes / 1e9, there = (double)r->limit_bytes / 1e9;
        fprintf(out,
                "the paper's %s takes %.1f of %.1f GB in zr's plan;\n  its program's %.1f GB more would give the %s\n",
                r->run ? "run" : "size", taken, there, there - taken, r->run ? "paper's end" : "paper's number");
        return;
    }
    const zr_price *price = &r->made.price;
    const double step = price->step_sec * r->zr / r->paper, busy = price->step_sec - price->exposed_sec;
    fprintf(out, "the paper's step took %.1f s; zr's kernels take %.1f s\n  and it waits %.1f s; ", step, busy,
            price->exposed_sec);
    if (step > busy)
        fprintf(out, "waits of %.1f s would give the paper's number\n", step - busy);
    else
        fprintf(out, "the kernels alone would have to be %.2f times as fast\n", busy / step);
}

void cli_papers_print(FILE *out, const cli_papers_rows *rows)
{
    fputs("The ZeRO papers' numbers beside zr's, with one set of constants for all\n"
          "table: of arXiv 1910.02054 v1 (1 to 8), or of SC20, as its appendix calls the figure; M: ranks that\n"
          "share each layer; B: samples of a micro-batch; %: zr against the paper; TFLOP/s: of a GPU; GB: what\n"
          "zr's plan takes of a GPU, !: more than it has; fitted: constants were; -: not printed; >: at least\n"
          "BERT-Large: by DeepSpeed (2020) and NVIDIA (2019); apart: with a median of its own\n" CLI_GPU_REMARK "\n\n"
          "table        row                  system       GPUs   M  B   paper      zr      % unit            GB\n",
          out);
    for (int i = 0; i < rows->n; i++) print_papers_row(out, &rows->row[i]);
    if (rows->elsewhere) return;
    fputc('\n', out);
    print_median(out, rows, CLI_PAPERS_COUNTS, CLI_PAPERS_COUNTS, "rows that count and were not fitted");
    print_median(out, rows, CLI_PAPERS_COUNTS, CLI_PAPERS_FITTED, "with those that were fitted");
    print_median(out, rows, CLI_PAPERS_APART, CLI_PAPERS_APART, "rows of BERT-Large, none of which was fitted");
    fputs("\nWhat it would take where a row is off by more than a quarter:\n", out);
    for (int i = 0; i < rows->n; i++) print_papers_reason(out, &rows->row[i]);
}

/* ---- JSON ---------------------------------------------------------------------------------------- */

static json_t *phases_json(const cli_papers_row *r)
{
    json_t *all = json_array();
    for (const cli_papers_phase *p = r->phase; p < r->phase + r->n_phases; p++)
        (void)json_array_append_new(all, json_pack("{s:i, s:i, s:i, s:f, s:f, s:f}", "seq_length", p->tokens,
                                                   "micro_batch", p->micro, "accumulation", p->accum, "steps", p->steps,
                                                   "step_sec", p->step_sec, "exposed_sec", p->exposed_sec));
    return all;
}

static json_t *row_json(const cli_papers_row *r)
{
    json_t *one = json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:b, s:b, s:s}", "source", r->source, "table",
                            r->table, "row", r->label, "system", r->system, "what", r->unit, "paper",
                            r->paper > 0 ? json_real(r->paper) : json_null(), "zr",
                            isfinite(r->zr) ? json_real(r->zr) : json_null(), "fitted", r->mark == CLI_PAPERS_FITTED,
                            "counts", r->mark == CLI_PAPERS_COUNTS, "mark", mark_name[r->mark]);
    if (r->gpus > 0) cli_json_set(one, "gpus", json_integer(r->gpus));
    if (r->tensor > 0) cli_json_set(one, "tensor", json_integer(r->tensor));
    if (r->batch > 0) cli_json_set(one, "batch", json_integer(r->batch));
    if (r->memory_bytes > 0) {
        cli_json_set(one, "memory_bytes", json_integer(r->memory_bytes));
        cli_json_set(one, "fits", json_boolean(!is_too_large(r)));
    }
    if (r->n_phases > 0) cli_json_set(one, "phases", phases_json(r));
    if (!r->run) return one;
    json_t *exposed = json_object();
    for (int i = 0; i < ZR_CAUSES; i++)
        cli_json_set(exposed, zr__cause_name((zr_cause)i), json_real(r->made.exposed_sec[i]));
    cli_json_set(one, "step_sec", json_real(r->made.price.step_sec));
    cli_json_set(one, "product_sec", json_real(r->made.product_sec));
    cli_json_set(one, "memory_sec", json_real(r->made.memory_sec));
    cli_json_set(one, "exposed", exposed);
    return one;
}

zr_status cli_papers_print_json(FILE *out, const cli_papers_rows *rows)
{
    json_t *all = json_array();
    for (int i = 0; i < rows->n; i++) (void)json_array_append_new(all, row_json(&rows->row[i]));
    return cli_json_put(out, all);
}
