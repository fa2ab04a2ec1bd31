/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The parts that need no daemon: tables, texts, the stream over a pipe, and the
 * bouncer against a polkit of our own. */

#include <fcntl.h>
#include <gio/gio.h>
#include <glib-unix.h>
#include <signal.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "bus/identity/llm-bus-bouncer.h"
#include "bus/objects/llm-bus-objects.h"
#include "bus/objects/llm-bus-call.h"
#include "bus/stream/llm-bus-stream.h"
#include "common/llmsvc-error.h"
#include "common/llmsvc-names.h"
#include "support/llm-test-bus.h"

#define OTHER_UID 12345

/* (nullable) */
static const LlmBusInterface *
get_interface (guint i)
{
  const LlmBusInterface *const tables[] = {
    &llm_bus_manager_interface, &llm_bus_memory_interface, &llm_bus_admin_interface,
    &llm_bus_model_interface, &llm_bus_model_manager_interface,
    llm_bus_contexts_tree.interface, llm_bus_generations_tree.interface,
  };

  return i < G_N_ELEMENTS (tables) ? tables[i] : NULL;
}

/* Every method of the XML has its function, and says who may call it, and the other way round. */
static void
test_tables (void)
{
  for (guint i = 0; get_interface (i) != NULL; i++)
    {
      GDBusInterfaceInfo *info = llm_bus_interface_lookup_info (get_interface (i)->name);
      const LlmBusMethod *methods = get_interface (i)->methods;
      guint n_described = 0, n_handled = 0;

      while (info->methods != NULL && info->methods[n_described] != NULL)
        n_described++;
      for (; methods != NULL && methods[n_handled].name != NULL; n_handled++)
        {
          gboolean has_action = methods[n_handled].demand == LLM_BUS_ACTION ||
                                methods[n_handled].demand == LLM_BUS_SILENT_ACTION;

          g_assert_nonnull (g_dbus_interface_info_lookup_method (info, methods[n_handled].name));
          g_assert_nonnull (methods[n_handled].handle);
          g_assert_cmpint (methods[n_handled].demand, !=, LLM_BUS_NOBODY);
          g_assert_true (has_action == (methods[n_handled].action != NULL));
        }
      g_assert_cmpuint (n_handled, ==, n_described);
    }
}

static char *
print_memory (const LlmContextMemory *memory)
{
  g_autoptr(GVariant) dict = g_variant_ref_sink (llm_bus_contexts_describe_memory (memory));

  return g_variant_print (dict, TRUE);
}

static void
test_context_memory (void)
{
  guint8 bits[] = { 16, 8, 4, 0, 8 };
  char places[] = "mbstm";
  const LlmContextMemory full = {
    .residency = "storage", .chunk_tokens = 16, .tokens = 70, .n_chunks = G_N_ELEMENTS (bits),
    .bits = bits, .places = places, .n_shared_chunks = 1, .memory_bytes = { 0, 100, 50, 0, 0 },
    .storage_bytes = { 0, 0, 50, 25, 0 }, .folder_bytes = 4096,
  };
  const LlmContextMemory empty = { .residency = "text" };
  g_autofree char *described = print_memory (&full);
  g_autofree char *nothing = print_memory (&empty);

  g_assert_cmpstr (described, ==,
                   "{'residency': <'storage'>, 'chunk-tokens': <uint32 16>, 'tokens': <uint32 70>, "
                   "'bits': <[byte 0x10, 0x08, 0x04, 0x00, 0x08]>, 'places': <'mbstm'>, "
                   "'shared-chunks': <uint32 1>, 'memory-bytes': <uint64 150>, "
                   "'memory-bytes-by-bits': <{uint32 16: uint64 100, 8: 50}>, "
                   "'storage-bytes': <uint64 4096>, "
                   "'storage-bytes-by-bits': <{uint32 8: uint64 50, 4: 25}>}");
  g_assert_cmpstr (nothing, ==,
                   "{'residency': <'text'>, 'chunk-tokens': <uint32 0>, 'tokens': <uint32 0>, "
                   "'bits': <@ay []>, 'places': <''>, 'shared-chunks': <uint32 0>, "
                   "'memory-bytes': <uint64 0>, 'memory-bytes-by-bits': <@a{ut} {}>, "
                   "'storage-bytes': <uint64 0>, 'storage-bytes-by-bits': <@a{ut} {}>}");
}

