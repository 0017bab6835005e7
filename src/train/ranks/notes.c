#include "train/ranks/ranks.h"

#include "base/text/text.h"
#include "comm/comm.h"

#include <stdarg.h>
#include <stdio.h>

/* Seconds from the beginning of long work to its first progress note (QUIET_SEC), and between later notes (NEWS_SEC).
 */
#define QUIET_SEC 3.0
#define NEWS_SEC 15.0

enum { LINE_BYTES = ZR__WHY_BYTES + 512 };

const char *zr__run_why(char why[ZR__WHY_BYTES])
{
    snprintf(why, ZR__WHY_BYTES, "%s", zr_error_message());
    return why;
}

void zr__run_enter(const zr__ranks *r, zr__phase phase)
{
    zr__comm_show(r->comm, ZR__PHASE_SHOWN, zr__phase_shown(phase, r->result->steps));
    if (r->observer->reached && phase != ZR__PHASE_TRAIN && phase != ZR__PHASE_TRAIN_AND_SAVE)
        r->observer->reached(r->observer->arg, r->comm->rank, zr__phase_name(phase), r->result->steps);
}

/** Format a line and pass it to `fn`, a function of the observer, which may be NULL. */
static void tell_observer(const zr__ranks *r, void (*fn)(void *arg, const char *text), const char *format, va_list args)
{
    char text[LINE_BYTES];
    if (r->comm->rank != 0 || !fn) return;
    vsnprintf(text, sizeof(text), format, args);
    fn(r->observer->arg, text);
}

void zr__run_note(const zr__ranks *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tell_observer(r, r->observer->note, format, args);
    va_end(args);
}

void zr__run_warn(const zr__ranks *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tell_observer(r, r->observer->warn ? r->observer->warn : r->observer->note, format, args);
    va_end(args);
}

void zr__run_progress(void *arg, int64_t done, int64_t all)
{
    zr__progress *p = arg;
    zr__comm_show(p->ranks->comm, ZR_ENGINE_MOVED, (uint64_t)done);
    if (p->next_news == 0) p->next_news = zr_clock_sec() + QUIET_SEC;
    if (zr_clock_sec() < p->next_news) return;
    p->next_news = zr_clock_sec() + NEWS_SEC;
    zr__run_note(p->ranks, "%s before the first step: %s of %s", p->what, ZR_SIZE((double)done), ZR_SIZE((double)all));
}
