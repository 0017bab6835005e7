/* Defines clusters by name, with the rates of data sheets. Another table gives the shares of these rates that training
 * runs reach, by generation of devices. */
#include "simulate/simulate.h"
#include "base/text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Shares of data-sheet rates that devices reach, by generation.
 *
 * volta      Fitted on four rows of the ZeRO paper's tables 6 and 7. Each row is a different kind of run: 8B by ZeRO-OS
 *            within nodes, 8B by Megatron within nodes, 40B by Megatron across nodes, and 1.5B by ZeRO-OS on Azure
 *            (marked in bench/papers/data.py). In this least-squares fit of the logarithms, the shares of kernels and
 *            NVLink reach their upper bound, 0.8. PCI Express and the network have one common, lower share. Attention
 *            is priced like products.
 * ampere, hopper
 *            Products and attention are fitted on llm.c's runs and on every second FSDP run of tests/published.csv
 *            (bench/published.py --fit, which takes PyTorch's unfused ops into account). The shares of memory and
 *            NVLink are the shares of volta. The network's numbers were chosen by hand for both generations, with
 *            knowledge of all rows: these runs hardly wait for the network, so they only give bounds.
 */
#define FITTED(reached) (1u << ZR__##reached)
static const zr__generation generations[] = {
    {"volta",
     "fitted on 4 rows of arXiv 1910.02054, tables 6 and 7: 8B of both systems, 40B Megatron, 1.5B ZeRO-OS",
     {[ZR__PRODUCT_SHARE] = 0.8,
      [ZR__PRODUCT_HALF] = 32,
      [ZR__MEMORY_SHARE] = 0.8,
      [ZR__LINK_SHARE] = 0.38,
      [ZR__NVLINK_SHARE] = 0.8,
      [ZR__NETWORK_SEC] = 1.3e-4},
     FITTED(PRODUCT_SHARE) | FITTED(PRODUCT_HALF) | FITTED(MEMORY_SHARE) | FITTED(LINK_SHARE) | FITTED(NVLINK_SHARE) |
         FITTED(NETWORK_SEC)},
    {"ampere",
     "fitted on 25 of the 48 runs of GPT shapes on A100 in tests/published.csv",
     {[ZR__PRODUCT_SHARE] = 0.78,
      [ZR__PRODUCT_HALF] = 64,
      [ZR__ATTENTION_SHARE] = 0.54,
      [ZR__MEMORY_SHARE] = 0.8,
      [ZR__LINK_SHARE] = 0.7,
      [ZR__NVLINK_SHARE] = 0.8,
      [ZR__NETWORK_SEC] = 1e-5},
     FITTED(PRODUCT_SHARE) | FITTED(PRODUCT_HALF) | FITTED(ATTENTION_SHARE)},
    {"hopper",
     "fitted on 13 of the 23 runs of GPT shapes on H100 in tests/published.csv",
     {[ZR__PRODUCT_SHARE] = 0.64,
      [ZR__PRODUCT_HALF] = 32,
      [ZR__ATTENTION_SHARE] = 0.36,
      [ZR__MEMORY_SHARE] = 0.8,
      [ZR__LINK_SHARE] = 0.7,
      [ZR__NVLINK_SHARE] = 0.8,
      [ZR__NETWORK_SEC] = 1e-5},
     FITTED(PRODUCT_SHARE) | FITTED(PRODUCT_HALF) | FITTED(ATTENTION_SHARE)}};

/* Generation of each device. Devices after the line "----" have no fit of their own. They take the values of the
 * nearest generation. */
static const struct {
    const char *device, *generation;
} generation_of[] = {{"v100-dgx2", "volta"},
                     {"v100-pcie", "volta"},
                     {"a100-40gb", "ampere"},
                     {"a100-80gb", "ampere"},
                     {"h100", "hopper"},
                     {"h200", "hopper"},
                     /* ---- */
                     {"b200", "hopper"},
                     {"gb200", "hopper"},
                     {"mi300x", "hopper"},
                     {"4090", "ampere"}};

const zr__generation *zr__generation_of(const char *device)
{
    for (size_t i = 0; i < sizeof(generation_of) / sizeof(*generation_of); i++) {
        if (strcmp(generation_of[i].device, device) != 0) continue;
        for (size_t g = 0; g < sizeof(generations) / sizeof(*generations); g++)
            if (strcmp(generations[g].name, generation_of[i].generation) == 0) return &generations[g];
    }
    return NULL;
}

/* Bytes per second in one direction: bits per second of a lane, times the share of bits that the line code leaves for
 * data, times lanes, divided by 8. */
#define PCIE3_X16 (8e9 * 128 / 130 * 16 / 8)
#define PCIE4_X16 (16e9 * 128 / 130 * 16 / 8)
#define PCIE5_X16 (32e9 * 128 / 130 * 16 / 8)
#define INFINIBAND_FDR (14.0625e9 * 64 / 66 * 4 / 8)
#define INFINIBAND_EDR 12.5e9
#define INFINIBAND_HDR 25e9
#define INFINIBAND_NDR 50e9

#define GIB (INT64_C(1) << 30)

/* Devices without a profile, with the rates of their data sheets. 16-bit rates are for dense products. On the GeForce
 * 4090 they are for products with fp32 accumulation. The host's memory bandwidth for one device is taken from a DGX
 * B200 (two Xeon 8570 with 8 channels of DDR5-5600) or from half a Grace processor (512 GB/s). */
static const struct {
    const char *name;
    zr_machine machine;
} others[] = {
    {"v100-pcie", {.flops_f32 = 14e12, .flops_bf16 = 112e12, .memory_bytes_sec = 900e9, .memory_bytes = 16000000000}},
    {"b200",
     {.flops_f32 = 75e12,
      .flops_bf16 = 2.25e15,
      .memory_bytes_sec = 8e12,
      .memory_bytes = 180000000000,
      .host_memory_bytes_sec = 89.6e9}},
    {"gb200",
     {.flops_f32 = 80e12,
      .flops_bf16 = 2.5e15,
      .memory_bytes_sec = 8e12,
      .memory_bytes = 186000000000,
      .host_memory_bytes_sec = 256e9}},
    {"mi300x",
     {.flops_f32 = 163.4e12, .flops_bf16 = 1307.4e12, .memory_bytes_sec = 5.3e12, .memory_bytes = 192000000000}},
    {"4090", {.flops_f32 = 82.6e12, .flops_bf16 = 165.2e12, .memory_bytes_sec = 1008e9, .memory_bytes = 24000000000}}};

/*
 * Rates of links count one direction, although data sheets add up both directions. A network has two rates: the rate of
 * one adapter, into one device, and the rate of all adapters, into the host. Disk rates are not on these data sheets.
 *
 * dgx2x25    25 DGX-2H, the ZeRO paper's cluster, each with 16 V100 of 32 GB and 1.5 TB of host memory. NVSwitch gives
 *            any two GPUs all six links of 25 GB/s. A host has eight EDR adapters. Two GPUs share an x16 of PCI
 *            Express 3.0 to the host.
 * azure-nc24rs-v3x8
 *            8 virtual machines NC24rs v3 of Azure, the ZeRO paper's small cluster, each with 4 V100 of 16 GB and
 *            448 GiB of host memory. GPUs reach each other and the host over PCI Express 3.0. The one InfiniBand
 *            adapter is FDR, as Azure's documentation of its images says ("N-series VM sizes with FDR InfiniBand
 *            (e.g. NCv3)").
 * dgx1v      One DGX-1 with 8 V100 of 32 GB and 512 GB of host memory. NVLink joins each GPU to four others, two of
 *            them by double links. Rings over all eight GPUs use all six links of each. Two GPUs share an x16 to the
 *            host.
 * dgx-a100x8, dgx-a100x8-40gb
 *            DGX A100: NVLink 3 over NVSwitch, one HDR adapter per GPU, 2 TB of host memory (1 TB with GPUs of
 *            40 GB). Two GPUs share an x16 of PCI Express 4.0.
 * dgx-h100x8 DGX H100: NVLink 4 over NVSwitch, one NDR adapter per GPU, PCI Express 5.0, 2 TB of host memory.
 * hgx-h200x8 HGX H200, in a host like the DGX H200.
 * hgx-b200x8 HGX B200 with NVLink 5, in a host like the DGX B200.
 * gb200-nvl72
 *            Racks of 72 GPUs, each counted as a host: NVLink 5 between all GPUs, one NDR adapter per GPU, 17 TB of
 *            host memory. Two GPUs share the NVLink-C2C of a Grace processor, 900 GB/s in both directions together.
 * mi300x8    AMD's platform of 8 MI300X. Each GPU has seven links of 64 GB/s in each direction to the other GPUs. The
 *            network has the rates of NDR. The host's memory is not on the data sheet.
 * 4x4090     One host of 4 RTX 4090, which have only PCI Express 4.0. The host's memory is unknown.
 * h200x1     One H200 in an unknown host.
 */
/* Columns: name; device (of zr_profile_named, or of the table `others` above); number of hosts, negative if it is only
 * a default that may be exceeded; devices per host; link within a host (name, rate); network (name, rate of one
 * adapter, rate of all adapters of a host); memory of a host; rate between host memory and a device; algorithm of
 * collectives. The algorithm is RING, which NCCL used on the papers' clusters, or AUTO for the faster algorithm. */
#define CLUSTER_LIST(X)                                                                                                \
    X("dgx2x25", "v100-dgx2", 25, 16, "NVSwitch", 150e9, "InfiniBand", INFINIBAND_EDR, 8 * INFINIBAND_EDR,             \
      1500000000000, PCIE3_X16 / 2, RING)                                                                              \
    X("azure-nc24rs-v3x8", "v100-pcie", 8, 4, "PCIe", PCIE3_X16, "InfiniBand", INFINIBAND_FDR, INFINIBAND_FDR,         \
      448 * GIB, PCIE3_X16, RING)                                                                                      \
    X("dgx1v", "v100-dgx2", 1, 8, "NVLink", 150e9, "", 0, 0, 512000000000, PCIE3_X16 / 2, RING)                        \
    X("dgx-a100x8", "a100-80gb", -8, 8, "NVSwitch", 300e9, "InfiniBand", INFINIBAND_HDR, 8 * INFINIBAND_HDR,           \
      2000000000000, PCIE4_X16 / 2, AUTO)                                                                              \
    X("dgx-a100x8-40gb", "a100-40gb", -8, 8, "NVSwitch", 300e9, "InfiniBand", INFINIBAND_HDR, 8 * INFINIBAND_HDR,      \
      1000000000000, PCIE4_X16 / 2, AUTO)                                                                              \
    X("dgx-h100x8", "h100", -8, 8, "NVSwitch", 450e9, "InfiniBand", INFINIBAND_NDR, 8 * INFINIBAND_NDR, 2000000000000, \
      PCIE5_X16, AUTO)                                                                                                 \
    X("hgx-h200x8", "h200", -8, 8, "NVSwitch", 450e9, "InfiniBand", INFINIBAND_NDR, 8 * INFINIBAND_NDR, 2000000000000, \
      PCIE5_X16, AUTO)                                                                                                 \
    X("hgx-b200x8", "b200", -8, 8, "NVSwitch", 900e9, "InfiniBand", INFINIBAND_NDR, 8 * INFINIBAND_NDR, 2000000000000, \
      PCIE5_X16, AUTO)                                                                                                 \
    X("gb200-nvl72", "gb200", -8, 72, "NVSwitch", 900e9, "InfiniBand", INFINIBAND_NDR, 72 * INFINIBAND_NDR,            \
      17000000000000, 225e9, AUTO)                                                                                     \
    X("mi300x8", "mi300x", -8, 8, "xGMI", 448e9, "network", INFINIBAND_NDR, 8 * INFINIBAND_NDR, 0, PCIE5_X16, AUTO)    \
    X("4x4090", "4090", 1, 4, "PCIe", PCIE4_X16, "", 0, 0, 0, PCIE4_X16, AUTO)                                         \
    X("h200x1", "h200", 1, 1, "", 0, "", 0, 0, 0, PCIE5_X16, AUTO)

typedef struct cluster_row {
    const char *name, *device;
    int32_t hosts, per_host;
    zr_cluster_link inside, network;
    int64_t host_memory_bytes;
    double host_bytes_sec;
    zr_algorithm algorithm;
} cluster_row;

#define CLUSTER_ROW(name_, device_, hosts_, per_host_, inside_, inside_rate, network_, rate, all_rate, memory,         \
                    host_rate, algorithm_)                                                                             \
    {.name = name_,                                                                                                    \
     .device = device_,                                                                                                \
     .hosts = hosts_,                                                                                                  \
     .per_host = per_host_,                                                                                            \
     .inside = {.name = inside_, .devices = per_host_, .bytes_sec = inside_rate},                                      \
     .network = {.name = network_, .bytes_sec = rate, .shared_bytes_sec = all_rate},                                   \
     .host_memory_bytes = memory,                                                                                      \
     .host_bytes_sec = host_rate,                                                                                      \
     .algorithm = ZR_ALGORITHM_##algorithm_},
#define CLUSTER_NAME(name, ...) name,
#define CLUSTER_TEXT(name, ...) " " name

static const char *const names[] = {CLUSTER_LIST(CLUSTER_NAME) NULL};

const char *const *zr__cluster_names(void)
{
    return names;
}

zr_status zr__cluster_device(const char *name, zr_machine *device)
{
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        if (strcmp(name, others[i].name) != 0) continue;
        *device = others[i].machine;
        return ZR_OK;
    }
    zr_profile profile;
    ZR_TRY(zr_profile_named(name, &profile));
    *device = profile.machine;
    memset(device->link, 0, sizeof(device->link));
    return ZR_OK;
}

