/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bus-rig.h"

#include <errno.h>
#include <gio/gunixfdlist.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "support/llm-test-bus.h"
#include "support/llm-test-folder.h"

#define WAIT_STEP_US 2000
#define WAIT_MAX_US (60 * G_USEC_PER_SEC)

struct _BusRig
{
  GTestDBus *bus;
  char *folder;
  GDBusConnection *own;  /* for questions to the bus; never calls the daemon */
};

static void
write_file (const char *folder,
            const char *name,
            const char *content)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  g_autoptr(GError) error = NULL;

  g_file_set_contents (path, content, -1, &error);
  g_assert_no_error (error);
}

/* The bus tells those it starts its address, which is the system's as well then. */
#define SYSTEM_WRAPPER \
  "/bin/sh -c 'DBUS_SYSTEM_BUS_ADDRESS=\"$DBUS_STARTER_ADDRESS\" exec \"$@\"' sh"

static BusRig *
new_rig (const char *model,
         const char *config,
         const char *environment,
         gboolean    is_system)
{
  BusRig *self = g_new0 (BusRig, 1);
  g_autofree char *service = NULL;
  g_autofree char *default_model = NULL;

  g_assert_nonnull (g_getenv ("LLM_DAEMON"));
  g_assert_nonnull (g_getenv ("LLM_MODEL_DIR"));
  default_model = g_build_filename (g_getenv ("LLM_MODEL_DIR"), "llmsvc-demo-8M-Q8_0.gguf", NULL);

  self->folder = llm_test_folder_new ();

  service = g_strdup_printf (
    "[D-BUS Service]\nName=" LLMSVC_BUS_NAME "\n"
    "Exec=/usr/bin/env LC_ALL=C.UTF-8 %s %s \"%s\" %s --config \"%s/llmsvc.conf\" --model \"%s\" "
    "--state-dir \"%s/state\"\n",
    environment, is_system ? SYSTEM_WRAPPER : "", g_getenv ("LLM_DAEMON"),
    is_system ? "--system" : "--session", self->folder, model != NULL ? model : default_model,
    self->folder);
  write_file (self->folder, LLMSVC_BUS_NAME ".service", service);
  write_file (self->folder, "llmsvc.conf", config != NULL ? config : "");

  /* a missing or broken model is worth a warning to the daemon, and must not end it */
  g_setenv ("G_DEBUG", "fatal-criticals", TRUE);
  self->bus = g_test_dbus_new (G_TEST_DBUS_NONE);
  g_test_dbus_add_service_dir (self->bus, self->folder);
  llm_test_bus_up (self->bus);
  self->own = bus_rig_connect (self);
  return self;
}

BusRig *
bus_rig_new (const char *model,
             const char *config)
{
  return new_rig (model, config, "", FALSE);
}

BusRig *
bus_rig_new_with_environment (const char *model,
                              const char *config,
                              const char *environment)
{
  return new_rig (model, config, environment, FALSE);
}

BusRig *
bus_rig_new_system (void)
{
  return new_rig (NULL, NULL, "", TRUE);
}

void
bus_rig_free (BusRig *self)
{
  bus_rig_end_daemon (self, SIGTERM);
  g_object_unref (self->own);
  llm_test_bus_down (self->bus);
  g_object_unref (self->bus);
  llm_test_folder_remove (self->folder);
  g_free (self->folder);
  g_free (self);
}

const char *
bus_rig_get_folder (BusRig *self)
{
  return self->folder;
}

const char *
bus_rig_get_address (BusRig *self)
{
  return g_test_dbus_get_bus_address (self->bus);
}

GDBusConnection *
bus_rig_connect (BusRig *self)
{
  return llm_test_bus_connect (self->bus);
}

GDBusConnection *
bus_rig_connect_app (BusRig     *self,
                     const char *app_id)
{
  GDBusConnection *connection = bus_rig_connect (self);
  g_autoptr(GVariant) reply = NULL;

  reply = bus_call_ok (connection, NULL, "", "Register",
                       g_variant_new ("(s@a{sv})", app_id, bus_options ("{}")));
  return connection;
}

int
bus_rig_get_pid (BusRig *self)
{
  return llm_test_bus_get_owner (self->own, LLMSVC_BUS_NAME);
}

static gboolean
has_no_owner (gpointer data)
{
  return bus_rig_get_pid (data) == 0;
}

/* A process that has ended may stay as a zombie until somebody asks for it. */
static gboolean
is_gone (gpointer data)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/stat", GPOINTER_TO_INT (data));
  g_autofree char *text = NULL;
  const char *state;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return TRUE;

  state = strrchr (text, ')');
  return state != NULL && (g_str_has_prefix (state, ") Z") || g_str_has_prefix (state, ") X"));
}

