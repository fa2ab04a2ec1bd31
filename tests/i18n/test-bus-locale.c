/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The same wrong call in several languages: its message follows the caller, its
 * error's name does not. */

#include <gio/gio.h>
#include <string.h>

#include "bus/bus-rig.h"

#define WRONG   "'max-tokens': <uint32 0>"
#define ENGLISH "Option “max-tokens” is 0, it must be from 1 to 16777216 tokens"
#define GERMAN  "Option „max-tokens“ ist 0, muss aber zwischen 1 und 16777216 Token liegen"
#define CHINESE "选项“max-tokens”为 0，必须在 1 到 16777216 个词元之间"

/* The daemon finds the translations of the build tree. */
static BusRig *
new_rig (const char *environment)
{
  g_autofree char *all = g_strdup_printf ("LLMSVC_LOCALEDIR=%s %s",
                                          g_getenv ("LLMSVC_LOCALEDIR"), environment);

  return bus_rig_new_with_environment (NULL, NULL, all);
}

static void
assert_message (const GError *error,
                const char   *name,
                const char   *message)
{
  g_autoptr(GError) copy = NULL;

  bus_assert_error (error, name);
  copy = g_error_copy (error);
  g_dbus_error_strip_remote_error (copy);
  g_assert_cmpstr (copy->message, ==, message);
}

/* Floating, as of bus_options(), which takes a constant. */
static GVariant *
parse_options (const char *text)
{
  g_autoptr(GVariant) options = g_variant_parse (G_VARIANT_TYPE_VARDICT, text, NULL, NULL, NULL);
  g_autoptr(GVariantDict) dict = NULL;

  g_assert_nonnull (options);
  dict = g_variant_dict_new (options);
  return g_variant_dict_end (dict);
}

/* Complete with an option out of range and @more. */
static void
assert_wrong_call (GDBusConnection *app,
                   const char      *more,
                   const char      *message)
{
  g_autoptr(GError) error = NULL;
  g_autofree char *options = g_strdup_printf ("{" WRONG "%s}", more);

  g_assert_null (bus_call (app, NULL, "", "Complete",
                           g_variant_new ("(s@a{sv})", "Hi", parse_options (options)), &error));
  assert_message (error, "InvalidOption", message);
}

static void
test_option (void)
{
  g_autoptr(BusRig) rig = new_rig ("");
  g_autoptr(GDBusConnection) app = bus_rig_connect (rig);

  assert_wrong_call (app, "", ENGLISH);
  assert_wrong_call (app, ", 'locale': <'de'>", GERMAN);
  assert_wrong_call (app, ", 'locale': <'de_AT.UTF-8@euro'>", GERMAN);
  assert_wrong_call (app, ", 'locale': <'de-CH'>", GERMAN);
  assert_wrong_call (app, ", 'locale': <'zh_CN.UTF-8'>", CHINESE);
  assert_wrong_call (app, ", 'locale': <'zh_Hans_SG'>", CHINESE);
  assert_wrong_call (app, ", 'locale': <<'zh_CN'>>", CHINESE);
  assert_wrong_call (app, ", 'locale': <'tlh:de:zh_CN'>", GERMAN);
  /* other scripts, other languages and English */
  assert_wrong_call (app, ", 'locale': <'zh_TW.UTF-8'>", ENGLISH);
  assert_wrong_call (app, ", 'locale': <'zh'>", ENGLISH);
  assert_wrong_call (app, ", 'locale': <'tlh'>", ENGLISH);
  assert_wrong_call (app, ", 'locale': <'en_GB:de'>", ENGLISH);
  assert_wrong_call (app, ", 'locale': <'C.UTF-8'>", ENGLISH);
  assert_wrong_call (app, "", ENGLISH);
}

