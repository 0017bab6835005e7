#include "cli/shell/line.h"
#include "cli/shell/many.h"
#include "train/host/host.h"

#include <stdio.h>
#include <pthread.h>

#define MOST_THREADS 4 /* maximum number of threads; each may hold a plan of 100 MB */

typedef struct pieces {
    cli_piece *piece;
    void *arg;
    cli_amount_done *shown; /* progress to show, or NULL */
    pthread_mutex_t lock;   /* protects the following members */
    int64_t n, next, done;
    int64_t failed; /* lowest index of a piece that failed, or -1 */
    zr_status status;
    char message[1024];
} pieces;

static int64_t next_piece(pieces *w)
{
    pthread_mutex_lock(&w->lock);
    const int64_t i = w->next < w->n && w->failed < 0 ? w->next++ : -1;
    pthread_mutex_unlock(&w->lock);
    return i;
}

/* Record the end of piece `i`. If several pieces fail, keep the failure with the lowest index. The kept failure does
 * not depend on the order of the threads, because pieces begin in the order of their indices. */
static void end_piece(pieces *w, int64_t i, zr_status st)
{
    pthread_mutex_lock(&w->lock);
    w->done++;
    if (st != ZR_OK && (w->failed < 0 || i < w->failed)) {
        w->failed = i;
        w->status = st;
        snprintf(w->message, sizeof(w->message), "%s", zr_error_message());
    }
    if (w->shown) cli_show_done(w->shown, w->done, w->n);
    pthread_mutex_unlock(&w->lock);
}

static void *do_pieces(void *arg)
{
    pieces *w = arg;
    for (int64_t i = next_piece(w); i >= 0; i = next_piece(w)) end_piece(w, i, w->piece(w->arg, i));
    return NULL;
}

zr_status cli_many(int64_t n, cli_piece *piece, void *arg, const char *what)
{
    pthread_t thread[MOST_THREADS];
    cli_amount_done shown = {.what = what};
    pieces w = {.piece = piece, .arg = arg, .n = n, .failed = -1};
    const int cores = zr__host_cores();
    int started = 0, wanted = (cores < MOST_THREADS ? cores : MOST_THREADS) - 1;
    if (what && cli_live()) w.shown = &shown;
    pthread_mutex_init(&w.lock, NULL);
    while (started < wanted && started < n - 1 && pthread_create(&thread[started], NULL, do_pieces, &w) == 0) started++;
    (void)do_pieces(&w);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
    pthread_mutex_destroy(&w.lock);
    if (w.shown) cli_line_clear();
    return w.failed >= 0 ? ZR_FAIL(w.status, "%s", w.message) : ZR_OK;
}
