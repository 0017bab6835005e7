//TEST timeout=120
/* The stored rates of a machine: files are written atomically and read back, are refused if damaged or from another
 * machine, and do not change plans. */
#include "support/tempdir.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/core/core.h"
#include "train/host/host.h"
#include "train/measure/measure.h"
#include "zr/device.h"
#include "zr/graph.h"
#include "zr/models.h"
#include "zr/plan.h"

static const zr_device_facts here = {.name = "this machine"};

static zr_rates some_rates(double scale)
{
    zr_rates rates = {.threads = zr__host_cores(), .n_levels = 2, .matmul_f32 = 90e9 * scale};
    snprintf(rates.level[0].level, sizeof rates.level[0].level, "lowest");
    snprintf(rates.level[1].level, sizeof rates.level[1].level, "%s", zr_device_cpu_level());
    rates.level[0].fma_f32 = (zr_rate){25e9 * scale, 50e9 * scale};
    rates.level[1].fma_f32 = (zr_rate){0.1 + 50e9 * scale, 100e9 * scale};
    rates.level[1].dot_bf16 = (zr_rate){100e9 * scale, 200e9 * scale};
    rates.peak = rates.level[1];
    rates.triad = (zr_rate){20e9 * scale, 30e9 * scale};
    rates.link = (zr_rate){8e9 * scale, 12e9 * scale};
    rates.product[0] = (zr_product_rate){false, zr__product_sizes_of(3, 1, 2), 80e9 * scale};
    rates.product[1] = (zr_product_rate){true, zr__product_sizes_of(4096, 768, 50257), 0.1 + 150e9 * scale};
    rates.n_products = 2;
    for (int i = 0; i < ZR_RECORD_CODES; i++)
        rates.records[i] = (zr_record_rates){{(1 + i) * 1e9 * scale, (2 + i) * 1e9 * scale},
                                             {(3 + i) * 1e8 * scale, (4 + i) * 1e8 * scale},
                                             {(5 + i) * 1e9 * scale, 0.1 + (6 + i) * 1e9 * scale}};
    rates.best_f32 = 0.1 + 85e9 * scale;
    rates.best_bf16 = 0.1 + 160e9 * scale;
    return rates;
}

static int setup(void **state)
{
    int rc = tempdir_make(state);
    setenv("XDG_CACHE_HOME", in_tempdir("deep/cache"), 1);
    return rc;
}

/* Count the files of zr's folder; *path is the last one. */
static int files(char path[PATH_MAX])
{
    int n = 0;
    DIR *dir = opendir(in_tempdir("deep/cache/zr"));
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (e->d_name[0] == '.') continue;
        n++;
        snprintf(path, PATH_MAX, "%s/deep/cache/zr/%s", tempdir, e->d_name);
    }
    if (dir) closedir(dir);
    return n;
}

