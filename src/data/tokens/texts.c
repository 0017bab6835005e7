/* Reads text files once, to tokenize them or to learn a tokenizer. */
#include "data/tokens/texts.h"

#include "data/text/encode.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokens/shard.h"

#include <stdio.h>
#include <string.h>

#define PART_BYTES ((int64_t)1 << 20)

/* An input file, with the size and modification time that it had when it was first opened. */
typedef struct looked_at {
    zr__file file;
    zr__shape shape;
} looked_at;

struct zr__texts {
    const zr__texts_args *args;
    looked_at *text;
    zr__texts_info info;
    char note[3 * ZR__NOTE_BYTES];
    char first_skipped[ZR__NOTE_BYTES]; /* position of the first skipped line, such as "a.jsonl:12" */
    int64_t done_bytes;                 /* bytes of the files before the current one */
};

typedef struct encoding {
    zr__encoding x; /* encoder settings, set for one file at a time */
    bool due;       /* whether a separator must be written before the next document */
    unsigned char between[sizeof(int32_t)];
    zr__tokens_fn put;
    void *arg;
} encoding;

/* ---- opening --------------------------------------------------------------------------------- */

static zr_status look_at_text(zr__texts *t, int i)
{
    const char *path = t->args->path[i];
    char note[ZR__NOTE_BYTES] = "";
    bool is_text = false;
    zr__file *file = &t->text[i].file;
    ZR_TRY(zr__file_open(path, false, file));
    zr__file_close(file);
    ZR_TRY(zr__shard_is_text(path, t->args->as_text, &is_text, &t->text[i].shape, note, sizeof(note)));
    ZR_CHECK(is_text, ZR_ERR_DATA, "%s: by its name or its beginning this is a file of tokens; give a text",
             file->name);
    if (!t->note[0]) snprintf(t->note, sizeof(t->note), "%s", note);
    t->info.file_bytes += file->bytes;
    return ZR_OK;
}

zr_status zr__texts_open(const zr__texts_args *args, zr__texts **texts)
{
    ZR_AUTO(zr__texts_close) zr__texts *t = zr_alloc(sizeof(*t));
    ZR_CHECK(t, ZR_ERR_MEMORY, "no memory for %d texts", args->n);
    t->args = args;
    t->text = zr_alloc((size_t)args->n * sizeof(*t->text));
    ZR_CHECK(t->text, ZR_ERR_MEMORY, "no memory for %d texts", args->n);
    for (int i = 0; i < args->n; i++) ZR_TRY(look_at_text(t, i));
    *texts = ZR_TAKE(t);
    return ZR_OK;
}

void zr__texts_close(zr__texts **texts)
{
    if (!*texts) return;
    zr_free((*texts)->text);
    zr_free(*texts);
    *texts = NULL;
}

