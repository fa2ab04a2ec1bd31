/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/top/llmctl-top-view.h"

#include <glib/gi18n.h>

#include "llmctl/bus/llmctl-service.h"
#include "llmctl/top/llmctl-top-rows.h"

/* The right half, for screens that are wide enough for two. */
#define RIGHT_COLUMN 44
#define MIN_HALVES   78

#define BAR_COLUMNS 12

#define N_CLASSES 4

const LlmctlTopClass llmctl_top_classes[] = {
  /* the words of the option “slo” */
  { "interactive", "slo-interactive-met", "slo-interactive-missed" },
  { "responsive", "slo-responsive-met", "slo-responsive-missed" },
  { "background", "slo-background-met", "slo-background-missed" },
  /* Translators: all classes of answers together */
  { N_("all"), "slo-met", "slo-missed" },
  { NULL },
};

static const char *const order_names[] = {
  [LLMCTL_TOP_BY_MEMORY] = N_("memory"),
  [LLMCTL_TOP_BY_TOKENS] = N_("tokens"),
  [LLMCTL_TOP_BY_NAME] = N_("name"),
};

/* For what is not known, or is of nothing. */
static const char *
get_dash (void)
{
  return g_get_charset (NULL) ? "–" : "-";
}

/* --- the head --- */

static LlmctlStyle
get_availability_style (const char *availability)
{
  if (g_str_equal (availability, "ready"))
    return LLMCTL_STYLE_GOOD;

  return g_str_equal (availability, "failed") ? LLMCTL_STYLE_BAD : LLMCTL_STYLE_WARNING;
}

static LlmctlStyle
get_pressure_style (const char *pressure)
{
  if (g_str_equal (pressure, "none"))
    return LLMCTL_STYLE_GOOD;

  return g_str_equal (pressure, "critical") ? LLMCTL_STYLE_BAD : LLMCTL_STYLE_WARNING;
}

static void
draw_service (const LlmctlTopView *self,
              LlmctlFrame         *frame,
              guint                columns)
{
  const LlmctlSample *sample = self->sample;
  g_autoptr(GDateTime) now = g_date_time_new_now_local ();
  g_autofree char *time = g_date_time_format (now, "%H:%M:%S");

  llmctl_frame_put (frame, LLMCTL_STYLE_BOLD, "llmsvc ");
  if (sample == NULL)
    {
      llmctl_frame_put (frame, LLMCTL_STYLE_DIM, get_dash ());
    }
  else if (!sample->is_running)
    {
      llmctl_frame_put (frame, LLMCTL_STYLE_WARNING,
                        _("is not running; the first question starts it"));
    }
  else if (sample->service == NULL)
    {
      llmctl_frame_put (frame, LLMCTL_STYLE_BAD, _("does not answer"));
    }
  else
    {
      const char *availability = llmctl_dict_get_string (sample->service, "Availability");

      llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, "%s  ",
                           llmctl_dict_get_string (sample->service, "Version"));
      llmctl_frame_put (frame, get_availability_style (availability), availability);
      llmctl_frame_put (frame, LLMCTL_STYLE_PLAIN,
                        self->is_system ? _(", on the system bus") : _(", on the session bus"));
    }
  if (self->is_paused)
    llmctl_frame_put (frame, LLMCTL_STYLE_WARNING, _("  paused"));
  llmctl_frame_put_right (frame, LLMCTL_STYLE_DIM, columns, time);
  llmctl_frame_end_line (frame);
}

static void
draw_model (const LlmctlTopView *self,
            LlmctlFrame         *frame)
{
  const LlmctlSample *sample = self->sample;
  const char *reason = llmctl_dict_get_string (sample->service, "AvailabilityReason");
  g_autoptr(GVariant) info = NULL;
  g_autofree char *size = NULL;

  llmctl_frame_printf (frame, LLMCTL_STYLE_BOLD, "%s  ", _("Model"));
  if (sample->model == NULL)
    {
      llmctl_frame_put (frame, LLMCTL_STYLE_PLAIN, *reason != '\0' ? reason : _("none"));
      llmctl_frame_end_line (frame);
      return;
    }

  info = g_variant_lookup_value (sample->model, "Info", G_VARIANT_TYPE_VARDICT);
  llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, "%s (%s)",
                       llmctl_dict_get_string (sample->model, "Title"),
                       llmctl_dict_get_string (sample->model, "Id"));
  if (info != NULL && llmctl_dict_get_number (info, "file-bytes") > 0)
    {
      size = llmctl_format_bytes (llmctl_dict_get_number (info, "file-bytes"));
      llmctl_frame_printf (frame, LLMCTL_STYLE_DIM, ", %s", size);
    }
  llmctl_frame_end_line (frame);
}

