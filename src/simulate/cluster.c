/* Reads clusters from files. A file may include another file, whose values are applied first. All included files stay
 * in memory until the cluster has been checked. Therefore every message can name the file and position of a value. */
#include "simulate/simulate.h"
#include "base/json/json.h"
#include "base/text/text.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_FILES = 16, MESSAGE_BYTES = 1024 };

/* ---- keys ------------------------------------------------------------------------------------- */

typedef enum kind {
    OTHER, /* a value that take_fields does not read */
    TEXT,
    RATE,
    SECONDS,
    SHARE,
    SIZE,
    COUNT,
    BYTES,
    FLAG
} kind;

/* A key of a JSON object, and the struct member that receives its value. */
typedef struct field {
    const char *key;
    kind kind;
    size_t at;
    size_t bytes; /* for TEXT: capacity of the member in bytes */
    bool must;
} field;

/* Bounds of each kind of value. No real machine exceeds them, and within them no sum or product of the cost model
 * overflows a double. */
static const struct {
    double min, max;
    const char *wanted;
} kinds[] = {[RATE] = {1, 1e21, "a rate a second, from 1 to 1e21,"},
             [SECONDS] = {0, 3600, "a number of seconds from 0 to 3600"},
             [SHARE] = {1e-6, 1, "a share from 1e-6 to 1"},
             [SIZE] = {0, 1e9, "a size from 0 to 1e9"},
             [COUNT] = {1, 1 << 24, "a whole number from 1 to 16777216"},
             [BYTES] = {1, 0x1p53, "a size above 0, as 32000000000 or \"32GB\","},
             [FLAG] = {0, 1, "true or false"}};

#define COUNT_OF(list) ((int)(sizeof(list) / sizeof(*(list))))
#define NAME(type) .key = "name", .kind = TEXT, .at = offsetof(type, name), .bytes = sizeof(((type *)0)->name)
#define FIELD(k, t, member) .key = k, .kind = t, .at = offsetof(zr_cluster, member)
#define LINK_FIELD(k, t, member) .key = k, .kind = t, .at = offsetof(zr_cluster_link, member)

static const field top_fields[] = {{.key = "include"},
                                   {NAME(zr_cluster)},
                                   {FIELD("devices", COUNT, devices)},
                                   {.key = "device"},
                                   {.key = "host"},
                                   {.key = "links"},
                                   {.key = "software"},
                                   {FIELD("link_share", SHARE, link_share)},
                                   {FIELD("collective_sec", SECONDS, step_sec)},
                                   {.key = "collectives"}};
static const field device_fields[] = {{FIELD("memory_bytes", BYTES, device.memory_bytes), .must = true},
                                      {FIELD("flops_f32_per_sec", RATE, device.flops_f32), .must = true},
                                      {FIELD("flops_bf16_per_sec", RATE, device.flops_bf16)},
                                      {FIELD("flops_fp8_per_sec", RATE, device.flops_fp8)},
                                      {FIELD("flops_fp4_per_sec", RATE, device.flops_fp4)},
                                      {FIELD("memory_bytes_per_sec", RATE, device.memory_bytes_sec), .must = true},
                                      {FIELD("usable_bytes", BYTES, device.usable_bytes)},
                                      {FIELD("through_host", FLAG, device.through_host)},
                                      {FIELD("launch_sec", SECONDS, launch_sec)},
                                      {FIELD("product_share", SHARE, product_share)},
                                      {FIELD("product_half_size", SIZE, product_half)},
                                      {FIELD("attention_share", SHARE, attention_share)},
                                      {FIELD("memory_share", SHARE, memory_share)}};
static const field host_fields[] = {{FIELD("devices", COUNT, host_devices)},
                                    {FIELD("memory_bytes", BYTES, host_memory_bytes)},
                                    {FIELD("device_bytes_per_sec", RATE, host_bytes_sec)},
                                    {FIELD("memory_bytes_per_sec", RATE, device.host_memory_bytes_sec)},
                                    {FIELD("disk_bytes_per_sec", RATE, disk_bytes_sec)}};
