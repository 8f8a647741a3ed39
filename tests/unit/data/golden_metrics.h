/* Made by hack/gen-golden-metrics.py; do not edit. */

/* clang-format off */
static struct golden goldens[] = {
    {"metric_of_balanced_is_the_references", 1, 200, 2, "mostly", .accuracy = 0.85, .matthews = 0.7010546607524777, .f1 = 0.84375},
    {"metric_of_rare_is_the_references", 2, 300, 2, "noise", .accuracy = 0.79, .matthews = 0.04026145029187435, .f1 = 0.16},
    {"metric_of_three_labels_is_the_references", 3, 150, 3, "mostly", .accuracy = 0.8, .matthews = 0.7000681799163323, .f1 = 0.8011195876987759},
    {"metric_of_all_wrong_is_the_references", 4, 50, 2, "wrong", .accuracy = 0.0, .matthews = -1.0, .f1 = 0.0},
    {"metric_of_perfect_is_the_references", 5, 40, 3, "same", .accuracy = 1.0, .matthews = 1.0, .f1 = 1.0},
    {"metric_of_one_label_answered_is_the_references", 6, 60, 2, "constant", .accuracy = 0.43333333333333335, .matthews = 0.0, .f1 = 0.0},
    {"metric_of_one_sample_is_the_references", 7, 1, 2, "same", .accuracy = 1.0, .matthews = 0.0, .f1 = 0.0},
    {"metric_of_scores_is_the_references", 8, 100, 0, "mostly", .pearson = 0.7696447227437788, .spearman = 0.7568916891689168},
    {"metric_of_tied_scores_is_the_references", 9, 120, 0, "coarse", .pearson = 0.5757171139583099, .spearman = 0.5649546258695942},
    {"metric_of_opposite_scores_is_the_references", 10, 30, 0, "wrong", .pearson = -1.0, .spearman = -1.0},
    {"metric_of_constant_scores_is_the_references", 11, 30, 0, "constant", .pearson = 0.0, .spearman = 0.0},
    {"metric_of_far_scores_is_the_references", 12, 50, 0, "far", .pearson = 0.7650464964023256, .spearman = 0.7549099639855942},
    {"metric_of_three_labels_one_answered_is_the_references", 13, 60, 3, "constant", .accuracy = 0.26666666666666666, .matthews = 0.0, .f1 = 0.14035087719298245},
    {"metric_of_one_sample_of_three_labels_is_the_references", 14, 1, 3, "same", .accuracy = 1.0, .matthews = 0.0, .f1 = 1.0},
    {"metric_of_three_labels_all_wrong_is_the_references", 15, 50, 3, "wrong", .accuracy = 0.0, .matthews = -0.5, .f1 = 0.0},
};
/* clang-format on */
