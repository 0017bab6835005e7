#include "cli/shell/cli.h"
#include "zr/data.h"
#include "data/tokenizer/tokenizer.h"
#include "train/tokenizer/tokenize.h"

#include <limits.h>
#include <string.h>

/* Options of the command line, from which the arguments of the library's functions are made. */
typedef struct wanted {
    const char *tokenizer, *out, *format, *text_key, *bad_lines;
    int64_t threads, train;
    bool eot;
} wanted;

enum { UNSAID = -1 };

static zr_status read_format(const char *name, zr__tokens_format *format)
{
    *format = name && strcmp(name, "nanogpt") == 0 ? ZR_TOKENS_NANOGPT : ZR_TOKENS_LLMC;
    ZR_CHECK(!name || *format == ZR_TOKENS_NANOGPT || strcmp(name, "llmc") == 0, ZR_ERR_ARG,
             "--format is \"%s\"; llmc or nanogpt was wanted", name);
    return ZR_OK;
}

/* Read --bad-lines, for damaged lines of .jsonl texts. */
static zr_status read_bad_lines(const char *name, bool *skip)
{
    *skip = name && strcmp(name, "skip") == 0;
    ZR_CHECK(!name || *skip || strcmp(name, "error") == 0, ZR_ERR_ARG,
             "--bad-lines is \"%s\"; error or skip was wanted", name);
    return ZR_OK;
}

/* Print the figures of the texts that were read, as members of a JSON object. */
static void print_read(int texts, const zr__tokenized *did)
{
    printf("\"hash\":\"%016llx\", \"vocab\":%lld, \"texts\":%d, \"documents\":%lld, \"skipped_lines\":%lld, "
           "\"bytes\":%lld",
           (unsigned long long)did->hash, (long long)did->vocab, texts, (long long)did->documents,
           (long long)did->skipped_lines, (long long)did->bytes);
}

static void print_json(const zr__tokenize_args *args, const zr__tokenized *did)
{
    const char *format = args->format == ZR_TOKENS_NANOGPT ? "nanogpt" : "llmc";
    printf("{\"out\":");
    cli_json_print(stdout, args->out, (int64_t)strlen(args->out));
    printf(", \"tokenizer\":");
    cli_json_print(stdout, args->tokenizer, (int64_t)strlen(args->tokenizer));
    printf(", ");
    print_read(args->n_texts, did);
    printf(", \"tokens\":%lld, \"format\":\"%s\", \"token_bytes\":%d}\n", (long long)did->tokens, format,
           did->token_bytes);
}

/* Return the progress callback, NULL without a terminal. */
static zr_progress_fn progress_of(const cli_args *args)
{
    return !args->quiet && cli_live() ? cli_show_done : NULL;
}

static zr_status tokenize(const cli_args *args, const wanted *w)
{
    zr__tokenized did;
    cli_amount_done shown = {.what = "B"};
    char out[PATH_MAX], size[32];
    zr__tokenize_args want = {.tokenizer = w->tokenizer,
                              .text = args->operand,
                              .n_texts = args->n_operands,
                              .out = w->out,
                              .eot = w->eot,
                              .threads = w->threads < INT_MAX ? (int)w->threads : INT_MAX,
                              .progress = progress_of(args),
                              .arg = &shown,
                              .text_key = w->text_key};
    ZR_TRY(read_format(w->format, &want.format));
    ZR_TRY(read_bad_lines(w->bad_lines, &want.skip_bad_lines));
    zr_status st = zr__tokenize(&want, &did);
    if (want.progress) cli_line_clear();
    ZR_TRY(st);
    if (did.note[0] && !args->quiet) cli_say("note: %s", did.note);
    if (args->json)
        print_json(&want, &did);
    else if (!args->quiet)
        cli_say(
            "%s: %lld tokens of %d bytes from %s of text, %.2f bytes a token; model.vocab_size is to be %lld or more",
            zr__text_escape(want.out, out, sizeof(out)), (long long)did.tokens, did.token_bytes,
            cli_bytes((double)did.bytes, size), did.tokens ? (double)did.bytes / (double)did.tokens : 0.0,
            (long long)did.vocab);
    return ZR_OK;
}

static void print_learned(const zr__tokenize_train_args *args, const zr__tokenized *did)
{
    printf("{\"out\":");
    cli_json_print(stdout, args->out, (int64_t)strlen(args->out));
    printf(", ");
    print_read(args->n_texts, did);
    printf("}\n");
}

