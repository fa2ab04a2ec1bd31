/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/output/llmctl-progress.h"

#include <glib/gi18n.h>
#include <stdint.h>
#include <unistd.h>

#include "llmctl/bus/llmctl-wait.h"
#include "llmctl/output/llmctl-output.h"

/* A wait that is shorter needs no forecast. */
#define LEAST_FORECAST_MS 1000
/* A wait that is shorter is not told. */
#define LEAST_WAIT_MS 400
/* Whoever has waited longer wants to know how long. */
#define LEAST_TOLD_S 2

static gboolean is_enabled;
static gboolean is_drawn;

void
llmctl_progress_begin (gboolean is_wanted)
{
  is_enabled = is_wanted && !llmctl_globals.is_json && isatty (STDOUT_FILENO)
               && isatty (STDERR_FILENO) && g_strcmp0 (g_getenv ("TERM"), "dumb") != 0;
}

void
llmctl_progress_draw (const char *text)
{
  g_autofree char *harmless = NULL;
  g_autofree char *line = NULL;
  guint columns = llmctl_output_get_columns () - 1;
  gboolean is_dim = llmctl_output_has_colour (STDERR_FILENO);

  if (!is_enabled)
    return;
  (void) llmctl_output_flush ();
  harmless = llmctl_output_make_harmless (text);
  line = llmctl_output_fit (harmless, &columns);
  g_printerr ("\r\033[K%s%s%s", is_dim ? "\033[2m" : "", line, is_dim ? "\033[0m" : "");
  is_drawn = TRUE;
}

void
llmctl_progress_clear (void)
{
  if (is_drawn)
    g_printerr ("\r\033[K");
  is_drawn = FALSE;
}

/* --- what is told --- */

static guint64
get (GVariant   *progress,
     const char *key)
{
  guint64 number = 0;

  (void) g_variant_lookup (progress, key, "t", &number);
  return number;
}

char *
llmctl_progress_describe (GVariant *progress)
{
  guint64 forecast_ms = get (progress, "forecast-ms");
  guint64 total = get (progress, "total");
  g_autofree char *what = NULL;
  g_autofree char *size = NULL;
  const char *phase = "";

  (void) g_variant_lookup (progress, "phase", "&s", &phase);
  if (g_str_equal (phase, "queued"))
    {
      guint n = (guint) get (progress, "ahead");
      const char *wait = "turn";

      (void) g_variant_lookup (progress, "waits-for", "&s", &wait);
      if (g_str_equal (wait, "memory"))
        what = g_strdup (_("Waiting for memory"));
      else if (g_str_equal (wait, "storage"))
        what = g_strdup (_("Waiting for what storage has of the context"));
      else if (n == 0)
        what = g_strdup (_("Waiting for its turn"));
      else
        what = g_strdup_printf (ngettext ("Waiting for its turn behind %u request",
                                          "Waiting for its turn behind %u requests", n), n);
    }
  else if (g_str_equal (phase, "restoring"))
    {
      size = llmctl_format_bytes (total);
      /* Translators: bytes, as “12.3 MiB” */
      what = g_strdup_printf (_("Restoring the context: %s from storage"), size);
    }
  else if (g_str_equal (phase, "prefill"))
    {
      /* Translators: tokens of the prompt that are computed, and all of them */
      what = g_strdup_printf (_("Prefill: %ju of %ju tokens"),
                              (uintmax_t) get (progress, "done"), (uintmax_t) total);
    }
  if (what == NULL || forecast_ms < LEAST_FORECAST_MS)
    return g_steal_pointer (&what);
  /* Translators: “Prefill: 10 of 90 tokens”, and seconds */
  return g_strdup_printf (_("%s, first token in about %ju s"), what,
                          (uintmax_t) ((forecast_ms + 500) / 1000));
}

static void
on_progress (LlmsvcGeneration *generation,
             GVariant         *progress,
             gpointer          data)
{
  g_autofree char *text = llmctl_progress_describe (progress);

  if (text != NULL)
    llmctl_progress_draw (text);
}

void
llmctl_progress_follow (LlmsvcGeneration *generation)
{
  g_signal_connect (generation, "progress", G_CALLBACK (on_progress), NULL);
}

static void
on_load_progress (LlmsvcClient *client,
                  guint64       done,
                  guint64       total,
                  gpointer      data)
{
  g_autofree char *done_size = llmctl_format_bytes (done);
  g_autofree char *total_size = llmctl_format_bytes (total);
  g_autofree char *text = NULL;

  if (total == 0)
    {
      llmctl_progress_clear ();
      return;
    }
  /* Translators: bytes that are ready, and all, as “12.3 MiB” */
  text = g_strdup_printf (_("Loading the model: %s of %s"), done_size, total_size);
  llmctl_progress_draw (text);
}

/* Until the service knows how much there is to load; not where the model is there already. */
static gboolean
on_model_awaited (gpointer data)
{
  *(guint *) data = 0;
  if (!is_drawn)
    llmctl_progress_draw (_("Waiting for the model"));
  return G_SOURCE_REMOVE;
}

void
llmctl_progress_await_model (LlmsvcClient *client)
{
  g_autoptr(GAsyncResult) result = NULL;
  gulong handler;
  guint timer;

  if (!is_enabled)
    return;
  timer = g_timeout_add (LEAST_WAIT_MS, on_model_awaited, &timer);
  handler = g_signal_connect (client, "load-progress", G_CALLBACK (on_load_progress), NULL);
  llmsvc_client_prewarm_async (client, NULL, llmctl_wait_get_cancellable (), llmctl_wait_take,
                               &result);
  (void) llmsvc_client_prewarm_finish (client, llmctl_wait (&result), NULL);
  g_signal_handler_disconnect (client, handler);
  g_clear_handle_id (&timer, g_source_remove);
  llmctl_progress_clear ();
}

char *
llmctl_progress_select_model (LlmsvcClient  *client,
                              const char    *id,
                              GError       **error)
{
  gulong handler = g_signal_connect (client, "load-progress", G_CALLBACK (on_load_progress), NULL);
  gint64 begin_us = g_get_monotonic_time ();
  g_autoptr(GAsyncResult) result = NULL;
  gboolean is_changed;
  guint64 seconds;

  llmsvc_client_select_model_async (client, id, llmctl_wait_get_cancellable (), llmctl_wait_take,
                                    &result);
  is_changed = llmsvc_client_select_model_finish (client, llmctl_wait (&result), error);
  g_signal_handler_disconnect (client, handler);
  llmctl_progress_clear ();
  seconds = (guint64) (g_get_monotonic_time () - begin_us) / G_USEC_PER_SEC;

  if (!is_changed)
    return NULL;
  if (seconds < LEAST_TOLD_S)
    return g_strdup_printf (_("“%s” is the model now, for everyone"), id);
  /* Translators: the id of a model, and seconds that the change has taken */
  return g_strdup_printf (_("“%s” is the model now, for everyone, after %ju s"), id,
                          (uintmax_t) seconds);
}
