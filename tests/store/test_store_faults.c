//TEST timeout=60
//LINK -Wl,--wrap=pread,--wrap=pwrite,--wrap=zr__uring_begin,--wrap=zr__uring_await,--wrap=zr__threads_begin
//LINK -Wl,--wrap=zr__threads_await,--wrap=zr__uring_create,--wrap=fallocate,--wrap=open,--wrap=zr_alloc
//LINK -Wl,--wrap=pthread_create,--wrap=sync_file_range
/* Stores on disks that interrupt, move less than asked, fail or are full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "store_make.h"
#include "store/transfer.h"

/* ---- faults ------------------------------------------------------------------------------------ */

static bool always_fails; /* whether each transfer fails */
static bool stumbles;     /* whether transfers are interrupted, refused for a while, or move only a part */
static atomic_int calls, begun, ended;
static int fail_read_at, fail_write_at; /* number of the transfer that fails, from 1 on; 0: none */
static atomic_int reads, writes;
static int error;                           /* errno of the transfer that fails; 0: it moves nothing */
static bool refuses_direct;                 /* whether a file system takes O_DIRECT and then refuses each transfer */
static bool refuses_nameless;               /* whether the file system has no files without a name */
static int reserve_error;                   /* errno of fallocate; 0: it works */
static atomic_llong room_bytes = INT64_MAX; /* bytes until a write fails with ENOSPC */
static int sync_error;                      /* errno of sync_file_range; 0: it works */
static bool lacks_uring, lacks_threads;
static int allocations, fail_alloc_at = -1;

static void heal(void)
{
    stumbles = always_fails = refuses_direct = refuses_nameless = lacks_uring = lacks_threads = false;
    fail_read_at = fail_write_at = error = reserve_error = sync_error = 0;
    room_bytes = INT64_MAX;
    fail_alloc_at = -1;
    reads = writes = calls = 0;
}

ssize_t __real_pread(int fd, void *out, size_t bytes, off_t offset);
ssize_t __wrap_pread(int fd, void *out, size_t bytes, off_t offset);
ssize_t __wrap_pread(int fd, void *out, size_t bytes, off_t offset)
{
    if (!refuses_direct || (fcntl(fd, F_GETFL) & O_DIRECT) == 0) return __real_pread(fd, out, bytes, offset);
    errno = EINVAL;
    return -1;
}

ssize_t __real_pwrite(int fd, const void *in, size_t bytes, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *in, size_t bytes, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *in, size_t bytes, off_t offset)
{
    if (atomic_fetch_sub(&room_bytes, (long long)bytes) >= (long long)bytes)
        return __real_pwrite(fd, in, bytes, offset);
    errno = ENOSPC;
    return -1;
}

int __real_fallocate(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    static int turn;
    const int failed = reserve_error ? reserve_error : stumbles && turn++ % 2 == 0 ? EINTR : 0;
    if (!failed) return __real_fallocate(fd, mode, offset, bytes);
    errno = failed;
    return -1;
}

/* The system call that writes pages of the page cache to the disk; sync_error makes it fail. */
int __real_sync_file_range(int fd, off_t at, off_t bytes, unsigned how);
int __wrap_sync_file_range(int fd, off_t at, off_t bytes, unsigned how);
int __wrap_sync_file_range(int fd, off_t at, off_t bytes, unsigned how)
{
    if (!sync_error || (how & SYNC_FILE_RANGE_WAIT_AFTER) == 0) return __real_sync_file_range(fd, at, bytes, how);
    errno = sync_error;
    return -1;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    const bool nameless = (flags & O_TMPFILE) == O_TMPFILE;
    if (!nameless || !refuses_nameless) return __real_open(path, flags, 0600);
    errno = EOPNOTSUPP;
    return -1;
}