typedef struct
{
  guint drained;
  guint closed;
} Told;

static void
on_drained (gpointer data)
{
  ((Told *) data)->drained++;
}

static void
on_closed (gpointer data)
{
  ((Told *) data)->closed++;
}

static LlmSink *
make_stream_for (const char *app_id,
                 gboolean    is_text,
                 int        *fd,
                 Told       *told)
{
  g_autoptr(LlmCaller) owner = llm_caller_new (1000, app_id, ":1.1", LLM_CALLER_HOST);
  g_autoptr(GError) error = NULL;
  LlmSink *sink = llm_bus_stream_new (owner, is_text, NULL, 60, fd, &error);

  g_assert_no_error (error);
  g_assert_true ((fcntl (*fd, F_GETFD) & FD_CLOEXEC) != 0);
  llm_sink_listen (sink, on_drained, on_closed, told);
  return sink;
}

static LlmSink *
make_stream (gboolean  is_text,
             int      *fd,
             Told     *told)
{
  return make_stream_for ("org.example", is_text, fd, told);
}

static void
run_sources (void)
{
  while (g_main_context_iteration (NULL, FALSE))
    ;
}

static char *
read_some (int fd)
{
  char buffer[70000];
  ssize_t n = read (fd, buffer, sizeof buffer - 1);

  g_assert_cmpint (n, >=, 0);
  return g_strndup (buffer, (gsize) n);
}

static void
test_stream_lines (void)
{
  g_autoptr(GVariant) results = NULL;
  g_autofree char *text = NULL;
  g_autofree char *end = NULL;
  Told told = { 0 };
  LlmSink *sink;
  int fd;

  sink = make_stream (FALSE, &fd, &told);
  g_assert_true (llm_sink_accept (sink, "Hé\"", strlen ("Hé\"")));
  g_assert_true (llm_sink_accept (sink, "\n", 1));
  results = g_variant_ref_sink (g_variant_new_parsed ("{'finish-reason': <'stop'>}"));
  llm_sink_finish (sink, results, NULL);
  text = read_some (fd);
  g_assert_cmpstr (text, ==,
                   "{\"t\":\"Hé\\\"\"}\n{\"t\":\"\\n\"}\n"
                   "{\"done\":{\"finish-reason\":\"stop\"}}\n");
  end = read_some (fd);
  g_assert_cmpstr (end, ==, "");
  close (fd);
  llm_sink_unref (sink);
  run_sources ();
  g_assert_cmpuint (told.drained, ==, 0);
  g_assert_cmpuint (told.closed, ==, 0);
}

static void
test_stream_failure (void)
{
  g_autoptr(GError) error = g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_NO_MEMORY, "none left");
  g_autofree char *text = NULL;
  g_autofree char *plain = NULL;
  Told told = { 0 };
  LlmSink *sink;
  int fd;

  sink = make_stream (FALSE, &fd, &told);
  llm_sink_finish (sink, NULL, error);
  text = read_some (fd);
  g_assert_cmpstr (text, ==,
                   "{\"error\":{\"name\":\"org.llm.Service.Error.NoMemory\","
                   "\"message\":\"none left\"}}\n");
  close (fd);
  llm_sink_unref (sink);

  /* the plain text of a failure is what there was, and the end */
  sink = make_stream (TRUE, &fd, &told);
  g_assert_true (llm_sink_accept (sink, "abc", 3));
  llm_sink_finish (sink, NULL, error);
  plain = read_some (fd);
  g_assert_cmpstr (plain, ==, "abc");
  close (fd);
  llm_sink_unref (sink);
}

/* A full pipe refuses, keeps what it took, and says when it is empty again. */
static void
test_stream_full (void)
{
  g_autofree char *block = g_strnfill (1000, 'x');
  g_autoptr(GString) all = g_string_new (NULL);
  g_autoptr(GVariant) results = g_variant_ref_sink (g_variant_new_parsed ("@a{sv} {}"));
  Told told = { 0 };
  guint n = 0;
  LlmSink *sink;
  int fd;

  sink = make_stream (TRUE, &fd, &told);
  while (llm_sink_accept (sink, block, 1000))
    {
      n++;
      g_assert_cmpuint (n, <, 2000);
    }
  n++;
  g_assert_cmpuint (n, >, 3);
  run_sources ();
  g_assert_cmpuint (told.drained, ==, 0);

  while (told.drained == 0)
    {
      g_autofree char *part = read_some (fd);

      g_string_append (all, part);
      run_sources ();
    }
  g_assert_true (llm_sink_accept (sink, "end", 3));
  llm_sink_finish (sink, results, NULL);
  llm_sink_unref (sink);

  for (;;)
    {
      g_autofree char *part = read_some (fd);

      if (part[0] == '\0')
        break;
      g_string_append (all, part);
    }
  g_assert_cmpuint (all->len, ==, n * 1000 + 3);
  g_assert_true (g_str_has_suffix (all->str, "xend"));
  g_assert_cmpuint (told.closed, ==, 0);
  close (fd);
}

