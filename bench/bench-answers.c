/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * For the benchmarks in Python, which would add their own time: calls of the service on the bus
 * ADDRESS, N times over one connection: the milliseconds from each call to the first byte of an
 * answer. With MODEL whole answers beside the same engine in this process, interleaved, as a line
 * of JSON each.
 */

#include "bench.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gio/gunixfdlist.h>

#include "common/llmsvc-names.h"
#include "decoding/llm-buffer-sink.h"
#include "engine/llm-engine.h"

typedef struct
{
  GDBusConnection *bus;
  const char *prompt;
  guint n_tokens;
} Caller;

/* What goes wrong ends the program. */
static GVariant *
call (GDBusConnection *bus,
      const char      *interface,
      const char      *method,
      GVariant        *arguments,
      const char      *type)
{
  g_autoptr(GError) error = NULL;
  GVariant *reply = g_dbus_connection_call_sync (bus, LLMSVC_BUS_NAME, LLMSVC_PATH, interface,
                                                 method, arguments, G_VARIANT_TYPE (type),
                                                 G_DBUS_CALL_FLAGS_NONE, G_MAXINT, NULL, &error);

  if (reply == NULL)
    g_error ("%s failed: %s", method, error->message);
  return reply;
}

/* (transfer floating): of answers that are the same each time. */
static GVariant *
make_options (const Caller *self)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "temperature", "d", 0.0);
  g_variant_dict_insert (&dict, "max-tokens", "u", self->n_tokens);
  return g_variant_dict_end (&dict);
}

static double
get_ms_since (gint64 begin)
{
  return (double) (g_get_monotonic_time () - begin) / 1000;
}

/* The rest of the answer is waited for. */
static double
time_first_byte (const Caller *self)
{
  gint64 begin = g_get_monotonic_time ();
  g_autoptr(GVariant) created = call (self->bus, LLMSVC_INTERFACE, "CreateContext",
                                      g_variant_new ("(a{sv})", NULL), "(o)");
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GUnixFDList) fds = NULL;
  g_autoptr(GError) error = NULL;
  GVariantBuilder messages;
  const char *path;
  char byte;
  double ms;
  int fd;

  g_variant_get (created, "(&o)", &path);
  g_variant_builder_init (&messages, G_VARIANT_TYPE ("a(ssa{sv})"));
  g_variant_builder_add (&messages, "(ssa{sv})", "user", self->prompt, NULL);
  reply = g_dbus_connection_call_with_unix_fd_list_sync (
    self->bus, LLMSVC_BUS_NAME, path, LLMSVC_CONTEXT_INTERFACE, "Generate",
    g_variant_new ("(a(ssa{sv})@a{sv})", &messages, make_options (self)),
    G_VARIANT_TYPE ("(oh)"), G_DBUS_CALL_FLAGS_NONE, G_MAXINT, NULL, &fds, NULL, &error);
  if (reply == NULL)
    g_error ("Generate failed: %s", error->message);
  fd = g_unix_fd_list_get (fds, 0, &error);
  if (read (fd, &byte, 1) != 1)
    g_error ("The stream ended without text");
  ms = get_ms_since (begin);
  while (read (fd, &byte, 1) == 1)
    ;
  close (fd);
  return ms;
}

/* --- CPU milliseconds so far --- */

static guint
find_pid (GDBusConnection *bus,
          const char      *name)
{
  g_autoptr(GVariant) reply =
    g_dbus_connection_call_sync (bus, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                 "org.freedesktop.DBus", "GetConnectionUnixProcessID",
                                 g_variant_new ("(s)", name), G_VARIANT_TYPE ("(u)"),
                                 G_DBUS_CALL_FLAGS_NONE, -1, NULL, NULL);
  guint pid = 0;

  if (reply != NULL)
    g_variant_get (reply, "(u)", &pid);
  return pid;
}

static double
read_process_ms (guint pid)
{
  g_autofree char *folder = g_strdup_printf ("/proc/%u/task", pid);
  g_autoptr(GDir) tasks = g_dir_open (folder, 0, NULL);
  const char *task;
  double ms = 0;

  /* schedstat counts nanoseconds, per thread; threads here live as long as we look. */
  while (tasks != NULL && (task = g_dir_read_name (tasks)) != NULL)
    {
      g_autofree char *file = g_build_filename (folder, task, "schedstat", NULL);
      g_autofree char *text = NULL;

      if (g_file_get_contents (file, &text, NULL, NULL))
        ms += g_ascii_strtoull (text, NULL, 10) / 1e6;
    }
  return ms;
}

