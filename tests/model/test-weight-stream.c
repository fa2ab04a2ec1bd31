/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ring that weights stream through, with a disk that answers late and in random order: right
 * bytes for as long as they are leased, whatever else happens. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-source.h"

#define N_RANGES 40
#define PATIENCE 10000

typedef struct
{
  char *folder;
  char *path;
  guint8 *bytes;         /* of the file */
  gsize n_bytes;
  gsize largest;         /* of a range, whole blocks */
  LlmStreamRange ranges[N_RANGES];
  LlmTestSource *source;
  LlmLedger *ledger;
  LlmWeightStream *stream;
} Fixture;

/* Ranges of a few bytes to some requests, at any offset. */
static void
set_up (Fixture       *fixture,
        gconstpointer  data)
{
  g_autoptr(GError) error = NULL;
  guint64 at = 1234;

  fixture->folder = llm_test_folder_new ();
  fixture->path = g_build_filename (fixture->folder, "weights", NULL);
  fixture->largest = 0;
  for (guint i = 0; i < N_RANGES; i++)
    {
      guint64 length = i % 7 == 3 ? 64 : i % 5 == 0 ? 1300000 : 100000 + i * 777 * 64;

      fixture->ranges[i] = (LlmStreamRange) { at, length };
      fixture->largest = MAX (fixture->largest, length + 2 * LLM_DISK_BLOCK);
      at += length;
    }
  fixture->n_bytes = at;
  fixture->bytes = g_malloc (at);
  for (gsize i = 0; i < at; i++)
    fixture->bytes[i] = (guint8) (i * 7 + i / 251);
  g_assert_true (g_file_set_contents (fixture->path, (const char *) fixture->bytes, (gssize) at,
                                      &error));
  fixture->source = llm_test_source_new ();
  fixture->ledger = llm_ledger_new ();
}

/* A ring of @bytes; all of it streams. */
static void
begin (Fixture  *fixture,
       gsize     bytes,
       gboolean  poisons)
{
  const LlmStreamConfig config = { .bytes = bytes, .poisons = poisons };
  int fd = open (fixture->path, O_RDONLY | O_CLOEXEC);
  LlmWeightReader *reader = llm_weight_reader_new (fd, fixture->path);

  g_assert_nonnull (reader);
  close (fd);
  llm_weight_reader_set_source (reader, &fixture->source->source);
  fixture->stream =
    llm_weight_stream_new (reader, &config, fixture->ranges, N_RANGES, fixture->ledger);
  for (guint i = 0; i < N_RANGES; i++)
    llm_weight_stream_set (fixture->stream, i, TRUE);
  llm_weight_stream_settle (fixture->stream);
}

static void
end (Fixture *fixture)
{
  g_clear_pointer (&fixture->stream, llm_weight_stream_free);
  g_assert_cmpuint (llm_ledger_get (fixture->ledger, LLM_HOLDER_WEIGHTS), ==, 0);
}

static void
tear_down (Fixture       *fixture,
           gconstpointer  data)
{
  llm_test_source_free (fixture->source);
  llm_ledger_unref (fixture->ledger);
  llm_test_folder_remove (fixture->folder);
  g_free (fixture->folder);
  g_free (fixture->path);
  g_free (fixture->bytes);
}

static void
check_bytes (Fixture      *fixture,
             guint         range,
             const guint8 *data)
{
  const LlmStreamRange *r = &fixture->ranges[range];

  g_assert_cmpmem (data, r->length, fixture->bytes + r->offset, r->length);
}

static const guint8 *
acquire (Fixture *fixture,
         guint    range)
{
  g_autoptr(GError) error = NULL;
  const guint8 *data = NULL;
  LlmStatus status = LLM_PENDING;

  for (guint i = 0; i < PATIENCE && status == LLM_PENDING; i++)
    status = llm_weight_stream_acquire (fixture->stream, range, &data, &error);
  g_assert_no_error (error);
  g_assert_cmpint (status, ==, LLM_READY);
  return data;
}

/* A step: holds up to three ranges that lie one after the other, and then goes on to the next. */
typedef struct
{
  guint at;              /* the first of them */
  guint n;
  const guint8 *data[3]; /* NULL: from the mapping */
  guint n_passes;
  guint n_idle;          /* turns without anything happening */
} Step;

static void
release_all (Fixture *fixture,
             Step    *step)
{
  for (guint i = 0; i < step->n; i++)
    if (step->data[i] != NULL)
      {
        check_bytes (fixture, step->at + i, step->data[i]);
        llm_weight_stream_release (fixture->stream, step->at + i);
      }
  step->n = 0;
}

