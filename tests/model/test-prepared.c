/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Prepared copies: what is read from them is what the model file holds, wherever
 * they lie and whoever made them. */

#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <glib/gstdio.h>

#include "prepared-rig.h"

static const char *program;

/* All types, outputs that are no multiple of a panel, tied and untied, more than one
 * piece with panels across its ends, one thread and several. */
static void
test_round_trip (Fixture       *fixture,
                 gconstpointer  data)
{
  static const LlmTestModel models[] = {
    { .type = LLK_F32, .n_vocab = 20, .is_untied = TRUE },
    { .type = LLK_F16, .n_vocab = 21, .has_rope_factors = TRUE },
    { .type = LLK_BF16, .n_vocab = 22, .n_embd = 66, .n_heads = 3, .n_ff = 31 },
    { .type = LLK_Q8_0, .n_vocab = 300, .is_untied = TRUE },
    { .type = LLK_Q4_0, .n_vocab = 33, .n_kv_heads = 1 },
    { .type = LLK_Q4_0, .n_vocab = 500, .n_embd = 1024, .n_heads = 8, .n_ff = 2912, .n_layers = 2 },
    { .type = LLK_F32, .n_vocab = 500, .n_embd = 512, .n_heads = 8, .n_ff = 1413, .n_layers = 2 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (models); i++)
    {
      g_autofree char *cache_folder = g_strdup_printf ("%s/%u", fixture->folder, i);
      g_autofree char *path = g_strdup_printf ("%s/%u.gguf", fixture->folder, i);
      g_autofree char *file = NULL;
      g_autoptr(LlmRepackedCache) cache = llm_repacked_cache_new (cache_folder, FALSE, NULL, 0);
      g_autoptr(GBytes) bytes = llm_test_model_new (&models[i]);
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmGguf) built = llm_gguf_new_for_bytes (bytes, "built", &error);
      Loaded loaded;
      guint64 in_use;

      /* in memory, as it is no file; and with one thread */
      load_gguf (&loaded, built, cache, 1);
      check_values (&loaded);
      in_use = loaded.weights->bytes;
      g_assert_cmpuint (llm_ledger_get (loaded.ledger, LLM_HOLDER_WEIGHTS), ==, in_use);
      unload (&loaded);
      g_assert_null (find_file (cache_folder));

      /* into a file, and from it */
      llm_test_model_write (&models[i], path);
      load (&loaded, path, cache);
      check_values (&loaded);
      g_assert_cmpuint (loaded.weights->bytes, ==, in_use);
      file = find_file (cache_folder);
      g_assert_nonnull (file);
      unload (&loaded);
      load (&loaded, path, cache);
      check_values (&loaded);
      unload (&loaded);
    }
}

/* Other weights in the same file, as old and as long as before. */
static void
test_changed_in_place (Fixture       *fixture,
                       gconstpointer  data)
{
  g_autoptr(LlmRepackedCache) cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);
  guint8 bytes[64];
  guint64 offset;
  Loaded loaded;

  load (&loaded, fixture->model, cache);
  check_values (&loaded);
  offset = llm_gguf_find_tensor (loaded.gguf, "blk.1.ffn_down.weight")->offset;
  unload (&loaded);

  memset (bytes, 0x3c, sizeof bytes);
  overwrite (fixture->model, (goffset) offset, bytes, sizeof bytes, TRUE);
  load (&loaded, fixture->model, cache);
  check_values (&loaded);
  unload (&loaded);
}

/* The second load makes nothing: it maps what the first one made. */
static void
test_second_load (Fixture       *fixture,
                  gconstpointer  data)
{
  g_autoptr(LlmRepackedCache) cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);
  g_autofree char *file = NULL;
  g_autofree char *same = NULL;
  g_autofree char *maps = NULL;
  struct stat status;
  guint64 inode;
  Loaded loaded;

  load_and_check (fixture, cache);
  file = find_file (fixture->cache);
  g_assert_nonnull (file);
  inode = get_inode (file);
  g_assert_cmpint (g_stat (file, &status), ==, 0);
  g_assert_cmpint (status.st_mode & 0777, ==, 0600);

  load (&loaded, fixture->model, cache);
  check_values (&loaded);
  g_assert_true (g_file_get_contents ("/proc/self/maps", &maps, NULL, NULL));
  g_assert_nonnull (strstr (maps, file));
  unload (&loaded);
  same = find_file (fixture->cache);
  g_assert_cmpstr (same, ==, file);
  g_assert_cmpuint (get_inode (file), ==, inode);
}

