#!/bin/sh
# Links the protos that ours import into DIR (default: proto/third_party),
# out of the Go module cache: so they are neither copied into this repository
# nor fetched from anywhere but where all Go modules come from.
set -eu

cd "$(dirname "$0")/../../.."
dir=${1:-proto/third_party}

module_dir() {
	go mod download -json "$1" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",\{0,1\}$/\1/p'
}

link() { # TARGET NAME
	if [ ! -d "$1" ]; then
		echo "link $2: no folder '$1'; is the module cache complete? (go clean -modcache, then again)" >&2
		exit 1
	fi
	mkdir -p "$(dirname "$dir/$2")"
	ln -sfn "$1" "$dir/$2"
}

link "$(module_dir github.com/bufbuild/protovalidate@v1.2.2)/proto/protovalidate" protovalidate
link "$(module_dir github.com/google/gnostic@v0.7.1)/cmd/protoc-gen-openapi/examples/google/api" googleapis/google/api
