#!/bin/sh
# Formats and lints the protos, and generates their code.
#
#   generate.sh          brings protos and committed code up to date
#   generate.sh --check  changes nothing; fails when the code is stale
#
# proto/generated.sum is the hash of all that was read and written by the last run
# that succeeded. While it fits, --check has nothing to do, and does not build buf
# (five minutes of one core).
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

sha256() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }

# The hash of protos, settings, tools and generated code. A file that is added,
# renamed or removed changes it too.
sum() {
	{
		find proto -name '*.proto' -not -path 'proto/third_party/*'
		find internal/tools/proto -type f
		echo buf.yaml buf.gen.yaml proto/openapi.yaml | tr ' ' '\n'
		generated_in .
	} | LC_ALL=C sort | while read -r file; do sha256 "$file"; done | sha256 | cut -d ' ' -f 1
}

record=proto/generated.sum
if [ "$mode" = --check ] && [ "$(sum)" = "$(cat "$record" 2>/dev/null)" ]; then
	exit 0
fi

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

if [ "$(sum)" != "$(cat "$record" 2>/dev/null)" ]; then
	if [ "$mode" = --check ]; then
		stale="$stale $record"
	else
		sum >"$record"
	fi
fi
if [ "$mode" = --check ] && [ -n "$stale" ]; then
	echo "generate: not what the protos make:$stale" >&2
	echo "generate: run 'make generate' and commit the result" >&2
	exit 1
fi
