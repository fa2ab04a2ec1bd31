/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What reading a script and answering from it share. Main thread. */

#pragma once

#include "decoding/llm-script.h"

G_BEGIN_DECLS

typedef struct
{
  /* when it applies: all that is there */
  char *prompt;         /* (nullable) */
  char *contains;       /* (nullable) */
  GRegex *pattern;      /* (nullable) */
  char *system;         /* (nullable): contained in the system text */
  guint turn;           /* 0 for any */
  guint start;          /* of the service; 0 for any */

  guint times;          /* 0 for always */
  guint n_used;

  GStrv pieces;         /* (nullable): NULL refuses the call with the error */
  guint delay_ms;
  guint piece_delay_ms;
  LlmReplyEnd end;
  GError *error;        /* (nullable) */
  LlmReplyExit exit;
} LlmScriptRule;

struct _LlmScript
{
  char *path;
  guint n_ctx;
  GArray *phases;       /* (element-type LlmScriptPhase) */
  GPtrArray *rules;     /* (element-type LlmScriptRule) (owned) */
  guint start;          /* which start of the service this is, from 1 */
};

void     llm_script_rule_free (LlmScriptRule *rule);

/* llm-script-read.c: fills in @self from the text of the file. */
gboolean llm_script_read      (LlmScript     *self,
                               const char    *text,
                               gsize          length,
                               GError       **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
