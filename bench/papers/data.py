"""The runs and numbers that the papers print, as printed: some rounded, some cut off.

v1 is arXiv 1910.02054 v1 (Rajbhandari et al., ZeRO: Memory Optimization Towards Training A Trillion Parameter Models),
SC20 is the paper of 2020 with the appendix of its artifact. A sample has 1,024 tokens in all runs of both.
"""
import collections

TOKENS, VOCABULARY = 1024, 50257

# system: megatron is stage 0, plain data parallelism and, with M above 1, tensor parallelism; zero-os is the first
# version of stage 1, with all-reduce and one fused buffer; zero-1, -2 and -3 are stages with constant buffers.
# kept: place of activation checkpoints, whole on each rank, in pieces (P_a), or in pieces on the host (P_a+cpu).
# gpus, tensor (M), layers, hidden, heads; batch: samples of a micro-batch.
# paper: the printed number, or 0. mark: its role in the comparison. A number "counts", or zr's constants were "fitted"
# to it (src/simulate/clusters.c); any other mark is the reason why it does not enter the median.
Run = collections.namedtuple("Run", "table label system kept gpus tensor layers hidden heads batch unit paper mark")
STAGE = {"megatron": 0, "zero-os": 1, "zero-1": 1, "zero-2": 2, "zero-3": 3}
STAGE_NAME = ["baseline", "Pos", "Pos+g", "Pos+g+p"]
KEPT_NAME = {"whole": "", "pieces": " Pa", "host": " Pa+cpu"}
UNIT = {"samples": "samples/s", "tflops": "TFLOP/s"}
MARK = {"counts": "", "fitted": "fitted", "same": "same run", "shape": "shape not printed", "none": "not printed",
        "least": "a bound", "oom": "out of memory", "apart": "apart", "untimed": "not timed"}


def runs(text):
    """Return the runs of a text of one run a line."""
    def number(word):
        return int(word) if word.isdigit() else float(word) if word.replace(".", "").isdigit() else word

    lines = [line.split() for line in text.strip().splitlines()]
    return [Run(*(w.replace("_", " ") if i < 4 else number(w) for i, w in enumerate(line))) for line in lines]


# Table 1 gives the model states of 1T parameters on 1,024 GPUs, but no run. So the row "1T" has the shape of
# Megatron-LM's 1T model (Narayanan et al. 2021), and the M of ZeRO's largest runs.
V1 = runs("""
4 1.2B              megatron whole    32   1  40  1536  16  8 tflops      0 none
4 1.5B              megatron whole    32   1  48  1600  16  1 tflops      0 oom
4 4B                zero-os  whole    32   1  64  2304  24 16 tflops      0 none
4 5.9B              zero-os  whole    32   1  72  2592  32  4 tflops      0 none
5 8B                zero-os  whole   400   4  72  3072  24 24 tflops     38 same
5 20B               zero-os  whole   400   4 111  3808  32  8 tflops     27 same
5 40B               zero-os  whole   384   8  88  6144  32  8 tflops     29 same
5 60B               zero-os  whole   384  16 132  6144  32  8 tflops     20 shape
5 80B               zero-os  whole   400  16 112  7680  80  8 tflops     17 shape
5 100B              zero-os  whole   400  16 317  5120  80  4 tflops      7 counts
5 8B                megatron whole   400   8  72  3072  24  8 tflops     23 same
5 20B               megatron whole   400  16 111  3808  32  4 tflops      9 same
5 40B_in_nodes      megatron whole   384  16  88  6144  32  1 tflops      0 oom
5 60B_in_nodes      megatron whole   384  16 132  6144  32  1 tflops      0 oom
5 80B_in_nodes      megatron whole   400  16 112  7680  80  1 tflops      0 oom
5 100B_in_nodes     megatron whole   400  16 317  5120  80  1 tflops      0 oom
5 40B_across_nodes  megatron whole   384  32  88  6144  32  4 tflops   4.92 same
5 60B_across_nodes  megatron whole   384  64 132  6144  64  4 tflops   6.34 shape
5 80B_across_nodes  megatron whole   384 128 100  8192 128  4 tflops   4.03 shape
5 100B_across_nodes megatron whole   384 128 125  8192 128  2 tflops   2.49 shape
6 8B                zero-os  whole   400   4  72  3072  24 24 samples 210.8 fitted
6 8B                megatron whole   400   8  72  3072  24  8 samples 129.2 fitted
6 20B               zero-os  whole   400   4 111  3808  32  8 samples  62.8 counts
6 20B               megatron whole   400  16 111  3808  32  4 samples  21.4 counts
6 40B               zero-os  whole   384   8  88  6144  32  8 samples 31.77 counts
6 40B               megatron whole   384  32  88  6144  32  4 samples  5.38 fitted
7 1.5B              zero-os  whole    32   1  48  1600  16  8 samples  40.2 fitted
7 1.5B              megatron whole    32   4  48  1600  16  8 samples  10.7 counts
8 8B                zero-os  whole   240   4  72  3072  24 24 samples 129.9 counts
8 8B                megatron whole   400   8  72  3072  24  8 samples 129.2 same
8 20B               zero-os  whole   128   4 111  3808  32  8 samples 24.72 counts
8 20B               megatron whole   400  16 111  3808  32  4 samples 21.38 same
1 1T                zero-3   pieces 1024  16 127 25600 160  8 tflops      0 none
""")

