/* Counts the allocations of zr that are not freed yet, and makes one of them fail. The test is linked with
 * -Wl,--wrap=zr_alloc,--wrap=zr_free. */
#ifndef ALLOCATIONS_H
#define ALLOCATIONS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <string.h>

#include "zr/base.h"

static atomic_long alloc_made;      /* allocations so far */
static atomic_long alloc_live;      /* allocations that are not freed */
static atomic_long alloc_left = -1; /* allocations that succeed before one fails; negative: all succeed */

void *__real_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes)
{
    if (atomic_load(&alloc_left) >= 0 && atomic_fetch_sub(&alloc_left, 1) == 0) return NULL;
    void *memory = __real_zr_alloc(bytes);
    atomic_fetch_add(&alloc_made, 1);
    if (memory) atomic_fetch_add(&alloc_live, 1);
    return memory;
}

void __real_zr_free(void *memory);
void __wrap_zr_free(void *memory);
void __wrap_zr_free(void *memory)
{
    if (memory) atomic_fetch_sub(&alloc_live, 1);
    __real_zr_free(memory);
}

/* Part of the message of an allocation whose failure is no error, or NULL. */
static const char *alloc_forgiven;

/* Do some work again and again while each of its allocations, from number `first` on, fails in turn: it says that
 * memory is short, and frees what it has. */
static inline void expect_each_allocation_fails(zr_status (*work)(void *arg), void *arg, long first)
{
    for (long n = first;; n++) {
        const long live = atomic_load(&alloc_live);
        atomic_store(&alloc_left, n);
        const zr_status st = work(arg);
        const bool hit = atomic_exchange(&alloc_left, -1) < 0;
        if (atomic_load(&alloc_live) != live)
            fail_msg("allocation %ld fails: %ld others are not freed", n, atomic_load(&alloc_live) - live);
        if (st == ZR_OK && hit && alloc_forgiven && strstr(zr_error_message(), alloc_forgiven)) continue;
        if (st != (hit ? ZR_ERR_MEMORY : ZR_OK))
            fail_msg("allocation %ld %s: status %d, %s", n, hit ? "fails" : "works", (int)st, zr_error_message());
        if (!hit) return;
        if (!zr_error_message()[0]) fail_msg("allocation %ld fails without a message", n);
    }
}

#endif
