/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-messages.h"

#include <string.h>

#include "common/llmsvc-error.h"
#include "common/llmsvc-option-value.h"

#define MAX_QUOTED_CHARACTERS 40

static const char *const roles[] = { "system", "user", "assistant", "tool", NULL };

/* (transfer full): short enough for a message to people. */
static char *
abridge (const char *text)
{
  g_autofree char *start = NULL;

  if (g_utf8_strlen (text, -1) <= MAX_QUOTED_CHARACTERS)
    return g_strdup (text);

  start = g_utf8_substring (text, 0, MAX_QUOTED_CHARACTERS);
  return g_strconcat (start, "…", NULL);
}

static gboolean
check_extras (GVariant  *extras,
              gsize      number,
              GError   **error)
{
  GVariantIter iter;
  const char *key;
  GVariant *wrapped;

  g_variant_iter_init (&iter, extras);
  while (g_variant_iter_next (&iter, "{&sv}", &key, &wrapped))
    {
      g_autoptr(GVariant) owned = wrapped;
      g_autoptr(GVariant) value = llmsvc_option_value_unwrap (owned);
      const LlmsvcForeignKey *foreign = llmsvc_extra_find_foreign (key);

      if (foreign == NULL || !llmsvc_foreign_key_is_asked (foreign, value))
        continue;
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED,
                   "Message %zu has “%s” beside its text, which needs the ability “%s”, which this "
                   "service does not have; see the property Features", number, key,
                   foreign->feature);
      return FALSE;
    }

  return TRUE;
}

static gboolean
add_messages (GVariant  *messages,
              guint64   *bytes,
              GError   **error)
{
  gsize n = g_variant_n_children (messages);

  for (gsize i = 0; i < n; i++)
    {
      g_autoptr(GVariant) extras = NULL;
      g_autoptr(GVariant) message = g_variant_get_child_value (messages, i);
      const char *role, *text;

      g_variant_get (message, "(&s&s@a{sv})", &role, &text, &extras);
      if (!g_strv_contains (roles, role))
        {
          g_autofree char *quoted = abridge (role);

          g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                       "Message %zu has the role “%s”; known roles are system, "
                       "user, assistant and tool", i, quoted);
          return FALSE;
        }
      if (!check_extras (extras, i, error))
        return FALSE;
      *bytes += strlen (text) + g_variant_get_size (extras);
    }

  return TRUE;
}

gboolean
llm_bus_messages_check (GVariant             *messages,
                        const char           *prompt,
                        const LlmCallOptions *options,
                        guint64               limit,
                        GError              **error)
{
  GVariant *earlier =
    options != NULL ? llm_call_options_get_variant (options, LLMSVC_OPTION_MESSAGES) : NULL;
  const char *system =
    options != NULL ? llm_call_options_get_string (options, LLMSVC_OPTION_SYSTEM, NULL) : NULL;
  guint64 bytes = 0;

  if (messages != NULL && !add_messages (messages, &bytes, error))
    return FALSE;
  if (earlier != NULL && !add_messages (earlier, &bytes, error))
    return FALSE;
  if (prompt != NULL)
    bytes += strlen (prompt);
  if (system != NULL)
    bytes += strlen (system);

  if (bytes > limit)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_MESSAGE_TOO_LARGE,
                   "The call brings %ju bytes of text; this service takes at "
                   "most %ju in one call", bytes, limit);
      return FALSE;
    }

  return TRUE;
}

gboolean
llm_bus_name_check (const char  *name,
                    GError     **error)
{
  g_autoptr(LlmCallOptions) options = NULL;
  g_autoptr(GVariant) dict = NULL;
  g_autoptr(GError) local = NULL;
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&builder, "{sv}", "name", g_variant_new_string (name));
  dict = g_variant_ref_sink (g_variant_builder_end (&builder));

  options = llm_call_options_parse (dict, LLMSVC_CALL_CREATE_CONTEXT, NULL, &local);
  if (options == NULL)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                 "No context can have this name. %s", local->message);

  return options != NULL;
}
