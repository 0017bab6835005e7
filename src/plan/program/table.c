/* Reads a user's table of pipeline actions, and checks that it is a schedule. It names cells by row and column, counted
 * from 1. */
#include "base/text/text.h"
#include "plan/list/list.h"
#include "plan/program/pipeline.h"

#include <ctype.h>

#define OF_TABLE "the table of parallel.schedule_file"

/* ---- reading ----------------------------------------------------------------------------------- */

/* Read digits at *at, before `end`. Return false if there are none, or more than a number of stages or micro-batches
 * has. */
static bool read_number(const char **at, const char *end, int32_t *number)
{
    const char *first = *at;
    *number = 0;
    for (; *at < end && isdigit((unsigned char)**at) && *at < first + 9; (*at)++) *number = 10 * *number + (**at - '0');
    return *at > first;
}

/* Return whether [at, end) is a word, or a word and a number. */
static bool is_word(const char *at, const char *end, const char *word)
{
    int32_t number;
    if ((size_t)(end - at) < strlen(word) || strncmp(at, word, strlen(word)) != 0) return false;
    at += strlen(word);
    return at == end || (read_number(&at, end, &number) && at == end);
}

/* Read the cell at [at, end). Return false if it is none. An action that zr derives is read as REST, with *derived
 * true. */
static bool read_cell(const char *at, const char *end, zr_pipe_action *cell, bool *derived)
{
    static const char *const moves[] = {"SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD"};
    static const char kinds[] = "FBIW";
    *derived = false;
    if (at == end) return true;
    if (!read_number(&at, end, &cell->stage)) return false;
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) *derived = *derived || is_word(at, end, moves[i]);
    if (*derived) return true;
    const char *kind = at < end && *at ? strchr(kinds, *at) : NULL;
    if (!kind) return false;
    at++;
    if (!read_number(&at, end, &cell->micro) || at != end) return false;
    cell->kind = (zr_pipe_kind)(kind - kinds);
    return true;
}

/* Count the rows and the columns of a text. */
static void count_cells(const char *text, size_t length, int64_t *rows, int64_t *columns)
{
    int64_t commas = 0;
    *rows = 0;
    *columns = 1;
    for (size_t i = 0; i < length; i++) {
        commas = text[i] == '\n' ? 0 : commas + (text[i] == ',');
        if (commas + 1 > *columns) *columns = commas + 1;
        *rows += i + 1 == length || text[i] == '\n';
    }
}

static zr_status read_cells(const char *text, const char *end, zr_pipe_table *table)
{
    for (int32_t row = 0; row < table->rows; row++)
        for (int32_t column = 0; true; column++) {
            const char *stop = text;
            while (stop < end && *stop != ',' && *stop != '\n') stop++;
            const bool last = stop == end || *stop == '\n';
            const char *first = text, *behind = stop;
            while (first < behind && isspace((unsigned char)*first)) first++;
            while (behind > first && isspace((unsigned char)behind[-1])) behind--;
            zr_pipe_action *cell = &table->cell[(ptrdiff_t)row * table->columns + column];
            bool derived;
            char shown[32] = "";
            memcpy(shown, first, (size_t)(behind - first) < sizeof shown ? (size_t)(behind - first) : sizeof shown - 1);
            ZR_CHECK(read_cell(first, behind, cell, &derived), ZR_ERR_CONFIG,
                     OF_TABLE
                     ", row %d, column %d: \"%s\" is no action: wanted are a stage, one of F, B, I and W, and a "
                     "micro-batch, such as 2F0; a pipeline rank runs one action after the other",
                     row + 1, column + 1, ZR_SHOWN(shown));
            text = stop < end ? stop + 1 : end;
            if (last) break;
        }
    return ZR_OK;
}

