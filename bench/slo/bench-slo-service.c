/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "slo/bench-slo-service.h"

#include <gio/gunixfdlist.h>
#include <gio/gunixinputstream.h>

#include "bench-bus.h"
#include "bench-endless.h"
#include "common/llmsvc-line.h"
#include "common/llmsvc-names.h"

#define START_MS 120000
#define READ_BYTES 4096

#define ERROR_OVERLOADED LLMSVC_ERROR_PREFIX "Overloaded"
#define ERROR_QUOTA LLMSVC_ERROR_PREFIX "QuotaExceeded"

typedef struct
{
  BenchSloServer server;
  BenchBus *bus;
  GDBusConnection *apps[BENCH_SLO_N_APPS];
  GCancellable *cancellable;   /* of all calls under way */
  GVariant *bias;              /* a{ud}: no answer ends early */
} Service;

/* One call. */
typedef struct
{
  Service *service;            /* (unowned) */
  BenchSloCall *call;          /* (unowned) */
  GCancellable *cancellable;
  char *text;
  char *path;                  /* (nullable): of its context */
  GInputStream *stream;        /* (nullable) */
  LlmsvcLineReader *lines;
  char buffer[READ_BYTES];
} Job;

static void
job_free (Job *job)
{
  g_object_unref (job->cancellable);
  g_free (job->text);
  g_free (job->path);
  g_clear_object (&job->stream);
  llmsvc_line_reader_free (job->lines);
  g_free (job);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Job, job_free)

static GDBusConnection *
get_connection (Job *job)
{
  return job->service->apps[job->call->arrival.app];
}

/* After this nobody waits for the job, which is the caller's to free. */
static void
end (Job         *job,
     BenchSloEnd  how,
     const char  *message)
{
  if (job->path != NULL)
    g_dbus_connection_call (get_connection (job), LLMSVC_BUS_NAME, job->path,
                            LLMSVC_CONTEXT_INTERFACE, "Close", g_variant_new ("(a{sv})", NULL),
                            NULL, G_DBUS_CALL_FLAGS_NONE, -1, NULL, NULL, NULL);
  bench_slo_call_end (job->call, how, message);
}

static void
end_named (Job        *job,
           const char *name,
           const char *message)
{
  gboolean is_refusal = g_strcmp0 (name, ERROR_OVERLOADED) == 0 ||
                        g_strcmp0 (name, ERROR_QUOTA) == 0;

  end (job, is_refusal ? BENCH_SLO_REFUSED : BENCH_SLO_FAILED, message);
}

/* Of a method that failed; says nothing when the run has left the call. */
static void
end_failed (Job          *job,
            const GError *error)
{
  g_autofree char *name = NULL;

  if (g_cancellable_is_cancelled (job->cancellable))
    return;
  name = g_dbus_error_get_remote_error (error);
  end_named (job, name, error->message);
}

static gboolean
take_number (GVariant   *results,
             const char *key,
             guint      *number)
{
  guint64 value;

  /* all whole numbers of a line */
  if (!g_variant_lookup (results, key, "t", &value))
    return FALSE;
  *number = (guint) value;
  return TRUE;
}

static void
take_results (BenchSloCall *call,
              GVariant     *results)
{
  guint kept;

  take_number (results, "prompt-tokens", &call->n_prompt);
  take_number (results, "output-tokens", &call->n_output);
  take_number (results, "sub-model", &call->sub_model);
  if (take_number (results, "kept-tokens", &kept))
    call->kept = 100 * kept / MAX (1, call->n_prompt + call->n_output);
}

/* FALSE when the call is over. */
static gboolean
take_lines (Job        *job,
            const char *bytes,
            gsize       length)
{
  g_autoptr(GError) error = NULL;
  gboolean goes_on = TRUE;
  LlmsvcLine line;

  if (!llmsvc_line_reader_push (job->lines, bytes, length, &error))
    {
      end (job, BENCH_SLO_FAILED, error->message);
      return FALSE;
    }
  while (goes_on && llmsvc_line_reader_next (job->lines, &line, &error))
    {
      if (line.kind == LLMSVC_LINE_TEXT)
        bench_slo_call_note (job->call);
      else if (line.kind == LLMSVC_LINE_DONE)
        {
          take_results (job->call, line.results);
          end (job, BENCH_SLO_DONE, NULL);
          goes_on = FALSE;
        }
      else if (line.kind == LLMSVC_LINE_ERROR)
        {
          end_named (job, line.name, line.text);
          goes_on = FALSE;
        }
      llmsvc_line_clear (&line);
    }
  if (error != NULL)
    {
      end (job, BENCH_SLO_FAILED, error->message);
      return FALSE;
    }
  return goes_on;
}

