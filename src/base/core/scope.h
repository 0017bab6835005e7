/** Variables that are released at the end of their block, like jansson's json_auto_t, so that a function may return
 * from any place. Also a macro that prints a function's variable arguments. */
#ifndef ZR_BASE_SCOPE_H
#define ZR_BASE_SCOPE_H

#include "zr/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/** Declare a variable whose address is passed to `release` at the end of the block. It must have an initial value:
 *     ZR_AUTO(zr_plan_destroy) zr_plan *plan = NULL; */
#define ZR_AUTO(release) __attribute__((cleanup(release)))
/** Declare a pointer to memory of zr_alloc that is freed at the end of the block. */
#define ZR_AUTO_FREE ZR_AUTO(zr__free_at)

/** Evaluate to the value of a pointer variable and set the variable to NULL, so that its block does not release it. */
#define ZR_TAKE(pointer)                                                                                               \
    __extension__({                                                                                                    \
        __typeof__(pointer) zr_taken_ = (pointer);                                                                     \
        (pointer) = NULL;                                                                                              \
        zr_taken_;                                                                                                     \
    })

/** Print the variable arguments of a function, which follow its parameter `format`, into an array of chars. */
#define ZR_PRINT_ARGS(array, format)                                                                                   \
    do {                                                                                                               \
        va_list zr_args_;                                                                                              \
        va_start(zr_args_, format);                                                                                    \
        (void)vsnprintf((array), sizeof(array), (format), zr_args_);                                                   \
        va_end(zr_args_);                                                                                              \
    } while (0)

static inline void zr__free_at(void *variable)
{
    void *memory;
    memcpy(&memory, variable, sizeof(memory));
    zr_free(memory);
}

#endif
