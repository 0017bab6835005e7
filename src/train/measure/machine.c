/*
 * Storage of the measurements of `zr info --bench` in a small file in the user's cache. The name of the file is a hash
 * of a key. The key is a text with all facts on which the measurements depend, and is also stored in the file. The
 * measurements are therefore not used on another machine that shares the home directory, for another kernel level, or
 * in another version of zr.
 *
 * A file is written under a temporary name and renamed when it is complete. If several processes write, the last one
 * wins.
 */
#include "train/measure/machine.h"
#include "base/file/file.h"
#include "base/file/folder.h"
#include "base/text/text.h"
#include "device/device.h"
#include "tensor/tensor.h"
#include "train/host/host.h"
#include "train/measure/measure.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

void zr__machine_key(const zr_device_facts *facts, char key[ZR__MACHINE_KEY_BYTES])
{
    char processor[160];
    if (facts->own_memory) {
        snprintf(key, ZR__MACHINE_KEY_BYTES, "%s, zr %s", facts->name, zr_version());
        return;
    }
    zr__host_processor(processor, sizeof(processor));
    snprintf(key, ZR__MACHINE_KEY_BYTES, "%s, %d cores, kernels %s, zr %s, %s", processor, zr__host_cores(),
             zr_device_cpu_level(), zr_version(), zr__device_cpu_matmul());
}

static zr_status machine_path(const char *prefix, const char *key, char folder[PATH_MAX], char path[PATH_MAX])
{
    char name[48];
    ZR_TRY(zr__cache_folder("measured rates", folder));
    snprintf(name, sizeof(name), "%s-%016llx.json", prefix, (unsigned long long)XXH3_64bits(key, strlen(key)));
    return zr__path_join(path, folder, name);
}

/* ---- numbers to JSON and back ---------------------------------------------------------------- */

static json_t *rate_to_json(zr_rate rate)
{
    return json_pack("{s:f, s:f}", "one", rate.one, "all", rate.all);
}

void zr__machine_append(json_t **list, json_t *value)
{
    if (json_array_append_new(*list, value) == 0) return;
    json_decref(*list);
    *list = NULL;
}

/** Return the rates of the kernel levels as a JSON list, or NULL if memory runs out. */
static json_t *levels_to_json(const zr_rates *rates)
{
    json_t *levels = json_array();
    for (int i = 0; levels && i < rates->n_levels; i++) {
        const zr_peak *peak = &rates->level[i];
        zr__machine_append(&levels,
                           json_pack("{s:s, s:o, s:o}", "level", peak->level, "fma_f32_flops",
                                     rate_to_json(peak->fma_f32), "dot_bf16_flops", rate_to_json(peak->dot_bf16)));
    }
    return levels;
}

/** Return the rates of products as a JSON list, or NULL if memory runs out. */
static json_t *products_to_json(const zr_rates *rates)
{
    json_t *products = json_array();
    for (int i = 0; products && i < rates->n_products; i++) {
        const zr_product_rate *p = &rates->product[i];
        const int64_t *size = p->sizes.size;
        zr__machine_append(&products,
                           json_pack("{s:b, s:[I, I, I], s:f}", "bf16", p->bf16, "sizes", (json_int_t)size[0],
                                     (json_int_t)size[1], (json_int_t)size[2], "flops", p->flops));
    }
    return products;
}

/** Return the rates of casts to and from records as a JSON list, or NULL if memory runs out. */
static json_t *records_to_json(const zr_rates *rates)
{
    json_t *records = json_array();
    for (int i = 0; records && i < ZR_RECORD_CODES; i++) {
        const zr_record_rates *r = &rates->records[i];
        zr__machine_append(&records,
                           json_pack("{s:s, s:o, s:o, s:o}", "codes", zr__record_codes_names[i], "encode_elems_sec",
                                     rate_to_json(r->encode), "encode_random_elems_sec", rate_to_json(r->encode_random),
                                     "decode_elems_sec", rate_to_json(r->decode)));
    }
    return records;
}

