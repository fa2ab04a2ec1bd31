/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Several callers at once: what they see of each other, what happens when one
 * leaves or stops reading, and that nobody waits for the work of another. */

#include <fcntl.h>
#include <gio/gio.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "bus-rig.h"

#define SHORT "{'max-tokens': <uint32 12>, 'temperature': <0.0>}"
#define SMALL_PIPE_BYTES 4096
#define N_PREFILL_SAMPLES 100
#define MAX_PREFILL_ROUNDS 200
#define MAX_MEDIAN_US 50000

typedef struct
{
  BusRig *rig;
  GDBusConnection *a;
  GDBusConnection *b;
} Fixture;

static void
set_up (Fixture      *fixture,
        gconstpointer config)
{
  fixture->rig = bus_rig_new (NULL, config);
  fixture->a = bus_rig_connect_app (fixture->rig, "org.example.A");
  fixture->b = bus_rig_connect_app (fixture->rig, "org.example.B");
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  g_object_unref (fixture->a);
  g_object_unref (fixture->b);
  bus_rig_free (fixture->rig);
}

static guint
count_contexts (GDBusConnection *app)
{
  g_autoptr(GVariant) reply =
    bus_call_ok (app, NULL, "", "ListContexts", g_variant_new ("(@a{sv})", bus_options ("{}")));
  g_autoptr(GVariant) list = g_variant_get_child_value (reply, 0);

  return (guint) g_variant_n_children (list);
}

static char *
create (GDBusConnection *app)
{
  g_autoptr(GVariant) reply =
    bus_call_ok (app, NULL, "", "CreateContext", g_variant_new ("(@a{sv})", bus_options ("{}")));
  char *path;

  g_variant_get (reply, "(o)", &path);
  return path;
}

static void
ask (GDBusConnection *app,
     const char      *context)
{
  g_autoptr(GVariant) reply = NULL;

  reply = bus_call_ok (app, context, ".Context", "Ask",
                       g_variant_new ("(s@a{sv})", "Hello", bus_options (SHORT)));
}

/* --- apart --- */

/* The error of a call on @path by @app, with the path taken out. */
static char *
get_error (GDBusConnection *app,
           const char      *path,
           const char      *interface,
           const char      *method,
           GVariant        *arguments)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply = bus_call (app, path, interface, method, arguments, &error);
  g_auto(GStrv) parts = NULL;

  g_assert_null (reply);
  parts = g_strsplit (error->message, path, -1);
  return g_strjoinv ("PATH", parts);
}

typedef struct
{
  const char *interface;
  const char *method;
  const char *arguments;
} Probe;

/* What another application gets on a path is what everybody gets on one that never
 * was, word for word. */
