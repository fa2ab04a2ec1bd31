/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Contexts, made and found by the client. */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "client/llmsvc-client-private.h"

#include <glib/gi18n-lib.h>

#include "calls/llmsvc-make.h"
#include "common/llmsvc-names.h"
#include "context/llmsvc-context-private.h"
#include "llmsvc-error.h"
#include "values/llmsvc-answer-private.h"
#include "values/llmsvc-message-private.h"
#include "values/llmsvc-options-private.h"

static const LlmsvcCallInfo create_info = {
  LLMSVC_PATH, LLMSVC_INTERFACE, "CreateContext", "(o)", LLMSVC_CALL_NONE,
};

static const LlmsvcCallInfo open_info = {
  LLMSVC_PATH, LLMSVC_INTERFACE, "OpenContext", "(o)", LLMSVC_CALL_REPEAT,
};

/* --- create --- */

static void
on_created (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  g_autoptr(GTask) task = data;
  const char *name = g_task_get_task_data (task);
  g_autoptr(LlmsvcReply) made = NULL;
  GError *error = NULL;

  made = llmsvc_make_finish (result, NULL, &error);
  if (made != NULL)
    {
      llmsvc_context_return (task, g_task_get_source_object (task), made, name);
      return;
    }

  if (name != NULL && error->code == LLMSVC_ERROR_LOST)
    {
      g_clear_error (&error);
      g_set_error (&error, LLMSVC_ERROR, LLMSVC_ERROR_LOST_UNKNOWN,
                   _("The service went away before it answered. The context “%s” may be there: "
                     "open it to find out"), name);
    }
  g_task_return_error (task, error);
}

/**
 * llmsvc_client_create_context_async:
 * @self: a client
 * @options: (nullable): options, such as `name`, `system`, `messages`, `max-tokens` and `slo`
 * @cancellable: (nullable): to stop; a context without a name that comes too late is closed
 * @callback: (scope async): called when it is made or not
 * @user_data: for @callback
 *
 * Makes a new context. With the option `name` it is kept until it is closed; without, it ends
 * with the object. With `system` or `messages` the call waits for the model to count them.
 *
 * Since: 0.1
 */
void
llmsvc_client_create_context_async (LlmsvcClient        *self,
                                    LlmsvcOptions       *options,
                                    GCancellable        *cancellable,
                                    GAsyncReadyCallback  callback,
                                    gpointer             user_data)
{
  g_autoptr(GTask) task = NULL;
  LlmsvcCallInfo info = create_info;
  GVariant *taken;
  GError *error = NULL;
  const char *name;

  g_return_if_fail (LLMSVC_IS_CLIENT (self));
  g_return_if_fail (self->peer != NULL);

  task =
    llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_client_create_context_async);
  taken = llmsvc_options_take (options, &error);
  if (taken == NULL)
    {
      g_task_return_error (task, error);
      return;
    }

  name = llmsvc_options_get_string (options, LLMSVC_OPTION_NAME);
  g_task_set_task_data (task, g_strdup (name), g_free);
  /* an unnamed one went with the service, if it was made at all */
  info.flags = name == NULL ? LLMSVC_CALL_REPEAT : LLMSVC_CALL_NONE;
  llmsvc_make_async (self->peer, &info, g_variant_new ("(@a{sv})", taken), name != NULL,
                     cancellable, on_created, g_steal_pointer (&task));
}

/**
 * llmsvc_client_create_context_finish:
 * @self: a client
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR, such as %LLMSVC_ERROR_ALREADY_EXISTS,
 *   %LLMSVC_ERROR_QUOTA_EXCEEDED or %LLMSVC_ERROR_CONTEXT_FULL; %LLMSVC_ERROR_LOST_UNKNOWN when
 *   the service went away before it said whether a named one is made
 *
 * Ends llmsvc_client_create_context_async().
 *
 * Returns: (transfer full): the context
 *
 * Since: 0.1
 */
LlmsvcContext *
llmsvc_client_create_context_finish (LlmsvcClient  *self,
                                     GAsyncResult  *result,
                                     GError       **error)
{
  return llmsvc_task_finish (self, result, error);
}

/* --- open --- */

