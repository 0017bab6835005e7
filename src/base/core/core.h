/**
 * base/core: memory and growing arrays (grow.h), errors, the clock, threads (thread.h), counters, and libraries loaded
 * at run time (library.h). This folder does not depend on files, text or models.
 */
#ifndef ZR_BASE_CORE_CORE_H
#define ZR_BASE_CORE_CORE_H

#include "base/core/scope.h"

/** Return how many bytes zr_alloc has allocated on this thread so far. Freed memory is not subtracted. The difference
 * between two calls is the memory allocated in between. */
int64_t zr__alloc_taken(void);

/** The first failure of a task that continues after a failure or runs on another thread. The failure is stored here
 * until the caller's thread reports it. */
typedef struct zr__failure {
    zr_status status; /* status of the first failure, or ZR_OK if nothing has failed yet */
    char message[1024];
} zr__failure;
/** Store `st` with this thread's last message, unless `st` is ZR_OK or a failure is already stored. */
void zr__failure_note(zr__failure *failure, zr_status st);
/** Return ZR_OK, or fail with the stored status and message. */
zr_status zr__failure_tell(const zr__failure *failure);

/** Return the system's text for an error number. If a limit on open files was the cause, add how to raise it. The text
 * is valid until this thread's next call. */
const char *zr__error_text(int error);

/** Make the system allocate all pages of `memory` now, so that its first use causes no page faults. The contents do not
 * change, and other threads may use the memory meanwhile. If the system cannot do this, do nothing. */
void zr__alloc_populate(void *memory, int64_t bytes);

/** Return the sizes m, n and k of a matrix product in ascending order. */
zr_product_sizes zr__product_sizes_of(int64_t m, int64_t n, int64_t k);

/** Return whether the devices `a` and `b` need the same scratch memory for every op. Names are not compared. */
bool zr__device_facts_same(const zr_device_facts *a, const zr_device_facts *b);

/** Return the FLOP/s to assume for a matrix product. The result is the rate measured in the same type for the product
 * with the most similar sizes. The similarity is judged by the ratios of the sizes. Return the type's peak if the
 * machine has no measured rates or if `sizes` are zeros. */
double zr__machine_flops(const zr_machine *machine, bool bf16, zr_product_sizes sizes);

/** Return the link to assume for every exchange: the outermost level with a known rate. Links between hosts are further
 * out than links within a host. An exchange of all ranks cannot be faster than the outermost level, and a plan does not
 * know which ranks share a host. Return zeros if no rate is known. */
zr_link zr__machine_link(const zr_machine *machine);

/** Return the name of a category, such as "work". */
const char *zr__category_name(zr_category category);

/** Count bytes of a category as used (_take) or as no longer used (_give). */
void zr__ledger_take(zr_ledger *ledger, zr_category category, int64_t bytes);
void zr__ledger_give(zr_ledger *ledger, zr_category category, int64_t bytes);

/** Add `bytes` to the traffic of `kind`. Only transports call this function, when they move bytes. */
void zr__traffic_count(zr_traffic *traffic, zr_traffic_kind kind, int64_t bytes);

/** Return the result of facts->scratch_bytes for an op, or 0 if that function pointer is NULL. */
int64_t zr__device_facts_scratch(const zr_device_facts *facts, const struct zr_graph *graph, const struct zr_op *op);

#endif
