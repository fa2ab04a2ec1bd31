/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "engine/llm-settings.h"

#include "config.h"

#include <errno.h>
#include <glib/gi18n.h>

#include "base/llm-fail.h"
#include "kernels/llk.h"
#include "kv/llm-kv.h"
#include "sched/llm-scheduler.h"

/* Percent: with fewer, too, all chunks have 2 bits. */
#define MIN_RATIO 10u

LlmSettings *
llm_settings_new (void)
{
  LlmSettings *self = g_new0 (LlmSettings, 1);

  self->model_folders = g_new0 (char *, 1);
  self->max_message = 1024 * 1024;
  self->background_niceness = 10;
  self->scheduler = g_strdup ("deadline");
  self->overload_factor = 4;
  self->pace_on_battery = LLM_PACE_SLOW;
  self->pace_on_power_saver = LLM_PACE_SLOW;
  self->short_wait_s = 2 * 60;
  self->longest_wait_s = 15 * 60;
  self->stall_timeout_s = 600;
  self->reacts_to_pressure = TRUE;
  self->context_ratio = 50;
  self->chunk_tokens = LLM_KV_CHUNK_SLOTS;
  self->disk = g_strdup ("auto");
  self->max_contexts = 64;
  self->max_calls = 16;
  self->max_tokens = 1024 * 1024;
  self->max_rate = 500;
  self->max_named = 512;
  self->max_apps = 64;
  self->max_queue = 256;
  return self;
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
  g_free (self->state_folder);
  g_free (self->cache_folder);
  g_free (self->system_cache_folder);
  llm_script_free (self->script);
  g_free (self);
}

/* --- one value --- */

/* "64", "1M": bytes with K, M or G for powers of 1024; empty is 0. */
static gboolean
parse_bytes (const char *text,
             guint64    *bytes)
{
  guint64 number;
  guint shift = 0;
  char *end;

  if (*text == '\0')
    {
      *bytes = 0;
      return TRUE;
    }
  if (!g_ascii_isdigit (*text))
    return FALSE;
  errno = 0;
  number = g_ascii_strtoull (text, &end, 10);
  if (errno != 0)
    return FALSE;
  if (*end == 'K')
    shift = 10;
  else if (*end == 'M')
    shift = 20;
  else if (*end == 'G')
    shift = 30;
  if (shift > 0)
    end++;
  if (*end != '\0' || number > (G_MAXUINT64 >> shift))
    return FALSE;
  *bytes = number << shift;
  return TRUE;
}

typedef enum
{
  KEY_PATH,
  KEY_FOLDERS,
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
} Key;

