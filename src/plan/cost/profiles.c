/* Machine profiles by name: the rates of one rank, and facts about its device. A GPU has its own memory and multiplies
 * attention in 16 bits. A processor is assumed to run one thread and to pack no operands (panel_bytes 0), so that its
 * kernels need the least scratch. */
#include "base/text/text.h"
#include "plan/cost/cost.h"

#include <string.h>

/*
 * The link of a GPU's profile is NVLink within a node, in one direction.
 *
 * The rate between a GPU and its host is the rate of PCI Express in one direction, half of the data sheet's number for
 * both directions. Rates of disks are unknown, because data sheets of GPUs do not contain them. The host's memory
 * bandwidth for one GPU is the bandwidth of all memory channels of a DGX divided by its GPUs, by the data sheets of the
 * DGX and of its processors. DGX-2: two Xeon 8168 with 6 channels of DDR4-2666. DGX A100: two EPYC 7742 with 8 of
 * DDR4-3200. DGX H100 and H200: two Xeon 8480C with 8 of DDR5-4800.
 *
 * v100-dgx2  One of the 16 V100 of a DGX-2: NVIDIA's data sheet of the Tesla V100 SXM3 32 GB (125 TFLOP/s for fp16
 *            tensor products, 15.7 for fp32, 900 GB/s of HBM2 memory), and NVSwitch at 150 GB/s. The memory is 32 GB,
 *            as in the ZeRO paper. PCIe 3.0 at 32 GB/s.
 *            A V100 multiplies fp16 but not bf16; plans in either type are priced as fp16.
 * a100-40gb, a100-80gb
 *            A100 SXM4: NVIDIA's data sheet (312 TFLOP/s for bf16 without sparsity, 19.5 for fp32, 1,555 and 2,039
 *            GB/s of memory), NVLink 3 at 300 GB/s, and PCIe 4.0 at 64 GB/s.
 * h100       H100 SXM5 80 GB: NVIDIA's data sheet (989 TFLOP/s for bf16 without sparsity, 67 for fp32, 3.35 TB/s of
 *            memory), NVLink 4 at 450 GB/s, and PCIe 5.0 at 128 GB/s.
 * h200       H200 SXM: NVIDIA's data sheet. It differs from h100 in its memory: 141 GB at 4.8 TB/s.
 * zen3       Two cores of an AMD Zen 3 server, measured: 200 GFLOP/s for fp32, no bf16 product, 25 to 32 GB/s of
 *            memory. Ranks share this memory, so bytes from a peer arrive at the rate of memory.
 */
/* columns: name, GPU or not, fp32 FLOP/s, 16-bit FLOP/s (0 if the machine has no 16-bit products), memory bytes/s,
 * level of the link, bytes/s of the link, memory bytes (0 if unknown), bytes/s of copies to and from the host, bytes/s
 * of the host's memory for one GPU (both 0 if no GPU) */
#define PROFILE_LIST(X)                                                                                                \
    X("v100-dgx2", true, 15.7e12, 125e12, 900e9, HOST, 150e9, 32000000000, 16e9, 16e9)                                 \
    X("a100-40gb", true, 19.5e12, 312e12, 1555e9, HOST, 300e9, 40000000000, 32e9, 51.2e9)                              \
    X("a100-80gb", true, 19.5e12, 312e12, 2039e9, HOST, 300e9, 80000000000, 32e9, 51.2e9)                              \
    X("h100", true, 67e12, 989e12, 3350e9, HOST, 450e9, 80000000000, 64e9, 76.8e9)                                     \
    X("h200", true, 67e12, 989e12, 4800e9, HOST, 450e9, 141000000000, 64e9, 76.8e9)                                    \
    X("zen3", false, 200e9, 0, 28e9, PROCESS, 28e9, 0, 0, 0)

#define PROFILE_ROW(name_, gpu, f32, bf16, memory, level, rate, bytes, host, host_memory)                              \
    {.facts = {.name = name_, .threads = 1, .own_memory = gpu, .bf16_products = (bf16) > 0, .narrow_attention = gpu},  \
     .machine = {.flops_f32 = f32,                                                                                     \
                 .flops_bf16 = bf16,                                                                                   \
                 .memory_bytes_sec = memory,                                                                           \
                 .memory_bytes = bytes,                                                                                \
                 .host_bytes_sec = host,                                                                               \
                 .host_memory_bytes_sec = host_memory,                                                                 \
                 .link = {[ZR_LINK_##level] = {.bytes_sec = rate}}}},
#define PROFILE_NAME(name, ...) name,
#define PROFILE_TEXT(name, ...) " " name

static const char *const names[] = {PROFILE_LIST(PROFILE_NAME) NULL};

const char *const *zr__profile_names(void)
{
    return names;
}

zr_status zr_profile_named(const char *name, zr_profile *profile)
{
    static const zr_profile profiles[] = {PROFILE_LIST(PROFILE_ROW)};
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++) {
        if (strcmp(name, profiles[i].facts.name) != 0) continue;
        *profile = profiles[i];
        return ZR_OK;
    }
    const char *near = zr__text_nearest(name, names, (int)(sizeof names / sizeof *names) - 1);
    return ZR_FAIL(ZR_ERR_NOT_FOUND, "there is no profile \"%s\"; %s%s%sthere are:%s", name,
                   near ? "did you mean " : "", near ? near : "", near ? "? " : "", PROFILE_LIST(PROFILE_TEXT));
}