zr_status zr_pipe_table_read(const char *text, size_t length, zr_pipe_table **table)
{
    ZR_CHECK(table && (text || length == 0), ZR_ERR_ARG, "zr_pipe_table_read: a NULL argument");
    while (length > 0 && isspace((unsigned char)text[length - 1])) length--;
    int64_t rows, columns;
    count_cells(text, length, &rows, &columns);
    ZR_CHECK(rows > 0, ZR_ERR_CONFIG,
             OF_TABLE " is empty: a row of cells such as 0F0 is wanted for each pipeline rank");
    ZR_CHECK(rows <= ZR_ROLES && columns <= ZR__STEPS_MAX / rows, ZR_ERR_CONFIG,
             OF_TABLE " has %lld rows of %lld cells: at most %d rows and %d cells are possible", (long long)rows,
             (long long)columns, ZR_ROLES, ZR__STEPS_MAX);
    ZR_AUTO(zr_pipe_table_destroy) zr_pipe_table *made = zr_alloc(sizeof *made);
    if (made) made->cell = zr_alloc(sizeof *made->cell * (size_t)(rows * columns));
    ZR_CHECK(made && made->cell, ZR_ERR_MEMORY, "no memory for a table of %lld cells", (long long)(rows * columns));
    made->rows = (int32_t)rows;
    made->columns = (int32_t)columns;
    for (int64_t i = 0; i < rows * columns; i++) made->cell[i].kind = ZR_PIPE_REST;
    ZR_TRY(read_cells(text, text + length, made));
    *table = ZR_TAKE(made);
    return ZR_OK;
}

void zr_pipe_table_destroy(zr_pipe_table **table)
{
    if (!table || !*table) return;
    zr_free((*table)->cell);
    zr_free(*table);
    *table = NULL;
}

/* ---- checks ------------------------------------------------------------------------------------ */

/* What is known of a table while it is checked. */
typedef struct checked {
    const zr__pipe *pipe;
    const zr_pipe_table *table;
    int32_t stages;
    int32_t *row; /* for each stage: its row, or -1 */
    int32_t *at;  /* for each kind, stage and micro-batch: index of its cell, or -1 */
} checked;

#define NAME_BYTES 64
/* Print an action, with the place of its cell. */
static const char *name_cell(const zr_pipe_table *t, int32_t index, char out[NAME_BYTES])
{
    const zr_pipe_action *a = &t->cell[index];
    (void)snprintf(out, NAME_BYTES, "%d%c%d in row %d, column %d", a->stage, "FBIW"[a->kind], a -> micro,
                   index / t -> columns + 1, index % t -> columns + 1);
    return out;
}
#define CELL(t, index) name_cell((t), (index), (char[NAME_BYTES]){0})

static int32_t *place(const checked *c, zr_pipe_kind kind, int32_t stage, int32_t micro)
{
    return &c->at[((ptrdiff_t)kind * c->stages + stage) * c->pipe->micros + micro];
}

/* Record the place of a cell. Check it alone, and with the cells before it. */
static zr_status place_cell(const checked *c, int32_t index)
{
    const zr_pipe_table *t = c->table;
    const zr_pipe_action *a = &t->cell[index];
    const int32_t row = index / t->columns, micros = c->pipe->micros;
    if (a->kind == ZR_PIPE_REST) return ZR_OK;
    ZR_CHECK(a->kind >= ZR_PIPE_F && a->kind < ZR_PIPE_REST, ZR_ERR_ARG, "cell %d of a table has the kind %d", index,
             (int)a->kind);
    ZR_CHECK(a->stage >= 0 && a->stage < c->stages, ZR_ERR_CONFIG,
             OF_TABLE ": %s: there is no stage %d; parallel.pipeline %d with parallel.chunks %d has the stages 0 to %d",
             CELL(t, index), a->stage, c->pipe->ranks, c->pipe->chunks, c->stages - 1);
    ZR_CHECK(a->micro >= 0 && a->micro < micros, ZR_ERR_CONFIG,
             OF_TABLE ": %s: there is no micro-batch %d; gradient_accumulation_steps %d has the micro-batches 0 to %d",
             CELL(t, index), a->micro, micros, micros - 1);
    ZR_CHECK(c->row[a->stage] < 0 || c->row[a->stage] == row, ZR_ERR_CONFIG,
             OF_TABLE ": %s: stage %d is in row %d too; a stage has its parameters on one rank", CELL(t, index),
             a->stage, c->row[a->stage] + 1);
    c->row[a->stage] = row;
    int32_t *at = place(c, a->kind, a->stage, a->micro);
    ZR_CHECK(*at < 0, ZR_ERR_CONFIG, OF_TABLE ": %s comes again in column %d", CELL(t, *at), index % t->columns + 1);
    *at = index;
    return ZR_OK;
}

