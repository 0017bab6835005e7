//TEST timeout=60 long=more tsan=gpu seeds=200
/* embedding, embedding_dw, rows, rows_dx, position, position_dw. */
#include "device/kernel_check.h"
#include "support/long.h"

typedef struct size {
    int64_t B, T, V, C;
} size;

static const size sizes[] = {{1, 1, 1, 1},      {2, 7, 131, 57}, {3, 65, 70, 129},
                             {1, 9, 300, 1100}, {9, 31, 96, 64}, {2, 12, 260, 2120}};
#define N_SIZES (int)(sizeof sizes / sizeof *sizes)

static void check_embedding(const level_pair *level, size s, zr_dtype g)
{
    if (!is_in_run()) return;
    const int64_t n = s.B * s.T;
    int32_t *id = ids_random(n, s.V);
    void *table = array_random(g, s.V * s.C, 1.0), *y = array_new(g, n * s.C);
    kernel_call call = {.name = "embedding", .n_in = 2, .n_out = 1};
    call.in[0] = tensor2(id, ZR_I32, s.B, s.T);
    call.in[1] = tensor2(table, g, s.V, s.C);
    call.out[0] = tensor3(y, g, s.B, s.T, s.C);
    run_both(level, call, 0);
    for (int64_t i = 0; i < n * s.C; i++)
        assert_true(array_get(y, g, i) == array_get(table, g, id[i / s.C] * s.C + i % s.C));
}

static void check_embedding_dw(const level_pair *level, size s, zr_dtype g, zr_dtype w, bool add)
{
    if (!is_in_run()) return;
    const int64_t n = s.B * s.T;
    int32_t *id = ids_random(n, (s.V + 1) / 2); /* no token refers to the table's upper half */
    void *dy = array_random(g, n * s.C, 1.0), *dtable = array_new(w, s.V * s.C);
    void *earlier = array_random(ZR_F32, s.V * s.C, 1.0);
    double *want = add ? doubles_of(earlier, ZR_F32, s.V * s.C) : doubles_new(s.V * s.C);
    for (int64_t i = 0; i < n * s.C; i++) want[id[i / s.C] * s.C + i % s.C] += array_get(dy, g, i);
    kernel_call call = {.name = "embedding_dw", .n_in = 3, .n_out = 1, .scratch_bytes = 16 * n};
    call.in[0] = tensor2(id, ZR_I32, s.B, s.T);
    call.in[1] = tensor3(dy, g, s.B, s.T, s.C);
    call.in[2] = add ? tensor2(earlier, ZR_F32, s.V, s.C) : tensor_absent();
    call.out[0] = tensor2(dtable, w, s.V, s.C);
    run_both(level, call, 4 * s.C);
    assert_close("embedding_dw", dtable, w, want, s.V * s.C, 1e-6);
    if (add && w == ZR_F32) run_in_place(level, call, 2, 4 * s.C);
}

/* Check gathers of P of a row's T positions by index, on all rows of the micro-batch or on a rank with only `own` rows;
 * the gradient with or without an earlier contribution. */
static void check_rows(const level_pair *level, size s, zr_dtype g, bool add, int64_t own)
{
    if (!is_in_run()) return;
    const int64_t P = (s.T + 1) / 2, n = s.B * P, place = own ? 1 : 0, rows = own ? own : s.B * s.T;
    int32_t *index = ids_random(n, s.T);
    for (int64_t i = 0; i < n; i += 3) index[i] = index[0]; /* repeat an index within a row */
    void *x = array_random(g, rows * s.C, 1.0), *y = array_new(g, n * s.C);
    void *dy = array_random(g, n * s.C, 1.0), *dx = array_new(g, rows * s.C), *earlier = array_random(g, rows * s.C, 1);
    double *want = add ? doubles_of(earlier, g, rows * s.C) : doubles_new(rows * s.C), *want_y = doubles_new(n * s.C);
    for (int64_t i = 0; i < n * s.C; i++) {
        const int64_t row = i / s.C / P * s.T + index[i / s.C] - place * own;
        if (row < 0 || row >= rows) continue;
        want_y[i] = array_get(x, g, row * s.C + i % s.C);
        want[row * s.C + i % s.C] += array_get(dy, g, i);
    }
    kernel_call call = {.name = "rows", .attr.i[0] = own ? s.T : 0, .n_in = 2, .n_out = 1, .runtime = {.place = place}};
    call.in[0] = tensor2(index, ZR_I32, s.B, P);
    call.in[1] = own ? tensor2(x, g, own, s.C) : tensor3(x, g, s.B, s.T, s.C);
    call.out[0] = tensor3(y, g, s.B, P, s.C);
    run_both(level, call, 0);
    for (int64_t i = 0; i < n * s.C; i++) assert_true(array_get(y, g, i) == want_y[i]);
    kernel_call back = call;
    back.name = "rows_dx";
    back.n_in = 3;
    back.scratch_bytes = 16 * n;
    back.in[1] = tensor3(dy, g, s.B, P, s.C);
    back.in[2] = call.in[1];
    back.in[2].data = earlier;
    if (!add) back.in[2] = tensor_absent();
    back.out[0] = call.in[1];
    back.out[0].data = dx;
    run_both(level, back, 4 * s.C);
    assert_close("rows_dx", dx, g, want, rows * s.C, 1e-6);
    if (add) run_in_place(level, back, 2, 4 * s.C);
}