static const Key keys[] = {
  { "model", "file", KEY_PATH, FIELD (model_file), 0 },
  { "model", "folders", KEY_FOLDERS, FIELD (model_folders), 0 },
  { "model", "cache-limit", KEY_BYTES, FIELD (cache_limit), G_MAXUINT64 },
  { "service", "threads", KEY_UINT, FIELD (n_threads), 256 },
  { "service", "background-threads", KEY_UINT, FIELD (n_background_threads), 256 },
  { "service", "background-nice", KEY_UINT, FIELD (background_niceness), 19 },
  { "service", "scheduler", KEY_SCHEDULER, FIELD (scheduler), 0 },
  { "service", "overload-factor", KEY_UINT, FIELD (overload_factor), 1000 },
  { "service", "kernels", KEY_KERNELS, FIELD (kernels), 0 },
  { "service", "budget", KEY_BYTES, FIELD (budget), G_MAXUINT64 },
  { "service", "max-message", KEY_BYTES, FIELD (max_message), 16 * 1024 * 1024 },
  { "service", "stall-timeout", KEY_UINT, FIELD (stall_timeout_s), 86400 },
  { "service", "idle-unload", KEY_UINT, FIELD (idle_unload_s), 31536000 },
  { "service", "metrics", KEY_METRICS, FIELD (metrics), 0 },
  { "memory", "pressure", KEY_SWITCH, FIELD (reacts_to_pressure), 0 },
  { "memory", "reserve", KEY_BYTES, FIELD (reserve), G_MAXUINT64 },
  { "memory", "longest-wait", KEY_UINT, FIELD (short_wait_s), 604800 },
  { "power", "background-on-battery", KEY_PACE, FIELD (pace_on_battery), 0 },
  { "power", "background-on-power-saver", KEY_PACE, FIELD (pace_on_power_saver), 0 },
  { "power", "longest-wait", KEY_UINT, FIELD (longest_wait_s), 604800 },
  { "contexts", "ratio", KEY_RATIO, FIELD (context_ratio), 100 },
  { "contexts", "chunk-tokens", KEY_CHUNK, FIELD (chunk_tokens), 64 },
  { "contexts", "disk", KEY_DISK, FIELD (disk), 0 },
  { "contexts", "storage-limit", KEY_BYTES, FIELD (storage_limit), G_MAXUINT64 },
  { "contexts", "storage-limit-per-app", KEY_BYTES, FIELD (app_storage_limit), G_MAXUINT64 },
  { "quota", "contexts", KEY_UINT, FIELD (max_contexts), 1000000 },
  { "quota", "calls", KEY_UINT, FIELD (max_calls), 1000000 },
  { "quota", "tokens", KEY_UINT64, FIELD (max_tokens), G_MAXINT64 },
  { "quota", "disk", KEY_BYTES, FIELD (max_disk), G_MAXINT64 },
  { "quota", "share", KEY_UINT, FIELD (max_share), 100 },
  { "quota", "rate", KEY_UINT, FIELD (max_rate), 1000000 },
  { "quota", "named", KEY_UINT, FIELD (max_named), 1000000 },
  { "quota", "apps", KEY_UINT, FIELD (max_apps), 1000000 },
  { "quota", "queue", KEY_UINT, FIELD (max_queue), 1000000 },
};

static const char *const schedulers[] = { "deadline", "fifo", NULL };
/* In the order of LlmPace. */
static const char *const paces[] = { "run", "slow", "wait" };
static const char *const disks[] = { "auto", "uring", "threads", "off", NULL };

static void
set_string (gpointer    field,
            const char *text)
{
  g_free (*(char **) field);
  *(char **) field = *text != '\0' ? g_strdup (text) : NULL;
}

/* Whether @text is a value of @key, which goes into @field then. */
static gboolean
parse_value (const Key  *key,
             gpointer    field,
             const char *text)
{
  gboolean is_on = g_str_equal (text, "on");
  gboolean is_off = g_str_equal (text, "off");
  guint64 number = 0;
  guint i = 0;

  switch (key->kind)
    {
    case KEY_PATH:
      set_string (field, text);
      return TRUE;
    case KEY_FOLDERS:
      g_strfreev (*(GStrv *) field);
      *(GStrv *) field = g_strsplit (text, ";", -1);
      return TRUE;
    case KEY_KERNELS:
      if (*text != '\0' && llk_ops_find (text) == NULL)
        return FALSE;
      set_string (field, text);
      return TRUE;
    case KEY_SCHEDULER:
    case KEY_DISK:
      if (!g_strv_contains (key->kind == KEY_DISK ? disks : schedulers, text))
        return FALSE;
      set_string (field, text);
      return TRUE;
    case KEY_METRICS:
      if (*text != '/' && !is_on && !is_off)
        return FALSE;
      set_string (field, is_off ? "" : text);
      return TRUE;
    case KEY_SWITCH:
      *(gboolean *) field = is_on;
      return is_on || is_off;
    case KEY_PACE:
      while (i < G_N_ELEMENTS (paces) && !g_str_equal (text, paces[i]))
        i++;
      *(guint *) field = i;
      return i < G_N_ELEMENTS (paces);
    case KEY_RATIO:
      if (!is_off && !g_ascii_string_to_unsigned (text, 10, MIN_RATIO, key->max, &number, NULL))
        return FALSE;
      *(guint *) field = (guint) number;
      return TRUE;
    case KEY_CHUNK:
      if (!g_ascii_string_to_unsigned (text, 10, 16, key->max, &number, NULL) || number % 16 != 0)
        return FALSE;
      *(guint *) field = (guint) number;
      return TRUE;
    case KEY_BYTES:
      if (!parse_bytes (text, &number) || number > key->max)
        return FALSE;
      *(guint64 *) field = number;
      return TRUE;
    case KEY_UINT:
    case KEY_UINT64:
    default:
      if (!g_ascii_string_to_unsigned (text, 10, 0, key->max, &number, NULL))
        return FALSE;
      if (key->kind == KEY_UINT)
        *(guint *) field = (guint) number;
      else
        *(guint64 *) field = number;
      return TRUE;
    }
}

