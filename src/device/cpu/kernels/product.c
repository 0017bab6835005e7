/*
 * Matrix products C (m,n) = A (m,k) B (k,n) of one processor level. Operands are packed into panels, and tiles of C
 * stay in registers (micro_kernel.h). Operands of bf16 and fp32 are multiplied on AMX tiles (amx_product.h) where the
 * level has them. All other operands are widened to fp32 (pack.h) and multiplied in vectors.
 *
 * The shared operand is packed once for all threads: A if m <= n, else B. The other operand is called the own operand:
 * each thread packs blocks of it for its own use. A block stays in the thread's cache
 * (device/cpu/shared/product_blocks.h). Threads take the blocks of the longer side of C one by one, so that a slow core
 * delays the others little, and nearly nothing is packed twice.
 *
 * k is cut into ranges of equal length. Within a range, an element of C is one chain of multiply-adds in order of k, or
 * on AMX tiles, a chain of sums of 32 products (amx.h), six of them for each 32 elements of fp32. The results of the
 * ranges are added in order. The bits of an element therefore depend only on k and the level, not on m, n, the
 * element's place in a tile, or the threads.
 */
#include <omp.h>

#include "device/cpu/matmul.h"
#include "device/cpu/shared/amx_product.h"
#include "device/cpu/shared/pack.h"
#include "device/cpu/shared/product_blocks.h"
#include "device/cpu/shared/row_product.h"

/* DEPTH: maximum length of a range of k. OWN_WORDS: maximum number of words in a thread's own block. Without AVX-512,
 * caches are assumed to be small. */
#if ZR_VEC == 16
#define DEPTH ZR__PRODUCT_DEPTH
#define OWN_WORDS (ZR__PRODUCT_BLOCK / 4)
#else
#define DEPTH ZR__PRODUCT_SHORT
#define OWN_WORDS ((int64_t)48 << 10)
#endif
#if defined(__AMX_BF16__)
#define TILES true
#else
#define TILES false
#endif
#define ROWS ZR_PRODUCT_ROWS
#define COLS ZR_PRODUCT_COLS

/* ---- the micro-kernel of fp32 --------------------------------------------------------------------- */

__attribute__((always_inline)) static inline void run_tile(int rows, int vecs, const zr__product_tile *t)
{
    zr__vec acc[ROWS][ZR_PRODUCT_VECS];
    const float *a = t->a, *b = t->b;
    /* Prefetch the rows of C, which are written after the loop over k. */
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 3
        for (int v = 0; v < vecs; v++) {
            acc[r][v] = zr__vec_splat(0.0f);
            __builtin_prefetch(t->c + r * t->ld + v * ZR_VEC, 1);
        }
    for (int64_t k = 0; k < t->words; k++, a += ROWS, b += COLS) {
        zr__vec right[ZR_PRODUCT_VECS];
#pragma GCC unroll 3
        for (int v = 0; v < vecs; v++) right[v] = zr__vec_load(b + v * ZR_VEC);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            const zr__vec left = zr__vec_splat(a[r]);
#pragma GCC unroll 3
            for (int v = 0; v < vecs; v++) acc[r][v] = zr__vec_fma(left, right[v], acc[r][v]);
        }
    }
    if (t->base)
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 3
            for (int v = 0; v < vecs; v++) acc[r][v] = zr__vec_load(t->base + r * t->base_ld + v * ZR_VEC) + acc[r][v];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 3
        for (int v = 0; v < vecs; v++) zr__vec_store(t->c + r * t->ld + v * ZR_VEC, acc[r][v]);
}

/* Apply the macro X to all sizes of a tile. Tiles at the edges of C have fewer rows or vectors. */
#define EACH_VECS(X, rows) X(rows, 1) X(rows, 2) X(rows, 3)
#if ROWS == 8
#define EACH_TILE(X) EACH_FOUR(X) EACH_VECS(X, 5) EACH_VECS(X, 6) EACH_VECS(X, 7) EACH_VECS(X, 8)
#else
#define EACH_TILE(X) EACH_FOUR(X)
#endif
#define EACH_FOUR(X) EACH_VECS(X, 1) EACH_VECS(X, 2) EACH_VECS(X, 3) EACH_VECS(X, 4)

#define DEFINE_TILE(rows, vecs)                                                                                        \
    static void tile_##rows##_##vecs(const zr__product_tile *t)                                                        \
    {                                                                                                                  \
        run_tile(rows, vecs < ZR_PRODUCT_VECS ? vecs : ZR_PRODUCT_VECS, t);                                            \
    }
