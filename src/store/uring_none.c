/* Replaces uring.c in builds where liburing was not found. */
#include "store/transfer.h"

zr_status zr__uring_create(int depth, void **object)
{
    (void)depth;
    *object = NULL;
    return ZR_FAIL(ZR_ERR_UNSUPPORTED, "zr was built without liburing (`make info` shows what the build looked for); "
                                       "use ZR_STORE=threads");
}

/* The functions below are never called with an object, since zr__uring_create always fails. */

void zr__uring_destroy(void *object)
{
    (void)object;
}

int zr__uring_begin(void *object, zr__transfer *transfer)
{
    (void)object, (void)transfer;
    return -1;
}

zr__transfer *zr__uring_await(void *object)
{
    (void)object;
    return NULL;
}

bool zr__uring_pin(void *object, void *memory, int64_t bytes)
{
    (void)object, (void)memory, (void)bytes;
    return false;
}
