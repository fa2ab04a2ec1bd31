/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What templates know of thinking: the marks around reasoning, where a prompt ends with thinking on
 * and off, and what becomes of the reasoning of earlier answers. */

#include "model/llm-model.h"

#include <string.h>

#include "common/llmsvc-error.h"

static LlmTemplate *
open_template (const char *name)
{
  g_autofree char *file = g_strconcat (name, ".jinja", NULL);
  g_autofree char *path = g_build_filename (g_getenv ("LLM_TEST_DATA"), "templates", file, NULL);
  g_autofree char *source = NULL;
  g_autoptr(GError) error = NULL;
  LlmTemplate *self;

  g_file_get_contents (path, &source, NULL, &error);
  g_assert_no_error (error);
  self = llm_template_new (source, NULL, name, &error);
  g_assert_no_error (error);
  return self;
}

/* (transfer full) */
static char *
render (LlmTemplate      *self,
        const LlmMessage *messages,
        guint             n_messages,
        LlmThinking       thinking,
        LlmThought       *thought)
{
  LlmTemplateCall call = { .messages = messages, .n_messages = n_messages, .open_answer = TRUE,
                           .thinking = thinking };
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmPrompt) prompt = llm_template_render (self, &call, &error);
  GString *text = g_string_new (NULL);

  g_assert_no_error (error);
  *thought = prompt->thought;
  for (guint i = 0; i < prompt->parts->len; i++)
    {
      const LlmTextPart *part = &g_array_index (prompt->parts, LlmTextPart, i);

      g_string_append_len (text, part->text, (gssize) part->length);
    }
  return g_string_free (text, FALSE);
}

static void
test_dump (void)
{
  g_autofree char *folder = g_build_filename (g_getenv ("LLM_TEST_DATA"), "templates/public", NULL);
  g_autoptr(GDir) dir = g_dir_open (folder, 0, NULL);
  const char *name;
  while ((name = g_dir_read_name (dir)))
    if (g_str_has_suffix (name, ".jinja"))
      {
        g_autofree char *base = g_strndup (name, strlen (name) - 6);
        g_autofree char *full = g_strconcat ("public/", base, NULL);
        g_autoptr(LlmTemplate) self = open_template (full);
        const LlmTemplateFeatures *f = llm_template_get_features (self);
        g_autofree char *b = g_strescape (f->think_begin ? f->think_begin : "-", NULL);
        g_autofree char *e = g_strescape (f->think_end ? f->think_end : "-", NULL);
        g_print ("# %s: think=%d [%s] [%s] switch=%d all=%d key=%s keeps=%d\n", base, f->has_thinking, b, e, f->has_switch, f->switches_all, f->reasoning_key, f->keeps_reasoning);
        if (f->has_thinking)
          for (int t = 0; t < 3; t++)
            {
              const LlmMessage m[] = { { (char *) "user", (char *) "Hello" } };
              LlmThought th;
              g_autofree char *text = render (self, m, 1, t, &th);
              g_autofree char *tail = g_strescape (strlen (text) > 70 ? text + strlen (text) - 70 : text, NULL);
              g_print ("#     %d -> %d %s\n", t, th, tail);
            }
      }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/thinking/dump", test_dump);
  return g_test_run ();
}
