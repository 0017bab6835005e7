//TEST timeout=60
/* The fuzzer's corpus of tables, replayed through the fuzz target. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fuzz/table.c"
#include "support/corpus_replay.h"

static void corpus_is_survived(void **state)
{
    (void)state;
    corpus_replay("table", 9, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(corpus_is_survived)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
