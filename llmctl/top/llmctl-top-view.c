/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/top/llmctl-top.h"

#include <glib/gi18n.h>

#include "llmctl/bus/llmctl-service.h"
#include "llmctl/output/llmctl-json.h"
#include "llmctl/output/llmctl-words.h"

/* The right half, for screens that are wide enough for two. */
#define RIGHT_COLUMN 44
#define MIN_HALVES   78

#define BAR_COLUMNS 12

/* A class of answers, and the counters that say how many came in time. */
static const struct
{
  const char *name, *met, *missed;
} classes[] = {
  /* the words of the option “slo” */
  { "interactive", "slo-interactive-met", "slo-interactive-missed" },
  { "responsive", "slo-responsive-met", "slo-responsive-missed" },
  { "background", "slo-background-met", "slo-background-missed" },
  /* Translators: all classes of answers together */
  { N_("all"), "slo-met", "slo-missed" },
};
#define N_CLASSES G_N_ELEMENTS (classes)

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

static gboolean
has_part (GVariant   *sample,
          const char *key)
{
  g_autoptr(GVariant) part = g_variant_lookup_value (sample, key, NULL);

  return part != NULL;
}

static void
draw_service (LlmctlTopView *self,
              LlmctlFrame   *frame)
{
  GVariant *sample = self->sample;
  g_autoptr(GDateTime) now = g_date_time_new_now_local ();
  g_autofree char *time = g_date_time_format (now, "%H:%M:%S");
  gboolean is_running = FALSE;

  llmctl_frame_put (frame, LLMCTL_STYLE_BOLD, "llmsvc ");
  if (sample == NULL)
    llmctl_frame_put (frame, LLMCTL_STYLE_DIM, get_dash ());
  else if (!g_variant_lookup (sample, "running", "b", &is_running) || !is_running)
    llmctl_frame_put (frame, LLMCTL_STYLE_WARNING,
                      _("is not running; the first question starts it"));
  else if (!has_part (sample, "service"))
    llmctl_frame_put (frame, LLMCTL_STYLE_BAD, _("does not answer"));
  else
    {
      const char *availability = llmctl_dict_get_string (sample, "service/availability");

      llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, "%s  ",
                           llmctl_dict_get_string (sample, "service/version"));
      llmctl_frame_put (frame, llmctl_service_get_style (availability, "ready", "failed"),
                        llmctl_words_say (availability));
      llmctl_frame_put (frame, LLMCTL_STYLE_PLAIN,
                        self->is_system ? _(", on the system bus") : _(", on the session bus"));
    }
  if (self->is_paused)
    llmctl_frame_put (frame, LLMCTL_STYLE_WARNING, _("  paused"));
  llmctl_frame_put_right (frame, LLMCTL_STYLE_DIM, frame->columns, time);
  llmctl_frame_end_line (frame);
}

static void
draw_model (GVariant    *sample,
            LlmctlFrame *frame)
{
  const char *reason = llmctl_dict_get_string (sample, "service/availability-reason");
  guint64 bytes = llmctl_dict_get_number (sample, "model/info/file-bytes");
  g_autofree char *size = llmctl_format_bytes (bytes);
  guint held = (guint) llmctl_dict_get_number (sample, "memory/sub-model");

  llmctl_frame_printf (frame, LLMCTL_STYLE_BOLD, "%s  ", _("Model"));
  if (!has_part (sample, "model"))
    llmctl_frame_put (frame, LLMCTL_STYLE_PLAIN, *reason != '\0' ? reason : _("none"));
  else
    llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, "%s (%s)",
                         llmctl_dict_get_string (sample, "model/title"),
                         llmctl_dict_get_string (sample, "model/id"));
  if (bytes > 0)
    llmctl_frame_printf (frame, LLMCTL_STYLE_DIM, ", %s", size);
  if (held > 0 && held < 100)
    /* Translators: of a model; the rest was given back as memory is short */
    llmctl_frame_printf (frame, LLMCTL_STYLE_WARNING, _(", %u %% kept in memory"), held);
  llmctl_frame_end_line (frame);
}

