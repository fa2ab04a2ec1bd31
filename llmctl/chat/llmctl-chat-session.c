/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The context of a chat: opened, left, and begun anew when the service lost it. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/chat/llmctl-chat.h"

#include <glib/gi18n.h>

#include "llmctl/bus/llmctl-contexts.h"
#include "llmctl/bus/llmctl-wait.h"

static void
forget_last (LlmctlChat *self)
{
  g_clear_pointer (&self->last_prompt, g_free);
  g_clear_pointer (&self->last_request_id, g_free);
  self->is_last_kept = FALSE;
}

gboolean
llmctl_chat_open (LlmctlChat  *self,
                  const char  *name,
                  GError     **error)
{
  g_autoptr(LlmsvcContext) context = NULL;
  g_autoptr(GError) local_error = NULL;
  gboolean is_old = FALSE;

  if (name != NULL)
    {
      context = llmctl_contexts_open (self->client, name, &local_error);
      is_old = context != NULL;
      if (context == NULL &&
          !g_error_matches (local_error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND))
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return FALSE;
        }
    }
  if (context == NULL)
    context = llmctl_contexts_create (self->client, name, self->system, NULL, NULL, error);
  if (context == NULL)
    return FALSE;

  if (is_old)
    {
      llmctl_chat_note (self, _("“%s” goes on: %u tokens so far"), name,
                        llmsvc_context_get_tokens (context));
      if (self->system != NULL)
        llmctl_complain (_("“%s” is there already with its own system text; yours is left out"),
                         name);
    }
  g_set_object (&self->context, context);
  g_free (self->name);
  self->name = g_strdup (name);
  g_ptr_array_set_size (self->said, 0);
  forget_last (self);
  return TRUE;
}

/* (transfer full) (nullable): what was said, a(ssa{sv}). */
static GVariant *
get_said (LlmctlChat *self)
{
  GVariantBuilder builder;

  if (self->said->len == 0)
    return NULL;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a(ssa{sv})"));
  for (guint i = 0; i < self->said->len; i++)
    {
      LlmsvcMessage *message = g_ptr_array_index (self->said, i);

      g_variant_builder_add (&builder, "(ssa{sv})", llmsvc_message_get_role (message),
                             llmsvc_message_get_text (message), NULL);
    }
  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

gboolean
llmctl_chat_ensure (LlmctlChat  *self,
                    GError     **error)
{
  g_autoptr(LlmsvcContext) context = NULL;
  g_autoptr(GVariant) said = NULL;

  if (self->context != NULL && !llmsvc_context_get_is_closed (self->context))
    return TRUE;

  if (self->name != NULL)
    {
      context = llmctl_contexts_open_or_create (self->client, self->name, NULL, error);
      if (context == NULL)
        return FALSE;
      llmctl_chat_note (self, _("“%s” was closed elsewhere and begins anew"), self->name);
    }
  else
    {
      said = get_said (self);
      context = llmctl_contexts_create (self->client, NULL, self->system, said, NULL, error);
      if (context == NULL)
        return FALSE;
      llmctl_chat_note (self, _("The service was restarted; the conversation goes on from what "
                                "was said here"));
    }

  g_set_object (&self->context, context);
  return TRUE;
}

gboolean
llmctl_chat_undo (LlmctlChat  *self,
                  guint        n_turns,
                  GError     **error)
{
  g_autoptr(GAsyncResult) result = NULL;

  if (!llmctl_chat_ensure (self, error))
    return FALSE;
  llmsvc_context_rollback_async (self->context, n_turns, NULL, llmctl_wait_get_cancellable (),
                                 llmctl_wait_take, &result);
  if (!llmsvc_context_rollback_finish (self->context, llmctl_wait (&result), error))
    return FALSE;

  g_ptr_array_set_size (self->said, (int) (self->said->len - MIN (self->said->len, 2 * n_turns)));
  if (n_turns > 1 || !self->is_last_kept)
    forget_last (self);
  self->is_last_kept = FALSE;
  g_clear_pointer (&self->last_request_id, g_free);
  return TRUE;
}

static void
on_names_read (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  g_autoptr(GPtrArray) names = data;
  g_autoptr(GPtrArray) contexts = NULL;

  contexts = llmsvc_client_list_contexts_finish (LLMSVC_CLIENT (source), result, NULL);
  if (contexts == NULL)
    return;

  g_ptr_array_set_size (names, 0);
  for (guint i = 0; i < contexts->len; i++)
    {
      const char *name = llmsvc_context_get_name (g_ptr_array_index (contexts, i));

      if (*name != '\0')
        g_ptr_array_add (names, g_strdup (name));
    }
}

void
llmctl_chat_read_names (LlmctlChat *self)
{
  llmsvc_client_list_contexts_async (self->client, NULL, on_names_read,
                                     g_ptr_array_ref (self->context_names));
}
