/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/llm-kv-arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/llm-each.h"

#define LINE ((gsize) 64)
#define HUGE_PAGE ((gsize) 2 << 20)
/* Address space of a block, unless a single chunk takes more. */
#define BLOCK_BYTES ((gsize) 32 << 20)

static gsize
round_up (gsize bytes,
          gsize unit)
{
  return (bytes + unit - 1) / unit * unit;
}

static gsize
get_page (void)
{
  return (gsize) sysconf (_SC_PAGESIZE);
}

void
llm_kv_arena_init (LlmKvArena *self,
                   gsize       chunk_bytes)
{
  self->bytes = round_up (chunk_bytes, LINE);
  self->block_chunks = (guint) CLAMP (BLOCK_BYTES / MAX (self->bytes, 1), 1, LLM_KV_BLOCK_CHUNKS);
  self->alignment = self->block_chunks * self->bytes >= HUGE_PAGE ? HUGE_PAGE : get_page ();
  self->block_bytes = round_up (self->block_chunks * self->bytes, self->alignment);
  self->blocks = g_ptr_array_new_with_free_func (g_free);
}

void
llm_kv_arena_clear (LlmKvArena *self)
{
  g_assert (self->blocks == NULL || self->blocks->len == 0);
  g_clear_pointer (&self->blocks, g_ptr_array_unref);
}

/* Unwritten memory takes no pages, and a core dump leaves out what users wrote. */
static LlmKvBlock *
add_block (LlmKvArena *self)
{
  gsize bytes = self->block_bytes + self->alignment;
  guint8 *mapped = mmap (NULL, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  LlmKvBlock *block;
  gsize before;

  if (mapped == MAP_FAILED)
    return NULL;

  before = (self->alignment - (guintptr) mapped % self->alignment) % self->alignment;
  if (before > 0)
    munmap (mapped, before);
  munmap (mapped + before + self->block_bytes, self->alignment - before);

  block = g_new0 (LlmKvBlock, 1);
  block->data = mapped + before;
  (void) madvise (block->data, self->block_bytes, MADV_DONTDUMP);
  if (self->alignment == HUGE_PAGE)
    (void) madvise (block->data, self->block_bytes, MADV_HUGEPAGE);
  g_ptr_array_add (self->blocks, block);
  return block;
}

static LlmKvBlock *
find_block (LlmKvArena *self)
{
  guint64 full = G_MAXUINT64 >> (LLM_KV_BLOCK_CHUNKS - self->block_chunks);

  LLM_EACH (LlmKvBlock, block, self->blocks)
    if (block->spare != 0)
      return block;
  LLM_EACH (LlmKvBlock, block, self->blocks)
    if (block->used != full)
      return block;

  return add_block (self);
}

gboolean
llm_kv_arena_has_spare (const LlmKvArena *self)
{
  LLM_EACH (const LlmKvBlock, block, self->blocks)
    if (block->spare != 0)
      return TRUE;

  return FALSE;
}

guint8 *
llm_kv_arena_take (LlmKvArena *self)
{
  LlmKvBlock *found;
  guint place;

  g_return_val_if_fail (self->bytes > 0, NULL);

  found = find_block (self);
  if (found == NULL)
    return NULL;

  place = (guint) __builtin_ctzll (found->spare != 0 ? found->spare : ~found->used);
  found->used |= G_GUINT64_CONSTANT (1) << place;
  found->spare &= ~found->used;
  return found->data + place * self->bytes;
}

/* Whether one of the chunks in [@start, @end) of the block is in use. */
static gboolean
is_used (LlmKvArena *self,
         LlmKvBlock *block,
         gsize       start,
         gsize       end)
{
  for (gsize place = start / self->bytes; place < self->block_chunks && place * self->bytes < end;
       place++)
    if ((block->used >> place & 1) != 0)
      return TRUE;

  return FALSE;
}

/* The pages at both ends are released too, unless a neighbour uses them. */
static void
give_pages (LlmKvArena *self,
            LlmKvBlock *block,
            gsize       start,
            gsize       end)
{
  gsize page = get_page ();
  gsize first = start / page * page;
  gsize last = round_up (end, page);

  if (is_used (self, block, first, start))
    first += page;
  if (last > first && is_used (self, block, end, last))
    last -= page;
  /* The kernel splits their huge page. */
  if (last > first)
    (void) madvise (block->data + first, last - first, MADV_DONTNEED);
}

static void
unmap (LlmKvArena *self,
       LlmKvBlock *block)
{
  munmap (block->data, self->block_bytes);
  g_ptr_array_remove_fast (self->blocks, block);
}

void
llm_kv_arena_give (LlmKvArena *self,
                   guint8     *data,
                   gboolean    keeps)
{
  LlmKvBlock *block = NULL;
  guint64 bit;
  gsize start;

  LLM_EACH (LlmKvBlock, one, self->blocks)
    if (data >= one->data && data < one->data + self->block_bytes)
      block = one;
  g_assert (block != NULL);

  start = (gsize) (data - block->data);
  bit = G_GUINT64_CONSTANT (1) << (start / self->bytes);
  block->used &= ~bit;
  if (keeps)
    block->spare |= bit;
  else if ((block->used | block->spare) != 0)
    give_pages (self, block, start, start + self->bytes);
  else
    unmap (self, block);
}

void
llm_kv_arena_trim (LlmKvArena *self)
{
  for (guint i = self->blocks != NULL ? self->blocks->len : 0; i-- > 0;)
    {
      LlmKvBlock *block = g_ptr_array_index (self->blocks, i);
      guint64 spare = block->spare;

      block->spare = 0;
      if (spare != 0 && block->used == 0)
        {
          unmap (self, block);
          continue;
        }
      /* neighbours in one call: releasing whole huge pages is cheap, parts of one are not */
      while (spare != 0)
        {
          guint first = (guint) __builtin_ctzll (spare);
          guint n = (guint) __builtin_ctzll (~(spare >> first));

          give_pages (self, block, first * self->bytes, (first + n) * self->bytes);
          spare &= ~(((G_GUINT64_CONSTANT (1) << n) - 1) << first);
        }
    }
}