void *__real_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes)
{
    return allocations++ == fail_alloc_at ? NULL : __real_zr_alloc(bytes);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    return lacks_threads ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

zr_status __real_zr__uring_create(int depth, void **object);
zr_status __wrap_zr__uring_create(int depth, void **object);
zr_status __wrap_zr__uring_create(int depth, void **object)
{
    *object = NULL;
    return lacks_uring ? ZR_FAIL(ZR_ERR_UNSUPPORTED, "no io_uring in this test")
                       : __real_zr__uring_create(depth, object);
}

/* Transfers in flight that this file has shortened, and their full lengths. */
static struct {
    zr__transfer *transfer;
    int64_t bytes;
} shortened[16];

static int begin_short(int (*begin)(void *, zr__transfer *), void *object, zr__transfer *t)
{
    begun++;
    if (!stumbles || calls++ % 3 != 1 || t->bytes <= 512) return begin(object, t);
    for (size_t i = 0; i < sizeof shortened / sizeof *shortened; i++) {
        if (shortened[i].transfer) continue;
        shortened[i].transfer = t;
        shortened[i].bytes = t->bytes;
        t->bytes = (t->bytes / 2 + 511) / 512 * 512;
        break;
    }
    return begin(object, t);
}

/* Change the result of a completed transfer. */
static zr__transfer *stumble(zr__transfer *t)
{
    ended++;
    for (size_t i = 0; i < sizeof shortened / sizeof *shortened; i++) {
        if (shortened[i].transfer != t) continue;
        t->bytes = shortened[i].bytes;
        shortened[i].transfer = NULL;
    }
    const int turn = stumbles ? calls++ % 5 : -1;
    if (turn == 0) t->result = -EINTR;
    if (turn == 2) t->result = -EAGAIN;
    const bool fails = t->writes ? ++writes == fail_write_at : ++reads == fail_read_at;
    if (fails || always_fails) t->result = -error;
    return t;
}

#define WRAP(mover)                                                                                                    \
    int __real_zr__##mover##_begin(void *object, zr__transfer *t);                                                     \
    int __wrap_zr__##mover##_begin(void *object, zr__transfer *t);                                                     \
    int __wrap_zr__##mover##_begin(void *object, zr__transfer *t)                                                      \
    {                                                                                                                  \
        return begin_short(__real_zr__##mover##_begin, object, t);                                                     \
    }                                                                                                                  \
    zr__transfer *__real_zr__##mover##_await(void *object);                                                            \
    zr__transfer *__wrap_zr__##mover##_await(void *object);                                                            \
    zr__transfer *__wrap_zr__##mover##_await(void *object)                                                             \
    {                                                                                                                  \
        return stumble(__real_zr__##mover##_await(object));                                                            \
    }
WRAP(uring)
WRAP(threads)

/* ---- transfers ----------------------------------------------------------------------------------- */

enum { BYTES = 300001, BLOCK = 16384, DEPTH = 4 };

static made_store make_here(void)
{
    const char *here = tempdir;
    return make_store(&here, 1, BYTES, BLOCK, DEPTH);
}

static void stumbling_transfers_move_all(void **state)
{
    heal();
    if (!store_way(*state)) skip();
    for (int past = 0; past < 2; past++) {
        stumbles = true;
        made_store m = make_here();
        assert_int_equal(m.status, ZR_OK);
        spot mine = spot_take(BYTES, past);
        for (int turn = 0; turn < 5; turn++) {
            put_bytes(mine.memory, 0, BYTES, turn);
            assert_int_equal(zr__store_write(m.store, 0, mine.memory, BYTES, "states"), ZR_OK);
            memset(mine.memory, 0, BYTES);
            assert_int_equal(zr__store_read(m.store, 0, mine.memory, BYTES, "states"), ZR_OK);
            assert_true(are_bytes(mine.memory, 0, BYTES, turn));
        }
        assert_int_equal(begun, ended);
        assert_int_equal(zr__store_facts_of(m.store).read_bytes, 5 * BYTES);
        assert_int_equal(zr__store_facts_of(m.store).written_bytes, 5 * BYTES);
        zr_free(mine.block);
        end_store(&m);
    }
}

static bool says(const char *part)
{
    if (strstr(zr_error_message(), part)) return true;
    print_message("\"%s\" is not in: %s\n", part, zr_error_message());
    return false;
}

/* Let the k-th transfer of a call fail, for each k. Check that the call fails and leaves nothing in flight, and that
 * the next call succeeds. */
static void fail_each(bool at_write, int failure, const char *text)
{
    heal();
    made_store m = make_here();
    spot mine = spot_take(BYTES, 0);
    put_bytes(mine.memory, 0, BYTES, 1);
    assert_int_equal(zr__store_write(m.store, 0, mine.memory, BYTES, "masters of h.3"), ZR_OK);
    const int n = writes; /* transfers of a call */
    assert_in_range(n, BYTES / BLOCK, BYTES / BLOCK + 2);
    for (int k = 1; k <= n; k++) {
        heal();
        *(at_write ? &fail_write_at : &fail_read_at) = k;
        error = failure;
        zr_status st = at_write ? zr__store_write(m.store, 0, mine.memory, BYTES, "masters of h.3")
                                : zr__store_read(m.store, 0, mine.memory, BYTES, "masters of h.3");
        assert_int_equal(st, ZR_ERR_IO);
        assert_int_equal(begun, ended);
        assert_in_range(at_write ? writes : reads, k, k + DEPTH - 1); /* no transfer began after the failure */
        assert_true(says(at_write ? "rank 3: cannot write masters of h.3" : "rank 3: cannot read masters of h.3"));
        assert_true(says(tempdir) && says(text) && says(" bytes"));
    }
    heal();
    assert_int_equal(zr__store_write(m.store, 0, mine.memory, BYTES, "states"), ZR_OK);
    memset(mine.memory, 0, BYTES);
    assert_int_equal(zr__store_read(m.store, 0, mine.memory, BYTES, "states"), ZR_OK);
    assert_true(are_bytes(mine.memory, 0, BYTES, 1));
    assert_int_equal(zr__store_facts_of(m.store).read_bytes, BYTES); /* calls that failed do not count */
    assert_int_equal(zr__store_facts_of(m.store).written_bytes, 2 * BYTES);
    zr_free(mine.block);
    end_store(&m);
}

static void failures_are_told(void **state)
{
    heal();
    if (!store_way(*state)) skip();
    fail_each(false, EIO, "Input/output error");
    fail_each(true, EIO, "Input/output error");
    fail_each(true, ENOSPC, "No space left on device; free space there");
    fail_each(false, 0, "the file is too short");
    fail_each(true, 0, "no byte was written");
}

/* Check that the message contains the place in the file of the whole transfer, even if a part of it was moved. */
static void the_place_is_told(void **state)
{
    heal();
    if (!store_way(*state)) skip();
    const char *twice[2] = {tempdir, tempdir};
    made_store m = make_store(twice, 2, BYTES, BLOCK, 1);
    spot mine = spot_take(BYTES, 0);
    fail_read_at = 2;
    error = EIO;
    assert_int_equal(zr__store_read(m.store, 2 * BLOCK + 4096, mine.memory, 3 * BLOCK, "moments"), ZR_ERR_IO);
    assert_true(says("byte 16384 of a file") && says(", 16384 bytes: "));
    zr_free(mine.block);
    end_store(&m);
}

static void no_progress_is_a_failure(void **state)
{
    heal();
    if (!store_way(*state)) skip();
    made_store m = make_here();
    spot mine = spot_take(BLOCK, 0);
    always_fails = true;
    error = EAGAIN;
    assert_int_equal(zr__store_read(m.store, 0, mine.memory, BLOCK, "states"), ZR_ERR_IO);
    assert_true(says("Resource temporarily unavailable"));
    error = EINTR;
    assert_int_equal(zr__store_write(m.store, 0, mine.memory, BLOCK, "states"), ZR_ERR_IO);
    assert_int_equal(begun, ended);
    zr_free(mine.block);
    end_store(&m);
}

/* ---- file systems that lack something ------------------------------------------------------------ */

static void move_some(made_store *m)
{
    spot mine = spot_take(BYTES, 0);
    assert_int_equal(m->status, ZR_OK);
    assert_int_equal(zr__store_read(m->store, 0, mine.memory, BYTES, "states"), ZR_OK);
    for (int64_t i = 0; i < BYTES; i++)
        if (mine.memory[i]) fail_msg("byte %lld of a new store is not 0", (long long)i);
    put_bytes(mine.memory, 0, BYTES, 3);
    assert_int_equal(zr__store_write(m->store, 0, mine.memory, BYTES, "states"), ZR_OK);
    memset(mine.memory, 0, BYTES);
    assert_int_equal(zr__store_read(m->store, 0, mine.memory, BYTES, "states"), ZR_OK);
    assert_true(are_bytes(mine.memory, 0, BYTES, 3));
    zr_free(mine.block);
}

static int64_t full_blocks(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 ? (int64_t)info.st_blocks * 512 : 0;
}

/* Return the descriptor of this process's nameless file in the temporary folder. */
static int find_file(void)
{
    for (int fd = 3; fd < 64; fd++) {
        char path[32], target[256] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof target - 1) > 0 && strncmp(target, tempdir, strlen(tempdir)) == 0) return fd;
    }
    return -1;
}

static void a_file_gets_a_name_for_a_moment(void **state)
{
    heal();
    if (!store_way(*state)) skip();
    refuses_nameless = true;
    made_store m = make_here();
    assert_int_equal(count_names(tempdir), 0);
    move_some(&m);
    end_store(&m);
}

static void zeros_reserve_what_the_file_system_cannot(void **state)
{
    heal();
    if (!store_way(*state)) skip();
    reserve_error = EOPNOTSUPP;
    made_store m = make_here();
    assert_int_equal(m.status, ZR_OK);
    assert_true(full_blocks(find_file()) >= BYTES);
    assert_int_equal(lseek(find_file(), 0, SEEK_END), (BYTES + 4095) / 4096 * 4096);
    move_some(&m);
    end_store(&m);
    room_bytes = BYTES / 2;
    m = make_here();
    assert_int_equal(m.status, ZR_ERR_MEMORY);
    assert_int_equal(find_file(), -1);
    end_store(&m);
}

static void too_little_room_is_no_memory(void **state)
{
    heal();
    if (!store_way(*state)) skip();
    reserve_error = ENOSPC;
    made_store m = make_here();
    assert_int_equal(m.status, ZR_ERR_MEMORY);
    assert_true(says(tempdir) && says("303.10 kB") && says(" free: No space left on device; free space there"));
    assert_int_equal(find_file(), -1);
    end_store(&m);
    reserve_error = EFBIG;
    m = make_here();
    assert_int_equal(m.status, ZR_ERR_MEMORY);
    assert_true(says(" free: File too large; raise the limit of the size of a file (ulimit -f)"));
    end_store(&m);
}

/* Return the number of the file's pages that are in the page cache. A read with RWF_NOWAIT cannot find this out, since
 * it begins to read ahead, and its own pages may arrive while the later ones are counted. */
static int cached_pages(int fd)
{
    enum { PAGES = (BYTES + 4095) / 4096 };
    unsigned char cached[PAGES] = {0};
    int n = 0;
    void *pages = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mincore(pages, BYTES, cached), 0);
    for (int i = 0; i < PAGES; i++) n += cached[i] & 1;
    assert_int_equal(munmap(pages, BYTES), 0);
    return n;
}

