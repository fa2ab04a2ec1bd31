/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/bench-measure.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "contexts/bench-replay.h"
#include "io/llm-disk.h"
#include "policies/bench-kv-policies.h"
#include "support/llm-test-folder.h"

/* Of the disk alone: how the reader asks for much, and for little. */
#define DISK_BYTES ((gsize) 16 << 20)
#define LATENCY_BYTES 4096
/* Short ones in a round. */
#define N_SHORT 5
/* Tokens of contexts. */
#define LARGE_SLOTS 1024
#define SMALL_SLOTS LLM_KV_CHUNK_SLOTS
/* Of one that is quantized, then written. */
#define WRITTEN_SLOTS (16 * LLM_KV_CHUNK_SLOTS)
/* Of a median: what its interval of 95 % may be wide. A disk that others use, too, is less certain than a
 * processor. */
#define MAX_WIDTH 0.5
/* Of an interval in which a figure is looked for. */
#define N_HALVINGS 40

enum {
  LATENCY, READ, WRITE,      /* the disk: µs, µs for a byte */
  LARGE, LARGE_CPU, LARGE_EVICT, /* a context comes back, with 8 bits, and goes, which is written: µs */
  MIXED, MIXED_CPU, MIXED_EVICT,    /* the same with the bits that LLMS gives it */
  FLOATS, FLOATS_CPU, FLOATS_EVICT, /* the same as floats */
  SMALL,                     /* one of which little is left but fixed costs */
  WRITTEN, WRITTEN_ONE,      /* one is evicted that has to be written: µs */
  PACK,                      /* µs for a byte */
  N_FIGURES,
};

typedef struct
{
  LlmDisk *disk;
  int fd;
  int result;           /* errno of the first request that failed */
  guint8 *memory;       /* (owned): DISK_BYTES, for what is read */
} DiskRun;

struct _BenchTaking
{
  const BenchModelShape *shape;
  char *root;              /* (owned) */
  LlmDisk *disk;           /* (nullable): the storage's */
  LlmKvStorage *storage;   /* (nullable) (owned) */
  LlmKvStore *store;       /* (nullable) (owned): all chunks have 8 bits */
  LlmKvStore *mixed_store; /* (nullable) (owned): bits by density */
  LlmKvStore *floats_store;/* (nullable) (owned): all are floats */
  DiskRun run;
  LlmKvSeq *large;
  LlmKvSeq *small;
  LlmKvSeq *written;
  LlmKvSeq *mixed;         /* as large as large */
  LlmKvSeq *floats;        /* as large as large */
  double mixed_bytes;
  GPtrArray *figures;      /* (element-type BenchFigure) */
  guint n_rounds;          /* of those that count, while rates are told */
};

