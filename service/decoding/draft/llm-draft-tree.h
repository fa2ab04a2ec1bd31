/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A draft tree (C2): the rows that one step verifies for one answer. Node 0, the root, is the token
 * that was chosen last; every other node is a guess of what follows its parent. Nodes lie in the
 * order of their rows, each behind its parent: node i goes to slot base + i, and what it may see of
 * the tree is its path, as forward/llm-row.h wants it. Plain data of one thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* With the root; the bits of a path. */
#define LLM_DRAFT_MAX_NODES 64
#define LLM_DRAFT_NONE      G_MAXUINT

typedef struct
{
  guint n;                                  /* nodes; 0: nothing is proposed */
  guint n_max;                              /* nodes at most, 1 to LLM_DRAFT_MAX_NODES */
  guint max_depth;                          /* of a node at most; that of the root is 0 */
  gint32 tokens[LLM_DRAFT_MAX_NODES];
  guint parents[LLM_DRAFT_MAX_NODES];       /* of the root: 0 */
  guint depths[LLM_DRAFT_MAX_NODES];
  guint64 paths[LLM_DRAFT_MAX_NODES];       /* bit i: node i is on the path, which ends in the node
                                             * itself */
  float confidences[LLM_DRAFT_MAX_NODES];   /* that the node is right if its parent is */
  float cumulative[LLM_DRAFT_MAX_NODES];    /* that its whole path is: their product */
} LlmDraftTree;

/* An empty tree with the root @token, of at most @n_max nodes. */
void     llm_draft_tree_begin      (LlmDraftTree       *self,
                                    gint32              token);
/* Adds a guess of what follows node @parent. Returns the node, or LLM_DRAFT_NONE when there is no
 * room for it: n_max or max_depth is reached, or @parent is LLM_DRAFT_NONE. Siblings must have
 * different tokens. */
guint    llm_draft_tree_add        (LlmDraftTree       *self,
                                    guint               parent,
                                    gint32              token,
                                    float               confidence);
/* The child of @node with this token, or LLM_DRAFT_NONE. */
guint    llm_draft_tree_find_child (const LlmDraftTree *self,
                                    guint               node,
                                    gint32              token);
/* Whether the node sees all nodes before it, as in a chain. */
gboolean llm_draft_tree_is_chain   (const LlmDraftTree *self,
                                    guint               node);

G_END_DECLS
