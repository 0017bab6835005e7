#include "data/text/encode.h"

#include "base/core/grow.h"
#include "base/core/thread.h"
#include "data/tokenizer/tokenizer.h"

#include <sched.h>

/* Usual and minimum size of a part, in bytes of text. A thread encodes one part at a time. */
#define PART_BYTES ((int64_t)256 << 10)
#define PART_LEAST_BYTES ((int64_t)64 << 10)
/* Bytes added to each thread's equal share of a short text. A part ends at a cut, often before it is full. Without the
 * additional bytes, the rest of the text could form one more part than there are threads. */
#define SHARE_SPARE_BYTES 4096
/* Maximum size in bytes of a part whose memory is reused for the next part. */
#define KEPT_BYTES ((int64_t)1 << 20)
enum { USUAL_THREADS = 8 };

typedef struct worker {
    const struct encoder *e;
    zr__part part;
    int32_t *ids; /* tokens of the part */
    int64_t room, n;
    zr__document *document; /* documents of the part; indices are within the part */
    int64_t document_room, documents;
    zr__rendered rendered; /* instruction data: the current line */
    pthread_t thread;
    bool started;
} worker;

typedef struct encoder {
    const zr__encoding *x;
    zr_tokenizer_ends ends;
    zr__parts parts;
    worker *worker;
    int n;
    int64_t usual_room; /* size in bytes above which a part's buffer is freed after use */
} encoder;

/* ---- one part -------------------------------------------------------------------------------- */

/* Note that a document begins at the next token. */
static zr_status begin_document(worker *w)
{
    ZR_GROW(w->document, w->document_room, w->documents + 1, "documents of a text");
    w->document[w->documents++] = (zr__document){w->n, w->n};
    return ZR_OK;
}

static void put_tokens(worker *w, const int32_t *tokens, int64_t n)
{
    for (int64_t i = 0; i < n; i++) w->ids[w->n++] = tokens[i];
}

/* Encode a piece of text, with the tokens that the tokenizer puts at the ends of documents. In a file of records,
 * append the separator after each document. */
static zr_status encode_text(void *arg, const char *text, int64_t bytes, int where)
{
    worker *w = arg;
    const zr__encoding *x = w->e->x;
    const zr_tokenizer_ends ends = w->e->ends;
    const bool begins = where & ZR__DOCUMENT_BEGINS;
    const int64_t room = zr_tokenizer_room(x->tokenizer, bytes) + ends.n_begin + ends.n_end + 1;
    int64_t n = 0;
    ZR_GROW(w->ids, w->room, w->n + room > w->part.room ? w->n + room : w->part.room, "tokens of a text");
    if (w->e->parts.shape && begins) ZR_TRY(begin_document(w));
    if (begins) put_tokens(w, ends.begin, ends.n_begin);
    ZR_TRY(zr__tokenizer_encode(x->tokenizer, text, bytes, !begins, w->ids + w->n, w->room - w->n, &n));
    w->n += n;
    if (!(where & ZR__DOCUMENT_ENDS)) return ZR_OK;
    put_tokens(w, ends.end, ends.n_end);
    if (w->e->parts.shape && x->separator >= 0) put_tokens(w, &x->separator, 1);
    return ZR_OK;
}

/* Render and encode a record of instruction data; a zr__record_fn. */
static zr_status encode_record(const void *of, void *arg, const json_t *record, int64_t *text_bytes, char *reason)
{
    worker *w = arg;
    const zr__instruct *x = of;
    ZR_TRY(zr__record_render(x, record, &w->rendered, text_bytes, reason));
    if (reason[0] || *text_bytes == 0) return ZR_OK;
    ZR_TRY(begin_document(w));
    ZR_TRY(zr__rendered_encode(&w->rendered, &x->chat, x->tokenizer, &w->ids, &w->room, &w->n));
    zr__document *document = &w->document[w->documents - 1];
    while (document->answer < w->n && (w->ids[document->answer] & ZR__IGNORED)) document->answer++;
    return ZR_OK;
}

/* Encode a line that is a sentence. */
static zr_status encode_sentence(const void *of, void *arg, const char *line, int64_t bytes, int64_t *text_bytes,
                                 char *reason)
{
    worker *w = arg;
    const int64_t room = zr_tokenizer_room(of, bytes);
    int64_t n = 0;
    reason[0] = '\0';
    ZR_TRY(begin_document(w));
    ZR_GROW(w->ids, w->room, w->n + room > w->part.room ? w->n + room : w->part.room, "tokens of a text");
    ZR_TRY(zr_tokenizer_encode(of, line, bytes, w->ids + w->n, w->room - w->n, &n));
    w->n += n;
    *text_bytes = n > 0 ? bytes : 0;
    return ZR_OK;
}

/* Convert the token ids in place from 4 bytes to the width of the output. */
static void narrow(worker *w)
{
    const int width = w->e->x->token_bytes;
    unsigned char *out = (unsigned char *)(void *)w->ids;
    for (int64_t i = 0; i < w->n; i++) {
        const uint32_t id = (uint32_t)w->ids[i];
        for (int b = 0; b < width; b++) *out++ = (unsigned char)(id >> 8 * b);
    }
}

