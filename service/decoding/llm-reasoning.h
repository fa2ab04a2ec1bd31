/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The reasoning of a model before its answer: which tokens of what it generates are which, and what
 * must be generated for reasoning to end. Follows the tokens one by one. Text of the reasoning
 * comes out as whole UTF-8 characters, without its marks and the spaces around it. Owned by a
 * request; one thread at a time.
 */

#pragma once

#include "template/llm-template.h"

G_BEGIN_DECLS

typedef struct _LlmReasoning LlmReasoning;

/* @tokenizer must outlive it. @begin, @end: the marks as the template writes them, with spaces.
 * @thought: where the prompt ends. @budget: tokens that the reasoning may have. */
LlmReasoning *llm_reasoning_new          (LlmTokenizer       *tokenizer,
                                          const char         *begin,
                                          const char         *end,
                                          LlmThought          thought,
                                          guint               budget);
void          llm_reasoning_free         (LlmReasoning       *self);

/* Where the tokens so far end. */
LlmThought    llm_reasoning_get_thought  (const LlmReasoning *self);
/* Whether further tokens are the answer's as they are: need not be pushed. */
gboolean      llm_reasoning_is_over      (const LlmReasoning *self);
/* Tokens before the answer so far, marks included. */
guint         llm_reasoning_get_n        (const LlmReasoning *self);

/* Takes a token. What becomes known of the reasoning is appended to @text, tokens of the answer to
 * @tokens (element-type gint32), and bytes of the answer behind the mark in the same token to
 * @bytes. */
void          llm_reasoning_push         (LlmReasoning       *self,
                                          gint32              token,
                                          GString            *text,
                                          GArray             *tokens,
                                          GString            *bytes);
/* The end: what was held back. */
void          llm_reasoning_finish       (LlmReasoning       *self,
                                          GString            *text,
                                          GArray             *tokens);

/* --- for who chooses the tokens --- */

/* Whether the reasoning must end here. */
gboolean      llm_reasoning_is_spent     (const LlmReasoning *self);
/* Appends the tokens that end it here: the rest of the mark that begins the answer. */
void          llm_reasoning_add_closing  (const LlmReasoning *self,
                                          GArray             *tokens);
/* How many these are at most. */
guint         llm_reasoning_get_n_closing (const LlmReasoning *self);
/* Appends the spaces that the template writes after the mark, if the constraint of the answer
 * allows none, and the model wrote none. */
void          llm_reasoning_add_spaces   (const LlmReasoning *self,
                                          GArray             *tokens);
/* Before any token: whether @token begins the mark before reasoning; @is_whole: (out): it is all of
 * it. */
gboolean      llm_reasoning_begins       (const LlmReasoning *self,
                                          gint32              token,
                                          gboolean           *is_whole);
/* Appends the tokens of that mark. */
void          llm_reasoning_add_opening  (const LlmReasoning *self,
                                          GArray             *tokens);
/* Whether @token is one that ends answers: within reasoning it does not. */
gboolean      llm_reasoning_ends_answer  (const LlmReasoning *self,
                                          gint32              token);
/* Within reasoning: whether @token has the end of the mark and more than spaces behind it. */
gboolean      llm_reasoning_spoils       (const LlmReasoning *self,
                                          gint32              token);
/* The next token is of the answer, and all of it. */
void          llm_reasoning_begin_answer (LlmReasoning       *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmReasoning, llm_reasoning_free)

G_END_DECLS