static void
draw_pressure (const LlmctlTopView *self,
               LlmctlFrame         *frame)
{
  const LlmctlSample *sample = self->sample;
  const char *pressure = llmctl_dict_get_string (sample->memory, "Pressure");
  guint64 budget = llmctl_sample_count (sample, "budget-now-bytes");
  /* A cut bounds what is not a file's, and may leave nothing. */
  gboolean is_cut = llmctl_sample_count (sample, "cut-bytes") > 0;
  g_autofree char *held =
      llmctl_format_bytes (llmctl_dict_get_number (sample->memory, "Resident"));
  g_autofree char *anonymous =
      llmctl_format_bytes (llmctl_sample_count (sample, "held-anonymous-bytes"));
  g_autofree char *process =
      llmctl_format_bytes (llmctl_sample_count (sample, "process-resident-bytes"));
  g_autofree char *whole = NULL;

  if (budget == 0 && !is_cut)
    budget = llmctl_dict_get_number (sample->memory, "Budget");
  llmctl_frame_printf (frame, LLMCTL_STYLE_BOLD, "%s  ", _("Pressure"));
  llmctl_frame_put (frame, get_pressure_style (pressure), pressure);
  llmctl_frame_put (frame, LLMCTL_STYLE_PLAIN, "   ");
  if (is_cut)
    {
      whole = llmctl_format_bytes (budget);
      /* Translators: memory that is held; then memory that is no file's, of what of that may be */
      llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, _("held %s, without files %s of %s"), held,
                           anonymous, whole);
    }
  else if (budget > 0)
    {
      whole = llmctl_format_bytes (budget);
      /* Translators: memory that is held, of the memory that may be */
      llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, _("held %s of %s"), held, whole);
    }
  else
    {
      llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, _("held %s"), held);
    }
  llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, "   ");
  llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, _("process %s"), process);
  llmctl_frame_end_line (frame);
}

static guint
count_states (const LlmctlSample *sample,
              const char         *state)
{
  guint n = 0;

  for (guint i = 0; i < sample->states->len; i++)
    n += g_str_equal (g_ptr_array_index (sample->states, i), state);

  return n;
}

/* Of all callers where the service counts them, else of this one. */
static guint
count_calls (const LlmctlSample *sample,
             const char         *state)
{
  g_autofree char *key = g_strconcat (state, "-calls", NULL);

  if (llmctl_sample_has (sample, key))
    return (guint) llmctl_sample_count (sample, key);

  return count_states (sample, state);
}

static void
draw_calls (const LlmctlTopView *self,
            LlmctlFrame         *frame)
{
  const LlmctlSample *sample = self->sample;
  guint queued = count_calls (sample, "queued");

  llmctl_frame_printf (frame, LLMCTL_STYLE_BOLD, "%s  ", _("Calls"));
  llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN,
                       /* Translators: of the calls under way, how many do what */
                       _("%u under way: %u reading, %u writing, %u parked, "),
                       (guint) llmctl_sample_count (sample, "calls"),
                       count_calls (sample, "reading"), count_calls (sample, "writing"),
                       count_calls (sample, "parked"));
  llmctl_frame_printf (frame, queued > 0 ? LLMCTL_STYLE_WARNING : LLMCTL_STYLE_PLAIN,
                       _("%u waiting"), queued);
  llmctl_frame_end_line (frame);
}

static void
draw_rates (const LlmctlTopView *self,
            LlmctlFrame         *frame)
{
  /* those of calls under way, where the service counts them */
  gboolean is_live = llmctl_sample_has (self->sample, "written-tokens");
  const char *read = is_live ? "read-tokens" : "prompt-tokens";
  const char *written = is_live ? "written-tokens" : "output-tokens";

  llmctl_frame_printf (frame, LLMCTL_STYLE_BOLD, "%s  ", _("Tokens/s"));
  if (!llmctl_history_has_rates (self->history))
    llmctl_frame_put (frame, LLMCTL_STYLE_DIM, get_dash ());
  else
    llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN,
                         /* Translators: numbers a second; rows go through the model in steps */
                         _("%.1f read   %.1f written   %.1f rows/s in %.1f steps/s"),
                         llmctl_history_get_rate (self->history, read),
                         llmctl_history_get_rate (self->history, written),
                         llmctl_history_get_rate (self->history, "rows"),
                         llmctl_history_get_rate (self->history, "steps"));
  llmctl_frame_end_line (frame);
}

