#include "cli/max.h"

#include <string.h>

/** What is looked through: more layers take long to plan, more rows are of no use. */
#define TRIED_LAYERS 2048
#define TRIED_ROWS (1 << 24)
#define MB 1e6

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

/** Rows whose product with micro-batches and ranks is still a number. */
static int64_t most_of(const search *s)
{
    if (s->what == CLI_MAX_MODEL) return TRIED_LAYERS;
    int64_t rows = INT64_MAX / (s->config->accumulation_steps * s->ranks);
    return rows < TRIED_ROWS ? rows : TRIED_ROWS;
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

/** From 1, which is known to fit: the last that fits and the first that does not. `guess` and the next after it are
 * tried first; 0: none. */
static zr_status find(const search *s, int64_t guess, int64_t limit_bytes, point *fits, point *fails)
{
    point before = {0};
    int64_t last_guess = guess + 1;
    for (int round = 0; fails->n - fits->n > 1; round++) {
        bool guessed = guess > fits->n && guess < fails->n && guess <= last_guess;
        point now = {.n = guessed ? guess : next_try(round, before, *fits, *fails, limit_bytes)};
        ZR_TRY(needs_with(s, now.n, &now.needs));
        if (now.needs <= limit_bytes) {
            if (guessed) guess++;
            before = *fits;
            *fits = now;
        } else {
            *fails = now;
        }
    }
    return ZR_OK;
}

/** Policy auto fits what policy unit does, and hardly more: it plans many times for each of its own, so begin there. */
static zr_status guess_for_auto(const search *s, int64_t limit_bytes, point fits, point fails, int64_t *guess)
{
    zr_config unit = *s->config;
    search cheap = *s;
    cheap.config = &unit;
    unit.recompute.policy = ZR_POLICY_UNIT;
    ZR_TRY(needs_with(&cheap, 1, &fits.needs));
    if (fits.needs <= limit_bytes) ZR_TRY(find(&cheap, 0, limit_bytes, &fits, &fails));
    *guess = fits.n;
    return ZR_OK;
}

zr_status cli_max_find(zr_config *config, int ranks, const zr_profile *profile, int64_t limit_bytes, cli_max *max)
{
    const search s = {config, ranks, profile, max->what};
    point fits = {.n = 1}, fails = {.n = most_of(&s) + 1};
    int64_t guess = 0;
    char limit[32], need[32];
    ZR_TRY(needs_with(&s, 1, &fits.needs));
    ZR_CHECK(fits.needs <= limit_bytes, ZR_ERR_MEMORY,
             "nothing fits %s: %s 1 needs %s a rank (3 %% and 50.33 MB for the program included); use a higher stage, "
             "more ranks, recompute "
             "policy unit, or a smaller %s",
             cli_bytes((double)limit_bytes, limit), cli_max_key(max->what), cli_bytes((double)fits.needs, need),
             max->what == CLI_MAX_MODEL ? "model.n_embd, vocabulary or batch" : "model or data.seq_length");
    if (config->recompute.policy == ZR_POLICY_AUTO) ZR_TRY(guess_for_auto(&s, limit_bytes, fits, fails, &guess));
    ZR_TRY(find(&s, guess, limit_bytes, &fits, &fails));
    set(&s, fits.n);
    *max = (cli_max){.what = max->what,
                     .n = fits.n,
                     .train_batch_size = config->train_batch_size,
                     .needs = fits.needs,
                     .next_needs = fails.needs};
    return ZR_OK;
}

/** In MB throughout: two neighbours are told apart. */
void cli_max_print(FILE *out, const cli_max *max, int64_t limit_bytes)
{
    fprintf(out, "%s %lld fits: it needs %.1f of %.1f MB a rank\n", cli_max_key(max->what), (long long)max->n,
            (double)max->needs / MB, (double)limit_bytes / MB);
    if (max->next_needs) {
        fprintf(out, "(1.03 x total + 50.3 MB for the program); %lld needs %.1f", (long long)max->n + 1,
                (double)max->next_needs / MB);
    } else {
        fprintf(out, "(1.03 x total + 50.3 MB for the program); more may fit, but no more are tried");
    }
    if (max->what == CLI_MAX_BATCH) fprintf(out, "\ntrain_batch_size is then %lld", (long long)max->train_batch_size);
    fprintf(out, "\n\n");
}

void cli_max_json(FILE *out, const cli_max *max)
{
    bool batch = max->what == CLI_MAX_BATCH;
    fprintf(out, ", \"max\": {\"what\": \"%s\", \"%s\": %lld, ", batch ? "batch" : "model", cli_max_key(max->what),
            (long long)max->n);
    if (batch) fprintf(out, "\"train_batch_size\": %lld, ", (long long)max->train_batch_size);
    fprintf(out, "\"needs\": %lld, \"next_needs\": ", (long long)max->needs);
    if (max->next_needs) {
        fprintf(out, "%lld}", (long long)max->next_needs);
    } else {
        fprintf(out, "null}");
    }
}