#define WRONG(format, ...) \
  llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT, format, path, key->group, key->key, text, \
            ##__VA_ARGS__)

static void
tell_values (const Key  *key,
             const char *path,
             const char *text,
             GError    **error)
{
  g_autofree char *known = NULL;

  switch (key->kind)
    {
    case KEY_KERNELS:
      known = g_strjoinv (", ", (char **) llk_ops_list ());
      WRONG (N_("%s: [%s] %s = “%s” is no set of kernels that this processor can run; it can run "
                "%s"), known);
      break;
    case KEY_RATIO:
      WRONG (N_("%s: [%s] %s = “%s” is neither a number of percent from %u to %ju nor “off”"),
             MIN_RATIO, key->max);
      break;
    case KEY_CHUNK:
      WRONG (N_("%s: [%s] %s = “%s” is none of 16, 32, 48 and 64"));
      break;
    case KEY_SCHEDULER:
      WRONG (N_("%s: [%s] %s = “%s” is neither deadline nor fifo"));
      break;
    case KEY_DISK:
      WRONG (N_("%s: [%s] %s = “%s” is none of auto, uring, threads and off"));
      break;
    case KEY_METRICS:
      WRONG (N_("%s: [%s] %s = “%s” is neither “on”, “off” nor the full path of a socket"));
      break;
    case KEY_SWITCH:
      WRONG (N_("%s: [%s] %s = “%s” is neither “on” nor “off”"));
      break;
    case KEY_PACE:
      WRONG (N_("%s: [%s] %s = “%s” is none of run, slow and wait"));
      break;
    case KEY_BYTES:
      WRONG (N_("%s: [%s] %s = “%s” is not a number from 0 to %ju, perhaps with K, M or G"),
             key->max);
      break;
    case KEY_PATH:
    case KEY_FOLDERS:
    case KEY_UINT:
    case KEY_UINT64:
    default:
      WRONG (N_("%s: [%s] %s = “%s” is not a number from 0 to %ju"), key->max);
      break;
    }
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
      if (!parse_value (&keys[index], G_STRUCT_MEMBER_P (self, keys[index].offset),
                        g_strstrip (text)))
        {
          tell_values (&keys[index], path, text, error);
          return FALSE;
        }
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
                         "%s: there is no group [%s]; the groups are model, service, memory, power, "
                         "contexts and quota", path, groups[i]);
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

/* Configured folders first, then what the environment adds, then the usual ones:
 * the user's own before the machine's before the packaged ones. */
static void
add_usual_folders (LlmSettings *self,
                   gboolean     is_system)
{
  g_autoptr(GStrvBuilder) folders = g_strv_builder_new ();
  const char *from_environment = g_getenv ("LLMSVC_MODEL_PATH");

  for (guint i = 0; self->model_folders[i] != NULL; i++)
    if (*self->model_folders[i] != '\0')
      g_strv_builder_add (folders, self->model_folders[i]);
  if (from_environment != NULL)
    {
      g_auto(GStrv) paths = g_strsplit (from_environment, G_SEARCHPATH_SEPARATOR_S, -1);

      for (guint i = 0; paths[i] != NULL; i++)
        if (*paths[i] != '\0')
          g_strv_builder_add (folders, paths[i]);
    }
  if (!is_system)
    {
      g_autofree char *own = g_build_filename (g_get_user_data_dir (), "llmsvc", "models", NULL);

      g_strv_builder_add (folders, own);
    }
  g_strv_builder_add (folders, LLM_LOCALSTATEDIR "/lib/llmsvc/models");
  g_strv_builder_add (folders, LLM_DATADIR "/llmsvc/models");

  g_strfreev (self->model_folders);
  self->model_folders = g_strv_builder_end (folders);
}

/* The system's service fills the folder that everybody else only reads. */
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
