/** cli/draw: pictures. This file writes SVG: shapes and text, escaped and closed. `axes.h` has palette, axes and legend
 * of all plots; `panel.h` draws a quantity of runs over their steps, which `curve.h` reads from metrics.jsonl and draws
 * as loss.svg; `lines.h` draws a sweep or a paper's figure, `picture.h` a plan's memory map and streams. `bars.c` shows
 * on the terminal how much memory each layout takes. */
#ifndef ZR_CLI_SVG_H
#define ZR_CLI_SVG_H

#include "zr/base.h"

#include <stdio.h>

/** A rectangle in pixels, from its upper left corner. */
typedef struct svg_box {
    double x, y, w, h;
} svg_box;

typedef enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END } svg_anchor;

/** Style of a text. */
typedef struct svg_font {
    double size;
    const char *color;
    svg_anchor anchor;
    bool bold, up; /* up: the text reads upwards */
} svg_font;

/** Write a page, or a failure, which ends it. */
typedef zr_status svg_draw(FILE *out, void *arg);
/** Let `draw` write a page in memory, which the caller frees (free). *page NULL and the failure of `draw`, or
 * ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status svg_page(svg_draw *draw, void *arg, char **page, size_t *bytes);

/** Let `draw` write an SVG picture into a file, which must not be one of `inputs` (zr__output_open). */
ZR_NODISCARD zr_status svg_write(svg_draw *draw, void *arg, const char *path, const char *const *inputs);

/** Write text as XML and HTML need it: markup characters as entities, bytes that are no UTF-8 and control bytes as a
 * question mark. _lines leaves the ends of lines as they are. */
void svg_escaped(FILE *out, const char *text);
void svg_escaped_lines(FILE *out, const char *text);

/** Begin a page with a white ground; `title` is what a browser shows for it. */
void svg_begin(FILE *out, double width, double height, const char *title);
void svg_end(FILE *out);

/** Draw a rectangle. stroke NULL: no outline. `tip` (NULL: none) is shown under the mouse. */
void svg_rect(FILE *out, svg_box box, const char *fill, const char *stroke, const char *tip);
void svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *color, double width);
/** Draw a dashed line. */
void svg_dashed(FILE *out, double x1, double y1, double x2, double y2, const char *color, double width);
void svg_text(FILE *out, double x, double y, svg_font font, const char *format, ...) ZR_PRINTF(5, 6);

/** Draw many small shapes of one colour as one element: begin, boxes and strokes, end. */
void svg_shape_begin(FILE *out);
void svg_shape_box(FILE *out, svg_box box);
void svg_shape_line(FILE *out, double x1, double y1, double x2, double y2);
void svg_shape_fill(FILE *out, const char *color);
void svg_shape_stroke(FILE *out, const char *color, double width);

/** Draw one dashed or solid line through many points: begin, points, end. *pen (false before the first point): the line
 * goes on from the last point. A y that is NaN lifts the pen. `dash`: "5 4", NULL: solid. */
void svg_shape_point(FILE *out, bool *pen, double x, double y);
void svg_shape_line_end(FILE *out, const char *color, double width, const char *dash, double opacity, const char *tip);
void svg_dot(FILE *out, double x, double y, double radius, const char *color);

/** Shorten a text to about `width` by replacing its middle with "...". Returns `fitted`. */
#define SVG_TEXT_BYTES 256
const char *svg_text_fit(const char *text, double size, double width, char fitted[SVG_TEXT_BYTES]);

/** Return 1, 2 or 5 times a power of ten, about a sixth of `range`. */
double svg_nice_step(double range);

/** Estimate the width of a text, which is left out where it has no room. */
double svg_text_width(const char *text, double size);

#endif
