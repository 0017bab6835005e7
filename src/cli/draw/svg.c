#include "cli/draw/svg.h"

#include "base/text/text.h"
#include "cli/shell/message.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MEAN_LETTER 0.56 /* mean width of a letter in sans-serif fonts, as a multiple of the font size */

zr_status svg_page(svg_draw *draw, void *arg, char **page, size_t *bytes)
{
    *page = NULL;
    FILE *out = open_memstream(page, bytes);
    ZR_CHECK(out, ZR_ERR_MEMORY, "no memory to draw");
    zr_status st = draw(out, arg);
    bool failed = ferror(out) != 0;
    failed |= fclose(out) != 0;
    if (st == ZR_OK && failed) st = ZR_FAIL(ZR_ERR_MEMORY, "no memory to draw");
    if (st != ZR_OK) svg_page_free(page);
    return st;
}

void svg_page_free(char **page)
{
    free(*page); /* allocated by open_memstream, not by zr_alloc */
    *page = NULL;
}

zr_status svg_write(svg_draw *draw, void *arg, const char *path, const char *const *inputs)
{
    ZR_AUTO(svg_page_free) char *page = NULL;
    size_t bytes = 0;
    ZR_TRY(svg_page(draw, arg, &page, &bytes));
    return zr__output_write(path, &cli_svg_kind, inputs, page, bytes);
}

static void svg_escape(FILE *out, const char *text, bool lines)
{
    int64_t bytes = (int64_t)strlen(text);
    for (int64_t i = 0; i < bytes;) {
        int64_t n = zr__text_utf8(text + i, bytes - i);
        unsigned char c = (unsigned char)text[i];
        if (lines && c == '\n') {
            fputc('\n', out);
        } else if (n == 0 || c < 0x20 || c == 0x7f) {
            fputc('?', out);
        } else if (c == '<' || c == '>' || c == '&' || c == '"' || c == '\'') {
            fprintf(out, "&#%d;", c);
        } else {
            fwrite(text + i, 1, (size_t)n, out);
        }
        i += n ? n : 1;
    }
}

void svg_escaped(FILE *out, const char *text)
{
    svg_escape(out, text, false);
}

void svg_escaped_lines(FILE *out, const char *text)
{
    svg_escape(out, text, true);
}

#define NUMBER_BYTES 40
/** Write a number with at most two decimals and without trailing zeros into `text`. A page has thousands of numbers, so
 * short numbers keep it small. Return the text. */
static const char *svg_number(double x, char text[NUMBER_BYTES])
{
    int n = snprintf(text, NUMBER_BYTES, "%.2f", x);
    while (n > 0 && text[n - 1] == '0') n--;
    if (n > 0 && text[n - 1] == '.') n--;
    text[n] = '\0';
    return strcmp(text, "-0") == 0 ? "0" : text;
}
#define NUMBER(x) svg_number((x), (char[NUMBER_BYTES]){0})

/** End an element. Unless `tip` is NULL, add it as the element's tooltip. */
static void svg_element_end(FILE *out, const char *element, const char *tip)
{
    if (!tip) {
        fputs("/>\n", out);
        return;
    }
    fputs("><title>", out);
    svg_escaped(out, tip);
    fprintf(out, "</title></%s>\n", element);
}

void svg_begin(FILE *out, double width, double height, const char *title)
{
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
            "font-family=\"DejaVu Sans, Verdana, Helvetica, sans-serif\">\n<title>",
            width, height, width, height);
    svg_escaped(out, title);
    fputs("</title>\n", out);
    svg_rect(out, (svg_box){0, 0, width, height}, "#ffffff", NULL, NULL);
}

void svg_end(FILE *out)
{
    fputs("</svg>\n", out);
}

void svg_rect(FILE *out, svg_box box, const char *fill, const char *stroke, const char *tip)
{
    fprintf(out, "<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" fill=\"%s\"", NUMBER(box.x), NUMBER(box.y),
            NUMBER(box.w), NUMBER(box.h), fill);
    if (stroke) fprintf(out, " stroke=\"%s\" stroke-width=\"0.6\"", stroke);
    svg_element_end(out, "rect", tip);
}

static void svg_segment(FILE *out, const double end[4], const char *color, double width, const char *dash)
{
    fprintf(out, "<line x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\" stroke-width=\"%s\" stroke=\"%s\"%s/>\n",
            NUMBER(end[0]), NUMBER(end[1]), NUMBER(end[2]), NUMBER(end[3]), NUMBER(width), color, dash);
}

void svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *color, double width)
{
    svg_segment(out, (const double[]){x1, y1, x2, y2}, color, width, "");
}

void svg_dashed(FILE *out, double x1, double y1, double x2, double y2, const char *color, double width)
{
    svg_segment(out, (const double[]){x1, y1, x2, y2}, color, width, " stroke-dasharray=\"5 4\"");
}

void svg_text(FILE *out, double x, double y, svg_font font, const char *format, ...)
{
    static const char *const anchor[] = {"start", "middle", "end"};
    char text[512];
    ZR_PRINT_ARGS(text, format);
    fprintf(out, "<text x=\"%s\" y=\"%s\" font-size=\"%s\" fill=\"%s\"", NUMBER(x), NUMBER(y), NUMBER(font.size),
            font.color);
    if (font.anchor != SVG_START) fprintf(out, " text-anchor=\"%s\"", anchor[font.anchor]);
    if (font.bold) fputs(" font-weight=\"700\"", out);
    if (font.up) fprintf(out, " transform=\"rotate(-90 %.1f %.1f)\"", x, y);
    fputc('>', out);
    svg_escaped(out, text);
    fputs("</text>\n", out);
}

void svg_shape_begin(FILE *out)
{
    fputs("<path d=\"", out);
}

void svg_shape_box(FILE *out, svg_box box)
{
    fprintf(out, "M%s %sh%sv%sh%sz", NUMBER(box.x), NUMBER(box.y), NUMBER(box.w), NUMBER(box.h), NUMBER(-box.w));
}

void svg_shape_line(FILE *out, double x1, double y1, double x2, double y2)
{
    fprintf(out, "M%s %sL%s %s", NUMBER(x1), NUMBER(y1), NUMBER(x2), NUMBER(y2));
}

void svg_shape_fill(FILE *out, const char *color)
{
    fprintf(out, "\" fill=\"%s\"/>\n", color);
}

void svg_shape_stroke(FILE *out, const char *color, double width)
{
    fprintf(out, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.2f\"/>\n", color, width);
}

void svg_shape_point(FILE *out, bool *pen, double x, double y)
{
    if (!isnan(y)) fprintf(out, "%c%s %s", *pen ? 'L' : 'M', NUMBER(x), NUMBER(y));
    *pen = !isnan(y);
}

void svg_shape_line_end(FILE *out, const char *color, double width, const char *dash, double opacity, const char *tip)
{
    fprintf(out, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.2f\" stroke-linejoin=\"round\"", color, width);
    if (dash) fprintf(out, " stroke-dasharray=\"%s\"", dash);
    if (opacity < 1) fprintf(out, " opacity=\"%.2f\"", opacity);
    svg_element_end(out, "path", tip);
}

void svg_dot(FILE *out, double x, double y, double radius, const char *color)
{
    fprintf(out, "<circle cx=\"%s\" cy=\"%s\" r=\"%s\" fill=\"%s\"/>\n", NUMBER(x), NUMBER(y), NUMBER(radius), color);
}

/** Return whether `c` is the first byte of a UTF-8 character. */
static bool begins(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

const char *svg_text_fit(const char *text, double size, double width, char fitted[SVG_TEXT_BYTES])
{
    size_t bytes = strlen(text), most = (size_t)(width / (MEAN_LETTER * size));
    if (most > SVG_TEXT_BYTES - 1) most = SVG_TEXT_BYTES - 1;
    if (bytes <= most) {
        snprintf(fitted, SVG_TEXT_BYTES, "%s", text);
        return fitted;
    }
    /* Keep more of the end of the text than of its beginning, because names of runs differ mostly at their ends. */
    size_t keep = most > 3 ? most - 3 : 0, head = keep / 3, tail = bytes - (keep - head);
    while (head > 0 && !begins(text[head])) head--;
    while (tail < bytes && !begins(text[tail])) tail++;
    snprintf(fitted, SVG_TEXT_BYTES, "%.*s...%s", (int)head, text, text + tail);
    return fitted;
}

double svg_nice_step(double range)
{
    double power = pow(10.0, floor(log10(range / 6.0))), times = range / 6.0 / power;
    return power * (times < 1.5 ? 1 : times < 3.5 ? 2 : times < 7.5 ? 5 : 10);
}

double svg_text_width(const char *text, double size)
{
    return MEAN_LETTER * size * (double)strlen(text);
}
