/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Every method, property and signal of the interface, as an application uses it. */

#include <gio/gio.h>
#include <glib/gstdio.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bus-rig.h"
#include "common/llmsvc-line.h"

#define MODEL_ID "llmsvc-demo-8M-Q8_0"
#define SHORT "{'max-tokens': <uint32 12>, 'temperature': <0.0>}"

typedef struct
{
  BusRig *rig;
  GDBusConnection *app;
} Fixture;

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  fixture->rig = bus_rig_new (NULL, NULL);
  fixture->app = bus_rig_connect (fixture->rig);
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  g_object_unref (fixture->app);
  bus_rig_free (fixture->rig);
}

/* (transfer full): the text; @results: (nullable) */
static char *
ask (GDBusConnection *app,
     const char      *context,
     const char      *prompt,
     GVariant        *options,
     GVariant       **results)
{
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) dict = NULL;
  char *text;

  reply = bus_call_ok (app, context, ".Context", "Ask",
                       g_variant_new ("(s@a{sv})", prompt, options));
  g_variant_get (reply, "(s@a{sv})", &text, &dict);
  if (results != NULL)
    *results = g_steal_pointer (&dict);
  return text;
}

static guint32
lookup_u (GVariant   *dict,
          const char *key)
{
  guint32 value = 0;

  g_assert_true (g_variant_lookup (dict, key, "u", &value));
  return value;
}

static char *
lookup_s (GVariant   *dict,
          const char *key)
{
  char *value = NULL;

  g_assert_true (g_variant_lookup (dict, key, "s", &value));
  return value;
}

static GVariant *
one_message (const char *role,
             const char *text)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a(ssa{sv})"));
  g_variant_builder_add (&builder, "(ssa{sv})", role, text, NULL);
  return g_variant_builder_end (&builder);
}

static char *
create (GDBusConnection *app,
        GVariant        *options)
{
  g_autoptr(GVariant) reply = NULL;
  char *path;

  reply = bus_call_ok (app, NULL, "", "CreateContext", g_variant_new ("(@a{sv})", options));
  g_variant_get (reply, "(o)", &path);
  return path;
}

/* --- the service itself --- */

/* A model that is missing or broken leaves a service that runs and says so. */
static void
test_no_model (void)
{
  g_autofree char *folder = g_dir_make_tmp ("llmsvc-fifo-XXXXXX", NULL);
  g_autofree char *missing = g_build_filename (folder, "missing.gguf", NULL);
  g_autofree char *broken = g_build_filename (folder, "broken.gguf", NULL);
  const char *const models[] = { missing, broken };

  g_assert_true (g_file_set_contents (broken, "GGUF\3\0\0\0 and no more", 20, NULL));
  for (guint i = 0; i < G_N_ELEMENTS (models); i++)
    {
      g_autoptr(BusRig) rig = bus_rig_new (models[i], "[model]\nfolders=\n");
      g_autoptr(GDBusConnection) app = bus_rig_connect (rig);
      g_autoptr(GVariant) availability = NULL;
      g_autoptr(GVariant) reason = NULL;
      g_autoptr(GVariant) reply = NULL;
      g_autoptr(GVariant) contexts = NULL;
      g_autoptr(GError) error = NULL;
      g_autofree char *basename = g_path_get_basename (models[i]);

      /* the first call activates; it waits until the models are known and then
       * fails with what is wrong */
      reply = bus_call (app, NULL, "", "Complete",
                        g_variant_new ("(s@a{sv})", "Hi", bus_options ("{}")), &error);
      g_assert_null (reply);
      bus_assert_error (error, i == 0 ? "NoModel" : "InvalidModel");
      g_assert_nonnull (strstr (error->message, basename));

      /* the service runs and says so */
      availability = bus_get (app, NULL, "", "Availability");
      reason = bus_get (app, NULL, "", "AvailabilityReason");
      g_test_message ("%s: %s", g_variant_get_string (availability, NULL),
                      g_variant_get_string (reason, NULL));
      g_assert_cmpstr (g_variant_get_string (availability, NULL), ==, "failed");
      g_assert_nonnull (strstr (g_variant_get_string (reason, NULL), basename));
      contexts = bus_call_ok (app, NULL, "", "ListContexts",
                              g_variant_new ("(@a{sv})", bus_options ("{}")));
    }

  g_unlink (broken);
  g_rmdir (folder);
}

/* --- activation --- */

typedef struct
{
  int fd;
  char *folder;
  char *path;
} Notify;

/* What a service manager listens on. */
static void
notify_open (Notify *notify)
{
  struct sockaddr_un address = { .sun_family = AF_UNIX };

  notify->folder = g_dir_make_tmp ("llmsvc-notify-XXXXXX", NULL);
  notify->path = g_build_filename (notify->folder, "socket", NULL);
  g_strlcpy (address.sun_path, notify->path, sizeof address.sun_path);
  notify->fd = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  g_assert_cmpint (bind (notify->fd, (struct sockaddr *) &address, sizeof address), ==, 0);
}

static void
notify_close (Notify *notify)
{
  close (notify->fd);
  g_unlink (notify->path);
  g_rmdir (notify->folder);
  g_free (notify->path);
  g_free (notify->folder);
}

/* Waits for a message, or only looks whether there is one. */
static char *
notify_read (Notify  *notify,
             gboolean waits)
{
  char buffer[256];
  ssize_t n = recv (notify->fd, buffer, sizeof buffer - 1, waits ? 0 : MSG_DONTWAIT);

  return n >= 0 ? g_strndup (buffer, (gsize) n) : NULL;
}

/* When the model is opened for the first time, the service manager has been told
 * that the service is ready, which follows the name. The kernel tells of the
 * opening, so there is no race to lose. */
