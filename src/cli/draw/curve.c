#include "base/text/text.h"
#include "cli/draw/curve.h"

#include "base/file/file.h"
#include "base/json/json_scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BLOCK_BYTES 65536
#define MOST_STEPS ((int64_t)1 << 53)

const cli_quantity cli_quantities[CLI_QUANTITIES] = {
    [CLI_LOSS] = {"loss", "Loss", "nats a token", true, false, true},
    [CLI_NORM] = {"grad_norm", "Gradient norm", "before clipping", true, false, true},
    [CLI_LR] = {"lr", "Learning rate", "", false, true, false},
    [CLI_RATE] = {"tokens_per_sec", "Tokens a second", "of all ranks", false, true, true},
    [CLI_STEP_MS] = {"step_ms", "Time of a step", "ms", false, true, true},
    [CLI_NOISE] = {"noise_scale_tokens", "Gradient noise scale", "tokens", true, false, false},
    [CLI_VAL] = {"val_loss", "Validation loss", "nats a token", true, false, false},
};

/* ---- series ---------------------------------------------------------------------------------- */

void cli_curve_merge(curve_bucket *into, const curve_bucket *b)
{
    if (b->n && (!into->n || b->low < into->low)) into->low = b->low;
    if (b->n && (!into->n || b->high > into->high)) into->high = b->high;
    into->step_sum += b->step_sum;
    into->sum += b->sum;
    into->n += b->n;
    into->bad += b->bad;
}

/** Halve the resolution: merge the buckets in pairs, so that each bucket covers twice the number of steps. */
static void series_halve(curve_series *s)
{
    const int n = (s->n + 1) / 2;
    for (int i = 0; i < n; i++) {
        curve_bucket both = s->bucket[2 * i];
        if (2 * i + 1 < s->n) cli_curve_merge(&both, &s->bucket[2 * i + 1]);
        s->bucket[i] = both;
    }
    memset(&s->bucket[n], 0, (size_t)(s->n - n) * sizeof(s->bucket[0]));
    s->n = n;
    s->per *= 2;
}

/** Remove the values of `step` and of all later steps. A run that continues from an earlier step writes new values for
 * these steps. */
static void series_forget(curve_series *s, int64_t step)
{
    const int left = (int)((step - 1) / s->per);
    if (left < s->n) {
        memset(&s->bucket[left], 0, (size_t)(s->n - left) * sizeof(s->bucket[0]));
        s->n = left;
    }
    s->last = s->best = NAN;
    for (int i = 0; i < s->n; i++) {
        const curve_bucket *b = &s->bucket[i];
        if (!b->n || b->low >= s->best) continue;
        s->best = b->low;
        s->best_step = (int64_t)(b->step_sum / (double)b->n);
    }
}

