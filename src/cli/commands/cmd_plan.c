/** The command `zr plan`. */
#include "cli/draw/picture.h"
#include "cli/draw/plan_page.h"
#include "cli/plan/profile.h"
#include "cli/shell/config.h"
#include "cli/shell/help.h"
#include "cli/shell/process.h"
#include "base/json/json_write.h"
#include "base/text/text.h"
#include "cli/plan/choices.h"
#include "cli/plan/offload.h"
#include "cli/systems/system.h"
#include "comm/comm.h"
#include "config/config.h"
#include "train/dir/report.h"
#include "train/host/device.h"
#include "train/measure/measure.h"

#include <stdio.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_LAYERS 4096 /* maximum number of layers of a model; planning for this number takes seconds */

/* ---- printing -------------------------------------------------------------------------------- */

static void print_plan_head(const cli_choices *p, const zr_report *report)
{
    char params[80];
    const zr_config *c = p->config;
    const zr_model_sizes s = zr_config_sizes(c);
    bool named = c->model.preset || c->model.init || p->max.what == CLI_MAX_MODEL ||
                 zr__config_given(c, zr__config_key_of(c, "layers")) ||
                 zr__config_given(c, zr__config_key_of(c, "width"));
    const long long kv = cli_kv_heads(c->model.family, &c->model.config);
    char groups[48] = "";
    if (kv != s.heads) snprintf(groups, sizeof(groups), " (%lld of keys and values)", kv);
    printf("model: %s, %lld layers, width %lld, %lld heads%s, %lld tokens",
           c->model.preset ? c->model.preset
           : c->model.init ? c->model.init
                           : c->model.type,
           (long long)s.layers, (long long)s.width, (long long)s.heads, groups, (long long)s.vocabulary);
    if (!named)
        printf(" (%s's smallest, as none is given: --preset NAME or the section model)", c->model.family->title);
    putchar('\n');
    const int64_t data_ranks = p->target.ranks / (c->parallel.tensor * c->parallel.pipeline);
    char grid[96] = "", tensor[48] = "", pipeline[48] = "";
    if (c->parallel.tensor > 1)
        snprintf(tensor, sizeof(tensor), " x %lld tensor-parallel", (long long)c->parallel.tensor);
    if (c->parallel.pipeline > 1)
        snprintf(pipeline, sizeof(pipeline), " x %lld pipeline", (long long)c->parallel.pipeline);
    if (c->parallel.tensor * c->parallel.pipeline > 1)
        snprintf(grid, sizeof(grid), " (%lld data-parallel%s%s)", (long long)data_ranks, tensor, pipeline);
    printf("parameters: %s, %s, %d rank%s%s, batch %lld x %lld tokens a rank\n"
           "%lld micro-batch%s a step%s%s, layout %s; machine: %s\n",
           cli_params(report->params, report->trained, params), cli_type_name(c), p->target.ranks,
           p->target.ranks == 1 ? "" : "s", grid, (long long)c->micro_batch_size, (long long)c->data.seq_length,
           (long long)c->accumulation_steps, c->accumulation_steps == 1 ? "" : "es",
           c->reduce_once && c->accumulation_steps > 1 && data_ranks > 1 ? ", reduced once" : "",
           c->train.layer_major && c->accumulation_steps > 1 ? ", layer by layer" : "",
           c->memory.layout == ZR_LAYOUT_LEAN ? "lean" : "paper", p->target.profile.facts.name);
}

/** Compute the cost of an asynchronous save. Its times are NAN if the cluster's disk rate or copy rate is unknown. */
static zr_status price_plan_save(const cli_choices *p, const zr_plans *plans, zr_save_price *price)
{
    zr_simulation simulation;
    const cli_target *t = &p->target;
    const int host = cli_host_ranks(t) < t->local_ranks ? cli_host_ranks(t) : t->local_ranks;
    if (!t->simulated) return zr__plans_price_save(plans, &t->profile, ZR_TRAIN_DISK_BYTES_SEC / host, price);
    ZR_TRY(zr_simulate(plans, &t->cluster, &t->options, &simulation, NULL));
    *price = simulation.save;
    return ZR_OK;
}

