/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Contexts and their answers, as an application uses them. */

#include <gio/gio.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "bus-rig.h"
#include "common/llmsvc-line.h"

#define SHORT "{'max-tokens': <uint32 12>, 'temperature': <0.0>}"

/* --- contexts --- */

static void
test_context (BusFixture   *fixture,
              gconstpointer data)
{
  g_autofree char *path = bus_create (fixture->app, bus_options ("{'system': <'You are kind.'>}"));
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

  text = bus_ask (fixture->app, path, "Hello, how are you?", bus_options (SHORT), &results);
  g_assert_cmpuint (strlen (text), >, 0);
  g_assert_cmpuint (bus_get_number (fixture->app, path, ".Context", "Revision"), ==, 1);
  g_assert_cmpuint (bus_get_number (fixture->app, path, ".Context", "Tokens"), >=,
                    bus_lookup_u (results, "prompt-tokens") +
                      bus_lookup_u (results, "output-tokens") - 1);
  g_assert_cmpuint (bus_count_messages (fixture->app, path, &last), ==, n + 2);
  g_assert_cmpstr (last, ==, text);

  /* the second turn computes only what is new */
  second = bus_ask (fixture->app, path, "And what do you like?", bus_options (SHORT),
                    &second_results);
  g_assert_cmpuint (bus_lookup_u (second_results, "cached-tokens"), >, 10);
  g_assert_cmpuint (bus_get_number (fixture->app, path, ".Context", "Revision"), ==, 2);

  all = bus_call_ok (fixture->app, path, "org.freedesktop.DBus.Properties", "GetAll",
                     g_variant_new ("(s)", LLMSVC_CONTEXT_INTERFACE));
  dict = g_variant_get_child_value (all, 0);
  g_assert_cmpuint (g_variant_n_children (dict), ==, 5);

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
test_named (BusFixture   *fixture,
            gconstpointer data)
{
  g_autofree char *made = bus_create (fixture->app, bus_options ("{'name': <'notes'>}"));
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

  text = bus_ask (fixture->app, made, "Hello", bus_options (SHORT), NULL);
  listed = bus_call_ok (fixture->app, NULL, "", "ListContexts",
                        g_variant_new ("(@a{sv})", bus_options ("{}")));
  list = g_variant_get_child_value (listed, 0);
  g_assert_cmpuint (g_variant_n_children (list), ==, 1);
  g_variant_get_child (list, 0, "(&o@a{sv})", &path, &properties);
  g_assert_cmpstr (path, ==, made);
  name = bus_lookup_s (properties, "Name");
  g_assert_cmpstr (name, ==, "notes");

  /* a clean end and a new start: the same path, the same text, at the first call */
  bus_rig_end_daemon (fixture->rig, SIGTERM);
  g_assert_cmpuint (bus_count_messages (fixture->app, made, &last), ==, 2);
  g_assert_cmpstr (last, ==, text);
  again = bus_open (fixture->app, "notes");
  g_assert_cmpstr (again, ==, made);
  g_assert_cmpuint (bus_get_number (fixture->app, made, ".Context", "Revision"), ==, 1);
  g_free (bus_ask (fixture->app, made, "And you?", bus_options (SHORT), NULL));
  g_assert_cmpuint (bus_get_number (fixture->app, made, ".Context", "Revision"), ==, 2);
}

/* Where a context is kept: while it answers, too, and for nobody else. */
static void
test_memory (BusFixture   *fixture,
             gconstpointer data)
{
  static const struct
  {
    const char *key;
    const char *type;
  } keys[] = {
    { "residency", "s" },            { "chunk-tokens", "u" },
    { "tokens", "u" },               { "bits", "ay" },
    { "places", "s" },               { "shared-chunks", "u" },
    { "memory-bytes", "t" },         { "memory-bytes-by-bits", "a{ut}" },
    { "storage-bytes", "t" },        { "storage-bytes-by-bits", "a{ut}" },
  };
  g_autofree char *path = bus_open (fixture->app, "kept");
  g_autoptr(GDBusConnection) other = bus_rig_connect_app (fixture->rig, "org.example.Other");
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) memory = NULL;
  g_autoptr(GVariant) meanwhile = NULL;
  g_autoptr(GVariant) cancelled = NULL;
  g_autoptr(GVariant) bits = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *generation = NULL;
  g_autofree char *places = NULL;
  int fd;

  generation = bus_generate (fixture->app, path, "Tell me a very long story",
                             bus_options (BUS_LONG_ANSWER "}"), &fd, &error);
  g_assert_no_error (error);
  bus_read_one (fd);
  meanwhile = bus_call_ok (fixture->app, path, ".Context", "GetMemory",
                           g_variant_new ("(@a{sv})", bus_options ("{}")));
  cancelled = bus_call_ok (fixture->app, generation, ".Generation", "Cancel",
                           g_variant_new ("(@a{sv})", bus_options ("{}")));
  close (fd);

  g_free (bus_ask (fixture->app, path, "Hello, how are you?", bus_options (SHORT), NULL));
  reply = bus_call_ok (fixture->app, path, ".Context", "GetMemory",
                       g_variant_new ("(@a{sv})", bus_options ("{}")));
  memory = g_variant_get_child_value (reply, 0);
  for (gsize i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      g_autoptr(GVariant) value =
        g_variant_lookup_value (memory, keys[i].key, G_VARIANT_TYPE (keys[i].type));

      g_test_message ("%s", keys[i].key);
      g_assert_nonnull (value);
    }
  bits = g_variant_lookup_value (memory, "bits", NULL);
  places = bus_lookup_s (memory, "places");
  g_assert_cmpuint (g_variant_n_children (bits), >, 0);
  g_assert_cmpuint (g_variant_n_children (bits), ==, strlen (places));
  g_assert_cmpuint (strspn (places, "mb"), ==, strlen (places));
  g_assert_cmpuint (bus_lookup_u (memory, "tokens"), <=,
                    strlen (places) * bus_lookup_u (memory, "chunk-tokens"));

  g_assert_null (bus_call (other, path, ".Context", "GetMemory",
                           g_variant_new ("(@a{sv})", bus_options ("{}")), &error));
  bus_assert_unknown_object (error);
}

