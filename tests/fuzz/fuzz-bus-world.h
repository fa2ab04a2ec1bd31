/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a caller of the service can find by asking it: which kinds of objects there are, the
 * methods of each with their arguments, all from introspection, and the paths of objects that
 * were met. Calls wait for their replies. One thread.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef enum
{
  FUZZ_BUS_MANAGER,
  FUZZ_BUS_MODELS,
  FUZZ_BUS_MODEL,
  FUZZ_BUS_CONTEXTS,
  FUZZ_BUS_CONTEXT,
  FUZZ_BUS_GENERATIONS,
  FUZZ_BUS_GENERATION,
  FUZZ_BUS_N_KINDS
} FuzzBusKind;

typedef struct
{
  char *interface;
  char *name;
  GPtrArray *in;       /* (element-type utf8) (owned): the arguments' signatures */
  char *out;           /* the reply's type, a tuple */
} FuzzBusMethod;

typedef struct
{
  GPtrArray *methods[FUZZ_BUS_N_KINDS];  /* (element-type FuzzBusMethod) (owned) */
  GPtrArray *paths[FUZZ_BUS_N_KINDS];    /* (element-type utf8) (owned) */
  GPtrArray *properties;                 /* (element-type utf8) (owned): names, of all kinds */
  GPtrArray *interfaces;                 /* (element-type utf8) (owned): likewise */
} FuzzBusWorld;

/* Asks the service on @connection; makes a context and an answer to see theirs, too. */
FuzzBusWorld *fuzz_bus_world_new      (GDBusConnection *connection,
                                       GError         **error);
void          fuzz_bus_world_free     (FuzzBusWorld    *self);
/* An object was met; the one met first of too many is forgotten. */
void          fuzz_bus_world_add_path (FuzzBusWorld    *self,
                                       const char      *path);
/* An object is not there any more. */
void          fuzz_bus_world_drop_path (FuzzBusWorld   *self,
                                       const char      *path);
/* Nothing is known any more of contexts and answers. */
void          fuzz_bus_world_forget   (FuzzBusWorld    *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (FuzzBusWorld, fuzz_bus_world_free)

G_END_DECLS
