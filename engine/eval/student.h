/* student.h: Student's t distribution, for intervals of few independent units. */
#ifndef EVAL_STUDENT_H
#define EVAL_STUDENT_H

/* The t that |T| exceeds with probability 0.05, T of Student's distribution with `degrees` of freedom (1 or more, not
 * necessarily an integer): half the width of a 95 % interval in standard errors. 12.71 at 1, 1.96 in the limit; the
 * relative error is below 1e-12. NAN below 1 and for NAN. */
double student_quantile(double degrees);

#endif
