/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "engine/llm-settings.h"

#include "config.h"

#include <glib/gi18n.h>
#include <string.h>

#include "base/llm-fail.h"
#include "kernels/llk.h"
#include "kv/llm-kv.h"
#include "model/llm-quality.h"
#include "model/llm-thresholds.h"
#include "sched/llm-scheduler.h"

/* Percent: from here down all chunks have 2 bits. */
#define MIN_RATIO 10u

typedef enum
{
  KEY_PATH,
  KEY_FOLDERS,
  KEY_DRAFTS,
  KEY_UINT,
  KEY_UINT64,
  KEY_BYTES,
  KEY_KERNELS,
  KEY_RATIO,
  KEY_CHUNK,
  KEY_DISK,
  KEY_SCHEDULER,
  KEY_METRICS,
  KEY_SWITCH,
  KEY_PACE,
  KEY_PREFILL,
  KEY_ACTIVE,
} KeyKind;

#define FIELD(name) G_STRUCT_OFFSET (LlmSettings, name)

/* All keys: data/llmsvc.conf lists the same with their defaults. */
typedef struct
{
  const char *group;
  const char *key;
  KeyKind kind;
  gsize offset;
  guint64 max;
  const char *usual;   /* (nullable): its default; NULL for 0 or none */
} Key;

static const Key keys[] = {
  { "model", "file", KEY_PATH, FIELD (model_file) },
  { "model", "folders", KEY_FOLDERS, FIELD (model_folders), 0, "" },
  { "model", "draft", KEY_DRAFTS, FIELD (drafts), 0, "" },
  { "model", "prefill", KEY_PREFILL, FIELD (prefill), 0, "" },
  { "model", "active", KEY_ACTIVE, FIELD (active), 0, "" },
  { "model", "allow-unknown-tokenizer", KEY_SWITCH, FIELD (takes_any_tokenizer), 0, "off" },
  { "model", "cache-limit", KEY_BYTES, FIELD (cache_limit), G_MAXUINT64 },
  { "service", "threads", KEY_UINT, FIELD (n_threads), 256 },
  { "service", "background-threads", KEY_UINT, FIELD (n_background_threads), 256 },
  { "service", "background-nice", KEY_UINT, FIELD (background_niceness), 19, "10" },
  { "service", "scheduler", KEY_SCHEDULER, FIELD (scheduler), 0, "deadline" },
  { "service", "overload-factor", KEY_UINT, FIELD (overload_factor), 1000, "4" },
  { "service", "kernels", KEY_KERNELS, FIELD (kernels) },
  { "service", "budget", KEY_BYTES, FIELD (budget), G_MAXUINT64 },
  { "service", "max-message", KEY_BYTES, FIELD (max_message), 16 * 1024 * 1024, "1M" },
  { "service", "stall-timeout", KEY_UINT, FIELD (stall_timeout_s), 86400, "600" },
  { "service", "idle-unload", KEY_UINT, FIELD (idle_unload_s), 31536000 },
  { "service", "metrics", KEY_METRICS, FIELD (metrics) },
  { "memory", "pressure", KEY_SWITCH, FIELD (reacts_to_pressure), 0, "on" },
  { "memory", "reserve", KEY_BYTES, FIELD (reserve), G_MAXUINT64 },
  { "memory", "longest-wait", KEY_UINT, FIELD (short_wait_s), 604800, "120" },
  { "quality", "interactive", KEY_UINT, FIELD (least_quality[LLM_SLO_INTERACTIVE]), 100,
    G_STRINGIFY (LLM_QUALITY_DEFAULT) },
  { "quality", "responsive", KEY_UINT, FIELD (least_quality[LLM_SLO_RESPONSIVE]), 100,
    G_STRINGIFY (LLM_QUALITY_DEFAULT) },
  { "quality", "background", KEY_UINT, FIELD (least_quality[LLM_SLO_BACKGROUND]), 100,
    G_STRINGIFY (LLM_QUALITY_DEFAULT) },
  { "power", "background-on-battery", KEY_PACE, FIELD (pace_on_battery), 0, "slow" },
  { "power", "background-on-power-saver", KEY_PACE, FIELD (pace_on_power_saver), 0, "slow" },
  { "power", "longest-wait", KEY_UINT, FIELD (longest_wait_s), 604800, "900" },
  { "contexts", "ratio", KEY_RATIO, FIELD (context_ratio), 100, "50" },
  { "contexts", "chunk-tokens", KEY_CHUNK, FIELD (chunk_tokens), 64,
    G_STRINGIFY (LLM_KV_CHUNK_SLOTS) },
  { "contexts", "disk", KEY_DISK, FIELD (disk), 0, "auto" },
  { "contexts", "storage-limit", KEY_BYTES, FIELD (storage_limit), G_MAXUINT64 },
  { "contexts", "storage-limit-per-app", KEY_BYTES, FIELD (app_storage_limit), G_MAXUINT64 },
  { "quota", "contexts", KEY_UINT, FIELD (quotas.max_contexts), 1000000, "64" },
  { "quota", "calls", KEY_UINT, FIELD (quotas.max_calls), 1000000, "16" },
  { "quota", "tokens", KEY_UINT64, FIELD (quotas.max_tokens), G_MAXINT64, "1048576" },
  { "quota", "disk", KEY_BYTES, FIELD (quotas.max_disk), G_MAXINT64 },
  { "quota", "share", KEY_UINT, FIELD (quotas.max_share), 100 },
  { "quota", "rate", KEY_UINT, FIELD (quotas.max_rate), 1000000, "500" },
  { "quota", "answer", KEY_UINT, FIELD (quotas.max_answer), 1000000 },
  { "quota", "named", KEY_UINT, FIELD (quotas.max_named), 1000000, "512" },
  { "quota", "apps", KEY_UINT, FIELD (quotas.max_apps), 1000000, "64" },
  { "quota", "queue", KEY_UINT, FIELD (quotas.max_queue), 1000000, "256" },
};

