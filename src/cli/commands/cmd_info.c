/* `zr info`: what the build and this machine have, and with --bench what the machine can do. */
#include "cli/plan/profile.h"
#include "cli/shell/args.h"
#include "cli/shell/help.h"
#include "cli/shell/message.h"
#include "cli/shell/process.h"
#include "cli/measure/bench.h"
#include "comm/comm.h"
#include "device/device.h"
#include "train/host/device.h"
#include "train/host/host.h"
#include "train/measure/measure.h"

#include <stdio.h>
#include <jansson.h>
#include <string.h>

typedef struct machine_info {
    char processor[160];
    double memory_bytes; /* bytes of available memory, or a negative number if unknown */
    char mpi[160];
    zr_device_facts facts;
    zr_rates rates;
    bool measured; /* whether `rates` is known from an earlier `zr info --bench` */
    zr__folder_rates disk;
    bool disk_measured; /* whether `disk` is known from an earlier `zr info --bench --disk` */
} machine_info;

static zr_status collect_info(machine_info *i)
{
    ZR_AUTO(zr_device_destroy) zr_device *device = NULL;
    ZR_TRY(zr__train_device(ZR_DEVICE_CPU, zr__host_cores(), 0, &device));
    i->facts = device->profile.facts;
    zr__host_processor(i->processor, sizeof(i->processor));
    zr_status st = zr__rates_recall(&i->facts, &i->rates);
    i->measured = st == ZR_OK;
    if (st == ZR_ERR_DATA) cli_say("note: %s", zr_error_message());
    i->disk_measured = zr__disk_recall(&i->disk) == ZR_OK;
    i->memory_bytes = (double)zr__host_available_bytes();
    const char *mpi = zr__comm_mpi_version();
    snprintf(i->mpi, sizeof(i->mpi), "%.*s", (int)strcspn(mpi, "\n"), mpi);
    return ZR_OK;
}

/** State of the CUDA backend in the output of `zr info`. Change this text once a GPU has run the backend. */
#define CUDA_STATE "compiled, not yet run on a GPU"

/** Write the name of the GPU matmul library into `text`, or "" if there is no GPU, because the library is then not
 * loaded. Return `text`. */
static const char *gpu_matmul(char text[64])
{
    text[0] = '\0';
    if (zr_device_cuda_count(NULL) > 0) zr__device_cuda_matmul(text, 64);
    return text;
}

/** Add the measured rates to the JSON output, or null if there are no measured rates. Each rate is a total over all
 * threads, except the link's rate, which is per thread. */
static void add_rates(zr__json_out *json, const machine_info *i)
{
    if (!i->measured) {
        zr__json_add_json(json, "rates", NULL);
        return;
    }
    zr__json_open(json, "rates", '{');
    zr__json_add(json, "f32_flops", zr__rates_peak(&i->rates, ZR_F32, NULL).all, "bf16_flops",
                 zr__rates_peak(&i->rates, ZR_BF16, NULL).all, "memory_bytes_sec", i->rates.triad.all, "link_bytes_sec",
                 i->rates.link.all / i->rates.threads);
    zr__json_close(json, '}');
}

/** Add the rates of a disk to the JSON output, or null if they are not measured. */
static void add_disk(zr__json_out *json, const zr__folder_rates *disk)
{
    if (!disk) {
        zr__json_add_json(json, "disk", NULL);
        return;
    }
    zr__json_open(json, "disk", '{');
    zr__json_add(json, "folder", disk->folder, "read_bytes_sec", disk->read, "write_bytes_sec", disk->write,
                 "both_bytes_sec", disk->both, "transfers", disk->transfers);
    zr__json_add_bool(json, "direct", disk->direct);
    zr__json_close(json, '}');
}

/** Write the rates of a disk as one line into `text`. Return `text`. */
static const char *disk_line(const zr__folder_rates *disk, char text[512])
{
    snprintf(text, 512, "%s/s read, %s/s written, %s/s both at once, in %s%s", ZR_SIZE(disk->read),
             ZR_SIZE(disk->write), ZR_SIZE(disk->both), disk->folder,
             disk->direct ? "" : " (through the page cache, so this may be the speed of memory)");
    return text;
}

