/* Replays a fuzzer's corpus through its target, which is included before this header: each file unchanged, with every
 * byte changed in turn, truncated at every byte, and randomly damaged. */
#ifndef CORPUS_REPLAY_H
#define CORPUS_REPLAY_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutate_bytes.h"

enum { CORPUS_ROOM = 4096 };

static inline size_t corpus_read(const char *dir, const char *name, uint8_t *bytes)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("cannot open %s", path);
    size_t n = fread(bytes, 1, CORPUS_ROOM, file);
    fclose(file);
    return n;
}

static inline void corpus_damage(const uint8_t *bytes, size_t n, uint32_t stream)
{
    uint8_t changed[CORPUS_ROOM];
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
    mutator m = mutator_make(stream);
    for (int round = 0; round < 100; round++) {
        memcpy(changed, bytes, n);
        LLVMFuzzerTestOneInput(changed, mutate_bytes(&m, changed, n, sizeof changed));
    }
}

typedef struct corpus_path {
    char path[2048];
} corpus_path;

/* Return the path of tests/fuzz/corpus/`name`. */
static inline corpus_path corpus_folder(const char *name)
{
    const char *source = getenv("ZR_SOURCE");
    corpus_path folder;
    snprintf(folder.path, sizeof(folder.path), "%s/tests/fuzz/corpus/%s", source ? source : ".", name);
    return folder;
}

/* Replay tests/fuzz/corpus/`name`, which must have at least `wanted` files. Return the number of files. */
static inline int corpus_replay(const char *name, int wanted, uint32_t stream)
{
    const corpus_path dir = corpus_folder(name);
    uint8_t bytes[CORPUS_ROOM];
    int files = 0;
    DIR *folder = opendir(dir.path);
    if (!folder) fail_msg("no folder %s: set ZR_SOURCE to the source tree", dir.path);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        corpus_damage(bytes, corpus_read(dir.path, entry->d_name, bytes), stream);
        files++;
    }
    closedir(folder);
    assert_true(files >= wanted);
    return files;
}

#endif
