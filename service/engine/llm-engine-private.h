/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files of the façade share. Main thread. */

#pragma once

#include "base/llm-journal.h"
#include "memory/llm-ledger.h"
#include "base/llm-mailbox.h"
#include "accounts/llm-app-account.h"
#include "accounts/llm-db.h"
#include "constraints/llm-constraint-cache.h"
#include "contexts/llm-context-store.h"
#include "contexts/llm-context.h"
#include "engine/llm-engine.h"
#include "runtime/llm-executor.h"
#include "io/llm-folder-watch.h"
#include "memory/llm-governor.h"
#include "model/llm-companion.h"
#include "weights/llm-levels.h"
#include "weights/llm-repacked-cache.h"

G_BEGIN_DECLS

/* Calls of one class: that ended with an answer, or were refused because others wait. */
typedef struct
{
  guint64 met;
  guint64 missed;
  guint64 refused;
} LlmSloCounters;

/* What the system and the C library say of the process. */
typedef struct
{
  gint64 read_us;               /* 0: never */
  guint64 heap_bytes;
  guint64 resident_bytes;
} LlmProcessFigures;

/* Counters since the start. */
typedef struct
{
  guint64 requests;
  guint64 failed;
  guint64 cancelled;
  guint64 prompt_tokens;
  guint64 reused_tokens;
  guint64 output_tokens;
  LlmSloCounters slo[LLM_N_SLO_CLASSES];
  guint64 forecasts;            /* of the time to a first token that came */
  double forecast_error_ms;     /* how wrong they were, in sum */
  guint64 model_loads;
  guint64 model_unloads;
  guint64 draft_loads;
  guint64 trims;
  guint64 trimmed_bytes;
  guint64 lowered_calls;        /* that a sub-model answered because memory is short */
} LlmEngineCounters;

/* What the engine can give back. */
typedef enum
{
  LLM_ENGINE_SCRATCH,           /* of the forward pass */
  LLM_ENGINE_KV,                /* context memory that no call uses */
  LLM_ENGINE_TEXT,              /* that the database also has */
  LLM_ENGINE_CONSTRAINTS,       /* compiled, of no running call */
  LLM_ENGINE_DRAFT,             /* weights of a model that only guesses */
  LLM_ENGINE_TAIL,              /* weights that no running call uses, as a sub-model answers it */
  LLM_ENGINE_CALLS,             /* context memory of running calls */
  LLM_ENGINE_PAGES,             /* weights that stay usable */
  LLM_ENGINE_WEIGHTS,           /* with the model */
  LLM_N_ENGINE_HOLDERS,
} LlmEngineHolderKind;

typedef struct
{
  LlmEngine *engine;            /* (unowned) */
  LlmEngineHolderKind kind;
} LlmEngineHolder;

/* The database, and what of it is in memory. */
typedef struct
{
  LlmDb *db;                    /* (nullable) before the start */
  GError *db_error;             /* (nullable): why it is not known what is stored */
  gboolean is_loading_index;
  gboolean is_index_stale;      /* the database was lost while its index was read */
  gboolean is_salvaged;         /* what could be read was copied, and not read since */
  guint retry_timer;            /* source: tries the database again */

  GHashTable *contexts;         /* (element-type utf8 LlmContext) (owned) */
  GPtrArray *making;            /* (element-type GTask) (unowned): make contexts that are not in
                                 * there yet */
  char *identity;               /* (nullable): of the model that was loaded last, which counts
                                 * tokens */
  GQueue uncounted;             /* (element-type LlmContext) (owned): to be counted by it */
  gboolean is_counting;         /* one of them */
  guint64 last_session;
} LlmEngineStore;

/* What must be known before the first call: models and the index of contexts. */
typedef struct
{
  gboolean has_catalogue;
  gboolean has_index;
  GQueue waiting_start;         /* (element-type GTask) (owned) */
} LlmEngineStart;

