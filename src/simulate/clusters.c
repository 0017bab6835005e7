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
 * hopper-500w, blackwell, blackwell-ultra
 *            The shares are those of hopper, times what is sustained. 8-bit products of cuBLASLt reach 2,973 of 5,000
 *            TFLOP/s on GB200 and 1,382 of 1,979 on H100 (AI-benchmarking-guide, Azure_Results), a ratio of 0.85.
 *            Those of GB300, 0.95, and of H100 limited to 500 W, 0.76, are fitted to runs of Megatron Bridge and of
 *            torchtitan (bench/planner_steps.py).
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
     1,
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
     1,
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
     1,
     FITTED(PRODUCT_SHARE) | FITTED(PRODUCT_HALF) | FITTED(ATTENTION_SHARE)},
    {"hopper-500w",
     "hopper, times a factor fitted to 10 runs of torchtitan on H100 limited to 500 W",
     {[ZR__PRODUCT_SHARE] = 0.64,
      [ZR__PRODUCT_HALF] = 32,
      [ZR__ATTENTION_SHARE] = 0.36,
      [ZR__MEMORY_SHARE] = 0.8,
      [ZR__LINK_SHARE] = 0.7,
      [ZR__NVLINK_SHARE] = 0.8,
      [ZR__NETWORK_SEC] = 1e-5},
     0.76,
     0},
    {"blackwell",
     "hopper, times the ratio of measured products on GB200",
     {[ZR__PRODUCT_SHARE] = 0.64,
      [ZR__PRODUCT_HALF] = 32,
      [ZR__ATTENTION_SHARE] = 0.36,
      [ZR__MEMORY_SHARE] = 0.8,
      [ZR__LINK_SHARE] = 0.7,
      [ZR__NVLINK_SHARE] = 0.8,
      [ZR__NETWORK_SEC] = 1e-5},
     0.85,
     0},
    {"blackwell-ultra",
     "hopper, times a factor fitted to 13 runs of 405B and 70B on GB300",
     {[ZR__PRODUCT_SHARE] = 0.64,
      [ZR__PRODUCT_HALF] = 32,
      [ZR__ATTENTION_SHARE] = 0.36,
      [ZR__MEMORY_SHARE] = 0.8,
      [ZR__LINK_SHARE] = 0.7,
      [ZR__NVLINK_SHARE] = 0.8,
      [ZR__NETWORK_SEC] = 1e-5},
     0.95,
     0}};