static void
turn (Fixture *fixture,
      Step    *step)
{
  g_autoptr(GError) error = NULL;
  LlmStatus status = llm_weight_stream_acquire (fixture->stream, step->at + step->n,
                                                &step->data[step->n], &error);
  guint next;

  g_assert_no_error (error);
  if (status == LLM_PENDING)
    {
      g_assert_cmpuint (step->n_idle++, <, PATIENCE);
      return;
    }
  g_assert_cmpint (status, ==, LLM_READY);
  step->n_idle = 0;
  step->n++;
  next = step->at + step->n;
  if (step->n < 3 && next < N_RANGES)
    return;
  release_all (fixture, step);
  step->at = next % N_RANGES;
  step->n_passes += next == N_RANGES;
}

/* One step or two at any distance; now and then one is left, or ranges stop streaming and begin
 * again, or memory is asked back. In a ring that has room for three wherever they lie: one step
 * alone never needs the mapping. */
static void
test_passes (Fixture       *fixture,
             gconstpointer  data)
{
  guint n_steps = GPOINTER_TO_UINT (data);
  LlmStreamFigures figures;

  fixture->source->n_late = 5;
  for (gboolean poisons = FALSE; poisons <= TRUE; poisons++)
    {
      Step steps[2] = { { 0 }, { .at = 17 } };

      begin (fixture, 5 * fixture->largest, poisons);
      while (steps[0].n_passes < 8 || steps[n_steps - 1].n_passes < 8)
        {
          guint what = (guint) g_test_rand_int_range (0, 200);
          Step *step = &steps[g_test_rand_int_range (0, (gint32) n_steps)];

          if (what == 0)
            {
              release_all (fixture, step);
              step->at = (guint) g_test_rand_int_range (0, N_RANGES);
            }
          else if (what == 1)
            {
              guint kept = (guint) g_test_rand_int_range (0, N_RANGES + 1);

              for (guint i = 0; i < N_RANGES; i++)
                llm_weight_stream_set (fixture->stream, i, i >= kept);
              llm_weight_stream_settle (fixture->stream);
            }
          else if (what == 2)
            llm_weight_stream_trim (fixture->stream);
          turn (fixture, step);
        }
      for (guint i = 0; i < n_steps; i++)
        release_all (fixture, &steps[i]);
      llm_weight_stream_get_figures (fixture->stream, &figures);
      g_test_message ("%ju bytes read, %ju ranges from the mapping", figures.read_bytes,
                      figures.n_mapped);
      if (n_steps == 1)
        g_assert_cmpuint (figures.n_mapped, ==, 0);
      end (fixture);
    }
}

/* Two that begin each pass together share what is read, however far one comes ahead. */
static void
test_together (Fixture       *fixture,
               gconstpointer  data)
{
  const guint n_passes = 6;
  gsize ring = 5 * fixture->largest;
  Step steps[2] = { { 0 }, { 0 } };
  LlmStreamFigures figures;

  fixture->source->n_late = 4;
  begin (fixture, ring, TRUE);
  llm_weight_stream_set_readers (fixture->stream, 2);
  while (steps[0].n_passes < n_passes || steps[1].n_passes < n_passes)
    {
      guint i = (guint) g_test_rand_int_range (0, 5) == 0;

      if (steps[i].n_passes <= steps[1 - i].n_passes && steps[i].n_passes < n_passes)
        turn (fixture, &steps[i]);
    }
  llm_weight_stream_get_figures (fixture->stream, &figures);
  g_test_message ("%ju bytes read of %zu in %u passes", figures.read_bytes, fixture->n_bytes,
                  n_passes);
  /* Who is ahead waits for a while only, so what is read twice depends on the order of turns: at
   * most half as much again as once, where each by itself reads more than twice as much. */
  g_assert_cmpuint (figures.read_bytes, <=, n_passes * fixture->n_bytes * 3 / 2);
  end (fixture);
}

/* Answers all that was asked for, and what that leads to. */
static void
answer_all (Fixture *fixture)
{
  while (fixture->source->waiting->len > 0)
    {
      fixture->source->source.poll (fixture->source, 1);
      llm_weight_stream_poll (fixture->stream);
    }
}

/* While no step asks, the ring fills with what comes next, and no more; behind the last range the
 * first one comes. Each pass reads each range once. */
