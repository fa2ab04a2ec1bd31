/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Calls every method of the service with random arguments: a client that knows what introspection
 * tells it, and means no good. The real daemon, best one built with sanitizers, on a private bus.
 * After each handful of calls a property must be readable; every call must be answered, by what the
 * interface promises or by an error that may cross the bus; now and then the service is ended,
 * which must go in order and without a report. The same seed makes the same calls as far as the
 * service's timing lets it.
 */

#include "fuzz/fuzz-bus-call.h"
#include "fuzz/fuzz-bus-daemon.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <glib-unix.h>
#include <glib/gstdio.h>

#include "common/llmsvc-names.h"

#define N_CALLERS 4
#define MAX_STREAMS 24
#define N_LOOKS 50
#define REPORT_US (G_GINT64_CONSTANT (60) * G_USEC_PER_SEC)

static char *opt_daemon;
static char *opt_model;
static int opt_seconds = 15;
static int opt_seed = 1;
static int opt_batch = 16;
static int opt_limit_s = 180;
static int opt_round = 400;
static int opt_max_text = 2 * 1024 * 1024;

static const GOptionEntry entries[] = {
  { "daemon", 0, 0, G_OPTION_ARG_FILENAME, &opt_daemon, "The llmsvcd to call", "FILE" },
  { "model", 0, 0, G_OPTION_ARG_FILENAME, &opt_model, "The GGUF file it answers with", "FILE" },
  { "seconds", 0, 0, G_OPTION_ARG_INT, &opt_seconds, "How long to go on (15)", "N" },
  { "seed", 0, 0, G_OPTION_ARG_INT, &opt_seed, "Of the random calls (1)", "N" },
  { "batch", 0, 0, G_OPTION_ARG_INT, &opt_batch, "Calls under way at a time (16)", "N" },
  { "limit", 0, 0, G_OPTION_ARG_INT, &opt_limit_s,
    "Seconds after which a call without answer has failed (180)", "N" },
  { "round", 0, 0, G_OPTION_ARG_INT, &opt_round, "Batches until the service is restarted (400)",
    "N" },
  { "max-text", 0, 0, G_OPTION_ARG_INT, &opt_max_text, "Bytes of the longest text (2097152)", "N" },
  G_OPTION_ENTRY_NULL
};

typedef struct
{
  FuzzBusDaemon *daemon;
  FuzzBusWorld *world;
  FuzzBusHints hints;
  GDBusConnection *callers[N_CALLERS];
  GDBusConnection *watcher;   /* reads properties, and puts right what calls have set */
  GArray *streams;            /* (element-type int) (owned) */
  GPtrArray *calls;           /* (element-type FuzzBusCall) (owned): of the batch under way */
  GHashTable *counts;         /* (element-type utf8 guint) (owned): replies by their names */
  guint64 n_batches;
  guint64 n_calls;
  guint n_rounds;
  guint64 most_kib;
  GArray *reads_ms;           /* (element-type double) (owned): of the property */
  gboolean is_late;           /* the time limit of what is waited for has passed */
} Fuzz;

/* --- waiting, with a limit --- */

static gboolean
on_late (gpointer data)
{
  ((Fuzz *) data)->is_late = TRUE;
  return G_SOURCE_CONTINUE;
}

static gboolean
have_all_ended (Fuzz *self)
{
  for (guint i = 0; i < self->calls->len; i++)
    if (((FuzzBusCall *) g_ptr_array_index (self->calls, i))->ended == 0)
      return FALSE;
  return TRUE;
}

/* FALSE when the limit passed before. */
static gboolean
await_calls (Fuzz *self)
{
  guint limit = g_timeout_add_seconds ((guint) opt_limit_s, on_late, self);

  self->is_late = FALSE;
  while (!have_all_ended (self) && !self->is_late)
    g_main_context_iteration (NULL, TRUE);
  g_source_remove (limit);
  return have_all_ended (self);
}

/* --- the callers --- */

static gboolean
connect_caller (Fuzz    *self,
                guint    index,
                GError **error)
{
  g_autofree char *name = NULL;

  if (self->callers[index] != NULL)
    {
      if (!g_dbus_connection_is_closed (self->callers[index]))
        g_dbus_connection_close_sync (self->callers[index], NULL, NULL);
      g_clear_object (&self->callers[index]);
    }
  self->callers[index] = fuzz_bus_daemon_connect (self->daemon, error);
  if (self->callers[index] == NULL)
    return FALSE;
  /* the first stays without a name, and whoever says nothing at first may register in a call */
  if (index == 0 || fuzz_bus_chance (&self->hints, 30))
    return TRUE;
  name = g_strdup_printf ("org.example.Fuzz%u", fuzz_bus_below (&self->hints, 3));
  g_dbus_connection_call (self->callers[index], LLMSVC_BUS_NAME, LLMSVC_PATH, LLMSVC_INTERFACE,
                          "Register", g_variant_new ("(sa{sv})", name, NULL), NULL,
                          G_DBUS_CALL_FLAGS_NONE, -1, NULL, NULL, NULL);
  return TRUE;
}