bool zr__through_pcie(const zr_cluster *cluster)
{
    return cluster->n_links > 0 && strcmp(cluster->link[0].name, "PCIe") == 0;
}

/* Rates and memory that are assumed if a cluster does not give them. The first entry is for a server, whose devices
 * have their own links. The second entry is for a workstation, which has a single device or links its devices by PCI
 * Express. A server has 16 channels of DDR4-3200 and four NVMe drives, a workstation 4 channels and one drive. */
static const struct {
    double device, memory, disk; /* bytes per second: between the host and a device, of all memory, and of all drives */
    int64_t bytes;               /* bytes of all memory */
} usual_host[2] = {{PCIE4_X16 / 2, 16 * 25.6e9, 8e9, 1000000000000}, {PCIE3_X16, 4 * 25.6e9, 2e9, 256000000000}};

static bool is_workstation(const zr_cluster *cluster)
{
    return zr__through_pcie(cluster) || cluster->host_devices == 1;
}

int64_t zr__cluster_assume(zr_cluster *cluster)
{
    const bool alone = is_workstation(cluster);
    const int32_t devices = cluster->host_devices > 0 ? cluster->host_devices : 1;
    if (cluster->host_bytes_sec == 0) cluster->host_bytes_sec = usual_host[alone].device;
    if (cluster->device.host_memory_bytes_sec == 0)
        cluster->device.host_memory_bytes_sec = usual_host[alone].memory / devices;
    if (cluster->disk_bytes_sec == 0) cluster->disk_bytes_sec = usual_host[alone].disk;
    return cluster->host_memory_bytes > 0 ? cluster->host_memory_bytes : usual_host[alone].bytes;
}

