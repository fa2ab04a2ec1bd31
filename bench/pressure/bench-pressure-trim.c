/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What Trim("critical") takes while a long prompt is read, and what comes free: by what the kernel
 * says of the service to this process. */

#include "pressure/bench-pressure-trace.h"

#include <string.h>
#include <unistd.h>

#include <gio/gunixfdlist.h>

#include "bench-bus.h"
#include "common/llmsvc-names.h"

/* How long the prompt is read before the trim. */
#define BEGIN_US 1500000
#define CONTEXT_WORDS 25

/* Different words each time, so that nothing of it is known yet. */
static char *
make_prompt (guint n_words,
             guint seed)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < n_words; i++)
    g_string_append_printf (text, "%c%c%u ", 'a' + (i + seed) % 26, 'a' + seed % 26, i * 7 % 100);
  return g_string_free (text, FALSE);
}

static char *
create_context (BenchBus *bus)
{
  g_autoptr(GVariant) reply = bench_bus_call (bus, LLMSVC_PATH, LLMSVC_INTERFACE, "CreateContext",
                                              g_variant_new ("(a{sv})", NULL), "(o)");
  char *path;

  g_variant_get (reply, "(o)", &path);
  return path;
}

static void
ask (BenchBus   *bus,
     const char *path,
     const char *prompt)
{
  g_autoptr(GVariant) reply =
    bench_bus_call (bus, path, LLMSVC_CONTEXT_INTERFACE, "Ask",
                    g_variant_new ("(s@a{sv})", prompt, bench_bus_make_options (2)), "(sa{sv})");
}

/* Begins an answer; returns the end of the pipe that it comes from. */
static int
begin_answer (BenchBus   *bus,
              const char *path,
              const char *prompt)
{
  GVariantBuilder messages;
  g_autoptr(GUnixFDList) fds = NULL;
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GError) error = NULL;
  int fd;

  g_variant_builder_init (&messages, G_VARIANT_TYPE ("a(ssa{sv})"));
  g_variant_builder_add (&messages, "(ssa{sv})", "user", prompt, NULL);
  reply = g_dbus_connection_call_with_unix_fd_list_sync (
    bus->connection, LLMSVC_BUS_NAME, path, LLMSVC_CONTEXT_INTERFACE, "Generate",
    g_variant_new ("(a(ssa{sv})@a{sv})", &messages, bench_bus_make_options (4)),
    G_VARIANT_TYPE ("(oh)"), G_DBUS_CALL_FLAGS_NONE, G_MAXINT, NULL, &fds, NULL, &error);
  if (reply == NULL)
    g_error ("Generate failed: %s", error->message);
  fd = g_unix_fd_list_get (fds, 0, &error);
  if (fd < 0)
    g_error ("%s", error->message);
  return fd;
}

/* TRUE when the answer came to its end. */
static gboolean
await_end (int fd)
{
  GString *text = g_string_new (NULL);
  g_autofree char *all = NULL;
  char bytes[4096];
  ssize_t n;

  while ((n = read (fd, bytes, sizeof bytes)) > 0)
    g_string_append_len (text, bytes, n);
  close (fd);
  all = g_string_free (text, FALSE);
  return strstr (all, "\"done\"") != NULL;
}

static double
read_resident (BenchBus *bus)
{
  return bench_read_proc_mib (bus->daemon_pid, "smaps_rollup", "Rss:");
}

static double
read_anonymous (BenchBus *bus)
{
  return bench_read_proc_mib (bus->daemon_pid, "smaps_rollup", "Anonymous:");
}

static void
trim_once (BenchBus  *bus,
           GPtrArray *figures)
{
  double before = read_resident (bus);
  double anonymous = read_anonymous (bus);
  gint64 begin = g_get_monotonic_time ();
  g_autoptr(GVariant) reply =
    bench_bus_call (bus, LLMSVC_PATH, LLMSVC_MEMORY_INTERFACE, "Trim",
                    g_variant_new ("(sa{sv})", "critical", NULL), "(a{sv})");
  gint64 end = g_get_monotonic_time ();
  g_autoptr(GVariant) results = g_variant_get_child_value (reply, 0);
  guint64 freed = 0;

  g_variant_lookup (results, "freed", "t", &freed);
  bench_figures_add (figures, "reply", "ms", (double) (end - begin) / 1000);
  bench_figures_add (figures, "resident before", "MiB", before);
  bench_figures_add (figures, "resident after", "MiB", read_resident (bus));
  bench_figures_add (figures, "anonymous before", "MiB", anonymous);
  bench_figures_add (figures, "anonymous after", "MiB", read_anonymous (bus));
  bench_figures_add (figures, "freed, as it says", "MiB", (double) freed / 1048576);
}

int
bench_pressure_trim (const BenchTrimPlan *plan)
{
  g_autoptr(GPtrArray) figures =
    g_ptr_array_new_with_free_func ((GDestroyNotify) bench_figure_free);
  g_autoptr(GPtrArray) contexts = g_ptr_array_new_with_free_func (g_free);
  BenchBus *bus = bench_bus_new (plan->daemon, plan->model, NULL);
  gboolean all_ended = TRUE;

  for (guint i = 0; i < plan->n_contexts; i++)
    g_ptr_array_add (contexts, create_context (bus));
  for (guint run = 0; run < plan->n_runs; run++)
    {
      g_autofree char *path = create_context (bus);
      g_autofree char *prompt = make_prompt (plan->n_words, 1000 + run);
      gint64 trimmed_us;
      int fd;

      for (guint i = 0; i < contexts->len; i++)
        {
          g_autofree char *text = make_prompt (CONTEXT_WORDS, run * contexts->len + i);

          ask (bus, g_ptr_array_index (contexts, i), text);
        }
      bus->daemon_pid = bench_bus_find_pid (bus, LLMSVC_BUS_NAME);
      fd = begin_answer (bus, path, prompt);
      g_usleep (BEGIN_US);
      trim_once (bus, figures);
      trimmed_us = g_get_monotonic_time ();
      all_ended = await_end (fd) && all_ended;
      bench_figures_add (figures, "rest of the answer", "s",
                         (double) (g_get_monotonic_time () - trimmed_us) / G_USEC_PER_SEC);
    }
  bench_print (figures, plan->as_json);
  bench_bus_free (bus);
  if (!all_ended)
    g_printerr ("An answer did not come to its end\n");
  return all_ended ? 0 : 1;
}
