//TEST timeout=60
/* Clusters by name and from files: the keys that are read, the refusals with their places, and randomly damaged
 * files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/json/json.h"
#include "support/mutate_bytes.h"
#include "simulate/simulate.h"
#include "support/tempdir.h"

enum { ROUNDS = 1000, ROOM = 4096 };

static void write_bytes(const char *name, const void *bytes, size_t n)
{
    (void)remove(in_tempdir(name)); /* replacing a file's bytes would make some file systems write them out at once */
    FILE *file = fopen(in_tempdir(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static void write_text(const char *name, const char *text)
{
    write_bytes(name, text, strlen(text));
}

static void make_folder(const char *name)
{
    (void)mkdir(in_tempdir(name), 0700); /* an earlier test may have made it */
}

static zr_cluster read_good(const char *name)
{
    zr_cluster c;
    if (zr_cluster_read(name, &c) != ZR_OK) fail_msg("%s: %s", name, zr_error_message());
    return c;
}

static zr_cluster read_text(const char *text)
{
    write_text("good.json", text);
    return read_good(in_tempdir("good.json"));
}

/* Return the message of the refusal, without the test's folder. */
static const char *refusal(const char *name, zr_status wanted)
{
    zr_cluster c, before;
    memset(&c, 0x5a, sizeof(c));
    before = c;
    const char *path = in_tempdir(name);
    zr_status st = zr_cluster_read(path, &c);
    if (st != wanted) fail_msg("%s: status %d (%s), wanted %d", name, st, zr_error_message(), wanted);
    assert_memory_equal(&c, &before, sizeof(c)); /* untouched */
    const char *message = zr_error_message(), *at = strstr(message, path);
    return at == message ? message + strlen(tempdir) + 1 : message;
}

static void check_says(const char *text, const char *message, const char *wanted)
{
    if (!strstr(message, wanted)) fail_msg("%s\n  says: %s\n  wanted: %s", text, message, wanted);
}

/* Check the properties that every cluster has. */
static void check_whole(const zr_cluster *c)
{
    assert_true(c->name[0] && memchr(c->name, 0, sizeof(c->name)));
    assert_true(c->devices >= 1 && c->n_links >= 0 && c->n_links <= ZR_CLUSTER_LINKS);
    assert_true(c->device.flops_f32 > 0 && c->device.memory_bytes_sec > 0);
    assert_true(c->device.memory_bytes > 0 || c->processors);
    assert_true(isfinite(c->device.flops_f32) && isfinite(c->device.memory_bytes_sec));
    assert_int_equal(c->n_links == 0, c->devices == 1);
    for (int i = 0; i < c->n_links; i++) {
        const zr_cluster_link *link = &c->link[i];
        int32_t below = i ? link[-1].devices : 1;
        assert_true(link->devices > below && link->devices % below == 0);
        assert_true(isfinite(link->bytes_sec) && link->bytes_sec > 0 && link->shared_bytes_sec >= 0);
        assert_true(link->latency_sec >= 0 && link->name[0] && memchr(link->name, 0, sizeof(link->name)));
    }
    if (c->n_links) assert_int_equal(c->link[c->n_links - 1].devices, c->devices);
    assert_true(c->host_devices >= 1 && c->devices % c->host_devices == 0);
    assert_true(c->product_share > 0 && c->product_share <= 1 && c->memory_share > 0 && c->memory_share <= 1);
    assert_true(c->link_share > 0 && c->link_share <= 1 && c->product_half >= 0);
    assert_true(c->launch_sec >= 0 && c->step_sec >= 0 && c->host_bytes_sec >= 0 && c->disk_bytes_sec >= 0);
    assert_true(c->algorithm >= ZR_ALGORITHM_AUTO && c->algorithm <= ZR_ALGORITHM_EXCHANGE);
}

/* ---- by name ---------------------------------------------------------------------------------- */

static void names_are_clusters(void **state)
{
    (void)state;
    int n = 0;
    for (const char *const *name = zr__cluster_names(); *name; name++, n++) {
        zr_cluster c = read_good(*name);
        check_whole(&c);
        assert_string_equal(c.name, *name);
        for (int level = 0; level < ZR_LINK_LEVELS; level++) assert_true(c.device.link[level].bytes_sec == 0);
    }
    assert_int_equal(n, 26);
}

/* Check the clusters of the paper's table 3, and the DGX-2's data sheet. */
static void papers_clusters(void **state)
{
    (void)state;
    zr_cluster c = read_good("dgx2x25");
    assert_int_equal(c.devices, 400);
    assert_int_equal(c.host_devices, 16);
    assert_int_equal(c.device.memory_bytes, 32000000000);
    assert_int_equal(c.n_links, 2);
    assert_int_equal(c.link[0].devices, 16);
    assert_true(c.link[0].bytes_sec == 150e9);
    assert_true(c.link[1].shared_bytes_sec == 100e9 && c.link[1].bytes_sec == 12.5e9);
    assert_true(c.device.flops_bf16 == 125e12);
    c = read_good("azure-nc24rs-v3x8");
    assert_int_equal(c.devices, 32);
    assert_int_equal(c.host_devices, 4);
    assert_int_equal(c.device.memory_bytes, 16000000000);
    assert_true(c.link[0].bytes_sec > 15.7e9 && c.link[0].bytes_sec < 15.8e9);
    assert_true(c.link[1].shared_bytes_sec > 6.8e9 && c.link[1].shared_bytes_sec < 6.9e9);
    c = read_good("dgx1v");
    assert_int_equal(c.devices, 8);
    assert_int_equal(c.n_links, 1);
    c = read_good("h200x1");
    assert_int_equal(c.n_links, 0);
    assert_int_equal(c.host_devices, 1);
}

/* Check that a cluster of any number of hosts grows to the ranks asked for, by whole hosts, and never shrinks; other
 * clusters stay. */
static void hosts_as_asked(void **state)
{
    (void)state;
    zr_cluster c = read_good("dgx-h100x8");
    assert_true(c.any_hosts && c.devices == 64);
    zr__cluster_widen(&c, 1001);
    assert_true(c.devices == 1008 && c.link[1].devices == 1008 && c.link[0].devices == 8);
    zr__cluster_widen(&c, 16);
    assert_int_equal(c.devices, 1008);
    zr__cluster_widen(&c, INT32_MAX);
    assert_int_equal(c.devices, 1008);
    c = read_good("4x4090");
    zr__cluster_widen(&c, 8);
    assert_true(!c.any_hosts && c.devices == 4);
    assert_false(read_good("dgx2x25").any_hosts);
}

/* Check that every name in the list is a cluster, as it is, with a number of devices, and with a number of hosts, if it
 * is the name of a device. */
static void listed_names(void **state)
{
    (void)state;
    const char *all[ZR__NAMES_MOST];
    const int n = zr__machine_names(all);
    char name[64];
    int devices = 0;
    for (int i = 0; i < n; i++) {
        zr_cluster c = read_good(all[i]), usual;
        check_whole(&c);
        for (int k = 0; k < i; k++) assert_string_not_equal(all[i], all[k]);
        if (zr_cluster_of_device(all[i], &usual) != ZR_OK) continue;
        devices++;
        assert_true(c.any_hosts && c.host_devices == usual.host_devices);
        snprintf(name, sizeof(name), "3x%dx%s", usual.host_devices, all[i]);
        c = read_good(name);
        check_whole(&c);
        assert_string_equal(c.name, name);
        assert_true(!c.any_hosts && c.devices == 3 * usual.host_devices && c.host_devices == usual.host_devices);
        snprintf(name, sizeof(name), "1x%s", all[i]);
        c = read_good(name);
        assert_true(c.devices == 1 && c.n_links == 0);
    }
    assert_true(devices >= 25 && n > devices);
    assert_true(read_good("a100").device.memory_bytes == read_good("dgx-a100x8").device.memory_bytes);
}

/* Check that numbers of hosts and devices make the same cluster as the named one with as many devices. */
static void numbers_of_devices(void **state)
{
    (void)state;
    zr_cluster named = read_text("{\"include\": \"dgx-h100x8\", \"devices\": 16}"), c = read_good("2x8xh100");
    memset(named.name, 0, sizeof(named.name));
    memset(c.name, 0, sizeof(c.name));
    assert_memory_equal(&named, &c, sizeof(c));
    c = read_good("4x4090");
    assert_true(c.devices == 4 && c.n_links == 1 && c.device.through_host);
    c = read_good("8xmi300x");
    assert_true(c.devices == 8 && !c.device.through_host && c.link[0].bytes_sec == 448e9);
    static const struct {
        const char *name, *says;
    } bad[] = {{"2x8xh10", "did you mean 2x8xh100? there are: "},
               {"16xh100", "a host has at most 8 h100; 2x8xh100 is two such hosts"},
               {"0x8xh100", "there is no machine \"0x8xh100\""},
               {"2x2x2xh100", "there is no machine \"2x2x2xh100\""},
               {"4x", "there is no machine \"4x\""},
               {"4x4x", "there is no machine \"4x4x\""},
               {"2xdgx-h100x8", "there is no machine \"2xdgx-h100x8\""},
               {"65537x8xh100", "there is no machine \"65537x8xh100\""},
               {"99999999999999999999xh100", "there is no machine \"99999999999999999999xh100\""}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(zr_cluster_read(bad[i].name, &c), ZR_ERR_NOT_FOUND);
        check_says(bad[i].name, zr_error_message(), bad[i].says);
    }
}

static void unknown_names(void **state)
{
    (void)state;
    zr_cluster c;
    assert_int_equal(zr_cluster_read("dgx2x52", &c), ZR_ERR_NOT_FOUND);
    check_says("dgx2x52", zr_error_message(),
               "there is no machine \"dgx2x52\"; did you mean dgx2x25? there are: v100-dgx2 ");
    assert_int_equal(zr_cluster_read("this", &c), ZR_ERR_NOT_FOUND);
    check_says("this", zr_error_message(), "there is no machine \"this\"; there are: ");
    assert_int_equal(zr_cluster_read("", &c), ZR_ERR_NOT_FOUND);
}

/* Check that every cluster has the fitted numbers of its device's generation, and no other fitted numbers. */
static void fitted_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *cluster, *device, *generation;
    } all[] = {{"dgx2x25", "v100-dgx2", "volta"},
               {"azure-nc24rs-v3x8", "v100-pcie", "volta"},
               {"dgx1v", "v100-dgx2", "volta"},
               {"dgx-a100x8", "a100-80gb", "ampere"},
               {"dgx-a100x8-40gb", "a100-40gb", "ampere"},
               {"dgx-h100x8", "h100", "hopper"},
               {"hgx-h200x8", "h200", "hopper"},
               {"hgx-b200x8", "b200", "blackwell"},
               {"gb200-nvl72", "gb200", "blackwell"},
               {"mi300x8", "mi300x", "hopper"},
               {"h200x1", "h200", "hopper"},
               {"v100-16gb", "v100-16gb", "volta"},
               {"v100-32gb", "v100-32gb", "volta"},
               {"h100-96gb", "h100-96gb", "hopper-500w"},
               {"hgx-h20x8", "h20", "hopper"},
               {"gh200", "gh200", "hopper"},
               {"gb300-nvl72", "gb300", "blackwell-ultra"},
               {"mi250x", "mi250x", "hopper"},
               {"a10", "a10", "ampere"},
               {"l4", "l4", "ampere"},
               {"l40s", "l40s", "ampere"},
               {"a6000", "a6000", "ampere"},
               {"3090", "3090", "ampere"},
               {"4090", "4090", "ampere"},
               {"5090", "5090", "blackwell"},
               {"zen3", "zen3", NULL}};
    int n = 0;
    for (const char *const *name = zr__cluster_names(); *name; name++, n++) {
        assert_true(n < (int)(sizeof(all) / sizeof(*all)));
        assert_string_equal(all[n].cluster, *name);
        const zr__generation *generation = zr__generation_of(all[n].device);
        assert_true((generation != NULL) == (all[n].generation != NULL));
        if (!generation) continue;
        assert_string_equal(generation->name, all[n].generation);
        const double *value = generation->value;
        zr_cluster c = read_good(*name);
        const bool network = c.devices > c.host_devices;
        const bool direct = c.host_devices > 1 && strcmp(c.link[0].name, "PCIe") != 0;
        assert_true(c.product_share == value[ZR__PRODUCT_SHARE] * generation->sustained);
        assert_true(c.product_half == value[ZR__PRODUCT_HALF]);
        assert_true(c.attention_share == value[ZR__ATTENTION_SHARE] && c.memory_share == value[ZR__MEMORY_SHARE]);
        assert_true(c.link_share == value[ZR__LINK_SHARE]);
        if (direct) assert_true(c.link[0].share == value[ZR__NVLINK_SHARE]);
        if (network) assert_true(c.link[c.n_links - 1].latency_sec == value[ZR__NETWORK_SEC]);
        assert_true(c.launch_sec == 0 && c.step_sec == 0);
        for (int i = direct; i < c.n_links; i++) assert_true(c.link[i].share == 0);
        for (int i = 0; i < c.n_links - network; i++) assert_true(c.link[i].latency_sec == 0);
    }
    assert_int_equal(n, sizeof(all) / sizeof(*all));
    assert_null(zr__generation_of("zen3"));
}

