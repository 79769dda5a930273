#!/bin/sh
# Fails when a go.mod or go.sum is not what `go mod tidy` makes of it, or when what
# was downloaded for a module differs from its go.sum. Arguments: the modules with
# code, then -- and those of tools, whose downloads their own build verifies.
set -u

verify=yes
result=0
for module in . "$@"; do
	if [ "$module" = -- ]; then
		verify=no
		continue
	fi
	if ! (cd "$module" && go mod tidy -diff); then
		echo "modcheck: $module is not tidy; run: (cd $module && go mod tidy)" >&2
		result=1
	fi
	if [ $verify = yes ] && ! (cd "$module" && go mod verify >/dev/null); then
		echo "modcheck: downloads for $module differ from its go.sum" >&2
		result=1
	fi
done
exit $result