static double
get_cpu_us (void)
{
  struct timespec time;

  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static double
get_wall_us (void)
{
  return (double) g_get_monotonic_time ();
}

static double
get_rate (BenchTaking *self,
          guint        figure)
{
  gboolean is_short = figure == LATENCY || figure == SMALL || figure == WRITTEN ||
                      figure == WRITTEN_ONE || figure == PACK;

  return bench_rounds_median (self->figures->pdata[figure], is_short ? N_SHORT : 1, self->n_rounds);
}

static void
add (BenchTaking *self,
     guint        figure,
     double       sample)
{
  bench_figure_add (self->figures->pdata[figure], sample);
}

/* --- the disk alone --- */

static guint
get_large_slots (BenchTaking *self)
{
  return MIN (LARGE_SLOTS, self->shape->max_slots / 2);
}

static void
on_done (gssize        n,
         const guint8 *buffer,
         gpointer      data)
{
  DiskRun *run = data;

  if (n <= 0 && run->result == 0)
    run->result = n < 0 ? (int) -n : EIO;
}

static void
fill_buffer (guint8  *buffer,
             gsize    length,
             gpointer data)
{
  memset (buffer, 0x5a, length);
}

/* Microseconds for all of it. */
static double
run_requests (DiskRun *run,
              gsize    bytes,
              gsize    request,
              gboolean writes)
{
  double begin = get_wall_us ();

  for (gsize at = 0; at < bytes; at += request)
    if (writes)
      llm_disk_write (run->disk, LLM_DISK_AHEAD, run->fd, at, request, fill_buffer, on_done, run);
    else
      {
        const struct iovec part = { run->memory + at, request };

        llm_disk_read_parts (run->disk, LLM_DISK_RESTORE, run->fd, at, &part, 1, on_done, run);
      }
  while (llm_disk_get_n_pending (run->disk, writes ? LLM_DISK_AHEAD : LLM_DISK_RESTORE) > 0)
    llm_disk_poll (run->disk, G_USEC_PER_SEC);
  return get_wall_us () - begin;
}

static gboolean
open_file (BenchTaking *self,
           GError     **error)
{
  g_autofree char *path = g_build_filename (self->root, "disk", NULL);

  self->run = (DiskRun) { self->disk, -1, 0, g_aligned_alloc0 (1, DISK_BYTES, LLM_DISK_SECTOR) };
  self->run.fd = llm_disk_open (self->disk, AT_FDCWD, path, O_RDWR | O_CREAT | O_TRUNC);
  if (self->run.fd >= 0)
    return TRUE;
  errno = -self->run.fd;
  return bench_fail_errno (error, "%s", path);
}

/* As much as a large context takes: some devices do little in less time for a byte than much. */
static gsize
get_burst_bytes (BenchTaking *self)
{
  gsize bytes = llm_kv_store_get_chunk_bytes (self->store, LLK_KV_Q8) *
                (get_large_slots (self) / LLM_KV_CHUNK_SLOTS);

  return CLAMP (bytes / LLM_DISK_MAX_BYTES * LLM_DISK_MAX_BYTES, LLM_DISK_MAX_BYTES, DISK_BYTES);
}

static gboolean
read_disk (BenchTaking *self,
           GError     **error)
{
  gsize bytes = get_burst_bytes (self);

  add (self, READ,
       run_requests (&self->run, bytes, LLM_DISK_MAX_BYTES, FALSE) / (double) bytes);
  for (guint i = 0; i < N_SHORT; i++)
    add (self, LATENCY, run_requests (&self->run, LATENCY_BYTES, LATENCY_BYTES, FALSE));
  if (self->run.result == 0)
    return TRUE;
  errno = self->run.result;
  return bench_fail_errno (error, "%s", self->root);
}

/* Last in a round: the device may go on writing, which what is read would wait for. */
static void
write_disk (BenchTaking *self)
{
  add (self, WRITE, run_requests (&self->run, DISK_BYTES, LLM_DISK_MAX_BYTES, TRUE) / DISK_BYTES);
}

/* --- contexts --- */

static void
evict_all (LlmKvStore *store)
{
  llm_kv_store_evict (store, G_MAXUINT64, FALSE);
  bench_store_settle (store);
}

static double
time_evict (LlmKvStore *store)
{
  double begin = get_wall_us ();

  evict_all (store);
  return get_wall_us () - begin;
}

static gboolean
append (LlmKvSeq *sequence,
        guint     n,
        GError  **error)
{
  LlmKvPlan plan;

  return llm_kv_seq_begin_call (sequence, n, &plan, error) &&
         bench_sequence_fill (sequence, n, error);
}

/* (nullable): with @n slots, on storage. */
static LlmKvSeq *
make_context (LlmKvStore  *store,
              const char  *id,
              guint        n,
              GError     **error)
{
  LlmKvSeq *sequence = llm_kv_seq_new (store, "bench", id);

  if (append (sequence, n, error))
    bench_store_end_call (store, sequence);
  else
    g_clear_pointer (&sequence, llm_kv_seq_free);
  return sequence;
}

/* Of a context that is away altogether. */
static gboolean
time_restore (LlmKvSeq  *sequence,
              double    *us,
              double    *cpu_us,
              GError   **error)
{
  LlmKvPlan plan;

  evict_all (sequence->store);
  *us = get_wall_us ();
  *cpu_us = get_cpu_us ();
  if (!llm_kv_seq_begin_call (sequence, 1, &plan, error) ||
      !bench_store_restore (sequence->store, sequence, error))
    return FALSE;
  *us = get_wall_us () - *us;
  *cpu_us = get_cpu_us () - *cpu_us;
  bench_store_end_call (sequence->store, sequence);
  return TRUE;
}

/* Of one that is only in memory, after it was quantized. */
static gboolean
time_written (BenchTaking *self,
              guint        n,
              double      *us,
              double      *pack_us,
              GError     **error)
{
  evict_all (self->store);
  llm_kv_seq_truncate (self->written, 0);
  if (!append (self->written, n, error))
    return FALSE;
  *pack_us = get_cpu_us ();
  bench_store_end_call (self->store, self->written);
  *pack_us = get_cpu_us () - *pack_us;
  *us = time_evict (self->store);
  return TRUE;
}

static double
get_bytes (BenchTaking *self,
           guint        n_slots,
           LlkKvFormat  format)
{
  return n_slots / (double) LLM_KV_CHUNK_SLOTS *
         (double) llm_kv_store_get_chunk_bytes (self->store, format);
}

/* Adds @figure and the two behind it. */
static gboolean
measure_large (BenchTaking *self,
               guint        figure,
               LlmKvSeq    *sequence,
               GError     **error)
{
  double us, cpu_us;

  if (!time_restore (sequence, &us, &cpu_us, error))
    return FALSE;
  add (self, figure, us);
  add (self, figure + 1, cpu_us);
  add (self, figure + 2, time_evict (sequence->store));
  return TRUE;
}

gboolean
bench_taking_run_round (BenchTaking *self,
                        GError     **error)
{
  double us, cpu_us;

  if (!read_disk (self, error) || !measure_large (self, LARGE, self->large, error) ||
      !measure_large (self, MIXED, self->mixed, error) ||
      !measure_large (self, FLOATS, self->floats, error))
    return FALSE;
  for (guint i = 0; i < N_SHORT; i++)
    {
      if (!time_restore (self->small, &us, &cpu_us, error))
        return FALSE;
      add (self, SMALL, us);
      if (!time_written (self, LLM_KV_CHUNK_SLOTS, &us, &cpu_us, error))
        return FALSE;
      add (self, WRITTEN_ONE, us);
      if (!time_written (self, WRITTEN_SLOTS, &us, &cpu_us, error))
        return FALSE;
      add (self, WRITTEN, us);
      add (self, PACK, cpu_us / get_bytes (self, WRITTEN_SLOTS, LLK_KV_F16));
    }
  write_disk (self);
  return TRUE;
}

gboolean
bench_taking_check (BenchTaking *self,
                    GError     **error)
{
  static const struct
  {
    guint figure;
    const char *what;
  } checked[] = {
    { READ, "Reads of the disk" }, { LARGE, "Restores of a context" },
    { MIXED, "Restores of a context of several widths" },
    { FLOATS, "Restores of a context of floats" }, { WRITTEN, "Writes of a context" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (checked); i++)
    {
      BenchFigure *figure = self->figures->pdata[checked[i].figure];
      double low, high;

      if (bench_figure_interval (figure, &low, &high) &&
          high - low <= MAX_WIDTH * bench_figure_median (figure))
        continue;
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_BUSY,
                   "%s of the model “%s” took so different times that their median is uncertain: "
                   "this machine is too busy to be measured", checked[i].what, self->shape->name);
      return FALSE;
    }
  return TRUE;
}

/* --- all of it --- */

/* (nullable): a store of @policy. */
static LlmKvStore *
make_store (BenchTaking *self,
            const char  *policy,
            guint64      identity,
            GError     **error)
{
  const LlmKvLayout layout = bench_model_shape_get_layout (self->shape, LLM_KV_CHUNK_SLOTS, FALSE);
  LlmKvStore *store = llm_kv_store_new (&layout, bench_kv_policy_find (policy), NULL, error);

  if (store != NULL)
    llm_kv_store_set_storage (store, self->storage, identity);
  return store;
}

static gboolean
make_contexts (BenchTaking *self,
               GError     **error)
{
  const struct
  {
    LlmKvSeq **sequence;
    LlmKvStore *store;
    const char *id;
    guint n;
  } contexts[] = {
    { &self->large, self->store, "large", get_large_slots (self) },
    { &self->small, self->store, "small", SMALL_SLOTS },
    { &self->written, self->store, "written", SMALL_SLOTS },
    { &self->mixed, self->mixed_store, "mixed", get_large_slots (self) },
    { &self->floats, self->floats_store, "floats", get_large_slots (self) },
  };

  for (guint i = 0; i < G_N_ELEMENTS (contexts); i++)
    {
      *contexts[i].sequence = make_context (contexts[i].store, contexts[i].id, contexts[i].n, error);
      if (*contexts[i].sequence == NULL)
        return FALSE;
    }
  return TRUE;
}

BenchTaking *
bench_taking_new (const char            *parent,
                  const BenchModelShape *shape,
                  GError               **error)
{
  g_autoptr(BenchTaking) self = g_new0 (BenchTaking, 1);

  self->shape = shape;
  self->figures = bench_figures_new ();
  for (guint i = 0; i < N_FIGURES; i++)
    g_ptr_array_add (self->figures, bench_figure_new ("rate", "µs"));
  self->root = bench_make_folder (parent, error);
  self->disk = self->root != NULL ? llm_disk_new (NULL, error) : NULL;
  self->storage = self->disk != NULL
                    ? llm_kv_storage_new (self->root, self->disk, BENCH_STORAGE_LIMIT, 0, error)
                    : NULL;
  self->store = self->storage != NULL ? make_store (self, "vllm-sq", 1, error) : NULL;
  self->mixed_store = self->store != NULL ? make_store (self, "llms", 2, error) : NULL;
  self->floats_store = self->mixed_store != NULL ? make_store (self, "vllm-s", 3, error) : NULL;
  if (self->floats_store == NULL || !make_contexts (self, error) || !open_file (self, error))
    return NULL;
  self->mixed_bytes = (double) self->mixed_store->bytes;
  run_requests (&self->run, DISK_BYTES, LLM_DISK_MAX_BYTES, TRUE);
  return g_steal_pointer (&self);
}

void
bench_taking_free (BenchTaking *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->large, llm_kv_seq_free);
  g_clear_pointer (&self->small, llm_kv_seq_free);
  g_clear_pointer (&self->written, llm_kv_seq_free);
  g_clear_pointer (&self->mixed, llm_kv_seq_free);
  g_clear_pointer (&self->floats, llm_kv_seq_free);
  g_clear_pointer (&self->store, llm_kv_store_free);
  g_clear_pointer (&self->mixed_store, llm_kv_store_free);
  g_clear_pointer (&self->floats_store, llm_kv_store_free);
  g_clear_pointer (&self->storage, llm_kv_storage_free);
  if (self->run.fd > 0)
    close (self->run.fd);
  g_aligned_free (self->run.memory);
  if (self->root != NULL)
    llm_test_folder_remove (self->root);
  g_free (self->root);
  g_ptr_array_unref (self->figures);
  g_free (self);
}

