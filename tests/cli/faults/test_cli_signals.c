//TEST timeout=60
/* Signals during a run: the first asks it to stop and is answered at once, the next one ends the process. */
#include "cli/shell/signals.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/wait.h>

static int at = TRAINING; /* place of the run at which the signals arrive */

/* Send signals (ended by 0) to a process that catches them. Return its wait status and write its output to `said`. */
static int send_all(const int *signals, bool ignored, char *said, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        if (ignored) signal(SIGHUP, SIG_IGN);
        cli_signals_catch(true, false);
        if (at != STARTING) cli_signals_training(true);
        if (at == ENDED) cli_signals_training(false);
        for (int i = 0; signals[i]; i++) raise(signals[i]);
        _exit(cli_signals_asked(NULL) ? 75 : 0);
    }
    close(ends[1]);
    ssize_t n = 0, got;
    while ((got = read(ends[0], said + n, size - 1 - (size_t)n)) > 0) n += got;
    said[n] = '\0';
    close(ends[0]);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static const char both[] = "zr: stopping after this step, then saving; once more: stop now, unsaved\n";

static void the_first_asks(void **state)
{
    (void)state;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    char said[400];
    for (int i = 0; i < 4; i++) {
        const int once[] = {numbers[i], 0};
        int status = send_all(once, false, said, sizeof said);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 75);
        assert_string_equal(said, i < 2 ? both : "zr: stopping after this step, then saving\n");
    }
}

static void the_second_acts(void **state)
{
    (void)state;
    static const int first[] = {SIGINT, SIGTERM};
    char said[400];
    for (int i = 0; i < 2; i++) {
        const int twice[] = {first[i], SIGINT, 0};
        int status = send_all(twice, false, said, sizeof said);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGINT);
    }
}

/* Check that the warning signal before the end of a job does not count as the first of two. */
static void a_warning_does_not_count(void **state)
{
    (void)state;
    static const int warning[] = {SIGHUP, SIGUSR1}, urge[] = {SIGINT, SIGTERM};
    static const char warned[] = "zr: stopping after this step, then saving\n";
    char said[400];
    for (int i = 0; i < 4; i++) {
        const int numbers[] = {warning[i / 2], urge[i % 2], 0}, more[] = {warning[i / 2], urge[i % 2], SIGINT, 0};
        int status = send_all(numbers, false, said, sizeof said);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 75);
        assert_memory_equal(said, warned, sizeof warned - 1);
        assert_string_equal(said + sizeof warned - 1, both);
        status = send_all(more, false, said, sizeof said);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGINT);
    }
}

/* Check signals before and after training, when there is no step to finish. With peers, SIGTERM then comes from a
 * launcher, which has already reported the cause. */
static void only_training_has_steps(void **state)
{
    (void)state;
    static const char starting[] = "zr: stopping when training begins; once more: stop now\n";
    static const char *const saved[] = {"zr: saving after the first step, then going on\n",
                                        "zr: saving after this step, then going on\n", ""};
    static const int terminated[] = {SIGTERM, 0}, interrupted[] = {SIGINT, 0}, save[] = {SIGUSR2, 0};
    char said[400];
    for (at = STARTING; at <= ENDED; at++) {
        const char *answer = at == STARTING ? starting : at == TRAINING ? both : "";
        int status = send_all(terminated, false, said, sizeof said);
        assert_int_equal(WEXITSTATUS(status), 75);
        assert_string_equal(said, answer);
        (void)send_all(interrupted, false, said, sizeof said);
        assert_string_equal(said, answer);
        (void)send_all(save, false, said, sizeof said);
        assert_string_equal(said, saved[at]);
        zr_comm *comm = NULL;
        assert_int_equal(zr_comm_create_self(&comm), ZR_OK);
        cli_signals_peers(comm, 83);
        (void)send_all(terminated, false, said, sizeof said);
        cli_signals_peers(NULL, 0);
        zr_comm_destroy(&comm);
        assert_string_equal(said, at == TRAINING ? both : "");
    }
    at = TRAINING;
}

/* Check that a second SIGTERM from a launcher, immediately after the first, does not count as a second request. */
static void twice_at_once_is_once(void **state)
{
    (void)state;
    static const int twice[] = {SIGTERM, SIGTERM, SIGUSR1, SIGHUP, 0};
    char said[400];
    int status = send_all(twice, false, said, sizeof said);
    assert_true(WIFEXITED(status));
    assert_string_equal(said, both);
    assert_true(is_repeated(SIGINT, 0) && is_repeated(SIGTERM, 2));
    assert_false(is_repeated(SIGTERM, 1) || is_repeated(SIGUSR1, 9) || is_repeated(SIGHUP, 9));
}

/* Check that a handler preserves errno, because the signal may arrive between a failed system call and the code that
 * reads errno. */
static void errno_is_kept(void **state)
{
    (void)state;
    int kept = dup(STDERR_FILENO);
    close(STDERR_FILENO); /* the handler's own write fails */
    speaks = true;
    errno = ENOSPC;
    on_signal(SIGUSR1);
    int after = errno;
    dup2(kept, STDERR_FILENO);
    close(kept);
    assert_true(cli_signals_asked(NULL));
    assert_int_equal(after, ENOSPC);
}

static void under_nohup(void **state)
{
    (void)state;
    static const int once[] = {SIGHUP, 0};
    char said[400];
    int status = send_all(once, true, said, sizeof said);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_string_equal(said, "");
}

/* Check that a request to save does not stop a run, before or after a signal that does, and is answered once. */
static void saving_goes_on(void **state)
{
    (void)state;
    static const int save[] = {SIGUSR2, SIGUSR2, 0}, both_kinds[] = {SIGUSR2, SIGTERM, 0};
    static const char saving[] = "zr: saving after this step, then going on\n";
    char said[400];
    int status = send_all(save, false, said, sizeof said);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_string_equal(said, saving);
    status = send_all(both_kinds, false, said, sizeof said);
    assert_int_equal(WEXITSTATUS(status), 75);
    assert_memory_equal(said, saving, sizeof saving - 1);
    assert_string_equal(said + sizeof saving - 1, both);
    on_save(SIGUSR2);
    assert_true(cli_signals_save(NULL));
    assert_false(cli_signals_save(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_asks),          cmocka_unit_test(the_second_acts),
        cmocka_unit_test(only_training_has_steps), cmocka_unit_test(a_warning_does_not_count),
        cmocka_unit_test(twice_at_once_is_once),   cmocka_unit_test(under_nohup),
        cmocka_unit_test(saving_goes_on),          cmocka_unit_test(errno_is_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
