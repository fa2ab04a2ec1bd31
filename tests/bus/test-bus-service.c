/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Methods and properties that are the same for every caller, as an application uses
 * them. */

#include <gio/gio.h>
#include <string.h>
#include <unistd.h>

#include "bus-rig.h"

#define MODEL_ID "llmsvc-demo-8M-Q8_0"
#define SHORT "{'max-tokens': <uint32 12>, 'temperature': <0.0>}"

static void
test_properties (BusFixture   *fixture,
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
    { "", "LoadProgress", "(tt)" },
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

/* Each object has all the properties that its description names, and of their types. */
static void
test_described (BusFixture   *fixture,
                gconstpointer data)
{
  g_autoptr(GVariant) ready = bus_call_ok (fixture->app, NULL, "", "Prewarm",
                                           g_variant_new ("(@a{sv})", bus_options ("{}")));
  g_autoptr(GVariant) model = bus_get (fixture->app, NULL, "", "ActiveModel");
  g_autofree char *context = bus_create (fixture->app, bus_options ("{}"));
  g_autoptr(GError) error = NULL;
  int fd;
  g_autofree char *generation = bus_generate (fixture->app, context, "Hello",
                                              bus_options (BUS_LONG_ANSWER "}"), &fd, &error);
  const char *const paths[] = { "/org/llm/Service", g_variant_get_string (model, NULL), context,
                                generation };
  guint n_checked = 0;

  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (paths); i++)
    {
      g_autofree char *xml = bus_introspect (fixture->app, paths[i]);
      g_autoptr(GDBusNodeInfo) node = g_dbus_node_info_new_for_xml (xml, &error);

      g_assert_no_error (error);
      for (guint j = 0; node->interfaces[j] != NULL; j++)
        {
          GDBusPropertyInfo **infos = node->interfaces[j]->properties;
          g_autoptr(GVariant) reply = NULL;
          g_autoptr(GVariant) all = NULL;
          guint n = 0;

          if (infos == NULL || !g_str_has_prefix (node->interfaces[j]->name, "org.llm.Service"))
            continue;
          reply = bus_call_ok (fixture->app, paths[i], "org.freedesktop.DBus.Properties", "GetAll",
                               g_variant_new ("(s)", node->interfaces[j]->name));
          all = g_variant_get_child_value (reply, 0);
          for (; infos[n] != NULL; n++)
            {
              g_autoptr(GVariant) value =
                g_variant_lookup_value (all, infos[n]->name, G_VARIANT_TYPE (infos[n]->signature));

              g_assert_nonnull (value);
            }
          g_assert_cmpuint (g_variant_n_children (all), ==, n);
          n_checked += n;
        }
    }
  g_assert_cmpuint (n_checked, ==, 7 + 9 + 3 + 5 + 1);
  close (fd);
}

