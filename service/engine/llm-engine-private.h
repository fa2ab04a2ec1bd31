/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The engine and its parts; what the files of each tell the others is in the header of its folder.
 * Main thread. */

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
  guint64 cached_tokens;
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
/* Models are known, and what is stored or why it is not. */
gboolean       llm_engine_has_started           (LlmEngine            *self);
/* Says what has become of the model, if that is new. */
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

G_END_DECLS
