/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The façade: models, contexts, answers, memory and statistics, for the bus and for the in-process
 * tool alike. Main thread; nothing here blocks: asynchronous results are those of a GTask. Errors
 * are of LLMSVC_ERROR.
 */

#pragma once

#include <gio/gio.h>

#include "common/llm-call-options.h"
#include "accounts/llm-app-account.h"
#include "accounts/llm-caller.h"
#include "engine/calls/llm-context-calls.h"
#include "engine/calls/llm-generation.h"
#include "engine/llm-settings.h"
#include "memory/llm-pressure.h"
#include "model/llm-catalogue.h"
#include "runtime/llm-draft-model.h"

G_BEGIN_DECLS

#define LLM_TYPE_ENGINE (llm_engine_get_type ())
G_DECLARE_FINAL_TYPE (LlmEngine, llm_engine, LLM, ENGINE, GObject)

/* Opens neither models nor stored contexts yet. */
LlmEngine         *llm_engine_new              (LlmSettings *settings);

/* Begins to look for models and to open the database; returns at once. A database that can't be
 * opened is tried again until it can. Meanwhile calls that need it fail with STORAGE; all others
 * run with default quotas and the default model. */
void               llm_engine_start            (LlmEngine   *self);
/* Waits until models, stored contexts and quotas are known, or the database can't be read; fails
 * when the engine is stopped before. */
void               llm_engine_await_start      (LlmEngine          *self,
                                                GAsyncReadyCallback callback,
                                                gpointer            data);
/* The same for calls that need the database: fails with STORAGE when it can't be read. */
void               llm_engine_await_stored     (LlmEngine          *self,
                                                GAsyncReadyCallback callback,
                                                gpointer            data);
/* The same, after a new scan of the model folders. */
void               llm_engine_await_scan       (LlmEngine          *self,
                                                GAsyncReadyCallback callback,
                                                gpointer            data);
/* Sends a heartbeat to the executor's thread; returns how many before it are unanswered. */
guint              llm_engine_probe            (LlmEngine   *self);

/* Signal "script-exit" (): the script that the service answers from says that it crashes now. */

/* Cancels all requests and closes the database and storage; waits for running commits. Blocks: for
 * the end of the process. */
void               llm_engine_stop             (LlmEngine   *self);

/* @draft: drafts for answers of calls with `draft` = `auto`, from the next one on, instead of the
 * configured draft; a call fails if it does not share the vocabulary of the model that answers. */
void               llm_engine_set_draft         (LlmEngine     *self,
                                                LlmDraftModel *draft);

/* (nullable) (transfer none): id of the model that the configuration names as draft of @model. */
const char        *llm_engine_find_draft        (LlmEngine   *self,
                                                 const char  *model);
/* Whether the configuration names it as the draft of others. */
gboolean           llm_engine_is_draft          (LlmEngine   *self,
                                                 const char  *id);
/* (transfer full): why the draft of @info, if it has one, can't be used; "" if it can. */
char              *llm_engine_explain_draft     (LlmEngine   *self,
                                                 const LlmModelInfo *info);
/* (transfer floating): aa{sv}: what each sub-model of @info has of the whole model, and how good it was
 * measured to be; none while it is not in use. */
GVariant          *llm_engine_describe_levels   (LlmEngine   *self,
                                                 const LlmModelInfo *info);
/* Likewise: what answers can leave out, and what that was measured to lose. */
GVariant          *llm_engine_describe_sparsities (LlmEngine *self,
                                                 const LlmModelInfo *info);
/* How long prompts of a model are computed if a call does not say. */
typedef struct
{
  const char *way;       /* of the option `prefill`, "w8a8" or "exact"; "": it is not in use */
  const char *reason;    /* why exactly, as results have it; "": it is not */
  double growth;         /* of perplexity and divergence in W8A8, as calibrated; 0 without it */
  double divergence;
  double speedup;        /* of products, measured here; 0: not measured */
} LlmPrefillState;