/* What @rates say of @n_chunks of a context that are read. */
static double
get_read_us (LlmKvStore        *store,
             guint              n_chunks,
             double             bytes,
             const BenchRates  *rates,
             const BenchDevice *disk)
{
  BenchSwitch s = { .n_layers = store->layout.n_layers };

  bench_switch_set_reads (&s, bytes, n_chunks, 1);
  return bench_switch_price (&s, &store->policy, disk, rates).read_us;
}

/* A large context. */
typedef struct
{
  guint figure;          /* its restore */
  LlmKvStore *store;
  guint n_chunks;
  double bytes;
} Large;

/* The stall with which @rates say what was measured: some of it may be hidden by our work. */
static double
find_stall_us (BenchTaking       *self,
               const Large       *large,
               const BenchRates  *rates,
               const BenchDevice *disk)
{
  double us = get_rate (self, large->figure);
  BenchRates tried = *rates;
  double low = 0, high = us;

  for (guint i = 0; i < N_HALVINGS; i++)
    {
      tried.packed.stall_us_per_chunk = tried.floats.stall_us_per_chunk = (low + high) / 2;
      if (get_read_us (large->store, large->n_chunks, large->bytes, &tried, disk) < us)
        low = tried.packed.stall_us_per_chunk;
      else
        high = tried.packed.stall_us_per_chunk;
    }
  return low;
}