static bool finite_rate(zr_rate rate)
{
    return isfinite(rate.one) && isfinite(rate.all);
}

/** Return whether all rates are finite, since JSON cannot represent other numbers. */
static bool finite_rates(const zr_rates *rates)
{
    bool finite = isfinite(rates->matmul_f32) && isfinite(rates->matmul_bf16) && isfinite(rates->best_f32) &&
                  isfinite(rates->best_bf16) && finite_rate(rates->triad) && finite_rate(rates->link);
    for (int i = 0; i < rates->n_levels; i++)
        finite = finite && finite_rate(rates->level[i].fma_f32) && finite_rate(rates->level[i].dot_bf16);
    for (int i = 0; i < rates->n_products; i++) finite = finite && isfinite(rates->product[i].flops);
    for (int i = 0; i < ZR_RECORD_CODES; i++)
        finite = finite && finite_rate(rates->records[i].encode) && finite_rate(rates->records[i].encode_random) &&
                 finite_rate(rates->records[i].decode);
    return finite;
}

/** Read a number. Return false if it is missing or negative. */
static bool get_number(const json_t *object, const char *key, double *number)
{
    const json_t *json = json_object_get(object, key);
    *number = json_number_value(json);
    return json_is_number(json) && *number >= 0.0;
}

/** Read a rate. Return false if it is missing or negative, or if it is 0 and `positive` is set. */
static bool get_rate(const json_t *object, const char *key, bool positive, zr_rate *rate)
{
    const json_t *json = json_object_get(object, key);
    return get_number(json, "one", &rate->one) && get_number(json, "all", &rate->all) &&
           (!positive || (rate->one > 0.0 && rate->all > 0.0));
}

/** Read the rates of the kernel levels. Copy the rates of the level `used`, which the device uses, to rates->peak. */
static bool get_levels(const json_t *levels, const char *used, zr_rates *rates)
{
    bool good = json_is_array(levels) && json_array_size(levels) <= ZR_PEAKS;
    for (size_t i = 0; good && i < json_array_size(levels); i++) {
        const json_t *json = json_array_get(levels, i);
        const char *name = json_string_value(json_object_get(json, "level"));
        zr_peak *peak = &rates->level[rates->n_levels++];
        good = name && get_rate(json, "fma_f32_flops", true, &peak->fma_f32) &&
               get_rate(json, "dot_bf16_flops", false, &peak->dot_bf16);
        if (!good) break;
        snprintf(peak->level, sizeof(peak->level), "%s", name);
        if (strcmp(name, used) == 0) rates->peak = *peak;
    }
    return good && rates->peak.level[0];
}

static bool get_products(const json_t *products, zr_rates *rates)
{
    bool good = json_is_array(products) && json_array_size(products) <= ZR_PRODUCT_RATES;
    for (size_t i = 0; good && i < json_array_size(products); i++) {
        const json_t *json = json_array_get(products, i), *sizes = json_object_get(json, "sizes");
        zr_product_rate *p = &rates->product[rates->n_products++];
        int64_t *size = p->sizes.size;
        p->bf16 = json_is_true(json_object_get(json, "bf16"));
        for (size_t s = 0; s < 3; s++) size[s] = json_integer_value(json_array_get(sizes, s));
        good = size[0] > 0 && size[0] <= size[1] && size[1] <= size[2] && get_number(json, "flops", &p->flops) &&
               p->flops > 0.0;
    }
    return good;
}

static bool get_records(const json_t *records, zr_rates *rates)
{
    bool good = json_is_array(records) && json_array_size(records) == ZR_RECORD_CODES;
    for (size_t i = 0; good && i < ZR_RECORD_CODES; i++) {
        const json_t *json = json_array_get(records, i);
        zr_record_rates *r = &rates->records[i];
        good = get_rate(json, "encode_elems_sec", false, &r->encode) &&
               get_rate(json, "encode_random_elems_sec", false, &r->encode_random) &&
               get_rate(json, "decode_elems_sec", false, &r->decode);
    }
    return good;
}

