/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Small storms over the real service: nobody is killed, no answer is lost or another than
 * undisturbed, the program beside it lives. With a model that has some weight, and with the
 * shipped one. Skipped, with the reason, where no control group can be made.
 */

#include <stdio.h>
#include <string.h>

#include <json-glib/json-glib.h>

#include "bench/bench-rig.h"
#include "support/llm-test-folder.h"

#define SKIPPED 77
#define N_APPS 4

static int
check_run (JsonObject *run,
           const char *model)
{
  guint n_storms = json_array_get_length (json_object_get_array_member (run, "storms"));

  g_assert_cmpint (json_object_get_int_member (run, "killed-in-storm"), ==, 0);
  g_assert_cmpint (json_object_get_int_member (run, "oom-kills"), ==, 0);
  g_assert_cmpint (json_object_get_int_member (run, "different"), ==, 0);
  g_assert_cmpint (json_object_get_int_member (run, "answers"), >=, N_APPS);
  g_assert_false (json_object_has_member (run, "failure"));
  g_assert_true (json_object_get_boolean_member (run, "eater-lived"));
  g_assert_cmpuint (n_storms, ==, 3);
  printf ("%s: %u storms, %d answers, all as undisturbed\n", model, n_storms,
          (int) json_object_get_int_member (run, "answers"));
  return 0;
}

static int
run_storms (const char *model)
{
  g_auto(BenchRigRun) run = bench_rig_run ("storm", "--daemon", g_getenv ("LLM_DAEMON"), "--model",
                                           model, "--storms", "3", "--hurry", "4", "--json", NULL);
  g_autoptr(JsonNode) root = NULL;
  g_autoptr(GError) error = NULL;
  JsonArray *runs;

  fputs (run.err, stderr);
  if (run.status == SKIPPED)
    return SKIPPED;
  root = json_from_string (run.out, &error);
  g_assert_no_error (error);
  runs = json_object_get_array_member (json_node_get_object (root), "runs");
  g_assert_cmpuint (json_array_get_length (runs), ==, 2);
  check_run (json_array_get_object_element (runs, 1), model);
  g_assert_cmpint (run.status, ==, 0);
  return 0;
}

int
main (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *made = g_build_filename (folder, "made.gguf", NULL);
  int status;

  bench_rig_make_gguf (made, "1.1b", "Q4_0", "2");
  status = run_storms (made);
  if (status == SKIPPED)
    fprintf (stderr, "SKIPPED: no storm went over the service: no memory control group here\n");
  llm_test_folder_remove (folder);
  return status;
}
