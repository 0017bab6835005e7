#include "cli/plan/choices.h"
#include "cli/plan/max.h"

#include "base/json/json.h"
#include "base/text/text.h"
#include "config/config.h"
#include "cli/shell/args.h"
#include "train/setup/setup.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>

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

/** A number n of samples or layers, and the bytes of memory and of disk that a rank needs with it, in the way (zr__way)
 * that comes nearest to fitting. `needs` is the memory limit times zr__trial.share, the largest used share of the
 * memory, the host's memory or the disk. So n fits if `needs` is at most the limit. `needs` is 0 if unknown. */
typedef struct point {
    int64_t n, needs, bytes, disk_bytes;
} point;

/** Find what a rank needs with `p->n` layers or samples, in the way that comes nearest to fitting. Set the
 * configuration to this number. */
static zr_status needs_of(cli_max *max, point *p)
{
    uint64_t failed = max->failed;
    ZR_AUTO(zr__choices_clear) zr__choices found = {0};
    set_number(max, p->n);
    ZR_TRY(zr__search_least(&max->question, &failed, &found));
    if (found.n == 0) return zr__failure_tell(&found.refused);
    p->bytes = found.least->made.needs_bytes;
    p->disk_bytes = found.least->made.disk_bytes;
    p->needs = (int64_t)ceil(found.least->made.share * (double)max->target->limit_bytes);
    if (found.best) max->failed = failed;
    return ZR_OK;
}

/* ---- the largest number --------------------------------------------------------------------------- */

/** Return the number at which the line through two points reaches the limit. */
static int64_t line_meets(point a, point b, int64_t limit_bytes)
{
    const double slope = (double)(b.needs - a.needs) / (double)(b.n - a.n);
    const double n = (double)b.n + (double)(limit_bytes - b.needs) / (slope > 1 ? slope : 1);
    return n < 0x1p40 ? (int64_t)n : (int64_t)1 << 40;
}

/** Return the number to try next. Plans of large models take long, so try few numbers. Interpolate, because the bytes
 * grow nearly linearly. Bisect or double in every third round, so that the search ends soon even if the bytes grow
 * otherwise. */
static int64_t next_try(int round, point before, point fits, point fails, int64_t limit_bytes)
{
    const point other = fails.needs ? fails : before;
    int64_t n = fails.needs ? fits.n + (fails.n - fits.n) / 2 : 2 * fits.n;
    if (round % 3 != 0) n = line_meets(other, fits, limit_bytes);
    if (!fails.needs && n > 16 * fits.n) n = 16 * fits.n;
    return n <= fits.n ? fits.n + 1 : n >= fails.n ? fails.n - 1 : n;
}

/** Find the largest number that fits. On entry fits->n fits, and fails->n does not fit or is an untried upper limit.
 * The needs of an untried limit are 0. On return fails->n is fits->n + 1. Unless `guess` is 0, try `guess` first and,
 * if it fits, the next number. */
