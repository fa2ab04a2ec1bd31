/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads chunks (L6): few large requests, the first layers of all chunks before the next ones. Each
 * request reads parts of chunks right into their memory, without a copy; a part that is complete is
 * compared with its checksum, and reported when those of the lower layers were. */

#define G_LOG_DOMAIN "llm-kv"

#include "base/llm-fail.h"
#include "kv/disk/llm-kv-storage-private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/llmsvc-error.h"

#ifdef __SANITIZE_THREAD__
void AnnotateBenignRaceSized (const char *file, int line, const volatile void *memory, gsize size,
                              const char *description);
#endif

/* Reading over a gap of this size costs less than another request. */
#define GAP_BYTES (16 * 1024)

/* A file that is read. */
typedef struct
{
  LlmKvLink *link;       /* (owned) */
  int fd;                /* or -errno: set by a thread of the queue */
} Source;

typedef struct
{
  LlmKvSlot slot;
  guint8 *data;          /* (unowned) */
  guint source;          /* G_MAXUINT for none */
  guint64 there;         /* a bit for each group that is complete */
  guint n_told;          /* groups that were reported */
  gboolean has_failed;
} Target;

/* The part of a target in a group's area. */
typedef struct
{
  guint target;
  guint group;
  guint64 offset;        /* in the file */
  gsize length;
  gsize begin;           /* in the chunk */
  gsize rest;            /* bytes that have not arrived */
} Piece;

typedef struct
{
  LlmKvRead *read;       /* (unowned) */
  guint source;
  guint first_layer;
  guint order;           /* among the requests of the same layer */
  guint64 offset;
  gsize length;
  guint first_piece;     /* of the pieces that it has bytes of */
  guint end_piece;
} Request;

struct _LlmKvRead
{
  LlmKvFolder *folder;   /* (nullable) (unowned): NULL when it is closed, or the read ended */
  LlmKvStorage *storage; /* (unowned) */
  char *id;              /* (owned): of the context */
  LlmKvShape *shape;     /* the owner, requests, and the job that opens the files */
  guint n_holders;       /* the owner, requests, who opens the files */
  Target *targets;       /* (owned) */
  guint n_targets;
  GArray *sources;       /* (element-type Source) (owned) */
  GArray *pieces;        /* (element-type Piece) (owned) */
  GArray *requests;      /* (element-type Request) (owned) */
  guint64 bytes;
  guint8 *gap;           /* (nullable) (owned): gets the bytes of gaps */
  gboolean was_logged;   /* a failure was logged */
  LlmKvArrived arrived;
  gpointer data;
  LlmKvReadEnded ended;
  gpointer ended_data;
};

static void
drop (LlmKvRead *self)
{
  if (--self->n_holders > 0)
    return;
  self->ended (self->ended_data);
  LLM_EACH_IN (Source, source, self->sources)
    {
      /* if the file was removed meanwhile, closing it may free its blocks */
      if (source->fd >= 0)
        llm_kv_cleaner_close (self->storage->cleaner, source->fd);
      llm_kv_link_unref (source->link);
    }
  g_array_unref (self->sources);
  g_array_unref (self->pieces);
  g_array_unref (self->requests);
  g_free (self->targets);
  g_aligned_free (self->gap);
  g_rc_box_release (self->shape);
  g_free (self->id);
  g_free (self);
}

void
llm_kv_folder_read_cancel (LlmKvRead *self)
{
  g_ptr_array_remove_fast (self->folder->reads, self);
  self->folder = NULL;
  llm_disk_cancel (self->storage->disk, self);
  for (guint i = 0; i < self->requests->len; i++)
    llm_disk_cancel (self->storage->disk, &g_array_index (self->requests, Request, i));
}

void
llm_kv_read_free (LlmKvRead *self)
{
  if (self->folder != NULL)
    llm_kv_folder_read_cancel (self);
  drop (self);
}

guint64
llm_kv_read_get_bytes (LlmKvRead *self)
{
  return self->bytes;
}

/* --- telling --- */

static const LlmKvExtent *
get_extent (LlmKvRead    *self,
            const Target *target)
{
  return g_array_index (self->sources, Source, target->source).link->extent;
}

static guint
get_first_layer (LlmKvRead    *self,
                 const Target *target)
{
  return target->source == G_MAXUINT
           ? 0
           : llm_kv_extent_get_first_layer (get_extent (self, target), target->n_told);
}

