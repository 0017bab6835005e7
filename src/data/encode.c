#include "data/encode.h"

#include "data/jsonl.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* Of a text at once; a line or a stretch without an end takes more. */
#define PART_BYTES ((int64_t)256 << 10)
/* Of one call of the tokenizer, which takes four bytes of memory for each. */
#define STRETCH_BYTES ((int64_t)64 << 10)
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
    int64_t read; /* bytes of the text */
    int64_t lines;
    part part[MOST_THREADS];
    int n;
} encoder;

/* ---- where a text may be cut ----------------------------------------------------------------- */

static bool is_cut(const char *text, int64_t at)
{
    const char before = (char)(text[at - 1] | 0x20); /* small letters */
    return text[at] == '\n' && before >= 'a' && before <= 'z';
}

/* The last cut up to n; 0: there is none. */
static int64_t last_cut(const char *text, int64_t n)
{
    for (int64_t at = n - 1; at > 0; at--)
        if (is_cut(text, at)) return at;
    return 0;
}

/* The first cut from `at` on, or the end. */
static int64_t next_cut(const char *text, int64_t at, int64_t n)
{
    while (at < n && !is_cut(text, at)) at++;
    return at;
}

/* Before a character that the end may cut. */
static int64_t character_cut(const char *text, int64_t n)
{
    int64_t at = n;
    while (at > n - 4 && at > 1 && ((unsigned char)text[at - 1] & 0xc0) == 0x80) at--;
    return at > 1 && (unsigned char)text[at - 1] >= 0xc0 ? at - 1 : n;
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
        n = bytes - at;
        if (n > STRETCH_BYTES) {
            const int64_t cut = last_cut(text + at, STRETCH_BYTES);
            n = cut > 0 ? cut : next_cut(text + at, STRETCH_BYTES, n);
        }
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

/* Where the part ends that begins with `text`; 0: not within these n bytes. */
static int64_t part_end(const encoder *e, const char *text, int64_t n)
{
    if (!e->x->lines) return last_cut(text, n);
    for (; n > 0; n--)
        if (text[n - 1] == '\n') break;
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
    for (int64_t wanted = PART_BYTES; left > 0 && p->n == 0; wanted *= 2) {
        const int64_t n = left < wanted ? left : wanted;
        void *text = p->text;
        zr_status st = grow(&text, &p->room, n, 0);
        p->text = text;
        ZR_TRY(st);
        ZR_TRY(zr__file_read(file, e->read, p->text, n, ZR_ERR_IO));
        p->n = n == left ? n : part_end(e, p->text, n);
        if (p->n > 0 || n < ZR__LINE_BYTES) continue;
        if (e->x->lines) return skip_line(e, p);
        p->n = character_cut(p->text, n);
    }
    e->read += p->n;
    return ZR_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Parts at once, each by a thread of its own; where one cannot be had, by this one. */
static void run_parts(encoder *e, int n)
{
    bool started[MOST_THREADS] = {false};
    for (int i = 1; i < n; i++) started[i] = pthread_create(&e->part[i].thread, NULL, run_part, &e->part[i]) == 0;
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
        while (n < e->n && e->read < e->x->text->bytes) ZR_TRY(read_part(e, &e->part[n++]));
        run_parts(e, n);
        for (int i = 0; i < n; i++) ZR_TRY(take_part(e, &e->part[i], out, at, all));
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
    static const char end[] = "<|endoftext|>";
    const int64_t bytes = sizeof(end) - 1;
    ZR_TRY(zr_tokenizer_encode(e->x->tokenizer, end, bytes, e->separator, SEPARATOR_TOKENS, &e->n_separator));
    if (e->n_separator == 1) return ZR_OK;
    ZR_TRY(zr_tokenizer_encode(e->x->tokenizer, "\n", 1, e->separator, SEPARATOR_TOKENS, &e->n_separator));
    return ZR_OK;
}

static int threads_here(void)
{
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < MOST_THREADS ? n : MOST_THREADS;
}

zr_status zr__encode(const zr__encoding *encoding, const zr__file *out, int64_t at, zr__encoded *encoded)
{
    encoder *e = zr_alloc(sizeof(*e));
    ZR_CHECK(e, ZR_ERR_MEMORY, "%zu bytes to tokenize a text", sizeof(*e));
    e->x = encoding;
    e->n = threads_here();
    for (int i = 0; i < e->n; i++) e->part[i].e = e;
    *encoded = (zr__encoded){0};
    zr_status st = set_separator(e);
    if (st == ZR_OK) st = skip_mark(e);
    if (st == ZR_OK) st = encode_all(e, out, at, encoded);
    for (int i = 0; i < e->n; i++) {
        zr_free(e->part[i].text);
        zr_free(e->part[i].out);
        zr_free(e->part[i].ids);
    }
    zr_free(e);
    return st;
}
