/* The memory map of a plan's picture: the addresses of buffers over time. */
#include "base/text/text.h"
#include "cli/plan/table.h"
#include "cli/draw/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWN_AREA 48.0 /* minimum area of a buffer with its own SVG element and label, square pixels */
#define LABEL_SIZE 9.5

const char *cli_category_color(zr_category category)
{
    static const char *const color[ZR_CATEGORIES] = {
        [ZR_CATEGORY_PARAM] = "#0072b2", [ZR_CATEGORY_GRAD] = "#e69f00",       [ZR_CATEGORY_OPTIM] = "#009e73",
        [ZR_CATEGORY_ACT] = "#9aa7b4",   [ZR_CATEGORY_CHECKPOINT] = "#cc79a7", [ZR_CATEGORY_BUFFER] = "#d55e00",
        [ZR_CATEGORY_WORK] = "#f0e442"};
    return color[category];
}

static zr_step_time life_of(const cli_picture *p, const zr_buffer *b)
{
    return b->persistent ? (zr_step_time){0, p->span} : p->alive[b - p->schedule->buffer];
}

static svg_box box_of(const cli_picture *p, const zr_buffer *b)
{
    zr_step_time life = life_of(p, b);
    double left = cli_picture_x(p, life.begin_sec), right = cli_picture_x(p, life.end_sec);
    if (b->space == ZR_SPACE_STAGING) return (svg_box){left, p->stage_top, right - left, p->stage_height};
    double top = cli_picture_y(p, b->offset + b->bytes), bottom = cli_picture_y(p, b->offset);
    return (svg_box){left, top, right - left, bottom - top};
}

static svg_box at_least_visible(svg_box box)
{
    if (box.w < PICTURE_LEAST) box.w = PICTURE_LEAST;
    if (box.h < PICTURE_LEAST) box.h = PICTURE_LEAST;
    return box;
}

/** Return the x of a label: the middle of its box. If the mark of the fullest moment would cross the text there, return
 * an x beside the mark, if the box has room for it. */
static double label_x(const cli_picture *p, svg_box box, double width)
{
    double x = box.x + box.w / 2, away = width / 2 + 5;
    if (p->fullest_x < x - away || p->fullest_x > x + away) return x;
    if (p->fullest_x + 2 * away < box.x + box.w) return p->fullest_x + away;
    if (p->fullest_x - 2 * away > box.x) return p->fullest_x - away;
    return x;
}

/** Write the label of a buffer's box: its unit and its contents, such as "h.0 gradient". If both do not fit, write only
 * the unit. If the unit does not fit either, write "gradient" for a part of a gradient, otherwise nothing. For a buffer
 * without a unit, write its contents. */
static void draw_label(const cli_picture *p, const zr_buffer *b, svg_box box)
{
    char both[128];
    const char *unit = b->unit >= 0 ? cli_picture_unit(p, b->unit) : "", *what = b->what ? b->what : "";
    /* A buffer with only a part of a gradient is named after the op that computes the part. Its name lacks the word
     * "gradient". */
    bool part = b->category == ZR_CATEGORY_GRAD && !strstr(what, "gradient");
    snprintf(both, sizeof(both), part ? "gradient, made by %s: %s" : "%s %s", unit, cli_picture_words(what));
    const bool dark =
        b->category == ZR_CATEGORY_PARAM || b->category == ZR_CATEGORY_OPTIM || b->category == ZR_CATEGORY_BUFFER;
    const char *label[] = {unit[0] ? both : what, unit, part ? "gradient" : ""};
    if (box.h < LABEL_SIZE + 2) return;
    for (int i = 0; i < 3; i++) {
        if (!label[i][0] || svg_text_width(label[i], LABEL_SIZE) > box.w - 3) continue;
        svg_text(p->out, label_x(p, box, svg_text_width(label[i], LABEL_SIZE)), box.y + box.h / 2 + LABEL_SIZE * 0.36,
                 (svg_font){.size = LABEL_SIZE, .color = dark ? "#ffffff" : PICTURE_DARK, .anchor = SVG_MIDDLE}, "%s",
                 label[i]);
        return;
    }
}

static void draw_buffer(const cli_picture *p, const zr_buffer *b)
{
    char tip[256], when[96] = "always";
    svg_box box = at_least_visible(box_of(p, b));
    if (!b->persistent) cli_picture_when(p, b->first_step, b->last_step, life_of(p, b), when);
    snprintf(tip, sizeof(tip), "%s %s: %s of %s, %s", b->unit >= 0 ? cli_picture_unit(p, b->unit) : "",
             b->what ? cli_picture_words(b->what) : "", ZR_SIZE((double)b->bytes), cli_category_words(b->category),
             when);
    /* Draw no outline around a thin box, because it would hide the colour. */
    bool outlined = box.w > 4 && box.h > 4;
    svg_rect(p->out, box, cli_category_color(b->category), outlined ? "#ffffff" : NULL, tip);
    draw_label(p, b, box);
}

