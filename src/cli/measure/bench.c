#include "cli/measure/bench.h"
#include "device/device.h"
#include "train/family/family.h"
#include "train/measure/measure.h"

#include <string.h>

#define DEFAULT_SEQ 1024

static void tell(const cli_bench *b, const char *what)
{
    if (!b->how.quiet) cli_say("measuring %s ...", what);
}

/* ---- measure --------------------------------------------------------------------------------- */

static zr_status measure(cli_bench *b, zr_device *device)
{
    char what[160];
    zr__family_model shape;
    ZR_TRY(zr__family_find_preset(b->preset, &shape));
    if (b->seq == 0) b->seq = shape.sizes.n_positions < DEFAULT_SEQ ? shape.sizes.n_positions : DEFAULT_SEQ;
    const zr_model model = zr__family_builder(&shape);
    tell(b, "arithmetic, memory, and copies between ranks");
    ZR_TRY(device->ops->bench(device, &b->rates));
    bool native = device->profile.facts.bf16_products;
    /* The rates tell how many rows of a large product are enough to time it. */
    zr__rates_profile(&b->rates, native ? ZR_BF16 : ZR_F32, 1, 1, &device->profile);
    snprintf(what, sizeof(what), "the products of %s in fp32", b->preset);
    tell(b, what);
    ZR_TRY(zr__products_measure(&model, b->batch, b->seq, ZR_F32, device, &b->f32));
    zr__rates_add_products(&b->rates, &b->f32);
    if (!native && !b->bf16) return ZR_OK;
    snprintf(what, sizeof(what), "the products of %s in bf16%s", b->preset, native ? "" : ", widened to fp32");
    tell(b, what);
    ZR_TRY(zr__products_measure(&model, b->batch, b->seq, ZR_BF16, device, &b->narrow));
    if (native) zr__rates_add_products(&b->rates, &b->narrow);
    return ZR_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/** Return a rate as a JSON number, null if it is not known. */
static const char *rate_json(double rate, char text[ZR_NUMBER_BYTES])
{
    return rate > 0.0 ? cli_json_number(rate, text) : "null";
}

static void levels_json(const zr_rates *rates)
{
    char n[4][ZR_NUMBER_BYTES];
    for (int i = 0; i < rates->n_levels; i++) {
        const zr_peak *peak = &rates->level[i];
        printf("%s\n  {\"level\":\"%s\", \"fma_f32_flops\":%s, \"fma_f32_all_flops\":%s, \"dot_bf16_flops\":%s, "
               "\"dot_bf16_all_flops\":%s}",
               i ? "," : "", peak->level, rate_json(peak->fma_f32.one * rates->threads, n[0]),
               rate_json(peak->fma_f32.all, n[1]), rate_json(peak->dot_bf16.one * rates->threads, n[2]),
               rate_json(peak->dot_bf16.all, n[3]));
    }
}

static void shapes_json(const zr__products *products, bool first)
{
    char rate[ZR_NUMBER_BYTES], part[ZR_NUMBER_BYTES];
    for (int i = 0; i < products->n; i++) {
        const zr__product_timing *p = &products->product[i];
        printf("%s\n  {\"what\":\"%s\", \"m\":%lld, \"n\":%lld, \"k\":%lld, \"dtype\":\"%s\", \"flops_per_sec\":%s, "
               "\"part\":%s, \"count\":%lld}",
               first && i == 0 ? "" : ",", p->what, (long long)p->m, (long long)p->n, (long long)p->k,
               p->dtype == ZR_BF16 ? "bf16" : "f32", rate_json(p->flops_per_sec, rate), cli_json_number(p->part, part),
               (long long)p->count);
    }
}

static double rest_share(const zr__products *products)
{
    double all = products->flops + products->rest_flops;
    return all > 0.0 ? products->rest_flops / all : 0.0;
}

/** Return the name of the library that multiplies matrices. */
static const char *matmul_of(const zr_rates *rates)
{
    return strcmp(rates->peak.level, ZR_CUDA_LEVEL) == 0 ? "cuBLASLt" : zr__device_cpu_matmul();
}

/** Print the peaks that shares refer to, and where each peak was reached. */
static void peaks_json(const zr_rates *rates)
{
    static const struct {
        zr_dtype dtype;
        const char *name;
    } type[] = {{ZR_F32, "f32"}, {ZR_BF16, "bf16"}};
    char n[ZR_NUMBER_BYTES];
    printf(" \"peak\":{");
    for (int i = 0; i < 2; i++) {
        bool library = false;
        double peak = zr__rates_peak(rates, type[i].dtype, &library).all;
        const char *of = peak <= 0.0 ? "null" : library ? "\"library\"" : "\"registers\"";
        printf("%s\"%s\":{\"flops\":%s, \"of\":%s}", i ? ", " : "", type[i].name, rate_json(peak, n), of);
    }
    printf("},\n");
}

static void print_json(const cli_bench *b)
{
    const zr_rates *r = &b->rates;
    char n[6][ZR_NUMBER_BYTES];
    printf("{\"processor\":");
    cli_json_print(stdout, b->processor, (int64_t)strlen(b->processor));
    printf(", \"level\":\"%s\", \"threads\":%d, \"matmul\":\"%s\", \"levels\":[", r->peak.level, r->threads,
           matmul_of(r));
    levels_json(r);
    printf("],\n \"matmul_f32_flops\":%s, \"matmul_bf16_flops\":%s, \"triad_bytes_sec\":%s, "
           "\"triad_thread_bytes_sec\":%s, \"link_bytes_sec\":%s, \"link_alone_bytes_sec\":%s,\n",
           rate_json(r->matmul_f32, n[0]), rate_json(r->matmul_bf16, n[1]), rate_json(r->triad.all, n[2]),
           rate_json(r->triad.one, n[3]), rate_json(r->link.all / r->threads, n[4]), rate_json(r->link.one, n[5]));
    peaks_json(r);
    printf(" \"preset\":\"%s\", \"batch\":%lld, \"seq\":%lld, \"shapes\":[", b->preset, (long long)b->batch,
           (long long)b->seq);
    shapes_json(&b->f32, true);
    shapes_json(&b->narrow, false);
    printf("],\n \"launches\":");
    cli_launches_print_json(&b->launches);
    printf(",\n \"bound_sec\":{\"f32\":%s, \"bf16\":%s}, \"flops\":%s, \"rest_flops_share\":%s}\n",
           rate_json(b->f32.bound_sec, n[0]), rate_json(b->narrow.bound_sec, n[1]), rate_json(b->f32.flops, n[2]),
           cli_json_number(rest_share(&b->f32), n[3]));
}

/* ---- text ------------------------------------------------------------------------------------ */

/** Write a rate in units of 10^9, "-" if it is not known. */
static const char *giga(double rate, char text[32])
{
    if (rate > 0.0)
        snprintf(text, 32, "%.1f", rate / 1e9);
    else
        snprintf(text, 32, "-");
    return text;
}

static void print_levels(const zr_rates *rates)
{
    char n[4][32];
    printf("GFLOP/s between registers     fp32   at once   bf16 dot   at once\n");
    for (int i = 0; i < rates->n_levels; i++) {
        const zr_peak *peak = &rates->level[i];
        bool used = strcmp(peak->level, rates->peak.level) == 0;
        printf("  %c %-10s%18s%10s%11s%10s\n", used ? '*' : ' ', peak->level,
               giga(peak->fma_f32.one * rates->threads, n[0]), giga(peak->fma_f32.all, n[1]),
               giga(peak->dot_bf16.one * rates->threads, n[2]), giga(peak->dot_bf16.all, n[3]));
    }
    printf("    %-10s%18s%10s%11s\n", "products", giga(rates->matmul_f32, n[0]), "", giga(rates->matmul_bf16, n[1]));
}

static double share(double rate, double peak)
{
    return peak > 0.0 ? 100.0 * rate / peak : 0.0;
}

static double peak_of(const zr_rates *rates, zr_dtype dtype)
{
    return zr__rates_peak(rates, dtype, NULL).all;
}

/** Return the peak for bf16 products: fp32's peak where they run in fp32. */
static double narrow_peak(const zr_rates *rates)
{
    double narrow = peak_of(rates, ZR_BF16);
    return narrow > 0.0 ? narrow : peak_of(rates, ZR_F32);
}

/** Say that shares refer to a library's rate, where its product ran faster than the register loop. */
static void say_library(const zr_rates *rates, zr_dtype dtype, const char *type)
{
    char n[32];
    bool library = false;
    zr_rate peak = zr__rates_peak(rates, dtype, &library);
    if (!library) return;
    printf("  %s: a product ran faster than zr's loop between registers, by instructions that zr has no loop for\n"
           "  or while the machine was quieter; \"of peak\" is of the library's best rate, %s GFLOP/s\n",
           type, giga(peak.all, n));
}

/** Write a product's rate; "~" marks a product that was timed on a part of its rows. */
static const char *rate_text(const zr__product_timing *p, char text[40])
{
    char rate[32];
    snprintf(text, 40, "%s%s", p->part < 1.0 ? "~" : "", giga(p->flops_per_sec, rate));
    return text;
}

static void print_products(const cli_bench *b)
{
    char n[2][40];
    bool estimates = false;
    printf("\nproducts of %s, %lld x %lld tokens\n%-30s%7s%7s%7s%6s%9s  of peak%s\n", b->preset, (long long)b->batch,
           (long long)b->seq, "", "m", "n", "k", "times", "fp32", b->narrow.n ? "     bf16  of peak" : "");
    for (int i = 0; i < b->f32.n; i++) {
        const zr__product_timing *p = &b->f32.product[i];
        printf("  %-28s%7lld%7lld%7lld%6lld%9s%7.0f %%", p->what, (long long)p->m, (long long)p->n, (long long)p->k,
               (long long)p->count, rate_text(p, n[0]), share(p->flops_per_sec, peak_of(&b->rates, ZR_F32)));
        const zr__product_timing *q = b->narrow.n ? &b->narrow.product[i] : NULL;
        if (q) printf("%9s%7.0f %%", rate_text(q, n[1]), share(q->flops_per_sec, narrow_peak(&b->rates)));
        putchar('\n');
        estimates |= p->part < 1.0 || (q && q->part < 1.0);
    }
    if (estimates) printf("  ~ timed on a part of its rows: an estimate, and so is the bound\n");
    say_library(&b->rates, ZR_F32, "fp32");
    say_library(&b->rates, ZR_BF16, "bf16");
}

static void print_bound(const cli_bench *b)
{
    char f32[32], bf16[32];
    printf("\nbound       %s", cli_seconds(b->f32.bound_sec, f32));
    if (b->narrow.n) printf(" in fp32, %s in bf16,", cli_seconds(b->narrow.bound_sec, bf16));
    printf(" for the products of a micro-batch; attention comes on top: %.1f %%\n            of its FLOPs, counted "
           "without "
           "the mask, which leaves half of them\n",
           100.0 * rest_share(&b->f32));
}

static void print_text(const cli_bench *b)
{
    char n[4][32];
    const zr_rates *r = &b->rates;
    printf("machine     %s, %d thread%s, kernels %s, %s\n\n", b->processor, r->threads, r->threads == 1 ? "" : "s",
           r->peak.level, matmul_of(r));
    print_levels(r);
    printf("\nmemory      %s GB/s (triad, 12 bytes an element), one thread %s\n", giga(r->triad.all, n[0]),
           giga(r->triad.one, n[1]));
    printf("ranks       %s GB/s into each of %d that read each other's memory, one alone %s\n",
           giga(r->link.all / r->threads, n[2]), r->threads, giga(r->link.one, n[3]));
    print_products(b);
    print_bound(b);
    if (b->launches.n > 0) cli_launches_print(&b->launches);
}

const char *cli_rates_line(const zr_rates *rates, char text[192])
{
    char n[4][32];
    snprintf(text, 192, "%s GFLOP/s fp32, %s bf16, %s GB/s memory, %s between ranks",
             giga(peak_of(rates, ZR_F32), n[0]), giga(peak_of(rates, ZR_BF16), n[1]), giga(rates->triad.all, n[2]),
             giga(rates->link.all / rates->threads, n[3]));
    return text;
}

/* ---- run ------------------------------------------------------------------------------------- */

/** Remember the rates before training steps are measured. A failure to remember or to measure is a note. */
static void keep(cli_bench *b, const zr_device *device)
{
    const zr_device_facts *facts = &device->profile.facts;
    const zr_status st = zr__rates_remember(facts, &b->rates);
    if (st != ZR_OK) cli_say("note: not remembered: %s", zr_error_message());
    if (facts->apart) return; /* ranks on GPUs are not measured yet */
    if (cli_launches_threads(&b->how, &b->launches) != ZR_OK)
        cli_say("note: training steps were not measured: %s", zr_error_message());
    if (st == ZR_OK) cli_launches_remember(&b->launches, facts);
}

zr_status cli_bench_run(cli_bench *b, zr_device *device)
{
    zr_status st = measure(b, device);
    if (st == ZR_OK) keep(b, device);
    if (st == ZR_OK && b->json) print_json(b);
    if (st == ZR_OK && !b->json) print_text(b);
    zr__products_clear(&b->f32);
    zr__products_clear(&b->narrow);
    cli_launches_clear(&b->launches);
    return st;
}
