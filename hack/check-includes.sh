#!/bin/bash
# Checks that the C files of a folder include only headers that the folder may use.
#
#   hack/check-includes.sh common/kube kube http base
set -u
folder=$1
shift
allowed=" $* "
bad=0
while IFS=: read -r file line text; do
    used=${text#*\"}
    used=${used%%/*}
    case $allowed in *" $used "*) continue ;; esac
    echo "$file:$line: ${text} - ${folder##*/} may use only:${allowed}"
    bad=1
done < <(grep -nH '^#include "' "$folder"/*.[ch] 2>/dev/null | grep -v "/main.c:")
exit $bad
