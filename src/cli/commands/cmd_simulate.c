/** The command `zr simulate`, and the output of a single simulation as text, JSON or a picture. */
#include "cli/draw/picture.h"
#include "cli/plan/choices.h"
#include "cli/shell/config.h"
#include "cli/shell/help.h"
#include "cli/simulate/simulate.h"

#include "base/json/json.h"
#include "base/text/text.h"
#include "simulate/simulate.h"
#include "train/dir/report.h"

#include <stdio.h>
#include <math.h>
#include <string.h>
#include <time.h>

/** State of one call of `zr simulate`. */
typedef struct simulating {
    const cli_args *args;
    const cli_simulate_options *o;
    zr_config *config;
    cli_target target;
} simulating;

/* ---- text -------------------------------------------------------------------------------------- */

/** Print how many bytes of a memory are used, and the size of the memory: "3 GB of a device's 32 GB". `whose` is
 * "device's" or "host's". `there` is the size in bytes, or 0 if unknown. Without the size, print "3 GB of a device's
 * memory". */
static void print_taken(const char *whose, int64_t bytes, int64_t there)
{
    printf("%s of a %s %s", ZR_SIZE((double)bytes), whose, there > 0 ? ZR_SIZE((double)there) : "memory");
}

/** Print how much of a device's memory is used. Also print the use of the host's memory if it contains activation
 * checkpoints or offloaded states, or is too small. */
static void print_memory_line(const simulating *c, const cli_trial *made)
{
    const zr_memory *m = &made->report.memory;
    if (c->target.other.system) {
        printf("memory     %s allocated; nvidia-smi shows ", ZR_SIZE((double)m->total_bytes));
        print_taken("device's", made->needs_bytes, c->target.limit_bytes);
        if (made->host_bytes > 0) printf("; ");
        if (made->host_bytes > 0) print_taken("host's", made->host_bytes, c->target.cluster.host_memory_bytes);
        puts(made->fits ? "" : ": does not fit");
        return;
    }
    const zr_cluster *cluster = &c->target.cluster;
    const int64_t host = cluster->host_memory_bytes, device = cluster->device.memory_bytes;
    const int64_t *on_host = m->space[ZR_SPACE_HOST].category_bytes;
    const bool kept = on_host[ZR_CATEGORY_CHECKPOINT] + on_host[ZR_CATEGORY_PARAM] + on_host[ZR_CATEGORY_GRAD] +
                          on_host[ZR_CATEGORY_OPTIM] >
                      0,
               over = device > 0 && made->needs_bytes > device, host_over = host > 0 && made->host_bytes > host;
    printf("memory     ");
    print_taken("device's", m->total_bytes, device);
    if (over) printf(": does not fit with %s aside", cli_beside(&c->target.profile.facts));
    if (!over && made->needs_bytes > c->target.limit_bytes && c->target.limit_bytes > 0)
        printf(": more than memory.limit allows");
    if (kept || host_over) {
        printf("; ");
        print_taken("host's", made->host_bytes, host);
        if (host_over) printf(": does not fit");
    }
    if (c->target.disk_bytes > 0 && made->disk_bytes > c->target.disk_bytes)
        printf("; %s of --disk %s: does not fit", ZR_SIZE((double)made->disk_bytes),
               ZR_SIZE((double)c->target.disk_bytes));
    putchar('\n');
}

/** Print which states are offloaded, and the bytes of disk that a rank reads and writes in a step. */
static void print_offload_line(const cli_trial *made)
{
    char words[ZR_OFFLOAD_NOTE_BYTES];
    const zr_report *r = &made->report;
    const int64_t read_bytes = cli_read_from_disk(r), written_bytes = cli_written_to_disk(r);
    const double disk_sec = made->simulation.price.disk_sec;
    zr__train_offload_words(&r->home, &r->memory, words);
    if (!words[0]) return;
    printf("offload    %s", words);
    if (read_bytes + written_bytes > 0) {
        printf("; a rank reads %s and writes %s of disk a step: ", ZR_SIZE((double)read_bytes),
               ZR_SIZE((double)written_bytes));
        if (disk_sec > 0)
            printf("%s", CLI_SECONDS(disk_sec));
        else
            printf("its time is not counted; `zr info --bench --disk DIR` measures a disk");
    }
    putchar('\n');
}

