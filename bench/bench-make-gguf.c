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

#define ALIGNMENT 32
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
  guint64 *offsets;         /* of each tensor in the file */
  guint64 *first_piece;     /* of each tensor, and behind the last */
  guint64 next_piece;       /* (atomic) */
  guint64 seed;
  int fd;
  int write_errno;          /* (atomic): 0 while all is well */
} Writer;

/* --- the head --- */

static void
add_number (LlmTestGguf      *gguf,
            const BenchShape *shape,
            const char       *key,
            LlmGgufType       type,
            double            value)
{
  g_autofree char *full = g_strdup_printf ("%s.%s", shape->architecture, key);

  if (type == LLM_GGUF_FLOAT32)
    llm_test_gguf_add_double (gguf, full, type, value);
  else
    llm_test_gguf_add_int (gguf, full, type, (gint64) value);
}

static void
add_keys (LlmTestGguf        *gguf,
          const BenchShape   *shape,
          const BenchMixture *mixture,
          guint               n_layers)
{
  gboolean has_lengths = shape->head_dim * shape->n_heads != shape->n_embd || shape->has_qk_norms;
  gboolean has_experts = shape->n_experts > 0;
  const struct
  {
    const char *key;
    gboolean is_there;
    LlmGgufType type;
    double value;
  } numbers[] = {
    { "block_count", TRUE, LLM_GGUF_UINT32, n_layers },
    { "context_length", TRUE, LLM_GGUF_UINT32, shape->n_ctx },
    { "embedding_length", TRUE, LLM_GGUF_UINT32, shape->n_embd },
    { "feed_forward_length", TRUE, LLM_GGUF_UINT32, shape->n_ff },
    { "attention.head_count", TRUE, LLM_GGUF_UINT32, shape->n_heads },
    { "attention.head_count_kv", TRUE, LLM_GGUF_UINT32, shape->n_kv_heads },
    { "attention.key_length", has_lengths, LLM_GGUF_UINT32, shape->head_dim },
    { "attention.value_length", has_lengths, LLM_GGUF_UINT32, shape->head_dim },
    { "rope.dimension_count", !shape->is_bpe, LLM_GGUF_UINT32, shape->head_dim },
    { "rope.freq_base", TRUE, LLM_GGUF_FLOAT32, shape->rope_base },
    { "attention.layer_norm_rms_epsilon", TRUE, LLM_GGUF_FLOAT32, shape->eps },
    { "vocab_size", TRUE, LLM_GGUF_UINT32, shape->n_vocab },
    { "expert_count", has_experts, LLM_GGUF_UINT32, shape->n_experts },
    { "expert_used_count", has_experts, LLM_GGUF_UINT32, shape->n_used_experts },
  };
  g_autofree char *name = g_strdup_printf ("random weights, %s", shape->name);

  llm_test_gguf_add_string (gguf, "general.architecture", shape->architecture);
  llm_test_gguf_add_string (gguf, "general.type", "model");
  llm_test_gguf_add_string (gguf, "general.name", name);
  llm_test_gguf_add_string (gguf, "general.license", "cc0-1.0");
  llm_test_gguf_add_int (gguf, "general.file_type", LLM_GGUF_UINT32, mixture->file_type);
  llm_test_gguf_add_int (gguf, "general.quantization_version", LLM_GGUF_UINT32, 2);
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    if (numbers[i].is_there)
      add_number (gguf, shape, numbers[i].key, numbers[i].type, numbers[i].value);
  bench_vocab_add (gguf, shape);
}

static guint64
get_n_values (const BenchTensor *tensor)
{
  return tensor->dims[0] * tensor->dims[1] * tensor->dims[2];
}

static guint64
get_bytes (const BenchTensor *tensor)
{
  return get_n_values (tensor) / llk_type_block_size (tensor->type) *
         llk_type_block_bytes (tensor->type);
}