static zr_status find_largest(cli_max *max, int64_t guess, point *fits, point *fails)
{
    const int64_t limit_bytes = max->target->limit_bytes;
    point before = {0};
    const int64_t last_guess = guess + 1;
    for (int round = 0; fails->n - fits->n > 1; round++) {
        const bool guessed = guess > fits->n && guess < fails->n && guess <= last_guess;
        point now = {.n = guessed ? guess : next_try(round, before, *fits, *fails, limit_bytes)};
        ZR_TRY(needs_of(max, &now));
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
static zr_status guess_for_auto(cli_max *max, point fits, point fails, int64_t *guess)
{
    const int64_t limit = max->target->limit_bytes;
    zr_config unit = *max->config;
    cli_max cheap = *max;
    cheap.config = &unit;
    cheap.question.config = &unit;
    unit.recompute.policy = ZR_RECOMPUTE_UNIT;
    ZR_TRY(needs_of(&cheap, &fits));
    if (fits.needs <= limit) ZR_TRY(find_largest(&cheap, 0, &fits, &fails));
    *guess = fits.n;
    return ZR_OK;
}

/** Find the smallest number of layers with which every pattern of model.frozen matches a parameter. First try the
 * configured number, so that a wrong pattern is refused at once. Then count up from 1, because more layers only add
 * parameters. */
static zr_status find_fewest(cli_max *max)
{
    const int64_t configured = zr_config_sizes(max->config).layers;
    point p = {.n = configured};
    max->fewest = 1;
    if (max->what == CLI_MAX_BATCH || !max->config->model.frozen) return ZR_OK;
    ZR_TRY(needs_of(max, &p));
    for (p.n = 1; p.n < configured && needs_of(max, &p) == ZR_ERR_CONFIG; p.n++) continue;
    max->fewest = p.n;
    max->failed = 0;
    return ZR_OK;
}

/** Search for the largest number of layers or samples that fits, upwards from max->fewest. */
static zr_status from_one(cli_max *max, point *fits, point *fails)
{
    int64_t guess = 0, most = TRIED_LAYERS;
    if (max->what == CLI_MAX_BATCH) { /* prevent an overflow of rows times micro-batches times ranks */
        most = INT64_MAX / (max->config->accumulation_steps *
                            (max->target->ranks / (max->config->parallel.tensor * max->config->parallel.pipeline)));
        if (most > TRIED_ROWS) most = TRIED_ROWS;
    }
    *fits = (point){.n = max->fewest};
    *fails = (point){.n = most + 1};
    max->failed = 0;
    ZR_TRY(needs_of(max, fits));
    if (fits->needs > max->target->limit_bytes && max->away && !max->question.free.disk) {
        max->question.free.disk = true; /* assume a disk that is not given only if nothing fits without a disk */
        ZR_TRY(needs_of(max, fits));
    }
    const zr__free *free = &max->question.free;
    const zr_recompute policy = max->config->recompute.policy;
    const bool unit = free->policy || policy == ZR_RECOMPUTE_UNIT || policy == ZR_RECOMPUTE_AUTO;
    ZR_CHECK(fits->needs <= max->target->limit_bytes, ZR_ERR_MEMORY,
             "nothing fits %s: %s %lld needs %s a rank (%s for the program included); use %smore ranks, %sor a smaller "
             "%s%s",
             ZR_SIZE((double)max->target->limit_bytes), key_of(max), (long long)fits->n, ZR_SIZE((double)fits->bytes),
             cli_beside(&max->target->profile.facts),
             !free->stage && max->config->zero.stage < 3 && max->target->ranks > max->config->parallel.tensor
                 ? "a higher zero_optimization.stage, "
                 : "",
             unit ? "" : "activation_checkpointing.policy unit, ",
             max->what != CLI_MAX_BATCH ? zr__config_key_of(max->config, "width") : "",
             max->what != CLI_MAX_BATCH ? ", vocabulary or batch" : "model or data.seq_length");
    if (policy == ZR_RECOMPUTE_AUTO && !free->policy) ZR_TRY(guess_for_auto(max, *fits, *fails, &guess));
    return find_largest(max, guess, fits, fails);
}

/* ---- models with the proportions of GPT families -------------------------------------------------- */

/** Layers, width and heads of models. The first shapes are small models for CPUs. GPT-2 (Radford et al. 2019) has the
 * shapes from 12 x 768 to 48 x 1600. Megatron-LM (Narayanan et al. 2021, table 1) has the shapes from 24 x 2304 to 128
 * x 25600. */
static const cli_shape shapes[] = {
    {2, 128, 2},    {4, 256, 4},     {6, 384, 6},     {8, 512, 8},      {12, 768, 12},     {24, 1024, 16},
    {36, 1280, 20}, {48, 1600, 25},  {24, 2304, 24},  {30, 3072, 32},   {36, 4096, 32},    {40, 6144, 48},
    {48, 8192, 64}, {60, 10240, 80}, {80, 12288, 96}, {96, 16384, 128}, {105, 20480, 128}, {128, 25600, 160},
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]), SPREAD = 2 };

/** Set the configuration to the width and heads of a shape. The number of layers is varied separately. Other sizes
 * follow from the settings before the search, so that they do not depend on the shapes tried before. */
