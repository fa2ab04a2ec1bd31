/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * llmctl top: the service live, on the whole terminal or line by line. It asks, and listens
 * to nothing but whether the service is there, so that nothing is sent that nobody reads;
 * it neither starts nor keeps the service, and goes on when that is started anew.
 */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl.h"

#include <glib/gi18n.h>

#include "llmctl/output/llmctl-output.h"
#include "llmctl/top/llmctl-sample.h"
#include "llmctl/output/llmctl-screen.h"
#include "llmctl/bus/llmctl-service.h"
#include "llmctl/top/llmctl-top-view.h"
#include "llmctl/bus/llmctl-wait.h"

#define DEFAULT_INTERVAL_S 1.0
#define MIN_INTERVAL_S     0.1
#define MAX_INTERVAL_S     3600.0

/* Without a screen all there is is shown. */
#define ALL_ROWS 1000

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
  LlmctlTopView view;
  LlmctlSample *sample;       /* (nullable) (owned): what the view shows */
  LlmctlSampler *sampler;
  gboolean has_screen;
  gboolean is_known;          /* whether the service runs or not has been told */
  guint n_shown;
  gboolean is_over;
  gboolean is_bus_gone;
} Top;

/* --- showing --- */

static void
print_lines (Top *self)
{
  g_autoptr(LlmctlFrame) frame =
      llmctl_top_view_draw (&self->view, llmctl_output_get_columns (), ALL_ROWS, FALSE);

  if (self->n_shown > 0)
    llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
  for (guint i = 0; i < llmctl_frame_get_n_lines (frame); i++)
    {
      llmctl_output_text (LLMCTL_STYLE_PLAIN, llmctl_frame_get_line (frame, i));
      llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
    }
}

static void
draw_screen (Top *self)
{
  g_autoptr(LlmctlFrame) frame = NULL;
  guint columns, rows;

  llmctl_screen_get_size (&columns, &rows);
  frame = llmctl_top_view_draw (&self->view, columns, rows, llmctl_output_has_colour (1));
  if (!llmctl_screen_show (frame))
    self->is_over = TRUE;
}

static void
show (Top *self)
{
  if (self->has_screen)
    draw_screen (self);
  else if (llmctl_globals.is_json)
    llmctl_output_json_line (llmctl_top_view_make_json (&self->view));
  else
    print_lines (self);

  if (!self->has_screen && !llmctl_output_flush ())
    self->is_over = TRUE;
}

static void
on_sampled (LlmctlSample *sample,
            gpointer      data)
{
  Top *self = data;

  llmctl_sample_free (self->sample);
  self->view.sample = self->sample = sample;
  if (sample->statistics != NULL)
    llmctl_history_add (self->view.history, sample->time_us, sample->statistics);
  show (self);
  self->n_shown++;
  if (n_wanted > 0 && self->n_shown >= (guint) n_wanted)
    self->is_over = TRUE;
}

static gboolean
on_tick (gpointer data)
{
  Top *self = data;

  if (self->is_known && !self->view.is_paused)
    llmctl_sampler_look (self->sampler);
  return G_SOURCE_CONTINUE;
}

/* --- keys --- */

static void
on_screen (gunichar key,
           gpointer data)
{
  Top *self = data;

  switch (g_unichar_tolower (key))
    {
    case 'q':
    case LLMCTL_SCREEN_GONE:
      self->is_over = TRUE;
      return;
    case 's':
      self->view.order = (self->view.order + 1) % LLMCTL_N_TOP_ORDERS;
      break;
    case 'p':
      self->view.is_paused = !self->view.is_paused;
      break;
    case 'h':
    case '?':
      self->view.is_help = !self->view.is_help;
      break;
    default:
      break;
    }
  draw_screen (self);
}

/* --- the service comes and goes --- */

static void
set_running (Top      *self,
             gboolean  is_running)
{
  self->is_known = TRUE;
  llmctl_history_clear (self->view.history);
  llmctl_sampler_forget (self->sampler, is_running);
  if (!self->view.is_paused)
    llmctl_sampler_look (self->sampler);
}

