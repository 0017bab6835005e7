#include "cli/plan/brief.h"
#include "cli/plan/choices.h"
#include "cli/plan/max.h"
#include "comm/comm.h"
#include "config/config.h"
#include "plan/cost/cost.h"
#include "train/dir/report.h"
#include "train/host/device.h"
#include "train/measure/measure.h"
#include "train/setup/setup.h"
#include "zr/run.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#define MOST_LAYERS 4096 /* a plan of 4096 layers takes seconds */

typedef struct plan_options {
    cli_brief brief;
    const char *max, *svg, *profile, *cluster;
    int64_t ranks;
    double tokens, efficiency; /* 0: not given */
    bool schedule, shapes, table1, table2, configs, every, advice;
} plan_options;

/* One call of the command. */
typedef struct planning {
    const cli_args *args;
    const plan_options *o;
    zr_config *config;
    cli_target target;
    bool chosen; /* open keys were chosen for the memory */
    cli_max max;
} planning;

/* ---- printing -------------------------------------------------------------------------------- */

static const char *layout_name(const zr_config *config)
{
    return config->memory.layout == ZR_LAYOUT_LEAN ? "lean" : "paper";
}

static void print_head(const planning *p, const zr_report *report)
{
    char params[80];
    const zr_config *c = p->config;
    const zr_config_sizes *s = &c->model.sizes;
    bool named = c->model.preset || c->model.init || p->max.what == CLI_MAX_MODEL ||
                 zr__config_given(c, "model.n_layer") || zr__config_given(c, "model.n_embd");
    printf("model: %s, %lld layers, width %lld, %lld heads, %lld tokens%s\n",
           c->model.preset ? c->model.preset
           : c->model.init ? c->model.init
                           : c->model.type,
           (long long)s->n_layer, (long long)s->n_embd, (long long)s->n_head, (long long)s->vocab_size,
           named ? "" : " (GPT-2's smallest, as none is given: --preset NAME or the section model)");
    const int64_t data_ranks = p->target.ranks / c->parallel.tensor;
    char grid[96] = "";
    if (c->parallel.tensor > 1)
        snprintf(grid, sizeof(grid), " (%lld data-parallel x %lld that share layers)", (long long)data_ranks,
                 (long long)c->parallel.tensor);
    printf("parameters: %s, %s, %d rank%s%s, batch %lld x %lld tokens a rank\n"
           "%lld micro-batch%s a step%s, layout %s; machine: %s\n",
           cli_params(report->params, report->trained, params), cli_type_name(c), p->target.ranks,
           p->target.ranks == 1 ? "" : "s", grid, (long long)c->micro_batch_size, (long long)c->data.seq_length,
           (long long)c->accumulation_steps, c->accumulation_steps == 1 ? "" : "es",
           c->reduce_once && c->accumulation_steps > 1 && data_ranks > 1 ? ", reduced once" : "", layout_name(c),
           p->target.profile.facts.name);
}

static zr_status make_plan(const planning *p, zr_plan **made)
{
    cli_trial trial; /* priced as well, so that a cluster without room for the ranks is refused in any case */
    ZR_TRY(cli_try(&p->target, p->config, NULL, &trial, made));
    return ZR_OK;
}

static cli_choices choices_of(const planning *p)
{
    return (cli_choices){.target = &p->target, .chosen = p->chosen, .tokens = p->o->tokens};
}

/** Print the traffic between tensor-parallel ranks. */
static zr_status print_within(const planning *p)
{
    zr_plan *plan = NULL;
    if (p->config->parallel.tensor <= 1) return ZR_OK;
    ZR_TRY(make_plan(p, &plan));
    zr_status st = cli_within_print(stdout, p->config, plan, &p->target.profile);
    zr_plan_destroy(&plan);
    return st;
}

