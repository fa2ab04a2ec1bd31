/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl top: the applications and the contexts of a sample. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/top/llmctl-top.h"

#include <glib/gi18n.h>
#include <pwd.h>
#include <string.h>

#include "llmctl/bus/llmctl-service.h"
#include "llmctl/output/llmctl-rows.h"

/* Of an unnamed context's random name, enough to tell it from others. */
#define SHOWN_ID 8

typedef struct
{
  const char *title, *key;
  LlmctlFormat format;
  guint from_end;        /* of the screen, to where it ends; to where the second begins */
} Column;

typedef struct
{
  const Column *columns;
  guint n_columns;
  LlmctlTopOrder order;
  GPtrArray *rows;       /* (element-type GVariant): a{sv} */
} Table;

/* --- what stands in a row --- */

static char *
format_user (GVariant   *row,
             const char *key)
{
  guint64 uid = llmctl_dict_get_number (row, key);
  const struct passwd *entry = uid <= G_MAXUINT32 ? getpwuid ((uid_t) uid) : NULL;

  return entry != NULL ? g_utf8_make_valid (entry->pw_name, -1) : llmctl_format_number (row, key);
}

static char *
format_context (GVariant   *row,
                const char *key)
{
  const char *name = llmctl_dict_get_string (row, key);

  if (*name != '\0')
    return g_strdup (name);
  /* Translators: a context without a name; the beginning of its number stands for it */
  return g_strdup_printf (_("(unnamed %.*s)"), SHOWN_ID,
                          strrchr (llmctl_dict_get_string (row, "path"), '/') + 1);
}

/* Nothing for what was not asked for. */
static char *
format_bytes (GVariant   *row,
              const char *key)
{
  return g_variant_lookup (row, key, "t", NULL) ? llmctl_format_size (row, key) : g_strdup ("");
}

/* The name, which gets what the others leave; a word; numbers, the last but one of memory. */
static const Column app_columns[] = {
  { N_("Application"), "app-id", llmctl_format_name, 0 },
  { N_("User"), "uid", format_user, 56 },
  { N_("Contexts"), "contexts", llmctl_format_number, 37 },
  { N_("Calls"), "calls", llmctl_format_number, 29 },
  { N_("Tokens"), "tokens", llmctl_format_number, 20 },
  { N_("Memory"), "memory", format_bytes, 10 },
  /* Translators: of an application, bytes of its stored texts */
  { N_("Texts"), "disk", format_bytes, 0 },
};
static const Column context_columns[] = {
  { N_("Context"), "name", format_context, 0 },
  { N_("Lives in"), "residency", llmctl_format_word, 56 },
  { N_("Tokens"), "tokens", llmctl_format_number, 20 },
  { N_("Memory"), "memory-bytes", format_bytes, 10 },
  { N_("Storage"), "storage-bytes", format_bytes, 0 },
};

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
  const Column *name = table->columns;
  g_autofree char *first = name->format (rows[0], name->key);
  g_autofree char *second = name->format (rows[1], name->key);

  for (guint order = table->order; order < LLMCTL_TOP_BY_NAME; order++)
    {
      guint64 left = llmctl_dict_get_number (rows[0], keys[order]);
      guint64 right = llmctl_dict_get_number (rows[1], keys[order]);

      if (left != right)
        return left < right ? 1 : -1;
    }
  return g_utf8_collate (first, second);
}

/* @list: the key of the sample, which may be missing */
static void
table_init (Table      *self,
            GVariant   *sample,
            const char *list)
{
  g_autoptr(GVariant) rows = g_variant_lookup_value (sample, list, NULL);

  self->rows = g_ptr_array_new_with_free_func ((GDestroyNotify) g_variant_unref);
  for (gsize i = 0; rows != NULL && i < g_variant_n_children (rows); i++)
    g_ptr_array_add (self->rows, g_variant_get_child_value (rows, i));
  g_ptr_array_sort_with_data (self->rows, compare_rows, self);
}

/* --- drawing --- */

/* What does not fit ends with a sign for that. */
static char *
fit_name (const char *name,
          guint       columns)
{
  guint width = columns - 1;
  g_autofree char *begin = llmctl_output_fit (name, &width);

  return llmctl_output_get_width (name) <= columns
             ? g_strdup (name)
             : g_strconcat (begin, g_get_charset (NULL) ? "…" : "~", NULL);
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
      g_autofree char *text = row != NULL ? column->format (row, column->key)
                                          : g_strdup (_(column->title));

      if (i > 1)
        llmctl_frame_put_right (frame, style, end - column->from_end, text);
      else if (i == 1)
        llmctl_frame_put (frame, style, text);
      else
        {
          g_autofree char *name = fit_name (text, end - self->columns[1].from_end - 1);

          llmctl_frame_put (frame, style, name);
          llmctl_frame_move (frame, end - self->columns[1].from_end);
        }
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
llmctl_top_tables_draw (GVariant       *sample,
                        LlmctlTopOrder  order,
                        LlmctlFrame    *frame,
                        guint           rows)
{
  Table apps = { app_columns, G_N_ELEMENTS (app_columns), order, NULL };
  Table contexts = { context_columns, G_N_ELEMENTS (context_columns), order, NULL };
  guint room = rows - MIN (rows, frame->lines->len);
  guint apps_room, contexts_room;

  table_init (&apps, sample, "apps");
  table_init (&contexts, sample, "contexts");
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