static void
test_apart (Fixture      *fixture,
            gconstpointer data)
{
  static const Probe probes[] = {
    { ".Context", "Ask", "('hi', @a{sv} {})" },
    { ".Context", "Generate", "(@a(ssa{sv}) [('user', 'hi', {})], @a{sv} {})" },
    { ".Context", "GetMessages", "(uint32 0, uint32 0, @a{sv} {})" },
    { ".Context", "Append", "(@a(ssa{sv}) [('user', 'hi', {})], @a{sv} {})" },
    { ".Context", "Rollback", "(uint32 1, @a{sv} {})" },
    { ".Context", "Fork", "(@a{sv} {},)" },
    { ".Context", "Close", "(@a{sv} {},)" },
    { "org.freedesktop.DBus.Properties", "Get", "('org.llm.Service.Context', 'Name')" },
    { "org.freedesktop.DBus.Properties", "Get", "('org.llm.Service.Context', 'Invented')" },
    { "org.freedesktop.DBus.Properties", "GetAll", "('org.llm.Service.Context',)" },
    { "org.freedesktop.DBus.Properties", "GetAll", "('org.llm.Service.Invented',)" },
    { "org.freedesktop.DBus.Properties", "Set",
      "('org.llm.Service.Context', 'Name', <'stolen'>)" },
    { "org.freedesktop.DBus.Introspectable", "Introspect", NULL },
    { ".Context", "Invented", NULL },
  };
  static const char never[] = LLMSVC_CONTEXTS_PATH "/00000000000000000000000000000000";
  g_autofree char *named = bus_open (fixture->a, "secret");
  g_autofree char *unnamed = create (fixture->a);
  g_autofree char *own = NULL;
  g_autofree char *seen_by_a = bus_introspect (fixture->a, LLMSVC_CONTEXTS_PATH);
  g_autofree char *seen_by_b = bus_introspect (fixture->b, LLMSVC_CONTEXTS_PATH);
  g_autoptr(GError) error = NULL;
  const char *const paths[] = { named, unnamed };

  ask (fixture->a, named);
  g_assert_nonnull (strstr (seen_by_a, "<node name"));
  g_assert_null (strstr (seen_by_b, "<node name"));
  g_assert_cmpuint (count_contexts (fixture->a), ==, 2);
  g_assert_cmpuint (count_contexts (fixture->b), ==, 0);

  for (guint i = 0; i < G_N_ELEMENTS (paths); i++)
    for (guint j = 0; j < G_N_ELEMENTS (probes); j++)
      {
        GVariant *first =
          probes[j].arguments != NULL ? g_variant_new_parsed (probes[j].arguments) : NULL;
        GVariant *second =
          probes[j].arguments != NULL ? g_variant_new_parsed (probes[j].arguments) : NULL;
        g_autofree char *others =
          get_error (fixture->b, paths[i], probes[j].interface, probes[j].method, first);
        g_autofree char *nobodys =
          get_error (fixture->b, never, probes[j].interface, probes[j].method, second);

        g_assert_cmpstr (others, ==, nobodys);
      }

  g_assert_null (bus_call (fixture->b, NULL, "", "OpenContext",
                           g_variant_new ("(s@a{sv})", "secret", bus_options ("{}")), &error));
  bus_assert_error (error, "NotFound");

  /* a context of the same name is another one, and nothing has changed in the first */
  own = bus_open (fixture->b, "secret");
  g_assert_cmpstr (own, !=, named);
  g_assert_cmpuint (bus_count_messages (fixture->b, own, NULL), ==, 0);
  g_assert_cmpuint (bus_count_messages (fixture->a, named, NULL), ==, 2);
  g_assert_cmpuint (count_contexts (fixture->a), ==, 2);
}

static void
test_generation_apart (Fixture      *fixture,
                       gconstpointer data)
{
  g_autofree char *context = bus_open (fixture->a, "story");
  g_autofree char *generation = NULL;
  g_autofree char *seen_by_a = NULL;
  g_autofree char *seen_by_b = NULL;
  g_autoptr(GVariant) state = NULL;
  g_autoptr(GVariant) cancelled = NULL;
  g_autoptr(GError) error = NULL;
  int fd;

  generation = bus_generate (fixture->a, context, "Tell me a long story",
                             bus_options (BUS_LONG_ANSWER "}"), &fd, &error);
  g_assert_no_error (error);
  bus_read_one (fd);
  seen_by_a = bus_introspect (fixture->a, LLMSVC_GENERATIONS_PATH);
  seen_by_b = bus_introspect (fixture->b, LLMSVC_GENERATIONS_PATH);
  g_assert_nonnull (strstr (seen_by_a, "<node name"));
  g_assert_null (strstr (seen_by_b, "<node name"));

  g_assert_null (bus_call (fixture->b, generation, ".Generation", "Cancel",
                           g_variant_new ("(@a{sv})", bus_options ("{}")), &error));
  bus_assert_unknown_object (error);
  g_clear_error (&error);
  g_assert_null (bus_call (fixture->b, generation, "org.freedesktop.DBus.Properties", "Get",
                           g_variant_new ("(ss)", LLMSVC_GENERATION_INTERFACE, "State"), &error));
  bus_assert_unknown_object (error);

  state = bus_get (fixture->a, generation, ".Generation", "State");
  g_assert_cmpstr (g_variant_get_string (state, NULL), ==, "decode");
  cancelled = bus_call_ok (fixture->a, generation, ".Generation", "Cancel",
                           g_variant_new ("(@a{sv})", bus_options ("{}")));
  close (fd);
}