static void
on_read (GObject      *source,
         GAsyncResult *result,
         gpointer      data)
{
  g_autoptr(Job) job = data;
  g_autoptr(GError) error = NULL;
  gssize n = g_input_stream_read_finish (G_INPUT_STREAM (source), result, &error);

  if (g_cancellable_is_cancelled (job->cancellable))
    return;
  if (n < 0)
    end (job, BENCH_SLO_FAILED, error->message);
  else if (n == 0)
    end (job, BENCH_SLO_FAILED, "The stream ended without results");
  else if (take_lines (job, job->buffer, (gsize) n))
    {
      g_input_stream_read_async (job->stream, job->buffer, sizeof job->buffer, G_PRIORITY_DEFAULT,
                                 job->cancellable, on_read, job);
      g_steal_pointer (&job);
    }
}

static void
on_generate (GObject      *source,
             GAsyncResult *result,
             gpointer      data)
{
  g_autoptr(Job) job = data;
  g_autoptr(GUnixFDList) fds = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply = g_dbus_connection_call_with_unix_fd_list_finish (
    G_DBUS_CONNECTION (source), &fds, result, &error);
  int fd = reply != NULL && fds != NULL ? g_unix_fd_list_get (fds, 0, &error) : -1;

  if (fd < 0)
    {
      if (error == NULL)
        g_set_error_literal (&error, G_IO_ERROR, G_IO_ERROR_FAILED, "Generate gave no stream");
      end_failed (job, error);
      return;
    }
  job->stream = g_unix_input_stream_new (fd, TRUE);
  if (g_cancellable_is_cancelled (job->cancellable))
    return;
  g_input_stream_read_async (job->stream, job->buffer, sizeof job->buffer, G_PRIORITY_DEFAULT,
                             job->cancellable, on_read, job);
  g_steal_pointer (&job);
}

static GVariant *
make_messages (const char *text)
{
  GVariantBuilder messages;

  g_variant_builder_init (&messages, G_VARIANT_TYPE ("a(ssa{sv})"));
  g_variant_builder_add (&messages, "(ssa{sv})", "user", text, NULL);
  return g_variant_builder_end (&messages);
}

static GVariant *
make_options (Job *job)
{
  const BenchSloArrival *arrival = &job->call->arrival;
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "slo", "s", bench_slo_class_get_name (arrival->slo_class));
  g_variant_dict_insert (&dict, "temperature", "d", 0.0);
  g_variant_dict_insert (&dict, "max-tokens", "u", arrival->n_output);
  g_variant_dict_insert_value (&dict, "logit-bias", job->service->bias);
  return g_variant_dict_end (&dict);
}

static void
on_create (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(Job) job = data;
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result,
                                                             &error);

  if (reply == NULL)
    {
      end_failed (job, error);
      return;
    }
  if (g_cancellable_is_cancelled (job->cancellable))
    return;
  g_variant_get (reply, "(o)", &job->path);
  g_dbus_connection_call_with_unix_fd_list (
    get_connection (job), LLMSVC_BUS_NAME, job->path, LLMSVC_CONTEXT_INTERFACE, "Generate",
    g_variant_new ("(@a(ssa{sv})@a{sv})", make_messages (job->text), make_options (job)),
    G_VARIANT_TYPE ("(oh)"), G_DBUS_CALL_FLAGS_NONE, G_MAXINT, NULL, job->cancellable, on_generate,
    job);
  g_steal_pointer (&job);
}

static void
begin (BenchSloServer *server,
       BenchSloCall   *call,
       const char     *text)
{
  Service *self = (Service *) server;
  Job *job = g_new0 (Job, 1);

  job->service = self;
  job->call = call;
  job->cancellable = g_object_ref (self->cancellable);
  job->text = g_strdup (text);
  job->lines = llmsvc_line_reader_new ();
  g_dbus_connection_call (get_connection (job), LLMSVC_BUS_NAME, LLMSVC_PATH, LLMSVC_INTERFACE,
                          "CreateContext", g_variant_new ("(a{sv})", NULL), G_VARIANT_TYPE ("(o)"),
                          G_DBUS_CALL_FLAGS_NONE, G_MAXINT, job->cancellable, on_create, job);
}

static void
leave (BenchSloServer *server)
{
  Service *self = (Service *) server;

  g_cancellable_cancel (self->cancellable);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_object_unref (self->cancellable);
  self->cancellable = g_cancellable_new ();
}