static void
on_appeared (GDBusConnection *bus,
             const char      *name,
             const char      *owner,
             gpointer         data)
{
  set_running (data, TRUE);
}

static void
on_vanished (GDBusConnection *bus,
             const char      *name,
             gpointer         data)
{
  if (bus != NULL && !g_dbus_connection_is_closed (bus))
    set_running (data, FALSE);
}

static void
on_closed (GDBusConnection *bus,
           gboolean         remote_peer_vanished,
           GError          *error,
           gpointer         data)
{
  Top *self = data;

  self->is_bus_gone = TRUE;
  self->is_over = TRUE;
}

/* --- the command --- */

static LlmctlExit
watch (GDBusConnection *bus,
       gboolean         is_system)
{
  Top self = { .has_screen = !is_batch && !llmctl_globals.is_json && llmctl_screen_is_possible () };
  LlmctlExit status = LLMCTL_EXIT_OK;
  gulong closed_handler;
  guint name_watch;
  guint timer;

  self.view.history = llmctl_history_new ();
  self.view.has_keys = self.has_screen;
  self.view.is_system = is_system;
  self.sampler = llmctl_sampler_new (bus, on_sampled, &self);
  closed_handler = g_signal_connect (bus, "closed", G_CALLBACK (on_closed), &self);
  name_watch = g_bus_watch_name_on_connection (bus, LLMCTL_SERVICE_NAME,
                                               G_BUS_NAME_WATCHER_FLAGS_NONE, on_appeared,
                                               on_vanished, &self, NULL);
  timer = g_timeout_add ((guint) (interval_s * 1000), on_tick, &self);
  if (self.has_screen)
    {
      llmctl_screen_open (on_screen, &self);
      draw_screen (&self);
    }

  while (!self.is_over && llmctl_wait_get_end () == LLMCTL_EXIT_OK)
    g_main_context_iteration (NULL, TRUE);

  if (self.has_screen)
    llmctl_screen_close ();
  g_source_remove (timer);
  g_bus_unwatch_name (name_watch);
  g_signal_handler_disconnect (bus, closed_handler);
  /* a script that looks is told as by the other commands */
  if (n_wanted > 0 && self.sample != NULL && !self.sample->is_running)
    status = LLMCTL_EXIT_NOT_AVAILABLE;
  llmctl_sampler_free (self.sampler);
  llmctl_sample_free (self.sample);
  llmctl_history_free (self.view.history);
  if (!self.is_bus_gone)
    return status;

  llmctl_complain (_("The connection to the bus has ended; start “llmctl top” again when it is "
                     "back"));
  return LLMCTL_EXIT_NOT_AVAILABLE;
}

static LlmctlExit
run (int    argc,
     char **argv)
{
  LlmctlExit status = llmctl_check_arguments (argv, 0);
  g_autoptr(GDBusConnection) bus = NULL;
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  GBusType type;

  if (status != LLMCTL_EXIT_OK)
    return status;
  if (interval_s == 0)
    interval_s = DEFAULT_INTERVAL_S;
  if (!(interval_s >= MIN_INTERVAL_S && interval_s <= MAX_INTERVAL_S))
    return llmctl_complain_usage (_("--interval must be from %g to %g seconds"), MIN_INTERVAL_S,
                                  MAX_INTERVAL_S);
  if (n_wanted < 0)
    return llmctl_complain_usage (_("--count must be 1 or more"));
  if (is_once)
    {
      is_batch = TRUE;
      n_wanted = 1;
    }

  llmctl_wait_begin (TRUE);
  llmsvc_bus_find_async (llmctl_globals.bus_type, llmctl_wait_get_cancellable (),
                         llmctl_wait_take, &result);
  bus = llmsvc_bus_find_finish (llmctl_wait (&result), &type, NULL, &error);
  if (bus == NULL)
    return llmctl_wait_fail (error);

  return watch (bus, type == G_BUS_TYPE_SYSTEM);
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