/* Stands in for a model. */
typedef struct
{
  LlmModelInfo *mock;           /* (nullable) */
  guint phase;                  /* of the script's availability */
  guint phase_timer;            /* source */
} LlmEngineScript;

/* Models that there are. */
typedef struct
{
  GPtrArray *found;             /* (element-type LlmModelInfo) (owned): by the last scan */
  GPtrArray *models;            /* (element-type LlmModelInfo) (owned): these, and what is loaded as
                                 * it was when it was loaded */
  LlmFolderWatch *watch;        /* (nullable) (owned): of the folders */
  gboolean is_scanning;
  gboolean shall_scan;          /* once more, after that */
  GQueue waiting_scan;          /* (element-type GTask) (owned): for the one under way */
  GQueue waiting_next_scan;     /* (element-type GTask) (owned): for one that begins later */
} LlmEngineCatalogue;

/* The model in use. */
typedef struct
{
  LlmModelInfo *active;         /* (nullable) */
  char *chosen;                 /* (nullable): id that SelectModel chose */
  const char *availability;
  GError *reason;               /* (nullable): of the availability */
  LlmModel *model;              /* (nullable): loaded */
  LlmCompanion *companion;      /* (nullable) (owned): of the model that is loaded */
  GError *levels_error;         /* (nullable): why the one that is there can't be used */
  LlmConstraintCache *constraints; /* (owned): compiled for it */
  gboolean is_suspect;          /* its file changed under us: open it anew */
  gint64 idle_since_us;
} LlmEngineUse;

/* How it is loaded. */
typedef struct
{
  gboolean is_loading;
  GError *load_error;           /* (nullable): the last load's */
  LlmRepackProgress load;       /* atomic: of the one under way */
  guint64 told_load_bytes;      /* of it, told last */
  guint load_timer;             /* source: tells it */
  struct _LlmCrashMark *crash_mark; /* (nullable) (owned): from the start on */
  GQueue waiting_model;         /* (element-type GTask) (owned) */
} LlmEngineLoading;

/* What guesses for it. */
typedef struct
{
  LlmDraftModel *draft;         /* (nullable) */
  char *draft_id;               /* (nullable): of the configured one, while it is there */
  LlmModel *draft_target;       /* (nullable) (unowned): whose tokens the draft is known to have */
  gboolean is_loading_draft;
  GError *draft_error;          /* (nullable): why the configured one can't be used */
  gboolean has_checked_drafts;
  GHashTable *draft_records;    /* (element-type utf8 LlmDraftRecord) (owned): by the id of the
                                 * model, a line feed, and that of the source */
} LlmEngineDrafts;

typedef struct
{
  GHashTable *generations;      /* (element-type utf8 LlmGeneration) (owned) */
  GQueue ended;                 /* (element-type LlmGeneration) (owned): the last ones, newest
                                 * first */
  guint n_calls;                /* under way */
  guint n_requests_running;     /* at the executor */
} LlmEngineCalls;

typedef struct
{
  GHashTable *apps;             /* (element-type utf8 LlmAppAccount) (owned) */
  guint64 n_app_lookups;        /* so far: which of apps was asked for last */
  double default_quota[LLM_N_QUOTAS];
} LlmEngineApps;

typedef struct
{
  guint64 budget;               /* as set; 0: the service decides */
  guint context_ratio;          /* percent, as set; 0: floats */
  LlmEngineHolder holders[LLM_N_ENGINE_HOLDERS]; /* of memory, as reclaimers */
  GHashTable *holds;            /* (element-type utf8 guint): connection → level of a trim with
                                 * hold */
  LlmGovernor *governor;
  LlmMemoryFigures told;        /* as of the last memory-changed */
  gboolean is_trimming_again;
  LlmMemoryLowered lowered;     /* whose new calls a sub-model answers */
  gint64 widened_us;            /* when chunks of contexts were last told to get their bits back */
} LlmEngineMemory;

