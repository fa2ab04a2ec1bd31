/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What restoring costs: that it is measured, kept, and valid only for what it was measured with. */

#include "runtime/llm-profile.h"

#include <glib/gstdio.h>
#include <unistd.h>

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-gguf.h"
#include "support/llm-test-pace.h"

#define IDENTITY "0123456789abcdef"
#define FILE_NAME "profile-" IDENTITY ".ini"

static const LlmProfileKey key = {
  .identity = IDENTITY,
  .kernels = "portable",
  .n_threads = 2,
};

static LlmKvProfile
make_profile (void)
{
  LlmKvProfile profile = {
    .read_latency_us = 81.25,
    .read_bytes_per_us = 1234.5,
    .write_bytes_per_us = 0.001,
    .depth_us = 1.0 / 3,
  };

  for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
    profile.prompt_us[i] = 1000.1 * (i + 1);
  return profile;
}

/* --- the file --- */

static void
save (const char *folder)
{
  LlmKvProfile profile = make_profile ();
  g_autoptr(GError) error = NULL;
  gboolean is_saved = llm_profile_save (folder, FALSE, &key, &profile, &error);

  g_assert_no_error (error);
  g_assert_true (is_saved);
}

static guint
count_files (const char *folder)
{
  g_autoptr(GDir) dir = g_dir_open (folder, 0, NULL);
  guint n = 0;

  while (dir != NULL && g_dir_read_name (dir) != NULL)
    n++;
  return n;
}

static void
test_kept (void)
{
  g_autofree char *root = llm_test_folder_new ();
  g_autofree char *folder = g_build_filename (root, "cache", NULL);
  LlmKvProfile saved = make_profile ();
  LlmKvProfile found = { 0 };

  g_assert_false (llm_profile_load (folder, &key, &found));
  g_assert_false (llm_profile_load (NULL, &key, &found));
  save (folder);
  save (folder);
  g_assert_cmpuint (count_files (folder), ==, 1);
  g_assert_true (llm_profile_load (folder, &key, &found));
  g_assert_cmpmem (&found, sizeof found, &saved, sizeof saved);
  llm_test_folder_remove (root);
}

/* Another model, other kernels, more threads: other times. */
static void
test_other_keys (void)
{
  const LlmProfileKey others[] = {
    { .identity = "0123456789abcdee", .kernels = "portable", .n_threads = 2 },
    { .identity = IDENTITY, .kernels = "avx2", .n_threads = 2 },
    { .identity = IDENTITY, .kernels = "portable", .n_threads = 3 },
    { .identity = IDENTITY, .kernels = "portable", .n_threads = 2, .is_exact = TRUE },
    { .identity = "../" FILE_NAME, .kernels = "portable", .n_threads = 2 },
    { .identity = "", .kernels = "portable", .n_threads = 2 },
  };
  g_autofree char *folder = llm_test_folder_new ();
  LlmKvProfile found = { 0 };

  save (folder);
  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    g_assert_false (llm_profile_load (folder, &others[i], &found));
  g_assert_cmpfloat (found.depth_us, ==, 0);
  llm_test_folder_remove (folder);
}

static void
replace (const char *folder,
         const char *from,
         const char *to)
{
  g_autofree char *path = g_build_filename (folder, FILE_NAME, NULL);
  g_autofree char *text = NULL;
  g_autoptr(GString) changed = NULL;

  save (folder);
  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  changed = g_string_new (text);
  g_assert_cmpuint (g_string_replace (changed, from, to, 1), ==, 1);
  g_assert_true (g_file_set_contents (path, changed->str, (gssize) changed->len, NULL));
}

/* What is damaged, from another version or another machine is as if it were not there. */
static void
test_damaged (void)
{
  static const char *const changes[][2] = {
    { "version=1", "version=2" },
    { "machine=", "machine=0" },
    { "model=", "model=0" },
    { "prompt-64-us=", "prompt-64-us=x" },
    { "prompt-64-us=", "prompt-64-us=-" },
    { "prompt-1-us=1000.1", "prompt-1-us=inf" },
    { "prompt-16-us=", "prompt-16-us=nan" },
    { "prompt-16-us=", "prompt-17-us=" },
    { "depth-us=0", "depth-us=1e300" },
    { "read-bytes-per-us=1234.5", "read-bytes-per-us=0" },
    { "write-bytes-per-us=0.001", "write-bytes-per-us=-1" },
    { "write-bytes-per-us=", "write-bytes-per-us=nan" },
    { "[times]", "[" },
  };
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *path = g_build_filename (folder, FILE_NAME, NULL);
  LlmKvProfile found;
  g_autofree char *text = NULL;
  gsize length;

  for (guint i = 0; i < G_N_ELEMENTS (changes); i++)
    {
      replace (folder, changes[i][0], changes[i][1]);
      if (llm_profile_load (folder, &key, &found))
        g_error ("A profile with %s is taken", changes[i][1]);
    }

  save (folder);
  g_assert_true (llm_profile_load (folder, &key, &found));
  g_assert_true (g_file_get_contents (path, &text, &length, NULL));
  for (gsize cut = 0; cut + 2 < length; cut += 7)
    {
      g_assert_true (g_file_set_contents (path, text, (gssize) cut, NULL));
      g_assert_false (llm_profile_load (folder, &key, &found));
    }
  /* A file that is far too long, and one that is none. */
  {
    g_autoptr(GString) much = g_string_new (text);

    for (guint i = 0; i < 10000; i++)
      g_string_append (much, "# \n");
    g_assert_true (g_file_set_contents (path, much->str, (gssize) much->len, NULL));
    g_assert_false (llm_profile_load (folder, &key, &found));
  }
  g_assert_cmpint (unlink (path), ==, 0);
  g_assert_cmpint (g_mkdir (path, 0700), ==, 0);
  g_assert_false (llm_profile_load (folder, &key, &found));
  llm_test_folder_remove (folder);
}

