#include "cli/max.h"

#include <string.h>

/** No model has more layers and no micro-batch more rows: what would still fit is said to. */
#define MOST_LAYERS (1 << 16)
#define MOST_BATCH (1 << 24)
#define MIB 1048576.0

typedef struct search {
    zr_config *config;
    int ranks;
    const zr_profile *profile;
    cli_max_what what;
} search;

static void set(const search *s, int64_t n)
{
    zr_config *c = s->config;
    if (s->what == CLI_MAX_MODEL) {
        c->model.sizes.n_layer = n;
    } else {
        c->micro_batch_size = n;
        c->train_batch_size = n * c->accumulation_steps * s->ranks;
    }
}

/** What a process takes with so many layers or rows, as `zr train` counts. */
static zr_status needs_with(const search *s, int64_t n, int64_t *bytes)
{
    zr_plan *plan = NULL;
    set(s, n);
    ZR_TRY(zr_train_plan(s->config, s->ranks, -1, s->profile, &plan));
    *bytes = zr_train_process_bytes(plan->memory.total_bytes, 1);
    zr_plan_destroy(&plan);
    return ZR_OK;
}

const char *cli_max_key(cli_max_what what)
{
    return what == CLI_MAX_MODEL ? "model.n_layer" : "train_micro_batch_size_per_gpu";
}

zr_status cli_max_parse(const char *text, cli_max_what *what)
{
    ZR_CHECK(strcmp(text, "model") == 0 || strcmp(text, "batch") == 0, ZR_ERR_ARG,
             "--max is \"%s\"; model or batch was wanted", text);
    *what = strcmp(text, "model") == 0 ? CLI_MAX_MODEL : CLI_MAX_BATCH;
    return ZR_OK;
}

/* n and what it needs. */
typedef struct point {
    int64_t n, needs;
} point;

/** Where the line through two points meets the limit. */
static int64_t line_meets(point a, point b, int64_t limit_bytes)
{
    double slope = (double)(b.needs - a.needs) / (double)(b.n - a.n);
    double n = (double)b.n + (double)(limit_bytes - b.needs) / (slope > 1 ? slope : 1);
    return n < 0x1p40 ? (int64_t)n : (int64_t)1 << 40;
}

/** The next to try between what fits and what does not (needs 0: nobody knows yet). What a step needs grows nearly in a
 *  line, so that a few plans are enough, and large plans take their time; each third is a bisection, or a doubling, so
 *  that no curve makes it slow. */
static int64_t next_try(int round, point before, point fits, point fails, int64_t limit_bytes)
{
    point other = fails.needs ? fails : before;
    int64_t n = fails.needs ? fits.n + (fails.n - fits.n) / 2 : 2 * fits.n;
    if (round % 3 != 0) n = line_meets(other, fits, limit_bytes);
    if (!fails.needs && n > 16 * fits.n) n = 16 * fits.n;
    return n <= fits.n ? fits.n + 1 : n >= fails.n ? fails.n - 1 : n;
}

zr_status cli_max_find(zr_config *config, int ranks, const zr_profile *profile, int64_t limit_bytes, cli_max *max)
{
    const search s = {config, ranks, profile, max->what};
    point before = {0}, fits = {.n = 1}, fails = {.n = (max->what == CLI_MAX_MODEL ? MOST_LAYERS : MOST_BATCH) + 1};
    char limit[32], need[32];
    ZR_TRY(needs_with(&s, 1, &fits.needs));
    ZR_CHECK(
        fits.needs <= limit_bytes, ZR_ERR_MEMORY,
        "nothing fits %s: %s 1 needs %s a rank (3 %% and 48 MiB included); use a higher stage, more ranks, recompute "
        "policy unit, or a smaller %s",
        cli_bytes((double)limit_bytes, limit), cli_max_key(max->what), cli_bytes((double)fits.needs, need),
        max->what == CLI_MAX_MODEL ? "model.n_embd, vocabulary or batch" : "model or data.seq_length");
    for (int round = 0; fails.n - fits.n > 1; round++) {
        point now = {.n = next_try(round, before, fits, fails, limit_bytes)};
        ZR_TRY(needs_with(&s, now.n, &now.needs));
        if (now.needs <= limit_bytes) {
            before = fits;
            fits = now;
        } else {
            fails = now;
        }
    }
    *max = (cli_max){.what = max->what, .n = fits.n, .needs = fits.needs, .next_needs = fails.needs};
    set(&s, fits.n);
    return ZR_OK;
}

/** In MiB throughout: two neighbours are told apart. */
void cli_max_print(FILE *out, const cli_max *max, int64_t limit_bytes)
{
    fprintf(out, "%s %lld fits: it needs %.1f of %.1f MiB a rank", cli_max_key(max->what), (long long)max->n,
            (double)max->needs / MIB, (double)limit_bytes / MIB);
    if (max->next_needs) fprintf(out, "; %lld needs %.1f", (long long)max->n + 1, (double)max->next_needs / MIB);
    fprintf(out, " (1.03 x total + 48 MiB)\n\n");
}

void cli_max_json(FILE *out, const cli_max *max)
{
    fprintf(out, ", \"max\": {\"what\": \"%s\", \"%s\": %lld, \"needs\": %lld, \"next_needs\": ",
            max->what == CLI_MAX_MODEL ? "model" : "batch", cli_max_key(max->what), (long long)max->n,
            (long long)max->needs);
    if (max->next_needs) {
        fprintf(out, "%lld}", (long long)max->next_needs);
    } else {
        fprintf(out, "null}");
    }
}