static void
test_activation (void)
{
  g_autoptr(BusRig) rig = NULL;
  g_autoptr(GDBusConnection) app = NULL;
  g_autoptr(GVariant) availability = NULL;
  g_autoptr(GFile) shipped = NULL;
  g_autoptr(GFile) copy = NULL;
  g_autofree char *shipped_path = NULL;
  g_autofree char *ready = NULL;
  g_autofree char *model = NULL;
  g_autofree char *environment = NULL;
  Notify notify;
  struct pollfd wait;
  int watch;

  notify_open (&notify);
  shipped_path = g_build_filename (g_getenv ("LLM_MODEL_DIR"), MODEL_ID ".gguf", NULL);
  model = g_build_filename (notify.folder, "copy.gguf", NULL);
  shipped = g_file_new_for_path (shipped_path);
  copy = g_file_new_for_path (model);
  g_assert_true (g_file_copy (shipped, copy, G_FILE_COPY_NONE, NULL, NULL, NULL, NULL));
  watch = inotify_init1 (IN_CLOEXEC);
  g_assert_cmpint (inotify_add_watch (watch, model, IN_OPEN), >=, 0);

  environment = g_strdup_printf ("NOTIFY_SOCKET=%s WATCHDOG_USEC=100000", notify.path);
  rig = bus_rig_new_with_environment (model, NULL, environment);
  app = bus_rig_connect (rig);
  availability = bus_get (app, NULL, "", "Availability");
  wait = (struct pollfd) { .fd = watch, .events = POLLIN };
  g_assert_cmpint (poll (&wait, 1, BUS_RIG_TIMEOUT_MS), ==, 1);
  ready = notify_read (&notify, FALSE);
  g_assert_cmpstr (ready, ==, "READY=1");

  /* the watchdog is fed from the main loop, and the end is told */
  for (guint i = 0; i < 2; i++)
    {
      g_autofree char *ping = notify_read (&notify, TRUE);

      g_assert_cmpstr (ping, ==, "WATCHDOG=1");
    }
  bus_rig_end_daemon (rig, SIGTERM);
  for (;;)
    {
      g_autofree char *message = notify_read (&notify, FALSE);

      g_assert_nonnull (message);
      if (g_str_equal (message, "STOPPING=1"))
        break;
      g_assert_cmpstr (message, ==, "WATCHDOG=1");
    }

  close (watch);
  g_unlink (model);
  notify_close (&notify);
}

/* The same service for all users. There is no polkit on this bus, so only the
 * administrator may trim. */
static void
test_system (void)
{
  g_autoptr(BusRig) rig = bus_rig_new_system ();
  g_autoptr(GDBusConnection) app = bus_rig_connect (rig);
  g_autofree char *path = bus_open (app, "notes");
  g_autofree char *text = ask (app, path, "Hello", bus_options (SHORT), NULL);
  g_autoptr(GVariant) trimmed = NULL;
  g_autoptr(GError) error = NULL;

  g_assert_cmpuint (strlen (text), >, 0);
  trimmed = bus_call (app, NULL, ".Memory", "Trim",
                      g_variant_new ("(s@a{sv})", "low", bus_options ("{}")), &error);
  if (getuid () == 0)
    g_assert_no_error (error);
  else
    bus_assert_error (error, "NotAuthorized");
}

static void
test_properties (Fixture      *fixture,
                 gconstpointer data)
{
  static const struct
  {
    const char *interface;
    const char *name;
    const char *type;
  } properties[] = {
    { "", "Version", "s" },          { "", "ApiVersion", "u" },
    { "", "Availability", "s" },     { "", "AvailabilityReason", "s" },
    { "", "Features", "as" },        { "", "ActiveModel", "o" },
    { ".Memory", "Pressure", "s" },  { ".Memory", "Budget", "t" },
    { ".Memory", "Resident", "t" },  { ".Memory", "Weights", "t" },
    { ".Memory", "KvResident", "t" }, { ".Memory", "KvCompressed", "t" },
    { ".Memory", "KvSwapped", "t" }, { ".Memory", "Reclaimable", "a{st}" },
    { ".Memory", "SubModel", "u" },
  };
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) availability = NULL;
  g_autoptr(GVariant) reason = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (properties); i++)
    {
      g_autoptr(GVariant) value =
        bus_get (fixture->app, NULL, properties[i].interface, properties[i].name);

      g_assert_cmpstr (g_variant_get_type_string (value), ==, properties[i].type);
    }

  reply = bus_call_ok (fixture->app, NULL, "", "Prewarm",
                       g_variant_new ("(@a{sv})", bus_options ("{'slo': <'interactive'>}")));
  g_assert_cmpstr (g_variant_get_type_string (reply), ==, "()");
  availability = bus_get (fixture->app, NULL, "", "Availability");
  g_assert_cmpstr (g_variant_get_string (availability, NULL), ==, "ready");
  reason = bus_get (fixture->app, NULL, "", "AvailabilityReason");
  g_assert_cmpstr (g_variant_get_string (reason, NULL), ==, "");
  g_assert_cmpuint (bus_get_number (fixture->app, NULL, ".Memory", "Weights"), >, 1000000);
  g_assert_cmpuint (bus_get_number (fixture->app, NULL, ".Memory", "Resident"), >=,
                    bus_get_number (fixture->app, NULL, ".Memory", "Weights"));
}

