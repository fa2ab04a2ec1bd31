/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-contexts.h"

#include <gio/gunixfdlist.h>
#include <glib/gstdio.h>

#include "bus/identity/llm-bus-bouncer.h"
#include "bus/objects/llm-bus-context-memory.h"
#include "bus/objects/llm-bus-generations.h"
#include "bus/objects/llm-bus-messages.h"
#include "bus/stream/llm-bus-stream.h"
#include "common/llmsvc-error.h"
#include "common/llmsvc-names.h"

struct _LlmBusContexts
{
  GObject parent_instance;

  GDBusConnection *connection;
  GHashTable *holds;  /* (element-type LlmContext Hold) (owned) */
};

typedef struct
{
  LlmContext *context;      /* (owned) */
  gulong handler;
  GHashTable *connections;  /* (element-type utf8) (owned): a set of unique names */
} Hold;

G_DEFINE_FINAL_TYPE (LlmBusContexts, llm_bus_contexts, G_TYPE_OBJECT)

static void
hold_free (gpointer data)
{
  Hold *hold = data;

  g_signal_handler_disconnect (hold->context, hold->handler);
  g_object_unref (hold->context);
  g_hash_table_unref (hold->connections);
  g_free (hold);
}

static void
llm_bus_contexts_finalize (GObject *object)
{
  LlmBusContexts *self = LLM_BUS_CONTEXTS (object);

  g_hash_table_unref (self->holds);
  g_object_unref (self->connection);

  G_OBJECT_CLASS (llm_bus_contexts_parent_class)->finalize (object);
}

static void
llm_bus_contexts_class_init (LlmBusContextsClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = llm_bus_contexts_finalize;
}

static void
llm_bus_contexts_init (LlmBusContexts *self)
{
  self->holds = g_hash_table_new_full (NULL, NULL, NULL, hold_free);
}

LlmBusContexts *
llm_bus_contexts_new (GDBusConnection *connection)
{
  LlmBusContexts *self;

  g_return_val_if_fail (G_IS_DBUS_CONNECTION (connection), NULL);

  self = g_object_new (LLM_TYPE_BUS_CONTEXTS, NULL);
  self->connection = g_object_ref (connection);
  return self;
}

char *
llm_bus_contexts_dup_path (LlmContext *context)
{
  return g_strconcat (LLMSVC_CONTEXTS_PATH "/", llm_context_get_id (context), NULL);
}

static void
on_closed (LlmContext     *context,
           const char     *reason,
           LlmBusContexts *self)
{
  g_autofree char *path = llm_bus_contexts_dup_path (context);
  Hold *hold = g_hash_table_lookup (self->holds, context);
  GHashTableIter iter;
  gpointer name;

  g_return_if_fail (hold != NULL);

  g_hash_table_iter_init (&iter, hold->connections);
  while (g_hash_table_iter_next (&iter, &name, NULL))
    g_dbus_connection_emit_signal (self->connection, name, path, LLMSVC_CONTEXT_INTERFACE, "Closed",
                                   g_variant_new ("(s)", reason), NULL);

  g_hash_table_remove (self->holds, context);
}

void
llm_bus_contexts_hold (LlmBusContexts *self,
                       LlmContext     *context,
                       const char     *connection)
{
  Hold *hold;

  g_return_if_fail (LLM_IS_BUS_CONTEXTS (self));

  hold = g_hash_table_lookup (self->holds, context);
  if (hold == NULL)
    {
      hold = g_new0 (Hold, 1);
      hold->context = g_object_ref (context);
      hold->connections = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
      hold->handler = g_signal_connect (context, "closed", G_CALLBACK (on_closed), self);
      g_hash_table_insert (self->holds, context, hold);
    }

  g_hash_table_add (hold->connections, g_strdup (connection));
}

void
llm_bus_contexts_forget_holder (LlmBusContexts *self,
                                const char     *connection)
{
  GHashTableIter iter;
  gpointer value;

  g_return_if_fail (LLM_IS_BUS_CONTEXTS (self));

  g_hash_table_iter_init (&iter, self->holds);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      Hold *hold = value;

      g_hash_table_remove (hold->connections, connection);
      if (g_hash_table_size (hold->connections) == 0)
        g_hash_table_iter_remove (&iter);
    }
}

static GVariant *
get_name (LlmBus  *bus,
          gpointer object)
{
  return g_variant_new_string (llm_context_get_name (object));
}

static GVariant *
get_tokens (LlmBus  *bus,
            gpointer object)
{
  return g_variant_new_uint32 (llm_context_get_tokens (object));
}

static GVariant *
get_revision (LlmBus  *bus,
              gpointer object)
{
  return g_variant_new_uint64 (llm_context_get_revision (object));
}

static GVariant *
get_residency (LlmBus  *bus,
               gpointer object)
{
  return g_variant_new_string (llm_context_get_residency (object));
}

