#include "cli/cli.h"

#include <jansson.h>
#include <string.h>

typedef struct info {
    char processor[160];
    int cores;
    double memory_bytes;
    char mpi[160];
    zr_profile profile;
} info;

static void read_processor(char *name, size_t size)
{
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "re");
    snprintf(name, size, "unknown");
    while (file && fgets(line, sizeof(line), file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        snprintf(name, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (file) fclose(file);
}

static zr_status collect(info *i)
{
    zr_device *device = NULL;
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    config.threads = zr_host_cores();
    ZR_TRY(zr_device_create_cpu(&config, &device));
    i->profile = device->profile;
    zr_device_destroy(&device);
    read_processor(i->processor, sizeof(i->processor));
    i->cores = config.threads;
    i->memory_bytes = (double)zr_host_available_bytes();
    const char *mpi = zr_comm_mpi_version();
    snprintf(i->mpi, sizeof(i->mpi), "%.*s", (int)strcspn(mpi, "\n"), mpi);
    return ZR_OK;
}

static void print_json(const info *i)
{
    printf("{\"version\":\"%s\", \"processor\":", zr_version());
    cli_json_print(stdout, i->processor, (int64_t)strlen(i->processor));
    printf(", \"cores\":%d, \"memory_available\":%.0f, \"kernels\":\"%s\", \"bf16_products\":%s, \"matmul\":\"%s\", ",
           i->cores, i->memory_bytes, zr_device_cpu_level(), i->profile.bf16_products ? "true" : "false",
           zr_device_cpu_matmul());
    printf("\"mpi\":");
    if (i->mpi[0]) {
        cli_json_print(stdout, i->mpi, (int64_t)strlen(i->mpi));
    } else {
        printf("null");
    }
    printf(", \"jansson\":\"%s\", \"compiler\":\"%s\", \"devices\":[\"cpu\"], \"transports\":[\"threads\"%s]}\n",
           jansson_version_str(), __VERSION__, i->mpi[0] ? ", \"mpi\"" : "");
}

static void print_text(const info *i)
{
    char memory[32];
    printf("zr          %s\nprocessor   %s, %d core%s for this process\n", zr_version(), i->processor, i->cores,
           i->cores == 1 ? "" : "s");
    printf("memory      %s available\n", i->memory_bytes < 0 ? "unknown" : cli_bytes(i->memory_bytes, memory));
    printf("kernels     %s (bf16 products: %s)\n", zr_device_cpu_level(), i->profile.bf16_products ? "yes" : "no");
    printf("devices     cpu\ntransports  threads%s\n", i->mpi[0] ? ", mpi" : "");
    printf("mpi         %s\n", i->mpi[0] ? i->mpi : "none: built without");
    printf("libraries   %s, jansson %s\ncompiler    %s\n", zr_device_cpu_matmul(), jansson_version_str(), __VERSION__);
}

static zr_status run(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    (void)comm;
    info i = {0};
    const cli_option options[] = {{"bench", CLI_NOT_BUILT, NULL, 0, NULL, NULL}, {0}};
    cli_args args = {.command = command->name, .options = options};
    ZR_TRY(cli_parse(&args, argc, argv));
    if (args.help) {
        cli_help(command, options, false);
        return ZR_OK;
    }
    ZR_TRY(collect(&i));
    if (args.json) {
        print_json(&i);
    } else {
        print_text(&i);
    }
    return ZR_OK;
}

const cli_command cli_info = {
    .name = "info",
    .summary = "version, processor, kernels, libraries",
    .usage = "zr info",
    .examples = "  zr info\n  zr info --json\n",
    .run = run,
};
