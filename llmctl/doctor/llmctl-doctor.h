/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What “llmctl doctor” looks at, and what it finds. It believes nothing that it is told, waits
 * for nobody for more than seconds, and changes nothing. Main thread.
 */

#pragma once

#include "llmctl/bus/llmctl-service.h"

G_BEGIN_DECLS

#define LLMCTL_BUS_NAME "org.freedesktop.DBus"
#define LLMCTL_BUS_PATH "/org/freedesktop/DBus"

typedef enum
{
  LLMCTL_DOCTOR_OK,
  LLMCTL_DOCTOR_NOTE,   /* neither good nor bad */
  LLMCTL_DOCTOR_WARN,   /* it works, but could be better, or will not work for long */
  LLMCTL_DOCTOR_FAIL,   /* it does not work */
} LlmctlDoctorLevel;

/* The words for them in JSON and for people. */
extern const char *const llmctl_doctor_levels[];

typedef struct
{
  /* (element-type GVariant) (owned): an a{sv} as it is in JSON: "check", one word; "level"; "text",
   * what is so; and perhaps "hint", what to do */
  GPtrArray *findings;
  LlmctlDoctorLevel worst;     /* of them */
  const char *check;           /* the one that runs */
  const char *root;            /* of the file system: "" but in tests */
  gboolean shall_start;

  /* filled in by the checks of the bus and the service */
  GBusType bus_type;           /* where the service is or would be started; NONE: nowhere */
  GDBusConnection *bus;        /* (nullable) (owned) */
  gboolean is_running;
  guint32 pid;                 /* 0: not known */
  GVariant *service;           /* (nullable): a{sv} of the properties; NULL: it does not answer */
  GVariant *memory;            /* (nullable): the same */
  GVariant *statistics;        /* (nullable): the same */
  GVariant *model;             /* (nullable): of the model in use */

  double memory_speed;         /* in bytes for each second; 0: not measured */
} LlmctlDoctor;

typedef struct
{
  const char *name;            /* as in a finding; NULL ends a table */
  void (*run) (LlmctlDoctor *self);
} LlmctlCheck;

/* In the order in which they depend on each other: of the buses and the unit, of the service, of the
 * machine and who asks, and of the endpoint for OpenAI's HTTP. */
extern const LlmctlCheck llmctl_doctor_bus_checks[];
extern const LlmctlCheck llmctl_doctor_service_checks[];
extern const LlmctlCheck llmctl_doctor_machine_checks[];
extern const LlmctlCheck llmctl_doctor_http_checks[];

void          llmctl_doctor_init  (LlmctlDoctor      *self);
void          llmctl_doctor_clear (LlmctlDoctor      *self);

/* One finding of the check that runs; @hint: (nullable). */
G_GNUC_PRINTF (4, 5)
void          llmctl_doctor_add   (LlmctlDoctor      *self,
                                   LlmctlDoctorLevel  level,
                                   const char        *hint,
                                   const char        *format,
                                   ...);

#define tell_ok(self, ...)   llmctl_doctor_add (self, LLMCTL_DOCTOR_OK, NULL, __VA_ARGS__)
#define tell_note(self, ...) llmctl_doctor_add (self, LLMCTL_DOCTOR_NOTE, NULL, __VA_ARGS__)
/* with a hint before the text */
#define tell_warn(self, ...) llmctl_doctor_add (self, LLMCTL_DOCTOR_WARN, __VA_ARGS__)
#define tell_fail(self, ...) llmctl_doctor_add (self, LLMCTL_DOCTOR_FAIL, __VA_ARGS__)

/* A service that is well answers such calls within milliseconds, whatever it computes. */
#define LLMCTL_DOCTOR_LIMIT_MS 3000

/* (transfer full) (nullable): the one value, of type @type, that "interface.Method" replies within
 * seconds, without anything being started. */
#define llmctl_doctor_call(bus, name, path, method, arguments, type)                               \
  llmctl_service_ask (bus, name, path, method, arguments, type, LLMCTL_DOCTOR_LIMIT_MS, NULL, NULL)
/* (transfer full) (nullable): all properties of one interface, a{sv}, read the same way. */
#define llmctl_doctor_get_all(bus, name, path, interface, error)                                   \
  llmctl_service_ask (bus, name, path, "org.freedesktop.DBus.Properties.GetAll",                   \
                      g_variant_new ("(s)", interface), "a{sv}", LLMCTL_DOCTOR_LIMIT_MS, NULL, error)
/* Whether @method of the bus, ListNames or ListActivatableNames, has @name in its list. */
gboolean      llmctl_doctor_bus_lists (GDBusConnection *bus,
                                       const char      *method,
                                       const char      *name);
/* (transfer full) (nullable): a file of the kernel, below the root; without the space at its end. */
char         *llmctl_doctor_read  (LlmctlDoctor      *self,
                                   const char        *path);

/* Of /proc/meminfo, in bytes; 0 when it is not there. @key: with its colon. */
guint64       llmctl_doctor_read_meminfo (LlmctlDoctor *self,
                                          const char   *key);
/* (transfer full): where the service keeps its state, or its cache. */
char         *llmctl_doctor_make_path (LlmctlDoctor  *self,
                                       gboolean       is_cache);

/* The check "speed". */
void          llmctl_doctor_check_speed (LlmctlDoctor *self);
/* What all processors together read of memory in a second, in bytes: an answer's token reads every
 * weight once. Measured at the first call, in a fifth of a second; 0 where memory is short. */
double        llmctl_doctor_get_memory_speed (LlmctlDoctor *self);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (LlmctlDoctor, llmctl_doctor_clear)

G_END_DECLS