static void series_add(curve_series *s, int64_t step, double value, bool bad)
{
    if (s->per == 0) {
        s->per = 1;
        s->last = s->best = NAN;
    }
    if (step <= s->last_step) series_forget(s, step);
    while ((step - 1) / s->per >= CURVE_BUCKETS) series_halve(s);
    const int at = (int)((step - 1) / s->per);
    curve_bucket one = {.bad = bad || !isfinite(value)};
    if (isfinite(value)) {
        one.step_sum = (double)step;
        one.sum = one.low = one.high = s->last = value;
        one.n = 1;
        if (!(value >= s->best)) {
            s->best = value;
            s->best_step = step;
        }
    }
    cli_curve_merge(&s->bucket[at], &one);
    if (at >= s->n) s->n = at + 1;
    s->last_step = step;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Indices into line_numbers.x and line_numbers.there: the quantities of cli_quantities, then the step, the count of
 * skipped steps, and the sample text. */
enum { STEP = CLI_QUANTITIES, SKIPPED, SAMPLE, NUMBERS };

static const char *metric_key(int number)
{
    static const char *const others[] = {"step", "skipped", "sample"};
    return number < CLI_QUANTITIES ? cli_quantities[number].key : others[number - CLI_QUANTITIES];
}

/** Numbers in a line of metrics.jsonl. A value that is not a number becomes NAN. For example, runs write null for an
 * infinite loss. */
typedef struct line_numbers {
    double x[NUMBERS];
    bool there[NUMBERS];
} line_numbers;

static void take_metric(line_numbers *out, const char *text, zr__json_token key, zr__json_token value)
{
    char number[ZR_NUMBER_BYTES] = "";
    for (int i = 0; i < NUMBERS; i++) {
        const size_t bytes = strlen(metric_key(i)), quotes = 2;
        if (key.end - key.begin != bytes + quotes || memcmp(text + key.begin + 1, metric_key(i), bytes) != 0) continue;
        size_t length = value.end - value.begin;
        if (value.kind == 'x' && length < sizeof(number)) memcpy(number, text + value.begin, length);
        char *end = NULL;
        double x = strtod(number, &end);
        out->there[i] = true;
        out->x[i] = end != number && !*end ? x : NAN;
    }
}

/** Parse a line of metrics.jsonl. Return false if the line is not a flat JSON object. */
static bool read_metric_line(const char *text, size_t bytes, line_numbers *out)
{
    zr__json_token t = zr__json_next(text, bytes, 0);
    if (t.kind != '{') return false;
    do {
        zr__json_token key = zr__json_next(text, bytes, t.end);
        zr__json_token colon = zr__json_next(text, bytes, key.end);
        zr__json_token value = zr__json_next(text, bytes, colon.end);
        if (key.kind != '"' || colon.kind != ':' || (value.kind != 'x' && value.kind != '"')) return false;
        take_metric(out, text, key, value);
        t = zr__json_next(text, bytes, value.end);
    } while (t.kind == ',');
    return t.kind == '}' && zr__json_next(text, bytes, t.end).kind == 0;
}

static bool take_metric_line(cli_curve *c, const char *text, size_t bytes)
{
    line_numbers line = {0};
    if (!read_metric_line(text, bytes, &line) || !line.there[STEP]) return false;
    double step_number = line.x[STEP];
    if (!(step_number >= 1 && step_number <= (double)MOST_STEPS)) return false;
    int64_t step = (int64_t)step_number;
    if (line.there[SAMPLE]) return true; /* a line with a generated sample has no values to draw */
    if (!line.there[CLI_LOSS] && !line.there[CLI_VAL]) return false;
    bool nothing = false;
    if (line.there[CLI_LOSS]) {
        /* The count of skipped steps may fall, because a continued run may count from 0 again. */
        const int64_t skipped = line.x[SKIPPED] >= 0 && line.x[SKIPPED] < 0x1p53 ? (int64_t)line.x[SKIPPED] : 0;
        nothing = skipped > c->skipped;
        c->skipped = skipped;
    }
    if (!isfinite(line.x[CLI_NOISE]))
        line.there[CLI_NOISE] = false; /* a null means that the noise scale is unknown, not infinite */
    for (int i = 0; i < CLI_QUANTITIES; i++)
        if (line.there[i]) series_add(&c->series[i], step, line.x[i], i == CLI_LOSS && nothing);
    if (c->first_step == 0 || step < c->first_step) c->first_step = step;
    c->last_step = step;
    return true;
}

static void count_line(cli_curve *c, const char *text, size_t bytes)
{
    const bool blank = zr__json_next(text, bytes, 0).kind == 0;
    c->lines++;
    if (blank || take_metric_line(c, text, bytes)) return;
    if (c->bad_lines++ == 0) c->first_bad = c->lines;
}

/** Read the complete lines of a block. Return the number of bytes in these lines. */
static size_t take_block(cli_curve *c, const char *text, size_t bytes)
{
    size_t done = 0;
    const char *end;
    while ((end = memchr(text + done, '\n', bytes - done))) {
        size_t length = (size_t)(end - (text + done));
        count_line(c, text + done, length);
        done += length + 1;
    }
    return done;
}

/* ---- files ----------------------------------------------------------------------------------- */

static zr_status read_more(cli_curve *c, const zr__file *file, char *block, bool to_end)
{
    while (c->offset < file->bytes) {
        int64_t left = file->bytes - c->offset, n = left < BLOCK_BYTES ? left : BLOCK_BYTES;
        ZR_TRY(zr__file_read(file, c->offset, block, n, ZR_ERR_IO));
        size_t done = take_block(c, block, (size_t)n);
        if (done == 0 && n < BLOCK_BYTES) {
            line_numbers unused = {0};
            bool whole = read_metric_line(block, (size_t)n, &unused);
            if (!to_end || (!whole && block[0] == '{')) return ZR_OK; /* the run is still writing this line */
            count_line(c, block, (size_t)n);
            c->offset += n;
            return ZR_OK;
        }
        /* Skip this part of a line that is longer than a block. Runs write no line of this length. The line's last part
         * will be counted as a bad line. */
        c->offset += done ? (int64_t)done : n;
    }
    return ZR_OK;
}

zr_status cli_curve_read(cli_curve *curve, const char *path, bool to_end)
{
    ZR_AUTO(zr__file_close) zr__file file = {.fd = -1};
    struct stat info;
    ZR_TRY(zr__file_open(path, false, &file));
    ZR_AUTO_FREE char *block = zr_alloc(BLOCK_BYTES);
    int64_t same = fstat(file.fd, &info) == 0 ? (int64_t)info.st_ino : 0;
    if (curve->file != same || file.bytes < curve->offset) memset(curve, 0, sizeof(*curve));
    curve->file = same;
    ZR_CHECK(block, ZR_ERR_MEMORY, "no memory to read %s", file.name);
    return read_more(curve, &file, block, to_end);
}