static void
test_complete (Fixture      *fixture,
               gconstpointer data)
{
  g_autoptr(GVariant) first = NULL;
  g_autoptr(GVariant) second = NULL;
  g_autoptr(GVariant) results = NULL;
  g_autofree const char **ignored = NULL;
  g_autofree char *reason = NULL;
  const char *text, *again;
  gboolean slo_met;
  double ms;

  first = bus_call_ok (
    fixture->app, NULL, "", "Complete",
    g_variant_new ("(s@a{sv})", "Hello, how are you?",
                   bus_options ("{'max-tokens': <6>, 'temperature': <0>, 'colour': <'red'>,"
                                " 'system': <'You are kind.'>}")));
  g_variant_get (first, "(&s@a{sv})", &text, &results);
  g_assert_cmpuint (strlen (text), >, 0);
  g_assert_cmpuint (lookup_u (results, "output-tokens"), <=, 6);
  g_assert_cmpuint (lookup_u (results, "output-tokens"), >, 0);
  g_assert_cmpuint (lookup_u (results, "prompt-tokens"), >, 8);
  g_assert_cmpuint (lookup_u (results, "reused-tokens"), ==, 0);
  g_assert_cmpuint (lookup_u (results, "sub-model"), ==, 100);
  g_assert_cmpuint (lookup_u (results, "prompt-level"), ==, 100);
  g_assert_true (g_variant_lookup (results, "slo-met", "b", &slo_met));
  g_assert_true (g_variant_lookup (results, "ttft-ms", "d", &ms));
  g_assert_true (g_variant_lookup (results, "tpot-ms", "d", &ms));
  reason = lookup_s (results, "finish-reason");
  g_assert_true (g_str_equal (reason, "length") || g_str_equal (reason, "stop"));
  g_assert_true (g_variant_lookup (results, "ignored", "^a&s", &ignored));
  g_assert_cmpstr (ignored[0], ==, "colour");
  g_assert_null (ignored[1]);

  second = bus_call_ok (fixture->app, NULL, "", "Complete",
                        g_variant_new ("(s@a{sv})", "Hello, how are you?",
                                       bus_options ("{'max-tokens': <6>, 'temperature': <0>,"
                                                    " 'system': <'You are kind.'>}")));
  g_variant_get (second, "(&s@a{sv})", &again, NULL);
  g_assert_cmpstr (text, ==, again);
}

static void
test_complete_options (Fixture      *fixture,
                       gconstpointer data)
{
  static const char seeded[] = "{'max-tokens': <10>, 'temperature': <1.5>, 'seed': <uint64 7>}";
  g_autoptr(GVariant) one = NULL;
  g_autoptr(GVariant) two = NULL;
  g_autoptr(GVariant) raw = NULL;
  g_autoptr(GVariant) stopped = NULL;
  g_autoptr(GVariant) with_messages = NULL;
  g_autoptr(GVariant) results = NULL;
  g_autoptr(GVariant) raw_results = NULL;
  g_autofree char *reason = NULL;
  const char *text;

  /* same seed, same text */
  one = bus_call_ok (fixture->app, NULL, "", "Complete",
                     g_variant_new ("(s@a{sv})", "Tell me a story", bus_options (seeded)));
  two = bus_call_ok (fixture->app, NULL, "", "Complete",
                     g_variant_new ("(s@a{sv})", "Tell me a story", bus_options (seeded)));
  {
    g_autoptr(GVariant) a = g_variant_get_child_value (one, 0);
    g_autoptr(GVariant) b = g_variant_get_child_value (two, 0);

    g_assert_true (g_variant_equal (a, b));
  }

  /* a stop string is not part of the answer */
  stopped = bus_call_ok (fixture->app, NULL, "", "Complete",
                         g_variant_new ("(s@a{sv})", "Hello, how are you?",
                                        bus_options ("{'max-tokens': <40>, 'temperature': <0>,"
                                                     " 'stop': <['a','e','i','o','u']>}")));
  g_variant_get (stopped, "(&s@a{sv})", &text, &results);
  g_assert_null (strpbrk (text, "aeiou"));
  reason = lookup_s (results, "finish-reason");
  g_assert_cmpstr (reason, ==, "stop");

  /* without the template the prompt is shorter */
  raw = bus_call_ok (fixture->app, NULL, "", "Complete",
                     g_variant_new ("(s@a{sv})", "Once upon a time",
                                    bus_options ("{'max-tokens': <2>, 'raw': <true>}")));
  g_variant_get (raw, "(&s@a{sv})", NULL, &raw_results);
  g_assert_cmpuint (lookup_u (raw_results, "prompt-tokens"), <, 10);

  with_messages = bus_call_ok (
    fixture->app, NULL, "", "Complete",
    g_variant_new ("(s@a{sv})", "And you?",
                   bus_options ("{'max-tokens': <2>, 'messages': <[('user', 'I am fine', @a{sv} "
                                "{}), ('assistant', 'Good', {})]>}")));
  g_assert_nonnull (with_messages);
}

static void
test_count_tokens (Fixture      *fixture,
                   gconstpointer data)
{
  g_autoptr(GVariant) one = NULL;
  g_autoptr(GVariant) two = NULL;
  guint32 n_one, n_two;

  one = bus_call_ok (fixture->app, NULL, "", "CountTokens",
                     g_variant_new ("(@a(ssa{sv})@a{sv})", one_message ("user", "Hello"),
                                    bus_options ("{}")));
  g_variant_get (one, "(u)", &n_one);
  two = bus_call_ok (fixture->app, NULL, "", "CountTokens",
                     g_variant_new ("(@a(ssa{sv})@a{sv})",
                                    one_message ("user", "Hello and a good morning to you all"),
                                    bus_options ("{}")));
  g_variant_get (two, "(u)", &n_two);
  g_assert_cmpuint (n_one, >, 1);
  g_assert_cmpuint (n_two, >, n_one);
}