/* What does not fit at the end is still delivered, though nobody holds the sink. */
static void
test_stream_rest (void)
{
  g_autofree char *block = g_strnfill (300000, 'y');
  g_autoptr(GVariant) results = g_variant_ref_sink (g_variant_new_parsed ("@a{sv} {}"));
  Told told = { 0 };
  gsize length = 0;
  /* as long as there is a sink, it has its owner, who has it too */
  g_autoptr(LlmApp) app = llm_app_intern (1000, "org.example");
  LlmSink *sink;
  int fd;

  sink = make_stream (TRUE, &fd, &told);
  g_assert_false (llm_sink_accept (sink, block, 300000));
  llm_sink_finish (sink, results, NULL);
  llm_sink_unref (sink);
  g_assert_cmpint (app->ref_count, ==, 2);

  for (;;)
    {
      g_autofree char *part = NULL;

      run_sources ();
      part = read_some (fd);
      if (part[0] == '\0')
        break;
      length += strlen (part);
    }
  g_assert_cmpuint (length, ==, 300000);
  g_assert_cmpint (app->ref_count, ==, 1);
  close (fd);
}

static void
test_stream_reader_gone (void)
{
  g_autofree char *block = g_strnfill (300000, 'z');
  g_autoptr(GVariant) results = g_variant_ref_sink (g_variant_new_parsed ("@a{sv} {}"));
  Told told = { 0 };
  g_autoptr(LlmApp) app = llm_app_intern (1000, "org.example");
  LlmSink *sink;
  int fd;

  /* before anything was written */
  sink = make_stream (FALSE, &fd, &told);
  close (fd);
  run_sources ();
  g_assert_cmpuint (told.closed, ==, 1);
  g_assert_false (llm_sink_accept (sink, "a", 1));
  llm_sink_finish (sink, results, NULL);
  llm_sink_unref (sink);

  /* in the middle of a full pipe */
  sink = make_stream (TRUE, &fd, &told);
  g_assert_false (llm_sink_accept (sink, block, 300000));
  close (fd);
  run_sources ();
  g_assert_cmpuint (told.closed, ==, 2);
  llm_sink_unref (sink);

  /* between the loss and the main loop that would tell it */
  sink = make_stream (TRUE, &fd, &told);
  close (fd);
  g_assert_false (llm_sink_accept (sink, "a", 1));
  g_assert_cmpuint (told.closed, ==, 2);
  run_sources ();
  g_assert_cmpuint (told.closed, ==, 3);
  llm_sink_unref (sink);

  /* after the end, with a rest: nothing to cancel any more */
  sink = make_stream (TRUE, &fd, &told);
  g_assert_false (llm_sink_accept (sink, block, 300000));
  llm_sink_finish (sink, results, NULL);
  llm_sink_unref (sink);
  close (fd);
  run_sources ();
  g_assert_cmpuint (told.closed, ==, 3);
  g_assert_cmpint (app->ref_count, ==, 1);
  g_assert_cmpuint (told.drained, ==, 0);
}

/* What comes of a stream until its end. */
static gsize
read_length (int fd)
{
  gsize length = 0;

  for (;;)
    {
      g_autofree char *part = NULL;

      run_sources ();
      part = read_some (fd);
      if (part[0] == '\0')
        return length;
      length += strlen (part);
    }
}

