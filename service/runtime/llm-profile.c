/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-profile.h"

#define PREFIX "profile"
/* Increased when the measurements or their meaning change. */
#define VERSION 1
/* Eleven days: no measurement takes longer. NaN is not below it either. */
#define MAX_NUMBER 1e12

#define GROUP_TIMES "times"

#define N_NUMBERS (LLM_KV_PROFILE_POINTS + 4)

/* (transfer full): the key of a number; @number: where it is. */
static char *
find_number (LlmKvProfile *profile,
             guint         i,
             double      **number)
{
  static const char *const keys[] = { "depth-us", "read-latency-us", "read-bytes-per-us",
                                      "write-bytes-per-us" };
  double *const numbers[] = { &profile->depth_us, &profile->read_latency_us,
                              &profile->read_bytes_per_us, &profile->write_bytes_per_us };

  if (i < LLM_KV_PROFILE_POINTS)
    {
      *number = &profile->prompt_us[i];
      return g_strdup_printf ("prompt-%u-us", llm_kv_profile_rows[i]);
    }
  *number = numbers[i - LLM_KV_PROFILE_POINTS];
  return g_strdup (keys[i - LLM_KV_PROFILE_POINTS]);
}

gboolean
llm_profile_load (const char          *folder,
                  const LlmProfileKey *key,
                  LlmKvProfile        *profile)
{
  g_autoptr(GKeyFile) file = llm_machine_file_load (folder, PREFIX, VERSION, key);
  LlmKvProfile found;

  for (guint i = 0; file != NULL && i < N_NUMBERS; i++)
    {
      g_autoptr(GError) error = NULL;
      double *number;
      g_autofree char *name = find_number (&found, i, &number);

      *number = g_key_file_get_double (file, GROUP_TIMES, name, &error);
      if (error != NULL || !(*number >= 0 && *number < MAX_NUMBER))
        return FALSE;
    }
  if (file == NULL || !llm_kv_profile_is_measured (&found))
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

  LlmKvProfile numbers = *profile;

  for (guint i = 0; i < N_NUMBERS; i++)
    {
      double *number;
      g_autofree char *name = find_number (&numbers, i, &number);

      g_key_file_set_double (file, GROUP_TIMES, name, *number);
    }
  /* Written to the disk before it has its name. Half a profile would only be measured again, but
   * the error of a full disk is reported here. */
  return llm_machine_file_save (folder, is_shared, PREFIX, VERSION, key, file, TRUE, error);
}
