/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "decoding/draft/llm-draft-tree.h"

static guint64
get_bit (guint node)
{
  return G_GUINT64_CONSTANT (1) << node;
}

void
llm_draft_tree_begin (LlmDraftTree *self,
                      gint32        token)
{
  self->n = 1;
  self->tokens[0] = token;
  self->parents[0] = self->depths[0] = 0;
  self->paths[0] = get_bit (0);
  self->confidences[0] = self->cumulative[0] = 1;
}

guint
llm_draft_tree_add (LlmDraftTree *self,
                    guint         parent,
                    gint32        token,
                    float         confidence)
{
  guint node = self->n;

  if (parent == LLM_DRAFT_NONE || node >= MIN (self->n_max, LLM_DRAFT_MAX_NODES)
      || self->depths[parent] >= self->max_depth)
    return LLM_DRAFT_NONE;
  g_assert (parent < node);

  self->n++;
  self->tokens[node] = token;
  self->parents[node] = parent;
  self->depths[node] = self->depths[parent] + 1;
  self->paths[node] = self->paths[parent] | get_bit (node);
  self->confidences[node] = confidence;
  self->cumulative[node] = self->cumulative[parent] * confidence;
  return node;
}

guint
llm_draft_tree_find_child (const LlmDraftTree *self,
                           guint               node,
                           gint32              token)
{
  for (guint i = node + 1; i < self->n; i++)
    if (self->parents[i] == node && self->tokens[i] == token)
      return i;
  return LLM_DRAFT_NONE;
}

gboolean
llm_draft_tree_is_chain (const LlmDraftTree *self,
                         guint               node)
{
  return self->depths[node] == node;
}