static gboolean
count (BenchSloServer *server,
       const char     *text,
       guint          *n_tokens,
       GError        **error)
{
  Service *self = (Service *) server;
  g_autoptr(GVariant) reply = g_dbus_connection_call_sync (
    self->apps[0], LLMSVC_BUS_NAME, LLMSVC_PATH, LLMSVC_INTERFACE, "CountTokens",
    g_variant_new ("(@a(ssa{sv})a{sv})", make_messages (text), NULL), G_VARIANT_TYPE ("(u)"),
    G_DBUS_CALL_FLAGS_NONE, START_MS, NULL, error);

  if (reply == NULL)
    return FALSE;
  g_variant_get (reply, "(u)", n_tokens);
  return TRUE;
}

static void
service_free (BenchSloServer *server)
{
  Service *self = (Service *) server;

  for (guint i = 0; i < BENCH_SLO_N_APPS; i++)
    if (self->apps[i] != NULL)
      {
        g_dbus_connection_close_sync (self->apps[i], NULL, NULL);
        g_object_unref (self->apps[i]);
      }
  self->bus->daemon_pid = bench_bus_find_pid (self->bus, LLMSVC_BUS_NAME);
  bench_bus_free (self->bus);
  g_object_unref (self->cancellable);
  g_variant_unref (self->bias);
  g_free (self);
}

/* --- the start --- */

/* What the service compares is the order of calls, not the number of them. */
static gboolean
write_config (const char *folder,
              const char *scheduler,
              gboolean    refuses,
              GError    **error)
{
  g_autofree char *path = g_build_filename (folder, "bench.conf", NULL);
  g_autofree char *text = g_strdup_printf ("[service]\nscheduler=%s\n%s"
                                           "[quota]\ncalls=100000\ncontexts=100000\n"
                                           "tokens=1000000000\nrate=100000\nqueue=100000\n",
                                           scheduler, refuses ? "" : "overload-factor=0\n");

  if (!g_file_set_contents (path, text, -1, error))
    return FALSE;
  /* for the daemon, which the bus starts with this environment */
  g_setenv ("LLMSVC_CONFIG", path, TRUE);
  return TRUE;
}

static GDBusConnection *
connect_app (BenchBus   *bus,
             const char *id,
             GError    **error)
{
  g_autoptr(GDBusConnection) connection = g_dbus_connection_new_for_address_sync (
    g_test_dbus_get_bus_address (bus->dbus),
    G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
    NULL, NULL, error);
  g_autoptr(GVariant) reply = NULL;

  if (connection == NULL)
    return NULL;
  reply = g_dbus_connection_call_sync (connection, LLMSVC_BUS_NAME, LLMSVC_PATH, LLMSVC_INTERFACE,
                                       "Register", g_variant_new ("(sa{sv})", id, NULL), NULL,
                                       G_DBUS_CALL_FLAGS_NONE, START_MS, NULL, error);
  return reply != NULL ? g_steal_pointer (&connection) : NULL;
}

static gboolean
start (Service    *self,
       const char *model,
       GError    **error)
{
  g_autoptr(GVariant) reply = NULL;

  for (guint i = 0; i < BENCH_SLO_N_APPS; i++)
    {
      self->apps[i] = connect_app (self->bus, bench_slo_app_get_id (i), error);
      if (self->apps[i] == NULL)
        return FALSE;
    }
  reply = g_dbus_connection_call_sync (self->apps[0], LLMSVC_BUS_NAME, LLMSVC_PATH,
                                       LLMSVC_INTERFACE, "Prewarm",
                                       g_variant_new ("(a{sv})", NULL), NULL,
                                       G_DBUS_CALL_FLAGS_NONE, START_MS, NULL, error);
  return reply != NULL;
}

BenchSloServer *
bench_slo_service_new (const char *daemon,
                       const char *model,
                       const char *cache,
                       const char *scheduler,
                       gboolean    refuses,
                       GError    **error)
{
  g_autoptr(BenchSloServer) server = NULL;
  g_autoptr(GVariant) bias = bench_endless_make_bias (model, error);
  Service *self;

  if (bias == NULL || !write_config (cache, scheduler, refuses, error))
    return NULL;
  self = g_new0 (Service, 1);
  server = &self->server;
  self->server = (BenchSloServer) { begin, leave, count, service_free };
  self->bias = g_steal_pointer (&bias);
  self->cancellable = g_cancellable_new ();
  self->bus = bench_bus_new (daemon, model, cache);
  if (!start (self, model, error))
    {
      g_prefix_error (error, "The service did not start: ");
      return NULL;
    }
  return g_steal_pointer (&server);
}
