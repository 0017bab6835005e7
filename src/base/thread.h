/** Threads of the library's own. */
#ifndef ZR_BASE_THREAD_H
#define ZR_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/** pthread_create with a stack of so many bytes (0: the usual), all signals blocked: they are for the threads that know
 *  them. The error, 0: none. */
int zr__thread_start(pthread_t *thread, size_t stack_bytes, void *(*run)(void *), void *arg);

#endif
