#include "cli/cli.h"

#include <limits.h>
#include <string.h>

/* Of the command line; zr_tokenize's arguments, and what they are made of. */
typedef struct wanted {
    const char *tokenizer, *out, *format;
    int64_t threads;
    bool eot;
} wanted;

static zr_status read_format(const char *name, zr_tokens_format *format)
{
    *format = strcmp(name, "nanogpt") == 0 ? ZR_TOKENS_NANOGPT : ZR_TOKENS_LLMC;
    ZR_CHECK(*format == ZR_TOKENS_NANOGPT || strcmp(name, "llmc") == 0, ZR_ERR_ARG,
             "--format is \"%s\"; llmc or nanogpt was wanted", name);
    return ZR_OK;
}

static void print_json(const zr_tokenize_args *args, const zr_tokenized *did, const char *format)
{
    printf("{\"out\":");
    cli_json_print(stdout, args->out, (int64_t)strlen(args->out));
    printf(", \"tokenizer\":");
    cli_json_print(stdout, args->tokenizer, (int64_t)strlen(args->tokenizer));
    printf(", \"hash\":\"%016llx\", \"vocab\":%lld, \"texts\":%d, \"bytes\":%lld, \"tokens\":%lld, \"format\":\"%s\", "
           "\"token_bytes\":%d}\n",
           (unsigned long long)did->hash, (long long)did->vocab, args->n_texts, (long long)did->bytes,
           (long long)did->tokens, format, did->token_bytes);
}

static zr_status tokenize(const cli_args *args, const wanted *w, zr_tokenize_args *want)
{
    zr_tokenized did;
    cli_amount_done shown = {.what = "B"};
    char out[PATH_MAX], size[32];
    bool show = !args->quiet && cli_live();
    if (show) want->progress = cli_show_done;
    want->arg = &shown;
    zr_status st = zr_tokenize(want, &did);
    if (show) cli_line_clear();
    ZR_TRY(st);
    if (did.note[0] && !args->quiet) cli_say("note: %s", did.note);
    if (args->json)
        print_json(want, &did, w->format);
    else if (!args->quiet)
        cli_say(
            "%s: %lld tokens of %d bytes from %s of text, %.2f bytes a token; model.vocab_size is to be %lld or more",
            zr__text_escape(want->out, out, sizeof(out)), (long long)did.tokens, did.token_bytes,
            cli_bytes((double)did.bytes, size), did.tokens ? (double)did.bytes / (double)did.tokens : 0.0,
            (long long)did.vocab);
    return ZR_OK;
}

static zr_status run(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    (void)comm;
    wanted w = {.format = "llmc"};
    const cli_option options[] = {
        {"tokenizer", CLI_TEXT, &w.tokenizer, 0, "DIR", "directory of a tokenizer, a tokenizer.json, or bytes"},
        {"out", CLI_TEXT, &w.out, 0, "FILE", "the file to write, also -o"},
        {"format", CLI_TEXT, &w.format, 0, "NAME", "llmc or nanogpt (uint16 without a header) [llmc]"},
        {"eot", CLI_FLAG, &w.eot, 0, NULL, "the token <|endoftext|> between texts"},
        {"threads", CLI_INT, &w.threads, 1, "N", "threads [as many as processors]"},
        {0}};
    cli_args args = {.command = command->name, .options = options, .max_operands = ZR_TOKENIZE_TEXTS};
    ZR_TRY(cli_parse(&args, argc, argv));
    if (args.help) {
        cli_help(command, options, false);
        return ZR_OK;
    }
    ZR_CHECK(args.n_operands > 0 && w.tokenizer && w.out, ZR_ERR_ARG,
             "zr tokenize needs --tokenizer DIR, one or more texts, and -o FILE; `zr tokenize --help` has examples");
    zr_tokenize_args want = {.tokenizer = w.tokenizer,
                             .text = args.operand,
                             .n_texts = args.n_operands,
                             .out = w.out,
                             .eot = w.eot,
                             .threads = w.threads < INT_MAX ? (int)w.threads : INT_MAX};
    ZR_TRY(read_format(w.format, &want.format));
    ZR_TRY(cli_check_stdout(args.operand));
    return tokenize(&args, &w, &want);
}

const cli_command cli_tokenize = {
    .name = "tokenize",
    .summary = "text to a file of tokens",
    .usage = "zr tokenize --tokenizer DIR TEXT... -o FILE [--format NAME] [--eot] [--threads N]",
    .examples = "  zr tokenize --tokenizer gpt2-directory book.txt -o book.bin\n"
                "  zr tokenize --tokenizer gpt2-directory a.txt b.txt --eot -o both.bin\n"
                "  zr tokenize --tokenizer bytes book.txt --format nanogpt -o book.bin\n",
    .run = run,
};
