/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the service answers instead of a model's words: rules from a JSON file,
 * tried in order (docs/mock.md has the format). The rest of the service knows of
 * it by three things: the model that stands in for a real one, the phases of
 * availability, and an LlmReply for each call. Main thread.
 */

#pragma once

#include <gio/gio.h>

#include "decoding/llm-scripted-decoder.h"
#include "model/llm-catalogue.h"

G_BEGIN_DECLS

typedef struct _LlmScript LlmScript;

typedef enum
{
  LLM_SCRIPT_READY,
  LLM_SCRIPT_LOADING,
  LLM_SCRIPT_NO_MODEL,
  LLM_SCRIPT_FAILED,
} LlmScriptState;

/* One entry of "availability". */
typedef struct
{
  LlmScriptState state;
  char *reason;         /* (nullable): of LLM_SCRIPT_FAILED */
  guint for_ms;         /* 0 for the last one, which stays */
} LlmScriptPhase;

/* What rules look at. */
typedef struct
{
  const char *prompt;   /* the last message of the user's, "" for none */
  const char *system;   /* all system texts, "" for none */
  guint turn;           /* answers before this one, and one */
} LlmScriptQuestion;

/* Reads and checks all of it. The error names file, place, fault and what is allowed. */
LlmScript            *llm_script_load          (const char  *path,
                                                GError     **error) G_GNUC_WARN_UNUSED_RESULT;
void                  llm_script_free          (LlmScript   *self);

/* Notes in @state_folder that the service has started once more, which rules can
 * ask for; without a folder (nullable) each start is the first. Blocks. */
gboolean              llm_script_count_start   (LlmScript   *self,
                                                const char  *state_folder,
                                                GError     **error) G_GNUC_WARN_UNUSED_RESULT;

/* As the file was given on the command line. */
const char           *llm_script_get_path      (LlmScript   *self);
/* (nullable): NULL behind the last one; there is always a first. */
const LlmScriptPhase *llm_script_get_phase     (LlmScript   *self,
                                                guint        index);
/* (transfer full): the model that stands in for a real one. */
LlmModelInfo         *llm_script_make_model    (LlmScript   *self);

/**
 * llm_script_answer:
 * @tokenizer: the stand-in's
 * @question: what is asked
 * @error: return location for an error
 *
 * Takes the first rule that applies, and counts its use.
 *
 * Returns: (transfer full): the reply, or %NULL with the error that the rule
 *   refuses the call with, or that no rule applies
 */
LlmReply             *llm_script_answer        (LlmScript               *self,
                                                LlmTokenizer            *tokenizer,
                                                const LlmScriptQuestion *question,
                                                GError                 **error)
  G_GNUC_WARN_UNUSED_RESULT;

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmScript, llm_script_free)

G_END_DECLS
