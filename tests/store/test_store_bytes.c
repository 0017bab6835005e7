//TEST timeout=60 tsan=1
//LINK -Wl,--wrap=zr_alloc,--wrap=zr_free
/* Stores: every byte that is written is read back, by both ways to make transfers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "support/allocations.h"
#include "store_make.h"

static const char *folder[3]; /* in the temporary folder */

static int make_folders(void **state)
{
    if (tempdir_make(state) != 0) return -1;
    for (int i = 0; i < 3; i++) {
        folder[i] = strdup(in_tempdir((const char *[]){"a", "b", "c"}[i]));
        if (mkdir(folder[i], 0777) != 0) return -1;
    }
    return 0;
}

static int remove_folders(void **state)
{
    for (int i = 0; i < 3; i++) free((void *)folder[i]);
    return tempdir_remove(state);
}

/* Return whether a disk's file in the folder can be read past the page cache. */
static bool system_reads_direct(const char *in)
{
    char path[PATH_MAX];
    spot mine = spot_take(4096, 0);
    struct statfs system;
    snprintf(path, sizeof path, "%s/direct", in);
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600), direct = open(path, O_RDONLY | O_DIRECT);
    assert_true(fd >= 0 && ftruncate(fd, 4096) == 0 && fstatfs(fd, &system) == 0);
    const bool does = direct >= 0 && system.f_type != TMPFS_MAGIC && pread(direct, mine.memory, 4096, 0) == 4096;
    close(fd);
    if (direct >= 0) close(direct);
    (void)remove(path);
    zr_free(mine.block);
    return does;
}

/* Check that transfers go past the page cache wherever the file system lets them. */
static void expect_direct(const char *way)
{
    made_store m = make_store(folder, 2, 5 * 4096, 4096, 1);
    assert_int_equal(m.status, ZR_OK);
    assert_string_equal(zr__store_facts_of(m.store).transfers, way);
    assert_int_equal(zr__store_facts_of(m.store).direct, system_reads_direct(folder[0]));
    end_store(&m);
    m = make_store(folder, 2, 1, 4096, 1); /* the second file is empty, and does not count */
    assert_int_equal(zr__store_facts_of(m.store).direct, system_reads_direct(folder[0]));
    end_store(&m);
}

/* ---- bytes ------------------------------------------------------------------------------------- */

static uint32_t draws;

static int64_t draw(int64_t below)
{
    const zr_rng rng = {.seed = 7, .purpose = ZR_RNG_SAMPLE};
    return zr_rng_u32(&rng, draws++) % below;
}

/* Write and read ranges of a store in random order, beside a copy of the space in memory. Bytes after a written range
 * are unknown up to the end of their block of ZR_STORE_ALIGN. */
static void compare(const char *const *in, int n_folders, int64_t bytes, int64_t block_bytes, int depth, bool pins)
{
    made_store m = make_store(in, n_folders, bytes, block_bytes, depth);
    assert_int_equal(m.status, ZR_OK);
    unsigned char *copy = calloc(1, (size_t)bytes), *known = malloc((size_t)bytes);
    spot mine = spot_take(bytes, 1024);
    memset(known, 1, (size_t)bytes); /* a new store is all zeros */
    const bool pinned = pins && zr__store_pin(m.store, mine.memory - 1024, bytes + 1024);
    int64_t moved[2] = {0, 0};
    for (int i = 0; i < 24; i++) {
        const int64_t past = draw(3) == 0 ? draw(1024) - 1024 : -1024;
        const int64_t at = draw((bytes + 4095) / 4096) * 4096, left = bytes - at;
        int64_t n = draw(3) ? 1 + draw(left) : left;
        if (draw(3) == 0) n = (n + 4095) / 4096 * 4096 < left ? (n + 4095) / 4096 * 4096 : left;
        unsigned char *memory = mine.memory + past;
        if (i % 2 == 0) {
            put_bytes(memory, at, n, i);
            assert_int_equal(zr__store_write(m.store, at, memory, n, "states"), ZR_OK);
            assert_true(are_bytes(memory, at, n, i));
            memcpy(copy + at, memory, (size_t)n);
            memset(known + at, 1, (size_t)n);
            const int64_t rest = (4096 - n % 4096) % 4096;
            memset(known + at + n, 0, (size_t)(rest < left - n ? rest : left - n));
        } else {
            memset(memory, 0xEE, (size_t)bytes);
            assert_int_equal(zr__store_read(m.store, at, memory, n, "states"), ZR_OK);
            for (int64_t j = 0; j < n; j++)
                if (known[at + j] && memory[j] != copy[at + j]) fail_msg("byte %lld differs", (long long)(at + j));
            for (int64_t j = n; j < bytes; j++) /* bytes after the range must not change */
                if (memory[j] != 0xEE) fail_msg("byte %lld behind the range was written", (long long)(j - n));
        }
        moved[i % 2 == 0] += n;
    }
    const zr__store_facts facts = zr__store_facts_of(m.store);
    assert_int_equal(facts.read_bytes, moved[0]);
    assert_int_equal(facts.written_bytes, moved[1]);
    assert_int_equal(facts.pinned, pinned);
    zr_free(mine.block);
    free(known);
    free(copy);
    end_store(&m);
}

