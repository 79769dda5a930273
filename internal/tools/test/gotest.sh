#!/bin/sh
# Runs go test -json for gotestsum, which knows only one module, and which would pass a
# package whose tests never ended (see died).
#
#   gotest.sh                       all of PACKAGES; with ./... also those of MODULES
#   gotest.sh -test.run=RE PACKAGE  a failed test once more (gotestsum adds the arguments)
#
# FLAGS go to go test; RUN, if set, selects tests in the first run. EVENTS is the file into which gotestsum writes what it has read.
set -u

# in_module DIR ARGUMENT... tests without a profile: go test would compile everything that
# cmd/carillon imports once more. Without vet, which reads all dependencies again for
# each set of flags: make lint does the same checks.
in_module() (
	cd "$1" && shift && go test -json -pgo=off -vet=off -timeout=20m $FLAGS "$@"
)

# died lists the packages that failed without the line FAIL that ends a package's tests:
# a panic, a timeout, TestMain, goroutines that are left. Tests after that never ran.
died() {
	awk -F'"' '
		/"Action":"output","Package":"[^"]*","Output":"FAIL\\n"/ { ended[$12] = 1 }
		/"Action":"fail","Package":"[^"]*","Elapsed"/ && !ended[$12] { print $12 }' "$EVENTS"
}

if [ $# -eq 0 ]; then
	# The modules' few tests wait for programs of others: they run beside the rest. Their
	# lines come last, or they could end up inside a line of the rest.
	result=0
	events=$(mktemp)
	trap 'rm -f "$events"' EXIT
	(
		for module in $MODULES; do
			in_module "$module" ./... || result=$?
		done
		exit $result
	) >"$events" &
	in_module . ${RUN:+-run="$RUN"} $PACKAGES || result=$?
	wait $! || result=$?
	cat "$events"
	exit $result
fi

# Any exit code above 1 ends gotestsum's reruns.
[ -z "$(died)" ] || exit 2
for module in $MODULES; do
	case $2/ in */"$module"/*) in_module "$module" "$@"; exit ;; esac
done
in_module . "$@"
