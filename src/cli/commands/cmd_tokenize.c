/* `zr tokenize`: convert texts to token files, and train tokenizers. */
#include "cli/shell/line.h"
#include "cli/shell/args.h"
#include "cli/shell/help.h"
#include "cli/shell/message.h"
#include "data/samples/samples.h"
#include "data/text/chat.h"
#include "data/tokenizer/tokenizer.h"
#include "train/tokenizer/tokenize.h"
#include "zr/data.h"

#include <stdio.h>
#include <limits.h>

typedef struct tokenize_options {
    const char *tokenizer, *out, *format, *bad_lines, *loss_on;
    int64_t threads, train, show;
    bool eot;
    zr__texts_args texts;
    zr_data_args data; /* with `show`: how to read records */
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

/* Return whether the loss counts token i of a record. The first token is never predicted. */
static bool counts(const int32_t *token, int64_t i)
{
    return i > 0 && !(token[i] & ZR__IGNORED);
}

/* Append a text in quotes, escaped as JSON, with \n for line ends. */
static void add_quoted(zr__text *out, const char *text, int64_t bytes)
{
    char escape[ZR_JSON_ESCAPE_BYTES];
    int64_t escaped = 0;
    zr__text_add(out, "\"");
    for (int64_t at = 0; at < bytes; at += escaped) {
        const int64_t plain = zr__text_json(text + at, bytes - at, escape, &escaped);
        zr__text_append(out, text + at, (size_t)plain);
        at += plain;
        zr__text_add(out, "%s", at < bytes && text[at] == '\n' ? "\\n" : escape);
    }
    zr__text_add(out, "\"");
}

/* Print a record: lines of text, with "+" before lines whose tokens count. */
static zr_status print_record(const zr_tokenizer *tokenizer, int64_t record, const int32_t *token, int64_t n)
{
    int64_t counted = 0, bytes = 0;
    const char *spelled = NULL;
    for (int64_t i = 0; i < n; i++) counted += counts(token, i);
    printf("record %lld: %lld tokens, of which %lld count (+)\n", (long long)record + 1, (long long)n,
           (long long)counted);
    for (int64_t i = 0, end; i < n; i = end) {
        ZR_AUTO(zr__text_clear) zr__text text = {0}, shown = {0};
        for (end = i; end < n && counts(token, end) == counts(token, i); end++) {
            ZR_TRY(zr_tokenizer_decode(tokenizer, token[end] & ~ZR__IGNORED, &spelled, &bytes));
            zr__text_append(&text, spelled, (size_t)bytes);
        }
        add_quoted(&shown, text.data ? text.data : "", (int64_t)text.length);
        ZR_CHECK(!text.failed && !shown.failed, ZR_ERR_MEMORY, "no memory to show a record");
        printf("%c %s\n", counts(token, i) ? '+' : ' ', shown.data);
    }
    return ZR_OK;
}

/* Print the numbers of a record's tokens, and which count, as JSON. */
static zr_status print_record_json(int64_t record, const int32_t *token, int64_t n)
{
    ZR_AUTO(zr__text_clear) zr__text ids = {0}, which = {0};
    zr__json_out json = {0};
    for (int64_t i = 0; i < n; i++) {
        zr__text_add(&ids, "%s%d", i ? "," : "[", token[i] & ~ZR__IGNORED);
        zr__text_add(&which, "%s%d", i ? "," : "[", counts(token, i));
    }
    zr__text_add(&ids, "%s", n ? "]" : "[]");
    zr__text_add(&which, "%s", n ? "]" : "[]");
    ZR_CHECK(!ids.failed && !which.failed, ZR_ERR_MEMORY, "no memory to show a record");
    zr__json_add(&json, "record", record + 1);
    zr__json_add_json(&json, "ids", ids.data);
    zr__json_add_json(&json, "counts", which.data);
    return zr__json_write(&json, stdout);
}

/* Show the tokens of a file's first records, as a run would get them, and which tokens count. */
static zr_status show_records(const cli_args *args, const tokenize_options *w)
{
    ZR_AUTO(zr_tokenizer_close) zr_tokenizer *tokenizer = NULL;
    ZR_AUTO(zr_data_close) zr_data *data = NULL;
    ZR_AUTO_FREE int32_t *token = NULL;
    int64_t room = 0, n = 0;
    zr_data_args how = w->data;
    ZR_CHECK(w->tokenizer && w->texts.n == 1 && !w->out && !w->format && !w->eot, ZR_ERR_ARG,
             "--show needs --tokenizer DIR and one file of records, and writes no file");
    ZR_TRY(zr_tokenizer_open(w->tokenizer, &tokenizer));
    how.path = w->texts.path[0];
    how.tokenizer = w->tokenizer;
    how.vocab_size = zr_tokenizer_vocab(tokenizer);
    how.seq_length = 1;
    how.packing = ZR_PACK_ONE;
    how.text_key = w->texts.text_key;
    how.skip_bad_lines = w->texts.skip_bad_lines;
    how.as_text = w->texts.as_text;
    how.progress = w->texts.progress;
    how.arg = w->texts.arg;
    zr_status st = zr_data_open_with(&how, &data);
    if (w->texts.progress) cli_line_clear();
    ZR_TRY(st);
    const zr_data_info info = zr_data_get_info(data);
    if (info.form[0] && !args->quiet) cli_say("note: %s", info.form);
    if (info.note[0] && !args->quiet) cli_say("note: %s", info.note);
    for (int64_t i = 0; i < w->show && i < info.documents; i++) {
        ZR_TRY(zr__data_document(data, i, &token, &room, &n));
        ZR_TRY(args->json ? print_record_json(i, token, n) : print_record(tokenizer, i, token, n));
    }
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
        {"show", CLI_INT, &w.show, 1, "N",
         "show the tokens of the first N records as a run would read them, and which of them the loss counts"},
        {"loss-on", CLI_TEXT, &w.loss_on, 0, "NAME", "with --show: answers, last or all, as data.loss_on [answers]"},
        {"columns", CLI_TEXT, &w.data.columns, 0, "JSON", "with --show: names of members, as data.columns"},
        {"chat-template", CLI_TEXT, &w.data.chat_template, 0, "NAME", "with --show: as data.chat_template [auto]"},
        {"chat-template-kwargs", CLI_TEXT, &w.data.chat_template_kwargs, 0, "JSON",
         "with --show: as data.chat_template_kwargs"},
        {0}};
    cli_args args = {.command = command->name, .options = options, .max_operands = ZR_TOKENIZE_TEXTS};
    ZR_TRY(cli_parse_operands(&args, command, NULL, argc, argv));
    if (args.help) return ZR_OK;
    const bool learns = w.train != UNSAID;
    ZR_CHECK(args.n_operands > 0 && (w.tokenizer || learns) && (w.out || w.show), ZR_ERR_ARG,
             "zr tokenize needs --tokenizer DIR or --train N, one or more texts, and -o PATH; `zr tokenize --help` has "
             "examples");
    ZR_TRY(cli_check_stdout(args.operand));
    int bad_lines = 0, loss_on = 0;
    cli_amount_done shown = {.what = "B"};
    if (w.bad_lines)
        ZR_TRY(cli_word("bad-lines", w.bad_lines, (const char *const[]){"error", "skip", NULL}, &bad_lines));
    if (w.loss_on)
        ZR_TRY(cli_word("loss-on", w.loss_on, (const char *const[]){"answers", "last", "all", NULL}, &loss_on));
    w.data.loss_on = (zr_data_loss_on)loss_on;
    ZR_CHECK(w.show || !(w.loss_on || w.data.columns || w.data.chat_template || w.data.chat_template_kwargs),
             ZR_ERR_ARG, "--loss-on, --columns, --chat-template and --chat-template-kwargs need --show N");
    ZR_CHECK(!w.show || !learns, ZR_ERR_ARG, "--show cannot be given with --train");
    w.texts.path = args.operand;
    w.texts.n = args.n_operands;
    w.texts.skip_bad_lines = bad_lines == 1;
    w.texts.progress = !args.quiet && cli_live() ? cli_show_done : NULL;
    w.texts.arg = &shown;
    return (w.show ? show_records : learns ? learn_tokenizer : write_tokens)(&args, &w);
}

const cli_command cli_tokenize = {
    .name = "tokenize",
    .summary = "turn text into a file of tokens, or train a tokenizer on it",
    .usage = "zr tokenize --tokenizer DIR | --train N  TEXT... -o PATH | --show N  [--format NAME] [--eot] "
             "[--text-key KEY] [--bad-lines error|skip] [--as-text] [--threads N]",
    .examples = "  zr tokenize --tokenizer gpt2-directory book.txt -o book.bin\n"
                "  zr tokenize --tokenizer gpt2-directory a.txt b.txt --eot -o both.bin\n"
                "  zr tokenize --tokenizer gpt2-directory documents.jsonl --eot -o documents.bin\n"
                "  zr tokenize --tokenizer bytes book.txt --format nanogpt -o book.bin\n"
                "  zr tokenize --tokenizer qwen3-directory talks.jsonl --show 3\n"
                "  zr tokenize --train 4096 book.txt -o tokenizer\n",
    .run = run_tokenize,
};
