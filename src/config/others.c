/* Options of Megatron-LM, torchtitan, Hugging Face's Trainer and Lightning, for messages that say which key of zr has
 * their meaning. */
#include "config/config.h"

#include <ctype.h>
#include <string.h>

/* Names are written with '-'; a user may write '_' instead. */
static const struct {
    const char *option, *instead;
} other[] = {
    {"tensor-model-parallel-size", "parallel.tensor"},
    {"tensor-parallel-degree", "parallel.tensor"},
    {"sequence-parallel", "parallel.sequence, with the value keep or regather"},
    {"pipeline-model-parallel-size", "parallel.pipeline"},
    {"pipeline-parallel-degree", "parallel.pipeline"},
    {"pipeline-parallel-schedule", "parallel.schedule"},
    {"pipeline-parallel-layers-per-stage",
     "parallel.chunks, the number of stages of a rank: layers / (parallel.pipeline x layers of a stage)"},
    {"num-virtual-stages-per-pipeline-rank", "parallel.chunks, with parallel.schedule interleaved"},
    {"num-layers-per-virtual-pipeline-stage",
     "parallel.chunks, with parallel.schedule interleaved: layers / (parallel.pipeline x layers of a stage)"},
    {"enable-zero-bubble", "parallel.schedule, with the value zb_h1"},
    {"zero-bubble-v-schedule", "parallel.schedule, with the value zb_v"},
    {"use-distributed-optimizer", "zero_optimization.stage, with the value 1"},
    {"micro-batch-size", "train_micro_batch_size_per_gpu"},
    {"global-batch-size", "train_batch_size"},
    {"patience", "train.early_stopping_patience"},
    {"min-delta", "train.early_stopping_threshold"},
    {"load-best-model-at-end", "train.keep_best; the best weights are then in best/ of the run's directory"},
    {"metric-for-best-model", "train.keep_best, which goes by val_loss"},
    {"eval-steps", "train.eval_interval"},
    {"validation-split-percentage", "data.val, with a share of data.train such as 0.05"},
    {"val-split-fraction", "data.val, with a share of data.train such as 0.05"},
    {"val-set-size", "data.val, with a share of data.train such as 0.05"},
    {"test-size", "data.val, with a share of data.train such as 0.05"},
    {"recompute-granularity", "activation_checkpointing.policy: unit for full, selective for selective"},
};

static bool same_name(const char *given, const char *option)
{
    for (; *given && *option; given++, option++)
        if (tolower((unsigned char)(*given == '_' ? '-' : *given)) != *option) return false;
    return !*given && !*option;
}

const char *zr__config_instead(const char *path)
{
    const char *dot = strrchr(path, '.');
    const char *name = dot ? dot + 1 : path;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (same_name(name, other[i].option)) return other[i].instead;
    return NULL;
}