typedef struct
{
  char *name;
  GVariant *open_options;    /* (owned) */
  GVariant *create_options;  /* (nullable) (owned): NULL when it is not to be made */
  guint n_attempts;
} Opening;

static void
opening_free (gpointer data)
{
  Opening *opening = data;

  g_free (opening->name);
  g_clear_pointer (&opening->open_options, g_variant_unref);
  g_clear_pointer (&opening->create_options, g_variant_unref);
  g_free (opening);
}

static void open_context (GTask *task);

/* Another process may have made it meanwhile, or the service that went away has. */
static void
on_created_for_open (GObject      *source,
                     GAsyncResult *result,
                     gpointer      data)
{
  g_autoptr(GTask) task = data;
  Opening *opening = g_task_get_task_data (task);
  g_autoptr(LlmsvcReply) made = NULL;
  g_autoptr(GError) error = NULL;

  made = llmsvc_make_finish (result, NULL, &error);
  if (made != NULL)
    llmsvc_context_return (task, g_task_get_source_object (task), made, opening->name);
  else if (opening->n_attempts == 1 &&
           (error->code == LLMSVC_ERROR_ALREADY_EXISTS || error->code == LLMSVC_ERROR_LOST))
    open_context (task);
  else
    g_task_return_error (task, g_steal_pointer (&error));
}

static void
on_opened (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(GTask) task = data;
  Opening *opening = g_task_get_task_data (task);
  LlmsvcClient *self = g_task_get_source_object (task);
  g_autoptr(LlmsvcReply) reply = NULL;
  g_autoptr(GError) error = NULL;

  reply = llmsvc_call_finish (result, NULL, &error);
  if (reply != NULL)
    llmsvc_context_return (task, self, reply, opening->name);
  else if (error->code == LLMSVC_ERROR_NOT_FOUND && opening->create_options != NULL)
    llmsvc_make_async (self->peer, &create_info,
                       g_variant_new ("(@a{sv})", opening->create_options), TRUE,
                       g_task_get_cancellable (task), on_created_for_open, g_object_ref (task));
  else
    g_task_return_error (task, g_steal_pointer (&error));
}

static void
open_context (GTask *task)
{
  Opening *opening = g_task_get_task_data (task);
  LlmsvcClient *self = g_task_get_source_object (task);

  opening->n_attempts++;
  llmsvc_call_async (self->peer, NULL, &open_info,
                     g_variant_new ("(s@a{sv})", opening->name, opening->open_options),
                     g_task_get_cancellable (task), on_opened, g_object_ref (task));
}

/* The service's OpenContext makes an empty context at most, so that the options a context is
 * made with go to CreateContext. */
static Opening *
begin_opening (const char     *name,
               LlmsvcOptions  *options,
               GError        **error)
{
  g_autoptr(GVariantDict) open = llmsvc_options_begin (options, error);
  g_autoptr(GVariantDict) create = NULL;
  Opening *opening;
  gboolean is_made_with = FALSE;

  if (open == NULL || !llmsvc_text_check (name, "name", error))
    return NULL;

  opening = g_new0 (Opening, 1);
  opening->name = g_strdup (name);
  create = llmsvc_options_begin (options, NULL);
  for (guint i = 0; i < LLMSVC_N_OPTIONS; i++)
    {
      const LlmsvcOptionInfo *info = llmsvc_option_get_info ((LlmsvcOption) i);

      if ((info->calls & LLMSVC_CALL_OPEN_CONTEXT) != 0)
        g_variant_dict_remove (create, info->key);
      else if ((info->calls & LLMSVC_CALL_CREATE_CONTEXT) != 0)
        is_made_with |= g_variant_dict_remove (open, info->key);
    }

  if (llmsvc_options_is_true (options, LLMSVC_OPTION_CREATE) && is_made_with)
    {
      g_variant_dict_remove (open, "create");
      g_variant_dict_insert (create, "name", "s", name);
      opening->create_options = g_variant_ref_sink (g_variant_dict_end (create));
    }
  opening->open_options = g_variant_ref_sink (g_variant_dict_end (open));
  return opening;
}

/**
 * llmsvc_client_open_context_async:
 * @self: a client
 * @name: the name of a context of this app
 * @options: (nullable): options
 * @cancellable: (nullable): to stop waiting; a context that is made stays
 * @callback: (scope async): called when it is open or not
 * @user_data: for @callback
 *
 * Opens a context that is kept under @name. With the option `create` it is made if there is
 * none, with the other options that llmsvc_client_create_context_async() takes.
 *
 * Since: 0.1
 */
