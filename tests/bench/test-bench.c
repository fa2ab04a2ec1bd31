/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What llmsvc-bench prints for programs to read. How fast anything is, no test
 * knows. */

#include <string.h>

#include <glib/gstdio.h>
#include <json-glib/json-glib.h>

#include "bench/bench-rig.h"
#include "support/llm-test-folder.h"

static char *folder;
static char *model;

static JsonObject *
parse (const BenchRigRun  *run,
       JsonNode          **root)
{
  g_autoptr(GError) error = NULL;

  g_assert_cmpint (run->status, ==, 0);
  *root = json_from_string (run->out, &error);
  g_assert_no_error (error);
  g_assert_true (JSON_NODE_HOLDS_OBJECT (*root));
  return json_node_get_object (*root);
}

/* Its median lies between its samples, of which there are @n. */
static double
check_figure (JsonObject *object,
              const char *name,
              const char *unit,
              guint       n)
{
  JsonObject *figure = json_object_get_object_member (object, name);
  JsonArray *samples;
  double median, least = G_MAXDOUBLE, greatest = 0;

  g_assert_nonnull (figure);
  g_assert_cmpstr (json_object_get_string_member (figure, "unit"), ==, unit);
  median = json_object_get_double_member (figure, "median");
  samples = json_object_get_array_member (figure, "samples");
  g_assert_cmpuint (json_array_get_length (samples), ==, n);
  for (guint i = 0; i < n; i++)
    {
      least = MIN (least, json_array_get_double_element (samples, i));
      greatest = MAX (greatest, json_array_get_double_element (samples, i));
    }
  g_assert_cmpfloat (least, >, 0);
  g_assert_cmpfloat (median, >=, least);
  g_assert_cmpfloat (median, <=, greatest);
  return median;
}

/* A program that prints what llama-bench would, without computing anything; @fields: more
 * of its JSON. */
static char *
make_peer (const char *name,
           const char *fields)
{
  char *file = g_build_filename (folder, name, NULL);
  g_autofree char *text = g_strdup_printf (
    "#!/bin/sh\n"
    "echo '[ { \"n_prompt\": 8, \"n_gen\": 0, %s \"avg_ns\": 2000000000 },'\n"
    "echo '  { \"n_prompt\": 0, \"n_gen\": 3, %s \"avg_ns\": 1500000000 } ]'\n",
    fields, fields);
  g_autoptr(GError) error = NULL;

  g_file_set_contents (file, text, -1, &error);
  g_assert_no_error (error);
  g_assert_cmpint (g_chmod (file, 0700), ==, 0);
  return file;
}

/* --- model --- */

static JsonObject *
find_result (JsonObject *object,
             const char *engine,
             const char *test)
{
  JsonArray *results = json_object_get_array_member (object, "results");

  for (guint i = 0; i < json_array_get_length (results); i++)
    {
      JsonObject *result = json_array_get_object_element (results, i);

      if (strcmp (json_object_get_string_member (result, "engine"), engine) == 0 &&
          strcmp (json_object_get_string_member (result, "test"), test) == 0)
        return result;
    }
  g_error ("No result of %s for %s", engine, test);
}

