/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The shapes of terms, read when they are asked for. */

#include "constraints/llm-compile-work.h"
#include "constraints/schema/llm-schema-private.h"

#define MAX_SHAPES 100000
/* Of terms in terms, while one shape is read. */
#define MAX_DEPTH 100

static const LlmShape *
read_term (LlmSchema *self,
           LlmTerm    term)
{
  LlmTermNode node = *llm_schema_get_term (self, term);
  const LlmShape *shape = NULL;

  switch (node.kind)
    {
    case LLM_TERM_KIND_ANY:
      return llm_shape_new_any (self);
    case LLM_TERM_KIND_NONE:
      return llm_shape_new_none (self);
    case LLM_TERM_KIND_SCHEMA:
      return self->read_node (self, node.node);
    case LLM_TERM_KIND_LITERAL:
      return self->read_literal (self, node.node);
    case LLM_TERM_KIND_NOT:
      shape = llm_term_get_shape (self, g_array_index (node.parts, LlmTerm, 0));
      return shape != NULL ? llm_shape_not (self, shape) : NULL;
    case LLM_TERM_KIND_AND:
    default:
      for (guint i = 0; i < node.parts->len; i++)
        {
          const LlmShape *part = llm_term_get_shape (self, g_array_index (node.parts, LlmTerm, i));

          if (part == NULL)
            return NULL;
          shape = shape != NULL ? llm_shape_and (self, shape, part) : part;
          if (shape == NULL)
            return NULL;
        }
      return shape;
    }
}

const LlmShape *
llm_term_get_shape (LlmSchema *self,
                    LlmTerm    term)
{
  const LlmShape *shape = llm_schema_get_term (self, term)->shape;

  if (shape != NULL || self->error != NULL)
    return self->error == NULL ? shape : NULL;
  if (llm_schema_get_term (self, term)->is_open)
    return llm_schema_fail (self, llm_term_get_node (self, term),
                            "it refers to itself, and to nothing else");
  if (self->depth >= MAX_DEPTH || ++self->n_shapes > MAX_SHAPES || !llm_compile_work_count (100, 0))
    return llm_schema_refuse (self, llm_term_get_node (self, term), "it is too large or too deep");
  self->depth++;
  llm_schema_get_term (self, term)->is_open = TRUE;
  shape = read_term (self, term);
  if (self->error != NULL && llm_schema_leave_out (self))
    {
      LlmShape *loose = llm_shape_new_any (self);

      loose->is_loose = TRUE;
      shape = loose;
    }
  llm_schema_get_term (self, term)->is_open = FALSE;
  self->depth--;
  llm_schema_get_term (self, term)->shape = shape;
  return self->error == NULL ? shape : NULL;
}

static gboolean
array_may_hold (LlmSchema           *self,
                const LlmArrayShape *array,
                guint                depth)
{
  for (guint i = 0; i < MIN (array->min, array->prefix->len + 1); i++)
    if (!llm_term_may_hold (self,
                            i < array->prefix->len ? g_array_index (array->prefix, LlmTerm, i)
                                                   : array->rest,
                            depth))
      return FALSE;
  return TRUE;
}

static gboolean
object_may_hold (LlmSchema            *self,
                 const LlmObjectShape *object,
                 guint                 depth)
{
  for (guint i = 0; i < object->members->len; i++)
    {
      const LlmMember *member = g_ptr_array_index (object->members, i);

      if (member->is_required && !llm_term_may_hold (self, member->value, depth))
        return FALSE;
    }
  return TRUE;
}

static gboolean
shape_may_hold (LlmSchema      *self,
                const LlmShape *shape,
                guint           depth)
{
  gboolean may = shape->has_null || shape->has_false || shape->has_true
                 || !llm_automaton_is_empty (shape->numbers)
                 || !llm_automaton_is_empty (shape->strings);

  for (guint i = 0; i < shape->arrays->len && !may; i++)
    may = array_may_hold (self, g_ptr_array_index (shape->arrays, i), depth);
  for (guint i = 0; i < shape->objects->len && !may; i++)
    may = object_may_hold (self, g_ptr_array_index (shape->objects, i), depth);
  return may;
}

gboolean
llm_term_may_hold (LlmSchema *self,
                   LlmTerm    term,
                   guint      depth)
{
  const LlmJson *at = self->at;
  guint before = self->depth;
  const LlmShape *shape;

  if (term <= LLM_TERM_NONE)
    return term == LLM_TERM_ANY;
  if (depth == 0 || llm_schema_get_term (self, term)->is_open || self->error != NULL)
    return TRUE;
  shape = llm_term_get_shape (self, term);
  if (shape != NULL)
    return shape_may_hold (self, shape, depth - 1);
  /* a schema that is being read, perhaps: what is wrong with it otherwise shows when its rule is
   * made */
  g_clear_error (&self->error);
  self->is_unheld = FALSE;
  self->depth = before;
  self->at = at;
  return TRUE;
}
