#!/bin/sh
# Fails when a go.mod or go.sum is not what `go mod tidy` makes of it, or when what
# was downloaded for a module differs from its go.sum. Arguments: the modules with
# code, then -- and those of tools, whose downloads their own build verifies.
set -u

# check MODULE VERIFY
check() {
	failed=0
	if ! (cd "$1" && go mod tidy -diff); then
		echo "modcheck: $1 is not tidy; run: (cd $1 && go mod tidy)" >&2
		failed=1
	fi
	if [ "$2" = yes ] && ! (cd "$1" && go mod verify >/dev/null); then
		echo "modcheck: downloads for $1 differ from its go.sum" >&2
		failed=1
	fi
	return $failed
}

# Side by side: they wait for the disk as much as they compute.
verify=yes
pids=
for module in . "$@"; do
	if [ "$module" = -- ]; then
		verify=no
		continue
	fi
	check "$module" $verify &
	pids="$pids $!"
done
result=0
for pid in $pids; do
	wait "$pid" || result=1
done
exit $result
