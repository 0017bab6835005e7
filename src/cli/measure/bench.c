#include "cli/shell/message.h"
#include "cli/measure/bench.h"
#include "base/json/json_write.h"
#include "device/device.h"
#include "tensor/tensor.h"
#include "train/family/family.h"

#include <stdio.h>
#include <math.h>
#include <string.h>

enum { DEFAULT_SEQ = 1024 };

/* ---- training steps ----------------------------------------------------------------------------- */

void cli_launches_begin(int ranks, bool processes)
{
    if (processes)
        cli_say("measuring training steps on the %d ranks of this launch ...", ranks);
    else
        cli_say("measuring training steps on %d rank%s ...", ranks, ranks == 1 ? "" : "s");
}

void cli_launches_remember(const zr__launches *launches, const zr_device_facts *facts)
{
    for (int i = 0; i < launches->n; i++)
        if (zr__launch_remember(facts, &launches->launch[i]) != ZR_OK) {
            cli_say("note: the measurements could not be stored: %s", zr_error_message());
            return;
        }
}

/** Return the sustained bandwidth between hosts, in bytes/s into a rank. Return NAN if there is only one host. */
static double across_bytes_sec(const zr_launch *launch)
{
    return launch->hosts > 1 ? launch->across_bytes_sec : NAN;
}

static const char *giga_text(double bytes_sec, char text[32])
{
    snprintf(text, 32, isnan(bytes_sec) ? "-" : "%.3g", bytes_sec / 1e9);
    return text;
}

void cli_launches_print(const zr__launches *launches)
{
    printf("\ntraining steps of small models, by which `zr simulate --cluster this` prices others\n"
           "  ranks           threads  kinds and sizes  GB/s into a rank  across hosts\n");
    for (int i = 0; i < launches->n; i++) {
        const zr_launch *l = &launches->launch[i];
        char ranks[48], within[32], across[32];
        if (l->hosts > 1)
            snprintf(ranks, sizeof(ranks), "%d on %d hosts", l->ranks, l->hosts);
        else if (l->ranks > 1)
            snprintf(ranks, sizeof(ranks), "%d, %s", l->ranks, l->transport);
        else
            snprintf(ranks, sizeof(ranks), "1");
        printf("  %-16s%7d%17d%18s%14s\n", ranks, l->threads, l->n_samples,
               giga_text(zr__launch_gather_bytes_sec(l), within), giga_text(across_bytes_sec(l), across));
    }
}

void cli_launches_json(zr__json_out *json, const char *key, const zr__launches *launches)
{
    zr__json_open(json, key, '[');
    for (int i = 0; i < launches->n; i++) {
        const zr_launch *l = &launches->launch[i];
        zr__json_break(json, "\n  ");
        zr__json_open(json, NULL, '{');
        zr__json_add(json, "transport", l->transport, "ranks", l->ranks, "hosts", l->hosts, "threads", l->threads);
        zr__json_add_bool(json, "beside", l->beside);
        zr__json_add(json, "samples", l->n_samples, "around_sec", l->around_sec, "gather_bytes_sec",
                     zr__launch_gather_bytes_sec(l), "gather_across_bytes_sec", across_bytes_sec(l));
        zr__json_close(json, '}');
    }
    zr__json_close(json, ']');
}

/* ---- measure --------------------------------------------------------------------------------- */

static zr_status measure_device(cli_bench *b, zr_device *device)
{
    zr__family_model shape;
    ZR_TRY(zr__family_find_preset(b->preset, &shape));
    if (b->seq == 0) b->seq = shape.sizes.positions < DEFAULT_SEQ ? shape.sizes.positions : DEFAULT_SEQ;
    const zr_model model = zr__family_builder(&shape);
    if (!b->quiet) cli_say("measuring arithmetic, memory, and copies between ranks ...");
    ZR_TRY(device->ops->bench(device, &b->rates));
    bool native = device->profile.facts.bf16_products;
    /* Set the profile before timing products. Its rates determine how many rows of a large product are timed. */
    zr__rates_profile(&b->rates, native ? ZR_BF16 : ZR_F32, 1, 1, &device->profile);
    if (!b->quiet) cli_say("measuring the products of %s in fp32 ...", b->preset);
    ZR_TRY(zr__products_measure(&model, b->batch, b->seq, ZR_F32, device, &b->f32));
    zr__rates_add_products(&b->rates, &b->f32);
    if (!native && !b->bf16) return ZR_OK;
    if (!b->quiet) cli_say("measuring the products of %s in bf16%s ...", b->preset, native ? "" : ", widened to fp32");
    ZR_TRY(zr__products_measure(&model, b->batch, b->seq, ZR_BF16, device, &b->narrow));
    if (native) zr__rates_add_products(&b->rates, &b->narrow);
    return ZR_OK;
}

