#include "data/pairs/ready.h"

#include "base/core/grow.h"
#include "base/file/file.h"
#include "base/text/text.h"
#include "checkpoint/checkpoint.h"
#include "data/tokens/part.h"

#include <string.h>

enum { NOT_PREDICTED = -100 }; /* label of a token that is not predicted */

/* ---- tensors --------------------------------------------------------------------------------- */

/* Find a tensor, and check its type and shape: the last dimension must be `last`, and the product of all other
 * dimensions must be `rows`. If `last` is 0, the product of all dimensions must be `rows`. *found receives NULL if the
 * file lacks the tensor. */
static zr_status find_tensor(const zr__ready *r, const char *name, int64_t rows, int64_t last,
                             const zr_safetensors_tensor **found)
{
    char shape[ZR_QUOTE_BYTES];
    const zr_safetensors_tensor *t = *found = zr_safetensors_find(r->file, name);
    if (!t) return ZR_OK;
    ZR_CHECK(strcmp(t->dtype, "I32") == 0 || strcmp(t->dtype, "I64") == 0, ZR_ERR_DATA,
             "%s: tensor %s has type %s; expected I32 or I64", r->name, name, t->dtype);
    ZR_CHECK(t->ndim >= (last > 0 ? 2 : 1) && (last == 0 || t->dim[t->ndim - 1] == last), ZR_ERR_DATA,
             "%s: tensor %s has the shape %s; expected one or more dimensions that count rows, and then "
             "data.seq_length %lld",
             r->name, name, zr__safetensors_print_dims(t, shape), (long long)r->seq_length);
    const int64_t has = t->elems / (last > 0 ? last : 1);
    ZR_CHECK(has == rows, ZR_ERR_DATA, "%s: tensor %s has %lld rows, but input_ids has %lld", r->name, name,
             (long long)has, (long long)rows);
    return ZR_OK;
}

