/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "http-error.h"

#include <libsoup/soup.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "common/llmsvc-json.h"

#define RETRY_KEY "[retry-after-ms="
/* Where memory is short, or the service starts again. */
#define RETRY_S 2
#define TOO_MANY_REQUESTS 429

typedef struct
{
  char *param;  /* (nullable) */
  char *code;   /* (nullable) */
} HttpErrorPrivate;

static void
http_error_private_init (HttpErrorPrivate *priv)
{
}

static void
http_error_private_copy (const HttpErrorPrivate *from,
                         HttpErrorPrivate       *to)
{
  to->param = g_strdup (from->param);
  to->code = g_strdup (from->code);
}

static void
http_error_private_clear (HttpErrorPrivate *priv)
{
  g_free (priv->param);
  g_free (priv->code);
}

G_DEFINE_EXTENDED_ERROR (HttpError, http_error)

gboolean
http_fail (GError     **error,
           guint        status,
           const char  *param,
           const char  *code,
           const char  *format,
           ...)
{
  g_autofree char *message = NULL;
  va_list arguments;

  if (error == NULL)
    return FALSE;
  va_start (arguments, format);
  message = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error_literal (error, HTTP_ERROR, (int) status, message);
  http_error_get_private (*error)->param = g_strdup (param);
  http_error_get_private (*error)->code = g_strdup (code);
  return FALSE;
}

static const struct
{
  guint status;
  const char *code;  /* (nullable) */
} of_service[] = {
  [LLMSVC_ERROR_FAILED] = { SOUP_STATUS_INTERNAL_SERVER_ERROR, NULL },
  [LLMSVC_ERROR_INVALID_OPTION] = { SOUP_STATUS_BAD_REQUEST, "invalid_value" },
  [LLMSVC_ERROR_INVALID_ARGUMENT] = { SOUP_STATUS_BAD_REQUEST, "invalid_value" },
  [LLMSVC_ERROR_UNSUPPORTED] = { SOUP_STATUS_BAD_REQUEST, "unsupported_value" },
  [LLMSVC_ERROR_NOT_FOUND] = { SOUP_STATUS_NOT_FOUND, "not_found" },
  [LLMSVC_ERROR_ALREADY_EXISTS] = { SOUP_STATUS_CONFLICT, "conflict" },
  [LLMSVC_ERROR_NOT_AUTHORIZED] = { SOUP_STATUS_FORBIDDEN, "not_authorized" },
  [LLMSVC_ERROR_NO_MODEL] = { SOUP_STATUS_SERVICE_UNAVAILABLE, "no_model" },
  [LLMSVC_ERROR_INVALID_MODEL] = { SOUP_STATUS_SERVICE_UNAVAILABLE, "invalid_model" },
  [LLMSVC_ERROR_CONTEXT_BUSY] = { SOUP_STATUS_CONFLICT, "context_busy" },
  [LLMSVC_ERROR_CONTEXT_FULL] = { SOUP_STATUS_BAD_REQUEST, "context_length_exceeded" },
  [LLMSVC_ERROR_OVERLOADED] = { TOO_MANY_REQUESTS, "rate_limit_exceeded" },
  [LLMSVC_ERROR_QUOTA_EXCEEDED] = { TOO_MANY_REQUESTS, "insufficient_quota" },
  [LLMSVC_ERROR_NO_MEMORY] = { SOUP_STATUS_SERVICE_UNAVAILABLE, "no_memory" },
  [LLMSVC_ERROR_CONFLICT] = { SOUP_STATUS_CONFLICT, "conflict" },
  [LLMSVC_ERROR_CANCELLED] = { SOUP_STATUS_SERVICE_UNAVAILABLE, "cancelled" },
  [LLMSVC_ERROR_DEADLINE_EXCEEDED] = { SOUP_STATUS_GATEWAY_TIMEOUT, "deadline_exceeded" },
  [LLMSVC_ERROR_MESSAGE_TOO_LARGE] = { SOUP_STATUS_REQUEST_ENTITY_TOO_LARGE, "too_large" },
  [LLMSVC_ERROR_STORAGE] = { SOUP_STATUS_INTERNAL_SERVER_ERROR, "storage" },
  [LLMSVC_ERROR_NOT_AVAILABLE] = { SOUP_STATUS_SERVICE_UNAVAILABLE, "not_available" },
  [LLMSVC_ERROR_LOST] = { SOUP_STATUS_SERVICE_UNAVAILABLE, "lost" },
  [LLMSVC_ERROR_LOST_KEPT] = { SOUP_STATUS_SERVICE_UNAVAILABLE, "lost" },
  [LLMSVC_ERROR_LOST_UNKNOWN] = { SOUP_STATUS_SERVICE_UNAVAILABLE, "lost" },
};

static gboolean
is_of_service (const GError *error)
{
  return error->domain == LLMSVC_ERROR && error->code >= 0
         && error->code < (int) G_N_ELEMENTS (of_service);
}

guint
http_error_get_status (const GError *error)
{
  if (error->domain == HTTP_ERROR)
    return (guint) error->code;
  return is_of_service (error) ? of_service[error->code].status : SOUP_STATUS_INTERNAL_SERVER_ERROR;
}

guint
http_error_get_retry_s (const GError *error)
{
  const char *at = strstr (error->message, RETRY_KEY);
  guint status = http_error_get_status (error);

  if (at != NULL)
    return (guint) (g_ascii_strtoull (at + strlen (RETRY_KEY), NULL, 10) / 1000 + 1);
  return status == SOUP_STATUS_SERVICE_UNAVAILABLE || status == TOO_MANY_REQUESTS ? RETRY_S
                                                                                            : 0;
}

static const char *
get_type (guint status)
{
  switch (status)
    {
    case SOUP_STATUS_UNAUTHORIZED:
      return "authentication_error";
    case SOUP_STATUS_FORBIDDEN:
      return "permission_error";
    case TOO_MANY_REQUESTS:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

static void
append_text (GString    *out,
             const char *key,
             const char *text)
{
  g_string_append_printf (out, "\"%s\":", key);
  if (text == NULL)
    g_string_append (out, "null");
  else
    {
      g_string_append_c (out, '"');
      llmsvc_json_append_escaped (out, text, strlen (text));
      g_string_append_c (out, '"');
    }
}

char *
http_error_to_json (const GError *error)
{
  g_autoptr(GString) out = g_string_new ("{\"error\":{");
  const HttpErrorPrivate *own =
    error->domain == HTTP_ERROR ? http_error_get_private ((GError *) error) : NULL;

  append_text (out, "message", error->message);
  g_string_append_c (out, ',');
  append_text (out, "type", get_type (http_error_get_status (error)));
  g_string_append_c (out, ',');
  append_text (out, "param", own != NULL ? own->param : NULL);
  g_string_append_c (out, ',');
  append_text (out, "code", own != NULL ? own->code
                            : is_of_service (error) ? of_service[error->code].code : NULL);
  g_string_append (out, "}}");
  return g_string_free (g_steal_pointer (&out), FALSE);
}
