/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-call.h"

#include <string.h>

#include "base/llm-fail.h"
#include "base/llm-json.h"
#include "common/llmsvc-error-private.h"
#include "common/llmsvc-option-value.h"

#define MAX_QUOTED_CHARACTERS 40

static const char *const roles[] = { "system", "user", "assistant", "tool", NULL };

/* (transfer full): shortened for a message to users. */
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

      if (foreign != NULL && llmsvc_foreign_key_is_asked (foreign, value))
        return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                         "Message %zu has “%s” beside its text, which needs the ability “%s”, "
                         "which this service does not have; see the property Features", number,
                         key, foreign->feature);
    }

  return TRUE;
}

/* The calls of an earlier answer, which may be another engine's: templates take them apart. */
static gboolean
check_calls (const char  *text,
             gsize        number,
             GError     **error)
{
  g_autoptr(GError) cause = NULL;
  g_autoptr(LlmJson) calls = llm_json_read (text, strlen (text), &cause);

  if (calls == NULL || calls->kind != LLM_JSON_ARRAY)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "Message %zu has “tool-calls” that are no JSON array%s%s", number,
                     cause != NULL ? ": " : "", cause != NULL ? cause->message : "");
  for (guint i = 0; i < calls->values->len; i++)
    {
      const LlmJson *function = llm_json_get (g_ptr_array_index (calls->values, i), "function");
      const LlmJson *name = function != NULL ? llm_json_get (function, "name") : NULL;
      const LlmJson *arguments = function != NULL ? llm_json_get (function, "arguments") : NULL;
      g_autofree char *quoted = NULL;
      g_autoptr(LlmJson) inner = NULL;

      if (name == NULL || name->kind != LLM_JSON_STRING)
        return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                         "Call %u of message %zu needs “function”, an object with “name”", i, number);
      quoted = abridge (name->text);
      if (llm_json_is_nothing (arguments))
        continue;
      if (arguments->kind == LLM_JSON_STRING)
        inner = llm_json_read (arguments->text, arguments->length, &cause);
      if ((inner != NULL ? inner : arguments)->kind != LLM_JSON_OBJECT)
        return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                         "Call %u of message %zu, of “%s”, has arguments that are no JSON object%s%s",
                         i, number, quoted, cause != NULL ? ": " : "",
                         cause != NULL ? cause->message : "");
    }
  return TRUE;
}

static gboolean
add_messages (GVariant  *messages,
              guint64   *bytes,
              GError   **error)
{
  for (gsize i = 0; i < g_variant_n_children (messages); i++)
    {
      g_autoptr(GVariant) extras = NULL;
      g_autoptr(GVariant) message = g_variant_get_child_value (messages, i);
      const char *role, *text, *calls;

      g_variant_get (message, "(&s&s@a{sv})", &role, &text, &extras);
      if (!g_strv_contains (roles, role))
        {
          g_autofree char *quoted = abridge (role);

          return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                           "Message %zu has the role “%s”; known roles are system, "
                           "user, assistant and tool", i, quoted);
        }
      if (!check_extras (extras, i, error)
          || (g_variant_lookup (extras, "tool-calls", "&s", &calls)
              && !check_calls (calls, i, error)))
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
  const char *suffix =
    options != NULL ? llm_call_options_get_string (options, LLMSVC_OPTION_SUFFIX, NULL) : NULL;
  guint64 bytes = 0;

  if ((messages != NULL && !add_messages (messages, &bytes, error)) ||
      (earlier != NULL && !add_messages (earlier, &bytes, error)))
    return FALSE;
  bytes += prompt != NULL ? strlen (prompt) : 0;
  bytes += system != NULL ? strlen (system) : 0;
  bytes += suffix != NULL ? strlen (suffix) : 0;
  return bytes <= limit ||
         llm_fail (error, LLMSVC_ERROR_MESSAGE_TOO_LARGE,
                   "The call brings %ju bytes of text; this service takes at "
                   "most %ju in one call", bytes, limit);
}

gboolean
llm_bus_name_check (const char  *name,
                    GError     **error)
{
  g_autoptr(GVariant) dict = g_variant_ref_sink (g_variant_new_parsed ("{'name': <%s>}", name));
  g_autoptr(GError) local = NULL;
  g_autoptr(LlmCallOptions) options =
    llm_call_options_parse (dict, LLMSVC_CALL_CREATE_CONTEXT, NULL, &local);

  if (options == NULL)
    g_propagate_error (error, llmsvc_error_new (LLMSVC_ERROR_INVALID_ARGUMENT, local,
                                                "No context can have this name. %s",
                                                local->message));
  return options != NULL;
}