static void
test_models (Fixture      *fixture,
             gconstpointer data)
{
  g_autoptr(GVariant) warmed = NULL;
  g_autoptr(GVariant) managed = NULL;
  g_autoptr(GVariant) active = NULL;
  g_autoptr(GVariant) objects = NULL;
  g_autoptr(GVariant) interfaces = NULL;
  g_autoptr(GVariant) id = NULL;
  g_autoptr(GVariant) info = NULL;
  g_autoptr(GVariant) selected = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *architecture = NULL;
  guint64 parameters;

  warmed = bus_call_ok (fixture->app, NULL, "", "Prewarm",
                        g_variant_new ("(@a{sv})", bus_options ("{}")));
  active = bus_get (fixture->app, NULL, "", "ActiveModel");
  managed = bus_call_ok (fixture->app, LLMSVC_MODELS_PATH, "org.freedesktop.DBus.ObjectManager",
                         "GetManagedObjects", NULL);
  g_assert_cmpstr (g_variant_get_type_string (managed), ==, "(a{oa{sa{sv}}})");
  objects = g_variant_get_child_value (managed, 0);
  g_assert_true (g_variant_lookup (objects, g_variant_get_string (active, NULL), "@a{sa{sv}}",
                                   &interfaces));

  id = bus_get (fixture->app, g_variant_get_string (active, NULL), ".Model", "Id");
  g_assert_cmpstr (g_variant_get_string (id, NULL), ==, MODEL_ID);
  info = bus_get (fixture->app, g_variant_get_string (active, NULL), ".Model", "Info");
  architecture = lookup_s (info, "architecture");
  g_assert_cmpstr (architecture, ==, "llama");
  g_assert_true (g_variant_lookup (info, "parameters", "t", &parameters));
  g_assert_cmpuint (parameters, >, 1000000);

  selected = bus_call_ok (fixture->app, NULL, "", "SelectModel",
                          g_variant_new ("(s@a{sv})", MODEL_ID, bus_options ("{}")));
  g_assert_null (bus_call (fixture->app, NULL, "", "SelectModel",
                           g_variant_new ("(s@a{sv})", "no-such-model", bus_options ("{}")),
                           &error));
  bus_assert_error (error, "NotFound");
  g_assert_nonnull (strstr (error->message, "no-such-model"));
}

static void
test_statistics (Fixture      *fixture,
                 gconstpointer data)
{
  g_autoptr(GVariant) before = NULL;
  g_autoptr(GVariant) after = NULL;
  g_autoptr(GVariant) before_dict = NULL;
  g_autoptr(GVariant) after_dict = NULL;
  g_autoptr(GVariant) answer = NULL;
  guint64 requests_before, requests_after, tokens_before, tokens_after;

  before = bus_call_ok (fixture->app, NULL, "", "GetStatistics",
                        g_variant_new ("(@a{sv})", bus_options ("{}")));
  answer = bus_call_ok (fixture->app, NULL, "", "Complete",
                        g_variant_new ("(s@a{sv})", "Hello", bus_options (SHORT)));
  after = bus_call_ok (fixture->app, NULL, "", "GetStatistics",
                       g_variant_new ("(@a{sv})", bus_options ("{}")));

  before_dict = g_variant_get_child_value (before, 0);
  after_dict = g_variant_get_child_value (after, 0);
  g_assert_true (g_variant_lookup (before_dict, "requests", "t", &requests_before));
  g_assert_true (g_variant_lookup (after_dict, "requests", "t", &requests_after));
  g_assert_true (g_variant_lookup (before_dict, "output-tokens", "t", &tokens_before));
  g_assert_true (g_variant_lookup (after_dict, "output-tokens", "t", &tokens_after));
  g_assert_cmpuint (requests_after, ==, requests_before + 1);
  g_assert_cmpuint (tokens_after, >, tokens_before);
}

/* --- memory and administration --- */

typedef struct
{
  guint n;
  gint64 last_us;
  gint64 shortest_us;
} Changes;

static void
on_memory_properties (GDBusConnection *connection,
                      const char      *sender,
                      const char      *path,
                      const char      *interface,
                      const char      *signal,
                      GVariant        *arguments,
                      gpointer         data)
{
  Changes *changes = data;
  g_autoptr(GVariant) dict = NULL;

  g_variant_get (arguments, "(&s@a{sv}@as)", NULL, &dict, NULL);
  g_assert_cmpuint (g_variant_n_children (dict), >, 0);
  changes->n++;
}

static gboolean
has_changes (gpointer data)
{
  return ((Changes *) data)->n > 0;
}

static void
test_memory (Fixture      *fixture,
             gconstpointer data)
{
  Changes changes = { 0 };
  g_autoptr(GVariant) warmed = NULL;
  g_autoptr(GVariant) trimmed = NULL;
  g_autoptr(GVariant) results = NULL;
  g_autoptr(GVariant) set = NULL;
  g_autoptr(GVariant) reset = NULL;
  g_autoptr(GVariant) answer = NULL;
  guint64 freed;
  guint subscription;

  subscription = g_dbus_connection_signal_subscribe (
    fixture->app, NULL, "org.freedesktop.DBus.Properties", "PropertiesChanged", LLMSVC_PATH,
    LLMSVC_MEMORY_INTERFACE, G_DBUS_SIGNAL_FLAGS_NONE, on_memory_properties, &changes, NULL);
  warmed = bus_call_ok (fixture->app, NULL, "", "Prewarm",
                        g_variant_new ("(@a{sv})", bus_options ("{}")));
  bus_wait_until (has_changes, &changes);

  trimmed = bus_call_ok (fixture->app, NULL, ".Memory", "Trim",
                         g_variant_new ("(s@a{sv})", "critical", bus_options ("{}")));
  results = g_variant_get_child_value (trimmed, 0);
  g_assert_true (g_variant_lookup (results, "freed", "t", &freed));
  g_assert_cmpuint (freed, >, 1000000);
  g_assert_cmpuint (bus_get_number (fixture->app, NULL, ".Memory", "Weights"), ==, 0);

  /* what was given back comes back with the next call */
  answer = bus_call_ok (fixture->app, NULL, "", "Complete",
                        g_variant_new ("(s@a{sv})", "Hello", bus_options (SHORT)));

  set = bus_call_ok (fixture->app, NULL, ".Memory", "SetBudget",
                     g_variant_new ("(@a{sv})", bus_options ("{'bytes': <uint64 500000000>}")));
  g_assert_cmpuint (bus_get_number (fixture->app, NULL, ".Memory", "Budget"), ==, 500000000);
  reset = bus_call_ok (fixture->app, NULL, ".Memory", "SetBudget",
                       g_variant_new ("(@a{sv})", bus_options ("{'bytes': <uint64 0>}")));
  g_assert_cmpuint (bus_get_number (fixture->app, NULL, ".Memory", "Budget"), ==, 0);
  g_dbus_connection_signal_unsubscribe (fixture->app, subscription);
}