/* The bus closes connections that sent what it does not pass on. */
static gboolean
keep_callers (Fuzz    *self,
              GError **error)
{
  for (guint i = 0; i < N_CALLERS; i++)
    if ((g_dbus_connection_is_closed (self->callers[i]) || fuzz_bus_chance (&self->hints, 2)) &&
        !connect_caller (self, i, error))
      return FALSE;
  return TRUE;
}

/* --- streams: read, left alone, closed --- */

static void
drop_stream (Fuzz *self,
             guint index)
{
  g_close (g_array_index (self->streams, int, index), NULL);
  g_array_remove_index (self->streams, index);
}

static void
stir_streams (Fuzz *self)
{
  char buffer[512];

  for (guint i = self->streams->len; i > 0; i--)
    {
      int fd = g_array_index (self->streams, int, i - 1);
      guint dice = fuzz_bus_below (&self->hints, 10);

      g_unix_set_fd_nonblocking (fd, TRUE, NULL);
      if (dice == 0 || (dice < 7 && read (fd, buffer, sizeof buffer) == 0))
        drop_stream (self, i - 1);
    }
  while (self->streams->len > MAX_STREAMS)
    drop_stream (self, 0);
}

/* --- one batch --- */

static void
count_reply (Fuzz       *self,
             const char *name)
{
  guint n = GPOINTER_TO_UINT (g_hash_table_lookup (self->counts, name));

  g_hash_table_insert (self->counts, g_strdup (name), GUINT_TO_POINTER (n + 1));
}

static gboolean
judge_calls (Fuzz    *self,
             GError **error)
{
  for (guint i = 0; i < self->calls->len; i++)
    {
      const char *name =
        fuzz_bus_call_judge (g_ptr_array_index (self->calls, i), self->world, self->streams, error);

      if (name == NULL)
        {
          g_autofree char *text = fuzz_bus_call_print (g_ptr_array_index (self->calls, i));

          g_prefix_error (error, "%s: ", text);
          return FALSE;
        }
      count_reply (self, name);
    }
  return TRUE;
}

/* (transfer full): the reply; NULL with @error when it did not come in time. */
static GVariant *
ask_as_watcher (Fuzz        *self,
                const char  *interface,
                const char  *method,
                GVariant    *arguments,
                GError     **error)
{
  return g_dbus_connection_call_sync (self->watcher, LLMSVC_BUS_NAME, LLMSVC_PATH, interface, method,
                                      arguments, NULL, G_DBUS_CALL_FLAGS_NONE, opt_limit_s * 1000,
                                      NULL, error);
}

static gboolean
read_property (Fuzz    *self,
               GError **error)
{
  gint64 begin = g_get_monotonic_time ();
  g_autoptr(GVariant) reply =
    ask_as_watcher (self, "org.freedesktop.DBus.Properties", "Get",
                    g_variant_new ("(ss)", LLMSVC_INTERFACE, "Availability"), error);
  double ms = (double) (g_get_monotonic_time () - begin) / 1000.0;

  if (reply == NULL)
    {
      g_prefix_error (error, "A property can't be read: ");
      return FALSE;
    }
  g_array_append_val (self->reads_ms, ms);
  return TRUE;
}

/* Calls may have set the budget to a byte and quotas to one: nothing would be tried after that. */
static gboolean
put_right (Fuzz    *self,
           GError **error)
{
  static const char *const quotas[] = { "", "org.example.Fuzz0", "org.example.Fuzz1",
                                        "org.example.Fuzz2" };
  g_autoptr(GVariant) budget = NULL;
  GVariantBuilder options;

  g_variant_builder_init (&options, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&options, "{sv}", "bytes", g_variant_new_uint64 (0));
  budget = ask_as_watcher (self, LLMSVC_MEMORY_INTERFACE, "SetBudget",
                           g_variant_new ("(a{sv})", &options), error);
  for (guint i = 0; i < G_N_ELEMENTS (quotas) && *error == NULL; i++)
    {
      g_autoptr(GVariant) reply = NULL;

      g_variant_builder_init (&options, G_VARIANT_TYPE_VARDICT);
      g_variant_builder_add (&options, "{sv}", "contexts", g_variant_new_uint32 (64));
      g_variant_builder_add (&options, "{sv}", "calls", g_variant_new_uint32 (16));
      g_variant_builder_add (&options, "{sv}", "tokens", g_variant_new_uint64 (1048576));
      reply = ask_as_watcher (self, LLMSVC_ADMIN_INTERFACE, "SetQuota",
                              g_variant_new ("(sa{sv})", quotas[i], &options), error);
    }
  return *error == NULL;
}

