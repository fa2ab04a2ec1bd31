/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ways to compute prompts with 8 bits, compared by llmsvc-bench w8a8. */

#include <string.h>

#include <gio/gio.h>

#include "bench/bench-rig.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-gguf.h"

/* The figure in a column of a table's row. */
static double
get_cell (const char *out,
          const char *row,
          guint       column)
{
  const char *at = strstr (out, row);
  char *end;
  double value = 0;

  g_assert_nonnull (at);
  at += strlen (row);
  for (guint i = 0; i <= column; i++, at = end)
    {
      at += strspn (at, " %");
      value = g_ascii_strtod (at, &end);
      g_assert_true (end != at);
    }
  return value;
}

/* A text that no tokenizer makes short. */
static char *
write_text (const char *folder,
            const char *name,
            guint32     seed)
{
  g_autoptr(GRand) random = g_rand_new_with_seed (seed);
  g_autoptr(GString) text = g_string_new (NULL);
  char *path = g_build_filename (folder, name, NULL);

  for (guint i = 0; i < 1200; i++)
    g_string_append_c (text, (char) g_rand_int_range (random, ' ', '~'));
  g_assert_true (g_file_set_contents (path, text->str, -1, NULL));
  return path;
}

/* Outliers that are put in change nothing exactly, spoil what has one scale for all, and nothing
 * that has a shadow. */
static void
test_outliers (void)
{
  const LlmTestModel shape = { .n_ctx = 64, .n_embd = 256, .n_ff = 512, .seed = 11 };
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *path = g_build_filename (folder, "small.gguf", NULL);
  g_autofree char *text = write_text (folder, "text", 1);
  g_autofree char *calibration = write_text (folder, "calibration", 2);
  g_autofree char *option = g_strconcat ("--calibration=", calibration, NULL);
  double exact = 0;

  llm_test_model_write (&shape, path);
  for (guint i = 0; i < 2; i++)
    {
      g_auto(BenchRigRun) run = bench_rig_run ("w8a8", "--model", path, option, "--windows=2",
                                                  text, i == 0 ? NULL : "--inject=100", NULL);

      g_test_message ("%s%s", run.out, run.err);
      g_assert_cmpstr (run.err, ==, "");
      g_assert_cmpint (run.status, ==, 0);
      if (i == 0)
        exact = get_cell (run.out, "\nexact", 0);
      g_assert_cmpfloat_with_epsilon (get_cell (run.out, "\nexact", 0), exact, 0.01 * exact);
      g_assert_cmpfloat (get_cell (run.out, "\nexact", 2), ==, 0);
      g_assert_cmpfloat (get_cell (run.out, "\nshadow  ", 2), <, 0.007);
      g_assert_cmpfloat (get_cell (run.out, "\nshadow  ", 3), >, 0);
      g_assert_cmpfloat (get_cell (run.out, "\nnaive  ", 3), ==, 0);
      /* hot channels are floats in both */
      g_assert_cmpfloat (get_cell (run.out, "\nclipped  ", 3), <=,
                         get_cell (run.out, "\nshadow  ", 3));
      if (i == 1)
        g_assert_cmpfloat (get_cell (run.out, "\nnaive  ", 2), >,
                           10 * get_cell (run.out, "\nshadow  ", 2));
      g_assert_nonnull (strstr (run.out, "\npruned sites: "));
    }
  llm_test_folder_remove (folder);
}

static void
test_faults (void)
{
  static const struct
  {
    const char *arguments[4];
    int status;
    const char *message;
  } faults[] = {
    { { "--model=/nowhere.gguf", "text" }, 2, "--calibration" },
    { { "--model=/nowhere.gguf", "--calibration=/none" }, 2, "--calibration" },
    { { "--model=/nowhere.gguf", "--calibration=/none", "--inject=0.5", "text" }, 2, "--inject" },
    { { "--model=/nowhere.gguf", "--calibration=/none", "--uneven", "text" }, 2, "--uneven" },
    { { "--model=/nowhere.gguf", "--calibration=/none", "--windows=0", "text" }, 2, "--windows" },
    { { "--model=/nowhere.gguf", "--calibration=/none", "text" }, 1, "/nowhere.gguf" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (faults); i++)
    {
      const char *const *arguments = faults[i].arguments;
      g_auto(BenchRigRun) run = bench_rig_run ("w8a8", arguments[0], arguments[1], arguments[2],
                                               arguments[3], NULL);

      g_assert_cmpint (run.status, ==, faults[i].status);
      g_assert_nonnull (strstr (run.err, faults[i].message));
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/bench/w8a8/outliers", test_outliers);
  g_test_add_func ("/bench/w8a8/faults", test_faults);
  return g_test_run ();
}
