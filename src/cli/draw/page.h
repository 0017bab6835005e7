/** Pages of HTML that need no other file and no script: what `zr report` and `zr plan --html` share. */
#ifndef ZR_CLI_PAGE_H
#define ZR_CLI_PAGE_H

#include <stdbool.h>
#include <stdio.h>

/** A figure with its label. The figure is a number or a text. */
typedef struct cli_fact {
    const char *key, *label; /* `key` is the figure's key in JSON; `label` is for people */
    char text[160];          /* text of the figure, or "" if unknown */
    double value;            /* NAN if the figure is a text or unknown */
} cli_fact;

/** Begin a page. `head` has its first lines, by which zr knows its own pages. */
void page_begin(FILE *out, const char *head, const char *title);
/** End a page. `from` names its source, such as the command line. */
void page_end(FILE *out, const char *from);

/** Write text between two pieces of markup. The text is escaped, so that no part of it is read as markup. */
void page_escaped(FILE *out, const char *before, const char *text, const char *after);
/** Write a number as an HTML element: its text is for people, and its attributes give programs the exact value. */
void page_data(FILE *out, const char *key, double value, const char *words);
/** Write a fact, or "-" if it is unknown. */
void page_fact(FILE *out, const cli_fact *fact);
/** Write the facts that are known, with their labels. */
void page_facts(FILE *out, const cli_fact *fact, int n);
/** Write a bar of a share of its full width, with a mark at another share unless it is NAN. */
void page_bar(FILE *out, double share, double mark);

#endif
