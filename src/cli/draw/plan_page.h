/** The page of `zr plan --html`: the question, the answer, the memory, a picture of a step and what-ifs. */
#ifndef ZR_CLI_PLAN_PAGE_H
#define ZR_CLI_PLAN_PAGE_H

#include "cli/draw/page.h"
#include "cli/plan/choices.h"
#include "cli/plan/grid.h"

/** The first lines of every page of a plan. */
#define CLI_PLAN_PAGE_HEAD "<!doctype html>\n<!-- zr plan -->\n"

/** A row of the table of memory. */
typedef struct cli_page_part {
    char key[96]; /* path of its bytes in the output of --json */
    const char *name, *why;
    double bytes, beside;   /* bytes, and bytes in zr's plan; negative if unknown */
    const char *beside_key; /* path of `beside` in the output of --json --advice */
    const char *color;      /* color of the part in the bar; NULL for a sum */
} cli_page_part;
#define CLI_PAGE_PARTS 24
#define CLI_PAGE_FACTS 24

typedef struct cli_plan_page {
    char title[160];
    const char *command; /* the command line */
    cli_fact fact[CLI_PAGE_FACTS];
    int n_facts;
    double needs, limit;                           /* bytes that must fit, and those that there are, or 0 if unknown */
    const char *needs_key, *limit_key, *spare_key; /* their paths; spare_key is NULL if JSON does not have it */
    const char *beyond;                            /* words on the range of `needs`, or NULL */
    const char *note;                              /* for the reader of the numbers, or NULL */
    const char *system; /* name of another system, whose table has zr's bytes beside; NULL for a plan of zr */
    cli_page_part part[CLI_PAGE_PARTS];
    int n_parts;
    const char *picture; /* SVG of a step; NULL for a bar of the parts */
    const cli_grid *grid;
} cli_plan_page;

/** Begin the page of a call of `zr plan`: title, command line and the question. `system` is the title of the system. */
void cli_page_ask(cli_plan_page *page, const cli_choices *choices, const char *system, double params);
/** Add a fact. `value` is NAN for a text. */
void cli_page_add(cli_plan_page *page, const char *key, const char *label, double value, const char *format, ...)
    ZR_PRINTF(5, 6);
/** Add a row to the table of memory. */
void cli_page_part_add(cli_plan_page *page, cli_page_part part);
/** Check that the page can be written to `path` (--html), which no input of the configuration has. */
ZR_NODISCARD zr_status cli_plan_page_check(const char *path, const zr_config *config);
ZR_NODISCARD zr_status cli_plan_page_write(const cli_plan_page *page, const char *path, const zr_config *config);
/** Write the page of a plan of zr to --html. */
ZR_NODISCARD zr_status cli_plan_page_own(const cli_choices *choices, const zr_plans *plans, const cli_trial *made,
                                         const cli_grid *grid);

#endif
