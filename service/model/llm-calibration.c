/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/llm-calibration.h"

#include "common/llmsvc-error.h"

#include <float.h>
#include <math.h>
#include <xxhash.h>

#define KEY(name) LLM_CALIBRATION_PREFIX name

enum { EXACT_NLL, NLL, DIVERGENCE, SHADOW_SHARE, N_LOSSES };

LlmCalibration *
llm_calibration_new (const LlmHparams *hparams)
{
  LlmCalibration *self = g_new0 (LlmCalibration, 1);

  self->n_sites = hparams->n_layers * LLM_W8_N_KINDS;
  self->sites = g_new0 (LlmW8Site, self->n_sites);
  self->hot = g_new0 (guint16 *, self->n_sites);
  return self;
}

void
llm_calibration_free (LlmCalibration *self)
{
  if (self == NULL)
    return;

  for (guint at = 0; at < self->n_sites; at++)
    g_free (self->hot[at]);
  g_free (self->hot);
  g_free (self->sites);
  g_free (self);
}

static guint
get_size (guint             at,
          const LlmHparams *hparams)
{
  return llm_w8_kind_get_size (at % LLM_W8_N_KINDS, hparams);
}

/* --- reading --- */

/* (transfer full): integers from 0 to @most, @n of them unless that is 0. */
static gint64 *
read_ints (LlmGguf     *gguf,
           const char  *key,
           gsize       *n,
           gint64       most,
           GError     **error)
{
  gsize n_items;
  g_autofree gint64 *items = llm_gguf_get_ints (gguf, key, FALSE, &n_items, error);

  if (items == NULL)
    return NULL;
  if (*n != 0 && n_items != *n)
    return llm_gguf_fail_null (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                               "%s has %zu items, %zu are needed", key, n_items, *n);
  for (gsize i = 0; i < n_items; i++)
    if (items[i] < 0 || items[i] > most)
      return llm_gguf_fail_null (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                                 "item %zu of %s is %jd; 0 to %jd is possible", i, key,
                                 (intmax_t) items[i], (intmax_t) most);
  *n = n_items;
  return g_steal_pointer (&items);
}

/* The channels of all sites, one site behind the other. */
static gboolean
read_hot (LlmCalibration    *self,
          LlmGguf           *gguf,
          const LlmHparams  *hparams,
          GError           **error)
{
  gsize n_counts = self->n_sites, n = 0, first = 0;
  g_autofree gint64 *counts = read_ints (gguf, KEY ("n_hot"), &n_counts, G_MAXUINT16, error);
  g_autofree gint64 *channels =
    counts != NULL ? read_ints (gguf, KEY ("hot"), &n, LLK_W8_MAX_INPUTS, error) : NULL;

  if (channels == NULL)
    return FALSE;
  for (guint at = 0; at < self->n_sites; at++)
    {
      guint size = get_size (at, hparams);

      if ((gsize) counts[at] > n - first)
        return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                              "%s has %zu items, fewer than %s says", KEY ("hot"), n,
                              KEY ("n_hot"));
      if (counts[at] > 0)
        self->sites[at].hot_of = self->hot[at] = g_new0 (guint16, size);
      for (guint i = 0; i < counts[at]; i++)
        {
          gint64 channel = channels[first + i];

          if (channel >= size || (i > 0 && channel <= channels[first + i - 1]))
            return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                                  "item %zu of %s is %jd: those of a site rise, below its %u channels",
                                  first + i, KEY ("hot"), (intmax_t) channel, size);
          self->hot[at][channel] = (guint16) (i + 1);
        }
      first += (gsize) counts[at];
    }
  return TRUE;
}

static gboolean
read_sites (LlmCalibration    *self,
            LlmGguf           *gguf,
            GError           **error)
{
  gsize n = self->n_sites;
  g_autofree float *scales = llm_gguf_get_numbers (gguf, KEY ("scales"), n, FLT_MAX, error);
  g_autofree gint64 *shadows =
    scales != NULL ? read_ints (gguf, KEY ("shadows"), &n, 1, error) : NULL;

  for (guint at = 0; shadows != NULL && at < self->n_sites; at++)
    {
      self->sites[at].scale = scales[at];
      self->sites[at].has_shadow = shadows[at] != 0;
      /* its inverse is used */
      if (scales[at] > 0 && !isfinite (1 / scales[at]))
        return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                              "item %u of %s is %g, which is too small", at, KEY ("scales"),
                              (double) scales[at]);
    }
  return shadows != NULL;
}