/** Add the GPUs of this machine to the JSON output, and whether this build of zr can use them. */
static void add_gpus(zr__json_out *json)
{
    const char *built = zr__device_cuda_built();
    const int n = zr_device_cuda_count(NULL);
    char matmul[64];
    zr__gpu gpu;
    zr__json_add_json(json, "devices", n > 0 ? "[\"cpu\", \"cuda\"]" : "[\"cpu\"]");
    if (built[0]) {
        zr__json_open(json, "cuda", '{');
        zr__json_add(json, "built", built, "state", CUDA_STATE, "matmul", gpu_matmul(matmul));
        zr__json_close(json, '}');
    } else {
        zr__json_add_json(json, "cuda", NULL);
    }
    zr__json_open(json, "gpus", '[');
    for (int g = 0; g < n; g++) {
        int64_t left;
        if (zr__device_cuda_gpu(g, &gpu) != ZR_OK || zr__device_cuda_free(g, &left) != ZR_OK) continue;
        zr__json_open(json, NULL, '{');
        zr__json_add(json, "gpu", g, "name", gpu.name, "memory", gpu.memory_bytes, "memory_free", left);
        zr__json_add_as(json, "capability", "\"%d.%d\"", gpu.major, gpu.minor);
        zr__json_close(json, '}');
    }
    zr__json_close(json, ']');
}

static void print_gpus(void)
{
    const char *why = "", *built = zr__device_cuda_built();
    const int n = zr_device_cuda_count(&why);
    int64_t left;
    zr__gpu gpu;
    if (built[0]) printf("cuda        %s; %s\n", built, CUDA_STATE);
    if (n == 0) printf("gpus        none: %s\n", why);
    for (int g = 0; g < n; g++) {
        if (zr__device_cuda_gpu(g, &gpu) != ZR_OK || zr__device_cuda_free(g, &left) != ZR_OK) {
            printf("gpu %-7d %s\n", g, zr_error_message());
            continue;
        }
        printf("gpu %-7d %s, compute capability %d.%d, %s, %s free\n", g, gpu.name, gpu.major, gpu.minor,
               ZR_SIZE((double)gpu.memory_bytes), ZR_SIZE((double)left));
    }
}

static zr_status print_info_json(const machine_info *i)
{
    const char *mpi = i->mpi[0] ? i->mpi : NULL;
    zr__json_out json = {0};
    zr__json_add(&json, "version", zr_version(), "processor", i->processor, "cores", i->facts.threads);
    zr__json_add_as(&json, "memory_available", "%.0f", i->memory_bytes);
    zr__json_add(&json, "kernels", zr_device_cpu_level());
    zr__json_add_bool(&json, "bf16_products", i->facts.bf16_products);
    zr__json_add(&json, "matmul", zr__device_cpu_matmul());
    add_rates(&json, i);
    add_disk(&json, i->disk_measured ? &i->disk : NULL);
    add_gpus(&json);
    zr__json_add(&json, "mpi", mpi, "jansson", jansson_version_str(), "compiler", __VERSION__);
    zr__json_add_json(&json, "transports", mpi ? "[\"threads\", \"mpi\"]" : "[\"threads\"]");
    return zr__json_write(&json, stdout);
}

static void print_info(const machine_info *i)
{
    char rates[192], matmul[64], disk[512];
    const bool gpus = zr_device_cuda_count(NULL) > 0, products = gpu_matmul(matmul)[0];
    printf("zr          %s\nprocessor   %s, %d core%s for this process\n", zr_version(), i->processor, i->facts.threads,
           i->facts.threads == 1 ? "" : "s");
    printf("memory      %s available\n", i->memory_bytes < 0 ? "unknown" : ZR_SIZE(i->memory_bytes));
    printf("kernels     %s (bf16 products: %s)\n", zr_device_cpu_level(), i->facts.bf16_products ? "yes" : "no");
    printf("measured    %s\n", i->measured ? cli_rates_line(&i->rates, rates) : "nothing yet: zr info --bench");
    if (i->disk_measured) printf("disk        %s\n", disk_line(&i->disk, disk));
    printf("devices     cpu%s\n", gpus ? ", cuda" : "");
    print_gpus();
    printf("transports  threads%s\n", i->mpi[0] ? ", mpi" : "");
    printf("mpi         %s\n", i->mpi[0] ? i->mpi : "none: built without");
    printf("libraries   %s, %s%sjansson %s\ncompiler    %s\n", zr__device_cpu_matmul(),
           gpus && !products ? "no cuBLASLt, which GPUs need" : matmul, gpus ? ", " : "", jansson_version_str(),
           __VERSION__);
}