static void check_position(const level_pair *level, size s, zr_dtype g, int64_t first)
{
    if (!is_in_run()) return;
    const int64_t n = s.B * s.T * s.C, P = s.T + first + 2;
    void *x = array_random(g, n, 1.0), *table = array_random(g, P * s.C, 1.0), *y = array_new(g, n);
    double *want = doubles_of(x, g, n);
    for (int64_t i = 0; i < n; i++) want[i] += array_get(table, g, (first + i / s.C % s.T) * s.C + i % s.C);
    kernel_call call = {.name = "position", .n_in = 2, .n_out = 1, .runtime = {.position = first}};
    call.in[0] = tensor3(x, g, s.B, s.T, s.C);
    call.in[1] = tensor2(table, g, P, s.C);
    call.out[0] = tensor3(y, g, s.B, s.T, s.C);
    run_both(level, call, 0);
    assert_close("position", y, g, want, n, 1e-6);
    run_in_place(level, call, 0, 0);
}

static void check_position_dw(const level_pair *level, size s, zr_dtype g, zr_dtype w, bool add)
{
    if (!is_in_run()) return;
    const int64_t n = s.B * s.T * s.C, P = s.T + 3;
    void *dy = array_random(g, n, 1.0), *dtable = array_new(w, P * s.C);
    void *earlier = array_random(ZR_F32, P * s.C, 1.0);
    double *want = add ? doubles_of(earlier, ZR_F32, P * s.C) : doubles_new(P * s.C);
    for (int64_t i = 0; i < n; i++) want[i % (s.T * s.C)] += array_get(dy, g, i);
    kernel_call call = {.name = "position_dw", .n_in = 2, .n_out = 1};
    call.in[0] = tensor3(dy, g, s.B, s.T, s.C);
    call.in[1] = add ? tensor2(earlier, ZR_F32, P, s.C) : tensor_absent();
    call.out[0] = tensor2(dtable, w, P, s.C);
    run_both(level, call, 4 * s.C);
    assert_close("position_dw", dtable, w, want, P * s.C, 1e-6);
}

/* Check positions in rows of several documents, on a rank with `rows` rows of the flat micro-batch; 0 for all rows. */
static void check_documents(const level_pair *level, size s, zr_dtype g, zr_dtype w, bool add, int64_t rows)
{
    if (!is_in_run()) return;
    const int64_t place = rows ? 1 : 0, own = rows ? rows : s.B * s.T, n = own * s.C, P = s.T + 3;
    void *x = array_random(g, n, 1.0), *table = array_random(g, P * s.C, 1.0), *y = array_new(g, n);
    void *earlier = array_random(ZR_F32, P * s.C, 1.0), *dtable = array_new(w, P * s.C);
    int32_t *documents = documents_random(s.B, s.T);
    double *want = doubles_of(x, g, n),
           *want_dtable = add ? doubles_of(earlier, ZR_F32, P * s.C) : doubles_new(P * s.C);
    for (int64_t i = 0; i < n; i++) {
        const int64_t token = place * own + i / s.C, at = (token % s.T - documents[token]) * s.C + i % s.C;
        want[i] += array_get(table, g, at);
        want_dtable[at] += array_get(x, g, i);
    }
    kernel_call call = {.name = "position", .attr = {.i = {rows ? s.T : 0}}, .n_in = 3, .n_out = 1};
    call.runtime.place = place;
    call.in[0] = rows ? tensor2(x, g, own, s.C) : tensor3(x, g, s.B, s.T, s.C);
    call.in[1] = tensor2(table, g, P, s.C);
    call.in[2] = tensor2(documents, ZR_I32, s.B, s.T);
    call.out[0] = call.in[0];
    call.out[0].data = y;
    run_both(level, call, 0);
    assert_close("position in documents", y, g, want, n, 1e-6);
    run_in_place(level, call, 0, 0);
    kernel_call back = call;
    back.name = "position_dw";
    back.scratch_bytes = 16 * own;
    back.in[0] = call.in[2];
    back.in[1] = call.in[0];
    back.in[2] = add ? tensor2(earlier, ZR_F32, P, s.C) : tensor_absent();
    back.out[0] = tensor2(dtable, w, P, s.C);
    run_both(level, back, 4 * s.C);
    assert_close("position_dw in documents", dtable, w, want_dtable, P * s.C, 1e-6);
}

