/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/output/llmctl-rows.h"

#include <glib/gi18n.h>
#include <unistd.h>

#include "llmctl/bus/llmctl-service.h"
#include "llmctl/output/llmctl-output.h"
#include "llmctl/output/llmctl-words.h"

char *
llmctl_format_text (GVariant   *row,
                    const char *key)
{
  return g_strdup (llmctl_dict_get_string (row, key));
}

char *
llmctl_format_word (GVariant   *row,
                    const char *key)
{
  return g_strdup (llmctl_words_say (llmctl_dict_get_string (row, key)));
}

char *
llmctl_format_name (GVariant   *row,
                    const char *key)
{
  const char *name = llmctl_dict_get_string (row, key);

  return g_strdup (*name != '\0' ? name : _("(without a name)"));
}

char *
llmctl_format_number (GVariant   *row,
                      const char *key)
{
  return g_strdup_printf ("%" G_GUINT64_FORMAT, llmctl_dict_get_number (row, key));
}

char *
llmctl_format_count (GVariant   *row,
                     const char *key)
{
  static const char *const units[] = { "", " k", " M", " G", " T" };
  double scaled = (double) llmctl_dict_get_number (row, key);
  guint unit = 0;

  for (; scaled >= 1000 && unit < G_N_ELEMENTS (units) - 1; unit++)
    scaled /= 1000;

  return g_strdup_printf (unit > 0 ? "%.1f%s" : "%.0f%s", scaled, units[unit]);
}

char *
llmctl_format_size (GVariant   *row,
                    const char *key)
{
  g_autoptr(GVariant) value = llmctl_dict_look_up (row, key, NULL);

  return value != NULL ? llmctl_format_bytes (llmctl_dict_get_number (row, key)) : g_strdup ("?");
}

char *
llmctl_format_time (GVariant   *row,
                    const char *key)
{
  guint64 seconds = llmctl_dict_get_number (row, key);
  g_autoptr(GDateTime) time = NULL;

  if (seconds > 0 && seconds <= G_MAXINT64)
    time = g_date_time_new_from_unix_local ((gint64) seconds);
  return time != NULL ? g_date_time_format (time, "%Y-%m-%d %H:%M") : g_strdup ("");
}

/* A key that people type is a key in every language, also where the word is one elsewhere. */
static const char *
get_title (const LlmctlColumn *column)
{
  gboolean is_key = *column->title == '\0' || g_str_equal (column->title, column->key);

  return is_key ? column->title : _(column->title);
}

/* (transfer full): with those of @columns that are no more to spare than @most. */
static LlmctlTable *
make_table (const LlmctlColumn *columns,
            GVariant           *rows,
            guint               most)
{
  g_autoptr(GPtrArray) header = g_ptr_array_new_null_terminated (8, NULL, TRUE);
  LlmctlTable *table;
  GVariantIter iter;
  GVariant *row;

  for (const LlmctlColumn *column = columns; column->title != NULL; column++)
    if (column->spare <= most)
      g_ptr_array_add (header, (gpointer) get_title (column));
  table = llmctl_table_new ((const char *const *) header->pdata);

  g_variant_iter_init (&iter, rows);
  while (g_variant_iter_loop (&iter, "@a{sv}", &row))
    {
      g_autoptr(GPtrArray) cells = g_ptr_array_new_null_terminated (8, g_free, TRUE);

      for (const LlmctlColumn *column = columns; column->title != NULL; column++)
        if (column->spare <= most)
          g_ptr_array_add (cells, column->format (row, column->key));
      llmctl_table_add (table, (const char *const *) cells->pdata);
    }
  return table;
}

void
llmctl_rows_print (const LlmctlColumn *columns,
                   GVariant           *rows)
{
  gboolean is_terminal = llmctl_output_is_terminal (STDOUT_FILENO);
  LlmctlTable *table;
  guint most = 0;

  for (const LlmctlColumn *column = columns; column->title != NULL; column++)
    most = MAX (most, column->spare);
  table = make_table (columns, rows, most);
  while (is_terminal && most > 0 && llmctl_table_get_width (table) > llmctl_output_get_columns ())
    {
      g_ptr_array_unref (table);
      table = make_table (columns, rows, --most);
    }
  llmctl_table_print (table);
}

gboolean
llmctl_rows_show (const LlmctlColumn *columns,
                  GVariant           *rows,
                  const char         *member,
                  const char         *empty)
{
  g_autoptr(GVariant) owned = g_variant_ref_sink (rows);
  gboolean is_table = !llmctl_globals.is_json && g_variant_n_children (owned) > 0;

  if (is_table)
    llmctl_rows_print (columns, owned);
  else if (llmctl_globals.is_json)
    llmctl_output_json_member (member, owned);
  else
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n", empty);
  return is_table;
}