const char *const llm_prefill_names[] = { "auto", "exact", "w8a8", NULL };
static const char *const schedulers[] = { "deadline", "fifo", NULL };
/* In the order of LlmPace. */
static const char *const paces[] = { "run", "slow", "wait" };
static const char *const disks[] = { "auto", "uring", "threads", "off", NULL };

/* --- one value --- */

/* "64", "1M": bytes with K, M or G for powers of 1024; empty is 0. */
static gboolean
parse_bytes (const char *text,
             guint64     max,
             guint64    *bytes)
{
  const char *units = "KMG";
  gsize length = strlen (text);
  const char *unit = length > 0 ? strchr (units, text[length - 1]) : NULL;
  guint shift = unit != NULL ? 10 * (guint) (unit - units + 1) : 0;
  g_autofree char *digits = g_strndup (text, unit != NULL ? length - 1 : length);

  *bytes = 0;
  if (length == 0)
    return TRUE;
  if (!g_ascii_string_to_unsigned (digits, 10, 0, max >> shift, bytes, NULL))
    return FALSE;
  *bytes <<= shift;
  return TRUE;
}

static gboolean
set_string (gpointer    field,
            const char *text)
{
  g_free (*(char **) field);
  *(char **) field = *text != '\0' ? g_strdup (text) : NULL;
  return TRUE;
}

/* DRAFT or MODEL:DRAFT each. */
static gboolean
are_drafts (GStrv entries)
{
  for (guint i = 0; entries[i] != NULL; i++)
    {
      const char *colon = strrchr (g_strstrip (entries[i]), ':');

      if (*entries[i] == '\0' || (colon != NULL && (colon == entries[i] || colon[1] == '\0')))
        return FALSE;
    }
  return TRUE;
}

/* WAY or MODEL:WAY each. */
static gboolean
are_ways (GStrv entries)
{
  for (guint i = 0; entries[i] != NULL; i++)
    {
      const char *colon = strrchr (g_strstrip (entries[i]), ':');

      if (colon == entries[i]
          || !g_strv_contains (llm_prefill_names, colon != NULL ? colon + 1 : entries[i]))
        return *entries[i] == '\0' && entries[1] == NULL;
    }
  return TRUE;
}

