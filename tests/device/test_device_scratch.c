//TEST timeout=20
/* The scratch that kernels request for a device's facts: the processor's kernels, equal at every level, and a user's.
 */
#include "device/cpu/attention_blocks.h"
#include "device/cpu/shared/product_blocks.h"
#include "device_levels.h"
#include "graph/graph_new.h"
#include "base/core/core.h"

#include <stdio.h>
#include <string.h>

static zr_graph *small_model(zr_dtype dtype, bool fused)
{
    zr_graph *g = graph_new(ZR_MODE_TRAIN, dtype);
    zr_value table = zr_param(g, NORMAL, SHAPE(2, V, C), "table"), places = zr_param(g, NORMAL, SHAPE(2, T, C), "p");
    zr_value gain = zr_param(g, NORMAL, SHAPE(1, C), "gain"), bias = zr_param(g, NORMAL, SHAPE(1, C), "bias");
    zr_value w = zr_param(g, NORMAL, SHAPE(2, C, 3 * C), "w"), b = zr_param(g, NORMAL, SHAPE(1, 3 * C), "b");
    zr_value head = zr_param(g, NORMAL, SHAPE(2, V, C), "head");
    zr_value ids = zr_input(g, "ids", ZR_I32, SHAPE(2, B, T)), targets = zr_input(g, "targets", ZR_I32, SHAPE(2, B, T));
    zr_value x = zr_position(g, zr_embedding(g, ids, table), places);
    x = zr_linear(g, zr_layernorm(g, x, gain, bias, 1e-5), w, b, false);
    x = zr_gelu(g, zr_attention(g, x, 2, 0));
    zr_graph_losses(g, fused ? zr_linear_cross_entropy(g, x, head, targets)
                             : zr_cross_entropy(g, zr_linear(g, x, head, ZR_NONE, true), targets));
    assert_int_equal(zr_graph_finish(g), ZR_OK);
    return g;
}

static const zr_op *find(const zr_graph *graph, const char *name)
{
    for (int32_t i = 0; i < zr_graph_ops(graph); i++)
        if (strcmp(zr_graph_get_op(graph, i)->def->name, name) == 0) return zr_graph_get_op(graph, i);
    fail_msg("no op %s", name);
    return NULL;
}

static int64_t scratch(const zr_graph *graph, const char *name, const zr_device_facts *facts)
{
    return zr__device_facts_scratch(facts, graph, find(graph, name));
}

static zr_device_facts facts_of(int threads, int64_t panel_bytes)
{
    return (zr_device_facts){.threads = threads, .panel_bytes = panel_bytes, .scratch_bytes = zr_device_cpu_scratch};
}

/* ---- the processor's kernels ------------------------------------------------------------------- */

/* Check the scratch of products, which holds the operands that zr packs: as fp32, or for tiles as pairs of bf16. There
 * is no scratch if a library multiplies bf16, or if the device is known only by its name. */
static void check_products(const zr_graph *g, zr_device_facts *facts, zr_dtype dtype)
{
    static const char *const products[] = {"linear", "linear_dx", "linear_dw"};
    const int64_t k[] = {C, V, B * T}, m[] = {B * T, B * T, V}, n[] = {3 * C, C, C};
    for (int i = 0; i < 3; i++) {
        zr__product_shape shape = {m[i], n[i], k[i], dtype, ZR_F32, false};
        int64_t bytes = zr__product_layout_make(shape, facts->threads, facts->panel_bytes).bytes;
        facts->bf16_products = false;
        assert_true(bytes > 0);
        assert_int_equal(scratch(g, products[i], facts), bytes);
        facts->bf16_products = true; /* irrelevant to fp16 and fp32 */
        assert_int_equal(scratch(g, products[i], facts), dtype == ZR_BF16 ? 0 : bytes);
        facts->tiles = true;
        shape.tiles = true; /* irrelevant to fp16 */
        bytes = zr__product_layout_make(shape, facts->threads, facts->panel_bytes).bytes;
        assert_int_equal(scratch(g, products[i], facts), bytes);
        facts->tiles = false;
        const zr_device_facts named = facts_of(facts->threads, 0);
        assert_int_equal(scratch(g, products[i], &named), 0);
    }
    facts->bf16_products = false;
}