static void set_shape(cli_max *max, const cli_shape *shape)
{
    zr_config *config = max->config;
    config->model.config = max->start;
    zr_model_sizes sizes = zr_config_sizes(config);
    sizes.width = shape->width;
    sizes.heads = shape->heads;
    zr__config_resize(config, &sizes);
}

/** Find the largest number of layers that fits at a shape's width, between half and twice the shape's layers. Set
 * fits->n to 0 if not even half the layers fit. Set fails->n to 0 if twice the layers fit. */
static zr_status layers_at(cli_max *max, const cli_shape *shape, point *fits, point *fails)
{
    fits->n = (shape->layers + SPREAD - 1) / SPREAD;
    if (fits->n < max->fewest) fits->n = max->fewest;
    fails->n = SPREAD * shape->layers;
    set_shape(max, shape);
    max->failed = 0;
    ZR_TRY(needs_of(max, fits));
    if (fits->needs > max->target->limit_bytes) fits->n = 0;
    if (fits->n == 0) return ZR_OK;
    ZR_TRY(needs_of(max, fails));
    if (fails->needs <= max->target->limit_bytes) {
        *fits = *fails;
        *fails = (point){0};
        return ZR_OK;
    }
    return find_largest(max, 0, fits, fails);
}

/** Return whether memory.tile_elems is too small for a table of the vocabulary at a width: less than a row, or so small
 * that the table would have too many tiles. */
static bool stops_at(const zr_config *config, int64_t width)
{
    const int64_t ranks = config->parallel.tensor, elems = config->memory.tile_elems;
    const int64_t rows = (zr_config_sizes(config).vocabulary + ranks - 1) / ranks;
    if (elems == 0) return false;
    return elems < width || (rows - 1) / (elems / width) >= ZR_TILES_MOST;
}

/** For each shape's width, find how many layers fit. Choose the shape whose own number of layers is nearest to this
 * number, as a ratio. Leave out shapes of which half the layers do not fit, or twice the layers fit. If no shape is
 * left, take the widest of which twice the layers fit. A width for which memory.tile_elems is too small does not
 * fit. */
static zr_status find_family(cli_max *max, point *fits, point *fails)
{
    double nearest = INFINITY;
    max->start = max->config->model.config;
    max->shape = shapes[0];
    *fits = (point){.n = 0};
    for (int i = 0; i < SHAPES; i++) {
        point in, out;
        if (SPREAD * shapes[i].layers <= max->fewest) continue;
        max->tile_stops = stops_at(max->config, shapes[i].width);
        if (max->tile_stops && i > 0) break;
        ZR_TRY(layers_at(max, &shapes[i], &in, &out));
        if (in.n == 0) break;
        double away = out.n == 0 ? INFINITY : fabs(log((double)in.n / (double)shapes[i].layers));
        if (away < nearest || !isfinite(nearest)) {
            max->shape = shapes[i];
            *fits = in;
            *fails = out;
            nearest = away;
        }
    }
    set_shape(max, &max->shape);
    return ZR_OK;
}

static zr_status largest_model(cli_max *max, point *fits, point *fails)
{
    ZR_TRY(find_family(max, fits, fails));
    if (fits->n == 0 || fails->n == 0) ZR_TRY(from_one(max, fits, fails));
    max->shape.layers = fits->n;
    return ZR_OK;
}

/** Choose the keys with which a model of the size found trains: those that zr__search prefers. With more than
 * CLI_MANY_LAYERS layers, zr__search takes too long, so choose the keys that need the smallest share of memory and
 * disk. */
static zr_status choose_keys(cli_max *max)
{
    uint64_t none = 0;
    const bool many = zr_config_sizes(max->config).layers > CLI_MANY_LAYERS;
    if (!many) ZR_TRY(zr__search(&max->question, max->found));
    if (!max->found->best) {
        zr__choices_clear(max->found);
        ZR_TRY(zr__search_least(&max->question, &none, max->found));
    }
    ZR_CHECK(max->found->best, ZR_ERR_INTERNAL, "%s %lld fitted before, and now does not", key_of(max),
             (long long)max->n);
    max->best = *max->found->best;
    zr__way_set(&max->best.way, max->target->ranks, max->config);
    return ZR_OK;
}

