/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool/llm-w8-lab.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/llm-backend-watch.h"
#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "kernels/llk.h"

/* What a product of floats costs, in products of int8 on dot products: of a shadow, which lies anywhere,
 * and of a hot channel, where each row has one. */
#define FLOAT_COST 24
#define HOT_COST 4
#define MIN_ROWS 4
/* Of so many channels one is hot. */
#define HOT_PART 64

/* Quantiles on either side that are tried for one kind of site. */
#define NEAR 1

static const double quantiles[] = { 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999, 0.99995, 1 };

typedef struct
{
  const LlmW8Lab *lab;
  LlmW8Findings *made;
  LlmBackend *watch, *cold, *backend;   /* of all channels, and of those that are not hot */
  gboolean has_hot;        /* in the scales that are tried */
  float *reference;        /* (owned): exact logits */
  double most;             /* what the divergence may be */
  void (*on_run) (guint n);
  guint n_runs;
} Run;

static int
compare_floats (gconstpointer a,
                gconstpointer b)
{
  float left = *(const float *) a, right = *(const float *) b;

  return (left < right) - (left > right);
}

guint16 *
llm_w8_find_hot (const float *maxima,
                   guint        n)
{
  g_autofree float *sorted = g_memdup2 (maxima, n * sizeof *maxima);
  guint16 *hot_of = g_new0 (guint16, n);
  guint16 n_hot = 0;
  float least;

  qsort (sorted, n, sizeof *sorted, compare_floats);
  least = sorted[n / HOT_PART];
  for (guint i = 0; i < n; i++)
    if (maxima[i] > least)
      hot_of[i] = ++n_hot;
  return hot_of;
}

static gboolean
score_on (Run             *run,
          const LlmW8Lab  *lab,
          LlmBackend      *device,
          LlmW8Score      *result,
          GError         **error)
{
  if (!llm_w8_lab_score (lab, device, run->reference, device == run->watch, result, error))
    return FALSE;
  if (run->on_run != NULL)
    run->on_run (++run->n_runs);
  return TRUE;
}

static gboolean
score (Run         *run,
       LlmBackend  *device,
       LlmW8Score  *result,
       GError     **error)
{
  return score_on (run, run->lab, device, result, error);
}

static gboolean
watch (Run     *run,
       GError **error)
{
  const LlmHparams *hparams = run->lab->hparams;
  LlmW8Findings *made = run->made;
  LlmW8Score exact;
  guint n = 0;

  if (!score (run, run->watch, &exact, error))
    return FALSE;
  made->exact_nll = exact.nll;
  for (guint at = 0; at < made->n_sites; at++)
    {
      guint layer = at / LLM_W8_N_KINDS, kind = at % LLM_W8_N_KINDS;
      const float *maxima = llm_backend_watch_get_maxima (run->watch, layer, kind);

      made->largest[at] = llm_backend_watch_get_quantile (run->watch, layer, kind, 1);
      if (maxima != NULL)
        {
          guint n_channels = llm_w8_kind_get_size (kind, hparams);

          made->maxima[at] = g_memdup2 (maxima, n_channels * sizeof *maxima);
          made->sites[at].hot_of = made->hot[at] = llm_w8_find_hot (maxima, n_channels);
        }
      n += maxima != NULL && made->largest[at] > 0;
    }
  if (n > 0)
    return score_on (run, run->lab, run->cold, &exact, error);
  return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                   "This model has none of the products that are computed with 8 bits");
}

/* Of one kind of site; of all for LLM_W8_N_KINDS. */
static void
set_scales (Run      *run,
            LlmW8Kind of,
            double    quantile,
            gboolean  has_shadow)
{
  LlmW8Findings *made = run->made;

  for (guint at = 0; at < made->n_sites; at++)
    {
      guint kind = at % LLM_W8_N_KINDS;

      if (of != LLM_W8_N_KINDS && of != kind)
        continue;
      if (has_shadow)
        made->quantiles[kind] = quantile;
      made->sites[at] = (LlmW8Site) {
        llm_backend_watch_get_quantile (run->has_hot ? run->cold : run->watch,
                                        at / LLM_W8_N_KINDS, kind, quantile) / LLK_W8_LIMIT,
        has_shadow, run->has_hot ? made->hot[at] : NULL,
      };
      made->scales[has_shadow][at] = made->sites[at].scale;
    }
}