static void test_scratch(void **state)
{
    (void)state;
    zr_device_facts facts = facts_of(3, 1000);
    zr_graph *g = small_model(ZR_BF16, false);
    assert_int_equal(scratch(g, "embedding_dw", &facts), 16 * B * T + 3 * 4 * C);
    assert_int_equal(scratch(g, "position_dw", &facts), 3 * 4 * C);
    assert_int_equal(scratch(g, "layernorm_dw", &facts), 16 * 2 * 4 * C);
    assert_int_equal(scratch(g, "attention", &facts),
                     3 * zr__attention_scratch_bytes(T, C / 2, ZR_BF16, false, false, false));
    assert_int_equal(scratch(g, "attention_dx", &facts),
                     3 * zr__attention_scratch_bytes(T, C / 2, ZR_BF16, true, false, false));
    check_products(g, &facts, ZR_BF16);
    assert_int_equal(scratch(g, "linear_db", &facts), 0);
    zr_graph_destroy(&g);
    g = small_model(ZR_F32, false);
    check_products(g, &facts, ZR_F32);
    zr_graph_destroy(&g);
    g = small_model(ZR_F16, false);
    check_products(g, &facts, ZR_F16);
    zr_graph_destroy(&g);
}

static zr_graph *head_model(zr_dtype dtype, int64_t seq)
{
    zr_graph_spec spec = {
        .mode = ZR_MODE_TRAIN, .batch = B, .seq = seq, .dtype = dtype, .grad_dtype = dtype, .tensor = 1};
    zr_graph *g = NULL;
    assert_int_equal(zr_graph_create(&spec, &g), ZR_OK);
    zr_graph_unit(g, "u");
    zr_value table = zr_param(g, NORMAL, SHAPE(2, V, C), "table"), head = zr_param(g, NORMAL, SHAPE(2, V, C), "head");
    zr_value ids = zr_input(g, "ids", ZR_I32, SHAPE(2, B, seq)), next = zr_input(g, "next", ZR_I32, SHAPE(2, B, seq));
    zr_graph_losses(g, zr_linear_cross_entropy(g, zr_embedding(g, ids, table), head, next));
    assert_int_equal(zr_graph_finish(g), ZR_OK);
    return g;
}

/* Check the scratch of the head: a block's logits, then the sum of dw where dw has 16 bits and there are several
 * blocks, then the packed operands of one product at a time. */
static void check_head(zr_dtype g, int64_t seq, int64_t rows)
{
    const zr_device_facts facts = facts_of(3, 1000);
    zr_graph *graph = head_model(g, seq);
    const bool apart = g != ZR_F32 && rows < B * seq;
    const int64_t logits = (rows * V * zr_dtype_bytes(g) + 63) / 64 * 64, sum = apart ? (V * C * 4 + 63) / 64 * 64 : 0;
    const zr__product_shape dx = {rows, C, V, g, g, false}, dw = {V, C, rows, g, apart ? ZR_F32 : g, false};
    const int64_t forward = zr__product_layout_make((zr__product_shape){rows, V, C, g, g, false}, 3, 1000).bytes;
    const int64_t others[] = {zr__product_layout_make(dx, 3, 1000).bytes, zr__product_layout_make(dw, 3, 1000).bytes};
    int64_t most = forward;
    for (int i = 0; i < 2; i++)
        if (others[i] > most) most = others[i];
    assert_int_equal(find(graph, "linear_cross_entropy")->attr.i[0], rows);
    assert_int_equal(scratch(graph, "linear_cross_entropy", &facts), logits + forward);
    assert_int_equal(scratch(graph, "linear_cross_entropy_dx", &facts), logits + sum + most);
    zr_graph_destroy(&graph);
}

static void test_head(void **state)
{
    (void)state;
    for (zr_dtype g = ZR_F32; g <= ZR_F16; g++) {
        check_head(g, T, B * T);
        check_head(g, 301, 304); /* blocks of 304 and 298 rows */
    }
}