/** Arguments of read_rates. `own_memory` tells whether the rates are the rates of a GPU. */
typedef struct wanted_rates {
    bool own_memory;
    zr_rates *rates;
} wanted_rates;

static bool read_rates(void *arg, const json_t *root)
{
    const wanted_rates *wanted = arg;
    zr_rates *rates = wanted->rates;
    *rates = (zr_rates){.threads = (int)json_integer_value(json_object_get(root, "threads"))};
    return rates->threads > 0 &&
           get_levels(json_object_get(root, "levels"), wanted->own_memory ? ZR_CUDA_LEVEL : zr_device_cpu_level(),
                      rates) &&
           get_number(root, "matmul_f32_flops", &rates->matmul_f32) &&
           get_number(root, "matmul_bf16_flops", &rates->matmul_bf16) &&
           get_rate(root, "triad_bytes_sec", true, &rates->triad) &&
           get_rate(root, "link_bytes_sec", true, &rates->link) &&
           get_records(json_object_get(root, "records"), rates) &&
           get_products(json_object_get(root, "products"), rates) &&
           get_number(root, "best_f32_flops", &rates->best_f32) &&
           get_number(root, "best_bf16_flops", &rates->best_bf16);
}

/* ---- public ---------------------------------------------------------------------------------- */

/** Write `text` to a temporary file next to `path`, then rename that file to `path`. */
static zr_status write_whole(const char *path, const char *text)
{
    char tmp[PATH_MAX + 8];
    snprintf(tmp, sizeof(tmp), "%s.XXXXXX", path);
    zr__file file = {.fd = mkstemp(tmp)};
    ZR_CHECK(file.fd >= 0, ZR_ERR_CREATE, "%s: cannot be made: %s", ZR_SHOWN(path), strerror(errno));
    zr__text_escape(path, file.name, sizeof(file.name));
    zr_status st = zr__file_write(&file, 0, text, (int64_t)strlen(text));
    zr__file_close(&file);
    if (st == ZR_OK && rename(tmp, path) != 0)
        st = ZR_FAIL(ZR_ERR_CREATE, "%s: cannot rename the complete file to this name: %s", file.name, strerror(errno));
    if (st != ZR_OK) unlink(tmp);
    return st;
}

zr_status zr__machine_remember(const char *prefix, const char *key, json_t *root)
{
    json_auto_t *own = root;
    char folder[PATH_MAX], path[PATH_MAX];
    ZR_AUTO_FREE char *text = NULL;
    ZR_CHECK(own, ZR_ERR_MEMORY, "no memory for the measurements as JSON");
    ZR_TRY(zr__json_print(own, &text));
    ZR_TRY(machine_path(prefix, key, folder, path));
    ZR_TRY(zr__make_folders(folder));
    return write_whole(path, text);
}

zr_status zr__machine_recall(const char *prefix, const char *key, zr__machine_read_fn read, void *arg)
{
    char folder[PATH_MAX], path[PATH_MAX];
    json_auto_t *root = NULL;
    ZR_TRY(machine_path(prefix, key, folder, path));
    ZR_CHECK(access(path, F_OK) == 0, ZR_ERR_NOT_FOUND,
             "the speed of this machine has not been measured; run `zr info --bench`");
    bool good = zr__json_load_data(path, &root) == ZR_OK;
    const char *machine = good ? json_string_value(json_object_get(root, "machine")) : NULL;
    good = machine && strcmp(machine, key) == 0 && read(arg, root);
    ZR_CHECK(good, ZR_ERR_DATA, "%s does not hold rates of this machine; run `zr info --bench` to write it again",
             ZR_SHOWN(path));
    return ZR_OK;
}

