/** Threads that the library starts. */
#ifndef ZR_BASE_THREAD_H
#define ZR_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/** Call pthread_create with a stack of stack_bytes (0 for the default) and all signals blocked, so that signals are
 * handled by the program's own threads. Return pthread_create's error number, 0 on success. */
int zr__thread_start(pthread_t *thread, size_t stack_bytes, void *(*run)(void *), void *arg);

#endif