/* PERCENT or MODEL:PERCENT each. */
static gboolean
are_percents (GStrv entries)
{
  for (guint i = 0; entries[i] != NULL; i++)
    {
      const char *colon = strrchr (g_strstrip (entries[i]), ':');

      if (colon == entries[i]
          || !g_ascii_string_to_unsigned (colon != NULL ? colon + 1 : entries[i], 10, 0,
                                          LLM_MAX_SPARSITY, NULL, NULL))
        return *entries[i] == '\0' && entries[1] == NULL;
    }
  return TRUE;
}

#define WRONG(format, ...) \
  llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT, format, path, key->group, key->key, text, \
            ##__VA_ARGS__)

/* Reads @text as a value of @key. @path: of the file that has it. */
static gboolean
parse_value (LlmSettings *self,
             const Key   *key,
             const char  *path,
             const char  *text,
             GError     **error)
{
  gpointer field = G_STRUCT_MEMBER_P (self, key->offset);
  gboolean is_on = g_str_equal (text, "on");
  gboolean is_off = g_str_equal (text, "off");
  g_autofree char *known = NULL;
  guint64 number = 0;
  guint i = 0;

  switch (key->kind)
    {
    case KEY_PATH:
      return set_string (field, text);
    case KEY_FOLDERS:
      g_strfreev (*(GStrv *) field);
      *(GStrv *) field = g_strsplit (text, ";", -1);
      return TRUE;
    case KEY_DRAFTS:
      g_strfreev (*(GStrv *) field);
      *(GStrv *) field = g_strsplit (text, ";", -1);
      if (are_drafts (*(GStrv *) field))
        return TRUE;
      return WRONG (N_("%s: [%s] %s = “%s” is no list of ids of models, DRAFT or MODEL:DRAFT, "
                       "separated by “;”"));
    case KEY_PREFILL:
      g_strfreev (*(GStrv *) field);
      *(GStrv *) field = g_strsplit (text, ";", -1);
      if (are_ways (*(GStrv *) field))
        return TRUE;
      return WRONG (N_("%s: [%s] %s = “%s” is no list of ways to compute prompts, auto, exact or w8a8, or "
                       "MODEL:WAY, separated by “;”"));
    case KEY_ACTIVE:
      g_strfreev (*(GStrv *) field);
      *(GStrv *) field = g_strsplit (text, ";", -1);
      if (are_percents (*(GStrv *) field))
        return TRUE;
      return WRONG (N_("%s: [%s] %s = “%s” is no list of percent, 0 to %u, or MODEL:PERCENT, separated by "
                       "“;”"), LLM_MAX_SPARSITY);
    case KEY_KERNELS:
      if (*text == '\0' || llk_ops_find (text) != NULL)
        return set_string (field, text);
      known = g_strjoinv (", ", (char **) llk_ops_list ());
      return WRONG (N_("%s: [%s] %s = “%s” is no set of kernels that this processor can run; it can "
                       "run %s"), known);
    case KEY_SCHEDULER:
      if (g_strv_contains (schedulers, text))
        return set_string (field, text);
      return WRONG (N_("%s: [%s] %s = “%s” is neither deadline nor fifo"));
    case KEY_DISK:
      if (g_strv_contains (disks, text))
        return set_string (field, text);
      return WRONG (N_("%s: [%s] %s = “%s” is none of auto, uring, threads and off"));
    case KEY_METRICS:
      if (*text == '/' || is_on || is_off)
        return set_string (field, is_off ? "" : text);
      return WRONG (N_("%s: [%s] %s = “%s” is neither “on”, “off” nor the full path of a socket"));
    case KEY_SWITCH:
      *(gboolean *) field = is_on;
      if (is_on || is_off)
        return TRUE;
      return WRONG (N_("%s: [%s] %s = “%s” is neither “on” nor “off”"));
    case KEY_PACE:
      while (i < G_N_ELEMENTS (paces) && !g_str_equal (text, paces[i]))
        i++;
      *(guint *) field = i;
      if (i < G_N_ELEMENTS (paces))
        return TRUE;
      return WRONG (N_("%s: [%s] %s = “%s” is none of run, slow and wait"));
    case KEY_BYTES:
      if (parse_bytes (text, key->max, field))
        return TRUE;
      return WRONG (N_("%s: [%s] %s = “%s” is not a number from 0 to %ju, perhaps with K, M or G"),
                    key->max);
    case KEY_RATIO:
      if (!is_off && !g_ascii_string_to_unsigned (text, 10, MIN_RATIO, key->max, &number, NULL))
        return WRONG (N_("%s: [%s] %s = “%s” is neither a number of percent from %u to %ju nor "
                         "“off”"), MIN_RATIO, key->max);
      break;
    case KEY_CHUNK:
      if (!g_ascii_string_to_unsigned (text, 10, 16, key->max, &number, NULL) || number % 16 != 0)
        return WRONG (N_("%s: [%s] %s = “%s” is none of 16, 32, 48 and 64"));
      break;
    case KEY_UINT:
    case KEY_UINT64:
    default:
      if (!g_ascii_string_to_unsigned (text, 10, 0, key->max, &number, NULL))
        return WRONG (N_("%s: [%s] %s = “%s” is not a number from 0 to %ju"), key->max);
      break;
    }
  if (key->kind == KEY_UINT64)
    *(guint64 *) field = number;
  else
    *(guint *) field = (guint) number;
  return TRUE;
}