static double rest_share(const zr__products *products)
{
    double all = products->flops + products->rest_flops;
    return all > 0.0 ? products->rest_flops / all : 0.0;
}

/** Return the name of the library that computes matrix products. */
static const char *matmul_of(const zr_rates *rates)
{
    return strcmp(rates->peak.level, ZR_CUDA_LEVEL) == 0 ? "cuBLASLt" : zr__device_cpu_matmul();
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/** Return a rate for JSON, or NAN, which is written as null, if the rate is not known. */
static double known(double rate)
{
    return rate > 0.0 ? rate : NAN;
}

static void add_levels(zr__json_out *json, const zr_rates *rates)
{
    zr__json_open(json, "levels", '[');
    for (int i = 0; i < rates->n_levels; i++) {
        const zr_peak *peak = &rates->level[i];
        zr__json_break(json, "\n  ");
        zr__json_open(json, NULL, '{');
        zr__json_add(json, "level", peak->level, "fma_f32_flops", known(peak->fma_f32.one * rates->threads),
                     "fma_f32_all_flops", known(peak->fma_f32.all), "dot_bf16_flops",
                     known(peak->dot_bf16.one * rates->threads), "dot_bf16_all_flops", known(peak->dot_bf16.all));
        zr__json_close(json, '}');
    }
    zr__json_close(json, ']');
}

/** Add the peak FLOP/s of a data type, and whether the library or zr's register loop reached the peak. Shares of the
 * peak are relative to this rate. */
static void add_peak(zr__json_out *json, const zr_rates *rates, zr_dtype dtype)
{
    bool library = false;
    double peak = zr__rates_peak(rates, dtype, &library).all;
    zr__json_open(json, dtype == ZR_BF16 ? "bf16" : "f32", '{');
    zr__json_add(json, "flops", known(peak), "of", peak <= 0.0 ? NULL : library ? "library" : "registers");
    zr__json_close(json, '}');
}

static void add_shapes(zr__json_out *json, const zr__products *products)
{
    for (int i = 0; i < products->n; i++) {
        const zr__product_timing *p = &products->product[i];
        zr__json_break(json, "\n  ");
        zr__json_open(json, NULL, '{');
        zr__json_add(json, "what", p->what, "m", p->m, "n", p->n, "k", p->k, "dtype",
                     p->dtype == ZR_BF16 ? "bf16" : "f32");
        zr__json_add(json, "flops_per_sec", known(p->flops_per_sec), "part", p->part, "count", p->count);
        zr__json_close(json, '}');
    }
}

static void add_records(zr__json_out *json, const zr_rates *rates)
{
    zr__json_open(json, "records", '[');
    for (int i = 0; i < ZR_RECORD_CODES; i++) {
        const zr_record_rates *r = &rates->records[i];
        zr__json_break(json, "\n  ");
        zr__json_open(json, NULL, '{');
        zr__json_add(json, "codes", zr__record_codes_names[i], "encode_elems_sec", known(r->encode.all),
                     "encode_random_elems_sec", known(r->encode_random.all), "decode_elems_sec", known(r->decode.all));
        zr__json_close(json, '}');
    }
    zr__json_close(json, ']');
}

static zr_status print_bench_json(const cli_bench *b)
{
    const zr_rates *r = &b->rates;
    zr__json_out json = {0};
    zr__json_add(&json, "processor", b->processor, "level", r->peak.level, "threads", r->threads, "matmul",
                 matmul_of(r));
    add_levels(&json, r);
    zr__json_break(&json, "\n ");
    zr__json_add(&json, "matmul_f32_flops", known(r->matmul_f32), "matmul_bf16_flops", known(r->matmul_bf16),
                 "triad_bytes_sec", known(r->triad.all), "triad_thread_bytes_sec", known(r->triad.one),
                 "link_bytes_sec", known(r->link.all / r->threads), "link_alone_bytes_sec", known(r->link.one));
    zr__json_break(&json, "\n ");
    add_records(&json, r);
    zr__json_break(&json, "\n ");
    zr__json_open(&json, "peak", '{');
    add_peak(&json, r, ZR_F32);
    add_peak(&json, r, ZR_BF16);
    zr__json_close(&json, '}');
    zr__json_break(&json, "\n ");
    zr__json_add(&json, "preset", b->preset, "batch", b->batch, "seq", b->seq);
    zr__json_open(&json, "shapes", '[');
    add_shapes(&json, &b->f32);
    add_shapes(&json, &b->narrow);
    zr__json_close(&json, ']');
    zr__json_break(&json, "\n ");
    cli_launches_json(&json, "launches", &b->launches);
    zr__json_break(&json, "\n ");
    zr__json_open(&json, "bound_sec", '{');
    zr__json_add(&json, "f32", known(b->f32.bound_sec), "bf16", known(b->narrow.bound_sec));
    zr__json_close(&json, '}');
    zr__json_add(&json, "flops", known(b->f32.flops), "rest_flops_share", rest_share(&b->f32));
    return zr__json_write(&json, stdout);
}

/* ---- text ------------------------------------------------------------------------------------ */

/** Write a rate in units of 10^9, or "-" if it is not known. */
static const char *giga(double rate, char text[32])
{
    snprintf(text, 32, rate > 0.0 ? "%.1f" : "-", rate / 1e9);
    return text;
}
#define GIGA(rate) giga((rate), (char[32]){0})

static void print_levels(const zr_rates *rates)
{
    printf("GFLOP/s between registers     fp32   at once   bf16 dot   at once\n");
    for (int i = 0; i < rates->n_levels; i++) {
        const zr_peak *peak = &rates->level[i];
        bool used = strcmp(peak->level, rates->peak.level) == 0;
        printf("  %c %-10s%18s%10s%11s%10s\n", used ? '*' : ' ', peak->level, GIGA(peak->fma_f32.one * rates->threads),
               GIGA(peak->fma_f32.all), GIGA(peak->dot_bf16.one * rates->threads), GIGA(peak->dot_bf16.all));
    }
    printf("    %-10s%18s%10s%11s\n", "products", GIGA(rates->matmul_f32), "", GIGA(rates->matmul_bf16));
}

/** Print the rates of casts to and from records, unless the device does not measure them. */
static void print_records(const zr_rates *rates)
{
    if (rates->records[0].encode.all <= 0) return;
    printf("\nquantised values, 10^9 elements/s      encoded   at random    decoded\n");
    for (int i = 0; i < ZR_RECORD_CODES; i++) {
        const zr_record_rates *r = &rates->records[i];
        printf("  %-30s%14.2f%12.2f%11.2f\n", zr__record_codes_names[i], r->encode.all / 1e9,
               r->encode_random.all / 1e9, r->decode.all / 1e9);
    }
}

/** Print a note that the peak is the library's rate, if a product of the library ran faster than zr's register loop. */
static void print_library_peak(const zr_rates *rates, zr_dtype dtype, const char *type)
{
    bool library = false;
    zr_rate peak = zr__rates_peak(rates, dtype, &library);
    if (!library) return;
    printf("  %s: a product ran faster than zr's loop between registers, by instructions that zr has no loop for\n"
           "  or while the machine was quieter; \"of peak\" is of the library's best rate, %s GFLOP/s\n",
           type, GIGA(peak.all));
}

/** Print the rate of a product and its share of the peak. Print "~" before the rate if only some rows were timed. */
static void print_product_rate(const zr__product_timing *p, double peak)
{
    char text[40];
    snprintf(text, sizeof(text), "%s%s", p->part < 1.0 ? "~" : "", GIGA(p->flops_per_sec));
    printf("%9s%7.0f %%", text, peak > 0.0 ? 100.0 * p->flops_per_sec / peak : 0.0);
}

static void print_products(const cli_bench *b)
{
    const double f32_peak = zr__rates_peak(&b->rates, ZR_F32, NULL).all;
    const double bf16_peak = zr__rates_peak(&b->rates, ZR_BF16, NULL).all;
    bool estimates = false;
    printf("\nproducts of %s, %lld x %lld tokens\n%-30s%7s%7s%7s%6s%9s  of peak%s\n", b->preset, (long long)b->batch,
           (long long)b->seq, "", "m", "n", "k", "times", "fp32", b->narrow.n ? "     bf16  of peak" : "");
    for (int i = 0; i < b->f32.n; i++) {
        const zr__product_timing *p = &b->f32.product[i];
        printf("  %-28s%7lld%7lld%7lld%6lld", p->what, (long long)p->m, (long long)p->n, (long long)p->k,
               (long long)p->count);
        print_product_rate(p, f32_peak);
        const zr__product_timing *q = b->narrow.n ? &b->narrow.product[i] : NULL;
        /* Widened bf16 products run in fp32, so compare their rate with the fp32 peak. */
        if (q) print_product_rate(q, bf16_peak > 0.0 ? bf16_peak : f32_peak);
        putchar('\n');
        estimates |= p->part < 1.0 || (q && q->part < 1.0);
    }
    if (estimates) printf("  ~ timed on a part of its rows: an estimate, and so is the bound\n");
    print_library_peak(&b->rates, ZR_F32, "fp32");
    print_library_peak(&b->rates, ZR_BF16, "bf16");
}

static void print_bench(const cli_bench *b)
{
    const zr_rates *r = &b->rates;
    printf("machine     %s, %d thread%s, kernels %s, %s\n\n", b->processor, r->threads, r->threads == 1 ? "" : "s",
           r->peak.level, matmul_of(r));
    print_levels(r);
    printf("\nmemory      %s GB/s (triad, 12 bytes an element), one thread %s\n", GIGA(r->triad.all),
           GIGA(r->triad.one));
    printf("ranks       %s GB/s into each of %d that read each other's memory, one alone %s\n",
           GIGA(r->link.all / r->threads), r->threads, GIGA(r->link.one));
    print_records(r);
    print_products(b);
    printf("\nbound       %s", CLI_SECONDS(b->f32.bound_sec));
    if (b->narrow.n) printf(" in fp32, %s in bf16,", CLI_SECONDS(b->narrow.bound_sec));
    printf(" for the products of a micro-batch; attention comes on top: %.1f %%\n            of its FLOPs, counted "
           "without the mask, which leaves half of them\n",
           100.0 * rest_share(&b->f32));
    if (b->launches.n > 0) cli_launches_print(&b->launches);
}

const char *cli_rates_line(const zr_rates *rates, char text[192])
{
    snprintf(text, 192, "%s GFLOP/s fp32, %s bf16, %s GB/s memory, %s between ranks",
             GIGA(zr__rates_peak(rates, ZR_F32, NULL).all), GIGA(zr__rates_peak(rates, ZR_BF16, NULL).all),
             GIGA(rates->triad.all), GIGA(rates->link.all / rates->threads));
    return text;
}

/* ---- run ------------------------------------------------------------------------------------- */

/** Store the measured rates for later commands. Then measure and store training steps. If measuring or storing fails,
 * print a note. */
static void remember_rates(cli_bench *b, const zr_device *device)
{
    const zr_device_facts *facts = &device->profile.facts;
    const zr_status st = zr__rates_remember(facts, &b->rates);
    if (st != ZR_OK) cli_say("note: the measurements could not be stored: %s", zr_error_message());
    if (facts->own_memory) return; /* training steps are not measured on GPUs yet */
    if (zr__launches_measure(&b->how, NULL, &b->launches) != ZR_OK)
        cli_say("note: training steps were not measured: %s", zr_error_message());
    if (st == ZR_OK) cli_launches_remember(&b->launches, facts);
}

zr_status cli_bench_run(cli_bench *b, zr_device *device)
{
    zr_status st = measure_device(b, device);
    if (st == ZR_OK) {
        remember_rates(b, device);
        if (b->json)
            st = print_bench_json(b);
        else
            print_bench(b);
    }
    zr__products_clear(&b->f32);
    zr__products_clear(&b->narrow);
    zr__launches_clear(&b->launches);
    return st;
}