static void
test_ahead (Fixture       *fixture,
            gconstpointer  data)
{
  const guint first = 4;
  guint64 sum = 0;
  gsize ring = 4 * fixture->largest;
  LlmStreamFigures figures;
  const guint8 *found;

  begin (fixture, ring, FALSE);
  for (guint i = 0; i < first; i++)
    llm_weight_stream_set (fixture->stream, i, FALSE);
  for (guint i = first; i < N_RANGES; i++)
    {
      const LlmStreamRange *r = &fixture->ranges[i];
      guint64 end = r->offset + r->length;

      sum += MIN ((end + LLM_DISK_BLOCK - 1) / LLM_DISK_BLOCK * LLM_DISK_BLOCK, fixture->n_bytes)
             - r->offset / LLM_DISK_BLOCK * LLM_DISK_BLOCK;
    }
  g_assert_nonnull (acquire (fixture, N_RANGES - 1));
  llm_weight_stream_release (fixture->stream, N_RANGES - 1);
  for (guint pass = 0; pass < 3; pass++)
    for (guint i = first; i < N_RANGES; i++)
      {
        answer_all (fixture);
        /* it is there before anybody asks */
        g_assert_cmpint (llm_weight_stream_acquire (fixture->stream, i, &found, NULL), ==,
                         LLM_READY);
        g_assert_nonnull (found);
        check_bytes (fixture, i, found);
        llm_weight_stream_release (fixture->stream, i);
      }
  llm_weight_stream_get_figures (fixture->stream, &figures);
  /* with what is ahead of the last, and was in front of the first */
  g_assert_cmpuint (figures.read_bytes, >=, 3 * sum);
  g_assert_cmpuint (figures.read_bytes, <=, 3 * sum + ring + fixture->largest);
  g_assert_cmpuint (figures.ring_bytes, >=, ring);
  g_assert_cmpuint (llm_ledger_get (fixture->ledger, LLM_HOLDER_WEIGHTS), ==, figures.ring_bytes);

  /* some ranges before the end, too */
  llm_weight_stream_trim (fixture->stream);
  g_assert_nonnull (acquire (fixture, N_RANGES - 3));
  llm_weight_stream_release (fixture->stream, N_RANGES - 3);
  answer_all (fixture);
  g_assert_cmpint (llm_weight_stream_acquire (fixture->stream, first, &found, NULL), ==, LLM_READY);
  check_bytes (fixture, first, found);
  llm_weight_stream_release (fixture->stream, first);
  end (fixture);
}

/* All buffers are leased by two that wait for more: both go on, by the mapping. */
static void
test_all_leased (Fixture       *fixture,
                 gconstpointer  data)
{
  const guint large[] = { 0, 5, 20 };
  LlmStreamFigures figures;

  begin (fixture, 2 * fixture->largest, TRUE);
  check_bytes (fixture, large[0], acquire (fixture, large[0]));
  check_bytes (fixture, large[1], acquire (fixture, large[1]));
  g_assert_null (acquire (fixture, large[2]));
  llm_weight_stream_get_figures (fixture->stream, &figures);
  g_assert_cmpuint (figures.n_mapped, ==, 1);
  llm_weight_stream_release (fixture->stream, large[0]);
  check_bytes (fixture, large[2], acquire (fixture, large[2]));
  llm_weight_stream_release (fixture->stream, large[2]);
  llm_weight_stream_release (fixture->stream, large[1]);
  end (fixture);
}

/* Who asks gets the reason, once; then it is tried again. What others hold stays. */
static void
test_errors (Fixture       *fixture,
             gconstpointer  data)
{
  const gssize failures[] = { -EIO, -ENOMEM, 1 };

  for (guint i = 0; i < G_N_ELEMENTS (failures); i++)
    {
      const guint8 *held, *found;
      guint n_failed = 0;

      begin (fixture, 4 * fixture->largest, TRUE);
      held = acquire (fixture, 0);
      answer_all (fixture);
      fixture->source->failure = failures[i];
      fixture->source->fails_in = 1;
      for (guint range = 20; range < N_RANGES; range++)
        {
          g_autoptr(GError) error = NULL;
          LlmStatus status;

          while ((status = llm_weight_stream_acquire (fixture->stream, range, &found, &error))
                 == LLM_PENDING)
            ;
          if (status == LLM_FAILED)
            {
              g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
              g_assert_nonnull (strstr (error->message, fixture->path));
              n_failed++;
              found = acquire (fixture, range);
            }
          check_bytes (fixture, range, found);
          llm_weight_stream_release (fixture->stream, range);
        }
      g_assert_cmpuint (n_failed, ==, 1);
      check_bytes (fixture, 0, held);
      llm_weight_stream_release (fixture->stream, 0);
      end (fixture);
    }
}

/* What is asked back while some is being read; what a lease needs stays. Where nothing streams
 * there is no memory. */