/** Print the size of an asynchronous checkpoint, and the time that saving it takes. */
static zr_status print_saving(const cli_choices *p, const zr_plans *plans)
{
    const bool copy = plans->role[0]->save == ZR_SAVE_COPY;
    zr_save_price price;
    ZR_TRY(price_plan_save(p, plans, &price));
    printf("\ncheckpoints: %s a rank, from %s, written asynchronously, during the next step%s\n  ",
           ZR_SIZE((double)price.bytes), copy ? "a copy in the host's memory" : "where the states are",
           copy ? "s" : "");
    if (isnan(price.write_sec))
        puts("how long it takes is not known: disks are not measured");
    else
        printf("%s needs %s; training waits %s%s\n",
               p->target.simulated ? "the hosts' disk" : "a disk that takes 200 MB/s", CLI_SECONDS(price.write_sec),
               CLI_SECONDS(price.stall_sec), copy ? "" : " for it (--memory SIZE with room for a copy: less)");
    return ZR_OK;
}

/** Measure the layer in the middle of the model, in the plan of the role that has it. */
static zr_status find_layer(const zr_plans *plans, const zr_plan **plan, zr__layer *layer)
{
    int32_t r = 0;
    do {
        *plan = plans->role[r];
        ZR_TRY(zr__plan_layer(*plan, layer));
    } while (layer->unit >= 0 && layer->kept_bytes == 0 && ++r < plans->n);
    return ZR_OK;
}

/** Print what a layer keeps for the backward pass, and how often element-wise steps pass over memory. */
static zr_status print_layer(const cli_choices *p, const zr_plans *plans)
{
    zr__layer layer;
    const zr_plan *plan;
    ZR_TRY(find_layer(plans, &plan, &layer));
    if (layer.unit < 0 || layer.input_bytes == 0) return ZR_OK;
    const double input = (double)layer.input_bytes;
    const double tokens = (double)(p->config->micro_batch_size * p->config->data.seq_length);
    printf("  layer \"%s\": keeps %s a token, %.1f times its input\n"
           "  its passes (steps without products): %.0f times its input, at least %.0f\n",
           zr_graph_unit_info(plan->graph[ZR_SCHEDULE_TRAIN], layer.unit)->name,
           ZR_SIZE((double)layer.kept_bytes / tokens), (double)layer.kept_bytes / input,
           (double)layer.passed_bytes / input, (double)layer.least_bytes / input);
    return ZR_OK;
}

static zr_status add_layer_members(const zr_plans *plans, zr__json_out *out)
{
    zr__layer layer;
    const zr_plan *plan;
    ZR_TRY(find_layer(plans, &plan, &layer));
    if (layer.unit < 0) return ZR_OK;
    const double input = (double)(layer.input_bytes > 0 ? layer.input_bytes : 1);
    zr__json_open(out, "layer", '{');
    zr__json_add(out, "unit", zr_graph_unit_info(plan->graph[ZR_SCHEDULE_TRAIN], layer.unit)->name, "input_bytes",
                 layer.input_bytes, "kept_bytes", layer.kept_bytes);
    zr__json_add(out, "passes", (double)layer.passed_bytes / input, "least_passes", (double)layer.least_bytes / input);
    zr__json_close(out, '}');
    return ZR_OK;
}

/** Print the plan as text. */
static zr_status print_plan_text(cli_choices *p, const zr_plans *plans)
{
    const zr_plan *plan = zr__fullest_role(plans);
    const bool color = cli_colored(p->args->color, STDOUT_FILENO);
    cli_table table = {.memory_bytes = p->target.limit_bytes};
    ZR_TRY(cli_choices_plan(p));
    cli_choices_table(p, &table);
    if (p->max.what != CLI_MAX_NONE) cli_max_print(stdout, &p->max);
    print_plan_head(p, &table.report[table.chosen]);
    cli_table_print(stdout, &table, color);
    cli_pipeline_print("  pipeline: ", &p->own->made, p->compute_known && p->link_known);
    ZR_TRY(cli_within_print(p, plan));
    ZR_TRY(print_layer(p, plans));
    cli_offload_print(&p->target, p->config, &p->own->made, cli_choice_tokens(p, p->own));
    putchar('\n');
    cli_bars_print(stdout, p, color);
    ZR_TRY(cli_order_print(p));
    ZR_TRY(cli_records_print(p, plans));
    putchar('\n');
    cli_speed_print(p);
    if (zr__train_saves_async(p->config)) ZR_TRY(print_saving(p, plans));
    return cli_advice_print(p);
}

/** Add the plan to the JSON output: first the members of a run's report, then members for the layer, tensor
 * parallelism, --max, asynchronous saves and --advice. */