/** A grid of the memory map's pixels. It finds buffers that are at most one pixel high and are hidden by other buffers
 * of the same category. `reach` has an x for each pixel: the right end of the buffers drawn so far whose boxes begin in
 * the pixel. If a buffer begins in the pixel and ends at or before this x, it is hidden and is not drawn. */
typedef struct pixels {
    int w, h;
    int *reach;
} pixels;

static bool is_uncovered(const pixels *grid, const cli_picture *p, svg_box box)
{
    if (box.h > 1.0) return true;
    int x = (int)(box.x - p->map.x), y = (int)(box.y - p->map.y), end = (int)(box.x - p->map.x + box.w) + 1;
    if (x < 0 || y < 0 || x >= grid->w || y >= grid->h) return true;
    int *reach = &grid->reach[(size_t)y * (size_t)grid->w + (size_t)x];
    if (end <= *reach) return false;
    *reach = end;
    return true;
}

/** Draw all buffers of a category whose boxes are smaller than OWN_AREA as one SVG shape. */
static void draw_small_buffers(const cli_picture *p, zr_category category, const pixels *grid)
{
    bool begun = false;
    for (int32_t i = p->plan->n_persistent; i < p->schedule->n_buffers; i++) {
        const zr_buffer *b = &p->schedule->buffer[i];
        svg_box box = box_of(p, b);
        if (b->space != ZR_SPACE_DEVICE || b->category != category || b->bytes == 0 || box.w * box.h >= OWN_AREA ||
            !is_uncovered(grid, p, box))
            continue;
        if (!begun) svg_shape_begin(p->out);
        begun = true;
        svg_shape_box(p->out, at_least_visible(box));
    }
    if (begun) svg_shape_fill(p->out, cli_category_color(category));
}

static int by_address(const void *x, const void *y)
{
    const zr_buffer *a = *(const zr_buffer *const *)x, *b = *(const zr_buffer *const *)y;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return a->first_step - b->first_step;
}

/** Draw the model states. Merge adjacent states of the same category into one band. */
static zr_status draw_state_bands(const cli_picture *p)
{
    int32_t n = 0;
    ZR_AUTO_FREE const zr_buffer **sorted = zr_alloc(sizeof(*sorted) * (size_t)(p->plan->n_persistent + 1));
    ZR_CHECK(sorted, ZR_ERR_MEMORY, "no memory to draw %d buffers", p->plan->n_persistent);
    for (int32_t i = 0; i < p->plan->n_persistent; i++) {
        const zr_buffer *b = &p->plan->persistent[i];
        if (b->space == ZR_SPACE_STAGING) draw_buffer(p, b);
        if (b->space == ZR_SPACE_DEVICE && b->bytes > 0) sorted[n++] = b;
    }
    qsort(sorted, (size_t)n, sizeof(*sorted), by_address);
    for (int32_t i = 0; i < n;) {
        zr_buffer band = *sorted[i++];
        for (; i < n && sorted[i]->category == band.category; i++) {
            band.bytes = sorted[i]->offset + sorted[i]->bytes - band.offset;
            band.unit = -1;
            if (band.what != sorted[i]->what) band.what = cli_category_words(band.category);
        }
        draw_buffer(p, &band);
    }
    return ZR_OK;
}

zr_status cli_picture_map(const cli_picture *p)
{
    pixels grid = {.w = (int)p->map.w + 1, .h = (int)p->map.h + 1};
    size_t bytes = (size_t)grid.w * (size_t)grid.h * sizeof(*grid.reach);
    ZR_TRY(draw_state_bands(p));
    for (int32_t i = p->plan->n_persistent; i < p->schedule->n_buffers; i++) {
        svg_box box = box_of(p, &p->schedule->buffer[i]);
        const bool here = p->schedule->buffer[i].space == ZR_SPACE_DEVICE;
        if (here && box.w * box.h >= OWN_AREA) draw_buffer(p, &p->schedule->buffer[i]);
    }
    for (int c = 0; c < ZR_CATEGORIES; c++) {
        grid.reach = zr_alloc(bytes);
        ZR_CHECK(grid.reach, ZR_ERR_MEMORY, "no memory for %zu bytes of pixels", bytes);
        draw_small_buffers(p, (zr_category)c, &grid);
        zr_free(grid.reach);
    }
    return ZR_OK;
}
