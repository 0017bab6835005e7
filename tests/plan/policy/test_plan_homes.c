//TEST timeout=60
/* Plans with optimizer states in host memory or on disk: which elements are copied to the device and back home, and
 * that the proof notices each copy that is missing, too early, or of other elements. */
#include <string.h>

#include "plan/plan_make.h"

enum { BUCKET = 2048 };

static zr_plan *plan_of(zr_space home, int stage, int ranks, zr_states states)
{
    zr_layout l = plan_layout(stage, ranks, ZR_BF16, 1);
    l.batch = 1;
    l.train = true;
    l.states = states;
    l.home.bucket_elems = BUCKET;
    l.home.buckets = 3;
    l.home.optim = home;
    return plan_gpt2(&plan_small, &l, &plan_profile);
}

static bool is_state(const zr_plan *plan, int32_t buffer)
{
    if (buffer == ZR_NONE || buffer >= plan->n_persistent) return false;
    return plan->persistent[buffer].category == ZR_CATEGORY_OPTIM &&
           plan->persistent[buffer].space == plan->layout.home.optim;
}

/* Return whether the step copies a state to the device (home false) or back home. */
static bool is_copy(const zr_plan *plan, const zr_schedule *s, const zr_step *step, bool home)
{
    return step->kind == ZR_STEP_COPY && is_state(plan, s->use[step->uses + home].buffer);
}

static void test_each_element_goes_and_comes_home(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (int way = 0; way < 4; way++) {
            const bool lean = way % 2;
            zr_plan *plan =
                plan_of(way < 2 ? ZR_SPACE_HOST : ZR_SPACE_DISK, stage, 2, lean ? ZR_STATES_LEAN : ZR_STATES_PAPER);
            const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
            int64_t fetched = 0, stored = 0, updated = 0, cast = 0, most = 0;
            for (int32_t i = 0; i < s->n_steps; i++) {
                const zr_step *step = &s->step[i];
                const int64_t n = step->range.count;
                if (is_copy(plan, s, step, false)) fetched += n;
                if (is_copy(plan, s, step, true)) stored += n;
                if (step->kind == ZR_STEP_CAST) cast += n;
                if (step->kind == ZR_STEP_UPDATE) updated += n;
                if ((step->kind == ZR_STEP_UPDATE || step->kind == ZR_STEP_CAST) && n > most) most = n;
                for (int32_t u = step->uses; u < step->uses + step->n_uses; u++)
                    assert_true(step->kind == ZR_STEP_COPY || !is_state(plan, s->use[u].buffer));
            }
            int32_t first = 0;
            while (!is_copy(plan, s, &s->step[first], false) || s->step[first].when != ZR_WHEN_ALWAYS) first++;
            assert_true(s->step[first].n_waits > 0 ||
                        cast > 0); /* without a wait, its buffer would be in use from the beginning on */
            int64_t kept = 0;
            for (int32_t u = 0; u < plan->n_units; u++) kept += plan->unit[u].update.count;
            assert_int_equal(updated, kept);
            assert_int_equal(stored, 3 * kept); /* master and two moments */
            assert_int_equal(fetched, 3 * kept + cast);
            assert_int_equal(cast > 0, stage == 3 && lean);
            assert_int_equal(most, BUCKET);
            zr_plan_destroy(&plan);
        }
}

static void expect_broken(const zr_plan *plan, const char *what)
{
    if (zr_plan_check(plan) == ZR_OK) fail_msg("%s is not noticed", what);
}

/* Check that the proof refuses the plan with this text, which is a message of the proof of homes. */
static void expect_said(const zr_plan *plan, const char *text)
{
    assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
    if (!strstr(zr_error_message(), text)) fail_msg("\"%s\" does not say \"%s\"", zr_error_message(), text);
}

