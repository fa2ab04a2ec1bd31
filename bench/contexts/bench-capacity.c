/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/bench-capacity.h"

#include <stdio.h>

/* Numbers of contexts that are tried, in this order, until the mean latency exceeds all limits. */
static const guint counts[] = { 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64 };
/* Milliseconds. */
static const double limits[] = { 10, 25 };

#define N_LIMITS G_N_ELEMENTS (limits)

typedef struct
{
  BenchPoint point;          /* n_contexts: tried last */
  guint share;               /* index among those of the axes */
  guint most[N_LIMITS];      /* contexts under each limit; 0: not even the fewest */
  gboolean is_above[N_LIMITS];
  gboolean has_ended;        /* above all */
} Line;

struct _BenchCapacity
{
  BenchGrid *grid;
  const BenchAxes *axes;
  GArray *lines;             /* (element-type Line) */
};

BenchCapacity *
bench_capacity_new (const BenchAxes *axes,
                    BenchGrid       *grid)
{
  BenchCapacity *self = g_new0 (BenchCapacity, 1);

  self->grid = grid;
  self->axes = axes;
  self->lines = g_array_new (FALSE, TRUE, sizeof (Line));
  for (guint s = 0; axes->shapes[s] != NULL; s++)
    for (guint d = 0; axes->devices[d] != NULL; d++)
      for (guint b = 0; axes->shares[b] > 0; b++)
        for (guint p = 0; p < axes->n_patterns; p++)
          for (guint k = 0; axes->policies[k] != NULL; k++)
            {
              Line line = { .share = b, .point = {
                .shape = axes->shapes[s],
                .pattern = axes->patterns[p],
                .share = axes->shares[b],
                .policy = axes->policies[k],
                .device = axes->devices[d],
                .chunk_slots = LLM_KV_CHUNK_SLOTS,
                .max_slots = axes->shapes[s]->max_slots,
                .interval_s = 300,
              } };

              g_array_append_val (self->lines, line);
            }
  return self;
}

void
bench_capacity_free (BenchCapacity *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->lines);
  g_free (self);
}

/* Once above a limit, a lucky trace of more contexts does not count. */
static void
take_result (Line            *line,
             const BenchCell *cell)
{
  line->has_ended = TRUE;
  for (guint i = 0; i < N_LIMITS; i++)
    {
      line->is_above[i] = line->is_above[i] || cell->wait.mean >= limits[i] * 1000;
      if (line->is_above[i])
        continue;
      line->most[i] = cell->point.n_contexts;
      line->has_ended = FALSE;
    }
}

gboolean
bench_capacity_run (BenchCapacity *self,
                    GError       **error)
{
  for (guint n = 0; n < G_N_ELEMENTS (counts); n++)
    {
      for (guint i = 0; i < self->lines->len; i++)
        {
          Line *line = &g_array_index (self->lines, Line, i);

          line->point.n_contexts = counts[n];
          if (!line->has_ended)
            bench_grid_add (self->grid, &line->point);
        }
      if (!bench_grid_run (self->grid, error))
        return FALSE;
      for (guint i = 0; i < self->lines->len; i++)
        {
          Line *line = &g_array_index (self->lines, Line, i);

          if (!line->has_ended)
            take_result (line, bench_grid_find (self->grid, &line->point));
        }
    }
  return TRUE;
}

static const Line *
find_line (BenchCapacity         *self,
           const BenchModelShape *shape,
           const BenchDevice     *device,
           BenchPattern           pattern,
           guint                  share,
           const LlmKvPolicy     *policy)
{
  for (guint i = 0; i < self->lines->len; i++)
    {
      const Line *line = &g_array_index (self->lines, Line, i);

      if (line->point.shape == shape && line->point.device == device &&
          line->point.pattern == pattern && line->share == share && line->point.policy == policy)
        return line;
    }
  g_assert_not_reached ();
}

static void
print_row (BenchCapacity         *self,
           const BenchModelShape *shape,
           const BenchDevice     *device,
           BenchPattern           pattern,
           guint                  share,
           guint                  limit)
{
  const BenchAxes *axes = self->axes;

  printf ("| %s | %s | %.0f %% |", device->name, bench_pattern_names[pattern],
          100 * axes->shares[share]);
  for (guint k = 0; axes->policies[k] != NULL; k++)
    {
      const Line *line = find_line (self, shape, device, pattern, share, axes->policies[k]);
      gboolean is_open = line->most[limit] == counts[G_N_ELEMENTS (counts) - 1];

      /* One context needs no switch. */
      printf (" %s%u |", is_open ? "≥ " : "", MAX (line->most[limit], 1));
    }
  printf ("\n");
}

static void
print_table (BenchCapacity         *self,
             const BenchModelShape *shape,
             guint                  limit)
{
  const BenchAxes *axes = self->axes;

  printf ("\n%s: most contexts under %.0f ms on average (1: not even two; ≥: not more than %u "
          "were tried)\n\n| device | pattern | budget |",
          shape->title, limits[limit], counts[G_N_ELEMENTS (counts) - 1]);
  for (guint k = 0; axes->policies[k] != NULL; k++)
    printf (" %s |", axes->policies[k]->name);
  printf ("\n|---|---|---|");
  for (guint k = 0; axes->policies[k] != NULL; k++)
    printf ("---|");
  printf ("\n");
  for (guint d = 0; axes->devices[d] != NULL; d++)
    for (guint p = 0; p < axes->n_patterns; p++)
      for (guint b = 0; axes->shares[b] > 0; b++)
        print_row (self, shape, axes->devices[d], axes->patterns[p], b, limit);
}

void
bench_capacity_print (BenchCapacity *self)
{
  for (guint s = 0; self->axes->shapes[s] != NULL; s++)
    for (guint limit = 0; limit < N_LIMITS; limit++)
      print_table (self, self->axes->shapes[s], limit);
}

void
bench_capacity_add_json (BenchCapacity *self,
                         JsonBuilder   *builder)
{
  json_builder_set_member_name (builder, "capacity");
  json_builder_begin_array (builder);
  for (guint i = 0; i < self->lines->len; i++)
    {
      const Line *line = &g_array_index (self->lines, Line, i);
      const struct
      {
        const char *name;
        const char *text;
      } words[] = {
        { "shape", line->point.shape->name }, { "device", line->point.device->name },
        { "policy", line->point.policy->name },
        { "pattern", bench_pattern_names[line->point.pattern] },
      };

      json_builder_begin_object (builder);
      for (guint k = 0; k < G_N_ELEMENTS (words); k++)
        {
          json_builder_set_member_name (builder, words[k].name);
          json_builder_add_string_value (builder, words[k].text);
        }
      json_builder_set_member_name (builder, "budget-share");
      json_builder_add_double_value (builder, line->point.share);
      for (guint k = 0; k < N_LIMITS; k++)
        {
          g_autofree char *name = g_strdup_printf ("contexts-under-%.0f-ms", limits[k]);

          json_builder_set_member_name (builder, name);
          json_builder_add_int_value (builder, line->most[k]);
        }
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
}
