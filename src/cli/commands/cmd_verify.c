/* `zr verify`: check that checkpoints, runs and files of weights are undamaged. */
#include "base/text/text.h"
#include "cli/shell/args.h"
#include "cli/shell/help.h"
#include "cli/shell/message.h"
#include "cli/shell/line.h"
#include "base/core/grow.h"
#include "cli/runs/stored.h"
#include "train/weights/weights.h"

#include <stdio.h>
#include <limits.h>
#include <string.h>

/** A directory or file to verify, and the damage found there. */
typedef struct verified {
    zr__stored stored;
    zr_status status; /* status of the first damage, or ZR_OK */
    zr__text lines;   /* messages about damage, and notes, one per line */
    char first[1024]; /* message of the first damage */
} verified;

typedef struct verification {
    verified *part;
    int64_t n, room;
    bool show;
} verification;

static void note_damage(verified *p, zr_status status, const char *line)
{
    zr__text_add(&p->lines, "%s\n", line);
    if (p->status != ZR_OK) return;
    p->status = status;
    snprintf(p->first, sizeof(p->first), "%s", line);
}

/* ---- with checksums --------------------------------------------------------------------------- */

static zr_status verify_checkpoint(verified *p, bool show)
{
    cli_amount_done shown = {.what = "B"};
    char report[32768] = "";
    p->status = zr_checkpoint_verify(p->stored.path, show ? cli_show_done : NULL, &shown, report, sizeof(report));
    if (p->status != ZR_OK) snprintf(p->first, sizeof(p->first), "%s", zr_error_message());
    if (show) cli_line_clear();
    zr__text_add(&p->lines, "%s", report);
    return p->status == ZR_ERR_MEMORY ? p->status : ZR_OK;
}

/* ---- without checksums ------------------------------------------------------------------------ */

static zr_status verify_tensor(verified *p, const cli_file *file, const zr_safetensors_tensor *tensor, int64_t *done,
                               int64_t of, cli_amount_done *shown)
{
    char line[512];
    cli_numbers numbers;
    ZR_TRY(cli_numbers_of(file, tensor, &numbers, done, of, shown));
    if (numbers.not_finite == 0) return ZR_OK;
    snprintf(line, sizeof(line), "%s: tensor %s: %lld numbers are not finite, the first is element %lld", file->name,
             zr__text_escape(tensor->name, (char[160]){0}, 160), (long long)numbers.not_finite,
             (long long)numbers.first_bad);
    note_damage(p, ZR_ERR_DATA, line);
    return ZR_OK;
}

static zr_status verify_numbers(verified *p, const cli_files *files, bool show)
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

/** Verify a stored directory or file that has no checksums. Check that the files have a valid structure and that all
 * numbers are finite. For a Hugging Face directory, also check that the tensors match the model. */
static zr_status verify_plain(verified *p, bool show)
{
    char note[512] = "";
    ZR_AUTO(cli_files_close) cli_files files = {0};
    zr_status st = cli_files_open(&p->stored, &files);
    if (st == ZR_OK) st = verify_numbers(p, &files, show);
    if (st == ZR_OK && p->stored.kind == ZR_STORED_HF) st = zr__hf_check(p->stored.path, note, sizeof(note));
    if (st == ZR_ERR_MEMORY) return st;
    if (st != ZR_OK) note_damage(p, st, zr_error_message());
    if (note[0]) zr__text_add(&p->lines, "tensors that the model does not use: %s\n", note);
    return ZR_OK;
}

/* ---- the whole command ------------------------------------------------------------------------ */

static zr_status add_part(verification *v, const zr__stored *stored)
{
    ZR_GROW(v->part, v->room, v->n + 1, "directories");
    v->part[v->n++] = (verified){.stored = *stored};
    return ZR_OK;
}

/** Add all checkpoints of a run, including damaged checkpoints. Add the run's directory model/ if it contains weights.
 * */
static zr_status add_run_parts(verification *v, const char *run)
{
    char name[ZR_CHECKPOINT_NAME_BYTES];
    ZR_AUTO_FREE int64_t *step = NULL;
    int64_t n = 0;
    zr__stored one = {.kind = ZR_STORED_CHECKPOINT};
    ZR_TRY(zr_checkpoint_list(run, &step, &n));
    for (int64_t i = 0; i < n; i++) {
        zr_checkpoint_name(step[i], name);
        snprintf(one.path, sizeof(one.path), "%.4000s/%s", run, name);
        ZR_TRY(add_part(v, &one));
    }
    char model[PATH_MAX];
    snprintf(model, sizeof(model), "%.4000s/model", run);
    if (zr__stored_find(model, true, &one) == ZR_OK && one.kind == ZR_STORED_HF) ZR_TRY(add_part(v, &one));
    return ZR_OK;
}

