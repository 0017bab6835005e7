//TEST timeout=60 tsan=gpu seeds=200
//STAND_IN
/* Arrays of more than 2^31 elements on a GPU: the last rows get the bits that they get in an array of their own. The
 * stand-in simulates the arrays; on a GPU without room for them, checks are skipped. */
#include "kernel_check.h"

#ifdef ZR_GPU
#define zr_stand_in_sparse(on) (void)(on)
#endif

static zr_device *gpu;

/* Rows of a small call, and of the large one, whose last rows are those of the small one. With C columns the large
 * arrays have 2^32 elements. */
enum { SMALL = 2, C = 64 };
#define LARGE ((int64_t)1 << 26)

static int make(void **state)
{
    (void)state;
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    zr_stand_in_sparse(1);
    return zr_device_create_cuda(&config, &gpu) == ZR_OK ? 0 : -1;
}

static int unmake(void **state)
{
    (void)state;
    zr_device_destroy(&gpu);
    zr_stand_in_sparse(0);
    return 0;
}

/* Return memory of the device, all 0, with the bytes of a host array at its end. */
static char *large_new(int64_t bytes, const void *last, int64_t last_bytes)
{
    void *memory;
    if (gpu->ops->alloc(gpu, bytes, &memory) != ZR_OK) skip();
    if (last) assert_int_equal(gpu->ops->copy(gpu, (char *)memory + bytes - last_bytes, last, last_bytes), ZR_OK);
    return memory;
}

static void assert_last(const char *name, const char *large, int64_t bytes, const void *want, int64_t last_bytes)
{
    void *got = pool_take(last_bytes, 1);
    assert_int_equal(gpu->ops->copy(gpu, got, large + bytes - last_bytes, last_bytes), ZR_OK);
    if (memcmp(got, want, (size_t)last_bytes) != 0) fail_msg("%s: the last rows have other bits", name);
}

/* Run a call, and again with operands and results that have `rows` rows in place of their own, the last of which are
 * its. kept: bits of the operands that stay. */
static void check_last(kernel_call call, unsigned kept, int64_t rows)
{
    zr_tensor *tensor[ZR_OP_INS + ZR_OP_OUTS], small[ZR_OP_INS + ZR_OP_OUTS];
    int n = 0;
    assert_int_equal(kernel_run(gpu, &call), ZR_OK);
    for (int i = 0; i < call.n_in; i++) tensor[n++] = &call.in[i];
    for (int i = 0; i < call.n_out; i++) tensor[n++] = &call.out[i];
    for (int i = 0; i < n; i++) {
        small[i] = *tensor[i];
        if (!(kept >> i & 1)) tensor[i]->shape.dim[0] = rows;
        if (small[i].data)
            tensor[i]->data =
                large_new(tensor_bytes(tensor[i]), i < call.n_in ? small[i].data : NULL, tensor_bytes(&small[i]));
    }
    call.direct = true;
    assert_int_equal(kernel_run(gpu, &call), ZR_OK);
    for (int i = call.n_in; i < n; i++)
        assert_last(call.name, tensor[i]->data, tensor_bytes(tensor[i]), small[i].data, tensor_bytes(&small[i]));
    for (int i = 0; i < n; i++) gpu->ops->free(gpu, tensor[i]->data);
}

static zr_tensor random2(zr_dtype dtype, int64_t rows, int64_t cols)
{
    return tensor2(array_random(dtype, rows * cols, 1.0), dtype, rows, cols);
}

static zr_tensor random1(zr_dtype dtype, int64_t n)
{
    return tensor1(array_random(dtype, n, 1.0), dtype, n);
}

static const zr_dtype types[] = {ZR_F32, ZR_BF16};

static void elements(void **state)
{
    (void)state;
    static const char *const unary[] = {"gelu", "silu", "softmax"}, *const binary[] = {"add", "swiglu", "softmax_dx"};
    for (int t = 0; t < 2; t++)
        for (int k = 0; k < 3; k++) {
            const zr_tensor a = random2(types[t], SMALL, C), b = random2(types[t], SMALL, C);
            const zr_tensor y = random2(types[t], SMALL, C);
            check_last((kernel_call){.name = unary[k], .n_in = 1, .n_out = 1, .in = {a}, .out = {y}}, 0, LARGE);
            kernel_call two = {.name = binary[k], .n_in = 2, .n_out = 1, .in = {a, b}, .out = {y}};
            if (k == 0) two.attr.i[0] = types[t];
            check_last(two, 0, LARGE);
            pool_clear();
        }
}

static void norms(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        const zr_tensor x = random2(types[t], SMALL, C), y = random2(types[t], SMALL, C), gain = random1(types[t], C);
        const zr_tensor mean = random1(ZR_F32, SMALL), rstd = random1(ZR_F32, SMALL);
        check_last((kernel_call){.name = "layernorm",
                                 .attr = {.f = {1e-5}},
                                 .n_in = 3,
                                 .n_out = 3,
                                 .in = {x, gain, random1(types[t], C)},
                                 .out = {y, mean, rstd}},
                   1u << 1 | 1u << 2, LARGE);
        check_last((kernel_call){.name = "layernorm_dx",
                                 .attr = {.f = {1e-5}},
                                 .n_in = 6,
                                 .n_out = 1,
                                 .in = {y, x, gain, mean, rstd, tensor_absent()},
                                 .out = {random2(types[t], SMALL, C)}},
                   1u << 2 | 1u << 5, LARGE);
        pool_clear();
    }
}

