/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "machine/bench-limits.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE (2u << 20)
/* Pieces of a thread's part: what the reading loop asks for, for 16 streams. */
#define PART_MULTIPLE (16u * 4096)
#define CACHE_BYTES (1u << 20)
#define CACHE_ROUNDS 200
/* Computing is measured in slices of pieces, after a rest: what is slow at first and then fast is two
 * figures. */
#define SLICE_NS (10 * G_GINT64_CONSTANT (1000000))
#define PIECE_NS G_GINT64_CONSTANT (500000)
#define N_SLICES 32
#define REST_US 20000
#define SLOW_SHARE 0.8

/* --- sets of instructions --- */

static const BenchSet *const all[] = {
  &bench_set_portable,
#if defined (__x86_64__)
  &bench_set_avx2,
  &bench_set_avxvnni,
  &bench_set_avx512,
  &bench_set_amx,
#elif defined (__aarch64__)
  &bench_set_neon,
  &bench_set_dotprod,
  &bench_set_i8mm,
#endif
};

const BenchSet *const *
bench_set_list (void)
{
  static const BenchSet *possible[G_N_ELEMENTS (all) + 1];
  guint n = 0;

  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    if (all[i]->can_run ())
      possible[n++] = all[i];
  possible[n] = NULL;
  return possible;
}

const BenchPeak *
bench_set_find_peak (const char      *kernels,
                     const char      *name,
                     const BenchSet **set)
{
  const BenchSet *const *sets = bench_set_list ();
  const BenchPeak *found = NULL;

  for (guint i = 0; sets[i] != NULL; i++)
    {
      for (const BenchPeak *peak = sets[i]->peaks; peak->name != NULL; peak++)
        if (strcmp (peak->name, name) == 0)
          {
            found = peak;
            *set = sets[i];
          }
      if (kernels != NULL && strcmp (sets[i]->name, kernels) == 0)
        break;
    }
  return found;
}

/* --- threads --- */

typedef void (*TeamFunc) (guint    thread,
                          gpointer data);

typedef struct
{
  TeamFunc func;
  gpointer data;
  guint n_threads;
  guint n_waiting;   /* (atomic) */
  gint has_begun;    /* (atomic) */
} Team;

typedef struct
{
  Team *team;
  guint thread;
  gint64 end_ns;
} Member;

static gint64
get_ns (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return now.tv_sec * G_GINT64_CONSTANT (1000000000) + now.tv_nsec;
}

static gpointer
run_member (gpointer data)
{
  Member *member = data;
  Team *team = member->team;

  g_atomic_int_inc (&team->n_waiting);
  while (!g_atomic_int_get (&team->has_begun))
    ;
  team->func (member->thread, team->data);
  member->end_ns = get_ns ();
  return NULL;
}

/* Runs @func in threads that begin together; the seconds from there to the end of the last. */
static double
run_team (guint    n_threads,
          TeamFunc func,
          gpointer data)
{
  Team team = { func, data, n_threads, 0, 0 };
  g_autofree Member *members = g_new0 (Member, n_threads);
  g_autofree GThread **threads = g_new0 (GThread *, n_threads);
  gint64 begin_ns, end_ns = 0;

  for (guint i = 0; i < n_threads; i++)
    {
      members[i] = (Member) { &team, i, 0 };
      threads[i] = g_thread_new ("bench", run_member, &members[i]);
    }
  while (g_atomic_int_get (&team.n_waiting) < (gint) n_threads)
    g_usleep (20);
  begin_ns = get_ns ();
  g_atomic_int_set (&team.has_begun, 1);
  for (guint i = 0; i < n_threads; i++)
    {
      g_thread_join (threads[i]);
      end_ns = MAX (end_ns, members[i].end_ns);
    }
  return (double) (end_ns - begin_ns) / 1e9;
}

/* --- memory --- */

/* What the kernel's list of this process's memory says of the mapping at @data. */
static gsize
read_huge_bytes (const guint8 *data)
{
  static const char *const keys[] = { "AnonHugePages:", "FilePmdMapped:", "ShmemPmdMapped:" };
  g_autofree char *text = NULL;
  g_auto(GStrv) lines = NULL;
  gboolean is_inside = FALSE;
  gsize kib = 0;

  if (!g_file_get_contents ("/proc/self/smaps", &text, NULL, NULL))
    return 0;
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      guint64 first, end;

      if (sscanf (lines[i], "%" G_GINT64_MODIFIER "x-%" G_GINT64_MODIFIER "x ", &first, &end) == 2)
        is_inside = first <= (guintptr) data && (guintptr) data < end;
      for (guint k = 0; is_inside && k < G_N_ELEMENTS (keys); k++)
        if (g_str_has_prefix (lines[i], keys[k]))
          kib += g_ascii_strtoull (lines[i] + strlen (keys[k]), NULL, 10);
    }
  return kib * 1024;
}

