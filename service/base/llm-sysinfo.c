/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/llm-sysinfo.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include <gio/gio.h>

/* More than any machine has, and few enough for a broken one. */
#define MAX_SUPPLIES 64

guint
llm_sysinfo_n_processors (void)
{
  cpu_set_t set;

  /* The affinity mask, not the number of processors: a container or taskset
   * may have left us fewer. */
  if (sched_getaffinity (0, sizeof set, &set) == 0 && CPU_COUNT (&set) > 0)
    return CPU_COUNT (&set);
  return g_get_num_processors ();
}

/* (transfer full) */
static char *
get_path (const char *root,
          const char *file)
{
  return g_build_filename (root != NULL && *root != '\0' ? root : "/", file, NULL);
}

/* Finds "NAME:  N kB" and gives N in bytes. @name: with its colon. */
static gboolean
find_kib (const char *text,
          const char *name,
          guint64    *bytes)
{
  const char *at = strstr (text, name);
  guint64 kib;
  char *end;

  if (at == NULL)
    return FALSE;
  at += strlen (name);
  kib = g_ascii_strtoull (at, &end, 10);
  *bytes = kib * 1024;
  return end > at && kib <= G_MAXUINT64 / 1024;
}

gboolean
llm_sysinfo_read_meminfo (const char *root,
                          LlmMeminfo *info,
                          GError    **error)
{
  g_autofree char *path = get_path (root, "proc/meminfo");
  g_autofree char *text = NULL;

  if (!g_file_get_contents (path, &text, NULL, error))
    return FALSE;
  *info = (LlmMeminfo) { 0 };
  if (!find_kib (text, "MemTotal:", &info->total)
      || !find_kib (text, "MemAvailable:", &info->available))
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                   "%s: no MemTotal and MemAvailable in kB", path);
      return FALSE;
    }
  if (!find_kib (text, "SwapFree:", &info->swap_free))
    info->swap_free = 0;
  return TRUE;
}

guint64
llm_sysinfo_read_resident (const char *root)
{
  g_autofree char *path = get_path (root, "proc/self/statm");
  g_autofree char *text = NULL;
  guint64 pages;
  char *end;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return 0;
  g_ascii_strtoull (text, &end, 10);
  pages = g_ascii_strtoull (end, NULL, 10);
  return pages * (guint64) sysconf (_SC_PAGESIZE);
}

static gboolean
has_value (const char *folder,
           const char *supply,
           const char *attribute,
           const char *value)
{
  g_autofree char *path = g_build_filename (folder, supply, attribute, NULL);
  g_autofree char *text = NULL;

  return g_file_get_contents (path, &text, NULL, NULL) && g_str_equal (g_strstrip (text), value);
}

/* A mouse's battery is one, too, but not the machine's ("Device"). */
static gboolean
is_own_battery (const char *folder,
                const char *supply)
{
  return has_value (folder, supply, "type", "Battery") &&
         !has_value (folder, supply, "scope", "Device") &&
         !has_value (folder, supply, "present", "0");
}

LlmSupply
llm_sysinfo_read_supply (const char *root)
{
  g_autofree char *folder = get_path (root, "sys/class/power_supply");
  g_autoptr(GDir) dir = g_dir_open (folder, 0, NULL);
  gboolean has_battery = FALSE, is_discharging = FALSE, is_online = FALSE;
  const char *supply;

  for (guint i = 0;
       i < MAX_SUPPLIES && dir != NULL && (supply = g_dir_read_name (dir)) != NULL; i++)
    {
      if (is_own_battery (folder, supply))
        {
          has_battery = TRUE;
          is_discharging = is_discharging || has_value (folder, supply, "status", "Discharging");
        }
      else if (!has_value (folder, supply, "type", "Battery"))
        {
          is_online = is_online || has_value (folder, supply, "online", "1");
        }
    }

  if (!has_battery)
    return LLM_SUPPLY_NONE;
  /* one that feeds the machine although a weak charger is plugged in does not count */
  return is_discharging && !is_online ? LLM_SUPPLY_BATTERY : LLM_SUPPLY_LINE;
}
