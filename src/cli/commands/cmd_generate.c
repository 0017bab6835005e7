/* `zr generate`: continue a prompt or answer a conversation with the weights of a directory. */
#include "cli/shell/args.h"
#include "cli/shell/help.h"
#include "cli/shell/message.h"
#include "zr/run.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES_MOST = 1000000 };

typedef struct made_sample {
    zr_generated did;
    int64_t end; /* end of the sample's text, as a byte offset in `sink.text` */
} made_sample;

/** Destination of the generated texts: stdout or, with --json, memory. */
typedef struct sink {
    const zr_generate_args *args;
    bool collect;
    bool shown; /* whether stdout is a terminal */
    bool begun; /* whether the prompt of the current sample has been printed */
    int64_t sample;
    /* with --json: text of all samples so far; on a terminal: received bytes of a character that is still incomplete */
    zr__text text;
    made_sample *made; /* generated samples; only with --json */
} sink;

static zr_status collect_text(sink *s, const char *text, int64_t bytes)
{
    zr__text_append(&s->text, text, (size_t)bytes);
    ZR_CHECK(!s->text.failed, ZR_ERR_MEMORY, "no memory for a text of more than %zu bytes", s->text.length);
    return ZR_OK;
}

/** Return the length in bytes of the UTF-8 character whose first byte is `lead`. */
static int64_t character_bytes(unsigned char lead)
{
    return lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 1;
}

/** Print text on a terminal. Escape each character that the terminal would interpret, in the form \xNN. Keep newlines
 * and tabs. `ends` tells that no more text follows. If the last character is incomplete, print it only if `ends` is
 * set. Return the number of bytes of `text` that were printed. */
static int64_t print_shown(const char *text, int64_t bytes, bool ends)
{
    int64_t at = 0;
    while (at < bytes && (ends || character_bytes((unsigned char)text[at]) <= bytes - at)) {
        const bool space = text[at] == '\n' || text[at] == '\t';
        const int64_t hidden = space ? 0 : zr__text_hidden(text + at, bytes - at);
        const int64_t character = zr__text_utf8(text + at, bytes - at), end = at + (character > 0 ? character : 1);
        for (; at < end; at++) printf(hidden > 0 ? "\\x%02x" : "%c", (unsigned char)text[at]);
    }
    return at;
}

static zr_status print_piece(sink *s, const char *text, int64_t bytes, bool ends)
{
    if (!s->shown) {
        fwrite(text, 1, (size_t)bytes, stdout);
        return ZR_OK;
    }
    ZR_TRY(collect_text(s, text, bytes));
    zr__text_drop(&s->text, (size_t)print_shown(s->text.data, (int64_t)s->text.length, ends));
    return ZR_OK;
}

/* Print the next part of a sample's text. Print the prompt before the first part, unless the text is an answer. */
static zr_status print_out(sink *s, const char *text, int64_t bytes, bool ends)
{
    if (!s->begun) {
        uint64_t seed = s->args->seed + (uint64_t)s->sample;
        if (s->args->samples > 1) printf("%s==> seed %llu <==\n", s->sample ? "\n" : "", (unsigned long long)seed);
        s->begun = true;
        if (!s->args->chat) ZR_TRY(print_piece(s, s->args->prompt, s->args->prompt_bytes, false));
    }
    ZR_TRY(print_piece(s, text, bytes, ends));
    return cli_flush();
}

static zr_status take_text(void *arg, const char *text, int64_t bytes)
{
    sink *s = arg;
    return s->collect ? collect_text(s, text, bytes) : print_out(s, text, bytes, false);
}

static zr_status end_sample(void *arg, const zr_generated *did)
{
    sink *s = arg;
    if (!s->collect) ZR_TRY(print_out(s, "\n", 1, true));
    if (s->collect) s->made[s->sample] = (made_sample){*did, (int64_t)s->text.length};
    s->sample++;
    s->begun = false;
    return ZR_OK;
}

static void add_sample(zr__json_out *json, const sink *s, int64_t i)
{
    const made_sample *made = &s->made[i];
    int64_t begin = i > 0 ? s->made[i - 1].end : 0;
    zr__json_add_bytes(json, "text", s->text.data ? s->text.data + begin : "", made->end - begin);
    zr__json_add(json, "tokens", made->did.tokens);
    zr__json_add_as(json, "seed", "%llu", (unsigned long long)made->did.seed);
    zr__json_add_bool(json, "stopped", made->did.stopped);
}

static zr_status print_samples(const sink *s)
{
    zr__json_out json = {0};
    zr__json_add_bytes(&json, "prompt", s->args->prompt, s->args->prompt_bytes);
    add_sample(&json, s, 0);
    zr__json_open(&json, "samples", '[');
    for (int64_t i = 0; i < s->sample; i++) {
        zr__json_open(&json, NULL, '{');
        add_sample(&json, s, i);
        zr__json_close(&json, '}');
    }
    zr__json_close(&json, ']');
    return zr__json_write(&json, stdout);
}

static void clear_sink(sink *s)
{
    zr__text_clear(&s->text);
    zr_free(s->made);
}

