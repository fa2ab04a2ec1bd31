/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A model larger than memory: how fast its tokens come in a control group with a limit, page cache
 * included, beside what its disk allows and, where given, beside other programs in such a group.
 */

#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench-peer.h"
#include "draft/bench-group.h"
#include "support/llm-test-folder.h"

#define MIB ((guint64) 1 << 20)

static int opt_limit = 2000;
static int opt_disk, opt_iops;
static int opt_tokens = 8;
static int opt_rounds = 6;
static char *opt_cache;
static char **opt_peers;

static const GOptionEntry entries[] = {
  { "limit", 0, 0, G_OPTION_ARG_INT, &opt_limit, "Memory of the group, in MiB (2000)", "MIB" },
  { "disk", 0, 0, G_OPTION_ARG_INT, &opt_disk,
    "MB of a second that the group reads from its disk (0: what it gives)", "MB" },
  { "iops", 0, 0, G_OPTION_ARG_INT, &opt_iops,
    "Requests that the group's disk serves in a second (as many as come)", "N" },
  { "tokens", 0, 0, G_OPTION_ARG_INT, &opt_tokens, "Tokens in a row (8)", "N" },
  { "runs", 0, 0, G_OPTION_ARG_INT, &opt_rounds, "Samples of each figure (6)", "N" },
  { "cache", 0, 0, G_OPTION_ARG_FILENAME, &opt_cache,
    "Folder of the prepared copy, which stays (one for this run, beside the model)", "FOLDER" },
  { "peer", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_peers,
    "A program with the command line of llama-bench, in a group of its own", "COMMAND" },
  G_OPTION_ENTRY_NULL
};

/* What is in the page cache already counts in no group. */
static void
drop_file (const char *path)
{
  int fd = open (path, O_RDONLY | O_CLOEXEC);

  if (fd < 0)
    return;
  (void) fsync (fd);
  (void) posix_fadvise (fd, 0, 0, POSIX_FADV_DONTNEED);
  close (fd);
}

static void
drop_copies (const char *cache)
{
  g_autofree char *folder = g_build_filename (cache, "weights", NULL);
  g_autoptr(GDir) dir = g_dir_open (folder, 0, NULL);
  const char *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (folder, name, NULL);

      drop_file (path);
    }
}

static void
add_peak (Bench      *bench,
          BenchGroup *group,
          const char *name)
{
  bench_add (bench, "MiB", (double) bench_group_get_peak (group) / MIB,
             "%s, the most that its group of %d MiB held", name, opt_limit);
}

/* Lines "NAME NUMBER"; those of a round end with "mapped". */
static void
add_lines (Bench      *bench,
           const char *output)
{
  g_auto(GStrv) lines = g_strsplit (output, "\n", -1);
  double disk = 0, streamed = 0, tokens = 0, share = -1;

  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_auto(GStrv) words = g_strsplit (lines[i], " ", 2);
      double number = g_strv_length (words) == 2 ? g_ascii_strtod (words[1], NULL) : 0;

      if (g_strv_length (words) < 2)
        continue;
      if (strcmp (words[0], "keep") == 0)
        bench_add (bench, "MB", number / 1e6, "weights that stay in memory");
      else if (strcmp (words[0], "weights") == 0)
        bench_add (bench, "MB", number / 1e6, "weights");
      else if (strcmp (words[0], "disk") == 0)
        disk = number;
      else if (strcmp (words[0], "streamed") == 0)
        streamed = number;
      else if (strcmp (words[0], "tokens") == 0)
        tokens = number;
      else if (strcmp (words[0], "share") == 0)
        share = number;
      else if (strcmp (words[0], "hits") == 0)
        bench_add (bench, "", number, "experts that a token chose and memory had");
      if (strcmp (words[0], "mapped") != 0)
        continue;
      if (share >= 0)
        bench_add (bench, "", share, "experts that memory has: as many hits, were all chosen alike");
      bench_add (bench, "MB/s", disk / 1e6, "B, the disk alone, past the page cache");
      bench_add (bench, "MB", streamed / 1e6, "S, streamed for a token");
      bench_add (bench, "1/s", tokens, "plain streaming, tokens");
      if (streamed > 0)
        bench_add (bench, "", tokens * streamed / disk, "plain streaming, of B / S");
      bench_add (bench, "", number, "plain streaming, ranges that found no buffer");
    }
}

/* (transfer full) (nullable): its disk is that of @path. */
static BenchGroup *
make_group (const char  *path,
            GError     **error)
{
  g_autoptr(BenchGroup) group = bench_group_new (opt_limit * MIB, error);

  if (group == NULL
      || !bench_group_set_rate (group, path, (guint64) opt_disk * 1000000, (guint64) opt_iops, error))
    return NULL;
  return g_steal_pointer (&group);
}

