/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Traces through stores under several policies: that a seed repeats, and what must hold of each
 * policy whatever the figures are. */

#include <string.h>

#include <glib/gstdio.h>
#include <json-glib/json-glib.h>

#include "bench/bench-rig.h"
#include "support/llm-test-folder.h"

#define RESIDENT_MS 0.03

static char *folder;
static char *rates;

/* Rates of no real machine: with them nothing is measured. */
static const char rates_text[] =
  "[disk]\nlatency-us=60\nread-bytes-per-us=1000\nwrite-bytes-per-us=1000\n"
  "[8m]\nprompt-us=700;2000;6000;11000;22000;45000\ndepth-us=1\nresident-us=30\nopen-us=100\n"
  "take-us-per-byte=0.0003\npack-us-per-byte=2\nfloat-evict-us-per-chunk=1\n";

static BenchRigRun
run_grid (const char *seed,
          const char *policy,
          const char *other)
{
  return bench_rig_run ("contexts", "--quick", "--hours", "6", "--rates", rates, "--folder", folder,
                        "--shape", "8m", "--device", "disk", "--seed", seed,
                        "--policies", policy, "--policy", other, "--json", "grid", NULL);
}

static JsonArray *
parse_cells (const BenchRigRun  *run,
             JsonNode          **root)
{
  g_autoptr(GError) error = NULL;

  g_assert_cmpstr (run->err, ==, "");
  g_assert_cmpint (run->status, ==, 0);
  *root = json_from_string (run->out, &error);
  g_assert_no_error (error);
  return json_object_get_array_member (json_node_get_object (*root), "cells");
}

/* The cell of a policy with so many contexts. */
static JsonObject *
find_cell (JsonArray  *cells,
           const char *policy,
           guint       n_contexts)
{
  for (guint i = 0; i < json_array_get_length (cells); i++)
    {
      JsonObject *cell = json_array_get_object_element (cells, i);

      if (strcmp (json_object_get_string_member (cell, "policy"), policy) == 0 &&
          (guint) json_object_get_double_member (cell, "contexts") == n_contexts)
        return cell;
    }
  g_assert_not_reached ();
}

static double
get (JsonObject *cell,
     const char *name)
{
  return json_object_get_double_member (cell, name);
}

static double
get_wait (JsonObject *cell,
          const char *name)
{
  return json_object_get_double_member (json_object_get_object_member (cell, "wait"), name);
}

static void
test_repeats (void)
{
  g_auto(BenchRigRun) first = run_grid ("7", "llms", "vllm-sq");
  g_auto(BenchRigRun) second = run_grid ("7", "llms", "vllm-sq");
  g_auto(BenchRigRun) other = run_grid ("8", "llms", "vllm-sq");
  g_autoptr(JsonNode) root = NULL;
  g_autoptr(JsonNode) other_root = NULL;
  JsonObject *cell = find_cell (parse_cells (&first, &root), "vllm-sq", 8);
  JsonObject *other_cell = find_cell (parse_cells (&other, &other_root), "vllm-sq", 8);

  g_assert_cmpstr (first.out, ==, second.out);
  g_assert_cmpfloat (get (cell, "read-bytes"), !=, get (other_cell, "read-bytes"));
}

/* Two contexts are there all the time, eight are not, under any policy that keeps floats. */
static void
test_resident (void)
{
  g_auto(BenchRigRun) run = run_grid ("1", "swapping", "lmk");
  g_autoptr(JsonNode) root = NULL;
  JsonArray *cells = parse_cells (&run, &root);

  for (guint i = 0; i < 2; i++)
    {
      JsonObject *few = find_cell (cells, i == 0 ? "swapping" : "lmk", 2);
      JsonObject *many = find_cell (cells, i == 0 ? "swapping" : "lmk", 8);

      g_assert_cmpfloat (get (few, "resident-share"), ==, 1);
      g_assert_cmpfloat_with_epsilon (get_wait (few, "mean-ms"), RESIDENT_MS, 1e-9);
      g_assert_cmpfloat_with_epsilon (get_wait (few, "most-ms"), RESIDENT_MS, 1e-9);
      g_assert_cmpfloat (get (many, "resident-share"), <, 1);
      g_assert_cmpfloat (get_wait (many, "mean-ms"), >, RESIDENT_MS);
      g_assert_cmpfloat (get_wait (many, "p50-ms"), <=, get_wait (many, "p95-ms"));
      g_assert_cmpfloat (get_wait (many, "p95-ms"), <=, get_wait (many, "p99-ms"));
      g_assert_cmpfloat (get_wait (many, "p99-ms"), <=, get_wait (many, "most-ms"));
    }
}