static void overwrite(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void test_there_and_back(void **state)
{
    (void)state;
    char path[PATH_MAX];
    zr_rates rates = some_rates(1.0), back;
    assert_int_equal(zr__rates_recall(&here, &back), ZR_ERR_NOT_FOUND);
    assert_non_null(strstr(zr_error_message(), "zr info --bench"));
    assert_int_equal(zr__rates_remember(&here, &rates), ZR_OK);
    assert_int_equal(files(path), 1);
    assert_int_equal(zr__rates_recall(&here, &back), ZR_OK);
    assert_int_equal(back.threads, rates.threads);
    assert_int_equal(back.n_levels, 2);
    assert_memory_equal(&back.peak, &rates.peak, sizeof rates.peak);
    assert_memory_equal(back.level, rates.level, sizeof rates.level);
    assert_true(back.matmul_f32 == rates.matmul_f32 && back.matmul_bf16 == 0.0);
    assert_true(back.triad.one == rates.triad.one && back.triad.all == rates.triad.all);
    assert_true(back.link.one == rates.link.one && back.link.all == rates.link.all);
    assert_true(back.best_f32 == rates.best_f32 && back.best_bf16 == rates.best_bf16);
    assert_int_equal(back.n_products, 2);
    assert_memory_equal(back.product, rates.product, sizeof rates.product);
    assert_memory_equal(back.records, rates.records, sizeof rates.records);
}

/* Check that rates that are not finite, which JSON cannot hold, are not written. */
static void test_infinite(void **state)
{
    (void)state;
    zr_rates rates = some_rates(1.0), back;
    rates.level[1].dot_bf16.all = INFINITY;
    assert_int_equal(zr__rates_remember(&here, &rates), ZR_ERR_ARG);
    rates = some_rates(1.0);
    rates.product[1].flops = INFINITY;
    assert_int_equal(zr__rates_remember(&here, &rates), ZR_ERR_ARG);
    rates = some_rates(1.0);
    rates.records[4].decode.one = NAN;
    assert_int_equal(zr__rates_remember(&here, &rates), ZR_ERR_ARG);
    rates = some_rates(1.0);
    rates.link.one = NAN;
    assert_int_equal(zr__rates_remember(&here, &rates), ZR_ERR_ARG);
    assert_int_equal(zr__rates_recall(&here, &back), ZR_ERR_NOT_FOUND);
}

static void test_damaged(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "{", "[]", "{}", "{\"machine\": 3}"};
    char path[PATH_MAX], text[8192];
    zr_rates rates = some_rates(1.0), back;
    assert_int_equal(zr__rates_remember(&here, &rates), ZR_OK);
    assert_int_equal(files(path), 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        overwrite(path, bad[i]);
        assert_int_equal(zr__rates_recall(&here, &back), ZR_ERR_DATA);
        assert_non_null(strstr(zr_error_message(), "machine-"));
    }
    assert_int_equal(zr__rates_remember(&here, &rates), ZR_OK);

    /* Whole files, but of another machine, or with impossible rates. */
    static const char *const turned[][2] = {{"\"machine\": \"", "\"machine\": \"Another "},
                                            {"\"threads\": ", "\"threads\": -"},
                                            {"\"triad_bytes_sec\": {", "\"triad_bytes_sec\": {\"x\": 1, \"on"},
                                            {"\"products\": ", "\"other\": "},
                                            {"\"records\": ", "\"recorded\": "},
                                            {"\"decode_elems_sec\": {", "\"decode_elems_sec\": {\"x\": 1, \"on"},
                                            {"\"sizes\": [", "\"sizes\": [-"},
                                            {"\"flops\": ", "\"flops\": -"}};
    for (size_t i = 0; i < sizeof turned / sizeof *turned; i++) {
        char changed[8300];
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
        char *at = strstr(text, turned[i][0]);
        assert_non_null(at);
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, turned[i][1], at + strlen(turned[i][0]));
        overwrite(path, changed);
        assert_int_equal(zr__rates_recall(&here, &back), ZR_ERR_DATA);
        assert_int_equal(zr__rates_remember(&here, &rates), ZR_OK);
        assert_int_equal(zr__rates_recall(&here, &back), ZR_OK);
    }
}

/* Check that each level of kernels has its own file and does not read another level's. */
static void test_levels_apart(void **state)
{
    (void)state;
    char path[PATH_MAX];
    zr_rates rates = some_rates(1.0), back;
    assert_int_equal(zr__rates_remember(&here, &rates), ZR_OK);
    int before = files(path);
    const char *forced = getenv("ZR_KERNELS");
    char kept[32];
    snprintf(kept, sizeof kept, "%s", forced ? forced : "");
    setenv("ZR_KERNELS", "v2", 1);
    if (strcmp(zr_device_cpu_level(), rates.peak.level) != 0) {
        assert_int_equal(zr__rates_recall(&here, &back), ZR_ERR_NOT_FOUND);
        rates = some_rates(0.5);
        assert_int_equal(zr__rates_remember(&here, &rates), ZR_OK);
        assert_int_equal(files(path), before + 1);
    }
    setenv("ZR_KERNELS", kept, 1); /* empty: not forced */
    assert_int_equal(zr__rates_recall(&here, &back), ZR_OK);
    assert_true(back.matmul_f32 == some_rates(1.0).matmul_f32);
}