static void
test_model (void)
{
  g_autofree char *peer = make_peer ("peer", "");
  g_auto(BenchRigRun) run = bench_rig_run ("model", "--model", model, "--prompt", "8", "--gen", "3",
                                           "--runs", "2", "--threads", "1", "--no-cache", "--peer",
                                           peer, "--json", NULL);
  g_autoptr(JsonNode) root = NULL;
  JsonObject *object = parse (&run, &root);
  JsonObject *own = find_result (object, "llmsvc", "decode of 3");
  JsonObject *other = find_result (object, "peer", "decode of 3");
  JsonObject *facts = json_object_get_object_member (object, "model");
  JsonObject *settings = json_object_get_object_member (object, "settings");
  double read, bytes, speed;

  g_assert_cmpint (json_object_get_int_member (settings, "threads"), ==, 1);
  g_assert_cmpstr (json_object_get_string_member (facts, "format"), ==, "Q8_0");
  /* Two layers of 34 bytes for each 32 weights, the output, and norms. */
  bytes = 2 * (256 * 256 * 2 + 256 * 128 * 2 + 3 * 256 * 512) * 34.0 / 32 +
          1024 * 256 * 34.0 / 32 + 5 * 256 * 4;
  g_assert_cmpint (json_object_get_int_member (facts, "bytes-per-token"), ==, (gint64) bytes);
  g_assert_cmpint (json_object_get_int_member (facts, "bytes-per-position"), ==,
                   2 * 2 * 2 * 64 * 2);

  read = check_figure (json_object_get_object_member (object, "limits"), "read", "GB/s", 2);
  g_assert_cmpfloat (read, <, 10000);
  check_figure (json_object_get_object_member (object, "limits"), "compute", "Gop/s", 2);
  speed = check_figure (own, "tokens-per-second", "tokens/s", 2);
  check_figure (own, "percent-of-read-limit", "%", 2);
  check_figure (find_result (object, "llmsvc", "prompt of 8"), "percent-of-compute-limit", "%", 2);
  g_assert_false (json_object_has_member (own, "times-as-fast"));

  /* The peer says 8 tokens in 2 s, 3 in 1.5 s, and its gigabytes are what the model has. */
  g_assert_cmpfloat (check_figure (find_result (object, "peer", "prompt of 8"),
                                   "tokens-per-second", "tokens/s", 2), ==, 4);
  g_assert_cmpfloat (check_figure (other, "tokens-per-second", "tokens/s", 2), ==, 2);
  g_assert_cmpfloat_with_epsilon (check_figure (other, "gigabytes-per-second", "GB/s", 2),
                                  (3 * bytes + 6 * 1024) / 1.5e9, 1e-9);
  g_assert_cmpfloat_with_epsilon (check_figure (other, "times-as-fast", "×", 2), speed / 2,
                                  speed * 1e-6);
}

/* The same program again, in turns with this one; what is no such program is said to be none. */
static void
test_model_beside (void)
{
  const char *bench = g_getenv ("LLM_BENCH");
  g_auto(BenchRigRun) run = bench_rig_run ("model", "--model", model, "--prompt", "8", "--gen", "3",
                                           "--runs", "6", "--no-cache", "--beside", bench, "--json",
                                           NULL);
  g_auto(BenchRigRun) other = bench_rig_run ("model", "--model", model, "--prompt", "0", "--gen",
                                             "3", "--no-cache", "--beside", "true", NULL);
  g_autoptr(JsonNode) root = NULL;
  JsonObject *object = parse (&run, &root), *ratio;
  const char *tests[] = { "prompt of 8", "decode of 3" };

  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    {
      check_figure (find_result (object, "llmsvc", tests[i]), "tokens-per-second", "tokens/s", 6);
      check_figure (find_result (object, "beside", tests[i]), "times-as-fast", "×", 6);
      ratio = json_object_get_object_member (find_result (object, "beside", tests[i]),
                                             "times-as-fast");
      g_assert_cmpfloat (json_object_get_double_member (ratio, "low"), <=,
                         json_object_get_double_member (ratio, "median"));
      g_assert_cmpfloat (json_object_get_double_member (ratio, "high"), >=,
                         json_object_get_double_member (ratio, "median"));
    }
  g_assert_cmpint (other.status, !=, 0);
  g_assert_nonnull (strstr (other.err, "printed no results"));
}

/* Several rows of a context in a step. */
static void
test_model_rows (void)
{
  g_auto(BenchRigRun) chain = bench_rig_run ("model", "--model", model, "--prompt", "0", "--gen",
                                             "3", "--depth", "16", "--rows", "5", "--runs", "1",
                                             "--no-cache", "--json", NULL);
  g_auto(BenchRigRun) tree = bench_rig_run ("model", "--model", model, "--prompt", "0", "--gen",
                                            "3", "--depth", "16", "--batch", "2", "--rows", "64",
                                            "--tree", "--runs", "1", "--no-cache", "--json", NULL);
  g_auto(BenchRigRun) many = bench_rig_run ("model", "--model", model, "--rows", "65", "--tree",
                                            NULL);
  g_autoptr(JsonNode) chain_root = NULL;
  g_autoptr(JsonNode) tree_root = NULL;

  find_result (parse (&chain, &chain_root), "llmsvc", "decode of 3 × 5 behind 16");
  find_result (parse (&tree, &tree_root), "llmsvc",
               "decode of 3 × 64 in a tree in 2 contexts behind 16");
  g_assert_cmpint (many.status, ==, 2);
}