/* Making the file is told in bytes; one that is there is no work. */
static void
test_progress (Fixture       *fixture,
               gconstpointer  data)
{
  g_autoptr(LlmRepackedCache) cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);
  LlmRepackProgress first = { 0 };
  LlmRepackProgress second = { 0 };
  Loaded loaded;

  llm_repacked_cache_set_progress (cache, &first);
  load (&loaded, fixture->model, cache);
  unload (&loaded);
  g_assert_cmpuint (first.total_bytes, >, 0);
  g_assert_cmpuint (first.done_bytes, ==, first.total_bytes);

  llm_repacked_cache_set_progress (cache, &second);
  load (&loaded, fixture->model, cache);
  unload (&loaded);
  g_assert_cmpuint (second.total_bytes, ==, 0);
  g_assert_cmpuint (second.done_bytes, ==, 0);
}

/* Another model under the same name, and the same one changed, are other models. */
static void
test_other_model (Fixture       *fixture,
                  gconstpointer  data)
{
  g_autoptr(LlmRepackedCache) cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);
  LlmTestModel other = small_model;
  g_autofree char *first = NULL;
  g_autofree char *second = NULL;

  load_and_check (fixture, cache);
  first = find_file (fixture->cache);
  other.seed = 2;
  llm_test_model_write (&other, fixture->model);

  /* what the first one left is put in the place of the second */
  {
    g_autoptr(GError) error = NULL;
    g_autoptr(LlmGguf) gguf = llm_gguf_open (fixture->model, &error);
    g_autoptr(LlmRepackedPlan) plan = NULL;
    g_autofree char *name = NULL;
    g_autofree char *folder = g_path_get_dirname (first);
    LlmHparams hparams;

    g_assert_true (llm_hparams_read (gguf, &hparams, &error));
    plan = llm_repacked_plan_new (gguf, &hparams, NULL, NULL, &error);
    g_assert_no_error (error);
    name = llm_repacked_plan_get_name (plan);
    second = g_build_filename (folder, name, NULL);
    g_assert_cmpstr (first, !=, second);
    g_assert_cmpint (g_rename (first, second), ==, 0);
  }
  load_and_check (fixture, cache);
  g_clear_pointer (&first, g_free);
  first = find_file (fixture->cache);
  g_assert_cmpstr (first, ==, second);
}

static void
test_trust (void)
{
  const uid_t self = 1000, other = 1001, service = 990, none = (uid_t) -1;

  g_assert_true (llm_repacked_is_trusted (self, S_IFREG | 0600, self, none));
  g_assert_true (llm_repacked_is_trusted (self, S_IFREG | 0644, self, service));
  g_assert_true (llm_repacked_is_trusted (0, S_IFREG | 0644, self, none));
  g_assert_true (llm_repacked_is_trusted (service, S_IFREG | 0644, self, service));
  g_assert_false (llm_repacked_is_trusted (other, S_IFREG | 0644, self, service));
  g_assert_false (llm_repacked_is_trusted (service, S_IFREG | 0644, self, none));
  g_assert_false (llm_repacked_is_trusted (none, S_IFREG | 0644, self, none));
  g_assert_false (llm_repacked_is_trusted (self, S_IFREG | 0620, self, service));
  g_assert_false (llm_repacked_is_trusted (0, S_IFREG | 0666, self, service));
}

/* The system's copy serves everybody; a user's own only when there is none. */
static void
test_system (Fixture       *fixture,
             gconstpointer  data)
{
  g_autofree char *system_folder = g_build_filename (fixture->folder, "system", NULL);
  g_autoptr(LlmRepackedCache) of_system = llm_repacked_cache_new (system_folder, TRUE, NULL, 0);
  g_autoptr(LlmRepackedCache) of_user =
    llm_repacked_cache_new (fixture->cache, FALSE, system_folder, 0);
  g_autofree char *shared = NULL;
  g_autofree char *own = NULL;
  g_autofree char *maps = NULL;
  struct stat status;
  Loaded loaded;

  g_assert_cmpint (g_chmod (fixture->model, 0644), ==, 0);
  load_and_check (fixture, of_system);
  shared = find_file (system_folder);
  g_assert_nonnull (shared);
  g_assert_cmpint (g_stat (shared, &status), ==, 0);
  g_assert_cmpint (status.st_mode & 0777, ==, 0644);

  load (&loaded, fixture->model, of_user);
  check_values (&loaded);
  g_assert_true (g_file_get_contents ("/proc/self/maps", &maps, NULL, NULL));
  g_assert_nonnull (strstr (maps, shared));
  unload (&loaded);
  g_assert_false (g_file_test (fixture->cache, G_FILE_TEST_EXISTS));

  /* One that others may write is no longer the system's; it is not ours to remove. */
  g_assert_cmpint (g_chmod (shared, 0666), ==, 0);
  load_and_check (fixture, of_user);
  own = find_file (fixture->cache);
  g_assert_nonnull (own);
  g_assert_true (g_file_test (shared, G_FILE_TEST_EXISTS));

  /* A model that not everybody may read is not shared with everybody. */
  g_assert_cmpint (g_chmod (fixture->model, 0600), ==, 0);
  load_and_check (fixture, of_system);
  g_assert_cmpint (g_stat (shared, &status), ==, 0);
  g_assert_cmpint (status.st_mode & 0777, ==, 0600);
}