static void *write_often(void *scale)
{
    zr_rates rates = some_rates(*(double *)scale);
    for (int i = 0; i < 50; i++)
        if (zr__rates_remember(&here, &rates) != ZR_OK) return (void *)1;
    return NULL;
}

static void test_writers_at_once(void **state)
{
    (void)state;
    enum { WRITERS = 4 };
    char path[PATH_MAX];
    double scale[WRITERS] = {1, 2, 3, 4};
    pthread_t thread[WRITERS];
    zr_rates back = some_rates(1.0);
    assert_int_equal(zr__rates_remember(&here, &back), ZR_OK);
    int before = files(path);
    for (int i = 0; i < WRITERS; i++) assert_int_equal(pthread_create(&thread[i], NULL, write_often, &scale[i]), 0);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(zr__rates_recall(&here, &back), ZR_OK);
        assert_true(fabs(back.triad.one / back.matmul_f32 - 20.0 / 90.0) <
                    1e-12); /* both rates must come from the same writer */
    }
    for (int i = 0; i < WRITERS; i++) {
        void *failed;
        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(files(path), before); /* no temporary file is left */
}

static void test_nowhere(void **state)
{
    (void)state;
    zr_rates rates = some_rates(1.0), back;
    const char *home = getenv("HOME");
    char kept[PATH_MAX];
    snprintf(kept, sizeof kept, "%s", home ? home : "/");
    setenv("XDG_CACHE_HOME", "relative", 1); /* ignored, as the XDG specification demands */
    unsetenv("HOME");
    assert_int_equal(zr__rates_remember(&here, &rates), ZR_ERR_NOT_FOUND);
    assert_non_null(strstr(zr_error_message(), "HOME"));
    assert_int_equal(zr__rates_recall(&here, &back), ZR_ERR_NOT_FOUND);
    setenv("HOME", in_tempdir("home"), 1);
    assert_int_equal(zr__rates_remember(&here, &rates), ZR_OK);
    assert_int_equal(access(in_tempdir("home/.cache/zr"), F_OK), 0);
    put_file("plain", "x", 1);
    setenv("XDG_CACHE_HOME", in_tempdir("plain"), 1);
    assert_int_equal(zr__rates_remember(&here, &rates), ZR_ERR_CREATE);
    assert_int_equal(zr__rates_recall(&here, &back), ZR_ERR_NOT_FOUND);
    setenv("HOME", kept, 1);
    setenv("XDG_CACHE_HOME", in_tempdir("deep/cache"), 1);
}

/* Check a rank's share of the rates; threads: of each rank; ranks: on the host. */
static void test_shares(void **state)
{
    (void)state;
    zr_rates rates = {
        .threads = 4, .peak = {.fma_f32 = {30, 100}, .dot_bf16 = {60, 200}}, .triad = {20, 40}, .link = {10, 16}};
    static const struct {
        int threads, ranks;
        double f32, memory, link;
    } want[] = {{1, 1, 30, 20, 10}, {2, 1, 60, 40, 10}, {4, 1, 100, 40, 10}, {2, 2, 50, 20, 8}, {1, 8, 12.5, 5, 2}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        zr_profile profile = {.facts = {.threads = want[i].threads}};
        const zr_machine *machine = &profile.machine;
        zr__rates_profile(&rates, ZR_F16, want[i].ranks, want[i].ranks, &profile);
        assert_true(machine->flops_f32 == want[i].f32 && machine->flops_bf16 == 0.0);
        assert_true(machine->memory_bytes_sec == want[i].memory &&
                    machine->link[ZR_LINK_PROCESS].bytes_sec == want[i].link);
        assert_true(machine->link_copies);
        zr__rates_profile(&rates, ZR_BF16, want[i].ranks + 1, want[i].ranks, &profile); /* one rank on another host */
        assert_true(machine->flops_bf16 == 2 * want[i].f32);
        assert_true(machine->memory_bytes_sec == want[i].memory && machine->link[ZR_LINK_PROCESS].bytes_sec == 0.0);
        assert_true(!machine->link_copies);
    }
}