const char *zr__cluster_assumed(const zr_cluster *cluster, bool disk, char note[ZR__ASSUMED_BYTES])
{
    const bool alone = is_workstation(cluster);
    const double memory = usual_host[alone].memory / (cluster->host_devices > 0 ? cluster->host_devices : 1);
    const struct {
        bool assumed;
        const char *key;
        double usual;
        const char *unit;
    } value[] = {{cluster->host_bytes_sec == 0, "host.device_bytes_per_sec", usual_host[alone].device, "/s"},
                 {cluster->device.host_memory_bytes_sec == 0, "host.memory_bytes_per_sec", memory, "/s"},
                 {disk && cluster->disk_bytes_sec == 0, "host.disk_bytes_per_sec", usual_host[alone].disk, "/s"},
                 {cluster->host_memory_bytes == 0, "host.memory_bytes", (double)usual_host[alone].bytes, ""}};
    size_t length = 0;
    note[0] = '\0';
    for (size_t i = 0; i < sizeof(value) / sizeof(*value); i++) {
        if (!value[i].assumed || length >= ZR__ASSUMED_BYTES) continue;
        const int n = snprintf(note + length, ZR__ASSUMED_BYTES - length, "%s%s %s%s", length ? ", " : "", value[i].key,
                               ZR_SIZE(value[i].usual), value[i].unit);
        length += n > 0 ? (size_t)n : 0;
    }
    if (length > 0 && length < ZR__ASSUMED_BYTES)
        snprintf(note + length, ZR__ASSUMED_BYTES - length, " (%s gives none; usual for a %s)", cluster->name,
                 alone ? "workstation" : "server");
    return note;
}

