//TEST timeout=120 long=more
//LINK -rdynamic
/* Every allocation in turn fails while oneDNN creates and runs a product: the command's allocator (cli/shell/alloc.c)
 * lets the library finish, and zr__product_create or zr__product_run reports that memory is short. Each failure is
 * tested in a separate process, since the library remembers a failed allocation. */
#include "cli/shell/alloc.c"
#include "device/cpu/onednn.h"
#include "support/long.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { M = 24, N = 40, K = 16 };
enum { AT_ONCE = 99, MISREAD = 100, WRONG = 101 };

static atomic_llong left;
static long long asked;

static bool is_due(void)
{
    asked++;
    return atomic_load(&left) > 0 && atomic_fetch_sub(&left, 1) == 1;
}

cli_fault_hooks cli_faults = {.allocation = is_due};

int cli_exit_code(zr_status status)
{
    return status == ZR_ERR_MEMORY ? AT_ONCE : 1; /* exit status, as in alloc.c */
}

static zr_status multiply(float *c)
{
    static const zr__product_spec spec = {.m = M,
                                          .n = N,
                                          .k = K,
                                          .dtype = ZR_F32,
                                          .out_dtype = ZR_F32,
                                          .a = {K, 1},
                                          .b = {N, 1},
                                          .bias = true,
                                          .threads = 1};
    float a[M * K], b[K * N], bias[N];
    zr__product *p = NULL;
    for (int i = 0; i < M * K; i++) a[i] = (float)(i % 5);
    for (int i = 0; i < K * N; i++) b[i] = (float)(i % 3);
    for (int i = 0; i < N; i++) bias[i] = 1;
    ZR_TRY(zr__product_create(&spec, &p));
    zr_status st = zr__product_run(p, a, b, bias, NULL, c);
    zr__product_destroy(&p);
    ZR_TRY(st);
    return cli_alloc_check(); /* the last check of the command itself */
}

static size_t keep_bytes = SIZE_MAX;

/* Limit the process's address space to its current size plus `bytes`. */
static void take_all_but(size_t bytes)
{
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lld", &pages), 1);
    fclose(file);
    const rlim_t most = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + bytes;
    assert_int_equal(setrlimit(RLIMIT_AS, &(struct rlimit){most, most}), 0);
    void *kept = malloc(bytes);
    while (malloc(1024)) continue; /* use up the heap's free memory */
    free(kept);
}

static int run_with(long long nth)
{
    float c[M * N];
    asked = 0; /* do not count the allocations of libraries that have already started */
    cli_alloc_begin();
    if (keep_bytes != SIZE_MAX) take_all_but(keep_bytes);
    atomic_store(&left, nth);
    const zr_status st = multiply(c);
    if (st == ZR_ERR_MEMORY) return strstr(zr_error_message(), "no memory") ? 71 : MISREAD;
    for (int i = 0; i < M && st == ZR_OK; i++) {
        for (int j = 0; j < N; j++) {
            float sum = 1;
            for (int k = 0; k < K; k++) sum += (float)((i * K + k) % 5 * ((k * N + j) % 3));
            if (c[i * N + j] != sum) return WRONG;
        }
    }
    return st == ZR_OK ? 0 : MISREAD;
}

/* Return the exit status of a process in which the nth allocation fails; 128 and more: a signal ended it. */
static int outcome(long long nth)
{
    int status = 0;
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(run_with(nth));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void each_failure_is_told(void **state)
{
    (void)state;
    int pipes[2];
    long long n = 0;
    assert_int_equal(pipe(pipes), 0);
    fflush(NULL);
    if (fork() == 0) {
        const int code = run_with(0);
        (void)!write(pipes[1], &asked, sizeof asked);
        _exit(code);
    }
    int status = 0;
    assert_true(wait(&status) > 0);
    assert_int_equal(status, 0);
    assert_int_equal(read(pipes[0], &n, sizeof n), sizeof n);
    assert_true(n > 100);
    /* The first and the last allocations are tested one by one, and a sample of the rest: generating the product's code
     * takes thousands. */
    const long long each = is_long_run() ? 1000 : 40, part = is_long_run() ? 100 : 6;
    for (long long i = 1; i <= n; i += i < each || i + 100 > n ? 1 : i / part) {
        const int is = outcome(i);
        if (is != 71) fail_msg("allocation %lld of %lld: %d", i, n, is);
    }
    assert_int_equal(outcome(n + 1), 0);
}

/* Check that the reserve is large enough for the library to finish if the address space can hardly grow. */
static void what_is_put_by_is_enough(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* shadow memory is most of the address space */
#endif
    int told = 0;
    for (int kb = 0; kb < 4096; kb += 128) {
        int status = 0;
        fflush(NULL);
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            keep_bytes = (size_t)kb << 10;
            _exit(run_with(0));
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        const int is = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (is != 71 && is != 0) fail_msg("%d kB more: %d", kb, is);
        told += is == 71;
    }
    assert_true(told > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_failure_is_told),
        cmocka_unit_test(what_is_put_by_is_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