/* What the scales that are tried cost beside products of int8, of which @share are in floats; much more
 * where the divergence is above what it may be, the further the more. The perplexity of a short text is
 * uncertain by more than what is looked for; the divergence from the exact model is not, and is what the
 * loss grows by where the model is right about its text. */
static double
get_price (const Run        *run,
           const LlmW8Score *result,
           double            share)
{
  double hot = run->has_hot ? 1.0 / HOT_PART : 0;
  double cost = HOT_COST * hot + FLOAT_COST * MAX (share - hot, 0);

  return cost + MAX (result->divergence / run->most - 1, 0) + result->divergence / 1000;
}

/* Takes the quantile of the places from @first to @last with the least price, of one kind of site or of
 * all, with all shadows; returns its place, @best where none is better. @least: of the price. */
static gboolean
choose_quantile (Run      *run,
                 LlmW8Kind of,
                 guint     first,
                 guint     last,
                 guint    *best,
                 double   *least,
                 GError  **error)
{
  LlmW8Findings *made = run->made;

  for (guint i = first; i <= last; i++)
    {
      LlmW8Counts before = llm_backend_w8_get_counts (run->backend), after;
      LlmW8Score result;
      double share, price;

      set_scales (run, of, quantiles[i], TRUE);
      if (!score (run, run->backend, &result, error))
        return FALSE;
      after = llm_backend_w8_get_counts (run->backend);
      share = (double) (after.n_shadow_products - before.n_shadow_products)
              / (double) MAX (after.n_products - before.n_products, 1);
      price = get_price (run, &result, share);
      if (price >= *least)
        continue;
      *least = price;
      *best = i;
      made->shadow_share = share;
      made->shadow = result;
    }
  set_scales (run, of, quantiles[*best], TRUE);
  return TRUE;
}

static void
forget_hot (LlmW8Findings *made)
{
  for (guint at = 0; at < made->n_sites; at++)
    g_clear_pointer (&made->hot[at], g_free);
}

/* One for all first, with hot channels if they pay, then each kind for itself near it: where the others lose most, what one does can't
 * be seen. Without a shadow the scale reaches all that calibration saw. */
static gboolean
choose_scales (Run     *run,
               GError **error)
{
  const guint end = G_N_ELEMENTS (quantiles) - 1;
  double least = HUGE_VAL, least_hot;
  guint best = end, best_hot = end;

  if (!choose_quantile (run, LLM_W8_N_KINDS, 0, end, &best, &least, error))
    return FALSE;
  least_hot = least;
  run->has_hot = TRUE;
  if (!choose_quantile (run, LLM_W8_N_KINDS, 0, end, &best_hot, &least_hot, error))
    return FALSE;
  run->has_hot = least_hot < least;
  least = least_hot;
  best = run->has_hot ? best_hot : best;
  if (!run->has_hot)
    forget_hot (run->made);
  set_scales (run, LLM_W8_N_KINDS, 1, FALSE);
  set_scales (run, LLM_W8_N_KINDS, quantiles[best], TRUE);
  for (guint kind = 0; kind < LLM_W8_N_KINDS; kind++)
    {
      guint of_kind = best;

      if (!choose_quantile (run, kind, best - MIN (best, NEAR), MIN (best + NEAR, end), &of_kind,
                            &least, error))
        return FALSE;
    }
  return TRUE;
}

/* A site without a shadow has a scale that reaches further. */
static void
set_shadow (LlmW8Findings *made,
            guint             at,
            gboolean          has_shadow)
{
  made->sites[at] = (LlmW8Site) { made->scales[has_shadow][at], has_shadow, made->hot[at] };
}

/* On one window: they are many, and only their order counts. */
static gboolean
measure_importances (Run     *run,
                     GError **error)
{
  LlmW8Findings *made = run->made;
  LlmW8Lab one = *run->lab;
  LlmW8Score with_all;

  one.n_windows = 1;
  if (!score_on (run, &one, run->backend, &with_all, error))
    return FALSE;
  for (guint at = 0; at < made->n_sites; at++)
    if (made->scales[TRUE][at] > 0)
      {
        LlmW8Score result;

        set_shadow (made, at, FALSE);
        if (!score_on (run, &one, run->backend, &result, error))
          return FALSE;
        set_shadow (made, at, TRUE);
        made->importances[at] = result.divergence - with_all.divergence;
      }
  return TRUE;
}