static zr_status add_plan_members(cli_choices *p, const zr_plans *plans, const cli_trial *trial, zr__json_out *out)
{
    const zr_plan *plan = zr__fullest_role(plans);
    zr_save_price price;
    ZR_AUTO_FREE char *json = NULL;
    ZR_TRY(zr__report_json(&trial->report, &json));
    zr__text_append(&out->text, json + 1, strlen(json) - 2); /* copy the members without their braces */
    out->more = true;
    ZR_TRY(cli_within_json(out, p, plan));
    ZR_TRY(add_layer_members(plans, out));
    cli_pipeline_json(out, trial, p->target.simulated);
    if (p->max.what != CLI_MAX_NONE) cli_max_json(out, &p->max);
    if (plan->save != ZR_SAVE_NONE) {
        ZR_TRY(price_plan_save(p, plans, &price));
        zr__json_open(out, "save", '{');
        zr__json_add(out, "from", plan->save == ZR_SAVE_COPY ? "copy" : "states", "bytes", price.bytes);
        zr__json_close(out, '}');
    }
    if (!p->o->advice) return ZR_OK;
    ZR_TRY(cli_choices_plan(p));
    cli_advice_json(out, p);
    return ZR_OK;
}

/** Print the plan as one JSON document. Print nothing if the plan cannot be written completely. `grid` is NULL without
 * --html. */
static zr_status print_plan_json(cli_choices *p, const zr_plans *plans, const cli_trial *trial, const cli_grid *grid)
{
    ZR_AUTO(zr__json_drop) zr__json_out out = {.spaced = true};
    zr__json_open(&out, NULL, '{');
    ZR_TRY(add_plan_members(p, plans, trial, &out));
    if (grid) cli_grid_json(&out, grid);
    zr__json_close(&out, '}');
    return zr__json_write(&out, stdout);
}

/** Print the plan as text, as JSON or as the list of its steps. With --svg and --html, also write these files. */
static zr_status show_plan(cli_choices *p)
{
    const zr_config *c = p->config;
    ZR_AUTO(zr__plans_clear) zr_plans plans = {0};
    ZR_AUTO(cli_grid_free) cli_grid *grid = NULL;
    cli_trial trial; /* made in any case, to check that the cluster has enough devices */
    ZR_TRY(cli_try(&p->target, c, &trial, &plans));
    if (p->o->svg) {
        const bool named = c->model.preset && p->max.what != CLI_MAX_MODEL && p->max.what != CLI_MAX_LAYERS;
        const char *model = named ? c->model.preset : c->model.type;
        ZR_TRY(cli_target_draw(&p->target, c, &plans, model, p->o->svg));
    }
    if (p->o->html) {
        ZR_TRY(cli_grid_make(c, &p->target, p->args->quiet ? NULL : "what-ifs", &grid));
        ZR_TRY(cli_plan_page_own(p, &plans, &trial, grid));
    }
    if (p->args->json) return print_plan_json(p, &plans, &trial, grid);
    if (!p->o->schedule) return print_plan_text(p, &plans);
    cli_schedule_print(stdout, zr__fullest_role(&plans));
    return ZR_OK;
}

/* ---- from options to a plan ------------------------------------------------------------------ */

/** Set the target's profile to a rank's share of this machine, with the rates that `zr info --bench` stored. If no
 * rates are stored and the output shows times, measure the rate of matrix products now. Set the profile `chooser` to
 * only the stored rates, so that zr chooses the same keys as in `zr train`. */
static zr_status profile_here(cli_choices *p)
{
    ZR_AUTO(zr_device_destroy) zr_device *device = NULL;
    zr_rates rates;
    ZR_TRY(zr__train_device(p->config->device, zr__train_threads(p->config, p->target.local_ranks), 0, &device));
    const bool timed = !p->o->schedule && (!p->args->json || p->o->advice);
    const zr_dtype dtype = p->config->bf16 && device->profile.facts.bf16_products ? ZR_BF16 : ZR_F32;
    const bool known = zr__rates_recall(&device->profile.facts, &rates) == ZR_OK;
    if (known) zr__rates_profile(&rates, dtype, p->target.ranks, p->target.local_ranks, &device->profile);
    zr__disk_profile(p->target.local_ranks, &device->profile);
    p->target.chooser = device->profile;
    if (timed && !known) device->ops->measure(device, dtype);
    p->target.profile = device->profile;
    return ZR_OK;
}

