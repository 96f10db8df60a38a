/*
 * scores.h - how raw scores of a classifier become its answer (OP_ClassScores): the rules of onnxruntime, whose answers exporters' users compare with.
 *
 * Threads: any.
 */
#ifndef SCORES_H
#define SCORES_H

/*
 * ATTR_rule. Raw is [rows, columns], the answer an index per row and [rows, classes] scores after ATTR_post_transform.
 *   MOST      the class with the highest score; a single column of one class: 1 where it is above 0.
 *   PAIR      one column of a linear classifier of two classes: above 0 is class 1; the scores are 1 - s and s.
 *   HALF      trees of two classes that have weights >= 0 for one only: above 0.5 is class 1; the scores are 1 - s and s.
 *   SIGN      the same with weights of both signs: above 0 is class 1; the scores are -s and s.
 *   BOTH      trees of two classes that have weights for both: class 1 where its own score is above 0. With two base values only the first sum counts.
 *   *_SECOND  HALF and SIGN where the weights are for class 1 by its number: the scores are 0 and s, and base values do not count.
 * ATTR_class_ids: the classes that may be the highest (MOST), where some have no weights.
 */
enum score_rule {
    SCORE_MOST = 0,
    SCORE_PAIR = 1,
    SCORE_HALF = 2,
    SCORE_SIGN = 3,
    SCORE_BOTH = 4,
    SCORE_HALF_SECOND = 5,
    SCORE_SIGN_SECOND = 6,
};

#endif
