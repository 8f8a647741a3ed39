/* cli/chart.h - a line chart as inline SVG, of a size that does not depend on the number of points.
 *
 * Colors come from the page's style sheet, by class. Of many points each of CHART_COLUMNS columns
 * shows the least and the greatest, so that no outlier is lost. Layer: cli (may use base). Threads:
 * any; pure.
 */
#ifndef CLI_CHART_H
#define CLI_CHART_H

#include <stdbool.h>

#include "cli/markup.h"

#define CHART_COLUMNS 400

struct chart_point {
    double x;
    double y; /* not finite: a gap in the line, which is counted below the chart */
};

struct chart {
    const char *title;
    const char *x_label; /* with the unit, as the next */
    const char *y_label;
    const struct chart_point *points; /* by x */
    size_t n;
    bool has_dots;    /* few points, each of which counts */
    bool is_averaged; /* with an exponential average in front of the points */
    bool has_zero;    /* on the y axis, whatever the points are */
};

void chart_write(const struct chart *c, struct markup *m);

#endif