static void print_save_line(const simulating *c, const zr_save_price *save)
{
    if (save->bytes == 0) return;
    printf("save       %s a rank, every %lld steps: ", ZR_SIZE((double)save->bytes),
           (long long)c->config->train.save_interval);
    if (isnan(save->write_sec))
        puts("how long it takes is not known: disks are not measured");
    else
        printf("%s by the hosts' disks; training waits %s\n", CLI_SECONDS(save->write_sec),
               CLI_SECONDS(save->stall_sec));
}

static void print_exposed_line(const zr_simulation *s)
{
    const char *before = " (";
    printf("exposed    %s of communication and copies", CLI_SECONDS(s->price.exposed_sec));
    for (int i = 0; i < ZR_CAUSES; i++) {
        if (s->exposed_sec[i] <= 0) continue;
        printf("%s%s %s", before, zr__cause_name((zr_cause)i), CLI_SECONDS(s->exposed_sec[i]));
        before = ", ";
    }
    puts(before[0] == ',' ? ")" : "");
}

static void print_simulation(const simulating *c, const cli_trial *made)
{
    const zr_simulation *s = &made->simulation;
    const zr__system *other = c->target.other.system;
    if (other) printf("%s (%s)\n", other->title, other->version);
    printf("%s parameters on %d of the %d devices of %s, stage %d, %d sample%s x %lld tokens a micro-batch, "
           "%lld micro-batch%s a step\n",
           ZR_AMOUNT((double)made->params), c->target.ranks, c->target.cluster.devices, c->target.cluster.name,
           (int)(c->config->zero.stage), (int)c->config->micro_batch_size, c->config->micro_batch_size == 1 ? "" : "s",
           (long long)c->config->data.seq_length, (long long)c->config->accumulation_steps,
           c->config->accumulation_steps == 1 ? "" : "es");
    printf("step       %s", CLI_SECONDS(s->price.step_sec));
    if (made->fits)
        printf("; %.4g samples/s, %.4g tokens/s\n", s->samples_sec, s->tokens_sec);
    else
        printf(" if it fitted, which it does not\n");
    printf("FLOP/s     %.1f T a device, recompute included; %sFLOP/s all; MFU %.1f %%\n", s->flops_sec / 1e12,
           ZR_AMOUNT(s->flops_sec * c->target.ranks), 100 * s->mfu);
    printf("computing  products %s, memory %s, launches %s\n", CLI_SECONDS(s->product_sec), CLI_SECONDS(s->memory_sec),
           CLI_SECONDS(s->launch_sec));
    print_exposed_line(s);
    cli_pipeline_print("pipeline   ", made, true);
    print_memory_line(c, made);
    print_offload_line(made);
    print_save_line(c, &s->save);
    if (s->slowest > 1) printf("slowest    a rank whose kernels take %.3g times as long\n", s->slowest);
    printf("bound by   %s\n", s->bound_by);
    if (c->o->tokens > 0 && made->fits)
        printf("days       %.3g for %.3g tokens\n", cli_simulated_days(made, c->o->tokens), c->o->tokens);
    if (other) printf("compared   with %s\n", other->timed);
    if (!other && cli_target_computed(&c->target)) puts(CLI_GPU_REMARK);
}

/* ---- JSON -------------------------------------------------------------------------------------- */

/** Add the members "memory" and "traffic" of a plan's report to the JSON object `root` and, with an offload, "offload"
 * and "copied". */
static zr_status add_report(json_t *root, const zr_report *report)
{
    static const char *const keys[] = {"memory", "traffic", "offload", "copied"};
    ZR_AUTO_FREE char *text = NULL;
    ZR_TRY(zr__report_json(report, &text));
    json_auto_t *all = zr__json_loads(text, 0);
    ZR_CHECK(all, ZR_ERR_MEMORY, "no memory to print a report");
    for (int i = 0; i < 4; i++)
        if (json_object_get(all, keys[i])) (void)json_object_set(root, keys[i], json_object_get(all, keys[i]));
    return ZR_OK;
}

