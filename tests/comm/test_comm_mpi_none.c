//TEST timeout=10
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* Replaces the library's own implementation, with or without MPI. */
#include "comm/mpi_none.c"
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

static void without_mpi_it_is_refused(void **state)
{
    (void)state;
    zr_comm *comm = (zr_comm *)state;
    setenv("OMPI_COMM_WORLD_SIZE", "5", 1);
    assert_int_equal(zr_comm_mpi_start(NULL, NULL, &comm), ZR_ERR_UNSUPPORTED);
    assert_null(comm);
    assert_non_null(strstr(zr_error_message(), "5 ranks"));
    assert_non_null(strstr(zr_error_message(), "without MPI"));
    assert_string_equal(zr__comm_mpi_version(), "");
    zr_comm_mpi_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_mpi_it_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