static gboolean
run_own (Bench       *bench,
         const char  *model,
         const char  *cache,
         const char  *chunks,
         GError     **error)
{
  g_autoptr(BenchGroup) group = NULL;
  g_autofree char *own = g_file_read_link ("/proc/self/exe", error);
  g_autofree char *limit = g_strdup_printf ("%" G_GUINT64_FORMAT, opt_limit * MIB);
  g_autofree char *tokens = g_strdup_printf ("%d", opt_tokens);
  g_autofree char *rounds = g_strdup_printf ("%d", opt_rounds);
  char *make[] = { own, "stream", (char *) model, (char *) cache, (char *) chunks, NULL };
  char *words[] = { own, "stream", (char *) model, (char *) cache, (char *) chunks, limit, tokens,
                    rounds, NULL };
  g_autofree char *output = NULL;
  int status;

  if (own == NULL
      || !g_spawn_sync (NULL, make, NULL, 0, NULL, NULL, NULL, NULL, &status, error)
      || !g_spawn_check_wait_status (status, error))
    return FALSE;
  drop_file (model);
  drop_copies (cache);
  group = make_group (model, error);
  output = group != NULL ? bench_group_run (group, words, error) : NULL;
  if (output == NULL)
    return FALSE;
  add_lines (bench, output);
  add_peak (bench, group, "plain streaming");
  return TRUE;
}

/* Its tokens come by page faults, from a mapping of the model file. */
static gboolean
run_peer (Bench       *bench,
          BenchPeer   *peer,
          const char  *model,
          GError     **error)
{
  g_autoptr(BenchGroup) group = NULL;
  g_autoptr(GStrvBuilder) builder = g_strv_builder_new ();
  g_autofree char *tokens = g_strdup_printf ("%d", opt_tokens);
  g_autofree char *n_threads = g_strdup_printf ("%u", g_get_num_processors ());
  g_auto(GStrv) words = NULL;
  g_autofree char *output = NULL;
  g_autoptr(JsonNode) root = NULL;

  g_strv_builder_addv (builder, (const char **) peer->arguments);
  g_strv_builder_add_many (builder, "-m", model, "-p", "0", "-n", tokens, "-r", "1", "-t",
                           n_threads, "-o", "json", NULL);
  words = g_strv_builder_end (builder);
  drop_file (model);
  group = make_group (model, error);
  output = group != NULL ? bench_group_run (group, words, error) : NULL;
  root = output != NULL ? json_from_string (output, error) : NULL;
  if (root == NULL)
    return FALSE;
  if (JSON_NODE_HOLDS_ARRAY (root))
    for (guint i = 0; i < json_array_get_length (json_node_get_array (root)); i++)
      {
        JsonObject *result = json_array_get_object_element (json_node_get_array (root), i);

        bench_add (bench, "1/s", json_object_get_double_member_with_default (result, "avg_ts", 0),
                   "%s, tokens", peer->name);
      }
  add_peak (bench, group, peer->name);
  return TRUE;
}

static gboolean
run (Bench   *bench,
     GError **error)
{
  g_autoptr(GPtrArray) peers = NULL;
  g_autofree char *parent = NULL;
  g_autofree char *folder = NULL;
  gboolean is_done;

  if (bench->argc != 2)
    return bench_fail_usage (error, "larger needs one MODEL");
  if (opt_limit < 1 || opt_tokens < 1 || opt_rounds < 1 || opt_disk < 0 || opt_iops < 0)
    return bench_fail_usage (error, "--limit, --tokens and --runs are 1 or more, --disk and --iops 0 or more");
  peers = bench_peers_new (opt_peers, error);
  if (peers == NULL)
    return FALSE;
  parent = g_path_get_dirname (bench->argv[1]);
  folder = bench_make_folder (parent, error);
  if (folder == NULL)
    return FALSE;
  is_done = run_own (bench, bench->argv[1], opt_cache != NULL ? opt_cache : folder, folder, error);
  for (guint i = 0; is_done && i < peers->len; i++)
    is_done = run_peer (bench, g_ptr_array_index (peers, i), bench->argv[1], error);
  llm_test_folder_remove (folder);
  return is_done;
}

/* LIMIT BYTES REQUESTS PATH COMMAND…: what it prints, run in a group of LIMIT bytes, which reads so many
 * bytes and requests a second from the disk of PATH, or 0: as many as come; then a JSON object with the most
 * that the group held. */
int
bench_draft_group (int    argc,
                   char **argv)
{
  g_autoptr(BenchGroup) group = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *output = NULL;

  if (argc < 6)
    return 2;
  group = bench_group_new (g_ascii_strtoull (argv[1], NULL, 10), &error);
  if (group != NULL
      && bench_group_set_rate (group, argv[4], g_ascii_strtoull (argv[2], NULL, 10),
                               g_ascii_strtoull (argv[3], NULL, 10), &error))
    output = bench_group_run (group, argv + 5, &error);
  if (output == NULL)
    {
      g_printerr ("llmsvc-bench: %s\n", error->message);
      return 1;
    }
  printf ("%s{\"peak\":%" G_GUINT64_FORMAT "}\n", output, bench_group_get_peak (group));
  return 0;
}

/* For `draft`, which is written in Python. */
const BenchCommand bench_draft_command = {
  .name = "larger",
  .summary = "a model larger than memory: its tokens beside the disk and other programs",
  .entries = entries,
  .arguments = "MODEL",
  .description = "Needs the right to make control groups. B is measured before and after each run "
                 "of tokens, with the requests that streaming makes.",
  .run = run,
};
