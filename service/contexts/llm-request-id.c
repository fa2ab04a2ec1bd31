/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/llm-request-id.h"

#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-option-value.h"

/* In the results of a turn; never sent to a caller. */
#define KEY_DIGEST "request-digest"

/* Each part with its length, so that no two requests run together to the same bytes. */
static void
add_text (GChecksum  *checksum,
          const char *text)
{
  guint64 length = strlen (text);

  g_checksum_update (checksum, (const guchar *) &length, sizeof length);
  g_checksum_update (checksum, (const guchar *) text, (gssize) length);
}

static void
add_value (GChecksum  *checksum,
           const char *key,
           GVariant   *value)
{
  g_autofree char *printed = g_variant_print (value, TRUE);

  add_text (checksum, key);
  add_text (checksum, printed);
}

/* A dictionary has no order: a caller that builds it again may send another one. */
static void
add_extras (GChecksum *checksum,
            GVariant  *extras)
{
  g_autoptr(GList) keys = NULL;
  GVariantIter iter;
  const char *key;

  g_variant_iter_init (&iter, extras);
  while (g_variant_iter_next (&iter, "{&sv}", &key, NULL))
    keys = g_list_insert_sorted (keys, (gpointer) key, (GCompareFunc) strcmp);
  for (const GList *item = keys; item != NULL; item = item->next)
    {
      g_autoptr(GVariant) value = g_variant_lookup_value (extras, item->data, NULL);

      add_value (checksum, item->data, value);
    }
}

static char *
make_digest (LlmRequestKind        kind,
             GVariant             *messages,
             const LlmCallOptions *options)
{
  g_autoptr(GChecksum) checksum = g_checksum_new (G_CHECKSUM_SHA256);
  GVariantIter iter;
  const char *role;
  const char *text;
  GVariant *extras;

  add_text (checksum, kind == LLM_REQUEST_ANSWER ? "answer" : "append");
  g_variant_iter_init (&iter, messages);
  while (g_variant_iter_loop (&iter, "(&s&s@a{sv})", &role, &text, &extras))
    {
      add_text (checksum, "message");
      add_text (checksum, role);
      add_text (checksum, text);
      add_extras (checksum, extras);
    }
  for (guint i = 0; i < LLMSVC_N_OPTIONS; i++)
    {
      const LlmsvcOptionInfo *info = llmsvc_option_get_info (i);
      GVariant *value = llm_call_options_get_variant (options, i);

      if (value == NULL || info->keeps_result)
        continue;
      add_text (checksum, "option");
      add_value (checksum, info->key, value);
    }
  return g_strdup (g_checksum_get_string (checksum));
}

gboolean
llm_request_id_find (LlmConversation      *conversation,
                     LlmRequestKind        kind,
                     GVariant             *messages,
                     const LlmCallOptions *options,
                     LlmTurn             **turn,
                     GError              **error)
{
  const char *id = llm_call_options_get_string (options, LLMSVC_OPTION_REQUEST_ID, NULL);
  LlmTurn *found = id != NULL ? llm_conversation_find_request (conversation, id) : NULL;
  const char *before;
  gboolean is_same;

  *turn = NULL;
  if (found == NULL)
    return TRUE;

  /* Turns of older versions have no digest, and only answers had an id then. */
  if (found->results != NULL && g_variant_lookup (found->results, KEY_DIGEST, "&s", &before))
    {
      g_autofree char *digest = make_digest (kind, messages, options);

      is_same = g_str_equal (digest, before);
    }
  else
    is_same = kind == LLM_REQUEST_ANSWER;
  if (!is_same)
    {
      g_autofree char *shown = llmsvc_shorten (id);

      return llm_fail (error, LLMSVC_ERROR_CONFLICT,
                       "The request-id “%s” was used in this context for another request. Repeat "
                       "that one with the messages and options it had, or choose a new request-id",
                       shown);
    }

  /* Stored data may be damaged: without the answer it can't be repeated. */
  if (kind == LLM_REQUEST_APPEND || llm_turn_get_answer (found) != NULL)
    *turn = found;
  return TRUE;
}

void
llm_request_id_note (LlmTurn              *turn,
                     LlmRequestKind        kind,
                     GVariant             *messages,
                     const LlmCallOptions *options,
                     GVariant             *results)
{
  const char *id = llm_call_options_get_string (options, LLMSVC_OPTION_REQUEST_ID, NULL);
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (results);
  g_autofree char *digest = NULL;

  if (id != NULL)
    {
      digest = make_digest (kind, messages, options);
      g_variant_dict_insert (&dict, KEY_DIGEST, "s", digest);
      turn->request_id = g_strdup (id);
    }
  else if (results == NULL)
    return;
  turn->results = g_variant_ref_sink (g_variant_dict_end (&dict));
}

GVariant *
llm_request_id_get_results (const LlmTurn *turn)
{
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (turn->results);

  g_variant_dict_remove (&dict, KEY_DIGEST);
  g_variant_dict_remove (&dict, LLM_TURN_CONTINUED);
  g_variant_dict_insert (&dict, "repeated", "b", TRUE);
  return g_variant_ref_sink (g_variant_dict_end (&dict));
}
