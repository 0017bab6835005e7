#include "cli/shell/cli.h"
#include "zr/run.h"

#include <math.h>
#include <string.h>

static void print_json(const zr_eval_result *r)
{
    char loss[ZR_NUMBER_BYTES], ppl[ZR_NUMBER_BYTES], bits[ZR_NUMBER_BYTES];
    printf("{\"loss\":%s, \"perplexity\":%s, \"bits_per_byte\":%s, \"tokens\":%lld, \"params\":%lld, \"data\":",
           cli_json_number(r->loss, loss), cli_json_number(r->perplexity, ppl), cli_json_number(r->bits_per_byte, bits),
           (long long)r->tokens, (long long)r->params);
    cli_json_print(stdout, r->data, (int64_t)strlen(r->data));
    printf(", \"seq_length\":%lld, \"stride\":%lld, \"bytes\":", (long long)r->seq, (long long)r->stride);
    if (r->bytes >= 0)
        printf("%lld}\n", (long long)r->bytes);
    else
        printf("null}\n");
}

static void print_text(const zr_eval_result *r)
{
    char bits[48] = "unknown (tokens without a tokenizer)", data[2048];
    if (isfinite(r->bits_per_byte)) snprintf(bits, sizeof(bits), "%.5f", r->bits_per_byte);
    printf("loss           %.6f\nperplexity     %.4f\nbits per byte  %s\ntokens         %lld\ndata           %s\n",
           r->loss, r->perplexity, bits, (long long)r->tokens, zr__text_escape(r->data, data, sizeof(data)));
    if (r->stride < r->seq)
        printf("windows        of %lld tokens, of which the last %lld count\n", (long long)r->seq,
               (long long)r->stride);
}

static zr_status run(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    (void)comm;
    int64_t threads = 0;
    cli_amount_done shown = {.what = "tok"};
    zr_eval_args want = {.progress = cli_show_done, .arg = &shown};
    zr_eval_result result = {0};
    const cli_option options[] = {
        {"data", CLI_TEXT, &want.data, 0, "FILE", "text or token file; a run's own data.val when left out"},
        {"batches", CLI_INT, &want.batches, 1, "N", "the first N batches of data.val only; a batch as in the run"},
        {"stride", CLI_INT, &want.stride, 1, "N",
         "windows overlap: the last N tokens of each count, to the end of the text; 1 is slowest"},
        {"threads", CLI_INT, &threads, 1, "N", "compute threads; all processors when left out"},
        {0}};
    cli_args args = {.command = command->name, .options = options, .max_operands = 1};
    ZR_TRY(cli_parse_operands(&args, command, "a directory", argc, argv));
    if (args.help) return ZR_OK;
    const char *const inputs[] = {args.operand[0], want.data, NULL};
    ZR_TRY(cli_check_stdout(inputs));
    want.threads = (int)threads;
    if (args.quiet || !cli_live()) want.progress = NULL;
    zr_status st = zr_eval_dir(args.operand[0], &want, &result);
    if (want.progress) cli_line_clear();
    ZR_TRY(st);
    if (result.note[0] && !args.quiet) cli_say("note: %s", result.note);
    if (args.json) {
        print_json(&result);
    } else {
        print_text(&result);
    }
    return ZR_OK;
}

const cli_command cli_eval = {
    .name = "eval",
    .summary = "loss, perplexity and bits per byte of trained weights",
    .usage = "zr eval DIR [--data FILE] [--batches N] [--stride N]",
    .examples = "  zr eval runs/name\n"
                "  zr eval runs/name --batches 20                   as the run's own evaluations\n"
                "  zr eval runs/name --data other.txt --json\n"
                "  zr eval gpt2-directory --data tokens.bin\n"
                "  zr eval gpt2-directory --data book.txt --stride 512    each token behind 512 others and more\n",
    .run = run,
    .computes = true,
};
