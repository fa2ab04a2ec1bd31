/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The option `continue`: a call continues the last answer of its context. The answer becomes
 * longer, in the same turn. */

#include "engine/calls/llm-call.h"

#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"

/* A character has at most so many bytes, and at most so many tokens. */
#define MAX_CHARACTER 4
/* Stands in a text for an incomplete character. */
#define REPLACEMENT "\xef\xbf\xbd"

/* NULL without a turn that can be continued. */
static LlmTurn *
get_last_turn (const LlmCall *call)
{
  GPtrArray *turns = call->context->conversation->turns;

  return turns->len > 0 ? g_ptr_array_index (turns, turns->len - 1) : NULL;
}

/* NULL without an answer that can be continued. */
static const LlmStoredMessage *
get_last_message (const LlmCall *call)
{
  GPtrArray *messages = call->context->conversation->messages;

  return messages->len > 0 ? g_ptr_array_index (messages, messages->len - 1) : NULL;
}

gboolean
llm_call_check_continue (LlmCall *call,
                         GError **error)
{
  const LlmStoredMessage *last = get_last_message (call);

  if (g_variant_n_children (call->messages) > 0)
    return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                     "continue: it goes on with the last answer, so the call brings no message; "
                     "leave the text empty");
  if (last == NULL)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "continue: the context is empty; there is no answer to go on with");
  if (!g_str_equal (last->role, "assistant"))
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "continue: the last message of the context has the role “%s”; only an answer, "
                     "of the role “assistant”, can be gone on with. Leave “continue” out to have it "
                     "answered", last->role);
  if (g_variant_lookup (last->extras, "tool-calls", "&s", NULL))
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "continue: the last answer ends with calls of tools; give their results as "
                     "messages of the role “tool” instead");
  call->continues = TRUE;
  return TRUE;
}

/* Whether the tokens of the last answer are those that the model generated. */
static gboolean
has_own_tokens (const LlmCall *call,
                const char    *identity)
{
  g_autoptr(GArray) settled = g_array_new (FALSE, FALSE, sizeof (gint32));
  guint first_message;

  llm_conversation_get_settled (call->context->conversation, identity, settled, NULL, &first_message);
  return settled->len > 0 && first_message == call->context->conversation->messages->len;
}

/* The bytes at the end of @tokens that begin a character, but do not complete it. */
static GString *
find_half_character (const LlmCall *call)
{
  LlmTokenizer *tokenizer = llm_model_get_tokenizer (call->model);
  GString *bytes = g_string_new (NULL);
  guint n = call->tokens->len;
  gsize start;

  for (guint i = n - MIN (n, MAX_CHARACTER); i < n; i++)
    llm_tokenizer_decode_token (tokenizer, g_array_index (call->tokens, gint32, i), FALSE, bytes);
  start = bytes->len;
  while (start > 0 && bytes->len - start < MAX_CHARACTER - 1
         && (bytes->str[start - 1] & 0xc0) == 0x80)
    start--;
  if (start > 0 && (guint8) bytes->str[start - 1] >= 0xc0)
    start--;
  else
    start = bytes->len;
  if (start < bytes->len
      && g_utf8_get_char_validated (bytes->str + start, (gssize) (bytes->len - start))
           != (gunichar) -2)
    start = bytes->len;
  g_string_erase (bytes, 0, (gssize) start);
  return bytes;
}

const char *
llm_call_get_continued (LlmCall *call)
{
  return get_last_message (call)->text;
}

void
llm_call_fill_continue (LlmCall    *call,
                        LlmRequest *request)
{
  g_autofree char *identity = llm_call_get_token_identity (call);
  const char *text = get_last_message (call)->text;

  if (*text != '\0' || has_own_tokens (call, identity))
    request->answer.strips_space = FALSE;
  if (g_str_has_suffix (text, REPLACEMENT) && has_own_tokens (call, identity))
    request->answer.begun = find_half_character (call);
}

guint
llm_call_count_settled (LlmCall    *call,
                        const char *identity)
{
  g_autoptr(GArray) settled = g_array_new (FALSE, FALSE, sizeof (gint32));
  guint first_message;

  llm_conversation_get_settled (call->context->conversation, identity, settled, NULL, &first_message);
  return call->continues && has_own_tokens (call, identity)
           ? settled->len - get_last_turn (call)->tokens->len
           : settled->len;
}

gboolean
llm_call_goes_on (LlmCall    *call,
                  const char *identity,
                  guint      *n_w8)
{
  gboolean goes_on = call->continues && has_own_tokens (call, identity);

  *n_w8 = goes_on ? get_last_turn (call)->n_w8 : 0;
  return goes_on;
}

LlmTurn *
llm_call_continue_turn (LlmCall          *call,
                        const LlmRequest *request,
                        GVariant         *extras,
                        gsize            *n_bytes)
{
  LlmTurn *turn = llm_turn_copy (get_last_turn (call));
  LlmStoredMessage *answer = g_ptr_array_index (turn->messages, turn->messages->len - 1);
  const char *added = request->result.text->str;
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (answer->extras);
  GVariantIter iter;
  const char *key;
  GVariant *value;
  char *text;

  *n_bytes = strlen (answer->text);
  /* the new text has the whole character */
  if (request->answer.begun != NULL && request->answer.begun->len > 0 && *added != '\0')
    *n_bytes -= strlen (REPLACEMENT);
  text = g_strdup_printf ("%.*s%s", (int) *n_bytes, answer->text, added);
  g_free (answer->text);
  answer->text = text;
  g_variant_iter_init (&iter, extras);
  while (g_variant_iter_loop (&iter, "{&sv}", &key, &value))
    g_variant_dict_insert_value (&dict, key, value);
  g_variant_unref (answer->extras);
  answer->extras = g_variant_ref_sink (g_variant_dict_end (&dict));
  g_clear_pointer (&turn->tokens, g_array_unref);
  g_clear_pointer (&turn->identity, g_free);
  g_clear_pointer (&turn->counted_by, g_free);
  turn->is_closed = FALSE;
  turn->sparsity = turn->n_sparse = turn->n_w8 = 0;
  return turn;
}