/* Whatever keeps a file from being made, the model is there, and no remains. */
static void
test_no_room (Fixture       *fixture,
              gconstpointer  data)
{
  g_autoptr(LlmRepackedCache) limited = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 1000);
  g_autoptr(LlmRepackedCache) cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);
  g_autoptr(LlmRepackedCache) below_file = llm_repacked_cache_new (fixture->model, FALSE, NULL, 0);
  g_autoptr(LlmRepackedCache) nowhere = llm_repacked_cache_new (NULL, FALSE, NULL, 0);
  const struct rlimit small = { 100000, RLIM_INFINITY };
  struct rlimit limit;

  load_and_check (fixture, limited);
  g_assert_null (find_file (fixture->cache));
  load_and_check (fixture, below_file);
  load_and_check (fixture, nowhere);
  load_and_check (fixture, NULL);

  g_assert_cmpint (getrlimit (RLIMIT_FSIZE, &limit), ==, 0);
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &small), ==, 0);
  load_and_check (fixture, cache);
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &limit), ==, 0);
  g_assert_null (find_file (fixture->cache));
}

/* Two models and room for one: the one that is used stays. */
static void
test_limit (Fixture       *fixture,
            gconstpointer  data)
{
  g_autofree char *second = g_build_filename (fixture->folder, "second.gguf", NULL);
  g_autoptr(LlmRepackedCache) roomy = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);
  g_autoptr(LlmRepackedCache) cache = NULL;
  LlmTestModel model = small_model;
  g_autofree char *first_file = NULL;
  g_autofree char *second_file = NULL;
  struct stat status;
  Loaded loaded;

  model.seed = 3;
  llm_test_model_write (&model, second);
  load (&loaded, fixture->model, roomy);
  first_file = find_file (fixture->cache);
  g_assert_cmpint (g_stat (first_file, &status), ==, 0);

  /* the other one comes while the first is in use: it only loses its name */
  cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, (guint64) status.st_size + 4096);
  {
    Loaded other;

    load (&other, second, cache);
    check_values (&other);
    second_file = find_file (fixture->cache);
    g_assert_cmpstr (second_file, !=, first_file);
    check_values (&loaded);
    unload (&other);
  }
  unload (&loaded);
}

static guint64
await_resident (LlmFileMap *map,
                guint64     bytes)
{
  guint64 resident;

  /* Reading ahead may be under way. */
  for (guint i = 0; i < 1000; i++)
    {
      resident = llm_file_map_count_resident (map, LLM_FILE_MAP_HUGE, G_MAXUINT64);
      if (resident == bytes)
        break;
      g_usleep (10000);
    }
  return resident;
}

/* What does not stay is the same when it was read again, and goes after its use. */
static void
test_keep (Fixture       *fixture,
           gconstpointer  data)
{
  g_autoptr(LlmRepackedCache) cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);
  g_autoptr(LlmFileMap) map = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *file = NULL;
  LlmWeightView view = { 0 };
  guint8 touched;
  guint64 all;
  Loaded loaded;

  load (&loaded, fixture->model, cache);
  check_values (&loaded);
  file = find_file (fixture->cache);
  map = llm_file_map_open (file, &error);
  g_assert_no_error (error);
  all = llm_file_map_get_size (map) - LLM_FILE_MAP_HUGE;
  g_assert_cmpuint (await_resident (map, all), ==, all);

  /* what is read from the model file is before the packed */
  llm_weights_keep (loaded.weights, loaded.weights->bytes - all / 2);
  /* the kernel may hold more pages together than one */
  g_assert_cmpuint (llm_file_map_count_resident (map, LLM_FILE_MAP_HUGE, G_MAXUINT64), >=,
                    all / 2 - 4096);
  check_values (&loaded);
  llm_weights_keep (loaded.weights, G_MAXUINT64);
  llm_weights_keep (loaded.weights, 0);
  g_assert_cmpuint (await_resident (map, 0), ==, 0);
  /* the last one of the file: nothing is read ahead of it */
  g_assert_cmpint (llm_weights_acquire (loaded.weights, LLM_OP_OUTPUT, 0, 0, NULL, &view, &error),
                   ==, LLM_READY);
  g_assert_nonnull (view.data);
  touched = *(const volatile guint8 *) view.data;
  (void) touched;
  g_assert_cmpuint (llm_file_map_count_resident (map, LLM_FILE_MAP_HUGE, G_MAXUINT64), >, 0);
  llm_weights_release (loaded.weights, &view);
  g_assert_cmpuint (await_resident (map, 0), ==, 0);
  check_values (&loaded);

  llm_weights_keep (loaded.weights, G_MAXUINT64);
  check_values (&loaded);
  g_assert_cmpuint (await_resident (map, all), ==, all);
  unload (&loaded);
}