zr__texts_info zr__texts_get_info(const zr__texts *texts)
{
    zr__texts_info info = texts->info;
    info.note = texts->note;
    return info;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void tell_all_files(void *arg, int64_t done, int64_t all)
{
    const zr__texts *t = arg;
    (void)all;
    if (t->args->progress) t->args->progress(t->args->arg, t->done_bytes + done, t->info.file_bytes);
}

static void add_found(zr__texts *t, int i, const zr__found_texts *found)
{
    const zr__file *file = &t->text[i].file;
    if (t->info.skipped_lines == 0 && found->skipped_lines > 0)
        snprintf(t->first_skipped, sizeof(t->first_skipped), "%s:%lld", file->name, (long long)found->first_skipped);
    t->info.skipped_lines += found->skipped_lines;
    t->info.documents += found->documents;
    t->info.text_bytes += found->text_bytes;
    t->done_bytes += file->bytes;
}

typedef zr_status (*read_fn)(zr__texts *t, const zr__parts *parts, void *arg, zr__found_texts *found);

/* Append the number of skipped lines to the note. */
static void note_skipped(zr__texts *t)
{
    const size_t length = strlen(t->note);
    if (t->info.skipped_lines == 0) return;
    snprintf(t->note + length, sizeof(t->note) - length, "%s%lld bad lines left out; the first is %s",
             length ? "; " : "", (long long)t->info.skipped_lines, t->first_skipped);
}

/* Find the member with the text of each record. Refuse records that are more than a text, because of `why`. */
static zr_status find_texts(const zr__texts *t, zr__parts *parts, const char *why, zr__form_found *form)
{
    ZR_TRY(zr__form_find(parts, NULL, t->args->text_key, form));
    parts->text_key = form->member[ZR__SLOT_TEXT];
    ZR_CHECK(form->kind == ZR__LINES_TEXT, ZR_ERR_DATA,
             "%s: it has records of %s, and %s name the member that is the text with --text-key", parts->file->name,
             form->said, why);
    return ZR_OK;
}

/* Call `read` for each file, of whose records it takes one text, because of `why`. Pass it the size and modification
 * time of the first opening, so that it notices a change of the file since then. */
static zr_status read_all(zr__texts *t, read_fn read, const char *why, void *arg)
{
    for (int i = 0; i < t->args->n; i++) {
        zr__file opened, *file = &t->text[i].file;
        zr__found_texts found = {0};
        ZR_TRY(zr__file_open(t->args->path[i], false, &opened));
        file->fd = opened.fd;
        ZR_AUTO(zr__form_close) zr__form_found form = {0};
        zr__parts parts = {
            .file = file,
            .usual_bytes = PART_BYTES,
            .most_bytes = INT64_MAX,
            .shape = t->text[i].shape,
            .skip_bad_lines = t->args->skip_bad_lines,
            .remedy = "name the member with the text by --text-key, or use --bad-lines skip to skip such records",
            .or_text = zr__shape_is_lines(t->args->path[i]) ? NULL : ", or give --as-text to read the file as text"};
        zr_status st = parts.shape ? find_texts(t, &parts, why, &form) : ZR_OK;
        if (st == ZR_OK) st = read(t, &parts, arg, &found);
        zr__file_close(file);
        ZR_TRY(st);
        add_found(t, i, &found);
    }
    note_skipped(t);
    return ZR_OK;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* Pass tokens to the caller. Each part of a .jsonl file ends with a separator token. Hold this separator back until
 * another document follows. */
static zr_status put_tokens(void *arg, const unsigned char *tokens, int64_t n)
{
    encoding *e = arg;
    if (e->due) ZR_TRY(e->put(e->arg, e->between, 1));
    e->due = e->x.parts.shape && e->x.separator >= 0;
    n -= e->due;
    return n > 0 ? e->put(e->arg, tokens, n) : ZR_OK;
}

static zr_status encode_one(zr__texts *t, const zr__parts *parts, void *arg, zr__found_texts *found)
{
    encoding *e = arg;
    zr__encoded did;
    e->x.parts = *parts;
    e->x.arg = t;
    e->due = e->x.separator >= 0 && t->info.documents > 0;
    ZR_TRY(zr__encode(&e->x, &did));
    *found = did.found;
    return ZR_OK;
}

zr_status zr__texts_encode(zr__texts *texts, const zr_tokenizer *tokenizer, int token_bytes, int32_t between,
                           int threads, zr__tokens_fn put, void *arg)
{
    encoding e = {.put = put, .arg = arg};
    e.x = (zr__encoding){.tokenizer = tokenizer,
                         .separator = between,
                         .token_bytes = token_bytes,
                         .threads = threads,
                         .put = put_tokens,
                         .put_arg = &e,
                         .progress = tell_all_files};
    for (int b = 0; b < token_bytes && between >= 0; b++) e.between[b] = (unsigned char)((uint32_t)between >> 8 * b);
    return read_all(texts, encode_one,
                    "a file of tokens cannot say which of them the loss counts; give the file itself as data.train "
                    "(--show N shows its tokens here), or",
                    &e);
}

/* ---- learning -------------------------------------------------------------------------------- */

static int64_t trainer_cut(const void *of, const char *text, int64_t from, int64_t bytes)
{
    return zr__tokenizer_trainer_cut(of, text, from, bytes);
}

static zr_status count_pieces(void *arg, const char *text, int64_t bytes, int where)
{
    (void)where;
    return zr__tokenizer_trainer_add(arg, text, bytes);
}

static zr_status learn_one(zr__texts *t, const zr__parts *parts, void *arg, zr__found_texts *found)
{
    zr__parts its = *parts;
    ZR_AUTO(zr__part_free) zr__part part = {0};
    its.cut = trainer_cut;
    its.of = arg;
    zr_status st = zr__parts_begin(&its);
    while (st == ZR_OK && !its.ended) {
        st = zr__part_read(&its, &part);
        if (st == ZR_OK) zr__part_run(&its, &part, count_pieces, arg);
        if (st == ZR_OK) st = zr__part_take(&its, &part, found);
        tell_all_files(t, zr__parts_done(&its), its.file->bytes);
    }
    zr__parts_end(&its);
    ZR_TRY(st);
    return zr__file_unchanged(its.file);
}

zr_status zr__texts_learn(zr__texts *texts, zr__tokenizer_trainer *trainer)
{
    return read_all(texts, learn_one, "a tokenizer learns from one text of each;", trainer);
}