/* A session manager may call a few times in a row, not for ever. */
static void
test_trim_rate (Fixture      *fixture,
                gconstpointer data)
{
  g_autoptr(GError) error = NULL;
  guint n = 0;

  while (error == NULL)
    {
      g_autoptr(GVariant) reply =
        bus_call (fixture->app, NULL, ".Memory", "Trim",
                  g_variant_new ("(s@a{sv})", "low", bus_options ("{}")), &error);

      n++;
      g_assert_cmpuint (n, <, 1000);
    }
  bus_assert_error (error, "Overloaded");
  g_assert_cmpuint (n, >, 5);
}

static void
test_admin (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(GDBusConnection) notes = bus_rig_connect_app (fixture->rig, "org.example.Notes");
  g_autofree char *path = bus_open (notes, "one");
  g_autoptr(GVariant) listed = NULL;
  g_autoptr(GVariant) apps = NULL;
  g_autoptr(GVariant) set = NULL;
  g_autoptr(GError) error = NULL;
  gboolean is_found = FALSE;

  listed = bus_call_ok (fixture->app, NULL, ".Admin", "ListApps",
                        g_variant_new ("(@a{sv})", bus_options ("{}")));
  apps = g_variant_get_child_value (listed, 0);
  for (gsize i = 0; i < g_variant_n_children (apps); i++)
    {
      g_autoptr(GVariant) app = g_variant_get_child_value (apps, i);
      g_autofree char *app_id = lookup_s (app, "app-id");

      if (!g_str_equal (app_id, "org.example.Notes"))
        continue;
      is_found = TRUE;
      g_assert_cmpuint (lookup_u (app, "contexts"), ==, 1);
      g_assert_cmpuint (lookup_u (app, "uid"), ==, getuid ());
    }
  g_assert_true (is_found);

  set = bus_call_ok (fixture->app, NULL, ".Admin", "SetQuota",
                     g_variant_new ("(s@a{sv})", "org.example.Notes",
                                    bus_options ("{'contexts': <1>}")));
  g_assert_null (bus_call (notes, NULL, "", "CreateContext",
                           g_variant_new ("(@a{sv})", bus_options ("{}")), &error));
  bus_assert_error (error, "QuotaExceeded");
  /* others have theirs */
  {
    g_autofree char *other = create (fixture->app, bus_options ("{}"));

    g_assert_nonnull (other);
  }
}

/* --- contexts --- */

static void
test_context (Fixture      *fixture,
              gconstpointer data)
{
  g_autofree char *path = create (fixture->app, bus_options ("{'system': <'You are kind.'>}"));
  g_autoptr(GVariant) name = NULL;
  g_autoptr(GVariant) residency = NULL;
  g_autoptr(GVariant) results = NULL;
  g_autoptr(GVariant) second_results = NULL;
  g_autoptr(GVariant) all = NULL;
  g_autoptr(GVariant) dict = NULL;
  g_autoptr(GVariant) part = NULL;
  g_autoptr(GVariant) messages = NULL;
  g_autofree char *text = NULL;
  g_autofree char *second = NULL;
  g_autofree char *last = NULL;
  guint n;

  g_assert_true (g_str_has_prefix (path, LLMSVC_CONTEXTS_PATH "/"));
  name = bus_get (fixture->app, path, ".Context", "Name");
  g_assert_cmpstr (g_variant_get_string (name, NULL), ==, "");
  residency = bus_get (fixture->app, path, ".Context", "Residency");
  g_assert_cmpstr (g_variant_get_string (residency, NULL), ==, "text");
  g_assert_cmpuint (bus_get_number (fixture->app, path, ".Context", "Revision"), ==, 0);
  n = bus_count_messages (fixture->app, path, NULL);

  text = ask (fixture->app, path, "Hello, how are you?", bus_options (SHORT), &results);
  g_assert_cmpuint (strlen (text), >, 0);
  g_assert_cmpuint (bus_get_number (fixture->app, path, ".Context", "Revision"), ==, 1);
  g_assert_cmpuint (bus_get_number (fixture->app, path, ".Context", "Tokens"), >=,
                    lookup_u (results, "prompt-tokens") + lookup_u (results, "output-tokens") - 1);
  g_assert_cmpuint (bus_count_messages (fixture->app, path, &last), ==, n + 2);
  g_assert_cmpstr (last, ==, text);

  /* the second turn computes only what is new */
  second = ask (fixture->app, path, "And what do you like?", bus_options (SHORT), &second_results);
  g_assert_cmpuint (lookup_u (second_results, "reused-tokens"), >, 10);
  g_assert_cmpuint (bus_get_number (fixture->app, path, ".Context", "Revision"), ==, 2);

  all = bus_call_ok (fixture->app, path, "org.freedesktop.DBus.Properties", "GetAll",
                     g_variant_new ("(s)", LLMSVC_CONTEXT_INTERFACE));
  dict = g_variant_get_child_value (all, 0);
  g_assert_cmpuint (g_variant_n_children (dict), ==, 4);

  part = bus_call_ok (fixture->app, path, ".Context", "GetMessages",
                      g_variant_new ("(uu@a{sv})", n + 2, 1, bus_options ("{}")));
  messages = g_variant_get_child_value (part, 0);
  g_assert_cmpuint (g_variant_n_children (messages), ==, 1);
  {
    const char *role, *said;

    g_variant_get_child (messages, 0, "(&s&s@a{sv})", &role, &said, NULL);
    g_assert_cmpstr (role, ==, "user");
    g_assert_cmpstr (said, ==, "And what do you like?");
  }
}

