#include "data/text/record.h"

#include "data/text/chat_forms.h"

#include <stdio.h>
#include <string.h>

/* ---- settings -------------------------------------------------------------------------------- */

/* Find the chat template. Records of instructions have a form of their own for tokenizers without one. */
static zr_status find_chat(const zr_tokenizer *tokenizer, bool alpaca, const zr_data_args *args, zr__chat *chat)
{
    const char *name = zr_tokenizer_name(tokenizer), *date = args->chat_date, *more = args->chat_template_kwargs;
    ZR_TRY(zr__chat_find(name, args->chat_template, date, more, chat));
    if (!alpaca || chat->template || chat->unread[0]) return ZR_OK;
    zr__chat_close(chat);
    return zr__chat_find(name, "alpaca", date, more, chat);
}

zr_status zr__instruct_open(const zr_tokenizer *tokenizer, const zr__form_found *found, const zr_data_args *args,
                            const char *file, zr__instruct *x)
{
    char advice[256] = "write the records as {\"prompt\": ..., \"completion\": ...} or {\"text\": ...}";
    *x = (zr__instruct){.found = found, .tokenizer = tokenizer, .loss_on = args->loss_on};
    ZR_TRY(find_chat(tokenizer, found->alpaca, args, &x->chat));
    x->chat.all = args->loss_on == ZR_LOSS_ON_ALL;
    zr__chat *chat = &x->chat;
    if (found->kind == ZR__LINES_PAIR) zr__chat_set_end(chat, tokenizer);
    if (found->kind == ZR__LINES_PAIR) return ZR_OK;
    if (found->member[ZR__SLOT_ANSWER])
        snprintf(advice, sizeof(advice),
                 "read them as texts without one: data.columns {\"prompt\": \"%s\", \"completion\": \"%s\"}",
                 ZR_SHOWN(found->member[ZR__SLOT_PROMPT]), ZR_SHOWN(found->member[ZR__SLOT_ANSWER]));
    return zr__chat_want(chat, tokenizer, file, "data.chat_template", advice);
}

void zr__instruct_close(zr__instruct *x)
{
    zr__chat_close(&x->chat);
}

/* ---- records --------------------------------------------------------------------------------- */

static zr_status render_pair(const zr__instruct *x, const json_t *record, zr__rendered *r, int64_t *bytes, char *reason)
{
    const char *prompt = NULL, *completion = NULL;
    int64_t prompt_bytes = 0, completion_bytes = 0;
    if (!zr__form_text(x->found, record, ZR__SLOT_PROMPT, &prompt, &prompt_bytes, reason)) return ZR_OK;
    if (!zr__form_text(x->found, record, ZR__SLOT_ANSWER, &completion, &completion_bytes, reason)) return ZR_OK;
    *bytes = prompt_bytes + completion_bytes;
    if (completion_bytes == 0)
        snprintf(reason, ZR__REASON_BYTES, "\"%s\" is empty, so nothing is trained",
                 ZR_SHOWN(x->found->member[ZR__SLOT_ANSWER]));
    return reason[0] ? ZR_OK : zr__pair_render(&x->chat, prompt, prompt_bytes, completion, completion_bytes, r);
}

/* Decide which messages the loss counts. Return the reason why the conversation cannot be trained on, or NULL. */
static const char *choose_turns(const zr__instruct *x, zr__talk *talk)
{
    int64_t last = talk->n; /* index of the last answer */
    bool any = false, answer = false, switched = false;
    for (int64_t i = 0; i < talk->n; i++)
        if (talk->turn[i].answer) last = i;
    for (int64_t i = 0; i < talk->n; i++) {
        zr__turn *turn = &talk->turn[i];
        const bool counts = x->loss_on == ZR_LOSS_ON_ALL || (x->loss_on == ZR_LOSS_ON_LAST ? i == last : turn->answer);
        if (!turn->switched) turn->trains = counts;
        any = any || turn->trains;
        answer = answer || turn->answer;
        switched = switched || turn->switched;
    }
    if (switched || x->loss_on == ZR_LOSS_ON_LAST) talk->prompt = 0;
    if (talk->bytes == 0) return "the messages have no text";
    if (any || talk->prompt > 0) return NULL;
    return answer ? "each answer is switched off (weight 0, train false), so nothing is trained"
                  : "no message has the role \"assistant\", so nothing is trained";
}

static zr_status render_talk(const zr__instruct *x, const json_t *record, zr__rendered *r, int64_t *bytes, char *reason)
{
    ZR_AUTO(zr__talk_clear) zr__talk talk = {0};
    const char *bad = NULL;
    ZR_TRY(zr__form_read(x->found, record, &talk, reason));
    if (reason[0]) return ZR_OK;
    bad = choose_turns(x, &talk);
    *bytes = talk.bytes;
    if (!bad) ZR_TRY(zr__chat_render(&x->chat, &talk, false, r, &bad));
    if (bad) snprintf(reason, ZR__REASON_BYTES, "%s", bad);
    return ZR_OK;
}

zr_status zr__record_render(const zr__instruct *x, const json_t *record, zr__rendered *r, int64_t *bytes, char *reason)
{
    *bytes = 0;
    zr__rendered_clear(r);
    ZR_TRY((x->found->kind == ZR__LINES_PAIR ? render_pair : render_talk)(x, record, r, bytes, reason));
    if (reason[0]) *bytes = 0;
    return ZR_OK;
}
