/* What the thread sanitizer is told of threads that are coroutines: it sees each as a fibre of its own, and orders two
 * of them only where the code says so. Without the sanitizer nothing here has an effect.
 *
 * The functions are weak, so that they are NULL in a program without the sanitizer: code that switches between fibres
 * is compiled without instrumentation in both. */
#ifndef ZR_TESTS_CUDA_FIBRES_H
#define ZR_TESTS_CUDA_FIBRES_H

extern "C" {
void *__tsan_get_current_fiber(void) __attribute__((weak));
void *__tsan_create_fiber(unsigned flags) __attribute__((weak));
void __tsan_destroy_fiber(void *fiber) __attribute__((weak));
void __tsan_switch_to_fiber(void *fiber, unsigned flags) __attribute__((weak));
void __tsan_acquire(void *at) __attribute__((weak));
void __tsan_release(void *at) __attribute__((weak));
}

/* Return whether the thread sanitizer watches this program. */
inline bool fibres_watched()
{
    return __tsan_create_fiber;
}

inline void *fibre_current()
{
    return fibres_watched() ? __tsan_get_current_fiber() : nullptr;
}

inline void *fibre_new()
{
    return fibres_watched() ? __tsan_create_fiber(0) : nullptr;
}

/* Go on as another fibre. This orders nothing. */
inline void fibre_switch(void *to)
{
    constexpr unsigned no_order = 1;
    if (fibres_watched()) __tsan_switch_to_fiber(to, no_order);
}

/* Everything before a `tell` of an address comes before everything after a later `hear` of it. */
inline void fibre_tell(void *at)
{
    if (fibres_watched()) __tsan_release(at);
}

inline void fibre_hear(void *at)
{
    if (fibres_watched()) __tsan_acquire(at);
}

#endif
