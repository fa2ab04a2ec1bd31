/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl top: the applications and the contexts of a sample. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/top/llmctl-top.h"

#include <glib/gi18n.h>
#include <pwd.h>
#include <string.h>

#include "llmctl/bus/llmctl-service.h"

/* Of an unnamed context's random name, enough to tell it from others. */
#define SHOWN_ID 8

typedef struct
{
  const char *title;     /* N_() */
  const char *key;
  guint from_end;        /* of the screen, to where it ends; to where the first begins */
  gboolean is_bytes;
} Column;

/* The name, which gets what the others leave; a word; numbers. */
static const Column app_columns[] = {
  { N_("Application"), "app-id", 0, FALSE },
  { N_("User"), "uid", 56, FALSE },
  { N_("Contexts"), "contexts", 37, FALSE },
  { N_("Calls"), "calls", 29, FALSE },
  { N_("Tokens"), "tokens", 20, FALSE },
  { N_("Memory"), "memory", 10, TRUE },
  /* Translators: of an application, bytes of its stored texts */
  { N_("Texts"), "disk", 0, TRUE },
};
static const Column context_columns[] = {
  { N_("Context"), "name", 0, FALSE },
  { N_("Lives in"), "residency", 56, FALSE },
  { N_("Tokens"), "tokens", 20, FALSE },
  { N_("Memory"), "memory-bytes", 10, TRUE },
  { N_("Storage"), "storage-bytes", 0, TRUE },
};

typedef struct
{
  const Column *columns;
  guint n_columns;
  LlmctlTopOrder order;
  GPtrArray *rows;       /* (element-type GVariant): a{sv} */
} Table;

/* (transfer full): what stands in the first or second column. */
static char *
make_word (const Column *column,
           GVariant     *row)
{
  const char *word = llmctl_dict_get_string (row, column->key);
  guint64 uid = llmctl_dict_get_number (row, column->key);
  const struct passwd *entry;

  if (g_str_equal (column->key, "app-id"))
    return g_utf8_make_valid (llmctl_apps_get_title (row), -1);
  if (g_str_equal (column->key, "name") && *word == '\0')
    /* Translators: a context without a name; the beginning of its number stands for it */
    return g_strdup_printf (_("(unnamed %.*s)"), SHOWN_ID,
                            strrchr (llmctl_dict_get_string (row, "path"), '/') + 1);
  if (!g_str_equal (column->key, "uid"))
    return g_strdup (word);

  entry = uid <= G_MAXUINT32 ? getpwuid ((uid_t) uid) : NULL;
  return entry != NULL ? g_utf8_make_valid (entry->pw_name, -1)
                       : g_strdup_printf ("%" G_GUINT64_FORMAT, uid);
}

static int
compare_rows (gconstpointer a,
              gconstpointer b,
              gpointer      data)
{
  const Table *table = data;
  GVariant *const rows[] = { *(GVariant *const *) a, *(GVariant *const *) b };
  const char *const keys[] = {
    [LLMCTL_TOP_BY_MEMORY] = table->columns[table->n_columns - 2].key,
    [LLMCTL_TOP_BY_TOKENS] = "tokens",
  };
  g_autofree char *first = NULL;
  g_autofree char *second = NULL;

  for (guint order = table->order; order < LLMCTL_TOP_BY_NAME; order++)
    {
      guint64 left = llmctl_dict_get_number (rows[0], keys[order]);
      guint64 right = llmctl_dict_get_number (rows[1], keys[order]);

      if (left != right)
        return left < right ? 1 : -1;
    }
  first = make_word (&table->columns[0], rows[0]);
  second = make_word (&table->columns[0], rows[1]);
  return g_utf8_collate (first, second);
}

