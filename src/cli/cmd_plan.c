#include "cli/cli.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct plan_options {
    const char *preset, *memory;
    int64_t stage, batch, seq, ranks, tensor;
    bool schedule;
} plan_options;

/** What the short options mean in terms of the configuration's keys. */
static zr_status add_overrides(const plan_options *o, cli_args *args, char room[8][256])
{
    int n = 0;
    bool alone = args->n_operands == 0;
    if (o->preset) ZR_TRY(cli_override(args, room[n++], "model.preset=\"%s\"", o->preset));
    if (alone) ZR_TRY(cli_override(args, room[n++], "bf16.enabled=true"));
    if (alone) ZR_TRY(cli_override(args, room[n++], "optimizer.type=\"AdamW\""));
    if (o->batch || alone) {
        long long batch = o->batch ? o->batch : 1;
        ZR_TRY(cli_override(args, room[n++], "train_micro_batch_size_per_gpu=%lld", batch));
    }
    if (o->stage >= 0) ZR_TRY(cli_override(args, room[n++], "zero_optimization.stage=%lld", (long long)o->stage));
    if (o->seq) ZR_TRY(cli_override(args, room[n++], "data.seq_length=%lld", (long long)o->seq));
    if (o->tensor) ZR_TRY(cli_override(args, room[n++], "parallel.tensor=%lld", (long long)o->tensor));
    return ZR_OK;
}

static void print_text(const zr_config *config, int ranks, const zr_profile *profile, int64_t memory_bytes, bool color)
{
    char params[32];
    cli_table table = {.memory_bytes = memory_bytes};
    cli_table_fill(&table, config, ranks, profile);
    const zr_report *report = &table.report[table.chosen];
    printf(
        "parameters: %s, %s, %d rank%s, batch %lld x %lld tokens a rank, %lld micro-batch%s a step; scratch as on %s\n",
        cli_amount((double)report->params, params), config->bf16 ? "bf16" : "fp32", ranks, ranks == 1 ? "" : "s",
        (long long)config->micro_batch_size, (long long)config->data.seq_length, (long long)config->accumulation_steps,
        config->accumulation_steps == 1 ? "" : "es", profile->name);
    cli_table_print(stdout, &table, color);
}

static zr_status print(const cli_args *args, const plan_options *o, const zr_config *config, int ranks,
                       const zr_profile *profile, int64_t memory_bytes)
{
    zr_plan *plan = NULL;
    char *json = NULL;
    ZR_TRY(zr_train_plan(config, ranks, -1, profile, &plan));
    zr_report report = zr_report_planned(plan);
    zr_status st = ZR_OK;
    if (args->json) {
        ZR_TRY_GOTO(st, zr_report_json(&report, &json), done);
        puts(json);
    } else if (o->schedule) {
        cli_schedule_print(stdout, plan);
    } else {
        print_text(config, ranks, profile, memory_bytes, args->color == CLI_COLOR_ALWAYS);
    }
    for (int i = 0; !args->quiet && i < zr_config_notes(config); i++) cli_say("note: %s", zr_config_note(config, i));
done:
    zr_free(json);
    zr_plan_destroy(&plan);
    return st;
}

/** The profile of this machine's processor, for a rank's share of it. */
static zr_status profile_here(const zr_config *config, int ranks, zr_profile *profile)
{
    zr_device *device = NULL;
    zr_device_config want = ZR_DEVICE_CONFIG_INIT;
    want.threads = zr_train_threads(config, ranks);
    ZR_TRY(zr_device_create_cpu(&want, &device));
    *profile = device->profile;
    zr_device_destroy(&device);
    return ZR_OK;
}

static zr_status plan(cli_args *args, const plan_options *o, int ranks)
{
    char room[8][256];
    zr_config *config = NULL;
    zr_profile profile;
    int64_t memory_bytes = 0;
    zr_status st = ZR_OK;
    if (o->memory) ZR_TRY(zr_config_bytes(o->memory, &memory_bytes));
    ZR_TRY(add_overrides(o, args, room));
    ZR_TRY(cli_config(args, ranks, (int64_t)time(NULL), &config));
    ZR_TRY_GOTO(st, profile_here(config, ranks, &profile), done);
    ZR_TRY_GOTO(st, print(args, o, config, ranks, &profile, memory_bytes), done);
done:
    zr_config_destroy(&config);
    return st;
}

static zr_status run(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    plan_options o = {.stage = -1};
    const cli_option options[] = {
        {"ranks", CLI_INT, &o.ranks, 1, "N", "data-parallel ranks, any number"},
        {"preset", CLI_TEXT, &o.preset, 0, "NAME", "a known shape, as gpt2-1.5b; CONFIG.json may then be left out"},
        {"stage", CLI_INT, &o.stage, 0, "S", "ZeRO stage 0-3"},
        {"batch", CLI_INT, &o.batch, 1, "B", "samples of a micro-batch on each rank"},
        {"seq", CLI_INT, &o.seq, 1, "T", "tokens of a sample"},
        {"memory", CLI_TEXT, &o.memory, 0, "SIZE", "say which stages fit, as 32GB"},
        {"schedule", CLI_FLAG, &o.schedule, 0, NULL, "print the steps of one training step instead"},
        {"tensor", CLI_INT, &o.tensor, 1, "M", "tensor-parallel ranks"},
        {"max", CLI_NOT_BUILT, NULL, 0, NULL, NULL},
        {"svg", CLI_NOT_BUILT, NULL, 0, NULL, NULL},
        {"profile", CLI_NOT_BUILT, NULL, 0, NULL, NULL},
        {0}};
    cli_args args = {.command = command->name, .options = options, .keys = true, .max_operands = 1};
    ZR_TRY(cli_parse(&args, argc, argv));
    if (args.help) {
        cli_help(command, options, true);
        return ZR_OK;
    }
    ZR_CHECK(args.n_operands || o.preset, ZR_ERR_ARG,
             "zr plan needs a CONFIG.json or --preset NAME; `zr plan --help` has examples");
    ZR_CHECK(!comm || !o.ranks, ZR_ERR_ARG,
             "--ranks %lld was given under a launcher that started %d ranks; leave --ranks out", (long long)o.ranks,
             comm ? comm->size : 0);
    ZR_CHECK(o.ranks <= INT32_MAX, ZR_ERR_ARG, "--ranks %lld; at most %d", (long long)o.ranks, INT32_MAX);
    return plan(&args, &o, comm ? comm->size : o.ranks ? (int)o.ranks : 1);
}

const cli_command cli_plan = {
    .name = "plan",
    .summary = "memory, traffic and FLOPs of one step, before anything is allocated",
    .usage = "zr plan [CONFIG.json] [--key.path=value ...] [--ranks N] [--preset NAME] ...",
    .examples = "  zr plan config.json --ranks 8\n"
                "  zr plan --preset gpt2-1.5b --ranks 64 --memory 32GB\n"
                "  zr plan config.json --stage 3 --json\n"
                "  zr plan config.json --schedule\n",
    .run = run,
};
