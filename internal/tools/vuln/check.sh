#!/bin/sh
# Checks the modules named, and this one, for known vulnerabilities in code that is
# called. GOVULNDB names another copy of the database, such as file:///srv/vulndb.
# Exit code: 0 none found, 1 some found, 2 not checked.
set -u

database=${GOVULNDB:-https://vuln.go.dev}
root=$PWD
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
result=0
for module in . "$@"; do
	echo "vulncheck: $module"
	(cd "$module" && go tool -modfile="$root/internal/tools/vuln/go.mod" govulncheck -db "$database" ./...) 2>"$errors"
	code=$?
	cat "$errors" >&2
	if grep -q 'fetching vulnerabilities' "$errors"; then
		echo "vulncheck: NOT CHECKED: the database $database cannot be reached from here." >&2
		echo "vulncheck: run it where it can, or give a copy: GOVULNDB=file:///FOLDER (docs/hardening.md says how)." >&2
		exit 2
	fi
	case $code in
	0) ;;
	3) [ "$result" -ne 0 ] || result=1 ;;
	*) result=2 ;;
	esac
done
exit $result