/* Return the first copy, to the device or home, of a bucket that is not a unit's first. */
static zr_step *find_copy(const zr_plan *plan, bool home)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    for (int32_t i = 0; i < s->n_steps; i++)
        if (is_copy(plan, s, &s->step[i], home) && s->step[i].range.first > 0) return &s->step[i];
    fail_msg("no such copy");
    return NULL;
}

static void test_faults_are_noticed(void **state)
{
    (void)state;
    for (int stage = 1; stage <= 3; stage += 2) {
        zr_plan *plan = plan_of(stage == 1 ? ZR_SPACE_HOST : ZR_SPACE_DISK, stage, 2, ZR_STATES_LEAN);
        zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        for (int home = 0; home < 2; home++) {
            zr_step *copy = find_copy(plan, home), had = *copy;
            zr_use *use = &s->use[copy->uses], had_use[2] = {use[0], use[1]};
            *copy = (zr_step){.kind = ZR_STEP_ZERO, .unit = -1, .stream = had.stream};
            expect_broken(plan, home ? "an update that does not go home" : "a state that is not fetched");
            *copy = had;
            use[home].range.first -= BUCKET;
            expect_broken(plan, "a copy of the bucket before");
            use[home] = had_use[home];
            use[home].buffer++; /* the next unit's state, which is large enough for the range */
            expect_broken(plan, "a copy of another state");
            use[home] = had_use[home];
            use[!home].range.first += 32;
            use[!home].range.count -= 32;
            expect_broken(plan, "a copy of fewer elements");
            use[!home] = had_use[!home];
            use[home].buffer = ZR_NONE;
            expect_broken(plan, "a copy from or to no buffer");
            use[home] = had_use[home];
            copy->n_waits = 0;
            if (home || had.n_waits > 0) expect_broken(plan, "a copy that does not wait");
            *copy = had;
            assert_int_equal(zr_plan_check(plan), ZR_OK);
        }
        int32_t i = 0;
        while (s->step[i].kind != ZR_STEP_UPDATE) i++;
        zr_use *use = &s->use[s->step[i].uses], had = use[2];
        use[2].buffer = use[1].buffer; /* the master in place of the first moment */
        expect_broken(plan, "an update with another state");
        use[2] = had;
        use[2].buffer = use[3].buffer;
        expect_broken(plan, "an update with the other moment");
        use[2] = had;
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        zr_plan_destroy(&plan);
    }
}

/* Check faults that leave all ranges within their buffers, written and in order, so that only the proof of homes
 * notices them. */
static void test_only_homes_show(void **state)
{
    (void)state;
    static const char wrong[] = "computes with other elements of a state",
                      home[] = "copies elements to a state that no update";
    zr_plan *plan = plan_of(ZR_SPACE_HOST, 1, 2, ZR_STATES_PAPER);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    zr_step *fetched = find_copy(plan, false), *stored = find_copy(plan, true), *update = s->step, had;
    while (update->kind != ZR_STEP_UPDATE || update->range.first == 0) update++;
    zr_use *use = &s->use[stored->uses];
    had = *stored;
    zr_use from = use[0], to = use[1];
    stored->range.count = use[0].range.count = use[1].range.count -= 32;
    expect_said(plan, home); /* the last elements are not copied home */
    *stored = had;
    use[0] = from;
    use[1] = to;
    use[1].writes = false;
    expect_said(plan, home);
    use[1] = to;
    use = &s->use[fetched->uses];
    had = *fetched;
    from = use[0];
    fetched->range.by.elems += 32; /* elements differ on every rank except the first */
    use[0].range.by = (zr_stride){32, fetched->range.by.group};
    expect_broken(plan, "a copy of other elements on other ranks");
    *fetched = had;
    use[0] = from;
    fetched->when = ZR_WHEN_FIRST;
    expect_said(plan, "follows END");
    *fetched = had;
    fetched = find_copy(plan, false);
    while (!is_copy(plan, s, fetched, false) || fetched->range.count > BUCKET - 32) fetched++;
    s->use[fetched->uses + 1].range.first += 32; /* the last bucket of a unit has room behind it in its buffer */
    expect_said(plan, wrong);
    s->use[fetched->uses + 1].range.first -= 32;
    use = &s->use[update->uses];
    for (int k = 1; k <= 3; k++) {
        const zr_use was = use[k];
        use[k] = s->use[fetched->uses]; /* a state at its home: steps may not compute in the host's space */
        use[k].buffer = k == 1 ? plan->unit[update->unit].master.buffer : plan->unit[update->unit].slot[k - 2].buffer;
        use[k].range = update->range;
        use[k].range.by = (zr_stride){0};
        use[k].writes = true;
        expect_broken(plan, "a state that is computed with in the host's space");
        use[k] = was;
        use[k].writes = false;
        expect_said(plan, wrong);
        use[k] = was;
    }
    from = use[0];
    use[0].range.first -= update->range.first; /* the sums of the first bucket */
    expect_said(plan, "updates by other sums");
    use[0] = from;
    to = use[4];
    use[4].range.first -= update->range.first;
    expect_broken(plan, "an update of other parameters");
    use[4] = to;
    use[4].writes = false;
    expect_said(plan, "updates other elements");
    use[4] = to;
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    zr_plan_destroy(&plan);
}

