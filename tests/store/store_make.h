/* Stores with their passing memory, and the two ways to make transfers. */
#ifndef ZR_TESTS_STORE_MAKE_H
#define ZR_TESTS_STORE_MAKE_H

#include "store/store.h"
#include "support/tempdir.h"

#include <dirent.h>
#include <sys/stat.h>

static const char *const store_ways[] = {"threads", "io_uring"};

/* Memory whose address is `past` bytes behind a multiple of ZR_STORE_ALIGN. */
typedef struct spot {
    void *block;
    unsigned char *memory;
} spot;

static inline spot spot_take(int64_t bytes, int64_t past)
{
    spot s = {.block = zr_alloc((size_t)(bytes + past + ZR_STORE_ALIGN))};
    if (!s.block) abort();
    s.memory =
        (unsigned char *)s.block + (ZR_STORE_ALIGN - (uintptr_t)s.block % ZR_STORE_ALIGN) % ZR_STORE_ALIGN + past;
    return s;
}

typedef struct made_store {
    zr__store *store;
    spot passing;
    zr_status status;
} made_store;

/* Make transfers in this way from now on; return false if this build or machine cannot. */
static inline bool store_way(const char *way)
{
    static const char *const here[] = {"/tmp"};
    setenv("ZR_STORE", way, 1);
    spot passing = spot_take(zr__passing_bytes(4096, 1), 0);
    zr__store *store;
    const zr__store_config config = {.folder = here,
                                     .n_folders = 1,
                                     .bytes = 1,
                                     .block_bytes = 4096,
                                     .depth = 1,
                                     .passing = passing.memory,
                                     .owner = "rank 0"};
    const bool works = zr__store_create(&config, &store) == ZR_OK;
    zr__store_destroy(&store);
    zr_free(passing.block);
    return works;
}

static inline made_store make_store(const char *const *folder, int n_folders, int64_t bytes, int64_t block_bytes,
                                    int depth)
{
    made_store m = {.passing = spot_take(zr__passing_bytes(block_bytes, depth), 0)};
    const zr__store_config config = {.folder = folder,
                                     .n_folders = n_folders,
                                     .bytes = bytes,
                                     .block_bytes = block_bytes,
                                     .depth = depth,
                                     .passing = m.passing.memory,
                                     .owner = "rank 3"};
    m.status = zr__store_create(&config, &m.store);
    return m;
}

static inline void end_store(made_store *m)
{
    zr__store_destroy(&m->store);
    zr_free(m->passing.block);
    *m = (made_store){0};
}

static inline int count_names(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;
    if (!dir) abort();
    for (struct dirent *entry; (entry = readdir(dir));) n += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    closedir(dir);
    return n;
}

/* Return the byte at `at` of a space whose bytes have all been written `turn` times. */
static inline unsigned char byte_at(int64_t at, int turn)
{
    const uint64_t x = (uint64_t)(at + 1) * 0x9E3779B97F4A7C15u + (uint64_t)turn * 0xD1B54A32D192ED03u;
    return (unsigned char)(x >> 56);
}

static inline void put_bytes(unsigned char *memory, int64_t at, int64_t bytes, int turn)
{
    for (int64_t i = 0; i < bytes; i++) memory[i] = byte_at(at + i, turn);
}

static inline bool are_bytes(const unsigned char *memory, int64_t at, int64_t bytes, int turn)
{
    for (int64_t i = 0; i < bytes; i++)
        if (memory[i] != byte_at(at + i, turn)) return false;
    return true;
}

#endif