static zr_status print_simulation_json(const simulating *c, const cli_trial *made)
{
    const zr_simulation *s = &made->simulation;
    const zr_cluster *on = &c->target.cluster;
    json_auto_t *root = json_object();
    json_t *exposed = json_object();
    cli_simulated_json(root, made, c->o->tokens);
    cli_json_set_all(root, json_pack("{s:f, s:f, s:f, s:f, s:f}", "pflops_all", s->flops_sec * c->target.ranks / 1e15,
                                     "product_sec", s->product_sec, "memory_sec", s->memory_sec, "launch_sec",
                                     s->launch_sec, "slowest", s->slowest));
    for (int i = 0; i < ZR_CAUSES; i++)
        cli_json_set(exposed, zr__cause_name((zr_cause)i), json_real(s->exposed_sec[i]));
    cli_json_set(root, "exposed", exposed);
    if (s->save.bytes > 0) {
        const bool known = !isnan(s->save.write_sec);
        cli_json_set(root, "save",
                     json_pack("{s:I, s:o, s:o}", "bytes", (json_int_t)s->save.bytes, "write_sec",
                               known ? json_real(s->save.write_sec) : json_null(), "stall_sec",
                               known ? json_real(s->save.stall_sec) : json_null()));
    }
    if (made->roles > 1)
        cli_json_set(root, "pipeline",
                     json_pack("{s:i, s:i, s:f, s:o}", "ranks", made->roles, "fullest_rank", made->fullest_role,
                               "bubble", s->price.bubble_sec / s->price.step_sec, "formula_bubble",
                               isfinite(made->formula_bubble) ? json_real(made->formula_bubble) : json_null()));
    ZR_TRY(add_report(root, &made->report));
    cli_simulated_of(root);
    const zr__system *other = c->target.other.system;
    if (other)
        cli_json_set(root, "system",
                     json_pack("{s:s, s:I, s:I, s:b, s:s}", "name", other->name, "allocated",
                               (json_int_t)made->report.memory.total_bytes, "nvidia_smi", (json_int_t)made->needs_bytes,
                               "fits", (int)made->fits, "compared", other->timed));
    cli_json_set(root, "params", json_integer(made->params));
    cli_json_set(root, "cluster",
                 json_pack("{s:s, s:i, s:i, s:I, s:I, s:f, s:f}", "name", on->name, "devices", on->devices,
                           "host_devices", on->host_devices, "device_bytes", (json_int_t)on->device.memory_bytes,
                           "host_bytes", (json_int_t)on->host_memory_bytes, "kernel_bytes_per_sec",
                           on->device.memory_bytes_sec * on->memory_share, "latency_sec",
                           on->n_links > 0 ? on->link[on->n_links - 1].latency_sec : 0.0));
    return cli_json_put(stdout, root);
}

/* ---- the command ------------------------------------------------------------------------------- */

zr_status cli_simulate_target(const cli_simulate_options *o, const zr_config *config, int ranks, cli_target *target)
{
    *target = (cli_target){
        .ranks = ranks,
        .disk_bytes = cli_brief_disk_bytes(&o->brief),
        .options = {.straggler = o->straggler, .jitter = o->jitter, .seed = o->seed > 0 ? (uint64_t)o->seed : 0}};
    return cli_target_cluster(o->cluster, o->transport, config, target);
}

zr_status cli_simulate_settle(const cli_simulate_options *o, zr_config *config, cli_target *target)
{
    ZR_TRY(cli_target_system(o->system, &o->with, config, target));
    return target->other.system ? cli_settle_place(config, target) : cli_settle(config, target, NULL, NULL);
}

static zr_status show_simulation(simulating *c)
{
    const char *svg = c->o->svg, *model = c->config->model.preset ? c->config->model.preset : c->config->model.type;
    ZR_AUTO(zr__plans_clear) zr_plans plans = {0};
    cli_trial made;
    ZR_TRY(cli_check_outputs(c->config, svg));
    ZR_TRY(cli_simulate_target(c->o, c->config, (int)c->o->ranks, &c->target));
    ZR_TRY(cli_simulate_settle(c->o, c->config, &c->target));
    ZR_TRY(cli_try(&c->target, c->config, &made, svg ? &plans : NULL));
    if (svg) ZR_TRY(cli_target_draw(&c->target, c->config, &plans, model, svg));
    if (c->args->json)
        ZR_TRY(print_simulation_json(c, &made));
    else
        print_simulation(c, &made);
    for (int i = 0; !c->args->quiet && i < zr_config_notes(c->config); i++)
        cli_say("note: %s", zr_config_note(c->config, i));
    return ZR_OK;
}