static void losses(void **state)
{
    (void)state;
    const int64_t V = 1 << 15;
    for (int t = 0; t < 2; t++) {
        const zr_tensor logits = random2(types[t], SMALL, V), lse = random1(ZR_F32, SMALL);
        const zr_tensor target = tensor1(ids_random(SMALL, V), ZR_I32, SMALL);
        check_last((kernel_call){.name = "cross_entropy",
                                 .n_in = 2,
                                 .n_out = 2,
                                 .in = {logits, target},
                                 .out = {random1(ZR_F32, SMALL), lse}},
                   0, LARGE * C / V);
        check_last((kernel_call){.name = "cross_entropy_dx",
                                 .n_in = 4,
                                 .n_out = 1,
                                 .in = {random1(ZR_F32, SMALL), logits, target, lse},
                                 .out = {random2(types[t], SMALL, V)}},
                   0, LARGE * C / V);
        pool_clear();
    }
}

static void moves(void **state)
{
    (void)state;
    const zr_op_attr part = {.i = {8, 40}};
    for (int t = 0; t < 2; t++) {
        const zr_tensor x = random2(types[t], SMALL, C), half = random2(types[t], SMALL, C / 2);
        const zr_tensor y = random2(types[t], SMALL, C), less = random2(types[t], SMALL, 40);
        check_last((kernel_call){.name = "slice", .attr = part, .n_in = 1, .n_out = 1, .in = {x}, .out = {less}}, 0,
                   LARGE);
        check_last(
            (kernel_call){
                .name = "slice_dx", .attr = part, .n_in = 2, .n_out = 1, .in = {less, tensor_absent()}, .out = {y}},
            1u << 1, LARGE);
        check_last((kernel_call){.name = "concat", .n_in = 2, .n_out = 1, .in = {half, half}, .out = {y}}, 0, LARGE);
        const zr_tensor matrix = tensor3(x.data, types[t], SMALL, 4, C / 4);
        const zr_tensor turned = tensor3(y.data, types[t], SMALL, C / 4, 4);
        check_last((kernel_call){.name = "transpose", .n_in = 1, .n_out = 1, .in = {matrix}, .out = {turned}}, 0,
                   LARGE);
        pool_clear();
    }
}

/* Check rotations of more than 2^32 pairs: below, their indices fit into 32 bits. */
static void rotations(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        const zr_tensor x = random2(types[t], SMALL, C), y = random2(types[t], SMALL, C);
        kernel_call call = {.name = "rotary", .n_in = 2, .n_out = 1};
        call.in[0] = tensor3(x.data, types[t], SMALL, 4, C / 4);
        call.in[1] = random2(ZR_F32, 4, C / 4);
        call.out[0] = tensor3(y.data, types[t], SMALL, 4, C / 4);
        check_last(call, 1u << 1, 4 * LARGE);
        pool_clear();
    }
}

/* Check the last rows of a large table. */
static void tables(void **state)
{
    (void)state;
    int32_t id[SMALL] = {1, 0};
    for (int t = 0; t < 2; t++) {
        const zr_tensor table = random2(types[t], SMALL, C), y = random2(types[t], SMALL, C);
        kernel_call call = {.name = "embedding", .n_in = 2, .n_out = 1};
        call.in[0] = tensor1(id, ZR_I32, SMALL);
        call.in[1] = table;
        call.out[0] = y;
        assert_int_equal(kernel_run(gpu, &call), ZR_OK);
        int32_t last[SMALL];
        for (int i = 0; i < SMALL; i++) last[i] = (int32_t)(LARGE - SMALL) + id[i];
        const int64_t bytes = LARGE * C * zr_dtype_bytes(types[t]), out_bytes = tensor_bytes(&y);
        call.in[0].data = large_new((int64_t)sizeof last, last, (int64_t)sizeof last);
        call.in[1].data = large_new(bytes, table.data, tensor_bytes(&table));
        call.in[1].shape.dim[0] = LARGE;
        call.out[0].data = large_new(out_bytes, NULL, 0);
        call.direct = true;
        assert_int_equal(kernel_run(gpu, &call), ZR_OK);
        assert_last("embedding", call.out[0].data, out_bytes, y.data, out_bytes);
        for (int i = 0; i < 2; i++) gpu->ops->free(gpu, call.in[i].data);
        gpu->ops->free(gpu, call.out[0].data);
        pool_clear();
    }
}

/* Check sums and casts of pieces of more than 2^31 elements. */
static void shards(void **state)
{
    (void)state;
    const int64_t n = LARGE * C, m = 5, in_bytes = 2 * n, out_bytes = 4 * n;
    void *a = array_random(ZR_BF16, m, 1.0), *b = array_random(ZR_BF16, m, 1.0);
    float want[5];
    char *pieces[] = {large_new(in_bytes, a, 2 * m), large_new(in_bytes, b, 2 * m)};
    char *out = large_new(out_bytes, NULL, 0);
    assert_int_equal(gpu->ops->sum(gpu, out, ZR_F32, false, (const void *const *)pieces, 2, ZR_BF16, n), ZR_OK);
    for (int64_t i = 0; i < m; i++) want[i] = (float)(array_get(a, ZR_BF16, i) + array_get(b, ZR_BF16, i));
    assert_last("sum", out, out_bytes, want, 4 * m);
    assert_int_equal(gpu->ops->cast(gpu, out, ZR_F32, pieces[0], ZR_BF16, n, NULL), ZR_OK);
    for (int64_t i = 0; i < m; i++) want[i] = (float)array_get(a, ZR_BF16, i);
    assert_last("cast", out, out_bytes, want, 4 * m);
    for (int i = 0; i < 2; i++) gpu->ops->free(gpu, pieces[i]);
    gpu->ops->free(gpu, out);
    pool_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements),  cmocka_unit_test(norms),  cmocka_unit_test(losses), cmocka_unit_test(moves),
        cmocka_unit_test(rotations), cmocka_unit_test(tables), cmocka_unit_test(shards),
    };
    return cmocka_run_group_tests(tests, make, unmake);
}