static void *run_worker(void *arg)
{
    worker *w = arg;
    w->n = w->documents = 0;
    zr__part_run(&w->e->parts, &w->part, encode_text, w);
    narrow(w);
    return NULL;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Encode n parts in parallel, each on a thread. The calling thread encodes part 0, and any part whose thread did not
 * start. */
static void run_workers(encoder *e, int n)
{
    for (int i = 0; i < n; i++) {
        worker *w = &e->worker[i];
        w->started = i > 0 && zr__thread_start(&w->thread, 0, run_worker, w) == 0;
    }
    for (int i = 0; i < n; i++)
        if (!e->worker[i].started) run_worker(&e->worker[i]);
    for (int i = 0; i < n; i++)
        if (e->worker[i].started) pthread_join(e->worker[i].thread, NULL);
}

static void drop_memory(worker *w)
{
    zr__part_free(&w->part);
    zr_free(w->ids);
    zr_free(w->document);
    zr__rendered_free(&w->rendered);
    w->ids = NULL;
    w->document = NULL;
    w->room = w->document_room = 0;
}

static zr_status take_encoded(encoder *e, const worker *w, zr__encoded *all)
{
    ZR_TRY(zr__part_take(&e->parts, &w->part, &all->found));
    for (int64_t i = 0; i < w->documents; i++) {
        w->document[i].first += all->tokens;
        w->document[i].answer += all->tokens;
    }
    all->tokens += w->n;
    all->documents += w->documents;
    if (w->documents > 0 && e->x->put_documents) ZR_TRY(e->x->put_documents(e->x->put_arg, w->document, w->documents));
    if (w->n > 0) ZR_TRY(e->x->put(e->x->put_arg, (const unsigned char *)(const void *)w->ids, w->n));
    return ZR_OK;
}

/* Encode the whole file, several parts at a time. A part that needs more memory than usual_room is the last part of its
 * batch, so that only one such part is in memory at a time. Its memory is freed afterwards. */
static zr_status encode_all(encoder *e, zr__encoded *all)
{
    ZR_TRY(zr__parts_begin(&e->parts));
    while (!e->parts.ended) {
        int n = 0;
        bool large = false;
        for (; n < e->n && !large && !e->parts.ended; n++) {
            ZR_TRY(zr__part_read(&e->parts, &e->worker[n].part));
            large = e->worker[n].part.room > e->usual_room;
        }
        run_workers(e, n);
        for (int i = 0; i < n; i++) ZR_TRY(take_encoded(e, &e->worker[i], all));
        if (large) drop_memory(&e->worker[n - 1]);
        if (e->x->progress) e->x->progress(e->x->arg, zr__parts_done(&e->parts), e->parts.file->bytes);
    }
    return zr__file_unchanged(e->parts.file);
}

static int64_t encoding_cut(const void *of, const char *text, int64_t from, int64_t bytes)
{
    return zr__tokenizer_cut(of, text, from, bytes);
}

/* Return whether the tokenizer can cut texts. Test this with a text of two words, which every tokenizer with cuts can
 * cut.
 */
bool zr__encode_cuts(const zr_tokenizer *tokenizer)
{
    static const char words[] = "a b";
    return zr__tokenizer_cut(tokenizer, words, 1, sizeof(words) - 1) > 0;
}

static int threads_here(void)
{
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < USUAL_THREADS ? n : USUAL_THREADS;
}

/* Choose the size of parts. Parts of a short file are smaller, so that every thread gets one. */
static zr_status set_parts(encoder *e)
{
    zr__parts *parts = &e->parts;
    zr__packing packing;
    const int64_t bytes = parts->file->bytes, share = bytes / e->n + SHARE_SPARE_BYTES;
    if (parts->usual_bytes == 0) parts->usual_bytes = PART_BYTES;
    if (parts->usual_bytes > share) parts->usual_bytes = share < PART_LEAST_BYTES ? PART_LEAST_BYTES : share;
    if (e->x->instruct) parts->record = encode_record;
    parts->line_of = e->x->instruct;
    if (e->x->sentences) {
        parts->line = encode_sentence;
        parts->line_of = e->x->tokenizer;
    }
    parts->of = e->x->tokenizer;
    parts->cut = zr__encode_cuts(e->x->tokenizer) ? encoding_cut : NULL;
    if (!parts->cut) parts->most_bytes = INT64_MAX;
    if (!parts->cut && !parts->shape) { /* the text cannot be cut, so the whole text is one part */
        ZR_TRY(zr__packing_of(parts->file, &packing));
        ZR_CHECK(
            packing == ZR__UNPACKED, ZR_ERR_UNSUPPORTED,
            "%s: the tokenizer %s does not say where a text may be cut, and how long this compressed one is is not "
            "known; unpack it",
            parts->file->name, zr_tokenizer_name(e->x->tokenizer));
        parts->usual_bytes = bytes;
    }
    e->usual_room = parts->usual_bytes > KEPT_BYTES ? parts->usual_bytes : KEPT_BYTES;
    return ZR_OK;
}

zr_status zr__encode(const zr__encoding *encoding, zr__encoded *encoded)
{
    encoder e = {.x = encoding, .ends = zr_tokenizer_get_ends(encoding->tokenizer), .parts = encoding->parts};
    e.n = encoding->threads > 0 ? encoding->threads : threads_here();
    e.worker = zr_alloc((size_t)e.n * sizeof(*e.worker));
    ZR_CHECK(e.worker, ZR_ERR_MEMORY, "no memory for %d threads that tokenize a text", e.n);
    for (int i = 0; i < e.n; i++) e.worker[i].e = &e;
    *encoded = (zr__encoded){0};
    zr_status st = set_parts(&e);
    if (st == ZR_OK) st = encode_all(&e, encoded);
    for (int i = 0; i < e.n; i++) drop_memory(&e.worker[i]);
    zr__parts_end(&e.parts);
    zr_free(e.worker);
    return st;
}
