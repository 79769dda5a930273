#!/bin/sh
# Formats and lints the protos, and generates their code.
#
#   generate.sh          brings protos and committed code up to date
#   generate.sh --check  changes nothing; fails when the code is stale
#
# All is generated into a folder of its own first: a proto that does not
# compile leaves the committed code alone, files that did not change keep
# their time, and code whose proto is gone is seen as such.
set -eu

cd "$(dirname "$0")/../../.."
mode=${1:-write}

buf() { go tool -modfile=internal/tools/proto/go.mod buf "$@"; }

# Every generated file below DIR, relative to it.
generated_in() {
	(cd "$1" && find proto docs/openapi \( -name '*.pb.go' -o -name '*.pb.gw.go' -o -name '*.swagger.json' \) \
		-type f -not -path 'proto/third_party/*' 2>/dev/null | sort)
}

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

sh internal/tools/proto/link.sh
if [ "$mode" = --check ]; then
	buf format --diff --exit-code --path proto/carillon || {
		echo "generate: a proto is not formatted (see above); run 'make generate'" >&2
		exit 1
	}
else
	buf format --write --path proto/carillon
fi
buf lint
buf generate --output "$fresh"

stale=
for file in $( (generated_in "$fresh"; generated_in .) | sort -u); do
	cmp -s "$fresh/$file" "$file" && continue
	stale="$stale $file"
	[ "$mode" = --check ] && continue
	if [ -e "$fresh/$file" ]; then
		mkdir -p "$(dirname "$file")"
		cp "$fresh/$file" "$file"
		echo "generated $file"
	else
		rm "$file"
		echo "removed $file: no proto generates it"
	fi
done

if [ "$mode" = --check ] && [ -n "$stale" ]; then
	echo "generate: not what the protos make:$stale" >&2
	echo "generate: run 'make generate' and commit the result" >&2
	exit 1
fi
