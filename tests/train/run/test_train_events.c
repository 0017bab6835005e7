//TEST timeout=20
/* Event files for TensorBoard, read by this test's own parser: framing, checksums, fields; a resumed run, a full disk,
 * and a run that cannot begin. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "support/tempdir.h"
#include "told_run.h"
#include "train/dir/run_dir.h"
#include "zr/run.h"

/* ---- a reader --------------------------------------------------------------------------------- */

enum { EVENTS = 64, SCALARS = 16, FILES = 8 };

typedef struct event {
    double wall_sec;
    int64_t step;
    char version[32];
    bool start; /* a SessionLog START */
    int n;
    struct {
        char tag[64];
        float value;
    } scalar[SCALARS];
} event;

typedef struct bytes {
    const unsigned char *at, *end;
} bytes;

/* Return the CRC-32C, calculated as a division of polynomials, highest bit first. */
static uint32_t crc32c(const unsigned char *data, size_t n)
{
    uint32_t rest = 0xffffffffu, turned = 0;
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            const uint32_t in = (data[i] >> bit & 1u) ^ rest >> 31;
            rest = rest << 1 ^ (in ? 0x1edc6f41u : 0);
        }
    for (int bit = 0; bit < 32; bit++) turned |= (rest >> bit & 1u) << (31 - bit);
    return ~turned;
}

static uint64_t take(bytes *b, int n)
{
    uint64_t x = 0;
    assert_true(b->end - b->at >= n);
    for (int i = 0; i < n; i++) x |= (uint64_t)b->at[i] << 8 * i;
    b->at += n;
    return x;
}

static uint64_t take_varint(bytes *b)
{
    uint64_t x = 0;
    for (int shift = 0;; shift += 7) {
        const uint64_t byte = take(b, 1);
        x |= (byte & 0x7f) << shift;
        if (byte < 0x80) return x;
    }
}

static bytes take_part(bytes *b)
{
    const uint64_t n = take_varint(b);
    assert_true(n <= (uint64_t)(b->end - b->at));
    bytes part = {b->at, b->at + n};
    b->at += n;
    return part;
}

static void take_text(bytes *b, char *out, size_t room)
{
    const bytes text = take_part(b);
    assert_true((size_t)(text.end - text.at) < room);
    memcpy(out, text.at, (size_t)(text.end - text.at));
    out[text.end - text.at] = '\0';
}

static void read_summary(bytes summary, event *e)
{
    while (summary.at < summary.end) {
        assert_int_equal(take_varint(&summary), 1 << 3 | 2);
        bytes value = take_part(&summary);
        assert_true(e->n < SCALARS);
        assert_int_equal(take_varint(&value), 1 << 3 | 2);
        take_text(&value, e->scalar[e->n].tag, sizeof e->scalar[0].tag);
        assert_int_equal(take_varint(&value), 2 << 3 | 5);
        const uint32_t bits = (uint32_t)take(&value, 4);
        memcpy(&e->scalar[e->n].value, &bits, 4);
        assert_true(value.at == value.end);
        e->n++;
    }
}

static event read_event(bytes data)
{
    event e = {.step = 0};
    while (data.at < data.end) {
        const uint64_t key = take_varint(&data);
        if (key == (1 << 3 | 1)) {
            const uint64_t bits = take(&data, 8);
            memcpy(&e.wall_sec, &bits, 8);
        } else if (key == (2 << 3 | 0)) {
            e.step = (int64_t)take_varint(&data);
        } else if (key == (3 << 3 | 2)) {
            take_text(&data, e.version, sizeof e.version);
        } else if (key == (5 << 3 | 2)) {
            read_summary(take_part(&data), &e);
        } else {
            assert_int_equal(key, 7 << 3 | 2);
            bytes log = take_part(&data);
            assert_int_equal(take_varint(&log), 1 << 3 | 0);
            e.start = take_varint(&log) == 1;
            assert_true(e.start && log.at == log.end);
        }
    }
    return e;
}

static void expect_sum(const unsigned char *data, size_t n, uint32_t masked)
{
    const uint32_t crc = crc32c(data, n);
    assert_int_equal(masked, (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8u));
}

static int read_records(const unsigned char *data, size_t n, event *out)
{
    int found = 0;
    bytes b = {data, data + n};
    while (b.at < b.end) {
        const unsigned char *head = b.at;
        const uint64_t length = take(&b, 8);
        expect_sum(head, 8, (uint32_t)take(&b, 4));
        assert_true(length <= (uint64_t)(b.end - b.at));
        const bytes body = {b.at, b.at + length};
        b.at += length;
        expect_sum(body.at, (size_t)length, (uint32_t)take(&b, 4));
        assert_true(found < EVENTS);
        out[found++] = read_event(body);
    }
    return found;
}