static int
compare_importances (gconstpointer a,
                     gconstpointer b,
                     gpointer      data)
{
  const double *importances = data;
  guint i = *(const guint *) a, j = *(const guint *) b;

  return importances[i] < importances[j] ? -1 : importances[i] > importances[j] ? 1
         : i < j ? -1 : i > j;
}

static gboolean
score_pruned (Run         *run,
              const guint *order,
              guint        n_pruned,
              LlmW8Score  *result,
              GError     **error)
{
  for (guint i = 0; i < run->made->n_sites; i++)
    set_shadow (run->made, order[i], i >= n_pruned);
  return score (run, run->backend, result, error);
}

/* The most sites, least important first, without which the loss stays within the limit. Found by
 * halving: what is taken was measured. */
static gboolean
prune (Run     *run,
       GError **error)
{
  LlmW8Findings *made = run->made;
  g_autofree guint *order = g_new (guint, made->n_sites);
  guint low = 0, high = made->n_sites + 1;
  LlmW8Score result;

  for (guint i = 0; i < made->n_sites; i++)
    order[i] = i;
  g_qsort_with_data (order, (int) made->n_sites, sizeof *order, compare_importances,
                     made->importances);
  made->pruned = made->shadow;
  while (low + 1 < high)
    {
      guint middle = (low + high) / 2;

      if (!score_pruned (run, order, middle, &result, error))
        return FALSE;
      if (result.divergence <= run->most)
        {
          low = middle;
          made->pruned = result;
        }
      else
        high = middle;
    }
  for (guint i = 0; i < made->n_sites; i++)
    set_shadow (made, order[i], i >= low);
  made->n_pruned = low;
  return TRUE;
}

LlmW8Findings *
llm_w8_lab_search (const LlmW8Lab  *lab,
                  double           most,
                  void           (*on_run) (guint n),
                  GError         **error)
{
  g_autoptr(LlmW8Findings) made = g_new0 (LlmW8Findings, 1);
  g_autoptr(LlmBackend) watcher = llm_backend_watch_new (lab->kernels, lab->hparams, NULL);
  g_autoptr(LlmBackend) cold = NULL, backend = NULL;
  LlmW8Config config = { .hparams = lab->hparams, .min_rows = MIN_ROWS };
  g_autofree float *reference = g_try_new (float, llm_w8_lab_get_reference_size (lab));
  Run run = { lab, made, watcher, .reference = reference, .most = most, .on_run = on_run };

  if (reference == NULL && llm_w8_lab_count_windows (lab) > 0)
    return llm_fail_null (error, LLMSVC_ERROR_NO_MEMORY,
                          "Not enough memory for the reference logits of %u windows: give fewer", llm_w8_lab_count_windows (lab));
  made->n_sites = lab->hparams->n_layers * LLM_W8_N_KINDS;
  made->sites = g_new0 (LlmW8Site, made->n_sites);
  made->scales[FALSE] = g_new0 (float, made->n_sites);
  made->scales[TRUE] = g_new0 (float, made->n_sites);
  made->largest = g_new0 (float, made->n_sites);
  made->maxima = g_new0 (float *, made->n_sites);
  made->hot = g_new0 (guint16 *, made->n_sites);
  made->importances = g_new0 (double, made->n_sites);
  config.sites = made->sites;
  cold = run.cold = llm_backend_watch_new (lab->kernels, lab->hparams, made->sites);
  backend = run.backend = llm_backend_w8_new (lab->kernels, &config);
  if (!watch (&run, error) || !choose_scales (&run, error)
      || !measure_importances (&run, error) || !prune (&run, error))
    return NULL;
  return g_steal_pointer (&made);
}

void
llm_w8_findings_free (LlmW8Findings *self)
{
  if (self == NULL)
    return;

  for (guint i = 0; self->hot != NULL && i < self->n_sites; i++)
    {
      g_free (self->maxima[i]);
      g_free (self->hot[i]);
    }
  g_free (self->maxima);
  g_free (self->hot);
  g_free (self->sites);
  g_free (self->scales[FALSE]);
  g_free (self->scales[TRUE]);
  g_free (self->largest);
  g_free (self->importances);
  g_free (self);
}