# The data-parallel degree N is GPUs / M. The appendix's baseline is stage 0. C1 and C2 are P_os. All other ZeRO runs
# are P_os+g. The appendix does not give the place of checkpoints for all runs. For a ZeRO run without a given place,
# checkpoints are partitioned if M is above 1, and are on the host for 170B.
APPENDIX = runs("""
Fig2         1.5B  zero-2   whole  400   1  48 1600  16 24 tflops  0 none
Fig2         1.5B  megatron whole  400   2  48 1600  16 16 tflops  0 none
Fig2         8B    zero-2   pieces 400   4  72 3072  24 64 tflops  0 none
Fig2         8B    megatron whole  400   8  72 3072  24  8 tflops  0 none
Fig2         20B   zero-2   pieces 400   4  98 4096  32 32 tflops  0 none
Fig2         20B   megatron whole  400  16  98 4096  32  4 tflops  0 none
Fig2         40B   zero-2   pieces 400   4  88 6144  32 12 tflops  0 none
Fig2         40B   megatron whole  384  32  88 6144  64  4 tflops  5 same
Fig2         60B   zero-2   pieces 400  16 132 6144  32 64 tflops  0 none
Fig2         60B   megatron whole  384  64 132 6144  64  4 tflops  0 none
Fig2         80B   zero-2   pieces 400  16 100 8192  64 32 tflops  0 none
Fig2         80B   megatron whole  384 128 100 8192 128  4 tflops  0 none
Fig2         100B  zero-2   pieces 400  16 125 8192  64 32 tflops  0 none
Fig2         100B  megatron whole  384 128 125 8192 128  2 tflops  0 none
Fig2         120B  zero-2   pieces 400  16 150 8192  64 24 tflops  0 none
Fig2         120B  megatron whole  384 128 150 8192 128  2 tflops  0 none
Fig2         140B  zero-2   pieces 400  16 175 8192  64 16 tflops  0 none
Fig2         140B  megatron whole  384 128 175 8192 128  2 tflops  0 none
Fig2         170B  zero-2   host   400  16 212 8192  64 12 tflops  0 none
Fig2         170B  megatron whole  256 256 212 8192 256  2 tflops  0 none
Fig3         60B   zero-2   pieces  64  16  75 8192  32 16 tflops  0 none
Fig3         60B   zero-2   pieces 128  16  75 8192  32 48 tflops  0 none
Fig3         60B   zero-2   pieces 256  16  75 8192  32 48 tflops  0 none
Fig3         60B   zero-2   pieces 400  16  75 8192  32 64 tflops  0 none
MaxModel(C1) 40B   zero-1   whole  400  16  50 8192  32 16 tflops  0 none
MaxModel(C2) 60B   zero-1   pieces 400  16 132 6144  64 16 tflops  0 none
MaxModel(C4) 140B  zero-2   pieces 400  16 175 8192  64 16 tflops  0 none
MaxModel(C5) 150B  zero-2   host   400  16 187 8192  64 16 tflops  0 none
MaxModel(C3) 50B   zero-2   whole  400  16  62 8192  32 16 tflops  0 none
CachedMem    40B   zero-2   pieces 400  16  50 8192  32 16 tflops  0 none
CachedMem    100B  zero-2   pieces 400  16 125 8192  64 32 tflops  0 none
Thrpt(C1)    60B   zero-1   whole  128  16  75 8192  64  2 tflops  0 none
Thrpt(C2)    60B   zero-1   pieces 128  16  75 8192  64  4 tflops  0 none
Thrpt(C4)    60B   zero-2   pieces 128  16  75 8192  64 32 tflops  0 none
Thrpt(C5)    60B   zero-2   host   128  16  75 8192  64 32 tflops  0 none
Thrpt(C3)    60B   zero-2   whole  128  16  75 8192  64  8 tflops  0 none
Thrpt(C5)    170B  zero-2   host   400  16 212 8192  64 12 tflops  0 none
NoMP         1.5B  zero-2   whole  128   1  34 1920  16 24 tflops  0 none
NoMP         2.5B  zero-2   whole  128   1  54 1920  16 24 tflops  0 none
NoMP         4B    zero-2   whole  128   1  64 2304  24 16 tflops  0 none
NoMP         6B    zero-2   whole  128   1  52 3072  24 12 tflops  0 none
NoMP         8B    zero-2   whole  128   1  72 3072  24  8 tflops  0 none
NoMP         10B   zero-2   whole  128   1  50 4096  32  6 tflops  0 none
NoMP         11B   zero-2   whole  128   1  54 4096  32  4 tflops  0 none
NoMP         12B   zero-2   whole  128   1  58 4096  32  4 tflops  0 none
NoMP         13B   zero-2   whole  128   1  62 4096  32  2 tflops 40 least
NoMP         1.16B megatron whole  128   1  24 1920  16  8 tflops  0 none
NoMP         1.38B megatron whole  128   1  40 1536  16  1 tflops  0 none
""")