static const field software_fields[] = {
    {FIELD("scores_bytes", SIZE, scores_bytes)},    {FIELD("product_multiple", COUNT, product_multiple)},
    {FIELD("product_bits", COUNT, product_bits)},   {FIELD("cast_factor", SIZE, cast_factor)},
    {FIELD("context_ranks", COUNT, context_ranks)}, {FIELD("reduce_factor", SIZE, reduce_factor)},
    {FIELD("gather_factor", SIZE, gather_factor)},  {FIELD("tensor_factor", SIZE, tensor_factor)},
    {FIELD("pass_factor", SIZE, pass_factor)},      {FIELD("update_factor", SIZE, update_factor)},
    {FIELD("copies_hold", FLAG, copies_hold)},      {FIELD("exchanges_beside", FLAG, exchanges_beside)}};
static const field link_fields[] = {{NAME(zr_cluster_link)},
                                    {LINK_FIELD("devices", COUNT, devices), .must = true},
                                    {LINK_FIELD("bytes_per_sec", RATE, bytes_sec), .must = true},
                                    {LINK_FIELD("shared_bytes_per_sec", RATE, shared_bytes_sec)},
                                    {LINK_FIELD("latency_sec", SECONDS, latency_sec)},
                                    {LINK_FIELD("share", SHARE, share)}};
enum { FIELDS_MOST = COUNT_OF(device_fields) }; /* the longest of these tables */
static const char *const algorithms[] = {[ZR_ALGORITHM_AUTO] = "auto",
                                         [ZR_ALGORITHM_RING] = "ring",
                                         [ZR_ALGORITHM_TREE] = "tree",
                                         [ZR_ALGORITHM_EXCHANGE] = "exchange"};

/* ---- one file --------------------------------------------------------------------------------- */

typedef struct source {
    char path[PATH_MAX];
    char *text;
    const char *body; /* the text without a byte order mark */
    size_t bytes;     /* length of `body` */
    json_t *root;
    /* device, inode: identity of the file under any name; both 0 if the file is missing, which reading will report */
    dev_t device;
    ino_t inode;
} source;

/* A file, the file that it includes, and so on. The last file includes no other file. */
typedef struct chain {
    int n;
    const zr__generation *generation; /* generation of the named device, or NULL if unknown */
    source source[MOST_FILES];
} chain;

static const zr__json_place top;

static zr_status refuse_at(const source *s, const zr__json_place *place, const char *format, ...) ZR_PRINTF(3, 4);
static zr_status refuse_at(const source *s, const zr__json_place *place, const char *format, ...)
{
    char message[MESSAGE_BYTES];
    ZR_PRINT_ARGS(message, format);
    return zr__json_fail(s->body, s->bytes, s->path, place, ZR_ERR_DATA, message);
}

static zr_status refuse_key(const source *s, const zr__json_place *place, const field *fields, int n)
{
    const char *names[FIELDS_MOST];
    char all[512] = "";
    for (int i = 0; i < n; i++) {
        size_t used = strlen(all);
        names[i] = fields[i].key;
        snprintf(all + used, sizeof(all) - used, "%s%s", i ? ", " : "", names[i]);
    }
    const char *near = zr__text_nearest(place->key, names, n);
    if (near) return refuse_at(s, place, "unknown key; did you mean %s?", near);
    return refuse_at(s, place, "unknown key; there are: %s", all);
}

static zr_status take_text(const source *s, const zr__json_place *place, const json_t *json, char *out, size_t room)
{
    const char *text = json_string_value(json);
    if (!text || !*text) return refuse_at(s, place, "is %s; a name was wanted", ZR_JSON_SHOWN(json));
    if (strlen(text) >= room) return refuse_at(s, place, "has %zu bytes; at most %zu fit", strlen(text), room - 1);
    zr__text_escape(text, out, room);
    return ZR_OK;
}

static bool take_field_number(kind of, const json_t *json, void *out)
{
    double number = json_number_value(json);
    if (of == BYTES) return zr__json_bytes(json, out) && *(int64_t *)out >= 1;
    if (of == FLAG) *(bool *)out = json_is_true(json);
    if (of == FLAG) return json_is_boolean(json);
    if (!json_is_number(json) || !(number >= kinds[of].min && number <= kinds[of].max)) return false;
    if (of == COUNT)
        *(int32_t *)out = (int32_t)number;
    else
        *(double *)out = number;
    return of != COUNT || number == floor(number);
}