static void
test_policies (void)
{
  g_auto(BenchRigRun) run = run_grid ("1", "swapping", "lmk");
  g_auto(BenchRigRun) chunks = run_grid ("1", "llms", "vllm-sq");
  g_autoptr(JsonNode) root = NULL;
  g_autoptr(JsonNode) chunks_root = NULL;
  JsonArray *cells = parse_cells (&run, &root);
  JsonArray *chunks_cells = parse_cells (&chunks, &chunks_root);
  JsonObject *swapping = find_cell (cells, "swapping", 8);
  JsonObject *lmk = find_cell (cells, "lmk", 8);
  JsonObject *llms = find_cell (chunks_cells, "llms", 8);
  JsonObject *vllm_sq = find_cell (chunks_cells, "vllm-sq", 8);

  /* one trace for all */
  g_assert_cmpfloat (get (swapping, "switches"), >, 0);
  g_assert_cmpfloat (get (swapping, "switches"), ==, get (lmk, "switches"));
  g_assert_cmpfloat (get (swapping, "switches"), ==, get (llms, "switches"));
  g_assert_cmpfloat (get (swapping, "budget-bytes"), ==, get (llms, "budget-bytes"));

  /* what is dropped is computed, what is swapped is read */
  g_assert_cmpfloat (get (lmk, "read-bytes"), ==, 0);
  g_assert_cmpfloat (get (lmk, "written-bytes"), ==, 0);
  g_assert_cmpfloat (get (lmk, "recomputed-rows"), >, 0);
  g_assert_cmpfloat (get (swapping, "recomputed-rows"), ==, 0);
  g_assert_cmpfloat (get (swapping, "read-bytes"), >, 0);
  g_assert_cmpfloat (get (swapping, "written-bytes"), >, 0);
  g_assert_cmpfloat (get (vllm_sq, "recomputed-rows"), ==, 0);
  g_assert_cmpfloat (get (vllm_sq, "written-bytes"), >, 0);
  /* ahead of time */
  g_assert_cmpfloat (get (llms, "written-bytes"), ==, 0);
  /* 8 bits are fewer than 16, and half of them fewer still */
  g_assert_cmpfloat (get (vllm_sq, "read-bytes"), <, get (swapping, "read-bytes"));
  g_assert_cmpfloat (get (llms, "read-bytes"), <, get (vllm_sq, "read-bytes"));
}

/* The same calls in less time leave none for packing and writing ahead: what a call takes from others
 * has to wait for both. */
static void
test_rate (void)
{
  g_auto(BenchRigRun) run = bench_rig_run ("contexts", "--quick", "--hours", "24", "--rates", rates,
                                           "--folder", folder, "--shape", "8m", "--device", "disk",
                                           "--json", "sweeps", NULL);
  g_autoptr(JsonNode) root = NULL;
  JsonArray *cells = parse_cells (&run, &root);
  JsonObject *slow = NULL, *fast = NULL;

  for (guint i = 0; i < json_array_get_length (cells); i++)
    {
      JsonObject *cell = json_array_get_object_element (cells, i);
      gboolean is_llms = strcmp (json_object_get_string_member (cell, "policy"), "llms") == 0;
      gboolean is_base = get (cell, "chunk-slots") == 16 && get (cell, "max-slots") == 1024;

      if (is_llms && is_base && get (cell, "interval-s") == 300)
        slow = cell;
      if (is_llms && is_base && get (cell, "interval-s") == 1)
        fast = cell;
    }
  g_assert_nonnull (slow);
  g_assert_nonnull (fast);
  g_assert_cmpfloat (get (slow, "switches"), ==, get (fast, "switches"));
  g_assert_cmpfloat (get (slow, "budget-bytes"), ==, get (fast, "budget-bytes"));
  g_assert_cmpfloat (get (slow, "written-bytes"), ==, 0);
  g_assert_cmpfloat (get (fast, "written-bytes"), >, 0);
  g_assert_cmpfloat (get_wait (fast, "mean-ms"), >, get_wait (slow, "mean-ms"));
}