EACH_TILE(DEFINE_TILE)

#define TILE_ENTRY(rows, vecs) [rows - 1][vecs - 1] = tile_##rows##_##vecs,
static void (*const tiles[ROWS][3])(const zr__product_tile *) = {EACH_TILE(TILE_ENTRY)};

static void multiply_tile(const zr__product_tile *t, int64_t rows, int64_t cols)
{
    tiles[rows - 1][(cols + ZR_VEC - 1) / ZR_VEC - 1](t);
}

static const zr__micro_kernel f32_kernel = {
    .rows = ROWS,
    .cols = COLS,
    .row_unit = ROWS > ZR_VEC ? ROWS : ZR_VEC,
    .col_unit = COLS,
    .row_grain = 1,
    .step = 1,
    .step_words = 1,
    .depth = DEPTH,
    .own_words = OWN_WORDS,
    .pack_cost = 16,
    .share = 1 << 17,
    .pack = zr__pack,
    .multiply = multiply_tile,
    .row = zr__row_stretch,
};

/* Return the micro-kernel for operands of a type. */
static const zr__micro_kernel *kernel_of(zr_dtype dtype)
{
#if defined(__AMX_BF16__)
    if (dtype == ZR_BF16) return &zr__amx_bf16_kernel;
    if (dtype == ZR_F32) return &zr__amx_f32_kernel;
#endif
    (void)dtype;
    return &f32_kernel;
}

/* Maximum number of elements of a tile, of any micro-kernel. */
enum { TILE_ELEMS = 1024 };
_Static_assert(ROWS *COLS <= TILE_ELEMS, "a tile of fp32 fits");

/* ---- a product ------------------------------------------------------------------------------- */

typedef struct job {
    const zr__product_spec *spec;
    const zr__matmul_operands *at;
    const zr__micro_kernel *kernel;
    zr__side a, b;
    const zr__side *shared,        /* operand that is packed once for all threads */
        *own;                      /* operand that each thread packs in blocks for itself */
    int64_t shared_most, own_most; /* maximum number of rows or columns in each operand's buffer */
    float *shared_at, *own_at, *sums;
    int64_t own_words; /* distance between the blocks of two threads, in words */
    int64_t *taken;    /* number of tasks that threads have asked for, shared by all threads */
} job;

/* Part of C that is computed at a time, for one range of k. */
typedef struct part {
    int64_t row, col, cols; /* first row and column of the part, and its number of columns */
    int64_t k, depth;       /* range of k */
    int64_t words;          /* number of words in a row or column of a panel */
} part;

/* Return the address of the fp32 sum of element (row, col) over the ranges of k that are already processed. The sum is
 * in C if C is F32, else in the scratch. Set *ld to the row stride. */
static float *sums_at(const job *j, const part *p, int64_t row, int64_t col, int64_t *ld)
{
    const bool wide = j->spec->out_dtype == ZR_F32;
    *ld = wide ? j->spec->n : p->cols;
    return wide ? (float *)j->at->c + row * j->spec->n + col : j->sums + (row - p->row) * p->cols + col - p->col;
}

/* Set t->base to the values that are added to the product of this range of k: the sums of earlier ranges, `earlier` or
 * the bias. */
static void set_base(const job *j, const part *p, zr__product_tile *t, int64_t row, int64_t col, int64_t cols,
                     float *bias)
{
    const zr__product_spec *s = j->spec;
    if (p->k > 0 || s->accumulate) {
        t->base = sums_at(j, p, row, col, &t->base_ld);
    } else if (s->earlier) {
        t->base = j->at->earlier + row * s->n + col;
        t->base_ld = s->n;
    } else if (s->bias) {
        zr__load(bias, j->at->bias, s->dtype, col, cols);
        t->base = bias;
    }
}

/* Copy the rows of a tile. A tile at the edge of C is computed in a buffer, because its vectors reach beyond the edge.
 */
static void copy_rows(float *to, int64_t to_ld, const float *from, int64_t ld, int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; r++) memcpy(to + r * to_ld, from + r * ld, (size_t)cols * sizeof(float));
}

/* Round a row of a tile into C, where it begins at element `first`. */
static void round_row(const job *j, int64_t first, const float *made, int64_t cols)
{
    int64_t i = 0;
    if (j->spec->out_dtype == ZR_BF16)
        for (; i + ZR_VEC <= cols; i += ZR_VEC)
            zr__vec_to_bf16((uint16_t *)j->at->c + first + i, zr__vec_load(made + i));
    zr__store(j->at->c, j->spec->out_dtype, first + i, made + i, cols - i);
}