/* Finishes @n_streams that nobody reads: the first two of them must give way. */
static void
check_lingering (guint    n_streams,
                 gboolean has_many_names)
{
  g_autofree char *block = g_strnfill (300000, 'w');
  g_autofree int *fds = g_new (int, n_streams);
  g_autoptr(GVariant) results = g_variant_ref_sink (g_variant_new_parsed ("@a{sv} {}"));
  Told told = { 0 };

  for (guint i = 0; i < n_streams; i++)
    {
      g_autofree char *name = g_strdup_printf ("org.example.N%u", has_many_names ? i : 0);
      g_autoptr(LlmSink) sink = make_stream_for (name, TRUE, &fds[i], &told);

      g_assert_false (llm_sink_accept (sink, block, 300000));
      llm_sink_finish (sink, results, NULL);
    }

  for (guint i = 0; i < n_streams; i++)
    {
      struct pollfd end = { .fd = fds[i] };

      /* what the kernel keeps of them can be read all the same */
      g_assert_cmpint (poll (&end, 1, 0), ==, i < 2 ? 1 : 0);
      if (i < 2)
        g_assert_cmpuint (read_length (fds[i]), <=, 300000);
      else
        g_assert_cmpuint (read_length (fds[i]), ==, 300000);
      close (fds[i]);
    }
}

/* Unread answers can't take all descriptors, whatever names their owner takes: the
 * oldest ones give way. */
static void
test_stream_lingering (void)
{
  check_lingering (LLM_BUS_STREAM_MAX_LINGERING + 2, FALSE);
  check_lingering (LLM_BUS_STREAM_MAX_USER_LINGERING + 2, TRUE);
}

