//TEST timeout=30
/* The fuzzer's corpus replayed through the fuzz target: every prefix of each file, every single damaged byte, and
 * random damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fuzz/config.c"
#include "support/mutate_bytes.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_BYTES = 1 << 16 };

/* Run the target on a copy exactly as large as the input, so that a sanitizer sees a read past its end. */
static void replay(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes ? bytes : 1);
    assert_non_null(copy);
    memcpy(copy, data, bytes);
    assert_int_equal(LLVMFuzzerTestOneInput(copy, bytes), 0);
    free(copy);
}

static size_t read_file(const char *folder, const char *name, uint8_t *data)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t bytes = fread(data, 1, MAX_BYTES, file);
    fclose(file);
    return bytes;
}

static void damage(uint8_t *data, size_t bytes)
{
    static const uint8_t other[] = {'"', '{', '}', ',', '9', 0, 0xFF};
    for (size_t at = 0; at < bytes; at++) {
        uint8_t was = data[at];
        replay(data, at);
        data[at] = other[at % sizeof(other)];
        replay(data, bytes);
        data[at] = was;
    }
}

static void damage_by_lot(const uint8_t *data, size_t bytes)
{
    uint8_t changed[4096];
    mutator m = mutator_make(4);
    for (int round = 0; round < 100; round++) {
        memcpy(changed, data, bytes);
        replay(changed, mutate_bytes(&m, changed, bytes, sizeof changed));
    }
}

static void corpus(void **state)
{
    (void)state;
    static uint8_t data[MAX_BYTES];
    char folder[2048];
    const char *source = getenv("ZR_SOURCE");
    snprintf(folder, sizeof(folder), "%s/tests/fuzz/corpus/config", source ? source : ".");
    DIR *dir = opendir(folder);
    if (!dir) fail_msg("%s: no such folder; set ZR_SOURCE to the source tree", folder);
    int files = 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (entry->d_name[0] == '.') continue;
        size_t bytes = read_file(folder, entry->d_name, data);
        replay(data, bytes);
        if (bytes < 2048) damage(data, bytes);
        if (bytes < 2048) damage_by_lot(data, bytes);
        files++;
    }
    closedir(dir);
    assert_true(files >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