static void
on_generating (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  g_autoptr(LlmBusCall) call = data;
  g_autoptr(LlmGeneration) generation = NULL;
  g_autoptr(GUnixFDList) fds = NULL;
  g_autofree char *path = NULL;
  GError *error = NULL;

  generation = llm_context_generate_finish (LLM_CONTEXT (source), result, &error);
  if (generation == NULL)
    {
      llm_bus_call_return_error (call, error);
      return;
    }

  /* the list takes the descriptor over */
  fds = g_unix_fd_list_new_from_array (&call->fd, 1);
  call->fd = -1;
  path = llm_bus_generations_dup_path (generation);
  llm_bus_call_return_fds (call, g_variant_new ("(oh)", path, 0), fds);
}

static void
handle_generate (LlmBusCall *call)
{
  g_autoptr(GVariant) messages = g_variant_get_child_value (call->arguments, 0);
  g_autoptr(LlmSink) sink = NULL;
  GError *error = NULL;
  gboolean is_text;

  if (!llm_bus_messages_check (messages, NULL, call->options,
                               llm_bus_call_get_max_message (call), &error))
    {
      llm_bus_call_return_error (call, error);
      return;
    }
  if ((g_dbus_connection_get_capabilities (call->bus->connection) &
       G_DBUS_CAPABILITY_FLAGS_UNIX_FD_PASSING) == 0)
    {
      error = g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED,
                                   "This bus passes no file descriptors; use Ask");
      llm_bus_call_return_error (call, error);
      return;
    }

  is_text = g_str_equal (llm_call_options_get_string (call->options, LLMSVC_OPTION_STREAM, "jsonl"),
                         "text");
  sink = llm_bus_stream_new (call->caller, is_text, call->bus->translator,
                             llm_bus_call_get_locale (call), call->bus->stall_timeout_s, &call->fd,
                             &error);
  if (sink == NULL)
    {
      llm_bus_call_return_error (call, error);
      return;
    }

  llm_context_generate_async (call->object, call->caller, messages, call->options, sink,
                              on_generating, llm_bus_call_ref (call));
}

/* The reply is the sink's, unless the answer is not admitted. */
static void
on_asking (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(LlmBusCall) call = data;
  g_autoptr(LlmGeneration) generation = NULL;
  GError *error = NULL;

  generation = llm_context_generate_finish (LLM_CONTEXT (source), result, &error);
  if (generation == NULL)
    llm_bus_call_return_error (call, error);
}

static void
handle_ask (LlmBusCall *call)
{
  g_autoptr(GVariant) messages = NULL;
  g_autoptr(LlmSink) sink = NULL;
  GVariantBuilder builder;
  const char *prompt;
  GError *error = NULL;

  g_variant_get_child (call->arguments, 0, "&s", &prompt);
  if (!llm_bus_messages_check (NULL, prompt, call->options,
                               llm_bus_call_get_max_message (call), &error))
    {
      llm_bus_call_return_error (call, error);
      return;
    }

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a(ssa{sv})"));
  g_variant_builder_add (&builder, "(ssa{sv})", "user", prompt, NULL);
  messages = g_variant_ref_sink (g_variant_builder_end (&builder));

  sink = llm_bus_call_new_sink (call);
  llm_context_generate_async (call->object, call->caller, messages, call->options, sink, on_asking,
                              llm_bus_call_ref (call));
}

static void
on_messages_read (GObject      *source,
                  GAsyncResult *result,
                  gpointer      data)
{
  g_autoptr(LlmBusCall) call = data;
  g_autoptr(GVariant) messages = NULL;
  GError *error = NULL;

  messages = llm_context_get_messages_finish (LLM_CONTEXT (source), result, &error);
  if (messages == NULL)
    llm_bus_call_return_error (call, error);
  else
    llm_bus_call_return (call, g_variant_new ("(@a(ssa{sv}))", messages));
}

static void
handle_get_messages (LlmBusCall *call)
{
  guint32 first, count;

  g_variant_get_child (call->arguments, 0, "u", &first);
  g_variant_get_child (call->arguments, 1, "u", &count);
  llm_context_get_messages_async (call->object, first, count, on_messages_read,
                                  llm_bus_call_ref (call));
}

static void
on_rolled_back (GObject      *source,
                GAsyncResult *result,
                gpointer      data)
{
  g_autoptr(LlmBusCall) call = data;
  GError *error = NULL;

  if (!llm_context_rollback_finish (LLM_CONTEXT (source), result, &error))
    llm_bus_call_return_error (call, error);
  else
    llm_bus_call_return (call, NULL);
}

static void
handle_rollback (LlmBusCall *call)
{
  guint32 turns;

  g_variant_get_child (call->arguments, 0, "u", &turns);
  llm_context_rollback_async (call->object, turns, call->options, on_rolled_back,
                              llm_bus_call_ref (call));
}