/* Longer than the model can see: an error, or with on-overflow the newest part. */
static void
test_slide (BusFixture   *fixture,
            gconstpointer data)
{
  g_autofree char *path = bus_create (fixture->app, bus_options ("{'system': <'You are kind.'>}"));
  g_autofree char *long_text = NULL;
  g_autoptr(GVariant) first = NULL;
  g_autoptr(GVariant) full = NULL;
  g_autoptr(GVariant) slid = NULL;
  g_autofree char *full_reason = NULL;
  g_autofree char *slid_reason = NULL;
  guint32 kept = 0;

  g_free (bus_ask (fixture->app, path, "Tell me a story", bus_options (BUS_LONG_ANSWER "}"),
                   &first));
  g_assert_false (g_variant_lookup (first, "kept-tokens", "u", &kept));
  g_free (bus_ask (fixture->app, path, "Go on", bus_options (BUS_LONG_ANSWER "}"), &full));
  full_reason = bus_lookup_s (full, "finish-reason");
  g_assert_cmpstr (full_reason, ==, "context-full");

  long_text = bus_ask (fixture->app, path, "And how does it end?",
                       bus_options (BUS_LONG_ANSWER ", 'on-overflow': <'slide'>}"), &slid);
  slid_reason = bus_lookup_s (slid, "finish-reason");
  g_assert_cmpstr (slid_reason, ==, "length");
  g_assert_cmpuint (bus_lookup_u (slid, "output-tokens"), ==, 900);
  kept = bus_lookup_u (slid, "kept-tokens");
  g_assert_cmpuint (kept, <=, 1024);
  g_assert_cmpuint (kept, >, 512);
  g_assert_cmpuint (bus_get_number (fixture->app, path, ".Context", "Tokens"), >, 1900);
  g_assert_cmpuint (bus_count_messages (fixture->app, path, NULL), ==, 7);
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
test_close (BusFixture   *fixture,
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
test_append_fork_rollback (BusFixture   *fixture,
                           gconstpointer data)
{
  g_autofree char *path = bus_create (fixture->app, bus_options ("{}"));
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
                                         bus_one_message ("user", "My name is Ann."),
                                         bus_options ("{}")));
  g_variant_get (appended, "(u)", &tokens);
  g_assert_cmpuint (tokens, >, 3);
  waited = bus_call_ok (fixture->app, path, ".Context", "Append",
                        g_variant_new ("(@a(ssa{sv})@a{sv})",
                                       bus_one_message ("assistant", "Hello Ann."),
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
  text = bus_ask (fixture->app, fork, "What is my name?", bus_options (SHORT), NULL);
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
on_opened (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GError) error = NULL;

  reply = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, &error);
  g_assert_no_error (error);
  g_variant_get (reply, "(o)", data);
}

/* Several calls of two connections open the same new name at once, also as the first calls that
 * start the service. */
static void
test_open_at_once (BusFixture   *fixture,
                   gconstpointer data)
{
  g_autoptr(GDBusConnection) again = bus_rig_connect (fixture->rig);
  GDBusConnection *connections[] = { fixture->app, again, again, fixture->app };

  bus_rig_end_daemon (fixture->rig, SIGTERM);
  for (guint round = 0; round < 8; round++)
    {
      g_autofree char *name = g_strdup_printf ("new-%u", round);
      char *paths[G_N_ELEMENTS (connections)] = { NULL };
      g_autoptr(GVariant) reply = NULL;
      g_autoptr(GVariant) contexts = NULL;

      for (guint i = 0; i < G_N_ELEMENTS (connections); i++)
        g_dbus_connection_call (connections[i], LLMSVC_BUS_NAME, LLMSVC_PATH, LLMSVC_INTERFACE,
                                "OpenContext",
                                g_variant_new ("(s@a{sv})", name,
                                               bus_options ("{'create': <true>}")),
                                G_VARIANT_TYPE ("(o)"), G_DBUS_CALL_FLAGS_NONE, BUS_RIG_TIMEOUT_MS,
                                NULL, on_opened, &paths[i]);
      for (guint i = 0; i < G_N_ELEMENTS (connections); i++)
        {
          while (paths[i] == NULL)
            g_main_context_iteration (NULL, TRUE);
          g_assert_cmpstr (paths[i], ==, paths[0]);
        }
      for (guint i = 0; i < G_N_ELEMENTS (connections); i++)
        g_free (paths[i]);
      reply = bus_call_ok (again, NULL, "", "ListContexts",
                           g_variant_new ("(@a{sv})", bus_options ("{}")));
      contexts = g_variant_get_child_value (reply, 0);
      g_assert_cmpuint (g_variant_n_children (contexts), ==, round + 1);
    }
}

static void
test_request_id (BusFixture   *fixture,
                 gconstpointer data)
{
  static const char options[] =
    "{'max-tokens': <8>, 'temperature': <0>, 'request-id': <'r1'>}";
  g_autofree char *path = bus_open (fixture->app, "retry");
  g_autofree char *first = bus_ask (fixture->app, path, "Hello", bus_options (options), NULL);
  g_autofree char *again = bus_ask (fixture->app, path, "Hello", bus_options (options), NULL);
  g_autofree char *later = NULL;
  g_autofree char *generation = NULL;
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GError) error = NULL;
  int fd;

  g_assert_cmpstr (first, ==, again);
  g_assert_cmpuint (bus_get_number (fixture->app, path, ".Context", "Revision"), ==, 1);
  g_assert_cmpuint (bus_count_messages (fixture->app, path, NULL), ==, 2);

  /* every call that takes an id says when it is another's */
  g_assert_null (bus_call (fixture->app, path, ".Context", "Ask",
                           g_variant_new ("(s@a{sv})", "Good morning", bus_options (options)),
                           &error));
  bus_assert_error (error, "Conflict");
  g_clear_error (&error);
  generation = bus_generate (fixture->app, path, "Good morning", bus_options (options), &fd,
                             &error);
  g_assert_null (generation);
  bus_assert_error (error, "Conflict");
  g_clear_error (&error);
  g_assert_null (bus_call (fixture->app, path, ".Context", "Append",
                           g_variant_new ("(@a(ssa{sv})@a{sv})", bus_one_message ("user", "Hello"),
                                          bus_options ("{'request-id': <'r1'>}")), &error));
  bus_assert_error (error, "Conflict");
  g_clear_error (&error);

  /* also after a restart */
  bus_rig_end_daemon (fixture->rig, SIGTERM);
  later = bus_ask (fixture->app, path, "Hello", bus_options (options), NULL);
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
test_stream_lines (BusFixture   *fixture,
                   gconstpointer data)
{
  g_autofree char *path = bus_open (fixture->app, "lines");
  g_autofree char *generation = NULL;
  g_autofree char *last = NULL;
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
test_stream_text (BusFixture   *fixture,
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
test_cancel (BusFixture   *fixture,
             gconstpointer data)
{
  g_autofree char *path = bus_open (fixture->app, "cancelled");

  for (guint keep = 0; keep < 2; keep++)
    {
      g_autofree char *generation = NULL;
      g_autofree char *last = NULL;
      g_autoptr(GVariant) state = NULL;
      g_autoptr(GVariant) cancelled = NULL;
      g_autoptr(GVariant) ended = NULL;
      g_autoptr(GVariant) again = NULL;
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
      g_assert_cmpstr (g_variant_get_string (state, NULL), ==, "decode");

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

      /* it is not listed any more, but a late cancel finds it, and changes nothing */
      ended = bus_get (fixture->app, generation, ".Generation", "State");
      g_assert_cmpstr (g_variant_get_string (ended, NULL), ==, "done");
      again = bus_call_ok (fixture->app, generation, ".Generation", "Cancel",
                           g_variant_new ("(@a{sv})", bus_options ("{}")));
      g_assert_cmpuint (bus_count_messages (fixture->app, path, NULL), ==, keep ? 2 : 0);
    }

  /* the context goes on */
  g_free (bus_ask (fixture->app, path, "Hello", bus_options (SHORT), NULL));
  g_assert_cmpuint (bus_count_messages (fixture->app, path, NULL), ==, 4);
}

/* Closing the pipe cancels, and one context answers one call at a time. */
static void
test_close_pipe (BusFixture   *fixture,
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

int
main (int   argc,
      char *argv[])
{
  static const struct
  {
    const char *path;
    void (*test) (BusFixture *fixture, gconstpointer data);
  } tests[] = {
    { "/bus/contexts/context", test_context },
    { "/bus/contexts/named", test_named },
    { "/bus/contexts/memory", test_memory },
    { "/bus/contexts/slide", test_slide },
    { "/bus/contexts/close", test_close },
    { "/bus/contexts/append-fork-rollback", test_append_fork_rollback },
    { "/bus/contexts/open-at-once", test_open_at_once },
    { "/bus/contexts/request-id", test_request_id },
    { "/bus/contexts/stream-lines", test_stream_lines },
    { "/bus/contexts/stream-text", test_stream_text },
    { "/bus/contexts/cancel", test_cancel },
    { "/bus/contexts/close-pipe", test_close_pipe },
  };

  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    g_test_add (tests[i].path, BusFixture, NULL, bus_fixture_set_up, tests[i].test,
                bus_fixture_tear_down);

  return g_test_run ();
}
