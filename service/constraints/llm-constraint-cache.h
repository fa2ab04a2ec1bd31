/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Compiled constraints of answers: the last few grammars and schemas for the vocabulary in use.
 * Compiling takes from a millisecond to a second: in a thread of GLib's pool. Any thread.
 */

#pragma once

#include "constraints/llm-mask.h"
#include "model/llm-model.h"

G_BEGIN_DECLS

typedef enum
{
  LLM_CONSTRAINT_JSON,         /* any JSON object; no text */
  LLM_CONSTRAINT_JSON_SCHEMA,
  LLM_CONSTRAINT_REGEX,        /* that the whole answer matches */
  LLM_CONSTRAINT_GRAMMAR,      /* GBNF */
  LLM_CONSTRAINT_TOOLS,        /* of llm_constraint_write_tools(); needs a model */
  LLM_CONSTRAINT_LOOSE_SCHEMA, /* keywords that can't be enforced are left out, and named by the
                                * grammar */
} LlmConstraintKind;

/* (transfer full): the text for LLM_CONSTRAINT_TOOLS; see llm_tools_read(). @template_name:
 * (nullable): as in llm_model_choose_template(). */
char               *llm_constraint_write_tools (const char          *tools,
                                                const char          *choice,
                                                const char          *template_name,
                                                gboolean             is_parallel,
                                                gboolean             is_strict);

/* (transfer full) (nullable): @model: (nullable): whose calls they are. @error, in LLMSVC_ERROR,
 * says what @text is, where and what. */
LlmGrammar         *llm_constraint_compile    (LlmModel            *model,
                                               LlmConstraintKind    kind,
                                               const char          *text,
                                               GError             **error)
                                               G_GNUC_WARN_UNUSED_RESULT;

typedef struct _LlmConstraintCache LlmConstraintCache;

/* What it holds is counted in @ledger. */
LlmConstraintCache *llm_constraint_cache_new   (LlmLedger           *ledger);
LlmConstraintCache *llm_constraint_cache_ref   (LlmConstraintCache  *self);
void                llm_constraint_cache_unref (LlmConstraintCache  *self);
/* Forgets all, and keeps from now on what is compiled for @model (nullable). */
void                llm_constraint_cache_set_model (LlmConstraintCache *self,
                                                    LlmModel           *model);
/* (transfer full) (nullable): for the tokens of @model; kept, unless it is another one than was
 * set. Of calls that ask for the same at the same time one compiles it, the others wait. It takes 2
 * s of the processor's time and 64 MiB at most (llm-compile-work.h), and ends with @cancellable
 * (nullable). */
LlmMaskTable       *llm_constraint_cache_get   (LlmConstraintCache  *self,
                                                LlmModel            *model,
                                                LlmConstraintKind    kind,
                                                const char          *text,
                                                GCancellable        *cancellable,
                                                GError             **error)
                                                G_GNUC_WARN_UNUSED_RESULT;
/* (transfer full) (nullable): the same where it is there already. */
LlmMaskTable       *llm_constraint_cache_find  (LlmConstraintCache  *self,
                                                LlmModel            *model,
                                                LlmConstraintKind    kind,
                                                const char          *text);
/* Main thread. Registers the constraints that no answer uses as reclaimable with the ledger; it
 * outlives that. */
void                llm_constraint_cache_add_reclaimer (LlmConstraintCache *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmConstraintCache, llm_constraint_cache_unref)

G_END_DECLS