static void
tell_failure (LlmKvRead  *self,
              guint       number,
              const char *reason)
{
  Target *target = &self->targets[number];
  g_autoptr(GError) error = NULL;

  if (target->has_failed || self->folder == NULL)
    return;
  target->has_failed = TRUE;
  llm_fail (&error, LLMSVC_ERROR_STORAGE,
            "A part of a context can't be read from storage, and is computed again: %s", reason);
  if (!self->was_logged)
    g_message ("%s", error->message);
  self->was_logged = TRUE;
  llm_kv_folder_forget (self->folder, target->slot);
  self->arrived (number, get_first_layer (self, target), self->shape->n_layers, error, self->data);
}

static void
tell_progress (LlmKvRead *self,
               guint      number)
{
  Target *target = &self->targets[number];
  guint first_layer, end;

  if (target->has_failed || self->folder == NULL)
    return;
  first_layer = get_first_layer (self, target);
  end = target->n_told;
  while (end < get_extent (self, target)->n_groups &&
         (target->there & G_GUINT64_CONSTANT (1) << end) != 0)
    end++;
  if (end == target->n_told)
    return;
  target->n_told = end;
  self->arrived (number, first_layer, get_extent (self, target)->group_ends[end - 1], NULL,
                 self->data);
}

static void
end_piece (LlmKvRead   *self,
           const Piece *piece)
{
  Target *target = &self->targets[piece->target];
  const LlmKvExtent *extent = get_extent (self, target);
  guint64 checksum = llm_kv_extent_compute_checksum (extent, target->slot.index, piece->group,
                                                     target->data + piece->begin, piece->length);

  if (checksum != extent->checksums[(gsize) target->slot.index * extent->n_groups + piece->group])
    {
      tell_failure (self, piece->target, "It is damaged");
      return;
    }
  target->there |= G_GUINT64_CONSTANT (1) << piece->group;
  tell_progress (self, piece->target);
}

static void
take_piece (LlmKvRead     *self,
            Piece         *piece,
            const Request *request,
            gssize         n)
{
  guint64 begin = MAX (piece->offset, request->offset);
  guint64 end = MIN (piece->offset + piece->length, request->offset + request->length);

  if (self->targets[piece->target].has_failed)
    return;
  if (n < 0)
    tell_failure (self, piece->target, g_strerror ((int) -n));
  else if (end > request->offset + (guint64) n)
    tell_failure (self, piece->target, "The file is too short");
  else
    {
      piece->rest -= end - begin;
      if (piece->rest == 0)
        end_piece (self, piece);
    }
}

static void
on_read (gssize        n,
         const guint8 *buffer,
         gpointer      data)
{
  const Request *request = data;
  LlmKvRead *self = request->read;

  /* Every callback may end the read. */
  for (guint i = request->first_piece; i < request->end_piece && self->folder != NULL; i++)
    take_piece (self, &g_array_index (self->pieces, Piece, i), request, n);
  drop (self);
}

