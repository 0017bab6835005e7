/** Transfers between files and memory, and the two I/O backends that make them (zr__mover): io_uring and threads. */
#ifndef ZR_STORE_TRANSFER_H
#define ZR_STORE_TRANSFER_H

#include "zr/base.h"

/** A read or write that has begun. Its memory must not be used until it ends. */
typedef struct zr__transfer {
    int fd;
    bool writes;
    unsigned char *memory;
    int64_t at, bytes; /* offset in the file, and number of bytes; a mover may move fewer bytes */
    int64_t result;    /* bytes that have moved, or a negative errno */
    struct zr__transfer *next;
    /* Fields of store.c, for the whole transfer, including bytes that have already moved. */
    int file;              /* index of the file */
    int slot;              /* slot of the passing buffer, or -1 */
    unsigned char *target; /* for a read through a slot: the caller's memory */
    int64_t begin, whole;  /* offset in the file, and length without padding */
    int tries;             /* number of attempts without progress */
} zr__transfer;

/** An I/O backend: functions that transfer data to or from files. Each instance (`object`) makes the transfers of one
 * direction, and only one thread at a time may use it. */
typedef struct zr__mover {
    const char *name;
    zr_status (*create)(int depth, void **object); /* depth: maximum number of transfers in flight */
    void (*destroy)(void *object);                 /* nothing may be in flight */
    /** Begin a transfer. Return 0, or a negative errno if the transfer did not begin. */
    int (*begin)(void *object, zr__transfer *transfer);
    /** Wait until one of the transfers in flight ends, and return it. */
    zr__transfer *(*await)(void *object);
    /** Pin memory as zr__store_pin does. */
    bool (*pin)(void *object, void *memory, int64_t bytes);
} zr__mover;

/** Return the mover that ZR_STORE names, or NULL if ZR_STORE is not set. Fail with ZR_ERR_CONFIG for another value. */
zr_status zr__mover_asked(const zr__mover **mover);
/** Movers, fastest first, ending with NULL. The last mover works everywhere. */
extern const zr__mover *const zr__movers[];

/* The movers' functions. They are called through the table, so that tests can replace them. */
zr_status zr__uring_create(int depth, void **object);
void zr__uring_destroy(void *object);
int zr__uring_begin(void *object, zr__transfer *transfer);
zr__transfer *zr__uring_await(void *object);
bool zr__uring_pin(void *object, void *memory, int64_t bytes);

zr_status zr__threads_create(int depth, void **object);
void zr__threads_destroy(void *object);
int zr__threads_begin(void *object, zr__transfer *transfer);
zr__transfer *zr__threads_await(void *object);
bool zr__threads_pin(void *object, void *memory, int64_t bytes);

#endif
