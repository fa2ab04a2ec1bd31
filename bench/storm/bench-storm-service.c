/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The service under a storm: the real program on a private bus, an app for each connection. */

#include "storm/bench-storm-server.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <gio/gunixfdlist.h>

#include "common/llmsvc-line.h"
#include "common/llmsvc-names.h"

#define START_STEP_US 20000
#define START_STEPS 3000

typedef struct
{
  GDBusConnection *connection;
  char *path;                   /* (nullable): of the context */
} App;

typedef struct
{
  BenchStormServer parent;

  GTestDBus *bus;
  App apps[BENCH_STORM_APPS];
} Service;

static GDBusConnection *
connect_to (GTestDBus *bus)
{
  g_autoptr(GError) error = NULL;
  GDBusConnection *connection = g_dbus_connection_new_for_address_sync (
    g_test_dbus_get_bus_address (bus),
    G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
    NULL, NULL, &error);

  if (connection == NULL)
    g_error ("%s", error->message);
  return connection;
}

static GVariant *
call (App           *app,
      const char    *path,
      const char    *interface,
      const char    *method,
      GVariant      *arguments,
      const char    *type,
      GUnixFDList  **fds,
      GError       **error)
{
  return g_dbus_connection_call_with_unix_fd_list_sync (
    app->connection, LLMSVC_BUS_NAME, path, interface, method, arguments, G_VARIANT_TYPE (type),
    G_DBUS_CALL_FLAGS_NONE, G_MAXINT, NULL, fds, NULL, error);
}

/* --- asking --- */

static gboolean
begin_context (App     *app,
               GError **error)
{
  g_autoptr(GVariant) reply = call (app, LLMSVC_PATH, LLMSVC_INTERFACE, "CreateContext",
                                    g_variant_new ("(a{sv})", NULL), "(o)", NULL, error);

  if (reply == NULL)
    return FALSE;
  g_variant_get (reply, "(o)", &app->path);
  return TRUE;
}

static gboolean
take_back (App     *app,
           guint    n_turns,
           GError **error)
{
  g_autoptr(GVariant) reply = call (app, app->path, LLMSVC_CONTEXT_INTERFACE, "Rollback",
                                    g_variant_new ("(ua{sv})", n_turns, NULL), "()", NULL, error);

  return reply != NULL;
}

/* Greedy, and not ended by the model: a random one may say so at any time. */
static GVariant *
make_options (const BenchStormPlan *plan)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "temperature", "d", 0.0);
  g_variant_dict_insert (&dict, "max-tokens", "u", plan->n_answer);
  if (plan->eos >= 0)
    {
      GVariantBuilder bias;

      g_variant_builder_init (&bias, G_VARIANT_TYPE ("a{ud}"));
      g_variant_builder_add (&bias, "{ud}", (guint32) plan->eos, -100.0);
      g_variant_dict_insert_value (&dict, "logit-bias", g_variant_builder_end (&bias));
    }
  return g_variant_dict_end (&dict);
}

/* A line may hold more than a token: what the answer had in all is said at its end. */
static void
count_rest (LlmsvcLine *line,
            guint       n_lines,
            guint64    *tokens)
{
  guint64 n_tokens = 0;

  if (g_variant_lookup (line->results, "output-tokens", "t", &n_tokens) && n_tokens > n_lines)
    __atomic_add_fetch (tokens, n_tokens - n_lines, __ATOMIC_RELAXED);
}

/* @n_lines: of text so far. */
static gboolean
take_lines (LlmsvcLineReader  *reader,
            GString           *answer,
            guint64           *tokens,
            guint             *n_lines,
            gboolean          *is_done,
            GError           **error)
{
  g_autoptr(GError) bad = NULL;
  LlmsvcLine line;

  while (llmsvc_line_reader_next (reader, &line, &bad))
    {
      gboolean has_failed = line.kind == LLMSVC_LINE_ERROR;

      if (line.kind == LLMSVC_LINE_TEXT)
        {
          g_string_append (answer, line.text);
          __atomic_add_fetch (tokens, 1, __ATOMIC_RELAXED);
          (*n_lines)++;
        }
      else if (line.kind == LLMSVC_LINE_DONE)
        {
          count_rest (&line, *n_lines, tokens);
          *is_done = TRUE;
        }
      if (has_failed)
        g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s: %s", line.name, line.text);
      llmsvc_line_clear (&line);
      if (has_failed)
        return FALSE;
    }
  if (bad == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&bad));
  return FALSE;
}

static gboolean
read_stream (int       fd,
             GString  *answer,
             guint64  *tokens,
             GError  **error)
{
  g_autoptr(LlmsvcLineReader) reader = llmsvc_line_reader_new ();
  gboolean is_done = FALSE;
  guint n_lines = 0;
  char buffer[4096];
  gssize n;

  while ((n = read (fd, buffer, sizeof buffer)) > 0)
    if (!llmsvc_line_reader_push (reader, buffer, (gsize) n, error) ||
        !take_lines (reader, answer, tokens, &n_lines, &is_done, error))
      return FALSE;
  if (!is_done)
    g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT,
                         "the stream ended before the answer did");
  return is_done;
}