/* Depth and several contexts; a peer that can't say the same is left out. */
static void
test_model_batch (void)
{
  g_autofree char *single = make_peer ("single", "\"n_depth\": 16,");
  g_autofree char *shallow = make_peer ("shallow", "\"n_seqs\": 2,");
  g_autofree char *able = make_peer ("able", "\"n_seqs\": 2, \"n_depth\": 16,");
  g_auto(BenchRigRun) run = bench_rig_run ("model", "--model", model, "--prompt", "8", "--gen", "3",
                                           "--depth", "16", "--batch", "2", "--runs", "1",
                                           "--no-cache", "--peer", single, "--peer", shallow,
                                           "--peer", able, "--profile", "--json", NULL);
  g_autoptr(JsonNode) root = NULL;
  JsonObject *object = parse (&run, &root);
  JsonObject *profile, *step;
  g_autoptr(GList) stages = NULL;
  double sum = 0;

  g_assert_nonnull (strstr (run.err, "single: it does not say"));
  g_assert_nonnull (strstr (run.err, "shallow: it does not say"));
  g_assert_null (strstr (run.out, "\"single\""));
  g_assert_null (strstr (run.out, "\"shallow\""));
  g_assert_cmpfloat (check_figure (find_result (object, "able",
                                                "decode of 3 in 2 contexts behind 16"),
                                   "tokens-per-second", "tokens/s", 1), ==, 4);
  find_result (object, "llmsvc", "prompt of 8 behind 16");

  profile = json_object_get_object_member (object, "profile-ms");
  g_assert_nonnull (profile);
  step = json_object_get_object_member (profile, "decode-step");
  stages = json_object_get_members (step);
  g_assert_cmpuint (g_list_length (stages), >, 5);
  for (GList *l = stages; l != NULL; l = l->next)
    sum += json_object_get_double_member (step, l->data);
  g_assert_cmpfloat (sum, >, 0);
}

/* Prompts in W8A8, beside the service's arithmetic. */
static void
test_model_prefill (void)
{
  g_auto(BenchRigRun) run = bench_rig_run ("model", "--model", model, "--prompt", "64", "--gen", "0",
                                           "--runs", "2", "--no-cache", "--prefill", "w8a8",
                                           "--prefill", "w8a8-naive", "--json", NULL);
  g_auto(BenchRigRun) unknown = bench_rig_run ("model", "--model", model, "--prefill", "w4", NULL);
  g_autoptr(JsonNode) root = NULL;
  JsonObject *object = parse (&run, &root);

  check_figure (find_result (object, "llmsvc, w8a8", "prompt of 64"), "times-as-fast", "×", 2);
  check_figure (find_result (object, "llmsvc, w8a8-naive", "prompt of 64"), "times-as-fast", "×", 2);
  g_assert_cmpint (unknown.status, ==, 2);
  g_assert_nonnull (strstr (unknown.err, "w8a8-naive"));
}

/* Packed context memory and densities, beside floats; 64 tokens are four chunks. */
static void
test_model_variants (void)
{
  g_auto(BenchRigRun) run = bench_rig_run ("model", "--model", model, "--prompt", "0", "--gen", "3",
                                           "--depth", "64", "--runs", "2", "--no-cache", "--kv",
                                           "vllm-sq", "--density", "--json", NULL);
  g_auto(BenchRigRun) unknown = bench_rig_run ("model", "--model", model, "--kv", "tape", NULL);
  g_autoptr(JsonNode) root = NULL;
  JsonObject *object = parse (&run, &root);
  const char *test = "decode of 3 behind 64";
  JsonObject *floats = find_result (object, "llmsvc", test);
  JsonObject *densities = find_result (object, "llmsvc, densities", test);
  JsonObject *packed = find_result (object, "llmsvc, vllm-sq", test);

  g_assert_false (json_object_has_member (floats, "times-as-fast"));
  check_figure (densities, "times-as-fast", "×", 2);
  check_figure (packed, "times-as-fast", "×", 2);
  /* Fewer bytes for a step, at its speed. */
  for (guint i = 0; i < 2; i++)
    {
      double ratios[2];
      JsonObject *both[] = { floats, packed };

      for (guint k = 0; k < 2; k++)
        ratios[k] = json_array_get_double_element (json_object_get_array_member (
                      json_object_get_object_member (both[k], "gigabytes-per-second"),
                      "samples"), i) /
                    json_array_get_double_element (json_object_get_array_member (
                      json_object_get_object_member (both[k], "tokens-per-second"),
                      "samples"), i);
      g_assert_cmpfloat (ratios[1], <, ratios[0]);
    }
  g_assert_cmpint (unknown.status, ==, 1);
  g_assert_nonnull (strstr (unknown.err, "tape"));
}

