#include "cli/plan/choices.h"
#include "cli/plan/max.h"

#include "base/text/text.h"
#include "config/config.h"
#include "cli/shell/args.h"
#include "train/setup/setup.h"

#include <stdio.h>

/** Upper limits of the search. Plans with more layers take too long. Larger micro-batches are of no use. */
#define TRIED_LAYERS 2048
#define TRIED_ROWS (1 << 24)
#define MB 1e6

static void set_number(const cli_max *max, int64_t n)
{
    zr_model_sizes sizes = zr_config_sizes(max->config);
    sizes.layers = n;
    if (max->what == CLI_MAX_BATCH)
        zr__train_set_batch(max->config, max->target->ranks, n, max->config->accumulation_steps);
    else
        zr__config_resize(max->config, &sizes);
}

zr_status cli_max_needs(void *arg, int64_t n, int64_t *bytes)
{
    const cli_max *max = arg;
    cli_trial made;
    set_number(max, n);
    ZR_TRY(cli_try(max->target, max->config, NULL, &made, NULL));
    *bytes = cli_trial_bytes(max->target, &made);
    return ZR_OK;
}

static const char *const names[] = {
    [CLI_MAX_MODEL] = "model", [CLI_MAX_LAYERS] = "layers", [CLI_MAX_BATCH] = "batch", NULL};

/** Return the configuration key that the search varies. */
static const char *key_of(const cli_max *max)
{
    return max->what != CLI_MAX_BATCH ? zr__config_key_of(max->config, "layers") : "train_micro_batch_size_per_gpu";
}

zr_status cli_max_parse(const char *text, cli_max_what *what)
{
    int index;
    ZR_TRY(cli_word("max", text, names + CLI_MAX_MODEL, &index));
    *what = (cli_max_what)(CLI_MAX_MODEL + index);
    return ZR_OK;
}

/** Guess the largest number of samples or layers that fits with recompute policy auto. A search with auto is slow,
 * since auto makes many plans for each number tried. Therefore search with policy unit, whose result is nearly the
 * same. */
static zr_status guess_for_auto(cli_max *max, cli_point fits, cli_point fails, int64_t *guess)
{
    const int64_t limit = max->target->limit_bytes;
    zr_config unit = *max->config;
    cli_max cheap = *max;
    cheap.config = &unit;
    unit.recompute.policy = ZR_RECOMPUTE_UNIT;
    ZR_TRY(cli_max_needs(&cheap, fits.n, &fits.needs));
    if (fits.needs <= limit) ZR_TRY(cli_largest(cli_max_needs, &cheap, limit, 0, &fits, &fails));
    *guess = fits.n;
    return ZR_OK;
}

/** Find the smallest number of layers with which every pattern of model.frozen matches a parameter. First try the
 * configured number, so that a wrong pattern is refused at once. Then count up from 1, because more layers only add
 * parameters. */
static zr_status find_fewest(cli_max *max)
{
    const int64_t configured = zr_config_sizes(max->config).layers;
    int64_t needs;
    max->fewest = 1;
    if (max->what == CLI_MAX_BATCH || !max->config->model.frozen) return ZR_OK;
    ZR_TRY(cli_max_needs(max, configured, &needs));
    while (max->fewest < configured && cli_max_needs(max, max->fewest, &needs) == ZR_ERR_CONFIG) max->fewest++;
    return ZR_OK;
}

/** Search for the largest number of layers or samples that fits, upwards from max->fewest. */
static zr_status from_one(cli_max *max, cli_point *fits, cli_point *fails)
{
    int64_t guess = 0, most = TRIED_LAYERS;
    if (max->what == CLI_MAX_BATCH) { /* prevent an overflow of rows times micro-batches times ranks */
        most = INT64_MAX / (max->config->accumulation_steps * (max->target->ranks / max->config->parallel.tensor));
        if (most > TRIED_ROWS) most = TRIED_ROWS;
    }
    *fits = (cli_point){.n = max->fewest};
    *fails = (cli_point){.n = most + 1};
    ZR_TRY(cli_max_needs(max, fits->n, &fits->needs));
    const zr_recompute policy = max->config->recompute.policy;
    ZR_CHECK(fits->needs <= max->target->limit_bytes, ZR_ERR_MEMORY,
             "nothing fits %s: %s %lld needs %s a rank (%s for the program included); use %smore ranks, %sor a smaller "
             "%s%s",
             ZR_SIZE((double)max->target->limit_bytes), key_of(max), (long long)fits->n, ZR_SIZE((double)fits->needs),
             cli_beside(&max->target->profile.facts),
             max->config->zero.stage < 3 && max->target->ranks > max->config->parallel.tensor
                 ? "a higher zero_optimization.stage, "
                 : "",
             policy == ZR_RECOMPUTE_UNIT || policy == ZR_RECOMPUTE_AUTO ? "" : "activation_checkpointing.policy unit, ",
             max->what != CLI_MAX_BATCH ? zr__config_key_of(max->config, "width") : "",
             max->what != CLI_MAX_BATCH ? ", vocabulary or batch" : "model or data.seq_length");
    if (max->config->recompute.policy == ZR_RECOMPUTE_AUTO) ZR_TRY(guess_for_auto(max, *fits, *fails, &guess));
    return cli_largest(cli_max_needs, max, max->target->limit_bytes, guess, fits, fails);
}

