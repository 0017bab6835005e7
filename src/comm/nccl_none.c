/* Replaces nccl.c in builds where CUDA, NCCL's header or MPI was not found. */
#include "comm/nccl_comm.h"

zr_status zr__nccl_create(zr_comm *comm, const zr_comm_copier *copier, zr__nccl_poll_fn poll, zr__nccl **nccl)
{
    (void)comm, (void)copier, (void)poll;
    *nccl = NULL;
    return ZR_FAIL(ZR_ERR_UNSUPPORTED, "several processes on GPUs need NCCL, but zr was built without it (`make info` "
                                       "shows what the build looked for); " ZR__NCCL_INSTEAD);
}

void zr__nccl_destroy(zr__nccl **nccl)
{
    *nccl = NULL;
}

void zr__nccl_lines_destroy(zr__nccl_lines **lines)
{
    *lines = NULL;
}

zr_status zr__nccl_lines_failure(const zr__nccl_lines *lines)
{
    (void)lines;
    return ZR_OK;
}

zr_status zr__nccl_channel(zr_comm *comm, zr__nccl_lines **lines, const zr__route *route, const zr_comm_copier *copier,
                           zr__nccl_poll_fn poll, zr__channel **channel)
{
    (void)route, (void)lines, (void)channel;
    zr__nccl *none;
    return zr__nccl_create(comm, copier, poll, &none);
}

/* The functions below are never called, since zr__nccl_create always fails. */

zr_status zr__nccl_copy_with(zr__nccl *nccl, const zr_comm_copier *copier)
{
    (void)nccl, (void)copier;
    ZR_ASSERT(false);
    return ZR_OK;
}

zr_status zr__nccl_failure(zr__nccl *nccl)
{
    (void)nccl;
    ZR_ASSERT(false);
    return ZR_OK;
}

bool zr__nccl_takes(const zr__nccl *nccl, const void *memory)
{
    (void)nccl, (void)memory;
    return false;
}

zr_status zr__nccl_staging(zr__nccl *nccl, int64_t bytes, unsigned char **staging)
{
    (void)nccl, (void)bytes, (void)staging;
    ZR_ASSERT(false);
    return ZR_OK;
}

zr_status zr__nccl_exchange(zr__nccl *nccl, const void *send, int64_t stride_bytes, int64_t piece_bytes,
                            int64_t grain_bytes, zr_comm_arrived_fn fn, void *arg)
{
    (void)nccl, (void)send, (void)stride_bytes, (void)piece_bytes, (void)grain_bytes, (void)fn, (void)arg;
    ZR_ASSERT(false);
    return ZR_OK;
}

zr_status zr__nccl_gather(zr__nccl *nccl, const void *mine, void *out, int64_t stride_bytes, int64_t piece_bytes)
{
    (void)nccl, (void)mine, (void)out, (void)stride_bytes, (void)piece_bytes;
    ZR_ASSERT(false);
    return ZR_OK;
}

zr_status zr__nccl_reduce_scatter(zr__nccl *nccl, void *data, zr_dtype dtype, int64_t piece_elems)
{
    (void)nccl, (void)data, (void)dtype, (void)piece_elems;
    ZR_ASSERT(false);
    return ZR_OK;
}

zr_status zr__nccl_connect(zr_comm *comm, zr__nccl_lines *lines, void *memory)
{
    (void)comm, (void)lines, (void)memory;
    ZR_ASSERT(false);
    return ZR_OK;
}
