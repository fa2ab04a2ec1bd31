/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How a draft tree grows: which node's continuations are asked for next, when it is verified, and
 * which of the known nodes are its rows. docs/drafts.md derives the rules. Pure: no clock, no
 * source; continuations may come late and in any order. Plain data of one thread.
 */

#pragma once

#include "decoding/draft/llm-draft-record.h"
#include "decoding/draft/llm-draft-tree.h"

G_BEGIN_DECLS

/* Tokens that an answer's trees may lose before any of them was right, unless other answers say
 * more. */
#define LLM_GROWTH_CREDIT 0.5

/* Nodes that one tree may know of, rows or not. */
#define LLM_GROWTH_MAX_NODES  512
#define LLM_GROWTH_MAX_WIDTHS 8
/* Continuations of one node that are looked at. */
#define LLM_DRAFT_MAX_CANDIDATES 8

/* A rule of growth. */
typedef struct
{
  guint n_nodes;                        /* guesses at most; 0: as many as a tree takes */
  gboolean by_cost;                     /* asks, and takes rows, as long as tokens per time rise;
                                         * else up to n_nodes, and all are rows */
  double due;                           /* next is the node with the most of these two: the tokens
                                         * that its branch is due, by its confidence, */
  double depth;                         /* less those that it has */
  guint widths[LLM_GROWTH_MAX_WIDTHS];  /* likeliest tokens that a node of depth d gets, the last
                                         * width for all below */
  guint n_widths;                       /* 0: all candidates */
  guint n_depths;                       /* 0: any depth */
  double threshold;                     /* least confidence of a token that is not the likeliest */
  double alpha;                         /* least confidence of the likeliest branch, at first; 0:
                                         * none */
  gboolean goes_ahead;                  /* while a step waits, with what may follow its tree */
} LlmGrowthConfig;

/* The service's. */
#define LLM_GROWTH_CONFIG_BEST \
  ((LlmGrowthConfig) { .by_cost = TRUE, .due = 1, .goes_ahead = TRUE })
#define LLM_GROWTH_MIN_ALPHA 1e-4
#define LLM_GROWTH_MAX_ALPHA 0.5

/* What the next step, and drafting for it, costs: measured. */
typedef struct
{
  double verify_us[LLM_DRAFT_MAX_NODES + 1]; /* [n] of a step with n rows of this answer, n ≥ 1 */
  double read_us;                       /* of the weights that stream for a pass: no step is
                                         * shorter; 0: they are in memory */
  double draft_us;                      /* of one draft step */
  double n_others;                      /* tokens that the same step brings other answers */
} LlmDraftCosts;

typedef struct
{
  gint32 token;
  float confidence;                     /* that it follows, if what is before it is right */
} LlmDraftCandidate;

typedef struct
{
  gint32 token;
  guint parent;                         /* of the root: 0 */
  guint depth;
  float confidence;
  double cumulative;
  gboolean is_asked;                    /* its continuations were asked for, or came */
  gboolean is_ahead;                    /* it came while the step before its own waited */
  guint n_children;
} LlmGrowthNode;

typedef struct
{
  LlmGrowthConfig config;
  LlmDraftCosts costs;
  double alpha;                         /* over all trees */
  double surplus;                       /* of the tree that was learned from last, in tokens */
  double credit;                        /* tokens that trees may still lose */
  LlmGrowthNode nodes[LLM_GROWTH_MAX_NODES]; /* 0: the root */
  guint n;
  guint order[LLM_GROWTH_MAX_NODES];    /* guesses by falling cumulative confidence, parents before
                                         * children */
  guint n_steps;                        /* draft steps taken for this tree */
  double late_us;                       /* that they took longer than the costs say; added to by
                                         * who takes them */
  gboolean is_ahead;                    /* the node that was asked last is for a later one */
} LlmDraftGrowth;

/* @config: copied. */
void   llm_draft_growth_init      (LlmDraftGrowth          *self,
                                   const LlmGrowthConfig   *config);
/* A new tree, of a root alone. @costs: copied. */
void   llm_draft_growth_begin     (LlmDraftGrowth          *self,
                                   const LlmDraftCosts     *costs);
/* The node whose continuations are worth asking for next, marked as asked; LLM_DRAFT_NONE: what is
 * known is to be verified. May be called again before the continuations came. */
guint  llm_draft_growth_next      (LlmDraftGrowth          *self);
/* While the tree is verified: the likeliest node whose continuations are not known, if they are no
 * deeper than @max_depth, marked as asked (C7). It may be one of the tree's or behind it: what was
 * likeliest before is likeliest to be the next root's. LLM_DRAFT_NONE: enough is known. */
guint  llm_draft_growth_next_ahead (LlmDraftGrowth         *self,
                                   guint                    max_depth);
/* What may follow @node: different tokens, falling confidence; a step of the draft was spent, which
 * counts for no tree when it was taken ahead. */
void   llm_draft_growth_expand    (LlmDraftGrowth          *self,
                                   guint                    node,
                                   const LlmDraftCandidate *candidates,
                                   guint                    n);
/* Tokens from below the root to @node; returns how many, at most LLM_GROWTH_MAX_NODES. */
guint  llm_draft_growth_get_path  (const LlmDraftGrowth    *self,
                                   guint                    node,
                                   gint32                  *tokens);
/* Rows that the tree is worth now, with the root: 1 when drafting does not pay. */
guint  llm_draft_growth_count_rows (const LlmDraftGrowth   *self);
/* Tokens that a step with @n rows is expected to bring this answer. */
double llm_draft_growth_expect    (const LlmDraftGrowth    *self,
                                   guint                    n);
/* Adds to @tree, which has its root, the rows that the tree is worth, likeliest first, as far as
 * its limits allow. Returns how many of them were guessed ahead. */
guint  llm_draft_growth_fill      (const LlmDraftGrowth    *self,
                                   LlmDraftTree            *tree);
/* @tree, the last that was begun, was verified: its nodes were right down to @node. Sets α, or the
 * credit by what the tree brought and cost. */
void   llm_draft_growth_learn     (LlmDraftGrowth          *self,
                                   const LlmDraftTree      *tree,
                                   guint                    node);

/* The child of @node with this token, or LLM_DRAFT_NONE. */
guint  llm_draft_growth_find_child (const LlmDraftGrowth   *self,
                                   guint                    node,
                                   gint32                   token);
/* What each node would be if @node, which is not the root, became the root: LLM_DRAFT_NONE for
 * those that are not below it. @numbers: (array length=LLM_GROWTH_MAX_NODES). */
void   llm_draft_growth_number    (const LlmDraftGrowth    *self,
                                   guint                    node,
                                   guint                   *numbers);
/* A new tree: the text has gone on to @node, and what is known below it stays. */
void   llm_draft_growth_keep      (LlmDraftGrowth          *self,
                                   const LlmDraftCosts     *costs,
                                   guint                    node);

G_END_DECLS