static zr_status find_tensors(zr__ready *r)
{
    const int64_t T = r->seq_length;
    r->ids = zr_safetensors_find(r->file, "input_ids");
    ZR_CHECK(r->ids && zr_safetensors_find(r->file, "labels"), ZR_ERR_DATA,
             "%s: there is no tensor %s; ready rows have input_ids and labels, and perhaps token_type_ids, "
             "attention_mask and next_sentence_label",
             r->name, r->ids ? "labels" : "input_ids");
    r->rows = r->ids->elems / T;
    ZR_CHECK(r->rows > 0, ZR_ERR_DATA, "%s: tensor input_ids has %lld elements, which are no row of %lld tokens",
             r->name, (long long)r->ids->elems, (long long)T);
    ZR_TRY(find_tensor(r, "input_ids", r->rows, T, &r->ids));
    ZR_TRY(find_tensor(r, "labels", r->rows, T, &r->labels));
    ZR_TRY(find_tensor(r, "token_type_ids", r->rows, T, &r->segments));
    ZR_TRY(find_tensor(r, "attention_mask", r->rows, T, &r->mask));
    return find_tensor(r, "next_sentence_label", r->rows, 0, &r->next);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Return a failure that names an invalid element of a row. */
static zr_status refuse(const zr__ready *r, const char *tensor, int64_t row, int64_t at, int32_t value,
                        const char *wanted)
{
    return ZR_FAIL(ZR_ERR_DATA, "%s: %s of row %lld, token %lld (both from 0), is %d; expected %s", r->name, tensor,
                   (long long)row, (long long)at, value, wanted);
}

/* Read a row of a tensor, and check that its elements are in [0, limit). For a missing tensor, set every element to
 * `otherwise`. */
static zr_status read_part(const zr__ready *r, const zr_safetensors_tensor *tensor, const char *name, int64_t row,
                           int32_t otherwise, int64_t limit, int32_t *out)
{
    const int64_t T = r->seq_length;
    for (int64_t i = 0; !tensor && i < T; i++) out[i] = otherwise;
    if (!tensor) return ZR_OK;
    ZR_TRY(zr_safetensors_read_i32(r->file, tensor, row * T, T, out));
    for (int64_t i = 0; i < T; i++)
        if (out[i] < 0 || out[i] >= limit)
            return refuse(r, name, row, i, out[i], limit == 2 ? "0 or 1" : "a token below vocab_size");
    return ZR_OK;
}

/* Read the number of tokens of a row before its padding. */
static zr_status read_length(const zr__ready *r, int64_t row, int64_t *length)
{
    int64_t n = 0;
    ZR_TRY(read_part(r, r->mask, "attention_mask", row, 1, 2, r->stage));
    while (n < r->seq_length && r->stage[n] == 1) n++;
    for (int64_t i = n; i < r->seq_length; i++)
        if (n == 0 || r->stage[i] != 0)
            return refuse(r, "attention_mask", row, n == 0 ? 0 : i, r->stage[n == 0 ? 0 : i],
                          "ones and then zeros, since a row is one sample and its padding");
    *length = n;
    return ZR_OK;
}

/* Read the labels of a row of `length` tokens and padding. *n receives the number of predicted tokens; `masked` and
 * `targets` receive their indices and labels unless they are NULL. */
static zr_status read_labels(const zr__ready *r, int64_t row, int64_t length, int64_t *n, int32_t *masked,
                             int32_t *targets)
{
    *n = 0;
    ZR_TRY(zr_safetensors_read_i32(r->file, r->labels, row * r->seq_length, r->seq_length, r->stage));
    for (int64_t i = 0; i < r->seq_length; i++) {
        const int32_t label = r->stage[i];
        if (label == NOT_PREDICTED) continue;
        if (label < 0 || label >= r->vocab_size)
            return refuse(r, "labels", row, i, label, "-100 or a token below vocab_size");
        if (i >= length) return refuse(r, "labels", row, i, label, "-100, because this token is padding");
        if (masked && *n < r->predictions) masked[*n] = (int32_t)i;
        if (targets && *n < r->predictions) targets[*n] = label;
        ++*n;
    }
    ZR_CHECK(*n <= r->predictions, ZR_ERR_DATA,
             "%s: labels of row %lld: %lld tokens are predicted, but data.max_predictions is %lld", r->name,
             (long long)row, (long long)*n, (long long)r->predictions);
    return ZR_OK;
}

/* Read the label of next-sentence prediction; *label is -1 in a file without such labels. */
static zr_status read_next(const zr__ready *r, int64_t row, int32_t *label)
{
    *label = -1;
    if (!r->next) return ZR_OK;
    ZR_TRY(zr_safetensors_read_i32(r->file, r->next, row, 1, label));
    if (*label == NOT_PREDICTED) *label = -1;
    ZR_CHECK(*label >= -1 && *label <= 1, ZR_ERR_DATA,
             "%s: next_sentence_label of row %lld (from 0) is %d; expected 0, 1, or -100 for no label", r->name,
             (long long)row, *label);
    return ZR_OK;
}

zr_status zr__ready_read(const zr__ready *r, int64_t number, const zr_pairs_row *out)
{
    const int64_t row = r->row ? r->row[number] : number;
    int64_t length = 0, n = 0;
    ZR_TRY(read_length(r, row, &length));
    ZR_TRY(read_part(r, r->ids, "input_ids", row, 0, r->vocab_size, out->tokens));
    ZR_TRY(read_part(r, r->segments, "token_type_ids", row, 0, 2, out->segments));
    ZR_TRY(read_labels(r, row, length, &n, out->masked, out->masked_targets));
    for (int64_t i = n; i < r->predictions; i++) {
        out->masked[i] = 0;
        out->masked_targets[i] = -1;
    }
    for (int64_t i = 0; i < r->seq_length; i++) out->documents[i] = i < length ? 0 : (int32_t)length;
    for (int64_t i = 0; i < r->samples; i++) {
        if (out->first) out->first[i] = 0;
        if (out->next) out->next[i] = -1;
    }
    return out->next ? read_next(r, row, out->next) : ZR_OK;
}

/* ---- the object ------------------------------------------------------------------------------ */

/* Check all rows, and count the rows of the part and their tokens. `part` is a buffer for a row. */
static zr_status check_rows(zr__ready *r, const zr_data_part *of, int32_t *part)
{
    int32_t label = 0;
    int64_t rows = 0;
    for (int64_t row = 0; row < r->rows; row++) {
        int64_t length = 0, n = 0;
        ZR_TRY(read_length(r, row, &length));
        ZR_TRY(read_part(r, r->ids, "input_ids", row, 0, r->vocab_size, part));
        ZR_TRY(read_part(r, r->segments, "token_type_ids", row, 0, 2, part));
        ZR_TRY(read_labels(r, row, length, &n, NULL, NULL));
        ZR_TRY(read_next(r, row, &label));
        if (!zr__part_has(of, row)) continue;
        if (of->share > 0) {
            ZR_GROW(r->row, r->row_room, rows + 1, "rows of a part");
            r->row[rows] = row;
        }
        rows++;
        r->tokens += length;
        r->without_prediction += n == 0;
    }
    const zr__part_size size = {.name = r->name, .unit = "rows", .has = rows, .all = r->rows, .least = 1};
    ZR_TRY(zr__part_check(of, &size));
    r->rows = rows;
    ZR_CHECK(r->without_prediction < r->rows, ZR_ERR_DATA,
             "%s: labels: all are -100, so there is no token to predict; give the original ids of masked tokens",
             r->name);
    return ZR_OK;
}

zr_status zr__ready_open(const zr_pairs_args *args, const char *path, zr__ready *r)
{
    *r = (zr__ready){.seq_length = args->seq_length,
                     .predictions = args->predictions,
                     .samples = args->samples,
                     .vocab_size = args->vocab_size};
    zr__text_escape(path, r->name, sizeof(r->name));
    ZR_TRY(zr_safetensors_open(path, &r->file));
    ZR_TRY(find_tensors(r));
    ZR_AUTO_FREE int32_t *part = zr_alloc((size_t)r->seq_length * sizeof(*part));
    r->stage = zr_alloc((size_t)r->seq_length * sizeof(*r->stage));
    ZR_CHECK(part && r->stage, ZR_ERR_MEMORY, "no memory for a row of %s", r->name);
    return check_rows(r, &args->part, part);
}

/* A pass over the file. */
typedef struct reading {
    int64_t bytes;
    zr_progress_fn fn;
    void *arg;
} reading;

static zr_status tell(void *arg, int64_t at, const void *piece, int64_t bytes)
{
    const reading *r = arg;
    (void)piece;
    if (r->fn) r->fn(r->arg, at + bytes, r->bytes);
    return ZR_OK;
}

zr_status zr__ready_hash(const zr__ready *r, uint64_t *hash, zr_progress_fn fn, void *arg)
{
    ZR_AUTO(zr__file_close) zr__file file = {.fd = -1};
    ZR_TRY(zr__file_open(zr__safetensors_path(r->file), false, &file));
    reading pass = {file.bytes, fn, arg};
    return hash ? zr__file_pass(&file, tell, &pass, hash) : ZR_OK; /* opening has checked all rows */
}

void zr__ready_close(zr__ready *r)
{
    zr_safetensors_close(&r->file);
    zr_free(r->stage);
    zr_free(r->row);
    r->stage = NULL;
    r->row = NULL;
}