static void
test_register (Fixture      *fixture,
               gconstpointer data)
{
  static const char *const wrong[] = { "", "../etc/passwd", "a b", ".hidden", "-x", "ünïcode",
                                       "unknown:1.5" };
  g_autoptr(GDBusConnection) late = bus_rig_connect (fixture->rig);
  g_autoptr(GDBusConnection) fresh = bus_rig_connect (fixture->rig);
  g_autoptr(GDBusConnection) reader = bus_rig_connect (fixture->rig);
  g_autoptr(GVariant) property = NULL;
  g_autoptr(GVariant) registered = NULL;
  g_autoptr(GVariant) again = NULL;
  g_autoptr(GError) error = NULL;

  /* after another call it is too late */
  g_assert_cmpuint (count_contexts (late), ==, 0);
  g_assert_null (bus_call (late, NULL, "", "Register",
                           g_variant_new ("(s@a{sv})", "org.example.A", bus_options ("{}")),
                           &error));
  bus_assert_error (error, "Conflict");
  g_clear_error (&error);

  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_assert_null (bus_call (fresh, NULL, "", "Register",
                               g_variant_new ("(s@a{sv})", wrong[i], bus_options ("{}")), &error));
      bus_assert_error (error, "InvalidArgument");
      g_clear_error (&error);
    }

  /* reading properties is not yet a call; once is enough, and twice the same is fine */
  property = bus_get (reader, NULL, "", "Availability");
  registered = bus_call_ok (reader, NULL, "", "Register",
                            g_variant_new ("(s@a{sv})", "org.example.A", bus_options ("{}")));
  again = bus_call_ok (reader, NULL, "", "Register",
                       g_variant_new ("(s@a{sv})", "org.example.A", bus_options ("{}")));
  g_assert_null (bus_call (reader, NULL, "", "Register",
                           g_variant_new ("(s@a{sv})", "org.example.B", bus_options ("{}")),
                           &error));
  bus_assert_error (error, "Conflict");
}

/* Only the system's endpoint calls for others; each calls for itself. */
static void
test_register_others (Fixture      *fixture,
                      gconstpointer data)
{
  g_autoptr(GDBusConnection) app = bus_rig_connect (fixture->rig);
  g_autofree char *own = g_strdup_printf ("{'uid': <uint32 %u>}", getuid ());
  g_autofree char *other = g_strdup_printf ("{'uid': <uint32 %u>}", getuid () + 1);
  g_autoptr(GVariant) registered = NULL;
  g_autoptr(GError) error = NULL;

  g_assert_null (bus_call (app, NULL, "", "Register",
                           g_variant_new ("(s@a{sv})", "org.example.A", bus_options (other)), &error));
  bus_assert_error (error, "NotAuthorized");
  registered = bus_call_ok (app, NULL, "", "Register",
                            g_variant_new ("(s@a{sv})", "org.example.A", bus_options (own)));
}

/* --- leaving --- */

typedef struct
{
  GDBusConnection *app;
  guint n_contexts;
  const char *context;
} Wanted;

static gboolean
has_so_many_contexts (gpointer data)
{
  Wanted *wanted = data;

  return count_contexts (wanted->app) == wanted->n_contexts;
}

static void
on_closed (GDBusConnection *connection,
           const char      *sender,
           const char      *path,
           const char      *interface,
           const char      *signal,
           GVariant        *arguments,
           gpointer         data)
{
  const char *reason;

  g_variant_get (arguments, "(&s)", &reason);
  g_string_append (data, reason);
}

static gboolean
has_text (gpointer data)
{
  return ((GString *) data)->len > 0;
}

