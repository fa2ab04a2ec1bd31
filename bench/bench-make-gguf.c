/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * GGUF files with random weights at the shapes of well-known models: speed does not
 * depend on what weights say. Written piece by piece by several threads; the same
 * arguments give the same bytes.
 */

#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "bench-fill.h"
#include "bench-gguf.h"

/* Weights that one thread makes and writes at a time: blocks of 32 and of 256 fit. */
#define PIECE_VALUES (1024 * 1024)

static char *opt_shape;
static char *opt_type;
static int opt_layers;
static gint64 opt_seed = 1;
static int opt_threads;
static gboolean opt_list;

static const GOptionEntry entries[] = {
  { "shape", 0, 0, G_OPTION_ARG_STRING, &opt_shape, "Whose shape it has (see --list)", "NAME" },
  { "type", 0, 0, G_OPTION_ARG_STRING, &opt_type, "Number format or mixture (see --list)", "T" },
  { "layers", 0, 0, G_OPTION_ARG_INT, &opt_layers, "Layers (those of the shape)", "N" },
  { "seed", 0, 0, G_OPTION_ARG_INT64, &opt_seed, "Other weights (1)", "N" },
  { "threads", 0, 0, G_OPTION_ARG_INT, &opt_threads, "Threads that write (all processors)", "N" },
  { "list", 0, 0, G_OPTION_ARG_NONE, &opt_list, "Print shapes and types", NULL },
  G_OPTION_ENTRY_NULL
};

typedef struct
{
  const GArray *tensors;    /* (element-type BenchTensor) */
  const guint64 *offsets;
  guint64 *first_piece;     /* of each tensor, and behind the last */
  guint64 next_piece;       /* (atomic) */
  guint64 seed;
  int fd;
  int write_errno;          /* (atomic): 0 while all is well */
} Writer;

static void
print_list (void)
{
  g_print ("Shapes:\n");
  for (const BenchShape *shape = bench_shape_list (); shape->name != NULL; shape++)
    g_print ("  %-12s %s, %u layers of %u\n", shape->name, shape->like, shape->n_layers,
             shape->n_embd);
  g_print ("Types:\n ");
  for (guint i = 0; bench_mixture_get_name (i) != NULL; i++)
    g_print (" %s", bench_mixture_get_name (i));
  g_print ("\n");
}

/* --- the head --- */

static void
add_uint (BenchGguf        *gguf,
          const BenchShape *shape,
          const char       *key,
          guint             value)
{
  g_autofree char *full = g_strdup_printf ("%s.%s", shape->architecture, key);

  bench_gguf_add_uint (gguf, full, value);
}

static void
add_float (BenchGguf        *gguf,
           const BenchShape *shape,
           const char       *key,
           double            value)
{
  g_autofree char *full = g_strdup_printf ("%s.%s", shape->architecture, key);

  bench_gguf_add_float (gguf, full, (float) value);
}

static void
add_keys (BenchGguf          *gguf,
          const BenchShape   *shape,
          const BenchMixture *mixture,
          guint               n_layers)
{
  g_autofree char *name = g_strdup_printf ("random weights, %s", shape->name);

  bench_gguf_add_string (gguf, "general.architecture", shape->architecture);
  bench_gguf_add_string (gguf, "general.type", "model");
  bench_gguf_add_string (gguf, "general.name", name);
  bench_gguf_add_string (gguf, "general.license", "cc0-1.0");
  bench_gguf_add_uint (gguf, "general.file_type", bench_mixture_get_file_type (mixture));
  bench_gguf_add_uint (gguf, "general.quantization_version", 2);
  add_uint (gguf, shape, "block_count", n_layers);
  add_uint (gguf, shape, "context_length", shape->n_ctx);
  add_uint (gguf, shape, "embedding_length", shape->n_embd);
  add_uint (gguf, shape, "feed_forward_length", shape->n_ff);
  add_uint (gguf, shape, "attention.head_count", shape->n_heads);
  add_uint (gguf, shape, "attention.head_count_kv", shape->n_kv_heads);
  if (shape->head_dim * shape->n_heads != shape->n_embd || shape->has_qk_norms)
    {
      add_uint (gguf, shape, "attention.key_length", shape->head_dim);
      add_uint (gguf, shape, "attention.value_length", shape->head_dim);
    }
  if (!shape->is_bpe)
    add_uint (gguf, shape, "rope.dimension_count", shape->head_dim);
  add_float (gguf, shape, "rope.freq_base", shape->rope_base);
  add_float (gguf, shape, "attention.layer_norm_rms_epsilon", shape->eps);
  add_uint (gguf, shape, "vocab_size", shape->n_vocab);
  if (shape->n_experts > 0)
    {
      add_uint (gguf, shape, "expert_count", shape->n_experts);
      add_uint (gguf, shape, "expert_used_count", shape->n_used_experts);
    }
  bench_vocab_add (gguf, shape);
}

/* --- the weights --- */

static gboolean
write_all (Writer       *writer,
           const guint8 *bytes,
           gsize         n_bytes,
           guint64       offset)
{
  while (n_bytes > 0)
    {
      gssize n = pwrite (writer->fd, bytes, n_bytes, (off_t) offset);

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        {
          g_atomic_int_set (&writer->write_errno, n < 0 ? errno : EIO);
          return FALSE;
        }
      bytes += n;
      n_bytes -= (gsize) n;
      offset += (guint64) n;
    }
  return TRUE;
}

