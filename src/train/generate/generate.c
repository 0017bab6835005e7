/* Generation of a text with the weights of a directory. */
#include "train/generate/generate.h"

#include "data/text/chat.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static zr_status check_generate_args(const zr_generate_args *args)
{
    ZR_CHECK(args->tokens >= 0 && args->tokens <= INT32_MAX, ZR_ERR_ARG,
             "%lld tokens to generate; 0 or more are possible", (long long)args->tokens);
    ZR_CHECK(isfinite(args->temperature) && args->temperature >= 0.0, ZR_ERR_ARG,
             "a temperature of %g; it must be 0 (likeliest token) or more", args->temperature);
    ZR_CHECK(args->top_k >= 0, ZR_ERR_ARG, "top-k of %lld; it must be 0 (all tokens) or more", (long long)args->top_k);
    ZR_CHECK(args->top_p >= 0.0 && args->top_p <= 1.0, ZR_ERR_ARG,
             "top-p of %g; it must be above 0 and at most 1 (all tokens)", args->top_p);
    ZR_CHECK(args->samples >= 0, ZR_ERR_ARG, "%lld samples; 1 or more are possible", (long long)args->samples);
    for (int64_t i = 0; i < args->n_stop; i++)
        ZR_CHECK(args->stop[i][0], ZR_ERR_ARG, "an empty text to stop at; it would stop before the first token");
    return ZR_OK;
}

/* Resources of a call of zr_generate. */
typedef struct generating {
    const char *dir;
    const zr_generate_args *args;
    zr__loaded loaded;
    char path[PATH_MAX]; /* path of the tokenizer's directory */
    const char *name;    /* name of the tokenizer */
    zr_tokenizer *tokenizer;
    zr__ends ends;
    zr__chat chat;
    zr__rendered rendered; /* with args->chat: the prompt, and its tokens */
    int32_t *prompt;
    int64_t room;
    zr__writer writer;
} generating;

static zr_status open_own_tokenizer(generating *g)
{
    const zr__loaded *loaded = &g->loaded;
    ZR_TRY(zr__load_tokenizer(loaded, g->path, &g->name));
    ZR_CHECK(
        g->name, ZR_ERR_UNSUPPORTED,
        "the model has %lld tokens and no tokenizer: put its tokenizer.json, or vocab.json and merges.txt, into %s",
        (long long)loaded->model.sizes.vocabulary, loaded->stored.path);
    return zr_tokenizer_open(g->name, &g->tokenizer);
}

/* Render and encode the prompt as the message of a user. The end of the assistant's turn also ends the text. */
static zr_status render_prompt(generating *g)
{
    const zr_generate_args *args = g->args;
    const zr_config *config = g->loaded.config;
    zr__chat *chat = &g->chat;
    ZR_AUTO(zr__talk_clear) zr__talk talk = {0};
    const char *reason = NULL;
    if (args->system) ZR_TRY(zr__talk_say(&talk, "system", args->system, (int64_t)strlen(args->system)));
    ZR_TRY(zr__talk_say(&talk, "user", args->prompt, args->prompt_bytes));
    const char *form = args->chat_template ? args->chat_template : config ? config->data.chat_template : NULL;
    ZR_TRY(zr__chat_find(g->name, form, config ? config->data.chat_date : NULL,
                         config ? config->data.chat_template_kwargs : NULL, chat));
    ZR_TRY(zr__chat_want(chat, g->tokenizer, g->dir, "--chat-template", "leave out --chat"));
    ZR_TRY(zr__chat_render(chat, &talk, true, &g->rendered, &reason));
    ZR_CHECK(!reason, ZR_ERR_ARG, "%s", reason);
    ZR_TRY(zr__rendered_encode(&g->rendered, chat, g->tokenizer, &g->prompt, &g->room, &g->writer.n_prompt));
    for (int64_t i = 0; i < g->writer.n_prompt; i++) g->prompt[i] &= ~ZR__IGNORED;
    g->writer.prompt = g->prompt;
    zr__ends_add(&g->ends, zr_tokenizer_token(g->tokenizer, chat->turn_end));
    return ZR_OK;
}

static zr_status decode_token(void *arg, int32_t token, int64_t position, zr_tensor *output)
{
    return zr_engine_decode(arg, token, position, output);
}

static zr_status generate_text(generating *g, zr_emit_fn emit, void *arg)
{
    zr_layout layout = zr_layout_default();
    zr__writer *w = &g->writer;
    int64_t room = 0;
    ZR_TRY(zr__load_open(g->dir, &g->loaded));
    const zr_family *family = g->loaded.model.family;
    ZR_CHECK(family->samples == ZR_SAMPLES_NEXT, ZR_ERR_UNSUPPORTED,
             "%s is a %s model, an encoder, which does not predict the next token; only decoders, such as GPT-2, "
             "generate text",
             g->loaded.stored.path, family->title);
    ZR_TRY(open_own_tokenizer(g));
    ZR_TRY(zr__ends_find(&g->loaded, g->name, &g->ends));
    if (g->args->chat) ZR_TRY(render_prompt(g));
    w->tokenizer = g->tokenizer;
    w->vocab = g->loaded.model.sizes.vocabulary;
    w->end = g->ends.token;
    w->n_ends = g->args->past_end ? 0 : g->ends.n;
    ZR_TRY(zr__writer_open(w));
    room = w->n_tokens + g->args->tokens;
    layout.train = false;
    layout.eval = false;
    layout.decode_len = g->loaded.model.sizes.positions;
    if (layout.decode_len > room) layout.decode_len = room;
    ZR_TRY(zr__load_start(&g->loaded, &layout, g->args->threads));
    w->decode = decode_token;
    w->arg = g->loaded.engine;
    w->longest = layout.decode_len;
    return zr__writer_run(w, emit, arg);
}

zr_status zr_generate(const char *dir, const zr_generate_args *args, zr_emit_fn emit, void *arg)
{
    ZR_CHECK(dir && args && emit, ZR_ERR_ARG, "zr_generate was given a NULL pointer");
    ZR_TRY(check_generate_args(args));
    generating *g = zr_alloc(sizeof(*g));
    ZR_CHECK(g, ZR_ERR_MEMORY, "no memory for %zu bytes to generate text", sizeof(*g));
    g->dir = dir;
    g->args = g->writer.args = args;
    zr_status st = generate_text(g, emit, arg);
    zr__writer_close(&g->writer);
    zr__chat_close(&g->chat);
    zr__rendered_free(&g->rendered);
    zr_free(g->prompt);
    zr_tokenizer_close(&g->tokenizer);
    zr__load_close(&g->loaded);
    zr_free(g);
    return st;
}