zr_status cli_max_find(cli_max *max)
{
    point fits = {0}, fails = {0};
    max->where = cli_train_target(max->target);
    max->question.config = max->config;
    max->question.target = &max->where;
    ZR_TRY(find_fewest(max));
    ZR_TRY(max->what == CLI_MAX_MODEL ? largest_model(max, &fits, &fails) : from_one(max, &fits, &fails));
    max->n = fits.n;
    max->next_needs = fails.bytes;
    max->next_disk_bytes = fails.disk_bytes;
    set_number(max, fits.n);
    max->asked = *max->config;
    max->question.config = &max->asked;
    return choose_keys(max);
}

/** Print sizes in MB, so that the sizes for n and n + 1 differ visibly. */
void cli_max_print(FILE *out, const cli_max *max)
{
    const int64_t limit = max->target->limit_bytes, disk = max->target->disk_bytes;
    const char *beside = cli_beside(&max->target->profile.facts);
    fprintf(out, "%s %lld fits: it needs %.1f of %.1f MB a rank", key_of(max), (long long)max->n,
            (double)max->best.made.needs_bytes / MB, (double)limit / MB);
    if (disk > 0)
        fprintf(out, ",\nand %.1f of %.1f MB of disk a rank", (double)max->best.made.disk_bytes / MB,
                (double)disk / MB);
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
        fprintf(out, "\nwith %s %lld, %s %lld: %s parameters", zr__config_key_of(max->config, "width"),
                (long long)max->shape.width, zr_family_meaning(max->config->model.family, "heads")->key,
                (long long)max->shape.heads, ZR_AMOUNT((double)max->best.made.params));
    fprintf(out, "\nat zero_optimization.stage %d", (int)max->config->zero.stage);
    if (max->tile_stops)
        fprintf(
            out,
            "\n(zr tries no wider models: memory.tile_elems %lld is less than a row of their tables, or divides the\n"
            "tables into more than %d tiles)",
            (long long)max->config->memory.tile_elems, ZR_TILES_MOST);
    if (max->what == CLI_MAX_BATCH)
        fprintf(out, "\ntrain_batch_size is then %lld", (long long)max->config->train_batch_size);
    ZR_AUTO(zr__text_clear) zr__text text = {0};
    zr__way_options(&max->best.way, &max->asked, &max->asked, max->target->ranks, true, "\n  ", &text);
    if (max->best.way.device != ZR_HOME_NONE) {
        zr__text_add(&text, "\nThe offload takes ");
        zr__add_away(&max->where, &max->best.made, &text);
    }
    fprintf(out, "\nwith%s\n\n", text.data ? text.data : "");
}

void cli_max_json(zr__json_out *out, const cli_max *max)
{
    zr__json_open(out, "max", '{');
    zr__json_add(out, "what", names[max->what]);
    zr__json_add(out, key_of(max), max->n);
    zr__json_add(out, "stage", (int)max->config->zero.stage);
    if (max->what == CLI_MAX_MODEL) {
        zr__json_add(out, zr__config_key_of(max->config, "width"), max->shape.width,
                     zr__config_key_of(max->config, "heads"), max->shape.heads);
    }
    if (max->what == CLI_MAX_BATCH) zr__json_add(out, "train_batch_size", max->config->train_batch_size);
    zr__json_add(out, "needs", max->best.made.needs_bytes);
    if (max->next_needs)
        zr__json_add(out, "next_needs", max->next_needs);
    else
        zr__json_add_json(out, "next_needs", NULL);
    if (max->best.made.disk_bytes > 0) zr__json_add(out, "disk", max->best.made.disk_bytes);
    json_auto_t *keys = zr__way_keys(&max->best.way, &max->asked, &max->asked, max->target->ranks, true);
    char *text = keys ? json_dumps(keys, 0) : NULL;
    if (!text) out->text.failed = true;
    zr__json_add_json(out, "keys", text);
    free(text);
    zr__json_close(out, '}');
}
