/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The configuration: the file llmsvc.conf, the environment, the command line. Plain data, immutable
 * after start.
 */

#pragma once

#include <gio/gio.h>

#include "decoding/llm-script.h"
#include "sched/llm-slo.h"

G_BEGIN_DECLS

/* Ways to compute prompts, in the order of LlmPrefill; ends with NULL. */
extern const char *const llm_prefill_names[];

/* Of applications and users for which none is set. */
typedef struct
{
  guint max_contexts;      /* per application */
  guint max_calls;         /* under way, per application */
  guint64 max_tokens;      /* held in contexts, per application */
  guint64 max_disk;        /* bytes of stored text, per application; 0: no limit */
  guint max_share;         /* percent of the memory for contexts, likewise; 0: an equal part */
  guint max_rate;          /* calls a second, likewise; 0: no limit */
  guint max_answer;        /* tokens of one answer, likewise; 0: no limit */
  guint max_named;         /* named contexts per user; 0: no limit, likewise below */
  guint max_apps;          /* applications per user */
  guint max_queue;         /* calls under way per user */
} LlmDefaultQuotas;

typedef struct
{
  char *model_file;        /* (nullable): one model to use before all others */
  GStrv model_folders;     /* in order of preference */
  GStrv prefill;           /* (nullable): how prompts are computed: MODEL:WAY, or WAY for all; WAY is
                            * a choice of the option prefill */
  GStrv active;            /* (nullable): what answers leave out where calls say nothing of it:
                            * MODEL:PERCENT, or PERCENT for all */
  gboolean takes_any_tokenizer; /* also models whose pre-tokenizer is unknown */
  guint least_quality[LLM_N_SLO_CLASSES]; /* percent of the whole model's that calls get at least which
                            * leave the sub-model to the service, by class */
  GStrv drafts;            /* (nullable): draft models: MODEL:DRAFT, or DRAFT for all; by id */
  char *state_folder;      /* (nullable): NULL keeps nothing on disk */
  char *cache_folder;      /* (nullable): for what can be made again; NULL keeps it in memory */
  char *system_cache_folder; /* (nullable): the system's, which is searched first */
  gboolean shares_cache;   /* all users may read cache_folder */
  guint64 cache_limit;     /* bytes, 0 for half of what the disk has free */
  gboolean is_exact;       /* compute with the file's own weights in floats: slow, for
                            * comparisons */
  guint n_threads;         /* 0: as many as the machine gives */
  guint n_background_threads; /* for background requests; 0: half as many */
  guint background_niceness;
  char *scheduler;         /* "deadline" or "fifo" */
  guint overload_factor;   /* a call whose first token would be later than its target by this factor
                            * is refused; 0: none */
  char *kernels;           /* (nullable): a set of kernel functions; NULL for the best */
  guint64 budget;          /* bytes, 0 for none */
  guint64 max_message;     /* bytes of text in one call */
  guint stall_timeout_s;   /* how long a pipe may stay full */
  char *metrics;           /* (nullable): a socket's path, or "on" for the usual one; NULL for
                            * none */
  guint idle_unload_s;     /* 0: never */
  gboolean reacts_to_pressure; /* reclaims memory under memory pressure */
  guint64 reserve;         /* bytes to leave free under a limit, 0: a fraction of it */
  guint short_wait_s;      /* how long a call may wait for memory under memory pressure; 0: for
                            * ever */
  char *root;              /* (nullable): replaces / when memory figures are read; for tests, no
                            * key */
  guint pace_on_battery;   /* LlmPace of background requests */
  guint pace_on_power_saver; /* the same while the user saves power */
  guint longest_wait_s;    /* with LLM_PACE_WAIT: then they run slowly */
  guint context_ratio;     /* percent: bytes of a context, of its bytes with 8 bits; 0: floats */
  guint chunk_tokens;      /* of a chunk: 16, 32, 48 or 64 */
  char *disk;              /* "auto", "uring", "threads", or "off": contexts are not written */
  guint64 storage_limit;   /* bytes of all contexts, 0 for half of what the disk has free */
  guint64 app_storage_limit; /* of one application's, 0 for none */
  LlmDefaultQuotas quotas;
  LlmScript *script;       /* (nullable): answers instead of a model */
} LlmSettings;

/* Reads the configuration. @file: (nullable): that file only, which must exist;
 * NULL for $LLMSVC_CONFIG, else the system's and, on the session bus, the
 * user's. Unknown groups and keys and wrong values are errors that name file,
 * group and key. */
LlmSettings *llm_settings_load (gboolean     is_system,
                                const char  *file,
                                GError     **error) G_GNUC_WARN_UNUSED_RESULT;
LlmSettings *llm_settings_new  (void);
/* Fills in the cache folders: $CACHE_DIRECTORY, or else the usual ones. */
void         llm_settings_set_cache (LlmSettings *self,
                                     gboolean     is_system);
/* (nullable): of @entries (nullable), MODEL:VALUE or VALUE each, what is set for the model @id, or else
 * for all. */
const char  *llm_settings_find_for (const GStrv  entries,
                                     const char  *id);
/* (nullable) (transfer full): where chunks are written; NULL for nowhere. */
char        *llm_settings_get_chunks_folder (const LlmSettings *self);
void         llm_settings_free (LlmSettings *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmSettings, llm_settings_free)

G_END_DECLS
