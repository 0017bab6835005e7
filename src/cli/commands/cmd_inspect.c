/* `zr inspect`: show what a checkpoint, a run or a file of weights contains. */
#include "base/text/text.h"
#include "checkpoint/checkpoint.h"
#include "cli/shell/args.h"
#include "cli/shell/help.h"
#include "cli/shell/message.h"
#include "cli/shell/line.h"
#include "cli/runs/stored.h"
#include "base/json/json.h"
#include "train/weights/weights.h"

#include <stdio.h>
#include <limits.h>
#include <math.h>
#include <string.h>

typedef struct row {
    const cli_file *file;
    const zr_safetensors_tensor *tensor;
    cli_numbers numbers;
} row;

/** A checkpoint in a run's directory. */
typedef struct saved {
    int64_t step;
    bool whole;
    char why[512];
} saved;

typedef struct inspection {
    zr__stored stored;
    cli_files files;
    row *rows;
    int64_t n_rows;
    saved *saved; /* checkpoints of the run, the newest first */
    int64_t n_saved;
    bool norms;
    zr_status damage; /* status of the first damaged tensor, or ZR_OK */
    char why[512];
} inspection;

/* ---- reading ---------------------------------------------------------------------------------- */

static zr_status list_saved(inspection *in)
{
    char path[PATH_MAX], name[ZR_CHECKPOINT_NAME_BYTES];
    ZR_AUTO_FREE int64_t *step = NULL;
    int64_t n = 0;
    ZR_TRY(zr_checkpoint_list(in->stored.run, &step, &n));
    in->saved = zr_alloc(sizeof(*in->saved) * (size_t)(n + 1));
    ZR_CHECK(in->saved, ZR_ERR_MEMORY, "no memory for %lld names", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        ZR_AUTO(zr__manifest_free) zr__manifest *manifest = NULL;
        saved *s = &in->saved[in->n_saved++];
        *s = (saved){.step = step[i]};
        zr_checkpoint_name(step[i], name);
        int length = snprintf(path, sizeof(path), "%s/%s", in->stored.run, name);
        const zr_status st = length < PATH_MAX ? zr__manifest_read(path, &manifest) : ZR_ERR_NOT_FOUND;
        if (st == ZR_ERR_MEMORY) return st;
        s->whole = st == ZR_OK;
        if (!s->whole) snprintf(s->why, sizeof(s->why), "%s", zr_error_message());
    }
    return ZR_OK;
}

/** List the tensors of all files. Unless --no-norms was given, read each tensor and compute its norm. */
static zr_status list_tensors(inspection *in, bool show)
{
    int64_t n = 0, done = 0;
    cli_amount_done shown = {.what = "numbers"};
    zr_status st = ZR_OK;
    for (int i = 0; i < in->files.n; i++)
        if (in->files.file[i].tensors) n += zr_safetensors_count(in->files.file[i].tensors);
    in->rows = zr_alloc(sizeof(*in->rows) * (size_t)(n + 1));
    ZR_CHECK(in->rows, ZR_ERR_MEMORY, "no memory for %lld tensors", (long long)n);
    for (int i = 0; i < in->files.n; i++) {
        const cli_file *file = &in->files.file[i];
        for (int64_t t = 0; file->tensors && t < zr_safetensors_count(file->tensors) && st == ZR_OK; t++) {
            row *r = &in->rows[in->n_rows++];
            *r = (row){.file = file, .tensor = zr_safetensors_get(file->tensors, t)};
            if (!in->norms) continue;
            st = cli_numbers_of(file, r->tensor, &r->numbers, &done, in->files.elems, show ? &shown : NULL);
            if (st != ZR_OK || r->numbers.status == ZR_OK || in->damage != ZR_OK) continue;
            in->damage = r->numbers.status;
            snprintf(in->why, sizeof(in->why), "%s", r->numbers.why);
        }
    }
    if (show && in->norms) cli_line_clear();
    return st;
}