/* Check that at most six numbers are fitted for the papers' GPUs and at most three for a newer generation, and that
 * newer generations have the other fitted numbers in common. */
static void fitted_few(void **state)
{
    (void)state;
    const zr__generation *volta = zr__generation_of("v100-dgx2"), *ampere = zr__generation_of("a100-80gb"),
                         *hopper = zr__generation_of("h100");
    const zr__generation *all[] = {volta, ampere, hopper};
    for (int g = 0; g < 3; g++) {
        int fitted = 0;
        for (int i = 0; i < ZR__REACHED; i++) {
            const double value = all[g]->value[i];
            fitted += (int)(all[g]->fitted >> i & 1);
            assert_true(isfinite(value) && (value > 0 || (g == 0 && i == ZR__ATTENTION_SHARE)));
            if (g > 0 && !(all[g]->fitted >> i & 1)) assert_true(value == ampere->value[i]);
        }
        assert_true(all[g]->source[0] && fitted <= (g == 0 ? 6 : 3));
    }
}

/* ---- from a file ------------------------------------------------------------------------------ */

#define DEVICE "\"device\": {\"memory_bytes\": \"32GB\", \"flops_f32_per_sec\": 1e13, \"memory_bytes_per_sec\": 9e11}"

static const char every_key[] =
    "{\"name\": \"mine\", \"devices\": 64,\n"
    " \"device\": {\"memory_bytes\": \"32GB\", \"flops_f32_per_sec\": 1.5e13, \"flops_bf16_per_sec\": 1.2e14,\n"
    "   \"memory_bytes_per_sec\": 9e11, \"flops_fp8_per_sec\": 2e14, \"flops_fp4_per_sec\": 4e14, \"through_host\": "
    "true,\n"
    "   \"usable_bytes\": 33000000000, \"launch_sec\": 4e-6, \"product_share\": 0.5, \"product_half_size\": 128,\n"
    "   \"attention_share\": 0.25, \"memory_share\": 0.75},\n"
    " \"host\": {\"devices\": 8, \"memory_bytes\": 1500000000000, \"device_bytes_per_sec\": 12e9,\n"
    "   \"disk_bytes_per_sec\": 3e9},\n"
    " \"links\": [{\"name\": \"NVLink\", \"devices\": 8, \"bytes_per_sec\": 150e9, \"latency_sec\": 1e-6,\n"
    "   \"share\": 0.95},\n"
    "   {\"name\": \"rack\", \"devices\": 32, \"bytes_per_sec\": 25e9},\n"
    "   {\"name\": \"spine\", \"devices\": 64, \"bytes_per_sec\": 12.5e9, \"shared_bytes_per_sec\": 50e9}],\n"
    " \"software\": {\"scores_bytes\": 25, \"product_multiple\": 8, \"copies_hold\": true, "
    "\"exchanges_beside\": true,\n"
    "   \"product_bits\": 8, \"context_ranks\": 2, \"reduce_factor\": 2, \"gather_factor\": 3, \"tensor_factor\": "
    "0.5,\n"
    "   \"pass_factor\": 4, \"update_factor\": 5, \"cast_factor\": 6},\n"
    " \"link_share\": 0.9, \"collective_sec\": 1e-5, \"collectives\": \"tree\"}\n";