/* Unnamed contexts end with the connection that made them, named ones do not. */
static void
test_leave_contexts (Fixture      *fixture,
                     gconstpointer data)
{
  GDBusConnection *second = bus_rig_connect_app (fixture->rig, "org.example.A");
  g_autofree char *unnamed = create (second);
  g_autofree char *named = bus_open (second, "kept");
  g_autoptr(GString) reason = g_string_new (NULL);
  g_autoptr(GError) error = NULL;
  Wanted wanted = { fixture->a, 1, NULL };

  ask (second, unnamed);
  ask (second, named);
  g_dbus_connection_signal_subscribe (fixture->a, NULL, LLMSVC_CONTEXT_INTERFACE, "Closed",
                                      unnamed, NULL, G_DBUS_SIGNAL_FLAGS_NONE, on_closed, reason,
                                      NULL);
  g_assert_cmpuint (bus_count_messages (fixture->a, unnamed, NULL), ==, 2);
  g_assert_cmpuint (count_contexts (fixture->a), ==, 2);

  g_dbus_connection_close_sync (second, NULL, NULL);
  g_object_unref (second);
  bus_wait_until (has_so_many_contexts, &wanted);
  bus_wait_until (has_text, reason);
  g_assert_cmpstr (reason->str, ==, "disconnected");
  g_assert_null (bus_call (fixture->a, unnamed, ".Context", "GetMessages",
                           g_variant_new ("(uu@a{sv})", 0, 0, bus_options ("{}")), &error));
  bus_assert_unknown_object (error);
  g_assert_cmpuint (bus_count_messages (fixture->a, named, NULL), ==, 2);
}

static guint64
get_statistic (GDBusConnection *app,
               const char      *key)
{
  g_autoptr(GVariant) reply =
    bus_call_ok (app, NULL, "", "GetStatistics", g_variant_new ("(@a{sv})", bus_options ("{}")));
  g_autoptr(GVariant) dict = g_variant_get_child_value (reply, 0);
  guint64 value = 0;

  g_assert_true (g_variant_lookup (dict, key, "t", &value));
  return value;
}

static gboolean
is_cancelled (gpointer data)
{
  return get_statistic (data, "cancelled") > 0;
}

/* Whoever leaves takes the answer along, though somebody still holds the pipe. */
static void
test_leave_generation (Fixture      *fixture,
                       gconstpointer data)
{
  GDBusConnection *second = bus_rig_connect_app (fixture->rig, "org.example.A");
  g_autofree char *context = bus_open (second, "story");
  g_autofree char *generation = NULL;
  g_autofree char *seen = NULL;
  g_autoptr(GString) rest = NULL;
  g_autoptr(GError) error = NULL;
  int fd;

  generation = bus_generate (second, context, "Tell me a long story",
                             bus_options (BUS_LONG_ANSWER "}"), &fd, &error);
  g_assert_no_error (error);
  bus_read_one (fd);
  g_dbus_connection_close_sync (second, NULL, NULL);
  g_object_unref (second);

  bus_wait_until (is_cancelled, fixture->b);
  rest = bus_read_all (fd);
  g_assert_null (strstr (rest->str, "\"done\""));
  g_assert_cmpuint (bus_count_messages (fixture->a, context, NULL), ==, 0);
  seen = bus_introspect (fixture->a, LLMSVC_GENERATIONS_PATH);
  g_assert_null (strstr (seen, "<node name"));
  ask (fixture->a, context);
}

static void
test_leave_complete (Fixture      *fixture,
                     gconstpointer data)
{
  GDBusConnection *second = bus_rig_connect_app (fixture->rig, "org.example.A");
  guint64 steps;

  g_dbus_connection_call (second, LLMSVC_BUS_NAME, LLMSVC_PATH, LLMSVC_INTERFACE, "Complete",
                          g_variant_new ("(s@a{sv})", "Tell me a long story",
                                         bus_options (BUS_LONG_ANSWER "}")),
                          NULL, G_DBUS_CALL_FLAGS_NONE, -1, NULL, NULL, NULL);
  g_dbus_connection_flush_sync (second, NULL, NULL);
  steps = get_statistic (fixture->b, "steps");
  while (get_statistic (fixture->b, "steps") == steps)
    g_usleep (1000);
  g_dbus_connection_close_sync (second, NULL, NULL);
  g_object_unref (second);
  bus_wait_until (is_cancelled, fixture->b);
}