/* Read the members of one JSON object into the struct at `base`. */
static zr_status take_fields(const source *s, const zr__json_place *parent, json_t *object, const field *fields, int n,
                             void *base)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return refuse_at(s, parent, "is %s; an object { ... } was wanted", ZR_JSON_SHOWN(object));
    json_object_foreach(object, key, value)
    {
        const zr__json_place place = {parent, key, 0};
        const field *f = fields;
        while (f < fields + n && strcmp(f->key, key) != 0) f++;
        if (f == fields + n) return refuse_key(s, &place, fields, n);
        char *out = (char *)base + f->at;
        if (f->kind == TEXT)
            ZR_TRY(take_text(s, &place, value, out, f->bytes));
        else if (f->kind != OTHER && !take_field_number(f->kind, value, out))
            return refuse_at(s, &place, "is %s; %s was wanted", ZR_JSON_SHOWN(value), kinds[f->kind].wanted);
    }
    return ZR_OK;
}

/* Check that all required fields were given. A required field may not be 0, so 0 means that it was not given. */
static zr_status check_required(const source *s, const zr__json_place *parent, const field *fields, int n,
                                const void *base)
{
    static const char zero[sizeof(double)];
    for (const field *f = fields; f < fields + n; f++) {
        const zr__json_place place = {parent, f->key, 0};
        size_t bytes = f->kind == COUNT ? sizeof(int32_t) : sizeof(double);
        if (f->must && memcmp((const char *)base + f->at, zero, bytes) == 0)
            return refuse_at(s, &place, "is missing; %s is wanted", kinds[f->kind].wanted);
    }
    return ZR_OK;
}

static zr_status take_link(const source *s, const zr__json_place *place, json_t *json, int32_t below,
                           zr_cluster_link *link)
{
    ZR_TRY(take_fields(s, place, json, link_fields, COUNT_OF(link_fields), link));
    ZR_TRY(check_required(s, place, link_fields, COUNT_OF(link_fields), link));
    const zr__json_place devices = {place, "devices", 0};
    if (link->devices <= below)
        return refuse_at(s, &devices, "is %d; more than the %d of the level below were wanted", link->devices, below);
    if (link->devices % below != 0)
        return refuse_at(s, &devices, "is %d; a multiple of the %d of the level below was wanted", link->devices,
                         below);
    return ZR_OK;
}

static zr_status take_links(const source *s, json_t *json, zr_cluster *cluster)
{
    const zr__json_place place = {&top, "links", 0};
    size_t i;
    json_t *one;
    if (!json_is_array(json))
        return refuse_at(s, &place, "is %s; an array [ ... ] of levels was wanted, narrowest first",
                         ZR_JSON_SHOWN(json));
    memset(cluster->link, 0, sizeof(cluster->link));
    cluster->n_links = 0;
    json_array_foreach(json, i, one)
    {
        const zr__json_place level = {&place, NULL, i};
        if (i == ZR_CLUSTER_LINKS) return refuse_at(s, &level, "there are at most %d levels", ZR_CLUSTER_LINKS);
        zr_cluster_link *link = &cluster->link[i];
        snprintf(link->name, sizeof(link->name), "links[%zu]", i);
        ZR_TRY(take_link(s, &level, one, i ? link[-1].devices : 1, link));
        cluster->n_links++;
    }
    return ZR_OK;
}

static zr_status take_device(chain *c, const source *s, json_t *json, zr_cluster *cluster)
{
    const zr__json_place place = {&top, "device", 0};
    const char *name = json_string_value(json);
    if (!name) return take_fields(s, &place, json, device_fields, COUNT_OF(device_fields), cluster);
    zr_status st = zr__cluster_device(name, &cluster->device);
    if (st == ZR_ERR_NOT_FOUND) return refuse_at(s, &place, "%s", zr_error_message());
    ZR_TRY(st);
    c->generation = zr__generation_of(name);
    return ZR_OK;
}

static zr_status take_algorithm(const source *s, const json_t *json, zr_cluster *cluster)
{
    const zr__json_place place = {&top, "collectives", 0};
    const char *word = json_string_value(json);
    for (int i = 0; word && i < COUNT_OF(algorithms); i++) {
        if (strcmp(word, algorithms[i]) != 0) continue;
        cluster->algorithm = (zr_algorithm)i;
        return ZR_OK;
    }
    const char *near = word ? zr__text_nearest(word, algorithms, COUNT_OF(algorithms)) : NULL;
    return refuse_at(s, &place, "is %s; %s%s%sauto, ring, tree or exchange was wanted", ZR_JSON_SHOWN(json),
                     near ? "did you mean " : "", near ? near : "", near ? "? " : "");
}