static void
test_trim (Fixture       *fixture,
           gconstpointer  data)
{
  const guint8 *held;

  fixture->source->n_late = 7;
  begin (fixture, 4 * fixture->largest, TRUE);
  g_assert_cmpuint (llm_ledger_get (fixture->ledger, LLM_HOLDER_WEIGHTS), ==, 0);
  for (guint round = 0; round < 20; round++)
    {
      held = acquire (fixture, round);
      g_assert_cmpuint (llm_weight_stream_trim (fixture->stream), ==, 0);
      check_bytes (fixture, round, held);
      llm_weight_stream_release (fixture->stream, round);
      g_assert_cmpuint (llm_weight_stream_trim (fixture->stream), >=, 4 * fixture->largest);
      g_assert_cmpuint (fixture->source->waiting->len, ==, 0);
      g_assert_cmpuint (llm_ledger_get (fixture->ledger, LLM_HOLDER_WEIGHTS), ==, 0);
    }
  held = acquire (fixture, 3);
  for (guint i = 0; i < N_RANGES; i++)
    llm_weight_stream_set (fixture->stream, i, FALSE);
  llm_weight_stream_settle (fixture->stream);
  check_bytes (fixture, 3, held);
  llm_weight_stream_release (fixture->stream, 3);
  g_assert_cmpuint (llm_ledger_get (fixture->ledger, LLM_HOLDER_WEIGHTS), ==, 0);
  end (fixture);
}

/* What a pass takes: at the rate of the times when a step waited, whatever lies between them. */
static void
test_rate (Fixture       *fixture,
           gconstpointer  data)
{
  double waited_us = 0, bytes = 0, pass = 0, half = 0;
  gint64 now_us = G_USEC_PER_SEC;
  LlmStreamFigures figures;

  fixture->source->n_late = 7;
  llm_clock_set_for_test (now_us);
  begin (fixture, 5 * fixture->largest, FALSE);
  for (guint i = 0; i < N_RANGES; i++)
    {
      guint64 first = fixture->ranges[i].offset / LLM_DISK_BLOCK;
      guint64 end = (fixture->ranges[i].offset + fixture->ranges[i].length + LLM_DISK_BLOCK - 1)
                    / LLM_DISK_BLOCK;

      pass += (double) ((end - first) * LLM_DISK_BLOCK);
      half += i % 2 == 0 ? (double) ((end - first) * LLM_DISK_BLOCK) : 0;
    }
  llm_weight_stream_get_figures (fixture->stream, &figures);
  g_assert_cmpfloat (figures.pass_us, ==, 0);
  for (guint i = 0; i < 3 * N_RANGES; i++)
    {
      LlmStatus status = LLM_READY;
      const guint8 *found;
      guint64 before;

      do
        {
          gboolean waits = status == LLM_PENDING, was_left = g_test_rand_int_range (0, 20) == 0;
          gboolean counts = waits && !was_left;

          now_us += was_left ? 60000 : waits ? 100 : 30000;
          llm_clock_set_for_test (now_us);
          before = figures.read_bytes;
          status = llm_weight_stream_acquire (fixture->stream, i % N_RANGES, &found, NULL);
          llm_weight_stream_get_figures (fixture->stream, &figures);
          waited_us += counts ? 100 : 0;
          bytes += counts ? (double) (figures.read_bytes - before) : 0;
        }
      while (status == LLM_PENDING);
      g_assert_cmpint (status, ==, LLM_READY);
      llm_weight_stream_release (fixture->stream, i % N_RANGES);
    }
  g_assert_cmpfloat (bytes, >, pass / 10);
  g_assert_cmpfloat_with_epsilon (figures.pass_us, pass * waited_us / bytes, 1e-3);
  for (guint i = 0; i < N_RANGES; i++)
    llm_weight_stream_set (fixture->stream, i, i % 2 == 0);
  llm_weight_stream_get_figures (fixture->stream, &figures);
  g_assert_cmpfloat_with_epsilon (figures.pass_us, half * waited_us / bytes, 1e-3);
  end (fixture);
  llm_clock_set_for_test (-1);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add ("/weight-stream/one-step", Fixture, GUINT_TO_POINTER (1), set_up, test_passes,
              tear_down);
  g_test_add ("/weight-stream/two-steps", Fixture, GUINT_TO_POINTER (2), set_up, test_passes,
              tear_down);
  g_test_add ("/weight-stream/together", Fixture, NULL, set_up, test_together, tear_down);
  g_test_add ("/weight-stream/ahead", Fixture, NULL, set_up, test_ahead, tear_down);
  g_test_add ("/weight-stream/all-leased", Fixture, NULL, set_up, test_all_leased, tear_down);
  g_test_add ("/weight-stream/errors", Fixture, NULL, set_up, test_errors, tear_down);
  g_test_add ("/weight-stream/rate", Fixture, NULL, set_up, test_rate, tear_down);
  g_test_add ("/weight-stream/trim", Fixture, NULL, set_up, test_trim, tear_down);
  return g_test_run ();
}
