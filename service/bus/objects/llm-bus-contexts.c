/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-objects.h"

#include <gio/gunixfdlist.h>

#include "base/llm-fail.h"
#include "bus/identity/llm-bus-bouncer.h"
#include "bus/stream/llm-bus-stream.h"
#include "common/llmsvc-names.h"

/* --- contexts --- */

static GVariant *
list_context_properties (LlmBus  *bus,
                         gpointer object)
{
  LlmContext *context = object;

  return g_variant_new_parsed ("{'Name': <%s>, 'Tokens': <%u>, 'Revision': <%t>, "
                               "'Residency': <%s>, 'Exact': <%b>}",
                               context->name, llm_context_get_tokens (context), context->revision,
                               llm_context_get_residency (context),
                               (context->traits & LLM_CONTEXT_EXACT) != 0);
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

  generation = g_task_propagate_pointer (G_TASK (result), &error);
  if (generation == NULL)
    {
      llm_bus_call_return_error (call, error);
      return;
    }

  /* the list takes ownership of the descriptor */
  fds = g_unix_fd_list_new_from_array (&call->fd, 1);
  call->fd = -1;
  path = g_strconcat (LLMSVC_GENERATIONS_PATH "/", llm_generation_get_id (generation), NULL);
  llm_bus_call_return_fds (call, g_variant_new ("(oh)", path, 0), fds);
}

static gboolean
handle_generate (LlmBusCall *call,
                 GError    **error)
{
  g_autoptr(LlmSink) sink = NULL;
  gboolean is_text;

  if ((g_dbus_connection_get_capabilities (call->bus->connection) &
       G_DBUS_CAPABILITY_FLAGS_UNIX_FD_PASSING) == 0)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "This bus passes no file descriptors; use Ask");

  is_text = g_str_equal (llm_call_options_get_string (call->options, LLMSVC_OPTION_STREAM, "jsonl"),
                         "text");
  if (is_text && llm_call_options_has (call->options, LLMSVC_OPTION_LOGPROBS))
    return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                     "logprobs: a stream of text alone has no place for them; use “jsonl”");
  sink = llm_bus_stream_new (call->caller, is_text, llm_bus_call_get_locale (call),
                             call->bus->stall_timeout_s, &call->fd, error);
  if (sink == NULL)
    return FALSE;

  llm_context_generate_async (call->object, call->caller, call->messages, call->options, sink,
                              on_generating, llm_bus_call_ref (call));
  return TRUE;
}

static gboolean
handle_ask (LlmBusCall *call,
            GError    **error)
{
  /* without text, Ask can continue the last answer */
  gboolean asks_nothing =
    *call->text == '\0'
    && llm_call_options_get_boolean (call->options, LLMSVC_OPTION_CONTINUE, FALSE);
  g_autoptr(GVariant) messages = g_variant_ref_sink (
    asks_nothing ? g_variant_new ("a(ssa{sv})", NULL)
                 : g_variant_new_parsed ("[('user', %s, @a{sv} {})]", call->text));
  g_autoptr(LlmSink) sink = llm_bus_call_new_sink (call);

  llm_context_generate_async (call->object, call->caller, messages, call->options, sink,
                              llm_bus_call_on_admitted, llm_bus_call_ref (call));
  return TRUE;
}

static gboolean
handle_get_messages (LlmBusCall *call,
                     GError    **error)
{
  guint32 first, count;

  g_variant_get (call->arguments, "(uu@a{sv})", &first, &count, NULL);
  llm_context_get_messages_async (call->object, first, count, llm_bus_call_on_variant,
                                  llm_bus_call_ref (call));
  return TRUE;
}

static gboolean
handle_rollback (LlmBusCall *call,
                 GError    **error)
{
  guint32 turns;

  g_variant_get_child (call->arguments, 0, "u", &turns);
  llm_context_rollback_async (call->object, turns, call->options, llm_bus_call_on_done,
                              llm_bus_call_ref (call));
  return TRUE;
}

static gboolean
handle_append (LlmBusCall *call,
               GError    **error)
{
  llm_context_append_async (call->object, call->caller, call->messages, call->options,
                            llm_bus_call_on_count, llm_bus_call_ref (call));
  return TRUE;
}

static gboolean
handle_fork (LlmBusCall *call,
             GError    **error)
{
  if (llm_call_options_has (call->options, LLMSVC_OPTION_NAME) &&
      !llm_bus_bouncer_may_keep (call->caller, error))
    return FALSE;
  llm_context_fork_async (call->object, call->caller, call->options, llm_bus_call_on_context,
                          llm_bus_call_ref (call));
  return TRUE;
}

static gboolean
handle_close (LlmBusCall *call,
              GError    **error)
{
  llm_context_close_async (call->object, llm_bus_call_on_done, llm_bus_call_ref (call));
  return TRUE;
}