static gboolean
run_batch (Fuzz    *self,
           GError **error)
{
  g_autoptr(GError) local = NULL;

  g_ptr_array_set_size (self->calls, 0);
  for (int i = 0; i < opt_batch; i++)
    g_ptr_array_add (self->calls,
                     fuzz_bus_call_new (&self->hints, self->world,
                                        self->callers[fuzz_bus_below (&self->hints, N_CALLERS)]));
  for (guint i = 0; i < self->calls->len; i++)
    fuzz_bus_call_send (g_ptr_array_index (self->calls, i));
  self->n_calls += self->calls->len;
  self->n_batches++;

  /* one who leaves in the middle */
  if (fuzz_bus_chance (&self->hints, 5))
    g_dbus_connection_close_sync (self->callers[fuzz_bus_below (&self->hints, N_CALLERS)], NULL, NULL);

  if (!await_calls (self))
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_TIMED_OUT,
                   "Calls are without an answer after %d s", opt_limit_s);
      return FALSE;
    }
  if (!fuzz_bus_daemon_check (self->daemon, error) || !judge_calls (self, error) ||
      !read_property (self, error))
    return FALSE;
  stir_streams (self);
  if (self->n_batches % 10 == 0 && !put_right (self, &local))
    {
      g_propagate_prefixed_error (error, g_steal_pointer (&local),
                                  "What calls have set can't be put right: ");
      return FALSE;
    }
  self->most_kib = MAX (self->most_kib, fuzz_bus_daemon_get_kib (self->daemon));
  return keep_callers (self, error);
}

/* --- rounds --- */

/* As another application: what the callers use up is not its own. */
static gboolean
register_watcher (Fuzz    *self,
                  GError **error)
{
  g_autoptr(GVariant) reply =
    ask_as_watcher (self, LLMSVC_INTERFACE, "Register",
                    g_variant_new ("(sa{sv})", "org.example.Watcher", NULL), error);

  return reply != NULL;
}

static gboolean
begin_round (Fuzz    *self,
             GError **error)
{
  /* what was made before is found again every other time */
  if (!fuzz_bus_daemon_start (self->daemon, self->n_rounds % 2 == 1, error))
    return FALSE;
  self->watcher = fuzz_bus_daemon_connect (self->daemon, error);
  if (self->watcher == NULL || !register_watcher (self, error))
    return FALSE;
  for (guint i = 0; i < N_CALLERS; i++)
    if (!connect_caller (self, i, error))
      return FALSE;
  if (self->world == NULL)
    {
      self->world = fuzz_bus_world_new (self->watcher, error);
      if (self->world == NULL)
        return FALSE;
      self->hints.paths = g_ptr_array_ref (self->world->paths[FUZZ_BUS_CONTEXT]);
    }
  else
    {
      fuzz_bus_world_forget (self->world);
    }
  self->n_rounds++;
  return TRUE;
}

static gboolean
end_round (Fuzz    *self,
           GError **error)
{
  for (guint i = 0; i < N_CALLERS; i++)
    {
      g_dbus_connection_close_sync (self->callers[i], NULL, NULL);
      g_clear_object (&self->callers[i]);
    }
  g_dbus_connection_close_sync (self->watcher, NULL, NULL);
  g_clear_object (&self->watcher);
  while (self->streams->len > 0)
    drop_stream (self, 0);
  return fuzz_bus_daemon_stop (self->daemon, error);
}

/* --- telling --- */

static int
compare_doubles (gconstpointer a,
                 gconstpointer b)
{
  double left = *(const double *) a;
  double right = *(const double *) b;

  return (left > right) - (left < right);
}

static double
get_percentile (GArray *values,
                double  share)
{
  guint index = (guint) (share * (values->len - 1));

  return values->len > 0 ? g_array_index (values, double, index) : 0;
}

static void
report (Fuzz *self)
{
  g_autoptr(GList) names = g_list_sort (g_hash_table_get_keys (self->counts), (GCompareFunc) strcmp);
  g_autoptr(GArray) reads = g_array_copy (self->reads_ms);

  g_array_sort (reads, compare_doubles);
  printf ("seed %d: %ju calls in %ju batches, %u rounds; property read p50 %.1f p99 %.1f max %.1f ms; "
          "resident at most %.1f MiB\n",
          opt_seed, (uintmax_t) self->n_calls, (uintmax_t) self->n_batches, self->n_rounds,
          get_percentile (reads, 0.5), get_percentile (reads, 0.99), get_percentile (reads, 1),
          (double) self->most_kib / 1024);
  for (GList *l = names; l != NULL; l = l->next)
    printf ("  %8u %s\n", GPOINTER_TO_UINT (g_hash_table_lookup (self->counts, l->data)),
            (const char *) l->data);
  fflush (stdout);
}