LlmPrefillState    llm_engine_explain_prefill   (LlmEngine   *self,
                                                 const LlmModelInfo *info);
/* Acceptance of drafted tokens, of answers that have ended. */
typedef struct
{
  guint64 n_drafted;            /* that were verified */
  guint64 n_accepted;           /* of them accepted */
  guint64 n_passes;             /* decode steps of these answers */
} LlmDraftSums;
/* For @model, or for all with NULL. */
LlmDraftSums       llm_engine_sum_drafts        (LlmEngine   *self,
                                                 const char  *model);

/* Optional features, for `Features`. NULL-terminated. */
const char *const *llm_engine_get_features     (LlmEngine   *self);

/* --- models ---
 * Signals: "availability-changed" (), when one of these changed, or which model is in use;
 * "models-changed" (), when the list did; "load-progress" (), some times a second while weights are
 * made ready. */

/* "ready", "loading", "no-model", "disabled" or "failed". */
const char        *llm_engine_get_availability (LlmEngine   *self);
/* Bytes loaded, of @total_bytes, which is 0 while no model is being loaded. */
guint64            llm_engine_get_load_progress (LlmEngine  *self,
                                                guint64     *total_bytes);
/* (nullable): NULL without a reason. */
const GError      *llm_engine_get_availability_reason (LlmEngine *self);
/* (nullable): the model in use. */
LlmModelInfo      *llm_engine_get_active_model (LlmEngine   *self);
/* (transfer full): percent of the model that each of its sub-models has; empty while it is not
 * loaded. */
GStrv              llm_engine_list_sub_models  (LlmEngine   *self,
                                                const LlmModelInfo *info);
/* Percent of the model that stays in memory, less than 100 under memory pressure; 0 while it is not
 * loaded. */
guint              llm_engine_get_held_sub_model (LlmEngine *self,
                                                const LlmModelInfo *info);
/* (element-type LlmModelInfo) (transfer none): also those that can't be used. */
GPtrArray         *llm_engine_get_models       (LlmEngine   *self);

/* Changes the model for everyone and loads it; the old one stays when that fails. */
void               llm_engine_select_model_async  (LlmEngine          *self,
                                                   const char         *id,
                                                   GAsyncReadyCallback callback,
                                                   gpointer            data);
/* Loads the model now. */
void               llm_engine_prewarm_async    (LlmEngine          *self,
                                                GAsyncReadyCallback callback,
                                                gpointer            data);

/* --- power --- */

/* How background requests run follows from these and the settings. @saves: the user wants to save
 * power. */
void               llm_engine_set_power        (LlmEngine   *self,
                                                gboolean     is_on_battery,
                                                gboolean     saves);
/* The machine is about to sleep: requests are suspended, and unwritten data is written, as far as
 * that takes no more than two seconds; then it may sleep. llm_engine_resume() ends this, also
 * before it has finished. */
void               llm_engine_suspend_async    (LlmEngine          *self,
                                                GAsyncReadyCallback callback,
                                                gpointer            data);
void               llm_engine_resume           (LlmEngine   *self);

/* --- answers without a context --- */

/* Options: LLMSVC_CALL_COMPLETE. As llm_context_generate_async(). */
void               llm_engine_complete_async   (LlmEngine          *self,
                                                LlmCaller          *caller,
                                                const char         *prompt,
                                                LlmCallOptions     *options,
                                                LlmSink            *sink,
                                                GAsyncReadyCallback callback,
                                                gpointer            data);
/* Returns their number. */
void               llm_engine_count_tokens_async  (LlmEngine          *self,
                                                   LlmCaller          *caller,
                                                   GVariant           *messages,
                                                   LlmCallOptions     *options,
                                                   GAsyncReadyCallback callback,
                                                   gpointer            data);

/* --- contexts --- */

/* Options: LLMSVC_CALL_CREATE_CONTEXT. Waits until the database is open. */
void               llm_engine_create_context_async  (LlmEngine          *self,
                                                     LlmCaller          *caller,
                                                     LlmCallOptions     *options,
                                                     GAsyncReadyCallback callback,
                                                     gpointer            data);