/* Check that elements which are cast or copied into each other's places of a gathered unit are noticed. */
static void test_places_in_gathered_units(void **state)
{
    (void)state;
    for (int disk = 0; disk < 2; disk++) {
        zr_layout l = plan_layout(3, 1, ZR_BF16, 1);
        l.states = disk ? ZR_STATES_PAPER : ZR_STATES_LEAN;
        *(disk ? &l.home.param : &l.home.optim) = ZR_SPACE_DISK;
        l.home.bucket_elems = BUCKET;
        l.home.buckets = 3;
        zr_profile profile = plan_profile;
        profile.facts.own_memory = true; /* copies are cut into buckets too */
        zr_plan *plan = plan_gpt2(&plan_small, &l, &profile);
        const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        zr_use *place[2] = {NULL};
        for (int32_t i = 0; i < s->n_steps && !place[1]; i++) {
            zr_use *use = &s->use[s->step[i].uses];
            const bool brings = s->step[i].kind == ZR_STEP_CAST ||
                                (s->step[i].kind == ZR_STEP_COPY && s->step[i].stream == ZR_STREAM_COPY);
            if (!brings || s->buffer[use[1].buffer].unit != 1) continue;
            place[place[0] != NULL] = &use[1];
        }
        assert_true(place[0]->range.count == BUCKET && place[1]->range.count == BUCKET);
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        const zr_use had = *place[0];
        *place[0] = *place[1];
        *place[1] = had;
        expect_said(plan, "to other places of buffer");
        zr_plan_destroy(&plan);
    }
}

/* Check that sums of one unit which a reduction adds to another unit's gradient are noticed. */
static void test_sums_of_another_unit(void **state)
{
    (void)state;
    zr_layout l = plan_layout(2, 2, ZR_BF16, 3);
    l.home.grad = ZR_SPACE_HOST; /* copies in both directions are on one stream, so that their order stays the same */
    zr_plan *plan = plan_gpt2(&plan_small, &l, &plan_profile);
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    zr_use *sums[2] = {NULL};
    for (int32_t i = 0; i < s->n_steps; i++)
        if (s->step[i].kind == ZR_STEP_COPY && s->step[i].when == ZR_WHEN_LATER && s->step[i].unit <= 2 &&
            s->step[i].unit > 0)
            sums[s->step[i].unit - 1] = &s->use[s->step[i].uses];
    assert_int_equal(sums[0]->range.count, sums[1]->range.count);
    sums[0]->buffer = sums[1]->buffer;
    expect_said(plan, "into other sums than its own");
    zr_plan_destroy(&plan);
}

static zr_use reading(zr_use use)
{
    use.reads = true;
    use.writes = false;
    return use;
}