static void clear_simulating(simulating *c)
{
    cli_target_clear(&c->target);
    zr_config_destroy(&c->config);
}

static zr_status simulate_as_asked(cli_args *args, const cli_simulate_options *o)
{
    char room[CLI_BRIEF_KEYS][256];
    const cli_args typed = *args;
    ZR_AUTO(clear_simulating) simulating c = {.args = args, .o = o};
    ZR_TRY(cli_brief_overrides(&o->brief, args, room));
    if (o->sweep.n) return cli_sweep(args, &typed, o);
    if (o->search) return cli_search_fastest(args, &typed, o);
    ZR_TRY(cli_config(args, (int)o->ranks, (int64_t)time(NULL), &c.config, NULL));
    return show_simulation(&c);
}

static bool sweeps(const cli_simulate_options *o, const char *name)
{
    const size_t length = strlen(name);
    for (int i = 0; i < o->sweep.n; i++)
        if (strncmp(o->sweep.text[i], name, length) == 0 && o->sweep.text[i][length] == '=') return true;
    return false;
}

static zr_status check_simulate_options(const cli_args *args, const cli_simulate_options *o, const zr_comm *comm)
{
    ZR_CHECK(!comm, ZR_ERR_ARG, "`zr simulate` runs in one process; start it without a launcher and give --ranks N");
    if (!sweeps(o, "model.preset")) ZR_TRY(cli_brief_check(&o->brief, args));
    ZR_CHECK(o->cluster, ZR_ERR_ARG,
             "zr simulate needs --cluster NAME or --cluster FILE.json; `zr simulate --help` has examples");
    ZR_CHECK(o->ranks > 0 || sweeps(o, "ranks"), ZR_ERR_ARG,
             "zr simulate needs --ranks N, the number of devices to use");
    const bool other = cli_other_system(o->system);
    const zr__system *system;
    if (other) ZR_TRY(zr__system_find(o->system, &system));
    ZR_CHECK(!other || strcmp(o->cluster, CLI_CLUSTER_THIS) != 0, ZR_ERR_ARG,
             "--system %s simulates runs on a cluster of GPUs; leave out --cluster this", o->system);
    ZR_CHECK(other || !o->with.n, ZR_ERR_ARG, "--with is for another system: give --system NAME too");
    ZR_CHECK(!o->transport || strcmp(o->cluster, CLI_CLUSTER_THIS) == 0, ZR_ERR_ARG,
             "--transport needs --cluster this; give it too, or leave out --transport");
    ZR_CHECK(!o->transport || strcmp(o->transport, "threads") == 0 || strcmp(o->transport, "mpi") == 0, ZR_ERR_ARG,
             "--transport is \"%s\"; expected threads or mpi", o->transport);
    ZR_CHECK(o->straggler <= 1e6, ZR_ERR_ARG, "--straggler is %g; the most is 1e6", o->straggler);
    ZR_CHECK(o->jitter <= 1e6, ZR_ERR_ARG, "--jitter is %g; the most is 1e6", o->jitter);
    ZR_CHECK(o->seed < 0 || o->jitter > 0, ZR_ERR_ARG, "--seed needs --jitter F; give it too, or leave out --seed");
    ZR_CHECK(o->ranks <= INT32_MAX, ZR_ERR_ARG, "--ranks is %lld; the most is %d", (long long)o->ranks, INT32_MAX);
    ZR_CHECK(!o->search || !o->sweep.n, ZR_ERR_ARG, "--search and --sweep cannot be given together; leave out one");
    ZR_CHECK(!o->search || !o->svg, ZR_ERR_ARG,
             "--svg cannot draw a --search; run `zr simulate --svg FILE` with the configuration that the search finds");
    ZR_CHECK(!o->step_tokens || o->search, ZR_ERR_ARG,
             "--step-tokens needs --search; give it too, or leave out --step-tokens");
    ZR_CHECK(!o->plot || (o->sweep.n && o->svg), ZR_ERR_ARG,
             "--plot needs --sweep and --svg FILE; give both, or leave out --plot");
    return ZR_OK;
}

