/* cli/commands: one file for each sub-command of `zr`. A command reads its options, calls the library, and prints the
 * result for people or as JSON.
 *
 * `zr train`: train a model, or resume a run. */
#include "cli/runs/runs.h"
#include "cli/runs/sweep.h"
#include "cli/shell/config.h"
#include "cli/shell/help.h"
#include "cli/shell/message.h"
#include "cli/shell/process.h"
#include "cli/draw/curve.h"
#include "cli/plan/brief.h"
#include "comm/comm.h"
#include "config/config.h"
#include "train/dir/report.h"
#include "train/setup/setup.h"
#include "zr/run.h"

#include <stdio.h>
#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DATA_BYTES (PATH_MAX + 16)

/** Values of the command line options, except for configuration keys given as --key.path=value. */
typedef struct watch_options {
    cli_brief brief;
    const char *data;
    bool resume;
    const char *max_time; /* text of --max-time, such as "90m" */
    double end_sec;       /* time at which the run must end, in seconds by zr_clock_sec; 0 without a limit */
    bool timings;
    zr_trace trace;
    const char *trace_steps; /* text of --trace-steps, such as "1:20" */
    cli_list sweep;
} watch_options;

typedef struct train_job {
    const zr_config *config;
    bool resume;
    zr_observer observer;
    zr_train_result result; /* result of rank 0 or, under MPI, of this process's rank */
    char message[2048];     /* error message of rank 0 */
} train_job;

static zr_status train_rank(zr_comm *comm, void *arg)
{
    train_job *j = arg;
    zr_train_result result = {0};
    zr_status st = (j->resume ? zr_train_resume : zr_train_run)(j->config, comm, &j->observer, &result);
    if (comm->rank == 0 || strcmp(comm->transport, "mpi") == 0) j->result = result;
    if (st != ZR_OK && comm->rank == 0) snprintf(j->message, sizeof(j->message), "%s", zr_error_message());
    return st;
}

/** Keep a process whose ranks are threads within the memory that zr promises (zr__process_bytes). malloc caches freed
 * blocks, such as buffers of matrix products: up to about 8 MiB per rank. The caches may take 3 % of the planned memory
 * plus 24 MiB, half of the 48 MiB that the promise adds to the plan. If the caches could take more, make malloc return
 * blocks of 256 KiB and more to the system when they are freed. Otherwise keep the caches, because without them steps
 * are about 10 % slower. */
static void keep_promise(const zr_plan *plan)
{
#ifdef M_MMAP_THRESHOLD
    const double kept = 8 << 20, spare = 24 << 20;
    double ranks = plan->ranks;
    if (ranks * kept > spare + 0.03 * ranks * (double)plan->memory.total_bytes) mallopt(M_MMAP_THRESHOLD, 256 << 10);
#else
    (void)plan;
#endif
}

static void begin_training(void *arg, const zr_train_info *info)
{
    if (strcmp(info->comm->transport, "threads") == 0) keep_promise(info->plan);
    cli_signals_training(true);
    cli_progress_observer(arg).start(arg, info);
}

/** Train without a launcher: with a single rank, or with ranks that are threads. If all ranks agreed on a failure,
 * report rank 0's error message. */
static zr_status train_here(int ranks, train_job *j)
{
    zr_status st = cli_ranks_run(ranks, train_rank, j);
    return st != ZR_OK && ranks > 1 && j->result.agreed ? ZR_FAIL(st, "%s", j->message) : st;
}

/** Train under a launcher. If only this rank fails, end all ranks, because the other ranks would wait for it forever.
 * */
static zr_status train_mpi(zr_comm *comm, train_job *j)
{
    zr_status st = train_rank(comm, j);
    if (st != ZR_OK && !j->result.agreed && comm->size > 1) cli_end_world(comm, st);
    return st;
}

/** Check --trace-steps and the destination of stdout, to report a mistake before the run rather than after it. */
static zr_status check_run(const watch_options *watch, const zr_config *config)
{
    const char *inputs[ZR_CONFIG_INPUTS + 1];
    ZR_CHECK(!watch->trace_steps || watch->trace.first_step <= config->train.steps, ZR_ERR_ARG,
             "--trace-steps is \"%s\", but the run has only %lld step%s (train.steps), so the trace would be empty",
             watch->trace_steps, (long long)config->train.steps, config->train.steps == 1 ? "" : "s");
    zr__config_inputs(config, inputs);
    return cli_check_stdout(inputs);
}

