/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Any template source and conversation. Fields with 0xFF between them: two bytes for the point and
 * whether to open an answer, the source, then roles (of which the first letter is enough) and texts
 * in turns; a text that begins with “{” is what the message holds besides, and one of the role
 * “f” the tools. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "template/llm-template.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

#define MAX_MESSAGES 16

static void
check_error (const GError *error)
{
  g_assert_nonnull (error);
  g_assert_true (error->domain == LLMSVC_ERROR);
  g_assert_true (g_utf8_validate (error->message, -1, NULL));
}

/* Strings as they come from the bus: valid UTF-8 without NUL. */
static char **
split_fields (const uint8_t *data,
              size_t         size)
{
  g_autoptr(GPtrArray) fields = g_ptr_array_new ();
  size_t start = 0;

  for (size_t i = 0; i <= size; i++)
    if (i == size || data[i] == 0xff)
      {
        g_autofree char *field = g_strndup ((const char *) data + start, i - start);

        g_ptr_array_add (fields, g_utf8_make_valid (field, -1));
        start = i + 1;
      }
  g_ptr_array_add (fields, NULL);
  return (char **) g_ptr_array_free (g_steal_pointer (&fields), FALSE);
}

static const char *
expand_role (const char *field)
{
  switch (*field)
    {
    case 's':
      return "system";
    case 'u':
      return "user";
    case 'a':
      return "assistant";
    case 't':
      return "tool";
    default:
      return field;
    }
}

/* All markup of the prompt; checks its parts on the way. */
static char *
join_markup (LlmPrompt *prompt)
{
  GString *markup = g_string_new (NULL);
  guint n_parts;
  const LlmTextPart *parts = llm_prompt_get_parts (prompt, &n_parts);

  for (guint i = 0; i < n_parts; i++)
    {
      g_assert_cmpuint (parts[i].length, >, 0);
      g_assert_true (g_utf8_validate_len (parts[i].text, parts[i].length, NULL));
      if (parts[i].is_markup)
        g_string_append_len (markup, parts[i].text, (gssize) parts[i].length);
    }
  return g_string_free (markup, FALSE);
}

/* Nothing that only texts of the conversation have is markup: U+FFFC is put into each. */
static char *
mark (const char *text)
{
  return g_strdup_printf ("%s\uFFFC", text);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data,
                        size_t         size)
{
  LlmMessage messages[MAX_MESSAGES];
  LlmTemplateCall call = { .messages = messages };
  g_auto(GStrv) fields = NULL;
  g_autoptr(GPtrArray) marked = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmTemplate) template = NULL;
  g_autoptr(LlmPrompt) prompt = NULL;
  g_autofree char *markup = NULL;

  if (size < 3)
    return 0;
  call.open_answer = data[1] & 1;
  fields = split_fields (data + 2, size - 2);
  template = llm_template_new (fields[0], NULL, "fuzz.gguf", &error);
  if (template == NULL)
    {
      check_error (error);
      return 0;
    }

  for (guint i = 1;
       fields[i] != NULL && fields[i + 1] != NULL && call.n_messages < MAX_MESSAGES; i += 2)
    {
      gboolean is_extras = *fields[i + 1] == '{';

      if (*fields[i] == 'f')
        {
          call.tools = fields[i + 1];
          continue;
        }
      g_ptr_array_add (marked, mark (is_extras ? "" : fields[i + 1]));
      messages[call.n_messages++] = (LlmMessage) {
        (char *) expand_role (fields[i]), g_ptr_array_index (marked, marked->len - 1),
        is_extras ? fields[i + 1] : NULL };
    }
  if (call.n_messages > 0 && data[0] % 3 != LLM_POINT_START)
    {
      call.point = data[0] % 3;
      call.n_settled = 1 + data[1] / 2 % call.n_messages;
    }
  prompt = llm_template_render (template, &call, &error);
  if (prompt == NULL)
    {
      check_error (error);
      return 0;
    }
  markup = join_markup (prompt);
  g_assert_true (strstr (fields[0], "\uFFFC") != NULL || strchr (fields[0], '\\') != NULL
                 || strstr (markup, "\uFFFC") == NULL);
  return 0;
}
