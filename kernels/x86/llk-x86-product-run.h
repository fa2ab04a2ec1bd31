/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Runs of a panel times up to eight rows, by instructions that multiply four
 * bytes of each lane; llk-x86-product.h, which is included before, says which runs.
 * The type and the number of rows are constants of each instance.
 */

#pragma once

/* Adds to the sums of @n_rows rows what run @run of the row gives. */
INLINE void
add_run (LlkType     type,
         size_t      n_rows,
         const Run  *w,
         const Rows *rows,
         size_t      run,
         Floats      sums[MAX_ROWS])
{
  const Term term = get_term (type);
  const size_t n_parts = has_half_scales (type) ? 2 : 1;

  UNROLL_ROWS
  for (size_t r = 0; r < n_rows; r++)
    {
      const uint8_t *row = rows->rows + r * rows->row_bytes;
      const int8_t *x = (const int8_t *) row + 32 * run;
      const float *scales = (const float *) (const void *) (row + rows->scales);
      Floats scale = splat_float (scales[run]);

#pragma GCC unroll 2
      for (size_t part = 0; part < n_parts; part++)
        {
          const size_t n_groups = 8 / n_parts;
          const size_t place = r * rows->n_terms + n_parts * run + part;
          Ints dot = splat_int (0);

          if (term == TERM_ZERO_POINT || term == TERM_ZERO_POINT_HALF)
            dot = splat_int (rows->terms.zero_points[place]);
          dot = dot_groups (dot, w->w + part * n_groups, n_groups, get_largest (type),
                            x + 4 * part * n_groups);
          sums[r] = multiply_add (floats_of_ints (dot), multiply (w->scale[part], scale),
                                  sums[r]);
        }
      if (term == TERM_MIN || term == TERM_MIN_HALF)
        {
#pragma GCC unroll 2
          for (size_t part = 0; part < n_parts; part++)
            sums[r] = multiply_add (
              w->min[part],
              splat_float (rows->terms.minima[r * rows->n_terms + n_parts * run + part]),
              sums[r]);
        }
    }
}

/* @n_blocks blocks of the section at @section, whose first run is @run; what
 * lies @ahead of it likewise is fetched. */
INLINE void
add_section (LlkType        type,
             size_t         n_rows,
             const uint8_t *section,
             size_t         n_blocks,
             const uint8_t *ahead,
             const Rows    *rows,
             size_t         run,
             Sums          *sums)
{
  const LlkPanelShape shape = llk_panel_shape (type);
  size_t offset = shape.header;

  fetch (ahead, shape.header);
  for (size_t b = 0; b < n_blocks; b++)
    {
      const uint8_t *block = section + offset;
      BlockScales block_scales[N_PARTS];

#pragma GCC unroll 2
      for (size_t part = 0; part < N_PARTS; part++)
        block_scales[part] = load_block_scales (type, section, b, N_LANES * part);
      fetch (ahead + offset, shape.scales);
      offset += shape.scales;

      for (size_t j = 0; j < shape.block / 32; j++, run++)
        {
          fetch (ahead + offset, shape.integers);
          UNROLL_PARTS
          for (size_t part = 0; part < N_PARTS; part++)
            {
              Run w;

              load_scales (type, block_scales[part], block, j, N_LANES * part, &w);
              unpack_integers (type, section + offset + 4 * N_LANES * part, w.w);
              add_run (type, n_rows, &w, rows, run, sums->of[part]);
            }
          offset += shape.integers;
        }
    }
}

/* Runs [@run, @last) of one panel, from the beginning of a section. */
INLINE void
add_sections (LlkType        type,
              size_t         n_rows,
              const uint8_t *section,
              const uint8_t *ahead,
              const Rows    *rows,
              size_t         run,
              size_t         last,
              Sums          *sums)
{
  const LlkPanelShape shape = llk_panel_shape (type);
  const size_t section_bytes = llk_panel_header_offset (shape, shape.n_in_section);
  const size_t n_runs = shape.block / 32;
  Sums local;

#pragma GCC unroll 2
  for (size_t part = 0; part < N_PARTS; part++)
    UNROLL_ROWS
    for (size_t r = 0; r < n_rows; r++)
      local.of[part][r] = sums->of[part][r];

  for (; run < last; run += n_runs * shape.n_in_section)
    {
      const size_t n_left = (last - run) / n_runs;

      add_section (type, n_rows, section, n_left < shape.n_in_section ? n_left : shape.n_in_section,
                   ahead, rows, run, &local);
      section += section_bytes;
      ahead += section_bytes;
    }

#pragma GCC unroll 2
  for (size_t part = 0; part < N_PARTS; part++)
    UNROLL_ROWS
    for (size_t r = 0; r < n_rows; r++)
      sums->of[part][r] = local.of[part][r];
}

INLINE void
add_turn (LlkType        type,
          size_t         n_rows,
          const uint8_t *section,
          const uint8_t *ahead,
          const Rows    *rows,
          size_t         run,
          size_t         last,
          Sums          *sums)
{
  switch (n_rows)
    {
    case 1:
      add_sections (type, 1, section, ahead, rows, run, last, sums);
      break;
#ifdef HAS_ROW_INSTANCES
    case 2:
      add_sections (type, 2, section, ahead, rows, run, last, sums);
      break;
    case 3:
      add_sections (type, 3, section, ahead, rows, run, last, sums);
      break;
    case 4:
      add_sections (type, 4, section, ahead, rows, run, last, sums);
      break;
    case 5:
      add_sections (type, 5, section, ahead, rows, run, last, sums);
      break;
    case 6:
      add_sections (type, 6, section, ahead, rows, run, last, sums);
      break;
    case 7:
      add_sections (type, 7, section, ahead, rows, run, last, sums);
      break;
    default:
      add_sections (type, 8, section, ahead, rows, run, last, sums);
      break;
#else
    default:
      add_sections (type, n_rows, section, ahead, rows, run, last, sums);
      break;
#endif
    }
}

static void
multiply_blocks (const LlkMatrix *w,
                 AddTurn          add,
                 size_t           first,
                 size_t           n_panels,
                 const void      *all_rows,
                 size_t           n_rows,
                 float           *y,
                 size_t           y_stride,
                 bool             is_added,
                 void            *scratch)
{
  Rows rows = describe_rows (w, all_rows, scratch);

  for (size_t done = 0; done < n_rows; done += MAX_ROWS)
    {
      const size_t n_now = n_rows - done < MAX_ROWS ? n_rows - done : MAX_ROWS;

      make_terms (w->type, &rows, n_now, w->n_in / 32);
      multiply_rows (w, add, first, n_panels, &rows, n_now, y, y_stride, is_added);
      rows.rows += MAX_ROWS * rows.row_bytes;
      y += MAX_ROWS * y_stride;
    }
}
