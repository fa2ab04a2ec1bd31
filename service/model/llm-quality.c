/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/llm-quality.h"

#include <float.h>
#include <math.h>

/* 0.1 nats are 5 points. */
#define POINTS_OF_NAT 50
/* A file's numbers are not quite what was meant. */
#define TOLERANCE 1e-4

/* A figure of each level. Some are measured only where there were such tasks. */
typedef struct
{
  const char *name;
  gsize at;                /* in LlmLevelQuality */
  float most;
  gboolean is_of_calls, is_of_replies;
} Figure;

static const Figure figures[] = {
  { "divergences", G_STRUCT_OFFSET (LlmLevelQuality, divergence), FLT_MAX, FALSE, FALSE },
  { "nlls", G_STRUCT_OFFSET (LlmLevelQuality, nll), FLT_MAX, FALSE, FALSE },
  { "valid_calls", G_STRUCT_OFFSET (LlmLevelQuality, valid_calls), 1, TRUE, FALSE },
  { "exact_calls", G_STRUCT_OFFSET (LlmLevelQuality, exact_calls), 1, TRUE, FALSE },
  { "reply_nlls", G_STRUCT_OFFSET (LlmLevelQuality, reply_nll), FLT_MAX, FALSE, TRUE },
};

static gboolean
is_measured (const LlmQuality *self,
             const Figure     *figure)
{
  return (!figure->is_of_calls || self->n_calls > 0) && (!figure->is_of_replies || self->n_replies > 0);
}

static gboolean
read_count (LlmGguf     *gguf,
            const char  *prefix,
            const char  *name,
            guint64      least,
            guint64     *count,
            GError     **error)
{
  g_autofree char *key = g_strconcat (prefix, name, NULL);

  return llm_gguf_get_uint (gguf, key, least, G_MAXUINT32, NULL, count, error);
}

LlmQuality *
llm_quality_read (LlmGguf     *gguf,
                  const char  *prefix,
                  guint        n_levels,
                  GError     **error)
{
  g_autofree LlmQuality *self = g_new0 (LlmQuality, 1);
  g_autofree char *first = g_strconcat (prefix, "scored", NULL);

  if (!llm_gguf_has (gguf, first))
    return NULL;
  self->n_levels = n_levels;
  if (!read_count (gguf, prefix, "scored", 1, &self->n_scored, error)
      || !read_count (gguf, prefix, "calls", 0, &self->n_calls, error)
      || !read_count (gguf, prefix, "replies", 0, &self->n_replies, error))
    return NULL;
  for (guint i = 0; i < G_N_ELEMENTS (figures); i++)
    {
      g_autofree char *key = g_strconcat (prefix, figures[i].name, NULL);
      g_autofree float *values = NULL;

      if (!is_measured (self, &figures[i]))
        continue;
      values = llm_gguf_get_numbers (gguf, key, n_levels, (double) figures[i].most, error);
      if (values == NULL)
        return NULL;
      for (guint level = 0; level < n_levels; level++)
        G_STRUCT_MEMBER (double, &self->levels[level], figures[i].at) = (double) values[level];
    }
  return g_steal_pointer (&self);
}

static void
write_count (LlmGgufWriter *to,
             const char    *prefix,
             const char    *name,
             guint64        count)
{
  g_autofree char *key = g_strconcat (prefix, name, NULL);

  llm_gguf_writer_add_uint (to, key, (guint32) MIN (count, G_MAXUINT32));
}

void
llm_quality_write (const LlmQuality *self,
                   const char       *prefix,
                   LlmGgufWriter    *to)
{
  write_count (to, prefix, "scored", self->n_scored);
  write_count (to, prefix, "calls", self->n_calls);
  write_count (to, prefix, "replies", self->n_replies);
  for (guint i = 0; i < G_N_ELEMENTS (figures); i++)
    {
      g_autofree char *key = g_strconcat (prefix, figures[i].name, NULL);
      float values[LLM_MAX_LEVELS];

      for (guint level = 0; level < self->n_levels; level++)
        values[level] = (float) G_STRUCT_MEMBER (double, &self->levels[level], figures[i].at);
      if (is_measured (self, &figures[i]))
        llm_gguf_writer_add_floats (to, key, values, self->n_levels);
    }
}

void
llm_quality_describe (const LlmQuality *self,
                      guint             level,
                      GVariantDict     *dict)
{
  const LlmLevelQuality *own = &self->levels[level];

  g_variant_dict_insert (dict, "quality", "d", llm_quality_get (self, self->n_levels, level));
  g_variant_dict_insert (dict, "divergence", "d", own->divergence);
  g_variant_dict_insert (dict, "perplexity", "d", exp (own->nll));
  if (self->n_calls > 0)
    {
      g_variant_dict_insert (dict, "valid-calls", "d", 100 * own->valid_calls);
      g_variant_dict_insert (dict, "exact-calls", "d", 100 * own->exact_calls);
    }
  if (self->n_replies > 0)
    g_variant_dict_insert (dict, "reply-nll", "d", own->reply_nll);
}

static double
get_own (const LlmQuality *self,
         guint             level)
{
  const LlmLevelQuality *own = &self->levels[level], *whole = &self->levels[self->n_levels - 1];
  double lost = 100 * (whole->valid_calls - own->valid_calls);

  return CLAMP (100 - MAX (lost, POINTS_OF_NAT * own->divergence), 0, 100);
}

double
llm_quality_get (const LlmQuality *self,
                 guint             n_levels,
                 guint             level)
{
  double least = 100;

  if (self == NULL)
    return level + 1 < n_levels ? 0 : 100;
  for (; level + 1 < n_levels; level++)
    least = MIN (least, get_own (self, level));
  return least;
}

guint
llm_quality_find (const LlmQuality *self,
                  guint             n_levels,
                  double            percent)
{
  guint level = n_levels - 1;

  while (level > 0 && llm_quality_get (self, n_levels, level - 1) >= percent - TOLERANCE)
    level--;
  return level;
}
