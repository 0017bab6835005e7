/* The sizes of GPT-2's units, written out from the architecture, for checks of plans. */
#ifndef GPT2_SIZES_H
#define GPT2_SIZES_H

#include <zr.h>

#include "zr/models.h"

typedef struct gpt2_sizes {
    int64_t embedding, block, final; /* elements of one unit of each kind */
    int64_t n_layer, params;
} gpt2_sizes;

static inline gpt2_sizes gpt2_count(const zr_gpt2_config *c)
{
    int64_t C = c->n_embd;
    gpt2_sizes s = {.embedding = (c->vocab_size + c->n_positions) * C,
                    .block = 12 * C * C + 13 * C,
                    .final = 2 * C,
                    .n_layer = c->n_layer};
    s.params = s.embedding + s.n_layer * s.block + s.final;
    return s;
}

/* Return the elements of a unit padded to a multiple of 32 x ranks. */
static inline int64_t gpt2_pad(int64_t elems, int64_t ranks)
{
    return (elems + 32 * ranks - 1) / (32 * ranks) * (32 * ranks);
}

static inline int64_t gpt2_padded(const gpt2_sizes *s, int64_t ranks)
{
    return gpt2_pad(s->embedding, ranks) + s->n_layer * gpt2_pad(s->block, ranks) + gpt2_pad(s->final, ranks);
}

/* Return the elements that a rank receives at stage 3 in the gathers of one micro-batch, times N/(N-1): the embedding
 * and the blocks twice, the final norm once. */
static inline int64_t gpt2_gathered(const gpt2_sizes *s, int64_t ranks)
{
    return 2 * gpt2_pad(s->embedding, ranks) + 2 * s->n_layer * gpt2_pad(s->block, ranks) + gpt2_pad(s->final, ranks);
}

static inline int64_t gpt2_share(int64_t bytes, int64_t ranks)
{
    return bytes / ranks * (ranks - 1);
}

/* Return the traffic of one optimizer step in bytes, by section 7 of the ZeRO paper: k reduce-scatters of the padded
 * gradients, and the all-gather of the parameters, of the gradient sums (stage 0) or of the units (stage 3). */
static inline zr_traffic gpt2_traffic(const gpt2_sizes *s, int stage, int64_t ranks, int64_t accum, int64_t bytes,
                                      int64_t wire)
{
    int64_t padded = gpt2_padded(s, ranks);
    int64_t gathered = stage == 3 ? accum * gpt2_gathered(s, ranks) * bytes
                       : stage    ? padded * bytes
                                  : padded * (accum > 1 ? 4 : wire);
    return (zr_traffic){{gpt2_share(accum * padded * wire, ranks), gpt2_share(gathered, ranks),
                         (ranks - 1) * (2 * ZR_EXACT_LIMBS + 2) * 8}};
}

#endif