/* Name a cluster after its file, in case the file gives no name. Otherwise the cluster would keep the name of the
 * cluster that it includes. */
static void name_by_path(const source *s, zr_cluster *cluster)
{
    const char *slash = strrchr(s->path, '/'), *name = slash ? slash + 1 : s->path;
    size_t n = strlen(name);
    char stem[NAME_MAX + 1];
    if (n > 5 && strcmp(name + n - 5, ".json") == 0) n -= 5;
    snprintf(stem, sizeof(stem), "%.*s", (int)(n < NAME_MAX ? n : NAME_MAX), name);
    zr__text_escape(stem, cluster->name, sizeof(cluster->name));
}

static zr_status take_source(chain *c, const source *s, zr_cluster *cluster)
{
    const zr__json_place host_place = {&top, "host", 0}, software_place = {&top, "software", 0};
    json_t *device = json_object_get(s->root, "device"), *host = json_object_get(s->root, "host"),
           *links = json_object_get(s->root, "links"), *algorithm = json_object_get(s->root, "collectives"),
           *software = json_object_get(s->root, "software");
    name_by_path(s, cluster);
    ZR_TRY(take_fields(s, &top, s->root, top_fields, COUNT_OF(top_fields), cluster));
    if (device) ZR_TRY(take_device(c, s, device, cluster));
    if (host) ZR_TRY(take_fields(s, &host_place, host, host_fields, COUNT_OF(host_fields), cluster));
    if (software)
        ZR_TRY(take_fields(s, &software_place, software, software_fields, COUNT_OF(software_fields), cluster));
    if (links) ZR_TRY(take_links(s, links, cluster));
    if (algorithm) ZR_TRY(take_algorithm(s, algorithm, cluster));
    return ZR_OK;
}

/* ---- a file and what it includes -------------------------------------------------------------- */

static zr_status parse_source(source *s)
{
    zr_status st = zr__json_parse(s->text, s->bytes, s->path, &s->root);
    s->body = s->text;
    zr__json_skip_mark(&s->body, &s->bytes);
    if (st == ZR_ERR_CONFIG) return ZR_FAIL(ZR_ERR_DATA, "%s", zr_error_message());
    ZR_TRY(st);
    if (!json_is_object(s->root)) return refuse_at(s, &top, "an object { ... } was wanted: a cluster");
    return ZR_OK;
}

/* Reject the next file if it is already in the chain (`a -> b -> a`). */
static zr_status check_cycle(const chain *c, const zr__json_place *place)
{
    const source *next = &c->source[c->n], *first = c->source;
    char trail[MESSAGE_BYTES - 64] = "";
    while (first < next && (first->device != next->device || first->inode != next->inode)) first++;
    if (first == next) return ZR_OK;
    for (const source *s = first; s <= next; s++) {
        size_t used = strlen(trail);
        snprintf(trail + used, sizeof(trail) - used, "%s%s", s > first ? " -> " : "",
                 ZR_SHOWN(s < next ? s->path : first->path));
    }
    return refuse_at(next - 1, place, "files include each other: %s", trail);
}

static void identify_source(source *s)
{
    struct stat info = {0};
    if (stat(s->path, &info) != 0) return;
    s->device = info.st_dev;
    s->inode = info.st_ino;
}

static zr_status read_included(chain *c, const zr__json_place *place, const char *include)
{
    source *s = &c->source[c->n - 1], *next = s + 1;
    if (c->n == MOST_FILES) return refuse_at(s, place, "files include each other at most %d deep", MOST_FILES);
    const char *slash = strrchr(s->path, '/'); /* relative paths start in the folder of the including file */
    const size_t folder = slash && *include != '/' ? (size_t)(slash - s->path) + 1 : 0;
    memcpy(next->path, s->path, folder);
    if (snprintf(next->path + folder, PATH_MAX - folder, "%s", include) >= (int)(PATH_MAX - folder))
        return refuse_at(s, place, "the path is longer than %d bytes", PATH_MAX - 1);
    identify_source(next);
    ZR_TRY(check_cycle(c, place));
    zr_status st = zr__json_read_file(next->path, &next->text, &next->bytes);
    if (st == ZR_ERR_NOT_FOUND || st == ZR_ERR_DATA) return refuse_at(s, place, "%s", zr_error_message());
    ZR_TRY(st);
    c->n++;
    ZR_TRY(parse_source(next));
    return ZR_OK;
}