static zr_status generate_samples(const char *dir, const zr_generate_args *args, bool json)
{
    ZR_AUTO(clear_sink) sink s = {.args = args, .collect = json, .shown = !json && isatty(STDOUT_FILENO)};
    if (json) {
        s.made = zr_alloc((size_t)args->samples * sizeof(*s.made));
        ZR_CHECK(s.made, ZR_ERR_MEMORY, "no memory for %lld samples", (long long)args->samples);
    }
    ZR_TRY(zr_generate(dir, args, take_text, &s));
    return json ? print_samples(&s) : ZR_OK;
}

/** Set how tokens are drawn. An option that was not given is negative. Replace it by the directory's setting if `own`
 * is set, otherwise by the default. */
static zr_status settle_sampling(const char *dir, bool own, zr_generate_args *want)
{
    zr_sampling usual = {.temperature = 0.8, .top_p = 1};
    if (own) ZR_TRY(zr_sampling_of_dir(dir, &usual));
    if (want->temperature < 0) want->temperature = usual.temperature;
    if (want->top_k < 0) want->top_k = usual.top_k;
    if (want->top_p < 0) want->top_p = usual.top_p;
    ZR_CHECK(want->top_p > 0.0 && want->top_p <= 1.0, ZR_ERR_ARG,
             "--top-p is %g; expected a number above 0 and at most 1", want->top_p);
    return ZR_OK;
}

static zr_status run_generate(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    (void)comm;
    int64_t seed = 1234, threads = 0;
    cli_list stop = {0};
    zr_generate_args want = {
        .prompt = "", .tokens = 200, .temperature = -1, .top_k = -1, .top_p = -1, .samples = 1, .done = end_sample};
    bool own = false;
    const cli_option options[] = {
        {"prompt", CLI_TEXT, &want.prompt, 0, "TEXT", "the text to continue"},
        {"tokens", CLI_INT, &want.tokens, 0, "N", "number of tokens to generate [200]"},
        {"temperature", CLI_REAL, &want.temperature, 0, "X",
         "sampling temperature; 0 always takes the likeliest token [0.8]"},
        {"top-k", CLI_INT, &want.top_k, 0, "K", "sample only among the K likeliest tokens; 0: among all [0]"},
        {"top-p", CLI_REAL, &want.top_p, 0, "P",
         "sample only among the likeliest tokens whose probabilities add up to P; 1: among all [1]"},
        {"stop", CLI_LIST, &stop, 0, "TEXT",
         "stop before this text; if given several times, before the first of the texts"},
        {"past-end", CLI_FLAG, &want.past_end, 0, NULL, "go on after a token that ends a text (eos_token_id of DIR)"},
        {"chat", CLI_FLAG, &want.chat, 0, NULL,
         "the prompt is a message to the model: put it into the chat template of DIR, and print the answer"},
        {"system", CLI_TEXT, &want.system, 0, "TEXT", "with --chat: the system prompt"},
        {"chat-template", CLI_TEXT, &want.chat_template, 0, "NAME",
         "with --chat: the template's form, as for the key data.chat_template [of the run, or of DIR]"},
        {"own-settings", CLI_FLAG, &own, 0, NULL,
         "take temperature, top-k and top-p from generation_config.json in DIR, if they are not given"},
        {"samples", CLI_INT, &want.samples, 1, "N", "number of texts to generate, with the seeds S, S+1, S+2 ... [1]"},
        {"seed", CLI_INT, &seed, 0, "S", "random seed; the same seed gives the same text [1234]"},
        {"threads", CLI_INT, &threads, 1, "N", "number of compute threads [one per processor]"},
        {0}};
    cli_args args = {.command = command->name, .options = options, .max_operands = 1};
    ZR_TRY(cli_parse_operands(&args, command, "a directory", argc, argv));
    if (args.help) return ZR_OK;
    ZR_TRY(settle_sampling(args.operand[0], own, &want));
    ZR_CHECK(want.chat || (!want.system && !want.chat_template), ZR_ERR_ARG, "%s needs --chat",
             want.system ? "--system" : "--chat-template");
    ZR_CHECK(want.samples <= SAMPLES_MOST, ZR_ERR_ARG, "--samples is %lld; the most is %d", (long long)want.samples,
             SAMPLES_MOST);
    ZR_TRY(cli_check_stdout((const char *const[]){args.operand[0], NULL}));
    want.prompt_bytes = (int64_t)strlen(want.prompt);
    want.seed = (uint64_t)seed;
    want.threads = (int)threads;
    want.stop = stop.text;
    want.n_stop = stop.n;
    return generate_samples(args.operand[0], &want, args.json);
}

const cli_command cli_generate = {
    .name = "generate",
    .summary = "continue a text with trained weights",
    .usage = "zr generate DIR [--prompt TEXT] [--chat] [--tokens N] [--temperature X] [--top-k K] [--top-p P] [--stop "
             "TEXT] [--samples N] [--seed S]",
    .examples = "  zr generate runs/name --prompt 'In the beginning'\n"
                "  zr generate runs/name --prompt 'And' --tokens 500 --temperature 0.7 --top-k 40\n"
                "  zr generate runs/name --prompt 'Q:' --top-p 0.9 --stop 'Q:' --samples 3\n"
                "  zr generate runs/name --temperature 0 --json\n"
                "  zr generate qwen2.5-directory --chat --prompt 'Who was Ada Lovelace?' --own-settings\n",
    .run = run_generate,
    .computes = true,
};
