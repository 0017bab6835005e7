/* `zr tokenize`: convert texts to token files, and train tokenizers. */
#include "cli/shell/line.h"
#include "cli/shell/args.h"
#include "cli/shell/help.h"
#include "cli/shell/message.h"
#include "data/tokenizer/tokenizer.h"
#include "train/tokenizer/tokenize.h"
#include "zr/data.h"

#include <stdio.h>
#include <limits.h>

typedef struct tokenize_options {
    const char *tokenizer, *out, *format, *bad_lines;
    int64_t threads, train;
    bool eot;
    zr__texts_args texts;
} tokenize_options;

enum { UNSAID = -1 };

/* Print the result as JSON. `tokenizer` and `format` are NULL if the command trained a tokenizer. */
static zr_status print_tokenized(const tokenize_options *w, const zr__tokenized *did, const char *tokenizer,
                                 const char *format)
{
    zr__json_out json = {0};
    zr__json_add(&json, "out", w->out);
    if (tokenizer) zr__json_add(&json, "tokenizer", tokenizer);
    zr__json_add_as(&json, "hash", "\"%016llx\"", (unsigned long long)did->hash);
    zr__json_add(&json, "vocab", did->vocab, "texts", w->texts.n, "documents", did->documents, "skipped_lines",
                 did->skipped_lines, "bytes", did->bytes);
    if (format) zr__json_add(&json, "tokens", did->tokens, "format", format, "token_bytes", did->token_bytes);
    return zr__json_write(&json, stdout);
}

static zr_status write_tokens(const cli_args *args, const tokenize_options *w)
{
    zr__tokenized did;
    int format = 0;
    static const char *const formats[] = {"llmc", "nanogpt", NULL};
    if (w->format) ZR_TRY(cli_word("format", w->format, formats, &format));
    zr__tokenize_args want = {.tokenizer = w->tokenizer,
                              .texts = w->texts,
                              .out = w->out,
                              .format = format == 1 ? ZR_TOKENS_NANOGPT : ZR_TOKENS_LLMC,
                              .eot = w->eot,
                              .threads = w->threads < INT_MAX ? (int)w->threads : INT_MAX};
    zr_status st = zr__tokenize(&want, &did);
    if (w->texts.progress) cli_line_clear();
    ZR_TRY(st);
    if (did.note[0] && !args->quiet) cli_say("note: %s", did.note);
    if (args->json) return print_tokenized(w, &did, want.tokenizer, formats[format]);
    if (!args->quiet)
        cli_say("%s: %lld tokens of %d bytes from %s of text, %.2f bytes of text per token; train with "
                "model.vocab_size %lld or more",
                CLI_SHOWN(w->out), (long long)did.tokens, did.token_bytes, ZR_SIZE((double)did.bytes),
                did.tokens ? (double)did.bytes / (double)did.tokens : 0.0, (long long)did.vocab);
    return ZR_OK;
}

static zr_status learn_tokenizer(const cli_args *args, const tokenize_options *w)
{
    zr__tokenized did;
    const zr__tokenize_train_args want = {.texts = w->texts, .out = w->out, .vocab = w->train};
    ZR_CHECK(!w->tokenizer && !w->format && !w->eot && w->threads == 0, ZR_ERR_ARG,
             "--tokenizer, --format, --eot and --threads cannot be given with --train, which trains a new tokenizer");
    zr_status st = zr__tokenize_train(&want, &did);
    if (w->texts.progress) cli_line_clear();
    ZR_TRY(st);
    if (did.note[0] && !args->quiet) cli_say("note: %s", did.note);
    if (args->json) return print_tokenized(w, &did, NULL, NULL);
    if (!args->quiet)
        cli_say("%s: a tokenizer with a vocabulary of %lld tokens, trained on %s of text%s", CLI_SHOWN(w->out),
                (long long)did.vocab, ZR_SIZE((double)did.bytes),
                did.vocab < want.vocab ? "; there are no more pairs to merge" : "");
    return ZR_OK;
}

static zr_status run_tokenize(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    (void)comm;
    tokenize_options w = {.train = UNSAID};
    const cli_option options[] = {
        {"tokenizer", CLI_TEXT, &w.tokenizer, 0, "DIR",
         "tokenizer to use: its directory, its tokenizer.json, or bytes (one token per byte)"},
        {"train", CLI_INT, &w.train, ZR_TOKENIZER_LEAST_VOCAB, "N",
         "train a tokenizer with a vocabulary of N tokens (257 or more); --out names its directory"},
        {"out", CLI_TEXT, &w.out, 0, "PATH", "file to write, or with --train the directory to create; also -o PATH"},
        {"format", CLI_TEXT, &w.format, 0, "NAME",
         "format of the token file: llmc, or nanogpt (uint16 without a header) [llmc]"},
        {"eot", CLI_FLAG, &w.eot, 0, NULL, "put the token " ZR_END_OF_TEXT " or the eos_token between documents"},
        {"text-key", CLI_TEXT, &w.texts.text_key, 0, "KEY", "which member of each JSON record holds the text [text]"},
        {"bad-lines", CLI_TEXT, &w.bad_lines, 0, "error|skip",
         "what to do with a record that has no such text: stop, or skip it [error]"},
        {"as-text", CLI_FLAG, &w.texts.as_text, 0, NULL, "read each file as one text, also JSON records or a table"},
        {"threads", CLI_INT, &w.threads, 1, "N", "number of threads [one per processor]"},
        {0}};
    cli_args args = {.command = command->name, .options = options, .max_operands = ZR_TOKENIZE_TEXTS};
    ZR_TRY(cli_parse_operands(&args, command, NULL, argc, argv));
    if (args.help) return ZR_OK;
    const bool learns = w.train != UNSAID;
    ZR_CHECK(args.n_operands > 0 && (w.tokenizer || learns) && w.out, ZR_ERR_ARG,
             "zr tokenize needs --tokenizer DIR or --train N, one or more texts, and -o PATH; `zr tokenize --help` has "
             "examples");
    ZR_TRY(cli_check_stdout(args.operand));
    int bad_lines = 0;
    cli_amount_done shown = {.what = "B"};
    if (w.bad_lines)
        ZR_TRY(cli_word("bad-lines", w.bad_lines, (const char *const[]){"error", "skip", NULL}, &bad_lines));
    w.texts.path = args.operand;
    w.texts.n = args.n_operands;
    w.texts.skip_bad_lines = bad_lines == 1;
    w.texts.progress = !args.quiet && cli_live() ? cli_show_done : NULL;
    w.texts.arg = &shown;
    return (learns ? learn_tokenizer : write_tokens)(&args, &w);
}

const cli_command cli_tokenize = {
    .name = "tokenize",
    .summary = "turn text into a file of tokens, or train a tokenizer on it",
    .usage = "zr tokenize --tokenizer DIR | --train N  TEXT... -o PATH [--format NAME] [--eot] [--text-key KEY] "
             "[--bad-lines error|skip] [--as-text] [--threads N]",
    .examples = "  zr tokenize --tokenizer gpt2-directory book.txt -o book.bin\n"
                "  zr tokenize --tokenizer gpt2-directory a.txt b.txt --eot -o both.bin\n"
                "  zr tokenize --tokenizer gpt2-directory documents.jsonl --eot -o documents.bin\n"
                "  zr tokenize --tokenizer bytes book.txt --format nanogpt -o book.bin\n"
                "  zr tokenize --train 4096 book.txt -o tokenizer\n",
    .run = run_tokenize,
};
