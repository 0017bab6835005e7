/** Start of threads for the library. */
#ifndef ZR_BASE_THREAD_H
#define ZR_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/** Start a thread with pthread_create. Its stack has stack_bytes, or the default size if 0 or if the program's
 * thread-local variables do not fit stack_bytes. All signals are blocked in the thread, so that the program's own
 * threads handle signals. Return 0, or pthread_create's error number. */
int zr__thread_start(pthread_t *thread, size_t stack_bytes, void *(*run)(void *), void *arg);

#endif
