/** Command-line options that set configuration keys. With these options a command needs no CONFIG.json. */
#ifndef ZR_CLI_BRIEF_H
#define ZR_CLI_BRIEF_H

#include "cli/shell/args.h"
#include "zr/base.h"

typedef struct cli_brief {
    const char *preset, *memory, *disk;
    int64_t stage, batch, seq, tensor;
    /* whether a configuration of another system is given (--from), and whether it has a model */
    bool from, from_model;
    const char *from_name; /* name of a model in it that is neither a preset nor a directory, or NULL */
    bool chooses;          /* whether zr chooses missing keys to fit --memory; else --memory is only a limit */
} cli_brief;
/* clang-format off */
#define CLI_BRIEF_INIT {.stage = -1}
/* clang-format on */

#define CLI_MEMORY_LIMITS "memory available to each rank, e.g. 32GB (key memory.limit)"
#define CLI_MEMORY_CHOOSES                                                                                             \
    "memory limit of each rank, e.g. 32GB (key memory.limit); stage, recompute policy and micro-batch, where not "     \
    "given, are chosen to fit it"

#define CLI_DISK_PLAN                                                                                                  \
    "space on disk of each rank, e.g. 200GB: where a model does not fit --memory, put as few of its states on disk "   \
    "as needed"
#define CLI_DISK_SIMULATE                                                                                              \
    "space on disk of each rank, e.g. 200GB; with --search: where nothing fits memory, put as few states on disk as "  \
    "needed"
#define CLI_DISK_TRAIN                                                                                                 \
    CLI_DISK_PLAN ", in the folder zero_optimization.offload_optimizer.nvme_path [with --memory and that key: its "    \
                  "free space]"

/** Rows for a command's table of options. The parsed values are stored in the cli_brief `brief`. */
/* clang-format off */
#define CLI_BRIEF_PRESET(brief)                                                                                        \
    {"preset", CLI_TEXT, &(brief).preset, 0, "NAME",                                                                   \
     "named model shape, e.g. gpt2-124m (`zr plan --shapes` lists them)"}
#define CLI_BRIEF_OPTIONS(brief, memory_help)                                                                          \
    {"stage", CLI_INT, &(brief).stage, 0, "S", "ZeRO stage 0-3"},                                                      \
    {"batch", CLI_INT, &(brief).batch, 1, "B", "micro-batch size: samples per rank"},                                  \
    {"seq", CLI_INT, &(brief).seq, 1, "T", "sequence length: tokens per sample"},                                      \
    {"tensor", CLI_INT, &(brief).tensor, 1, "M", "tensor-parallel degree: M ranks share each layer"},                  \
    {"memory", CLI_TEXT, &(brief).memory, 0, "SIZE", memory_help}
/* clang-format on */

/* clang-format off */
#define CLI_BRIEF_DISK(brief, disk_help) {"disk", CLI_TEXT, &(brief).disk, 0, "SIZE", disk_help}
/* clang-format on */

/** Return whether any --key=value of the command line begins with `begin`, for example "memory.limit=". */
bool cli_overrides(const cli_args *args, const char *begin);
/** Check the options. On ZR_ERR_ARG the message names the wrong or missing option. */
ZR_NODISCARD zr_status cli_brief_check(const cli_brief *brief, const cli_args *args);
/** Return the bytes of --disk, or 0 if it is not given. */
int64_t cli_brief_disk_bytes(const cli_brief *brief);
/** Turn the options into overrides, such as "zero_optimization.stage=2", whose texts are stored in `room`. Insert the
 * overrides before the user's own --key=value. The user's own values win, because a later override wins. */
#define CLI_BRIEF_KEYS 8
ZR_NODISCARD zr_status cli_brief_overrides(const cli_brief *brief, cli_args *args, char room[CLI_BRIEF_KEYS][256]);

#endif
