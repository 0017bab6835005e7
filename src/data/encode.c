#include "data/encode.h"

#include "base/thread.h"
#include "data/jsonl.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

/* Of a text at once; a line, or a stretch without a place to cut it, takes more. */
#define PART_BYTES ((int64_t)256 << 10)
/* Of one call of the tokenizer, which takes four bytes of memory for each: a part's share. */
#define STRETCHES_OF_PART 4
enum { MOST_THREADS = 8, SEPARATOR_TOKENS = 16, MESSAGE_BYTES = 512 };

/* What a thread does at a time. */
typedef struct part {
    const struct encoder *e;
    char *text; /* (room) */
    int64_t room, n;
    bool too_long; /* it stands for a line that is longer than any may be */
    unsigned char *out;
    int64_t out_room; /* bytes */
    int32_t *ids;
    int64_t ids_room;
    zr__encoded did; /* first_skipped: from the part's first line, 1, on */
    int64_t lines;
    int64_t bad_line; /* that ends the run; 0: none */
    zr_status status;
    char message[MESSAGE_BYTES];
    pthread_t thread;
} part;

typedef struct encoder {
    const zr__encoding *x;
    int32_t separator[SEPARATOR_TOKENS]; /* behind a line's text */
    int64_t n_separator;
    bool cuts; /* there are places where the tokenizer's text may be cut */
    int64_t part_bytes;
    int64_t read; /* bytes of the text */
    int64_t lines;
    part part[MOST_THREADS];
    int n;
} encoder;

/* ---- where a text may be cut ----------------------------------------------------------------- */

/* Does the tokenizer know of such places? Between two words there is one, if anywhere. */
static bool has_cuts(const zr_tokenizer *tokenizer)
{
    static const char words[] = "a b";
    return zr_tokenizer_cut(tokenizer, words, 1, sizeof(words) - 1) > 0;
}

/* Before a character that the end may cut. */
static int64_t character_cut(const char *text, int64_t n)
{
    int64_t at = n;
    while (at > n - 4 && at > 1 && ((unsigned char)text[at - 1] & 0xc0) == 0x80) at--;
    return at > 1 && (unsigned char)text[at - 1] >= 0xc0 ? at - 1 : n;
}

/* Where the first stretch of a text ends that is tokenized at once, of about `usual` bytes. */
static int64_t stretch_end(const encoder *e, const char *text, int64_t n, int64_t usual)
{
    int64_t from = 1;
    if (!e->cuts) return n;
    for (int64_t wanted = usual; wanted < n && wanted <= ZR__STRETCH_MOST_BYTES; wanted *= 2) {
        const int64_t cut = zr_tokenizer_cut(e->x->tokenizer, text, from, wanted);
        if (cut > 0) return cut;
        from = wanted;
    }
    return n <= ZR__STRETCH_MOST_BYTES ? n : character_cut(text, ZR__STRETCH_MOST_BYTES);
}

/* ---- one part -------------------------------------------------------------------------------- */

/* Memory of at least `wanted`, its first `kept` bytes those that it had. */
static zr_status grow(void **memory, int64_t *room, int64_t wanted, int64_t kept)
{
    if (wanted <= *room) return ZR_OK;
    void *more = zr_alloc((size_t)wanted);
    ZR_CHECK(more, ZR_ERR_MEMORY, "no memory for %lld bytes of a text", (long long)wanted);
    if (kept > 0) memcpy(more, *memory, (size_t)kept);
    zr_free(*memory);
    *memory = more;
    *room = wanted;
    return ZR_OK;
}

static zr_status put_ids(part *p, const int32_t *ids, int64_t n)
{
    const int width = p->e->x->token_bytes;
    const int64_t used = p->did.tokens * width, wanted = used + n * width;
    void *out = p->out;
    zr_status st = grow(&out, &p->out_room, wanted <= p->out_room ? wanted : wanted + PART_BYTES, used);
    p->out = out;
    ZR_TRY(st);
    unsigned char *to = p->out + used;
    for (int64_t i = 0; i < n; i++)
        for (int b = 0; b < width; b++) *to++ = (unsigned char)((uint32_t)ids[i] >> 8 * b);
    p->did.tokens += n;
    return ZR_OK;
}

static zr_status put_stretch(part *p, const char *text, int64_t bytes)
{
    int64_t n = 0, room = p->ids_room * (int64_t)sizeof(*p->ids);
    void *ids = p->ids;
    zr_status st = grow(&ids, &room, bytes * (int64_t)sizeof(*p->ids), 0);
    p->ids = ids;
    p->ids_room = room / (int64_t)sizeof(*p->ids);
    ZR_TRY(st);
    ZR_TRY(zr_tokenizer_encode(p->e->x->tokenizer, text, bytes, p->ids, p->ids_room, &n));
    return put_ids(p, p->ids, n);
}

