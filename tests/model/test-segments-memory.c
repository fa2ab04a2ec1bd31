/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Weights in segments leave memory from their end and come back; what is in use stays; and what the
 * ledger says the kernel says, too. */

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "prepared-rig.h"

/* Large enough that pages which two share count for nothing, and the 2 MiB which the kernel reads
 * at once where huge pages are allowed. */
static const LlmTestModel large_model = {
  .n_embd = 512, .n_heads = 8, .n_kv_heads = 4, .n_ff = 2048, .n_layers = 5, .type = LLK_F32,
  .n_vocab = 300, .is_untied = TRUE,
};

typedef struct
{
  Loaded loaded;
  LlmRepackedCache *cache;
  LlmFileMap *panels;   /* (nullable): the packed file once more */
  char *panels_path;    /* (nullable) */
} Rig;

/* What was written leaves the page cache only once it is on the disk. */
static void
sync_file (const char *path)
{
  int fd = g_open (path, O_RDONLY | O_CLOEXEC, 0);

  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpint (fsync (fd), ==, 0);
  close (fd);
}

static void
begin (Rig                *rig,
       Fixture            *fixture,
       const LlmTestModel *model,
       Kind                kind,
       guint               n_levels)
{
  g_autoptr(GError) error = NULL;

  llm_test_model_write (model, fixture->model);
  sync_file (fixture->model);
  rig->cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);
  rig->panels = NULL;
  load_segments (&rig->loaded, fixture->model, kind, n_levels, 64, rig->cache);
  rig->panels_path = find_file (fixture->cache);
  if (rig->panels_path == NULL)
    return;
  rig->panels = llm_file_map_open (rig->panels_path, &error);
  g_assert_no_error (error);
}

static void
end (Rig *rig)
{
  unload (&rig->loaded);
  llm_repacked_cache_free (rig->cache);
  g_clear_pointer (&rig->panels, llm_file_map_unref);
  g_free (rig->panels_path);
}

static LlmWeightView
acquire (Rig         *rig,
         LlmOperator  op,
         guint        layer,
         guint        segment)
{
  g_autoptr(GError) error = NULL;
  LlmWeightView view;
  LlmStatus status;

  do
    status = llm_weights_acquire (rig->loaded.weights, op, layer, segment, NULL, &view, &error);
  while (status == LLM_PENDING);
  g_assert_no_error (error);
  g_assert_cmpint (status, ==, LLM_READY);
  g_assert_nonnull (view.data);
  return view;
}

/* --- what the kernel says --- */

/* Of both files, all of them: what is in no account, too. */
static guint64
count_cached (Rig *rig)
{
  LlmFileMap *model = rig->loaded.gguf->map;

  return llm_file_map_count_resident (model, 0, G_MAXUINT64)
         + (rig->panels != NULL ? llm_file_map_count_resident (rig->panels, 0, G_MAXUINT64) : 0);
}

/* Mapped in this process, by smaps. */
static guint64
count_mapped (Fixture *fixture,
              Rig     *rig)
{
  g_autofree char *smaps = NULL;
  g_auto(GStrv) lines = NULL;
  gboolean is_ours = FALSE;
  guint64 bytes = 0;

  g_assert_true (g_file_get_contents ("/proc/self/smaps", &smaps, NULL, NULL));
  lines = g_strsplit (smaps, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      if (strchr (lines[i], '-') != NULL && g_ascii_isxdigit (lines[i][0]))
        is_ours = g_str_has_suffix (lines[i], fixture->model)
                  || (rig->panels_path != NULL && g_str_has_suffix (lines[i], rig->panels_path));
      else if (is_ours && g_str_has_prefix (lines[i], "Rss:"))
        bytes += g_ascii_strtoull (lines[i] + strlen ("Rss:"), NULL, 10) * 1024;
    }
  return bytes;
}