static size_t read_file(const char *name, unsigned char data[1 << 16])
{
    FILE *file = fopen(in_tempdir(name), "rb");
    if (!file) fail_msg("no %s", name);
    const size_t n = fread(data, 1, 1 << 16, file);
    fclose(file);
    return n;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Find the event files of a folder, in the order in which they are read. */
static int find_files(const char *folder, char name[FILES][256])
{
    int n = 0;
    char entry[400];
    DIR *dir = opendir(in_tempdir(folder));
    if (!dir) return 0;
    for (struct dirent *e; (e = readdir(dir));) {
        if (!strstr(e->d_name, "tfevents")) continue;
        assert_true(n < FILES);
        snprintf(entry, sizeof entry, "%s/%s", folder, e->d_name);
        assert_true(strlen(entry) < sizeof name[0]);
        memcpy(name[n++], entry, strlen(entry) + 1);
    }
    closedir(dir);
    qsort(name, (size_t)n, sizeof name[0], by_name);
    return n;
}

/* Read all event files of a folder as TensorBoard does: a SessionLog START at a step removes the records before it of
 * that step and of later steps. */
static int read_all(const char *folder, event *out, int64_t starts[FILES])
{
    static unsigned char data[1 << 16];
    static event part[EVENTS];
    char name[FILES][256];
    int n = 0;
    const int files = find_files(folder, name);
    for (int f = 0; f < files; f++) {
        const int found = read_records(data, read_file(name[f], data), part);
        assert_true(found > 0);
        assert_string_equal(part[0].version, "brain.Event:2");
        starts[f] = 0;
        for (int i = 1; i < found; i++) {
            int kept = 0;
            assert_true(part[i].wall_sec > 1.6e9 && part[i].wall_sec >= part[i - 1].wall_sec - 60);
            assert_true(n < EVENTS);
            if (!part[i].start) out[n++] = part[i];
            if (!part[i].start) continue;
            starts[f] = part[i].step;
            for (int j = 0; j < n; j++)
                if (out[j].step < part[i].step) out[kept++] = out[j];
            n = kept;
        }
    }
    return n;
}

static const float *find(const event *e, const char *tag)
{
    for (int i = 0; i < e->n; i++)
        if (strcmp(e->scalar[i].tag, tag) == 0) return &e->scalar[i].value;
    return NULL;
}

/* ---- records ---------------------------------------------------------------------------------- */

static void the_sum_is_crc32c(void **state)
{
    (void)state;
    /* the published check value of CRC-32C (RFC 3720) */
    assert_int_equal(crc32c((const unsigned char *)"123456789", 9), 0xe3069283u);
}

static void a_file_begins_as_tensorflows(void **state)
{
    (void)state;
    /* Every event file of TensorFlow begins with a length of 24 bytes and the checksum of that length. */
    static const unsigned char wanted[13] = {0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22, 0x09};
    char record[ZR_EVENT_BYTES];
    event e;
    const int n = zr__event_version(1.5e9, record);
    assert_memory_equal(record, wanted, sizeof wanted);
    assert_int_equal(read_records((unsigned char *)record, (size_t)n, &e), 1);
    assert_string_equal(e.version, "brain.Event:2");
    assert_true(e.wall_sec == 1.5e9 && e.step == 0 && e.n == 0);
}

static void all_scalars_of_a_step(void **state)
{
    (void)state;
    const zr_train_step step = {.step = 123456789012345,
                                .loss = NAN,
                                .grad_norm = 0.5,
                                .loss_scale = 0x1p24,
                                .noise = true,
                                .noise_scale = INFINITY,
                                .muon = true,
                                .tokens = 1 << 20};
    zr__scalar scalar[ZR_SCALARS];
    char record[ZR_EVENT_BYTES], tag[64];
    event e;
    const int n = zr__metrics_step_scalars(&step, scalar);
    assert_int_equal(n, 14);
    const int length = zr__event_scalars(2.5, step.step, "train", scalar, n, record);
    assert_int_equal(read_records((unsigned char *)record, (size_t)length, &e), 1);
    assert_int_equal(e.n, n);
    assert_true(e.step == step.step && e.wall_sec == 2.5);
    for (int i = 0; i < n; i++) {
        snprintf(tag, sizeof tag, "train/%s", scalar[i].name);
        assert_string_equal(e.scalar[i].tag, tag);
        if (!isnan(scalar[i].value)) assert_true(e.scalar[i].value == (float)scalar[i].value);
    }
    assert_true(isnan(*find(&e, "train/loss")) && *find(&e, "train/loss_scale") == 0x1p24f);
}

/* ---- runs ------------------------------------------------------------------------------------- */

static void train(told *t, bool resume, int steps, const char *key)
{
    static const char base[] =
        "{\"model\": {\"n_layer\": 1, \"n_head\": 2, \"n_embd\": 16, \"n_positions\": 8}, \"data\": {\"train\": "
        "\"%s/text\", \"val\": \"%s/text\"}, \"train_batch_size\": 4, \"train\": {\"steps\": %d, \"eval_interval\": 3, "
        "\"eval_batches\": 1, \"threads\": 1, \"save_interval\": 3, \"output_dir\": \"%s/run\"}}";
    char text[800];
    job j = {.told = t, .resume = resume};
    memset(t, 0, sizeof *t);
    snprintf(text, sizeof text, base, tempdir, tempdir, steps, tempdir);
    if (zr_config_parse(text, strlen(text), "c.json", &key, key ? 1 : 0, &j.config) != ZR_OK ||
        zr_train_prepare(j.config, 2, 0) != ZR_OK)
        fail_msg("%s", zr_error_message());
    t->status = zr_comm_threads_run(2, train_rank, &j);
    zr_config_destroy(&j.config);
}

static void clear(void)
{
    nftw(in_tempdir("run"), tempdir_unlink, 8, FTW_DEPTH | FTW_PHYS);
}

/* Check that each step from 1 is recorded once, with the observer's numbers if the observer was called for it, and that
 * evaluations are recorded every three steps and at the end. */
static void expect_events(const told *t, int steps)
{
    static event e[EVENTS];
    int64_t starts[FILES];
    int step = 0, evals = 0;
    const int n = read_all("run", e, starts);
    for (int i = 0; i < n; i++) {
        const float *val = find(&e[i], "val/loss"), *loss = find(&e[i], "train/loss");
        if (val) {
            evals++;
            assert_true(e[i].step == step && *val > 0 && *find(&e[i], "val/tokens") > 0);
            continue;
        }
        assert_non_null(loss);
        assert_int_equal(e[i].step, ++step);
        const int told_from = t->steps ? (int)t->step[0].step : 0;
        if (step < told_from) continue;
        const zr_train_step *s = &t->step[step - told_from];
        assert_true(*loss == (float)s->loss && *find(&e[i], "train/lr") == (float)s->lr);
        assert_true(*find(&e[i], "train/grad_norm") == (float)s->grad_norm);
        assert_true(*find(&e[i], "train/tokens_per_sec") == (float)s->tokens_per_sec);
    }
    assert_int_equal(step, steps);
    assert_int_equal(evals, (steps + 2) / 3);
}

static void a_run_and_one_that_goes_on(void **state)
{
    (void)state;
    static told t;
    static unsigned char before[1 << 16], after[1 << 16];
    static event e[EVENTS];
    char name[FILES][256];
    int64_t starts[FILES];
    train(&t, false, 6, "train.tensorboard=true");
    if (t.status != ZR_OK) fail_msg("%s", t.message);
    assert_int_equal(find_files("run", name), 1); /* only rank 0 writes events */
    expect_events(&t, 6);
    (void)read_all("run", e, starts);
    assert_int_equal(starts[0], 0);
    const size_t length = read_file(name[0], before);

    /* Resume from the end, then from an earlier checkpoint, so that the steps after it are repeated. */
    train(&t, true, 8, "train.tensorboard=true");
    if (t.status != ZR_OK) fail_msg("%s", t.message);
    expect_events(&t, 8);
    nftw(in_tempdir("run/step-00000008"), tempdir_unlink, 8, FTW_DEPTH | FTW_PHYS);
    nftw(in_tempdir("run/model"), tempdir_unlink, 8, FTW_DEPTH | FTW_PHYS);
    train(&t, true, 9, "train.tensorboard=true");
    if (t.status != ZR_OK) fail_msg("%s", t.message);
    expect_events(&t, 9);
    assert_int_equal(find_files("run", name), 3);
    (void)read_all("run", e, starts);
    assert_true(starts[1] == 7 && starts[2] == 7);
    assert_int_equal(read_file(name[0], after), length); /* earlier files are not touched */
    assert_memory_equal(before, after, length);

    /* A start that is refused leaves no file. */
    assert_int_equal(link(in_tempdir("run/metrics.jsonl"), in_tempdir("run/same")), 0);
    train(&t, true, 12, "train.tensorboard=true");
    assert_int_equal(t.status, ZR_ERR_CREATE);
    assert_int_equal(find_files("run", name), 3);
    clear();
}

static void none_where_none_is_asked_for(void **state)
{
    (void)state;
    static told t;
    char name[FILES][256];
    train(&t, false, 2, NULL);
    assert_int_equal(t.status, ZR_OK);
    assert_int_equal(find_files("run", name), 0);
    clear();
}

/* ---- files ------------------------------------------------------------------------------------ */

static void a_new_file_sorts_behind(void **state)
{
    (void)state;
    char name[ZR_EVENTS_NAME_BYTES], first[ZR_EVENTS_NAME_BYTES];
    zr__events_name(in_tempdir("nowhere"), first);
    assert_int_equal(strncmp(first, "events.out.tfevents.", 20), 0);
    zr__events_name(tempdir, name);
    assert_true(strcmp(name, first) >= 0);
    put_file("events.out.tfevents.4000000000.zz.1", "", 0); /* another host's clock */
    zr__events_name(tempdir, name);
    assert_int_equal(strncmp(name, "events.out.tfevents.4000000001.", 31), 0);
    assert_int_equal(remove(in_tempdir("events.out.tfevents.4000000000.zz.1")), 0);
}

static void most_bytes(rlim_t most)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_full_disk(void **state)
{
    (void)state;
    static unsigned char data[1 << 16];
    zr__run_dir dir = ZR_RUN_DIR_INIT;
    char record[ZR_EVENT_BYTES], name[FILES][256];
    event e[EVENTS];
    for (int room = 0; room < 2; room++) { /* at the end the disk has room, or has none */
        assert_int_equal(zr__run_dir_open(&dir, in_tempdir("run"), "{}"), ZR_OK);
        assert_int_equal(zr__run_dir_add_events(&dir), ZR_OK);
        int n = zr__event_version(1, record);
        assert_int_equal(zr__metrics_write(&dir.events, record, (size_t)n), ZR_METRICS_NO_NEWS);
        most_bytes((rlim_t)n + 5); /* room for a part of a record */
        n = zr__event_start(2, 3, record);
        assert_int_equal(zr__metrics_write(&dir.events, record, (size_t)n), ZR_METRICS_KEPT);
        if (room) most_bytes(RLIM_INFINITY);
        const zr_status st = zr__run_dir_end(&dir);
        most_bytes(RLIM_INFINITY);
        assert_int_equal(st, room ? ZR_OK : ZR_ERR_IO);
        if (!room) assert_non_null(strstr(zr_error_message(), "events.out.tfevents."));
        if (!room) assert_non_null(strstr(zr_error_message(), "lacks 1 record that could not be written"));
        assert_int_equal(find_files("run", name), 1);
        assert_int_equal(read_records(data, read_file(name[0], data), e), 1 + room);
        zr__run_dir_close(&dir);
        clear();
    }
}

static void a_run_that_cannot_begin_leaves_none(void **state)
{
    (void)state;
    zr__run_dir dir = ZR_RUN_DIR_INIT;
    char name[FILES][256];
    assert_int_equal(zr__run_dir_open(&dir, in_tempdir("run"), "{}"), ZR_OK);
    assert_int_equal(zr__run_dir_add_events(&dir), ZR_OK);
    assert_int_equal(find_files("run", name), 1);
    zr__run_dir_undo(&dir);
    assert_int_equal(find_files("run", name), 0);
    clear();
}

static int prepare(void **state)
{
    static char text[400];
    signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i % 26);
    if (tempdir_make(state) != 0) return -1;
    put_file("text", text, sizeof text);
    return setenv("XDG_CACHE_HOME", in_tempdir("cache"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_is_crc32c),
        cmocka_unit_test(a_file_begins_as_tensorflows),
        cmocka_unit_test(all_scalars_of_a_step),
        cmocka_unit_test(a_run_and_one_that_goes_on),
        cmocka_unit_test(none_where_none_is_asked_for),
        cmocka_unit_test(a_new_file_sorts_behind),
        cmocka_unit_test(a_full_disk),
        cmocka_unit_test(a_run_that_cannot_begin_leaves_none),
    };
    return cmocka_run_group_tests(tests, prepare, tempdir_remove);
}