/* --- a reader that stops --- */

typedef struct
{
  GDBusConnection *app;
  const char *generation;
} Parking;

static gboolean
is_parked (gpointer data)
{
  Parking *parking = data;
  g_autoptr(GVariant) state = bus_get (parking->app, parking->generation, ".Generation", "State");

  g_assert_cmpstr (g_variant_get_string (state, NULL), !=, "done");
  return g_str_equal (g_variant_get_string (state, NULL), "stalled");
}

/* Starts an answer whose reader takes one byte of a small pipe and no more. */
static char *
park (GDBusConnection *app,
      const char      *context,
      int             *fd)
{
  g_autoptr(GError) error = NULL;
  Parking parking;
  char *generation;

  generation = bus_generate (app, context, "Tell me a long story",
                             bus_options (BUS_LONG_ANSWER "}"), fd, &error);
  g_assert_no_error (error);
  g_assert_cmpint (fcntl (*fd, F_SETPIPE_SZ, SMALL_PIPE_BYTES), ==, SMALL_PIPE_BYTES);
  bus_read_one (*fd);
  parking = (Parking) { app, generation };
  bus_wait_until (is_parked, &parking);
  return generation;
}

static void
test_stopped_reader (Fixture      *fixture,
                     gconstpointer data)
{
  g_autofree char *context = bus_open (fixture->a, "story");
  g_autofree char *other = bus_open (fixture->b, "chat");
  g_autofree char *same_app = bus_open (fixture->a, "chat");
  g_autofree char *generation = NULL;
  g_autofree char *last = NULL;
  g_autoptr(GString) rest = NULL;
  int fd;

  generation = park (fixture->a, context, &fd);

  /* others go on, of other applications and of the same */
  for (guint i = 0; i < 3; i++)
    {
      ask (fixture->b, other);
      ask (fixture->a, same_app);
    }
  {
    Parking parking = { fixture->a, generation };

    g_assert_true (is_parked (&parking));
  }

  /* and so does this one when its reader reads again */
  rest = bus_read_all (fd);
  g_assert_nonnull (strstr (rest->str, "{\"done\":"));
  g_assert_cmpuint (bus_count_messages (fixture->a, context, &last), ==, 2);
  g_assert_cmpuint (strlen (last), >, SMALL_PIPE_BYTES / 8);
}

static gboolean
is_closed (gpointer data)
{
  struct pollfd poll_fd = { *(int *) data, POLLIN, 0 };

  return poll (&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLHUP) != 0;
}

/* The configuration gives the reader one second. Whoever comes back when the service has long
 * closed the pipe learns how it ended, after whole lines. */
static void
test_stalled_reader (Fixture      *fixture,
                     gconstpointer data)
{
  g_autofree char *context = bus_open (fixture->a, "story");
  g_autofree char *generation = NULL;
  g_autoptr(GString) rest = NULL;
  g_auto(GStrv) lines = NULL;
  guint n_lines;
  int fd;

  generation = park (fixture->a, context, &fd);
  bus_wait_until (is_cancelled, fixture->b);
  g_assert_cmpuint (bus_count_messages (fixture->a, context, NULL), ==, 0);
  ask (fixture->a, context);
  bus_wait_until (is_closed, &fd);
  rest = bus_read_all (fd);
  lines = g_strsplit (rest->str, "\n", -1);
  n_lines = g_strv_length (lines);
  g_test_message ("%s", lines[n_lines - 2]);
  g_assert_cmpuint (n_lines, >, 2);
  g_assert_cmpstr (lines[n_lines - 1], ==, "");
  g_assert_true (g_str_has_prefix (lines[n_lines - 2], "{\"error\":{\"name\":\"" LLMSVC_ERROR_PREFIX
                                                       "Cancelled\""));
  g_assert_nonnull (strstr (lines[n_lines - 2], "stalled"));
}

