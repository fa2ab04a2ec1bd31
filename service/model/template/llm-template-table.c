/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The known templates, and the fragments of source text that tell them apart.
 * Fragments are chosen such that a template which writes something else than
 * what its row says is not taken for it. */

#include "model/template/llm-template-private.h"

#include <string.h>

#define BOS LLM_TEMPLATE_BOS
#define EOS LLM_TEMPLATE_EOS
#define LLAMA3_HEADER(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"

#define MAX_FRAGMENTS 4

typedef struct
{
  const char *needs[MAX_FRAGMENTS + 1];  /* all of them, in the normal form of normalise() */
  const char *lacks[MAX_FRAGMENTS + 1];  /* and none of these */
  LlmTemplateShape shape;
} Row;

#define CHATML_SHAPE \
  .name = "chatml", \
  .system = { "<|im_start|>system\n", "<|im_end|>" }, \
  .user = { "<|im_start|>user\n", "<|im_end|>" }, \
  .answer = { "<|im_start|>assistant\n", "<|im_end|>" }, \
  .opener = "<|im_start|>assistant\n", \
  .behind_answer = "\n", .behind_message = "\n"

#define LLAMA3_SHAPE \
  .name = "llama-3", \
  .system = { LLAMA3_HEADER ("system"), "<|eot_id|>" }, \
  .user = { LLAMA3_HEADER ("user"), "<|eot_id|>" }, \
  .answer = { LLAMA3_HEADER ("assistant"), "<|eot_id|>" }, \
  .opener = LLAMA3_HEADER ("assistant"), \
  .behind_answer = "", .behind_message = "", \
  .trims_all = TRUE

#define PHI3_SHAPE \
  .name = "phi-3", \
  .user = { "<|user|>\n", "<|end|>" }, \
  .answer = { "<|assistant|>\n", "<|end|>" }, \
  .opener = "<|assistant|>\n", \
  .behind_answer = "\n", .behind_message = "\n"

#define ZEPHYR_SHAPE \
  .name = "zephyr", \
  .user = { "<|user|>\n", EOS }, \
  .answer = { "<|assistant|>\n", EOS }, \
  .opener = "<|assistant|>\n", \
  .behind_answer = "\n", .behind_message = "\n"

#define LLAMA2_SHAPE \
  .name = "llama-2", \
  .before_merged = "<<SYS>>\n", .after_merged = "\n<</SYS>>\n\n", \
  .user = { "[INST] ", " [/INST]" }, \
  .answer = { " ", " " EOS }, \
  .opener = "", .behind_message = "", \
  .trims_all = TRUE, .trims_merged = TRUE

#define LLAMA2_FRAGMENTS \
  "set content = '<<SYS>>\n'+system_message+'\n<</SYS>>\n\n'+message['content']", \
  "' '+content.strip()+' '+eos_token"

/* Its spaces differ from version to version; see read_spaces(). */
#define MISTRAL_SHAPE \
  .name = "mistral", \
  .before_merged = "", .after_merged = "\n\n", \
  .opener = "", .behind_answer = "", .behind_message = ""