/** Memory that libraries may allocate during a benchmark in addition to its operands, in bytes. */
#define BENCH_BYTES ((int64_t)64 << 20)

static zr_status bench_machine(zr_config_device kind, cli_bench *b)
{
    char processor[160];
    ZR_AUTO(zr_device_destroy) zr_device *device = NULL;
    ZR_TRY(zr__host_room(BENCH_BYTES, zr__host_cores() - 1));
    ZR_TRY(zr__train_device(kind, zr__host_cores(), 0, &device));
    const zr_device_facts *facts = &device->profile.facts;
    zr__host_processor(processor, sizeof(processor));
    b->processor = facts->own_memory ? facts->name : processor;
    return cli_bench_run(b, device);
}

/** Measure training steps with all ranks of a launcher together. Do not measure this machine's rates, because waiting
 * ranks would occupy the measured cores. */
static zr_status bench_world(const cli_bench *b, zr_comm *comm)
{
    ZR_AUTO(zr__launches_clear) zr__launches launches = {0};
    machine_info i;
    cli_leave_binding();
    ZR_TRY(collect_info(&i));
    ZR_TRY(zr__launches_measure(&b->how, comm, &launches));
    if (comm->rank != 0) return ZR_OK;
    cli_launches_remember(&launches, &i.facts);
    zr__json_out json = {0};
    if (!b->json) {
        cli_launches_print(&launches);
        return ZR_OK;
    }
    cli_launches_json(&json, NULL, &launches);
    return zr__json_write(&json, stdout);
}

/** Measure the disk of a folder, print its rates and store them. */
static zr_status bench_disk(const cli_args *args, const char *folder, bool quick)
{
    char line[512];
    zr__folder_rates disk;
    ZR_TRY(zr__disk_measure(folder, quick, &disk));
    if (zr__disk_remember(&disk) != ZR_OK) cli_say("note: the rates are not remembered: %s", zr_error_message());
    if (!args->json) {
        printf("disk        %s\n            transfers by %s; `zr plan`, `zr train` and `zr simulate` use these rates\n",
               disk_line(&disk, line), disk.transfers);
        return ZR_OK;
    }
    zr__json_out json = {0};
    add_disk(&json, &disk);
    return zr__json_write(&json, stdout);
}

typedef struct info_options {
    cli_bench bench;
    const char *disk; /* folder to measure, or NULL */
    const char *device;
    zr_config_device kind; /* `device` as a number */
    bool wanted;           /* whether --bench was given */
} info_options;

static zr_status parse_info(cli_args *args, info_options *o, bool world, int argc, char **argv)
{
    cli_bench *b = &o->bench;
    ZR_TRY(cli_parse(args, argc, argv));
    if (args->help) return ZR_OK;
    const bool shapes = b->preset || b->batch || b->seq || b->bf16 || o->device;
    ZR_CHECK(o->wanted || (!shapes && !b->how.threads && !b->how.quick && !o->disk), ZR_ERR_ARG,
             "--preset, --batch, --seq, --threads, --device, --bf16, --disk and --quick need --bench; give it too");
    ZR_CHECK(!o->disk || (!shapes && !b->how.threads && !world), ZR_ERR_ARG,
             "--disk measures only a disk, in one process; leave out --preset, --batch, --seq, --threads, --device and "
             "--bf16, and use no launcher");
    ZR_CHECK(!world || !shapes, ZR_ERR_ARG,
             "under a launcher, --bench measures only training steps of its ranks, on processors; leave out --preset, "
             "--batch, --seq, --bf16 and --device");
    if (b->preset) ZR_TRY(cli_preset(b->preset));
    if (!b->preset) b->preset = "gpt2-124m";
    if (!b->batch) b->batch = 4;
    ZR_CHECK(b->how.threads <= 4096, ZR_ERR_ARG, "--threads is %lld; the most is 4096", (long long)b->how.threads);
    if (o->device) {
        static const char *const names[] = {
            [ZR_DEVICE_AUTO] = "auto", [ZR_DEVICE_CPU] = "cpu", [ZR_DEVICE_CUDA] = "cuda", NULL};
        int index = 0;
        ZR_TRY(cli_word("device", o->device, names, &index));
        o->kind = (zr_config_device)index;
    }
    return ZR_OK;
}

