/* The communicator of one rank. comm.c handles every call that would need a peer. */
#include "comm/transport.h"

typedef struct comm_self {
    zr_comm comm;
    zr_comm_board board, *boards;
    int name;
} comm_self;

static void destroy_self(zr_comm *comm)
{
    zr_free(comm->staging);
    zr__comm_finish(comm);
    zr_free(comm);
}

static zr_status split_self(zr_comm *comm, const zr__group *group, zr_comm **sub)
{
    (void)comm;
    if (group->size > 0) ZR_TRY(zr_comm_create_self(sub));
    return ZR_OK;
}

static void abort_self(zr_comm *comm, int code)
{
    (void)comm, (void)code; /* do nothing, since a single rank has no peers to stop */
}

static const zr_comm_ops ops_self = {
    .destroy = destroy_self,
    .split = split_self,
    .staging = zr__comm_own_staging,
    .abort = abort_self,
};

zr_status zr_comm_create_self(zr_comm **comm)
{
    ZR_CHECK(comm, ZR_ERR_ARG, "zr_comm_create_self needs a place for the communicator");
    *comm = NULL;
    comm_self *me = zr_alloc(sizeof *me);
    ZR_CHECK(me, ZR_ERR_MEMORY, "no memory for a communicator");
    zr_status st = zr__comm_init(&me->comm, &ops_self, "self", 0, 1, &me->name);
    if (st != ZR_OK) {
        destroy_self(&me->comm);
        return zr_error_frame(st, __func__, __FILE__, __LINE__);
    }
    me->boards = &me->board;
    zr__comm_set_boards(&me->comm, &me->board, &me->boards, 1);
    *comm = &me->comm;
    return ZR_OK;
}
