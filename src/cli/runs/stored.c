#include "cli/shell/line.h"
#include "cli/runs/stored.h"
#include "base/text/text.h"
#include "checkpoint/checkpoint.h"

#include <stdio.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

/* Maximum number of tensor elements per read. */
#define PIECE ((int64_t)1 << 18)

const char *cli_stored_name(zr__stored_kind kind)
{
    static const char *const names[] = {[ZR_STORED_CHECKPOINT] = "checkpoint",
                                        [ZR_STORED_HF] = "Hugging Face directory",
                                        [ZR_STORED_FILE] = "safetensors file"};
    return names[kind];
}

/* ---- files ------------------------------------------------------------------------------------ */

static zr_status alloc_files(cli_files *files, int64_t n)
{
    files->file = zr_alloc(sizeof(*files->file) * (size_t)(n + 1));
    ZR_CHECK(files->file, ZR_ERR_MEMORY, "no memory for %lld files", (long long)n);
    return ZR_OK;
}

static zr_status open_checkpoint(const char *dir, cli_files *files)
{
    ZR_TRY(zr__manifest_read(dir, &files->manifest));
    ZR_TRY(alloc_files(files, files->manifest->n_files));
    for (int i = 0; i < files->manifest->n_files; i++) {
        const zr__manifest_file *listed = &files->manifest->file[i];
        cli_file *file = &files->file[files->n];
        *file = (cli_file){.name = listed->name, .bytes = listed->bytes};
        if (zr__text_ends(listed->name, ".safetensors")) {
            ZR_TRY(zr__chunk_reader_open(dir, files->manifest, listed->name, 1, &file->reader));
            file->tensors = zr__chunk_reader_tensors(file->reader);
        }
        files->n++;
    }
    return ZR_OK;
}

static void add_tensors(cli_files *files, const zr_safetensors *tensors)
{
    struct stat st;
    const char *path = zr__safetensors_path(tensors), *slash = strrchr(path, '/');
    files->file[files->n++] = (cli_file){
        .name = slash ? slash + 1 : path, .bytes = stat(path, &st) == 0 ? st.st_size : 0, .tensors = tensors};
}

static zr_status open_plain(const zr__stored *stored, cli_files *files)
{
    if (stored->kind == ZR_STORED_FILE) {
        ZR_TRY(zr_safetensors_open(stored->path, &files->single));
        ZR_TRY(alloc_files(files, 1));
        add_tensors(files, files->single);
        return ZR_OK;
    }
    ZR_TRY(zr_weights_open(stored->path, NULL, &files->weights));
    ZR_TRY(alloc_files(files, zr__weights_files(files->weights)));
    for (int64_t i = 0; i < zr__weights_files(files->weights); i++)
        add_tensors(files, zr__weights_file(files->weights, i));
    return ZR_OK;
}

zr_status cli_files_open(const zr__stored *stored, cli_files *files)
{
    *files = (cli_files){.n = 0};
    if (stored->kind == ZR_STORED_CHECKPOINT)
        ZR_TRY(open_checkpoint(stored->path, files));
    else
        ZR_TRY(open_plain(stored, files));
    for (int i = 0; i < files->n; i++)
        for (int64_t t = 0; files->file[i].tensors && t < zr_safetensors_count(files->file[i].tensors); t++)
            files->elems += zr_safetensors_get(files->file[i].tensors, t)->elems;
    return ZR_OK;
}

void cli_files_close(cli_files *files)
{
    for (int i = 0; i < files->n; i++) zr__chunk_reader_close(&files->file[i].reader);
    zr_free(files->file);
    zr__manifest_free(&files->manifest);
    zr_weights_close(&files->weights);
    zr_safetensors_close(&files->single);
    *files = (cli_files){.n = 0};
}

/* ---- numbers ---------------------------------------------------------------------------------- */

static void add_up(cli_numbers *numbers, int64_t first, const float *x, int64_t n, double *squares)
{
    for (int64_t i = 0; i < n; i++) {
        double v = x[i];
        if (isfinite(v)) {
            *squares += v * v;
            continue;
        }
        if (numbers->not_finite++ == 0) numbers->first_bad = first + i;
    }
}

zr_status cli_numbers_of(const cli_file *file, const zr_safetensors_tensor *tensor, cli_numbers *numbers, int64_t *done,
                         int64_t of, cli_amount_done *shown)
{
    double squares = 0;
    zr_status st = ZR_OK;
    *numbers = (cli_numbers){.read = tensor->loadable};
    if (!tensor->loadable) {
        *done += tensor->elems;
        return ZR_OK;
    }
    ZR_AUTO_FREE float *x = zr_alloc((size_t)PIECE * sizeof(*x));
    ZR_CHECK(x, ZR_ERR_MEMORY, "no memory for %lld numbers", (long long)PIECE);
    for (int64_t first = 0; first < tensor->elems && st == ZR_OK; first += PIECE) {
        int64_t n = tensor->elems - first < PIECE ? tensor->elems - first : PIECE;
        st = file->reader ? zr__chunk_reader_f32(file->reader, tensor->name, first, n, x)
                          : zr_safetensors_read_f32(file->tensors, tensor, first, n, x);
        if (st == ZR_OK) add_up(numbers, first, x, n, &squares);
        *done += n;
        if (shown) cli_show_done(shown, *done, of);
    }
    numbers->norm = sqrt(squares);
    if (st != ZR_ERR_DATA) return st;
    numbers->read = false;
    numbers->status = st;
    snprintf(numbers->why, sizeof(numbers->why), "%s", zr_error_message());
    return ZR_OK;
}
