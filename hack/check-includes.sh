#!/bin/bash
# Checks that the C files of a folder include only headers that the folder may use: those of the
# listed folders, but of other folders none whose first line calls it private:
# "/* nn/lanes.h (private) - ...".
#
#   hack/check-includes.sh common/kube kube http base
set -u
folder=$1
shift
allowed=" $* "
bad=0
while IFS=: read -r file line text; do
    header=${text#*\"}
    header=${header%\"*}
    used=${header%%/*}
    case $allowed in
    *" $used "*) ;;
    *)
        echo "$file:$line: ${text} - ${folder##*/} may use only:${allowed}"
        bad=1
        ;;
    esac
    if [ "$used" != "${folder##*/}" ] &&
        head -qn1 {common,operator,worker,.}/"$header" 2>/dev/null | grep -qF '(private)'; then
        echo "$file:$line: ${text} - this header is private to ${used}"
        bad=1
    fi
done < <(grep -nH '^#include "' "$folder"/*.[ch] 2>/dev/null | grep -v "/main.c:")
exit $bad