typedef struct
{
  gboolean is_on_battery;
  gboolean saves;               /* the user wants to save power */
  gboolean has_waited;          /* background calls, as long as they have to */
  LlmPace pace;
  guint64 suspends;             /* so far */
  guint timer;                  /* source */
} LlmEnginePower;

struct _LlmEngine
{
  GObject parent_instance;

  LlmSettings *settings;
  LlmLedger *ledger;
  LlmJournal *journal;
  LlmMailbox *main_box;
  LlmExecutor *executor;

  LlmEngineStore store;
  LlmEngineStart start;
  LlmEngineScript script;
  LlmEngineCatalogue catalogue;
  LlmEngineUse use;
  LlmEngineLoading loading;
  LlmEngineDrafts drafts;
  LlmEngineCalls calls;
  LlmEngineApps accounts;
  LlmEngineMemory memory;
  LlmEnginePower power;
  LlmEngineCounters counters;
  LlmProcessFigures process;
};

/* llm-engine-state.c */
/* For llm_db_run_async(): returns TRUE or the error. @data: (transfer full): the task. */
void           llm_engine_return_stored         (GObject              *source,
                                                 GAsyncResult         *result,
                                                 gpointer              data);
/* Empties @queue (element-type GTask); all get @error (nullable), else @model (nullable), else
 * TRUE. */
void           llm_engine_end_waiting           (GQueue               *queue,
                                                 LlmModel             *model,
                                                 const GError         *error);
/* Says what has become of the model, if that is new. */
/* Models are known, and what is stored or why it is not. */
gboolean       llm_engine_has_started           (LlmEngine            *self);
void           llm_engine_update_availability   (LlmEngine            *self);
/* While a model is loaded: how far that is, is told. */
void           llm_engine_begin_load_progress   (LlmEngine            *self);
void           llm_engine_end_load_progress     (LlmEngine            *self);
/* (transfer full): where models are looked for, as in a search path. */
char          *llm_engine_describe_folders      (LlmEngine            *self);
/* (transfer full) */
LlmContext    *llm_engine_new_context           (LlmEngine            *self,
                                                 LlmApp               *app,
                                                 const char           *id);
LlmExecutorFigures llm_engine_get_figures       (LlmEngine            *self);

/* llm-engine-store.c */
void           llm_engine_store_start           (LlmEngine            *self);
/* Waits for transactions under way. */
void           llm_engine_store_stop            (LlmEngine            *self);

/* llm-engine-folders.c */
/* Reads the folders, now or once more, and watches them. With a script there are none. */
void           llm_engine_models_start          (LlmEngine            *self);
void           llm_engine_models_stop           (LlmEngine            *self);
/* @models: (transfer full) (nullable): what there is; NULL while it is not known */
void           llm_engine_take_models           (LlmEngine            *self,
                                                 GPtrArray            *models);

/* llm-engine-models.c */
/* Waits until a model is loaded, and loads it when none is. The result is the model, (transfer
 * full). */
void           llm_engine_await_model           (LlmEngine            *self,
                                                 GAsyncReadyCallback   callback,
                                                 gpointer              data);
/* Chooses the model in use once catalogue and index are there. */
void           llm_engine_models_settle         (LlmEngine            *self);
/* Unloads the model when no request runs; @done on the main thread with the bytes freed. */
void           llm_engine_unload                (LlmEngine            *self,
                                                 LlmReclaimDone        done,
                                                 gpointer              data);
void           llm_engine_fail_waiting          (LlmEngine            *self);

/* llm-engine-drafts.c */
/* Begins to load the configured draft of the model in use, if there is one, it is not there, and
 * there is room. */