/* ---- text ------------------------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "?";
}

static long long whole_of(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

/** Print a checkpoint's step, the zr version that wrote it, its layout, and the run's progress. */
static void print_state(const zr__manifest *manifest)
{
    json_auto_t *run = zr__json_loads(manifest->run, 0);
    const json_t *loss = json_object_get(run, "loss"), *data = json_object_get(json_object_get(run, "data"), "train");
    long long ranks = whole_of(run, "ranks");
    printf("step         %lld, written by zr %s\n", (long long)manifest->step, manifest->build);
    if (ranks > 0)
        printf("layout       %lld rank%s, stage %lld, %s, %s, optimizer %s\n", ranks, ranks == 1 ? "" : "s",
               whole_of(run, "stage"), text_of(run, "dtype"), text_of(run, "layout"), text_of(run, "optimizer"));
    else
        printf("layout       none: converted from a Hugging Face directory\n");
    printf("seed         %lld\nsamples      %lld consumed", whole_of(run, "seed"), whole_of(run, "samples"));
    if (json_is_object(data))
        printf(", of a file of %s (XXH3 %s)", ZR_SIZE((double)whole_of(data, "bytes")), text_of(data, "xxh3"));
    printf("\nupdates      %lld, skipped steps %lld\n", whole_of(run, "updates"), whole_of(run, "skipped"));
    if (json_is_number(loss)) printf("loss         %s\n", ZR_G9(json_number_value(loss)));
}

static void print_saved(const inspection *in)
{
    char name[ZR_CHECKPOINT_NAME_BYTES];
    if (in->n_saved > 0) printf("checkpoints  ");
    for (int64_t i = 0; i < in->n_saved; i++) {
        const saved *s = &in->saved[i];
        zr_checkpoint_name(s->step, name);
        printf("%s%s%s%s\n", i ? "             " : "", name,
               s->whole ? "" : ": not whole: ", s->whole ? "" : zr__text_escape(s->why, (char[600]){0}, 600));
    }
}

static void print_tensor_row(const row *r, bool norms, int width)
{
    char shape[128];
    size_t used = (size_t)snprintf(shape, sizeof(shape), "[");
    for (int d = 0; d < r->tensor->ndim && used < 100; d++)
        used +=
            (size_t)snprintf(shape + used, sizeof(shape) - used, "%s%lld", d ? "," : "", (long long)r->tensor->dim[d]);
    snprintf(shape + used, sizeof(shape) - used, "]");
    printf("  %-*s  %-5s %-16s", width, zr__text_escape(r->tensor->name, (char[160]){0}, 160), r->tensor->dtype, shape);
    if (norms && r->numbers.read) printf(" %s", ZR_G9(r->numbers.norm));
    if (norms && !r->numbers.read) printf(" %s", r->numbers.status != ZR_OK ? "DAMAGED" : "-");
    if (r->numbers.not_finite > 0) printf("  %lld NOT FINITE", (long long)r->numbers.not_finite);
    putchar('\n');
}

/** Return the L2 norm of all tensors of `file` together. */
static double norm_of(const inspection *in, const cli_file *file)
{
    double squares = 0;
    for (int64_t i = 0; i < in->n_rows; i++)
        if (in->rows[i].file == file) squares += in->rows[i].numbers.norm * in->rows[i].numbers.norm;
    return sqrt(squares);
}

static void print_file(const inspection *in, const cli_file *file)
{
    int width = 8;
    printf("\n%s  %s", zr__text_escape(file->name, (char[256]){0}, 256), ZR_SIZE((double)file->bytes));
    if (file->tensors) printf(", %lld tensors", (long long)zr_safetensors_count(file->tensors));
    if (file->tensors && in->norms) printf(", norm %s", ZR_G9(norm_of(in, file)));
    putchar('\n');
    for (int64_t i = 0; i < in->n_rows; i++) {
        int length = (int)strlen(in->rows[i].tensor->name);
        if (in->rows[i].file == file && length > width && length < 60) width = length;
    }
    for (int64_t i = 0; i < in->n_rows; i++)
        if (in->rows[i].file == file) print_tensor_row(&in->rows[i], in->norms, width);
}