static void
draw_pressure (GVariant    *sample,
               LlmctlFrame *frame)
{
  const char *pressure = llmctl_dict_get_string (sample, "memory/pressure");
  guint64 now = llmctl_dict_get_number (sample, "statistics/budget-now-bytes");
  /* A cut bounds what is not a file's, and may leave nothing. */
  gboolean is_cut = llmctl_dict_get_number (sample, "statistics/cut-bytes") > 0;
  guint64 budget = now > 0 || is_cut ? now : llmctl_dict_get_number (sample, "memory/budget");
  g_autofree char *whole = llmctl_format_bytes (budget);
  g_autofree char *held =
      llmctl_format_bytes (llmctl_dict_get_number (sample, "memory/resident"));
  g_autofree char *anonymous =
      llmctl_format_bytes (llmctl_dict_get_number (sample, "statistics/held-anonymous-bytes"));
  g_autofree char *process =
      llmctl_format_bytes (llmctl_dict_get_number (sample, "statistics/process-resident-bytes"));

  llmctl_frame_printf (frame, LLMCTL_STYLE_BOLD, "%s  ", _("Pressure"));
  llmctl_frame_put (frame, llmctl_service_get_style (pressure, "none", "critical"),
                    llmctl_words_say (pressure));
  llmctl_frame_put (frame, LLMCTL_STYLE_PLAIN, "   ");
  if (is_cut)
    /* Translators: memory that is held; then memory that is no file's, of what of that may be */
    llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, _("held %s, without files %s of %s"), held,
                         anonymous, whole);
  else if (budget > 0)
    /* Translators: memory that is held, of the memory that may be */
    llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, _("held %s of %s"), held, whole);
  else
    llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, _("held %s"), held);
  llmctl_frame_put (frame, LLMCTL_STYLE_PLAIN, "   ");
  llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, _("process %s"), process);
  llmctl_frame_end_line (frame);
}

/* Only when there is something to tell. */
static void
draw_streaming (LlmctlTopView *self,
                GVariant      *sample,
                LlmctlFrame   *frame)
{
  guint64 bytes = llmctl_dict_get_number (sample, "statistics/streaming-bytes");
  g_autofree char *size = llmctl_format_bytes (bytes);
  g_autofree char *rate = NULL;

  if (bytes == 0)
    return;
  llmctl_frame_printf (frame, LLMCTL_STYLE_BOLD, "%s  ", _("Weights"));
  llmctl_frame_printf (frame, LLMCTL_STYLE_WARNING, _("each token reads %s from the disk"), size);
  if (llmctl_history_has_rates (&self->history))
    {
      rate = llmctl_format_bytes (
        (guint64) MAX (llmctl_history_get_rate (&self->history, "streamed-bytes"), 0));
      /* Translators: bytes a second */
      llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, _("   %s/s"), rate);
    }
  llmctl_frame_end_line (frame);
}

/* Only when there is something to tell. */
static void
draw_chunks (GVariant    *sample,
             LlmctlFrame *frame)
{
  guint n_narrow = (guint) llmctl_dict_get_number (sample, "statistics/kv-narrow-chunks");

  if (n_narrow == 0)
    return;
  llmctl_frame_printf (frame, LLMCTL_STYLE_BOLD, "%s  ", _("Chunks"));
  /* Translators: parts of the memory of contexts, which were quantized further while memory was
   * short */
  llmctl_frame_printf (frame, LLMCTL_STYLE_WARNING, _("lack bits: %u"), n_narrow);
  llmctl_frame_end_line (frame);
}

static void
draw_calls (GVariant    *sample,
            LlmctlFrame *frame)
{
  guint queued = (guint) llmctl_dict_get_number (sample, "statistics/queued-calls");

  llmctl_frame_printf (frame, LLMCTL_STYLE_BOLD, "%s  ", _("Calls"));
  llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN,
                       /* Translators: of the calls under way, how many do what */
                       _("%u under way: %u prefill, %u decode, %u stalled, "),
                       (guint) llmctl_dict_get_number (sample, "statistics/calls"),
                       (guint) llmctl_dict_get_number (sample, "statistics/prefill-calls"),
                       (guint) llmctl_dict_get_number (sample, "statistics/decode-calls"),
                       (guint) llmctl_dict_get_number (sample, "statistics/stalled-calls"));
  llmctl_frame_printf (frame, queued > 0 ? LLMCTL_STYLE_WARNING : LLMCTL_STYLE_PLAIN,
                       _("%u waiting"), queued);
  llmctl_frame_end_line (frame);
}

static void
draw_rates (LlmctlTopView *self,
            LlmctlFrame   *frame)
{
  LlmctlHistory *history = &self->history;

  llmctl_frame_printf (frame, LLMCTL_STYLE_BOLD, "%s  ", _("Tokens/s"));
  if (!llmctl_history_has_rates (history))
    llmctl_frame_put (frame, LLMCTL_STYLE_DIM, get_dash ());
  else
    llmctl_frame_printf (
        frame, LLMCTL_STYLE_PLAIN,
        /* Translators: numbers a second; rows go through the model in steps */
        _("%.1f prefill   %.1f decode   %.1f rows/s in %.1f steps/s"),
        llmctl_history_get_rate (history, "prefill-tokens"),
        llmctl_history_get_rate (history, "generated-tokens"),
        llmctl_history_get_rate (history, "rows"), llmctl_history_get_rate (history, "steps"));
  llmctl_frame_end_line (frame);
}

