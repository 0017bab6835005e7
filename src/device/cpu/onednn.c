#include "device/cpu/onednn.h"

#include <omp.h>
#include <pthread.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "base/core/shortage.h"
#include "device/device.h"

#define DNNL_TRY(call) ZR_TRY(check_dnnl((call), #call))

enum { A, B, BIAS, C, EARLIER, OPERANDS };

static const int operand_arg[OPERANDS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST,
                                          DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1};

struct zr__product {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[OPERANDS]; /* oneDNN object of each operand; NULL if the operand is absent */
    pthread_t owner;
    int threads; /* number of threads used, at most spec.threads */
    zr__product_spec spec;
    int users;
    zr__product *next; /* next product in the thread's list */
};

/* List of the products that this thread has created. Ops of equal shape share one product, because each product holds
 * tens of kilobytes of oneDNN's memory. Otherwise a deep model would hold this memory for every op of every layer. */
static _Thread_local zr__product *products;

static zr_status check_dnnl(dnnl_status_t status, const char *call)
{
    ZR_TRY(zr__shortage_check());
    if (status == dnnl_success) return ZR_OK;
    if (status == dnnl_out_of_memory) return ZR_FAIL(ZR_ERR_MEMORY, "oneDNN has no memory left (%s)", call);
    if (status == dnnl_unimplemented)
        return ZR_FAIL(ZR_ERR_UNSUPPORTED, "oneDNN %d.%d has no such matrix product on this processor (%s)",
                       DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, call);
    return ZR_FAIL(ZR_ERR_INTERNAL, "oneDNN failed with status %d (%s)", (int)status, call);
}

/* Set the number of OpenMP threads that oneDNN uses when the calling thread runs a product. Return the previous number,
 * which threads_leave restores. */
static int threads_enter(int threads)
{
    int before = omp_get_max_threads();
    if (before != threads) omp_set_num_threads(threads);
    return before;
}

static void threads_leave(int before)
{
    if (omp_get_max_threads() != before) omp_set_num_threads(before);
}

/* ---- differences between the versions ------------------------------------------------------- */

typedef dnnl_memory_desc_t layout;

#if DNNL_VERSION_MAJOR >= 3
#define LAYOUT_ARG(l) (l)

static dnnl_status_t layout_make(layout *out, const dnnl_dims_t dims, dnnl_data_type_t type, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_create_with_strides(out, 2, dims, type, strides);
}

static void layout_free(layout *l)
{
    if (*l) dnnl_memory_desc_destroy(*l);
}

static dnnl_status_t describe(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const layout l[OPERANDS], bool bias,
                              const_dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create(out, engine, l[A], l[B], bias ? l[BIAS] : NULL, l[C], attr);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}
#else
#define LAYOUT_ARG(l) (&(l))

static dnnl_status_t layout_make(layout *out, const dnnl_dims_t dims, dnnl_data_type_t type, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_init_by_strides(out, 2, dims, type, strides);
}

static void layout_free(layout *l)
{
    (void)l; /* a layout is a plain struct in oneDNN 2, without allocated memory */
}

static dnnl_status_t describe(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const layout l[OPERANDS], bool bias,
                              const_dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t op;
    dnnl_status_t status = dnnl_matmul_desc_init(&op, &l[A], &l[B], bias ? &l[BIAS] : NULL, &l[C]);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &op, attr, engine, NULL) : status;
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f);
}
#endif

/* ---- a product ------------------------------------------------------------------------------- */

static dnnl_data_type_t type_of(zr_dtype dtype)
{
    return dtype == ZR_BF16 ? dnnl_bf16 : dnnl_f32;
}

/* Describe a matrix to oneDNN. The stride of a dimension of size 1 has no meaning, but oneDNN expects the stride of a
 * contiguous matrix. */
static dnnl_status_t matrix_layout(layout *l, int64_t rows, int64_t cols, zr_dtype dtype, zr__strides strides)
{
    if (rows == 1 || (cols == 1 && strides.row == 1))
        strides = strides.col == 1 ? (zr__strides){cols, 1} : (zr__strides){1, rows};
    return layout_make(l, (dnnl_dims_t){rows, cols}, type_of(dtype), (dnnl_dims_t){strides.row, strides.col});
}

static zr_status make_layouts(const zr__product_spec *s, layout l[OPERANDS])
{
    const zr__strides dense = {s->n, 1}, c = {s->ld ? s->ld : s->n, 1};
    DNNL_TRY(matrix_layout(&l[A], s->m, s->k, s->dtype, s->a));
    DNNL_TRY(matrix_layout(&l[B], s->k, s->n, s->dtype, s->b));
    DNNL_TRY(matrix_layout(&l[C], s->m, s->n, s->out_dtype, c));
    if (s->bias) DNNL_TRY(matrix_layout(&l[BIAS], 1, s->n, s->dtype, dense));
    if (s->earlier) DNNL_TRY(matrix_layout(&l[EARLIER], s->m, s->n, ZR_F32, c));
    return ZR_OK;
}