/* Check that products keep their share of the peak when a rank has a part of the peak. */
static void test_shares_of_products(void **state)
{
    (void)state;
    const zr_product_sizes sizes = zr__product_sizes_of(7, 8, 9);
    zr_rates rates = {.threads = 4,
                      .peak = {.fma_f32 = {30, 100}, .dot_bf16 = {60, 200}},
                      .product = {{false, sizes, 80}, {true, sizes, 150}},
                      .n_products = 2};
    zr_profile profile = {.facts = {.threads = 2}};
    zr__rates_profile(&rates, ZR_BF16, 2, 2, &profile);
    assert_int_equal(profile.machine.n_products, 2);
    assert_true(fabs(zr__machine_flops(&profile.machine, false, sizes) - 40) < 1e-12);
    assert_true(fabs(zr__machine_flops(&profile.machine, true, sizes) - 75) < 1e-12);
    zr__rates_profile(&rates, ZR_F32, 1, 1, &profile); /* again, without bf16: the old rates are gone */
    assert_true(fabs(zr__machine_flops(&profile.machine, false, sizes) - 48) < 1e-12);
    profile = (zr_profile){.facts = {.threads = 2}};
    zr__rates_profile(&rates, ZR_F16, 1, 1, &profile);
    assert_int_equal(profile.machine.n_products, 1);
}

/* Check that a library's product above the registers' peak becomes the peak, and is named the library's; bf16 that is
 * only widened has no peak. */
static void test_peak(void **state)
{
    (void)state;
    bool library = true;
    const zr_product_sizes sizes = zr__product_sizes_of(7, 8, 9);
    zr_rates rates = {.threads = 4,
                      .peak = {.fma_f32 = {30, 100}, .dot_bf16 = {60, 200}},
                      .matmul_f32 = 100,
                      .product = {{false, sizes, 90}, {true, sizes, 700}},
                      .n_products = 2,
                      .best_f32 = 99,
                      .best_bf16 = 800};
    zr_rate f32 = zr__rates_peak(&rates, ZR_F32, &library);
    assert_true(f32.one == 30 && f32.all == 100 && !library);
    zr_rate bf16 = zr__rates_peak(&rates, ZR_BF16, &library);
    assert_true(bf16.one == 200 && bf16.all == 800 && library);
    rates.matmul_f32 = 104;
    f32 = zr__rates_peak(&rates, ZR_F32, &library);
    assert_true(f32.one == 30 && f32.all == 104 && library);
    rates.peak.dot_bf16 = (zr_rate){0, 0}; /* the library's instructions have no loop in zr */
    assert_true(zr__rates_peak(&rates, ZR_BF16, &library).all == 800 && library);
    zr_profile profile = {.facts = {.threads = 4}};
    const zr_machine *machine = &profile.machine;
    zr__rates_profile(&rates, ZR_BF16, 1, 1, &profile);
    for (int i = 0; i < machine->n_products; i++) {
        const zr_product_rate *p = &machine->product[i];
        assert_true(p->flops <= (p->bf16 ? machine->flops_bf16 : machine->flops_f32));
    }
    rates.best_bf16 = 0;
    assert_true(zr__rates_peak(&rates, ZR_BF16, &library).all == 0 && !library);
}

/* Check that no measured product is above the peak, whatever the mean rate of its sizes is. */
static void test_peak_of_products(void **state)
{
    (void)state;
    zr__product_timing made[] = {{.dtype = ZR_BF16, .m = 2, .n = 3, .k = 4, .count = 1, .flops_per_sec = 300},
                                 {.dtype = ZR_BF16, .m = 4, .n = 3, .k = 2, .count = 1, .flops_per_sec = 100}};
    const zr__products products = {.product = made, .n = 2};
    zr_rates rates = {.threads = 1, .peak = {.dot_bf16 = {200, 200}}};
    bool library = false;
    zr__rates_add_products(&rates, &products);
    assert_int_equal(rates.n_products, 1);
    assert_true(rates.product[0].bf16 && fabs(rates.product[0].flops - 150) < 1e-9);
    assert_true(zr__rates_peak(&rates, ZR_BF16, &library).all == 300 && library);
    assert_true(rates.best_f32 == 0);
}