/* Read the included files one after another. Each step reads the file that the last file of the chain includes. The
 * name of a built-in cluster ends the chain. */
static zr_status read_includes(chain *c, zr_cluster *cluster)
{
    const zr__json_place place = {&top, "include", 0};
    for (;;) {
        const source *s = &c->source[c->n - 1];
        const json_t *json = json_object_get(s->root, "include");
        const char *include = json_string_value(json);
        if (!json) return ZR_OK;
        if (!include || !*include)
            return refuse_at(s, &place, "is %s; a file or the name of a cluster was wanted", ZR_JSON_SHOWN(json));
        if (!zr__json_is_file_name(include)) {
            zr_status st = zr__cluster_named(include, cluster);
            return st == ZR_ERR_NOT_FOUND ? refuse_at(s, &place, "%s", zr_error_message()) : st;
        }
        ZR_TRY(read_included(c, &place, include));
    }
}

static zr_status read_chain(const char *path, chain *c, zr_cluster *cluster)
{
    source *s = &c->source[0];
    ZR_CHECK(strlen(path) < sizeof(s->path), ZR_ERR_NOT_FOUND, "%s: the path is longer than %d bytes", ZR_SHOWN(path),
             PATH_MAX - 1);
    snprintf(s->path, sizeof(s->path), "%s", path);
    identify_source(s);
    zr_status st = zr__json_read(path, &s->text, &s->bytes);
    if (st == ZR_ERR_CONFIG) return ZR_FAIL(ZR_ERR_DATA, "%s", zr_error_message());
    ZR_TRY(st);
    c->n = 1;
    ZR_TRY(parse_source(s));
    ZR_TRY(read_includes(c, cluster));
    for (int i = c->n; i-- > 0;) ZR_TRY(take_source(c, &c->source[i], cluster));
    return ZR_OK;
}

/* ---- checks of the whole ---------------------------------------------------------------------- */

static bool stands_in(const source *s, const zr__json_place *place)
{
    int line, column;
    return zr__json_find(s->body, s->bytes, place, &line, &column);
}

/* Return the file whose value takes effect. If no file gives the value, return the first file. */
static const source *source_of(const chain *c, const zr__json_place *place)
{
    for (int i = 0; i < c->n; i++)
        if (stands_in(&c->source[i], place)) return &c->source[i];
    return &c->source[0];
}

static bool is_in_chain(const chain *c, const zr__json_place *place)
{
    return stands_in(source_of(c, place), place);
}

/* Check the levels of links. Drop all levels above the first level that connects all devices, since an included cluster
 * may have more levels than needed. */
static zr_status settle_links(const chain *c, zr_cluster *cluster)
{
    const zr__json_place links = {&top, "links", 0}, devices = {&top, "devices", 0};
    const zr__json_place *place = is_in_chain(c, &devices) ? &devices : &links;
    const source *s = source_of(c, place);
    const int32_t all = cluster->devices;
    zr_cluster_link *link = cluster->link;
    int n = cluster->n_links;
    const bool named = n > 0 && !is_in_chain(c, &links); /* whether the links come from a named cluster */
    if (named && link[n - 1].devices > cluster->host_devices && link[n - 1].devices < all)
        link[n - 1].devices = all; /* `devices` adds hosts */
    if (all > 1 && n == 0) return refuse_at(source_of(c, &links), &links, "is missing; %d devices need links", all);
    if (n && link[n - 1].devices < all)
        return refuse_at(s, place, "the last level, %s, connects %d of the %d devices; it must connect all",
                         link[n - 1].name, link[n - 1].devices, all);
    while (n && (all == 1 || (n > 1 && link[n - 2].devices >= all))) link[--n] = (zr_cluster_link){0};
    cluster->n_links = n;
    if (n > 1 && all % link[n - 2].devices != 0)
        return refuse_at(s, place, "%d devices are no multiple of the %d that %s connects", all, link[n - 2].devices,
                         link[n - 2].name);
    if (n) link[n - 1].devices = all;
    return ZR_OK;
}