static void every_key_is_read(void **state)
{
    (void)state;
    zr_cluster c = read_text(every_key);
    check_whole(&c);
    assert_string_equal(c.name, "mine");
    assert_int_equal(c.devices, 64);
    assert_int_equal(c.device.memory_bytes, 32000000000);
    assert_true(c.device.flops_f32 == 1.5e13 && c.device.flops_bf16 == 1.2e14 && c.device.memory_bytes_sec == 9e11);
    assert_true(c.launch_sec == 4e-6 && c.product_share == 0.5 && c.product_half == 128 && c.memory_share == 0.75);
    assert_true(c.attention_share == 0.25 && c.scores_bytes == 25 && c.product_multiple == 8);
    assert_true(c.copies_hold && c.exchanges_beside);
    assert_true(c.device.flops_fp8 == 2e14 && c.device.flops_fp4 == 4e14 && c.device.through_host);
    assert_true(c.device.usable_bytes == 33000000000 && c.product_bits == 8 && c.context_ranks == 2);
    assert_true(c.reduce_factor == 2 && c.gather_factor == 3 && c.tensor_factor == 0.5);
    assert_true(c.pass_factor == 4 && c.update_factor == 5 && c.cast_factor == 6);
    assert_int_equal(c.host_devices, 8); /* instead of the default, 32 */
    assert_int_equal(c.host_memory_bytes, 1500000000000);
    assert_true(c.host_bytes_sec == 12e9 && c.disk_bytes_sec == 3e9);
    assert_int_equal(c.n_links, 3);
    assert_string_equal(c.link[0].name, "NVLink");
    assert_true(c.link[0].devices == 8 && c.link[0].bytes_sec == 150e9 && c.link[0].latency_sec == 1e-6);
    assert_true(c.link[1].devices == 32 && c.link[1].bytes_sec == 25e9 && c.link[1].shared_bytes_sec == 0);
    assert_true(c.link[2].devices == 64 && c.link[2].shared_bytes_sec == 50e9);
    assert_true(c.link[0].share == 0.95 && c.link[1].share == 0);
    assert_true(c.link_share == 0.9 && c.step_sec == 1e-5);
    assert_int_equal(c.algorithm, ZR_ALGORITHM_TREE);
}

