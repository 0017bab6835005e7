/** Fuzz target: arbitrary bytes as a safetensors file. An accepted file must satisfy the rules that readers rely on,
 * and all its data must be readable. */
#include "zr/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* One file for all inputs: the reader takes names, and creating a file each time would be most of the work. */
static char input_path[] = "/tmp/zr-fuzz-XXXXXX";

static void remove_file(void)
{
    unlink(input_path);
}

static void write_file(const uint8_t *bytes, size_t n)
{
    static int fd = -1;
    if (fd < 0) {
        fd = mkstemp(input_path);
        if (fd < 0 || atexit(remove_file)) abort();
    }
    if (pwrite(fd, bytes, n, 0) != (ssize_t)n || ftruncate(fd, (off_t)n)) abort();
}

static void hold(bool truth, const char *what)
{
    if (truth) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

static void read_tensor(const zr_safetensors *st, const zr_safetensors_tensor *tensor)
{
    float out[64];
    hold(zr_safetensors_find(st, tensor->name) == tensor, "a tensor is found by its name");
    if (!tensor->loadable) return;
    hold(tensor->bytes == tensor->elems * (tensor->dtype[0] == 'F' && tensor->dtype[1] == '3' ? 4 : 2), "bytes");
    for (int64_t first = 0; first < tensor->elems; first += 64) {
        int64_t piece = tensor->elems - first < 64 ? tensor->elems - first : 64;
        hold(zr_safetensors_read_f32(st, tensor, first, piece, out) == ZR_OK, "a tensor is readable");
    }
    hold(zr_safetensors_read_f32(st, tensor, tensor->elems, 1, out) == ZR_ERR_ARG, "ranges are checked");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    zr_safetensors *st = NULL;
    write_file(bytes, n);
    zr_status status = zr_safetensors_open(input_path, &st);
    if (status == ZR_OK) {
        int64_t at = -1;
        for (int64_t i = 0; i < zr_safetensors_count(st); i++) {
            const zr_safetensors_tensor *tensor = zr_safetensors_get(st, i);
            hold(at < 0 || tensor->offset == at, "tensors tile the file");
            at = tensor->offset + tensor->bytes;
            read_tensor(st, tensor);
        }
        hold(at < 0 || at == (int64_t)n, "tensors end with the file");
        zr_safetensors_close(&st);
    } else {
        hold(status == ZR_ERR_DATA && zr_error_message()[0], "a refusal is of bad data and says why");
    }
    return 0;
}
