/* `zr eval`: measure the loss of trained weights, or the accuracy of their labels and answers. */
#include "base/paths/output.h"
#include "cli/shell/line.h"
#include "cli/shell/args.h"
#include "cli/shell/help.h"
#include "cli/shell/message.h"
#include "zr/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static zr_status print_eval_json(const zr_eval_result *r)
{
    zr__json_out json = {0};
    zr__json_add(&json, "loss", r->loss, "perplexity", r->perplexity, "bits_per_byte", r->bits_per_byte, "tokens",
                 r->tokens, "params", r->params, "data", r->data);
    zr__json_add(&json, "seq_length", r->seq, "stride", r->stride);
    for (int t = 0; t < r->terms; t++) zr__json_add(&json, r->term[t].name, r->term[t].loss);
    if (isfinite(r->masked_lm_accuracy)) zr__json_add(&json, "masked_lm_accuracy", r->masked_lm_accuracy);
    if (isfinite(r->accuracy)) zr__json_add(&json, "accuracy", r->accuracy, "samples", r->samples);
    if (isfinite(r->precision))
        zr__json_add(&json, "precision", r->precision, "recall", r->recall, "f1", r->f1, "entities", r->entities);
    else if (isfinite(r->f1))
        zr__json_add(&json, "exact_match", r->exact, "f1", r->f1, "samples", r->samples);
    if (r->lack >= 0)
        zr__json_add(&json, "HasAns_exact", r->has_exact, "HasAns_f1", r->has_f1, "NoAns_exact", r->no_exact,
                     "NoAns_total", r->lack, "best_f1", r->best_f1, "best_f1_thresh", r->best_threshold);
    if (r->bytes >= 0)
        zr__json_add(&json, "bytes", r->bytes);
    else
        zr__json_add_json(&json, "bytes", NULL);
    return zr__json_write(&json, stdout);
}

/* Print the results of the loss terms of a model with several terms. */
static void print_terms(const zr_eval_result *r)
{
    printf("loss           %.6f\n", r->loss);
    for (int t = 0; t < r->terms; t++)
        printf("%-14s %.6f, of %lld losses\n", r->term[t].name, r->term[t].loss, (long long)r->term[t].counted);
    if (isfinite(r->masked_lm_accuracy))
        printf("accuracy       %.4f, of %lld masked tokens\n", r->masked_lm_accuracy, (long long)r->tokens);
    printf("perplexity     %.4f, of %s\ndata           %s\n", r->perplexity, r->term[0].name, CLI_SHOWN(r->data));
}

/* Print the scores of labels or answers. Return whether there are any. */
static bool print_scores(const zr_eval_result *r)
{
    if (isfinite(r->precision))
        printf("loss           %.6f\nprecision      %.4f\nrecall         %.4f, of %lld entities\nF1             %.4f\n"
               "accuracy       %.4f, of %lld words\n",
               r->loss, r->precision, r->recall, (long long)r->entities, r->f1, r->accuracy, (long long)r->samples);
    else if (isfinite(r->accuracy))
        printf("loss           %.6f\naccuracy       %.4f, of %lld samples\n", r->loss, r->accuracy,
               (long long)r->samples);
    else if (isfinite(r->f1))
        printf("loss           %.6f\nexact match    %.4f %%, of %lld questions\nF1             %.4f %%\n", r->loss,
               r->exact, (long long)r->samples, r->f1);
    else
        return false;
    if (r->lack >= 0)
        printf("with answer    exact match %.4f %%, F1 %.4f %%, of %lld questions\n"
               "without        exact match %.4f %%, of %lld questions\n"
               "best F1        %.4f %%, with --null-threshold %.6g\n",
               r->has_exact, r->has_f1, (long long)(r->samples - r->lack), r->no_exact, (long long)r->lack, r->best_f1,
               r->best_threshold);
    printf("data           %s\n", CLI_SHOWN(r->data));
    return true;
}

static void print_eval(const zr_eval_result *r)
{
    char bits[48] = "unknown (tokens without a tokenizer)";
    if (isfinite(r->bits_per_byte)) snprintf(bits, sizeof(bits), "%.5f", r->bits_per_byte);
    if (print_scores(r)) return;
    if (r->terms > 0) {
        print_terms(r);
        return;
    }
    printf("loss           %.6f\nperplexity     %.4f\nbits per byte  %s\ntokens         %lld\ndata           %s\n",
           r->loss, r->perplexity, bits, (long long)r->tokens, CLI_SHOWN(r->data));
    if (r->stride < r->seq)
        printf("windows        of %lld tokens, of which the last %lld count\n", (long long)r->seq,
               (long long)r->stride);
}