static void values(const level_pair *level)
{
    for (int i = 0; i < N_SIZES; i++)
        for (int g = 0; g < N_DTYPES; g++) {
            check_embedding(level, sizes[i], dtypes[g]);
            check_rows(level, sizes[i], dtypes[g], (i + g) % 2, 0);
            check_rows(level, sizes[i], dtypes[g], (i + g) % 2 == 0, sizes[i].B % 2 ? 0 : sizes[i].B * sizes[i].T / 2);
            check_position(level, sizes[i], dtypes[g], 0);
            check_position(level, (size){1, 1, 1, sizes[i].C}, dtypes[g], 5);
            for (int w = 0; w < N_DTYPES; w++)
                for (int add = 0; add < 2; add++) {
                    if (!is_long_run() && (add != (i + g + w) % 2 || w == (i + g) % N_DTYPES)) continue;
                    check_embedding_dw(level, sizes[i], dtypes[g], dtypes[w], add);
                    check_position_dw(level, sizes[i], dtypes[g], dtypes[w], add);
                    check_documents(level, sizes[i], dtypes[g], dtypes[w], add, 0);
                    if (sizes[i].B % 2 == 0)
                        check_documents(level, sizes[i], dtypes[g], dtypes[w], add, sizes[i].B * sizes[i].T / 2);
                }
            pool_clear();
        }
}

/* Check a gradient large enough for non-temporal stores, with rows that begin between cache lines. */
static void large_table(const level_pair *level)
{
    if (!is_in_run()) return;
    for (int add = 0; add < 2; add++) check_embedding_dw(level, (size){2, 33, 2100, 513}, ZR_F32, ZR_F32, add);
    pool_clear();
}

static void test_large_table(void **state)
{
    (void)state;
    for_every_level(large_table);
}

static void test_values(void **state)
{
    (void)state;
    for_every_level(values);
}

/* Check that the same token n times is summed in token order, to the bit. */
static void token_order(const level_pair *level)
{
    if (!is_in_run()) return;
    const int64_t T = 33, C = 5;
    int32_t id[33] = {0};
    float *dy = array_random(ZR_F32, T * C, 1.0), *dtable = array_new(ZR_F32, 300 * C), want[5] = {0};
    for (int64_t t = 0; t < T; t++) {
        id[t] = 256; /* the same low byte of the key as id 0 */
        for (int64_t c = 0; c < C; c++) want[c] += dy[t * C + c];
    }
    kernel_call call = {.name = "embedding_dw", .n_in = 3, .n_out = 1, .scratch_bytes = 16 * T};
    call.in[0] = tensor2(id, ZR_I32, 1, T);
    call.in[1] = tensor3(dy, ZR_F32, 1, T, C);
    call.in[2] = tensor_absent();
    call.out[0] = tensor2(dtable, ZR_F32, 300, C);
    run_both(level, call, 4 * C);
    assert_memory_equal(dtable + 256 * C, want, sizeof want);
    assert_true(dtable[0] == 0.0f);
}

static void test_token_order(void **state)
{
    (void)state;
    for_every_level(token_order);
}

/* Check numbers of tokens and rows at which the sort changes its method, to the bit and with an earlier gradient or
 * without: more tokens than a block has, rows of two and three digits, some with many tokens, and equally many rows. */
static void check_many(const level_pair *level, int64_t n, int64_t V, int64_t C, int64_t frequent, bool add)
{
    int32_t *id = ids_random(n, V);
    float *dy = array_random(ZR_F32, n * C, 1.0), *dtable = array_new(ZR_F32, V * C);
    float *want = array_new(ZR_F32, V * C), *earlier = array_random(ZR_F32, V * C, 1.0);
    for (int64_t i = 0; i < V * C; i++) want[i] = add ? earlier[i] : 0.0f;
    for (int64_t i = 0; i < n; i++) {
        if (i % frequent == 0) id[i] = (int32_t)(V - 1);
        if (i % frequent == 1) id[i] = (int32_t)(V / 2);
        for (int64_t c = 0; c < C; c++) want[id[i] * C + c] += dy[i * C + c];
    }
    kernel_call call = {.name = "embedding_dw", .n_in = 3, .n_out = 1, .scratch_bytes = 16 * n};
    call.in[0] = tensor2(id, ZR_I32, 1, n);
    call.in[1] = tensor3(dy, ZR_F32, 1, n, C);
    call.in[2] = add ? tensor2(earlier, ZR_F32, V, C) : tensor_absent();
    call.out[0] = tensor2(dtable, ZR_F32, V, C);
    run_both(level, call, 4 * C);
    assert_memory_equal(dtable, want, (size_t)(V * C) * sizeof *want);
    pool_clear();
}