/** Load the configuration of a run to resume. */
static zr_status resumed_config(const cli_args *args, int ranks, zr_config **config)
{
    ZR_AUTO(zr_config_destroy) zr_config *read = NULL;
    ZR_TRY(cli_config_load(args, &read));
    ZR_TRY(zr__train_go_on(read));
    ZR_TRY(zr_train_prepare(read, ranks, 0));
    *config = ZR_TAKE(read);
    return ZR_OK;
}

static zr_status load_run(const cli_args *args, const watch_options *watch, zr_comm *comm, int ranks,
                          zr_config **config, bool *own_dir)
{
    double now = (double)time(NULL); /* all ranks use rank 0's time, so that all derive the same directory name */
    if (comm) ZR_TRY(zr_comm_scalars(comm, &now, 1, NULL));
    const int64_t unix_sec = (int64_t)(comm ? comm->table[0] : now);
    zr_status st =
        watch->resume ? resumed_config(args, ranks, config) : cli_config(args, ranks, unix_sec, config, own_dir);
    if (st == ZR_OK) st = check_run(watch, *config);
    if (comm) st = zr_comm_agree(comm, st);
    return st == ZR_OK && *own_dir ? cli_own_dir_make(*config, comm) : st;
}

static zr_status print_run_json(const zr_config *config, const zr_train_result *result, const zr_timings *timings)
{
    ZR_AUTO_FREE char *json = NULL;
    ZR_TRY(zr__result_json(config, result, timings->steps > 0 ? timings : NULL, &json));
    puts(json);
    return ZR_OK;
}

static void say_done(const zr_config *config, const zr_train_result *result)
{
    char val[64] = "";
    if (isfinite(result->val_loss)) snprintf(val, sizeof(val), ", val_loss %.5f", result->val_loss);
    cli_say("%lld step%s in %.1f s, loss %.5f%s; %s%s", (long long)result->steps, result->steps == 1 ? "" : "s",
            result->wall_sec, result->loss, val, result->saved ? "the weights are in " : "no model/ was written",
            result->saved ? CLI_SHOWN(result->model_dir) : "");
    if (config->train.keep_best && result->best_step > 0)
        cli_say("the weights of the lowest val_loss, %.5f after step %lld, are in %s/best", result->best_val_loss,
                (long long)result->best_step, CLI_SHOWN(config->train.output_dir));
}

/** Clear the progress line, and draw the loss picture for the last time, on rank 0. If the run has failed and drawing
 * fails too, restore the run's error message. */
static zr_status end_watch(const cli_progress *progress, cli_loss *loss, zr_status st)
{
    char why[2048];
    snprintf(why, sizeof(why), "%s", zr_error_message());
    cli_progress_end(progress);
    cli_loss_end(loss);
    return st == ZR_OK || strcmp(why, zr_error_message()) == 0 ? st : ZR_FAIL(st, "%s", why);
}

static zr_status train_all(const cli_args *args, const watch_options *watch, zr_comm *comm, int ranks)
{
    ZR_AUTO(zr_config_destroy) zr_config *config = NULL;
    cli_loss loss = {.curve = NULL};
    cli_progress progress = {.quiet = args->quiet,
                             .color = cli_colored(args->color, STDERR_FILENO),
                             .timed = watch->timings,
                             .loss = &loss,
                             .comm = comm};
    bool own_dir = false;
    ZR_TRY(load_run(args, watch, comm, ranks, &config, &own_dir));
    train_job j = {.config = config, .resume = watch->resume, .observer = cli_progress_observer(&progress)};
    j.observer.start = begin_training;
    j.observer.stop = cli_signals_asked;
    j.observer.save = cli_signals_save;
    j.observer.end_sec = watch->end_sec;
    j.observer.trace = watch->trace;
    j.observer.hang = cli_hang;
    j.observer.reached = cli_faults.reached;
    cli_signals_peers(comm, cli_exit_code(ZR_ERR_PEER));
    cli_signals_catch(!args->quiet && (!comm || comm->rank == 0), progress.live);
    zr_status st = comm ? train_mpi(comm, &j) : train_here(ranks, &j);
    cli_signals_training(false);
    cli_signals_peers(NULL, 0);
    bool first = !comm || comm->rank == 0;
    if (st != ZR_OK && first && own_dir) cli_own_dir_drop(config);
    if (first) st = end_watch(&progress, &loss, st);
    if (st == ZR_OK && first && !args->quiet) say_done(config, &j.result);
    if (st == ZR_OK && first && args->json) st = print_run_json(config, &j.result, &progress.timings);
    if (st == ZR_OK && first && !args->quiet && watch->sweep.n == 0) cli_next_say(config, &j.result);
    return st;
}