static void make_tile(const job *j, const part *p, int64_t row, int64_t col, const float *a, const float *b)
{
    const zr__product_spec *s = j->spec;
    const int64_t width = j->kernel->cols;
    const int64_t rows = zr__min64(j->kernel->rows, s->m - row), cols = zr__min64(width, s->n - col);
    const bool whole = cols % ZR_VEC == 0 && rows % j->kernel->row_grain == 0,
               narrow = s->out_dtype != ZR_F32 && p->k + p->depth == s->k;
    float base[TILE_ELEMS], made[TILE_ELEMS];
    int64_t ld;
    float *c = sums_at(j, p, row, col, &ld);
    zr__product_tile t = {.words = p->words, .a = a, .b = b, .c = c, .ld = ld};
    set_base(j, p, &t, row, col, cols, base);
    if (!whole && t.base && t.base_ld > 0) {
        copy_rows(base, width, t.base, t.base_ld, rows, cols);
        t.base = base;
        t.base_ld = width;
    }
    if (!whole || narrow) {
        t.c = made;
        t.ld = width;
    }
    j->kernel->multiply(&t, rows, cols);
    if (narrow)
        for (int64_t r = 0; r < rows; r++) round_row(j, (row + r) * s->n + col, made + r * width, cols);
    else if (!whole)
        copy_rows(c, ld, made, width, rows, cols);
}

/* Multiply the range [o0, o1) of this thread's own operand by the range [s0, s1) of the shared operand. `own` holds the
 * packed range, and the packed shared operand begins at index `first`. */
static void multiply_block(const job *j, const part *p, const float *own, int64_t o0, int64_t o1, int64_t first,
                           int64_t s0, int64_t s1)
{
    for (int64_t s = s0; s < s1; s += j->shared->width) {
        const float *shared = j->shared_at + (s - first) * p->words;
        for (int64_t o = o0; o < o1; o += j->own->width) {
            const float *mine = own + (o - o0) * p->words;
            if (j->own->is_a)
                make_tile(j, p, o, s, mine, shared);
            else
                make_tile(j, p, s, o, shared, mine);
        }
    }
}

static int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Return the length of pieces when n is cut into about equal pieces. The length is a multiple of `unit` and at most
 * `most`. */
static int64_t even(int64_t n, int64_t most, int64_t unit)
{
    most = most / unit * unit;
    const int64_t pieces = (n + most - 1) / most;
    return round_up((n + pieces - 1) / pieces, unit);
}

/* ---- division among threads ------------------------------------------------------------------ */

/* Range of rows or columns, and its division into pieces of `step`. */
typedef struct range {
    int64_t begin, end, step;
} range;

static int64_t pieces_of(range r)
{
    return (r.end - r.begin + r.step - 1) / r.step;
}

static range piece_of(range r, int64_t i)
{
    const int64_t begin = r.begin + i * r.step;
    return (range){begin, zr__min64(begin + r.step, r.end), r.step};
}

/* A thread of a team. The threads divide work in rounds of tasks, with a barrier between two rounds. */
typedef struct worker {
    int thread, threads;
    int64_t first; /* value of job.taken when the round began */
} worker;

/* Take the next task of this round, and return its index. After the last task, return an index beyond the tasks.
 * The thread must then not ask again in this round. */
static int64_t take_task(const job *j, const worker *w)
{
    int64_t task;
#pragma omp atomic capture
    task = (*j->taken)++;
    return task - w->first;
}

/* End a round of n tasks. Each thread has asked once more after the last task was taken. */
static void end_round(worker *w, int64_t n)
{
    w->first += n + w->threads;
#pragma omp barrier
}

/* Divide both sides of a part of C into pieces. A task is a block of the own operand and a section of the shared one.
 * The usual length of a block makes TASKS_EACH tasks for each thread, so that fast threads can take more tasks than
 * slow ones. The length is at least LEAST if possible. Lengths that make `each` = 1, 2 ... tasks for each thread
 * replace it if the busiest of equally fast threads then has an eighth less work. They are tried only while the busiest
 * thread has more than 9/8 of its fair part. */
