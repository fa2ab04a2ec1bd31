/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/schema/llm-schema.h"

#include <string.h>

#include "common/llmsvc-error-private.h"
#include "constraints/llm-json-values.h"
#include "constraints/schema/llm-schema-private.h"

static void
clear_term (gpointer data)
{
  g_clear_pointer (&((LlmTermNode *) data)->parts, g_array_unref);
}

/* What it says it is; of what is not known, the newest. */
static void
read_draft (LlmSchema *self)
{
  static const struct
  {
    const char *uri;
    guint draft;
  } drafts[] = { { "json-schema.org/draft-03/", 4 }, { "json-schema.org/draft-04/", 4 },
                 { "json-schema.org/draft-06/", 6 }, { "json-schema.org/draft-07/", 7 },
                 { "json-schema.org/draft/2019-09/", 2019 },
                 { "json-schema.org/draft/2020-12/", 2020 },
                 { "json-schema.org/schema", 2020 } };
  const LlmJson *uri = llm_json_get (self->root, "$schema");

  self->draft = 2020;
  self->is_known_draft = uri == NULL;
  for (guint i = 0; i < G_N_ELEMENTS (drafts); i++)
    if (uri != NULL && uri->kind == LLM_JSON_STRING && strstr (uri->text, drafts[i].uri) != NULL)
      {
        self->draft = drafts[i].draft;
        self->is_known_draft = TRUE;
      }
}

static gboolean
schema_init (LlmSchema *self)
{
  LlmAutomaton *nothing;
  g_autoptr(LlmAutomaton) numbers = llm_json_numbers ();

  self->terms = g_array_new (FALSE, FALSE, sizeof (LlmTermNode));
  g_array_set_clear_func (self->terms, clear_term);
  self->ids = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->owned = llm_schema_new_owned ();
  self->read_node = llm_schema_read_node;
  self->read_literal = llm_schema_read_literal;
  self->resources = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->counts = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->dynamic = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  read_draft (self);
  nothing = llm_automaton_combine (numbers, numbers, LLM_COMBINE_WITHOUT);
  self->nothing = llm_schema_own_automaton (self, nothing);
  self->integers = llm_schema_own_automaton (self, llm_json_integers ());
  self->strings = llm_schema_own_automaton (self, llm_json_strings (0, LLM_NO_MAX));
  self->character = llm_schema_own_automaton (self, llm_json_strings (1, 1));
  self->numbers = llm_schema_own_automaton (self, g_steal_pointer (&numbers));
  llm_schema_find_term (self, g_strdup ("any"), LLM_TERM_KIND_ANY, NULL, NULL);
  llm_schema_find_term (self, g_strdup ("none"), LLM_TERM_KIND_NONE, NULL, NULL);
  return self->error == NULL;
}

static void
schema_clear (LlmSchema *self)
{
  g_array_unref (self->terms);
  g_hash_table_unref (self->ids);
  g_ptr_array_unref (self->owned);
  g_hash_table_unref (self->resources);
  g_hash_table_unref (self->counts);
  g_hash_table_unref (self->dynamic);
  llm_json_free (self->root);
}

gboolean
llm_schema_add_rules (LlmGrammarBuilder *builder,
                      const char        *text,
                      gsize              length,
                      const LlmArgumentTexts *syntax,
                      GPtrArray         *unheld,
                      guint32           *rule,
                      GError           **error)
{
  LlmSchema self = { .unheld = unheld };
  g_autoptr(GError) cause = NULL;
  gboolean is_made = FALSE;

  self.root = llm_json_read (text, length, &cause);
  if (self.root == NULL)
    {
      g_propagate_error (error,
                         llmsvc_error_new (cause->code, cause, "schema: %s", cause->message));
      return FALSE;
    }
  if (schema_init (&self))
    {
      llm_schema_index (&self);
      is_made = llm_schema_make_rules (&self, llm_term_schema (&self, self.root), builder,
                                       syntax, rule);
    }
  schema_clear (&self);
  if (!is_made)
    g_propagate_error (error, self.error);
  return is_made;
}

void
llm_schema_find_kinds (const char *text,
                       gsize       length,
                       const char *tool,
                       GHashTable *kinds)
{
  g_autoptr(GPtrArray) unheld = g_ptr_array_new_with_free_func (g_free);
  LlmSchema self = { .unheld = unheld };
  const LlmShape *shape = NULL;

  self.root = llm_json_read (text, length, NULL);
  if (self.root == NULL)
    return;
  if (schema_init (&self))
    {
      llm_schema_index (&self);
      shape = llm_term_get_shape (&self, llm_term_schema (&self, self.root));
    }
  for (guint i = 0; shape != NULL && i < shape->objects->len; i++)
    {
      const LlmObjectShape *object = g_ptr_array_index (shape->objects, i);

      for (guint k = 0; k < object->members->len; k++)
        {
          const LlmMember *member = g_ptr_array_index (object->members, k);
          LlmArgumentKinds found =
            llm_schema_get_kinds (&self, shape->objects, member->key, member->length);
          guint bits = (found.has_strings ? LLM_ARGUMENT_STRINGS : 0u)
                       | (found.has_others ? LLM_ARGUMENT_OTHERS : 0u);

          g_hash_table_insert (kinds, g_strconcat (tool, " ", member->key, NULL),
                               GUINT_TO_POINTER (bits));
        }
    }
  schema_clear (&self);
  g_clear_error (&self.error);
}

LlmGrammar *
llm_schema_compile (const char  *text,
                    gsize        length,
                    gboolean     is_strict,
                    GError     **error)
{
  g_autoptr(GPtrArray) unheld = is_strict ? NULL : g_ptr_array_new_with_free_func (g_free);
  g_autoptr(LlmGrammarBuilder) builder = llm_grammar_builder_new ();
  g_autoptr(GError) cause = NULL;
  LlmGrammar *grammar;
  guint32 rule;

  if (!llm_schema_add_rules (builder, text, length, NULL, unheld, &rule, error))
    return NULL;
  grammar = llm_grammar_new (builder, rule, &cause);
  if (grammar == NULL)
    g_propagate_error (error,
                       llmsvc_error_new (cause->code, cause, "schema: #: %s", cause->message));
  else if (!is_strict)
    llm_grammar_set_unheld (grammar, unheld);
  return grammar;
}
