/* Storage of measured schedule steps (zr_launch) in the user's cache. Each combination of machine, transport, number of
 * ranks and number of hosts has its own file. */
#include "train/launch/launch.h"
#include "train/measure/machine.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* JSON format of a sample, for json_pack. A sample is a list without names, which saves space, since a file may have a
 * thousand samples. Its elements are: kind, whether values have 16 bits, ranks, whether ranks are on several hosts,
 * FLOPs, three sizes of a matrix product, pairs, head, bytes of memory, bytes from other ranks, seconds. */
#define SAMPLE "[s,b,i,b,f,I,I,I,f,I,f,f,f]"

static void launch_key(const zr_device_facts *facts, const char *transport, int ranks, int hosts,
                       char key[ZR__MACHINE_KEY_BYTES])
{
    zr__machine_key(facts, key);
    const size_t used = strlen(key);
    snprintf(key + used, ZR__MACHINE_KEY_BYTES - used, ", %d ranks of %s on %d hosts", ranks, transport, hosts);
}

/* ---- numbers to JSON and back ---------------------------------------------------------------- */

/* Return the samples as a JSON list, or NULL if memory runs out. */
static json_t *samples_to_json(const zr_launch *launch)
{
    json_t *list = json_array();
    for (int32_t i = 0; list && i < launch->n_samples; i++) {
        const zr_step_sample *s = &launch->sample[i];
        const int64_t *size = s->cost.product.size;
        zr__machine_append(&list,
                           json_pack(SAMPLE, s->kind, s->narrow, s->ranks, s->across, s->cost.flops,
                                     (json_int_t)size[0], (json_int_t)size[1], (json_int_t)size[2], s->cost.pairs,
                                     (json_int_t)s->cost.head, s->cost.memory_bytes, s->cost.wire_bytes, s->sec));
    }
    return list;
}

/* Return the waiting times as a JSON list, or NULL if memory runs out. */
static json_t *waits_to_json(const zr_launch *launch)
{
    json_t *list = json_array();
    for (int32_t i = 0; list && i < launch->n_waits; i++)
        zr__machine_append(&list, json_pack("[f,f]", launch->wait[i].computed_sec, launch->wait[i].share));
    return list;
}

static bool waits_from_json(const json_t *list, zr_launch *launch)
{
    if (!json_is_array(list) || json_array_size(list) > ZR_LAUNCH_WAITS) return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        zr_wait_sample *w = &launch->wait[launch->n_waits++];
        if (json_unpack(json_array_get(list, i), "[F,F]", &w->computed_sec, &w->share) != 0) return false;
        if (!(w->computed_sec > 0) || !(w->share >= 0)) return false;
    }
    return true;
}

static bool sample_from_json(const json_t *json, zr_step_sample *s)
{
    const char *kind = "";
    int narrow = 0, across = 0, ranks = 0;
    json_int_t size[3] = {0}, head = 0;
    *s = (zr_step_sample){.ranks = 0};
    const bool good = json_unpack((json_t *)json, "[s,b,i,b,F,I,I,I,F,I,F,F,F]", &kind, &narrow, &ranks, &across,
                                  &s->cost.flops, &size[0], &size[1], &size[2], &s->cost.pairs, &head,
                                  &s->cost.memory_bytes, &s->cost.wire_bytes, &s->sec) == 0;
    snprintf(s->kind, sizeof(s->kind), "%s", kind);
    s->narrow = narrow;
    s->across = across;
    s->ranks = ranks;
    s->cost.head = head;
    for (int i = 0; i < 3; i++) s->cost.product.size[i] = size[i];
    const double least[] = {s->cost.flops, s->cost.pairs, s->cost.memory_bytes, s->cost.wire_bytes};
    bool counts = head >= 0 && size[0] >= 0 && size[1] >= 0 && size[2] >= 0;
    for (int i = 0; i < 4; i++) counts = counts && isfinite(least[i]) && (least[i] == 0 || least[i] >= 1);
    return good && counts && isfinite(s->sec) && s->sec > 0;
}

