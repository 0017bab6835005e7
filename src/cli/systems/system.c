/** The plan of another system: its table beside zr's, and the other ways of the system. */
#include "cli/systems/system.h"

#include "base/core/scope.h"
#include "base/json/json_write.h"
#include "base/text/text.h"
#include "cli/draw/plan_page.h"
#include "cli/plan/profile.h"
#include "cli/shell/config.h"
#include "cli/shell/message.h"
#include "config/config.h"
#include "simulate/simulate.h"
#include "systems/systems.h"
#include "train/dir/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_DEVICE "h100" /* device whose kernels decide the scratch memory if none is given */

typedef struct planned {
    const zr__system *system;
    const zr__run *run; /* target.other */
    zr__run_memory memory;
    cli_trial zr; /* zr's plan of the same configuration */
    bool has_zr;
    char refused[256]; /* why zr cannot plan it */
    cli_trial timed;   /* with --cluster: the time of a step */
    bool is_timed;
    char untimed[256]; /* why it has no time */
} planned;

zr_status cli_system_check(const cli_plan_options *o)
{
    const zr__system *system;
    const char *with = o->with.n > 0 ? o->with.text[0] : NULL;
    ZR_CHECK(cli_other_system(o->system) || !with, ZR_ERR_ARG,
             "--with %s is for another system: give --system NAME too; options of zr are keys, such as "
             "--zero_optimization.overlap_comm=true",
             ZR_SHOWN(with));
    if (!cli_other_system(o->system)) return ZR_OK;
    ZR_TRY(zr__system_find(o->system, &system));
    const char *other = o->max              ? "max"
                        : o->svg            ? "svg"
                        : o->schedule       ? "schedule"
                        : o->every          ? "every"
                        : o->tokens > 0     ? "tokens"
                        : o->efficiency > 0 ? "efficiency"
                        : o->brief.disk     ? "disk"
                                            : NULL;
    ZR_CHECK(!other, ZR_ERR_ARG, "--%s is for plans of zr; leave it out, or leave out --system %s", other, o->system);
    return ZR_OK;
}

/* ---- planning -------------------------------------------------------------------------------- */

/** Return whether steps can be timed: on a cluster of GPUs. */
static bool times(const cli_choices *p)
{
    return p->o->cluster && strcmp(p->o->cluster, CLI_CLUSTER_THIS) != 0;
}

static zr_status find_device(cli_choices *p)
{
    cli_target *t = &p->target;
    ZR_TRY(p->o->cluster ? cli_target_cluster(p->o->cluster, NULL, p->config, t)
                         : cli_profile(p->o->profile ? p->o->profile : DEFAULT_DEVICE, &t->profile));
    ZR_TRY(cli_target_system(p->o->system, &p->o->with, p->config, t));
    t->chooser = t->profile;
    if (!p->o->cluster && !p->o->profile) t->profile.machine.memory_bytes = 0; /* its memory is no limit */
    ZR_TRY(cli_settle_place(p->config, t));
    if (p->o->cluster && p->o->ranks == 0 && t->ranks == 1 && t->cluster.devices > 1 && !p->args->quiet)
        cli_say("note: one of the %d devices of %s is used; give --ranks N for more", t->cluster.devices,
                p->o->cluster);
    if (!times(p)) return ZR_OK;
    return zr__simulate_room(&t->cluster, cli_host_ranks(t), t->ranks);
}

static void plan_zr(cli_choices *p, planned *made)
{
    cli_target target = p->target;
    target.other = (zr__run){0};
    made->has_zr = cli_try(&target, p->config, &made->zr, NULL) == ZR_OK;
    if (!made->has_zr) snprintf(made->refused, sizeof(made->refused), "%s", zr_error_message());
}

/** Find the time of a step on --cluster, if zr can plan the system's layout. */
static void find_time(const cli_choices *p, planned *made)
{
    if (!times(p)) return;
    made->is_timed = cli_try(&p->target, p->config, &made->timed, NULL) == ZR_OK;
    if (!made->is_timed) snprintf(made->untimed, sizeof(made->untimed), "%s", zr_error_message());
}