/* --- memory, and beside it answers in time --- */

static void
draw_bar (LlmctlFrame *frame,
          guint64      bytes,
          guint64      whole)
{
  gboolean is_utf8 = g_get_charset (NULL);
  double share = whole > 0 ? MIN ((double) bytes / (double) whole, 1) : 0;
  guint filled = (guint) (share * BAR_COLUMNS + 0.5);
  g_autoptr(GString) bar = g_string_new (NULL);
  g_autoptr(GString) rest = g_string_new (NULL);

  for (guint i = 0; i < BAR_COLUMNS; i++)
    g_string_append (i < filled ? bar : rest, i < filled ? (is_utf8 ? "█" : "#")
                                                         : (is_utf8 ? "░" : "."));
  llmctl_frame_put (frame, LLMCTL_STYLE_GOOD, bar->str);
  llmctl_frame_put (frame, LLMCTL_STYLE_DIM, rest->str);
  llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, "%4.0f %%", share * 100);
}

/* @i: the line below the heading. */
static void
draw_holder (const LlmctlTopView *self,
             LlmctlFrame         *frame,
             guint                i)
{
  static const struct
  {
    const char *label;
    const char *key;
    gboolean is_elsewhere;   /* not in memory */
  } holders[] = {
    { N_("weights"), "Weights", FALSE },
    { N_("contexts"), "KvResident", FALSE },
    { N_("compressed"), "KvCompressed", FALSE },
    /* Translators: memory held by everything that is not listed */
    { N_("other"), NULL, FALSE },
    { N_("on storage"), "KvSwapped", TRUE },
  };
  GVariant *memory = self->sample->memory;
  guint64 held = llmctl_dict_get_number (memory, "Resident");
  guint64 bytes = 0;
  g_autofree char *size = NULL;

  if (i >= G_N_ELEMENTS (holders))
    return;
  if (holders[i].key != NULL)
    {
      bytes = llmctl_dict_get_number (memory, holders[i].key);
    }
  else
    {
      bytes = llmctl_dict_get_number (memory, "Weights") +
              llmctl_dict_get_number (memory, "KvResident") +
              llmctl_dict_get_number (memory, "KvCompressed");
      bytes = held > bytes ? held - bytes : 0;
    }
  size = llmctl_format_bytes (bytes);
  llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, "  %s", _(holders[i].label));
  llmctl_frame_put_right (frame, LLMCTL_STYLE_PLAIN, 23, size);
  if (!holders[i].is_elsewhere)
    {
      llmctl_frame_move (frame, 24);
      draw_bar (frame, bytes, held);
    }
}

/* "98.7 %" of so many, so that both columns align. */
static void
draw_share (LlmctlFrame *frame,
            guint        column,
            guint64      met,
            guint64      missed)
{
  double share = met + missed > 0 ? (double) met / (double) (met + missed) : 0;
  g_autofree char *percent = met + missed > 0 ? g_strdup_printf ("%.1f %%", share * 100)
                                              : g_strdup (get_dash ());
  g_autofree char *number = g_strdup_printf ("%" G_GUINT64_FORMAT, met + missed);

  llmctl_frame_put_right (frame,
                          met + missed == 0 ? LLMCTL_STYLE_DIM
                          : share >= 0.99   ? LLMCTL_STYLE_GOOD
                          : share >= 0.9    ? LLMCTL_STYLE_WARNING
                                            : LLMCTL_STYLE_BAD,
                          column + 7, percent);
  llmctl_frame_put_right (frame, LLMCTL_STYLE_DIM, column + 13, number);
}

static void
draw_class (const LlmctlTopView *self,
            LlmctlFrame         *frame,
            guint                left,
            guint                i)
{
  const LlmctlSample *sample = self->sample;
  const LlmctlTopClass *class = &llmctl_top_classes[i];

  llmctl_frame_move (frame, left);
  llmctl_frame_put (frame, LLMCTL_STYLE_PLAIN, _(class->name));
  draw_share (frame, left + 9, llmctl_history_get_recent (self->history, class->met),
              llmctl_history_get_recent (self->history, class->missed));
  draw_share (frame, left + 22, llmctl_sample_count (sample, class->met),
              llmctl_sample_count (sample, class->missed));
}