static void
test_named (Fixture      *fixture,
            gconstpointer data)
{
  g_autofree char *made = create (fixture->app, bus_options ("{'name': <'notes'>}"));
  g_autofree char *opened = bus_open (fixture->app, "notes");
  g_autofree char *text = NULL;
  g_autofree char *again = NULL;
  g_autofree char *last = NULL;
  g_autoptr(GVariant) listed = NULL;
  g_autoptr(GVariant) list = NULL;
  g_autoptr(GVariant) properties = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *name = NULL;
  const char *path;

  g_assert_cmpstr (made, ==, opened);
  g_assert_null (bus_call (fixture->app, NULL, "", "CreateContext",
                           g_variant_new ("(@a{sv})", bus_options ("{'name': <'notes'>}")),
                           &error));
  bus_assert_error (error, "AlreadyExists");
  g_clear_error (&error);
  g_assert_null (bus_call (fixture->app, NULL, "", "OpenContext",
                           g_variant_new ("(s@a{sv})", "other", bus_options ("{}")), &error));
  bus_assert_error (error, "NotFound");
  g_clear_error (&error);

  text = ask (fixture->app, made, "Hello", bus_options (SHORT), NULL);
  listed = bus_call_ok (fixture->app, NULL, "", "ListContexts",
                        g_variant_new ("(@a{sv})", bus_options ("{}")));
  list = g_variant_get_child_value (listed, 0);
  g_assert_cmpuint (g_variant_n_children (list), ==, 1);
  g_variant_get_child (list, 0, "(&o@a{sv})", &path, &properties);
  g_assert_cmpstr (path, ==, made);
  name = lookup_s (properties, "Name");
  g_assert_cmpstr (name, ==, "notes");

  /* a clean end and a new start: the same path, the same text, at the first call */
  bus_rig_end_daemon (fixture->rig, SIGTERM);
  g_assert_cmpuint (bus_count_messages (fixture->app, made, &last), ==, 2);
  g_assert_cmpstr (last, ==, text);
  again = bus_open (fixture->app, "notes");
  g_assert_cmpstr (again, ==, made);
  g_assert_cmpuint (bus_get_number (fixture->app, made, ".Context", "Revision"), ==, 1);
  g_free (ask (fixture->app, made, "And you?", bus_options (SHORT), NULL));
  g_assert_cmpuint (bus_get_number (fixture->app, made, ".Context", "Revision"), ==, 2);
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
  g_string_append_printf (data, "%s ", reason);
}

static gboolean
has_text (gpointer data)
{
  return ((GString *) data)->len > 0;
}

/* Closed goes to those who use the context and to nobody else, though they listen. */
static void
test_close (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(GDBusConnection) user = bus_rig_connect (fixture->rig);
  g_autoptr(GDBusConnection) bystander = bus_rig_connect (fixture->rig);
  g_autoptr(GString) to_owner = g_string_new (NULL);
  g_autoptr(GString) to_user = g_string_new (NULL);
  g_autoptr(GString) to_bystander = g_string_new (NULL);
  g_autofree char *path = bus_open (fixture->app, "short-lived");
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) pong = NULL;
  g_autoptr(GError) error = NULL;
  GDBusConnection *const connections[] = { fixture->app, user, bystander };
  GString *const texts[] = { to_owner, to_user, to_bystander };

  for (guint i = 0; i < G_N_ELEMENTS (connections); i++)
    g_dbus_connection_signal_subscribe (connections[i], NULL, LLMSVC_CONTEXT_INTERFACE, "Closed",
                                        NULL, NULL, G_DBUS_SIGNAL_FLAGS_NONE, on_closed, texts[i],
                                        NULL);
  g_assert_cmpuint (bus_count_messages (user, path, NULL), ==, 0);

  reply = bus_call_ok (fixture->app, path, ".Context", "Close",
                       g_variant_new ("(@a{sv})", bus_options ("{}")));
  bus_wait_until (has_text, to_owner);
  bus_wait_until (has_text, to_user);
  pong = bus_get (bystander, NULL, "", "Version");
  g_assert_cmpstr (to_owner->str, ==, "closed ");
  g_assert_cmpstr (to_user->str, ==, "closed ");
  g_assert_cmpstr (to_bystander->str, ==, "");

  g_assert_null (bus_call (fixture->app, path, ".Context", "GetMessages",
                           g_variant_new ("(uu@a{sv})", 0, 0, bus_options ("{}")), &error));
  bus_assert_unknown_object (error);
  g_clear_error (&error);
  g_assert_null (bus_call (fixture->app, NULL, "", "OpenContext",
                           g_variant_new ("(s@a{sv})", "short-lived", bus_options ("{}")),
                           &error));
  bus_assert_error (error, "NotFound");
}

static void
test_append_fork_rollback (Fixture      *fixture,
                           gconstpointer data)
{
  g_autofree char *path = create (fixture->app, bus_options ("{}"));
  g_autofree char *fork = NULL;
  g_autofree char *text = NULL;
  g_autoptr(GVariant) appended = NULL;
  g_autoptr(GVariant) waited = NULL;
  g_autoptr(GVariant) forked = NULL;
  g_autoptr(GVariant) rolled_back = NULL;
  g_autoptr(GError) error = NULL;
  guint64 revision;
  guint32 tokens;

  appended = bus_call_ok (fixture->app, path, ".Context", "Append",
                          g_variant_new ("(@a(ssa{sv})@a{sv})",
                                         one_message ("user", "My name is Ann."),
                                         bus_options ("{}")));
  g_variant_get (appended, "(u)", &tokens);
  g_assert_cmpuint (tokens, >, 3);
  waited = bus_call_ok (fixture->app, path, ".Context", "Append",
                        g_variant_new ("(@a(ssa{sv})@a{sv})",
                                       one_message ("assistant", "Hello Ann."),
                                       bus_options ("{'wait': <true>}")));
  g_assert_cmpuint (bus_count_messages (fixture->app, path, NULL), ==, 2);
  revision = bus_get_number (fixture->app, path, ".Context", "Revision");
  g_assert_cmpuint (revision, ==, 2);

  forked = bus_call_ok (fixture->app, path, ".Context", "Fork",
                        g_variant_new ("(@a{sv})", bus_options ("{'name': <'copy'>}")));
  g_variant_get (forked, "(o)", &fork);
  g_assert_cmpstr (fork, !=, path);
  g_assert_cmpuint (bus_count_messages (fixture->app, fork, NULL), ==, 2);

  /* the two are apart */
  text = ask (fixture->app, fork, "What is my name?", bus_options (SHORT), NULL);
  g_assert_cmpuint (bus_count_messages (fixture->app, fork, NULL), ==, 4);
  g_assert_cmpuint (bus_count_messages (fixture->app, path, NULL), ==, 2);

  revision = bus_get_number (fixture->app, fork, ".Context", "Revision");
  g_assert_null (bus_call (fixture->app, fork, ".Context", "Rollback",
                           g_variant_new ("(u@a{sv})", 1,
                                          bus_options ("{'if-revision': <uint64 999>}")),
                           &error));
  bus_assert_error (error, "Conflict");
  rolled_back = bus_call_ok (fixture->app, fork, ".Context", "Rollback",
                             g_variant_new ("(u@a{sv})", 1, bus_options ("{}")));
  g_assert_cmpuint (bus_count_messages (fixture->app, fork, NULL), ==, 2);
  g_assert_cmpuint (bus_get_number (fixture->app, fork, ".Context", "Revision"), !=, revision);
}

