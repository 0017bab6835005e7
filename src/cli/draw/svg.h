/** cli/draw: pictures. `svg.h` writes SVG shapes and escaped text. `axes.h` has the palette, axes and legend of all
 * plots. `panel.h` draws one quantity, such as the loss, of several runs. `curve.h` reads quantities from metrics.jsonl
 * and draws loss.svg. `lines.h` draws the lines of a sweep. `picture.h` draws the memory map and streams of a plan.
 * `page.h` writes what pages of HTML share, and `plan_page.h` the page of a plan.
 * `bars.c` prints the choices of `zr plan` on the terminal, each with a bar of its memory. */
#ifndef ZR_CLI_SVG_H
#define ZR_CLI_SVG_H

#include "zr/base.h"

#include <stdio.h>

/** A rectangle in pixels: its upper left corner, width and height. */
typedef struct svg_box {
    double x, y, w, h;
} svg_box;

typedef enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END } svg_anchor;

/** Style of a text. */
typedef struct svg_font {
    double size;
    const char *color;
    svg_anchor anchor;
    bool bold, up; /* `up`: whether the text runs upwards */
} svg_font;

/** Write a page to `out`. If this callback fails, the page is discarded. */
typedef zr_status svg_draw(FILE *out, void *arg);
/** Write a page to memory by calling `draw`. The caller releases *page with svg_page_free. On failure, set *page to
 * NULL, and return the status of `draw` or ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status svg_page(svg_draw *draw, void *arg, char **page, size_t *bytes);
void svg_page_free(char **page);

/** Write an SVG picture into the file `path` by calling `draw`. The file must not be one of `inputs` (see
 * zr__output_open). */
ZR_NODISCARD zr_status svg_write(svg_draw *draw, void *arg, const char *path, const char *const *inputs);

/** Write text, escaped for XML and HTML. Markup characters become entities. Control bytes and invalid UTF-8 become
 * question marks. svg_escaped_lines keeps newlines. */
void svg_escaped(FILE *out, const char *text);
void svg_escaped_lines(FILE *out, const char *text);

/** Begin a page with a white background. A browser shows `title` as the page's title. */
void svg_begin(FILE *out, double width, double height, const char *title);
void svg_end(FILE *out);

/** Draw a rectangle. `stroke` is the colour of its outline, or NULL for no outline. `tip` is its tooltip, or NULL. */
void svg_rect(FILE *out, svg_box box, const char *fill, const char *stroke, const char *tip);
void svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *color, double width);
void svg_dashed(FILE *out, double x1, double y1, double x2, double y2, const char *color, double width);
void svg_text(FILE *out, double x, double y, svg_font font, const char *format, ...) ZR_PRINTF(5, 6);

/** Draw many small shapes of one colour as one SVG element. Call svg_shape_begin first. Then call svg_shape_box or
 * svg_shape_line for each shape. At the end call svg_shape_fill or svg_shape_stroke. */
void svg_shape_begin(FILE *out);
void svg_shape_box(FILE *out, svg_box box);
void svg_shape_line(FILE *out, double x1, double y1, double x2, double y2);
void svg_shape_fill(FILE *out, const char *color);
void svg_shape_stroke(FILE *out, const char *color, double width);

/** Draw one line through many points. Call svg_shape_begin, then svg_shape_point for each point, and at the end
 * svg_shape_line_end. *pen tells whether the line continues from the previous point. Set it to false before the first
 * point. A point whose y is NAN leaves a gap. `dash` is a pattern such as "5 4", or NULL for a solid line. */
void svg_shape_point(FILE *out, bool *pen, double x, double y);
void svg_shape_line_end(FILE *out, const char *color, double width, const char *dash, double opacity, const char *tip);
void svg_dot(FILE *out, double x, double y, double radius, const char *color);

/** Shorten a text to about `width` pixels by replacing its middle with "...". Return `fitted`. */
#define SVG_TEXT_BYTES 256
const char *svg_text_fit(const char *text, double size, double width, char fitted[SVG_TEXT_BYTES]);

/** Return the distance between ticks of an axis: about a sixth of `range`, rounded to 1, 2 or 5 times a power of ten.
 * */
double svg_nice_step(double range);

/** Estimate the width of a text in pixels. */
double svg_text_width(const char *text, double size);

#endif