/* (transfer floating): an a{ut} without zero entries, and their sum. */
static GVariant *
describe_bytes (const guint64 *bytes,
                guint64       *sum)
{
  GVariantBuilder builder;

  *sum = 0;
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{ut}"));
  for (guint i = 0; i < LLM_CONTEXT_N_BITS; i++)
    {
      *sum += bytes[i];
      if (bytes[i] > 0)
        g_variant_builder_add (&builder, "{ut}", (guint32) llm_context_bits[i], bytes[i]);
    }

  return g_variant_builder_end (&builder);
}

GVariant *
llm_bus_contexts_describe_memory (const LlmContextMemory *memory)
{
  GVariant *bits = g_variant_new_fixed_array (G_VARIANT_TYPE_BYTE, memory->bits, memory->n_chunks,
                                              sizeof *memory->bits);
  guint64 n_memory, n_storage;
  GVariant *in_memory = describe_bytes (memory->memory_bytes, &n_memory);
  GVariant *in_storage = describe_bytes (memory->storage_bytes, &n_storage);

  return g_variant_new_parsed (
    "{'residency': <%s>, 'chunk-tokens': <%u>, 'tokens': <%u>, 'bits': <%@ay>, 'places': <%s>, "
    "'shared-chunks': <%u>, 'memory-bytes': <%t>, 'memory-bytes-by-bits': <%@a{ut}>, "
    "'storage-bytes': <%t>, 'storage-bytes-by-bits': <%@a{ut}>}",
    memory->residency, (guint32) memory->chunk_tokens, (guint32) memory->tokens, bits,
    memory->n_chunks > 0 ? memory->places : "", (guint32) memory->n_shared_chunks, n_memory,
    in_memory, (guint64) memory->folder_bytes, in_storage);
}

static void
on_memory (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  GError *error = NULL;
  g_autoptr(LlmContextMemory) memory =
    g_task_propagate_pointer (G_TASK (result), &error);
  GVariant *described = memory != NULL ? llm_bus_contexts_describe_memory (memory) : NULL;

  llm_bus_call_finish (data, memory != NULL ? g_variant_new ("(@a{sv})", described) : NULL, error);
}

static gboolean
handle_get_memory (LlmBusCall *call,
                   GError    **error)
{
  llm_context_get_memory_async (call->object, on_memory, llm_bus_call_ref (call));
  return TRUE;
}

static const LlmBusMethod context_methods[] = {
  { "Generate", LLMSVC_CALL_GENERATE, handle_generate, LLM_BUS_EVERYONE },
  { "Ask", LLMSVC_CALL_ASK, handle_ask, LLM_BUS_EVERYONE },
  { "GetMessages", LLMSVC_CALL_GET_MESSAGES, handle_get_messages, LLM_BUS_EVERYONE },
  { "GetMemory", LLMSVC_CALL_GET_MEMORY, handle_get_memory, LLM_BUS_EVERYONE },
  { "Rollback", LLMSVC_CALL_ROLLBACK, handle_rollback, LLM_BUS_EVERYONE },
  { "Append", LLMSVC_CALL_APPEND, handle_append, LLM_BUS_EVERYONE },
  { "Fork", LLMSVC_CALL_FORK, handle_fork, LLM_BUS_EVERYONE },
  { "Close", LLMSVC_CALL_CLOSE, handle_close, LLM_BUS_EVERYONE },
  { NULL },
};

static const LlmBusInterface context_interface = { LLMSVC_CONTEXT_INTERFACE, context_methods,
                                                   list_context_properties };

static const char *
get_context_id (gpointer object)
{
  return ((const LlmContext *) object)->id;
}

const LlmBusTreeKind llm_bus_contexts_tree = {
  .path = LLMSVC_CONTEXTS_PATH,
  .interface = &context_interface,
  .is_contexts = TRUE,
  .lookup = (gpointer (*) (LlmEngine *, LlmCaller *, const char *)) llm_engine_lookup_context,
  .list = llm_engine_get_contexts,
  .get_id = get_context_id,
};

/* --- answers --- */

static GVariant *
list_generation_properties (LlmBus  *bus,
                            gpointer object)
{
  return g_variant_new_parsed (
    "{'State': <%s>}", llm_generation_state_to_string (llm_generation_get_state (object)));
}

static gboolean
handle_cancel (LlmBusCall *call,
               GError    **error)
{
  llm_generation_cancel_async (call->object, llm_bus_call_on_done, llm_bus_call_ref (call));
  return TRUE;
}

static const LlmBusMethod generation_methods[] = {
  { "Cancel", LLMSVC_CALL_CANCEL, handle_cancel, LLM_BUS_EVERYONE },
  { NULL },
};

static const LlmBusInterface generation_interface = { LLMSVC_GENERATION_INTERFACE,
                                                      generation_methods,
                                                      list_generation_properties };

const LlmBusTreeKind llm_bus_generations_tree = {
  .path = LLMSVC_GENERATIONS_PATH,
  .interface = &generation_interface,
  .lookup = (gpointer (*) (LlmEngine *, LlmCaller *, const char *)) llm_engine_lookup_generation,
  .list = llm_engine_get_generations,
  .get_id = (const char *(*) (gpointer)) llm_generation_get_id,
};
