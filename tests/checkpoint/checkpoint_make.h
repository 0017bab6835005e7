/* Writes a small checkpoint as a training run does: by two writers whose ranges meet inside blocks and tensors, or by
 * five writers that each write one column of the first tensor. */
#ifndef CHECKPOINT_MAKE_H
#define CHECKPOINT_MAKE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zr/checkpoint.h"
#include "checkpoint/checkpoint.h"

enum { MADE_TENSORS = 3, MADE_WRITERS = 2, MADE_FILES = 3, MADE_ROWS = 40, MADE_COLUMNS = 5, MADE_SLICES = 64 };
static bool made_in_columns;
static const zr__tensor_spec made_specs[MADE_TENSORS] = {
    {"wte", {2, {MADE_ROWS, MADE_COLUMNS}}}, {"bias", {1, {7}}}, {"last", {0, {0}}}};
static const char *const made_files[MADE_FILES] = {"config.json", "model.safetensors", "exp_avg.safetensors"};
static const char made_config[] = "{\"model_type\": \"gpt2\"}\n";

/* Return the value of element i of a file's data at a step. */
static inline float made_value(int64_t step, int file, int64_t i)
{
    return (float)(step * 1000 + file * 10000 + i);
}

/* Return dir/name in a static buffer that is reused by the eighth call from now. */
static inline const char *made_path(const char *dir, const char *name)
{
    static char path[8][4400];
    static int next;
    char *to = path[next++ % 8];
    snprintf(to, sizeof path[0], "%s/%s", dir, name);
    return to;
}

typedef struct made_chunks {
    zr__chunk chunk[64];
    int64_t n;
    zr__slices slices[MADE_SLICES];
    int64_t n_slices;
} made_chunks;

static inline void made_add(made_chunks *all, const zr__chunk *chunk, int64_t n)
{
    if (n) memcpy(all->chunk + all->n, chunk, (size_t)n * sizeof *chunk);
    all->n += n;
}

static inline zr_status made_add_range(made_chunks *all, const char *path, int64_t first, int64_t end)
{
    zr__chunk *chunk = NULL;
    int64_t n = 0;
    ZR_TRY(zr__chunks_of_file(path, first, end, &chunk, &n));
    made_add(all, chunk, n);
    zr_free(chunk);
    return ZR_OK;
}

/* Write one writer's part of a tensor: rank 0 the first three quarters of the elements, rank 1 the rest. */
static inline zr_status made_write_part(zr__chunk_writer *w, const zr_safetensors_tensor *t, int64_t data, int64_t step,
                                        int file, int rank)
{
    float value[256];
    int64_t middle = t->elems * 3 / 4, first = rank ? middle : 0, end = rank ? t->elems : middle;
    for (int64_t i = first; i < end; i++) value[i - first] = made_value(step, file, (t->offset - data) / 4 + i);
    return zr__chunk_writer_put(w, NULL, t->offset + first * 4, value, (end - first) * 4);
}

/* Write a column of the first tensor as two shards that meet inside a row. The first writer also writes the other
 * tensors. */
static inline zr_status made_write_column(zr__chunk_writer *w, const zr_safetensors *st, int64_t step, int file,
                                          int column)
{
    enum { SHARED_ROW = 30, ROW = 4 * MADE_COLUMNS };
    float value[MADE_ROWS];
    const int64_t at = zr_safetensors_get(st, 0)->offset, mine = at + 4 * column;
    const zr__slices before = {at, at + SHARED_ROW * ROW, ROW, 4},
                     behind = {at + (SHARED_ROW + 1) * ROW, at + MADE_ROWS * ROW, ROW, 4};
    for (int64_t i = 0; i < MADE_ROWS; i++) value[i] = made_value(step, file, i * MADE_COLUMNS + column);
    ZR_TRY(zr__chunk_writer_put(w, &before, mine, value, 4 * SHARED_ROW));
    ZR_TRY(zr__chunk_writer_put(w, NULL, mine + SHARED_ROW * ROW, value + SHARED_ROW, 4));
    ZR_TRY(zr__chunk_writer_put(w, &behind, mine + (SHARED_ROW + 1) * ROW, value + SHARED_ROW + 1,
                                4 * (MADE_ROWS - SHARED_ROW - 1)));
    for (int64_t t = 1; column == 0 && t < zr_safetensors_count(st); t++)
        for (int rank = 0; rank < MADE_WRITERS; rank++)
            ZR_TRY(made_write_part(w, zr_safetensors_get(st, t), at, step, file, rank));
    return ZR_OK;
}

