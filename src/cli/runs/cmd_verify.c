#include "base/core/grow.h"
#include "cli/runs/stored.h"
#include "train/weights/weights.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum { REPORT_BYTES = 32768 };

/** One directory or file, and its findings. */
typedef struct part {
    zr__stored stored;
    zr_status status; /* ZR_OK: whole */
    zr__text lines;   /* damage and notes, a line each */
    char first[1024]; /* the first damage */
} part;

typedef struct verification {
    part *part;
    int64_t n, room;
    bool show;
} verification;

static void find(part *p, zr_status status, const char *line)
{
    zr__text_add(&p->lines, "%s\n", line);
    if (p->status != ZR_OK) return;
    p->status = status;
    snprintf(p->first, sizeof(p->first), "%s", line);
}

/* ---- with checksums --------------------------------------------------------------------------- */

static zr_status verify_checkpoint(part *p, bool show)
{
    cli_amount_done shown = {.what = "B"};
    char *report = zr_alloc(REPORT_BYTES);
    ZR_CHECK(report, ZR_ERR_MEMORY, "no memory for a report");
    p->status = zr_checkpoint_verify(p->stored.path, show ? cli_show_done : NULL, &shown, report, REPORT_BYTES);
    if (p->status != ZR_OK) snprintf(p->first, sizeof(p->first), "%s", zr_error_message());
    if (show) cli_line_clear();
    zr__text_add(&p->lines, "%s", report);
    zr_free(report);
    return p->status == ZR_ERR_MEMORY ? p->status : ZR_OK;
}

/* ---- without checksums ------------------------------------------------------------------------ */

static zr_status verify_tensor(part *p, const cli_file *file, const zr_safetensors_tensor *tensor, int64_t *done,
                               int64_t of, cli_amount_done *shown)
{
    char line[512], name[160];
    cli_numbers numbers;
    ZR_TRY(cli_numbers_of(file, tensor, &numbers, done, of, shown));
    if (numbers.not_finite == 0) return ZR_OK;
    snprintf(line, sizeof(line), "%s: tensor %s: %lld numbers are not finite, the first is element %lld", file->name,
             zr__text_escape(tensor->name, name, sizeof(name)), (long long)numbers.not_finite,
             (long long)numbers.first_bad);
    find(p, ZR_ERR_DATA, line);
    return ZR_OK;
}

static zr_status verify_numbers(part *p, const cli_files *files, bool show)
{
    int64_t done = 0;
    cli_amount_done shown = {.what = "numbers"};
    zr_status st = ZR_OK;
    for (int i = 0; i < files->n; i++) {
        const zr_safetensors *tensors = files->file[i].tensors;
        for (int64_t t = 0; t < zr_safetensors_count(tensors) && st == ZR_OK; t++)
            st = verify_tensor(p, &files->file[i], zr_safetensors_get(tensors, t), &done, files->elems,
                               show ? &shown : NULL);
    }
    if (show) cli_line_clear();
    return st;
}

/** Verify a part without checksums: the structure of its files and, for a directory, of its model. */
static zr_status verify_plain(part *p, bool show)
{
    char note[512] = "", line[640];
    cli_files files;
    zr_status st = cli_files_open(&p->stored, &files);
    if (st == ZR_OK) st = verify_numbers(p, &files, show);
    cli_files_close(&files);
    if (st == ZR_OK && p->stored.kind == ZR_STORED_HF) st = zr__hf_check(p->stored.path, note, sizeof(note));
    if (st == ZR_ERR_MEMORY) return st;
    if (st != ZR_OK) find(p, st, zr_error_message());
    if (note[0]) {
        snprintf(line, sizeof(line), "tensors that the model does not use: %s", note);
        zr__text_add(&p->lines, "%s\n", line);
    }
    return ZR_OK;
}

/* ---- the whole command ------------------------------------------------------------------------ */

static zr_status add(verification *v, const zr__stored *stored)
{
    ZR_GROW(v->part, v->room, v->n + 1, "directories");
    v->part[v->n++] = (part){.stored = *stored};
    return ZR_OK;
}

/** Add every checkpoint of the run, whole or not, and its model/. */
static zr_status add_run(verification *v, const char *run)
{
    char name[ZR_CHECKPOINT_NAME_BYTES];
    int64_t *step = NULL, n = 0;
    zr__stored one = {.kind = ZR_STORED_CHECKPOINT};
    zr_status st = zr_checkpoint_list(run, &step, &n);
    for (int64_t i = 0; i < n && st == ZR_OK; i++) {
        zr_checkpoint_name(step[i], name);
        snprintf(one.path, sizeof(one.path), "%.4000s/%s", run, name);
        st = add(v, &one);
    }
    zr_free(step);
    ZR_TRY(st);
    char model[PATH_MAX];
    snprintf(model, sizeof(model), "%.4000s/model", run);
    if (zr__stored_find(model, true, &one) == ZR_OK && one.kind == ZR_STORED_HF) ZR_TRY(add(v, &one));
    return ZR_OK;
}