static const zr__output_kind answers_kind = {"file of answers", "{", true};

/* Print the result, and write the answers to a file if one is given. */
static zr_status report(const cli_args *args, const char *predictions, const char *data, const zr_eval_result *r)
{
    const char *inputs[] = {args->operand[0], data, NULL};
    if (predictions) ZR_TRY(zr__output_write(predictions, &answers_kind, inputs, r->answers, strlen(r->answers)));
    if (r->note[0] && !args->quiet) cli_say("note: %s", r->note);
    if (args->json) return print_eval_json(r);
    print_eval(r);
    return ZR_OK;
}

static zr_status run_eval(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    (void)comm;
    int64_t threads = 0;
    const char *predictions = NULL;
    cli_amount_done shown = {.what = "tok"};
    zr_eval_args want = {.progress = cli_show_done, .arg = &shown};
    zr_eval_result result = {0};
    const cli_option options[] = {
        {"data", CLI_TEXT, &want.data, 0, "FILE", "text or token file to evaluate on [data.val of the run]"},
        {"batches", CLI_INT, &want.batches, 1, "N",
         "evaluate only the first N batches of data.val, of the run's batch size"},
        {"seq", CLI_INT, &want.seq, 1, "N",
         "windows of N tokens [data.seq_length of the run; the model's positions, but at most 2048, of a Hugging Face "
         "directory]"},
        {"stride", CLI_INT, &want.stride, 1, "N",
         "overlapping windows: each begins N tokens after the previous one, and only its last N tokens count; a small "
         "N is slow but gives every token a long context"},
        {"predictions", CLI_TEXT, &predictions, 0, "FILE",
         "write the answers to the questions as JSON, for SQuAD's evaluation script"},
        {"null-threshold", CLI_REAL, &want.null_threshold, -1e30, "X",
         "answers to questions that may lack one: give none if its logits exceed those of the best answer by more [0]"},
        {"as-text", CLI_FLAG, &want.as_text, 0, NULL,
         "read the data as plain text, also JSON records or a table, as with the key data.format"},
        {"columns", CLI_TEXT, &want.columns, 0, "JSON", "names of the members of records [data.columns of the run]"},
        {"chat-template", CLI_TEXT, &want.chat_template, 0, "NAME", "chat template [data.chat_template of the run]"},
        {"token-bytes", CLI_INT, &want.token_bytes, 2, "N",
         "bytes of a token in a .bin file without a header, 2 or 4 [data.token_bytes of the run]"},
        {"threads", CLI_INT, &threads, 1, "N", "number of compute threads [one per processor]"},
        {0}};
    cli_args args = {.command = command->name, .options = options, .max_operands = 1};
    ZR_TRY(cli_parse_operands(&args, command, "a directory", argc, argv));
    if (args.help) return ZR_OK;
    ZR_TRY(cli_check_stdout((const char *const[]){args.operand[0], want.data, NULL}));
    if (predictions)
        ZR_TRY(zr__output_check(predictions, &answers_kind, (const char *const[]){args.operand[0], want.data, NULL}));
    want.threads = (int)threads;
    want.answers = predictions != NULL;
    if (args.quiet || !cli_live()) want.progress = NULL;
    zr_status st = zr_eval_dir(args.operand[0], &want, &result);
    if (want.progress) cli_line_clear();
    if (st == ZR_OK) st = report(&args, predictions, want.data, &result);
    zr_free(result.answers);
    return st;
}

const cli_command cli_eval = {
    .name = "eval",
    .summary = "measure loss, perplexity and bits per byte of trained weights, or their labels and answers",
    .usage = "zr eval DIR [--data FILE] [--batches N] [--seq N] [--stride N] [--predictions FILE] "
             "[--null-threshold X] [--as-text] [--token-bytes N] [--columns JSON] [--chat-template NAME]",
    .examples = "  zr eval runs/name\n"
                "  zr eval runs/name --batches 20                   as `zr train` evaluates during a run\n"
                "  zr eval runs/name --data other.txt --json\n"
                "  zr eval gpt2-directory --data tokens.bin\n"
                "  zr eval gpt2-directory --data book.txt --stride 512    with overlapping windows\n"
                "  zr eval runs/squad --data dev-v1.1.json --predictions answers.json    answers to questions\n",
    .run = run_eval,
    .computes = true,
};
