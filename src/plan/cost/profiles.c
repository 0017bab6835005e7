/* Devices by name: the rates of one rank, and facts about its device. This is the only list of devices; clusters are
 * made of them (src/simulate/clusters.c). A GPU has its own memory and multiplies attention in 16 bits. A processor is
 * assumed to run one thread and to pack no operands (panel_bytes 0), so that its kernels need the least scratch. */
#include "base/text/text.h"
#include "plan/cost/cost.h"

#include <stdio.h>
#include <string.h>

/*
 * docs/simulate.md (Devices) has the source of each row. FLOP/s are those of data sheets, for products without sparsity
 * that are summed in fp32. A V100 multiplies fp16 but not bf16; plans in either type are priced as fp16. Memory is what
 * the maker states; MiB are what nvidia-smi or rocm-smi report as the total, and are what a process can use together
 * with its context.
 *
 * The link is NVLink (or Infinity Fabric) to the GPUs of the same host, in one direction; 0 if there is none, so that
 * GPUs communicate over PCI Express. GeForce cards (THROUGH_HOST) do so through the memory of the host, because their
 * drivers give them no access to each other's memory. Bridges between two cards are not counted.
 *
 * The rate between a GPU and its host is that of PCI Express in one direction, half of the data sheet's number for
 * both, or that of NVLink-C2C. Rates of disks are unknown, because data sheets of GPUs do not contain them. The host's
 * memory bandwidth for one GPU is that of all memory channels of a reference host divided by its GPUs, by the data
 * sheets of the host and of its processors; 0 without such a host. DGX-2: two Xeon 8168 with 6 channels of DDR4-2666.
 * DGX-1: two Xeon E5-2698 v4 with 4 of DDR4-2133. DGX A100: two EPYC 7742 with 8 of DDR4-3200. DGX H100 and H200: two
 * Xeon 8480C with 8 of DDR5-4800. DGX B200: two Xeon 8570 with 8 of DDR5-5600. Grace: 512 GB/s. Frontier: EPYC with 8
 * of DDR4-3200.
 *
 * mi250x is one of the two dies of an MI250X, since software sees each as a GPU.
 * zen3   Two cores of an AMD Zen 3 server, measured: 200 GFLOP/s for fp32, no bf16 product, 25 to 32 GB/s of memory.
 *        Ranks share this memory, so bytes from a peer arrive at the rate of memory.
 */
/* columns: name; generation (src/simulate/clusters.c), "" for a processor; FLOP/s in fp32, 16, 8 and 4 bits (0 if there
 * are no such products); memory bytes/s; memory in bytes as stated (0 if unknown), and in MiB as reported; bytes/s of
 * the link; of copies to and from the host; of the host's memory for one GPU (0 if unknown); how messages pass */
#define DEVICE_LIST(X)                                                                                                 \
    X("v100-dgx2", "volta", 15.7e12, 125e12, 0, 0, 900e9, 32000000000, 32510, 150e9, 16e9, 16e9, DIRECT)               \
    X("v100-pcie", "volta", 14e12, 112e12, 0, 0, 900e9, 16000000000, 16160, 0, 16e9, 0, DIRECT)                        \
    X("v100-16gb", "volta", 15.7e12, 125e12, 0, 0, 900e9, 16000000000, 16160, 150e9, 16e9, 17e9, DIRECT)               \
    X("v100-32gb", "volta", 15.7e12, 125e12, 0, 0, 900e9, 32000000000, 32510, 150e9, 16e9, 17e9, DIRECT)               \
    X("a100-40gb", "ampere", 19.5e12, 312e12, 0, 0, 1555e9, 40000000000, 40960, 300e9, 32e9, 51.2e9, DIRECT)           \
    X("a100-80gb", "ampere", 19.5e12, 312e12, 0, 0, 2039e9, 80000000000, 81920, 300e9, 32e9, 51.2e9, DIRECT)           \
    X("h100", "hopper", 67e12, 989e12, 1979e12, 0, 3350e9, 80000000000, 81559, 450e9, 64e9, 76.8e9, DIRECT)            \
    X("h100-96gb", "hopper-500w", 67e12, 989e12, 1979e12, 0, 2400e9, 96000000000, 97871, 450e9, 64e9, 76.8e9, DIRECT)  \
    X("h200", "hopper", 67e12, 989e12, 1979e12, 0, 4800e9, 141000000000, 143771, 450e9, 64e9, 76.8e9, DIRECT)          \
    X("h20", "hopper", 44e12, 148e12, 296e12, 0, 4000e9, 96000000000, 97871, 450e9, 64e9, 76.8e9, DIRECT)              \
    X("gh200", "hopper", 67e12, 989e12, 1979e12, 0, 4000e9, 96000000000, 97871, 0, 450e9, 512e9, DIRECT)               \
    X("b200", "blackwell", 75e12, 2.25e15, 4.5e15, 9e15, 8e12, 180000000000, 183359, 900e9, 64e9, 89.6e9, DIRECT)      \
    X("gb200", "blackwell", 80e12, 2.5e15, 5e15, 10e15, 8e12, 186000000000, 189471, 900e9, 225e9, 256e9, DIRECT)       \
    X("gb300", "blackwell-ultra", 80e12, 2.5e15, 5e15, 15e15, 8e12, 279000000000, 284208, 900e9, 225e9, 256e9, DIRECT) \
    X("a10", "ampere", 31.2e12, 125e12, 0, 0, 600e9, 24000000000, 23028, 0, 32e9, 0, DIRECT)                           \
    X("a6000", "ampere", 38.7e12, 154.8e12, 0, 0, 768e9, 48000000000, 49140, 0, 32e9, 0, DIRECT)                       \
    X("l4", "ampere", 30.3e12, 121e12, 242e12, 0, 300e9, 24000000000, 23034, 0, 32e9, 0, DIRECT)                       \
    X("l40s", "ampere", 91.6e12, 362e12, 733e12, 0, 864e9, 48000000000, 46068, 0, 32e9, 0, DIRECT)                     \
    X("3090", "ampere", 35.6e12, 71e12, 0, 0, 936e9, 24000000000, 24576, 0, 32e9, 0, THROUGH_HOST)                     \
    X("4090", "ampere", 82.6e12, 165.2e12, 330.3e12, 0, 1008e9, 24000000000, 24564, 0, 32e9, 0, THROUGH_HOST)          \
    X("5090", "blackwell", 104.8e12, 209.5e12, 419e12, 1676e12, 1792e9, 32000000000, 32607, 0, 64e9, 0, THROUGH_HOST)  \
    X("mi250x", "hopper", 47.9e12, 191.5e12, 0, 0, 1600e9, 64000000000, 65520, 100e9, 36e9, 25.6e9, DIRECT)            \
    X("mi300x", "hopper", 163.4e12, 1307.4e12, 2614.9e12, 0, 5300e9, 192000000000, 196592, 448e9, 64e9, 0, DIRECT)     \
    X("zen3", "", 200e9, 0, 0, 0, 28e9, 0, 0, 28e9, 0, 0, DIRECT)

