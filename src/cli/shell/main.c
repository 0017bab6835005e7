/** zr: the main function of the command. This file alone runs the sub-commands, and starts and stops MPI under a
 * launcher. It turns the status of a sub-command into an exit code. */
#include "base/text/text.h"
#include "cli/shell/message.h"
#include "cli/shell/process.h"
#include "cli/shell/reference.h"
#include "comm/comm.h"

#include <stdio.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const cli_command *const commands[] = {
    &cli_train,   &cli_plan, &cli_eval,     &cli_generate,       &cli_plot,     &cli_inspect, &cli_verify,
    &cli_convert, &cli_info, &cli_simulate, &cli_report_command, &cli_tokenize, &cli_init};
#define N_COMMANDS (int)(sizeof(commands) / sizeof(commands[0]))

cli_fault_hooks cli_faults;

const cli_exit cli_exits[CLI_EXITS] = {{0, ZR_OK, "done"},
                                       {1, ZR_ERR_INTERNAL, "an internal error of zr"},
                                       {2, ZR_ERR_ARG, "usage"},
                                       {65, ZR_ERR_DATA, "bad data"},
                                       {66, ZR_ERR_NOT_FOUND, "an input is missing"},
                                       {69, ZR_ERR_UNSUPPORTED, "not available"},
                                       {71, ZR_ERR_MEMORY, "out of memory, or beyond memory.limit"},
                                       {73, ZR_ERR_CREATE, "an output cannot be created"},
                                       {74, ZR_ERR_IO, "reading or writing failed"},
                                       {75, ZR_ERR_STOPPED, "stopped on request, with a checkpoint"},
                                       {78, ZR_ERR_CONFIG, "bad configuration"},
                                       {80, ZR_ERR_DIVERGED, "diverged"},
                                       {82, ZR_ERR_HANG, "a rank hangs"},
                                       {83, ZR_ERR_PEER, "a rank has ended unexpectedly"}};

int cli_exit_code(zr_status status)
{
    if (status == ZR_ERR_COMM) status = ZR_ERR_PEER;
    for (int i = 0; i < CLI_EXITS; i++)
        if (cli_exits[i].status == status) return cli_exits[i].code;
    return cli_exit_code(ZR_ERR_INTERNAL);
}

void cli_end_world(zr_comm *comm, zr_status st)
{
    const bool lost = st == ZR_ERR_PEER || st == ZR_ERR_COMM;
    /* The cause of a lost peer is on another rank. Give that rank time to report it, and to end this process too. */
    if (lost) nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    /* Claim the right to report why the job ends, so that no other rank reports merely the loss of this rank. */
    const bool claimed = zr__comm_claim_telling(comm);
    if (claimed || !lost)
        cli_say_error();
    else
        nanosleep(&(struct timespec){.tv_sec = 10}, NULL); /* the reporting rank ends this process */
    zr_comm_abort(comm, cli_exit_code(st));
}

static void print_help(void)
{
    printf("zr %s: trains transformer language models with ZeRO\n\nExamples\n"
           "  zr train examples/tiny.json --ranks 2\n"
           "  zr plan --preset gpt2-1.5b --ranks 64 --cluster dgx-h100x8\n"
           "  zr generate runs/name --prompt 'In the beginning'\n\nCommands\n",
           zr_version());
    for (int i = 0; i < N_COMMANDS; i++) printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
    printf("\n`zr help COMMAND` explains a command, and `zr help keys WORD` the keys of a configuration about a word.\n"
           "`zr --version` prints the version.\n");
}

/** Words that people try as commands, and the commands that exist for them. */
static const char *const instead[][2] = {{"chat", "zr generate DIR --chat --prompt TEXT"},
                                         {"sample", "zr generate DIR --prompt TEXT"},
                                         {"infer", "zr generate DIR --prompt TEXT"},
                                         {"resume", "zr train RUN/config.json --resume"},
                                         {"finetune", "zr train --model.init=DIR --data FILE"},
                                         {"fine-tune", "zr train --model.init=DIR --data FILE"},
                                         {"test", "zr eval DIR --data FILE"},
                                         {"export", "zr convert RUN DIR"},
                                         {"merge", "zr convert RUN DIR"},
                                         {"bench", "zr info --bench"}};

static zr_status find_command(const char *name, const cli_command **command)
{
    const char *names[N_COMMANDS];
    for (int i = 0; i < N_COMMANDS; i++) {
        names[i] = commands[i]->name;
        if (strcmp(name, names[i]) != 0) continue;
        *command = commands[i];
        return ZR_OK;
    }
    for (size_t i = 0; i < sizeof(instead) / sizeof(instead[0]); i++)
        ZR_CHECK(strcmp(name, instead[i][0]) != 0, ZR_ERR_ARG, "unknown command \"%s\"; `%s` does that", name,
                 instead[i][1]);
    const char *near = zr__text_nearest(name, names, N_COMMANDS);
    if (near) return ZR_FAIL(ZR_ERR_ARG, "unknown command \"%s\"; did you mean \"%s\"?", name, near);
    return ZR_FAIL(ZR_ERR_ARG, "unknown command \"%s\"; `zr --help` lists the commands", name);
}