/* Exchange two neighbouring steps. */
static void swap_steps(zr_schedule *s, int32_t i)
{
    const zr_step had = s->step[i];
    s->step[i] = s->step[i + 1];
    s->step[i + 1] = had;
    for (int32_t w = 0; w < s->n_waits; w++) {
        if (s->wait[w].step == i)
            s->wait[w].step = i + 1;
        else if (s->wait[w].step == i + 1)
            s->wait[w].step = i;
    }
}

/* Move a copy of a gradient before the last op that writes it, with waits that keep both in order. */
static void copy_too_early(zr_schedule *s, int32_t copy)
{
    const int32_t gradient = s->use[s->step[copy].uses].buffer;
    int32_t op = copy;
    for (bool writes = false; !writes;) {
        op--;
        for (int32_t u = s->step[op].uses; u < s->step[op].uses + s->step[op].n_uses; u++)
            writes |= s->step[op].kind == ZR_STEP_RUN && s->use[u].buffer == gradient && s->use[u].writes;
    }
    for (int32_t i = copy; i > op; i--) swap_steps(s, i - 1);
    zr_wait *wait = zr_alloc(sizeof *wait * (size_t)(s->n_waits + 2));
    assert_non_null(wait);
    memcpy(wait, s->wait, sizeof *wait * (size_t)s->n_waits);
    zr_free(s->wait);
    s->wait = wait;
    wait[s->n_waits] = (zr_wait){.step = op - 1};
    wait[s->n_waits + 1] = (zr_wait){.step = op};
    assert_int_equal(s->step[op - 1].stream, ZR_STREAM_COMPUTE);
    for (int i = 0; i < 2; i++) {
        s->step[op + i].waits = s->n_waits + i;
        s->step[op + i].n_waits = 1;
    }
    s->n_waits += 2;
}

/* Check that a gradient which goes home without a reduction is whole and finished, and goes to its own place. */
static void test_gradients_of_one_rank(void **state)
{
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        zr_layout l = plan_layout(2, 1, ZR_BF16, 1);
        zr_profile profile = plan_profile;
        l.home.grad = ZR_SPACE_DISK;
        l.home.bucket_elems = BUCKET;
        l.home.buckets = 3;
        profile.facts.own_memory = apart;
        zr_plan *plan = plan_gpt2(&plan_small, &l, &profile);
        zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        zr_step *copy = s->step;
        while (copy->kind != ZR_STEP_COPY || copy->unit != 1) copy++;
        zr_use *use = &s->use[copy->uses], had = use[0];
        assert_int_equal(s->buffer[had.buffer].category, ZR_CATEGORY_GRAD);
        assert_int_equal(s->buffer[had.buffer].space, ZR_SPACE_DEVICE);
        use[0].range.first += 32;
        expect_broken(plan, "a copy of other elements of a gradient");
        use[0] = had;
        const zr_step kept = *copy;
        *copy = (zr_step){.kind = ZR_STEP_ZERO, .unit = -1, .stream = kept.stream};
        expect_broken(plan, "a gradient that does not go home");
        *copy = kept;
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        int parts = 0; /* besides the gradients of two units, no buffer of a whole part is needed */
        for (int32_t b = plan->n_persistent; b < s->n_buffers; b++)
            parts +=
                s->buffer[b].category == ZR_CATEGORY_GRAD && s->buffer[b].unit < 0 && s->buffer[b].bytes > 4 * BUCKET;
        assert_int_equal(parts, 0);
        if (!apart) copy_too_early(s, (int32_t)(copy - s->step));
        if (!apart) expect_said(plan, "which is not finished");
        zr_plan_destroy(&plan);
    }
}

/* Check the rules of the disk: only copies and saves access it, on the streams for it, at the beginnings of blocks, and
 * through host memory if the device has its own. */