const zr__launch_number zr__launch_numbers[ZR__LAUNCH_NUMBERS] = {
    {"around_sec", offsetof(zr_launch, around_sec), INFINITY},
    {"lost", offsetof(zr_launch, lost), 1},
    {"late", offsetof(zr_launch, late), 1},
    {"spread", offsetof(zr_launch, spread), INFINITY},
    {"across_bytes_sec", offsetof(zr_launch, across_bytes_sec), INFINITY}};

static bool numbers_from_json(const json_t *root, zr_launch *launch)
{
    for (int i = 0; i < ZR__LAUNCH_NUMBERS; i++) {
        const json_t *number = json_object_get(root, zr__launch_numbers[i].key);
        const double x = json_number_value(number);
        if (!json_is_number(number) || !(x >= 0 && x < zr__launch_numbers[i].below)) return false;
        memcpy((char *)launch + zr__launch_numbers[i].at, &x, sizeof(x));
    }
    return true;
}

static bool launch_from_json(void *arg, const json_t *root)
{
    zr_launch *launch = arg;
    const json_t *list = json_object_get(root, "samples");
    const char *transport = "";
    int beside = 0;
    const bool good = json_unpack((json_t *)root, "{s:s, s:i, s:i, s:i, s:i, s:b}", "transport", &transport, "ranks",
                                  &launch->ranks, "hosts", &launch->hosts, "threads", &launch->threads, "cores",
                                  &launch->cores, "beside", &beside) == 0;
    if (!good || !json_is_array(list) || launch->ranks < 1 || launch->hosts < 1 || launch->threads < 1 ||
        launch->cores < 1 || !numbers_from_json(root, launch) || (launch->hosts > 1 && launch->across_bytes_sec == 0) ||
        !waits_from_json(json_object_get(root, "waits"), launch))
        return false;
    snprintf(launch->transport, sizeof(launch->transport), "%s", transport);
    launch->beside = beside;
    launch->sample = zr_alloc((json_array_size(list) + 1) * sizeof(*launch->sample));
    if (!launch->sample) return false;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!sample_from_json(json_array_get(list, i), &launch->sample[launch->n_samples++])) return false;
    return true;
}

/* ---- public ---------------------------------------------------------------------------------- */

zr_status zr__launch_remember(const zr_device_facts *facts, const zr_launch *launch)
{
    char key[ZR__MACHINE_KEY_BYTES];
    launch_key(facts, launch->transport, launch->ranks, launch->hosts, key);
    json_t *root =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:b, s:o, s:o}", "machine", key, "transport", launch->transport,
                  "ranks", launch->ranks, "hosts", launch->hosts, "threads", launch->threads, "cores", launch->cores,
                  "beside", launch->beside, "waits", waits_to_json(launch), "samples", samples_to_json(launch));
    for (int i = 0; i < ZR__LAUNCH_NUMBERS && root; i++) {
        double x;
        memcpy(&x, (const char *)launch + zr__launch_numbers[i].at, sizeof(x));
        if (json_object_set_new(root, zr__launch_numbers[i].key, json_real(x)) == 0) continue;
        json_decref(root);
        root = NULL;
    }
    return zr__machine_remember("steps", key, root);
}

static zr_status recall_exactly(const zr_device_facts *facts, const char *transport, int ranks, int hosts,
                                zr_launch *launch)
{
    char key[ZR__MACHINE_KEY_BYTES];
    *launch = (zr_launch){.ranks = 0};
    launch_key(facts, transport, ranks, hosts, key);
    zr_status st = zr__machine_recall("steps", key, launch_from_json, launch);
    if (st != ZR_OK) zr__launch_clear(launch);
    return st;
}

zr_status zr__launch_recall(const zr_device_facts *facts, const char *transport, int ranks, int hosts,
                            zr_launch *launch)
{
    zr_status st = recall_exactly(facts, transport, ranks, hosts, launch);
    int fewer = 1;
    while (2 * fewer < ranks) fewer *= 2;
    for (; st == ZR_ERR_NOT_FOUND && strcmp(transport, "threads") == 0 && fewer >= 1; fewer /= 2)
        st = recall_exactly(facts, transport, fewer, 1, launch);
    return st;
}

void zr__launch_clear(zr_launch *launch)
{
    zr_free(launch->sample);
    *launch = (zr_launch){.ranks = 0};
}