static void
assert_agrees (const char *what,
               guint64     found,
               guint64     told)
{
  if (MAX (found, told) - MIN (found, told) > told / 20)
    g_error ("The kernel has %" G_GUINT64_FORMAT " bytes %s, the ledger %" G_GUINT64_FORMAT, found,
             what, told);
}

/* As the executor does it, now and then. */
static void
measure (Rig *rig)
{
  g_autoptr(GArray) pieces = llm_weights_list_pieces (rig->loaded.weights);

  llm_weights_set_resident (rig->loaded.weights, rig->loaded.ledger,
                            llm_weights_count_resident (pieces));
}

static guint64
get_told (Rig *rig)
{
  return llm_ledger_get (rig->loaded.ledger, LLM_HOLDER_WEIGHTS)
         - llm_ledger_get (rig->loaded.ledger, LLM_LEDGER_ABSENT);
}

/* Until the file that was there is read, which a thread does, the only one beside this. */
static void
await_thread (void)
{
  guint n_threads = 0;

  while (n_threads != 1)
    {
      g_autoptr(GDir) tasks = g_dir_open ("/proc/self/task", 0, NULL);

      g_usleep (1000);
      for (n_threads = 0; g_dir_read_name (tasks) != NULL;)
        n_threads++;
    }
}

/* Reads all that is held. */
static void
use_all (Rig *rig)
{
  g_autoptr(GArray) pieces = llm_weights_list_pieces (rig->loaded.weights);

  for (guint i = 0; i < pieces->len; i++)
    {
      const LlmWeightPiece *piece = &g_array_index (pieces, LlmWeightPiece, i);
      const volatile guint8 *data = llm_file_map_get_data (piece->map);

      for (guint64 at = 0; at < piece->length; at += 1024)
        (void) data[piece->offset + at];
      (void) data[piece->offset + piece->length - 1];
    }
}

/* As the kernel does when it has no memory. */
static void
forget_all (Rig *rig)
{
  g_autoptr(GArray) pieces = llm_weights_list_pieces (rig->loaded.weights);

  for (guint i = 0; i < pieces->len; i++)
    llm_file_map_drop (g_array_index (pieces, LlmWeightPiece, i).map, 0, G_MAXUINT64);
}