/* Check that the scratch of attention in bf16 is enough for products of fp32 and of bf16, so that plans do not depend
 * on how a level multiplies. Where heads and rows are whole, products of bf16 take no more. Query heads that share keys
 * need the gradients of all keys. */
static void test_attention(void **state)
{
    (void)state;
    for (int64_t t = 1; t <= 131; t += t < 5 ? 1 : 21)
        for (int64_t d = 1; d <= 130; d += d < 34 ? 1 : 16)
            for (int way = 0; way < 4; way++) {
                const bool backward = way > 0, shared = way > 1;
                const zr__attention_layout wide = zr__attention_layout_make(t, d, backward, shared, false, false);
                const zr__attention_layout narrow = zr__attention_layout_make(t, d, backward, shared, false, true);
                const int64_t more = narrow.floats > wide.floats ? narrow.floats : wide.floats;
                assert_int_equal(zr__attention_scratch_bytes(t, d, ZR_F32, backward, shared, false), 4 * wide.floats);
                assert_int_equal(zr__attention_scratch_bytes(t, d, ZR_F16, backward, shared, false), 4 * wide.floats);
                assert_int_equal(zr__attention_scratch_bytes(t, d, ZR_BF16, backward, shared, false), 4 * more);
                assert_int_equal(narrow.q_row % ZR__ATTENTION_LANES, 0);
                assert_in_range(2 * narrow.q_row, d, d + 2 * ZR__ATTENTION_LANES - 1);
            }
    for (int64_t t = 64; t <= 192; t += 64)
        for (int64_t d = 32; d <= 160; d += 32)
            for (int way = 0; way < 3; way++)
                assert_int_equal(zr__attention_scratch_bytes(t, d, ZR_BF16, way > 0, way > 1, false),
                                 zr__attention_scratch_bytes(t, d, ZR_F32, way > 0, way > 1, false));
    const int64_t apart = zr__attention_scratch_bytes(200, 16, ZR_F32, true, false, false), n = ZR__ATTENTION_BLOCK;
    assert_int_equal(zr__attention_scratch_bytes(200, 16, ZR_F32, true, true, false),
                     apart + 4 * 16 * (2 * (200 - n) + n));
}

static void test_decode(void **state)
{
    (void)state;
    const zr_device_facts facts = facts_of(3, 0);
    zr_graph *g = graph_new(ZR_MODE_DECODE, ZR_BF16);
    zr_attention(g, zr_input(g, "qkv", ZR_BF16, SHAPE(3, 1, 1, 3 * C)), 2, 0.5);
    assert_int_equal(zr_graph_finish(g), ZR_OK);
    assert_int_equal(scratch(g, "attention_cached", &facts), 2 * T * 4);
    zr_graph_destroy(&g);
}

/* Check the scratch of decoding on a GPU: for each range of 128 keys that a token can see, a weighted sum of values and
 * two numbers of each query head. */
static void check_gpu_decode(int64_t cache_len, int64_t window, int64_t ranges)
{
    enum { HEADS = 4, WIDTH = 8 };
    const zr_graph_spec spec = {.mode = ZR_MODE_DECODE,
                                .batch = 1,
                                .seq = 1,
                                .cache_len = cache_len,
                                .dtype = ZR_BF16,
                                .grad_dtype = ZR_BF16,
                                .tensor = 1};
    const zr_device_facts facts = {.own_memory = true, .scratch_bytes = zr_device_cuda_scratch};
    const zr_attention_spec of = {.heads = HEADS, .kv_heads = 2, .window = window};
    zr_graph *g = NULL;
    assert_int_equal(zr_graph_create(&spec, &g), ZR_OK);
    zr_graph_unit(g, "u");
    zr_attend(g, zr_input(g, "qkv", ZR_BF16, SHAPE(3, 1, 1, 8 * WIDTH)), ZR_NONE, ZR_NONE, &of);
    assert_int_equal(zr_graph_finish(g), ZR_OK);
    assert_int_equal(scratch(g, "attention_cached", &facts), ranges * HEADS * (WIDTH + 2) * 4);
    zr_graph_destroy(&g);
}

