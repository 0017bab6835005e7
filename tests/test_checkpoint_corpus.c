//TEST timeout=60
/* The fuzzer's corpus, replayed through the fuzz target, and each file again with every byte changed in turn, and
 * damaged by lot. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <string.h>

#include "fuzz/safetensors.c"
#include "mutate_bytes.h"

enum { ROOM = 4096 };

static size_t read_file(const char *dir, const char *name, uint8_t *bytes)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("cannot open %s", path);
    size_t n = fread(bytes, 1, ROOM, file);
    fclose(file);
    return n;
}

static void replay(const uint8_t *bytes, size_t n)
{
    uint8_t changed[ROOM];
    LLVMFuzzerTestOneInput(bytes, n);
    memcpy(changed, bytes, n);
    for (size_t i = 0; i < n; i++) {
        for (int bit = 0; bit < 8; bit += 3) {
            changed[i] = (uint8_t)(bytes[i] ^ 1 << bit);
            LLVMFuzzerTestOneInput(changed, n);
        }
        changed[i] = bytes[i];
        LLVMFuzzerTestOneInput(bytes, i);
    }
    mutator m = mutator_make(3);
    for (int round = 0; round < 100; round++) {
        memcpy(changed, bytes, n);
        LLVMFuzzerTestOneInput(changed, mutate_bytes(&m, changed, n, sizeof changed));
    }
}

static void corpus_is_survived(void **state)
{
    (void)state;
    const char *source = getenv("ZR_SOURCE");
    char dir[2048];
    uint8_t bytes[ROOM];
    int files = 0;
    snprintf(dir, sizeof(dir), "%s/tests/fuzz/corpus/safetensors", source ? source : ".");
    DIR *folder = opendir(dir);
    if (!folder) fail_msg("no folder %s: set ZR_SOURCE to the source tree", dir);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        replay(bytes, read_file(dir, entry->d_name, bytes));
        files++;
    }
    closedir(folder);
    assert_true(files >= 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(corpus_is_survived)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
