/** Merging of adapters into the weights of their base: W + (alpha / rank) B A, or its transpose for a weight of shape
 * (inputs, outputs). */
#include "train/weights/convert.h"

#include "base/text/text.h"
#include "train/family/inputs.h"

#include <stdio.h>
#include <string.h>

struct zr__merge {
    int64_t rank, inputs, outputs;
    bool by_columns; /* whether the weight has the shape (inputs, outputs) */
    double factor;   /* alpha / rank */
    float *a, *b;    /* A transposed, (inputs, rank); B (outputs, rank) */
};

void zr__merge_end(zr__convert *c)
{
    if (c->merge) zr_free(c->merge->a);
    if (c->merge) zr_free(c->merge->b);
    zr_free(c->merge);
    c->merge = NULL;
}

/** Read both factors, and transpose A so that products of rows are contiguous. */
static zr_status read_factors(const zr__convert *c, const zr_param_info *a, const zr_param_info *b, zr__merge *m)
{
    const int64_t elems = m->rank * m->inputs;
    ZR_AUTO_FREE float *rows = zr_alloc(sizeof(*rows) * (size_t)elems);
    m->a = zr_alloc(sizeof(*m->a) * (size_t)elems);
    m->b = zr_alloc(sizeof(*m->b) * (size_t)(m->rank * m->outputs));
    ZR_CHECK(rows && m->a && m->b, ZR_ERR_MEMORY, "no memory for the factors of %s", a->name);
    ZR_TRY(zr_weights_read(c->weights, a->name, 0, elems, rows));
    ZR_TRY(zr_weights_read(c->weights, b->name, 0, m->rank * m->outputs, m->b));
    for (int64_t r = 0; r < m->rank; r++)
        for (int64_t i = 0; i < m->inputs; i++) m->a[i * m->rank + r] = rows[r * m->inputs + i];
    return ZR_OK;
}

zr_status zr__merge_begin(zr__convert *c, const char *tensor)
{
    enum { LAYER_MAX = ZR_NAME_MAX - sizeof(".lora_A.weight") };
    char name[2][ZR_NAME_MAX];
    if (!c->adapters || !zr__text_ends(tensor, ".weight")) return ZR_OK;
    const size_t n = strlen(tensor) - strlen(".weight");
    if (n > LAYER_MAX) return ZR_OK;
    for (int f = 0; f < 2; f++) snprintf(name[f], ZR_NAME_MAX, "%.*s.lora_%c.weight", (int)n, tensor, "AB"[f]);
    const zr_param_info *a = zr__param_named(c->adapters, name[0]), *b = zr__param_named(c->adapters, name[1]);
    if (!a || !b) return ZR_OK;
    c->merge = zr_alloc(sizeof(*c->merge));
    ZR_CHECK(c->merge, ZR_ERR_MEMORY, "no memory to merge %s", tensor);
    *c->merge = (zr__merge){.rank = a->whole.dim[0],
                            .inputs = a->whole.dim[1],
                            .outputs = b->whole.dim[0],
                            .by_columns = a->by_columns,
                            .factor = c->lora.alpha / (double)c->lora.rank};
    return read_factors(c, a, b, c->merge);
}

void zr__merge_piece(const zr__convert *c, int64_t first, int64_t n)
{
    const zr__merge *m = c->merge;
    const int64_t cols = m->by_columns ? m->outputs : m->inputs;
    for (int64_t e = 0; e < n; e++) {
        const int64_t row = (first + e) / cols, col = (first + e) % cols;
        const float *a = m->a + (m->by_columns ? row : col) * m->rank,
                    *b = m->b + (m->by_columns ? col : row) * m->rank;
        double sum = 0;
        for (int64_t r = 0; r < m->rank; r++) sum += (double)a[r] * b[r];
        c->piece[e] = (float)(c->piece[e] + m->factor * sum);
    }
}