static zr_status train(const cli_args *args, const wanted *w)
{
    zr__tokenized did;
    cli_amount_done shown = {.what = "B"};
    char out[PATH_MAX], size[32];
    zr__tokenize_train_args want = {.text = args->operand,
                                    .n_texts = args->n_operands,
                                    .out = w->out,
                                    .vocab = w->train,
                                    .progress = progress_of(args),
                                    .arg = &shown,
                                    .text_key = w->text_key};
    ZR_CHECK(!w->tokenizer && !w->format && !w->eot && w->threads == 0, ZR_ERR_ARG,
             "--train learns a tokenizer from texts and takes none of --tokenizer, --format, --eot and --threads");
    ZR_TRY(read_bad_lines(w->bad_lines, &want.skip_bad_lines));
    zr_status st = zr__tokenize_train(&want, &did);
    if (want.progress) cli_line_clear();
    ZR_TRY(st);
    if (did.note[0] && !args->quiet) cli_say("note: %s", did.note);
    if (args->json)
        print_learned(&want, &did);
    else if (!args->quiet)
        cli_say("%s: a tokenizer of %lld tokens, learned from %s of text%s",
                zr__text_escape(want.out, out, sizeof(out)), (long long)did.vocab, cli_bytes((double)did.bytes, size),
                did.vocab < want.vocab ? "; there are no more pairs to merge" : "");
    return ZR_OK;
}

static zr_status run(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    (void)comm;
    wanted w = {.train = UNSAID};
    const cli_option options[] = {
        {"tokenizer", CLI_TEXT, &w.tokenizer, 0, "DIR", "directory of a tokenizer, a tokenizer.json, or bytes"},
        {"train", CLI_INT, &w.train, ZR_TOKENIZER_LEAST_VOCAB, "N",
         "learn a tokenizer of N tokens, from 257 on, into the directory -o"},
        {"out", CLI_TEXT, &w.out, 0, "PATH", "the file to write, with --train the new directory; also -o"},
        {"format", CLI_TEXT, &w.format, 0, "NAME", "llmc or nanogpt (uint16 without a header) [llmc]"},
        {"eot", CLI_FLAG, &w.eot, 0, NULL, "the token " ZR_END_OF_TEXT " between documents"},
        {"text-key", CLI_TEXT, &w.text_key, 0, "KEY",
         "the member of each line of a .jsonl file that is its text [text]"},
        {"bad-lines", CLI_TEXT, &w.bad_lines, 0, "error|skip",
         "lines of a .jsonl file without such a text: end, or leave them out [error]"},
        {"threads", CLI_INT, &w.threads, 1, "N", "threads [as many as processors]"},
        {0}};
    cli_args args = {.command = command->name, .options = options, .max_operands = ZR_TOKENIZE_TEXTS};
    ZR_TRY(cli_parse(&args, argc, argv));
    if (args.help) {
        cli_help(command, options, CLI_KEYS_NONE);
        return ZR_OK;
    }
    const bool learns = w.train != UNSAID;
    ZR_CHECK(args.n_operands > 0 && (w.tokenizer || learns) && w.out, ZR_ERR_ARG,
             "zr tokenize needs --tokenizer DIR or --train N, one or more texts, and -o PATH; `zr tokenize --help` has "
             "examples");
    ZR_TRY(cli_check_stdout(args.operand));
    return learns ? train(&args, &w) : tokenize(&args, &w);
}

const cli_command cli_tokenize = {
    .name = "tokenize",
    .summary = "text to a file of tokens, or to a tokenizer",
    .usage = "zr tokenize --tokenizer DIR | --train N  TEXT... -o PATH [--format NAME] [--eot] [--text-key KEY] "
             "[--bad-lines error|skip] [--threads N]",
    .examples = "  zr tokenize --tokenizer gpt2-directory book.txt -o book.bin\n"
                "  zr tokenize --tokenizer gpt2-directory a.txt b.txt --eot -o both.bin\n"
                "  zr tokenize --tokenizer gpt2-directory documents.jsonl --eot -o documents.bin\n"
                "  zr tokenize --tokenizer bytes book.txt --format nanogpt -o book.bin\n"
                "  zr tokenize --train 4096 book.txt -o tokenizer\n",
    .run = run,
};