static void defaults(void **state)
{
    (void)state;
    zr_cluster c = read_text("{" DEVICE "}");
    check_whole(&c);
    assert_string_equal(c.name, "good");
    assert_int_equal(c.devices, 1);
    assert_true(c.product_share == 1 && c.memory_share == 1 && c.link_share == 1);
    assert_true(c.product_half == 0 && c.attention_share == 0 && c.launch_sec == 0 && c.step_sec == 0);
    assert_int_equal(c.algorithm, ZR_ALGORITHM_AUTO);
    c = read_text("{" DEVICE ", \"links\": [{\"devices\": 4, \"bytes_per_sec\": 1e9}]}");
    assert_true(c.devices == 4 && c.host_devices == 4);
    assert_string_equal(c.link[0].name, "links[0]");
    c = read_text("\xef\xbb\xbf{" DEVICE ", \"links\": [{\"devices\": 4, \"bytes_per_sec\": 1e9},"
                  "{\"devices\": 8, \"bytes_per_sec\": 1e9}, {\"devices\": 64, \"bytes_per_sec\": 1e9}]}");
    assert_true(c.devices == 64 && c.host_devices == 8);
}

static void device_by_name(void **state)
{
    (void)state;
    zr_profile h100;
    assert_int_equal(zr_profile_named("h100", &h100), ZR_OK);
    zr_cluster c = read_text("{\"device\": \"h100\"}");
    assert_true(c.device.flops_bf16 == h100.machine.flops_bf16 && c.device.flops_f32 == h100.machine.flops_f32);
    assert_int_equal(c.device.memory_bytes, h100.machine.memory_bytes);
    assert_true(c.device.link[ZR_LINK_HOST].bytes_sec == 0);
}

/* Check that a device that zr knows brings the shares that its generation reaches, and that numbers in files override
 * them. */
