/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a recognised template writes around each message; for llm-template*.c only. */

#pragma once

#include "model/template/llm-template.h"

/* Stand for the texts of the model's BOS and EOS within the strings below. */
#define LLM_TEMPLATE_BOS "\x01"
#define LLM_TEMPLATE_EOS "\x02"

typedef struct
{
  const char *before;   /* NULL: there is no such role */
  const char *after;
} LlmTemplateRole;

typedef struct
{
  const char *name;

  LlmTemplateRole system;       /* without it, its text becomes part of the next user message: */
  const char *before_merged;
  const char *after_merged;
  LlmTemplateRole first_system; /* at the very start, if it differs */
  LlmTemplateRole user;
  LlmTemplateRole tool;
  const char *between_tools;    /* instead of what surrounds them; NULL: nothing special */
  LlmTemplateRole answer;       /* of the assistant; its .after is what the model itself says */

  const char *opener;           /* what makes the model answer */
  const char *behind_answer;    /* between an answer and what follows */
  const char *behind_message;   /* the same for other messages */

  gboolean trims_all;           /* spaces around texts go away; in a user message */
  gboolean trims_merged;        /* that begins with the system's: those at its end */
  gboolean trims_answers;
  gboolean alternates;          /* user and assistant must take turns */
  gboolean has_default_system;  /* where none is given at the start; its text may be empty */
  char *default_system;         /* (owned) (nullable) */
} LlmTemplateShape;

/* Finds out what @source is. FALSE if it is unknown. */
gboolean llm_template_recognise   (const char       *source,
                                   LlmTemplateShape *shape);
/* (transfer full): the names of the known ones with commas between them. */
char    *llm_template_list_names  (void);
