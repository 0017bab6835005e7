/** Fuzz target: arbitrary bytes as the index of a Megatron token file. An accepted index must describe sequences that
 * cover the whole token file, one after the other. */
#include "data/tokens/indexed.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { BIN_BYTES = 24 };

/* One file for all inputs: creating a file each time would be most of the work. */
static char input_path[] = "/tmp/zr-fuzz-XXXXXX";

static void remove_file(void)
{
    unlink(input_path);
}

static void hold(bool truth, const char *what)
{
    if (truth) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

static int64_t number(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | at[i];
    return (int64_t)value;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static int fd = -1;
    const zr__file bin = {.fd = -1, .bytes = BIN_BYTES, .name = "x.bin"};
    int width = 0;
    if (fd < 0) {
        fd = mkstemp(input_path);
        if (fd < 0 || atexit(remove_file)) abort();
    }
    if (pwrite(fd, bytes, n, 0) != (ssize_t)n || ftruncate(fd, (off_t)n)) abort();
    zr_status st = zr__indexed_read(input_path, &bin, &width);
    if (st != ZR_OK) {
        hold(st == ZR_ERR_DATA && zr_error_message()[0], "a refusal is of bad data and says why");
        return 0;
    }
    int64_t all = 0, sequences = number(bytes + 18, 8);
    hold(n >= 34 && (width == 2 || width == 4) && sequences >= 0, "it has a header");
    for (int64_t i = 0; i < sequences; i++) all += number(bytes + 34 + 4 * i, 4) * width;
    hold(all == BIN_BYTES, "its sequences are all of the token file");
    return 0;
}
