/* `zr convert`: convert a checkpoint to a Hugging Face directory, or back. */
#include "cli/shell/line.h"
#include "cli/shell/args.h"
#include "cli/shell/help.h"
#include "cli/shell/message.h"
#include "train/weights/weights.h"

#include <stdio.h>

static void say_converted(const zr__convert_args *want, const zr__converted *did)
{
    const long long weights = (long long)did->elems;
    char files[48] = "";
    if (did->files > 1) snprintf(files, sizeof(files), " in %lld files", (long long)did->files);
    if (did->kind == ZR_CONVERT_HF)
        cli_say("%s: a Hugging Face directory with the %lld weights of %s, %s%s", CLI_SHOWN(want->to), weights,
                CLI_SHOWN(did->from.path), zr_dtype_name(did->dtype), files);
    else
        cli_say("%s: a run at step 0 with the %lld weights of %s; zr train CONFIG.json --train.output_dir=%s --resume "
                "continues it",
                CLI_SHOWN(want->to), weights, CLI_SHOWN(did->from.path), CLI_SHOWN(want->to));
}

static zr_status print_converted(const zr__convert_args *want, const zr__converted *did)
{
    zr__json_out json = {0};
    zr__json_add(&json, "from", did->from.path, "to", want->to, "kind", did->kind == ZR_CONVERT_HF ? "hf" : "run",
                 "dtype", zr_dtype_name(did->dtype), "tensors", did->tensors, "weights", did->elems);
    zr__json_add(&json, "files", did->files);
    zr__json_add_bool(&json, "tokenizer", did->tokenizer);
    return zr__json_write(&json, stdout);
}

static zr_status convert_weights(const cli_args *args, zr__convert_args *want)
{
    zr__converted did;
    cli_amount_done shown = {.what = "weights"};
    bool show = !args->quiet && cli_live();
    if (show) want->progress = cli_show_done;
    want->arg = &shown;
    zr_status st = zr__convert_dir(want, &did);
    if (show) cli_line_clear();
    ZR_TRY(st);
    if (did.from.passed_over[0] && !args->quiet) cli_say("note: %s", did.from.passed_over);
    if (did.note[0] && !args->quiet) cli_say("note: %s", did.note);
    if (args->json) return print_converted(want, &did);
    if (!args->quiet) say_converted(want, &did);
    return ZR_OK;
}

static zr_status run_convert(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    (void)comm;
    const char *dtype = NULL, *to = NULL, *shard = NULL;
    const cli_option options[] = {{"dtype", CLI_TEXT, &dtype, 0, "TYPE",
                                   "number type of the exported Hugging Face weights: f32, bf16 or f16 [the types of "
                                   "the Hugging Face directory that the weights come from, or f32]"},
                                  {"shard-size", CLI_TEXT, &shard, 0, "SIZE",
                                   "split the exported weights into files of at most this size, e.g. 5GB [the files of "
                                   "the Hugging Face directory that the weights come from, or one file]"},
                                  {"to", CLI_TEXT, &to, 0, "KIND",
                                   "what to write: hf (a Hugging Face directory) or run [the kind that SOURCE is not]"},
                                  {0}};
    cli_args args = {.command = command->name, .options = options, .max_operands = 2};
    ZR_TRY(cli_parse_operands(&args, command, "a source and the directory to create", argc, argv));
    if (args.help) return ZR_OK;
    zr__convert_args want = {.from = args.operand[0], .to = args.operand[1]};
    int index = 0;
    want.same_types = !dtype;
    if (dtype) ZR_TRY(cli_word("dtype", dtype, (const char *const[]){"f32", "bf16", "f16", NULL}, &index));
    want.dtype = (const zr_dtype[]){ZR_F32, ZR_BF16, ZR_F16}[index];
    if (to) {
        ZR_TRY(cli_word("to", to, (const char *const[]){"hf", "run", NULL}, &index));
        want.kind = index == 0 ? ZR_CONVERT_HF : ZR_CONVERT_RUN;
    }
    ZR_CHECK(!shard || (zr__text_bytes(shard, &want.file_bytes) && want.file_bytes > 0), ZR_ERR_ARG,
             "--shard-size is \"%s\"; expected a size such as 5GB or 500MB", shard);
    ZR_TRY(cli_check_stdout((const char *const[]){want.from, NULL}));
    return convert_weights(&args, &want);
}

const cli_command cli_convert = {
    .name = "convert",
    .summary = "convert a checkpoint to a Hugging Face directory, or back",
    .usage = "zr convert SOURCE DIRECTORY [--dtype TYPE] [--shard-size SIZE] [--to KIND]",
    .examples = "  zr convert runs/name exported              export the newest complete checkpoint\n"
                "  zr convert runs/name/step-00001000 exported --dtype bf16\n"
                "  zr convert gpt2-directory runs/tuned       make a run at step 0, which --resume can train further\n"
                "  zr convert gpt2-directory gpt2-f16 --to hf --dtype f16\n"
                "  zr convert runs/name exported --shard-size 5GB     like max_shard_size of transformers\n",
    .run = run_convert,
};