static void bytes_come_back(void **state)
{
    if (!store_way(*state)) skip();
    static const int64_t sizes[] = {1, 4095, 4096, 4097, 40960, 100001, 300000};
    static const int64_t blocks[] = {4096, 12288, 65536};
    static const int depths[] = {1, 2, 7};
    for (int s = 0; s < 7; s++)
        for (int b = 0; b < 3; b++)
            for (int n = 1; n <= 3; n++) compare(folder, n, sizes[s], blocks[b], depths[(s + b + n) % 3], (s + n) % 2);
}

/* Check a folder of a memory file system, which has no direct transfers. */
static void bytes_come_back_without_direct(void **state)
{
    char shm[] = "/dev/shm/zr-test-XXXXXX";
    if (!store_way(*state) || !mkdtemp(shm)) skip();
    const char *mixed[2] = {shm, folder[0]};
    made_store m = make_store(mixed, 2, 100000, 4096, 2);
    assert_int_equal(m.status, ZR_OK);
    assert_false(zr__store_facts_of(m.store).direct);
    end_store(&m);
    compare(mixed, 1, 100001, 4096, 3, false);
    compare(mixed, 2, 300000, 12288, 4, true);
    assert_int_equal(rmdir(shm), 0);
}

static void nothing_is_a_range(void **state)
{
    if (!store_way(*state)) skip();
    unsigned char none[1] = {0};
    made_store m = make_store(folder, 2, 0, 4096, 2);
    assert_int_equal(m.status, ZR_OK);
    assert_int_equal(zr__store_read(m.store, 0, none, 0, "nothing"), ZR_OK);
    assert_int_equal(zr__store_write(m.store, 0, none, 0, "nothing"), ZR_OK);
    assert_int_equal(zr__store_read(m.store, 0, none, 1, "a byte"), ZR_ERR_INTERNAL);
    assert_int_equal(zr__store_read(m.store, 1, none, 0, "nothing"), ZR_ERR_INTERNAL);
    end_store(&m);
}

/* ---- threads and stores beside each other ------------------------------------------------------ */

enum { HALF = 1 << 20, TURNS = 12 };

typedef struct mover_of_half {
    zr__store *store;
    int64_t at;
    bool writes, well;
} mover_of_half;

static void *move_half(void *arg)
{
    mover_of_half *h = arg;
    spot mine = spot_take(HALF, 1); /* not aligned, so that all bytes go through slots */
    h->well = true;
    for (int turn = 0; turn < TURNS && h->well; turn++) {
        if (h->writes) {
            put_bytes(mine.memory, h->at, HALF, turn);
            h->well = zr__store_write(h->store, h->at, mine.memory, HALF - 5, "a half") == ZR_OK;
        } else {
            memset(mine.memory, 0, HALF);
            h->well = zr__store_read(h->store, h->at, mine.memory, HALF - 5, "a half") == ZR_OK &&
                      are_bytes(mine.memory, h->at, HALF - 5, 99);
        }
    }
    zr_free(mine.block);
    return NULL;
}

/* Let one thread write a half of a store while two threads read the other half. */
static void a_reader_runs_beside_a_writer(void **state)
{
    if (!store_way(*state)) skip();
    made_store m = make_store(folder, 2, 2 * HALF, 32768, 4);
    spot mine = spot_take(HALF, 0);
    pthread_t thread[3];
    mover_of_half half[3] = {{m.store, 0, true, false}, {m.store, HALF, false, false}, {m.store, HALF, false, false}};
    put_bytes(mine.memory, HALF, HALF, 99);
    assert_int_equal(zr__store_write(m.store, HALF, mine.memory, HALF, "a half"), ZR_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&thread[i], NULL, move_half, &half[i]), 0);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 3; i++) assert_true(half[i].well);
    assert_int_equal(zr__store_read(m.store, 0, mine.memory, HALF - 5, "a half"), ZR_OK);
    assert_true(are_bytes(mine.memory, 0, HALF - 5, TURNS - 1));
    zr_free(mine.block);
    end_store(&m);
}