static BenchRigRun
run_loss (const char *file,
          const char *option,
          const char *output)
{
  g_autofree char *text = g_build_filename (g_getenv ("LLM_TEST_DATA"), "golden",
                                            "heldout_sgd_chatml.txt", NULL);
  g_autofree char *text_option = g_strconcat ("--text=", text, NULL);

  return bench_rig_run ("model", "--model", file, "--prompt", "8", "--gen", "0", "--runs", "1",
                        "--no-cache", "--loss-windows=1", text_option, option, output, NULL);
}

/* What speed costs: of a model that has learned something, of one that has not, and of floats. */
static void
test_model_loss (void)
{
  g_autofree char *demo = g_build_filename (g_getenv ("LLM_MODEL_DIR"), "llmsvc-demo-8M-Q8_0.gguf",
                                            NULL);
  g_auto(BenchRigRun) run = run_loss (demo, "--json", NULL);
  g_auto(BenchRigRun) random = run_loss (model, "--json", NULL);
  g_auto(BenchRigRun) exact = run_loss (model, "--exact", "--json");
  g_auto(BenchRigRun) line = run_loss (demo, NULL, NULL);
  g_auto(BenchRigRun) silent = bench_rig_run ("model", "--model", model, "--prompt", "8", "--gen",
                                              "0", "--runs", "1", "--no-cache", NULL);
  g_autoptr(JsonNode) root = NULL;
  g_autoptr(JsonNode) random_root = NULL;
  g_autoptr(JsonNode) exact_root = NULL;
  JsonObject *loss = json_object_get_object_member (parse (&run, &root), "loss");
  double floats, perplexity;

  g_assert_nonnull (loss);
  g_assert_cmpint (json_object_get_int_member (loss, "window"), ==, 512);
  g_assert_cmpint (json_object_get_int_member (loss, "scored"), ==, 255);
  g_assert_true (json_object_get_boolean_member (loss, "beats-chance"));
  floats = json_object_get_double_member (loss, "perplexity-in-floats");
  perplexity = json_object_get_double_member (loss, "perplexity");
  g_assert_cmpfloat (floats, >, 1);
  g_assert_cmpfloat (floats, <, 100);
  g_assert_cmpfloat (perplexity, !=, floats);
  g_assert_cmpfloat_with_epsilon (json_object_get_double_member (loss, "perplexity-growth-percent"),
                                  100 * (perplexity / floats - 1), 1e-9);
  g_assert_cmpfloat (json_object_get_double_member (loss, "mean-divergence"), >, 0);
  g_assert_cmpfloat (json_object_get_double_member (loss, "p99-divergence"), >,
                     json_object_get_double_member (loss, "mean-divergence"));
  g_assert_cmpfloat (json_object_get_double_member (loss, "largest-divergence"), >=,
                     json_object_get_double_member (loss, "p99-divergence"));
  g_assert_cmpfloat (json_object_get_double_member (loss, "same-top-percent"), >, 90);

  loss = json_object_get_object_member (parse (&random, &random_root), "loss");
  g_assert_false (json_object_get_boolean_member (loss, "beats-chance"));
  g_assert_false (json_object_has_member (parse (&exact, &exact_root), "loss"));
  g_assert_nonnull (strstr (line.out, "\nloss of the arithmetic on heldout_sgd_chatml.txt (255 "
                                      "tokens scored): perplexity "));
  g_assert_null (strstr (line.out, "random weights"));
  g_assert_nonnull (strstr (silent.out, "\nloss of the arithmetic: not measured, --text=FILE"));
}

static void
test_model_errors (void)
{
  g_autofree char *missing = g_build_filename (folder, "missing.gguf", NULL);
  g_auto(BenchRigRun) usage = bench_rig_run ("model", NULL);
  g_auto(BenchRigRun) no_file = bench_rig_run ("model", "--model", missing, NULL);
  g_auto(BenchRigRun) no_kernels = bench_rig_run ("model", "--model", model, "--kernels",
                                                  "slide-rule", NULL);
  g_auto(BenchRigRun) no_text = bench_rig_run ("model", "--model", model, "--no-cache", "--text",
                                               "/nowhere.txt", NULL);
  g_auto(BenchRigRun) short_text = bench_rig_run ("model", "--model", model, "--no-cache", "--text",
                                                  "/dev/null", NULL);
  g_auto(BenchRigRun) no_windows = bench_rig_run ("model", "--model", model, "--loss-windows", "0",
                                                  NULL);
  g_auto(BenchRigRun) unknown = bench_rig_run ("mdoel", NULL);

  g_assert_cmpint (usage.status, ==, 2);
  g_assert_cmpint (no_file.status, ==, 1);
  g_assert_nonnull (strstr (no_file.err, "missing.gguf"));
  g_assert_cmpint (no_kernels.status, ==, 1);
  g_assert_nonnull (strstr (no_kernels.err, "slide-rule"));
  g_assert_cmpint (no_text.status, ==, 1);
  g_assert_nonnull (strstr (no_text.err, "/nowhere.txt"));
  g_assert_cmpint (short_text.status, ==, 1);
  g_assert_nonnull (strstr (short_text.err, "/dev/null has 1 token for this model, and one window "
                                            "is 512"));
  g_assert_cmpint (no_windows.status, ==, 2);
  g_assert_nonnull (strstr (no_windows.err, "--loss-windows"));
  g_assert_cmpint (unknown.status, ==, 2);
}