static void
test_unwritable (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *path = g_build_filename (folder, FILE_NAME, NULL);
  g_autofree char *below = g_build_filename (path, "x", NULL);
  LlmKvProfile profile = make_profile ();
  g_autoptr(GError) error = NULL;

  save (folder);
  g_assert_false (llm_profile_save (path, FALSE, &key, &profile, &error));
  g_assert_nonnull (error);
  g_clear_error (&error);
  /* A folder has the name: nothing is left beside it. */
  g_assert_cmpint (unlink (path), ==, 0);
  g_assert_cmpint (g_mkdir (path, 0700), ==, 0);
  g_assert_cmpint (g_mkdir (below, 0700), ==, 0);
  g_assert_false (llm_profile_save (folder, FALSE, &key, &profile, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  g_assert_cmpuint (count_files (folder), ==, 1);
  llm_test_folder_remove (folder);
}

/* --- the disk --- */

ssize_t __real_pread64 (int fd, void *bytes, size_t length, off64_t offset);
ssize_t __real_pwrite64 (int fd, const void *bytes, size_t length, off64_t offset);
ssize_t __wrap_pread64 (int fd, void *bytes, size_t length, off64_t offset);
ssize_t __wrap_pwrite64 (int fd, const void *bytes, size_t length, off64_t offset);

ssize_t
__wrap_pread64 (int      fd,
                void    *bytes,
                size_t   length,
                off64_t  offset)
{
  llm_test_pace_wait (length);
  return __real_pread64 (fd, bytes, length, offset);
}

ssize_t
__wrap_pwrite64 (int         fd,
                 const void *bytes,
                 size_t      length,
                 off64_t     offset)
{
  llm_test_pace_wait (length);
  return __real_pwrite64 (fd, bytes, length, offset);
}

static LlmDisk *
new_disk (guint   latency_us,
          guint64 bytes_per_second)
{
  g_autoptr(GError) error = NULL;
  LlmDisk *disk = llm_disk_new ("threads", &error);

  g_assert_no_error (error);
  llm_test_pace_set (latency_us, bytes_per_second);
  return disk;
}

/* The figures of a disk whose figures are known. */
static void
test_paced_disk (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autoptr(LlmDisk) disk = new_disk (3000, 200 * 1000 * 1000);
  g_autoptr(LlmDiskProbe) probe = NULL;
  g_autoptr(GError) error = NULL;
  LlmKvProfile profile;
  LlmStatus status;

  profile = (LlmKvProfile) { 0 };
  probe = llm_disk_probe_new (disk, folder, &error);
  g_assert_no_error (error);
  /* It has no name already. */
  g_assert_cmpuint (count_files (folder), ==, 0);
  do
    status = llm_disk_probe_work (probe, llm_clock_now_us () + 2000, &profile, &error);
  while (status == LLM_PENDING);
  g_assert_no_error (error);
  g_assert_true (status == LLM_READY);
  /* Never faster than that. How much slower is the machine's business. */
  g_assert_cmpfloat (profile.read_latency_us, >=, 3000);
  g_assert_cmpfloat (profile.read_bytes_per_us, >, 0);
  g_assert_cmpfloat (profile.read_bytes_per_us, <=, 200);
  g_assert_cmpfloat (profile.write_bytes_per_us, >, 0);
  g_assert_cmpfloat (profile.write_bytes_per_us, <=, 200);
  llm_test_folder_remove (folder);
}

/* Left in the middle, with requests under way; what comes later finds nobody. */
static void
test_left (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autoptr(LlmDisk) disk = new_disk (100, 50 * 1000 * 1000);
  g_autoptr(GError) error = NULL;
  LlmKvProfile profile;
  LlmDiskProbe *probe = llm_disk_probe_new (disk, folder, &error);

  g_assert_no_error (error);
  g_assert_true (llm_disk_probe_work (probe, 0, &profile, &error) == LLM_PENDING);
  g_assert_cmpuint (llm_disk_get_n_pending (disk, LLM_DISK_AHEAD), >, 0);
  llm_disk_probe_free (probe);
  /* What had not begun never does. */
  llm_disk_poll (disk, 0);
  g_assert_cmpuint (llm_disk_get_n_pending (disk, LLM_DISK_AHEAD), <, 8);
  while (llm_disk_get_n_pending (disk, LLM_DISK_AHEAD) > 0)
    llm_disk_poll (disk, 100000);

  /* And where no file can be made. */
  llm_test_folder_remove (folder);
  g_assert_null (llm_disk_probe_new (disk, folder, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
}

/* --- the model --- */

typedef struct
{
  LlmGguf *gguf;
  LlmHparams hparams;
  LlmLedger *ledger;
  LlmWeights *weights;
  LlmPlan *plan;
  LlmWorkerPool *pool;
} Rig;

static void
rig_init (Rig *rig)
{
  const LlmTestModel shape = { .n_layers = 2 };
  const LlmPlanConfig plan = { .kernels = llk_ops_best () };
  g_autoptr(GBytes) model = llm_test_model_new (&shape);
  g_autoptr(GError) error = NULL;
  gboolean is_read;

  rig->gguf = llm_gguf_new_for_bytes (model, "test", &error);
  g_assert_no_error (error);
  is_read = llm_hparams_read (rig->gguf, &rig->hparams, &error);
  g_assert_no_error (error);
  g_assert_true (is_read);
  rig->ledger = llm_ledger_new ();
  rig->weights = llm_weights_new_mapped (rig->gguf, &rig->hparams, NULL, rig->ledger, &error);
  g_assert_no_error (error);
  rig->plan = llm_plan_new (&rig->hparams, rig->weights, &plan);
  rig->pool = llm_worker_pool_new (1);
}

static void
rig_clear (Rig *rig)
{
  llm_worker_pool_free (rig->pool);
  llm_plan_unref (rig->plan);
  llm_weights_free (rig->weights);
  llm_ledger_unref (rig->ledger);
  llm_gguf_unref (rig->gguf);
}

static void
test_model (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autoptr(LlmDisk) disk = new_disk (0, 0);
  g_autoptr(GError) error = NULL;
  LlmProfileRun *run;
  LlmKvProfile profile;
  guint64 held;
  guint n_slices = 0;
  LlmStatus status;
  Rig rig;

  rig_init (&rig);
  held = llm_ledger_get_total (rig.ledger);
  run = llm_profile_run_new (rig.plan, rig.pool, rig.ledger, disk, folder);
  /* One stage at a time, at least. */
  while ((status = llm_profile_run_work (run, 0, &profile, &error)) == LLM_PENDING)
    {
      n_slices++;
      llm_disk_poll (disk, 1000);
    }
  g_assert_no_error (error);
  g_assert_true (status == LLM_READY);
  g_assert_cmpuint (n_slices, >, 100);
  g_assert_true (llm_kv_profile_is_measured (&profile));
  g_assert_cmpfloat (profile.depth_us, >=, 0);
  /* What it took it has given back before it is freed. */
  g_assert_cmpuint (llm_ledger_get_total (rig.ledger), ==, held);
  llm_profile_run_free (run);

  /* Left in the middle of a step. */
  run = llm_profile_run_new (rig.plan, rig.pool, rig.ledger, disk, folder);
  for (guint i = 0; i < 20; i++)
    g_assert_true (llm_profile_run_work (run, 0, &profile, &error) == LLM_PENDING);
  g_assert_cmpuint (llm_ledger_get_total (rig.ledger), >, held);
  llm_profile_run_free (run);
  g_assert_cmpuint (llm_ledger_get_total (rig.ledger), ==, held);
  rig_clear (&rig);
  llm_test_folder_remove (folder);
}

/* Without a disk to time, and without memory. */
static void
test_less (void)
{
  g_autoptr(GError) error = NULL;
  LlmProfileRun *run;
  LlmKvProfile profile;
  LlmStatus status;
  Rig rig;

  rig_init (&rig);
  run = llm_profile_run_new (rig.plan, rig.pool, rig.ledger, NULL, NULL);
  while ((status = llm_profile_run_work (run, G_MAXINT64, &profile, &error)) == LLM_PENDING)
    g_assert_not_reached ();
  g_assert_no_error (error);
  g_assert_false (llm_kv_profile_is_measured (&profile));
  g_assert_cmpfloat (profile.prompt_us[2], >, 0);
  llm_profile_run_free (run);

  llm_ledger_set_budget (rig.ledger, llm_ledger_get_total (rig.ledger) + 4096);
  run = llm_profile_run_new (rig.plan, rig.pool, rig.ledger, NULL, NULL);
  g_assert_true (llm_profile_run_work (run, G_MAXINT64, &profile, &error) == LLM_FAILED);
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MEMORY);
  llm_profile_run_free (run);
  rig_clear (&rig);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/engine/profile/kept", test_kept);
  g_test_add_func ("/engine/profile/other-keys", test_other_keys);
  g_test_add_func ("/engine/profile/damaged", test_damaged);
  g_test_add_func ("/engine/profile/unwritable", test_unwritable);
  g_test_add_func ("/engine/profile/paced-disk", test_paced_disk);
  g_test_add_func ("/engine/profile/left", test_left);
  g_test_add_func ("/engine/profile/model", test_model);
  g_test_add_func ("/engine/profile/less", test_less);
  return g_test_run ();
}
