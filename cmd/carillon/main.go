// Command carillon is the whole of Carillon in one binary: the server roles and
// the command line. See package cli.
package main

import "github.com/carillon/carillon/internal/cli"

// version is set by the linker in a release: -ldflags "-X main.version=v1.2.3".
var version string

func main() { cli.Main(version) }
