/* The list of I/O backends (zr__mover), and the environment variable that selects one. */
#include "store/transfer.h"

#include "base/text/text.h"

#include <stdlib.h>
#include <string.h>

static const zr__mover uring = {
    "io_uring", zr__uring_create, zr__uring_destroy, zr__uring_begin, zr__uring_await, zr__uring_pin,
};
static const zr__mover threads = {
    "threads", zr__threads_create, zr__threads_destroy, zr__threads_begin, zr__threads_await, zr__threads_pin,
};

const zr__mover *const zr__movers[] = {&uring, &threads, NULL};

zr_status zr__mover_asked(const zr__mover **mover)
{
    const char *name = getenv("ZR_STORE");
    *mover = NULL;
    if (!name || !*name) return ZR_OK;
    for (int i = 0; zr__movers[i]; i++)
        if (strcmp(zr__movers[i]->name, name) == 0) *mover = zr__movers[i];
    ZR_CHECK(*mover, ZR_ERR_CONFIG, "ZR_STORE is \"%s\"; expected io_uring or threads", ZR_SHOWN(name));
    return ZR_OK;
}
