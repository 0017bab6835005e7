/* Status texts, and the message and trace of this thread's last failure. */
#include "base/core/core.h"
#include "base/core/names.h"
#include "zr/base.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { MESSAGE_BYTES = 2048, TRACE_BYTES = 2048 };

static _Thread_local char last_message[MESSAGE_BYTES];
static _Thread_local char last_trace[TRACE_BYTES];

const char *zr_status_text(zr_status status)
{
    ZR__NAME_IN(ZR_STATUS_LIST, ZR_STATUS_COUNT, status, "unknown status");
}

const char *zr_error_message(void)
{
    return last_message;
}

const char *zr_error_trace(void)
{
    return last_trace;
}

zr_status zr_error_frame(zr_status status, const char *function, const char *file, int line)
{
    size_t used = strlen(last_trace);
    snprintf(last_trace + used, TRACE_BYTES - used, "%s (%s:%d)\n", function, file, line);
    return status;
}

zr_status zr_error_set(zr_status status, const char *function, const char *file, int line, const char *format, ...)
{
    /* Format into a separate buffer, because the old message may be one of the arguments: callers add context to it. */
    char message[MESSAGE_BYTES];
    ZR_PRINT_ARGS(message, format);
    memcpy(last_message, message, strlen(message) + 1);
    last_trace[0] = '\0';
    return zr_error_frame(status, function, file, line);
}

void zr__failure_note(zr__failure *failure, zr_status st)
{
    if (st == ZR_OK || failure->status != ZR_OK) return;
    failure->status = st;
    snprintf(failure->message, sizeof(failure->message), "%s", zr_error_message());
}

zr_status zr__failure_tell(const zr__failure *failure)
{
    return failure->status == ZR_OK ? ZR_OK : ZR_FAIL(failure->status, "%s", failure->message);
}

const char *zr__error_text(int error)
{
    static _Thread_local char text[192];
    struct rlimit files;
    if (error != EMFILE || getrlimit(RLIMIT_NOFILE, &files) != 0) return strerror(error);
    snprintf(text, sizeof(text), "%s: a process may have %llu; allow more (ulimit -n 65536), or run fewer ranks in one",
             strerror(error), (unsigned long long)files.rlim_cur);
    return text;
}
