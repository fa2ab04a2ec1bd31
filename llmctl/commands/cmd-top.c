/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * llmctl top: the service live, on the whole terminal or line by line. It asks, and listens
 * to nothing but whether the service is there, so that nothing is sent that nobody reads;
 * it neither starts nor keeps the service, and goes on when that is started anew.
 */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>

#include "llmctl/bus/llmctl-service.h"
#include "llmctl/bus/llmctl-wait.h"
#include "llmctl/output/llmctl-screen.h"
#include "llmctl/top/llmctl-top.h"
#include "llmctl/top/llmctl-watch.h"

#define DEFAULT_INTERVAL_S 1.0
#define MIN_INTERVAL_S     0.1
#define MAX_INTERVAL_S     3600.0

/* Without a screen all there is is shown. */
#define ALL_ROWS 1000

/* Contexts, applications and calls are asked for when a counter has moved, and so many looks
 * later at the latest. */
#define FRESH_LOOKS 10

static double interval_s;
static int n_wanted;
static gboolean is_batch;
static gboolean is_once;

static const GOptionEntry options[] = {
  { "interval", 'd', 0, G_OPTION_ARG_DOUBLE, &interval_s,
    N_("Look every so many seconds (default 1)"), N_("SECONDS") },
  { "count", 'n', 0, G_OPTION_ARG_INT, &n_wanted, N_("End after so many looks"), N_("NUMBER") },
  { "batch", 'b', 0, G_OPTION_ARG_NONE, &is_batch,
    N_("Print one look after the other instead of taking the whole terminal"), NULL },
  { "once", 0, 0, G_OPTION_ARG_NONE, &is_once, N_("Look once: as --batch --count=1"), NULL },
  G_OPTION_ENTRY_NULL
};

typedef struct
{
  LlmctlWatch watch;          /* first, for on_state() */
  LlmctlTopView view;
  GCancellable *cancellable;
  gboolean is_looking;
  GVariant *before;           /* (nullable): what the look under way is compared with */
  gboolean is_known;          /* whether the service runs or not has been told */
  gboolean is_new;            /* and has changed since the last look began */
  guint n_shown;
} Top;

/* --- showing --- */

static void
show (Top *self)
{
  g_autoptr(LlmctlFrame) frame = NULL;
  guint columns = llmctl_output_get_columns ();
  guint rows = ALL_ROWS;

  if (self->view.has_keys)
    {
      llmctl_screen_get_size (&columns, &rows);
      frame = llmctl_top_view_draw (&self->view, columns, rows, llmctl_output_has_colour (1));
      llmctl_screen_show (frame);
      return;
    }
  if (llmctl_globals.is_json)
    llmctl_output_json_line (llmctl_top_view_make_json (&self->view));
  else
    {
      frame = llmctl_top_view_draw (&self->view, columns, rows, FALSE);
      for (guint i = 0; i < frame->lines->len; i++)
        llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s%s\n", self->n_shown > 0 && i == 0 ? "\n" : "",
                              (const char *) g_ptr_array_index (frame->lines, i));
    }
  self->watch.is_over |= !llmctl_output_flush ();
}

/* --- looking, in a thread, so that keys are heard while a service is silent --- */

static void
take_sample (GTask        *task,
             gpointer      source,
             gpointer      data,
             GCancellable *cancellable)
{
  const Top *self = data;

  g_task_return_pointer (task, llmctl_sample_take (source, self->before, cancellable),
                         (GDestroyNotify) g_variant_unref);
}

static void look (Top *self);

static void
on_taken (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  Top *self = data;
  g_autoptr(GVariant) sample = g_task_propagate_pointer (G_TASK (result), NULL);
  g_autoptr(GVariant) statistics = NULL;

  self->is_looking = FALSE;
  if (sample == NULL)
    return;
  /* then it is of the service as it was */
  if (self->is_new)
    {
      look (self);
      return;
    }
  statistics = g_variant_lookup_value (sample, "statistics", NULL);
  if (statistics != NULL)
    llmctl_history_add (&self->view.history, g_get_monotonic_time (), statistics);
  g_clear_pointer (&self->view.sample, g_variant_unref);
  self->view.sample = g_steal_pointer (&sample);
  show (self);
  self->n_shown++;
  if (n_wanted > 0 && self->n_shown >= (guint) n_wanted)
    self->watch.is_over = TRUE;
}

