// Package command holds what every command of the command line uses: the streams,
// clock and environment of the process, arguments and flags, errors and exit codes.
package command