static zr_status put_text(part *p, const char *text, int64_t bytes)
{
    p->did.text_bytes += bytes;
    for (int64_t at = 0, n; at < bytes; at += n) {
        n = stretch_end(p->e, text + at, bytes - at, p->e->part_bytes / STRETCHES_OF_PART);
        ZR_TRY(put_stretch(p, text + at, n));
    }
    return ZR_OK;
}

/* A line without a text. */
static zr_status refuse_line(part *p, const char *reason)
{
    if (!p->e->x->skip_bad_lines) p->bad_line = p->lines;
    if (!p->e->x->skip_bad_lines) return ZR_FAIL(ZR_ERR_DATA, "%s", reason);
    if (p->did.skipped_lines++ == 0) p->did.first_skipped = p->lines;
    return ZR_OK;
}

static zr_status put_line(part *p, const char *line, int64_t bytes)
{
    char reason[ZR__REASON_BYTES];
    json_t *root = NULL;
    int64_t n = 0;
    p->lines++;
    const char *text = zr__jsonl_text(line, bytes, p->e->x->text_key, &root, &n, reason);
    zr_status st = text ? put_text(p, text, n) : refuse_line(p, reason);
    if (st == ZR_OK && n > 0) st = put_ids(p, p->e->separator, p->e->n_separator);
    json_decref(root);
    return st;
}

static zr_status put_lines(part *p)
{
    char reason[ZR__REASON_BYTES];
    if (p->too_long) {
        p->lines = 1;
        snprintf(reason, sizeof(reason), "longer than %lld bytes", (long long)ZR__LINE_BYTES);
        return refuse_line(p, reason);
    }
    for (int64_t at = 0, n; at < p->n; at += n) {
        const char *end = memchr(p->text + at, '\n', (size_t)(p->n - at));
        n = end ? end - (p->text + at) + 1 : p->n - at;
        ZR_TRY(put_line(p, p->text + at, n));
    }
    return ZR_OK;
}

static void *run_part(void *arg)
{
    part *p = arg;
    p->did = (zr__encoded){0};
    p->lines = p->bad_line = 0;
    p->status = p->e->x->lines ? put_lines(p) : put_text(p, p->text, p->n);
    if (p->status != ZR_OK) snprintf(p->message, sizeof(p->message), "%s", zr_error_message());
    return NULL;
}

/* ---- read ------------------------------------------------------------------------------------ */

/* Where the part ends that begins with these n bytes, of which more follow; 0: not within them. */
static int64_t part_end(const encoder *e, const char *text, int64_t n)
{
    if (!e->x->lines) {
        const int64_t cut = zr_tokenizer_cut(e->x->tokenizer, text, 1, n);
        return cut > 0 || n < ZR__STRETCH_MOST_BYTES ? cut : character_cut(text, n);
    }
    while (n > 0 && text[n - 1] != '\n') n--;
    return n;
}

/* Pass over the rest of a line. */
static zr_status skip_line(encoder *e, part *p)
{
    const zr__file *file = e->x->text;
    p->too_long = true;
    while (e->read < file->bytes) {
        const int64_t left = file->bytes - e->read, n = left < PART_BYTES ? left : PART_BYTES;
        ZR_TRY(zr__file_read(file, e->read, p->text, n, ZR_ERR_IO));
        const char *end = memchr(p->text, '\n', (size_t)n);
        e->read += end ? end - p->text + 1 : n;
        if (end) break;
    }
    return ZR_OK;
}