/** Price an asynchronous save; seconds are NAN where the cluster's disk rate or copy rate is not known. */
static zr_status price_save(const planning *p, const zr_plan *plan, zr_save_price *price)
{
    zr_simulation simulation;
    const cli_target *t = &p->target;
    const int host = cli_host_ranks(t) < t->local_ranks ? cli_host_ranks(t) : t->local_ranks;
    if (!t->simulated) return zr__plan_price_save(plan, &t->profile, ZR_TRAIN_DISK_BYTES_SEC / host, price);
    ZR_TRY(zr_simulate(plan, &t->cluster, &t->options, &simulation, NULL));
    *price = simulation.save;
    return ZR_OK;
}

/** Print the bytes of an asynchronous checkpoint, and its cost. */
static zr_status print_saving(const planning *p)
{
    char size[32], write[32], stall[32], unknown[CLI_SAVE_UNKNOWN_BYTES];
    zr_plan *plan = NULL;
    zr_save_price price;
    if (!zr__train_saves_async(p->config)) return ZR_OK;
    ZR_TRY(make_plan(p, &plan));
    const bool copy = plan->save == ZR_SAVE_COPY;
    zr_status st = price_save(p, plan, &price);
    zr_plan_destroy(&plan);
    ZR_TRY(st);
    printf("\ncheckpoints: %s a rank, from %s, written behind the next step%s\n", cli_bytes((double)price.bytes, size),
           copy ? "a copy in the host's memory" : "where the states are", copy ? "s" : "");
    if (isnan(price.write_sec)) {
        printf("  %s\n", cli_save_unknown(&p->target, unknown));
        return ZR_OK;
    }
    printf("  %s needs %s; training waits %s%s\n",
           p->target.simulated ? "the hosts' disk" : "a disk that takes 200 MB/s", cli_seconds(price.write_sec, write),
           cli_seconds(price.stall_sec, stall), copy ? "" : " for it (--memory SIZE with room for a copy: less)");
    return ZR_OK;
}

static zr_status print_text(const planning *p)
{
    bool color = cli_colored_out(p->args->color);
    cli_table table = {.memory_bytes = p->target.limit_bytes, .facts = &p->target.profile.facts};
    cli_choices choices = choices_of(p);
    ZR_TRY(cli_choices_plan(&choices, p->config, p->o->every));
    cli_choices_table(&choices, &table);
    if (p->max.what != CLI_MAX_NONE) cli_max_print(stdout, &p->max, &p->target);
    print_head(p, &table.report[table.chosen]);
    cli_table_print(stdout, &table, color);
    ZR_TRY(print_within(p));
    fputc('\n', stdout);
    cli_bars_print(stdout, &choices, color);
    fputc('\n', stdout);
    cli_speed_print(stdout, &choices);
    ZR_TRY(print_saving(p));
    ZR_TRY(cli_advice_print(stdout, &choices, p->config));
    return ZR_OK;
}

/** Print the report, as a run writes it too, with the requested members before its last brace. Calls that may fail come
 * first, so that no half of a document is printed. */
static zr_status print_json(const planning *p, const zr_plan *plan)
{
    const bool saves = plan->save != ZR_SAVE_NONE;
    zr_report report = zr__report_planned(plan);
    cli_choices choices = choices_of(p);
    zr_save_price price;
    char *json = NULL;
    if (p->o->advice) ZR_TRY(cli_choices_plan(&choices, p->config, p->o->every));
    if (saves) ZR_TRY(price_save(p, plan, &price));
    ZR_TRY(zr__report_json(&report, &json));
    printf("%.*s", (int)strlen(json) - 1, json);
    zr_free(json);
    ZR_TRY(cli_within_json(stdout, p->config, plan, &p->target.profile));
    if (p->max.what != CLI_MAX_NONE) cli_max_json(stdout, &p->max);
    if (saves)
        printf(", \"save\": {\"from\": \"%s\", \"bytes\": %" PRId64 "}", plan->save == ZR_SAVE_COPY ? "copy" : "states",
               price.bytes);
    if (p->o->advice) cli_advice_json(stdout, &choices);
    puts("}");
    return ZR_OK;
}