static void stores_share_a_folder(void **state)
{
    if (!store_way(*state)) skip();
    made_store m[2];
    spot mine = spot_take(50000, 0);
    for (int i = 0; i < 2; i++) {
        m[i] = make_store(folder, 1, 50000, 8192, 2);
        put_bytes(mine.memory, 0, 50000, i);
        assert_int_equal(zr__store_write(m[i].store, 0, mine.memory, 50000, "states"), ZR_OK);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(zr__store_read(m[i].store, 0, mine.memory, 50000, "states"), ZR_OK);
        assert_true(are_bytes(mine.memory, 0, 50000, i));
        end_store(&m[i]);
    }
    zr_free(mine.block);
}

/* ---- files ------------------------------------------------------------------------------------- */

/* Return the bytes on disk of all nameless files of this process in the folder. */
static int64_t reserved_bytes(const char *in)
{
    int64_t bytes = 0;
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[64], target[512] = "";
        struct stat info;
        snprintf(path, sizeof path, "/proc/self/fd/%.20s", entry->d_name);
        if (readlink(path, target, sizeof target - 1) > 0 && strncmp(target, in, strlen(in)) == 0 &&
            stat(path, &info) == 0)
            bytes += (int64_t)info.st_blocks * 512;
    }
    if (dir) closedir(dir);
    return bytes;
}

static void files_are_whole_and_nameless(void **state)
{
    if (!store_way(*state)) skip();
    made_store m = make_store(folder, 3, 1000000, 65536, 2);
    int64_t bytes[3];
    for (int i = 0; i < 3; i++) {
        bytes[i] = reserved_bytes(folder[i]);
        assert_int_equal(count_names(folder[i]), 0);
    }
    /* 15 blocks of 65,536 bytes, and the rest in the first file. */
    assert_in_range(bytes[0], 5 * 65536 + 20480, 5 * 65536 + 20480 + 8192);
    assert_in_range(bytes[1], 5 * 65536, 5 * 65536 + 8192);
    assert_in_range(bytes[2], 5 * 65536, 5 * 65536 + 8192);
    end_store(&m);
    for (int i = 0; i < 3; i++) assert_int_equal(reserved_bytes(folder[i]), 0);
}

static void write_for_ever(int tell)
{
    made_store m = make_store(folder, 2, 8 << 20, 65536, 4);
    spot mine = spot_take(8 << 20, 0);
    put_bytes(mine.memory, 0, 8 << 20, 0);
    while (m.status == ZR_OK && zr__store_write(m.store, 0, mine.memory, 8 << 20, "states") == ZR_OK)
        if (write(tell, "w", 1) != 1) break;
    _exit(1);
}

static void a_killed_process_leaves_nothing(void **state)
{
    if (!store_way(*state)) skip();
    int end[2], status;
    char told;
    assert_int_equal(pipe(end), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) write_for_ever(end[1]);
    close(end[1]);
    for (int i = 0; i < 3; i++) assert_int_equal(read(end[0], &told, 1), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    close(end[0]);
    for (int i = 0; i < 2; i++) assert_int_equal(count_names(folder[i]), 0);
}

/* Check a folder with too little room, in a mount namespace of this process. */
static void room_is_checked_first(void **state)
{
    if (!store_way(*state)) skip();
    const char *small = in_tempdir("small");
    (void)mkdir(small, 0777);
    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", small, "tmpfs", 0, "size=1m") != 0)
        skip();
    made_store m = make_store(&small, 1, 3000000, 65536, 2);
    assert_int_equal(m.status, ZR_ERR_MEMORY);
    assert_null(m.store);
    assert_non_null(strstr(zr_error_message(), "rank 3"));
    assert_non_null(strstr(zr_error_message(), small));
    assert_non_null(strstr(zr_error_message(), "3.00 MB"));
    assert_non_null(strstr(zr_error_message(), "1.05 MB free"));
    end_store(&m);
    /* The failed attempt has given all bytes back. */
    m = make_store(&small, 1, 1 << 20, 65536, 2);
    assert_int_equal(m.status, ZR_OK);
    end_store(&m);
    assert_int_equal(umount(small), 0);
}

static void folders_that_do_not_do_are_named(void **state)
{
    if (!store_way(*state)) skip();
    const char *missing[2] = {folder[0], in_tempdir("missing")}, *file = put_file("file", "x", 1);
    made_store m = make_store(missing, 2, 10000, 4096, 2);
    assert_int_equal(m.status, ZR_ERR_CREATE);
    assert_non_null(strstr(zr_error_message(), missing[1]));
    assert_non_null(strstr(zr_error_message(), "No such file or directory"));
    end_store(&m);
    m = make_store(&file, 1, 10000, 4096, 2);
    assert_int_equal(m.status, ZR_ERR_CREATE);
    end_store(&m);
}

/* ---- choices ----------------------------------------------------------------------------------- */

static void the_environment_chooses(void **state)
{
    (void)state;
    setenv("ZR_STORE", "carrier pigeons", 1);
    made_store m = make_store(folder, 1, 1, 4096, 1);
    assert_int_equal(m.status, ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "carrier pigeons"));
    end_store(&m);
    for (int i = 0; i < 2; i++)
        if (store_way(store_ways[i])) expect_direct(store_ways[i]);
    const bool uring = store_way("io_uring");
    unsetenv("ZR_STORE");
    m = make_store(folder, 1, 1, 4096, 1);
    assert_int_equal(m.status, ZR_OK);
    assert_string_equal(zr__store_facts_of(m.store).transfers, uring ? "io_uring" : "threads");
    end_store(&m);
}