static gboolean
ask (BenchStormServer  *server,
     guint              index,
     guint              turn,
     GString           *answer,
     guint64           *tokens,
     GError           **error)
{
  Service *self = (Service *) server;
  App *app = &self->apps[index];
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GUnixFDList) fds = NULL;
  guint place = bench_storm_plan_get_place (server->plan, turn);
  GVariantBuilder messages;
  gboolean is_whole;
  int fd;

  if (turn == 0 && !begin_context (app, error))
    return FALSE;
  if (place == 1 && turn > 1 && !take_back (app, server->plan->n_turns, error))
    return FALSE;
  g_variant_builder_init (&messages, G_VARIANT_TYPE ("a(ssa{sv})"));
  g_variant_builder_add (&messages, "(ssa{sv})", "user",
                         bench_storm_plan_get_text (server->plan, index, place)->text, NULL);
  reply = call (app, app->path, LLMSVC_CONTEXT_INTERFACE, "Generate",
                g_variant_new ("(a(ssa{sv})@a{sv})", &messages, make_options (server->plan)),
                "(oh)", &fds, error);
  if (reply == NULL)
    return FALSE;
  fd = g_unix_fd_list_get (fds, 0, error);
  if (fd < 0)
    return FALSE;
  is_whole = read_stream (fd, answer, tokens, error);
  close (fd);
  return is_whole;
}

/* --- the process --- */

static void
free_service (BenchStormServer *server)
{
  Service *self = (Service *) server;

  bench_storm_server_end (server);
  for (guint i = 0; i < BENCH_STORM_APPS; i++)
    {
      if (self->apps[i].connection != NULL)
        g_dbus_connection_close_sync (self->apps[i].connection, NULL, NULL);
      g_clear_object (&self->apps[i].connection);
      g_free (self->apps[i].path);
    }
  g_test_dbus_down (self->bus);
  g_object_unref (self->bus);
  g_free (self);
}

static const BenchStormServerFuncs service_funcs = { .ask = ask, .free = free_service };

/* With all bits of context memory, so that answers can be compared word for word. */
static char *
write_config (const BenchStormServerConfig *config,
              const BenchStormPlan         *plan)
{
  g_autofree char *path = g_build_filename (config->folder, "llmsvc.conf", NULL);
  g_autofree char *text =
    g_strdup_printf ("[service]\nbudget=%" G_GUINT64_FORMAT "\nthreads=%s\n"
                     "[contexts]\nratio=off\n",
                     plan->budget, config->threads != NULL ? config->threads : "0");
  g_autoptr(GError) error = NULL;

  if (!g_file_set_contents (path, text, -1, &error))
    g_error ("%s", error->message);
  return g_steal_pointer (&path);
}

static gboolean
has_owner (GDBusConnection *connection)
{
  g_autoptr(GVariant) reply =
    g_dbus_connection_call_sync (connection, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                 "org.freedesktop.DBus", "NameHasOwner",
                                 g_variant_new ("(s)", LLMSVC_BUS_NAME), G_VARIANT_TYPE ("(b)"),
                                 G_DBUS_CALL_FLAGS_NONE, -1, NULL, NULL);
  gboolean has = FALSE;

  if (reply != NULL)
    g_variant_get (reply, "(b)", &has);
  return has;
}

static gboolean
wait_for_name (Service  *self,
               GError  **error)
{
  for (guint i = 0; i < START_STEPS && bench_storm_server_is_alive (&self->parent); i++)
    {
      if (has_owner (self->apps[0].connection))
        return TRUE;
      g_usleep (START_STEP_US);
    }
  g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_FAILED, "the service did not start");
  return FALSE;
}

/* Each connection is another app to the service. */
static gboolean
register_apps (Service  *self,
               GError  **error)
{
  for (guint i = 0; i < BENCH_STORM_APPS; i++)
    {
      g_autofree char *id = g_strdup_printf ("org.example.Storm%u", i + 1);
      g_autoptr(GVariant) reply = call (&self->apps[i], LLMSVC_PATH, LLMSVC_INTERFACE, "Register",
                                        g_variant_new ("(sa{sv})", id, NULL), "()", NULL, error);

      if (reply == NULL)
        return FALSE;
    }
  return TRUE;
}

BenchStormServer *
bench_storm_server_new_service (const BenchStormServerConfig *config,
                                const BenchStormPlan         *plan,
                                BenchStormGroup              *group,
                                GError                      **error)
{
  Service *self = g_new0 (Service, 1);
  g_autoptr(BenchStormServer) server = &self->parent;
  g_autofree char *settings = write_config (config, plan);
  g_autofree char *state = g_build_filename (config->folder, "state", NULL);
  g_autofree char *cache = g_build_filename (config->folder, "cache", NULL);
  g_autofree char *log = g_build_filename (config->folder, BENCH_STORM_LOG, NULL);
  char *argv[] = { (char *) config->program, (char *) "--session", (char *) "--config", settings,
                   (char *) "--model", (char *) config->model, (char *) "--state-dir", state,
                   NULL };
  g_auto(GStrv) environment = NULL;

  self->parent.funcs = &service_funcs;
  self->parent.plan = plan;
  self->bus = g_test_dbus_new (G_TEST_DBUS_NONE);
  g_test_dbus_up (self->bus);
  for (guint i = 0; i < BENCH_STORM_APPS; i++)
    self->apps[i].connection = connect_to (self->bus);
  environment = g_get_environ ();
  environment = g_environ_setenv (environment, "CACHE_DIRECTORY", cache, TRUE);
  environment = g_environ_setenv (environment, "DBUS_SESSION_BUS_ADDRESS",
                                  g_test_dbus_get_bus_address (self->bus), TRUE);
  environment = g_environ_setenv (environment, "G_MESSAGES_DEBUG", "llm-governor llm-engine",
                                  FALSE);
  if (!bench_storm_server_spawn (server, argv, environment, log, group, error) ||
      !wait_for_name (self, error) || !register_apps (self, error))
    return NULL;
  if (group != NULL)
    g_printerr ("llmsvc-bench: the service can be looked at with DBUS_SESSION_BUS_ADDRESS=%s\n",
                g_test_dbus_get_bus_address (self->bus));
  return g_steal_pointer (&server);
}
