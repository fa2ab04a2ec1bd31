/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The harm that callers may do: one function a kind, as fast as it goes, in a process of its own
 * until that is killed. What the service says to it does not matter.
 */

#include "soak/bench-soak-hostile.h"

#include <fcntl.h>
#include <string.h>

#include "bench-random.h"
#include "soak/bench-soak-talk.h"
#include "common/llmsvc-names.h"

#define N_IN_FLIGHT 64
#define HUGE_BYTES (8 * 1024 * 1024)
#define SMALL_PIPE 4096
#define MAX_PIPES 64

typedef struct
{
  const char *address;
  GDBusConnection *connection;
  BenchRandom random;
  char *context;
  guint n;
  void (*issue) (gpointer flood);
} Flood;

/* --- floods of calls, many at a time --- */

static void
on_replied (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  Flood *self = data;
  g_autoptr(GVariant) reply =
    g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, NULL);

  self->issue (self);
}

static void
call (Flood      *self,
      const char *path,
      const char *interface,
      const char *method,
      GVariant   *arguments)
{
  g_dbus_connection_call (self->connection, LLMSVC_BUS_NAME, path, interface, method, arguments,
                          NULL, G_DBUS_CALL_FLAGS_NONE, G_MAXINT, NULL, on_replied, self);
}

static void
issue_to_bus (gpointer data)
{
  Flood *self = data;

  g_dbus_connection_call (self->connection, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                          "org.freedesktop.DBus", "GetId", NULL, NULL, G_DBUS_CALL_FLAGS_NONE,
                          G_MAXINT, NULL, on_replied, self);
}

static void
issue_call (gpointer data)
{
  Flood *self = data;
  g_autofree char *text = g_strdup_printf ("How many tokens are these? %u", self->n);

  switch (self->n++ % 4)
    {
    case 0:
      call (self, LLMSVC_PATH, LLMSVC_INTERFACE, "GetStatistics",
            g_variant_new ("(@a{sv})", bench_talk_no_options ()));
      break;
    case 1:
      call (self, LLMSVC_PATH, LLMSVC_INTERFACE, "ListContexts",
            g_variant_new ("(@a{sv})", bench_talk_no_options ()));
      break;
    case 2:
      call (self, LLMSVC_PATH, LLMSVC_ADMIN_INTERFACE, "ListApps",
            g_variant_new ("(@a{sv})", bench_talk_no_options ()));
      break;
    default:
      call (self, LLMSVC_PATH, LLMSVC_INTERFACE, "CountTokens",
            g_variant_new ("(@a(ssa{sv})@a{sv})", bench_talk_message (text),
                           bench_talk_no_options ()));
      break;
    }
}

static void
issue_property (gpointer data)
{
  Flood *self = data;

  call (self, LLMSVC_PATH, "org.freedesktop.DBus.Properties", "GetAll",
        g_variant_new ("(s)", self->n++ % 2 == 0 ? LLMSVC_INTERFACE : LLMSVC_MEMORY_INTERFACE));
}

/* Half of them named, none ever closed: the quota is met soon. */
static void
issue_context (gpointer data)
{
  Flood *self = data;
  GVariantDict options;

  g_variant_dict_init (&options, NULL);
  if (self->n++ % 2 == 0)
    {
      g_autofree char *name = g_strdup_printf ("flood %u", self->n);

      g_variant_dict_insert (&options, "name", "s", name);
    }
  g_variant_dict_insert (&options, "system", "s", "You are flooded.");
  call (self, LLMSVC_PATH, LLMSVC_INTERFACE, "CreateContext",
        g_variant_new ("(@a{sv})", g_variant_dict_end (&options)));
}

static void
issue_garbage (gpointer data)
{
  Flood *self = data;
  GVariantBuilder options;

  switch (self->n++ % 4)
    {
    case 0:
      call (self, LLMSVC_PATH, LLMSVC_INTERFACE, "NoSuchMethod", NULL);
      break;
    case 1:
      call (self, LLMSVC_CONTEXTS_PATH "/0123456789abcdef0123456789abcdef",
            LLMSVC_CONTEXT_INTERFACE, "Ask",
            g_variant_new ("(s@a{sv})", "Hello", bench_talk_no_options ()));
      break;
    case 2:
      call (self, LLMSVC_PATH, LLMSVC_INTERFACE, "Complete", g_variant_new ("(u)", 7));
      break;
    default:
      g_variant_builder_init (&options, G_VARIANT_TYPE_VARDICT);
      for (guint i = 0; i < 300; i++)
        g_variant_builder_add (&options, "{sv}", "max-tokens", g_variant_new_string ("many"));
      call (self, LLMSVC_PATH, LLMSVC_INTERFACE, "Complete",
            g_variant_new ("(sa{sv})", "Hello", &options));
      break;
    }
}

/* More text than a call may bring, and as many messages as fit into it. */
static void
issue_huge (gpointer data)
{
  Flood *self = data;

  if (self->n++ % 2 == 0)
    {
      g_autofree char *text = g_malloc (HUGE_BYTES + 1);

      memset (text, 'a', HUGE_BYTES);
      text[HUGE_BYTES] = '\0';
      call (self, LLMSVC_PATH, LLMSVC_INTERFACE, "Complete",
            g_variant_new ("(s@a{sv})", text, bench_talk_no_options ()));
    }
  else
    {
      GVariantBuilder messages;

      g_variant_builder_init (&messages, G_VARIANT_TYPE ("a(ssa{sv})"));
      for (guint i = 0; i < 20000; i++)
        g_variant_builder_add (&messages, "(ss@a{sv})", "user", "Hello", bench_talk_no_options ());
      call (self, LLMSVC_PATH, LLMSVC_INTERFACE, "CountTokens",
            g_variant_new ("(a(ssa{sv})@a{sv})", &messages, bench_talk_no_options ()));
    }
}