/* --- at once --- */

typedef struct
{
  guint n_left;
  char **texts;
} Together;

typedef struct
{
  Together *together;
  guint index;
} One;

static void
on_together (GObject      *source,
             GAsyncResult *result,
             gpointer      data)
{
  g_autofree One *one = data;
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply =
    g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, &error);

  g_assert_no_error (error);
  g_variant_get (reply, "(s@a{sv})", &one->together->texts[one->index], NULL);
  one->together->n_left--;
}

static const char *const prompts[] = { "Hello, how are you?", "Tell me about coffee",
                                       "I want to book a table", "What is the weather like?" };

/* Answers under way together: computed in common steps, and the same text as alone. */
static void
test_together (Fixture      *fixture,
               gconstpointer data)
{
  static const char options[] = "{'max-tokens': <40>, 'temperature': <0>}";
  char *alone[G_N_ELEMENTS (prompts)];
  char *texts[G_N_ELEMENTS (prompts)] = { NULL };
  Together together = { G_N_ELEMENTS (prompts), texts };
  guint64 steps, steps_alone, steps_together;

  steps = get_statistic (fixture->a, "steps");
  for (guint i = 0; i < G_N_ELEMENTS (prompts); i++)
    {
      g_autoptr(GVariant) reply =
        bus_call_ok (fixture->a, NULL, "", "Complete",
                     g_variant_new ("(s@a{sv})", prompts[i], bus_options (options)));

      g_variant_get (reply, "(s@a{sv})", &alone[i], NULL);
    }
  steps_alone = get_statistic (fixture->a, "steps") - steps;

  steps = get_statistic (fixture->a, "steps");
  for (guint i = 0; i < G_N_ELEMENTS (prompts); i++)
    {
      One *one = g_new0 (One, 1);

      one->together = &together;
      one->index = i;
      g_dbus_connection_call (i % 2 == 0 ? fixture->a : fixture->b, LLMSVC_BUS_NAME, LLMSVC_PATH,
                              LLMSVC_INTERFACE, "Complete",
                              g_variant_new ("(s@a{sv})", prompts[i], bus_options (options)), NULL,
                              G_DBUS_CALL_FLAGS_NONE, BUS_RIG_TIMEOUT_MS, NULL, on_together, one);
    }
  while (together.n_left > 0)
    g_main_context_iteration (NULL, TRUE);
  steps_together = get_statistic (fixture->a, "steps") - steps;

  g_test_message ("%u steps alone, %u together", (guint) steps_alone, (guint) steps_together);
  g_assert_cmpuint (steps_together, <, steps_alone);
  for (guint i = 0; i < G_N_ELEMENTS (prompts); i++)
    {
      g_assert_cmpstr (texts[i], ==, alone[i]);
      g_free (texts[i]);
      g_free (alone[i]);
    }
}

/* The configuration gives each application two calls. */
static void
test_quota (Fixture      *fixture,
            gconstpointer data)
{
  g_autofree char *first = bus_open (fixture->a, "first");
  g_autofree char *second = bus_open (fixture->a, "second");
  g_autofree char *third = bus_open (fixture->a, "third");
  g_autofree char *other = bus_open (fixture->b, "other");
  g_autofree char *one = NULL;
  g_autofree char *two = NULL;
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GError) error = NULL;
  int fd_one, fd_two;

  one = park (fixture->a, first, &fd_one);
  two = park (fixture->a, second, &fd_two);
  reply = bus_call (fixture->a, third, ".Context", "Ask",
                    g_variant_new ("(s@a{sv})", "Hello", bus_options (SHORT)), &error);
  g_assert_null (reply);
  bus_assert_error (error, "QuotaExceeded");
  ask (fixture->b, other);
  close (fd_one);
  close (fd_two);
}

static int
compare_times (gconstpointer a,
               gconstpointer b)
{
  gint64 one = *(const gint64 *) a, two = *(const gint64 *) b;

  return (one > two) - (one < two);
}