static zr_status draw(const planning *p, const zr_plan *plan)
{
    cli_times times;
    bool named = p->config->model.preset && p->max.what != CLI_MAX_MODEL && p->max.what != CLI_MAX_LAYERS;
    const char *model = named ? p->config->model.preset : p->config->model.type, *inputs[ZR_CONFIG_INPUTS + 1];
    zr__config_inputs(p->config, inputs);
    ZR_TRY(cli_target_times(&p->target, plan, &times));
    zr_status st = cli_picture_write(p->o->svg, inputs, plan, &times, model,
                                     cli_whole_states_bytes(p->config, p->target.ranks, &p->target.profile));
    cli_times_clear(&times);
    return st;
}

/** Show the parts of the output that need the plan itself. */
static zr_status show_plan(const planning *p)
{
    zr_plan *plan = NULL;
    zr_status st = ZR_OK;
    ZR_TRY(make_plan(p, &plan));
    if (p->o->svg) ZR_TRY_GOTO(st, draw(p, plan), done);
    if (p->args->json) {
        ZR_TRY_GOTO(st, print_json(p, plan), done);
    } else if (p->o->schedule) {
        cli_schedule_print(stdout, plan);
    }
done:
    zr_plan_destroy(&plan);
    return st;
}

/* ---- from options to a plan ------------------------------------------------------------------ */

/** Find the rates of this machine: the remembered rates of `zr info --bench`, or else, with `measured`, only its
 * products, measured now. */
static void know_rates(planning *p, zr_device *device, bool measured)
{
    zr_rates rates;
    bool narrow = p->config->bf16 && device->profile.facts.bf16_products;
    const bool known = zr__rates_recall(&device->profile.facts, &rates) == ZR_OK;
    if (known)
        zr__rates_profile(&rates, narrow ? ZR_BF16 : ZR_F32, p->target.ranks, p->target.local_ranks, &device->profile);
    p->target.chooser = device->profile;
    if (measured && !known) device->ops->measure(device, narrow ? ZR_BF16 : ZR_F32);
}

/** Make the profile of this machine for a rank's share of it, with rates where times are shown. */
static zr_status profile_here(planning *p)
{
    zr_device *device = NULL;
    ZR_TRY(zr__train_device(p->config->device, zr__train_threads(p->config, p->target.local_ranks), 0, &device));
    bool timed = !p->o->schedule && (!p->args->json || p->o->advice);
    know_rates(p, device, timed); /* in any case: policy auto chooses by the remembered rates, as `zr train` does */
    p->target.profile = device->profile;
    zr_device_destroy(&device);
    return ZR_OK;
}

static zr_status find_max(planning *p)
{
    ZR_TRY(cli_max_parse(p->o->max, &p->max.what));
    ZR_CHECK(p->target.limit_bytes > 0, ZR_ERR_ARG,
             "--max %s needs to know the memory of a rank: give --memory SIZE, memory.limit, or a --cluster or "
             "--profile that has one",
             p->o->max);
    for (int i = 0; i < p->args->n_overrides; i++)
        p->max.keep_stage |= strncmp(p->args->override[i], "zero_optimization.stage=", 24) == 0;
    ZR_TRY(cli_max_find(p->config, &p->target, &p->max));
    return ZR_OK;
}

static zr_status find_target(planning *p)
{
    const plan_options *o = p->o;
    if (o->cluster) return cli_target_cluster(o->cluster, NULL, p->config, &p->target);
    if (o->profile) return cli_target_profile(o->profile, &p->target);
    return profile_here(p);
}

static zr_status settle(planning *p)
{
    p->target.here = !p->o->profile && !p->o->cluster;
    ZR_TRY(find_target(p));
    if (p->o->efficiency > 0) cli_target_efficiency(&p->target, p->o->efficiency);
    p->chosen = zr__config_is_open(p->config);
    ZR_TRY(cli_settle(p->config, &p->target));
    if (p->o->max) ZR_TRY(find_max(p));
    return ZR_OK;
}