static const Row rows[] =
{
  { .needs = { "'<|im_start|>'+message['role']+'\n'", "<|im_end|>", "<tool_response>" },
    .shape = { CHATML_SHAPE,
               .tool = { "<|im_start|>user\n<tool_response>\n",
                         "\n</tool_response><|im_end|>" },
               .between_tools = "\n</tool_response>\n<tool_response>\n" } },
  { .needs = { "'<|im_start|>'+message['role']+'\n'", "<|im_end|>" },
    .shape = { CHATML_SHAPE, .tool = { "<|im_start|>tool\n", "<|im_end|>" } } },

  { .needs = { LLAMA2_FRAGMENTS, "bos_token+'[INST] '+content.strip()+' [/INST]'" },
    .lacks = { "elif true == true" },
    .shape = { LLAMA2_SHAPE, .behind_answer = BOS } },
  { .needs = { LLAMA2_FRAGMENTS, "'[INST] '+content.strip()+' [/INST]'" },
    .lacks = { "elif true == true", "bos_token+'[INST]" },
    .shape = { LLAMA2_SHAPE, .behind_answer = "" } },

  { .needs = { "'<|start_header_id|>'+message['role']+'<|end_header_id|>\n\n'", "<|eot_id|>",
               "Cutting Knowledge Date: December 2023\n", "'26 Jul 2024'" },
    .shape = { LLAMA3_SHAPE,
               .first_system = { LLAMA3_HEADER ("system")
                                 "Cutting Knowledge Date: December 2023\n"
                                 "Today Date: 26 Jul 2024\n\n", "<|eot_id|>" },
               .has_default_system = TRUE } },
  { .needs = { "'<|start_header_id|>'+message['role']+'<|end_header_id|>\n\n'", "<|eot_id|>" },
    .lacks = { "Cutting Knowledge Date" },
    .shape = { LLAMA3_SHAPE } },

  { .needs = { "'<start_of_turn>'+role+'\n'", "<end_of_turn>\n" },
    .shape = { .name = "gemma",
               .before_merged = "", .after_merged = "\n\n",
               .user = { "<start_of_turn>user\n", "<end_of_turn>" },
               .answer = { "<start_of_turn>model\n", "<end_of_turn>" },
               .opener = "<start_of_turn>model\n",
               .behind_answer = "\n", .behind_message = "\n",
               .trims_all = TRUE } },

  { .needs = { "'<|system|>\n'+message['content']+'<|end|>\n'",
               "'<|user|>\n'+message['content']+'<|end|>\n'" },
    .shape = { PHI3_SHAPE, .system = { "<|system|>\n", "<|end|>" } } },
  { .needs = { "'<|'+message['role']+'|>'+'\n'+message['content']+'<|end|>\n'" },
    .shape = { PHI3_SHAPE, .system = { "<|system|>\n", "<|end|>" } } },
  { .needs = { "'<|user|>'+'\n'+message['content']+'<|end|>'+'\n'+'<|assistant|>'+'\n'" },
    .lacks = { "<|system|>" },
    .shape = { PHI3_SHAPE, .before_merged = "", .after_merged = "\n\n" } },

  { .needs = { "'<|user|>\n'+message['content']+eos_token }}\n",
               "'<|system|>\n'+message['content']+eos_token }}\n", "'<|assistant|>' }}\n" },
    .shape = { ZEPHYR_SHAPE, .system = { "<|system|>\n", EOS } } },
  { .needs = { "'<|user|>\n'+message['content']+eos_token }}\n", "'<|assistant|>' }}\n" },
    .lacks = { "<|system|>" },
    .shape = { ZEPHYR_SHAPE, .before_merged = "", .after_merged = "\n\n" } },

  { .needs = { "[INST]", "'[SYSTEM_PROMPT] '+" },
    .lacks = { "<<SYS>>" },
    .shape = { MISTRAL_SHAPE, .system = { "[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]" } } },
  { .needs = { "[INST]", "'[SYSTEM_PROMPT]'+" },
    .lacks = { "<<SYS>>" },
    .shape = { MISTRAL_SHAPE, .system = { "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]" } } },
  { .needs = { "[INST]", "+eos_token" },
    .lacks = { "<<SYS>>", "[SYSTEM_PROMPT]" },
    .shape = { MISTRAL_SHAPE } },
};

static gboolean
has_word_at (const char *at,
             const char *word)
{
  return strncmp (at, word, strlen (word)) == 0;
}

/* Makes the ways to write the same thing one: quotes are single, attributes are
 * in brackets, line ends are themselves, and no spaces are around + and |. */