/* Check that a stage has all passes of a micro-batch, and in their order. */
static zr_status check_passes(const checked *c, int32_t stage, int32_t micro)
{
    const zr_pipe_table *t = c->table;
    const int32_t row = c->row[stage] + 1;
    int32_t at[ZR_PIPE_REST];
    for (int k = 0; k < ZR_PIPE_REST; k++) at[k] = *place(c, (zr_pipe_kind)k, stage, micro);
    const int32_t first = at[ZR_PIPE_B] >= 0 ? at[ZR_PIPE_B] : at[ZR_PIPE_I],
                  part = at[ZR_PIPE_I] >= 0 ? at[ZR_PIPE_I] : at[ZR_PIPE_W];
    ZR_CHECK(at[ZR_PIPE_F] >= 0, ZR_ERR_CONFIG, OF_TABLE ", row %d: %dF%d is missing", row, stage, micro);
    ZR_CHECK(at[ZR_PIPE_B] < 0 || part < 0, ZR_ERR_CONFIG, OF_TABLE ": %s is a part of %s, which is there too",
             CELL(t, part), CELL(t, at[ZR_PIPE_B]));
    ZR_CHECK(at[ZR_PIPE_B] >= 0 || part >= 0, ZR_ERR_CONFIG,
             OF_TABLE ", row %d: %dB%d is missing, or %dI%d and %dW%d instead", row, stage, micro, stage, micro, stage,
             micro);
    ZR_CHECK(first >= 0, ZR_ERR_CONFIG, OF_TABLE ", row %d: %dI%d is missing, which must come before %s", row, stage,
             micro, CELL(t, part));
    ZR_CHECK(first > at[ZR_PIPE_F], ZR_ERR_CONFIG, OF_TABLE ": %s comes before its forward pass, %s", CELL(t, first),
             CELL(t, at[ZR_PIPE_F]));
    if (at[ZR_PIPE_B] >= 0) return ZR_OK;
    ZR_CHECK(at[ZR_PIPE_W] >= 0, ZR_ERR_CONFIG, OF_TABLE ", row %d: %dW%d is missing, the other part of %s", row, stage,
             micro, CELL(t, first));
    ZR_CHECK(at[ZR_PIPE_W] > first, ZR_ERR_CONFIG, OF_TABLE ": %s comes before %s, whose results it needs",
             CELL(t, at[ZR_PIPE_W]), CELL(t, first));
    return ZR_OK;
}

/* Return the cell of a stage that has a kind of pass of a micro-batch. B has both parts of a backward pass. */
static int32_t cell_of(const checked *c, zr_pipe_kind kind, int32_t stage, int32_t micro)
{
    const int32_t whole = kind == ZR_PIPE_F ? -1 : *place(c, ZR_PIPE_B, stage, micro);
    return whole >= 0 ? whole : *place(c, kind, stage, micro);
}

/* Check that a stage runs a kind of pass for the micro-batches in ascending order. */
static zr_status check_ascends(const checked *c, int32_t stage, zr_pipe_kind kind, const char *why)
{
    for (int32_t m = 1; m < c->pipe->micros; m++) {
        const int32_t before = cell_of(c, kind, stage, m - 1), index = cell_of(c, kind, stage, m);
        ZR_CHECK(index > before, ZR_ERR_CONFIG,
                 OF_TABLE ": %s comes before %s: %s; put the micro-batches of a stage in ascending order",
                 CELL(c->table, index), CELL(c->table, before), why);
    }
    return ZR_OK;
}

/* Return the cell for which rank `rank` waits in its next action: of the same stage, or of a neighbour. */
static int32_t awaited(const checked *c, const zr__timed *timed, int32_t rank)
{
    const zr_pipe_action *a = &timed->list[(ptrdiff_t)rank * timed->room + timed->timed[rank]];
    const bool forward = a->kind == ZR_PIPE_F;
    return cell_of(c, forward ? ZR_PIPE_F : ZR_PIPE_I, forward ? a->stage - 1 : a->stage + 1, a->micro);
}