# table, row, whether the ratio tells how many times fewer GPUs ZeRO-OS needs for the same throughput (otherwise it
# compares samples per second), ratio of ZeRO-OS to Megatron
RATIOS = [("6", "8B", False, 1.63), ("6", "20B", False, 2.93), ("6", "40B", False, 5.9), ("7", "1.5B", False, 3.75),
          ("8", "8B", True, 1.7), ("8", "20B", True, 3.1)]
# The SC20 paper prints only this mean for its models of 8B to 100B: 15 PFLOP/s, or 38 TFLOP/s per GPU.
MEAN, MEAN_ROWS = 38, ("8B", "20B", "40B", "60B", "80B", "100B")
# cluster, name, nodes, GPUs of a node, GB of a GPU (v1, table 3)
CLUSTERS = [("azure-nc24rs-v3x8", "Azure NC24r v3", 8, 4, 16), ("dgx2x25", "DGX-2H", 25, 16, 32)]

# Configurations of ZeRO-R: stage, place of checkpoints, billions of parameters of the largest model as rounded in
# figure 6, samples of a micro-batch of the 60B model on 128 GPUs from figure 8. zr's constant-size buffers replace the
# paper's C_B, and zr's memory map replaces M_D.
Config = collections.namedtuple("Config", "name stage kept billion batch")
CONFIGS = [Config("C1", 1, "whole", 40, 2), Config("C2", 1, "pieces", 60, 4), Config("C3", 2, "whole", 50, 8),
           Config("C4", 2, "pieces", 140, 32), Config("C5", 2, "host", 150, 32)]
CONFIG_TENSOR, CONFIG_GPUS, CONFIG_BATCH = 16, 400, 16

