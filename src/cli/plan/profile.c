/** --profile: read the rates of a known machine or of a file. A file holds either the user's own rates or the output
 * of `zr info --bench --json`. */
#include "base/json/json.h"
#include "base/text/text.h"
#include "cli/plan/profile.h"
#include "tensor/tensor.h"
#include "train/family/family.h"
#include "train/measure/measure.h"

#include <stdio.h>
#include <math.h>
#include <string.h>

/** A key of a profile file, and the offset of the member of zr_machine that stores the key's value. A file without a
 * `must` key is refused. */
typedef struct rate_key {
    const char *key;
    size_t at;
    bool must;
} rate_key;

#define AT(member) offsetof(zr_machine, member)
static const rate_key own_keys[] = {{"flops_f32", AT(flops_f32), true},
                                    {"flops_bf16", AT(flops_bf16), false},
                                    {"memory_bytes_sec", AT(memory_bytes_sec), true},
                                    {"link_bytes_sec", AT(link[ZR_LINK_PROCESS].bytes_sec), false},
                                    {"disk_read_bytes_sec", AT(disk_read_bytes_sec), false},
                                    {"disk_write_bytes_sec", AT(disk_write_bytes_sec), false},
                                    {"disk_both_bytes_sec", AT(disk_both_bytes_sec), false}};
static const rate_key bench_keys[] = {{"triad_bytes_sec", AT(memory_bytes_sec), true},
                                      {"link_bytes_sec", AT(link[ZR_LINK_PROCESS].bytes_sec), false}};
enum { OWN = sizeof(own_keys) / sizeof(own_keys[0]), BENCH = sizeof(bench_keys) / sizeof(bench_keys[0]) };

static zr_status take_rates(const json_t *root, const char *file, const rate_key *keys, int n, zr_machine *machine)
{
    for (const rate_key *key = keys; key < keys + n; key++) {
        const json_t *json = json_object_get(root, key->key);
        if ((!json || json_is_null(json)) && !key->must) continue;
        const double rate = json_number_value(json);
        ZR_CHECK(json_is_number(json) && isfinite(rate) && (key->must ? rate > 0 : rate >= 0), ZR_ERR_DATA,
                 "--profile %s: \"%s\" is %s; a rate per second%s was wanted, such as 989e12", file, key->key,
                 json ? "not that" : "missing", key->must ? " above 0" : "");
        memcpy((char *)machine + key->at, &rate, sizeof(rate));
    }
    return ZR_OK;
}

static zr_status check_keys(json_t *root, const char *file)
{
    enum { OTHER = 4, KNOWN = OTHER + OWN };
    const char *known[KNOWN] = {"name", "memory_bytes", "link_copies", "narrow_attention"};
    for (int i = 0; i < OWN; i++) known[OTHER + i] = own_keys[i].key;
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(root, key, value)
    {
        bool found = false;
        for (int i = 0; i < KNOWN; i++) found |= strcmp(key, known[i]) == 0;
        const char *near = zr__text_nearest(key, known, KNOWN);
        ZR_CHECK(found, ZR_ERR_DATA, "--profile %s: there is no key \"%s\"%s%s%s", file, key,
                 near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    }
    return ZR_OK;
}

/** Read the user's own rates. The file has one link rate, which is used for all levels of links, because the file does
 * not tell where ranks are. */
static zr_status take_own_rates(json_t *root, const char *file, zr_profile *profile)
{
    zr_machine *machine = &profile->machine;
    ZR_TRY(check_keys(root, file));
    ZR_TRY(take_rates(root, file, own_keys, OWN, machine));
    ZR_CHECK((machine->disk_read_bytes_sec > 0) == (machine->disk_write_bytes_sec > 0), ZR_ERR_DATA,
             "--profile %s: \"disk_%s_bytes_sec\" is given without \"disk_%s_bytes_sec\"; give both or neither", file,
             machine->disk_read_bytes_sec > 0 ? "read" : "write", machine->disk_read_bytes_sec > 0 ? "write" : "read");
    for (int i = 1; i < ZR_LINK_LEVELS; i++) machine->link[i] = machine->link[0];
    const json_t *copies = json_object_get(root, "link_copies"), *narrow = json_object_get(root, "narrow_attention"),
                 *name = json_object_get(root, "name"), *memory = json_object_get(root, "memory_bytes");
    ZR_CHECK(!memory || zr__json_bytes(memory, &machine->memory_bytes), ZR_ERR_DATA,
             "--profile %s: \"memory_bytes\" is no size; bytes, or text as \"80GB\", was wanted", file);
    ZR_CHECK(!copies || json_is_boolean(copies), ZR_ERR_DATA, "--profile %s: \"link_copies\" is true or false", file);
    ZR_CHECK(!narrow || json_is_boolean(narrow), ZR_ERR_DATA, "--profile %s: \"narrow_attention\" is true or false",
             file);
    ZR_CHECK(!name || json_is_string(name), ZR_ERR_DATA, "--profile %s: \"name\" is text", file);
    machine->link_copies = json_is_true(copies);
    profile->facts.narrow_attention = json_is_true(narrow);
    if (name) snprintf(profile->facts.name, sizeof(profile->facts.name), "%.40s", json_string_value(name));
    return ZR_OK;
}

/** Return the rate `key` of the instruction-set level in use, which is the member "level" of the document. Return 0 if
 * unknown. */
static double level_peak(const json_t *root, const char *key)
{
    const json_t *level = json_object_get(root, "level");
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(root, "levels"), i, one)
    {
        const char *name = json_string_value(json_object_get(one, "level"));
        if (name && json_is_string(level) && strcmp(name, json_string_value(level)) == 0)
            return json_number_value(json_object_get(one, key));
    }
    return 0;
}

