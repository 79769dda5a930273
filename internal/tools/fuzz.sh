#!/bin/sh
# Runs every fuzz test of the named packages, one after the other (go can fuzz
# only one at a time), each for $FUZZTIME.
set -eu

cd "$(dirname "$0")/../.."
for package in $(go list "${@:-./...}"); do
	# Not `go test -list`: that compiles every package to find no fuzz test.
	folder=$(go list -f '{{.Dir}}' "$package")
	for name in $(cat "$folder"/*_test.go 2>/dev/null | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p'); do
		echo "== $package $name"
		go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-30s}" "$package"
	done
done