/* Options: LLMSVC_CALL_OPEN_CONTEXT. */
void               llm_engine_open_context_async    (LlmEngine          *self,
                                                     LlmCaller          *caller,
                                                     const char         *name,
                                                     LlmCallOptions     *options,
                                                     GAsyncReadyCallback callback,
                                                     gpointer            data);
/* (nullable) (transfer none): NULL also for what the caller may not see, and
 * before the database is open. */
LlmContext        *llm_engine_lookup_context        (LlmEngine          *self,
                                                     LlmCaller          *caller,
                                                     const char         *id);
/* (element-type LlmContext) (transfer full): what llm_engine_lookup_context() finds, by name. */
GPtrArray         *llm_engine_get_contexts          (LlmEngine          *self,
                                                     LlmCaller          *caller);
/* The same for answers under way; a recently ended one is found, but not listed. */
LlmGeneration     *llm_engine_lookup_generation     (LlmEngine          *self,
                                                     LlmCaller          *caller,
                                                     const char         *id);
GPtrArray         *llm_engine_get_generations       (LlmEngine          *self,
                                                     LlmCaller          *caller);
/* Cancels the connection's answers and ends its unnamed contexts. */
void               llm_engine_caller_gone           (LlmEngine          *self,
                                                     const char         *connection);

/* --- memory ---
 * Signal "memory-changed" (): at most once a second. */

typedef struct
{
  const char *pressure;        /* "none", "low", "medium", "critical" */
  guint64 budget;              /* 0: no limit of its own */
  guint64 resident;
  guint64 weights;
  guint64 kv_resident;
  guint64 kv_compressed;
  guint64 kv_swapped;
  guint64 reclaimable[3];      /* by LlmReclaimCost: free, cheap, costly */
  guint sub_model;             /* percent */
} LlmMemoryFigures;

void               llm_engine_get_memory            (LlmEngine          *self,
                                                     LlmMemoryFigures   *figures);
/* Options: LLMSVC_CALL_SET_BUDGET, `bytes` among them. Reclaims memory over the new budget. */
void               llm_engine_set_budget_async      (LlmEngine          *self,
                                                     LlmCallOptions     *options,
                                                     GAsyncReadyCallback callback,
                                                     gpointer            data);
/* Options: LLMSVC_CALL_TRIM. Returns `a{sv}`. */
void               llm_engine_trim_async            (LlmEngine          *self,
                                                     LlmCaller          *caller,
                                                     LlmPressure         level,
                                                     LlmCallOptions     *options,
                                                     GAsyncReadyCallback callback,
                                                     gpointer            data);

/* --- administration --- */

/* Adds to an `a{sv}`: numbers only, each key once. Process figures are up to 100 ms old. */
void               llm_engine_add_statistics        (LlmEngine          *self,
                                                     GVariantBuilder    *builder);
/* (transfer full): `aa{sv}`, not floating: of @uid's applications, or of all
 * when @all_users. */
GVariant          *llm_engine_list_apps             (LlmEngine          *self,
                                                     guint32             uid,
                                                     gboolean            all_users);
/* The rate and size limits that the bus enforces for @caller's application. */
void               llm_engine_get_limits            (LlmEngine          *self,
                                                     const LlmCaller    *caller,
                                                     LlmAppLimits       *limits);
/* FALSE with STORAGE while contexts, quotas and the chosen model can't be read. */
gboolean           llm_engine_check_stored          (LlmEngine          *self,
                                                     GError            **error);
/* Quotas of @uid's application @app_id, or of all applications without quotas of
 * their own when it is "". Options: LLMSVC_CALL_SET_QUOTA. */
void               llm_engine_set_quota_async       (LlmEngine          *self,
                                                     guint32             uid,
                                                     const char         *app_id,
                                                     LlmCallOptions     *options,
                                                     GAsyncReadyCallback callback,
                                                     gpointer            data);

G_END_DECLS
