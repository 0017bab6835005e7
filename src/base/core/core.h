/**
 * base/core: the process: memory and growing arrays (grow.h), errors, clock, threads (thread.h), counters, libraries
 * loaded at run time (library.h). Nothing here knows of files, text or models.
 */
#ifndef ZR_BASE_CORE_CORE_H
#define ZR_BASE_CORE_CORE_H

#include "zr/base.h"

/** Return the bytes that zr_alloc has given to this thread so far, freed memory included. The difference around a call
 *  is the memory that the call allocated. */
int64_t zr__alloc_taken(void);

/** The first failure of a task that goes on, or that another thread does: told later, on the caller's thread. */
typedef struct zr__failure {
    zr_status status; /* ZR_OK: none yet */
    char message[1024];
} zr__failure;
/** Remember this thread's last message with `st`, unless it is ZR_OK or an earlier failure is remembered. */
void zr__failure_note(zr__failure *failure, zr_status st);
/** Return ZR_OK, or fail with the remembered status and message. */
zr_status zr__failure_tell(const zr__failure *failure);

/** Back memory with pages before its first use, without changing a byte of it, so that its first user takes no page
 *  faults. Other threads may use the memory meanwhile. Where the system cannot do this, nothing happens. */
void zr__alloc_populate(void *memory, int64_t bytes);

/** Return the three sizes of a product in ascending order. */
zr_product_sizes zr__product_sizes_of(int64_t m, int64_t n, int64_t k);

/** Return whether every op needs the same scratch with both facts. Names are not compared. */
bool zr__device_facts_same(const zr_device_facts *a, const zr_device_facts *b);

/** Return the FLOP/s at which a product is priced: the rate of the nearest sizes that the machine has in
 *  that type, by the ratios of sizes; the type's peak where the machine has none or `sizes` are zeros. */
double zr__machine_flops(const zr_machine *machine, bool bf16, zr_product_sizes sizes);

/** Return the link at which all exchanges are priced: the widest level with a known rate, since a plan does not know on
 *  which hosts its ranks are and no exchange of all ranks is faster. Zeros: no rate is known. */
zr_link zr__machine_link(const zr_machine *machine);

#endif