static gboolean
read_loss (LlmCalibration    *self,
           LlmGguf           *gguf,
           GError           **error)
{
  g_autofree float *losses =
    llm_gguf_get_numbers (gguf, KEY ("losses"), N_LOSSES, FLT_MAX, error);

  if (losses == NULL
      || !llm_gguf_get_uint (gguf, KEY ("scored"), 1, G_MAXUINT32, NULL, &self->loss.n_scored, error))
    return FALSE;
  self->loss.exact_nll = (double) losses[EXACT_NLL];
  self->loss.nll = (double) losses[NLL];
  self->loss.divergence = (double) losses[DIVERGENCE];
  self->loss.shadow_share = (double) losses[SHADOW_SHARE];
  return TRUE;
}

LlmCalibration *
llm_calibration_read (LlmGguf           *gguf,
                      const LlmHparams  *hparams,
                      GError           **error)
{
  g_autoptr(LlmCalibration) self = NULL;

  if (!llm_gguf_has (gguf, KEY ("scales")))
    return NULL;
  self = llm_calibration_new (hparams);
  return read_sites (self, gguf, error) && read_hot (self, gguf, hparams, error)
         && read_loss (self, gguf, error) ? g_steal_pointer (&self) : NULL;
}

/* --- writing --- */

/* (transfer full) (element-type guint32): the channels of all sites. @counts: of each. */
static GArray *
list_hot (const LlmCalibration *self,
          const LlmHparams     *hparams,
          guint32              *counts)
{
  GArray *channels = g_array_new (FALSE, FALSE, sizeof (guint32));

  for (guint at = 0; at < self->n_sites; at++)
    {
      guint before = channels->len;

      for (guint32 i = 0; self->hot[at] != NULL && i < get_size (at, hparams); i++)
        if (self->hot[at][i] != 0)
          g_array_append_val (channels, i);
      counts[at] = channels->len - before;
    }
  return channels;
}

void
llm_calibration_write (const LlmCalibration *self,
                       const LlmHparams     *hparams,
                       LlmGgufWriter        *to)
{
  const float losses[N_LOSSES] = {
    (float) self->loss.exact_nll, (float) self->loss.nll, (float) self->loss.divergence,
    (float) self->loss.shadow_share,
  };
  g_autofree float *scales = g_new (float, self->n_sites);
  g_autofree guint32 *shadows = g_new (guint32, self->n_sites);
  g_autofree guint32 *counts = g_new (guint32, self->n_sites);
  g_autoptr(GArray) channels = list_hot (self, hparams, counts);

  for (guint at = 0; at < self->n_sites; at++)
    {
      scales[at] = self->sites[at].scale;
      shadows[at] = self->sites[at].has_shadow;
    }
  llm_gguf_writer_add_floats (to, KEY ("scales"), scales, self->n_sites);
  llm_gguf_writer_add_uints (to, KEY ("shadows"), shadows, self->n_sites);
  llm_gguf_writer_add_uints (to, KEY ("n_hot"), counts, self->n_sites);
  llm_gguf_writer_add_uints (to, KEY ("hot"), (const guint32 *) (gpointer) channels->data,
                             channels->len);
  llm_gguf_writer_add_floats (to, KEY ("losses"), losses, N_LOSSES);
  llm_gguf_writer_add_uint (to, KEY ("scored"), (guint32) MIN (self->loss.n_scored, G_MAXUINT32));
}

/* --- what it says --- */

double
llm_calibration_get_growth (const LlmCalibration *self)
{
  return expm1 (self->loss.nll - self->loss.exact_nll);
}

gboolean
llm_calibration_is_near (const LlmCalibration *self)
{
  return llm_calibration_get_growth (self) <= LLM_CALIBRATION_MAX_GROWTH
         && self->loss.divergence <= LLM_CALIBRATION_MAX_DIVERGENCE;
}

guint64
llm_calibration_hash (const LlmCalibration *self,
                      const LlmHparams     *hparams)
{
  guint64 hash = 0;

  for (guint at = 0; at < self->n_sites; at++)
    {
      const LlmW8Site *site = &self->sites[at];

      hash = XXH3_64bits_withSeed (&site->scale, sizeof site->scale,
                                   hash + (site->has_shadow ? 1 : 0));
      if (site->hot_of != NULL)
        hash = XXH3_64bits_withSeed (site->hot_of, get_size (at, hparams) * sizeof (guint16), hash);
    }
  return hash;
}