/* --- the others --- */

static void
test_machine (void)
{
  g_auto(BenchRigRun) run = bench_rig_run ("machine", "--threads", "1", "--runs", "1", "--size",
                                           "8", "--folder", folder, "--json", NULL);
  g_autoptr(JsonNode) root = NULL;
  JsonObject *object = parse (&run, &root);

  check_figure (object, "memory in huge pages, 4 streams with prefetch, 1 thread", "GB/s", 1);
  check_figure (object, "second-level cache, 1 thread", "GB/s", 1);
  check_figure (object, "portable fp32 (multiply, add), 1 thread", "Gop/s", 1);
  check_figure (object, "disk, from the page cache, mapped anew", "MB/s", 1);
}

static void
test_contention (void)
{
  g_auto(BenchRigRun) run = bench_rig_run ("contention", "--model", model, "--gen", "2", "--runs",
                                           "1", "--busy", "1", "--json", NULL);
  g_autoptr(JsonNode) root = NULL;
  JsonObject *object = parse (&run, &root);

  check_figure (object, "llmsvc, quiet", "tokens/s", 1);
  check_figure (object, "llmsvc, kept", "%", 1);
}

static void
test_load (void)
{
  g_auto(BenchRigRun) run = bench_rig_run ("load", "--daemon", g_getenv ("LLM_DAEMON"), "--model",
                                           model, "--folder", folder, "--runs", "1", "--json",
                                           NULL);
  g_autoptr(JsonNode) root = NULL;
  JsonObject *object = parse (&run, &root);

  check_figure (object, "first start, model file in the page cache", "ms", 1);
  check_figure (object, "second start, prepared copy in the page cache", "ms", 1);
  check_figure (object, "second start, nothing in the page cache", "ms", 1);
  check_figure (object, "two services: sum of what they really hold (Pss)", "MiB", 1);
}

static void
test_service (void)
{
  g_auto(BenchRigRun) run = bench_rig_run ("service", "--daemon", g_getenv ("LLM_DAEMON"),
                                           "--model", model, "--runs", "1", "--tokens", "2", "--json",
                                           NULL);
  g_auto(BenchRigRun) usage = bench_rig_run ("service", "--runs", "1", NULL);
  g_autoptr(JsonNode) root = NULL;
  JsonObject *object = parse (&run, &root);

  check_figure (object, "activation to first byte, model in page cache", "ms", 1);
  check_figure (object, "the same call, service running", "ms", 1);
  check_figure (object, "whole answer over the bus", "ms", 1);
  check_figure (object, "CPU in one process", "ms", 1);
  check_figure (object, "resident, after Trim critical", "MiB", 1);
  g_assert_cmpint (usage.status, ==, 2);
}

int
main (int    argc,
      char **argv)
{
  int status;

  g_test_init (&argc, &argv, NULL);
  folder = llm_test_folder_new ();
  model = g_build_filename (folder, "model.gguf", NULL);
  bench_rig_make_gguf (model, "tiny-llama", "Q8_0", "0");
  g_test_add_func ("/bench/model", test_model);
  g_test_add_func ("/bench/model/rows", test_model_rows);
  g_test_add_func ("/bench/model/batch", test_model_batch);
  g_test_add_func ("/bench/model/beside", test_model_beside);
  g_test_add_func ("/bench/model/variants", test_model_variants);
  g_test_add_func ("/bench/model/prefill", test_model_prefill);
  g_test_add_func ("/bench/model/loss", test_model_loss);
  g_test_add_func ("/bench/model/errors", test_model_errors);
  g_test_add_func ("/bench/machine", test_machine);
  g_test_add_func ("/bench/contention", test_contention);
  g_test_add_func ("/bench/load", test_load);
  g_test_add_func ("/bench/service", test_service);
  status = g_test_run ();
  llm_test_folder_remove (folder);
  g_free (folder);
  g_free (model);
  return status;
}