static void say_notes(const planning *p)
{
    char limit[32];
    if (p->args->quiet) return;
    for (int i = 0; i < zr_config_notes(p->config); i++) cli_say("note: %s", zr_config_note(p->config, i));
    if (p->target.own_limit) {
        cli_say("note: activation_checkpointing.policy auto without memory.limit: the limit is %s, the share of %d "
                "rank%s in what this %s; --memory SIZE gives another",
                cli_bytes((double)p->target.limit_bytes, limit), p->target.local_ranks,
                p->target.local_ranks == 1 ? "" : "s",
                p->target.profile.facts.apart ? "machine's GPUs have" : "host has left");
    }
}

static zr_status show(const planning *p)
{
    bool text = !p->args->json && !p->o->schedule;
    if (p->o->svg || !text) ZR_TRY(show_plan(p));
    if (text) ZR_TRY(print_text(p));
    say_notes(p);
    return ZR_OK;
}

/** Refuse models whose plan would take too long: planning time grows with the square of the layers. */
static zr_status check_layers(const planning *p)
{
    int64_t layers = p->config->model.sizes.n_layer;
    bool vary = p->o->max && strcmp(p->o->max, "batch") != 0;
    ZR_CHECK(layers <= MOST_LAYERS || vary, ZR_ERR_UNSUPPORTED,
             "model.n_layer %lld: a plan of so many layers takes too long; zr plan takes up to %d", (long long)layers,
             MOST_LAYERS);
    return ZR_OK;
}

/** Refuse an output that the plan, or the run that it is for, reads, before anything is planned. */
static zr_status check_outputs(const planning *p)
{
    const char *inputs[ZR_CONFIG_INPUTS + 1];
    zr__config_inputs(p->config, inputs);
    ZR_TRY(cli_check_stdout(inputs));
    if (p->o->svg) ZR_TRY(zr__output_check(p->o->svg, &cli_svg_kind, inputs));
    return ZR_OK;
}

static zr_status plan(cli_args *args, planning *p)
{
    char room[CLI_BRIEF_KEYS][256];
    zr_status st = ZR_OK;
    cli_brief brief = p->o->brief;
    brief.chooses = !p->o->max; /* with --max the memory is a limit, and no key is left open */
    ZR_TRY(cli_brief_overrides(&brief, args, room));
    ZR_TRY(cli_config(args, p->target.ranks, (int64_t)time(NULL), &p->config, NULL));
    ZR_TRY_GOTO(st, check_layers(p), done);
    ZR_TRY_GOTO(st, check_outputs(p), done);
    ZR_TRY_GOTO(st, settle(p), done);
    ZR_TRY_GOTO(st, show(p), done);
done:
    zr_config_destroy(&p->config);
    return st;
}

static zr_status check(const cli_args *args, const plan_options *o, const zr_comm *comm)
{
    ZR_CHECK(!comm || !o->ranks, ZR_ERR_ARG,
             "--ranks %lld was given under a launcher that started %d ranks; leave --ranks out", (long long)o->ranks,
             comm ? comm->size : 0);
    ZR_CHECK(!o->schedule || !args->json, ZR_ERR_ARG, "--schedule is text; leave it or --json out");
    ZR_TRY(cli_brief_check(&o->brief, args));
    ZR_CHECK(!o->cluster || !o->profile, ZR_ERR_ARG, "--cluster and --profile: one of the two");
    ZR_CHECK(!o->cluster || o->efficiency == 0, ZR_ERR_ARG,
             "--efficiency is a share of a profile's peak; a cluster has shares of its own (product_share)");
    ZR_CHECK(o->efficiency <= 1, ZR_ERR_ARG, "--efficiency %g; a share of the peak was wanted, at most 1",
             o->efficiency);
    ZR_CHECK(o->ranks <= INT32_MAX, ZR_ERR_ARG, "--ranks %lld; at most %d", (long long)o->ranks, INT32_MAX);
    return ZR_OK;
}