/* --- what is written --- */

static void
test_tables (void)
{
  g_autofree char *json = g_build_filename (folder, "result.json", NULL);
  g_auto(BenchRigRun) run = bench_rig_run ("contexts", "--quick", "--hours", "6", "--rates", rates,
                                           "--shape", "8m", "--device", "disk", "--json-file", json,
                                           "grid", "capacity", NULL);
  g_autoptr(JsonParser) parser = json_parser_new ();
  g_autoptr(GError) error = NULL;
  JsonObject *root, *line;

  g_assert_cmpint (run.status, ==, 0);
  g_assert_nonnull (strstr (run.out, "| 50 % | 8 |"));
  g_assert_nonnull (strstr (run.out, "most contexts under 25 ms"));
  json_parser_load_from_file (parser, json, &error);
  g_assert_no_error (error);
  root = json_node_get_object (json_parser_get_root (parser));
  line = json_array_get_object_element (json_object_get_array_member (root, "capacity"), 0);
  g_assert_cmpint (json_object_get_int_member (line, "contexts-under-25-ms"), >=,
                   json_object_get_int_member (line, "contexts-under-10-ms"));
}

/* --- in real time --- */

static double
get_median (JsonObject *object,
            const char *name)
{
  return json_object_get_double_member (json_object_get_object_member (object, name), "median");
}