static void
issue_answer (gpointer data)
{
  Flood *self = data;
  GVariantDict options;

  g_variant_dict_init (&options, NULL);
  g_variant_dict_insert (&options, "max-tokens", "u", 200);
  call (self, LLMSVC_PATH, LLMSVC_INTERFACE, "Complete",
        g_variant_new ("(s@a{sv})", "Tell me a very long story.", g_variant_dict_end (&options)));
}

static void
flood_calls (Flood *self,
             guint  n_in_flight)
{
  for (guint i = 0; i < n_in_flight; i++)
    self->issue (self);
  for (;;)
    g_main_context_iteration (NULL, TRUE);
}

/* --- floods one after the other --- */

static BenchStream *
begin_answer (Flood *self)
{
  GVariantDict options;

  g_variant_dict_init (&options, NULL);
  g_variant_dict_insert (&options, "max-tokens", "u", 500);
  return bench_stream_new (self->connection, self->context, "Tell me a very long story.",
                           g_variant_dict_end (&options), FALSE, NULL);
}

static gboolean
make_context (Flood *self)
{
  g_autoptr(GVariant) reply =
    bench_talk_call (self->connection, LLMSVC_PATH, LLMSVC_INTERFACE, "CreateContext",
                     g_variant_new ("(@a{sv})", bench_talk_no_options ()), "(o)", NULL);

  if (reply == NULL)
    return FALSE;
  g_free (self->context);
  g_variant_get (reply, "(o)", &self->context);
  return TRUE;
}

static void
flood_cancels (Flood *self)
{
  make_context (self);
  for (;;)
    {
      BenchStream *stream = begin_answer (self);

      if (stream == NULL)
        continue;
      for (guint i = 0; i < 4; i++)
        {
          g_autoptr(GVariant) reply = bench_talk_call (
            self->connection, stream->generation, LLMSVC_GENERATION_INTERFACE, "Cancel",
            g_variant_new ("(@a{sv})", bench_talk_no_options ()), "()", NULL);
        }
      bench_stream_free (stream);
    }
}

/* Answers that nobody reads, in pipes as small as they get. */
static void
flood_pipes (Flood *self)
{
  GQueue streams = G_QUEUE_INIT;

  for (;;)
    {
      BenchStream *stream = make_context (self) ? begin_answer (self) : NULL;

      if (stream != NULL)
        {
          (void) fcntl (stream->fd, F_SETPIPE_SZ, SMALL_PIPE);
          g_queue_push_tail (&streams, stream);
        }
      while (g_queue_get_length (&streams) > MAX_PIPES)
        bench_stream_free (g_queue_pop_head (&streams));
    }
}

static void
flood_connections (Flood *self)
{
  for (;;)
    {
      g_autofree char *id =
        g_strdup_printf ("org.example.Flood%" G_GUINT64_FORMAT, bench_random_next (&self->random));
      g_autoptr(GDBusConnection) connection = bench_talk_connect (self->address, id, NULL);
      g_autoptr(GVariant) reply = NULL;

      if (connection == NULL)
        continue;
      reply = bench_talk_call (connection, LLMSVC_PATH, LLMSVC_INTERFACE, "CreateContext",
                               g_variant_new ("(@a{sv})", bench_talk_no_options ()), "(o)", NULL);
      g_dbus_connection_close_sync (connection, NULL, NULL);
    }
}

/* --- --- */

int
bench_hostile_run (const char *address,
                   const char *kind,
                   guint64     seed)
{
  static const struct
  {
    const char *kind;
    void (*issue) (gpointer flood);
    guint n_in_flight;
  } floods[] = {
    { "bus", issue_to_bus, N_IN_FLIGHT },
    { "calls", issue_call, N_IN_FLIGHT },
    { "properties", issue_property, N_IN_FLIGHT },
    { "contexts", issue_context, N_IN_FLIGHT },
    { "garbage", issue_garbage, N_IN_FLIGHT },
    { "huge", issue_huge, 2 },
    { "answers", issue_answer, N_IN_FLIGHT },
  };
  static const struct
  {
    const char *kind;
    void (*run) (Flood *self);
  } loops[] = {
    { "cancels", flood_cancels },
    { "pipes", flood_pipes },
    { "connections", flood_connections },
  };
  Flood flood = { .address = address, .random = bench_random_derive (seed, 0xf100d) };

  flood.connection = bench_talk_connect (address, "org.example.Hostile", NULL);
  if (flood.connection == NULL)
    return 1;
  for (guint i = 0; i < G_N_ELEMENTS (floods); i++)
    if (strcmp (kind, floods[i].kind) == 0)
      {
        flood.issue = floods[i].issue;
        flood_calls (&flood, floods[i].n_in_flight);
      }
  for (guint i = 0; i < G_N_ELEMENTS (loops); i++)
    if (strcmp (kind, loops[i].kind) == 0)
      loops[i].run (&flood);
  return 1;
}