static zr_status find_parts(verification *v, const char *path)
{
    zr__stored stored;
    zr_status st = zr__stored_find(path, false, &stored);
    if (stored.from_run && st != ZR_ERR_MEMORY) {
        ZR_TRY(add_run(v, stored.run));
        if (v->n > 0) return ZR_OK; /* the damage of each is found below */
    }
    ZR_TRY(st);
    return add(v, &stored);
}

static const char *what_was_looked_at(const part *p)
{
    return p->stored.kind == ZR_STORED_CHECKPOINT ? "every byte, by its checksums"
                                                  : "structure and finite numbers: it has no checksums";
}

static void print_lines(const char *lines, const char *before)
{
    char shown[2048], line[2048];
    for (; lines && *lines; lines += strcspn(lines, "\n") + 1) {
        snprintf(line, sizeof(line), "%.*s", (int)strcspn(lines, "\n"), lines);
        printf("%s%s\n", before, zr__text_escape(line, shown, sizeof(shown)));
        if (!lines[strcspn(lines, "\n")]) return;
    }
}

static void print_text(const verification *v)
{
    char path[PATH_MAX];
    for (int64_t i = 0; i < v->n; i++) {
        const part *p = &v->part[i];
        printf("%s: %s (%s)\n", zr__text_escape(p->stored.path, path, sizeof(path)),
               p->status == ZR_OK ? "whole" : "DAMAGED", what_was_looked_at(p));
        print_lines(p->lines.data, "  ");
    }
}

static void print_json(const verification *v, bool whole)
{
    printf("{\"whole\":%s, \"parts\":[", whole ? "true" : "false");
    for (int64_t i = 0; i < v->n; i++) {
        const part *p = &v->part[i];
        printf("%s{\"path\":", i ? ", " : "");
        cli_json_print(stdout, p->stored.path, (int64_t)strlen(p->stored.path));
        printf(", \"kind\":\"%s\", \"checked\":\"%s\", \"whole\":%s, \"lines\":[", cli_stored_name(p->stored.kind),
               p->stored.kind == ZR_STORED_CHECKPOINT ? "checksums" : "structure",
               p->status == ZR_OK ? "true" : "false");
        const char *at = p->lines.data ? p->lines.data : "";
        for (int n = 0; *at; n++) {
            size_t bytes = strcspn(at, "\n");
            printf("%s", n ? ", " : "");
            cli_json_print(stdout, at, (int64_t)bytes);
            at += bytes + (at[bytes] == '\n');
        }
        printf("]}");
    }
    printf("]}\n");
}

static zr_status verify(verification *v, const char *path, bool json)
{
    const part *bad = NULL;
    ZR_TRY(find_parts(v, path));
    for (int64_t i = 0; i < v->n; i++) {
        part *p = &v->part[i];
        if (p->stored.kind == ZR_STORED_CHECKPOINT)
            ZR_TRY(verify_checkpoint(p, v->show));
        else
            ZR_TRY(verify_plain(p, v->show));
        if (!bad && p->status != ZR_OK) bad = p;
    }
    if (json)
        print_json(v, !bad);
    else
        print_text(v);
    /* A checkpoint without its manifest, or a part of a file, is damage just as a changed byte is. */
    if (bad && v->n > 0 && bad->status == ZR_ERR_NOT_FOUND) return ZR_FAIL(ZR_ERR_DATA, "%s", bad->first);
    if (bad) return ZR_FAIL(bad->status, "%s", bad->first);
    return ZR_OK;
}

static zr_status run(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    (void)comm;
    const cli_option options[] = {{0}};
    cli_args args = {.command = command->name, .options = options, .max_operands = 1};
    ZR_TRY(cli_parse_operands(&args, command, "a path", argc, argv));
    if (args.help) return ZR_OK;
    const char *const inputs[] = {args.operand[0], NULL};
    ZR_TRY(cli_check_stdout(inputs));
    verification v = {.show = !args.quiet && cli_live()};
    zr_status st = verify(&v, args.operand[0], args.json);
    for (int64_t i = 0; i < v.n; i++) zr__text_clear(&v.part[i].lines);
    zr_free(v.part);
    return st;
}

const cli_command cli_verify = {
    .name = "verify",
    .summary = "is every byte of a checkpoint, a run or a weights file as it was written?",
    .usage = "zr verify PATH",
    .examples = "  zr verify runs/name                        all of its checkpoints, and model/\n"
                "  zr verify runs/name/step-00001000 --json\n"
                "  zr verify gpt2-directory                   structure and finite numbers only: no checksums\n",
    .run = run,
};