static zr_status find_parts(verification *v, const char *path)
{
    zr__stored stored;
    zr_status st = zr__stored_find(path, false, &stored);
    if (stored.from_run && st != ZR_ERR_MEMORY) {
        ZR_TRY(add_run_parts(v, stored.run));
        if (v->n > 0) return ZR_OK; /* ignore the error here, because verify_path reports the damage of each part */
    }
    ZR_TRY(st);
    return add_part(v, &stored);
}

static void print_parts(const verification *v)
{
    for (int64_t i = 0; i < v->n; i++) {
        const verified *p = &v->part[i];
        printf("%s: %s (%s)\n", CLI_SHOWN(p->stored.path), p->status == ZR_OK ? "whole" : "DAMAGED",
               p->stored.kind == ZR_STORED_CHECKPOINT ? "every byte, by its checksums"
                                                      : "structure and finite numbers: it has no checksums");
        for (const char *at = p->lines.data, *end; at && *at; at = end + (*end == '\n')) {
            char line[2048];
            end = at + strcspn(at, "\n");
            snprintf(line, sizeof(line), "%.*s", (int)(end - at), at);
            printf("  %s\n", zr__text_escape(line, (char[2048]){0}, 2048));
        }
    }
}

static zr_status print_parts_json(const verification *v, bool whole)
{
    zr__json_out json = {0};
    zr__json_add_bool(&json, "whole", whole);
    zr__json_open(&json, "parts", '[');
    for (int64_t i = 0; i < v->n; i++) {
        const verified *p = &v->part[i];
        zr__json_open(&json, NULL, '{');
        zr__json_add(&json, "path", p->stored.path, "kind", cli_stored_name(p->stored.kind), "checked",
                     p->stored.kind == ZR_STORED_CHECKPOINT ? "checksums" : "structure");
        zr__json_add_bool(&json, "whole", p->status == ZR_OK);
        zr__json_open(&json, "lines", '[');
        for (const char *at = p->lines.data, *end; at && *at; at = end + (*end == '\n')) {
            end = at + strcspn(at, "\n");
            zr__json_add_bytes(&json, NULL, at, end - at);
        }
        zr__json_close(&json, ']');
        zr__json_close(&json, '}');
    }
    zr__json_close(&json, ']');
    return zr__json_write(&json, stdout);
}

static zr_status verify_path(verification *v, const char *path, bool json)
{
    const verified *bad = NULL;
    ZR_TRY(find_parts(v, path));
    for (int64_t i = 0; i < v->n; i++) {
        verified *p = &v->part[i];
        if (p->stored.kind == ZR_STORED_CHECKPOINT)
            ZR_TRY(verify_checkpoint(p, v->show));
        else
            ZR_TRY(verify_plain(p, v->show));
        if (!bad && p->status != ZR_OK) bad = p;
    }
    if (json)
        ZR_TRY(print_parts_json(v, !bad));
    else
        print_parts(v);
    /* A missing manifest or file means that data is damaged, so return ZR_ERR_DATA instead of ZR_ERR_NOT_FOUND. */
    if (bad && bad->status == ZR_ERR_NOT_FOUND) return ZR_FAIL(ZR_ERR_DATA, "%s", bad->first);
    return bad ? ZR_FAIL(bad->status, "%s", bad->first) : ZR_OK;
}

static zr_status run_verify(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    (void)comm;
    const cli_option options[] = {{0}};
    cli_args args = {.command = command->name, .options = options, .max_operands = 1};
    ZR_TRY(cli_parse_operands(&args, command, "a path", argc, argv));
    if (args.help) return ZR_OK;
    ZR_TRY(cli_check_stdout((const char *const[]){args.operand[0], NULL}));
    verification v = {.show = !args.quiet && cli_live()};
    zr_status st = verify_path(&v, args.operand[0], args.json);
    for (int64_t i = 0; i < v.n; i++) zr__text_clear(&v.part[i].lines);
    zr_free(v.part);
    return st;
}

const cli_command cli_verify = {
    .name = "verify",
    .summary = "check that a checkpoint, a run or a weights file is undamaged",
    .usage = "zr verify PATH",
    .examples = "  zr verify runs/name                        check all of its checkpoints, and model/\n"
                "  zr verify runs/name/step-00001000 --json\n"
                "  zr verify gpt2-directory                   has no checksums: check structure and finite numbers\n",
    .run = run_verify,
};
