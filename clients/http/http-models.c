/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "http-models.h"

#include <string.h>

#include "common/llmsvc-json.h"
#include "http-call.h"
#include "http-error.h"

#define MODELS "/v1/models"
/* What programs send that know no model of this machine. */
static const char *const any[] = { "", "default", "auto", "local" };

static void
append_model (GString     *out,
              LlmsvcModel *model,
              LlmsvcModel *active)
{
  const char *id = llmsvc_model_get_id (model);
  gboolean is_active = active != NULL && g_str_equal (llmsvc_model_get_id (active), id);

  g_string_append (out, "{\"id\":\"");
  llmsvc_json_append_escaped (out, id, strlen (id));
  g_string_append_printf (out, "\",\"object\":\"model\",\"created\":0,\"owned_by\":\"llmsvc\","
                          "\"context_length\":%u,\"active\":%s}",
                          llmsvc_model_get_context_length (model), is_active ? "true" : "false");
}

static LlmsvcModel *
find_model (LlmsvcClient *client,
            const char   *id)
{
  GListModel *models = llmsvc_client_get_models (client);

  for (guint i = 0; i < g_list_model_get_n_items (models); i++)
    {
      g_autoptr(LlmsvcModel) model = g_list_model_get_item (models, i);

      if (g_str_equal (llmsvc_model_get_id (model), id))
        return g_steal_pointer (&model);
    }
  return NULL;
}

static void
reply_list (SoupServerMessage *message,
            LlmsvcClient      *client)
{
  GListModel *models = llmsvc_client_get_models (client);
  g_autoptr(GString) out = g_string_new ("{\"object\":\"list\",\"data\":[");

  for (guint i = 0; i < g_list_model_get_n_items (models); i++)
    {
      g_autoptr(LlmsvcModel) model = g_list_model_get_item (models, i);

      if (i > 0)
        g_string_append_c (out, ',');
      append_model (out, model, llmsvc_client_get_active_model (client));
    }
  g_string_append (out, "]}");
  http_reply_json (message, SOUP_STATUS_OK, g_string_free (g_steal_pointer (&out), FALSE));
}

static gboolean
is_there (LlmsvcAvailability availability)
{
  switch (availability)
    {
    case LLMSVC_AVAILABILITY_ABSENT:
    case LLMSVC_AVAILABILITY_NO_MODEL:
    case LLMSVC_AVAILABILITY_DISABLED:
    case LLMSVC_AVAILABILITY_FAILED:
      return FALSE;
    default:
      return TRUE;
    }
}

static void
reply_health (SoupServerMessage *message,
              LlmsvcClient      *client)
{
  const char *reason = llmsvc_client_get_availability_reason (client);
  g_autoptr(GError) error = NULL;

  if (!is_there (llmsvc_client_get_availability (client)))
    {
      http_fail (&error, SOUP_STATUS_SERVICE_UNAVAILABLE, NULL, "not_available", "The service can't answer: %s",
                 reason != NULL && *reason != '\0' ? reason : "it does not say why");
      http_reply_error (message, error);
      return;
    }
  http_reply_json (message, SOUP_STATUS_OK, g_strdup ("{\"status\":\"ok\"}"));
}

void
http_models_reply (SoupServerMessage *message,
                   LlmsvcClient      *client,
                   const char        *path)
{
  g_autoptr(LlmsvcModel) model = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(GString) out = g_string_new (NULL);

  if (g_str_equal (path, "/health"))
    {
      reply_health (message, client);
      return;
    }
  if (g_str_equal (path, MODELS))
    {
      reply_list (message, client);
      return;
    }
  model = find_model (client, path + strlen (MODELS "/"));
  if (model == NULL)
    {
      http_fail (&error, SOUP_STATUS_NOT_FOUND, "model", "model_not_found", "Unknown model “%s”",
                 path + strlen (MODELS "/"));
      http_reply_error (message, error);
      return;
    }
  append_model (out, model, llmsvc_client_get_active_model (client));
  http_reply_json (message, SOUP_STATUS_OK, g_string_free (g_steal_pointer (&out), FALSE));
}

gboolean
http_models_check (LlmsvcClient  *client,
                   const char    *name,
                   GError       **error)
{
  LlmsvcModel *active = llmsvc_client_get_active_model (client);

  if (name == NULL || active == NULL || g_str_equal (llmsvc_model_get_id (active), name))
    return TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (any); i++)
    if (g_str_equal (name, any[i]))
      return TRUE;
  return http_fail (error, SOUP_STATUS_NOT_FOUND, "model", "model_not_found",
                    "The model in use is “%s”, and “%s” was asked for; “default” is the one in use",
                    llmsvc_model_get_id (active), name);
}