/* With the shipped model, and a peer that only says something. */
static void
test_real (void)
{
  g_autofree char *model = g_build_filename (g_getenv ("LLM_MODEL_DIR"),
                                             "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_autofree char *peer = g_build_filename (folder, "peer", NULL);
  g_auto(BenchRigRun) run = { 0 };
  g_autoptr(JsonNode) root = NULL;
  g_autoptr(GError) error = NULL;
  static const char *const policies[] = { "llms", "vllm-sq", "vllm-s", "swapping", "lmk" };
  JsonObject *object, *part;

  g_file_set_contents (peer, "#!/bin/sh\necho '{ \"n_depth\": 512, \"bytes\": 2500000, "
                             "\"load_ns\": 3000000 }'\n", -1, &error);
  g_assert_no_error (error);
  g_assert_cmpint (g_chmod (peer, 0700), ==, 0);
  run = bench_rig_run ("contexts", "--rates", rates, "--folder", folder, "--shape", "8m", "--model",
                       model, "--device", "disk", "--switches", "3", "--peer", peer, "--json",
                       "switches", "ttft", "slots", NULL);
  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpint (run.status, ==, 0);
  root = json_from_string (run.out, &error);
  g_assert_no_error (error);
  object = json_node_get_object (root);

  part = json_object_get_object_member (json_object_get_object_member (object, "switches"), "8m");
  for (guint i = 0; i < G_N_ELEMENTS (policies); i++)
    {
      JsonObject *found = json_object_get_object_member (part, policies[i]);
      JsonObject *call = json_object_get_object_member (found, "call");

      g_assert_cmpfloat (json_object_get_double_member (call, "measured-ms"), >, 0);
      g_assert_cmpfloat (json_object_get_double_member (call, "predicted-ms"), >, 0);
      /* lmk has nothing on storage */
      g_assert_true ((get (found, "read-bytes") > 0) != (strcmp (policies[i], "lmk") == 0));
      g_assert_true ((get (found, "recomputed-rows") > 0) || strcmp (policies[i], "lmk") != 0);
    }

  /* as many tokens as the model bears */
  part = json_object_get_object_member (json_object_get_object_member (object, "ttft"), "8m-960");
  g_assert_cmpfloat (get_median (part, "there"), >, 0);
  g_assert_cmpfloat (get_median (part, "restored"), >, 0);
  g_assert_cmpfloat (get_median (part, "computed"), >, 0);

  /* The peer's megabytes and milliseconds are what it says; ours are those of 512 tokens with half
   * of 8 bits, where floats take 4 MB. */
  part = json_object_get_object_member (json_object_get_object_member (object, "slots"), "8m");
  g_assert_cmpfloat (get_median (part, "peer-bytes"), ==, 2.5);
  g_assert_cmpfloat (get_median (part, "peer-load"), ==, 3);
  g_assert_cmpfloat (get_median (part, "llmsvc-bytes"), >, 0.5);
  g_assert_cmpfloat (get_median (part, "llmsvc-bytes"), <, 2);
}

static void
test_errors (void)
{
  static const char broken_text[] = "[8m]\nprompt-us=1;2\n[disk]\nlatency-us=1\n"
                                    "read-bytes-per-us=1\nwrite-bytes-per-us=1\n[restore]\n";
  static const char doubtful_text[] = "[8m]\nprompt-us=700;2000;6000;11000;22000;90000\n"
                                      "depth-us=1\nresident-us=30\n[disk]\nlatency-us=1\n"
                                      "read-bytes-per-us=1\nwrite-bytes-per-us=1\n[restore]\n";
  g_auto(BenchRigRun) half = { 0 };
  g_auto(BenchRigRun) doubtful = { 0 };
  g_autofree char *broken = g_build_filename (folder, "broken.ini", NULL);
  g_auto(BenchRigRun) policy = bench_rig_run ("contexts", "--policy", "magic", NULL);
  g_auto(BenchRigRun) shape = bench_rig_run ("contexts", "--shape", "round", NULL);
  g_auto(BenchRigRun) part = bench_rig_run ("contexts", "everything", NULL);
  g_auto(BenchRigRun) seed = bench_rig_run ("contexts", "--seed", "1,x", NULL);
  g_auto(BenchRigRun) hours = bench_rig_run ("contexts", "--hours", "0", NULL);
  g_auto(BenchRigRun) peer = bench_rig_run ("contexts", "--rates", rates, "--shape", "8m",
                                            "--device", "disk", "slots", NULL);

  g_assert_cmpint (policy.status, ==, 2);
  g_assert_nonnull (strstr (policy.err, "magic"));
  g_assert_cmpint (shape.status, ==, 2);
  g_assert_cmpint (part.status, ==, 2);
  g_assert_cmpint (seed.status, ==, 2);
  g_assert_cmpint (hours.status, ==, 2);
  g_assert_cmpint (peer.status, ==, 2);

  /* What no undisturbed machine shows is used, but said. */
  g_assert_true (g_file_set_contents (broken, doubtful_text, -1, NULL));
  doubtful = bench_rig_run ("contexts", "--quick", "--hours", "1", "--rates", broken, "--shape", "8m",
                            "--device", "disk", "ablations", NULL);
  g_assert_cmpint (doubtful.status, ==, 0);
  g_assert_nonnull (strstr (doubtful.out, "512 rows in 90 ms"));

  /* The file with rates says what is wrong with it. */
  g_assert_true (g_file_set_contents (broken, broken_text, -1, NULL));
  half = bench_rig_run ("contexts", "--quick", "--rates", broken, "--shape", "8m", "--device",
                        "disk", "grid", NULL);
  g_assert_cmpint (half.status, ==, 1);
  g_assert_nonnull (strstr (half.err, "broken.ini"));
}

int
main (int    argc,
      char **argv)
{
  int status;

  g_test_init (&argc, &argv, NULL);
  folder = llm_test_folder_new ();
  rates = g_build_filename (folder, "rates.ini", NULL);
  g_assert_true (g_file_set_contents (rates, rates_text, -1, NULL));
  g_test_add_func ("/contexts/repeats", test_repeats);
  g_test_add_func ("/contexts/resident", test_resident);
  g_test_add_func ("/contexts/policies", test_policies);
  g_test_add_func ("/contexts/rate", test_rate);
  g_test_add_func ("/contexts/tables", test_tables);
  g_test_add_func ("/contexts/real", test_real);
  g_test_add_func ("/contexts/errors", test_errors);
  status = g_test_run ();
  llm_test_folder_remove (folder);
  g_free (folder);
  g_free (rates);
  return status;
}