static const zr_gpt2_config small = {.n_layer = 3,
                                     .n_head = 2,
                                     .n_embd = 32,
                                     .n_positions = 64,
                                     .vocab_size = 96,
                                     .layer_norm_epsilon = 1e-5,
                                     .initializer_range = 0.02};

static zr_plan *make_plan(const zr_profile *profile, int64_t limit_bytes)
{
    zr_plan *plan = NULL;
    zr_model model = zr_gpt2(&small);
    zr_layout layout = zr_layout_default();
    layout.ranks = 2;
    layout.stage = 3;
    layout.batch = 4;
    layout.seq = 64;
    layout.recompute = ZR_RECOMPUTE_AUTO;
    layout.limit_bytes = limit_bytes;
    layout.optimizer = zr_adamw(0.9, 0.999, 1e-8, 0.0);
    assert_int_equal(zr_plan_create(&model, &layout, profile, &plan), ZR_OK);
    return plan;
}

/* Check that policy auto finds the same mix with and without known rates. */
static void test_same_plan(void **state)
{
    (void)state;
    zr_rates rates = some_rates(1.0);
    zr_profile blank = {.facts = {.threads = 1, .scratch_bytes = zr_device_cpu_scratch}}, known = blank;
    zr__rates_profile(&rates, ZR_F32, 2, 2, &known);
    zr_plan *whole = make_plan(&blank, 0);
    int64_t limit = whole->memory.total_bytes * 3 / 4;
    zr_plan *a = make_plan(&blank, limit), *b = make_plan(&known, limit);
    assert_true(a->flops_hardware > whole->flops_hardware); /* the limit leaves a choice */
    assert_true(a->flops_hardware == b->flops_hardware);
    assert_memory_equal(&a->memory, &b->memory, sizeof a->memory);
    const zr_schedule *s = &a->schedule[ZR_SCHEDULE_TRAIN], *t = &b->schedule[ZR_SCHEDULE_TRAIN];
    assert_int_equal(s->n_steps, t->n_steps);
    assert_int_equal(s->n_buffers, t->n_buffers);
    for (int32_t i = 0; i < s->n_steps; i++)
        assert_true(s->step[i].kind == t->step[i].kind && s->step[i].op == t->step[i].op &&
                    s->step[i].range.first == t->step[i].range.first &&
                    s->step[i].range.count == t->step[i].range.count);
    for (int32_t i = 0; i < s->n_buffers; i++) assert_true(s->buffer[i].offset == t->buffer[i].offset);
    zr_plan_destroy(&whole);
    zr_plan_destroy(&a);
    zr_plan_destroy(&b);
}

/* Check that products are stored by their sizes, and that the stored rates give the same total time as the measured
 * products. */
static void check_remembered(const zr__products *products)
{
    zr_rates rates = {.threads = 1};
    double sec = 0.0;
    zr__rates_add_products(&rates, products);
    assert_int_equal(rates.n_products, 3); /* a block's four weights and the head; two pairs are alike */
    zr_machine machine = {.flops_f32 = 1.0, .flops_bf16 = 1.0, .n_products = rates.n_products};
    memcpy(machine.product, rates.product, sizeof machine.product);
    for (int i = 0; i < products->n; i++) {
        const zr__product_timing *p = &products->product[i];
        double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->count;
        zr_product_sizes sizes = zr__product_sizes_of(p->m, p->n, p->k);
        sec += flops / zr__machine_flops(&machine, p->dtype == ZR_BF16, sizes);
    }
    assert_true(fabs(sec / products->bound_sec - 1.0) < 1e-9);
    for (int i = 0; i < ZR_PRODUCT_RATES; i++) zr__rates_add_products(&rates, products);
    assert_int_equal(rates.n_products, ZR_PRODUCT_RATES);
}