/* Further names of devices. */
#define ALIAS_LIST(X) X("v100", "v100-32gb") X("a100", "a100-80gb") X("h100-80gb", "h100")

enum { DIRECT, THROUGH_HOST };
typedef struct device_row {
    const char *name, *generation;
    bool gpu;
    zr_machine machine;
    double link_bytes_sec;
} device_row;

#define DEVICE_ROW(name_, generation_, f32, f16, f8, f4, rate, bytes, mib, link_, host, host_memory, path)             \
    {.name = name_,                                                                                                    \
     .generation = generation_,                                                                                        \
     .gpu = (host) > 0,                                                                                                \
     .machine = {.flops_f32 = f32,                                                                                     \
                 .flops_bf16 = f16,                                                                                    \
                 .flops_fp8 = f8,                                                                                      \
                 .flops_fp4 = f4,                                                                                      \
                 .memory_bytes_sec = rate,                                                                             \
                 .memory_bytes = bytes,                                                                                \
                 .usable_bytes = INT64_C(mib) << 20,                                                                   \
                 .through_host = (path) == THROUGH_HOST,                                                               \
                 .host_bytes_sec = host,                                                                               \
                 .host_memory_bytes_sec = host_memory},                                                                \
     .link_bytes_sec = link_},
#define DEVICE_NAME(name, ...) name,
#define ALIAS_NAME(name, ...) name,

static const device_row rows[] = {DEVICE_LIST(DEVICE_ROW)};
static const char *const names[] = {DEVICE_LIST(DEVICE_NAME) ALIAS_LIST(ALIAS_NAME) NULL};
static const struct {
    const char *name, *device;
} aliases[] = {
#define ALIAS_ROW(name, device) {name, device},
    ALIAS_LIST(ALIAS_ROW)};

const char *const *zr__profile_names(void)
{
    return names;
}

const char *zr__profile_device(const char *name)
{
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(name, aliases[i].name) == 0) return aliases[i].device;
    return name;
}

static const device_row *find_row(const char *name)
{
    const char *device = zr__profile_device(name);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(device, rows[i].name) == 0) return &rows[i];
    return NULL;
}

const char *zr__profile_generation(const char *name)
{
    const device_row *row = find_row(name);
    return row ? row->generation : "";
}

/* A message that passes through the memory of the host crosses PCI Express twice, while the link is also used by a
 * message in the other direction. Measured without access to each other's memory, two RTX 5090 exchange half of what
 * they exchange with it (docs/simulate.md). */
double zr__through_host_rate(const zr_machine *machine, double bytes_sec)
{
    return machine->through_host ? bytes_sec / 2 : bytes_sec;
}

zr_status zr_profile_named(const char *name, zr_profile *profile)
{
    const device_row *row = find_row(name);
    if (row) {
        *profile = (zr_profile){.facts = {.threads = 1,
                                          .own_memory = row->gpu,
                                          .bf16_products = row->machine.flops_bf16 > 0,
                                          .narrow_attention = row->gpu},
                                .machine = row->machine};
        snprintf(profile->facts.name, sizeof(profile->facts.name), "%s", name);
        zr_machine *machine = &profile->machine;
        machine->link[row->gpu ? ZR_LINK_HOST : ZR_LINK_PROCESS].bytes_sec =
            row->link_bytes_sec > 0 ? row->link_bytes_sec : zr__through_host_rate(machine, machine->host_bytes_sec);
        return ZR_OK;
    }
    const char *near = zr__text_nearest(name, names, (int)(sizeof names / sizeof *names) - 1);
    ZR_AUTO(zr__text_clear) zr__text all = {0};
    for (int i = 0; names[i]; i++) zr__text_add(&all, " %s", names[i]);
    return ZR_FAIL(ZR_ERR_NOT_FOUND, "there is no profile \"%s\"; %s%s%sthere are:%s", ZR_SHOWN(name),
                   near ? "did you mean " : "", near ? near : "", near ? "? " : "", all.data ? all.data : "");
}
