#include "cli/cli.h"

#include <string.h>

/** Where the text goes: to stdout behind the prompt, or collected for --json. */
typedef struct sink {
    bool collect;
    const char *prompt; /* not yet printed; nothing is before the weights have been read */
    char *text;
    int64_t bytes, room;
} sink;

static zr_status collect(sink *s, const char *text, int64_t bytes)
{
    if (s->bytes + bytes > s->room) {
        int64_t room = 2 * (s->bytes + bytes) + 256;
        char *more = zr_alloc((size_t)room);
        ZR_CHECK(more, ZR_ERR_MEMORY, "no memory for a text of %lld bytes", (long long)room);
        if (s->text) memcpy(more, s->text, (size_t)s->bytes);
        zr_free(s->text);
        s->text = more;
        s->room = room;
    }
    memcpy(s->text + s->bytes, text, (size_t)bytes);
    s->bytes += bytes;
    return ZR_OK;
}

static zr_status emit(void *arg, const char *text, int64_t bytes)
{
    sink *s = arg;
    if (s->collect) return collect(s, text, bytes);
    if (s->prompt) fputs(s->prompt, stdout);
    s->prompt = NULL;
    fwrite(text, 1, (size_t)bytes, stdout);
    return cli_flush();
}

static void print_json(const zr_generate_args *args, const sink *s)
{
    printf("{\"prompt\":");
    cli_json_print(stdout, args->prompt, args->prompt_bytes);
    printf(", \"text\":");
    cli_json_print(stdout, s->text ? s->text : "", s->bytes);
    printf(", \"tokens\":%lld, \"seed\":%llu}\n", (long long)args->tokens, (unsigned long long)args->seed);
}

static zr_status generate(const char *dir, const zr_generate_args *args, bool json)
{
    sink s = {.collect = json, .prompt = args->prompt};
    zr_status st = zr_generate(dir, args, emit, &s);
    if (st == ZR_OK && json) print_json(args, &s);
    if (st == ZR_OK && !json) st = emit(&s, "\n", 1);
    zr_free(s.text);
    return st;
}

static zr_status run(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    (void)comm;
    const char *prompt = "";
    int64_t tokens = 200, top_k = 0, seed = 1234, threads = 0;
    double temperature = 0.8;
    const cli_option options[] = {
        {"prompt", CLI_TEXT, &prompt, 0, "TEXT", "the text to continue"},
        {"tokens", CLI_INT, &tokens, 0, "N", "tokens to add [200]"},
        {"temperature", CLI_REAL, &temperature, 0, "X", "0: always the likeliest token [0.8]"},
        {"top-k", CLI_INT, &top_k, 0, "K", "choose among the K likeliest, 0: all [0]"},
        {"seed", CLI_INT, &seed, 0, "S", "the same seed gives the same text [1234]"},
        {"threads", CLI_INT, &threads, 1, "N", "compute threads; all processors when left out"},
        {0}};
    cli_args args = {.command = command->name, .options = options, .max_operands = 1};
    ZR_TRY(cli_parse_operands(&args, command, "a directory", argc, argv));
    if (args.help) return ZR_OK;
    const char *const inputs[] = {args.operand[0], NULL};
    ZR_TRY(cli_check_stdout(inputs));
    zr_generate_args want = {.prompt = prompt,
                             .prompt_bytes = (int64_t)strlen(prompt),
                             .tokens = tokens,
                             .temperature = temperature,
                             .top_k = top_k,
                             .seed = (uint64_t)seed,
                             .threads = (int)threads};
    return generate(args.operand[0], &want, args.json);
}

const cli_command cli_generate = {
    .name = "generate",
    .summary = "continue a text with trained weights",
    .usage = "zr generate DIR [--prompt TEXT] [--tokens N] [--temperature X] [--top-k K] [--seed S]",
    .examples = "  zr generate runs/name --prompt 'In the beginning'\n"
                "  zr generate runs/name --prompt 'And' --tokens 500 --temperature 0.7 --top-k 40\n"
                "  zr generate runs/name --temperature 0 --json\n",
    .run = run,
    .computes = true,
};