/* Tail after tail goes. What remains is all there, and no more; also when all of it was read. */
static void
test_agrees (Fixture       *fixture,
             gconstpointer  data)
{
  for (Kind kind = MAPPED; kind <= IN_FILE; kind += IN_FILE - MAPPED)
    {
      guint64 all, before;
      Rig rig;

      begin (&rig, fixture, &large_model, kind, 9);
      if (kind == IN_FILE)
        {
          unload (&rig.loaded);
          load_segments (&rig.loaded, fixture->model, kind, 9, 64, rig.cache);
          await_thread ();
        }
      use_all (&rig);
      measure (&rig);
      all = rig.loaded.weights->bytes;
      g_assert_cmpuint (get_told (&rig), ==, all);
      for (before = all; before > all / 3;)
        {
          guint64 freed = llm_weights_drop (rig.loaded.weights, all / 8);
          guint64 told = get_told (&rig);

          g_test_message ("%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " bytes", told, all);
          g_assert_cmpuint (freed, >=, MIN (all / 8, before));
          g_assert_cmpuint (told, ==, before - freed);
          g_assert_cmpuint (count_cached (&rig), <=, told + told / 20);
          /* and when all of it is read again */
          forget_all (&rig);
          use_all (&rig);
          assert_agrees ("in the page cache", count_cached (&rig), told);
          assert_agrees ("mapped", count_mapped (fixture, &rig), told);
          measure (&rig);
          assert_agrees ("in what is held", get_told (&rig), told);
          before = told;
        }
      llm_weights_drop (rig.loaded.weights, G_MAXUINT64);
      g_assert_cmpuint (get_told (&rig), ==, 0);
      g_assert_cmpuint (count_cached (&rig), <, all / 20);
      llm_weights_take (rig.loaded.weights, G_MAXUINT64);
      use_all (&rig);
      measure (&rig);
      g_assert_cmpuint (get_told (&rig), ==, all);
      end (&rig);
    }
}

/* --- leases --- */

/* Small, but no view is smaller than some pages. */
static const LlmTestModel small_views = {
  .n_embd = 256, .n_heads = 4, .n_kv_heads = 4, .n_ff = 1024, .n_layers = 2, .type = LLK_F32,
  .is_untied = TRUE,
};

/* Where the view is. */
static guint64
count_view (Rig                 *rig,
            const LlmWeightView *view,
            guint64              bytes)
{
  LlmFileMap *model = rig->loaded.gguf->map;
  const guint8 *data = view->data;
  const guint8 *base = llm_file_map_get_data (model);
  g_autoptr(GArray) pieces = NULL;

  if (data >= base && data < base + llm_file_map_get_size (model))
    return llm_file_map_count_resident (model, (guint64) (data - base), bytes);
  pieces = llm_weights_list_pieces (rig->loaded.weights);
  for (guint i = 0; i < pieces->len; i++)
    {
      LlmFileMap *map = g_array_index (pieces, LlmWeightPiece, i).map;

      base = llm_file_map_get_data (map);
      if (data >= base && data < base + llm_file_map_get_size (map))
        return llm_file_map_count_resident (map, (guint64) (data - base), bytes);
    }
  return 0;
}

/* Of a cut of the outputs, which is one run of memory: F32, and of panels whole ones. */
static guint64
get_bytes (const LlmWeightView *view)
{
  return (guint64) view->in_count * view->out_count * sizeof (float);
}

/* Two steps have the same view, and a third another one, when all is reclaimed: these stay, and
 * count, until the last of them is done. */
static void
test_leases (Fixture       *fixture,
             gconstpointer  data)
{
  Kind kind = GPOINTER_TO_UINT (data);
  LlmWeightView first, second, other;
  g_autofree guint8 *copy = NULL;
  guint64 bytes, told;
  Rig rig;

  begin (&rig, fixture, &small_views, kind, 2);
  first = acquire (&rig, LLM_OP_FFN_GATE, 1, 1);
  second = acquire (&rig, LLM_OP_FFN_GATE, 1, 1);
  other = acquire (&rig, LLM_OP_FFN_UP, 0, 0);
  g_assert_true (first.data == second.data);
  bytes = get_bytes (&first);
  copy = g_memdup2 (first.data, bytes);
  g_assert_cmpuint (bytes, >=, 64 << 10);

  /* again and again: nothing goes twice */
  for (guint i = 0; i < 3; i++)
    {
      llm_weights_drop (rig.loaded.weights, G_MAXUINT64);
      told = llm_ledger_get (rig.loaded.ledger, LLM_HOLDER_WEIGHTS);
      if (kind == IN_MEMORY)
        g_assert_cmpuint (told, >=, bytes);
      else
        {
          g_assert_cmpuint (told, ==, bytes + get_bytes (&other));
          g_assert_cmpuint (count_view (&rig, &first, bytes), ==, bytes);
          g_assert_cmpuint (count_view (&rig, &other, get_bytes (&other)), ==, get_bytes (&other));
          g_assert_cmpuint (count_cached (&rig), <, rig.loaded.weights->bytes / 2);
        }
      g_assert_cmpmem (first.data, bytes, copy, bytes);
    }
  llm_weights_release (rig.loaded.weights, &second);
  if (kind != IN_MEMORY)
    {
      g_assert_cmpuint (count_view (&rig, &first, bytes), ==, bytes);
      g_assert_cmpuint (llm_ledger_get (rig.loaded.ledger, LLM_HOLDER_WEIGHTS), ==, told);
    }
  g_assert_cmpmem (first.data, bytes, copy, bytes);

  second = first;
  llm_weights_release (rig.loaded.weights, &first);
  if (kind != IN_MEMORY)
    {
      g_assert_cmpuint (count_view (&rig, &second, bytes), <=, 2 * 4096);
      g_assert_cmpuint (llm_ledger_get (rig.loaded.ledger, LLM_HOLDER_WEIGHTS), ==,
                        get_bytes (&other));
      g_assert_cmpuint (count_view (&rig, &other, get_bytes (&other)), ==, get_bytes (&other));
    }
  llm_weights_release (rig.loaded.weights, &other);
  if (kind == IN_MEMORY)
    llm_weights_drop (rig.loaded.weights, G_MAXUINT64);
  g_assert_cmpuint (llm_ledger_get (rig.loaded.ledger, LLM_HOLDER_WEIGHTS), ==, 0);

  /* all is there again when it is wanted */
  first = acquire (&rig, LLM_OP_FFN_GATE, 1, 1);
  g_assert_cmpmem (first.data, bytes, copy, bytes);
  llm_weights_release (rig.loaded.weights, &first);
  end (&rig);
}

/* Panels in memory: the end goes, and is packed again when it is wanted; the beginning is there all
 * the time, and so is what is in use. */
static void
test_pack_again (Fixture       *fixture,
                 gconstpointer  data)
{
  LlmWeightView first, last, view;
  guint8 *copies[2];
  guint64 all, told, bytes[2];
  guint n_pending = 0;
  LlmStatus status;
  Rig rig;

  begin (&rig, fixture, &large_model, IN_MEMORY, 9);
  all = rig.loaded.weights->bytes;
  first = acquire (&rig, LLM_OP_FFN_GATE, 0, 0);
  bytes[0] = get_bytes (&first);
  copies[0] = g_memdup2 (first.data, bytes[0]);
  last = acquire (&rig, LLM_OP_FFN_UP, 3, 7);
  bytes[1] = get_bytes (&last);
  copies[1] = g_memdup2 (last.data, bytes[1]);
  llm_weights_release (rig.loaded.weights, &last);

  llm_weights_drop (rig.loaded.weights, all / 2);
  told = llm_ledger_get (rig.loaded.ledger, LLM_HOLDER_WEIGHTS);
  g_assert_cmpuint (told, <=, all - all / 2);
  g_assert_cmpuint (told, >, all / 2 - 2 * LLM_REPACKED_PIECE);
  g_assert_cmpmem (first.data, bytes[0], copies[0], bytes[0]);
  g_assert_cmpint (llm_weights_acquire (rig.loaded.weights, LLM_OP_QUERY, 0, 0, NULL, &view, NULL),
                   ==, LLM_READY);
  llm_weights_release (rig.loaded.weights, &view);
  g_assert_cmpuint (llm_ledger_get (rig.loaded.ledger, LLM_HOLDER_WEIGHTS), ==, told);
  while ((status = llm_weights_acquire (rig.loaded.weights, LLM_OP_FFN_UP, 3, 7, NULL, &last, NULL))
         == LLM_PENDING)
    {
      n_pending++;
      g_usleep (1000);
    }
  g_assert_cmpint (status, ==, LLM_READY);
  g_assert_cmpuint (n_pending, >, 0);
  g_assert_cmpmem (last.data, bytes[1], copies[1], bytes[1]);
  /* up to what was used */
  g_assert_cmpuint (llm_ledger_get (rig.loaded.ledger, LLM_HOLDER_WEIGHTS), >, told);
  g_assert_cmpuint (llm_ledger_get (rig.loaded.ledger, LLM_HOLDER_WEIGHTS), <, all);
  llm_weights_take (rig.loaded.weights, G_MAXUINT64);
  g_assert_cmpuint (llm_ledger_get (rig.loaded.ledger, LLM_HOLDER_WEIGHTS), ==, all);

  /* up to the one in use nothing goes, then up to the other */
  llm_weights_drop (rig.loaded.weights, G_MAXUINT64);
  told = llm_ledger_get (rig.loaded.ledger, LLM_HOLDER_WEIGHTS);
  g_assert_cmpuint (told, <, all);
  g_assert_cmpmem (last.data, bytes[1], copies[1], bytes[1]);
  llm_weights_release (rig.loaded.weights, &last);
  llm_weights_drop (rig.loaded.weights, G_MAXUINT64);
  g_assert_cmpuint (llm_ledger_get (rig.loaded.ledger, LLM_HOLDER_WEIGHTS), <, all / 4);
  g_assert_cmpmem (first.data, bytes[0], copies[0], bytes[0]);
  llm_weights_release (rig.loaded.weights, &first);
  llm_weights_drop (rig.loaded.weights, G_MAXUINT64);
  g_assert_cmpuint (llm_ledger_get (rig.loaded.ledger, LLM_HOLDER_WEIGHTS), ==, 0);
  g_free (copies[0]);
  g_free (copies[1]);
  end (&rig);
}

/* Bytes of what is in segment 0. */
static guint64
get_smallest (Rig *rig,
              Kind kind)
{
  const LlmHparams *hparams = &rig->loaded.hparams;
  guint64 others = 0;

  for (guint op = 0; op < LLM_N_OPS; op++)
    for (guint layer = 0; layer < llm_operator_count_layers (hparams, op); layer++)
      for (guint segment = 1; segment < rig->loaded.table->n_levels; segment++)
        {
          LlmSegmentShape shape =
            llm_sub_models_get_shape (rig->loaded.table, hparams, op, layer, segment);
          guint n_in, n_out;

          llm_operator_get_shape (hparams, op, layer, &n_in, &n_out);
          if (kind == IN_FILE || shape.in_count == n_in)
            others += (guint64) shape.in_count * shape.out_count * sizeof (float);
        }
  g_assert_cmpuint (others, >, 0);
  return rig->loaded.weights->bytes - others;
}

/* Segment 0 stays; what the other adds goes after its use, when no step holds it any more. */
static void
test_keep (Fixture       *fixture,
           gconstpointer  data)
{
  Kind kind = GPOINTER_TO_UINT (data);
  guint64 smallest, bytes;
  LlmWeightView first, second, small;
  g_autofree guint8 *copy = NULL;
  Rig rig;

  begin (&rig, fixture, &small_views, kind, 2);
  smallest = get_smallest (&rig, kind);
  use_all (&rig);
  first = acquire (&rig, LLM_OP_FFN_GATE, 0, 1);
  bytes = get_bytes (&first);
  copy = g_memdup2 (first.data, bytes);
  small = acquire (&rig, LLM_OP_FFN_GATE, 0, 0);
  llm_weights_keep (rig.loaded.weights, smallest);

  g_assert_cmpuint (llm_ledger_get (rig.loaded.ledger, LLM_HOLDER_WEIGHTS), ==,
                    rig.loaded.weights->bytes);
  assert_agrees ("that stay", count_cached (&rig), smallest + bytes);
  g_assert_cmpuint (count_view (&rig, &first, bytes), ==, bytes);
  second = acquire (&rig, LLM_OP_FFN_GATE, 0, 1);
  llm_weights_release (rig.loaded.weights, &first);
  g_assert_cmpuint (count_view (&rig, &second, bytes), ==, bytes);
  g_assert_cmpmem (second.data, bytes, copy, bytes);
  first = second;
  llm_weights_release (rig.loaded.weights, &second);
  g_assert_cmpuint (count_view (&rig, &first, bytes), <=, 2 * 4096);
  bytes = get_bytes (&small);
  first = small;
  llm_weights_release (rig.loaded.weights, &small);
  g_assert_cmpuint (count_view (&rig, &first, bytes), ==, bytes);

  /* what was read ahead goes when it was used */
  for (guint layer = 0; layer < rig.loaded.hparams.n_layers; layer++)
    for (guint op = LLM_OP_ATTENTION_NORM; op < LLM_OP_OUTPUT_NORM; op++)
      {
        g_assert_cmpint (llm_weights_acquire (rig.loaded.weights, op, layer, 1, NULL, &first, NULL),
                         ==, LLM_READY);
        /* what is still being read can't go */
        for (guint64 at = 0; at < get_bytes (&first); at += 1024)
          (void) ((const volatile guint8 *) first.data)[at];
        llm_weights_release (rig.loaded.weights, &first);
      }
  assert_agrees ("that stay", count_cached (&rig), smallest);
  end (&rig);
}

/* What is in memory of the gates of [@first, @end), in percent. */
static guint
get_percent (Rig  *rig,
             guint first,
             guint end_segment)
{
  guint64 resident = 0, all = 0;

  for (guint layer = 0; layer < rig->loaded.hparams.n_layers; layer++)
    for (guint segment = first; segment < end_segment; segment++)
      {
        LlmWeightView view;
        guint64 bytes;

        g_assert_cmpint (llm_weights_acquire (rig->loaded.weights, LLM_OP_FFN_GATE, layer, segment,
                                              NULL, &view, NULL), ==, LLM_READY);
        bytes = get_bytes (&view);
        all += bytes;
        if (view.data != NULL)
          resident += count_view (rig, &view, bytes);
        llm_weights_release (rig->loaded.weights, &view);
      }
  return (guint) (100 * resident / all);
}

/* Until most of it is there: the kernel reads on its own threads, and less where it can't. */
static void
read_ahead (Rig    *rig,
            guint64 begin,
            guint64 bytes,
            guint   first,
            guint   end_segment)
{
  llm_weights_read_ahead (rig->loaded.weights, begin, bytes);
  for (guint i = 0; i < 10000 && get_percent (rig, first, end_segment) < 75; i++)
    g_usleep (1000);
  g_assert_cmpuint (get_percent (rig, first, end_segment), >=, 75);
}

/* What a sub-model needs comes first, and nothing with it that it does not. */
static void
test_read_ahead (Fixture       *fixture,
                 gconstpointer  data)
{
  Kind kind = GPOINTER_TO_UINT (data);
  guint64 all, smallest;
  Rig rig;

  begin (&rig, fixture, &large_model, kind, 2);
  all = rig.loaded.weights->bytes;
  smallest = get_smallest (&rig, kind);
  llm_weights_drop (rig.loaded.weights, G_MAXUINT64);
  llm_weights_take (rig.loaded.weights, G_MAXUINT64);
  g_assert_cmpuint (get_percent (&rig, 0, 2), <, 5);
  read_ahead (&rig, 0, smallest, 0, 1);
  g_assert_cmpuint (get_percent (&rig, 1, 2), <, 5);
  read_ahead (&rig, smallest, all - smallest, 1, 2);

  g_assert_true (llm_weights_read_ahead (rig.loaded.weights, 0, all - 1));
  g_assert_false (llm_weights_read_ahead (rig.loaded.weights, 0, all));
  g_assert_false (llm_weights_read_ahead (rig.loaded.weights, all, 1));
  end (&rig);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add ("/segments/pack-again", Fixture, NULL, set_up, test_pack_again, tear_down);
  g_test_add ("/segments/agrees", Fixture, NULL, set_up, test_agrees, tear_down);
  for (guint kind = 0; kind < N_KINDS; kind++)
    {
      static const char *const names[N_KINDS] = { "mapped", "in-memory", "in-file" };
      g_autofree char *leases = g_strdup_printf ("/segments/leases/%s", names[kind]);
      g_autofree char *keep = g_strdup_printf ("/segments/keep/%s", names[kind]);
      g_autofree char *read_ahead = g_strdup_printf ("/segments/read-ahead/%s", names[kind]);

      g_test_add (leases, Fixture, GUINT_TO_POINTER (kind), set_up, test_leases, tear_down);
      if (kind == IN_MEMORY)
        continue;
      g_test_add (keep, Fixture, GUINT_TO_POINTER (kind), set_up, test_keep, tear_down);
      g_test_add (read_ahead, Fixture, GUINT_TO_POINTER (kind), set_up, test_read_ahead, tear_down);
    }
  return g_test_run ();
}