static void device_brings_shares(void **state)
{
    (void)state;
    const double *value = zr__generation_of("h100")->value;
    const char *links = "\"links\": [{\"devices\": 4, \"bytes_per_sec\": 1e9}, "
                        "{\"devices\": 8, \"bytes_per_sec\": 1e9}]";
    char text[512];
    snprintf(text, sizeof(text), "{\"device\": \"h100\", %s}", links);
    zr_cluster c = read_text(text);
    assert_true(c.product_share == value[ZR__PRODUCT_SHARE] && c.product_half == value[ZR__PRODUCT_HALF]);
    assert_true(c.attention_share == value[ZR__ATTENTION_SHARE] && c.memory_share == value[ZR__MEMORY_SHARE]);
    assert_true(c.link_share == value[ZR__LINK_SHARE] && c.link[0].share == value[ZR__NVLINK_SHARE]);
    assert_true(c.link[0].latency_sec == 0 && c.link[1].share == 0);
    assert_true(c.link[1].latency_sec == value[ZR__NETWORK_SEC]);
    write_text("h100.json", text);
    c = read_text("{\"include\": \"h100.json\", \"device\": {\"product_share\": 0.5}, \"link_share\": 0.6}");
    assert_true(c.product_share == 0.5 && c.product_half == value[ZR__PRODUCT_HALF]);
    assert_true(c.link_share == 0.6 && c.link[0].share == 0); /* one share for all links */
    c = read_text("{\"device\": \"h100\", \"links\": [{\"devices\": 4, \"bytes_per_sec\": 1e9, \"share\": 0.9}, "
                  "{\"devices\": 8, \"bytes_per_sec\": 1e9, \"latency_sec\": 0}]}");
    assert_true(c.link[0].share == 0.9 && c.link[1].latency_sec == 0);
    c = read_text("{\"device\": \"h100\", \"links\": [{\"name\": \"PCIe\", \"devices\": 4, \"bytes_per_sec\": 1e9}]}");
    assert_true(c.link[0].share == 0);
    c = read_text("{\"include\": \"dgx2x25\", \"device\": \"h100\"}"); /* the links come from the included cluster */
    assert_true(c.product_share == value[ZR__PRODUCT_SHARE] && c.link_share == 0.38 && c.link[0].share == 0.8);
    assert_true(c.link[1].latency_sec == 1.3e-4);
}

/* Check a level of links wider than a host: racks of 72 GPUs, four to a host. Hosts of one device have a network as
 * their first level. */
static void level_wider_than_a_host(void **state)
{
    (void)state;
    const double *value = zr__generation_of("gb200")->value;
    zr_cluster c = read_text("{\"device\": \"gb200\", \"host\": {\"devices\": 4}, \"links\": ["
                             "{\"devices\": 72, \"bytes_per_sec\": 9e11}, "
                             "{\"devices\": 144, \"bytes_per_sec\": 5e10}]}");
    check_whole(&c);
    assert_true(c.host_devices == 4 && c.n_links == 2 && c.link[0].devices == 72);
    assert_true(c.link[0].share == value[ZR__NVLINK_SHARE] && c.link[0].latency_sec == 0);
    assert_true(c.link[1].share == 0 && c.link[1].latency_sec == value[ZR__NETWORK_SEC]);
    c = read_text("{\"device\": \"h100\", \"host\": {\"devices\": 1}, \"links\": ["
                  "{\"devices\": 8, \"bytes_per_sec\": 5e10}]}");
    assert_true(c.link[0].share == 0 && c.link[0].latency_sec == value[ZR__NETWORK_SEC]);
}

/* Check that a cluster has no more levels of links once all its devices are connected. */
static void fewer_devices(void **state)
{
    (void)state;
    zr_cluster c = read_text("{\"include\": \"dgx2x25\", \"devices\": 64}");
    check_whole(&c);
    assert_true(c.n_links == 2 && c.host_devices == 16 && c.link[1].devices == 64);
    c = read_text("{\"include\": \"dgx2x25\", \"devices\": 4}");
    check_whole(&c);
    assert_true(c.n_links == 1 && c.link[0].devices == 4 && c.host_devices == 4);
    assert_string_equal(c.link[0].name, "NVSwitch");
    c = read_text("{\"include\": \"dgx2x25\", \"devices\": 1}");
    check_whole(&c);
    assert_int_equal(c.n_links, 0);
    /* A cluster of several hosts can grow instead. */
    c = read_text("{\"include\": \"dgx-h100x8\", \"devices\": 512}");
    check_whole(&c);
    assert_true(c.n_links == 2 && c.host_devices == 8 && c.link[1].devices == 512 && !c.any_hosts);
    c = read_text("{\"include\": \"dgx2x25\", \"devices\": 1024}");
    check_whole(&c);
    assert_true(c.n_links == 2 && c.host_devices == 16 && c.link[1].devices == 1024 && c.link[0].devices == 16);
}

/* ---- refusals --------------------------------------------------------------------------------- */