static void many_tokens(const level_pair *level)
{
    if (!is_in_run()) return;
    check_many(level, 64, 3, 8, 1, false);
    check_many(level, 65, 3, 8, 1, true);
    check_many(level, 66, 3, 264, 1, true);
    check_many(level, 1024, 255, 3, 5, true);
    check_many(level, 1025, 256, 8, 5, false);
    check_many(level, 5000, 300, 8, 10, true);
    check_many(level, 3000, 66000, 3, 20, false);
}

static void test_many_tokens(void **state)
{
    (void)state;
    for_every_level(many_tokens);
}

/* Check that rows outside this part keep the numbers of `earlier`, both in a separate output and in place. `want` has
 * the results without `earlier`, and `first` is the first row of this part. */
static void check_tile(const level_pair *level, kernel_call call, const double *want, int64_t first, int64_t n,
                       const int32_t *id)
{
    const int64_t V = call.in[1].shape.dim[0], C = call.in[1].shape.dim[1];
    float *earlier = array_random(ZR_F32, n * C, 1.0);
    double *kept = doubles_of(earlier, ZR_F32, n * C);
    for (int64_t i = 0; i < n * C; i++)
        if (id[i / C] >= first && id[i / C] < first + V) kept[i] = want[i];
    call.attr.i[1] = 0; /* the part begins at row attr.i[2], instead of at this rank's place */
    call.attr.i[2] = first;
    call.n_in = 3;
    call.in[2] = call.out[0];
    call.in[2].data = earlier;
    run_both(level, call, 0);
    assert_close("embedding after a tile", call.out[0].data, ZR_F32, kept, n * C, 0.0);
    call.out[0].data = earlier;
    assert_int_equal(kernel_run(level->one, &call), ZR_OK);
    assert_close("embedding in place of a tile", earlier, ZR_F32, kept, n * C, 0.0);
}

/* Check a rank that has rows [place * rows, (place + 1) * rows) of the table: other ranks' tokens give zeros and
 * contribute to no gradient. */
static void check_part(const level_pair *level, size s, int64_t parts, int64_t place)
{
    const int64_t n = s.B * s.T, first = place * s.V, all = parts * s.V;
    int32_t *id = ids_random(n, all);
    float *table = array_random(ZR_F32, s.V * s.C, 1.0), *y = array_new(ZR_F32, n * s.C);
    float *dy = array_random(ZR_F32, n * s.C, 1.0), *dtable = array_new(ZR_F32, s.V * s.C);
    double *want = doubles_new(n * s.C), *want_dtable = doubles_new(s.V * s.C);
    for (int64_t i = 0; i < n * s.C; i++) {
        const int64_t row = id[i / s.C] - first, c = i % s.C;
        if (row < 0 || row >= s.V) continue;
        want[i] = table[row * s.C + c];
        want_dtable[row * s.C + c] += dy[i];
    }
    kernel_call call = {.name = "embedding", .attr = {.i = {all, s.V}}, .n_in = 2, .n_out = 1};
    call.runtime.place = place;
    call.in[0] = tensor2(id, ZR_I32, s.B, s.T);
    call.in[1] = tensor2(table, ZR_F32, s.V, s.C);
    call.out[0] = tensor3(y, ZR_F32, s.B, s.T, s.C);
    run_both(level, call, 0);
    assert_close("embedding", y, ZR_F32, want, n * s.C, 0.0);
    check_tile(level, call, want, first, n, id);
    kernel_call back = call;
    back.name = "embedding_dw";
    back.n_in = 3;
    back.scratch_bytes = 16 * n;
    back.in[1] = tensor3(dy, ZR_F32, s.B, s.T, s.C);
    back.in[2] = tensor_absent();
    back.out[0] = tensor2(dtable, ZR_F32, s.V, s.C);
    run_both(level, back, 4 * s.C);
    assert_close("embedding_dw", dtable, ZR_F32, want_dtable, s.V * s.C, 1e-6);
    pool_clear();
}

