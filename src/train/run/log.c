/** The log of a run: metrics.jsonl and the event file. */
#include "train/run/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void write_line(const zr__ranks *r, zr__metrics_file *m, const char *line, int bytes)
{
    char lost[48] = "";
    switch (zr__metrics_write(m, line, (size_t)bytes)) {
    case ZR_METRICS_KEPT:
        zr__run_warn(r, "%s cannot be written: %s; its %ss are kept in memory until it can be", m->name,
                     strerror(m->error), m->line);
        break;
    case ZR_METRICS_LOST:
        zr__run_warn(r, "%s still cannot be written: %s; from step %lld on its %ss are lost", m->name,
                     strerror(m->error), (long long)r->result->steps, m->line);
        break;
    case ZR_METRICS_AGAIN:
        if (m->outage.n_lost > 0) snprintf(lost, sizeof(lost), "; %lld are lost", (long long)m->outage.n_lost);
        zr__run_warn(r, "%s can be written again: %lld %s%s, kept in memory meanwhile, are now in it%s", m->name,
                     (long long)m->outage.n_late, m->line, m->outage.n_late == 1 ? "" : "s", lost);
        break;
    default:
        break;
    }
}

/** Write scalars of the current step into metrics.jsonl, with `prefix` before their names, and into the event file,
 * under the group `group`. */
static void write_scalars(const zr__ranks *r, zr__run_dir *dir, const char *prefix, const char *group,
                          const zr__scalar *scalar, int n)
{
    char line[ZR_METRICS_LINE_BYTES], record[ZR_EVENT_BYTES];
    const int64_t step = r->result->steps;
    write_line(r, &dir->metrics, line, zr__metrics_line(step, prefix, scalar, n, line));
    if (dir->events.fd >= 0)
        write_line(r, &dir->events, record, zr__event_scalars(zr__event_now(), step, group, scalar, n, record));
}

void zr__run_log_begin(const zr__ranks *r, zr__run_dir *dir, int64_t resumed_step)
{
    char record[ZR_EVENT_BYTES];
    const double now = zr__event_now();
    write_line(r, &dir->events, record, zr__event_version(now, record));
    if (resumed_step >= 0) write_line(r, &dir->events, record, zr__event_start(now, resumed_step + 1, record));
}

int zr__run_name_terms(const zr_plan *plan, const zr_term_result *result, zr_train_term *term)
{
    for (int t = 0; t < plan->terms && plan->terms > 1; t++)
        term[t] = (zr_train_term){zr_graph_loss_name(plan->graph[ZR_SCHEDULE_TRAIN], t),
                                  result[t].counted > 0 ? result[t].loss : NAN, result[t].counted};
    return plan->terms > 1 ? plan->terms : 0;
}

void zr__run_log_step(const zr__ranks *r, zr__run_dir *dir, const zr_train_step *line)
{
    zr__scalar scalar[ZR_SCALARS];
    write_scalars(r, dir, "", "train", scalar, zr__metrics_step_scalars(line, scalar));
    if (r->observer->step) r->observer->step(r->observer->arg, line);
}

void zr__run_log_eval(const zr__ranks *r, zr__run_dir *dir, const zr_train_eval *line)
{
    zr__scalar scalar[ZR_SCALARS];
    write_scalars(r, dir, "val_", "val", scalar, zr__metrics_eval_scalars(line, scalar));
    if (r->observer->eval) r->observer->eval(r->observer->arg, line);
}

void zr__run_log_text(const zr__ranks *r, zr__run_dir *dir, const char *line)
{
    write_line(r, &dir->metrics, line, (int)strlen(line));
}