static void
test_messages (void)
{
  g_autoptr(GVariant) messages = NULL;
  g_autoptr(GVariant) wrong = NULL;
  g_autoptr(GVariant) foreign = NULL;
  g_autoptr(GVariant) dict = NULL;
  g_autoptr(LlmCallOptions) options = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) long_role = NULL;

  messages = g_variant_ref_sink (g_variant_new_parsed (
    "[('system', 'abc', @a{sv} {}), ('tool', 'defg', {})]"));
  g_assert_true (llm_bus_messages_check (messages, NULL, NULL, 7, &error));
  g_assert_no_error (error);
  g_assert_true (llm_bus_messages_check (messages, "xyz", NULL, 10, &error));
  g_assert_no_error (error);

  g_assert_false (llm_bus_messages_check (messages, "xyz", NULL, 9, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_MESSAGE_TOO_LARGE);
  g_assert_nonnull (strstr (error->message, "10 bytes"));
  g_assert_nonnull (strstr (error->message, "most 9"));
  g_clear_error (&error);

  dict = g_variant_ref_sink (g_variant_new_parsed (
    "{'system': <'12345'>, 'messages': <[('user', 'hello', @a{sv} {})]>}"));
  options = llm_call_options_parse (dict, LLMSVC_CALL_COMPLETE, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (llm_bus_messages_check (NULL, "1", options, 11, &error));
  g_assert_false (llm_bus_messages_check (NULL, "1", options, 10, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_MESSAGE_TOO_LARGE);
  g_clear_error (&error);

  wrong = g_variant_ref_sink (g_variant_new_parsed (
    "[('user', '', @a{sv} {}), ('developer', '', {})]"));
  g_assert_false (llm_bus_messages_check (wrong, NULL, NULL, 100, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "Message 1"));
  g_assert_nonnull (strstr (error->message, "developer"));
  g_clear_error (&error);

  foreign = g_variant_ref_sink (g_variant_new_parsed (
    "[('user', 'look', {'mood': <'good'>, 'image': <@ay []>}),"
    " ('user', 'look', {'image': <b'abc'>})]"));
  g_assert_false (llm_bus_messages_check (foreign, NULL, NULL, 100, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
  g_assert_nonnull (strstr (error->message, "Message 1"));
  g_assert_nonnull (strstr (error->message, "“image”"));
  g_assert_nonnull (strstr (error->message, "“images”"));
  g_clear_error (&error);

  g_assert_true (llm_bus_name_check ("notes — 2", &error));
  g_assert_false (llm_bus_name_check ("", &error));
  g_clear_error (&error);
  g_assert_false (llm_bus_name_check ("a\nb", &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);

  /* what is quoted is short */
  g_clear_error (&error);
  long_role = g_variant_ref_sink (g_variant_new_parsed (
    "[('ääääääääääääääääääääääääääääääääääääääääX', '', @a{sv} {})]"));
  g_assert_false (llm_bus_messages_check (long_role, NULL, NULL, 100, &error));
  g_assert_nonnull (strstr (error->message, "“ääääääääääääääääääääääääääääääääääääääää…”"));
}

/* --- the bouncer --- */

typedef struct
{
  GTestDBus *bus;
  GDBusConnection *connection;
  GDBusNodeInfo *info;
  guint object;
  guint name;
  gboolean is_authorized;
  gboolean is_challenge;
  char *asked;      /* action and flags of the last question */
} Polkit;

static void
on_polkit_call (GDBusConnection       *connection,
                const char            *sender,
                const char            *path,
                const char            *interface,
                const char            *method,
                GVariant              *arguments,
                GDBusMethodInvocation *invocation,
                gpointer               data)
{
  Polkit *polkit = data;
  g_autoptr(GVariant) details = NULL;
  const char *kind, *action, *name;
  guint32 flags;

  g_variant_get (arguments, "((&s@a{sv})&s@a{ss}u&s)", &kind, &details, &action, NULL, &flags,
                 NULL);
  g_assert_cmpstr (kind, ==, "system-bus-name");
  g_assert_true (g_variant_lookup (details, "name", "&s", &name));
  g_free (polkit->asked);
  polkit->asked = g_strdup_printf ("%s %u %s", action, flags, name);
  g_dbus_method_invocation_return_value (
    invocation, g_variant_new ("((bb@a{ss}))", polkit->is_authorized, polkit->is_challenge,
                               g_variant_new_array (G_VARIANT_TYPE ("{ss}"), NULL, 0)));
}

static const GDBusInterfaceVTable polkit_vtable = { on_polkit_call, NULL, NULL, { NULL } };

static void
on_polkit_named (GDBusConnection *connection,
                 const char      *name,
                 gpointer         data)
{
  *(gboolean *) data = TRUE;
}

static void
set_up_polkit (Polkit       *polkit,
               gconstpointer data)
{
  gboolean has_polkit = GPOINTER_TO_INT (data);
  gboolean has_name = FALSE;
  g_autoptr(GError) error = NULL;

  polkit->bus = g_test_dbus_new (G_TEST_DBUS_NONE);
  llm_test_bus_up (polkit->bus);
  polkit->connection = llm_test_bus_connect (polkit->bus);
  if (!has_polkit)
    return;

  polkit->info = g_dbus_node_info_new_for_xml (
    "<node><interface name='org.freedesktop.PolicyKit1.Authority'>"
    "<method name='CheckAuthorization'><arg type='(sa{sv})' direction='in'/>"
    "<arg type='s' direction='in'/><arg type='a{ss}' direction='in'/>"
    "<arg type='u' direction='in'/><arg type='s' direction='in'/>"
    "<arg type='(bba{ss})' direction='out'/></method></interface></node>",
    &error);
  g_assert_no_error (error);
  polkit->object = g_dbus_connection_register_object (
    polkit->connection, "/org/freedesktop/PolicyKit1/Authority", polkit->info->interfaces[0],
    &polkit_vtable, polkit, NULL, &error);
  g_assert_no_error (error);
  polkit->name = g_bus_own_name_on_connection (polkit->connection, "org.freedesktop.PolicyKit1",
                                               G_BUS_NAME_OWNER_FLAGS_NONE, on_polkit_named, NULL,
                                               &has_name, NULL);
  while (!has_name)
    g_main_context_iteration (NULL, TRUE);
}

static void
tear_down_polkit (Polkit       *polkit,
                  gconstpointer data)
{
  if (polkit->name != 0)
    g_bus_unown_name (polkit->name);
  if (polkit->object != 0)
    g_dbus_connection_unregister_object (polkit->connection, polkit->object);
  g_clear_pointer (&polkit->info, g_dbus_node_info_unref);
  g_dbus_connection_close_sync (polkit->connection, NULL, NULL);
  g_object_unref (polkit->connection);
  llm_test_bus_down (polkit->bus);
  g_object_unref (polkit->bus);
  g_free (polkit->asked);
}

typedef struct
{
  gboolean is_decided;
  GError *error;
} Decision;

static void
on_decided (const GError *error,
            gpointer      data)
{
  Decision *decision = data;

  g_assert_false (decision->is_decided);
  decision->is_decided = TRUE;
  decision->error = error != NULL ? g_error_copy (error) : NULL;
}

/* (transfer full) (nullable): the refusal */
static GError *
check (LlmBus     *bus,
       LlmCaller  *caller,
       const char *interface,
       const char *method,
       gboolean    interactive)
{
  Decision decision = { FALSE, NULL };
  const LlmBusMethod *found;
  guint i = 0;

  while (!g_str_equal (get_interface (i)->name, interface))
    i++;
  for (found = get_interface (i)->methods; !g_str_equal (found->name, method); found++)
    ;
  llm_bus_bouncer_check (bus, caller, get_interface (i), found, interactive, on_decided, &decision);
  while (!decision.is_decided)
    g_main_context_iteration (NULL, TRUE);
  return decision.error;
}

static void
assert_allowed (LlmBus     *bus,
                LlmCaller  *caller,
                const char *interface,
                const char *method)
{
  g_autoptr(GError) error = check (bus, caller, interface, method, FALSE);

  g_assert_no_error (error);
}

static void
assert_refused (LlmBus     *bus,
                LlmCaller  *caller,
                const char *interface,
                const char *method)
{
  g_autoptr(GError) error = check (bus, caller, interface, method, TRUE);

  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_AUTHORIZED);
}

/* A method that does not say who may call it is refused to all. */
static void
test_bouncer_table (Polkit       *polkit,
                    gconstpointer data)
{
  LlmBus bus = { .connection = polkit->connection, .is_system = TRUE };
  g_autoptr(LlmCaller) root = llm_caller_new (0, "", ":1.1", LLM_CALLER_HOST);
  const LlmBusMethod method = { .name = "Invented" };
  Decision decision = { FALSE, NULL };

  llm_bus_bouncer_check (&bus, root, &llm_bus_manager_interface, &method, TRUE, on_decided,
                         &decision);
  g_assert_true (decision.is_decided);
  g_assert_error (decision.error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_AUTHORIZED);
  g_clear_error (&decision.error);
  g_assert_null (polkit->asked);
}

static void
test_bouncer_session (Polkit       *polkit,
                      gconstpointer data)
{
  LlmBus bus = { .connection = polkit->connection, .is_system = FALSE };
  g_autoptr(LlmCaller) user = llm_caller_new (getuid (), "", ":1.1", LLM_CALLER_HOST);
  g_autoptr(LlmCaller) other = llm_caller_new (OTHER_UID, "", ":1.2", LLM_CALLER_HOST);
  g_autoptr(LlmCaller) sandboxed = llm_caller_new (getuid (), "org.x", ":1.3", LLM_CALLER_FLATPAK);
  g_autoptr(LlmCaller) unknown =
    llm_caller_new (getuid (), "unknown:1.4", ":1.4", LLM_CALLER_UNKNOWN);
  g_autoptr(GError) error = NULL;

  assert_allowed (&bus, user, LLMSVC_MEMORY_INTERFACE, "Trim");
  assert_allowed (&bus, user, LLMSVC_INTERFACE, "SelectModel");
  assert_refused (&bus, other, LLMSVC_MEMORY_INTERFACE, "Trim");
  assert_refused (&bus, sandboxed, LLMSVC_MEMORY_INTERFACE, "Trim");
  assert_refused (&bus, sandboxed, LLMSVC_ADMIN_INTERFACE, "ListApps");
  assert_refused (&bus, unknown, LLMSVC_ADMIN_INTERFACE, "SetQuota");
  assert_refused (&bus, unknown, LLMSVC_ADMIN_INTERFACE, "ListApps");
  assert_allowed (&bus, sandboxed, LLMSVC_INTERFACE, "Complete");
  assert_allowed (&bus, unknown, LLMSVC_INTERFACE, "Complete");
  g_assert_null (polkit->asked);

  g_assert_true (llm_bus_bouncer_is_administrator (&bus, user));
  g_assert_false (llm_bus_bouncer_is_administrator (&bus, sandboxed));
  g_assert_false (llm_bus_bouncer_may_keep (unknown, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_AUTHORIZED);
  g_assert_true (llm_bus_bouncer_may_keep (sandboxed, NULL));
}

static void
test_bouncer_polkit (Polkit       *polkit,
                     gconstpointer data)
{
  LlmBus bus = { .connection = polkit->connection, .is_system = TRUE };
  g_autoptr(LlmCaller) root = llm_caller_new (0, "", ":1.1", LLM_CALLER_HOST);
  g_autoptr(LlmCaller) user = llm_caller_new (OTHER_UID, "", ":1.2", LLM_CALLER_HOST);
  g_autoptr(LlmCaller) sandboxed = llm_caller_new (OTHER_UID, "org.x", ":1.3", LLM_CALLER_FLATPAK);
  g_autoptr(LlmCaller) rooted = llm_caller_new (0, "org.x", ":1.4", LLM_CALLER_FLATPAK);
  g_autoptr(GError) error = NULL;

  /* not asked where the answer is known */
  polkit->is_authorized = TRUE;
  assert_allowed (&bus, root, LLMSVC_INTERFACE, "SelectModel");
  assert_allowed (&bus, user, LLMSVC_INTERFACE, "Complete");
  assert_allowed (&bus, user, LLMSVC_ADMIN_INTERFACE, "ListApps");
  assert_refused (&bus, sandboxed, LLMSVC_INTERFACE, "SelectModel");
  assert_refused (&bus, rooted, LLMSVC_INTERFACE, "SelectModel");
  g_assert_null (polkit->asked);

  assert_allowed (&bus, user, LLMSVC_INTERFACE, "SelectModel");
  g_assert_cmpstr (polkit->asked, ==, "org.llm.Service.select-model 0 :1.2");
  error = check (&bus, user, LLMSVC_MEMORY_INTERFACE, "SetBudget", TRUE);
  g_assert_no_error (error);
  g_assert_cmpstr (polkit->asked, ==, "org.llm.Service.set-budget 1 :1.2");
  error = check (&bus, user, LLMSVC_ADMIN_INTERFACE, "SetQuota", TRUE);
  g_assert_no_error (error);
  g_assert_cmpstr (polkit->asked, ==, "org.llm.Service.set-quota 1 :1.2");
  /* nobody is asked for a password by a trim, whatever the message allows */
  error = check (&bus, user, LLMSVC_MEMORY_INTERFACE, "Trim", TRUE);
  g_assert_no_error (error);
  g_assert_cmpstr (polkit->asked, ==, "org.llm.Service.trim 0 :1.2");

  polkit->is_authorized = FALSE;
  assert_refused (&bus, user, LLMSVC_INTERFACE, "SelectModel");
  polkit->is_challenge = TRUE;
  error = check (&bus, user, LLMSVC_INTERFACE, "SelectModel", FALSE);
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_AUTHORIZED);
  g_assert_nonnull (strstr (error->message, "a person would have to be asked"));
}

static void
test_bouncer_no_polkit (Polkit       *polkit,
                        gconstpointer data)
{
  LlmBus bus = { .connection = polkit->connection, .is_system = TRUE };
  g_autoptr(LlmCaller) user = llm_caller_new (OTHER_UID, "", ":1.2", LLM_CALLER_HOST);
  g_autoptr(GError) error = NULL;

  error = check (&bus, user, LLMSVC_INTERFACE, "SelectModel", TRUE);
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_AUTHORIZED);
  g_assert_nonnull (strstr (error->message, "polkit could not be asked"));
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  signal (SIGPIPE, SIG_IGN);

  g_test_add_func ("/bus/tables", test_tables);
  g_test_add_func ("/bus/context-memory", test_context_memory);
  g_test_add_func ("/bus/messages", test_messages);
  g_test_add_func ("/bus/stream/lines", test_stream_lines);
  g_test_add_func ("/bus/stream/failure", test_stream_failure);
  g_test_add_func ("/bus/stream/full", test_stream_full);
  g_test_add_func ("/bus/stream/rest", test_stream_rest);
  g_test_add_func ("/bus/stream/reader-gone", test_stream_reader_gone);
  g_test_add_func ("/bus/stream/lingering", test_stream_lingering);
  g_test_add ("/bus/bouncer/table", Polkit, GINT_TO_POINTER (TRUE), set_up_polkit,
              test_bouncer_table, tear_down_polkit);
  g_test_add ("/bus/bouncer/session", Polkit, GINT_TO_POINTER (TRUE), set_up_polkit,
              test_bouncer_session, tear_down_polkit);
  g_test_add ("/bus/bouncer/polkit", Polkit, GINT_TO_POINTER (TRUE), set_up_polkit,
              test_bouncer_polkit, tear_down_polkit);
  g_test_add ("/bus/bouncer/no-polkit", Polkit, GINT_TO_POINTER (FALSE), set_up_polkit,
              test_bouncer_no_polkit, tear_down_polkit);

  return g_test_run ();
}