static void the_page_cache_is_left_empty(void **state)
{
    heal();
    if (!store_way(*state)) skip();
    refuses_direct = true;
    made_store m = make_here();
    assert_false(zr__store_facts_of(m.store).direct);
    move_some(&m);
    const int cached = cached_pages(find_file());
    end_store(&m); /* before the check, so that later tests do not find this file */
    assert_int_equal(cached, 0);
}

static void a_late_failure_of_the_page_cache_is_told(void **state)
{
    heal();
    if (!store_way(*state)) skip();
    refuses_direct = true;
    made_store m = make_here();
    spot mine = spot_take(BYTES, 0);
    sync_error = ENOSPC;
    assert_int_equal(zr__store_write(m.store, 4096, mine.memory, 10000, "masters of h.3"), ZR_ERR_IO);
    assert_true(says("cannot write masters of h.3: byte 4096 of") && says(", 10000 bytes: No space left on device"));
    assert_int_equal(zr__store_facts_of(m.store).written_bytes, 0);
    sync_error = ENOSYS; /* without sync_file_range, writes do not wait for the disk */
    assert_int_equal(zr__store_write(m.store, 4096, mine.memory, 10000, "masters of h.3"), ZR_OK);
    sync_error = 0;
    zr_free(mine.block);
    end_store(&m);
}