static zr_status no_host_memory(zr_device *device, int64_t bytes, void **memory)
{
    (void)device, (void)bytes, (void)memory;
    return ZR_FAIL(ZR_ERR_INTERNAL, "memory of the host was taken beside the processor's");
}

/* Check that on a processor the operands are filled in place, without a copy. */
static void test_products_held_once(void **state)
{
    (void)state;
    zr_model model = zr_gpt2(&small);
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    zr__products products;
    assert_int_equal(zr_device_create_cpu(&config, &device), ZR_OK);
    const zr_device_ops *usual = device->ops;
    zr_device_ops ops = *usual;
    ops.alloc_host = no_host_memory;
    device->ops = &ops;
    const zr_status st = zr__products_measure(&model, 1, 16, ZR_F32, device, &products);
    device->ops = usual;
    assert_int_equal(st, ZR_OK);
    zr__products_clear(&products);
    zr_device_destroy(&device);
}

/* Check that every product of a small model is measured once, and that the bound follows from the rates. */
static void test_products(void **state)
{
    (void)state;
    zr_model model = zr_gpt2(&small);
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    assert_int_equal(zr_device_create_cpu(&config, &device), ZR_OK);
    static const zr_dtype dtypes[] = {ZR_F32, ZR_BF16};
    for (int d = 0; d < 2; d++) {
        zr__products products;
        double bound = 0.0, flops = 0.0;
        int64_t count = 0, heads = 0;
        assert_int_equal(zr__products_measure(&model, 2, 64, dtypes[d], device, &products), ZR_OK);
        assert_int_equal(products.n, 3 * 4 + 3);
        for (int i = 0; i < products.n; i++) {
            const zr__product_timing *p = &products.product[i];
            double work = 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->count;
            assert_true(p->flops_per_sec > 0.0 && p->dtype == dtypes[d] && p->part == 1.0);
            flops += work;
            bound += work / p->flops_per_sec;
            count += p->count;
            heads += strncmp(p->what, "transformer.wte ", 16) == 0;
        }
        assert_int_equal(heads, 3);
        assert_string_equal(products.product[2].what, "h.*.mlp.c_fc forward");
        assert_true(products.product[2].m == 128 && products.product[2].n == 128 && products.product[2].k == 32);
        assert_int_equal(count, 3 * (3 * 4 + 1));
        assert_true(fabs(products.flops / flops - 1.0) < 1e-9 && fabs(products.bound_sec / bound - 1.0) < 1e-9);
        assert_true(products.rest_flops > 0.0);
        check_remembered(&products);
        zr__products_clear(&products);
    }
    zr__products products;
    /* On a device that seems very slow, 512 of the 768 rows are measured, and all rows of the head's blocks, which have
     * fewer. */
    device->profile.machine.flops_f32 = 1.0;
    assert_int_equal(zr__products_measure(&model, 12, 64, ZR_F32, device, &products), ZR_OK);
    for (int i = 0; i < products.n; i++) {
        bool head = strncmp(products.product[i].what, "transformer.wte ", 16) == 0;
        assert_true(products.product[i].part == (head ? 1.0 : 512.0 / 768.0));
    }
    zr__products_clear(&products);
    assert_int_equal(zr__products_measure(&model, 2, 64, ZR_F16, device, &products), ZR_ERR_DTYPE);
    zr_device_destroy(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_there_and_back, setup, tempdir_remove),
        cmocka_unit_test_setup_teardown(test_damaged, setup, tempdir_remove),
        cmocka_unit_test_setup_teardown(test_infinite, setup, tempdir_remove),
        cmocka_unit_test_setup_teardown(test_levels_apart, setup, tempdir_remove),
        cmocka_unit_test_setup_teardown(test_writers_at_once, setup, tempdir_remove),
        cmocka_unit_test_setup_teardown(test_nowhere, setup, tempdir_remove),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_shares_of_products),
        cmocka_unit_test(test_peak),
        cmocka_unit_test(test_peak_of_products),
        cmocka_unit_test(test_same_plan),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_products_held_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
