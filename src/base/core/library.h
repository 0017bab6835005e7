/**
 * Optional libraries, loaded at their first use, so that zr can be built and run without them.
 */
#ifndef ZR_BASE_LIBRARY_H
#define ZR_BASE_LIBRARY_H

#include "zr/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An optional library, and the functions that zr calls in it. */
typedef struct zr__library {
    const char *name, *purpose;  /* name and purpose for messages, such as "cuBLASLt" and "products of matrices" */
    const char *const *file;     /* candidate file names, best first, ending with NULL */
    const char *const *function; /* names of the needed functions, ending with NULL */
} zr__library;

/** Load the library from the folders that the system's loader searches, or else from NVIDIA's packages for Python.
 * Write the addresses of its functions to `table`, a struct of function pointers in the order of library->function. The
 * library stays loaded until the process ends. If the library or a function is missing, fail with ZR_ERR_UNSUPPORTED
 * and a message that names it. */
ZR_NODISCARD zr_status zr__library_open(const zr__library *library, void *table);

#ifdef __cplusplus
}
#endif
#endif