/* ---- a machine that lacks something -------------------------------------------------------------- */

static void threads_replace_io_uring(void **state)
{
    (void)state;
    heal();
    unsetenv("ZR_STORE");
    lacks_uring = true;
    made_store m = make_here();
    assert_int_equal(m.status, ZR_OK);
    assert_string_equal(zr__store_facts_of(m.store).transfers, "threads");
    move_some(&m);
    end_store(&m);
    setenv("ZR_STORE", "io_uring", 1);
    m = make_here();
    assert_int_equal(m.status, ZR_ERR_UNSUPPORTED);
    assert_true(says("no io_uring in this test"));
    end_store(&m);
}

static void the_caller_replaces_threads(void **state)
{
    (void)state;
    heal();
    (void)store_way("threads");
    lacks_threads = true;
    made_store m = make_here();
    move_some(&m);
    end_store(&m);
}

static void each_allocation_may_fail(void **state)
{
    heal();
    if (!store_way(*state)) skip();
    const char *twice[2] = {tempdir, tempdir};
    spot passing = spot_take(zr__passing_bytes(BLOCK, DEPTH), 0);
    const zr__store_config config = {.folder = twice,
                                     .n_folders = 2,
                                     .bytes = BYTES,
                                     .block_bytes = BLOCK,
                                     .depth = DEPTH,
                                     .passing = passing.memory,
                                     .owner = "rank 3"};
    zr__store *store;
    int n = 0;
    for (zr_status st = ZR_ERR_MEMORY; st != ZR_OK; n++) {
        allocations = 0;
        fail_alloc_at = n;
        st = zr__store_create(&config, &store);
        if (st != ZR_OK) assert_int_equal(st, ZR_ERR_MEMORY);
        if (st != ZR_OK) assert_null(store);
        if (st != ZR_OK) assert_int_equal(find_file(), -1);
    }
    heal();
    zr__store_destroy(&store);
    assert_in_range(n, 7, 12);
    zr_free(passing.block);
}

#define BOTH(test)                                                                                                     \
    cmocka_unit_test_prestate(test, (void *)"threads"), cmocka_unit_test_prestate(test, (void *)"io_uring")

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(stumbling_transfers_move_all),
        BOTH(failures_are_told),
        BOTH(the_place_is_told),
        BOTH(no_progress_is_a_failure),
        BOTH(a_file_gets_a_name_for_a_moment),
        BOTH(zeros_reserve_what_the_file_system_cannot),
        BOTH(too_little_room_is_no_memory),
        BOTH(the_page_cache_is_left_empty),
        BOTH(a_late_failure_of_the_page_cache_is_told),
        cmocka_unit_test(threads_replace_io_uring),
        cmocka_unit_test(the_caller_replaces_threads),
        BOTH(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