/* --- memory, and beside it answers in time --- */

/* @i: the line below the heading. */
static void
draw_holder (GVariant    *sample,
             LlmctlFrame *frame,
             guint        i)
{
  static const struct { const char *label, *key; } holders[] = {
    { N_("weights"), "memory/weights" },
    { N_("contexts"), "memory/kv-resident" },
    { N_("compressed"), "memory/kv-compressed" },
    /* Translators: memory held by everything that is not listed */
    { N_("other"), NULL },
    { N_("on storage"), "memory/kv-swapped" },   /* not in memory */
  };
  gboolean is_utf8 = g_get_charset (NULL);
  guint64 held = llmctl_dict_get_number (sample, "memory/resident");
  guint64 bytes = holders[i].key != NULL ? llmctl_dict_get_number (sample, holders[i].key) : held;
  double share = 0;
  g_autofree char *size = NULL;

  for (guint j = 0; holders[i].key == NULL && j < i; j++)
    bytes -= MIN (bytes, llmctl_dict_get_number (sample, holders[j].key));

  size = llmctl_format_bytes (bytes);
  llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, "  %s", _(holders[i].label));
  llmctl_frame_put_right (frame, LLMCTL_STYLE_PLAIN, 23, size);
  if (i + 1 == G_N_ELEMENTS (holders))
    return;
  if (held > 0)
    share = MIN ((double) bytes / (double) held, 1);
  llmctl_frame_move (frame, 24);
  for (guint j = 0; j < BAR_COLUMNS; j++)
    if (j < (guint) (share * BAR_COLUMNS + 0.5))
      llmctl_frame_put (frame, LLMCTL_STYLE_GOOD, is_utf8 ? "█" : "#");
    else
      llmctl_frame_put (frame, LLMCTL_STYLE_DIM, is_utf8 ? "░" : ".");
  llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, "%4.0f %%", share * 100);
}

/* "98.7 %" of so many, so that both columns align. */
static void
draw_share (LlmctlFrame *frame,
            guint        column,
            guint64      met,
            guint64      missed)
{
  guint64 n = met + missed;
  double share = n > 0 ? (double) met / (double) n : 0;
  g_autofree char *percent = n > 0 ? g_strdup_printf ("%.1f %%", share * 100)
                                   : g_strdup (get_dash ());
  g_autofree char *number = g_strdup_printf ("%" G_GUINT64_FORMAT, n);

  llmctl_frame_put_right (frame,
                          n == 0          ? LLMCTL_STYLE_DIM
                          : share >= 0.99 ? LLMCTL_STYLE_GOOD
                          : share >= 0.9  ? LLMCTL_STYLE_WARNING
                                          : LLMCTL_STYLE_BAD,
                          column + 7, percent);
  llmctl_frame_put_right (frame, LLMCTL_STYLE_DIM, column + 13, number);
}

/* @i: a class, or N_CLASSES for the heading. */
static void
draw_class (LlmctlTopView *self,
            GVariant      *statistics,
            LlmctlFrame   *frame,
            guint          left,
            guint          i)
{
  llmctl_frame_move (frame, left);
  if (i == N_CLASSES)
    {
      llmctl_frame_put (frame, LLMCTL_STYLE_BOLD, _("In time"));
      llmctl_frame_put_right (frame, LLMCTL_STYLE_BOLD, left + 22, _("last minute"));
      llmctl_frame_put_right (frame, LLMCTL_STYLE_BOLD, left + 35, _("since start"));
      return;
    }
  llmctl_frame_put (frame, LLMCTL_STYLE_PLAIN, _(classes[i].name));
  draw_share (frame, left + 9, llmctl_history_get_recent (&self->history, classes[i].met),
              llmctl_history_get_recent (&self->history, classes[i].missed));
  draw_share (frame, left + 22, llmctl_dict_get_number (statistics, classes[i].met),
              llmctl_dict_get_number (statistics, classes[i].missed));
}

static void
draw_halves (LlmctlTopView *self,
             LlmctlFrame   *frame)
{
  g_autoptr(GVariant) statistics = g_variant_lookup_value (self->sample, "statistics", NULL);
  gboolean is_wide = frame->columns >= MIN_HALVES;
  guint shown[N_CLASSES + 1] = { N_CLASSES };
  guint n_shown = 1;   /* the heading, and those that the service counts */

  for (guint i = 0; i < N_CLASSES; i++)
    if (g_variant_lookup (statistics, classes[i].met, "t", NULL))
      shown[n_shown++] = i;

  for (guint i = 0; i < 6; i++)
    {
      if (i == 0)
        llmctl_frame_put (frame, LLMCTL_STYLE_BOLD, _("Memory by holder"));
      else
        draw_holder (self->sample, frame, i - 1);
      if (is_wide && i < n_shown)
        draw_class (self, statistics, frame, RIGHT_COLUMN, shown[i]);
      llmctl_frame_end_line (frame);
    }
  for (guint i = 0; i < n_shown && !is_wide; i++)
    {
      draw_class (self, statistics, frame, i == 0 ? 0 : 2, shown[i]);
      llmctl_frame_end_line (frame);
    }
}