/** Return whether this process is rank 0 according to the launcher's environment variables. The variables are needed if
 * MPI cannot start. Call this function before MPI starts: under the launcher of a different MPI, MPI makes every
 * process rank 0 of its own job. */
static bool launched_first(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *rank = getenv(names[i]);
        if (rank) return strcmp(rank, "0") == 0;
    }
    return true;
}

static zr_status run_command(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    zr_status st = ZR_OK;
    bool works = !comm || comm->rank == 0 || command->all_ranks;
    if (works) st = command->run(command, comm, argc, argv);
    /* Report a shortage of memory even after success, because a result may be incomplete or misread. */
    zr_status shortage = works && st != ZR_ERR_MEMORY ? cli_alloc_check() : ZR_OK;
    if (comm) shortage = zr_comm_agree(comm, shortage);
    if (shortage != ZR_OK) st = shortage;
    if (st == ZR_OK && works) st = cli_flush();
    if (st == ZR_ERR_IO && cli_reader_left()) st = ZR_OK;
    if (comm) st = zr_comm_agree(comm, st); /* a rank that failed alone has ended the job (cli_end_world) */
    if (st != ZR_OK && (!comm || comm->rank == 0)) cli_say_error();
    return st;
}

/** Check that all ranks run the same command. A launcher may give different arguments to different ranks, which would
 * then wait for each other forever. */
static zr_status same_command(zr_comm *comm, const cli_command *command)
{
    uint64_t number = 0;
    while (commands[number] != command) number++;
    zr_status st = zr__comm_same(comm, "the command", number);
    if (st != ZR_OK && comm->rank == 0) cli_say_error();
    return st;
}

/** Run a command. Under a launcher, only one process prints an error message, and all processes return the same status.
 * */
static zr_status start_command(int argc, char **argv)
{
    const cli_command *command = NULL;
    zr_comm *comm = NULL;
    bool first = launched_first();
    zr_status st = find_command(argv[1], &command);
    if (st == ZR_OK && command->computes) cli_set_process();
    /* call cli_faults.begin only after cli_set_process, which may restart the program */
    if (st == ZR_OK && cli_faults.begin) st = cli_faults.begin();
    if (st == ZR_OK && zr_comm_mpi_launched() > 0) st = zr_comm_mpi_start(&argc, &argv, &comm);
    if (st != ZR_OK) {
        if (first) cli_say_error();
        /* Wait for rank 0's message. The launcher would end rank 0 if this process ended first. */
        if (st != ZR_ERR_COMM) zr_comm_mpi_stop();
        return st;
    }
    if (comm) st = same_command(comm, command);
    if (st == ZR_OK) st = run_command(command, comm, argc - 2, argv + 2);
    if (comm) {
        zr_comm_destroy(&comm);
        zr_comm_mpi_stop();
    }
    return st;
}

/** Open every closed standard stream on /dev/null. Otherwise the next opened file would get the stream's number, and
 * printed text would go into that file. Open each stream in the wrong direction, so that using it still fails with a
 * message. */
static void occupy_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) return;
}

int main(int argc, char **argv)
{
    occupy_streams();
    cli_alloc_begin();
    signal(SIGPIPE, SIG_IGN);
    /* Let a write beyond the file size limit return an error, instead of ending the process. */
    signal(SIGXFSZ, SIG_IGN);
    const char *word = argc > 1 ? argv[1] : "";
    if (argc < 2) {
        cli_say("no command was given; `zr --help` lists the commands");
        return cli_exit_code(ZR_ERR_ARG);
    }
    const bool help = !strcmp(word, "-h") || !strcmp(word, "--help") || !strcmp(word, "help");
    zr_status st = ZR_OK;
    if (help && argc == 3 && !strcmp(argv[2], "help")) {
        print_help();
    } else if (help && argc > 2 && !strcmp(argv[2], "keys")) {
        st = cli_help_keys(argv + 3, argc - 3);
    } else if (help && argc > 2 && argv[2][0] != '-') { /* run `zr help train WORD` as `zr train --help WORD` */
        static char option[] = "--help";
        argv[1] = argv[2];
        argv[2] = option;
        return cli_exit_code(start_command(argc, argv));
    } else if (help && argc > 2) {
        st = cli_reference(commands, N_COMMANDS, argc - 2, argv + 2);
    } else if (help) {
        print_help();
    } else if (!strcmp(word, "--version") || !strcmp(word, "-V") || !strcmp(word, "version")) {
        printf("zr %s\n", zr_version());
    } else {
        return cli_exit_code(start_command(argc, argv));
    }
    if (st == ZR_OK && cli_flush() != ZR_OK && !cli_reader_left()) st = ZR_ERR_IO;
    if (st != ZR_OK) cli_say_error();
    return cli_exit_code(st);
}