static void
look (Top *self)
{
  g_autoptr(GTask) task = NULL;

  if (self->is_looking)
    return;

  self->is_looking = TRUE;
  self->before = self->is_new || self->n_shown % FRESH_LOOKS == 0 ? NULL : self->view.sample;
  self->is_new = FALSE;
  task = g_task_new (self->watch.is_running ? self->watch.bus : NULL, self->cancellable, on_taken,
                     self);
  g_task_set_task_data (task, self, NULL);
  g_task_run_in_thread (task, take_sample);
}

static gboolean
on_tick (gpointer data)
{
  Top *self = data;

  if (self->is_known && !self->view.is_paused)
    look (self);
  return G_SOURCE_CONTINUE;
}

static void
on_state (LlmctlWatch *watch)
{
  Top *self = (Top *) watch;

  self->is_known = TRUE;
  self->is_new = TRUE;
  llmctl_history_clear (&self->view.history);
  on_tick (self);
}

/* --- the command --- */

static void
on_screen (int      key,
           gpointer data)
{
  Top *self = data;

  if (key == 'q' || key == 'Q' || key == LLMCTL_SCREEN_GONE)
    {
      self->watch.is_over = TRUE;
      return;
    }
  if (key == 's' || key == 'S')
    self->view.order = (self->view.order + 1) % LLMCTL_N_TOP_ORDERS;
  self->view.is_paused ^= key == 'p' || key == 'P';
  self->view.is_help ^= key == 'h' || key == 'H' || key == '?';
  show (self);
}

static LlmctlExit
run (int       argc,
     char    **argv,
     GError  **error)
{
  LlmctlExit status;
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  Top self = { .cancellable = cancellable };
  gboolean is_running = TRUE;
  guint timer;

  if (interval_s == 0)
    interval_s = DEFAULT_INTERVAL_S;
  if (!(interval_s >= MIN_INTERVAL_S && interval_s <= MAX_INTERVAL_S))
    return llmctl_complain_usage (_("--interval must be from %g to %g seconds"), MIN_INTERVAL_S,
                                  MAX_INTERVAL_S);
  if (n_wanted < 0)
    return llmctl_complain_usage (_("--count must be 1 or more"));
  n_wanted = is_once ? 1 : n_wanted;
  status = llmctl_watch_begin (&self.watch, on_state);
  if (status != LLMCTL_EXIT_OK)
    return status;

  self.view.is_system = self.watch.bus_type == G_BUS_TYPE_SYSTEM;
  timer = g_timeout_add ((guint) (interval_s * 1000), on_tick, &self);
  self.view.has_keys = !is_batch && !is_once && !llmctl_globals.is_json &&
                       llmctl_screen_open (on_screen, &self);
  if (self.view.has_keys)
    show (&self);
  llmctl_watch_run (&self.watch);
  llmctl_screen_close ();

  g_source_remove (timer);
  g_cancellable_cancel (cancellable);
  while (self.is_looking)
    g_main_context_iteration (NULL, TRUE);
  /* a script that looks is told as by the other commands */
  if (self.view.sample != NULL)
    (void) g_variant_lookup (self.view.sample, "running", "b", &is_running);
  if (n_wanted > 0 && !is_running)
    status = LLMCTL_EXIT_NOT_AVAILABLE;
  if (self.watch.is_bus_gone)
    {
      llmctl_complain (_("The connection to the bus has ended; start “llmctl top” again when it "
                         "is back"));
      status = LLMCTL_EXIT_NOT_AVAILABLE;
    }
  g_clear_pointer (&self.view.sample, g_variant_unref);
  llmctl_history_clear (&self.view.history);
  llmctl_watch_clear (&self.watch);
  return status;
}

const LlmctlCommand llmctl_top_command = {
  .name = "top",
  .summary = N_("Watch the service live: memory, speed, answers in time"),
  .description = N_("Looks every second, also while the service restarts, and does not start it. "
                    "Takes the whole terminal; into a pipe, or with TERM=dumb, it prints one look "
                    "after the other. Keys: q quits, s sorts by memory, tokens or name, p pauses, "
                    "h helps. Applications and contexts are those of the user; root sees all "
                    "applications.\n"
                    "--json: one object a line and look: time, running; service, model, memory "
                    "and statistics as “status” has them; rates, the growth of counters a second, "
                    "and last-minute, the growth in that time; apps as “apps” has them; contexts "
                    "with path, properties, memory-bytes and storage-bytes; states of the calls "
                    "under way."),
  .options = options,
  .run = run,
};