/* @list: (nullable): aa{sv} */
static void
table_init (Table          *self,
            const Column   *columns,
            guint           n_columns,
            GVariant       *list,
            LlmctlTopOrder  order)
{
  self->columns = columns;
  self->n_columns = n_columns;
  self->order = order;
  self->rows = g_ptr_array_new_with_free_func ((GDestroyNotify) g_variant_unref);
  for (gsize i = 0; list != NULL && i < g_variant_n_children (list); i++)
    g_ptr_array_add (self->rows, g_variant_get_child_value (list, i));
  g_ptr_array_sort_with_data (self->rows, compare_rows, self);
}

/* What does not fit ends with a sign for that. */
static char *
fit_name (const char *name,
          guint       columns)
{
  g_autoptr(GString) out = g_string_new (name);

  if (llmctl_output_get_width (name) <= columns)
    return g_strdup (name);
  while (out->len > 0 && llmctl_output_get_width (out->str) + 1 > columns)
    g_string_truncate (out,
                       (gsize) (g_utf8_find_prev_char (out->str, out->str + out->len) - out->str));
  g_string_append (out, g_get_charset (NULL) ? "…" : "~");

  return g_string_free (g_steal_pointer (&out), FALSE);
}

/* @row: (nullable): NULL for the heading. */
static void
draw_row (const Table *self,
          LlmctlFrame *frame,
          GVariant    *row)
{
  LlmctlStyle style = row == NULL ? LLMCTL_STYLE_BOLD : LLMCTL_STYLE_PLAIN;
  guint end = CLAMP (frame->columns, 60, 120);

  for (guint i = 0; i < self->n_columns; i++)
    {
      const Column *column = &self->columns[i];
      g_autofree char *text = NULL;
      guint64 number;

      if (row == NULL)
        text = g_strdup (_(column->title));
      else if (i < 2)
        text = make_word (column, row);
      else if (!g_variant_lookup (row, column->key, "t", NULL) && column->is_bytes)
        continue;   /* it was not asked for */
      else
        {
          number = llmctl_dict_get_number (row, column->key);
          text = column->is_bytes ? llmctl_format_bytes (number)
                                  : g_strdup_printf ("%" G_GUINT64_FORMAT, number);
        }

      if (i == 0)
        {
          g_autofree char *name = fit_name (text, end - self->columns[1].from_end - 1);

          llmctl_frame_put (frame, style, name);
          llmctl_frame_move (frame, end - self->columns[1].from_end);
        }
      else if (i == 1)
        llmctl_frame_put (frame, style, text);
      else
        llmctl_frame_put_right (frame, style, end - column->from_end, text);
    }
  llmctl_frame_end_line (frame);
}

/* @room: lines that may be written, the heading included. Takes the rows. */
static void
draw_table (Table       *self,
            LlmctlFrame *frame,
            guint        room)
{
  guint n = MIN (self->rows->len, room > 0 ? room - 1 : 0);

  if (n > 0)
    draw_row (self, frame, NULL);
  for (guint i = 0; i < n; i++)
    draw_row (self, frame, g_ptr_array_index (self->rows, i));
  g_ptr_array_unref (self->rows);
}

void
llmctl_top_tables_draw (const LlmctlSample *sample,
                        LlmctlTopOrder      order,
                        LlmctlFrame        *frame,
                        guint               rows)
{
  Table apps;
  Table contexts;
  guint room = rows - MIN (rows, frame->lines->len);
  guint apps_room, contexts_room;

  table_init (&apps, app_columns, G_N_ELEMENTS (app_columns), sample->apps, order);
  table_init (&contexts, context_columns, G_N_ELEMENTS (context_columns), sample->contexts, order);
  apps_room = MIN (apps.rows->len + 1, room);
  contexts_room = contexts.rows->len + 1;
  /* one application says nothing that its contexts don't, when there is little room; when both
   * are many each has its half */
  if (apps.rows->len + 1 + contexts_room > room && contexts.rows->len > 0)
    apps_room = apps.rows->len > 1
                    ? MIN (apps.rows->len + 1, MAX (room / 2, room - MIN (room, contexts_room)))
                    : 0;
  draw_table (&apps, frame, apps_room);
  draw_table (&contexts, frame, rows - MIN (rows, frame->lines->len));
}