static void
test_request_id (Fixture      *fixture,
                 gconstpointer data)
{
  static const char options[] =
    "{'max-tokens': <8>, 'temperature': <0>, 'request-id': <'r1'>}";
  g_autofree char *path = bus_open (fixture->app, "retry");
  g_autofree char *first = ask (fixture->app, path, "Hello", bus_options (options), NULL);
  g_autofree char *again = ask (fixture->app, path, "Hello", bus_options (options), NULL);
  g_autofree char *later = NULL;
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GError) error = NULL;

  g_assert_cmpstr (first, ==, again);
  g_assert_cmpuint (bus_get_number (fixture->app, path, ".Context", "Revision"), ==, 1);
  g_assert_cmpuint (bus_count_messages (fixture->app, path, NULL), ==, 2);

  /* also after a restart */
  bus_rig_end_daemon (fixture->rig, SIGTERM);
  later = ask (fixture->app, path, "Hello", bus_options (options), NULL);
  g_assert_cmpstr (first, ==, later);
  g_assert_cmpuint (bus_get_number (fixture->app, path, ".Context", "Revision"), ==, 1);

  g_assert_null (bus_call (fixture->app, path, ".Context", "Ask",
                           g_variant_new ("(s@a{sv})", "Hello",
                                          bus_options ("{'if-revision': <uint64 0>}")),
                           &error));
  bus_assert_error (error, "Conflict");
  reply = bus_call_ok (fixture->app, path, ".Context", "Ask",
                       g_variant_new ("(s@a{sv})", "Hello",
                                      bus_options ("{'if-revision': <uint64 1>,"
                                                   " 'max-tokens': <2>}")));
  g_assert_cmpuint (bus_get_number (fixture->app, path, ".Context", "Revision"), ==, 2);
}

/* --- streams --- */

static void
test_stream_lines (Fixture      *fixture,
                   gconstpointer data)
{
  g_autofree char *path = bus_open (fixture->app, "lines");
  g_autofree char *generation = NULL;
  g_autofree char *last = NULL;
  g_autofree char *state = NULL;
  g_autoptr(GString) all = NULL;
  g_autoptr(GString) text = g_string_new (NULL);
  g_autoptr(LlmsvcLineReader) reader = llmsvc_line_reader_new ();
  g_autoptr(GError) error = NULL;
  LlmsvcLine line;
  guint n_done = 0;
  int fd;

  generation = bus_generate (fixture->app, path, "Hello, how are you?", bus_options (SHORT), &fd,
                             &error);
  g_assert_no_error (error);
  g_assert_true (g_str_has_prefix (generation, LLMSVC_GENERATIONS_PATH "/"));
  all = bus_read_all (fd);

  g_assert_true (llmsvc_line_reader_push (reader, all->str, all->len, &error));
  while (llmsvc_line_reader_next (reader, &line, &error))
    {
      g_assert_cmpuint (n_done, ==, 0);
      if (line.kind == LLMSVC_LINE_TEXT)
        g_string_append (text, line.text);
      else if (line.kind == LLMSVC_LINE_DONE)
        n_done++;
      llmsvc_line_clear (&line);
    }
  g_assert_no_error (error);
  g_assert_cmpuint (n_done, ==, 1);

  /* the end of the pipe follows the commit */
  g_assert_cmpuint (bus_get_number (fixture->app, path, ".Context", "Revision"), ==, 1);
  g_assert_cmpuint (bus_count_messages (fixture->app, path, &last), ==, 2);
  g_assert_cmpstr (last, ==, text->str);
  g_assert_true (g_utf8_validate (text->str, -1, NULL));
}

static void
test_stream_text (Fixture      *fixture,
                  gconstpointer data)
{
  g_autofree char *path = bus_open (fixture->app, "text");
  g_autofree char *generation = NULL;
  g_autofree char *last = NULL;
  g_autoptr(GString) all = NULL;
  g_autoptr(GError) error = NULL;
  int fd;

  generation = bus_generate (
    fixture->app, path, "Hello, how are you?",
    bus_options ("{'max-tokens': <12>, 'temperature': <0>, 'stream': <'text'>}"), &fd, &error);
  g_assert_no_error (error);
  all = bus_read_all (fd);
  g_assert_cmpuint (bus_count_messages (fixture->app, path, &last), ==, 2);
  g_assert_cmpstr (last, ==, all->str);
}

