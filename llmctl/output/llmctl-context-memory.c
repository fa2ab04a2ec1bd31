/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/output/llmctl-context-memory.h"

#include <glib/gi18n.h>
#include <stdint.h>

#include "llmctl/output/llmctl-output.h"

/* Before a line of the map: its first token. */
#define LABEL_COLUMNS 8
/* Lines of the map end at a multiple of so many chunks. */
#define MAP_STEP      8
#define MAX_BITS      32
#define N_PLACES      (LLMSVC_CHUNK_PLACE_BOTH + 1)

/* Fuller shades have more bits, a checked one has 3; what lies on storage is as high as it has
 * bits. In ASCII the digit is the bits in memory, the letter for storage is one of eight, quad,
 * three, two, float. */
static const struct
{
  guint bits;
  const char *memory, *storage, *ascii_memory, *ascii_storage;
} signs[] = {
  { 32, "█", "▇", "F", "f" }, { 16, "█", "▇", "F", "f" }, { 8, "▓", "▅", "8", "e" },
  { 4, "▒", "▃", "4", "q" },  { 3, "▚", "▂", "3", "h" },   { 2, "░", "▁", "2", "t" },
};

/* What stands for a chunk in the map. @is_ascii: for terminals without UTF-8. */
static const char *
get_sign (guint            bits,
          LlmsvcChunkPlace place,
          gboolean         is_ascii)
{
  if (place == LLMSVC_CHUNK_PLACE_TEXT)
    return is_ascii ? "." : "·";

  for (gsize i = 0; i < G_N_ELEMENTS (signs); i++)
    {
      if (signs[i].bits != bits)
        continue;
      if (place == LLMSVC_CHUNK_PLACE_STORAGE)
        return is_ascii ? signs[i].ascii_storage : signs[i].storage;
      if (place == LLMSVC_CHUNK_PLACE_MEMORY || place == LLMSVC_CHUNK_PLACE_BOTH)
        return is_ascii ? signs[i].ascii_memory : signs[i].memory;
    }

  return "?";
}

static const LlmctlStyle styles[N_PLACES] = {
  [LLMSVC_CHUNK_PLACE_UNKNOWN] = LLMCTL_STYLE_BAD,
  [LLMSVC_CHUNK_PLACE_MEMORY] = LLMCTL_STYLE_WARNING,
  [LLMSVC_CHUNK_PLACE_BOTH] = LLMCTL_STYLE_GOOD,
  [LLMSVC_CHUNK_PLACE_STORAGE] = LLMCTL_STYLE_PLAIN,
  [LLMSVC_CHUNK_PLACE_TEXT] = LLMCTL_STYLE_DIM,
};

static void
print_map (LlmsvcContextMemory *memory,
           gboolean             is_ascii)
{
  guint n_chunks = llmsvc_context_memory_get_n_chunks (memory);
  guint columns = llmctl_output_get_columns () - LABEL_COLUMNS;
  guint n_in_line = MAX (columns / MAP_STEP, 1) * MAP_STEP;
  guint n_tokens = llmsvc_context_memory_get_chunk_tokens (memory);

  for (guint i = 0; i < n_chunks;)
    {
      g_autoptr(GString) run = g_string_new (NULL);
      LlmctlStyle style = styles[llmsvc_context_memory_get_chunk_place (memory, i)];
      LlmsvcChunkPlace place;

      if (i % n_in_line == 0)
        llmctl_output_printf (LLMCTL_STYLE_DIM, "%s%*ju ", i > 0 ? "\n" : "", LABEL_COLUMNS - 1,
                              (uintmax_t) i * n_tokens);
      do
        {
          place = llmsvc_context_memory_get_chunk_place (memory, i);
          g_string_append (run, get_sign (llmsvc_context_memory_get_chunk_bits (memory, i), place,
                                          is_ascii));
          i++;
        }
      while (i < n_chunks && i % n_in_line != 0 &&
             styles[llmsvc_context_memory_get_chunk_place (memory, i)] == style);
      llmctl_output_text (style, run->str);
    }
  llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
}

