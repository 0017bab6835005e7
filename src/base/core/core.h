/**
 * base/core: the basis of the process: memory and growing arrays (grow.h), errors, the clock, threads (thread.h),
 * counters, and libraries loaded at run time (library.h). Nothing here depends on files, text or models.
 */
#ifndef ZR_BASE_CORE_CORE_H
#define ZR_BASE_CORE_CORE_H

#include "zr/base.h"

/** Return the total bytes that zr_alloc has given to this thread so far, including memory freed since. The difference
 * before and after a call is the memory that the call allocated. */
int64_t zr__alloc_taken(void);

/** The first failure of a task that continues after a failure or runs on another thread. It is reported later, on the
 * caller's thread. */
typedef struct zr__failure {
    zr_status status; /* ZR_OK until a failure is noted */
    char message[1024];
} zr__failure;
/** Store `st` with this thread's last message, unless `st` is ZR_OK or a failure is already stored. */
void zr__failure_note(zr__failure *failure, zr_status st);
/** Return ZR_OK, or fail with the stored status and message. */
zr_status zr__failure_tell(const zr__failure *failure);

/** Map the pages of `memory` before its first use, without changing its contents, so that the first user takes no page
 * faults. Other threads may use the memory meanwhile. Do nothing where the system cannot do this. */
void zr__alloc_populate(void *memory, int64_t bytes);

/** Return the sizes m, n and k of a matrix product in ascending order. */
zr_product_sizes zr__product_sizes_of(int64_t m, int64_t n, int64_t k);

/** Return whether `a` and `b` give the same scratch size for every op. Device names are not compared. */
bool zr__device_facts_same(const zr_device_facts *a, const zr_device_facts *b);

/** Return the FLOP/s to assume for a matrix product: the rate measured for the nearest sizes in that type, compared by
 * ratios of sizes. Return the type's peak if the machine has no measured rates or `sizes` are zeros. */
double zr__machine_flops(const zr_machine *machine, bool bf16, zr_product_sizes sizes);

/** Return the link speed to assume for every exchange: the speed of the widest level whose rate is known. A plan does
 * not know which hosts its ranks run on, and no exchange of all ranks is faster than the widest level. Return zeros if
 * no rate is known. */
zr_link zr__machine_link(const zr_machine *machine);

#endif