static void test_rules_of_the_disk(void **state)
{
    (void)state;
    zr_plan *plan = plan_of(ZR_SPACE_DISK, 1, 2, ZR_STATES_PAPER);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    for (zr_stream stream = ZR_STREAM_FETCH; stream <= ZR_STREAM_STORE; stream++) {
        for (int back = 0; back < 2;
             back++) { /* no other step is on the stream COPY, so that the order stays the same */
            for (int32_t i = 0; i < s->n_steps; i++)
                if (s->step[i].stream == (back ? ZR_STREAM_COPY : stream))
                    s->step[i].stream = back ? stream : ZR_STREAM_COPY;
            if (!back) expect_said(plan, "is on stream copy");
        }
        assert_int_equal(zr_plan_check(plan), ZR_OK);
    }
    plan->profile.facts.own_memory = true;
    expect_said(plan, "in space device");
    plan->profile.facts.own_memory = false;

    zr_step *update = s->step;
    while (update->kind != ZR_STEP_UPDATE) update++;
    zr_use *use = &s->use[update->uses + 1], had = *use;
    use->buffer = plan->unit[update->unit].master.buffer;
    expect_broken(plan, "a state on disk that is computed with");
    *use = had;

    zr_buffer *last = &s->buffer[plan->unit[plan->n_units - 1].slot[1].buffer];
    last->offset += 64;
    plan->space_bytes[ZR_SPACE_DISK] += 64;
    expect_said(plan, "not from the beginning of a block");
    last->offset -= 64;
    last = &s->buffer[s->use[find_copy(plan, false)->uses + 1].buffer];
    last->offset += 64;
    expect_broken(plan, "memory that does not begin with a block");
    last->offset -= 64;
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    zr_plan_destroy(&plan);
}

/* Check that elements are not copied from home while their changed copy is on its way there, even if both copies are in
 * order. */
static void test_changes_go_home_first(void **state)
{
    (void)state;
    zr_plan *plan = plan_of(ZR_SPACE_DISK, 1, 2, ZR_STATES_PAPER);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int32_t i = 0; /* the last copy home of a bucket, before the first copy of another bucket to the device */
    while (s->step[i].stream != ZR_STREAM_STORE || s->step[i + 1].stream != ZR_STREAM_FETCH) i++;
    swap_steps(s, i);
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    zr_step *fetched = &s->step[i], *stored = &s->step[i + 1];
    assert_true(stored->n_waits == 1 && fetched->n_waits == 1);
    s->wait[stored->waits].step = i;
    fetched->range = stored->range;
    s->use[fetched->uses] = reading(s->use[stored->uses + 1]);
    expect_said(plan, "have changed elsewhere");
    zr_plan_destroy(&plan);
}

/* Check that a step that computes with a state in the host's space is noticed, in a plan for states on the device,
 * which has no copies. */
static void test_nothing_computes_at_home(void **state)
{
    (void)state;
    zr_layout l = plan_layout(2, 2, ZR_BF16, 1);
    l.train = true;
    zr_plan *plan = plan_gpt2(&plan_small, &l, &plan_profile);
    zr_buffer *slot = &plan->schedule[ZR_SCHEDULE_TRAIN].buffer[plan->unit[1].slot[0].buffer];
    slot->space = ZR_SPACE_HOST;
    slot->offset = plan->space_bytes[ZR_SPACE_HOST];
    plan->space_bytes[ZR_SPACE_HOST] += slot->bytes;
    expect_said(plan, "computes with other elements of a state");
    zr_plan_destroy(&plan);
}