static guint64
align (guint64 offset)
{
  return (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* (transfer full): what comes before the weights; fills in where each tensor and piece begins. */
static GBytes *
make_head (Writer             *writer,
           const BenchShape   *shape,
           const BenchMixture *mixture,
           guint               n_layers,
           guint64            *file_bytes)
{
  g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
  guint64 at = 0, data_begin;
  GBytes *head;

  add_keys (gguf, shape, mixture, n_layers);
  for (guint i = 0; i < writer->tensors->len; i++)
    {
      const BenchTensor *tensor = &g_array_index (writer->tensors, BenchTensor, i);

      llm_test_gguf_add_raw_tensor (gguf, tensor->name, tensor->type, tensor->n_dims, tensor->dims,
                                    (gint64) at, NULL, 0);
      writer->offsets[i] = at;
      writer->first_piece[i + 1] = writer->first_piece[i] +
                                   (get_n_values (tensor) + PIECE_VALUES - 1) / PIECE_VALUES;
      at = align (at + get_bytes (tensor));
    }
  head = llm_test_gguf_end (gguf);
  data_begin = align (g_bytes_get_size (head));
  for (guint i = 0; i < writer->tensors->len; i++)
    writer->offsets[i] += data_begin;
  *file_bytes = data_begin + at;
  return head;
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
                  get_bytes (tensor) / block_bytes - first_block);

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
run_writers (Writer *writer,
             guint   n_threads)
{
  g_autoptr(GPtrArray) threads = g_ptr_array_new ();

  for (guint i = 1; i < n_threads; i++)
    g_ptr_array_add (threads, g_thread_new ("writer", run_writer, writer));
  run_writer (writer);
  for (guint i = 0; i < threads->len; i++)
    g_thread_join (g_ptr_array_index (threads, i));
}

gboolean
bench_gguf_write_random (const char         *path,
                         const BenchShape   *shape,
                         const BenchMixture *mixture,
                         guint               n_layers,
                         guint64             seed,
                         guint               n_threads,
                         guint64            *file_bytes,
                         GError            **error)
{
  guint n = n_layers > 0 ? n_layers : shape->n_layers;
  g_autoptr(GArray) tensors = bench_shape_get_tensors (shape, mixture, n);
  g_autofree guint64 *offsets = g_new0 (guint64, tensors->len);
  g_autofree guint64 *first_piece = g_new0 (guint64, tensors->len + 1);
  Writer writer = { tensors, offsets, first_piece, 0, seed, -1, 0 };
  g_autoptr(GBytes) head = make_head (&writer, shape, mixture, n, file_bytes);

  writer.fd = g_open (path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  if (writer.fd < 0 || ftruncate (writer.fd, (off_t) *file_bytes) != 0)
    writer.write_errno = errno;
  else if (write_all (&writer, g_bytes_get_data (head, NULL), g_bytes_get_size (head), 0))
    run_writers (&writer, n_threads > 0 ? n_threads : g_get_num_processors ());
  if (writer.fd >= 0 && close (writer.fd) != 0 && writer.write_errno == 0)
    writer.write_errno = errno;

  if (writer.write_errno == 0)
    return TRUE;
  if (writer.fd >= 0)
    g_unlink (path);
  errno = writer.write_errno;
  return bench_fail_errno (error, "%s can’t be written", path);
}

static void
print_list (void)
{
  g_print ("Shapes:\n");
  for (const BenchShape *shape = bench_shapes; shape->name != NULL; shape++)
    g_print ("  %-12s %s, %u layers of %u\n", shape->name, shape->like, shape->n_layers,
             shape->n_embd);
  g_print ("Types:\n ");
  for (const BenchMixture *mixture = bench_mixtures; mixture->name != NULL; mixture++)
    g_print (" %s", mixture->name);
  g_print ("\n");
}

static gboolean
run_make_gguf (Bench   *bench,
               GError **error)
{
  const BenchShape *shape = opt_shape != NULL ? bench_shape_find (opt_shape) : NULL;
  const BenchMixture *mixture = opt_type != NULL ? bench_mixture_find (opt_type) : NULL;
  guint64 file_bytes;

  if (opt_list)
    {
      print_list ();
      return TRUE;
    }
  if (bench->argc != 2 || shape == NULL || mixture == NULL || opt_layers < 0 || opt_layers > 1024 ||
      opt_threads < 0)
    return bench_fail_usage (error, "make-gguf needs --shape NAME, --type T (both of those that "
                                    "--list prints) and FILE");
  if (!bench_gguf_write_random (bench->argv[1], shape, mixture, (guint) opt_layers,
                                (guint64) opt_seed, (guint) opt_threads, &file_bytes, error))
    return FALSE;
  g_print ("%s: %s, %.0f MiB\n", bench->argv[1], shape->like, (double) file_bytes / (1 << 20));
  return TRUE;
}

const BenchCommand bench_make_gguf_command = {
  .name = "make-gguf",
  .summary = "files with random weights at the shapes of known models",
  .entries = entries,
  .arguments = "FILE",
  .has_no_json = TRUE,
  .run = run_make_gguf,
};