/* Check a rank that has rows of the flattened micro-batch, which begin and end inside sequences. */
static void check_own_rows(const level_pair *level, size s, int64_t rows, int64_t place, bool add)
{
    const int64_t n = rows * s.C, P = s.T + 2;
    float *x = array_random(ZR_F32, n, 1.0), *table = array_random(ZR_F32, P * s.C, 1.0), *y = array_new(ZR_F32, n);
    float *dtable = array_new(ZR_F32, P * s.C);
    double *want = doubles_of(x, ZR_F32, n);
    double *want_dtable = add ? doubles_of(table, ZR_F32, P * s.C) : doubles_new(P * s.C);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = (place * rows + i / s.C) % s.T * s.C + i % s.C;
        want[i] += table[at];
        want_dtable[at] += x[i];
    }
    kernel_call call = {.name = "position", .attr = {.i = {s.T}}, .n_in = 2, .n_out = 1};
    call.runtime.place = place;
    call.in[0] = tensor2(x, ZR_F32, rows, s.C);
    call.in[1] = tensor2(table, ZR_F32, P, s.C);
    call.out[0] = tensor2(y, ZR_F32, rows, s.C);
    run_both(level, call, 0);
    assert_close("position", y, ZR_F32, want, n, 1e-6);
    kernel_call back = call;
    back.name = "position_dw";
    back.in[1] = add ? call.in[1] : tensor_absent();
    back.out[0] = tensor2(dtable, ZR_F32, P, s.C);
    run_both(level, back, 4 * s.C);
    assert_close("position_dw", dtable, ZR_F32, want_dtable, P * s.C, 1e-6);
    pool_clear();
}

static void parts(const level_pair *level)
{
    if (!is_in_run()) return;
    for (int64_t place = 0; place < 3; place++) {
        check_part(level, (size){3, 17, 40, 24}, 3, place);
        check_part(level, (size){2, 9, 7, 5}, 3, place);
        check_part(level, (size){2, 40, 256, 8}, 3, place);
        check_own_rows(level, (size){2, 10, 0, 24}, 7, place, false);
        check_own_rows(level, (size){2, 4, 0, 5}, 23, place, true);
    }
}

static void test_parts(void **state)
{
    (void)state;
    for_every_level(parts);
}

static void bad_ids(const level_pair *level)
{
    static const int32_t bad[] = {-1, 131, INT32_MAX, INT32_MIN};
    float *table = array_random(ZR_F32, 131 * 3, 1.0), *y = array_new(ZR_F32, 2 * 4 * 3);
    for (int i = 0; i < 4; i++) {
        int32_t id[8] = {0, 130, 5, 7, 1, 2, bad[i], 3};
        kernel_call call = {.name = "embedding", .n_in = 2, .n_out = 1};
        call.in[0] = tensor2(id, ZR_I32, 2, 4);
        call.in[1] = tensor2(table, ZR_F32, 131, 3);
        call.out[0] = tensor3(y, ZR_F32, 2, 4, 3);
        assert_int_equal(kernel_run(level->three, &call), ZR_ERR_DATA);
        char want[64];
        snprintf(want, sizeof want, "token id %d at row 1, position 2 ", bad[i]);
        assert_non_null(strstr(zr_error_message(), want));

        kernel_call back = {.name = "embedding_dw", .n_in = 3, .n_out = 1, .scratch_bytes = 16 * 8 + 3 * 12};
        back.in[0] = call.in[0];
        back.in[1] = call.out[0];
        back.in[2] = tensor_absent();
        back.out[0] = call.in[1];
        assert_int_equal(kernel_run(level->three, &back), ZR_ERR_DATA);
    }
}

static void test_bad_ids(void **state)
{
    (void)state;
    for_every_level(bad_ids);
}

static void too_long(const level_pair *level)
{
    float x[6] = {0}, table[12] = {0};
    kernel_call call = {.name = "position", .n_in = 2, .n_out = 1, .runtime = {.position = 4}};
    call.in[0] = call.out[0] = tensor3(x, ZR_F32, 1, 1, 3);
    call.in[1] = tensor2(table, ZR_F32, 4, 3);
    assert_int_equal(kernel_run(level->one, &call), ZR_ERR_DATA);
    call.runtime.position = 3;
    assert_int_equal(kernel_run(level->one, &call), ZR_OK);
}

static void test_too_long(void **state)
{
    (void)state;
    for_every_level(too_long);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),      cmocka_unit_test(test_large_table), cmocka_unit_test(test_token_order),
        cmocka_unit_test(test_many_tokens), cmocka_unit_test(test_parts),       cmocka_unit_test(test_bad_ids),
        cmocka_unit_test(test_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