/* Two contexts of different widths make a straight line. */
static void
set_line (BenchTaking *self,
          const Large *large,
          const Large *small,
          guint        figure,
          double      *per_byte,
          double      *per_chunk)
{
  double us = get_rate (self, large->figure + figure);
  double less = us - get_rate (self, small->figure + figure);

  *per_byte = CLAMP (less / (large->bytes - small->bytes), 0, us / large->bytes);
  *per_chunk = (us - large->bytes * *per_byte) / large->n_chunks;
}

static void
set_read_rates (BenchTaking       *self,
                const BenchDevice *disk,
                BenchRates        *rates)
{
  guint n = get_large_slots (self) / LLM_KV_CHUNK_SLOTS;
  const Large large = { LARGE, self->store, n, get_bytes (self, get_large_slots (self), LLK_KV_Q8) };
  const Large mixed = { MIXED, self->mixed_store, n, self->mixed_bytes };
  const Large floats = { FLOATS, self->floats_store, n,
                         get_bytes (self, get_large_slots (self), LLK_KV_F16) };

  rates->open_us = 0;
  rates->packed = rates->floats = (BenchChunkRates) { 0 };
  set_line (self, &large, &mixed, 1, &rates->packed.take_us_per_byte,
            &rates->packed.take_us_per_chunk);
  set_line (self, &large, &mixed, 2, &rates->packed.evict_us_per_byte,
            &rates->packed.evict_us_per_chunk);
  rates->floats.take_us_per_chunk = get_rate (self, FLOATS_CPU) / n;
  rates->floats.evict_us_per_chunk = get_rate (self, FLOATS_EVICT) / n;
  rates->open_us = MAX (get_rate (self, SMALL) -
                        get_read_us (self->store, SMALL_SLOTS / LLM_KV_CHUNK_SLOTS,
                                     get_bytes (self, SMALL_SLOTS, LLK_KV_Q8), rates, disk), 0);
  rates->packed.stall_us_per_chunk = (find_stall_us (self, &large, rates, disk) +
                                      find_stall_us (self, &mixed, rates, disk)) / 2;
  rates->floats.stall_us_per_chunk = find_stall_us (self, &floats, rates, disk);
}

