// A program that trains, evaluates and samples as the command `zr` does, and looks on: a run from a configuration.
//
//     own_run CONFIG.json RANKS [--key.path=value ...]
//
// Ranks are threads of this process. Each step's loss goes to stdout as it is made; at the end the mean loss of
// data.val and a text that the weights write. A run that was stopped goes on: give train.output_dir, and run it again.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <zr.h>

typedef struct own_run {
    const zr_config *config;
    zr_train_result result; // of rank 0
} own_run;

static void show_step(void *arg, const zr_train_step *step)
{
    (void)arg;
    printf("step %lld of %lld: loss %.4f, %.0f tokens/s\n", (long long)step->step, (long long)step->steps, step->loss,
           step->tokens_per_sec);
}

static void show_note(void *arg, const char *text)
{
    (void)arg;
    fprintf(stderr, "own_run: %s\n", text);
}

// One rank. zr_train_resume begins at step 0 where the directory holds no checkpoint.
static zr_status train(zr_comm *comm, void *arg)
{
    own_run *own = arg;
    zr_train_result result = {0};
    const zr_observer observer = {.step = show_step, .note = show_note}; // called on rank 0 only
    zr_status st = zr_train_resume(own->config, comm, &observer, &result);
    if (comm->rank == 0) own->result = result;
    return st;
}

static zr_status print_text(void *arg, const char *text, int64_t bytes)
{
    (void)arg;
    fwrite(text, 1, (size_t)bytes, stdout);
    return ZR_OK;
}

static zr_status run(int argc, char **argv)
{
    own_run own = {0};
    zr_config *config = NULL;
    zr_eval_result eval;
    const int ranks = atoi(argv[2]);
    const zr_generate_args sample = {.prompt = "The ", .prompt_bytes = 4, .tokens = 40, .temperature = 0.8};
    zr_status st = zr_config_load(argv[1], (const char *const *)argv + 3, argc - 3, &config);
    if (st == ZR_OK) st = zr_train_prepare(config, ranks, (int64_t)time(NULL));
    own.config = config;
    if (st == ZR_OK) st = zr_comm_threads_run(ranks, train, &own);
    if (st == ZR_OK) printf("trained: loss %.4f in %.1f s\n", own.result.loss, own.result.wall_sec);
    if (st == ZR_OK) st = zr_eval_dir(config->train.output_dir, &(zr_eval_args){0}, &eval);
    if (st == ZR_OK) printf("evaluated: loss %.4f over %lld tokens\n", eval.loss, (long long)eval.tokens);
    if (st == ZR_OK) st = zr_generate(config->train.output_dir, &sample, print_text, NULL);
    if (st == ZR_OK) puts("");
    zr_config_destroy(&config);
    return st;
}

int main(int argc, char **argv)
{
    if (argc >= 3 && run(argc, argv) == ZR_OK) return 0;
    fprintf(stderr, "own_run: %s\n",
            argc < 3 ? "own_run CONFIG.json RANKS [--key.path=value ...]" : zr_error_message());
    return 1;
}