static void set_shares(const zr__generation *generation, zr_cluster *cluster)
{
    const double *value = generation->value;
    cluster->product_share = value[ZR__PRODUCT_SHARE];
    cluster->product_half = value[ZR__PRODUCT_HALF];
    cluster->attention_share = value[ZR__ATTENTION_SHARE];
    cluster->memory_share = value[ZR__MEMORY_SHARE];
    cluster->link_share = value[ZR__LINK_SHARE];
    if (cluster->host_devices > 1 && !zr__through_pcie(cluster)) cluster->link[0].share = value[ZR__NVLINK_SHARE];
    if (cluster->devices > cluster->host_devices)
        cluster->link[cluster->n_links - 1].latency_sec = value[ZR__NETWORK_SEC];
}

static zr_status build_cluster(const cluster_row *row, zr_cluster *cluster)
{
    zr_machine device;
    const int32_t hosts = abs(row->hosts);
    ZR_TRY(zr__cluster_device(row->device, &device));
    *cluster = (zr_cluster){.device = device,
                            .devices = hosts * row->per_host,
                            .any_hosts = row->hosts < 0,
                            .host_devices = row->per_host,
                            .host_memory_bytes = row->host_memory_bytes,
                            .host_bytes_sec = row->host_bytes_sec,
                            .algorithm = row->algorithm};
    snprintf(cluster->name, sizeof(cluster->name), "%s", row->name);
    if (row->per_host > 1) cluster->link[cluster->n_links++] = row->inside;
    if (hosts > 1) cluster->link[cluster->n_links++] = row->network;
    if (cluster->n_links > 0) cluster->link[cluster->n_links - 1].devices = cluster->devices;
    set_shares(zr__generation_of(row->device), cluster);
    return ZR_OK;
}

