// Package render writes what the command line prints: tables and fields for
// people, JSON and YAML for programs, and the progress of long work on a terminal.
package render