/* (transfer full): "gone" when the answer has come to its end. */
static char *
get_state (GDBusConnection *app,
           const char      *generation)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) value = NULL;

  reply = bus_call (app, generation, "org.freedesktop.DBus.Properties", "Get",
                    g_variant_new ("(ss)", LLMSVC_GENERATION_INTERFACE, "State"), &error);
  if (reply == NULL)
    {
      bus_assert_unknown_object (error);
      return g_strdup ("gone");
    }

  g_variant_get (reply, "(v)", &value);
  return g_variant_dup_string (value, NULL);
}

/* Properties are read from memory by a thread that computes nothing. The one test
 * that looks at the clock: DESIGN asks for 50 ms. */
static void
test_properties_during_prefill (Fixture      *fixture,
                                gconstpointer data)
{
  g_autoptr(GArray) times = g_array_new (FALSE, FALSE, sizeof (gint64));
  g_autoptr(GString) prompt = g_string_new (NULL);
  gint64 median;

  for (guint i = 0; i < 150; i++)
    g_string_append_printf (prompt, "word%u and ", i % 10);

  for (guint round = 0; times->len < N_PREFILL_SAMPLES && round < MAX_PREFILL_ROUNDS; round++)
    {
      g_autofree char *context = create (fixture->a);
      g_autofree char *generation = NULL;
      g_autoptr(GVariant) cancelled = NULL;
      g_autoptr(GError) error = NULL;
      gboolean is_reading = TRUE;
      int fd;

      generation = bus_generate (fixture->a, context, prompt->str, bus_options (SHORT), &fd,
                                 &error);
      g_assert_no_error (error);
      while (is_reading)
        {
          g_autoptr(GVariant) resident = NULL;
          g_autofree char *state = NULL;
          gint64 start_us = g_get_monotonic_time (), taken_us;

          resident = bus_get (fixture->b, NULL, ".Memory", "Resident");
          taken_us = g_get_monotonic_time () - start_us;

          /* it was read during the prefill if that still goes on */
          state = get_state (fixture->a, generation);
          is_reading = g_str_equal (state, "prefill") || g_str_equal (state, "queued");
          if (g_str_equal (state, "prefill"))
            g_array_append_val (times, taken_us);
        }
      close (fd);
      cancelled = bus_call_ok (fixture->a, context, ".Context", "Close",
                               g_variant_new ("(@a{sv})", bus_options ("{}")));
    }

  g_assert_cmpuint (times->len, >=, N_PREFILL_SAMPLES / 2);
  g_array_sort (times, compare_times);
  median = g_array_index (times, gint64, times->len / 2);
  g_test_message ("%u reads: median %d us, slowest %d us", times->len, (int) median,
                  (int) g_array_index (times, gint64, times->len - 1));
  g_assert_cmpint (median, <, MAX_MEDIAN_US);
}

int
main (int   argc,
      char *argv[])
{
  static const struct
  {
    const char *path;
    void (*test) (Fixture *fixture, gconstpointer data);
    const char *config;
  } tests[] = {
    { "/bus/callers/apart", test_apart },
    { "/bus/callers/generation-apart", test_generation_apart },
    { "/bus/callers/register", test_register },
    { "/bus/callers/register-others", test_register_others },
    { "/bus/callers/leave-contexts", test_leave_contexts },
    { "/bus/callers/leave-generation", test_leave_generation },
    { "/bus/callers/leave-complete", test_leave_complete },
    { "/bus/callers/stopped-reader", test_stopped_reader },
    { "/bus/callers/stalled-reader", test_stalled_reader, "[service]\nstall-timeout=1\n" },
    { "/bus/callers/together", test_together },
    { "/bus/callers/quota", test_quota, "[quota]\ncalls=2\n" },
    { "/bus/callers/properties-during-prefill", test_properties_during_prefill,
      "[quota]\nrate=0\n" },
  };

  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    g_test_add (tests[i].path, Fixture, tests[i].config, set_up, tests[i].test, tear_down);

  return g_test_run ();
}