/* Large writes, so that the page cache takes large folios. */
static gboolean
make_file (BenchMemory *self,
           const char  *folder,
           GError     **error)
{
  const gsize piece = 4u << 20;
  g_autofree guint8 *bytes = g_malloc (piece);

  self->fd = open (folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (self->fd < 0)
    return bench_fail_errno (error, "%s", folder);

  memset (bytes, 1, piece);
  for (gsize at = 0; at < self->bytes; at += piece)
    if (write (self->fd, bytes, MIN (piece, self->bytes - at)) < 0)
      return bench_fail_errno (error, "%s", folder);
  /* So that nothing is written while others measure. */
  fsync (self->fd);
  return TRUE;
}

static gboolean
map_memory (BenchMemory *self,
            BenchPages   pages,
            GError     **error)
{
  self->mapping_bytes = self->bytes + HUGE_PAGE;
  self->mapping = mmap (NULL, self->mapping_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (self->mapping == MAP_FAILED)
    return bench_fail_errno (error, "mmap");

  self->data = (guint8 *) (((guintptr) self->mapping + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
  if (pages == BENCH_PAGES_FILE &&
      mmap (self->data, self->bytes, PROT_READ, MAP_SHARED | MAP_FIXED, self->fd, 0) == MAP_FAILED)
    return bench_fail_errno (error, "mmap");
  if (pages != BENCH_PAGES_FILE)
    madvise (self->data, self->bytes, pages == BENCH_PAGES_HUGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return TRUE;
}

BenchMemory *
bench_memory_new (BenchPages   pages,
                  gsize        bytes,
                  const char  *folder,
                  GError     **error)
{
  g_autoptr(BenchMemory) self = g_new0 (BenchMemory, 1);
  guint64 sum = 0;

  self->bytes = MAX (bytes / HUGE_PAGE, 1) * HUGE_PAGE;
  self->mapping = MAP_FAILED;
  self->fd = -1;
  if ((pages == BENCH_PAGES_FILE && !make_file (self, folder, error)) ||
      !map_memory (self, pages, error))
    return NULL;

  if (pages == BENCH_PAGES_FILE)
    for (gsize i = 0; i < self->bytes; i += 4096)
      sum += ((volatile guint8 *) self->data)[i];
  else
    memset (self->data, 1, self->bytes);
  self->huge_bytes = read_huge_bytes (self->data);
  return g_steal_pointer (&self);
}

void
bench_memory_free (BenchMemory *self)
{
  if (self == NULL)
    return;
  if (self->mapping != MAP_FAILED)
    munmap (self->mapping, self->mapping_bytes);
  if (self->fd >= 0)
    close (self->fd);
  g_free (self);
}

/* --- readings --- */

typedef struct
{
  const BenchSet *set;
  const guint8 *data;
  gsize part_bytes;
  guint n_streams;
  gboolean prefetches;
  guint n_rounds;
  guint64 sum;            /* (atomic), so that no read is left out */
} Reading;

static void
run_reading (guint    thread,
             gpointer data)
{
  Reading *reading = data;
  guint64 sum = 0;

  for (guint i = 0; i < reading->n_rounds; i++)
    sum += reading->set->read (reading->data + thread * reading->part_bytes, reading->part_bytes,
                               reading->n_streams, reading->prefetches);
  __atomic_fetch_add (&reading->sum, sum, __ATOMIC_RELAXED);
}

/* The best set reads with the widest instructions. */
static const BenchSet *
get_best_set (void)
{
  const BenchSet *const *sets = bench_set_list ();
  guint n = 0;

  while (sets[n + 1] != NULL)
    n++;
  return sets[n];
}

static double
time_reading (Reading *reading,
              guint    n_threads)
{
  double seconds = run_team (n_threads, run_reading, reading);

  return (double) reading->part_bytes * n_threads * reading->n_rounds / seconds;
}

double
bench_read_memory (const BenchMemory *memory,
                   guint              n_threads,
                   guint              n_streams,
                   gboolean           prefetches)
{
  Reading reading = {
    .set = get_best_set (),
    .data = memory->data,
    .part_bytes = memory->bytes / n_threads / PART_MULTIPLE * PART_MULTIPLE,
    .n_streams = n_streams,
    .prefetches = prefetches,
    .n_rounds = 1,
  };

  return time_reading (&reading, n_threads);
}

double
bench_read_cache (guint n_threads)
{
  g_autoptr(BenchMemory) memory = bench_memory_new (BENCH_PAGES_HUGE,
                                                    (gsize) CACHE_BYTES * n_threads, NULL, NULL);
  Reading reading = {
    .set = get_best_set (),
    .part_bytes = CACHE_BYTES,
    .n_streams = 1,
    .n_rounds = CACHE_ROUNDS,
  };

  if (memory == NULL)
    return 0;
  reading.data = memory->data;
  return time_reading (&reading, n_threads);
}

double
bench_read_best (const BenchMemory *memory,
                 guint              n_threads)
{
  static const guint n_streams[] = { 4, 8, 16 };
  double best = 0;

  for (guint i = 0; i < 2 * G_N_ELEMENTS (n_streams); i++)
    best = MAX (best, bench_read_memory (memory, n_threads,
                                         n_streams[i % G_N_ELEMENTS (n_streams)], TRUE));
  return best;
}

/* --- computing --- */

typedef struct
{
  const BenchPeak *peak;
  guint64 n_rounds;       /* of a piece: PIECE_NS at first */
  gint64 pause_ns;        /* behind each piece: then other work */
  guint n_slices;
  double *rates;          /* [threads × n_slices]: rounds a second, while it computes */
} Computing;

/* What the unit that is measured does not see. */
static void
work_elsewhere (gint64 ns)
{
  gint64 end_ns = get_ns () + ns;
  volatile guint64 n = 0;

  while (get_ns () < end_ns)
    n++;
}

static void
run_computing (guint    thread,
               gpointer data)
{
  const Computing *computing = data;

  for (guint i = 0; i < computing->n_slices; i++)
    {
      gint64 begin_ns = get_ns (), computed_ns = 0;
      guint64 n_pieces = 0;

      while (get_ns () - begin_ns < SLICE_NS)
        {
          gint64 piece_ns = get_ns ();

          computing->peak->run (computing->n_rounds);
          computed_ns += get_ns () - piece_ns;
          n_pieces++;
          if (computing->pause_ns > 0)
            work_elsewhere (computing->pause_ns);
        }
      computing->rates[thread * computing->n_slices + i] =
        (double) (n_pieces * computing->n_rounds) * 1e9 / (double) computed_ns;
    }
}

/* (transfer full): operations a second in each slice, of all threads together. */
static double *
measure_slices (const BenchPeak *peak,
                guint            n_threads,
                guint            n_slices,
                gint64           pause_ns)
{
  Computing computing = { peak, 64, pause_ns, n_slices, g_new (double, n_threads * n_slices) };
  double *rates = g_new0 (double, n_slices);

  for (gint64 ns = 0; ns < PIECE_NS; computing.n_rounds *= 2)
    {
      gint64 begin_ns = get_ns ();

      peak->run (computing.n_rounds);
      ns = 2 * (get_ns () - begin_ns);
    }
  g_usleep (REST_US);
  run_team (n_threads, run_computing, &computing);
  for (guint i = 0; i < n_threads * n_slices; i++)
    rates[i % n_slices] += computing.rates[i] * (double) peak->ops;
  g_free (computing.rates);
  return rates;
}

/* Of the second half. */
static double
find_steady (const double *rates)
{
  double sum = 0;

  for (guint i = N_SLICES / 2; i < N_SLICES; i++)
    sum += rates[i];
  return sum / (N_SLICES - N_SLICES / 2);
}

BenchSpeeds
bench_compute (const BenchPeak *peak,
               guint            n_threads)
{
  g_autofree double *rates = measure_slices (peak, n_threads, N_SLICES, 0);
  BenchSpeeds speeds = { rates[0], find_steady (rates), 0 };
  guint slow = 0;

  while (slow < N_SLICES && rates[slow] < SLOW_SHARE * speeds.steady)
    slow++;
  speeds.rise_ms = slow * SLICE_NS / 1e6;
  return speeds;
}

double
bench_compute_with_pauses (const BenchPeak *peak,
                           guint            n_threads,
                           double           pause_ms)
{
  g_autofree double *rates = measure_slices (peak, n_threads, N_SLICES, (gint64) (pause_ms * 1e6));

  return find_steady (rates);
}