static void
report_failure (Fuzz         *self,
                const GError *error)
{
  printf ("FAILED with seed %d in batch %ju: %s\nThe last batch:\n", opt_seed,
          (uintmax_t) self->n_batches, error->message);
  for (guint i = 0; i < self->calls->len; i++)
    {
      g_autofree char *text = fuzz_bus_call_print (g_ptr_array_index (self->calls, i));

      printf ("  %s\n", text);
    }
  fflush (stdout);
}

/* A service that has died needs a while to say why; its words tell more than a call that got no
 * answer. */
static void
explain (Fuzz    *self,
         GError **error)
{
  g_autoptr(GError) reason = NULL;

  for (guint i = 0; i < N_LOOKS && reason == NULL; i++)
    if (fuzz_bus_daemon_check (self->daemon, &reason))
      g_usleep (G_USEC_PER_SEC / 10);
  if (reason != NULL)
    g_prefix_error (error, "%s\n", reason->message);
}

static gboolean
run (Fuzz    *self,
     GError **error)
{
  gint64 end_us = g_get_monotonic_time () + (gint64) opt_seconds * G_USEC_PER_SEC;
  gint64 report_us = g_get_monotonic_time () + REPORT_US;

  do
    {
      if (!begin_round (self, error))
        return FALSE;
      for (int i = 0; i < opt_round && g_get_monotonic_time () < end_us; i++)
        {
          if (!run_batch (self, error))
            {
              explain (self, error);
              return FALSE;
            }
          if (g_get_monotonic_time () > report_us)
            {
              report (self);
              report_us = g_get_monotonic_time () + REPORT_US;
            }
        }
      if (!end_round (self, error))
        return FALSE;
    }
  while (g_get_monotonic_time () < end_us);
  return TRUE;
}

static void
fuzz_clear (Fuzz *self)
{
  for (guint i = 0; i < N_CALLERS; i++)
    g_clear_object (&self->callers[i]);
  g_clear_object (&self->watcher);
  while (self->streams->len > 0)
    drop_stream (self, 0);
  fuzz_bus_daemon_free (self->daemon);
  g_clear_pointer (&self->world, fuzz_bus_world_free);
  g_rand_free (self->hints.random);
  g_clear_pointer (&self->hints.paths, g_ptr_array_unref);
  g_ptr_array_unref (self->hints.names);
  g_array_unref (self->streams);
  g_ptr_array_unref (self->calls);
  g_hash_table_unref (self->counts);
  g_array_unref (self->reads_ms);
}

static void
fuzz_init (Fuzz *self)
{
  static const char *const names[] = { "one", "two", "three", "org.example.Fuzz0",
                                       "org.example.Fuzz1", "llmsvc-demo-8M-Q8_0" };

  self->hints.random = g_rand_new_with_seed ((guint32) opt_seed);
  self->hints.max_text = (guint) opt_max_text;
  self->hints.names = g_ptr_array_new ();
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    g_ptr_array_add (self->hints.names, (char *) names[i]);
  self->streams = g_array_new (FALSE, FALSE, sizeof (int));
  self->calls = g_ptr_array_new_with_free_func ((GDestroyNotify) fuzz_bus_call_free);
  self->counts = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->reads_ms = g_array_new (FALSE, FALSE, sizeof (double));
  self->daemon = fuzz_bus_daemon_new (opt_daemon, opt_model);
}

int
main (int    argc,
      char **argv)
{
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_autoptr(GError) error = NULL;
  Fuzz fuzz = { 0 };
  gboolean is_good;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || opt_daemon == NULL ||
      opt_model == NULL || opt_seconds < 1 || opt_batch < 1 || opt_limit_s < 1 ||
      opt_limit_s > G_MAXINT / 1000 || opt_round < 1 || opt_max_text < 64)
    {
      g_printerr ("fuzz-bus: %s\n",
                  error != NULL ? error->message : "--daemon FILE and --model FILE are needed");
      return 2;
    }
  fuzz_init (&fuzz);
  is_good = run (&fuzz, &error);
  report (&fuzz);
  if (!is_good)
    report_failure (&fuzz, error);
  if (!is_good)
    {
      /* calls without an answer still point at what they were made with */
      fuzz_bus_daemon_free (fuzz.daemon);
      fflush (stdout);
      _exit (1);
    }
  fuzz_clear (&fuzz);
  return 0;
}
