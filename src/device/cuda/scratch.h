/**
 * Scratch of a GPU's kernels, computed from shapes alone. The header is plain C, because machines without a GPU or
 * CUDA also create plans. The kernels use the layouts that these functions compute.
 */
#ifndef ZR_DEVICE_CUDA_SCRATCH_H
#define ZR_DEVICE_CUDA_SCRATCH_H

#include "zr/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Number of keys of a head that one block of attention_cached processes. */
#define ZR__CUDA_CACHED_KEYS 128

static inline int64_t zr__cuda_ceil_div(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

static inline int64_t zr__cuda_round_up(int64_t n, int64_t to)
{
    return zr__cuda_ceil_div(n, to) * to;
}

/** Maximum number of ranges (runs) into which the rows are cut if an op sums over rows (gradients of biases and gains).
 * The sums of the runs are added in order. The number is the same on every GPU. */
#define ZR__CUDA_ROW_RUNS 128

/** Return the number of rows of a run, if `rows` rows are cut into runs. The last run may be shorter. */
static inline int64_t zr__cuda_row_run(int64_t rows)
{
    const int64_t run = zr__cuda_ceil_div(rows, ZR__CUDA_ROW_RUNS);
    return run > 32 ? run : 32;
}

/* ---- products ---------------------------------------------------------------------------------- */

/** Maximum padding in bytes that aligns cuBLASLt's workspace in the scratch. The scratch is aligned to only 64 bytes,
 * but the workspace must be aligned to 256: 256 - 64 = 192. */
#define ZR__CUDA_WORKSPACE_SHIFT 192
/** Limits on the bytes of the workspace. The upper limit is NVIDIA's recommendation for cuBLASLt's largest products. */
#define ZR__CUDA_WORKSPACE_MOST ((int64_t)32 << 20)
#define ZR__CUDA_WORKSPACE_LEAST ((int64_t)1 << 20)

/** Return the workspace bytes of a product C (m,n). If C is small and k is large, cuBLASLt stores partial sums in the
 * workspace, in fp32: about 16 sums for each element of C. */
static inline int64_t zr__cuda_workspace(int64_t m, int64_t n)
{
    const int64_t parts = m > ZR__CUDA_WORKSPACE_MOST / n ? ZR__CUDA_WORKSPACE_MOST : 16 * 4 * m * n;
    const int64_t most = parts < ZR__CUDA_WORKSPACE_MOST ? parts : ZR__CUDA_WORKSPACE_MOST;
    return (most > ZR__CUDA_WORKSPACE_LEAST ? most : ZR__CUDA_WORKSPACE_LEAST) + ZR__CUDA_WORKSPACE_SHIFT;
}

/** Number of elements of a matrix whose squares a block of threads of orthogonalize adds. */
#define ZR__CUDA_SQUARE_ELEMS 4096

/** Layout of the scratch of the op orthogonalize, as offsets in bytes: the matrix X and the symmetric matrix A in their
 * type, the result of a product in F32, the sums of squares of blocks, the norm, and the workspace of products. */
typedef struct zr__cuda_ortho {
    int64_t matrix, symmetric, wide, sums, norm, workspace, bytes;
} zr__cuda_ortho;

static inline zr__cuda_ortho zr__cuda_ortho_make(int64_t rows, int64_t cols, zr_dtype dtype)
{
    const int64_t r = rows < cols ? rows : cols, n = rows * cols, size = zr_dtype_bytes(dtype);
    const int64_t square = zr__cuda_workspace(r, r), apply = zr__cuda_workspace(rows, cols);
    zr__cuda_ortho o;
    o.matrix = 0;
    o.symmetric = zr__cuda_round_up(n * size, 64);
    o.wide = o.symmetric + zr__cuda_round_up(r * r * size, 64);
    o.sums = o.wide + zr__cuda_round_up(n * 4, 64);
    o.norm = o.sums + zr__cuda_round_up(zr__cuda_ceil_div(n, ZR__CUDA_SQUARE_ELEMS) * 8, 64);
    o.workspace = o.norm + 64;
    o.bytes = o.workspace + (square > apply ? square : apply);
    return o;
}

/** Layout of the scratch of the op linear_dw if the op adds `earlier` in fp32 and rounds the sum to 16 bits. The sum is
 * computed for one block of rows of w at a time. */
typedef struct zr__cuda_rounded {
    int64_t rows;      /* number of rows in a block; the last block may have fewer */
    int64_t workspace, /* offset in bytes of the workspace, which follows the rows in fp32 */
        bytes;         /* size of the whole scratch */
} zr__cuda_rounded;

static inline zr__cuda_rounded zr__cuda_rounded_make(int64_t rows, int64_t cols)
{
    const int64_t some = ((int64_t)32 << 20) / (4 * cols) / 16 * 16, least = some > 16 ? some : 16;
    zr__cuda_rounded r;
    r.rows = rows < least ? rows : least;
    r.workspace = zr__cuda_round_up(r.rows * cols * 4, 64);
    r.bytes = r.workspace + zr__cuda_workspace(r.rows, cols);
    return r;
}

/* ---- a head and its losses --------------------------------------------------------------------- */

/** Layout of the scratch of linear_cross_entropy; offsets are in bytes. */
typedef struct zr__cuda_head {
    int64_t rows,   /* number of rows in a block; the last block may have fewer */
        blocks;     /* number of blocks */
    int64_t ld;     /* row stride of the logits in elements; a row has whole lines of 128 bytes */
    bool sum_in_dw; /* whether dw itself holds the sum over the blocks */
    int64_t sum;    /* offset of the sum (V,C) in F32, which follows the logits; it takes no bytes if sum_in_dw */
    /* offset of the sum of db (V) in F32, followed by the sums of a block's runs of rows (runs,V); without db they take
     * no bytes */
    int64_t bias_sum;
    int64_t workspace, /* offset of the products' workspace */
        bytes;         /* size of the whole scratch */
} zr__cuda_head;

/** Compute the layout for rows of V logits in dtype g, in blocks of `block` rows. w is the dtype of dw, or
 * ZR_F32 if there is no dw. with_db says whether db is computed. */
static inline zr__cuda_head zr__cuda_head_make(int64_t rows, int64_t block, int64_t V, int64_t C, zr_dtype g,
                                               zr_dtype w, bool backward, bool with_db)
{
    zr__cuda_head h;
    h.ld = zr__cuda_round_up(V, 128 / zr_dtype_bytes(g));
    h.rows = block;
    h.blocks = zr__cuda_ceil_div(rows, h.rows);
    /* With a single block, dw is rounded only once even without an fp32 sum. */
    h.sum_in_dw = w == ZR_F32 || (h.blocks == 1 && w == g);
    h.sum = zr__cuda_round_up(h.rows * h.ld * zr_dtype_bytes(g), 64);
    h.bias_sum = h.sum + (h.sum_in_dw ? 0 : zr__cuda_round_up(V * C * 4, 64));
    const int64_t runs = zr__cuda_ceil_div(h.rows, zr__cuda_row_run(h.rows));
    h.workspace = h.bias_sum + (with_db ? zr__cuda_round_up((1 + runs) * V * 4, 64) : 0);
    int64_t workspace = zr__cuda_workspace(h.rows, V);
    if (backward && zr__cuda_workspace(h.rows, C) > workspace) workspace = zr__cuda_workspace(h.rows, C);
    if (backward && zr__cuda_workspace(V, C) > workspace) workspace = zr__cuda_workspace(V, C);
    h.bytes = h.workspace + workspace;
    return h;
}

/* ---- tokens in the order of their rows (embedding_dw) ------------------------------------------ */

/** SORT_TILE: number of tokens in a tile, which one block of threads processes. SORT_DIGITS: number of values of a
 * digit in a round of the sort. MANY_TOKENS: rows of the table with more tokens than this get blocks of threads of
 * their own. */
#define ZR__CUDA_SORT_TILE 1024
#define ZR__CUDA_SORT_DIGITS 256
#define ZR__CUDA_MANY_TOKENS 64

/** Layout of the scratch of the sort of tokens; offsets are in words of 4 bytes. */
typedef struct zr__cuda_token_places {
    int64_t tiles;
    int64_t order[2]; /* offsets of two buffers of tokens, which rounds of the sort use in turn */
    int64_t counts;   /* offset of counts: the number of tokens with each digit in each tile */
    /* offset of rows + 1 indices into the sorted tokens: each row's first token, then the end of the last row's tokens
     */
    int64_t first;
    int64_t many;  /* offset of the number of rows with many tokens, followed by the indices of these rows */
    int64_t words; /* size of the whole scratch, in words */
} zr__cuda_token_places;

static inline zr__cuda_token_places zr__cuda_token_places_of(int64_t tokens, int64_t rows)
{
    zr__cuda_token_places p = {
        (tokens + ZR__CUDA_SORT_TILE - 1) / ZR__CUDA_SORT_TILE, {0, tokens}, 2 * tokens, 0, 0, 0};
    p.first = p.counts + p.tiles * ZR__CUDA_SORT_DIGITS;
    p.many = p.first + rows + 1;
    p.words = p.many + 1 + tokens / (ZR__CUDA_MANY_TOKENS + 1);
    return p;
}

#ifdef __cplusplus
}
#endif
#endif
