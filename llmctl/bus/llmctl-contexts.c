/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-contexts.h"

#include <glib/gi18n.h>

#include "llmctl/output/llmctl-progress.h"

LlmsvcContext *
llmctl_contexts_open (LlmsvcClient  *client,
                      const char    *name,
                      GError       **error)
{
  GError *local_error = NULL;
  LlmsvcContext *context = llmsvc_client_open_context_sync (
    client, name, NULL, llmctl_wait_get_cancellable (), &local_error);

  /* the service's own words are for programs, which have an option for that */
  if (g_error_matches (local_error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND))
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND,
                   _("There is no context named “%s”: “llmctl context list” lists them, “llmctl "
                     "context new %s” makes one"), name, name);
      g_error_free (local_error);
    }
  else if (local_error != NULL)
    {
      g_propagate_error (error, local_error);
    }
  return context;
}

/* An option of a context that is made would be lost on one that is there, and so would what it was
 * asked for: an answer from memory that lost no bits. */
static gboolean
check_exact (LlmsvcContext *context,
             const char    *name,
             LlmsvcOptions *options,
             GError       **error)
{
  GVariant *wanted = options != NULL ? llmsvc_options_get_value (options, "exact") : NULL;

  if (wanted == NULL || g_variant_get_boolean (wanted) == llmsvc_context_get_is_exact (context))
    return TRUE;
  return llmctl_set_invalid (
    error,
    g_variant_get_boolean (wanted)
      ? _("The context “%s” is there already and is not exact; leave the option “exact” out or take "
          "another name")
      : _("The context “%s” is there already and is exact; leave the option “exact” out or take "
          "another name"), name);
}

LlmsvcContext *
llmctl_contexts_open_as (LlmsvcClient  *client,
                         const char    *name,
                         LlmsvcOptions *options,
                         GError       **error)
{
  g_autoptr(LlmsvcContext) context = llmctl_contexts_open (client, name, error);

  if (context == NULL || !check_exact (context, name, options, error))
    return NULL;
  return g_steal_pointer (&context);
}

LlmsvcContext *
llmctl_contexts_create (LlmsvcClient   *client,
                        const char     *name,
                        const char     *system,
                        GVariant       *messages,
                        LlmsvcOptions  *options,
                        GError        **error)
{
  g_autoptr(LlmsvcOptions) all = options != NULL ? llmsvc_options_copy (options)
                                                 : llmsvc_options_new ();

  if (name != NULL &&
      !llmsvc_options_set_value (all, "name", g_variant_new_string (name), error))
    return NULL;
  if (system != NULL &&
      !llmsvc_options_set_value (all, "system", g_variant_new_string (system), error))
    return NULL;
  if (messages != NULL && !llmsvc_options_set_value (all, "messages", messages, error))
    return NULL;

  /* The service counts the tokens of these with the model. */
  if (system != NULL || messages != NULL)
    llmctl_progress_await_model (client);
  return llmsvc_client_create_context_sync (client, all, llmctl_wait_get_cancellable (), error);
}

LlmsvcContext *
llmctl_contexts_open_or_create (LlmsvcClient  *client,
                                const char    *name,
                                const char    *system,
                                LlmsvcOptions *options,
                                GError       **error)
{
  g_autoptr(GError) local_error = NULL;
  g_autoptr(LlmsvcContext) context = llmctl_contexts_open_as (client, name, options, &local_error);

  if (g_error_matches (local_error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND))
    return llmctl_contexts_create (client, name, system, NULL, options, error);
  if (context == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return NULL;
    }
  if (system != NULL)
    return llmctl_set_invalid_null (
        error, _("The context “%s” is there already with its own system text; leave --system "
                 "out or take another name"), name);

  return g_steal_pointer (&context);
}