/** Read the measured rates of matrix products of one data type. Average the rates of equal sizes, as is done for the
 * stored rates of this machine. */
static zr_status take_products(const json_t *root, zr_dtype dtype, zr_rates *rates)
{
    static const char *const name[] = {"m", "n", "k", "count"};
    const json_t *shapes = json_object_get(root, "shapes"), *shape;
    ZR_AUTO(zr__products_clear)
    zr__products all = {.product = zr_alloc((json_array_size(shapes) + 1) * sizeof(*all.product))};
    ZR_CHECK(all.product, ZR_ERR_MEMORY, "no memory for the rates of %zu products", json_array_size(shapes));
    size_t i;
    json_array_foreach(shapes, i, shape)
    {
        const char *type = json_string_value(json_object_get(shape, "dtype"));
        int64_t number[4];
        bool good = type && strcmp(type, dtype == ZR_BF16 ? "bf16" : "f32") == 0;
        for (int k = 0; k < 4; k++) {
            number[k] = json_integer_value(json_object_get(shape, name[k]));
            good = good && number[k] > 0;
        }
        double rate = json_number_value(json_object_get(shape, "flops_per_sec"));
        if (!good || !(rate > 0)) continue;
        all.product[all.n++] = (zr__product_timing){
            .dtype = dtype, .m = number[0], .n = number[1], .k = number[2], .count = number[3], .flops_per_sec = rate};
    }
    zr__rates_add_products(rates, &all);
    return ZR_OK;
}

static zr_rate alone_and_all(double rate)
{
    return (zr_rate){rate, rate};
}

/** Read the rates of casts to and from records. A file without them gives 0. */
static void take_records(const json_t *root, zr_rates *rates)
{
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(root, "records"), i, one)
    {
        const char *codes = json_string_value(json_object_get(one, "codes"));
        for (int k = 0; codes && k < ZR_RECORD_CODES; k++)
            if (strcmp(codes, zr__record_codes_names[k]) == 0)
                rates->records[k] = (zr_record_rates){
                    .encode = alone_and_all(json_number_value(json_object_get(one, "encode_elems_sec"))),
                    .encode_random = alone_and_all(json_number_value(json_object_get(one, "encode_random_elems_sec"))),
                    .decode = alone_and_all(json_number_value(json_object_get(one, "decode_elems_sec")))};
    }
}

/** Read the rates of a machine from the output of `zr info --bench --json`. A machine that widens bf16 to fp32 has no
 * bf16 rates. */
