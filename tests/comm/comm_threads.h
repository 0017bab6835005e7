/* Helpers shared by the tests whose ranks are threads. */
#ifndef COMM_THREADS_H
#define COMM_THREADS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "comm/barrier.h"
#include "comm_checks.h"
#include "zr/comm.h"

static void expect_ok(zr_status st)
{
    if (st != ZR_OK) fail_msg("%s: %s", zr_status_text(st), zr_error_message());
}

/* Make every rank but 0 wait in `comm` for a call that rank 0 never makes. Each rank cancels through `stopped`, or gets
 * the error of another rank's cancellation. */
static zr_status cancel_all_but_0(zr_comm *comm, zr_comm *stopped, _Atomic int *count)
{
    void *staging;
    ZR_TRY(zr_comm_staging(comm, comm->size * ZR_COMM_STAGING_LEAST, &staging));
    if (comm->rank == 0) {
        while (*count < comm->size - 1) usleep(1000);
        return ZR_OK;
    }
    zr_status st = check_cancel(comm, stopped);
    *count += 1;
    return st;
}

/* Check that on three ranks `run` stops two, which it counts. */
static void expect_two_stopped(zr_status (*run)(zr_comm *comm, void *count))
{
    _Atomic int count = 0;
    assert_int_equal(zr_comm_threads_run(3, run, &count), ZR_ERR_PEER);
    assert_int_equal(count, 2);
}

#endif