static void
test_cancel (Fixture      *fixture,
             gconstpointer data)
{
  g_autofree char *path = bus_open (fixture->app, "cancelled");

  for (guint keep = 0; keep < 2; keep++)
    {
      g_autofree char *generation = NULL;
      g_autofree char *last = NULL;
      g_autoptr(GVariant) state = NULL;
      g_autoptr(GVariant) cancelled = NULL;
      g_autoptr(GVariant) later = NULL;
      g_autoptr(GString) rest = NULL;
      g_autoptr(GError) error = NULL;
      int fd;

      generation = bus_generate (fixture->app, path, "Tell me a very long story",
                                 keep ? bus_options (BUS_LONG_ANSWER ", 'on-cancel': <'keep'>}")
                                      : bus_options (BUS_LONG_ANSWER "}"),
                                 &fd, &error);
      g_assert_no_error (error);
      bus_read_one (fd);
      state = bus_get (fixture->app, generation, ".Generation", "State");
      g_assert_cmpstr (g_variant_get_string (state, NULL), ==, "writing");

      cancelled = bus_call_ok (fixture->app, generation, ".Generation", "Cancel",
                               g_variant_new ("(@a{sv})", bus_options ("{}")));
      /* the turn is settled by now, and there is no answer under way any more */
      g_assert_cmpuint (bus_count_messages (fixture->app, path, &last), ==, keep ? 2 : 0);
      rest = bus_read_all (fd);
      if (keep)
        {
          g_assert_nonnull (strstr (rest->str, "\"done\""));
          g_assert_nonnull (strstr (rest->str, "cancelled"));
          g_assert_cmpuint (strlen (last), >, 0);
        }
      g_assert_null (bus_call (fixture->app, generation, "org.freedesktop.DBus.Properties", "Get",
                               g_variant_new ("(ss)", LLMSVC_GENERATION_INTERFACE, "State"),
                               &error));
      bus_assert_unknown_object (error);
    }

  /* the context goes on */
  g_free (ask (fixture->app, path, "Hello", bus_options (SHORT), NULL));
  g_assert_cmpuint (bus_count_messages (fixture->app, path, NULL), ==, 4);
}

/* Closing the pipe cancels, and one context answers one call at a time. */
static void
test_close_pipe (Fixture      *fixture,
                 gconstpointer data)
{
  g_autofree char *path = bus_open (fixture->app, "closed-pipe");
  g_autofree char *generation = NULL;
  g_autofree char *second = NULL;
  g_autofree char *text = NULL;
  g_autoptr(GError) error = NULL;
  int fd, other_fd;

  generation = bus_generate (fixture->app, path, "Tell me a very long story",
                             bus_options (BUS_LONG_ANSWER "}"), &fd, &error);
  g_assert_no_error (error);
  bus_read_one (fd);
  second = bus_generate (fixture->app, path, "And another one", bus_options (SHORT), &other_fd,
                         &error);
  g_assert_null (second);
  bus_assert_error (error, "ContextBusy");
  close (fd);

  while (text == NULL)
    {
      g_autoptr(GError) busy = NULL;
      g_autoptr(GVariant) reply =
        bus_call (fixture->app, path, ".Context", "Ask",
                  g_variant_new ("(s@a{sv})", "Hello", bus_options (SHORT)), &busy);

      if (reply != NULL)
        g_variant_get (reply, "(s@a{sv})", &text, NULL);
      else
        bus_assert_error (busy, "ContextBusy");
    }
  g_assert_cmpuint (bus_count_messages (fixture->app, path, NULL), ==, 2);
}

/* --- introspection --- */

static char *
introspect (GDBusConnection *app,
            const char      *path)
{
  g_autoptr(GVariant) reply =
    bus_call_ok (app, path, "org.freedesktop.DBus.Introspectable", "Introspect", NULL);
  char *xml;

  g_variant_get (reply, "(s)", &xml);
  return xml;
}

static void
test_introspection (Fixture      *fixture,
                    gconstpointer data)
{
  g_autofree char *path = bus_open (fixture->app, "seen");
  g_autofree char *root = introspect (fixture->app, LLMSVC_PATH);
  g_autofree char *contexts = introspect (fixture->app, LLMSVC_CONTEXTS_PATH);
  g_autofree char *context = introspect (fixture->app, path);
  g_autofree char *generations = introspect (fixture->app, LLMSVC_GENERATIONS_PATH);
  g_autofree char *fresh = NULL;
  g_autofree char *id = g_path_get_basename (path);
  g_autoptr(GDBusConnection) newcomer = NULL;
  g_autoptr(GDBusNodeInfo) info = NULL;
  g_autoptr(GError) error = NULL;

  g_assert_nonnull (strstr (root, "org.llm.Service.Memory"));
  g_assert_nonnull (strstr (root, "\"contexts\""));
  g_assert_nonnull (strstr (contexts, id));
  g_assert_null (strstr (generations, "<node name"));
  info = g_dbus_node_info_new_for_xml (context, &error);
  g_assert_no_error (error);
  g_assert_nonnull (g_dbus_node_info_lookup_interface (info, LLMSVC_CONTEXT_INTERFACE));

  /* a connection whose first call this is sees the same: it is the same application */
  newcomer = bus_rig_connect (fixture->rig);
  fresh = introspect (newcomer, LLMSVC_CONTEXTS_PATH);
  g_assert_cmpstr (fresh, ==, contexts);
}

int
main (int   argc,
      char *argv[])
{
  static const struct
  {
    const char *path;
    void (*test) (Fixture *fixture, gconstpointer data);
  } tests[] = {
    { "/bus/service/properties", test_properties },
    { "/bus/service/complete", test_complete },
    { "/bus/service/complete-options", test_complete_options },
    { "/bus/service/count-tokens", test_count_tokens },
    { "/bus/service/models", test_models },
    { "/bus/service/statistics", test_statistics },
    { "/bus/service/memory", test_memory },
    { "/bus/service/trim-rate", test_trim_rate },
    { "/bus/service/admin", test_admin },
    { "/bus/service/context", test_context },
    { "/bus/service/named", test_named },
    { "/bus/service/close", test_close },
    { "/bus/service/append-fork-rollback", test_append_fork_rollback },
    { "/bus/service/request-id", test_request_id },
    { "/bus/service/stream-lines", test_stream_lines },
    { "/bus/service/stream-text", test_stream_text },
    { "/bus/service/cancel", test_cancel },
    { "/bus/service/close-pipe", test_close_pipe },
    { "/bus/service/introspection", test_introspection },
  };

  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/bus/service/activation", test_activation);
  g_test_add_func ("/bus/service/no-model", test_no_model);
  g_test_add_func ("/bus/service/system", test_system);
  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    g_test_add (tests[i].path, Fixture, NULL, set_up, tests[i].test, tear_down);

  return g_test_run ();
}