void
llmsvc_client_open_context_async (LlmsvcClient        *self,
                                  const char          *name,
                                  LlmsvcOptions       *options,
                                  GCancellable        *cancellable,
                                  GAsyncReadyCallback  callback,
                                  gpointer             user_data)
{
  g_autoptr(GTask) task = NULL;
  Opening *opening;
  GError *error = NULL;

  g_return_if_fail (LLMSVC_IS_CLIENT (self));
  g_return_if_fail (self->peer != NULL);
  g_return_if_fail (name != NULL);

  task =
    llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_client_open_context_async);
  opening = begin_opening (name, options, &error);
  if (opening == NULL)
    {
      g_task_return_error (task, error);
      return;
    }

  g_task_set_task_data (task, opening, opening_free);
  open_context (task);
}

/**
 * llmsvc_client_open_context_finish:
 * @self: a client
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR: %LLMSVC_ERROR_NOT_FOUND when the app
 *   has no context of that name
 *
 * Ends llmsvc_client_open_context_async().
 *
 * Returns: (transfer full): the context
 *
 * Since: 0.1
 */
LlmsvcContext *
llmsvc_client_open_context_finish (LlmsvcClient  *self,
                                   GAsyncResult  *result,
                                   GError       **error)
{
  return llmsvc_task_finish (self, result, error);
}

/* --- list --- */

static void
on_listed (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmsvcClient *self = g_task_get_source_object (task);
  g_autoptr(LlmsvcReply) reply = NULL;
  g_autoptr(GVariantIter) iter = NULL;
  GPtrArray *contexts;
  const char *path;
  GVariant *values;
  GError *error = NULL;

  reply = llmsvc_call_finish (result, NULL, &error);
  if (reply == NULL)
    {
      g_task_return_error (task, error);
      return;
    }

  contexts = g_ptr_array_new_with_free_func (g_object_unref);
  g_variant_get (reply->body, "(a(oa{sv}))", &iter);
  while (g_variant_iter_next (iter, "(&o@a{sv})", &path, &values))
    {
      LlmsvcContext *context = llmsvc_context_new (
        self, path, llmsvc_dict_get_string (values, "Name"), reply->sender, FALSE);

      llmsvc_context_apply (context, values);
      g_ptr_array_add (contexts, context);
      g_variant_unref (values);
    }
  g_task_return_pointer (task, contexts, (GDestroyNotify) g_ptr_array_unref);
}

/**
 * llmsvc_client_list_contexts_async:
 * @self: a client
 * @cancellable: (nullable): to stop
 * @callback: (scope async): called when they are listed
 * @user_data: for @callback
 *
 * Lists the contexts of the app, named or not, of all its processes.
 *
 * Since: 0.1
 */
void
llmsvc_client_list_contexts_async (LlmsvcClient        *self,
                                   GCancellable        *cancellable,
                                   GAsyncReadyCallback  callback,
                                   gpointer             user_data)
{
  GTask *task;
  const LlmsvcCallInfo info = {
    LLMSVC_PATH, LLMSVC_INTERFACE, "ListContexts", "(a(oa{sv}))", LLMSVC_CALL_REPEAT,
  };

  g_return_if_fail (LLMSVC_IS_CLIENT (self));
  g_return_if_fail (self->peer != NULL);

  task =
    llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_client_list_contexts_async);
  llmsvc_call_async (self->peer, NULL, &info,
                     g_variant_new ("(@a{sv})", llmsvc_options_take (NULL, NULL)), cancellable,
                     on_listed, task);
}

/**
 * llmsvc_client_list_contexts_finish:
 * @self: a client
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Ends llmsvc_client_list_contexts_async().
 *
 * Returns: (element-type LlmsvcContext) (transfer container): the contexts; dropping one of
 *   these objects never closes a context
 *
 * Since: 0.1
 */
GPtrArray *
llmsvc_client_list_contexts_finish (LlmsvcClient  *self,
                                    GAsyncResult  *result,
                                    GError       **error)
{
  return llmsvc_task_finish (self, result, error);
}