/* (transfer full): what a sign means, and of how many chunks it is true. */
static char *
describe_sign (guint            bits,
               LlmsvcChunkPlace place,
               guint            n)
{
  switch (place)
    {
    case LLMSVC_CHUNK_PLACE_MEMORY:
      /* Translators: bits of a number; the number of parts of a context that are kept so */
      return g_strdup_printf (_("%u bits, in memory: %u"), bits, n);
    case LLMSVC_CHUNK_PLACE_BOTH:
      return g_strdup_printf (_("%u bits, in memory and on storage: %u"), bits, n);
    case LLMSVC_CHUNK_PLACE_STORAGE:
      return g_strdup_printf (_("%u bits, on storage: %u"), bits, n);
    case LLMSVC_CHUNK_PLACE_TEXT:
      return g_strdup_printf (_("only as text: %u"), n);
    case LLMSVC_CHUNK_PLACE_UNKNOWN:
    default:
      return g_strdup_printf (_("somewhere new: %u"), n);
    }
}

static void
print_legend (LlmsvcContextMemory *memory,
              gboolean             is_ascii)
{
  guint counts[MAX_BITS + 1][N_PLACES] = { 0 };

  for (guint i = 0; i < llmsvc_context_memory_get_n_chunks (memory); i++)
    counts[MIN (llmsvc_context_memory_get_chunk_bits (memory, i), MAX_BITS)]
          [llmsvc_context_memory_get_chunk_place (memory, i)]++;

  for (guint bits = MAX_BITS + 1; bits-- > 0;)
    for (LlmsvcChunkPlace place = N_PLACES; place-- > 0;)
      {
        g_autofree char *text = describe_sign (bits, place, counts[bits][place]);

        if (counts[bits][place] == 0)
          continue;
        llmctl_output_column (LLMCTL_STYLE_PLAIN, LABEL_COLUMNS, "");
        llmctl_output_text (styles[place], get_sign (bits, place, is_ascii));
        llmctl_output_printf (LLMCTL_STYLE_PLAIN, "  %s\n", text);
      }
}

static void
print_bytes (LlmsvcContextMemory *memory)
{
  LlmctlTable *table =
    llmctl_table_new ((const char *const[]) { "", _("In memory"), _("On storage"), NULL });

  /* the last line has the sums */
  for (gsize i = 0; i <= G_N_ELEMENTS (signs); i++)
    {
      gboolean is_sum = i == G_N_ELEMENTS (signs);
      guint bits = is_sum ? 0 : signs[i].bits;
      guint64 held = is_sum ? llmsvc_context_memory_get_memory_bytes (memory)
                            : llmsvc_context_memory_get_memory_bytes_at (memory, bits);
      guint64 stored = is_sum ? llmsvc_context_memory_get_storage_bytes (memory)
                              : llmsvc_context_memory_get_storage_bytes_at (memory, bits);
      g_autofree char *title = is_sum ? g_strdup (_("in all"))
                                      : g_strdup_printf (_("%u bits"), bits);
      g_autofree char *held_size = llmctl_format_bytes (held);
      g_autofree char *stored_size = llmctl_format_bytes (stored);

      if (is_sum || held > 0 || stored > 0)
        llmctl_table_add (table, (const char *const[]) { title, held_size, stored_size, NULL });
    }
  llmctl_table_print (table);
}

void
llmctl_context_memory_print (LlmsvcContextMemory *memory)
{
  gboolean is_ascii = !g_get_charset (NULL);
  guint n_chunks = llmsvc_context_memory_get_n_chunks (memory);
  guint n_shared = llmsvc_context_memory_get_n_shared_chunks (memory);

  print_bytes (memory);
  if (n_chunks == 0)
    return;

  llmctl_output_printf (LLMCTL_STYLE_BOLD,
                        ngettext ("%u chunk of up to %u tokens\n", "%u chunks of %u tokens\n",
                                  n_chunks),
                        n_chunks, llmsvc_context_memory_get_chunk_tokens (memory));
  print_map (memory, is_ascii);
  print_legend (memory, is_ascii);
  if (n_shared > 0)
    llmctl_output_printf (LLMCTL_STYLE_PLAIN,
                          ngettext ("%u of them is shared with other contexts\n",
                                    "%u of them are shared with other contexts\n", n_shared),
                          n_shared);
}