static void
test_complete (BusFixture   *fixture,
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
  g_assert_cmpuint (bus_lookup_u (results, "output-tokens"), <=, 6);
  g_assert_cmpuint (bus_lookup_u (results, "output-tokens"), >, 0);
  g_assert_cmpuint (bus_lookup_u (results, "prompt-tokens"), >, 8);
  g_assert_cmpuint (bus_lookup_u (results, "cached-tokens"), ==, 0);
  g_assert_cmpuint (bus_lookup_u (results, "sub-model"), ==, 100);
  g_assert_cmpuint (bus_lookup_u (results, "prompt-level"), ==, 100);
  g_assert_true (g_variant_lookup (results, "slo-met", "b", &slo_met));
  g_assert_true (g_variant_lookup (results, "ttft-ms", "d", &ms));
  g_assert_true (g_variant_lookup (results, "tpot-ms", "d", &ms));
  reason = bus_lookup_s (results, "finish-reason");
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
test_complete_options (BusFixture   *fixture,
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
  reason = bus_lookup_s (results, "finish-reason");
  g_assert_cmpstr (reason, ==, "stop");

  /* without the template the prompt is shorter */
  raw = bus_call_ok (fixture->app, NULL, "", "Complete",
                     g_variant_new ("(s@a{sv})", "Once upon a time",
                                    bus_options ("{'max-tokens': <2>, 'raw': <true>}")));
  g_variant_get (raw, "(&s@a{sv})", NULL, &raw_results);
  g_assert_cmpuint (bus_lookup_u (raw_results, "prompt-tokens"), <, 10);

  with_messages = bus_call_ok (
    fixture->app, NULL, "", "Complete",
    g_variant_new ("(s@a{sv})", "And you?",
                   bus_options ("{'max-tokens': <2>, 'messages': <[('user', 'I am fine', @a{sv} "
                                "{}), ('assistant', 'Good', {})]>}")));
  g_assert_nonnull (with_messages);
}

static void
test_count_tokens (BusFixture   *fixture,
                   gconstpointer data)
{
  g_autoptr(GVariant) one = NULL;
  g_autoptr(GVariant) two = NULL;
  guint32 n_one, n_two;

  one = bus_call_ok (fixture->app, NULL, "", "CountTokens",
                     g_variant_new ("(@a(ssa{sv})@a{sv})", bus_one_message ("user", "Hello"),
                                    bus_options ("{}")));
  g_variant_get (one, "(u)", &n_one);
  two = bus_call_ok (fixture->app, NULL, "", "CountTokens",
                     g_variant_new ("(@a(ssa{sv})@a{sv})",
                                    bus_one_message ("user", "Hello and a good morning to you all"),
                                    bus_options ("{}")));
  g_variant_get (two, "(u)", &n_two);
  g_assert_cmpuint (n_one, >, 1);
  g_assert_cmpuint (n_two, >, n_one);
}

static void
test_models (BusFixture   *fixture,
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
  architecture = bus_lookup_s (info, "architecture");
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
test_statistics (BusFixture   *fixture,
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
test_memory (BusFixture   *fixture,
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
test_trim_rate (BusFixture   *fixture,
                gconstpointer data)
{
  g_autoptr(GError) error = NULL;
  guint n = 0;

  while (error == NULL)
    {
      g_autoptr(GVariant) reply =
        bus_call (fixture->app, NULL, ".Memory", "Trim",
                  g_variant_new ("(s@a{sv})", "low", bus_options ("{}")), &error);

      g_assert_true ((reply == NULL) == (error != NULL));
      n++;
      g_assert_cmpuint (n, <, 1000);
    }
  bus_assert_error (error, "Overloaded");
  g_assert_cmpuint (n, >, 5);
}

static void
test_admin (BusFixture   *fixture,
            gconstpointer data)
{
  g_autoptr(GDBusConnection) notes = bus_rig_connect_app (fixture->rig, "org.example.Notes");
  g_autofree char *path = bus_open (notes, "one");
  g_autoptr(GVariant) listed = NULL;
  g_autoptr(GVariant) apps = NULL;
  g_autoptr(GVariant) set = NULL;
  g_autoptr(GError) error = NULL;
  gboolean is_found = FALSE;

  g_assert_nonnull (path);
  listed = bus_call_ok (fixture->app, NULL, ".Admin", "ListApps",
                        g_variant_new ("(@a{sv})", bus_options ("{}")));
  apps = g_variant_get_child_value (listed, 0);
  for (gsize i = 0; i < g_variant_n_children (apps); i++)
    {
      g_autoptr(GVariant) app = g_variant_get_child_value (apps, i);
      g_autofree char *app_id = bus_lookup_s (app, "app-id");

      if (!g_str_equal (app_id, "org.example.Notes"))
        continue;
      is_found = TRUE;
      g_assert_cmpuint (bus_lookup_u (app, "contexts"), ==, 1);
      g_assert_cmpuint (bus_lookup_u (app, "uid"), ==, getuid ());
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
    g_autofree char *other = bus_create (fixture->app, bus_options ("{}"));

    g_assert_nonnull (other);
  }
}

/* --- introspection --- */

static void
test_introspection (BusFixture   *fixture,
                    gconstpointer data)
{
  g_autofree char *path = bus_open (fixture->app, "seen");
  g_autofree char *root = bus_introspect (fixture->app, LLMSVC_PATH);
  g_autofree char *contexts = bus_introspect (fixture->app, LLMSVC_CONTEXTS_PATH);
  g_autofree char *context = bus_introspect (fixture->app, path);
  g_autofree char *generations = bus_introspect (fixture->app, LLMSVC_GENERATIONS_PATH);
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
  fresh = bus_introspect (newcomer, LLMSVC_CONTEXTS_PATH);
  g_assert_cmpstr (fresh, ==, contexts);
}

int
main (int   argc,
      char *argv[])
{
  static const struct
  {
    const char *path;
    void (*test) (BusFixture *fixture, gconstpointer data);
  } tests[] = {
    { "/bus/service/properties", test_properties },
    { "/bus/service/described", test_described },
    { "/bus/service/complete", test_complete },
    { "/bus/service/complete-options", test_complete_options },
    { "/bus/service/count-tokens", test_count_tokens },
    { "/bus/service/models", test_models },
    { "/bus/service/statistics", test_statistics },
    { "/bus/service/memory", test_memory },
    { "/bus/service/trim-rate", test_trim_rate },
    { "/bus/service/admin", test_admin },
    { "/bus/service/introspection", test_introspection },
  };

  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    g_test_add (tests[i].path, BusFixture, NULL, bus_fixture_set_up, tests[i].test,
                bus_fixture_tear_down);

  return g_test_run ();
}