#define LINKS(...) "{" DEVICE ",\n\"links\": [" __VA_ARGS__ "]}"
#define LINK(devices) "{\"devices\": " devices ", \"bytes_per_sec\": 1e9}"

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"[]", "bad.json:1:1: an object"},
        {"{\"devices\": 1,}", "bad.json:1:14: devices: remove the comma before"},
        {"{\"devices\": NaN}", "bad.json:1:13: "},
        {"{\"devices\": 1, \"devices\": 1}", "bad.json:1:"},
        {"{" DEVICE ", \"link_share\": 1e999}", "bad.json:1:"},
        {"{" DEVICE ",\n \"link\": []}", "bad.json:2:2: link: unknown key; did you mean links?"},
        {"{" DEVICE ",\n \"zzzzzzzzz\": 1}", "bad.json:2:2: zzzzzzzzz: unknown key; there are: include, name, "},
        {"{\"device\": {\n\"flops_f32_per_second\": 1}}",
         "bad.json:2:1: device.flops_f32_per_second: unknown key; did you mean flops_f32_per_sec?"},
        {"{\"device\": {\"flops_f32_per_sec\": 0}}", "bad.json:1:13: device.flops_f32_per_sec: is 0; a rate"},
        {"{\"device\": {\"flops_f32_per_sec\": -1}}", "device.flops_f32_per_sec: is -1; a rate"},
        {"{\"device\": {\"flops_f32_per_sec\": \"1e12\"}}", "device.flops_f32_per_sec: is \"1e12\"; a rate"},
        {"{\"device\": {\"flops_f32_per_sec\": null}}", "device.flops_f32_per_sec: is null; a rate"},
        {"{\"device\": {\"flops_f32_per_sec\": 1e300}}", "device.flops_f32_per_sec: is 1e+300; a rate"},
        {"{\"device\": {\"memory_bytes\": 1, \"memory_bytes_per_sec\": 1}}",
         "bad.json:1:2: device.flops_f32_per_sec: is missing; a rate"},
        {"{\"device\": {\"flops_f32_per_sec\": 1, \"memory_bytes\": 1}}", "device.memory_bytes_per_sec: is missing"},
        {"{\"device\": {\"flops_f32_per_sec\": 1, \"memory_bytes_per_sec\": 1}}", "device.memory_bytes: is missing"},
        {"{\"device\": {\"memory_bytes\": 0}}", "device.memory_bytes: is 0; a size"},
        {"{\"device\": {\"memory_bytes\": 1.5}}", "device.memory_bytes: is 1.5; a size"},
        {"{\"device\": {\"memory_bytes\": \"lots\"}}", "device.memory_bytes: is \"lots\"; a size"},
        {"{\"device\": {\"memory_share\": 0}}", "device.memory_share: is 0; a share"},
        {"{\"device\": {\"memory_share\": 1.01}}", "device.memory_share: is 1.01; a share"},
        {"{\"device\": {\"product_share\": -0.5}}", "device.product_share: is -0.5; a share"},
        {"{\"device\": {\"product_half_size\": -1}}", "device.product_half_size: is -1; a size"},
        {"{\"device\": {\"launch_sec\": -1e-6}}", "device.launch_sec: is "},
        {"{\"device\": \"h10\"}", "bad.json:1:2: device: there is no profile \"h10\"; did you mean h100?"},
        {"{\"device\": \"zen3\"}", "device.memory_bytes: is missing"},
        {"{\"device\": 5}", "bad.json:1:2: device: is 5; an object"},
        {"{}", "bad.json:1:1: device.memory_bytes: is missing"},
        {"{" DEVICE ", \"name\": \"\"}", "name: is \"\"; a name was wanted"},
        {"{" DEVICE ", \"name\": 7}", "name: is 7; a name was wanted"},
        {"{" DEVICE ", \"name\": \"123456789 123456789 123456789 123456789 12345678\"}",
         "name: has 48 bytes; at most 47"},
        {"{" DEVICE ", \"devices\": 0}", "devices: is 0; a whole number"},
        {"{" DEVICE ", \"devices\": 1.5}", "devices: is 1.5; a whole number"},
        {"{" DEVICE ", \"devices\": 99999999999}", "devices: is 99999999999; a whole number"},
        {"{" DEVICE ", \"devices\": 2}", "links: is missing; 2 devices need links"},
        {"{" DEVICE ", \"link_share\": 2}", "link_share: is 2; a share"},
        {"{" DEVICE ", \"collective_sec\": 1e9}", "collective_sec: is 1000000000.0; a number of seconds"},
        {"{" DEVICE ", \"collectives\": \"rings\"}", "collectives: is \"rings\"; did you mean ring? auto, ring"},
        {"{" DEVICE ", \"collectives\": 1}", "collectives: is 1; auto, ring"},
        {"{" DEVICE ", \"links\": {}}", "links: is an object; an array"},
        {LINKS("3"), "bad.json:2:11: links[0]: is 3; an object"},
        {LINKS("{}"), "bad.json:2:11: links[0].devices: is missing"},
        {LINKS("{\"devices\": 2}"), "bad.json:2:11: links[0].bytes_per_sec: is missing; a rate"},
        {LINKS(LINK("2") ",\n {\"devices\": 4, \"bytes_per_sec\": 0}"),
         "bad.json:3:17: links[1].bytes_per_sec: is 0; a rate"},
        {LINKS("{\"devices\": 2, \"bytes_per_sec\": 1, \"shared_bytes_per_sec\": 0}"),
         "links[0].shared_bytes_per_sec: is 0; a rate"},
        {LINKS("{\"devices\": 2, \"bytes_per_sec\": 1, \"latency_sec\": -1}"), "links[0].latency_sec: is -1; "},
        {LINKS("{\"devices\": 2, \"bytes_per_sec\": 1, \"name\": \"\"}"), "links[0].name: is \"\"; a name"},
        {LINKS("{\"devices\": 2, \"bytes_per_s\": 1}"),
         "links[0].bytes_per_s: unknown key; did you mean bytes_per_sec?"},
        {LINKS(LINK("1")), "links[0].devices: is 1; more than the 1 of the level below"},
        {LINKS(LINK("4") "," LINK("4")), "links[1].devices: is 4; more than the 4 of the level below"},
        {LINKS(LINK("4") "," LINK("2")), "links[1].devices: is 2; more than the 4 of the level below"},
        {LINKS(LINK("4") "," LINK("6")), "links[1].devices: is 6; a multiple of the 4 of the level below"},
        {LINKS(LINK("2") "," LINK("4") "," LINK("8") "," LINK("16") "," LINK("32")), "links[4]: there are at most 4"},
        {"{\"devices\": 8, " DEVICE ", \"links\": [" LINK("4") "]}",
         "bad.json:1:2: devices: the last level, links[0], connects 4 of the 8 devices"},
        {"{\"devices\": 6, " DEVICE ", \"links\": [" LINK("4") "," LINK("8") "]}",
         "devices: 6 devices are no multiple of the 4 that links[0] connects"},
        {"{" DEVICE ", \"links\": [" LINK("8") "],\n \"host\": {\"devices\": 3}}",
         "bad.json:2:11: host.devices: is 3; the 8 devices are no multiple"},
        {"{" DEVICE ", \"host\": []}", "host: is []; an object"},
        {"{" DEVICE ", \"host\": {\"device\": 1}}", "host.device: unknown key; did you mean devices?"},
        {"{" DEVICE ", \"host\": {\"device_bytes_per_sec\": 0}}", "host.device_bytes_per_sec: is 0; a rate"},
        {"{\"include\": 1}", "bad.json:1:2: include: is 1; a file or"},
        {"{\"include\": \"\"}", "include: is \"\"; a file or"},
        {"{\"include\": \"dgx2x26\"}", "bad.json:1:2: include: there is no machine \"dgx2x26\"; did you mean dgx2x25?"},
        {"{\"include\": \"dgx2x25\", \"devices\": 401}",
         "bad.json:1:24: devices: 401 devices are no multiple of the 16 that NVSwitch connects"},
        {"{\"include\": \"dgx1v\", \"devices\": 16}",
         "bad.json:1:22: devices: the last level, NVLink, connects 8 of the 16 devices"},
        {"{\"software\": {\"copies_hold\": 1}}", "bad.json:1:15: software.copies_hold: is 1; true or false was wanted"},
        {"{\"software\": {\"scores_bytes\": -1}}", "software.scores_bytes: is -1; a size from 0"},
        {"{\"software\": {\"product\": 8}}", "software.product: unknown key; did you mean product_multiple?"},
        {"{\"include\": \"dgx2x25\",\n \"links\": [" LINK("8") "]}",
         "bad.json:2:2: links: the last level, links[0], connects 8"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        write_text("bad.json", cases[i].text);
        check_says(cases[i].text, refusal("bad.json", ZR_ERR_DATA), cases[i].wanted);
    }
}