# Table 1: parameters; ranks: GB of model states at stages 1 to 3, for each number of parameters
SIZES = [("7.5B", 7500000000), ("128B", 128000000000), ("1T", 1000000000000)]
TABLE1 = {1: ((120, 120, 120), (2048, 2048, 2048), (16000, 16000, 16000)),
          4: ((52.5, 41.3, 30), (896, 704, 512), (7000, 5500, 4000)),
          16: ((35.6, 21.6, 7.5), (608, 368, 128), (4750, 2875, 1000)),
          64: ((31.4, 16.6, 1.88), (536, 284, 32), (4187, 2218, 250)),
          256: ((30.4, 15.4, 0.47), (518, 263, 8), (4046, 2054, 62.5)),
          1024: ((30.1, 15.1, 0.12), (513, 257, 2), (4011, 2013, 15.6))}
# Table 2: M: billions of parameters of the largest model on 64 x M GPUs of 32 GB, at stages 0 to 3
TABLE2 = {1: (2, 7.6, 14.4, 128), 2: (4, 15.2, 28.8, 256), 4: (8, 30.4, 57.6, 500), 8: (16, 60.8, 115.2, 1000),
          16: (32, 121.6, 230.4, 2000)}
TABLE2_RANKS, TABLE2_BYTES = 64, 32000000000

# ---- BERT-Large's pre-training by DeepSpeed ("the fastest BERT", May 2020) and by NVIDIA (2019) -------------------

# Bytes that attention reads and writes per fp16 score in the forward pass. Megatron-LM v0.1 (2019, mpu/transformer.py)
# has no fused kernels: the first product writes 2. The division by sqrt(d), the product with the mask, the sum with the
# mask and the softmax each read 2 and write 2. Dropout reads 2, writes 2, and writes 1 for its mask. The second product
# reads 2. NVIDIA's run had separate kernels too. In DeepSpeed's fused kernels (csrc/transformer, 2020), the first
# product divides as well, and the softmax adds the mask.
SCORES_BYTES, FUSED_SCORES_BYTES = 25, 13
# Before version 11, cuBLAS used a V100's tensor cores for fp16 products only if all sizes were multiples of 8 (NVIDIA,
# mixed precision training guide). Other fp16 products run at the rate of fp32, because PyTorch sums them in fp32.
PRODUCT_MULTIPLE = 8

# tokens and predictions of a sample; samples of a step of all GPUs; most samples of a micro-batch; samples in all
Phase = collections.namedtuple("Phase", "tokens predictions batch micro samples")
# overlap: whether gradients are summed over the GPUs during the backward pass, in a step of one micro-batch; with
# several, they are summed after the last one
Recipe = collections.namedtuple("Recipe", "system family overlap lamb scores phases")
# DeepSpeed's recipe: 403 M samples in phase 1 and about 20 M in phase 2 (its logs say 18 to 22 M), with the
# micro-batches of its configuration files. Gradients are summed after the backward pass.
DEEPSPEED = Recipe("DeepSpeed", "bert-preln", False, "deepspeed", FUSED_SCORES_BYTES,
                   [Phase(128, 20, 65536, 64, 403e6), Phase(512, 80, 32768, 16, 20e6)])
# NVIDIA's recipe (DeepLearningExamples, PyTorch, container 19.07): 7,038 and 1,563 steps. The overlap is an assumption:
# apex's DistributedDataParallel sums gradients during the backward pass, but later scripts of NVIDIA can also sum them
# afterwards, and the published times do not say which.
NVIDIA = Recipe("NVIDIA", "bert", True, "nvidia", SCORES_BYTES,
                [Phase(128, 20, 65536, 64, 7038.0 * 65536), Phase(512, 80, 32768, 8, 1563.0 * 32768)])
MINUTES = [(DEEPSPEED, 16, 1993), (DEEPSPEED, 64, 521), (DEEPSPEED, 256, 144), (DEEPSPEED, 1024, 44),
           (NVIDIA, 256, 236), (NVIDIA, 1024, 67), (NVIDIA, 1472, 47)]
# Speeds of one V100, for each phase: samples per second, TFLOP/s. They are priced for the micro-batches that a GPU of
# the smallest training computes in a step.
KERNELS, FEWEST_GPUS = [(272, 64), (52, 53)], 16
