/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/bench-replay.h"

#include "forward/llm-row.h"

/* What a group of layers of an extent takes at least, roughly (service/kv/disk/llm-kv-extent.h). */
#define GROUP_BYTES (256 * 1024.0)

/* What LLMS brings (L6): it reads and computes at once. The others read all, then compute. */
gboolean
bench_policy_plans (const LlmKvPolicy *policy)
{
  return policy->recomputes;
}

/* The last chunk, partly filled, is floats that our store never writes: a step's few rows bring it
 * back. The systems that are compared read it like any other, so it is priced so for them. */
static gboolean
reads_tail (const LlmKvPolicy *policy)
{
  return policy->swaps && !policy->writes_ahead && !policy->recomputes;
}

void
bench_profile_set_device (LlmKvProfile      *self,
                          const BenchDevice *device,
                          double             factor)
{
  self->read_latency_us = device->latency_us;
  self->read_bytes_per_us = device->read_bytes_per_us / factor;
  self->write_bytes_per_us = device->write_bytes_per_us / factor;
}

LlmKvChunkInfo *
bench_switch_get_infos (LlmKvSeq *sequence)
{
  guint n = sequence->holds->len;
  LlmKvChunkInfo *infos = g_new (LlmKvChunkInfo, MAX (n, 1));

  for (guint i = 0; i < n; i++)
    llm_kv_seq_get_info (sequence, i, &infos[i]);
  return infos;
}

static LlkKvFormat
find_format (guint bits)
{
  for (LlkKvFormat format = LLK_KV_F32; format < LLK_N_KV_FORMATS; format++)
    if (llk_kv_bits (format) == bits)
      return format;
  return LLK_KV_F16;
}

/* Reads of chunks that are neighbours become one for each group of layers. */
void
bench_switch_set_reads (BenchSwitch *self,
                        double       bytes,
                        guint        n_chunks,
                        guint        n_runs)
{
  self->read_bytes = bytes;
  self->n_read = n_chunks;
  if (n_runs == 0)
    return;
  self->n_groups = CLAMP ((guint) (bytes / n_runs / GROUP_BYTES), 1, self->n_layers);
  self->n_requests = MAX (bytes / GROUP_BYTES, (double) n_runs * self->n_groups);
}

static void
count_reads (BenchSwitch          *self,
             LlmKvStore           *store,
             const LlmKvChunkInfo *infos,
             const gboolean       *is_read,
             guint                 n_chunks,
             double                factor)
{
  double bytes = 0;
  guint n = 0, n_runs = 0;

  for (guint i = 0; i < n_chunks; i++)
    {
      if (!is_read[i])
        continue;
      n++;
      if (i == 0 || !is_read[i - 1])
        n_runs++;
      bytes += (double) llm_kv_store_get_chunk_bytes (store, find_format (infos[i].bits));
    }
  bench_switch_set_reads (self, bytes * factor, n, n_runs);
}

/* Rows at @slots, then @n_new behind @length, in steps as large as they may be: the first one, and
 * the others. A step's time on an empty context has its rows see each other: what they see besides is
 * depth. */
static void
time_rows (const LlmKvProfile *profile,
           const GArray       *slots,
           guint               length,
           guint               n_new,
           double              us[2])
{
  guint n = slots->len + n_new;

  us[0] = us[1] = 0;
  for (guint first = 0; first < n; first += LLM_BATCH_MAX_ROWS)
    {
      guint n_rows = MIN (n - first, LLM_BATCH_MAX_ROWS);
      double depths = 0;

      for (guint i = first; i < first + n_rows; i++)
        {
          guint slot = i < slots->len ? g_array_index (slots, guint, i) : length + (i - slots->len);

          depths += slot - MIN (slot, i - first);
        }
      us[first > 0] += llm_kv_profile_get_prompt_us (profile, n_rows, (guint) (depths / n_rows));
    }
}

void
bench_switch_note (BenchSwitch           *self,
                   LlmKvStore            *store,
                   LlmKvSeq              *sequence,
                   const BenchModelShape *shape,
                   const LlmKvChunkInfo  *infos,
                   GArray                *missing)
{
  const LlmKvLayout *layout = &store->layout;
  double factor = (double) shape->n_layers * shape->n_kv_heads /
                  ((double) layout->n_layers * layout->n_kv_heads);
  guint slots = layout->chunk_slots, n_chunks = sequence->holds->len, n = 0;
  g_autofree gboolean *is_read = g_new (gboolean, MAX (n_chunks, 1));

  for (guint i = 0; i < n_chunks; i++)
    is_read[i] = !infos[i].is_in_memory;
  for (guint i = 0; i < missing->len; i++)
    {
      guint slot = g_array_index (missing, guint, i);
      gboolean is_tail = slot / slots == sequence->length / slots;

      is_read[slot / slots] = is_tail && reads_tail (&store->policy);
      if (!is_read[slot / slots])
        g_array_index (missing, guint, n++) = slot;
    }
  g_array_set_size (missing, n);
  self->n_layers = shape->n_layers;
  count_reads (self, store, infos, is_read, n_chunks, factor);
}

void
bench_switch_time (BenchSwitch        *self,
                   const LlmKvProfile *profile,
                   const GArray       *missing,
                   guint               length,
                   guint               n_new)
{
  g_autoptr(GArray) none = g_array_new (FALSE, FALSE, sizeof (guint));
  double us[2];

  self->n_recomputed = missing->len;
  time_rows (profile, missing, length, n_new, self->us);
  time_rows (profile, missing, length, 0, self->lost_us);
  time_rows (profile, none, length, n_new, us);
  self->new_us = us[0] + us[1];
}

BenchPrice
bench_switch_price (const BenchSwitch *self,
                    const LlmKvPolicy *policy,
                    const BenchDevice *device,
                    const BenchRates  *rates)
{
  const BenchChunkRates *ours = policy->compression == LLM_KV_KEEP ? &rates->floats
                                                                   : &rates->packed;
  const BenchRestore call = {
    .bytes = self->read_bytes,
    .n_requests = self->n_requests,
    .n_groups = MAX (self->n_groups, 1),
    .n_layers = MAX (self->n_layers, 1),
    .first_us = self->us[0],
    .rest_us = self->us[1],
    .take_us = self->read_bytes * ours->take_us_per_byte + self->n_read * ours->take_us_per_chunk,
    .stall_us = self->n_read * ours->stall_us_per_chunk,
  };
  BenchRestore alone = call;
  gboolean overlaps = bench_policy_plans (policy);
  /* Every call begins, and memory is made free before anything is read into it: what is written for
   * it is copied and written, piece by piece. */
  double floor_us = rates->resident_us + (self->read_bytes > 0 ? rates->open_us : 0) +
                    self->n_evicted * ours->evict_us_per_chunk +
                    self->evicted_bytes * ours->evict_us_per_byte +
                    (self->written_bytes > 0 ? rates->create_us : 0) +
                    bench_device_get_write_us (device, self->written_bytes) +
                    self->written_bytes * rates->write_us_per_byte +
                    self->packed_bytes * rates->pack_us_per_byte;

  alone.first_us = self->lost_us[0];
  alone.rest_us = self->lost_us[1];
  return (BenchPrice) {
    .wait_us = floor_us + bench_restore_get_us (&call, device, overlaps) - self->new_us,
    .read_us = floor_us + bench_restore_get_us (&alone, device, overlaps),
    .overlapped_us = floor_us + bench_restore_get_us (&call, device, TRUE) - self->new_us,
  };
}