/* On a thread of the queue: the owner's thread must not wait for a slow disk. */
static gssize
open_sources (gpointer data)
{
  LlmKvRead *self = data;
  int folder = llm_kv_folder_open_id (self->storage->fd, self->id);

  LLM_EACH_IN (Source, source, self->sources)
    {
      char name[LLM_KV_NAME_BYTES];

      llm_kv_extent_name (source->link->number, LLM_KV_EXTENT_SUFFIX, name);
      source->fd = folder < 0 ? folder
                              : llm_disk_open (self->storage->disk, folder, name,
                                               O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    }
  if (folder >= 0)
    {
      llm_kv_folder_touch_fd (folder);
      close (folder);
    }
  return 0;
}

/* Fills in where the bytes of @request go: parts of chunks, and gaps between them. Returns how
 * many. */
static guint
get_parts (LlmKvRead     *self,
           const Request *request,
           struct iovec   parts[LLM_DISK_MAX_PARTS])
{
  guint64 at = request->offset;
  guint n = 0;

  for (guint i = request->first_piece; i < request->end_piece; i++)
    {
      const Piece *piece = &g_array_index (self->pieces, Piece, i);
      guint64 end = MIN (piece->offset + piece->length, request->offset + request->length);

      if (piece->offset > at)
        parts[n++] = (struct iovec) { self->gap, piece->offset - at };
      at = MAX (at, piece->offset);
      parts[n++] = (struct iovec) {
        self->targets[piece->target].data + piece->begin + (at - piece->offset), end - at
      };
      at = end;
    }
  return n;
}

/* Submits the requests; and reports what is known without them: chunks that are gone, and layers
 * without bytes. */
static void
on_opened (gssize        n,
           const guint8 *buffer,
           gpointer      data)
{
  LlmKvRead *self = data;

  for (guint i = 0; i < self->requests->len && self->folder != NULL; i++)
    {
      const Request *request = &g_array_index (self->requests, Request, i);
      int fd = g_array_index (self->sources, Source, request->source).fd;
      struct iovec parts[LLM_DISK_MAX_PARTS];

      if (fd < 0)
        continue;
      self->n_holders++;
      llm_disk_read_parts (self->storage->disk, LLM_DISK_RESTORE, fd, request->offset, parts,
                           get_parts (self, request, parts), on_read, (gpointer) request);
    }
  for (guint i = 0; i < self->n_targets && self->folder != NULL; i++)
    {
      const Target *target = &self->targets[i];
      int fd = target->source == G_MAXUINT
                 ? -ENOENT
                 : g_array_index (self->sources, Source, target->source).fd;

      if (fd < 0)
        tell_failure (self, i, g_strerror (-fd));
      else
        tell_progress (self, i);
    }
  drop (self);
}

/* --- asking --- */

static int
compare_slots (gconstpointer a,
               gconstpointer b,
               gpointer      data)
{
  const Target *targets = data;
  const LlmKvSlot *x = &targets[*(const guint *) a].slot;
  const LlmKvSlot *y = &targets[*(const guint *) b].slot;

  if (x->extent != y->extent)
    return x->extent < y->extent ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

static int
compare_requests (gconstpointer a,
                  gconstpointer b)
{
  const Request *x = a;
  const Request *y = b;

  if (x->first_layer != y->first_layer)
    return x->first_layer < y->first_layer ? -1 : 1;
  return (x->order > y->order) - (x->order < y->order);
}

/* The request for the pieces from @first on that begins at @at, or in the gap before the next
 * one. */
static Request
make_request (LlmKvRead *self,
              guint64    at,
              guint      first,
              guint      end)
{
  const Piece *pieces = (const Piece *) self->pieces->data;
  guint64 most = at / LLM_DISK_BLOCK * LLM_DISK_BLOCK + LLM_DISK_MAX_BYTES;
  Request request = { .read = self, .order = self->requests->len, .offset = at,
                      .first_piece = first, .end_piece = first };
  guint64 stop = at;

  /* each may have a gap before it */
  while (request.end_piece < end && pieces[request.end_piece].offset < most
         && request.end_piece - first < LLM_DISK_MAX_PARTS / 2)
    {
      stop = pieces[request.end_piece].offset + pieces[request.end_piece].length;
      request.end_piece++;
    }
  request.length = (gsize) (MIN (stop, most) - at);
  return request;
}

/* Adds requests for the pieces [@first, @end), which are in one area, in order. */
static void
add_requests (LlmKvRead *self,
              guint      source,
              guint      first_layer,
              guint      first,
              guint      end)
{
  const Piece *pieces = (const Piece *) self->pieces->data;
  guint64 at = pieces[first].offset;

  while (first < end)
    {
      Request request = make_request (self, at, first, end);

      request.source = source;
      request.first_layer = first_layer;
      at += request.length;
      self->bytes += request.length;
      g_array_append_val (self->requests, request);
      while (first < end && pieces[first].offset + pieces[first].length <= at)
        first++;
      if (first < end)
        at = MAX (at, pieces[first].offset);
    }
}

/* Memory for the bytes of gaps, which all requests overwrite at the same time and no code reads. */
static void
make_gap (LlmKvRead *self)
{
  if (self->gap != NULL)
    return;

  self->gap = g_aligned_alloc (1, GAP_BYTES, LLM_DISK_BLOCK);
#ifdef __SANITIZE_THREAD__
  AnnotateBenignRaceSized (__FILE__, __LINE__, self->gap, GAP_BYTES, "what is read over");
#endif
}

/* Adds the pieces of the targets @order[0 … n) in a group of their extent. */
static void
add_group (LlmKvRead   *self,
           guint        source,
           guint        group,
           const guint *order,
           guint        n)
{
  const LlmKvExtent *extent = g_array_index (self->sources, Source, source).link->extent;
  guint first_layer = llm_kv_extent_get_first_layer (extent, group);
  guint64 at = extent->group_offsets[group];
  guint first = self->pieces->len;
  guint64 end = 0;
  guint chunk = 0;

  for (guint i = 0; i < n; i++)
    {
      Target *target = &self->targets[order[i]];
      Piece piece = { .target = order[i], .group = group };

      for (; chunk < target->slot.index; chunk++)
        at += llm_kv_extent_get_part (extent, self->shape, chunk, group, NULL);
      piece.offset = at;
      piece.length = piece.rest = llm_kv_extent_get_part (extent, self->shape, chunk, group,
                                                          &piece.begin);
      if (piece.length == 0)
        {
          target->there |= G_GUINT64_CONSTANT (1) << group;
          continue;
        }
      if (self->pieces->len > first && at > end + GAP_BYTES)
        {
          add_requests (self, source, first_layer, first, self->pieces->len);
          first = self->pieces->len;
        }
      if (self->pieces->len > first && at > end)
        make_gap (self);
      end = at + piece.length;
      g_array_append_val (self->pieces, piece);
    }
  if (self->pieces->len > first)
    add_requests (self, source, first_layer, first, self->pieces->len);
}

static gboolean
is_there (LlmKvFolder     *folder,
          const LlmKvSlot *slot)
{
  const LlmKvLink *link = llm_kv_folder_find_link (folder, slot->extent);

  return link != NULL && link->extent != NULL && slot->index < link->extent->n_chunks
         && !link->dead[slot->index];
}

/* Adds the file of the targets @order[0 … n), which are of one extent. */
static void
add_source (LlmKvRead   *self,
            const guint *order,
            guint        n)
{
  guint64 number = self->targets[order[0]].slot.extent;
  LlmKvLink *link = llm_kv_folder_find_link (self->folder, number);
  Source source = { .link = g_rc_box_acquire (link), .fd = -ECANCELED };

  for (guint i = 0; i < n; i++)
    self->targets[order[i]].source = self->sources->len;
  g_array_append_val (self->sources, source);
  for (guint i = 0; i < link->extent->n_groups; i++)
    add_group (self, self->sources->len - 1, i, order, n);
}

/* Makes requests from the targets. */
static void
plan (LlmKvRead *self)
{
  g_autofree guint *order = g_new (guint, self->n_targets);
  guint n = 0;

  for (guint i = 0; i < self->n_targets; i++)
    if (is_there (self->folder, &self->targets[i].slot))
      order[n++] = i;
  g_qsort_with_data (order, (int) n, sizeof *order, compare_slots, self->targets);
  for (guint first = 0, end; first < n; first = end)
    {
      guint64 number = self->targets[order[first]].slot.extent;

      for (end = first + 1; end < n && self->targets[order[end]].slot.extent == number; end++)
        ;
      add_source (self, order + first, end - first);
    }
  g_array_sort (self->requests, compare_requests);
  llm_kv_folder_touch (self->folder);
}

LlmKvRead *
llm_kv_folder_read (LlmKvFolder       *self,
                    const LlmKvTarget *targets,
                    guint              n,
                    LlmKvArrived       arrived,
                    gpointer           data,
                    LlmKvReadEnded     ended,
                    gpointer           ended_data)
{
  LlmKvRead *read = g_new0 (LlmKvRead, 1);

  read->folder = self;
  read->storage = self->storage;
  read->id = g_strdup (self->id);
  read->shape = g_rc_box_acquire (self->shape);
  read->targets = g_new0 (Target, n);
  read->n_targets = n;
  read->sources = g_array_new (FALSE, FALSE, sizeof (Source));
  read->pieces = g_array_new (FALSE, FALSE, sizeof (Piece));
  read->requests = g_array_new (FALSE, FALSE, sizeof (Request));
  read->arrived = arrived;
  read->data = data;
  read->ended = ended;
  read->ended_data = ended_data;
  for (guint i = 0; i < n; i++)
    {
      read->targets[i].slot = targets[i].slot;
      read->targets[i].data = targets[i].data;
      read->targets[i].source = G_MAXUINT;
    }
  g_ptr_array_add (self->reads, read);
  plan (read);

  read->n_holders = 2;
  llm_disk_run (read->storage->disk, LLM_DISK_RESTORE, open_sources, on_opened, read);
  return read;
}