void zr__cluster_widen(zr_cluster *cluster, int32_t devices)
{
    const int32_t host = cluster->host_devices, hosts = devices / host + (devices % host > 0);
    if (devices <= cluster->devices || cluster->n_links == 0 || hosts > INT32_MAX / host) return;
    zr_cluster_link *last = &cluster->link[cluster->n_links - 1];
    if (last->devices > host) cluster->devices = last->devices = hosts * host;
}

static const cluster_row rows[] = {CLUSTER_LIST(CLUSTER_ROW)};

zr_status zr_cluster_of_device(const char *device, zr_cluster *cluster)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (strcmp(device, rows[i].device) == 0) return build_cluster(&rows[i], cluster);
    return ZR_FAIL(ZR_ERR_NOT_FOUND, "no known cluster has devices of the name \"%s\"", device);
}

zr_status zr__cluster_named(const char *name, zr_cluster *cluster)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (strcmp(name, rows[i].name) == 0) return build_cluster(&rows[i], cluster);
    const char *near = zr__text_nearest(name, names, (int)(sizeof(names) / sizeof(*names)) - 1);
    return ZR_FAIL(ZR_ERR_NOT_FOUND,
                   "there is no cluster \"%s\"; %s%s%sthere are:%s; or FILE.json with one of your own", ZR_SHOWN(name),
                   near ? "did you mean " : "", near ? near : "", near ? "? " : "", CLUSTER_LIST(CLUSTER_TEXT));
}