static zr_status make(cli_choices *p, planned *made)
{
    ZR_TRY(find_device(p));
    made->run = &p->target.other;
    made->system = made->run->system;
    ZR_TRY(zr__run_measure(made->run, &made->memory));
    find_time(p, made);
    if (!p->args->json || p->o->advice || p->o->html) plan_zr(p, made); /* takes seconds for a long pipeline */
    return ZR_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

/** Return the bytes of a part in zr's own plan, or -1 if zr's plan lacks the part. */
static double zr_bytes(const planned *made, zr__part part)
{
    const int64_t *bytes = made->zr.report.memory.category_bytes;
    switch (part) {
    case ZR__PART_PARAMS:
        return (double)bytes[ZR_CATEGORY_PARAM];
    case ZR__PART_GRADS:
        return (double)bytes[ZR_CATEGORY_GRAD];
    case ZR__PART_STATES:
        return (double)bytes[ZR_CATEGORY_OPTIM];
    case ZR__PART_BUCKETS:
        return (double)bytes[ZR_CATEGORY_BUFFER];
    case ZR__PART_ACTIVATIONS:
        return (double)(bytes[ZR_CATEGORY_ACT] + bytes[ZR_CATEGORY_CHECKPOINT]);
    case ZR__PART_WORKSPACE:
        return (double)bytes[ZR_CATEGORY_WORK];
    default:
        return -1;
    }
}

static void print_row(const char *name, double theirs, double ours, const char *why)
{
    char cells[2][ZR_SIZE_BYTES] = {"-", "-"};
    if (theirs > 0) zr__text_size(theirs, cells[0]);
    if (ours > 0) zr__text_size(ours, cells[1]);
    printf("  %-19s%11s%11s%s%s\n", name, cells[0], cells[1], why[0] ? "  " : "", why);
}

static void print_range(const char *name, zr__range range, double ours, const char *why)
{
    char text[160];
    snprintf(text, sizeof(text), "%s to %s%s%s", ZR_SIZE(range.low), ZR_SIZE(range.high), why[0] ? "; " : "", why);
    print_row(name, range.bytes, ours, text);
}

/** Write a number of things in words, such as "2 micro-batches", into `text`. Return `text`. */
static const char *plural(int64_t n, const char *what, char text[64])
{
    const char *end = n == 1 ? "" : what[strlen(what) - 1] == 'h' ? "es" : "s";
    snprintf(text, 64, "%lld %s%s", (long long)n, what, end);
    return text;
}

static void print_head(const cli_choices *p, const planned *made)
{
    const zr_config *c = p->config;
    const zr__degrees d = zr__degrees_of(made->run);
    char params[32], value[ZR__OPTION_BYTES], context[32] = "", text[3][64];
    const zr_model_sizes s = zr_config_sizes(c);
    if (d.cp > 1) snprintf(context, sizeof(context), " x %lld context", (long long)d.cp);
    printf("model: %s, %lld layers, width %lld, %s parameters, %s, %lld tokens a sample\n",
           c->model.preset ? c->model.preset
           : c->model.init ? c->model.init
                           : c->model.type,
           (long long)s.layers, (long long)s.width, zr__text_amount(made->memory.params, params), cli_type_name(c),
           (long long)c->data.seq_length);
    printf("%s (%s)\n%s (%lld data%s x %lld tensor x %lld pipeline), stage %lld, recompute %s\n"
           "%s a micro-batch, %s a step; device: %s\n",
           made->system->title, made->system->version, plural(p->target.ranks, "rank", text[0]), (long long)d.dp,
           context, (long long)d.tp, (long long)d.pp, (long long)made->run->stage,
           cli_recompute_name(c->recompute.policy, c->recompute.every, params),
           plural(c->micro_batch_size, "sample", text[1]), plural(c->accumulation_steps, "micro-batch", text[2]),
           p->o->cluster || p->o->profile ? p->target.profile.facts.name
                                          : "not given, with kernels of " DEFAULT_DEVICE);
    int n = 0;
    for (int i = 0; made->system->option[i].name; i++)
        if (made->run->given[i])
            printf("%s%s=%s", n++ ? ", " : "options: ", made->system->option[i].name,
                   zr__with_text(made->run, &made->system->option[i], value));
    if (n) putchar('\n');
}

static void print_table(const planned *made)
{
    const zr__rank_memory *rank = &made->memory.rank[made->memory.fullest];
    const zr__moment peak = zr__peak_moment(rank);
    char why[96];
    printf("\n  %-19s%11s%11s\n", "memory of a rank", made->system->name, made->has_zr ? "zr" : "");
    for (int i = 0; i < ZR__PARTS; i++) {
        const double ours = made->has_zr ? zr_bytes(made, (zr__part)i) : -1, theirs = rank->part[peak][i];
        const char *note = made->system->why[i] && theirs > 0 ? made->system->why[i] : "";
        if (theirs > 0 || ours > 0) print_row(zr__part_name((zr__part)i), theirs, ours, note);
    }
    snprintf(why, sizeof(why), "at the peak: %s", zr__moment_name(peak));
    const double total = made->has_zr ? (double)made->zr.report.memory.total_bytes : -1;
    print_row("allocated", made->memory.allocated, total, why);
    print_range("reserved", made->memory.reserved, -1, "");
    snprintf(why, sizeof(why), "%s", plural(made->memory.n_communicators, "communicator", (char[64]){0}));
    print_range("nvidia-smi", made->memory.used, made->has_zr ? (double)made->zr.needs_bytes : -1, why);
    if (rank->host > 0) print_row("host memory", rank->host, -1, "of a rank");
    if (made->memory.n > 1)
        printf("  pipeline rank %d of 0 to %d is the fullest\n", made->memory.fullest, made->memory.n - 1);
    if (!made->has_zr) printf("  zr cannot plan this: %s\n", made->refused);
    if (made->system->unproved) {
        char text[512];
        snprintf(text, sizeof(text), "Not proved: %s.", made->system->unproved);
        cli_print_wrapped(text);
    }
}

/** Return in words whether a range fits, such as "no, 3.21 GB too much". */
static const char *fits_words(const zr__range *used, double limit, char text[96])
{
    const double spare = limit - used->bytes;
    if (spare < 0)
        snprintf(text, 96, "no, %s too much%s", ZR_SIZE(-spare), used->low <= limit ? "; at best it just fits" : "");
    else
        snprintf(text, 96, "yes, %s are left%s", ZR_SIZE(spare),
                 used->high > limit ? ", but at worst it does not fit" : "");
    return text;
}

/** Return the bytes of a host's memory that are missing. */
static double host_lacks(const cli_choices *p, const planned *made)
{
    const double has = times(p) ? (double)p->target.cluster.host_memory_bytes : 0,
                 needs = made->memory.rank[made->memory.fullest].host * cli_host_ranks(&p->target);
    return has > 0 && needs > has ? needs - has : 0;
}

static void print_fits(const cli_choices *p, const planned *made)
{
    char text[96];
    const double limit = (double)p->target.limit_bytes;
    if (limit > 0)
        printf("\nfits in %s? %s\n", ZR_SIZE(limit), fits_words(&made->memory.used, limit, text));
    else
        puts("\nWhether it fits is not known: give --profile NAME or --memory SIZE.");
    if (host_lacks(p, made) > 0)
        printf("A host of %s has %s too little memory for the offload.\n", p->target.cluster.name,
               ZR_SIZE(host_lacks(p, made)));
}

static void print_time(const cli_choices *p, const planned *made)
{
    const zr_simulation *s = &made->timed.simulation;
    if (made->is_timed)
        printf("step on %s: %s, %stokens/s of all ranks, MFU %.1f %% (compared with %s)\n", p->o->cluster,
               CLI_SECONDS(s->price.step_sec), ZR_AMOUNT(s->tokens_sec), 100 * s->mfu, made->system->timed);
    else if (made->untimed[0])
        printf("step on %s: not known: %s\n", p->o->cluster, made->untimed);
}

/* ---- other ways ------------------------------------------------------------------------------ */

#define WAYS_MOST 16 /* four stages, with and without recompute, with and without offload */

typedef struct way {
    int stage;
    bool redone, away; /* whether blocks are recomputed, and states offloaded to the host */
    cli_trial made;    /* without a time if zr cannot plan the layout */
} way;

/** Plan the run with another stage, recompute and offload. Return false if the system does not have it. */
static bool plan_way(const cli_choices *p, way *w)
{
    zr_config config = *p->config;
    cli_target target = p->target;
    config.zero.stage = w->stage;
    config.recompute.policy = w->redone ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_NONE;
    config.recompute.every = 1;
    config.zero.optim.device = w->away ? ZR_HOME_CPU : ZR_HOME_NONE;
    config.zero.optim.ratio = 1;
    config.zero.param = config.zero.optim;
    if (w->stage < 3) config.zero.param.device = ZR_HOME_NONE;
    target.simulated = times(p);
    if (target.simulated && cli_try(&target, &config, &w->made, NULL) == ZR_OK) return true;
    target.simulated = false;
    return cli_try(&target, &config, &w->made, NULL) == ZR_OK;
}

/** Plan all ways of the system. Return their number. */
static int find_ways(const cli_choices *p, const planned *made, way ways[WAYS_MOST])
{
    int n = 0;
    for (int i = 0; i < WAYS_MOST; i++) {
        ways[n] = (way){.stage = i / 4, .redone = i & 1, .away = i & 2};
        if (made->system->stages >> ways[n].stage & 1 && plan_way(p, &ways[n])) n++;
    }
    return n;
}

static const char *fits_word(const cli_trial *made, double limit)
{
    return made->fits ? "  yes" : (double)made->needs_bytes > limit ? "  no" : "  no: host";
}

static void print_ways(const cli_choices *p, const planned *made)
{
    way ways[WAYS_MOST];
    const int n = find_ways(p, made, ways);
    const double limit = (double)p->target.limit_bytes;
    const char *const columns = times(p) ? "  %-7s%-11s%-9s%11s%12s%13s%-10s%12s\n" : "  %-7s%-11s%-9s%11s%12s%13s%s\n";
    putchar('\n');
    printf(columns, "stage", "recompute", "offload", "allocated", "nvidia-smi", "host memory",
           limit > 0 ? "  fits" : "", "step");
    for (const way *w = ways; w < ways + n; w++) {
        const cli_trial *t = &w->made;
        const double sec = t->simulation.price.step_sec,
                     host = (double)t->report.memory.space[ZR_SPACE_HOST].total_bytes;
        printf(columns, (char[2]){(char)('0' + w->stage), 0}, w->redone ? "unit" : "none", w->away ? "cpu" : "-",
               ZR_SIZE((double)t->report.memory.total_bytes), ZR_SIZE((double)t->needs_bytes),
               host > 0 ? ZR_SIZE(host) : "-", limit <= 0 ? "" : fits_word(t, limit), sec > 0 ? CLI_SECONDS(sec) : "-");
    }
}

static void add_ways(zr__json_out *out, const cli_choices *p, const planned *made)
{
    way ways[WAYS_MOST];
    const int n = find_ways(p, made, ways);
    zr__json_open(out, "ways", '[');
    for (const way *w = ways; w < ways + n; w++) {
        const cli_trial *t = &w->made;
        const double sec = t->simulation.price.step_sec;
        zr__json_open(out, NULL, '{');
        zr__json_add(out, "stage", w->stage, "recompute", w->redone ? "unit" : "none");
        zr__json_add(out, "offload", w->away ? "cpu" : "none", "allocated", t->report.memory.total_bytes);
        zr__json_add(out, "nvidia_smi", t->needs_bytes, "host", t->report.memory.space[ZR_SPACE_HOST].total_bytes);
        if (sec > 0) zr__json_add(out, "step_sec", sec);
        zr__json_close(out, '}');
    }
    zr__json_close(out, ']');
}

/* ---- output ---------------------------------------------------------------------------------- */

/** Return bytes as a whole number, so that all digits are printed. */
static int64_t whole(double bytes)
{
    return (int64_t)bytes;
}

static void add_range(zr__json_out *out, const char *key, zr__range range)
{
    zr__json_open(out, key, '{');
    zr__json_add(out, "low", whole(range.low), "bytes", whole(range.bytes));
    zr__json_add(out, "high", whole(range.high));
    zr__json_close(out, '}');
}

static void add_rank(zr__json_out *out, const zr__rank_memory *rank)
{
    const zr__moment peak = zr__peak_moment(rank);
    zr__json_open(out, NULL, '{');
    zr__json_add(out, "allocated", whole(zr__moment_bytes(rank, peak)), "moment", zr__moment_name(peak));
    zr__json_add(out, "between_steps", whole(zr__moment_bytes(rank, ZR__MOMENT_BETWEEN)), "host", whole(rank->host));
    zr__json_open(out, "parts", '{');
    for (int i = 0; i < ZR__PARTS; i++) zr__json_add(out, zr__part_name((zr__part)i), whole(rank->part[peak][i]));
    zr__json_close(out, '}');
    zr__json_close(out, '}');
}

static void add_options(zr__json_out *out, const planned *made)
{
    char value[ZR__OPTION_BYTES];
    zr__json_open(out, "options", '{');
    for (const zr__option *option = made->system->option; option->name; option++)
        zr__json_add(out, option->name, zr__with_text(made->run, option, value));
    zr__json_close(out, '}');
}

/** Add zr's plan of the same configuration. */
static void add_zr(zr__json_out *out, const planned *made)
{
    zr__json_add(out, "zr_allocated", made->zr.report.memory.total_bytes, "zr_needs", made->zr.needs_bytes);
    zr__json_open(out, "zr_parts", '{');
    for (int i = 0; i < ZR__PARTS; i++)
        if (zr_bytes(made, (zr__part)i) >= 0)
            zr__json_add(out, zr__part_name((zr__part)i), whole(zr_bytes(made, (zr__part)i)));
    zr__json_close(out, '}');
}

static zr_status print_json(const cli_choices *p, const planned *made, const cli_grid *grid)
{
    ZR_AUTO(zr__json_drop) zr__json_out out = {.spaced = true};
    const int64_t limit = p->target.limit_bytes, spare = limit - whole(made->memory.used.bytes);
    zr__json_open(&out, NULL, '{');
    zr__json_add(&out, "system", made->system->name, "version", made->system->version);
    zr__json_add(&out, "not_proved", made->system->unproved, "ranks", p->target.ranks);
    zr__json_add(&out, "stage", made->run->stage, "params", whole(made->memory.params));
    add_options(&out, made);
    zr__json_add(&out, "fullest_rank", made->memory.fullest, "allocated", whole(made->memory.allocated));
    add_range(&out, "reserved", made->memory.reserved);
    add_range(&out, "nvidia_smi", made->memory.used);
    zr__json_add(&out, "context", whole(made->memory.context), "communicators", made->memory.n_communicators);
    zr__json_open(&out, "pipeline_ranks", '[');
    for (int32_t r = 0; r < made->memory.n; r++) add_rank(&out, &made->memory.rank[r]);
    zr__json_close(&out, ']');
    if (made->is_timed) zr__json_add(&out, "step_sec", made->timed.simulation.price.step_sec);
    if (limit > 0) {
        zr__json_add(&out, "limit", limit, "spare", spare);
        zr__json_add_bool(&out, "fits", spare >= 0 && host_lacks(p, made) == 0);
    }
    if (p->o->advice) add_ways(&out, p, made);
    if (grid) cli_grid_json(&out, grid);
    if (made->has_zr)
        add_zr(&out, made);
    else if (p->o->advice)
        zr__json_add(&out, "zr_refused", made->refused);
    zr__json_close(&out, '}');
    return zr__json_write(&out, stdout);
}

static zr_status print_plan(const cli_choices *p, const planned *made, const cli_grid *grid)
{
    if (p->args->json) return print_json(p, made, grid);
    print_head(p, made);
    print_table(made);
    print_fits(p, made);
    print_time(p, made);
    print_ways(p, made);
    return ZR_OK;
}

/* ---- as a page ------------------------------------------------------------------------------- */

static const char *const part_color[ZR__PARTS] = {
    [ZR__PART_PARAMS] = "#0072b2",   [ZR__PART_GRADS] = "#e69f00",    [ZR__PART_STATES] = "#009e73",
    [ZR__PART_BUCKETS] = "#d55e00",  [ZR__PART_GATHERED] = "#56b4e9", [ZR__PART_ACTIVATIONS] = "#9aa7b4",
    [ZR__PART_REDONE] = "#cc79a7",   [ZR__PART_HEAD] = "#5f6c7b",     [ZR__PART_TEMPS] = "#f0e442",
    [ZR__PART_WORKSPACE] = "#1f2933"};

/** Add a sum to the table. `beside` is zr's, with the key `zr`, if zr can plan the run. */
static void add_sum(cli_plan_page *page, const char *key, const char *name, double bytes, const char *zr,
                    int64_t beside, const char *why)
{
    cli_page_part part = {
        .name = name, .bytes = (double)whole(bytes), .beside = zr ? (double)beside : -1, .beside_key = zr, .why = why};
    snprintf(part.key, sizeof(part.key), "%s", key);
    cli_page_part_add(page, part);
}

static void add_parts(cli_plan_page *page, const planned *made, char zr[ZR__PARTS][48])
{
    const zr__rank_memory *rank = &made->memory.rank[made->memory.fullest];
    const zr__moment peak = zr__peak_moment(rank);
    for (int i = 0; i < ZR__PARTS; i++) {
        cli_page_part part = {.name = zr__part_name((zr__part)i),
                              .bytes = (double)whole(rank->part[peak][i]),
                              .beside = made->has_zr ? zr_bytes(made, (zr__part)i) : -1,
                              .beside_key = zr[i],
                              .why = made->system->why[i],
                              .color = part_color[i]};
        snprintf(part.key, sizeof(part.key), "pipeline_ranks.%d.parts.%s", made->memory.fullest, part.name);
        snprintf(zr[i], sizeof(zr[i]), "zr_parts.%s", part.name);
        if (part.bytes > 0 || part.beside > 0) cli_page_part_add(page, part);
    }
}

/** Write the page of the plan. */
static zr_status write_page(const cli_choices *p, const planned *made, const cli_grid *grid)
{
    const zr__run_memory *m = &made->memory;
    char reserved[96], used[96], beyond[96] = "", zr[ZR__PARTS][48], note[512] = "";
    cli_plan_page page = {.needs = (double)whole(m->used.bytes),
                          .limit = (double)p->target.limit_bytes,
                          .needs_key = "nvidia_smi.bytes",
                          .limit_key = "limit",
                          .spare_key = "spare",
                          .system = made->system->title,
                          .grid = grid};
    if (page.limit > 0 && m->used.bytes > page.limit && m->used.low <= page.limit)
        snprintf(beyond, sizeof(beyond), "at best it just fits");
    if (page.limit > 0 && m->used.bytes <= page.limit && m->used.high > page.limit)
        snprintf(beyond, sizeof(beyond), "but at worst it does not fit");
    if (host_lacks(p, made) > 0)
        snprintf(beyond, sizeof(beyond), "a host has %s too little memory", ZR_SIZE(host_lacks(p, made)));
    if (beyond[0]) page.beyond = beyond;
    cli_page_ask(&page, p, made->system->title, m->params);
    cli_page_add(&page, NULL, "version", NAN, "%s", made->system->version);
    if (made->is_timed) {
        const zr_simulation *s = &made->timed.simulation;
        cli_page_add(&page, "step_sec", "time of a step", s->price.step_sec, "%s", CLI_SECONDS(s->price.step_sec));
        cli_page_add(&page, NULL, "times compared with", NAN, "%s", made->system->timed);
    }
    if (made->system->unproved) snprintf(note, sizeof(note), "Not proved: %s.", made->system->unproved);
    page.note = note[0] ? note : NULL;
    add_parts(&page, made, zr);
    snprintf(reserved, sizeof(reserved), "%s to %s", ZR_SIZE(m->reserved.low), ZR_SIZE(m->reserved.high));
    snprintf(used, sizeof(used), "%s to %s", ZR_SIZE(m->used.low), ZR_SIZE(m->used.high));
    add_sum(&page, "allocated", "allocated", m->allocated, made->has_zr ? "zr_allocated" : NULL,
            made->zr.report.memory.total_bytes, "by tensors");
    add_sum(&page, "reserved.bytes", "reserved", m->reserved.bytes, NULL, 0, reserved);
    add_sum(&page, "nvidia_smi.bytes", "nvidia-smi", m->used.bytes, made->has_zr ? "zr_needs" : NULL,
            made->zr.needs_bytes, used);
    if (m->rank[m->fullest].host > 0) {
        char key[48];
        snprintf(key, sizeof(key), "pipeline_ranks.%d.host", m->fullest);
        add_sum(&page, key, "host memory", m->rank[m->fullest].host, NULL, 0, "of a rank");
    }
    return cli_plan_page_write(&page, p->o->html, p->config);
}

/* ---- as a file of the system ----------------------------------------------------------------- */

/** Add the comment of a key: the bytes that depend on it. */
static zr_status add_comment(zr__settings *comments, const char *key, const char *format, ...)
{
    char text[256];
    ZR_PRINT_ARGS(text, format);
    return zr__settings_add(comments, key, text, 0);
}

static zr_status add_comments(const cli_choices *p, const planned *made, zr__settings *comments)
{
    const zr_config *c = p->config;
    const zr__rank_memory *rank = &made->memory.rank[made->memory.fullest];
    const double *part = rank->part[zr__peak_moment(rank)];
    const zr__degrees d = zr__degrees_of(made->run);
    ZR_TRY(add_comment(comments, "zero_optimization.stage",
                       "stage %lld: parameters %s, gradients %s, master and moments %s", (long long)made->run->stage,
                       ZR_SIZE(part[ZR__PART_PARAMS] + part[ZR__PART_GATHERED]),
                       ZR_SIZE(part[ZR__PART_GRADS] + part[ZR__PART_BUCKETS]), ZR_SIZE(part[ZR__PART_STATES])));
    ZR_TRY(add_comment(comments, "activation_checkpointing.policy", "recompute %s: activations %s",
                       c->recompute.policy == ZR_RECOMPUTE_NONE ? "nothing" : "in the backward pass",
                       ZR_SIZE(part[ZR__PART_ACTIVATIONS] + part[ZR__PART_REDONE])));
    ZR_TRY(add_comment(comments, "train_micro_batch_size_per_gpu", "%lld x %lld tokens a micro-batch: head %s",
                       (long long)c->micro_batch_size, (long long)c->data.seq_length, ZR_SIZE(part[ZR__PART_HEAD])));
    const int64_t samples = c->micro_batch_size * c->accumulation_steps * d.dp;
    ZR_TRY(add_comment(comments, "gradient_accumulation_steps", "%lld micro-batches a step: %lld samples, %lld tokens",
                       (long long)c->accumulation_steps, (long long)samples,
                       (long long)(samples * c->data.seq_length)));
    if (rank->host > 0)
        ZR_TRY(add_comment(comments, "zero_optimization.offload_optimizer.device",
                           "offload: %s of a rank's host memory", ZR_SIZE(rank->host)));
    if (d.tp > 1) ZR_TRY(add_comment(comments, "parallel.tensor", "%lld ranks share each layer", (long long)d.tp));
    if (d.pp > 1)
        ZR_TRY(add_comment(comments, "parallel.pipeline", "%lld ranks have %lld layers each", (long long)d.pp,
                           (long long)(zr_config_sizes(c).layers / d.pp)));
    return ZR_OK;
}

/** Write the plan as a configuration file of the system, with the expected memory and time as comments. */
static zr_status emit_plan(const cli_choices *p, const planned *made)
{
    ZR_AUTO(zr__settings_clear) zr__settings comments = {0};
    ZR_AUTO(zr__text_clear) zr__text head = {0};
    char text[96];
    const double limit = (double)p->target.limit_bytes;
    zr__text_add(&head, "for %s, on %d ranks\n", made->system->version, p->target.ranks);
    zr__text_add(&head, "expected memory of a rank: allocated %s, reserved %s, nvidia-smi %s\n",
                 ZR_SIZE(made->memory.allocated), ZR_SIZE(made->memory.reserved.bytes),
                 ZR_SIZE(made->memory.used.bytes));
    if (limit > 0) zr__text_add(&head, "fits in %s: %s\n", ZR_SIZE(limit), fits_words(&made->memory.used, limit, text));
    if (made->is_timed)
        zr__text_add(&head, "expected time of a step: %s\n", CLI_SECONDS(made->timed.simulation.price.step_sec));
    ZR_CHECK(!head.failed, ZR_ERR_MEMORY, "no memory for the comments");
    ZR_TRY(add_comments(p, made, &comments));
    zr_cluster host = {0};
    const bool known = !p->target.simulated && p->o->profile && zr_cluster_of_device(p->o->profile, &host) == ZR_OK;
    const cli_emit emit = {.format = p->format,
                           .system = made->system->name,
                           .with = &p->o->with,
                           .ranks = p->target.ranks,
                           .per_host = known ? host.host_devices : cli_host_ranks(&p->target),
                           .head = head.data,
                           .comments = &comments};
    return cli_emit_write(&emit, p->config, p->o->out);
}

zr_status cli_system_plan(cli_choices *p)
{
    planned made = {0};
    ZR_AUTO(cli_grid_free) cli_grid *grid = NULL;
    cli_target target;
    zr_status status = make(p, &made);
    if (status == ZR_OK && p->o->html) {
        target = p->target;
        target.simulated = times(p);
        status = cli_grid_make(p->config, &target, p->args->quiet ? NULL : "what-ifs", &grid);
        if (status == ZR_OK) status = write_page(p, &made, grid);
    }
    if (status == ZR_OK && (!p->format || p->o->out)) status = print_plan(p, &made, grid);
    if (status == ZR_OK && p->format) status = emit_plan(p, &made);
    zr__run_memory_clear(&made.memory);
    return status;
}