/* Make oneDNN add `earlier` to the product, or C itself if the spec accumulates. Use oneDNN's post-op "sum" for C += A
 * B: C must not be the operand of a binary post-op, because oneDNN may store partial sums in C during its loop over k.
 */
static zr_status add_terms(dnnl_primitive_attr_t attr, const zr__product_spec *s, const layout *earlier)
{
    if (!s->earlier && !s->accumulate) return ZR_OK;
    dnnl_post_ops_t ops;
    DNNL_TRY(dnnl_post_ops_create(&ops));
    dnnl_status_t status =
        s->accumulate ? append_sum(ops) : dnnl_post_ops_append_binary(ops, dnnl_binary_add, LAYOUT_ARG(*earlier));
    if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl_post_ops_destroy(ops);
    DNNL_TRY(status);
    return ZR_OK;
}

static int64_t scratch_bytes(const_dnnl_primitive_desc_t desc)
{
    dnnl_dim_t bytes = 0;
    if (dnnl_primitive_desc_query(desc, dnnl_query_memory_consumption_s64, 0, &bytes) != dnnl_success) return 0;
    return bytes;
}

/* Create the primitive descriptor for the greatest number of threads whose scratch is within ZR__PRODUCT_SCRATCH. With
 * some numbers of threads, oneDNN divides k among the threads and gives each thread a copy of C. These copies would
 * take gigabytes for the gradient of a large embedding table. */
static zr_status make_desc(zr__product *p, const zr__product_spec *s, const layout l[OPERANDS],
                           const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *desc)
{
    p->threads = s->threads;
    for (;; p->threads--) {
        omp_set_num_threads(p->threads);
        ZR_TRY(check_dnnl(describe(desc, p->engine, l, s->bias, attr), "matmul"));
        if (p->threads == 1 || scratch_bytes(*desc) <= ZR__PRODUCT_SCRATCH) return ZR_OK;
        dnnl_primitive_desc_destroy(*desc);
        *desc = NULL;
    }
}

static zr_status make_primitive(zr__product *p, const zr__product_spec *s, const layout l[OPERANDS])
{
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t desc = NULL;
    DNNL_TRY(dnnl_primitive_attr_create(&attr));
    zr_status st = add_terms(attr, s, &l[EARLIER]);
    if (st == ZR_OK) st = make_desc(p, s, l, attr, &desc);
    if (st == ZR_OK) st = check_dnnl(dnnl_primitive_create(&p->primitive, desc), "dnnl_primitive_create");
    if (desc) dnnl_primitive_desc_destroy(desc);
    dnnl_primitive_attr_destroy(attr);
    return st;
}

/* Create the memory objects without addresses: execute_product sets the operands' addresses. */
static zr_status make_memory(zr__product *p, const zr__product_spec *s, const layout l[OPERANDS])
{
    const bool has[OPERANDS] = {[A] = true, [B] = true, [BIAS] = s->bias, [C] = true, [EARLIER] = s->earlier};
    for (int i = 0; i < OPERANDS; i++)
        if (has[i]) DNNL_TRY(dnnl_memory_create(&p->memory[i], LAYOUT_ARG(l[i]), p->engine, DNNL_MEMORY_NONE));
    return ZR_OK;
}

static zr_status product_init(zr__product *p, const zr__product_spec *spec)
{
    layout l[OPERANDS];
    memset(l, 0, sizeof l);
    DNNL_TRY(dnnl_engine_create(&p->engine, dnnl_cpu, 0));
    DNNL_TRY(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags));
    zr_status st = make_layouts(spec, l);
    if (st == ZR_OK) st = make_primitive(p, spec, l);
    if (st == ZR_OK) st = make_memory(p, spec, l);
    for (int i = 0; i < OPERANDS; i++) layout_free(&l[i]);
    return st;
}

static bool same_strides(zr__strides a, zr__strides b)
{
    return a.row == b.row && a.col == b.col;
}

static bool same_spec(const zr__product_spec *x, const zr__product_spec *y)
{
    return x->m == y->m && x->n == y->n && x->k == y->k && x->dtype == y->dtype && x->out_dtype == y->out_dtype &&
           same_strides(x->a, y->a) && same_strides(x->b, y->b) && x->bias == y->bias && x->earlier == y->earlier &&
           x->accumulate == y->accumulate && x->threads == y->threads && x->ld == y->ld;
}

static void product_free(zr__product *p)
{
    for (int i = 0; i < OPERANDS; i++)
        if (p->memory[i]) dnnl_memory_destroy(p->memory[i]);
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    if (p->stream) dnnl_stream_destroy(p->stream);
    if (p->engine) dnnl_engine_destroy(p->engine);
    zr_free(p);
}

