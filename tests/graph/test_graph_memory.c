//TEST timeout=20
//LINK -Wl,--wrap=zr_alloc
/* Building a graph while each allocation fails in turn returns an error, does not crash and leaks nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "zr/models.h"

static int allocs_left;

void *__real_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes);

void *__wrap_zr_alloc(size_t bytes)
{
    return allocs_left-- > 0 ? __real_zr_alloc(bytes) : NULL;
}

static zr_status build(void)
{
    static const zr_gpt2_config config = {.n_layer = 3,
                                          .n_head = 2,
                                          .n_embd = 8,
                                          .n_positions = 4,
                                          .vocab_size = 5,
                                          .layer_norm_epsilon = 1e-5,
                                          .initializer_range = 0.02};
    zr_graph_spec spec = {
        .mode = ZR_MODE_TRAIN, .batch = 1, .seq = 4, .dtype = ZR_F32, .grad_dtype = ZR_F32, .tensor = 1};
    zr_graph *graph = NULL;
    ZR_TRY(zr_graph_create(&spec, &graph));
    zr_model model = zr_gpt2(&config);
    model.build(graph, model.config);
    zr_status status = zr_graph_finish(graph);
    zr_graph_destroy(&graph);
    return status;
}

static void test_each_allocation_may_fail(void **state)
{
    (void)state;
    int n = 0;
    for (zr_status status = ZR_ERR_MEMORY; status != ZR_OK; n++) {
        allocs_left = n;
        status = build();
        if (status != ZR_OK) assert_int_equal(status, ZR_ERR_MEMORY);
        assert_true(n < 1000);
    }
    assert_true(n > 7); /* the graph, five arrays and names are allocated, so that all were reached */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