void
bus_rig_end_daemon (BusRig *self,
                    int     signal)
{
  int pid = bus_rig_get_pid (self);

  if (pid == 0)
    return;

  g_assert_cmpint (kill (pid, signal), ==, 0);
  bus_wait_until (is_gone, GINT_TO_POINTER (pid));
  bus_wait_until (has_no_owner, self);
}

typedef struct
{
  GVariant *reply;
  GError *error;
  gboolean is_done;
} Answer;

static void
on_answer (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  Answer *answer = data;

  answer->reply =
    g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, &answer->error);
  answer->is_done = TRUE;
}

static char *
expand_interface (const char *interface)
{
  if (interface[0] == '\0' || interface[0] == '.')
    return g_strconcat (LLMSVC_INTERFACE, interface, NULL);

  return g_strdup (interface);
}

GVariant *
bus_call (GDBusConnection  *connection,
          const char       *path,
          const char       *interface,
          const char       *method,
          GVariant         *arguments,
          GError          **error)
{
  g_autofree char *name = expand_interface (interface);
  Answer answer = { NULL };

  g_dbus_connection_call (connection, LLMSVC_BUS_NAME, path != NULL ? path : LLMSVC_PATH, name,
                          method, arguments, NULL, G_DBUS_CALL_FLAGS_NONE, BUS_RIG_TIMEOUT_MS,
                          NULL, on_answer, &answer);
  while (!answer.is_done)
    g_main_context_iteration (NULL, TRUE);

  if (answer.error != NULL)
    g_propagate_error (error, answer.error);
  return answer.reply;
}

GVariant *
bus_call_ok (GDBusConnection *connection,
             const char      *path,
             const char      *interface,
             const char      *method,
             GVariant        *arguments)
{
  g_autoptr(GError) error = NULL;
  GVariant *reply = bus_call (connection, path, interface, method, arguments, &error);

  if (error != NULL)
    g_test_message ("%s.%s failed", interface, method);
  g_assert_no_error (error);
  return reply;
}

GVariant *
bus_get (GDBusConnection *connection,
         const char      *path,
         const char      *interface,
         const char      *property)
{
  g_autofree char *name = expand_interface (interface);
  g_autoptr(GVariant) reply = NULL;
  GVariant *value;

  reply = bus_call_ok (connection, path, "org.freedesktop.DBus.Properties", "Get",
                       g_variant_new ("(ss)", name, property));
  g_variant_get (reply, "(v)", &value);
  return value;
}

guint64
bus_get_number (GDBusConnection *connection,
                const char      *path,
                const char      *interface,
                const char      *property)
{
  g_autoptr(GVariant) value = bus_get (connection, path, interface, property);

  if (g_variant_is_of_type (value, G_VARIANT_TYPE_UINT64))
    return g_variant_get_uint64 (value);

  return g_variant_get_uint32 (value);
}

GVariant *
bus_options (const char *format,
             ...)
{
  GVariant *options;
  va_list args;

  if (g_str_equal (format, "{}"))
    return g_variant_new_array (G_VARIANT_TYPE ("{sv}"), NULL, 0);

  va_start (args, format);
  options = g_variant_new_parsed_va (format, &args);
  va_end (args);
  return options;
}

char *
bus_open (GDBusConnection *connection,
          const char      *name)
{
  g_autoptr(GVariant) reply = NULL;
  char *path;

  reply = bus_call_ok (connection, NULL, "", "OpenContext",
                       g_variant_new ("(s@a{sv})", name, bus_options ("{'create': <true>}")));
  g_variant_get (reply, "(o)", &path);
  return path;
}

typedef struct
{
  GVariant *reply;
  GUnixFDList *fds;
  GError *error;
  gboolean is_done;
} AnswerWithFds;

static void
on_answer_with_fds (GObject      *source,
                    GAsyncResult *result,
                    gpointer      data)
{
  AnswerWithFds *answer = data;

  answer->reply = g_dbus_connection_call_with_unix_fd_list_finish (
    G_DBUS_CONNECTION (source), &answer->fds, result, &answer->error);
  answer->is_done = TRUE;
}

char *
bus_generate (GDBusConnection  *connection,
              const char       *context,
              const char       *prompt,
              GVariant         *options,
              int              *fd,
              GError          **error)
{
  AnswerWithFds answer = { NULL };
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GUnixFDList) fds = NULL;
  g_autoptr(GError) fd_error = NULL;
  GVariantBuilder messages;
  char *path;
  int handle;

  g_variant_builder_init (&messages, G_VARIANT_TYPE ("a(ssa{sv})"));
  g_variant_builder_add (&messages, "(ssa{sv})", "user", prompt, NULL);
  g_dbus_connection_call_with_unix_fd_list (
    connection, LLMSVC_BUS_NAME, context, LLMSVC_CONTEXT_INTERFACE, "Generate",
    g_variant_new ("(@a(ssa{sv})@a{sv})", g_variant_builder_end (&messages), options),
    G_VARIANT_TYPE ("(oh)"), G_DBUS_CALL_FLAGS_NONE, BUS_RIG_TIMEOUT_MS, NULL, NULL,
    on_answer_with_fds, &answer);
  while (!answer.is_done)
    g_main_context_iteration (NULL, TRUE);

  reply = answer.reply;
  fds = answer.fds;
  if (reply == NULL)
    {
      g_propagate_error (error, answer.error);
      return NULL;
    }

  g_variant_get (reply, "(oh)", &path, &handle);
  *fd = g_unix_fd_list_get (fds, handle, &fd_error);
  g_assert_no_error (fd_error);
  return path;
}