LlmSettings *
llm_settings_new (void)
{
  LlmSettings *self = g_new0 (LlmSettings, 1);

  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    if (keys[i].usual != NULL && !parse_value (self, &keys[i], "", keys[i].usual, NULL))
      g_assert_not_reached ();
  return self;
}

char *
llm_settings_get_chunks_folder (const LlmSettings *self)
{
  if (self->state_folder == NULL || self->script != NULL
      || g_strcmp0 (self->disk, "off") == 0)
    return NULL;
  return g_build_filename (self->state_folder, "chunks", NULL);
}

const char *
llm_settings_find_for (const GStrv  entries,
                       const char  *id)
{
  const char *of_all = NULL;

  for (guint i = 0; entries != NULL && entries[i] != NULL; i++)
    {
      const char *colon = strrchr (entries[i], ':');

      if (colon == NULL)
        of_all = entries[i];
      else if (strncmp (entries[i], id, (gsize) (colon - entries[i])) == 0
               && id[colon - entries[i]] == '\0')
        return colon + 1;
    }
  return of_all;
}

void
llm_settings_free (LlmSettings *self)
{
  g_free (self->model_file);
  g_free (self->kernels);
  g_free (self->scheduler);
  g_free (self->disk);
  g_free (self->root);
  g_free (self->metrics);
  g_strfreev (self->model_folders);
  g_strfreev (self->drafts);
  g_strfreev (self->prefill);
  g_strfreev (self->active);
  g_free (self->state_folder);
  g_free (self->cache_folder);
  g_free (self->system_cache_folder);
  llm_script_free (self->script);
  g_free (self);
}

/* --- a file --- */

static gboolean
read_group (LlmSettings *self,
            GKeyFile    *file,
            const char  *path,
            const char  *group,
            GError     **error)
{
  g_auto(GStrv) names = g_key_file_get_keys (file, group, NULL, error);

  for (guint i = 0; names != NULL && names[i] != NULL; i++)
    {
      g_autofree char *text = g_key_file_get_string (file, group, names[i], error);
      guint index = 0;

      if (text == NULL)
        return FALSE;
      while (index < G_N_ELEMENTS (keys) && !(g_str_equal (keys[index].group, group) &&
                                              g_str_equal (keys[index].key, names[i])))
        index++;
      if (index == G_N_ELEMENTS (keys))
        return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                         "%s: there is no key “%s” in group [%s]; the keys are in "
                         "docs/configuration.md", path, names[i], group);
      if (!parse_value (self, &keys[index], path, g_strstrip (text), error))
        return FALSE;
    }
  return names != NULL;
}

static gboolean
has_group (const char *group)
{
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    if (g_str_equal (keys[i].group, group))
      return TRUE;
  return FALSE;
}