static zr_status find_max(cli_choices *p)
{
    ZR_TRY(cli_max_parse(p->o->max, &p->max.what));
    ZR_CHECK(p->target.limit_bytes > 0, ZR_ERR_ARG,
             "--max %s needs the memory of a rank: give --memory SIZE, memory.limit, or a --cluster or "
             "--profile that has one",
             p->o->max);
    zr__free *free = &p->question.free;
    free->stage = !zr__config_given(p->config, "zero_optimization.stage");
    free->policy = !zr__config_given(p->config, "activation_checkpointing.policy");
    /* if the host's memory is unknown, an offload to the host would leave the size of the model unlimited */
    free->host = free->host && cli_train_target(&p->target).host_bytes > 0;
    p->max.away = free->disk;
    free->disk = free->disk && (p->target.disk_bytes > 0 || p->config->zero.optim.folders);
    p->max.config = p->config;
    p->max.target = &p->target;
    p->max.question = p->question;
    p->max.found = &p->found;
    ZR_TRY(cli_max_find(&p->max));
    p->asked = p->max.asked;
    p->question.free = p->max.question.free;
    p->answered = true; /* the advice then reports this answer and makes no search of its own */
    return ZR_OK;
}

static zr_status settle_plan(cli_choices *p)
{
    const cli_plan_options *o = p->o;
    p->target.here = !o->profile && !o->cluster;
    ZR_TRY(o->cluster   ? cli_target_cluster(o->cluster, NULL, p->config, &p->target)
           : o->profile ? cli_target_profile(o->profile, &p->target)
                        : profile_here(p));
    if (o->efficiency > 0) cli_target_efficiency(&p->target, o->efficiency);
    ZR_TRY(cli_choices_ask(p));
    return o->max ? find_max(p) : ZR_OK;
}

static void say_plan_notes(const cli_choices *p)
{
    if (p->args->quiet) return;
    for (int i = 0; i < zr_config_notes(p->config); i++) cli_say("note: %s", zr_config_note(p->config, i));
    char offload[ZR_OFFLOAD_NOTE_BYTES];
    zr__train_offload_note(p->config, &p->target.profile.facts, offload);
    if (offload[0]) cli_say("note: %s", offload);
    if (p->target.own_limit)
        cli_say("note: activation_checkpointing.policy is auto and there is no memory.limit; the limit used is %s, "
                "the share of each of %d "
                "rank%s in the memory that this %s; --memory SIZE sets another limit",
                ZR_SIZE((double)p->target.limit_bytes), p->target.local_ranks, p->target.local_ranks == 1 ? "" : "s",
                p->target.profile.facts.own_memory ? "machine's GPUs have" : "host has left");
}

/** Refuse a model with too many layers, because planning time grows with the square of their number. */
static zr_status check_layers(const cli_choices *p)
{
    const int64_t layers = zr_config_sizes(p->config).layers;
    const bool vary = p->o->max && strcmp(p->o->max, "batch") != 0;
    ZR_CHECK(layers <= MOST_LAYERS || vary, ZR_ERR_UNSUPPORTED, "%s is %lld; zr plan handles at most %d layers",
             zr__config_key_of(p->config, "layers"), (long long)layers, MOST_LAYERS);
    return ZR_OK;
}

/* ---- configurations of other systems --------------------------------------------------------- */

/** Read --from, and find the format of --emit and its system. */
static zr_status settle_formats(cli_args *args, cli_plan_options *o, cli_choices *p)
{
    ZR_CHECK(!o->from || args->n_operands == 0, ZR_ERR_ARG,
             "--from %s and %s are two configurations; leave out one of them", o->from, args->operand[0]);
    ZR_CHECK(o->emit || !o->out, ZR_ERR_ARG, "-o %s is for --emit SYSTEM, which is not given", o->out);
    if (o->from) {
        ZR_TRY(cli_from_read(o->from, o->brief.preset, args, o->ranks, &p->from));
        o->brief.from = true;
        o->brief.from_model = cli_from_model(&p->from);
        o->brief.from_name = zr__settings_value(&p->from.ours, "model");
        if (o->ranks == 0) o->ranks = p->from.ranks;
    }
    if (o->emit) ZR_TRY(zr__format_find(o->emit, &p->format));
    return cli_formats_options(&p->from, p->format, &o->system, &o->with);
}