static void sizes_are_checked(void **state)
{
    (void)state;
    unsetenv("ZR_STORE");
    static const int bad[][3] = {{1, 4095, 1},    {1, 0, 1},    {1, (1 << 30) + 4096, 1}, {1, 5000, 1}, {1, 4096, 0},
                                 {1, 4096, 5000}, {0, 4096, 1}, {1, 4096, 1025}};
    static const char *const said[] = {"blocks of 4095 bytes",       "blocks of 0 bytes",
                                       "blocks of 1073745920 bytes", "blocks of 5000 bytes",
                                       "0 transfers at a time",      "5000 transfers at a time",
                                       "at least one folder",        "disk; a number from 1 to 1024 is"};
    spot passing = spot_take(65536, 0);
    for (int i = 0; i < 8; i++) {
        zr__store *store;
        const zr__store_config config = {.folder = folder,
                                         .n_folders = bad[i][0],
                                         .bytes = 1,
                                         .block_bytes = bad[i][1],
                                         .depth = bad[i][2],
                                         .passing = passing.memory,
                                         .owner = "rank 0"};
        assert_int_equal(zr__store_create(&config, &store), ZR_ERR_ARG);
        assert_null(store);
        if (!strstr(zr_error_message(), said[i])) fail_msg("%s", zr_error_message());
    }
    zr_free(passing.block);
    for (int depth = 1; depth <= 1024; depth += 1023) { /* the least and the most */
        made_store m = make_store(folder, 1, 1, 4096, depth);
        assert_int_equal(m.status, ZR_OK);
        end_store(&m);
    }
}

static void all_memory_is_freed(void **state)
{
    (void)state;
    assert_int_equal(alloc_live, 0);
}

static void rates_are_measured(void **state)
{
    if (!store_way(*state)) skip();
    zr__store_rates rates;
    assert_int_equal(zr__store_measure(folder[0], 3000001, 65536, 3, &rates), ZR_OK);
    assert_true(rates.read > 0 && rates.write > 0 && rates.mixed > 0);
    assert_string_equal(rates.transfers, *state);
    assert_int_equal(rates.direct, system_reads_direct(folder[0]));
    assert_int_equal(count_names(folder[0]), 0);
    assert_int_equal(zr__store_measure(in_tempdir("missing"), 1, 65536, 3, &rates), ZR_ERR_CREATE);
    assert_int_equal(zr__store_measure(folder[0], 0, 65536, 3, &rates), ZR_ERR_ARG);
    assert_int_equal(zr__store_measure(folder[0], 1, 65537, 3, &rates), ZR_ERR_ARG);
}

#define BOTH(test)                                                                                                     \
    cmocka_unit_test_prestate(test, (void *)"threads"), cmocka_unit_test_prestate(test, (void *)"io_uring")

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(bytes_come_back),
        BOTH(bytes_come_back_without_direct),
        BOTH(nothing_is_a_range),
        BOTH(a_reader_runs_beside_a_writer),
        BOTH(stores_share_a_folder),
        BOTH(files_are_whole_and_nameless),
        BOTH(a_killed_process_leaves_nothing),
        BOTH(folders_that_do_not_do_are_named),
        cmocka_unit_test(the_environment_chooses),
        cmocka_unit_test(sizes_are_checked),
        BOTH(rates_are_measured),
        BOTH(room_is_checked_first),
        cmocka_unit_test(all_memory_is_freed),
    };
    return cmocka_run_group_tests(tests, make_folders, remove_folders);
}
