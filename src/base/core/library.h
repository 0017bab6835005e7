/**
 * Libraries that are loaded at their first use, so that zr is built and runs without them.
 */
#ifndef ZR_BASE_LIBRARY_H
#define ZR_BASE_LIBRARY_H

#include "zr/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An optional library and the functions that zr uses of it. */
typedef struct zr__library {
    const char *name, *purpose;  /* "cuBLASLt", "products of matrices": for messages */
    const char *const *file;     /* names of its file, the best first; NULL ends them */
    const char *const *function; /* names of functions; NULL ends them */
} zr__library;

/** Load the library and write the addresses of its functions to `table`, a struct of function pointers in the order
 * of the names. It stays loaded until the process ends. ZR_ERR_UNSUPPORTED: the message says which file or function is
 * missing, and the loader's reason. */
ZR_NODISCARD zr_status zr__library_open(const zr__library *library, void *table);

#ifdef __cplusplus
}
#endif
#endif