/* Check that no ranks wait for each other in a circle. */
static zr_status check_ends(const checked *c)
{
    const zr_pipe_table *t = c->table;
    ZR_AUTO(zr__timed_end) zr__timed timed = {0};
    ZR_AUTO(zr__text_clear) zr__text circle = {0};
    ZR_TRY(zr__timed_begin(&timed, c->pipe));
    int32_t rank = 0;
    while (rank < c->pipe->ranks && timed.timed[rank] == timed.n[rank]) rank++;
    if (rank == c->pipe->ranks) return ZR_OK;
    /* from any rank that waits, as many steps as there are ranks lead into the circle */
    for (int32_t i = 0; i < c->pipe->ranks; i++) rank = awaited(c, &timed, rank) / t->columns;
    for (int32_t first = rank, other = -1; other < 0 || rank != first; rank = other / t->columns) {
        const zr_pipe_action *a = &timed.list[(ptrdiff_t)rank * timed.room + timed.timed[rank]];
        const int32_t own = *place(c, a->kind, a->stage, a->micro);
        if (own == other)
            zr__text_add(&circle, ", which waits for ");
        else
            zr__text_add(&circle, "%s%s waits for ", other < 0 ? "" : "; before that, ", CELL(t, own));
        other = awaited(c, &timed, rank);
        zr__text_add(&circle, "%s", CELL(t, other));
    }
    ZR_CHECK(!circle.failed, ZR_ERR_MEMORY, "no memory for a message");
    return ZR_FAIL(ZR_ERR_CONFIG, OF_TABLE " never ends: %s, which comes after the first of these cells", circle.data);
}

static zr_status check_cells(const checked *c)
{
    const zr_pipe_table *t = c->table;
    int32_t chunks[ZR_ROLES] = {0};
    for (int32_t i = 0; i < t->rows * t->columns; i++) ZR_TRY(place_cell(c, i));
    for (int32_t s = 0; s < c->stages; s++) {
        ZR_CHECK(c->row[s] >= 0, ZR_ERR_CONFIG,
                 OF_TABLE " has no cell of stage %d; parallel.pipeline %d with parallel.chunks %d has %d stages", s,
                 c->pipe->ranks, c->pipe->chunks, c->stages);
        chunks[c->row[s]]++;
    }
    for (int32_t r = 0; r < t->rows; r++)
        ZR_CHECK(chunks[r] == c->pipe->chunks, ZR_ERR_CONFIG,
                 OF_TABLE ", row %d, has %d stages: %d are wanted in each row (parallel.chunks)", r + 1, chunks[r],
                 c->pipe->chunks);
    for (int32_t s = 0; s < c->stages; s++)
        for (int32_t m = 0; m < c->pipe->micros; m++) ZR_TRY(check_passes(c, s, m));
    for (int32_t s = 0; s < c->stages; s++) {
        ZR_TRY(check_ascends(c, s, ZR_PIPE_W, "sums of gradients, and so their bits, have the order of the passes"));
        ZR_TRY(check_ascends(c, s, ZR_PIPE_F, "values travel in the order of the micro-batches"));
        ZR_TRY(check_ascends(c, s, ZR_PIPE_I, "values travel in the order of the micro-batches"));
    }
    return check_ends(c);
}

zr_status zr__pipe_check_table(const zr__pipe *p)
{
    const zr_pipe_table *t = p->table;
    ZR_CHECK(t && t->cell && t->rows > 0 && t->columns > 0 && t->columns <= ZR__STEPS_MAX / t->rows, ZR_ERR_ARG,
             "ZR_PIPELINE_TABLE without a table of at most %d cells: set zr_layout.pipeline_table", ZR__STEPS_MAX);
    ZR_CHECK(t->rows == p->ranks, ZR_ERR_CONFIG,
             OF_TABLE " has %d rows: %d are wanted, one for each pipeline rank "
                      "(parallel.pipeline)",
             t->rows, p->ranks);
    const int64_t stages = (int64_t)p->ranks * p->chunks;
    int32_t last = 0; /* micro-batch */
    for (int32_t i = 0; i < t->rows * t->columns; i++)
        if (t->cell[i].kind != ZR_PIPE_REST && t->cell[i].micro > last) last = t->cell[i].micro;
    ZR_CHECK(p->micros <= last + 1, ZR_ERR_CONFIG,
             OF_TABLE " has the micro-batches 0 to %d, but gradient_accumulation_steps is %d; give %d", last, p->micros,
             last + 1);
    const size_t places = (size_t)(ZR_PIPE_REST * stages * p->micros);
    ZR_AUTO_FREE int32_t *number = zr_alloc(sizeof *number * (places + (size_t)stages));
    ZR_CHECK(number, ZR_ERR_MEMORY, "no memory to check a table of %d cells", t->rows * t->columns);
    for (size_t i = 0; i < places + (size_t)stages; i++) number[i] = -1;
    const checked c = {p, t, (int32_t)stages, number, number + stages};
    return check_cells(&c);
}