static zr_status take_bench_rates(const json_t *root, const char *file, zr_profile *profile)
{
    ZR_TRY(take_rates(root, file, bench_keys, BENCH, &profile->machine));
    zr_rates rates = {.threads = 1,
                      .peak = {.fma_f32 = alone_and_all(level_peak(root, "fma_f32_all_flops")),
                               .dot_bf16 = alone_and_all(level_peak(root, "dot_bf16_all_flops"))},
                      .matmul_f32 = json_number_value(json_object_get(root, "matmul_f32_flops")),
                      .matmul_bf16 = json_number_value(json_object_get(root, "matmul_bf16_flops")),
                      .triad = alone_and_all(profile->machine.memory_bytes_sec),
                      .link = alone_and_all(profile->machine.link[ZR_LINK_PROCESS].bytes_sec)};
    ZR_CHECK(rates.peak.fma_f32.all > 0, ZR_ERR_DATA, "--profile %s: it has no rate of its level in \"levels\"", file);
    /* In the rates of a GPU, the member "level" is ZR_CUDA_LEVEL. */
    const char *level = json_string_value(json_object_get(root, "level"));
    profile->facts.own_memory = level && strcmp(level, ZR_CUDA_LEVEL) == 0;
    const bool pairs = level && (strcmp(level, "v4bf16") == 0 || strcmp(level, "v4amx") == 0);
    profile->facts.narrow_attention = profile->facts.own_memory || pairs;
    bool narrow = rates.peak.dot_bf16.all > 0 || rates.matmul_bf16 > 0;
    take_records(root, &rates);
    ZR_TRY(take_products(root, ZR_F32, &rates));
    if (narrow) ZR_TRY(take_products(root, ZR_BF16, &rates));
    zr__rates_profile(&rates, narrow ? ZR_BF16 : ZR_F32, 1, 1, profile);
    const char *processor = json_string_value(json_object_get(root, "processor"));
    if (processor) snprintf(profile->facts.name, sizeof(profile->facts.name), "%.40s", processor);
    return ZR_OK;
}

static zr_status read_profile(const char *path, zr_profile *profile)
{
    ZR_AUTO_FREE char *text = NULL;
    char file[256];
    size_t bytes = 0;
    json_auto_t *root = NULL;
    zr__text_escape(path, file, sizeof(file));
    *profile = (zr_profile){.facts = {.threads = 1}};
    snprintf(profile->facts.name, sizeof(profile->facts.name), "%.40s", file);
    ZR_TRY(zr__json_read(path, &text, &bytes));
    zr_status st = zr__json_parse(text, bytes, file, &root);
    ZR_CHECK(st != ZR_ERR_CONFIG, ZR_ERR_DATA, "--profile: %s", zr_error_message());
    ZR_TRY(st);
    ZR_CHECK(json_is_object(root), ZR_ERR_DATA,
             "--profile %s: an object was wanted, with flops_f32 and memory_bytes_sec", file);
    ZR_TRY(json_object_get(root, "triad_bytes_sec") ? take_bench_rates(root, file, profile)
                                                    : take_own_rates(root, file, profile));
    profile->facts.bf16_products = profile->machine.flops_bf16 > 0;
    return ZR_OK;
}

zr_status cli_profile(const char *name, zr_profile *profile)
{
    zr_cluster cluster;
    if (zr__json_is_file_name(name)) {
        ZR_TRY(read_profile(name, profile));
    } else if (zr_profile_named(name, profile) != ZR_OK) {
        ZR_CHECK(zr_cluster_read(name, &cluster) == ZR_OK, ZR_ERR_ARG, "--profile: %s", zr_error_message());
        cli_cluster_profile(&cluster, profile);
    }
    profile->facts.scratch_bytes = profile->facts.own_memory ? zr_device_cuda_scratch : zr_device_cpu_scratch;
    return ZR_OK;
}

zr_status cli_preset(const char *name)
{
    zr__family_model model;
    ZR_CHECK(zr__family_find_preset(name, &model) == ZR_OK, ZR_ERR_ARG, "--preset: %s", zr_error_message());
    return ZR_OK;
}