/* A locale that is none is a wrong option; it may come before or after others. */
static void
test_wrong_locale (void)
{
  static const char *const wrong[] = { "<''>",      "<'../../tmp'>", "<'de/'>",
                                       "<'de DE'>", "<uint32 5>",    "<['de']>" };
  g_autoptr(BusRig) rig = new_rig ("");
  g_autoptr(GDBusConnection) app = bus_rig_connect (rig);

  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_autoptr(GError) error = NULL;
      g_autofree char *options = g_strdup_printf ("{'locale': %s}", wrong[i]);

      g_assert_null (bus_call (app, NULL, "", "ListContexts",
                               g_variant_new ("(@a{sv})", parse_options (options)), &error));
      bus_assert_error (error, "InvalidOption");
      g_assert_nonnull (strstr (error->message, "locale"));
    }
}

/* Every call takes it: as one that is known, and that can be required. */
static void
test_universal (void)
{
  g_autoptr(BusRig) rig = new_rig ("");
  g_autoptr(GDBusConnection) app = bus_rig_connect (rig);
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) results = NULL;
  g_autofree const char **ignored = NULL;

  reply = bus_call_ok (app, NULL, "", "ListContexts",
                       g_variant_new ("(@a{sv})",
                                      bus_options ("{'locale': <'de'>, 'require': <['locale']>}")));
  g_clear_pointer (&reply, g_variant_unref);
  reply = bus_call_ok (
    app, NULL, "", "Complete",
    g_variant_new ("(s@a{sv})", "Hi", bus_options ("{'locale': <'de'>, 'max-tokens': <1>}")));
  g_variant_get (reply, "(&s@a{sv})", NULL, &results);
  if (g_variant_lookup (results, "ignored", "^a&s", &ignored))
    g_assert_false (g_strv_contains ((const char *const *) ignored, "locale"));
}

/* What Register() was told holds for the connection, and a call's own goes before. */
static void
test_register (void)
{
  g_autoptr(BusRig) rig = new_rig ("");
  g_autoptr(GDBusConnection) app = bus_rig_connect (rig);
  g_autoptr(GDBusConnection) other = bus_rig_connect (rig);
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GError) error = NULL;

  reply = bus_call_ok (app, NULL, "", "Register",
                       g_variant_new ("(s@a{sv})", "org.example.App",
                                      bus_options ("{'locale': <'de_DE'>}")));
  assert_wrong_call (app, "", GERMAN);
  assert_wrong_call (app, ", 'locale': <'zh_CN'>", CHINESE);
  assert_wrong_call (app, ", 'locale': <'C'>", ENGLISH);
  assert_wrong_call (other, "", ENGLISH);

  /* also of what has no options, and of properties */
  g_assert_null (bus_call (app, LLMSVC_PATH "/contexts/none", ".Context", "Close",
                           g_variant_new ("(@a{sv})", bus_options ("{}")), &error));
  bus_assert_unknown_object (error);
  g_assert_nonnull (strstr (error->message, "Diese Anwendung hat kein Objekt unter „" LLMSVC_PATH
                                            "/contexts/none“"));
  g_clear_error (&error);
  g_assert_null (g_dbus_connection_call_sync (
    app, LLMSVC_BUS_NAME, LLMSVC_PATH "/contexts/none", "org.freedesktop.DBus.Properties", "GetAll",
    g_variant_new ("(s)", LLMSVC_CONTEXT_INTERFACE), NULL, G_DBUS_CALL_FLAGS_NONE,
    BUS_RIG_TIMEOUT_MS, NULL, &error));
  bus_assert_unknown_object (error);
  g_assert_nonnull (strstr (error->message, "Diese Anwendung hat kein Objekt"));
  g_clear_error (&error);
  g_assert_null (g_dbus_connection_call_sync (
    app, LLMSVC_BUS_NAME, LLMSVC_PATH "/contexts/none", "org.freedesktop.DBus.Introspectable",
    "Introspect", NULL, NULL, G_DBUS_CALL_FLAGS_NONE, BUS_RIG_TIMEOUT_MS, NULL, &error));
  bus_assert_unknown_object (error);
  g_assert_nonnull (strstr (error->message, "Diese Anwendung hat kein Objekt"));
}