static zr_status run_simulate(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    cli_simulate_options o = {.brief = CLI_BRIEF_INIT, .seed = -1};
    const cli_option options[] = {
        {"cluster", CLI_TEXT, &o.cluster, 0, "NAME|FILE",
         "cluster to simulate: a name, e.g. dgx2x25, a JSON file, or `this` (this machine)"},
        {"ranks", CLI_INT, &o.ranks, 1, "N", "number of ranks, each on its own device"},
        CLI_BRIEF_PRESET(o.brief),
        CLI_BRIEF_OPTIONS(o.brief, CLI_MEMORY_LIMITS),
        CLI_BRIEF_DISK(o.brief, CLI_DISK_SIMULATE),
        {"tokens", CLI_REAL, &o.tokens, 1, "N",
         "number of training tokens, e.g. 300e9: also print how many days they take"},
        {"system", CLI_TEXT, &o.system, 0, "NAME",
         "simulate a run of another training system: deepspeed, fsdp2, ddp, megatron, trainer, nanotron"},
        {"with", CLI_LIST, &o.with, 0, "OPTION=VALUE",
         "with --system: an option of the system by its own name, e.g. overlap_comm=true; may be given several times"},
        {"transport", CLI_TEXT, &o.transport, 0, "KIND",
         "with --cluster this: how the ranks of a host are connected: threads or mpi [threads]"},
        {"straggler", CLI_REAL, &o.straggler, 1, "F", "make rank 0 compute F times slower"},
        {"jitter", CLI_REAL, &o.jitter, 0, "F",
         "make each device compute 1 + F |n| times slower, with n drawn from the normal distribution"},
        {"seed", CLI_INT, &o.seed, 0, "N", "random seed of --jitter [0]"},
        {"svg", CLI_TEXT, &o.svg, 0, "FILE",
         "draw one step over time into this SVG file; with --sweep: draw the results as lines"},
        {"sweep", CLI_LIST, &o.sweep, 0, "KEY=a,b,c",
         "simulate each of these values of a key, or of ranks, batch, stage, tensor or seq, and print CSV; if "
         "repeated, all combinations"},
        {"plot", CLI_TEXT, &o.plot, 0, "NAME", "with --sweep: the column that --svg draws [tflops]"},
        {"search", CLI_FLAG, &o.search, 0, NULL,
         "find the fastest configuration that fits in memory, varying the options that are not given"},
        {"step-tokens", CLI_INT, &o.step_tokens, 1, "N",
         "with --search: most tokens of a step; frees gradient_accumulation_steps"},
        {0}};
    cli_args args = {.command = command->name, .options = options, .keys = true, .max_operands = 1, .recipe = true};
    ZR_TRY(cli_parse_operands(&args, command, NULL, argc, argv));
    if (args.help) return ZR_OK;
    ZR_TRY(check_simulate_options(&args, &o, comm));
    return simulate_as_asked(&args, &o);
}

const cli_command cli_simulate = {
    .name = "simulate",
    .summary = "estimate step time and memory on a cluster",
    .usage = "zr simulate [CONFIG.json] [--key.path=value ...] --cluster NAME|FILE --ranks N [--preset NAME] ...",
    .examples =
        "  zr simulate --preset zero-8b --cluster dgx2x25 --ranks 400 --stage 1 --tensor 4 --batch 24\n"
        "  zr simulate config.json --cluster my-cluster.json --ranks 64 --tokens 300e9\n"
        "  zr simulate --preset zero-8b --cluster dgx2x25 --sweep ranks=16,64,400 --sweep stage=1,2,3 \\\n"
        "      --batch 8 --svg lines.svg >lines.csv\n"
        "  zr simulate --preset zero-100b-125x8192x64 --cluster dgx2x25 --ranks 400 --search\n"
        "  zr simulate --preset llama3-8b --seq 8192 --cluster h100 --ranks 64 --system fsdp2 --with compile=model\n"
        "  zr simulate config.json --cluster this --ranks 2\n",
    .run = run_simulate,
};