zr_status zr__rates_remember(const zr_device_facts *facts, const zr_rates *rates)
{
    char key[ZR__MACHINE_KEY_BYTES];
    zr__machine_key(facts, key);
    ZR_CHECK(finite_rates(rates), ZR_ERR_ARG,
             "one of the measured rates is infinite or not a number, and cannot be stored; measure again");
    return zr__machine_remember(
        "machine", key,
        json_pack("{s:s, s:i, s:o, s:f, s:f, s:o, s:o, s:o, s:o, s:f, s:f}", "machine", key, "threads", rates->threads,
                  "levels", levels_to_json(rates), "matmul_f32_flops", rates->matmul_f32, "matmul_bf16_flops",
                  rates->matmul_bf16, "triad_bytes_sec", rate_to_json(rates->triad), "link_bytes_sec",
                  rate_to_json(rates->link), "records", records_to_json(rates), "products", products_to_json(rates),
                  "best_f32_flops", rates->best_f32, "best_bf16_flops", rates->best_bf16));
}

zr_status zr__rates_recall(const zr_device_facts *facts, zr_rates *rates)
{
    char key[ZR__MACHINE_KEY_BYTES];
    wanted_rates wanted = {facts->own_memory, rates};
    zr__machine_key(facts, key);
    return zr__machine_recall("machine", key, read_rates, &wanted);
}

/** Return a rank's part of a rate: the rate of the rank's own threads, or an equal share of the host's rate if that
 * share is lower. */
static double rank_part(zr_rate rate, int threads, int local_ranks)
{
    return fmin(rate.one * threads, rate.all / local_ranks);
}

zr_rate zr__rates_peak(const zr_rates *rates, zr_dtype dtype, bool *of_library)
{
    bool bf16 = dtype == ZR_BF16;
    zr_rate peak = bf16 ? rates->peak.dot_bf16 : rates->peak.fma_f32;
    double product = bf16 ? fmax(rates->matmul_bf16, rates->best_bf16) : fmax(rates->matmul_f32, rates->best_f32);
    bool above = product > peak.all;
    if (of_library) *of_library = above;
    if (!above) return peak;
    return (zr_rate){.one = fmax(peak.one, product / rates->threads), .all = product};
}

void zr__rates_profile(const zr_rates *rates, zr_dtype dtype, int ranks, int local_ranks, zr_profile *profile)
{
    int threads = profile->facts.threads;
    if (profile->facts.own_memory) local_ranks = ranks = 1; /* each rank is assumed to have its own GPU */
    zr_machine *machine = &profile->machine;
    machine->flops_f32 = rank_part(zr__rates_peak(rates, ZR_F32, NULL), threads, local_ranks);
    /* Leave the BF16 rate unset for fp16, whose products are computed in fp32. */
    if (dtype == ZR_BF16) machine->flops_bf16 = rank_part(zr__rates_peak(rates, ZR_BF16, NULL), threads, local_ranks);
    machine->n_products = 0;
    for (int i = 0; i < rates->n_products; i++) {
        /* Assume that the product reaches the same fraction of the rank's peak as it did of the machine's peak. */
        zr_product_rate product = rates->product[i];
        const double part = product.bf16 ? machine->flops_bf16 : machine->flops_f32;
        if (product.flops <= 0.0 || part <= 0.0 || machine->n_products == ZR_PRODUCT_RATES) continue;
        product.flops = product.flops / zr__rates_peak(rates, product.bf16 ? ZR_BF16 : ZR_F32, NULL).all * part;
        machine->product[machine->n_products++] = product;
    }
    machine->memory_bytes_sec = rank_part(rates->triad, threads, local_ranks);
    for (int i = 0; i < ZR_RECORD_CODES; i++) {
        const zr_record_rates *r = &rates->records[i];
        machine->records[i] = (zr_record_rate){.encode = rank_part(r->encode, threads, local_ranks),
                                               .encode_random = rank_part(r->encode_random, threads, local_ranks),
                                               .decode = rank_part(r->decode, threads, local_ranks)};
    }
    machine->link_copies = local_ranks == ranks;
    /* This one link prices all exchanges. With ranks on several hosts its rate is unknown, because the copy rate within
     * a host would be too high. */
    double bytes_sec = machine->link_copies ? rank_part(rates->link, 1, local_ranks) : 0.0;
    machine->link[ZR_LINK_PROCESS] = (zr_link){.bytes_sec = bytes_sec};
}
