#!/bin/sh
# Compares the protos with those of BASE, a commit or tag, and fails when a
# client built from BASE would break.
#
# buf cannot do this straight from git, which does not hold the links to
# other people's protos: so BASE is unpacked, linked, and compared as a folder.
set -eu

cd "$(dirname "$0")/../../.."
base=${1:?"breaking.sh: which commit or tag to compare with? (make breaking BASE=v1.0.0)"}

old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

git archive --format=tar "$base" buf.yaml proto >"$old/base.tar"
tar -C "$old" -xf "$old/base.tar"
sh internal/tools/proto/link.sh
sh internal/tools/proto/link.sh "$old/proto/third_party"
go tool -modfile=internal/tools/proto/go.mod buf breaking --against "$old"