static void
set_write_rates (BenchTaking       *self,
                 const BenchDevice *disk,
                 BenchRates        *rates)
{
  double one = get_bytes (self, LLM_KV_CHUNK_SLOTS, LLK_KV_Q8);
  double more = get_bytes (self, WRITTEN_SLOTS, LLK_KV_Q8) - one;

  rates->write_us_per_byte = MAX ((get_rate (self, WRITTEN) - get_rate (self, WRITTEN_ONE)) / more -
                                  get_rate (self, WRITE), 0);
  rates->create_us = MAX (get_rate (self, WRITTEN_ONE) - bench_device_get_write_us (disk, one) -
                          one * rates->write_us_per_byte, 0);
}

void
bench_taking_get_rates (BenchTaking *self,
                        guint        n_rounds,
                        BenchRates  *rates,
                        BenchDevice *disk)
{
  self->n_rounds = n_rounds;
  *disk = (BenchDevice) {
    .name = "disk",
    .latency_us = get_rate (self, LATENCY),
    /* it can do no less than a restore got from it */
    .read_bytes_per_us = MAX (1 / get_rate (self, READ),
                              get_bytes (self, get_large_slots (self), LLK_KV_F16) /
                              get_rate (self, FLOATS)),
    .write_bytes_per_us = 1 / get_rate (self, WRITE),
    .depth = BENCH_DISK_DEPTH,
  };
  set_read_rates (self, disk, rates);
  set_write_rates (self, disk, rates);
  rates->pack_us_per_byte = get_rate (self, PACK);
}
