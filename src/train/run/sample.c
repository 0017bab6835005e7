#include "train/run/sample.h"

#include "base/text/text.h"
#include "train/dir/metrics.h"
#include "train/weights/writer.h"
#include "zr/run.h"

#include <stdio.h>
#include <string.h>

/* The default temperature of `zr generate`. */
#define TEMPERATURE 0.8

bool zr__sample_is_due(const zr__run *r)
{
    const int64_t step = r->result->steps, interval = r->config->train.eval_interval;
    const bool now = step == r->config->train.steps || (interval > 0 && step % interval == 0);
    return r->config->train.sample_tokens > 0 && now;
}

/* ---- all ranks decode ------------------------------------------------------------------------ */

/* Numbers that rank 0 sends before each token that all ranks decode, and after the last one. */
enum { TOKEN, POSITION, GOES_ON, WORDS };

/* Exchange rank 0's numbers. The run may be asked to end between two tokens. */
static zr_status meet(zr__run *r, double words[WORDS])
{
    ZR_TRY(zr__run_stop_asked(r));
    ZR_TRY(zr__run_agreed(r, zr_comm_scalars(r->comm, words, WORDS, NULL)));
    memcpy(words, r->comm->table, WORDS * sizeof(*words));
    return ZR_OK;
}

/* The text that rank 0 writes. */
typedef struct writing {
    zr__run *run;
    zr__text kept;
    bool over; /* a token could not be decoded, which the other ranks know */
} writing;

static zr_status decode_all(zr__run *r, int32_t token, int64_t position, zr_tensor *output)
{
    double words[WORDS] = {[TOKEN] = token, [POSITION] = (double)position, [GOES_ON] = 1};
    ZR_TRY(meet(r, words));
    r->result->agreed = false;
    return zr_engine_decode(r->engine, token, position, output);
}

static zr_status decode(void *arg, int32_t token, int64_t position, zr_tensor *output)
{
    writing *w = arg;
    zr_status st = decode_all(w->run, token, position, output);
    w->over = st != ZR_OK;
    return st;
}

static zr_status decode_along(zr__run *r)
{
    for (;;) {
        double words[WORDS] = {0};
        zr_tensor output;
        ZR_TRY(meet(r, words));
        if (words[GOES_ON] == 0) return zr__run_agree(r, ZR_OK);
        r->result->agreed = false;
        ZR_TRY(zr_engine_decode(r->engine, (int32_t)words[TOKEN], (int64_t)words[POSITION], &output));
    }
}

/* ---- rank 0 writes --------------------------------------------------------------------------- */

static zr_generate_args args_of(const zr_config *config)
{
    const char *prompt = config->train.sample_prompt ? config->train.sample_prompt : "";
    return (zr_generate_args){.prompt = prompt,
                              .prompt_bytes = (int64_t)strlen(prompt),
                              .tokens = config->train.sample_tokens,
                              .temperature = TEMPERATURE,
                              .seed = (uint64_t)config->train.seed};
}

static zr__writer writer_of(const zr__run *r, const zr_generate_args *args)
{
    return (zr__writer){.decode = decode,
                        .tokenizer = r->tokenizer,
                        .vocab = r->config->model.sizes.vocab_size,
                        .longest = r->plan->layout.decode_len,
                        .args = args};
}

static zr_status open_writer(zr__run *r)
{
    const zr_generate_args args = args_of(r->config);
    if (r->config->train.sample_tokens == 0 || r->comm->rank != 0) return ZR_OK;
    ZR_CHECK(args.prompt_bytes <= ZR__PROMPT_BYTES, ZR_ERR_CONFIG,
             "train.sample_prompt: %lld bytes; at most %d are possible", (long long)args.prompt_bytes,
             ZR__PROMPT_BYTES);
    ZR_TRY(zr_tokenizer_open(r->config->data.tokenizer, &r->tokenizer));
    zr__writer w = writer_of(r, &args);
    zr_status st = zr__writer_open(&w);
    zr__writer_close(&w);
    return st;
}

zr_status zr__sample_open(zr__run *r)
{
    return zr__run_agree(r, open_writer(r));
}

/* Append text up to the last whole character that fits. */
static void keep(zr__text *kept, const char *text, int64_t bytes)
{
    int64_t room = ZR__SAMPLE_BYTES - (int64_t)kept->length;
    if (bytes > room)
        while (room > 0 && ((unsigned char)text[room] & 0xc0) == 0x80) room--;
    zr__text_append(kept, text, (size_t)(bytes < room ? bytes : room));
}

static zr_status emit(void *arg, const char *text, int64_t bytes)
{
    writing *w = arg;
    keep(&w->kept, text, bytes);
    return ZR_OK;
}

/* Print a text's line of metrics.jsonl. Diverged weights make a note and no line; the training loop handles them. */
static zr_status line_of(const writing *w, zr_status wrote, const char *why, char **line)
{
    char note[640];
    const zr__run *r = w->run;
    if (wrote == ZR_ERR_DIVERGED) {
        snprintf(note, sizeof(note), "no text after step %lld: %s", (long long)r->result->steps, why);
        zr__run_note(r, note);
        return ZR_OK;
    }
    if (wrote != ZR_OK) return ZR_FAIL(wrote, "%s", why);
    ZR_CHECK(!w->kept.failed, ZR_ERR_MEMORY, "no memory for a text of %lld tokens",
             (long long)r->config->train.sample_tokens);
    return zr__metrics_sample(r->result->steps, w->kept.data ? w->kept.data : "", (int64_t)w->kept.length, line);
}

static zr_status write_text(zr__run *r, char **line)
{
    const zr_generate_args args = args_of(r->config);
    writing text = {.run = r};
    zr__writer w = writer_of(r, &args);
    double last[WORDS] = {0};
    char why[512];
    w.arg = &text;
    keep(&text.kept, args.prompt, args.prompt_bytes);
    zr_status st = zr__writer_open(&w);
    if (st == ZR_OK) st = zr__writer_run(&w, emit, &text);
    if (text.over) goto done;
    const zr_status wrote = st;
    snprintf(why, sizeof(why), "%s", wrote == ZR_OK ? "" : zr_error_message());
    ZR_TRY_GOTO(st, meet(r, last), done);
    st = zr__run_agree(r, line_of(&text, wrote, why, line));
done:
    zr__writer_close(&w);
    zr__text_clear(&text.kept);
    return st;
}

zr_status zr__sample_write(zr__run *r, char **line)
{
    *line = NULL;
    return r->comm->rank == 0 ? write_text(r, line) : decode_along(r);
}
