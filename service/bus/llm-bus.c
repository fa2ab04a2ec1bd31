/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/llm-bus.h"

#include "bus/identity/llm-bus-caller.h"
#include "bus/limits/llm-bus-relay.h"
#include "common/llmsvc-names.h"

/* A context that connections have in use. */
typedef struct
{
  LlmContext *context;      /* (owned) */
  gulong handler;
  GHashTable *connections;  /* (element-type utf8) (owned): a set of unique names */
} Hold;

static void
hold_free (gpointer data)
{
  Hold *hold = data;

  g_signal_handler_disconnect (hold->context, hold->handler);
  g_object_unref (hold->context);
  g_hash_table_unref (hold->connections);
  g_free (hold);
}

LlmBus *
llm_bus_new (void)
{
  LlmBus *self = g_atomic_rc_box_new0 (LlmBus);

  self->holds = g_hash_table_new_full (NULL, NULL, NULL, hold_free);
  llm_bus_bucket_set_rate (&self->trims, 1, LLM_BUS_TRIM_BURST);
  return self;
}

LlmBus *
llm_bus_ref (LlmBus *self)
{
  return g_atomic_rc_box_acquire (self);
}

static void
clear_bus (gpointer data)
{
  LlmBus *self = data;

  g_hash_table_unref (self->holds);
  g_clear_pointer (&self->callers, llm_bus_callers_free);
  if (self->gate != NULL)
    llm_bus_relay_set_gate (self->connection, NULL);
  g_clear_pointer (&self->gate, llm_bus_gate_free);
  g_clear_object (&self->engine);
  g_clear_object (&self->connection);
}

void
llm_bus_unref (LlmBus *self)
{
  g_atomic_rc_box_release_full (self, clear_bus);
}

/* --- contexts in use --- */

char *
llm_bus_dup_context_path (LlmContext *context)
{
  return g_strconcat (LLMSVC_CONTEXTS_PATH "/", context->id, NULL);
}

static void
on_closed (LlmContext *context,
           const char *reason,
           LlmBus     *self)
{
  g_autofree char *path = llm_bus_dup_context_path (context);
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
llm_bus_hold_context (LlmBus     *self,
                      LlmContext *context,
                      const char *connection)
{
  Hold *hold = g_hash_table_lookup (self->holds, context);

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
llm_bus_forget (LlmBus     *self,
                const char *connection)
{
  GHashTableIter iter;
  Hold *hold;

  g_hash_table_iter_init (&iter, self->holds);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &hold))
    {
      g_hash_table_remove (hold->connections, connection);
      if (g_hash_table_size (hold->connections) == 0)
        g_hash_table_iter_remove (&iter);
    }
  llm_engine_caller_gone (self->engine, connection);
}

void
llm_bus_emit_properties_changed (LlmBus     *self,
                                 const char *interface,
                                 GVariant   *changed)
{
  g_dbus_connection_emit_signal (self->connection, NULL, LLMSVC_PATH,
                                 "org.freedesktop.DBus.Properties", "PropertiesChanged",
                                 g_variant_new ("(s@a{sv}@as)", interface, changed,
                                                g_variant_new_strv (NULL, 0)),
                                 NULL);
}
