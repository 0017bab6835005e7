/*
 * Bytes saved and time spent by recompute. First, the example of the ZeRO paper (section 3.2: GPT-2 1.5B, T 1024, batch
 * 32, "about 60 GB" of activations, which checkpointing reduces to "about 8 GB") is planned for every k. Then the steps
 * of a model that fits on this machine are timed in turn.
 *
 *   build/bench/bench_recompute
 */
#include "step_timer.h"

static zr_status plan_example(zr_recompute policy, int64_t every, const zr_profile *profile)
{
    zr_gpt2_config config;
    ZR_TRY(zr_gpt2_preset("gpt2-1.5b", &config));
    zr_layout l = timer_layout(64, 3);
    l.batch = 32;
    l.seq = 1024;
    l.dtype = l.wire_dtype = ZR_BF16;
    l.states = ZR_STATES_LEAN;
    l.recompute = policy;
    l.recompute_every = every;
    zr_model model = zr_gpt2(&config);
    zr_plan *plan = NULL;
    ZR_TRY(zr_plan_create(&model, &l, profile, &plan));
    const int64_t *bytes = plan->memory.category_bytes;
    char name[40];
    snprintf(name, sizeof name, "unit, every %lld", (long long)every);
    printf("%-15s  %7.2f  %10.2f  %7.2f  %7.3f\n",
           policy == ZR_RECOMPUTE_NONE        ? "none"
           : policy == ZR_RECOMPUTE_SELECTIVE ? "selective"
                                              : name,
           (double)bytes[ZR_CATEGORY_ACT] / 1e9, (double)bytes[ZR_CATEGORY_CHECKPOINT] / 1e9,
           (double)plan->memory.total_bytes / 1e9, plan->flops_hardware / plan->flops_model);
    zr_plan_destroy(&plan);
    return ZR_OK;
}

static zr_status plan_examples(void)
{
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    ZR_TRY(zr_device_create_cpu(&config, &device));
    printf("GPT-2 1.5B, T 1024, batch 32 a rank, 64 ranks, stage 3, lean, bf16; GB\n"
           "recompute            ACT  CHECKPOINT    total  FLOPs/model\n");
    ZR_TRY(plan_example(ZR_RECOMPUTE_NONE, 1, &device->profile));
    ZR_TRY(plan_example(ZR_RECOMPUTE_SELECTIVE, 1, &device->profile));
    for (int64_t every = 1; every <= 49; every++) ZR_TRY(plan_example(ZR_RECOMPUTE_UNIT, every, &device->profile));
    zr_device_destroy(&device);
    return ZR_OK;
}

static zr_status measure(void)
{
    static timer t = {.model = {.n_layer = 12,
                                .n_head = 8,
                                .n_embd = 512,
                                .n_positions = 256,
                                .vocab_size = 4096,
                                .resid_pdrop = 0.1,
                                .layer_norm_epsilon = 1e-5,
                                .initializer_range = 0.02},
                      .ranks = 1,
                      .threads = 2,
                      .steps = 2};
    static const char *const name[] = {"none", "selective", "unit", "unit, every 4"};
    const zr_recompute policy[] = {ZR_RECOMPUTE_NONE, ZR_RECOMPUTE_SELECTIVE, ZR_RECOMPUTE_UNIT, ZR_RECOMPUTE_UNIT};
    for (int i = 0; i < 4; i++) {
        zr_layout l = timer_layout(1, 0);
        l.batch = 4;
        l.seq = 256;
        l.recompute = policy[i];
        l.recompute_every = i == 3 ? 4 : 1;
        timer_add(&t, name[i], l);
    }
    ZR_TRY(zr_comm_threads_run(1, timer_rank, &t));
    printf("\n12 layers, 512 wide, B 4, T 256, fp32, one rank, 2 threads; time as a ratio to none\n"
           "recompute        act + checkpoint  FLOPs/model  time\n");
    for (int v = 0; v < t.n; v++)
        printf("%-15s  %12.1f MB  %11.3f  %5.3f\n", t.variant[v].name,
               (double)(t.variant[v].memory.category_bytes[ZR_CATEGORY_ACT] +
                        t.variant[v].memory.category_bytes[ZR_CATEGORY_CHECKPOINT]) /
                   1e6,
               t.variant[v].flops_ratio, timer_median(t.variant[v].ratio));
    return ZR_OK;
}

int main(void)
{
    if (plan_examples() == ZR_OK && measure() == ZR_OK) return 0;
    fprintf(stderr, "%s\n", zr_error_message());
    return 1;
}