static zr_status make_plan(cli_args *args, cli_choices *p)
{
    char room[CLI_BRIEF_KEYS][256];
    cli_brief brief = p->o->brief;
    /* with --max, and for another system, the memory is only a limit, so do not choose keys to fit it */
    brief.chooses = !p->o->max && !cli_other_system(p->o->system);
    p->batch = brief.batch > 0 || cli_overrides(args, "train_micro_batch_size_per_gpu=");
    const bool alone = args->n_operands == 0;
    ZR_TRY(cli_brief_overrides(&brief, args, room));
    /* Without a memory limit on the command line, only the advice chooses an offload to --disk, for the memory of the
     * cluster's devices. */
    if (alone && p->o->cluster && !brief.memory && !cli_overrides(args, "memory.limit=")) args->disk = NULL;
    if (brief.from) ZR_TRY(cli_from_overrides(&p->from, args));
    ZR_TRY(cli_from_explain(&p->from, cli_config(args, p->target.ranks, (int64_t)time(NULL), &p->config, NULL)));
    p->batch |= !alone && zr__config_given(p->config, "train_micro_batch_size_per_gpu");
    p->batch |= p->o->max != NULL;
    ZR_TRY(check_layers(p));
    ZR_TRY(cli_check_outputs(p->config, p->o->svg));
    if (p->o->html) ZR_TRY(cli_plan_page_check(p->o->html, p->config));
    if (p->format) ZR_TRY(cli_emit_check(p->format, p->config, p->o->out));
    if (cli_other_system(p->o->system)) {
        ZR_TRY(cli_system_plan(p));
    } else {
        ZR_TRY(settle_plan(p));
        ZR_TRY(show_plan(p));
    }
    ZR_TRY(cli_flush()); /* the tables come before the notes if both go into one file */
    say_plan_notes(p);
    return ZR_OK;
}

static zr_status check_plan_options(const cli_args *args, const cli_plan_options *o, const zr_comm *comm)
{
    ZR_CHECK(!comm || !o->ranks, ZR_ERR_ARG, "--ranks is %lld, but the launcher started %d ranks; leave out --ranks",
             (long long)o->ranks, comm ? comm->size : 0);
    ZR_CHECK(!o->schedule || !args->json, ZR_ERR_ARG, "--schedule prints text only; leave out --schedule or --json");
    ZR_TRY(cli_brief_check(&o->brief, args));
    ZR_TRY(cli_system_check(o));
    ZR_CHECK(!o->cluster || !o->profile, ZR_ERR_ARG, "--cluster and --profile cannot be given together; leave out one");
    ZR_CHECK(!o->cluster || o->efficiency == 0, ZR_ERR_ARG,
             "--efficiency works only with a profile; a cluster sets its own efficiency (product_share)");
    ZR_CHECK(o->efficiency <= 1, ZR_ERR_ARG, "--efficiency is %g; expected a fraction of the peak, at most 1",
             o->efficiency);
    ZR_CHECK(o->ranks <= INT32_MAX, ZR_ERR_ARG, "--ranks is %lld; the most is %d", (long long)o->ranks, INT32_MAX);
    return ZR_OK;
}

/** Print the list of --shapes if it was requested. Otherwise print the plan. */
static zr_status list_or_plan(cli_args *args, cli_plan_options *o, const zr_comm *comm)
{
    if (o->shapes) return cli_shapes_print(stdout, args->json);
    ZR_AUTO(cli_choices_clear) cli_choices p = {.args = args, .o = o};
    ZR_TRY(settle_formats(args, o, &p));
    ZR_TRY(check_plan_options(args, o, comm));
    const int ranks = comm ? comm->size : o->ranks ? (int)o->ranks : 1;
    p.target = (cli_target){.ranks = ranks,
                            .local_ranks = comm ? comm->local_size : ranks,
                            .in_process = comm ? zr__comm_process_ranks(comm) : ranks};
    return make_plan(args, &p);
}

