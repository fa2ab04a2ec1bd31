/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-profile.h"

#define PREFIX "profile"
/* Raised when what is measured, or how, changes. */
#define VERSION 1
/* Eleven days: nothing that is measured takes longer. What is no number is not below it either. */
#define MAX_NUMBER 1e12

#define GROUP_TIMES "times"

static char *
get_rows_key (guint point)
{
  return g_strdup_printf ("prompt-%u-us", llm_kv_profile_rows[point]);
}

static gboolean
get_number (GKeyFile   *file,
            const char *name,
            double     *number)
{
  g_autoptr(GError) error = NULL;

  *number = g_key_file_get_double (file, GROUP_TIMES, name, &error);
  return error == NULL && *number >= 0 && *number < MAX_NUMBER;
}

static gboolean
get_numbers (GKeyFile     *file,
             LlmKvProfile *profile)
{
  for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
    {
      g_autofree char *name = get_rows_key (i);

      if (!get_number (file, name, &profile->prompt_us[i]))
        return FALSE;
    }
  return get_number (file, "depth-us", &profile->depth_us)
         && get_number (file, "read-latency-us", &profile->read_latency_us)
         && get_number (file, "read-bytes-per-us", &profile->read_bytes_per_us)
         && get_number (file, "write-bytes-per-us", &profile->write_bytes_per_us);
}

gboolean
llm_profile_load (const char          *folder,
                  const LlmProfileKey *key,
                  LlmKvProfile        *profile)
{
  g_autoptr(GKeyFile) file = llm_machine_file_load (folder, PREFIX, VERSION, key);
  LlmKvProfile found;

  if (file == NULL || !get_numbers (file, &found) || !llm_kv_profile_is_measured (&found))
    return FALSE;

  *profile = found;
  return TRUE;
}

gboolean
llm_profile_save (const char          *folder,
                  gboolean             is_shared,
                  const LlmProfileKey *key,
                  const LlmKvProfile  *profile,
                  GError             **error)
{
  g_autoptr(GKeyFile) file = g_key_file_new ();

  for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
    {
      g_autofree char *name = get_rows_key (i);

      g_key_file_set_double (file, GROUP_TIMES, name, profile->prompt_us[i]);
    }
  g_key_file_set_double (file, GROUP_TIMES, "depth-us", profile->depth_us);
  g_key_file_set_double (file, GROUP_TIMES, "read-latency-us", profile->read_latency_us);
  g_key_file_set_double (file, GROUP_TIMES, "read-bytes-per-us", profile->read_bytes_per_us);
  g_key_file_set_double (file, GROUP_TIMES, "write-bytes-per-us", profile->write_bytes_per_us);
  /* On the disk before it has its name: half a profile would only be measured again, but what a
   * full disk says is said here. */
  return llm_machine_file_save (folder, is_shared, PREFIX, VERSION, key, file, TRUE, error);
}