static void print_inspection(const inspection *in)
{
    int64_t elems = 0;
    const cli_file *first = NULL;
    for (int i = 0; i < in->files.n; i++)
        if (!first && in->files.file[i].tensors) first = &in->files.file[i];
    for (int64_t i = 0; i < in->n_rows; i++)
        if (in->rows[i].file == first || !in->files.manifest) elems += in->rows[i].tensor->elems;
    printf("%s\n", CLI_SHOWN(in->stored.path));
    printf("kind         %s\nweights      %s\n", cli_stored_name(in->stored.kind), ZR_AMOUNT((double)elems));
    if (in->files.manifest) print_state(in->files.manifest);
    print_saved(in);
    for (int i = 0; i < in->files.n; i++) print_file(in, &in->files.file[i]);
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static void add_tensor(zr__json_out *json, const inspection *in, const row *r)
{
    zr__json_open(json, NULL, '{');
    zr__json_add(json, "file", r->file->name, "name", r->tensor->name, "dtype", r->tensor->dtype);
    zr__json_open(json, "shape", '[');
    for (int d = 0; d < r->tensor->ndim; d++) zr__json_add(json, NULL, r->tensor->dim[d]);
    zr__json_close(json, ']');
    zr__json_add(json, "bytes", r->tensor->bytes);
    if (in->norms) {
        zr__json_add(json, "norm", r->numbers.read ? r->numbers.norm : NAN, "not_finite", r->numbers.not_finite);
        zr__json_add_bool(json, "damaged", r->numbers.status != ZR_OK);
    }
    zr__json_close(json, '}');
}

static void add_saved(zr__json_out *json, const inspection *in)
{
    char name[ZR_CHECKPOINT_NAME_BYTES];
    zr__json_open(json, "checkpoints", '[');
    for (int64_t i = 0; i < in->n_saved; i++) {
        zr_checkpoint_name(in->saved[i].step, name);
        zr__json_open(json, NULL, '{');
        zr__json_add(json, "name", name, "step", in->saved[i].step);
        zr__json_add_bool(json, "whole", in->saved[i].whole);
        zr__json_add(json, "why", in->saved[i].why);
        zr__json_close(json, '}');
    }
    zr__json_close(json, ']');
}

static zr_status print_inspection_json(const inspection *in)
{
    const zr__manifest *manifest = in->files.manifest;
    zr__json_out json = {0};
    zr__json_add(&json, "path", in->stored.path, "kind", cli_stored_name(in->stored.kind));
    if (manifest) {
        zr__json_add(&json, "step", manifest->step, "build", manifest->build);
        zr__json_add_json(&json, "run", ""); /* add the key; the next line appends its value */
        cli_json_append_shown(&json.text, manifest->run);
    }
    if (in->saved) add_saved(&json, in);
    zr__json_open(&json, "files", '[');
    for (int i = 0; i < in->files.n; i++) {
        zr__json_open(&json, NULL, '{');
        zr__json_add(&json, "name", in->files.file[i].name, "bytes", in->files.file[i].bytes);
        zr__json_close(&json, '}');
    }
    zr__json_close(&json, ']');
    zr__json_open(&json, "tensors", '[');
    for (int64_t i = 0; i < in->n_rows; i++) add_tensor(&json, in, &in->rows[i]);
    zr__json_close(&json, ']');
    return zr__json_write(&json, stdout);
}

/* ---- the command ------------------------------------------------------------------------------ */

static zr_status inspect(const char *path, const cli_args *args, inspection *in)
{
    ZR_TRY(zr__stored_find(path, false, &in->stored));
    if (in->stored.passed_over[0] && !args->quiet) cli_say("note: %s", in->stored.passed_over);
    if (in->stored.from_run) ZR_TRY(list_saved(in));
    ZR_TRY(cli_files_open(&in->stored, &in->files));
    ZR_TRY(list_tensors(in, !args->quiet && cli_live()));
    if (args->json)
        ZR_TRY(print_inspection_json(in));
    else
        print_inspection(in);
    ZR_CHECK(in->damage == ZR_OK, in->damage, "%s", in->why);
    return ZR_OK;
}

static void close_inspection(inspection *in)
{
    zr_free(in->rows);
    zr_free(in->saved);
    cli_files_close(&in->files);
}

static zr_status run_inspect(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    (void)comm;
    bool no_norms = false;
    const cli_option options[] = {
        {"no-norms", CLI_FLAG, &no_norms, 0, NULL, "show names, types and shapes only, without reading the tensors"},
        {0}};
    cli_args args = {.command = command->name, .options = options, .max_operands = 1};
    ZR_TRY(cli_parse_operands(&args, command, "a path", argc, argv));
    if (args.help) return ZR_OK;
    ZR_TRY(cli_check_stdout((const char *const[]){args.operand[0], NULL}));
    ZR_AUTO(close_inspection) inspection in = {.norms = !no_norms};
    return inspect(args.operand[0], &args, &in);
}

const cli_command cli_inspect = {
    .name = "inspect",
    .summary = "show the contents of a checkpoint, a run or a weights file",
    .usage = "zr inspect PATH [--no-norms]",
    .examples = "  zr inspect runs/name                       show its newest complete checkpoint and list all\n"
                "  zr inspect runs/name/step-00001000 --json\n"
                "  zr inspect runs/name/model\n"
                "  zr inspect model.safetensors --no-norms\n",
    .run = run_inspect,
};