static void test_other_homes_are_refused(void **state)
{
    (void)state;
    const struct {
        int stage;
        zr_homes home;
        zr_status status;
        const char *text;
    } bad[] = {
        {2,
         {.param = ZR_SPACE_HOST},
         ZR_ERR_UNSUPPORTED,
         "parameters off the device (offload_param.device cpu) at stage 2"},
        {1,
         {.grad = ZR_SPACE_HOST},
         ZR_ERR_UNSUPPORTED,
         "gradients off the device (offload_optimizer.device cpu) at stage 1"},
        {0,
         {.grad = ZR_SPACE_DISK},
         ZR_ERR_UNSUPPORTED,
         "gradients on disk (offload_optimizer.device nvme) at stage 0"},
        {2, {.optim = ZR_SPACE_STAGING}, ZR_ERR_UNSUPPORTED, "optimizer states in space \"staging\""},
        {2, {.optim = ZR_SPACE_HOST, .optim_share = 1.5}, ZR_ERR_CONFIG, "offload_optimizer.ratio is 1.5"},
        {3, {.param = ZR_SPACE_DISK, .param_share = -1}, ZR_ERR_CONFIG, "offload_param.ratio is -1"},
        {2, {.optim = ZR_SPACE_DISK, .block_bytes = 5000}, ZR_ERR_CONFIG, "transfers of 5000 bytes"},
        {2, {.optim = ZR_SPACE_DISK, .block_bytes = (int64_t)1 << 62}, ZR_ERR_CONFIG, "at most 1073741824"},
        {2,
         {.optim = ZR_SPACE_DISK, .buckets = -1},
         ZR_ERR_CONFIG,
         "sub_group_size), -1 at a time (offload_optimizer.buffer_count)"},
        {2, {.optim = ZR_SPACE_DISK, .depth = 1025}, ZR_ERR_CONFIG, "1025 transfers at a time"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        zr_layout l = plan_layout(bad[i].stage, 2, ZR_BF16, bad[i].stage == 0 ? 2 : 1);
        zr_model model = zr_gpt2(&plan_small);
        zr_plan *plan = NULL;
        l.train = true;
        l.home = bad[i].home;
        assert_int_equal(zr_plan_create(&model, &l, &plan_profile, &plan), bad[i].status);
        if (!strstr(zr_error_message(), bad[i].text)) fail_msg("\"%s\"", zr_error_message());
    }
}

/* Check that states whose squares each rank adds for its own part are refused on disk if a rank stores more than its
 * part: the optimizer's states, and in fp32 also the parameters. All other combinations are proved. */
static void test_trust_ratios_on_disk(void **state)
{
    (void)state;
    const zr_optimizer optimizer[] = {zr_lamb(ZR_LAMB_DEEPSPEED, NULL), zr_lars(0.9, 0.001, 1e-8, 0.1),
                                      zr_lars(0, 0.001, 1e-8, 0.1), zr_adamw(0.9, 0.999, 1e-8, 0.1)};
    const zr_model model = zr_gpt2(&plan_small);
    for (int way = 0; way < 4 * 2 * 3 * 2 * 4; way++) {
        const int shard = way / 8 % 3, where = way / 48;
        zr_layout l = plan_layout(3, 2, way / 4 % 2 ? ZR_F32 : ZR_BF16, 1);
        zr_plan *plan = NULL;
        l.train = true;
        l.optimizer = optimizer[way % 4];
        l.shard_ranks = shard;
        l.states = way / 24 % 2 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
        l.home.param = where % 2 ? ZR_SPACE_DISK : ZR_SPACE_HOST;
        l.home.optim = where / 2 ? ZR_SPACE_DISK : ZR_SPACE_DEVICE;
        const bool trust = way % 4 < 3, optim = where / 2, param = where % 2 && l.dtype == ZR_F32;
        const zr_status st = zr_plan_create(&model, &l, &plan_profile, &plan);
        /* a group of all ranks (2) is none */
        assert_int_equal(st, trust && shard == 1 && (optim || param) ? ZR_ERR_UNSUPPORTED : ZR_OK);
        const char *key = optim ? "optimizer states on disk (offload_optimizer.device nvme) with shard groups"
                                : "fp32 parameters on disk (offload_param.device nvme) with shard groups";
        if (st != ZR_OK && !strstr(zr_error_message(), key)) fail_msg("\"%s\"", zr_error_message());
        if (st == ZR_OK && zr_plan_check(plan) != ZR_OK) fail_msg("way %d: %s", way, zr_error_message());
        zr_plan_destroy(&plan);
    }
}

/* Check that every layout that is planned is proved, whatever is where: layouts drawn at random. */
static void test_drawn_layouts(void **state)
{
    (void)state;
    const zr_space space[] = {ZR_SPACE_DEVICE, ZR_SPACE_HOST, ZR_SPACE_DISK};
    const zr_dtype dtype[] = {ZR_F32, ZR_BF16, ZR_F16};
    const zr_optimizer optimizer[] = {zr_sgd(0, false, 0.1), zr_sgd(0.9, true, 0.1), zr_adamw(0.9, 0.999, 1e-8, 0.1),
                                      zr_lamb(ZR_LAMB_NVIDIA, NULL), zr_lars(0, 0.001, 1e-8, 0.1)};
    const zr_model model = zr_gpt2(&plan_small);
    uint64_t word = 1;
    int proved = 0;
    for (int i = 0; i < 6000; i++) {
        unsigned draw[24];
        for (int d = 0; d < 24; d++)
            draw[d] = (unsigned)((word = word * 6364136223846793005u + 1442695040888963407u) >> 33);
        zr_layout l = plan_layout((int)(draw[0] % 4), 1 << draw[1] % 3, dtype[draw[2] % 3], 1 + draw[3] % 3);
        zr_plan *plan = NULL;
        l.batch = 1;
        l.train = true;
        l.shard_ranks = draw[4] % 2 ? 1 << draw[5] % 3 : 0;
        l.states = draw[6] % 2 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
        l.norm_first = draw[7] % 2;
        l.rank_free_sums = draw[8] % 3 == 0;
        l.reduce_once = draw[9] % 4 == 0;
        l.reduce = draw[10] % 4 ? ZR_REDUCE_TO_SHARDS : ZR_REDUCE_ALL_REDUCE;
        l.accum_order = (zr_accum_order)(draw[11] % 3);
        l.accum_ahead = 1 + draw[11] / 3 % 3;
        l.home.param = space[draw[12] % 3];
        l.home.grad = space[draw[13] % 3];
        l.home.optim = space[draw[14] % 3];
        l.home.optim_share = draw[15] % 3 ? 1 : 0.5;
        l.home.bucket_elems = draw[16] % 2 ? BUCKET : 0;
        l.optimizer = optimizer[draw[17] % 5];
        l.tensor = 1 + (int)(draw[18] % 2);
        l.hpz_ranks = draw[19] % 4 ? 0 : 1 << draw[20] % 3;
        l.hierarchical = draw[21] % 4 == 0;
        l.host_ranks = draw[22] % 2 ? 1 << draw[23] % 3 : 0;
        const zr_status st = zr_plan_create(&model, &l, &plan_profile, &plan);
        if (st != ZR_OK && st != ZR_ERR_CONFIG && st != ZR_ERR_UNSUPPORTED) fail_msg("%d: %s", i, zr_error_message());
        if (st != ZR_OK) continue;
        proved++;
        if (zr_plan_check(plan) != ZR_OK)
            fail_msg("layout %d (stage %d, shard_ranks %d, %s): %s", i, l.stage, l.shard_ranks, l.optimizer.name,
                     zr_error_message());
        zr_plan_destroy(&plan);
    }
    assert_true(proved > 400);
}

/* Check that a group of one rank moves nothing, so that its stride does not count in a copy home, while the stride of a
 * larger group does. */
static void test_groups_of_one(void **state)
{
    (void)state;
    zr_layout l = plan_layout(0, 2, ZR_F32, 1);
    l.train = l.rank_free_sums = true;
    l.shard_ranks = 1;
    l.home.grad = ZR_SPACE_HOST;
    zr_plan *plan = plan_gpt2(&plan_small, &l, &plan_profile);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int seen[2] = {0};
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    for (int32_t i = 0; i < s->n_steps; i++) {
        zr_step *step = &s->step[i];
        const int32_t to = step->kind == ZR_STEP_COPY ? s->use[step->uses + 1].buffer : ZR_NONE;
        if (to == ZR_NONE || to >= plan->n_persistent || step->range.by.elems == 0) continue;
        assert_int_equal(plan->persistent[to].space, ZR_SPACE_HOST);
        const bool larger = plan->group[step->range.by.group].size > 1;
        step->range.by.elems *= 2;
        seen[larger]++;
        if (larger)
            expect_said(plan, "to a state that no update has changed");
        else
            assert_int_equal(zr_plan_check(plan), ZR_OK);
        step->range.by.elems /= 2;
    }
    assert_true(seen[0] > 0 && seen[1] > 0);
    int32_t gather = s->n_steps - 1; /* its result goes home; without it, nothing has changed */
    while (s->step[gather].kind != ZR_STEP_GATHER_GRAD) gather--;
    s->step[gather].kind = ZR_STEP_ZERO;
    expect_broken(plan, "sums that are not gathered go home");
    zr_plan_destroy(&plan);
}

/* Check that a plan of too many buckets is refused with the key that makes them larger. */
static void test_tiny_buckets(void **state)
{
    (void)state;
    zr_gpt2_config config = plan_small;
    zr_layout l = plan_layout(2, 1, ZR_BF16, 1);
    zr_plan *plan = NULL;
    l.train = true;
    l.home.optim = ZR_SPACE_HOST;
    l.home.bucket_elems = 1;
    config.vocab_size = (1 << 23) / (int)config.n_embd;
    const zr_model model = zr_gpt2(&config);
    assert_int_equal(zr_plan_create(&model, &l, &plan_profile, &plan), ZR_ERR_CONFIG);
    if (!strstr(zr_error_message(), "larger buckets (sub_group_size)")) fail_msg("%s", zr_error_message());
}

/* Check that a bucket which is larger than every state is a whole state, whatever its size. Windows do not grow with
 * it. */
static void test_huge_buckets(void **state)
{
    (void)state;
    for (int large = 0; large < 2; large++) {
        zr_gpt2_config config = plan_small;
        zr_layout l = plan_layout(2, 2, ZR_BF16, 1);
        l.train = true;
        l.home.optim = ZR_SPACE_DISK;
        l.home.bucket_elems = INT64_MAX;
        if (large) config.vocab_size = (1 << 23) / (int)config.n_embd;
        zr_plan *plan = plan_gpt2(&config, &l, &plan_profile);
        int64_t largest = 0;
        for (int32_t b = 0; b < plan->n_persistent; b++)
            if (plan->persistent[b].space == ZR_SPACE_DISK && plan->persistent[b].bytes > largest)
                largest = plan->persistent[b].bytes;
        assert_int_equal(largest > 4 * ZR_HOMES_BUCKET_ELEMS, large);
        assert_int_equal(plan->window_bytes, large ? 4 * ZR_HOMES_BUCKET_ELEMS : largest);
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        zr_plan_destroy(&plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_element_goes_and_comes_home),
        cmocka_unit_test(test_faults_are_noticed),
        cmocka_unit_test(test_only_homes_show),
        cmocka_unit_test(test_places_in_gathered_units),
        cmocka_unit_test(test_sums_of_another_unit),
        cmocka_unit_test(test_gradients_of_one_rank),
        cmocka_unit_test(test_rules_of_the_disk),
        cmocka_unit_test(test_changes_go_home_first),
        cmocka_unit_test(test_nothing_computes_at_home),
        cmocka_unit_test(test_other_homes_are_refused),
        cmocka_unit_test(test_trust_ratios_on_disk),
        cmocka_unit_test(test_drawn_layouts),
        cmocka_unit_test(test_groups_of_one),
        cmocka_unit_test(test_tiny_buckets),
        cmocka_unit_test(test_huge_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