static double
read_own_ms (void)
{
  struct rusage usage;

  getrusage (RUSAGE_SELF, &usage);
  return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000.0 +
         (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000.0;
}

/* --- the same engine in this process --- */

static void
on_answer (const char   *text,
           GVariant     *results,
           const GError *error,
           gpointer      data)
{
  if (error != NULL)
    g_error ("The engine failed: %s", error->message);
  *(gboolean *) data = TRUE;
}

static void
answer_in_process (const Caller *self,
                   LlmEngine    *engine,
                   LlmCaller    *caller)
{
  gboolean is_done = FALSE;
  g_autoptr(LlmSink) sink = llm_buffer_sink_new (NULL, on_answer, &is_done, NULL);
  g_autoptr(GVariant) dict = g_variant_ref_sink (make_options (self));
  g_autoptr(LlmCallOptions) options =
    llm_call_options_parse (dict, LLMSVC_CALL_COMPLETE, NULL, NULL);

  llm_engine_complete_async (engine, caller, self->prompt, options, sink, NULL, NULL);
  while (!is_done)
    g_main_context_iteration (NULL, TRUE);
}

static void
compare (const Caller *self,
         const char   *model,
         guint64       n_runs)
{
  LlmSettings *settings = llm_settings_new ();
  g_autoptr(LlmCaller) caller = llm_caller_new (0, "", "", LLM_CALLER_HOST);
  g_autoptr(LlmEngine) engine = NULL;
  guint service, daemon;

  settings->model_file = g_strdup (model);
  engine = llm_engine_new (settings);
  llm_engine_start (engine);
  time_first_byte (self);
  answer_in_process (self, engine, caller);
  service = find_pid (self->bus, LLMSVC_BUS_NAME);
  daemon = find_pid (self->bus, "org.freedesktop.DBus");
  for (guint64 i = 0; i < n_runs; i++)
    {
      double bus_cpu = read_process_ms (service) + read_process_ms (daemon) + read_own_ms ();
      double engine_cpu, bus_ms, engine_ms;
      gint64 begin = g_get_monotonic_time ();

      g_variant_unref (call (self->bus, LLMSVC_INTERFACE, "Complete",
                             g_variant_new ("(s@a{sv})", self->prompt, make_options (self)),
                             "(sa{sv})"));
      bus_ms = get_ms_since (begin);
      bus_cpu = read_process_ms (service) + read_process_ms (daemon) + read_own_ms () - bus_cpu;

      engine_cpu = read_own_ms ();
      begin = g_get_monotonic_time ();
      answer_in_process (self, engine, caller);
      engine_ms = get_ms_since (begin);
      engine_cpu = read_own_ms () - engine_cpu;

      begin = g_get_monotonic_time ();
      g_variant_unref (call (self->bus, "org.freedesktop.DBus.Properties", "Get",
                             g_variant_new ("(ss)", LLMSVC_MEMORY_INTERFACE, "Resident"), "(v)"));
      printf ("[%f, %f, %f, %f, %f, %f]\n", bus_ms, engine_ms, bus_ms / engine_ms, bus_cpu,
              engine_cpu, get_ms_since (begin));
    }
  llm_engine_stop (engine);
}

int
bench_answers (int    argc,
               char **argv)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GDBusConnection) bus = NULL;
  Caller self;
  guint64 n;

  if (argc != 5 && argc != 6)
    {
      g_printerr ("Usage: llmsvc-bench answers ADDRESS PROMPT TOKENS N [MODEL]\n");
      return 2;
    }
  g_log_set_always_fatal (G_LOG_LEVEL_ERROR);
  bus = g_dbus_connection_new_for_address_sync (
    argv[1],
    G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
    NULL, NULL, &error);
  if (bus == NULL)
    g_error ("%s", error->message);
  self = (Caller) { bus, argv[2], (guint) g_ascii_strtoull (argv[3], NULL, 10) };
  n = g_ascii_strtoull (argv[4], NULL, 10);
  if (argc == 6)
    compare (&self, argv[5], n);
  for (guint64 i = 0; argc == 5 && i < n; i++)
    printf ("%f\n", time_first_byte (&self));
  return 0;
}