/* Freed weights leave the page cache, unless the next process is to find them there. */
static void
test_give_back (Fixture       *fixture,
                gconstpointer  data)
{
  g_autoptr(LlmRepackedCache) cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);
  g_autoptr(LlmFileMap) map = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *file = NULL;

  load_and_check (fixture, cache);
  file = find_file (fixture->cache);
  map = llm_file_map_open (file, &error);
  g_assert_no_error (error);

  for (gboolean keeps_cache = FALSE; keeps_cache <= TRUE; keeps_cache++)
    {
      guint64 resident;
      Loaded loaded;

      load (&loaded, fixture->model, cache);
      check_values (&loaded);
      loaded.weights->keeps_cache = keeps_cache;
      unload (&loaded);
      resident = llm_file_map_count_resident (map, LLM_FILE_MAP_HUGE, G_MAXUINT64);
      /* the copy's thread may just have been reading ahead */
      for (guint i = 0; i < 1000 && !keeps_cache && resident > 0; i++)
        {
          g_usleep (10000);
          resident = llm_file_map_count_resident (map, LLM_FILE_MAP_HUGE, G_MAXUINT64);
        }
      if (keeps_cache)
        g_assert_cmpuint (resident, ==, llm_file_map_get_size (map) - LLM_FILE_MAP_HUGE);
      else
        g_assert_cmpuint (resident, ==, 0);
    }
}

/* --- several processes --- */

static int
prepare_in_child (const char *model,
                  const char *folder)
{
  g_autoptr(LlmRepackedCache) cache = llm_repacked_cache_new (folder, FALSE, NULL, 0);
  Loaded loaded;

  for (guint i = 0; i < 5; i++)
    {
      load (&loaded, model, cache);
      check_values (&loaded);
      unload (&loaded);
    }
  return 0;
}

static void
test_processes (Fixture       *fixture,
                gconstpointer  data)
{
  const char *const argv[] = { program, "--child", fixture->model, fixture->cache, NULL };
  GSubprocess *children[6];
  g_autoptr(LlmRepackedCache) cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);
  g_autofree char *file = NULL;
  g_autofree char *same = NULL;
  g_autoptr(GError) error = NULL;
  guint64 inode;

  for (guint i = 0; i < G_N_ELEMENTS (children); i++)
    {
      children[i] = g_subprocess_newv (argv, G_SUBPROCESS_FLAGS_NONE, &error);
      g_assert_no_error (error);
    }
  for (guint i = 0; i < G_N_ELEMENTS (children); i++)
    {
      g_assert_true (g_subprocess_wait_check (children[i], NULL, &error));
      g_assert_no_error (error);
      g_object_unref (children[i]);
    }

  /* One good file is left, which is used from now on. */
  file = find_file (fixture->cache);
  g_assert_nonnull (file);
  inode = get_inode (file);
  load_and_check (fixture, cache);
  same = find_file (fixture->cache);
  g_assert_cmpuint (get_inode (same), ==, inode);
}

int
main (int   argc,
      char *argv[])
{
  program = argv[0];
  if (argc == 4 && strcmp (argv[1], "--child") == 0)
    return prepare_in_child (argv[2], argv[3]);

  g_test_init (&argc, &argv, NULL);

  g_test_add ("/prepared/round-trip", Fixture, NULL, set_up, test_round_trip, tear_down);
  g_test_add ("/prepared/second-load", Fixture, NULL, set_up, test_second_load, tear_down);
  g_test_add ("/prepared/progress", Fixture, NULL, set_up, test_progress, tear_down);
  g_test_add ("/prepared/changed-in-place", Fixture, NULL, set_up, test_changed_in_place,
              tear_down);
  g_test_add ("/prepared/other-model", Fixture, NULL, set_up, test_other_model, tear_down);
  g_test_add_func ("/prepared/trust", test_trust);
  g_test_add ("/prepared/system", Fixture, NULL, set_up, test_system, tear_down);
  g_test_add ("/prepared/no-room", Fixture, NULL, set_up, test_no_room, tear_down);
  g_test_add ("/prepared/limit", Fixture, NULL, set_up, test_limit, tear_down);
  g_test_add ("/prepared/keep", Fixture, NULL, set_up, test_keep, tear_down);
  g_test_add ("/prepared/give-back", Fixture, NULL, set_up, test_give_back, tear_down);
  g_test_add ("/prepared/processes", Fixture, NULL, set_up, test_processes, tear_down);
  return g_test_run ();
}
