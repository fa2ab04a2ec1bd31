/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/llm-clock.h"
#include "memory/llm-ledger.h"
#include "base/llm-sysinfo.h"

#include <gio/gio.h>
#include <glib/gstdio.h>

#include "support/llm-test-folder.h"

static void
test_sums (void)
{
  g_autoptr(LlmLedger) ledger = llm_ledger_new ();

  llm_ledger_add (ledger, LLM_HOLDER_WEIGHTS, 100);
  llm_ledger_add (ledger, LLM_HOLDER_KV, 30);
  llm_ledger_remove (ledger, LLM_HOLDER_KV, 10);
  g_assert_cmpuint (llm_ledger_get (ledger, LLM_HOLDER_WEIGHTS), ==, 100);
  g_assert_cmpuint (llm_ledger_get (ledger, LLM_HOLDER_KV), ==, 20);
  g_assert_cmpuint (llm_ledger_get_total (ledger), ==, 120);
}

/* What the kernel has taken is not shown, and comes back into the budget when it is used. */
static void
test_absent (void)
{
  g_autoptr(LlmLedger) ledger = llm_ledger_new ();

  llm_ledger_add (ledger, LLM_HOLDER_WEIGHTS, 100);
  llm_ledger_add (ledger, LLM_LEDGER_BACKED, 90);
  llm_ledger_add (ledger, LLM_HOLDER_KV, 30);
  llm_ledger_add (ledger, LLM_LEDGER_ABSENT, 60);
  g_assert_cmpuint (llm_ledger_get (ledger, LLM_HOLDER_WEIGHTS), ==, 40);
  g_assert_cmpuint (llm_ledger_get (ledger, LLM_HOLDER_KV), ==, 30);
  g_assert_cmpuint (llm_ledger_get_total (ledger), ==, 70);
  g_assert_cmpuint (llm_ledger_get (ledger, LLM_LEDGER_BACKED), ==, 30);
  g_assert_cmpuint (llm_ledger_get_used_backed (ledger), ==, 90);
  g_assert_cmpuint (llm_ledger_get_anonymous (ledger), ==, 40);
  /* where both fit weights keep their place; where they don't, the rest has half */
  llm_ledger_set_budget (ledger, 200);
  g_assert_true (llm_ledger_has_room (ledger, 70));
  g_assert_false (llm_ledger_has_room (ledger, 71));
  llm_ledger_set_budget (ledger, 100);
  g_assert_true (llm_ledger_has_room (ledger, 10));
  g_assert_false (llm_ledger_has_room (ledger, 11));
  llm_ledger_set_budget (ledger, 60);
  g_assert_false (llm_ledger_has_room (ledger, 0));
  g_assert_cmpuint (llm_ledger_get_excess (ledger), ==, 10);
  llm_ledger_remove (ledger, LLM_LEDGER_ABSENT, 60);
  g_assert_cmpuint (llm_ledger_get_total (ledger), ==, 130);
}

static void
test_budget (void)
{
  g_autoptr(LlmLedger) ledger = llm_ledger_new ();

  llm_ledger_add (ledger, LLM_HOLDER_KV, 60);
  g_assert_true (llm_ledger_has_room (ledger, G_MAXUINT64));
  llm_ledger_set_budget (ledger, 100);
  g_assert_true (llm_ledger_has_room (ledger, 40));
  g_assert_false (llm_ledger_has_room (ledger, 41));
  g_assert_false (llm_ledger_has_room (ledger, G_MAXUINT64));
  llm_ledger_set_budget (ledger, 50);
  g_assert_false (llm_ledger_has_room (ledger, 0));
}

static void
test_clock (void)
{
  llm_clock_set_for_test (42);
  g_assert_cmpint (llm_clock_now_us (), ==, 42);
  llm_clock_set_for_test (-1);
  g_assert_cmpint (llm_clock_now_us (), >, 42);
}

static void
write_meminfo (const char *root,
               const char *text)
{
  g_autofree char *folder = g_build_filename (root, "proc", NULL);
  g_autofree char *path = g_build_filename (folder, "meminfo", NULL);

  g_mkdir_with_parents (folder, 0700);
  g_assert_true (g_file_set_contents (path, text, -1, NULL));
}

static void
test_meminfo (void)
{
  g_autofree char *root = llm_test_folder_new ();
  g_autoptr(GError) error = NULL;
  LlmMeminfo info;

  g_assert_false (llm_sysinfo_read_meminfo (root, &info, &error));
  g_clear_error (&error);

  write_meminfo (root, "MemTotal:       1000 kB\nMemFree:   1 kB\nMemAvailable:    250 kB\n");
  g_assert_true (llm_sysinfo_read_meminfo (root, &info, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (info.total, ==, 1000 * 1024);
  g_assert_cmpuint (info.available, ==, 250 * 1024);
  g_assert_cmpuint (info.swap_free, ==, 0);

  write_meminfo (root, "MemTotal: lots\n");
  g_assert_false (llm_sysinfo_read_meminfo (root, &info, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA);

  g_assert_true (llm_sysinfo_read_meminfo (NULL, &info, NULL));
  g_assert_cmpuint (info.available, <=, info.total);
  g_assert_cmpuint (llm_sysinfo_read_resident (NULL), >, 0);
  llm_test_folder_remove (root);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ledger/sums", test_sums);
  g_test_add_func ("/ledger/absent", test_absent);
  g_test_add_func ("/ledger/budget", test_budget);
  g_test_add_func ("/clock/seam", test_clock);
  g_test_add_func ("/sysinfo/meminfo", test_meminfo);
  return g_test_run ();
}