/** Arguments common to all runs of a sweep. */
typedef struct swept_job {
    const watch_options *watch;
    zr_comm *comm;
} swept_job;

static zr_status train_swept(void *arg, const cli_args *args, int ranks)
{
    const swept_job *j = arg;
    return train_all(args, j->watch, j->comm, ranks);
}

static zr_status sweep_all(const cli_args *args, const cli_args *typed, const watch_options *watch, zr_comm *comm,
                           int64_t ranks)
{
    const swept_job job = {watch, comm};
    const cli_sweeping sweeping = {.args = args,
                                   .typed = typed,
                                   .brief = &watch->brief,
                                   .sweep = &watch->sweep,
                                   .ranks = ranks,
                                   .resume = watch->resume,
                                   .comm = comm,
                                   .unix_sec = (int64_t)time(NULL),
                                   .train = train_swept,
                                   .arg = (void *)&job};
    return cli_sweep_train(&sweeping);
}

static zr_status parse_train(cli_args *args, watch_options *watch, const int64_t *ranks, const zr_comm *comm, int argc,
                             char **argv)
{
    ZR_TRY(cli_parse(args, argc, argv));
    if (args->help) return ZR_OK;
    ZR_TRY(cli_brief_check(&watch->brief, args));
    ZR_CHECK(!watch->sweep.n || !watch->trace.path, ZR_ERR_ARG,
             "--trace is for one run, and --sweep starts several; leave out one of the two");
    ZR_CHECK(args->n_operands == 1 || !watch->resume || watch->sweep.n, ZR_ERR_ARG,
             "--resume needs a CONFIG.json: give the config.json in the run's directory");
    ZR_CHECK(!comm || !*ranks, ZR_ERR_ARG, "--ranks is %lld, but the launcher started %d ranks; leave out --ranks",
             (long long)*ranks, comm ? comm->size : 0);
    ZR_CHECK(*ranks <= ZR_TRAIN_MOST_THREADS, ZR_ERR_ARG, "--ranks is %lld; at most %d ranks can run as threads",
             (long long)*ranks, ZR_TRAIN_MOST_THREADS);
    ZR_CHECK(watch->trace.path || !watch->trace_steps, ZR_ERR_ARG,
             "--trace-steps needs --trace FILE; give it too, or leave out --trace-steps");
    if (watch->trace_steps) {
        int used = 0;
        long long first = 0, last = 0;
        bool read =
            sscanf(watch->trace_steps, "%18lld:%18lld%n", &first, &last, &used) == 2 && !watch->trace_steps[used];
        ZR_CHECK(read && first >= 1 && last >= first, ZR_ERR_ARG,
                 "--trace-steps is \"%s\"; expected the first and the last training step, counted from 1, e.g. 1:20",
                 watch->trace_steps);
        watch->trace.first_step = first;
        watch->trace.last_step = last;
    }
    if (!watch->max_time) return ZR_OK;
    double begin = zr_clock_sec();
    ZR_TRY(cli_duration("max-time", watch->max_time, &watch->end_sec));
    watch->end_sec += begin;
    return ZR_OK;
}

/** Add overrides for options that stand for configuration keys, such as data.train=FILE for --data FILE. The texts of
 * the overrides are stored in `room` and `data`. */
static zr_status add_keys(cli_args *args, const watch_options *watch, char room[CLI_BRIEF_KEYS][256],
                          char data[DATA_BYTES])
{
    ZR_TRY(cli_brief_overrides(&watch->brief, args, room));
    if (!watch->data) return ZR_OK;
    int n = snprintf(data, DATA_BYTES, "data.train=%s", watch->data);
    ZR_CHECK(n < DATA_BYTES && args->n_overrides < CLI_MAX_OVERRIDES, ZR_ERR_ARG, "--data: the path is too long");
    args->override[args->n_overrides++] = data;
    return ZR_OK;
}