/* Says once which names of the configuration no model has. */
void        llm_engine_check_drafts     (LlmEngine   *self);
void           llm_engine_load_draft            (LlmEngine            *self);
/* Returns the bytes that go, at the end of the answers that use it. */
guint64        llm_engine_drop_draft            (LlmEngine            *self);
guint64        llm_engine_get_draft_bytes       (LlmEngine            *self);
/* Has the request's decoder guess, if its call wants that. */
gboolean       llm_engine_add_draft             (LlmEngine            *self,
                                                 LlmRequest           *request,
                                                 LlmCallOptions       *options,
                                                 GError              **error);

/* llm-engine-sub-models.c */
/* Those of the model that is loaded. @levels: (nullable) (unowned); takes @error (nullable): why
 * its companion can't be used. */
void           llm_engine_take_levels           (LlmEngine            *self,
                                                 const LlmLevels      *levels,
                                                 GError               *error);
/* Which sub-model answers (E9). Fails with UNSUPPORTED where the call names one that the model
 * lacks. */
/* (nullable): of the model that is loaded. */
const LlmSubModels *llm_engine_get_sub_models   (const LlmEngine      *self);
/* llm-engine-active.c: by the option `active`, behind the next. */
gboolean       llm_engine_choose_sparsity       (LlmEngine            *self,
                                                 LlmRequest           *request,
                                                 LlmCallOptions       *options,
                                                 GError              **error);
gboolean       llm_engine_choose_sub_model      (LlmEngine            *self,
                                                 LlmRequest           *request,
                                                 LlmCallOptions       *options,
                                                 GError              **error);

/* llm-engine-lowering.c */
/* The share of the model, in percent, that has to answer a call which says nothing of it. */
guint          llm_engine_get_least_sub_model   (const LlmRequest     *request,
                                                 LlmCallOptions       *options);
/* While memory is short: has a smaller sub-model answer the call, if it may: not below its
 * least_sub_model. The model is loaded. */
void           llm_engine_lower_call            (LlmEngine            *self,
                                                 LlmRequest           *request);
/* What of the weights stays in memory for the calls that are lowered, or all. */
void           llm_engine_keep_level            (LlmEngine            *self);
/* What the governor says about it. */
void           llm_engine_set_lowered           (LlmEngine            *self,
                                                 LlmMemoryLowered      lowered);

/* llm-engine-counts.c */
/* Has the model that is loaded count the tokens of @context, or of all, if it has not; until then
 * the counts of the model before hold. */
void           llm_engine_count_later           (LlmEngine            *self,
                                                 LlmContext           *context);
void           llm_engine_count_all             (LlmEngine            *self);

/* llm-engine-script.c: a script replies instead of a model */
void           llm_engine_script_start          (LlmEngine            *self);
void           llm_engine_script_stop           (LlmEngine            *self);

/* llm-engine-memory.c */
/* Once the executor is there. */
void           llm_engine_memory_make           (LlmEngine            *self);
/* After a request ended: reclaims again what a held trim took. */
void           llm_engine_memory_request_ended  (LlmEngine            *self);

/* llm-engine-reclaimers.c */
void           llm_engine_add_reclaimers        (LlmEngine            *self);

/* llm-engine-apps.c */
/* Never NULL; good until the next application is asked for, and as long as it is needed. Of those
 * that are not, only the last few hundred are remembered: callers choose their names. */
LlmAppAccount *llm_engine_get_app               (LlmEngine            *self,
                                                 LlmApp               *app);
/* The table of contexts; the accounts of applications count what is in it. */
void           llm_engine_add_context           (LlmEngine            *self,
                                                 LlmContext           *context);
void           llm_engine_remove_context        (LlmEngine            *self,
                                                 LlmContext           *context);
/* What all of a user's applications have. */
typedef struct
{
  guint named;
  guint apps;
  guint queue;
} LlmUserSums;
LlmUserSums    llm_engine_sum_user              (LlmEngine            *self,
                                                 guint32               uid);