static void files_that_are_not_there(void **state)
{
    (void)state;
    check_says("none", refusal("none.json", ZR_ERR_NOT_FOUND), "none.json");
    make_folder("sub");
    check_says("folder", refusal("sub/", ZR_ERR_NOT_FOUND), "sub/: ");
    write_text("bad.json", "");
    check_says("empty", refusal("bad.json", ZR_ERR_DATA), "bad.json:1:1: ");
}

/* ---- include ---------------------------------------------------------------------------------- */

static void include_goes_first(void **state)
{
    (void)state;
    make_folder("sub");
    write_text("base.json", every_key);
    write_text("sub/middle.json",
               "{\"include\": \"../base.json\", \"device\": {\"memory_bytes\": \"16GB\"}, \"devices\": 32,"
               "\"host\": {\"devices\": 4}}");
    zr_cluster c = read_text("{\"include\": \"sub/middle.json\", \"device\": {\"memory_share\": 0.25},\n"
                             " \"links\": [{\"devices\": 32, \"bytes_per_sec\": 7e9}], \"collectives\": \"ring\"}");
    check_whole(&c);
    assert_string_equal(c.name, "good"); /* including a cluster does not take its name */
    assert_int_equal(c.device.memory_bytes, 16000000000);
    assert_true(c.device.flops_f32 == 1.5e13 && c.memory_share == 0.25 && c.product_share == 0.5);
    assert_true(c.devices == 32 && c.host_devices == 4);
    assert_int_equal(c.host_memory_bytes, 1500000000000);
    /* the list of links is replaced */
    assert_true(c.n_links == 1 && c.link[0].bytes_sec == 7e9 && c.link[0].latency_sec == 0);
    assert_int_equal(c.algorithm, ZR_ALGORITHM_RING);
    c = read_text("{\"include\": \"base.json\", \"links\": [], \"devices\": 1}");
    check_whole(&c);
    c = read_text("{\"include\": \"base.json\", \"device\": \"h100\"}");
    assert_true(c.device.flops_bf16 == 989e12 && c.product_share == 0.5);
}

static void included_faults(void **state)
{
    (void)state;
    write_text("base.json", "{" DEVICE ",\n \"devices\": 5, \"link_share\": 7}");
    write_text("bad.json", "{\"include\": \"base.json\"}");
    check_says("inner", refusal("bad.json", ZR_ERR_DATA), "/base.json:2:16: link_share: is 7");
    write_text("base.json", "{" DEVICE ",\n \"devices\": 5}");
    write_text("bad.json", "{\"include\": \"base.json\", \"links\": [" LINK("4") "]}");
    check_says("whose value", refusal("bad.json", ZR_ERR_DATA), "/base.json:2:2: devices: the last level, links[0], ");
    write_text("base.json", "{x}");
    check_says("syntax", refusal("bad.json", ZR_ERR_DATA), "/base.json:1:2: ");
    write_text("bad.json", "{\n \"include\": \"none.json\"}");
    check_says("missing", refusal("bad.json", ZR_ERR_DATA), "bad.json:2:2: include: ");
    check_says("missing", zr_error_message(), "/none.json");
    write_text("bad.json", "{\"include\": \"sub/\"}");
    check_says("folder", refusal("bad.json", ZR_ERR_DATA), "bad.json:1:2: include: ");
}

