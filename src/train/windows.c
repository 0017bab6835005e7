#include "train/windows.h"

#include "zr/data.h"

#include <stdio.h>
#include <string.h>

static zr_status take_room(zr__windows *w, int64_t room)
{
    char *text = zr_alloc((size_t)room);
    ZR_CHECK(text, ZR_ERR_MEMORY, "no memory for %lld bytes of text that cannot be cut", (long long)room);
    if (w->have) memcpy(text, w->text, (size_t)w->have);
    zr_free(w->text);
    w->text = text;
    w->room = room;
    return ZR_OK;
}

static zr_status look_at(zr__windows *w, const char *text, zr__file *file)
{
    char note[sizeof(w->note)];
    bool is_text = false;
    ZR_TRY(zr__file_open(text, false, file));
    zr__file_close(file);
    ZR_TRY(zr_data_look(text, &is_text, note, sizeof(note)));
    ZR_CHECK(is_text, ZR_ERR_DATA, "%s: a file of tokens, as its name or its beginning says; a text was wanted",
             file->name);
    if (!w->note[0]) snprintf(w->note, sizeof(w->note), "%s", note);
    w->all_bytes += file->bytes;
    return ZR_OK;
}

zr_status zr__windows_open(zr__windows *w, const char *const *texts, int n, int64_t room)
{
    int64_t longest = 1;
    w->texts = texts;
    w->text_file = zr_alloc((size_t)n * sizeof(*w->text_file));
    ZR_CHECK(w->text_file, ZR_ERR_MEMORY, "no memory for %d texts", n);
    for (int i = 0; i < n; i++) {
        ZR_TRY(look_at(w, texts[i], &w->text_file[i]));
        if (w->text_file[i].bytes > longest) longest = w->text_file[i].bytes;
    }
    ZR_TRY(take_room(w, room < longest ? room : longest));
    return ZR_OK;
}

static zr_status use_window(zr__windows *w, int64_t bytes)
{
    ZR_TRY(w->use(w->arg, w->text, bytes));
    memmove(w->text, w->text + bytes, (size_t)(w->have - bytes));
    w->have -= bytes;
    w->done_bytes += bytes;
    if (w->progress) w->progress(w->progress_arg, w->done_bytes, w->all_bytes);
    return ZR_OK;
}

static zr_status read_file(zr__windows *w, const zr__file *file)
{
    int64_t from = 1; /* no cut lies before */
    w->file = file;
    w->have = 0;
    for (int64_t at = 0; at < file->bytes || w->have > 0;) {
        int64_t n = file->bytes - at < w->room - w->have ? file->bytes - at : w->room - w->have;
        ZR_TRY(zr__file_read(file, at, w->text + w->have, n, ZR_ERR_IO));
        at += n;
        w->have += n;
        int64_t cut = at == file->bytes ? w->have : w->cut(w->arg, w->text, from, w->have);
        from = cut > 0 ? 1 : w->have;
        w->at = at - w->have;
        if (cut > 0)
            ZR_TRY(use_window(w, cut));
        else
            ZR_TRY(take_room(w, 2 * w->room));
    }
    ZR_TRY(zr__file_unchanged(file));
    return ZR_OK;
}

zr_status zr__windows_read(zr__windows *w, int i)
{
    zr__file opened, *file = &w->text_file[i];
    ZR_TRY(zr__file_open(w->texts[i], false, &opened));
    file->fd = opened.fd;
    zr_status st = read_file(w, file);
    zr__file_close(file);
    return st;
}

void zr__windows_close(zr__windows *w)
{
    zr_free(w->text);
    zr_free(w->text_file);
    w->text = NULL;
    w->text_file = NULL;
}