/* Counts what the contexts of all applications hold, or of @only (nullable). */
void           llm_engine_sum_contexts          (LlmEngine            *self,
                                                 LlmAppAccount        *only);

/* Whether contexts of a model can be packed to @percent of their bytes with 8 bits (0: they are not
 * packed). Fails with INVALID_ARGUMENT. */
gboolean       llm_engine_check_ratio           (guint                 percent,
                                                 const LlmHparams     *hparams,
                                                 guint                 chunk_tokens,
                                                 GError              **error);

/* llm-engine-quotas.c */
/* A place taken from an application's quota, until it is freed. */
typedef struct _LlmPass LlmPass;
void           llm_pass_free                    (LlmPass              *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmPass, llm_pass_free)
/* For a call: counted as one under way. */
LlmPass       *llm_engine_take_call             (LlmEngine            *self,
                                                 LlmCaller            *caller,
                                                 GError              **error)
                                                 G_GNUC_WARN_UNUSED_RESULT;
/* For a context that is being made, until the engine has it or it has failed. */
LlmPass       *llm_engine_take_context          (LlmEngine            *self,
                                                 LlmCaller            *caller,
                                                 gboolean              is_named,
                                                 GError              **error)
                                                 G_GNUC_WARN_UNUSED_RESULT;
/* Whether one of its contexts, which holds @n_held tokens, may hold @n_tokens. */
gboolean       llm_engine_admit_tokens          (LlmEngine            *self,
                                                 LlmApp               *app,
                                                 guint                 n_held,
                                                 guint                 n_tokens,
                                                 GError              **error);
/* The quota of @app that is in force. */
double         llm_engine_get_quota             (LlmEngine            *self,
                                                 const LlmAppAccount  *app,
                                                 LlmQuotaKind          kind);
/* The quotas as configured. */
void           llm_engine_reset_default_quota   (LlmEngine            *self);
/* Puts @quotas (element-type LlmStoredQuota) in force. */
void           llm_engine_take_quotas           (LlmEngine            *self,
                                                 const GPtrArray      *quotas);

/* llm-engine-requests.c */
/* Submits @request; counts it until llm_engine_request_ended(). */
void           llm_engine_submit                (LlmEngine            *self,
                                                 LlmRequest           *request);
void           llm_engine_request_ended         (LlmEngine            *self);
/* Fills in what the options say about timing, length and stops. */
gboolean       llm_engine_fill_request          (LlmEngine            *self,
                                                 LlmRequest           *request,
                                                 LlmCallOptions       *options,
                                                 const char           *default_slo,
                                                 GError              **error);
/* How the tokens of its answer are sampled. @masks: (nullable): what it is held to. @begun:
 * (nullable): the text that the answer has already. */
gboolean       llm_engine_fill_decoder          (LlmEngine            *self,
                                                 LlmRequest           *request,
                                                 LlmCallOptions       *options,
                                                 LlmMaskTable         *masks,
                                                 const char           *begun,
                                                 GError              **error);

/* llm-engine-constraints.c */
/* Whether @min_bytes, those of the shortest answer that @masks allow, have room. @n: (out): tokens that an answer has. */
gboolean       llm_engine_check_room            (const LlmRequest     *request,
                                                 LlmMaskTable         *masks,
                                                 guint                 min_bytes,
                                                 guint                *n,
                                                 GError              **error);
/* What the options want an answer held to. @text: (out) (nullable) (transfer full): NULL when it
 * is free. FALSE if they contradict each other. */
gboolean       llm_engine_read_constraint       (LlmCallOptions       *options,
                                                 LlmConstraintKind    *kind,
                                                 char                **text,
                                                 GError              **error);

/* llm-engine-thinking.c */
/* What the option asks for; and the tokens that reasoning may have. */
LlmThinking    llm_engine_read_thinking         (const LlmCallOptions *options);
guint          llm_engine_read_thinking_budget  (const LlmCallOptions *options);

G_END_DECLS