GString *
bus_read_all (int fd)
{
  GString *all = g_string_new (NULL);
  char buffer[4096];
  ssize_t n;

  while ((n = read (fd, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR))
    if (n > 0)
      g_string_append_len (all, buffer, n);

  g_assert_cmpint (n, ==, 0);
  close (fd);
  return all;
}

void
bus_read_one (int fd)
{
  char buffer[1];

  g_assert_cmpint (read (fd, buffer, 1), ==, 1);
}

guint
bus_count_messages (GDBusConnection  *connection,
                    const char       *context,
                    char            **last)
{
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) messages = NULL;
  guint n;

  reply = bus_call_ok (connection, context, ".Context", "GetMessages",
                       g_variant_new ("(uu@a{sv})", 0, 0, bus_options ("{}")));
  messages = g_variant_get_child_value (reply, 0);
  n = (guint) g_variant_n_children (messages);
  if (last != NULL)
    *last = NULL;
  if (last != NULL && n > 0)
    g_variant_get_child (messages, n - 1, "(ssa{sv})", NULL, last, NULL);
  return n;
}

/* (transfer full): the text; @results: (nullable) */
char *
bus_ask (GDBusConnection *app,
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

guint32
bus_lookup_u (GVariant   *dict,
              const char *key)
{
  guint32 value = 0;

  g_assert_true (g_variant_lookup (dict, key, "u", &value));
  return value;
}

char *
bus_lookup_s (GVariant   *dict,
              const char *key)
{
  char *value = NULL;

  g_assert_true (g_variant_lookup (dict, key, "s", &value));
  return value;
}

GVariant *
bus_one_message (const char *role,
                 const char *text)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a(ssa{sv})"));
  g_variant_builder_add (&builder, "(ssa{sv})", role, text, NULL);
  return g_variant_builder_end (&builder);
}

char *
bus_create (GDBusConnection *app,
            GVariant        *options)
{
  g_autoptr(GVariant) reply = NULL;
  char *path;

  reply = bus_call_ok (app, NULL, "", "CreateContext", g_variant_new ("(@a{sv})", options));
  g_variant_get (reply, "(o)", &path);
  return path;
}

char *
bus_introspect (GDBusConnection *app,
                const char      *path)
{
  g_autoptr(GVariant) reply =
    bus_call_ok (app, path, "org.freedesktop.DBus.Introspectable", "Introspect", NULL);
  char *xml;

  g_variant_get (reply, "(s)", &xml);
  return xml;
}

char *
bus_error_name (const GError *error)
{
  g_autofree char *name = g_dbus_error_get_remote_error (error);

  if (name != NULL && g_str_has_prefix (name, LLMSVC_ERROR_PREFIX))
    return g_strdup (name + strlen (LLMSVC_ERROR_PREFIX));

  return g_strdup (name != NULL ? name : "none");
}

void
bus_assert_error (const GError *error,
                  const char   *name)
{
  g_autofree char *found = error != NULL ? bus_error_name (error) : g_strdup ("none");

  if (!g_str_equal (found, name))
    g_test_message ("the error is: %s", error != NULL ? error->message : "none");
  g_assert_cmpstr (found, ==, name);
}

void
bus_assert_unknown_object (const GError *error)
{
  bus_assert_error (error, "org.freedesktop.DBus.Error.UnknownObject");
}

void
bus_wait_until (BusCondition condition,
                gpointer     data)
{
  gint64 end_us = g_get_monotonic_time () + WAIT_MAX_US;

  while (!condition (data))
    {
      g_assert_cmpint (g_get_monotonic_time (), <, end_us);
      while (g_main_context_iteration (NULL, FALSE))
        ;
      g_usleep (WAIT_STEP_US);
    }
}

void
bus_fixture_set_up (BusFixture   *fixture,
                    gconstpointer data)
{
  fixture->rig = bus_rig_new (NULL, NULL);
  fixture->app = bus_rig_connect (fixture->rig);
}

void
bus_fixture_tear_down (BusFixture   *fixture,
                       gconstpointer data)
{
  g_object_unref (fixture->app);
  bus_rig_free (fixture->rig);
}
