/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/llm-power-supply.h"

#include <string.h>

#define FOLDER "sys/class/power_supply"
/* More than any machine has, and few enough for a broken one. */
#define MAX_SUPPLIES 64

/* (transfer full) (nullable): the one word of an attribute. */
static char *
read_attribute (const char *folder,
                const char *supply,
                const char *attribute)
{
  g_autofree char *path = g_build_filename (folder, supply, attribute, NULL);
  char *text;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return NULL;
  return g_strstrip (text);
}

static gboolean
has_value (const char *folder,
           const char *supply,
           const char *attribute,
           const char *value)
{
  g_autofree char *text = read_attribute (folder, supply, attribute);

  return text != NULL && strcmp (text, value) == 0;
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

LlmPowerSupply
llm_power_supply_read (const char *root)
{
  g_autofree char *folder = g_build_filename (root != NULL && *root != '\0' ? root : "/", FOLDER,
                                              NULL);
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
    return LLM_POWER_SUPPLY_NONE;
  /* one that feeds the machine although a weak charger is plugged in does not count */
  return is_discharging && !is_online ? LLM_POWER_SUPPLY_BATTERY : LLM_POWER_SUPPLY_LINE;
}
