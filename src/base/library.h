/**
 * Libraries that are looked for when something first needs them, so that zr is built, and runs, without them.
 */
#ifndef ZR_BASE_LIBRARY_H
#define ZR_BASE_LIBRARY_H

#include "zr/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A library and what of it is used. */
typedef struct zr__library {
    const char *name, *purpose;  /* "cuBLASLt", "products of matrices": for messages */
    const char *const *file;     /* names of its file, the best first; NULL ends them */
    const char *const *function; /* names of functions; NULL ends them */
} zr__library;

/** Load the library and write the addresses of its functions to `table`, whose fields are pointers to functions in the
 *  order of their names. It stays loaded as long as the process runs. ZR_ERR_UNSUPPORTED says what is missing and what
 *  the loader said. */
ZR_NODISCARD zr_status zr__library_open(const zr__library *library, void *table);

#ifdef __cplusplus
}
#endif
#endif