static void divide(const job *j, range *shared, range *own, int threads)
{
    enum { TASKS_EACH = 8, LEAST = 128 };
    const int64_t length = own->end - own->begin, other = shared->end - shared->begin;
    const int64_t unit = j->own->unit, panels = (other + j->shared->width - 1) / j->shared->width;
    const int64_t fair = length * (other + j->kernel->pack_cost) / threads;
    int64_t least = INT64_MAX;
    for (int64_t sections = 1; sections <= threads && sections <= panels; sections++) {
        const int64_t section = even(other, (other + sections - 1) / sections + j->shared->width - 1, j->shared->width);
        for (int64_t each = 0; each == 0 || (each <= TASKS_EACH && least > fair + fair / 8); each++) {
            const int64_t wanted = length / (TASKS_EACH * threads), most = length * sections / threads;
            int64_t step = each > 0 ? most / each + unit : zr__min64(wanted > LEAST ? wanted : LEAST, most);
            step = zr__min64(step, j->own_most);
            step = even(length, step > unit ? step : unit, unit);
            const int64_t tasks = (length + step - 1) / step * ((other + section - 1) / section);
            const int64_t cost = (tasks + threads - 1) / threads * step * (section + j->kernel->pack_cost);
            if (cost >= least - (each > 0 ? least / 8 : 0)) continue;
            least = cost;
            own->step = step;
            shared->step = section;
        }
    }
}

/* Multiply one range of k for a part of C. All threads together pack the shared operand. Each thread then packs blocks
 * of the own operand and multiplies them. */
static void multiply_part(const job *j, const part *p, range shared, range own, worker *w)
{
    float *block = j->own_at + w->thread * j->own_words;
    range pack = shared;
    pack.step = round_up((pack.end - pack.begin + 4 * w->threads - 1) / (4 * w->threads), j->shared->unit);
    for (int64_t i; (i = take_task(j, w)) < pieces_of(pack);) {
        const range r = piece_of(pack, i);
        zr__panels_at to = {j->shared_at + (r.begin - shared.begin) * p->words, r.begin, p->depth, p->words};
        j->kernel->pack(j->shared, to, r.end - r.begin, p->k);
    }
    end_round(w, pieces_of(pack));
    divide(j, &shared, &own, w->threads);
    const int64_t sections = pieces_of(shared), tasks = pieces_of(own) * sections;
    int64_t packed = -1;
    for (int64_t i; (i = take_task(j, w)) < tasks;) {
        const range mine = piece_of(own, i / sections), other = piece_of(shared, i % sections);
        if (packed != i / sections)
            j->kernel->pack(j->own, (zr__panels_at){block, mine.begin, p->depth, p->words}, mine.end - mine.begin,
                            p->k);
        packed = i / sections;
        multiply_block(j, p, block, mine.begin, mine.end, shared.begin, other.begin, other.end);
    }
    end_round(w, tasks);
}

/* Return the length of the ranges into which k is cut. Ranges have about equal lengths, which are multiples of 16, or
 * of the kernel's step. */
static int64_t depth_of(const zr__micro_kernel *kernel, int64_t k)
{
    return even(k, kernel->depth, kernel->step > 16 ? kernel->step : 16);
}

static void multiply_share(const job *j, worker w)
{
    const zr__product_spec *s = j->spec;
    const int64_t depth = depth_of(j->kernel, s->k), side = ZR__PRODUCT_SIDE;
    const bool waits = s->out_dtype != ZR_F32 && depth < s->k;
    const int64_t n = j->shared->n, l = j->own->n;
    const int64_t n_step = even(n, waits ? zr__min64(side, j->shared_most) : j->shared_most, j->shared->unit),
                  l_step = waits && l > side ? even(l, side, j->own->unit) : l;
    for (int64_t n0 = 0; n0 < n; n0 += n_step)
        for (int64_t l0 = 0; l0 < l; l0 += l_step)
            for (int64_t k = 0; k < s->k; k += depth) {
                const range shared = {n0, zr__min64(n, n0 + n_step), 0}, own = {l0, zr__min64(l, l0 + l_step), 0};
                const range *cols = j->own->is_a ? &shared : &own;
                const int64_t now = zr__min64(depth, s->k - k);
                const part p = {j->own->is_a ? l0 : n0,         cols->begin, cols->end - cols->begin, k, now,
                                zr__micro_words(j->kernel, now)};
                multiply_part(j, &p, shared, own, &w);
            }
}

/* ---- a product's team and buffers ------------------------------------------------------------- */

/* Return the number of threads for the product, up to s->threads. */
static int team_of(const zr__micro_kernel *kernel, const zr__product_spec *s)
{
    const double m = (double)s->m, n = (double)s->n, k = (double)s->k;
    const double work = k * (m * n + (double)kernel->pack_cost * (m + n)), wanted = work / (double)kernel->share;
    return wanted < 1.0 ? 1 : wanted < (double)s->threads ? (int)wanted : s->threads;
}

