#include "base/core/thread.h"

#include <errno.h>
#include <signal.h>

int zr__thread_start(pthread_t *thread, size_t stack_bytes, void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    sigset_t all, before;
    int error = pthread_attr_init(&attr);
    if (error != 0) return error;
    if (stack_bytes > 0) (void)pthread_attr_setstacksize(&attr, stack_bytes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, &attr, run, arg);
    /* The stack also holds the program's thread-local variables. If they do not fit, use the default stack size. */
    if (error == EINVAL && stack_bytes > 0) error = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return error;
}