zr_status zr__product_create(const zr__product_spec *spec, zr__product **product)
{
    for (zr__product *p = products; p; p = p->next) {
        if (!same_spec(&p->spec, spec)) continue;
        p->users++;
        *product = p;
        return ZR_OK;
    }
    zr__product *p = zr_alloc(sizeof *p);
    ZR_CHECK(p, ZR_ERR_MEMORY, "no memory for a matrix product's %zu bytes", sizeof *p);
    p->owner = pthread_self();
    p->spec = *spec;
    int before = threads_enter(spec->threads);
    zr_status status = product_init(p, spec);
    threads_leave(before);
    if (status != ZR_OK) {
        product_free(p);
        return zr_error_frame(status, __func__, __FILE__, __LINE__);
    }
    p->users = 1;
    p->next = products;
    products = p;
    *product = p;
    return ZR_OK;
}

void zr__product_destroy(zr__product **product)
{
    zr__product *p = *product;
    *product = NULL;
    /* Only the thread that created a product may destroy it. If another thread calls, the product stays allocated,
     * because it is still in the list of its owner. */
    if (!p || !pthread_equal(p->owner, pthread_self()) || --p->users > 0) return;
    zr__product **at = &products;
    while (*at != p) at = &(*at)->next;
    *at = p->next;
    product_free(p);
}

static zr_status execute_product(const zr__product *p, void *const data[OPERANDS])
{
    dnnl_exec_arg_t args[OPERANDS];
    int n = 0;
    for (int i = 0; i < OPERANDS; i++) {
        if (!p->memory[i]) continue;
        DNNL_TRY(dnnl_memory_set_data_handle(p->memory[i], data[i]));
        args[n++] = (dnnl_exec_arg_t){operand_arg[i], p->memory[i]};
    }
    DNNL_TRY(dnnl_primitive_execute(p->primitive, p->stream, n, args));
    DNNL_TRY(dnnl_stream_wait(p->stream));
    return ZR_OK;
}

zr_status zr__product_run(const zr__product *p, const void *a, const void *b, const void *bias, const void *earlier,
                          void *c)
{
    ZR_CHECK(pthread_equal(p->owner, pthread_self()), ZR_ERR_STATE,
             "a matrix product was made on another thread: use an engine on the thread that created it");
    /* Cast const away, since oneDNN's interface has no const. oneDNN does not write these operands. */
    void *const data[OPERANDS] = {
        [A] = (void *)a, [B] = (void *)b, [BIAS] = (void *)bias, [C] = c, [EARLIER] = (void *)earlier};
    int before = threads_enter(p->threads);
    zr_status status = execute_product(p, data);
    threads_leave(before);
    ZR_TRY(status);
    return ZR_OK;
}

int64_t zr__product_scratch_bytes(const zr__product *p)
{
    const_dnnl_primitive_desc_t desc;
    return dnnl_primitive_get_primitive_desc(p->primitive, &desc) == dnnl_success ? scratch_bytes(desc) : 0;
}

const char *zr__product_implementation(const zr__product *p)
{
    const_dnnl_primitive_desc_t desc;
    const char *name = NULL;
    if (dnnl_primitive_get_primitive_desc(p->primitive, &desc) != dnnl_success) return "";
    return dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) == dnnl_success ? name : "";
}

/* ---- the library as a whole ------------------------------------------------------------------ */

zr_status zr__onednn_cap(const char *level)
{
#if defined(__x86_64__)
    static const struct {
        const char *level;
        dnnl_cpu_isa_t isa;
    } table[] = {{"v2", dnnl_cpu_isa_sse41},
                 {"v3", dnnl_cpu_isa_avx2},
                 {"v4", dnnl_cpu_isa_avx512_core},
                 {"v4bf16", dnnl_cpu_isa_avx512_core_bf16},
                 {"v4amx", dnnl_cpu_isa_avx512_core_amx}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(level, table[i].level) != 0) continue;
        /* Only the first call in a process has an effect, so check the limit in effect instead of the call's status. */
        (void)dnnl_set_max_cpu_isa(table[i].isa);
        ZR_CHECK(dnnl_get_effective_cpu_isa() == table[i].isa, ZR_ERR_CONFIG,
                 "ZR_KERNELS=%s was set too late: oneDNN was already used in this process; set it at the start", level);
        return ZR_OK;
    }
#endif
    (void)level;
    return ZR_OK;
}

bool zr__onednn_has_bf16(void)
{
#if defined(__x86_64__)
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
#else
    return false;
#endif
}

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *zr__device_cpu_matmul(void)
{
    return "oneDNN " TEXT(DNNL_VERSION_MAJOR) "." TEXT(DNNL_VERSION_MINOR) "." TEXT(DNNL_VERSION_PATCH);
}
