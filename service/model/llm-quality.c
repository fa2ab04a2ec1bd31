/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/llm-quality.h"

#include <float.h>

#define KEY(name) LLM_QUALITY_PREFIX name
/* 0.1 nats are 5 points. */
#define POINTS_OF_NAT 50
/* A file's numbers are not quite what was meant. */
#define TOLERANCE 1e-4

/* A figure of each level. Some are measured only where there were such tasks. */
typedef struct
{
  const char *key;
  gsize at;                /* in LlmLevelQuality */
  float most;
  gboolean is_of_calls, is_of_replies;
} Figure;

static const Figure figures[] = {
  { KEY ("divergences"), G_STRUCT_OFFSET (LlmLevelQuality, divergence), FLT_MAX, FALSE, FALSE },
  { KEY ("nlls"), G_STRUCT_OFFSET (LlmLevelQuality, nll), FLT_MAX, FALSE, FALSE },
  { KEY ("valid_calls"), G_STRUCT_OFFSET (LlmLevelQuality, valid_calls), 1, TRUE, FALSE },
  { KEY ("exact_calls"), G_STRUCT_OFFSET (LlmLevelQuality, exact_calls), 1, TRUE, FALSE },
  { KEY ("reply_nlls"), G_STRUCT_OFFSET (LlmLevelQuality, reply_nll), FLT_MAX, FALSE, TRUE },
};

static gboolean
is_measured (const LlmQuality *self,
             const Figure     *figure)
{
  return (!figure->is_of_calls || self->n_calls > 0) && (!figure->is_of_replies || self->n_replies > 0);
}

LlmQuality *
llm_quality_read (LlmGguf  *gguf,
                  guint     n_levels,
                  GError  **error)
{
  g_autofree LlmQuality *self = g_new0 (LlmQuality, 1);

  if (!llm_gguf_has (gguf, KEY ("scored")))
    return NULL;
  self->n_levels = n_levels;
  if (!llm_gguf_get_uint (gguf, KEY ("scored"), 1, G_MAXUINT32, NULL, &self->n_scored, error)
      || !llm_gguf_get_uint (gguf, KEY ("calls"), 0, G_MAXUINT32, NULL, &self->n_calls, error)
      || !llm_gguf_get_uint (gguf, KEY ("replies"), 0, G_MAXUINT32, NULL, &self->n_replies, error))
    return NULL;
  for (guint i = 0; i < G_N_ELEMENTS (figures); i++)
    {
      g_autofree float *values = NULL;

      if (!is_measured (self, &figures[i]))
        continue;
      values = llm_gguf_get_numbers (gguf, figures[i].key, n_levels, (double) figures[i].most, error);
      if (values == NULL)
        return NULL;
      for (guint level = 0; level < n_levels; level++)
        G_STRUCT_MEMBER (double, &self->levels[level], figures[i].at) = (double) values[level];
    }
  return g_steal_pointer (&self);
}

void
llm_quality_write (const LlmQuality *self,
                   LlmGgufWriter    *to)
{
  llm_gguf_writer_add_uint (to, KEY ("scored"), (guint32) MIN (self->n_scored, G_MAXUINT32));
  llm_gguf_writer_add_uint (to, KEY ("calls"), (guint32) self->n_calls);
  llm_gguf_writer_add_uint (to, KEY ("replies"), (guint32) self->n_replies);
  for (guint i = 0; i < G_N_ELEMENTS (figures); i++)
    {
      float values[LLM_MAX_LEVELS];

      for (guint level = 0; level < self->n_levels; level++)
        values[level] = (float) G_STRUCT_MEMBER (double, &self->levels[level], figures[i].at);
      if (is_measured (self, &figures[i]))
        llm_gguf_writer_add_floats (to, figures[i].key, values, self->n_levels);
    }
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
