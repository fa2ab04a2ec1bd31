/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What “llmctl doctor” looks at, and what it finds. It believes nothing that it is told, waits
 * for nobody for more than seconds, and changes nothing. Main thread.
 */

#pragma once

#include "llmctl/llmctl.h"

G_BEGIN_DECLS

typedef enum
{
  LLMCTL_DOCTOR_OK,
  LLMCTL_DOCTOR_NOTE,   /* neither good nor bad */
  LLMCTL_DOCTOR_WARN,   /* it works, but could be better, or will not work for long */
  LLMCTL_DOCTOR_FAIL,   /* it does not work */
} LlmctlDoctorLevel;

typedef struct
{
  LlmctlDoctorLevel level;
  const char *check;    /* one word, also in JSON: "model" */
  char *text;           /* what is so */
  char *hint;           /* (nullable): what to do */
} LlmctlFinding;

typedef struct
{
  GPtrArray *findings;         /* (element-type LlmctlFinding) (owned) */
  const char *root;            /* of the file system: "" but in tests */

  /* filled in by the checks of the bus and the service */
  GBusType bus_type;           /* where the service is or would be started; NONE: nowhere */
  GDBusConnection *bus;        /* (nullable) (owned) */
  gboolean is_running;
  guint32 pid;                 /* 0: not known */
  GVariant *service;           /* (nullable): a{sv} of the properties; NULL: it does not answer */
  GVariant *memory;            /* (nullable): the same */
  GVariant *model;             /* (nullable): of the model in use */
} LlmctlDoctor;

LlmctlDoctor *llmctl_doctor_new   (void);
void          llmctl_doctor_free  (LlmctlDoctor      *self);

/* One finding; @hint: (nullable). */
G_GNUC_PRINTF (5, 6)
void          llmctl_doctor_add   (LlmctlDoctor      *self,
                                   const char        *check,
                                   LlmctlDoctorLevel  level,
                                   const char        *hint,
                                   const char        *format,
                                   ...);
LlmctlDoctorLevel llmctl_doctor_get_worst (LlmctlDoctor *self);
/* "ok", "note", "warn" or "fail". */
const char   *llmctl_doctor_level_to_string (LlmctlDoctorLevel level);

/* (transfer full) (nullable): the reply, of @reply_type, within seconds and without starting
 * anything. */
GVariant     *llmctl_doctor_call  (GDBusConnection   *bus,
                                   const char        *name,
                                   const char        *path,
                                   const char        *interface,
                                   const char        *method,
                                   GVariant          *arguments,
                                   const char        *reply_type,
                                   GError           **error);
/* (transfer full) (nullable): a file below the root, at most @max_bytes of it; without the
 * space at its end. */
char         *llmctl_doctor_read  (LlmctlDoctor      *self,
                                   const char        *path,
                                   gsize              max_bytes);

/* The checks, in this order: llmctl-doctor-bus.c, */
void          llmctl_doctor_check_buses     (LlmctlDoctor *self);
/* -unit.c, */
void          llmctl_doctor_check_unit      (LlmctlDoctor *self);
/* -service.c: what it says of itself, and of its use, */
void          llmctl_doctor_check_service   (LlmctlDoctor *self);
void          llmctl_doctor_check_use       (LlmctlDoctor *self);
/* -model.c, */
void          llmctl_doctor_check_models    (LlmctlDoctor *self);
/* -machine.c: the kernel, and the disk, */
void          llmctl_doctor_check_kernel    (LlmctlDoctor *self);
void          llmctl_doctor_check_disk      (LlmctlDoctor *self);
/* -user.c: who asks. */
void          llmctl_doctor_check_user      (LlmctlDoctor *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmctlDoctor, llmctl_doctor_free)

G_END_DECLS