static void cycles(void **state)
{
    (void)state;
    make_folder("sub");
    write_text("bad.json", "{\"include\": \"./bad.json\"}");
    check_says("itself", refusal("bad.json", ZR_ERR_DATA), "bad.json:1:2: include: files include each other: ");
    write_text("bad.json", "{\"include\": \"a.json\"}");
    write_text("a.json", "{\"include\": \"sub/b.json\"}");
    write_text("sub/b.json", "{\n\"include\": \"../a.json\"}");
    const char *message = refusal("bad.json", ZR_ERR_DATA), *arrow = strstr(message, " -> ");
    check_says("chain", message, "/sub/b.json:2:1: include: files include each other: ");
    assert_non_null(arrow);
    assert_true(strncmp(arrow - strlen("/a.json"), "/a.json", strlen("/a.json")) == 0);
    check_says("chain", arrow, "/sub/b.json -> ");
    assert_true(strlen(message) > 7 && strcmp(message + strlen(message) - 7, "/a.json") == 0);
    assert_null(strstr(message, "bad.json")); /* bad.json is no part of the cycle */
}

static void depth(void **state)
{
    (void)state;
    char name[32], text[256];
    write_text("d0.json", "{" DEVICE "}");
    for (int i = 1; i <= 16; i++) {
        snprintf(name, sizeof(name), "d%d.json", i);
        snprintf(text, sizeof(text), "{\"include\": \"d%d.json\"}", i - 1);
        write_text(name, text);
    }
    zr_cluster c = read_good(in_tempdir("d15.json"));
    check_whole(&c);
    check_says("depth", refusal("d16.json", ZR_ERR_DATA), "/d1.json:1:2: include: files include each other at most 16");
}

/* ---- damage ----------------------------------------------------------------------------------- */

static int good_reads;

static void read_damaged(const uint8_t *bytes, size_t n)
{
    zr_cluster c;
    write_bytes("damaged.json", bytes, n);
    zr_status st = zr_cluster_read(in_tempdir("damaged.json"), &c);
    if (st == ZR_OK) {
        check_whole(&c);
        good_reads++;
        return;
    }
    assert_int_equal(st, ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), ".json:"));
}

static void damaged_files(void **state)
{
    (void)state;
    uint8_t good[ROOM], bytes[ROOM];
    size_t n = strlen(every_key);
    memcpy(good, every_key, n);
    memcpy(bytes, good, n);
    for (size_t i = 0; i < n; i++) {
        read_damaged(good, i);
        for (int bit = 0; bit < 8; bit += 3) {
            bytes[i] = (uint8_t)(good[i] ^ 1 << bit);
            read_damaged(bytes, n);
        }
        bytes[i] = good[i];
    }
    mutator m = mutator_make(21);
    for (int round = 0; round < ROUNDS; round++) {
        memcpy(bytes, good, n);
        read_damaged(bytes, mutate_bytes(&m, bytes, n, sizeof(bytes)));
    }
    assert_true(good_reads > 50); /* in some damaged files only digits or letters changed, which still give a cluster */
}

/* ---- helpers that other readers of files share ------------------------------------------------- */

static void amounts_of_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes; /* -1: refused */
    } cases[] = {{"[0]", 0},
                 {"[5]", 5},
                 {"[8e10]", 80000000000},
                 {"[1.5]", -1},
                 {"[-1]", -1},
                 {"[9007199254740992]", INT64_C(1) << 53},
                 {"[null]", -1},
                 {"[1e300]", -1},
                 {"[9007199254740993]", -1},
                 {"[\"2GiB\"]", 2147483648},
                 {"[\"80GB\"]", 80000000000},
                 {"[\"\"]", -1},
                 {"[[]]", -1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        json_t *root;
        int64_t bytes = -1;
        assert_int_equal(zr__json_parse(cases[i].text, strlen(cases[i].text), "t", &root), ZR_OK);
        bool good = zr__json_bytes(json_array_get(root, 0), &bytes);
        if (good != (cases[i].bytes >= 0) || (good && bytes != cases[i].bytes)) fail_msg("%s", cases[i].text);
        json_decref(root);
    }
    assert_true(zr__json_is_file_name("a.json") && zr__json_is_file_name("./a") && zr__json_is_file_name("/"));
    assert_false(zr__json_is_file_name("a.jsonl") || zr__json_is_file_name(".json") || zr__json_is_file_name(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_are_clusters),
                                       cmocka_unit_test(papers_clusters),
                                       cmocka_unit_test(hosts_as_asked),
                                       cmocka_unit_test(listed_names),
                                       cmocka_unit_test(numbers_of_devices),
                                       cmocka_unit_test(unknown_names),
                                       cmocka_unit_test(fitted_numbers),
                                       cmocka_unit_test(fitted_few),
                                       cmocka_unit_test(device_brings_shares),
                                       cmocka_unit_test(level_wider_than_a_host),
                                       cmocka_unit_test(every_key_is_read),
                                       cmocka_unit_test(defaults),
                                       cmocka_unit_test(device_by_name),
                                       cmocka_unit_test(fewer_devices),
                                       cmocka_unit_test(refused),
                                       cmocka_unit_test(files_that_are_not_there),
                                       cmocka_unit_test(include_goes_first),
                                       cmocka_unit_test(included_faults),
                                       cmocka_unit_test(cycles),
                                       cmocka_unit_test(depth),
                                       cmocka_unit_test(damaged_files),
                                       cmocka_unit_test(amounts_of_bytes)};
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