static job make_job(const zr__product_spec *s, const zr__matmul_operands *at)
{
    const zr__micro_kernel *kernel = kernel_of(s->dtype);
    const int64_t words = zr__micro_words(kernel, zr__min64(depth_of(kernel, s->k), s->k)),
                  least = words * kernel->cols;
    const zr__product_shape shape = {s->m, s->n, s->k, s->dtype, s->out_dtype, TILES};
    const zr__product_layout l = zr__product_layout_make(shape, s->threads, ZR__PANEL_BYTES);
    const int64_t own_words = zr__min64(l.own_bytes / 4, kernel->own_words > least ? kernel->own_words : least);
    return (job){.spec = s,
                 .at = at,
                 .kernel = kernel,
                 .a = {at->a, s->dtype, true, s->a.row, s->a.col, s->m, kernel->rows, kernel->row_unit},
                 .b = {at->b, s->dtype, false, s->b.col, s->b.row, s->n, kernel->cols, kernel->col_unit},
                 .shared_most = l.shared_bytes / 4 / words,
                 .own_most = own_words / words,
                 .shared_at = at->panels,
                 .own_at = (float *)((char *)at->panels + l.own),
                 .own_words = l.own_bytes / 4,
                 .sums = (float *)((char *)at->panels + l.sums)};
}

/* ---- one row --------------------------------------------------------------------------------- */

/* Compute columns [col, col + cols) of a product with one row in fp32, without packing. */
static void multiply_columns(const job *j, int64_t col, int64_t cols)
{
    const zr__product_spec *s = j->spec;
    const int64_t depth = depth_of(j->kernel, s->k);
    float a[DEPTH], sum[ZR__ROW_COLS], made[ZR__ROW_COLS];
    for (int64_t k = 0; k < s->k; k += depth) {
        const int64_t now = zr__min64(depth, s->k - k);
        const bool first = k == 0;
        zr__load(a, j->at->a, s->dtype, k, now);
        j->kernel->row(&j->b, a, k, now, col, cols, first ? made : sum);
        if (first && s->bias) {
            zr__load(sum, j->at->bias, s->dtype, col, cols);
            for (int64_t i = 0; i < cols; i++) made[i] = sum[i] + made[i];
        } else if (!first) {
            for (int64_t i = 0; i < cols; i++) made[i] = made[i] + sum[i];
        }
    }
    zr__store(j->at->c, s->out_dtype, col, made, cols);
}

static bool is_row(const zr__product_spec *s)
{
    return s->m == 1 && (s->k == 1 || s->a.col == 1) && !s->earlier && !s->accumulate;
}

static void multiply_row(const job *j, int team)
{
    enum { GRAIN = 16 };
#pragma omp parallel num_threads(team) if (team > 1)
    {
        int64_t begin, end;
        zr__share(j->spec->n, GRAIN, omp_get_thread_num(), omp_get_num_threads(), &begin, &end);
        for (; begin < end; begin += ZR__ROW_COLS) multiply_columns(j, begin, zr__min64(ZR__ROW_COLS, end - begin));
    }
}

static void multiply(const zr__product_spec *s, const zr__matmul_operands *at)
{
    job shape = make_job(s, at);
    if (shape.kernel->row && is_row(s)) {
        multiply_row(&shape, team_of(shape.kernel, s));
        return;
    }
    const int team = team_of(shape.kernel, s);
    const bool rows_shared = s->m <= s->n;
    int64_t taken = 0;
    shape.taken = &taken;
#pragma omp parallel num_threads(team) if (team > 1)
    {
        job j = shape;
        j.shared = rows_shared ? &j.a : &j.b;
        j.own = rows_shared ? &j.b : &j.a;
        if (j.kernel->begin) j.kernel->begin();
        /* OpenMP may have started fewer threads than `team`, so use the actual number. */
        multiply_share(&j, (worker){omp_get_thread_num(), omp_get_num_threads(), 0});
        if (j.kernel->end) j.kernel->end();
    }
}

const zr__panel_ops ZR_LEVEL_NAME(zr__panels) = {
#if defined(__AVX512BF16__)
    .bf16_products = true,
#endif
    .tiles = TILES,
    .multiply = multiply,
};

const zr_kernel ZR_LEVEL_NAME(zr__kernels_product)[] = {{0}};