/* The last line of a stream is in the language of its call. */
static void
test_stream (void)
{
  g_autoptr(BusRig) rig = new_rig ("");
  g_autoptr(GDBusConnection) app = bus_rig_connect (rig);
  g_autofree char *context = bus_create (app, bus_options ("{}"));
  g_autofree char *generation = NULL;
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GString) lines = NULL;
  g_autoptr(GError) error = NULL;
  int fd = -1;

  generation = bus_generate (app, context, "Hi",
                             bus_options (BUS_LONG_ANSWER ", 'locale': <'de'>}"), &fd, &error);
  g_assert_no_error (error);
  reply = bus_call_ok (app, generation, ".Generation", "Cancel",
                       g_variant_new ("(@a{sv})", bus_options ("{}")));
  lines = bus_read_all (fd);
  g_assert_nonnull (strstr (lines->str, "\"name\":\"org.llm.Service.Error.Cancelled\""));
  g_assert_nonnull (strstr (lines->str, "\"message\":\"Die Antwort wurde abgebrochen\""));
}

/* On a session's bus, the language of the session is that of who tells none. */
static void
test_session_default (void)
{
  static const struct
  {
    const char *environment;
    const char *message;
  } sessions[] = {
    { "LC_ALL= LC_MESSAGES= LANGUAGE= LANG=de_DE.UTF-8", GERMAN },
    { "LC_ALL= LC_MESSAGES=zh_CN.UTF-8 LANGUAGE= LANG=de_DE.UTF-8", CHINESE },
    { "LC_ALL=C.UTF-8 LANGUAGE=fr:de", GERMAN },
    { "LC_ALL=C LANGUAGE=de", ENGLISH },
  };

  for (guint i = 0; i < G_N_ELEMENTS (sessions); i++)
    {
      g_autoptr(BusRig) rig = new_rig (sessions[i].environment);
      g_autoptr(GDBusConnection) app = bus_rig_connect (rig);

      assert_wrong_call (app, "", sessions[i].message);
      assert_wrong_call (app, ", 'locale': <'C'>", ENGLISH);
    }
}

/* Messages in messages, and what the C library says: of a model that is not there. */
static void
test_nested (void)
{
  static const char missing[] = "„/nonexistent/a.gguf“ kann nicht geöffnet werden: Datei oder "
                                "Verzeichnis nicht gefunden";
  g_autofree char *environment = g_strdup_printf ("LLMSVC_LOCALEDIR=%s LC_ALL=de_DE.UTF-8",
                                                  g_getenv ("LLMSVC_LOCALEDIR"));
  g_autoptr(BusRig) rig =
    bus_rig_new_with_environment ("/nonexistent/a.gguf", NULL, environment);
  g_autoptr(GDBusConnection) app = bus_rig_connect (rig);
  g_autoptr(GVariant) reason = NULL;
  g_autoptr(GError) error = NULL;

  g_assert_null (bus_call (app, NULL, "", "Complete",
                           g_variant_new ("(s@a{sv})", "Hi", bus_options ("{}")), &error));
  assert_message (error, "NoModel", missing);
  reason = bus_get (app, NULL, "", "AvailabilityReason");
  g_assert_cmpstr (g_variant_get_string (reason, NULL), ==, missing);
}

/* The system's language is not that of those who call. */
static void
test_system_default (void)
{
  g_autoptr(BusRig) rig = NULL;
  g_autoptr(GDBusConnection) app = NULL;

  /* what the rig starts has C.UTF-8 for all else */
  g_setenv ("LANGUAGE", "de", TRUE);
  rig = bus_rig_new_system ();
  app = bus_rig_connect (rig);
  assert_wrong_call (app, "", ENGLISH);
  assert_wrong_call (app, ", 'locale': <'de'>", GERMAN);
  g_unsetenv ("LANGUAGE");
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/locale/option", test_option);
  g_test_add_func ("/locale/wrong-locale", test_wrong_locale);
  g_test_add_func ("/locale/universal", test_universal);
  g_test_add_func ("/locale/register", test_register);
  g_test_add_func ("/locale/stream", test_stream);
  g_test_add_func ("/locale/session-default", test_session_default);
  g_test_add_func ("/locale/nested", test_nested);
  g_test_add_func ("/locale/system-default", test_system_default);
  return g_test_run ();
}