/* --- the whole --- */

static void
draw_help (LlmctlFrame *frame)
{
  static const char *const keys[][2] = {
    { "q", N_("quit") },
    { "s", N_("sort by memory, tokens or name") },
    { "p", N_("pause, and go on") },
    { "h", N_("show or hide this") },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      llmctl_frame_printf (frame, LLMCTL_STYLE_BOLD, "  %s", keys[i][0]);
      llmctl_frame_printf (frame, LLMCTL_STYLE_PLAIN, "  %s", _(keys[i][1]));
      llmctl_frame_end_line (frame);
    }
  llmctl_frame_end_line (frame);
  llmctl_frame_put (frame, LLMCTL_STYLE_DIM,
                    _("Tables have your own applications and contexts; root sees all "
                      "applications."));
  llmctl_frame_end_line (frame);
}

LlmctlFrame *
llmctl_top_view_draw (LlmctlTopView *self,
                      guint          columns,
                      guint          rows,
                      gboolean       has_styles)
{
  LlmctlFrame *frame = llmctl_frame_new (columns, has_styles);
  GVariant *sample = self->sample;
  guint body = rows > 0 && self->has_keys ? rows - 1 : rows;
  gboolean is_told = sample != NULL && has_part (sample, "service") &&
                     has_part (sample, "memory") && has_part (sample, "statistics");

  draw_service (self, frame);
  if (is_told)
    {
      draw_model (sample, frame);
      draw_pressure (sample, frame);
      draw_streaming (self, sample, frame);
      draw_chunks (sample, frame);
      draw_calls (sample, frame);
      draw_rates (self, frame);
      draw_halves (self, frame);
    }
  if (self->is_help)
    draw_help (frame);
  else if (is_told)
    llmctl_top_tables_draw (sample, self->order, frame, body);
  if (!self->has_keys)
    return frame;

  g_ptr_array_set_size (frame->lines, (int) MIN (frame->lines->len, body));
  while (frame->lines->len < body)
    llmctl_frame_end_line (frame);
  llmctl_frame_printf (frame, LLMCTL_STYLE_DIM,
                       /* Translators: keys and what they do; the argument is what is sorted by */
                       _("q quit   s sort (%s)   p pause   h help"), _(order_names[self->order]));
  llmctl_frame_end_line (frame);
  return frame;
}

/* --- JSON --- */

static void
add_growth (LlmctlTopView   *self,
            GVariant        *statistics,
            GVariantBuilder *builder)
{
  static const char *const keys[] = { "prompt-tokens", "cached-tokens", "output-tokens",
                                      "prefill-tokens", "generated-tokens", "rows", "steps" };
  g_autoptr(GVariantDict) rates = g_variant_dict_new (NULL);
  g_autoptr(GVariantDict) recent = g_variant_dict_new (NULL);

  for (gsize i = 0; i < G_N_ELEMENTS (keys) && llmctl_history_has_rates (&self->history); i++)
    if (g_variant_lookup (statistics, keys[i], "t", NULL))
      g_variant_dict_insert (rates, keys[i], "d",
                             llmctl_history_get_rate (&self->history, keys[i]));
  for (gsize i = 0; i < N_CLASSES * 2; i++)
    {
      const char *key = i % 2 == 0 ? classes[i / 2].met : classes[i / 2].missed;

      if (g_variant_lookup (statistics, classes[i / 2].met, "t", NULL))
        g_variant_dict_insert (recent, key, "t", llmctl_history_get_recent (&self->history, key));
    }
  llmctl_json_add (builder, "rates", g_variant_dict_end (rates));
  llmctl_json_add (builder, "last-minute", g_variant_dict_end (recent));
}

GVariant *
llmctl_top_view_make_json (LlmctlTopView *self)
{
  g_autoptr(GDateTime) now = g_date_time_new_now_utc ();
  g_autofree char *time = g_date_time_format_iso8601 (now);
  GVariantBuilder builder;
  GVariantIter iter;
  const char *key;
  GVariant *part;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  llmctl_json_add_string (&builder, "time", time);
  g_variant_iter_init (&iter, self->sample);
  while (g_variant_iter_loop (&iter, "{&sv}", &key, &part))
    {
      llmctl_json_add (&builder, key, part);
      if (g_str_equal (key, "statistics"))
        add_growth (self, part, &builder);
    }

  return g_variant_builder_end (&builder);
}