const zr__generation *zr__generation_of(const char *device)
{
    const char *name = zr__profile_generation(device);
    for (size_t g = 0; g < sizeof(generations) / sizeof(*generations); g++)
        if (strcmp(generations[g].name, name) == 0) return &generations[g];
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
#define INFINIBAND_XDR 100e9
#define ETHERNET_100G 12.5e9
#define ETHERNET_10G 1.25e9

#define GIB (INT64_C(1) << 30)

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
 * h200x1     One H200 in an unknown host.
 * v100-16gb, v100-32gb
 *            DGX-1, with four EDR adapters.
 * h100-96gb  A host like the DGX H100.
 * hgx-h20x8  HGX H20, in a host like the DGX H100.
 * gh200      One GPU with its Grace processor (NVLink-C2C, 480 GB) and one NDR adapter.
 * gb300-nvl72
 *            As gb200-nvl72, with one adapter of 800 Gb/s per GPU.
 * mi250x     A node of Frontier: 8 dies, joined by Infinity Fabric (a ring through all of them has two links of 50 GB/s
 *            at its narrowest), and four Slingshot adapters of 25 GB/s.
 * a10, l4, l40s
 *            The largest instances of AWS, of 8 GPUs on PCI Express 4.0: g5 (with the A10's sibling A10G) and g6 with
 *            100 Gb/s of network, g6e with 400 Gb/s.
 * a6000, 3090, 4090, 5090
 *            A workstation with four cards, and one port of 10 Gb/s, as its board has. Its memory is unknown.
 */
/* Columns: name; device (of zr_profile_named); number of hosts, negative if it is only a default that may be exceeded;
 * devices per host; link within a host (name, rate); network (name, rate of one
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
    X("h200x1", "h200", 1, 1, "", 0, "", 0, 0, 0, PCIE5_X16, AUTO)                                                     \
    X("v100-16gb", "v100-16gb", -8, 8, "NVLink", 150e9, "InfiniBand", INFINIBAND_EDR, 4 * INFINIBAND_EDR,              \
      512000000000, PCIE3_X16 / 2, RING)                                                                               \
    X("v100-32gb", "v100-32gb", -8, 8, "NVLink", 150e9, "InfiniBand", INFINIBAND_EDR, 4 * INFINIBAND_EDR,              \
      512000000000, PCIE3_X16 / 2, RING)                                                                               \
    X("h100-96gb", "h100-96gb", -8, 8, "NVSwitch", 450e9, "InfiniBand", INFINIBAND_NDR, 8 * INFINIBAND_NDR,            \
      2000000000000, PCIE5_X16, AUTO)                                                                                  \
    X("hgx-h20x8", "h20", -8, 8, "NVSwitch", 450e9, "InfiniBand", INFINIBAND_NDR, 8 * INFINIBAND_NDR, 2000000000000,   \
      PCIE5_X16, AUTO)                                                                                                 \
    X("gh200", "gh200", -8, 1, "", 0, "InfiniBand", INFINIBAND_NDR, INFINIBAND_NDR, 480000000000, 450e9, AUTO)         \
    X("gb300-nvl72", "gb300", -8, 72, "NVSwitch", 900e9, "InfiniBand", INFINIBAND_XDR, 72 * INFINIBAND_XDR,            \
      17000000000000, 225e9, AUTO)                                                                                     \
    X("mi250x", "mi250x", -8, 8, "xGMI", 100e9, "Slingshot", 25e9, 4 * 25e9, 512000000000, 36e9, AUTO)                 \
    X("a10", "a10", -8, 8, "PCIe", PCIE4_X16, "network", ETHERNET_100G, ETHERNET_100G, 768 * GIB, PCIE4_X16, AUTO)     \
    X("l4", "l4", -8, 8, "PCIe", PCIE4_X16, "network", ETHERNET_100G, ETHERNET_100G, 768 * GIB, PCIE4_X16, AUTO)       \
    X("l40s", "l40s", -8, 8, "PCIe", PCIE4_X16, "network", 4 * ETHERNET_100G, 4 * ETHERNET_100G, 1536 * GIB,           \
      PCIE4_X16, AUTO)                                                                                                 \
    X("a6000", "a6000", -8, 4, "PCIe", PCIE4_X16, "Ethernet", ETHERNET_10G, ETHERNET_10G, 0, PCIE4_X16, AUTO)          \
    X("3090", "3090", -8, 4, "PCIe", PCIE4_X16, "Ethernet", ETHERNET_10G, ETHERNET_10G, 0, PCIE4_X16, AUTO)            \
    X("4090", "4090", -8, 4, "PCIe", PCIE4_X16, "Ethernet", ETHERNET_10G, ETHERNET_10G, 0, PCIE4_X16, AUTO)            \
    X("5090", "5090", -8, 4, "PCIe", PCIE5_X16, "Ethernet", ETHERNET_10G, ETHERNET_10G, 0, PCIE5_X16, AUTO)            \
    X("zen3", "zen3", -8, 2, "memory", 28e9, "Ethernet", ETHERNET_10G, ETHERNET_10G, 0, 0, EXCHANGE)

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

static const char *const names[] = {CLUSTER_LIST(CLUSTER_NAME) NULL};

const char *const *zr__cluster_names(void)
{
    return names;
}

zr_status zr__cluster_device(const char *name, zr_machine *device)
{
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
 * have their own links or whose memory is known. The second entry is for a workstation, which has a single device,
 * links its devices by PCI Express, or has devices that exchange through its memory. A server has 16 channels of
 * DDR4-3200 and four NVMe drives, a workstation 4 channels and one drive. */
static const struct {
    double device, memory, disk; /* bytes per second: between the host and a device, of all memory, and of all drives */
    int64_t bytes;               /* bytes of all memory */
} usual_host[2] = {{PCIE4_X16 / 2, 16 * 25.6e9, 8e9, 1000000000000}, {PCIE3_X16, 4 * 25.6e9, 2e9, 256000000000}};

static bool is_workstation(const zr_cluster *cluster)
{
    return cluster->device.through_host ||
           (cluster->host_memory_bytes == 0 && (zr__through_pcie(cluster) || cluster->host_devices == 1));
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
    static const double whole[ZR__REACHED] = {
        [ZR__PRODUCT_SHARE] = 1, [ZR__MEMORY_SHARE] = 1, [ZR__LINK_SHARE] = 1, [ZR__NVLINK_SHARE] = 1};
    const double *value = generation ? generation->value : whole;
    cluster->product_share = value[ZR__PRODUCT_SHARE] * (generation ? generation->sustained : 1);
    cluster->product_half = value[ZR__PRODUCT_HALF];
    cluster->attention_share = value[ZR__ATTENTION_SHARE];
    cluster->memory_share = value[ZR__MEMORY_SHARE];
    cluster->link_share = value[ZR__LINK_SHARE];
    if (cluster->host_devices > 1 && !zr__through_pcie(cluster)) cluster->link[0].share = value[ZR__NVLINK_SHARE];
    if (cluster->devices > cluster->host_devices)
        cluster->link[cluster->n_links - 1].latency_sec = value[ZR__NETWORK_SEC];
}

/* Create a cluster of hosts as in `row`, but with other numbers of hosts and of devices in a host. */
static zr_status build_cluster(const cluster_row *row, const char *name, int32_t hosts, int32_t per_host,
                               bool any_hosts, zr_cluster *cluster)
{
    zr_profile profile;
    ZR_TRY(zr_profile_named(row->device, &profile));
    *cluster = (zr_cluster){.devices = hosts * per_host,
                            .any_hosts = any_hosts,
                            .host_devices = per_host,
                            .processors = !profile.facts.own_memory,
                            .host_memory_bytes = row->host_memory_bytes,
                            .host_bytes_sec = row->host_bytes_sec,
                            .algorithm = row->algorithm};
    ZR_TRY(zr__cluster_device(row->device, &cluster->device));
    snprintf(cluster->name, sizeof(cluster->name), "%s", name);
    if (per_host > 1) {
        cluster->link[cluster->n_links] = row->inside;
        cluster->link[cluster->n_links++].devices = per_host;
    }
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
enum { ROWS = sizeof(rows) / sizeof(*rows) };

static zr_status build_row(const cluster_row *row, zr_cluster *cluster)
{
    return build_cluster(row, row->name, abs(row->hosts), row->per_host, row->hosts < 0, cluster);
}

/* Return the usual host of a device: the first row with this device. NULL if `name` is no device. */
static const cluster_row *usual_row(const char *name)
{
    const char *device = zr__profile_device(name);
    for (int i = 0; i < ROWS; i++)
        if (strcmp(device, rows[i].device) == 0) return &rows[i];
    return NULL;
}

zr_status zr_cluster_of_device(const char *device, zr_cluster *cluster)
{
    const cluster_row *row = usual_row(device);
    ZR_CHECK(row, ZR_ERR_NOT_FOUND, "no known cluster has devices of the name \"%s\"", ZR_SHOWN(device));
    return build_row(row, cluster);
}

/* The largest number of hosts or of devices in a name. */
#define NUMBER_MOST 65536

/* Read the number before an 'x' at the start of `text`. Return the text after the 'x', or NULL if there is no such
 * number. */
static const char *take_number(const char *text, int32_t *number)
{
    char *end = NULL;
    if (*text < '1' || *text > '9') return NULL;
    const long long read = strtoll(text, &end, 10);
    if (*end != 'x' || end[1] == '\0' || read > NUMBER_MOST) return NULL;
    *number = (int32_t)read;
    return end + 1;
}

/* A name in the form [[HOSTSx]DEVICESx]DEVICE. `given`: how many of the two numbers are given. */
typedef struct parsed {
    int32_t hosts, per_host;
    int given;
    const char *device;
} parsed;

static parsed parse_name(const char *name)
{
    parsed p = {.hosts = 1, .device = name};
    int32_t number[2];
    for (const char *rest = name; p.given < 2 && (rest = take_number(rest, &number[p.given])) != NULL; p.given++)
        p.device = rest;
    if (p.given > 0) p.per_host = number[p.given - 1];
    if (p.given > 1) p.hosts = number[0];
    return p;
}

int zr__machine_names(const char *all[ZR__NAMES_MOST])
{
    int n = 0;
    for (const char *const *name = zr__profile_names(); *name; name++) all[n++] = *name;
    const int devices = n;
    for (const char *const *name = names; *name && n < ZR__NAMES_MOST; name++) {
        bool is_device = false;
        for (int i = 0; i < devices; i++) is_device |= strcmp(*name, all[i]) == 0;
        if (!is_device) all[n++] = *name;
    }
    return n;
}

static zr_status fail_unknown(const char *name, const parsed *p)
{
    const char *all[ZR__NAMES_MOST];
    const int n = zr__machine_names(all);
    const char *near = zr__text_nearest(p->device, all, n);
    ZR_AUTO(zr__text_clear) zr__text list = {0};
    for (int i = 0; i < n; i++) zr__text_add(&list, " %s", all[i]);
    return ZR_FAIL(
        ZR_ERR_NOT_FOUND,
        "there is no machine \"%s\"; %s%.*s%s%sthere are:%s; of a GPU also HOSTSxGPUSxNAME or GPUSxNAME, such "
        "as 2x8xh100 or 4x4090; or FILE.json with one of your own",
        ZR_SHOWN(name), near ? "did you mean " : "", near ? (int)(p->device - name) : 0, name, near ? near : "",
        near ? "? " : "", list.data ? list.data : "");
}

/* Maximum number of devices of a host that are linked by PCI Express. */
#define PCIE_MOST 16

zr_status zr__cluster_named(const char *name, zr_cluster *cluster)
{
    for (int i = 0; i < ROWS; i++)
        if (strcmp(name, rows[i].name) == 0) return build_row(&rows[i], cluster);
    const parsed p = parse_name(name);
    const cluster_row *row = usual_row(p.device);
    if (!row) return fail_unknown(name, &p);
    if (p.given == 0) return build_cluster(row, name, abs(row->hosts), row->per_host, true, cluster);
    const int32_t most = strcmp(row->inside.name, "PCIe") == 0 ? PCIE_MOST : row->per_host;
    ZR_CHECK(p.per_host <= most, ZR_ERR_NOT_FOUND,
             "there is no machine \"%s\": a host has at most %d %s; 2x%dx%s is two such hosts", ZR_SHOWN(name), most,
             p.device, most, p.device);
    return build_cluster(row, name, p.hosts, p.per_host, false, cluster);
}

const char *zr__cluster_links(const zr_cluster *cluster, char text[ZR__ASSUMED_BYTES])
{
    const bool inside = cluster->host_devices > 1, network = cluster->devices > cluster->host_devices;
    const zr_cluster_link *first = &cluster->link[0], *last = &cluster->link[cluster->n_links - 1];
    size_t n = (size_t)snprintf(text, ZR__ASSUMED_BYTES, "%s: %d device%s in a host", cluster->name,
                                cluster->host_devices, cluster->host_devices == 1 ? "" : "s");
    if (inside)
        n += (size_t)snprintf(text + n, ZR__ASSUMED_BYTES - n, ", linked by %s with %s/s each%s", first->name,
                              ZR_SIZE(first->bytes_sec),
                              cluster->device.through_host ? " through the memory of the host" : "");
    if (network)
        snprintf(text + n, ZR__ASSUMED_BYTES - n, "; hosts linked by %s with %s/s each", last->name,
                 ZR_SIZE(last->shared_bytes_sec));
    return text;
}
