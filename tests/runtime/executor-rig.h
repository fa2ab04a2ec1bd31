/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* An executor with one or two real models, without an engine, and requests to it. */

#pragma once

#include "runtime/llm-executor-private.h"
#include "weights/llm-repacked-cache.h"

G_BEGIN_DECLS

typedef struct
{
  LlmMailbox *box;
  LlmLedger *ledger;
  LlmExecutor *executor;
  LlmModel *models[2];
  GString *order;          /* of texts: a letter for each request that had one */
  guint n_ctx;             /* of a request */
  gboolean has_markup;     /* prompts have the model's own */
  float penalty;           /* of tokens that were used before */
  const char *stop;        /* (nullable): ends answers */
  const char *context;     /* (nullable): whose folder on storage sessions have */
  void (*on_text) (LlmRequest *request); /* (nullable): further, when an answer has text */
} Rig;

typedef struct
{
  Rig *rig;
  char letter;
  GArray *tokens;          /* (owned) */
  char *text;              /* (owned) */
  guint n_reused;
  guint n_drafted, n_accepted, n_passes, n_kept;
  double tpot_ms;
  LlmFinish finish;
  gboolean is_done;
  LlmRequest *request;     /* (unowned): while it runs */
} Outcome;

void        outcome_clear (Outcome    *outcome);
/* @kv_ratio: as in LlmExecutorConfig. */
void        rig_init      (Rig        *rig,
                           double      kv_ratio);
/* With one model only. @chunks_folder: (nullable): where chunks are written. */
void        rig_init_with (Rig        *rig,
                           const char *path,
                           guint       n_threads,
                           const char *chunks_folder);
void        rig_clear     (Rig        *rig);
/* @cache: (nullable): where prepared weights lie; NULL to have them in memory. */
void        rig_load_from (Rig        *rig,
                           guint       instance,
                           LlmRepackedCache *cache);
void        rig_load      (Rig        *rig,
                           guint       instance);
void        rig_unload    (Rig        *rig,
                           guint       instance);
/* What contexts have in memory goes. */
void        rig_evict     (Rig        *rig);
/* Dispatches until @flag is set. */
void        rig_wait_for  (Rig        *rig,
                           gboolean   *flag);
/* (transfer full): no answer ends by itself. */
LlmDecoder *rig_new_plain (Rig        *rig,
                           guint       instance,
                           double      temperature,
                           guint64     seed);
/* @decoder: (transfer full). */
void        rig_submit    (Rig        *rig,
                           guint       instance,
                           LlmDecoder *decoder,
                           const char *prompt,
                           guint       n_tokens,
                           guint64     session,
                           Outcome    *outcome);

G_END_DECLS