static zr_status run_info(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    info_options o = {.kind = ZR_DEVICE_AUTO};
    const bool first = !comm || comm->rank == 0;
    const cli_option options[] = {
        {"bench", CLI_FLAG, &o.wanted, 0, NULL,
         "measure this machine's speed and store it; `zr plan`, `zr train` (mfu) and `zr simulate` use it"},
        {"preset", CLI_TEXT, &o.bench.preset, 0, "NAME",
         "with --bench: measure the matrix products of this model [gpt2-124m]"},
        {"batch", CLI_INT, &o.bench.batch, 1, "B", "with --bench: samples in those products [4]"},
        {"seq", CLI_INT, &o.bench.seq, 1, "T", "with --bench: tokens per sample in those products [1024]"},
        {"threads", CLI_INT, &o.bench.how.threads, 1, "N",
         "with --bench: threads per rank in the measured training steps [cores / ranks]"},
        {"device", CLI_TEXT, &o.device, 0, "KIND",
         "with --bench: device to measure: cpu, cuda or auto [auto: GPUs if there are any]"},
        {"disk", CLI_TEXT, &o.disk, 0, "DIR",
         "with --bench: measure how fast files in this folder are read and written, and nothing else"},
        {"bf16", CLI_FLAG, &o.bench.bf16, 0, NULL,
         "with --bench: measure bf16 even if the processor has no bf16 instructions"},
        {"quick", CLI_FLAG, &o.bench.how.quick, 0, NULL,
         "with --bench: shorter: training steps of the smallest models only, each once"},
        {0}};
    cli_args args = {.command = command->name, .options = options};
    zr_status st = parse_info(&args, &o, comm && comm->size > 1, argc, argv);
    /* Let all ranks agree on the status. A launcher may give different arguments to different ranks, so parsing may
     * have failed on some ranks only. */
    if (comm) st = zr_comm_agree(comm, st);
    if (comm && st == ZR_OK) st = zr__comm_same(comm, "--bench", o.wanted + 2 * args.help);
    ZR_TRY(st);
    if (args.help) return first ? cli_help(command, &args) : ZR_OK;
    if (!o.wanted && !first) return ZR_OK;
    if (!o.wanted) {
        machine_info i = {0};
        ZR_TRY(collect_info(&i));
        if (args.json) return print_info_json(&i);
        print_info(&i);
        return ZR_OK;
    }
    if (o.disk) return bench_disk(&args, o.disk, o.bench.how.quick);
    o.bench.quiet = args.quiet;
    o.bench.json = args.json;
    o.bench.how.begin = args.quiet ? NULL : cli_launches_begin;
    if (!comm || comm->size == 1) return bench_machine(o.kind, &o.bench);
    st = bench_world(&o.bench, comm);
    if (st != ZR_OK) cli_end_world(comm, st);
    return st;
}

const cli_command cli_info = {
    .name = "info",
    .summary = "show version, processor, kernels and libraries; measure the machine's speed",
    .usage = "zr info [--bench]",
    .examples = "  zr info\n"
                "  zr info --json\n"
                "  zr info --bench\n"
                "  zr info --bench --disk /local_nvme\n"
                "  zr info --bench --preset gpt2-350m --batch 2 --json\n",
    .run = run_info,
    .all_ranks = true,
    .computes = true,
};
