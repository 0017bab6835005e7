/** A small writer of SVG: shapes and text on a page, escaped and closed. A failed write shows when the stream is
 * closed, as with any stream. */
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
    bool bold;
} svg_font;

/** Write text as XML and HTML need it: markup characters as entities, bytes that are no UTF-8 and control bytes as a
 * question mark. */
void svg_escaped(FILE *out, const char *text);

/** Begin a page with a white ground; `title` is what a browser shows for it. */
void svg_begin(FILE *out, double width, double height, const char *title);
void svg_end(FILE *out);

/** Draw a rectangle. stroke NULL: no outline. `tip` (NULL: none) is shown under the mouse. */
void svg_rect(FILE *out, svg_box box, const char *fill, const char *stroke, const char *tip);
void svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *color, double width);
/** Draw a dashed line. */
void svg_dashed(FILE *out, double x1, double y1, double x2, double y2, const char *color, double width);
void svg_text(FILE *out, double x, double y, svg_font font, const char *format, ...) ZR_PRINTF(5, 6);
/** Write text that reads upwards. */
void svg_text_up(FILE *out, double x, double y, svg_font font, const char *text);

/** Draw many small shapes of one colour as one element: begin, boxes and strokes, end. */
void svg_shape_begin(FILE *out);
void svg_shape_box(FILE *out, svg_box box);
void svg_shape_line(FILE *out, double x1, double y1, double x2, double y2);
void svg_shape_fill(FILE *out, const char *color);
void svg_shape_stroke(FILE *out, const char *color, double width);

/** Draw one dashed or solid line through many points: begin, move and draw to points, end. `dash`: "5 4", NULL: solid.
 */
void svg_shape_move(FILE *out, double x, double y);
void svg_shape_to(FILE *out, double x, double y);
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
