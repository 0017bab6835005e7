#include "cli/draw/plan_page.h"

#include "base/paths/output.h"
#include "base/text/text.h"
#include "cli/draw/picture.h"
#include "cli/plan/table.h"
#include "cli/shell/config.h"
#include "config/config.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* Size of the bar in pixels, so narrow that its text is readable on a phone. */
#define BAR_WIDTH 440.0
#define BAR_TOP 8.0
#define BAR_HEIGHT 44.0
#define LINE_HEIGHT 20.0

void cli_page_add(cli_plan_page *page, const char *key, const char *label, double value, const char *format, ...)
{
    va_list args;
    if (page->n_facts == CLI_PAGE_FACTS) return;
    cli_fact *fact = &page->fact[page->n_facts++];
    *fact = (cli_fact){.key = key, .label = label, .value = value};
    va_start(args, format);
    vsnprintf(fact->text, sizeof(fact->text), format, args);
    va_end(args);
}

void cli_page_part_add(cli_plan_page *page, cli_page_part part)
{
    if (page->n_parts < CLI_PAGE_PARTS) page->part[page->n_parts++] = part;
}

/* ---- the question ---------------------------------------------------------------------------- */

void cli_page_ask(cli_plan_page *page, const cli_choices *choices, const char *system, double params)
{
    const zr_config *c = choices->config;
    const cli_target *t = &choices->target;
    const zr_model_sizes s = zr_config_sizes(c);
    const int64_t shared = c->parallel.tensor * c->parallel.pipeline;
    const char *model = c->model.preset ? c->model.preset
                        : c->model.init ? c->model.init
                                        : c->model.type,
               *device = choices->o->cluster              ? t->cluster.name
                         : choices->o->profile || t->here ? t->profile.facts.name
                                                          : "a GPU that is not given";
    char policy[32];
    snprintf(page->title, sizeof(page->title), "Plan of %.60s with %s: %d rank%s of %.40s", model, system, t->ranks,
             t->ranks == 1 ? "" : "s", device);
    page->command = choices->o->line;
    cli_page_add(page, NULL, "model", NAN, "%.100s: %lld layers, width %lld", model, (long long)s.layers,
                 (long long)s.width);
    cli_page_add(page, "params", "parameters", params, "%s", ZR_AMOUNT(params));
    cli_page_add(page, NULL, "system", NAN, "%s", system);
    cli_page_add(page, NULL, "machine", NAN, "%s", device);
    cli_page_add(page, "ranks", "ranks", t->ranks, "%d%s", t->ranks, shared > 1 ? "" : ", data-parallel");
    if (shared > 1)
        cli_page_add(page, NULL, "divided among", NAN, "%lld data x %lld tensor x %lld pipeline",
                     (long long)(t->ranks / shared), (long long)c->parallel.tensor, (long long)c->parallel.pipeline);
    cli_page_add(page, "stage", "ZeRO stage", (double)c->zero.stage, "%lld", (long long)c->zero.stage);
    cli_page_add(page, NULL, "recompute", NAN, "%s",
                 cli_recompute_name(c->recompute.policy, c->recompute.every, policy));
    cli_page_add(page, NULL, "micro-batch", NAN, "%lld x %lld tokens", (long long)c->micro_batch_size,
                 (long long)c->data.seq_length);
    cli_page_add(page, NULL, "micro-batches of a step", NAN, "%lld", (long long)c->accumulation_steps);
    cli_page_add(page, NULL, "type", NAN, "%s", cli_type_name(c));
    if (c->zero.optim.device != ZR_HOME_NONE || c->zero.param.device != ZR_HOME_NONE)
        cli_page_add(page, NULL, "offloaded", NAN, "%s%s",
                     c->zero.optim.device != ZR_HOME_NONE ? "optimizer states" : "",
                     c->zero.param.device == ZR_HOME_NONE   ? ""
                     : c->zero.optim.device == ZR_HOME_NONE ? "parameters"
                                                            : ", parameters");
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void put_size(FILE *out, const char *key, double bytes)
{
    page_data(out, key, bytes, ZR_SIZE(bytes));
}

static void put_answer(FILE *out, const cli_plan_page *p)
{
    const double spare = p->limit - p->needs;
    fputs("<p class=\"answer\">", out);
    if (p->limit <= 0) {
        fputs("A rank needs ", out);
        put_size(out, p->needs_key, p->needs);
        fputs(". Whether that fits is not known, because no device and no memory is given.</p>\n", out);
        return;
    }
    fprintf(out, "<b>%s</b> A rank needs ", spare >= 0 ? "It fits." : "It does not fit.");
    put_size(out, p->needs_key, p->needs);
    fputs(" of ", out);
    put_size(out, p->limit_key, p->limit);
    fputs(": ", out);
    if (p->spare_key)
        page_data(out, p->spare_key, spare, ZR_SIZE(fabs(spare)));
    else
        fputs(ZR_SIZE(fabs(spare)), out);
    fputs(spare >= 0 ? " are left" : " too much", out);
    if (p->beyond) page_escaped(out, "; ", p->beyond, "");
    fputs(".</p>\n", out);
}

/* ---- the table of memory --------------------------------------------------------------------- */

static void put_bytes(FILE *out, const char *key, double bytes)
{
    fputs("<td class=\"n\">", out);
    if (bytes >= 0 && key)
        put_size(out, key, bytes);
    else
        fputs(bytes >= 0 ? ZR_SIZE(bytes) : "-", out);
    fputs("</td>", out);
}

static double most_bytes(const cli_plan_page *p)
{
    double most = 1;
    for (int i = 0; i < p->n_parts; i++) most = fmax(most, fmax(p->part[i].bytes, p->part[i].beside));
    return most;
}

static void put_memory(FILE *out, const cli_plan_page *p)
{
    const double most = most_bytes(p);
    fprintf(out,
            "<h2>Memory of a rank</h2>\n<div class=\"wide\"><table><tr><th></th><th class=\"n\">%s</th>%s<th></th>"
            "%s</tr>\n",
            p->system ? p->system : "bytes", p->system ? "<th class=\"n\">zr</th>" : "", p->system ? "<th></th>" : "");
    for (int i = 0; i < p->n_parts; i++) {
        const cli_page_part *part = &p->part[i];
        fprintf(out, "<tr%s><td>", part->color ? "" : " class=\"total\"");
        page_escaped(out, "", part->name, "</td>");
        put_bytes(out, part->key[0] ? part->key : NULL, part->bytes);
        if (p->system) put_bytes(out, part->beside_key, part->beside);
        fputs("<td>", out);
        page_bar(out, fmax(0, part->bytes) / most, p->system && part->beside > 0 ? part->beside / most : NAN);
        fputs("</td>", out);
        if (p->system) page_escaped(out, "<td>", part->why ? part->why : "", "</td>");
        fputs("</tr>\n", out);
    }
    fputs("</table></div>\n", out);
    if (p->system) fprintf(out, "<p class=\"soft\">Bars: %s; marks: zr with the same configuration.</p>\n", p->system);
}

/* ---- the picture ----------------------------------------------------------------------------- */

/** Draw the parts as one bar, with the limit as a line, and list them below in the same order. */
static void put_bar(FILE *out, const cli_plan_page *p)
{
    double sum = 0, x = 1, y = BAR_TOP + BAR_HEIGHT + 34;
    int n = 0;
    for (int i = 0; i < p->n_parts; i++)
        if (p->part[i].color && p->part[i].bytes > 0) sum += p->part[i].bytes, n++;
    const double scale = (BAR_WIDTH - 2) / fmax(1, fmax(sum, p->limit));
    svg_begin(out, BAR_WIDTH, y + n * LINE_HEIGHT, "Memory of a rank at its fullest moment");
    for (int i = 0; i < p->n_parts; i++) {
        const cli_page_part *part = &p->part[i];
        if (!part->color || part->bytes <= 0) continue;
        svg_rect(out, (svg_box){x, BAR_TOP, part->bytes * scale, BAR_HEIGHT}, part->color, "#ffffff", part->name);
        x += part->bytes * scale;
        svg_rect(out, (svg_box){1, y - 11, 14, 14}, part->color, "#000000", NULL);
        svg_text(out, 22, y, (svg_font){.size = 13, .color = PICTURE_DARK}, "%s", part->name);
        svg_text(out, BAR_WIDTH - 4, y, (svg_font){.size = 13, .color = PICTURE_DARK, .anchor = SVG_END}, "%s",
                 ZR_SIZE(part->bytes));
        y += LINE_HEIGHT;
    }
    if (p->limit > 0) {
        const double at = 1 + p->limit * scale;
        svg_line(out, at, BAR_TOP - 6, at, BAR_TOP + BAR_HEIGHT + 6, "#b3261e", 2);
        svg_text(out, fmin(at, BAR_WIDTH - 2), BAR_TOP + BAR_HEIGHT + 18,
                 (svg_font){.size = 12, .color = "#b3261e", .anchor = at > BAR_WIDTH / 2 ? SVG_END : SVG_START},
                 "%s there", ZR_SIZE(p->limit));
    }
    svg_end(out);
}

static void put_picture(FILE *out, const cli_plan_page *p)
{
    fprintf(out, "<h2>%s</h2>\n<div class=\"%s\">\n", p->picture ? "One step" : "What fills the memory",
            p->picture ? "wide picture" : "picture bars");
    if (p->picture)
        fputs(p->picture, out);
    else
        put_bar(out, p);
    fputs("</div>\n", out);
}

/* ---- what-ifs -------------------------------------------------------------------------------- */

static void put_cell(FILE *out, const cli_plan_page *p, const cli_cell *cell)
{
    char key[64];
    if (!cell->planned) {
        fputs("<td>-</td>", out);
        return;
    }
    const bool limited = p->limit > 0, own = cli_cell_is_own(p->grid, cell);
    fprintf(out, "<td class=\"%s%s\">", !limited ? "" : cell->made.fits ? "yes" : "no", own ? " this" : "");
    snprintf(key, sizeof(key), "grid.%d.needs", cell->number);
    put_size(out, key, (double)cell->made.needs_bytes);
    if (limited) fputs(cell->made.fits ? " &#10003;" : " &#10007;", out);
    if (p->grid->timed) {
        snprintf(key, sizeof(key), "grid.%d.tokens_per_sec", cell->number);
        fputs("<br>", out);
        page_data(out, key, cli_cell_tokens(cell), ZR_AMOUNT(cli_cell_tokens(cell)));
        fputs("tokens/s", out);
    }
    fputs("</td>", out);
}

static void put_grid(FILE *out, const cli_plan_page *p)
{
    const cli_grid *grid = p->grid;
    char policy[32];
    if (!grid || grid->rows == 0) return;
    fputs("<h2>What if</h2>\n<p>Bytes that a rank needs, by stage, recompute and samples of a micro-batch", out);
    fputs(grid->timed ? ", and tokens per second of all ranks. " : ". ", out);
    if (p->limit > 0) fputs("&#10003; fits, &#10007; does not. ", out);
    fputs("The frame is this plan.</p>\n<div class=\"wide\"><table class=\"grid\"><tr><th>stage, recompute</th>", out);
    for (int k = 0; k < grid->batches; k++) {
        const zr__way *way = &grid->cell[0][k].way;
        fprintf(out, "<th>%lld sample%s", (long long)way->rows, way->rows == 1 ? "" : "s");
        if (way->accum != grid->cell[0][0].way.accum || way->accum > 1) fprintf(out, " x %lld", (long long)way->accum);
        fputs("</th>", out);
    }
    fputs("</tr>\n", out);
    for (int row = 0; row < grid->rows; row++) {
        const zr__way *way = &grid->cell[row][0].way;
        fprintf(out, "<tr><th>%lld, %s</th>", (long long)way->stage,
                cli_recompute_name(way->policy, way->every, policy));
        for (int k = 0; k < grid->batches; k++) put_cell(out, p, &grid->cell[row][k]);
        fputs("</tr>\n", out);
    }
    fputs("</table></div>\n", out);
}

/* ---- the page -------------------------------------------------------------------------------- */

static zr_status put_page(FILE *out, void *arg)
{
    const cli_plan_page *p = arg;
    page_begin(out, CLI_PLAN_PAGE_HEAD, p->title);
    put_answer(out, p);
    page_facts(out, p->fact, p->n_facts);
    page_escaped(out, "<pre>", p->command, "</pre>\n");
    if (p->note) page_escaped(out, "<p class=\"note\">", p->note, "</p>\n");
    put_memory(out, p);
    put_picture(out, p);
    put_grid(out, p);
    page_end(out, "a plan: nothing was run");
    return ZR_OK;
}

static const zr__output_kind page_kind = {"page of a plan", CLI_PLAN_PAGE_HEAD, true};

zr_status cli_plan_page_check(const char *path, const zr_config *config)
{
    const char *inputs[ZR_CONFIG_INPUTS + 1];
    zr__config_inputs(config, inputs);
    return zr__output_check(path, &page_kind, inputs);
}

zr_status cli_plan_page_write(const cli_plan_page *page, const char *path, const zr_config *config)
{
    ZR_AUTO(svg_page_free) char *html = NULL;
    size_t bytes = 0;
    const char *inputs[ZR_CONFIG_INPUTS + 1];
    zr__config_inputs(config, inputs);
    ZR_TRY(svg_page(put_page, (void *)page, &html, &bytes));
    return zr__output_write(path, &page_kind, inputs, html, bytes);
}

/* ---- plans of zr ----------------------------------------------------------------------------- */

zr_status cli_plan_page_own(const cli_choices *choices, const zr_plans *plans, const cli_trial *made,
                            const cli_grid *grid)
{
    ZR_AUTO(svg_page_free) char *picture = NULL;
    const zr_config *c = choices->config;
    const zr_memory *memory = &made->report.memory;
    const zr_simulation *s = &made->simulation;
    const char *model = c->model.preset ? c->model.preset : c->model.type;
    cli_plan_page page = {.needs = (double)made->needs_bytes,
                          .limit = (double)choices->target.limit_bytes,
                          .needs_key = "needs",
                          .limit_key = "limit",
                          .grid = grid};
    ZR_TRY(cli_target_picture(&choices->target, c, plans, model, &picture));
    page.picture = picture;
    cli_page_ask(&page, choices, "zr", (double)made->params);
    if (choices->target.simulated) {
        cli_page_add(&page, "time.step_sec", "time of a step", s->price.step_sec, "%s", CLI_SECONDS(s->price.step_sec));
        cli_page_add(&page, "time.tokens_per_sec", "tokens per second", s->tokens_sec, "%s", ZR_AMOUNT(s->tokens_sec));
        if (cli_target_computed(&choices->target)) page.note = CLI_GPU_REMARK;
    }
    for (int i = 0; i < ZR_CATEGORIES; i++) {
        cli_page_part part = {.name = cli_category_words((zr_category)i),
                              .bytes = (double)memory->category_bytes[i],
                              .color = cli_category_color((zr_category)i)};
        snprintf(part.key, sizeof(part.key), "memory.%s", zr__category_name((zr_category)i));
        if (part.bytes > 0) cli_page_part_add(&page, part);
    }
    cli_page_part_add(
        &page, (cli_page_part){"memory.total", "all at the fullest moment", .bytes = (double)memory->total_bytes});
    cli_page_part_add(&page, (cli_page_part){"needs",
                                             choices->target.profile.facts.own_memory ? "with CUDA and its libraries"
                                                                                      : "with the program itself",
                                             .bytes = page.needs});
    if (made->report.home.optim == ZR_SPACE_HOST || made->report.home.param == ZR_SPACE_HOST ||
        made->home == ZR_SPACE_HOST)
        cli_page_part_add(&page, (cli_page_part){"memory.spaces.host.total", "in host memory",
                                                 .bytes = (double)memory->space[ZR_SPACE_HOST].total_bytes});
    if (made->disk_bytes > 0)
        cli_page_part_add(&page,
                          (cli_page_part){"memory.spaces.disk.total", "on disk", .bytes = (double)made->disk_bytes});
    return cli_plan_page_write(&page, choices->o->html, c);
}