static zr_status run_train(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    int64_t ranks = 0;
    char room[CLI_BRIEF_KEYS][256], data[DATA_BYTES];
    watch_options watch = {.brief = CLI_BRIEF_INIT, .trace = {NULL, 1, 20}};
    watch.brief.chooses = true;
    const cli_option options[] = {
        {"ranks", CLI_INT, &ranks, 1, "N", "number of ranks to run, as threads of this process"},
        {"preset", CLI_TEXT, &watch.brief.preset, 0, "NAME",
         "named model shape, e.g. gpt2-124m, with training settings for its size (`zr plan --shapes` lists them)"},
        {"data", CLI_TEXT, &watch.data, 0, "FILE", "text or token file to train on (key data.train)"},
        CLI_BRIEF_OPTIONS(watch.brief, CLI_MEMORY_CHOOSES),
        CLI_BRIEF_DISK(watch.brief, CLI_DISK_TRAIN),
        {"resume", CLI_FLAG, &watch.resume, 0, NULL, "continue the run in train.output_dir from its newest checkpoint"},
        {"max-time", CLI_TEXT, &watch.max_time, 0, "TIME",
         "time limit, e.g. 90m or 3h: save a checkpoint and stop in time (exit code 75)"},
        {"sweep", CLI_LIST, &watch.sweep, 0, "KEY=a,b,c",
         "train with each of these values of a key, or of ranks, batch, stage, tensor or seq, one run after the other, "
         "each in its own folder of train.output_dir, and compare them; if repeated, all combinations"},
        {"timings", CLI_FLAG, &watch.timings, 0, NULL, "print at the end how the time of a step was spent"},
        {"trace", CLI_TEXT, &watch.trace.path, 0, "FILE",
         "write a timeline of all ranks into this file, for the viewer Perfetto"},
        {"trace-steps", CLI_TEXT, &watch.trace_steps, 0, "FIRST:LAST", "with --trace: training steps to record [1:20]"},
        {0}};
    cli_args args = {.command = command->name, .options = options, .keys = true, .max_operands = 1, .recipe = true};
    zr_status st = parse_train(&args, &watch, &ranks, comm, argc, argv);
    const cli_args typed = args;
    if (st == ZR_OK && !args.help) st = add_keys(&args, &watch, room, data);
    /* Let all ranks agree on the status. A launcher may give different arguments to different ranks, so parsing may
     * have failed on some ranks only. */
    if (comm) st = zr_comm_agree(comm, st);
    if (comm && st == ZR_OK) st = zr__comm_same(comm, "--help", args.help);
    ZR_TRY(st);
    if (args.help) return !comm || comm->rank == 0 ? cli_help(command, &args) : ZR_OK;
    if (comm) cli_leave_binding();
    if (watch.sweep.n) return sweep_all(&args, &typed, &watch, comm, ranks);
    return train_all(&args, &watch, comm, comm ? comm->size : ranks ? (int)ranks : 1);
}

const cli_command cli_train = {
    .name = "train",
    .summary = "train a model",
    .usage = "zr train [CONFIG.json] [--key.path=value ...] [--preset NAME] [--data FILE] [--ranks N] [--resume] "
             "[--max-time TIME] [--sweep KEY=a,b,c] [--timings] [--trace FILE]",
    .examples = "  zr train config.json\n"
                "  zr train config.json --ranks 2 --zero_optimization.stage=3\n"
                "  zr train --preset smollm2-135m --seq 1024 --data book.txt --data.tokenizer=DIR --memory 8GB\n"
                "  zr train --preset gpt2-1.5b --data book.txt --memory 8GB --disk 200GB "
                "--zero_optimization.offload_optimizer.nvme_path=/local_nvme\n"
                "  zr train --model.init=DIR --data talks.jsonl --seq 1024\n"
                "  mpirun -n 4 zr train config.json --train.steps=100 --train.output_dir=runs/first\n"
                "  zr train runs/first/config.json --resume --train.steps=200\n"
                "  zr train config.json --train.output_dir=runs/lr --sweep optimizer.params.lr=1e-4,3e-4,1e-3\n"
                "  zr train config.json --train.steps=10 --timings --trace trace.json\n",
    .run = run_train,
    .computes = true,
    .all_ranks = true,
};