static void test_gpu_decode(void **state)
{
    (void)state;
    check_gpu_decode(128, 0, 1);
    check_gpu_decode(300, 0, 3);
    check_gpu_decode(300, 129, 2);
    check_gpu_decode(300, 400, 3);
}

/* Check that every level's kernel requests the scratch that the facts predict, because a plan may be made on a machine
 * without that level. */
static void check_level(zr_device *device)
{
    const zr_device_facts *facts = &device->profile.facts;
    assert_true(facts->scratch_bytes == zr_device_cpu_scratch);
    for (int fused = 0; fused <= 1; fused++) {
        zr_graph *g = small_model(ZR_BF16, fused);
        for (int32_t i = 0; i < zr_graph_ops(g); i++) {
            const zr_op *op = zr_graph_get_op(g, i);
            const zr_kernel *kernel = device->ops->kernel(device, op->def->name);
            int64_t own = kernel->scratch_bytes ? kernel->scratch_bytes(facts, g, op) : 0;
            assert_int_equal(zr__device_facts_scratch(facts, g, op), own);
        }
        zr_graph_destroy(&g);
    }
}

static void test_levels(void **state)
{
    (void)state;
    each_device(check_level);
}

/* ---- a user's kernels ---------------------------------------------------------------------------- */

static int64_t gelu_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    return facts->threads * zr_shape_elems(&zr_graph_value(graph, op->in[0])->type.shape);
}

static zr_status do_nothing(const zr_kernel_args *args)
{
    (void)args;
    return ZR_OK;
}

/* Check that the scratch of a user's kernel replaces the scratch of the device's kernel. A user's kernel without a
 * scratch function gets no scratch. */
static void test_own_kernels(void **state)
{
    (void)state;
    static const zr_kernel kernels[] = {
        {"gelu", .run = do_nothing, .scratch_bytes = gelu_scratch}, {"attention", .run = do_nothing}, {0}};
    const zr_device_config config = {.threads = 3, .kernels = kernels};
    zr_device *device = NULL;
    /* ZR_KERNELS is not used here: it would limit oneDNN to that level if other code has already used oneDNN. */
    assert_int_equal(zr__device_create_cpu_level(&config, zr__cpu_levels()[0], &device), ZR_OK);
    const zr_device_facts facts = device->profile.facts;
    zr_device_destroy(&device);
    zr_graph *g = small_model(ZR_F32, false);
    assert_int_equal(scratch(g, "gelu", &facts), 3 * B * T * C);
    assert_int_equal(scratch(g, "attention", &facts), 0);
    assert_int_equal(scratch(g, "attention_dx", &facts),
                     3 * zr__attention_scratch_bytes(T, C / 2, ZR_F32, true, false, false));
    const zr_device_facts none = {.threads = 3, .panel_bytes = 1000};
    assert_int_equal(scratch(g, "attention_dx", &none), 0);
    zr_graph_destroy(&g);
}

static void test_same(void **state)
{
    (void)state;
    static const zr_kernel kernels[] = {{0}};
    const zr_device_facts a = facts_of(2, 1000);
    zr_device_facts b = a;
    snprintf(b.name, sizeof b.name, "by another name");
    assert_true(zr__device_facts_same(&a, &b));
    zr_device_facts other[6] = {a, a, a, a, a, a};
    other[0].threads = 3;
    other[1].bf16_products = true;
    other[2].panel_bytes = 0;
    other[3].kernels = kernels;
    other[4].scratch_bytes = NULL;
    other[5].tiles = true;
    for (int i = 0; i < 6; i++) assert_false(zr__device_facts_same(&a, &other[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scratch),     cmocka_unit_test(test_head),       cmocka_unit_test(test_attention),
        cmocka_unit_test(test_decode),      cmocka_unit_test(test_gpu_decode), cmocka_unit_test(test_levels),
        cmocka_unit_test(test_own_kernels), cmocka_unit_test(test_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