/** Choose the lowest stage at which the found model fits, because lower stages move less data. The next larger model
 * does not fit at stage 3. Skip a stage at which the next larger model fits, so that the result remains the largest
 * model. */
static zr_status lowest_stage(cli_max *max, cli_point *fits, cli_point *fails)
{
    for (int64_t stage = 0; stage < 3; stage++) {
        cli_point in = *fits, out = *fails;
        max->config->zero.stage = stage;
        if (cli_max_needs(max, in.n, &in.needs) != ZR_OK || in.needs > max->target->limit_bytes) continue;
        if (out.needs && (cli_max_needs(max, out.n, &out.needs) != ZR_OK || out.needs <= max->target->limit_bytes))
            continue;
        *fits = in;
        *fails = out;
        return ZR_OK;
    }
    max->config->zero.stage = 3;
    return ZR_OK;
}

static zr_status largest_model(cli_max *max, cli_point *fits, cli_point *fails)
{
    bool any_stage = !max->keep_stage && max->config->collectives.reduce != ZR_REDUCE_ALL_REDUCE;
    if (any_stage) max->config->zero.stage = 3;
    ZR_TRY(cli_family_find(max, fits, fails));
    if (fits->n == 0 || fails->n == 0) ZR_TRY(from_one(max, fits, fails));
    if (any_stage) ZR_TRY(lowest_stage(max, fits, fails));
    max->shape.layers = fits->n;
    return ZR_OK;
}

zr_status cli_max_find(cli_max *max)
{
    cli_point fits = {0}, fails = {0};
    cli_trial made;
    ZR_TRY(find_fewest(max));
    ZR_TRY(max->what == CLI_MAX_MODEL ? largest_model(max, &fits, &fails) : from_one(max, &fits, &fails));
    if (fails.needs) {
        set_number(max, fails.n);
        ZR_TRY(cli_try(max->target, max->config, NULL, &made, NULL));
        max->next_needs = made.needs_bytes;
        max->next_disk_bytes = made.disk_bytes;
    }
    set_number(max, fits.n);
    ZR_TRY(cli_try(max->target, max->config, NULL, &made, NULL));
    max->params = (double)made.params;
    max->stage = (int)max->config->zero.stage;
    max->n = fits.n;
    max->train_batch_size = max->config->train_batch_size;
    max->needs = made.needs_bytes;
    max->disk_bytes = made.disk_bytes;
    return ZR_OK;
}

/** Print sizes in MB, so that the sizes for n and n + 1 differ visibly. */
void cli_max_print(FILE *out, const cli_max *max)
{
    const int64_t limit = max->target->limit_bytes, disk = max->target->disk_bytes;
    const char *beside = cli_beside(&max->target->profile.facts);
    fprintf(out, "%s %lld fits: it needs %.1f of %.1f MB a rank", key_of(max), (long long)max->n,
            (double)max->needs / MB, (double)limit / MB);
    if (disk > 0)
        fprintf(out, ",\nand %.1f of %.1f MB of disk a rank", (double)max->disk_bytes / MB, (double)disk / MB);
    fputc('\n', out);
    if (max->next_needs) {
        const bool full = disk > 0 && max->next_disk_bytes > disk;
        fprintf(out, "(the total, and %s for the program); %lld needs %.1f", beside, (long long)max->n + 1,
                (double)max->next_needs / MB);
        if (full)
            fprintf(out, ", and %.1f of disk", (double)max->next_disk_bytes / MB);
        else if (max->next_needs <= limit)
            fputs(", and more of a host's memory than there is", out);
    } else {
        fprintf(out, "(the total, and %s for the program); more may fit, but zr tries no more", beside);
    }
    if (max->what == CLI_MAX_MODEL)
        fprintf(out, "\nwith %s %lld, %s %lld, zero_optimization.stage %d: %s parameters",
                zr__config_key_of(max->config, "width"), (long long)max->shape.width,
                zr_family_meaning(max->config->model.family, "heads")->key, (long long)max->shape.heads, max->stage,
                ZR_AMOUNT(max->params));
    else
        fprintf(out, "\nat zero_optimization.stage %d", max->stage);
    if (max->tile_stops)
        fprintf(
            out,
            "\n(zr tries no wider models: memory.tile_elems %lld is less than a row of their tables, or divides the\n"
            "tables into more than %d tiles)",
            (long long)max->config->memory.tile_elems, ZR_TILES_MOST);
    if (max->what == CLI_MAX_BATCH) fprintf(out, "\ntrain_batch_size is then %lld", (long long)max->train_batch_size);
    fprintf(out, "\n\n");
}

void cli_max_json(zr__json_out *out, const cli_max *max)
{
    zr__json_open(out, "max", '{');
    zr__json_add(out, "what", names[max->what]);
    zr__json_add(out, key_of(max), max->n);
    zr__json_add(out, "stage", max->stage);
    if (max->what == CLI_MAX_MODEL) {
        zr__json_add(out, zr__config_key_of(max->config, "width"), max->shape.width,
                     zr__config_key_of(max->config, "heads"), max->shape.heads);
    }
    if (max->what == CLI_MAX_BATCH) zr__json_add(out, "train_batch_size", max->train_batch_size);
    zr__json_add(out, "needs", max->needs);
    if (max->next_needs)
        zr__json_add(out, "next_needs", max->next_needs);
    else
        zr__json_add_json(out, "next_needs", NULL);
    if (max->target->disk_bytes > 0) zr__json_add(out, "disk", max->disk_bytes);
    zr__json_close(out, '}');
}