static zr_status settle_host_devices(const chain *c, zr_cluster *cluster)
{
    const zr__json_place host = {&top, "host", 0}, place = {&host, "devices", 0};
    const int n = cluster->n_links;
    int32_t *devices = &cluster->host_devices;
    if (!*devices) *devices = n > 1 ? cluster->link[n - 2].devices : cluster->devices;
    if (*devices > cluster->devices) *devices = cluster->devices;
    if (cluster->devices % *devices == 0) return ZR_OK;
    return refuse_at(source_of(c, &place), &place, "is %d; the %d devices are no multiple of that", *devices,
                     cluster->devices);
}

/* Fill in the shares of peak rates that no file gives, from the generation of the named device. */
static void settle_device_shares(const chain *c, zr_cluster *cluster)
{
    const struct {
        const char *key;
        zr__reached reached;
        double *out;
    } shares[] = {{"product_share", ZR__PRODUCT_SHARE, &cluster->product_share},
                  {"product_half_size", ZR__PRODUCT_HALF, &cluster->product_half},
                  {"attention_share", ZR__ATTENTION_SHARE, &cluster->attention_share},
                  {"memory_share", ZR__MEMORY_SHARE, &cluster->memory_share}};
    const zr__json_place device = {&top, "device", 0};
    for (int i = 0; c->generation && i < COUNT_OF(shares); i++) {
        const zr__json_place place = {&device, shares[i].key, 0};
        if (is_in_chain(c, &place)) continue;
        *shares[i].out = c->generation->value[shares[i].reached];
        if (shares[i].reached == ZR__PRODUCT_SHARE) *shares[i].out *= c->generation->sustained;
    }
}

/* If no file gives link_share (the share of a link's rate that exchanges reach), set it from the GPU generation of the
 * named device, or to 1 if the generation is unknown. If a file gives links and the generation is known, also set
 * missing network latencies from the generation. Missing NVLink shares are set only if no file gives link_share. */
static void settle_link_shares(const chain *c, zr_cluster *cluster)
{
    const zr__json_place links = {&top, "links", 0};
    const zr__generation *generation = c->generation;
    const bool shares = cluster->link_share == 0; /* whether no file gave a share of a link's rate */
    if (shares) cluster->link_share = generation ? generation->value[ZR__LINK_SHARE] : 1;
    if (!generation || !is_in_chain(c, &links)) return;
    for (int i = 0; i < cluster->n_links; i++) {
        zr_cluster_link *link = &cluster->link[i];
        const zr__json_place level = {&links, NULL, (size_t)i}, latency = {&level, "latency_sec", 0};
        /* Treat the first level as a link within hosts, even if it also connects hosts. */
        const bool within = link->devices <= cluster->host_devices || (i == 0 && cluster->host_devices > 1);
        if (within && shares && link->share == 0 && !zr__through_pcie(cluster))
            link->share = generation->value[ZR__NVLINK_SHARE];
        if (!within && !stands_in(source_of(c, &links), &latency))
            link->latency_sec = generation->value[ZR__NETWORK_SEC];
    }
}

static zr_status settle_cluster(const chain *c, zr_cluster *cluster)
{
    const zr__json_place device = {&top, "device", 0};
    ZR_TRY(check_required(source_of(c, &device), &device, device_fields, COUNT_OF(device_fields), cluster));
    if (!cluster->devices) cluster->devices = cluster->n_links ? cluster->link[cluster->n_links - 1].devices : 1;
    ZR_TRY(settle_links(c, cluster));
    ZR_TRY(settle_host_devices(c, cluster));
    settle_device_shares(c, cluster);
    settle_link_shares(c, cluster);
    return ZR_OK;
}

static void close_chain(chain **c)
{
    for (int i = 0; *c && i < MOST_FILES; i++) {
        json_decref((*c)->source[i].root);
        zr_free((*c)->source[i].text);
    }
    zr_free(*c);
}

zr_status zr_cluster_read(const char *name, zr_cluster *cluster)
{
    if (!zr__json_is_file_name(name)) return zr__cluster_named(name, cluster);
    zr_cluster read = {.product_share = 1, .memory_share = 1};
    ZR_AUTO(close_chain) chain *c = zr_alloc(sizeof(*c));
    ZR_CHECK(c, ZR_ERR_MEMORY, "no memory to read a cluster's file");
    ZR_TRY(read_chain(name, c, &read));
    ZR_TRY(settle_cluster(c, &read));
    read.any_hosts = false; /* a file fixes the number of devices */
    *cluster = read;
    return ZR_OK;
}