static void
draw_class_head (LlmctlFrame *frame,
                 guint        left)
{
  llmctl_frame_move (frame, left);
  llmctl_frame_put (frame, LLMCTL_STYLE_BOLD, _("In time"));
  llmctl_frame_put_right (frame, LLMCTL_STYLE_BOLD, left + 22, _("last minute"));
  llmctl_frame_put_right (frame, LLMCTL_STYLE_BOLD, left + 35, _("since start"));
}

static void
draw_halves (const LlmctlTopView *self,
             LlmctlFrame         *frame,
             guint                columns)
{
  gboolean is_wide = columns >= MIN_HALVES;
  guint shown[N_CLASSES];   /* those that the service counts */
  guint n_classes = 0;

  for (guint i = 0; i < N_CLASSES; i++)
    if (llmctl_sample_has (self->sample, llmctl_top_classes[i].met))
      shown[n_classes++] = i;

  llmctl_frame_put (frame, LLMCTL_STYLE_BOLD, _("Memory by holder"));
  if (is_wide)
    draw_class_head (frame, RIGHT_COLUMN);
  llmctl_frame_end_line (frame);
  for (guint i = 0; i < 5; i++)
    {
      draw_holder (self, frame, i);
      if (is_wide && i < n_classes)
        draw_class (self, frame, RIGHT_COLUMN, shown[i]);
      llmctl_frame_end_line (frame);
    }
  if (is_wide)
    return;

  draw_class_head (frame, 0);
  llmctl_frame_end_line (frame);
  for (guint i = 0; i < n_classes; i++)
    {
      draw_class (self, frame, 2, shown[i]);
      llmctl_frame_end_line (frame);
    }
}

/* --- the rest --- */

static void
draw_help (LlmctlFrame *frame)
{
  static const struct
  {
    const char *key;
    const char *text;
  } keys[] = {
    { "q", N_("quit") },
    { "s", N_("sort by memory, tokens or name") },
    { "p", N_("pause, and go on") },
    { "h", N_("show or hide this") },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      llmctl_frame_put (frame, LLMCTL_STYLE_PLAIN, "  ");
      llmctl_frame_put (frame, LLMCTL_STYLE_BOLD, keys[i].key);
      llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, "  %s", _(keys[i].text));
      llmctl_frame_end_line (frame);
    }
  llmctl_frame_end_line (frame);
  llmctl_frame_put (frame, LLMCTL_STYLE_DIM,
                    _("Tables have your own applications and contexts; root sees all "
                      "applications."));
  llmctl_frame_end_line (frame);
}

static void
draw_keys (const LlmctlTopView *self,
           LlmctlFrame         *frame,
           guint                rows)
{
  llmctl_frame_truncate (frame, rows > 0 ? rows - 1 : 0);
  while (llmctl_frame_get_n_lines (frame) + 1 < rows)
    llmctl_frame_end_line (frame);
  llmctl_frame_printf (frame, LLMCTL_STYLE_DIM,
                       /* Translators: keys and what they do; the argument is what is sorted by */
                       _("q quit   s sort (%s)   p pause   h help"), _(order_names[self->order]));
  llmctl_frame_end_line (frame);
}

LlmctlFrame *
llmctl_top_view_draw (const LlmctlTopView *self,
                      guint                columns,
                      guint                rows,
                      gboolean             has_styles)
{
  LlmctlFrame *frame = llmctl_frame_new (columns, has_styles);
  guint body = rows > 0 && self->has_keys ? rows - 1 : rows;
  gboolean is_told = self->sample != NULL && self->sample->service != NULL &&
                     self->sample->memory != NULL && self->sample->statistics != NULL;

  draw_service (self, frame, columns);
  if (is_told)
    {
      draw_model (self, frame);
      draw_pressure (self, frame);
      draw_calls (self, frame);
      draw_rates (self, frame);
      draw_halves (self, frame, columns);
    }
  if (self->is_help)
    draw_help (frame);
  else if (is_told)
    llmctl_top_rows_draw (self, frame, columns, body);
  if (self->has_keys)
    draw_keys (self, frame, rows);

  return frame;
}