static gboolean
write_piece (Writer *writer,
             guint64 piece,
             guint8 *buffer)
{
  const BenchTensor *tensor;
  gsize block_size, block_bytes, n_blocks, first_block;
  guint index = 0;

  while (writer->first_piece[index + 1] <= piece)
    index++;
  tensor = &g_array_index (writer->tensors, BenchTensor, index);
  block_size = llk_type_block_size (tensor->type);
  block_bytes = llk_type_block_bytes (tensor->type);
  first_block = (piece - writer->first_piece[index]) * (PIECE_VALUES / block_size);
  n_blocks = MIN (PIECE_VALUES / block_size,
                  bench_tensor_get_bytes (tensor) / block_bytes - first_block);

  if (tensor->fill == BENCH_FILL_ONES)
    for (gsize i = 0; i < n_blocks; i++)
      ((float *) buffer)[i] = 1;
  else
    bench_fill_random (tensor->type, tensor->deviation, (writer->seed << 32) + piece, buffer,
                       n_blocks);
  return write_all (writer, buffer, n_blocks * block_bytes,
                    writer->offsets[index] + first_block * block_bytes);
}

static gpointer
run_writer (gpointer data)
{
  Writer *writer = data;
  g_autofree guint8 *buffer = g_malloc (PIECE_VALUES * sizeof (float));
  guint64 n_pieces = writer->first_piece[writer->tensors->len];
  guint64 piece;

  while ((piece = __atomic_fetch_add (&writer->next_piece, 1, __ATOMIC_RELAXED)) < n_pieces &&
         g_atomic_int_get (&writer->write_errno) == 0 && write_piece (writer, piece, buffer))
    ;
  return NULL;
}

static void
run_writers (Writer *writer)
{
  guint n_threads = opt_threads > 0 ? (guint) opt_threads : g_get_num_processors ();
  g_autoptr(GPtrArray) threads = g_ptr_array_new ();

  for (guint i = 1; i < n_threads; i++)
    g_ptr_array_add (threads, g_thread_new ("writer", run_writer, writer));
  run_writer (writer);
  for (guint i = 0; i < threads->len; i++)
    g_thread_join (g_ptr_array_index (threads, i));
}

static guint64 *
count_pieces (const GArray *tensors)
{
  guint64 *first = g_new0 (guint64, tensors->len + 1);

  for (guint i = 0; i < tensors->len; i++)
    {
      const BenchTensor *tensor = &g_array_index (tensors, BenchTensor, i);
      guint64 n_values = tensor->dims[0] * tensor->dims[1] * tensor->dims[2];

      first[i + 1] = first[i] + (n_values + PIECE_VALUES - 1) / PIECE_VALUES;
    }
  return first;
}

gboolean
bench_gguf_write_random (const char         *path,
                         const BenchShape   *shape,
                         const BenchMixture *mixture,
                         guint               n_layers,
                         guint64            *file_bytes,
                         GError            **error)
{
  g_autoptr(GArray) tensors = bench_shape_get_tensors (shape, mixture, n_layers);
  g_autofree guint64 *offsets = g_new0 (guint64, tensors->len);
  g_autofree guint64 *first_piece = count_pieces (tensors);
  g_autoptr(BenchGguf) gguf = bench_gguf_new ();
  g_autoptr(GBytes) head = NULL;
  Writer writer = { tensors, offsets, first_piece, 0, (guint64) opt_seed, -1, 0 };

  add_keys (gguf, shape, mixture, n_layers);
  head = bench_gguf_end (gguf, tensors, offsets, file_bytes);
  writer.fd = g_open (path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  if (writer.fd < 0)
    writer.write_errno = errno;
  else if (ftruncate (writer.fd, (off_t) *file_bytes) != 0)
    writer.write_errno = errno;
  else if (write_all (&writer, g_bytes_get_data (head, NULL), g_bytes_get_size (head), 0))
    run_writers (&writer);
  if (writer.fd >= 0 && close (writer.fd) != 0 && writer.write_errno == 0)
    writer.write_errno = errno;

  if (writer.write_errno != 0)
    {
      g_set_error (error, G_IO_ERROR, (int) g_io_error_from_errno (writer.write_errno),
                   "%s can’t be written: %s", path, g_strerror (writer.write_errno));
      if (writer.fd >= 0)
        g_unlink (path);
      return FALSE;
    }
  return TRUE;
}

int
bench_make_gguf (int    argc,
                 char **argv)
{
  g_autoptr(GOptionContext) context = g_option_context_new ("FILE");
  g_autoptr(GError) error = NULL;
  const BenchShape *shape;
  const BenchMixture *mixture;
  guint64 file_bytes;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error))
    {
      g_printerr ("llmsvc-bench: %s\n", error->message);
      return 2;
    }
  if (opt_list)
    {
      print_list ();
      return 0;
    }

  shape = opt_shape != NULL ? bench_shape_find (opt_shape) : NULL;
  mixture = opt_type != NULL ? bench_mixture_find (opt_type) : NULL;
  if (argc != 2 || shape == NULL || mixture == NULL || opt_layers < 0 || opt_layers > 1024 ||
      opt_threads < 0)
    {
      g_printerr ("llmsvc-bench: make-gguf needs --shape NAME, --type T (both of those that "
                  "--list prints) and FILE\n");
      return 2;
    }
  if (!bench_gguf_write_random (argv[1], shape, mixture,
                                opt_layers > 0 ? (guint) opt_layers : shape->n_layers, &file_bytes,
                                &error))
    {
      g_printerr ("llmsvc-bench: %s\n", error->message);
      return 1;
    }
  g_print ("%s: %s, %.0f MiB\n", argv[1], shape->like, (double) file_bytes / (1 << 20));
  return 0;
}