static void
on_appended (GObject      *source,
             GAsyncResult *result,
             gpointer      data)
{
  g_autoptr(LlmBusCall) call = data;
  GError *error = NULL;
  guint tokens = 0;

  if (!llm_context_append_finish (LLM_CONTEXT (source), result, &tokens, &error))
    llm_bus_call_return_error (call, error);
  else
    llm_bus_call_return (call, g_variant_new ("(u)", tokens));
}

static void
handle_append (LlmBusCall *call)
{
  g_autoptr(GVariant) messages = g_variant_get_child_value (call->arguments, 0);
  GError *error = NULL;

  if (!llm_bus_messages_check (messages, NULL, call->options,
                               llm_bus_call_get_max_message (call), &error))
    {
      llm_bus_call_return_error (call, error);
      return;
    }

  llm_context_append_async (call->object, call->caller, messages, call->options, on_appended,
                            llm_bus_call_ref (call));
}

static void
on_forked (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(LlmBusCall) call = data;
  g_autoptr(LlmContext) fork = NULL;
  g_autofree char *path = NULL;
  GError *error = NULL;

  fork = llm_context_fork_finish (LLM_CONTEXT (source), result, &error);
  if (fork == NULL)
    {
      llm_bus_call_return_error (call, error);
      return;
    }

  llm_bus_contexts_hold (call->bus->contexts, fork, call->caller->connection);
  path = llm_bus_contexts_dup_path (fork);
  llm_bus_call_return (call, g_variant_new ("(o)", path));
}

static void
handle_fork (LlmBusCall *call)
{
  GError *error = NULL;

  if (!llm_bus_messages_check (NULL, NULL, call->options,
                               llm_bus_call_get_max_message (call), &error) ||
      (llm_call_options_has (call->options, LLMSVC_OPTION_NAME) &&
       !llm_bus_bouncer_may_keep (call->bus->bouncer, call->caller, &error)))
    {
      llm_bus_call_return_error (call, error);
      return;
    }

  llm_context_fork_async (call->object, call->caller, call->options, on_forked,
                          llm_bus_call_ref (call));
}

static void
on_close_done (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  g_autoptr(LlmBusCall) call = data;
  GError *error = NULL;

  if (!llm_context_close_finish (LLM_CONTEXT (source), result, &error))
    llm_bus_call_return_error (call, error);
  else
    llm_bus_call_return (call, NULL);
}

static void
handle_close (LlmBusCall *call)
{
  llm_context_close_async (call->object, on_close_done, llm_bus_call_ref (call));
}

static const LlmBusMethod methods[] = {
  { "Generate", LLMSVC_CALL_GENERATE, handle_generate },
  { "Ask", LLMSVC_CALL_ASK, handle_ask },
  { "GetMessages", LLMSVC_CALL_GET_MESSAGES, handle_get_messages },
  { "GetMemory", LLMSVC_CALL_GET_MEMORY, llm_bus_context_memory_handle },
  { "Rollback", LLMSVC_CALL_ROLLBACK, handle_rollback },
  { "Append", LLMSVC_CALL_APPEND, handle_append },
  { "Fork", LLMSVC_CALL_FORK, handle_fork },
  { "Close", LLMSVC_CALL_CLOSE, handle_close },
  { NULL },
};

static const LlmBusProperty properties[] = {
  { "Name", get_name },
  { "Tokens", get_tokens },
  { "Revision", get_revision },
  { "Residency", get_residency },
  { NULL },
};

static const LlmBusInterface interface = { LLMSVC_CONTEXT_INTERFACE, methods, properties };

static GObject *
lookup_context (LlmBus     *bus,
                LlmCaller  *caller,
                const char *id)
{
  LlmContext *context = llm_engine_lookup_context (bus->engine, caller, id);

  if (context == NULL)
    return NULL;

  llm_bus_contexts_hold (bus->contexts, context, caller->connection);
  return G_OBJECT (g_object_ref (context));
}

static GStrv
list_contexts (LlmBus    *bus,
               LlmCaller *caller)
{
  g_autoptr(GPtrArray) contexts = llm_engine_get_contexts (bus->engine, caller);
  g_autoptr(GStrvBuilder) ids = g_strv_builder_new ();

  for (guint i = 0; i < contexts->len; i++)
    g_strv_builder_add (ids, llm_context_get_id (g_ptr_array_index (contexts, i)));

  return g_strv_builder_end (ids);
}

const LlmBusTreeKind llm_bus_contexts_tree = {
  .path = LLMSVC_CONTEXTS_PATH,
  .interface = &interface,
  .with_contexts = TRUE,
  .lookup = lookup_context,
  .list = list_contexts,
};
