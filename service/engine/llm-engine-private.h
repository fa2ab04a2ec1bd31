/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The engine and its parts; interfaces between files are in the header of each folder. Main
 * thread. */

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

/* Calls of one class: ended with an answer, or refused for overload. */
typedef struct
{
  guint64 met;
  guint64 missed;
  guint64 refused;
} LlmSloCounters;

/* Process figures from the system and the C library. */
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
  guint64 cached_tokens;
  guint64 output_tokens;
  LlmSloCounters slo[LLM_N_SLO_CLASSES];
  guint64 forecasts;            /* of the time to a first token that came */
  double forecast_error_ms;     /* sum of their errors */
  guint64 model_loads;
  guint64 model_unloads;
  guint64 draft_loads;
  guint64 trims;
  guint64 trimmed_bytes;
  guint64 lowered_calls;        /* answered by a sub-model because of memory pressure */
} LlmEngineCounters;

/* The database, and its data in memory. */
typedef struct
{
  LlmDb *db;                    /* (nullable) before the start */
  GError *db_error;             /* (nullable): why the stored data is unknown */
  gboolean is_loading_index;
  gboolean is_index_stale;      /* the database was lost while its index was read */
  gboolean is_salvaged;         /* readable data was salvaged, and not loaded since */
  guint retry_timer;            /* source: tries the database again */

  GHashTable *contexts;         /* (element-type utf8 LlmContext) (owned) */
  GPtrArray *making;            /* (element-type GTask) (unowned): calls that make contexts, which
                                 * are not in the table yet */
  char *identity;               /* (nullable): of the last loaded model, which counts tokens */
  GQueue uncounted;             /* (element-type LlmContext) (owned): to be counted by it */
  gboolean is_counting;         /* one of them */
  guint64 last_session;
} LlmEngineStore;

/* Needed before the first call: models and the index of contexts. */
typedef struct
{
  gboolean has_catalogue;
  gboolean has_index;
  GQueue waiting_start;         /* (element-type GTask) (owned) */
} LlmEngineStart;

/* A script that answers instead of a model. */
typedef struct
{
  LlmModelInfo *mock;           /* (nullable) */
  guint phase;                  /* of the script's availability */
  guint phase_timer;            /* source */
} LlmEngineScript;

/* Known models. */
typedef struct
{
  GPtrArray *found;             /* (element-type LlmModelInfo) (owned): by the last scan */
  GPtrArray *models;            /* (element-type LlmModelInfo) (owned): these; the loaded model as
                                 * it was when it was loaded */
  LlmFolderWatch *watch;        /* (nullable) (owned): of the folders */
  gboolean is_scanning;
  gboolean shall_scan;          /* scan once more after it */
  GQueue waiting_scan;          /* (element-type GTask) (owned): wait for the scan under way */
  GQueue waiting_next_scan;     /* (element-type GTask) (owned): wait for one that begins later */
} LlmEngineCatalogue;

/* The model in use. */
typedef struct
{
  LlmModelInfo *active;         /* (nullable) */
  char *chosen;                 /* (nullable): id that SelectModel chose */
  const char *availability;
  GError *reason;               /* (nullable): of the availability */
  LlmModel *model;              /* (nullable): loaded */
  LlmCompanion *companion;      /* (nullable) (owned): of the loaded model */
  GError *levels_error;         /* (nullable): why the companion file can't be used */
  LlmConstraintCache *constraints; /* (owned): compiled for it */
  gboolean is_suspect;          /* its file changed while it was in use: open it again */
  gint64 idle_since_us;
} LlmEngineUse;

/* Loading of the model. */
typedef struct
{
  gboolean is_loading;
  GError *load_error;           /* (nullable): the last load's */
  LlmRepackProgress load;       /* atomic: progress of the load under way */
  guint64 told_load_bytes;      /* the last reported progress */
  guint load_timer;             /* source: reports it */
  struct _LlmCrashMark *crash_mark; /* (nullable) (owned): from the start on */
  GQueue waiting_model;         /* (element-type GTask) (owned) */
} LlmEngineLoading;

/* The draft model. */
typedef struct
{
  LlmDraftModel *draft;         /* (nullable) */
  char *draft_id;               /* (nullable): of the configured one, if it exists */
  LlmModel *draft_target;       /* (nullable) (unowned): the model whose vocabulary the draft is
                                 * known to share */
  gboolean is_loading_draft;
  GError *draft_error;          /* (nullable): why the configured one can't be used */
  gboolean has_checked_drafts;
  GHashTable *draft_records;    /* (element-type utf8 LlmDraftRecord) (owned): by the id of the
                                 * model, a line feed, and that of the source */
} LlmEngineDrafts;

/* Weights of the model in use for prompts in W8A8. */
typedef struct
{
  LlmModel *model;              /* (nullable) (owned): whose they are, prepared or being so */
  gboolean is_preparing;
  gint64 retry_us;              /* not before, as it failed; 0: it did not */
  GQueue waiting;               /* (element-type GTask) (owned): for calls that ask for W8A8 */
} LlmEnginePrefill;

/* Weights of the model in use by channel. */
typedef struct
{
  LlmModel *model;              /* (nullable) (owned): whose they are, prepared or being so */
  gboolean is_preparing;        /* those of that model, or of an earlier one */
  gint64 retry_us;              /* not before, as it failed; 0: it did not */
} LlmEngineChannels;

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
  guint64 n_app_lookups;        /* so far: orders applications by their last look-up */
  double default_quota[LLM_N_QUOTAS];
} LlmEngineApps;

typedef struct
{
  guint64 budget;               /* as set; 0: the service decides */
  guint context_ratio;          /* percent, as set; 0: floats */
  GHashTable *holds;            /* (element-type utf8 guint): connection → level of a trim with
                                 * hold */
  LlmGovernor *governor;
  LlmMemoryFigures told;        /* as of the last memory-changed */
  gboolean is_trimming_again;
  LlmMemoryLowered lowered;     /* new calls of these classes run on a sub-model */
  gint64 widened_us;            /* when wide copies of chunks were last requested */
} LlmEngineMemory;

typedef struct
{
  gboolean is_on_battery;
  gboolean saves;               /* the user wants to save power */
  gboolean has_waited;          /* background requests, as long as they have to */
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
  LlmEnginePrefill prefill;
  LlmEngineChannels channels;
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
/* Whether the models are known, and the stored state is read or can't be. */
gboolean       llm_engine_has_started           (LlmEngine            *self);
/* Updates the availability of the model, and reports a change. */
void           llm_engine_update_availability   (LlmEngine            *self);
/* Reports the progress while a model is loaded. */
void           llm_engine_begin_load_progress   (LlmEngine            *self);
void           llm_engine_end_load_progress     (LlmEngine            *self);
/* (transfer full): the folders of models, as a search path. */
char          *llm_engine_describe_folders      (LlmEngine            *self);
/* (transfer full) */
LlmContext    *llm_engine_new_context           (LlmEngine            *self,
                                                 LlmApp               *app,
                                                 const char           *id);
LlmExecutorFigures llm_engine_get_figures       (LlmEngine            *self);
/* (transfer full): the folders of prepared weights, as they are configured. Any thread. */
LlmRepackedCache *llm_engine_open_cache         (const LlmSettings    *settings);

G_END_DECLS