/** Print the lists that need no configuration, or else the plan. */
static zr_status dispatch(cli_args *args, const plan_options *o, const zr_comm *comm)
{
    ZR_CHECK(o->shapes + o->table1 + o->table2 + o->configs <= 1, ZR_ERR_ARG,
             "--shapes, --table1, --table2, --configs: one at a time");
    if (o->shapes) return cli_shapes_print(stdout, args->json);
    if (o->table1) return cli_papers_table1(stdout, args->json);
    if (o->table2) return cli_papers_table2(stdout, args->json);
    if (o->configs) return cli_papers_configs(stdout, args->json);
    ZR_TRY(check(args, o, comm));
    int ranks = comm ? comm->size : o->ranks ? (int)o->ranks : 1;
    planning p = {.args = args,
                  .o = o,
                  .target = {.ranks = ranks,
                             .local_ranks = comm ? comm->local_size : ranks,
                             .in_process = comm ? zr__comm_process_ranks(comm) : ranks}};
    const zr_status st = plan(args, &p);
    cli_target_clear(&p.target);
    return st;
}

static zr_status run(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    plan_options o = {.brief = CLI_BRIEF_INIT};
    const cli_option options[] = {
        {"ranks", CLI_INT, &o.ranks, 1, "N", "ranks, any number"},
        CLI_BRIEF_PRESET(o.brief),
        {"shapes", CLI_FLAG, &o.shapes, 0, NULL, "list the known shapes with sizes and parameters"},
        CLI_BRIEF_OPTIONS(o.brief, CLI_MEMORY_CHOOSES),
        {"max", CLI_TEXT, &o.max, 0, "WHAT", "the largest that fits: model, layers (at this width) or batch"},
        {"cluster", CLI_TEXT, &o.cluster, 0, "NAME|FILE",
         "times as `zr simulate` makes them for a cluster, as dgx-h100x8"},
        {"profile", CLI_TEXT, &o.profile, 0, "NAME|FILE",
         "one host's peak rates, as h100, or a file of rates; left out: this machine"},
        {"tokens", CLI_REAL, &o.tokens, 1, "N", "days that so many tokens take, as 300e9"},
        {"efficiency", CLI_REAL, &o.efficiency, 1e-6, "E",
         "share of the peak FLOP/s that is priced, as 0.4; without: 1"},
        {"every", CLI_FLAG, &o.every, 0, NULL, "also recompute unit with the input of each k-th unit"},
        {"advice", CLI_FLAG, &o.advice, 0, NULL, "with --json: time, choices, advice, as the text has"},
        {"svg", CLI_TEXT, &o.svg, 0, "FILE", "draw the memory map and the streams of one step"},
        {"schedule", CLI_FLAG, &o.schedule, 0, NULL, "print the steps of one training step instead"},
        {"table1", CLI_FLAG, &o.table1, 0, NULL, "table 1 of the ZeRO paper beside what zr plans"},
        {"table2", CLI_FLAG, &o.table2, 0, NULL, "table 2 likewise"},
        {"configs", CLI_FLAG, &o.configs, 0, NULL, "what the SC20 paper ran likewise: its 48 runs, C1 to C5"},
        {0}};
    cli_args args = {.command = command->name, .options = options, .keys = true, .max_operands = 1, .recipe = true};
    ZR_TRY(cli_parse(&args, argc, argv));
    if (args.help) {
        cli_help(command, options, cli_help_asked(&args));
        return ZR_OK;
    }
    if (comm) cli_leave_binding(); /* rates are of all cores, as in `zr train` */
    return dispatch(&args, &o, comm);
}

const cli_command cli_plan = {
    .name = "plan",
    .summary = "memory, traffic, FLOPs and time of one step, before anything is allocated",
    .usage = "zr plan [CONFIG.json] [--key.path=value ...] [--ranks N] [--preset NAME] ...",
    .examples = "  zr plan config.json --ranks 8\n"
                "  zr plan --preset gpt2-1.5b --ranks 64 --memory 32GB --cluster dgx2x25\n"
                "  zr plan --preset gpt3-6.7b --ranks 64 --cluster dgx-h100x8 --tokens 300e9\n"
                "  zr plan config.json --max model --memory 2GB\n"
                "  zr plan config.json --ranks 4 --stage 3 --svg step.svg\n"
                "  zr plan config.json --stage 3 --json\n"
                "  zr plan config.json --schedule\n",
    .run = run,
};