/* The next bytes of the text that end where they may; p->n is 0 at its end. */
static zr_status read_part(encoder *e, part *p)
{
    const zr__file *file = e->x->text;
    const int64_t left = file->bytes - e->read;
    p->too_long = false;
    p->n = 0;
    for (int64_t wanted = e->part_bytes; left > 0 && p->n == 0; wanted *= 2) {
        const int64_t n = left < wanted ? left : wanted;
        void *text = p->text;
        zr_status st = grow(&text, &p->room, n, 0);
        p->text = text;
        ZR_TRY(st);
        ZR_TRY(zr__file_read(file, e->read, p->text, n, ZR_ERR_IO));
        p->n = n == left ? n : part_end(e, p->text, n);
        if (p->n == 0 && e->x->lines && n >= ZR__LINE_BYTES) return skip_line(e, p);
    }
    e->read += p->n;
    return ZR_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void drop_memory(part *p)
{
    zr_free(p->text);
    zr_free(p->out);
    zr_free(p->ids);
    p->text = NULL;
    p->out = NULL;
    p->ids = NULL;
    p->room = p->out_room = p->ids_room = 0;
}

/* Parts at once, each by a thread of its own; where one cannot be had, by this one. */
static void run_parts(encoder *e, int n)
{
    bool started[MOST_THREADS] = {false};
    for (int i = 1; i < n; i++) started[i] = zr__thread_start(&e->part[i].thread, 0, run_part, &e->part[i]) == 0;
    for (int i = 0; i < n; i++)
        if (!started[i]) run_part(&e->part[i]);
    for (int i = 1; i < n; i++)
        if (started[i]) pthread_join(e->part[i].thread, NULL);
}

/* What a part found, in the order of the text. */
static zr_status take_part(encoder *e, const part *p, const zr__file *out, int64_t at, zr__encoded *all)
{
    const int width = e->x->token_bytes;
    if (p->bad_line > 0)
        return ZR_FAIL(p->status, "%s:%lld: %s; data.bad_lines \"skip\" leaves such lines out", e->x->text->name,
                       (long long)(e->lines + p->bad_line), p->message);
    ZR_CHECK(p->status == ZR_OK, p->status, "%s: %s", e->x->text->name, p->message);
    ZR_TRY(zr__file_write(out, at + all->tokens * width, p->out, p->did.tokens * width));
    if (all->skipped_lines == 0 && p->did.skipped_lines > 0) all->first_skipped = e->lines + p->did.first_skipped;
    all->tokens += p->did.tokens;
    all->text_bytes += p->did.text_bytes;
    all->skipped_lines += p->did.skipped_lines;
    e->lines += p->lines;
    return ZR_OK;
}

static zr_status encode_all(encoder *e, const zr__file *out, int64_t at, zr__encoded *all)
{
    while (e->read < e->x->text->bytes) {
        int n = 0;
        bool large = false; /* a long line: one at a time, whose memory is not kept */
        for (; n < e->n && !large && e->read < e->x->text->bytes; n++) {
            ZR_TRY(read_part(e, &e->part[n]));
            large = e->part[n].room > ZR__STRETCH_MOST_BYTES;
        }
        run_parts(e, n);
        for (int i = 0; i < n; i++) ZR_TRY(take_part(e, &e->part[i], out, at, all));
        if (large) drop_memory(&e->part[n - 1]);
        if (e->x->progress) e->x->progress(e->x->arg, e->read, e->x->text->bytes);
    }
    return zr__file_unchanged(e->x->text);
}

/* A byte order mark is no part of a line. */
static zr_status skip_mark(encoder *e)
{
    static const char mark[3] = "\xef\xbb\xbf";
    char head[sizeof(mark)];
    if (!e->x->lines || e->x->text->bytes < (int64_t)sizeof(mark)) return ZR_OK;
    ZR_TRY(zr__file_read(e->x->text, 0, head, sizeof(head), ZR_ERR_IO));
    if (memcmp(head, mark, sizeof(mark)) == 0) e->read = sizeof(mark);
    return ZR_OK;
}

/* "<|endoftext|>" where the tokenizer has it as one token. */
static zr_status set_separator(encoder *e)
{
    e->separator[0] = zr_tokenizer_token(e->x->tokenizer, "<|endoftext|>");
    e->n_separator = 1;
    if (e->separator[0] >= 0) return ZR_OK;
    ZR_TRY(zr_tokenizer_encode(e->x->tokenizer, "\n", 1, e->separator, SEPARATOR_TOKENS, &e->n_separator));
    return ZR_OK;
}

static int threads_here(void)
{
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < MOST_THREADS ? n : MOST_THREADS;
}

zr_status zr__encode_possible(const zr__encoding *x)
{
    const int64_t bytes = x->text->bytes;
    ZR_CHECK(x->lines || bytes <= ZR__WHOLE_BYTES || has_cuts(x->tokenizer), ZR_ERR_UNSUPPORTED,
             "%s: %lld bytes; the tokenizer %s does not say where text may be cut, so up to %lld bytes are tokenized "
             "here, whole; write the tokens to a file with `zr tokenize`, or the text as .jsonl, a document a line",
             x->text->name, (long long)bytes, zr_tokenizer_name(x->tokenizer), (long long)ZR__WHOLE_BYTES);
    return ZR_OK;
}

zr_status zr__encode(const zr__encoding *encoding, const zr__file *out, int64_t at, zr__encoded *encoded)
{
    encoder *e = zr_alloc(sizeof(*e));
    ZR_CHECK(e, ZR_ERR_MEMORY, "%zu bytes to tokenize a text", sizeof(*e));
    e->x = encoding;
    e->n = encoding->threads > 0 ? encoding->threads : threads_here();
    e->cuts = has_cuts(encoding->tokenizer);
    e->part_bytes = encoding->part_bytes > 0 ? encoding->part_bytes : PART_BYTES;
    if (!e->cuts && !encoding->lines) e->part_bytes = encoding->text->bytes; /* whole */
    for (int i = 0; i < e->n; i++) e->part[i].e = e;
    *encoded = (zr__encoded){0};
    zr_status st = zr__encode_possible(encoding);
    if (st == ZR_OK) st = set_separator(e);
    if (st == ZR_OK) st = skip_mark(e);
    if (st == ZR_OK) st = encode_all(e, out, at, encoded);
    for (int i = 0; i < e->n; i++) drop_memory(&e->part[i]);
    zr_free(e);
    return st;
}
