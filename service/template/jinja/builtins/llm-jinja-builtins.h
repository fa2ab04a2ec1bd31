/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Filters, methods and functions: one row each, with the places where it is known. A row names its
 * parameters, so that arguments are checked in one place. */

#pragma once

#include "template/jinja/llm-jinja-private.h"

#define LLM_JINJA_MAX_PARAMETERS 4

typedef enum
{
  LLM_JINJA_IS_FILTER = 1 << 0,
  LLM_JINJA_OF_STRING = 1 << 1,     /* a method, as the next one */
  LLM_JINJA_OF_DICT = 1 << 2,
  LLM_JINJA_AS_TEXT = 1 << 3,       /* other subjects are made text first */
  LLM_JINJA_KEEPS_HTML = 1 << 4,    /* of a safe text it makes a safe one */
  LLM_JINJA_TAKES_ALL = 1 << 5,     /* reads its arguments itself */
  LLM_JINJA_OF_LIST = 1 << 6,
} LlmJinjaPlaces;

typedef enum
{
  LLM_JINJA_TAKE_ANY,               /* undefined where it is left out */
  LLM_JINJA_TAKE_VALUE,             /* must be given */
  LLM_JINJA_TAKE_TEXT,              /* must be given */
  LLM_JINJA_TAKE_TEXT_OR_NONE,      /* none where it is left out */
  LLM_JINJA_TAKE_INT,               /* the fallback where it is left out, or none */
  LLM_JINJA_TAKE_NEEDED_INT,
} LlmJinjaTake;

typedef struct
{
  const char *name;                 /* (nullable): the row has no more */
  LlmJinjaTake take;
  gint64 fallback;
} LlmJinjaParameter;

typedef struct
{
  const LlmJinjaBuiltin *builtin;
  LlmJinjaValue subject;
  const LlmJinjaArgs *args;
  LlmJinjaValue arg[LLM_JINJA_MAX_PARAMETERS];
} LlmJinjaCall;

struct _LlmJinjaBuiltin
{
  const char *name;
  guint8 places;                    /* LlmJinjaPlaces */
  LlmJinjaValue (*run) (LlmJinja *self, LlmJinjaCall *call);
  guint8 way;                       /* tells apart what shares a function */
  LlmJinjaParameter parameters[LLM_JINJA_MAX_PARAMETERS];
};

/* The last row has no name. */
extern const LlmJinjaBuiltin llm_jinja_builtins_of_lists[];
extern const LlmJinjaBuiltin llm_jinja_builtins_of_text[];
extern const LlmJinjaBuiltin llm_jinja_builtins_of_values[];

typedef enum
{
  LLM_JINJA_CASE_LOWER,
  LLM_JINJA_CASE_UPPER,
  LLM_JINJA_CASE_CAPITAL,           /* the first character is upper case, others lower */
  LLM_JINJA_CASE_WORDS,             /* str.title() */
  LLM_JINJA_CASE_TITLE,             /* the filter “title” */
} LlmJinjaCase;

LlmJinjaValue llm_jinja_change_case (LlmJinja             *self,
                                     const LlmJinjaString *string,
                                     LlmJinjaCase          way);
/* str.format() with fields by position or name. */
LlmJinjaValue llm_jinja_format      (LlmJinja             *self,
                                     LlmJinjaCall         *call);
