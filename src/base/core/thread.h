/** Threads that the library starts. */
#ifndef ZR_BASE_THREAD_H
#define ZR_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/** Call pthread_create with a stack of stack_bytes (0: the default) and all signals blocked, so that the program's
 * own threads handle them. Return the error; 0: none. */
int zr__thread_start(pthread_t *thread, size_t stack_bytes, void *(*run)(void *), void *arg);

#endif