/* @must_exist: whether a missing file is an error. */
static gboolean
read_file (LlmSettings *self,
           const char  *path,
           gboolean     must_exist,
           GError     **error)
{
  g_autoptr(GKeyFile) file = g_key_file_new ();
  g_autoptr(GError) local = NULL;
  g_auto(GStrv) groups = NULL;

  if (!g_key_file_load_from_file (file, path, G_KEY_FILE_NONE, &local))
    {
      if (!must_exist && g_error_matches (local, G_FILE_ERROR, G_FILE_ERROR_NOENT))
        return TRUE;
      return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                       "The configuration %s can't be read: %s", path, local->message);
    }
  groups = g_key_file_get_groups (file, NULL);
  for (guint i = 0; groups[i] != NULL; i++)
    {
      if (!has_group (groups[i]))
        return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                         "%s: there is no group [%s]; the groups are model, service, memory, "
                         "power, contexts and quota", path, groups[i]);
      if (!read_group (self, file, path, groups[i], error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
read_files (LlmSettings *self,
            gboolean     is_system,
            const char  *file,
            GError     **error)
{
  const char *from_environment = g_getenv ("LLMSVC_CONFIG");
  g_autofree char *user_file =
    g_build_filename (g_get_user_config_dir (), "llmsvc", "llmsvc.conf", NULL);

  if (file != NULL)
    return read_file (self, file, TRUE, error);
  if (from_environment != NULL && *from_environment != '\0')
    return read_file (self, from_environment, TRUE, error);
  return read_file (self, LLM_SYSCONFDIR "/llmsvc/llmsvc.conf", FALSE, error) &&
         (is_system || read_file (self, user_file, FALSE, error));
}

static void
add_folders (GStrvBuilder *folders,
             const GStrv   paths)
{
  for (guint i = 0; paths[i] != NULL; i++)
    if (*paths[i] != '\0')
      g_strv_builder_add (folders, paths[i]);
}

/* Configured folders first, then what the environment adds, then the usual ones:
 * the user's own before the machine's before the packaged ones. */
static void
add_usual_folders (LlmSettings *self,
                   gboolean     is_system)
{
  g_autoptr(GStrvBuilder) folders = g_strv_builder_new ();
  const char *path = g_getenv ("LLMSVC_MODEL_PATH");
  g_auto(GStrv) from_environment =
    g_strsplit (path != NULL ? path : "", G_SEARCHPATH_SEPARATOR_S, -1);
  g_autofree char *own = g_build_filename (g_get_user_data_dir (), "llmsvc", "models", NULL);

  add_folders (folders, self->model_folders);
  add_folders (folders, from_environment);
  if (!is_system)
    g_strv_builder_add (folders, own);
  g_strv_builder_add (folders, LLM_LOCALSTATEDIR "/lib/llmsvc/models");
  g_strv_builder_add (folders, LLM_DATADIR "/llmsvc/models");

  g_strfreev (self->model_folders);
  self->model_folders = g_strv_builder_end (folders);
}

/* The system's service fills the folder that other users only read. */
void
llm_settings_set_cache (LlmSettings *self,
                        gboolean     is_system)
{
  const char *from_environment = g_getenv ("CACHE_DIRECTORY");

  g_free (self->cache_folder);
  g_free (self->system_cache_folder);
  self->system_cache_folder = g_strdup (LLM_LOCALSTATEDIR "/cache/llmsvc");
  self->shares_cache = is_system;
  if (from_environment != NULL && *from_environment != '\0')
    self->cache_folder = g_strdup (from_environment);
  else if (is_system)
    self->cache_folder = g_strdup (self->system_cache_folder);
  else
    self->cache_folder = g_build_filename (g_get_user_cache_dir (), "llmsvc", NULL);
}

LlmSettings *
llm_settings_load (gboolean    is_system,
                   const char *file,
                   GError    **error)
{
  g_autoptr(LlmSettings) self = llm_settings_new ();
  const char *state = g_getenv ("STATE_DIRECTORY");

  if (!read_files (self, is_system, file, error))
    return NULL;
  add_usual_folders (self, is_system);
  if (state != NULL && *state != '\0')
    self->state_folder = g_strdup (state);
  else if (is_system)
    self->state_folder = g_strdup (LLM_LOCALSTATEDIR "/lib/llmsvc");
  else
    self->state_folder = g_build_filename (g_get_user_state_dir (), "llmsvc", NULL);
  llm_settings_set_cache (self, is_system);
  return g_steal_pointer (&self);
}