static zr_status run_plan(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    cli_plan_options o = {.brief = CLI_BRIEF_INIT};
    const cli_option options[] = {
        {"ranks", CLI_INT, &o.ranks, 1, "N", "number of ranks (devices) to plan for; this machine need not have them"},
        CLI_BRIEF_PRESET(o.brief),
        {"shapes", CLI_FLAG, &o.shapes, 0, NULL, "list the named model shapes with their sizes and parameter counts"},
        CLI_BRIEF_OPTIONS(o.brief, CLI_MEMORY_CHOOSES),
        {"max", CLI_TEXT, &o.max, 0, "WHAT",
         "find the largest model, layers (number of layers at this width) or batch that fits in memory"},
        CLI_BRIEF_DISK(o.brief, CLI_DISK_PLAN),
        {"cluster", CLI_TEXT, &o.cluster, 0, "NAME|FILE",
         "simulate times on this cluster, e.g. dgx-h100x8, as `zr simulate` does"},
        {"profile", CLI_TEXT, &o.profile, 0, "NAME|FILE",
         "compute times from peak rates: a named device, e.g. h100, or a file of rates [measured rates of this "
         "machine]"},
        {"tokens", CLI_REAL, &o.tokens, 1, "N",
         "number of training tokens, e.g. 300e9: also print how many days they take"},
        {"efficiency", CLI_REAL, &o.efficiency, 1e-6, "E",
         "fraction of the peak FLOP/s assumed for times, e.g. 0.4 [1]"},
        {"every", CLI_FLAG, &o.every, 0, NULL,
         "also list recompute policies that keep only the input of every k-th unit (transformer block)"},
        {"advice", CLI_FLAG, &o.advice, 0, NULL,
         "with --json: include the times, choices and advice that the text output has"},
        {"system", CLI_TEXT, &o.system, 0, "NAME",
         "plan the memory of another training system beside zr's: deepspeed, fsdp2, ddp, megatron, trainer, nanotron"},
        {"with", CLI_LIST, &o.with, 0, "OPTION=VALUE",
         "with --system: an option of the system by its own name, e.g. overlap_comm=true; may be given several times"},
        {"svg", CLI_TEXT, &o.svg, 0, "FILE", "draw memory and streams over one training step into this SVG file"},
        {"html", CLI_TEXT, &o.html, 0, "FILE",
         "write one page to send to a colleague: the question, the answer, memory, a picture, and what-ifs"},
        {"from", CLI_TEXT, &o.from, 0, "FILE|ARGS",
         "plan the run of a configuration of DeepSpeed, accelerate, torchtitan, Megatron-LM or the Trainer: a file, or "
         "its options in quotes"},
        {"emit", CLI_TEXT, &o.emit, 0, "FORMAT",
         "write the planned run as a configuration of another system: deepspeed, accelerate, fsdp2, torchtitan, "
         "megatron or trainer"},
        {"out", CLI_TEXT, &o.out, 0, "FILE",
         "with --emit (or -o): the file to write [standard output, without the plan]"},
        {"schedule", CLI_FLAG, &o.schedule, 0, NULL, "print only the schedule: every operation of one training step"},
        {0}};
    cli_args args = {.command = command->name, .options = options, .keys = true, .max_operands = 1, .recipe = true};
    ZR_TRY(cli_parse_operands(&args, command, NULL, argc, argv));
    if (args.help) return ZR_OK;
    /* Use all cores, as `zr train` does. A launcher may have bound this process to one core. */
    if (comm) cli_leave_binding();
    ZR_AUTO(zr__text_clear) zr__text line = {0};
    zr__text_add(&line, "zr %s", command->name);
    for (int i = 0; i < argc; i++) zr__text_add(&line, " %s", ZR_WORD(argv[i]));
    ZR_CHECK(!line.failed, ZR_ERR_MEMORY, "no memory for the command line");
    o.line = line.data;
    return list_or_plan(&args, &o, comm);
}

const cli_command cli_plan = {
    .name = "plan",
    .summary = "predict memory, traffic, FLOPs and time of a training step, without running it",
    .usage = "zr plan [CONFIG.json] [--key.path=value ...] [--ranks N] [--preset NAME] ...",
    .examples = "  zr plan config.json --ranks 8\n"
                "  zr plan --preset gpt2-1.5b --ranks 64 --memory 32GB --cluster dgx2x25\n"
                "  zr plan --preset gpt3-6.7b --ranks 64 --cluster dgx-h100x8 --tokens 300e9\n"
                "  zr plan --preset llama3-8b --system deepspeed --stage 3 --ranks 8 --profile a100-80gb\n"
                "  zr plan config.json --max model --memory 2GB\n"
                "  zr plan config.json --ranks 4 --stage 3 --svg step.svg\n"
                "  zr plan --preset llama3-8b --system fsdp2 --ranks 8 --cluster a100 --html plan.html\n"
                "  zr plan config.json --stage 3 --json\n"
                "  zr plan config.json --schedule\n",
    .run = run_plan,
};