static inline zr_status made_write(const char *path, const zr_safetensors *st, int64_t step, int file, made_chunks *all)
{
    int64_t data = zr_safetensors_get(st, 0)->offset, n = 0;
    for (int rank = 0; rank < (made_in_columns ? MADE_COLUMNS : MADE_WRITERS); rank++) {
        zr__chunk_writer *w = NULL;
        zr_status done = zr__chunk_writer_open(path, 1, &w);
        if (done == ZR_OK && made_in_columns) done = made_write_column(w, st, step, file, rank);
        for (int64_t t = 0; !made_in_columns && done == ZR_OK && t < zr_safetensors_count(st); t++)
            done = made_write_part(w, zr_safetensors_get(st, t), data, step, file, rank);
        if (done == ZR_OK) done = zr__chunk_writer_end(w);
        const zr__chunk *chunk = w ? zr__chunk_writer_chunks(w, &n) : NULL;
        if (done == ZR_OK) made_add(all, chunk, n);
        const zr__slices *slices = w ? zr__chunk_writer_slices(w, &n) : NULL;
        for (int64_t i = 0; done == ZR_OK && i < n; i++) all->slices[all->n_slices++] = slices[i];
        zr__chunk_writer_close(&w);
        ZR_TRY(done);
    }
    return made_add_range(all, path, 0, data);
}

static inline zr_status made_safetensors(const char *path, int64_t step, int file, made_chunks *all, int64_t *bytes)
{
    zr_safetensors *st = NULL;
    ZR_TRY(zr__safetensors_create(path, NULL, made_specs, MADE_TENSORS));
    ZR_TRY(zr_safetensors_open(path, &st));
    const zr_safetensors_tensor *last = zr_safetensors_get(st, MADE_TENSORS - 1);
    *bytes = last->offset + last->bytes;
    zr_status done = made_write(path, st, step, file, all);
    zr_safetensors_close(&st);
    return done;
}

/* Write the files of run_dir/step-N.tmp and their manifest. */
static inline zr_status made_fill(const char *dir, int64_t step)
{
    static const char *const run = "{\"seed\": 7, \"loss\": 0.5, \"config\": {\"a\": [1, 2]}}";
    made_chunks all[MADE_FILES] = {0};
    zr__manifest_file file[MADE_FILES];
    for (int f = 0; f < MADE_FILES; f++) {
        const char *path = made_path(dir, made_files[f]);
        int64_t bytes = sizeof made_config - 1;
        if (f == 0) {
            ZR_TRY(zr__file_put(path, made_config, bytes));
            ZR_TRY(made_add_range(&all[f], path, 0, -1));
        } else {
            ZR_TRY(made_safetensors(path, step, f, &all[f], &bytes));
        }
        file[f] = (zr__manifest_file){.name = made_files[f],
                                      .bytes = bytes,
                                      .chunk = all[f].chunk,
                                      .n_chunks = all[f].n,
                                      .slices = all[f].slices,
                                      .n_slices = all[f].n_slices};
    }
    const zr__manifest m = {.step = step, .build = zr_version(), .run = run, .file = file, .n_files = MADE_FILES};
    ZR_TRY(zr__manifest_write(dir, &m));
    return ZR_OK;
}

static inline zr_status made_checkpoint(const char *run_dir, int64_t step)
{
    char name[ZR_CHECKPOINT_NAME_BYTES], dir[4096];
    zr_checkpoint_name(step, name);
    snprintf(dir, sizeof dir, "%s/%s.tmp", run_dir, name);
    ZR_TRY(zr__checkpoint_begin(run_dir, step));
    ZR_TRY(made_fill(dir, step));
    ZR_TRY(zr__checkpoint_commit(run_dir, step));
    return ZR_OK;
}

/* Read every value in the directory and check that it is this step's. */
static inline zr_status made_check(const char *dir, int64_t step)
{
    zr__manifest *m = NULL;
    zr_status st = zr__manifest_read(dir, &m);
    if (st == ZR_OK) st = zr__checkpoint_check_file(dir, m, "config.json");
    for (int f = 1; st == ZR_OK && f < MADE_FILES; f++) {
        zr__chunk_reader *r = NULL;
        float value[256];
        int64_t at = 0;
        st = zr__chunk_reader_open(dir, m, made_files[f], 1, &r);
        for (int t = 0; st == ZR_OK && t < MADE_TENSORS; t++) {
            const zr_safetensors_tensor *tensor = zr_safetensors_get(zr__chunk_reader_tensors(r), t);
            st = zr__chunk_reader_f32(r, tensor->name, 0, tensor->elems, value);
            for (int64_t i = 0; st == ZR_OK && i < tensor->elems; i++)
                if (value[i] != made_value(step, f, at++)) abort(); /* the checksum was right, but the value is wrong */
        }
        zr__chunk_reader_close(&r);
    }
    zr__manifest_free(&m);
    return st;
}

#endif
