/*
 * Step times of ZeRO's schedule and of its baselines: one fused buffer for the whole model (Megatron, Apex), reductions
 * to one owner after the other, broadcasts instead of an all-gather, and stage 1 as it was first built, with an
 * all-reduce. Also the cost of the two passes with which lean states find the norm, and of sums that do not depend on
 * the number of ranks. The steps of all layouts are timed in turn, in one process.
 *
 *   build/bench/bench_baselines [RANKS [TEXT]]
 *
 * With TEXT, only layouts whose name contains it are timed, besides the first one.
 */
#include "step_timer.h"

/* Keep only the layouts whose name contains `text`, and the first one, with which all others are compared. */
static void keep(timer *t, const char *text)
{
    int n = 1;
    for (int v = 1; v < t->n; v++)
        if (strstr(t->variant[v].name, text)) t->variant[n++] = t->variant[v];
    t->n = n;
}

static void add_all(timer *t)
{
    zr_layout base = timer_layout(t->ranks, 2), l;
    base.batch = 2;
    base.seq = 256;
    timer_add(t, "stage 2", base);
    l = base;
    l.fused_buffer = true;
    timer_add(t, "stage 2, fused buffer", l);
    l = base;
    l.reduce = ZR_REDUCE_TO_OWNER;
    timer_add(t, "stage 2, to the owners", l);
    l = base;
    l.gather = ZR_GATHER_BROADCAST;
    timer_add(t, "stage 2, broadcasts", l);
    l = base;
    l.stage = 1;
    timer_add(t, "stage 1", l);
    l.reduce = ZR_REDUCE_ALL_REDUCE;
    timer_add(t, "stage 1, all-reduce", l);
    l = base;
    l.stage = 3;
    timer_add(t, "stage 3", l);
    l.fused_buffer = true;
    timer_add(t, "stage 3, fused buffer", l);
    l = base;
    l.states = ZR_STATES_LEAN;
    timer_add(t, "stage 2, lean", l);
    l.norm_first = l.two_pass = true;
    timer_add(t, "stage 2, lean, two passes", l);
    l = base;
    l.rank_free_sums = true;
    timer_add(t, "stage 2, world", l);
}

int main(int argc, char **argv)
{
    static timer t = {.model = {.n_layer = 8,
                                .n_head = 8,
                                .n_embd = 512,
                                .n_positions = 256,
                                .vocab_size = 4096,
                                .layer_norm_epsilon = 1e-5,
                                .initializer_range = 0.02},
                      .threads = 1,
                      .steps = 2};
    t.ranks = argc > 1 ? atoi(argv[1]) : 2;
    add_all(&t);
    if (argc > 2) keep(&t, argv[2]);
    if (zr_comm_threads_run(t.ranks, timer_rank, &t) != ZR_OK) {
        fprintf(stderr, "%s\n", zr_error_message());
        return 1;
    }
    printf("8 layers, 512 wide, B 2 a rank, T 256, fp32, %d ranks x 1 thread\n"
           "%-26s  BUFFER MB  traffic MB  total MB  FLOPs/model  time/stage 2\n",
           t.ranks, "");
    for (int v = 0; v < t.n; v++) {
        const timer_variant *x = &t.variant[v];
        int64_t bytes = x->traffic.bytes[ZR_TRAFFIC_REDUCE_SCATTER] + x->traffic.bytes[ZR_TRAFFIC_ALL_GATHER];
        printf("%-26s  %10.2f  %11.2f  %9.2f  %11.3f  %12.3f\n", x->name,
               (double)x->memory.category_bytes[ZR_CATEGORY_BUFFER] / 1e6, (double)bytes / 1e6,
               (double)x->memory.total_bytes / 1e6, x->flops_ratio, timer_median(x->ratio));
    }
    return 0;
}