static GString *
normalise (const char *source)
{
  GString *normal = g_string_new (NULL);

  for (const char *at = source; *at != '\0'; at++)
    {
      if (*at == '\\' && at[1] != '\0')
        {
          at++;
          g_string_append_c (normal, *at == 'n' ? '\n' : *at);
        }
      else if (*at == '"')
        g_string_append_c (normal, '\'');
      else if (has_word_at (at, "message.role") || has_word_at (at, "message.content"))
        {
          gboolean is_role = at[strlen ("message.")] == 'r';

          g_string_append (normal, is_role ? "message['role']" : "message['content']");
          at += strlen (is_role ? "message.role" : "message.content") - 1;
        }
      else if (*at == '+' || *at == '|')
        {
          while (normal->len > 0 && normal->str[normal->len - 1] == ' ')
            g_string_truncate (normal, normal->len - 1);
          g_string_append_c (normal, *at);
          while (at[1] == ' ')
            at++;
        }
      else
        g_string_append_c (normal, *at);
    }
  return normal;
}

static gboolean
matches (const Row  *row,
         const char *normal)
{
  for (guint i = 0; row->needs[i] != NULL; i++)
    if (strstr (normal, row->needs[i]) == NULL)
      return FALSE;
  for (guint i = 0; row->lacks[i] != NULL; i++)
    if (strstr (normal, row->lacks[i]) != NULL)
      return FALSE;
  return TRUE;
}

/* Mistral's templates differ in the spaces that they write. */
static gboolean
read_spaces (LlmTemplateShape *shape,
             const char       *normal)
{
  if (strstr (normal, "' [INST] '+") != NULL)
    shape->user.before = " [INST] ";
  else if (strstr (normal, "'[INST] '+") != NULL)
    shape->user.before = "[INST] ";
  else if (strstr (normal, "'[INST]'+") != NULL)
    shape->user.before = "[INST]";
  else
    return FALSE;

  if (strstr (normal, "+' [/INST]'") != NULL)
    shape->user.after = " [/INST]";
  else if (strstr (normal, "+'[/INST]'") != NULL)
    shape->user.after = "[/INST]";
  else
    return FALSE;

  shape->answer.before = strstr (normal, "' '+message['content']") != NULL ? " " : "";
  shape->answer.after = EOS;
  shape->behind_answer = strstr (normal, "message['content']+eos_token+' '") != NULL ? " " : "";
  shape->trims_answers = strstr (normal, "message['content']|trim+eos_token") != NULL;
  return TRUE;
}

/* ChatML templates may bring a system text for those who give none: a literal
 * with both its markers. */
static void
find_default_system (LlmTemplateShape *shape,
                     const char       *normal)
{
  const char *before = shape->system.before;
  const char *at = normal;

  while (before != NULL && (at = strstr (at, before)) != NULL)
    {
      const char *text = at + strlen (before);
      const char *end = strstr (text, shape->system.after);
      const char *quote = strchr (text, '\'');

      if (end != NULL && end > text && (quote == NULL || quote > end))
        {
          shape->has_default_system = TRUE;
          shape->default_system = g_strndup (text, (gsize) (end - text));
          return;
        }
      at = text;
    }
}

gboolean
llm_template_recognise (const char       *source,
                        LlmTemplateShape *shape)
{
  g_autoptr(GString) normal = normalise (source);

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      if (!matches (&rows[i], normal->str))
        continue;
      *shape = rows[i].shape;
      if (shape->user.before == NULL && !read_spaces (shape, normal->str))
        return FALSE;
      if (g_str_equal (shape->name, "chatml"))
        find_default_system (shape, normal->str);
      shape->alternates = strstr (normal->str, "must alternate") != NULL;
      return TRUE;
    }
  return FALSE;
}

char *
llm_template_list_names (void)
{
  GString *names = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (i == 0 || !g_str_equal (rows[i].shape.name, rows[i - 1].shape.name))
      g_string_append_printf (names, "%s%s", i > 0 ? ", " : "", rows[i].shape.name);
  return g_string_free (names, FALSE);
}
